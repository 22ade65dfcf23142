"""Pruning: fit, drop the basis vectors with the smallest coefficients, fit again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import blas
from scipy.optimize import minimize
from sklearn.utils import Bunch, check_random_state

from .. import _xp, system
from .._xp import EPS
from ..kernels import Kernel
from ..problem import Fit, Problem, Step, check_memory
from ..system import Primal
from ..tune import mean_loss, tuned
from .bases import check_share, check_size

__all__ = ["Prune"]


class Prune(Step):
    """Drop the basis vectors with the smallest coefficients, a few at a time.

    With ``rows="drop"`` a dropped vector leaves the machine with its row (Suykens et al. 2002, Algorithm 2); with
    ``rows="keep"`` the residuals of all rows stay in the loss (Cawley & Talbot 2002, the improved sparse machine).
    What is left at None is chosen by leave-one-out on the machine that comes in, before pruning.

    Parameters
    ----------
    n : int or None
        Size at which to stop. None: the smallest size whose score is within `tolerance` of the best.
    rows : {"drop", "keep"}
    fraction : float
        Share of the basis dropped at every step, at least one vector.
    retune : bool
        Whether C and the width are searched again around their values at every step, by the same score.
    score : {"loo", "validation", "kfold"}
        What is recorded at every size and decides where n is None: the mean squared left-out residual, with
        dropped rows counting as new points; that of rows held out from the start; or that of 10 folds over
        all rows. With robust weights asked for, absolute residuals take the place of squared ones.
    tolerance : float
        Relative loss of score that is accepted.
    mean_risk : bool
        Whether C is per mean error, as in Cawley & Talbot 2002: with ``rows="drop"``, C then grows as rows leave.
    validation : float
        Share of rows held out by ``score="validation"``.
    random_state : int, RandomState or None
        Seed of the validation rows and of the folds.

    Notes
    -----
    ``path_`` holds ``sizes``, ``scores``, ``supports`` (row numbers at every size) and ``chosen`` (a size). With
    ``rows="keep"`` robust weights are those of the machine that comes in, all along the path; the pruned machine is
    then weighted anew. Both classes of a classifier survive.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Prune(rows="keep")]).fit(X, y)
    >>> model.path_.chosen == len(model.support_)
    True
    """

    def __init__(
        self,
        n: int | None = None,
        rows: str = "drop",
        fraction: float = 0.05,
        retune: bool = False,
        score: str = "loo",
        tolerance: float = 0.05,
        mean_risk: bool = False,
        validation: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.n = n
        self.rows = rows
        self.fraction = fraction
        self.retune = retune
        self.score = score
        self.tolerance = tolerance
        self.mean_risk = mean_risk
        self.validation = validation
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        self._check(problem)
        problem = tuned(problem)
        support = problem.rows if problem.support is None else np.asarray(problem.support)
        trail = _Trail(self)
        held_out = np.empty(0, dtype=np.intp)
        if self.score == "validation":
            draw = check_random_state(self.random_state)
            held_out = self._held_out(problem, draw)
            support = np.setdiff1d(support, held_out)
        counts = bool(np.isin(support, problem.rows).all())
        fixed = not self.retune and self.score != "kfold"
        if self.rows == "keep" and self.score == "loo" and fixed:
            self._downdate(problem, support, trail)
        elif self.rows == "drop" and fixed and not self.mean_risk and problem.robust is None and counts:
            self._drop_rows(problem, support, held_out, trail)
        else:
            self._refit(problem, support, held_out, trail, problem)
        chosen = trail.choose()
        kernel, C = trail.tuned.get(len(chosen), (problem.kernel, problem.C))
        result = problem.with_basis(chosen, kernel=kernel, C=C)
        if self.rows == "drop":
            result = result.replace(weights=_only(problem, chosen))
        path = Bunch(
            sizes=np.array([len(rows) for rows in trail.supports]),
            scores=np.array(trail.scores),
            supports=trail.supports,
            chosen=len(chosen),
        )
        return result.replace(paths={**problem.paths, type(self).__name__: path})

    def _check(self, problem: Problem) -> None:
        if self.n is not None:
            check_size(self, self.n)
        check_share(self, self.fraction, "fraction")
        check_share(self, self.tolerance, "tolerance")
        check_share(self, self.validation, "validation")
        for name, known in (("rows", ("drop", "keep")), ("score", ("loo", "validation", "kfold"))):
            if getattr(self, name) not in known:
                raise ValueError(f"Prune: {name} must be one of {known}, got {getattr(self, name)!r}.")
        if problem.points is not None:
            raise ValueError("Prune needs a basis of rows; this one holds points that are no rows (Given, KMeans).")

    def _held_out(self, problem: Problem, draw: np.random.RandomState) -> np.ndarray:
        """Validation rows: a share of all, or of every class, which keeps a row at least."""
        groups = [problem.rows]
        if problem.classification:
            labels = problem.labels[problem.rows]
            groups = [problem.rows[labels == label] for label in np.unique(labels)]
        drawn = [draw.permutation(rows)[: min(round(self.validation * len(rows)), len(rows) - 1)] for rows in groups]
        held_out = np.concatenate(drawn)
        return held_out if len(held_out) else draw.permutation(max(groups, key=len))[:1]

    def _refit(
        self, problem: Problem, support: np.ndarray, held_out: np.ndarray, trail: _Trail, start: Problem
    ) -> None:
        """A machine anew at every size; `start` is the problem that came in."""
        folds = np.array_split(check_random_state(self.random_state).permutation(start.rows), 10)
        while True:
            weights = _only(problem, support) if self.rows == "drop" else problem.weights
            weights = _xp.put(weights + 0.0, held_out, _xp.zeros((len(held_out),), weights))
            current = problem.with_basis(support, weights=weights)
            if self.mean_risk and self.rows == "drop":
                current = current.replace(C=float(start.C or 1.0) * len(start.rows) / len(support))
            if self.retune:
                current = self._tune_again(current, start, folds, held_out)
                problem = problem.replace(kernel=current.kernel, C=current.C)
            trail.tuned[len(support)] = current.kernel, current.C
            fit = current.solve()
            trail.add(support, self._score(current, fit, start, folds, held_out))
            if trail.done(start):
                return
            support = trail.drop(support, self._coefficients(current, fit), start)

    def _drop_rows(self, problem: Problem, support: np.ndarray, held_out: np.ndarray, trail: _Trail) -> None:
        """The path of ``rows="drop"`` from a factorisation at every halving.

        In the scaled coefficients a = P S t of the dual machine, rows R that leave change P to P - P_R P_RR^-1 P_R'
        and a to a - P_R P_RR^-1 a_R on the others, the bias being what the residuals of these leave.
        """
        rows, ridge = problem.rows, 1.0 / float(problem.C or 1.0)
        check_memory(len(rows), 3, problem.X)
        points = problem.kernel.basis_points(problem.X, support)
        K = _xp.to_numpy(problem.kernel.evaluate(_xp.take(problem.X, rows), points))
        y, v = (_xp.to_numpy(a)[rows] for a in (problem.y, problem.weights))
        scored = np.searchsorted(rows, held_out) if self.score == "validation" else slice(None)
        place, refreshed = np.arange(len(support)), math.inf  # columns of K
        while True:
            own = np.searchsorted(rows, support[place])
            w = np.sqrt(v[own, None])
            if len(place) <= refreshed / 2:
                dual = system.dual(K[np.ix_(own, place)], y[own], v[own], ridge)
                if dual is None:  # of the user's own matrix
                    self._refit(problem, support[place], held_out, trail, problem)
                    return
                P, a, refreshed = _xp.gram(dual.root.T), dual.scaled, len(place)
            coef = np.zeros((len(support), y.shape[1]))
            coef[place] = w * a
            residuals = y - K @ coef
            residuals -= np.average(residuals[own] - ridge * a / w, axis=0, weights=v[own])
            residuals[own] = a / (w * P.diagonal()[:, None])
            trail.add(support[place], mean_loss(problem, residuals[scored], v[scored]))
            if trail.done(problem):
                return
            stay = np.isin(support[place], trail.drop(support[place], coef[place], problem))
            P_stay = P[stay]
            across = scipy.linalg.solve(P[np.ix_(~stay, ~stay)], P_stay[:, ~stay].T, assume_a="pos")
            a = a[stay] - across.T @ a[~stay]
            P = P_stay[:, stay] - _xp.matmul(P_stay[:, ~stay], across)
            place = place[stay]

    @staticmethod
    def _coefficients(current: Problem, fit: Fit) -> np.ndarray:
        """The coefficients to prune by: of least norm where the basis vectors depend on each other."""
        if not current.is_dual:
            factor = current.replace(weights=fit.weights, robust=None).factorise_primal(fit.C)
            if (
                isinstance(factor.system, Primal)
                and factor.whitening is not None
                and factor.whitening.factor is not None
            ):
                T = _xp.to_numpy(factor.system.R) @ _xp.to_numpy(factor.whitening.factor).T
                return np.linalg.pinv(T, rcond=1e-7) @ _xp.to_numpy(factor.system.projected())
        return _xp.to_numpy(fit.coef)

    def _score(
        self, current: Problem, fit: Fit, start: Problem, folds: list[np.ndarray], held_out: np.ndarray
    ) -> float:
        """Mean loss of the machine over the rows that came in, weighted as they came in."""
        weights = _xp.to_numpy(start.weights)
        residuals = fit.loo_residuals
        rows = held_out if self.score == "validation" else start.rows
        if self.score == "kfold":
            factor = current.replace(weights=fit.weights).factorise()
            residuals = factor.block_residuals(folds, fit.C)
        return mean_loss(start, _xp.to_numpy(residuals)[rows], weights[rows])

    def _tune_again(self, current: Problem, start: Problem, folds: list[np.ndarray], held_out: np.ndarray) -> Problem:
        """C and a common factor of the widths around their values, by the simplex method within a factor of 5."""

        def at(logs: np.ndarray) -> Problem:
            C, factor = np.exp(np.clip(logs, -math.log(5.0), math.log(5.0)))
            return current.replace(C=float(current.C or 1.0) * float(C), kernel=current.kernel.scaled(float(factor)))

        corners = np.array([[0.0, 0.0], [0.7, 0.0], [0.0, 0.3]])

        def score(logs: np.ndarray) -> float:
            tried = at(logs)
            return self._score(tried, tried.solve(), start, folds, held_out)

        found = minimize(
            score,
            corners[0],
            method="Nelder-Mead",
            options={"initial_simplex": corners, "maxfev": 25, "xatol": 0.05},
        )
        return at(found.x)

    def _downdate(self, problem: Problem, support: np.ndarray, trail: _Trail) -> None:
        """The whole path of ``rows="keep"`` from one factorisation.

        With Q the orthonormal columns of the first machine and theta = F'beta its whitened weights, the columns of
        the basis are Q T, T = R F'. Fitting some of them is projecting Q't on the span of their columns of T, and the
        coefficients are W't with W the duals of these columns (W_i'T_j = 1 where i = j, else 0). Dropping a set of
        vectors takes the span of their duals, less what was taken before, out of the fit and the leverages: a thin
        product a step. Where columns depend on each other there are no duals; W is then the transposed pseudo-inverse
        (coefficients of least norm).
        """
        weights = problem.weights if problem.robust is None else problem.solve().weights
        weighted = problem.with_basis(support, weights=weights, robust=None)
        factor = weighted.factorise_primal(float(problem.C or 1.0))
        if factor.whitening is None or factor.whitening.rank == 0:
            self._refit(weighted, support, np.empty(0, dtype=np.intp), trail, problem)
            return
        assert isinstance(factor.system, Primal)
        primal, whitening = factor.system, factor.whitening
        arrays = (primal.Q, primal.R, primal.sqrt_weights, primal.targets, primal.projected())
        Q, R, w, targets, everything = (_xp.to_numpy(a) for a in arrays)
        lower = _xp.to_numpy(whitening.lower if whitening.factor is None else whitening.factor)
        rank, size = R.shape[0], lower.shape[0]
        bias = w**2 / float(w @ w)
        loss_weights = _xp.to_numpy(problem.weights)[factor.rows]
        T = blas.dtrmm(1.0, R, lower.T)
        if whitening.factor is None:  # T is triangular
            W, regular = _inverse(T), True
        else:
            Q, everything, T, W, regular = _turned(Q, everything, T)
            rank = len(T)
        alive = np.arange(size)
        place, taken = alive, np.empty((len(T), 0))  # columns of T; what was taken out
        exact = True
        while True:
            if exact:
                fitted = everything
                h = np.einsum("ij,ij->i", Q, Q) + bias
                e = targets - (Q @ fitted) / w[:, None]
            loo = e / np.maximum(1.0 - h, EPS)[:, None]
            trail.add(support[alive], mean_loss(problem, loo, loss_weights))
            if trail.done(problem):
                return
            kept = trail.drop(support[alive], (W @ fitted)[place], problem)
            stay = np.isin(support[alive], kept)
            exact = not regular or np.count_nonzero(stay) < max(T.shape[1] // 4, 100)  # small ones are cheap to do anew
            if not exact:
                directions = _without(W[place[~stay]].T, taken)
                taken = np.hstack([taken, directions])
                along, part = _xp.matmul(Q, directions), directions.T @ fitted
                h = h - np.einsum("ij,ij->i", along, along)
                e = e + (along @ part) / w[:, None]
                fitted = fitted - directions @ part
            alive, place = alive[stay], place[stay]
            if exact:
                Q, everything, T, W, regular = _turned(Q, everything, T[:, place])
                place, taken = np.arange(len(alive)), np.empty((len(T), 0))
            if rank < size and (len(alive) <= rank or len(T) < rank):  # what the whitening cut off now matters
                self._refit(weighted, support[alive], np.empty(0, dtype=np.intp), trail, problem)
                return


def _only(problem: Problem, rows: np.ndarray) -> Any:
    """The weights, 0 outside the given rows."""
    others = np.setdiff1d(np.arange(problem.X.shape[0]), rows)
    return _xp.put(problem.weights + 0.0, others, _xp.zeros((len(others),), problem.weights))


def _turned(
    Q: np.ndarray, everything: np.ndarray, T: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]:
    """Q, Q't and T in coordinates of the span of T's columns; their duals (rows), and whether they are independent."""
    rows, columns = T.shape
    regular = columns <= rows
    if regular:
        U, turned = scipy.linalg.qr(T, mode="economic")
        diagonal = np.abs(turned.diagonal())
        regular = bool(diagonal.min() > 1e-8 * diagonal.max())
    if regular:
        W = _inverse(turned)
    else:
        U, singular, Vt = scipy.linalg.svd(T, full_matrices=False)
        kept = singular > max(T.shape) * EPS * singular[0]
        U, singular, Vt = U[:, kept], singular[kept, None], Vt[kept]
        turned, W = singular * Vt, (Vt / singular).T
    return _xp.matmul(Q, U), U.T @ everything, turned, W, regular


def _without(vectors: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """An orthonormal basis of some vectors less their parts along others, which are orthonormal."""
    for _ in range(2):
        rest = vectors - _xp.matmul(taken, _xp.matmul(taken.T, vectors))
        lost = np.min(np.linalg.norm(rest, axis=0) / np.linalg.norm(vectors, axis=0))
        vectors = rest
        if lost > 0.1:  # then rounding errors have not grown
            break
    return np.asarray(scipy.linalg.qr(vectors, mode="economic")[0])


def _inverse(upper: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(_xp.invert_lower(upper.T.copy(order="C")).T)


class _Trail:
    """Sizes, scores and supports so far; when to stop, what to drop and what to choose."""

    def __init__(self, step: Prune) -> None:
        self.step = step
        self.scores: list[float] = []
        self.supports: list[np.ndarray] = []
        self.tuned: dict[int, tuple[Kernel, float | None]] = {}

    def add(self, support: np.ndarray, score: float) -> None:
        self.supports.append(support)
        self.scores.append(score)

    def done(self, problem: Problem) -> bool:
        support = self.supports[-1]
        if len(support) <= self._floor(problem, support):
            return True
        return self.step.n is None and self.scores[-1] > (1.0 + 2.0 * self.step.tolerance) * min(self.scores) + EPS

    def _floor(self, problem: Problem, support: np.ndarray) -> int:
        """The size that must stay: what was asked for, a vector of every class, two where nothing was asked for."""
        classes = len(np.unique(problem.labels[support])) if problem.classification else 1
        return max(self.step.n or 2, classes, 2 if self.step.rows == "drop" else 1)

    def drop(self, support: np.ndarray, coef: np.ndarray, problem: Problem) -> np.ndarray:
        """The support less its smallest coefficients; the largest of every class stays."""
        size = np.linalg.norm(coef, axis=1)
        count = min(max(1, int(self.step.fraction * len(support))), len(support) - self._floor(problem, support))
        order = np.argsort(size, kind="stable")
        if problem.classification:
            labels = problem.labels[support]
            largest = [order[labels[order] == label][-1] for label in np.unique(labels)]
            order = order[~np.isin(order, largest)]
        return np.sort(np.delete(support, order[:count]))

    def choose(self) -> np.ndarray:
        """The last support when a size was asked for, else the smallest within the tolerance of the best score."""
        if self.step.n is not None:
            return self.supports[-1]
        limit = (1.0 + self.step.tolerance) * min(self.scores) + EPS
        good = [support for support, score in zip(self.supports, self.scores, strict=True) if score <= limit]
        return min(good, key=len)
