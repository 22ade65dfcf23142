"""The interface of all factorised systems, and operations that several of them share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .. import arrays
from ..arrays import Array

PROBES = 8  # number of random vectors in estimates of norms: the standard error of a squared norm is at most 50 %
CAREFUL = 1e-4  # 1 - h below which e/(1 - h) has lost too many digits: its error is about EPS/(1 - h) = 2e-12 there


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

    def _spectrum(self, lam: float) -> Array:
        """The factors of the columns Q for one ridge."""
        if self.eigenvalues is not None:
            return (1.0 if self.ridge is None else self.eigenvalues + self.ridge) / (self.eigenvalues + lam)
        if lam != self.ridge:
            raise ValueError(f"This factor is for the ridge {self.ridge!r}, not for {lam!r}.")
        return arrays.zeros((self.Q.shape[1],), self.Q) + 1.0

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Coefficients, bias, residuals, leverages and leave-one-out residuals for one ridge."""
        raise NotImplementedError

    def with_inverse(self) -> System:
        """The same system, prepared for many calls of `smoother`."""
        return self

    def loo_path(self, ridges: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows and their leave-one-out residuals (rows, ridges, k)."""
        raise ValueError(f"{type(self).__name__} is factorised for one C only.")

    def serves(self, lam: float, leverage: Array) -> bool:
        """Whether leave-one-out for this ridge is as accurate as with its own factor."""
        return False

    def criterion(self, classes: bool, lower: Array | None = None) -> tuple[float, Array, Array | None, float]:
        """The leave-one-out loss, and its derivatives in the kernel columns, in K_mm and in log(ridge)."""
        raise ValueError(f"{type(self).__name__} does not provide derivatives of the leave-one-out loss.")

    def noise(self, lam: float, lower: Array | None = None) -> list[tuple[Array, ...]]:
        """Changes of fitted and leave-one-out values due to random errors in the kernel values."""
        raise NotImplementedError

    def block_residuals(self, folds: Sequence[Array], lam: float) -> Array:
        """t_B - f_(B)(x_B) for every fold B, each left out as a whole."""
        raise NotImplementedError

    def band(self, lam: float, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """M[i, i + d] (width + 1, l) for distances d up to `width`, s (l, k) and w (l,), as NumPy arrays.

        The residuals r_B of any rows B that are left out together satisfy M_BB (w r)_B = s_B. M is I - H in the rows
        scaled by w, and s are the scaled residuals.
        """
        raise ValueError(f"{type(self).__name__} does not provide residuals of overlapping blocks.")

    def moves(self, lam: float, folds: Sequence[Array] | None = None) -> Array:
        """The change of each target that has the effect of leaving its row (or its fold) out.

        It moves the target to the prediction of the model without that row, unless a system says otherwise.
        """
        return self.solution(lam).loo_residuals if folds is None else self.block_residuals(folds, lam)

    def smoother(self, columns: Array, lam: float) -> Array:
        """df(x)/dt_i for new points (rows) and training rows (columns)."""
        raise NotImplementedError


def random_signs(rows: int, like: Array) -> Array:
    """PROBES columns of -1 and +1, the same in every call."""
    return arrays.like(np.random.RandomState(0).choice([-1.0, 1.0], (rows, PROBES)), like)


def gradient_noise(lower: Array) -> Array:
    """Random errors of size sqrt(k_jj) in the coordinates of whitened columns, where K = L L'."""
    size = arrays.namespace(lower).sqrt(arrays.row_squares(lower))[:, None]
    return arrays.solve_lower(lower, size * random_signs(lower.shape[0], lower))


def largest_moves(*moves: Array) -> tuple[Array, ...]:
    """The largest absolute value in every row of each array."""
    return tuple(arrays.namespace(values).max(arrays.namespace(values).abs(values), axis=1) for values in moves)


def close_to_one(leverage: Array) -> np.ndarray:
    """Numbers of the rows whose leverage h is so close to 1 that e/(1 - h) has lost too many digits."""
    return np.flatnonzero(arrays.to_numpy(1.0 - leverage) < CAREFUL)


def for_ridges(A: Array, spectra: Sequence[Array], projected: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Blocks of rows, A diag(spectrum) projected (rows, ridges, k) and the sums A_ik^2 spectrum_k (rows, ridges)."""
    columns = arrays.namespace(A).stack(list(spectra), axis=1)
    r, k = projected.shape
    scaled = arrays.namespace(A).reshape(columns[:, :, None] * projected[:, None, :], (r, len(spectra) * k))
    for rows in arrays.row_blocks(A.shape[0], 8 * (2 * r + (2 * k + 2) * len(spectra)), A):
        part = A[rows, :]
        product = arrays.namespace(A).reshape(arrays.matmul(part, scaled), (part.shape[0], len(spectra), k))
        yield rows, product, arrays.matmul(part * part, columns)


def band_of_products(A: np.ndarray, B: np.ndarray, width: int) -> np.ndarray:
    """(A B')[i, i + d] for distances d up to `width`, (width + 1, l); 0 beyond the last row."""
    out = np.zeros((width + 1, len(A)))
    for distance in range(width + 1):
        out[distance, : len(A) - distance] = np.einsum("ij,ij->i", A[: len(A) - distance], B[distance:])
    return out


def solve_factorised(L: Array, B: Array) -> Array:
    """(L L')^-1 B."""
    return arrays.solve_lower(L, arrays.solve_lower(L, B), transpose=True)


def solve_symmetric(A: Array, B: Array) -> Array:
    """A^-1 B for a symmetric A, by Cholesky where A is positive definite; infinite where A is singular."""
    L = arrays.cholesky(A + 0.0)
    if L is not None:
        return solve_factorised(L, B)
    try:
        return arrays.namespace(A).linalg.solve(A, B)
    except Exception as error:  # each namespace has its own class of LinAlgError
        if type(error).__name__ not in {"LinAlgError", "_LinAlgError"}:
            raise
        return B * 0.0 + math.inf  # the system without this fold has no solution
