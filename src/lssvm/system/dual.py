"""The dual system: the basis consists of the rows, or has at least as many whitened columns as there are rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .. import arrays
from ..arrays import EPS, Array, NumericalError
from .solution import Solution, System, band_of_products, for_ridges, gathered, solve_factorised


@dataclass(frozen=True)
class Dual(System):
    """A factorised dual system, for one ridge (`ridge`) or for every ridge (`eigenvalues`).

    With `phi` it is the system of products of whitened columns, which needs no extra care for leverages near 1, and the
    coefficients are weights of these columns.
    """

    targets: Array  # (l, k)  S (t - mean)
    mean: Array  # (k,)
    sqrt_weights: Array  # (l,)
    bias_row: Array  # (l,)  the bias is bias_row'(S t) - bias_change'a
    bias_change: Array  # (l,)
    diagonal: Array  # (l,)  of K
    Q: Array = None  # (l, r)  M or U
    eigenvalues: Array = None
    ridge: float | None = None
    scaled: Array = None  # (l, k)  a, if it is known
    phi: Array = None  # (l, r)  the whitened columns, or None
    P: Array = None  # (l, l), if `with_inverse` has formed it
    folds: Sequence[np.ndarray] | None = None

    def with_inverse(self) -> Dual:
        return self if self.ridge is None else replace(self, P=arrays.gram(self.Q.T))

    def serves(self, lam: float, leverage: Array) -> bool:
        return lam == self.ridge

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Return the solution and its leave-one-out residuals for one ridge, which are always careful."""
        spectrum, w, a = self._spectrum(lam), self.sqrt_weights[:, None], self.scaled
        if a is None:
            a = self.Q @ (spectrum[:, None] * (self.Q.T @ self.targets))
        q = arrays.row_squares(self.Q, None if self.eigenvalues is None else spectrum)
        intercept = self.mean + self.bias_row @ self.targets - self.bias_change @ a
        coef = w * a if self.phi is None else self.phi.T @ (w * a)
        loo = a / (w * q[:, None]) if self.folds is None else self.leave_out(self.folds, lam * a, lam) / w
        return Solution(coef, intercept, lam * a / w, 1.0 - lam * q, loo)

    def loo_path(self, ridges: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of rows and their leave-one-out residuals (rows, ridges, k), of all ridges from two products."""
        if self.folds is not None:
            yield from self._fold_path(ridges)
            return
        for rows, a, q in for_ridges(self.Q, [self._spectrum(lam) for lam in ridges], self.Q.T @ self.targets):
            yield rows, a / (self.sqrt_weights[rows, None] * q)[:, :, None]

    def criterion(self, classes: bool, lower: Array | None = None) -> tuple[float, Array, Array | None, float]:
        """Return `log_press`, or `log_deviance` for classes, and its derivatives in K and in log(ridge).

        With whitened columns they are those of `Primal`, from the derivative G in phi phi': 2 G phi L^-1 in the kernel
        columns and -L^-T phi'G phi L^-1 in K_mm = L L', L = `lower`.

        With P as above in the coordinates of the coefficients alpha, d alpha = -P dK alpha and dP = -P dK P. A function
        of e = ridge alpha/v and I - H = ridge S^-1 P S^-1 with derivatives a in w e and D in H (see `_derivatives`)
        then has the derivative ridge P S^-1 D S^-1 P - sym((P u) alpha') in K, u = a ridge/w. What depends on the ridge
        directly cancels.
        """
        if self.ridge is None:
            raise NumericalError("The derivative of leave-one-out needs a factor for one ridge.")
        xp = arrays.namespace(self.Q)
        w, lam = self.sqrt_weights[:, None], self.ridge
        P = arrays.gram((w * self.Q).T)
        alpha = w * self.scaled
        complement = lam * xp.linalg.diagonal(P)[:, None] / (w * w)
        e = lam * alpha / w
        value, a, times = self._derivatives(classes, e, complement, self.targets / w + self.mean[None, :], lam)
        G = arrays.matmul(times(P.T, lam, w).T, P) - (P @ (a * lam / w)) @ alpha.T
        G = 0.5 * (G + G.T)
        in_ridge = float(xp.sum(xp.linalg.diagonal(G) * lam / w[:, 0] ** 2))
        if self.folds is None:  # no more than rounding errors, on which the last digits of a search depend
            in_ridge += float(xp.sum(a * e)) - float(xp.sum(times(complement)))
        if self.phi is None:
            return value, G, None, in_ridge
        product = arrays.matmul(G, self.phi)
        inner = arrays.unwhiten_rows(arrays.matmul(self.phi.T, product), lower)
        return value, arrays.unwhiten_rows(2.0 * product, lower), -arrays.unwhiten_rows(inner.T, lower), in_ridge

    def blocks(self, rows: np.ndarray, lam: float) -> Array:
        """Return lam P_BB."""
        part = gathered(self.Q, rows)
        return (part * (lam * self._spectrum(lam))) @ arrays.namespace(part).matrix_transpose(part)

    def band(self, lam: float, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        Q, spectrum, w = (arrays.to_numpy(a) for a in (self.Q, self._spectrum(lam), self.sqrt_weights))
        scaled = w[:, None] * arrays.to_numpy(self.solution(lam).residuals)
        return lam * band_of_products(Q * spectrum, Q, width), scaled, w

    def with_targets(self, targets: Array) -> Dual:
        return replace(self, scaled=None, targets=self.sqrt_weights[:, None] * targets, mean=0.0 * targets[0, :])

    def noise_of_gradient(self, errors: Array, lam: float) -> tuple[Array, Array]:
        moved = self.with_targets(self.phi @ errors / lam).solution(lam)
        return moved.residuals, moved.loo_residuals

    def smoother(self, K_new: Array, lam: float) -> Array:
        """Return df(x)/dt_i for new points (rows) and training rows (columns); K_new holds k(x, x_i), or phi(x)."""
        K_new = K_new if self.phi is None else arrays.matmul(K_new, self.phi.T)
        w, spectrum = self.sqrt_weights, self._spectrum(lam)
        moved = K_new * w[None, :] - self.bias_change[None, :]
        if self.P is not None:
            moved = arrays.symmetric_product(moved, self.P)
        else:
            moved = arrays.matmul(arrays.matmul(moved, self.Q) * spectrum[None, :], self.Q.T)
        return w[None, :] * (moved + self.bias_row[None, :])


def factorise_dual(
    matrix: Callable[[], Array], targets: Array, weights: Array, ridge: float | None = None, phi: Array = None
) -> Dual:
    """Factorise the dual system for one ridge, or without `ridge` for every ridge.

    `matrix` computes K (l x l), or the products of the whitened columns `phi`. If K with the ridge is not positive
    definite to working precision, the result serves every ridge: any symmetric K has such a factor, and for an
    indefinite one (a user's own matrix) the solution is the stationary point of the KKT system.
    """
    K = matrix()
    xp, n = arrays.namespace(K), K.shape[0]
    diagonal, w = xp.linalg.diagonal(K) + 0.0, xp.sqrt(weights)
    mean = (weights @ targets) / xp.sum(weights)
    scaled = w[:, None] * (targets - mean[None, :])
    if not bool(xp.all(w == 1.0)):
        for rows in arrays.row_blocks(n, 8 * n, K):
            K[rows, :] *= w[rows, None] * w[None, :]
    # the reflection H = I - c v v' with H w = -|w| e; e is the axis of the largest weight, so that a very large weight
    # causes no cancellation in other rows
    norm, first, v = math.sqrt(float(w @ w)), int(xp.argmax(w)), w + 0.0
    v[first] += norm
    c = 2.0 / float(v @ v)
    p = c * (K @ v)
    arrays.subtract_pair(K, v, p - (0.5 * c * float(v @ p)) * v, lower=ridge is not None)  # H K H
    border = xp.concat([K[first, :first], K[first:, first]])  # from the lower triangle
    border[first] = 0.0
    K[first, :] = 0.0
    K[:, first] = 0.0
    unit = arrays.zeros((n,), K)
    unit[first] = 1.0
    bias_row, bias_change = (unit - c * float(v[first]) * v) / -norm, (border - c * float(v @ border) * v) / -norm
    dual = partial(Dual, scaled, mean, w, bias_row, bias_change, diagonal, phi=phi)
    if ridge is None:
        # the axis of the bias gets the smallest eigenvalue, which separates it from the null space
        K[first, first] = -2.0 * float(xp.max(xp.sum(xp.abs(K), axis=1))) or -1.0
        values, vectors = arrays.eigh(K)
        values, vectors = values[1:], vectors[:, 1:]
        largest = float(xp.max(xp.abs(values))) if n > 1 else 0.0
        values = xp.where(xp.abs(values) < n * EPS * largest, 0.0 * values, values)
        return dual(arrays.add_outer(vectors, -c * v, v @ vectors), eigenvalues=values)
    K = arrays.add_diagonal(K, ridge)
    K[first, first] = ridge
    L = arrays.cholesky(K)
    if L is None:
        return factorise_dual(matrix, targets, weights, None, phi)
    reflected = arrays.add_outer(scaled + 0.0, -c * v, v @ scaled)
    reflected[first, :] = 0.0
    solved = solve_factorised(L, reflected)
    inverse = arrays.invert_lower(L)
    inverse[first, first] = 0.0  # on the axis of the bias
    Q = arrays.add_outer(inverse, -c * (inverse @ v), v).T
    return dual(Q, ridge=ridge, scaled=arrays.add_outer(solved, -c * v, v @ solved))
