"""The spread of the columns, the unit of widths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import arrays

if TYPE_CHECKING:
    from .problem import Problem

NORMAL_QUARTILES = 1.349  # interquartile range of a normal distribution, in standard deviations
# A standard deviation this many times larger than the quartiles suggest is due to a few extreme cells: the ratio is 1
# for a normal, 1.2 for an exponential and 2.0 for a standard log-normal distribution.
FEW_CELLS = 5.0


def column_spread(problem: Problem) -> np.ndarray:
    """Standard deviation of every column over the rows with positive weight; 1 for constant columns.

    If a few extreme cells dominate it, such as 9999 for a missing value, the standard deviation of a normal
    distribution with the same quartiles is used instead.
    """
    spread, (low, high) = _spread(problem)[0], _quartiles(problem)
    middle = (high - low) / NORMAL_QUARTILES
    spread = np.where((middle > 0) & (spread > FEW_CELLS * middle), middle, spread)
    return np.where(constant_columns(problem), 1.0, spread)


def constant_columns(problem: Problem) -> np.ndarray:
    """Which columns do not vary over the rows with positive weight."""
    spread, size = _spread(problem)
    return spread <= 1e-12 * size


def _spread(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviation and largest absolute value of every column."""
    values = arrays.to_numpy(arrays.take(problem.X, problem.rows))
    size = np.max(np.abs(values), axis=0, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    return size * np.std(values / size, axis=0), size


def _quartiles(problem: Problem) -> np.ndarray:
    """Lower and upper quartiles of the columns, over about ten thousand of the rows with positive weight."""
    rows = problem.rows[:: max(1, len(problem.rows) // 10_000)]
    return np.quantile(arrays.to_numpy(arrays.take(problem.X, rows)), (0.25, 0.75), axis=0)
