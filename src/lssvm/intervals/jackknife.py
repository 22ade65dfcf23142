"""Intervals and distributions from one leave-one-out prediction and residual per training row (Barber et al. 2021).

Also exact sets of full conformal prediction.
"""

from __future__ import annotations

import functools
import math
import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy
from sklearn.utils import check_random_state

from .. import arrays
from ..arrays import Array, ArrayLike
from ..problem import Problem
from ..progress import counted
from ..rules import check_coverage
from ..tables import is_missing
from .loo import LooModel, ScaledLoo
from .scale import NoiseScale

# Part of a standard error by which the rank of adaptive intervals is raised. On public tables of fewer than 1000 rows
# intervals of 90 % cover 89.7 % without it, 90.5 % with 0.5 and 91.6 % with 1; the score is 0.2 and 0.5 % larger.
MORE = 0.75


@dataclass(frozen=True)
class Jackknife:
    """The predictive distribution of a model: the values f_(i)(x) + s_(i)(x) r_i/s_(i)(x_i) for its l training rows i.

    These values are on the scale of the `LooModel`; what follows from them is on that of the targets, apart from
    results for the training rows.

    `residuals` r (l, k) are those of the model, unless its search was repeated without folds. `scale` s is the size of
    the noise; without it, s is 1. `weigh` and `minmax` are for `intervals`: the former returns weights (rows, l) of the
    training rows for new rows of another distribution, in units in which they and that of the new row sum to l + 1.
    """

    model: LooModel
    residuals: np.ndarray
    scale: NoiseScale | None = None
    minmax: bool = False
    weigh: Callable[[Array], np.ndarray] | None = None

    def values(self, X: Array) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield blocks of new rows, f_(i)(x) and s_(i)(x) r_i/s_(i)(x_i), both (rows, l, k) or broadcast to it."""
        unit = self.residuals if self.scale is None else self.residuals / self.scale.own
        for rows in arrays.row_blocks(X.shape[0], (48 if self.scale is None else 96) * unit.size):
            part = X[rows, :]
            moved = unit[None, :, :] if self.scale is None else unit[None, :, :] * self.scale.predictions(part)
            yield rows, self.model.predictions(part), moved

    def intervals(self, X: Array, coverage: float) -> np.ndarray:
        """Return the ends (rows, 2, outputs) of intervals, which may be infinite.

        With R_i = |r_i| s_(i)(x)/s_(i)(x_i) and the rank k = ceil(coverage (l+1)), they are the (l+1-k)-th smallest of
        f_(i)(x) - R_i and the k-th smallest of f_(i)(x) + R_i. With `minmax`, they are min f_(i)(x) - R and
        max f_(i)(x) + R, where R is the k-th smallest of the R_i. Where the scale varies, `_more` is added to the rank.
        Weights take the place of ones in the ranks (Tibshirani et al. 2019).
        """
        n, outputs = self.residuals.shape
        if (needed := self.rows_needed(coverage)) > n:
            warn_of_few_rows(n, needed, coverage)
        ends = np.empty((X.shape[0], 2, outputs))
        for rows, centre, moved in self.values(X):
            size, w = np.abs(moved), None if self.weigh is None else self.weigh(X[rows, :])
            for output, more in enumerate(self._more(n, coverage)):
                rank = math.ceil(round(coverage * (n + 1) + more, 9))
                f, reach = centre[:, :, output], size[:, :, output]
                if w is not None:
                    ranks = coverage * (n + 1) + more * np.sqrt(np.sum(w**2, axis=1) / n)
                    found = -weighted_statistic(reach - f, w, ranks), weighted_statistic(f + reach, w, ranks)
                elif self.minmax:
                    largest = order_statistic(reach, rank)
                    found = f.min(axis=1) - largest, f.max(axis=1) + largest
                else:
                    found = order_statistic(f - reach, n + 1 - rank), order_statistic(f + reach, rank)
                ends[rows, :, output] = np.stack(found, axis=1)
        return self.model.ends(ends)

    def rows_needed(self, coverage: float) -> int:
        """Return the smallest number of rows for which intervals are finite."""
        more, rest = float(self._more(1, coverage).max()), 1.0 - coverage
        root = (more + math.sqrt(more**2 + 4.0 * rest * coverage)) / (
            2.0 * rest
        )  # of n, but for rounding to whole rows
        n = max(1, math.floor(root**2) - 2)
        while math.ceil(round(coverage * (n + 1) + float(self._more(n, coverage).max()), 9)) > n:
            n += 1
        return n

    def _more(self, n: int, coverage: float) -> np.ndarray:
        """Return what is added to the rank (k,) where the scale varies: part of a standard error of the number of rows.

        The scale was fitted to the same residuals, so that intervals would be too narrow by about that much.
        """
        active = np.zeros(self.residuals.shape[1]) if self.scale is None else self.scale.active
        return active * (MORE * math.sqrt(n * coverage * (1 - coverage)))

    def summaries(self, X: Array, summary: Callable[..., np.ndarray], *others: np.ndarray) -> np.ndarray:
        """Return summary(values, *others) of new rows, from their values (rows, l, k) on the scale of the targets."""
        blocks = ((rows, self.model.ends(centre + moved)) for rows, centre, moved in self.values(X))
        return np.concatenate([summary(values, *(other[rows] for other in others)) for rows, values in blocks])

    @property
    def normalised(self) -> tuple[np.ndarray, np.ndarray]:
        """r_i/s_(i)(x_i) and s_(i)(x_i) of the training rows, (l, k)."""
        own = np.ones_like(self.residuals) if self.scale is None else self.scale.own
        return self.residuals / own, own

    def loo_distribution(self) -> np.ndarray:
        """Return the distribution function of every training row at its target, without the row; see `loo_crps`."""
        z, _ = self.normalised
        below = scipy.stats.rankdata(z, axis=0) - 1.0  # without the row itself
        return (below + 0.5) / len(z)

    def loo_crps(self) -> np.ndarray:
        """Return continuous ranked probability scores of the training rows, without each row, (l, k).

        The distribution of row i has the values f_(i)(x_i) + s_i z_j, z_j = r_j/s_j, of the other rows j. With row i,
        whose value is y_i, the score is (l-1)^2/l^2 times as large: s_i times the mean of |z_j - z_i| less half that of
        |z_j - z_k|. The residuals of the other rows are those of the models without one row, not of models without two.
        """
        z, own = self.normalised
        n, ordered = len(z), np.sort(z, axis=0)
        if isinstance(self.model, ScaledLoo):  # the same on the scale of the targets
            found, actual = np.empty_like(z), self.model.actual
            centre = self.model.scaled(actual) - self.residuals
            for rows in arrays.row_blocks(n, 64 * z.size):
                found[rows] = crps(self.model.ends(centre[rows, None] + own[rows, None] * ordered), actual[rows])
        else:
            place = (scipy.stats.rankdata(z, axis=0, method="ordinal") - 1).astype(int)
            sums = np.cumsum(ordered, axis=0)
            distances = (2 * place + 2 - n) * z - 2 * np.take_along_axis(sums, place, axis=0) + sums[-1:]
            found = own * (distances / n - spread(ordered[None])[0])
        return found * (n / (n - 1)) ** 2

    def loo_half_widths(self, coverage: float) -> np.ndarray:
        """Return half-widths of the intervals of the training rows, without each row, (l, k); see `loo_crps`."""
        z, own = self.normalised
        n, size = len(z), np.abs(z)
        half = np.full(size.shape, np.inf)
        for output, more in enumerate(self._more(n - 1, coverage)):
            rank = math.ceil(round(coverage * n + more, 9))  # among the n - 1 other rows
            if rank <= n - 1:
                limit, following = np.partition(size[:, output], (rank - 1, rank))[rank - 1 : rank + 1]
                # without a row at or below the rank, the next one takes its place
                half[:, output] = own[:, output] * np.where(size[:, output] <= limit, following, limit)
        return half


def warn_of_few_rows(rows: int, needed: int, coverage: float) -> None:
    given = f"Intervals with coverage={coverage:g} are infinite with {counted(rows, 'row')}"
    arrays.warn(f"{given}: at least {needed} are needed, or a smaller coverage.")


def spread(values: np.ndarray) -> np.ndarray:
    """Return half the mean distance (rows, k) of two of the sorted values (rows, l, k)."""
    n = values.shape[1]
    return np.sum((2 * np.arange(n)[:, None] + 1 - n) * values, axis=1) / n**2


def crps(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the continuous ranked probability score (rows, k) of equally probable values (rows, l, k) at targets y.

    It is the integral of (F(t) - 1(t >= y))^2 or E|V - y| - E|V - V'|/2 (Gneiting & Raftery 2007).
    """
    return np.abs(values - y[:, None]).mean(axis=1) - spread(np.sort(values, axis=1))


Method = TypeVar("Method", bound=Callable[..., Any])


def _in_the_form_of_y(method: Method) -> Method:
    """Decorate a method that computes values (rows, ..., outputs), which are returned as predictions are."""

    @functools.wraps(method)
    def apply(self: PredictiveDistribution, *values: Any, **named: Any) -> Any:
        with arrays.single_threaded_blas(), np.errstate(all="ignore"):
            return self.shaped(method(self, *values, **named))

    return apply  # type: ignore[return-value]


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveDistribution:
    """The distribution of the target of each new row, from `LSSVR.predict_distribution`.

    It consists of one value per training row i: the prediction of the model without that row plus its leave-one-out
    residual, whose size is adapted to x where the noise varies. With l of these values, a new target lies between two
    that follow each other with a probability of about 1/(l + 1), and below or above all of them with the same. Nothing
    is known about these tails. `quantile` is therefore infinite in them, and `cdf` is 1/2/(l + 1) and 1 - 1/2/(l + 1);
    `mean`, `std`, `sample` and `crps` are those of l equally probable values.

    All results have the form of predictions: with a single output, they lack the last axis of those given here, and
    they are arrays of the kind of X. The methods compute them in blocks of rows.
    """

    found: Jackknife
    rows: Array
    shaped: Callable[[np.ndarray], Array]

    def __getattr__(self, name: str) -> Any:
        if name == "log_score":
            what = "log_score needs a density, which the distribution of an LSSVR, made of single values, does not have"
            raise AttributeError(f"{what}: use crps.")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def _targets(self, y: ArrayLike) -> np.ndarray:
        given, shape = np.asarray(arrays.to_numpy(y), dtype=float), (self.rows.shape[0], self.found.residuals.shape[1])
        values = given.reshape(len(given), -1) if given.ndim and len(given) else np.broadcast_to(given, shape)
        if values.shape != shape or np.isnan(values).any():
            what = "y contains NaN" if values.shape == shape else f"y has the shape {given.shape}"
            raise ValueError(f"{what}: give a number, or one per row and output, {shape}.")
        return values

    @_in_the_form_of_y
    def cdf(self, y: ArrayLike) -> Array:
        """Return the probability of targets up to y, (n_samples, n_outputs), strictly between 0 and 1.

        It is (1/2 + the number of smaller values)/(l + 1), where values equal to y count half.

        Parameters
        ----------
        y : number or array of one number per row and output
        """

        def smaller(values: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.sum(values < y[:, None], axis=1) + 0.5 * np.sum(values == y[:, None], axis=1)

        below = self.found.summaries(self.rows, smaller, self._targets(y))
        return (below + 0.5) / (len(self.found.residuals) + 1)

    @_in_the_form_of_y
    def quantile(self, levels: ArrayLike) -> Array:
        """Return quantiles (n_samples, n_levels, n_outputs), interpolated at the ranks level (l + 1); they never cross.

        Parameters
        ----------
        levels : sequence of float
            Between 0 and 1. Quantiles are infinite for levels below 1/(l + 1) and above l/(l + 1).
        """
        requested = np.asarray(levels, dtype=float)
        if requested.ndim != 1 or not ((requested > 0) & (requested < 1)).all():
            raise ValueError(f"levels={levels!r}: give a list of numbers between 0 and 1, such as [0.1, 0.5, 0.9].")
        n, outputs = self.found.residuals.shape
        place = np.round(requested * (n + 1), 9)
        inside = (place >= 1) & (place <= n)
        low = np.floor(place[inside]).astype(int)
        share = (place[inside] - low)[None, :, None]
        quantiles = np.empty((self.rows.shape[0], len(place), outputs))
        quantiles[:, ~inside] = np.where(place[~inside] < 1, -np.inf, np.inf)[None, :, None]
        for rows, centre, moved in self.found.values(self.rows):
            values = np.sort(centre + moved, axis=1)
            below, above = values[:, low - 1], values[:, np.minimum(low, n - 1)]
            quantiles[rows, inside] = below + share * (above - below)
        return self.found.model.ends(quantiles)

    @_in_the_form_of_y
    def interval(self, coverage: float = 0.9) -> Array:
        """Return lower and upper ends (n_samples, 2, n_outputs), those of `LSSVR.predict_interval`.

        They are symmetric in the residuals and guarantee more than two quantiles do, which follow the skewness.

        Parameters
        ----------
        coverage : float
            Between 0 and 1.
        """
        check_coverage(coverage)
        return self.found.intervals(self.rows, float(coverage))

    @_in_the_form_of_y
    def mean(self) -> Array:
        """Return the means (n_samples, n_outputs).

        They differ from `LSSVR.predict`, the better point prediction, by about the mean leave-one-out residual, and by
        more for counts and targets on another scale: there, errors of the models do not cancel in the mean.
        """
        return self.found.summaries(self.rows, lambda values: values.mean(axis=1))

    @_in_the_form_of_y
    def std(self) -> Array:
        """Return the standard deviations (n_samples, n_outputs)."""
        return self.found.summaries(self.rows, lambda values: values.std(axis=1))

    @_in_the_form_of_y
    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw n of the values of each row, (n_samples, n, n_outputs).

        The outputs of a draw come from the same training row, so that they are correlated as its residuals are. Rows
        are drawn independently.

        Parameters
        ----------
        n : int
        random_state : int, RandomState or None
        """
        size = (self.rows.shape[0], n, 1)
        drawn = check_random_state(random_state).randint(len(self.found.residuals), size=size)
        return self.found.summaries(self.rows, functools.partial(np.take_along_axis, axis=1), drawn)

    @_in_the_form_of_y
    def crps(self, y: ArrayLike) -> Array:
        """Return continuous ranked probability scores (n_samples, n_outputs), in units of y; smaller is better.

        `diagnose.scores` has their mean by leave-one-out.

        Parameters
        ----------
        y : number or array of one number per row and output
        """
        return self.found.summaries(self.rows, crps, self._targets(y))


def order_statistic(values: np.ndarray, rank: int) -> np.ndarray:
    """Return the rank-th smallest value along axis 1; infinite for ranks outside 1..n."""
    if not 1 <= rank <= values.shape[1]:
        return np.full(values[:, 0].shape, -np.inf if rank < 1 else np.inf)
    return np.partition(values, rank - 1, axis=1)[:, rank - 1]


def weighted_statistic(values: np.ndarray, weights: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the smallest value of each row such that the weights up to it sum to its rank; infinite without one."""
    values, order = np.broadcast_to(values, weights.shape), np.argsort(np.broadcast_to(values, weights.shape), axis=1)
    total = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    place = np.sum(total < ranks[:, None] - 1e-9, axis=1)
    ordered = np.pad(np.take_along_axis(values, order, axis=1), ((0, 0), (0, 1)), constant_values=np.inf)
    return ordered[np.arange(len(place)), place]


def full_conformal(model: LooModel, X: Array, coverage: float) -> np.ndarray:
    """Return the smallest intervals (rows, 2, outputs) that contain the full conformal sets of new rows.

    The set contains y if at least floor(a (l + 1)) of the rows, a = 1 - coverage, have a leave-one-out residual of at
    least the size of that of (x, y), in the model of all rows and (x, y). With t = y - f(x) these residuals are
    a_i + b_i t and t, so that row i counts where (a_i - (1 - b_i) t)(a_i + (1 + b_i) t) >= 0.
    """
    n, outputs = model.residuals.shape
    needed = math.floor(round((1 - coverage) * (n + 1), 9))
    ends = np.empty((X.shape[0], 2, outputs))
    if needed < 1:
        warn_of_few_rows(n, math.ceil(round(coverage / (1 - coverage), 9)), coverage)
        ends[:, 0], ends[:, 1] = -np.inf, np.inf
        return ends
    for rows in arrays.row_blocks(X.shape[0], 96 * n * outputs):
        centre, a, b = model.enlarged(X[rows, :])
        slope = b[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = np.stack([a / (1.0 - slope), -a / (1.0 + slope)])
        # |b_i| < 1: a row counts between its roots, one of which is negative and one positive
        upper = np.partition(roots.max(axis=0), n - needed, axis=1)[:, n - needed]
        lower = np.partition(roots.min(axis=0), needed - 1, axis=1)[:, needed - 1]
        for place in np.flatnonzero((np.abs(b) >= 1.0).any(axis=1)):
            for output in range(outputs):
                own = a[place, :, output], b[place]
                upper[place, output] = _largest(*own, needed)
                lower[place, output] = -_largest(-own[0], own[1], needed)
        ends[rows] = centre[:, None, :] + np.stack([lower, upper], axis=1)
    return ends


def _largest(a: np.ndarray, b: np.ndarray, needed: int) -> float:
    """Return the largest t >= 0 at which at least `needed` rows count; every row counts at 0.

    For t > 0, row i counts up to a root and, if |b_i| > 1, again from a second root on.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([np.where(b == 1, np.inf, a / (1.0 - b)), np.where(b == -1, np.inf, -a / (1.0 + b))])
    last, again = np.sort(np.where(roots > 0, roots, np.inf), axis=0)
    last = np.where(a == 0, np.where(np.abs(b) >= 1, np.inf, 0.0), last)
    if np.sum(np.isinf(last) | np.isfinite(again)) >= needed:
        return math.inf
    candidates = np.sort(last[np.isfinite(last)])[::-1]
    counts = np.searchsorted(np.sort(-last), -candidates, side="right")
    counts += np.searchsorted(np.sort(again), candidates, side="right")
    return float(candidates[np.argmax(counts >= needed)])


def fold_labels(folds: Any, table: Problem, name: str = "folds") -> np.ndarray:
    """Return the fold number of every row, given by labels or drawn; -1 for rows of weight 0.

    `name` is that of the argument; only "folds" may be a number.
    """
    rows, out = table.rows, np.full(table.X.shape[0], -1)
    if name == "folds" and isinstance(folds, (int, np.integer)) and not isinstance(folds, bool):
        if not 2 <= folds <= len(rows):
            raise ValueError(f"folds={folds!r}: give 2 to {len(rows)} folds, the number of rows with positive weight.")
        for number, part in enumerate(table.parts(int(folds))):
            out[part] = number
        return out
    labels = np.asarray(folds)
    if labels.shape != out.shape:
        what = "a number of folds, or " if name == "folds" else ""
        raise ValueError(f"{name}={reprlib.repr(folds)}: give {what}one label per training row ({len(out)} rows).")
    missing = [row for row in np.sort(rows) if is_missing(labels[row])]
    if missing:
        raise ValueError(f"{name} has no label in row {missing[0]} (counting from 0): give one label per training row.")
    try:
        names, out[rows] = np.unique(labels[rows], return_inverse=True)
    except TypeError as error:  # 1 and "a" have no order
        raise TypeError(f"{name} has labels of different types ({error}): convert them, e.g. to text.") from None
    if len(names) < 2:
        raise ValueError(f"{name} holds only one distinct label, so no rows remain without it: give at least two.")
    return out
