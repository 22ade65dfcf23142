"""A check for cancellation in predictions, and a basis that avoids it where a dense fit suffers from it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .. import arrays
from ..arrays import EPS, Array
from ..kernels import Kernel
from .problem import ITERATIVE_ROWS, Problem
from .record import Fit
from .whitening import LOST_DIGITS, independent_rows

CHECKED_ROWS = 50  # rows on which a user's own kernel is checked before a fit, and predictions after every fit
FINITE_DIGITS = 1e-6  # that above which known spanning points are used


def refit_stably(problem: Problem, fit: Fit, retuned: Callable[[Problem], Problem]) -> tuple[Problem, Fit, float]:
    """The fit itself or, if a dense fit has lost digits, one of the same functions on a basis that keeps them.

    The coefficients of a dense fit are C times residuals: with a kernel of finite rank (linear, polynomial) and inputs
    far from 0, or with a large C, their sums cancel. The coefficients of the kernel's own spanning points, or of
    linearly independent rows, do not. The last value is the rounding error that is left.
    """
    lost = lost_digits(problem, fit)
    if not lost <= LOST_DIGITS or (lost > FINITE_DIGITS and _spanning(problem) is not None):
        smaller, least = stable_basis(problem)
        if smaller is not None:
            smaller = retuned(smaller)
            found = smaller.solve()
            left = max(lost_digits(smaller, found), least)
            if left < lost:
                problem, fit, lost = smaller, found, left
    return problem, replace(fit, rounding=0.0), lost


def stable_basis(problem: Problem) -> tuple[Problem | None, float]:
    """A dense problem on fewer points that span the same functions, if any are known, and what is lost nevertheless."""
    points = _spanning(problem)
    if points is not None:
        return problem.with_basis(points=arrays.like(points, problem.X)), 0.0
    bounded = problem.kernel.is_bounded or problem.kernel.is_precomputed
    if bounded or not _is_dense(problem) or len(problem.rows) > ITERATIVE_ROWS:  # above, memory is short
        return None, 0.0
    X = arrays.take(problem.X, problem.rows)
    pivots = independent_rows(problem.kernel.evaluate(X, X))
    if len(pivots) == len(problem.rows):
        return None, 0.0
    return problem.with_basis(problem.rows[pivots]), float(_lacks_dimensions(problem.kernel, X, len(pivots)))


def _spanning(problem: Problem) -> np.ndarray | None:
    """The kernel's own spanning points, if the problem is dense and has more rows."""
    few = problem.X.shape[1] < len(problem.rows)  # there is at least one point per column
    points = problem.kernel.spanning_points(problem.X.shape[1]) if few and _is_dense(problem) else None
    return None if points is None or len(points) >= len(problem.rows) else points


def _is_dense(problem: Problem) -> bool:
    """Whether no step chose a basis."""
    return problem.support is None and problem.points is None and not problem.reduced


def _lacks_dimensions(kernel: Kernel, points: Array, rank: int) -> bool:
    """Whether points span fewer dimensions than they would about their mean: far from 0 the kernel loses some."""
    points = points - arrays.namespace(points).mean(points, axis=0)[None, :]
    return rank < len(independent_rows(kernel.evaluate(points, points)))


def lost_digits(problem: Problem, fit: Fit) -> float:
    """The rounding error of a fit, relative to the spread of the targets: what is estimated, or seen in predictions.

    Predictions of some training rows are compared with the targets minus the residuals of the solution. That shows
    errors of coefficients that were not solved for here, too. Fits of noise-free targets, which have the largest C,
    have about 1e-7.
    """
    largest = float(arrays.namespace(fit.weights).max(fit.weights))
    if problem.is_dual and fit.kernel.is_bounded and EPS * len(problem.rows) * fit.C * largest <= LOST_DIGITS:
        return fit.rounding  # coefficients are C times residuals, small enough for their sums to keep the digits
    rows = problem.rows[:: max(1, len(problem.rows) // CHECKED_ROWS)]
    f = arrays.to_numpy(fit.predict(arrays.take(problem.X, rows)))
    y, residuals = arrays.to_numpy(arrays.take(problem.y, rows)), arrays.to_numpy(arrays.take(fit.residuals, rows))
    gap, xp = float(np.max(np.abs(y - residuals - f))), arrays.namespace(problem.y)
    gap -= 100.0 * EPS * float(np.max(np.abs(y)))  # rounding errors of targets far from 0
    spread = float(xp.max(xp.abs(problem.y - xp.mean(problem.y, axis=0)[None, :])))  # squares may underflow
    return max(gap / (spread or 1e-300) if gap > 0.0 else 0.0, fit.rounding)


def warn_of_rounding(lost: float, C: float) -> None:
    """Warn if the error relative to the spread of the targets is too large."""
    if not lost <= LOST_DIGITS:
        warnings.warn(
            f"Rounding errors: predictions or leave-one-out residuals may be off by about {lost:.0e} times the spread "
            f"of the targets. The kernel values are too large or too similar for C = {C:.3g} and these weights: "
            "subtract the means of the columns and scale them, or lower C.",
            stacklevel=arrays.user_level(),
        )
