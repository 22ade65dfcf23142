"""Array namespaces, and the few operations that some of them lack or spell differently."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeGuard

import array_api_compat
import numpy as np
from numpy.typing import ArrayLike as ArrayLike  # what users may pass: arrays, tensors, frames, nested lists
from scipy.linalg import blas
from sklearn import get_config

from .threads import parallel_for
from .threads import single_threaded_blas as single_threaded_blas

Array: TypeAlias = np.ndarray | Any
"""An array of NumPy, or of another library with the same operators (torch, CuPy), which type checkers do not know."""

EPS = float(np.finfo(np.float64).eps)
SQUARE = 256  # rows and columns of a tile of a symmetric matrix


class NumericalError(ValueError):
    """Overflow or division by zero that may not occur with other widths or another C."""


def user_level() -> int:
    """The stacklevel at which a warning points to the line of user code that called lssvm, however deep the caller."""
    level, frame = 1, sys._getframe(1)
    inside = (__name__.partition(".")[0], "contextlib", "numpy", "sklearn")  # a decorated method is called from these
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    return level


def namespace(*arrays: Array) -> Any:
    """The array namespace of the arguments; plain NumPy for NumPy arrays."""
    if all(isinstance(a, np.ndarray) for a in arrays):
        return np
    return array_api_compat.array_namespace(*arrays)


def is_numpy(*arrays: Array) -> bool:
    """True when every argument is a NumPy array, so that BLAS and LAPACK apply."""
    return all(isinstance(a, np.ndarray) for a in arrays)


def is_cupy(array: Array) -> TypeGuard[Any]:
    """True for a CuPy array."""
    return _package(array) == "cupy"


def is_torch(array: Array) -> TypeGuard[Any]:
    """True for a torch tensor."""
    return bool(array_api_compat.is_torch_array(array))


def is_foreign(array: Array) -> bool:
    """True for the arrays other than NumPy's that are computed where they live."""
    return is_torch(array) or _package(array) in ("cupy", "array_api_strict")


def is_dask(collection: Any) -> bool:
    """True for a Dask array, dataframe or series."""
    return _package(collection) in ("dask", "dask_expr") and hasattr(collection, "__dask_graph__")


def on_accelerator(array: Array) -> bool:
    """True for an array in the memory of a GPU or another accelerator."""
    return is_cupy(array) or (is_torch(array) and array.device.type != "cpu")


def _package(thing: Any) -> str:
    return type(thing).__module__.partition(".")[0]


def to_numpy(array: Array) -> np.ndarray:
    """A NumPy array with the same values, wherever the array lives."""
    if isinstance(array, np.ndarray):
        return array.astype(object) if array.dtype.kind == "T" else array  # few functions take StringDType
    if is_cupy(array):
        return np.asarray(array.get())
    if is_torch(array):
        return np.asarray(array.detach().cpu())
    if _package(array) == "array_api_strict":
        return np.array(array.to_device(type(array.device)("CPU_DEVICE")))
    return np.asarray(array)


def device(array: Array) -> Any:
    """The device of an array."""
    return array_api_compat.device(array)


def like(values: Array, reference: Array) -> Array:
    """Return `values` as a float64 array of the kind and on the device of `reference`."""
    if isinstance(reference, np.ndarray):
        return np.asarray(to_numpy(values), dtype=np.float64)
    xp = namespace(reference)
    if is_foreign(values) and namespace(values) is not xp:
        values = to_numpy(values)
    return xp.asarray(values, dtype=xp.float64, device=device(reference))


def zeros(shape: tuple[int, ...], reference: Array) -> Array:
    """Zeros in float64 of the kind and on the device of `reference`."""
    xp = namespace(reference)
    if xp is np:
        return np.zeros(shape)
    return xp.zeros(shape, dtype=xp.float64, device=device(reference))


def empty(shape: tuple[int, ...], reference: Array) -> Array:
    """Uninitialised float64 memory of the kind and on the device of `reference`."""
    xp = namespace(reference)
    if xp is np:
        return np.empty(shape)
    return xp.empty(shape, dtype=xp.float64, device=device(reference))


def identity(n: int, reference: Array) -> Array:
    """The n x n identity in float64, of the kind and on the device of `reference`."""
    xp = namespace(reference)
    if xp is np:
        return np.eye(n)
    return xp.eye(n, dtype=xp.float64, device=device(reference))


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
    """B + u v', in place."""
    if is_torch(B):
        return B.addr_(u, v)
    if is_numpy(B) and B.size and B.flags.c_contiguous:
        return blas.dger(1.0, v, u, a=B.T, overwrite_a=1).T
    if is_numpy(B) and B.size and B.flags.f_contiguous:
        return blas.dger(1.0, u, v, a=B, overwrite_a=1)
    for rows in row_blocks(B.shape[0], 8 * B.shape[1], B):
        B[rows, :] += u[rows, None] * v[None, :]
    return B


def subtract_pair(K: Array, u: Array, v: Array, *, lower: bool = False) -> None:
    """Overwrite K with K - u v' - v u'; with `lower` NumPy updates only the lower triangle."""
    if is_torch(K):
        stack = namespace(K).stack
        K.addmm_(stack([u, v], 1), stack([v, u], 0), alpha=-1.0)
    elif is_numpy(K) and lower and K.flags.c_contiguous:
        blas.dsyr2(-1.0, u, v, a=K.T, overwrite_a=1)
    else:
        add_outer(add_outer(K, -u, v), -v, u)


def take(A: Array, rows: Array) -> Array:
    """Rows of A by number."""
    if is_numpy(A):
        return A[rows]
    xp = namespace(A)
    return xp.take(A, xp.asarray(rows, device=device(A)), axis=0)


def put(A: Array, index: Any, values: Array) -> Array:
    """A with ``A[index] = values``, in place; the array API standard has no assignment by row numbers."""
    if is_numpy(A) or is_torch(A) or is_cupy(A):
        A[index] = values
    else:
        changed = to_numpy(A).copy()
        changed[_host(index)] = to_numpy(values)
        A[...] = like(changed, A)
    return A


def add_at(A: Array, index: tuple[Array, ...], values: Array) -> Array:
    """A with `values` added at ``A[index]``, in place; all that are for the same position are added."""
    if is_numpy(A) or is_cupy(A):
        namespace(A).add.at(A, index, values)
    elif is_torch(A):
        A.index_put_(tuple(namespace(A).asarray(part, device=A.device) for part in index), values, accumulate=True)
    else:
        changed = to_numpy(A).copy()
        np.add.at(changed, _host(index), to_numpy(values))
        A[...] = like(changed, A)
    return A


def _host(index: Any) -> Any:
    """An index of NumPy arrays."""
    return tuple(map(to_numpy, index)) if isinstance(index, tuple) else to_numpy(index)


def quantile(a: Array, share: float) -> Array:
    """The quantiles along the first axis, by linear interpolation between the sorted values."""
    if is_numpy(a):
        return np.quantile(a, share, axis=0)
    ordered = namespace(a).sort(a, axis=0)
    place = share * (a.shape[0] - 1)
    low = int(place)
    high = min(low + 1, a.shape[0] - 1)
    return ordered[low, ...] + (place - low) * (ordered[high, ...] - ordered[low, ...])


def row_blocks(n_rows: int, bytes_per_row: int, array: Array = None, least: int = 1) -> Iterator[slice]:
    """Slices of rows, each within scikit-learn's ``working_memory``.

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


def memory(array: Array) -> int | None:
    """Total memory, in bytes, of the device of the array; None if it is not known."""
    try:
        if is_cupy(array):
            return int(array.device.mem_info[1])
        if on_accelerator(array):
            import torch

            return int(torch.cuda.get_device_properties(array.device).total_memory)
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def free_memory(array: Array) -> int | None:
    """As `memory`; of a GPU only what is free, including what the allocator of its library holds in reserve.

    It changes from call to call, so that it must not determine how a result is computed.
    """
    try:
        if is_cupy(array):
            import cupy

            return int(array.device.mem_info[0]) + int(cupy.get_default_memory_pool().free_bytes())
        if on_accelerator(array):
            import torch

            reserve = torch.cuda.memory_reserved(array.device) - torch.cuda.memory_allocated(array.device)
            return int(torch.cuda.mem_get_info(array.device)[0]) + int(reserve)
    except (AttributeError, ValueError, OSError):
        return None
    return memory(array)


def in_tiles(function: Callable[[slice, slice], object], array: Array, depth: int, *, symmetric: bool = False) -> None:
    """Call `function(rows, columns)` for tiles that cover `array`; each tile is a matrix product of inner size `depth`.

    For a `symmetric` array they cover the lower triangle, and more only in the tiles on the diagonal.

    NumPy's elementwise functions use one thread, and BLAS threads keep the cores busy for a while after a product. So
    one thread per core takes tile after tile of a large array, matrix product included, and a tile stays in the core's
    cache.
    """
    n_rows, n_columns = array.shape
    if not is_numpy(array) or array.size < 2**16 or depth > 128:
        for block in row_blocks(n_rows, 8 * n_columns, array):
            function(block, slice(0, n_columns))
        return
    if symmetric:
        bands = [slice(i, min(i + SQUARE, n_rows)) for i in range(0, n_rows, SQUARE)]
        tiles = [(band, other) for place, band in enumerate(bands) for other in bands[: place + 1]]
    else:
        parts = -(-n_columns // 1024)
        edges = [n_columns * part // parts for part in range(parts + 1)]
        height = max(4, min(2**20 // depth, 2**16, array.size // 4) // edges[1])
        bands = [slice(i, min(i + height, n_rows)) for i in range(0, n_rows, height)]
        tiles = [(band, slice(j, k)) for band in bands for j, k in itertools.pairwise(edges)]

    parallel_for(lambda tile: function(*tile), tiles)
