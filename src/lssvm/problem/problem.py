"""Problem: kernel, rows, targets, C, weights and basis in one frozen record; `solve` returns a Fit.

    min over beta, b:   1/2 beta' K_mm beta  +  C/2 * sum over rows i of v_i (y_i - k_i' beta - b)^2

Every method chooses the basis, the weights, C or the kernel, and passes on a Problem (`replace`). A weight of 0 removes
a row from the fit; its residual is then that of a new point.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from sklearn.utils import Bunch

from .. import arrays, conjugate, progress, system
from ..arrays import EPS, Array, cached_property
from ..kernels import Kernel
from ..progress import work
from ..robust import WeightFunction
from ..rules import Penalty, indices, row_weights, values
from .factor import Factor, Fit, Path, check_solution, warn_of_leverage
from .order import order_by_content
from .scaling import spreads_of
from .whitening import check_finite, whiten

ITERATIVE_ROWS = 4000  # above, fits without leave-one-out use conjugate gradients: far fewer than l^3/3 flops
KEPT = {  # what cached values depend on
    "rows": {"weights"},
    "rows_by_content": {"weights", "X", "y"},
    "spreads": {"weights", "X", "groups"},
}
Coefficients = tuple[Annotated[Array, values("vectors", "outputs")], Annotated[Array, values("outputs")]]


@dataclass(frozen=True)
class Problem:
    """A weighted, regularised least-squares problem over a kernel expansion.

    Parameters
    ----------
    kernel : Kernel
    X : array (l, d)
        Inputs; the kernel matrix itself for `kernels.Precomputed`.
    y : array (l, k)
        Targets, one column per output; -1 and +1 for classes.
    weights : array (l,)
        Non-negative; 0 removes the row from the fit.
    C : float or None
        None: still to be chosen.
    support : integer array or None
        Rows of the basis; None means every row with a positive weight, unless `points` are given.
    points : array (n, d) or None
        Basis points that are not rows.
    robust : WeightFunction or None
        Robust weights, computed from residuals; `solve` multiplies them into `weights`.
    reduced : bool
        Solve unpenalised least squares on the columns of the KKT system that belong to the basis, instead of the
        penalised problem.
    classification : bool
        Whether the targets are coded classes.
    coefficients : (coef, intercept) or None
        Given coefficients, which are not solved for; leverages and leave-one-out residuals are then unknown (NaN).
    fitted : Fit or None
        The solution, if a step has computed it; it is discarded when anything but `asked` and `paths` is changed.
    asked : (kernel, C) or None
        Kernel and C as the user gave them, None where tuning is to choose; `kernel` and `C` hold the chosen values.
    paths : dict
        Records of the steps so far, by the name of the step.
    groups : integer array (d,) or None
        The number of the input that each column encodes, e.g. one value of a category; columns of the same input share
        one width. None: every column is an input.
    """

    kernel: Kernel
    X: Annotated[Array, values("rows", "features")]
    y: Annotated[Array, values("rows", "outputs")]
    weights: Annotated[Array, row_weights("rows")]
    C: Penalty | None = None
    support: Annotated[np.ndarray, indices("chosen", "rows")] | None = None
    points: Annotated[Array, values("centres", "coordinates")] | None = None
    robust: WeightFunction | None = None
    reduced: bool = False
    classification: bool = False
    coefficients: Coefficients | None = None
    fitted: Fit | None = None
    asked: tuple[Kernel, float | None] | None = None
    paths: dict[str, Bunch] = field(default_factory=dict)
    groups: Annotated[np.ndarray, values("features", kinds="iu")] | None = None

    def replace(self, **changes: Any) -> Problem:
        """A copy with some fields changed."""
        if not changes.keys() <= {"asked", "paths"}:
            changes.setdefault("fitted", None)
        new = dataclasses.replace(self, **changes)
        for name, depends_on in KEPT.items():
            if name in self.__dict__ and not changes.keys() & depends_on:
                new.__dict__[name] = self.__dict__[name]
        return new

    @cached_property
    def rows(self) -> np.ndarray:
        """Numbers of the rows with positive weight."""
        return np.flatnonzero(arrays.to_numpy(self.weights) > 0)

    @cached_property
    def rows_by_content(self) -> np.ndarray:
        """The rows with positive weight in a random order that follows from their values, not from their positions."""
        X = self.X[:, :0] if self.kernel.is_precomputed else self.X
        return np.asarray(self.rows[order_by_content(*(arrays.take(part, self.rows) for part in (X, self.y)))])

    @cached_property
    def spreads(self) -> tuple[np.ndarray, np.ndarray]:
        """The spread of every column, and which columns are constant."""
        return spreads_of(self)

    @cached_property
    def log_scatter(self) -> float:
        """log of the weighted sum of squares of the targets about their mean, which counts as 1 if it is 0."""
        y, weights = (arrays.to_numpy(a)[self.rows] for a in (self.y, self.weights))
        deviation = y - weights @ y / weights.sum()
        largest = float(weights.max())
        return math.log(float(np.sum((weights / largest) @ deviation**2)) or 1.0) + math.log(largest)

    @property
    def is_dual(self) -> bool:
        """True if the basis consists of the rows, so that the dual system applies."""
        return self.points is None and (
            self.support is None or np.array_equal(np.sort(np.asarray(self.support)), self.rows)
        )

    @property
    def is_known(self) -> bool:
        """True if C and all widths are given or already chosen."""
        return self.C is not None and not self.kernel.is_free

    @property
    def labels(self) -> np.ndarray:
        """The class of every row, as a number."""
        return class_numbers(self.y)

    @cached_property
    def inputs(self) -> np.ndarray:
        """The number of the input that each column encodes."""
        return np.arange(self.X.shape[1]) if self.groups is None else self.groups

    @property
    def basis_size(self) -> int:
        """Number of basis points."""
        if self.points is not None:
            return int(self.points.shape[0])
        return len(self.rows) if self.support is None else len(self.support)

    def subset(self, rows: np.ndarray) -> Problem:
        """The same problem on fewer rows; a basis smaller than the rows stays as it is."""
        X, y, weights = (arrays.take(a, rows) for a in (self.X, self.y, self.weights))
        points, support = self.points, None
        if self.kernel.is_precomputed:
            X = arrays.take(X.T, rows).T
            if not self.is_dual:
                inside = np.isin(np.asarray(self.support), rows)
                if not inside.all():
                    raise ValueError("The basis of a precomputed kernel must be among the rows of the subset.")
                support = np.searchsorted(rows, np.asarray(self.support))
        elif points is None and not self.is_dual:
            points = self.kernel.basis_points(self.X, np.asarray(self.support))
        return self.replace(X=X, y=y, weights=weights, support=support, points=points)

    def factorise(self, C: float | None = None, *, every: bool = False, quick: bool = False) -> Factor:
        """Factorise for one C (the problem's own by default), or with `every` for all C up to that one.

        With `quick` the leave-one-out error has about six digits, which is enough to compare settings.
        """
        C = self.C if C is None else C
        if C is None or self.kernel.is_free:
            raise ValueError(
                f"C={C!r}, kernel={self.kernel!r}: give the values that are None, or let tune.LeaveOneOut choose them."
            )
        rows, X, y, weights = self._counting()
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
        rows, X, y, weights = self._counting()
        support = rows if self.support is None and self.points is None else self.support
        points = self.points
        if points is None:
            points = self.kernel.basis_points(self.X, np.asarray(support))
        n = points.shape[0]
        together = quick and arrays.on_accelerator(X) and arrays.is_small(X.shape[0], n)  # one call instead of two
        K = self._among(support, points, X if together else None)
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

    def _among(self, support: np.ndarray | None, points: Array, others: Array | None = None) -> Array:
        """The kernel matrix of the basis, and below it the kernel columns of other rows."""
        inputs = points if support is None else arrays.take(self.X, support)
        if others is not None:
            inputs = arrays.namespace(inputs).concat([inputs, others], axis=0)
        return self.kernel.evaluate(inputs, points)

    def _counting(self) -> tuple[np.ndarray, Array, Array, Array]:
        """Numbers, inputs, targets and weights of the rows with positive weight."""
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
            raise ValueError("The basis is empty: the kernel is 0 on all rows, or a tolerance is too large.")
        plain = {"support": rows, "points": points, "reduced": False, "coefficients": None}
        return self.replace(**{**plain, **changes})

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

    @property
    def fits_memory(self) -> bool:
        """False if the columns of a smaller basis need more than half of the memory: rows are then read in blocks."""
        available = arrays.memory(self.X)
        return self.is_dual or self.reduced or available is None or 16 * len(self.rows) * self.basis_size <= available

    def _solve_by_gradients(self) -> Fit | None:
        """Solve the dual system by preconditioned conjugate gradients; None if they do not converge.

        The kernel matrix is stored if it fits in memory, and recomputed for every product otherwise.
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
        """Solve the primal system from sums over blocks of rows, with a second pass for the per-row results."""
        if self.C is None:
            raise ValueError("C=None: give C, or let tune.LeaveOneOut choose it.")
        points = self.points
        if points is None:
            points = self.kernel.basis_points(self.X, np.asarray(self.support))
        whitening = whiten(self.kernel, points, self._among(self.support, points))
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

    def path(self, C: Sequence[float]) -> Path:
        """Fits for all given values of C from one factorisation; robust weights are not updated."""
        values = np.sort(np.asarray(C, dtype=float))
        factor = self.factorise(float(values[-1]), every=True)
        fits = [factor.fit(float(value)) for value in values]
        xp = arrays.namespace(self.X)
        stack = lambda name: xp.stack([getattr(fit, name) for fit in fits])  # noqa: E731
        return Path(
            values, stack("coef"), stack("intercept"), stack("residuals"), stack("leverage"), stack("loo_residuals")
        )


def class_numbers(coded: Array) -> np.ndarray:
    """The class number of every row from its coded targets, or from its decision values."""
    values = arrays.to_numpy(coded)
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else np.argmax(values, axis=1)


def check_memory(n_rows: int, matrices: int, X: Array) -> None:
    """Raise MemoryError in advance if n x n matrices cannot fit in the memory of the device of X."""
    needed, available = 8 * n_rows**2 * matrices, arrays.free_memory(X)
    if available is not None and needed > available:
        what = "its kernel matrix" if matrices == 1 else f"{matrices} matrices of the size of its kernel matrix"
        raise MemoryError(
            f"A dense fit of {n_rows} rows needs {needed / 2**30:.1f} GiB for {what}, but only "
            f"{available / 2**30:.1f} GiB are available: use a basis, e.g. steps=[lssvm.sparsify.Random(1000)], or "
            "fit_chunks."
        )
