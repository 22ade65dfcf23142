"""The search for the widths of one kernel by the leave-one-out error, in stages of growing samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from sklearn.utils import Bunch

from .. import arrays
from .._words import counted
from ..kernels import Kernel
from ..problem import Problem, column_spread, constant_columns, varying_inputs
from .choose_C import best_C, downweight_outliers, search_weights
from .constants import CONSTANTS
from .loo_error import LooError
from .samples import part_of, sample_of, stages_of
from .scores import class_errors, output_units
from .screening import FUNCTIONS, Screening
from .stack_weights import Stage
from .widths import Candidate, WidthSearch, changed_widths, log_widths

NARROW = 2.0  # A column whose log width is smaller counts as used.
WIDE = 3.0  # The other columns start at this log width.
OTHER_KERNEL = 1.2  # The log width of a rougher kernel is larger by up to this much.
FEWEST_WIDTHS = 100  # With very many columns, at least this many keep a width of their own.


@dataclass(frozen=True)
class Found:
    """The result of the first stage of a search."""

    search: KernelSearch
    trial: Problem  # the sample of the first stage; outliers have lower weights
    candidate: Candidate
    screening: Screening
    many: bool = False  # one width per column is in use
    moderate: float = math.inf  # the best log common width among the narrower ones
    has_outliers: bool = False
    is_completed: bool = False  # a step has chosen the widths and C

    @property
    def log_press(self) -> float:
        """The logarithm of PRESS, relative to the scatter of the targets."""
        return 2.0 * self.candidate.value / len(self.trial.rows)

    def stage(self) -> Stage:
        """What the weight of a member of a stack depends on."""
        criterion = self.search.criterion(self.trial)
        finite = np.isfinite(log_widths(self.candidate.kernel, len(self.trial.inputs))[:, self.search.leading])
        return Stage(criterion.residuals(self.candidate), criterion.targets()[1], int(finite.sum()) * self.many)


class KernelSearch:
    """The search for the widths of one kernel, and for C if it is None.

    Parameters
    ----------
    problem : Problem
        With the kernel and C as requested.
    method, loss : str
        Those of `LeaveOneOut`.
    record : Bunch
        Counts evaluations, and describes the stages in words.
    member : bool
        Whether the kernel is that of a member of a stack: it gets one width per column even if that gains little.
    """

    def __init__(self, problem: Problem, method: str, record: Bunch, *, member: bool = False) -> None:
        self.original = self.problem = problem
        if not problem.classification:
            y, known = arrays.to_numpy(problem.y), arrays.to_numpy(problem.y)[problem.rows]
            self.problem = problem.replace(y=arrays.like((y - known.mean(axis=0)) / output_units(known), problem.y))
        self.kernel, self.record, self.member = problem.kernel, record, member
        self.method = "gradient" if method == "auto" else method
        self.unit = column_spread(problem)
        self.leading = np.unique(problem.inputs, return_index=True)[1]  # the first column of every input
        self.constant = constant_columns(problem)
        self.several = [leaf.ard and leaf.sigma is None and len(self.leading) > 1 for leaf in self.kernel.leaves]

    def criterion(self, trial: Problem, *, by_log_loss: bool = False) -> LooError:
        return LooError(trial, self.unit, self.record, by_log_loss=by_log_loss)

    # The first stage -------------------------------------------------------------------------------------------------
    def run(self, earlier: Sequence[Found] = ()) -> Found:
        """Search on the first stage, starting from the results for other kernels where they help."""
        alike = next((other for other in reversed(earlier) if self._is_like(other)), None)
        same = next((other for other in reversed(earlier) if not other.many and self._is_same(other)), None)
        moderate = math.inf if not earlier else (alike or same or earlier[-1]).moderate
        candidate = Candidate(self.kernel, self.problem.C or 1.0)
        if alike is not None and self.method != "grid":
            candidate = self._start_from(alike)
        elif same is not None and self.method != "grid":
            candidate = same.candidate
        elif self.kernel.is_free:
            candidate, moderate = self._common_widths()
        if earlier:
            found = replace(earlier[-1], search=self, many=False, moderate=moderate, is_completed=False)
        else:
            part = part_of(self.problem, *stages_of(self.problem)[0])
            trial, candidate, has_outliers = self._weighted(part, candidate, False)
            found = Found(self, trial, candidate, Screening(trial), False, moderate, has_outliers)
        if self.method == "grid":
            return replace(found, candidate=candidate)
        trial, criterion = found.trial, self.criterion(found.trial)
        few = len(trial.rows) < CONSTANTS.width_rows * sum(self.several) * varying_inputs(self.problem)
        many = alike is not None and any(self.several)
        if not self.kernel.is_free:
            candidate = self._with_best_C(trial, candidate)
            value = WidthSearch(criterion, self.kernel, candidate).value()
            return replace(found, candidate=replace(candidate, value=value))
        if alike is not None:
            candidate = self._improved(criterion, candidate, CONSTANTS.few_iterations, many=many)
        else:
            if same is None:
                sampled = len(trial.rows) > CONSTANTS.start_rows  # else C is already the best of these rows
                candidate = self._with_best_C(trial, candidate) if sampled else candidate
                candidate = self._improved(criterion, candidate)
            if any(self.several):
                per_column = self._widths_per_column(found, criterion, candidate, few)
                many = self._is_worthwhile(criterion, candidate, per_column)
                candidate = per_column if many else candidate
        if many:
            relevant = np.ones(len(self.leading), dtype=bool)  # with few rows, hardly any column stands out
            relevant = relevant if few else found.screening.relevant(criterion.targets()[0])
            fewer = WidthSearch(criterion, self.kernel, candidate, many=True).fewer_columns(relevant)
            if fewer is not candidate:  # a better model may show outliers that the start could not tell
                part = part_of(self.problem, *stages_of(self.problem)[0])
                trial, candidate, has_outliers = self._weighted(part, fewer, found.has_outliers)
                found = replace(found, trial=trial, has_outliers=has_outliers)
                candidate = self._improved(self.criterion(trial), candidate, CONSTANTS.few_iterations, many=True)
        self._describe(trial, many)
        return replace(found, candidate=candidate, many=many)

    def completed(self, known: Problem) -> Found:
        """The result for a problem whose widths and C a step has chosen, as a starting point for other kernels."""
        assert known.C is not None
        part = part_of(self.problem, *stages_of(self.problem)[0])
        candidate = Candidate(known.kernel, known.C)
        trial, candidate, has_outliers = self._weighted(part, candidate, False)
        candidate = replace(candidate, value=WidthSearch(self.criterion(trial), self.kernel, candidate).value())
        many = any(self.several)
        return Found(self, trial, candidate, Screening(trial), many, math.inf, has_outliers, is_completed=True)

    def _is_like(self, other: Found) -> bool:
        """Whether its widths are a starting point: those of a single kernel with as many widths."""
        single = not (self.kernel.parts or other.search.kernel.parts) and len(self.kernel.leaves) == 1
        free = [leaf.sigma is None for leaf in self.kernel.leaves]
        alike = free == [leaf.sigma is None for leaf in other.search.kernel.leaves]
        return single and alike and other.many == any(self.several)

    def _is_same(self, other: Found) -> bool:
        """Whether its kernel is the same but for ``ard``."""
        plain = (
            kernel.rebuilt(lambda part: {"ard": False} if part.ard else {})
            for kernel in (self.kernel, other.search.kernel)
        )
        return len(set(map(repr, plain))) == 1

    def _improved(
        self, criterion: LooError, start: Candidate, iterations: int | None = None, *, many: bool = False
    ) -> Candidate:
        return WidthSearch(criterion, self.kernel, start, many=many).minimise(iterations, self.method)

    def _with_best_C(self, trial: Problem, candidate: Candidate) -> Candidate:
        """The best C of another sample may be far off."""
        return replace(candidate, C=best_C(trial.replace(kernel=candidate.kernel))[0])

    def _weighted(self, part: Problem, at: Candidate, has_outliers: bool) -> tuple[Problem, Candidate, bool]:
        """A sample with the robust weights of a candidate, or lower weights of outliers; then C may change."""
        current = part.replace(kernel=at.kernel, C=at.C)
        if current.kernel.is_free:
            return part, at, has_outliers
        if part.robust is not None:
            return part.replace(weights=search_weights(current), robust=None), at, has_outliers
        # if outliers are known, C was chosen with lower weights of some
        fixed, rounds = (has_outliers or part.C is not None), {"iterations": 1} if has_outliers else {}
        known = downweight_outliers(current, fixed_C=fixed, **rounds)
        found = known.weights is not current.weights
        return part.replace(weights=known.weights), replace(at, C=known.C or at.C), has_outliers or found

    # Starting points -------------------------------------------------------------------------------------------------
    def _best_start(self, kernels: Sequence[Kernel], sample: Problem | None = None) -> tuple[float, int, Candidate]:
        """The smallest error with the best C for each kernel, the number of the kernel, and the candidate."""
        if sample is None:
            sample = self.problem.subset(sample_of(self.problem, CONSTANTS.start_rows))
            sample = sample if self.problem.is_dual else sample.with_basis()
        self.record.evaluations += len(kernels)
        found = []
        for number, kernel in enumerate(kernels):
            C, error = best_C(sample.replace(kernel=kernel))
            found.append((error, number, Candidate(kernel, C)))
        return min(found, key=lambda one: one[:2])

    def _common_widths(self) -> tuple[Candidate, float]:
        """The best common width of a grid, and the best logarithm among the narrower ones.

        Identical leaves that start from the same width have the same gradient, and would stay identical.
        """
        free = [repr(leaf) for leaf in self.kernel.leaves if leaf.sigma is None]
        places = [free[:i].count(leaf) - (free.count(leaf) - 1) / 2.0 for i, leaf in enumerate(free)]
        numbers = np.cumsum([leaf.sigma is None for leaf in self.kernel.leaves]) - 1
        unit = Candidate(self.kernel.with_width(math.sqrt(varying_inputs(self.problem)), self.unit), 1.0)
        unit = changed_widths(unit, self.kernel, lambda leaf, sigma: 4.0 ** places[numbers[leaf]] * sigma)
        at = lambda width: changed_widths(unit, self.kernel, lambda _, sigma: width * sigma).kernel  # noqa: E731
        widths = np.geomspace(*CONSTANTS.widths)
        half = len(widths) // 2 + 1
        narrow, wide = (self._best_start([at(width) for width in part]) for part in (widths[:half], widths[half:]))
        error, number, candidate = narrow if narrow[0] <= wide[0] else wide
        self.record.plan.append(
            f"grid of {len(widths)} common widths on {min(len(self.problem.rows), CONSTANTS.start_rows)} rows"
        )
        if self.method == "grid":
            best = math.log(widths[number + (half if error < narrow[0] else 0)])
            step = math.log(widths[1] / widths[0])
            found = scipy.optimize.minimize_scalar(
                lambda log_width: self._best_start([at(math.exp(log_width))])[0],
                bounds=(best - step, best + step),
                method="bounded",
                options={"maxiter": 10, "xatol": 0.05},
            )
            if found.fun < error:
                error, _, candidate = self._best_start([at(math.exp(float(found.x)))])
        moderate = math.log(widths[narrow[1]]) + 0.5 * math.log(varying_inputs(self.problem))
        return replace(candidate, value=error), moderate

    def _start_from(self, other: Found) -> Candidate:
        """The widths of another kernel with the better common factor; those of smoother kernels are narrower."""
        own, others = (getattr(kernel, "nu", math.inf) for kernel in (self.kernel, other.search.kernel))
        factors = np.exp([0.0, -OTHER_KERNEL if own > others else OTHER_KERNEL])
        sigma = arrays.to_numpy(other.candidate.kernel.leaves[0].sigma)
        return self._best_start([self.kernel.with_widths([factor * sigma]) for factor in factors])[2]

    # One width per column --------------------------------------------------------------------------------------------
    def _widths_per_column(self, found: Found, criterion: LooError, common: Candidate, few: bool) -> Candidate:
        """The best result from several starting points.

        The starting points: the common width; narrow widths for the columns that the targets depend on, if the
        residuals of the first result depend on a wide one; the same for the columns that the residuals depend on.
        """
        trial, iterations = found.trial, CONSTANTS.few_iterations if few else None
        # A very wide common width with a large C amounts to a polynomial. If most columns are irrelevant, this is the
        # best that a common width can do, and the search rarely leaves it: widths per column start from a moderate one.
        widest = float(np.max(WidthSearch(criterion, self.kernel, common).relative, initial=-math.inf))
        factor = math.exp(min(found.moderate - widest, 0.0))
        start = self._per_column(common, lambda _, sigma: np.where(self.constant, math.inf, factor * sigma))
        start = self._screened(criterion, start if factor == 1.0 else self._with_best_C(trial, start))
        best = self._improved(criterion, start, iterations, many=True)

        def tried(best: Candidate, targets: np.ndarray, *, first: bool) -> Candidate:
            """From narrow widths of the relevant columns, unless they are narrow already."""
            if first and not self._missing(criterion, best, found.screening.relevant(criterion.residuals(best))).any():
                return best  # the columns that the residuals depend on are in use
            relevant = found.screening.relevant(targets)
            if not self._missing(criterion, best, relevant).any():
                return best
            logs = self._logs(criterion, best)
            narrow = (relevant & ~self.constant[self.leading]) | (logs <= NARROW)
            if narrow.all():
                return best
            at = np.where(narrow, 0.5 * math.log(narrow.sum()) - 1.0, np.where(np.isfinite(logs), WIDE, math.inf))
            widths = np.exp(at)[trial.inputs] * self.unit
            kernels = [self._per_column(best, lambda *_, f=f: f * widths).kernel for f in np.exp([0.0, OTHER_KERNEL])]
            other = self._improved(criterion, self._best_start(kernels, trial)[2], iterations, many=True)
            return other if other.value < best.value else best

        best = tried(best, criterion.targets()[0], first=True)
        loo = criterion.residuals(best)
        return tried(best, np.hstack([loo, np.abs(loo)]), first=False)  # effects of three columns show in the sizes

    def _per_column(self, candidate: Candidate, change: Callable[[int, np.ndarray], np.ndarray]) -> Candidate:
        return changed_widths(candidate, self.kernel, change, many=True)

    def _logs(self, criterion: LooError, candidate: Candidate) -> np.ndarray:
        """The smallest log width of every input, in units of its spread."""
        relative = WidthSearch(criterion, self.kernel, candidate).relative
        return np.asarray(np.min(relative[self.several], axis=0)[self.leading])

    def _missing(self, criterion: LooError, candidate: Candidate, relevant: np.ndarray) -> np.ndarray:
        """Which relevant inputs are wide."""
        return relevant & ~self.constant[self.leading] & (self._logs(criterion, candidate) > NARROW)

    def _screened(self, criterion: LooError, start: Candidate) -> Candidate:
        """Of very many columns, those whose widths fall fastest: the columns that the kernel needs."""
        most, inputs = max(FEWEST_WIDTHS, len(criterion.problem.rows)), criterion.problem.inputs
        if varying_inputs(self.problem) <= max(FUNCTIONS, most):
            return start
        slopes = np.sum(criterion.gradient(start)[1][self.several], axis=0)
        slopes = np.where(self.constant[self.leading], -math.inf, np.bincount(inputs, slopes))
        lost = np.isin(inputs, np.argsort(-slopes, kind="stable")[most:])
        return self._per_column(start, lambda _, sigma: np.where(lost, math.inf, sigma))

    def _is_worthwhile(self, criterion: LooError, common: Candidate, found: Candidate) -> bool:
        """Whether one width per column gains enough."""
        gain = criterion.value(common) - criterion.value(found)
        extra = np.sum(~self.constant[self.leading]) * sum(self.several) - sum(self.several)
        worth = self.member or gain >= CONSTANTS.worth * extra
        if criterion.problem.classification:
            errors = criterion.errors(common)
            worth &= errors - criterion.errors(found) >= max(1.0, 2.0 * math.sqrt(errors))
        if not worth:
            self.record.plan.append(
                "one common width, in units of each column's spread: one per column gains too little on "
                f"{len(criterion.problem.rows)} rows"
            )
        return bool(worth)

    # The last stage --------------------------------------------------------------------------------------------------
    def on_last_stage(self, found: Found) -> Found:
        """The result with the C and on the sample of the last stage, if that differs from the first."""
        stages = stages_of(self.problem)
        if self.method == "grid" or not self.kernel.is_free or (len(stages) == 1 and self.problem.robust is None):
            return found
        part = part_of(self.problem, *stages[-1])
        trial, candidate, has_outliers = self._weighted(part, found.candidate, found.has_outliers)
        candidate = self._with_best_C(trial, candidate)
        candidate = replace(candidate, value=WidthSearch(self.criterion(trial), self.kernel, candidate).value())
        last = replace(found, trial=trial, candidate=candidate, has_outliers=has_outliers)
        self.record.gain = found.log_press - last.log_press
        return last

    def finish(self, last: Found, *, by_log_loss: bool) -> Problem:
        """The problem with all widths, and with C if there are any widths to choose."""
        if not self.kernel.is_free:
            return self.original
        candidate = last.candidate
        if self.record.get("gain", 0.0) > CONSTANTS.limited or ("gain" in self.record and self.problem.robust):
            many = last.many
            candidate = self._improved(self.criterion(last.trial), candidate, CONSTANTS.few_iterations, many=many)
            self._describe(last.trial, many)
        if by_log_loss:
            candidate = self._tune_log_loss(replace(last, candidate=candidate))
        return self.original.replace(kernel=candidate.kernel, C=candidate.C)

    def _tune_log_loss(self, found: Found) -> Candidate:
        """Minimise the log loss of classes over a common factor of the widths of each leaf, and C.

        A very wide common width is compared with the moderate one: the leave-one-out error has several minima, and on
        few rows the very wide one often looks as good as any other.
        """
        part = part_of(self.problem, *stages_of(self.problem)[-1])
        trial, candidate, _ = self._weighted(part, found.candidate, found.has_outliers)
        criterion = self.criterion(trial, by_log_loss=True)
        kernels = [candidate.kernel]
        narrower = found.moderate - float(np.max(WidthSearch(criterion, self.kernel, candidate).relative))
        if not found.many and narrower < -0.5:
            kernels.append(changed_widths(candidate, self.kernel, lambda _, sigma: math.exp(narrower) * sigma).kernel)
        best = [best_C(trial.replace(kernel=kernel), class_errors) for kernel in kernels]
        self.record.evaluations += len(best)
        number = int(np.argmin([loss for _, loss in best]))
        candidate = replace(candidate, kernel=kernels[number], C=best[number][0])
        if self.method != "grid":
            candidate = self._improved(criterion, candidate, CONSTANTS.few_iterations)
        self.record.plan.append("common factor of the widths and C by the log loss of the classes")
        return candidate

    def _describe(self, trial: Problem, many: bool) -> None:
        kind = "rows" if trial.is_dual else f"rows and {counted(trial.basis_size, 'basis point')}"
        free = [leaf.sigma is None for leaf in self.kernel.leaves]
        widths = sum(
            len(self.leading) if own and many else 1 for own, is_free in zip(self.several, free, strict=True) if is_free
        )
        self.record.plan.append(f"{counted(widths, 'width')} by {self.method} on {len(trial.rows)} {kind}")
