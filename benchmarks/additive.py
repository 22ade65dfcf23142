"""Additive machines that select their inputs, side by side with other additive models.

    python -m benchmarks.additive            20 draws (2 of the wider problem): about a quarter of an hour on one core
    python -m benchmarks.additive --quick    4 draws (1)

Prints Markdown. Vapnik's additive function (Pelckmans et al. 2005, eq. 31: inputs 1 to 4 matter), 100 rows, 25 inputs,
and a wider problem of 400 rows and 40 inputs, of which six matter, two of them binary. Errors are those of the
noise-free function on 2000 new rows. pyGAM's smoothness is searched by its own grid search, every input in.
SplineTransformer + LassoCV keeps the inputs that have a coefficient. EBM selects nothing: its inputs are those with an
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
def machine(kernel: Any, steps: Any) -> Callable[[np.ndarray, np.ndarray, int], Fitted]:
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
    "LSSVR, Additive(Spline()), all inputs": machine(kernels.Additive(kernels.Spline()), []),
    "+ Components()": machine(kernels.Additive(kernels.Spline()), [sparsify.Components()]),
    "+ Components(validation=None)": machine(
        kernels.Additive(kernels.Spline()), [sparsify.Components(validation=None)]
    ),
    "+ Components(refit=False), fusion": machine(
        kernels.Additive(kernels.Spline()), [sparsify.Components(refit=False)]
    ),
    "LSSVR, Additive(Polynomial(3)) + Components()": machine(
        kernels.Additive(kernels.Polynomial(3)), [sparsify.Components()]
    ),
    "LSSVR, Additive(RBF(ard=True))": machine(kernels.Additive(kernels.RBF(ard=True)), []),
    "pyGAM, LinearGAM grid search": gam,
    "SplineTransformer + LassoCV": spline_lasso,
    "EBM (interpret), no interactions": boosted,
}


def study(title: str, make: Callable[[int, int, float], Any], rows: int, matter: set[int], draws: int) -> None:
    print(f"\n### {title} ({draws} draws)\n")
    print("| model | error (mean square) | exactly the right inputs | all of them | inputs kept | CPU s a fit |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name, fit in MODELS.items():
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="4 draws instead of 20")
    draws = 4 if parser.parse_args().quick else 20
    warnings.simplefilter("ignore")
    study("Vapnik's function: 100 rows, 25 inputs, noise 1", vapnik, 100, {0, 1, 2, 3}, draws)
    study("400 rows, 40 inputs, 10 of them binary, noise 1", wide, 400, {0, 1, 2, 3, 30, 31}, max(draws // 10, 1))


if __name__ == "__main__":
    main()
