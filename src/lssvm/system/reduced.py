"""Least squares on some columns of the KKT system, with all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import arrays
from ..arrays import EPS, Array
from .solution import Solution, System, solve_symmetric


@dataclass(frozen=True)
class Reduced(System):
    """Least squares on some columns of the KKT system, with all rows (Carvalho & Braga; Valyon & Horvath).

    Equation i is sum_j k_ij a_j + b + a_i lam/v_i = t_i with weight v_i, where the last term on the left is present
    only if row i is in the basis; one more equation, sum_j a_j = 0, has weight 1. There is no penalty.
    """

    Q: Array  # (l + 1, n + 1) orthonormal
    R: Array  # (n + 1, n + 1) upper triangular
    targets: Array  # (l, k)
    sqrt_weights: Array  # (l,)
    position: np.ndarray  # (l,) the column of a row in the basis, or -1
    ridge: Array  # (l,) lam/v of the rows in the basis, 0 elsewhere

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Coefficients, bias, residuals t - f, leverages and exact leave-one-out residuals t - f_(i)."""
        xp = arrays.namespace(self.Q)
        rows, x, equation = self._solve()
        leverage = arrays.row_squares(rows + 0.0)
        residuals = self._decision(equation, x)
        loo = self._moves(equation, leverage)
        inside = np.flatnonzero(self.position >= 0)
        # the coefficient of row i itself, in x_(i) = x - R^-1 q_i w_i loo_i
        inverse = arrays.take(arrays.invert_lower(self.R.T + 0.0).T, self.position[inside])
        own = xp.sum(inverse * arrays.take(rows, inside), axis=1) * arrays.take(self.sqrt_weights, inside)
        shrunk = arrays.take(x, self.position[inside]) - own[:, None] * arrays.take(loo, inside)
        loo = arrays.put(
            loo + 0.0, inside, arrays.take(loo, inside) + arrays.take(self.ridge, inside)[:, None] * shrunk
        )
        return Solution(x[:-1, :], x[-1, :], residuals, leverage, loo)

    def _solve(self) -> tuple[Array, Array, Array]:
        """Rows of Q, solution and residuals of the equations."""
        rows, w = self.Q[:-1, :], self.sqrt_weights[:, None]
        projected = rows.T @ (w * self.targets)
        x = arrays.solve_lower(self.R.T, projected, transpose=True)
        return rows, x, self.targets - (rows @ projected) / w

    def _decision(self, equation: Array, x: Array) -> Array:
        """Residuals t - f from those of the equations, as the ridge term is not part of f."""
        inside = np.flatnonzero(self.position >= 0)
        own = arrays.take(self.ridge, inside)[:, None] * arrays.take(x, self.position[inside])
        return arrays.put(equation + 0.0, inside, arrays.take(equation, inside) + own)

    @staticmethod
    def _moves(equation: Array, leverage: Array) -> Array:
        return equation / arrays.namespace(equation).clip(1.0 - leverage, EPS, None)[:, None]

    def moves(self, lam: float, folds: Sequence[Array] | None = None) -> Array:
        """The change of each target that has the effect of leaving its row (or its fold) out.

        It makes the residual of the row's equation 0.
        """
        rows, _, equation = self._solve()
        if folds is None:
            return self._moves(equation, arrays.row_squares(rows + 0.0))
        out = equation + 0.0
        for fold in filter(len, folds):
            out = arrays.put(out, fold, self._block_moves(rows, equation, fold))
        return out

    def _block_moves(self, rows: Array, equation: Array, fold: Array) -> Array:
        Q, w = arrays.take(rows, fold), arrays.take(self.sqrt_weights, fold)[:, None]
        return solve_symmetric(arrays.add_diagonal(-(Q @ Q.T), 1.0), w * arrays.take(equation, fold)) / w

    def block_residuals(self, folds: Sequence[Array], lam: float) -> Array:
        """t_B - f_(B)(x_B) for every fold B, each left out as a whole."""
        rows, x, equation = self._solve()
        out = equation + 0.0
        for fold in filter(len, folds):
            moves = self._block_moves(rows, equation, fold)
            scaled = arrays.take(self.sqrt_weights, fold)[:, None] * moves
            without = x - arrays.solve_lower(self.R.T, arrays.take(rows, fold).T @ scaled, transpose=True)
            block = self._decision(arrays.put(equation + 0.0, fold, moves), without)
            out = arrays.put(out, fold, arrays.take(block, fold))
        return out

    def smoother(self, K_new: Array, lam: float) -> Array:
        """df(x)/dt_i for new points (rows) and training rows (columns); K_new holds k(x, basis)."""
        ones = arrays.zeros((K_new.shape[0], 1), K_new) + 1.0
        columns = arrays.namespace(K_new).concat([K_new, ones], axis=1)
        return arrays.matmul(arrays.whiten_rows(columns, self.R.T), self.Q[:-1, :].T * self.sqrt_weights[None, :])


def factorise_reduced(K: Array, targets: Array, weights: Array, position: np.ndarray, lam: float) -> Reduced:
    """Factorise the column-reduced system; K (l x n) holds the kernel columns, `position` the column of a row or -1."""
    xp = arrays.namespace(K)
    n_rows, n = K.shape
    w = xp.sqrt(weights)
    own = arrays.like((position >= 0).astype(float), K) * lam / weights
    inside = np.flatnonzero(position >= 0)
    Z = arrays.zeros((n_rows + 1, n + 1), K)
    Z[:-1, :-1] = K
    Z = arrays.add_at(Z, (inside, position[inside]), arrays.take(own, inside))
    Z[:-1, :-1] *= w[:, None]
    Z[:-1, -1] = w
    Z[-1, :-1] = 1.0
    Q, R = xp.linalg.qr(Z)
    if float(xp.min(xp.abs(xp.linalg.diagonal(R)))) <= (n + 1) * EPS * float(xp.max(xp.abs(xp.linalg.diagonal(R)))):
        raise ValueError("The kept columns of the KKT system are linearly dependent: lower C or keep fewer columns.")
    return Reduced(Q, R, targets, w, position, own)
