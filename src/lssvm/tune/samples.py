"""The rows and basis points on which a search runs."""

from __future__ import annotations

import numpy as np

from .. import arrays
from ..problem import (
    Problem,
)
from .plan import PLAN


def stages_of(problem: Problem) -> list[tuple[int, int | None]]:
    """Rows and basis size (None: the rows) of the machines on which a problem is searched, one after the other."""
    rows, basis = len(problem.rows), problem.basis_size
    stages: list[tuple[int, int | None]] = []
    if problem.is_dual:
        first, points = PLAN.stages[0]
        if rows > 2 * points:
            stages.append((min(rows, first), points))
        stages.append((min(rows, PLAN.dense_stage), None))
    else:
        for most_rows, most_points in PLAN.stages:
            if not stages or basis > (stages[-1][1] or 0):
                stages.append((min(rows, most_rows), min(basis, most_points)))
    # an accelerator takes as long for a small machine as for a large one
    return stages[-1:] if arrays.on_accelerator(problem.X) else stages


def comparison_of(problem: Problem) -> tuple[int, int | None]:
    """Rows and basis size of the machine by which kernels are compared."""
    return (
        stages_of(problem)[-1]
        if arrays.on_accelerator(problem.X)
        else (PLAN.dense_comparison if problem.is_dual else PLAN.basis_comparison)
    )


def covered_rows(problem: Problem) -> int:
    """The number of rows that the last stage of the search covers, with the whole basis."""
    rows, basis = stages_of(problem)[-1]
    return rows if basis is None or basis == problem.basis_size else 0


def in_memory(problem: Problem) -> Problem:
    """The problem, or as many of its rows as memory holds with all of their columns."""
    if problem.fits_memory:
        return problem
    return problem.subset(sample_of(problem, (arrays.memory(problem.X) or 2**30) // (32 * problem.basis_size)))


def sample_of(problem: Problem, size: int) -> np.ndarray:
    """About `size` of the rows that count, always the same ones, some of every class."""
    return with_every_class(problem, np.random.RandomState(0).permutation(problem.rows), size)


def with_every_class(problem: Problem, order: np.ndarray, size: int) -> np.ndarray:
    """The first rows of an order, sorted; of a class also the first few, so that a rare one is not left out."""
    if not problem.classification or size >= len(order):
        return np.sort(order[:size])
    labels = problem.labels[order]
    few = [order[labels == label][: PLAN.few] for label in np.unique(labels)]
    return np.unique(np.concatenate([order[:size], *few]))
