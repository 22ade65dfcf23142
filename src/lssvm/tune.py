"""Steps that choose what was left at None, by exact leave-one-out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import sklearn.model_selection as model_selection
from scipy import optimize
from sklearn.base import clone
from sklearn.utils import Bunch

from . import arrays, progress
from .arrays import EPS, NumericalError
from .kernels import Choice
from .losses import log_loss
from .problem import (
    Factor,
    Fit,
    Problem,
    Step,
    check_memory,
    column_spread,
    constant_columns,
)
from .progress import gradient_work, work
from .system import QUICK, Primal

__all__ = ["Holdout", "KFold", "LeaveOneOut"]

minimize: Any = optimize.minimize  # its stubs know neither bounds nor options together

WIDTHS = np.geomspace(0.2, 20.0, 7)  # in units of the columns' spread and of sqrt(number of columns)
RIDGES = np.geomspace(1e-9, 1e3, 37)  # in units of the kernel's variance over the rows
ZOOMS = 2  # grids of C about the best point, each four times finer
WIDTH_BOUND = math.log(300.0)  # spreads: a wider column gains little, and the C it asks for frees the narrow ones
WIDTH_PRIOR = 0.5  # standard deviation of a log width about the common one,
WIDTH_ROWS = 50  # where there are that many rows a width, or fewer; it grows in proportion beyond
WORTH = 7.0  # gain of log PRESS, a width and over the number of rows, for which many widths are taken
WITHOUT = math.log(1e6)  # width of a column that is left out
UNEQUAL = 100.0  # spreads of columns differ by more: a kernel without widths hardly sees the small ones
STAYED = 3  # columns, from the widest on, that have to stay before narrower ones are not asked about
START_ROWS = 300  # rows of the first look at common widths
STAGES = ((1000, 150), (3000, 500), (6000, 1000))  # rows and basis size of the searches by gradient
ITERATIONS = (60, 20, 15)  # at most, in each of them; the first also where the basis is the rows,
AGAIN = 15  # where many widths are tried again on more rows,
EARLY = 6  # and where widths have few rows each (WIDTH_ROWS), so that going on would follow the noise
COMPARISON = {True: (500, None), False: (2000, 250)}  # rows and basis size by which kernels are compared; dual or not
HOPELESS = 0.1  # a kernel whose log PRESS is that far above another's, with the other's widths, is not searched further
CLOSE = 0.05  # kernels whose log PRESS is that close to the best are compared again at the end of their searches
WITHIN_REACH = 0.01  # gain of log PRESS by a common factor of widths found on other rows, and C: 0.002 is usual
FLATNESS = 0.05  # a step that gains less than this over the number of rows ends a search: noise is larger
LENIENCE = 1.5  # scale of the residuals by which rows are weighted in a robust search, in units of the robust scale
ROBUST_ITERATIONS = 3  # at least: what suits clean rows may follow an outlier before it has lost its weight
FEW = 20  # rows of each class that are in every sample
CLASS_VALUES = 2**24  # left-out decision values of classes that are held at a time
DENSE_STAGE = 1500  # rows of the last search where the basis is the rows


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
    less than 2 log(rows)/rows is left out (its width is a million spreads), and all are given up for the common width
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
        self, problem: Problem, other: _Search | None = None, *, on_all_rows: bool = True
    ) -> tuple[Problem, _Search | None]:
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
        problem = _as_asked(problem)
        if problem.is_known or _is_fixed(problem):
            return problem, None
        if problem.is_dual:
            check_memory(len(problem.rows), arrays.eigh_matrices(len(problem.rows)), problem.X)
        if problem.robust is not None:
            iterations = max(ROBUST_ITERATIONS, problem.robust.iterations)
            problem = problem.replace(robust=clone(problem.robust).set_params(iterations=iterations))
        record = Bunch(evaluations=0, plan=[])
        known, best = problem, None
        path_of_C = (
            problem.C is None and on_all_rows and (not problem.kernel.is_free or len(problem.rows) > _covered(problem))
        )
        last = progress.expect(lambda: most_for_C(problem) if path_of_C else 0.0)
        if problem.kernel.is_free:
            known, best = self._best_kernel(problem, record, other)
        if problem.C is None and (known.C is None or (on_all_rows and len(problem.rows) > _covered(problem))):
            with last:
                known = with_best_C(known, record, self.loss)
        elif problem.C is None:
            record.plan.append("C with the widths")
        if problem.C is None and on_all_rows:
            warn_at_edge(known)
        record.update(C=known.C, widths=[arrays.to_numpy(leaf.sigma) for leaf in known.kernel.leaves])
        return known.replace(paths={**problem.paths, type(self).__name__: record}), best

    def _best_kernel(self, problem: Problem, record: Bunch, other: _Search | None) -> tuple[Problem, _Search]:
        """Search the widths of the kernel; of a `Choice`, of each at the first stage, then of the best."""
        kernels = problem.kernel.kernels if isinstance(problem.kernel, Choice) else [problem.kernel]
        searches = [_Search(problem.replace(kernel=kernel), self, record) for kernel in kernels]
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
        close = [search for search in searches[1:] if search.value < best.value + CLOSE]
        with end:
            found = best.finish()
            for search in close:  # noise may have decided
                if search.challenge(best.value):
                    best, found = search, search.finish()
        record.free = best.free
        return found, best


class _Validation(Step):
    """C and a common factor of the widths, by the error of rows that are left out in larger parts."""

    def __call__(self, problem: Problem) -> Problem:
        problem = _as_asked(problem)
        if problem.is_known or _is_fixed(problem):
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


def _as_asked(problem: Problem) -> Problem:
    """The problem with what the user left at None open again, unless the machine cannot be tuned."""
    if problem.asked is None or _is_fixed(problem):
        return problem
    return problem.replace(kernel=problem.asked[0], C=problem.asked[1])


def _is_fixed(problem: Problem) -> bool:
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


class _Search:
    """The search of one kernel's widths, and of C where it is None.

    The vector of the search holds the logarithms of the multiples of the columns' spread, leaf by leaf (one, or one a
    column), then that of C.
    """

    def __init__(self, problem: Problem, step: LeaveOneOut, record: Bunch) -> None:
        self.original = self.problem = problem
        if not problem.classification:
            y, rows = arrays.to_numpy(problem.y), problem.rows
            deviation = y - y[rows].mean(axis=0)
            unit = float(np.max(np.abs(deviation[rows]), initial=0.0)) or 1.0
            self.problem = problem.replace(y=arrays.like(deviation / unit, problem.y))  # squares of any unit in range
        self.method = "gradient" if step.search == "auto" else step.search
        self.record = record
        self.spread = column_spread(problem)
        self.constant = constant_columns(problem)
        self.free = [leaf.sigma is None for leaf in problem.kernel.leaves]
        self.many = [bool(leaf.ard) for leaf in problem.kernel.leaves]  # may have a width a column
        self.ard = [False] * len(self.many)  # has now
        self.value = math.inf
        self.done = 0
        self.out = np.empty(0, dtype=bool)  # widths of columns that are left out
        self.decided = 0  # rows by which they were
        self.given_up: tuple[np.ndarray, int] | None = None  # widths of columns that were not worth it, on so many rows
        self.own = True  # whether the widths come of a search of this kernel
        self.widths = np.empty(0)
        self.moderate = math.inf  # logarithm of the best common width that is not very wide
        self.C = problem.C or 1.0
        self.loss = step.loss
        self.by_log_loss = False  # squares lead the search, for classes a log loss ends it

    # Vectors ---------------------------------------------------------------------------------------------------------
    def _at(self, logs: np.ndarray, machine: Problem, C: float | None = None) -> Problem:
        """The machine with the widths of a vector, and with C if given."""
        sigmas, place = [], 0
        for leaf, free, size in zip(machine.kernel.leaves, self.free, self._sizes(), strict=True):
            sigmas.append(np.exp(logs[place : place + size]) * self.spread if free else leaf.sigma)
            place += size
        return machine.replace(kernel=machine.kernel.with_widths(sigmas), C=C)

    def _at_vector(self, logs: np.ndarray, machine: Problem) -> Problem:
        """The machine with the widths and C of a vector."""
        return self._at(logs, machine, machine.C if self.problem.C is not None else math.exp(logs[-1]))

    def _sizes(self) -> list[int]:
        d = len(self.spread)
        return [0 if not free else d if ard else 1 for free, ard in zip(self.free, self.ard, strict=True)]

    def _vector(self) -> np.ndarray:
        return self.widths if self.problem.C is not None else np.append(self.widths, math.log(self.C))

    def _prior(self, logs: np.ndarray, rows: int) -> tuple[float, np.ndarray]:
        """-2/rows times the logarithm of the normal prior of many widths about their mean."""
        value, gradient, place = 0.0, np.zeros_like(logs), 0
        for size in self._sizes():
            if size > 1:
                kept = place + np.flatnonzero(logs[place : place + size] < WITHOUT)
                deviation = logs[kept] - logs[kept].mean() if len(kept) else logs[kept]
                spread = WIDTH_PRIOR * max(1.0, rows / (WIDTH_ROWS * max(len(kept), 1)))
                value += float(deviation @ deviation) / (spread**2 * rows)
                gradient[kept] = 2.0 * deviation / (spread**2 * rows)
            place += size
        return value, gradient

    def _objective(self, logs: np.ndarray, machine: Problem) -> tuple[float, np.ndarray]:
        """The criterion plus the prior, and its gradient."""
        self.record.evaluations += 1
        prior, prior_gradient = self._prior(logs, len(machine.rows))
        try:
            factor = self._at_vector(logs, machine).factorise(quick=True)
            value, in_widths, in_C = factor.criterion(classes=self.by_log_loss)
        except NumericalError:  # nothing finite there: the line search steps back
            return 1e10, np.zeros_like(logs)
        gradient: list[float] = []
        for row, free, size in zip(arrays.to_numpy(in_widths), self.free, self._sizes(), strict=True):
            gradient.extend([] if not free else row if size > 1 else [row.sum()])
        if self.problem.C is None:
            gradient.append(in_C)
        return value - self._unit(machine) + prior, np.array(gradient) + prior_gradient

    def _value(self, logs: np.ndarray, machine: Problem) -> float:
        """The objective without its gradient."""
        self.record.evaluations += 1
        try:
            factor = self._at_vector(logs, machine).factorise(quick=True)
        except NumericalError:
            return 1e10
        loo = arrays.to_numpy(factor.system.solution(1.0 / factor.C, careful=False).loo_residuals)
        y, weights = (arrays.to_numpy(a)[factor.rows] for a in (machine.y, machine.weights))
        if self.by_log_loss:
            value = math.log(validation_loss(machine, y, loo, weights))
        else:
            value = math.log(float(np.sum(weights @ loo**2)) or arrays.EPS)
        return value - self._unit(machine) + self._prior(logs, len(machine.rows))[0]

    def _unit(self, machine: Problem) -> float:
        """log of the weighted sum of squares about the mean: no unit of targets or weights moves the stopping rule."""
        if self.by_log_loss:
            return 0.0
        y, weights = (arrays.to_numpy(a)[machine.rows] for a in (machine.y, machine.weights))
        deviation = y - weights @ y / weights.sum()
        largest = float(weights.max())
        return math.log(float(np.sum((weights / largest) @ deviation**2)) or 1.0) + math.log(largest)

    # How long it may take --------------------------------------------------------------------------------------------
    def most_at_first(self, has_stage: bool, compared: bool) -> float:
        """What the coarse grid, the first stage and a comparison with other kernels take at most, as in `work`."""
        many = ITERATIONS[0] + EARLY if any(self.many) and len(self.spread) > 1 else 0
        most = len(WIDTHS) * work(min(START_ROWS, len(self.problem.rows)), None, every=True)
        if has_stage:
            most += self._most(*_stages(self.problem)[0], 15 + many, paths=2)
        if compared:
            most += self._most(*_comparison(self.problem), 15)
        return most

    def most_later(self) -> float:
        """The same for what follows; without a basis, the usual number of steps: there may be three times more."""
        stages = _stages(self.problem)
        later = sum(self._most(*stage, most) for stage, most in zip(stages[1:], ITERATIONS[1:], strict=False))
        if self.problem.robust is not None:
            later += self._most(*stages[-1], EARLY)
        if _errors_to_choose_by(self.problem, self.loss) is class_errors:
            later += self._most(*stages[-1], EARLY, paths=2)
        return later

    def _most(self, rows: int, basis: int | None, steps: int, paths: int = 0) -> float:
        """So many steps by gradient, robust weights before them, and searches of C, on the machine of a stage."""
        rows = min(rows, len(self.problem.rows))
        step = work(rows, basis) + gradient_work(rows, basis, len(self.spread))
        weighted = 0 if self.problem.robust is None else 1 + self.problem.robust.iterations
        return steps * step + weighted * work(rows, basis) + paths * work(rows, basis, every=True)

    # Stages ----------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """The best common width of a coarse grid, and its C, on few rows."""
        scores = self._grid(np.zeros(sum(self._sizes())))
        self.moderate = min(scores[: len(WIDTHS) // 2 + 1])[1]
        self.value, log_width, self.C = min(scores)
        # leaves of one kind that start from one width have one gradient, and would never part
        free = [repr(leaf) for leaf, is_free in zip(self.problem.kernel.leaves, self.free, strict=True) if is_free]
        places = [free[:i].count(leaf) - (free.count(leaf) - 1) / 2.0 for i, leaf in enumerate(free)]
        self.widths = log_width + math.log(4.0) * np.array(places)

    def start_from(self, other: _Search) -> None:
        """Begin where the search of another kernel stands: the same columns matter, their common factor is another."""
        self.ard, self.out, self.decided, self.done = other.ard, other.out.copy(), other.decided, other.done
        self.given_up, self.own = other.given_up, False
        out = other._left_out()
        shape = np.where(out, WITHOUT, other.widths - (other.widths[~out].mean() if not out.all() else 0.0))
        self.value, log_width, self.C = min(self._grid(shape))
        self.widths = np.where(out, WITHOUT, shape + log_width)

    def _grid(self, shape: np.ndarray) -> list[tuple[float, float, float]]:
        """Value, logarithm of the factor, and C for common factors of widths of a given shape, on few rows."""
        sample = self.problem.subset(_sample(self.problem, START_ROWS))
        if not self.problem.is_dual:
            sample = sample.with_basis()
        kept = shape < WITHOUT
        unit = math.log(max(kept.sum() if any(self.ard) else np.sum(~self.constant), 1)) / 2.0
        scores: list[tuple[float, float, float]] = []

        def score(log_width: float) -> float:
            logs = np.where(kept, shape + log_width, shape)
            C, value = best_C(self._at(logs, sample, sample.C))
            self.record.evaluations += 1
            scores.append((value, log_width, C))
            return value

        for width in WIDTHS:
            score(math.log(width) + unit)
        if self.method == "grid":
            step = math.log(WIDTHS[1] / WIDTHS[0])
            bounds = (min(scores)[1] - step, min(scores)[1] + step)
            optimize.minimize_scalar(score, bounds=bounds, method="bounded", options={"maxiter": 10, "xatol": 0.05})
        self.record.plan.append(f"{len(WIDTHS)} common widths on {len(sample.rows)} rows")
        return scores

    def stages(self, end: int | None = None) -> None:
        """Search stage by stage, up to number `end`."""
        if self.method != "grid":
            for number in range(self.done, len(_stages(self.problem)) if end is None else end):
                self.stage(number)

    def stage(self, number: int) -> None:
        """Search on the machine of one stage."""
        rows, basis = _stages(self.problem)[number]
        machine = self._machine(rows, basis)
        if number == 0:
            self._first_stage(machine)
        else:
            most = ITERATIONS[0 if machine.is_dual else number]
            self._refine(machine, self._at_most(machine, most))
            if machine.is_dual and self._leave_out(machine):
                self.value = self._minimise(machine, self._at_most(machine, most))
        self.done = max(self.done, number + 1)
        kind = "rows" if machine.is_dual else f"rows and {machine.basis_size} basis points"
        widths = "1 width" if len(self.widths) == 1 else f"{len(self.widths)} widths"
        self.record.plan.append(f"{widths} by {self.method} on {len(machine.rows)} {kind}")

    def _at_most(self, machine: Problem, iterations: int) -> int:
        """So many iterations, or few where the widths have few rows each."""
        return iterations if len(machine.rows) >= WIDTH_ROWS * np.sum(~self._left_out()) else EARLY

    def _refine(self, machine: Problem, iterations: int) -> bool:
        """Search from where we are; what was left out or given up on half as many rows or fewer is tried again.

        True where every column was asked about then.
        """
        out = self._left_out()
        again = bool(len(machine.rows) >= 2 * self.decided and (out & ~self._constants()).any() and not out.all())
        if again:
            wide = min(self.widths[~out].max() + 1.0, WIDTH_BOUND)
            self.out = self._constants()
            self.widths = np.where(out & ~self.out, wide, self.widths)
        self.value = self._minimise(machine, iterations)
        without = self._without(machine, out, self.value) if again else None
        if without is not None:  # as a rule they are left out again
            self.value, again = without, False
        elif again and self._leave_out(machine):
            self.value = self._minimise(machine, iterations)
        if self.given_up is not None and len(machine.rows) >= 2 * self.given_up[1]:
            self._try_many(machine, self.given_up[0], AGAIN)
        return again

    def compare(self, lowest: float) -> None:
        """The value of this kernel on a machine like the final one; `lowest` is that of others."""
        machine = self._machine(*_comparison(self.problem))
        dense = self.problem.is_dual or arrays.on_accelerator(self.problem.X)
        if dense or not self.own:  # else a look at a common factor of the widths is no news
            self.value = self._minimise(machine, 5, together=True)
            if self.own or self.value >= lowest + HOPELESS:
                return
        again = self._refine(machine, 5)
        if not again and self._leave_out(machine):
            self.value = self._minimise(machine, 5)

    def challenge(self, value: float) -> bool:
        """Whether this kernel is better on the last machine than a value found there."""
        if self.method == "grid":
            return False
        machine = self._machine(*_stages(self.problem)[-1])
        self.value = self._value(self._vector(), machine)
        if self.value < value + WITHIN_REACH:
            self.value = self._minimise(machine, 3, together=True)
        return self.value < value

    def _machine(self, rows: int, basis: int | None) -> Problem:
        """The problem on a sample of rows with a part of the basis; robust weights are those of the machine so far."""
        machine = self.problem.subset(_sample(self.problem, rows))
        if basis is not None:
            draw = np.random.RandomState(0)
            if machine.is_dual:
                machine = machine.with_basis(draw.permutation(machine.rows)[:basis])
            else:
                part = np.sort(draw.permutation(machine.basis_size)[:basis])
                machine = machine.with_basis(points=arrays.take(machine.points, part))
        if machine.robust is not None:
            machine = machine.replace(weights=search_weights(self._at_vector(self._vector(), machine)), robust=None)
        return machine

    def _first_stage(self, machine: Problem) -> None:
        self._choose_C(machine)
        self.value = self._minimise(machine, 15)
        sizes = [len(self.spread) if many else 1 for many, free in zip(self.many, self.free, strict=True) if free]
        if sum(sizes) == len(self.widths):
            self.ard = self.many
            return
        # A very wide common width and a large C are a polynomial: where most columns do not matter that is the best
        # that one width can do, and few steps lead out of it. Many widths start from a moderate one.
        self._try_many(machine, np.repeat(self._moderate_widths(), sizes), ITERATIONS[0])

    def _moderate_widths(self) -> np.ndarray:
        """The widths, all narrower by the factor that makes the widest moderate."""
        return self.widths - max(max(self.widths) - self.moderate, 0.0)

    def _constants(self) -> np.ndarray:
        """The widths of columns that do not vary, and are left out from the start."""
        parts = [self.constant if size > 1 else np.zeros(size, dtype=bool) for size in self._sizes()]
        return np.concatenate([np.zeros(0, dtype=bool), *parts])  # a kernel may have no widths at all

    def _try_many(self, machine: Problem, widths: np.ndarray, iterations: int) -> None:
        """Search a width a column from there, and take them if they are worth it."""
        common = self.widths, self.C, self.value
        errors = self._errors(machine)
        self.ard = self.many
        self.out = self._constants()
        self.widths = np.where(self.out, WITHOUT, widths)
        self._choose_C(machine)
        self.value = self._minimise(machine, iterations)
        if self._leave_out(machine):
            self.value = self._minimise(machine, self._at_most(machine, ITERATIONS[0]))
        rows = len(machine.rows)
        gain = common[2] - (self.value - self._prior(self._vector(), rows)[0])
        worth = gain >= WORTH * (np.sum(~self._constants()) - len(common[0])) / rows
        if machine.classification:
            worth &= errors - self._errors(machine) >= max(1.0, 2.0 * math.sqrt(errors))
        self.given_up = None if worth else (np.minimum(self.widths, WIDTH_BOUND), rows)
        if not worth:
            self.widths, self.C, self.value = common
            self.ard = [False] * len(self.many)
            self.out = np.zeros(len(self.widths), dtype=bool)
            self.record.plan.append(f"one common width: more are not worth it on {rows} rows")

    def _choose_C(self, machine: Problem) -> None:
        """The best C for the widths as they are: that of another machine may be far from it."""
        if self.problem.C is None:
            self.C = best_C(self._at(self.widths, machine))[0]

    def _errors(self, machine: Problem) -> float:
        """Number of rows whose class is another one when they are left out; 0 for numbers."""
        if not machine.classification:
            return 0.0
        factor = self._at_vector(self._vector(), machine).factorise(quick=True)
        loo = arrays.to_numpy(factor.system.solution(1.0 / factor.C, careful=False).loo_residuals)
        y, weights = (arrays.to_numpy(a)[factor.rows] for a in (machine.y, machine.weights))
        return len(factor.rows) * error_rate(y, loo, weights)

    def _left_out(self) -> np.ndarray:
        return self.out if len(self.out) == len(self.widths) else np.zeros(len(self.widths), dtype=bool)

    def _leave_out(self, machine: Problem) -> bool:
        """Leave out columns where nothing speaks against it.

        The widest together, then by halves, then one by one, until so many have to stay that narrower ones will, too.
        """
        if sum(self._sizes()) <= len(self.free) or self.out.all():
            return False
        before, value = int(self.out.sum()), self.value
        left = np.argsort(-self.widths)[before:]
        size = int(np.sum(2.0 * self.widths[left] >= self.widths[left[0]] + self.widths[left[-1]]))
        stayed = 0
        while len(left) and stayed < STAYED:
            without = self._without(machine, left[:size], value)
            if without is not None:
                value, stayed, left = min(value, without), 0, left[size:]
            elif size == 1:
                stayed += 1
                left = left[1:]
            size = max(1, size // 2)
        return int(self.out.sum()) > before

    def _without(self, machine: Problem, columns: np.ndarray, value: float) -> float | None:
        """Leave out these columns if log PRESS rises by less than 2 log(rows)/rows from a value; what it is then."""
        logs = self._vector()
        logs[: len(self.widths)][columns] = WITHOUT
        without = self._value(logs, machine)
        if without - value >= 2.0 * math.log(len(machine.rows)) / len(machine.rows):
            return None
        self.widths[columns], self.out[columns] = WITHOUT, True
        self.decided = max(self.decided, len(machine.rows))
        return without

    def _minimise(self, machine: Problem, iterations: int, *, together: bool = False) -> float:
        """Move widths (all of them by a common factor with `together`) and C to the smallest objective near by."""
        start, out = self._vector(), self._left_out()
        if not len(start):  # all is given: a kernel of a `Choice`
            return self._value(start, machine)
        moves = np.eye(len(start))  # of the vector, in what is searched
        middle = math.log(kernel_variance(self._at_vector(start, machine)) * _mean_weight(machine))
        bounds = [(WITHOUT, WITHOUT) if left_out else (-WIDTH_BOUND, WIDTH_BOUND) for left_out in out]
        if self.problem.C is None:
            bounds.append((-math.log(RIDGES[-1]) - middle, -math.log(RIDGES[0]) - middle))
        start = np.clip(start, *np.array(bounds).T)
        if together:
            moves = np.vstack([np.append(~out, np.zeros(len(start) - len(out))), moves[len(out) :]]).T
        bounds = [(low - at, high - at) for (low, high), at in zip(bounds, start, strict=True)]
        if together:
            bounds = [(-3.0, 3.0), *bounds[len(out) :]]

        def objective(step: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self._objective(start + moves @ step, machine)
            return value, moves.T @ gradient

        zero = np.zeros(moves.shape[1])
        if self.method == "simplex":
            found = minimize(
                lambda step: self._value(start + moves @ step, machine),
                zero,
                method="Nelder-Mead",
                bounds=bounds,
                options={"maxfev": 40 * len(zero), "xatol": 1e-2, "fatol": 1e-4},
            )
        else:
            options = {"maxiter": iterations, "ftol": FLATNESS / len(machine.rows)}
            found = minimize(objective, zero, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        logs = start + moves @ found.x
        self.widths = logs if self.problem.C is not None else logs[:-1]
        self.C = self.C if self.problem.C is not None else math.exp(logs[-1])
        return float(found.fun)

    def finish(self) -> Problem:
        """The stages that are left, then the problem with widths and C."""
        self.stages()
        if self.problem.robust is not None and self.method != "grid":  # with weights that follow from what was found
            self._refine(self._machine(*_stages(self.problem)[-1]), EARLY)
        if _errors_to_choose_by(self.problem, self.loss) is class_errors:
            self._settle()
        return self._at_vector(self._vector(), self.original)

    def _settle(self) -> None:
        """Move all widths by a common factor, and C, to the smallest log loss of classes on the last machine.

        From a common width that is very wide, or from the moderate one: leave-one-out has several minima, and on few
        rows the former is often as good as any.
        """
        machine = self._machine(*_stages(self.problem)[-1])
        starts = [self.widths]
        if not any(self.ard) and self.moderate < max(self.widths, default=-math.inf) - 0.5:
            starts.append(self._moderate_widths())
        found = [best_C(self._at(widths, machine, machine.C), class_errors) for widths in starts]
        self.record.evaluations += len(found)
        best = int(np.argmin([loss for _, loss in found]))
        self.widths, self.C = starts[best], found[best][0]
        if self.method != "grid":
            self.by_log_loss = True
            self._minimise(machine, EARLY, together=True)
            self.by_log_loss = False
        self.record.plan.append("a common factor and C by the log loss of classes")


def _stages(problem: Problem) -> list[tuple[int, int | None]]:
    """Rows and basis size (None: the rows) of the machines on which a problem is searched, one after the other."""
    rows, basis = len(problem.rows), problem.basis_size
    stages: list[tuple[int, int | None]] = []
    if problem.is_dual:
        first, points = STAGES[0]
        if rows > 2 * points:
            stages.append((min(rows, first), points))
        stages.append((min(rows, DENSE_STAGE), None))
    else:
        for most_rows, most_points in STAGES:
            if not stages or basis > (stages[-1][1] or 0):
                stages.append((min(rows, most_rows), min(basis, most_points)))
    # an accelerator takes as long for a small machine as for a large one
    return stages[-1:] if arrays.on_accelerator(problem.X) else stages


def _comparison(problem: Problem) -> tuple[int, int | None]:
    """Rows and basis size of the machine by which kernels are compared."""
    return _stages(problem)[-1] if arrays.on_accelerator(problem.X) else COMPARISON[problem.is_dual]


def _covered(problem: Problem) -> int:
    """The number of rows that the last stage of the search covers, with the whole basis."""
    rows, basis = _stages(problem)[-1]
    return rows if basis is None or basis == problem.basis_size else 0


def _in_memory(problem: Problem) -> Problem:
    """The problem, or as many of its rows as memory holds with all of their columns."""
    if problem.fits_memory:
        return problem
    return problem.subset(_sample(problem, (arrays.memory(problem.X) or 2**30) // (32 * problem.basis_size)))


def _sample(problem: Problem, size: int) -> np.ndarray:
    """About `size` of the rows that count, always the same ones, some of every class."""
    return with_every_class(problem, np.random.RandomState(0).permutation(problem.rows), size)


def with_every_class(problem: Problem, order: np.ndarray, size: int) -> np.ndarray:
    """The first rows of an order, sorted; of a class also the first few, so that a rare one is not left out."""
    if not problem.classification or size >= len(order):
        return np.sort(order[:size])
    labels = problem.labels[order]
    few = [order[labels == label][:FEW] for label in np.unique(labels)]
    return np.unique(np.concatenate([order[:size], *few]))


def with_best_C(problem: Problem, record: Bunch, loss: str = "auto") -> Problem:
    """The problem with the best C on all rows that memory holds, which is recorded; its own C is where to start.

    Robust weights and C are chosen in turns.
    """
    machine = _in_memory(problem.replace(C=None))
    record.plan.append(f"C on {'all' if len(machine.rows) == len(problem.rows) else len(machine.rows)} rows")
    C, errors, factor = problem.C, _errors_to_choose_by(problem, loss), None
    if machine.robust is None or C is None:
        guess = None if C is None else C * len(machine.rows) / min(_stages(machine)[-1][0], len(machine.rows))
        C, _, factor = _best_C(machine, errors, guess)  # C grows about as the rows do, those of the search being fewer
    if machine.robust is not None:
        for _ in range(ROBUST_ITERATIONS):
            C = best_C(machine.replace(weights=search_weights(machine.replace(C=C)), robust=None), errors)[0]
    known = problem.replace(C=C)
    if factor is not None and machine.robust is None and len(machine.rows) == len(problem.rows):
        known = known.replace(fitted=_sure_fit(factor, C))
    record.C = C
    return known


def most_for_C(problem: Problem) -> float:
    """What `with_best_C` takes at most, as in `work`."""
    rows, basis = len(problem.rows), None if problem.is_dual else problem.basis_size
    path = work(rows, basis, every=True)
    if problem.robust is None:
        return path
    solves = 1 + max(ROBUST_ITERATIONS, problem.robust.iterations)
    return path + ROBUST_ITERATIONS * (path + solves * work(rows, basis))


def search_weights(problem: Problem) -> Any:
    """Robust weights to search with: of the left-out residuals, in units of a larger scale than the machine's own.

    By its own residuals a close fit flags ever more rows, which it then skips; and what lies near the corner of the
    weight function is an outlier to one kernel, not to the next.
    """
    assert problem.robust is not None
    residuals = arrays.to_numpy(problem.solve().loo_residuals)
    scales = problem.robust.scales(residuals, arrays.to_numpy(problem.weights))
    return problem.weights * arrays.like(problem.robust.from_scales(residuals, LENIENCE * scales), problem.weights)


def warn_at_edge(problem: Problem) -> None:
    """A warning where C ended at an edge of its range."""
    assert problem.C is not None
    ridge = 1.0 / (problem.C * kernel_variance(problem) * _mean_weight(problem))
    if not 1.01 * RIDGES[0] < ridge < 0.99 * RIDGES[-1]:
        what = "the targets look unrelated to the inputs"
        if ridge < 1.0:
            part = "kernel" if problem.is_dual else "basis"
            what = f"the targets look noise-free, or the {part} is too small to over-fit"
        reason = f"{what}. Give C{' or sigma' if problem.kernel.leaves else ''}."
        ratio = _ratio_of_spreads(problem)
        if ridge < 1.0 and not problem.kernel.leaves and ratio > UNEQUAL:
            reason = (
                f"{what}. Scale the columns: their spreads differ by a factor of {ratio:.0e}, as the kernel sees them."
            )
        copies = _copies(problem) if ridge < 1.0 else 0
        if copies:
            reason = (
                f"{copies} of {len(problem.rows)} rows, targets included, occur before, and leaving one out leaves the "
                "other in. Drop them (sample_weight can count them), or choose by tune.KFold(groups=...)."
            )
        message = f"C = {problem.C:.3g} is at the edge of the range searched: {reason}"
        warnings.warn(message, stacklevel=arrays.user_level())


def _ratio_of_spreads(problem: Problem) -> float:
    """The largest spread of a column over the smallest."""
    if problem.kernel.is_precomputed:
        return 1.0
    spread = column_spread(problem)[~constant_columns(problem)]
    return float(np.max(spread, initial=0.0) / np.min(spread)) if len(spread) else 1.0


def _copies(problem: Problem) -> int:
    """The number of rows that are, with their targets, copies of others."""
    values = (arrays.to_numpy(arrays.take(array, problem.rows)) for array in (problem.X, problem.y))
    rows = np.hstack(list(values))
    return len(rows) - len(np.unique(rows, axis=0))


def describe(problem: Problem, fit: Fit) -> None:
    """Add to what `LeaveOneOut` recorded the leave-one-out error of the machine that came of it."""
    record = problem.paths.get(LeaveOneOut.__name__)
    if record is not None:
        loo, weights = arrays.to_numpy(fit.loo_residuals)[problem.rows], arrays.to_numpy(fit.weights)[problem.rows]
        y = arrays.to_numpy(problem.y)[problem.rows]
        record.loo = validation_loss(problem, y, loo, weights)
        if problem.classification:
            record.error_rate = error_rate(y, loo, weights)


def error_rate(y: np.ndarray, loo: np.ndarray, weights: np.ndarray) -> float:
    """Share of the rows whose class is another one when they are left out."""
    left_out = y - loo
    wrong = np.argmax(left_out, axis=1) != np.argmax(y, axis=1) if y.shape[1] > 1 else (left_out * y <= 0)[:, 0]
    return float(np.average(wrong, weights=weights))


def loo_errors(factor: Factor, C: Sequence[float]) -> np.ndarray:
    """Mean loss of the left-out residuals of the rows that count, in units in which their squares stay in range."""
    problem = factor.problem
    y, weights = (arrays.to_numpy(a)[factor.rows] for a in (problem.y, problem.weights))
    unit = float(np.max(np.abs(y - y.mean(axis=0)), initial=0.0)) or 1.0
    errors = np.zeros(len(C))
    for rows, residuals in factor.left_out(C):
        scaled = arrays.to_numpy(residuals) / unit
        errors += weights[rows] @ _loss(problem, scaled).sum(axis=2)
    return np.where(np.isfinite(errors), errors / weights.sum(), np.inf)


def class_errors(factor: Factor, C: Sequence[float]) -> np.ndarray:
    """`losses.log_loss` of left-out decision values of classes for every C, so many at a time as memory holds."""
    y, weights = (arrays.to_numpy(a)[factor.rows] for a in (factor.problem.y, factor.problem.weights))
    several = max(1, CLASS_VALUES // y.size)
    errors = []
    for start in range(0, len(C), several):
        blocks = [arrays.to_numpy(residuals) for _, residuals in factor.left_out(C[start : start + several])]
        errors.append(log_loss(y[:, None, :] - np.concatenate(blocks), y, weights)[0])
    return np.concatenate(errors)


def _errors_to_choose_by(problem: Problem, loss: str) -> Callable[[Factor, Sequence[float]], np.ndarray]:
    """What C is chosen by in the end."""
    return class_errors if problem.classification and loss == "auto" else loo_errors


def best_C(
    problem: Problem, errors: Callable[[Factor, Sequence[float]], np.ndarray] = loo_errors
) -> tuple[float, float]:
    """The C with the smallest error (or the problem's own), and that error; `errors` gives those of several C."""
    if problem.C is not None:
        return problem.C, float(errors(problem.factorise(), [problem.C])[0])
    return _best_C(problem, errors)[:2]


def _best_C(
    problem: Problem, errors: Callable[[Factor, Sequence[float]], np.ndarray], guess: float | None = None
) -> tuple[float, float, Factor]:
    """As `best_C` where the problem has none, and the factor that served all of them; a `guess` may spare time."""

    def scored(ridges: np.ndarray) -> tuple[Factor, np.ndarray, np.ndarray]:
        factor = problem.factorise(float(1.0 / ridges[0]), every=True, quick=True)
        return factor, ridges, errors(factor, (1.0 / ridges).tolist())

    variance, largest = kernel_spectrum(problem)
    ridges = RIDGES * variance * _mean_weight(problem)
    # those far above the rounding errors of sums over the rows are served faster, and suffice as a rule
    rounding = EPS * largest * _mean_weight(problem) * len(problem.rows)
    near = ridges < (0.0 if problem.is_dual else rounding / QUICK)
    if guess is not None and near.any() and 1.0 / guess <= ridges[~near].min(initial=math.inf):
        near[:] = False
    factor, grid, scores = scored(ridges[~near])
    if near.any() and np.argmin(scores) == 0:
        del factor  # memory for one
        factor, grid, scores = scored(ridges)
    best = min(zip(scores, 1.0 / grid, strict=True))
    for _ in range(ZOOMS):  # ever finer grids about the best point so far
        place = int(np.argmin(scores))
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
        grid = np.geomspace(low, high, 9)[1:-1]
        scores = errors(factor, (1.0 / grid).tolist())
        best = min(best, min(zip(scores, 1.0 / grid, strict=True)))
    return float(best[1]), float(best[0]), factor


def _sure_fit(factor: Factor, C: float) -> Fit | None:
    """The machine of one C from a factor for all of them; None where a factor of its own would be surer."""
    if not isinstance(factor.system, Primal):
        return None
    fit = factor.fit(C)
    if not factor.system.serves(1.0 / C, arrays.take(fit.leverage, factor.rows)):
        return None
    return replace(fit, rounding=factor.rounding(fit))


def validation_loss(problem: Problem, y: np.ndarray, residuals: np.ndarray, weights: np.ndarray) -> float:
    """What is minimised in the end, on rows left out or held out: `mean_loss`, for classes `losses.log_loss`."""
    if problem.classification:
        return float(log_loss((y - residuals)[:, None, :], y, weights)[0][0])
    return mean_loss(problem, residuals, weights)


def mean_loss(problem: Problem, residuals: np.ndarray, weights: np.ndarray) -> float:
    """Weighted mean of the squared residuals, of the absolute ones where robust weights are asked for."""
    score = float(weights @ _loss(problem, residuals).sum(axis=1) / weights.sum())
    return score if math.isfinite(score) else math.inf


def _loss(problem: Problem, residuals: np.ndarray) -> np.ndarray:
    return np.abs(residuals) if problem.robust is not None else residuals * residuals


def kernel_variance(problem: Problem) -> float:
    """Mean of k(x, x) less the mean of k(x, z) over (a sample of) the rows: the size of the centred kernel."""
    return kernel_spectrum(problem)[0]


def kernel_spectrum(problem: Problem) -> tuple[float, float]:
    """The size of the centred kernel over (a sample of) the rows, and a bound of its eigenvalues over their number."""
    rows = problem.rows[:: max(1, len(problem.rows) // 200)]
    X = arrays.take(problem.X, rows)
    K = arrays.to_numpy(problem.kernel.evaluate(X, problem.kernel.basis_points(problem.X, rows)))
    with np.errstate(over="ignore", invalid="ignore"):
        variance = float(K.diagonal().mean() - K.mean())
    if not (math.isfinite(variance) and variance > 0):
        return 1.0, 1.0
    K = K - K.mean(axis=0)
    K = K - K.mean(axis=1)[:, None]
    return variance, float(np.linalg.norm(K)) / len(rows)


def _mean_weight(problem: Problem) -> float:
    return float(arrays.to_numpy(problem.weights)[problem.rows].mean())
