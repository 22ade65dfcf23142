"""The effect of halving and doubling each constant of the search (`CONSTANTS`) on a folder of public tables.

    python -m benchmarks.constants --data FOLDER [--splits 0] [--sets NAME ...] [--rows 3000] [--only CONSTANT ...]
                                   [--jobs N]

FOLDER/numbers.npz and FOLDER/classes.npz are those of `benchmarks.tables`. A constant of several numbers has one line
for each of them. Ratios are geometric means over the sets, of the errors (RMSE), the log losses of classes and the CPU
seconds of `fit` relative to those with the constants as they are; a fit that does not read a constant is not repeated.
Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed

from lssvm.tune.constants import CONSTANTS, Constants

from .records import Record, class_record, geometric_mean, number_record, read_sets
from .tuning import table

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


class Watched(Constants):
    """Constants that remember which of them were read."""

    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        if name in Constants.__dataclass_fields__:
            Watched.read.add(name)
        return super().__getattribute__(name)


@cache
def warm_up() -> None:
    """Fit once per process, so that no measured fit imports modules."""
    X = np.random.default_rng(0).standard_normal((40, 2))
    test = np.arange(40) < 10
    number_record(X, X[:, 0], test)
    class_record(X, (X[:, 0] > 0).astype(float), test)


def measured(run: Run, name: str = "", value: Any = None) -> tuple[Record, set[str]]:
    """The record of a fit, with another value of a constant if one is named, and the constants that it read."""
    warm_up()
    _, kind, X, y, test = run
    Watched.read.clear()
    object.__setattr__(CONSTANTS, "__class__", Watched)
    try:
        with changed(name, value) if name else nullcontext():
            record = (number_record if kind == "numbers" else class_record)(X, y, test)
    finally:
        object.__setattr__(CONSTANTS, "__class__", Constants)
    return record, set(Watched.read)


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


def constants(
    folder: Path, splits: list[int], sets: list[str], rows: int, only: list[str], jobs: int
) -> list[list[str]]:
    """Fit, print the table and return its lines."""
    runs: list[Run] = []
    for kind in ("numbers", "classes"):
        with np.load(folder / f"{kind}.npz", allow_pickle=False) as data:
            names = {name.removesuffix("/X") for name in data.files if name.endswith("/X")}
        chosen = sorted(names & set(sets)) if sets else sorted(names)
        for name, parts in read_sets(folder / f"{kind}.npz", chosen).items() if chosen else ():
            if len(parts["y"]) <= rows:
                masks = parts["masks"].T
                runs += [(name, kind, parts["X"], parts["y"], masks[split]) for split in splits if split < len(masks)]
    fits = Parallel(n_jobs=jobs, batch_size=1, pre_dispatch="all")
    usual = fits(delayed(measured)(run) for run in runs)
    tried = [(name, value) for _, name, _, values in variants(only) for value in values]
    tasks = [(place, task) for task in tried for place, (_, read) in enumerate(usual) if task[0] in read]
    tasks.sort(key=lambda task: -usual[task[0]][0]["fit_cpu_seconds"])  # the longest first
    found = fits(delayed(measured)(runs[place], *task) for place, task in tasks)
    records = {(place, *task): record for (place, task), (record, _) in zip(tasks, found, strict=True)}
    before = [record for record, _ in usual]
    lines = []
    for label, name, number, values in variants(only):
        cells = []
        for value in values:
            after = [records.get((place, name, value), record) for place, record in enumerate(before)]
            cells += ratios(runs, after, before)
        lines.append([label, f"{number:g}", *cells])
    heads = [f"{what} {times}" for times in ("halved", "doubled") for what in ("error", "log loss", "seconds")]
    table(["constant", "value", *heads], lines)
    print(f"{len({run[:2] for run in runs})} sets of up to {rows} rows, {len(runs)} splits.")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--splits", type=int, nargs="+", default=[0])
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="all, unless given")
    parser.add_argument("--rows", type=int, default=3000, help="sets with more rows are skipped")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="CONSTANT", choices=[f.name for f in fields(CONSTANTS)]
    )
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    options = parser.parse_args(arguments)
    constants(options.data, options.splits, options.sets, options.rows, options.only, options.jobs)


if __name__ == "__main__":
    # functions of __main__ would take copies of CONSTANTS to the processes
    from benchmarks import constants as imported

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # lssvm's own threads obey it, too
    imported.main()
