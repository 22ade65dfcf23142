"""Many binary problems at once, as padded stacks of systems that the threads share; only what a search needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from ..arrays import NumericalError
from ..arrays.threads import share_whole
from ..losses import LOSSES

PADDING = 1.3  # largest ratio of problem sizes within a stack
STEPS = 15  # at most, of Newton's method in a search
LOST = 1e-12  # share of a diagonal element below which rounding errors are all that is left
FAR = 40.0  # decision values of the logistic loss are clipped to +-FAR
SMALL = 64  # triangular matrices up to this size are inverted by LAPACK, larger ones by halves
WORK = 2**24  # largest sum of cubed sizes in a stack of several problems: enough for a thread at a time

Runs = list[tuple[slice, slice]]  # consecutive rows of a problem: their place in the kernel matrix and in the problem


@dataclass
class _Stack:
    numbers: np.ndarray  # (g,)  of the problems
    sizes: np.ndarray  # (g,)  of the problems
    rows: np.ndarray  # (g, m)
    inside: np.ndarray  # (g, m)  False: padding
    t: np.ndarray  # (g, m)  0: padding
    weights: np.ndarray  # (g, m)


class Stacks:
    """Binary problems, given by their rows and targets, and the positive weights of all rows."""

    def __init__(self, columns: list[tuple[np.ndarray, np.ndarray]], weights: np.ndarray) -> None:
        self.columns, self.runs = columns, [_runs(rows) for rows, _ in columns]
        self.stacks: list[_Stack] = []
        sizes = np.array([len(rows) for rows, _ in columns])
        order = np.argsort(sizes, kind="stable")
        order = order[sizes[order] > 0]  # both classes of a pair may be missing in a part of the rows
        while len(order):
            count = int(np.sum(sizes[order] <= max(24, PADDING * sizes[order[0]])))
            count = min(count, max(1, WORK // int(sizes[order[count - 1]]) ** 3))
            chosen, order = order[:count], order[count:]
            shape = (len(chosen), int(sizes[chosen].max()))
            inside = np.arange(shape[1]) < sizes[chosen][:, None]
            stack = _Stack(chosen, sizes[chosen], np.zeros(shape, int), inside, np.zeros(shape), np.ones(shape))
            for place, number in enumerate(chosen):
                rows, t = columns[number]
                own = place, slice(0, len(rows))
                stack.rows[own], stack.t[own], stack.weights[own] = rows, t, weights[rows]
            self.stacks.append(stack)

    def solve(self, K: np.ndarray, C: float, loss: str, start: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Coefficients, intercepts, decision values and leave-one-out values: (rows, problems), (problems,), ..."""
        coef, decision, loo = (np.zeros((len(K), len(self.columns))) for _ in range(3))
        intercept = np.zeros(len(self.columns))

        def one(stack: _Stack) -> None:
            if loss == "squared":
                _, a, q, b = _squares(self._blocks(K, stack), stack, C)
                f, without = stack.t - a / (C * stack.weights), stack.t - a / q
            else:
                first = None if start is None else start[stack.rows, stack.numbers[:, None]]
                a, b, f, without = _newton(self._blocks(K, stack), stack, C, loss, first)
            intercept[stack.numbers] = b
            for out, values in ((coef, a), (decision, f), (loo, without)):
                self._put(out, stack, values)

        share_whole(one, self.stacks)
        return coef, intercept, decision, loo

    def squares(self, K: np.ndarray, C: float) -> tuple[np.ndarray, dict[int, tuple[np.ndarray, ...]]]:
        """Leave-one-out values of the squared loss (rows, problems), and the intermediate results for `gradient`."""
        loo = np.zeros((len(K), len(self.columns)))
        kept: dict[int, tuple[np.ndarray, ...]] = {}

        def one(place: int) -> None:
            stack = self.stacks[place]
            P, a, q, _ = _squares(self._blocks(K, stack), stack, C)
            self._put(loo, stack, stack.t - a / q)
            kept[place] = P, a, q

        share_whole(one, range(len(self.stacks)))
        return loo, kept

    def gradient(
        self, kept: dict[int, tuple[np.ndarray, ...]], in_values: np.ndarray, C: float
    ) -> tuple[np.ndarray, float]:
        """The derivatives in K and log C, from those in the leave-one-out values; see `system.newton.loo_gradient`.

        The first is not symmetric: only its sums with symmetric matrices are needed.
        """
        parts: dict[int, np.ndarray] = {}

        def one(place: int) -> None:
            stack, (P, a, q) = self.stacks[place], kept[place]
            g = np.where(stack.inside, in_values[stack.rows, stack.numbers[:, None]], 0.0)
            scratch = P * (-g * a / q**2)[:, None, :]
            parts[place] = scratch @ P
            parts[place] += np.multiply(P @ (g / q)[:, :, None], a[:, None, :], out=scratch)

        share_whole(one, range(len(self.stacks)))
        G, in_C = np.zeros((len(in_values), len(in_values))), 0.0
        for place, stack in enumerate(self.stacks):
            diagonal = np.einsum("gii->gi", parts[place])
            in_C -= float(np.sum(diagonal / (C * stack.weights)))
            for number, part in zip(stack.numbers, parts[place], strict=True):
                for rows, inner in self.runs[number]:
                    for columns, other in self.runs[number]:
                        G[rows, columns] += part[inner, other]
        return G, in_C

    def _blocks(self, K: np.ndarray, stack: _Stack) -> np.ndarray:
        """The kernel matrix of every problem of a stack; 0 for padding."""
        blocks = np.zeros((*stack.rows.shape, stack.rows.shape[1]))
        for number, part in zip(stack.numbers, blocks, strict=True):
            for rows, inner in self.runs[number]:
                for columns, other in self.runs[number]:
                    part[inner, other] = K[rows, columns]
        return blocks

    def _put(self, out: np.ndarray, stack: _Stack, values: np.ndarray) -> None:
        """Write the values (g, m) of a stack to the rows and columns of its problems."""
        columns = np.broadcast_to(stack.numbers[:, None], values.shape)
        out[stack.rows[stack.inside], columns[stack.inside]] = values[stack.inside]


def _runs(rows: np.ndarray) -> Runs:
    """Sorted rows as slices: there are two per pair of classes if the rows of a search are sorted by class."""
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    ends = np.append(starts[1:], len(rows)) if len(rows) else starts
    return [
        (slice(int(rows[start]), int(rows[end - 1]) + 1), slice(int(start), int(end)))
        for start, end in zip(starts, ends, strict=True)
    ]


def _factorise(A: np.ndarray) -> None:
    """Overwrite every A by its lower Cholesky factor."""
    for part in A:  # LAPACK sees the transposed matrix, which is the same by symmetry
        if lapack.dpotrf(part.T, lower=0, clean=1, overwrite_a=1)[1]:
            raise NumericalError("A system is not positive definite.")


def _invert(L: np.ndarray) -> None:
    """Overwrite every lower triangular matrix by its inverse. Products of halves are faster than LAPACK."""
    size = L.shape[1]
    if size <= SMALL:
        for part in L:
            part[...] = lapack.dtrtri(part.T, lower=0)[0].T
        return
    half = size // 2
    _invert(L[:, :half, :half])
    _invert(L[:, half:, half:])
    L[:, half:, :half] = L[:, half:, half:] @ (L[:, half:, :half] @ -L[:, :half, :half])


def _squares(A: np.ndarray, stack: _Stack, C: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """P with a = P t, the coefficients a, the diagonal of P (1 for padding) and the intercepts; A becomes P."""
    np.einsum("gii->gi", A)[...] += np.where(stack.inside, 1.0 / (C * stack.weights), 1.0)
    _factorise(A)
    _invert(A)
    for part in A:
        lapack.dlauum(part.T, lower=0, overwrite_c=1)
    P, scratch = A, np.tril(A, -1)
    P += scratch.transpose(0, 2, 1)
    np.einsum("gii->gi", P)[~stack.inside] = 0.0
    before = np.einsum("gii->gi", P).copy()
    ones = P.sum(axis=1)
    total = np.maximum(ones.sum(axis=1, keepdims=True), 1e-300)
    P -= np.multiply(ones[:, :, None], (ones / total)[:, None, :], out=scratch)
    a = (P @ stack.t[:, :, None])[:, :, 0]
    q = np.einsum("gii->gi", P)
    kept = q > LOST * before  # else the row is alone, and nothing predicts it
    intercept = np.sum(ones * stack.t, axis=1) / total[:, 0]
    return P, np.where(kept, a, 0.0), np.where(kept, q, 1.0), intercept


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
        z = np.where(active, f + t * kind.slope(t * f) / np.where(v > 0, v / weights, 1.0), 0.0)
        A = blocks * (active[:, :, None] & active[:, None, :])
        np.einsum("gii->gi", A)[...] += np.where(active, 1.0 / (C * np.maximum(v, 1e-300)), 1.0)
        right = np.stack([z, active.astype(float)], axis=1)  # (g, 2, m): the transposed columns
        for part, columns in zip(A, right, strict=True):
            if lapack.dposv(part.T, columns.T, lower=0, overwrite_a=1, overwrite_b=1)[2]:
                raise NumericalError("A system is not positive definite.")
        plain, ones = right[:, 0], right[:, 1]
        total = np.maximum(ones.sum(axis=1, keepdims=True), 1e-300)
        b = plain.sum(axis=1) / total[:, 0]
        a = plain - b[:, None] * ones
        new = np.einsum("gij,gj->gi", blocks, a) + b[:, None]
        if loss == "logistic":
            new = np.clip(new, -FAR, FAR)
        done = np.max(np.abs(new - f)) <= 1e-2 * (1.0 + np.max(np.abs(new)))
        f = new
        if done:
            break
    inverse = np.tril(A)
    _invert(inverse)
    before = np.einsum("gij,gij->gj", inverse, inverse)
    q = before - ones * ones / total
    kept = active & (q > LOST * before)
    loo = np.where(kept, z - a / np.where(kept, q, 1.0), f)
    return a, b, f, loo
