"""Systems of fewer unknowns than rows, by orthonormal columns: the primal system, and columns of the KKT system."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import arrays
from ..arrays import EPS, Array
from .orthogonal import ORTHOGONAL, QUICK, orthogonalise
from .solution import (
    CAREFUL,
    Solution,
    System,
    band_of_products,
    for_ridges,
    gathered,
    solve_factorised,
    solve_symmetric,
)


@dataclass(frozen=True)
class Primal(System):
    """An orthogonalised primal system, for one ridge or, with `eigenvalues`, for all ridges from `ridge` upwards."""

    Q: Array  # (l, r)
    R: Array  # (r, r)  upper triangular, or diag(sqrt(eigenvalues + ridge)) V'
    bottom: Array  # (r, r)  B, with Q'Q + B'B = I
    eigenvalues: Array  # (r,)  of A'A, or None
    ridge: float
    targets: Array  # (l, k)  centred, not scaled by w
    mean: Array  # (k,)
    centre: Array  # (r,)  weighted mean of the whitened columns
    sqrt_weights: Array  # (l,)
    rounding: float = math.inf  # absolute error of the eigenvalues, if only this limits the orthogonality of Q
    lost: float = math.inf  # otherwise, the loss of orthogonality and the relative error of the singular values
    squares: Array = None  # (l,)  squared norms of the rows of Q, for one ridge
    folds: Sequence[np.ndarray] | None = None

    def serves(self, lam: float, leverage: Array) -> bool:
        """Return whether leave-one-out for this ridge is as accurate as with its own factor; see `orthogonalise`."""
        h = min(float(arrays.namespace(leverage).max(leverage)), 1.0 - CAREFUL)
        accurate = min(self.rounding / lam, self.lost) * h / (1.0 - h) <= ORTHOGONAL
        return self.eigenvalues is None or (self.folds is None and accurate)

    def _at(self, lam: float) -> tuple[Array, Array]:
        """Return Q and B of one ridge; B may be replaced by any matrix with the same B'B."""
        spectrum, xp = self._spectrum(lam), arrays.namespace(self.Q)
        if self.eigenvalues is None:
            return self.Q, self.bottom
        rest = arrays.identity(self.Q.shape[1], self.Q) * xp.sqrt(lam / (self.eigenvalues + lam))[None, :]
        return self.Q * xp.sqrt(spectrum)[None, :], rest

    def _by_inverse(self, rows: Array) -> Array:
        """Return the rows times R^-1; they may be overwritten."""
        if self.eigenvalues is None:
            return arrays.whiten_rows(rows, self.R.T)
        return arrays.matmul(rows, self.R.T) / (self.eigenvalues + self.ridge)[None, :]

    def _leverage(self, spectrum: Array) -> Array:
        squares = arrays.row_squares(self.Q, spectrum) if self.squares is None else self.squares
        return squares + self.sqrt_weights**2 / arrays.namespace(self.Q).sum(self.sqrt_weights**2)

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Return the weights of the whitened columns, bias, residuals, leverages and leave-one-out residuals.

        Without `careful`, rows with leverage near 1 keep the few digits of e/(1 - h): enough to compare ridges.
        """
        spectrum, w = self._spectrum(lam), self.sqrt_weights[:, None]
        projected = spectrum[:, None] * self.projected()
        fitted = self.Q @ projected
        if self.eigenvalues is None:
            coef = arrays.solve_lower(self.R.T, projected, transpose=True)
        else:
            scale = (self.eigenvalues + self.ridge)[:, None]
            if careful:  # corrects for the loss of orthogonality of Q
                rest = self.Q.T @ (w * self.targets - fitted) - lam * projected / scale
                projected = projected + spectrum[:, None] * rest
                fitted = self.Q @ projected
            coef = self.R.T @ (projected / scale)
        residuals, leverage = self.targets - fitted / w, self._leverage(spectrum)
        loo = residuals / arrays.namespace(w).clip(1.0 - leverage, EPS, None)[:, None]
        near = np.flatnonzero(arrays.to_numpy(1.0 - leverage) < CAREFUL)
        if careful and near.size:
            residuals, leverage, loo = self.careful(near, lam, residuals, leverage, loo)
        if self.folds is not None:
            leave_out = self._leave_out_carefully if careful else self.leave_out
            loo = leave_out(self.folds, w * residuals, lam) / w
        return Solution(coef, self.mean - self.centre @ coef, residuals, leverage, loo)

    def loo_path(self, ridges: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of rows and their leave-one-out residuals (rows, ridges, k), for all ridges from two products.

        They are those of `solution` without `careful`.
        """
        if self.folds is not None:
            yield from self._fold_path(ridges)
            return
        xp = arrays.namespace(self.Q)
        total = xp.sum(self.sqrt_weights**2)
        for rows, fitted, squares in for_ridges(self.Q, list(map(self._spectrum, ridges)), self.projected()):
            w = self.sqrt_weights[rows, None]
            complement = xp.clip(1.0 - squares - w * w / total, EPS, None)
            yield rows, (self.targets[rows, None, :] - fitted / w[:, :, None]) / complement[:, :, None]

    def projected(self) -> Array:
        """Return Q't, the fit in orthonormal columns; for one ridge corrected for the loss of orthogonality of Q."""
        t = self.sqrt_weights[:, None] * self.targets
        projected = self.Q.T @ t
        if self.eigenvalues is None:
            norm = arrays.namespace(t).linalg.vector_norm
            for _ in range(2):
                step = -(self.bottom.T @ (self.bottom @ projected))
                for rows in arrays.row_blocks(t.shape[0], 8 * self.Q.shape[1], t):  # read only once
                    step += self.Q[rows, :].T @ (t[rows, :] - self.Q[rows, :] @ projected)
                projected = projected + step
                if bool(norm(step) <= math.sqrt(EPS) * norm(projected)):
                    break  # the remaining error is the square of that
        return projected

    def criterion(self, classes: bool, lower: Array | None = None) -> tuple[float, Array, Array, float]:
        """Do as `Dual`, with the derivatives in the columns k_i (weights included), in K_mm and in log(ridge).

        The whitened columns are L^-1 k_i, L = `lower`; with T = L R', scaled and centred columns are Q T'. With a and D
        the derivatives in e and H (all scaled by w), c the fit in the columns Q and q = Q'a, the derivative in Q T' is
        -(I - H) a c' - e q' + 2 (I - H) D Q times T^-1; that in K_mm is ridge T^-T (sym(q c') - Q'D Q) T^-1.
        """
        if self.eigenvalues is not None:
            raise ValueError("The derivative of leave-one-out needs a factor for one ridge.")
        xp = arrays.namespace(self.Q)
        Q, w = self.Q, self.sqrt_weights[:, None]
        total = xp.sum(w * w)  # `float` would wait for the device
        c = self.projected()
        e = w * self.targets - Q @ c
        complement = xp.clip(1.0 - self.squares[:, None] - w * w / total, EPS, None)
        targets = self.targets + self.mean[None, :]
        value, a, times = self._derivatives(classes, e, complement, targets, self.ridge)
        q, DQ = Q.T @ a, times(Q)
        middle = arrays.matmul(DQ.T, Q)
        middle = 0.5 * (middle + middle.T)
        vector = Q @ q - a + w * (w[:, 0] @ a)[None, :] / total
        few = xp.concat([c.T, -q.T, -2.0 * (times(w)[:, 0] @ Q)[None, :] / total], axis=0)
        columns = arrays.add_product(2.0 * DQ, Q, -2.0 * middle)
        columns = arrays.add_product(columns, xp.concat([vector, e, w], axis=1), few)
        if arrays.on_accelerator(w) or not bool(xp.all(w == 1.0)):
            columns *= w
        inner = 0.5 * (q @ c.T + c @ q.T) - middle
        in_ridge = float(xp.sum(arrays.gram(self.bottom) * inner))
        T = arrays.matmul(lower, self.R.T)
        columns, inner = (arrays.unwhiten_rows(rows, T, QUICK) for rows in (columns, inner))
        return value, columns, self.ridge * arrays.unwhiten_rows(inner.T, T, QUICK), in_ridge

    def careful(self, near: Array, lam: float, residuals: Array, leverage: Array, loo: Array) -> tuple[Array, ...]:
        """Recompute the values of the rows `near`, which have lost digits as 1 - h -> 0.

        With the system of the other rows factorised first, the rows `near` have (I - H)_BB = (I + T T')^-1 =: P, a sum
        of positive terms, e = P e_(B) and leave-one-out residuals (P e_(B))_i / P_ii, as in the dual system.
        """
        xp = arrays.namespace(self.Q)
        if near.size == self.Q.shape[0]:  # one row must stay to fix the bias
            near = np.delete(near, int(np.argmin(arrays.to_numpy(leverage)[near])))
        without, T = self._without(near, lam)
        w = arrays.take(self.sqrt_weights, near)[:, None]
        L = arrays.cholesky(arrays.add_diagonal(arrays.gram(T.T), 1.0))
        if L is None:
            return residuals, leverage, loo
        e = solve_factorised(L, w * without)
        inverse = arrays.invert_lower(L + 0.0)
        p = xp.sum(inverse * inverse, axis=0)
        residuals = arrays.put(residuals, near, e / w)
        leverage = arrays.put(leverage, near, 1.0 - p)
        return residuals, leverage, arrays.put(loo, near, e / (w * p[:, None]))

    def _without(self, block: Array, lam: float) -> tuple[Array, Array]:
        """Return the residuals of rows `block` in the system of the others, and T with (I - H)_BB = (I + T T')^-1."""
        xp = arrays.namespace(self.Q)
        Q, bottom = self._at(lam)
        others = np.setdiff1d(np.arange(Q.shape[0]), arrays.to_numpy(block))
        w, w_block = arrays.take(self.sqrt_weights, others), arrays.take(self.sqrt_weights, block)
        total = float(w @ w)
        rows, targets = arrays.take(Q, others), arrays.take(self.targets, others)
        centre = (w @ rows) / total
        mean = (w * w) @ targets / total
        rows = arrays.add_outer(rows, -w, centre)
        block_rows = arrays.take(Q, block) - w_block[:, None] * centre[None, :]
        rows, _, R, _, _ = orthogonalise(rows, bottom + 0.0, for_own_rows=False)
        T = arrays.whiten_rows(block_rows + 0.0, R.T)
        coef = rows.T @ (w[:, None] * (targets - mean[None, :]))
        residuals = arrays.take(self.targets, block) - mean[None, :] - (T @ coef) / w_block[:, None]
        return residuals, xp.concat([T, w_block[:, None] / math.sqrt(total)], axis=1)

    def blocks(self, rows: np.ndarray, lam: float) -> Array:
        """Return I - H_BB."""
        xp, w = arrays.namespace(self.Q), self.sqrt_weights[:, None]
        part, w_part = gathered(self.Q, rows), gathered(w / xp.sqrt(xp.sum(w * w)), rows)
        M = arrays.identity(rows.shape[1], self.Q) - (part * self._spectrum(lam)) @ xp.matrix_transpose(part)
        return M - w_part @ xp.matrix_transpose(w_part)

    def _leave_out_carefully(self, folds: Sequence[np.ndarray], e: Array, lam: float) -> Array:
        """Do as `leave_out` for the model's own residuals e, but stably where I - H_BB is near-singular."""
        xp, w, out = arrays.namespace(self.Q), self.sqrt_weights, e + 0.0
        Q, total = self._at(lam)[0], float(w @ w)
        for fold in filter(len, folds):
            w_fold, own = arrays.take(w, fold)[:, None], arrays.take(e, fold)
            rows = xp.concat([arrays.take(Q, fold), w_fold / math.sqrt(total)], axis=1)
            short = rows.shape[0] <= rows.shape[1]
            L = arrays.cholesky(arrays.add_diagonal(-arrays.gram(rows.T if short else rows), 1.0))
            if L is None or float(xp.min(xp.linalg.diagonal(L))) ** 2 < CAREFUL:
                own = w_fold * self._without(fold, lam)[0]
            else:  # (I - R R')^-1 = I + R (I - R'R)^-1 R'
                own = solve_factorised(L, own) if short else own + rows @ solve_factorised(L, rows.T @ own)
            out = arrays.put(out, fold, own)
        return out

    def with_targets(self, targets: Array) -> Primal:
        v = self.sqrt_weights**2
        mean = (v @ targets) / arrays.namespace(v).sum(v)
        return replace(self, targets=targets - mean[None, :], mean=mean)

    def noise_of_gradient(self, errors: Array, lam: float) -> tuple[Array, Array]:
        spectrum = self._spectrum(lam)
        moved = self.Q @ (spectrum[:, None] * self._by_inverse(errors.T).T) / self.sqrt_weights[:, None]
        if self.folds is not None:
            w = self.sqrt_weights[:, None]
            return moved, self.leave_out(self.folds, w * moved, lam) / w
        complement = arrays.namespace(moved).clip(1.0 - self._leverage(spectrum), EPS, None)
        return moved, moved / complement[:, None]

    def band(self, lam: float, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        Q, w, spectrum = (arrays.to_numpy(a) for a in (self.Q, self.sqrt_weights, self._spectrum(lam)))
        band = -band_of_products(Q * spectrum, Q, width)
        band -= band_of_products(w[:, None], w[:, None], width) / float(w @ w)
        band[0] += 1.0
        return band, w[:, None] * arrays.to_numpy(self.solution(lam).residuals), w

    def smoother(self, phi_new: Array, lam: float) -> Array:
        """Return df(x)/dt_i for new points (rows, whitened columns phi_new) and training rows (columns)."""
        w, centred = self.sqrt_weights, phi_new - self.centre[None, :]
        q = self._by_inverse(centred) * self._spectrum(lam)[None, :]
        return w[None, :] * arrays.matmul(q, self.Q.T) + (w * w)[None, :] / float(w @ w)


def factorise_primal(
    phi: Array,
    targets: Array,
    weights: Array,
    ridge: float,
    *,
    every_ridge: bool = False,
    tolerance: float = ORTHOGONAL,
) -> Primal:
    """Orthogonalise the primal system; the whitened columns phi (l x r) are overwritten.

    With `every_ridge` the result serves all ridges from `ridge` upwards.
    """
    xp = arrays.namespace(phi)
    w = xp.sqrt(weights)
    total = xp.sum(weights)
    centre, mean = (weights @ phi) / total, (weights @ targets) / total
    targets = targets - mean[None, :]
    rest = (weights @ targets) / total  # rounding error of the first mean, if the offset is large
    targets, mean = targets - rest[None, :], mean + rest
    if bool(xp.all(w == 1.0)):
        phi = arrays.add_outer(phi, -w, centre)
    else:
        for rows in arrays.row_blocks(phi.shape[0], 8 * phi.shape[1], phi):
            phi[rows, :] -= centre[None, :]
            phi[rows, :] *= w[rows, None]
    if every_ridge:
        Q, R, bottom, eigenvalues, rounding, lost = _for_every_ridge(phi, ridge, tolerance)
        return Primal(Q, R, bottom, eigenvalues, ridge, targets, mean, centre, w, rounding, lost)
    loss = max(tolerance, arrays.LOSS)
    Q, bottom, R, _, squares = orthogonalise(phi, math.sqrt(ridge), tolerance, loss)
    return Primal(Q, R, bottom, None, ridge, targets, mean, centre, w, squares=squares)


def _for_every_ridge(A: Array, ridge: float, tolerance: float) -> tuple[Array, Array, Array, Array, float, float]:
    """Return Q, R, B and the eigenvalues of A'A for all ridges from `ridge` upwards, and their errors; overwrite A.

    They come from the singular vectors of R, after the columns have been orthogonalised. At the tolerance `QUICK` the
    eigenvectors of A'A suffice, if the smallest ridge is far above the rounding errors of A'A.
    """
    xp = arrays.namespace(A)
    rank = A.shape[1]
    limit = tolerance * ridge / EPS if tolerance >= QUICK and rank else -1.0  # for the largest eigenvalue
    largest = float(xp.sum(arrays.row_squares(A))) / max(rank, 1)  # a lower bound of it
    if largest <= limit:
        eigenvalues, turn = arrays.eigh(arrays.gram(A))
        largest = float(eigenvalues[-1])
    if largest <= limit:
        eigenvalues = xp.clip(eigenvalues, 0.0, None)
        singular = xp.sqrt(eigenvalues + ridge)
        turn, Vt = turn / singular[None, :], turn.T
        bottom, rounding, lost = math.sqrt(ridge) * turn, EPS * largest, math.inf
    else:
        A, bottom, R, condition, _ = orthogonalise(A, math.sqrt(ridge))
        turn, singular, Vt = xp.linalg.svd(R, full_matrices=False)
        bottom, rounding = arrays.matmul(bottom, turn), math.inf
        lost = EPS * (condition + float(singular[0] / singular[-1])) if rank else 0.0
        eigenvalues = xp.clip(singular * singular - ridge, 0.0, None)
    for rows in arrays.row_blocks(A.shape[0], 8 * A.shape[1], A):
        A[rows, :] = arrays.matmul(A[rows, :], turn)
    return A, singular[:, None] * Vt, bottom, eigenvalues, rounding, lost


@dataclass(frozen=True)
class Reduced(System):
    """Least squares on some columns of the KKT system, with all rows (Carvalho & Braga; Valyon & Horvath).

    Equation i is sum_j k_ij a_j + b + a_i lam/v_i = t_i with weight v_i, where the last term on the left is present
    only if row i is in the basis; one more equation, sum_j a_j = 0, has weight 1. There is no penalty.
    """

    rows: Array  # (l, n + 1) of the orthonormal columns Q
    R: Array  # (n + 1, n + 1) upper triangular
    solved: Array  # (n + 1, k) the coefficients and the bias
    equation: Array  # (l, k) residuals of the equations
    sqrt_weights: Array  # (l,)
    position: np.ndarray  # (l,) the column of a row in the basis, or -1
    own_ridge: Array  # (l,) lam/v of the rows in the basis, 0 elsewhere
    folds: Sequence[np.ndarray] | None = None

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Return the coefficients, bias, residuals t - f, leverages and exact leave-one-out residuals t - f_(i)."""
        moves, inside = self.moves(lam), np.flatnonzero(self.position >= 0)
        coef = arrays.take(self.solved, self.position[inside])
        # the coefficient of row i itself, in x_(i) = x - R^-1 q_i w_i moves_i
        inverse = arrays.take(arrays.invert_lower(self.R.T + 0.0).T, self.position[inside])
        own = arrays.namespace(coef).sum(inverse * arrays.take(self.rows, inside), axis=1)
        own = own * arrays.take(self.sqrt_weights, inside)
        loo = self._residuals(moves, coef - own[:, None] * arrays.take(moves, inside))
        loo = loo if self.folds is None else self.block_residuals(self.folds, lam)
        leverage = arrays.row_squares(self.rows + 0.0)
        return Solution(self.solved[:-1, :], self.solved[-1, :], self._residuals(self.equation, coef), leverage, loo)

    def _residuals(self, equation: Array, coef: Array) -> Array:
        """Return the residuals t - f from those of the equations and the coefficients of the rows in the basis.

        The ridge term of their equations is not part of f.
        """
        inside = np.flatnonzero(self.position >= 0)
        own = arrays.take(equation, inside) + arrays.take(self.own_ridge, inside)[:, None] * coef
        return arrays.put(equation + 0.0, inside, own)

    def moves(self, lam: float, folds: Sequence[Array] | None = None) -> Array:
        """Return the change of each target that has the effect of leaving its row (or its fold) out.

        It makes the residual of the row's equation 0.
        """
        if folds is None:
            complement = 1.0 - arrays.row_squares(self.rows + 0.0)
            return self.equation / arrays.namespace(complement).clip(complement, EPS, None)[:, None]
        out = self.equation + 0.0
        for fold in filter(len, folds):
            Q, w = arrays.take(self.rows, fold), arrays.take(self.sqrt_weights, fold)[:, None]
            moves = solve_symmetric(arrays.add_diagonal(-(Q @ Q.T), 1.0), w * arrays.take(self.equation, fold)) / w
            out = arrays.put(out, fold, moves)
        return out

    def block_residuals(self, folds: Sequence[Array], lam: float) -> Array:
        """Return t_B - f_(B)(x_B) for every fold B, each left out as a whole."""
        moves, inside = self.moves(lam, folds), np.flatnonzero(self.position >= 0)
        coef = arrays.take(self.solved, self.position[inside])
        for fold in filter(len, folds):
            own = np.isin(inside, fold)
            scaled = arrays.take(self.sqrt_weights, fold)[:, None] * arrays.take(moves, fold)
            change = arrays.solve_lower(self.R.T, arrays.take(self.rows, fold).T @ scaled, transpose=True)
            without = arrays.take(self.solved - change, self.position[inside[own]])
            coef = arrays.put(coef, np.flatnonzero(own), without)
        return self._residuals(moves, coef)

    def smoother(self, K_new: Array, lam: float) -> Array:
        """Return df(x)/dt_i for new points (rows) and training rows (columns); K_new holds k(x, basis)."""
        ones = arrays.zeros((K_new.shape[0], 1), K_new) + 1.0
        columns = arrays.namespace(K_new).concat([K_new, ones], axis=1)
        return arrays.matmul(arrays.whiten_rows(columns, self.R.T), self.rows.T * self.sqrt_weights[None, :])


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
    rows = Q[:-1, :]
    projected = rows.T @ (w[:, None] * targets)
    solved = arrays.solve_lower(R.T, projected, transpose=True)
    return Reduced(rows, R, solved, targets - (rows @ projected) / w[:, None], w, position, own)
