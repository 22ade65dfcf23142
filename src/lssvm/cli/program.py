"""The command group, its error handling, and options shared by several commands."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from .startup import QuickStart

if TYPE_CHECKING:
    from typing import Any


Command = TypeVar("Command", bound=Callable[..., None])
# Control characters other than tab and line break, direction overrides, lone surrogates
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Program(click.Group):
    """The commands. Streams may be closed, and texts in the data may contain escape sequences."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command. Messages to a closed standard error are discarded."""
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        if not arguments and options.keys() <= {"prog_name"}:  # the process ends with the command
            sys.meta_path.insert(0, QuickStart())
        return super().main(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        """Run a command, with control characters in its error messages escaped."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            click.echo("\nAborted!", err=True)
            raise click.exceptions.Exit(130) from None
        except click.ClickException as error:
            vars(error)["message"] = printable(error.message)  # type checkers consider this attribute final
            raise


def printable(text: str) -> str:
    """Text for a terminal: control characters and direction overrides are escaped, as \\u001b."""
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@click.group(name="lssvm", cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lssvm", prog_name="lssvm")
def main() -> None:
    """Least-squares support vector machines: from a table to a model and a report.

    \b
    lssvm fit houses.csv -y price -o houses.lssvm --report houses.html
    lssvm predict houses.lssvm new_houses.csv > prices.csv
    """


def plain_errors(command: Command) -> Command:
    """Report errors of data and files as one message with exit code 1, without a traceback."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except (ImportError, MemoryError, TypeError, ValueError) as error:
            if type(error).__name__ == "UnknownColumn":  # the option is wrong, not the data
                raise click.UsageError(str(error)) from error
            raise click.ClickException(str(error)) from error
        except BrokenPipeError:
            raise
        except PermissionError as error:
            raise click.ClickException(
                f"permission denied: {error.filename!r}. Ask its owner for access, or choose another file."
            ) from error
        except OSError as error:
            raise click.ClickException(str(error)) from error

    return wrapped  # type: ignore[return-value]


def reading_options(command: Command) -> Command:
    """Options for the format of a text file, if it cannot be inferred."""
    for option in (
        click.option("--encoding", help="Encoding of text files; UTF-8 by default."),
        click.option("--header/--no-header", default=None, help="Whether the first line contains the column names."),
        click.option("--decimal", type=click.Choice([".", ","]), help="Decimal separator; inferred by default."),
        click.option("--delimiter", help="Delimiter of text files; inferred by default. \\t is a tab."),
    ):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
data_argument = click.argument("data", metavar="DATA")
model_argument = click.argument("model", metavar="MODEL", type=click.Path(exists=True, dir_okay=False))
FILE = click.Path(dir_okay=False, writable=True, path_type=Path)
