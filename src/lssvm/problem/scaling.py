"""The spread of the columns, the unit of widths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import arrays

if TYPE_CHECKING:
    from .problem import Problem


def column_spread(problem: Problem) -> np.ndarray:
    """The spread of every column over the rows with positive weight (`arrays.spread_of`); 1 for constant columns.

    Columns of the same group have the same spread: the root of their total variance, which is half the mean squared
    distance between two rows, as for a single column.
    """
    return problem.spreads[0]


def constant_columns(problem: Problem) -> np.ndarray:
    """Which columns do not vary over the rows with positive weight, nor any other column of their group."""
    return problem.spreads[1]


def varying_inputs(problem: Problem) -> int:
    """The number of inputs with a column that varies, at least 1: constant columns must not change a fit."""
    return max(1, len(np.unique(problem.inputs[~constant_columns(problem)])))


def spreads_of(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """`column_spread` and `constant_columns`; `Problem.spreads` keeps them."""
    values = arrays.to_numpy(arrays.take(problem.X, problem.rows))
    deviation, size = arrays.deviation_of(values)
    spread, constant = arrays.spread_of(values, deviation), deviation <= 1e-12 * size
    if problem.groups is not None:
        total = np.zeros(problem.groups.max() + 1)
        np.hypot.at(total, problem.groups, np.where(constant, 0.0, spread))
        spread = total[problem.groups]
        constant = (np.bincount(problem.groups, ~constant) == 0)[problem.groups]
    spread = np.where(constant, 1.0, spread)
    for found in (spread, constant):
        found.flags.writeable = False  # copies of the problem share them
    return spread, constant


def columns_by_input(groups: np.ndarray) -> list[list[int]]:
    """The columns of every input, from the number of the input of every column."""
    return [np.flatnonzero(groups == number).tolist() for number in range(groups[-1] + 1)]
