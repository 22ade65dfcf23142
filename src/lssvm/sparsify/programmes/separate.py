"""Structure detection for components with separate unknowns: components of finite rank."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ...arrays import cached_property
from .blocks import Blocks
from .structure import Found, Piece, Row, Structure


@dataclass(frozen=True)
class _Event:
    """The event at the lower end of a piece: a row, or a component with all its rows, leaves or enters."""

    rho: float
    leaves: list[Row]
    enters: list[Row]


class _DualNorm:
    """h(g) = max g'u over |V u| <= 1, the smallest sum of absolute multipliers with V'multipliers = g.

    Computed by the simplex method on the multipliers; a basis of rows of V is kept for the next g.
    """

    def __init__(self, V: np.ndarray, basis: np.ndarray) -> None:
        self.V, self.basis = V, basis.copy()

    def bound(self, g: np.ndarray) -> float:
        """An upper bound of h(g), from the multipliers of the current basis."""
        return float(np.abs(np.linalg.solve(self.V[self.basis].T, g)).sum())

    def __call__(self, g: np.ndarray) -> tuple[np.ndarray, list[tuple[int, float]]]:
        """The u of the maximum, and the active rows with their signs."""
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


class SeparateStructure(Structure):
    """Eq. (25) for components with separate unknowns, which can be exactly 0.

    The linear system of the active rows gives the solution to working precision, affine in rho. `pieces` follows it
    from piece to piece; one row or one component enters or leaves at every breakpoint.
    """

    def __init__(self, blocks: Blocks, y: np.ndarray, weights: np.ndarray) -> None:
        super().__init__(blocks, y, weights)
        self.norms = [_DualNorm(Q, rows[: Q.shape[1]]) for Q, rows in zip(blocks.Q, self.spanning, strict=True)]

    @cached_property
    def first(self) -> _Event:
        """The rho from which on all components are 0, the largest right'x with sum_l t_l <= 1; and the event there."""
        g = self.unit * self.right
        events = [_Event(0.0, [], [])]
        for part in np.flatnonzero(~self.empty):
            own = g[self.blocks.places[part]]
            u, tight = self.norms[part](own)
            events.append(_Event(float(u @ own), [], [(int(part), i, sign) for i, sign in tight]))
        return max(events, key=lambda event: event.rho)

    @property
    def largest_rho(self) -> float:
        """The rho from which on all components are 0."""
        return self.first.rho

    # One rho
    def solve(self, rho: float) -> Piece:
        """The solution for one rho, and the affine piece that contains it."""
        if rho >= self.largest_rho:
            return self._nothing(rho)
        found = self._found(rho)
        polished = self._polish(rho, found)
        if polished is not None:
            return polished
        # Too close to a breakpoint to decide which rows are active: use the result of the interior-point method.
        still = np.array([1.0, 0.0])
        x, t, zero = found.x.copy(), found.t.copy(), self._zero(found.t)
        for part in np.flatnonzero(zero):
            x[self.columns[part]] = t[part] = 0.0
        rows = [(row, m) for row, m in zip(found.rows, found.multipliers, strict=True) if not zero[row[0]]]
        multipliers = np.outer([m for _, m in rows], still)
        return self._piece(rho, np.outer(x, still), np.outer(t, still), multipliers, [row for row, _ in rows])

    def _polish(self, rho: float, found: Found) -> Piece | None:
        """Solve the system of the active rows to working precision; rows leave or enter until all signs are right."""
        x, t, scaled = found.x, found.t, self._scaled(rho)
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

    def _zero(self, t: np.ndarray) -> np.ndarray:
        """The components that are 0."""
        return np.asarray((t < 1e-6 * max(1.0, float(t.max()))) | self.empty)

    def _back(self, zero: np.ndarray, g: np.ndarray, scaled: float) -> list[Row]:
        """The rows of a component that cannot be 0 for the correlations g, if there is one."""
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

    def _piece(self, rho: float, x: np.ndarray, t: np.ndarray, multipliers: np.ndarray, active: list[Row]) -> Piece:
        """A piece in the units of the data; its active rows are tried first for the next rho."""
        self._try_first(active)
        unit = self.unit * self.root
        to_rho = np.array([[1.0, 0.0], [rho / unit, 1.0 / unit]])  # from (constant, slope) to (value, slope)
        return Piece(
            rho, self.unit * x @ to_rho, self.unit / self.root * t @ to_rho, unit * multipliers @ to_rho, active
        )

    # From piece to piece
    def pieces(self, high: float, low: float) -> Iterator[tuple[Piece, float, float]]:
        """All affine pieces from one rho down to another, each with the interval on which it is the solution."""
        piece, upper = self.solve(high), high
        standing = 0  # number of consecutive pieces of length 0
        while upper > low:
            event = self._end(piece, min(piece.rho, upper))  # a piece from `_below` is valid from its own rho on
            yield piece, max(event.rho, low), upper
            standing = standing + 1 if event.rho >= upper else 0
            upper = event.rho
            if upper > low:
                known = standing <= 5 and (event.leaves or event.enters)
                piece = (self._after(piece, event) if known else None) or self._below(upper)

    def _end(self, piece: Piece, upper: float) -> _Event:
        """The event at which the piece ends below `upper`."""
        if not piece.active:
            return _Event(min(self.largest_rho, upper), [], self.first.enters)
        if not piece.z[:, 1].any():
            return _Event(upper, [], [])  # not from the system of its rows: valid at one rho only
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
        """The event `last`, or an earlier one of a component that cannot stay 0 until then.

        The smallest multipliers of such a component sum to h(rho) = max g(rho)'u over |Q u| <= 1, which is convex in
        rho; the component may stay 0 while h(rho) <= rho. Newton's method from the lower edge ends after finitely many
        steps.
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
        """The piece after an event; None if it does not continue the last piece, as with several rows at once."""
        active = [row for row in piece.active if row not in event.leaves] + event.enters
        zero = np.ones(len(self.rows), dtype=bool)
        zero[[part for part, _, _ in active]] = False
        following = self._piece(event.rho, *self._affine(zero, active), active)
        if len(event.enters) == 1 and following.multipliers[-1, 1] < 0.0:
            # The multiplier of the new row is 0 here; with a steep slope, rounding errors of rho would show in it.
            step = -following.multipliers[-1, 0] / following.multipliers[-1, 1]
            if abs(step) <= 5e-11 * event.rho:
                following = following.shifted(step)
        before, after = piece.at(event.rho)[0], following.at(event.rho)[0]
        size = float(np.abs(before).max(initial=0.0)) or self.unit
        same = np.abs(after - before).max(initial=0.0) <= 1e-8 * size
        return following if same and following.multipliers[:, 0].min(initial=0.0) >= -1e-10 * event.rho else None

    def _below(self, edge: float) -> Piece:
        """The piece just below a breakpoint at which many rows enter or leave at once, by the interior-point method."""
        for share in (1e-9, 1e-7, 1e-5, 1e-3, 1e-1):
            piece = self.solve(edge * (1.0 - share))
            if self._end(piece, piece.rho).rho < piece.rho:
                break
        return piece


def _last_root(lines: np.ndarray, upper: float, size: float) -> tuple[float, int]:
    """The largest rho below `upper` at which one of the lines (constant, slope), non-negative there, is 0; its index.

    Lines that are 0 everywhere, to working precision relative to `size`, have no root.
    """
    constant, slope = lines[:, 0], lines[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.where(slope * upper > 1e-12 * size, np.minimum(-constant / slope, upper), 0.0)
    k = int(np.argmax(root))
    return max(float(root[k]), 0.0), k


def _solve_symmetric(A: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A \\ right, the solution of least norm if A is singular, with one step of iterative refinement."""
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
    # by QR, as the SVD of such systems may not converge
    return scipy.linalg.lstsq(A, right, cond=1e-14, lapack_driver="gelsy", check_finite=False)[0]
