"""A thread pool of lssvm's own, used with single-threaded BLAS.

OpenBLAS threads spin at barriers: as soon as another process occupies a core, every call waits for the thread that is
not running, and a fit takes ten times as long. Here BLAS runs with one thread, and a large operation is cut into pieces
that the threads of the pool take one by one, so that a thread with less processor time does less of the work. Idle
threads sleep.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ContextDecorator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
First = TypeVar("First")
Second = TypeVar("Second")

_lock = threading.RLock()  # a signal handler may fit, too
_depth: dict[int, int] = {}  # by thread: how many nested `single_threaded_blas` blocks it is in
_before: list[int] = []  # numbers of threads of the shared BLAS libraries outside all of these blocks
_local = threading.local()  # pool, workers: of this thread; helps: is a helper thread; before: as `_before`, for OpenMP


@dataclass(frozen=True)
class Library:
    """Reads and sets the number of threads of a BLAS library."""

    get: Callable[[], int]
    set: Callable[[int], None]


class single_threaded_blas(ContextDecorator):
    """While any thread is inside, the BLAS libraries of NumPy and SciPy use one thread each.

    The helper threads end when the outermost block of their thread does.
    """

    def __enter__(self) -> None:
        depth = _depth.get(threading.get_ident(), 0)
        try:
            _enter(depth + 1)
        except BaseException:  # an interrupt
            _leave(depth)
            raise

    def __exit__(self, *exception: object) -> None:
        depth = _depth[threading.get_ident()] - 1
        try:
            _leave(depth)
        except BaseException:
            _leave(depth)
            raise
        finally:
            if not depth:
                _end_helpers()


def _enter(depth: int) -> None:
    """Record that this thread is in `depth` nested blocks; the first block of all limits the shared libraries."""
    thread = threading.get_ident()
    shared, own = _libraries()
    with _lock:
        if not _depth:
            numbers = [library.get() for library in shared]
            if not _before or max(numbers, default=1) > 1:  # else an interrupt prevented their restoration
                _before[:] = numbers
        if depth == 1:
            _local.before = [library.get() for library in own]
            _local.workers = max(1, min([_cores(), *_before, *_local.before]))
        _depth[thread] = depth
        if depth == 1:
            _set_threads(shared + own, [1] * len(shared + own))


def _leave(depth: int) -> None:
    """Record that this thread is in `depth` nested blocks; the last one restores the libraries. Can be repeated."""
    thread = threading.get_ident()
    shared, own = _libraries()
    with _lock:
        if depth:
            _depth[thread] = depth
            return
        _set_threads(own, getattr(_local, "before", []))
        if not _depth.keys() - {thread}:
            _set_threads(shared, _before)
            _before.clear()
        _depth.pop(thread, None)


def _set_threads(libraries: list[Library], numbers: list[int]) -> None:
    for library, number in zip(libraries, numbers, strict=False):  # `numbers` is empty after an early interrupt
        library.set(number)


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
    """The number of threads that share work: one per core, but no more than the user allows BLAS."""
    if getattr(_local, "helps", False):
        return 1
    if threading.get_ident() in _depth:
        return _local.workers
    shared, own = _libraries()
    allowed = (_before or [library.get() for library in shared]) + [library.get() for library in own]
    return max(1, min([_cores(), *allowed]))


def parallel_for(function: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Call `function` with every item, in any order, in this thread and its helpers; an error stops them all."""
    waiting = deque(items)
    helpers = min(workers(), len(waiting)) - 1 if len(waiting) > 1 else 0

    def work() -> None:
        try:
            while True:
                try:
                    item = waiting.popleft()
                except IndexError:
                    return
                function(item)
        except BaseException:
            waiting.clear()
            raise

    if helpers < 1:
        work()
        return
    with single_threaded_blas():
        pool = _helpers()
        others = [pool.submit(work) for _ in range(helpers)]
        try:
            work()
        finally:
            waiting.clear()
            started = [other for other in others if not other.cancel()]
            wait(started)
        for other in started:
            other.result()


def run_each_alone(function: Callable[[Item], object], items: Sequence[Item]) -> None:
    """As `parallel_for`, but nested calls run serially, unless there is a single item."""

    def alone(item: Item) -> None:
        helps, _local.helps = getattr(_local, "helps", False), True
        try:
            function(item)
        finally:
            _local.helps = helps

    parallel_for(alone if len(items) > 1 else function, items)


def run_pair(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """The results of two functions: with two threads side by side, each in one; otherwise in turn, with all threads."""
    if workers() != 2:
        return first(), second()
    results: dict[int, Any] = {}

    def keep(number: int) -> None:
        results[number] = (first, second)[number]()

    run_each_alone(keep, (0, 1))
    return results[0], results[1]


def _helpers() -> ThreadPoolExecutor:
    """The helper threads of this thread. A forked process inherits none of them and starts its own."""
    process, pool = getattr(_local, "pool", (None, None))
    if pool is None or process != os.getpid():
        pool = ThreadPoolExecutor(max(1, workers() - 1), thread_name_prefix="lssvm", initializer=_become_helper)
        _local.pool = (os.getpid(), pool)
    return pool


def _become_helper() -> None:
    _local.helps = True
    own = _libraries()[1]
    _set_threads(own, [1] * len(own))


def _end_helpers() -> None:
    process, pool = getattr(_local, "pool", (None, None))
    if pool is not None:
        del _local.pool
        if process == os.getpid():
            pool.shutdown()


def _cores() -> int:
    limit = os.environ.get("OMP_NUM_THREADS") or os.environ.get("OPENBLAS_NUM_THREADS")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, int(limit)) if limit and limit.isdigit() and int(limit) > 0 else cores


@functools.cache
def _libraries() -> tuple[list[Library], list[Library]]:
    """The BLAS libraries of NumPy and SciPy whose number of threads is global, and those with one per thread (OpenMP).

    torch brings its own library, for tensors only.
    """
    shared: list[Library] = []
    own: list[Library] = []
    for found in ThreadpoolController().lib_controllers:
        if found.user_api == "blas" and Path(found.filepath).parts[-3:-1] != ("torch", "lib"):
            if getattr(found, "threading_layer", "") == "openmp":
                own.append(Library(found.get_num_threads, found.set_num_threads))
            else:
                shared.append(Library(found.get_num_threads, _setter(found)))
    return shared, own


def _setter(found: Any) -> Callable[[int], None]:
    """The function that sets the threads of a shared library; threadpoolctl lets only one thread control OpenBLAS."""
    for prefix, suffix in itertools.product(("", "scipy_"), ("", "64_", "_64")):
        setter = getattr(found.dynlib, f"{prefix}openblas_set_num_threads{suffix}", None)
        if setter is not None:
            return setter
    return found.set_num_threads


def _after_fork() -> None:
    """In the child only the forking thread is left, and another one may have held the lock."""
    global _lock
    _lock = threading.RLock()
    thread = threading.get_ident()
    for other in _depth.keys() - {thread}:
        del _depth[other]
    if _before and not _depth:
        _set_threads(_libraries()[0], _before)
        _before.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
