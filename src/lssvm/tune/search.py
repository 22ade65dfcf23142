"""Search for the widths of one kernel by the leave-one-out error, in stages of growing samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..kernels import Kernel
from ..problem import Problem
from ..progress import counted
from ..rules import TINY
from .choose_C import Errors, best_C, class_errors, downweight_outliers, loo_errors, output_units, search_weights
from .constants import CONSTANTS, constants, part_of, sample_of, stages_of
from .criteria import LooError
from .widths import COSINES, FUNCTIONS, Candidate, WidthSearch, changed_widths

NARROW = 2.0  # A column whose log width is smaller counts as used.
WIDE = 3.0  # The other columns start at this log width.
OTHER_KERNEL = 1.2  # The log width of a rougher kernel is larger by up to this much.
FEWEST_WIDTHS = FUNCTIONS // COSINES  # With very many columns, at least this many keep a width of their own.

error = attrgetter("value")  # Candidates are compared by this.


@dataclass(frozen=True)
class Found:
    """The result of a stage of a search."""

    requested: Problem  # It has the kernel and C as requested. The unit of targets is their standard deviation.
    criterion: LooError  # It belongs to the sample of the stage, on which outliers have lower weights.
    candidate: Candidate
    has_outliers: bool = False
    many: bool = False  # This is true if one width per column is in use.
    moderate: float = math.inf  # This is the best log common width among the narrower ones.
    gain: float | None = None  # The last of several stages lowered log PRESS by this much.

    @property
    def several(self) -> int:
        """Number of leaves of the kernel that may get one width per column."""
        free = sum(leaf.ard and leaf.sigma is None for leaf in self.requested.kernel.leaves)
        return free if len(np.unique(self.requested.inputs)) > 1 else 0

    def original(self, residuals: np.ndarray) -> np.ndarray:
        """Return leave-one-out residuals of the original targets in units of their spread, from those of z."""
        assert self.requested.target is not None
        scale, z = self.requested.target.smeared(residuals, self.criterion.weights), self.criterion.y
        return (scale.inverse(z) - scale.mean(z - residuals)) / self.unit

    @property
    def unit(self) -> np.ndarray:
        """The standard deviations of the original targets, which a scale maps to others."""
        return output_units(self.requested.targets[self.requested.rows_by_content])

    @property
    def likelihood(self) -> float:
        """The log likelihood of the original targets in their spread as unit, if errors have a Laplace distribution."""
        scale, sizes = self.requested.target, np.abs(self.criterion.residuals(self.candidate))
        found = -len(sizes) * math.log(max(np.average(sizes[:, 0], weights=self.criterion.weights), TINY))
        if scale is None:
            return found
        return found + scale.likelihood(scale.inverse(self.criterion.y)) + len(sizes) * math.log(self.unit[0])

    def searched(
        self, method: str, iterations: int | None = None, *, many: bool | None = None, best_C: bool = False
    ) -> Found:
        """Return the result of a search from the candidate. With 0 iterations, only its value is computed.

        If `best_C`, the search starts from the best C on the sample, because that of another sample may be far off.
        """
        many, start = self.many if many is None else many, self.candidate
        if best_C:
            sample, most = self.criterion.problem, constants(self.requested.effort).dense_stage
            if sample.is_dual and len(sample.rows) > most:  # The best C hardly depends on their number.
                sample = part_of(sample, most, None)
            [start] = with_errors(sample, [start.kernel], self.criterion.record)
        search = WidthSearch(self.criterion, self.requested.kernel, start, many=many)
        return replace(self, candidate=search.minimise(iterations, method), many=many)


def first_stage(
    problem: Problem, method: str, record: Bunch, earlier: Sequence[Found] = (), *, member: bool = False
) -> Found:
    """Search for the widths of the kernel on the first stage, and for C if it is None.

    The search starts from `earlier` results for other kernels where they help. A `member` of a stack gets one width per
    column even if that gains little. `record` counts evaluations, and describes the stages in words.
    """
    kernel, limits = problem.kernel, constants(problem.effort)
    problem = _in_output_units(problem)
    alike, same = _similar(kernel, [] if method == "grid" or not kernel.is_free else earlier)
    moderate = (alike or same or earlier[-1]).moderate if earlier else math.inf
    candidate = Candidate(kernel, problem.C or 1.0)
    sample = problem.subset(sample_of(problem, limits.start_rows)).with_basis()
    if alike is not None:  # The widths of smoother kernels are narrower.
        smoothness = [getattr(one, "nu", math.inf) for one in (kernel, alike.requested.kernel)]
        factors = np.exp([0.0, -OTHER_KERNEL if smoothness[0] > smoothness[1] else OTHER_KERNEL])
        sigma = arrays.to_numpy(alike.candidate.kernel.leaves[0].sigma)
        starts = [kernel.with_widths([factor * sigma]) for factor in factors]
        candidate = min(with_errors(sample, starts, record), key=error)
    elif same is not None:
        candidate = same.candidate
    elif kernel.is_free:
        candidate, moderate = common_widths(problem, sample, method, record)
    found = replace(earlier[-1], candidate=candidate) if earlier else on_stage(problem, 0, candidate, record)
    criterion = LooError(found.criterion.problem, problem.spreads.values, record)
    found = replace(found, requested=problem, criterion=criterion, many=False, moderate=moderate)
    if method == "grid" or not kernel.is_free:
        return found.searched(method, 0, best_C=not kernel.is_free)
    several, rows = found.several, len(criterion.problem.rows)
    few = rows < limits.width_rows * several * problem.spreads.varying_inputs
    if alike is not None:
        found = found.searched(method, limits.few_iterations, many=several > 0)
    else:
        if same is None:  # Otherwise, C is already the best of these rows.
            found = found.searched(method, best_C=rows > limits.start_rows)
        if several:
            found = _widths_per_column(found, method, limits.few_iterations if few else None, member=member)
    if found.many:
        every = np.ones(len(np.unique(problem.inputs)), dtype=bool)  # With few rows, hardly any stands out.
        relevant = every if few else criterion.relevant(criterion.y)
        fewer = WidthSearch(criterion, kernel, found.candidate, many=True).fewer_columns(relevant)
        if fewer is not found.candidate:  # A better model may show more outliers.
            other = on_stage(problem, 0, fewer, record, has_outliers=found.has_outliers)
            found = replace(other, many=True, moderate=moderate).searched(method, limits.few_iterations)
    _describe(found, method)
    return found


def last_stage(found: Found) -> Found:
    """Return the result on the sample of the last stage, with its best C, if there is more than one stage."""
    problem = found.requested
    stages = stages_of(problem)
    if len(stages) == 1 and problem.robust is None:
        return found
    last = on_stage(problem, -1, found.candidate, found.criterion.record, has_outliers=found.has_outliers)
    last = replace(last, moderate=found.moderate).searched("", 0, many=found.many, best_C=True)
    return replace(
        last, gain=found.candidate.value / found.criterion.scale - last.candidate.value / last.criterion.scale
    )


def finished(last: Found, method: str, *, by_log_loss: bool) -> Candidate:
    """Return the candidate with all widths and C, from the result of the last stage.

    If `by_log_loss`, a common factor of the widths of each leaf and C finally minimise the log loss of the classes. A
    very wide common width is then compared with the moderate one: the leave-one-out error has several minima, and on
    few rows the very wide one often looks as good as any other.
    """
    requested, record, few = last.requested, last.criterion.record, constants(last.requested.effort).few_iterations
    if last.gain is not None:
        record.gain = last.gain
        if method != "grid" and (last.gain > CONSTANTS.limited or requested.robust is not None):
            last = last.searched(method, few)
            _describe(last, method)
    candidate = last.candidate
    if not by_log_loss:
        return candidate
    trial = on_stage(requested, -1, candidate, record, has_outliers=last.has_outliers).criterion.problem
    criterion = LooError(trial, last.criterion.unit, record, by_log_loss=True)
    kernels = [candidate.kernel]
    widest = WidthSearch(criterion, requested.kernel, candidate).widest
    if not last.many and last.moderate - widest < -0.5:
        factor = math.exp(last.moderate - widest)
        kernels.append(changed_widths(candidate, requested.kernel, lambda _, sigma: factor * sigma).kernel)
    best = min(with_errors(trial, kernels, record, class_errors), key=error)
    if method != "grid":
        best = WidthSearch(criterion, requested.kernel, best).minimise(few, method)
    record.plan.append("common factor of the widths and C by the log loss of the classes")
    return best


def _in_output_units(problem: Problem) -> Problem:
    """Return the problem with targets of mean 0 and standard deviation 1, so that all searches have the same units."""
    if problem.classification:
        return problem
    y = arrays.to_numpy(problem.y)
    known = y[problem.rows_by_content]
    return problem.replace(y=arrays.like((y - known.mean(axis=0)) / output_units(known), problem.y))


def completed(requested: Problem, known: Problem) -> Found:
    """Return a result for widths and C that a step has chosen, from which searches for other kernels can start."""
    assert known.C is not None
    found = on_stage(_in_output_units(requested), 0, Candidate(known.kernel, known.C), Bunch(evaluations=0, plan=[]))
    return found.searched("", 0, many=found.several > 0)


# Samples and starting points ------------------------------------------------------------------------------------------
def on_stage(problem: Problem, stage: int, at: Candidate, record: Bunch, *, has_outliers: bool = False) -> Found:
    """Return the candidate on the sample of a stage, with its robust weights or with lower weights of its outliers.

    C is chosen again if there are outliers, unless `has_outliers`: then C was chosen with lower weights of outliers.
    """
    part = part_of(problem, *stages_of(problem)[stage])
    current = part.replace(kernel=at.kernel, C=at.C)
    if part.robust is not None:
        part = part.replace(weights=search_weights(current), robust=None)
    else:
        rounds = {"iterations": 1} if has_outliers else {}
        known = downweight_outliers(current, fixed_C=has_outliers or part.C is not None, **rounds)
        has_outliers |= known.weights is not current.weights
        part, at = part.replace(weights=known.weights), replace(at, C=known.C or at.C)
    return Found(problem, LooError(part, problem.spreads.values, record), at, has_outliers)


def with_errors(
    sample: Problem, kernels: Sequence[Kernel], record: Bunch, errors: Errors = loo_errors
) -> list[Candidate]:
    """Return a candidate for each kernel, with its best C and the error for this C."""
    record.evaluations += len(kernels)
    best = [(kernel, *best_C(sample.replace(kernel=kernel), errors)[:2]) for kernel in kernels]
    return [Candidate(kernel, C, value=error) for kernel, C, error in best]


def _similar(kernel: Kernel, earlier: Sequence[Found]) -> tuple[Found | None, Found | None]:
    """Return two results for other kernels from which a search can start, or None where there is none.

    The first has as many widths, and both kernels are single ones without a given width. The second has a common width,
    and its kernel differs at most in ``ard``.
    """
    alike = same = None
    for other in earlier:  # Later results replace earlier ones.
        pair = kernel, other.requested.kernel
        plain = [repr(one.rebuilt(lambda part: {"ard": False} if part.ard else {})) for one in pair]
        if plain[0] == plain[1] and not other.many:
            same = other
        if all(one.is_free and len(one.leaves) == 1 and not one.parts for one in pair):
            may_have_many = kernel.leaves[0].ard and len(np.unique(other.requested.inputs)) > 1
            alike = other if other.many == may_have_many else alike
    return alike, same


def common_widths(problem: Problem, sample: Problem, method: str, record: Bunch) -> tuple[Candidate, float]:
    """Return the candidate with the best common width of a grid, and the best log width of its narrower half.

    Constant columns get infinite widths, since nothing is known about their effect on new rows. Identical leaves start
    from different widths: with equal widths they would have the same gradient, and stay equal.
    """
    kernel, inputs = problem.kernel, problem.spreads.varying_inputs
    leaves = [repr(leaf) if leaf.sigma is None else "" for leaf in kernel.leaves]
    factors = [4.0 ** (leaves[:i].count(leaf) - (leaves.count(leaf) - 1) / 2.0) for i, leaf in enumerate(leaves)]
    spread = np.where(problem.spreads.constant, math.inf, problem.spreads.values)
    unit = Candidate(kernel.with_width(math.sqrt(inputs), spread), 1.0)
    widths = list(np.geomspace(*constants(problem.effort).widths))
    count, step = len(widths), widths[1] / widths[0]
    record.plan.append(f"grid of {count} common widths on {len(sample.rows)} rows")
    found: list[Candidate] = []
    for _ in range(5 if method == "grid" else 1):
        changes = [lambda leaf, sigma, width=width: width * factors[leaf] * sigma for width in widths[len(found) :]]
        found += with_errors(sample, [changed_widths(unit, kernel, change).kernel for change in changes], record)
        best = int(np.argmin(list(map(error, found))))
        step = math.sqrt(step)
        widths += [widths[best] / step, widths[best] * step]  # These lie between the widths of the grid.
    narrow = widths[int(np.argmin(list(map(error, found[: count // 2 + 1]))))]
    return found[best], math.log(narrow) + 0.5 * math.log(inputs)


# One width per column -------------------------------------------------------------------------------------------------
def _widths_per_column(common: Found, method: str, iterations: int | None, *, member: bool) -> Found:
    """Return the best result with one width per column, or that with a common width if it is hardly worse.

    There are three starting points. The first has the common width. In the second, the columns on which the targets
    depend have narrow widths; it is used if the residuals of the first result depend on a column with a wide one. In
    the third, the columns on which the residuals depend have narrow widths. A `member` of a stack keeps one width per
    column even if that gains little.
    """
    problem, criterion, kernel = common.requested, common.criterion, common.requested.kernel
    constant, inputs = problem.spreads.constant, problem.inputs
    # A very wide common width with a large C amounts to a polynomial. If most columns are irrelevant, this is the best
    # that a common width can do. The search would rarely leave it, so widths per column start from a moderate one.
    factor = math.exp(min(common.moderate - WidthSearch(criterion, kernel, common.candidate).widest, 0.0))

    narrower = lambda _, sigma: factor * sigma  # noqa: E731
    start = replace(common, candidate=changed_widths(common.candidate, kernel, narrower, many=True))
    if factor != 1.0:
        start = replace(start, candidate=with_errors(criterion.problem, [start.candidate.kernel], criterion.record)[0])
    most = max(FEWEST_WIDTHS, len(criterion.problem.rows))
    if problem.spreads.varying_inputs > max(FUNCTIONS, most):  # Only the widths that fall fastest are needed.
        several = [leaf.ard and leaf.sigma is None for leaf in kernel.leaves]
        slopes = np.sum(criterion.gradient(start.candidate)[1][several], axis=0)
        slopes = np.bincount(inputs, np.where(constant, -math.inf, slopes))
        lost = np.argsort(-slopes, kind="stable")[most:]
        start = replace(start, candidate=WidthSearch(criterion, kernel, start.candidate).without(lost).start)
    best = start.searched(method, iterations, many=True)
    for first in (True, False):
        logs = WidthSearch(criterion, kernel, best.candidate).widths
        loo = criterion.residuals(best.candidate)
        # The sizes of the residuals show effects of three columns together.
        relevant = criterion.relevant(loo if first else np.hstack([loo, np.abs(loo)]))
        if first and (relevant & (logs > NARROW)).any():
            relevant = criterion.relevant(criterion.y)
        narrow = relevant | (logs <= NARROW)
        if narrow.all() or not (relevant & (logs > NARROW)).any():
            continue
        at = np.where(narrow, 0.5 * math.log(narrow.sum()) - 1.0, np.where(np.isfinite(logs), WIDE, math.inf))
        starts = [np.exp(at + shift)[inputs] * problem.spreads.values for shift in (0.0, OTHER_KERNEL)]
        kernels = [changed_widths(best.candidate, kernel, lambda *_, own=own: own, many=True).kernel for own in starts]
        other = replace(best, candidate=min(with_errors(criterion.problem, kernels, criterion.record), key=error))
        other = other.searched(method, iterations)
        best = other if other.candidate.value < best.candidate.value else best
    least = CONSTANTS.worth * common.several * (problem.spreads.varying_inputs - 1)
    worth = member or criterion.value(common.candidate) - criterion.value(best.candidate) >= least
    if problem.classification:
        errors = [criterion.errors(one.candidate) for one in (common, best)]
        worth &= errors[0] - errors[1] >= max(1.0, 2.0 * math.sqrt(errors[0]))
    if worth:
        return best
    criterion.record.plan.append(
        "one common width, in units of each column's spread: one per column gains too little on "
        f"{len(criterion.problem.rows)} rows"
    )
    return common


def _describe(found: Found, method: str) -> None:
    """Add the number of widths, the method and the sample of a search to the plan."""
    trial, leaves = found.criterion.problem, found.requested.kernel.leaves
    method = method.replace("auto", "gradient")
    kind = "rows" if trial.is_dual else f"rows and {counted(trial.basis_size, 'basis point')}"
    free, inputs = [leaf for leaf in leaves if leaf.sigma is None], len(np.unique(trial.inputs))
    widths = sum(inputs if leaf.ard and found.many else 1 for leaf in free)
    found.criterion.record.plan.append(f"{counted(widths, 'width')} by {method} on {len(trial.rows)} {kind}")
