"""Samples and fingerprints of rows that come in chunks."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from .. import arrays
from ..arrays import Array
from ..rules import Count, values

CIRCLE = 2**31 - 1  # a prime: row n has the phase TURN n / CIRCLE, in turns;
TURN = 1327217884  # about CIRCLE over the golden ratio, so that neighbouring rows have distant phases
BLOCK = 1024  # rows whose phases are computed one by one; those of other blocks differ by a constant
SAME_DIGITS = 5e-7  # tolerated difference between the rows of two passes: four roundings to float32
SAMPLE_ROWS = 5000  # size of the sample for planning and for intervals


@dataclass(frozen=True)
class Sample:
    """A uniform sample of rows, those with the smallest random keys; ``+`` merges two samples.

    All rows, as long as there are at most `size`, are in their own order, so that steps choose the same rows as in
    `fit`; after that, they are ordered by key.
    """

    size: Count
    keys: Annotated[np.ndarray, values("sampled")]
    arrays: tuple[Array, ...]

    def __add__(self, other: Sample) -> Sample:
        keys = np.concatenate([self.keys, other.keys])
        whole = len(keys) <= self.size
        order = np.arange(len(keys)) if whole else np.argsort(keys, kind="stable")[: self.size]
        joined = [arrays.namespace(*pair).concat(pair) for pair in zip(self.arrays, other.arrays, strict=True)]
        return Sample(self.size, keys[order], tuple(arrays.take(array, order) for array in joined))


def sample_rows(limit: int, number: int, *values: Array) -> Sample:
    """A sample of the rows with positive weight; the last array holds the weights, and `number` seeds the keys."""
    draw, positive_rows = np.random.default_rng(number), np.flatnonzero(arrays.to_numpy(values[-1]) > 0)
    rows = len(positive_rows)
    if rows <= limit:
        chosen, keys = positive_rows, draw.random(rows)
    else:
        chosen, keys = positive_rows[draw.choice(rows, limit, replace=False)], smallest_keys(draw, limit, rows)
    return Sample(limit, keys, tuple(arrays.take(array, chosen) for array in values))


def smallest_keys(draw: np.random.Generator, size: int, rows: int) -> np.ndarray:
    """The `size` smallest of `rows` uniform random keys in ascending order, from sums of exponential gaps."""
    return -np.expm1(-np.cumsum(draw.exponential(size=size) / (rows - np.arange(size))))


@dataclass(frozen=True)
class Scan:
    """Results of the first pass: numbers of rows, a sample, and the labels with their total weights.

    `positive_rows` is the number of rows with positive weight. The fingerprint detects changes of the rows in later
    passes.
    """

    rows: int
    positive_rows: int
    sample: Sample
    labels: np.ndarray
    label_weights: np.ndarray
    fingerprint: Fingerprint

    def __add__(self, other: Scan) -> Scan:
        pair = [*self.labels[:1].tolist(), *other.labels[:1].tolist()]
        if len(pair) == 2 and isinstance(pair[0], str) != isinstance(pair[1], str):
            raise ValueError(f"y contains labels of several types ({pair[0]!r}, {pair[1]!r}): use one type.")
        labels, place = np.unique(np.concatenate([self.labels, other.labels]), return_inverse=True)
        weights = np.bincount(place, np.concatenate([self.label_weights, other.label_weights]), len(labels))
        sample, fingerprint = self.sample + other.sample, self.fingerprint + other.fingerprint
        positive_rows = self.positive_rows + other.positive_rows
        return Scan(self.rows + other.rows, positive_rows, sample, labels, weights, fingerprint)


@dataclass(frozen=True)
class Fingerprint:
    """Sums over rows that depend on their values and order, but not on how they are divided into chunks.

    For every column of X, y and weight: the sum of its values, each multiplied by exp(i phase of its row), and the sum
    of their squares. Random rounding errors change the first by about that fraction of the square root of the second.
    """

    rows: int
    waves: np.ndarray  # complex
    squares: np.ndarray
    features: int  # columns of X, which come first; weight comes last

    def __add__(self, other: Fingerprint) -> Fingerprint:
        with np.errstate(all="ignore"):  # infinite values are not compared
            waves = self.waves + np.exp(1j * _phase(self.rows)) * other.waves
            return replace(self, rows=self.rows + other.rows, waves=waves, squares=self.squares + other.squares)

    def difference(self, other: Fingerprint) -> str:
        """A description of the first difference to the rows of another pass, or ""."""
        if self.waves.shape != other.waves.shape or self.rows != other.rows:
            return f"the number of rows was {self.rows} and is now {other.rows}, or the columns differ"
        with np.errstate(all="ignore"):
            changed = abs(self.waves - other.waves) > SAME_DIGITS * np.sqrt(self.squares)
        if not changed.any():
            return ""
        column = int(np.argmax(changed))
        last = "sample_weight" if column == len(changed) - 1 else "y"
        return f"{f'column {column} of X' if column < self.features else last} has changed"


def _phase(number: Any) -> Any:
    """The phase of a row in radians; integer arithmetic keeps it exact for any number of rows."""
    return 2.0 * np.pi / CIRCLE * (number % CIRCLE * TURN % CIRCLE)


def fingerprint(X: Array, y: Any, weight: Any) -> Fingerprint:
    """The fingerprint of a chunk; X is validated, y and weight are as the user gave them."""
    rows, waves, squares = X.shape[0], [], []
    weights = np.broadcast_to(1.0 if weight is None else arrays.to_numpy(weight), (rows,))
    for part in (X, y, weights):
        values = _as_numbers(part)
        values = values[:, None] if values.ndim == 1 else values
        with np.errstate(all="ignore"):
            waves.append(_wave(values))
            squares.append(arrays.to_numpy(arrays.namespace(values).sum(values * values, axis=0)))
    return Fingerprint(rows, np.concatenate(waves), np.concatenate(squares), X.shape[1])


def _wave(values: Array) -> np.ndarray:
    """The sum of exp(i phase) times the values over the rows of every column."""
    rows, columns = values.shape
    phase = _phase(np.arange(BLOCK))
    turns = arrays.like(np.stack([np.cos(phase), np.sin(phase)]), values)
    whole = rows - rows % BLOCK
    sums = turns @ arrays.namespace(values).reshape(values[:whole, :], (whole // BLOCK, BLOCK, columns))
    last = turns[:, : rows - whole] @ values[whole:, :]
    parts = np.concatenate([arrays.to_numpy(sums), arrays.to_numpy(last)[None]])
    return np.asarray(np.exp(1j * _phase(BLOCK * np.arange(len(parts)))) @ (parts[:, 0] + 1j * parts[:, 1]))


def _as_numbers(values: Any) -> Array:
    """Numbers as they are; labels as a checksum of their text."""
    if not (arrays.is_torch(values) or arrays.is_cupy(values)):
        values = arrays.to_numpy(values)
        if values.dtype.kind not in "biuf":
            labels, codes = np.unique(values if values.dtype.kind == "S" else values.astype(str), return_inverse=True)
            texts = (label if isinstance(label, bytes) else label.encode(errors="surrogatepass") for label in labels)
            return np.array([zlib.crc32(text) / 2**32 for text in texts])[codes].reshape(values.shape)
    return arrays.like(values, values)
