"""Coverage and size of `LSSVC().predict_set` on public tables of fewer than 800 rows.

    python -m benchmarks.class_sets --data FOLDER [--splits 10] [--sets NAME ...] [--jobs N]

FOLDER/classes.npz is described in `benchmarks.tables`. Four fifths of the rows are for training, drawn anew in every
split; classes that these do not hold are left out of the test. Prints Markdown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import train_test_split

from lssvm import LSSVC

from .records import quietly, read_sets
from .tuning import table

MOST_ROWS = 800
COVERAGES = (0.9, 0.95)


def measured(X: np.ndarray, y: np.ndarray, seed: int) -> list[float]:
    """The coverage and the mean size of the sets of new rows, for each of `COVERAGES`."""
    with quietly():
        X, new, y, truth = train_test_split(X.astype(float), y, test_size=0.2, random_state=seed)
        model = LSSVC().fit(X, y)
        known = np.isin(truth, model.classes_)
        new, own = new[known], np.searchsorted(model.classes_, truth[known])
        sets = [np.asarray(model.predict_set(new, coverage)) for coverage in COVERAGES]
        return [
            float(value) for found in sets for value in (found[np.arange(len(own)), own].mean(), found.sum(1).mean())
        ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of classes.npz")
    parser.add_argument("--splits", type=int, default=10, help="number of splits")
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="all, unless given")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    options = parser.parse_args(arguments)
    rows = []
    for name, data in sorted(read_sets(options.data / "classes.npz", options.sets).items()):
        X, y = data["X"], data["y"]
        if len(y) < MOST_ROWS:
            runs = Parallel(options.jobs)(delayed(measured)(X, y, seed) for seed in range(options.splits))
            figures = [f"{value:.{3 - place % 2}f}" for place, value in enumerate(np.mean(runs, axis=0))]
            rows.append([name, str(len(np.unique(y))), *figures])
    heads = [f"{coverage:.0%} sets: coverage" for coverage in COVERAGES]
    table(["set", "classes", heads[0], "mean size", heads[1], "mean size"], rows)


if __name__ == "__main__":
    main()
