"""Choose the parameters that are None by leave-one-out, for one model or the members of a stack."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import scipy
from sklearn.base import clone
from sklearn.utils import Bunch

from .. import arrays, progress
from ..arrays import EPS
from ..kernels import Kernel
from ..problem import Fit, Problem, Step, check_memory, fit_monotonic
from ..rules import one_of
from .choose_C import ROBUST_ITERATIONS, error_rate, mean_loss, most_for_C, warn_at_edge, with_best_C
from .classes import with_nearby_C
from .constants import DENSE_ROWS, chosen_widths, constants, in_memory, part_of, stages_of
from .criteria import LooDeviance
from .search import Found, completed, error, finished, first_stage, last_stage
from .widths import Candidate, WidthSearch, changed_widths

SearchName = Annotated[str, one_of("auto", "gradient", "simplex", "grid")]
LossName = Annotated[str, one_of("auto", "squared")]

FOLDS = 5  # The weights of a stack with few rows per column come from this many folds.
HUBER = 2.5  # The loss of residuals beyond this many robust scales grows linearly.
PULL = 20.0  # The pull away from single members counts as much as this many rows: see docs/theory.md.
OPTIMISM = 6.0  # Per chosen width, leave-one-out is too optimistic by this many squared robust scales in sum.
ITERATIONS = 20  # After this many iterations of reweighting, the weights have long settled to three digits.
# A member with a small weight gains little, but takes as much time as any other in a fit and in every prediction.
SMALLEST = 0.1  # Smaller weights are set to 0, with more than 5 members those below half an equal share.
WORTH = 0.01  # Members that take a factorisation of all rows must lower the leave-one-out error by this share.
SMALLEST_SHARE = 0.01  # The same holds for mixtures of probabilities.


class LeaveOneOut(Step):
    """Choose C and the kernel widths that are None by minimising the exact leave-one-out error.

    After a step that already had to choose them, such as pruning, they are chosen again for the resulting basis. Models
    on columns of the KKT system (`sparsify.InversePrune` and related steps) are left unchanged.

    Parameters
    ----------
    search : {"auto", "gradient", "simplex", "grid"}
        How the widths are searched. "gradient" runs L-BFGS on the logarithm of PRESS as a function of log C and the log
        widths, with the closed-form gradient, from the best common width of a coarse grid. "simplex" runs Nelder-Mead
        from the same start (Cawley & Talbot 2004). "grid" chooses a common width only, refined between the grid
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
    dominate it, of what the other cells suggest; see the page on tuning). There is one common multiple, or one per
    column if the kernel has ``ard=True``.

    Several rules keep many widths from overfitting few rows. The log widths have a normal prior about their mean. Its
    standard deviation is 0.25 up to 50 samples per width, and grows in proportion to the samples per width beyond that;
    with fewer samples, there are at most six iterations. The mean has a wide prior. With more than 400 columns and more
    columns than rows, only 100 columns (or as many as there are rows, if these are more) get a width of their own:
    those whose widths fall fastest from the common one. A column is dropped (its width becomes infinite) if log PRESS
    rises by less than 2 log(rows)/rows without it. The common width is kept if one width per column lowers log PRESS by
    less than 7 (number of widths - 1)/rows or, for classes, if it lowers the number e of rows that leave-one-out
    misclassifies by less than max(1, 2 sqrt(e)).

    The search runs on samples of at most 3000 rows, with a part of the basis, or 2000 for dense models; C is then
    chosen on all rows, except for dense models that cannot be factorised. The samples do not depend on the order of the
    rows. Robust weights, if requested, are estimated again between searches, at least three times, from the
    leave-one-out residuals and 1.5 times their robust scale. Without robust weights, a regression gives lower weights
    to rows whose leave-one-out residual exceeds 15 times the 90th percentile and a fifth of the spread of the targets,
    because a single target must not decide.

    ``path_`` contains ``widths`` (one entry per leaf of the kernel), ``C``, ``loo``, ``evaluations``, ``plan`` (the
    stages of the search, in words), ``gain`` (by how much the last of several stages lowered log PRESS) and, for
    classes, ``error_rate``. ``loo`` is the mean squared leave-one-out residual (mean absolute residual with robust
    weights), summed over the outputs. For classes, it is the mean log loss with the targets of Platt (1999).

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
        """Return the problem with all parameters chosen.

        If `on_all_rows` is False, C is that of the search, and there is no warning if it lies at the edge of its range.
        """
        problem = as_requested(problem)
        if problem.is_known:
            return problem
        known = tune_members([problem], self, on_all_rows=on_all_rows)[0]
        if problem.C is None and on_all_rows:
            warn_at_edge([known])
        return known


def tune_members(
    problems: Sequence[Problem], step: LeaveOneOut | None = None, *, on_all_rows: bool = True, every: bool = False
) -> dict[int, Problem]:
    """Tune the members of a stack, which differ in their kernels only; return {place: problem}.

    Unless `every` problem is tuned as a member of a stack, a member without weight after the first stage is left out,
    and so is one on another scale of the targets that makes them no likelier than the others do, by the Bayesian
    information criterion. Of dense models of many rows, those without weight on the larger sample of the last stage are
    left out before it is searched, and all but the best if they hardly improve on that one. The caller warns of values
    of C at the edge of their range, because it may leave out other members. Each search starts from the results of
    those before it: a kernel with one width per column from the same kernel with a common width, and a kernel from
    another one with as many widths. If `on_all_rows` is False, C is that of the search.
    """
    step, member = step or LeaveOneOut(), every or len(problems) > 1
    if problems[0].loss != "squared":
        stabilised = [problem.stabilised() for problem in problems]
        starts = tune_members(stabilised, step, on_all_rows=False, every=every)
        return {place: least_deviance(problems[place], start, on_all_rows) for place, start in starts.items()}
    works = [
        [] if problem.is_known else [progress.expect(partial(most_to_tune, problem, stage)) for stage in (0, -1)]
        for problem in problems
    ]
    known: dict[int, Problem] = {}
    # For each place, this holds the results of the first and last stage, if they are known, and the rest of the work.
    begun: dict[int, tuple[Found | None, Found | None, Callable[..., Problem]]] = {}
    found: list[Found] = []
    for place, (problem, expected) in enumerate(zip(problems, works, strict=True)):
        requested = as_requested(problem)
        path = problem.paths.get(LeaveOneOut.__name__, {})  # A step may have begun it, or searched another basis.
        record = Bunch(**{**Bunch(evaluations=0, plan=[]), **({} if "C" in path else path)})
        kernel, own = requested.kernel, list[Found]()
        if not expected:
            known[place] = problem
            if member and kernel.is_free and not kernel.is_choice:  # A step has chosen the widths.
                found.append(completed(requested, problem))
            continue
        if requested.is_dual and not requested.is_iterative():
            rows, X = len(problem.rows), problem.X
            check_memory(rows, arrays.dense_matrices(rows, X, every=rows <= DENSE_ROWS), X)
        if requested.robust is not None:
            iterations = max(ROBUST_ITERATIONS, requested.robust.iterations)
            requested = requested.replace(robust=clone(requested.robust).set_params(iterations=iterations))
        if kernel.is_free or (member and found):
            with expected[0]:
                for part in (requested.replace(kernel=one) for one in (kernel.parts if kernel.is_choice else [kernel])):
                    alike = [one for one in [*found, *own] if one.requested.target is part.target]
                    own.append(first_stage(part, step.search, record, alike, member=member))
        first, last = own[0] if own else None, None
        if len(own) > 1:
            first, last = min(((one, last_stage(one)) for one in own), key=lambda pair: pair[1].candidate.value)
            record.plan.append(f"{len(own)} kernels compared")
        begun[place] = first, last, partial(_finished, requested, record, step, on_all_rows)
        found += [] if first is None else [first]
    plain = [one for one in found if one.requested.target is None]
    if 0 < len(plain) < len(found) and not every:
        least = max(one.likelihood for one in plain) + math.log(len(plain[0].criterion.y))
        found = [one for one in found if one.requested.target is None or one.likelihood > least]
    if len(found) > 1 and not (every or weighs_by_folds(problems)):
        found = with_weight(found)
        large = [one for one in found if one.requested.is_dual and len(one.requested.rows) > DENSE_ROWS]
        if len(large) > 1:
            others = [one for one in found if not any(one is other for other in large)]
            found = others + with_weight([last_stage(one) for one in large], WORTH)
    for place, (first, last, finish) in begun.items():
        with works[place][1]:
            end = next((one for one in found if first is not None and one.requested is first.requested), None)
            if first is None or end is not None:
                known[place] = finish(first, last if end is first else end)
    return {place: known[place] for place in sorted(known)}


def least_deviance(problem: Problem, start: Problem, on_all_rows: bool) -> Problem:
    """Return the problem of counts or positive targets with the widths and C of the smallest leave-one-out deviance.

    `start` are those of least squares on the scale on which all targets have the same variance.
    """
    requested = as_requested(problem)
    requested = requested.replace(kernel=with_chosen_kernel(requested.kernel, start.kernel))
    if requested.is_known:
        return problem
    record = Bunch(**{**Bunch(evaluations=0, plan=[]), **start.paths.get(LeaveOneOut.__name__, {})})
    given = {name: getattr(requested, name) for name in ("X", "y", "weights", "points")}
    on_host = {name: arrays.to_numpy(array) for name, array in given.items() if array is not None}
    whole = in_memory(requested.replace(**on_host).subset(requested.rows).normalised()[0])
    spread, best, limits = problem.spreads.values, Candidate(start.kernel, start.C or 1.0), constants(problem.effort)
    by_gradient = requested.kernel.is_free and whole.row_groups is None
    if by_gradient:
        sample = part_of(whole.with_basis(), limits.dense_stage, None)
        many = chosen_widths(start) > 0
        criterion, kernel, size = LooDeviance(sample, spread, record), requested.kernel, problem.spreads.varying_inputs
        most = [math.sqrt(size) * leaf.width_unit(spread) for leaf in kernel.leaves]

        def narrower(leaf: int, sigma: np.ndarray) -> np.ndarray:
            return np.where(np.isfinite(sigma), np.minimum(sigma, most[leaf]), sigma)

        starts = [best, replace(changed_widths(best, kernel, narrower), C=requested.C or 3.0)]
        found = [WidthSearch(criterion, kernel, one, many=many).minimise(limits.few_iterations) for one in starts]
        best = min(found, key=error)
        record.plan.append(f"widths and C by the deviance of {len(sample.rows)} rows")
    if on_all_rows and not (by_gradient and whole.is_dual and len(whole.rows) <= limits.dense_stage):
        best = with_nearby_C(LooDeviance(whole, spread, record), best, moves=4)
        record.plan.append(f"C by the deviance of {len(whole.rows)} rows")
    record.update(C=best.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in best.kernel.leaves])
    return problem.replace(kernel=best.kernel, C=best.C, paths={**problem.paths, LeaveOneOut.__name__: record})


def with_chosen_kernel(requested: Kernel, chosen: Kernel) -> Kernel:
    """Return the requested kernel or, of a `Choice`, the kernel that was chosen, as it was requested."""
    if not requested.is_choice:
        return requested
    return next((part for part in requested.parts if _form(part) == _form(chosen)), chosen)


def _form(kernel: Kernel) -> tuple[Any, ...]:
    """Return what two kernels have in common that differ in their widths."""
    return type(kernel), getattr(kernel, "nu", None), getattr(kernel, "degree", None), *map(_form, kernel.parts)


def with_weight(found: Sequence[Found], worth: float = 0.0) -> list[Found]:
    """Return the members of a stack that have weight on their sample, which has the same rows.

    This is the best one alone if the others lower the root mean square leave-one-out residual by no more than `worth`.
    """
    pairs = [(one, one.criterion.residuals(one.candidate)) for one in found]
    residuals = np.stack([r if one.requested.target is None else one.original(r) for one, r in pairs])
    tuned = [one.requested.replace(kernel=one.candidate.kernel, asked=(one.requested.kernel, None)) for one in found]
    rows = found[0].criterion.weights
    weights = average_weights(residuals, rows, [chosen_widths(one) for one in tuned])
    own, joint = (np.sum(rows @ r**2, axis=-1) for r in (residuals, np.tensordot(weights, residuals, axes=1)))
    if own.min() <= (1.0 + worth) ** 2 * joint and worth > 0.0:
        weights = np.eye(len(own))[np.argmin(own)]
    return [one for one, weight in zip(found, weights, strict=True) if weight > 0.0]


def _finished(
    known: Problem, record: Bunch, step: LeaveOneOut, on_all_rows: bool, first: Found | None, last: Found | None
) -> Problem:
    """Return the problem after the last stage of the search and the choice of C on all rows.

    `first` and `last` are the results of these stages, or None if they are not known.
    """
    free_C, paths = known.C is None, known.paths
    rows, basis = stages_of(known)[-1]
    covered = len(known.rows) <= rows and basis in (None, known.basis_size)
    if first is not None:
        kernel = first.requested.kernel
        known, record.free = known.replace(kernel=kernel), [leaf.sigma is None for leaf in kernel.leaves]
        if kernel.is_free:
            last = last_stage(first) if last is None else last
            candidate = finished(last, step.search, by_log_loss=known.classification and step.loss == "auto")
            # If there are outliers, the C of the search is that for their lower weights.
            covered &= not last.has_outliers
            C = None if free_C and on_all_rows and last.has_outliers else candidate.C
            known = known.replace(kernel=candidate.kernel, C=C)
    if free_C and (known.C is None or (on_all_rows and not covered)):
        known = with_best_C(known, record, step.loss)
    elif free_C:
        record.plan.append("C searched together with the widths")
    record.update(C=known.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in known.kernel.leaves])
    return known.replace(paths={**paths, LeaveOneOut.__name__: record})


def most_to_tune(problem: Problem, stage: int) -> float:
    """Return the usual work of the first (0) or last (-1) stage of a search, with the choice of C on all rows."""
    limits, (rows, basis) = constants(problem.effort), stages_of(problem)[stage]
    rows = min(rows, len(problem.rows))
    once = progress.work(rows, basis) + progress.gradient_work(rows, basis, problem.X.shape[1])
    covered = problem.kernel.is_free and problem.is_iterative()
    of_C = most_for_C(problem) if stage and problem.C is None and not covered else 0.0
    return of_C + limits.few_iterations * (1 if stage else 5) * once * problem.kernel.is_free


def as_requested(problem: Problem) -> Problem:
    """Return the problem with the parameters that the user left at None reset to None, unless it cannot be tuned.

    A model on columns of the KKT system, or with given coefficients, cannot be tuned.
    """
    if problem.asked is None or problem.reduced or problem.coefficients is not None:
        return problem
    return problem.replace(kernel=problem.asked[0], C=problem.asked[1])


def tuned(problem: Problem, *, on_all_rows: bool = True) -> Problem:
    """Return the problem, with parameters that are None chosen by `LeaveOneOut`.

    If `on_all_rows` is False, C is that of the search for the widths, if there was one.
    """
    return problem if problem.is_known else LeaveOneOut().choose(problem, on_all_rows=on_all_rows)


def describe(problem: Problem, fit: Fit) -> None:
    """Add the leave-one-out error of the final fit to the record of `LeaveOneOut`."""
    record = problem.paths.get(LeaveOneOut.__name__)
    if record is not None:
        y, loo, weights = (arrays.to_numpy(a)[problem.rows] for a in (problem.y, fit.loo_residuals, fit.weights))
        record.loo = mean_loss(problem, loo, weights, y)
        if fit.loo_error > 0.0:
            record.plan.append(f"leave-one-out residuals estimated from near rows, with errors of {fit.loo_error:.1%}")
        if problem.classification:
            record.error_rate = error_rate(y, loo, weights)


# Weights of stacks (Yao, Vehtari, Simpson & Gelman 2018) --------------------------------------------------------------
def weighs_by_folds(problems: Sequence[Problem]) -> bool:
    """Return whether the leave-one-out residuals of the members of a stack are too optimistic to choose weights.

    That is so if there are few rows per input, and members choose one width per input.
    """
    requested = [problem.asked[0] for problem in problems if problem.asked is not None]
    chosen = any(leaf.ard for kernel in requested for leaf in kernel.leaves)
    most = constants(problems[0].effort).weight_rows * problems[0].spreads.varying_inputs
    few = 2 * FOLDS <= len(problems[0].rows) <= most
    return bool(len(problems) > 1 and chosen and few)


def residuals_of_folds(problems: Sequence[Problem], folds: Sequence[np.ndarray], *, stacked: bool) -> list[np.ndarray]:
    """Return residuals (rows, outputs) of each problem, with free parameters chosen without each fold; else NaN.

    A basis is held fixed, unless it consists of the rows; robust weights come from the other rows. The problems have
    the same rows, and are tuned as members of a stack if they are `stacked`.
    """
    found = [np.full(problem.y.shape, np.nan) for problem in problems]
    for fold in folds:
        others = np.setdiff1d(problems[0].rows, fold)
        if len(others) < 2:
            raise ValueError("folds: without one fold, fewer than 2 rows are left to choose widths: use smaller folds.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The search on all rows warns.
            parts = [problem.subset(others) for problem in problems]
            if parts[0].row_groups is not None and len(np.unique(parts[0].row_groups[parts[0].rows])) < 2:
                parts = [part.replace(row_groups=None) for part in parts]  # Its only group cannot be left out.
            for part in parts[1:]:
                part.__dict__["rows_by_content"] = parts[0].rows_by_content  # The rows are the same.
            for place, known in tune_members(parts, every=stacked).items():
                fit = fit_monotonic(known, known.solve(loo=False))[1]
                predicted = fit.predict(arrays.take(problems[place].X, fold))
                found[place][fold] = arrays.to_numpy(problems[place].y)[fold] - arrays.to_numpy(predicted)
    return found


def average_weights(residuals: np.ndarray, weights: np.ndarray, widths: Sequence[int] | None = None) -> np.ndarray:
    """Return weights w >= 0 with sum 1 of members from leave-one-out residuals (members, rows, outputs).

    They minimise the Huber loss of the residuals sum_k w_k r_k, summed over the rows with their sample weights, plus a
    multiple of sum_k (w_k s_k)^2, where s_k is the robust scale of the residuals of member k. It pulls the weights
    towards 1/s_k^2, as if the members were independent: small differences between them are noise. Another penalty, per
    width that the member has chosen, makes up for the optimism of its leave-one-out residuals.
    """
    largest = np.max(np.abs(residuals), axis=(0, 1))  # Squares in this unit neither overflow nor underflow.
    R = residuals / np.where(largest > 0, largest, 1.0)
    unit = np.sqrt(np.min(np.average(R**2, axis=1, weights=weights), axis=0))  # Outputs count equally.
    R = (R / np.where(unit > 0, unit, 1.0)).reshape(len(residuals), -1)
    v = np.repeat(weights / (weights.sum() * residuals.shape[2]), residuals.shape[2])
    optimism = OPTIMISM * np.zeros(len(R)) if widths is None else OPTIMISM * np.asarray(widths)
    own = 1.4826 * np.median(np.abs(R[:, v > 0]), axis=1)
    found, count = np.eye(len(R))[np.argmin(own)], len(R)
    for _ in range(ITERATIONS):
        size = np.abs(found @ R)
        scale = 1.4826 * float(np.median(size[v > 0]))
        factors = np.minimum(1.0, HUBER * scale / np.where(size > 0, size, 1.0)) if scale > 0 else np.ones_like(size)
        # A linear term c'w is (1'w)(c'w), because the weights sum to 1.
        more = (PULL * np.diag(own**2) + 0.5 * scale**2 * (optimism[:, None] + optimism[None, :])) / np.sum(v > 0)
        Q = (R * (v * factors)) @ R.T + more
        if not Q.any():
            return np.full(count, 1.0 / count)
        # A quadratic form q(w) has its minimum over w >= 0 with sum 1 in the direction of that of q(w) + (1 - sum w)^2
        # over all w >= 0: along the direction of a w with sum 1, the smallest value of the latter is q(w)/(1 + q(w)).
        values, vectors = np.linalg.eigh(Q / np.trace(Q))
        root = np.sqrt(np.maximum(values, EPS))[:, None] * vectors.T
        before, found = (
            found,
            scipy.optimize.nnls(np.vstack([root, np.ones(count)]), np.append(np.zeros(count), 1.0))[0],
        )
        found /= found.sum()
        if np.max(np.abs(found - before)) < 1e-6:
            break
    found = np.where(found < min(SMALLEST, 0.5 / count), 0.0, found)
    return np.asarray(found / found.sum())


def mixture_weights(own: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weights w >= 0 with sum 1 that maximise sum_i v_i log(sum_k w_k p_ki), by the EM algorithm.

    `own` are the leave-one-out probabilities (members, rows) of the true classes.
    """
    count = len(own)
    found = np.full(count, 1.0 / count)
    for _ in range(1000):
        share = found[:, None] * own
        counts = (share / share.sum(axis=0)) @ weights
        before, found = found, counts / counts.sum()
        if np.max(np.abs(found - before)) < 1e-8:
            break
    found = np.where(found < min(SMALLEST_SHARE, 0.5 / count), 0.0, found)
    return np.asarray(found / found.sum())
