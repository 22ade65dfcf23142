"""Progress of long computations, reported to a listener such as `Line`, and counts in messages.

Without a listener nothing is counted. Code that plans work announces an upper bound of it (`expect`); code that does
the work reports it (`did`). When a part ends early, such as a search that converges, its remaining work is dropped.
Work is measured in approximate nanoseconds of one core; only ratios matter.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Self, TextIO

Listener = Callable[[float], object]

QUIET = 0.5  # A line appears after this many seconds.
INTERVAL = 0.1  # There are this many seconds between two updates of a line.
LOGGED = 0.25  # A log gets a line after each such share of the work.


class Line:
    """A listener that shows the share of the work done and the time left, in a line on standard error.

    On a terminal and in a notebook the line is updated in place; a file gets at most four lines.
    """

    def __init__(self, label: str) -> None:
        self.label, self.stream = label, sys.stderr
        self.start = self.shown = time.monotonic()
        self.share, self.width = 0.0, 0
        self.in_place = type(self.stream).__module__.startswith("ipykernel")
        with suppress(OSError, ValueError):  # closed
            self.in_place |= self.stream.isatty()

    def __enter__(self) -> Self:
        self(0.0)
        return self

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        due = now - self.shown >= INTERVAL if self.in_place else share >= self.share + LOGGED
        if due and share < 1.0 and now - self.start >= QUIET:  # 100 % is shown only at the end
            self._show(share, now)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        now = time.monotonic()
        if error is None and now - self.start >= QUIET:
            self._show(1.0, now)
        if self.in_place and self.width:
            write(self.stream, "\n")

    def _show(self, share: float, now: float) -> None:
        passed = now - self.start
        left = f", about {timedelta(seconds=round(passed / share - passed))} left" if 0.01 <= share < 1.0 else ""
        bar = "#" * int(20 * share)
        text = f"{self.label}  [{bar:-<20}]  {int(100 * share)}%  {timedelta(seconds=round(passed))}{left}"
        self.share, self.shown = share, now
        if self.in_place:
            text = text[: shutil.get_terminal_size().columns - 1]
            write(self.stream, f"\r{text:<{self.width}}")
        else:
            write(self.stream, f"{text}\n")
        self.width = len(text)


def write(stream: TextIO, text: str) -> None:
    """Write to a stream at once; a closed or broken stream is ignored, because it must not stop the work."""
    with suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()


class _Work:
    """The work done, and what is left of each part that was announced."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.done = self.share = 0.0
        self.left: list[float] = []
        self.now: int | None = None  # the part that work counts towards

    def report(self) -> None:
        self.share = max(self.share, self.done / max(self.done + sum(self.left), 1.0))  # parts may be announced late
        self.listener(self.share)

    @contextmanager
    def part(self, number: int) -> Iterator[None]:
        """Count work done inside the context towards this part, of which nothing remains at the end."""
        self.now = number
        try:
            yield
        finally:
            self.now, self.left[number] = None, 0.0
            self.report()


_work: ContextVar[_Work | None] = ContextVar("lssvm_work", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` with the share of the work done so far: it never falls, and is 1 at the end."""
    work = _Work(listener)
    token = _work.set(work)
    try:
        yield
    finally:
        _work.reset(token)
    if work.share < 1.0:
        listener(1.0)


def equal_part(number: int, count: int) -> AbstractContextManager[None]:
    """Treat what is done inside as all the work of one of `count` equal parts."""
    work = _work.get()
    return nullcontext() if work is None else listening(lambda share: work.listener((number + share) / count))


def each(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Return the results of a function for all items, each of which takes an equal part of the work."""
    found = []
    for number, item in enumerate(items):
        with equal_part(number, len(items)):
            found.append(function(item))
    return found


def expect(most: Callable[[], float]) -> AbstractContextManager[None]:
    """Announce a part of the work to come, with an upper bound of its amount."""
    work = _work.get()
    if work is None:
        return nullcontext()
    work.left.append(most())
    return work.part(len(work.left) - 1)


def did(amount: Callable[[], float]) -> None:
    """Report that this amount of work has been done."""
    work = _work.get()
    if work is None:
        return
    done = amount()
    work.done += done
    if work.now is not None:
        work.left[work.now] = max(work.left[work.now] - done, 0.0)
    work.report()


def work(rows: int, basis: int | None, *, every: bool = False) -> float:
    """Return the approximate work of factorising that many rows with a basis (None: the rows), for one or every C.

    The unit is a nanosecond of one core, as measured with 300 to 200,000 rows. Unpredictable work, such as the extra
    passes of an ill-conditioned system, may make it three times as long.
    """
    slope = {(True, False): 0.08, (True, True): 0.36, (False, False): 0.04, (False, True): 0.06}[basis is None, every]
    size = rows if basis is None else basis
    return 1e7 + rows * size * (8.0 + slope * size)


def share_of_work(rows: slice, basis: int) -> float:
    """Return the share of `work` that a block of rows accounts for."""
    return work(rows.stop - rows.start, basis) - work(0, basis)


def gradient_work(rows: int, basis: int | None, columns: int) -> float:
    """Return the approximate work of the derivative of the leave-one-out loss, in the units of `work`."""
    size, slope = (rows, 0.1) if basis is None else (basis, 0.0)
    return rows * size * (12.0 + 3.0 * columns + slope * size)


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a number and a noun, with or without a verb: "1 row", "2 rows"; "1 row is", "2 rows are"."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
