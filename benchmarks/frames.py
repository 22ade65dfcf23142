"""Raw tables with text and empty cells: frames as they are, against a pipeline before the same model, and boosting.

`python -m benchmarks.tables frames --data FOLDER` runs it on the CSV files in FOLDER/tables, or else in FOLDER. The
target is the column "class", or the last one; text, and up to 20 different whole numbers, are classes. A fifth of the
rows is held out at random in every split, of every class alike. The pipeline has one-hot columns (empty cells are a
value) and medians, each scaled as it comes, before the same default model; boosting is scikit-learn's
HistGradientBoosting with categorical_features="from_dtype". Errors are error rates, or RMSE over the standard deviation
of the training targets.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import gmean
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import threadpool_limits

from lssvm import LSSVC, LSSVR

from .tuning import table

CLASSES = 20  # most different whole numbers that are taken for classes
ZERO = 0.01  # added to errors, of which some are 0
NATIVE, PIPELINE, BOOSTING = "lssvm", "one-hot + median", "boosting"


def read(file: Path) -> tuple[Any, np.ndarray, bool]:
    """The columns, the target and whether it is a class."""
    import pandas as pd

    frame = pd.read_csv(file, keep_default_na=False, na_values=[""])
    target = "class" if "class" in frame else frame.columns[-1]
    frame = frame.dropna(subset=[target])
    y, X = frame[target].to_numpy(), frame.drop(columns=target)
    text = list(X.select_dtypes(["object", "string"]).columns)
    return (
        X.astype(dict.fromkeys(text, "category")),
        y,
        y.dtype.kind not in "fiu" or (y.dtype.kind in "iu" and len(np.unique(y)) <= CLASSES),
    )


def contenders(classes: bool) -> dict[str, Any]:
    """The models."""
    own = LSSVC if classes else LSSVR
    boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_include="category")),
        remainder=SimpleImputer(strategy="median"),
    )
    return {
        NATIVE: own(),
        PIPELINE: make_pipeline(encoder, own()),
        BOOSTING: boosting(categorical_features="from_dtype", random_state=0),
    }


def record(file: Path, split: int) -> dict[str, tuple[float, float]]:
    """By model: the error and the CPU seconds of the fit."""
    X, y, classes = read(file)
    rare = classes and np.unique(y, return_counts=True)[1].min() < 2
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.2, random_state=split, stratify=y if classes and not rare else None
    )
    found = {}
    for name, model in contenders(classes).items():
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            start = time.process_time()
            model.fit(X.iloc[train], y[train])
            taken = time.process_time() - start
            predicted = model.predict(X.iloc[test])
        if classes:
            error = float(np.mean(predicted != y[test]))
        else:
            error = float(np.sqrt(np.mean((predicted - y[test]) ** 2)) / np.std(y[train]))
        found[name] = error, taken
    return found


def frames(folder: Path, splits: list[int], sets: list[str], jobs: int) -> dict[str, float]:
    """Fit, print the tables and return the summary."""
    files = sorted((folder / "tables" if (folder / "tables").is_dir() else folder).glob("*.csv"))
    files = [file for file in files if not sets or file.stem in sets]
    if not files:
        raise SystemExit(f"There is no CSV file in {folder}.")
    runs = [(file, split) for file in files for split in splits]
    results = Parallel(n_jobs=jobs)(delayed(record)(*run) for run in runs)
    rows, ratios = [], {PIPELINE: [], BOOSTING: []}
    for file in files:
        own = [result for (name, _), result in zip(runs, results, strict=True) if name == file]
        errors, taken = (
            {name: float(np.mean([result[name][part] for result in own])) for name in own[0]} for part in (0, 1)
        )
        for name, values in ratios.items():
            values.append((errors[NATIVE] + ZERO) / (errors[name] + ZERO))
        X, _, classes = read(file)
        size = f"{X.shape[0]} x {X.shape[1]}, {int(X.isna().to_numpy().sum())}, {X.select_dtypes('category').shape[1]}"
        kind = "error rate" if classes else "RMSE"
        rows.append([file.stem, size, kind, *(f"{error:.3f}" for error in errors.values()), f"{taken[NATIVE]:.1f}"])
    size = "rows x columns, empty cells, text columns"
    table(["set", size, "error", NATIVE, PIPELINE, BOOSTING, "CPU seconds"], rows)
    summary = {f"(error + {ZERO})/({name}'s + {ZERO}), geometric mean": float(gmean(v)) for name, v in ratios.items()}
    table([f"{len(files)} sets, {len(runs)} splits", ""], [[label, f"{value:.3f}"] for label, value in summary.items()])
    return summary
