"""The dual system: the basis consists of the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import EPS, Array, NumericalError
from ..losses import log_deviance, log_press
from .solution import (
    Solution,
    System,
    band_of_products,
    for_ridges,
    largest_moves,
    random_signs,
    solve_symmetric,
    weighted_gram,
)


@dataclass(frozen=True)
class Dual(System):
    """A factorised dual system, for one ridge (`ridge`) or for every ridge (`eigenvalues`)."""

    root: Array  # (l, r)  M or U
    eigenvalues: Array  # or None
    ridge: float | None
    scaled: Array  # (l, k)  a, when the ridge is fixed, or None
    targets: Array  # (l, k)  S (t - mean)
    mean: Array  # (k,)
    sqrt_weights: Array  # (l,)
    bias_row: Array  # (l,)  the bias is bias_row'(S t) - bias_change'a
    bias_change: Array  # (l,)
    diagonal: Array  # (l,)  of K
    P: Array = None  # (l, l), if `with_inverse` has formed it
    is_dual = True

    def _spectrum(self, lam: float) -> Array:
        if self.eigenvalues is None:
            if lam != self.ridge:
                raise ValueError(f"This factor is for the ridge {self.ridge!r}, not for {lam!r}.")
            return arrays.zeros((self.root.shape[1],), self.root) + 1.0
        return 1.0 / (self.eigenvalues + lam)

    def _scaled(self, lam: float) -> Array:
        """The coefficients divided by w."""
        if self.scaled is not None:
            return self.scaled
        return self.root @ (self._spectrum(lam)[:, None] * (self.root.T @ self.targets))

    def coefficients(self) -> Array | None:
        return None if self.scaled is None else self.sqrt_weights[:, None] * self.scaled

    def with_inverse(self) -> Dual:
        return self if self.ridge is None else replace(self, P=self.inverse())

    def inverse(self) -> Array:
        """P, for a factor with a fixed ridge."""
        if self.ridge is None:
            raise ValueError("P needs a factor for one ridge.")
        return arrays.gram(self.root.T)

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Coefficients, bias, residuals, leverages and leave-one-out residuals for one ridge; always careful."""
        spectrum, w, a = self._spectrum(lam), self.sqrt_weights[:, None], self._scaled(lam)
        q = arrays.row_squares(self.root, None if self.eigenvalues is None else spectrum)
        intercept = self.mean + self.bias_row @ self.targets - self.bias_change @ a
        return Solution(w * a, intercept, lam * a / w, 1.0 - lam * q, a / (w * q[:, None]))

    def loo_path(self, ridges: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows and their leave-one-out residuals (rows, ridges, k), for all ridges from two products."""
        for rows, a, q in for_ridges(self.root, [self._spectrum(lam) for lam in ridges], self.root.T @ self.targets):
            yield rows, a / (self.sqrt_weights[rows, None] * q)[:, :, None]

    def criterion(self, classes: bool, lower: Array | None = None) -> tuple[float, Array, Array | None, float]:
        """`log_press`, or `log_deviance` for classes, and its derivatives in K and in log(ridge).

        With P as above in the coordinates of the coefficients alpha, d alpha = -P dK alpha and dP = -P dK P. A function
        of e = ridge alpha/v and 1 - h = ridge diag P/v with derivatives a in w e and b in h then has the derivative
        P diag(b ridge/v) P - sym((P u) alpha') in K, u = a ridge/w; e and h also depend on the ridge directly.
        """
        if self.ridge is None:
            raise NumericalError("The derivative of leave-one-out needs a factor for one ridge.")
        xp = arrays.namespace(self.root)
        w, lam = self.sqrt_weights[:, None], self.ridge
        P = arrays.gram((w * self.root).T)
        alpha = w * self.scaled
        complement = lam * xp.linalg.diagonal(P)[:, None] / (w * w)
        e = lam * alpha / w
        if classes:
            value, a, b = log_deviance(e, complement, self.targets / w + self.mean[None, :], self.sqrt_weights**2)
        else:
            value, a, b = log_press(e, complement)
        half = (P @ (a * lam / w)) @ alpha.T
        G = weighted_gram(P, b[:, 0] * lam / w[:, 0] ** 2) - 0.5 * (half + half.T)
        in_ridge = float(xp.sum(xp.linalg.diagonal(G) * lam / w[:, 0] ** 2))
        return value, G, None, in_ridge + float(xp.sum(a * e)) - float(xp.sum(b * complement))

    def block_residuals(self, folds: Sequence[Array], lam: float) -> Array:
        """t_B - f_(B)(x_B) for every fold B, each left out as a whole: P_BB^-1 a_B."""
        spectrum, w, a = self._spectrum(lam), self.sqrt_weights[:, None], self._scaled(lam)
        out = a + 0.0
        for fold in filter(len, folds):
            rows = arrays.take(self.root, fold)
            block = arrays.matmul(rows * spectrum[None, :], rows.T)
            out = arrays.put(out, fold, solve_symmetric(block, arrays.take(a, fold)) / arrays.take(w, fold))
        return out

    def band(self, lam: float, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        root, spectrum, w = (arrays.to_numpy(a) for a in (self.root, self._spectrum(lam), self.sqrt_weights))
        return band_of_products(root * spectrum, root, width), arrays.to_numpy(self._scaled(lam)), w

    def moves(self, lam: float, folds: Sequence[Array] | None = None) -> Array:
        """The change of each target that has the effect of leaving its row (or its fold) out.

        It moves the target to the prediction of the model without that row.
        """
        return self.solution(lam).loo_residuals if folds is None else self.block_residuals(folds, lam)

    def response(self, targets: Array, lam: float) -> tuple[Array, Array]:
        """Residuals and leave-one-out residuals for other targets (l, p)."""
        spectrum, w = self._spectrum(lam), self.sqrt_weights[:, None]
        a = arrays.matmul(self.root, spectrum[:, None] * arrays.matmul(self.root.T, w * targets))
        q = arrays.row_squares(self.root, None if self.eigenvalues is None else spectrum)
        return lam * a / w, a / (w * q[:, None])

    def noise(self, lam: float, lower: Array | None = None) -> list[tuple[Array, ...]]:
        """Changes of fitted and leave-one-out values (l,) when targets change by sqrt(k_ii) with random signs."""
        xp = arrays.namespace(self.root)
        z = xp.sqrt(xp.abs(self.diagonal))[:, None] * random_signs(self.diagonal.shape[0], self.diagonal)
        residuals, loo = self.response(z, lam)
        return [largest_moves(z - residuals, loo)]

    def smoother(self, K_new: Array, lam: float) -> Array:
        """df(x)/dt_i for new points (rows) and training rows (columns); K_new holds k(x, x_i)."""
        w, spectrum = self.sqrt_weights, self._spectrum(lam)
        moved = K_new * w[None, :] - self.bias_change[None, :]
        if self.P is not None:
            moved = arrays.symmetric_product(moved, self.P)
        else:
            moved = arrays.matmul(arrays.matmul(moved, self.root) * spectrum[None, :], self.root.T)
        return w[None, :] * (moved + self.bias_row[None, :])


def factorise_dual(K: Array, targets: Array, weights: Array, ridge: float | None = None) -> Dual | None:
    """Factorise the dual system for one ridge, or without `ridge` for every ridge; K (l x l) is overwritten.

    The result is None if K with the ridge is not positive definite to working precision. Without a ridge any symmetric
    K has a factor; for an indefinite one (a user's own matrix) the solution is the stationary point of the KKT system.
    """
    if ridge is not None:
        factor = _ridge_factor(K, targets, weights, ridge)
        if factor is None:
            return None
        inverse, scaled, (v, c), bordered = factor
        root = arrays.add_outer(inverse, -c * (inverse @ v), v).T
        return Dual(root=root, eigenvalues=None, ridge=ridge, scaled=scaled, **bordered)
    xp, n = arrays.namespace(K), K.shape[0]
    bordered, (v, c), first = _without_bias(K, targets, weights, lower=False)
    # the axis of the bias gets the smallest eigenvalue, which separates it from the null space
    K[first, first] = -2.0 * float(xp.max(xp.sum(xp.abs(K), axis=1))) or -1.0
    values, vectors = arrays.eigh(K)
    values, vectors = values[1:], vectors[:, 1:]
    largest = float(xp.max(xp.abs(values))) if n > 1 else 0.0
    values = xp.where(xp.abs(values) < n * EPS * largest, 0.0 * values, values)
    return Dual(root=_reflect(vectors, v, c), eigenvalues=values, ridge=None, scaled=None, **bordered)


def dual_inverse(K: Array, targets: Array, weights: Array, ridge: float) -> tuple[Array, Array] | None:
    """P and a for one ridge; K (l x l) is overwritten. None as in `factorise_dual`."""
    factor = _ridge_factor(K, targets, weights, ridge)
    if factor is None:
        return None
    inverse, scaled, (v, c), _ = factor
    P = arrays.gram_of_lower(inverse)
    _reflect_symmetric(P, v, c)
    return P, scaled


def _without_bias(
    K: Array, targets: Array, weights: Array, *, lower: bool
) -> tuple[dict[str, Any], tuple[Array, float], int]:
    """Overwrite K with H S K S H without the axis of the bias; with `lower`, only its lower triangle.

    Returns the fields of `Dual` that do not depend on the ridge, the reflection H, and the axis.
    """
    xp = arrays.namespace(K)
    n = K.shape[0]
    w = xp.sqrt(weights)
    mean = (weights @ targets) / xp.sum(weights)
    scaled_targets = w[:, None] * (targets - mean[None, :])
    diagonal = xp.linalg.diagonal(K) + 0.0
    if not bool(xp.all(w == 1.0)):
        for rows in arrays.row_blocks(n, 8 * n, K):
            K[rows, :] *= w[rows, None] * w[None, :]
    norm = math.sqrt(float(w @ w))
    v, c, first = _reflection(w)
    _reflect_symmetric(K, v, c, lower=lower)
    border = xp.concat([K[first, :first], K[first:, first]])
    border[first] = 0.0
    K[first, :] = 0.0
    K[:, first] = 0.0
    unit = arrays.zeros((n,), K)
    unit[first] = 1.0
    fields = {
        "targets": scaled_targets,
        "mean": mean,
        "sqrt_weights": w,
        "bias_row": (unit - c * float(v[first]) * v) / -norm,
        "bias_change": (border - c * float(v @ border) * v) / -norm,
        "diagonal": diagonal,
    }
    return fields, (v, c), first


def _ridge_factor(
    K: Array, targets: Array, weights: Array, ridge: float
) -> tuple[Array, Array, tuple[Array, float], dict[str, Any]] | None:
    """The inverse Cholesky factor of the matrix without the bias plus the ridge, the solution a, and H.

    The factor is 0 on the axis of the bias. The last part are the fields from `_without_bias`.
    """
    bordered, (v, c), first = _without_bias(K, targets, weights, lower=True)
    K = arrays.add_diagonal(K, ridge)
    K[first, first] = ridge
    L = arrays.cholesky(K)
    if L is None:
        return None
    reflected = _reflect(bordered["targets"] + 0.0, v, c)
    reflected[first, :] = 0.0
    inner = arrays.solve_lower(L, arrays.solve_lower(L, reflected), transpose=True)
    inverse = arrays.invert_lower(L)
    inverse[first, first] = 0.0
    return inverse, _reflect(inner, v, c), (v, c), bordered


def _reflection(w: Array) -> tuple[Array, float, int]:
    """v and c of the reflection H = I - c v v' with H w = -|w| e, and the axis e.

    The axis is that of the largest weight, so that a very large weight causes no cancellation in other rows.
    """
    first = int(arrays.namespace(w).argmax(w))
    v = w + 0.0
    v[first] += math.sqrt(float(w @ w))  # no cancellation
    return v, 2.0 / float(v @ v), first


def _reflect(B: Array, v: Array, c: float) -> Array:
    """H B for the reflection H = I - c v v'."""
    return arrays.add_outer(B, -c * v, v @ B)


def _reflect_symmetric(K: Array, v: Array, c: float, *, lower: bool = False) -> None:
    """Overwrite K with H K H; see `arrays.subtract_pair`."""
    p = c * (K @ v)
    p = p - (0.5 * c * float(v @ p)) * v
    arrays.subtract_pair(K, v, p, lower=lower)
