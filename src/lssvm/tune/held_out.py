"""Steps that choose the parameters that are None by k-fold cross-validation, held-out rows or blocks of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import scipy
from sklearn.utils import Bunch

from .. import arrays
from ..kernels import Kernel
from ..problem import Factor, Problem, Step, held_out_rows
from ..progress import counted
from ..rules import List, Rule, Seed, integer, open_share, shown
from ..tables import is_missing
from .choose_C import best_C, mean_loss
from .leave_one_out import as_requested, tuned


class Validation(Step):
    """Choose C and a common factor of the widths by the error on validation sets."""

    needs_squares = True

    def __call__(self, problem: Problem) -> Problem:
        problem = as_requested(problem)
        if problem.is_known:
            self._parts(problem)  # Invalid parameters are reported even if there is nothing to choose.
            return problem
        start = tuned(problem)
        free = start.paths["LeaveOneOut"].get("free", [False] * len(start.kernel.leaves))
        # Robust weights are those of the fit to all rows.
        held = start if start.robust is None else start.replace(weights=start.solve().weights)
        parts = self._parts(problem)
        trained, rows = self._trained(held, parts), np.unique(np.concatenate(parts))
        y, weights = (arrays.to_numpy(a)[rows] for a in (problem.y, held.weights))
        found: list[tuple[float, Kernel, float]] = []

        def errors(factor: Factor, values: Sequence[float]) -> np.ndarray:
            found = self._residuals(held, factor, values, parts)
            return np.array([mean_loss(problem, residuals, weights, y) for residuals in found])

        def score(shift: float) -> float:
            sigmas = [
                math.exp(shift) * np.asarray(leaf.sigma) if moves else leaf.sigma
                for leaf, moves in zip(start.kernel.leaves, free, strict=True)
            ]
            kernel = start.kernel.with_widths(sigmas)
            C, value, _ = best_C(trained.replace(kernel=kernel, C=problem.C), errors)
            found.append((value, kernel, C))
            return value

        shifts = np.linspace(-1.5, 1.5, 7) if any(free) else np.zeros(1)
        scores = [score(shift) for shift in shifts]
        if any(free):
            middle = shifts[int(np.argmin(scores))]
            bounds = (middle - 0.5, middle + 0.5)
            scipy.optimize.minimize_scalar(
                score, bounds=bounds, method="bounded", options={"maxiter": 8, "xatol": 0.05}
            )
        value, kernel, C = min(found, key=lambda one: one[0])
        widths = [arrays.to_numpy(leaf.sigma) for leaf in kernel.leaves]
        path = Bunch(score=value, C=C, widths=widths, shifts=shifts, scores=np.array(scores))
        return start.replace(kernel=kernel, C=C, paths={**start.paths, type(self).__name__: path})

    def _parts(self, problem: Problem) -> list[np.ndarray]:
        """Return the row numbers of every validation set."""
        raise TypeError(f"{type(self).__name__} does not define _parts(problem).")

    def _trained(self, problem: Problem, parts: list[np.ndarray]) -> Problem:
        """Return the problem that is factorised."""
        return problem

    def _residuals(self, problem: Problem, factor: Factor, values: Sequence[float], parts: list[np.ndarray]) -> Any:
        """Return, for each value of C, the residuals of all rows of validation sets (sorted), each without its set."""
        rows = np.unique(np.concatenate(parts))
        return [arrays.to_numpy(factor.block_residuals(parts, C))[rows] for C in values]


def is_splitter(splitter: Any) -> bool:
    """Return True for splitters of scikit-learn, and raise TypeError for anything else."""
    if isinstance(splitter, type):
        raise TypeError(f"KFold: splitter={splitter.__name__} is a class: write {splitter.__name__}().")
    if (not callable(getattr(splitter, "split", None))) or isinstance(splitter, (str, dict)):
        raise TypeError(
            f"KFold: splitter={shown(splitter)} is not a scikit-learn splitter; the number of folds is n_splits."
        )
    return True


Count = Annotated[int, integer("an integer of at least 2", 2)]
Splitter = Annotated[Any, Rule("a splitter", is_splitter)] | None


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
        Group of every row: the rows of a group are held out together. None: the groups given to `fit`, if any.
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
        self, n_splits: Count = 10, splitter: Splitter = None, groups: List | None = None, random_state: Seed = 0
    ) -> None:
        self.n_splits, self.splitter = n_splits, splitter
        self.groups, self.random_state = groups, random_state

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
        groups = problem.row_groups if self.groups is None else np.asarray(self.groups)
        if groups is not None and groups.shape != (problem.X.shape[0],):
            raise ValueError(f"KFold: groups has shape {groups.shape}, but X has {problem.X.shape[0]} rows.")
        if splitter is None:
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

    def _trained(self, problem: Problem, parts: list[np.ndarray]) -> Problem:
        return problem.subset(np.setdiff1d(problem.rows, parts[0]))

    def _residuals(self, problem: Problem, factor: Factor, values: Sequence[float], parts: list[np.ndarray]) -> Any:
        inputs, y = (arrays.take(a, parts[0]) for a in (problem.X, problem.y))
        if problem.kernel.is_precomputed:
            inputs = arrays.take(inputs.T, np.setdiff1d(problem.rows, parts[0])).T
        columns, solutions = factor.columns(inputs), (factor.system.solution(1.0 / C, careful=False) for C in values)
        return [arrays.to_numpy(y - (columns @ found.coef + found.intercept[None, :])) for found in solutions]


class LeaveBlockOut(Validation):
    """Choose the parameters that are None by the error of each row without the rows up to h steps before and after it.

    For rows in the order of time whose errors are correlated: leave-one-out then predicts a row from its neighbours,
    which share its error, and chooses widths that are too small or a C that is too large, so that the model follows the
    noise. Leave-one-out determines the ratios of the widths; C and a common factor of the widths then minimise the mean
    loss of the residuals, as in `KFold`. All residuals are exact, without refitting.

    Parameters
    ----------
    h : int
        Number of rows left out on either side of the row that is predicted: the distance beyond which errors are nearly
        uncorrelated. 0 is leave-one-out.
    order : array or None
        The time of every row, as numbers, dates or text that sorts by time. None: the rows are in the order of time.

    Notes
    -----
    ``path_`` is that of `KFold`. Every value of C takes work proportional to ``h * rows**2`` and ``h**3 * rows``.

    Examples
    --------
    >>> import numpy as np
    >>> from lssvm import LSSVR, kernels, tune
    >>> t = np.linspace(0, 10, 150)[:, None]
    >>> draw = np.random.RandomState(0)
    >>> noise = np.zeros(150)
    >>> for i in range(1, 150):
    ...     noise[i] = 0.8 * noise[i - 1] + 0.2 * draw.normal()
    >>> model = LSSVR(kernels.RBF(), steps=[tune.LeaveBlockOut(10)]).fit(t, np.sin(t[:, 0]) + noise)
    >>> bool(model.kernel_.sigma > LSSVR(kernels.RBF()).fit(t, np.sin(t[:, 0]) + noise).kernel_.sigma)
    True
    """

    def __init__(self, h: Annotated[int, integer("a non-negative integer", 0)] = 1, order: List | None = None) -> None:
        self.h, self.order = h, order

    @property
    def by_row(self) -> str:
        return "h"

    def _parts(self, problem: Problem) -> list[np.ndarray]:
        """Return the block about every row of positive weight."""
        rows, h = problem.rows, self.h
        parts = [rows[np.abs(rows - row) <= h] for row in rows]
        if max(map(len, parts)) > len(rows) - 2:
            raise ValueError(
                f"LeaveBlockOut: without {counted(h, 'row')} on either side, fewer than 2 of {len(rows)} rows are "
                "left: lower h."
            )
        return parts

    def _by_time(self, problem: Problem) -> np.ndarray:
        """Return the row numbers in the order of time."""
        count = problem.X.shape[0]
        times = np.arange(count) if self.order is None else arrays.to_numpy(self.order)
        if len(times) != count or any(map(is_missing, times)):
            what = f"LeaveBlockOut: order={shown(self.order)}"
            raise ValueError(f"{what}: give one time per training row ({count} rows).")
        return np.argsort(times, kind="stable")

    def _trained(self, problem: Problem, parts: list[np.ndarray]) -> Problem:
        return problem if self.order is None else problem.subset(self._by_time(problem))

    def _residuals(self, problem: Problem, factor: Factor, values: Sequence[float], parts: list[np.ndarray]) -> Any:
        places = np.argsort(self._by_time(problem)[factor.problem.rows])  # of the rows as given
        return [block_residuals(factor, C, self.h)[places] for C in values]


def block_residuals(factor: Factor, C: float, h: int) -> np.ndarray:
    """Return y_i - f_(B)(x_i) for every row i of positive weight; numbers of the rows B differ from i by at most h.

    The residuals of a block solve a small system M_BB r_B = s_B (see `System.band`), of which only the row of i is
    kept. Positions outside of a block get the equation r = 0.
    """
    rows = factor.problem.rows
    diagonals, right, w = factor.system.band(1.0 / C, min(2 * h, len(rows) - 1))
    out = np.empty(right.shape)
    for part in arrays.row_blocks(len(rows), 32 * (2 * h + 1) ** 2):
        centres = np.arange(len(rows))[part]
        place = centres[:, None] + np.arange(-h, h + 1)
        inside = (place >= 0) & (place < len(rows))
        place = np.clip(place, 0, len(rows) - 1)
        inside &= np.abs(rows[place] - rows[centres][:, None]) <= h
        i, j = place[:, :, None], place[:, None, :]
        both = inside[:, :, None] & inside[:, None, :]
        M = np.where(both, diagonals[np.abs(i - j), np.minimum(i, j)], np.eye(2 * h + 1))
        s = np.where(inside[:, :, None], right[place], 0.0)
        out[part] = np.linalg.solve(M, s)[:, h] / w[part, None]
    return out
