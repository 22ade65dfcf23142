"""Models compared on many sets: tests of differences, and groups of models that do not differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.stats import wilcoxon

from .records import Peers, Run

LEVEL = 0.05


class Comparison(NamedTuple):
    """Means over the splits on which all models were measured, sets x models."""

    models: list[str]
    runs: list[Run]
    sets: list[str]
    errors: np.ndarray
    seconds: np.ndarray


def compare(records: Peers, runs: list[Run], models: list[str]) -> Comparison:
    runs = [run for run in runs if set(models) <= set(records[run])]
    sets = list(dict.fromkeys(name for name, _ in runs))

    def means(key: str) -> np.ndarray:
        of = {name: [[records[run][m][key] for m in models] for run in runs if run[0] == name] for name in sets}
        return np.array([np.mean(of[name], axis=0) for name in sets])

    return Comparison(models, runs, sets, means("error"), means("fit_cpu_seconds"))


def measured_on(records: Peers, runs: list[Run], models: Iterable[str], share: float) -> list[str]:
    """The models that were measured on this share of the sets."""
    sets = {name for name, _ in runs}
    return [model for model in models if len({run[0] for run in runs if model in records[run]}) >= share * len(sets)]


def holm(p: np.ndarray) -> np.ndarray:
    """p-values adjusted for their number (Holm 1979)."""
    order = np.argsort(p)
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted


def signed_rank(first: np.ndarray, second: np.ndarray) -> float:
    """p-value of Wilcoxon's signed-rank test of the logarithms, which are comparable between sets."""
    difference = np.log(first / second)
    return float(wilcoxon(difference).pvalue) if np.any(difference) else 1.0


def cliques(errors: np.ndarray, order: np.ndarray) -> list[tuple[int, int]]:
    """First and last place of the longest runs of models, in order of their ranks, of which no two differ."""
    pairs = [(i, j) for j in range(len(order)) for i in range(j)]
    p = holm(np.array([signed_rank(errors[:, order[i]], errors[:, order[j]]) for i, j in pairs]))
    alike = {pair for pair, value in zip(pairs, p, strict=True) if value >= LEVEL}
    found: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and all((i, last + 1) in alike for i in range(first, last + 1)):
            last += 1
        if last > first and not (found and found[-1][1] >= last):
            found.append((first, last))
    return found
