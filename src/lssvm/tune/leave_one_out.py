"""The step that chooses the parameters that are None by leave-one-out, for one model or the members of a stack."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import Bunch

from .. import arrays, progress
from ..kernels import Choice, Kernel
from ..problem import (
    Fit,
    Problem,
    Step,
    check_memory,
    constant_columns,
)
from .choose_C import most_for_C, warn_at_edge, with_best_C
from .constants import CONSTANTS
from .samples import covered_rows, stages_of
from .scores import error_rate, validation_loss
from .stack_weights import stage_weights
from .widths import Search, in_contention


class LeaveOneOut(Step):
    """Choose C and the kernel widths that are None by minimising the exact leave-one-out error.

    After a step that already had to choose them, such as pruning, they are chosen again for the resulting basis. Models
    on columns of the KKT system (`sparsify.InversePrune` and related steps) are left unchanged.

    Parameters
    ----------
    search : {"auto", "gradient", "simplex", "grid"}
        How the widths are searched. "gradient": L-BFGS on the logarithm of PRESS as a function of log C and the log
        widths, with the closed-form gradient, starting from the best common width of a coarse grid. "simplex":
        Nelder-Mead from the same start (Cawley & Talbot 2004). "grid": a common width only, refined between the grid
        points. "auto" is "gradient". If only C is None, it is chosen along the whole path of one factorisation.
    loss : {"auto", "squared"}
        "squared" is the weighted mean square of the leave-one-out residuals, with targets -1 and +1 for classes. "auto"
        is the same for regression. For classification, it finally adjusts C and a common factor of the widths to
        minimise the mean log loss of the leave-one-out decision values f, with P = 1/(1 + exp(-slope f)) and the slope
        that minimises this loss: the squared loss also penalises values that are far on the correct side. With more
        than two classes, every column (one class against the rest) is a binary problem, and all share one slope.

    Notes
    -----
    A width that is None is chosen as a multiple of the standard deviation of its column (or, if a few extreme cells
    dominate it, of what the other cells suggest; see the page on tuning): one common multiple, or one per column if
    the kernel has ``ard=True``. Several rules keep many widths from overfitting few rows. The log widths have a normal
    prior about their mean, with standard deviation 0.25 up to 50 samples per width, and growing in proportion to the
    samples per width beyond that; with fewer, there are at most six iterations. With more than 400 columns and more
    columns than rows, only the 100 columns (or as many as rows, if these are more) whose widths fall fastest from the
    common one get a width of their own. A column is dropped (its width becomes
    infinite) if log PRESS rises by less than 2 log(rows)/rows without it. The common width is kept if one width per
    column lowers log PRESS by less than 7 (number of widths - 1)/rows or, for classes, if it lowers the number e of
    rows that leave-one-out misclassifies by less than max(1, 2 sqrt(e)).

    The search runs on samples of at most 3000 rows, with a part of the basis; C is then chosen on all rows. The samples
    do not depend on the order of the rows. Robust weights, if requested, are estimated again between searches, at least
    three times, from the leave-one-out residuals and 1.5 times their robust scale. Without them, a regression gives
    lower weights to rows whose leave-one-out residual exceeds 15 times the 90th percentile: a single target must not
    decide.

    ``path_`` contains ``widths`` (one entry per leaf of the kernel), ``C``, ``loo``, ``evaluations``, ``plan`` (the
    stages of the search, in words), ``gain`` (by how much the last of several stages lowered log PRESS) and, for
    classes, ``error_rate``. ``loo`` is the mean squared leave-one-out residual
    (mean absolute residual with robust weights), summed over the outputs; for classes, it is the mean log loss with the
    targets of Platt (1999).

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, tune
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(), steps=[tune.LeaveOneOut(search="simplex")]).fit(X, y)
    >>> round(model.path_.loo ** 0.5)  # g
    23
    """

    def __init__(self, search: str = "auto", loss: str = "auto") -> None:
        self.search = search
        self.loss = loss

    def __call__(self, problem: Problem) -> Problem:
        return self._choose(problem)

    def _choose(self, problem: Problem, *, on_all_rows: bool = True) -> Problem:
        """The problem with all parameters chosen.

        If `on_all_rows` is False, C is that of the search, and there is no warning if it lies at the edge of its range.
        """
        problem = as_asked(problem)
        begun = self._begin(problem, expected=self._expected(problem, on_all_rows))
        if begun is None:
            return problem
        known = self._end(begun, on_all_rows=on_all_rows)
        if begun.problem.C is None and on_all_rows:
            warn_at_edge(known)
        return known

    def _begin(
        self, problem: Problem, earlier: Sequence[Search] = (), *, expected: _Expected, member: bool = False
    ) -> _Begun | None:
        """The first stage of the search, or None if there is nothing to choose.

        `earlier` are searches of other kernels to start from. `member` means: of a stack.
        """
        for name, allowed in (
            ("search", ("auto", "gradient", "simplex", "grid")),
            ("loss", ("auto", "squared")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"LeaveOneOut: {name} must be one of {allowed}, got {getattr(self, name)!r}.")
        problem = as_asked(problem)
        if problem.is_known or is_fixed(problem):
            return None
        if problem.is_dual:
            check_memory(len(problem.rows), arrays.eigh_matrices(len(problem.rows), problem.X), problem.X)
        if problem.robust is not None:
            iterations = max(CONSTANTS.robust_iterations, problem.robust.iterations)
            problem = problem.replace(robust=clone(problem.robust).set_params(iterations=iterations))
        record, searches = Bunch(evaluations=0, plan=[]), list[Search]()
        if problem.kernel.is_free or (member and earlier):
            with expected.first:
                for kernel in choices(problem):
                    searches.append(Search(problem.replace(kernel=kernel), self, record, member=member))
                    searches[-1].run([*earlier, *searches[:-1]])
        best = searches[0] if searches else None
        if len(searches) > 1:
            best = min(searches, key=Search.value_at_the_end)
            record.plan.append(f"{len(searches)} kernels compared")
        return _Begun(problem, record, best, expected)

    def _end(self, begun: _Begun, *, on_all_rows: bool = True) -> Problem:
        """The last stage of the search, and the choice of C on all rows."""
        known, record, best, expected = begun
        free_C = known.C is None
        paths = known.paths
        covered = len(known.rows) <= covered_rows(known)
        if best is not None:
            record.free = best.free
            with expected.last:
                known = best.finish()
            if best.has_outliers:
                covered = False
                if free_C and on_all_rows:  # the C of the search is that for their lower weights
                    known = known.replace(C=None)
        if free_C:
            with expected.path:
                if known.C is None or (on_all_rows and not covered):
                    known = with_best_C(known, record, self.loss)
                else:
                    record.plan.append("C searched together with the widths")
        record.update(C=known.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in known.kernel.leaves])
        return known.replace(paths={**paths, type(self).__name__: record})

    def _expected(self, problem: Problem, on_all_rows: bool = True, *, member: bool = False) -> _Expected:
        """Announce the work to come; `member` means: of a stack, but not the first one."""

        def search_work(stage: str) -> float:
            if not problem.kernel.is_free:
                return 0.0
            searches = (
                Search(problem.replace(kernel=kernel), self, Bunch(), member=member) for kernel in choices(problem)
            )
            works = [getattr(search, stage)() for search in searches]
            return max(works) if stage == "last_work" else sum(works)

        def path_work() -> float:
            searched = problem.kernel.is_free and (not on_all_rows or len(problem.rows) <= covered_rows(problem))
            most = 0.0 if searched or problem.C is not None else most_for_C(problem)
            return 0.3 * most if member else most  # most members are left out before

        stages = (lambda: search_work("first_work"), lambda: search_work("last_work"), path_work)
        return _Expected(*map(progress.expect, stages))


class _Expected(NamedTuple):
    """Parts of the work to come: the first and the last stage of the search for widths, the path of C on all rows."""

    first: AbstractContextManager[None]
    last: AbstractContextManager[None]
    path: AbstractContextManager[None]


class _Begun(NamedTuple):
    """A problem whose parameters are being chosen; `best` is the search for its widths after the first stage."""

    problem: Problem
    record: Bunch
    best: Search | None
    expected: _Expected


def choices(problem: Problem) -> Sequence[Kernel]:
    """The kernels of a `Choice`, or the only one."""
    return problem.kernel.kernels if isinstance(problem.kernel, Choice) else [problem.kernel]


def as_asked(problem: Problem) -> Problem:
    """The problem with the parameters that the user left at None reset to None, unless it cannot be tuned."""
    if problem.asked is None or is_fixed(problem):
        return problem
    return problem.replace(kernel=problem.asked[0], C=problem.asked[1])


def is_fixed(problem: Problem) -> bool:
    """Whether the problem cannot be tuned: a model on columns of the KKT system, or with given coefficients."""
    return problem.reduced or problem.coefficients is not None


def tuned(problem: Problem, *, on_all_rows: bool = True) -> Problem:
    """The problem itself if nothing is None, else with the missing parameters chosen by `LeaveOneOut`.

    If `on_all_rows` is False, C is that of the search for the widths, if there was one.
    """
    return problem if problem.is_known else LeaveOneOut()._choose(problem, on_all_rows=on_all_rows)


def tuned_each(problem: Problem) -> list[Problem]:
    """One problem per kernel of a `Choice`, tuned on samples."""
    return [tuned(problem.replace(kernel=kernel), on_all_rows=False) for kernel in choices(problem)]


def tune_members(problems: Sequence[Problem]) -> dict[int, Problem]:
    """By place: the problems of the members of a stack, which differ in their kernels only, with all parameters chosen.

    A member that is far behind another one after the first stage, or would have hardly any weight, is left out. So is
    one that would have to be searched on the last stage, but has no weight there.
    `warn_at_edges` can be called once it is known which members are kept.

    Each search starts from the results of those before it: a kernel with one width per column from the same kernel with
    a common width, and a kernel from another one with as many widths.
    """
    step, member = LeaveOneOut(), len(problems) > 1
    searches: list[Search] = []
    begun: list[_Begun | None] = []
    expected = [
        None if problem.is_known else step._expected(problem, member=place > 0)
        for place, problem in enumerate(problems)
    ]
    for problem, parts in zip(problems, expected, strict=True):
        begun.append(None if parts is None else step._begin(problem, searches, expected=parts, member=member))
        search = None if begun[-1] is None else begun[-1].best
        if parts is None and problem.asked is not None and problem.asked[0].is_free and not problem.asked[0].is_choice:
            search = Search.completed(problem, step)  # a step has chosen its parameters
        searches.extend([] if search is None else [search])
    if weighs_by_folds(problems):
        weights = [0.0 if search.is_useless else 1.0 for search in searches]
    else:
        weights = _weights_on_last_stage(searches, _weights_after_first_stage(searches))
    found: dict[int, Problem] = {}
    for place, (problem, part) in enumerate(zip(problems, begun, strict=True)):
        weight = 1.0 if part is None or part.best is None else weights[searches.index(part.best)]
        if part is None:
            found[place] = problem
        elif weight > 0.0:
            found[place] = step._end(part)
        else:
            with part.expected.last, part.expected.path:
                pass  # not needed
    return found


def weighs_by_folds(problems: Sequence[Problem]) -> bool:
    """Whether the leave-one-out residuals of the members of a stack are too optimistic to choose weights by them.

    That is so if there are few rows per column, and members choose one width per column.
    """
    chosen = any(leaf.ard for problem in problems if problem.asked is not None for leaf in problem.asked[0].leaves)
    few = (
        2 * CONSTANTS.weight_folds
        <= len(problems[0].rows)
        <= CONSTANTS.weight_rows * np.sum(~constant_columns(problems[0]))
    )
    return len(problems) > 1 and chosen and few


def residuals_of_folds(problems: Sequence[Problem]) -> np.ndarray:
    """Residuals (members, rows with positive weight, outputs) of the members of a stack, searched without each fold.

    A member that is left out in a search counts as the mean of the targets.
    """
    rows, y = problems[0].rows, arrays.to_numpy(problems[0].y)
    residuals = np.zeros((len(problems), *y.shape))
    for fold in np.array_split(problems[0].rows_by_content, min(CONSTANTS.weight_folds, len(rows))):
        others = np.setdiff1d(rows, fold)
        residuals[:, fold] = y[fold] - y[others].mean(axis=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the search on all rows warns
            parts = [as_asked(problem).subset(others) for problem in problems]
            for part in parts[1:]:
                part.__dict__["rows_by_content"] = parts[0].rows_by_content  # the rows are the same
            for place, known in tune_members(parts).items():
                predicted = known.solve(loo=False).predict(arrays.take(problems[place].X, fold))
                residuals[place, fold] = y[fold] - arrays.to_numpy(predicted)
    return residuals[:, rows]


def _weights_after_first_stage(searches: Sequence[Search]) -> list[float]:
    """The weights of members after the first stage, 0 for those that are not `in_contention`."""
    rest = in_contention(searches)
    weights = stage_weights([search.first_stage for search in rest]) if len(rest) > 1 else np.ones(len(rest))
    return [float(weights[rest.index(search)]) if search in rest else 0.0 for search in searches]


def _weights_on_last_stage(searches: Sequence[Search], weights: Sequence[float]) -> list[float]:
    """The weights after the first stage, but 0 for members to be searched on the last one that have no weight there."""
    rest = [search for search, weight in zip(searches, weights, strict=True) if weight > 0.0 or search.is_completed]
    if len(rest) == 1:
        return list(weights)
    for search in rest:
        if any(search.free) and not search.is_completed:
            search.start_last_stage()
    limited = [search for search in rest if search.is_limited]
    stages = {stages_of(search.problem)[-1][0] for search in rest if search.last is not None}
    if not limited or len(stages) > 1:  # a step has chosen a basis for each member, and not all use the same rows
        return list(weights)
    rows, basis = stages_of(limited[0].problem)[-1]
    found = dict(zip(rest, stage_weights([search.on_stage(rows, basis) for search in rest]), strict=True))
    return [
        0.0 if search.is_limited and found[search] == 0.0 else weight
        for search, weight in zip(searches, weights, strict=True)
    ]


def describe(problem: Problem, fit: Fit) -> None:
    """Add the leave-one-out error of the final fit to the record of `LeaveOneOut`."""
    record = problem.paths.get(LeaveOneOut.__name__)
    if record is not None:
        loo, weights = arrays.to_numpy(fit.loo_residuals)[problem.rows], arrays.to_numpy(fit.weights)[problem.rows]
        y = arrays.to_numpy(problem.y)[problem.rows]
        record.loo = validation_loss(problem, y, loo, weights)
        if problem.classification:
            record.error_rate = error_rate(y, loo, weights)
