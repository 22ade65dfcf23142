"""Long-tailed inputs: whether the scale asinh((x - origin)/unit) predicts better than the numbers as they are."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import Array
from ..kernels import RBF
from ..problem import Problem
from ..targets import ROUNDING, UNITS
from .constants import constants, sample_of
from .criteria import LooError
from .search import with_errors
from .widths import Candidate, WidthSearch

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
        several = best > -math.inf and len(np.unique(x)) > 2  # a scale does not change how two values are related
        for origin in (x.min(), x.max(), np.median(x)) if several else ():
            sizes = np.abs(x - origin)
            units = np.quantile(sizes[sizes > ROUNDING * sizes.max()], UNITS)
            y = np.arcsinh((x - origin) / units[:, None])
            y = y - y.mean(axis=1)[:, None]
            spreads = y.std(axis=1)
            likelihoods = -np.sum(np.log(np.hypot(x - origin, units[:, None])), axis=1)
            likelihoods -= len(x) * np.log(np.where(spreads > 0, spreads, math.inf))
            likelihoods[y @ (x - x.mean()) >= LINEAR * len(x) * spreads * x.std()] = -math.inf
            place = int(np.argmax(likelihoods))
            if likelihoods[place] > best:
                best, found[:, column] = likelihoods[place], (largest * origin, largest * units[place])
    return found


def is_better_scaled(problem: Problem, scaled: Array) -> bool:
    """Return whether `scaled` inputs clearly lower the leave-one-out residuals of a sample with one width per column.

    One width per column is tried only if they also do so with a moderate common width.
    """
    limits, kernel, record = constants(problem.effort), RBF(ard=True), Bunch(evaluations=0, plan=[])
    rows = sample_of(problem, limits.start_rows)
    criteria, starts = list[LooError](), list[Candidate]()
    for X in (problem.X, scaled):
        part = problem.replace(X=X, kernel=kernel, fitted=None).subset(rows)
        unit = np.where(part.spreads.constant, math.inf, part.spreads.values)
        criteria.append(LooError(part, unit, record))
        starts += with_errors(part, [kernel.with_width(math.sqrt(part.spreads.varying_inputs), unit)], record)

    def is_better(candidates: Iterable[Candidate]) -> bool:
        before, after = (np.abs(loo).sum(axis=1) for loo in map(LooError.residuals, criteria, candidates))
        gain = before - after
        return bool(gain.mean() > CLEARLY * gain.std() / math.sqrt(len(gain)))

    pairs = zip(criteria, starts, strict=True)
    searches = (WidthSearch(criterion, kernel, start, many=True) for criterion, start in pairs)
    return is_better(starts) and is_better(search.minimise(limits.few_iterations) for search in searches)
