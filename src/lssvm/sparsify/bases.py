"""Bases chosen before fitting."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .. import _xp
from ..problem import Problem, Step

__all__ = ["Given", "Random"]


class Given(Step):
    """The basis that the user names.

    Parameters
    ----------
    points : array
        Row numbers of the training data (one-dimensional, integers), or the points themselves (n_points, n_features).
    """

    def __init__(self, points: Any) -> None:
        self.points = points

    def __call__(self, problem: Problem) -> Problem:
        values = self.points if hasattr(self.points, "ndim") else np.asarray(self.points)
        n_rows, n_features = problem.X.shape
        if values.shape[0] == 0:
            raise ValueError("Given: points is empty: give at least one row number or point.")
        if values.ndim == 1:
            rows = np.asarray(_xp.to_numpy(values))
            if not np.issubdtype(rows.dtype, np.integer):
                raise ValueError(
                    f"Given: a one-dimensional points holds row numbers, got {rows.dtype}: give integers, or points of "
                    f"shape (n, {n_features})."
                )
            if rows.min() < 0 or rows.max() >= n_rows:
                raise ValueError(
                    f"Given: points holds row {rows.min()} to {rows.max()}, but X has rows 0 to {n_rows - 1}."
                )
            return problem.replace(support=np.unique(rows), points=None)
        points = np.asarray(_xp.to_numpy(values), dtype=float)
        if points.ndim != 2 or points.shape[1] != n_features:
            raise ValueError(f"Given: points has shape {points.shape}, but X has {n_features} columns.")
        if not np.isfinite(points).all():
            raise ValueError("Given: points holds NaN or infinite values: remove or impute them.")
        return problem.replace(points=_xp.like(points, problem.X), support=None)


class Random(Step):
    """A basis of n rows drawn without replacement.

    Parameters
    ----------
    n : int
        Size of the basis; all rows when there are no more.
    random_state : int, RandomState or None
        Seed of the draw.
    """

    def __init__(self, n: int, random_state: Any = None) -> None:
        self.n = n
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        check_size(self, self.n)
        rows = problem.rows
        drawn = check_random_state(self.random_state).permutation(rows)[: self.n]
        return problem.replace(support=np.sort(drawn), points=None)


def check_size(step: Step, n: Any) -> None:
    """Raise ValueError unless n is an integer of at least 1."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
        raise ValueError(f"{type(step).__name__}: n must be an integer of at least 1, got {n!r}.")
