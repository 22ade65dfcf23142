"""Displays of tuning: the error against C, the error against C and the widths, and the widths of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import is_classifier

from ..diagnose import c_path, check_fitted, feature_names, inverse_widths, width_surface
from ..estimators import LSSVC, LSSVR
from ._display import COLOURS, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CPathDisplay", "WidthSurfaceDisplay", "WidthsDisplay"]


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

    line_: Any
    chosen_: Any

    def __init__(
        self, *, C: np.ndarray, errors: np.ndarray, chosen: float, error_name: str = "error", name: str = ""
    ) -> None:
        self.C = C
        self.errors = errors
        self.chosen = chosen
        self.error_name = error_name
        self.name = name

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
        ax = self.ax_
        C, errors = np.asarray(self.C), np.asarray(self.errors)
        self.line_ = self._curve(C, errors, self.name, kwargs, markers=False)
        at = np.exp(np.interp(np.log(self.chosen), np.log(C), np.log(errors)))
        self.chosen_ = self._ring_on_line(self.chosen, at, self.line_.get_color())
        ax.set_xscale("log")
        self._finish("C", self.error_name, "Leave-one-out error against C")


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

    surface_: Any
    chosen_: Any

    def __init__(
        self, *, C: np.ndarray, factors: np.ndarray, errors: np.ndarray, chosen: float, error_name: str = "error"
    ) -> None:
        self.C = C
        self.factors = factors
        self.errors = errors
        self.chosen = chosen
        self.error_name = error_name

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
        ax = self.ax_
        errors = np.asarray(self.errors)
        # levels are denser near the smallest error, where the choice is made
        low, high = float(errors.min()), float(np.quantile(errors, 0.95))
        levels = low + (max(high, low * (1 + 1e-9)) - low) * np.linspace(0.0, 1.0, 16) ** 2
        style = {"levels": levels, "cmap": "viridis_r", "extend": "max", **kwargs}
        self.surface_ = ax.contourf(np.asarray(self.C), np.asarray(self.factors), errors, **style)
        self.figure_.colorbar(self.surface_, ax=ax, label=self.error_name, format="%.3g")
        self.chosen_ = self._ring(self.chosen, 1.0, COLOURS[1])
        ax.set(xscale="log", yscale="log")
        self._finish("C", "width / width of the model", "Leave-one-out error against C and the widths")


class WidthsDisplay(Display):
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

    bars_: Any

    def __init__(self, *, inverse_widths: np.ndarray, names: Sequence[str], max_columns: int = 30) -> None:
        self.inverse_widths = inverse_widths
        self.names = names
        self.max_columns = max_columns

    @classmethod
    def from_estimator(
        cls, estimator: LSSVR | LSSVC, *, max_columns: int = 30, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
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
        check_fitted(estimator, "estimator")
        names = feature_names(estimator)
        return cls(inverse_widths=inverse_widths(estimator), names=names, max_columns=max_columns).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax = self.ax_
        values = np.asarray(self.inverse_widths)
        order = np.argsort(-values, kind="stable")[: self.max_columns]
        names = [str(self.names[c]).replace("$", r"\$") for c in order]
        self.bars_ = ax.barh(np.arange(len(order)), values[order], **{"color": COLOURS[0], "height": 0.7, **kwargs})
        ax.set_yticks(np.arange(len(order)), names)
        ax.invert_yaxis()
        for place, c in enumerate(order):
            if values[c] == 0:
                ax.annotate("dropped", (0, place), (4, 0), textcoords="offset points", va="center", size=8, alpha=0.7)
        shown = "" if len(order) == len(values) else f" ({len(order)} of {len(values)} columns)"
        self._finish("spread / width", "", f"Widths of the columns{shown}")
        ax.grid(visible=False, axis="y")


def _error_name(estimator: LSSVR | LSSVC) -> str:
    """The label of the errors that `diagnose.c_path` and `width_surface` return."""
    return "leave-one-out log loss" if is_classifier(estimator) else "root mean square leave-one-out error (units of y)"
