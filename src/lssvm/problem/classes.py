"""Classifiers of any loss and coding: one binary problem per column of decision values."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import arrays
from ..arrays import Array
from ..coding import pair_rows
from ..kernels import Kernel
from ..losses import LOSSES, Loss
from ..system import Binary, solve_two_classes
from .cancellation import CHECKED_ROWS, stable_basis
from .problem import Problem
from .whitening import Whitening, whiten

SUSPECT = 1e-8  # objective above its minimum, relative, from which the problem is solved again with more care
FRACTIONS = (1e-8, 1e-6, 1e-4, 1e-2)
NOT_CONVERGED = 1e-6  # that from which a warning is issued


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
    """Fit the classifier; see `_solve_columns`. If a dense fit loses digits, its basis changes as in `refit_stably`."""
    fit, excess = _solve_columns(problem, loss, coding, copies)
    if excess > SUSPECT:
        found = _solve_columns(stable_basis(problem)[0] or problem, loss, coding, copies, gradually=True)
        fit, excess = found if found[1] <= excess else (fit, excess)
    if excess > NOT_CONVERGED:
        warnings.warn(
            f"The objective of the {loss} loss may be above its minimum by about {excess:.0e} of its value, because of "
            f"rounding errors: the kernel values are too large or too similar for C = {fit.C:.3g} and these weights. "
            "Scale the columns, or lower C.",
            ConvergenceWarning,
            stacklevel=arrays.user_level(),
        )
    return fit


def _solve_columns(
    problem: Problem, loss: str, coding: str, copies: np.ndarray, *, gradually: bool = False
) -> tuple[ClassFit, float]:
    """Fit the classifier, and estimate its objective above the minimum (`_excess`).

    The binary problems share the kernel matrix or the whitened columns. `copies` are the sample weights, at least 1: a
    row of weight 3 counts as three rows, of which one is left out. `gradually`: C grows from `FRACTIONS` of it, as the
    first step with a huge C can lead to margins of 1 that differ only in their last digits.
    """
    X, C, weights, dual = problem.X, problem.C, problem.weights, problem.is_dual
    assert C is not None
    every, n_classes = np.arange(X.shape[0]), max(2, problem.y.shape[1])
    columns = [(every, t) for t in arrays.to_numpy(problem.y).T]
    if n_classes > 2 and coding == "one-vs-one":
        columns = pair_rows(problem.labels, n_classes)
    support, points, whitening = problem.rows, problem.basis_points, None
    if dual:
        inputs = problem.gram(X, problem.kernel.basis_points(X, every))
    else:
        support, (inputs, whitening) = problem.support, whitened_columns(problem)
    fits, coef = [], np.zeros((inputs.shape[1], len(columns)))
    for number, (rows, t) in enumerate(columns):
        start = None
        for fraction in (*FRACTIONS, 1.0) if gradually else (1.0,):
            fit = solve_two_classes(inputs, rows, t, weights, fraction * C, LOSSES[loss], dual=dual, start=start)
            start = fit.decision
        fits.append(fit)
        coef[rows if dual else slice(None), number] = arrays.to_numpy(fit.coef)
    coef, intercept = arrays.like(coef, X), arrays.like(np.array([fit.intercept for fit in fits]), X)
    values = arrays.to_numpy(inputs @ coef + intercept[None, :]).copy()
    if whitening is None:
        coef, lost = arrays.take(coef, problem.rows), np.zeros(len(columns))
    else:
        coef, checked = whitening.expand(coef), np.arange(0, X.shape[0], max(1, X.shape[0] // CHECKED_ROWS))
        again = problem.kernel.dot(arrays.take(X, checked), points, coef) + intercept[None, :]
        lost = np.max(np.abs(arrays.to_numpy(again) - values[checked]), axis=0)
    units, leverage, shares = values.copy(), np.zeros(X.shape[0]), np.zeros(X.shape[0])
    excess, cost = 0.0, C * arrays.to_numpy(weights)
    for number, ((rows, t), fit) in enumerate(zip(columns, fits, strict=True)):
        part = None if whitening is None else inputs if len(rows) == X.shape[0] else arrays.take(inputs, rows)
        own = _excess(fit, t, values[rows, number], cost[rows], LOSSES[loss], part, float(lost[number]))
        excess = max(excess, own)
        f, loo, h = (arrays.to_numpy(a) for a in (fit.decision, fit.loo, fit.leverage))
        values[rows, number] = loo
        one = (f - loo) * (1.0 - h) / (copies[rows] - h + (copies[rows] == h))
        units[rows, number] = np.where(copies[rows] > 1.0, f - one, loo)
        leverage[rows] += h
        shares[rows] += 1.0
    loo, unit_loo, leverage = (arrays.like(part, X) for part in (values, units, leverage / shares))
    return ClassFit(problem.kernel, C, support, points, coef, intercept, loo, unit_loo, leverage), excess


@np.errstate(over="ignore", invalid="ignore")
def _excess(
    fit: Binary, t: np.ndarray, f: np.ndarray, cost: np.ndarray, loss: Loss, columns: Array | None, lost: float
) -> float:
    """The objective of a binary problem above its minimum, relative to its value: an estimate from the duality gap.

    `cost` is C times the weights, `f` are the decision values that follow from the coefficients, up to rounding errors
    `lost`. Any coefficients a_i of sum 0 give the lower bound sum_i cost_i dual(t_i a_i/cost_i) - 1/2 a'K a, those of
    the solution if `columns` is None. With whitened `columns` they are cost t slope, after a step of Newton's method if
    necessary, and theta should be columns'a.
    """
    if len(np.unique(t[cost > 0])) < 2:
        return 0.0  # the solution is a constant
    coef, margin = arrays.to_numpy(fit.coef), t * f
    share, losses = loss.slope(margin), loss.value(margin)
    value = float(cost @ losses)
    if columns is None:
        decision = arrays.to_numpy(fit.decision)
        share = t * coef / np.where(cost > 0, cost, 1.0)
        gap = abs(0.5 * float(coef @ (f - decision)) + value - float(cost @ loss.value(t * decision)))
        value += 0.5 * float(coef @ (f - fit.intercept))
    else:
        a, v = cost * t * share, cost * loss.curvature(margin)
        value, total = value + 0.5 * float(coef @ coef), float(v.sum()) or 1.0
        target, mean = arrays.to_numpy(arrays.like(np.stack([a, v / total]), columns) @ columns)
        step = target - coef - a.sum() * mean
        if 0.5 * (float(step @ step) + float(a.sum()) ** 2 / total) > SUSPECT * value:  # a loose bound: take a step
            part = arrays.to_numpy(columns) - mean
            step = np.linalg.solve((v[:, None] * part).T @ part + np.eye(len(step)), step)
            share = share - t * (part @ step + a.sum() / total) * loss.curvature(margin)
        gap = 0.5 * float(step @ step) + lost * float(np.abs(a).sum())
    gap += float(cost @ np.abs(losses + share * margin - loss.dual(share)))
    return min(gap / value, 1.0) if value > 0 and math.isfinite(gap) else 1.0


def whitened_columns(problem: Problem) -> tuple[Array, Whitening]:
    """The whitened kernel columns of the basis (rows, rank), and the whitening."""
    points = problem.basis_points
    whitening = whiten(problem.kernel, points, problem.among(problem.support, points))
    return arrays.whiten_rows(problem.columns(problem.X, whitening.points), whitening.lower), whitening
