"""The spread of the columns, the unit of widths."""

from __future__ import annotations

import numpy as np

NORMAL_QUARTILES = 1.349  # interquartile range of a normal distribution, in standard deviations
# A standard deviation this many times larger than the quartiles suggest is due to a few extreme cells: the ratio is 1
# for a normal, 1.2 for an exponential and 2.0 for a standard log-normal distribution.
FEW_CELLS = 5.0


def spreads_of(values: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The spread of every column, see `column_spread`, and which columns are constant."""
    deviation, size = _deviation(values)
    spread, constant = _without_few(values, deviation), deviation <= 1e-12 * size
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


def spread_of(values: np.ndarray) -> np.ndarray:
    """The spread of every column of a matrix; see `column_spread`."""
    return _without_few(values, _deviation(values)[0])


def _without_few(values: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The standard deviation of every column, or that without a few cells if they dominate it; see `column_spread`."""
    some = _thinned(values)
    low, high = np.quantile(some, (0.25, 0.75), axis=0)
    middle = (high - low) / NORMAL_QUARTILES
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    if np.any(middle <= rounding):
        low = np.quantile(some, 0.001, axis=0, method="higher")
        high = np.quantile(some, 0.999, axis=0, method="lower")
        middle = np.where(middle > rounding, middle, _deviation(np.clip(some, low, high))[0])
    return np.where((middle > rounding) & (deviation > FEW_CELLS * middle), middle, deviation)


def _deviation(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviation and largest absolute value of every column."""
    size = np.max(np.abs(values), axis=0, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    return size * np.std(values / size, axis=0), size


def _thinned(values: np.ndarray) -> np.ndarray:
    """About ten thousand of the rows."""
    return values[:: max(1, len(values) // 10_000)]
