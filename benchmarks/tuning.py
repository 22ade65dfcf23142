"""Tuning compared with other packages: time and held-out error on the same data in the same run.

    python -m benchmarks.tuning search      20 widths x 30 values of C, against grid searches (parts are extrapolated)
    python -m benchmarks.tuning sets        complete fits with the defaults, against tuned peers
    python -m benchmarks.tuning widths      one width per column against one common width, on 36 small sets
    python -m benchmarks.tuning outliers    robust tuning on data with gross outliers

`sets --data FOLDER` adds regression sets from FOLDER/<name>.npz: X with the target as its last column, and m whose
columns are True for the test rows of a split. SVR is tuned on up to 2000 rows of the first split; neo-ls-svm is
included if it is installed; slow peers are run on the first split only. Prints Markdown.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import datasets as bundled
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as GPRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from lssvm import LSSVC, LSSVR, arrays, datasets
from lssvm.arrays.threads import parallel_for
from lssvm.kernels import RBF, Choice, Matern
from lssvm.problem import Problem
from lssvm.tune.choose_C import loo_errors

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def friedman(rows: int, seed: int, columns: int = 20) -> Split:
    X, y = bundled.make_friedman1(rows, columns, noise=1.0, random_state=seed)
    new, truth = bundled.make_friedman1(2000, columns, noise=0.0, random_state=seed + 1000)
    return X, y, new, truth


# The same grid --------------------------------------------------------------------------------------------------------
def whole_grid(
    X: np.ndarray, y: np.ndarray, n: int | None, widths: np.ndarray, ridges: np.ndarray
) -> tuple[float, float, float]:
    """The smallest leave-one-out error, in units of `loo_errors`, its width and ridge; the basis is n rows, or all."""
    basis = None if n is None else np.random.RandomState(0).permutation(len(y))[:n]
    found: list[tuple[float, float, float]] = []

    def try_width(width: float) -> None:
        problem = Problem(RBF(width), X, y[:, None], np.ones(len(y)), support=basis)
        factor = problem.factorise(1.0 / ridges[0], every=True, quick=True)
        found.extend(zip(loo_errors(factor, 1.0 / ridges), [width] * len(ridges), ridges, strict=True))

    if n is None:  # an eigendecomposition does not use all cores; products with a basis do
        parallel_for(try_width, widths.tolist())
    else:
        for width in widths.tolist():
            try_width(width)
    return min(found)


def search() -> None:
    """20 widths x 30 ridges with exact leave-one-out, and what a grid search would take."""
    widths, ridges = np.geomspace(1.0, 20.0, 20), np.geomspace(1e-4, 1e2, 30)
    rows = []
    for size, n in ((1000, None), (20_000, 500)):
        X, y, new, truth = friedman(size, 0)
        with arrays.single_threaded_blas():  # as in fit
            taken, (_, width, ridge) = seconds(lambda X=X, y=y, n=n: whole_grid(X, y, n, widths, ridges))
        rmse = held_out(LSSVR(RBF(width), C=1 / ridge, steps=[]), (X, y, new, truth)) if n is None else None
        rows.append(
            [f"l = {size}, n = {n or 'all'}", "lssvm", f"{taken:.1f}", "1", "" if rmse is None else f"{rmse:.3f}"]
        )
        if n is None:
            peer = KernelRidge(kernel="rbf", gamma=1 / width**2, alpha=ridge)
            one, _ = seconds(lambda X=X, y=y, peer=peer: cross_val_score(peer, X, y, cv=10))
            rows.append(
                ["", "GridSearchCV(KernelRidge), 10-fold", f"{600 * one:.0f} *", f"{600 * one / taken:.0f}", ""]
            )
            continue
        nystroem = Nystroem(gamma=1 / width**2, n_components=n, random_state=0)
        one, _ = seconds(lambda X=X, y=y, nystroem=nystroem: make_pipeline(nystroem, RidgeCV(alphas=ridges)).fit(X, y))
        rows.append(["", "Nystroem + RidgeCV, loop over widths", f"{20 * one:.0f} *", f"{20 * one / taken:.0f}", ""])
        pipe = make_pipeline(nystroem, Ridge(alpha=ridge))
        one, _ = seconds(lambda X=X, y=y, pipe=pipe: cross_val_score(pipe, X, y, cv=10))
        rows.append(
            ["", "GridSearchCV(Nystroem + Ridge), 10-fold", f"{600 * one:.0f} *", f"{600 * one / taken:.0f}", ""]
        )
    table(["problem", "search", "seconds", "times ours", "test RMSE"], rows)
    print("\\* one of the 20 widths, or one of the 600 points, was run and the time extrapolated.\n")


# Whole fits -----------------------------------------------------------------------------------------------------------
def held_out(model: Any, split: Split) -> float:
    X, y, new, truth = split
    return float(np.sqrt(np.mean((np.asarray(model.fit(X, y).predict(new)) - truth) ** 2)))


def svr_options(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """C, gamma and epsilon with the smallest five-fold error on up to 2000 rows."""
    grid = {"svr__C": [1, 10, 100], "svr__gamma": np.geomspace(0.003, 3, 7), "svr__epsilon": [0.01, 0.1]}
    few = np.random.RandomState(0).permutation(len(y))[:2000]
    found = GridSearchCV(make_pipeline(StandardScaler(), SVR()), grid, cv=5).fit(X[few], y[few])
    return {name.removeprefix("svr__"): value for name, value in found.best_params_.items()}


def kernel_ridge() -> Any:
    grid = {"kernelridge__alpha": np.geomspace(1e-4, 10, 6), "kernelridge__gamma": np.geomspace(0.003, 3, 6)}
    return GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=10, n_jobs=1)


def gaussian_process(columns: int) -> Any:
    kernel = ConstantKernel(1.0) * GPRBF(np.ones(columns)) + WhiteKernel()
    return make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True))


def nystroem() -> Any:
    pipe = make_pipeline(
        StandardScaler(), Nystroem(n_components=500, random_state=0), RidgeCV(alphas=np.geomspace(1e-4, 10, 12))
    )
    return GridSearchCV(pipe, {"nystroem__gamma": np.geomspace(0.003, 3, 6)}, cv=3, n_jobs=1)


def neo() -> Any:
    from neo_ls_svm import NeoLSSVM

    return make_pipeline(StandardScaler(), NeoLSSVM())


def from_folder(folder: Path, split: int) -> Iterator[tuple[str, Split]]:
    for path in sorted(folder.glob("*.npz")):
        file = np.load(path)
        values, test = file["X"].astype(float), file["m"][:, split]
        scaled = (values - values[~test].mean(axis=0)) / np.where(
            values[~test].std(axis=0) > 0, values[~test].std(axis=0), 1
        )
        yield path.stem, (scaled[~test, :-1], scaled[~test, -1], scaled[test, :-1], scaled[test, -1])


def named(name: str, split: int, folder: Path | None) -> Split:
    """A set by name: from the folder, or "Friedman, ROWS x 20"."""
    if name.startswith("Friedman"):
        return friedman(int(name.split()[1]), split)
    assert folder is not None
    return dict(from_folder(folder, split))[name]


def one_fit(contender: str, name: str, split: int, folder: Path | None, options: Any) -> tuple[float, float]:
    """Held-out RMSE and seconds of one contender on one split."""
    parts = named(name, split, folder)
    make = {
        "LSSVR()": LSSVR,
        "SVR": lambda: make_pipeline(StandardScaler(), SVR(cache_size=2000, **options)),
        "GridSearchCV(KernelRidge)": kernel_ridge,
        "GaussianProcessRegressor, ARD": lambda: gaussian_process(parts[0].shape[1]),
        "Nystroem + RidgeCV, grid": nystroem,
        "neo-ls-svm": neo,
    }[contender]
    taken, error = seconds(lambda: held_out(make(), parts))
    return error, taken


def sets(folder: Path | None, splits: int, jobs: int, only: list[str]) -> None:
    """Held-out RMSE and time of complete fits, averaged over the splits."""
    names = [f"Friedman, {rows} x 20" for rows in (500, 1000, 20_000)]
    names += [name for name, _ in from_folder(folder, 0)] if folder else []
    names = only or names
    tasks = []
    for name in names:
        X, y, *_ = named(name, 0, folder)
        rows = len(y)
        contenders = ["LSSVR()", "SVR", *(["neo-ls-svm"] if find_spec("neo_ls_svm") else [])]
        for contender in contenders:
            options = svr_options(X, y) if contender == "SVR" else None
            tasks += [(contender, name, split, folder, options) for split in range(splits)]
        slow = ["GridSearchCV(KernelRidge)"] if rows <= 1500 else ["Nystroem + RidgeCV, grid"]
        slow += ["GaussianProcessRegressor, ARD"] if rows <= 1000 else []
        tasks += [(contender, name, 0, folder, None) for contender in slow]
    tasks.sort(key=lambda task: -len(named(task[1], 0, folder)[1]))
    results: dict[tuple[str, str], list[tuple[float, float]]] = {}
    runs = Parallel(jobs, return_as="generator")(delayed(one_fit)(*task) for task in tasks)
    for task, result in zip(tasks, runs, strict=True):
        results.setdefault((task[1], task[0]), []).append(result)
        print(f"<!-- {task[1]} {task[0]} split {task[2]}: {result[0]:.4f} in {result[1]:.2f} s -->", flush=True)
    rows_out = []
    for (name, contender), found in sorted(results.items()):
        errors, times = np.array(found).T
        spread = f" ± {errors.std():.3f}" if len(found) > 1 else ""
        rows_out.append([name, contender, f"{errors.mean():.3f}{spread}", f"{times.mean():.1f}", str(len(found))])
    table(["set", "model", "held-out RMSE", "seconds", "splits"], rows_out)


# One width per column -------------------------------------------------------------------------------------------------
def shuffled(X: np.ndarray, y: np.ndarray, seed: int, most: int = 700) -> Split:
    order = np.random.default_rng(seed).permutation(len(X))
    size = min(int(0.7 * len(X)), most)
    train, test = order[:size], order[size : size + 2000]
    return X[train], y[train], X[test], y[test]


def planted(f: Callable[[np.ndarray], np.ndarray], columns: int, noise: float, rows: int) -> Callable[[int], Split]:
    """Uniform inputs; noise in units of the function's standard deviation; noise-free test targets."""

    def make(seed: int) -> Split:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (rows + 2000, columns))
        y = f(X)
        noisy = y[:rows] + noise * (y.std() or 1.0) * rng.standard_normal(rows)
        return X[:rows], noisy, X[rows:], y[rows:]

    return make


def bumps(columns: int) -> Callable[[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(5)
    centres, heights = rng.uniform(-1, 1, (20, columns)), rng.standard_normal(20)
    return lambda X: np.exp(-((X[:, None, :] - centres) ** 2).sum(axis=2) / (0.5 * columns)) @ heights


def paper_data(name: str) -> tuple[np.ndarray, np.ndarray]:
    with (Path(__file__).parent.parent / "papers" / "data" / f"{name}.csv").open() as file:
        rows = list(csv.reader(file))[1:]
    y = np.array([row[-1] for row in rows])
    return np.array([row[:-1] for row in rows], dtype=float), y.astype(float) if name == "boston" else y


def small_sets() -> tuple[dict[str, Callable[[int], Split]], dict[str, Callable[[int], Split]]]:
    """Regression and classification sets of at most 700 training rows, each a function of a seed."""
    direction = np.random.default_rng(99).standard_normal(10)
    direction /= np.linalg.norm(direction)
    wine, iris, cancer = bundled.load_wine(), bundled.load_iris(), bundled.load_breast_cancer()
    made = {
        f"friedman{kind} {d}": lambda s, f=f, d=d, e=e: shuffled(*f(1200, *d, noise=e, random_state=s), s, 200)
        for kind, f, d, e in (
            (1, bundled.make_friedman1, (5,), 1.0),
            (1, bundled.make_friedman1, (20,), 1.0),
            (1, bundled.make_friedman1, (50,), 1.0),
            (2, bundled.make_friedman2, (), 100.0),
            (3, bundled.make_friedman3, (), 0.1),
        )
    }
    numbers: dict[str, Callable[[int], Split]] = {
        "diabetes": lambda s: shuffled(*bundled.load_diabetes(return_X_y=True), s),
        "motorcycle": lambda s: shuffled(*datasets.load_motorcycle(return_X_y=True), s),
        "boston": lambda s: shuffled(*paper_data("boston"), s),
        "wine: alcohol": lambda s: shuffled(wine.data[:, 1:], wine.data[:, 0], s),
        "iris: petal width": lambda s: shuffled(iris.data[:, :3], iris.data[:, 3], s),
        "cancer: smoothness": lambda s: shuffled(np.delete(cancer.data[:, :10], 4, axis=1), cancer.data[:, 4], s),
        **made,
        "linear, 3 of 30": planted(lambda X: X[:, 0] - 2 * X[:, 1] + X[:, 2], 30, 0.5, 100),
        "linear, 10": planted(lambda X: X @ direction, 10, 0.5, 100),
        "additive, 3 of 6": planted(lambda X: np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + np.abs(X[:, 2]), 6, 0.3, 200),
        "sinc": planted(lambda X: np.sinc(3 * X[:, 0]), 1, 0.3, 100),
        "sinc, 1 of 5": planted(lambda X: np.sinc(3 * X[:, 0]), 5, 0.3, 100),
        "bumps, 3": planted(bumps(3), 3, 0.2, 150),
        "bumps, 8": planted(bumps(8), 8, 0.2, 200),
        "bumps, 8, few rows": planted(bumps(8), 8, 0.3, 60),
        "ridge function, 10": planted(lambda X: np.sin(4 * X @ direction), 10, 0.2, 200),
        "noise, 10": planted(lambda X: 0 * X[:, 0], 10, 1.0, 100),
        "norm, 5": planted(lambda X: np.linalg.norm(X, axis=1), 5, 0.2, 150),
        "steps, 3 of 4": planted(lambda X: np.sign(X[:, 0]) + np.sign(X[:, 1] * X[:, 2]), 4, 0.2, 200),
    }

    def moons(seed: int, extra: int) -> Split:
        X, y = bundled.make_moons(1200, noise=0.25, random_state=seed)
        return shuffled(np.hstack([X, np.random.default_rng(seed).standard_normal((1200, extra))]), y, seed, 200)

    def xor(seed: int) -> Split:
        X, y, new, truth = planted(lambda X: X[:, 0] * X[:, 1], 8, 0.3, 200)(seed)
        return X, y > 0, new, truth > 0

    ripley = (*datasets.load_ripley(return_X_y=True), *datasets.load_ripley(subset="test", return_X_y=True))
    classes: dict[str, Callable[[int], Split]] = {
        "iris": lambda s: shuffled(iris.data, iris.target, s),
        "wine": lambda s: shuffled(wine.data, wine.target, s),
        "cancer": lambda s: shuffled(cancer.data, cancer.target, s),
        "digits": lambda s: shuffled(*bundled.load_digits(return_X_y=True), s, 400),
        "moons": lambda s: moons(s, 0),
        "moons, 2 of 10": lambda s: moons(s, 8),
        "xor, 2 of 8": xor,
        "Ripley": lambda s: ripley,
        "Pima": lambda s: shuffled(*paper_data("pima"), s),
        "Ionosphere": lambda s: shuffled(*paper_data("ionosphere"), s),
        "tic-tac-toe": lambda s: shuffled(*datasets.load_tictactoe(return_X_y=True), s),
        "6 of 20": lambda s: shuffled(
            *bundled.make_classification(1200, 20, n_informative=4, n_redundant=2, random_state=s), s, 300
        ),
        "8 of 8": lambda s: shuffled(
            *bundled.make_classification(1200, 8, n_informative=8, n_redundant=0, random_state=s), s, 300
        ),
    }
    return numbers, classes


def widths(splits: int) -> None:
    """The default compared with the same model with one common width."""
    numbers, classes = small_sets()
    for what, group, common, default in (
        ("RMSE / std(y)", numbers, lambda: LSSVR(Choice([RBF(), Matern()])), LSSVR),
        ("error rate", classes, lambda: LSSVC(RBF()), LSSVC),
    ):
        rows, ratios = [], []
        for name, make in group.items():
            errors: list[list[float]] = [[], []]
            for seed in range(splits):
                X, y, new, truth = make(seed)
                for place, model in enumerate((common, default)):
                    predicted = model().fit(X, y).predict(new)
                    if what == "error rate":
                        errors[place].append(float(np.mean(predicted != truth)))
                    else:
                        errors[place].append(float(np.sqrt(np.mean((predicted - truth) ** 2)) / (truth.std() or 1.0)))
            means = np.mean(errors, axis=1)
            ratios.append(np.log(max(means[1], 1e-3) / max(means[0], 1e-3)))
            rows.append([name, f"{len(X)} x {X.shape[1]}", f"{means[0]:.3f}", f"{means[1]:.3f}"])
        rows.append(["geometric mean of the ratios", "", "1", f"{np.exp(np.mean(ratios)):.3f}"])
        table(["set", "training rows", f"one width: {what}", "default"], rows)


def outliers(splits: int) -> None:
    """Robust tuning with 5 % of the targets shifted by 10 standard deviations, compared with tuning on clean data."""
    rows = []
    for name, make in (
        ("sinc", planted(lambda X: np.sinc(3 * X[:, 0]), 1, 0.1, 200)),
        ("bumps, 3", planted(bumps(3), 3, 0.1, 300)),
        ("Friedman, 5", lambda s: friedman(300, s, 5)),
    ):
        errors = []
        for seed in range(splits):
            X, y, new, truth = make(seed)
            rng = np.random.default_rng(seed)
            dirty = y.copy()
            dirty[rng.choice(len(y), len(y) // 20, replace=False)] += 10 * y.std()
            errors.append(
                [
                    held_out(model, (X, target, new, truth))
                    for target in (y, dirty)
                    for model in (LSSVR(), LSSVR(robust="hampel"))
                ]
            )
        means = np.mean(errors, axis=0)
        rows.append(
            [name, *(f"{mean:.4f}" for mean in means), f"{means[3] / means[1]:.3f}", f"{means[3] / means[0]:.3f}"]
        )
    heads = ["clean", "clean, robust", "5 % outliers", "5 % outliers, robust"]
    table(["set", *heads, "robust: outliers / clean", "robust, outliers / clean, not robust"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["search", "sets", "widths", "outliers"])
    parser.add_argument("--data", type=Path, help="folder of regression sets (.npz)")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="parallel fits in `sets`, each on a share of the cores")
    parser.add_argument("--only", action="append", default=[], help="a set of `sets`; may be repeated")
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if arguments.study == "search":
            search()
        elif arguments.study == "sets":
            sets(arguments.data, arguments.splits, arguments.jobs, arguments.only)
        elif arguments.study == "widths":
            widths(arguments.splits)
        else:
            outliers(arguments.splits)


if __name__ == "__main__":
    main()
