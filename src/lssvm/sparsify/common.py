"""What several steps share: a provisional kernel, kernel rows, and validation rows that choose a point of a path."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import arrays
from ..kernels import Kernel
from ..problem import Problem, Step, held_out_rows
from ..rules import numbers, open_share
from ..tune import tuned


def provisional(problem: Problem, *, supervised: bool = False) -> Problem:
    """The problem with a kernel (if `supervised`, also C) for selection; values left at None are tuned on 500 rows."""
    if not problem.kernel.is_free and (problem.C is not None or not supervised):
        return problem
    rows = problem.rows
    sample = np.random.RandomState(0).permutation(rows)[:500]
    known = tuned(problem.with_basis().subset(np.sort(sample)))
    return problem.replace(kernel=known.kernel, C=known.C)


def kernel_rows(
    kernel: Kernel, problem: Problem, rows: np.ndarray, columns: np.ndarray, out: np.ndarray | None = None
) -> np.ndarray:
    """Kernel values between rows of the problem, written into `out` if given."""
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


def validation_rows(step: Any, problem: Problem) -> np.ndarray:
    """The validation rows, sorted: those given, or a random share."""
    if not step.by_row:
        return held_out_rows(problem, step.validation, step.random_state)
    rows, given = problem.rows, np.unique(np.asarray(step.validation))
    if given.min() < 0 or given.max() >= problem.X.shape[0]:
        raise ValueError(
            f"{type(step).__name__}: validation contains rows {given.min()} to {given.max()}, but X has rows 0 to "
            f"{problem.X.shape[0] - 1}."
        )
    given = np.intersect1d(given, rows)
    if not 0 < len(given) < len(rows) - 1:
        raise ValueError(
            f"{type(step).__name__}: validation contains {len(given)} of the {len(rows)} rows with positive "
            "weight: give at least 1, and leave at least 2 for training."
        )
    return given


def prepared(problem: Problem, refit: bool) -> tuple[Problem, np.ndarray]:
    """The problem with its kernel chosen, and the weights of the rows, including robust weights.

    The programmes do not depend on C: if a model is fitted afterwards, C is chosen then.
    """
    problem = problem.replace(coefficients=None)
    if problem.kernel.is_free or problem.robust is not None:
        problem = tuned(problem)
    elif problem.C is None and not refit:
        problem = problem.replace(C=1.0)  # as in eq. (10)
    if problem.robust is None:
        return problem, arrays.to_numpy(problem.weights)
    return problem, arrays.to_numpy(problem.replace(reduced=False).solve().weights)


def training(problem: Problem, held_out: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, Any]:
    """The training rows; the basis without the validation rows, as row numbers (or None) and as points."""
    rows = np.setdiff1d(problem.rows, held_out)
    if problem.points is not None:
        return rows, None, problem.points
    support = rows if problem.support is None else np.setdiff1d(problem.support, held_out)
    support = support if len(support) else np.asarray(problem.support)
    return rows, support, problem.kernel.basis_points(problem.X, support)
