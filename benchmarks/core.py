"""Dense and sparse fits with exact leave-one-out, against scikit-learn and against the machine's own rates.

    python -m benchmarks.core            l = 100,000, n = 1000; N = 5000: several minutes
    python -m benchmarks.core --quick    a tenth of the rows

Every figure is the best of several runs, the contenders taking turns in one process; memory is the peak of a fresh
process over its own start. Friedman's function, 20 inputs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.linalg import blas, lapack
from sklearn.datasets import make_friedman1
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from lssvm import LSSVR, kernels, sparsify

SIGMA = 5.0


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    return make_friedman1(rows, 20, noise=1.0, random_state=0)


def dense(X: np.ndarray, y: np.ndarray) -> LSSVR:
    return LSSVR(kernels.RBF(SIGMA), C=10.0, steps=[]).fit(X, y)


def kernel_ridge(X: np.ndarray, y: np.ndarray) -> KernelRidge:
    return KernelRidge(kernel="rbf", gamma=1 / SIGMA**2, alpha=0.1).fit(X, y)


def sparse(X: np.ndarray, y: np.ndarray, n: int) -> LSSVR:
    return LSSVR(kernels.RBF(SIGMA), C=1.0, steps=[sparsify.Random(n, random_state=0)]).fit(X, y)


def nystroem(X: np.ndarray, y: np.ndarray, n: int) -> object:
    return make_pipeline(Nystroem(gamma=1 / SIGMA**2, n_components=n, random_state=0), Ridge(alpha=1.0)).fit(X, y)


def best_of(repeats: int, contenders: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Smallest wall seconds of each contender, taking turns."""
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(repeats):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def rates(rows: int, n: int) -> dict[str, Callable[[], object]]:
    """The routines that bound a sparse fit, on matrices of its size."""
    A = np.random.default_rng(0).standard_normal((rows, n))
    L = np.linalg.cholesky(np.cov(A.T) + np.eye(n))
    S = np.asfortranarray(L @ L.T)
    return {
        "DSYRK": lambda: blas.dsyrk(1.0, A.T),
        "DTRSM": lambda: blas.dtrsm(1.0, L.T, A.T, trans_a=1),
        "DPOTRF": lambda: lapack.dpotrf(S),
    }


def peak_memory(kind: str, rows: int, n: int) -> float:
    """Peak bytes of a fit in a fresh process, beyond those before it."""
    command = [sys.executable, "-m", "benchmarks.core", "--memory", kind, str(rows), str(n)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_memory(kind: str, rows: int, n: int) -> None:
    X, y = data(rows)
    (dense if kind == "dense" else sparse)(X[:50], y[:50], *(() if kind == "dense" else (5,)))
    before = peak()
    if kind == "dense":
        dense(X, y)
    else:
        sparse(X, y, n)
    print(peak() - before)


def peak() -> int:
    """Largest resident size of this process so far; getrusage would count its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--memory", nargs=3, metavar=("KIND", "ROWS", "BASIS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        kind, rows, n = arguments.memory
        print_memory(kind, int(rows), int(n))
        return
    N, rows, n, repeats = (1500, 10_000, 300, 3) if arguments.quick else (5000, 100_000, 1000, 3)

    X, y = data(N)
    seconds = best_of(repeats, {"lssvm": lambda: dense(X, y), "KernelRidge": lambda: kernel_ridge(X, y)})
    print(f"dense, N = {N}")
    print(f"  lssvm fit with leave-one-out      {seconds['lssvm']:8.2f} s")
    print(f"  KernelRidge fit without it        {seconds['KernelRidge']:8.2f} s")
    print(f"  ratio                             {seconds['lssvm'] / seconds['KernelRidge']:8.2f}   (aim: at most 2)")
    print(f"  peak memory                       {peak_memory('dense', N, 0) / (8 * N * N):8.2f}   N x N matrices")

    X, y = data(rows)
    contenders = {"lssvm": lambda: sparse(X, y, n), "Nystroem + Ridge": lambda: nystroem(X, y, n), **rates(rows, n)}
    seconds = best_of(repeats, contenders)
    flops = rows * n * n
    limit = flops * (2 / (flops / seconds["DTRSM"]) + 1 / (flops / seconds["DSYRK"]))
    print(f"sparse, l = {rows}, n = {n}")
    print(f"  lssvm fit with leave-one-out      {seconds['lssvm']:8.2f} s")
    print(f"  Nystroem + Ridge fit without it   {seconds['Nystroem + Ridge']:8.2f} s")
    print(f"  ratio                             {seconds['lssvm'] / seconds['Nystroem + Ridge']:8.2f}")
    print(
        f"  DSYRK, DTRSM, DPOTRF              {flops / seconds['DSYRK'] / 1e9:8.1f}, "
        f"{flops / seconds['DTRSM'] / 1e9:.1f}, {n**3 / 3 / seconds['DPOTRF'] / 1e9:.1f} GFLOP/s"
    )
    print(
        f"  share of the machine's rate       {100 * limit / seconds['lssvm']:8.0f} % (aim: at least 75; 3 l n^2 flops:"
        " whitening and leave-one-out at DTRSM's rate, Gram at DSYRK's)"
    )
    print(
        f"  peak memory                       {peak_memory('sparse', rows, n) / (8 * rows * n):8.2f}   l x n matrices"
    )


if __name__ == "__main__":
    main()
