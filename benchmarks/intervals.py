"""Intervals compared with MAPIE, which refits; probabilities compared with calibrated SVMs.

    python -m benchmarks.intervals            about 40 minutes on one core
    python -m benchmarks.intervals --quick    fewer repetitions: about nine minutes
    python -m benchmarks.intervals coverage   one part: refits, coverage, uneven, scores, widths, confidence, ...
    python -m benchmarks.intervals uneven --data FOLDER [--jobs N]   also small tables of FOLDER/numbers.npz
    python -m benchmarks.intervals scores --data FOLDER [--jobs N] [--rows N]   CRPS and interval scores of these

Prints Markdown. "refits" and "coverage" require ``pip install mapie``; other peers are omitted, with a note, if they
are not installed (mapie, crepes, neo-ls-svm). No model is tuned by hand: LSSVR() and LSSVC() choose kernel widths and C
by leave-one-out, SVR and SVC by 5-fold cross-validation over C in 1, 10, 100, 1000 and gamma in 0.1, 1, 10 times
"scale", with standardised columns.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine, make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from lssvm import LSSVC, LSSVR, datasets, kernels, sparsify

COVERAGE = 0.9
METHODS = ("jackknife+", "jackknife-minmax", "cv+")
MAPIE = {"jackknife+": "plus", "jackknife-minmax": "minmax", "cv+": "plus"}


def table(header: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table with right-aligned numbers."""
    print("| " + " | ".join(header) + " |")
    print("| --- |" + " ---: |" * (len(header) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def by_lssvm(model: LSSVR, X: np.ndarray, y: np.ndarray, new: np.ndarray, method: str, folds: Any) -> np.ndarray:
    return clone(model).fit(X, y).predict_interval(new, COVERAGE, method, folds=folds)


def by_mapie(model: Any, X: np.ndarray, y: np.ndarray, new: np.ndarray, method: str, cv: Any) -> np.ndarray:
    from mapie.regression import CrossConformalRegressor

    conformal = CrossConformalRegressor(model, COVERAGE, method=method, cv=cv)
    return conformal.fit_conformalize(X, y).predict_interval(new)[1][:, :, 0]


# The same intervals ---------------------------------------------------------------------------------------------------
def against_refits(l: int) -> None:  # noqa: E741
    """One model with fixed hyperparameters: MAPIE's intervals and ours, dense and on a basis."""
    X, y = make_friedman1(l + 200, noise=1.0, random_state=0)
    X, new, y = X[:l], X[l:], y[:l]
    folds = np.empty(l, dtype=int)
    for number, (_, rows) in enumerate(KFold(10).split(X)):
        folds[rows] = number
    rows = []
    points = X[np.random.default_rng(0).choice(l, 50, replace=False)]
    for name, steps in (("dense", None), ("basis of 50 points", [sparsify.Given(points)])):
        model = LSSVR(kernels.RBF(sigma=2.0), C=10.0, steps=steps)
        for method in METHODS:
            ours, seconds = timed(by_lssvm, model, X, y, new, method, folds)
            cv = KFold(10) if method == "cv+" else LeaveOneOut()
            theirs, refits = timed(by_mapie, model, X, y, new, MAPIE[method], cv)
            difference = np.max(np.abs(ours - theirs))
            speed = f"{refits / seconds:.0f}"
            rows.append([f"{name}, {method}", f"{difference:.1e}", f"{seconds:.3f}", f"{refits:.2f}", speed])
    print(f"### The same intervals: {l} rows, 200 new rows, fixed kernel and C\n")
    table(["model", "largest difference", "lssvm, seconds", "MAPIE, seconds", "ratio"], rows)


# Coverage and width ---------------------------------------------------------------------------------------------------
def heteroscedastic(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return X, np.sin(2 * X[:, 0]) + (0.1 + 0.3 * np.abs(X[:, 1])) * rng.standard_normal(n)


def sinc(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-10, 10, (n, 1))
    return X, np.sinc(X[:, 0] / np.pi) + 0.1 * rng.standard_t(3, n)


def friedman(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return make_friedman1(n, noise=1.0, random_state=seed)


def split(X: np.ndarray, y: np.ndarray, seed: int) -> list[np.ndarray]:
    return train_test_split(X, y, test_size=0.3, random_state=seed)


REGRESSION: dict[str, Callable[[int], list[np.ndarray]]] = {
    "sinc, t noise (100 rows)": lambda seed: train_test_split(*sinc(1100, seed), train_size=100, random_state=seed),
    "uneven noise (200 rows)": lambda seed: train_test_split(
        *heteroscedastic(1200, seed), train_size=200, random_state=seed
    ),
    "Friedman 1 (200 rows)": lambda seed: train_test_split(*friedman(1200, seed), train_size=200, random_state=seed),
    "motorcycle (93 rows)": lambda seed: split(*datasets.load_motorcycle(return_X_y=True), seed),
    "diabetes (309 rows)": lambda seed: split(*load_diabetes(return_X_y=True), seed),
}
GRID = {"C": [1, 10, 100, 1000], "gamma": [0.1, 1.0, 10.0]}  # gamma in units of "scale": columns are standardised


def search(estimator: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """The estimator with C and gamma from 5-fold cross-validation, not fitted yet."""
    name = type(estimator).__name__.lower()
    grid = {f"{name}__C": GRID["C"], f"{name}__gamma": [g / X.shape[1] for g in GRID["gamma"]]}
    return clone(GridSearchCV(make_pipeline(StandardScaler(), estimator), grid).fit(X, y).best_estimator_)


def svr_intervals(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    centre, unit = y.mean(), y.std()
    tuned = search(SVR(), X, (y - centre) / unit)
    cv = KFold(10, shuffle=True, random_state=0)
    return centre + unit * by_mapie(tuned, X, (y - centre) / unit, new, "plus", cv)


def coverage_and_width(repetitions: int) -> None:
    contenders: dict[str, Callable[..., np.ndarray]] = {
        f"LSSVR(), {method}": lambda X, y, new, method=method: LSSVR().fit(X, y).predict_interval(new, COVERAGE, method)
        for method in METHODS
    }
    contenders['LSSVR(robust="hampel"), jackknife+'] = lambda X, y, new: (
        LSSVR(robust="hampel").fit(X, y).predict_interval(new, COVERAGE, "jackknife+")
    )
    contenders["SVR by grid, MAPIE cv+"] = svr_intervals
    print(f"### Coverage and mean width of {COVERAGE:.0%} intervals (draws or splits: {repetitions})\n")
    for title, draw in REGRESSION.items():
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in contenders}
        for seed in range(repetitions):
            X, new, y, y_new = draw(seed)
            for name, contender in contenders.items():
                ends, seconds = timed(contender, X, y, new)
                inside = (ends[:, 0] <= y_new) & (y_new <= ends[:, 1])
                found[name].append((float(np.mean(inside)), float(np.mean(ends[:, 1] - ends[:, 0])), seconds))
        rows = []
        for name, values in found.items():
            cover, width, seconds = np.mean(values, axis=0)
            error = np.std([value[0] for value in values]) / np.sqrt(len(values))
            rows.append([name, f"{100 * cover:.1f} ± {100 * error:.1f}", f"{width:.3g}", f"{seconds:.2f}"])
        table([title, "coverage (%)", "width", "seconds"], rows)


# Noise that varies ----------------------------------------------------------------------------------------------------
def regions(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise that grows with |x1|."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) + (0.1 + 0.3 * np.abs(X[:, 0])) * rng.standard_normal(n)


def quantile_boosting(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    levels = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
    fits = [HistGradientBoostingRegressor(loss="quantile", quantile=q).fit(X, y) for q in levels]
    return np.sort(np.column_stack([fit.predict(new) for fit in fits]), axis=1)


def heteroscedastic_process(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The most likely heteroscedastic Gaussian process (Kersting et al. 2007), one step: a process of log variances."""
    scaler, centre, unit = StandardScaler().fit(X), y.mean(), y.std()
    A, B, t = scaler.transform(X), scaler.transform(new), (y - centre) / unit
    kernel = 1.0 * RBF(np.ones(X.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1)
    even = GaussianProcessRegressor(kernel, random_state=0).fit(A, t)
    logs = np.log((t - even.predict(A)) ** 2 + 1e-6)
    noise = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(A, logs)
    # the mean of the logarithm of a squared standard normal variable is -1.27
    variance = lambda Z: np.exp(noise.predict(Z) + 1.27)  # noqa: E731
    final = GaussianProcessRegressor(even.kernel_.k1, alpha=variance(A), optimizer=None).fit(A, t)
    mean, deviation = final.predict(B, return_std=True)
    half = norm.ppf((1 + COVERAGE) / 2) * np.sqrt(deviation**2 + variance(B))
    return centre + unit * np.column_stack([mean - half, mean + half])


def mapie_cqr(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    from mapie.regression import ConformalizedQuantileRegressor

    fit, rest = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0)
    model = ConformalizedQuantileRegressor(
        GradientBoostingRegressor(loss="quantile", random_state=0), confidence_level=COVERAGE
    )
    return model.fit(X[fit], y[fit]).conformalize(X[rest], y[rest]).predict_interval(new)[1][:, :, 0]


def mapie_jackknife(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    return by_mapie(RandomForestRegressor(100, random_state=0), X, y, new, "plus", KFold(10))


def crepes_normalised(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator

    forest = WrapRegressor(RandomForestRegressor(100, oob_score=True, random_state=0))
    fit, rest = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0)
    forest.fit(X[fit], y[fit])
    difficulty = DifficultyEstimator().fit(X[fit], y=y[fit], scaler=True)
    forest.calibrate(X[rest], y[rest], de=difficulty)
    return forest.predict_int(new, confidence=COVERAGE)


def uneven_noise(repetitions: int, folder: Path | None, jobs: int) -> None:
    """Interval score, coverage, width and CPU seconds where the noise varies, against peers that adapt to it."""
    contenders: dict[str, Callable[..., np.ndarray]] = {
        f"LSSVR(), {method}": lambda X, y, new, method=method: LSSVR().fit(X, y).predict_interval(new, COVERAGE, method)
        for method in ("auto", "jackknife+", "full")
    }
    contenders["quantile gradient boosting"] = quantile_boosting
    contenders["heteroscedastic Gaussian process"] = heteroscedastic_process
    peers = {"MAPIE: CQR, boosting": mapie_cqr, "MAPIE: jackknife+, forest": mapie_jackknife}
    for package, named in (("mapie", peers), ("crepes", {"crepes: normalised, forest": crepes_normalised})):
        if find_spec(package) is None:
            print(f"{package} is not installed: {', '.join(named)} omitted.\n")
        else:
            contenders |= named
    sets: dict[str, list[list[np.ndarray]]] = {}
    X, y = datasets.load_motorcycle(return_X_y=True)
    folds = [part for seed in range(3) for part in KFold(10, shuffle=True, random_state=seed).split(X)]
    sets["motorcycle (3 x 10 folds)"] = [[X[a], X[b], y[a], y[b]] for a, b in folds]
    sets["noise grows with x1 (300 rows)"] = [
        train_test_split(*regions(1300, seed), train_size=300, random_state=seed) for seed in range(repetitions)
    ]
    if folder is not None:
        sets |= small_tables(folder, 999, min(repetitions, 3))
    jobs_to_do = [(title, name, split) for title, splits in sets.items() for name in contenders for split in splits]
    results = Parallel(n_jobs=jobs)(delayed(measured)(contenders[name], *split) for _, name, split in jobs_to_do)
    found: dict[str, dict[str, list[tuple[float, ...]]]] = {title: {name: [] for name in contenders} for title in sets}
    for (title, name, _), values in zip(jobs_to_do, results, strict=True):
        found[title][name].append(values)
    means = {title: {name: np.mean(v, axis=0) for name, v in by_name.items()} for title, by_name in found.items()}
    for title, by_name in means.items():
        rows = [
            [name, f"{score:.4g}", f"{100 * cover:.1f}", f"{width:.4g}", f"{seconds:.2f}"]
            for name, (score, cover, width, seconds) in by_name.items()
        ]
        table([title, "interval score", "coverage (%)", "width", "CPU seconds"], rows)
    if folder is None:
        return
    of_folder = [title for title in sets if title not in list(sets)[:2]]
    print(f"### The {len(of_folder)} tables: scores relative to LSSVR(), auto\n")
    rows = []
    for name in contenders:
        scores, covers, _, seconds = np.transpose([means[title][name] for title in of_folder])
        ratios = scores / [means[title]["LSSVR(), auto"][0] for title in of_folder]
        better = "" if name == "LSSVR(), auto" else str(np.sum(ratios < 1))
        mean = f"{np.exp(np.mean(np.log(ratios))):.3f}"
        shares = [f"{100 * covers.mean():.1f}", f"{100 * covers.min():.1f}"]
        rows.append([name, mean, f"{ratios.max():.2f}", better, *shares, f"{seconds.mean():.2f}"])
    header = ["method", "geometric mean", "largest", "tables with a better score", "mean coverage (%)", "lowest"]
    table([*header, "CPU seconds"], rows)


def small_tables(folder: Path, most_rows: int, splits: int) -> dict[str, list[list[np.ndarray]]]:
    """Return training inputs, new inputs, training targets and new targets of the splits of tables, by their titles."""
    content, sets = np.load(folder / "numbers.npz"), {}
    for name in sorted({key.split("/")[0] for key in content.files}):
        X, y, masks = (content[f"{name}/{part}"] for part in ("X", "y", "masks"))
        if len(y) <= most_rows:
            parts = [masks[:, split].astype(bool) for split in range(splits)]
            sets[f"{name} ({len(y)} rows)"] = [[X[~out], X[out], y[~out], y[out]] for out in parts]
    return sets


def measured(
    contender: Callable[..., np.ndarray], X: np.ndarray, new: np.ndarray, y: np.ndarray, y_new: np.ndarray
) -> tuple[float, float, float, float]:
    """Interval score, coverage, mean width and CPU seconds of one thread."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        low, high = contender(X, y, new).T
        seconds = time.process_time() - start
    outside = np.maximum(low - y_new, 0) + np.maximum(y_new - high, 0)
    score = np.mean(high - low + 2 / (1 - COVERAGE) * outside)
    return float(score), float(np.mean(outside == 0)), float(np.mean(high - low)), seconds


# Scores of distributions ----------------------------------------------------------------------------------------------
LEVELS = np.arange(1, 20) / 20  # the first and the last are the ends of central intervals of 90 %


def lssvm_quantiles(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found = LSSVR().fit(X, y).predict_distribution(new)
    return found.quantile(LEVELS), found.interval(COVERAGE)


def boosted_quantiles(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    models = [HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0) for q in LEVELS]
    quantiles = np.sort(np.column_stack([model.fit(X, y).predict(new) for model in models]), axis=1)
    return quantiles, quantiles[:, [0, -1]]


def normal_quantiles(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaler, kernel = StandardScaler().fit(X), 1.0 * RBF(np.ones(X.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(scaler.transform(X), y)
    mean, deviation = process.predict(scaler.transform(new), return_std=True)
    quantiles = mean[:, None] + deviation[:, None] * norm.ppf(LEVELS)
    return quantiles, quantiles[:, [0, -1]]


def scored(contender: Callable[..., Any], X: Any, new: Any, y: Any, y_new: Any) -> tuple[float, ...]:
    """CRPS (from 19 quantiles) and interval score in standard deviations of y, coverage, and CPU seconds."""
    found: list[np.ndarray] = []
    keeping = lambda *rows: found.extend(contender(*rows)) or found[1]  # noqa: E731
    score, cover, _, seconds = measured(keeping, X, new, y, y_new)
    below = y_new[:, None] - found[0]
    crps = 2 * np.mean(np.maximum(LEVELS * below, (LEVELS - 1) * below))
    return float(crps / y.std()), score / float(y.std()), cover, seconds


def distribution_scores(folder: Path, most_rows: int, splits: int, jobs: int) -> None:
    """CRPS and scores of central 90 % intervals of public tables, in standard deviations of the targets."""
    contenders = {"LSSVR()": lssvm_quantiles, "boosting": boosted_quantiles, "Gaussian process": normal_quantiles}
    sets = small_tables(folder, most_rows, splits)
    work = [(name, split) for parts in sets.values() for name in contenders for split in parts]
    found = Parallel(n_jobs=jobs)(delayed(scored)(contenders[name], *split) for name, split in work)
    values = np.array(found).reshape(len(sets), len(contenders), splits, 4).mean(axis=2)
    print(f"### CRPS and interval scores of {len(sets)} tables (splits: {splits})\n")
    ratios = np.exp(np.log(values / values[:, :1]).mean(axis=0, keepdims=True))
    rows = [
        [title, *(f"{v:.3f}" for v in own[:, 0]), *(f"{v:.2f}" for v in own[:, 1])]
        for title, own in zip([*sets, "geometric mean, relative to LSSVR()"], [*values, *ratios], strict=True)
    ]
    table(["table", *(f"{what}, {name}" for what in ("CRPS", "interval score") for name in contenders)], rows)
    shares = zip(contenders, values[:, :, 2].T, values[:, :, 3].T, strict=True)
    rows = [[name, f"{100 * c.mean():.1f}", f"{100 * c.min():.1f}", f"{s.mean():.2f}"] for name, c, s in shares]
    table(["method", "coverage of 90 % intervals", "lowest", "CPU seconds"], rows)


# Many widths and few rows ---------------------------------------------------------------------------------------------
def product(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X[:, 0] + 2 * X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n)


def waves(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Every column matters, the first ones most."""
    rng = np.random.default_rng(seed)
    X, size = rng.standard_normal((n, d)), 1.0 / np.sqrt(1.0 + np.arange(d))
    return X, np.sin(2 * X * size) @ size + 0.3 * rng.standard_normal(n)


def many_widths(columns: tuple[int, ...], repetitions: int) -> None:
    """Coverage if one width per column was chosen: with this kernel held fixed, and with the default."""
    draws: tuple[Callable[..., Any], ...] = (
        product,
        waves,
        lambda n, d, seed: make_friedman1(n, d, noise=1.0, random_state=seed),
    )
    kernel = kernels.Choice([kernels.RBF(ard=True), kernels.Matern(ard=True)])
    rows: dict[str, list[list[str]]] = {"": [], "kept ": []}
    found: list[tuple[float, ...]] = []
    for d in columns:
        for n in d * np.array([3, 5, 8, 10, 15, 20, 30]):
            for draw, seed in itertools.product(draws, range(repetitions)):
                X, y = draw(n + 1000, d, seed)
                X, new, y, y_new = X[:n], X[n:], y[:n], y[n:]
                model, seconds = timed(LSSVR(kernel).fit, X, y)
                widths = model.kernel_.sigma / X.std(axis=0)
                if np.min(widths) >= (1 - 1e-6) * np.max(widths):
                    continue  # a common one
                ends, more = timed(model.predict_interval, new, COVERAGE)
                fixed = LSSVR(model.kernel_, model.C_).fit(X, y).predict_interval(new, COVERAGE)
                shares = [np.mean((e[:, 0] <= y_new) & (y_new <= e[:, 1])) for e in (fixed, ends)]
                wider = np.mean(ends[:, 1] - ends[:, 0]) / np.mean(fixed[:, 1] - fixed[:, 0])
                found.append((n / d, n / max(np.sum(widths < 1e5), 1), *shares, wider, more / seconds))
    values = np.array(found)
    for place, kept in enumerate(rows):
        for low, high in itertools.pairwise([0, 4, 6, 9, 12, 17, 25, 40, np.inf]):
            some = values[(values[:, place] >= low) & (values[:, place] < high)]
            if len(some):
                fixed, now, wider, more = some[:, 2:].mean(axis=0)
                shares = [f"{100 * share:.1f}" for share in (fixed, some[:, 2].min(), now, some[:, 3].min())]
                where = f"{low} to {high}" if np.isfinite(high) else f"{low} and more"
                rows[kept].append([where, str(len(some)), *shares, f"{wider:.2f}", f"{more:.1f}"])
    print(f"### Coverage of {COVERAGE:.0%} intervals with one width per column and few rows\n")
    for kept, lines in rows.items():
        header = [f"rows per {kept}column", "draws", "kernel held fixed (%)", "worst", "default (%)", "worst"]
        table([*header, "ratio of widths", "first call / fit"], lines)


# Confidence intervals of the function ---------------------------------------------------------------------------------
def bump(X: np.ndarray) -> np.ndarray:
    """The function of De Brabanter et al. (2011)."""
    return 1 - X[:, 0] + np.exp(-200 * (X[:, 0] - 0.5) ** 2)


def smooth(X: np.ndarray) -> np.ndarray:
    return np.sin(2 * np.pi * X[:, 0])


def friedman_function(X: np.ndarray) -> np.ndarray:
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int, int, Callable[[np.ndarray], Any]]] = {
    # function, rows, columns (uniform in 0 to 1), standard deviation of the noise
    "bump, even noise (150 x 1)": (bump, 150, 1, lambda x: 0.1),
    "bump, growing noise (150 x 1)": (bump, 150, 1, lambda x: 0.05 + 0.15 * x),
    "sine, even noise (150 x 1)": (smooth, 150, 1, lambda x: 0.3),
    "sine, growing noise (150 x 1)": (smooth, 150, 1, lambda x: 0.1 + 0.4 * x),
    "Friedman 1 (200 x 10)": (friedman_function, 200, 10, lambda x: 1.0),
}


def confidence(repetitions: int) -> None:
    """Coverage of 95 % confidence intervals at 200 new rows: of each row, and of all of them together."""
    models = {"LSSVR(kernels.RBF())": LSSVR(kernels.RBF()), "LSSVR()": LSSVR()}
    print(f"### Coverage of 95 % confidence intervals of the function (draws: {repetitions})\n")
    rows = []
    for title, (function, n, columns, deviation) in FUNCTIONS.items():
        for name, model in models.items():
            inside = []
            for seed in range(repetitions):
                rng = np.random.default_rng(seed)
                X, new = rng.uniform(0, 1, (n, columns)), rng.uniform(0.02, 0.98, (200, columns))
                model.fit(X, function(X) + deviation(X[:, 0]) * rng.standard_normal(n))
                found = [model.confidence_interval(new, simultaneous=every) for every in (False, True)]
                inside.append([(ends[:, 0] <= function(new)) & (function(new) <= ends[:, 1]) for ends in found])
            each, together = (np.array(part) for part in zip(*inside, strict=True))
            shares = each.mean(axis=1)
            error = 100 * shares.std() / np.sqrt(repetitions)
            rows.append(
                [title, name, f"{100 * shares.mean():.1f} ± {error:.1f}", f"{100 * together.all(axis=1).mean():.0f}"]
            )
    table(["function", "model", "pointwise (%)", "all rows together (%)"], rows)


# Probabilities --------------------------------------------------------------------------------------------------------
def halves(X: np.ndarray, y: np.ndarray, seed: int) -> list[np.ndarray]:
    return train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)


def ripley(seed: int) -> list[np.ndarray]:
    X, y = datasets.load_ripley(return_X_y=True)
    new, y_new = datasets.load_ripley(subset="test", return_X_y=True)
    rows = np.random.default_rng(seed).choice(len(y), 200, replace=False)
    return [X[rows], new, y[rows], y_new]


def noisy_ring(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1200, 2))
    share = 1.0 / (1.0 + np.exp(4.0 * (np.linalg.norm(X, axis=1) - 1.2)))
    return train_test_split(X, (rng.uniform(size=1200) < share).astype(int), train_size=200, random_state=seed)


CLASSES: dict[str, Callable[[int], list[np.ndarray]]] = {
    "noisy ring (200 rows)": noisy_ring,
    "Ripley (200 rows)": ripley,
    "breast cancer (284 rows)": lambda seed: halves(*load_breast_cancer(return_X_y=True), seed),
    "wine, 3 classes (89 rows)": lambda seed: halves(*load_wine(return_X_y=True), seed),
    "digits, 10 classes (898 rows)": lambda seed: halves(*load_digits(return_X_y=True), seed),
}


def calibrated_svc(X: np.ndarray, y: np.ndarray) -> Any:
    return CalibratedClassifierCV(search(SVC(), X, y), cv=5).fit(X, y)


def probabilities(repetitions: int) -> None:
    contenders: dict[str, Callable[..., Any]] = {
        "LSSVC()": lambda X, y: LSSVC().fit(X, y),
        "SVC by grid, CalibratedClassifierCV": calibrated_svc,
    }
    try:
        from neo_ls_svm import NeoLSSVM
    except ImportError:
        print("neo-ls-svm is not installed: omitted.\n")
    else:
        contenders["neo-ls-svm"] = lambda X, y: NeoLSSVM().fit(X, y)
    print(f"### Probabilities (draws or splits: {repetitions})\n")
    for title, draw in CLASSES.items():
        rows = []
        for name, contender in contenders.items():
            values = []
            for seed in range(repetitions):
                X, new, y, y_new = draw(seed)
                classes = np.unique(y)
                if name == "neo-ls-svm" and len(classes) > 2:
                    break
                model, seconds = timed(contender, X, y)
                P = np.clip(model.predict_proba(new), 1e-15, 1.0)  # some are 0, which log loss cannot bear
                P /= P.sum(axis=1, keepdims=True)
                brier = brier_score_loss(y_new, P, labels=classes, scale_by_half=True)
                wrong = 100 * np.mean(classes[P.argmax(axis=1)] != y_new)
                values.append((log_loss(y_new, P, labels=classes), brier, wrong, seconds))
            if values:
                mean = np.mean(values, axis=0)
                rows.append([name, f"{mean[0]:.3f}", f"{mean[1]:.4f}", f"{mean[2]:.1f}", f"{mean[3]:.2f}"])
        table([title, "log loss", "Brier score", "errors (%)", "seconds"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--data", type=Path, help='folder of tables for "uneven" and "scores"')
    parser.add_argument("--jobs", type=int, default=1, help='processes for "uneven" and "scores"')
    parser.add_argument("--rows", type=int, default=999, help='most rows of a table for "scores"')
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="part",
        help="refits, coverage, uneven, scores, widths, confidence, probabilities; default: all (scores needs --data)",
    )
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="C = .* is at the edge")
    parts: dict[str, Callable[[], None]] = {
        "refits": lambda: against_refits(500),
        "uneven": lambda: uneven_noise(2 if options.quick else 10, options.data, options.jobs),
        "scores": lambda: distribution_scores(options.data, options.rows, 1 if options.quick else 3, options.jobs),
        "coverage": lambda: coverage_and_width(5 if options.quick else 20),
        "widths": lambda: many_widths((5, 10, 20), 1 if options.quick else 3),
        "confidence": lambda: confidence(20 if options.quick else 100),
        "probabilities": lambda: probabilities(3 if options.quick else 10),
    }
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no part {sorted(unknown)}: choose from {list(parts)}")
    for name in options.parts or [name for name in parts if name != "scores" or options.data is not None]:
        parts[name]()


if __name__ == "__main__":
    main()
