"""Dask collections as a source of chunks: one task per chunk, then a tree of sums, on the user's scheduler.

The whole computation is in the graph, so that results of a lost worker are recomputed, and the tree has a fixed shape,
so that recomputed results are bitwise the same. Only sums and samples are returned to the client. For dense models,
the rows are returned to the client, and tiles of the kernel matrix stay on the workers.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import arrays
from .stream.sources import SAMPLE_ROWS, add_all, groups
from .system import iterative
from .tables import kind_of, series_of

TILE = 512  # The kernel matrix of a dense model is divided into tiles of this many rows.
SPARE = 3.0  # Workers keep the tiles if they have this many times the memory of the kernel matrix.
NO_WORKERS = 30.0  # After this many seconds without a running worker, a fit gives up.
REMEDY = (
    "use smaller chunks (rechunk or repartition) or fewer threads per worker, which need less memory, or give the "
    "workers more memory (memory_limit)."
)


class DaskChunks:
    """The blocks of Dask arrays, or the partitions of Dask dataframes, as chunks."""

    def __init__(self, X: Any, y: Any, weight: Any = None) -> None:
        named = [(name, part) for name, part in (("X", X), ("y", y), ("sample_weight", weight)) if part is not None]
        for name, part in named:
            if not arrays.is_dask(part):
                kind = type(part).__name__
                raise TypeError(f"X is a Dask collection, but {name} is a {kind}: give a Dask collection for both.")
        if y is None:
            raise ValueError("y is None: give one target per row.")
        values = [part for _, part in named if hasattr(part, "chunks")]
        rows = values[0].chunks[0] if values and not np.isnan(values[0].chunks[0]).any() else None
        blocks = [_blocks(part, rows) for _, part in named]
        if len({len(part) for part in blocks}) > 1:
            counts = ", ".join(f"{name} has {len(part)}" for (name, _), part in zip(named, blocks, strict=True))
            raise ValueError(f"The collections are divided differently ({counts} parts): repartition or rechunk them.")
        self.blocks = [(*parts, None)[:3] for parts in zip(*blocks, strict=True)]
        self.lengths = rows or (np.nan,) * len(self.blocks)
        self.collections = X, y, weight
        self._first = tuple(None if part is None else _meta(part) for part in self.collections)

    def first(self) -> tuple[Any, Any, Any]:
        """Return a chunk without rows or, if columns of text have to be interpreted, the first rows of a chunk."""
        import dask

        X, y, weight = self._first
        if any(kind_of(cells)[0] == "text" for cells in series_of(X) or ()):
            X = _compute(dask.delayed(_start)(self.blocks[0][0]))
        return X, y, weight

    @contextmanager
    def in_memory(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield X, y and the weights of all rows; meanwhile, workers multiply by kernel matrices of dense models."""
        import dask

        with suppress(ImportError):  # It adds its settings to those of Dask, which end with the block below otherwise.
            import distributed  # noqa: F401
        token = iterative.distributed.set(_tiled_product)
        try:
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                yield dask.compute(*self.collections)
        finally:
            iterative.distributed.reset(token)

    def reduce(self, function: Callable[..., Any]) -> Any:
        import dask

        add = dask.delayed(add_all, pure=False)
        parts = self._results(function)
        while len(parts) > 1:
            parts = [add(group) for group in groups(parts)]
        return _compute(parts[0])

    def _results(self, function: Callable[..., Any]) -> list[Any]:
        """Return delayed results for all chunks."""
        import dask

        shared = dask.delayed(function, traverse=False)  # as an argument, so that the graph holds the basis only once
        call = dask.delayed(operator.call, pure=False)
        return [call(shared, number, *block) for number, block in enumerate(self.blocks)]

    def rows(self, function: Callable[..., Any], kinds: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
        """Return lazy Dask arrays of the per-row results of function(number, X, y, weight), one array per kind.

        A kind is the shape of one row and the dtype.
        """
        parts = self._results(function)
        return [
            _joined([part[place] for part in parts], self.lengths, shape, dtype)
            for place, (shape, dtype) in enumerate(kinds)
        ]


def _tiled_product(kernel: Any, X: np.ndarray, points: np.ndarray) -> iterative.Product:
    """Return V -> V K. Tiles of rows of K are kept by the workers if their memory suffices, else computed each time."""
    import dask

    shared = dask.delayed(functools.partial(_tile, kernel, X, points), traverse=False).persist()
    call, numbers = dask.delayed(operator.call, pure=False), range(math.ceil(len(X) / TILE))
    is_stored = SPARE * 8 * len(X) ** 2 <= _worker_memory()
    tiles = dask.persist(*(call(shared, number) for number in numbers)) if is_stored else ()

    def product(V: np.ndarray) -> np.ndarray:
        coef = dask.delayed(np.ascontiguousarray(V.T), traverse=False)
        parts = [call(arrays.matmul, tile, coef) for tile in tiles] or [call(shared, one, coef) for one in numbers]
        return _compute(dask.delayed(np.concatenate, pure=False)(parts)).T

    return product


def _tile(kernel: Any, X: np.ndarray, points: np.ndarray, number: int, coef: np.ndarray | None = None) -> np.ndarray:
    """Return some rows of the kernel matrix, or their product with coefficients."""
    rows = X[number * TILE : (number + 1) * TILE]
    return (
        kernel.fill(np.empty((len(rows), len(points))), rows, points)
        if coef is None
        else kernel.dot(rows, points, coef)
    )


def _worker_memory() -> float:
    """Return the memory of all workers, in bytes; 0 without a cluster."""
    try:
        from distributed import get_client

        return get_client().run_on_scheduler(_count_memory)
    except (ImportError, ValueError):
        return 0.0


def _count_memory(dask_scheduler: Any) -> float:
    return float(sum(worker.memory_limit for worker in dask_scheduler.workers.values()))


def _start(block: Any) -> Any:
    return block.iloc[:SAMPLE_ROWS]


def _joined(parts: Sequence[Any], lengths: Sequence[float], shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a Dask array of delayed blocks of rows; `shape` is that of one row, and lengths may be unknown (NaN)."""
    import dask.array

    pairs = zip(parts, lengths, strict=True)
    blocks = [dask.array.from_delayed(part, (rows, *shape), dtype) for part, rows in pairs]
    return dask.array.concatenate(blocks, allow_unknown_chunksizes=True)


def _blocks(collection: Any, rows: tuple[int, ...] | None) -> list[Any]:
    """Return delayed blocks of rows."""
    if not hasattr(collection, "chunks"):
        return list(collection.to_delayed())
    if rows is not None:
        chunks = (rows, *(-1 for _ in collection.shape[1:]))
        if sum(rows) != collection.shape[0]:
            found = f"X has {sum(rows)} rows, but another collection has {collection.shape[0]}"
            raise ValueError(f"{found}: inconsistent numbers of samples.")
        collection = collection.rechunk(chunks)
    elif len(collection.shape) > 1:
        collection = collection.rechunk({1: -1})
    return list(collection.to_delayed().ravel())


def _meta(collection: Any) -> Any:
    """Return an object with the columns of a collection, but without rows."""
    if not hasattr(collection, "chunks"):
        return collection._meta
    return np.empty((0, *collection.shape[1:]))


def _compute(node: Any) -> Any:
    """Compute a delayed node; on a cluster, raise an error if no worker has been running for a while."""
    import dask

    try:
        from distributed import Client, KilledWorker, get_client

        client: Client = get_client()
    except (ImportError, ValueError):  # no cluster: threads or processes on this computer
        return dask.compute(node)[0]
    future = client.compute(node)
    idle_since: float | None = None
    try:
        while not future.done():
            try:
                return future.result(timeout=1.0)
            except TimeoutError:
                workers, working = client.run_on_scheduler(_count_workers)
            now = time.monotonic()
            idle_since = None if working else (idle_since or now)
            if idle_since is not None and now - idle_since > NO_WORKERS:
                if workers:
                    paused = f"All Dask workers ({workers}) were paused for {NO_WORKERS:.0f} s, out of memory"
                    raise RuntimeError(f"{paused}: {REMEDY}")
                absent = f"No Dask worker has been running for {NO_WORKERS:.0f} s: restart the workers and fit again"
                raise RuntimeError(
                    f"{absent}, or check their logs. Workers that run out of memory are killed: {REMEDY}"
                )
        return future.result()
    except KilledWorker as error:
        what = "Dask gave up on a chunk: every worker that processed it died, most likely out of memory"
        raise RuntimeError(f"{what}: {REMEDY} Dask reports: {error}") from error
    finally:
        future.release()


def _count_workers(dask_scheduler: Any) -> tuple[int, int]:
    """Return the number of workers, and how many of them are running: a paused worker starts no new tasks."""
    workers = dask_scheduler.workers.values()
    return len(workers), sum(worker.status.name == "running" or bool(worker.executing) for worker in workers)


def lazily(model: Any, name: str, X: Any, **options: Any) -> Any:
    """Return the result of a method of a fitted model on a Dask collection, as a lazy Dask array."""
    import dask

    check_is_fitted(model)
    columns = X.shape[1] if X.ndim == 2 else 0
    if not np.isnan(columns) and columns != model.n_features_in_:
        needed = f"{type(model).__name__} is expecting {model.n_features_in_} features as input"
        raise ValueError(f"X has {columns} features, but {needed}.")
    if hasattr(X, "chunks"):  # an array has no column names
        rows, lengths = np.zeros((1, model.n_features_in_)), X.chunks[0]
    else:  # some rows with columns of the same types
        from dask.dataframe.utils import meta_nonempty

        rows, lengths = meta_nonempty(_meta(X)), (np.nan,) * X.npartitions
        known = getattr(model.fitted_.layout.columns, "columns", ())  # Dask's example texts do not have their formats
        rows = rows.assign(**{own.name: None for own in known if own.format is not None and own.name in rows})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row of zeros has no column names
        example = getattr(model, name)(rows, **options)
    # without lazy arrays, which refer to the training rows, but with the results that the example has cached
    alone = copy.copy(model)
    alone.__dict__ = {key: value for key, value in vars(model).items() if not arrays.is_dask(value)}
    fitted, call = dask.delayed(alone, traverse=False), dask.delayed(_call, pure=True)
    parts = [call(fitted, name, block, options, example[:0]) for block in _blocks(X, None)]
    return _joined(parts, lengths, example.shape[1:], example.dtype)


def _call(model: Any, method: str, X: Any, options: dict[str, Any], empty: Any) -> Any:
    """Return the result for a block, which may be empty after filtering."""
    return getattr(model, method)(X, **options) if len(X) else empty
