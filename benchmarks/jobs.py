"""What a subprocess of ``python -m benchmarks`` does: one fit, prediction or search of one contender, measured.

    python -m benchmarks.jobs '{"job": "dense", "rows": 2000, "loo": true}'

Prints one JSON object: ``seconds`` (wall), ``peak`` (bytes beyond those before the work), ``error`` on rows held out,
and what else the job tells. A package that is missing gives ``missing``. Imports are inside the jobs, so that a peer
can run in an interpreter of its own. Friedman's function, 20 inputs, unless said otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_friedman1

SIGMA = 5.0  # of the kernel where it is given
WIDTHS, RIDGES = np.geomspace(1.0, 20.0, 20), np.geomspace(1e-4, 1e2, 30)  # the grid that is searched
Result = dict[str, Any]


# Data and measurement -------------------------------------------------------------------------------------------------
def friedman(rows: int) -> tuple[np.ndarray, np.ndarray]:
    return make_friedman1(rows, 20, noise=1.0, random_state=0)


def digits(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Copies of scikit-learn's digits with noise: 64 inputs, 10 classes."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(y), rows)
    return X[drawn] + 4.0 * rng.standard_normal((rows, X.shape[1])), y[drawn]


def peak() -> int:
    """Largest resident size of this process so far; getrusage may count that of its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(1024 * int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line)
    import resource

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


def measured(work: Callable[[], Any]) -> tuple[Any, Result]:
    """The result of the work, its wall seconds and its peak memory."""
    before, start = peak(), time.perf_counter()
    value = work()
    return value, {"seconds": time.perf_counter() - start, "peak": peak() - before}


def fitted(make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> tuple[Any, Result]:
    """A model fitted once to few rows, so that everything is imported, then to all."""
    make().fit(X[:200], y[:200])
    return measured(lambda: make().fit(X, y))


def held_out(model: Any) -> float:
    """RMSE on the noise-free function."""
    X, y = make_friedman1(2000, 20, noise=0.0, random_state=1)
    return float(np.sqrt(np.mean((np.asarray(model.predict(X)).ravel() - y) ** 2)))


def with_error(model: Any, result: Result) -> Result:
    return {**result, "error": held_out(model)}


# (a), (i): dense, everything given ------------------------------------------------------------------------------------
def dense(rows: int, loo: bool) -> Result:
    """With `loo`, leave-one-out is requested; otherwise large models do not compute it."""
    from lssvm import LSSVR, kernels

    X, y = friedman(rows)
    make = lambda: LSSVR(kernels.RBF(SIGMA), C=10.0, steps=())  # noqa: E731
    make().fit(X[:200], y[:200])

    def work() -> Any:
        model = make().fit(X, y)
        return (model.leave_one_out(), model.press_) if loo else (model, None)

    (model, _), result = measured(work)
    return with_error(model, result)


def kernel_ridge(rows: int) -> Result:
    from sklearn.kernel_ridge import KernelRidge

    return with_error(*fitted(lambda: KernelRidge(kernel="rbf", gamma=SIGMA**-2, alpha=0.1), *friedman(rows)))


def plssvm(rows: int) -> Result:
    from plssvm import SVR

    return with_error(*fitted(lambda: SVR(kernel="rbf", gamma=SIGMA**-2, C=10.0), *friedman(rows)))


# (b): a basis, everything given ---------------------------------------------------------------------------------------
def sparse(rows: int, n: int) -> Result:
    from lssvm import LSSVR, kernels, sparsify

    def make(size: int = n) -> Any:
        return LSSVR(kernels.RBF(SIGMA), C=1.0, steps=[sparsify.Random(size, random_state=0)])

    X, y = friedman(rows)
    make(20).fit(X[:200], y[:200])
    return with_error(*measured(lambda: make().fit(X, y)))


def chunked(rows: int, n: int, leave_one_out: str) -> Result:
    from lssvm import LSSVR, kernels, sparsify

    def fit(X: np.ndarray, y: np.ndarray, size: int) -> Any:
        model = LSSVR(kernels.RBF(SIGMA), C=1.0, steps=[sparsify.Random(size, random_state=0)])
        return model.fit_chunks((X, y), leave_one_out=leave_one_out)

    X, y = friedman(rows)
    fit(X[:200], y[:200], 20)
    return with_error(*measured(lambda: fit(X, y, n)))


def nystroem(rows: int, n: int) -> Result:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    def make(size: int = n) -> Any:
        return make_pipeline(Nystroem(gamma=SIGMA**-2, n_components=size, random_state=0), Ridge(alpha=1.0))

    X, y = friedman(rows)
    make(20).fit(X[:200], y[:200])
    return with_error(*measured(lambda: make().fit(X, y)))


def falkon(rows: int, n: int) -> Result:
    import torch
    from falkon import Falkon, FalkonOptions
    from falkon.kernels import GaussianKernel

    X, y = (torch.tensor(part) for part in friedman(rows))
    kernel, options = GaussianKernel(SIGMA / 2**0.5), FalkonOptions(use_cpu=True)
    model, result = measured(lambda: Falkon(kernel, penalty=1.0 / rows, M=n, options=options).fit(X, y[:, None]))
    new, truth = make_friedman1(2000, 20, noise=0.0, random_state=1)
    predicted = model.predict(torch.tensor(new)).numpy().ravel()
    return {**result, "error": float(np.sqrt(np.mean((predicted - truth) ** 2)))}


# (c): predictions -----------------------------------------------------------------------------------------------------
def predictions(model: Any, rows: int) -> Result:
    new = make_friedman1(rows, 20, random_state=2)[0]
    model.predict(new[:1000])
    return with_error(model, measured(lambda: model.predict(new))[1])


def predict(rows: int, n: int, train: int) -> Result:
    from lssvm import LSSVR, kernels, sparsify

    model = LSSVR(kernels.RBF(SIGMA), C=1.0, steps=[sparsify.Random(n, random_state=0)])
    return predictions(model.fit(*friedman(train)), rows)


def predict_nystroem(rows: int, n: int, train: int) -> Result:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(Nystroem(gamma=SIGMA**-2, n_components=n, random_state=0), Ridge(alpha=1.0))
    return predictions(model.fit(*friedman(train)), rows)


def predict_svr(rows: int, part: int, train: int) -> Result:
    """`part` of the rows; their seconds are multiplied."""
    from sklearn.svm import SVR

    model = SVR(gamma=SIGMA**-2, C=10.0, cache_size=1000).fit(*friedman(train))
    result = predictions(model, part)
    result["seconds"] *= rows / part
    return {**result, "note": f"{len(model.support_):,} support vectors; {part:,} rows timed"}


# (d): searches --------------------------------------------------------------------------------------------------------
def grid(rows: int, n: int | None) -> Result:
    """All points of the grid with exact leave-one-out."""
    from lssvm import arrays

    from .tuning import whole_grid

    X, y = friedman(rows)
    whole_grid(X[:100], y[:100], None if n is None else 20, WIDTHS[:1], RIDGES)
    with arrays.single_threaded_blas():  # as in fit
        (error, _, _), result = measured(lambda: whole_grid(X, y, n, WIDTHS, RIDGES))
    unit = y.std()  # of the errors that are compared
    return {**result, "error": float(unit * np.sqrt(error)), "note": "error: leave-one-out RMSE"}


def default_search(rows: int, n: int | None) -> Result:
    """The library's own search of one common width and C."""
    from lssvm import LSSVR, kernels, sparsify

    steps = () if n is None else [sparsify.Random(n, random_state=0)]
    model, result = fitted(lambda: LSSVR(kernels.RBF(), steps=steps), *friedman(rows))
    error = float(np.sqrt(np.mean(model.loo_residuals_**2)))
    return {**result, "error": error, "note": "error: leave-one-out RMSE"}


def grid_kernel_ridge(rows: int) -> Result:
    """GridSearchCV's work: one point, 10 folds, times the number of points."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import cross_val_score

    X, y = friedman(rows)
    model = KernelRidge(kernel="rbf", gamma=WIDTHS[10] ** -2, alpha=RIDGES[15])
    return extrapolated(measured(lambda: cross_val_score(model, X, y, cv=10))[1], len(WIDTHS) * len(RIDGES))


def grid_nystroem(rows: int, n: int) -> Result:
    """As `grid_kernel_ridge`."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    X, y = friedman(rows)
    model = make_pipeline(Nystroem(gamma=WIDTHS[10] ** -2, n_components=n, random_state=0), Ridge(alpha=RIDGES[15]))
    return extrapolated(measured(lambda: cross_val_score(model, X, y, cv=10))[1], len(WIDTHS) * len(RIDGES))


def loop_nystroem(rows: int, n: int) -> Result:
    """A loop over the widths, RidgeCV's leave-one-out over the ridges: one width, times their number."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline

    X, y = friedman(rows)
    model = make_pipeline(Nystroem(gamma=WIDTHS[10] ** -2, n_components=n, random_state=0), RidgeCV(alphas=RIDGES))
    return extrapolated(measured(lambda: model.fit(X, y))[1], len(WIDTHS))


def extrapolated(result: Result, times: int) -> Result:
    return {**result, "seconds": times * result["seconds"], "note": f"1 of {times} timed"}


# (e): the defaults ----------------------------------------------------------------------------------------------------
def default(rows: int) -> Result:
    from lssvm import LSSVR

    return with_error(*fitted(LSSVR, *friedman(rows)))


def neo(rows: int) -> Result:
    from neo_ls_svm import NeoLSSVM
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return with_error(*fitted(lambda: make_pipeline(StandardScaler(), NeoLSSVM()), *friedman(rows)))


def gaussian_process(rows: int) -> Result:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0) * RBF(np.ones(20)) + WhiteKernel()
    X, y = friedman(rows)
    return with_error(*measured(lambda: GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)))


# (f), (g): sparse -----------------------------------------------------------------------------------------------------
def prune(rows: int, n: int) -> Result:
    from lssvm import LSSVR, kernels, sparsify

    def make(size: int = n) -> Any:
        return LSSVR(kernels.RBF(SIGMA), C=10.0, steps=[sparsify.Prune(size, rows="keep")])

    X, y = friedman(rows)
    make(50).fit(X[:100], y[:100])
    return with_error(*measured(lambda: make().fit(X, y)))


def select(step: str, rows: int, n: int) -> Result:
    from lssvm import arrays, kernels, sparsify
    from lssvm.problem import Problem

    options = {"candidates": 59} if step == "FeatureVectors" else {}
    choose = getattr(sparsify, step)(n, random_state=0, **options)
    X, y = friedman(rows)
    problem = Problem(kernels.RBF(SIGMA), X, y[:, None], np.ones(rows), C=1.0)
    with arrays.single_threaded_blas():  # as in fit
        return measured(lambda: choose(problem))[1]


def select_dsyrk(rows: int, n: int) -> Result:
    """The unit in which selections are counted: one product A'A of the columns."""
    from scipy.linalg.blas import dsyrk

    A = np.random.default_rng(0).standard_normal((rows, n))
    dsyrk(1.0, A[:1000].T)
    return measured(lambda: dsyrk(1.0, A.T))[1]


# (h): many classes ----------------------------------------------------------------------------------------------------
def classify(rows: int, n: int) -> Result:
    from lssvm import LSSVC, kernels, sparsify

    def make(size: int = n) -> Any:
        return LSSVC(kernels.RBF(50.0), C=10.0, steps=[sparsify.Random(size, random_state=0)])

    return _classified(make, rows)


def classify_nystroem(rows: int, n: int) -> Result:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline

    def make(size: int = n) -> Any:
        return make_pipeline(Nystroem(gamma=50.0**-2, n_components=size, random_state=0), RidgeClassifier(alpha=0.1))

    return _classified(make, rows)


def _classified(make: Callable[..., Any], rows: int) -> Result:
    X, y = digits(rows, 0)
    make(20).fit(X[:200], y[:200])
    model, result = measured(lambda: make().fit(X, y))
    new, truth = digits(5000, 1)
    return {**result, "error": float(np.mean(model.predict(new) != truth)), "note": "error: share of wrong classes"}


# The computer ---------------------------------------------------------------------------------------------------------
def limits(n: int, rows: int, columns: int) -> Result:
    """Rates of the routines that bound the others: 1e9 flops, values or bytes a second, the best of three."""
    from concurrent.futures import ThreadPoolExecutor

    from scipy.linalg import blas, lapack

    from lssvm.arrays.threads import workers

    rng = np.random.default_rng(0)
    A, tall = rng.standard_normal((n, n)), rng.standard_normal((rows, columns))
    S = np.asfortranarray(A @ A.T / n + np.eye(n))
    L = np.eye(columns) + 1e-3 * np.tril(rng.standard_normal((columns, columns)))
    parts = np.array_split(-rng.random(2**24), 64 * workers())
    source, target = np.ones(2**26), np.empty(2**26)  # 512 MiB each
    halves = list(zip(np.array_split(target, workers()), np.array_split(source, workers()), strict=True))
    pool = ThreadPoolExecutor(workers())
    work: dict[str, tuple[float, Callable[[], object]]] = {
        "DGEMM": (2.0 * n**3, lambda: blas.dgemm(1.0, A.T, A.T)),
        "DSYRK": (1.0 * rows * columns**2, lambda: blas.dsyrk(1.0, tall.T)),
        "DTRSM": (1.0 * rows * columns**2, lambda: blas.dtrsm(1.0, L.T, tall.T, trans_a=1, overwrite_b=1)),
        "DTRMM": (1.0 * rows * columns**2, lambda: blas.dtrmm(1.0, L.T, tall.T, trans_a=1, overwrite_b=1)),
        "DPOTRF": (n**3 / 3.0, lambda: lapack.dpotrf(S)),
        "exp, one core": (1.0 * len(parts[0]), lambda: np.exp(parts[0])),
        "exp, all cores": (1.0 * 2**24, lambda: list(pool.map(np.exp, parts))),
        "memory (read and write)": (2.0 * source.nbytes, lambda: list(pool.map(lambda p: np.copyto(*p), halves))),
    }
    found = {}
    for name, (amount, run) in work.items():
        found[name] = amount / min(measured(run)[1]["seconds"] for _ in range(3)) / 1e9
    return {"rates": found}


def imports() -> Result:
    """Seconds of importing the estimators beyond those of the modules of scikit-learn that they stand on."""
    script = (
        "import time; a = time.perf_counter()\n"
        "import scipy.optimize, sklearn.cluster, sklearn.metrics, sklearn.model_selection; b = time.perf_counter()\n"
        "from lssvm import LSSVC, LSSVR; c = time.perf_counter()\n"
        "print(b - a, c - b)"
    )
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    theirs, ours = map(float, output.split())
    return {"seconds": ours, "peak": 0, "note": f"after scikit-learn's own {theirs:.2f} s"}


def main() -> None:
    arguments = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    try:
        result = globals()[arguments.pop("job")](**arguments)
    except ModuleNotFoundError as error:
        result = {"missing": error.name}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
