"""Factorised problems, which provide fits, leave-one-out values and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .. import arrays, progress
from ..arrays import Array
from ..progress import gradient_work
from ..system import System
from .fit import Fit, check_solution
from .record import ProblemRecord
from .rounding import rounding_error
from .whitening import Whitening


@dataclass(frozen=True)
class Factor:
    """A factorised problem: fits for one or several values of C, leave-one-out predictions, residuals of folds."""

    problem: ProblemRecord
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
