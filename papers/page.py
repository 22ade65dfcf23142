"""What the modules share: data, tables, verdicts, pictures, and the page they are written to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Progress = Callable[[str], None]

DATA = Path(__file__).parent / "data"  # its README has sources, licences, ethics
BLUE, BROWN, GREEN, GREY = "#1f5fa8", "#b3541e", "#3d8361", "#5f6b76"
BOSTON_NOTE = (
    "*The Boston data are used only to reproduce published numbers; the column `black` is based on a racist premise "
    "(papers/data/README.md).*"
)
TITLE = """# The five papers, regenerated

`python -m papers` writes this page, and `python -m papers a06` one section of it; `--quick` runs a shorter version and
writes to build/papers. For every claim, the tables give the published value, ours (mean ± standard deviation over
splits, draws or seeds, unless stated otherwise) and a verdict that the program derives from the numbers: **reached**,
**not reached**, or **not reachable** with the reason. Every section ends with the command that wrote it. Times in C04
and A06 are CPU seconds, in A06 with one thread. The order of the times in A06 also depends on the number of steps,
which the paper does not state.
"""


# Data -----------------------------------------------------------------------------------------------------------------
def read(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and target of a set of papers/data."""
    table = np.loadtxt(DATA / f"{name}.csv", delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1]


def boston() -> tuple[np.ndarray, np.ndarray]:
    """Boston with standardised inputs."""
    X, y = read("boston")
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def rms(errors: Any) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


# Verdicts -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Claim:
    """A published statement, what we found, and whether it holds."""

    what: str
    published: str
    ours: str
    verdict: str


def verdict(holds: bool) -> str:
    return "reached" if holds else "not reached"


def unreachable(why: str) -> str:
    return f"not reachable: {why}"


def spread(values: Any, digits: int = 3) -> str:
    """Mean and standard deviation, the mean alone for a single value."""
    values = np.asarray(values, dtype=float)
    mean = f"{values.mean():.{digits}f}"
    return mean if values.size < 2 else f"{mean} ± {values.std(ddof=1):.{digits}f}"


# The page -------------------------------------------------------------------------------------------------------------
class Page:
    """Markdown of one paper; its pictures go to images/papers under the folder of the page."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, Path(folder)
        self.blocks: list[str] = []
        self.verdicts: list[Claim] = []

    @property
    def markdown(self) -> str:
        return "\n\n".join(self.blocks) + "\n"

    def text(self, block: str) -> None:
        self.blocks.append(block)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The first column to the left, the others to the right."""
        lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
        self.blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))

    def claims(self, *claims: Claim) -> None:
        self.verdicts += claims
        lines = ["| claim | published | ours | verdict |", "| --- | --- | --- | --- |"]
        lines += [f"| {claim.what} | {claim.published} | {claim.ours} | **{claim.verdict}** |" for claim in claims]
        self.blocks.append("\n".join(lines))

    def picture(self, figure: Any, name: str, caption: str) -> None:
        from matplotlib import pyplot

        path = Path("images") / "papers" / f"{self.name}_{name}.png"
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.folder / path, dpi=110, metadata={"Software": None})
        pyplot.close(figure)
        self.blocks.append(f"![{caption}]({path.as_posix()})\n\n{caption}")


def panels(count: int, height: float = 3.2, **options: Any) -> tuple[Any, Any]:
    """A figure with its axes side by side."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, count, figsize=(4.2 * count, height), layout="constrained", **options)
    for ax in np.atleast_1d(axes):
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.2)
        ax.set_axisbelow(True)
    return figure, axes


def write(path: Path, name: str, markdown: str) -> None:
    """Put one paper's section into the page, in the place of its former one."""
    sections = {}
    if path.exists():
        found = re.findall(r"<!-- begin (\w+) -->\n(.*?)<!-- end \1 -->", path.read_text(encoding="utf-8"), re.DOTALL)
        sections = dict(found)
    sections[name] = markdown
    order = [paper for paper in ("s02", "c02", "c04", "a06", "p05") if paper in sections]
    body = "\n".join(f"<!-- begin {paper} -->\n{sections[paper]}<!-- end {paper} -->\n" for paper in order)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{TITLE}\n{body}", encoding="utf-8")
