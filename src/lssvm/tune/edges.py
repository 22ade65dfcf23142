"""Warnings about a C at the edge of the range that is searched."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from .. import arrays
from ..problem import Problem, column_spread, constant_columns
from .choose_C import kernel_variance, mean_weight
from .constants import CONSTANTS
from .scores import unexplained

NOISE_FREE = 0.1  # Targets may be called noise-free if at most this share of the variance is not explained.
UNEQUAL = 100.0  # A kernel without widths practically ignores columns whose spread is smaller by this factor.


def at_edge(problem: Problem) -> bool:
    """Whether C lies at the edge of its range."""
    return not 1.01 * CONSTANTS.ridges[0] < _ridge(problem) < 0.99 * CONSTANTS.ridges[1]


def _ridge(problem: Problem) -> float:
    """1/C in the units of `CONSTANTS.ridges`."""
    assert problem.C is not None
    return 1.0 / (problem.C * kernel_variance(problem) * mean_weight(problem))


def warn_at_edge(problem: Problem) -> None:
    """Warn if C lies at the edge of its range. `warn_of_no_signal` reports regressions with the smallest C."""
    ridge = _ridge(problem)
    if at_edge(problem) and (ridge < 1.0 or problem.classification) and not _hardly_depends_on_C(problem):
        what = "the targets look unrelated to the inputs"
        if ridge < 1.0:
            part = "kernel" if problem.is_dual else "basis"
            what = f"the targets look noise-free, or the {part} is too small to overfit"
        reason = f"{what}. Give C{' or sigma' if problem.kernel.leaves else ''}."
        ratio = _ratio_of_spreads(problem)
        if ridge < 1.0 and not problem.kernel.leaves and ratio > UNEQUAL:
            reason = (
                f"{what}. Scale the columns: their spreads differ by a factor of {ratio:.0e}, and the kernel has no "
                "widths."
            )
        copies = _copies(problem) if ridge < 1.0 else 0
        if copies:
            reason = (
                f"{copies} of {len(problem.rows)} rows are duplicates (including their targets), and leaving one out "
                "leaves its copy in. Drop them (sample_weight can count them), or choose by tune.KFold(groups=...)."
            )
        message = f"C = {problem.C:.3g} is at the edge of the range searched: {reason}"
        warnings.warn(message, stacklevel=arrays.user_level())


def _hardly_depends_on_C(problem: Problem) -> bool:
    """Whether rows are hardly related to each other by a narrow kernel, so that any large C gives the same errors."""
    if not problem.is_dual or problem.classification or not problem.kernel.leaves:
        return False
    parts = (problem.y, problem.solve().loo_residuals, problem.weights)
    return unexplained(*(arrays.to_numpy(a)[problem.rows] for a in parts)) > NOISE_FREE


def warn_at_edges(members: Sequence[Problem]) -> None:
    """Warn if C lies at the edge of its range for most members of a stack, once for all of them."""
    free = [member for member in members if member.kernel.leaves]
    edges = [member for member in free if at_edge(member)]
    if edges and 2 * len(edges) >= len(free):
        warn_at_edge(edges[0])


def _ratio_of_spreads(problem: Problem) -> float:
    """The ratio of the largest to the smallest spread of a column."""
    if problem.kernel.is_precomputed:
        return 1.0
    spread = column_spread(problem)[~constant_columns(problem)]
    return float(np.max(spread, initial=0.0) / np.min(spread)) if len(spread) else 1.0


def _copies(problem: Problem) -> int:
    """The number of rows that duplicate another row, including its targets."""
    values = (arrays.to_numpy(arrays.take(array, problem.rows)) for array in (problem.X, problem.y))
    rows = np.hstack(list(values))
    return len(rows) - len(np.unique(rows, axis=0))
