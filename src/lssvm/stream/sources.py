"""Where chunks come from: iterators, arrays, Parquet files and pyarrow datasets; samples and fingerprints of rows."""

from __future__ import annotations

import functools
import itertools
import operator
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np

from .. import arrays, progress
from ..arrays import Array
from ..progress import counted
from ..rules import Count, values

Chunk = tuple[Array, Array, Array]  # rows, coded targets, weights
FAN_IN = 4
LEVELS = 16  # The tree of sums has this many levels, enough for 4^16 chunks.
CHUNK_BYTES = 2**25  # Arrays and files are cut into chunks of this size.
CIRCLE = 2**31 - 1  # This is a prime: the phase of row n is TURN * n / CIRCLE full turns.
TURN = 1327217884  # This is about CIRCLE over the golden ratio, so that neighbouring rows have distant phases.
SAME_DIGITS = 5e-7  # The rows of two passes may differ by this much: four roundings to float32.
SAMPLE_ROWS = 5000  # The sample for planning and for intervals has this many rows.


# Chunks ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PassResult:
    """A result for some rows, and their fingerprint."""

    value: Any
    fingerprint: Fingerprint

    def __add__(self, other: PassResult) -> PassResult:
        return PassResult(self.value + other.value, self.fingerprint + other.fingerprint)


@dataclass(frozen=True)
class SameRows:
    """A source whose chunks are checked and coded, and whose rows must be the same as in the first pass."""

    source: Source
    check: Callable[[int, Any, Any, Any], Chunk]  # takes the number of the chunk and its parts
    fingerprinted: Callable[[Array], Array]  # the part of the checked inputs that the fingerprint is made of
    first_pass: Fingerprint
    work: Iterator[AbstractContextManager[None]]  # of each pass, see `progress.expect`

    def reduce(self, function: Callable[..., Any]) -> Any:
        """Do as `Source.reduce`, for a function of checked chunks."""
        with next(self.work, nullcontext()):
            # without `self`, which holds all chunks: workers on a cluster get a copy of the function
            own = functools.partial(_pass_result, self.check, self.fingerprinted, function)
            result: PassResult = self.source.reduce(own)
        difference = self.first_pass.difference(result.fingerprint)
        if difference:
            why = "Chunks are read several times and must return the same rows in the same order every time"
            remedy = "do not shuffle them or draw new random numbers; fix the seed, or persist() a Dask collection"
            what = f"chunks: the rows are not the same as in the first pass: {difference}"
            raise ValueError(f"{what}. {why}: {remedy}.")
        return result.value


def _pass_result(
    check: Callable[..., Chunk],
    fingerprinted: Callable[[Array], Array],
    function: Callable[..., Any],
    number: int,
    *chunk: Any,
) -> PassResult:
    rows = check(number, *chunk)
    return PassResult(function(number, *rows), fingerprint(fingerprinted(rows[0]), *chunk[1:]))


class Source(Protocol):
    """A source of chunks."""

    def first(self) -> tuple[Any, Any, Any]:
        """Return the first chunk, or a chunk of the same kind without rows."""

    def reduce(self, function: Callable[..., Any]) -> Any:
        """Return the sum of function(number, X, y, weight) over all chunks, as a tree of `add_all` over `groups`."""


def add_all(parts: Sequence[Any]) -> Any:
    """Return parts[0] + parts[1] + ..."""
    return functools.reduce(operator.add, parts)


def groups(parts: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield FAN_IN parts at a time."""
    remaining = iter(parts)
    while group := list(itertools.islice(remaining, FAN_IN)):
        yield group


class Chunks:
    """Chunks read one after the other in this process. The tree of sums keeps a few sums per level."""

    def __init__(self, read: Callable[[], Iterator[Any]]) -> None:
        self.read = read

    def first(self) -> tuple[Any, Any, Any]:
        for chunk in self.read():
            return normalise(chunk)
        raise ValueError("chunks is empty: give at least one (X, y).")

    def reduce(self, function: Callable[..., Any]) -> Any:
        totals: Iterator[Any] = map(functools.partial(_result, function), itertools.count(), self.read())
        for _ in range(LEVELS):
            totals = map(add_all, groups(totals))
        found = list(totals)
        if not found:
            raise ValueError(
                "chunks is empty in the second pass: give a list, or a function that returns a new iterator."
            )
        return found[0]


def _result(function: Callable[..., Any], number: int, chunk: Any) -> Any:
    """Return the result for a user's chunk."""
    found = function(number, *normalise(chunk))
    progress.did(lambda: 0.0)  # in the first pass, the number of rows to come is not known
    return found


def as_source(chunks: Any, columns: Sequence[str] | None, target: Any, weight: str | None) -> Chunks:
    """Return the source for the `chunks` argument of `fit_chunks`."""
    if isinstance(chunks, (str, Path)) or type(chunks).__module__.startswith("pyarrow"):
        return Chunks(_reader(chunks, columns, target, weight))
    if columns is not None or target is not None or weight is not None:
        raise ValueError("columns, target and weight are for a Parquet file or pyarrow dataset, but chunks is neither.")
    if isinstance(chunks, tuple) and len(chunks) in (2, 3) and len(getattr(chunks[0], "shape", ())) == 2:
        return Chunks(functools.partial(_slices, chunks))
    if callable(chunks):
        return Chunks(lambda: iter(chunks()))
    if not isinstance(chunks, Iterable):
        raise TypeError(f"chunks={chunks!r}: give a list of (X, y), a function that returns an iterator, or a file.")
    if isinstance(chunks, Iterator):
        remedy = "give a list of (X, y), or a function that returns an iterator"
        raise TypeError(f"chunks={chunks!r} can be read only once: {remedy}.")
    return Chunks(lambda: iter(chunks))


def _slices(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield row slices of arrays, which may be memory maps."""
    lengths = [array.shape[0] for array in values]
    if len(set(lengths)) > 1:
        raise ValueError(f"chunks: the arrays have {lengths} rows: give the same number of rows in all.")
    rows = max(1, CHUNK_BYTES // (8 * max(values[0].shape[1], 1)))
    if arrays.on_accelerator(values[0]):
        rows = values[0].shape[0]  # `Whitening.sums` works in blocks
    for start in range(0, values[0].shape[0], rows):
        cut = slice(start, min(start + rows, values[0].shape[0]))
        yield tuple(_cut(array, cut) for array in values)


def _cut(array: Any, rows: slice) -> Any:
    """Return rows of an array or of a frame or series (pandas, polars)."""
    if hasattr(array, "iloc"):
        return array.iloc[rows]
    return array[rows] if hasattr(array, "to_numpy") else array[rows, ...]


def _reader(source: Any, columns: Sequence[str] | None, target: Any, weight: str | None) -> Callable[[], Iterator[Any]]:
    """Return a function that reads a Parquet file, a folder of them, a pyarrow dataset or table in batches."""
    pyarrow = arrays.required("pyarrow", "files", "Reading Parquet")
    dataset = arrays.required("pyarrow.dataset", "files", "Reading Parquet")
    if not isinstance(source, dataset.Dataset):
        source = dataset.dataset(source)
    names = source.schema.names
    if target is None:
        raise ValueError(f"target=None: name the column or columns to predict, out of {names}.")
    targets = [target] if isinstance(target, str) else list(target)
    others = {*targets, *([] if weight is None else [weight])}
    features = [name for name in names if name not in others] if columns is None else list(columns)
    for name in (*features, *others):
        if name not in names:
            raise ValueError(f"There is no column {name!r}: the columns are {names}.")
    for name in features:
        if name in others or features.count(name) > 1:
            raise ValueError(f"columns={columns!r} lists {name!r} twice, or it is the target or weight: remove it.")
    rows = max(1, CHUNK_BYTES // (8 * max(len(features), 1)))

    def read() -> Iterator[Any]:
        for batch in source.to_batches(columns=[*features, *others], batch_size=rows, batch_readahead=1):
            if batch.num_rows:
                y = [batch.column(name).to_numpy(zero_copy_only=False) for name in targets]
                v = () if weight is None else (batch.column(weight).to_numpy(zero_copy_only=False),)
                table = pyarrow.Table.from_batches([batch]).select(features)
                yield (table, y[0] if isinstance(target, str) else np.column_stack(y), *v)

    return read


def normalise(chunk: Any) -> tuple[Any, Any, Any]:
    """Return a user's chunk as (X, y, weight or None)."""
    if not isinstance(chunk, Sequence) or len(chunk) not in (2, 3):
        what = counted(len(chunk), "part") if isinstance(chunk, Sequence) else type(chunk).__name__
        raise ValueError(f"chunks must yield (X, y) or (X, y, weight), got {what}: yield a tuple of two or three.")
    X, y, *weight = chunk
    return X, y, weight[0] if weight else None


# Samples and fingerprints ---------------------------------------------------------------------------------------------
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
    """Return a sample of the rows of positive weight, with the weights as its last array; `number` seeds the keys."""
    draw, positive_rows = np.random.default_rng(number), np.flatnonzero(arrays.to_numpy(values[-1]) > 0)
    rows = len(positive_rows)
    if rows <= limit:
        chosen, keys = positive_rows, draw.random(rows)
    else:
        chosen, keys = positive_rows[draw.choice(rows, limit, replace=False)], smallest_keys(draw, limit, rows)
    return Sample(limit, keys, tuple(arrays.take(array, chosen) for array in values))


def smallest_keys(draw: np.random.Generator, size: int, rows: int) -> np.ndarray:
    """Return the `size` smallest of `rows` uniform random keys in ascending order, from sums of exponential gaps."""
    return -np.expm1(-np.cumsum(draw.exponential(size=size) / (rows - np.arange(size))))


def label_totals(labels: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels, and the sum of the weights of each."""
    found, places = np.unique(labels, return_inverse=True)
    return found, np.bincount(places, weights, len(found))


@dataclass(frozen=True)
class Scan:
    """Results of the first pass: a sample, and the labels with their total weights.

    `positive_rows` is the number of rows with positive weight. The fingerprint detects changes of the rows in later
    passes.
    """

    positive_rows: int
    sample: Sample
    labels: np.ndarray
    label_weights: np.ndarray
    fingerprint: Fingerprint

    def __add__(self, other: Scan) -> Scan:
        pair = [*self.labels[:1].tolist(), *other.labels[:1].tolist()]
        if len(pair) == 2 and isinstance(pair[0], str) != isinstance(pair[1], str):
            raise ValueError(f"y contains labels of several types ({pair[0]!r}, {pair[1]!r}): use one type.")
        parts = (self.labels, other.labels), (self.label_weights, other.label_weights)
        labels, weights = label_totals(*map(np.concatenate, parts))
        sample, fingerprint = self.sample + other.sample, self.fingerprint + other.fingerprint
        return Scan(self.positive_rows + other.positive_rows, sample, labels, weights, fingerprint)


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
        """Return a description of the first difference to the rows of another pass, or ""."""
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
    """Return the phase of a row in radians; integer arithmetic keeps it exact for any number of rows."""
    return 2.0 * np.pi / CIRCLE * (number % CIRCLE * TURN % CIRCLE)


def fingerprint(X: Array, y: Any, weight: Any) -> Fingerprint:
    """Return the fingerprint of a chunk; X is validated, y and weight are as the user gave them."""
    rows, waves, squares = X.shape[0], [], []
    weights = np.broadcast_to(1.0 if weight is None else arrays.to_numpy(weight), (rows,))
    phase = _phase(np.arange(rows))
    for part in (X, y, weights):
        values = _as_numbers(part)
        values = values[:, None] if values.ndim == 1 else values
        with np.errstate(all="ignore"):
            cosines, sines = arrays.to_numpy(arrays.like(np.stack([np.cos(phase), np.sin(phase)]), values) @ values)
            waves.append(cosines + 1j * sines)
            squares.append(arrays.to_numpy(arrays.namespace(values).sum(values * values, axis=0)))
    return Fingerprint(rows, np.concatenate(waves), np.concatenate(squares), X.shape[1])


def _as_numbers(values: Any) -> Array:
    """Return the numbers as they are; labels as a checksum of their text."""
    if not (arrays.is_torch(values) or arrays.is_cupy(values)):
        values = arrays.to_numpy(values)
        if values.dtype.kind not in "biuf":
            labels, codes = np.unique(values if values.dtype.kind == "S" else values.astype(str), return_inverse=True)
            texts = (label if isinstance(label, bytes) else label.encode(errors="surrogatepass") for label in labels)
            return np.array([zlib.crc32(text) / 2**32 for text in texts])[codes].reshape(values.shape)
    return arrays.like(values, values)
