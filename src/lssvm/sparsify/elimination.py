"""Inverses of systems from which vectors are dropped."""

from __future__ import annotations

import numpy as np

from .. import arrays

DELAYED = 64  # rows of the products that update an inverse: thin products are slow, but delayed ones cost work, too
CANCELLED = 1e-4  # factorise again if less than this share of a diagonal entry of the inverse is left: 12 of 16 digits


class Elimination:
    """Rows [G', P] of a system (overwritten), P symmetric, as vectors R are dropped.

    The others lose P_R P_RR^-1 [G', P]_R. With P_RR = L L' and F = L^-1 [G', P]_R, this is F_P'F, where F_P are the
    columns of F that belong to P. These products are delayed until F has `DELAYED` rows. Then kept vectors also move
    into the rows and columns of dropped ones, so that those that are left come first.
    """

    def __init__(self, columns: np.ndarray, offset: int) -> None:
        self.columns, self.offset = columns, offset  # P begins at column `offset`
        self.F, self.gone = np.empty(columns.shape), np.empty(0, dtype=np.intp)  # delayed: as many rows as are gone
        self.left, self.place = np.arange(len(columns)), np.arange(len(columns))  # number by row, row by number
        self.diagonal = columns[:, offset:].diagonal().copy()  # by number
        self.start = self.diagonal.copy()

    def drop(self, gone: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Drop vectors by their numbers, and update the values, P times a fixed matrix; None if too few digits remain.

        Returns the columns of F that belong to G', for the new rows (a view that the next call may overwrite), and
        L^-1 values_R.
        """
        rows, delayed, end = self.place[gone], len(self.gone), self.offset + len(self.left)
        own = self.offset + rows
        F, new = self.F[:delayed, :end], self.F[delayed : delayed + len(rows), :end]
        new[...] = self.columns[rows][:, :end]
        if delayed:
            arrays.add_product(new, -F[:, own].T, F)
        L = arrays.cholesky(new[:, own])
        if L is None or np.any(L.diagonal() ** 2 < CANCELLED * self.start[gone]):
            return None
        arrays.solve_columns(L, new)
        part, in_P = arrays.solve_lower(L, values[gone]), new[:, self.offset :]
        values[self.left] -= in_P.T @ part
        self.diagonal[self.left] -= np.einsum("ij,ij->j", in_P, in_P)
        self.gone = np.append(self.gone, rows)
        if len(self.gone) >= DELAYED:
            self._subtract()
        return new[:, : self.offset], part

    def _subtract(self) -> None:
        """Move the last vectors into the rows and columns of dropped ones, and subtract the delayed products."""
        delayed, count = len(self.gone), len(self.left) - len(self.gone)
        last = np.ones(delayed, dtype=bool)
        last[self.gone[self.gone >= count] - count] = False
        holes, moved = self.gone[self.gone < count], count + np.flatnonzero(last)
        self.columns[holes] = self.columns[moved]
        for part in (self.columns[:count, self.offset :], self.F[:delayed, self.offset :]):
            part[:, holes] = part[:, moved]
        self.left[holes] = self.left[moved]
        self.place[self.left[holes]] = holes
        self.left, self.gone, end = self.left[:count], self.gone[:0], self.offset + count
        F = self.F[:delayed, :end]
        arrays.add_product(self.columns[:count, :end], -F[:, self.offset :].T, F)
