"""Structure detection for components that share alpha, whose ranks add up to the number of basis points or more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import scipy

from ...arrays import cached_property
from .blocks import Blocks
from .parametric import Optimum, Parametric, Unsettled
from .structure import Found, Piece, Row, Structure


class SharedStructure(Structure):
    """Eq. (25) for components that are functions of one x, so that rows are linearly dependent up to rounding.

    `Parametric` makes the solution exact and follows its path.
    """

    def __init__(self, blocks: Blocks, y: np.ndarray, weights: np.ndarray) -> None:
        super().__init__(blocks, y, weights)
        self.inside = np.flatnonzero(~self.empty)  # the components that can differ from 0

    @cached_property
    def distinct(self) -> list[tuple[int, int]]:
        """Component and row of every distinct row."""
        first = [np.flatnonzero(self.alike[part][0] == np.arange(len(self.rows[part]))) for part in self.inside]
        return [(int(part), int(i)) for part, rows in zip(self.inside, first, strict=True) for i in rows]

    @cached_property
    def signed(self) -> list[Row]:
        """The rows in the numbering of `Parametric`."""
        return [(part, i, sign) for sign in (1.0, -1.0) for part, i in self.distinct]

    @cached_property
    def parametric(self) -> Parametric:
        """The programme in the form that `Parametric` solves."""
        rows = np.array([self.rows[part][i] for part, i in self.distinct])
        parts = np.searchsorted(self.inside, [part for part, _ in self.distinct])
        return Parametric(self.gram, rows, parts)

    @cached_property
    def largest_rho(self) -> float:
        """The rho from which on all components are 0: the largest right'x with sum_l t_l <= 1."""
        g = self.unit * self.right
        r, d = len(g), len(self.rows)
        size = float(np.abs(g).max(initial=0.0))
        while size > 0.0:
            rows, G = self._constraints()
            found = scipy.optimize.linprog(
                np.append(-g / size, np.zeros(d)),
                A_ub=np.vstack([G, np.append(np.zeros(r), np.ones(d))]),
                b_ub=np.append(np.zeros(len(rows)), 1.0),
                bounds=[(None, None)] * r + [(0.0, None)] * d,
                options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
            )
            if found.x is None:
                raise ValueError("Components: the largest rho of these columns is not finite: scale your features.")
            if not self._add_violated(found.x[:r], found.x[r:]):
                return self.root * float(found.x[:r] @ g)
        return 0.0

    def solve(self, rho: float) -> Piece:
        """The solution for one rho, and the affine piece that contains it."""
        found = self._found(rho)
        if self._is_nothing(found, rho):
            return self._nothing(rho)
        piece, _, _ = next(self._walk(self._optimum(found, rho), rho, 0.0))
        self._try_first(piece.active)
        return piece

    def _is_nothing(self, found: Found, rho: float) -> bool:
        """Whether all components are 0.

        largest_rho takes a linear programme; it is not needed if 0 is clearly worse than the solution found, or if the
        multipliers found are those of 0.
        """
        pull = self.gram @ found.x
        value = found.x @ (0.5 * pull - self.right) + self._scaled(rho) * float(found.t.sum())
        if value <= -1e-9:
            return False
        return bool(np.abs(pull).max() <= 1e-10 * np.abs(self.right).max()) or rho >= self.largest_rho

    def _optimum(self, found: Found, rho: float) -> Optimum:
        """The result of the interior-point method, improved to working precision."""
        scaled, programme = self._scaled(rho), self.parametric
        number = {row: k for k, row in enumerate(self.distinct)}
        f = programme.rows @ found.x
        t = np.zeros(len(self.inside))
        np.maximum.at(t, programme.parts, np.abs(f))
        rows: dict[int, float] = {}
        for (part, i, sign), multiplier in zip(found.rows, found.multipliers, strict=True):
            k = number[part, i]
            if multiplier > t[programme.parts[k]] - sign * f[k]:
                rows[k if sign > 0 else k + len(f)] = float(multiplier)
        working, multipliers = list(rows), np.array(list(rows.values()))
        for part, size in enumerate(t):  # the multipliers of every component sum to rho
            own = programme.parts[np.array(working, dtype=np.intp) % len(f)] == part
            if not own.any():
                k = int(np.argmax(np.where(programme.parts == part, np.abs(f), -1.0)))
                working.append(k if f[k] == size else k + len(f))
                own, multipliers = np.append(own, True), np.append(multipliers, 1.0)
            multipliers[own] *= scaled / multipliers[own].sum()
        start = programme.reduced(Optimum(np.append(found.x, t), working, multipliers))
        return programme.exact(start, self._linear(scaled))

    def _linear(self, scaled: float) -> np.ndarray:
        """The linear term of the programme in (x, t)."""
        return np.append(self.right, np.full(len(self.inside), -scaled))

    # From piece to piece
    def pieces(self, high: float, low: float) -> Iterator[tuple[Piece, float, float]]:
        """All affine pieces from one rho down to another, each with the interval on which it is the solution.

        Towards the first rho the path ends in a ray to 0. Where the working rows cycle, one piece spans a hundredth of
        rho.
        """
        if self.largest_rho <= low:
            yield self._nothing(high), low, high
            return
        rho = high if high < self.largest_rho else 0.95 * self.largest_rho
        optimum = self._optimum(self._found(rho), rho)
        if high > rho:
            yield from self._pieces_above(optimum, rho, high)
        while rho > low:
            try:
                for piece, begin, end in self._walk(optimum, rho, low):
                    yield piece, end, begin
                    rho = end
            except Unsettled:  # continue a little below
                below = max(0.99 * rho, low)
                yield self.solve(below), below, rho
                rho, optimum = below, self._optimum(self._found(below), below)

    def _pieces_above(self, optimum: Optimum, rho: float, high: float) -> Iterator[tuple[Piece, float, float]]:
        """The pieces from `high`, where all components are 0, down to a rho with a known optimum."""
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

    def _walk(self, optimum: Optimum, start: float, end: float) -> Iterator[tuple[Piece, float, float]]:
        """The pieces from one rho to another, up or down, each with its beginning and end."""
        programme, unit, sign = self.parametric, self.unit * self.root, 1.0 if end > start else -1.0
        dg = np.append(np.zeros(programme.r), np.full(len(self.inside), -sign))
        rho, stop = start / unit, end / unit
        while rho != stop:
            optimum = programme.exact(optimum, self._linear(rho))
            goal = (
                max(stop, rho / 4) if sign < 0 else stop
            )  # avoids computing a small rho as a difference of large ones
            for number, line in enumerate(programme.follow(optimum, dg, abs(goal - rho))):
                first, last = (goal if x == abs(goal - rho) else rho + sign * x for x in (line.begin, line.end))
                piece = self._line(first * unit, line.optimum, line.slope, sign)
                yield piece, piece.rho, end if last == stop else last * unit
                # rounding errors accumulate from piece to piece
                if number % 10 == 9 and not programme.is_exact(line.last, self._linear(last), 10.0):
                    break
            optimum, rho = line.last, last

    def _line(self, rho: float, optimum: Optimum, slope: Optimum, sign: float) -> Piece:
        """The piece of an optimum that changes by `slope` when the scaled rho changes by `sign`."""
        unit, r = self.unit * self.root, self.parametric.r
        to_rho = np.array([1.0, sign / unit])
        w = np.column_stack([optimum.w, slope.w]) * to_rho
        t = np.zeros((len(self.rows), 2))
        t[self.inside] = self.unit / self.root * w[r:]
        multipliers = unit * np.column_stack([optimum.multipliers, slope.multipliers]) * to_rho
        z = np.tile(self.unit * w[:r], (len(self.rows), 1))
        return Piece(rho, z, t, multipliers, [self.signed[k] for k in optimum.working])

    def _ray(self, piece: Piece) -> tuple[float, bool]:
        """The rho at which the components sum to 0, and whether that proves that no other piece lies between.

        It does if all of them are 0 there with non-negative multipliers: the piece is affine and optimal at both ends.
        """
        total, slope = piece.t.sum(axis=0)
        if slope >= 0.0:
            return np.inf, False
        zero = float(piece.rho - total / slope)
        left, multipliers = np.abs(piece.at(zero)[0]).max(), piece.multipliers_at(zero)
        return zero, bool(left <= 1e-11 * self.unit and multipliers.min() >= -1e-11 * zero)
