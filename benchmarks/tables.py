"""The default models on a folder of public tables, against peers that were measured before.

    python -m benchmarks.tables classes --data FOLDER [--splits 0 1 2] [--sets NAME ...] [--jobs N]

FOLDER/classes.npz holds name/X, name/y and name/masks (rows x splits, True for test rows); FOLDER/peers.csv the columns
set, split, model, error, log_loss and fit_cpu_seconds. A split without all of the peers "svm tuned", "random forest",
"lightgbm" and "lssvm 0.1.0" is skipped. Errors are means over the splits of a set; ratios and ranks are those of the
means. Seconds are the process time of `fit`, with one BLAS thread. Prints Markdown.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from lssvm import LSSVC

from .tuning import table

SVM, FOREST, LIGHTGBM, OLD = PEERS = ("svm tuned", "random forest", "lightgbm", "lssvm 0.1.0")
EPS = float(np.finfo(float).eps)
ZERO = 0.01  # added to error rates, of which some are 0

Record = dict[str, float]  # error, log_loss and fit_cpu_seconds
Peers = dict[tuple[str, int], dict[str, Record]]


def read_peers(file: Path) -> Peers:
    """By set and split: the records of the models; empty cells are NaN."""
    peers: Peers = defaultdict(dict)
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            record = {name: float(row[name] or "nan") for name in ("error", "log_loss", "fit_cpu_seconds")}
            peers[row["set"], int(row["split"])][row["model"]] = record
    return peers


def own_record(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> Record:
    """`LSSVC()` fitted to the rows that are not for the test. Classes that these do not hold have probability 0."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = LSSVC().fit(X[~test], y[~test])
        taken = time.process_time() - start
        p = np.asarray(model.predict_proba(X[test]))
        error = float(np.mean(np.asarray(model.predict(X[test])) != y[test]))
    own = np.where(y[test][:, None] == model.classes_[None, :], p, 0.0).sum(axis=1)
    return {"error": error, "log_loss": float(-np.mean(np.log(np.maximum(own, EPS)))), "fit_cpu_seconds": taken}


def geometric_mean(ratios: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(np.array(list(ratios))))))


def classes(folder: Path, splits: list[int], sets: list[str], jobs: int) -> dict[str, float]:
    """Fit, print the tables and return the summary."""
    peers = read_peers(folder / "peers.csv")
    with np.load(folder / "classes.npz", allow_pickle=False) as data:
        known = [name.removesuffix("/X") for name in data.files if name.endswith("/X")]
        names = [name for name in known if not sets or name in sets]
        found = {name: {part: data[f"{name}/{part}"] for part in ("X", "y", "masks")} for name in names}
    unknown = sorted(set(sets) - set(known))
    if unknown:
        raise SystemExit(f"No set is called {unknown[0]!r}: {', '.join(known)}.")
    runs = [
        (name, split)
        for name in names
        for split in splits
        if split < found[name]["masks"].shape[1] and set(PEERS) <= set(peers.get((name, split), ()))
    ]
    if not runs:
        raise SystemExit("No split has all peers.")
    fits = Parallel(n_jobs=jobs)(
        delayed(own_record)(found[name]["X"], found[name]["y"], found[name]["masks"][:, split]) for name, split in runs
    )
    means: dict[str, dict[str, Record]] = {}
    for name in dict.fromkeys(name for name, _ in runs):
        own = [number for number, run in enumerate(runs) if run[0] == name]
        records = {"lssvm": [fits[number] for number in own]}
        records |= {peer: [peers[runs[number]][peer] for number in own] for peer in PEERS}
        means[name] = {
            model: {key: float(np.mean([record[key] for record in several])) for key in several[0]}
            for model, several in records.items()
        }
    rows = []
    for name, of in means.items():
        errors = [f"{100.0 * of[model]['error']:.1f}" for model in ("lssvm", *PEERS)]
        losses = [f"{of[model]['log_loss']:.3f}" for model in ("lssvm", OLD)]
        taken = [f"{of[model]['fit_cpu_seconds']:.2f}" for model in ("lssvm", SVM)]
        size = f"{len(found[name]['y'])} x {found[name]['X'].shape[1]}, {len(np.unique(found[name]['y']))}"
        rows.append([name, size, *errors, *losses, *taken])
    heads = ["errors in %: lssvm", "tuned SVM", "forest", "LightGBM", "0.1.0"]
    table(["set", "rows x columns, classes", *heads, "log loss", "0.1.0", "CPU seconds", "tuned SVM"], rows)
    summary = summarise(means)
    tested = {
        name: sum(int(found[name]["masks"][:, split].sum()) for own, split in runs if own == name) for name in means
    }
    worst, ratio, sure = worst_set(means, tested)
    lines = [[label, f"{value:.3f}"] for label, value in summary.items()]
    lines.append([f"largest (error + {ZERO})/(0.1.0's + {ZERO}): {worst}, {sure:+.1f} standard errors", f"{ratio:.3f}"])
    table([f"{len(means)} sets, {len(runs)} splits", ""], lines)
    return summary


def summarise(means: dict[str, dict[str, Record]]) -> dict[str, float]:
    """Geometric means over the sets, and the mean rank; ranks of equal errors are averaged."""
    contest = ("lssvm", SVM, FOREST, LIGHTGBM)
    ranks = [rankdata([round(of[model]["error"], 6) for model in contest])[0] for of in means.values()]
    ratios = {
        f"(error + {ZERO})/(tuned SVM's + {ZERO}), geometric mean": ("error", SVM, ZERO),
        "log loss / 0.1.0's, geometric mean": ("log_loss", OLD, 0.0),
        "CPU seconds / tuned SVM's, geometric mean": ("fit_cpu_seconds", SVM, 0.0),
    }
    found = {
        label: geometric_mean((of["lssvm"][key] + add) / (of[peer][key] + add) for of in means.values())
        for label, (key, peer, add) in ratios.items()
    }
    return {**found, "mean rank among lssvm, tuned SVM, forest and LightGBM": float(np.mean(ranks))}


def worst_set(means: dict[str, dict[str, Record]], test_rows: dict[str, int]) -> tuple[str, float, float]:
    """The set with the largest error over that of 0.1.0, the ratio, and the difference in binomial standard errors."""
    ratios = {name: (of["lssvm"]["error"] + ZERO) / (of[OLD]["error"] + ZERO) for name, of in means.items()}
    name = max(ratios, key=lambda name: ratios[name])
    new, old = (means[name][model]["error"] for model in ("lssvm", OLD))
    error = np.sqrt((new * (1.0 - new) + old * (1.0 - old)) / test_rows[name])
    return name, ratios[name], float((new - old) / max(error, EPS))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["classes"])
    parser.add_argument("--data", type=Path, required=True, help="the folder of classes.npz and peers.csv")
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="all, unless given")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    options = parser.parse_args(arguments)
    classes(options.data, options.splits, options.sets, options.jobs)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # lssvm's own threads obey it, too
    main()
