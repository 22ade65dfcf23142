"""A random order of rows that does not depend on the order in which they are given."""

from __future__ import annotations

import numpy as np

from .. import arrays

MANY_COLUMNS = 1000  # a loop over more of them takes too long
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def order_by_content(X: arrays.Array, y: arrays.Array | None = None) -> np.ndarray:
    """A random order of the rows of X: that of a hash of each row, so that shuffling changes no sample.

    Equal rows get different places. Which of them comes first is decided by the order of their targets y, not by the
    values, which may have rounding errors.
    """
    values = arrays.to_numpy(X).astype(float) + 0.0
    hashes = np.zeros(len(values), dtype=np.uint64)
    columns = np.ascontiguousarray(values.T).view(np.uint64)
    if len(columns) > MANY_COLUMNS:  # all at once
        columns = _mixed(columns + np.arange(len(columns), dtype=np.uint64)[:, None]).sum(axis=0, keepdims=True)
    for column in columns:
        hashes = _mixed(hashes + column)
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


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """The generator of Steele, Lea & Flood (2014)."""
    hashes = hashes + GOLDEN
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
