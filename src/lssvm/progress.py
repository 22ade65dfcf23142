"""Progress of long computations, reported to a listener such as the progress bar of the command line.

Without a listener nothing is counted. Code that plans work announces an upper bound of it (`expect`); code that does
the work reports it (`did`). When a part ends early, such as a search that converges, its remaining work is dropped.
Work is measured in approximate nanoseconds of one core; only ratios matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Listener = Callable[[float], object]


class _Work:
    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.done = 0.0
        self.parts: list[_Part] = []
        self.now: _Part | None = None

    def report(self) -> None:
        left = sum(part.left for part in self.parts)
        self.listener(self.done / (self.done + left) if left > 0.0 else 1.0)


class _Part:
    """A part of the work: work done inside the context counts towards it, and at the end nothing of it remains."""

    def __init__(self, work: _Work, most: float) -> None:
        self.work, self.left = work, most

    def __enter__(self) -> None:
        self.work.now = self

    def __exit__(self, *_: object) -> None:
        self.work.now, self.left = None, 0.0
        self.work.report()


_work: ContextVar[_Work | None] = ContextVar("lssvm_work", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` with the share of the work done so far, whenever it changes."""
    token = _work.set(_Work(listener))
    try:
        yield
    finally:
        _work.reset(token)


def has_listener() -> bool:
    """Whether a listener is registered."""
    return _work.get() is not None


def expect(most: Callable[[], float]) -> AbstractContextManager[None]:
    """Announce a part of the work to come, with an upper bound of its amount."""
    work = _work.get()
    if work is None:
        return nullcontext()
    part = _Part(work, most())
    work.parts.append(part)
    return part


def did(amount: Callable[[], float]) -> None:
    """Report that this amount of work has been done."""
    work = _work.get()
    if work is None:
        return
    done = amount()
    work.done += done
    if work.now is not None:
        work.now.left = max(work.now.left - done, 0.0)
    work.report()


def work(rows: int, basis: int | None, *, every: bool = False) -> float:
    """Approximate work of factorising so many rows with a basis (None: the rows), for one C or for every C.

    In nanoseconds of one core, as measured with 300 to 200,000 rows. What cannot be predicted, such as the extra passes
    of an ill-conditioned system, may take three times as long.
    """
    slope = {(True, False): 0.08, (True, True): 0.36, (False, False): 0.04, (False, True): 0.06}[basis is None, every]
    size = rows if basis is None else basis
    return 1e7 + rows * size * (8.0 + slope * size)


def share_of_work(rows: slice, basis: int) -> float:
    """The share of `work` that a block of rows accounts for."""
    return work(rows.stop - rows.start, basis) - work(0, basis)


def gradient_work(rows: int, basis: int | None, columns: int) -> float:
    """Approximate work of the derivative of the leave-one-out loss, in the units of `work`."""
    size, slope = (rows, 0.1) if basis is None else (basis, 0.0)
    return rows * size * (12.0 + 3.0 * columns + slope * size)
