"""Structure detection: the sum of maximal variations (Pelckmans et al. 2005, eq. 25), and its path in rho."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from .. import arrays
from ..arrays import cached_property
from ..kernels import Additive, Kernel, pick_columns
from .parametric import Optimum, Parametric, Unsettled

CUT = 1e-10  # Smaller eigenvalues, relative to a kernel's size, need coefficients too large for its rounding errors.
SMALLEST = 1e-7  # For kernels below this share of the largest, CUT leaves only a component's largest functions.

FIRST = 1e-5  # The path begins at this share of rho below the first one.


# The components ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Blocks:
    """The components of an additive kernel on the training rows: f^l = Q_l z_l with z = A'alpha and 1'alpha = 0.

    If the ranks add up to less than the number of basis points, every z has an alpha (`basis` is None), the columns of
    each Q_l are orthonormal, and a component can be exactly 0. Otherwise all z_l depend on the same x, z = basis @ x:
    alpha in the principal directions of the stacked components. Components that are the same function of alpha, e.g. of
    equal columns, are merged into their sum, whose maximal variation is the sum of theirs.
    """

    Q: list[np.ndarray]
    other: list[np.ndarray]  # the same functions on the validation rows
    A: np.ndarray  # z = A'alpha, or alpha = A x
    basis: np.ndarray | None
    number: np.ndarray  # for every component of the kernel, its index here

    def each(self, t: np.ndarray) -> np.ndarray:
        """Return the maximal variations of all components of the kernel."""
        return (t / np.bincount(self.number, minlength=len(t)))[self.number]

    @property
    def places(self) -> list[slice]:
        """The slice of z of each component."""
        ends = np.cumsum([block.shape[1] for block in self.Q])
        return [slice(int(end) - block.shape[1], int(end)) for end, block in zip(ends, self.Q, strict=True)]

    def alpha(self, z: np.ndarray) -> np.ndarray:
        """Return the coefficients of least norm that give z."""
        if self.basis is not None:
            return self.A @ z[self.places[0]]
        size = np.linalg.norm(self.A, axis=0)  # columns may have any unit
        return np.linalg.lstsq((self.A / size).T, z / size, rcond=1e-13)[0]


def component_blocks(kernel: Additive, X: np.ndarray, points: np.ndarray, train: np.ndarray) -> Blocks:
    """Return Q_l for the rows `train` of X and for the other rows, with the basis `points`."""
    seen: dict[tuple[bytes, bytes], int] = {}
    number: list[int] = []
    parts: list[tuple[Kernel, np.ndarray, np.ndarray]] = []
    features: list[tuple[np.ndarray, np.ndarray]] = []
    for group, part in kernel.kept(X.shape[1]).values():
        own, basis = pick_columns(X, group), pick_columns(points, group)
        # a pivoted Cholesky factor, cut at 1e-14: k(x, z) = phi(x)'phi(z), where `factor` is phi of the points
        K = part.evaluate(basis, basis)
        factor, pivots = arrays.pivoted_cholesky(K, 1e-14 * max(float(K.diagonal().max()), 0.0))
        phi = arrays.whiten_rows(part.evaluate(own, basis[pivots]), factor[pivots], 0.0)
        number.append(seen.setdefault((own.tobytes(), phi.tobytes()), len(parts)))
        if number[-1] == len(parts):
            parts.append((part, own, basis))
            features.append((phi, factor))
    times = np.bincount(number)
    functions = [_orthonormal(phi, factor, train) for phi, factor in features]
    stacked = np.hstack([count * A for count, (_, A) in zip(times, functions, strict=True)])
    size = [float(np.linalg.norm(factor)) ** 2 or 1.0 for _, factor in features]
    s = np.linalg.svd(stacked / np.repeat(size, [A.shape[1] for _, A in functions]), compute_uv=False)
    if len(s) == stacked.shape[1] and np.min(s, initial=1.0) > CUT:
        Q, other = [phi[train] for phi, _ in functions], [phi[~train] for phi, _ in functions]
        blocks = Blocks(Q, other, stacked, None, np.array(number))
        scaled = [(count * phi[train], factor) for count, (phi, factor) in zip(times, features, strict=True)]
        if _reproduced(blocks, scaled):
            return blocks
    matrices = [count * part.evaluate(own, basis) for count, (part, own, basis) in zip(times, parts, strict=True)]
    _check_sizes([matrices[place][train] for place in number], list(kernel.kept(X.shape[1])))
    return _shared_blocks(matrices, train, np.array(number))


def _orthonormal(phi: np.ndarray, factor: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a component phi factor'alpha, 1'alpha = 0, as Q z with Q orthonormal on the training rows; A, z = A'alpha.

    Directions dominated by rounding errors are dropped.
    """
    U, s, T = np.linalg.svd(factor - factor.mean(axis=0), full_matrices=False)  # 1'alpha = 0
    kept = s > np.sqrt(CUT) * float(np.linalg.norm(factor))
    phi, U = phi @ (T[kept].T * s[kept]), U[:, kept]
    _, s, T = np.linalg.svd(phi[train], full_matrices=False)
    kept = s > CUT * (float(s[0]) if len(s) else 0.0)
    return phi @ (T[kept].T / s[kept]), U @ (T[kept].T * s[kept])


def _shared_blocks(K: list[np.ndarray], train: np.ndarray, number: np.ndarray) -> Blocks:
    """Return blocks of components that share alpha, from their kernel matrices.

    If directions that are small in one component alone were dropped, that component would not be K_l alpha.
    """
    rows = np.vstack([block[train] for block in K])
    _, s, T = np.linalg.svd(np.linalg.qr(rows - rows.mean(axis=1, keepdims=True), mode="r"))  # 1'alpha = 0
    kept = s > CUT * s[0]
    directions = (T[kept] - T[kept].mean(axis=1, keepdims=True)).T / s[kept]
    phis = [block @ directions for block in K]
    phis = [phi * (np.abs(phi[train]).max() > 1e-6) for phi in phis]  # constant columns leave only rounding errors
    basis = np.vstack([np.eye(len(directions.T))] * len(K))
    return Blocks([phi[train] for phi in phis], [phi[~train] for phi in phis], directions, basis, number)


def _check_sizes(K: list[np.ndarray], numbers: list[int]) -> None:
    """Warn if the cut, relative to the largest kernel, leaves little of a component that is not constant."""
    sizes = np.array([np.linalg.norm(block) for block in K])
    varying = np.array([np.linalg.norm(block - block.mean(axis=1, keepdims=True)) for block in K]) > CUT * sizes
    lost = np.array(numbers)[varying & (sizes < SMALLEST * sizes.max())]
    if len(lost):
        what = f"Components: kernel values of components {lost.tolist()} are below {SMALLEST:g} times the largest ones"
        arrays.warn(f"{what}, and most of these is lost to rounding errors: centre and scale your features.")


def _reproduced(blocks: Blocks, features: list[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Return whether alpha reproduces the components for some z: the kernel alone may make dropped directions small."""
    z = np.random.RandomState(0).standard_normal((blocks.A.shape[1],))
    alpha = blocks.alpha(z)
    for (phi, factor), Q, place in zip(features, blocks.Q, blocks.places, strict=True):
        dropped = Q.shape[1] < phi.shape[1]
        if dropped and np.abs(phi @ (factor.T @ alpha) - Q @ z[place]).max(initial=0.0) > 1e-5:
            return False
    return True


# The programme --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Piece:
    """The solution of eq. (25) at one rho and on the surrounding interval, on which it is affine in rho.

    z, t (maximal variations) and the multipliers of the active rows (those of `Parametric`, without the components that
    are 0) have two columns: value at `rho`, and slope.
    """

    rho: float
    z: np.ndarray
    t: np.ndarray
    multipliers: np.ndarray
    active: list[int]

    def at(self, rho: float) -> tuple[np.ndarray, np.ndarray]:
        """Return z and t at rho."""
        place = np.array([1.0, rho - self.rho])
        return self.z @ place, np.maximum(self.t @ place, 0.0)


class Structure:
    """Eq. (25) with a bias: min 1/2 sum_i v_i (y_i - sum_l f^l(x_i) - b)^2 + rho sum_l t_l, |f^l(x_i)| <= t_l.

    An interior-point method finds the active rows; its constraints are only the rows that were violated at some point.
    `Parametric` makes the solution exact and follows its path. Of rows that are equal or opposite, only the first is
    used. Components that are 0 on all rows are not part of the programme.
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
        self.basis = np.eye(H.shape[1]) if blocks.basis is None else blocks.basis
        H = H @ self.basis
        self.gram, self.right = H.T @ H, H.T @ (target / self.unit)
        self.inside = [part for part, Q in enumerate(blocks.Q) if Q.any()]  # the components that can differ from 0
        first = [distinct_rows(blocks.Q[part]) for part in self.inside]
        # rows of the sup-norm constraints in the unknown x, scaled to size 1
        whole, places = slice(0, len(self.right)), blocks.places
        columns = [places[part] if blocks.basis is None else whole for part in self.inside]
        parts = zip(self.inside, first, columns, strict=True)
        rows = [self.root * blocks.Q[part][own] @ self.basis[places[part], place] for part, own, place in parts]
        self.parametric = Parametric(self.gram, rows, columns, separate=blocks.basis is None)
        starts = zip(self.parametric.starts, self.inside, first, strict=True)
        spanning = [start + _spanning(blocks.Q[part][own]) for start, part, own in starts]
        self.first_rows = {int(k) + sign for own in spanning for k in own for sign in (0, self.parametric.count)}
        self.working = self.first_rows

    @cached_property
    def largest_rho(self) -> float:
        """The rho from which on all components are 0: the largest right'x with sum_l t_l <= 1."""
        g = self.unit * self.right
        parametric, r = self.parametric, self.parametric.r
        size = float(np.abs(g).max(initial=0.0))
        total = np.append(np.zeros(r), np.ones(parametric.n - r))
        while size > 0.0:
            rows = sorted(self.working)
            for tolerance in (1e-10, 1e-7):  # HiGHS may fail with the smaller one
                found = scipy.optimize.linprog(
                    np.append(-g / size, np.zeros(parametric.n - r)),
                    A_ub=np.vstack([parametric.matrix(rows), total]),
                    b_ub=np.append(np.zeros(len(rows)), 1.0),
                    bounds=[(None, None)] * r + [(0.0, None)] * (parametric.n - r),
                    options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
                )
                if found.x is not None:
                    break
            else:
                raise ValueError("Components: the largest rho of these columns is not finite: scale your features.")
            if not self._add_violated(found.x):
                return self.root * float(found.x[:r] @ g)
        return 0.0

    def intercept(self, z: np.ndarray) -> float:
        """Return the intercept b for z."""
        return float(self.means[1] - self.means[0] @ z)

    def solve(self, rho: float) -> Piece:
        """Return the solution for one rho, and the affine piece that contains it."""
        if not self.inside:
            return self._nothing(rho)
        found = self._interior_point(rho)
        x, t = np.split(found.w, [self.parametric.r])
        value = x @ (0.5 * self.gram @ x - self.right) + self._scaled(rho) * t.sum()
        if value > -1e-9 and rho >= self.largest_rho:  # 0 is not clearly worse
            return self._nothing(rho)
        optimum = self._optimum(found, rho)
        self.working = self.first_rows | set(optimum.working)
        piece, _, _ = next(self._walk(optimum, rho, 0.0))
        return piece

    def _scaled(self, rho: float) -> float:
        """Return rho in the units of x and t."""
        return rho / (self.unit * self.root)

    def _linear(self, scaled: float) -> np.ndarray:
        """Return the linear term of the programme in (x, t)."""
        return np.append(self.right, np.full(len(self.inside), -scaled))

    def _nothing(self, rho: float) -> Piece:
        """Return the piece on which all components are 0."""
        return Piece(rho, np.zeros((len(self.basis), 2)), np.zeros((len(self.blocks.Q), 2)), np.empty((0, 2)), [])

    # The interior-point method on the working rows
    def _interior_point(self, rho: float) -> Optimum:
        """Solve the programme with few rows as constraints, and more of them until none is violated."""
        piqp = arrays.required("piqp", "components", "Components")
        parametric = self.parametric
        P = np.zeros((parametric.n, parametric.n), order="F")
        P[: parametric.r, : parametric.r] = self.gram
        while True:
            rows = sorted(self.working)
            solver = piqp.DenseSolver()
            solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-11
            solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 1e-11
            G = np.asfortranarray(parametric.matrix(rows))
            solver.setup(P, -self._linear(self._scaled(rho)), G=G, h_u=np.zeros(len(rows)))
            solver.solve()
            found = Optimum(np.array(solver.result.x), rows, np.array(solver.result.z_u))
            if not np.isfinite(found.w).all():
                raise ValueError("Components: the quadratic programme has no finite solution: scale your features.")
            if not self._add_violated(found.w):
                return found

    def _add_violated(self, w: np.ndarray) -> bool:
        """Add the most violated row of every component and sign to the working rows; False if there is none."""
        parametric, excess = self.parametric, self.parametric.excess(w)
        starts = [*parametric.starts, *parametric.starts + parametric.count]
        worst = [start + int(np.argmax(own)) for start, own in zip(starts, np.split(excess, starts[1:]), strict=True)]
        new = {int(row) for row in worst if excess[row] > 1e-10} - self.working
        self.working = self.working | new
        return bool(new)

    def _optimum(self, found: Optimum, rho: float) -> Optimum:
        """Return the result of the interior-point method, improved to working precision."""
        scaled, parametric = self._scaled(rho), self.parametric
        x = found.w[: parametric.r]
        f = parametric.values(x)
        t = np.maximum.reduceat(np.abs(f), parametric.starts)
        w = np.append(x, t)
        largest, parts = np.zeros(len(t)), parametric.parts[found.working]
        np.maximum.at(largest, parts, found.multipliers)
        tight = found.multipliers > -parametric.excess(w)[found.working]
        tight |= found.multipliers == largest[parts]  # every component has a working row
        working, multipliers = np.array(found.working)[tight], found.multipliers[tight]
        start = parametric.reduced(Optimum(w, working.tolist(), multipliers))
        return parametric.exact(start, self._linear(scaled))

    # From piece to piece
    def pieces(self, high: float, low: float) -> Iterator[tuple[Piece, float, float]]:
        """Yield all affine pieces from one rho down to another, each with the interval on which it is the solution."""
        held = None
        for piece, end, begin in self._lines(high, low):
            if held is not None and piece.active == held[0].active:  # only multipliers of components that are 0 changed
                held = held[0], end, held[2]
            elif end < begin:
                if held is not None:
                    yield held
                held = piece, end, begin
        if held is not None:
            yield held

    def _lines(self, high: float, low: float) -> Iterator[tuple[Piece, float, float]]:
        """Yield the pieces, which may have length 0 or continue the last one.

        The first piece begins where all components are 0, so that very close to there it is a ray to 0. Where the
        working rows cycle, one piece spans a hundredth of rho.
        """
        top, first = min(high, self.largest_rho), (1.0 - FIRST) * self.largest_rho
        if first <= low:
            yield self._nothing(high), low, high
            return
        if top < high:
            yield self._nothing(high), top, high
        rho = min(high, first)
        while low < rho:
            optimum = self._optimum(self._interior_point(rho), rho)
            try:
                for piece, _, end in self._walk(optimum, rho, low):
                    yield piece, end, top
                    top = rho = end
            except Unsettled:  # continue a little below
                rho = max(0.99 * rho, low)
                yield self.solve(rho), rho, top
                top = rho

    def _walk(self, optimum: Optimum, start: float, end: float) -> Iterator[tuple[Piece, float, float]]:
        """Yield the pieces from one rho to another, up or down, each with its beginning and end."""
        parametric, unit, sign = self.parametric, self.unit * self.root, 1.0 if end > start else -1.0
        dg = np.append(np.zeros(parametric.r), np.full(len(self.inside), -sign))
        rho, stop = start / unit, end / unit
        while rho != stop:
            optimum = parametric.exact(optimum, self._linear(rho))
            # avoids computing a small rho as a difference of large ones
            goal = max(stop, rho / 4) if sign < 0 else stop
            for number, line in enumerate(parametric.follow(optimum, dg, abs(goal - rho))):
                first, last = (goal if x == abs(goal - rho) else rho + sign * x for x in (line.begin, line.end))
                piece = self._piece(first * unit, line.optimum, line.slope, sign)
                yield piece, piece.rho, end if last == stop else last * unit
                # rounding errors accumulate from piece to piece
                if number % 10 == 9 and not parametric.is_exact(line.last, self._linear(last), 10.0):
                    break
            optimum, rho = line.last, last

    def _piece(self, rho: float, optimum: Optimum, slope: Optimum, sign: float) -> Piece:
        """Return the piece of an optimum that changes by `slope` when the scaled rho changes by `sign`."""
        parametric, unit = self.parametric, self.unit * self.root
        to_rho = np.array([1.0, sign / unit])
        x, t_inside = np.split(np.column_stack([optimum.w, slope.w]) * to_rho, [parametric.r])
        zero = parametric.zero(optimum.working)
        for part in np.flatnonzero(zero):
            x[parametric.columns[part]] = t_inside[part] = 0.0
        active = np.flatnonzero(~zero[parametric.parts[optimum.working]])
        multipliers = unit * np.column_stack([optimum.multipliers, slope.multipliers])[active] * to_rho
        t = np.zeros((len(self.blocks.Q), 2))
        t[self.inside] = self.unit / self.root * t_inside
        return Piece(rho, self.basis @ (self.unit * x), t, multipliers, [optimum.working[k] for k in active])


def _spanning(Q: np.ndarray) -> np.ndarray:
    """Return rows that bound a component in every direction, beginning with a basis."""
    R, order = scipy.linalg.qr(Q.T, mode="r", pivoting=True, check_finite=False)
    size = np.abs(R.diagonal())
    rank = np.count_nonzero(size > 1e-5 * size[0])  # if alpha is shared, smaller ones are rounding errors
    return np.asarray(order[: rank + 1])


def distinct_rows(Q: np.ndarray) -> np.ndarray:
    """Return the first of all rows that are equal or opposite."""
    rounded = np.round(Q / np.abs(Q).max(), 11)
    lead = rounded[np.arange(len(Q)), np.argmax(rounded != 0, axis=1)]
    sign = np.where(lead < 0, -1.0, 1.0)
    return np.sort(np.unique(sign[:, None] * rounded + 0.0, axis=0, return_index=True)[1])
