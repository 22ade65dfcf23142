"""A random order of rows that depends on neither their given order nor the units and last digits of the columns."""

from __future__ import annotations

import numpy as np

from .. import arrays

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SAME = 1e-9  # gap, in units of the quartile range of a column, up to which neighbouring values count as equal
ROUNDING = 1e-12  # the same, relative to the values


def order_by_content(X: arrays.Array, y: arrays.Array | None = None) -> np.ndarray:
    """A random order of the rows of X: that of a hash of the ranks of their cells, so that shuffling changes no sample.

    Ranks are the same in other units and after rounding; a constant column changes nothing. Rows with equal ranks get
    different places. Which of them comes first is decided by the order of their targets y, not by the values, which may
    have rounding errors.
    """
    values = arrays.to_numpy(X)
    hashes = np.zeros(len(values), dtype=np.uint64)
    for column in values.T:
        ranks = ranks_of(column)
        if np.ptp(ranks) > 0:
            hashes = _mixed(hashes + (2.0 * ranks).astype(np.uint64))
    place = np.argsort(hashes, kind="stable")
    ordered = hashes[place]
    if np.any(ordered[1:] == ordered[:-1]):
        targets = () if y is None else arrays.to_numpy(y).T[::-1]
        place = np.lexsort((*targets, hashes))
        ordered = hashes[place]
        numbers = np.arange(len(place))
        first = np.maximum.accumulate(np.where(np.append(True, ordered[1:] != ordered[:-1]), numbers, 0))
        hashes[place] = np.where(numbers > first, _mixed(ordered + (numbers - first).astype(np.uint64)), ordered)
        place = place[np.argsort(hashes[place], kind="stable")]
    return place


def ranks_of(column: np.ndarray) -> np.ndarray:
    """The ranks of the values of a column, from 0; those of values that differ by rounding errors only are averaged."""
    place = np.argsort(column, kind="stable")
    ordered = column[place].astype(float)
    size, gaps = ROUNDING * np.abs(ordered), np.diff(ordered)
    first, last = len(ordered) // 4, -1 - len(ordered) // 4
    unit = ordered[last] - ordered[first]
    if unit <= max(size[first], size[last]):  # most values are equal
        unit = ordered[-1] - ordered[0]
    rises = gaps > np.maximum(SAME * unit, np.maximum(size[1:], size[:-1]))
    starts = np.append(0, np.flatnonzero(rises) + 1)
    sizes = np.diff(starts, append=len(ordered))
    ranks = np.empty(len(ordered))
    ranks[place] = np.repeat(starts + 0.5 * (sizes - 1), sizes)
    return ranks


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """The generator of Steele, Lea & Flood (2014)."""
    hashes = hashes + GOLDEN
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
