"""Missing numbers: an indicator that shares the width of its column, against medians alone and one of its own width.

    python -m benchmarks.missing --data FOLDER [--splits 0 1 2] [--jobs N]

FOLDER/tables holds CSV files (see `benchmarks.raw_tables`), of which those with empty cells in columns of numbers
count. From the sets of up to 600 rows and 30 columns in FOLDER/numbers.npz and FOLDER/classes.npz (see
`benchmarks.tables`), cells of columns with at least eight different values are removed: 15 % at random, or 60 % of the
highest quarter of the values. The default models are fitted three times, and the fit with the smallest leave-one-out
error is a fourth contender. Errors are RMSE or, for classes, log loss: means over the splits of a set, over those of
the first encoding. Prints, as Markdown, the geometric mean over the sets with its 90 % interval by bootstrap, and the
smallest and the largest ratio.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from lssvm import LSSVC, LSSVR, diagnose

from .raw_tables import read
from .tuning import table

SHARED, MEDIAN, OWN = "median, indicator of the same width", "median alone", "median, indicator of its own width"
CHOSEN = "the best of the three by leave-one-out"


def encoded(train: pd.DataFrame, test: pd.DataFrame, encoding: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with their missing numbers encoded; the first encoding is that of the models."""
    if encoding == SHARED:
        return train, test
    train, test = train.copy(), test.copy()
    for name in train.select_dtypes("number").columns[train.select_dtypes("number").isna().any()]:
        median, spread = train[name].median(), train[name].std(ddof=0) or 1.0
        for frame in (train, test):
            if encoding == OWN:
                frame[f"{name} is missing"] = spread * frame[name].isna()
            frame[name] = frame[name].fillna(median)
    return train, test


def errors(frame: pd.DataFrame, y: np.ndarray, test: np.ndarray, classes: bool) -> dict[str, float]:
    """The error on the test rows, by contender."""
    found, scores = {}, {}
    for encoding in (SHARED, MEDIAN, OWN):
        rows, new = encoded(frame[~test], frame[test], encoding)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            model = (LSSVC if classes else LSSVR)().fit(rows, y[~test])
            scores[encoding] = diagnose.scores(model)["log_loss" if classes else "rmse"]
            if classes:
                known = np.isin(y[test], model.classes_)
                p = model.predict_proba(new[known])
                found[encoding] = float(log_loss(y[test][known], p, labels=model.classes_))
            else:
                found[encoding] = float(np.sqrt(np.mean((model.predict(new) - y[test]) ** 2)))
    return {**found, CHOSEN: found[min(scores, key=lambda encoding: scores[encoding])]}


def removed(X: np.ndarray, where: str, seed: int) -> pd.DataFrame:
    """The table with missing cells."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(X.astype(float)).add_prefix("x")
    for name, cells in frame.items():
        if cells.nunique() >= 8:
            gone = rng.random(len(cells)) < 0.15
            if where != "at random":
                gone = (cells > cells.quantile(0.75)) & (rng.random(len(cells)) < 0.6)
            frame[name] = cells.mask(gone)
    return frame


def problems(folder: Path, split: int) -> Iterator[tuple[str, str, Any, np.ndarray, np.ndarray, bool]]:
    """Where cells are missing, the set, its columns, targets and test rows, and whether targets are classes."""
    for file in sorted((folder / "tables").glob("*.csv")):
        frame, y, classes = read(file)
        if frame.select_dtypes("number").isna().to_numpy().any():
            held_out = train_test_split(np.arange(len(y)), test_size=0.2, random_state=split)[1]
            yield "in the files", file.stem, frame, y, np.isin(np.arange(len(y)), held_out), classes
    for kind in ("numbers", "classes"):
        sets = np.load(folder / f"{kind}.npz")
        for name in sorted({key.rpartition("/")[0] for key in sets}):
            X, y, test = sets[f"{name}/X"], sets[f"{name}/y"], sets[f"{name}/masks"][:, split]
            if len(X) <= 600 and X.shape[1] <= 30:
                for where in ("at random", "high values"):
                    yield where, f"{name} ({kind})", removed(X, where, split), y, test, kind == "classes"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    work = [problem for split in options.splits for problem in problems(options.data, split)]
    results = Parallel(n_jobs=options.jobs)(delayed(errors)(*problem) for _, _, *problem in work)
    found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for (where, name, *_), result in zip(work, results, strict=True):
        found[where, name].append(result)
    means = {key: {name: np.mean([own[name] for own in runs]) for name in runs[0]} for key, runs in found.items()}
    rows = []
    for where in ("in the files", "at random", "high values", "all"):
        own = {key: values for key, values in means.items() if where in (key[0], "all")}
        rows.append([where, str(len({name for _, name in own})), *(shown(own, name) for name in (MEDIAN, OWN, CHOSEN))])
    table(["missing cells", "sets", MEDIAN, OWN, CHOSEN], rows)


def shown(means: dict[tuple[str, str], dict[str, float]], name: str) -> str:
    """The geometric mean of the ratios of an encoding; cells missing in two ways are drawn together."""
    logs: dict[str, list[float]] = defaultdict(list)
    for (_, own), values in means.items():
        logs[own].append(float(np.log(values[name] / values[SHARED])))
    averages = np.array([np.mean(values) for values in logs.values()])
    drawn = np.random.default_rng(0).choice(averages, (2000, len(averages))).mean(axis=1)
    low, high = np.exp(np.quantile(drawn, [0.05, 0.95]))
    extremes = np.exp([min(min(values) for values in logs.values()), max(max(values) for values in logs.values())])
    return f"{np.exp(averages.mean()):.3f} ({low:.3f} to {high:.3f}); {extremes[0]:.2f} to {extremes[1]:.2f}"


if __name__ == "__main__":
    main()
