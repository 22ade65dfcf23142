"""Problem: kernel, rows, targets, C, weights and basis in one frozen record; `solve` gives a Fit.

    min over beta, b:   1/2 beta' K_mm beta  +  C/2 * sum over rows i of v_i (y_i - k_i' beta - b)^2

Every method chooses the basis, the weights, C or the kernel, and hands on a Problem (`replace`). A weight of 0 takes a
row out of the fit; its residual is then that of a new point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from .. import arrays, conjugate, progress, system
from ..arrays import EPS, Array, cached_property
from ..kernels import Kernel
from ..progress import work
from ..robust import WeightFunction
from .factor import Factor, Fit, Path, check_solution, warn_of_leverage
from .whitening import check_finite, whiten

ITERATIVE_ROWS = 4000  # beyond, a machine without leave-one-out is solved by conjugate gradients: far below l^3/3 flops


@dataclass(frozen=True)
class Problem:
    """A weighted, regularised least-squares problem over a kernel expansion.

    Parameters
    ----------
    kernel : Kernel
    X : array (l, d)
        Inputs; the kernel matrix itself for `kernels.Precomputed`.
    y : array (l, k)
        Targets, one column an output; -1 and +1 for classes.
    weights : array (l,)
        Not negative; 0 takes the row out.
    C : float or None
        None: still to be chosen.
    support : integer array or None
        Rows of the basis; None means every row with a positive weight, unless `points` are given.
    points : array (n, d) or None
        Basis points that are not rows.
    robust : WeightFunction or None
        Weights from residuals, which `solve` multiplies into `weights`.
    reduced : bool
        Solve unpenalised least squares on the basis' columns of the KKT system instead of the penalised problem.
    classification : bool
        Whether the targets are coded classes.
    coefficients : (coef, intercept) or None
        A machine that is given and not solved for; its leverages and left-out residuals are unknown (NaN).
    fitted : Fit or None
        The solution, where a step has come by it; lost where anything but `asked` and `paths` is changed.
    asked : (kernel, C) or None
        As the user gave them, None where tuning is to choose; what is now known is in `kernel` and `C`.
    paths : dict
        What the steps so far recorded, by the name of the step.
    """

    kernel: Kernel
    X: Array
    y: Array
    weights: Array
    C: float | None = None
    support: np.ndarray | None = None
    points: Array | None = None
    robust: WeightFunction | None = None
    reduced: bool = False
    classification: bool = False
    coefficients: tuple[Array, Array] | None = None
    fitted: Fit | None = None
    asked: tuple[Kernel, float | None] | None = None
    paths: dict[str, Bunch] = field(default_factory=dict)

    def replace(self, **changes: Any) -> Problem:
        """A copy with some fields changed."""
        if not changes.keys() <= {"asked", "paths"}:
            changes.setdefault("fitted", None)
        return dataclasses.replace(self, **changes)

    @cached_property
    def rows(self) -> np.ndarray:
        """Numbers of the rows that count."""
        return np.flatnonzero(arrays.to_numpy(self.weights) > 0)

    @property
    def is_dual(self) -> bool:
        """True when the basis is the rows, so that the dual system is the right one."""
        return self.points is None and (
            self.support is None or np.array_equal(np.sort(np.asarray(self.support)), self.rows)
        )

    @property
    def is_known(self) -> bool:
        """True when neither C nor a width is still to be chosen."""
        return self.C is not None and not self.kernel.is_free

    @property
    def labels(self) -> np.ndarray:
        """The class of every row, as a number."""
        return class_numbers(self.y)

    @property
    def basis_size(self) -> int:
        """Number of basis points."""
        if self.points is not None:
            return int(self.points.shape[0])
        return len(self.rows) if self.support is None else len(self.support)

    def subset(self, rows: np.ndarray) -> Problem:
        """The same machine on fewer rows; a basis smaller than the rows stays as it is."""
        X, y, weights = (arrays.take(a, rows) for a in (self.X, self.y, self.weights))
        points, support = self.points, None
        if self.kernel.is_precomputed:
            X = arrays.take(X.T, rows).T
            if not self.is_dual:
                inside = np.isin(np.asarray(self.support), rows)
                if not inside.all():
                    raise ValueError("A precomputed kernel needs its basis among the rows of the subset.")
                support = np.searchsorted(rows, np.asarray(self.support))
        elif points is None and not self.is_dual:
            points = self.kernel.basis_points(self.X, np.asarray(self.support))
        return self.replace(X=X, y=y, weights=weights, support=support, points=points)

    def factorise(self, C: float | None = None, *, every: bool = False, quick: bool = False) -> Factor:
        """Factorise for one C (the problem's own by default), or with `every` for all C up to that one.

        `quick` is enough to compare one setting with another: about six digits of the leave-one-out error.
        """
        C = self.C if C is None else C
        if C is None or self.kernel.is_free:
            raise ValueError(f"C={C!r}, kernel={self.kernel!r}: give what is None, or let tune.LeaveOneOut choose it.")
        rows, X, y, weights = self._counting()
        if self.reduced:
            return self._factorise_reduced(C, rows, X, y, weights)
        if self.is_dual:
            support = rows
            points = self.kernel.basis_points(self.X, rows)
            check_memory(len(rows), arrays.eigh_matrices(len(rows)) if every else 1, self.X)
            dual = None if every else system.factorise_dual(self.gram(X, points), y, weights, 1.0 / C)
            if dual is None:
                dual = system.factorise_dual(self.gram(X, points), y, weights)
            assert dual is not None
            progress.did(lambda: work(len(rows), None, every=every))
            return Factor(self, C, rows, support, points, None, dual)
        return self.factorise_primal(C, every=every, wide=True, quick=quick)

    def factorise_primal(self, C: float, *, every: bool = False, wide: bool = False, quick: bool = False) -> Factor:
        """As `factorise`, on the whitened columns even where the basis is the rows.

        With `wide`, as many columns as rows go through the dual machine of their products.
        """
        rows, X, y, weights = self._counting()
        support = rows if self.support is None and self.points is None else self.support
        points = self.points
        if points is None:
            points = self.kernel.basis_points(self.X, np.asarray(support))
        whitening = whiten(self.kernel, points, self._among(support, points), quick=quick and not every)
        if not self.fits_memory:
            raise MemoryError(
                f"{len(rows)} rows and {whitening.rank} basis points do not fit in memory, which this needs: take a "
                "smaller basis or fewer rows."
            )
        plain = not every and not quick and whitening.allows_plain_leverages(weights, 1.0 / C)
        if whitening.factor is None and points is not self.points and np.array_equal(np.asarray(support), rows):
            # the columns are K_SS = L L' itself
            phi = whitening.lower + 0.0
        else:
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

    def _among(self, support: np.ndarray | None, points: Array) -> Array:
        """The kernel matrix of the basis."""
        inputs = points if support is None else arrays.take(self.X, support)
        return self.kernel.evaluate(inputs, points)

    def _counting(self) -> tuple[np.ndarray, Array, Array, Array]:
        """Numbers, inputs, targets and weights of the rows that count."""
        rows = self.rows
        whole = len(rows) == self.X.shape[0]
        X, y, weights = (a if whole else arrays.take(a, rows) for a in (self.X, self.y, self.weights))
        return rows, X, y, weights

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

    def with_basis(self, support: np.ndarray | None = None, points: Array | None = None, **changes: Any) -> Problem:
        """The penalised problem on another basis: rows by number (sorted), or points."""
        rows = None if support is None else np.sort(np.asarray(support))
        if rows is not None and not len(rows):
            raise ValueError("No basis vector is left: the kernel is 0 on all rows, or a tolerance is too large.")
        plain = {"support": rows, "points": points, "reduced": False, "coefficients": None}
        return self.replace(**{**plain, **changes})

    def gram(self, X: Array, points: Array) -> Array:
        """The kernel matrix of some rows, whose points are given."""
        K = self.kernel.fill_symmetric(arrays.empty((X.shape[0], X.shape[0]), X), X, points)
        check_finite(K, self.kernel)
        return K

    def solve(self, *, left_out: bool = True) -> Fit:
        """The machine, its residuals, leverages and exact left-out residuals; robust weights included.

        Without `left_out` the last two may be None, which spares a dense machine of many rows its factorisation.
        """
        if self.fitted is not None:
            return self.fitted
        if self.coefficients is not None:
            return self._given_fit(*self.coefficients)
        fit = self._solve_once(left_out)  # no factor is kept: the next one needs the memory
        if self.robust is not None:
            sample_weight = arrays.to_numpy(self.weights)
            for _ in range(self.robust.iterations):
                robust = self.robust(arrays.to_numpy(fit.residuals), sample_weight)
                weighted = self.replace(weights=self.weights * arrays.like(robust, self.weights))
                fit = weighted._solve_once(left_out)
        return fit

    def _solve_once(self, left_out: bool = True) -> Fit:
        if not self.fits_memory:
            return self._solve_in_blocks()
        if not left_out and self.is_dual and not self.reduced and arrays.is_numpy(self.X):
            fit = self._solve_by_gradients() if len(self.rows) > ITERATIVE_ROWS else None
            if fit is not None:
                return fit
        factor = self.factorise()
        fit = factor.fit(factor.C)
        return dataclasses.replace(fit, rounding=factor.rounding(fit))

    @property
    def fits_memory(self) -> bool:
        """False where the columns of a smaller basis fill more than half of the memory: blocks of rows then pass by."""
        available = arrays.memory(self.X)
        return self.is_dual or self.reduced or available is None or 16 * len(self.rows) * self.basis_size <= available

    def _solve_by_gradients(self) -> Fit | None:
        """The dual machine by preconditioned conjugate gradients; None where they do not converge.

        The kernel matrix is held once where it fits in the memory, and computed again for every product where not.
        """
        if self.C is None or self.kernel.is_free:
            return None
        rows, X, y, weights = self._counting()
        points = self.kernel.basis_points(self.X, rows)
        available = arrays.memory(X)
        if available is None or 10 * len(rows) ** 2 <= available:
            K = self.gram(X, points)
            diagonal = K.diagonal()

            def block(picked: np.ndarray, columns: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
                return np.take(K, picked, axis=0, out=out) if columns is None else K[np.ix_(picked, columns)]

            def product(V: np.ndarray) -> np.ndarray:
                return conjugate.symmetric_product(K, V)
        else:
            diagonal = self.kernel.diagonal(self.X)[rows]

            def block(picked: np.ndarray, columns: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
                place = points if columns is None else points[columns]
                return self.kernel.fill(np.empty((len(picked), len(place))) if out is None else out, X[picked], place)

            def product(V: np.ndarray) -> np.ndarray:
                return self.kernel.dot(X, points, V.T).T

        diagonal = np.maximum(diagonal, 0.0)  # the user's own matrix may be indefinite
        # what the factor leaves of the eigenvalues is then a tenth of the ridge on average: a few tens of products
        floor = max(0.1 * len(rows) ** 2 / (self.C * float(weights.sum())), len(rows) * EPS * float(diagonal.sum()))
        draw = np.random.RandomState(0)
        _, factor = conjugate.randomly_pivoted(block, diagonal, conjugate.rank_limit(len(rows)), floor, draw)
        solution = conjugate.solve(product, factor, y, weights, 1.0 / self.C)
        if solution is None:
            return None
        coef, intercept, residuals = solution
        check_solution(coef, intercept)
        if len(rows) < self.X.shape[0]:
            full = self.y - self.kernel.dot(self.X, points, coef) - intercept[None, :]
            residuals = arrays.put(full, rows, residuals)
        return Fit(self.kernel, self.C, self.weights, rows, points, coef, intercept, residuals, None, None)

    def _solve_in_blocks(self) -> Fit:
        """The primal machine from sums over blocks of rows, and a second pass for what belongs to the rows."""
        if self.C is None:
            raise ValueError("C=None: give C, or let tune.LeaveOneOut choose it.")
        points = self.points
        if points is None:
            points = self.kernel.basis_points(self.X, np.asarray(self.support))
        whitening = whiten(self.kernel, points, self._among(self.support, points))
        rows = (self.X, self.y, self.weights)
        machine = None
        while True:
            machine = system.summed(lambda R: whitening.sums(whitening.steps(R), *rows), 1.0 / self.C, machine)
            residuals, leverage, loo = whitening.left_out(machine, whitening.steps(machine.R, machine.condition), *rows)
            largest = float(arrays.namespace(leverage).max(leverage))
            if machine.serves(largest):
                break
        warn_of_leverage(largest)
        coef = whitening.expand(machine.coef)
        check_solution(coef, machine.intercept, loo)
        return Fit(
            self.kernel,
            self.C,
            self.weights,
            self.support,
            points,
            coef,
            machine.intercept,
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

    def path(self, C: Sequence[float]) -> Path:
        """Fits for every value of C from one factorisation, with the weights as they are."""
        values = np.sort(np.asarray(C, dtype=float))
        factor = self.factorise(float(values[-1]), every=True)
        fits = [factor.fit(float(value)) for value in values]
        xp = arrays.namespace(self.X)
        stack = lambda name: xp.stack([getattr(fit, name) for fit in fits])  # noqa: E731
        return Path(
            values, stack("coef"), stack("intercept"), stack("residuals"), stack("leverage"), stack("loo_residuals")
        )


class Step(BaseEstimator):
    """What `steps` holds: a sparsifier or a tuner, a Problem in and a Problem out."""

    needs_squares = False
    """Whether the step is defined for the squared loss, and one class against the rest, alone."""

    def __call__(self, problem: Problem) -> Problem:
        """The problem with a smaller basis, or with hyper-parameters chosen."""
        raise TypeError(f"{type(self).__name__} does not define __call__(problem).")

    @property
    def own_machine(self) -> bool:
        """Whether it ends with coefficients of its own or on columns of the KKT system, which sums of rows are not."""
        return False

    @property
    def by_row(self) -> str:
        """The argument that goes by the rows of the training data, if one does: samples and chunks have others."""
        return ""


def class_numbers(coded: Array) -> np.ndarray:
    """The class of every row from its coded target, or from its decision values."""
    values = arrays.to_numpy(coded)
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else np.argmax(values, axis=1)


def check_memory(n_rows: int, matrices: int, X: Array) -> None:
    """Raise MemoryError before the work when n x n matrices cannot fit in the memory where X lives."""
    needed, available = 8 * n_rows**2 * matrices, arrays.memory(X)
    if available is not None and needed > available:
        raise MemoryError(
            f"A dense machine of {n_rows} rows needs {needed / 2**30:.1f} GiB for its kernel matrix, this machine has "
            f"{available / 2**30:.1f} GiB: use a basis, e.g. steps=[lssvm.sparsify.Random(1000)], or chunks."
        )
