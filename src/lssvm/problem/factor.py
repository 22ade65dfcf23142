"""Factorised problems, which provide fits, leave-one-out values and their derivatives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np

from .. import arrays, progress
from ..arrays import EPS, Array, NumericalError
from ..kernels import Kernel
from ..progress import gradient_work
from ..rules import Penalty, indices, row_weights, values
from .rounding import rounding_error

if TYPE_CHECKING:
    from ..system import System
    from .problem import Problem
    from .whitening import Whitening

UNSURE = 1e-8  # relative rounding error of a leave-one-out residual above which a warning is issued: half of the digits


@dataclass(frozen=True)
class Factor:
    """A factorised problem: fits for one or several values of C, leave-one-out predictions, residuals of folds."""

    problem: Problem
    C: float  # the value it was factorised for, or the largest one
    rows: np.ndarray
    support: np.ndarray | None
    points: Array
    whitening: Whitening | None
    system: System

    def fit(self, C: float) -> Fit:
        """The solution for one C."""
        problem = self.problem
        solution = self.system.solution(1.0 / C)
        coef = solution.coef if self.whitening is None else self.whitening.expand(solution.coef)
        check_solution(coef, solution.intercept, solution.loo_residuals)
        residuals, leverage, loo = solution.residuals, solution.leverage, solution.loo_residuals
        if len(self.rows) < problem.X.shape[0]:
            predict = problem.kernel.dot(problem.X, self.points, coef) + solution.intercept[None, :]
            full = problem.y - predict
            residuals, loo = arrays.put(full + 0.0, self.rows, residuals), arrays.put(full, self.rows, loo)
            leverage = arrays.put(arrays.zeros((problem.X.shape[0],), leverage), self.rows, leverage)
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
        """See `rounding_error`."""
        rows = (self.problem.y, fit.weights, fit.residuals, fit.leverage, fit.loo_residuals)
        counted = (arrays.take(array, self.rows) for array in rows)
        size, kernel = math.inf, self.problem.kernel
        if kernel.has_finite_rank and not kernel.is_precomputed:  # its basis points may be unit vectors
            diagonal = kernel.diagonal(arrays.take(self.problem.X, self.rows))
            size = math.sqrt(abs(float(arrays.namespace(diagonal).max(diagonal))))
        return rounding_error(self.system, self.whitening, fit.points, fit.coef, fit.C, *counted, size=size)

    def loo_path(self, C: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Blocks of the rows with positive weight and their leave-one-out residuals (rows, values of C, outputs).

        They are accurate enough to compare values of C.
        """
        return self.system.loo_path([1.0 / float(value) for value in C])

    def criterion(self, *, classes: bool = False) -> tuple[float, Array, float]:
        """The criterion that tuning minimises, and its gradient in the log widths and in log C; the basis is fixed.

        It is the logarithm of PRESS over the rows with positive weight or, for `classes`, that of the mean log loss of
        their leave-one-out decision values.

        The gradient in the widths has one row per leaf of the kernel and one column per column of X.
        """
        kernel = self.problem.kernel
        value, terms, in_C = self._criterion(classes)
        (X, Z, G), *others = terms
        if others and arrays.on_accelerator(X) and arrays.is_small(*G.shape):  # one call instead of two
            points, _, penalty = others[0]
            concat = arrays.namespace(X).concat
            terms = [(concat([X, points], axis=0), Z, concat([G, penalty], axis=0))]
        gradient = sum(kernel.gradient(X, Z, G) for X, Z, G in terms)
        basis = None if self.system.is_dual else self.points.shape[0]
        progress.did(lambda: gradient_work(len(self.rows), basis, self.problem.X.shape[1]))
        return value, gradient, in_C

    def criterion_and_points(self) -> tuple[float, Array, float, Array]:
        """log PRESS and its gradient as in `criterion`, and the gradient in the basis points."""
        kernel = self.problem.kernel
        if not self.has_point_gradient:
            raise ValueError(
                "There is no derivative in the basis points: they are linearly dependent, or as many as the rows."
            )
        value, (rows, basis), in_C = self._criterion(classes=False)
        in_widths, in_points = kernel.both_gradients(*rows)
        Z, G = basis[1:]  # k(z, z') depends on both of its points; each pair is counted twice for the widths
        within = kernel.both_gradients(Z, Z, G + G.T)
        return value, in_widths + 0.5 * within[0], in_C, in_points + within[1]

    @property
    def has_point_gradient(self) -> bool:
        """True for a primal system whose basis points are linearly independent."""
        independent = self.whitening is not None and self.whitening.rank == self.points.shape[0]
        return independent and self.system.orthogonal is not None

    def _criterion(self, classes: bool) -> tuple[float, list[tuple[Array, Array, Array]], float]:
        """The criterion; X, Z and the derivative in k(X, Z) of each block of kernel values; the derivative in log C."""
        X = self.problem.X if len(self.rows) == self.problem.X.shape[0] else arrays.take(self.problem.X, self.rows)
        lower, points = (None, self.points) if self.whitening is None else (self.whitening.lower, self.whitening.points)
        value, columns, penalty, in_ridge = self.system.criterion(classes, lower)
        if penalty is None:
            return value, [(X, points, columns)], -in_ridge
        return value, [(X, points, columns), (points, points, penalty)], -in_ridge

    def block_residuals(self, folds: Sequence[np.ndarray], C: float) -> Array:
        """y_B - f_(B)(x_B) for every fold B of row numbers, each left out as a whole, without refitting."""
        position = np.full(self.problem.X.shape[0], -1)
        position[self.rows] = np.arange(len(self.rows))
        inside = [position[np.asarray(fold)] for fold in folds]
        blocks = self.system.block_residuals([rows[rows >= 0] for rows in inside], 1.0 / C)
        if len(self.rows) == self.problem.X.shape[0]:
            return blocks
        out = self.fit(C).residuals  # rows of weight 0 in a fold: predict them without the fold's other rows
        out = arrays.put(out, self.rows, blocks)
        for fold, local in zip(folds, inside, strict=True):
            absent = np.asarray(fold)[local < 0]
            if absent.size:
                smoother = self.smoother(arrays.take(self.problem.X, absent), C)
                own = local[local >= 0]
                change = arrays.take(smoother.T, own).T @ arrays.take(blocks, own)
                out = arrays.put(out, absent, arrays.take(out, absent) + change)
        return out

    def smoother(self, X: Array, C: float) -> Array:
        """df(x)/dy_i for new points (rows) and the training rows with positive weight (columns)."""
        return self.system.smoother(self.columns(X), 1.0 / C)

    def columns(self, X: Array) -> Array:
        """The columns of the factorised system at new points: kernel values, or whitened columns."""
        return self.problem.kernel.evaluate(X, self.points) if self.whitening is None else self.whitening(X)


@dataclass(frozen=True)
class Fit:
    """A solved problem. Residuals, leverages and leave-one-out residuals cover all rows of the problem."""

    kernel: Kernel
    C: Penalty
    weights: Annotated[Array, row_weights("rows")]
    support: Annotated[np.ndarray, indices("vectors", "rows")] | None
    points: Annotated[Array, values("vectors", "coordinates")]
    coef: Annotated[Array, values("vectors", "outputs")]
    intercept: Annotated[Array, values("outputs")]
    residuals: Annotated[Array, values("rows", "outputs")]
    leverage: Annotated[Array, values("rows", finite=False)]  # None, like the next field, after solve(loo=False)
    loo_residuals: Annotated[Array, values("rows", "outputs", finite=False)]
    rounding: float = field(default=0.0, metadata={"in_files": False})  # see `rounding_error`; 0: not known

    def predict(self, X: Array) -> Array:
        """f(x) for every row and output."""
        return self.kernel.dot(X, self.points, self.coef) + self.intercept[None, :]

    def check(self, problem: Problem) -> float:
        """Relative residual of the optimality (KKT) conditions: max |A x - b| / (|A| |x| + |b|), in the maximum norm.

        If the basis consists of all rows, the system is (K + V^-1/C) alpha + 1 b = y, 1'alpha = 0, with row i scaled by
        sqrt(v_i) on both sides; otherwise it is the normal equations (K_SS/C + K_SX V K_XS) beta + K_SX V 1 b =
        K_SX V y with their last row. The result is about machine precision for a correct fit, however ill-conditioned
        the system is.
        """
        xp = arrays.namespace(problem.X)
        rows = problem.replace(weights=self.weights).rows
        X, y, v = (arrays.take(a, rows) for a in (problem.X, problem.y, self.weights))
        n = self.points.shape[0]
        beta, b = self.coef, self.intercept
        if self.support is not None and np.array_equal(np.sort(self.support), rows):
            w = xp.sqrt(v)
            worst, norm = arrays.zeros((n, beta.shape[1]), beta), 0.0
            for block in arrays.row_blocks(n, 8 * n):
                K = self.kernel.evaluate(X[block, :], self.points) * w[block, None] * w[None, :]
                norm = max(norm, float(xp.max(xp.sum(xp.abs(K), axis=1) + w[block])) + 1.0 / self.C)
                a = beta / w[:, None]
                worst[block, :] = K @ a + a[block, :] / self.C + w[block, None] * (b[None, :] - y[block, :])
            total = xp.concat([worst, xp.sum(beta, axis=0)[None, :]])
            unknown = xp.concat([beta / w[:, None], b[None, :]])
            right = w[:, None] * y
        else:
            G = arrays.zeros((n + 1, n + 1), beta)
            right = arrays.zeros((n + 1, beta.shape[1]), beta)
            for block in arrays.row_blocks(X.shape[0], 8 * n):
                K = self.kernel.evaluate(X[block, :], self.points)
                Z = xp.concat([K, arrays.zeros((K.shape[0], 1), K) + 1.0], axis=1)
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


def check_solution(*parts: Array) -> None:
    if not all(bool(arrays.namespace(a).all(arrays.namespace(a).isfinite(a))) for a in parts):
        raise NumericalError("The solution is not finite: scale your features, targets and weights, or lower C.")


def warn_of_leverage(largest: float) -> None:
    """Warn if a leverage near 1 leaves few digits of e/(1 - h), the only formula available to systems from sums."""
    if UNSURE * (1.0 - largest) < EPS:
        warnings.warn(
            f"A row has a leverage of 1 - {max(1.0 - largest, 0.0):.0e}: few digits of its leave-one-out residual are "
            "correct. Lower C or the weight of that row, or use so few rows or basis points that they fit in memory.",
            stacklevel=arrays.user_level(),
        )
