"""`lssvm predict`."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf, isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..files import written
from ..progress import counted
from . import program
from .models import load_model, own_spelling
from .program import FILE, main, printable, say

if TYPE_CHECKING:
    from typing import Any

    from .reading import Batch, Source
    from .roles import Roles

PIECE = 10_000  # number of rows predicted at once
LISTED = 5  # unknown categories that are named
SEPARATOR = "; "  # between the classes of a set
INTERVAL = "Add the bounds of prediction intervals with this coverage, e.g. 0.9."
SET = "Add the set of classes that contains the actual class with this probability, e.g. 0.9."


def _share(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Check a coverage."""
    if value is not None and not 0 < value < 1:
        percent = f": {value:g} % is {value / 100:g}" if 1 < value < 100 else ", e.g. 0.9"
        raise click.BadParameter(f"{value:g} is not between 0 and 1{percent}.")
    return value


@main.command()
@program.model_argument
@program.data_argument
@click.option("-o", "--output", metavar="CSV", type=FILE, help="File for the predictions; standard output by default.")
@click.option("--interval", type=float, metavar="COVERAGE", callback=_share, help=INTERVAL)
@click.option("--set", "coverage", type=float, metavar="COVERAGE", callback=_share, help=SET)
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option("--raw", is_flag=True, help="Write class names unchanged, even if they look like formulas.")
@program.reading_options
@program.json_option
def predict(
    model: str,
    data: str,
    output: Path | None,
    interval: float | None,
    coverage: float | None,
    proba: bool,
    raw: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Predict the rows of a table, one line per row: CSV or, with --json, one JSON object per line.

    If the table also contains the target, the error is reported on standard error. In CSV, class names that a
    spreadsheet would run as formulas (=1+1) get a leading ', unless --raw is given.
    """
    program.check_output(output, "-o", model, data)
    if output is None:
        program.check_standard_output("give -o FILE")
    from .reading import open_table

    fitted, roles = load_model(model)
    if interval is not None and roles.labels:
        raise click.UsageError("--interval is for regression, but this model predicts classes: use --set or --proba.")
    if (proba or coverage is not None) and not roles.labels:
        option = "--proba" if proba else "--set"
        raise click.UsageError(f"{option} is for classification, but this model predicts numbers: use --interval 0.9.")
    source = open_table(data, **reading)
    roles.check(source)
    header = ["prediction"]
    header += ["lower", "upper"] if interval is not None else []
    header += ["set"] if coverage is not None else []
    header += [f"P({label})" for label in fitted.classes_] if proba else []
    formulas = [] if raw or as_json else [label for label in getattr(fitted, "classes_", ()) if _is_formula(label)]
    if formulas:
        found = ", ".join(map(repr, map(str, formulas[:5]))) + (" ..." if len(formulas) > 5 else "")
        say(f"class names that a spreadsheet would run as formulas get a leading ' ({found}); use --raw to omit it")
    shown = printable if output is None and sys.stdout.isatty() else str
    score = _Score(fitted, roles) if roles.target in source.names else None
    names = [*roles.inputs, *([str(roles.target)] if score else [])]
    unknown: Counter[str] = Counter()
    done = 0
    n_rows = _count_rows(source) if program.shows_progress() and _goes_to_file(output) else 0
    with _writer(output) as write, program.bar("predicting", shown=n_rows > 0) as line:
        for batch in source.batches(names, PIECE):
            X = roles.frame(batch)
            _count_unknown(fitted, X, unknown)
            columns = _predictions(fitted, X, interval, coverage, proba)
            lines: list[Any] = list(zip(*columns, strict=True))
            if coverage is not None and not as_json:
                lines = [[values[0], SEPARATOR.join(map(str, values[1])), *values[2:]] for values in lines]
            if formulas:
                lines = [[f"'{value}" if _is_formula(value) else value for value in values] for values in lines]
            if not (done or as_json):  # only after the first rows are predicted: a failure writes nothing
                write(printable(_csv_lines([header])))  # labels in it must not control a terminal, wherever it is read
            for start in range(0, len(lines), 1000):  # in small pieces, so that a reader that stops ends the work soon
                part = lines[start : start + 1000]
                write(shown(_json_lines(header, part) if as_json else _csv_lines(part)))
            if score is not None:
                score.add(batch, columns[0])
            done += batch.rows
            line(done / max(n_rows, 1))
        if not done:
            raise ValueError(f"{source.name} has no rows below its header: give a file with data.")
    for category, count in unknown.most_common(LISTED):
        rows = counted(count, "row")
        say(f"the category {category} ({rows}) is unknown to the model and is treated as different from all known ones")
    if len(unknown) > LISTED:
        more = counted(len(unknown) - LISTED, "more category is", "more categories are")
        say(f"{more} unknown to the model")
    if score is not None and score.rows:
        say(score.words())


def _goes_to_file(output: Path | None) -> bool:
    return output is not None or stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)


def _count_rows(source: Source) -> int:
    """The number of rows, for the bar: reading them is fast compared with predicting them."""
    rows = 0
    with program.row_counter() as seen:
        for batch in source.batches(source.names[:1]):
            rows += batch.rows
            seen(rows)
    return rows


def _count_unknown(fitted: Any, X: Any, unknown: Counter[str]) -> None:
    """Count the texts that are none of the categories of the model."""
    columns = fitted.fitted_.layout.encoder
    for column in () if columns is None else columns.columns:
        if column.kind == "category" and not column.pooled:
            found = Counter(X[column.name].drop_null().to_pylist())
            unknown.update({f"{column.name}={v}": count for v, count in found.items() if v not in column.values})


def _predictions(fitted: Any, X: Any, interval: float | None, coverage: float | None, proba: bool) -> list[list[Any]]:
    """The output columns for some rows, as plain values."""
    columns = [fitted.predict(X).tolist()]
    if interval is not None:
        columns += fitted.predict_interval(X, interval).T.tolist()
    if coverage is not None:
        columns.append([fitted.classes_[inside].tolist() for inside in fitted.predict_set(X, coverage)])
    if proba:
        columns += fitted.predict_proba(X).T.tolist()
    return columns


class _Score:
    """The error on rows with a known target, summed batch by batch."""

    def __init__(self, fitted: Any, roles: Roles) -> None:
        self.fitted, self.roles = fitted, roles
        self.rows, self.loss = 0, 0.0

    def add(self, batch: Batch, predicted: list[Any]) -> None:
        import numpy as np

        try:
            y, use = self.roles.targets(batch)
        except ValueError:  # a column of the same name with other contents
            return
        found, y = np.asarray(predicted)[use], own_spelling(self.fitted, y)[use]
        self.rows += len(y)
        self.loss += float(np.sum(found != y if self.roles.labels else (found - y) ** 2))

    def words(self) -> str:
        what = f"{counted(self.rows, 'row')} with {self.roles.target!r}"
        if self.roles.labels:
            return f"error rate {self.loss / self.rows:.2%} on {what}"
        return f"root mean square error {(self.loss / self.rows) ** 0.5:.4g} on {what}"


def _is_formula(label: Any) -> bool:
    """Whether a spreadsheet may run a text as a formula. Numbers (-1) and single signs (+) are not formulas."""
    if not isinstance(label, str) or not label.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return False
    from ..tables import number_of

    return isnan(number_of(label)) and any(map(str.isalnum, label))


def _json_lines(names: list[str], lines: list[Any]) -> str:
    """One object per line; infinite ends of intervals become null, because JSON has no infinity."""
    objects = ({n: None if v in (inf, -inf) else v for n, v in zip(names, line, strict=True)} for line in lines)
    return "".join(json.dumps(values, ensure_ascii=False) + "\n" for values in objects)


def _csv_lines(lines: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


@contextmanager
def _writer(output: Path | None) -> Iterator[Callable[[str], Any]]:
    """A function that writes text to standard output, or to a file that appears once it is complete."""
    if output is None:
        yield sys.stdout.write
        sys.stdout.flush()
        return
    with written(output) as file:
        yield lambda text: file.write(text.encode())
