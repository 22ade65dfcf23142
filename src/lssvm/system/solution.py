"""The interface of all factorised systems, and operations that several of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import arrays
from ..arrays import Array
from ..losses import log_deviance, log_press

PROBES = 8  # Norms are estimated from this many random vectors: a squared norm has a standard error of 50 %.
CAREFUL = 1e-4  # Below this 1 - h, e/(1 - h) has lost too many digits: its error there is about EPS/(1 - h) = 2e-12.


@dataclass(frozen=True)
class Solution:
    """The solution for one ridge, with k outputs side by side."""

    coef: Array  # (m, k): dual coefficients, or the weights of the whitened columns
    intercept: Array  # (k,)
    residuals: Array = None  # (l, k)
    leverage: Array = None  # (l,)
    loo_residuals: Array = None  # (l, k)


class System:
    """The interface of a factorised system; `lam` is a ridge, 1/C.

    Every system has `solution`, `block_residuals`, `moves` and `smoother`; the other methods exist only in some.
    """

    diagonal: Array = None  # (l,) of the kernel matrix, if that was factorised
    Q: Array  # (l, r)  columns whose products with their spectrum are the hat matrix, or its complement
    eigenvalues: Array  # (r,), or None if the factor is for one ridge
    ridge: float | None  # the only or smallest one; None for every ridge
    sqrt_weights: Array  # (l,)
    folds: Sequence[np.ndarray] | None  # rows that are left out together for `loo_residuals`; None: each by itself

    def _spectrum(self, lam: float) -> Array:
        """Return the factors of the columns Q for one ridge."""
        if self.eigenvalues is not None:
            return (1.0 if self.ridge is None else self.eigenvalues + self.ridge) / (self.eigenvalues + lam)
        if lam != self.ridge:
            raise ValueError(f"This factor is for the ridge {self.ridge!r}, not for {lam!r}.")
        return arrays.zeros((self.Q.shape[1],), self.Q) + 1.0

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Return the coefficients, bias, residuals, leverages and leave-one-out residuals for one ridge."""
        raise NotImplementedError

    def with_inverse(self) -> System:
        """Return the same system, prepared for many calls of `smoother`."""
        return self

    def loo_path(self, ridges: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of rows and their leave-one-out residuals (rows, ridges, k)."""
        raise ValueError(f"{type(self).__name__} is factorised for one C only.")

    def _fold_path(self, ridges: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Yield the same where folds are left out."""
        found = [self.solution(lam, careful=False).loo_residuals for lam in ridges]
        yield slice(None), arrays.namespace(found[0]).stack(found, axis=1)

    def serves(self, lam: float, leverage: Array) -> bool:
        """Return whether leave-one-out for this ridge is as accurate as with its own factor."""
        return False

    def criterion(self, classes: bool, lower: Array | None = None) -> tuple[float, Array, Array | None, float]:
        """Return the leave-one-out loss, and its derivatives in the kernel columns, in K_mm and in log(ridge)."""
        raise ValueError(f"{type(self).__name__} does not provide derivatives of the leave-one-out loss.")

    def _derivatives(
        self, classes: bool, e: Array, complement: Array, targets: Array, lam: float
    ) -> tuple[float, Array, Callable[..., Array]]:
        """Return `log_press` or `log_deviance`, its derivative a in the residuals e, and D X for that in H, D.

        Without folds, e/(1 - h) gives D = diag(b). With r_B = M_BB^-1 e_B (see `leave_out`) and the derivative u in r,
        a_B = M_BB^-1 u_B, and the blocks of D are a_B r_B', made symmetric. The last result is a function of X, and of
        lam and w for the product with lam S^-1 D S^-1 instead.
        """
        criterion, folds, weights = log_deviance if classes else log_press, self.folds, self.sqrt_weights**2
        if folds is None:
            value, a, b = criterion(e, complement, targets, weights)
            return value, a, lambda X, lam=1.0, w=1.0: (b * lam / w**2) * X
        r = self.leave_out(folds, e, lam)
        value, u, _ = criterion(r, 0.0 * complement + 1.0, targets, weights)
        a = self.leave_out(folds, u, lam)
        return value, a, lambda X, lam=1.0, w=1.0: _outer_products(folds, lam * a / w, r / w, X)

    def with_targets(self, targets: Array) -> System:
        """Return the same system for other targets."""
        raise NotImplementedError

    def noise_of_gradient(self, errors: Array, lam: float) -> tuple[Array, Array]:
        """Return changes of fitted and leave-one-out values due to errors in the gradient in the coefficients."""
        raise NotImplementedError

    def noise(self, lam: float, lower: Array | None = None) -> list[list[Array]]:
        """Return changes of fitted and leave-one-out values (l,) due to random errors in the kernel values.

        First for errors of size 1 in the targets, or of size sqrt(k_ii) if the kernel matrix was factorised; then, with
        whitened columns, for errors of size sqrt(k_jj) in the gradient with respect to the coefficients of the basis,
        where K_mm = L L' with L = `lower`.
        """
        z, xp = random_signs(self.Q.shape[0], self.Q), arrays.namespace(self.Q)
        if lower is None:
            z = xp.sqrt(abs(self.diagonal))[:, None] * z
        moved = self.with_targets(z).solution(lam, careful=False)
        found = [(z - moved.residuals, moved.loo_residuals)]
        if lower is not None:
            errors = xp.sqrt(arrays.row_squares(lower))[:, None] * random_signs(lower.shape[0], lower)
            found.append(self.noise_of_gradient(arrays.solve_lower(lower, errors), lam))
        return [[xp.max(xp.abs(moves), axis=1) for moves in pair] for pair in found]

    def block_residuals(self, folds: Sequence[Array], lam: float) -> Array:
        """Return t_B - f_(B)(x_B) for every fold B, each left out as a whole."""
        return replace(self, folds=folds).solution(lam).loo_residuals  # type: ignore[type-var]

    def blocks(self, rows: np.ndarray, lam: float) -> Array:
        """Return M_BB (folds, m, m) of folds B of m rows each, (folds, m); M is I - H in the rows scaled by w."""
        raise NotImplementedError

    def leave_out(self, folds: Sequence[np.ndarray], e: Array, lam: float) -> Array:
        """Return M_BB^-1 e_B for every fold B: turns residuals into those of models without B; all are scaled by w."""
        out, xp = e + 0.0, arrays.namespace(e)
        for rows in _by_size(folds, self.Q.shape[1]):
            found = solve_symmetric(self.blocks(rows, lam), gathered(e, rows))
            out = arrays.put(out, rows.reshape(-1), xp.reshape(found, (-1, e.shape[1])))
        return out

    def band(self, lam: float, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return M[i, i + d] (width + 1, l) for distances d up to `width`, s (l, k) and w (l,), as NumPy arrays.

        The residuals r_B of any rows B that are left out together satisfy M_BB (w r)_B = s_B. M is I - H in the rows
        scaled by w, and s are the scaled residuals.
        """
        raise ValueError(f"{type(self).__name__} does not provide residuals of overlapping blocks.")

    def moves(self, lam: float, folds: Sequence[Array] | None = None) -> Array:
        """Return the change of each target that has the effect of leaving its row (or its fold) out.

        It moves the target to the prediction of the model without that row, unless a system says otherwise.
        """
        return self.solution(lam).loo_residuals if folds is None else self.block_residuals(folds, lam)

    def smoother(self, columns: Array, lam: float) -> Array:
        """Return df(x)/dt_i for new points (rows) and training rows (columns)."""
        raise NotImplementedError


def random_signs(rows: int, like: Array) -> Array:
    """Return PROBES columns of -1 and +1, the same in every call."""
    return arrays.like(np.random.RandomState(0).choice([-1.0, 1.0], (rows, PROBES)), like)


def for_ridges(A: Array, spectra: Sequence[Array], projected: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Yield blocks of rows, A diag(spectrum) projected (rows, ridges, k), and sums A_ik^2 spectrum_k (rows, ridges)."""
    columns = arrays.namespace(A).stack(list(spectra), axis=1)
    r, k = projected.shape
    scaled = arrays.namespace(A).reshape(columns[:, :, None] * projected[:, None, :], (r, len(spectra) * k))
    for rows in arrays.row_blocks(A.shape[0], 8 * (2 * r + (2 * k + 2) * len(spectra)), A):
        part = A[rows, :]
        product = arrays.namespace(A).reshape(arrays.matmul(part, scaled), (part.shape[0], len(spectra), k))
        yield rows, product, arrays.matmul(part * part, columns)


def band_of_products(A: np.ndarray, B: np.ndarray, width: int) -> np.ndarray:
    """Return (A B')[i, i + d] for distances d up to `width`, (width + 1, l); 0 beyond the last row."""
    out = np.zeros((width + 1, len(A)))
    for distance in range(width + 1):
        out[distance, : len(A) - distance] = np.einsum("ij,ij->i", A[: len(A) - distance], B[distance:])
    return out


def solve_factorised(L: Array, B: Array) -> Array:
    """Return (L L')^-1 B."""
    return arrays.solve_lower(L, arrays.solve_lower(L, B), transpose=True)


def solve_symmetric(A: Array, B: Array) -> Array:
    """Return A^-1 B for a symmetric A or a batch of them; infinite where A is singular.

    A single matrix that is positive definite is solved by Cholesky.
    """
    xp = arrays.namespace(A)
    if A.ndim == 3 and A.shape[0] == 1:
        return solve_symmetric(A[0, :, :], B[0, :, :])[None, :, :]
    L = arrays.cholesky(A + 0.0) if A.ndim == 2 else None
    if L is not None:
        return solve_factorised(L, B)
    try:
        return xp.linalg.solve(A, B)
    except Exception as error:  # each namespace has its own class of LinAlgError
        if type(error).__name__ not in {"LinAlgError", "_LinAlgError"}:
            raise
    if A.ndim == 3:
        return xp.stack([solve_symmetric(A[k, :, :], B[k, :, :]) for k in range(A.shape[0])])
    return B * 0.0 + math.inf  # the system without this fold has no solution


def _by_size(folds: Sequence[np.ndarray], columns: int) -> Iterator[np.ndarray]:
    """Yield folds of equal size as the rows of matrices; rows of `columns` values fit in the working memory."""
    for size in sorted({len(fold) for fold in folds} - {0}):
        same = np.stack([fold for fold in folds if len(fold) == size])
        for part in arrays.row_blocks(len(same), 8 * size * (2 * columns + size)):
            yield same[part]


def gathered(A: Array, rows: np.ndarray) -> Array:
    """Return the rows of A in the places of their numbers, (folds, m, columns)."""
    return arrays.namespace(A).reshape(arrays.take(A, rows.reshape(-1)), (*rows.shape, A.shape[1]))


def _outer_products(folds: Sequence[np.ndarray], a: Array, r: Array, X: Array) -> Array:
    """Return 1/2 (a_B r_B' + r_B a_B') X_B for every fold B."""
    out, xp = 0.0 * X, arrays.namespace(X)
    for rows in _by_size(folds, X.shape[1]):
        own, left, part = (gathered(values, rows) for values in (a, r, X))
        found = own @ (xp.matrix_transpose(left) @ part) + left @ (xp.matrix_transpose(own) @ part)
        out = arrays.put(out, rows.reshape(-1), 0.5 * xp.reshape(found, (-1, X.shape[1])))
    return out
