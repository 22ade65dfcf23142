"""Displays of errors and coefficients along a path: of C, of widths, of the size of the basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from .. import arrays
from .._words import counted
from ..diagnose import c_path, check_fitted, check_single, width_surface
from ..estimators import LSSVC, LSSVR
from ._display import COLOURS, Axes, Display

# How the sizes of a path were scored, for axis labels, by the `score` of the step
SCORED_BY = {"loo": "leave-one-out", "kfold": "10-fold", "validation": "validation"}


@dataclass(kw_only=True, eq=False, repr=False)
class CPathDisplay(Display):
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
    errors: np.ndarray
    chosen: float
    error_name: str = "error"
    name: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: LSSVR | LSSVC,
        *,
        decades: float = 4.0,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
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
        check_fitted(estimator, "estimator")
        C, errors = c_path(estimator, decades)
        label = f"C = {estimator.C_:.3g}" if name is None else name
        error_name = _error_name(estimator)
        return cls(C=C, errors=errors, chosen=estimator.C_, error_name=error_name, name=label).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        C, errors = np.asarray(self.C), np.asarray(self.errors)
        at = np.exp(np.interp(np.log(self.chosen), np.log(C), np.log(errors)))
        self._path(C, errors, (self.chosen, at), self.name, kwargs, markers=False)
        self._finish("C", self.error_name, "Leave-one-out error against C")


@dataclass(kw_only=True, eq=False, repr=False)
class WidthSurfaceDisplay(Display):
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
    errors: np.ndarray
    chosen: float
    error_name: str = "error"

    @classmethod
    def from_estimator(cls, estimator: LSSVR | LSSVC, *, ax: Axes | None = None, **kwargs: Any) -> Self:
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
        check_fitted(estimator, "estimator")
        C, factors, errors = width_surface(estimator)
        error_name = _error_name(estimator)
        return cls(C=C, factors=factors, errors=errors, chosen=estimator.C_, error_name=error_name).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax, errors = self.ax_, np.asarray(self.errors)
        # levels are denser near the smallest error, where the choice is made
        low, high = float(errors.min()), float(np.quantile(errors, 0.95))
        levels = low + (max(high, low * (1 + 1e-9)) - low) * np.linspace(0.0, 1.0, 16) ** 2
        style = {"levels": levels, "cmap": "viridis_r", "extend": "max", **kwargs}
        self.surface_ = ax.contourf(np.asarray(self.C), np.asarray(self.factors), errors, **style)
        self.figure_.colorbar(self.surface_, ax=ax, label=self.error_name, format="%.3g")
        self.chosen_ = self._ring(self.chosen, 1.0, COLOURS[1])
        ax.set(xscale="log", yscale="log")
        self._finish("C", "width / width of the model", "Leave-one-out error against C and the widths")


@dataclass(kw_only=True, eq=False, repr=False)
class SparsityPathDisplay(Display):
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
    errors: np.ndarray
    chosen: int
    error_name: str = "error"
    name: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: LSSVR | LSSVC, *, ax: Axes | None = None, name: str | None = None, **kwargs: Any
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
        check_fitted(estimator, "estimator")
        check_single(estimator, "The path over basis sizes")
        path = getattr(estimator, "path_", None)
        if path is None or "sizes" not in path or not ("scores" in path or "errors" in path):
            raise ValueError(
                f"{type(estimator).__name__} has no path over basis sizes: fit it with one of the steps "
                "sparsify.FeatureVectors(...), Forward(...), Prune(...), Echelon(), which record one."
            )
        errors, error_name, step = _recorded_errors(estimator, path)
        display = cls(
            sizes=np.array(path.sizes),
            errors=errors,
            chosen=int(path.chosen),
            error_name=error_name,
            name=step if name is None else name,
        )
        return display.plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        ax, order = self.ax_, np.argsort(self.sizes)
        sizes, errors = np.asarray(self.sizes)[order], np.asarray(self.errors)[order]
        at = errors[np.searchsorted(sizes, self.chosen)]
        label = f"{self.name}: {counted(self.chosen, 'vector')}".lstrip(": ")
        self._path(sizes, errors, (self.chosen, at), label, kwargs)
        if errors.max() > 10 * errors.min() > 0:
            ax.set_yscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        self._finish("basis vectors", self.error_name, "Error against basis size")


@dataclass(kw_only=True, eq=False, repr=False)
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
        cls, estimator: LSSVR | LSSVC, *, ax: Axes | None = None, name: str | None = None, **kwargs: Any
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
        check_fitted(estimator, "estimator")
        check_single(estimator, "The spectrum of support values")
        coef = arrays.to_numpy(estimator.dual_coef_)
        size = np.abs(coef) if coef.ndim == 1 else np.linalg.norm(coef, axis=1)
        order = np.argsort(-size, kind="stable")
        label = counted(len(size), "support vector") if name is None else name
        return cls(support_values=size[order], order=order, name=label).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        values = np.asarray(self.support_values)
        ranks = np.arange(1, len(values) + 1)
        self.line_ = self._curve(ranks, values, self.name, kwargs, markers=len(values) <= 30)
        self.line_.sticky_edges.y.append(0.0)
        self.ax_.update_datalim([(0.0, 0.0)])  # the axes start at 0
        self.ax_.autoscale_view()
        self._finish("rank", r"support value $|\alpha|$", "Sorted support values")


def _recorded_errors(estimator: LSSVR | LSSVC, path: Any) -> tuple[np.ndarray, str, str]:
    """The errors of a path in the units of the targets, the label of their axis and the step that recorded them."""
    problem = estimator.fitted_.problem
    recorded = {} if problem is None else problem.paths
    name = next((key for key, value in recorded.items() if value is path), "")
    if "errors" in path:
        return np.array(path.errors), "mean reconstruction error (fraction of 1)", name
    steps = [step for step in estimator.steps or () if type(step).__name__ == name]
    kind = SCORED_BY.get(getattr(steps[-1], "score", "loo"), "leave-one-out") if steps else "leave-one-out"
    unit = "targets -1, +1" if is_classifier(estimator) else "units of y"
    if estimator.robust is not None and name != "Forward":  # Forward always squares
        return np.array(path.scores), f"mean absolute {kind} error ({unit})", name
    return np.sqrt(path.scores), f"root mean square {kind} error ({unit})", name


def _error_name(estimator: LSSVR | LSSVC) -> str:
    """The label of the errors that `diagnose.c_path` and `width_surface` return."""
    return "leave-one-out log loss" if is_classifier(estimator) else "root mean square leave-one-out error (units of y)"
