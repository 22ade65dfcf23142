"""The convex programmes behind `convex.py`, solved exactly: an L1 penalty's path, and the sum of maximal variations.

Nothing here knows a Problem: matrices in, coefficients out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg import qr_delete, solve_triangular
from scipy.linalg.blas import dtrsv
from scipy.optimize import linprog

from .. import _xp
from .._xp import EPS
from ..kernels import Additive, Kernel, pick_columns
from .parametric import Optimum, Parametric, Unsettled

CUT = 1e-10  # share of a kernel's size: smaller eigenvalues need coefficients that its rounded values cannot bear
SMALLEST = 1e-7  # share of the largest kernel below which CUT leaves only a component's largest functions


# The L1 path ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class L1Path:
    """All minimisers of sum_i v_i (y_i - k_i'a - b)^2 + zeta |a|_1 with 1'a = 0, affine between the breakpoints.

    zeta falls from the value at which a = 0; coef is (breakpoints, n), intercept (breakpoints,).
    """

    zeta: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray

    def at(self, zeta: float) -> tuple[np.ndarray, float]:
        """Coefficients and intercept for one zeta; beyond the last breakpoint, those of the last."""
        if zeta >= self.zeta[0]:
            return self.coef[0], float(self.intercept[0])
        place = min(int(np.searchsorted(-self.zeta, -zeta)), len(self.zeta) - 1)
        upper, lower = self.zeta[place - 1], self.zeta[place]
        share = min((upper - zeta) / (upper - lower), 1.0) if upper > lower else 1.0
        a, b = self.coef[place - 1 : place + 1], self.intercept[place - 1 : place + 1]
        coef = np.where(share < 1.0, (1 - share) * a[0] + share * a[1], a[1])
        return coef, float((1 - share) * b[0] + share * b[1])


class _Columns:
    """A matrix that grows and shrinks by columns, in memory that is taken in doubling pieces."""

    def __init__(self, rows: int) -> None:
        self.memory = np.empty((rows, 64), order="F")
        self.count = 0

    @property
    def taken(self) -> np.ndarray:
        return self.memory[:, : self.count]

    def append(self, column: np.ndarray) -> None:
        if self.count == self.memory.shape[1]:
            self.memory = np.asfortranarray(np.hstack([self.memory, np.empty_like(self.memory)]))
        self.memory[:, self.count] = column
        self.count += 1

    def delete(self, place: int) -> None:
        self.memory[:, place : self.count - 1] = self.memory[:, place + 1 : self.count]
        self.count -= 1


class Homotopy:
    """The path of eq. (16), traced from zeta_max down, one index in or out at every breakpoint.

    With b eliminated (columns and targets centred, rows scaled by the square roots of their weights) and lam = zeta/2:
    on the support, K_S'(t - K_S a) = lam s + mu 1 and 1'a = 0; off it, |K_j'(t - K a) - mu| <= lam. A row of constants
    under the columns changes nothing, because 1'a = 0, and makes their QR factorisation that of the whole system. Of
    identical columns the first alone takes part. R comes from the products of the columns, without Q, as long as their
    rounding does no harm.
    """

    def __init__(self, K: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        self.n_columns = K.shape[1]
        self.distinct = np.sort(np.unique(K.T, axis=0, return_index=True)[1])
        K = K[:, self.distinct]
        scale = np.sqrt(weights)
        centre = weights @ K / weights.sum()
        self.means = centre, float(weights @ y / weights.sum())
        self.K = scale[:, None] * (K - centre)
        self.t = scale * (y - self.means[1])
        self.q = self.K.T @ self.t
        self.size = float(np.max(np.abs(self.q), initial=0.0))
        self.K, self.t = _compressed(self.K, self.t)
        norm = float(np.sqrt(np.max(np.sum(self.K * self.K, axis=0), initial=0.0))) or 1.0
        self.products = _xp.gram(self.K) + norm * norm if len(self.t) == len(y) > 200 else None
        self.K = np.asfortranarray(np.vstack([self.K, np.full(K.shape[1], norm)]))
        self.t = np.append(self.t, 0.0)
        self.support: list[int] = []
        self.signs: list[float] = []
        self.columns = _Columns(len(self.distinct))  # the support's columns of the products
        self.Q = _Columns(len(self.t)) if self.products is None else None
        self.R: np.ndarray = np.eye(64, order="F")  # the leading block is R, the rest the identity
        self.forward: np.ndarray = np.empty((0, 3))  # Q't, R^-T s and R^-T 1: a new column adds a row
        self.out: set[int] = set()  # columns that depend on the support: at the bound as long as it stays
        self.lam = float(np.ptp(self.q)) / 2
        self.zetas, self.coefs = [2 * self.lam], [np.zeros(self.n_columns)]

    # The QR factorisation of the support's columns
    def _insert(self, j: int, sign: float) -> bool:
        """Take column j in, unless it depends on those there to working precision."""
        if self.Q is None:
            assert self.products is not None
            products, square = self.products[j], float(self.products[j, j])
            above = self._solve(products[self.support], transpose=True)
            rest = square - float(above @ above)
            if rest > 1e-10 * square:  # enough digits are left
                norm = float(np.sqrt(rest))
                self._append(j, sign, above, norm, float(self.q[j] - above @ self.forward[:, 0]) / norm)
                return True
        Q, column = self._orthogonal(), self.K[:, j]
        above = Q.taken.T @ column
        direction, size = column - Q.taken @ above, float(np.linalg.norm(column))
        if np.linalg.norm(direction) < 0.1 * size:  # what cancelled is not orthogonal: once more
            inside = Q.taken.T @ direction
            direction, above = direction - Q.taken @ inside, above + inside
        norm = float(np.linalg.norm(direction))
        if norm <= 1e-9 * size:
            return False
        Q.append(direction / norm)
        self._append(j, sign, above, norm, float(direction @ self.t) / norm)
        return True

    def _append(self, j: int, sign: float, above: np.ndarray, norm: float, target: float) -> None:
        """Another column of R, and its entry of Q't."""
        count = len(above)
        if count == len(self.R):
            larger = np.eye(count + 64, order="F")
            larger[:count, :count] = self.R
            self.R = larger
        self.R[:count, count], self.R[count, count] = above, norm
        new = np.array([target, *((np.array([sign, 1.0]) - above @ self.forward[:, 1:]) / norm)])
        self.forward = np.vstack([self.forward, new])
        if self.products is not None:
            self.columns.append(self.products[j])
        self.support.append(j)
        self.signs.append(sign)

    def _delete(self, place: int) -> None:
        """Rotations make R triangular again; only its rows from `place` on change."""
        last = len(self.support) - 1
        first = min(place, last - 1)
        inner = self.R[first : last + 1, first : last + 1]
        # where there is no Q the rotations go to zeros
        Q = self.Q.taken[:, first:] if self.Q is not None else np.zeros(inner.shape, order="F")
        Q, inner = qr_delete(Q, inner, place - first, which="col", check_finite=False)
        if self.Q is not None:
            self.Q.delete(place)
            self.Q.taken[:, first:] = Q[:, : last - first]
        self.R[:first, place:last] = self.R[:first, place + 1 : last + 1]
        self.R[first:last, first:last] = inner[: last - first]
        self.R[: last + 1, last] = 0.0
        self.R[last, last] = 1.0
        if self.products is not None:
            self.columns.delete(place)
        del self.support[place], self.signs[place]
        self._renew()

    def _renew(self) -> None:
        """`forward` from R, and from Q where it is known."""
        sums = np.array(self.signs), np.ones(len(self.signs))
        target = self._solve(self.q[self.support], transpose=True) if self.Q is None else self.Q.taken.T @ self.t
        self.forward = np.column_stack([target, *(self._solve(right, transpose=True) for right in sums)])

    def _orthogonal(self) -> _Columns:
        """Q, from now on kept."""
        if self.Q is None:
            Q, R = scipy.linalg.qr(self.K[:, self.support], mode="economic", check_finite=False)
            self.Q = _Columns(len(self.t))
            for column in Q.T:
                self.Q.append(column)
            self.R[: len(R), : len(R)] = R
            self._renew()
        return self.Q

    def _solve(self, right: np.ndarray, *, transpose: bool = False) -> np.ndarray:
        """R^-1 or R^-T times a vector; the identity beside R does no harm, and a copy of R would take longer."""
        padded = np.zeros(len(self.R))
        padded[: len(right)] = right
        return dtrsv(self.R, padded, trans=transpose, overwrite_x=True)[: len(right)]

    # The affine pieces
    def _piece(self) -> tuple[np.ndarray, ...]:
        """a_S and mu and the correlations of all columns, each as (constant, slope) in lam."""
        inner, g = self.forward[:, :2] * np.array([1.0, -1.0]), self.forward[:, 2]
        mu = g @ inner / (g @ g)
        inner = inner - np.outer(g, mu)
        a = np.column_stack([self._solve(column) for column in inner.T])
        if self.products is not None:
            # Sums over the support are shorter than those over the rows, and as good while nothing cancels.
            terms = np.abs(a).sum(axis=0) @ np.array([1.0, self.lam]) * self.products.diagonal().max()
            if EPS * terms < 1e-12 * self.size:
                columns = self.columns.taken
                return a, mu, np.column_stack([self.q - columns @ a[:, 0], -(columns @ a[:, 1])])
            if self.Q is None:
                self._orthogonal()
                return self._piece()
        rest = -(self._orthogonal().taken @ inner)
        rest[:, 0] += self.t
        return a, mu, self.K.T @ rest

    def to(self, last: float) -> L1Path:
        """The path down to zeta = last, from where it ended before."""
        end = max(last / 2, 1e-13 * self.size)
        if not self.support and self.lam > end:
            self._insert(int(np.argmax(self.q)), 1.0)
            self._insert(int(np.argmin(self.q)), -1.0)
        standing = 0  # steps of no length, one after the other
        while self.lam > end and standing <= 10 + 2 * len(self.distinct):
            before = self.lam
            self._step(end)
            standing = standing + 1 if self.lam == before else 0
        zeta, coef = np.array(self.zetas), np.array(self.coefs)
        kept = np.append(np.diff(zeta) < 0, True)  # of steps of no length, the last
        intercept = self.means[1] - coef[kept][:, self.distinct] @ self.means[0]
        return L1Path(zeta[kept], coef[kept], intercept)

    def _step(self, end: float) -> None:
        """To the next breakpoint."""
        a, mu, c = self._piece()
        leave = self._leaving(a, self.lam)
        enter = self._entering(c - mu, self.lam)
        self.lam = max(leave[0], enter[0], end)
        coef, sign = np.zeros(self.n_columns), np.array(self.signs)
        # of the other sign is rounding: where columns enter and leave
        coef[self.distinct[self.support]] = sign * np.maximum(sign * (a[:, 0] + self.lam * a[:, 1]), 0.0)
        self.zetas.append(2 * self.lam)
        self.coefs.append(coef)
        if self.lam == leave[0]:
            coef[self.distinct[self.support[leave[1]]]] = 0.0
            self._delete(leave[1])
            self.out.clear()
        elif self.lam == enter[0] and not self._insert(enter[1], enter[2]):
            self.out.add(enter[1])

    def _leaving(self, a: np.ndarray, lam: float) -> tuple[float, int]:
        """The next lam at which a coefficient is 0, and its place in the support."""
        sign = np.array(self.signs)
        constant, slope = sign * a[:, 0], sign * a[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            zero = np.where(slope > 0, -constant / slope, -np.inf)  # falls with lam towards 0
        zero = np.where(zero > lam, lam, zero)
        place = int(np.argmax(zero))
        return float(zero[place]), place

    def _entering(self, c: np.ndarray, lam: float) -> tuple[float, int, float]:
        """The next lam at which the correlation of a column off the support reaches the bound, the column, the sign."""
        best = (-np.inf, -1, 1.0)
        free = np.ones(len(c), dtype=bool)
        free[self.support] = False
        free[list(self.out)] = False
        for sign in (1.0, -1.0):
            constant, slope = sign * c[:, 0], 1.0 - sign * c[:, 1]  # constant - lam slope = 0
            with np.errstate(divide="ignore", invalid="ignore"):
                hit = np.where(free & (slope > 0), constant / slope, -np.inf)
            hit = np.where(hit > lam, lam, hit)
            j = int(np.argmax(hit))
            if hit[j] > best[0]:
                best = (float(hit[j]), j, sign)
        return best


def _compressed(K: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same columns in as few dimensions as they span to working precision: smooth kernels span few."""
    size = float(np.linalg.norm(K))
    if len(t) < 200 or size == 0.0:
        return K, t
    Q = np.linalg.qr(K @ np.random.RandomState(0).standard_normal((K.shape[1], 100)))[0]
    inside = Q.T @ K
    if np.linalg.norm(K - Q @ inside) <= 1e-14 * size:
        return inside, Q.T @ t
    return K, t


def l1_path(K: np.ndarray, y: np.ndarray, weights: np.ndarray, last: float) -> L1Path:
    """The exact path of eq. (16) down to `last`."""
    return Homotopy(K, y, weights).to(last)


def l1_violation(K: np.ndarray, y: np.ndarray, weights: np.ndarray, zeta: float, a: np.ndarray, b: float) -> float:
    """The largest violation of the optimality conditions of eq. (16), as a share of their bound zeta/2."""
    centred = K - weights @ K / weights.sum()
    c = centred.T @ (weights * (y - K @ a - b))
    # mu is in [c - zeta/2, c + zeta/2], at the lower end where a > 0 and at the upper end where a < 0
    largest = max(np.max(c - zeta / 2), np.max((c + zeta / 2)[a < 0.0], initial=-np.inf))
    smallest = min(np.min(c + zeta / 2), np.min((c - zeta / 2)[a > 0.0], initial=np.inf))
    return max(float(largest - smallest) / zeta, 0.0)


def least_squares(K: np.ndarray, y: np.ndarray, weights: np.ndarray) -> L1Path:
    """zeta = 0: the least-squares coefficients of least norm with 1'a = 0 (eq. 22)."""
    centre, mean = weights @ K / weights.sum(), float(weights @ y / weights.sum())
    inner = (K - centre) - np.mean(K - centre, axis=1, keepdims=True)  # 1'a = 0
    scale = np.sqrt(weights)
    a = np.linalg.lstsq(scale[:, None] * inner, scale * (y - mean), rcond=1e-13)[0]
    a = a - a.mean()
    return L1Path(np.array([0.0]), a[None, :], np.array([mean - centre @ a]))


# Structure detection --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Blocks:
    """The components of an additive kernel on the rows that train: f^l = Q_l z_l with z = A'alpha and 1'alpha = 0.

    Where the ranks add up to less than the number of basis points every z has an alpha (`basis` is None), columns of a
    Q_l are orthonormal, and a component can be exactly 0. Otherwise all z_l are the same x, z = basis @ x: alpha in the
    principal directions of the stacked components. Components that are the same function of alpha, e.g. of equal
    columns, are one here: their sum, whose maximal variation is the sum of theirs.
    """

    Q: list[np.ndarray]
    other: list[np.ndarray]  # the same functions on the rows that do not train
    A: np.ndarray  # z = A'alpha, or alpha = A x
    basis: np.ndarray | None
    number: np.ndarray  # for every component of the kernel its place here

    def each(self, t: np.ndarray) -> np.ndarray:
        """The maximal variations of all components of the kernel."""
        return (t / np.bincount(self.number, minlength=len(t)))[self.number]

    @property
    def places(self) -> list[slice]:
        """Where z has each component."""
        ends = np.cumsum([block.shape[1] for block in self.Q])
        return [slice(int(end) - block.shape[1], int(end)) for end, block in zip(ends, self.Q, strict=True)]

    def alpha(self, z: np.ndarray) -> np.ndarray:
        """The coefficients of least norm that give z."""
        if self.basis is not None:
            return self.A @ z[self.places[0]]
        size = np.linalg.norm(self.A, axis=0)  # columns in any unit
        return np.linalg.lstsq((self.A / size).T, z / size, rcond=1e-13)[0]


def component_blocks(kernel: Additive, X: np.ndarray, points: np.ndarray, train: np.ndarray) -> Blocks:
    """Q_l for the rows `train` of X, and for the others, with the basis `points`."""
    Q: list[np.ndarray] = []
    other, A, sizes = [], [], []
    seen: dict[bytes, list[tuple[int, np.ndarray]]] = {}
    number: list[int] = []
    parts = []
    for group, part in kernel.kept(X.shape[1]).values():
        columns = pick_columns(X, group)
        phi, factor = _features(part, columns, pick_columns(points, group))
        alike = seen.setdefault(np.ascontiguousarray(columns).tobytes(), [])
        same = [place for place, other_phi in alike if np.array_equal(other_phi, phi)]
        number.append(same[0] if same else len(Q))
        if same:
            continue
        alike.append((len(Q), phi))
        parts.append((part, columns, pick_columns(points, group), phi[train], factor))
        U, s, T = np.linalg.svd(factor - factor.mean(axis=0), full_matrices=False)  # 1'alpha = 0
        kept = s > np.sqrt(CUT) * float(np.linalg.norm(factor))
        phi, U = phi @ (T[kept].T * s[kept]), U[:, kept]
        _, s, T = np.linalg.svd(phi[train], full_matrices=False)
        kept = s > CUT * (float(s[0]) if len(s) else 0.0)
        phi = phi @ (T[kept].T / s[kept])
        Q.append(phi[train])
        other.append(phi[~train])
        A.append(U @ (T[kept].T * s[kept]))
        sizes.append(np.full(A[-1].shape[1], float(np.linalg.norm(factor)) ** 2 or 1.0))
    stacked = np.hstack([block * number.count(place) for place, block in enumerate(A)])
    size = np.concatenate(sizes)
    s = np.linalg.svd(stacked / size, compute_uv=False)
    if len(s) == stacked.shape[1] and np.min(s, initial=1.0) > CUT:
        blocks = Blocks(Q, other, stacked, None, np.array(number))
        if _reproduced(blocks, [(number.count(place) * phi, factor) for place, (*_, phi, factor) in enumerate(parts)]):
            return blocks
    # From the kernels themselves: a component without the directions that are small in it alone would not be K_l alpha.
    K = [number.count(place) * part.evaluate(*given) for place, (part, *given, _, _) in enumerate(parts)]
    _check_sizes([K[place][train] for place in number], list(kernel.kept(X.shape[1])))
    rows = np.vstack([block[train] for block in K])
    _, s, T = np.linalg.svd(np.linalg.qr(rows - rows.mean(axis=1, keepdims=True), mode="r"))  # 1'alpha = 0
    kept = s > CUT * s[0]
    directions = (T[kept] - T[kept].mean(axis=1, keepdims=True)).T / s[kept]
    phis = [block @ directions for block in K]
    phis = [phi * (np.abs(phi[train]).max() > 1e-6) for phi in phis]  # of a constant column rounding is left
    basis = np.vstack([np.eye(len(directions.T))] * len(K))
    return Blocks([phi[train] for phi in phis], [phi[~train] for phi in phis], directions, basis, np.array(number))


def _check_sizes(K: list[np.ndarray], numbers: list[int]) -> None:
    """Warn where the cut, a share of the largest kernel, leaves little of a component that is not constant."""
    sizes = np.array([np.linalg.norm(block) for block in K])
    varying = np.array([np.linalg.norm(block - block.mean(axis=1, keepdims=True)) for block in K]) > CUT * sizes
    lost = np.array(numbers)[varying & (sizes < SMALLEST * sizes.max())]
    if len(lost):
        warnings.warn(
            f"Components: the kernels of components {lost.tolist()} are below {SMALLEST:g} of the largest one's, and "
            "most of their functions are lost to rounding: centre and scale your features.",
            stacklevel=_xp.user_level(),
        )


def _reproduced(blocks: Blocks, features: list[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether the alpha of some z gives these components: directions left out may be small in the kernel alone."""
    z = np.random.RandomState(0).standard_normal((blocks.A.shape[1],))
    alpha = blocks.alpha(z)
    for (phi, factor), Q, place in zip(features, blocks.Q, blocks.places, strict=True):
        left_out = Q.shape[1] < phi.shape[1]
        if left_out and np.abs(phi @ (factor.T @ alpha) - Q @ z[place]).max(initial=0.0) > 1e-5:
            return False
    return True


def _features(kernel: Kernel, X: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """phi of the rows and of the points with k(x, z) = phi(x)'phi(z): a pivoted Cholesky factor, cut at 1e-14."""
    rest = kernel.diagonal(points).copy()
    tolerance = 1e-14 * max(float(rest.max()), 0.0)
    F = np.empty((len(points), 0))
    pivots: list[int] = []
    while len(pivots) < len(points) and float(rest.max()) > tolerance:
        j = int(np.argmax(rest))
        column = (kernel.evaluate(points, points[j : j + 1])[:, 0] - F @ F[j]) / np.sqrt(rest[j])
        column[pivots] = 0.0
        F = np.column_stack([F, column])
        pivots.append(j)
        rest -= column * column
        rest[pivots] = 0.0
    if not pivots:
        return np.zeros((len(X), 0)), F
    return solve_triangular(F[pivots], kernel.evaluate(X, points[pivots]).T, lower=True, check_finite=False).T, F


@dataclass(frozen=True)
class Piece:
    """The solution of eq. (25) for one rho, and for the interval around it on which it is affine in rho.

    z and t (maximal variations) and the multipliers of the active rows are (value at `rho`, slope), one column each.
    """

    rho: float
    z: np.ndarray
    t: np.ndarray
    multipliers: np.ndarray
    active: list[Row]

    def at(self, rho: float) -> tuple[np.ndarray, np.ndarray]:
        """z and t."""
        place = np.array([1.0, rho - self.rho])
        return self.z @ place, np.maximum(self.t @ place, 0.0)

    def multipliers_at(self, rho: float) -> np.ndarray:
        """Those of the active rows."""
        return self.multipliers @ np.array([1.0, rho - self.rho])

    def shifted(self, step: float) -> Piece:
        """With the values that it has at rho + step."""
        move = np.array([[1.0, 0.0], [step, 1.0]])
        return Piece(self.rho, self.z @ move, self.t @ move, self.multipliers @ move, self.active)

    def lines(self, values: np.ndarray) -> np.ndarray:
        """(constant, slope) of z, t or the multipliers."""
        return np.column_stack([values[:, 0] - self.rho * values[:, 1], values[:, 1]])


Row = tuple[int, int, float]  # component, row, sign


@dataclass(frozen=True)
class _Event:
    """What ends a piece at its lower edge: a row leaves or enters, or a component does, with all its rows."""

    rho: float
    leaves: list[Row]
    enters: list[Row]


class _DualNorm:
    """h(g) = max g'u over |V u| <= 1, the least sum of absolute multipliers with V'multipliers = g.

    The simplex method on the multipliers; a basis of rows of V is kept for the next g.
    """

    def __init__(self, V: np.ndarray, basis: np.ndarray) -> None:
        self.V, self.basis = V, basis.copy()

    def bound(self, g: np.ndarray) -> float:
        """A value that h(g) is not above: the multipliers of the basis as it is."""
        return float(np.abs(np.linalg.solve(self.V[self.basis].T, g)).sum())

    def __call__(self, g: np.ndarray) -> tuple[np.ndarray, list[tuple[int, float]]]:
        """The u of the maximum, and the rows, with signs, that hold it."""
        for _ in range(50 + 10 * len(g)):
            W = self.V[self.basis]
            multipliers = np.linalg.solve(W.T, g)
            signs = np.where(multipliers < 0, -1.0, 1.0)
            u = np.linalg.solve(W, signs)
            f = self.V @ u
            j = int(np.argmax(np.abs(f)))
            if abs(f[j]) <= 1.0 + 1e-11:
                break
            change = signs * np.linalg.solve(W.T, np.sign(f[j]) * self.V[j])
            with np.errstate(divide="ignore", invalid="ignore"):
                length = np.where(change > 1e-12, np.abs(multipliers) / change, np.inf)
            self.basis[int(np.argmin(length))] = j
        return u, [(int(i), float(sign)) for i, sign in zip(self.basis, signs, strict=True)]


@dataclass(frozen=True)
class _Found:
    """What the interior-point method returns."""

    x: np.ndarray
    t: np.ndarray
    rows: list[Row]
    multipliers: np.ndarray


class Structure:
    """Eq. (25) with a bias: min 1/2 sum_i v_i (y_i - sum_l f^l(x_i) - b)^2 + rho sum_l t_l, |f^l(x_i)| <= t_l.

    An interior-point method finds the active rows, with only those rows among the constraints that were ever violated;
    the linear system of the active rows then gives the solution to working precision, affine in rho. `pieces` follows
    the solution from piece to piece, one row or one component in or out at every breakpoint. Where components share
    alpha, so that rows depend on each other to rounding, `Parametric` does both. Of rows that are equal, or opposite,
    the first stands for all.
    """

    def __init__(self, blocks: Blocks, y: np.ndarray, weights: np.ndarray) -> None:
        self.blocks = blocks
        scale = np.sqrt(weights)
        stacked = np.hstack(blocks.Q)
        self.means = weights @ stacked / weights.sum(), float(weights @ y / weights.sum())
        H = scale[:, None] * (stacked - self.means[0])
        target = scale * (y - self.means[1])
        self.unit = float(np.linalg.norm(target)) or 1.0
        self.root = float(np.sqrt(len(y)))
        basis = blocks.basis
        H = H if basis is None else H @ basis
        self.gram, self.right = H.T @ H, H.T @ (target / self.unit)
        self.rows = [  # sup-norm rows in the unknown x, in units in which they are of size 1
            self.root * (Q if basis is None else Q @ basis[place])
            for Q, place in zip(blocks.Q, blocks.places, strict=True)
        ]
        whole = slice(0, len(self.right))
        self.columns = blocks.places if basis is None else [whole] * len(self.rows)  # the unknowns of each component
        self.empty = np.array([not Q.any() for Q in blocks.Q], dtype=bool)
        self.alike = [_alike(Q) for Q in blocks.Q]
        self.inside = np.flatnonzero(~self.empty)
        spanning = [self._spanning(part) for part in range(len(self.rows))]
        self.first_rows = [{(int(i), sign) for i in rows for sign in (1.0, -1.0)} for rows in spanning]
        self.working = [set(rows) for rows in self.first_rows]
        self.norms = [_DualNorm(Q, rows[: Q.shape[1]]) for Q, rows in zip(blocks.Q, spanning, strict=True)]

    @cached_property
    def distinct(self) -> list[tuple[int, int]]:
        """Component and row of every distinct row."""
        first = [np.flatnonzero(self.alike[part][0] == np.arange(len(self.rows[part]))) for part in self.inside]
        return [(int(part), int(i)) for part, rows in zip(self.inside, first, strict=True) for i in rows]

    @cached_property
    def signed(self) -> list[Row]:
        """The rows as `Parametric` counts them."""
        return [(part, i, sign) for sign in (1.0, -1.0) for part, i in self.distinct]

    @cached_property
    def parametric(self) -> Parametric:
        """The programme of components that share alpha."""
        rows = np.array([self.rows[part][i] for part, i in self.distinct])
        parts = np.searchsorted(self.inside, [part for part, _ in self.distinct])
        return Parametric(self.gram, rows, parts)

    def _spanning(self, part: int) -> np.ndarray:
        """Rows that bound a component in every direction: a basis first."""
        Q, first = self.blocks.Q[part], np.flatnonzero(self.alike[part][0] == np.arange(len(self.blocks.Q[part])))
        if self.empty[part]:
            return np.empty(0, dtype=np.intp)
        R, order = scipy.linalg.qr(Q[first].T, mode="r", pivoting=True, check_finite=False)
        size = np.abs(R.diagonal())
        rank = np.count_nonzero(size > 1e-5 * size[0])  # where alpha is shared, smaller ones are rounding
        return first[order[: rank + 1]]

    @cached_property
    def first(self) -> _Event:
        """The rho at and beyond which all components are 0: the largest right'x with sum_l t_l <= 1; what enters."""
        g = self.unit * self.right
        if self.blocks.basis is None:
            events = [_Event(0.0, [], [])]
            for part in np.flatnonzero(~self.empty):
                own = g[self.blocks.places[part]]
                u, tight = self.norms[part](own)
                events.append(_Event(float(u @ own), [], [(int(part), i, sign) for i, sign in tight]))
            return max(events, key=lambda event: event.rho)
        r, d = len(g), len(self.rows)
        size = float(np.abs(g).max(initial=0.0))
        while size > 0.0:
            rows, G = self._constraints()
            G = np.vstack([G, np.append(np.zeros(r), np.ones(d))])
            bounds = [(None, None)] * r + [(0.0, None)] * d
            limits = np.append(np.zeros(len(rows)), 1.0)
            found = linprog(
                np.append(-g / size, np.zeros(d)),
                A_ub=G,
                b_ub=limits,
                bounds=bounds,
                options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
            )
            if found.x is None:
                raise ValueError("Components: no rho is large enough for these columns: scale your features.")
            if not self._add_violated(found.x[:r], found.x[r:]):
                value = float(found.x[:r] @ g)
                holding = np.flatnonzero(found.ineqlin.marginals[:-1] < 0.0)
                return _Event(self.root * value, [], [rows[k] for k in holding])
        return _Event(0.0, [], [])

    @property
    def largest_rho(self) -> float:
        """The rho at and beyond which all components are 0."""
        return self.first.rho

    def intercept(self, z: np.ndarray) -> float:
        """b for z."""
        return float(self.means[1] - self.means[0] @ z)

    # One rho
    def solve(self, rho: float) -> Piece:
        """The solution for one rho, and the affine piece that it lies on."""
        scaled = rho / (self.unit * self.root)
        if self.blocks.basis is None and rho >= self.largest_rho:
            return self._nothing(rho)
        found = self._found(rho)
        if self.blocks.basis is not None and self._is_nothing(found, rho):
            return self._nothing(rho)
        if self.blocks.basis is not None:
            piece, _, _ = next(self._walk(self._optimum(found, rho), rho, 0.0))
            self._try_first(piece.active)
            return piece
        polished = self._polish(rho, scaled, found)
        if polished is not None:
            return polished
        # Too close to a breakpoint to tell which rows are active: what the interior-point method found.
        still = np.array([1.0, 0.0])
        x, t, zero = found.x.copy(), found.t.copy(), self._zero(found.t)
        for part in np.flatnonzero(zero):
            x[self.columns[part]] = t[part] = 0.0
        rows = [(row, m) for row, m in zip(found.rows, found.multipliers, strict=True) if not zero[row[0]]]
        multipliers = np.outer([m for _, m in rows], still)
        return self._piece(rho, np.outer(x, still), np.outer(t, still), multipliers, [row for row, _ in rows])

    def _is_nothing(self, found: _Found, rho: float) -> bool:
        """Whether all components are 0 where they share alpha.

        largest_rho is a linear programme then: not needed where 0 is clearly worse than what was found, nor where the
        multipliers found are those of 0.
        """
        pull = self.gram @ found.x
        value = found.x @ (0.5 * pull - self.right) + rho / (self.unit * self.root) * float(found.t.sum())
        if value <= -1e-9:
            return False
        return bool(np.abs(pull).max() <= 1e-10 * np.abs(self.right).max()) or rho >= self.largest_rho

    def _nothing(self, rho: float) -> Piece:
        """All components 0."""
        unknowns = self.blocks.places[-1].stop
        return Piece(rho, np.zeros((unknowns, 2)), np.zeros((len(self.rows), 2)), np.empty((0, 2)), [])

    def _found(self, rho: float) -> _Found:
        """By the interior-point method, no row violated."""
        found = self._interior_point(rho / (self.unit * self.root))
        while self._add_violated(found.x, found.t):
            found = self._interior_point(rho / (self.unit * self.root))
        return found

    def _zero(self, t: np.ndarray) -> np.ndarray:
        """The components that are 0."""
        return np.asarray((t < 1e-6 * max(1.0, float(t.max()))) | self.empty)

    def _piece(self, rho: float, x: np.ndarray, t: np.ndarray, multipliers: np.ndarray, active: list[Row]) -> Piece:
        """A piece in the units of the data; its active rows are the first to try at the next rho."""
        self._try_first(active)
        unit = self.unit * self.root
        to_rho = np.array([[1.0, 0.0], [rho / unit, 1.0 / unit]])  # from (constant, slope) to (value, slope)
        return Piece(
            rho, self.unit * x @ to_rho, self.unit / self.root * t @ to_rho, unit * multipliers @ to_rho, active
        )

    def _try_first(self, active: list[Row]) -> None:
        self.working = [
            rows | {(i, sign) for c, i, sign in active if c == part} for part, rows in enumerate(self.first_rows)
        ]

    def _constraints(self) -> tuple[list[Row], np.ndarray]:
        """The working rows, and the matrix that is not above 0 in (x, t)."""
        r, d = len(self.right), len(self.rows)
        rows = [(part, i, sign) for part, working in enumerate(self.working) for i, sign in sorted(working)]
        G = np.zeros((len(rows), r + d), order="F")
        for k, (part, i, sign) in enumerate(rows):
            G[k, self.columns[part]] = sign * self.rows[part][i]
            G[k, r + part] = -1.0
        return rows, G

    def _interior_point(self, rho: float) -> _Found:
        """The programme with the working rows alone."""
        import piqp

        r, d = len(self.right), len(self.rows)
        rows, G = self._constraints()
        P = np.zeros((r + d, r + d), order="F")
        P[:r, :r] = self.gram
        P[r:, r:] = np.diag(self.empty.astype(float))  # nothing else holds their t
        solver = piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-11
        solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 1e-11
        solver.setup(P, np.concatenate([-self.right, rho * ~self.empty]), G=G, h_u=np.zeros(len(rows)))
        solver.solve()
        x = np.array(solver.result.x)
        if not np.isfinite(x).all():
            raise ValueError("Components: the quadratic programme has no finite solution: scale your features.")
        return _Found(x[:r], x[r:], rows, np.array(solver.result.z_u))

    def _worst(self, x: np.ndarray, t: np.ndarray, tolerance: float) -> list[Row]:
        """The most violated row of every component and sign."""
        rows = []
        for part in np.flatnonzero(~self.empty):
            f = self.rows[part] @ x[self.columns[part]]
            first, same = self.alike[part]
            for sign in (1.0, -1.0):
                i = int(np.argmax(sign * f))
                if sign * f[i] > t[part] + tolerance:
                    rows.append((int(part), int(first[i]), float(sign * same[i])))
        return list(dict.fromkeys(rows))

    def _add_violated(self, x: np.ndarray, t: np.ndarray) -> bool:
        """Let the most violated rows in."""
        new = [(part, i, sign) for part, i, sign in self._worst(x, t, 1e-10) if (i, sign) not in self.working[part]]
        for part, i, sign in new:
            self.working[part].add((i, sign))
        return bool(new)

    def _polish(self, rho: float, scaled: float, found: _Found) -> Piece | None:
        """The linear system of the active rows, to working precision; rows leave or enter until all signs are right."""
        x, t = found.x, found.t
        zero = self._zero(t)
        active = [
            (part, i, sign)
            for (part, i, sign), multiplier in zip(found.rows, found.multipliers, strict=True)
            if not zero[part]
            and multiplier > max(t[part] - sign * self.rows[part][i] @ x[self.columns[part]], 1e-7 * scaled)
        ]
        point = np.array([1.0, scaled])
        for _ in range(30):
            x2, t2, multipliers = self._affine(zero, active)
            signs = multipliers @ point
            if len(signs) and signs.min() < -1e-10 * scaled:
                del active[int(np.argmin(signs))]
                continue
            entering = [row for row in self._worst(x2 @ point, t2 @ point, 1e-11) if row not in active]
            gone = ~zero & (t2 @ point <= 0.0)
            if gone.any():
                zero = zero | gone
                active = [row for row in active if not zero[row[0]]]
                continue
            active += entering
            if entering:
                continue
            back = self._back(zero, self.right - self.gram @ (x2 @ point), scaled)
            if not back:
                return self._piece(rho, x2, t2, multipliers, active)
            zero[back[0][0]] = False
            active += back
        return None

    def _back(self, zero: np.ndarray, g: np.ndarray, scaled: float) -> list[Row]:
        """The rows with which a component cannot be 0, if there is one, for the correlations g."""
        for part in np.flatnonzero(zero & ~self.empty):
            own, bound = g[self.blocks.places[part]] / self.root, scaled * (1.0 + 1e-10)
            if self.norms[part].bound(own) > bound:
                u, rows = self.norms[part](own)
                if u @ own > bound:
                    return [(int(part), i, sign) for i, sign in rows]
        return []

    def _affine(self, zero: np.ndarray, active: list[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, t and multipliers, each (constant, slope) in the scaled rho, with the active rows at their bounds."""
        r, d = len(self.right), len(self.rows)
        free = np.ones(r, dtype=bool)
        for gone in np.flatnonzero(zero):
            free[self.blocks.places[gone]] = False
        kept = np.flatnonzero(~zero)
        place = {int(number): k for k, number in enumerate(kept)}
        n, p, m = int(free.sum()), len(kept), len(active)
        C = np.zeros((m, r))
        E = np.zeros((m, p))
        for k, (part, i, sign) in enumerate(active):
            C[k, self.columns[part]] = sign * self.rows[part][i]
            E[k, place[part]] = 1.0
        C = C[:, free]
        system = np.zeros((n + p + m, n + p + m))
        system[:n, :n] = self.gram[np.ix_(free, free)]
        system[:n, n + p :] = C.T
        system[n : n + p, n + p :] = -E.T
        system[n + p :, :n] = C
        system[n + p :, n : n + p] = -E
        right = np.zeros((n + p + m, 2))
        right[:n, 0] = self.right[free]
        right[n : n + p, 1] = -1.0
        solution = _solve_symmetric(system, right)
        x, t = np.zeros((r, 2)), np.zeros((d, 2))
        x[free], t[kept] = solution[:n], solution[n : n + p]
        return x, t, solution[n + p :]

    # From piece to piece
    def pieces(self, high: float, low: float) -> Iterator[tuple[Piece, float, float]]:
        """All affine pieces between two rho, falling, each with the interval that it is the solution on."""
        if self.blocks.basis is not None:
            yield from self._shared_pieces(high, low)
            return
        piece, upper = self.solve(high), high
        standing = 0  # pieces of no length, one after the other
        while upper > low:
            event = self._end(piece, min(piece.rho, upper))  # a piece found by `_below` is known from its own rho on
            yield piece, max(event.rho, low), upper
            standing = standing + 1 if event.rho >= upper else 0
            upper = event.rho
            if upper > low:
                known = standing <= 5 and (event.leaves or event.enters)
                piece = (self._after(piece, event) if known else None) or self._below(upper)

    def _end(self, piece: Piece, upper: float) -> _Event:
        """Where the piece ends below `upper`, and what ends it."""
        if not piece.active:
            return _Event(min(self.largest_rho, upper), [], self.first.enters)
        if not piece.z[:, 1].any():
            return _Event(upper, [], [])  # not from the system of its rows: known at one rho only
        rho, k = _last_root(piece.lines(piece.multipliers), upper, upper)
        candidates = [_Event(0.0, [], []), _Event(rho, [piece.active[k]], [])]
        z, t = piece.lines(piece.z), piece.lines(piece.t)
        for part in np.flatnonzero(piece.t.any(axis=1)):
            own = [row for row in piece.active if row[0] == part]
            if len(own) == self.blocks.Q[part].shape[1]:  # on a ray from 0
                candidates.append(_Event(_last_root(t[part : part + 1], upper, 0.0)[0], own, []))
                continue
            f, first = self.blocks.Q[part] @ z[self.blocks.places[part]], self.alike[part][0]
            for sign in (1.0, -1.0):
                away = first == np.arange(len(f))
                away[[i for _, i, s in own if s == sign]] = False
                rows = np.flatnonzero(away)
                if len(rows):
                    rho, k = _last_root(t[part] - sign * f[rows], upper, float(t[part] @ [1.0, upper]))
                    candidates.append(_Event(rho, [], [(int(part), int(rows[k]), sign)]))
        return self._entering(piece, upper, max(candidates, key=lambda event: event.rho))

    def _entering(self, piece: Piece, upper: float, last: _Event) -> _Event:
        """The event, or that of a component that cannot stay 0 as long.

        The least multipliers of such a component sum to h(rho) = max g(rho)'u over |Q u| <= 1, convex in rho; it may
        stay while h(rho) <= rho. Newton's method from the edge below ends after finitely many steps.
        """
        g = -(self.gram @ piece.lines(piece.z))
        g[:, 0] += self.unit * self.right
        for part in np.flatnonzero(~piece.t.any(axis=1) & ~self.empty):
            own, norm = g[self.blocks.places[part]], self.norms[part]
            while norm.bound(own @ [1.0, last.rho]) > last.rho:
                u, rows = norm(own @ [1.0, last.rho])
                constant, slope = u @ own
                if constant + slope * last.rho <= last.rho * (1.0 + 1e-12):
                    break
                edge = min(constant / (1.0 - slope), upper) if slope < 1.0 else upper
                if edge <= last.rho:
                    break
                last = _Event(edge, [], [(int(part), i, sign) for i, sign in rows])
                if edge == upper:
                    break
        return last

    def _after(self, piece: Piece, event: _Event) -> Piece | None:
        """The piece after an event, None where it is no continuation: several rows at once."""
        active = [row for row in piece.active if row not in event.leaves] + event.enters
        zero = np.ones(len(self.rows), dtype=bool)
        zero[[part for part, _, _ in active]] = False
        following = self._piece(event.rho, *self._affine(zero, active), active)
        if len(event.enters) == 1 and following.multipliers[-1, 1] < 0.0:
            # The multiplier of the new row is 0 here: a steep one would show the rounding in where "here" is.
            step = -following.multipliers[-1, 0] / following.multipliers[-1, 1]
            if abs(step) <= 5e-11 * event.rho:
                following = following.shifted(step)
        before, after = piece.at(event.rho)[0], following.at(event.rho)[0]
        size = float(np.abs(before).max(initial=0.0)) or self.unit
        same = np.abs(after - before).max(initial=0.0) <= 1e-8 * size
        return following if same and following.multipliers[:, 0].min(initial=0.0) >= -1e-10 * event.rho else None

    def _below(self, edge: float) -> Piece:
        """The piece just below a breakpoint, by the interior-point method: where many rows enter or leave at once."""
        for share in (1e-9, 1e-7, 1e-5, 1e-3, 1e-1):
            piece = self.solve(edge * (1.0 - share))
            if self._end(piece, piece.rho).rho < piece.rho:
                break
        return piece

    # Components that share alpha
    def _optimum(self, found: _Found, rho: float) -> Optimum:
        """What the interior-point method found, to working precision."""
        scaled = rho / (self.unit * self.root)
        programme, number = self.parametric, {row: k for k, row in enumerate(self.distinct)}
        f = programme.rows @ found.x
        t = np.zeros(len(self.inside))
        np.maximum.at(t, programme.parts, np.abs(f))
        rows: dict[int, float] = {}
        for (part, i, sign), multiplier in zip(found.rows, found.multipliers, strict=True):
            k = number[part, i]
            if multiplier > t[programme.parts[k]] - sign * f[k]:
                rows[k if sign > 0 else k + len(f)] = float(multiplier)
        working, multipliers = list(rows), np.array(list(rows.values()))
        for part, size in enumerate(t):  # multipliers of every component sum to rho
            own = programme.parts[np.array(working, dtype=np.intp) % len(f)] == part
            if not own.any():
                k = int(np.argmax(np.where(programme.parts == part, np.abs(f), -1.0)))
                working.append(k if f[k] == size else k + len(f))
                own, multipliers = np.append(own, True), np.append(multipliers, 1.0)
            multipliers[own] *= scaled / multipliers[own].sum()
        start = programme.reduced(Optimum(np.append(found.x, t), working, multipliers))
        return programme.exact(start, self._linear(scaled))

    def _linear(self, scaled: float) -> np.ndarray:
        return np.append(self.right, np.full(len(self.inside), -scaled))

    def _walk(self, optimum: Optimum, start: float, end: float) -> Iterator[tuple[Piece, float, float]]:
        """The pieces from one rho to another, up or down, each with where it begins and ends."""
        programme, unit, sign = self.parametric, self.unit * self.root, 1.0 if end > start else -1.0
        dg = np.append(np.zeros(programme.r), np.full(len(self.inside), -sign))
        rho, stop = start / unit, end / unit
        while rho != stop:
            optimum = programme.exact(optimum, self._linear(rho))
            goal = max(stop, rho / 4) if sign < 0 else stop  # a small rho is no difference of large ones
            for number, line in enumerate(programme.follow(optimum, dg, abs(goal - rho))):
                first, last = (goal if x == abs(goal - rho) else rho + sign * x for x in (line.begin, line.end))
                piece = self._line(first * unit, line.optimum, line.slope, sign)
                yield piece, piece.rho, end if last == stop else last * unit
                # rounding piles up from piece to piece
                if number % 10 == 9 and not programme.is_exact(line.last, self._linear(last), 10.0):
                    break
            optimum, rho = line.last, last

    def _line(self, rho: float, optimum: Optimum, slope: Optimum, sign: float) -> Piece:
        """The piece of an optimum that moves by `slope` where the scaled rho moves by `sign`."""
        unit, r = self.unit * self.root, self.parametric.r
        to_rho = np.array([1.0, sign / unit])
        w = np.column_stack([optimum.w, slope.w]) * to_rho
        t = np.zeros((len(self.rows), 2))
        t[self.inside] = self.unit / self.root * w[r:]
        multipliers = unit * np.column_stack([optimum.multipliers, slope.multipliers]) * to_rho
        z = np.tile(self.unit * w[:r], (len(self.rows), 1))
        return Piece(rho, z, t, multipliers, [self.signed[k] for k in optimum.working])

    def _ray(self, piece: Piece) -> tuple[float, bool]:
        """The rho at which the components sum to 0, and whether that proves that no other piece is in between.

        It does where all of them are 0 there with multipliers that are not negative: optimal at both ends, and affine.
        """
        total, slope = piece.t.sum(axis=0)
        if slope >= 0.0:
            return np.inf, False
        zero = float(piece.rho - total / slope)
        left, multipliers = np.abs(piece.at(zero)[0]).max(), piece.multipliers_at(zero)
        return zero, bool(left <= 1e-11 * self.unit and multipliers.min() >= -1e-11 * zero)

    def _shared_pieces(self, high: float, low: float) -> Iterator[tuple[Piece, float, float]]:
        """`pieces` where components share alpha.

        Up to the first rho the path ends in a ray to 0. Where rows do not settle, a hundredth of rho is one piece.
        """
        if self.largest_rho <= low:
            yield self._nothing(high), low, high
            return
        rho = high if high < self.largest_rho else 0.95 * self.largest_rho
        optimum = self._optimum(self._found(rho), rho)
        if high > rho:  # up to where all components are 0
            above, zero = [], high
            with suppress(Unsettled):
                for piece, begin, end in self._walk(optimum, rho, 2.0 * self.largest_rho):
                    above.append((piece, begin, end))
                    zero, proved = self._ray(piece)
                    if proved or end >= zero or len(piece.active) > 2 * self.parametric.n:  # the rest is rounding
                        break
            zero = min(zero, high)
            yield self._nothing(high), zero, high
            for piece, begin, end in reversed(above):
                yield piece, begin, zero if piece is above[-1][0] else end
        while rho > low:
            try:
                for piece, begin, end in self._walk(optimum, rho, low):
                    yield piece, end, begin
                    rho = end
            except Unsettled:  # go on a little below
                below = max(0.99 * rho, low)
                yield self.solve(below), below, rho
                rho, optimum = below, self._optimum(self._found(below), below)


def _last_root(lines: np.ndarray, upper: float, size: float) -> tuple[float, int]:
    """The largest rho below `upper` at which one of the lines (constant, slope), not negative there, is 0; which one.

    Lines that are 0 throughout, to working precision of `size`, have none.
    """
    constant, slope = lines[:, 0], lines[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.where(slope * upper > 1e-12 * size, np.minimum(-constant / slope, upper), 0.0)
    k = int(np.argmax(root))
    return max(float(root[k]), 0.0), k


def _alike(Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every row the first row that is equal to it or opposite, and the sign."""
    if not Q.any():
        return np.arange(len(Q)), np.ones(len(Q))
    rounded = np.round(Q / np.abs(Q).max(), 11)
    lead = rounded[np.arange(len(Q)), np.argmax(rounded != 0, axis=1)]
    sign = np.where(lead < 0, -1.0, 1.0)
    _, first, inverse = np.unique(sign[:, None] * rounded + 0.0, axis=0, return_index=True, return_inverse=True)
    first = first[inverse.reshape(-1)]
    return first, sign * sign[first]


def _solve_symmetric(A: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A \\ right, of least norm where A is singular, with a step of refinement."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
            factor = scipy.linalg.lu_factor(A, check_finite=False)
            x = scipy.linalg.lu_solve(factor, right, check_finite=False)
            x = x + scipy.linalg.lu_solve(factor, right - A @ x, check_finite=False)
            if np.abs(A @ x - right).max(initial=0.0) <= 1e-11 * (1 + np.abs(right).max(initial=0.0)):
                return x
    except (scipy.linalg.LinAlgWarning, scipy.linalg.LinAlgError):
        pass
    # by QR: singular values of such systems may not converge
    return scipy.linalg.lstsq(A, right, cond=1e-14, lapack_driver="gelsy", check_finite=False)[0]
