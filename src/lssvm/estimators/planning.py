"""What is done where the user has left a choice open, and the steps that the user names."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

from ..kernels import RBF, Choice, Kernel, Matern
from ..problem import Problem, Step
from ..progress import work
from ..sparsify import Random
from ..tune import PLAN, LeaveOneOut, tuned

DENSE_ROWS = 2000  # steps=None: the basis is all rows up to here
BASIS_SIZE = 500  # partial_fit and fit_chunks, steps=None: this many rows


def default_kernel(classification: bool) -> Kernel:
    """The plan for ``kernel=None``: widths of the columns where they are worth it, for numbers the better family."""
    if classification:
        return RBF(ard=True)
    return Choice([RBF(ard=True), Matern(ard=True)])


def default_steps(problem: Problem) -> Sequence[Step]:
    """The plan for ``steps=None``."""
    if len(problem.rows) <= DENSE_ROWS or problem.kernel.is_precomputed:
        return ()
    return (Random(random_state=0),)


def most_to_solve(problem: Problem) -> float:
    """What the last machine of a plan for ``steps=None`` takes, as in `work`."""
    rows = len(problem.rows)
    solves = 1 if problem.robust is None else 1 + max(PLAN.robust_iterations, problem.robust.iterations)
    return solves * work(rows, None if rows <= DENSE_ROWS else BASIS_SIZE)


def run_steps(problem: Problem, steps: Any) -> Problem:
    """Run the steps, then choose what is still None."""
    if isinstance(steps, (str, Step, type)) or not isinstance(steps, Sequence):
        example = repr(steps) if isinstance(steps, Step) else "lssvm.sparsify.Random(100)"
        raise TypeError(f"steps must be a list of steps or None, got {steps!r}: write steps=[{example}].")
    for step in steps:
        if isinstance(step, type) or not callable(step):
            raise TypeError(f"steps holds {step!r}, which is not a step: see lssvm.sparsify and lssvm.tune.")
        result = step(problem)
        if not isinstance(result, Problem):
            raise TypeError(
                f"steps holds {step!r}, which returned {reprlib.repr(result)}: a step must return a Problem, such as "
                "the one it was given or problem.replace(...)."
            )
        problem = result
    return tuned(problem)


def retuned(problem: Problem) -> Problem:
    """With C chosen anew, where it was chosen by what had lost its digits."""
    chosen = problem.asked == (problem.kernel, None) and LeaveOneOut.__name__ in problem.paths
    return tuned(problem.replace(C=None), on_all_rows=False) if chosen else problem


def main_path(problem: Problem) -> Any:
    """The record of the last step that searched, sparsifiers before the tuner that ends every fit."""
    names = list(problem.paths)
    chosen = [name for name in names if name != LeaveOneOut.__name__] or names
    return problem.paths[chosen[-1]] if chosen else None
