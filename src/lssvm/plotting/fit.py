"""The display of the fitted function of one or two inputs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import is_classifier

from .. import arrays
from .._words import counted
from ..diagnose import (
    basis_points,
    check_fitted,
    compares_classifiers,
    feature_names,
    fitted_problem,
    members,
    training_codes,
)
from ..estimators import LSSVC, LSSVR
from ._display import COLOURS, Display, one_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FitDisplay"]


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

    surface_: Any
    points_: Any
    support_: Any

    def __init__(
        self,
        *,
        grid: Sequence[np.ndarray],
        response: np.ndarray,
        X: np.ndarray,
        y: np.ndarray,
        support_vectors: np.ndarray,
        interval: np.ndarray | None = None,
        classes: np.ndarray | None = None,
        coverage: float = 0.9,
        names: Sequence[str] = ("x", "z"),
    ) -> None:
        self.grid = grid
        self.response = response
        self.interval = interval
        self.X = X
        self.y = y
        self.support_vectors = support_vectors
        self.classes: Any = classes
        self.coverage = coverage
        self.names = names

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
            Fitted with `fit` on one or two columns. Of an LSSVC whose coding and loss were compared, or whose loss is
            not "squared", the rows that are support vectors are drawn; it keeps no others.
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
        X, targets = _rows(estimator)
        if X.shape[1] > 2 or estimator.kernel_.is_precomputed:
            raise ValueError(
                f"FitDisplay draws models of 1 or 2 inputs, this one has {estimator.n_features_in_}: use "
                "LeaveOneOutDisplay, or use sklearn.inspection.PartialDependenceDisplay."
            )
        size = grid_resolution or (300 if X.shape[1] == 1 else 60)
        grid = tuple(_padded(column, size) for column in X.T)
        inputs = np.column_stack([axis.reshape(-1) for axis in np.meshgrid(*grid)])
        shape = tuple(len(axis) for axis in reversed(grid))
        interval = None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")  # the grid has none
            if is_classifier(estimator):
                probability = estimator.predict_proba(inputs)
                response = probability[:, 1] if probability.shape[1] == 2 else probability
                y = targets
            else:
                response = one_output(estimator.predict(inputs), output)
                ends = estimator.predict_interval(inputs, coverage)
                interval = (ends if ends.ndim == 2 else ends[:, :, output]).reshape(*shape, 2)
                y = one_output(targets, output)
        display = cls(
            grid=grid,
            response=response.reshape(*shape, *response.shape[1:]),
            interval=interval,
            X=X,
            y=y,
            support_vectors=basis_points(estimator),
            classes=estimator.classes_ if is_classifier(estimator) else None,
            coverage=coverage,
            names=feature_names(estimator),
        )
        return display.plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        if len(self.grid) == 1:
            self._plot_curve(kwargs)
            title = "Fit" if self.classes is None else "Class probability"
            ylabel = "y" if self.classes is None else f"probability of {self.classes[-1]}"
        else:
            self._plot_surface(kwargs)
            title = "Prediction and interval width" if self.classes is None else "Classes and their probability"
            ylabel = self.names[1]
        self._finish(self.names[0], ylabel, title)

    def _plot_curve(self, kwargs: dict[str, Any]) -> None:
        ax, x = self.ax_, self.grid[0]
        if np.ndim(self.response) == 1:
            label = "prediction" if self.classes is None else f"P({self.classes[1]})"
            self.surface_ = [self._curve(x, self.response, label, kwargs, markers=False)]
        else:
            labels = [f"P({label})" for label in self.classes]
            self.surface_ = [
                self._curve(x, column, label, kwargs, markers=False)
                for column, label in zip(np.asarray(self.response).T, labels, strict=True)
            ]
        if self.interval is not None:
            low, high = np.moveaxis(np.asarray(self.interval), -1, 0)
            colour = self.surface_[0].get_color()
            label = f"{100 * self.coverage:g} % interval"
            ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0, label=label)
        rows = np.asarray(self.X)[:, 0]
        if self.classes is None:
            (self.points_,) = ax.plot(rows, self.y, "o", color="#333333", alpha=0.6, ms=4, mew=0, label="data")
        else:  # one strip per class, from bottom to top
            height = np.asarray(self.y) / max(len(self.classes) - 1, 1)
            (self.points_,) = ax.plot(rows, height, "o", color="#333333", alpha=0.4, ms=4, mew=0, label="data")
        support = np.asarray(self.support_vectors)[:, 0]
        (self.support_,) = ax.plot(support, np.full(len(support), 0.015), "|", label=_count(support))
        self.support_.set(color=COLOURS[1], alpha=0.5, markersize=7, transform=ax.get_xaxis_transform())
        ax.set_xlim(x[0], x[-1])

    def _plot_surface(self, kwargs: dict[str, Any]) -> None:
        ax, (x, z) = self.ax_, self.grid
        rows, support = np.asarray(self.X), np.asarray(self.support_vectors)
        if self.classes is None:
            self.surface_ = ax.contourf(x, z, self.response, **{"levels": 14, "cmap": "viridis", **kwargs})
            self.figure_.colorbar(self.surface_, ax=ax, label="prediction")
            limits = {"vmin": self.surface_.get_clim()[0], "vmax": self.surface_.get_clim()[1]}
            style = {"c": self.y, "cmap": self.surface_.cmap, **limits, "s": 16, "lw": 0.5, "ec": "white"}
            self.points_ = ax.scatter(*rows.T, label="data", **style)
            width = np.diff(np.asarray(self.interval), axis=-1)[..., 0]
            if np.isfinite(width).all() and np.ptp(width) > 1e-9 * np.max(width):
                lines = ax.contour(x, z, width, levels=5, colors="white", linestyles="--", linewidths=0.8)
                ax.clabel(lines, fontsize=7, fmt="%.3g")
                ax.plot([], [], "--", color="#999999", lw=0.8, label=f"width of {100 * self.coverage:g} % interval")
        else:
            self._plot_regions(kwargs)
        if len(support) < len(rows):
            (self.support_,) = ax.plot(
                *support.T, "o", ms=8, mfc="none", mec=COLOURS[1], mew=1.1, label=_count(support)
            )
        else:  # every row is a support vector: no rings
            (self.support_,) = ax.plot([], [], " ", label=f"all {len(rows)} rows drawn are support vectors")

    def _plot_regions(self, kwargs: dict[str, Any]) -> None:
        from matplotlib.colors import to_rgb

        ax, (x, z) = self.ax_, self.grid
        p = np.asarray(self.response)
        if p.ndim == 2:
            p = np.stack([1.0 - p, p], axis=-1)
        colours = np.array([to_rgb(COLOURS[c % len(COLOURS)]) for c in range(len(self.classes))])
        winner = np.argmax(p, axis=-1)
        sure = (p.max(axis=-1) - 1.0 / len(self.classes)) / (1.0 - 1.0 / len(self.classes))
        image = 1.0 - (0.08 + 0.42 * sure[..., None]) * (1.0 - colours[winner])
        step = (x[1] - x[0]) / 2, (z[1] - z[0]) / 2
        extent = (x[0] - step[0], x[-1] + step[0], z[0] - step[1], z[-1] + step[1])
        style = {"origin": "lower", "aspect": "auto", "interpolation": "bilinear", "extent": extent}
        self.surface_ = ax.imshow(image, **{**style, **kwargs})
        if len(self.classes) == 2:
            levels = sorted({round(1 - self.coverage, 9), 0.5, round(self.coverage, 9)})
            lines = ax.contour(x, z, p[..., 1], levels=levels, colors="#333333", linewidths=1.0)
            ax.clabel(lines, fontsize=7, fmt="%.2g")
        self.points_ = [
            ax.scatter(rows[:, 0], rows[:, 1], s=16, lw=0.5, ec="white", color=colours[c], label=f"{label}")
            for c, label in enumerate(self.classes)
            for rows in [np.asarray(self.X)[np.asarray(self.y) == c]]
        ]
        ax.set(xlim=(x[0], x[-1]), ylim=(z[0], z[-1]))


def _rows(estimator: LSSVR | LSSVC) -> tuple[np.ndarray, np.ndarray]:
    """The training rows, and their targets or class numbers.

    A classifier whose coding and loss were compared keeps those of its rows that are support vectors. The rows of a
    stack are those of a member that keeps all of them, if there is one.
    """
    parts = [member for member, _ in members(estimator)]
    member = next((part for part in parts if fitted_problem(part) is not None), parts[0])
    if compares_classifiers(member):
        if member.support_ is None:
            raise ValueError(
                "FitDisplay needs training rows, but the basis of this LSSVC has none: choose it among the rows, or "
                "use loss='squared', coding='one-vs-rest'."
            )
        codes = training_codes(member)[arrays.to_numpy(member.support_)]
        return arrays.to_numpy(member.support_vectors_), codes
    problem = fitted_problem(member)
    if problem is None:
        raise ValueError(
            f"{type(estimator).__name__} keeps only a sample of its rows after partial_fit or fit_chunks: use fit."
        )
    return arrays.to_numpy(problem.X), problem.labels if is_classifier(estimator) else arrays.to_numpy(problem.y)


def _padded(column: np.ndarray, size: int) -> np.ndarray:
    """Values over the range of a column, plus 3 % on either side."""
    low, high = float(column.min()), float(column.max())
    margin = 0.03 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, size)


def _count(support: np.ndarray) -> str:
    return counted(len(support), "support vector")
