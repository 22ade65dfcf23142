"""Folds that are left out together, and residuals from searches that were repeated without them."""

from __future__ import annotations

import reprlib
import warnings
from typing import Any

import numpy as np

from .. import arrays
from ..kernels import Kernel
from ..problem import Problem
from ..tables import is_missing
from ..tune import LeaveOneOut, chosen_widths

FOLDS = 10  # number of folds of the jackknife methods if the search is repeated without each fold
# With fewer samples per width, leave-one-out residuals are too small if the widths were chosen by them (measured in
# docs/intervals.md). `tune.CONSTANTS.width_rows` is another quantity: where the prior on the widths begins to widen.
ROWS_PER_WIDTH = 25


def widths_with_few_rows(problem: Problem) -> int:
    """The number of chosen widths if there are too few rows per width for reliable leave-one-out residuals; else 0.

    Dropped columns do not count: coverage depends on the number of rows per width that is kept.
    """
    if ROWS_PER_WIDTH * len(problem.kernel.leaves) * problem.X.shape[1] <= len(problem.rows):
        return 0
    widths = chosen_widths(problem)
    return widths if ROWS_PER_WIDTH * widths > len(problem.rows) else 0


def searched_again(problem: Problem, labels: np.ndarray) -> np.ndarray:
    """Residuals (rows, outputs) of the rows of each fold, with widths and C chosen without that fold.

    Of a `Choice`, only the kernel that was chosen is searched again. The basis is held fixed, unless it consists of the
    rows; robust weights come from the other rows. Rows with label -1 are in no fold.
    """
    y = arrays.to_numpy(problem.y)
    residuals = np.full_like(y, np.nan)
    problem = _with_chosen_kernel(problem)
    for number in range(labels.max() + 1):
        fold = np.flatnonzero(labels == number)
        others = np.setdiff1d(problem.rows, fold)
        if len(others) < 2:
            raise ValueError(
                f"folds: without one of the folds only {len(others)} row is left to choose widths: use smaller folds."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `fit` has already warned about the whole model
            fit = LeaveOneOut()(problem.subset(others)).solve(loo=False)
        residuals[fold] = y[fold] - arrays.to_numpy(fit.predict(arrays.take(problem.X, fold)))
    return residuals


def _with_chosen_kernel(problem: Problem) -> Problem:
    """The problem with the kernel that was chosen in place of a `Choice` as the one that is asked for."""
    if problem.asked is None or not problem.asked[0].is_choice:
        return problem
    alike = (part for part in problem.asked[0].parts if _form(part) == _form(problem.kernel))
    return problem.replace(asked=(next(alike, problem.kernel), problem.asked[1]))


def _form(kernel: Kernel) -> tuple[Any, ...]:
    """What two kernels have in common that differ in their widths."""
    return type(kernel), getattr(kernel, "nu", None), getattr(kernel, "degree", None), *map(_form, kernel.parts)


def fold_labels(folds: Any, rows: np.ndarray, n_rows: int, name: str = "folds") -> np.ndarray:
    """The fold number of every row, given by labels or drawn; -1 for rows of weight 0, i.e. not in `rows`.

    `name` is that of the argument; only "folds" may be a number, of folds of rows that follow each other in `rows`.
    """
    out = np.full(n_rows, -1)
    if name == "folds" and isinstance(folds, (int, np.integer)) and not isinstance(folds, bool):
        if not 2 <= folds <= len(rows):
            raise ValueError(f"folds={folds!r}: give 2 to {len(rows)} folds, the number of rows with positive weight.")
        for number, part in enumerate(np.array_split(rows, int(folds))):
            out[part] = number
        return out
    labels = np.asarray(folds)
    if labels.shape != (n_rows,):
        what = "a number of folds, or " if name == "folds" else ""
        raise ValueError(f"{name}={reprlib.repr(folds)}: give {what}one label per training row ({n_rows} rows).")
    missing = [row for row in np.sort(rows) if is_missing(labels[row])]
    if missing:
        raise ValueError(f"{name} has no label in row {missing[0]} (counting from 0): give one label per training row.")
    names, out[rows] = np.unique(labels[rows], return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"{name} holds only one distinct label, so no rows remain without it: give at least two.")
    return out
