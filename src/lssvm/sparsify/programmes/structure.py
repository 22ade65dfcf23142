"""Structure detection: the sum of maximal variations (Pelckmans et al. 2005, eq. 25), and its working rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from .blocks import Blocks

Row = tuple[int, int, float]  # component, row, sign


@dataclass(frozen=True)
class Piece:
    """The solution of eq. (25) at one rho and on the surrounding interval, on which it is affine in rho.

    z, t (maximal variations) and the multipliers of the active rows have two columns: value at `rho`, and slope.
    """

    rho: float
    z: np.ndarray
    t: np.ndarray
    multipliers: np.ndarray
    active: list[Row]

    def at(self, rho: float) -> tuple[np.ndarray, np.ndarray]:
        """z and t at rho."""
        place = np.array([1.0, rho - self.rho])
        return self.z @ place, np.maximum(self.t @ place, 0.0)

    def multipliers_at(self, rho: float) -> np.ndarray:
        """The multipliers of the active rows at rho."""
        return self.multipliers @ np.array([1.0, rho - self.rho])

    def shifted(self, step: float) -> Piece:
        """The same piece, with its values at rho + step."""
        move = np.array([[1.0, 0.0], [step, 1.0]])
        return Piece(self.rho, self.z @ move, self.t @ move, self.multipliers @ move, self.active)

    def lines(self, values: np.ndarray) -> np.ndarray:
        """(constant, slope) of z, t or the multipliers."""
        return np.column_stack([values[:, 0] - self.rho * values[:, 1], values[:, 1]])


@dataclass(frozen=True)
class Found:
    """Result of the interior-point method."""

    x: np.ndarray
    t: np.ndarray
    rows: list[Row]
    multipliers: np.ndarray


class Structure(ABC):
    """Eq. (25) with a bias: min 1/2 sum_i v_i (y_i - sum_l f^l(x_i) - b)^2 + rho sum_l t_l, |f^l(x_i)| <= t_l.

    An interior-point method finds the active rows; its constraints are only the rows that were violated at some point.
    How their solution is made exact and followed from piece to piece depends on the components: see
    `SeparateStructure` and `SharedStructure`. Of rows that are equal or opposite, only the first is used.
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
        self.rows = [  # rows of the sup-norm constraints in the unknown x, scaled to size 1
            self.root * (Q if basis is None else Q @ basis[place])
            for Q, place in zip(blocks.Q, blocks.places, strict=True)
        ]
        whole = slice(0, len(self.right))
        self.columns = blocks.places if basis is None else [whole] * len(self.rows)  # the unknowns of each component
        self.empty = np.array([not Q.any() for Q in blocks.Q], dtype=bool)
        self.alike = [_alike(Q) for Q in blocks.Q]
        self.spanning = [self._spanning(part) for part in range(len(self.rows))]
        self.first_rows = [{(int(i), sign) for i in rows for sign in (1.0, -1.0)} for rows in self.spanning]
        self.working = [set(rows) for rows in self.first_rows]

    def _spanning(self, part: int) -> np.ndarray:
        """Rows that bound a component in every direction, beginning with a basis."""
        Q, first = self.blocks.Q[part], np.flatnonzero(self.alike[part][0] == np.arange(len(self.blocks.Q[part])))
        if self.empty[part]:
            return np.empty(0, dtype=np.intp)
        R, order = scipy.linalg.qr(Q[first].T, mode="r", pivoting=True, check_finite=False)
        size = np.abs(R.diagonal())
        rank = np.count_nonzero(size > 1e-5 * size[0])  # if alpha is shared, smaller ones are rounding errors
        return first[order[: rank + 1]]

    @property
    @abstractmethod
    def largest_rho(self) -> float:
        """The rho from which on all components are 0."""

    @abstractmethod
    def solve(self, rho: float) -> Piece:
        """The solution for one rho, and the affine piece that contains it."""

    @abstractmethod
    def pieces(self, high: float, low: float) -> Iterator[tuple[Piece, float, float]]:
        """All affine pieces from one rho down to another, each with the interval on which it is the solution."""

    def intercept(self, z: np.ndarray) -> float:
        """The intercept b for z."""
        return float(self.means[1] - self.means[0] @ z)

    def _scaled(self, rho: float) -> float:
        """rho in the units of x and t."""
        return rho / (self.unit * self.root)

    def _nothing(self, rho: float) -> Piece:
        """The piece on which all components are 0."""
        unknowns = self.blocks.places[-1].stop
        return Piece(rho, np.zeros((unknowns, 2)), np.zeros((len(self.rows), 2)), np.empty((0, 2)), [])

    # The interior-point method on the working rows
    def _found(self, rho: float) -> Found:
        """The solution by the interior-point method, with no row violated."""
        found = self._interior_point(self._scaled(rho))
        while self._add_violated(found.x, found.t):
            found = self._interior_point(self._scaled(rho))
        return found

    def _constraints(self) -> tuple[list[Row], np.ndarray]:
        """The working rows, and the matrix M of the constraints M (x, t) <= 0."""
        r, d = len(self.right), len(self.rows)
        rows = [(part, i, sign) for part, working in enumerate(self.working) for i, sign in sorted(working)]
        G = np.zeros((len(rows), r + d), order="F")
        for k, (part, i, sign) in enumerate(rows):
            G[k, self.columns[part]] = sign * self.rows[part][i]
            G[k, r + part] = -1.0
        return rows, G

    def _interior_point(self, rho: float) -> Found:
        """Solve the programme with the working rows as its only constraints."""
        import piqp

        r, d = len(self.right), len(self.rows)
        rows, G = self._constraints()
        P = np.zeros((r + d, r + d), order="F")
        P[:r, :r] = self.gram
        P[r:, r:] = np.diag(self.empty.astype(float))  # their t has no other constraint
        solver = piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-11
        solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 1e-11
        solver.setup(P, np.concatenate([-self.right, rho * ~self.empty]), G=G, h_u=np.zeros(len(rows)))
        solver.solve()
        x = np.array(solver.result.x)
        if not np.isfinite(x).all():
            raise ValueError("Components: the quadratic programme has no finite solution: scale your features.")
        return Found(x[:r], x[r:], rows, np.array(solver.result.z_u))

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
        """Add the most violated rows to the working rows; False if there are none."""
        new = [(part, i, sign) for part, i, sign in self._worst(x, t, 1e-10) if (i, sign) not in self.working[part]]
        for part, i, sign in new:
            self.working[part].add((i, sign))
        return bool(new)

    def _try_first(self, active: list[Row]) -> None:
        self.working = [
            rows | {(i, sign) for c, i, sign in active if c == part} for part, rows in enumerate(self.first_rows)
        ]


def _alike(Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every row, the first row that is equal or opposite to it, and the sign."""
    if not Q.any():
        return np.arange(len(Q)), np.ones(len(Q))
    rounded = np.round(Q / np.abs(Q).max(), 11)
    lead = rounded[np.arange(len(Q)), np.argmax(rounded != 0, axis=1)]
    sign = np.where(lead < 0, -1.0, 1.0)
    _, first, inverse = np.unique(sign[:, None] * rounded + 0.0, axis=0, return_index=True, return_inverse=True)
    first = first[inverse.reshape(-1)]
    return first, sign * sign[first]
