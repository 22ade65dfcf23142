"""Charts as hand-written inline SVG, which stay small and follow the light or dark colours of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .markup import escaped, shortened

POINTS = 3000  # larger clouds are thinned; their extremes are kept
DRAWN = 4  # maximum number of outputs with their own chart


@dataclass
class Chart:
    """One set of axes as inline SVG. Everything is drawn by `svg`, once the ranges are known."""

    title: str
    x: str
    y: str
    log_x: bool = False
    box: tuple[float | None, float | None, float | None, float | None] = (None, None, None, None)
    _marks: list[Callable[[], str]] = field(default_factory=list)  # called once the scales are known
    _x: list[np.ndarray] = field(default_factory=list)
    _y: list[np.ndarray] = field(default_factory=list)
    _labels: list[tuple[str, str]] = field(default_factory=list)

    width, height = 420, 290
    left, right, top, bottom = 62, 14, 30, 44

    def line(self, x: np.ndarray, y: np.ndarray, dots: bool = False, style: str = "c0") -> None:
        """A curve, optionally with a dot at each value."""
        self._see(x, y)
        self._marks.append(lambda: f'<path class="line {style}" d="M{" L".join(self._places(x, y))}"/>')
        if dots:
            self._marks.append(lambda: self._dots(x, y, "dots big"))

    def cloud(
        self, x: np.ndarray, y: np.ndarray, residuals: np.ndarray, shown: np.ndarray | None = None, style: str = "dots"
    ) -> None:
        """Points; a large cloud is thinned to an even sample and the points with the largest residuals."""
        self._see(x, y)
        rows = np.arange(len(x)) if shown is None else np.flatnonzero(shown)
        if len(rows) > POINTS:
            far = rows[np.argsort(-np.abs(residuals[rows]), kind="stable")[: POINTS // 3]]
            even = rows[np.linspace(0, len(rows) - 1, 2 * POINTS // 3).astype(int)]
            drawn = np.union1d(even, far)
            label = f"{len(drawn)} of {len(rows)} points drawn: an even sample and the {len(far)} largest residuals"
            self._labels.append(("", label))
            rows = drawn
        self._marks.append(lambda: self._dots(x[rows], y[rows], style))

    def whiskers(self, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Vertical intervals."""

        def draw() -> str:
            ends = zip(self._places(x, low), self._places(x, high), strict=True)
            return f'<path class="thin" d="{"".join(f"M{a}L{b}" for a, b in ends)}"/>'

        self._marks.append(draw)

    def mark(self, x: float, y: float, label: str) -> None:
        """A ring with a label at the chosen point."""
        self._see(np.array([x]), np.array([y]))
        self._labels.append(("ring", label))
        self._marks.append(lambda: self._circle(x, y, "ring", 6, label))

    def links(self, x: np.ndarray, y: np.ndarray, rows: Sequence[int]) -> None:
        """Points that link to their lines in the table."""

        def draw(at: float, down: float, row: int) -> str:
            label = f"row {row}: residual {down:.4g}"
            circle = self._circle(at, down, "link", 5, label)
            return f'<a href="#row-{row}" aria-label="{escaped(label)}">{circle}</a>'

        self._marks.append(lambda: "".join(map(draw, x, y, rows)))

    def diagonal(self, a: np.ndarray, b: np.ndarray) -> None:
        """The line y = x over the range of both."""
        ends = np.array([min(a.min(), b.min()), max(a.max(), b.max())])
        self._see(ends, ends)
        self._marks.append(lambda: f'<path class="guide" d="M{" L".join(self._places(ends, ends))}"/>')

    def zero(self) -> None:
        """The line y = 0."""
        self._see(np.empty(0), np.array([0.0]))
        right = self.width - self.right
        self._marks.append(lambda: f'<path class="guide" d="M{self.left} {self._down(0.0):.1f}H{right}"/>')

    def legend(self, labels: Sequence[tuple[str, str]]) -> None:
        """Add styles and their meanings to the caption."""
        self._labels.extend(labels)

    def svg(self) -> str:
        """The drawing, with a caption that explains the symbols."""
        self._scale()
        axes = self._axes()
        marks = "".join(mark() for mark in self._marks)
        signs = "".join(f'<span><i class="{style}"></i>{escaped(label)}</span>' for style, label in self._labels)
        caption = f"<figcaption>{signs}</figcaption>" if signs else ""
        label = f"{self.title}. Horizontal axis: {self.x}. Vertical axis: {self.y}."
        return (
            f'<figure><svg viewBox="0 0 {self.width} {self.height}" role="group" aria-label="{escaped(label)}">'
            f'<text class="title" x="{self.left}" y="18">{escaped(shortened(self.title, 48))}</text>{axes}{marks}</svg>'
            f"{caption}</figure>"
        )

    def _see(self, x: np.ndarray, y: np.ndarray) -> None:
        """Extend the ranges to include these values."""
        self._x.append(np.asarray(x, float))
        self._y.append(np.asarray(y, float))

    def _scale(self) -> None:
        x, y = np.concatenate(self._x), np.concatenate(self._y)
        self._range_x = _range(np.log10(x) if self.log_x else x, self.box[0], self.box[1], 0.0 if self.log_x else 0.04)
        self._range_y = _range(y, self.box[2], self.box[3], 0.06)
        longest = max((len(shown) for _, shown in labelled(round_ticks(*self._range_y, 5))), default=0)
        self.left = max(self.left, 28 + 7 * longest)  # room for the label of the axis

    def _few(self, ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
        """Every second horizontal tick, if the numbers would touch."""
        room = (self.width - self.left - self.right) / 7
        return ticks[::2] if sum(len(shown) + 2 for _, shown in ticks) > room else ticks

    def _across(self, x: float) -> float:
        low, high = self._range_x
        value = math.log10(x) if self.log_x else x
        return self.left + (value - low) / (high - low) * (self.width - self.left - self.right)

    def _down(self, y: float) -> float:
        low, high = self._range_y
        return self.height - self.bottom - (y - low) / (high - low) * (self.height - self.top - self.bottom)

    def _place(self, x: float, y: float) -> tuple[float, float]:
        return self._across(x), self._down(y)

    def _places(self, x: np.ndarray, y: np.ndarray) -> list[str]:
        return ["{:.1f} {:.1f}".format(*self._place(float(a), float(b))) for a, b in zip(x, y, strict=True)]

    def _circle(self, x: float, y: float, style: str, radius: int, label: str) -> str:
        place = 'cx="{:.1f}" cy="{:.1f}"'.format(*self._place(x, y))
        return f'<circle class="{style}" {place} r="{radius}"><title>{escaped(label)}</title></circle>'

    def _dots(self, x: np.ndarray, y: np.ndarray, style: str) -> str:
        """A cloud as one path of zero-length lines with round ends."""
        return f'<path class="{style}" d="{"".join(f"M{place}h0" for place in self._places(x, y))}"/>' if len(x) else ""

    def _axes(self) -> str:
        right, floor = self.width - self.right, self.height - self.bottom
        parts = []
        for value, shown in labelled(round_ticks(*self._range_y, 5)):
            down = self._down(value)
            parts.append(f'<path class="grid" d="M{self.left} {down:.1f}H{right}"/>')
            parts.append(f'<text class="end" x="{self.left - 6}" y="{down + 4:.1f}">{shown}</text>')
        marks = [(v, f"1e{v:.0f}" if abs(v) > 3 else f"{10.0**v:.4g}") for v in _log_ticks(*self._range_x)]
        for value, shown in marks if self.log_x else self._few(labelled(round_ticks(*self._range_x, 6))):
            across = self._across(10.0**value if self.log_x else value)
            parts.append(f'<path class="grid" d="M{across:.1f} {self.top}V{floor}"/>')
            inside = min(across, self.width - 4 * len(shown))  # a long number at the right end
            parts.append(f'<text class="middle" x="{inside:.1f}" y="{floor + 16}">{shown}</text>')
        parts.append(f'<path class="axis" d="M{self.left} {self.top}V{floor}H{right}"/>')
        below, beside = escaped(shortened(self.x, 48)), escaped(shortened(self.y, self.height // 7))
        parts.append(f'<text class="middle" x="{(self.left + right) / 2}" y="{self.height - 8}">{below}</text>')
        turned = f'transform="translate(13 {(self.top + floor) / 2}) rotate(-90)"'
        return "".join([*parts, f'<text class="middle" {turned}>{beside}</text>'])


def _range(values: np.ndarray, low: float | None, high: float | None, margin: float) -> tuple[float, float]:
    """The range of an axis: the range of the values or the given ends, plus a margin."""
    smallest, largest = float(np.min(values, initial=math.inf)), float(np.max(values, initial=-math.inf))
    if not math.isfinite(smallest + largest):
        smallest, largest = 0.0, 1.0
    smallest, largest = smallest if low is None else low, largest if high is None else high
    size = largest - smallest
    if not size > 1e-12 * max(abs(smallest), abs(largest)):
        size = abs(largest) or 1.0
    return smallest - margin * size, largest + (margin if largest > smallest else 1.0) * size


def round_ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round values between two ends: steps of 1, 2 or 5 times a power of 10."""
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(factor for factor in (1, 2, 5, 10) if factor * unit >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def labelled(ticks: list[float]) -> list[tuple[float, str]]:
    """Ticks with their numbers, with enough digits to distinguish them."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
    largest = max(map(abs, ticks), default=0.0)
    if step >= 1e-3 and largest < 1e7:
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(value, f"{value:.{decimals}f}" if value else "0") for value in ticks]
    digits = max(4, math.ceil(math.log10(largest / step)) + 1) if step > 0 and largest > 0 else 4
    return [(value, f"{value:.{min(digits, 15)}g}") for value in ticks]


def _log_ticks(low: float, high: float) -> list[float]:
    """Integer powers of 10 in a range, at most 9; in a short range also 2 and 5 times these."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if last - first < 2:
        values = [power + math.log10(digit) for power in range(first - 1, last + 1) for digit in (1, 2, 5)]
        return [value for value in values if low - 1e-9 <= value <= high + 1e-9] or [low, high]
    step = max(1, math.ceil((last - first) / 8))
    return [float(power) for power in range(first, last + 1, step)]


def side_by_side(charts: Sequence[str]) -> str:
    """Charts in as many columns as fit on the page."""
    return f'<div class="charts">{"".join(charts)}</div>'
