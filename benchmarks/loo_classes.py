"""Leave-one-out values of classifiers in closed form, against refits without the row.

    python -m benchmarks.loo_classes [--problems 24]

Problems of 20 to 60 rows and two classes that overlap more or less, with RBF, Matern and linear kernels, a C from 0.1
to 1000 and, in every third problem, sample weights. Prints, as Markdown, for each loss the root-mean-square and the
largest difference of decision values, the same of probabilities 1/(1 + exp(-f)), and what the log loss of the closed
form is off by. The basis is all rows ("dense") or every third row, which stays when its row is left out.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import expit

from lssvm import kernels
from lssvm.losses import LOSSES
from lssvm.system import Binary, BinaryProblem

from .tuning import table


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Inputs, targets, weights, kernel matrix and C."""
    draw = np.random.RandomState(seed)
    rows, columns = draw.randint(20, 61), draw.randint(1, 5)
    t = np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    X = draw.normal(size=(rows, columns)) + draw.uniform(0.2, 1.2) * t[:, None]
    weights = draw.uniform(0.5, 2.0, rows) if seed % 3 == 2 else np.ones(rows)
    width = np.sqrt(columns) * draw.uniform(0.7, 3.0)
    kernel = [kernels.RBF(width), kernels.Matern(width), kernels.Linear()][seed // 2 % 3]
    return X, t, weights, kernel(X), float(10.0 ** draw.uniform(-1.0, 3.0))


def differences(seed: int, loss: str, dense: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave-one-out values in closed form, those of refits, and the targets."""
    _, t, weights, K, C = problem(seed)
    if dense:

        def fit(v: np.ndarray) -> Binary:
            return BinaryProblem(t, v, C, LOSSES[loss]).solve(K)
    else:
        basis = np.arange(0, len(t), 3)
        d, Q = np.linalg.eigh(K[np.ix_(basis, basis)])
        kept = d > 1e-10 * d[-1]
        phi = K[:, basis] @ (Q[:, kept] / np.sqrt(d[kept]))

        def fit(v: np.ndarray) -> Binary:
            return BinaryProblem(t, v, C, LOSSES[loss]).solve(phi, dual=False)

    closed = np.asarray(fit(weights).loo)
    refits = [fit(np.where(np.arange(len(t)) == i, 0.0, weights)).decision[i] for i in range(len(t))]
    return closed, np.array(refits), t


def accuracy(loss: str, seeds: range, *, dense: bool = True) -> dict[str, float]:
    """Differences over all rows of all problems, and the largest error of a problem's mean log loss."""
    closed, refits, t = (list(part) for part in zip(*(differences(seed, loss, dense) for seed in seeds), strict=True))
    f = np.concatenate(closed) - np.concatenate(refits)
    p = expit(np.concatenate(closed)) - expit(np.concatenate(refits))
    losses = [
        abs(np.mean(np.logaddexp(0.0, -t * a)) - np.mean(np.logaddexp(0.0, -t * b)))
        for a, b, t in zip(closed, refits, t, strict=True)
    ]
    return {
        "rows": len(f),
        "f, root mean square": float(np.sqrt(np.mean(f**2))),
        "f, largest": float(np.abs(f).max()),
        "f of refits, root mean square": float(np.sqrt(np.mean(np.concatenate(refits) ** 2))),
        "probability, root mean square": float(np.sqrt(np.mean(p**2))),
        "probability, largest": float(np.abs(p).max()),
        "log loss of a problem, median": float(np.median(losses)),
        "log loss of a problem, largest": float(np.max(losses)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=24)
    options = parser.parse_args()
    rows: list[list[str]] = []
    for dense in (True, False):
        for loss in LOSSES:
            found = accuracy(loss, range(options.problems), dense=dense)
            rows.append(
                [loss, "all rows" if dense else "every third row", *(f"{value:.3g}" for value in found.values())]
            )
    table(["loss", "basis", *found], rows)


if __name__ == "__main__":
    main()
