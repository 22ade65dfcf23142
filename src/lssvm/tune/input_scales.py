"""Long-tailed inputs: whether the scale asinh((x - origin)/unit) predicts better than the numbers as they are."""

from __future__ import annotations

import math

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import Array
from ..kernels import RBF
from ..problem import Problem
from ..targets import ROUNDING, UNITS
from .constants import constants, sample_of
from .criteria import LooError
from .search import common_widths
from .widths import WidthSearch

LINEAR = 0.8  # Above this correlation of a column and its asinh, the two scales hardly differ.
CLEARLY = 2.0  # The mean gain of a scale must exceed this many standard errors.


def long_tail_scales(problem: Problem) -> np.ndarray:
    """Return the origin and the unit of each column for which asinh((x - origin)/unit) is most nearly normal.

    The origin is an end of a sample of the column or its median. The unit is 0 for columns that are not long-tailed:
    their two scales hardly differ, or x itself is more nearly normal.
    """
    X = arrays.to_numpy(arrays.take(problem.X, sample_of(problem, constants(problem.effort).start_rows)))
    found = np.zeros((2, X.shape[1]))
    for column in np.flatnonzero(~problem.spreads.constant):
        largest = float(np.abs(X[:, column]).max()) or 1.0
        x = X[:, column] / largest
        best = -len(x) * math.log(x.std() or math.inf) - math.log(len(x))  # log likelihoods; a scale is a parameter
        for origin in (x.min(), x.max(), np.median(x)) if best > -math.inf else ():
            sizes = np.abs(x - origin)
            for unit in np.quantile(sizes[sizes > ROUNDING * sizes.max()], UNITS):
                y = np.arcsinh((x - origin) / unit)
                likelihood = -len(x) * math.log(y.std() or math.inf)
                likelihood -= float(np.sum(np.log(np.hypot(x - origin, unit))))
                if likelihood > best and np.corrcoef(x, y)[0, 1] < LINEAR:
                    best, found[:, column] = likelihood, (largest * origin, largest * unit)
    return found


def is_better_scaled(problem: Problem, scaled: Array) -> bool:
    """Return whether `scaled` inputs clearly lower the leave-one-out residuals of a sample with one width per column.

    If they do not lower its leave-one-out error with a common width, they are not tried.
    """
    limits, kernel, record = constants(problem.effort), RBF(ard=True), Bunch(evaluations=0, plan=[])
    rows = sample_of(problem, limits.start_rows)
    parts = [problem.replace(X=X, kernel=kernel, fitted=None).subset(rows) for X in (problem.X, scaled)]
    starts = [common_widths(part, part, "auto", record)[0] for part in parts]
    if starts[1].value >= starts[0].value:
        return False
    sizes = []
    for part, start in zip(parts, starts, strict=True):
        criterion = LooError(part, part.spreads.values, record)
        best = WidthSearch(criterion, kernel, start, many=True).minimise(limits.few_iterations)
        sizes.append(np.abs(criterion.residuals(best)).sum(axis=1))
    gain = sizes[0] - sizes[1]
    return bool(gain.mean() > CLEARLY * gain.std() / math.sqrt(len(gain)))
