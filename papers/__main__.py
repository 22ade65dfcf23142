"""``python -m papers [name ...] [--quick] [--output folder]``."""

from __future__ import annotations

import importlib
import sys
import time
from collections import Counter
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
NAMES = ("s02", "c02", "c04", "a06", "p05")


class Progress:
    """One line on a terminal that says what is being done; nothing elsewhere."""

    def __init__(self, name: str) -> None:
        self.name, self.start = name, time.perf_counter()

    def __call__(self, what: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{self.name}, {self.seconds:.0f} s: {what}", nl=False, err=True)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def done(self) -> None:
        self("")
        click.echo(f"{self.name}: {self.seconds:.0f} s", err=True)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--quick", is_flag=True, help="Fewer splits, coarser paths: all papers in less than 3 minutes.")
@click.option("--output", type=click.Path(path_type=Path), help="Default: docs; with --quick, build/papers.")
def main(names: tuple[str, ...], quick: bool, output: Path | None) -> None:
    """Regenerate the tables and figures of the papers, all of them or those named."""
    import matplotlib

    from .page import Page, write

    matplotlib.use("Agg")
    output = output or (ROOT / "build" / "papers" if quick else ROOT / "docs")
    for name in names or NAMES:
        progress = Progress(name)
        page = Page(name, output)
        importlib.import_module(f"papers.{name}").run(page, quick, progress)
        progress.done()
        counts = Counter(claim.verdict.split(":")[0] for claim in page.verdicts)
        told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        command = f"python -m papers {name}{' --quick' if quick else ''}"
        page.text(f"*`{command}`, {progress.seconds:.0f} s. Claims: {told}.*")
        click.echo(page.markdown)
        write(output / "papers.md", name, page.markdown)
    click.echo(f"written: {output / 'papers.md'}", err=True)


if __name__ == "__main__":
    main(prog_name="python -m papers")
