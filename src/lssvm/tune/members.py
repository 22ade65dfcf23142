"""The search for the members of a stack, which share their starting points and their samples."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from .. import arrays
from ..problem import Problem, constant_columns
from .constants import CONSTANTS
from .leave_one_out import Begun, LeaveOneOut, as_requested
from .search import Found
from .stack_weights import stage_weights

FOLDS = 5  # The weights of a stack with few rows per column come from this many folds.


def tune_members(problems: Sequence[Problem]) -> dict[int, Problem]:
    """Tune the members of a stack, which differ in their kernels only; return {place: problem}.

    A member without weight after the first stage is left out. `warn_at_edges` can be called once it is known which
    members are kept. Each search starts from the results of those before it: a kernel with one width per column from
    the same kernel with a common width, and a kernel from another one with as many widths.
    """
    step, found = LeaveOneOut(), list[Found]()
    begun: list[Begun | None] = []
    works = [None if problem.is_known else step.expected_work(problem) for problem in problems]
    for problem, expected in zip(problems, works, strict=True):
        if expected is None:
            begun.append(None)
            result = step.completed(problem)
        else:
            begun.append(step.begin(problem, found, expected=expected, member=len(problems) > 1))
            result = begun[-1] and begun[-1].best
        found.extend([] if result is None else [result])
    weights = np.ones(len(found))
    if len(found) > 1 and not weighs_by_folds(problems):
        weights = stage_weights([one.stage() for one in found])
    kept = [one for one, weight in zip(found, weights, strict=True) if weight > 0.0]
    tuned: dict[int, Problem] = {}
    for place, (problem, part) in enumerate(zip(problems, begun, strict=True)):
        if part is None:
            tuned[place] = problem
        elif part.best is None or any(part.best is one for one in kept):
            tuned[place] = step.end(part)
        else:
            with part.expected.end:
                pass  # not needed
    return tuned


def weighs_by_folds(problems: Sequence[Problem]) -> bool:
    """Whether the leave-one-out residuals of the members of a stack are too optimistic to choose weights by them.

    That is so if there are few rows per column, and members choose one width per column.
    """
    requested = [problem.asked[0] for problem in problems if problem.asked is not None]
    chosen = any(leaf.ard for kernel in requested for leaf in kernel.leaves)
    few = 2 * FOLDS <= len(problems[0].rows) <= CONSTANTS.weight_rows * np.sum(~constant_columns(problems[0]))
    return bool(len(problems) > 1 and chosen and few)


def residuals_of_folds(problems: Sequence[Problem]) -> np.ndarray:
    """Residuals (members, rows with positive weight, outputs) of the members of a stack, searched without each fold.

    A member that is left out in a search counts as the mean of the targets.
    """
    rows, y = problems[0].rows, arrays.to_numpy(problems[0].y)
    residuals = np.zeros((len(problems), *y.shape))
    for fold in np.array_split(problems[0].rows_by_content, min(FOLDS, len(rows))):
        others = np.setdiff1d(rows, fold)
        residuals[:, fold] = y[fold] - y[others].mean(axis=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the search on all rows warns
            parts = [as_requested(problem).subset(others) for problem in problems]
            for part in parts[1:]:
                part.__dict__["rows_by_content"] = parts[0].rows_by_content  # the rows are the same
            for place, known in tune_members(parts).items():
                predicted = known.solve(loo=False).predict(arrays.take(problems[place].X, fold))
                residuals[place, fold] = y[fold] - arrays.to_numpy(predicted)
    return residuals[:, rows]
