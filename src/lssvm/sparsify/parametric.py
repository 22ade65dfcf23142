"""A parametric active-set method for quadratic programmes with a sum of maximal variations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

SHIFT = 1e-14  # This multiple of |P| is added to its diagonal.
SLACK = 1e-12  # A row may exceed its bound by this multiple of its multiplier.
SLACK_SEPARATE = 1e-16  # The same holds for separate components, whose working rows are independent.
MOST = 200  # The working rows change at most this often at one point; more than five changes are rare.
ROUNDING = 1e-13  # The residual of a system may be this large, relative to its right-hand side.


class Unsettled(Exception):
    """The working rows cycle at one point: they are closer to linear dependence than SLACK can resolve."""


@dataclass(frozen=True)
class Optimum:
    """Unknowns w = (x, t), working rows and their multipliers; or the slopes of unknowns and multipliers."""

    w: np.ndarray
    working: list[int]
    multipliers: np.ndarray


@dataclass(frozen=True)
class Line:
    """The optima from `begin` to `end`: the first one and the slope."""

    optimum: Optimum
    slope: Optimum
    begin: float
    end: float

    @property
    def last(self) -> Optimum:
        """The optimum at the end of the line."""
        first, slope, length = self.optimum, self.slope, self.end - self.begin
        multipliers = np.maximum(first.multipliers + length * slope.multipliers, 0.0)
        return Optimum(first.w + length * slope.w, first.working, multipliers)


class Parametric:
    """min 1/2 x'Px - q'x + rho sum_l t_l with -t_l <= v_i'x <= t_l for the rows v_i of component l, as the data change.

    Along a line of data the optimum is affine until a free row reaches its bound or a multiplier becomes 0; the row
    then joins or leaves the working rows. Rows of smooth components are linearly dependent up to rounding, and P may be
    nearly singular: the multipliers and the set of working rows are then determined by rounding errors. Two changes far
    below any tolerance make both unique: P + SHIFT |P| I, and bounds that a row may exceed by SLACK times its
    multiplier. The system of any working rows [[P, A'], [A, -SLACK I]] is then regular, and every change of rows is
    possible.

    If components are `separate`, each with its own `columns` of x, a component is 0 if it has more working rows than
    columns. All of its rows are then at their bounds, but no other row joins until one leaves: this is the simplex
    method for its multipliers.

    The next line begins at the optimum at the end of the last one; solving for it again would change the multipliers by
    rounding/SLACK. Row k is v_k for k below the number of rows, otherwise the negative of v_(k - number).
    """

    def __init__(self, P: np.ndarray, rows: list[np.ndarray], columns: list[slice], separate: bool) -> None:
        self.r, self.rows, self.columns = len(P), rows, columns
        self.slack = SLACK_SEPARATE if separate else SLACK
        self.n = self.r + len(rows)
        self.P = P + SHIFT * float(np.linalg.eigvalsh(P).max(initial=0.0)) * np.eye(self.r)
        self.parts = np.tile(np.repeat(np.arange(len(rows)), [len(V) for V in rows]), 2)  # components of the rows
        self.count = len(self.parts) // 2
        self.starts = np.searchsorted(self.parts[: self.count], np.arange(len(rows)))
        self.known: dict[int, np.ndarray] = {}  # rows of A
        self.most = np.array([V.shape[1] if separate else 2 * self.count for V in rows], dtype=int)

    def matrix(self, working: list[int]) -> np.ndarray:
        """Return A of the working rows, with the constraints A w <= 0."""
        for row in working:
            if row not in self.known:  # a working row is needed again and again
                sign, k = divmod(row, self.count)
                part, a = self.parts[k], np.zeros(self.n)
                a[self.columns[part]] = (1.0 - 2.0 * sign) * self.rows[part][k - self.starts[part]]
                a[self.r + part] = -1.0
                self.known[row] = a
        return np.array([self.known[row] for row in working]).reshape(-1, self.n)

    def gradient(self, optimum: Optimum) -> np.ndarray:
        """Return the linear term for which `optimum` is the optimum."""
        g = optimum.multipliers @ self.matrix(optimum.working)
        g[: self.r] += self.P @ optimum.w[: self.r]
        return g

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return v_i'x for all rows."""
        return np.concatenate([V @ x[place] for V, place in zip(self.rows, self.columns, strict=True)])

    def excess(self, w: np.ndarray) -> np.ndarray:
        """Return A w for all rows."""
        f, t = self.values(w[: self.r]), w[self.r :][self.parts[: self.count]]
        return np.concatenate([f - t, -f - t])

    def zero(self, working: list[int]) -> np.ndarray:
        """Return the components that are 0 because they have more working rows than unknowns."""
        return np.bincount(self.parts[working], minlength=len(self.most)) > self.most

    # The system of the working rows
    def _inverse(self, working: list[int]) -> np.ndarray:
        A = self.matrix(working)
        system = np.zeros((self.n + len(A),) * 2)
        system[: self.r, : self.r] = self.P
        system[: self.n, self.n :] = A.T
        system[self.n :, : self.n] = A
        system[self.n :, self.n :] = -self.slack * np.eye(len(A))
        return np.linalg.inv(system)

    def _slope(self, inverse: np.ndarray, working: list[int], dg: np.ndarray, dh: np.ndarray) -> tuple[Optimum, bool]:
        """Return the derivative of the optimum along the data, refined, and whether the inverse was accurate."""
        A, right = self.matrix(working), np.concatenate([dg, dh])
        solution, rest = np.zeros_like(right), right
        for _ in range(8):
            with np.errstate(invalid="ignore"):
                solution = solution + inverse @ rest
            w, multipliers = solution[: self.n], solution[self.n :]
            rest = right - np.concatenate([multipliers @ A, A @ w - self.slack * multipliers])
            rest[: self.r] -= self.P @ w[: self.r]
            size = np.abs(w).max() + np.abs(right).max()
            sums = np.abs(multipliers).max(initial=0.0) + np.abs(dg[self.r :]).max()  # the equations of t lack w
            limits = ROUNDING * np.array([size + np.abs(multipliers).max(initial=0.0), sums, size])
            # the excess of rows grows only by SLACK times the slope of their multipliers
            parts = zip(np.split(rest, [self.r, self.n]), limits, strict=True)
            good = all(np.abs(part).max(initial=0.0) <= limit for part, limit in parts)
            if good:
                break
        return Optimum(w, working, multipliers), bool(good)

    # Lines
    def follow(self, optimum: Optimum, dg: np.ndarray, length: float, h: np.ndarray | None = None) -> Iterator[Line]:
        """Yield the optima along a line from 0 to `length`.

        The linear term changes by dg per unit, and the bounds from h to 0 (None: they stay).
        """
        bounds = np.zeros(2 * self.count) if h is None else h
        dh = -bounds / length
        excess, here = self.excess(optimum.w) - bounds, 0.0
        inverse, fresh = self._inverse(optimum.working), True
        standing = 0  # number of consecutive lines of length 0
        while standing < MOST:
            working = optimum.working
            slope, good = self._slope(inverse, working, dg, dh[working])
            if not good and not fresh:
                inverse = self._inverse(working)
                slope, _ = self._slope(inverse, working, dg, dh[working])
            rise = self.excess(slope.w) - dh
            zero = self.zero(working)
            rise[working] = 0.0
            rise[zero[self.parts]] = 0.0
            enter, entering = first_zero(-excess, rise)
            leave, leaving = first_zero(optimum.multipliers, -slope.multipliers)
            step = min(enter, leave, length - here)
            last = step >= length - here
            line = Line(optimum, slope, here, length if last else here + step)
            yield line
            if last:
                return
            optimum, here, fresh = line.last, line.end, False
            standing = standing + 1 if line.end == line.begin else 0
            excess += step * rise
            if enter <= leave:
                excess[entering] = 0.0
                inverse = self._joined(inverse, entering)
                optimum = Optimum(optimum.w, [*working, entering], np.append(optimum.multipliers, 0.0))
            else:
                part = self.parts[working[leaving]]
                excess[self.parts == part if zero[part] else working[leaving]] = 0.0
                inverse = _without(inverse, self.n + leaving)
                left = working[:leaving] + working[leaving + 1 :]
                optimum = Optimum(optimum.w, left, np.delete(optimum.multipliers, leaving))
        raise Unsettled

    def reduced(self, optimum: Optimum) -> Optimum:
        """Return an optimum with the same gradient that has no more working rows than unknowns.

        An interior-point method distributes multipliers over all rows that may have one, and every superfluous row
        would take a step of `follow` to leave.
        """
        A, size = self.matrix(optimum.working), float(optimum.multipliers.max(initial=0.0)) or 1.0
        try:
            multipliers = size * scipy.optimize.nnls(A.T, optimum.multipliers / size @ A)[0]
        except RuntimeError:  # too many iterations
            return optimum
        kept = np.flatnonzero(multipliers)
        working, w = [optimum.working[k] for k in kept], optimum.w.copy()
        for part in np.flatnonzero(self.zero(working)):
            w[self.columns[part]] = w[self.r + part] = 0.0
        return Optimum(w, working, multipliers[kept])

    def exact(self, optimum: Optimum, g: np.ndarray) -> Optimum:
        """Return the optimum for the linear term g, starting from an optimum for nearby data (of an inexact method).

        If the working rows cycle, the given optimum is returned.
        """
        for _ in range(3):
            h = np.zeros(2 * self.count)
            h[optimum.working] = self.excess(optimum.w)[optimum.working] - self.slack * optimum.multipliers
            try:
                *_, line = self.follow(optimum, g - self.gradient(optimum), 1.0, h)
            except Unsettled:
                break
            optimum = line.last
            if self.is_exact(optimum, g):
                break
        return optimum

    def is_exact(self, optimum: Optimum, g: np.ndarray, times: float = 1.0) -> bool:
        """Return whether `optimum` is the optimum for the linear term g, up to `times` the rounding errors."""
        rest = np.abs(g - self.gradient(optimum))
        limit = np.concatenate([np.ones(self.r), np.abs(g[self.r :])])
        return bool(np.all(rest <= times * ROUNDING * limit))

    def _joined(self, inverse: np.ndarray, row: int) -> np.ndarray:
        """Return the inverse with one more working row."""
        (a,) = self.matrix([row])
        u = inverse[:, : self.n] @ a
        pivot = -self.slack - a @ u[: self.n]
        larger = np.empty((len(u) + 1, len(u) + 1))
        larger[:-1, :-1] = inverse + np.outer(u / pivot, u)
        larger[-1, :-1] = larger[:-1, -1] = -u / pivot
        larger[-1, -1] = 1.0 / pivot
        return larger


def first_zero(room: np.ndarray, fall: np.ndarray) -> tuple[float, int]:
    """Return the first distance at which one of `room`, decreasing at the rates `fall`, reaches 0, and its index.

    Of several, it is the one with the largest rate.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        way = np.where(fall > 1e-14 * np.abs(fall).max(initial=0.0), np.maximum(room, 0.0) / fall, np.inf)
    least = float(way.min(initial=np.inf))
    first = np.flatnonzero(way == least)
    return least, int(first[np.argmax(fall[first])]) if least < np.inf else 0


def _without(inverse: np.ndarray, place: int) -> np.ndarray:
    """Return the inverse of the system without one row and column."""
    column = np.delete(inverse[:, place], place)
    smaller = np.delete(np.delete(inverse, place, axis=0), place, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # non-finite results are inverted again
        smaller -= np.outer(column / inverse[place, place], column)
    return smaller
