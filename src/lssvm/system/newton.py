"""Losses other than squares by Newton's method: every step is a weighted least-squares system with working targets.

    min over f = sum_j k(x, x_j) alpha_j + b:   1/2 |f|^2 + C sum_i w_i loss(t_i f_i),   t_i = -1 or +1

At the minimum alpha_i = C w_i s_i with the slopes s = -d loss/df. A step solves the weighted LS-SVM with the weights
w v, v = d^2 loss/df^2, and the targets z = f + s/v. The last system also gives leave-one-out values: with the weights
and targets of the other rows held fixed, the decision value of row i without row i is

    f_(i) = f_i - C w_i s_i g_i/(1 - C w_i v_i g_i),   g_i = d f_i/d(C w_i s_i)

(Cawley & Talbot 2008). This is exact for the squared loss, and for the squared hinge if no row crosses the margin. Rows
beyond the margin have s = v = 0, and leaving them out changes nothing. A loss with targets of its own, such as that of
counts, is a function of f alone: t = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import EPS, Array, NumericalError
from ..losses import Loss
from .solution import solve_factorised

State = tuple[Array, float, Array]  # coefficients, intercept and decision values

STEPS = 200  # There are at most this many steps: 6 to 10 are usual, and the squared hinge with a huge C needs 100.
DOUBLINGS = 5  # A step is doubled at most this often.
HALVINGS = 30  # A step that does not lower the objective is halved at most this often.
SINGULAR = 16.0 * EPS  # Below this share of the largest kernel value, per row, a ridge may be lost by rounding.
ROUNDING = 1e-13  # This relative error of the objective hides the gain of the last steps with one system.
FAST = 0.3  # A step that is shorter than the last one by this factor is followed by one with the same system.


@dataclass(frozen=True)
class Binary:
    """The solution of a binary problem."""

    coef: Array  # (m,)  of the kernel columns, or of the whitened ones
    intercept: float
    decision: Array  # (l,)
    loo: Array  # (l,)  leave-one-out decision values
    leverage: Array  # (l,)  of the last weighted system
    inverse: Array = None  # (l, l)  P of the rows with v > 0, if requested and there are any: alpha = P z
    mean: Array = None  # (l,)  A^-1 1/(1'A^-1 1) of these rows


@dataclass(frozen=True)
class BinaryProblem:
    """The targets -1 and +1 of some rows, their weights, C and the loss, and how accurately it is to be solved.

    The targets are 1 if the loss has its own.
    """

    t: Array
    weights: Array
    C: float
    loss: Loss
    start: Array | None = None  # decision values from which Newton's method may start
    tolerance: float = 1e-10  # of the decision values, relative to the largest one

    def solve(self, inputs: Array, *, dual: bool = True, inverse: bool = False) -> Binary:
        """Solve with the kernel matrix (`dual`) or the whitened columns of the rows; a class may have no weight.

        Rows of weight 0 have coefficient 0. With `inverse` the result has what `loo_gradient` needs. A C that is too
        large for a kernel matrix that is singular to working accuracy is lowered to what rounding errors permit.
        """
        present = np.unique(arrays.to_numpy(self.t)[arrays.to_numpy(self.weights) > 0])
        if self.loss.is_of_classes and len(present) < 2:
            constant = float(present[0]) if len(present) else 0.0
            values = 0.0 * self.t + constant
            return Binary(arrays.zeros((inputs.shape[1],), inputs), constant, values, values, 0.0 * values)
        if not dual and inputs.shape[0] < inputs.shape[1]:  # the dual system is smaller
            fit = self.solve(arrays.gram(inputs.T))
            return replace(fit, coef=inputs.T @ fit.coef)
        try:
            state, system = self._minimise(inputs, dual)
        except NumericalError:
            xp = arrays.namespace(inputs)
            largest = float(xp.max(xp.linalg.diagonal(inputs)) * xp.max(self.weights))
            largest = 1.0 / (SINGULAR * inputs.shape[0] * largest)
            if not dual or largest >= self.C:
                raise
            return replace(self, C=largest).solve(inputs, inverse=inverse)
        slopes = self.C * self.weights * self.t * self.loss.slope(self.t * state[2])  # coefficients at the minimum
        return system.fit(state, slopes, inverse)

    def _minimise(self, inputs: Array, dual: bool) -> tuple[State, Any]:
        """Return the minimum by Newton's method, and its weighted system; a step that raises the objective is halved.

        While steps become shorter fast, they keep the curvature and so the system: more, but far cheaper steps. Far
        from the minimum the logistic loss is exponential, and a step adds about 1 to the margins: there it is doubled.
        """
        xp, loss, t, weights = arrays.namespace(self.t), self.loss, self.t, self.weights
        factorise = _KernelSystem if dual else _ColumnSystem
        f = 0.0 * t if self.start is None else self.start
        state, value, keeps, change = None, math.inf, False, math.inf
        system: Any = None

        def objective(state: State) -> float:
            coef, intercept, f = state
            square = float(coef @ (f - intercept if dual else coef))
            return 0.5 * square + self.C * float(weights @ loss.value(t * f))

        if not loss.is_of_classes:  # exponentials: the first step may be far too long
            state = arrays.zeros((inputs.shape[1],), inputs), 0.0, f
            value = objective(state)
        for _ in range(STEPS):
            if not keeps:
                v = loss.curvature(t * f)
            if not float(xp.max(weights * v)) > 0.0:  # all rows are beyond the margin
                if state is not None:
                    break
                f, v = 0.0 * t, loss.curvature(0.0 * t)
            if system is None or not bool(xp.all(system.curvature == weights * v)):
                system = factorise(inputs, self.C, weights * v)
            new: Any = system.solve(f + t * loss.slope(t * f) / xp.where(v > 0, v, 1.0 + 0.0 * v))
            lowered = objective(new)
            worse = state is not None and lowered > value * (1.0 + ROUNDING * keeps)
            far = loss.is_smooth and not (loss.is_quadratic or keeps or (state is None and self.start is not None))
            factor, most = (0.5, HALVINGS) if worse else (2.0, DOUBLINGS * far)
            old: Any = state or tuple(0.0 * part for part in new)
            for _ in range(most):  # up to the first multiple of the step that is worse than its predecessor
                tried: Any = tuple((1.0 - factor) * start + factor * end for start, end in zip(old, new, strict=True))
                tried_value = objective(tried)
                if lowered <= min(tried_value, value):
                    break
                new, lowered = tried, tried_value
            if worse and lowered > value:
                break  # rounding errors dominate
            last, change = change, float(xp.max(xp.abs(new[2] - f)))
            keeps = loss.is_smooth and change < FAST * last < math.inf
            state, value, f = new, lowered, new[2]
            if loss.is_quadratic or change <= self.tolerance * (1.0 + float(xp.max(xp.abs(f)))):
                break
        assert state is not None
        curvature = weights * loss.curvature(t * state[2])
        return state, system if bool(xp.all(system.curvature == curvature)) else factorise(inputs, self.C, curvature)

    def loo_gradient(self, fit: Binary, K: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the derivatives in K and log C of a function of the leave-one-out values, from its derivatives g.

        `fit` is the result of `solve` with `inverse=True`, P. With lam = 1/(C w v), q = diag P, alpha = C w s and
        f_(i) = f_i + alpha_i (lam_i - 1/q_i), everything follows from d alpha = P (lam alpha dlog C - dK alpha),
        dq = -diag(P (dK + dlam) P), df = lam (alpha dlog C - d alpha) and dlam = -lam (dlog C + dlog v),
        dlog v = third df. Rows without curvature depend on f only.
        """
        if fit.inverse is None:  # a constant, or no row with curvature
            return 0.0 * K, 0.0
        margin = self.t * fit.decision
        v = self.weights * self.loss.curvature(margin)
        rows, others = np.flatnonzero(v > 0), np.flatnonzero(~(v > 0))
        P, alpha, own, far = fit.inverse, fit.coef[rows], g[rows], g[others]
        lam, q = 1.0 / (self.C * v[rows]), fit.inverse.diagonal()
        third = (self.t * self.loss.third(margin))[rows]
        middle = arrays.matmul(P * (own * alpha / q**2)[None, :], P)
        in_lam = own * alpha - middle.diagonal()
        in_f = own - in_lam * lam * third
        # f of the other rows is k'alpha + b, where the intercept b = mean'(z - K alpha - lam alpha) of these rows
        in_alpha = own * (lam - 1.0 / q) - in_f * lam + far @ K[np.ix_(others, rows)]
        moves = P @ in_alpha + far.sum() * fit.mean
        in_C = float(np.sum(in_f * lam * alpha) - np.sum(in_lam * lam) + np.sum(moves * lam * alpha))
        change, coef = np.zeros(len(K)), np.zeros(len(K))
        change[rows], change[others], coef[rows] = moves, -far, alpha
        G = -0.5 * (change[:, None] * coef[None, :] + coef[:, None] * change[None, :])
        G[np.ix_(rows, rows)] -= middle
        return G, in_C


class _KernelSystem:
    """The weighted least-squares system of the rows with positive curvature, on their kernel matrix."""

    def __init__(self, K: Array, C: float, curvature: Array) -> None:
        self.K, self.curvature = K, curvature
        self.rows = np.flatnonzero(arrays.to_numpy(curvature) > 0)
        self.ridge = 1.0 / (C * arrays.take(curvature, self.rows))
        self.L = arrays.cholesky(arrays.add_diagonal(block_of(K, self.rows) + 0.0, self.ridge))
        if self.L is None:
            raise NumericalError(f"K + 1/C is not positive definite for C = {C:.3g}: lower C.")

    def solve(self, z: Array) -> State:
        """Return the solution for the working targets z."""
        xp, own = arrays.namespace(z), arrays.take(z, self.rows)
        both = solve_factorised(self.L, xp.stack([own, 0.0 * own + 1.0], axis=1))
        plain, ones = both[:, 0], both[:, 1]
        intercept = float(xp.sum(plain) / xp.sum(ones))
        coef = plain - intercept * ones
        if len(self.rows) == z.shape[0]:
            return coef, intercept, z - self.ridge * coef
        f = arrays.take(self.K.T, self.rows).T @ coef + intercept
        return arrays.put(0.0 * z, self.rows, coef), intercept, f

    def fit(self, state: State, slopes: Array, inverse: bool) -> Binary:
        """Return the minimum with its leave-one-out values; `slopes` are the dual coefficients that it should have."""
        coef, intercept, f = state
        xp, rows, ridge = arrays.namespace(f), self.rows, self.ridge
        if not len(rows):  # no row matters, so that all may be left out
            return Binary(coef, intercept, f, f, 0.0 * f)
        lower = arrays.invert_lower(self.L)
        squares = xp.sum(lower * lower, axis=0)
        ones = lower.T @ xp.sum(lower, axis=1)
        total = xp.sum(ones)
        q = squares - ones * ones / total
        values = arrays.take(f, rows) + arrays.take(slopes, rows) * (ridge - 1.0 / xp.maximum(q, EPS * squares))
        loo_values = arrays.put(f + 0.0, rows, values)
        leverage = arrays.put(0.0 * f, rows, 1.0 - ridge * q)
        P = arrays.gram_of_lower(lower) - ones[:, None] * ones[None, :] / total if inverse else None
        return Binary(coef, intercept, f, loo_values, leverage, P, ones / total)


class _ColumnSystem:
    """The weighted least-squares system on a smaller basis, with whitened columns: |f| is that of the coefficients."""

    def __init__(self, phi: Array, C: float, curvature: Array) -> None:
        xp, rows = arrays.namespace(phi), np.flatnonzero(arrays.to_numpy(curvature) > 0)
        self.phi, self.C, self.curvature = phi, C, curvature
        self.total = float(xp.sum(curvature)) or 1.0
        self.mean = curvature @ phi / self.total
        part, v = (a if len(rows) == phi.shape[0] else arrays.take(a, rows) for a in (phi, curvature))
        G = arrays.gram(xp.sqrt(C * v)[:, None] * (part - self.mean[None, :]))
        self.L = arrays.cholesky(arrays.add_diagonal(G, 1.0))
        if self.L is None:
            raise NumericalError(f"The system for C = {C:.3g} is not positive definite: lower C.")

    def solve(self, z: Array) -> State:
        """Return the solution for the working targets z."""
        centre = float(self.curvature @ z) / self.total
        moved = self.curvature * (z - centre)
        right = self.C * (moved @ self.phi - float(arrays.namespace(z).sum(moved)) * self.mean)
        coef = solve_factorised(self.L, right[:, None])[:, 0]
        intercept = centre - float(self.mean @ coef)
        return coef, intercept, self.phi @ coef + intercept

    def fit(self, state: State, slopes: Array, inverse: bool) -> Binary:
        """Return the minimum with its leave-one-out values, as in `_KernelSystem`; there is no `inverse`."""
        coef, intercept, f = state
        centred = self.phi - self.mean[None, :]
        reach = arrays.row_squares(arrays.whiten_rows(centred, self.L)) + 1.0 / (self.C * self.total)
        leverage = self.C * self.curvature * reach
        loo_values = f - slopes * reach / arrays.namespace(f).clip(1.0 - leverage, EPS, None)
        return Binary(coef, intercept, f, loo_values, leverage)


def block_of(K: Array, rows: np.ndarray) -> Array:
    """Return the given rows and columns of a symmetric matrix."""
    if len(rows) == K.shape[0]:
        return K
    return K[np.ix_(rows, rows)] if arrays.is_numpy(K) else arrays.take(arrays.take(K, rows).T, rows).T
