"""Fits on a busy computer, compared with scikit-learn's KernelRidge (docs/performance.md).

    python -m benchmarks.load                   idle, then with one busy process per core: about three minutes
    python -m benchmarks.load --against SRC     idle only, in turns with the lssvm of another source folder

Each job runs ten times in its own process; the first fit, on few rows, is not counted. The slowdown is the slowest run
under load divided by the fastest idle run; with a fair share of the cores it is 2. All jobs use Friedman's function.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

JOBS = {
    "dense, leave-one-out, 2000 rows": (20, "LSSVR(kernels.RBF(5.0), C=10.0, steps=())", 2000),
    "dense, 5000 rows": (20, "LSSVR(kernels.RBF(5.0), C=10.0, steps=())", 5000),
    "basis of 300, 20,000 rows": (20, "LSSVR(kernels.RBF(5.0), C=1.0, steps=[sparsify.Random(300)])", 20_000),
    "basis of 1000, 20,000 rows": (20, "LSSVR(kernels.RBF(5.0), C=1.0, steps=[sparsify.Random(1000)])", 20_000),
    "LSSVR(), 1000 rows x 10": (10, "LSSVR()", 1000),
    "LSSVC(), 600 rows x 10": (10, "LSSVC()", 600),
    "KernelRidge, 2000 rows": (20, "KernelRidge(kernel='rbf', gamma=0.04, alpha=0.1)", 2000),
}
SCRIPT = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from lssvm import LSSVC, LSSVR, kernels, sparsify
columns, model, rows, runs = json.loads(sys.argv[1])
X, y = make_friedman1(rows, columns, noise=1.0, random_state=0)
y = y > 14.0 if "LSSVC" in model else y
LSSVR(kernels.RBF(5.0), C=1.0).fit(X[:200], y[:200])
times = []
for _ in range(runs):
    start = time.perf_counter()
    eval(model).fit(X, y)
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


def seconds(name: str, runs: int, source: str | None = None) -> list[float]:
    """Wall time of each run of a job, in seconds."""
    environment = {**os.environ, **({} if source is None else {"PYTHONPATH": source})}
    command = [sys.executable, "-c", SCRIPT, json.dumps([*JOBS[name], runs])]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


@contextmanager
def busy() -> Iterator[None]:
    """One process per core that never sleeps."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def under_load(names: list[str], runs: int) -> None:
    print("| fit | idle, s | under load, s: median | slowest | slowdown |\n|---|---|---|---|---|")
    for name in names:
        idle = seconds(name, runs)
        with busy():
            loaded = seconds(name, runs)
        slowdown = max(loaded) / min(idle)
        print(f"| {name} | {min(idle):.3f} | {median(loaded):.3f} | {max(loaded):.3f} | {slowdown:.1f} |", flush=True)


def against(names: list[str], runs: int, source: str) -> None:
    print("| fit | other, s | this, s | this / other |\n|---|---|---|---|")
    for name in names:
        other, this = [], []
        for _ in range(3):
            other += seconds(name, max(1, runs // 3), source)
            this += seconds(name, max(1, runs // 3))
        print(f"| {name} | {min(other):.3f} | {min(this):.3f} | {min(this) / min(other):.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--against", metavar="SRC", help="src folder of another checkout")
    parser.add_argument("--only", metavar="TEXT", default="", help="run only jobs whose name contains this text")
    arguments = parser.parse_args()
    names = [name for name in JOBS if arguments.only in name]
    if arguments.against:
        against(names, arguments.runs, arguments.against)
    else:
        under_load(names, arguments.runs)


if __name__ == "__main__":
    main()
