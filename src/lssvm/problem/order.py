"""A random order of rows that does not depend on the order in which they are given."""

from __future__ import annotations

import numpy as np

from .. import arrays


def order_by_content(*matrices: arrays.Array) -> np.ndarray:
    """A random order of the rows of some matrices: that of a hash of each row, so that shuffling changes no sample."""
    values = np.hstack([arrays.to_numpy(matrix).astype(float) + 0.0 for matrix in matrices])
    hashes = np.zeros(len(values), dtype=np.uint64)
    for column in np.ascontiguousarray(values.T).view(np.uint64):  # the generator of Steele, Lea & Flood (2014)
        hashes += column + np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes ^= hashes >> np.uint64(31)
    return np.argsort(hashes, kind="stable")
