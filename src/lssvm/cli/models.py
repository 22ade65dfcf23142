"""`lssvm report`, `export` and `inspect`: commands for model files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..files import written

if TYPE_CHECKING:
    from typing import Any

from .fitted_models import load_model, model_facts, own_spelling
from .program import FILE, json_option, main, model_argument, plain_errors, reading_options
from .terminal import check_output, check_standard_output, print_path, print_values, progress_line, say


@main.command()
@model_argument
@click.argument("data", metavar="[DATA]", required=False)
@click.option("-o", "--output", metavar="HTML", type=FILE, default=Path("report.html"), show_default=True)
@reading_options
@plain_errors
def report(model: str, data: str | None, output: Path, **reading: Any) -> None:
    """Write a report on a model: one HTML file without external resources.

    With DATA, other rows with their targets, the report also shows how well these are predicted.
    """
    check_output(output, "-o", model, data)
    from ..persist import load
    from ..report import to_html

    progress_line("writing the report ...")
    if data is None:
        to_html(load(model), output)
    else:
        from .reading import open_table
        from .roles import Rows

        fitted, roles = load_model(model)
        source = open_table(data, **reading)
        roles.check(source)
        if roles.target is None:
            raise ValueError(
                f"{model} was saved in Python, without the name of the target: use lssvm.report in Python."
            )
        if roles.target not in source.names:
            raise ValueError(f"{data} lacks the target column {roles.target!r}: add it, or omit DATA.")
        X, y = Rows(source, roles).all()
        to_html(fitted, output, X=X, y=own_spelling(fitted, y))
    progress_line("")
    print_path(output)


@main.command()
@model_argument
@click.option("--to", "kind", required=True, type=click.Choice(["onnx", "c", "python"]))
@click.option("-o", "--output", metavar="FILE", type=FILE, help="By default, MODEL with another extension.")
@plain_errors
def export(model: str, kind: str, output: Path | None) -> None:
    """Write a model as ONNX, as a C99 header or as a Python file without dependencies.

    The exported model accepts the columns of the table as they are and treats categories and missing cells as
    predict does.
    """
    from .. import export as exporter
    from ..persist import load

    output = output or Path(Path(model).with_suffix({"onnx": ".onnx", "c": ".h", "python": ".py"}[kind]).name)
    check_output(output, "-o", model)
    fitted = load(model)
    result = getattr(exporter, f"to_{kind}")(fitted)
    content = result.SerializeToString() if hasattr(result, "SerializeToString") else result
    with written(output) as file:
        file.write(content if isinstance(content, bytes) else str(content).encode())
    if hasattr(fitted, "feature_names_in_"):
        from .roles import Roles

        kinds = {True: "text", False: "number"}
        say("inputs: " + ", ".join(f"{name} ({kinds[is_text]})" for name, is_text in Roles.of(fitted).inputs.items()))
    print_path(output)


@main.command()
@model_argument
@json_option
@plain_errors
def inspect(model: str, as_json: bool) -> None:
    """Print the contents of a model file: task, columns, kernel, C, leave-one-out quality."""
    check_standard_output("redirect it to a file")
    from ..persist import load

    fitted = load(model)
    result = model_facts(fitted)
    if hasattr(fitted, "feature_names_in_"):
        from .roles import Roles

        known = Roles.of(fitted).known
        result["input columns"] = [
            f"{name} ({', '.join(map(str, known[name]))})" if known.get(name) else name
            for name in map(str, fitted.feature_names_in_)
        ]
    result["bytes"] = os.path.getsize(model)
    print_values(result, as_json)
