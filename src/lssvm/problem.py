"""Problem: kernel, rows, targets, C, weights and basis in one frozen record; `solve` gives a Fit.

    min over beta, b:   1/2 beta' K_mm beta  +  C/2 * sum over rows i of v_i (y_i - k_i' beta - b)^2

Every method chooses the basis, the weights, C or the kernel, and hands on a Problem (`replace`). A weight of 0 takes a
row out of the machine; its residual is then that of a new point.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from . import _progress, _xp, conjugate, system
from ._threads import cached_property
from ._xp import EPS, Array, NumericalError
from .kernels import Kernel
from .robust import WeightFunction

NORMAL_QUARTILES = 1.349  # the distance of theirs, in standard deviations
FEW_CELLS = 5.0  # standard deviations that much larger than the quartiles tell are made by few cells
TINY = 1e-300
LOST_DIGITS = 1.2e-5  # rounding errors, as a share of the targets' spread, that are warned of
SURELY_KEPT = 1e-7  # a bound of them, as a share of that, below which nothing is estimated
UNSURE = 1e-8  # share of a left-out residual that rounding may take before it is said
PLAIN_ROWS = 10  # rows a basis point from which it pays to find out whether whitening can be spared
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
        return np.flatnonzero(_xp.to_numpy(self.weights) > 0)

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
        X, y, weights = (_xp.take(a, rows) for a in (self.X, self.y, self.weights))
        points, support = self.points, None
        if self.kernel.is_precomputed:
            X = _xp.take(X.T, rows).T
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
            check_memory(len(rows), _xp.eigh_matrices(len(rows)) if every else 1, self.X)
            dual = None if every else system.dual(self.gram(X, points), y, weights, 1.0 / C)
            if dual is None:
                dual = system.dual(self.gram(X, points), y, weights)
            assert dual is not None
            _progress.did(lambda: work(len(rows), None, every=every))
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
            phi = self.kernel.fill(_xp.empty((X.shape[0], whitening.rank), X), X, whitening.points)
            _check_finite(phi, self.kernel)
            _progress.did(lambda: 0.3 * work(len(rows), whitening.rank, every=every))
            loss = system.QUICK if quick and not every else _xp.LOSS
            phi = phi if plain else _xp.whiten_rows(phi, whitening.lower, loss)
        if wide and whitening.rank >= len(rows) - 1:
            products = system.wide(phi, y, weights, None if every else 1.0 / C)
            return Factor(self, C, rows, support, points, whitening, products)
        tolerance = system.QUICK if quick else system.ORTHOGONAL
        lower = whitening.lower if plain else None
        primal = system.primal(phi, y, weights, 1.0 / C, lower=lower, every_ridge=every, tolerance=tolerance)
        _progress.did(lambda: 0.7 * work(len(rows), whitening.rank, every=every))
        return Factor(self, C, rows, support, points, whitening, primal)

    def _among(self, support: np.ndarray | None, points: Array) -> Array:
        """The kernel matrix of the basis."""
        inputs = points if support is None else _xp.take(self.X, support)
        return self.kernel.evaluate(inputs, points)

    def _counting(self) -> tuple[np.ndarray, Array, Array, Array]:
        """Numbers, inputs, targets and weights of the rows that count."""
        rows = self.rows
        whole = len(rows) == self.X.shape[0]
        X, y, weights = (a if whole else _xp.take(a, rows) for a in (self.X, self.y, self.weights))
        return rows, X, y, weights

    def _factorise_reduced(self, C: float, rows: np.ndarray, X: Array, y: Array, weights: Array) -> Factor:
        support = rows if self.support is None else np.asarray(self.support)
        points = self.kernel.basis_points(self.X, support)
        K = self.kernel.fill(_xp.empty((X.shape[0], len(support)), X), X, points)
        _check_finite(K, self.kernel)
        column = np.full(self.X.shape[0], -1)
        column[support] = np.arange(len(support))
        return Factor(self, C, rows, support, points, None, system.reduced(K, y, weights, column[rows], 1.0 / C))

    def with_basis(self, support: np.ndarray | None = None, points: Array | None = None, **changes: Any) -> Problem:
        """The penalised problem on another basis: rows by number (sorted), or points."""
        rows = None if support is None else np.sort(np.asarray(support))
        if rows is not None and not len(rows):
            raise ValueError("No basis vector is left: the kernel is 0 on all rows, or a tolerance is too large.")
        plain = {"support": rows, "points": points, "reduced": False, "coefficients": None}
        return self.replace(**{**plain, **changes})

    def gram(self, X: Array, points: Array) -> Array:
        """The kernel matrix of some rows, whose points are given."""
        K = self.kernel.fill_symmetric(_xp.empty((X.shape[0], X.shape[0]), X), X, points)
        _check_finite(K, self.kernel)
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
            sample_weight = _xp.to_numpy(self.weights)
            for _ in range(self.robust.iterations):
                robust = self.robust(_xp.to_numpy(fit.residuals), sample_weight)
                weighted = self.replace(weights=self.weights * _xp.like(robust, self.weights))
                fit = weighted._solve_once(left_out)
        return fit

    def _solve_once(self, left_out: bool = True) -> Fit:
        if not self.fits_memory:
            return self._solve_in_blocks()
        if not left_out and self.is_dual and not self.reduced and _xp.is_numpy(self.X):
            fit = self._solve_by_gradients() if len(self.rows) > ITERATIVE_ROWS else None
            if fit is not None:
                return fit
        factor = self.factorise()
        fit = factor.fit(factor.C)
        return dataclasses.replace(fit, rounding=factor.rounding(fit))

    @property
    def fits_memory(self) -> bool:
        """False where the columns of a smaller basis fill more than half of the memory: blocks of rows then pass by."""
        available = _xp.memory(self.X)
        return self.is_dual or self.reduced or available is None or 16 * len(self.rows) * self.basis_size <= available

    def _solve_by_gradients(self) -> Fit | None:
        """The dual machine by preconditioned conjugate gradients; None where they do not converge.

        The kernel matrix is held once where it fits in the memory, and computed again for every product where not.
        """
        if self.C is None or self.kernel.is_free:
            return None
        rows, X, y, weights = self._counting()
        points = self.kernel.basis_points(self.X, rows)
        available = _xp.memory(X)
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
        _check_solution(coef, intercept)
        if len(rows) < self.X.shape[0]:
            full = self.y - self.kernel.dot(self.X, points, coef) - intercept[None, :]
            residuals = _xp.put(full, rows, residuals)
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
            largest = float(_xp.namespace(leverage).max(leverage))
            if machine.serves(largest):
                break
        warn_of_leverage(largest)
        coef = whitening.expand(machine.coef)
        _check_solution(coef, machine.intercept, loo)
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
        xp = _xp.namespace(self.X)
        stack = lambda name: xp.stack([getattr(fit, name) for fit in fits])  # noqa: E731
        return Path(
            values, stack("coef"), stack("intercept"), stack("residuals"), stack("leverage"), stack("loo_residuals")
        )


class Step(BaseEstimator):
    """What `steps` holds: a sparsifier or a tuner, a Problem in and a Problem out."""

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


@dataclass(frozen=True)
class Factor:
    """A factorised problem: fits for the C it serves, left-out predictions, block residuals."""

    problem: Problem
    C: float  # the one it serves, or the largest of those that it serves
    rows: np.ndarray
    support: np.ndarray | None
    points: Array
    whitening: Whitening | None
    system: system.Dual | system.Primal | system.Wide | system.Reduced

    def fit(self, C: float) -> Fit:
        """The machine for one C."""
        problem = self.problem
        solution = self.system.solution(1.0 / C)
        coef = solution.coef if self.whitening is None else self.whitening.expand(solution.coef)
        _check_solution(coef, solution.intercept, solution.loo_residuals)
        residuals, leverage, loo = solution.residuals, solution.leverage, solution.loo_residuals
        if len(self.rows) < problem.X.shape[0]:
            predict = problem.kernel.dot(problem.X, self.points, coef) + solution.intercept[None, :]
            full = problem.y - predict
            residuals, loo = _xp.put(full + 0.0, self.rows, residuals), _xp.put(full, self.rows, loo)
            leverage = _xp.put(_xp.zeros((problem.X.shape[0],), leverage), self.rows, leverage)
        return Fit(
            kernel=problem.kernel,
            C=C,
            weights=problem.weights,
            support=self.support,
            points=self.points,
            coef=coef,
            intercept=solution.intercept,
            residuals=residuals,
            leverage=leverage,
            loo_residuals=loo,
        )

    def rounding(self, fit: Fit) -> float:
        """See `rounding_error`; 0 for a machine on columns of the KKT system."""
        if isinstance(self.system, system.Reduced):
            return 0.0
        rows = (self.problem.y, fit.weights, fit.residuals, fit.leverage, fit.loo_residuals)
        arrays = (_xp.take(array, self.rows) for array in rows)
        return rounding_error(self.system, self.whitening, fit.points, fit.coef, fit.C, *arrays)

    def left_out(self, C: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Blocks of the rows that count and their left-out residuals (rows, values of C, outputs), to compare C by."""
        if isinstance(self.system, system.Reduced):
            raise ValueError("A machine on columns of the KKT system serves one C.")
        return self.system.left_out([1.0 / float(value) for value in C])

    def criterion(self, *, classes: bool = False) -> tuple[float, Array, float]:
        """What tuning minimises, and its gradient in the log widths and in log C; the basis is fixed.

        log of PRESS over the rows that count or, for `classes`, of the mean log loss of their left-out decision values.

        The gradient in the widths has one row a leaf of the kernel and one column a column of X.
        """
        kernel = self.problem.kernel
        value, terms, in_C = self._criterion(classes)
        gradient = sum(kernel.gradient(X, Z, G) for X, Z, G in terms)
        basis = None if isinstance(self.system, system.Dual) else self.points.shape[0]
        _progress.did(lambda: gradient_work(len(self.rows), basis, self.problem.X.shape[1]))
        return value, gradient, in_C

    def criterion_and_points(self) -> tuple[float, Array, float, Array]:
        """log of PRESS and its gradient as those of `criterion`, and the gradient in the points of the basis."""
        kernel = self.problem.kernel
        if not self.has_point_gradient:
            raise ValueError("The basis has points that depend on others, or as many as rows: they have no derivative.")
        value, (rows, basis), in_C = self._criterion(classes=False)
        in_widths, in_points = kernel.both_gradients(*rows)
        Z, G = basis[1:]  # k(z, z') moves with both of its points; each pair is counted twice for the widths
        within = kernel.both_gradients(Z, Z, G + G.T)
        return value, in_widths + 0.5 * within[0], in_C, in_points + within[1]

    @property
    def has_point_gradient(self) -> bool:
        """True for a primal machine whose points do not depend on each other."""
        independent = self.whitening is not None and self.whitening.rank == self.points.shape[0]
        return independent and isinstance(self.system, system.Primal)

    def _criterion(self, classes: bool) -> tuple[float, list[tuple[Array, Array, Array]], float]:
        """The criterion; inputs X, Z and the derivative in k(X, Z), for each block of kernel values; that in log C."""
        X = _xp.take(self.problem.X, self.rows)
        if isinstance(self.system, system.Dual):
            value, G, in_ridge = self.system.criterion(classes)
            return value, [(X, self.points, G)], -in_ridge
        if isinstance(self.system, system.Reduced) or self.whitening is None:
            raise ValueError("The derivative of leave-one-out is that of a dual or a primal machine.")
        points = self.whitening.points
        value, columns, penalty, in_ridge = self.system.criterion(self.whitening.lower, classes)
        return value, [(X, points, columns), (points, points, penalty)], -in_ridge

    def block_residuals(self, folds: Sequence[np.ndarray], C: float) -> Array:
        """y_B - f_(B)(x_B) for every fold B of row numbers, each left out as a whole, without a refit."""
        position = np.full(self.problem.X.shape[0], -1)
        position[self.rows] = np.arange(len(self.rows))
        inside = [position[np.asarray(fold)] for fold in folds]
        blocks = self.system.block_residuals([rows[rows >= 0] for rows in inside], 1.0 / C)
        if len(self.rows) == self.problem.X.shape[0]:
            return blocks
        out = self.fit(C).residuals  # rows of weight 0 in a fold: predict them without the fold's other rows
        out = _xp.put(out, self.rows, blocks)
        for fold, local in zip(folds, inside, strict=True):
            absent = np.asarray(fold)[local < 0]
            if absent.size:
                smoother = self.smoother(_xp.take(self.problem.X, absent), C)
                own = local[local >= 0]
                change = _xp.take(smoother.T, own).T @ _xp.take(blocks, own)
                out = _xp.put(out, absent, _xp.take(out, absent) + change)
        return out

    def smoother(self, X: Array, C: float) -> Array:
        """df(x)/dy_i for new points (rows) and the rows that count (columns)."""
        return self.system.smoother(self.columns(X), 1.0 / C)

    def columns(self, X: Array) -> Array:
        """The columns of the factorised system at new points: kernel values, or whitened ones."""
        return self.problem.kernel.evaluate(X, self.points) if self.whitening is None else self.whitening(X)

    def left_out_predictions(
        self, X: Array, fit: Fit, folds: Sequence[np.ndarray] | None = None, moves: Array | None = None
    ) -> Array:
        """f_(B)(x) for new points x (rows), every left-out fold B (columns) and every output: (m, folds, k).

        Folds hold positions among the rows that count; None leaves out each row that counts alone. Leaving rows out is
        moving their targets by some distance, and f is linear in the targets; `moves` are these distances, if known.
        """
        moves = self.system.moves(1.0 / fit.C, folds) if moves is None else moves
        f, smoother = fit.predict(X)[:, None, :], self.smoother(X, fit.C)
        if folds is None:
            return f - smoother[:, :, None] * moves[None, :, :]
        changes = [_xp.take(smoother.T, fold).T @ _xp.take(moves, fold) for fold in folds]
        return f - _xp.namespace(f).stack(changes, axis=1)


@dataclass(frozen=True)
class Fit:
    """A solved problem. Residuals, leverages and left-out residuals cover all rows of the problem."""

    kernel: Kernel
    C: float
    weights: Array
    support: np.ndarray | None
    points: Array
    coef: Array
    intercept: Array
    residuals: Array
    leverage: Array  # None, as what follows, where `Problem.solve` was not asked for it and did not come by it
    loo_residuals: Array
    rounding: float = field(default=0.0, metadata={"in_files": False})  # see `rounding_error`; 0: not known

    def predict(self, X: Array) -> Array:
        """f(x) for every row and output."""
        return self.kernel.dot(X, self.points, self.coef) + self.intercept[None, :]

    def check(self, problem: Problem) -> float:
        """Relative residual of the optimality (KKT) conditions: max |A x - b| / (|A| |x| + |b|), in the maximum norm.

        For the basis of all rows, the system (K + V^-1/C) alpha + 1 b = y, 1'alpha = 0, row i scaled by sqrt(v_i) on
        both sides; otherwise the normal equations (K_SS/C + K_SX V K_XS) beta + K_SX V 1 b = K_SX V y with their last
        row. About machine precision for a sound fit, whatever the condition of the system.
        """
        xp = _xp.namespace(problem.X)
        rows = problem.replace(weights=self.weights).rows
        X, y, v = (_xp.take(a, rows) for a in (problem.X, problem.y, self.weights))
        n = self.points.shape[0]
        beta, b = self.coef, self.intercept
        if self.support is not None and np.array_equal(np.sort(self.support), rows):
            w = xp.sqrt(v)
            worst, norm = _xp.zeros((n, beta.shape[1]), beta), 0.0
            for block in _xp.row_blocks(n, 8 * n):
                K = self.kernel.evaluate(X[block, :], self.points) * w[block, None] * w[None, :]
                norm = max(norm, float(xp.max(xp.sum(xp.abs(K), axis=1) + w[block])) + 1.0 / self.C)
                a = beta / w[:, None]
                worst[block, :] = K @ a + a[block, :] / self.C + w[block, None] * (b[None, :] - y[block, :])
            total = xp.concat([worst, xp.sum(beta, axis=0)[None, :]])
            unknown = xp.concat([beta / w[:, None], b[None, :]])
            right = w[:, None] * y
        else:
            G = _xp.zeros((n + 1, n + 1), beta)
            right = _xp.zeros((n + 1, beta.shape[1]), beta)
            for block in _xp.row_blocks(X.shape[0], 8 * n):
                K = self.kernel.evaluate(X[block, :], self.points)
                Z = xp.concat([K, _xp.zeros((K.shape[0], 1), K) + 1.0], axis=1)
                G += Z.T @ (v[block, None] * Z)
                right += Z.T @ (v[block, None] * y[block, :])
            G[:n, :n] += problem._among(self.support, self.points) / self.C
            unknown = xp.concat([beta, b[None, :]])
            total, norm = G @ unknown - right, float(xp.max(xp.sum(xp.abs(G), axis=1)))
        size = norm * float(xp.max(xp.abs(unknown))) + float(xp.max(xp.abs(right)))
        return float(xp.max(xp.abs(total))) / size if size > 0 else 0.0


@dataclass(frozen=True)
class Path:
    """Fits along C, stacked: C (c,), coef (c, n, k), intercept (c, k), residuals (c, l, k), leverage (c, l), ..."""

    C: np.ndarray
    coef: Array
    intercept: Array
    residuals: Array
    leverage: Array
    loo_residuals: Array


def class_numbers(coded: Array) -> np.ndarray:
    """The class of every row from its coded target, or from its decision values."""
    values = _xp.to_numpy(coded)
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else np.argmax(values, axis=1)


def column_spread(problem: Problem) -> np.ndarray:
    """Standard deviation of every column over the rows that count; 1 for constant columns.

    Where few cells make most of it, such as a 9999 for what is missing, that of normal numbers with the same quartiles.
    """
    spread, (low, high) = _spread(problem)[0], _quartiles(problem)
    middle = (high - low) / NORMAL_QUARTILES
    spread = np.where((middle > 0) & (spread > FEW_CELLS * middle), middle, spread)
    return np.where(constant_columns(problem), 1.0, spread)


def constant_columns(problem: Problem) -> np.ndarray:
    """Which columns do not vary over the rows that count."""
    spread, size = _spread(problem)
    return spread <= 1e-12 * size


def _spread(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviation and largest size of the columns."""
    values = _xp.to_numpy(_xp.take(problem.X, problem.rows))
    size = np.max(np.abs(values), axis=0, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    return size * np.std(values / size, axis=0), size


def _quartiles(problem: Problem) -> np.ndarray:
    """Of the columns, over ten thousand of the rows that count or a few more."""
    rows = problem.rows[:: max(1, len(problem.rows) // 10_000)]
    return np.quantile(_xp.to_numpy(_xp.take(problem.X, rows)), (0.25, 0.75), axis=0)


# How long it takes ----------------------------------------------------------------------------------------------------
def work(rows: int, basis: int | None, *, every: bool = False) -> float:
    """About what it takes to factorise so many rows with a basis (None: the rows), for one C or every one.

    In nanoseconds of one core, as measured with 300 to 200,000 rows: what cannot be said beforehand, such as the way
    that an ill-conditioned system needs, may take three times as long.
    """
    slope = {(True, False): 0.08, (True, True): 0.36, (False, False): 0.04, (False, True): 0.06}[basis is None, every]
    size = rows if basis is None else basis
    return 1e7 + rows * size * (8.0 + slope * size)


def _share_of_work(rows: slice, basis: int) -> float:
    """The part of a block of rows."""
    return work(rows.stop - rows.start, basis) - work(0, basis)


def gradient_work(rows: int, basis: int | None, columns: int) -> float:
    """About what the derivative of leave-one-out takes then."""
    size, slope = (rows, 0.1) if basis is None else (basis, 0.0)
    return rows * size * (12.0 + 3.0 * columns + slope * size)


# Whitening a basis ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Whitening:
    """K_SS = F F' for a basis: phi(x) = F_1^-1 k_1(x) on the independent points, which carry the coefficients."""

    kernel: Kernel
    points: Array  # the independent basis points, in the order of the factor
    lower: Array  # (r, r)
    factor: Array | None = None  # (n, r), when points were dropped
    owner: np.ndarray | None = None  # (n,) then: the independent point that a point is, or is a copy of; -1 for none

    @property
    def rank(self) -> int:
        return int(self.lower.shape[0])

    def __call__(self, X: Array) -> Array:
        """Whitened columns phi(X), rows x rank."""
        return _xp.whiten_rows(self.kernel.evaluate(X, self.points), self.lower)

    def steps(self, R: Array | None = None, condition: float = math.inf) -> tuple[Array, ...]:
        """Lower factors that turn kernel columns into the columns phi R^-1, one after the other.

        One product of both saves a pass of triangular solves, and costs about sqrt(cond(K_SS) cond(R'R)) in digits:
        where the two conditions, that of R'R being given, leave enough of them.
        """
        if R is None:
            return (self.lower,)
        if EPS * math.sqrt(self._condition * condition) <= system.ORTHOGONAL:
            return (_xp.matmul(self.lower, R.T),)
        return (self.lower, R.T)

    @cached_property
    def _condition(self) -> float:
        K = _xp.gram(self.lower.T)
        return _xp.condition(self.lower, float(_xp.namespace(K).max(_xp.namespace(K).sum(abs(K), axis=0))))

    def allows_plain_columns(self, rows: int, ridge: float) -> bool:
        """Whether sums over so many rows of kernel columns as they are are likely to be enough.

        They would be if the rows were the points of the basis, each of them several times; perhaps with one row their
        mean, without which no sum over so few different rows has full rank.
        """
        K = _xp.gram(self.lower.T)
        G, mean = _xp.gram(K), _xp.namespace(K).mean(K, axis=0)
        sums = (G - count * mean[:, None] * mean[None, :] for count in (self.rank, self.rank - 1))
        condition = min(system.cholesky_pass(rows / self.rank * scatter + ridge * K)[1] for scatter in sums)
        return EPS * condition <= system.PLAIN

    def allows_plain_leverages(self, weights: Array, ridge: float) -> bool:
        """Whether leave-one-out of so many rows is likely to keep its digits with kernel columns as they are.

        As above it is asked of the points of the basis, which takes about as long as the columns of some rows a point.
        """
        if not 0 < self.rank * PLAIN_ROWS <= weights.shape[0]:
            return False
        xp = _xp.namespace(self.lower)
        K = _xp.gram(self.lower.T)
        centred = K - xp.mean(K, axis=0)[None, :]
        each = float(xp.sum(weights)) / self.rank
        lower, condition = system.cholesky_pass(each * _xp.gram(centred) + ridge * K)
        Q = _xp.whiten_rows(centred, lower)
        leverage = xp.sum(Q * Q, axis=1)
        if not math.isfinite(condition) or float(xp.max(leverage)) > 0.5:  # rows that stand alone are not like others
            return False
        loss = float(xp.max(system.expected_loss(Q, lower, leverage)))
        return system.SURE**2 * loss <= system.ORTHOGONAL

    def sums(self, steps: tuple[Array, ...], X: Array, targets: Array, weights: Array) -> system.Moments:
        """Sums over rows of their columns and targets, in blocks that stay within the working memory."""
        sums = system.Sums(self.rank, targets.shape[1], self.lower)
        for rows in self._blocks(X):
            sums.add(self.columns(steps, X[rows, :]), targets[rows, :], weights[rows])
        return sums.moments()

    def gradient(self, coef: Array, intercept: Array, X: Array, targets: Array, weights: Array) -> Array:
        """Sum over rows of v (k, 1)'(t - f), for given coefficients of the independent points and bias."""
        total = _xp.zeros((self.rank + 1, targets.shape[1]), self.lower)
        for rows in self._blocks(X):
            K = self.kernel.evaluate(X[rows, :], self.points)
            e = weights[rows, None] * (targets[rows, :] - _xp.matmul(K, coef) - intercept[None, :])
            total[:-1, :] += K.T @ e
            total[-1, :] += _xp.namespace(e).sum(e, axis=0)
        return total

    def left_out(
        self, machine: system.Summed, steps: tuple[Array, ...], X: Array, targets: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Residuals, leverages and left-out residuals of rows under a machine from sums."""
        out = (targets + 0.0, weights + 0.0, targets + 0.0)
        for rows in self._blocks(X):
            columns = self.columns(steps, X[rows, :])
            residuals, leverage, loo = machine.left_out(columns, targets[rows, :], weights[rows])
            out[0][rows, :], out[1][rows], out[2][rows, :] = residuals, leverage, loo
        return out

    def columns(self, steps: tuple[Array, ...], X: Array) -> Array:
        """Columns of `steps` at some rows, rows x rank."""
        columns = self.kernel.evaluate(X, self.points)
        for lower in steps:
            columns = _xp.whiten_rows(columns, lower)
        return columns

    def _blocks(self, X: Array) -> Iterator[slice]:
        # adding the sums of two blocks costs as much as a few rows a column
        for rows in _xp.row_blocks(X.shape[0], 8 * self.rank, X, least=2 * self.rank):
            yield rows
            _progress.did(partial(_share_of_work, rows, self.rank))

    def expand(self, theta: Array) -> Array:
        """Coefficients of all basis points: those of the independent ones, shared equally with their copies.

        A point that depends on others only to working precision gets 0: its column is not that of its factor.
        """
        coef = _xp.solve_lower(self.lower, theta, transpose=True)
        if self.owner is None:
            return coef
        shared = self.owner >= 0
        counts = np.bincount(self.owner[shared], minlength=self.rank)
        coef = coef / _xp.like(counts.astype(float), coef)[:, None]
        full = _xp.zeros((len(self.owner), theta.shape[1]), theta)
        return _xp.put(full, np.flatnonzero(shared), _xp.take(coef, self.owner[shared]))

    def contract(self, coef: Array) -> Array:
        """What `expand` makes these coefficients of."""
        if self.owner is not None:
            shared, total = self.owner >= 0, np.zeros((self.rank, coef.shape[1]))
            np.add.at(total, self.owner[shared], _xp.to_numpy(coef)[shared])
            coef = _xp.like(total, coef)
        return self.lower.T @ coef


def whiten(kernel: Kernel, points: Array, K: Array, *, quick: bool = False) -> Whitening:
    """Factor the kernel matrix K of the basis; points that depend on others to working precision carry no column.

    To compare settings, `quick`, a penalty on what those would carry does as well; on a card it spares pivots, which
    elsewhere spare columns.
    """
    _check_finite(K, kernel)
    xp = _xp.namespace(K)
    n, tolerance = K.shape[0], _smallest_pivot(K)
    L = _xp.cholesky(0.5 * (K + K.T))
    if L is not None and float(xp.min(xp.linalg.diagonal(L))) ** 2 > tolerance:
        return Whitening(kernel, points, L)
    K = 0.5 * (K + K.T)
    if quick and tolerance > 0 and not _xp.is_numpy(K):
        L = _xp.cholesky(_xp.add_diagonal(K + 0.0, 2.0 * tolerance))
        if L is not None:
            return Whitening(kernel, points, L)
    factor, pivots = _xp.pivoted_cholesky(K, tolerance)
    group = np.unique(_xp.to_numpy(points), axis=0, return_inverse=True)[1].reshape(-1)
    owner = np.full(n, -1)
    for place, pivot in enumerate(pivots):
        owner[group == group[pivot]] = place
    return Whitening(kernel, _xp.take(points, pivots), _xp.take(factor, pivots), factor, owner)


def independent_rows(K: Array) -> np.ndarray:
    """Numbers of the rows that the others depend on to working precision, of the kernel matrix of some rows."""
    return _xp.pivoted_cholesky(0.5 * (K + K.T), _smallest_pivot(K))[1]


def _smallest_pivot(K: Array) -> float:
    xp = _xp.namespace(K)
    return K.shape[0] * EPS * max(float(xp.max(xp.linalg.diagonal(K))), 0.0)


# Rounding errors ------------------------------------------------------------------------------------------------------
def rounding_error(
    machine: system.Dual | system.Primal | system.Wide,
    whitening: Whitening | None,
    points: Array,
    coef: Array,
    C: float,
    y: Array,
    weights: Array,
    residuals: Array,
    leverage: Array,
    loo_residuals: Array,
    *,
    from_sums: bool = False,
) -> float:
    """About how far rounding moves fitted and left-out values, relative to the targets' spread, or to larger values.

    Kernel values are off by eps, relatively. That moves the solution as targets do that are off by
    eps sqrt(k_ii) |sqrt(k_jj) alpha_j|: a few random errors of that size are fitted by the machine at hand. New rows
    are about as sensitive as rows left out; rows far from all others are more so.

    With a smaller basis they move its gradient as well. That counts for rows of leverage near 1 and for kernels of
    finite rank; else it is a matter of points that float64 cannot tell from others, which most large bases have.
    """
    xp, lam, e = _xp.namespace(y), 1.0 / C, weights[:, None] * residuals
    norm = lambda values: xp.sqrt(xp.sum(values * values, axis=0))[None, :]  # noqa: E731
    mean, top = xp.mean(y, axis=0)[None, :], xp.max(xp.abs(y), axis=0)[None, :]
    spread = xp.max(xp.abs(y - mean), axis=0)[None, :] + TINY
    left_out, floor = xp.abs(loo_residuals), 100.0 * EPS * top  # what targets far from 0 have lost anyhow

    def share(moves: Array, values: Array) -> float:
        largest = float(xp.max((xp.abs(moves) - floor) / xp.maximum(spread + 0.0 * values, values)))
        return max(0.0, largest) if math.isfinite(largest) else 1.0

    # |H z| <= |z| for rows of equal weight, and a left-out residual is a residual over 1 - h: ordinary fits end here
    complement = float(xp.min(xp.clip(1.0 - leverage, EPS, None)))
    reach = 2.0 * math.sqrt(y.shape[0] * float(xp.max(weights)) / float(xp.min(weights))) / complement
    near = system.close_to_one(leverage)

    def is_small(moves: Array) -> bool:
        return bool(xp.all(reach * moves <= SURELY_KEPT * spread))

    if whitening is None:
        assert isinstance(machine, system.Dual)
        diagonal = xp.sqrt(xp.abs(machine.diagonal))
        size = EPS * C * norm(diagonal[:, None] * e)
        if is_small(float(xp.max(diagonal)) * size):
            return 0.0
        fitted, missed = (moves[:, None] * size for moves in machine.noise(lam))
        return max(share(fitted, 0.0 * fitted), share(missed, left_out))
    assert not isinstance(machine, system.Dual)
    if not whitening.rank:
        return 0.0
    if _lacks_dimensions(whitening, points, float(xp.max(C * norm(e) / spread))):
        return 1.0
    diagonal = xp.sqrt(_xp.row_squares(whitening.lower))[:, None]
    beta = norm(diagonal * _xp.solve_lower(whitening.lower, whitening.contract(coef), transpose=True))
    largest = float(xp.max(diagonal))
    of_targets, of_gradient = EPS * largest * beta, EPS * (largest * norm(e) + lam * beta)
    if is_small(of_targets) and not (near.size or from_sums or whitening.kernel.has_finite_rank):
        return 0.0
    first, second = machine.noise(whitening.lower, lam)
    plain = [moves[:, None] * of_targets for moves in first]
    fitted, missed = (a + b[:, None] * of_gradient for a, b in zip(plain, second, strict=True))
    if not whitening.kernel.has_finite_rank:
        lost = [share(plain[0], 0.0 * fitted), share(plain[1], left_out)]
    else:
        lost = [share(fitted, 0.0 * fitted), share(missed, left_out)]
    if from_sums:  # residuals divided by 1 - h, and nothing better
        complements = xp.clip(1.0 - leverage, EPS, None)[:, None]
        lost.append(share(EPS * top / complements, left_out))
        missed = fitted / complements
    elif near.size and isinstance(machine, system.Primal):
        again = machine.careful(near, lam, residuals, leverage, loo_residuals, disturbed=True)[2]
        lost.append(share(again - loo_residuals, left_out))
    if near.size:
        lost.append(share(_xp.take(missed, near), _xp.take(left_out, near)))
    return max(lost)


def _lacks_dimensions(whitening: Whitening, points: Array, coefficients: float) -> bool:
    """Whether points of the basis depend on each other only because they are far from 0, and it matters.

    What they would carry is their smallest pivot times the `coefficients` of the rows.
    """
    kernel = whitening.kernel
    if whitening.factor is None or not kernel.has_finite_rank:
        return False
    if coefficients * _smallest_pivot(_xp.gram(whitening.factor.T)) <= LOST_DIGITS:
        return False
    points = points - _xp.namespace(points).mean(points, axis=0)[None, :]
    return whitening.rank < len(independent_rows(kernel.evaluate(points, points)))


# Checks ---------------------------------------------------------------------------------------------------------------
def _check_finite(K: Array, kernel: Kernel) -> None:
    xp = _xp.namespace(K)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = kernel.is_bounded or bool(xp.isfinite(xp.sum(K)))
    if not finite:
        raise NumericalError(
            f"The kernel matrix of {kernel!r} is not finite: scale your features, or check the kernel."
        )


def _check_solution(*arrays: Array) -> None:
    if not all(bool(_xp.namespace(a).all(_xp.namespace(a).isfinite(a))) for a in arrays):
        raise NumericalError("The solution is not finite: scale your features, targets and weights, or lower C.")


def warn_of_leverage(largest: float) -> None:
    """A warning where a leverage leaves few digits of e/(1 - h), which machines from sums have no better way to."""
    if UNSURE * (1.0 - largest) < EPS:
        warnings.warn(
            f"A row has a leverage of 1 - {max(1.0 - largest, 0.0):.0e}: few digits of its left-out residual are sure. "
            "Lower C or its weight, or fit rows and basis that fit in memory.",
            stacklevel=_xp.user_level(),
        )


def check_memory(n_rows: int, matrices: int, X: Array) -> None:
    """Raise MemoryError before the work when n x n matrices cannot fit in the memory where X lives."""
    needed, available = 8 * n_rows**2 * matrices, _xp.memory(X)
    if available is not None and needed > available:
        raise MemoryError(
            f"A dense machine of {n_rows} rows needs {needed / 2**30:.1f} GiB for its kernel matrix, this machine has "
            f"{available / 2**30:.1f} GiB: use a basis, e.g. steps=[lssvm.sparsify.Random(1000)], or chunks."
        )
