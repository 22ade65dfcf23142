"""Displays of what a model has learned about the columns: their widths, importance and effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from ..arrays import ArrayLike
from ..diagnose import check_fitted, effects, feature_names, importance, inverse_widths
from ..estimators import LSSVC, LSSVR
from ._display import COLOURS, REFERENCE, Axes, Display, Panels, draw_line, output_names, plain_text, rug

MOST_VALUES = 12  # A category with more values is drawn with its most frequent ones.


@dataclass(kw_only=True, eq=False, repr=False)
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

    inverse_widths: np.ndarray
    names: Sequence[str]
    max_columns: int = 30

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
        order, shown = self._bars(self.inverse_widths, self.names, self.max_columns, kwargs)
        note: dict[str, Any] = {"textcoords": "offset points", "va": "center", "size": 8, "alpha": 0.7}
        for place in np.flatnonzero(np.asarray(self.inverse_widths)[order] == 0):
            self.ax_.annotate("dropped", (0, place), (4, 0), **note)
        self._finish("spread / width", "", f"Widths of the columns{shown}")
        self.ax_.grid(visible=False, axis="y")


@dataclass(kw_only=True, eq=False, repr=False)
class ImportanceDisplay(Display):
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
    names: Sequence[str]
    max_columns: int = 20

    @classmethod
    def from_estimator(
        cls, estimator: LSSVR | LSSVC, *, max_columns: int = 20, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
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
        check_fitted(estimator, "estimator")
        found = importance(estimator)
        parts = {name: found[name] for name in ("increase", "full", "measure", "names")}
        return cls(**parts, max_columns=max_columns).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        _, shown = self._bars(self.increase, self.names, self.max_columns, kwargs)
        self.ax_.axvline(0.0, **REFERENCE)
        label = f"increase of the leave-one-out {self.measure} without the column\n({self.full:.3g} with all columns)"
        self._finish(label, "", f"Importance of the columns{shown}")
        self.ax_.grid(visible=False, axis="y")


@dataclass(kw_only=True, eq=False, repr=False)
class EffectsDisplay(Panels):
    """The effects of columns on the prediction.

    Parameters
    ----------
    effects : list of Bunch
        As `lssvm.diagnose.effects` returns them.
    outputs : list of str
        The names of the outputs, for the legend of several.
    label : str
        What the effects are effects on.

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
        estimator: LSSVR | LSSVC,
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
        check_fitted(estimator, "estimator")
        if columns is None:
            found = importance(estimator)
            columns = found.columns[found.errors != found.full][:6].tolist()
        label = "effect on the prediction"
        if is_classifier(estimator):
            label = "effect on the probability"
            if len(estimator.classes_) == 2:
                label = f"{label} of class {plain_text(estimator.classes_[1])}"
        parts = effects(estimator, X, columns)
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
        for colour, output in zip(COLOURS, self._outputs_drawn(), strict=False):
            style: dict[str, Any] = {"color": colour, "linewidth": 1.8, "label": self.outputs[output]}
            style |= {"marker": "o", "markersize": 4.5} if named else {}
            style |= {"linestyle": "none"} if is_category else {}
            draw_line(ax, places, values[:, output], style, kwargs)
        if named:
            words: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "fontsize": "small"}
            ax.set_xticks(places, [plain_text(grid[place]) for place in drawn], **words)
            ax.set_xlim(-0.5, len(drawn) - 0.5)
        else:
            rug(ax, places)
            ax.locator_params(axis="x", nbins=5)
        ax.axhline(0.0, **REFERENCE)
        ax.set_xlabel(plain_text(part.name))

    def _outputs_drawn(self) -> np.ndarray:
        """The outputs with the largest effects, one per colour, in their order."""
        sizes = [np.abs(part.effect.reshape(len(part.grid), -1)).max(axis=0) for part in self.effects]
        return np.sort(np.argsort(-np.max(sizes, axis=0), kind="stable")[: len(COLOURS)])
