"""Text, numbers, tables and charts as HTML. All text from the data goes through `escaped`.

Charts are hand-written inline SVG: they stay small and follow the light or dark colours of the page.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
POINTS = 3000  # Larger clouds are thinned; their extremes are kept.
Bar = tuple[str, float, str]  # name, length and note of a bar


def escaped(value: Any) -> str:
    """Return any value as escaped text; control characters, direction overrides and lone surrogates are replaced."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(value)), quote=True)


def shortened(value: str, length: int) -> str:
    """Return a text of at most this length; of a longer one both ends, where similar names differ."""
    tail = length // 3
    return value if len(value) <= length else f"{value[: length - 1 - tail]}…{value[len(value) - tail :]}"


def rounded(value: float) -> str:
    """Return a number with four significant digits; large numbers as integers."""
    if math.isnan(value):
        return "not defined"
    return f"{value:z.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:z.4g}"


def html_table(columns: Mapping[str, Iterable[Any]], *, header: bool = True, of_rows: bool = False) -> str:
    """Return a table of columns of text, integers and other numbers; its first column holds row headers.

    A table of rows of the data can be sorted, and links lead to its lines by the numbers of the rows.
    """
    table = zip(*columns.values(), strict=True)
    lines = [[str(own) if isinstance(own, (str, Integral)) else rounded(own) for own in line] for line in table]
    if not lines:
        return ""
    button = '<button type="button" class="sort">{}</button>' if of_rows else "{}"
    head = "".join(f'<th scope="col">{button.format(escaped(name))}</th>' for name in columns)
    body = ""
    for first, *others in lines:
        anchor = f' id="row-{escaped(first)}"' if of_rows else ""
        cells = "".join(f"<td{_number_class(value)}>{escaped(value)}</td>" for value in others)
        body += f'<tr{anchor}><th scope="row"{_number_class(first)}>{escaped(first)}</th>{cells}</tr>'
    top = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f'<div class="scroll" tabindex="0"><table>{top}<tbody>{body}</tbody></table></div>'


def formatted(values: Iterable[float], style: str) -> list[str]:
    """Return the numbers in a given style for a column of a table, which otherwise has four significant digits."""
    return [format(value, style) for value in values]


def _number_class(value: str) -> str:
    """Return the class attribute of a cell that contains a number: its digits have one width."""
    return ' class="n"' if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?( ?%)?( points)?", value) else ""


def html_list(lines: Sequence[str], style: str = "") -> str:
    """Return the lines as a list of HTML, or "" if there are none."""
    kind = f' class="{style}"' if style else ""
    return f"<ul{kind}>" + "".join(f"<li>{escaped(line)}</li>" for line in lines) + "</ul>" if lines else ""


def bar_table(header: tuple[str, str], rows: Sequence[Bar], ends: tuple[float, float] | None = None) -> str:
    """Return a table of names, notes and bars from 0 (to the left if negative); names of any length fit on the page."""
    values = [value for _, value, _ in rows] if ends is None else ends
    low, high = min(0.0, *values), max(0.0, *values)
    unit = 100.0 / ((high - low) or 1.0)
    body = ""
    for name, value, note in rows:
        start, length = unit * (min(value, 0.0) - low), unit * abs(value)
        bar = f'<rect class="bar" x="{start:.2f}" width="{length:.2f}" height="10"/>'
        body += f'<tr><th scope="row">{escaped(name)}</th><td class="n">{escaped(note)}</td><td class="bars">'
        body += f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{bar}</svg></td></tr>'
    head = f'<th scope="col">{escaped(header[0])}</th><th scope="col" class="n">{escaped(header[1])}</th>'
    return f'<table class="wide"><thead><tr>{head}<td></td></tr></thead><tbody>{body}</tbody></table>'


def side_by_side(charts: Sequence[str]) -> str:
    """Return charts in as many columns as fit on the page."""
    return f'<div class="charts">{"".join(charts)}</div>'


@dataclass
class Chart:
    """One set of axes as inline SVG, which follows the light or dark colours of the page.

    A layer holds the text before, between and after its points, which `svg` places once the ranges are known.
    """

    title: str
    x: str
    y: str
    log_x: bool = False
    box: tuple[float | None, float | None, float | None, float | None] = (None, None, None, None)
    legend: list[tuple[str, str]] = field(default_factory=list)  # styles and their meanings, below the axes
    _layers: list[tuple[Any, Any, str, str, str]] = field(default_factory=list)

    width, height = 420, 290
    left, right, top, bottom = 62, 14, 30, 44

    def line(self, x: np.ndarray, y: np.ndarray, dots: bool = False, style: str = "line c0") -> None:
        """Draw a curve, optionally with a dot at each value."""
        self._layers.append((x, y, f'<path class="{style}" d="M', " L", '"/>'))
        if dots:
            self._dots(x, y, "dots big")

    def cloud(
        self, x: np.ndarray, y: np.ndarray, residuals: np.ndarray, shown: np.ndarray | None = None, style: str = "dots"
    ) -> None:
        """Draw points; a large cloud is thinned to an even sample and the points with the largest residuals."""
        rows = np.arange(len(x)) if shown is None else np.flatnonzero(shown)
        if len(rows) > POINTS:
            far = rows[np.argsort(-np.abs(residuals[rows]), kind="stable")[: POINTS // 3]]
            even = rows[np.linspace(0, len(rows) - 1, 2 * POINTS // 3).astype(int)]
            drawn = np.union1d(even, far)
            label = f"{len(drawn)} of {len(rows)} points drawn: an even sample and the {len(far)} largest residuals"
            self.legend.append(("", label))
            rows = drawn
        if len(rows):
            self._dots(x[rows], y[rows], style)

    def mark(self, x: float, y: float, label: str) -> None:
        """Draw a ring with a label at the chosen point."""
        self.legend.append(("ring", label))
        self._circle(x, y, "ring", 6, label)

    def links(self, x: np.ndarray, y: np.ndarray, rows: Sequence[int]) -> None:
        """Draw points that link to their lines in the table."""
        for at, down, row in zip(x, y, rows, strict=True):
            label = f"row {row}: residual {down:.4g}"
            self._circle(at, down, "link", 5, label, f'<a href="#row-{row}" aria-label="{escaped(label)}">', "</a>")

    def guide(self, x: np.ndarray, *, slope: float) -> None:
        """Draw the line y = 0 or y = x over a range."""
        ends = np.array([np.min(x), np.max(x)])
        self.line(ends, slope * ends, style="guide")

    def svg(self) -> str:
        """Return the drawing, with a caption that explains the symbols."""
        x, y = (np.concatenate([np.ravel(layer[axis]) for layer in self._layers]) for axis in (0, 1))
        self._range_x = _range(np.log10(x) if self.log_x else x, self.box[:2], 0.0 if self.log_x else 0.04)
        self._range_y = _range(y, self.box[2:], 0.06)
        axes = self._axes()
        marks = ""
        for x, y, before, between, after in self._layers:
            pairs = zip(np.ravel(self._across(x)), np.ravel(self._down(y)), strict=True)
            marks += before + between.join(f"{across:.1f} {down:.1f}" for across, down in pairs) + after
        signs = "".join(f'<span><i class="{style}"></i>{escaped(label)}</span>' for style, label in self.legend)
        caption = f"<figcaption>{signs}</figcaption>" if signs else ""
        label = f"{self.title}. Horizontal axis: {self.x}. Vertical axis: {self.y}."
        return (
            f'<figure><svg viewBox="0 0 {self.width} {self.height}" role="group" aria-label="{escaped(label)}">'
            f'<text class="title" x="{self.left}" y="18">{escaped(shortened(self.title, 48))}</text>{axes}{marks}</svg>'
            f"{caption}</figure>"
        )

    def _dots(self, x: np.ndarray, y: np.ndarray, style: str) -> None:
        """Draw a cloud as one path of zero-length lines with round ends."""
        self._layers.append((x, y, f'<path class="{style}" d="M', "h0M", 'h0"/>'))

    def _circle(self, x: float, y: float, style: str, radius: int, label: str, start: str = "", end: str = "") -> None:
        after = f')" r="{radius}"><title>{escaped(label)}</title></circle>{end}'
        self._layers.append((x, y, f'{start}<circle class="{style}" transform="translate(', "", after))

    def _across(self, x: Any) -> Any:
        low, high = self._range_x
        share = ((np.log10(x) if self.log_x else x) - low) / (high - low)
        return self.left + share * (self.width - self.left - self.right)

    def _down(self, y: Any) -> Any:
        low, high = self._range_y
        return self.height - self.bottom - (y - low) / (high - low) * (self.height - self.top - self.bottom)

    def _axes(self) -> str:
        """Return the grid, numbers and names of the axes, after widening the left margin for the numbers."""
        beside, below = ticks(*self._range_y, 5), ticks(*self._range_x, 6)
        self.left = max(self.left, 28 + 7 * max((len(shown) for _, shown in beside), default=0))
        right, floor = self.width - self.right, self.height - self.bottom
        if self.log_x:
            below = _log_ticks(*self._range_x)
        elif sum(len(shown) + 2 for _, shown in below) > (right - self.left) / 7:
            below = below[::2]  # the numbers would touch
        parts = ""
        for value, shown in beside:
            down = self._down(value)
            parts += f'<path class="grid" d="M{self.left} {down:.1f}H{right}"/>'
            parts += f'<text class="end" x="{self.left - 6}" y="{down + 4:.1f}">{shown}</text>'
        for value, shown in below:
            across = self._across(value)
            parts += f'<path class="grid" d="M{across:.1f} {self.top}V{floor}"/>'
            inside = min(across, self.width - 4 * len(shown))  # a long number at the right end
            parts += f'<text class="middle" x="{inside:.1f}" y="{floor + 16}">{shown}</text>'
        x, y = escaped(shortened(self.x, 48)), escaped(shortened(self.y, self.height // 7))
        return (
            f'{parts}<path class="axis" d="M{self.left} {self.top}V{floor}H{right}"/>'
            f'<text class="middle" x="{(self.left + right) / 2}" y="{self.height - 8}">{x}</text>'
            f'<text class="middle" transform="translate(13 {(self.top + floor) / 2}) rotate(-90)">{y}</text>'
        )


def _range(values: np.ndarray, ends: tuple[float | None, float | None], margin: float) -> tuple[float, float]:
    """Return the range of an axis: the range of the values or the given ends, plus a margin."""
    found = (np.min(values), np.max(values)) if np.isfinite(values).all() else (0.0, 1.0)
    low, high = (float(own) if end is None else end for own, end in zip(found, ends, strict=True))
    size = high - low
    if not size > 1e-12 * max(abs(low), abs(high)):
        size = abs(high) or 1.0
    return low - margin * size, high + (margin if high > low else 1.0) * size


def ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Return about `count` round values between two ends, steps of 1, 2 or 5 times a power of 10, and as text.

    The text has enough digits to distinguish them.
    """
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(factor for factor in (1, 2, 5, 10) if factor * unit >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [number * step for number in range(first, last + 1)]
    largest = max(map(abs, values), default=0.0)
    if step >= 1e-3 and largest < 1e7:
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(value, f"{value:.{decimals}f}" if value else "0") for value in values]
    digits = max(4, math.ceil(math.log10(largest / step)) + 1) if largest > 0 else 4
    return [(value, f"{value:.{min(digits, 15)}g}") for value in values]


def _log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return integer powers of 10 in a range of logarithms, at most 9; in a short range also 2 and 5 times these."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    powers: list[float] = [*range(first, last + 1, max(1, math.ceil((last - first) / 8)))]
    if last - first < 2:
        values = [power + math.log10(digit) for power in range(first - 1, last + 1) for digit in (1, 2, 5)]
        powers = [value for value in values if low - 1e-9 <= value <= high + 1e-9] or [low, high]
    return [(10.0**power, f"1e{power:.0f}" if abs(power) > 3 else f"{10.0**power:.4g}") for power in powers]
