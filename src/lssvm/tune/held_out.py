"""Steps that choose the parameters that are None by k-fold cross-validation or held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import scipy
from sklearn.utils import Bunch

from .. import arrays
from ..problem import Factor, Problem, Step, held_out_rows
from ..rules import List, Rule, Seed, integer, open_share, shown
from .choose_C import best_C
from .leave_one_out import as_requested, is_fixed, tuned
from .scores import validation_loss


class Validation(Step):
    """Choose C and a common factor of the widths by the error on validation sets."""

    needs_squares = True

    def __call__(self, problem: Problem) -> Problem:
        problem = as_requested(problem)
        if problem.is_known or is_fixed(problem):
            self._parts(problem)  # invalid parameters are reported even if there is nothing to choose
            return problem
        start = tuned(problem)
        free = start.paths["LeaveOneOut"].get("free", [False] * len(start.kernel.leaves))
        held = start
        if start.robust is not None:  # the weights of the fit to all rows are kept on all parts
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
            scipy.optimize.minimize_scalar(
                score, bounds=bounds, method="bounded", options={"maxiter": 8, "xatol": 0.05}
            )
        value, kernel, C = best
        widths = [arrays.to_numpy(leaf.sigma) for leaf in kernel.leaves]
        path = Bunch(score=value, C=C, widths=widths, shifts=shifts, scores=np.array(scores))
        return start.replace(kernel=kernel, C=C, paths={**start.paths, type(self).__name__: path})

    def _parts(self, problem: Problem) -> list[np.ndarray]:
        """The row numbers of every validation set."""
        raise TypeError(f"{type(self).__name__} does not define _parts(problem).")

    def _error(self, problem: Problem, parts: list[np.ndarray]) -> tuple[Problem, Callable[[Factor, float], float]]:
        """The problem to factorise, and the validation error as a function of its factor and C."""
        raise TypeError(f"{type(self).__name__} does not define _error(problem, parts).")


def is_splitter(splitter: Any) -> bool:
    """True for splitters of scikit-learn; TypeError for anything else."""
    if isinstance(splitter, type):
        raise TypeError(f"KFold: splitter={splitter.__name__} is a class: write {splitter.__name__}().")
    if (not callable(getattr(splitter, "split", None))) or isinstance(splitter, (str, dict)):
        raise TypeError(
            f"KFold: splitter={shown(splitter)} is not a scikit-learn splitter; the number of folds is n_splits."
        )
    return True


Splits = Annotated[int, integer("an integer of at least 2", 2)]
Splitter = Annotated[Any, Rule("a splitter", is_splitter)]


class KFold(Validation):
    """Choose the parameters that are None by k-fold cross-validation, in closed form without refitting.

    Leave-one-out determines the ratios of the widths; C and a common factor of the widths then minimise the mean
    squared residual of the held-out folds. With robust weights, which are those of the fit to all rows, it is the mean
    absolute residual; for classes, it is the mean log loss as in `LeaveOneOut`.

    Parameters
    ----------
    n_splits : int
        Number of random folds; for classes, they are stratified.
    splitter : scikit-learn splitter or None
        Defines the folds instead of `n_splits`, e.g. ``LeaveOneGroupOut()``. Every fold must train on all rows that it
        does not hold out, and no row may be held out twice.
    groups : array or None
        Group of every row: the rows of a group are held out together.
    random_state : int, RandomState or None
        Seed of the random folds.

    Notes
    -----
    ``path_`` contains ``score``, ``C`` and ``widths`` as chosen, ``shifts`` (the logarithms of the factors of the
    widths) and their ``scores``.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, datasets, kernels, tune
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> groups = np.arange(133) // 5  # neighbouring rows belong together
    >>> model = LSSVR(kernels.RBF(), steps=[tune.KFold(groups=groups)]).fit(X, y)
    >>> model.C_ > 0
    True
    """

    def __init__(
        self,
        n_splits: Splits = 10,
        splitter: Splitter | None = None,
        groups: List | None = None,
        random_state: Seed = 0,
    ) -> None:
        self.n_splits = n_splits
        self.splitter = splitter
        self.groups = groups
        self.random_state = random_state

    def _parts(self, problem: Problem) -> list[np.ndarray]:
        from sklearn import model_selection

        rows = problem.rows
        splitter = self.splitter
        if isinstance(splitter, model_selection.PredefinedSplit):
            folds = np.asarray(splitter.test_fold)
            if folds.shape != (problem.X.shape[0],):
                raise ValueError(
                    f"KFold: splitter defines the folds of {len(folds)} rows, but X has {problem.X.shape[0]}."
                )
            splitter = model_selection.PredefinedSplit(folds[rows])
        groups = None if self.groups is None else np.asarray(self.groups)
        if groups is not None and groups.shape != (problem.X.shape[0],):
            raise ValueError(f"KFold: groups has shape {groups.shape}, but X has {problem.X.shape[0]} rows.")
        if splitter is None:
            units, name = (len(rows), "rows") if groups is None else (len(np.unique(groups[rows])), "groups")
            if self.n_splits > units:
                raise ValueError(
                    f"KFold: n_splits={self.n_splits} exceeds the number of {name} ({units}): lower n_splits."
                )
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
                f"KFold: {splitter!r} holds a row out twice, or trains on only a part of the other rows: use a "
                "splitter such as KFold, StratifiedKFold or GroupKFold."
            )
        return parts

    @property
    def by_row(self) -> str:
        if self.groups is not None:
            return "groups"
        return "splitter" if hasattr(self.splitter, "test_fold") else ""

    def _error(self, problem: Problem, parts: list[np.ndarray]) -> tuple[Problem, Callable[[Factor, float], float]]:
        together = np.concatenate(parts)
        y, weights = (arrays.to_numpy(a)[together] for a in (problem.y, problem.weights))

        def error(factor: Factor, C: float) -> float:
            residuals = arrays.to_numpy(factor.block_residuals(parts, C))[together]
            return validation_loss(problem, y, residuals, weights)

        return problem, error


class Holdout(Validation):
    """Choose the parameters that are None by the error on held-out rows; the model is then fitted to all rows.

    Leave-one-out determines the ratios of the widths; C and a common factor of the widths then minimise the mean
    squared residual of the held-out rows. With robust weights, which are those of the fit to all rows, it is the mean
    absolute residual; for classes, it is the mean log loss as in `LeaveOneOut`.

    Parameters
    ----------
    fraction : float
        Fraction of the rows to hold out at random; for classes, the sample is stratified.
    random_state : int, RandomState or None
        Seed of the random sample.

    Notes
    -----
    ``path_`` contains ``score``, ``C`` and ``widths`` as chosen, ``shifts`` (the logarithms of the factors of the
    widths) and their ``scores``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, tune
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(), steps=[tune.Holdout(0.3)]).fit(X, y)
    >>> model.C_ > 0
    True
    """

    def __init__(
        self, fraction: Annotated[float, open_share("a number between 0 and 1")] = 0.2, random_state: Seed = 0
    ) -> None:
        self.fraction = fraction
        self.random_state = random_state

    def _parts(self, problem: Problem) -> list[np.ndarray]:
        held = held_out_rows(problem, float(self.fraction), self.random_state)
        left, rows = len(problem.rows) - len(held), len(problem.rows)
        if left < 2:
            raise ValueError(
                f"Holdout: fraction={self.fraction!r} leaves {left} of {rows} rows to train on: lower it, or use more "
                "rows."
            )
        return [held]

    def _error(self, problem: Problem, parts: list[np.ndarray]) -> tuple[Problem, Callable[[Factor, float], float]]:
        held = parts[0]
        rest = np.setdiff1d(problem.rows, held)
        inputs, y = arrays.take(problem.X, held), arrays.to_numpy(problem.y)[held]
        weights = arrays.to_numpy(problem.weights)[held]
        if problem.kernel.is_precomputed:
            inputs = arrays.take(inputs.T, rest).T

        current: list[Any] = [None, None]  # the current factor and its columns

        def error(factor: Factor, C: float) -> float:
            if current[0] is not factor:
                current[:] = factor, factor.columns(inputs)
            solution = factor.system.solution(1.0 / C, careful=False)
            predictions = current[1] @ solution.coef + solution.intercept[None, :]
            return validation_loss(problem, y, y - arrays.to_numpy(predictions), weights)

        return problem.subset(rest), error
