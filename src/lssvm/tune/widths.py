"""Search for the widths of a kernel and C that minimise a criterion.

A criterion is a negative log likelihood of leave-one-out predictions: that of normal residuals, rows/2 * log PRESS
(`LooError`), or the log loss of classes (`LooLogLoss`). One unit of it is one unit of evidence, for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy

from .. import arrays
from ..arrays import NumericalError, cached_property
from ..kernels import Kernel
from ..problem import Problem, ranks_of
from .constants import CONSTANTS

WIDEST = math.log(300.0)  # A wider kernel gains little, and its larger C lets narrow columns overfit.
MEAN_PRIOR = 2.0  # The mean log width has this standard deviation; it keeps widths of separable classes finite.
COSINES = 4  # Each column has this many functions; a relation of two columns needs products of several.
FUNCTIONS = 400  # There are at most this many functions of all columns; with more, pairs of columns are not screened.
NEEDED = 3  # After this many consecutive columns that are needed, narrower ones are not tried.
FAILED = 1e10  # This is the value where rounding errors prevent a solution. It makes a line search step back.


@dataclass(frozen=True)
class Candidate:
    """A kernel with all its widths, and C; for classes also a coding and a loss. `value` is that of the criterion."""

    kernel: Kernel
    C: float
    coding: str = "one-vs-rest"
    loss: str = "squared"
    value: float = field(default=math.inf, compare=False)


@dataclass
class Criterion:
    """A function of the candidates that a search minimises, on a sample of rows."""

    problem: Problem  # It has the rows that are predicted. Its C is None if C is searched.
    unit: np.ndarray  # The width of a column is in units of its spread.
    width_prior: float = 0.0  # With few rows per width, log widths have this standard deviation about their mean.
    iterations: float = math.inf  # There are at most two or three times as many.
    scale: float = 1.0  # Changes of this size matter. A search starts with a step of gradient/scale.
    noise: float = 0.05  # An iteration that lowers the criterion by less is the last: such gains are below the noise.

    def value(self, candidate: Candidate) -> float:
        """Return the criterion."""
        raise NotImplementedError

    def gradient(self, candidate: Candidate) -> tuple[float, np.ndarray, float]:
        """Return the criterion, its derivatives in the log widths (leaves, columns), and its derivative in log C."""
        raise NotImplementedError

    def range_of_C(self, candidate: Candidate) -> tuple[float, float]:
        """Return the range of log C that is searched."""
        raise NotImplementedError

    @cached_property
    def functions(self) -> tuple[np.ndarray, np.ndarray]:
        """Functions of every column: the first cosines of its ranks, made orthonormal over the rows.

        Returns an array (rows, columns * count) with mean square 1, and how many functions of each column are not 0:
        fewer than `count` for columns of few values, none for a constant column.
        """
        X = arrays.to_numpy(arrays.take(self.problem.X, self.problem.rows))
        rows, columns = X.shape
        ranks = (ranks_of(X).T + 0.5) / rows
        varying = max(1, int(np.count_nonzero(np.ptp(ranks, axis=1))))
        count = max(1, min(COSINES, FUNCTIONS // varying, rows - 1))
        cosines = np.stack([np.cos(math.pi * j * ranks) for j in range(1, count + 1)], axis=2)
        Q, R = np.linalg.qr(cosines - cosines.mean(axis=1, keepdims=True))
        independent = np.abs(np.diagonal(R, axis1=1, axis2=2)) > 1e-6 * math.sqrt(rows)
        F = (math.sqrt(rows) * Q * independent[:, None, :]).transpose(1, 0, 2).reshape(rows, columns * count)
        return F, independent.sum(axis=1)

    def relevant(self, targets: np.ndarray) -> np.ndarray:
        """Return which inputs have a varying column on which targets depend, alone or together with another column.

        For independent targets e, the squared correlations of e with the k functions of a column, or with the k^2
        products of the functions of two columns, are about chi-squared. All pairs together take one matrix product,
        F' diag(e) F. Pairs matter: sin(x z) depends neither on x alone nor on z alone. The targets are clipped at a few
        robust standard deviations, so that no single row decides.
        """
        F, terms = self.functions
        rows, columns = len(F), len(terms)
        count, freedom = F.shape[1] // columns, np.maximum(terms, 1)
        deviation = targets - np.median(targets, axis=0)
        scale = 1.4826 * np.median(np.abs(deviation), axis=0)
        limit = np.where(scale > 0, 4.0 * scale, math.inf)
        deviation = np.clip(deviation, -limit, limit)
        deviation = deviation - deviation.mean(axis=0)
        spread = deviation.std(axis=0)
        largest = np.full(columns, -math.inf)  # of the standardised effects
        for e in (deviation / np.where(spread > 0, spread, 1.0)).T:
            alone = ((e @ F) ** 2 / rows).reshape(columns, count).sum(axis=1)
            largest = np.maximum(largest, (alone - freedom) / np.sqrt(2.0 * freedom))
            if np.count_nonzero(terms) * count <= FUNCTIONS:
                both = ((F.T @ (e[:, None] * F)) ** 2 / rows).reshape(columns, count, columns, count).sum(axis=(1, 3))
                products = np.outer(freedom, freedom)
                pairs = (both - products) / np.sqrt(2.0 * products)
                np.fill_diagonal(pairs, -math.inf)
                largest = np.maximum(largest, pairs.max(axis=1))
        varying = ~self.problem.spreads.constant
        return np.bincount(self.problem.inputs, varying & (largest > CONSTANTS.relevant)) > 0


class WidthSearch:
    """The search from one candidate. Its variables are changes of log widths, and log C.

    A width that the kernel as requested leaves at None moves: alone, with `many` and ``ard=True``, or together with the
    other widths of its leaf. Infinite widths stay infinite.
    """

    def __init__(self, criterion: Criterion, requested: Kernel, start: Candidate, *, many: bool = False) -> None:
        self.criterion, self.requested, self.start, self.many = criterion, requested, start, many
        self.size, self.fixed_C = len(criterion.problem.rows), criterion.problem.C is not None
        inputs = criterion.problem.inputs
        widths = [arrays.to_numpy(leaf.sigma) * np.ones(len(inputs)) for leaf in start.kernel.leaves]
        with np.errstate(divide="ignore"):
            self.logs = np.log(np.array(widths)).reshape(len(widths), len(inputs))
        units = np.array([leaf.width_unit(criterion.unit) for leaf in requested.leaves]).reshape(self.logs.shape)
        self.relative = self.logs - np.where(np.isfinite(units), np.log(units), 0.0)
        self.widest = float(np.max(self.relative, initial=-math.inf, where=np.isfinite(self.relative)))
        # This is the smallest log width of every input among the leaves with widths per column, in units of its spread.
        several = [leaf.ard and leaf.sigma is None for leaf in requested.leaves]
        first = np.unique(inputs, return_index=True)[1]
        self.widths = np.asarray(np.min(self.relative[several], axis=0, initial=math.inf)[first])
        self.variable = np.full(self.logs.shape, -1)  # Each width changes with this variable.
        # These are the first columns of each input that vary and have a finite width: constant columns change nothing.
        self.leading = np.zeros(self.logs.shape, dtype=bool)
        self.count, constant = 0, criterion.problem.spreads.constant
        for leaf, logs, variable, leading in zip(requested.leaves, self.logs, self.variable, self.leading, strict=True):
            used = np.flatnonzero(np.isfinite(logs))
            if leaf.sigma is None and len(used):
                numbers = np.unique(inputs[used], return_inverse=True)[1]
                varying = used[~constant[used]]
                leading[varying[np.unique(inputs[varying], return_index=True)[1]]] = True
                variable[used] = self.count + (numbers if many and leaf.ard else 0)
                self.count = int(variable.max()) + 1
        self.origin = np.append(np.zeros(self.count), [] if self.fixed_C else math.log(start.C))
        self.latest: tuple[Any, Any] = (None, None)  # the variables and the candidate of the last call of `at`

    def at(self, x: np.ndarray) -> Candidate:
        """Return the candidate for values of the variables, with the same kernel object as in the last call."""
        if not np.array_equal(self.latest[0], x):
            logs = self.logs + np.where(self.variable >= 0, np.append(x, 0.0)[self.variable], 0.0)
            moved = changed_widths(self.start, self.requested, lambda leaf, _: np.exp(logs[leaf]))
            self.latest = x.copy(), replace(moved, C=self.start.C if self.fixed_C else math.exp(x[-1]))
        return self.latest[1]

    def objective(self, x: np.ndarray, *, slopes: bool = True) -> tuple[float, np.ndarray]:
        """Return the criterion minus the log prior, and the gradient of this sum if `slopes` is True.

        In the prior, the log widths of each leaf are normal about their mean, and their mean is normal about half the
        logarithm of their number.
        """
        gradient = np.zeros(len(x))
        try:
            if slopes:
                value, in_widths, in_C = self.criterion.gradient(self.at(x))
                gradient = self.in_variables(in_widths, in_C)
            else:
                value = self.criterion.value(self.at(x))
        except NumericalError:
            return FAILED, gradient
        for relative, variable, leading in zip(self.relative, self.variable, self.leading, strict=True):
            own = variable[leading]
            if not len(own):
                continue
            logs = relative[leading] + x[own]
            mean, count = float(logs.mean()), len(own)
            deviation, middle = logs - mean, mean - 0.5 * math.log(count)
            spread = self.criterion.width_prior * max(1.0, self.size / (CONSTANTS.width_rows * count))
            value += 0.5 * float(deviation @ deviation) / spread**2 + 0.5 * (middle / MEAN_PRIOR) ** 2
            np.add.at(gradient, own, deviation / spread**2 + middle / (MEAN_PRIOR**2 * count))
        return value, gradient

    def in_variables(self, in_widths: np.ndarray, in_C: float) -> np.ndarray:
        """Return the derivatives in the variables, from those in the log widths and log C."""
        moving = self.variable >= 0
        sums = np.bincount(self.variable[moving], in_widths[moving], minlength=self.count)
        return np.append(sums, [] if self.fixed_C else in_C)

    def minimise(self, iterations: float | None = None, method: str = "gradient") -> Candidate:
        """Return the best candidate near the start, or the start with its value if `iterations` is 0.

        The search ends when an iteration gains less than the noise, or when three iterations together lower log PRESS
        by less than three times `CONSTANTS.slow`.
        """
        x = self.origin
        if not len(x) or iterations == 0:
            return replace(self.start, value=self.objective(x, slopes=False)[0])
        numbers, first = np.unique(self.variable, return_index=True)
        bounds = [(-WIDEST - at, WIDEST - at) for at in self.relative.ravel()[first[numbers >= 0]]]
        bounds += [] if self.fixed_C else [self.criterion.range_of_C(self.start)]
        x = np.clip(x, *np.array(bounds).T)
        if method == "simplex" or not self.count:  # A kernel without free widths may lack a gradient.
            options: dict[str, Any] = {"maxfev": 40 * len(x), "xatol": 1e-2, "fatol": 5e-5 * self.size}
            value = lambda x: self.objective(x, slopes=False)[0]  # noqa: E731
            found = scipy.optimize.minimize(value, x, method="Nelder-Mead", bounds=bounds, options=options)  # type: ignore[call-overload]
            return replace(self.at(found.x), value=float(found.fun))
        start, slopes = self.objective(x)
        unit = max(float(np.max(np.abs(slopes))), self.criterion.scale)  # The first step is at most 1.
        if slopes @ slopes < self.criterion.noise * unit:  # Rounding errors would decide about the first step.
            return replace(self.at(x), value=start)
        known, values = [(start, slopes)], [start]

        def stop(intermediate_result: scipy.optimize.OptimizeResult) -> None:
            values.append(unit * float(intermediate_result.fun))
            if len(values) > 3 and values[-4] - values[-1] < 3.0 * CONSTANTS.slow * self.criterion.scale:
                raise StopIteration

        most = iterations or self.criterion.iterations * (3 if self.many else 2)
        options = {"maxiter": most, "ftol": self.criterion.noise / max(abs(start), unit)}
        scaled = lambda x: tuple(part / unit for part in (known.pop() if known else self.objective(x)))  # noqa: E731
        found = scipy.optimize.minimize(  # type: ignore[call-overload]
            scaled, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options, callback=stop
        )
        return replace(self.at(found.x), value=unit * float(found.fun))

    def without(self, dropped: np.ndarray) -> WidthSearch:
        """Return the search from infinite widths of some inputs, in the leaves with one width per column."""
        lost = np.isin(self.criterion.problem.inputs, dropped)
        start = changed_widths(self.start, self.requested, lambda _, sigma: np.where(lost, math.inf, sigma), many=True)
        return WidthSearch(self.criterion, self.requested, start, many=True)

    def fewer_columns(self, relevant: np.ndarray) -> Candidate:
        """Return the start without the inputs that hardly improve it. Inputs have widths of their own; one is kept.

        `relevant` says on which inputs the targets depend. The other inputs are tried together first or, if there are
        none, half of all inputs. Half as many are tried each time, the widest first, until a few single ones in a row
        are needed.
        """
        order = np.lexsort((-np.round(self.widths, 6), relevant))  # Rounding errors must not order equal widths.
        order = order[np.isfinite(self.widths[order])]
        used, search, needed = len(order), self, 0
        least = self.objective(self.origin, slopes=False)[0] if used else 0.0
        dropped, size = order[:0], int(np.sum(~relevant[order])) or max(1, len(order) // 2)
        while len(order) and needed < NEEDED:
            tried = np.append(dropped, order[:size])
            fewer = self.without(tried)
            value = math.inf if len(tried) == used else fewer.objective(fewer.origin, slopes=False)[0]
            if value - least < math.log(self.size):
                search, least, needed, dropped, order = fewer, min(least, value), 0, tried, order[size:]
            elif size == 1:
                needed, order = needed + 1, order[1:]
            size = max(1, size // 2)
        return search.start


def changed_widths(
    candidate: Candidate, requested: Kernel, change: Callable[[int, np.ndarray], np.ndarray], *, many: bool = False
) -> Candidate:
    """Return the candidate with other widths where they are searched.

    `change` gets the number of a leaf and its widths, and returns new ones. With `many`, only leaves with ``ard=True``
    change.
    """
    sigmas = [
        change(number, arrays.to_numpy(leaf.sigma)) if own.sigma is None and (own.ard or not many) else leaf.sigma
        for number, (leaf, own) in enumerate(zip(candidate.kernel.leaves, requested.leaves, strict=True))
    ]
    return replace(candidate, kernel=candidate.kernel.with_widths(sigmas))
