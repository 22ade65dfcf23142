"""The pictures of the leaderboard: mean ranks, errors relative to the peers', and seconds against errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Okabe & Ito's colours, which people with colour vision deficiency can tell apart; the markers differ, too.
STYLES = {
    "LSSVR()": ("#000000", "o"),
    "LSSVC()": ("#000000", "o"),
    "CatBoost": ("#D55E00", "^"),
    "LightGBM": ("#E69F00", "D"),
    "RealMLP TD": ("#882255", "p"),
    "LightGBM TD": ("#B8860B", "d"),
    "random forest": ("#009E73", "s"),
    "tuned SVM": ("#0072B2", "v"),
    "Gaussian process": ("#CC79A7", "P"),
    "neo-ls-svm": ("#56B4E9", "X"),
    "xRFM": ("#7F7F7F", "*"),
}
WIDTH, DPI = 7.0, 130
LEAST = 0.25  # smaller ratios are drawn here, so that there is room for those near 1


class Ranking(NamedTuple):
    """A critical-difference diagram: models in order of their mean ranks, and runs of them that do not differ."""

    title: str
    names: list[str]
    ranks: list[float]
    cliques: list[tuple[int, int]]  # first and last place


class Cloud(NamedTuple):
    """Models with CPU seconds and error ratios; hollow points were timed on a slower computer."""

    title: str
    names: list[str]
    seconds: Sequence[float]
    ratios: Sequence[float]
    hollow: list[str]


def weight(name: str) -> str:
    return "bold" if name.startswith("LSSV") else "normal"


def draw_ranks(rankings: list[Ranking], file: Path) -> None:
    """The best half of the models is named on the left, the others on the right; bars join those that do not differ."""
    rows = [1.4 + 0.3 * len(of.cliques) + 0.5 * ((len(of.names) + 1) // 2) for of in rankings]
    figure, axes = plt.subplots(
        len(rankings),
        squeeze=False,
        figsize=(WIDTH, 0.55 * sum(rows)),
        height_ratios=rows,
        layout="constrained",
        dpi=DPI,
    )
    for ax, of, height in zip(axes[:, 0], rankings, rows, strict=True):
        low, high = int(np.floor(of.ranks[0])), int(np.ceil(of.ranks[-1]))
        margin = 0.45 * (high - low)
        ax.set(xlim=(low - margin, high + margin), ylim=(0.7 - height, 0.7))
        ax.set_title(of.title, fontsize="medium")
        ax.axis("off")
        ax.plot([low, high], [0, 0], "k", lw=1)
        for tick in range(low, high + 1):
            ax.plot([tick, tick], [0, 0.12], "k", lw=1)
            ax.text(tick, 0.2, str(tick), ha="center", va="bottom")
        for place, (first, last) in enumerate(of.cliques):
            level = -0.3 - 0.3 * place
            ax.plot([of.ranks[first] - 0.03, of.ranks[last] + 0.03], [level, level], color="#555555", lw=4)
        half = (len(of.names) + 1) // 2
        for place, (name, rank) in enumerate(zip(of.names, of.ranks, strict=True)):
            left = place < half
            level = -0.6 - 0.3 * len(of.cliques) - 0.5 * (place if left else len(of.names) - 1 - place)
            end = low - 0.02 * margin if left else high + 0.02 * margin
            ax.plot([rank, rank, end], [0, level, level], color=STYLES[name][0], lw=1)
            text = f"{name}  {rank:.2f} " if left else f" {rank:.2f}  {name}"
            ax.text(end, level, text, ha="right" if left else "left", va="center", weight=weight(name))
    figure.savefig(file)
    plt.close(figure)


def draw_ratios(own: str, rows: list[tuple[str, dict[str, float]]], file: Path, label: str) -> None:
    """By set: the ratios of the own error to the peers'; a ring marks the best peer of a set."""
    figure, ax = plt.subplots(figsize=(WIDTH, 0.27 * len(rows) + 1.5), layout="constrained", dpi=DPI)
    for name, (colour, marker) in STYLES.items():
        places = [place for place, (_, ratios) in enumerate(rows) if name in ratios]
        if places:
            values = [max(rows[place][1][name], LEAST) for place in places]
            ax.plot(
                values, places, marker, color=colour, ms=9 if marker == "*" else 6, mec="white", mew=0.4, label=name
            )
    largest = [max(*ratios.values(), LEAST) for _, ratios in rows]
    ax.plot(largest, range(len(rows)), "o", mfc="none", mec="black", ms=12, mew=1, label="best other model", zorder=1)
    ax.axvline(1.0, color="black", lw=0.8, zorder=0)
    ax.set(xscale="log", xlabel=f"{label} of {own} / that of the other model\n(below 1: {own} is better)")
    ticks = [LEAST, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0]
    shown = [tick for tick in ticks if tick <= ax.get_xlim()[1]]
    ax.set_xticks(shown, [f"\u2264 {LEAST:g}", *(f"{tick:g}" for tick in shown[1:])])
    ax.minorticks_off()
    ax.set_yticks(range(len(rows)), [name for name, _ in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, fontsize="small", frameon=False)
    figure.savefig(file)
    plt.close(figure)


def draw_times(clouds: list[Cloud], file: Path, label: str) -> None:
    figure, axes = plt.subplots(
        len(clouds), squeeze=False, figsize=(WIDTH, 3.3 * len(clouds) + 0.3), sharex=True, layout="constrained", dpi=DPI
    )
    for ax, cloud in zip(axes[:, 0], clouds, strict=True):
        for name, x, y in zip(cloud.names, cloud.seconds, cloud.ratios, strict=True):
            colour, marker = STYLES[name]
            ax.plot(x, y, marker, color=colour, mfc="white" if name in cloud.hollow else colour, ms=8)
        ax.set(xscale="log", yscale="log", ylabel=f"{label} / smallest of the set")
        ax.set_title(f"{cloud.title}; lower left is better", fontsize="medium")
        ax.margins(0.16, 0.12)
        ax.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(6, steps=[1, 2, 5]))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        ax.xaxis.set_major_formatter("{x:g}")
        ax.grid(alpha=0.3)
    axes[-1, 0].set_xlabel("CPU seconds of a fit, geometric mean over the sets")
    figure.canvas.draw()  # so that the places of points and words are known
    for ax, cloud in zip(axes[:, 0], clouds, strict=True):
        name_points(ax, cloud)
    figure.savefig(file)
    plt.close(figure)


def name_points(ax: Any, cloud: Cloud) -> None:
    """The name of each point beside it, where it covers no other point or name."""
    points = ax.transData.transform(np.column_stack([cloud.seconds, cloud.ratios]))
    taken = [matplotlib.transforms.Bbox.from_bounds(x - 8, y - 8, 16, 16) for x, y in points]
    sides = [((9, 0), "left", "center"), ((-9, 0), "right", "center"), ((0, 8), "center", "bottom")]
    sides += [((0, -8), "center", "top"), ((9, 9), "left", "bottom"), ((9, -9), "left", "top")]
    for number, name in enumerate(cloud.names):
        others = [box for place, box in enumerate(taken) if place != number]
        for offset, across, along in sides:
            text = ax.annotate(
                name,
                (cloud.seconds[number], cloud.ratios[number]),
                offset,
                textcoords="offset points",
                ha=across,
                va=along,
                weight=weight(name),
            )
            box = text.get_window_extent()
            inside = ax.bbox.x0 < box.x0 and box.x1 < ax.bbox.x1 and ax.bbox.y0 < box.y0 and box.y1 < ax.bbox.y1
            if inside and not any(box.overlaps(other) for other in others):
                break
            text.remove()
        else:
            text = ax.annotate(name, (cloud.seconds[number], cloud.ratios[number]), (9, 0), textcoords="offset points")
        taken.append(text.get_window_extent())
