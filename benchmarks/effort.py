"""Error against CPU seconds for several values of `effort`, on a folder of public tables.

    python -m benchmarks.effort --data FOLDER [--sets NAME ...] [--splits 0 1 2] [--efforts 0.1 1 10 ...] [--jobs N]

FOLDER is that of `benchmarks.tables`; sets are also read from FOLDER/large.npz, if there is one. The error is the RMSE
of numbers and the log loss of classes, and seconds are the process time of `fit`, with one BLAS thread. Prints a
Markdown table for numbers and one for classes: geometric means over the sets, of means over the splits.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from lssvm import LSSVC, LSSVR
from lssvm.kernels import RBF

from .records import LIGHTGBM, Record, class_record, geometric_mean, number_record, read_peers, read_sets
from .tuning import table

KINDS = {"error": ("numbers", "large"), "log_loss": ("classes",)}
PEERS = {"catboost": "CatBoost", LIGHTGBM: "LightGBM"}


def warmed(record: Callable[..., Record], X: np.ndarray, y: np.ndarray, test: np.ndarray, make: Any) -> Record:
    """The record of a fit in a process that has imported everything."""
    x = np.arange(20.0)[:, None]
    make(kernel=RBF(5.0), C=1.0).fit(x, x[:, 0] > 9.5)
    return record(X, y, test, make)


def effort(folder: Path, sets: list[str], splits: list[int], efforts: list[float], jobs: int) -> None:
    """Fit models with each effort and print the tables."""
    peers = read_peers(folder / "peers.csv")
    for key, files in KINDS.items():
        paths = [path for file in files if (path := folder / f"{file}.npz").exists()]
        found = {name: own for path in paths for name, own in read_sets(path, []).items()}
        names = [name for name in found if not sets or name in sets]
        runs = [(name, split) for name in names for split in splits if split < found[name]["masks"].shape[1]]
        if not runs:
            continue
        record, model = (number_record, LSSVR) if key == "error" else (class_record, LSSVC)
        # the longest first, so that no process ends much later than others
        order = sorted((-value, -len(found[run[0]]["y"]), run) for run in runs for value in efforts)
        measured = Parallel(n_jobs=jobs, batch_size=1)(
            delayed(warmed)(
                record,
                found[name]["X"],
                found[name]["y"],
                found[name]["masks"][:, split],
                partial(model, effort=-value),
            )
            for value, _, (name, split) in order
        )
        records = {(-value, run): own for (value, _, run), own in zip(order, measured, strict=True)}

        def mean(name: str, value: float, key: str, runs: list = runs, records: dict = records) -> float:
            return float(np.mean([records[value, run][key] for run in runs if run[0] == name]))

        rows = []
        for value in efforts:
            row = [f"{value:g}"]
            for own in (key, "fit_cpu_seconds"):
                row.append(f"{geometric_mean(mean(name, value, own) / mean(name, 1.0, own) for name in names):.3f}")
            for peer in PEERS:
                ratios = []
                for name in names:
                    others = [peers[run][peer][key] for run in runs if run[0] == name and peer in peers.get(run, ())]
                    if len(others) == sum(run[0] == name for run in runs) and np.isfinite(others).all():
                        ratios.append(mean(name, value, key) / float(np.mean(others)))
                row.append(f"{geometric_mean(ratios):.3f} ({len(ratios)} sets)" if ratios else "")
            rows.append(row)
        heads = [
            f"{key} / that of effort 1",
            "CPU seconds / those of effort 1",
            *(f"{key} / {p}'s" for p in PEERS.values()),
        ]
        table(["effort", *heads], rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets and of peers.csv")
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="all, unless given")
    parser.add_argument("--splits", type=int, nargs="+", default=[0])
    parser.add_argument("--efforts", type=float, nargs="+", default=[0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    options = parser.parse_args(arguments)
    effort(options.data, options.sets, options.splits, sorted({1.0, *options.efforts}), options.jobs)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # lssvm's own threads obey it, too
    main()
