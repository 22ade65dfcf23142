"""The constants of the search, in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Constants:
    """What a search tries, on how many rows, and when it stops.

    Widths are in units of the spread of their column. A gain is a decrease of log PRESS. The evidence given is that of
    29 public regression tables with 86 to 18,000 rows (splits 0 to 2) and of two generated tables, in which 4 of 32
    columns matter: y = sin(3 x1 x2) + 2 (x3 > 0) x4 plus noise, with normal or uniform inputs. Errors are those of
    stacks, relative to lssvm 0.1.0 (geometric means), unless stated otherwise.
    """

    # Starting points
    widths: np.ndarray = field(default_factory=lambda: np.geomspace(0.2, 20.0, 7))
    """Common widths of the initial grid, in units of sqrt(number of columns)."""
    ridges: np.ndarray = field(default_factory=lambda: np.geomspace(1e-9, 1e3, 37))
    """Grid of 1/C, in units of the variance of the kernel over the rows."""
    zooms: int = 2
    """Number of refined grids of C about the best point, each four times finer than the last."""
    spectrum_rows: int = 200
    """Rows from which the variance of the kernel is estimated, which is the unit of 1/C."""
    start_rows: int = 300
    """Rows on which the grid of common widths is evaluated, and up to which dense models have one stage."""
    factors: tuple[float, float] = (0.0, 1.2)
    """Log factors that are tried for the widths of another kernel. The best widths of Matern kernels are one to five
    times those of RBF; two factors instead of seven widths of a grid saved a third of the time of small tables."""

    # Samples and iterations
    trial: tuple[int, int] = (2000, 250)
    """Rows and basis size of the first stage of a model with a basis. With (1000, 150) the error of a table with 4
    relevant columns of 32 (puma32H) was 0.246 instead of 0.180, and that of cpu.act 0.123 instead of 0.119; (3000, 300)
    took twice as long for a gain below 1 %."""
    dense_trial: tuple[int, int] = (2000, 150)
    """The same for dense models of more than `start_rows` rows: an evaluation with 150 basis points takes a third of
    the time of a dense one with 500 rows, and a tenth with 1000."""
    dense_stage: int = 1000
    """Rows of the last stage of a dense model. With 2000, balloon (1600 rows) took 52 s instead of 17."""
    last_stage: tuple[int, int] = (3000, 1000)
    """Rows and basis size of the last stage of a model with a basis. (6000, 1000) took three times as long as no last
    stage, and gained 1 % on average."""
    coarse: tuple[int, int] = (1000, 125)
    """Rows and basis size on which the search starts, if the basis of the first stage has at least twice as many. That
    saved a tenth of the time of large tables, with the same errors."""
    limited: float = 0.1
    """Least gain from the basis of the first stage to that of the last for which widths are searched there, too: only
    then are those of the first stage too wide. 0.02 changed the error of small tables from 0.888 to 0.885. Otherwise
    larger bases are not tried: in 24 splits, the gain was above 0.2 where they paid off, else below 0.05."""
    common: int = 15
    """Maximum number of iterations for common widths; about 6 are usual."""
    iterations: int = 50
    """The same for one width per column; 20 to 40 are usual."""
    transferred: int = 8
    """The same for widths that another kernel has found."""
    early: int = 6
    """The same in the last stage, after columns are dropped, and with fewer than `width_rows` samples per width: more
    iterations would fit the noise."""
    hopeful: int = 3
    """Iterations after which a member of a regression stack that started from the widths of another kernel, and would
    have no weight, is searched no further, if its trial has a basis. Compared with a full search: 1.000 of the error
    and 0.98 of the time on tables with more than 2000 rows. With dense trials (up to `start_rows` rows), the error on
    three of twelve tables was 3 to 17 % larger."""
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
    class_flatness: float = 0.1
    """A search ends when a step lowers the sum of the log losses by less, which is far below the noise."""
    class_worth: float = 1.64
    """Minimum gain of one width per column, or of fewer columns, in log loss on rows not used to choose them, in
    standard errors. Errors of the 19 tables with classes (splits 0 to 5) were 1.00 of those without the second, and of
    five generated tables with irrelevant columns (300 to 3000 rows) 0.78; 0.75 if columns were chosen by the sample as
    a whole, but then 1.02 on the tables, and 1.7 on kr.vs.kp."""
    dense_class_work: float = 6e10
    """Largest sum of the cubed sizes of all pairs for which a classifier is dense."""
    class_basis_work: float = 4e10
    """Squared basis size times the number of rows of all pairs and the number of systems, for models with a basis."""
    class_systems: int = 10
    """Number of systems that losses other than squares need."""
    class_C_part: float = 1.0 / 3.0
    """Part of the rows and of the basis on which C is chosen again, for two classes and a basis. Log loss relative to
    the C of the search, for six tables and Friedman's function with 5000 to 18,000 rows (splits 0 to 3): 0.994 (0.955
    to 1.019) in 1.02 of the time, and 0.46 on a table without noise. With 300 points and four times the rows of the
    search it was 1.17 at worst. For 10 and 26 classes of generated tables, the error grew by 27 and 13 %."""
    class_hopeless: float = 5.0
    """A kernel whose log losses on both halves exceed those of another by as much in sum gets no C of its own."""
    class_basis: tuple[int, int] = (300, 1500)
    """Minimum and maximum basis size of a classifier."""

    # One width per column
    width_bound: float = math.log(300.0)
    """Largest log width. A wider one gains little, and the larger C that it needs lets narrow columns overfit."""
    width_prior: float = 0.5
    """Prior standard deviation of log widths about their mean in the search of classifiers."""
    ratio_prior: float = 0.25
    """The same for least squares, with at most `width_rows` samples per width. Error on the 17 tables below 1000 rows:
    0.877 with 0.25 and 0.888 with 0.5; with 1.0 (in a prototype), the worst table was at 1.29 instead of 1.13."""
    width_rows: int = 50
    """Samples per width up to which the prior stays the same; with more, its standard deviation grows in proportion.

    `intervals.ROWS_PER_WIDTH` is another quantity: where leave-one-out residuals become reliable, measured by coverage.
    """
    worth: float = 7.0
    """One width per column is kept if log PRESS falls by at least `worth` (widths - 1)/rows. In a stack it is always
    kept, because the weights decide: 0.910 instead of 0.931 in a prototype."""
    weight_rows: int = 5
    """Rows per column up to which the weights of a stack are chosen by the residuals of `weight_folds` folds, without
    which the members were searched: leave-one-out residuals after a search of many widths are far too small. Ten splits
    of the three tables with at most 5 rows per column: 0.974 of the error in 5 times the time; with 25, 0.986 on 13
    tables, 1.05 on two of them. Generated tables of 40 to 100 rows and 100 to 300 columns: 0.68 to 1.0 of the error."""
    weight_folds: int = 5
    dropped_width: float = math.log(1e6)
    """Log width that marks a dropped column within a search; its sigma is infinite."""
    stayed: int = 3
    """Number of columns in a row, from the widest on, that cannot be dropped before narrower ones are not tried. Three
    splits of 20 tables: trying all columns had 0.997 of the error in 1.02 of the time; with 1 it was 1.008 in 0.95."""
    cosines: int = 4
    """Functions per column by which columns are screened. With normal inputs, x1 and x2 of the generated table matter
    only as a pair; without the screening, the error with 2000 rows is 0.43 instead of 0.33."""
    screened: int = 400
    """Maximum number of functions of all columns; with more than as many columns, pairs are not screened."""
    widths_kept: int = 100
    """With more than `screened` columns, the largest number of columns (or that of rows, if it is larger) with a width
    of their own: those whose widths fall fastest from a common one. Geometric mean of the errors of six kinds of
    generated tables with 60 rows and 2000 columns (4 each): 0.35, also with 400; without this limit 0.46 in four times
    the time."""
    relevant: float = 5.0
    """Least standardised effect, alone or in a pair, of a column that starts with a narrow width. By chance, one of the
    496 pairs of 32 columns exceeds 5 in one table of ten, and 4 in every second one."""
    narrow: float = 2.0
    """Largest log width of a column that counts as used."""
    wide: float = 4.0
    """Log width at which the other columns start."""
    unequal: float = 100.0
    """Ratio of column spreads above which a kernel without widths practically ignores the columns with small spread."""

    # When to stop
    rate: float = 0.02
    """Least gain of an iteration that costs as much as all before it: a search stops by what a second gains. With 0.05
    the time was 4 % less and the errors of the tables were the same, but 2 of 72 generated tables of 40 to 150 rows had
    more than 1.1 times the error."""
    hopeless: float = math.log(4.0)
    """Excess of log PRESS on the first stage above which a member of a stack is left out: twice the error of another
    member. Without it, the 24 members that it leaves out in 78 fits had weights of at most 0.01."""
    flatness: float = 0.05
    """A search ends when a step gains less than `flatness`/rows, which is below the noise."""

    explained: float = 0.02
    """Least share of the variance explained by leave-one-out without a warning."""
    unexplained: float = 0.1
    """Largest share of the variance not explained at which targets may be called noise-free."""

    # Robust weights
    outlier: float = 15.0
    """Largest leave-one-out residual that counts in full, in units of their 90th percentile. One wrong target of
    bodyfat costs a factor of two in the error; with 6, rows of nearly noise-free tables (balloon) that are hard to fit
    were taken for outliers, and with 40 that of bodyfat was missed."""
    lenience: float = 1.5
    """Scale of the residuals in the robust weights of a search, in units of the robust scale."""
    robust_iterations: int = 3
    """Minimum number of reweighted solutions: the first fits may still follow an outlier."""


CONSTANTS = Constants()
