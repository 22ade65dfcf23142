"""What the leaderboard measures itself: the default models, and neo-ls-svm and CatBoost where they are installed."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from lssvm import LSSVC, LSSVR

from .records import LIGHTGBM, Peers, Run, class_record, number_record, read_peers

FIELDS = ("set", "split", "model", "error", "log_loss", "fit_cpu_seconds")
OWN = "lssvm"


@cache
def compiled() -> Any:
    """The class of neo-ls-svm. The first fit compiles its functions, which is not part of the seconds."""
    from neo_ls_svm import NeoLSSVM

    X = np.random.RandomState(0).normal(size=(60, 2))
    for y in (X[:, 0], X[:, 0] > 0):
        NeoLSSVM().fit(X, y).predict(X)
    return NeoLSSVM


def neo() -> Any:
    return compiled()()


def catboost(kind: str) -> Any:
    from catboost import CatBoostClassifier, CatBoostRegressor

    model = CatBoostClassifier if kind == "classes" else CatBoostRegressor
    return model(thread_count=1, verbose=False, allow_writing_files=False)


def measure(kind: str, model: str, name: str, split: int, data: dict[str, np.ndarray]) -> dict[str, Any]:
    """A line of the file, with as many digits as peers.csv has."""
    make: dict[str, Callable[[], Any]] = {
        OWN: LSSVC if kind == "classes" else LSSVR,
        "neo-ls-svm": neo,
        "catboost": partial(catboost, kind),
    }
    record = class_record if kind == "classes" else number_record
    figures = record(data["X"], data["y"], data["masks"][:, split], make[model])
    return {"set": name, "split": split, "model": model, **{key: f"{value:.5g}" for key, value in figures.items()}}


def measure_missing(kind: str, sets: dict[str, dict[str, np.ndarray]], peers: Peers, file: Path, jobs: int) -> None:
    """Append what neither the peers nor the file has, large sets first."""
    installed = [name for name in ("neo-ls-svm", "catboost") if find_spec(name.replace("-", "_"))]
    known = read_peers(file) if file.exists() else {}
    missing = [
        (name, split, model)
        for name, split in runs_of(sets, peers)
        for model in (OWN, *installed)
        if model not in peers[name, split]
        and model not in known.get((name, split), ())
        and not (model == "neo-ls-svm" and kind == "classes" and len(np.unique(sets[name]["y"])) > 2)
    ]
    missing.sort(key=lambda run: -len(sets[run[0]]["y"]))
    rows = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(measure)(kind, model, name, split, sets[name]) for name, split, model in missing
    )
    file.parent.mkdir(exist_ok=True)
    with file.open("a", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, FIELDS, extrasaction="ignore")
        if not lines.tell():
            writer.writeheader()
        for row in rows:
            writer.writerow(row)
            lines.flush()


def runs_of(sets: Iterable[str], peers: Peers) -> list[Run]:
    """The splits that the peers were measured on."""
    return [(name, split) for name, split in peers if name in sets and LIGHTGBM in peers[name, split]]
