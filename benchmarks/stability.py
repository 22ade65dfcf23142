"""How far rounding moves the predictions of the default models on a folder of public tables.

    python -m benchmarks.stability --data FOLDER [--split 0] [--sets NAME ...] [--rows N] [--changes NAME ...]
                                   [--save FILE] [--against FILE] [--jobs N]

FOLDER/numbers.npz and FOLDER/classes.npz are those of `benchmarks.tables`. Each set is fitted as it is and after
changes that alter nothing but the last digits: another order of the rows, other units of the columns, and targets
1e4 + 1e3 y. `--save` stores the predictions; `--against` compares with those that another machine has stored. A move
is the largest change of a prediction for the test rows, relative to the standard deviation of the targets or, for
classes, of a probability. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from lssvm import LSSVC, LSSVR

from .records import read_sets
from .tuning import table

CHANGES = ("order", "units of X", "units of y")
LIMIT = 1e-3


def predictions(kind: str, X: np.ndarray, y: np.ndarray, test: np.ndarray, change: str = "") -> np.ndarray:
    """The predictions for the test rows in units of the standard deviation of the targets, or the probabilities."""
    X = X.astype(float)
    if change == "units of X":
        X = X * np.geomspace(0.0254, 1609.344, X.shape[1]) + 7.0 * X.std(axis=0)
    training, draw = np.flatnonzero(~test), np.random.default_rng(0)
    if change == "order":
        training = draw.permutation(training)
    if kind == "classes":
        return np.asarray(LSSVC().fit(X[training], y[training]).predict_proba(X[test]))
    shift, unit = (1e4, 1e3) if change == "units of y" else (0.0, 1.0)
    model = LSSVR().fit(X[training], shift + unit * y[training])
    return np.asarray((model.predict(X[test]) - shift) / unit / y[~test].std())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="all, unless given")
    parser.add_argument("--rows", type=int, default=10**6, help="sets with more rows are skipped")
    parser.add_argument("--changes", nargs="*", default=list(CHANGES), choices=CHANGES)
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    options = parser.parse_args(arguments)
    runs = {}
    for kind in ("numbers", "classes"):
        for name, parts in read_sets(options.data / f"{kind}.npz", []).items():
            if len(parts["y"]) <= options.rows and name in (options.sets or [name]):
                for change in ["", *options.changes] if kind == "numbers" else ["", *options.changes[:2]]:
                    runs[name, change] = (kind, parts["X"], parts["y"], parts["masks"][:, options.split], change)
    order = sorted(runs, key=lambda run: -len(runs[run][2]))  # the longest first
    fits = Parallel(n_jobs=options.jobs, batch_size=1, pre_dispatch="all")(
        delayed(predictions)(*runs[run]) for run in order
    )
    found = dict(zip(order, fits, strict=True))
    usual = {name: values for (name, change), values in found.items() if not change}
    if options.save:
        np.savez_compressed(options.save, **usual)
    moves = {
        change: {name: values - usual[name] for (name, own), values in found.items() if own == change}
        for change in options.changes
    }
    if options.against:
        with np.load(options.against) as other:
            moves["machine"] = {name: values - other[name] for name, values in usual.items() if name in other}
    sizes = {change: {name: float(np.abs(of[name]).max()) for name in of} for change, of in moves.items()}
    table(
        ["set", *sizes],
        [[name, *(f"{of[name]:.0e}" if name in of else "" for of in sizes.values())] for name in sorted(usual)],
    )
    for change, of in sizes.items():
        print(f"{change}: at most {LIMIT:g} on {sum(size <= LIMIT for size in of.values())} of {len(of)} sets")


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # of worker processes
    main()
