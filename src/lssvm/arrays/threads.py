"""A thread pool of lssvm's own, used with single-threaded BLAS.

OpenBLAS threads spin at barriers: as soon as another process occupies a core, every call waits for the thread that is
not running, and a fit takes ten times as long. Here BLAS runs with one thread, and a large operation is cut into pieces
that the threads of the pool take one by one, so that a thread with less processor time does less of the work. Idle
threads sleep.

SciPy's BLAS wrappers hold the GIL, so that two threads cannot use them at the same time, and NumPy, whose products do
not hold it, has no triangular ones: with blocks of full products, fits take 1.05 to 1.3 times the CPU seconds. So BLAS
is called without the GIL, by the addresses that SciPy publishes for Cython, in place on parts of matrices, whose rows
need not be adjacent. To Fortran a lower triangle L in row-major order is the upper triangle L', and every product is
transposed.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import cython_blas
from threadpoolctl import ThreadpoolController

SMALL_PIECE = 2**21  # A piece has at least this many multiplications, about a tenth of a millisecond.

Item = TypeVar("Item")

_lock = threading.RLock()  # a signal handler may fit, too
_inside: set[int] = set()  # the threads that are inside a `single_threaded_blas` block
_before: list[tuple[Library, int]] = []  # shared BLAS libraries, and their numbers of threads outside these blocks
_local = threading.local()  # pool, workers: of this thread; helps: is a helper thread; before: as `_before`, for OpenMP


class Library(NamedTuple):
    """Reads and sets the number of threads of a BLAS library."""

    get: Callable[[], int]
    set: Callable[[int], None]


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Let the BLAS libraries of NumPy and SciPy use one thread each while any thread is inside the block.

    The helper threads end when the outermost block of their thread does.
    """
    thread = threading.get_ident()
    if thread in _inside:
        yield
        return
    shared, own = _libraries()
    try:
        with _lock:
            if not _inside:
                limits = [(library, library.get()) for library in shared]
                if not _before or any(number > 1 for _, number in limits):  # else an interrupt left them limited
                    _before[:] = limits
            _local.before = [(library, library.get()) for library in own]
            _local.workers = workers()
            _inside.add(thread)
            for library in shared + own:
                library.set(1)
        yield
    finally:
        try:
            _leave(thread)
        except BaseException:  # an interrupt
            _leave(thread)
            raise
        finally:
            if (pool := vars(_local).pop("pool", None)) is not None:
                pool.shutdown()


def _leave(thread: int) -> None:
    """Record that this thread has left its block; the last one restores the shared libraries. Can be repeated."""
    with _lock:
        is_last = not _inside - {thread}
        for library, number in [*getattr(_local, "before", []), *(_before if is_last else [])]:
            library.set(number)
        if is_last:
            _before.clear()
        _inside.discard(thread)


class cached_property:
    """functools.cached_property without the lock of Python 3.11, which one thread may hold while another one forks."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.function.__name__] = self.function(instance)
        return value


def workers() -> int:
    """Return the number of threads that share work: one per core, but no more than the user allows BLAS."""
    if getattr(_local, "helps", False):
        return 1
    if threading.get_ident() in _inside:
        return _local.workers
    shared, own = _libraries()
    allowed = [number for _, number in _before] or [library.get() for library in shared]
    return max(1, min([_cores(), *allowed, *(library.get() for library in own)]))


def parallel_for(function: Callable[[Item], Any], items: Iterable[Item]) -> list[Any]:
    """Return the results of `function` for all items, computed in any order by this thread and its helpers.

    An error stops them all.
    """
    items = list(items)
    helpers = min(workers(), len(items)) - 1 if len(items) > 1 else 0
    if helpers < 1:
        return [function(item) for item in items]
    results: list[Any] = [None] * len(items)
    left = iter(enumerate(items))  # threads share it: each item goes to one of them

    def work() -> None:
        try:
            for place, item in left:
                results[place] = function(item)
        except BaseException:
            deque(left, maxlen=0)  # no further item is begun
            raise

    with single_threaded_blas():
        pool = _helpers()
        others = [pool.submit(work) for _ in range(helpers)]
        try:
            work()
        finally:
            deque(left, maxlen=0)
            started = [other for other in others if not other.cancel()]
            wait(started)
        for other in started:
            other.result()
    return results


def run_each_alone(function: Callable[[Item], Any], items: Sequence[Item]) -> list[Any]:
    """Run `parallel_for` with nested calls that run serially, unless there is a single item."""

    def alone(item: Item) -> Any:
        helps, _local.helps = getattr(_local, "helps", False), True
        try:
            return function(item)
        finally:
            _local.helps = helps

    return parallel_for(alone if len(items) > 1 else function, items)


def _helpers() -> ThreadPoolExecutor:
    """Return the helper threads of this thread."""
    if not hasattr(_local, "pool"):
        _local.pool = ThreadPoolExecutor(max(1, workers() - 1), thread_name_prefix="lssvm", initializer=_become_helper)
    return _local.pool


def _become_helper() -> None:
    _local.helps = True
    for library in _libraries()[1]:
        library.set(1)


def _cores() -> int:
    limit = os.environ.get("OMP_NUM_THREADS") or os.environ.get("OPENBLAS_NUM_THREADS")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, int(limit)) if limit and limit.isdigit() and int(limit) > 0 else cores


@functools.cache
def _libraries() -> tuple[list[Library], list[Library]]:
    """Return the BLAS libraries of NumPy and SciPy with a global number of threads, and those with one per thread.

    The latter use OpenMP. torch brings its own library, for tensors only.
    """
    shared: list[Library] = []
    own: list[Library] = []
    names = ["openblas_set_num_threads" + suffix for suffix in ("", "64_", "_64")]
    for found in ThreadpoolController().lib_controllers:
        if found.user_api == "blas" and Path(found.filepath).parts[-3:-1] != ("torch", "lib"):
            if getattr(found, "threading_layer", "") == "openmp":
                own.append(Library(found.get_num_threads, found.set_num_threads))
            else:  # threadpoolctl lets only one thread control OpenBLAS
                setters = [getattr(found.dynlib, prefix + name, None) for prefix in ("", "scipy_") for name in names]
                shared.append(Library(found.get_num_threads, next(filter(None, setters), found.set_num_threads)))
    return shared, own


def _after_fork() -> None:
    """Reset the state in a child process: only the forking thread is left, and another may have held the lock."""
    global _lock
    _lock = threading.RLock()
    vars(_local).pop("pool", None)
    _inside.intersection_update({threading.get_ident()})
    if not _inside:
        for library, number in _before:
            library.set(number)
        _before.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# BLAS without the GIL -------------------------------------------------------------------------------------------------
def _routine(name: str) -> Callable[..., None]:
    """Return a Fortran routine by its address; ctypes releases the GIL while it runs."""
    read_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    read = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    capsules: Any = cython_blas.__pyx_capi__
    address = read(("PyCapsule_GetPointer", ctypes.pythonapi))(capsules[name], read_name(capsules[name]))
    function = ctypes.CFUNCTYPE(None)(address)

    def call(*arguments: Any) -> None:
        """Call the routine; an array stands for its address and the distance between its rows (vectors: elements)."""
        passed: list[Any] = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                rows, columns = argument.shape if argument.ndim == 2 else (1, 1)
                step = max(argument.strides[0] // 8 if rows > 1 else columns, columns, 1)
                address = argument.__array_interface__["data"][0]
                passed += (ctypes.c_void_p(address), ctypes.byref(ctypes.c_int(step)))
            elif isinstance(argument, bytes):
                passed.append(argument)
            else:
                number = ctypes.c_double if isinstance(argument, float) else ctypes.c_int
                passed.append(ctypes.byref(number(argument)))
        function(*passed)

    return call


_dgemm, dsyrk, dsymv, dtrsm, dtrmm = map(_routine, ("dgemm", "dsyrk", "dsymv", "dtrsm", "dtrmm"))


def usable(A: np.ndarray) -> bool:
    """Return whether A is a row-major float64 matrix: the elements of a row are adjacent, and rows do not overlap."""
    if A.dtype != np.float64 or A.ndim != 2 or not A.flags.aligned:
        return False
    step, width = A.strides[0], 8 * A.shape[1]
    return (A.shape[1] <= 1 or A.strides[1] == 8) and (A.shape[0] <= 1 or (step >= max(width, 8) and step % 8 == 0))


def by_rows(A: np.ndarray, *, copy: bool = True) -> np.ndarray:
    """Return A itself if it can be overwritten in place, otherwise a row-major copy or, without `copy`, a TypeError."""
    if usable(A) and A.flags.writeable:
        return A
    if not copy:
        raise TypeError(f"BLAS needs a writeable, row-major float64 matrix to work in place, got {A.dtype}.")
    return np.array(A, dtype=np.float64, order="C")


def stored(A: np.ndarray) -> tuple[np.ndarray, bytes]:
    """Return A and b"N" if A is row-major in memory, or A' and b"T" if A' is."""
    if usable(A):
        return A, b"N"
    return (A.T, b"T") if usable(A.T) else (by_rows(A), b"N")


def gemm(out: np.ndarray, A: np.ndarray, B: np.ndarray, factor: float, keep: float) -> None:
    """Set out = keep * out + factor * A B in one thread; A or B may be stored by columns."""
    (left, turn_left), (right, turn_right), (rows, columns) = stored(A), stored(B), out.shape
    if out.size:
        _dgemm(turn_right, turn_left, columns, rows, A.shape[1], factor, right, left, keep, out)


def by_triangle(routine: Callable[..., None], L: np.ndarray, Z: np.ndarray, *, turn: bool, left: bool = False) -> None:
    """Overwrite Z with Z L^-T (`turn`) or Z L^-1 by `dtrsm`, and with Z L' or Z L by `dtrmm`.

    With `left`: L^-1 Z (`turn`) or L^-T Z, and L Z or L'Z.
    """
    L, Z = by_rows(L), by_rows(Z, copy=False)
    if not Z.size:
        return
    side, operation = (b"R", b"N" if turn else b"T") if left else (b"L", b"T" if turn else b"N")

    def apply(part: slice) -> None:
        piece = Z[:, part] if left else Z[part]
        routine(side, b"U", operation, b"N", piece.shape[1], piece.shape[0], 1.0, L, piece)

    parallel_for(apply, pieces(Z.shape[1] if left else Z.shape[0], 0.5 * Z.size * len(L)))


def pieces(size: int, work: float) -> list[slice]:
    """Return rows in pieces, for `work` multiplications in all: one per thread, as BLAS is faster on larger pieces."""
    return bands(size, max(1, min(workers(), int(work / SMALL_PIECE), size // 8)))


def bands(size: int, count: int) -> list[slice]:
    """Return `count` adjacent slices, whose lengths differ by at most one."""
    edges = [size * number // count for number in range(count + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]
