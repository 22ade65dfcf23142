"""Classifiers of any loss and coding: one binary problem per column of decision values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import arrays
from ..arrays import Array
from ..coding import pair_rows
from ..kernels import Kernel
from ..losses import LOSSES
from ..system.newton import Binary, solve_dual, solve_primal
from .problem import Problem
from .whitening import Whitening, whiten


@dataclass(frozen=True)
class ClassFit:
    """A fitted classifier, with one column per class or per pair of classes (one for two classes)."""

    kernel: Kernel
    C: float
    support: np.ndarray | None
    points: Array
    coef: Array  # (basis, columns)
    intercept: Array  # (columns,)
    loo: Array  # (rows, columns): leave-one-out values, or decision values if a row is not part of the problem
    unit_loo: Array  # (rows, columns): the same, with one copy of the row left out if its weight counts copies
    leverage: Array  # (rows,): the mean over the problems that a row is part of


def solve_classes(problem: Problem, loss: str, coding: str, copies: np.ndarray) -> ClassFit:
    """Fit the classifier. Its binary problems share the kernel matrix or the whitened columns.

    `copies` are the sample weights, at least 1: a row of weight 3 counts as three rows, of which one is left out.
    """
    X, C = problem.X, problem.C
    assert C is not None
    codes, weights = problem.labels, problem.weights
    n_classes = max(2, problem.y.shape[1])
    if n_classes == 2 or coding == "one-vs-rest":
        every, y = np.arange(X.shape[0]), arrays.to_numpy(problem.y)
        columns = [(every, y[:, c]) for c in range(y.shape[1])]
    else:
        columns = pair_rows(codes, n_classes)
    if problem.is_dual:
        support, points, whitening = problem.rows, problem.kernel.basis_points(X, problem.rows), None
        inputs = problem.gram(X, problem.kernel.basis_points(X, np.arange(X.shape[0])))
        size = X.shape[0]
    else:
        inputs, whitening, points = whitened_columns(problem)
        support, size = problem.support, whitening.rank
    coef = np.zeros((size, len(columns)))
    intercept, found = np.zeros(len(columns)), []
    for number, (rows, t) in enumerate(columns):
        fit = solve_two_classes(inputs, rows, t, weights, C, loss, dual=problem.is_dual)
        found.append(fit)
        intercept[number] = fit.intercept
        coef[rows if problem.is_dual else slice(None), number] = arrays.to_numpy(fit.coef)
    coef, intercept = arrays.like(coef, X), arrays.like(intercept, X)
    values = arrays.to_numpy(inputs @ coef + intercept[None, :]).copy()
    units, leverage, shares = values.copy(), np.zeros(X.shape[0]), np.zeros(X.shape[0])
    for number, ((rows, _), fit) in enumerate(zip(columns, found, strict=True)):
        f, loo, h = (arrays.to_numpy(a) for a in (fit.decision, fit.loo, fit.leverage))
        values[rows, number] = loo
        one = (f - loo) * (1.0 - h) / (copies[rows] - h + (copies[rows] == h))
        units[rows, number] = np.where(copies[rows] > 1.0, f - one, loo)
        leverage[rows] += h
        shares[rows] += 1.0
    if whitening is None:
        coef = arrays.take(coef, problem.rows)
    else:
        coef = whitening.expand(coef)
    loo, unit_loo, leverage = (arrays.like(part, X) for part in (values, units, leverage / shares))
    return ClassFit(problem.kernel, C, support, points, coef, intercept, loo, unit_loo, leverage)


def whitened_columns(problem: Problem) -> tuple[Array, Whitening, Array]:
    """The whitened kernel columns of the basis (rows, rank), the whitening, and the basis points."""
    X, points = problem.X, problem.points
    if points is None:
        points = problem.kernel.basis_points(X, np.asarray(problem.support))
    whitening = whiten(problem.kernel, points, problem._among(problem.support, points))
    columns = problem.kernel.fill(arrays.empty((X.shape[0], whitening.rank), X), X, whitening.points)
    return arrays.whiten_rows(columns, whitening.lower), whitening, points


def solve_two_classes(
    inputs: Array,
    rows: np.ndarray,
    t: np.ndarray,
    weights: Array,
    C: float,
    loss: str,
    *,
    dual: bool,
    start: Array | None = None,
    tolerance: float = 1e-10,
) -> Binary:
    """Solve one binary problem; `inputs` is the kernel matrix (`dual`) or the whitened columns of all rows.

    `start` and `tolerance` are those of Newton's method.
    """
    whole = len(rows) == inputs.shape[0]
    own, targets = (weights if whole else arrays.take(weights, rows)), arrays.like(t, inputs)
    present = np.unique(t[arrays.to_numpy(own) > 0])
    part = inputs if whole else arrays.take(inputs, rows)
    if dual and not whole:
        part = arrays.take(part.T, rows).T
    if len(present) < 2:  # a class has no positive weight
        constant = float(present[0]) if len(present) else 0.0
        values = 0.0 * targets + constant
        size = len(rows) if dual else inputs.shape[1]
        return Binary(arrays.zeros((size,), inputs), constant, values, values, 0.0 * values)
    if dual:
        return solve_dual(part, targets, own, C, LOSSES[loss], start=start, tolerance=tolerance)
    if len(rows) < inputs.shape[1]:  # fewer rows than columns: the dual system is smaller
        fit = solve_dual(arrays.gram(part.T), targets, own, C, LOSSES[loss], start=start, tolerance=tolerance)
        return Binary(part.T @ fit.coef, fit.intercept, fit.decision, fit.loo, fit.leverage)
    return solve_primal(part, targets, own, C, LOSSES[loss], start=start, tolerance=tolerance)
