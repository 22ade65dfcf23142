"""Conjugate gradients for the dual system of many rows, preconditioned by a randomly pivoted Cholesky factor.

    (S K S + lam I) a + w b = S t,  w'a = 0,  S = diag(w),  w = sqrt(v),  coefficients S a       (`system.dual`)

A Cholesky factor costs l^3/3 flops; this costs tens of products of K with a vector, each of which reads K once, and
about 3 l r^2 flops for a factor K ~ F'F of rank r (Diaz, Epperly, Frangella, Tropp & Webber 2023). The bias needs no
second right-hand side: all steps stay in w'a = 0, and the preconditioner is that of the bordered system. Only products
with K and parts of K are needed.

Leave-one-out residuals are s_i times the dual coefficients, with s_i = lam/v_i + variance of f_i given all other rows.
A few s_i follow from right-hand sides e_i; all of them are estimated from near rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import EPS
from .solution import Solution

RESIDUAL = 1e-8  # The residual of the system may be this large, relative to the right-hand side.
RANK = 15.0  # The factor has at most this rank times the root of the number of rows: 38 products instead of 181 with 5.
CHECKED = 16  # For so many rows s_i is computed, to this accuracy, and corrects the estimates of the others.
CHECK_ACCURACY = 1e-3
NEIGHBOURS = 512  # An estimate of s_i is the variance of f_i given the rest of so many rows near a common centre,
CORE = 64  # of which row i is among the nearest.

Product = Callable[[np.ndarray], np.ndarray]
Block = Callable[[np.ndarray, np.ndarray | None, np.ndarray | None], np.ndarray]
# Returns the product with the kernel matrix of rows X and their basis points, if it is not computed here.
distributed: ContextVar[Callable[[Any, Any, Any], Product] | None] = ContextVar("lssvm_product", default=None)


# The factor -----------------------------------------------------------------------------------------------------------
def randomly_pivoted(
    block: Block, diagonal: np.ndarray, limit: int, floor: float, draw: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows chosen by randomly pivoted Cholesky, and the factor F (chosen rows x all rows) of K ~ F'F.

    This is the accelerated algorithm of Epperly, Tropp & Webber (2024): blocks of proposals, thinned by rejection. It
    stops at `limit` rows, or when the trace of K - F'F is at most `floor`. `block(rows, columns, out)` returns values
    of K, for all columns if `columns` is None, written into `out` unless that is None; `diagonal` is that of K.
    """
    n_rows = len(diagonal)
    limit = min(limit, n_rows)
    left = diagonal.copy()
    factor = np.empty((limit, n_rows))  # new columns of K are contiguous rows
    chosen = np.empty(0, dtype=np.intp)
    while len(chosen) < limit and left.sum() > floor:
        m = len(chosen)
        proposals = draw.choice(n_rows, min(max(20, limit // 8), limit), p=left / left.sum())
        H = block(proposals, proposals, None)
        H -= factor[:m, proposals].T @ factor[:m, proposals]
        accepted, lower = reject(H, left[proposals], draw, limit - m)
        if not len(accepted):
            continue
        picked = proposals[accepted]
        new = factor[m : m + len(picked)]
        block(picked, None, new)
        if m:
            arrays.add_product(new, -factor[:m, picked].T, factor[:m])
        arrays.solve_columns(lower, new)
        left = np.maximum(left - np.einsum("ij,ij->j", new, new), 0.0)
        chosen = np.concatenate([chosen, picked])
        left[chosen] = 0.0
    return chosen, factor[: len(chosen)]


def reject(H: np.ndarray, bound: np.ndarray, draw: np.random.RandomState, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Accept proposal i with probability (remainder of H_ii)/bound_i, at most `limit`, in a Cholesky factorisation."""
    accepted: list[int] = []
    L = np.zeros_like(H)
    left = H.diagonal().copy()
    for i, threshold in enumerate(draw.uniform(size=len(H))):
        if threshold * bound[i] < left[i] and left[i] > 1e-12 * bound[i] and len(accepted) < limit:
            k = len(accepted)
            L[:, k] = (H[:, i] - L[:, :k] @ L[i, :k]) / np.sqrt(left[i])
            left = left - L[:, k] ** 2
            accepted.append(i)
    index = np.array(accepted, dtype=np.intp)
    return index, np.tril(L[index][:, : len(index)])


# The solver -----------------------------------------------------------------------------------------------------------
def solve(
    product: Product,
    factor: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    ridge: float,
    checked: np.ndarray | None = None,
) -> tuple[Solution, float, np.ndarray] | None:
    """Return coefficients, bias and residuals, what is left of the system, and s_i of the rows `checked`.

    `product(V)` is V K for V (k, l); `factor` is overwritten. The residual of the system, relative to the right-hand
    side, should fall to RESIDUAL, or to the level of rounding errors. If it does so within as many products as a
    Cholesky factorisation would cost, 0 is left. None if K with the ridge is not positive definite.
    """
    checked, outputs = np.arange(0) if checked is None else checked, targets.shape[1]
    units = np.zeros((len(targets), len(checked)))
    units[checked, np.arange(len(checked))] = 1.0
    targets = np.hstack([targets, units])
    tolerance = np.repeat([RESIDUAL, CHECK_ACCURACY], [outputs, len(checked)])
    w = np.sqrt(weights)
    u = w / np.linalg.norm(w)
    mean = weights @ targets / weights.sum()
    right = w * (targets - mean).T  # orthogonal to u
    norm = float(np.sum((factor @ (w * u)) ** 2)) + ridge  # of S F'F S + lam I, in the direction of u
    factor *= w
    if len(factor):  # Q with Q'Q = S F' (F S^2 F' + lam I)^-1 F S
        lower = arrays.cholesky(arrays.add_diagonal(arrays.add_gram(None, factor.T), ridge))
        if lower is None:
            return None
        arrays.solve_columns(lower, factor)
    Q = factor

    def inverse(R: np.ndarray) -> np.ndarray:
        """Return R M^-1, M = S F'F S + lam I, by Woodbury's formula with Q'Q <= 1, so that no errors are amplified."""
        return (R - arrays.matmul(arrays.matmul(R, Q.T), Q)) / ridge

    border = inverse(u[None, :])[0]
    corner = float(u @ border)
    if not corner > 0:
        return None

    def precondition(R: np.ndarray) -> np.ndarray:
        """Return Z with Z M + c u' = R, Z u = 0."""
        Z = inverse(R)
        return Z - np.outer(Z @ u / corner, border)

    def apply(V: np.ndarray) -> np.ndarray:
        return w * product(w * V) + ridge * V

    unknown, rest, bias = np.zeros_like(right), right, np.zeros(len(right))
    most, sizes = max(100, len(w) // 40), np.linalg.norm(right, axis=1)
    while True:
        # the accuracy of a factorisation is enough: its residual is a few rounding errors of |A| |x|
        bound = np.maximum(tolerance * sizes, 4.0 * EPS * norm * np.linalg.norm(unknown, axis=1))
        left = np.linalg.norm(rest, axis=1)
        open_rows = np.flatnonzero(~(left <= bound))
        if not len(open_rows) or most <= 0:
            break
        steps, taken = _descend(apply, precondition, u, rest[open_rows], 0.5 * bound[open_rows], most)
        most -= taken
        if steps is None:
            return None
        unknown[open_rows] += steps
        unknown -= np.outer(unknown @ u, u)
        rest = right - apply(unknown)
        bias = rest @ u / np.linalg.norm(w)
        rest -= np.outer(rest @ u, u)
    coef, residuals = (w * unknown).T, ((ridge * unknown + rest) / w).T
    reached = np.where(left <= bound, 0.0, left / np.where(sizes > 0, sizes, 1.0))[:outputs].max()
    solution = Solution(coef[:, :outputs], (mean + bias)[:outputs], residuals[:, :outputs])
    return solution, float(reached), 1.0 / coef[checked, outputs + np.arange(len(checked))]


def _descend(
    apply: Product, precondition: Product, u: np.ndarray, rest: np.ndarray, bound: np.ndarray, most: int
) -> tuple[np.ndarray | None, int]:
    """Return the steps that reduce the residuals `rest` (rows) of the recurrence to their bounds, and their number."""
    total = np.zeros_like(rest)
    active = np.arange(len(rest))
    Z = precondition(rest)
    direction, product = Z, np.sum(rest * Z, axis=1)
    for taken in range(1, most + 1):
        image = apply(direction)
        curvature = np.sum(direction * image, axis=1)
        if not np.all(curvature > 0):
            return None, taken
        length = (product / curvature)[:, None]
        total[active] += length * direction
        rest = rest - length * image
        rest -= np.outer(rest @ u, u)
        keep = np.linalg.norm(rest, axis=1) > bound
        if not keep.any():
            return total, taken
        active, bound, rest, direction, before = active[keep], bound[keep], rest[keep], direction[keep], product[keep]
        Z = precondition(rest)
        product = np.sum(rest * Z, axis=1)
        direction = Z + (product / before)[:, None] * direction
    return total, most


# Leave-one-out --------------------------------------------------------------------------------------------------------
def leave_one_out(
    solution: Solution, exact: np.ndarray, block: Block, diagonal: np.ndarray, ridges: np.ndarray, order: np.ndarray
) -> tuple[Solution, float]:
    """Return the solution with estimated leverages and leave-one-out residuals, and their relative error.

    `exact` are s_i of the first rows of a random `order`; `ridges` are lam/v_i. The estimates of the variances that s_i
    contains are upper bounds, so that those of all rows are reduced by the same share.
    """
    scales, checked = near_variances(block, diagonal, ridges, order) + ridges, order[: len(exact)]
    least = ridges[checked]
    share = np.sum(exact - least) / max(float(np.sum(scales[checked] - least)), 1e-300)
    scales = ridges + float(np.clip(share, 0.0, 1.0)) * (scales - ridges)
    error = float(np.sqrt(np.mean((scales[checked] / exact - 1.0) ** 2)))
    loo = solution.coef * scales[:, None]
    return replace(solution, leverage=1.0 - ridges / scales, loo_residuals=loo), error


def near_variances(block: Block, diagonal: np.ndarray, ridges: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the variance of every f_i given the targets of rows near it.

    Every row that has none yet becomes a centre, in the given order: its NEIGHBOURS rows of the largest correlation
    form a dense system, which is exact for those among the nearest CORE.
    """
    variances, size = np.full(len(order), -1.0), np.sqrt(np.maximum(diagonal, 1e-300))
    count = min(NEIGHBOURS, len(order))
    for centre in order:
        if variances[centre] >= 0.0:
            continue
        similarity = block(np.array([centre]), None, None)[0] / size
        similarity *= np.where(variances < 0.0, 1.0 + 1e-9, 1.0)  # of equal rows, those without a value
        similarity[centre] = np.inf
        near = np.argpartition(-similarity, count - 1)[:count]
        near = near[np.argsort(-similarity[near], kind="stable")]
        places = np.flatnonzero(variances[near[:CORE]] < 0.0)
        lower = arrays.cholesky(arrays.add_diagonal(block(near, near, None), ridges[near]))
        if lower is None:
            variances[near[places]] = diagonal[near[places]]
            continue
        units = np.zeros((count, len(places)))
        units[places, np.arange(len(places))] = 1.0
        arrays.solve_columns(lower, units)
        found = 1.0 / np.einsum("ij,ij->j", units, units) - ridges[near[places]]
        variances[near[places]] = np.maximum(found, 0.0)
    return variances
