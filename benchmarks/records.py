"""Records of models on public tables: one per set, split and model, read from files or measured here."""

from __future__ import annotations

import csv
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from lssvm import LSSVC, LSSVR

SVM, FOREST, LIGHTGBM, OLD = PEERS = ("svm tuned", "random forest", "lightgbm", "lssvm 0.1.0")
EPS = float(np.finfo(float).eps)
ZERO = 0.01  # added to error rates, of which some are 0

Record = dict[str, float]  # error, log_loss and fit_cpu_seconds
Run = tuple[str, int]  # set and split
Peers = dict[Run, dict[str, Record]]


def read_peers(file: Path) -> Peers:
    """By set and split: the records of the models; empty cells are NaN."""
    peers: Peers = defaultdict(dict)
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            record = {name: float(row[name] or "nan") for name in ("error", "log_loss", "fit_cpu_seconds")}
            peers[row["set"], int(row["split"])][row["model"]] = record
    return peers


@contextmanager
def quietly() -> Iterator[None]:
    """One thread, and no warnings."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        yield


def fitted(make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
    """The model and the CPU seconds of its fit."""
    model = make()
    start = time.process_time()
    model.fit(X, y)
    return model, time.process_time() - start


def class_record(X: np.ndarray, y: np.ndarray, test: np.ndarray, make: Callable[[], Any] = LSSVC) -> Record:
    """A model fitted to the rows that are not for the test. Classes that these do not hold have probability 0."""
    with quietly():
        X = X.astype(float)
        model, taken = fitted(make, X[~test], y[~test])
        p = np.asarray(model.predict_proba(X[test]))
        error = float(np.mean(np.asarray(model.predict(X[test])).ravel() != y[test]))
        own = np.where(y[test][:, None] == model.classes_[None, :], p, 0.0).sum(axis=1)
        return {"error": error, "log_loss": float(-np.mean(np.log(np.maximum(own, EPS)))), "fit_cpu_seconds": taken}


def number_record(
    X: np.ndarray, y: np.ndarray, test: np.ndarray, make: Callable[[], Any] = LSSVR, checks: bool = False
) -> Record:
    """A model fitted to the rows that are not for the test; with leave-one-out error and coverage of 90 % intervals."""
    with quietly():
        X, y = X.astype(float), y.astype(float)
        model, taken = fitted(make, X[~test], y[~test])
        unit = float(np.std(y[~test])) or 1.0
        error = float(np.sqrt(np.mean((np.asarray(model.predict(X[test])).ravel() - y[test]) ** 2))) / unit
        record = {"error": error, "fit_cpu_seconds": taken}
        if checks:
            low, high = model.predict_interval(X[test], 0.9).T
            record["loo"] = float(np.sqrt(np.mean(model.loo_residuals_**2))) / unit
            record["covered"] = float(np.mean((low <= y[test]) & (y[test] <= high)))
        return record


def read_sets(file: Path, sets: list[str]) -> dict[str, dict[str, np.ndarray]]:
    """X, y and masks of the sets, of all if none is given."""
    with np.load(file, allow_pickle=False) as data:
        known = [name.removesuffix("/X") for name in data.files if name.endswith("/X")]
        unknown = sorted(set(sets) - set(known))
        if unknown:
            raise SystemExit(f"No set is called {unknown[0]!r}: {', '.join(known)}.")
        return {name: {part: data[f"{name}/{part}"] for part in ("X", "y", "masks")} for name in sets or known}


def geometric_mean(ratios: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(np.array(list(ratios))))))


def mean_ranks(errors: np.ndarray) -> np.ndarray:
    """Rank 1 is the smallest error. Errors that agree in four digits have the mean of their ranks."""
    rounded = np.vectorize(lambda error: float(f"{error:.4g}"))(errors)
    return rankdata(rounded, axis=1).mean(axis=0)
