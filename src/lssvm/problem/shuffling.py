"""A random order of rows that depends on neither their given order nor the units and last digits of the columns."""

from __future__ import annotations

import numpy as np

from .. import arrays

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SAME = 1e-9  # gap, in units of the quartile range of a column, up to which neighbouring values count as equal
ROUNDING = 1e-12  # the same, relative to the values
BLOCK = 2**20  # number of cells that are ranked at a time


def order_by_content(X: arrays.Array, y: arrays.Array | None = None) -> np.ndarray:
    """A random order of the rows of X: that of a hash of the ranks of their cells, so that shuffling changes no sample.

    Ranks are the same in other units and after rounding; a constant column changes nothing. Rows with equal ranks get
    different places. Which of them comes first is decided by the order of their targets y, not by the values, which may
    have rounding errors.
    """
    values = arrays.to_numpy(X)
    hashes = np.zeros(len(values), dtype=np.uint64)
    for ranks in (2.0 * ranks_of(values)).astype(np.uint64).T:
        if (ranks != ranks[0]).any():
            hashes = _mixed(hashes + ranks)
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


def ranks_of(X: np.ndarray) -> np.ndarray:
    """The ranks of the values of each column, from 0; those of values that differ by rounding only are averaged."""
    ranks = np.empty(X.shape, order="F")
    width = max(1, BLOCK // max(1, len(X)))
    for start in range(0, X.shape[1], width):
        ranks[:, start : start + width] = _ranks(np.ascontiguousarray(X[:, start : start + width].T)).T
    return ranks


def _ranks(rows: np.ndarray) -> np.ndarray:
    """The ranks of the values of each row."""
    place = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, place, axis=1).astype(float)
    size, count = ROUNDING * np.abs(ordered), rows.shape[1]
    first, last = count // 4, count - 1 - count // 4
    unit = ordered[:, last] - ordered[:, first]
    equal = unit <= np.maximum(size[:, first], size[:, last])  # most values are equal
    unit = SAME * np.where(equal, ordered[:, -1] - ordered[:, 0], unit)
    least = np.maximum(unit[:, None], np.maximum(size[:, 1:], size[:, :-1]))
    rises, numbers = ordered[:, 1:] - ordered[:, :-1] > least, np.arange(1, count)
    averages = np.zeros(rows.shape)
    averages[:, 1:] = np.maximum.accumulate(np.where(rises, numbers, 0), axis=1)  # the first of equal values
    averages[:, -1] += count - 1
    averages[:, :-1] += np.minimum.accumulate(np.where(rises, numbers - 1, count - 1)[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(ordered, place, 0.5 * averages, axis=1)
    return ordered


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """The generator of Steele, Lea & Flood (2014)."""
    hashes = hashes + GOLDEN
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
