"""Displays of a fit: the function of one or two inputs, leave-one-out predictions and residuals, support values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .. import arrays, diagnose
from ..estimators import LSSVC
from ..progress import counted
from ._display import COLOURS, MARKERS, REFERENCE, Axes, Display, Model, at_points, one_output


class FitDisplay(Display):
    """The fitted function of one or two inputs, with intervals and support vectors.

    Regression with one input shows the curve, its interval and the data; with two inputs, filled contours of the
    prediction and dashed lines of equal interval width. Classification with one input shows the probability of the
    second class; with two inputs, the regions of the classes, darker where the class is more certain, and for two
    classes the lines of probability 1/2 and `coverage`.

    Parameters
    ----------
    grid : tuple of 1 or 2 arrays
        Values of each input.
    response : array (len(grid[0]),) or (len(grid[1]), len(grid[0]))
        Predictions; for two classes, the probability of the second; for more, the last axis is the class.
    interval : array, shape of response plus a last axis of 2, or None
        Lower and upper ends.
    X, y : arrays (n_rows, 1 or 2), (n_rows,)
        The data drawn; for classification, y holds class indices.
    support_vectors : array (n, 1 or 2)
    classes : array or None
        The class labels of a classifier.
    coverage : float
        Coverage of the intervals.
    names : list of str
        Names of the inputs.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    surface_, points_, support_
        The artists: curve or contours, data points, marks of the support vectors.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import FitDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> display = FitDisplay.from_estimator(LSSVR().fit(X, y))  # doctest: +SKIP
    """

    grid: Sequence[np.ndarray]
    response: np.ndarray
    X: np.ndarray
    y: np.ndarray
    support_vectors: np.ndarray
    interval: np.ndarray | None = None
    classes: Any = None
    coverage: float = 0.9
    names: Sequence[str] = ("x", "z")

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        *,
        coverage: float = 0.9,
        output: int = 0,
        grid_resolution: int | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a model of one or two inputs over the range of its training data.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted on one or two columns. Of an LSSVC whose coding and loss were compared, or whose loss is not
            "squared", the rows that are support vectors are drawn; it keeps no others. Of a model fitted by
            `partial_fit` or `fit_chunks`, the sample of rows that it keeps is drawn.
        coverage : float
            Coverage of the interval.
        output : int
            The target to draw, if there are several.
        grid_resolution : int or None
            Number of values per input; None means 300 for one input, 60 for two.
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot` (one input) or `contourf` (two).

        Returns
        -------
        display : FitDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        if len(estimator.fitted_.layout.sources) > 2 or estimator.kernel_.is_precomputed:
            remedy = "use LeaveOneOutDisplay or EffectsDisplay"
            raise ValueError(f"FitDisplay draws models of 1 or 2 inputs, not of {estimator.n_features_in_}: {remedy}.")
        parts = [member for member, _ in diagnose.members(estimator)]
        # the rows of a stack are those of a member that keeps all training rows, if there is one
        problem = next((part.fitted_.problem for part in parts if part.fitted_.problem is not None), None)
        problem = problem or diagnose.kept_rows(parts[0], "FitDisplay").problem
        X, y = arrays.to_numpy(problem.X), problem.targets
        support_vectors, names = diagnose.basis_points(estimator), diagnose.feature_names(estimator)
        size = grid_resolution or (300 if X.shape[1] == 1 else 60)
        low, high = X.min(axis=0), X.max(axis=0)
        margin = np.where(high > low, 0.03 * (high - low), 1.0)
        lines = np.linspace(low - margin, high + margin, size)
        if estimator.fitted_.layout.encoder is not None:  # even steps on the scale of the model
            X, support_vectors, lines = map(estimator.fitted_.layout.encoder.unscaled, (X, support_vectors, lines))
        grid = tuple(lines.T)
        inputs = np.column_stack([axis.reshape(-1) for axis in np.meshgrid(*grid)])
        shape = (size,) * len(grid)
        interval = classes = None
        if isinstance(estimator, LSSVC):
            y, classes, response = problem.labels, estimator.classes_, at_points(estimator.predict_proba, inputs)
            response = response[:, 1] if len(classes) == 2 else response
        else:
            y, response = one_output(y, output), one_output(at_points(estimator.predict, inputs), output)
            interval = at_points(estimator.predict_interval, inputs, coverage).reshape(*shape, 2, -1)[..., output]
        response = response.reshape(*shape, *response.shape[1:])
        drawn: dict[str, Any] = {"X": X, "y": y, "support_vectors": support_vectors, "names": names}
        drawn |= {"response": response, "interval": interval, "coverage": coverage, "classes": classes}
        return cls(grid=grid, **drawn).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        if len(self.grid) == 1:
            return self._draw_curves(kwargs)
        title = self._draw_contours(kwargs) if self.classes is None else self._draw_regions(kwargs)
        if len(self.support_vectors) < len(self.X):
            style: dict[str, Any] = {"ms": 8, "mfc": "none", "mec": COLOURS[1], "mew": 1.1}
            label = counted(len(self.support_vectors), "support vector")
            (self.support_,) = self.ax_.plot(*self.support_vectors.T, "o", label=label, **style)
        else:  # every row is a support vector: no rings
            label = f"all {len(self.X)} rows drawn are support vectors"
            (self.support_,) = self.ax_.plot([], [], " ", label=label)
        self._finish(self.names[0], self.names[1], title)

    def _draw_curves(self, kwargs: dict[str, Any]) -> None:
        """Draw the function of one input, or the probabilities of the classes."""
        ax, x, classes = self.ax_, self.grid[0], self.classes
        if classes is None:
            labels, height, alpha, texts = ["prediction"], self.y, 0.6, ("y", "Fit")
        else:  # the rows of a class are a strip, one above the other
            labels = [f"P({label})" for label in classes[0 if self.response.ndim == 2 else 1 :]]
            height, alpha = self.y / max(len(classes) - 1, 1), 0.4
            texts = f"probability of {classes[-1]}", "Class probability"
        curves = zip(self.response.reshape(len(x), -1).T, labels, strict=True)
        self.surface_: Any = [self._curve(x, values, label, kwargs) for values, label in curves]
        if self.interval is not None:
            style = {"color": self.surface_[0].get_color(), "alpha": 0.15, "lw": 0}
            ax.fill_between(x, *self.interval.T, label=f"{100 * self.coverage:g} % interval", **style)
        style = {"color": "#333333", "alpha": alpha, "ms": 4, "mew": 0, "label": "data"}
        self.points_: Any = ax.plot(self.X[:, 0], height, "o", **style)[0]
        support = self.support_vectors[:, 0]
        label = counted(len(support), "support vector")
        self.support_ = self._rug(ax, support, 0.015, color=COLOURS[1], alpha=0.5, ms=7, mew=None, label=label)
        ax.set_xlim(x[0], x[-1])
        self._finish(self.names[0], *texts)

    def _draw_contours(self, kwargs: dict[str, Any]) -> str:
        """Draw the prediction of two inputs and the width of its interval."""
        ax, (x, z) = self.ax_, self.grid
        self.surface_ = ax.contourf(x, z, self.response, **{"levels": 14, "cmap": "viridis", **kwargs})
        self.figure_.colorbar(self.surface_, ax=ax, label="prediction")
        style = {"c": self.y, "cmap": self.surface_.cmap, "s": 16, "lw": 0.5, "ec": "white"}
        self.points_ = ax.scatter(*self.X.T, label="data", **style)
        self.points_.set_clim(*self.surface_.get_clim())
        width: Any = np.diff(np.asarray(self.interval), axis=-1)[..., 0]
        if np.isfinite(width).all() and np.ptp(width) > 1e-9 * np.max(width):
            lines = ax.contour(x, z, width, levels=5, colors="white", linestyles="--", linewidths=0.8)
            ax.clabel(lines, fontsize=7, fmt="%.3g")
            ax.plot([], [], "--", color="#999999", lw=0.8, label=f"width of {100 * self.coverage:g} % interval")
        return "Prediction and interval width"

    def _draw_regions(self, kwargs: dict[str, Any]) -> str:
        """Draw the regions of the classes, darker where the class is more certain."""
        from matplotlib.colors import to_rgb

        ax, (x, z), classes = self.ax_, self.grid, self.classes
        p = self.response
        if p.ndim == 2:
            p = np.stack([1.0 - p, p], axis=-1)
        colours = np.array([to_rgb(COLOURS[c % len(COLOURS)]) for c in range(len(classes))])
        winner = np.argmax(p, axis=-1)
        sure = (p.max(axis=-1) - 1.0 / len(classes)) / (1.0 - 1.0 / len(classes))
        image = 1.0 - (0.08 + 0.42 * sure[..., None]) * (1.0 - colours[winner])
        step = (x[1] - x[0]) / 2, (z[1] - z[0]) / 2
        extent = (x[0] - step[0], x[-1] + step[0], z[0] - step[1], z[-1] + step[1])
        style = {"origin": "lower", "aspect": "auto", "interpolation": "bilinear", "extent": extent}
        self.surface_ = ax.imshow(image, **{**style, **kwargs})
        if len(classes) == 2:
            levels = sorted({round(1 - self.coverage, 9), 0.5, round(self.coverage, 9)})
            lines = ax.contour(x, z, p[..., 1], levels=levels, colors="#333333", linewidths=1.0)
            ax.clabel(lines, fontsize=7, fmt="%.2g")
        marks: dict[str, Any] = {"s": 16, "lw": 0.5, "ec": "white"}
        self.points_ = []
        for c, label in enumerate(classes):
            self.points_.append(ax.scatter(*self.X[self.y == c].T, label=str(label), color=colours[c], **marks))
        ax.set(xlim=(x[0], x[-1]), ylim=(z[0], z[-1]))
        return "Classes and their probability"


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
        cls, estimator: Model, *, output: int = 0, ax: Axes | None = None, name: str | None = None, **kwargs: Any
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
        diagnose.check_fitted(estimator, "estimator")
        if isinstance(estimator, LSSVC):
            remedy = "use ReliabilityDisplay, or ConfusionMatrixDisplay.from_predictions(y, model.loo_predictions_)"
            raise ValueError(f"LeaveOneOutDisplay is for regression; for classification {remedy} of scikit-learn.")
        rows = diagnose.honest_values(estimator)
        actual, predicted = one_output(rows.actual, output), one_output(rows.predicted, output)
        if name is None:
            score = diagnose.number_scores(actual[:, None], predicted[:, None], rows.given)
            r2 = f", R2 {score['r2']:.3f}" if np.isfinite(score["r2"]) else ""
            name = f"RMSE {score['rmse']:.4g}{r2}"
        return cls(actual=actual, predicted=predicted, name=name).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        style = {"s": 14, "alpha": 0.6, "linewidths": 0, "color": self._next_colour(), "label": self.name or None}
        self.points_ = self._points(self.predicted, self.actual, style, kwargs)
        middle = float(np.mean(self.actual))
        self.diagonal_ = self.ax_.axline((middle, middle), slope=1, ls="--", **REFERENCE)
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

    predicted: np.ndarray
    residuals: np.ndarray
    weights: np.ndarray
    n_labels: int = 5

    @classmethod
    def from_estimator(
        cls, estimator: Model, *, output: int = 0, n_labels: int = 5, ax: Axes | None = None, **kwargs: Any
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
        diagnose.check_fitted(estimator, "estimator")
        rows = diagnose.loo_values(estimator)
        predicted, residuals = one_output(rows.predicted, output), one_output(rows.residuals, output)
        labels = 0 if rows.sampled else n_labels
        return cls(predicted=predicted, residuals=residuals, weights=rows.robust, n_labels=labels).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax, weights, predicted, residuals = self.ax_, self.weights, self.predicted, self.residuals
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


class SupportSpectrumDisplay(Display):
    """The support values ``|alpha|``, sorted from the largest down (Suykens et al. 2002, fig. 11).

    Parameters
    ----------
    support_values : array (n,)
        Magnitudes of the coefficients, largest first.
    order : array (n,) or None
        Their indices in ``dual_coef_``.
    name : str
        Label of the curve.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    line_
        The curve.

    See Also
    --------
    SparsityPathDisplay : The error after dropping the smallest ones.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> from lssvm.plotting import SupportSpectrumDisplay
    >>> X, y = datasets.make_sinc(300, outliers=3, random_state=0)
    >>> display = SupportSpectrumDisplay.from_estimator(LSSVR(kernels.RBF()).fit(X, y))  # doctest: +SKIP
    """

    support_values: np.ndarray
    order: np.ndarray | None = None
    name: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: Model, *, ax: Axes | None = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the sorted magnitudes of ``dual_coef_``; with several outputs, the norms of its rows.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted.
        ax : matplotlib axes or None
            If None, a new figure is created.
        name : str or None
            Label of the curve; None means the number of support vectors.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : SupportSpectrumDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        diagnose.check_single(estimator, "The spectrum of support values")
        coef = arrays.to_numpy(estimator.dual_coef_)
        size = np.abs(coef) if coef.ndim == 1 else np.linalg.norm(coef, axis=1)
        order = np.argsort(-size, kind="stable")
        label = counted(len(size), "support vector") if name is None else name
        return cls(support_values=size[order], order=order, name=label).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        values = np.asarray(self.support_values)
        ranks = np.arange(1, len(values) + 1)
        self.line_ = self._curve(ranks, values, self.name, kwargs, **(MARKERS if len(values) <= 30 else {}))
        self.line_.sticky_edges.y.append(0.0)
        self.ax_.update_datalim([(0.0, 0.0)])  # the axes start at 0
        self.ax_.autoscale_view()
        self._finish("rank", r"support value $|\alpha|$", "Sorted support values")
