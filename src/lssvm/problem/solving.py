"""Fits that are repeated, with more care where digits are lost or with order constraints, and classifiers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import arrays
from ..arrays import EPS, Array
from ..coding import pair_rows
from ..kernels import Kernel
from ..losses import LOSSES, Loss
from ..system import Binary, BinaryProblem, block_of
from .problem import ITERATIVE_ROWS, Problem, check_memory
from .record import Fit
from .whitening import LOST_DIGITS, TINY, independent_rows, lacks_dimensions

CHECKED_ROWS = 50  # A user's own kernel is checked on this many rows before a fit, and predictions after every fit.
FINITE_DIGITS = 1e-6  # Above this rounding error, the known spanning points of a kernel are used.
SUSPECT = 1e-8  # If the relative objective is this far above its minimum, the problem is solved with more care.
FRACTIONS = (1e-8, 1e-6, 1e-4, 1e-2)
NOT_CONVERGED = 1e-6  # If it is this far above its minimum, a warning is issued.

# Order constraints, in standard deviations of the targets
FALL = 1e-9  # A larger fall along a line becomes a constraint.
LARGEST_FALL = 1e-7  # No larger one is left on the lines that are checked last, which pass others at a distance.
SHORT = 1e-4  # Slopes over shorter steps, relative to the longest one, may be rounding errors.
LINES, PLACES = 64, 32  # of a sample: lines through rows, as many through other points, and their places
DENSE_PLACES = 4000  # of the only line, if no other column varies
PASSED = 8  # So many samples per column pass in the end, with 512 lines through rows: all rows, if there are fewer.
SAMPLES, ROUNDS, NEW = 400, 100, 100  # at most: samples, rounds of each, and new constraints of a round


def refit_stably(problem: Problem, fit: Fit, retuned: Callable[[Problem], Problem]) -> tuple[Problem, Fit]:
    """Return the fit itself or, if a dense fit has lost digits, one of the same functions on a basis that keeps them.

    The coefficients of a dense fit are C times residuals: with a kernel of finite rank (linear, polynomial) and inputs
    far from 0, or with a large C, their sums cancel. The coefficients of the kernel's own spanning points, or of
    linearly independent rows, do not. The fit has the rounding error that is left.
    """
    lost = lost_digits(problem, fit)
    if not lost <= FINITE_DIGITS ** (1 if problem.loss == "squared" else 2):  # Newton's method sees the objective only
        smaller, least = stable_basis(problem, only_known=lost <= LOST_DIGITS)
        if smaller is not None:
            smaller = retuned(smaller)
            found = smaller.solve()
            left = max(lost_digits(smaller, found), least)
            if left < lost:
                problem, fit, lost = smaller, found, left
    return problem, replace(fit, rounding=lost)


def stable_basis(problem: Problem, *, only_known: bool = False) -> tuple[Problem | None, float]:
    """Return a dense problem on fewer points that span the same functions, if there are any, and what is still lost.

    With `only_known` these are the kernel's own spanning points, without a search among the rows.
    """
    kernel, rows, features = problem.kernel, len(problem.rows), problem.X.shape[1]
    if problem.support is not None or problem.points is not None or problem.reduced:  # a step chose the basis
        return None, 0.0
    points = kernel.spanning_points(features) if features < rows else None  # there is at least one point per column
    if points is not None and len(points) < rows:
        return problem.with_basis(points=arrays.like(points, problem.X)), 0.0
    if only_known or kernel.is_bounded or kernel.is_precomputed or rows > ITERATIVE_ROWS:  # above, memory is short
        return None, 0.0
    X = arrays.take(problem.X, problem.rows)
    pivots = independent_rows(kernel.evaluate(X, X))
    if len(pivots) == rows:
        return None, 0.0
    return problem.with_basis(problem.rows[pivots]), float(lacks_dimensions(kernel, X, len(pivots)))


def lost_digits(problem: Problem, fit: Fit) -> float:
    """Return the rounding error of a fit relative to the spread of the targets, as estimated or seen in predictions.

    Predictions of some training rows are compared with the targets minus the residuals of the solution. That shows
    errors of coefficients that were not solved for here, too. Fits of noise-free targets, which have the largest C,
    have about 1e-7.
    """
    largest = float(arrays.namespace(fit.weights).max(fit.weights))
    plain = problem.is_dual and problem.ties is None and fit.kernel.is_bounded
    if plain and EPS * len(problem.rows) * fit.C * largest <= LOST_DIGITS:
        return fit.rounding  # coefficients are C times residuals, small enough for their sums to keep the digits
    rows = problem.rows[:: max(1, len(problem.rows) // CHECKED_ROWS)]
    f = arrays.to_numpy(fit.predict(arrays.take(problem.X, rows)))
    y, residuals = arrays.to_numpy(arrays.take(problem.y, rows)), arrays.to_numpy(arrays.take(fit.residuals, rows))
    gap, xp = float(np.max(np.abs(y - residuals - f))), arrays.namespace(problem.y)
    gap -= 100.0 * EPS * float(np.max(np.abs(y)))  # rounding errors of targets far from 0
    spread = float(xp.max(xp.abs(problem.y - xp.mean(problem.y, axis=0)[None, :])))  # squares may underflow
    return max(gap / (spread or 1e-300) if gap > 0.0 else 0.0, fit.rounding)


def warn_of_rounding(lost: float, C: float) -> None:
    """Warn if the error relative to the spread of the targets is too large."""
    if not lost <= LOST_DIGITS:
        what = f"predictions or leave-one-out residuals may be off by about {lost:.0e} times the spread of the targets"
        why = f"The kernel values are too large or too similar for C = {C:.3g} and these weights"
        arrays.warn(f"Rounding errors: {what}. {why}: subtract the means of the columns and scale them, or lower C.")


# Order constraints ----------------------------------------------------------------------------------------------------
def fit_monotonic(problem: Problem, fit: Fit) -> tuple[Problem, Fit]:
    """Return the problem and the fit that is monotonic in the columns with a sign, from the fit without constraints.

    It is the minimum of the problem subject to f(z) >= f(x) for pairs x, z on lines along these columns. In the
    orthonormal coordinates u of the primal system, it is the point of a convex cone that is nearest to the solution
    without constraints, by non-negative least squares for the multipliers. Pairs are added where f falls, until it does
    not fall on new lines. f is the same at both points of the pairs with positive multipliers, the `ties` of the
    result. With these held fixed it is linear in the targets, so that leave-one-out needs no refits.
    """
    if problem.monotonic is None:
        return problem, fit
    from scipy.optimize import nnls  # which predictions do not need

    if problem.reduced or problem.coefficients is not None or problem.is_iterative():
        what = "a basis of so many rows, given coefficients or columns of the KKT system"
        raise ValueError(f"monotonic_cst does not support {what}: write e.g. steps=[lssvm.sparsify.Random(1000)].")
    X, points, spread = problem.X[problem.rows_by_content], problem.basis_points, float(np.std(problem.y[problem.rows]))
    columns = np.flatnonzero(problem.monotonic * np.ptp(X, axis=0))
    if not len(columns) or spread == 0.0:
        return problem, fit
    if problem.is_dual:
        check_memory(len(X), 4, X)
    factor: Any = problem.replace(weights=fit.weights, C=fit.C, robust=None).factorise_primal(fit.C)
    primal, whitening = factor.system, factor.whitening
    steps, start = whitening.steps(primal.R), primal.projected()[:, 0]
    u, size, normals = start, float(np.linalg.norm(start)), np.empty((0, len(start)))
    ties, draw, passed = np.empty((0, 2, X.shape[1])), np.random.RandomState(0), 0
    flattest = dict.fromkeys(columns, X[:0])
    for number in range(SAMPLES):
        column, first = columns[number % len(columns)], LINES * (number // len(columns))
        near = np.vstack([ties.mean(axis=1), flattest[column]])
        lines = _lines(X, column, problem.inputs, near, draw, first)[:, :: problem.monotonic[column]]
        K, worst = problem.kernel.evaluate(lines.reshape(-1, X.shape[1]), points), 0.0
        for _ in range(ROUNDS):
            coef = whitening.expand(arrays.solve_lower(primal.R.T, u[:, None], transpose=True))
            f = (K @ coef).reshape(lines.shape[:2])
            worst = worst or float(np.max(np.maximum.accumulate(f, axis=1) - f))  # that of the first round
            falls = np.pad(np.diff(f, axis=1) < 0.0, ((0, 0), (1, 1)))
            line, top = np.nonzero(falls[:, 1:] & ~falls[:, :-1])
            bottom = np.nonzero(falls[:, :-1] & ~falls[:, 1:])[1]
            depth = f[line, top] - f[line, bottom]
            new = np.argsort(-depth, kind="stable")[:NEW]
            new = new[depth[new] > FALL * spread + 100.0 * EPS * np.abs(f).max()]
            if not len(new):
                break
            pairs = np.stack([lines[line[new], top[new]], lines[line[new], bottom[new]]], axis=1)
            across = whitening.columns(steps, pairs[:, 1]) - whitening.columns(steps, pairs[:, 0])
            normals = np.vstack([normals, across / np.linalg.norm(across, axis=1)[:, None]])
            ties = np.concatenate([ties, pairs])
            multipliers = nnls(normals.T, -start / size, maxiter=30 * len(normals))[0]
            u = start + size * (multipliers @ normals)
            normals, ties = normals[multipliers > 0.0], ties[multipliers > 0.0]
        step = np.abs(np.diff(lines[:, :, column], axis=1))
        slope = np.diff(f, axis=1) / (step + SHORT * step.max())
        line = np.argsort(slope.min(axis=1), kind="stable")[:LINES]
        flattest[column] = lines[line, np.argmin(slope[line], axis=1)]
        passed = passed + 1 if worst <= LARGEST_FALL * spread else 0
        if passed >= len(columns) * (PASSED if len(lines) > 1 else 1):
            break
    else:
        what = "along some lines predictions still change the wrong way by more than 1e-7 standard deviations of y"
        arrays.warn(f"monotonic_cst: {what}: constrain fewer columns, or use a smoother kernel.", ConvergenceWarning)
    if not len(ties):
        return problem, fit
    problem = problem.replace(ties=(ties[:, 0], ties[:, 1]))
    fit = problem.replace(weights=fit.weights, C=fit.C, robust=None).solve()
    return problem, replace(fit, rounding=lost_digits(problem, fit))


def _lines(X: np.ndarray, column: int, inputs: np.ndarray, near: np.ndarray, draw: Any, first: int) -> np.ndarray:
    """Return points (lines, places, columns) along a column, sorted by it, over the range of the rows X.

    Lines go through rows, from the `first` one on, through other points of the range and past the points `near`.
    `inputs` are the numbers of the inputs that columns encode; those of several columns (categories, missing cells) are
    those of a row.
    """
    low, span, own = X.min(axis=0), np.ptp(X, axis=0) + TINY, inputs == inputs[column]
    base, share = X[:1], np.append(np.linspace(0.0, 1.0, DENSE_PLACES), ((X - low) / span)[:, column])[None]
    if (span[~own] > TINY).any():
        free, size = np.flatnonzero(np.bincount(inputs)[inputs] == 1), (2 * LINES, PLACES)
        base = X[np.append(np.arange(first, first + LINES), draw.randint(len(X), size=LINES)) % len(X)]
        for other in free:  # the ends of the range are likelier
            base[LINES:, other] = np.quantile(X[:, other], np.sin(0.5 * np.pi * draw.uniform(size=LINES)) ** 2)
        share = (np.arange(PLACES) + draw.uniform(size=size)) / PLACES
        if len(near):
            near = near[draw.randint(len(near), size=len(base))]
            step = draw.choice([-1.0, 1.0], size) * 10.0 ** draw.uniform(-3.0, 0.0, size)
            share = np.vstack([share, (near[:, [column]] - low[column]) / span[column] + step])
            move = 10.0 ** draw.uniform(-4.0, -0.5, (len(near), 1)) * draw.normal(size=(len(near), len(free)))
            near[:, free] = np.clip(near[:, free] + move * span[free], low[free], (low + span)[free])
            base = np.vstack([base, near])
    share = np.sort(np.clip(np.pad(share, ((0, 0), (1, 1)), constant_values=(0.0, 1.0)), 0.0, 1.0), axis=1)
    lines = np.repeat(base[:, None], share.shape[1], axis=1)
    lines[:, :, own] = 0.0  # no line is that of missing cells
    lines[:, :, column] = low[column] + span[column] * share
    return lines


# Classifiers ----------------------------------------------------------------------------------------------------------
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
        what = f"The objective of the {loss} loss may be above its minimum by about {excess:.0e} of its value"
        why = f"the kernel values are too large or too similar for C = {fit.C:.3g} and these weights"
        remedy = "Scale the columns, or lower C."
        arrays.warn(f"{what}, because of rounding errors: {why}. {remedy}", ConvergenceWarning)
    return fit


def _solve_columns(
    problem: Problem, loss: str, coding: str, copies: np.ndarray, *, gradually: bool = False
) -> tuple[ClassFit, float]:
    """Fit the classifier, and estimate its objective above the minimum (`_excess`).

    The binary problems share the kernel matrix or the whitened columns. `copies` are the sample weights, at least 1: a
    row of weight 3 counts as three rows, of which one is left out. With `gradually`, C grows from
    small `FRACTIONS` of its value, as the first step with a huge C can lead to margins of 1 that differ only in their
    last digits.
    """
    X, C, weights, dual = problem.X, problem.C, problem.weights, problem.is_dual
    assert C is not None
    every, n_classes = np.arange(X.shape[0]), max(2, problem.y.shape[1])
    columns = [(every, t) for t in arrays.to_numpy(problem.y).T]
    if n_classes > 2 and coding == "one-vs-one":
        columns = pair_rows(problem.labels, n_classes)
    support, points = problem.basis_rows, problem.basis_points
    inputs, whitening = problem.binary_inputs()
    fits, coef = [], np.zeros((inputs.shape[1], len(columns)))
    take = lambda a, rows: a if len(rows) == len(every) else arrays.take(a, rows)  # noqa: E731
    for number, (rows, t) in enumerate(columns):
        part, own, start = block_of(inputs, rows) if dual else take(inputs, rows), take(weights, rows), None
        for fraction in (*FRACTIONS, 1.0) if gradually else (1.0,):
            binary = BinaryProblem(arrays.like(t, X), own, fraction * C, LOSSES[loss], start)
            fit = binary.solve(part, dual=dual)
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
        part = None if whitening is None else take(inputs, rows)
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
    """Return the objective of a binary problem above its minimum, relative to its value, from the duality gap.

    `cost` is C times the weights, `f` are the decision values that follow from the coefficients, up to rounding errors
    `lost`. Any coefficients a_i of sum 0 give the lower bound sum_i cost_i dual(t_i a_i/cost_i) - 1/2 a'K a, those of
    the solution if `columns` is None. With whitened `columns` they are cost t slope, after a step of Newton's method if
    necessary, and the coefficients should be columns'a.
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
