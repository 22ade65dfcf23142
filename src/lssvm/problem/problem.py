"""Problem: kernel, rows, targets, C, weights and basis in one frozen record; `solve` returns a Fit.

    min over beta, b:   1/2 beta' K_mm beta  +  C/2 * sum over rows i of v_i (y_i - k_i' beta - b)^2

Every method chooses the basis, the weights, C or the kernel, and passes on a Problem (`replace`). A weight of 0 removes
a row from the fit; its residual is then that of a new point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .. import arrays, progress, system
from ..arrays import EPS, Array
from ..losses import FAR, LOG_LINKS
from ..progress import gradient_work, work
from ..system import BinaryProblem, Solution, System, iterative
from .record import Fit, ProblemRecord, warn_of_leverage
from .whitening import Whitening, rounding_error

ITERATIVE_ROWS = 4000  # With more rows, fits without leave-one-out use conjugate gradients, for speed.
FACTORISED_ROWS = 15_000  # With more rows, fits with leave-one-out do so too; their residuals are then estimates.
FACTORISED = 0.6  # On a GPU, they do so if the matrices of a factorisation take more than this share of the memory.
UNRELIABLE = 0.05  # A larger error of the estimates for a few rows is reported; that of all rows may be twice as large.
NOT_SOLVED = 1e-3  # A solution with a larger residual of the system is not used.


@dataclass(frozen=True)
class Factor:
    """A factorised problem: fits for one or several values of C, leave-one-out predictions, residuals of folds."""

    problem: ProblemRecord
    C: float  # the value it was factorised for, or the largest one
    system: System
    whitening: Whitening | None = None

    def fit(self, C: float | None = None) -> Fit:
        """Return the solution for one C, by default for the one that it was factorised for."""
        C = self.C if C is None else C
        solution = self.system.solution(1.0 / C)
        if self.whitening is not None:
            solution = replace(solution, coef=self.whitening.expand(solution.coef))
        fit = self.problem.fit_of(C, solution)
        (_, X, y, weights), size, kernel = self.problem.positive_rows(), math.inf, self.problem.kernel
        if kernel.has_finite_rank and not kernel.is_precomputed:  # its basis points may be unit vectors
            diagonal = kernel.diagonal(X)
            size = math.sqrt(abs(float(arrays.namespace(diagonal).max(diagonal))))
        rounding = rounding_error(self.system, self.whitening, fit.points, C, y, weights, solution, size=size)
        groups, loo = self.problem.row_groups, fit.loo_residuals
        if groups is not None and len(self.problem.rows) < len(groups):  # also those of rows without weight
            loo = self.block_residuals([np.flatnonzero(groups == group) for group in range(groups.max() + 1)], C)
        return replace(fit, rounding=rounding, loo_residuals=loo)

    def criterion(self, *, classes: bool = False) -> tuple[float, Array, float]:
        """Return the criterion that tuning minimises and its gradient in the log widths and log C; the basis is fixed.

        It is the logarithm of PRESS over the rows with positive weight or, for `classes`, that of the mean log loss of
        their leave-one-out decision values.

        The gradient in the widths has one row per leaf of the kernel and one column per column of X.
        """
        kernel, X, basis = self.problem.kernel, self.problem.positive_rows()[1], None
        lower = None if self.whitening is None else self.whitening.lower
        value, columns, penalty, in_ridge = self.system.criterion(classes, lower)
        if self.whitening is None:
            gradient = kernel.gradient(X, X, columns)
        else:
            Z, basis = self.whitening.points, self.problem.basis_size
            gradient = kernel.gradient(X, Z, columns) + kernel.gradient(Z, Z, penalty)
        progress.did(lambda: gradient_work(X.shape[0], basis, X.shape[1]))
        return value, gradient, -in_ridge

    def criterion_and_points(self) -> tuple[float, Array, float, Array]:
        """Return log PRESS and its gradient as in `criterion`, and the gradient in the basis points."""
        assert self.whitening is not None
        kernel, Z = self.problem.kernel, self.whitening.points
        value, columns, penalty, in_ridge = self.system.criterion(False, self.whitening.lower)
        assert penalty is not None
        in_widths, in_points = kernel.both_gradients(self.problem.positive_rows()[1], Z, columns)
        # k(z, z') depends on both of its points; each pair is counted twice for the widths
        within = kernel.both_gradients(Z, Z, penalty + penalty.T)
        return value, in_widths + 0.5 * within[0], -in_ridge, in_points + within[1]

    @property
    def has_point_gradient(self) -> bool:
        """True for a primal system whose basis points are linearly independent."""
        return isinstance(self.system, system.Primal) and self.whitening is not None and self.whitening.factor is None

    def block_residuals(self, folds: Sequence[np.ndarray], C: float) -> Array:
        """Return y_B - f_(B)(x_B) for every fold B of row numbers, each left out as a whole, without refitting."""
        position = np.full(self.problem.X.shape[0], -1)
        position[self.problem.rows] = np.arange(len(self.problem.rows))
        inside = [position[np.asarray(fold)] for fold in folds]
        blocks = self.system.block_residuals([rows[rows >= 0] for rows in inside], 1.0 / C)
        if len(self.problem.rows) == self.problem.X.shape[0]:
            return blocks
        plain = replace(self, problem=self.problem.replace(row_groups=None))
        out = plain.fit(C).residuals  # rows of weight 0 in a fold: predict them without the fold's other rows
        out = arrays.put(out, self.problem.rows, blocks)
        for fold, local in zip(folds, inside, strict=True):
            absent = np.asarray(fold)[local < 0]
            if absent.size:
                smoother = self.smoother(arrays.take(self.problem.X, absent), C)
                own = local[local >= 0]
                change = arrays.take(smoother.T, own).T @ arrays.take(blocks, own)
                out = arrays.put(out, absent, arrays.take(out, absent) + change)
        return out

    def smoother(self, X: Array, C: float) -> Array:
        """Return df(x)/dy_i for new points (rows) and the training rows with positive weight (columns)."""
        return self.system.smoother(self.columns(X), 1.0 / C)

    def columns(self, X: Array) -> Array:
        """Return the columns of the factorised system at new points: kernel values, or whitened columns."""
        if self.whitening is not None:
            return self.whitening.columns(self.whitening.steps(), X)
        return self.problem.kernel.evaluate(X, self.problem.basis_points)


@dataclass(frozen=True)
class Problem(ProblemRecord):
    """A weighted, regularised least-squares problem over a kernel expansion, which can be factorised and solved."""

    def factorise(self, C: float | None = None, *, every: bool = False, quick: bool = False) -> Factor:
        """Factorise for one C (the problem's own by default), or with `every` for all C up to that one.

        With `quick` the leave-one-out error has about six digits, which is enough to compare settings.
        """
        C = self.C if C is None else C
        assert C is not None
        rows, X, y, weights = self.positive_rows()
        if self.reduced:
            column = np.full(self.X.shape[0], -1)
            column[self.basis_rows] = np.arange(self.basis_size)
            K = self.columns(X, self.basis_points)
            return self._factor(C, system.factorise_reduced(K, y, weights, column[rows], 1.0 / C))
        if self.is_dual and self.ties is None:
            points = self.basis_points
            check_memory(len(rows), arrays.dense_matrices(len(rows), X, every=every), X)
            ridge = None if every else 1.0 / C
            dual = system.factorise_dual(lambda: self.columns(X, points, symmetric=True), y, weights, ridge)
            progress.did(lambda: work(len(rows), None, every=every))
            return self._factor(C, dual)
        return self.factorise_primal(C, every=every, wide=True, quick=quick)

    def factorise_primal(self, C: float, *, every: bool = False, wide: bool = False, quick: bool = False) -> Factor:
        """Return the same as `factorise`, on the whitened columns of a basis that does not consist of the rows.

        With `wide`, if there are as many columns as rows, the dual system of their products is factorised.
        """
        rows, X, y, weights = self.positive_rows()
        whitening = self.whitening(quick=quick and not every)
        if not self.fits_memory:
            what = f"{len(rows)} rows with {whitening.rank} basis points do not fit in memory"
            raise MemoryError(f"{what}, which this computation requires: use a smaller basis or fewer rows.")
        phi = self.columns(X, whitening.points)
        progress.did(lambda: 0.3 * work(len(rows), whitening.rank, every=every))
        phi = arrays.whiten_rows(phi, whitening.lower, system.QUICK if quick and not every else arrays.LOSS)
        phi = phi if whitening.free is None else phi @ whitening.free
        if wide and phi.shape[1] >= len(rows) - 1:
            ridge = None if every else 1.0 / C
            products = system.factorise_dual(lambda: arrays.gram(phi.T), y, weights, ridge, phi)
            return self._factor(C, products, whitening)
        tolerance = system.QUICK if quick else system.ORTHOGONAL
        primal = system.factorise_primal(phi, y, weights, 1.0 / C, every_ridge=every, tolerance=tolerance)
        progress.did(lambda: 0.7 * work(len(rows), whitening.rank, every=every))
        return self._factor(C, primal, whitening)

    def _factor(self, C: float, found: Any, whitening: Whitening | None = None) -> Factor:
        """Return the factorised system, with the groups of rows that it leaves out."""
        return Factor(self, C, found if self.row_groups is None else replace(found, folds=self.folds), whitening)

    def solve(self, *, loo: bool = True) -> Fit:
        """Return the coefficients, residuals, leverages and leave-one-out residuals; robust weights are applied.

        The latter are exact unless the problem `is_iterative`.

        Without `loo` the last two may be None, which saves dense fits of many rows the factorisation.
        """
        if self.fitted is not None:
            return self.fitted
        fit, C = None, self.C
        if C is None or self.kernel.is_free:
            remedy = "give the values that are None, or let tune.LeaveOneOut choose them"
            raise ValueError(f"C={C!r}, kernel={self.kernel!r}: {remedy}.")
        if self.coefficients is not None:
            return self.fit_of(C, Solution(*self.coefficients))
        if self.loss != "squared":
            return self._solve_by_newton(C)
        if not self.fits_memory and self.row_groups is None:
            fit = self._solve_in_blocks(C)
        elif self.is_iterative(loo=loo):
            fit = self._solve_by_gradients(C, loo=loo)
        if fit is None:
            fit = self.factorise().fit()  # the factor is not kept: the next one needs the memory
        for _ in range(0 if self.robust is None else self.robust.iterations):
            assert self.robust is not None
            robust = self.robust(arrays.to_numpy(fit.residuals), arrays.to_numpy(self.weights))
            weighted = self.replace(weights=self.weights * arrays.like(robust, self.weights), robust=None)
            fit = weighted.solve(loo=loo)
        return fit

    def is_iterative(self, *, loo: bool = True) -> bool:
        """Return whether the least-squares problem is dense and has too many rows for a factorisation.

        On a GPU, these are as many as do not fit in its memory.
        """
        most, X = FACTORISED_ROWS if loo else ITERATIVE_ROWS, self.X
        plain = self.is_dual and self.ties is None and not self.reduced and self.loss == "squared"
        if not plain or len(self.rows) <= most or (loo and self.row_groups is not None):
            return False
        if arrays.on_accelerator(X):
            return self.dense_bytes > FACTORISED * (arrays.memory(X) or math.inf)
        return arrays.is_numpy(X) or arrays.is_torch(X)

    @property
    def dense_bytes(self) -> int:
        """The memory that a factorisation of a dense problem needs."""
        return 8 * len(self.rows) ** 2 * arrays.dense_matrices(len(self.rows), self.X, every=False)

    def normalised(self) -> tuple[Self, float]:
        """Return the problem of counts or positive targets scaled to mean 1, with the same C, and the original mean."""
        y, weights = (arrays.to_numpy(a)[self.rows] for a in (self.y, self.weights))
        unit = float(np.average(y[:, 0], weights=weights))
        return self.replace(y=self.y / unit, weights=self.weights * unit ** (2.0 - LOG_LINKS[self.loss].power)), unit

    def stabilised(self) -> Self:
        """Return the least-squares problem with the same C on the scale where all targets have the same variance."""
        scaled, _ = self.normalised()
        return scaled.replace(loss="squared", y=LOG_LINKS[self.loss].stabilised(scaled.y))

    def working(self, f: Array) -> Self:
        """Return the problem of least squares that is a step of Newton's method from f, the logarithms of the means."""
        loss = LOG_LINKS[self.loss](self.y)
        curvature = loss.curvature(f)
        y = f + loss.slope(f) / curvature
        return self.replace(loss="squared", y=y, weights=self.weights * curvature[:, 0])

    def without_groups(self, f: Array) -> Array:
        """Return f_(G)(x) of each row without its group G, for f at the minimum: that of the last step."""
        step = self.working(f[:, None])
        return (step.y - step.solve().loo_residuals)[:, 0]

    def binary(self) -> BinaryProblem:
        """Return the problem of counts or positive targets for Newton's method; its targets should have mean 1."""
        y = self.y[:, 0]
        return BinaryProblem(0.0 * y + 1.0, self.weights, self.C or 1.0, LOG_LINKS[self.loss](y))

    def _solve_by_newton(self, C: float) -> Fit:
        """Minimise the loss of counts or positive targets; leave-one-out values are those of the last system."""
        if self.is_dual:
            check_memory(self.X.shape[0], 2, self.X)
        inputs, whitening = self.binary_inputs()
        scaled, unit = self.normalised()
        found = scaled.binary().solve(inputs, dual=whitening is None)
        coef, xp = found.coef[:, None], arrays.namespace(found.coef)
        coef = arrays.take(coef, self.rows) if whitening is None else whitening.expand(coef)
        # a value that is too large for squares is not infinite
        f_loo = found.loo if self.row_groups is None else scaled.without_groups(found.decision)
        means = (unit * xp.exp(xp.clip(f, None, FAR / 2))[:, None] for f in (found.decision, f_loo))
        residuals, loo = (self.y - mean for mean in means)
        intercept = xp.sum(coef[:0, :], axis=0) + found.intercept + math.log(unit)
        parts = (self.basis_points, coef, intercept, residuals, found.leverage, loo)
        return Fit(self.kernel, C, self.weights, self.basis_rows, *parts, log_link=True)

    def _solve_by_gradients(self, C: float, *, loo: bool) -> Fit | None:
        """Solve the dual system by preconditioned conjugate gradients; None if they do not converge.

        The kernel matrix is stored if it fits in memory, and recomputed for every product otherwise. With `loo`, the
        leave-one-out residuals are estimates.
        """
        rows, X, y, weights = self.positive_rows()
        points, available, is_fast = self.basis_points, arrays.memory(X) or math.inf, arrays.on_accelerator(X)
        can_factorise = self.dense_bytes <= (arrays.memory(X, free=True) or math.inf)
        elsewhere = iterative.distributed.get()
        is_stored = elsewhere is None and len(rows) ** 2 <= available / (20 if is_fast else 10)
        K = self.columns(X, points, symmetric=True) if is_stored else None

        def block(picked: np.ndarray, columns: np.ndarray | None, out: Array = None) -> Array:
            if K is not None:
                part = K[picked] if columns is None else K[np.ix_(picked, columns)]
                return part if out is None else arrays.put(out, ..., part)
            place = points if columns is None else arrays.take(points, columns)
            out = arrays.empty((len(picked), len(place)), X) if out is None else out
            return self.kernel.fill(out, arrays.take(X, picked), place)

        def product(V: Array, *, single: bool = False) -> Array:
            return self.kernel.dot(X, points, V.T, single=single).T if K is None else arrays.symmetric_product(V, K)

        times = product if elsewhere is None else elsewhere(self.kernel, X, points)
        xp, quick = arrays.namespace(X), partial(product, single=True) if is_fast and K is None else None
        diagonal = arrays.take(self.kernel.diagonal(self.X), rows) if K is None else xp.linalg.diagonal(K)
        diagonal = xp.clip(diagonal, 0.0, None)  # the user's own matrix may be indefinite
        # the eigenvalues that the factor misses are then a tenth of the ridge on average: a few tens of products
        floor = len(rows) * max(0.1 * len(rows) / (C * float(xp.sum(weights))), EPS * float(xp.sum(diagonal)))
        rank = math.ceil(min(iterative.RANK * math.sqrt(len(rows)), iterative.SHARE * available / (8 * len(rows))))
        _, factor = iterative.randomly_pivoted(block, diagonal, rank, floor, np.random.RandomState(0))
        order = np.searchsorted(rows, self.rows_by_content) if loo else None
        checked = None if order is None else order[: iterative.CHECKED]
        found = iterative.solve(times, factor, y, weights, 1.0 / C, checked, quick)
        del factor  # leave-one-out needs the memory
        if found is None:
            return None
        solution, left, scales = found
        if left > (0.0 if len(rows) <= FACTORISED_ROWS else NOT_SOLVED if can_factorise else math.inf):
            return None
        if left > 0.0:
            what = f"Conjugate gradients stopped at a relative residual of {left:.0e} with C = {C:.3g}"
            remedy = "lower C, or use a basis, e.g. steps=[lssvm.sparsify.Random(2000)]."
            arrays.warn(f"{what}: {remedy}", ConvergenceWarning)
        if order is None:
            return self.fit_of(C, solution)
        solution, error = iterative.leave_one_out(solution, scales, block, diagonal, 1.0 / (C * weights), order)
        if error > UNRELIABLE:
            what = f"The leave-one-out residuals of {len(rows)} rows are estimates, with errors of about {error:.0%}"
            arrays.warn(f"{what}: for exact ones, use a basis.")
        return replace(self.fit_of(C, solution), loo_error=error)

    def _solve_in_blocks(self, C: float) -> Fit:
        """Solve the primal system from sums over blocks of rows, with a second pass for the per-row results."""
        whitening, (_, *rows), summed = self.whitening(), self.positive_rows(), None
        while True:
            summed = system.solve_in_passes(lambda R: whitening.sums(whitening.steps(R), *rows), 1.0 / C, summed)
            found = whitening.row_results(summed, whitening.steps(summed.R, summed.condition), *rows)
            largest = float(arrays.namespace(found[1]).max(found[1]))
            if summed.serves(largest):
                break
        warn_of_leverage(largest)
        return self.fit_of(C, Solution(whitening.expand(summed.coef), summed.intercept, *found))


def check_memory(n_rows: int, matrices: int, X: Array) -> None:
    """Raise MemoryError in advance if n x n matrices cannot fit in the memory of the device of X."""
    needed, available = 8 * n_rows**2 * matrices, arrays.memory(X, free=True)
    if available is not None and needed > available:
        what = "its kernel matrix" if matrices == 1 else f"{matrices} matrices of the size of its kernel matrix"
        size = f"{needed / 2**30:.1f} GiB for {what}, but only {available / 2**30:.1f} GiB are available"
        remedy = "use a basis, e.g. steps=[lssvm.sparsify.Random(1000)], or fit_chunks"
        raise MemoryError(f"A dense fit of {n_rows} rows needs {size}: {remedy}.")


class Step(BaseEstimator):
    """Base class of the steps, sparsifiers and tuners: each takes a Problem and returns a Problem."""

    needs_squares = False
    """Whether the step is defined only for the squared loss and the coding one-vs-rest."""

    def __call__(self, problem: Problem) -> Problem:
        """Return the problem with a smaller basis, or with hyper-parameters chosen."""
        raise TypeError(f"{type(self).__name__} does not define __call__(problem).")

    @property
    def needs_all_rows(self) -> bool:
        """Whether the result needs all rows at once, so that sums over chunks of rows cannot reproduce it.

        True for steps that set the coefficients themselves, or that solve on columns of the KKT system.
        """
        return False

    @property
    def by_row(self) -> str:
        """The name of the argument that refers to training rows by number, or "".

        Such numbers have no meaning in samples and chunks of the rows.
        """
        return ""


def held_out_rows(problem: Problem, share: float, random_state: Any) -> np.ndarray:
    """Return the sorted numbers of a random share (at least one) of the rows with positive weight; stratified by class.

    Every class keeps a row to train on, unless all classes have a single row. If rows are grouped, the share is that of
    the groups, which are held out as a whole.
    """
    draw, labels = check_random_state(random_state), problem.labels if problem.classification else None
    count = len(problem.rows)
    if count < 2:
        raise ValueError(f"{count} row with positive weight is too few to hold rows out: use at least 2 rows.")
    if problem.row_groups is not None:
        names = np.unique(problem.row_groups[problem.rows])
        some = draw.permutation(names)[: max(1, min(round(share * len(names)), len(names) - 1))]
        return problem.rows[np.isin(problem.row_groups[problem.rows], some)]
    groups = [problem.rows]
    if labels is not None:
        groups = [problem.rows[labels[problem.rows] == label] for label in np.unique(labels[problem.rows])]
    # The i-th of the n rows of a class has the place (i + 1/2)/n; rows with the first places are held out.
    places = [np.append((np.arange(len(rows) - 1) + 0.5) / len(rows), np.inf) for rows in groups]
    order = np.argsort(np.concatenate(places), kind="stable")
    drawn = np.concatenate([draw.permutation(rows) for rows in groups])[order]
    return np.sort(drawn[: max(1, min(round(share * count), count - len(groups)))])
