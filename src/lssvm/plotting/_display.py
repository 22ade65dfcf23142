"""The base classes of the displays: axes, colours, curves, bars and the final layout."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, dataclass_transform

import numpy as np
from sklearn.base import is_classifier

from .. import arrays, diagnose
from ..estimators import LSSVC, LSSVR
from ..progress import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:  # matplotlib is optional: the annotations of other modules need only the name
    Axes = Any

Model = LSSVR | LSSVC
COLOURS = "#1f5fa8", "#b3541e", "#3d8361", "#8a4f9e", "#5f6b76", "#c29a2b"
LINES = "-", "--", "-.", ":"
MARKERS = {"marker": "o", "markersize": 3.5}
REFERENCE: dict[str, Any] = {"color": "#777777", "lw": 1, "zorder": 1}  # the style of lines at known values


@dataclass_transform(kw_only_default=True, eq_default=False)
class Drawing:
    """Arrays that can be drawn. Every subclass is a dataclass whose arguments have keywords."""

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True, eq=False, repr=False)(cls)

    def _subplots(self, *shape: int, **options: Any) -> Any:
        """Return a new figure and its axes; without matplotlib, raise an error that names the extra to install."""
        pyplot = arrays.required("matplotlib.pyplot", "plot", type(self).__name__)
        return pyplot.subplots(*shape, layout="constrained", **options)

    def _line(self, ax: Axes, x: Any, y: Any, colour: str, label: str, kwargs: dict[str, Any], **style: Any) -> Any:
        """Draw a line in this style, overridden by the user's options, which may be abbreviated (`lw`)."""
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        style = {"color": colour, "linewidth": 1.8, "label": label, **style, **normalize_kwargs(kwargs, Line2D)}
        return ax.plot(x, y, **style)[0]

    def _rug(self, ax: Axes, x: Any, height: float = 0.0, **style: Any) -> Any:
        """Mark values of x along the horizontal axis."""
        style = {"color": "#5f6b76", "ms": 5, "mew": 0.6, "transform": ax.get_xaxis_transform(), **style}
        return ax.plot(x, np.full(len(x), height), "|", **style)[0]


class Display(Drawing, ABC):
    """One plot on one set of axes. Subclasses store arrays and draw them in `_draw`."""

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the stored arrays.

        Parameters
        ----------
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            As in `from_estimator`.

        Returns
        -------
        self
        """
        self.ax_: Axes = self._subplots(figsize=(6.4, 4.0))[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self._draw(kwargs)
        return self

    @abstractmethod
    def _draw(self, kwargs: dict[str, Any]) -> None:
        """Draw on ``ax_``; kwargs are the user's options for the main artist."""

    def _drawn(self) -> int:
        """Return the number of lines and collections that have a label."""
        return sum(str(artist.get_label())[:1] != "_" for artist in [*self.ax_.lines, *self.ax_.collections])

    def _next_colour(self) -> str:
        return COLOURS[self._drawn() % len(COLOURS)]

    def _curve(self, x: Any, y: Any, label: str, kwargs: dict[str, Any], **style: Any) -> Any:
        """Draw one curve in the next colour; it is dashed once the colours repeat."""
        dashes = LINES[self._drawn() // len(COLOURS) % len(LINES)]
        return self._line(self.ax_, x, y, self._next_colour(), label, kwargs, linestyle=dashes, **style)

    def _points(self, x: Any, y: Any, style: dict[str, Any], kwargs: dict[str, Any]) -> Any:
        """Draw points in this style, overridden by the user's options; a given colour replaces all default ones."""
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.collections import Collection

        given = normalize_kwargs(kwargs, Collection)
        if {"c", "color", "facecolors"} & given.keys():
            style = {name: value for name, value in style.items() if name not in ("c", "color", "cmap", "vmin", "vmax")}
        return self.ax_.scatter(x, y, **{**style, **given})

    def _ring(self, x: float, y: float, colour: str) -> Any:
        """Mark the chosen point."""
        return self.ax_.plot([x], [y], "o", ms=9, mfc="white", mec=colour, mew=2.2, zorder=4)[0]

    def _finish(self, xlabel: str, ylabel: str, title: str) -> None:
        """Add labels, grid and legend; an existing title is kept."""
        ax = self.ax_
        ax.set(xlabel=xlabel, ylabel=ylabel)
        if not ax.get_title():
            ax.set_title(title)
        plain_axes(ax)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(framealpha=0.85, edgecolor="none")


class BarsDisplay(Display):
    """A bar for each column."""

    names: Sequence[str]
    max_columns: int = 30

    def _bars(self, values: Any, xlabel: str, title: str, kwargs: dict[str, Any], sizes: Any = None) -> np.ndarray:
        """Draw `bars_`, largest first, by `sizes` or the values, and return the order of the columns."""
        ax, order = self.ax_, np.argsort(-np.asarray(values if sizes is None else sizes), kind="stable")
        order = order[: self.max_columns]
        style = {"color": COLOURS[0], "height": 0.7, **kwargs}
        self.bars_ = ax.barh(np.arange(len(order)), np.asarray(values)[order], **style)
        ax.set_yticks(np.arange(len(order)), [plain_text(self.names[c]) for c in order])
        ax.invert_yaxis()
        shown = "" if len(order) == len(values) else f" ({len(order)} of {len(values)} columns)"
        self._finish(xlabel, "", f"{title}{shown}")
        ax.grid(visible=False, axis="y")
        return order


class Panels(Drawing, ABC):
    """Several plots next to each other. Subclasses store arrays and draw one panel in `_draw`."""

    @abstractmethod
    def _layout(self) -> tuple[int, str, int]:
        """Return the number of panels, the label of their common vertical axis and how many are side by side."""

    @abstractmethod
    def _draw(self, number: int, ax: Axes, kwargs: dict[str, Any]) -> None:
        """Draw one panel; kwargs are the user's options for its curves."""

    def plot(self, axes: Sequence[Axes] | None = None, **kwargs: Any) -> Self:
        """Draw the stored arrays.

        Parameters
        ----------
        axes : sequence of matplotlib axes or None
            One per panel; if None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self
        """
        count, label, across = self._layout()
        panels = np.atleast_1d(self._new_axes(max(count, 1), label, across) if axes is None else axes)  # type: ignore
        self.axes_, self.figure_ = panels[:count], panels[0].figure
        for number, ax in enumerate(self.axes_):
            self._draw(number, ax, kwargs)
            plain_axes(ax)
        handles, labels = panels[0].get_legend_handles_labels()
        if len(labels) > 1 and axes is None:
            self.figure_.legend(handles, labels, loc="outside right upper", fontsize="small", frameon=False)
        elif len(labels) > 1:
            panels[0].legend(fontsize="small")
        return self

    def _new_axes(self, count: int, label: str, most: int) -> Any:
        """Return the axes of a new figure, at most `most` per row; those beyond `count` are hidden."""
        across = min(count, most)
        down = -(-count // across)
        size = (8.4 / most * across + 0.6, 2.2 * down + 0.3)
        figure, grid = self._subplots(down, across, figsize=size, sharey=True, squeeze=False)
        for ax in grid.ravel()[count:]:
            ax.set_visible(False)
        figure.supylabel(label, fontsize="medium")
        return grid.ravel()


def plain_axes(ax: Axes) -> None:
    """Remove the top and right spines; draw a faint grid below everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.2, which="major")
    ax.set_axisbelow(True)


def plain_text(value: Any) -> str:
    """Return a name or a value of a category for matplotlib, which reads text between dollar signs as a formula."""
    return "missing" if value is None else str(value).replace("$", r"\$")


def at_points(function: Callable[..., Any], points: np.ndarray, *arguments: Any) -> np.ndarray:
    """Return the values of a method of a model at points that it takes for rows, without names of the columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return arrays.to_numpy(function(points, *arguments))


def one_output(values: np.ndarray, output: int) -> np.ndarray:
    """Return one output of an array (rows,) or (rows, outputs)."""
    table = values.reshape(len(values), -1)
    if not 0 <= output < table.shape[1]:
        outputs = counted(table.shape[1], "output")
        raise ValueError(f"output={output} is out of range: the model has {outputs}, numbered from 0.")
    return table[:, output]


def component_names(model: Any) -> list[str]:
    """Return the names of the columns, joined within a group; x1, x2, ... for columns without names."""
    columns = getattr(model, "feature_names_in_", [f"x{column + 1}" for column in range(model.n_features_in_)])
    sources = model.fitted_.layout.sources
    groups = diagnose.members(model)[0][0].kernel_.components(len(sources))
    return [", ".join(str(columns[c]) for c in np.unique(sources[group])) for group in groups]


def output_names(model: Any) -> list[str]:
    """Return the classes, or the numbers of the outputs; a single output has no name."""
    count = np.size(diagnose.members(model)[0][0].intercept_)
    if count == 1:
        return [""]
    if is_classifier(model):
        return [plain_text(label) for label in model.classes_]
    return [f"output {number + 1}" for number in range(count)]
