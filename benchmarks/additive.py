"""Additive LS-SVMs that select their inputs, compared with other additive models.

    python -m benchmarks.additive            20 draws (2 of the wider problem): about a quarter of an hour on one core
    python -m benchmarks.additive --quick    4 draws (1)
    python -m benchmarks.additive --only X   the models with X in their name
    python -m benchmarks.additive --costs    CPU seconds of paths and fusion instead

Prints Markdown. Vapnik's additive function (Pelckmans et al. 2005, eq. 31: inputs 1 to 4 matter), 100 rows, 25 inputs,
and a wider problem of 400 rows and 40 inputs, of which six matter, two of them binary. Errors are those of the
noise-free function on 2000 new rows. pyGAM's smoothness is searched by its own grid search, every input in.
SplineTransformer + LassoCV keeps the inputs that have a coefficient, skglm's GroupLasso (its weight by 5-fold) those
whose group has one. EBM selects nothing: its inputs are those with an
importance above 5 % of the largest; being slow on few rows, it gets a quarter of the draws.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from lssvm import LSSVR, datasets, kernels, sparsify

Fitted = tuple[Callable[[np.ndarray], np.ndarray], list[int] | None]  # predict, inputs kept


# Problems -------------------------------------------------------------------------------------------------------------
def vapnik(seed: int, rows: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    return datasets.make_additive(rows, 25, noise=noise, random_state=seed)


def wide(seed: int, rows: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 40))
    X[:, 30:] = X[:, 30:] > 0.5
    y = (
        3 * np.sin(5 * X[:, 0])
        + 8 * (X[:, 1] - 0.5) ** 2
        + 2 * X[:, 2]
        + np.exp(2 * X[:, 3]) / 2
        + X[:, 30]
        - 2 * X[:, 31]
    )
    return X, y + noise * rng.standard_normal(rows)


# Models ---------------------------------------------------------------------------------------------------------------
def additive_model(kernel: Any, steps: Any) -> Callable[[np.ndarray, np.ndarray, int], Fitted]:
    def fit(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
        chosen = [step.set_params(random_state=seed) for step in steps]
        model = LSSVR(kernel, steps=chosen).fit(X, y)
        return model.predict, model.active_.tolist()

    return fit


def spline_lasso(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    spline = SplineTransformer(n_knots=5, include_bias=False)
    model = make_pipeline(spline, StandardScaler(), LassoCV(cv=5, random_state=seed, max_iter=50_000)).fit(X, y)
    per_input = model[-1].coef_.reshape(X.shape[1], -1)
    return model.predict, np.flatnonzero(np.abs(per_input).sum(axis=1) > 0).tolist()


def spline_group_lasso(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    from skglm import GroupLasso

    spline = make_pipeline(SplineTransformer(n_knots=5, include_bias=False), StandardScaler()).fit(X)
    columns = spline.transform(X)
    lasso = GroupLasso(groups=columns.shape[1] // X.shape[1], fit_intercept=True)
    folds = KFold(5, shuffle=True, random_state=seed)
    model = GridSearchCV(lasso, {"alpha": np.geomspace(0.01, 2, 20)}, cv=folds).fit(columns, y)
    per_input = model.best_estimator_.coef_.reshape(X.shape[1], -1)
    kept = np.flatnonzero(np.abs(per_input).sum(axis=1) > 0).tolist()
    return lambda new: model.predict(spline.transform(new)), kept


def gam(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    from pygam import LinearGAM

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        model = LinearGAM(n_splines=5).gridsearch(X, y, lam=np.geomspace(1e-2, 1e4, 13), progress=False)
    return model.predict, None


def boosted(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    from interpret.glassbox import ExplainableBoostingRegressor

    model = ExplainableBoostingRegressor(interactions=0, n_jobs=1, random_state=seed).fit(X, y)
    importance = model.term_importances()
    return model.predict, np.flatnonzero(importance > 0.05 * importance.max()).tolist()


MODELS: dict[str, Callable[[np.ndarray, np.ndarray, int], Fitted]] = {
    "LSSVR, Additive(Spline()), all inputs": additive_model(kernels.Additive(kernels.Spline()), []),
    "+ Components()": additive_model(kernels.Additive(kernels.Spline()), [sparsify.Components()]),
    "+ Components(validation=None)": additive_model(
        kernels.Additive(kernels.Spline()), [sparsify.Components(validation=None)]
    ),
    "+ Components(refit=False), fusion": additive_model(
        kernels.Additive(kernels.Spline()), [sparsify.Components(refit=False)]
    ),
    "LSSVR, Additive(Polynomial(3)) + Components()": additive_model(
        kernels.Additive(kernels.Polynomial(3)), [sparsify.Components()]
    ),
    "LSSVR, Additive(RBF(ard=True))": additive_model(kernels.Additive(kernels.RBF(ard=True)), []),
    "pyGAM, LinearGAM grid search": gam,
    "SplineTransformer + LassoCV": spline_lasso,
    "SplineTransformer + GroupLasso (skglm)": spline_group_lasso,
    "EBM (interpret), no interactions": boosted,
}


def study(
    title: str, make: Callable[[int, int, float], Any], rows: int, matter: set[int], draws: int, only: str
) -> None:
    print(f"\n### {title} ({draws} draws)\n")
    print("| model | error (mean square) | exactly the right inputs | all of them | inputs kept | CPU s per fit |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name, fit in MODELS.items():
        if only.lower() not in name.lower():
            continue
        errors, seconds, kept = [], [], []
        try:
            for seed in range(max(draws // 4, 1) if name.startswith("EBM") else draws):
                X, y = make(seed, rows, 1.0)
                new, clean = make(10_000 + seed, 2000, 0.0)
                start = time.process_time()
                predict, inputs = fit(X, y, seed)
                seconds.append(time.process_time() - start)
                errors.append(np.mean((predict(new) - clean) ** 2))
                kept.append(inputs)
        except ImportError as error:
            print(f"| {name} | not installed: {error.name} | | | | |", flush=True)
            continue
        sets = [set(inputs) for inputs in kept if inputs is not None]
        exact, complete = sum(s == matter for s in sets), sum(s >= matter for s in sets)
        counts = f"{exact} | {complete} | {np.mean([len(s) for s in sets]):.1f}" if sets else "- | - | all"
        name += f" ({len(errors)} draws)" if len(errors) < draws else ""
        print(f"| {name} | {np.mean(errors):.3f} | {counts} | {np.mean(seconds):.2f} |", flush=True)


def cpu_seconds(model: LSSVR, X: np.ndarray, y: np.ndarray) -> float:
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def costs() -> None:
    """The cost of a path, of fusion and of a single weight, for a fixed C."""
    X, y = vapnik(0, 100, 1.0)
    parts = (kernels.Spline(), kernels.Polynomial(3), kernels.RBF(0.5))
    print("| what | CPU seconds |\n| --- | ---: |")
    for what, step in (
        ("one rho", sparsify.Components(rho=20.0, random_state=0)),
        ("30 values of rho and the exact pieces around the best, refitted", sparsify.Components(random_state=0)),
        ("fusion", sparsify.Components(refit=False, random_state=0)),
    ):
        taken = [cpu_seconds(LSSVR(kernels.Additive(part), C=1.0, steps=[step]), X, y) for part in parts]
        print(
            f"| 100 rows, 25 inputs, {what}: Spline / Polynomial(3) / RBF | {' / '.join(f'{t:.2f}' for t in taken)} |"
        )
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 100))
    y = np.sin(4 * X[:, :4]).sum(axis=1) + 0.5 * rng.standard_normal(2000)
    model = LSSVR(kernels.Additive(kernels.Spline(4)), C=1.0, steps=[sparsify.Components(rho=100.0)])
    print(f"| 2000 rows, 100 inputs, rank 4, one rho | {cpu_seconds(model, X, y):.1f} |", flush=True)
    for inputs, sigma in ((1, 1.0), (2, 1.0), (5, 3.0), (10, 6.0), (10, 3.0), (10, 2.0)):
        X = rng.standard_normal((2000, inputs))
        y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(2000)
        model = LSSVR(kernels.RBF(sigma), C=1.0, steps=[sparsify.Substrate(random_state=0)])
        taken = cpu_seconds(model, X, y)
        print(
            f"| substrate path, 2000 rows, {inputs} input{'s' if inputs > 1 else ''}, sigma {sigma:g} | {taken:.1f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="4 draws instead of 20")
    parser.add_argument("--only", default="", help="a part of the names of the models to run")
    parser.add_argument("--costs", action="store_true", help="CPU seconds of paths and fusion instead")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.costs:
        costs()
        return
    draws, only = 4 if arguments.quick else 20, arguments.only
    study("Vapnik's function: 100 rows, 25 inputs, noise 1", vapnik, 100, {0, 1, 2, 3}, draws, only)
    matter = {0, 1, 2, 3, 30, 31}
    study("400 rows, 40 inputs, 10 of them binary, noise 1", wide, 400, matter, max(draws // 10, 1), only)


if __name__ == "__main__":
    main()
