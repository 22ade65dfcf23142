"""Many binary problems at once, as padded stacks of systems; only what a search needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from ..arrays import NumericalError
from ..losses import LOSSES

PADDING = 1.3  # largest ratio of problem sizes within a stack
STEPS = 15  # at most, of Newton's method in a search
LOST = 1e-12  # share of a diagonal element below which rounding errors are all that is left
FAR = 40.0  # decision values of the logistic loss are clipped to +-FAR


@dataclass
class _Stack:
    numbers: np.ndarray  # (g,)  of the problems
    rows: np.ndarray  # (g, m)
    inside: np.ndarray  # (g, m)  False: padding
    t: np.ndarray  # (g, m)
    weights: np.ndarray  # (g, m)


class Stacks:
    """Binary problems, given by their rows and targets, and the weights of all rows."""

    def __init__(self, columns: list[tuple[np.ndarray, np.ndarray]], weights: np.ndarray) -> None:
        self.columns = columns
        sizes = np.array([len(rows) for rows, _ in columns])
        order, self.stacks = np.argsort(sizes, kind="stable"), []
        while len(order):
            count = int(np.sum(sizes[order] <= max(24, PADDING * sizes[order[0]])))
            chosen, order = order[:count], order[count:]
            shape = (len(chosen), int(sizes[chosen].max()))
            stack = _Stack(chosen, np.zeros(shape, int), np.zeros(shape, bool), np.zeros(shape), np.ones(shape))
            for place, number in enumerate(chosen):
                rows, t = columns[number]
                stack.rows[place, : len(rows)], stack.t[place, : len(rows)] = rows, t
                stack.inside[place, : len(rows)], stack.weights[place, : len(rows)] = weights[rows] > 0, weights[rows]
            self.stacks.append(stack)

    def solve(self, K: np.ndarray, C: float, loss: str, start: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Coefficients, intercepts, decision values and leave-one-out values: (rows, problems), (problems,), ..."""
        coef, decision, loo = (np.zeros((len(K), len(self.columns))) for _ in range(3))
        intercept = np.zeros(len(self.columns))
        for stack in self.stacks:
            blocks = K[stack.rows[:, :, None], stack.rows[:, None, :]]
            first = None if start is None else start[stack.rows, stack.numbers[:, None]]
            a, b, f, without = _newton(blocks, stack, C, loss, first)
            intercept[stack.numbers] = b
            for place, number in enumerate(stack.numbers):
                rows = self.columns[number][0]
                for out, values in ((coef, a), (decision, f), (loo, without)):
                    out[rows, number] = values[place, : len(rows)]
        return coef, intercept, decision, loo

    def squares(self, K: np.ndarray, C: float) -> tuple[np.ndarray, list[tuple[np.ndarray, ...]]]:
        """Leave-one-out values of the squared loss (rows, problems), and the intermediate results for `gradient`."""
        loo = np.full((len(K), len(self.columns)), np.nan)
        kept: list[tuple[np.ndarray, ...]] = []
        for stack in self.stacks:
            blocks = K[stack.rows[:, :, None], stack.rows[:, None, :]]
            P, a, q = _squares(blocks, stack, C)
            values = stack.t - a / q
            loo[stack.rows[stack.inside], np.broadcast_to(stack.numbers[:, None], q.shape)[stack.inside]] = values[
                stack.inside
            ]
            kept.append((P, a, q))
        return loo, kept

    def gradient(self, kept: list[tuple[np.ndarray, ...]], in_values: np.ndarray, C: float) -> tuple[np.ndarray, float]:
        """The derivatives in K and log C, from those in the leave-one-out values; see `system.newton.loo_gradient`."""
        G, in_C = np.zeros((len(in_values), len(in_values))), 0.0
        for stack, (P, a, q) in zip(self.stacks, kept, strict=True):
            g = np.where(stack.inside, in_values[stack.rows, stack.numbers[:, None]], 0.0)
            u, w = -g / q, g * a / q**2
            half = (P @ u[:, :, None]) * a[:, None, :]
            own = -0.5 * (half + half.transpose(0, 2, 1)) - (P * w[:, None, :]) @ P
            diagonal = np.einsum("gii->gi", own)
            in_C -= float(np.sum(np.where(stack.inside, diagonal / (C * stack.weights), 0.0)))
            for place, number in enumerate(stack.numbers):
                rows = self.columns[number][0]
                G[np.ix_(rows, rows)] += own[place, : len(rows), : len(rows)]
        return G, in_C


def _bordered(A: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The inverse of every A (overwritten), its row sums over the active rows, and their sum."""
    for part in A:  # LAPACK sees the transposed matrix, which is the same by symmetry
        factor, info = lapack.dpotrf(part.T, lower=0, clean=0, overwrite_a=1)
        if info:
            raise NumericalError("A system is not positive definite.")
        lapack.dpotri(factor, lower=0, overwrite_c=1)
    inverse = np.tril(A)
    inverse += np.tril(A, -1).transpose(0, 2, 1)
    ones = np.where(active, np.einsum("gij,gj->gi", inverse, active.astype(float)), 0.0)
    return inverse, ones, np.maximum(ones.sum(axis=1, keepdims=True), 1e-300)


def _solved(A: np.ndarray, z: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A^-1 z and A^-1 1 over the active rows, for every A (overwritten)."""
    right = np.stack([z, active.astype(float)], axis=1)  # (g, 2, m): the transposed columns
    for part, columns in zip(A, right, strict=True):
        info = lapack.dposv(part.T, columns.T, lower=0, overwrite_a=1, overwrite_b=1)[2]
        if info:
            raise NumericalError("A system is not positive definite.")
    return right[:, 0], right[:, 1]


def _matrix(blocks: np.ndarray, active: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """K + diag(ridge) on the active rows, the identity elsewhere."""
    A = blocks * (active[:, :, None] & active[:, None, :])
    np.einsum("gii->gi", A)[...] += np.where(active, ridge, 1.0)
    return A


def _squares(blocks: np.ndarray, stack: _Stack, C: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P with a = P t, the coefficients a, and the diagonal of P (1 for padding)."""
    active = stack.inside
    P, ones, total = _bordered(_matrix(blocks, active, 1.0 / (C * stack.weights)), active)
    P *= active[:, :, None] & active[:, None, :]
    before = np.einsum("gii->gi", P).copy()
    P -= ones[:, :, None] * (ones / total)[:, None, :]
    a = np.einsum("gij,gj->gi", P, np.where(active, stack.t, 0.0))
    q = np.einsum("gii->gi", P)
    kept = active & (q > LOST * before)  # else the row is alone, and nothing predicts it
    return P, np.where(kept, a, 0.0), np.where(kept, q, 1.0)


def _newton(
    blocks: np.ndarray, stack: _Stack, C: float, loss: str, start: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Newton's method for all problems of a stack, without a line search: accurate enough to compare settings."""
    t, weights, kind = stack.t, stack.weights, LOSSES[loss]
    f = np.zeros_like(t) if start is None else start
    for _ in range(STEPS):
        v = weights * kind.curvature(t * f)
        active = stack.inside & (v > 0)
        active = np.where(active.any(axis=1, keepdims=True), active, stack.inside)
        z = np.where(active, f + t * kind.slope(t * f) / np.maximum(v / weights, 1e-12), 0.0)
        ridge = 1.0 / (C * np.maximum(v, 1e-300))
        A = _matrix(blocks, active, np.where(active, ridge, 1.0))
        plain, ones = _solved(A.copy(), z, active)
        total = np.maximum(ones.sum(axis=1, keepdims=True), 1e-300)
        b = plain.sum(axis=1) / total[:, 0]
        a = plain - b[:, None] * ones
        new = np.einsum("gij,gj->gi", blocks, a) + b[:, None]
        if loss == "logistic":
            new = np.clip(new, -FAR, FAR)
        done = loss == "squared" or np.max(np.abs(new - f)) <= 1e-2 * (1.0 + np.max(np.abs(new)))
        f = new
        if done:
            break
    inverse, ones, total = _bordered(A, active)
    before = np.einsum("gii->gi", inverse)
    q = before - ones * ones / total
    kept = active & (q > LOST * before)
    loo = np.where(kept, z - a / np.where(kept, q, 1.0), f)
    return a, b, f, loo
