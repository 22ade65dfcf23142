"""Conjugate gradients for the dual system of many rows, preconditioned by a randomly pivoted Cholesky factor.

    (S K S + lam I) a + w b = S t,  w'a = 0,  S = diag(w),  w = sqrt(v),  coefficients S a       (`system.dual`)

A Cholesky factor costs l^3/3 flops; this costs tens of products of K with a vector, each of which reads K once, and
about 3 l r^2 flops for a factor K ~ F'F of rank r (Diaz, Epperly, Frangella, Tropp & Webber 2023). The bias needs no
second right-hand side: all steps stay in w'a = 0, and the preconditioner is that of the bordered system. Only products
with K and parts of K are needed. Products of single precision may find the steps, whose residuals are computed again.

Leave-one-out residuals are s_i times the dual coefficients, with s_i = lam/v_i + variance of f_i given all other rows.
A few s_i follow from right-hand sides e_i; all of them are estimated from near rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import EPS, Array
from .solution import Solution

RESIDUAL = 1e-8  # The residual of the system may be this large, relative to the right-hand side.
RANK = 15.0  # The factor has at most this rank times the root of the number of rows: 38 products instead of 181 with 5.
# With products of single precision, the residual may be this large, and is computed again whenever it has fallen by
SINGLE = 1e-6, 1e-2  # this factor.
SHARE = 0.5  # The factor takes at most this share of the memory.
MOST_PRODUCTS = 1000
CHECKED = 15  # For so many rows s_i is computed, to this accuracy, and corrects the estimates of the others.
CHECK_ACCURACY = 1e-2
NEIGHBOURS = 512  # An estimate of s_i is the variance of f_i given the rest of so many rows near a common centre,
CORE = 64  # of which row i is among the nearest. Half of them are enough
ACCURATE = 0.02  # if they give s_i of the checked rows with this error.
CENTRES = 64, 4  # An accelerator has so many centres at a time, and computes K for the neighbours of so many together.

Product = Callable[[Array], Array]
Block = Callable[[np.ndarray, np.ndarray | None, Array], Array]
# Returns the product with the kernel matrix of rows X and their basis points, if it is not computed here.
distributed: ContextVar[Callable[[Any, Any, Any], Product] | None] = ContextVar("lssvm_product", default=None)


# The factor -----------------------------------------------------------------------------------------------------------
def randomly_pivoted(
    block: Block, diagonal: Array, limit: int, floor: float, draw: np.random.RandomState
) -> tuple[np.ndarray, Array]:
    """Return rows chosen by randomly pivoted Cholesky, and the factor F (chosen rows x all rows) of K ~ F'F.

    This is the accelerated algorithm of Epperly, Tropp & Webber (2024): blocks of proposals, thinned by rejection. It
    stops at `limit` rows, or when the trace of K - F'F is at most `floor`. `block(rows, columns, out)` returns values
    of K, for all columns if `columns` is None, written into `out` unless that is None; `diagonal` is that of K.
    """
    n_rows = len(diagonal)
    limit = min(limit, n_rows)
    left = arrays.to_numpy(diagonal) + 0.0
    factor = arrays.empty((limit, n_rows), diagonal)  # new columns of K are contiguous rows
    chosen = np.empty(0, dtype=np.intp)
    while len(chosen) < limit and left.sum() > floor:
        m = len(chosen)
        proposals = draw.choice(n_rows, min(max(20, limit // 8), limit, 512), p=left / left.sum())
        before = arrays.take(factor[:m, :].T, proposals)
        H = arrays.to_numpy(block(proposals, proposals, None) - before @ before.T)
        accepted, lower = reject(H, left[proposals], draw, limit - m)
        if not len(accepted):
            continue
        picked = proposals[accepted]
        new = factor[m : m + len(picked), :]
        block(picked, None, new)
        if m:
            arrays.add_product(new, -arrays.take(before, accepted), factor[:m, :])
        arrays.solve_columns(arrays.like(lower, factor), new)
        left = np.maximum(left - arrays.to_numpy(arrays.row_squares(new.T)), 0.0)
        chosen = np.concatenate([chosen, picked])
        left[chosen] = 0.0
    return chosen, factor[: len(chosen), :]


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
    factor: Array,
    targets: Array,
    weights: Array,
    ridge: float,
    checked: np.ndarray | None = None,
    quick: Product | None = None,
) -> tuple[Solution, float, Array] | None:
    """Return coefficients, bias and residuals, what is left of the system, and s_i of the rows `checked`.

    `product(V)` is V K for V (k, l), and `quick(V)` an approximation if each row of V has the sum 0; `factor` is
    overwritten. The residual of the system, relative to the right-hand side, should fall to RESIDUAL (SINGLE with
    `quick`), or to the level of rounding errors. If it does so within as many products as a Cholesky factorisation
    would cost, and MOST_PRODUCTS, 0 is left. None if K with the ridge is not positive definite.
    """
    checked, outputs, xp = np.arange(0) if checked is None else checked, targets.shape[1], arrays.namespace(targets)
    units = np.zeros((targets.shape[0], len(checked)))
    units[checked, np.arange(len(checked))] = 1.0
    targets = xp.concat([targets, arrays.like(units, targets)], axis=1)
    tolerance = np.repeat([RESIDUAL if quick is None else SINGLE[0], CHECK_ACCURACY], [outputs, len(checked)])
    w = xp.sqrt(weights)
    length = float(xp.linalg.vector_norm(w))
    u = w / length
    mean = weights @ targets / xp.sum(weights)
    right = w * (targets - mean).T  # orthogonal to u
    norm = float(xp.sum((factor @ (w * u)) ** 2)) + ridge  # of S F'F S + lam I, in the direction of u
    factor *= w
    if len(factor):  # Q with Q'Q = S F' (F S^2 F' + lam I)^-1 F S
        lower = arrays.cholesky(arrays.add_diagonal(arrays.add_gram(None, factor.T), ridge))
        if lower is None:
            return None
        arrays.solve_columns(lower, factor)
    Q = factor

    def inverse(R: Array) -> Array:
        """Return R M^-1, M = S F'F S + lam I, by Woodbury's formula with Q'Q <= 1, so that no errors are amplified."""
        return (R - arrays.matmul(arrays.matmul(R, Q.T), Q)) / ridge

    border = inverse(u[None, :])[0, :]
    corner = float(u @ border)
    if not corner > 0:
        return None

    def precondition(R: Array) -> Array:
        """Return Z with Z M + c u' = R, Z u = 0."""
        Z = inverse(R)
        return Z - (Z @ u / corner)[:, None] * border

    def apply(V: Array) -> Array:
        return w * times(w * V) + ridge * V

    unknown, rest, bias = 0.0 * right, right, 0.0 * right[:, 0]
    most, sizes = min(max(100, len(w) // 40), MOST_PRODUCTS), _sizes(right)
    before = np.full(len(sizes), np.inf)
    while True:
        # the accuracy of a factorisation is enough: its residual is a few rounding errors of |A| |x|
        bound, left = np.maximum(tolerance * sizes, 4.0 * EPS * norm * _sizes(unknown)), _sizes(rest)
        open_rows = np.flatnonzero(~(left <= bound))
        if not len(open_rows) or most <= 0:
            break
        if not np.all(left[open_rows] <= 0.1 * before[open_rows]):  # `quick` was not accurate enough
            quick = None
        times, before = quick or product, left
        aim = 0.5 * bound if quick is None else np.maximum(0.5 * bound, SINGLE[1] * left)
        steps, taken = _descend(apply, precondition, u, arrays.take(rest, open_rows), aim[open_rows], most)
        most -= taken
        if steps is None and quick is None:
            return None
        if steps is not None:
            unknown = arrays.put(unknown, open_rows, arrays.take(unknown, open_rows) + steps)
            unknown = _across(unknown, u)
            times = product
            rest = right - apply(unknown)
            bias = rest @ u / length
            rest = _across(rest, u)
    coef, residuals = (w * unknown).T, ((ridge * unknown + rest) / w).T
    reached = np.where(left <= bound, 0.0, left / np.where(sizes > 0, sizes, 1.0))[:outputs].max()
    solution = Solution(coef[:, :outputs], (mean + bias)[:outputs], residuals[:, :outputs])
    return solution, float(reached), 1.0 / xp.linalg.diagonal(arrays.take(coef, checked)[:, outputs:])


def _descend(
    apply: Product, precondition: Product, u: Array, rest: Array, bound: np.ndarray, most: int
) -> tuple[Array | None, int]:
    """Return the steps that reduce the residuals `rest` (rows) of the recurrence to their bounds, and their number."""
    total, xp = 0.0 * rest, arrays.namespace(rest)
    active = np.arange(len(rest))
    Z = precondition(rest)
    direction, product = Z, xp.sum(rest * Z, axis=1)
    for taken in range(1, most + 1):
        image = apply(direction)
        curvature = xp.sum(direction * image, axis=1)
        if not bool(xp.all(curvature > 0)):
            return None, taken
        length = (product / curvature)[:, None]
        total = arrays.put(total, active, arrays.take(total, active) + length * direction)
        rest = _across(rest - length * image, u)
        keep = np.flatnonzero(_sizes(rest) > bound)
        if not len(keep):
            return total, taken
        active, bound = active[keep], bound[keep]
        rest, direction, before = (arrays.take(a, keep) for a in (rest, direction, product))
        Z = precondition(rest)
        product = xp.sum(rest * Z, axis=1)
        direction = Z + (product / before)[:, None] * direction
    return total, most


def _across(V: Array, u: Array) -> Array:
    """Return the part of every row that is orthogonal to the unit vector u."""
    return V - (V @ u)[:, None] * u


def _sizes(V: Array) -> np.ndarray:
    """Return the norm of every row."""
    return np.sqrt(arrays.to_numpy(arrays.row_squares(V)))


# Leave-one-out --------------------------------------------------------------------------------------------------------
def leave_one_out(
    solution: Solution, exact: Array, block: Block, diagonal: Array, ridges: Array, order: np.ndarray
) -> tuple[Solution, float]:
    """Return the solution with estimated leverages and leave-one-out residuals, and their relative error.

    `exact` are s_i of the first rows of a random `order`; `ridges` are lam/v_i. The estimates of the variances that s_i
    contains are upper bounds, so that those of all rows are reduced by the same share.
    """
    checked, count = order[: len(exact)], NEIGHBOURS // 2
    least = arrays.take(ridges, checked)
    few = arrays.take(near_variances(block, diagonal, ridges, checked, count), checked) + least
    count = count if float(((few / exact - 1.0) ** 2).mean()) <= ACCURATE**2 else NEIGHBOURS
    variances = near_variances(block, diagonal, ridges, order, count)
    found = arrays.take(variances, checked)
    share = min(max(float((exact - least).sum()) / max(float(found.sum()), 1e-300), 0.0), 1.0)
    scales = ridges + share * variances
    error = float((((least + share * found) / exact - 1.0) ** 2).mean()) ** 0.5
    loo = solution.coef * scales[:, None]
    return replace(solution, leverage=1.0 - ridges / scales, loo_residuals=loo), error


def near_variances(block: Block, diagonal: Array, ridges: Array, order: np.ndarray, count: int) -> Array:
    """Return the variance of f_i given the targets of `count` rows near it, for all rows in `order` (-1: not known).

    Every one that has none yet becomes a centre: the rows of the largest correlation with it form a dense system, which
    is exact for those among the nearest CORE.
    """
    xp, variances, own = arrays.namespace(diagonal), np.full(len(diagonal), -1.0), arrays.to_numpy(ridges)
    size, first = xp.sqrt(xp.clip(diagonal, 1e-300, None)), 0.0 * diagonal + (1.0 + 1e-9)
    count, (most, together) = min(count, len(variances)), CENTRES if arrays.on_accelerator(diagonal) else (1, 1)
    places, core, left = np.arange(count), slice(-min(CORE, count), None), (i for i in order if variances[i] < 0.0)
    while centres := list(islice(left, most)):
        similarity = block(np.array(centres), None, None) / size
        similarity *= first  # of equal rows, those without a value
        similarity = arrays.put(similarity, (np.arange(len(centres)), np.array(centres)), np.inf)
        near = np.ascontiguousarray(arrays.largest(similarity, count)[:, ::-1])  # the nearest come last
        parts: list[Array] = []
        for some in np.split(near, range(together, len(near), together)):
            K = xp.reshape(block(some.ravel(), some.ravel(), None), (len(some), count, len(some), count))
            parts += [K[i, :, i, :] for i in range(len(some))]
        A = xp.stack(parts)
        A = arrays.put(A, (slice(None), places, places), xp.linalg.diagonal(A) + arrays.like(own[near], A))
        # the last elements of the inverse follow from the last rows of the factor
        inverse = arrays.invert_lower(arrays.cholesky_each(A)[:, core, core] + 0.0)
        found, near = 1.0 / arrays.to_numpy(xp.sum(inverse * inverse, axis=1)) - own[near[:, core]], near[:, core]
        is_new = variances[near] < 0.0
        found = np.where(np.isfinite(found), np.maximum(found, 0.0), arrays.to_numpy(diagonal)[near])
        variances[near[is_new]] = found[is_new]
        first = arrays.put(first, near.ravel(), 1.0)
    return arrays.like(variances, diagonal)
