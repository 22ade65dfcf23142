"""How far long work is, for whoever listens: the command line shows a bar. Where nobody does, nothing is counted.

Those who plan work say what it takes at most (`expect`); those who do it say what they have done (`did`). What a part
does not need after all, such as the steps that a search may still take when it ends, is no longer expected. Work is in
nanoseconds of one core, roughly: only ratios matter.
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

    def tell(self) -> None:
        left = sum(part.left for part in self.parts)
        self.listener(self.done / (self.done + left) if left > 0.0 else 1.0)


class _Part:
    """A part of the work: what is done inside the context belongs to it, and at its end nothing of it is left."""

    def __init__(self, work: _Work, most: float) -> None:
        self.work, self.left = work, most

    def __enter__(self) -> None:
        self.work.now = self

    def __exit__(self, *_: object) -> None:
        self.work.now, self.left = None, 0.0
        self.work.tell()


_work: ContextVar[_Work | None] = ContextVar("lssvm_work", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` with the share of the work that is done, as it goes on."""
    token = _work.set(_Work(listener))
    try:
        yield
    finally:
        _work.reset(token)


def is_heard() -> bool:
    """Whether somebody listens."""
    return _work.get() is not None


def expect(most: Callable[[], float]) -> AbstractContextManager[None]:
    """A part of the work to come, which takes that much at most."""
    work = _work.get()
    if work is None:
        return nullcontext()
    part = _Part(work, most())
    work.parts.append(part)
    return part


def did(amount: Callable[[], float]) -> None:
    """That much of the work has been done."""
    work = _work.get()
    if work is None:
        return
    done = amount()
    work.done += done
    if work.now is not None:
        work.now.left = max(work.now.left - done, 0.0)
    work.tell()


def work(rows: int, basis: int | None, *, every: bool = False) -> float:
    """About what it takes to factorise so many rows with a basis (None: the rows), for one C or every one.

    In nanoseconds of one core, as measured with 300 to 200,000 rows: what cannot be said beforehand, such as the way
    that an ill-conditioned system needs, may take three times as long.
    """
    slope = {(True, False): 0.08, (True, True): 0.36, (False, False): 0.04, (False, True): 0.06}[basis is None, every]
    size = rows if basis is None else basis
    return 1e7 + rows * size * (8.0 + slope * size)


def share_of_work(rows: slice, basis: int) -> float:
    """The part of a block of rows."""
    return work(rows.stop - rows.start, basis) - work(0, basis)


def gradient_work(rows: int, basis: int | None, columns: int) -> float:
    """About what the derivative of leave-one-out takes then."""
    size, slope = (rows, 0.1) if basis is None else (basis, 0.0)
    return rows * size * (12.0 + 3.0 * columns + slope * size)
