"""The samples on which a search runs."""

from __future__ import annotations

import numpy as np

from .. import arrays
from ..problem import Problem, column_spread, order_by_content
from .constants import CONSTANTS

ROWS_PER_CLASS = 20  # A sample holds at least this many rows of each class, if the class has as many.


def stages_of(problem: Problem) -> list[tuple[int, int | None]]:
    """Rows and basis size (None: dense) of the successive stages of a search."""
    rows, first, last = len(problem.rows), CONSTANTS.trial, CONSTANTS.last_stage
    if problem.is_dual:
        first, small = CONSTANTS.dense_trial, rows <= CONSTANTS.start_rows
    else:
        small = problem.basis_size <= first[1]
    end = (CONSTANTS.dense_stage, None) if problem.is_dual else (last[0], min(problem.basis_size, last[1]))
    return [(min(rows, size), basis) for size, basis in ([end] if small else [first, end])]


def in_memory(problem: Problem) -> Problem:
    """The problem, or as many of its rows as fit in memory with all basis columns."""
    if problem.fits_memory:
        return problem
    return problem.subset(sample_of(problem, (arrays.memory(problem.X) or 2**30) // (32 * problem.basis_size)))


def sample_of(problem: Problem, size: int, order: np.ndarray | None = None) -> np.ndarray:
    """About `size` of the rows with positive weight, sorted: the first ones of an order, with some of every class.

    The default order does not depend on that of the rows.
    """
    if size >= len(problem.rows):
        return problem.rows
    order = problem.rows_by_content if order is None else order
    if not problem.classification:
        return np.sort(order[:size])
    labels = problem.labels[order]
    present = np.unique(labels)
    count = max(
        2, min(ROWS_PER_CLASS, CONSTANTS.class_rows[2] // len(present))
    )  # of very many classes, fewer rows each
    few = [order[labels == label][:count] for label in present]
    return np.unique(np.concatenate([order[:size], *few]))


def part_of(problem: Problem, rows: int, basis: int | None) -> Problem:
    """The problem on a sample of its rows, with a part of its basis (None: all of it)."""
    part = problem.subset(sample_of(problem, rows))
    if basis is None:
        return part
    if part.is_dual:
        return part.with_basis(part.rows_by_content[:basis])
    if basis < part.basis_size:
        chosen = np.sort(order_by_content(part.points)[:basis])
        return part.with_basis(points=arrays.take(part.points, chosen))
    return part


def chosen_widths(problem: Problem) -> int:
    """The number of widths that leave-one-out has chosen one by one, without dropped ones; 0 for a common width."""
    if problem.asked is None or not problem.asked[0].is_free:
        return 0
    spread, leading = column_spread(problem), np.unique(problem.inputs, return_index=True)[1]
    ratios = [(arrays.to_numpy(leaf.sigma) / spread)[leading] for leaf in problem.kernel.leaves]
    many = [ratio for ratio in ratios if np.min(ratio) < (1.0 - 1e-6) * np.max(ratio)]
    return sum(int(np.sum(np.isfinite(ratio))) for ratio in many)
