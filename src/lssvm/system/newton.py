"""Losses other than squares by Newton's method: every step is a weighted least-squares system with working targets.

    min over f = sum_j k(x, x_j) alpha_j + b:   1/2 |f|^2 + C sum_i w_i loss(t_i f_i),   t_i = -1 or +1

At the minimum alpha_i = C w_i s_i with the slopes s = -d loss/df. A step solves the weighted LS-SVM with the weights
w v, v = d^2 loss/df^2, and the targets z = f + s/v. The last system also gives leave-one-out values: with the weights
and targets of the other rows held fixed, the decision value of row i without row i is

    f_(i) = f_i - C w_i s_i g_i/(1 - C w_i v_i g_i),   g_i = d f_i/d(C w_i s_i)

(Cawley & Talbot 2008). This is exact for the squared loss, and for the squared hinge if no row crosses the margin. Rows
beyond the margin have s = v = 0, and leaving them out changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import EPS, Array, NumericalError
from ..losses import Loss
from .solution import solve_factorised

State = tuple[Array, float, Array]  # coefficients, intercept and decision values

STEPS = 200  # at most; 6 to 10 are usual, the squared hinge with a huge C needs 100
DOUBLINGS = 5  # of a step
HALVINGS = 30  # of a step that does not lower the objective
SINGULAR = 16.0 * EPS  # per row: ridges below this share of the largest kernel value may be lost
ROUNDING = 1e-13  # relative error of the objective, which hides the gain of the last steps with one system
FAST = 0.3  # a step that is shorter than the last one by this factor is followed by another one with the same system


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
    """The targets -1 and +1 of some rows, their weights, C and the loss, and how accurately it is to be solved."""

    t: Array
    weights: Array
    C: float
    loss: Loss
    start: Array | None = None  # decision values from which Newton's method may start
    tolerance: float = 1e-10  # of the decision values, relative to the largest one

    def solve(self, inputs: Array, *, dual: bool = True, inverse: bool = False) -> Binary:
        """Solve with the kernel matrix (`dual`) or the whitened columns of the rows; a class may have no weight."""
        present = np.unique(arrays.to_numpy(self.t)[arrays.to_numpy(self.weights) > 0])
        if len(present) < 2:
            constant = float(present[0]) if len(present) else 0.0
            values = 0.0 * self.t + constant
            return Binary(arrays.zeros((inputs.shape[1],), inputs), constant, values, values, 0.0 * values)
        if dual:
            return self.solve_dual(inputs, inverse=inverse)
        if inputs.shape[0] >= inputs.shape[1]:
            return self.solve_primal(inputs)
        fit = self.solve_dual(arrays.gram(inputs.T))  # smaller than the primal system
        return replace(fit, coef=inputs.T @ fit.coef)

    def solve_dual(self, K: Array, *, inverse: bool = False) -> Binary:
        """Solve with all rows as the basis; K (l x l) is not modified. Rows of weight 0 have coefficient 0.

        With `inverse` the result has what `loo_gradient` needs. A C that is too large for a K that is singular to
        working accuracy is lowered to what rounding errors permit.
        """
        xp, n, C = arrays.namespace(K), K.shape[0], self.C

        def factorise(curvature: Array) -> tuple[np.ndarray, Array, Array]:
            """The rows with positive curvature, their ridges and the factor."""
            rows = np.flatnonzero(arrays.to_numpy(curvature) > 0)
            ridge = 1.0 / (C * (curvature if len(rows) == n else arrays.take(curvature, rows)))
            L = arrays.cholesky(arrays.add_diagonal(block_of(K, rows) + 0.0, ridge))
            if L is None:
                raise NumericalError(f"K + 1/C is not positive definite for C = {C:.3g}: lower C.")
            return rows, ridge, L

        def solve(system: tuple[np.ndarray, Array, Array], curvature: Array, z: Array) -> State:
            rows, ridge, L = system
            own = z if len(rows) == n else arrays.take(z, rows)
            both = solve_factorised(L, xp.stack([own, 0.0 * own + 1.0], axis=1))
            plain, ones = both[:, 0], both[:, 1]
            intercept = float(xp.sum(plain) / xp.sum(ones))
            coef = plain - intercept * ones
            if len(rows) == n:
                return coef, intercept, z - ridge * coef
            f = arrays.take(K.T, rows).T @ coef + intercept
            return arrays.put(arrays.zeros((n,), K), rows, coef), intercept, f

        try:
            (coef, intercept, f), (rows, ridge, L), _ = self._minimise(
                factorise, solve, lambda coef, f: float(coef @ f)
            )
        except NumericalError:
            largest = 1.0 / (SINGULAR * n * float(xp.max(xp.linalg.diagonal(K)) * xp.max(self.weights)))
            if largest >= C:
                raise
            return replace(self, C=largest).solve_dual(K, inverse=inverse)
        if not len(rows):  # no row matters, so that all may be left out
            return Binary(coef, intercept, f, f, 0.0 * f)
        lower = arrays.invert_lower(L)
        squares = xp.sum(lower * lower, axis=0)
        ones = lower.T @ xp.sum(lower, axis=1)
        total = xp.sum(ones)
        q = squares - ones * ones / total
        own = arrays.take(self._slopes(f), rows)
        values = arrays.take(f, rows) + own * (ridge - 1.0 / xp.maximum(q, EPS * squares))
        loo_values = arrays.put(f + 0.0, rows, values)
        leverage = arrays.put(arrays.zeros((n,), K), rows, 1.0 - ridge * q)
        P = arrays.gram_of_lower(lower) - ones[:, None] * ones[None, :] / total if inverse else None
        return Binary(coef, intercept, f, loo_values, leverage, P, ones / total)

    def loo_gradient(self, fit: Binary, K: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, float]:
        """The derivatives in K and log C of a function of the leave-one-out values, given its derivatives g in them.

        `fit` is the result of `solve_dual` with `inverse=True`, P. With lam = 1/(C w v), q = diag P, alpha = C w s and
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

    def solve_primal(self, phi: Array) -> Binary:
        """Solve on a smaller basis, with whitened columns phi (l x m): the norm of f is that of the coefficients."""
        xp, C = arrays.namespace(phi), self.C

        def factorise(curvature: Array) -> tuple[Array, Array, float]:
            """The factor of the centred columns, their weighted mean, and the sum of the weights."""
            total = float(xp.sum(curvature)) or 1.0
            mean = curvature @ phi / total
            rows = np.flatnonzero(arrays.to_numpy(curvature) > 0)
            part, v = (a if len(rows) == phi.shape[0] else arrays.take(a, rows) for a in (phi, curvature))
            G = arrays.gram(xp.sqrt(C * v)[:, None] * (part - mean[None, :]))
            L = arrays.cholesky(arrays.add_diagonal(G, 1.0))
            if L is None:
                raise NumericalError(f"The system for C = {C:.3g} is not positive definite: lower C.")
            return L, mean, total

        def solve(system: tuple[Array, Array, float], curvature: Array, z: Array) -> State:
            L, mean, total = system
            centre = float(curvature @ z) / total
            right = C * ((curvature * (z - centre)) @ phi - float(curvature @ (z - centre)) * mean)
            coef = solve_factorised(L, right[:, None])[:, 0]
            intercept = centre - float(mean @ coef)
            return coef, intercept, phi @ coef + intercept

        (coef, intercept, f), (L, mean, total), curvature = self._minimise(
            factorise, solve, lambda coef, _: float(coef @ coef)
        )
        reach = arrays.row_squares(arrays.whiten_rows(phi - mean[None, :], L)) + 1.0 / (C * total)
        leverage = C * curvature * reach
        loo_values = f - self._slopes(f) * reach / xp.clip(1.0 - leverage, EPS, None)
        return Binary(coef, intercept, f, loo_values, leverage)

    def _slopes(self, f: Array) -> Array:
        """C w s: the dual coefficients at the minimum."""
        return self.C * self.weights * self.t * self.loss.slope(self.t * f)

    def _minimise(
        self,
        factorise: Callable[[Array], Any],
        solve: Callable[[Any, Array, Array], State],
        square: Callable[[Array, Array], float],
    ) -> tuple[State, Any, Array]:
        """Newton's method; a step that does not lower the objective is halved. `square(coef, f - b)` is |f|^2.

        Returns the minimum with its factorised system and weighted curvature. While steps become shorter fast, they
        keep the curvature and so the system: more, but far cheaper steps. Far from the minimum the logistic loss is
        exponential, and a step adds about 1 to the margins: there it is doubled.
        """
        xp, loss, t, weights = arrays.namespace(self.t), self.loss, self.t, self.weights
        f = 0.0 * t if self.start is None else self.start
        state, value, keeps, change = None, math.inf, False, math.inf
        known: list[Any] = [None, None]  # the last curvature, and its system

        def system(curvature: Array) -> Any:
            if known[0] is None or not bool(xp.all(known[0] == curvature)):
                known[:] = curvature, factorise(curvature)
            return known[1]

        def objective(state: State) -> float:
            coef, intercept, f = state
            return 0.5 * square(coef, f - intercept) + self.C * float(weights @ loss.value(t * f))

        for _ in range(STEPS):
            if not keeps:
                v = loss.curvature(t * f)
            curvature = weights * v
            if not float(xp.max(curvature)) > 0.0:  # all rows are beyond the margin
                if state is not None:
                    break
                f, v = 0.0 * t, loss.curvature(0.0 * t)
                curvature = weights * v
            z = f + t * loss.slope(t * f) / xp.where(v > 0, v, 1.0 + 0.0 * v)
            new: Any = solve(system(curvature), curvature, z)
            lowered = objective(new)
            if state is not None and lowered > value * (1.0 + ROUNDING * keeps):
                new, lowered = _scaled_step(state, new, lowered, objective, 0.5, HALVINGS, objective(state))
                if lowered > value:
                    break  # rounding errors dominate
            elif loss.is_smooth and not (loss.is_quadratic or keeps or (state is None and self.start is not None)):
                old: Any = state or tuple(0.0 * part for part in new)
                new, lowered = _scaled_step(old, new, lowered, objective, 2.0, DOUBLINGS)
            last, change = change, float(xp.max(xp.abs(new[2] - f)))
            keeps = loss.is_smooth and change < FAST * last < math.inf
            state, value, f = new, lowered, new[2]
            if loss.is_quadratic or change <= self.tolerance * (1.0 + float(xp.max(xp.abs(f)))):
                break
        assert state is not None
        curvature = weights * loss.curvature(t * state[2])
        return state, system(curvature), curvature


def _scaled_step(
    old: State,
    new: State,
    value: float,
    objective: Callable[[State], float],
    factor: float,
    most: int,
    enough: float = math.inf,
) -> tuple[State, float]:
    """The best of a step and its multiples by powers of `factor`, up to the first that is worse than its predecessor.

    The value of the predecessor must also be at most `enough`.
    """
    for _ in range(most):
        tried: Any = tuple((1.0 - factor) * start + factor * end for start, end in zip(old, new, strict=True))
        lowered = objective(tried)
        if value <= min(lowered, enough):
            break
        new, value = tried, lowered
    return new, value


def block_of(K: Array, rows: np.ndarray) -> Array:
    """The given rows and columns of a symmetric matrix."""
    if len(rows) == K.shape[0]:
        return K
    return K[np.ix_(rows, rows)] if arrays.is_numpy(K) else arrays.take(arrays.take(K, rows).T, rows).T
