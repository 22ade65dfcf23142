"""`lssvm report`, `export`, `inspect` and `demo`, and fitted models as several commands need them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..files import written
from . import program
from .program import FILE, main, say

if TYPE_CHECKING:
    from typing import Any

    from .roles import Roles

PICTURE = "File for the picture; its extension determines the format."


def own_spelling(model: Any, y: Any) -> Any:
    """Labels in the spelling of the model: programs write boolean values differently."""
    import numpy as np

    own = {str(label).lower(): label for label in getattr(model, "classes_", ())}
    if y.dtype.kind != "U" or not own.keys() <= {"true", "false"}:
        return y
    return np.array([own.get(text.lower(), text) for text in y.tolist()])


def load_model(path: str) -> tuple[Any, Roles]:
    """A model that was fitted to a table, and the roles of its columns."""
    from ..persist import load
    from .roles import Roles

    model = load(path)
    if "columns" in getattr(model, "table_", {}):
        raise ValueError(
            f"{path!r} was written by lssvm fit of version 0.1, which encoded the columns in another way: fit it again."
        )
    if not hasattr(model, "feature_names_in_"):
        raise ValueError(
            f"{path!r} was fitted in Python to an array, which has no column names: use it from Python (lssvm.load), "
            "or fit it to a frame or with lssvm fit."
        )
    if not hasattr(model, "classes_") and not model.fitted_.layout.single:
        raise ValueError(
            f"{path!r} predicts several targets: use it from Python (lssvm.load), or fit one model for each."
        )
    return model, Roles.of(model)


def model_facts(model: Any) -> dict[str, Any]:
    """The key properties of a fitted model."""
    from .. import diagnose

    table = getattr(model, "table_", {})
    result: dict[str, Any] = {"model": type(model).__name__}
    result |= {name: table[name] for name in ("task", "target", "source") if name in table}
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
    used = diagnose.columns_used(model)
    if not used.all():
        columns = zip(diagnose.feature_names(model), used, strict=True)
        result["dropped columns"] = [name for name, is_used in columns if not is_used]
    names = {"rmse": "RMSE", "mae": "MAE", "r2": "R2", "error_rate": "error rate", "log_loss": "log loss"}
    names |= {"brier": "Brier score", "crps": "CRPS"}
    with suppress(ValueError):
        result |= {f"leave-one-out {names.get(name, name)}": value for name, value in diagnose.scores(model).items()}
    return result


# Commands -------------------------------------------------------------------------------------------------------------
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
    program.progress_line("")
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
    content = result.SerializeToString() if hasattr(result, "SerializeToString") else result
    with written(output) as file:
        file.write(content if isinstance(content, bytes) else str(content).encode())
    if hasattr(fitted, "feature_names_in_"):
        from .roles import Roles

        kinds = {True: "text", False: "number"}
        say("inputs: " + ", ".join(f"{name} ({kinds[is_text]})" for name, is_text in Roles.of(fitted).inputs.items()))
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

        known = Roles.of(fitted).known
        result["input columns"] = [
            f"{name} ({', '.join(map(str, known[name]))})" if known.get(name) else name
            for name in map(str, fitted.feature_names_in_)
        ]
    result["bytes"] = os.path.getsize(model)
    program.print_values(result, as_json)


@main.command()
@click.option("--output", type=FILE, default=Path("demo.png"), show_default=True, help=PICTURE)
def demo(output: Path) -> None:
    """Fit the motorcycle data and draw the result.

    Nothing is set by hand: kernels, widths, C and the weights of the models are chosen by leave-one-out.
    """
    program.check_output(output, "--output")
    from time import perf_counter

    from lssvm import LSSVR, datasets, diagnose, plotting

    X, y = datasets.load_motorcycle(return_X_y=True)
    start = perf_counter()
    model = LSSVR().fit(X, y)
    seconds = perf_counter() - start
    table = {
        "data": "motorcycle: head acceleration (g) against time (ms)",
        "rows": len(X),
        "basis": len(diagnose.basis_points(model)),
        "kernels": " + ".join(diagnose.member_words(model)),
        "leave-one-out RMSE": f"{diagnose.scores(model)['rmse']:.4g} g",
        "seconds": f"{seconds:.3f}",
    }
    try:
        from matplotlib.figure import Figure  # not pyplot: no display, no global state
    except ImportError:
        click.echo('No picture was drawn, because matplotlib is missing: pip install "lssvm[plot]"', err=True)
    else:
        figure = Figure(figsize=(7.5, 4.5), layout="constrained")
        axes = figure.add_subplot(title="Motorcycle crashes: all parameters chosen by leave-one-out")
        plotting.FitDisplay.from_estimator(model, ax=axes)
        axes.set(xlabel="time after impact (ms)", ylabel="head acceleration (g)")
        try:
            with written(output) as file:
                figure.savefig(file, dpi=150, format=output.suffix[1:] or "png")
        except (OSError, ValueError) as error:
            program.print_values(table, as_json=False)
            raise click.ClickException(f"--output '{output}' cannot be written: {error}") from error
        table["picture"] = str(output)
    program.print_values(table, as_json=False)
