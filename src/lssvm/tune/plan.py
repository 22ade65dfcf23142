"""The constants that steer the search, in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class SearchPlan:
    """What a search tries, on how many rows, and when it stops.

    Widths are in units of the spread of their column. A gain is a decrease of log PRESS.
    """

    # Where a search starts
    widths: np.ndarray = field(default_factory=lambda: np.geomspace(0.2, 20.0, 7))
    """Common widths that are tried first, in units of sqrt(number of columns)."""
    ridges: np.ndarray = field(default_factory=lambda: np.geomspace(1e-9, 1e3, 37))
    """Values of 1/C that are tried, in units of the variance of the kernel over the rows."""
    zooms: int = 2
    """Grids of C around the best point, each four times finer than the last."""
    start_rows: int = 300
    """Rows on which the common widths are tried."""

    # Where it runs
    stages: tuple[tuple[int, int], ...] = ((1000, 150), (3000, 500), (6000, 1000))
    """Rows and basis size of each search by gradient."""
    dense_stage: int = 1500
    """Rows of the last search of a dense model."""
    iterations: tuple[int, ...] = (60, 20, 15)
    """Most iterations in each stage; the first number also applies to dense models."""
    again: int = 15
    """Most iterations where one width per column is tried again on more rows."""
    early: int = 6
    """Most iterations with fewer than `width_rows` rows per width, where more would fit the noise."""
    dense_comparison: tuple[int, None] = (500, None)
    """Rows (and no basis) on which the kernels of a dense model are compared."""
    basis_comparison: tuple[int, int] = (2000, 250)
    """Rows and basis size on which the kernels of a model with a basis are compared."""
    few: int = 20
    """Rows of each class that are in every sample."""
    class_values: int = 2**24
    """Leave-one-out decision values of classes that are held in memory at a time."""

    # Classifiers
    class_work: float = 550.0**3
    """Sum of the cubed sizes of all pairs in the sample on which a classifier is searched: 550 rows of two classes."""
    class_rows: tuple[int, int] = (200, 1500)
    """Fewest and most rows of that sample."""
    class_C: float = 30.0
    class_C_prior: float = 3.0
    """Centre of the prior of C, and the standard deviation of log C and of the log slope."""
    class_width_prior: float = 2.0
    """Standard deviation of the mean log width about sqrt(number of columns)."""
    class_worth: float = 1.64
    """Standard errors by which one width per column has to lower the log loss of rows that did not choose it."""
    dense_class_work: float = 6e10
    """Cubes of the sizes of all pairs, summed, up to which a classifier is dense."""
    class_basis_work: float = 2.5e9
    """Squares of the basis size times rows of all pairs beyond that; the basis has 300 to 1000 points."""
    class_basis: tuple[int, int] = (300, 1000)

    # One width per column
    width_bound: float = math.log(300.0)
    """Largest log width. A wider column gains little, and the C that it calls for frees the narrow ones."""
    width_prior: float = 0.5
    """Standard deviation of log widths about their mean, with at most `width_rows` rows per width."""
    width_rows: int = 50
    """Rows per width; with more of them the prior widens in proportion."""
    worth: float = 7.0
    """One width per column is kept where log PRESS falls by `worth` (widths - 1)/rows."""
    without: float = math.log(1e6)
    """Log width that stands for a dropped column within a search; its sigma is infinite."""
    stayed: int = 3
    """Columns, from the widest on, that must prove useful before narrower ones are taken to be useful as well."""
    unequal: float = 100.0
    """Ratio of the spreads of columns above which a kernel without widths hardly sees the small ones."""

    # When a kernel or a search is given up
    hopeless: float = 0.1
    """A kernel this much worse than another one, with the widths of the other one, is not searched further."""
    close: float = 0.05
    """Kernels this close to the best one are compared with it again at the end of their searches."""
    within_reach: float = 0.01
    """What a common factor of widths found on other rows, and C, may gain; 0.002 is usual."""
    flatness: float = 0.05
    """A search ends with a step that gains less than `flatness`/rows, which is below the noise."""

    # Robust weights
    lenience: float = 1.5
    """Scale of the residuals by which a robust search weighs rows, in units of the robust scale."""
    robust_iterations: int = 3
    """Least number of reweighted solutions: a good fit of clean rows may follow an outlier at first."""


PLAN = SearchPlan()
