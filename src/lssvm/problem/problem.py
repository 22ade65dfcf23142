"""Problem: kernel, rows, targets, C, weights and basis in one frozen record; `solve` returns a Fit.

    min over beta, b:   1/2 beta' K_mm beta  +  C/2 * sum over rows i of v_i (y_i - k_i' beta - b)^2

Every method chooses the basis, the weights, C or the kernel, and passes on a Problem (`replace`). A weight of 0 removes
a row from the fit; its residual is then that of a new point.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from .. import arrays, progress, system
from ..arrays import EPS, Array
from ..progress import work
from ..system import iterative
from .factor import Factor
from .fit import Fit, check_solution, warn_of_leverage
from .record import ProblemRecord
from .whitening import check_finite, whiten

ITERATIVE_ROWS = 4000  # above, fits without leave-one-out use conjugate gradients: far fewer than l^3/3 flops


@dataclass(frozen=True)
class Problem(ProblemRecord):
    """A weighted, regularised least-squares problem over a kernel expansion, which can be factorised and solved."""

    def factorise(self, C: float | None = None, *, every: bool = False, quick: bool = False) -> Factor:
        """Factorise for one C (the problem's own by default), or with `every` for all C up to that one.

        With `quick` the leave-one-out error has about six digits, which is enough to compare settings.
        """
        C = self.C if C is None else C
        if C is None or self.kernel.is_free:
            raise ValueError(
                f"C={C!r}, kernel={self.kernel!r}: give the values that are None, or let tune.LeaveOneOut choose them."
            )
        rows, X, y, weights = self.positive_rows()
        if self.reduced:
            return self._factorise_reduced(C, rows, X, y, weights)
        if self.is_dual:
            support = rows
            points = self.kernel.basis_points(self.X, rows)
            check_memory(len(rows), arrays.eigh_matrices(len(rows), X) if every else 1, self.X)
            dual = None if every else system.factorise_dual(self.gram(X, points), y, weights, 1.0 / C)
            if dual is None:
                dual = system.factorise_dual(self.gram(X, points), y, weights)
            assert dual is not None
            progress.did(lambda: work(len(rows), None, every=every))
            return Factor(self, C, rows, support, points, None, dual)
        return self.factorise_primal(C, every=every, wide=True, quick=quick)

    def factorise_primal(self, C: float, *, every: bool = False, wide: bool = False, quick: bool = False) -> Factor:
        """As `factorise`, on the whitened columns even if the basis consists of the rows.

        With `wide`, if there are as many columns as rows, the dual system of their products is factorised.
        """
        rows, X, y, weights = self.positive_rows()
        support = rows if self.support is None and self.points is None else self.support
        points = self.points
        if points is None:
            points = self.kernel.basis_points(self.X, np.asarray(support))
        n = points.shape[0]
        together = quick and arrays.on_accelerator(X) and arrays.is_small(X.shape[0], n)  # one call instead of two
        K = self.among(support, points, X if together else None)
        whitening = whiten(self.kernel, points, K[:n, :], quick=quick and not every)
        if not self.fits_memory:
            raise MemoryError(
                f"{len(rows)} rows with {whitening.rank} basis points do not fit in memory, which this computation "
                "requires: use a smaller basis or fewer rows."
            )
        plain = not every and not quick and whitening.allows_plain_leverages(weights, 1.0 / C)
        if whitening.factor is None and points is not self.points and np.array_equal(np.asarray(support), rows):
            # the kernel columns are K_SS = L L' itself
            phi = whitening.lower + 0.0
        else:
            phi = K[n:, :]
            if not together or whitening.factor is not None:
                phi = self.kernel.fill(arrays.empty((X.shape[0], whitening.rank), X), X, whitening.points)
            check_finite(phi, self.kernel)
            progress.did(lambda: 0.3 * work(len(rows), whitening.rank, every=every))
            loss = system.QUICK if quick and not every else arrays.LOSS
            phi = phi if plain else arrays.whiten_rows(phi, whitening.lower, loss)
        if wide and whitening.rank >= len(rows) - 1:
            products = system.factorise_wide(phi, y, weights, None if every else 1.0 / C)
            return Factor(self, C, rows, support, points, whitening, products)
        tolerance = system.QUICK if quick else system.ORTHOGONAL
        lower = whitening.lower if plain else None
        primal = system.factorise_primal(phi, y, weights, 1.0 / C, lower=lower, every_ridge=every, tolerance=tolerance)
        progress.did(lambda: 0.7 * work(len(rows), whitening.rank, every=every))
        return Factor(self, C, rows, support, points, whitening, primal)

    def _factorise_reduced(self, C: float, rows: np.ndarray, X: Array, y: Array, weights: Array) -> Factor:
        support = rows if self.support is None else np.asarray(self.support)
        points = self.kernel.basis_points(self.X, support)
        K = self.kernel.fill(arrays.empty((X.shape[0], len(support)), X), X, points)
        check_finite(K, self.kernel)
        column = np.full(self.X.shape[0], -1)
        column[support] = np.arange(len(support))
        return Factor(
            self, C, rows, support, points, None, system.factorise_reduced(K, y, weights, column[rows], 1.0 / C)
        )

    def gram(self, X: Array, points: Array) -> Array:
        """The kernel matrix of some rows; `points` are their basis points."""
        K = self.kernel.fill_symmetric(arrays.empty((X.shape[0], X.shape[0]), X), X, points)
        check_finite(K, self.kernel)
        return K

    def solve(self, *, loo: bool = True) -> Fit:
        """Coefficients, residuals, leverages and exact leave-one-out residuals; robust weights are applied.

        Without `loo` the last two may be None, which saves dense fits of many rows the factorisation.
        """
        if self.fitted is not None:
            return self.fitted
        if self.coefficients is not None:
            return self._given_fit(*self.coefficients)
        fit = self._solve_once(loo)  # the factor is not kept: the next one needs the memory
        if self.robust is not None:
            sample_weight = arrays.to_numpy(self.weights)
            for _ in range(self.robust.iterations):
                robust = self.robust(arrays.to_numpy(fit.residuals), sample_weight)
                weighted = self.replace(weights=self.weights * arrays.like(robust, self.weights))
                fit = weighted._solve_once(loo)
        return fit

    def _solve_once(self, loo: bool = True) -> Fit:
        if not self.fits_memory:
            return self._solve_in_blocks()
        if not loo and self.is_dual and not self.reduced and arrays.is_numpy(self.X):
            fit = self._solve_by_gradients() if len(self.rows) > ITERATIVE_ROWS else None
            if fit is not None:
                return fit
        factor = self.factorise()
        fit = factor.fit(factor.C)
        return dataclasses.replace(fit, rounding=factor.rounding(fit))

    def _solve_by_gradients(self) -> Fit | None:
        """Solve the dual system by preconditioned conjugate gradients; None if they do not converge.

        The kernel matrix is stored if it fits in memory, and recomputed for every product otherwise.
        """
        if self.C is None or self.kernel.is_free:
            return None
        rows, X, y, weights = self.positive_rows()
        points = self.kernel.basis_points(self.X, rows)
        available = arrays.memory(X)
        if available is None or 10 * len(rows) ** 2 <= available:
            K = self.gram(X, points)
            diagonal = K.diagonal()

            def block(picked: np.ndarray, columns: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
                return np.take(K, picked, axis=0, out=out) if columns is None else K[np.ix_(picked, columns)]

            def product(V: np.ndarray) -> np.ndarray:
                return arrays.symmetric_product(V, K)
        else:
            diagonal = self.kernel.diagonal(self.X)[rows]

            def block(picked: np.ndarray, columns: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
                place = points if columns is None else points[columns]
                return self.kernel.fill(np.empty((len(picked), len(place))) if out is None else out, X[picked], place)

            def product(V: np.ndarray) -> np.ndarray:
                return self.kernel.dot(X, points, V.T).T

        diagonal = np.maximum(diagonal, 0.0)  # the user's own matrix may be indefinite
        # the eigenvalues that the factor misses are then a tenth of the ridge on average: a few tens of products
        floor = max(0.1 * len(rows) ** 2 / (self.C * float(weights.sum())), len(rows) * EPS * float(diagonal.sum()))
        draw = np.random.RandomState(0)
        _, factor = iterative.randomly_pivoted(block, diagonal, iterative.rank_limit(len(rows)), floor, draw)
        solution = iterative.solve(product, factor, y, weights, 1.0 / self.C)
        if solution is None:
            return None
        coef, intercept, residuals = solution
        check_solution(coef, intercept)
        if len(rows) < self.X.shape[0]:
            full = self.y - self.kernel.dot(self.X, points, coef) - intercept[None, :]
            residuals = arrays.put(full, rows, residuals)
        return Fit(self.kernel, self.C, self.weights, rows, points, coef, intercept, residuals, None, None)

    def _solve_in_blocks(self) -> Fit:
        """Solve the primal system from sums over blocks of rows, with a second pass for the per-row results."""
        if self.C is None:
            raise ValueError("C=None: give C, or let tune.LeaveOneOut choose it.")
        points = self.points
        if points is None:
            points = self.kernel.basis_points(self.X, np.asarray(self.support))
        whitening = whiten(self.kernel, points, self.among(self.support, points))
        rows = (self.X, self.y, self.weights)
        summed = None
        while True:
            summed = system.solve_in_passes(lambda R: whitening.sums(whitening.steps(R), *rows), 1.0 / self.C, summed)
            residuals, leverage, loo = whitening.row_results(summed, whitening.steps(summed.R, summed.condition), *rows)
            largest = float(arrays.namespace(leverage).max(leverage))
            if summed.serves(largest):
                break
        warn_of_leverage(largest)
        coef = whitening.expand(summed.coef)
        check_solution(coef, summed.intercept, loo)
        return Fit(
            self.kernel,
            self.C,
            self.weights,
            self.support,
            points,
            coef,
            summed.intercept,
            residuals,
            leverage,
            loo,
        )

    def _given_fit(self, coef: Array, intercept: Array) -> Fit:
        points = self.points
        if points is None:
            points = self.kernel.basis_points(self.X, np.asarray(self.support))
        residuals = self.y - self.kernel.dot(self.X, points, coef) - intercept[None, :]
        unknown = float("nan") * residuals
        assert self.C is not None
        return Fit(
            self.kernel, self.C, self.weights, self.support, points, coef, intercept, residuals, unknown[:, 0], unknown
        )


def check_memory(n_rows: int, matrices: int, X: Array) -> None:
    """Raise MemoryError in advance if n x n matrices cannot fit in the memory of the device of X."""
    needed, available = 8 * n_rows**2 * matrices, arrays.memory(X, free=True)
    if available is not None and needed > available:
        what = "its kernel matrix" if matrices == 1 else f"{matrices} matrices of the size of its kernel matrix"
        raise MemoryError(
            f"A dense fit of {n_rows} rows needs {needed / 2**30:.1f} GiB for {what}, but only "
            f"{available / 2**30:.1f} GiB are available: use a basis, e.g. steps=[lssvm.sparsify.Random(1000)], or "
            "fit_chunks."
        )
