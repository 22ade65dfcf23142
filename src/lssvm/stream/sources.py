"""Where chunks come from: iterators, arrays, Parquet files and pyarrow datasets."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .. import arrays, progress
from ..arrays import Array
from ..progress import counted
from .rows import Fingerprint, fingerprint

Chunk = tuple[Array, Array, Array]  # rows, coded targets, weights
FAN_IN = 4
LEVELS = 16  # of the tree of sums, enough for 4^16 chunks
CHUNK_BYTES = 2**25  # size of the chunks into which arrays and files are cut


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
        """As `Source.reduce`, for a function of checked chunks."""
        with next(self.work, nullcontext()):
            # without `self`, which holds all chunks: workers on a cluster get a copy of the function
            own = functools.partial(_pass_result, self.check, self.fingerprinted, function)
            result: PassResult = self.source.reduce(own)
        difference = self.first_pass.difference(result.fingerprint)
        if difference:
            raise ValueError(
                f"chunks: the rows are not the same as in the first pass: {difference}. Chunks are read several times "
                "and must return the same rows in the same order every time: do not shuffle them or draw new random "
                "numbers; fix the seed, or persist() a Dask collection."
            )
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
        """The first chunk, or a chunk of the same kind without rows."""

    def reduce(self, function: Callable[..., Any]) -> Any:
        """The sum of function(number, X, y, weight) over all chunks, as a tree of `add_all` over `groups`."""


def add_all(parts: Sequence[Any]) -> Any:
    """parts[0] + parts[1] + ..."""
    return functools.reduce(operator.add, parts)


def groups(parts: Iterable[Any]) -> Iterator[list[Any]]:
    """FAN_IN parts at a time."""
    remaining = iter(parts)
    while group := list(itertools.islice(remaining, FAN_IN)):
        yield group


class Chunks:
    """Chunks read one after the other in this process. The tree of sums keeps a few sums per level."""

    def __init__(self, read: Callable[[], Iterator[Any]]) -> None:
        self.read = read
        self.passes = 0
        self.rows = 0  # of the first pass

    def first(self) -> tuple[Any, Any, Any]:
        for chunk in self.read():
            return normalise(chunk)
        raise ValueError("chunks is empty: give at least one (X, y).")

    def reduce(self, function: Callable[..., Any]) -> Any:
        self.passes += 1
        totals = self._results(function)
        for _ in range(LEVELS):
            totals = map(add_all, groups(totals))
        found = list(totals)
        if not found:
            raise ValueError(
                "chunks is empty in the second pass: give a list, or a function that returns a new iterator."
            )
        return found[0]

    def _results(self, function: Callable[..., Any]) -> Iterator[Any]:
        """The results for all chunks, and a check of their number of rows."""
        count = 0
        for number, chunk in enumerate(self.read()):
            rows = normalise(chunk)
            yield function(number, *rows)
            count += np.shape(rows[1])[0]
            progress.did(lambda: 0.0)  # in the first pass, the number of rows to come is not known
        if self.passes == 1:
            self.rows = count
        if count not in (0, self.rows):
            raise ValueError(
                f"chunks gave {counted(self.rows, 'row')} in the first pass and {count} in pass {self.passes}: they "
                "are read several times and must be the same every time."
            )


def as_source(chunks: Any, columns: Sequence[str] | None, target: Any, weight: str | None) -> Chunks:
    """The source for the `chunks` argument of `fit_chunks`."""
    if isinstance(chunks, (str, Path)) or type(chunks).__module__.startswith("pyarrow"):
        return Chunks(_read_table(chunks, columns, target, weight))
    if columns is not None or target is not None or weight is not None:
        raise ValueError(
            "columns, target and weight name columns of a Parquet file or pyarrow dataset, but chunks is neither."
        )
    if isinstance(chunks, tuple) and len(chunks) in (2, 3) and len(getattr(chunks[0], "shape", ())) == 2:
        return Chunks(functools.partial(_slices, chunks))
    if callable(chunks):
        return Chunks(lambda: iter(chunks()))
    if not isinstance(chunks, Iterable):
        raise TypeError(f"chunks={chunks!r}: give a list of (X, y), a function that returns an iterator, or a file.")
    if isinstance(chunks, Iterator):
        raise TypeError(
            f"chunks={chunks!r} can be read only once: give a list of (X, y), or a function that returns an iterator."
        )
    return Chunks(lambda: iter(chunks))


def _slices(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Row slices of arrays, which may be memory maps."""
    if len({array.shape[0] for array in values}) > 1:
        raise ValueError(
            f"chunks: the arrays have {[array.shape[0] for array in values]} rows: give the same number of rows in all."
        )
    rows = max(1, CHUNK_BYTES // (8 * max(values[0].shape[1], 1)))
    if arrays.on_accelerator(values[0]):
        rows = values[0].shape[0]  # `Whitening.sums` works in blocks
    for start in range(0, values[0].shape[0], rows):
        cut = slice(start, min(start + rows, values[0].shape[0]))
        yield tuple(_cut(array, cut) for array in values)


def _cut(array: Any, rows: slice) -> Any:
    """Rows of an array or of a frame or series (pandas, polars)."""
    if hasattr(array, "iloc"):
        return array.iloc[rows]
    return array[rows] if hasattr(array, "to_numpy") else array[rows, ...]


def _read_table(
    source: Any, columns: Sequence[str] | None, target: Any, weight: str | None
) -> Callable[[], Iterator[Any]]:
    """A function that reads a Parquet file, a folder of them, a pyarrow dataset or table in batches."""
    try:
        import pyarrow
        import pyarrow.dataset
    except ImportError:
        raise ImportError("Reading Parquet needs pyarrow: pip install 'lssvm[files]'.") from None
    if not isinstance(source, pyarrow.dataset.Dataset):
        source = pyarrow.dataset.dataset(source if not isinstance(source, Path) else str(source))
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
            raise ValueError(
                f"columns={columns!r} lists {name!r} twice, or {name!r} is the target or the weight: remove it."
            )
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
    """A user's chunk as (X, y, weight or None)."""
    if not isinstance(chunk, Sequence):
        raise ValueError(f"chunks must yield (X, y) or (X, y, weight), got {type(chunk).__name__}: yield a tuple.")
    if len(chunk) not in (2, 3):
        raise ValueError(f"chunks must yield (X, y) or (X, y, weight), got {counted(len(chunk), 'part')}.")
    X, y, *weight = chunk
    return X, y, weight[0] if weight else None
