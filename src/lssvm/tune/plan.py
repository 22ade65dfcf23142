"""The constants of the search, in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class SearchPlan:
    """What a search tries, on how many rows, and when it stops.

    Widths are in units of the spread of their column. A gain is a decrease of log PRESS.
    """

    # Starting points
    widths: np.ndarray = field(default_factory=lambda: np.geomspace(0.2, 20.0, 7))
    """Common widths of the initial grid, in units of sqrt(number of columns)."""
    ridges: np.ndarray = field(default_factory=lambda: np.geomspace(1e-9, 1e3, 37))
    """Grid of 1/C, in units of the variance of the kernel over the rows."""
    zooms: int = 2
    """Number of refined grids of C about the best point, each four times finer than the last."""
    start_rows: int = 300
    """Rows on which the grid of common widths is evaluated."""

    # Samples and iterations
    stages: tuple[tuple[int, int], ...] = ((1000, 150), (3000, 500), (6000, 1000))
    """Rows and basis size of each stage of the gradient search."""
    dense_stage: int = 1500
    """Rows of the last stage for a dense model."""
    iterations: tuple[int, ...] = (60, 20, 15)
    """Maximum number of iterations in each stage; the first one also applies to dense models."""
    again: int = 15
    """Maximum number of iterations if one width per column is tried again on more rows."""
    early: int = 6
    """Maximum number of iterations with fewer than `width_rows` samples per width: more would fit the noise."""
    dense_comparison: tuple[int, None] = (500, None)
    """Rows (and no basis) on which the kernels of a dense model are compared."""
    basis_comparison: tuple[int, int] = (2000, 250)
    """Rows and basis size on which the kernels of a model with a basis are compared."""
    few: int = 20
    """Minimum number of rows of each class in a sample, if the class has as many."""
    class_values: int = 2**24
    """Maximum number of leave-one-out decision values of classes in memory at a time."""

    # Classifiers
    class_work: float = 550.0**3
    """Sum of the cubed sizes of all pairs of classes in the search sample of a classifier: 550 rows of two classes."""
    class_rows: tuple[int, int] = (200, 1500)
    """Minimum and maximum number of rows of that sample."""
    class_C: float = 30.0
    class_C_prior: float = 3.0
    """Centre of the prior on C, and the prior standard deviation of log C and of the log slope."""
    class_width_prior: float = 2.0
    """Prior standard deviation of the mean log width about log sqrt(number of columns)."""
    class_worth: float = 1.64
    """Minimum gain of one width per column in log loss on rows not used to choose it, in standard errors."""
    dense_class_work: float = 6e10
    """Largest sum of the cubed sizes of all pairs for which a classifier is dense."""
    class_basis_work: float = 2.5e9
    """Squared basis size times the number of rows of all pairs, for classifiers with a basis."""
    class_basis: tuple[int, int] = (300, 1000)
    """Minimum and maximum basis size of a classifier."""

    # One width per column
    width_bound: float = math.log(300.0)
    """Largest log width. A wider one gains little, and the larger C that it needs lets narrow columns overfit."""
    width_prior: float = 0.5
    """Prior standard deviation of log widths about their mean, with at most `width_rows` samples per width."""
    width_rows: int = 50
    """Samples per width up to which the prior stays the same; with more, its standard deviation grows in proportion."""
    worth: float = 7.0
    """One width per column is kept if log PRESS falls by at least `worth` (widths - 1)/rows."""
    dropped_width: float = math.log(1e6)
    """Log width that marks a dropped column within a search; its sigma is infinite."""
    stayed: int = 3
    """Number of columns in a row, from the widest on, that cannot be dropped before narrower ones are not tried."""
    unequal: float = 100.0
    """Ratio of column spreads above which a kernel without widths practically ignores the columns with small spread."""

    # When to stop
    hopeless: float = 0.1
    """A kernel that is this much worse than another one, with the widths of that one, is not searched further."""
    close: float = 0.05
    """Kernels this close to the best one are compared with it again at the end of their searches."""
    within_reach: float = 0.01
    """Largest expected gain from adapting C and a common factor to other rows; 0.002 is usual."""
    flatness: float = 0.05
    """A search ends when a step gains less than `flatness`/rows, which is below the noise."""

    # Robust weights
    lenience: float = 1.5
    """Scale of the residuals in the robust weights of a search, in units of the robust scale."""
    robust_iterations: int = 3
    """Minimum number of reweighted solutions: the first fits may still follow an outlier."""


PLAN = SearchPlan()
