"""Robust weights for classification with wrong labels, compared with other rules for the weights.

    python -m benchmarks.robust_classes               about fifteen minutes on one core
    python -m benchmarks.robust_classes --splits 1    a quick look

Half of the rows are for training, and a share of their labels is replaced by another class; the test labels are right.
Prints, as Markdown, the mean change of the log loss on the test rows against the model without robust weights (less
than 0 is better) with its standard error over the splits, and the share of the training rows whose weight is below 1/2.

The rule of `LSSVC(robust=...)` weights residuals of the -1/+1 codes. The others use leave-one-out margins m: half the
difference between the decision value of the label and that of the best other class, in units of their robust scale.
"wrong side" weights 1 - m, the residual, where m < 0, and "far on the wrong side" weights -m there; rows on the right
side keep their weight. The weights are given as sample weights, twice, each time with kernel width and C chosen anew.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_blobs, make_circles, make_moons
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from lssvm import LSSVC, datasets, kernels, robust

FLIPPED = (0.0, 0.05, 0.1)
FUNCTIONS = {"hampel": robust.Hampel(), "huber": robust.Huber()}
ROUNDS = 2


def sets() -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    yield "iris", load_iris(return_X_y=True)
    yield "wine", load_wine(return_X_y=True)
    yield "breast cancer", load_breast_cancer(return_X_y=True)
    yield "Ripley", datasets.load_ripley(return_X_y=True)
    yield "moons", make_moons(400, noise=0.3, random_state=0)
    yield "circles", make_circles(400, noise=0.15, factor=0.5, random_state=0)
    yield "three blobs", make_blobs(450, centers=3, cluster_std=2.5, random_state=3)


def margins(model: LSSVC, codes: np.ndarray) -> np.ndarray:
    """Leave-one-out margins of the training rows; 1 if the codes are fitted exactly."""
    if model.loo_residuals_.ndim == 1:
        return 1.0 - (2 * codes - 1) * model.loo_residuals_
    rows = np.arange(len(codes))
    decision = np.full(model.loo_residuals_.shape, -1.0)
    decision[rows, codes] = 1.0
    decision -= model.loo_residuals_
    own = decision[rows, codes].copy()
    decision[rows, codes] = -np.inf
    return (own - decision.max(axis=1)) / 2.0


def by_margins(function: Any, residual: float, start: LSSVC, X: np.ndarray, codes: np.ndarray) -> LSSVC:
    """The model with weights for the residuals `residual` - m if the leave-one-out margin m < 0, else 0."""
    model = start
    for _ in range(ROUNDS):
        m = margins(model, codes)
        weights = function.from_scales(np.where(m < 0.0, residual - m, 0.0), function.scales(m))
        model = LSSVC(kernels.RBF()).fit(X, codes, weights)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=6)
    splits = parser.parse_args().splits
    warnings.simplefilter("ignore")  # C at the edge of its range
    names = [f"{function}, {rule}" for function in FUNCTIONS for rule in ("residuals", "wrong side", "far")]
    print("| set | labels flipped | log loss without | " + " | ".join(names) + " |")
    print("| --- |" + " ---: |" * (2 + len(names)))
    for name, (X, y) in sets():
        codes = np.unique(y, return_inverse=True)[1]
        classes = int(codes.max()) + 1
        for share in FLIPPED:
            plain, changes, down = [], [], []
            for split in range(splits):
                train, test = train_test_split(np.arange(len(X)), test_size=0.5, stratify=codes, random_state=split)
                draw = np.random.default_rng(split)
                wrong = draw.choice(len(train), round(share * len(train)), replace=False)
                labels = codes[train].copy()
                labels[wrong] = (labels[wrong] + draw.integers(1, classes, len(wrong))) % classes
                start = LSSVC(kernels.RBF()).fit(X[train], labels)
                models = []
                for function in FUNCTIONS.values():
                    models.append(LSSVC(kernels.RBF(), robust=function).fit(X[train], labels))
                    models += [by_margins(function, residual, start, X[train], labels) for residual in (1.0, 0.0)]
                losses = [log_loss(codes[test], model.predict_proba(X[test])) for model in (start, *models)]
                plain.append(losses[0])
                changes.append(np.array(losses[1:]) - losses[0])
                down.append([float(np.mean(model.weights_ < 0.5)) for model in models])
            errors = np.std(changes, axis=0) / np.sqrt(max(splits - 1, 1))
            columns = zip(np.mean(changes, axis=0), errors, np.mean(down, axis=0), strict=True)
            cells = [f"{change:+.3f} ± {error:.3f} ({below:.0%})" for change, error, below in columns]
            print(f"| {name} | {share:.0%} | {np.mean(plain):.3f} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
