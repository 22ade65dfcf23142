"""The base class of the displays: axes, colours, curves and the final layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

COLOURS = "#1f5fa8", "#b3541e", "#3d8361", "#8a4f9e", "#5f6b76", "#c29a2b"
LINES = "-", "--", "-.", ":"


class Display(ABC):
    """One plot on one set of axes. Subclasses store arrays and draw them in `_draw`."""

    ax_: Axes
    figure_: Figure | SubFigure

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
        pyplot = import_pyplot(self)
        if ax is None:
            _, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(kwargs)
        return self

    @abstractmethod
    def _draw(self, kwargs: dict[str, Any]) -> None:
        """Draw on ``ax_``; kwargs are the user's options for the main artist."""

    def _drawn(self) -> int:
        """The number of lines and collections that have a label."""
        return sum(str(artist.get_label())[:1] != "_" for artist in [*self.ax_.lines, *self.ax_.collections])

    def _next_colour(self) -> str:
        return COLOURS[self._drawn() % len(COLOURS)]

    def _curve(self, x: Any, y: Any, label: str, kwargs: dict[str, Any], markers: bool = True) -> Any:
        """One curve in the next colour; dashed once the colours repeat."""
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        style: dict[str, Any] = {"color": self._next_colour(), "linewidth": 1.8, "label": label}
        style["linestyle"] = LINES[self._drawn() // len(COLOURS) % len(LINES)]
        if markers:
            style.update(marker="o", markersize=3.5)
        (line,) = self.ax_.plot(x, y, **{**style, **normalize_kwargs(kwargs, Line2D)})
        return line

    def _ring(self, x: float, y: float, colour: str) -> Any:
        """Mark the chosen point."""
        (ring,) = self.ax_.plot([x], [y], "o", ms=9, mfc="white", mec=colour, mew=2.2, zorder=4)
        return ring

    def _ring_on_line(self, x: float, y: float, colour: str) -> Any:
        """Mark the chosen point and draw a vertical line at its x value."""
        ring = self._ring(x, y, colour)
        self.ax_.axvline(x, color=colour, lw=1, ls=":", alpha=0.7, zorder=1)
        return ring

    def _diagonal(self, place: float) -> Any:
        """The line y = x, through the point (place, place)."""
        return self.ax_.axline((place, place), slope=1, color="#777777", lw=1, ls="--", zorder=1)

    def _finish(self, xlabel: str, ylabel: str, title: str) -> None:
        """Labels, grid and legend; an existing title is kept."""
        ax = self.ax_
        ax.set(xlabel=xlabel, ylabel=ylabel)
        if not ax.get_title():
            ax.set_title(title)
        plain_axes(ax)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(framealpha=0.85, edgecolor="none")


def import_pyplot(display: Any) -> Any:
    """matplotlib.pyplot, or an error that names the extra to install."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(f'{type(display).__name__} requires matplotlib: pip install "lssvm[plot]"') from error
    return pyplot


def plain_axes(ax: Axes) -> None:
    """Remove the top and right spines; draw a faint grid below everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.2, which="major")
    ax.set_axisbelow(True)


def new_axes(pyplot: Any, count: int, label: str, across: int = 4) -> Any:
    """Axes of a new figure, at most `across` per row; those beyond `count` are hidden."""
    wide = 8.4 / across
    across = min(max(count, 1), across)
    down = -(-max(count, 1) // across)
    size = (wide * across + 0.6, 2.2 * down + 0.3)
    figure, grid = pyplot.subplots(down, across, figsize=size, sharey=True, squeeze=False, layout="constrained")
    axes = grid.ravel()
    for ax in axes[count:]:
        ax.set_visible(False)
    figure.supylabel(label, fontsize="medium")
    return axes


def one_output(values: np.ndarray, output: int) -> np.ndarray:
    """One output of an array (rows,) or (rows, outputs)."""
    table = np.asarray(values).reshape(len(values), -1)
    if not 0 <= output < table.shape[1]:
        outputs = counted(table.shape[1], "output")
        raise ValueError(f"output={output} is out of range: the model has {outputs}, numbered from 0.")
    return table[:, output]
