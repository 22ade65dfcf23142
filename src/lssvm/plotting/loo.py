"""Displays of leave-one-out values: predictions against actual values, residuals, reliability of probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from .. import arrays
from ..arrays import ArrayLike
from ..diagnose import (
    check_fitted,
    class_codes,
    class_scores,
    loo_probabilities,
    loo_values,
    number_scores,
    reliability,
)
from ..estimators import LSSVC, LSSVR
from ._display import COLOURS, Display, one_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LeaveOneOutDisplay", "ReliabilityDisplay", "ResidualsDisplay"]


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

    points_: Any
    diagonal_: Any

    def __init__(self, *, actual: np.ndarray, predicted: np.ndarray, name: str = "") -> None:
        self.actual = actual
        self.predicted = predicted
        self.name = name

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
        ax = self.ax_
        style = {"s": 14, "alpha": 0.6, "linewidths": 0, "color": self._next_colour(), "label": self.name or None}
        self.points_ = ax.scatter(self.predicted, self.actual, **_scatter_style(style, kwargs))
        self.diagonal_ = self._diagonal(float(np.mean(self.actual)))
        self._finish("leave-one-out prediction", "actual value", "Leave-one-out: predicted against actual")


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

    points_: Any
    labels_: Any

    def __init__(self, *, predicted: np.ndarray, residuals: np.ndarray, weights: np.ndarray, n_labels: int = 5) -> None:
        self.predicted = predicted
        self.residuals = residuals
        self.weights = weights
        self.n_labels = n_labels

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
        ax = self.ax_
        predicted, residuals = np.asarray(self.predicted), np.asarray(self.residuals)
        weights = np.asarray(self.weights)
        ax.axhline(0.0, color="#777777", lw=1, zorder=1)
        style: dict[str, Any] = {"s": 18, "linewidths": 0.4, "edgecolors": "#333333", "color": COLOURS[0]}
        weighted = bool(np.ptp(weights) > 0)
        if weighted:
            del style["color"]
            style.update(c=weights, cmap="viridis", vmin=0.0, vmax=1.0)
        self.points_ = ax.scatter(predicted, residuals, **_scatter_style(style, kwargs))
        if weighted:
            self.figure_.colorbar(self.points_, ax=ax, label="robust weight")
        largest = np.argsort(-np.abs(residuals), kind="stable")[: self.n_labels]
        self.labels_ = [
            ax.annotate(
                f"row {i}", (predicted[i], residuals[i]), (5, 0), textcoords="offset points", va="center", size=8
            )
            for i in largest
        ]
        self._finish("leave-one-out prediction", "leave-one-out residual", "Leave-one-out residuals")


class ReliabilityDisplay(Display):
    """Predicted probability against the observed frequency in bins of equal count, with 95 % intervals.

    For two classes, the probability is that of the second class; for more, that of the predicted class.

    Parameters
    ----------
    predicted, observed : arrays (n_bins,)
    count : array (n_bins,)
        Number of rows in each bin.
    low, high : arrays (n_bins,)
        Ends of the interval of each observed frequency.
    name : str
        Label of the curve.
    of : str
        The event whose probability is drawn.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    line_, diagonal_
        The artists.

    Examples
    --------
    >>> from lssvm import LSSVC, datasets
    >>> from lssvm.plotting import ReliabilityDisplay
    >>> X, y = datasets.load_ripley(return_X_y=True)
    >>> display = ReliabilityDisplay.from_estimator(LSSVC().fit(X, y))  # doctest: +SKIP
    """

    line_: Any
    diagonal_: Any

    def __init__(
        self,
        *,
        predicted: np.ndarray,
        observed: np.ndarray,
        count: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        name: str = "",
        of: str = "the class",
    ) -> None:
        self.predicted = predicted
        self.observed = observed
        self.count = count
        self.low = low
        self.high = high
        self.name = name
        self.of = of

    @classmethod
    def from_estimator(
        cls,
        estimator: LSSVR | LSSVC,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        n_bins: int = 10,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the probabilities of new data, or the leave-one-out probabilities of the training data.

        Parameters
        ----------
        estimator : LSSVC
            Fitted.
        X, y : arrays or None
            New rows and their classes; None means leave-one-out on the training rows.
        n_bins : int
            Number of bins of equal count.
        ax : matplotlib axes or None
            If None, a new figure is created.
        name : str or None
            Label of the curve; None means the log loss.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ReliabilityDisplay
        """
        if (X is None) != (y is None):
            raise ValueError("ReliabilityDisplay: give both X and y, or neither for leave-one-out.")
        if X is None or y is None:
            check_fitted(estimator, "estimator")
            given = loo_values(estimator).given
            probability, codes = (array[given > 0] for array in loo_probabilities(estimator))
            weights = given[given > 0]
        else:
            check_is_fitted(estimator)
            probability, codes = arrays.to_numpy(estimator.predict_proba(X)), class_codes(estimator, y)
            weights = np.ones(len(codes))
        loss = class_scores(probability, codes, weights)["log_loss"]
        label = f"{'leave-one-out' if X is None else 'new data'}: log loss {loss:.3f}" if name is None else name
        two = probability.shape[1] == 2
        of = f"class {estimator.classes_[1]}" if two else "the predicted class"
        return cls(**reliability(probability, codes, n_bins, weights), name=label, of=of).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax = self.ax_
        self.line_ = self._curve(self.predicted, self.observed, self.name, kwargs)
        ax.vlines(self.predicted, self.low, self.high, color=self.line_.get_color(), lw=1, alpha=0.6)
        self.diagonal_ = self._diagonal(0.0)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        self._finish(f"predicted probability of {self.of}", "observed frequency", "Reliability of the probabilities")


def _scatter_style(style: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The default style, overridden by the user's options and their aliases; a given colour replaces all defaults."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.collections import Collection

    given = normalize_kwargs(kwargs, Collection)
    if {"c", "color", "facecolors"} & given.keys():
        style = {name: value for name, value in style.items() if name not in ("c", "color", "cmap", "vmin", "vmax")}
    return {**style, **given}
