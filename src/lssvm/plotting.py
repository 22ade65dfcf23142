"""Displays of fitted machines, in scikit-learn's style: arrays stored, `from_estimator` draws, `plot` draws again."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from . import _xp
from .intervals import component_deviations
from .kernels import Additive
from .sparsify import Forward

__all__ = ["ComponentsDisplay", "MaximalVariationDisplay", "SparsityPathDisplay", "SupportSpectrumDisplay"]

_COLOURS = "#1f5fa8", "#b3541e", "#3d8361", "#8a4f9e", "#5f6b76", "#c29a2b"
_LEFT_OUT = {"loo": "left-out", "kfold": "10-fold", "validation": "validation"}


class _Display:
    """What both displays share: where to draw, and how the axes look."""

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

    def _draw(self, x: Any, y: Any, label: str, kwargs: dict[str, Any], markers: bool = True) -> Any:
        """One curve, in the next of our colours."""
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        curves = sum(line.get_label()[:1] != "_" for line in self.ax_.lines)
        style: dict[str, Any] = {"color": _COLOURS[curves % len(_COLOURS)], "linewidth": 1.8, "label": label}
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
    """The support values |alpha|, sorted from the largest down (Suykens et al. 2002, fig. 11).

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
            kept=np.array(estimator.active_),
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
        table = _xp.to_numpy(np.asarray(X, dtype=float))
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
            values.append(estimator.components(new)[:, number])
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
