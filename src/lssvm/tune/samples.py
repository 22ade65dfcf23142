"""The rows and basis points on which a search runs."""

from __future__ import annotations

import numpy as np

from .. import arrays
from ..problem import (
    Problem,
)
from .plan import PLAN


def stages_of(problem: Problem) -> list[tuple[int, int | None]]:
    """Rows and basis size (None: dense) of the successive stages of a search."""
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
    # on an accelerator, a small system takes as long as a large one
    return stages[-1:] if arrays.on_accelerator(problem.X) else stages


def comparison_of(problem: Problem) -> tuple[int, int | None]:
    """Rows and basis size on which kernels are compared."""
    return (
        stages_of(problem)[-1]
        if arrays.on_accelerator(problem.X)
        else (PLAN.dense_comparison if problem.is_dual else PLAN.basis_comparison)
    )


def covered_rows(problem: Problem) -> int:
    """The number of rows of the last stage of the search if it uses the whole basis, else 0."""
    rows, basis = stages_of(problem)[-1]
    return rows if basis is None or basis == problem.basis_size else 0


def in_memory(problem: Problem) -> Problem:
    """The problem, or as many of its rows as fit in memory with all basis columns."""
    if problem.fits_memory:
        return problem
    return problem.subset(sample_of(problem, (arrays.memory(problem.X) or 2**30) // (32 * problem.basis_size)))


def sample_of(problem: Problem, size: int) -> np.ndarray:
    """About `size` of the rows with positive weight, always the same ones, with some rows of every class."""
    return with_every_class(problem, np.random.RandomState(0).permutation(problem.rows), size)


def with_every_class(problem: Problem, order: np.ndarray, size: int) -> np.ndarray:
    """The first `size` rows of an order, sorted, and the first few rows of each class, so that none is missing."""
    if not problem.classification or size >= len(order):
        return np.sort(order[:size])
    labels = problem.labels[order]
    few = [order[labels == label][: PLAN.few] for label in np.unique(labels)]
    return np.unique(np.concatenate([order[:size], *few]))
