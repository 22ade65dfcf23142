"""Array namespaces, the few operations that some of them lack or spell differently, and the spread of columns."""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import ArrayLike as ArrayLike  # what users may pass: arrays, tensors, frames, nested lists
from scipy.linalg import blas
from sklearn import get_config

from .threads import bands, parallel_for

Array: TypeAlias = np.ndarray | Any
"""An array of NumPy, or of another library with the same operators (torch, CuPy), which type checkers do not know."""

is_cupy, is_torch, device = array_api_compat.is_cupy_array, array_api_compat.is_torch_array, array_api_compat.device
EPS = float(np.finfo(np.float64).eps)
NORMAL_QUARTILES = 1.349  # This is the interquartile range of a normal distribution, in standard deviations.
# A standard deviation this many times larger than the quartiles suggest is due to a few extreme cells: the ratio is 1
# for a normal, 1.2 for an exponential and 2.0 for a standard log-normal distribution.
FEW_CELLS = 5.0
MEMORY_TABLE = Path("/proc/meminfo")
SQUARE = 256  # A tile of a symmetric matrix has this many rows and columns.


class NumericalError(ValueError):
    """Overflow or division by zero that may not occur with other widths or another C."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn about the user's line that called lssvm, at whatever depth."""
    level, frame = 1, sys._getframe()
    inside = (__name__.partition(".")[0], "contextlib", "numpy", "sklearn")  # a decorated method is called from these
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def required(module: str, extra: str, what: str) -> Any:
    """Return a module of an optional package; without it, raise an ImportError that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'{what} requires {package}: pip install "lssvm[{extra}]"') from error


def namespace(*arrays: Array) -> Any:
    """Return the array namespace of the arguments; plain NumPy for NumPy arrays."""
    return np if is_numpy(*arrays) else array_api_compat.array_namespace(*arrays)


def is_numpy(*arrays: Array) -> bool:
    """Return whether every argument is a NumPy array, so that BLAS and LAPACK apply."""
    return all(isinstance(a, np.ndarray) for a in arrays)


def is_foreign(array: Array) -> bool:
    """Return whether an array is not NumPy's and is processed on its own device."""
    return is_torch(array) or is_cupy(array) or type(array).__module__.startswith("array_api_strict")


def is_dask(collection: Any) -> bool:
    """Return whether this is a Dask array, dataframe or series."""
    return type(collection).__module__.startswith("dask") and hasattr(collection, "__dask_graph__")


def on_accelerator(array: Array) -> bool:
    """Return whether an array is in the memory of a GPU or another accelerator."""
    return is_cupy(array) or (is_torch(array) and array.device.type != "cpu")


def to_numpy(array: Array) -> np.ndarray:
    """Return a NumPy array with the same values, wherever the array lives."""
    if isinstance(array, np.ndarray):
        return array.astype(object) if array.dtype.kind == "T" else array  # few functions take StringDType
    if is_cupy(array):
        return np.asarray(array.get())
    if is_torch(array):
        return np.asarray(array.detach().cpu())
    if is_foreign(array):
        return np.array(array.to_device(type(array.device)("CPU_DEVICE")))
    return np.asarray(array)


def like(values: Array, reference: Array) -> Array:
    """Return `values` as a float64 array of the kind and on the device of `reference`."""
    xp = namespace(reference)
    if is_foreign(values) and namespace(values) is not xp:
        values = to_numpy(values)
    return xp.asarray(values, dtype=xp.float64, device=device(reference))


def zeros(shape: tuple[int, ...], reference: Array) -> Array:
    """Return zeros in float64 of the kind and on the device of `reference`."""
    xp = namespace(reference)
    return xp.zeros(shape, dtype=xp.float64, device=device(reference))


def empty(shape: tuple[int, ...], reference: Array) -> Array:
    """Return uninitialised float64 memory of the kind and on the device of `reference`."""
    xp = namespace(reference)
    return xp.empty(shape, dtype=xp.float64, device=device(reference))


def identity(n: int, reference: Array) -> Array:
    """Return the n x n identity in float64, of the kind and on the device of `reference`."""
    return like(np.eye(n), reference)


def add_diagonal(A: Array, value: float | Array) -> Array:
    """Add `value` to the diagonal of A, in place where the namespace allows it."""
    if is_numpy(A):
        A.flat[:: A.shape[0] + 1] += value
        return A
    if is_torch(A):
        A.diagonal().add_(value)
        return A
    return A + value * identity(A.shape[0], A)


def add_outer(B: Array, u: Array, v: Array) -> Array:
    """Return B + u v', in place."""
    if is_torch(B):
        return B.addr_(u, v)
    if is_numpy(B) and B.size and B.flags.c_contiguous:
        return blas.dger(1.0, v, u, a=B.T, overwrite_a=1).T
    for rows in row_blocks(B.shape[0], 8 * B.shape[1], B):
        B[rows, :] += u[rows, None] * v[None, :]
    return B


def subtract_pair(K: Array, u: Array, v: Array, *, lower: bool = False) -> None:
    """Overwrite K with K - u v' - v u'; with `lower` NumPy updates only the lower triangle."""
    if is_numpy(K) and lower and K.flags.c_contiguous:
        blas.dsyr2(-1.0, u, v, a=K.T, overwrite_a=1)
    else:
        add_outer(add_outer(K, -u, v), -v, u)


def take(A: Array, rows: Array) -> Array:
    """Return the rows of A with the given numbers."""
    if is_numpy(A):
        return A[rows]
    xp = namespace(A)
    return xp.take(A, xp.asarray(rows, device=device(A)), axis=0)


def put(A: Array, index: Any, values: Array) -> Array:
    """Return A with ``A[index] = values``, in place; the array API standard has no assignment by row numbers."""
    if is_numpy(A) or is_torch(A) or is_cupy(A):
        A[index] = values
        return A
    return _on_copy(np.ndarray.__setitem__, A, index, values)


def _on_copy(change: Callable[[np.ndarray, Any, np.ndarray], None], A: Array, index: Any, values: Array) -> Array:
    """Return A after `change` on a NumPy copy of it."""
    copy = to_numpy(A).copy()
    change(copy, tuple(map(to_numpy, index)) if isinstance(index, tuple) else to_numpy(index), to_numpy(values))
    A[...] = like(copy, A)
    return A


def largest(A: Array, count: int) -> np.ndarray:
    """Return the places of the largest values of every row, in descending order."""
    xp = namespace(A)
    if is_torch(A):
        return to_numpy(xp.topk(A, count, dim=1).indices)
    places = xp.argpartition(-A, count - 1, axis=1)[:, :count]
    order = xp.argsort(-xp.take_along_axis(A, places, axis=1), axis=1, stable=True)
    return to_numpy(xp.take_along_axis(places, order, axis=1))


def add_at(A: Array, index: tuple[Array, ...], values: Array) -> Array:
    """Return A with `values` added at ``A[index]``, in place; values for the same position are summed."""
    if is_numpy(A) or is_cupy(A):
        namespace(A).add.at(A, index, values)
    elif is_torch(A):
        A.index_put_(tuple(namespace(A).asarray(part, device=A.device) for part in index), values, accumulate=True)
    else:
        return _on_copy(np.add.at, A, index, values)
    return A


def row_blocks(n_rows: int, bytes_per_row: int, array: Array = None, least: int = 1) -> Iterator[slice]:
    """Yield slices of rows, each within scikit-learn's ``working_memory``.

    Blocks take at most 16 MiB, which the allocator reuses, unless that is fewer than `least` rows. If `array` lives on
    an accelerator, they may take a fixed share of its memory, which keeps it busy.
    """
    limit = get_config()["working_memory"] * 2**20
    budget = min(limit, max(2**24, least * bytes_per_row))
    if on_accelerator(array):
        budget = max(budget, (memory(array) or 0) // 32)
    step = max(1, int(budget // max(bytes_per_row, 1)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def memory(array: Array, *, free: bool = False) -> int | None:
    """Return the total memory, in bytes, of the device of the array; None if it is not known.

    With `free`, only what is free, including what the allocator of a GPU's library holds in reserve, and on Linux, file
    caches. It changes from call to call: if it determines how a result is computed, there must be a warning.
    """
    try:
        if is_cupy(array):
            import cupy

            available, total = cupy.cuda.Device(array.device).mem_info
            return int(available + cupy.get_default_memory_pool().free_bytes() if free else total)
        if on_accelerator(array):
            import torch

            if not free:  # asking for what is free takes a millisecond
                return int(torch.cuda.get_device_properties(array.device).total_memory)
            reserve = torch.cuda.memory_reserved(array.device) - torch.cuda.memory_allocated(array.device)
            return int(torch.cuda.mem_get_info(array.device)[0] + reserve)
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with suppress(OSError, ValueError):
            found = re.search(r"MemAvailable:\s*(\d+)", MEMORY_TABLE.read_text(encoding="ascii")) if free else None
            return min(total, 1024 * int(found[1])) if found else total
        return total
    except (AttributeError, ValueError, OSError):
        return None


def in_tiles(
    function: Callable[[slice, slice], Any], array: Array, depth: int, *, symmetric: bool = False
) -> list[Any]:
    """Return the results of `function(rows, columns)` for the tiles of `array`, each a product of inner size `depth`.

    For a `symmetric` array they cover the lower triangle, and more only in the tiles on the diagonal.

    NumPy's elementwise functions use one thread, and BLAS threads keep the cores busy for a while after a product. So
    one thread per core takes tile after tile of a large array, matrix product included, and a tile stays in the core's
    cache.
    """
    n_rows, n_columns = array.shape
    if not is_numpy(array) or array.size < 2**18 or depth > 128:
        return [function(block, slice(0, n_columns)) for block in row_blocks(n_rows, 8 * n_columns, array)]
    if symmetric:
        squares = [slice(i, min(i + SQUARE, n_rows)) for i in range(0, n_rows, SQUARE)]
        tiles = [(rows, columns) for place, rows in enumerate(squares) for columns in squares[: place + 1]]
    else:
        parts = bands(n_columns, -(-n_columns // 1024))
        height = max(4, min(2**20 // depth, 2**16, array.size // 4) // parts[0].stop)
        tiles = [(slice(i, min(i + height, n_rows)), part) for i in range(0, n_rows, height) for part in parts]
    return parallel_for(lambda tile: function(*tile), tiles)


def spread_of(values: np.ndarray) -> np.ndarray:
    """Return the standard deviation of every column; 0 if the values differ by no more than rounding errors.

    If a few extreme cells dominate it, such as 9999 for a missing value, the standard deviation of a normal
    distribution with the same quartiles is used instead or, if these are equal, that of the cells after
    clipping a thousandth of them, at least one, at each end.
    """
    size = np.max(np.abs(values), axis=0, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    deviation = size * np.std(values / size, axis=0)  # squares of large values may not be finite
    some = values[:: max(1, len(values) // 10_000)]
    low, high = np.quantile(some, (0.25, 0.75), axis=0)
    middle = (high - low) / NORMAL_QUARTILES
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    if np.any(middle <= rounding):
        low = np.quantile(some, 0.001, axis=0, method="higher")
        high = np.quantile(some, 0.999, axis=0, method="lower")
        width = np.where(high > low, high - low, 1.0)
        clipped = width * np.std((np.clip(some, low, high) - low) / width, axis=0)
        middle = np.where(middle > rounding, middle, clipped)
    spread = np.where((middle > rounding) & (deviation > FEW_CELLS * middle), middle, deviation)
    return np.where(deviation > 1e-12 * size, spread, 0.0)
