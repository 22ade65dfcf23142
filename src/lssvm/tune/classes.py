"""The choice of a classifier: widths, C, loss and coding by the log loss of leave-one-out values.

All models are dense, on a sample of rows. One width per column is searched on each half of the sample and judged on the
other half: the leave-one-out error of the rows by which many widths were chosen is too optimistic. The same holds for
columns that are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sklearn.utils import Bunch

from .. import arrays, progress
from .._words import counted
from ..coding import pair_work
from ..kernels import Kernel
from ..problem import Problem, column_spread, columns_by_input, constant_columns, ranks_of
from .choose_C import mean_weight
from .constants import CONSTANTS
from .loo_log_loss import LooLogLoss, SearchSample, with_nearby_C
from .samples import CLASS_SAMPLE, in_memory, part_of, with_every_class
from .widths import Candidate, WidthSearch, changed_widths, log_widths

FEWEST = 4  # Each class needs this many rows, two in each half: a single row says nothing about its class.
LARGER_C = {"squared": 1.0, "squared_hinge": 2.7, "logistic": 12.0}  # The usual ratios of C to that of squares.
PART = 1.0 / 3.0  # C is chosen again on this part of the rows and of the basis.
COMMON_ITERATIONS = 12  # A search for a common factor of the widths takes at most this many iterations.
MANY_ITERATIONS = 20  # A search for one width per column takes at most this many iterations.


def choose_classifier(
    problem: Problem, codings: tuple[str, ...], losses: tuple[str, ...]
) -> tuple[Candidate, Bunch | None]:
    """The classifier with the smallest log loss of leave-one-out values, and a record of the comparison.

    A common width is searched for each kernel on both halves of a sample; then one width per column, or fewer columns,
    if they lower the log loss of the other half; then C on the whole sample, for each kernel, and for each coding and
    loss with the best kernel.
    """
    if problem.is_known:
        return Candidate(problem.kernel, float(problem.C or 1.0), codings[0], losses[0]), None
    unit = mean_weight(problem)  # C times the weights is all that a fit depends on, but the priors of C need a unit
    scaled = problem.replace(weights=problem.weights / unit, C=None if problem.C is None else problem.C * unit)
    sample = _sample(scaled)
    with progress.expect(lambda: (10.0 if problem.kernel.is_free else 2.0) * sample.work()):
        candidate, record = _chosen(scaled, sample, codings, losses)
    for one in (record, *record.candidates):
        one.C = problem.C or one.C / unit
    return replace(candidate, C=record.C), record


def _chosen(
    problem: Problem, sample: SearchSample, codings: tuple[str, ...], losses: tuple[str, ...]
) -> tuple[Candidate, Bunch]:
    kernels = list(problem.kernel.parts) if problem.kernel.is_choice else [problem.kernel]
    codings = ("one-vs-one",) if sample.n_classes == 2 else codings
    leading = "squared" if "squared" in losses else losses[0]
    halves, whole = _halves(sample), LooLogLoss(sample)
    record = Bunch(evaluations=0, plan=[], candidates=[])
    record.plan.append(f"{counted(len(kernels), 'kernel')} with common widths on {len(sample.codes)} rows")
    common: list[list[Candidate]] = []  # by kernel and half
    for kernel in kernels:  # the others start from the first
        start = Candidate(kernel, problem.C or 10.0, codings[0], leading)
        common.append(_common_widths(kernel, start, halves, common[0] if common else []))
    best = int(np.argmin([sum(half.value for half in own) for own in common]))
    found = [mean_of(own) for own in common]
    several = [[leaf.ard and leaf.sigma is None for leaf in kernel.leaves] for kernel in kernels]
    if any(several[best]) and len(np.unique(problem.inputs[np.isfinite(sample.unit)])) > 1:
        many = ColumnSearch(sample, halves, kernels[best], common[best]).run()
        if many is not None:
            before, after = (log_widths(one.kernel, problem.X.shape[1]) for one in (found[best], many))
            moves = np.subtract(after, before, out=np.zeros_like(after), where=np.isfinite(before))
            factor = many.C / found[best].C
            for number, kernel in enumerate(kernels):
                if several[number] == several[best]:
                    moved = changed_widths(found[number], kernel, lambda leaf, sigma: sigma * np.exp(moves[leaf]))
                    found[number] = replace(moved, C=factor * moved.C)
            record.plan.append("one width per column")
        else:
            record.plan.append("one common width, in units of each column's spread: one per column gains too little")
    first = with_nearby_C(whole, found[best])
    growth = first.C / found[best].C  # the best C of all rows over that of a half, for all that is compared
    compared = [first]
    for number, candidate in enumerate(found):
        if number != best:
            compared.append(with_nearby_C(whole, replace(candidate, C=growth * candidate.C)))
    judged = [(whole.losses(candidate), candidate) for candidate in compared]
    first = min(judged, key=lambda one: one[0].mean())[1]
    others = [(codings[0], loss) for loss in losses if loss != leading]
    others += [(coding, leading) for coding in codings[1:]]
    for coding, loss in others:
        start = replace(first, C=first.C / growth * LARGER_C[loss] / LARGER_C[leading], coding=coding, loss=loss)
        candidate = with_nearby_C(halves[0], start, step=1.5)
        candidate = replace(candidate, C=problem.C or candidate.C * growth)
        judged.append((whole.losses(candidate), candidate))
    for row_losses, one in judged:
        loo = float(row_losses.mean())
        record.candidates.append(Bunch(kernel=one.kernel, C=one.C, coding=one.coding, loss=one.loss, loo=loo))
    chosen = simplest(judged, codings[0])
    if chosen.loss != leading:
        chosen = with_nearby_C(whole, chosen)
    record.evaluations = sample.evaluations + sum(half.sample.evaluations for half in halves)
    record.plan.append(f"{len(judged)} classifiers compared by their log loss")
    free = [leaf.sigma is None for leaf in kernels[best].leaves]
    record.update(C=chosen.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in chosen.kernel.leaves], free=free)
    return chosen, record


def with_C_of_more_rows(problem: Problem, candidate: Candidate, record: Bunch) -> Problem:
    """The problem of two classes with a basis, with C chosen on more rows than the search used.

    After a search of many widths, the leave-one-out losses of its sample are too small, and its C may be too large. A
    third of the rows and a third of the basis have as many rows per basis point as the whole. If rows are repeated, C
    does not rise: copies are more frequent in a larger sample, and the larger C, the smaller their leave-one-out loss.
    Log loss relative to the C of the search, for six tables and Friedman's function with 5000 to 18,000 rows: 0.994 in
    1.02 of the time, and 0.46 on a table without noise.
    """
    rows, basis = (round(PART * size) for size in (len(problem.rows), problem.basis_size))
    if problem.is_dual or problem.y.shape[1] > 1 or rows <= _sample_size(problem):
        return problem
    unit = mean_weight(problem)
    part = _as_numpy(in_memory(part_of(problem.replace(weights=problem.weights / unit, C=None), rows, basis)))
    sample = SearchSample(part, np.ones(part.X.shape[1]))
    with progress.expect(lambda: 8.0 * sample.work()):
        C = with_nearby_C(LooLogLoss(sample), replace(candidate, C=candidate.C * unit), step=1.5, moves=4).C / unit
    ranks = ranks_of(part.X)
    if C > candidate.C and len(np.unique(ranks, axis=0)) < len(ranks):
        C = candidate.C
    record.C = C
    record.evaluations += sample.evaluations
    record.plan.append(f"C on {len(part.X)} rows with {counted(part.basis_size, 'basis point')}")
    return problem.replace(C=C)


class ColumnSearch:
    """The search for one width per column, or fewer columns, from a common width.

    A change is made on each half of a sample and judged by the log loss of the other half, where only a common factor
    of the widths and C are chosen again. It is kept if it gains more than `class_worth` standard errors; then it is
    made on the whole sample, or the widths of both halves are averaged. (Up to three rows are not halved.)
    """

    def __init__(
        self, sample: SearchSample, halves: list[LooLogLoss], requested: Kernel, common: list[Candidate]
    ) -> None:
        self.sample, self.halves, self.requested, self.common = sample, halves, requested, common
        self.losses = [half.losses(own) for half, own in zip(halves, common, strict=True)]  # the least so far

    def run(self) -> Candidate | None:
        """The best candidate with one width per column or with fewer columns; None if the common width is kept."""
        chosen = None
        narrow = [self._not_wider(candidate) for candidate in self.common]
        found: dict[int, Candidate] = {}

        def many_widths(own: int) -> Candidate:
            found[own] = self._widths_per_column(own, narrow[own])
            return found[own]

        kept = self._judged(many_widths)
        if kept:
            chosen = mean_of(kept)
            if self._judged(lambda own: self._fewer_columns(self.halves[own], found[own])):
                whole = LooLogLoss(self.sample)
                fewer = self._fewer_columns(whole, with_nearby_C(whole, chosen))
                chosen = mean_of([self._common_factor(half, fewer) for half in self.halves])
        of_all, *relevant = [_relevant(sample) for sample in (self.sample, *(half.sample for half in self.halves))]
        varying = np.unique(self.sample.problem.inputs[np.isfinite(self.sample.unit)])
        if all(0 < own.sum() < len(varying) for own in (of_all, *relevant)) and self._judged(
            lambda own: self._with_columns(narrow[1 - own], relevant[own], len(varying))
        ):
            starts = [self._with_columns(one, of_all, len(varying)) for one in narrow]
            starts = [self._common_factor(half, start) for half, start in zip(self.halves, starts, strict=True)]
            self.losses = [half.losses(start) for half, start in zip(self.halves, starts, strict=True)]
            chosen = mean_of(self._judged(lambda own: self._widths_per_column(own, starts[own])) or starts)
        return chosen

    def _judged(self, change: Callable[[int], Candidate]) -> list[Candidate] | None:
        """The candidates that a change of each half leads to on the other half, or None if they do not gain enough.

        The second half is not changed if the first change loses. The losses of a change that is kept are those to beat.
        """
        found: list[Candidate] = []
        gains: list[np.ndarray] = []
        for own, other in ((0, 1), (1, 0)):
            found.append(self._common_factor(self.halves[other], change(own)))
            gains.append(self.losses[other] - self.halves[other].losses(found[-1]))
            if gains[0].sum() <= 0.0:
                return None
        gain = np.concatenate(gains)
        if gain.mean() <= CONSTANTS.class_worth * gain.std() / math.sqrt(len(gain)):
            return None
        self.losses = [self.losses[0] - gains[1], self.losses[1] - gains[0]]
        return found[::-1]

    def _widths_per_column(self, number: int, start: Candidate) -> Candidate:
        """One width per column of a half."""
        return WidthSearch(self.halves[number], self.requested, start, many=True).minimise(MANY_ITERATIONS)

    def _common_factor(self, half: LooLogLoss, start: Candidate) -> Candidate:
        """The candidate with the best common factor of its widths and the best C."""
        return WidthSearch(half, self.requested, start).minimise(COMMON_ITERATIONS)

    def _fewer_columns(self, criterion: LooLogLoss, start: Candidate) -> Candidate:
        """The candidate without the columns that hardly lower the log loss of a sample."""
        return WidthSearch(criterion, self.requested, start).fewer_columns(_relevant(criterion.sample))

    def _not_wider(self, candidate: Candidate) -> Candidate:
        """The candidate with a moderate common width if its own is wider.

        If few columns matter, the best common width is often so wide that the classifier is nearly linear, and the
        search for one width per column stays there.
        """
        varying = np.unique(self.sample.problem.inputs[np.isfinite(self.sample.unit)])
        units = [math.sqrt(len(varying)) * leaf.width_unit(self.sample.unit) for leaf in self.requested.leaves]
        return changed_widths(candidate, self.requested, lambda leaf, sigma: np.minimum(sigma, units[leaf]))

    def _with_columns(self, candidate: Candidate, kept: np.ndarray, count: int) -> Candidate:
        """The candidate with infinite widths of some of `count` inputs, the others narrower, for equal distances."""
        columns, factor = kept[self.sample.problem.inputs], math.sqrt(kept.sum() / count)
        change = lambda _, sigma: np.where(columns, factor * sigma, math.inf)  # noqa: E731
        return changed_widths(candidate, self.requested, change, many=True)


def _relevant(sample: SearchSample) -> np.ndarray:
    """Which inputs have a column that the classes depend on."""
    return sample.screening.relevant(np.eye(sample.n_classes)[sample.codes])


def mean_of(candidates: list[Candidate]) -> Candidate:
    """The geometric means of C and of the widths of candidates that differ in nothing else."""
    sigmas = []
    for leaves in zip(*(candidate.kernel.leaves for candidate in candidates), strict=True):
        widths = [arrays.to_numpy(leaf.sigma) for leaf in leaves]
        equal = all(np.array_equal(width, widths[0]) for width in widths)
        sigmas.append(leaves[0].sigma if equal else np.exp(np.mean(np.log(widths), axis=0)))
    C = math.exp(float(np.mean([math.log(candidate.C) for candidate in candidates])))
    return replace(candidates[0], kernel=candidates[0].kernel.with_widths(sigmas), C=C)


def _halves(sample: SearchSample) -> list[LooLogLoss]:
    """Alternate rows or, if most classes have too few rows for that, the rows of alternate classes."""
    few = sample.n_classes > 3 and np.median(np.bincount(sample.codes)) < FEWEST
    numbers = sample.codes if few else np.arange(len(sample.codes))
    if len(numbers) <= 3:
        return [LooLogLoss(sample)] * 2
    return [LooLogLoss(sample.part(np.flatnonzero(numbers % 2 == start))) for start in (0, 1)]


def _common_widths(
    requested: Kernel, start: Candidate, halves: list[LooLogLoss], others: list[Candidate]
) -> list[Candidate]:
    """One width per leaf, for each half.

    `others` are those of another kernel, from which the search starts; else the second half starts from the first.
    """
    criterion = halves[0]
    inputs = np.unique(criterion.problem.inputs[np.isfinite(criterion.unit)])
    kernel = requested.with_width(math.sqrt(max(1, len(inputs))), criterion.unit) if requested.is_free else requested
    kernel.check(len(criterion.problem.inputs))
    alike = bool(others) and len(others[0].kernel.leaves) == len(kernel.leaves)
    found: list[Candidate] = []
    start = replace(start, kernel=kernel)
    for number, half in enumerate(halves):
        if alike:
            start = _with_widths_of(others[number], replace(start, C=others[number].C), requested)
        found.append(WidthSearch(half, requested, start).minimise(COMMON_ITERATIONS))
        start = found[-1]
    return found


def _with_widths_of(other: Candidate, candidate: Candidate, requested: Kernel) -> Candidate:
    return changed_widths(candidate, requested, lambda leaf, _: arrays.to_numpy(other.kernel.leaves[leaf].sigma))


def _sample(problem: Problem) -> SearchSample:
    """The sample of a search, sorted by class, as NumPy arrays."""
    known = _as_numpy(problem)
    order = known.rows_by_content  # within a class, too: files may be sorted
    chosen = order[np.isin(order, with_every_class(known, order, _sample_size(known)))]
    chosen = chosen[np.argsort(known.labels[chosen], kind="stable")]
    return SearchSample(known.with_basis().subset(chosen), column_units(known))


def _sample_size(problem: Problem) -> int:
    """The number of rows of that sample, before rows of rare classes are added."""
    counts = np.bincount(problem.labels[problem.rows]).astype(float)
    share = CONSTANTS.class_rows / (pair_work(counts) or 1.0) ** (1 / 3)
    return int(np.clip(counts.sum() * share, *CLASS_SAMPLE))


def _as_numpy(problem: Problem) -> Problem:
    changes = {name: arrays.to_numpy(getattr(problem, name)) for name in ("X", "y", "weights")}
    return problem.replace(**changes, points=None if problem.points is None else arrays.to_numpy(problem.points))


def column_units(problem: Problem) -> np.ndarray:
    """The spread of each column; the difference of the values of a binary column; infinite for constant columns.

    The standard deviation of a binary column with a rare value is small, and would give that value too much influence.
    The unit of a category is that of its columns: two of its values have the squared distance 2, as have two values of
    a number on average. The errors of seven raw tables were 0.6 % larger with sqrt(2) times this unit, and 4 % with
    1/sqrt(2) of it.
    """
    X = problem.X[problem.rows]
    low, high = X.min(axis=0), X.max(axis=0)
    two = np.array([len(np.unique(ranks)) == 2 for ranks in ranks_of(X).T])
    with np.errstate(over="ignore"):
        distance = high - low
        if problem.groups is not None:
            members = columns_by_input(problem.groups)
            two = np.array([two[own].all() for own in members])[problem.groups]
            distance = np.array([distance[own].max() for own in members])[problem.groups]
        unit = np.where(two, distance, column_spread(problem))
    unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)
    return np.where(constant_columns(problem), math.inf, unit)  # their widths are infinite from the start


def simplest(compared: list[tuple[np.ndarray, Candidate]], coding: str) -> Candidate:
    """The candidate with the smallest log loss, or with the squared loss if it is worse by at most one standard error.

    Among those with the squared loss, one with the given coding is preferred in the same way: with a basis, all rows
    are fitted by it, and pairs of classes need fewer points than all classes together.
    """
    order = sorted(compared, key=lambda one: one[0].mean())
    losses, best = order[0]
    for wanted in (coding, best.coding):
        for others, candidate in order:
            gap = others - losses
            close = gap.mean() <= gap.std() / math.sqrt(len(gap))
            if close and (candidate.loss, candidate.coding) == ("squared", wanted):
                return candidate
    return best
