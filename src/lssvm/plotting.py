"""Displays of fitted machines, in scikit-learn's style: arrays stored, `from_estimator` draws, `plot` draws again."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from . import _xp
from .diagnose import (
    c_path,
    class_codes,
    class_scores,
    feature_names,
    inverse_widths,
    left_out,
    left_out_probabilities,
    number_scores,
    reliability,
    width_surface,
)
from .intervals import component_deviations
from .kernels import Additive
from .sparsify import Forward

__all__ = [
    "CPathDisplay",
    "ComponentsDisplay",
    "FitDisplay",
    "LeaveOneOutDisplay",
    "MaximalVariationDisplay",
    "ReliabilityDisplay",
    "ResidualsDisplay",
    "SparsityPathDisplay",
    "SupportSpectrumDisplay",
    "WidthSurfaceDisplay",
    "WidthsDisplay",
]

_COLOURS = "#1f5fa8", "#b3541e", "#3d8361", "#8a4f9e", "#5f6b76", "#c29a2b"
_LINES = "-", "--", "-.", ":"
_LEFT_OUT = {"loo": "left-out", "kfold": "10-fold", "validation": "validation"}


class _Display:
    """What the displays share: where to draw, and how the axes look."""

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any) -> Any:
        """The given axes or those of a new figure, and stored."""
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError(f'{type(self).__name__} draws with matplotlib: pip install "lssvm[plot]"') from error
        if ax is None:
            _, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _drawn(self) -> int:
        """The number of curves and clouds that have a label."""
        return sum(str(artist.get_label())[:1] != "_" for artist in [*self.ax_.lines, *self.ax_.collections])

    def _next_colour(self) -> str:
        return _COLOURS[self._drawn() % len(_COLOURS)]

    def _draw(self, x: Any, y: Any, label: str, kwargs: dict[str, Any], markers: bool = True) -> Any:
        """One curve, in the next of our colours; dashed where they begin anew."""
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        style: dict[str, Any] = {"color": self._next_colour(), "linewidth": 1.8, "label": label}
        style["linestyle"] = _LINES[self._drawn() // len(_COLOURS) % len(_LINES)]
        if markers:
            style.update(marker="o", markersize=3.5)
        (line,) = self.ax_.plot(x, y, **{**style, **normalize_kwargs(kwargs, Line2D)})
        return line

    def _finish(self, xlabel: str, ylabel: str, title: str) -> None:
        """Labels, grid and legend; a title that the axes already have stays."""
        ax = self.ax_
        ax.set(xlabel=xlabel, ylabel=ylabel)
        if not ax.get_title():
            ax.set_title(title)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.2, which="major")
        ax.set_axisbelow(True)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(framealpha=0.85, edgecolor="none")


class SparsityPathDisplay(_Display):
    """Error against the size of the basis, along the path of a sparsifier; the chosen size is marked.

    Parameters
    ----------
    sizes : array (n_sizes,)
        Numbers of basis vectors.
    errors : array (n_sizes,)
        The error at each size, as drawn.
    chosen : int
        The size that the machine has.
    error_name : str
        What the errors are: the label of the axis.
    name : str
        What made the path: the label of the curve.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    line_, chosen_
        The curve and the mark of the chosen size.

    See Also
    --------
    SupportSpectrumDisplay : The coefficients by which pruning decides.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, sparsify
    >>> from lssvm.plotting import SparsityPathDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(steps=[sparsify.Prune(rows="keep")]).fit(X, y)
    >>> display = SparsityPathDisplay.from_estimator(model)  # doctest: +SKIP
    """

    line_: Any
    chosen_: Any

    def __init__(self, *, sizes: Any, errors: Any, chosen: int, error_name: str = "error", name: str = "") -> None:
        self.sizes = sizes
        self.errors = errors
        self.chosen = chosen
        self.error_name = error_name
        self.name = name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the ``path_`` of a fitted machine.

        Left-out errors are drawn as their root mean square, in the units of the targets (-1 and +1 for classes); where
        robust weights were asked for, as their mean absolute value, which is what the path then holds. The path of
        `sparsify.FeatureVectors` is the mean reconstruction error in feature space, a share of 1.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with one of the steps FeatureVectors, Forward, Prune, Echelon.
        ax : matplotlib axes or None
            None makes a new figure.
        name : str or None
            Label of the curve; None is the step's name.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : SparsityPathDisplay
        """
        check_is_fitted(estimator)
        path = getattr(estimator, "path_", None)
        if path is None or "sizes" not in path or not ("scores" in path or "errors" in path):
            raise ValueError(
                f"{type(estimator).__name__} has no path over basis sizes: fit it with one of the steps "
                "sparsify.FeatureVectors(...), Forward(...), Prune(...), Echelon(), which record one."
            )
        made_by, step = _path_step(estimator, path)
        if "errors" in path:
            errors, error_name = np.array(path.errors), "mean reconstruction error (share of 1)"
        else:
            errors, error_name = _errors(estimator, step, np.asarray(path.scores))
        display = cls(
            sizes=np.array(path.sizes),
            errors=errors,
            chosen=int(path.chosen),
            error_name=error_name,
            name=made_by if name is None else name,
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        order = np.argsort(self.sizes)
        sizes, errors = np.asarray(self.sizes)[order], np.asarray(self.errors)[order]
        at = errors[np.searchsorted(sizes, self.chosen)]
        self.line_ = self._draw(sizes, errors, f"{self.name}: {self.chosen} vectors".lstrip(": "), kwargs)
        colour = self.line_.get_color()
        (self.chosen_,) = ax.plot([self.chosen], [at], "o", ms=9, mfc="white", mec=colour, mew=2.2, zorder=4)
        ax.axvline(self.chosen, color=colour, lw=1, ls=":", alpha=0.7, zorder=1)
        ax.set_xscale("log")
        if errors.max() > 10 * errors.min() > 0:
            ax.set_yscale("log")
        axis = ax.xaxis
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
        axis.set_minor_formatter(NullFormatter())
        self._finish("basis vectors", self.error_name, "Error against basis size")
        return self


class SupportSpectrumDisplay(_Display):
    """The support values ``|alpha|``, sorted from the largest down (Suykens et al. 2002, fig. 11).

    Parameters
    ----------
    support_values : array (n,)
        Magnitudes of the coefficients, largest first.
    order : array (n,) or None
        Their places in ``dual_coef_``.
    name : str
        Label of the curve.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    line_
        The curve.

    See Also
    --------
    SparsityPathDisplay : What leaving the smallest ones out costs.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import SupportSpectrumDisplay
    >>> X, y = datasets.make_sinc(300, outliers=3, random_state=0)
    >>> display = SupportSpectrumDisplay.from_estimator(LSSVR().fit(X, y))  # doctest: +SKIP
    """

    line_: Any

    def __init__(self, *, support_values: Any, order: Any = None, name: str = "") -> None:
        self.support_values = support_values
        self.order = order
        self.name = name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the sorted magnitudes of ``dual_coef_``; with several outputs, the norms of its rows.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted.
        ax : matplotlib axes or None
            None makes a new figure.
        name : str or None
            Label of the curve; None counts the support vectors.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : SupportSpectrumDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "dual_coef_"):
            raise ValueError(f"{type(estimator).__name__} has no dual_coef_: give a fitted LSSVR or LSSVC.")
        coef = _xp.to_numpy(estimator.dual_coef_)
        size = np.abs(coef) if coef.ndim == 1 else np.linalg.norm(coef, axis=1)
        order = np.argsort(-size, kind="stable")
        label = f"{len(size)} support vectors" if name is None else name
        return cls(support_values=size[order], order=order, name=label).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        values = np.asarray(self.support_values)
        ranks = np.arange(1, len(values) + 1)
        self.line_ = self._draw(ranks, values, self.name, kwargs, markers=len(values) <= 30)
        self.line_.sticky_edges.y.append(0.0)
        ax.update_datalim([(0.0, 0.0)])  # the axes start at 0
        ax.autoscale_view()
        self._finish("rank", r"support value $|\alpha|$", "Sorted support values")
        return self


class FitDisplay(_Display):
    """The fitted function over one or two inputs, with intervals and support vectors.

    Of numbers over one input: the curve, its interval and the rows; over two: filled contours of the prediction, dashed
    lines of equal interval width. Of classes: the probability of the second class over one input; over two, the regions
    of the classes, darker where the class is surer, and for two classes the lines of probability 1/2 and `coverage`.

    Parameters
    ----------
    grid : tuple of 1 or 2 arrays
        Values of each input.
    response : array (len(grid[0]),) or (len(grid[1]), len(grid[0]))
        Predictions; of two classes, the probability of the second. Of more classes the last axis is the class.
    interval : array, shape of response and 2, or None
        Lower and upper ends.
    X, y : arrays (n_rows, 1 or 2), (n_rows,)
        The rows drawn; y as the model saw it, class numbers for classes.
    support_vectors : array (n, 1 or 2)
    classes : array or None
        The classes, for a classifier.
    coverage : float
        Of the intervals.
    names : list of str
        Names of the inputs.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    surface_, points_, support_
        What was drawn: curve or contours, rows, marks of the support vectors.

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
        grid: Any,
        response: Any,
        X: Any,
        y: Any,
        support_vectors: Any,
        interval: Any = None,
        classes: Any = None,
        coverage: float = 0.9,
        names: Any = ("x", "z"),
    ) -> None:
        self.grid = grid
        self.response = response
        self.interval = interval
        self.X = X
        self.y = y
        self.support_vectors = support_vectors
        self.classes = classes
        self.coverage = coverage
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        coverage: float = 0.9,
        output: int = 0,
        grid_resolution: int | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a machine of one or two inputs over the range of its rows.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with `fit` on one or two columns.
        coverage : float
            Of the jackknife+ interval.
        output : int
            The target drawn, where there are several.
        grid_resolution : int or None
            Values of each input; None is 300 for one, 60 for two.
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot` (one input) or `contourf` (two).

        Returns
        -------
        display : FitDisplay
        """
        problem = _rows(estimator)
        X = _xp.to_numpy(problem.X)
        if X.shape[1] > 2 or problem.kernel.is_precomputed:
            raise ValueError(
                f"FitDisplay draws machines of 1 or 2 inputs, this one has {X.shape[1]}: draw LeaveOneOutDisplay, "
                "or use sklearn.inspection.PartialDependenceDisplay."
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
                y = problem.labels
            else:
                response = _output(estimator.predict(inputs), output)
                ends = estimator.predict_interval(inputs, coverage)
                interval = (ends if ends.ndim == 2 else ends[:, :, output]).reshape(*shape, 2)
                y = _output(_xp.to_numpy(problem.y), output)
        display = cls(
            grid=grid,
            response=response.reshape(*shape, *response.shape[1:]),
            interval=interval,
            X=X,
            y=y,
            support_vectors=_xp.to_numpy(estimator.support_vectors_),
            classes=estimator.classes_ if is_classifier(estimator) else None,
            coverage=coverage,
            names=feature_names(estimator),
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the machine.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot` (one input) or `contourf` (two).

        Returns
        -------
        self
        """
        self._axes(ax)
        if len(self.grid) == 1:
            self._plot_curve(kwargs)
            title = "Fit" if self.classes is None else "Class probability"
            ylabel = "y" if self.classes is None else f"probability of {self.classes[-1]}"
        else:
            self._plot_surface(kwargs)
            title = "Prediction and interval width" if self.classes is None else "Classes and their probability"
            ylabel = self.names[1]
        self._finish(self.names[0], ylabel, title)
        return self

    def _plot_curve(self, kwargs: dict[str, Any]) -> None:
        ax, x = self.ax_, self.grid[0]
        if np.ndim(self.response) == 1:
            label = "prediction" if self.classes is None else f"P({self.classes[1]})"
            self.surface_ = [self._draw(x, self.response, label, kwargs, markers=False)]
        else:
            labels = [f"P({label})" for label in self.classes]
            self.surface_ = [
                self._draw(x, column, label, kwargs, markers=False)
                for column, label in zip(np.asarray(self.response).T, labels, strict=True)
            ]
        if self.interval is not None:
            low, high = np.moveaxis(np.asarray(self.interval), -1, 0)
            colour = self.surface_[0].get_color()
            label = f"{100 * self.coverage:g} % interval"
            ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0, label=label)
        rows = np.asarray(self.X)[:, 0]
        if self.classes is None:
            (self.points_,) = ax.plot(rows, self.y, "o", color="#333333", alpha=0.6, ms=4, mew=0, label="rows")
        else:  # a strip for each class, from the bottom up
            height = np.asarray(self.y) / max(len(self.classes) - 1, 1)
            (self.points_,) = ax.plot(rows, height, "o", color="#333333", alpha=0.4, ms=4, mew=0, label="rows")
        support = np.asarray(self.support_vectors)[:, 0]
        (self.support_,) = ax.plot(support, np.full(len(support), 0.015), "|", label=_count(support))
        self.support_.set(color=_COLOURS[1], alpha=0.5, markersize=7, transform=ax.get_xaxis_transform())
        ax.set_xlim(x[0], x[-1])

    def _plot_surface(self, kwargs: dict[str, Any]) -> None:
        ax, (x, z) = self.ax_, self.grid
        rows, support = np.asarray(self.X), np.asarray(self.support_vectors)
        if self.classes is None:
            self.surface_ = ax.contourf(x, z, self.response, **{"levels": 14, "cmap": "viridis", **kwargs})
            self.figure_.colorbar(self.surface_, ax=ax, label="prediction")
            limits = {"vmin": self.surface_.get_clim()[0], "vmax": self.surface_.get_clim()[1]}
            style = {"c": self.y, "cmap": self.surface_.cmap, **limits, "s": 16, "lw": 0.5, "ec": "white"}
            self.points_ = ax.scatter(*rows.T, label="rows", **style)
            width = np.diff(np.asarray(self.interval), axis=-1)[..., 0]
            if np.isfinite(width).all() and np.ptp(width) > 1e-9 * np.max(width):
                lines = ax.contour(x, z, width, levels=5, colors="white", linestyles="--", linewidths=0.8)
                ax.clabel(lines, fontsize=7, fmt="%.3g")
                ax.plot([], [], "--", color="#999999", lw=0.8, label=f"width of {100 * self.coverage:g} % interval")
        else:
            self._plot_regions(kwargs)
        if len(support) < len(rows):
            (self.support_,) = ax.plot(
                *support.T, "o", ms=8, mfc="none", mec=_COLOURS[1], mew=1.1, label=_count(support)
            )
        else:  # every row is one: no rings
            (self.support_,) = ax.plot([], [], " ", label=f"all {len(rows)} rows are support vectors")

    def _plot_regions(self, kwargs: dict[str, Any]) -> None:
        from matplotlib.colors import to_rgb

        ax, (x, z) = self.ax_, self.grid
        p = np.asarray(self.response)
        if p.ndim == 2:
            p = np.stack([1.0 - p, p], axis=-1)
        colours = np.array([to_rgb(_COLOURS[c % len(_COLOURS)]) for c in range(len(self.classes))])
        named = np.argmax(p, axis=-1)
        sure = (p.max(axis=-1) - 1.0 / len(self.classes)) / (1.0 - 1.0 / len(self.classes))
        image = 1.0 - (0.08 + 0.42 * sure[..., None]) * (1.0 - colours[named])
        step = (x[1] - x[0]) / 2, (z[1] - z[0]) / 2
        extent = (x[0] - step[0], x[-1] + step[0], z[0] - step[1], z[-1] + step[1])
        style = {"origin": "lower", "aspect": "auto", "interpolation": "bilinear", "extent": extent}
        self.surface_ = ax.imshow(image, **{**style, **kwargs})
        if len(self.classes) == 2:
            levels = sorted({round(1 - self.coverage, 9), 0.5, round(self.coverage, 9)})
            lines = ax.contour(x, z, p[..., 1], levels=levels, colors="#333333", linewidths=1.0)
            ax.clabel(lines, fontsize=7, fmt="%.2g")
        self.points_ = [
            ax.scatter(
                *np.asarray(self.X)[np.asarray(self.y) == c].T,
                s=16,
                lw=0.5,
                ec="white",
                color=colours[c],
                label=f"{label}",
            )
            for c, label in enumerate(self.classes)
        ]
        ax.set(xlim=(x[0], x[-1]), ylim=(z[0], z[-1]))


class LeaveOneOutDisplay(_Display):
    """Predictions of the machine that never saw the row, against the actual values.

    Parameters
    ----------
    actual, predicted : arrays (n_rows,)
    name : str
        Label of the points.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    points_, diagonal_
        What was drawn.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import LeaveOneOutDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> display = LeaveOneOutDisplay.from_estimator(LSSVR().fit(X, y))  # doctest: +SKIP
    """

    points_: Any
    diagonal_: Any

    def __init__(self, *, actual: Any, predicted: Any, name: str = "") -> None:
        self.actual = actual
        self.predicted = predicted
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, output: int = 0, ax: Any = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the left-out predictions of a fitted `LSSVR`.

        Parameters
        ----------
        estimator : LSSVR
            Fitted.
        output : int
            The target drawn, where there are several.
        ax : matplotlib axes or None
            None makes a new figure.
        name : str or None
            Label of the points; None gives their root mean square error and R2.
        **kwargs
            Handed on to `matplotlib.axes.Axes.scatter`.

        Returns
        -------
        display : LeaveOneOutDisplay
        """
        if is_classifier(estimator):
            raise ValueError(
                "LeaveOneOutDisplay draws numbers; for classes use ReliabilityDisplay, or "
                "sklearn.metrics.ConfusionMatrixDisplay.from_predictions(y, model.loo_predictions_)."
            )
        rows = left_out(estimator)
        actual, predicted = _output(rows.actual, output), _output(rows.predicted, output)
        if name is None:
            score = number_scores(actual[:, None], predicted[:, None], rows.given)
            r2 = f", R2 {score['r2']:.3f}" if np.isfinite(score["r2"]) else ""
            name = f"RMSE {score['rmse']:.4g}{r2}"
        return cls(actual=actual, predicted=predicted, name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the points and the diagonal.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.scatter`.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        style = {"s": 14, "alpha": 0.6, "linewidths": 0, "color": self._next_colour(), "label": self.name or None}
        self.points_ = ax.scatter(self.predicted, self.actual, **_scatter_style(style, kwargs))
        self.diagonal_ = ax.axline((np.mean(self.actual),) * 2, slope=1, color="#777777", lw=1, ls="--", zorder=1)
        self._finish("left-out prediction", "actual value", "Leave-one-out: predicted against actual")
        return self


class ResidualsDisplay(_Display):
    """Left-out residuals against left-out predictions, shaded by robust weight; the largest carry row numbers.

    Parameters
    ----------
    predicted, residuals : arrays (n_rows,)
        Of classes: decision values, and coded target less decision value.
    weights : array (n_rows,)
        Robust weights; 1 everywhere without them.
    n_labels : int
        How many of the largest residuals get their row number.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    points_, labels_
        What was drawn.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import ResidualsDisplay
    >>> X, y = datasets.make_sinc(300, outliers=3, random_state=0)
    >>> display = ResidualsDisplay.from_estimator(LSSVR(robust="hampel").fit(X, y))  # doctest: +SKIP
    """

    points_: Any
    labels_: Any

    def __init__(self, *, predicted: Any, residuals: Any, weights: Any, n_labels: int = 5) -> None:
        self.predicted = predicted
        self.residuals = residuals
        self.weights = weights
        self.n_labels = n_labels

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, output: int = 0, n_labels: int = 5, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Draw the left-out residuals of a fitted model.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted.
        output : int
            The target (or class) drawn, where there are several.
        n_labels : int
            How many of the largest residuals get their row number, where that is known.
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.scatter`.

        Returns
        -------
        display : ResidualsDisplay
        """
        rows = left_out(estimator)
        display = cls(
            predicted=_output(rows.predicted, output),
            residuals=_output(rows.residuals, output),
            weights=rows.robust,
            n_labels=0 if rows.sampled else n_labels,
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the points.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.scatter`.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        predicted, residuals = np.asarray(self.predicted), np.asarray(self.residuals)
        weights = np.asarray(self.weights)
        ax.axhline(0.0, color="#777777", lw=1, zorder=1)
        style: dict[str, Any] = {"s": 18, "linewidths": 0.4, "edgecolors": "#333333", "color": _COLOURS[0]}
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
        self._finish("left-out prediction", "left-out residual", "Left-out residuals")
        return self


class CPathDisplay(_Display):
    """The left-out error along C, from one factorisation; the chosen C is marked.

    Parameters
    ----------
    C, errors : arrays (n_values,)
    chosen : float
        The C of the machine.
    error_name : str
        Label of the axis.
    name : str
        Label of the curve.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    line_, chosen_
        The curve and the mark of the chosen C.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import CPathDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> display = CPathDisplay.from_estimator(LSSVR().fit(X, y))  # doctest: +SKIP
    """

    line_: Any
    chosen_: Any

    def __init__(self, *, C: Any, errors: Any, chosen: float, error_name: str = "error", name: str = "") -> None:
        self.C = C
        self.errors = errors
        self.chosen = chosen
        self.error_name = error_name
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, decades: float = 4.0, ax: Any = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the path of C with kernel, basis and weights as fitted.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with `fit`.
        decades : float
            How far on either side of ``C_``.
        ax : matplotlib axes or None
            None makes a new figure.
        name : str or None
            Label of the curve; None gives the chosen C.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : CPathDisplay
        """
        C, errors = c_path(estimator, decades)
        label = f"C = {estimator.C_:.3g}" if name is None else name
        error_name = "left-out log loss" if is_classifier(estimator) else "root mean square left-out error (units of y)"
        return cls(C=C, errors=errors, chosen=estimator.C_, error_name=error_name, name=label).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        C, errors = np.asarray(self.C), np.asarray(self.errors)
        self.line_ = self._draw(C, errors, self.name, kwargs, markers=False)
        colour = self.line_.get_color()
        at = np.exp(np.interp(np.log(self.chosen), np.log(C), np.log(errors)))
        (self.chosen_,) = ax.plot([self.chosen], [at], "o", ms=9, mfc="white", mec=colour, mew=2.2, zorder=4)
        ax.axvline(self.chosen, color=colour, lw=1, ls=":", alpha=0.7, zorder=1)
        ax.set_xscale("log")
        self._finish("C", self.error_name, "Left-out error along C")
        return self


class WidthSurfaceDisplay(_Display):
    """The left-out error over C and a common factor of all widths; the machine's own place is marked.

    Parameters
    ----------
    C : array (n_values,)
    factors : array (n_widths,)
        Of the machine's widths.
    errors : array (n_widths, n_values)
    chosen : float
        The C of the machine.
    error_name : str
        Label of the colours.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    surface_, chosen_
        The filled contours and the mark of the machine's own C and widths.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import WidthSurfaceDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> display = WidthSurfaceDisplay.from_estimator(LSSVR().fit(X, y))  # doctest: +SKIP
    """

    surface_: Any
    chosen_: Any

    def __init__(self, *, C: Any, factors: Any, errors: Any, chosen: float, error_name: str = "error") -> None:
        self.C = C
        self.factors = factors
        self.errors = errors
        self.chosen = chosen
        self.error_name = error_name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the surface with basis and weights as fitted: one factorisation for each of 21 widths.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with `fit`, with a kernel that has widths.
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.contourf`.

        Returns
        -------
        display : WidthSurfaceDisplay
        """
        C, factors, errors = width_surface(estimator)
        error_name = "left-out log loss" if is_classifier(estimator) else "root mean square left-out error (units of y)"
        return cls(C=C, factors=factors, errors=errors, chosen=estimator.C_, error_name=error_name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the contours, closer to each other near the smallest error.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.contourf`.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        errors = np.asarray(self.errors)
        low, high = float(errors.min()), float(np.quantile(errors, 0.95))
        levels = low + (max(high, low * (1 + 1e-9)) - low) * np.linspace(0.0, 1.0, 16) ** 2
        style = {"levels": levels, "cmap": "viridis_r", "extend": "max", **kwargs}
        self.surface_ = ax.contourf(np.asarray(self.C), np.asarray(self.factors), errors, **style)
        self.figure_.colorbar(self.surface_, ax=ax, label=self.error_name, format="%.3g")
        (self.chosen_,) = ax.plot([self.chosen], [1.0], "o", ms=9, mfc="white", mec=_COLOURS[1], mew=2.2, zorder=4)
        ax.set(xscale="log", yscale="log")
        self._finish("C", "width / width of the machine", "Left-out error over C and the widths")
        return self


class WidthsDisplay(_Display):
    """Spread/width of each column: the larger, the faster f may bend along it; 0 is left out.

    Parameters
    ----------
    inverse_widths : array (n_features,)
    names : list of str
    max_columns : int
        So many are drawn, those of the smallest widths.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    bars_
        The bars, longest first.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import WidthsDisplay
    >>> X, y = datasets.make_additive(100, random_state=0)
    >>> display = WidthsDisplay.from_estimator(LSSVR().fit(X, y))  # doctest: +SKIP
    """

    bars_: Any

    def __init__(self, *, inverse_widths: Any, names: Any, max_columns: int = 30) -> None:
        self.inverse_widths = inverse_widths
        self.names = names
        self.max_columns = max_columns

    @classmethod
    def from_estimator(cls, estimator: Any, *, max_columns: int = 30, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the widths of a fitted kernel, in units of the columns' spread.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted, with a kernel that has widths.
        max_columns : int
            So many are drawn, those of the smallest widths.
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.barh`.

        Returns
        -------
        display : WidthsDisplay
        """
        names = feature_names(estimator)
        return cls(inverse_widths=inverse_widths(estimator), names=names, max_columns=max_columns).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.barh`.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        values = np.asarray(self.inverse_widths)
        order = np.argsort(-values, kind="stable")[: self.max_columns]
        names = [str(self.names[c]).replace("$", r"\$") for c in order]
        self.bars_ = ax.barh(np.arange(len(order)), values[order], **{"color": _COLOURS[0], "height": 0.7, **kwargs})
        ax.set_yticks(np.arange(len(order)), names)
        ax.invert_yaxis()
        for place, c in enumerate(order):
            if values[c] == 0:
                ax.annotate("left out", (0, place), (4, 0), textcoords="offset points", va="center", size=8, alpha=0.7)
        shown = "" if len(order) == len(values) else f" ({len(order)} of {len(values)} columns)"
        self._finish("spread / width", "", f"Widths of the columns{shown}")
        ax.grid(visible=False, axis="y")
        return self


class ReliabilityDisplay(_Display):
    """Predicted probability against the observed share, in bins of equal count, with 95 % intervals of the share.

    Of two classes the probability is that of the second; of more, that of the class that is named.

    Parameters
    ----------
    predicted, observed : arrays (n_bins,)
    count : array (n_bins,)
        Rows of each bin.
    low, high : arrays (n_bins,)
        Ends of the interval of each share.
    name : str
        Label of the curve.
    of : str
        Whose probability it is.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    line_, diagonal_
        What was drawn.

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
        self, *, predicted: Any, observed: Any, count: Any, low: Any, high: Any, name: str = "", of: str = "the class"
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
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        n_bins: int = 10,
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the probabilities of other rows, or those of the left-out training rows.

        Parameters
        ----------
        estimator : LSSVC
            Fitted.
        X, y : arrays or None
            Rows and their classes; None takes the training rows, each left out.
        n_bins : int
            Bins of equal count.
        ax : matplotlib axes or None
            None makes a new figure.
        name : str or None
            Label of the curve; None gives the log loss.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ReliabilityDisplay
        """
        if (X is None) != (y is None):
            raise ValueError("ReliabilityDisplay: give both X and y, or neither for the left-out training rows.")
        if X is None:
            given = left_out(estimator).given
            probability, codes = (array[given > 0] for array in left_out_probabilities(estimator))
            weights = given[given > 0]
        else:
            check_is_fitted(estimator)
            probability, codes = _xp.to_numpy(estimator.predict_proba(X)), class_codes(estimator, y)
            weights = np.ones(len(codes))
        loss = class_scores(probability, codes, weights)["log_loss"]
        label = f"{'left-out rows' if X is None else 'given rows'}: log loss {loss:.3f}" if name is None else name
        two = probability.shape[1] == 2
        of = f"class {estimator.classes_[1]}" if two else "the named class"
        return cls(**reliability(probability, codes, n_bins, weights), name=label, of=of).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        self.line_ = self._draw(self.predicted, self.observed, self.name, kwargs)
        ax.vlines(self.predicted, self.low, self.high, color=self.line_.get_color(), lw=1, alpha=0.6)
        self.diagonal_ = ax.axline((0, 0), slope=1, color="#777777", lw=1, ls="--", zorder=1)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        self._finish(f"predicted probability of {self.of}", "observed share", "Reliability of the probabilities")
        return self


class MaximalVariationDisplay(_Display):
    """The maximal variation of every component against rho (Pelckmans et al. 2005, figs 4 and 6).

    Parameters
    ----------
    rho : array (n_rho,)
        Weights of the maximal variations.
    max_variation : array (n_rho, n_components)
    chosen : float
        The rho chosen, or given.
    kept : array of int
        The components that the machine keeps: these are drawn in colour, with their names.
    names : list of str
        One name a component.

    Attributes
    ----------
    ax_, figure_
        Where `plot` has drawn last.
    lines_
        The curves, one a component.
    chosen_
        The vertical line at the chosen rho.

    See Also
    --------
    ComponentsDisplay : The functions that are left.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> from lssvm.plotting import MaximalVariationDisplay
    >>> X, y = datasets.make_additive(random_state=0)
    >>> model = LSSVR(kernels.Additive(kernels.Spline()), steps=[sparsify.Components(random_state=0)])
    >>> display = MaximalVariationDisplay.from_estimator(model.fit(X, y))  # doctest: +SKIP
    """

    lines_: list[Any]
    chosen_: Any

    def __init__(self, *, rho: Any, max_variation: Any, chosen: float, kept: Any, names: Any) -> None:
        self.rho = rho
        self.max_variation = max_variation
        self.chosen = chosen
        self.kept = kept
        self.names = names

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the ``path_`` of a machine fitted with `sparsify.Components`.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with the step Components, rho left at None.
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : MaximalVariationDisplay
        """
        check_is_fitted(estimator)
        path = getattr(estimator, "path_", None)
        if path is None or "max_variation" not in path or len(path.rho) < 2:
            raise ValueError(
                f"{type(estimator).__name__} has no path of maximal variations: fit it with "
                "steps=[sparsify.Components()], which records one."
            )
        display = cls(
            rho=np.array(path.rho),
            max_variation=np.array(path.max_variation),
            chosen=float(path.chosen),
            kept=_xp.to_numpy(estimator.active_),
            names=_component_names(estimator),
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib axes or None
            None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        kept = [int(number) for number in self.kept]
        self.lines_ = []
        for number, values in enumerate(np.asarray(self.max_variation).T):
            if number in kept:
                self.lines_.append(self._draw(self.rho, values, self.names[number], kwargs, markers=False))
            else:
                style = {"color": "#b9bfc6", "linewidth": 0.9, "zorder": 1, **kwargs}
                self.lines_.append(ax.plot(self.rho, values, **style)[0])
        self.chosen_ = ax.axvline(self.chosen, color="#222222", lw=1, ls=":")
        ax.set_xscale("log")
        ax.set_ylim(bottom=0.0)
        title = f"Maximal variations: {len(kept)} of {len(self.names)} inputs kept"
        self._finish(r"weight $\rho$ of the maximal variations", "maximal variation (units of y)", title)
        return self


class ComponentsDisplay:
    """The components of an additive machine with pointwise intervals (Pelckmans et al. 2005, figs 5 and 7).

    Parameters
    ----------
    inputs : list of arrays
        For every component drawn, the values of its input, rising.
    values, deviations : lists of arrays
        The component there, and its standard deviation (or None).
    names : list of str
        Their names.
    rows : list of arrays
        The values of the inputs in the data, for the marks under each curve.

    Attributes
    ----------
    axes_, figure_
        Where `plot` has drawn last.

    See Also
    --------
    MaximalVariationDisplay : How the components were chosen.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> from lssvm.plotting import ComponentsDisplay
    >>> X, y = datasets.make_additive(random_state=0)
    >>> model = LSSVR(kernels.Additive(kernels.Spline()), steps=[sparsify.Components(random_state=0)])
    >>> display = ComponentsDisplay.from_estimator(model.fit(X, y), X)  # doctest: +SKIP
    """

    axes_: Any
    figure_: Any

    def __init__(self, *, inputs: Any, values: Any, deviations: Any, names: Any, rows: Any) -> None:
        self.inputs = inputs
        self.values = values
        self.deviations = deviations
        self.names = names
        self.rows = rows

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, axes: Any = None, **kwargs: Any) -> Self:
        """Draw the kept components of one input each, over the range of that input in X.

        The band is the component plus and minus two standard deviations: of the noise alone, C, widths and the inputs
        kept held fixed, so that the bias of the ridge is not in it. A machine that was given its coefficients
        (``Components(refit=False)``) has no band. Groups of several columns are left out.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with `kernels.Additive`, one output.
        X : array (n_samples, n_features)
            Rows whose inputs set the range, and are marked.
        axes : sequence of matplotlib axes or None
            One a component; None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ComponentsDisplay
        """
        check_is_fitted(estimator)
        kernel = getattr(estimator, "kernel_", None)
        if not isinstance(kernel, Additive) or estimator.dual_coef_.ndim > 1:
            raise ValueError(f"{type(estimator).__name__} is no additive machine of one output: use kernels.Additive.")
        table = _xp.to_numpy(estimator._checked(X, "components"))  # a frame's columns are checked by name
        names = _component_names(estimator)
        inputs: list[Any] = []
        values: list[Any] = []
        deviations: list[Any] = []
        rows: list[Any] = []
        single = {number: group[0] for number, (group, _) in kernel.kept(table.shape[1]).items() if len(group) == 1}
        problem = getattr(estimator, "_problem_", None)
        for column in single.values():
            distinct = np.unique(table[:, column])
            few = len(distinct) <= 10  # a category: its values alone
            inputs.append(distinct if few else np.linspace(distinct[0], distinct[-1], 200))
            rows.append(distinct)
        for (number, column), grid in zip(single.items(), inputs, strict=True):
            new = np.repeat(table[:1], len(grid), axis=0)
            new[:, column] = grid
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                values.append(_xp.to_numpy(estimator.components(new))[:, number])
            if problem is None or problem.coefficients is not None:
                deviations.append(None)
            else:
                deviations.append(component_deviations(problem, estimator._fit_, new)[:, number, 0])
        display = cls(
            inputs=inputs, values=values, deviations=deviations, names=[names[number] for number in single], rows=rows
        )
        return display.plot(axes, **kwargs)

    def plot(self, axes: Any = None, **kwargs: Any) -> Self:
        """Draw the components.

        Parameters
        ----------
        axes : sequence of matplotlib axes or None
            One a component; None makes a new figure.
        **kwargs
            Handed on to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self
        """
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError(f'{type(self).__name__} draws with matplotlib: pip install "lssvm[plot]"') from error
        count = len(self.names)
        if axes is None:
            across = min(max(count, 1), 4)
            down = -(-max(count, 1) // across)
            size = (2.1 * across + 0.6, 2.2 * down + 0.3)
            figure, grid = pyplot.subplots(down, across, figsize=size, sharey=True, squeeze=False, layout="constrained")
            axes = grid.ravel()
            for ax in axes[count:]:
                ax.set_visible(False)
            figure.supylabel("component (units of y)", fontsize="medium")
        self.axes_ = np.atleast_1d(axes)[:count]
        self.figure_ = np.atleast_1d(axes)[0].figure
        for ax, name, x, f, deviation, marks in zip(
            self.axes_, self.names, self.inputs, self.values, self.deviations, self.rows, strict=True
        ):
            style = {"color": _COLOURS[0], "linewidth": 1.8, "marker": "o" if len(x) <= 10 else None, "markersize": 4}
            ax.plot(x, f, **{**style, **kwargs})
            if deviation is not None:
                ax.fill_between(x, f - 2 * deviation, f + 2 * deviation, color=_COLOURS[0], alpha=0.18, lw=0)
            ax.plot(
                marks, np.zeros(len(marks)), "|", color="#5f6b76", ms=5, mew=0.5, transform=ax.get_xaxis_transform()
            )
            ax.set_xlabel(name)
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(alpha=0.2)
            ax.set_axisbelow(True)
        return self


def _component_names(estimator: Any) -> list[str]:
    """The columns' names, those of a group joined; x1, x2, ... for columns without names."""
    columns = getattr(estimator, "feature_names_in_", None)
    count = estimator.n_features_in_
    columns = [f"x{c + 1}" for c in range(count)] if columns is None else [str(name) for name in columns]
    groups = estimator.kernel_.components(count)
    return [", ".join(columns[c] for c in group) for group in groups]


def _path_step(estimator: Any, path: Any) -> tuple[str, Any]:
    """The name of the step that recorded the path, and the step itself."""
    recorded = estimator._problem_.paths if hasattr(estimator, "_problem_") else {}
    name = next((key for key, value in recorded.items() if value is path), "")
    steps = [step for step in estimator.steps or () if type(step).__name__ == name]
    return name, steps[-1] if steps else None


def _errors(estimator: Any, step: Any, scores: np.ndarray) -> tuple[np.ndarray, str]:
    """Recorded scores in the units of the targets, and what they are."""
    kind = _LEFT_OUT.get(getattr(step, "score", "loo"), "left-out")
    unit = "targets -1, +1" if is_classifier(estimator) else "units of y"
    if estimator.robust is not None and not isinstance(step, Forward):  # these score by absolute values
        return np.array(scores), f"mean absolute {kind} error ({unit})"
    return np.sqrt(scores), f"root mean square {kind} error ({unit})"


def _rows(estimator: Any) -> Any:
    """The problem with the training rows."""
    check_is_fitted(estimator)
    if not hasattr(estimator, "_problem_"):
        raise ValueError(
            f"{type(estimator).__name__} keeps only a sample of its rows after partial_fit or fit_chunks: use fit."
        )
    return estimator._problem_


def _padded(column: np.ndarray, size: int) -> np.ndarray:
    """Values over the range of a column and 3 % more on either side."""
    low, high = float(column.min()), float(column.max())
    margin = 0.03 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, size)


def _output(values: np.ndarray, output: int) -> np.ndarray:
    """One output of (rows,) or (rows, outputs)."""
    table = np.asarray(values).reshape(len(values), -1)
    if not 0 <= output < table.shape[1]:
        raise ValueError(f"output={output} is out of range: the model has {table.shape[1]} output(s), counted from 0.")
    return table[:, output]


def _count(support: np.ndarray) -> str:
    return f"{len(support)} support vectors"


def _scatter_style(style: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Our style under the user's, whatever spelling they chose; a given colour wins over ours."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.collections import Collection

    given = normalize_kwargs(kwargs, Collection)
    if {"c", "color", "facecolors"} & given.keys():
        style = {name: value for name, value in style.items() if name not in ("c", "color", "cmap", "vmin", "vmax")}
    return {**style, **given}
