"""Many binary problems with one kernel matrix: batches of systems of similar size, which are solved together.

Every problem is the LS-SVM of the rows of a pair of classes. If all problems have all rows (one class against the
rest), there is a single system with several targets. The result is accurate enough to compare settings: `dual` keeps
more digits of leverages near 1. With A = K + diag(1/(C v)) the coefficients are P t, where

    P = A^-1 - u u'/(1'u),  u = A^-1 1,    leave-one-out values:  t_i - (P t)_i/P_ii.

Other losses need Newton's method. Where values are compared, a batch takes full steps together; systems that these do
not solve, and all of which derivatives are needed, are solved one after the other by steps of different lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from .. import arrays
from ..arrays import NumericalError
from ..arrays.threads import run_each_alone
from ..losses import Loss
from .newton import BinaryProblem

PADDING = 1.3  # The sizes of the problems in a batch have at most this ratio.
LOST = 1e-12  # Below this share of a diagonal element, rounding errors are all that is left.
TOLERANCE = 1e-4  # Decision values from Newton's method are this accurate if the gradient is needed.
ROUGH = 1e-2  # They are this accurate for comparing settings.
STEPS = 12  # A batch takes at most this many steps of Newton's method together.
WORK = 2**24  # A batch of several problems has at most this sum of cubed sizes: enough work for one thread.

Binaries = list[tuple[np.ndarray, np.ndarray]]  # rows and targets of each problem


@dataclass(frozen=True)
class Batch:
    """The g systems of a batch with up to m rows and k targets each; smaller systems are padded."""

    numbers: np.ndarray  # (g, k) of the problems
    rows: np.ndarray  # (g, m)
    inside: np.ndarray  # (g, m); False for padding
    targets: np.ndarray  # (g, m, k); 0 for padding
    weights: np.ndarray  # (g, m); 1 for padding


@dataclass(frozen=True)
class PairSolution:
    """Solved binary problems; the entries of rows that are not part of a problem are 0."""

    pairs: BatchedPairs
    coef: np.ndarray  # (rows, problems)
    intercept: np.ndarray  # (problems,)
    decision: np.ndarray  # (rows, problems)
    loo: np.ndarray  # (rows, problems): leave-one-out values
    solved: list[tuple[Batch, Any]]  # each batch, with what its derivatives are computed from
    is_quadratic: bool  # the loss

    def gradient(self, in_loo: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the derivatives in K and log C of a function with the derivatives `in_loo` in leave-one-out values."""

        def differentiate(solved: tuple[Batch, Any]) -> tuple[np.ndarray, float]:
            """Do as `BinaryProblem.loo_gradient`, but asymmetrically: only sums with symmetric matrices matter."""
            batch, found = solved
            g = in_loo[batch.rows[:, :, None], batch.numbers[:, None, :]] * batch.inside[:, :, None]
            if self.is_quadratic:
                P, a, q, ridge = found
                part = (P * (-np.sum(g * a, axis=2) / q**2)[:, None, :]) @ P
                moves = P @ (g / q[:, :, None])
                for own, target in np.ndindex(len(part), a.shape[2]):
                    arrays.add_outer(part[own], moves[own, :, target], a[own, :, target])
                return part, -float(np.sum(np.einsum("gii->gi", part) * ridge))
            problem, fit, K = found
            G, in_C = problem.loo_gradient(fit, K, g[0, :, 0])
            return G[None], in_C

        G, total = np.zeros((len(in_loo), len(in_loo))), 0.0
        for (batch, _), (parts, in_C) in zip(self.solved, run_each_alone(differentiate, self.solved), strict=True):
            total += in_C
            for own, part in zip(batch.numbers, parts, strict=True):
                for whole, inner in self.pairs.blocks[own[0]]:
                    G[whole] += part[inner]
        return G, total


class BatchedPairs:
    """Binary problems, given by their rows and targets, and the positive weights of all rows."""

    def __init__(self, columns: Binaries, weights: np.ndarray) -> None:
        self.columns, self.weights = columns, weights
        self.blocks = [_blocks(rows) for rows, _ in columns]
        sizes = np.array([len(rows) for rows, _ in columns])
        self.alone = [self._batch(np.array([[number]])) for number in np.flatnonzero(sizes)]
        self.batches = []
        if np.all(sizes == len(weights)):
            self.batches.append(self._batch(np.arange(len(columns))[None, :]))
            return
        order = np.argsort(sizes, kind="stable")
        order = order[sizes[order] > 0]  # both classes of a pair may be missing in a part of the rows
        while len(order):
            count = int(np.sum(sizes[order] <= max(24, PADDING * sizes[order[0]])))
            count = min(count, max(1, WORK // int(sizes[order[count - 1]]) ** 3))
            self.batches.append(self._batch(order[:count, None]))
            order = order[count:]

    def _batch(self, numbers: np.ndarray) -> Batch:
        """Return the batch of systems whose targets are those of the problems `numbers` (systems, targets)."""
        sizes = np.array([len(self.columns[own[0]][0]) for own in numbers])
        shape = (len(numbers), int(sizes.max()))
        inside = np.arange(shape[1]) < sizes[:, None]
        batch = Batch(numbers, np.zeros(shape, int), inside, np.zeros((*shape, numbers.shape[1])), np.ones(shape))
        for place, (own, size) in enumerate(zip(numbers, sizes, strict=True)):
            rows = self.columns[own[0]][0]
            batch.rows[place, :size], batch.weights[place, :size] = rows, self.weights[rows]
            batch.targets[place, :size] = np.column_stack([self.columns[number][1] for number in own])
        return batch

    def solve(
        self, K: np.ndarray, C: float, loss: Loss, start: np.ndarray | None = None, *, with_gradient: bool = False
    ) -> PairSolution:
        """Solve all problems; `start` are decision values (rows, problems) from which Newton's method may start."""
        apart = with_gradient or any(batch.targets.shape[2] > 1 for batch in self.batches)
        batches = self.alone if apart and not loss.is_quadratic else self.batches
        coef, decision, loo = (np.zeros((len(K), len(self.columns))) for _ in range(3))
        intercept = np.zeros(len(self.columns))

        def solve(batch: Batch) -> tuple[Batch, Any]:
            known: Any = None
            A = np.zeros((*batch.rows.shape, batch.rows.shape[1]))  # of every system; 0 for padding
            for own, part in zip(batch.numbers, A, strict=True):
                for whole, inner in self.blocks[own[0]]:
                    part[inner] = K[whole]
            if loss.is_quadratic:
                found, known = _least_squares(A, batch, C)
            else:
                first = None if start is None else start[batch.rows, batch.numbers]
                found, left = _newton(A, batch, C, loss, first) if len(A) > 1 else (_zeros(batch), [0])
                for place in left:
                    own = batch.inside[place]
                    before = None if first is None else first[place, own]
                    parts = batch.targets[place, own, 0], batch.weights[place, own]
                    problem = BinaryProblem(*parts, C, loss, before, TOLERANCE if with_gradient else ROUGH)
                    K_own = A[place][: own.sum(), : own.sum()]
                    fit = problem.solve(K_own, inverse=with_gradient)
                    known = problem, fit, K_own
                    for out, value in zip(found, (fit.coef, fit.decision, fit.loo), strict=False):
                        out[place, own, 0] = value
                    found[3][place] = fit.intercept
            *values, intercept[batch.numbers] = found
            system, row = np.nonzero(batch.inside)
            for out, own in zip((coef, decision, loo), values, strict=True):
                out[batch.rows[system, row, None], batch.numbers[system]] = own[system, row]
            return batch, known

        solved = run_each_alone(solve, batches)
        return PairSolution(self, coef, intercept, decision, loo, solved, loss.is_quadratic)


def _least_squares(A: np.ndarray, batch: Batch, C: float) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the coefficients, decision and leave-one-out values and biases, and what derivatives need. A is lost."""
    ridge, t = 1.0 / (C * batch.weights), batch.targets
    np.einsum("gii->gi", A)[...] += np.where(batch.inside, ridge, 1.0)
    for part in A:  # LAPACK sees the transposed matrix, the same by symmetry, whose lower factor takes less time
        if lapack.dpotrf(part.T, lower=1, clean=1, overwrite_a=1)[1]:
            raise NumericalError("A system is not positive definite.")
    arrays.invert_lower(A.transpose(0, 2, 1))
    for part in A:
        lapack.dlauum(part.T, lower=1, overwrite_c=1)
    P = A + A.transpose(0, 2, 1)
    q = np.einsum("gii->gi", P)
    before = q[...] = np.einsum("gii->gi", A) * batch.inside
    ones = P.sum(axis=1)
    total = np.maximum(ones.sum(axis=1), 1e-300)[:, None]
    for part, own, share in zip(P, ones, ones / total, strict=True):
        arrays.add_outer(part, -own, share)
    kept = q > LOST * before  # else the row is alone, and nothing predicts it
    a, q = (P @ t) * kept[:, :, None], np.where(kept, q, 1.0)  # q is 1 for padding
    intercepts = np.einsum("gi,gik->gk", ones, t) / total
    values = (a, t - ridge[:, :, None] * a, t - a / q[:, :, None], intercepts)
    return values, (P, a, q, ridge)


def _zeros(batch: Batch) -> tuple[np.ndarray, ...]:
    """Return coefficients, decision and leave-one-out values and biases of systems with one target, all 0."""
    return (*(np.zeros(batch.targets.shape) for _ in range(3)), np.zeros((len(batch.rows), 1)))


def _newton(
    K: np.ndarray, batch: Batch, C: float, loss: Loss, start: np.ndarray | None
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return the same values as `_least_squares`, for another loss, and the systems that full steps do not solve."""
    t, inside, weights = batch.targets[:, :, 0], batch.inside, batch.weights
    f = np.zeros(t.shape) if start is None else start * inside
    for _ in range(STEPS):
        v = weights * loss.curvature(t * f)
        active = inside & (v > 0)
        v = np.where(active, v, 1.0)
        z = np.where(active, f + weights * t * loss.slope(t * f) / v, 0.0)
        ridge = np.where(active, 1.0 / (C * v), 1.0)
        A = K * (active[:, :, None] & active[:, None, :])
        np.einsum("gii->gi", A)[...] += ridge
        right = np.stack([z, active * 1.0], axis=1)
        failed = [lapack.dpotrf(part.T, lower=1, clean=1, overwrite_a=1)[1] > 0 for part in A]
        for part, columns in zip(A, right, strict=True):
            lapack.dpotrs(part.T, columns.T, lower=1, overwrite_b=1)
        plain, ones = right[:, 0], right[:, 1]
        total = np.maximum(ones.sum(axis=1), 1e-300)[:, None]
        b = plain.sum(axis=1)[:, None] / total
        a = plain - b * ones
        before, f = f, (K @ a[:, :, None])[:, :, 0] + b
        change, largest = (np.max(np.abs(values) * inside, axis=1) for values in (f - before, f))
        left = ~(change <= ROUGH * (1.0 + largest)) | ~active.any(axis=1) | failed
        if not left.any():
            break
    arrays.invert_lower(A.transpose(0, 2, 1))
    squares = np.einsum("gij,gij->gi", A, A)
    q = squares - ones**2 / total
    kept = active & (q > LOST * squares)
    loo = np.where(kept, z - a / np.where(kept, q, 1.0), f)
    return (*(values[:, :, None] for values in (a, f, loo)), b), np.flatnonzero(left)


def _blocks(rows: np.ndarray) -> list[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Return blocks of consecutive rows and columns: their places in the whole kernel matrix and in a problem's own.

    There are four per pair of classes if the rows of a search are sorted by class: slices are copied faster than rows.
    """
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    sizes = np.diff(starts, append=len(rows))
    runs = [(slice(rows[i], rows[i] + n), slice(i, i + n)) for i, n in zip(starts, sizes, strict=True)]
    return [((rows, columns), (inner, other)) for rows, inner in runs for columns, other in runs]
