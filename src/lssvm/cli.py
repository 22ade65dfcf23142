"""The command line: ``lssvm fit | predict | report | export | inspect | demo``.

Results go to standard output; remarks, warnings and errors to standard error; progress there, too, on a terminal only.
Exit codes: 0 done, 1 the work failed, 2 the command was called wrongly.
"""

from __future__ import annotations

import functools
import json
import os
import re
import stat
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from ._files import is_stream, written

# NumPy, matplotlib and the library itself are imported inside the commands: --help stays fast.
if TYPE_CHECKING:
    from typing import Any

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lssvm import LSSVR
    from lssvm.tables import Plan, Source

Command = TypeVar("Command", bound=Callable[..., None])

MEMORY_SHARE = 0.5  # a fit that needs more of the free memory than this goes through chunks
MEMORY_TABLE = Path("/proc/meminfo")
WORKING_COLUMNS = 2000  # columns of as many numbers as rows that a fit with a basis holds at once
PIECE = 10_000  # rows that are predicted at once
# Control characters other than tab and line break, direction overrides, halves of surrogate pairs
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
ROBUST = ("hampel", "huber", "logistic", "myriad")


class Program(click.Group):
    """The commands, where a stream may be closed and texts of the data may hold escape sequences."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command. Messages to a closed standard error go nowhere."""
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        return super().main(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        """Run a command, with its errors fit for a terminal."""
        try:
            return super().invoke(context)
        except click.ClickException as error:
            vars(error)["message"] = printable(error.message)  # an attribute that type checkers take as final
            raise


def printable(text: str) -> str:
    """Text for a terminal: what would steer it (escape sequences) or reverse the text is spelled out, as \\u001b."""
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
    """Errors of data and files as one message and exit code 1, not as a traceback."""

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
                f"no permission for {error.filename!r}: ask its owner for it, or choose another file."
            ) from error
        except OSError as error:
            raise click.ClickException(str(error)) from error

    return wrapped  # type: ignore[return-value]


def reading_options(command: Command) -> Command:
    """How a text file is written, where that cannot be guessed."""
    for option in (
        click.option("--encoding", help="Of text files; UTF-8 by default."),
        click.option("--header/--no-header", default=None, help="Whether the first line holds the column names."),
        click.option("--delimiter", help="Between cells of text files; guessed by default. \\t is a tab."),
    ):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
data_argument = click.argument("data", metavar="DATA")
model_argument = click.argument("model", metavar="MODEL", type=click.Path(exists=True, dir_okay=False))
FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


# fit ------------------------------------------------------------------------------------------------------------------
@main.command()
@data_argument
@click.option("-y", "--target", required=True, metavar="COLUMN", help="The column to predict.")
@click.option("-o", "--output", required=True, metavar="MODEL", type=FILE, help="Where the model goes.")
@click.option("--report", "page", metavar="HTML", type=FILE, help="Write a report, too.")
@click.option("--task", type=click.Choice(["regression", "classification"]), help="Guessed from the column by default.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out; may be repeated.")
@click.option("--categorical", multiple=True, metavar="COLUMN", help="Take a column as categories; may be repeated.")
@click.option(
    "--missing",
    type=click.Choice(["error", "drop", "fill"]),
    default="error",
    show_default=True,
    help="Missing values: stop and list them, drop their rows, or fill in the column's mean.",
)
@click.option("--robust", type=click.Choice(ROBUST), help="Give outliers less weight.")
@reading_options
@json_option
@plain_errors
def fit(
    data: str,
    target: str,
    output: Path,
    page: Path | None,
    task: str | None,
    drop: tuple[str, ...],
    categorical: tuple[str, ...],
    missing: str,
    robust: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Fit a model to a table: CSV, TSV, Parquet, a folder of Parquet, or - for standard input.

    Kernel, widths and C are chosen by leave-one-out. Columns of text become categories; whether the target is a number
    or a class is guessed and said. A table larger than the memory is read in chunks.
    """
    _check_output(output, "-o", data)
    _check_output(page, "--report", data, output)
    from time import perf_counter

    from . import _progress, diagnose
    from .estimators import LSSVC, LSSVR
    from .persist import save
    from .tables import open_table, plan

    start = perf_counter()
    source = open_table(data, **reading)
    with _row_counter() as seen:
        scheme, summaries, remarks = plan(
            source, target, task=task, drop=drop, categorical=categorical, missing=missing, seen=seen
        )
    for remark in remarks:
        _say(remark)
    n_rows = summaries[target].rows
    read = perf_counter()
    classify = scheme.task == "classification"
    model = LSSVC(robust=robust) if classify else LSSVR(robust=robust)
    chunked = _needs_chunks(n_rows, len(scheme.names))
    with _recorded_warnings() as raised:
        if chunked:
            _say(f"{n_rows} rows at once would take more than half of the free memory: they are read in chunks")
            chunks = _Chunks(source, scheme, n_rows)
            with _progress.listening(chunks.plans):
                model.fit_chunks(chunks)
            dropped = chunks.dropped
        else:
            X, y, dropped = _rows(source, scheme)
            with _share_bar(f"fitting {len(y)} rows, {len(scheme.names)} columns"):
                model.fit(X, y)
    done = perf_counter()
    left_out = [remark for remark in remarks if remark.startswith(("column ", "missing "))]
    table = scheme.to_dict()
    table.update(
        source=source.name if data == "-" else os.path.basename(os.path.abspath(data)),
        model=output.name,
        row=source.first_row,
        dropped=dropped,
        warnings=left_out + raised,
        seconds={"read and check the table": read - start, "fit and tune": done - read},
    )
    model.table_ = table
    save(model, output)
    result = _summary(model)
    with suppress(ValueError):
        if not diagnose.beats_constant(model):
            _say("warning: the left-out error is no smaller than that of a constant: the columns say little")
    if page is not None:
        from .report import to_html

        _progress_line("writing the report ...")
        to_html(model, page)
        _progress_line("")
        result["report"] = str(page)
    result["model file"] = str(output)
    result["seconds"] = round(perf_counter() - start, 3)
    _print(result, as_json)


class _Chunks:
    """The encoded rows of a source, chunk by chunk, as often as needed; a bar shows each pass on a terminal.

    The first time is none: it looks at the first chunk. Between the passes kernel and C are chosen on a sample.
    """

    def __init__(self, source: Source, scheme: Plan, n_rows: int) -> None:
        self.source, self.scheme, self.n_rows = source, scheme, n_rows
        self.dropped: list[int] = []
        self.passes = -1
        self.reading = False

    def plans(self, share: float) -> None:
        """How far the search on the sample is."""
        if not self.reading:
            _progress_line(f"choosing kernel and C on a sample of the rows: {share:.0%}")

    def __call__(self) -> Iterator[tuple[Any, Any]]:
        self.passes += 1
        self.dropped = []
        if self.passes:
            _progress_line("")
        self.reading = True
        with _bar(self.n_rows, f"pass {self.passes}") if self.passes else nullcontext(int) as advance:
            row = 0
            for batch in self.source.batches():
                X, y, kept = _encoded(batch, self.source, self.scheme, row)
                self.dropped += [row + int(place) for place in (~kept).nonzero()[0]]
                row += batch.num_rows
                advance(batch.num_rows)
                if len(y):
                    yield X, y
        self.reading = False


def _encoded(batch: Any, source: Source, scheme: Plan, row: int) -> tuple[Any, Any, Any]:
    """Complete rows of a batch: inputs, targets, and which rows they are."""
    import pyarrow

    X, complete = scheme.encode(batch, source, row + source.first_row, Counter())
    y, there = scheme.targets(batch, source, row + source.first_row)
    kept = complete & there
    return (X if kept.all() else X.filter(pyarrow.array(kept))), y[kept], kept


def _rows(source: Source, scheme: Plan) -> tuple[Any, Any, list[int]]:
    """All complete rows at once, and the places of the others."""
    import numpy as np
    import pyarrow

    tables, targets, dropped, row = [], [], [], 0
    for batch in source.batches():
        X, y, kept = _encoded(batch, source, scheme, row)
        tables.append(X)
        targets.append(y)
        dropped += [row + int(place) for place in np.flatnonzero(~kept)]
        row += batch.num_rows
    y = np.concatenate(targets)
    if len(y) < 2:
        raise ValueError(
            f"{source.name}: {len(y)} complete row(s), at least 2 are needed: give more, or fit with --missing fill."
        )
    return pyarrow.concat_tables(tables), y, dropped


def _needs_chunks(n_rows: int, n_columns: int) -> bool:
    """Whether a fit in memory would take more than its share of what is free."""
    return 8 * n_rows * (2 * n_columns + min(n_rows, WORKING_COLUMNS)) > MEMORY_SHARE * _free_memory()


def _free_memory() -> int:
    """Bytes that are free, or would be if asked for: most of a Linux machine's memory holds copies of files."""
    with suppress(OSError, ValueError, IndexError):
        for line in MEMORY_TABLE.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1 << 32


# predict --------------------------------------------------------------------------------------------------------------
@main.command()
@model_argument
@data_argument
@click.option("-o", "--output", metavar="CSV", type=FILE, help="Where the predictions go; standard output by default.")
@click.option(
    "--interval",
    type=float,
    metavar="COVERAGE",
    callback=lambda _, __, value: _check_coverage(value),
    help="Add the ends of intervals that cover so many of the rows, e.g. 0.9.",
)
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option("--raw", is_flag=True, help="Write class names as they are, even if a spreadsheet would run them.")
@reading_options
@json_option
@plain_errors
def predict(
    model: str,
    data: str,
    output: Path | None,
    interval: float | None,
    proba: bool,
    raw: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Predict the rows of a table, one line each: CSV, or with --json one JSON object a line.

    Where the table holds the target, too, the error is said on standard error. Rows with missing values get an empty
    prediction, unless the model was fitted with --missing fill. In CSV, class names that a spreadsheet would run as
    formulas (=1+1) get a ' before them, unless --raw is given.
    """
    _check_output(output, "-o", model, data)
    if output is None:
        _check_standard_output("give -o FILE")
    from .tables import open_table

    machine, scheme = _load(model)
    if interval is not None and scheme.task == "classification":
        raise click.UsageError("--interval is for numbers; this model names classes: use --proba.")
    if proba and scheme.task == "regression":
        raise click.UsageError("--proba is for classes; this model predicts numbers: use --interval 0.9.")
    source = open_table(data, **reading)
    scheme.check(source)
    header = ["prediction"]
    header += ["lower", "upper"] if interval is not None else []
    header += [f"P({label})" for label in machine.classes_] if proba else []
    unknown: Counter[str] = Counter()
    score = _Score(machine, scheme) if scheme.target in source.names else None
    incomplete = row = 0
    formulas = [] if raw or as_json else [label for label in getattr(machine, "classes_", ()) if _is_formula(label)]
    if formulas:
        found = ", ".join(map(repr, map(str, formulas[:5]))) + (" ..." if len(formulas) > 5 else "")
        _say(f"class names that a spreadsheet would run as formulas get a ' before them ({found}); --raw leaves it out")
    shown = printable if output is None and sys.stdout.isatty() else str
    with _writer(output) as write, _prediction_bar(source, output) as advance:
        for batch in _pieces(source):
            X, complete = scheme.encode(batch, source, row + source.first_row, unknown)
            columns = _predictions(machine, X, interval, proba)
            rows = zip(zip(*columns, strict=True), complete, strict=True)
            lines: list[Any] = [values if known else [None] * len(header) for values, known in rows]
            if formulas:
                lines = [[f"'{values[0]}" if values[0] in formulas else values[0], *values[1:]] for values in lines]
            if not row and not as_json:  # not before the first rows are predicted: what fails writes nothing
                write(printable(_csv_lines([header])))  # labels in it steer no terminal, wherever it is read
            for start in range(0, len(lines), 1000):  # in small pieces: a reader that has enough ends the work soon
                part = lines[start : start + 1000]
                write(shown(_json_lines(header, part) if as_json else _csv_lines(part)))
            if score is not None:
                score.add(batch, source, row, columns[0], complete)
            incomplete += int((~complete).sum())
            row += batch.num_rows
            advance(batch.num_rows)
        if not row:
            raise ValueError(f"{source.name} holds no rows below its header: give a file with data.")
    if incomplete:
        _say(f"{incomplete} of {row} rows lack values and get no prediction: fill them in, or fit with --missing fill.")
    for category, count in unknown.most_common(5):
        _say(f"the model has not seen the category {category} ({count} rows): it is taken as none of the known ones")
    if score is not None and score.rows:
        _say(score.words())


def _check_coverage(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        percent = f": {value:g} % is {value / 100:g}" if 1 < value < 100 else ", e.g. 0.9"
        raise click.BadParameter(f"{value:g} is no share between 0 and 1{percent}.")
    return value


def _pieces(source: Source) -> Iterator[Any]:
    """The batches of a table, in pieces that are predicted soon."""
    for batch in source.batches():
        for start in range(0, batch.num_rows, PIECE):
            yield batch.slice(start, PIECE)


@contextmanager
def _prediction_bar(source: Source, output: Path | None) -> Iterator[Callable[[int], None]]:
    """A bar with the time left, where the predictions themselves do not go to the terminal.

    The rows are counted for it first: reading them is quick, predicting them is not.
    """
    if not _shows_progress() or not (output is not None or stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)):
        yield lambda rows: None
        return
    rows = 0
    with _row_counter() as seen:
        for batch in source.batches():
            rows += batch.num_rows
            seen(rows)
    with _bar(rows, "predicting") as advance:
        yield advance


def _predictions(machine: Any, X: Any, interval: float | None, proba: bool) -> list[list[Any]]:
    """Columns of the output for some rows, as plain values."""
    columns = [machine.predict(X).tolist()]
    if interval is not None:
        columns += machine.predict_interval(X, interval).T.tolist()
    if proba:
        columns += machine.predict_proba(X).T.tolist()
    return columns


class _Score:
    """The error over rows whose target is known, summed batch by batch."""

    def __init__(self, machine: Any, scheme: Plan) -> None:
        self.machine, self.scheme = machine, scheme
        self.rows, self.loss = 0, 0.0

    def add(self, batch: Any, source: Source, row: int, predicted: list[Any], complete: Any) -> None:
        import numpy as np

        try:
            y, there = self.scheme.targets(batch, source, row + source.first_row)
        except ValueError:  # a column of the same name that holds something else
            return
        use = there & complete
        y = _own_spelling(self.machine, y)
        named = np.asarray(predicted)[use]
        wrong = named != y[use] if self.scheme.task == "classification" else (named - y[use]) ** 2
        self.rows += int(use.sum())
        self.loss += float(np.sum(wrong))

    def words(self) -> str:
        what = f"{self.rows} rows with {self.scheme.target!r}"
        if self.scheme.task == "classification":
            return f"error rate {self.loss / self.rows:.2%} on {what}"
        return f"root mean square error {(self.loss / self.rows) ** 0.5:.4g} on {what}"


def _own_spelling(machine: Any, y: Any) -> Any:
    """Labels of other rows as the model writes them: truth values may stand there in other cases."""
    import numpy as np

    from .tables import spellings

    if y.dtype.kind != "U":
        return y
    known = {text: str(machine.classes_[place]) for text, place in spellings(machine.classes_.tolist()).items()}
    return np.array([known.get(text, text) for text in y.tolist()])


def _is_formula(label: Any) -> bool:
    """Whether a spreadsheet may run a text as a formula. Numbers (-1) and signs alone (+) are no formulas."""
    if not isinstance(label, str) or not label.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return False
    try:
        float(label)
    except ValueError:
        return any(map(str.isalnum, label))
    return False


def _json_lines(names: list[str], lines: list[Any]) -> str:
    """One object a line; infinite ends of intervals, for which JSON has no number, are null."""
    infinite = (float("inf"), -float("inf"))
    objects = ({n: None if v in infinite else v for n, v in zip(names, line, strict=True)} for line in lines)
    return "".join(json.dumps(values, ensure_ascii=False) + "\n" for values in objects)


def _csv_lines(lines: list[Any]) -> str:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


@contextmanager
def _writer(output: Path | None) -> Iterator[Callable[[str], Any]]:
    """A function that writes text to standard output, or to a file that appears when it is complete."""
    if output is None:
        yield sys.stdout.write
        sys.stdout.flush()
        return
    with written(output) as file:
        yield lambda text: file.write(text.encode())


# report, export, inspect ----------------------------------------------------------------------------------------------
@main.command()
@model_argument
@click.argument("data", metavar="[DATA]", required=False)
@click.option("-o", "--output", metavar="HTML", type=FILE, default=Path("report.html"), show_default=True)
@reading_options
@plain_errors
def report(model: str, data: str | None, output: Path, **reading: Any) -> None:
    """Write a report on a model: one HTML file, with nothing to fetch.

    DATA, other rows with their targets, adds a section on how well these are predicted.
    """
    _check_output(output, "-o", model, data)
    from .persist import load
    from .report import to_html

    _progress_line("writing the report ...")
    if data is None:
        to_html(load(model), output)
    else:
        from .tables import open_table

        machine, scheme = _load(model)
        source = open_table(data, **reading)
        scheme.check(source)
        if scheme.target not in source.names:
            raise ValueError(f"{data} has no column {scheme.target!r}, the target: a report needs the true values.")
        X, y, _ = _rows(source, scheme)
        to_html(machine, output, X=X, y=_own_spelling(machine, y))
    _progress_line("")
    _print_path(output)


@main.command()
@model_argument
@click.option("--to", "kind", required=True, type=click.Choice(["onnx", "c", "python"]))
@click.option("-o", "--output", metavar="FILE", type=FILE, help="By default the model's name with the kind's ending.")
@plain_errors
def export(model: str, kind: str, output: Path | None) -> None:
    """Write a model as ONNX, as a C99 header or as a Python file without dependencies.

    It takes the columns of the table as they are: categories and missing values are handled as predict does.
    """
    from . import export as exporter
    from .persist import load

    output = output or Path(Path(model).with_suffix({"onnx": ".onnx", "c": ".h", "python": ".py"}[kind]).name)
    _check_output(output, "-o", model)
    machine = load(model)
    result = getattr(exporter, f"to_{kind}")(machine)
    content = result.SerializeToString() if hasattr(result, "SerializeToString") else result
    with written(output) as file:
        file.write(content if isinstance(content, bytes) else str(content).encode())
    table = getattr(machine, "table_", None)
    if table is not None:
        from .tables import Plan

        kinds = {True: "number", False: "text"}
        columns = Plan.from_dict(table).columns
        _say("its inputs: " + ", ".join(f"{column.name} ({kinds[column.categories is None]})" for column in columns))
    _print_path(output)


@main.command()
@model_argument
@json_option
@plain_errors
def inspect(model: str, as_json: bool) -> None:
    """Print what a model file holds: task, columns, kernel, C, leave-one-out quality."""
    _check_standard_output("redirect it to a file")
    from .persist import load

    machine = load(model)
    result = _summary(machine)
    table = getattr(machine, "table_", None)
    if table is not None:
        from .tables import Plan

        scheme = Plan.from_dict(table)
        result["input columns"] = [
            column.name if column.categories is None else f"{column.name} ({', '.join(column.categories)})"
            for column in scheme.columns
        ]
    result["bytes"] = os.path.getsize(model)
    _print(result, as_json)


# What the commands share ----------------------------------------------------------------------------------------------
def _load(path: str) -> tuple[Any, Plan]:
    """A model that `lssvm fit` wrote, and its columns."""
    from .persist import load
    from .tables import Plan

    machine = load(path)
    if not isinstance(getattr(machine, "table_", None), dict):
        raise ValueError(
            f"{path!r} was saved from Python and does not say which columns of a table it takes: use it from Python "
            "(lssvm.load), or fit it with lssvm fit."
        )
    return machine, Plan.from_dict(machine.table_)


def _summary(machine: Any) -> dict[str, Any]:
    """What is worth saying about a fitted model."""
    from . import diagnose

    table = getattr(machine, "table_", {})
    result: dict[str, Any] = {"model": type(machine).__name__}
    result |= {name: table[name] for name in ("task", "target", "source") if name in table}
    if hasattr(machine, "classes_"):
        result["classes"] = [str(label) for label in machine.classes_]
    with suppress(ValueError):  # a machine without left-out values
        result["rows"] = diagnose.left_out(machine).total
    result["columns"] = int(machine.n_features_in_)
    result["support vectors"] = len(machine.support_vectors_)
    result["kernel"] = type(machine.kernel_).__name__
    result["C"] = float(machine.C_)
    used = diagnose.columns_used(machine)
    if not used.all():
        columns = zip(diagnose.feature_names(machine), used, strict=True)
        result["left out"] = [name for name, is_used in columns if not is_used]
    try:
        scores = diagnose.scores(machine)
    except ValueError:
        return result
    names = {"rmse": "RMSE", "mae": "MAE", "r2": "R2", "error_rate": "error rate", "log_loss": "log loss"}
    names["brier"] = "Brier score"
    return result | {f"leave-one-out {names.get(name, name)}": value for name, value in scores.items()}


def _print(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        plain = {name.replace(" ", "_").replace("-", "_"): value for name, value in result.items()}
        unknown = [name for name, value in plain.items() if isinstance(value, float) and not isfinite(value)]
        click.echo(json.dumps(plain | dict.fromkeys(unknown), allow_nan=False))  # JSON has no number for these
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


def _print_path(path: Path) -> None:
    """Where a result went: for a person on a terminal, otherwise for a script."""
    click.echo(printable(str(path)) if sys.stdout is not None and sys.stdout.isatty() else str(path))


def _check_standard_output(remedy: str) -> None:
    if sys.stdout is None:
        raise click.ClickException(f"standard output is closed: {remedy}.")


def _say(text: str) -> None:
    _progress_line("")
    click.echo(_one_line(text), err=True)


def _check_output(path: Path | None, option: str, *others: str | Path | None) -> None:
    """Before the work: the folder of a file to write is there, and the file is none of the others of the command."""
    try:
        if path is None or is_stream(path):
            return
    except OSError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
    if not path.parent.is_dir():
        raise click.BadParameter(f"the folder '{path.parent}' does not exist; make it first.", param_hint=option)
    if not path.exists() and not os.access(path.parent, os.W_OK):
        message = f"the folder '{path.parent}' may not be written to; choose another."
        raise click.BadParameter(message, param_hint=option)
    if any(other is not None and path.resolve() == Path(other).resolve() for other in others):
        message = f"'{path}' is another file of this command and would be overwritten; choose another name."
        raise click.BadParameter(message, param_hint=option)


@contextmanager
def _recorded_warnings() -> Iterator[list[str]]:
    """Warnings of the library: said at the end, and kept."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    # C and sigma are arguments of Python, not of this program
    messages += dict.fromkeys(str(warning.message).removesuffix(" Give C or sigma.") for warning in caught)
    for message in messages:
        _say(f"warning: {message}")


def _shows_progress() -> bool:
    """On a terminal only, and not for programs that read JSON."""
    return sys.stderr.isatty() and not click.get_current_context().params.get("as_json")


def _progress_line(text: str) -> None:
    """One line that the next one replaces, on a terminal."""
    if _shows_progress():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


@contextmanager
def _row_counter() -> Iterator[Callable[[int], None]]:
    yield lambda rows: _progress_line(f"reading: {rows} rows")
    _progress_line("")


@contextmanager
def _bar(length: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar with the time left, on a terminal."""
    if not _shows_progress():
        yield lambda rows: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update


@contextmanager
def _share_bar(label: str) -> Iterator[None]:
    """The same for a fit, which tells how much of what it may take at most is done."""
    if not _shows_progress():
        yield
        return
    from . import _progress

    shown = 0
    with _bar(1000, label) as advance:

        def show(share: float) -> None:
            nonlocal shown
            step = int(1000 * share) - shown
            if step > 0:
                shown += step
                advance(step)

        with _progress.listening(show):
            yield


# demo -----------------------------------------------------------------------------------------------------------------
@main.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    default=Path("demo.png"),
    show_default=True,
    help="Where the picture goes; the ending chooses the format.",
)
def demo(output: Path) -> None:
    """Fit the motorcycle data and draw the result.

    Nothing is set by hand: kernel width and C are chosen by leave-one-out.
    """
    _check_output(output, "--output")
    from time import perf_counter

    import numpy as np

    from lssvm import LSSVR, datasets

    X, y = datasets.load_motorcycle(return_X_y=True)
    start = perf_counter()
    model = LSSVR().fit(X, y)
    seconds = perf_counter() - start

    sigma = ", ".join(f"{width:.4g}" for width in np.atleast_1d(model.kernel_.sigma))
    table = {
        "data": "motorcycle: head acceleration (g) against time (ms)",
        "rows": f"{len(X)}",
        "basis": f"{len(model.support_vectors_)}",
        "C": f"{model.C_:.4g}",
        "sigma": f"{sigma} ms",
        "leave-one-out RMSE": f"{np.sqrt(np.mean(model.loo_residuals_**2)):.4g} g",
        "seconds": f"{seconds:.3f}",
    }
    for name, value in table.items():
        click.echo(f"{name:<18}  {value}")

    try:
        from matplotlib.figure import Figure  # not pyplot: no display, no global state
    except ImportError:
        click.echo('No picture: that needs matplotlib; pip install "lssvm[plot]"', err=True)
        return
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    _draw(figure, model, X, y)
    try:
        with written(output) as file:
            figure.savefig(file, dpi=150, format=output.suffix[1:] or "png")
    except (OSError, ValueError) as error:
        raise click.ClickException(f"cannot write --output '{output}': {error}") from error
    click.echo(f"{'picture':<18}  {printable(str(output))}")


def _draw(figure: Figure, model: LSSVR, X: NDArray[Any], y: NDArray[Any]) -> None:
    """Data, fitted curve, interval band, and a rug of support vectors along the time axis."""
    import numpy as np

    time = np.linspace(X.min() - 1, X.max() + 1, 400)
    grid = time[:, np.newaxis]
    lower, upper = model.predict_interval(grid, coverage=0.9).T
    support = model.support_vectors_[:, 0]
    blue, orange, grey = "#1f5fa8", "#b3541e", "#333333"

    axes = figure.add_subplot()
    interval = "90 % interval (jackknife+)"
    axes.fill_between(time, lower, upper, color=blue, alpha=0.15, lw=0, label=interval)
    axes.plot(time, model.predict(grid), color=blue, lw=2, label="LSSVR")
    axes.plot(X[:, 0], y, "o", color=grey, alpha=0.7, ms=4, mew=0, label="measurements")
    (rug,) = axes.plot(support, np.full(len(support), 0.015), "|", label="support vectors")
    rug.set(color=orange, alpha=0.5, markersize=7, transform=axes.get_xaxis_transform())
    axes.set_xlim(time[0], time[-1])
    axes.set_xlabel("time after impact (ms)")
    axes.set_ylabel("head acceleration (g)")
    axes.set_title("Motorcycle crashes: kernel width and C chosen by leave-one-out")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    axes.legend(frameon=False, loc="lower right")
