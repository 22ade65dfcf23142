"""Many fits in one process: memory, threads, files; and the same bits from many threads and processes (Linux only).

    python -m benchmarks.endurance            200 fits of 50 to 5000 rows: about six minutes of CPU time
    python -m benchmarks.endurance --quick    36 smaller fits: about two minutes
    python -m benchmarks.endurance --bits     only the threads and processes

Every fit is followed by predictions, by saving and loading the model and, in regression, by prediction intervals. The
memory after the first round of fits is compared with that at the end: it may grow by 5 %. Then 8 threads and 4
processes repeat the small fits at the same time; every result must be bitwise that of the fit alone.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_friedman1

import lssvm
from lssvm import LSSVC, LSSVR, kernels, sparsify, tune

ROUNDS = 10
LARGEST_GROWTH = 0.05
SMALL = 500  # rows of the fits that are repeated in threads and processes
JOBS: list[tuple[Any, int, int]] = [  # model, rows, classes (0: regression); one round
    (LSSVR(), 50, 0),
    (LSSVR(), 120, 0),
    (LSSVR(), 300, 0),
    (LSSVC(), 50, 2),
    (LSSVC(), 150, 3),
    (LSSVC(), 300, 2),
    (LSSVR(kernels.RBF(5.0), C=10.0, steps=()), 500, 0),
    (LSSVR(kernels.RBF(5.0), C=10.0, steps=()), 2000, 0),
    (LSSVR(kernels.Matern(8.0), C=10.0, robust="hampel", steps=()), 200, 0),
    (LSSVR(kernels.Linear(), steps=[tune.KFold(5)]), 200, 0),
    (LSSVR(kernels.Stack([kernels.RBF(5.0), kernels.Linear()]), C=1.0), 200, 0),
    (LSSVR(kernels.Additive(kernels.Spline())), 150, 0),
    (LSSVR(kernels.RBF(), steps=[sparsify.FeatureVectors(20), tune.LeaveOneOut()]), 400, 0),
    (LSSVR(kernels.RBF(5.0), C=1.0, steps=[sparsify.Random(200, random_state=0)]), 5000, 0),
    (LSSVR(kernels.RBF(5.0), C=1.0, steps=[sparsify.Prune(50)]), 300, 0),
    (LSSVC(kernels.RBF(5.0), C=10.0), 500, 3),
    (LSSVC(kernels.RBF(5.0), C=10.0, loss="logistic"), 200, 2),
    (LSSVC(kernels.RBF(5.0), C=10.0, coding="one-vs-one"), 300, 3),
    (LSSVC(kernels.Linear(), loss="squared"), 400, 2),
    (LSSVC(kernels.RBF(5.0), C=1.0, steps=[sparsify.Random(100, random_state=0)]), 3000, 2),
]


def data(rows: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Friedman's function, or classes by its quantiles."""
    X, y = make_friedman1(rows, 8, noise=1.0, random_state=seed)
    return X, np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)) if classes else y


def used(number: int, seed: int, folder: str | None = None) -> str:
    """Fit a job, use the model in every way, and return a digest of all numbers."""
    model, rows, classes = JOBS[number]
    X, y = data(rows, classes, seed)
    new = data(200, 0, seed + 1)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(model).fit(X, y)
        found = [model.predict(new), model.loo_predictions_]
        found.append(model.predict_proba(new) if classes else model.predict_interval(new[:20]))
    if folder is not None:
        path = Path(folder) / f"{number}.lssvm"
        lssvm.save(model, path)
        if not np.array_equal(lssvm.load(path).predict(new), found[0]):
            raise AssertionError(f"The file of {model} does not give the same predictions.")
    return hashlib.sha256(b"".join(np.ascontiguousarray(values).tobytes() for values in found)).hexdigest()


def memory() -> float:
    """Resident memory in MB."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def left_behind(folder: str) -> dict[str, int]:
    """What a fit could leave behind: threads, open files, temporary files and folders."""
    counts = {"threads": "/proc/self/task", "open files": "/proc/self/fd", "temporary files": folder}
    return {name: len(os.listdir(path)) for name, path in counts.items()}


def endure(rounds: int, numbers: list[int]) -> bool:
    """Whether many fits leave nothing behind."""
    with tempfile.TemporaryDirectory() as models, tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        start = time.process_time()
        for number in numbers:
            used(number, 0, models)
        first, before = memory(), left_behind(folder)
        print(f"{len(numbers)} fits: {first:.0f} MB, {before}", flush=True)
        for seed in range(1, rounds):
            for number in numbers:
                used(number, seed, models)
            print(f"{(seed + 1) * len(numbers)} fits: {memory():.0f} MB", flush=True)
        last, after = memory(), left_behind(folder)
        tempfile.tempdir = None
    growth = last / first - 1.0
    print(f"{rounds * len(numbers)} fits: {last:.0f} MB, {after}, {time.process_time() - start:.0f} s of CPU")
    print(f"growth of the memory: {growth:.1%} (limit {LARGEST_GROWTH:.0%})")
    return growth < LARGEST_GROWTH and before == after


def same_bits(numbers: list[int]) -> bool:
    """Whether fits in several threads and processes give bitwise the results of the fits alone."""
    seeds = [0] * len(numbers)
    alone = [used(number, 0) for number in numbers]
    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(used, 3 * numbers, 3 * seeds))
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        apart = list(pool.map(used, 4 * numbers, 4 * seeds))
    passed = True
    for name, found in (("8 threads", threaded), ("4 processes", apart)):
        equal = [one == alone[place % len(alone)] for place, one in enumerate(found)]
        print(f"{name}: {sum(equal)} of {len(equal)} fits are bitwise equal to those alone")
        for number in sorted({numbers[place % len(alone)] for place, same in enumerate(equal) if not same}):
            print(f"  different: {JOBS[number]}")
        passed &= all(equal)
    return passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller fits")
    parser.add_argument("--bits", action="store_true", help="only the comparison of threads and processes")
    arguments = parser.parse_args()
    small = [number for number, (_, rows, _) in enumerate(JOBS) if rows <= SMALL]
    if arguments.quick:
        small = [number for number, (_, rows, _) in enumerate(JOBS) if rows <= 200]
    passed = arguments.bits or endure(
        4 if arguments.quick else ROUNDS, small if arguments.quick else [*range(len(JOBS))]
    )
    passed &= same_bits(small)
    sys.exit(0 if passed else "A limit was exceeded.")


if __name__ == "__main__":
    main()
