"""Helpers of several steps: a provisional kernel, and kernel rows."""

from __future__ import annotations

import numpy as np

from ... import arrays
from ...kernels import Kernel
from ...problem import Problem, Step
from ...tune import tuned


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


def kernel_diagonal(kernel: Kernel, problem: Problem) -> np.ndarray:
    """k(x, x) of all rows of the problem."""
    return arrays.to_numpy(kernel.diagonal(problem.X))


def check_found(step: Step, support: np.ndarray) -> None:
    """Raise ValueError if no basis vector could be chosen."""
    if not len(support):
        raise ValueError(f"{type(step).__name__}: the kernel is 0 on all rows, so no basis vector can be chosen.")
