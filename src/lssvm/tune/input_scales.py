"""Long-tailed inputs: whether the scale asinh(x/unit) predicts better than the numbers as they are."""

from __future__ import annotations

import math

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import Array
from ..kernels import RBF
from ..problem import Problem
from .constants import CONSTANTS, sample_of
from .criteria import LooError
from .search import common_widths

UNITS = (0.0, 0.05, 0.25, 0.5)  # These quantiles of the sizes of the cells other than 0 are tried as units.
LINEAR = 0.9  # Above this correlation of x and asinh(x/unit), the two scales hardly differ.
TINY = 1e-100  # Smaller parts of the largest cell count as 0.
CLEARLY = 2.0  # The mean gain of a scale must exceed this many standard errors.


def long_tail_units(problem: Problem) -> np.ndarray:
    """Return the unit of each column for which asinh(x/unit) is most nearly normal on a sample of the rows.

    It is 0 for columns that are not long-tailed: their two scales hardly differ, or x itself is more nearly normal.
    """
    X = arrays.to_numpy(arrays.take(problem.X, sample_of(problem, CONSTANTS.start_rows)))
    found = np.zeros(X.shape[1])
    for column in np.flatnonzero(~problem.spreads.constant):
        largest = float(np.abs(X[:, column]).max()) or 1.0
        x = X[:, column] / largest
        sizes = np.abs(x[np.abs(x) > TINY])
        best = -len(x) * math.log(x.std() or math.inf) - math.log(len(x))  # log likelihoods; a unit is a parameter
        for unit in np.quantile(sizes, UNITS) if best > -math.inf else ():
            y = np.arcsinh(x / unit)
            likelihood = -len(x) * math.log(y.std() or math.inf) - float(np.sum(np.log(np.hypot(x, unit))))
            if likelihood > best and np.corrcoef(x, y)[0, 1] < LINEAR:
                best, found[column] = likelihood, largest * unit
    return found


def is_better_scaled(problem: Problem, scaled: Array) -> bool:
    """Return whether `scaled` inputs clearly lower the leave-one-out residuals of a sample, with a common width."""
    rows, sizes = sample_of(problem, CONSTANTS.start_rows), []
    for X in (problem.X, scaled):
        part = problem.replace(X=X, kernel=RBF(), fitted=None).subset(rows)
        record = Bunch(evaluations=0, plan=[])
        best, _ = common_widths(part, part, "auto", record)
        sizes.append(np.abs(LooError(part, part.spreads.values, record).residuals(best)).sum(axis=1))
    gain = sizes[0] - sizes[1]
    return bool(gain.mean() > CLEARLY * gain.std() / math.sqrt(len(gain)))
