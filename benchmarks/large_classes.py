"""`LSSVC()` on large made sets, against an `SVC` tuned on at most 2000 rows.

    python -m benchmarks.large_classes [--share 1.0] [--sets NAME ...]

Seconds are the process time of search and fit, with one BLAS thread; errors are those of another fifth of the rows.
`--share` is the part of the rows that is used. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from lssvm import LSSVC

from .tuning import table

GRID_ROWS = 2000
SETS = {  # rows, columns, informative and redundant ones, classes, clusters per class, distance, wrong labels
    "3000 x 31": (3750, 31, 8, 4, 2, 3, 1.0, 0.03),
    "4400 x 36": (5500, 36, 10, 20, 6, 2, 1.2, 0.05),
    "6500 x 110": None,
    "7200 x 16": (9000, 16, 12, 2, 10, 2, 2.0, 0.0),
    "10,400 x 26": (13000, 26, 10, 5, 2, 4, 1.0, 0.05),
    "16,000 x 16": (20000, 16, 14, 2, 26, 2, 2.2, 0.01),
    "20,000 x 20": (25000, 20, 8, 4, 2, 4, 0.9, 0.05),
}


def made(name: str, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and classes; those of "6500 x 110" are binary columns and a rule with products."""
    settings = SETS[name]
    if settings is None:
        draw = np.random.default_rng(0)
        shape = (int(8124 * share), 110)
        X = (draw.integers(0, 2, shape) * (draw.random(shape) < 0.6)).astype(float)
        score = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] + X[:, 5] * X[:, 6] - X[:, 7]
        return X, (score > 0.7).astype(int)
    rows, columns, informative, redundant, classes, clusters, distance, wrong = settings
    X, y = make_classification(
        int(rows * share),
        columns,
        n_informative=informative,
        n_redundant=redundant,
        n_classes=classes,
        n_clusters_per_class=clusters,
        class_sep=distance,
        flip_y=wrong,
        random_state=list(SETS).index(name),
    )
    return X, y


def tuned_svc(X: np.ndarray, y: np.ndarray) -> Any:
    """An `SVC` whose 16 settings are compared by five folds on at most `GRID_ROWS` rows, fitted to all rows."""
    some = np.random.RandomState(0).permutation(len(y))[:GRID_ROWS]
    grid = {"svc__C": [1.0, 10.0, 100.0, 1000.0], "svc__gamma": [a / X.shape[1] for a in (0.03, 0.1, 0.3, 1.0)]}
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=5, refit=False).fit(X[some], y[some])
    return make_pipeline(StandardScaler(), SVC()).set_params(**search.best_params_).fit(X, y)


def compared(name: str, share: float = 1.0) -> list[float]:
    """Error and CPU seconds of `LSSVC()` and of the tuned `SVC`."""
    X, new, y, y_new = train_test_split(*made(name, share), test_size=0.2, random_state=0)
    fits: list[Callable[[], Any]] = [lambda: LSSVC().fit(X, y), lambda: tuned_svc(X, y)]
    found = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for fit in fits:
            start = time.process_time()
            model = fit()
            taken = time.process_time() - start
            found += [float(np.mean(model.predict(new) != y_new)), taken]
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    options = parser.parse_args(arguments)
    rows = []
    for name in options.sets:
        error, seconds, svc_error, svc_seconds = compared(name, options.share)
        classes = 2 if SETS[name] is None else SETS[name][4]
        rows.append([f"{name}, {classes}", f"{error:.3f}", f"{svc_error:.3f}", f"{seconds:.1f}", f"{svc_seconds:.1f}"])
    head = ["rows x columns, classes", "error: lssvm", "tuned SVC", "CPU seconds: lssvm", "tuned SVC"]
    table(head, rows)


if __name__ == "__main__":
    main()
