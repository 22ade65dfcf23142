"""Fits on one GPU compared with the rates of its routines, and with GPyTorch if it is installed.

    python -m benchmarks.gpu             sizes for a GPU with at least 80 GB: about ten minutes
    python -m benchmarks.gpu --quick     small sizes, also on a CPU
    python -m benchmarks.gpu --data FOLDER    rows against learned points as a basis, on the sets of `benchmarks.tuning`

Data are generated on the GPU. Each figure is the best of two runs after a warm-up run, in float64.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lssvm import LSSVR, kernels, sparsify

from .tuning import from_folder


def seconds(run: Callable[[], Any], repeats: int = 2) -> float:
    """Best wall time in seconds, with the GPU synchronised before and after."""
    best = float("inf")
    for _ in range(repeats + 1):
        synchronise()
        start = time.perf_counter()
        run()
        synchronise()
        elapsed = time.perf_counter() - start
        best = min(best, elapsed)
        if elapsed > 20:
            break
    return best


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def data(rows: int, columns: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Standard normal inputs, a smooth function of five of them, noise of standard deviation 0.1."""
    generator = torch.Generator(device).manual_seed(0)
    X = torch.randn(rows, columns, dtype=torch.float64, device=device, generator=generator)
    y = torch.sin(X[:, 0] * X[:, 1]) + 0.5 * X[:, 2] ** 2 + X[:, 3] - 0.5 * X[:, 4]
    return X, y + 0.1 * torch.randn(rows, dtype=torch.float64, device=device, generator=generator)


def rates(n: int, device: str) -> dict[str, float]:
    """Operations per second of the routines that limit a fit (exp: values per second)."""
    A = torch.randn(n, n, dtype=torch.float64, device=device)
    S = A @ A.T / n + torch.eye(n, dtype=torch.float64, device=device)
    found = {
        "DGEMM": 2 * n**3 / seconds(lambda: A @ A),
        "DPOTRF": n**3 / 3 / seconds(lambda: torch.linalg.cholesky(S)),
        "DTRSM": n**3 / seconds(lambda: torch.linalg.solve_triangular(S, A, upper=False)),
    }
    found["exp"] = n * n / seconds(lambda: S.exp_())
    return found


def sparse(n: int, sigma: float, points: torch.Tensor) -> LSSVR:
    return LSSVR(kernels.RBF(sigma), C=1.0, steps=[sparsify.Given(points[:n])])


def report(name: str, value: float, unit: str, aim: str = "") -> None:
    print(f"  {name:<44}{value:10.3g} {unit:<10}{aim}", flush=True)


def large(rows: int, n: int, device: str, gemm: float, aims: tuple[str, str, str]) -> None:
    """A fit without and with leave-one-out, and the share of the GPU's rate for matrix products that it reaches."""
    X, y = data(rows, 20, device)
    model = sparse(n, 5.0, X)
    print(f"l = {rows:,}, d = 20, n = {n:,}")
    alone = seconds(lambda: model.fit_chunks((X, y), leave_one_out="none"))
    report("fit_chunks without leave-one-out", alone, "s", aims[0])
    both = seconds(lambda: model.fit(X, y))
    report("fit with leave-one-out", both, "s", aims[1])
    needed = 2 * rows * n * n + 2 * rows * n * 20  # whitening (triangular), Gram matrix (symmetric), distances
    report("share of DGEMM's rate, fit (2 l n^2 flops)", 100 * needed / alone / gemm, "%", aims[2])
    report("predictions per second", rows / seconds(lambda: model.predict(X)), "1/s")
    report("leave-one-out RMSE (noise 0.1)", float((model.loo_residuals_**2).mean().sqrt()), "")


def dense(rows: int, device: str) -> None:
    """The dual system with leave-one-out compared with a Cholesky factorisation alone."""
    X, y = data(rows, 20, device)
    K = kernels.RBF(5.0)(X) + torch.eye(rows, dtype=torch.float64, device=device)
    potrf = seconds(partial(torch.linalg.cholesky, K))
    del K
    model = LSSVR(kernels.RBF(5.0), C=1.0, steps=[])
    fit = seconds(lambda: model.fit(X, y))
    print(f"dense, N = {rows:,}")
    report("Cholesky factorisation alone", potrf, "s")
    report("fit with leave-one-out", fit, "s")
    report("ratio", fit / potrf, "", "(aim: at most 2)")


def tuned(rows: int, device: str) -> None:
    """Dense models with their search and leave-one-out, by conjugate gradients if there are many rows."""
    X, y = data(rows + 10_000, 8, device)
    X, y, new, truth = X[:rows], y[:rows], X[rows:], y[rows:]
    print(f"dense, l = {rows:,}, d = 8, widths and C chosen")
    for name, model in (("Matern(ard=True)", LSSVR(kernels.Matern(ard=True), steps=[])), ("default", LSSVR())):
        if rows <= 100_000 or model.kernel is not None:
            report(f"{name}: fit with leave-one-out", seconds(partial(model.fit, X, y), 1), "s")
            report(f"{name}: test RMSE", float(((model.predict(new) - truth) ** 2).mean().sqrt()), "")
            report(f"{name}: leave-one-out RMSE", float((model.loo_residuals_**2).mean().sqrt()), "")


def same(device: str) -> None:
    """The results on the GPU compared with NumPy."""
    X, y = data(20_000, 20, device)
    model, other = sparse(500, 5.0, X), sparse(500, 5.0, X.cpu())
    model.fit(X, y)
    other.fit(X.cpu().numpy(), y.cpu().numpy())
    difference = abs(model.predict(X[:1000]).cpu().numpy() - other.predict(X[:1000].cpu().numpy())).max()
    report("largest difference from NumPy (l = 20,000)", difference, "")


def gpytorch_rivals(rows: int, n: int, device: str) -> None:
    """SVGP (one epoch) and SGPR (one step) of GPyTorch with as many inducing points, against the whole fit."""
    try:
        import gpytorch
    except ImportError:
        print("gpytorch is not installed: its rows are omitted")
        return
    X, y = data(rows + 10_000, 20, device)
    X, y, X_test, y_test = X[:rows], y[:rows], X[rows:], y[rows:]
    print(f"against GPyTorch {gpytorch.__version__}: l = {rows:,}, n = {n:,}")
    model = sparse(n, 5.0, X)
    report("lssvm: fit with leave-one-out", seconds(lambda: model.fit(X, y)), "s")
    report("lssvm: test RMSE", float(((model.predict(X_test) - y_test) ** 2).mean().sqrt()), "")

    class SVGP(gpytorch.models.ApproximateGP):
        def __init__(self, points: torch.Tensor) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(points.shape[0])
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, q))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.covar_module.base_kernel.lengthscale = 5.0 / 2**0.5

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    X32, y32 = X.float(), y.float()
    gp, likelihood = SVGP(X32[:n].clone()).to(device), gpytorch.likelihoods.GaussianLikelihood().to(device)
    optimiser = torch.optim.Adam([*gp.parameters(), *likelihood.parameters()], lr=0.01)
    objective = gpytorch.mlls.VariationalELBO(likelihood, gp, rows)

    def epoch() -> None:
        for batch in torch.randperm(rows, device=device).split(4096):
            optimiser.zero_grad()
            loss = -objective(gp(X32[batch]), y32[batch])
            loss.backward()
            optimiser.step()

    start = time.perf_counter()
    epoch()
    synchronise()
    report("SVGP: one epoch (float32, batches of 4096)", time.perf_counter() - start, "s")
    gp.eval()
    with torch.no_grad():
        error = gp(X_test.float()).mean - y_test
    report("SVGP: test RMSE after one epoch", float((error**2).mean().sqrt()), "")

    few = min(rows, 100_000)

    class SGPR(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(X[:few], y[:few], likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.covar_module = gpytorch.kernels.InducingPointKernel(base, X[:n].clone(), likelihood)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device).double()
    sgpr = SGPR(likelihood).to(device).double()
    exact = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, sgpr)

    def step() -> None:
        with gpytorch.settings.cholesky_max_tries(6):
            (-exact(sgpr(X[:few]), y[:few])).backward()

    report(f"SGPR: one step on {few:,} rows (float64)", seconds(step, 1), "s")
    report(f"lssvm: whole fit on {few:,} rows", seconds(lambda: model.fit(X[:few], y[:few]), 1), "s")


def learned(folder: Path, n: int, splits: int, device: str) -> None:
    """Held-out RMSE and time of complete fits with n random rows and with n learned points, defaults otherwise."""
    tensor = partial(torch.tensor, device=device, dtype=torch.float64)
    warm = [tensor(part) for part in next(from_folder(folder, 0))[1]]
    LSSVR(steps=[sparsify.Learned(50, steps=2, random_state=0)]).fit(*warm[:2])
    for step in (sparsify.Random(n, random_state=0), sparsify.Learned(n, random_state=0)):
        errors: dict[str, list[tuple[float, float]]] = {}
        for split in range(splits):
            for name, parts in from_folder(folder, split):
                X, y, new, truth = (tensor(part) for part in parts)
                if len(y) > 2 * n:
                    synchronise()
                    start = time.perf_counter()
                    model = LSSVR(steps=[step]).fit(X, y)
                    synchronise()
                    taken = time.perf_counter() - start
                    errors.setdefault(name, []).append(
                        (float(((model.predict(new) - truth) ** 2).mean().sqrt()), taken)
                    )
        for name, runs in errors.items():
            rmse, taken = (sum(run[place] for run in runs) / len(runs) for place in (0, 1))
            print(f"{name:12} {step!r:40} RMSE {rmse:.4f} in {taken:.2f} s, means of {len(runs)} splits", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, help="folder of regression sets (.npz)")
    parser.add_argument("--splits", type=int, default=10, help="number of splits")
    arguments = parser.parse_args()
    quick = arguments.quick
    warnings.simplefilter("ignore")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(torch.cuda.get_device_name() if device == "cuda" else "CPU", "torch", torch.__version__)
    if arguments.data:
        learned(arguments.data, 1000, arguments.splits, device)
        return
    found = rates(1000 if quick else 10_000, device)
    for name, rate in found.items():
        report(name, rate / 1e12, "Tflop/s" if name != "exp" else "T values/s")
    same(device)
    if quick:
        large(50_000, 300, device, found["DGEMM"], ("", "", ""))
        large(10_000, 600, device, found["DGEMM"], ("", "", ""))
        dense(2000, device)
        tuned(1000, device)
        gpytorch_rivals(5000, 100, device)
        return
    large(10_000_000, 2000, device, found["DGEMM"], ("(aim: at most 2.5)", "(aim: at most 5)", ""))
    large(1_000_000, 10_000, device, found["DGEMM"], ("", "", "(aim: at least 60)"))
    dense(40_000, device)
    for rows in (100_000, 1_000_000):
        tuned(rows, device)
    gpytorch_rivals(1_000_000, 1000, device)


if __name__ == "__main__":
    main()
