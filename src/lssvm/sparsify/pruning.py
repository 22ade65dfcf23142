"""Pruning: fit the model, drop the basis vectors with the smallest coefficients, fit again."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import scipy.linalg
from sklearn.utils import Bunch, check_random_state

from .. import arrays, system
from ..arrays import EPS, Array
from ..kernels import Kernel
from ..problem import Fit, Problem, Step, check_memory, held_out_rows, whiten
from ..rules import Count, Flag, Seed, Share, one_of
from ..tune.choose_C import mean_loss
from ..tune.leave_one_out import tuned

DELAYED = 64  # Products that update an inverse have this many rows: thin ones are slow, delayed ones cost work.
CANCELLED = 1e-4  # If less of a diagonal entry of the inverse is left (12 of 16 digits), factorise again.
VALIDATION = 0.2  # score="validation" holds out this share of the rows, as `Substrate` and `Components` do.


class Prune(Step):
    """Drop the basis vectors with the smallest coefficients, a few at a time.

    With ``rows="drop"`` the row of a dropped vector is removed from the loss as well (Suykens et al. 2002, Algorithm
    2); with ``rows="keep"`` the residuals of all rows stay in the loss (Cawley & Talbot 2002, improved sparse LS-SVM).
    Hyper-parameters left at None are chosen by leave-one-out on the full model, before pruning.

    Parameters
    ----------
    n : int or None
        Size at which to stop. None: the smallest size whose score is within `tolerance` of the best.
    rows : {"drop", "keep"}
        Whether the rows of dropped vectors are removed from the loss. The default, "drop", is the classical algorithm;
        "keep" is far more accurate with few vectors.
    fraction : float
        Share of the basis that is dropped in every step, at least one vector.
    retune : bool
        Whether C and the widths are tuned again in every step, near their current values and by the same score.
    score : {"loo", "validation", "kfold"}
        The score recorded at every size, which also chooses the size if n is None. "loo": the mean squared
        leave-one-out residual, where dropped rows are treated as new points. "validation": the mean squared error of a
        fifth of the rows, held out from the start, as Algorithm 2 stops when the performance degrades. "kfold": that of
        10 folds over all rows, by which both papers compare sizes. With robust weights, absolute residuals replace
        squared ones.
    tolerance : float
        Relative increase of the score that is accepted for a smaller model if n is None.
    random_state : int, RandomState or None
        Seed for the validation rows and the folds.

    Notes
    -----
    ``path_`` holds ``sizes``, ``scores``, ``supports`` (row numbers at every size) and ``chosen`` (a size). With
    ``rows="keep"`` the robust weights of the full model are used along the whole path; the pruned model then gets new
    weights. At least one vector of every class is kept.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Prune(rows="keep")]).fit(X, y)
    >>> model.path_.chosen == len(model.support_)
    True
    """

    needs_squares = True

    def __init__(
        self,
        n: Count | None = None,
        rows: Annotated[str, one_of("drop", "keep")] = "drop",
        fraction: Share = 0.05,
        retune: Flag = False,
        score: Annotated[str, one_of("loo", "validation", "kfold")] = "loo",
        tolerance: Share = 0.05,
        random_state: Seed = None,
    ) -> None:
        self.n = n
        self.rows = rows
        self.fraction = fraction
        self.retune = retune
        self.score = score
        self.tolerance = tolerance
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        if problem.points is not None:
            given = "this basis holds other points (from Given, KMeans or Learned)"
            remedy = "use Prune with a step that chooses rows, such as Random"
            raise ValueError(f"Prune needs a basis of training rows, but {given}: {remedy}.")
        problem = tuned(problem)
        path = _Path(self, problem)
        path.follow()
        chosen = path.choose()
        kernel, C = path.tuned.get(len(chosen), (problem.kernel, problem.C))
        sizes, scores = np.array([len(rows) for rows in path.supports]), np.array(path.scores)
        record = Bunch(sizes=sizes, scores=scores, supports=path.supports, chosen=len(chosen))
        paths = {**problem.paths, type(self).__name__: record}
        weights = _only(problem, chosen) if self.rows == "drop" else problem.weights
        return problem.with_basis(chosen, kernel=kernel, C=C, weights=weights, paths=paths)


class _Path:
    """The path so far (sizes, scores, supports), how it is computed, and the rules for stopping and choosing.

    Scores are mean losses over the rows of the problem before pruning, with their weights there.
    """

    def __init__(self, step: Prune, problem: Problem) -> None:
        self.step, self.problem, rows = step, problem, problem.rows
        self.first = rows if problem.support is None else np.sort(np.asarray(problem.support))
        self.held_out, self.scored = np.empty(0, dtype=np.intp), np.arange(len(rows))
        if step.score == "validation":
            self.held_out = held_out_rows(problem, VALIDATION, step.random_state)
            self.first, self.scored = np.setdiff1d(self.first, self.held_out), np.searchsorted(rows, self.held_out)
        self.folds = np.array_split(check_random_state(step.random_state).permutation(rows), 10)
        self.labels = problem.labels if problem.classification else None
        # at least n (or 2 if n is None), and one vector of every class
        classes = 1 if self.labels is None else len(np.unique(self.labels[self.first]))
        self.least = max(step.n or 2, classes, 2 if step.rows == "drop" else 1)
        self.scores: list[float] = []
        self.supports: list[np.ndarray] = []
        self.tuned: dict[int, tuple[Kernel, float | None]] = {}

    def follow(self) -> None:
        """Compute the path."""
        step, problem = self.step, self.problem
        fixed = not step.retune and step.score != "kfold" and problem.row_groups is None
        if step.rows == "keep" and step.score == "loo" and fixed:
            self._keep_rows()
        elif step.rows == "drop" and fixed and problem.robust is None and np.isin(self.first, problem.rows).all():
            self._drop_rows()
        else:
            self._refit(problem, self.first)

    # Rules
    def score(self, residuals: Array) -> float:
        """Return the mean loss of residuals of the rows with positive weight."""
        weights = arrays.to_numpy(self.problem.weights)[self.problem.rows][self.scored]
        return mean_loss(self.problem, arrays.to_numpy(residuals)[self.scored], weights)

    def ends(self, support: np.ndarray, score: float) -> bool:
        """Add a point to the path; whether it is the last one."""
        self.supports.append(support)
        self.scores.append(score)
        if len(support) <= self.least:
            return True
        return self.step.n is None and score > (1.0 + 2.0 * self.step.tolerance) * min(self.scores) + EPS

    def stay(self, coef: np.ndarray) -> np.ndarray:
        """Return a mask of the vectors to keep: all but the smallest coefficients, and the largest of every class."""
        support = self.supports[-1]
        count = min(max(1, int(self.step.fraction * len(support))), len(support) - self.least)
        order = np.argsort(np.einsum("ij,ij->i", coef, coef), kind="stable")
        if self.labels is not None:
            last_of_class = np.unique(self.labels[support[order]][::-1], return_index=True)[1]
            order = np.delete(order, len(order) - 1 - last_of_class)
        stay = np.ones(len(support), dtype=bool)
        stay[order[:count]] = False
        return stay

    def choose(self) -> np.ndarray:
        """Return the last support if n is given, otherwise the smallest one within the tolerance of the best score."""
        if self.step.n is not None:
            return self.supports[-1]
        limit = (1.0 + self.step.tolerance) * min(self.scores) + EPS
        good = [support for support, score in zip(self.supports, self.scores, strict=True) if score <= limit]
        return min(good, key=len)

    # By refitting at every size
    def _refit(self, problem: Problem, support: np.ndarray) -> None:
        while True:
            rows = support if self.step.rows == "drop" else np.setdiff1d(problem.rows, self.held_out)
            current = problem.with_basis(support, weights=_only(problem, rows))
            if self.step.retune:
                current = self._tune_again(current)
                problem = problem.replace(kernel=current.kernel, C=current.C)
            self.tuned[len(support)] = current.kernel, current.C
            fit = current.solve()
            if self.ends(support, self._score_of(current, fit)):
                return
            support = support[self.stay(_least_coefficients(current, fit))]

    def _score_of(self, current: Problem, fit: Fit) -> float:
        residuals = fit.loo_residuals
        if self.step.score == "kfold":
            factor = current.replace(weights=fit.weights).factorise()
            residuals = factor.block_residuals(self.folds, fit.C)
        return self.score(arrays.take(residuals, self.problem.rows))

    def _tune_again(self, current: Problem) -> Problem:
        """Tune C and a common factor of the widths by the simplex method, within a factor of 5 of their values."""

        def at(logs: np.ndarray) -> Problem:
            C, factor = np.exp(np.clip(logs, -math.log(5.0), math.log(5.0)))
            widths = [float(factor) * np.asarray(leaf.sigma) for leaf in current.kernel.leaves]
            return current.replace(C=float(current.C or 1.0) * float(C), kernel=current.kernel.with_widths(widths))

        def score(logs: np.ndarray) -> float:
            tried = at(logs)
            return self._score_of(tried, tried.solve())

        corners = np.array([[0.0, 0.0], [0.7, 0.0], [0.0, 0.3]])
        options: Any = {"initial_simplex": corners, "maxfev": 25, "xatol": 0.05}
        return at(scipy.optimize.minimize(score, corners[0], method="Nelder-Mead", options=options).x)

    # By updates
    def _drop_rows(self) -> None:
        """Compute the path of ``rows="drop"``, with one factorisation per halving of the basis.

        In the scaled coefficients a = P S t of the dual system, dropping rows R changes P to P - P_R P_RR^-1 P_R' and a
        to a - P_R P_RR^-1 a_R on the other rows; the bias follows from the residuals of these.
        """
        problem, support = self.problem, self.first
        rows, ridge = problem.rows, 1.0 / float(problem.C or 1.0)
        check_memory(len(rows), 3, problem.X)
        points = problem.kernel.basis_points(problem.X, support)
        K = arrays.to_numpy(problem.kernel.evaluate(arrays.take(problem.X, rows), points))
        y, v = (arrays.to_numpy(a)[rows] for a in (problem.y, problem.weights))
        own = np.searchsorted(rows, support)
        coef = np.zeros((len(support), y.shape[1]))
        place = np.arange(len(support))  # columns of K
        while True:
            start, at = place, own[place]
            dual = system.factorise_dual(K[np.ix_(at, place)].copy, y[at], v[at], ridge)
            if dual.ridge is None:  # the user's own matrix is not positive definite
                return self._refit(problem, support[place])
            a, w = dual.scaled, np.sqrt(v[at, None])
            elimination, alive = Elimination(dual.with_inverse().P, 0), np.arange(len(place))
            while 2 * len(place) > len(start):
                at, a_now, w_now = own[place], a[alive], w[alive]
                coef[:] = 0.0
                coef[place] = w_now * a_now
                residuals = y - K @ coef
                residuals -= v[at] @ (residuals[at] - ridge * a_now / w_now) / v[at].sum()
                residuals[at] = a_now / (w_now * elimination.diagonal[alive, None])
                if self.ends(support[place], self.score(residuals)):
                    return None
                stay = self.stay(coef[place])
                gone, alive, place = alive[~stay], alive[stay], place[stay]
                if elimination.drop(gone, a) is None:
                    break

    def _keep_rows(self) -> None:
        """Compute the path of ``rows="keep"`` from one factorisation, or from several if digits are lost.

        If the vectors are linearly dependent, the models are refitted instead.

        Let Z be the kernel columns of the basis, centred and scaled by the square roots w of the weights,
        M = Z'Z + ridge K_SS, P = M^-1 and G = Z P. Dropping vectors R changes P to P - P_R P_RR^-1 P_R', G and the
        coefficients likewise, and removes the span of G_R from the fit: with P_RR = L L', A = G_R L^-T and
        c = L^-1 beta_R, the residuals w e grow by A c and the leverages decrease by the squared norms of the rows of A.
        """
        problem, support = self.problem, self.first
        weights = problem.weights if problem.robust is None else problem.solve().weights
        weighted = problem.with_basis(support, weights=weights, robust=None)
        w = np.sqrt(arrays.to_numpy(weights)[weighted.rows])[:, None]
        while True:
            inverse = _inverse_of(weighted.with_basis(support), 1.0 / float(problem.C or 1.0))
            if inverse is None:
                return self._refit(weighted, support)
            columns, coef, e, complement = inverse
            elimination, alive = Elimination(columns, len(w)), np.arange(len(support))
            while True:
                if self.ends(support[alive], self.score(e / np.maximum(complement, EPS)[:, None])):
                    return None
                stay = self.stay(coef[alive])
                gone, alive = alive[~stay], alive[stay]
                dropped = elimination.drop(gone, coef)
                if dropped is None:
                    break
                along, part = dropped
                e += (along.T @ part) / w
                complement += np.einsum("ij,ij->j", along, along)
            support = support[alive]


def _only(problem: Problem, rows: np.ndarray) -> Any:
    """Return the weights, set to 0 outside the given rows."""
    others = np.setdiff1d(np.arange(problem.X.shape[0]), rows)
    return arrays.put(problem.weights + 0.0, others, arrays.zeros((len(others),), problem.weights))


def _least_coefficients(problem: Problem, fit: Fit) -> np.ndarray:
    """Return the coefficients to prune by: those of least norm if the basis vectors are linearly dependent."""
    if not problem.is_dual:
        factor = problem.replace(weights=fit.weights, robust=None).factorise_primal(fit.C)
        primal, whitening = factor.system, factor.whitening
        if isinstance(primal, system.Primal) and whitening is not None and whitening.factor is not None:
            T = arrays.to_numpy(primal.R) @ arrays.to_numpy(whitening.factor).T
            return np.linalg.pinv(T, rcond=1e-7) @ arrays.to_numpy(primal.projected())
    return arrays.to_numpy(fit.coef)


def _inverse_of(problem: Problem, ridge: float) -> tuple[np.ndarray, ...] | None:
    """Return [G', P] of `_downdate`, coefficients, residuals and 1 - leverages; None if the vectors are dependent.

    If the basis consists of all rows, then M^-1 = (K^-1 - S P S)/ridge and G = P S with the P of the dual system.
    """
    size = problem.basis_size
    check_memory(size, 5, problem.X)
    if not problem.is_dual:
        factor = problem.factorise_primal(1.0 / ridge)
        primal, whitening = factor.system, factor.whitening
        if whitening is None or whitening.factor is not None or not isinstance(primal, system.Primal):
            return None
        solution = primal.solution(ridge)
        W = arrays.solve_lower(primal.R.T, arrays.invert_lower(whitening.lower + 0.0))
        columns = np.hstack([arrays.to_numpy(arrays.matmul(W.T, primal.Q.T)), arrays.to_numpy(arrays.gram(W))])
        coef, complement = whitening.expand(solution.coef), 1.0 - solution.leverage
        return columns, *(arrays.to_numpy(a) + 0.0 for a in (coef, solution.residuals, complement))
    rows = problem.rows
    points = problem.kernel.basis_points(problem.X, rows)
    K = problem.columns(arrays.take(problem.X, rows), points, symmetric=True)
    weights = arrays.take(problem.weights, rows)

    whitening = whiten(problem.kernel, points, K)
    dual = system.factorise_dual(lambda: K + 0.0, arrays.take(problem.y, rows), weights, ridge).with_inverse()
    if whitening.factor is not None or dual.ridge is None:
        return None
    inverse = arrays.gram_of_lower(arrays.invert_lower(whitening.lower)) / ridge
    inverse, P, a, w = (arrays.to_numpy(part) for part in (inverse, dual.P, dual.scaled, weights[:, None] ** 0.5))
    columns = np.empty((size, 2 * size))
    left = np.multiply(P, w, out=columns[:, :size])
    right = np.multiply(left, w.T / -ridge, out=columns[:, size:])
    right += inverse
    return columns, w * a, ridge * a / w, ridge * P.diagonal()


class Elimination:
    """Rows [G', P] of a system, P symmetric, as vectors R are dropped.

    The others lose P_R P_RR^-1 [G', P]_R. With P_RR = L L' and F = L^-1 [G', P]_R, this is F_P'F, where F_P are the
    columns of F that belong to P. These products are delayed until F has `DELAYED` rows.
    """

    def __init__(self, columns: np.ndarray, offset: int) -> None:
        self.columns, self.offset = columns, offset  # P begins at column `offset`
        self.F, self.gone = columns[:0], np.empty(0, dtype=np.intp)  # delayed products, dropped rows
        self.left = np.arange(len(columns))  # number by row
        self.diagonal = columns[:, offset:].diagonal().copy()  # by number
        self.start = self.diagonal.copy()

    def drop(self, gone: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Drop vectors by their numbers, and update the values, P times a fixed matrix; None if too few digits remain.

        Returns the columns of F that belong to G', for the new rows, and L^-1 values_R.
        """
        rows = np.searchsorted(self.left, gone)
        own = self.offset + rows
        new = self.columns[rows]
        if len(self.F):
            arrays.add_product(new, -self.F[:, own].T, self.F)
        L = arrays.cholesky(new[:, own])
        if L is None or np.any(L.diagonal() ** 2 < CANCELLED * self.start[gone]):
            return None
        arrays.solve_columns(L, new)
        part, in_P = arrays.solve_lower(L, values[gone]), new[:, self.offset :]
        values[self.left] -= in_P.T @ part
        self.diagonal[self.left] -= np.einsum("ij,ij->j", in_P, in_P)
        self.F, self.gone = np.vstack([self.F, new]), np.append(self.gone, rows)
        if len(self.F) >= DELAYED:
            arrays.add_product(self.columns, -self.F[:, self.offset :].T, self.F)
            self.F = self.F[:0]
            if len(self.gone) > len(self.left) // 6:  # less often, because a copy takes as long as a product
                stay = np.delete(np.arange(len(self.left)), self.gone)
                kept = np.append(np.arange(self.offset), self.offset + stay)
                self.columns, self.left = np.take(self.columns[stay], kept, axis=1), self.left[stay]
                self.F, self.gone = self.columns[:0], self.gone[:0]
        return new[:, : self.offset], part
