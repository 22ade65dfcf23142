"""Leave-block-out for rows in the order of time, whose errors are correlated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np

from .. import arrays
from .._words import counted
from ..problem import Factor, Problem
from ..rules import integer
from .held_out import Validation
from .scores import validation_loss


class LeaveBlockOut(Validation):
    """Choose the parameters that are None by the error of each row without the rows up to h steps before and after it.

    For rows in the order of time whose errors are correlated: leave-one-out then predicts a row from its neighbours,
    which share its error, and chooses widths that are too small or a C that is too large, so that the model follows the
    noise. Leave-one-out determines the ratios of the widths; C and a common factor of the widths then minimise the mean
    loss of the residuals, as in `KFold`. All residuals are exact, without refitting.

    Parameters
    ----------
    h : int
        Number of rows left out on either side of the row that is predicted: the distance beyond which errors are nearly
        uncorrelated. 0 is leave-one-out.

    Notes
    -----
    ``path_`` is that of `KFold`. Every value of C takes work proportional to ``h * rows**2`` and ``h**3 * rows``.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, kernels, tune
    >>> t = np.linspace(0, 10, 150)[:, None]
    >>> draw = np.random.RandomState(0)
    >>> noise = np.zeros(150)
    >>> for i in range(1, 150):
    ...     noise[i] = 0.8 * noise[i - 1] + 0.2 * draw.normal()
    >>> model = LSSVR(kernels.RBF(), steps=[tune.LeaveBlockOut(10)]).fit(t, np.sin(t[:, 0]) + noise)
    >>> bool(model.kernel_.sigma > LSSVR(kernels.RBF()).fit(t, np.sin(t[:, 0]) + noise).kernel_.sigma)
    True
    """

    def __init__(self, h: Annotated[int, integer("a non-negative integer", 0)] = 1) -> None:
        self.h = h

    @property
    def by_row(self) -> str:
        return "h"

    def _parts(self, problem: Problem) -> list[np.ndarray]:
        """The block about every row of positive weight."""
        rows, h = problem.rows, self.h
        parts = [rows[np.abs(rows - row) <= h] for row in rows]
        if max(map(len, parts)) > len(rows) - 2:
            raise ValueError(
                f"LeaveBlockOut: without {counted(h, 'row')} on either side, fewer than 2 of {len(rows)} rows are "
                "left: lower h."
            )
        return parts

    def _error(self, problem: Problem, parts: list[np.ndarray]) -> tuple[Problem, Callable[[Factor, float], float]]:
        rows = problem.rows
        y, weights = (arrays.to_numpy(a)[rows] for a in (problem.y, problem.weights))
        return problem, lambda factor, C: validation_loss(problem, y, block_residuals(factor, C, self.h), weights)


def block_residuals(factor: Factor, C: float, h: int) -> np.ndarray:
    """y_i - f_(B)(x_i) of every row i of positive weight, without the rows B whose numbers differ by at most h.

    The residuals of a block solve a small system M_BB r_B = s_B (see `System.band`), of which only the row of i is
    kept. Positions outside of a block get the equation r = 0.
    """
    rows = factor.rows
    diagonals, right, w = factor.system.band(1.0 / C, min(2 * h, len(rows) - 1))
    out = np.empty(right.shape)
    for part in arrays.row_blocks(len(rows), 32 * (2 * h + 1) ** 2):
        centres = np.arange(len(rows))[part]
        place = centres[:, None] + np.arange(-h, h + 1)
        inside = (place >= 0) & (place < len(rows))
        place = np.clip(place, 0, len(rows) - 1)
        inside &= np.abs(rows[place] - rows[centres][:, None]) <= h
        i, j = place[:, :, None], place[:, None, :]
        both = inside[:, :, None] & inside[:, None, :]
        M = np.where(both, diagonals[np.abs(i - j), np.minimum(i, j)], np.eye(2 * h + 1))
        s = np.where(inside[:, :, None], right[place], 0.0)
        out[part] = np.linalg.solve(M, s)[:, h] / w[part, None]
    return out
