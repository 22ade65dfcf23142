"""`lssvm predict`, `report`, `export` and `inspect`, and the key properties of a fitted model."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from itertools import compress
from math import inf, isnan
from pathlib import Path
from typing import Any

import click

from ..files import written
from ..progress import counted
from . import program
from .program import FILE, main, printable, say

PIECE = 10_000  # This many rows are predicted at once.
EXPLAIN = "Add the mean prediction and what each column adds to it (Shapley values); of two classes, for the second."
INTERVAL = "Add the bounds of prediction intervals with this coverage, e.g. 0.9."
PER_CLASS = "With --set: the probability holds for the rows of each class, also of rare ones."
SET = "Add the set of classes that contains the actual class with this probability, e.g. 0.9."


def model_facts(model: Any) -> dict[str, Any]:
    """Return the key properties of a fitted model."""
    from .. import diagnose

    table = getattr(model, "table_", {})
    result: dict[str, Any] = {"model": type(model).__name__}
    result |= {name: table[name] for name in ("task", "target", "source", "group") if name in table}
    if hasattr(model, "classes_"):
        result["classes"] = [str(label) for label in model.classes_]
    with suppress(ValueError):  # a model without leave-one-out values
        result["rows"] = diagnose.loo_values(model).total
    result["columns"] = int(model.n_features_in_)
    result["support vectors"] = len(diagnose.basis_points(model))
    result["kernel"] = type(model.kernel_).__name__
    if model.fitted_.is_stack:
        result["members"] = diagnose.member_words(model)
    else:
        result["C"] = float(model.C_)
        result |= {name[:-1]: getattr(model, name) for name in ("coding_", "loss_") if hasattr(model, name)}
    result |= diagnose.order_facts(model)
    dropped = list(compress(diagnose.feature_names(model), ~diagnose.columns_used(model)))
    if dropped:
        result["dropped columns"] = dropped
    names = {"rmse": "RMSE", "mae": "MAE", "r2": "R2", "error_rate": "error rate", "log_loss": "log loss"}
    names |= {"brier": "Brier score", "crps": "CRPS", "deviance": "mean deviance"}
    with suppress(ValueError):
        left = "group" if "group" in table else "one"
        result |= {f"leave-{left}-out {names.get(name, name)}": value for name, value in diagnose.scores(model).items()}
        rare = diagnose.rare_class(model) if hasattr(model, "classes_") else None
        if rare is not None:
            result["rare class"], best = str(model.classes_[rare.code]), rare.best
            result[f"leave-{left}-out average precision"] = rare.average_precision
            result["decision threshold"] = float(rare.threshold[best])
            result |= {f"leave-{left}-out {name}": float(rare[name][best]) for name in ("recall", "precision")}
    return result


@main.command()
@program.model_argument
@program.data_argument
@click.option("-o", "--output", metavar="CSV", type=FILE, help="File for the predictions; standard output by default.")
@click.option("--interval", type=float, metavar="COVERAGE", help=INTERVAL)
@click.option("--set", "coverage", type=float, metavar="COVERAGE", help=SET)
@click.option("--per-class", is_flag=True, help=PER_CLASS)
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option("--explain", is_flag=True, help=EXPLAIN)
@click.option("--raw", is_flag=True, help="Write class names unchanged, even if they look like formulas.")
@program.reading_options
@program.json_option
def predict(model: str, data: str, output: Path | None, raw: bool, as_json: bool, **options: Any) -> None:
    """Predict the rows of a table, one line per row: CSV or, with --json, one JSON object per line.

    If the table also contains the target, the error is reported on standard error. In CSV, class names that a
    spreadsheet would run as formulas (=1+1) get a leading ', unless --raw is given.
    """
    program.check_output(output, "-o", model, data)
    if output is None:
        program.check_standard_output("give -o FILE")
    from .roles import listed, load_with_table

    added = {name: options.pop(name) for name in ("interval", "coverage", "per_class", "proba", "explain")}
    interval, coverage, proba = added["interval"], added["coverage"], added["proba"]
    if added["per_class"] and coverage is None:
        raise click.UsageError("--per-class is for --set: add --set 0.9.")
    fitted, roles, source = load_with_table(model, data, options)
    if interval is not None and roles.labels:
        raise click.UsageError("--interval is for regression, but this model predicts classes: use --set or --proba.")
    if (proba or coverage is not None) and not roles.labels:
        option = "--proba" if proba else "--set"
        raise click.UsageError(f"{option} is for classification, but this model predicts numbers: use --interval 0.9.")
    formulas = [] if raw or as_json else [label for label in getattr(fitted, "classes_", ()) if _is_formula(label)]
    if formulas:
        shown = listed([repr(str(label)) for label in formulas])
        say(f"class names that a spreadsheet would run as formulas get a leading ' ({shown}); use --raw to omit it")
    on_terminal = output is None and sys.stdout.isatty()
    scored = roles.target in source.names
    names = [*roles.inputs, *([str(roles.target)] if scored else [])]
    unknown: Counter[str] = Counter()
    loss, n_scored = 0.0, 0
    with nullcontext() if output is None else written(output) as file, program.warnings_at_the_end():
        for batch in source.batches(names, PIECE):
            X = roles.frame(batch)
            _count_unknown(fitted, X, unknown)
            columns = _predictions(fitted, X, **added)
            if scored:
                losses = roles.losses(batch, columns["prediction"])
                loss, n_scored = loss + sum(losses), n_scored + len(losses)
            text = _json_lines(columns) if as_json else _csv_lines(zip(*columns.values(), strict=True), raw)
            text = printable(text) if on_terminal else text
            if not (batch.start or as_json):  # only after the first rows are predicted: a failure writes nothing
                text = printable(_csv_lines([columns])) + text  # labels must not control a terminal
            click.echo(text.encode(), file, nl=False)
            if output is not None:
                program.progress_line(f"predicting: {counted(batch.start + batch.rows, 'row')}")
    if unknown:
        named = [f"{category} ({counted(count, 'row')})" for category, count in unknown.most_common()]
        say(f"categories unknown to the model, treated as different from all known ones: {listed(named)}")
    if n_scored:
        mean = loss / n_scored
        error = f"error rate {mean:.2%}" if roles.labels else f"root mean square error {mean**0.5:.4g}"
        say(f"{error} on {counted(n_scored, 'row')} with {roles.target!r}")
    program.progress_line("")


def _count_unknown(fitted: Any, X: Any, unknown: Counter[str]) -> None:
    """Count the texts that are not among the categories of the model."""
    for column in getattr(fitted.fitted_.layout.encoder, "columns", ()):
        if column.kind == "category" and not column.pooled:
            found = Counter(column.read(X[column.name].drop_null()).tolist())
            unknown.update({f"{column.name}={v}": count for v, count in found.items() if v not in column.values})


def _predictions(
    fitted: Any, X: Any, interval: Any, coverage: Any, per_class: bool, proba: bool, explain: bool
) -> dict[str, Any]:
    """Return the output columns for some rows, as plain values."""
    columns = {"prediction": fitted.predict(X).tolist()}
    if interval is not None:
        columns["lower"], columns["upper"] = fitted.predict_interval(X, interval).T.tolist()
    if coverage is not None:
        sets = fitted.predict_set(X, coverage, class_conditional=per_class)
        columns["set"] = [fitted.classes_[inside].tolist() for inside in sets]
    if proba:
        names = [f"P({label})" for label in fitted.classes_]
        columns |= zip(names, fitted.predict_proba(X).T.tolist(), strict=True)
    if explain:
        import numpy as np

        from .. import diagnose

        found = diagnose.shapley(fitted, X)
        values, base = (
            found.contributions,
            np.broadcast_to(found.base, (len(columns["prediction"]), np.size(found.base))),
        )
        if values.ndim == 3:  # of the class that is predicted
            which = np.searchsorted(fitted.classes_, columns["prediction"])[:, None]
            values = np.take_along_axis(values, which[:, :, None], axis=2)[:, :, 0]
            base = np.take_along_axis(base, which, axis=1)
        columns["mean"] = base[:, 0].tolist()
        columns |= zip((f"due to {name}" for name in found.names), values.T.tolist(), strict=True)
    return columns


def _is_formula(label: Any) -> bool:
    """Return whether a spreadsheet may run a text as a formula. Numbers (-1) and single signs (+) are not formulas."""
    if not isinstance(label, str) or not label.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return False
    from ..tables.cells import number_of

    return isnan(number_of(label)) and any(map(str.isalnum, label))


def _json_lines(columns: dict[str, list[Any]]) -> str:
    """Return one JSON object per line; infinite ends of intervals become null, because JSON has no infinity."""
    lines = zip(*columns.values(), strict=True)
    objects = ({n: None if v in (inf, -inf) else v for n, v in zip(columns, line, strict=True)} for line in lines)
    return "".join(json.dumps(values, ensure_ascii=False) + "\n" for values in objects)


def _csv_lines(lines: Iterable[Iterable[Any]], raw: bool = True) -> str:
    """Return lines of CSV: sets of classes become one text, and formulas are escaped unless `raw`."""
    text = io.StringIO()
    joined = (["; ".join(map(str, cell)) if isinstance(cell, list) else cell for cell in line] for line in lines)
    cells = ([f"'{cell}" if not raw and _is_formula(cell) else cell for cell in line] for line in joined)
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue()


@main.command()
@program.model_argument
@click.argument("data", metavar="[DATA]", required=False)
@click.option("-o", "--output", metavar="HTML", type=FILE, default=Path("report.html"), show_default=True)
@program.reading_options
def report(model: str, data: str | None, output: Path, **reading: Any) -> None:
    """Write a report on a model: one HTML file without external resources.

    With DATA, other rows with their targets, the report also shows how well these are predicted.
    """
    program.check_output(output, "-o", model, data)
    from ..persist import load
    from ..report import to_html

    program.progress_line("writing the report ...")
    rows: dict[str, Any] = {}
    if data is None:
        fitted = load(model)
    else:
        from .roles import Rows, load_with_table

        fitted, roles, source = load_with_table(model, data, reading)
        if roles.target is None:
            raise ValueError(f"{model} was saved in Python, without the name of the target: use lssvm.report there.")
        if roles.target not in source.names:
            raise ValueError(f"{data} lacks the target column {roles.target!r}: add it, or omit DATA.")
        rows["X"], rows["y"] = Rows(source, roles).all()
    to_html(fitted, output, **rows)
    program.print_path(output)


@main.command()
@program.model_argument
@click.option("--to", "kind", required=True, type=click.Choice(["onnx", "c", "python"]))
@click.option("-o", "--output", metavar="FILE", type=FILE, help="By default, MODEL with another extension.")
def export(model: str, kind: str, output: Path | None) -> None:
    """Write a model as ONNX, as a C99 header or as a Python file without dependencies.

    The exported model accepts the columns of the table as they are and treats categories and missing cells as
    predict does.
    """
    from .. import export as exporter
    from ..persist import load

    output = output or Path(Path(model).with_suffix({"onnx": ".onnx", "c": ".h", "python": ".py"}[kind]).name)
    program.check_output(output, "-o", model)
    fitted = load(model)
    result = getattr(exporter, f"to_{kind}")(fitted)
    with written(output) as file:
        file.write(result.encode() if isinstance(result, str) else result.SerializeToString())
    if hasattr(fitted, "feature_names_in_"):
        from .roles import Roles

        kinds = ((name, "text" if is_text else "number") for name, is_text in Roles.of(fitted).inputs.items())
        say("inputs: " + ", ".join(f"{name} ({kind})" for name, kind in kinds))
    program.print_path(output)


@main.command()
@program.model_argument
@program.json_option
def inspect(model: str, as_json: bool) -> None:
    """Print the contents of a model file: task, columns, kernel, C, leave-one-out quality."""
    program.check_standard_output("redirect it to a file")
    from ..persist import load

    fitted = load(model)
    result = model_facts(fitted)
    if hasattr(fitted, "feature_names_in_"):
        from .roles import Roles

        roles = Roles.of(fitted)
        values = {name: f"{name} ({', '.join(map(str, own))})" for name, own in roles.known.items() if len(own)}
        values |= {name: f"{name} ({fitted.columns_[name]})" for name in roles.inputs if name in roles.formats}
        result["input columns"] = [values.get(name, name) for name in roles.inputs]
    result["bytes"] = os.path.getsize(model)
    program.print_values(result, as_json)
