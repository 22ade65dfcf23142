"""The only module that factorises a machine. It knows rows, weights, targets and ridges, and no kernel.

Both machines minimise  lam |g|^2 + sum_i v_i (t_i - f_i - b)^2  with b free, lam = 1/C; w = sqrt(v), S = diag(w).

`dual`    the basis is the rows:  (S K S + lam I) a + w b = S t,  w'a = 0,  coefficients S a. One Householder reflection
          H with H w = -|w| e removes the bias: a = P S t, P = N (N'(SKS + lam I)N)^-1 N', N the other columns of H.
          P = M diag(g) M': M = N L^-T, g = 1 from a Cholesky factor (one ridge), or the eigenvectors M = U and
          g = 1/(d + lam) (every ridge). The left-out residual is a_i/(w_i P_ii), the leverage 1 - lam P_ii.
`primal`  a smaller basis, whitened columns Phi (Phi Phi' = K_XS K_SS^-1 K_SX), centred and scaled by w: A. The stacked
          matrix [A; sqrt(lam) I] = [Q; B] R is orthogonalised: the fit is Q Q' t, the leverage |q_i|^2 + v_i/sum v.
          With the singular values of R the same Q serves every larger ridge.

Left-out residuals are t_i - f_(i)(x_i) in the units of the targets: no square root of a weight is left in them. Ridge,
weights and basis are held fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import _xp
from ._xp import EPS, Array, NumericalError

ORTHOGONAL = 1e-10  # loss of orthogonality, times the amplification of leave-one-out, that asks for another pass
SURE = 10.0  # by which the loss that is expected has to stay below that; seen: 0.7 to 9 times as much
PROBES = 8  # random combinations of columns from which it is estimated
QUICK = 1e-6  # loss that is enough to compare one setting with another
PLAIN = 1e-5  # loss of a machine from sums of plain columns, whose solution is refined and whose leverages are not
REFINED = 1e-12  # error at which a solution is no longer refined
SUMMED = 1e-9  # loss of orthogonality of a machine from sums that asks for another pass over the rows
MARGIN = 1e6  # decision values of classes count as no larger
SLOPE_STEPS = 30  # at most, of the slope of a log loss,
SLOPE_ACCURACY = 1e-6  # until it moves by less than this, relatively: the loss is then sure to the square of it
TINY = 1e-300
CAREFUL = 1e-4  # 1 - h below which e/(1 - h) has lost too many digits


@dataclass(frozen=True)
class Solution:
    """One machine for one ridge; k targets side by side."""

    coef: Array  # (m, k): dual coefficients, or the weights of the whitened columns
    intercept: Array  # (k,)
    residuals: Array  # (l, k)
    leverage: Array  # (l,)
    loo_residuals: Array  # (l, k)


def log_press(e: Array, complement: Array) -> tuple[float, Array, Array]:
    """log of PRESS = sum (e/(1 - h))^2, from scaled residuals e (l, k) and 1 - h (l, 1); its derivatives in e and h."""
    xp = _xp.namespace(e)
    r = e / complement
    press = float(xp.sum(r * r))
    if not press > 0:
        raise NumericalError("All left-out residuals are 0: nothing is left to choose by.")
    a = 2.0 * r / (press * complement)
    return math.log(press), a, xp.sum(a * r, axis=1)[:, None]


def log_deviance(e: Array, complement: Array, targets: Array, weights: Array) -> tuple[float, Array, Array]:
    """log of the mean `log_loss` of classes from what `log_press` takes, targets and weights; the same derivatives."""
    xp = _xp.namespace(e)
    r = e / complement
    w, one = xp.sqrt(weights)[:, None], 0.0 * targets + 1.0
    t = xp.where(targets > 0, one, -one)
    loss, slope = log_loss((t - r / w)[:, None, :], t, weights)
    a = -slope[:, 0, :] / (float(loss[0]) * w * complement)
    return math.log(float(loss[0])), a, xp.sum(a * r, axis=1)[:, None]


def log_loss(f: Array, targets: Array, weights: Array) -> tuple[Array, Array]:
    """Mean log loss (c,) of decision values f (l, c, k) of c machines for targets -1 and +1, its derivative in f.

    P(t = 1) = 1/(1 + exp(-slope f)), with the slope of the smallest loss for each machine: a machine is judged by what
    its values tell, not by their size, and by the envelope theorem the slope has no part in the derivative. Several
    columns are as many questions with one slope; halved, for a row that is wrong is wrong in two of them. As in Platt
    (1999) a class of n rows aims at (n + 1)/(n + 2), so that classes which can be told apart have a finite slope.
    """
    xp = _xp.namespace(f)
    v = weights[:, None] * (f.shape[0] / float(xp.sum(weights)))  # in rows: no unit of weights moves the aim
    positive = xp.sum(xp.where(targets > 0, v, 0.0 * targets), axis=0)[None, :]
    count = xp.where(targets > 0, positive, f.shape[0] - positive)
    miss, v = (1.0 / (count + 2.0))[:, None, :], v[:, :, None]
    margin = targets[:, None, :] * f
    margin = xp.where(margin > -MARGIN, xp.clip(margin, None, MARGIN), 0.0 * targets[:, None, :] - MARGIN)  # NaN, too
    weighted = v * margin
    total = lambda values: xp.sum(values, axis=(0, 2))[None, :, None]  # noqa: E731
    slope = 3.0 / (xp.sqrt(total(weighted * margin) / total(v + 0.0 * margin)) + EPS)
    low, high = slope / 1e6, slope * 1e6
    for _ in range(SLOPE_STEPS):  # Newton's, kept within where the derivative, which rises, changes its sign
        p = 1.0 / (1.0 + xp.exp(xp.clip(-slope * margin, None, 700.0)))
        first = total(weighted * (p - 1.0 + miss))
        second = total(weighted * margin * p * (1.0 - p))
        low, high = xp.where(first < 0, slope, low), xp.where(first > 0, slope, high)
        step = slope - first / (second + TINY)
        step = xp.where((step > low) & (step < high), step, xp.sqrt(low * high))
        change = float(xp.max(xp.abs(step - slope) / slope))
        slope = step
        if change < SLOPE_ACCURACY:
            break
    z = slope * margin
    p = 1.0 / (1.0 + xp.exp(xp.clip(-z, None, 700.0)))
    losses = xp.clip(-z, 0.0, None) + xp.log1p(xp.exp(-xp.abs(z))) + miss * z
    size = f.shape[0] * (1.0 if f.shape[2] == 1 else 2.0)
    return total(v * losses)[0, :, 0] / size, (v * (p - 1.0 + miss) * slope) * targets[:, None, :] / size


# The dual machine -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Dual:
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

    def _spectrum(self, lam: float) -> Array:
        if self.eigenvalues is None:
            if lam != self.ridge:
                raise ValueError(f"This factor serves the ridge {self.ridge!r}, not {lam!r}.")
            return _xp.zeros((self.root.shape[1],), self.root) + 1.0
        return 1.0 / (self.eigenvalues + lam)

    def inverse(self) -> Array:
        """P for the one ridge."""
        if self.ridge is None:
            raise ValueError("P needs a factor for one ridge.")
        return _xp.gram(self.root.T)

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Coefficients, bias, residuals, leverages and left-out residuals for one ridge; always careful."""
        spectrum, w = self._spectrum(lam), self.sqrt_weights[:, None]
        a = self.scaled
        if a is None:
            a = self.root @ (spectrum[:, None] * (self.root.T @ self.targets))
        q = _xp.row_squares(self.root, None if self.eigenvalues is None else spectrum)
        intercept = self.mean + self.bias_row @ self.targets - self.bias_change @ a
        return Solution(w * a, intercept, lam * a / w, 1.0 - lam * q, a / (w * q[:, None]))

    def left_out(self, ridges: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows and their left-out residuals (rows, ridges, k), of all ridges by two products."""
        for rows, a, q in _for_ridges(self.root, [self._spectrum(lam) for lam in ridges], self.root.T @ self.targets):
            yield rows, a / (self.sqrt_weights[rows, None] * q)[:, :, None]

    def criterion(self, classes: bool) -> tuple[float, Array, float]:
        """`log_press`, or `log_deviance` for classes, and its derivatives in K and in log(ridge).

        With P as above in the coordinates of the coefficients alpha, d alpha = -P dK alpha and dP = -P dK P. A function
        of e = ridge alpha/v and 1 - h = ridge diag P/v with derivatives a and b in w e and in h then has
        P diag(b ridge/v) P - sym((P u) alpha') in K, u = a ridge/w, plus what the ridge itself does to e and h.
        """
        if self.ridge is None:
            raise NumericalError("The derivative of leave-one-out needs a factor for one ridge.")
        xp = _xp.namespace(self.root)
        w, lam = self.sqrt_weights[:, None], self.ridge
        P = _xp.gram((w * self.root).T)
        alpha = w * self.scaled
        complement = lam * xp.linalg.diagonal(P)[:, None] / (w * w)
        e = lam * alpha / w
        if classes:
            value, a, b = log_deviance(e, complement, self.targets / w + self.mean[None, :], self.sqrt_weights**2)
        else:
            value, a, b = log_press(e, complement)
        half = (P @ (a * lam / w)) @ alpha.T
        G = _weighted_gram(P, b[:, 0] * lam / w[:, 0] ** 2) - 0.5 * (half + half.T)
        in_ridge = float(xp.sum(xp.linalg.diagonal(G) * lam / w[:, 0] ** 2))
        return value, G, in_ridge + float(xp.sum(a * e)) - float(xp.sum(b * complement))

    def block_residuals(self, folds: Sequence[Array], lam: float) -> Array:
        """t_B - f_(B)(x_B) for every fold B, each left out as a whole: P_BB^-1 a_B."""
        spectrum, w = self._spectrum(lam), self.sqrt_weights[:, None]
        a = self.solution(lam).coef / w
        out = a + 0.0
        for fold in filter(len, folds):
            rows = _xp.take(self.root, fold)
            block = _xp.matmul(rows * spectrum[None, :], rows.T)
            out = _xp.put(out, fold, _solve_symmetric(block, _xp.take(a, fold)) / _xp.take(w, fold))
        return out

    def moves(self, lam: float, folds: Sequence[Array] | None = None) -> Array:
        """How far the targets move when a row, or its fold, is left out: onto what the others predict."""
        return self.solution(lam).loo_residuals if folds is None else self.block_residuals(folds, lam)

    def response(self, targets: Array, lam: float) -> tuple[Array, Array]:
        """How residuals and left-out residuals answer other targets (l, p)."""
        spectrum, w = self._spectrum(lam), self.sqrt_weights[:, None]
        a = _xp.matmul(self.root, spectrum[:, None] * _xp.matmul(self.root.T, w * targets))
        q = _xp.row_squares(self.root, None if self.eigenvalues is None else spectrum)
        return lam * a / w, a / (w * q[:, None])

    def noise(self, lam: float) -> tuple[Array, ...]:
        """How far targets that are off by sqrt(k_ii), with random signs, move fitted values and left-out ones (l,)."""
        xp = _xp.namespace(self.root)
        z = xp.sqrt(xp.abs(self.diagonal))[:, None] * random_signs(self.diagonal.shape[0], self.diagonal)
        residuals, left_out = self.response(z, lam)
        return _largest(z - residuals, left_out)

    def smoother(self, K_new: Array, lam: float) -> Array:
        """df(x)/dt_i for new points (rows) and training rows (columns); K_new holds k(x, x_i)."""
        w = self.sqrt_weights
        P = lambda B: _xp.matmul(_xp.matmul(B, self.root) * self._spectrum(lam)[None, :], self.root.T)  # noqa: E731
        return w[None, :] * (P(K_new * w[None, :] - self.bias_change[None, :]) + self.bias_row[None, :])


def dual(K: Array, targets: Array, weights: Array, ridge: float | None = None) -> Dual | None:
    """Factorise the dual system; K (l x l) is overwritten. Without a ridge, for every ridge.

    None when K with the ridge is not positive definite to working precision; without a ridge any symmetric K has
    a factor, and an indefinite one (the user's own matrix) the stationary point of its KKT system.
    """
    bordered = _without_bias(K, targets, weights, lower=ridge is not None)
    v, c, first = bordered.pop("reflection")
    if ridge is not None:
        factor = _ridge_factor(K, bordered["targets"], ridge, v, c, first)
        if factor is None:
            return None
        inverse, scaled = factor
        root = _xp.add_outer(inverse, -c * (inverse @ v), v).T
        return Dual(root=root, eigenvalues=None, ridge=ridge, scaled=scaled, **bordered)
    xp, n = _xp.namespace(K), K.shape[0]
    # the axis taken out stays apart from the null space: its eigenvalue is the smallest
    K[first, first] = -2.0 * float(xp.max(xp.sum(xp.abs(K), axis=1))) or -1.0
    values, vectors = _xp.eigh(K)
    values, vectors = values[1:], vectors[:, 1:]
    largest = float(xp.max(xp.abs(values))) if n > 1 else 0.0
    values = xp.where(xp.abs(values) < n * EPS * largest, 0.0 * values, values)
    return Dual(root=_reflect(vectors, v, c), eigenvalues=values, ridge=None, scaled=None, **bordered)


def dual_inverse(K: Array, targets: Array, weights: Array, ridge: float) -> tuple[Array, Array] | None:
    """P and a for one ridge; K (l x l) is overwritten. None as for `dual`."""
    bordered = _without_bias(K, targets, weights, lower=True)
    v, c, first = bordered.pop("reflection")
    factor = _ridge_factor(K, bordered["targets"], ridge, v, c, first)
    if factor is None:
        return None
    inverse, scaled = factor
    P = _xp.gram_of_lower(inverse)
    _reflect_symmetric(P, v, c)
    return P, scaled


def _without_bias(K: Array, targets: Array, weights: Array, *, lower: bool) -> dict[str, Any]:
    """Overwrite K with H S K S H less the axis of the bias, of its `lower` triangle alone if that is enough.

    Returns the fields of `Dual` that have no ridge in them, and the `reflection` H.
    """
    xp = _xp.namespace(K)
    n = K.shape[0]
    w = xp.sqrt(weights)
    mean = (weights @ targets) / xp.sum(weights)
    scaled_targets = w[:, None] * (targets - mean[None, :])
    diagonal = xp.linalg.diagonal(K) + 0.0
    if not bool(xp.all(w == 1.0)):
        for rows in _xp.row_blocks(n, 8 * n, K):
            K[rows, :] *= w[rows, None] * w[None, :]
    norm = math.sqrt(float(w @ w))
    v, c, first = _reflection(w)
    _reflect_symmetric(K, v, c, lower=lower)
    border = xp.concat([K[first, :first], K[first:, first]])
    border[first] = 0.0
    K[first, :] = 0.0
    K[:, first] = 0.0
    unit = _xp.zeros((n,), K)
    unit[first] = 1.0
    return {
        "targets": scaled_targets,
        "mean": mean,
        "sqrt_weights": w,
        "bias_row": (unit - c * float(v[first]) * v) / -norm,
        "bias_change": (border - c * float(v @ border) * v) / -norm,
        "diagonal": diagonal,
        "reflection": (v, c, first),
    }


def _ridge_factor(K: Array, targets: Array, ridge: float, v: Array, c: float, first: int) -> tuple[Array, Array] | None:
    """The inverse Cholesky factor of what `_without_bias` left of K (overwritten), with a ridge, and the solution a.

    It is 0 on the axis of the bias.
    """
    K = _xp.add_diagonal(K, ridge)
    K[first, first] = ridge
    L = _xp.cholesky(K)
    if L is None:
        return None
    reflected = _reflect(targets + 0.0, v, c)
    reflected[first, :] = 0.0
    inner = _xp.solve_lower(L, _xp.solve_lower(L, reflected), transpose=True)
    inverse = _xp.invert_lower(L)
    inverse[first, first] = 0.0
    return inverse, _reflect(inner, v, c)


def _reflection(w: Array) -> tuple[Array, float, int]:
    """v and c of the reflection H = I - c v v' with H w = -|w| e, and the axis e.

    It is that of the largest entry: the heaviest row costs no other its digits.
    """
    first = int(_xp.namespace(w).argmax(w))
    v = w + 0.0
    v[first] += math.sqrt(float(w @ w))  # no cancellation
    return v, 2.0 / float(v @ v), first


def _reflect(B: Array, v: Array, c: float) -> Array:
    """H B for the reflection H = I - c v v'."""
    return _xp.add_outer(B, -c * v, v @ B)


def _reflect_symmetric(K: Array, v: Array, c: float, *, lower: bool = False) -> None:
    """Overwrite K with H K H; see `_xp.subtract_pair`."""
    p = c * (K @ v)
    p = p - (0.5 * c * float(v @ p)) * v
    _xp.subtract_pair(K, v, p, lower=lower)


# The primal machine ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Primal:
    """An orthogonalised primal system, for one ridge or for every ridge not below it (`eigenvalues`)."""

    Q: Array  # (l, r)
    R: Array  # (r, r)  upper triangular, or diag(sqrt(eigenvalues + ridge)) V'
    bottom: Array  # (r, r)  B, with Q'Q + B'B = I
    eigenvalues: Array  # (r,)  of A'A, or None
    ridge: float
    targets: Array  # (l, k)  plain, less their mean
    mean: Array  # (k,)
    centre: Array  # (r,)  weighted mean of the whitened columns
    sqrt_weights: Array  # (l,)
    rounding: float = math.inf  # absolute error of the eigenvalues, where it is all that Q lacks in orthogonality,
    lost: float = math.inf  # or what it lacks at most and the singular values are off, relatively
    squares: Array = None  # (l,)  of the rows of Q, for one ridge

    def serves(self, lam: float, leverage: Array) -> bool:
        """Whether leave-one-out of one ridge is as sure as with a factor of its own; see `orthogonalise`."""
        h = min(float(_xp.namespace(leverage).max(leverage)), 1.0 - CAREFUL)
        return min(self.rounding / lam, self.lost) * h / (1.0 - h) <= ORTHOGONAL

    def _spectrum(self, lam: float) -> Array | None:
        if self.eigenvalues is None:
            if lam != self.ridge:
                raise ValueError(f"This factor serves the ridge {self.ridge!r}, not {lam!r}.")
            return None
        return (self.eigenvalues + self.ridge) / (self.eigenvalues + lam)

    def _at(self, lam: float) -> tuple[Array, Array]:
        """Q and B'B of one ridge."""
        spectrum = self._spectrum(lam)
        if spectrum is None:
            return self.Q, _xp.gram(self.bottom)
        xp = _xp.namespace(self.Q)
        rest = _xp.identity(self.Q.shape[1], self.Q) * (lam / (self.eigenvalues + lam))[None, :]
        return self.Q * xp.sqrt(spectrum)[None, :], rest

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Weights of the whitened columns, bias, residuals, leverages and left-out residuals for one ridge.

        Without `careful`, rows of leverage near 1 keep the few digits of e/(1 - h): enough to compare ridges.
        """
        xp = _xp.namespace(self.Q)
        spectrum, w = self._spectrum(lam), self.sqrt_weights[:, None]
        projected = self.projected()
        if spectrum is None:
            fitted = self.Q @ projected
            coef = _xp.solve_lower(self.R.T, projected, transpose=True)
            squares = self.squares
        else:
            projected = spectrum[:, None] * projected
            scale = (self.eigenvalues + self.ridge)[:, None]
            fitted = self.Q @ projected
            if careful:  # refined by what Q lacks in orthogonality
                rest = self.Q.T @ (w * self.targets - fitted) - lam * projected / scale
                projected = projected + spectrum[:, None] * rest
                fitted = self.Q @ projected
            coef = self.R.T @ (projected / scale)
            squares = _xp.row_squares(self.Q, spectrum)
        residuals = self.targets - fitted / w
        total = float(xp.sum(w * w))
        leverage = squares + w[:, 0] ** 2 / total
        loo = residuals / xp.clip(1.0 - leverage, EPS, None)[:, None]
        near = close_to_one(leverage)
        if careful and near.size:
            residuals, leverage, loo = self.careful(near, lam, residuals, leverage, loo)
        return Solution(coef, self.mean - self.centre @ coef, residuals, leverage, loo)

    def left_out(self, ridges: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows and their left-out residuals (rows, ridges, k), not careful, of all ridges by two products."""
        xp = _xp.namespace(self.Q)
        ones = _xp.zeros((self.Q.shape[1],), self.Q) + 1.0
        spectra = [ones if spectrum is None else spectrum for spectrum in map(self._spectrum, ridges)]
        total = float(xp.sum(self.sqrt_weights**2))
        for rows, fitted, squares in _for_ridges(self.Q, spectra, self.projected()):
            w = self.sqrt_weights[rows, None]
            complement = xp.clip(1.0 - squares - w * w / total, EPS, None)
            yield rows, (self.targets[rows, None, :] - fitted / w[:, :, None]) / complement[:, :, None]

    def projected(self) -> Array:
        """Q't: the fit in the orthonormal columns; for one ridge refined by what Q lacks in orthogonality."""
        t = self.sqrt_weights[:, None] * self.targets
        projected = self.Q.T @ t
        if self.eigenvalues is None:
            norm = _xp.namespace(t).linalg.vector_norm
            for _ in range(2):
                step = -(self.bottom.T @ (self.bottom @ projected))
                for rows in _xp.row_blocks(t.shape[0], 8 * self.Q.shape[1], t):  # which are read once
                    step += self.Q[rows, :].T @ (t[rows, :] - self.Q[rows, :] @ projected)
                projected = projected + step
                if float(norm(step)) <= math.sqrt(EPS) * float(norm(projected)):
                    break  # what is left is the square of that
        return projected

    def criterion(self, lower: Array, classes: bool) -> tuple[float, Array, Array, float]:
        """As for `Dual`; the derivatives are those in the columns k_i (weights included), in K_mm and in log(ridge).

        The whitened columns are L^-1 k_i, L = `lower`; with T = L R', scaled and centred columns are Q T'. With a and b
        the derivatives in e and h (all scaled by w), c the fit in the columns Q and q = Q'a, the derivative in Q T' is
        -(I - H) a c' - e q' + 2 (I - H) diag(b) Q times T^-1; that in K_mm is ridge T^-T (sym(q c') - Q'diag(b)Q) T^-1.
        """
        if self.eigenvalues is not None:
            raise ValueError("The derivative of leave-one-out needs a factor for one ridge.")
        xp = _xp.namespace(self.Q)
        Q, w = self.Q, self.sqrt_weights[:, None]
        total = float(xp.sum(w * w))
        c = self.projected()
        e = w * self.targets - Q @ c
        h = self.squares[:, None] + w * w / total
        complement = xp.clip(1.0 - h, EPS, None)
        if classes:
            value, a, b = log_deviance(e, complement, self.targets + self.mean[None, :], self.sqrt_weights**2)
        else:
            value, a, b = log_press(e, complement)
        q = Q.T @ a
        middle = _weighted_gram(Q, b[:, 0])
        vector = Q @ q - a + w * (w[:, 0] @ a)[None, :] / total
        few = xp.concat([c.T, -q.T, -2.0 * ((w * b)[:, 0] @ Q)[None, :] / total], axis=0)
        columns = _xp.add_product((2.0 * b) * Q, Q, -2.0 * middle)
        columns = _xp.add_product(columns, xp.concat([vector, e, w], axis=1), few)
        if not bool(xp.all(w == 1.0)):
            columns *= w
        inner = 0.5 * (q @ c.T + c @ q.T) - middle
        in_ridge = float(xp.sum(_xp.gram(self.bottom) * inner))
        T = _xp.matmul(lower, self.R.T)
        inverse = _xp.invert_lower(T + 0.0) if _xp.is_numpy(T) else None
        columns, inner = (_xp.unwhiten_rows(rows, T, QUICK, inverse) for rows in (columns, inner))
        return value, columns, self.ridge * _xp.unwhiten_rows(inner.T, T, QUICK, inverse), in_ridge

    def careful(
        self, near: Array, lam: float, residuals: Array, leverage: Array, loo: Array, *, disturbed: bool = False
    ) -> tuple[Array, ...]:
        """Replace what 1 - h -> 0 spoils in the rows `near`.

        With the other rows' machine factorised first, the rows `near` have (I - H)_BB = (I + T T')^-1 =: P, a sum of
        positive terms, e = P e_(B) and left-out residual (P e_(B))_i / P_ii, as in the dual machine.
        """
        xp = _xp.namespace(self.Q)
        if near.size == self.Q.shape[0]:  # one row must stay to fix the bias
            near = np.delete(near, int(np.argmin(_xp.to_numpy(leverage)[near])))
        without, T = self._without(near, lam, disturbed=disturbed)
        w = _xp.take(self.sqrt_weights, near)[:, None]
        L = _xp.cholesky(_xp.add_diagonal(_xp.gram(T.T), 1.0))
        if L is None:
            return residuals, leverage, loo
        e = _xp.solve_lower(L, _xp.solve_lower(L, w * without), transpose=True)
        inverse = _xp.invert_lower(L + 0.0)
        p = xp.sum(inverse * inverse, axis=0)
        residuals = _xp.put(residuals, near, e / w)
        leverage = _xp.put(leverage, near, 1.0 - p)
        return residuals, leverage, _xp.put(loo, near, e / (w * p[:, None]))

    def _without(self, block: Array, lam: float, *, disturbed: bool = False) -> tuple[Array, Array]:
        """Residuals of the rows `block` under the machine of the other rows, and T with (I - H)_BB = (I + T T')^-1.

        With `disturbed` the columns are changed by about their rounding errors, so that the results tell what these do.
        """
        xp = _xp.namespace(self.Q)
        Q, penalty = self._at(lam)
        others = np.setdiff1d(np.arange(Q.shape[0]), _xp.to_numpy(block))
        w, w_block = _xp.take(self.sqrt_weights, others), _xp.take(self.sqrt_weights, block)
        total = float(w @ w)
        rows, targets = _xp.take(Q, others), _xp.take(self.targets, others)
        if disturbed:
            rows *= 1.0 + EPS * _xp.like(np.random.RandomState(0).uniform(-1.0, 1.0, rows.shape), rows)
        centre = (w @ rows) / total
        mean = (w * w) @ targets / total
        rows = _xp.add_outer(rows, -w, centre)
        block_rows = _xp.take(Q, block) - w_block[:, None] * centre[None, :]
        root = _xp.svd(penalty)  # symmetric: its square root stacks under the rows
        bottom = xp.sqrt(root[1])[:, None] * root[2]
        rows, bottom, R, _, _ = orthogonalise(rows, bottom, for_own_rows=False)
        T = _xp.whiten_rows(block_rows + 0.0, R.T)
        coef = rows.T @ (w[:, None] * (targets - mean[None, :]))
        residuals = _xp.take(self.targets, block) - mean[None, :] - (T @ coef) / w_block[:, None]
        return residuals, xp.concat([T, w_block[:, None] / math.sqrt(total)], axis=1)

    def block_residuals(self, folds: Sequence[Array], lam: float) -> Array:
        """t_B - f_(B)(x_B) for every fold B, each left out as a whole: S_B^-1 (I - H_BB)^-1 S_B e_B."""
        xp = _xp.namespace(self.Q)
        Q, _ = self._at(lam)
        residuals, w = self.solution(lam).residuals, self.sqrt_weights
        total = float(w @ w)
        out = residuals + 0.0
        for fold in filter(len, folds):
            w_fold = _xp.take(w, fold)[:, None]
            rows = xp.concat([_xp.take(Q, fold), w_fold / math.sqrt(total)], axis=1)
            short = rows.shape[0] <= rows.shape[1]
            L = _xp.cholesky(_xp.add_diagonal(-_xp.gram(rows.T if short else rows), 1.0))
            if L is None or float(xp.min(xp.linalg.diagonal(L))) ** 2 < CAREFUL:
                out = _xp.put(out, fold, self._without(fold, lam)[0])
                continue
            e = w_fold * _xp.take(residuals, fold)
            if short:
                e = _xp.solve_lower(L, _xp.solve_lower(L, e), transpose=True)
            else:  # (I - R R')^-1 = I + R (I - R'R)^-1 R'
                e = e + rows @ _xp.solve_lower(L, _xp.solve_lower(L, rows.T @ e), transpose=True)
            out = _xp.put(out, fold, e / w_fold)
        return out

    def moves(self, lam: float, folds: Sequence[Array] | None = None) -> Array:
        """How far the targets move when a row, or its fold, is left out: onto what the others predict."""
        return self.solution(lam).loo_residuals if folds is None else self.block_residuals(folds, lam)

    def noise(self, lower: Array, lam: float) -> list[tuple[Array, ...]]:
        """How far random errors move fitted values and left-out ones (l,).

        First errors of the targets, of size 1; then those of the gradient in the coefficients of the basis, of size
        sqrt(k_jj), where K_mm = L L' with L = `lower`.
        """
        xp, w, spectrum = _xp.namespace(self.Q), self.sqrt_weights[:, None], self._spectrum(lam)
        z, gradient = random_signs(w.shape[0], w), _gradient_noise(lower)
        total = float(xp.sum(w * w))
        mean = xp.sum(w * w * z, axis=0)[None, :] / total
        projected = self.Q.T @ (w * (z - mean))
        if spectrum is None:
            gradient = _xp.solve_lower(self.R.T, gradient)
        else:
            projected = spectrum[:, None] * projected
            gradient = (self.R @ gradient) / (self.eigenvalues + lam)[:, None]
        complement = xp.clip(1.0 - _xp.row_squares(self.Q, spectrum)[:, None] - w * w / total, EPS, None)
        first, second = self.Q @ projected / w + mean, self.Q @ gradient / w
        return [_largest(first, (z - first) / complement), _largest(second, second / complement)]

    def smoother(self, phi_new: Array, lam: float) -> Array:
        """df(x)/dt_i for new points (rows, whitened columns phi_new) and training rows (columns)."""
        w = self.sqrt_weights
        spectrum = self._spectrum(lam)
        total = float(w @ w)
        centred = phi_new - self.centre[None, :]
        if spectrum is None:
            q = _xp.whiten_rows(centred, self.R.T)
        else:
            q = _xp.matmul(centred, self.R.T) / (self.eigenvalues + lam)[None, :]
        return w[None, :] * _xp.matmul(q, self.Q.T) + (w * w)[None, :] / total


def primal(
    phi: Array,
    targets: Array,
    weights: Array,
    ridge: float,
    *,
    lower: Array | None = None,
    every_ridge: bool = False,
    tolerance: float = ORTHOGONAL,
) -> Primal:
    """Orthogonalise the primal system; the whitened columns phi (l x r) are overwritten.

    With `lower` = L they are the plain columns L phi instead, and the rows are spared the whitening. With `every_ridge`
    the result serves all ridges from `ridge` upwards.
    """
    xp = _xp.namespace(phi)
    w = xp.sqrt(weights)
    total = float(xp.sum(weights))
    centre, mean = (weights @ phi) / total, (weights @ targets) / total
    targets = targets - mean[None, :]
    rest = (weights @ targets) / total  # what a large offset leaves after the first time
    targets, mean = targets - rest[None, :], mean + rest
    if bool(xp.all(w == 1.0)):
        phi = _xp.add_outer(phi, -w, centre)
    else:
        for rows in _xp.row_blocks(phi.shape[0], 8 * phi.shape[1], phi):
            phi[rows, :] -= centre[None, :]
            phi[rows, :] *= w[rows, None]
    if every_ridge:
        Q, R, bottom, eigenvalues, rounding, lost = _turned(phi, ridge, tolerance)
        return Primal(Q, R, bottom, eigenvalues, ridge, targets, mean, centre, w, rounding, lost)
    loss = max(tolerance, _xp.LOSS)
    bottom = math.sqrt(ridge) if lower is None else math.sqrt(ridge) * lower.T
    Q, bottom, R, _, squares = orthogonalise(phi, bottom, tolerance, loss)
    if lower is not None:
        R, centre = _xp.whiten_rows(R, lower), _xp.solve_lower(lower, centre[:, None])[:, 0]
    return Primal(Q, R, bottom, None, ridge, targets, mean, centre, w, squares=squares)


def _turned(A: Array, ridge: float, tolerance: float) -> tuple[Array, Array, Array, Array, float, float]:
    """Q, R, B and the eigenvalues of A'A for every ridge from `ridge` upwards, and their errors; A is overwritten.

    They are the singular vectors of R, whose columns are orthogonalised first. Where the tolerance is that of a quick
    look the eigenvectors of A'A will do, if the smallest ridge is far above its rounding errors.
    """
    xp = _xp.namespace(A)
    rank = A.shape[1]
    limit = tolerance * ridge / EPS if tolerance >= QUICK and rank else -1.0  # of the largest eigenvalue
    largest = float(xp.sum(_xp.row_squares(A))) / max(rank, 1)  # it is at least this
    if largest <= limit:
        eigenvalues, turn = _xp.eigh(_xp.gram(A))
        largest = float(eigenvalues[-1])
    if largest <= limit:
        eigenvalues = xp.clip(eigenvalues, 0.0, None)
        singular = xp.sqrt(eigenvalues + ridge)
        turn, Vt = turn / singular[None, :], turn.T
        bottom, rounding, lost = math.sqrt(ridge) * turn, EPS * largest, math.inf
    else:
        A, bottom, R, condition, _ = orthogonalise(A, math.sqrt(ridge))
        turn, singular, Vt = _xp.svd(R)
        bottom, rounding = _xp.matmul(bottom, turn), math.inf
        lost = EPS * (condition + float(singular[0] / singular[-1])) if rank else 0.0
        eigenvalues = xp.clip(singular * singular - ridge, 0.0, None)
    for rows in _xp.row_blocks(A.shape[0], 8 * A.shape[1], A):
        A[rows, :] = _xp.matmul(A[rows, :], turn)
    return A, singular[:, None] * Vt, bottom, eigenvalues, rounding, lost


@dataclass(frozen=True)
class Wide:
    """As many whitened columns as rows, or more: the dual machine of their products, which is careful by itself."""

    phi: Array  # (l, r)
    dual: Dual

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """As in `Dual`, the coefficients being weights of the whitened columns."""
        solution = self.dual.solution(lam)
        return replace(solution, coef=self.phi.T @ solution.coef)

    def left_out(self, ridges: Sequence[float]) -> Iterator[tuple[slice, Array]]:
        """As in `Dual`."""
        return self.dual.left_out(ridges)

    def criterion(self, lower: Array, classes: bool) -> tuple[float, Array, Array, float]:
        """As for `Primal`. With G the derivative in phi phi', those are 2 G phi L^-1 and -L^-T phi'G phi L^-1."""
        value, G, in_ridge = self.dual.criterion(classes)
        product = _xp.matmul(G, self.phi)
        inner = _xp.unwhiten_rows(_xp.matmul(self.phi.T, product), lower)
        return value, _xp.unwhiten_rows(2.0 * product, lower), -_xp.unwhiten_rows(inner.T, lower), in_ridge

    def block_residuals(self, folds: Sequence[Array], lam: float) -> Array:
        """As in `Dual`."""
        return self.dual.block_residuals(folds, lam)

    def moves(self, lam: float, folds: Sequence[Array] | None = None) -> Array:
        """As in `Dual`."""
        return self.dual.moves(lam, folds)

    def noise(self, lower: Array, lam: float) -> list[tuple[Array, ...]]:
        """As in `Primal`."""
        z = random_signs(self.phi.shape[0], self.phi)
        residuals, left_out = self.dual.response(z, lam)
        moved = self.dual.response(self.phi @ _gradient_noise(lower) / lam, lam)
        return [_largest(z - residuals, left_out), _largest(*moved)]

    def smoother(self, phi_new: Array, lam: float) -> Array:
        """df(x)/dt_i for new points (rows, whitened columns phi_new) and training rows (columns)."""
        return self.dual.smoother(_xp.matmul(phi_new, self.phi.T), lam)


def wide(phi: Array, targets: Array, weights: Array, ridge: float | None) -> Wide:
    """Factorise a machine with at least as many unknowns as rows; without a ridge, for every ridge."""
    factor = dual(_xp.gram(phi.T), targets, weights, ridge)
    if factor is None:
        factor = dual(_xp.gram(phi.T), targets, weights)
    assert factor is not None
    return Wide(phi, factor)


def orthogonalise(
    A: Array,
    bottom: Array | float,
    tolerance: float = ORTHOGONAL,
    loss: float = _xp.LOSS,
    *,
    for_own_rows: bool = True,
) -> tuple[Array, Array, Array, float, Array]:
    """[A; bottom] = [Q; B] R with orthonormal columns, A overwritten: Cholesky QR, repeated while the condition asks.

    Returns Q, B, R, the condition of the last pass and the squares of the rows of Q. A number as `bottom` is a multiple
    of the identity; `loss` is that of `_xp.whiten_rows`.

    One pass costs a Gram matrix and a triangular solve, which the leverages need anyhow, and leaves Q'Q + B'B = I to
    about eps * cond([A; bottom])^2. Where neither that nor, `for_own_rows`, what it means for these rows, which may be
    far less, is enough for leave-one-out the pass is repeated on its own result; a matrix too ill-conditioned for
    a Cholesky factor gets a small shift first (shifted Cholesky QR), which costs a pass and no accuracy.
    """
    R = None
    for _ in range(6):
        if isinstance(bottom, float):
            lower, condition = cholesky_pass(_xp.add_diagonal(_xp.gram(A), bottom * bottom))
            inverse = _xp.invert_lower(lower + 0.0)
            bottom = bottom * inverse.T
        else:
            lower, condition = cholesky_pass(_xp.gram(A) + _xp.gram(bottom))
            inverse = None
            bottom = _xp.whiten_rows(bottom, lower)
        A = _xp.whiten_rows(A, lower, loss, inverse)
        R = lower.T if R is None else _xp.matmul(lower.T, R)
        leverage, largest = _xp.row_squares(A), _xp.namespace(A).max
        h = min(float(largest(leverage)) if A.shape[0] else 0.0, 1.0 - CAREFUL)
        if EPS * condition * h / (1.0 - h) <= tolerance:
            break
        measurable = for_own_rows and math.isfinite(condition) and h < 1.0 - CAREFUL
        if measurable and SURE * float(largest(expected_loss(A, lower, leverage))) <= tolerance:
            break
    return A, bottom, R, condition, leverage


def expected_loss(Q: Array, lower: Array, leverage: Array) -> Array:
    """About by how much the rounding errors of the Gram matrix L L' move 1 - h of every row, relatively.

    Errors of eps, relative to its diagonal D, move a leverage by eps |D^1/2 L^-T q|^2 or a few times as much: they are
    large in directions that most rows hardly have. Random signs spare that norm its triangular solve.
    """
    xp = _xp.namespace(Q)
    scaled = xp.sqrt(_xp.row_squares(lower))[:, None] * random_signs(lower.shape[0], lower)
    squares = _xp.row_squares(_xp.matmul(Q, _xp.solve_lower(lower, scaled))) / PROBES
    return EPS * squares / (1.0 - leverage)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # what is not finite is refused
def cholesky_pass(G: Array) -> tuple[Array, float]:
    """Lower factor of a Gram matrix and the condition of G with unit diagonal; infinite when a shift was needed."""
    xp = _xp.namespace(G)
    n = G.shape[0]
    scale = xp.sqrt(xp.linalg.diagonal(G))
    scale = xp.where(scale > 0, scale, scale + 1.0)
    G = G / (scale[:, None] * scale[None, :])
    norm = float(xp.max(xp.sum(xp.abs(G), axis=0))) if n else 1.0
    L = _xp.cholesky(G + 0.0)
    if L is not None:
        return scale[:, None] * L, _xp.condition(L, norm)
    shift = 10.0 * n * EPS
    while L is None and math.isfinite(shift):
        L = _xp.cholesky(_xp.add_diagonal(G + 0.0, shift))
        shift *= 10.0
    if L is None:
        raise NumericalError("The kernel columns are not finite: scale your features.")
    return scale[:, None] * L, math.inf


# The column-reduced machine -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Reduced:
    """Least squares on some columns of the KKT system, all rows kept (Carvalho & Braga; Valyon & Horvath).

    Row i reads sum_j k_ij a_j + b + a_i lam/v_i = t_i, the last term only where row i is in the basis, and counts v_i;
    one more row, sum_j a_j = 0, counts 1. Nothing is penalised.
    """

    Q: Array  # (l + 1, n + 1) orthonormal
    R: Array  # (n + 1, n + 1) upper triangular
    targets: Array  # (l, k)
    sqrt_weights: Array  # (l,)
    position: np.ndarray  # (l,) the column of a row in the basis, or -1
    ridge: Array  # (l,) lam/v of the rows in the basis, 0 elsewhere

    def solution(self, lam: float, *, careful: bool = True) -> Solution:
        """Coefficients, bias, residuals t - f, leverages of the rows and exact left-out residuals t - f_(i)."""
        xp = _xp.namespace(self.Q)
        rows, x, equation = self._solve()
        leverage = _xp.row_squares(rows + 0.0)
        residuals = self._decision(equation, x)
        left_out = self._moves(equation, leverage)
        inside = np.flatnonzero(self.position >= 0)
        # x_(i) = x - R^-1 q_i w_i left_out_i, of which the own coefficient of row i
        inverse = _xp.take(_xp.invert_lower(self.R.T + 0.0).T, self.position[inside])
        own = xp.sum(inverse * _xp.take(rows, inside), axis=1) * _xp.take(self.sqrt_weights, inside)
        shrunk = _xp.take(x, self.position[inside]) - own[:, None] * _xp.take(left_out, inside)
        loo = _xp.put(
            left_out + 0.0, inside, _xp.take(left_out, inside) + _xp.take(self.ridge, inside)[:, None] * shrunk
        )
        return Solution(x[:-1, :], x[-1, :], residuals, leverage, loo)

    def _solve(self) -> tuple[Array, Array, Array]:
        """Rows of Q, unknowns, residuals of the equations."""
        rows, w = self.Q[:-1, :], self.sqrt_weights[:, None]
        projected = rows.T @ (w * self.targets)
        x = _xp.solve_lower(self.R.T, projected, transpose=True)
        return rows, x, self.targets - (rows @ projected) / w

    def _decision(self, equation: Array, x: Array) -> Array:
        """Residuals t - f from those of the equations: the ridge term is no part of f."""
        inside = np.flatnonzero(self.position >= 0)
        own = _xp.take(self.ridge, inside)[:, None] * _xp.take(x, self.position[inside])
        return _xp.put(equation + 0.0, inside, _xp.take(equation, inside) + own)

    @staticmethod
    def _moves(equation: Array, leverage: Array) -> Array:
        return equation / _xp.namespace(equation).clip(1.0 - leverage, EPS, None)[:, None]

    def moves(self, lam: float, folds: Sequence[Array] | None = None) -> Array:
        """How far the targets move when a row, or its fold, is left out; the equations' own residuals then are 0."""
        rows, _, equation = self._solve()
        if folds is None:
            return self._moves(equation, _xp.row_squares(rows + 0.0))
        out = equation + 0.0
        for fold in filter(len, folds):
            out = _xp.put(out, fold, self._block_moves(rows, equation, fold))
        return out

    def _block_moves(self, rows: Array, equation: Array, fold: Array) -> Array:
        Q, w = _xp.take(rows, fold), _xp.take(self.sqrt_weights, fold)[:, None]
        return _solve_symmetric(_xp.add_diagonal(-(Q @ Q.T), 1.0), w * _xp.take(equation, fold)) / w

    def block_residuals(self, folds: Sequence[Array], lam: float) -> Array:
        """t_B - f_(B)(x_B) for every fold B, each left out as a whole."""
        rows, x, equation = self._solve()
        out = equation + 0.0
        for fold in filter(len, folds):
            moves = self._block_moves(rows, equation, fold)
            scaled = _xp.take(self.sqrt_weights, fold)[:, None] * moves
            without = x - _xp.solve_lower(self.R.T, _xp.take(rows, fold).T @ scaled, transpose=True)
            block = self._decision(_xp.put(equation + 0.0, fold, moves), without)
            out = _xp.put(out, fold, _xp.take(block, fold))
        return out

    def smoother(self, K_new: Array, lam: float) -> Array:
        """df(x)/dt_i for new points (rows) and training rows (columns); K_new holds k(x, basis)."""
        ones = _xp.zeros((K_new.shape[0], 1), K_new) + 1.0
        columns = _xp.namespace(K_new).concat([K_new, ones], axis=1)
        return _xp.matmul(_xp.whiten_rows(columns, self.R.T), self.Q[:-1, :].T * self.sqrt_weights[None, :])


def reduced(K: Array, targets: Array, weights: Array, position: np.ndarray, lam: float) -> Reduced:
    """Factorise the column-reduced system; K (l x n) holds the kernel columns, position their own rows (or -1)."""
    xp = _xp.namespace(K)
    n_rows, n = K.shape
    w = xp.sqrt(weights)
    own = _xp.like((position >= 0).astype(float), K) * lam / weights
    inside = np.flatnonzero(position >= 0)
    Z = _xp.zeros((n_rows + 1, n + 1), K)
    Z[:-1, :-1] = K
    Z = _xp.add_at(Z, inside, position[inside], _xp.take(own, inside))
    Z[:-1, :-1] *= w[:, None]
    Z[:-1, -1] = w
    Z[-1, :-1] = 1.0
    Q, R = _xp.qr(Z)
    if float(xp.min(xp.abs(xp.linalg.diagonal(R)))) <= (n + 1) * EPS * float(xp.max(xp.abs(xp.linalg.diagonal(R)))):
        raise ValueError("The kept columns of the KKT system depend on each other: lower C or keep fewer of them.")
    return Reduced(Q, R, targets, w, position, own)


# Sums that add --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Moments:
    """Weighted, centred sums over rows of whitened columns phi and targets t; those of two sets of rows add."""

    weight: float  # sum v
    phi: Array  # (r,)  weighted mean
    targets: Array  # (k,)  weighted mean
    scatter: Array  # (r, r)  sum v (phi - mean)(phi - mean)'
    cross: Array  # (r, k)  sum v (phi - mean)(t - mean)'

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        share = other.weight / weight
        step, rise = other.phi - self.phi, other.targets - self.targets
        between = self.weight * share
        return Moments(
            weight,
            self.phi + share * step,
            self.targets + share * rise,
            self.scatter + other.scatter + between * step[:, None] * step[None, :],
            self.cross + other.cross + between * step[:, None] * rise[None, :],
        )

    def solve(self, ridge: float) -> tuple[Array, Array, float]:
        """Weights of the whitened columns, bias, and the condition of the system that gave them."""
        machine = self.machine(ridge)
        return machine.coef, machine.intercept, machine.condition

    def machine(self, ridge: float) -> Summed:
        """The machine of rows that do not pass by again."""
        lower, condition = cholesky_pass(_xp.add_diagonal(self.scatter + 0.0, ridge))
        bottom = _xp.whiten_rows(math.sqrt(ridge) * _xp.identity(lower.shape[0], lower), lower)
        projected, centre = _xp.solve_lower(lower, self.cross), _xp.solve_lower(lower, self.phi[:, None])[:, 0]
        return Summed(lower.T, bottom, projected, centre, self.targets, self.weight, condition)


class Sums:
    """Moments of blocks of rows, one after the other, about the means of the first."""

    def __init__(self, rank: int, outputs: int, like: Array) -> None:
        self.weight, self.phi = 0.0, _xp.zeros((rank,), like)
        self.targets, self.scatter = _xp.zeros((outputs,), like), None
        self.cross = _xp.zeros((rank, outputs), like)
        self.means: tuple[Array, Array] | None = None

    def add(self, phi: Array, targets: Array, weights: Array) -> None:
        """One more block; phi is overwritten."""
        xp = _xp.namespace(phi)
        total = float(xp.sum(weights))
        if total == 0.0:
            return
        if self.means is None:
            self.means = (weights @ phi) / total, (weights @ targets) / total
        phi -= self.means[0][None, :]
        targets = targets - self.means[1][None, :]
        self.weight += total
        self.phi, self.targets = self.phi + weights @ phi, self.targets + weights @ targets
        w = xp.sqrt(weights)[:, None]
        if not bool(xp.all(w == 1.0)):
            phi *= w
        self.scatter, self.cross = _xp.add_gram(self.scatter, phi), self.cross + phi.T @ (w * targets)

    def moments(self) -> Moments:
        """The sums of all blocks so far."""
        if self.means is None or self.scatter is None:
            rank = self.cross.shape[0]
            return Moments(0.0, self.phi, self.targets, _xp.zeros((rank, rank), self.phi), self.cross)
        step, rise = self.phi / self.weight, self.targets / self.weight
        scatter = _xp.add_outer(_xp.mirrored(self.scatter), -self.weight * step, step)
        cross = self.cross - self.weight * step[:, None] * rise[None, :]
        return Moments(self.weight, self.means[0] + step, self.means[1] + rise, scatter, cross)


@dataclass(frozen=True)
class Summed:
    """A primal machine from sums over rows that are not held: f = mean + (q - c)'p in the columns q = phi R^-1."""

    R: Array  # (r, r)  upper triangular
    bottom: Array  # (r, r)  sqrt(ridge) R^-1
    projected: Array  # (r, k)  p
    centre: Array  # (r,)  c
    mean: Array  # (k,)
    weight: float
    condition: float  # of the last Gram matrix

    @property
    def coef(self) -> Array:
        """Weights of the whitened columns."""
        return _xp.solve_lower(self.R.T, self.projected, transpose=True)

    @property
    def intercept(self) -> Array:
        """The bias."""
        return self.mean - self.centre @ self.projected

    def left_out(self, q: Array, targets: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Residuals, leverages and left-out residuals of some rows from their columns q, which are overwritten."""
        xp = _xp.namespace(q)
        q -= self.centre[None, :]
        residuals = targets - self.mean[None, :] - q @ self.projected
        leverage = weights * (_xp.row_squares(q) + 1.0 / self.weight)
        return residuals, leverage, residuals / xp.clip(1.0 - leverage, EPS, None)[:, None]

    def serves(self, leverage: float) -> bool:
        """Whether the leverages are sure enough for leave-one-out where the largest is this; see `orthogonalise`."""
        h = min(leverage, 1.0 - CAREFUL)
        return EPS * self.condition * h / (1.0 - h) <= ORTHOGONAL


def summed(total: Callable[[Array | None], Moments], ridge: float, start: Summed | None = None) -> Summed:
    """Cholesky QR as in `orthogonalise`, of rows that pass by: total(R) gives the sums of their columns phi R^-1.

    None stands for R = I. From a machine to `start` at, one pass more than it had.
    """
    R, bottom = (None, None) if start is None else (start.R, start.bottom + 0.0)
    for _ in range(6):
        sums = total(R)
        if R is None or bottom is None:
            R = _xp.identity(sums.scatter.shape[0], sums.scatter)
            bottom = math.sqrt(ridge) * R
        lower, condition = cholesky_pass(sums.scatter + _xp.gram(bottom))
        R, bottom = lower.T @ R, _xp.whiten_rows(bottom, lower)
        if EPS * condition <= SUMMED:
            break
    projected, centre = _xp.solve_lower(lower, sums.cross), _xp.solve_lower(lower, sums.phi[:, None])[:, 0]
    return Summed(R, bottom, projected, centre, sums.targets, sums.weight, condition)


def refined(
    sums: Moments, lower: Array, ridge: float, gradient: Callable[[Array, Array], Array]
) -> tuple[Summed, Array] | None:
    """The machine of plain kernel columns k = L phi, L = `lower`, from their sums, and its factor T: q = T^-1 k.

    T T' = K'K + ridge L L' (weighted and centred) spares the whitening of every row. It has lost as many digits as its
    condition has: `gradient(coefficients, bias)`, the sum of v (k, 1)'(t - f) over the rows, gives those of the
    solution back, and about five of the leverages stay; None where they would not.
    """
    xp = _xp.namespace(lower)
    penalty = ridge * _xp.gram(lower.T)
    T, condition = cholesky_pass(sums.scatter + penalty)
    if EPS * condition > PLAIN:
        return None
    projected = _xp.solve_lower(T, sums.cross)
    for _ in range(3):
        coef = _xp.solve_lower(T, projected, transpose=True)
        total = gradient(coef, sums.targets - sums.phi @ coef)
        step = _xp.solve_lower(T, total[:-1, :] - sums.phi[:, None] * total[-1:, :] - penalty @ coef)
        projected = projected + step
        change = float(xp.linalg.vector_norm(step)) / (float(xp.linalg.vector_norm(projected)) or 1.0)
        if change * change <= REFINED:  # each step gains as many digits as the first solution had
            break
    R, centre = _xp.solve_lower(lower, T).T, _xp.solve_lower(T, sums.phi[:, None])[:, 0]
    bottom = math.sqrt(ridge) * _xp.solve_lower(T, lower).T
    return Summed(R, bottom, projected, centre, sums.targets, sums.weight, condition), T


def random_signs(rows: int, like: Array) -> Array:
    """PROBES columns of -1 and +1, always the same ones."""
    return _xp.like(np.random.RandomState(0).choice([-1.0, 1.0], (rows, PROBES)), like)


def _gradient_noise(lower: Array) -> Array:
    """Random errors of size sqrt(k_jj) in the coordinates of whitened columns, where K = L L'."""
    size = _xp.namespace(lower).sqrt(_xp.row_squares(lower))[:, None]
    return _xp.solve_lower(lower, size * random_signs(lower.shape[0], lower))


def _largest(*moves: Array) -> tuple[Array, ...]:
    """The largest size in every row."""
    return tuple(_xp.namespace(values).max(_xp.namespace(values).abs(values), axis=1) for values in moves)


def close_to_one(leverage: Array) -> np.ndarray:
    """Numbers of the rows whose 1 - h has lost too many digits."""
    return np.flatnonzero(_xp.to_numpy(1.0 - leverage) < CAREFUL)


# Small helpers -------------------------------------------------------------------------------------------------------
def _weighted_gram(A: Array, weights: Array) -> Array:
    """A'diag(weights)A for weights of either sign."""
    xp = _xp.namespace(A)
    negative = _xp.to_numpy(weights) < 0
    size = xp.sqrt(xp.abs(weights))[:, None]
    if not negative.any():
        return _xp.gram(size * A)
    parts = [_xp.gram(_xp.take(size, rows) * _xp.take(A, rows)) for rows in map(np.flatnonzero, (~negative, negative))]
    return parts[0] - parts[1]


def _for_ridges(A: Array, spectra: Sequence[Array], projected: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Blocks of rows, A diag(spectrum) projected (rows, ridges, k) and the sums A_ik^2 spectrum_k (rows, ridges)."""
    columns = _xp.namespace(A).stack(list(spectra), axis=1)
    r, k = projected.shape
    scaled = _xp.namespace(A).reshape(columns[:, :, None] * projected[:, None, :], (r, len(spectra) * k))
    for rows in _xp.row_blocks(A.shape[0], 8 * (2 * r + (2 * k + 2) * len(spectra)), A):
        part = A[rows, :]
        product = _xp.namespace(A).reshape(_xp.matmul(part, scaled), (part.shape[0], len(spectra), k))
        yield rows, product, _xp.matmul(part * part, columns)


def _solve_symmetric(A: Array, B: Array) -> Array:
    """A^-1 B for a symmetric A, by Cholesky where A is positive definite; infinite where A is singular."""
    L = _xp.cholesky(A + 0.0)
    if L is not None:
        return _xp.solve_lower(L, _xp.solve_lower(L, B), transpose=True)
    try:
        return _xp.namespace(A).linalg.solve(A, B)
    except Exception as error:  # each namespace has its own class of LinAlgError
        if type(error).__name__ not in {"LinAlgError", "_LinAlgError"}:
            raise
        return B * 0.0 + math.inf  # a fold without which no machine is left
