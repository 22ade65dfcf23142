"""The spread of the columns, the unit of widths."""

from __future__ import annotations

import numpy as np

from .. import arrays


def spreads_of(values: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The spread of every column, see `column_spread`, and which columns are constant."""
    deviation, size = arrays.deviation_of(values)
    spread, constant = arrays.spread_of(values, deviation), deviation <= 1e-12 * size
    if groups is not None:
        total = np.zeros(groups.max() + 1)
        np.hypot.at(total, groups, np.where(constant, 0.0, spread))
        spread = total[groups]
        constant = (np.bincount(groups, ~constant) == 0)[groups]
    spread = np.where(constant, 1.0, spread)
    for found in (spread, constant):
        found.flags.writeable = False  # copies of the problem share them
    return spread, constant


def columns_by_input(groups: np.ndarray) -> list[list[int]]:
    """The columns of every input, from the number of the input of every column."""
    return [np.flatnonzero(groups == number).tolist() for number in range(groups[-1] + 1)]
