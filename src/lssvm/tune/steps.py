"""Steps that choose what was left at None, by exact leave-one-out, k-fold cross-validation or held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sklearn.model_selection as model_selection
from scipy import optimize
from sklearn.base import clone
from sklearn.utils import Bunch

from .. import arrays, progress
from ..kernels import Choice
from ..problem import (
    Factor,
    Fit,
    Problem,
    Step,
    check_memory,
)
from .penalty import best_C, most_for_C, warn_at_edge, with_best_C
from .plan import PLAN
from .samples import covered_rows
from .scores import error_rate, validation_loss
from .widths import Search


class LeaveOneOut(Step):
    """Choose C and the kernel widths that the user left at None by the smallest exact leave-one-out error.

    After a step that had to choose them already, e.g. pruning, they are chosen again for the basis that it left.
    Machines on columns of the KKT system (`sparsify.InversePrune` and its kin) stay as they are.

    Parameters
    ----------
    search : {"auto", "gradient", "simplex", "grid"}
        How widths are searched. "gradient": L-BFGS on the logarithm of PRESS in the logarithms of C and of the widths,
        by the closed-form gradient, from the best common width of a coarse grid. "simplex": Nelder-Mead from the same
        start (Cawley & Talbot 2004). "grid": a common width only, refined between the points of the grid. "auto" is
        "gradient". C alone comes from the whole path of one factorisation.
    loss : {"auto", "squared"}
        "squared" is the weighted mean square of the left-out residuals; classes are the targets -1 and +1. "auto" is
        the same for numbers. For classes it ends with a common factor of the widths and C by the mean log loss of the
        left-out decision values f, with P = 1/(1 + exp(-slope f)) and the slope that suits them best: squares punish
        what is right by too much. Several classes are one question a column, with one slope.

    Notes
    -----
    A width left at None is a multiple of its column's standard deviation (of that of normal numbers with its quartiles,
    where few cells make most of it): one common multiple, or one a column where the kernel says ``ard=True``. So that
    many widths do not over-fit few rows, their logarithms carry a normal prior about the common one (of standard
    deviation 0.5 up to 50 rows a width, and in proportion to them beyond), a column without which log PRESS rises by
    less than 2 log(rows)/rows is dropped (its width is infinite), and all are given up for the common width
    where the gain of log PRESS is below 7 (number of widths - 1)/rows, or where, of e left-out classes that are wrong
    with the common width, fewer than 2 sqrt(e) (and one) come right. The search runs on samples of at most 6000 rows,
    with a part of the basis; C is then chosen on all. Robust weights, where asked for, are estimated again between
    searches, three times at least, by left-out residuals and 1.5 times their scale.

    ``path_`` holds ``widths`` (one row a leaf of the kernel), ``C``, ``loo`` (the mean squared left-out residual,
    absolute for robust weights, the outputs summed; the mean log loss of classes, with the targets of Platt (1999)),
    ``evaluations``, ``plan`` (what was done, in words) and, for classes, ``error_rate``.

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
        return self._choose(problem)[0]

    def _choose(
        self, problem: Problem, other: Search | None = None, *, on_all_rows: bool = True
    ) -> tuple[Problem, Search | None]:
        """The problem with what was open chosen, and the search that found it.

        `other` is the search of another kernel to begin from; not `on_all_rows`, C is that of the search, and nothing
        is said of it.
        """
        for name, allowed in (
            ("search", ("auto", "gradient", "simplex", "grid")),
            ("loss", ("auto", "squared")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"LeaveOneOut: {name} must be one of {allowed}, got {getattr(self, name)!r}.")
        problem = as_asked(problem)
        if problem.is_known or is_fixed(problem):
            return problem, None
        if problem.is_dual:
            check_memory(len(problem.rows), arrays.eigh_matrices(len(problem.rows)), problem.X)
        if problem.robust is not None:
            iterations = max(PLAN.robust_iterations, problem.robust.iterations)
            problem = problem.replace(robust=clone(problem.robust).set_params(iterations=iterations))
        record = Bunch(evaluations=0, plan=[])
        known, best = problem, None
        path_of_C = (
            problem.C is None
            and on_all_rows
            and (not problem.kernel.is_free or len(problem.rows) > covered_rows(problem))
        )
        last = progress.expect(lambda: most_for_C(problem) if path_of_C else 0.0)
        if problem.kernel.is_free:
            known, best = self._best_kernel(problem, record, other)
        if problem.C is None and (known.C is None or (on_all_rows and len(problem.rows) > covered_rows(problem))):
            with last:
                known = with_best_C(known, record, self.loss)
        elif problem.C is None:
            record.plan.append("C with the widths")
        if problem.C is None and on_all_rows:
            warn_at_edge(known)
        record.update(C=known.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in known.kernel.leaves])
        return known.replace(paths={**problem.paths, type(self).__name__: record}), best

    def _best_kernel(self, problem: Problem, record: Bunch, other: Search | None) -> tuple[Problem, Search]:
        """Search the widths of the kernel; of a `Choice`, of each at the first stage, then of the best."""
        kernels = problem.kernel.kernels if isinstance(problem.kernel, Choice) else [problem.kernel]
        searches = [Search(problem.replace(kernel=kernel), self, record) for kernel in kernels]
        first = searches[0] if other is None else other
        several = len(searches) > 1
        parts = [progress.expect(partial(search.most_at_first, search is first, several)) for search in searches]
        end = progress.expect(searches[0].most_later)
        lowest = math.inf
        for search, part in zip(searches, parts, strict=True):
            with part:
                if search is not first and first.free == search.free and self.search != "grid":
                    search.start_from(first)
                    if first is other:  # which has gone through all stages
                        search.done -= 1
                else:
                    search.start()
                    search.stages(1)
                if several and self.search != "grid":
                    search.compare(lowest)
                    lowest = min(lowest, search.value)
        if several:
            record.plan.append(f"{len(searches)} kernels compared")
        searches.sort(key=lambda search: search.value)
        best = searches[0]
        close = [search for search in searches[1:] if search.value < best.value + PLAN.close]
        with end:
            found = best.finish()
            for search in close:  # noise may have decided
                if search.challenge(best.value):
                    best, found = search, search.finish()
        record.free = best.free
        return found, best


class _Validation(Step):
    """C and a common factor of the widths, by the error of rows that are left out in larger parts."""

    needs_squares = True

    def __call__(self, problem: Problem) -> Problem:
        problem = as_asked(problem)
        if problem.is_known or is_fixed(problem):
            self._parts(problem)  # what does not fit the rows is said all the same
            return problem
        start = tuned(problem)
        free = start.paths["LeaveOneOut"].get("free", [False] * len(start.kernel.leaves))
        held = start
        if start.robust is not None:  # the weights of the whole machine are kept while parts are left out
            held = start.replace(weights=start.solve().weights)
        fitted, error = self._error(held, self._parts(problem))
        errors = lambda factor, values: np.array([error(factor, C) for C in values])  # noqa: E731
        best = (math.inf, start.kernel, start.C)

        def score(shift: float) -> float:
            nonlocal best
            sigmas = [
                math.exp(shift) * np.asarray(leaf.sigma) if moves else leaf.sigma
                for leaf, moves in zip(start.kernel.leaves, free, strict=True)
            ]
            kernel = start.kernel.with_widths(sigmas)
            C, value = best_C(fitted.replace(kernel=kernel, C=problem.C), errors)
            if value < best[0]:
                best = (value, kernel, C)
            return value

        shifts = np.linspace(-1.5, 1.5, 7) if any(free) else np.zeros(1)
        scores = [score(shift) for shift in shifts]
        if any(free):
            middle = shifts[int(np.argmin(scores))]
            bounds = (middle - 0.5, middle + 0.5)
            optimize.minimize_scalar(score, bounds=bounds, method="bounded", options={"maxiter": 8, "xatol": 0.05})
        value, kernel, C = best
        widths = [arrays.to_numpy(leaf.sigma) for leaf in kernel.leaves]
        path = Bunch(score=value, C=C, widths=widths, shifts=shifts, scores=np.array(scores))
        return start.replace(kernel=kernel, C=C, paths={**start.paths, type(self).__name__: path})

    def _parts(self, problem: Problem) -> list[np.ndarray]:
        """Numbers of the rows that are left out together."""
        raise TypeError(f"{type(self).__name__} does not define _parts(problem).")

    def _error(self, problem: Problem, parts: list[np.ndarray]) -> tuple[Problem, Callable[[Factor, float], float]]:
        """The problem to factorise, and the error of its factor for one C."""
        raise TypeError(f"{type(self).__name__} does not define _error(problem, parts).")


class KFold(_Validation):
    """Choose by k-fold cross-validation what the user left at None, from closed-form residuals: nothing is refitted.

    C, and a common factor of the widths that leave-one-out finds, minimise the mean square of the residuals of parts
    left out (of their absolute values with robust weights, which stay those of the whole machine), for classes the mean
    log loss of `LeaveOneOut`.

    Parameters
    ----------
    n_splits : int
        Number of parts, drawn at random; of classes each part gets its share.
    splitter : scikit-learn splitter or None
        Makes the parts instead, e.g. ``LeaveOneGroupOut()``; every row has to be used for training wherever it is not
        left out, and no row may be left out twice.
    groups : array or None
        Group of every row: rows of a group are left out together.
    random_state : int, RandomState or None
        Seed of the parts.

    Notes
    -----
    ``path_`` holds ``score`` and ``C`` and ``widths`` chosen, ``shifts`` (logarithms of the factors of the widths) and
    their ``scores``.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, datasets, kernels, tune
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> groups = np.arange(133) // 5  # rows that belong together
    >>> model = LSSVR(kernels.RBF(), steps=[tune.KFold(groups=groups)]).fit(X, y)
    >>> model.C_ > 0
    True
    """

    def __init__(self, n_splits: int = 10, splitter: Any = None, groups: Any = None, random_state: Any = 0) -> None:
        self.n_splits = n_splits
        self.splitter = splitter
        self.groups = groups
        self.random_state = random_state

    def _parts(self, problem: Problem) -> list[np.ndarray]:
        rows = problem.rows
        if not isinstance(self.n_splits, (int, np.integer)) or isinstance(self.n_splits, bool) or self.n_splits < 2:
            raise ValueError(f"KFold: n_splits must be an integer of at least 2, got {self.n_splits!r}.")
        splitter = self.splitter
        if isinstance(splitter, type):
            raise TypeError(f"KFold: splitter={splitter.__name__} is a class: write {splitter.__name__}().")
        if splitter is not None and not hasattr(splitter, "split"):
            raise TypeError(f"KFold: splitter={splitter!r} is no splitter of scikit-learn: n_splits is their number.")
        if isinstance(splitter, model_selection.PredefinedSplit):
            folds = np.asarray(splitter.test_fold)
            if folds.shape != (problem.X.shape[0],):
                raise ValueError(
                    f"KFold: splitter holds the folds of {len(folds)} rows, but there are {problem.X.shape[0]}."
                )
            splitter = model_selection.PredefinedSplit(folds[rows])
        groups = None if self.groups is None else np.asarray(self.groups)
        if groups is not None and groups.shape != (problem.X.shape[0],):
            raise ValueError(f"KFold: groups has shape {groups.shape}, but there are {problem.X.shape[0]} rows.")
        if splitter is None:
            units, name = (len(rows), "rows") if groups is None else (len(np.unique(groups[rows])), "groups")
            if self.n_splits > units:
                raise ValueError(f"KFold: n_splits={self.n_splits} parts of {units} {name}: lower n_splits.")
            counts = np.bincount(problem.labels[rows]) if problem.classification else np.zeros(0)
            stratified = problem.classification and counts[counts > 0].min() >= self.n_splits
            if groups is None:
                kind = model_selection.StratifiedKFold if stratified else model_selection.KFold
            else:
                kind = model_selection.StratifiedGroupKFold if stratified else model_selection.GroupKFold
            splitter = kind(self.n_splits, shuffle=True, random_state=self.random_state)
        targets = problem.labels[rows] if problem.classification else arrays.to_numpy(problem.y)[rows, 0]
        pairs = list(splitter.split(np.zeros((len(rows), 1)), targets, None if groups is None else groups[rows]))
        parts = [rows[test] for _, test in pairs]
        together = np.concatenate(parts)
        whole = all(len(train) + len(test) == len(rows) for train, test in pairs)
        if not whole or len(np.unique(together)) < len(together):
            raise ValueError(
                f"KFold: {splitter!r} leaves a row out twice, or trains on a part of the other rows: use a splitter "
                "such as KFold, StratifiedKFold or GroupKFold."
            )
        return parts

    @property
    def by_row(self) -> str:
        if self.groups is not None:
            return "groups"
        return "splitter" if isinstance(self.splitter, model_selection.PredefinedSplit) else ""

    def _error(self, problem: Problem, parts: list[np.ndarray]) -> tuple[Problem, Callable[[Factor, float], float]]:
        together = np.concatenate(parts)
        y, weights = (arrays.to_numpy(a)[together] for a in (problem.y, problem.weights))

        def error(factor: Factor, C: float) -> float:
            residuals = arrays.to_numpy(factor.block_residuals(parts, C))[together]
            return validation_loss(problem, y, residuals, weights)

        return problem, error


class Holdout(_Validation):
    """Choose what the user left at None by the error on rows held out; the machine is then fitted on all rows.

    C, and a common factor of the widths that leave-one-out finds, minimise the mean square of the residuals of the rows
    held out (of their absolute values with robust weights, which stay those of the whole machine), for classes the mean
    log loss of `LeaveOneOut`.

    Parameters
    ----------
    fraction : float
        Share of the rows held out, drawn at random; of classes each gives its share.
    random_state : int, RandomState or None
        Seed of the draw.

    Notes
    -----
    ``path_`` holds ``score`` and ``C`` and ``widths`` chosen, ``shifts`` (logarithms of the factors of the widths) and
    their ``scores``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, tune
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(), steps=[tune.Holdout(0.3)]).fit(X, y)
    >>> model.C_ > 0
    True
    """

    def __init__(self, fraction: float = 0.2, random_state: Any = 0) -> None:
        self.fraction = fraction
        self.random_state = random_state

    def _parts(self, problem: Problem) -> list[np.ndarray]:
        if not isinstance(self.fraction, (int, float, np.number)) or not 0 < self.fraction < 1:
            raise ValueError(f"Holdout: fraction must be a number between 0 and 1, got {self.fraction!r}.")
        return [held_out(problem, float(self.fraction), self.random_state)]

    def _error(self, problem: Problem, parts: list[np.ndarray]) -> tuple[Problem, Callable[[Factor, float], float]]:
        held = parts[0]
        rest = np.setdiff1d(problem.rows, held)
        inputs, y = arrays.take(problem.X, held), arrays.to_numpy(problem.y)[held]
        weights = arrays.to_numpy(problem.weights)[held]
        if problem.kernel.is_precomputed:
            inputs = arrays.take(inputs.T, rest).T

        known: list[Any] = [None, None]  # the factor that is asked about now, kept alive, and its columns

        def error(factor: Factor, C: float) -> float:
            if known[0] is not factor:
                known[:] = factor, factor.columns(inputs)
            solution = factor.system.solution(1.0 / C, careful=False)
            predictions = known[1] @ solution.coef + solution.intercept[None, :]
            return validation_loss(problem, y, y - arrays.to_numpy(predictions), weights)

        return problem.subset(rest), error


def held_out(problem: Problem, fraction: float, random_state: Any) -> np.ndarray:
    """Numbers of the rows held out, sorted; of classes each gives its share where it has two rows."""
    rows = problem.rows
    count = max(1, round(fraction * len(rows)))
    if count >= len(rows):
        raise ValueError(f"{len(rows)} rows are too few to hold {count} of them out: hold out fewer, or give more.")
    labels = problem.labels[rows] if problem.classification else None
    if labels is not None and (np.bincount(labels)[np.unique(labels)].min() < 2 or count < len(np.unique(labels))):
        labels = None
    _, held = model_selection.train_test_split(rows, test_size=count, random_state=random_state, stratify=labels)
    return np.sort(held)


def as_asked(problem: Problem) -> Problem:
    """The problem with what the user left at None open again, unless the machine cannot be tuned."""
    if problem.asked is None or is_fixed(problem):
        return problem
    return problem.replace(kernel=problem.asked[0], C=problem.asked[1])


def is_fixed(problem: Problem) -> bool:
    """True for machines that stay as they are: on columns of the KKT system, or with coefficients given."""
    return problem.reduced or problem.coefficients is not None


def tuned(problem: Problem, *, on_all_rows: bool = True) -> Problem:
    """The problem itself where all is known, else with what is still None chosen by `LeaveOneOut`.

    Not `on_all_rows`, C is that of the search of the widths, where there was one.
    """
    return problem if problem.is_known else LeaveOneOut()._choose(problem, on_all_rows=on_all_rows)[0]


def tuned_each(problem: Problem) -> list[Problem]:
    """The problem with every kernel of a `Choice`, what is open chosen on samples; a search begins where one ended."""
    kernels = problem.kernel.kernels if isinstance(problem.kernel, Choice) else [problem.kernel]
    found, search = [], None
    for kernel in kernels:
        known, search = LeaveOneOut()._choose(problem.replace(kernel=kernel), search, on_all_rows=False)
        found.append(known)
    return found


def describe(problem: Problem, fit: Fit) -> None:
    """Add to what `LeaveOneOut` recorded the leave-one-out error of the machine that came of it."""
    record = problem.paths.get(LeaveOneOut.__name__)
    if record is not None:
        loo, weights = arrays.to_numpy(fit.loo_residuals)[problem.rows], arrays.to_numpy(fit.weights)[problem.rows]
        y = arrays.to_numpy(problem.y)[problem.rows]
        record.loo = validation_loss(problem, y, loo, weights)
        if problem.classification:
            record.error_rate = error_rate(y, loo, weights)
