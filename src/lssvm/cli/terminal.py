"""Printed output and progress bars."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import progress
from ..files import is_stream
from ..progress import counted

if TYPE_CHECKING:
    from typing import Any

from .program import printable


def print_values(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        plain = {name.replace(" ", "_").replace("-", "_"): value for name, value in result.items()}
        unknown = [name for name, value in plain.items() if isinstance(value, float) and not isfinite(value)]
        click.echo(json.dumps(plain | dict.fromkeys(unknown), allow_nan=False))  # JSON has no NaN or infinity
        return
    width = max(map(len, result))
    for name, value in result.items():
        if isinstance(value, list):
            value = ", ".join(value[:20]) + (f" and {len(value) - 20} more" if len(value) > 20 else "")
        if isinstance(value, float):
            value = f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
        click.echo(f"{name:<{width}}  {_one_line(str(value))}")


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "\\n")


def print_path(path: Path) -> None:
    """Print the path of a result: escaped on a terminal, unchanged for a script."""
    click.echo(printable(str(path)) if sys.stdout is not None and sys.stdout.isatty() else str(path))


def check_standard_output(remedy: str) -> None:
    if sys.stdout is None:
        raise click.ClickException(f"standard output is closed: {remedy}.")


def say(text: str) -> None:
    progress_line("")
    click.echo(_one_line(text), err=True)


def check_output(path: Path | None, option: str, *others: str | Path | None) -> None:
    """Check before the work that the folder of an output file exists and that it is not another file of the command."""
    try:
        if path is None or is_stream(path):
            return
    except OSError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
    if not path.parent.is_dir():
        raise click.BadParameter(f"the folder '{path.parent}' does not exist; create it first.", param_hint=option)
    if not path.exists() and not os.access(path.parent, os.W_OK):
        message = f"the folder '{path.parent}' is not writable; choose another."
        raise click.BadParameter(message, param_hint=option)
    from .reading import parts_of  # imports NumPy, which --help does not need

    files = [file for other in others if other is not None for file in parts_of(Path(other))]
    if any(_same_file(path, file) for file in files):
        message = f"'{path}' is also another file of this command and would be overwritten; choose another name."
        raise click.BadParameter(message, param_hint=option)


def _same_file(path: Path, other: Path) -> bool:
    """Whether two names are those of one file; it may have several names (hard links), or not exist yet."""
    try:
        return path.samefile(other)
    except OSError:
        return path.resolve() == other.resolve()


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Collect the warnings of the library; they are printed at the end."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    # C and sigma are parameters in Python, not options of this program
    messages += dict.fromkeys(str(warning.message).removesuffix(" Give C or sigma.") for warning in caught)
    for message in messages:
        say(f"warning: {message}")


def shows_progress() -> bool:
    """Whether to show progress: only on a terminal, and not with --json."""
    return sys.stderr.isatty() and not click.get_current_context().params.get("as_json")


def progress_line(text: str) -> None:
    """Print a line that the next one replaces, on a terminal."""
    if shows_progress():
        progress.write(sys.stderr, f"\r\x1b[K{text}")


@contextmanager
def row_counter() -> Iterator[Callable[[int], None]]:
    yield lambda rows: progress_line(f"reading: {counted(rows, 'row')}")
    progress_line("")


@contextmanager
def bar(length: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar with the time left, on a terminal."""
    if not shows_progress():
        yield lambda rows: None
        return
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        line(done / length)

    with progress.Line(label) as line:
        yield advance


@contextmanager
def share_bar(label: str) -> Iterator[None]:
    """A bar for a fit, which reports the share of its maximum work that is done."""
    if not shows_progress():
        yield
        return
    with progress.Line(label) as line, progress.listening(line):
        yield
