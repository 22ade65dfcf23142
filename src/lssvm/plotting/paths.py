"""Displays of what was chosen: C, widths, the size of the basis, rho."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from .. import arrays, diagnose
from ..progress import counted
from ._display import COLOURS, MARKERS, Axes, BarsDisplay, Display, Model, component_names

# How the sizes of a path were scored, for axis labels, by the `score` of the step
SCORED_BY = {"loo": "leave-one-out", "kfold": "10-fold", "validation": "validation"}


class ErrorDisplay(Display):
    """Errors for several values of a parameter, of which one was chosen."""

    errors: np.ndarray
    chosen: float
    error_name: str = "error"

    def _path(self, x: Any, y: Any, at: float, label: str, kwargs: dict[str, Any], **style: Any) -> None:
        """Draw a curve `line_` over a logarithmic axis; a ring `chosen_` and a vertical line mark the chosen place."""
        self.line_ = self._curve(x, y, label, kwargs, **style)
        self.chosen_ = self._ring(self.chosen, at, self.line_.get_color())
        self.ax_.axvline(self.chosen, color=self.line_.get_color(), lw=1, ls=":", alpha=0.7, zorder=1)
        self.ax_.set_xscale("log")


class CPathDisplay(ErrorDisplay):
    """The leave-one-out error against C, from one factorisation; the chosen C is marked.

    Parameters
    ----------
    C, errors : arrays (n_values,)
    chosen : float
        The C of the model.
    error_name : str
        Label of the axis.
    name : str
        Label of the curve.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    line_, chosen_
        The curve and the mark of the chosen C.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> from lssvm.plotting import CPathDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> display = CPathDisplay.from_estimator(LSSVR(kernels.RBF()).fit(X, y))  # doctest: +SKIP
    """

    C: np.ndarray
    name: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: Model, *, decades: float = 4.0, ax: Axes | None = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the error against C, with the fitted kernel, basis and weights.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with `fit`.
        decades : float
            Range of C on either side of ``C_``.
        ax : matplotlib axes or None
            If None, a new figure is created.
        name : str or None
            Label of the curve; None means the chosen C.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : CPathDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        C, errors = diagnose.c_path(estimator, decades)
        label = f"C = {estimator.C_:.3g}" if name is None else name
        error_name = _error_name(estimator)
        return cls(C=C, errors=errors, chosen=estimator.C_, error_name=error_name, name=label).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        at = np.exp(np.interp(np.log(self.chosen), np.log(self.C), np.log(self.errors)))
        self._path(self.C, self.errors, at, self.name, kwargs)
        self._finish("C", self.error_name, "Leave-one-out error against C")


class WidthSurfaceDisplay(ErrorDisplay):
    """The leave-one-out error against C and a common factor of all widths; the model's own values are marked.

    Parameters
    ----------
    C : array (n_values,)
    factors : array (n_widths,)
        Factors of the model's widths.
    errors : array (n_widths, n_values)
    chosen : float
        The C of the model.
    error_name : str
        Label of the colour bar.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    surface_, chosen_
        The filled contours, and the mark of the model's own C and widths.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> from lssvm.plotting import WidthSurfaceDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> display = WidthSurfaceDisplay.from_estimator(LSSVR(kernels.RBF()).fit(X, y))  # doctest: +SKIP
    """

    C: np.ndarray
    factors: np.ndarray

    @classmethod
    def from_estimator(cls, estimator: Model, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the surface with the fitted basis and weights: one factorisation for each of 21 widths.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with `fit`, with a kernel that has widths.
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.contourf`.

        Returns
        -------
        display : WidthSurfaceDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        C, factors, errors = diagnose.width_surface(estimator)
        error_name = _error_name(estimator)
        return cls(C=C, factors=factors, errors=errors, chosen=estimator.C_, error_name=error_name).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax, errors = self.ax_, self.errors
        # levels are denser near the smallest error, where the choice is made
        low, high = float(errors.min()), float(np.quantile(errors, 0.95))
        levels = low + (max(high, low * (1 + 1e-9)) - low) * np.linspace(0.0, 1.0, 16) ** 2
        style = {"levels": levels, "cmap": "viridis_r", "extend": "max", **kwargs}
        self.surface_ = ax.contourf(self.C, self.factors, errors, **style)
        self.figure_.colorbar(self.surface_, ax=ax, label=self.error_name, format="%.3g")
        self.chosen_ = self._ring(self.chosen, 1.0, COLOURS[1])
        ax.set(xscale="log", yscale="log")
        self._finish("C", "width / width of the model", "Leave-one-out error against C and the widths")


class WidthsDisplay(BarsDisplay):
    """Spread / width of each column: the larger, the faster f can vary along it; 0 means that it is dropped.

    Parameters
    ----------
    inverse_widths : array (n_features,)
    names : list of str
    max_columns : int
        Maximum number of columns drawn; those with the smallest widths are kept.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    bars_
        The bars, longest first.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> from lssvm.plotting import WidthsDisplay
    >>> X, y = datasets.make_additive(100, random_state=0)
    >>> display = WidthsDisplay.from_estimator(LSSVR(kernels.RBF()).fit(X, y))  # doctest: +SKIP
    """

    inverse_widths: np.ndarray

    @classmethod
    def from_estimator(cls, estimator: Model, *, max_columns: int = 30, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the inverse widths of a fitted kernel, in units of the spread of each column.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted, with a kernel that has widths.
        max_columns : int
            Maximum number of columns drawn; those with the smallest widths are kept.
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.barh`.

        Returns
        -------
        display : WidthsDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        widths, names = diagnose.inverse_widths(estimator), diagnose.feature_names(estimator)
        return cls(inverse_widths=widths, names=names, max_columns=max_columns).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        order = self._bars(self.inverse_widths, "spread / width", "Widths of the columns", kwargs)
        note: dict[str, Any] = {"textcoords": "offset points", "va": "center", "size": 8, "alpha": 0.7}
        for place in np.flatnonzero(np.asarray(self.inverse_widths)[order] == 0):
            self.ax_.annotate("dropped", (0, place), (4, 0), **note)


class SparsityPathDisplay(ErrorDisplay):
    """Error against the size of the basis along the path of a sparsifier; the chosen size is marked.

    Parameters
    ----------
    sizes : array (n_sizes,)
        Numbers of basis vectors.
    errors : array (n_sizes,)
        The error at each size.
    chosen : int
        The size of the model's basis.
    error_name : str
        Label of the axis.
    name : str
        Label of the curve.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    line_, chosen_
        The curve and the mark of the chosen size.

    See Also
    --------
    SupportSpectrumDisplay : The coefficients that pruning is based on.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, sparsify
    >>> from lssvm.plotting import SparsityPathDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(steps=[sparsify.Prune(rows="keep")]).fit(X, y)
    >>> display = SparsityPathDisplay.from_estimator(model)  # doctest: +SKIP
    """

    sizes: np.ndarray
    name: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: Model, *, ax: Axes | None = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the ``path_`` of a fitted model.

        Leave-one-out errors are drawn as root mean squares in the units of the targets (-1 and +1 for classes). With
        robust weights they are drawn as mean absolute values, which is what the path then records, except that of
        `sparsify.Forward`, which always squares. The path of `sparsify.FeatureVectors` is the mean reconstruction error
        in feature space, as a fraction of 1.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with one of the steps FeatureVectors, Forward, Prune, Echelon.
        ax : matplotlib axes or None
            If None, a new figure is created.
        name : str or None
            Label of the curve; None means the name of the step.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : SparsityPathDisplay
        """
        steps = "one of the steps sparsify.FeatureVectors(...), Forward(...), Prune(...), Echelon(), which record one."
        path = _recorded_path(estimator, "path over basis sizes", "sizes", steps)
        errors, error_name, step = _recorded_errors(estimator, path)
        name = step if name is None else name
        display = cls(sizes=path.sizes, errors=errors, chosen=int(path.chosen), error_name=error_name, name=name)
        return display.plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        ax, order = self.ax_, np.argsort(self.sizes)
        sizes, errors = np.asarray(self.sizes)[order], np.asarray(self.errors)[order]
        at = errors[np.searchsorted(sizes, self.chosen)]
        label = f"{self.name}: {counted(int(self.chosen), 'vector')}".lstrip(": ")
        self._path(sizes, errors, at, label, kwargs, **MARKERS)
        if errors.max() > 10 * errors.min() > 0:
            ax.set_yscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        self._finish("basis vectors", self.error_name, "Error against basis size")


class MaximalVariationDisplay(Display):
    """The maximal variation of every component against rho (Pelckmans et al. 2005, figs 4 and 6).

    Parameters
    ----------
    rho : array (n_rho,)
        Weights of the maximal variations.
    max_variation : array (n_rho, n_components)
    chosen : float
        The rho that was chosen or given.
    kept : array of int
        The components that the model keeps; they are drawn in colour, with their names.
    names : list of str
        One name per component.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    lines_
        The curves, one per component.
    chosen_
        The vertical line at the chosen rho.

    See Also
    --------
    ComponentsDisplay : The functions of the components kept.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> from lssvm.plotting import MaximalVariationDisplay
    >>> X, y = datasets.make_additive(random_state=0)
    >>> model = LSSVR(kernels.Additive(kernels.Spline()), steps=[sparsify.Components(random_state=0)])
    >>> display = MaximalVariationDisplay.from_estimator(model.fit(X, y))  # doctest: +SKIP
    """

    rho: np.ndarray
    max_variation: np.ndarray
    chosen: float
    kept: Sequence[int] | np.ndarray
    names: Sequence[str]

    @classmethod
    def from_estimator(cls, estimator: Model, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the ``path_`` of a model fitted with `sparsify.Components`.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with the step Components and ``rho=None``.
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : MaximalVariationDisplay
        """
        steps = "steps=[sparsify.Components()], which records one."
        path = _recorded_path(estimator, "path of maximal variations", "max_variation", steps, 2)
        parts = {name: path[name] for name in ("rho", "max_variation", "chosen")}
        kept, names = arrays.to_numpy(estimator.active_), component_names(estimator)
        return cls(**parts, kept=kept, names=names).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax, kept = self.ax_, [int(number) for number in self.kept]
        self.lines_ = []
        for number, (name, values) in enumerate(zip(self.names, self.max_variation.T, strict=True)):
            if number in kept:
                line = self._curve(self.rho, values, name, kwargs)
            else:
                line = self._line(ax, self.rho, values, "#b9bfc6", "_dropped", kwargs, linewidth=0.9, zorder=1)
            self.lines_.append(line)
        self.chosen_ = ax.axvline(self.chosen, color="#222222", lw=1, ls=":")
        ax.set(xscale="log", ylim=(0.0, None))
        title = f"Maximal variations: {len(kept)} of {len(self.names)} inputs kept"
        self._finish(r"weight $\rho$ of the maximal variations", "maximal variation (units of y)", title)


def _recorded_path(estimator: Model, what: str, entry: str, remedy: str, least: int = 1) -> Any:
    """Return the path that a step of a model has recorded with this entry, which has at least `least` values."""
    diagnose.check_fitted(estimator, "estimator")
    diagnose.check_single(estimator, f"The {what}")
    path = getattr(estimator, "path_", None)
    if path is None or entry not in path or len(path[entry]) < least:
        raise ValueError(f"{type(estimator).__name__} has no {what}: fit it with {remedy}")
    return path


def _recorded_errors(estimator: Model, path: Any) -> tuple[np.ndarray, str, str]:
    """Return the errors of a path in units of the targets, the label of their axis and the step that recorded them."""
    problem = estimator.fitted_.problem
    recorded = {} if problem is None else problem.paths
    name = next((key for key, value in recorded.items() if value is path), "")
    if "errors" in path:
        return np.array(path.errors), "mean reconstruction error (fraction of 1)", name
    scored_by = {type(step).__name__: getattr(step, "score", "loo") for step in estimator.steps or ()}
    kind = SCORED_BY.get(scored_by.get(name, "loo"), "leave-one-out")
    unit = "targets -1, +1" if is_classifier(estimator) else "units of y"
    if estimator.robust is not None and name != "Forward":  # Forward always squares
        return np.array(path.scores), f"mean absolute {kind} error ({unit})", name
    return np.sqrt(path.scores), f"root mean square {kind} error ({unit})", name


def _error_name(estimator: Model) -> str:
    """Return the label of the errors that `diagnose.c_path` and `width_surface` return."""
    return "leave-one-out log loss" if is_classifier(estimator) else "root mean square leave-one-out error (units of y)"
