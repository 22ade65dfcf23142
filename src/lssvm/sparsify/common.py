"""What several steps share: a provisional kernel, kernel rows, and validation rows that choose a point of a path."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import arrays
from ..kernels import Kernel
from ..problem import Problem, Step, held_out_rows
from ..rules import numbers, open_share
from ..tune.leave_one_out import tuned


def provisional(problem: Problem, *, supervised: bool = False) -> Problem:
    """Return the problem with a kernel (if `supervised`, also C) for selection, tuned on 500 rows if left at None."""
    if not problem.kernel.is_free and (problem.C is not None or not supervised):
        return problem
    rows = problem.rows
    sample = np.random.RandomState(0).permutation(rows)[:500]
    known = tuned(problem.with_basis().subset(np.sort(sample)))
    return problem.replace(kernel=known.kernel, C=known.C)


def kernel_rows(kernel: Kernel, problem: Problem, rows: np.ndarray, columns: np.ndarray, out: Any = None) -> np.ndarray:
    """Return kernel values between rows of the problem, written into `out` if given."""
    inputs, points = arrays.take(problem.X, rows), kernel.basis_points(problem.X, columns)
    if out is None:
        return arrays.to_numpy(kernel.evaluate(inputs, points))
    if arrays.is_numpy(inputs):
        return kernel.fill(out, inputs, points)
    out[...] = arrays.to_numpy(kernel.evaluate(inputs, points))
    return out


def check_found(step: Step, support: np.ndarray) -> None:
    """Raise ValueError if no basis vector could be chosen."""
    if not len(support):
        raise ValueError(f"{type(step).__name__}: the kernel is 0 on all rows, so no basis vector can be chosen.")


# Validation rows
ROW_NUMBERS = numbers("an array of row numbers", 1, above=-1, kinds="iu")
VALIDATION = open_share("a share of the rows between 0 and 1") | ROW_NUMBERS


class ValidatedStep(Step):
    """Base class of steps that choose a point of a path on validation rows, with or without a refit."""

    needs_squares = True

    validation: Any
    refit: bool

    @property
    def needs_all_rows(self) -> bool:
        return not self.refit

    @property
    def by_row(self) -> str:
        return "validation" if np.ndim(self.validation) == 1 else ""


def prepared(problem: Problem, refit: bool) -> tuple[Problem, np.ndarray]:
    """Return the problem with its kernel chosen, and the weights of the rows, including robust weights.

    The convex programmes do not depend on C: if a model is fitted afterwards, C is chosen then.
    """
    problem = problem.replace(coefficients=None)
    if problem.kernel.is_free or problem.robust is not None:
        problem = tuned(problem)
    elif problem.C is None and not refit:
        problem = problem.replace(C=1.0)  # as in eq. (10)
    if problem.robust is None:
        return problem, arrays.to_numpy(problem.weights)
    return problem, arrays.to_numpy(problem.replace(reduced=False).solve().weights)


def divided(step: Any, problem: Problem, validated: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, Any]:
    """Return the training and validation rows, and the basis without the latter as row numbers (or None) and points.

    If `validated`, the validation rows are those given, or a random share; else there are none.
    """
    known, held_out = problem.rows, np.empty(0, dtype=np.intp)
    if validated and step.by_row:
        given = np.unique(np.asarray(step.validation))
        what, n_rows = f"{type(step).__name__}: validation contains", problem.X.shape[0]
        if given.min() < 0 or given.max() >= n_rows:
            raise ValueError(f"{what} rows {given.min()} to {given.max()}, but X has rows 0 to {n_rows - 1}.")
        held_out = np.intersect1d(given, known)
        if not 0 < len(held_out) < len(known) - 1:
            remedy = "give at least 1, and leave at least 2 for training"
            raise ValueError(f"{what} {len(held_out)} of the {len(known)} rows with positive weight: {remedy}.")
    elif validated:
        held_out = held_out_rows(problem, step.validation, step.random_state)
    rows = np.setdiff1d(known, held_out)
    if problem.points is not None:
        return rows, held_out, None, problem.points
    support = rows if problem.support is None else np.setdiff1d(problem.support, held_out)
    support = support if len(support) else np.asarray(problem.support)
    return rows, held_out, support, problem.kernel.basis_points(problem.X, support)


def best_on_path(residuals: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return errors at the breakpoints of a path, and the place and value of the smallest error.

    The residuals (breakpoints x values) are affine between the breakpoints, so that their weighted sum of squares is
    a parabola. The place 2.3, for example, lies between the breakpoints 2 and 3.
    """
    step = np.diff(residuals, axis=0)
    square, slope = step**2 @ weights, -(residuals[:-1] * step) @ weights
    share = np.clip(np.divide(slope, square, out=np.zeros_like(slope), where=square > 0), 0.0, 1.0)
    scores, between = residuals**2 @ weights, (residuals[:-1] + share[:, None] * step) ** 2 @ weights
    best = int(np.argmin(scores))
    if between.min(initial=np.inf) >= scores[best]:
        return scores, best, scores[best]
    best = int(np.argmin(between))
    return scores, best + share[best], between[best]


def with_solution(problem: Problem, coef: np.ndarray, intercept: np.ndarray, weights: Any, **basis: Any) -> Problem:
    """Return the problem with the coefficients that a convex programme has found on a basis."""
    coefficients = arrays.like(coef, problem.X), arrays.like(intercept, problem.X)
    weights = arrays.like(weights, problem.weights)
    return problem.with_basis(**basis, coefficients=coefficients, weights=weights, robust=None)
