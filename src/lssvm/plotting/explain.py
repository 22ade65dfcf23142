"""Displays of what a model has learned about the columns: importance, contributions, effects, additive components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils import Bunch

from .. import arrays, diagnose
from ..arrays import ArrayLike
from ..coding import pairs_of
from ..estimators.validation import encoded_rows
from ._display import (
    COLOURS,
    REFERENCE,
    Axes,
    BarsDisplay,
    Model,
    Panels,
    at_points,
    component_names,
    output_names,
    plain_text,
)

MOST_VALUES = 12  # A category with more values is drawn with its most frequent ones.


class ImportanceDisplay(BarsDisplay):
    """The importance of the columns: the increase of the leave-one-out error without each of them.

    Parameters
    ----------
    increase : array (n_features,)
    full : float
        The error with all columns.
    measure : str
        The name of the error.
    names : list of str
    max_columns : int
        Maximum number of columns drawn; the most important ones are kept.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    bars_
        The bars, longest first.

    See Also
    --------
    EffectsDisplay : The effects of the columns.
    lssvm.diagnose.importance : The values.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> from lssvm.plotting import ImportanceDisplay
    >>> X, y = datasets.make_additive(100, random_state=0)
    >>> display = ImportanceDisplay.from_estimator(LSSVR(kernels.RBF()).fit(X, y))  # doctest: +SKIP
    """

    increase: np.ndarray
    full: float
    measure: str
    max_columns: int = 20

    @classmethod
    def from_estimator(cls, estimator: Model, *, max_columns: int = 20, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the importance of the columns of a fitted model, see `lssvm.diagnose.importance`.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted model.
        max_columns : int
            Maximum number of columns drawn; the most important ones are kept.
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.barh`.

        Returns
        -------
        display : ImportanceDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        found = diagnose.importance(estimator)
        parts = {name: found[name] for name in ("increase", "full", "measure", "names")}
        return cls(**parts, max_columns=max_columns).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        label = f"increase of the leave-one-out {self.measure} without the column\n({self.full:.3g} with all columns)"
        self._bars(self.increase, label, "Importance of the columns", kwargs)
        self.ax_.axvline(0.0, **REFERENCE)


class ShapleyDisplay(BarsDisplay):
    """The contributions of the columns to the prediction of one row, with standard errors where they are estimated.

    Parameters
    ----------
    contributions, error : arrays (n_features,)
        As `lssvm.diagnose.shapley` returns them, for one row and one output.
    base : float
        The mean prediction.
    names : list of str
        The names of the columns, with the cells of the row.
    max_columns : int
        Maximum number of columns drawn; those with the largest contributions are kept.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    bars_
        The bars, largest first.

    See Also
    --------
    lssvm.diagnose.shapley : The values.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> from lssvm.plotting import ShapleyDisplay
    >>> X, y = datasets.make_additive(100, random_state=0)
    >>> display = ShapleyDisplay.from_estimator(LSSVR(kernels.RBF()).fit(X, y), X[:1])  # doctest: +SKIP
    """

    contributions: np.ndarray
    error: np.ndarray
    base: float
    max_columns: int = 20

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: ArrayLike,
        *,
        output: int = 0,
        max_columns: int = 20,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the contributions to the prediction of one row, see `lssvm.diagnose.shapley`.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted model.
        X : array or frame (1, n_features)
            The row.
        output : int
            Number of the output or of the class; for two classes, the values are those of the second one.
        max_columns : int
            Maximum number of columns drawn; those with the largest contributions are kept.
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.barh`.

        Returns
        -------
        display : ShapleyDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        found = diagnose.shapley(estimator, X)
        if len(found.contributions) != 1:
            raise ValueError(f"X has {len(found.contributions)} rows: give the row to explain, e.g. X[:1].")
        values, error = (found[name].reshape(len(found.names), -1)[:, output] for name in ("contributions", "error"))
        cells = np.asarray(X, dtype=object)[0]
        names = [
            f"{name} = {cell:.4g}" if isinstance(cell, float) else f"{name} = {cell}"
            for name, cell in zip(found.names, cells, strict=True)
        ]
        base = float(np.ravel(found.base)[output])
        return cls(contributions=values, error=error, base=base, names=names, max_columns=max_columns).plot(
            ax, **kwargs
        )

    def _draw(self, kwargs: dict[str, Any]) -> None:
        label = f"contribution (mean {self.base:.4g}, prediction {self.base + self.contributions.sum():.4g})"
        order = self._bars(self.contributions, label, "Why this prediction", kwargs, np.abs(self.contributions))
        if self.error.any():
            self.ax_.errorbar(
                self.contributions[order], np.arange(len(order)), xerr=self.error[order], fmt="none", ecolor="0.3"
            )
        self.ax_.axvline(0.0, **REFERENCE)


class EffectsDisplay(Panels):
    """The effects of columns on the prediction.

    Parameters
    ----------
    effects : list of Bunch
        As `lssvm.diagnose.effects` returns them.
    outputs : list of str
        The names of the outputs, for the legend of several.
    label : str
        Label of the common vertical axis.

    Attributes
    ----------
    axes_, figure_
        Axes and figure of the last call of `plot`.

    See Also
    --------
    ImportanceDisplay : The importance of the columns.
    lssvm.diagnose.effects : The values.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> from lssvm.plotting import EffectsDisplay
    >>> X, y = datasets.make_additive(100, random_state=0)
    >>> display = EffectsDisplay.from_estimator(LSSVR(kernels.RBF()).fit(X, y), X)  # doctest: +SKIP
    """

    effects: list[Bunch]
    outputs: Sequence[str] = ("",)
    label: str = "effect on the prediction"

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: ArrayLike | None = None,
        columns: Sequence[int | str] | None = None,
        *,
        axes: Sequence[Axes] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the effects of columns, see `lssvm.diagnose.effects`.

        The marks below a curve are the ends of the intervals, each with about the same number of rows. Of a category,
        the 12 most frequent values are drawn, and of many outputs or classes the six with the largest effects.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted model.
        X : array or frame (n_samples, n_features), or None
            Rows over which the effects are averaged. None: the training rows that the model keeps.
        columns : sequence of column numbers or names, or None
            None: the six most important columns, see `lssvm.diagnose.importance`.
        axes : sequence of matplotlib axes or None
            One per column; if None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : EffectsDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        if columns is None:
            found = diagnose.importance(estimator)
            columns = found.columns[found.errors != found.full][:6].tolist()
        classes: Any = getattr(estimator, "classes_", ())
        label = f"effect on the {'probability' if len(classes) else 'prediction'}"
        label += f" of class {plain_text(classes[1])}" if len(classes) == 2 else ""
        parts = diagnose.effects(estimator, X, columns)
        return cls(effects=parts, outputs=output_names(estimator), label=label).plot(axes, **kwargs)

    def _layout(self) -> tuple[int, str, int]:
        return len(self.effects), self.label, 3

    def _draw(self, number: int, ax: Axes, kwargs: dict[str, Any]) -> None:
        part = self.effects[number]
        grid, is_category = part.grid, part.kind == "category"
        drawn = np.arange(len(grid))
        if is_category:
            drawn = np.sort(np.argsort(-part.counts, kind="stable")[:MOST_VALUES])
        named = is_category or np.asarray(grid).dtype == object
        places = np.arange(len(drawn)) if named else grid
        values = part.effect.reshape(len(grid), -1)[drawn]
        style: dict[str, Any] = {"marker": "o", "markersize": 4.5} if named else {}
        style |= {"linestyle": "none"} if is_category else {}
        sizes = [np.abs(part.effect.reshape(len(part.grid), -1)).max(axis=0) for part in self.effects]
        largest = np.sort(np.argsort(-np.max(sizes, axis=0), kind="stable")[: len(COLOURS)])
        for colour, output in zip(COLOURS, largest, strict=False):
            self._line(ax, places, values[:, output], colour, self.outputs[output], kwargs, **style)
        if named:
            words: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "fontsize": "small"}
            ax.set_xticks(places, [plain_text(grid[place]) for place in drawn], **words)
            ax.set_xlim(-0.5, len(drawn) - 0.5)
        else:
            self._rug(ax, places)
            ax.locator_params(axis="x", nbins=5)
        ax.axhline(0.0, **REFERENCE)
        ax.set_xlabel(plain_text(part.name))


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
        cls, estimator: Model, X: ArrayLike, *, axes: Sequence[Axes] | None = None, **kwargs: Any
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
        diagnose.check_fitted(estimator, "estimator")
        if not hasattr(estimator, "components"):
            raise ValueError(f"{type(estimator).__name__} is not additive: use kernels.Additive.")
        if estimator.fitted_.layout.encoder is not None:
            remedy = "draw the columns of estimator.components(X), one per column of X, instead"
            raise ValueError(f"ComponentsDisplay draws columns of numbers without missing cells: {remedy}.")
        table = arrays.to_numpy(encoded_rows(estimator, X))  # the columns of a frame are checked by name
        names, outputs = component_names(estimator), output_names(estimator)
        if getattr(estimator, "coding_", "") == "one-vs-one" and len(outputs) > 1:
            outputs = [f"{outputs[b]}, not {outputs[a]}" for a, b in pairs_of(len(outputs))]
        parts: dict[str, list[Any]] = {"inputs": [], "values": [], "deviations": [], "names": [], "rows": []}
        singles = {number: group[0] for number, group in diagnose.kept_components(estimator).items() if len(group) == 1}
        for number, column in singles.items():
            distinct = np.unique(table[:, column])
            is_category = len(distinct) <= 10  # values between them have no meaning
            grid = distinct if is_category else np.linspace(distinct[0], distinct[-1], 200)
            inputs = np.repeat(table[:1], len(grid), axis=0)  # the component does not depend on the other columns
            inputs[:, column] = grid
            values = at_points(estimator.components, inputs)[:, number]
            deviations = diagnose.component_deviations(estimator, inputs)
            deviations = None if deviations is None else deviations[:, number].reshape(values.shape)
            for part, own in zip(parts.values(), (grid, values, deviations, names[number], distinct), strict=True):
                part.append(own)
        return cls(**parts, outputs=outputs).plot(axes, **kwargs)

    def _layout(self) -> tuple[int, str, int]:
        return len(self.names), "component (units of y)", 4

    def _draw(self, number: int, ax: Axes, kwargs: dict[str, Any]) -> None:
        x, values, deviations = self.inputs[number], self.values[number], self.deviations[number]
        for output, (label, own) in enumerate(zip(self.outputs, values.reshape(len(x), -1).T, strict=True)):
            colour, marker = COLOURS[output % len(COLOURS)], "o" if len(x) <= 10 else None
            self._line(ax, x, own, colour, label, kwargs, marker=marker, markersize=4)
            if deviations is not None:
                reach = 2.0 * deviations.reshape(len(x), -1)[:, output]
                ax.fill_between(x, own - reach, own + reach, color=colour, alpha=0.18, lw=0)
        self._rug(ax, self.rows[number])
        ax.set_xlabel(self.names[number])
