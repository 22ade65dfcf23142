"""Errors and intervals that include the search, against new rows, on public and generated tables.

    python -m benchmarks.honest [--data FOLDER] [--splits N] [--sets NAME ...] [--rows N] [--jobs N] [--records CSV]

FOLDER/numbers.npz and FOLDER/classes.npz hold name/X, name/y and name/masks (rows x splits, True for test rows); of
these, tables with at most --rows training rows are used. For every split, `LSSVR()` is fitted once, and its errors and
90 % intervals are computed with plain leave-one-out residuals and with those of repeated searches; "default" stands for
the ones that the model itself chooses. Errors of a table are pooled over its splits. Prints Markdown.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from lssvm import LSSVC, LSSVR, diagnose
from lssvm.estimators import fitted

from .intervals import COVERAGE, table

NEW = 1000  # rows of a generated table that are not used by the fit


def generated(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns, targets and a mask of new rows: "noise" or "wide", rows x columns."""
    kind, size = name.split()
    n, d = map(int, size.split("x"))
    rng = np.random.default_rng(seed)
    X, noise = rng.standard_normal((n + NEW, d)), rng.standard_normal(n + NEW)
    y = noise if kind == "noise" else np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * noise
    return X, y, np.arange(n + NEW) >= n


def interval_record(model: LSSVR, new: np.ndarray, y: np.ndarray) -> dict[str, float]:
    low, high = model.predict_interval(new, COVERAGE).T
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    inside, width = (low <= y) & (y <= high), np.mean(high - low)
    return {"coverage": inside.mean(), "width": width, "score": np.mean(high - low + 2 / (1 - COVERAGE) * outside)}


def measured(name: str, split: int, X: np.ndarray, y: np.ndarray, out: np.ndarray) -> dict[str, Any]:
    """Fit one model, and compute all of its errors and intervals."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model: Any = (LSSVC if y.dtype.kind in "OU" else LSSVR)().fit(X[~out], y[~out])
        found: dict[str, Any] = {"set": name, "split": split, "rows": int(np.sum(~out)), "columns": X.shape[1]}
        found["fit"] = time.process_time() - start
        if isinstance(model, LSSVC):
            own, codes = diagnose.scores(model), diagnose.class_codes(model, y[out])
            test = diagnose.class_scores(model.predict_proba(X[out]), codes)
            inside = model.predict_set(X[out], COVERAGE)[range(len(codes)), codes]
            found |= {"loo": own["log_loss"], "test": test["log_loss"], "coverage": inside.mean()}
            return found | {"loo error": own["error_rate"], "test error": test["error_rate"]}
        members = model.fitted_.members
        found |= {
            "few": any(m.few_rows() for m in members),
            "few errors": any(m.few_rows(errors=True) for m in members),
        }
        found |= {"test": np.mean((y[out] - model.predict(X[out])) ** 2), "variance": np.var(y[~out])}
        usual = fitted.ROWS_PER_WIDTH, fitted.ROWS_FOR_ERRORS
        for kind, rows in (("loo", 0), ("honest", 10**9)):
            fitted.ROWS_PER_WIDTH = fitted.ROWS_FOR_ERRORS = rows
            start = time.process_time()
            found[kind] = np.mean(diagnose.honest_values(model).residuals ** 2)
            found[f"{kind} seconds"] = time.process_time() - start
            record = interval_record(model, X[out], y[out])
            found |= {f"{kind} {key}": value for key, value in record.items()}
            found[f"{kind} seconds, intervals"] = time.process_time() - start
            found[f"{kind} width, report"] = diagnose.interval_coverage(model).width[2, 0]
        fitted.ROWS_PER_WIDTH, fitted.ROWS_FOR_ERRORS = usual
        kind = "honest" if found["few"] else "loo"
        found |= {key.replace(kind, "default"): found[key] for key in list(found) if key.startswith(kind)}
        return found | {"default": found["honest" if found["few errors"] else "loo"]}


def summary(runs: list[dict[str, Any]]) -> None:
    """Print the tables."""
    numbers = [run for run in runs if "variance" in run]
    means: dict[str, dict[str, float]] = {}
    lines = []
    for name in dict.fromkeys(run["set"] for run in numbers):
        own = [run for run in numbers if run["set"] == name]
        mean = {key: float(np.mean([run[key] for run in own])) for key in own[0] if key not in ("set", "split")}
        means[name] = mean
        ratios = [np.sqrt(mean[kind] / mean["test"]) for kind in ("loo", "honest", "default")]
        shares = [100 * mean[f"{kind} coverage"] for kind in ("loo", "honest", "default")]
        scores = mean["honest score"] / mean["loo score"]
        seconds = mean["honest seconds"] / mean["fit"]
        report = mean["default width, report"] / mean["default width"]
        good = np.mean([1 - run["default"] / run["variance"] > 0.3 for run in own])
        plain = np.mean([1 - run["loo"] / run["variance"] > 0.3 for run in own])
        lines.append(
            [f"{name} ({mean['rows']:.0f} x {mean['columns']:.0f})", str(len(own)), f"{mean['few errors']:.1f}"]
        )
        lines[-1] += [f"{ratio:.3f}" for ratio in ratios] + [f"{share:.1f}" for share in shares]
        lines[-1] += [f"{scores:.3f}", f"{report:.2f}", f"{seconds:.2f}", f"{mean['fit']:.1f}", f"{100 * plain:.0f}"]
        lines[-1].append(f"{100 * good:.0f}")
    print("### Errors relative to those on new rows; coverage of 90 % intervals\n")
    header = ["table", "runs", "few", "loo / test", "repeated / test", "default / test", "loo coverage", "repeated"]
    header += ["default", "score, repeated / loo", "width, report / new rows", "seconds / fit", "fit (s)"]
    table([*header, "R2 > 0.3 by loo (%)", "default (%)"], lines)
    public = [mean for name, mean in means.items() if " " not in name]
    for title, kept in (("all", public), ("150 rows or more", [mean for mean in public if mean["rows"] >= 150])):
        for kind in ("loo", "honest", "default") if kept else ():
            ratios = [np.sqrt(mean[kind] / mean["test"]) for mean in kept]
            shares = np.array([100 * mean[f"{kind} coverage"] for mean in kept])
            within = np.mean([0.8 <= ratio <= 1.25 for ratio in ratios])
            words = f"median error ratio {np.median(ratios):.3f}, {within:.0%} within 0.8 to 1.25"
            print(f"{title}, {kind}: {words};")
            print(f"coverage {shares.mean():.1f} % on average, {shares.min():.1f} to {shares.max():.1f} %\n")
    lines = []
    for name in dict.fromkeys(run["set"] for run in runs if "variance" not in run):
        own = [run for run in runs if run["set"] == name]
        mean = {key: float(np.mean([run[key] for run in own])) for key in own[0] if key not in ("set", "split")}
        errors = [f"{100 * mean[key]:.1f}" for key in ("loo error", "test error", "coverage")]
        losses = [f"{mean['loo']:.3f}", f"{mean['test']:.3f}", f"{mean['loo'] / mean['test']:.2f}"]
        lines.append([f"{name} ({mean['rows']:.0f} x {mean['columns']:.0f})", str(len(own)), *losses, *errors])
    if lines:
        print("### Classes: leave-one-out and new rows\n")
        header = ["table", "runs", "log loss, loo", "new rows", "ratio", "error rate, loo (%)", "new rows (%)"]
        table([*header, "90 % sets (%)"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--records", type=Path)
    options = parser.parse_args()
    work: list[tuple[Any, ...]] = []
    for name in ("wide 300x200", "wide 60x20", "noise 26x5", "noise 30x5", "noise 51x10", "noise 101x20"):
        if not options.sets or name in options.sets:
            count = options.splits * (1 if name == "wide 300x200" else 4)
            work += [(name, split, *generated(name, split)) for split in range(count)]
    for kind in ("numbers", "classes") if options.data else ():
        content = np.load(options.data / f"{kind}.npz", allow_pickle=False)
        for name in sorted({key.split("/")[0] for key in content.files}):
            if options.sets and name not in options.sets:
                continue
            X, y, masks = (content[f"{name}/{part}"] for part in ("X", "y", "masks"))
            y = y.astype(str) if kind == "classes" else y.astype(float)
            masks = masks[:, : options.splits].astype(bool)
            if np.sum(~masks[:, 0]) <= options.rows:
                work += [(name, split, X, y, out) for split, out in enumerate(masks.T)]
    work.sort(key=lambda run: -(float(np.sum(~run[4])) ** 2) * run[2].shape[1])  # the longest ones first
    runs = Parallel(n_jobs=options.jobs, batch_size=1)(delayed(measured)(*run) for run in work)
    runs.sort(key=lambda run: (run["set"], run["split"]))
    if options.records:
        with options.records.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for run in runs for key in run)))
            writer.writeheader()
            writer.writerows(runs)
    summary(runs)


if __name__ == "__main__":
    main()
