"""Displays of what a model has learned about the columns: their importance and their effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import Bunch

from ..arrays import ArrayLike
from ..diagnose import check_fitted, effects, importance, members
from ..estimators import LSSVC, LSSVR
from ._display import COLOURS, Display, import_pyplot, new_axes, plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EffectsDisplay", "ImportanceDisplay"]

MOST_VALUES = 12  # of a category that are drawn


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

    bars_: Any

    def __init__(
        self, *, increase: np.ndarray, full: float, measure: str, names: Sequence[str], max_columns: int = 20
    ) -> None:
        self.increase = increase
        self.full = full
        self.measure = measure
        self.names = names
        self.max_columns = max_columns

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
        ax = self.ax_
        values = np.asarray(self.increase)
        order = np.argsort(-values, kind="stable")[: self.max_columns]
        self.bars_ = ax.barh(np.arange(len(order)), values[order], **{"color": COLOURS[0], "height": 0.7, **kwargs})
        ax.set_yticks(np.arange(len(order)), [_text(self.names[c]) for c in order])
        ax.invert_yaxis()
        ax.axvline(0.0, color="#777777", lw=1, zorder=1)
        shown = "" if len(order) == len(values) else f" ({len(order)} of {len(values)} columns)"
        label = f"increase of the leave-one-out {self.measure} without the column\n({self.full:.3g} with all columns)"
        self._finish(label, "", f"Importance of the columns{shown}")
        ax.grid(visible=False, axis="y")


class EffectsDisplay:
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

    axes_: Any
    figure_: Any

    def __init__(
        self, *, effects: list[Bunch], outputs: Sequence[str] = ("",), label: str = "effect on the prediction"
    ) -> None:
        self.effects = effects
        self.outputs = outputs
        self.label = label

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
        outputs, label = _outputs(estimator)
        return cls(effects=effects(estimator, X, columns), outputs=outputs, label=label).plot(axes, **kwargs)

    def plot(self, axes: Sequence[Axes] | None = None, **kwargs: Any) -> Self:
        """Draw the effects.

        Parameters
        ----------
        axes : sequence of matplotlib axes or None
            One per column; if None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self
        """
        count, shown = len(self.effects), self._outputs_drawn()
        given: Any = new_axes(import_pyplot(self), count, self.label, across=3) if axes is None else axes
        panels = np.atleast_1d(given)
        self.axes_, self.figure_ = panels[:count], panels[0].figure
        for ax, part in zip(self.axes_, self.effects, strict=True):
            drawn = _drawn(part)
            named = part.kind == "category" or np.asarray(part.grid).dtype == object
            places = np.arange(len(drawn)) if named else part.grid
            values = part.effect.reshape(len(part.grid), -1)[drawn]
            for number, output in enumerate(shown):
                style = {"color": COLOURS[number], "linewidth": 1.8, "label": self.outputs[output]}
                style |= {"marker": "o", "markersize": 4.5} if named else {}
                style |= {"linestyle": "none"} if part.kind == "category" else {}
                ax.plot(places, values[:, output], **{**style, **kwargs})
            if named:
                words = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "fontsize": "small"}
                ax.set_xticks(places, [_text(part.grid[place]) for place in drawn], **words)
                ax.set_xlim(-0.5, len(drawn) - 0.5)
            else:
                ends = {"color": "#5f6b76", "ms": 5, "mew": 0.6, "transform": ax.get_xaxis_transform()}
                ax.plot(places, np.zeros(len(places)), "|", **ends)
                ax.locator_params(axis="x", nbins=5)
            ax.axhline(0.0, color="#777777", lw=0.8, zorder=1)
            ax.set_xlabel(_text(part.name))
            plain_axes(ax)
        if len(shown) > 1 and count:
            handles, labels = self.axes_[0].get_legend_handles_labels()
            if axes is None:
                self.figure_.legend(handles, labels, loc="outside right upper", fontsize="small", frameon=False)
            else:
                self.axes_[0].legend(fontsize="small")
        return self

    def _outputs_drawn(self) -> list[int]:
        """The outputs with the largest effects, one per colour, in their order."""
        sizes = [np.abs(part.effect.reshape(len(part.grid), -1)).max(axis=0) for part in self.effects]
        largest = np.argsort(-np.max(sizes, axis=0), kind="stable") if sizes else np.arange(0)
        return np.sort(largest[: len(COLOURS)]).tolist()


def _drawn(part: Bunch) -> np.ndarray:
    """The entries of the grid that are drawn, in their order."""
    if part.kind == "number":
        return np.arange(len(part.grid))
    return np.sort(np.argsort(-part.counts, kind="stable")[:MOST_VALUES])


def _outputs(estimator: LSSVR | LSSVC) -> tuple[list[str], str]:
    """The names of the outputs, one of which has none, and what the effects are effects on."""
    if not isinstance(estimator, LSSVC):
        outputs = np.size(members(estimator)[0][0].intercept_)
        names = [""] if outputs == 1 else [f"output {number + 1}" for number in range(outputs)]
        return names, "effect on the prediction"
    classes = [_text(label) for label in estimator.classes_]
    if len(classes) == 2:
        return [""], f"effect on the probability of class {classes[1]}"
    return classes, "effect on the probability"


def _text(value: Any) -> str:
    """A name or a value of a category for matplotlib, which reads text between dollar signs as a formula."""
    return "missing" if value is None else str(value).replace("$", r"\$")
