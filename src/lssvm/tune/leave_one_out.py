"""The step that chooses the parameters that are None by leave-one-out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated, NamedTuple

from sklearn.base import clone
from sklearn.utils import Bunch

from .. import arrays, progress
from ..kernels import Choice, Kernel
from ..problem import Fit, Problem, Step, check_memory
from ..progress import gradient_work, work
from ..rules import one_of
from .choose_C import ROBUST_ITERATIONS, most_for_C, with_best_C
from .constants import CONSTANTS
from .edges import warn_at_edge
from .samples import covered_rows, stages_of
from .scores import class_errors, error_rate, errors_to_choose_by, validation_loss
from .search import Found, KernelSearch

SearchName = Annotated[str, one_of("auto", "gradient", "simplex", "grid")]
LossName = Annotated[str, one_of("auto", "squared")]


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
    samples per width beyond that; with fewer, there are at most six iterations. Their mean has a
    wide prior. With more than 400 columns and more
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

    def __init__(self, search: SearchName = "auto", loss: LossName = "auto") -> None:
        self.search = search
        self.loss = loss

    def __call__(self, problem: Problem) -> Problem:
        return self.choose(problem)

    def choose(self, problem: Problem, *, on_all_rows: bool = True) -> Problem:
        """The problem with all parameters chosen.

        If `on_all_rows` is False, C is that of the search, and there is no warning if it lies at the edge of its range.
        """
        problem = as_requested(problem)
        begun = self.begin(problem, expected=self.expected_work(problem))
        if begun is None:
            return problem
        known = self.end(begun, on_all_rows=on_all_rows)
        if begun.problem.C is None and on_all_rows:
            warn_at_edge(known)
        return known

    def begin(
        self, problem: Problem, earlier: Sequence[Found] = (), *, expected: ExpectedWork, member: bool = False
    ) -> Begun | None:
        """The first stage of the search, or None if there is nothing to choose.

        `earlier` are results for other kernels to start from. `member` means: of a stack.
        """
        problem = as_requested(problem)
        if problem.is_known or is_fixed(problem):
            return None
        if problem.is_dual:
            check_memory(len(problem.rows), arrays.eigh_matrices(len(problem.rows), problem.X), problem.X)
        if problem.robust is not None:
            iterations = max(ROBUST_ITERATIONS, problem.robust.iterations)
            problem = problem.replace(robust=clone(problem.robust).set_params(iterations=iterations))
        record, found = Bunch(evaluations=0, plan=[]), list[Found]()
        if problem.kernel.is_free or (member and earlier):
            with expected.begin:
                for kernel in choices(problem):
                    search = KernelSearch(problem.replace(kernel=kernel), self.search, record, member=member)
                    found.append(search.run([*earlier, *found]))
        best = found[0] if found else None
        if len(found) > 1:
            last = [one.search.on_last_stage(one) for one in found]
            best = min(zip(found, last, strict=True), key=lambda pair: pair[1].candidate.value)[0]
            record.plan.append(f"{len(found)} kernels compared")
        return Begun(problem, record, best, expected)

    def end(self, begun: Begun, *, on_all_rows: bool = True) -> Problem:
        """The last stage of the search, and the choice of C on all rows."""
        known, record, best, expected = begun
        free_C, paths = known.C is None, known.paths
        covered = len(known.rows) <= covered_rows(known)
        by_log_loss = errors_to_choose_by(known, self.loss) is class_errors
        with expected.end:
            if best is not None:
                record.free = [leaf.sigma is None for leaf in best.search.kernel.leaves]
                last = best.search.on_last_stage(best)
                known = best.search.finish(last, by_log_loss=by_log_loss)
                if last.has_outliers:
                    covered = False
                    if free_C and on_all_rows:  # the C of the search is that for their lower weights
                        known = known.replace(C=None)
            if free_C and (known.C is None or (on_all_rows and not covered)):
                known = with_best_C(known, record, self.loss)
            elif free_C:
                record.plan.append("C searched together with the widths")
        record.update(C=known.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in known.kernel.leaves])
        return known.replace(paths={**paths, type(self).__name__: record})

    def completed(self, problem: Problem) -> Found | None:
        """The result of a search that a step has completed, as a starting point for other kernels."""
        requested = as_requested(problem)
        if not requested.kernel.is_free or requested.kernel.is_choice:
            return None
        return KernelSearch(requested, self.search, Bunch(evaluations=0, plan=[])).completed(problem)

    @staticmethod
    def expected_work(problem: Problem) -> ExpectedWork:
        """Announce the usual work of both parts of a search."""

        def evaluations(stage: int, count: int) -> float:
            rows, basis = stages_of(problem)[stage]
            rows = min(rows, len(problem.rows))
            return count * (work(rows, basis) + gradient_work(rows, basis, problem.X.shape[1]))

        def begin() -> float:
            grid = CONSTANTS.widths[2] * work(min(CONSTANTS.start_rows, len(problem.rows)), None, every=True)
            return (grid + evaluations(0, CONSTANTS.iterations // 2)) * problem.kernel.is_free

        def end() -> float:
            last = evaluations(-1, CONSTANTS.few_iterations) * problem.kernel.is_free
            return last + (most_for_C(problem) if problem.C is None else 0.0)

        return ExpectedWork(progress.expect(begin), progress.expect(end))


class ExpectedWork(NamedTuple):
    """Parts of the work to come: the first stage of the search, and the last one with the choice of C on all rows."""

    begin: AbstractContextManager[None]
    end: AbstractContextManager[None]


class Begun(NamedTuple):
    """A problem whose parameters are being chosen; `best` is the result of the first stage."""

    problem: Problem
    record: Bunch
    best: Found | None
    expected: ExpectedWork


def choices(problem: Problem) -> Sequence[Kernel]:
    """The kernels of a `Choice`, or the only one."""
    return problem.kernel.kernels if isinstance(problem.kernel, Choice) else [problem.kernel]


def as_requested(problem: Problem) -> Problem:
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
    return problem if problem.is_known else LeaveOneOut().choose(problem, on_all_rows=on_all_rows)


def tuned_each(problem: Problem) -> list[Problem]:
    """One problem per kernel of a `Choice`, tuned on samples."""
    return [tuned(problem.replace(kernel=kernel), on_all_rows=False) for kernel in choices(problem)]


def describe(problem: Problem, fit: Fit) -> None:
    """Add the leave-one-out error of the final fit to the record of `LeaveOneOut`."""
    record = problem.paths.get(LeaveOneOut.__name__)
    if record is not None:
        loo, weights = arrays.to_numpy(fit.loo_residuals)[problem.rows], arrays.to_numpy(fit.weights)[problem.rows]
        y = arrays.to_numpy(problem.y)[problem.rows]
        record.loo = validation_loss(problem, y, loo, weights)
        if problem.classification:
            record.error_rate = error_rate(y, loo, weights)
