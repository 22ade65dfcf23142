"""`lssvm fit` and `demo`."""

from __future__ import annotations

import os
import shlex
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from .. import progress
from ..files import written
from ..progress import counted
from . import program
from .models import model_facts
from .program import FILE, main, say

if TYPE_CHECKING:
    from ..tables.cells import ColumnScan
    from .roles import Rows

MEMORY_SHARE = 0.5  # A fit that needs more than this share of the free memory is done in chunks.
CHUNK_BYTES = 1 << 25  # A chunk of encoded rows takes this many bytes.
WORKING_COLUMNS = 2000  # A fit with a basis holds about this many arrays with one number per row.
CODINGS = click.Choice(["auto", "one-vs-rest", "one-vs-one"])
CLASS_LOSSES, LINKED = ("auto", "squared", "squared_hinge", "logistic"), ("poisson", "gamma")
SCALES = click.Choice(["auto", "identity", "log", "power"])
ROBUST = click.Choice(["hampel", "huber", "logistic", "myriad"])
ABSENT = "A further mark of missing cells, e.g. unknown; may be repeated."
MERGE = "Merge categories in which only case and blanks differ."
MISSING = "Fill in missing cells, or drop their rows."
GROUP = "Leave out the rows with the same value of this column together: for predictions of new groups."
TIME = "Leave out ten blocks of rows in the order of this column: for forecasts."
PICTURE = "File for the picture; its extension determines the format."
TASK = "Inferred by default; count means --loss poisson."
LOSS = "poisson (counts, rates) or gamma (positive targets); for classes, chosen by leave-one-out by default."
SCALE = "Scale on which numbers are predicted; for skewed ones, chosen by leave-one-out by default."
EFFORT = "Work of everything that is searched, relative to the usual work: 0.1 is a quick look, 10 is thorough."
CODING = "How several classes are separated; chosen by leave-one-out by default."


@main.command()
@program.data_argument
@click.option("-y", "--target", required=True, metavar="COLUMN", help="The column to predict.")
@click.option("-o", "--output", required=True, metavar="MODEL", type=FILE, help="File for the model.")
@click.option("--report", "page", metavar="HTML", type=FILE, help="Also write a report.")
@click.option("--task", type=click.Choice(["regression", "count", "classification"]), help=TASK)
@click.option("--drop", multiple=True, metavar="COLUMN", help="A column to ignore; may be repeated.")
@click.option("--categorical", multiple=True, metavar="COLUMN", help="A categorical column; may be repeated.")
@click.option("--na", multiple=True, metavar="TEXT", help=ABSENT)
@click.option("--merge-text", is_flag=True, help=MERGE)
@click.option("--group", metavar="COLUMN", help=GROUP)
@click.option("--time", metavar="COLUMN", help=TIME)
@click.option("--missing", type=click.Choice(["fill", "drop"]), default="fill", show_default=True, help=MISSING)
@click.option("--robust", type=ROBUST, help="Give less weight to outliers.")
@click.option("--loss", type=click.Choice([*CLASS_LOSSES, *LINKED]), help=LOSS)
@click.option("--coding", type=CODINGS, help=CODING)
@click.option("--target-scale", "scale", type=SCALES, help=SCALE)
@click.option("--effort", type=click.FloatRange(1e-3, 1e3), default=1.0, show_default=True, help=EFFORT)
@program.reading_options
@program.json_option
def fit(data: str, target: str, output: Path, page: Path | None, missing: str, as_json: bool, **options: Any) -> None:
    """Fit a model to a table: CSV, TSV, Parquet, a folder of Parquet, or - for standard input.

    The kernel, its widths and C are chosen by leave-one-out. Text columns become categories; whether the target is a
    number or a class is inferred and reported. Rows without a target are dropped. A table that does not fit into memory
    is read in chunks.
    """
    program.check_output(output, "-o", data)
    program.check_output(page, "--report", data, output)
    from .. import diagnose
    from ..estimators import LSSVC, LSSVR
    from ..persist import save
    from .reading import open_table
    from .roles import Rows, plan

    start = perf_counter()
    columns = {name: options.pop(name) for name in ("task", "drop", "categorical", "group", "time")}
    parameters = {name: given for name in ("loss", "coding", "robust", "merge_text") if (given := options.pop(name))}
    scale, parameters["effort"] = options.pop("scale"), options.pop("effort")
    source = open_table(data, **options)
    if parameters.get("loss") in LINKED:
        columns["task"] = columns["task"] or "regression"
    roles, scans, remarks = plan(source, target, merged="merge_text" in parameters, **columns)
    for remark in remarks:
        say(remark)
    read = perf_counter()
    misplaced = [name for name in ("loss", "coding") if parameters.get(name) not in (None, "squared", *LINKED)]
    if misplaced and not roles.labels:
        what = f"is for classification, but {target!r} contains numbers to predict"
        raise click.UsageError(f"--{misplaced[0]} {what}: omit it, or use --task classification.")
    if roles.are_counts:
        parameters.setdefault("loss", "poisson")
    if scale and roles.labels:
        what = f"is for numbers, but {target!r} contains classes"
        raise click.UsageError(f"--target-scale {what}: omit it, or use --task regression.")
    model: Any = LSSVC(**parameters) if roles.labels else LSSVR(target=scale or "auto", **parameters)
    rows = Rows(source, roles, drop=missing == "drop")
    raised = _learn(model, rows, scans)
    seconds = {"read and check the table": read - start, "fit and tune": perf_counter() - read}
    file = source.name if data == "-" else os.path.basename(os.path.abspath(data))
    task = "classification" if roles.labels else "count" if model.loss == "poisson" else "regression"
    doubts = [remark for remark in remarks if remark.startswith("column")] + raised
    table = {"target": target, "task": task, "source": file, "model": output.name, "row": source.first_row}
    table |= {"group": roles.group or (roles.time and f"blocks of {roles.time}"), "format": roles.formats.get(target)}
    table |= {"na": list(source.na) or None, "dropped": rows.dropped, "warnings": doubts, "seconds": seconds}
    model.table_ = {name: value for name, value in table.items() if value is not None}
    result = model_facts(model)
    save(
        model, output
    )  # with the residuals of searches that were repeated for errors and intervals: predict needs them
    with suppress(ValueError):
        if not diagnose.beats_constant(model):
            error = "the error on new rows, by leave-one-out, is no smaller than that of a constant"
            say(f"warning: {error}: the columns add almost no information")
    if page is not None:
        from ..report import to_html

        program.progress_line("writing the report ...")
        to_html(model, page)
        save(model, output)  # with what the report has computed
        result["report"] = str(page)
    result |= {"model file": str(output), "seconds": round(perf_counter() - start, 3)}
    program.print_values(result, as_json)


@main.command()
@click.option("--output", type=FILE, default=Path("demo.png"), show_default=True, help=PICTURE)
def demo(output: Path) -> None:
    """Fit the motorcycle data and draw the result.

    Nothing is set by hand: kernels, widths, C and the weights of the models are chosen by leave-one-out.
    """
    program.check_output(output, "--output")
    from lssvm import LSSVR, datasets, plotting

    X, y = datasets.load_motorcycle(return_X_y=True)
    start = perf_counter()
    model = LSSVR().fit(X, y)
    seconds = f"{perf_counter() - start:.3f}"
    data = "motorcycle: head acceleration (g) against time (ms)"
    program.print_values({"data": data, **model_facts(model), "seconds": seconds}, as_json=False)
    try:
        from matplotlib.figure import Figure  # not pyplot: no display, no global state
    except ImportError:
        click.echo('No picture was drawn, because matplotlib is missing: pip install "lssvm[plot]"', err=True)
        return
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot(title="Motorcycle crashes: all parameters chosen by leave-one-out")
    plotting.FitDisplay.from_estimator(model, ax=axes)
    axes.set(xlabel="time after impact (ms)", ylabel="head acceleration (g)")
    with written(output) as file:
        figure.savefig(file, dpi=150, format=output.suffix[1:] or "png")
    program.print_path(output)


def _learn(model: Any, rows: Rows, scans: dict[str, ColumnScan]) -> list[str]:
    """Fit a model to the rows of a table, in chunks if memory is short, and report what is odd about them.

    Returns the warnings of the library, which are printed at the end.
    """
    from ..tables.cells import are_row_numbers
    from ..tables.encoding import MOST_VALUES
    from .roles import listed

    inputs, target = rows.roles.inputs, scans[str(rows.roles.target)]
    texts = [scans[name].counts for name, is_text in inputs.items() if is_text]
    n_columns = len(inputs) + sum(MOST_VALUES if own is None else min(len(own), MOST_VALUES) for own in texts)
    n_rows, chunked = target.rows, _needs_chunks(target.rows, n_columns)
    if chunked and (rows.roles.group or rows.roles.time) is not None:
        raise MemoryError(f"--group and --time need all {n_rows} rows in memory, which is too small: fit a sample.")
    if chunked:
        say(f"fitting {n_rows} rows at once would take more than half of the free memory: they are read in chunks")
        rows.size = CHUNK_BYTES // (8 * n_columns) + 1
    else:
        X, y = rows.all()
        n_rows = len(y)
        plain = [name for name, is_text in inputs.items() if not is_text and name not in rows.roles.formats]
        for name in [name for name in plain if are_row_numbers(X[name].to_numpy())]:
            remedy = f"drop it with --drop {shlex.quote(name)}, unless their order matters"
            say(f"column {name!r} numbers the rows: {remedy}")
    label = f"fitting {n_rows} rows, {counted(len(inputs), 'column')}"
    line = progress.Line(label) if program.shows_progress() else nullcontext(lambda share: None)
    with line as listener, progress.listening(listener), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit_chunks(rows) if chunked else model.fit(X, y, groups=rows.groups)
    dropped = len(rows.dropped) - target.missing
    if dropped:
        say(f"rows with missing cells are dropped: {dropped}")
    columns = model.fitted_.layout.columns.columns
    read = [f"{own.name!r}: {own.words}" for own in columns if own.format is not None]
    if read:
        say(f"read from text: {'; '.join(read)}")
    sizes = [f"{own.name!r} ({len(own.values)})" for own in columns if own.kind == "category"]  # not "ignored"
    if sizes:
        say(f"treated as categorical: {listed(sizes)}")
    if any(own.unit for own in columns):
        say(f"long-tailed, on a scale like a logarithm: {listed([repr(own.name) for own in columns if own.unit])}")
    # C and sigma are parameters in Python, not options of this program
    raised = dict.fromkeys(str(warning.message).removesuffix(" Give C or sigma.") for warning in caught)
    for message in raised:
        say(f"warning: {message}")
    return list(raised)


def _needs_chunks(n_rows: int, n_columns: int) -> bool:
    """Return whether a fit in memory would take more than its share of the free memory."""
    return 8 * n_rows * (2 * n_columns + min(n_rows, WORKING_COLUMNS)) > MEMORY_SHARE * _free_memory()


def _free_memory() -> int:
    """Return the bytes of free memory, or 4 GiB if they are not known."""
    import numpy as np

    from .. import arrays

    return arrays.memory(np.empty(0), free=True) or 1 << 32
