"""Displays of additive models: how the components were selected, and the component functions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .. import arrays
from ..arrays import ArrayLike
from ..coding import pairs_of
from ..diagnose import (
    check_fitted,
    check_single,
    component_deviations,
    kept_components,
    members,
)
from ..estimators import LSSVC, LSSVR
from ..estimators.validation import validate
from ._display import COLOURS, Axes, Display, Panels, draw_line, output_names, rug


@dataclass(kw_only=True, eq=False, repr=False)
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
    def from_estimator(cls, estimator: LSSVR | LSSVC, *, ax: Axes | None = None, **kwargs: Any) -> Self:
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
        check_fitted(estimator, "estimator")
        check_single(estimator, "The path of maximal variations")
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
            kept=arrays.to_numpy(estimator.active_),
            names=_component_names(estimator),
        )
        return display.plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax, kept = self.ax_, [int(number) for number in self.kept]
        self.lines_ = []
        for number, values in enumerate(np.asarray(self.max_variation).T):
            if number in kept:
                self.lines_.append(self._curve(self.rho, values, self.names[number], kwargs, markers=False))
            else:
                style = {"color": "#b9bfc6", "linewidth": 0.9, "zorder": 1}
                self.lines_.append(draw_line(ax, self.rho, values, style, kwargs))
        self.chosen_ = ax.axvline(self.chosen, color="#222222", lw=1, ls=":")
        ax.set_xscale("log")
        ax.set_ylim(bottom=0.0)
        title = f"Maximal variations: {len(kept)} of {len(self.names)} inputs kept"
        self._finish(r"weight $\rho$ of the maximal variations", "maximal variation (units of y)", title)


@dataclass(kw_only=True, eq=False, repr=False)
class ComponentsDisplay(Panels):
    """The components of an additive model with pointwise intervals (Pelckmans et al. 2005, figs 5 and 7).

    Parameters
    ----------
    inputs : list of arrays
        For each component drawn, increasing values of its input.
    values, deviations : lists of arrays
        The component at these values, and its standard deviation (or None); several outputs have one column each.
    names : list of str
        The names of the components.
    rows : list of arrays
        The values of each input in the data, marked below its curve.
    outputs : list of str
        The names of the outputs, for the legend of several.

    Attributes
    ----------
    axes_, figure_
        Axes and figure of the last call of `plot`.

    See Also
    --------
    MaximalVariationDisplay : How the components were selected.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> from lssvm.plotting import ComponentsDisplay
    >>> X, y = datasets.make_additive(random_state=0)
    >>> model = LSSVR(kernels.Additive(kernels.Spline()), steps=[sparsify.Components(random_state=0)])
    >>> display = ComponentsDisplay.from_estimator(model.fit(X, y), X)  # doctest: +SKIP
    """

    inputs: list[np.ndarray]
    values: list[np.ndarray]
    deviations: list[np.ndarray | None]
    names: list[str]
    rows: list[np.ndarray]
    outputs: Sequence[str] = ("",)

    @classmethod
    def from_estimator(
        cls, estimator: LSSVR | LSSVC, X: ArrayLike, *, axes: Sequence[Axes] | None = None, **kwargs: Any
    ) -> Self:
        """Draw each kept component of one input over the range of that input in X.

        The band is plus or minus two standard deviations of the component, caused by the noise alone: C, the widths
        and the selected inputs are held fixed, and the bias of the ridge is not included. A model whose coefficients
        were not solved for (``Components(refit=False)``) has no band, nor has a stack, nor a classifier other than
        squares with one class against the rest. Groups of several columns are not drawn. Several outputs share the
        panels: the classes of "one-vs-rest", or the pairs of "one-vs-one", labelled "b, not a" and positive for b.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with `kernels.Additive`.
        X : array (n_samples, n_features)
            Rows whose inputs determine the range and are marked.
        axes : sequence of matplotlib axes or None
            One per component; if None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ComponentsDisplay
        """
        check_fitted(estimator, "estimator")
        if not hasattr(estimator, "components"):
            raise ValueError(f"{type(estimator).__name__} is not additive: use kernels.Additive.")
        if estimator.fitted_.layout.encoder is not None:
            raise ValueError(
                "ComponentsDisplay draws columns of numbers without missing cells: draw the columns of "
                "estimator.components(X), one per column of X, instead."
            )
        table = arrays.to_numpy(validate(estimator, X, layout=estimator.fitted_.layout)[1])  # the columns of a frame are checked by name
        names, outputs = _component_names(estimator), output_names(estimator)
        if getattr(estimator, "coding_", "") == "one-vs-one" and len(outputs) > 1:
            outputs = [f"{outputs[b]}, not {outputs[a]}" for a, b in pairs_of(len(outputs))]
        display = cls(inputs=[], values=[], deviations=[], names=[], rows=[], outputs=outputs)
        for number, (column, *others) in kept_components(estimator).items():
            if others:
                continue
            distinct = np.unique(table[:, column])
            is_category = len(distinct) <= 10  # values between them have no meaning
            grid = distinct if is_category else np.linspace(distinct[0], distinct[-1], 200)
            inputs = np.repeat(table[:1], len(grid), axis=0)  # the component does not depend on the other columns
            inputs[:, column] = grid
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                values = arrays.to_numpy(estimator.components(inputs))[:, number]
            deviations = component_deviations(estimator, inputs)
            display.inputs.append(grid)
            display.values.append(values)
            display.deviations.append(None if deviations is None else deviations[:, number].reshape(values.shape))
            display.names.append(names[number])
            display.rows.append(distinct)
        return display.plot(axes, **kwargs)

    def _layout(self) -> tuple[int, str, int]:
        return len(self.names), "component (units of y)", 4

    def _draw(self, number: int, ax: Axes, kwargs: dict[str, Any]) -> None:
        x, values, deviations = self.inputs[number], self.values[number], self.deviations[number]
        for output, (label, own) in enumerate(zip(self.outputs, values.reshape(len(x), -1).T, strict=True)):
            colour = COLOURS[output % len(COLOURS)]
            marker = "o" if len(x) <= 10 else None
            style = {"color": colour, "linewidth": 1.8, "marker": marker, "markersize": 4, "label": label}
            draw_line(ax, x, own, style, kwargs)
            if deviations is not None:
                reach = 2.0 * deviations.reshape(len(x), -1)[:, output]
                ax.fill_between(x, own - reach, own + reach, color=colour, alpha=0.18, lw=0)
        rug(ax, self.rows[number])
        ax.set_xlabel(self.names[number])


def _component_names(model: Any) -> list[str]:
    """The names of the columns, joined within a group; x1, x2, ... for columns without names."""
    columns = getattr(model, "feature_names_in_", None)
    columns = [f"x{c + 1}" for c in range(model.n_features_in_)] if columns is None else [str(c) for c in columns]
    sources = model.fitted_.layout.sources
    groups = members(model)[0][0].kernel_.components(len(sources))
    return [", ".join(columns[c] for c in np.unique(sources[group])) for group in groups]
