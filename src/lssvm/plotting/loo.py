"""Displays of leave-one-out values: predictions against actual values, residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from ..diagnose import check_fitted, loo_values, number_scores
from ..estimators import LSSVC, LSSVR
from ._display import COLOURS, REFERENCE, Axes, Display, one_output


@dataclass(kw_only=True, eq=False, repr=False)
class LeaveOneOutDisplay(Display):
    """Leave-one-out predictions against the actual values.

    Parameters
    ----------
    actual, predicted : arrays (n_rows,)
    name : str
        Label of the points.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    points_, diagonal_
        The artists.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import LeaveOneOutDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> display = LeaveOneOutDisplay.from_estimator(LSSVR().fit(X, y))  # doctest: +SKIP
    """

    actual: np.ndarray
    predicted: np.ndarray
    name: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: LSSVR | LSSVC,
        *,
        output: int = 0,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the leave-one-out predictions of a fitted `LSSVR`.

        Parameters
        ----------
        estimator : LSSVR
            Fitted.
        output : int
            The target to draw, if there are several.
        ax : matplotlib axes or None
            If None, a new figure is created.
        name : str or None
            Label of the points; None means their root mean square error and R2.
        **kwargs
            Passed to `matplotlib.axes.Axes.scatter`.

        Returns
        -------
        display : LeaveOneOutDisplay
        """
        check_fitted(estimator, "estimator")
        if is_classifier(estimator):
            raise ValueError(
                "LeaveOneOutDisplay is for regression; for classification use ReliabilityDisplay, or "
                "sklearn.metrics.ConfusionMatrixDisplay.from_predictions(y, model.loo_predictions_)."
            )
        rows = loo_values(estimator)
        actual, predicted = one_output(rows.actual, output), one_output(rows.predicted, output)
        if name is None:
            score = number_scores(actual[:, None], predicted[:, None], rows.given)
            r2 = f", R2 {score['r2']:.3f}" if np.isfinite(score["r2"]) else ""
            name = f"RMSE {score['rmse']:.4g}{r2}"
        return cls(actual=actual, predicted=predicted, name=name).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        style = {"s": 14, "alpha": 0.6, "linewidths": 0, "color": self._next_colour(), "label": self.name or None}
        self.points_ = self._points(self.predicted, self.actual, style, kwargs)
        middle = float(np.mean(self.actual))
        self.diagonal_ = self.ax_.axline((middle, middle), slope=1, ls="--", **REFERENCE)
        self._finish("leave-one-out prediction", "actual value", "Leave-one-out: predicted against actual")


@dataclass(kw_only=True, eq=False, repr=False)
class ResidualsDisplay(Display):
    """Leave-one-out residuals against leave-one-out predictions, coloured by robust weight.

    Parameters
    ----------
    predicted, residuals : arrays (n_rows,)
        For classification: decision values, and coded target minus decision value.
    weights : array (n_rows,)
        Robust weights; all 1 if there are none.
    n_labels : int
        How many of the largest residuals are labelled with their row number.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    points_, labels_
        The artists.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import ResidualsDisplay
    >>> X, y = datasets.make_sinc(300, outliers=3, random_state=0)
    >>> display = ResidualsDisplay.from_estimator(LSSVR(robust="hampel").fit(X, y))  # doctest: +SKIP
    """

    predicted: np.ndarray
    residuals: np.ndarray
    weights: np.ndarray
    n_labels: int = 5

    @classmethod
    def from_estimator(
        cls, estimator: LSSVR | LSSVC, *, output: int = 0, n_labels: int = 5, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw the leave-one-out residuals of a fitted model.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted.
        output : int
            The target (or class) to draw, if there are several.
        n_labels : int
            How many of the largest residuals are labelled with their row number, if it is known.
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.scatter`.

        Returns
        -------
        display : ResidualsDisplay
        """
        check_fitted(estimator, "estimator")
        rows = loo_values(estimator)
        display = cls(
            predicted=one_output(rows.predicted, output),
            residuals=one_output(rows.residuals, output),
            weights=rows.robust,
            n_labels=0 if rows.sampled else n_labels,
        )
        return display.plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax, weights = self.ax_, np.asarray(self.weights)
        predicted, residuals = np.asarray(self.predicted), np.asarray(self.residuals)
        ax.axhline(0.0, **REFERENCE)
        weighted = bool(np.ptp(weights) > 0)
        by_weight = {"c": weights, "cmap": "viridis", "vmin": 0.0, "vmax": 1.0}
        style = {"s": 18, "linewidths": 0.4, "edgecolors": "#333333"}
        style |= by_weight if weighted else {"color": COLOURS[0]}
        self.points_ = self._points(predicted, residuals, style, kwargs)
        if weighted:
            self.figure_.colorbar(self.points_, ax=ax, label="robust weight")
        beside: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "size": 8}
        largest = np.argsort(-np.abs(residuals), kind="stable")[: self.n_labels]
        self.labels_ = [ax.annotate(f"row {i}", (predicted[i], residuals[i]), **beside) for i in largest]
        self._finish("leave-one-out prediction", "leave-one-out residual", "Leave-one-out residuals")
