"""The display of the fitted function of one or two inputs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from .. import arrays
from .._words import counted
from ..diagnose import basis_points, check_fitted, feature_names, kept_rows, members
from ..estimators import LSSVC, LSSVR
from ._display import COLOURS, Axes, Display, one_output, rug


@dataclass(kw_only=True, eq=False, repr=False)
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
        estimator: LSSVR | LSSVC,
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
        check_fitted(estimator, "estimator")
        if len(estimator.fitted_.layout.sources) > 2 or estimator.kernel_.is_precomputed:
            raise ValueError(
                f"FitDisplay draws models of 1 or 2 inputs, this one has {estimator.n_features_in_}: use "
                "LeaveOneOutDisplay, or use sklearn.inspection.PartialDependenceDisplay."
            )
        X, y = _rows(estimator)
        size = grid_resolution or (300 if X.shape[1] == 1 else 60)
        grid = tuple(_padded(column, size) for column in X.T)
        inputs = np.column_stack([axis.reshape(-1) for axis in np.meshgrid(*grid)])
        shape = tuple(len(axis) for axis in reversed(grid))
        interval = classes = None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")  # the grid has none
            if is_classifier(estimator):
                classes, response = estimator.classes_, estimator.predict_proba(inputs)
                response = response[:, 1] if len(classes) == 2 else response
            else:
                y, response = one_output(y, output), one_output(estimator.predict(inputs), output)
                interval = estimator.predict_interval(inputs, coverage).reshape(*shape, 2, -1)[..., output]
        display = cls(
            grid=grid,
            response=response.reshape(*shape, *response.shape[1:]),
            interval=interval,
            X=X,
            y=y,
            support_vectors=basis_points(estimator),
            classes=classes,
            coverage=coverage,
            names=feature_names(estimator),
        )
        return display.plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        draw = self._draw_curve if len(self.grid) == 1 else self._draw_surface
        self._finish(*draw(kwargs))

    def _draw_curve(self, kwargs: dict[str, Any]) -> tuple[str, str, str]:
        """Draw the function of one input, and return the labels of the axes and the title."""
        ax, x, classes = self.ax_, self.grid[0], self.classes
        several = np.ndim(self.response) == 2
        curves = np.asarray(self.response).reshape(len(x), -1).T
        labels = ["prediction"] if classes is None else [f"P({label})" for label in classes[0 if several else 1 :]]
        self.surface_: Any = [
            self._curve(x, values, label, kwargs, markers=False) for values, label in zip(curves, labels, strict=True)
        ]
        if self.interval is not None:
            low, high = np.moveaxis(np.asarray(self.interval), -1, 0)
            style = {"color": self.surface_[0].get_color(), "alpha": 0.15, "lw": 0}
            ax.fill_between(x, low, high, label=f"{100 * self.coverage:g} % interval", **style)
        # one strip per class, from bottom to top
        height = self.y if classes is None else np.asarray(self.y) / max(len(classes) - 1, 1)
        style = {"color": "#333333", "alpha": 0.6 if classes is None else 0.4, "ms": 4, "mew": 0, "label": "data"}
        self.points_: Any = ax.plot(np.asarray(self.X)[:, 0], height, "o", **style)[0]
        support = np.asarray(self.support_vectors)[:, 0]
        label = counted(len(support), "support vector")
        self.support_ = rug(ax, support, 0.015, color=COLOURS[1], alpha=0.5, ms=7, mew=None, label=label)
        ax.set_xlim(x[0], x[-1])
        if classes is None:
            return self.names[0], "y", "Fit"
        return self.names[0], f"probability of {classes[-1]}", "Class probability"

    def _draw_surface(self, kwargs: dict[str, Any]) -> tuple[str, str, str]:
        """Draw the function of two inputs, and return the labels of the axes and the title."""
        if self.classes is None:
            self._draw_contours(kwargs)
            title = "Prediction and interval width"
        else:
            self._draw_regions(kwargs)
            title = "Classes and their probability"
        ax, support = self.ax_, np.asarray(self.support_vectors)
        if len(support) < len(self.X):
            style: dict[str, Any] = {"ms": 8, "mfc": "none", "mec": COLOURS[1], "mew": 1.1}
            (self.support_,) = ax.plot(*support.T, "o", label=counted(len(support), "support vector"), **style)
        else:  # every row is a support vector: no rings
            (self.support_,) = ax.plot([], [], " ", label=f"all {len(self.X)} rows drawn are support vectors")
        return self.names[0], self.names[1], title

    def _draw_contours(self, kwargs: dict[str, Any]) -> None:
        ax, (x, z) = self.ax_, self.grid
        self.surface_ = ax.contourf(x, z, self.response, **{"levels": 14, "cmap": "viridis", **kwargs})
        self.figure_.colorbar(self.surface_, ax=ax, label="prediction")
        style = {"c": self.y, "cmap": self.surface_.cmap, "s": 16, "lw": 0.5, "ec": "white"}
        self.points_ = ax.scatter(*np.asarray(self.X).T, label="data", **style)
        self.points_.set_clim(*self.surface_.get_clim())
        width = np.diff(np.asarray(self.interval), axis=-1)[..., 0]
        if np.isfinite(width).all() and np.ptp(width) > 1e-9 * np.max(width):
            lines = ax.contour(x, z, width, levels=5, colors="white", linestyles="--", linewidths=0.8)
            ax.clabel(lines, fontsize=7, fmt="%.3g")
            ax.plot([], [], "--", color="#999999", lw=0.8, label=f"width of {100 * self.coverage:g} % interval")

    def _draw_regions(self, kwargs: dict[str, Any]) -> None:
        from matplotlib.colors import to_rgb

        ax, (x, z), classes = self.ax_, self.grid, self.classes
        p = np.asarray(self.response)
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
        rows = [np.asarray(self.X)[np.asarray(self.y) == c].T for c in range(len(classes))]
        self.points_ = [
            ax.scatter(own[0], own[1], s=16, lw=0.5, ec="white", color=colour, label=f"{label}")
            for own, colour, label in zip(rows, colours, classes, strict=True)
        ]
        ax.set(xlim=(x[0], x[-1]), ylim=(z[0], z[-1]))


def _rows(estimator: LSSVR | LSSVC) -> tuple[np.ndarray, np.ndarray]:
    """The rows that a model keeps, and their targets or class numbers.

    The rows of a stack are those of a member that keeps all training rows, if there is one.
    """
    parts = [member for member, _ in members(estimator)]
    problem = next((part.fitted_.problem for part in parts if part.fitted_.problem is not None), None)
    problem = problem or kept_rows(parts[0], "FitDisplay").problem
    return arrays.to_numpy(problem.X), problem.labels if is_classifier(estimator) else arrays.to_numpy(problem.y)


def _padded(column: np.ndarray, size: int) -> np.ndarray:
    """Values over the range of a column, plus 3 % on either side."""
    low, high = float(column.min()), float(column.max())
    margin = 0.03 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, size)
