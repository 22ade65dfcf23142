"""`lssvm demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..files import written

if TYPE_CHECKING:
    from typing import Any

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lssvm import LSSVR
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

    import numpy as np

    from lssvm import LSSVR, datasets, diagnose

    X, y = datasets.load_motorcycle(return_X_y=True)
    start = perf_counter()
    model = LSSVR().fit(X, y)
    seconds = perf_counter() - start

    table = {
        "data": "motorcycle: head acceleration (g) against time (ms)",
        "rows": f"{len(X)}",
        "basis": f"{len(diagnose.basis_points(model))}",
        "kernels": " + ".join(diagnose.member_words(model)),
        "leave-one-out RMSE": f"{np.sqrt(np.mean(model.loo_residuals_**2)):.4g} g",
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
    _draw(figure, model, X, y)
    try:
        with written(output) as file:
            figure.savefig(file, dpi=150, format=output.suffix[1:] or "png")
    except (OSError, ValueError) as error:
        raise click.ClickException(f"--output '{output}' cannot be written: {error}") from error
    click.echo(f"{'picture':<18}  {printable(str(output))}")


def _draw(figure: Figure, model: LSSVR, X: NDArray[Any], y: NDArray[Any]) -> None:
    """Data, fitted curve, interval band, and a rug of support vectors along the time axis."""
    import numpy as np

    from lssvm import diagnose

    time = np.linspace(X.min() - 1, X.max() + 1, 400)
    grid = time[:, np.newaxis]
    lower, upper = model.predict_interval(grid, coverage=0.9).T
    support = diagnose.basis_points(model)[:, 0]
    blue, orange, grey = "#1f5fa8", "#b3541e", "#333333"

    axes = figure.add_subplot()
    interval = "90 % interval"
    axes.fill_between(time, lower, upper, color=blue, alpha=0.15, lw=0, label=interval)
    axes.plot(time, model.predict(grid), color=blue, lw=2, label="LSSVR")
    axes.plot(X[:, 0], y, "o", color=grey, alpha=0.7, ms=4, mew=0, label="measurements")
    (rug,) = axes.plot(support, np.full(len(support), 0.015), "|", label="support vectors")
    rug.set(color=orange, alpha=0.5, markersize=7, transform=axes.get_xaxis_transform())
    axes.set_xlim(time[0], time[-1])
    axes.set_xlabel("time after impact (ms)")
    axes.set_ylabel("head acceleration (g)")
    axes.set_title("Motorcycle crashes: all parameters chosen by leave-one-out")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    axes.legend(frameon=False, loc="lower right")
