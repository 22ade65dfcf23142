"""The effect of halving and doubling each constant of the search (`lssvm.tune.CONSTANTS`) on a folder of public tables.

    python -m benchmarks.constants --data FOLDER [--splits 0] [--sets NAME ...] [--only CONSTANT ...] [--jobs N]

FOLDER/numbers.npz and FOLDER/classes.npz are those of `benchmarks.tables`. A constant of several numbers has one line
for each of them. Ratios are geometric means over the sets, of the errors (RMSE), the log losses of classes and the CPU
seconds of `fit` relative to those with the constants as they are. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from lssvm.tune import CONSTANTS

from .records import Record, class_record, geometric_mean, number_record, read_sets
from .tuning import table

SMALL = 3000  # rows: larger sets take most of the time, unless they are asked for by name
Run = tuple[str, str, np.ndarray, np.ndarray, np.ndarray]  # set, "numbers" or "classes", X, y, test rows


@contextmanager
def changed(name: str, value: Any) -> Iterator[None]:
    """The search with another value of a constant."""
    before = getattr(CONSTANTS, name)
    object.__setattr__(CONSTANTS, name, value)  # frozen: nothing else may change it
    try:
        yield
    finally:
        object.__setattr__(CONSTANTS, name, before)


def variants(only: list[str]) -> Iterator[tuple[str, str, Any, list[Any]]]:
    """The label of each number, the name of the constant, its value, and the values with half and twice the number."""
    for name in only or [field.name for field in fields(CONSTANTS)]:
        value = getattr(CONSTANTS, name)
        numbers = value if isinstance(value, tuple) else (value,)
        for place, number in enumerate(numbers):
            scaled = [type(number)(factor * number) for factor in (0.5, 2.0)]
            found = [(*numbers[:place], other, *numbers[place + 1 :]) for other in scaled]
            label = f"{name}[{place}]" if isinstance(value, tuple) else name
            yield label, name, number, found if isinstance(value, tuple) else scaled


def measured(run: Run, name: str, value: Any) -> Record:
    _, kind, X, y, test = run
    with changed(name, value):
        return (number_record if kind == "numbers" else class_record)(X, y, test)


def ratios(runs: list[Run], found: list[Record], usual: list[Record]) -> list[str]:
    """The ratios of the errors, the log losses and the seconds."""
    cells = []
    for key, kinds in (("error", {"numbers"}), ("log_loss", {"classes"}), ("fit_cpu_seconds", {"numbers", "classes"})):
        own = [
            (run[0], one[key], other[key])
            for run, one, other in zip(runs, found, usual, strict=True)
            if run[1] in kinds
        ]
        sums = {name: np.sum([values for other, *values in own if other == name], axis=0) for name, *_ in own}
        cells.append(f"{geometric_mean(new / old for new, old in sums.values()):.3f}" if own else "")
    return cells


def constants(folder: Path, splits: list[int], sets: list[str], only: list[str], jobs: int) -> list[list[str]]:
    """Fit, print the table and return its lines."""
    runs: list[Run] = []
    for kind in ("numbers", "classes"):
        with np.load(folder / f"{kind}.npz", allow_pickle=False) as data:
            names = {name.removesuffix("/X") for name in data.files if name.endswith("/X")}
        chosen = sorted(names & set(sets)) if sets else sorted(names)
        for name, parts in read_sets(folder / f"{kind}.npz", chosen).items() if chosen else ():
            if sets or len(parts["y"]) <= SMALL:
                masks = parts["masks"].T
                runs += [(name, kind, parts["X"], parts["y"], masks[split]) for split in splits if split < len(masks)]

    def fits(name: str, value: Any) -> list[Record]:
        return Parallel(n_jobs=jobs)(delayed(measured)(run, name, value) for run in runs)

    first = fields(CONSTANTS)[0].name
    usual = fits(first, getattr(CONSTANTS, first))
    lines = []
    for label, name, number, values in variants(only):
        cells = [cell for value in values for cell in ratios(runs, fits(name, value), usual)]
        lines.append([label, f"{number:g}", *cells])
    heads = [f"{what} {times}" for times in ("halved", "doubled") for what in ("error", "log loss", "seconds")]
    table(["constant", "value", *heads], lines)
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--splits", type=int, nargs="+", default=[0])
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help=f"all up to {SMALL} rows, unless given")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="CONSTANT", choices=[f.name for f in fields(CONSTANTS)]
    )
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    options = parser.parse_args(arguments)
    constants(options.data, options.splits, options.sets, options.only, options.jobs)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # lssvm's own threads obey it, too
    main()
