"""The command group with its error handling, options shared by several commands, printed output and progress."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from .. import progress
from ..files import is_stream, writable

# Control characters other than tab and line break, direction overrides, lone surrogates
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Later(ModuleType):
    """Stands for a module until one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


class WithoutPandas:
    """A finder of modules that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("the command line does not use pandas", name=name)


class Program(click.Group):
    """The commands. Streams may be closed, and texts in the data may contain escape sequences."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command. Messages to a closed standard error are discarded."""
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        if not arguments and options.keys() <= {"prog_name"}:  # the process ends with the command
            # scikit-learn and pyarrow import both if they can, which takes as long as the rest of `lssvm predict`
            sys.meta_path.insert(0, WithoutPandas())
            sys.modules.setdefault("scipy.stats", Later("scipy.stats"))
        return super().main(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        """Run a command; errors of data and files become one message, with control characters escaped."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            click.echo("\nAborted!", err=True)
            raise click.exceptions.Exit(130) from None
        except BrokenPipeError:
            raise
        except click.ClickException as error:
            vars(error)["message"] = printable(error.message)  # type checkers consider this attribute final
            raise
        except (ImportError, MemoryError, OSError, TypeError, ValueError) as error:
            message = str(error)
            if isinstance(error, ModuleNotFoundError) and error.name == "pyarrow":
                message = 'Reading files requires pyarrow: pip install "lssvm[files]"'
            if isinstance(error, PermissionError):
                message = f"permission denied: {error.filename!r}. Ask its owner for access, or choose another file."
            raise click.ClickException(printable(message)) from error


@click.group(name="lssvm", cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lssvm", prog_name="lssvm")
def main() -> None:
    """Least-squares support vector machines: from a table to a model and a report.

    \b
    lssvm fit houses.csv -y price -o houses.lssvm --report houses.html
    lssvm predict houses.lssvm new_houses.csv > prices.csv
    """


def reading_options(command: Any) -> Any:
    """Return the options for the format of a text file, if it cannot be inferred."""
    command = click.option("--encoding", help="Encoding of text files; UTF-8 by default.")(command)
    header = "Whether the first line contains the column names."
    command = click.option("--header/--no-header", default=None, help=header)(command)
    decimal = "Decimal separator; inferred by default."
    command = click.option("--decimal", type=click.Choice([".", ","]), help=decimal)(command)
    delimiter = "Delimiter of text files; inferred by default. \\t is a tab."
    return click.option("--delimiter", help=delimiter)(command)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
data_argument = click.argument("data", metavar="DATA")
model_argument = click.argument("model", metavar="MODEL", type=click.Path(exists=True, dir_okay=False))
FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


# Files and streams ----------------------------------------------------------------------------------------------------
def parts_of(path: Path) -> list[Path]:
    """Return the files of a table: the path itself or, for a folder, the Parquet files in it."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix.lower() in (".parquet", ".pq"))


def check_output(path: Path | None, option: str, *others: str | Path | None) -> None:
    """Check before the work that an output can be written and that it is not another file of the command.

    A file may have several names (hard links), or not exist yet.
    """
    try:
        if path is None or is_stream(path):
            return
        target = writable(path)
    except OSError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
    for other in [file for name in others if name is not None for file in parts_of(Path(name))]:
        if target == other.resolve() or (target.exists() and other.exists() and target.samefile(other)):
            message = f"'{path}' is also another file of this command and would be overwritten; choose another name."
            raise click.BadParameter(message, param_hint=option)


def check_standard_output(remedy: str) -> None:
    if sys.stdout is None:
        raise click.ClickException(f"standard output is closed: {remedy}.")


# Printed output -------------------------------------------------------------------------------------------------------
def printable(text: str) -> str:
    """Return text for a terminal: control characters and direction overrides are escaped, as \\u001b."""
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "\\n")


def print_values(result: dict[str, Any], as_json: bool) -> None:
    progress_line("")
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


def print_path(path: Path) -> None:
    """Print the path of a result: escaped on a terminal, unchanged for a script."""
    progress_line("")
    click.echo(printable(str(path)) if sys.stdout is not None and sys.stdout.isatty() else str(path))


def say(text: str) -> None:
    progress_line("")
    click.echo(_one_line(text), err=True)


@contextmanager
def warnings_at_the_end() -> Iterator[None]:
    """Print each warning of the library once, after the block."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"warning: {message}")


# Progress -------------------------------------------------------------------------------------------------------------
def shows_progress() -> bool:
    """Return whether to show progress: only on a terminal, and not with --json."""
    context = click.get_current_context(silent=True)
    return sys.stderr.isatty() and not (context is not None and context.params.get("as_json"))


def progress_line(text: str) -> None:
    """Print a line that the next one replaces, on a terminal."""
    if shows_progress():
        progress.write(sys.stderr, f"\r\x1b[K{text}")
