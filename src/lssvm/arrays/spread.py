"""The spread of columns: the standard deviation, unless a few extreme cells dominate it."""

from __future__ import annotations

import numpy as np

NORMAL_QUARTILES = 1.349  # interquartile range of a normal distribution, in standard deviations
# A standard deviation this many times larger than the quartiles suggest is due to a few extreme cells: the ratio is 1
# for a normal, 1.2 for an exponential and 2.0 for a standard log-normal distribution.
FEW_CELLS = 5.0


def spread_of(values: np.ndarray, deviation: np.ndarray | None = None) -> np.ndarray:
    """The standard deviation of every column; it may be given as `deviation`.

    If a few extreme cells dominate it, such as 9999 for a missing value, the standard deviation of a normal
    distribution with the same quartiles is used instead or, if these are equal, that of the cells after
    clipping a thousandth of them at each end, at least one.
    """
    deviation = deviation_of(values)[0] if deviation is None else deviation
    some = values[:: max(1, len(values) // 10_000)]
    low, high = np.quantile(some, (0.25, 0.75), axis=0)
    middle = (high - low) / NORMAL_QUARTILES
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    if np.any(middle <= rounding):
        low = np.quantile(some, 0.001, axis=0, method="higher")
        high = np.quantile(some, 0.999, axis=0, method="lower")
        middle = np.where(middle > rounding, middle, deviation_of(np.clip(some, low, high))[0])
    return np.where((middle > rounding) & (deviation > FEW_CELLS * middle), middle, deviation)


def deviation_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviation and largest absolute value (1 if that is 0) of every column."""
    size = np.max(np.abs(values), axis=0, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    return size * np.std(values / size, axis=0), size
