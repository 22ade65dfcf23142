"""`lssvm demo`."""

from __future__ import annotations

from pathlib import Path

import click

from ..files import written
from .program import main, printable
from .terminal import check_output


@main.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    default=Path("demo.png"),
    show_default=True,
    help="File for the picture; its extension determines the format.",
)
def demo(output: Path) -> None:
    """Fit the motorcycle data and draw the result.

    Nothing is set by hand: kernels, widths, C and the weights of the models are chosen by leave-one-out.
    """
    check_output(output, "--output")
    from time import perf_counter

    from lssvm import LSSVR, datasets, diagnose, plotting

    X, y = datasets.load_motorcycle(return_X_y=True)
    start = perf_counter()
    model = LSSVR().fit(X, y)
    seconds = perf_counter() - start
    table = {
        "data": "motorcycle: head acceleration (g) against time (ms)",
        "rows": f"{len(X)}",
        "basis": f"{len(diagnose.basis_points(model))}",
        "kernels": " + ".join(diagnose.member_words(model)),
        "leave-one-out RMSE": f"{diagnose.scores(model)['rmse']:.4g} g",
        "seconds": f"{seconds:.3f}",
    }
    for name, value in table.items():
        click.echo(f"{name:<18}  {value}")

    try:
        from matplotlib.figure import Figure  # not pyplot: no display, no global state
    except ImportError:
        click.echo('No picture was drawn, because matplotlib is missing: pip install "lssvm[plot]"', err=True)
        return
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot(title="Motorcycle crashes: all parameters chosen by leave-one-out")
    plotting.FitDisplay.from_estimator(model, ax=axes)
    axes.set(xlabel="time after impact (ms)", ylabel="head acceleration (g)")
    try:
        with written(output) as file:
            figure.savefig(file, dpi=150, format=output.suffix[1:] or "png")
    except (OSError, ValueError) as error:
        raise click.ClickException(f"--output '{output}' cannot be written: {error}") from error
    click.echo(f"{'picture':<18}  {printable(str(output))}")
