"""All sparsifiers on five problems, and the cost of choosing a basis.

    python -m benchmarks.sparsify            about a quarter of an hour on two cores
    python -m benchmarks.sparsify --quick    fewer repetitions, fewer rows: about two minutes

Prints Markdown. Selectors get the same basis size; kernel width and C are tuned by leave-one-out, as by default.
scikit-learn's SVMs are tuned by 5-fold cross-validation over a small grid, columns (and targets) standardised.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import blas
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_friedman1
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from lssvm import LSSVC, LSSVR, arrays, datasets, kernels, sparsify
from lssvm.problem import Problem

Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # X, y, X_test, y_test
Maker = Callable[[int], Any]  # seed -> estimator


@dataclass(frozen=True)
class Study:
    """One table. Each trial is a list of parts, whose test rows are pooled before the error is computed."""

    title: str
    error: str
    trials: list[list[Part]]
    contenders: dict[str, Maker]
    unit: Callable[[np.ndarray, np.ndarray], float]
    digits: int


# Methods --------------------------------------------------------------------------------------------------------------
def selectors(make: Callable[[Any], Any], n: int) -> dict[str, Maker]:
    """Bases that are chosen without a dense model."""
    return {
        f"Random({n})": lambda seed: make([sparsify.Random(n, random_state=seed)]),
        f"RandomlyPivoted({n})": lambda seed: make([sparsify.RandomlyPivoted(n, random_state=seed)]),
        f"FeatureVectors({n})": lambda seed: make([sparsify.FeatureVectors(n)]),
        f"FeatureVectors({n}, candidates=59)": lambda seed: make(
            [sparsify.FeatureVectors(n, candidates=59, random_state=seed)]
        ),
        f"KMeans({n})": lambda seed: make([sparsify.KMeans(n, random_state=seed)]),
        f"Forward({n})": lambda seed: make([sparsify.Forward(n, random_state=seed)]),
    }


def contenders(make: Callable[[Any], Any], n: int, rows: int, tol: float, peer: Any) -> dict[str, Maker]:
    """All methods; those that drop a fraction of the columns keep n of them."""
    share = 1 - (n - 0.5) / rows
    return {
        "dense": lambda seed: make([]),
        **selectors(make, n),
        f'Prune({n}, rows="keep")': lambda seed: make([sparsify.Prune(n, rows="keep")]),
        'Prune(rows="keep")': lambda seed: make([sparsify.Prune(rows="keep")]),
        f'Prune({n}, rows="drop")': lambda seed: make([sparsify.Prune(n, rows="drop")]),
        f'Prune({n}, rows="drop", retune=True)': lambda seed: make([sparsify.Prune(n, rows="drop", retune=True)]),
        f"Echelon(n={n})": lambda seed: make([sparsify.Echelon(n=n)]),
        f"InversePrune({share:.2f})": lambda seed: make([sparsify.InversePrune(share)]),
        f"AdaPinv({share:.2f})": lambda seed: make([sparsify.AdaPinv(share)]),
        f"Adaline(tol={tol:g})": lambda seed: make([sparsify.Adaline(tol=tol)]),
        f"scikit-learn's {peer.__name__.upper()}": peer,
    }


def svr(
    seed: int, C: tuple[float, ...] = (0.3, 3.0, 30.0, 300.0), gamma: tuple[float, ...] = (0.01, 0.1, 1, 10)
) -> Any:
    grid = {"svr__C": C, "svr__gamma": gamma, "svr__epsilon": [0.01, 0.1, 0.3]}
    folds = KFold(5, shuffle=True, random_state=seed)
    pipeline = make_pipeline(StandardScaler(), SVR(cache_size=2000))
    search = GridSearchCV(pipeline, grid, scoring="neg_mean_squared_error", cv=folds)
    return TransformedTargetRegressor(search, transformer=StandardScaler())


def svc(seed: int) -> Any:
    grid = {"svc__C": [0.3, 3.0, 30.0, 300.0], "svc__gamma": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]}
    return GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=KFold(5, shuffle=True, random_state=seed))


class LargeSVR:
    """An SVR on all rows, with a smaller grid searched on 2000 of them: larger C take libsvm many minutes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        best = svr(self.seed, (3.0, 30.0), (0.01, 0.03, 0.1)).fit(X[:2000], y[:2000]).regressor_.best_estimator_
        self.regressor_ = TransformedTargetRegressor(best, transformer=StandardScaler()).fit(X, y)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.regressor_.predict(X)


def basis_size(model: Any) -> int:
    if hasattr(model, "support_vectors_"):
        return len(model.support_vectors_)
    while hasattr(model, "regressor_"):
        model = model.regressor_
    return int(np.sum(getattr(model, "best_estimator_", model)[-1].n_support_))


# Problems -------------------------------------------------------------------------------------------------------------
def root_mean_square(predicted: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def error_rate(predicted: np.ndarray, y: np.ndarray) -> float:
    return float(100 * np.mean(predicted != y))


def motorcycle(repeats: int) -> Study:
    X, y = datasets.load_motorcycle(return_X_y=True)
    trials = []
    for seed in range(repeats):
        folds = KFold(10, shuffle=True, random_state=seed).split(X)
        trials.append([(X[train], y[train], X[test], y[test]) for train, test in folds])
    methods = contenders(lambda steps: LSSVR(steps=steps), 15, 119, 1.0, svr)
    title = f"Motorcycle: 133 rows, 10-fold cross-validation (repetitions: {repeats})"
    return Study(title, "RMSE (g)", trials, methods, root_mean_square, 2)


def ripley(repeats: int) -> Study:
    part = *datasets.load_ripley(return_X_y=True), *datasets.load_ripley(subset="test", return_X_y=True)
    methods = contenders(lambda steps: LSSVC(steps=steps), 20, 250, 0.02, svc)
    title = f"Ripley: 250 training rows, 1000 test rows (seeds: {repeats})"
    return Study(title, "errors (%)", [[part]] * repeats, methods, error_rate, 1)


def tictactoe(repeats: int) -> Study:
    X, y = datasets.load_tictactoe(return_X_y=True)
    trials = []
    for seed in range(repeats):
        order = np.random.RandomState(seed).permutation(len(y))
        train, test = order[:639], order[639:]
        trials.append([(X[train], y[train], X[test], y[test])])
    methods = contenders(lambda steps: LSSVC(steps=steps), 100, 639, 0.02, svc)
    title = f"Tic-tac-toe: 639 training rows, 319 test rows (splits: {repeats})"
    return Study(title, "errors (%)", trials, methods, error_rate, 1)


def sinc(repeats: int) -> Study:
    grid = np.linspace(-5.0, 5.0, 1000)[:, None]
    trials = []
    for seed in range(repeats):
        X, y = datasets.make_sinc(300, outliers=15, random_state=seed)
        trials.append([(X, y, grid, np.sinc(grid[:, 0]))])
    methods: dict[str, Maker] = {"dense, without robust weights": lambda seed: LSSVR(steps=[])}
    methods.update(contenders(lambda steps: LSSVR(steps=steps, robust="hampel"), 20, 300, 0.02, svr))
    title = (
        f'Noisy sinc: 300 rows, 15 of them outliers, robust="hampel"; error on the clean function (draws: {repeats})'
    )
    return Study(title, "RMSE", trials, methods, root_mean_square, 3)


def friedman(repeats: int, rows: int, sizes: tuple[int, int]) -> Study:
    trials = []
    for seed in range(repeats):
        X, y = make_friedman1(rows, 10, noise=1.0, random_state=seed)
        trials.append([(X, y, *make_friedman1(10_000, 10, noise=0.0, random_state=1000 + seed))])
    make = lambda steps: LSSVR(steps=steps)  # noqa: E731
    methods = {}
    for n in sizes:
        methods.update(selectors(make, n))
        del methods[f"FeatureVectors({n})"]  # compares all pairs of rows at every step
    largest = sizes[-1]
    methods[f'Random({2 * largest}), Prune({largest}, rows="keep")'] = lambda seed: make(
        [sparsify.Random(2 * largest, random_state=seed), sparsify.Prune(largest, rows="keep")]
    )
    methods["scikit-learn's SVR"] = LargeSVR
    title = f"Friedman's function: {rows:,} rows, 10 inputs, noise 1; error on the clean function (draws: {repeats})"
    return Study(title, "RMSE", trials, methods, root_mean_square, 3)


# Tables ---------------------------------------------------------------------------------------------------------------
def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    header = list(header)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    print("\n".join("| " + " | ".join(line) + " |" for line in lines))


def run(study: Study) -> None:
    print(f"\n### {study.title}\n")
    rows = []
    for name, make in study.contenders.items():
        errors, seconds, sizes = [], [], []
        for seed, parts in enumerate(study.trials):
            predicted, targets = [], []
            for X, y, X_test, y_test in parts:
                model = make(seed)
                start = time.perf_counter()
                model.fit(X, y)
                seconds.append(time.perf_counter() - start)
                sizes.append(basis_size(model))
                predicted.append(model.predict(X_test))
                targets.append(y_test)
            errors.append(study.unit(np.concatenate(predicted), np.concatenate(targets)))
        spread = f" ± {np.std(errors):.{study.digits}f}" if np.ptp(errors) > 0 else ""
        size = f"{np.mean(sizes):.0f}"
        rows.append([name, size, f"{np.mean(errors):.{study.digits}f}{spread}", f"{np.median(seconds):.2f}"])
        progress(f"{study.title.split(':')[0]}: {' | '.join(rows[-1])}")
    table(["method", "basis", study.error, "seconds per fit"], rows)


def price(rows: int, n: int, repeats: int) -> None:
    """Seconds of the selection alone, kernel and C given, against one DSYRK of rows x n."""
    X, y = make_friedman1(rows, 20, noise=1.0, random_state=0)
    problem = Problem(kernels.RBF(5.0), X, y[:, None], np.ones(rows), C=1.0)
    A = np.random.default_rng(0).standard_normal((rows, n))
    runs: dict[str, Callable[[], object]] = {"DSYRK": lambda: blas.dsyrk(1.0, A.T)}
    steps = {
        "Random": (sparsify.Random(n, random_state=0), ""),
        "RandomlyPivoted": (sparsify.RandomlyPivoted(n, random_state=0), "2"),
        "FeatureVectors, candidates=59": (sparsify.FeatureVectors(n, candidates=59, random_state=0), "3"),
        "KMeans": (sparsify.KMeans(n, random_state=0), ""),
    }
    runs.update({name: partial(step, problem) for name, (step, _) in steps.items()})
    best = dict.fromkeys(runs, np.inf)
    for _ in range(repeats):
        for name, call in runs.items():
            with arrays.single_threaded_blas():  # as in fit
                start = time.perf_counter()
                call()
                best[name] = min(best[name], time.perf_counter() - start)
            progress(f"choosing {n} of {rows:,}: {name} {best[name]:.2f} s")
    print(f"\n### Choosing {n} basis vectors from {rows:,} rows, 20 inputs, kernel and C given\n")
    aims = {name: aim for name, (_, aim) in steps.items()}
    table(
        ["step", "seconds", "in units of one DSYRK", "aim: at most"],
        [[name, f"{best[name]:.2f}", f"{best[name] / best['DSYRK']:.2f}", aims.get(name, "")] for name in runs],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="a part of a study's title: run that one alone")
    arguments = parser.parse_args()
    quick = arguments.quick
    studies = [
        motorcycle(1 if quick else 5),
        ripley(2 if quick else 10),
        tictactoe(1 if quick else 5),
        sinc(2 if quick else 10),
        friedman(1 if quick else 3, 4000 if quick else 20_000, (50, 100) if quick else (100, 500)),
    ]
    wanted = (arguments.only or "").lower()
    for study in studies:
        if wanted in study.title.lower():
            run(study)
    if wanted in "choosing":
        price(*((10_000, 200, 2) if quick else (100_000, 1000, 3)))


if __name__ == "__main__":
    main()
