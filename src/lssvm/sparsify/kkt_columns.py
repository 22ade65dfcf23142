"""Models on some columns of the KKT system, with all rows (Carvalho & Braga; Valyon & Horvath).

Each step chooses columns; the model is then the least-squares solution on them (`Problem.reduced`), with exact
leave-one-out. Hyper-parameters left at None are chosen first, by leave-one-out on the incoming problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh
from sklearn.utils import Bunch

from .. import arrays
from ..problem import Problem, Step
from ..rules import Count, Flag, NotNegative, Positive, Share
from ..tune.choose_C import mean_loss
from ..tune.leave_one_out import tuned
from .common import kernel_rows

Choice = Callable[[np.ndarray, np.ndarray], np.ndarray | None]  # chooses the rows to keep


class _Columns(Step):
    """Base class of steps that solve on some columns of the KKT system."""

    needs_squares = True
    needs_all_rows = True


class InversePrune(_Columns):
    r"""IP-LSSVM: solve the full system, keep the columns with the largest support values, solve on them with all rows.

    For classes, the signed support values :math:`\alpha_i = a_i y_i` are compared: the most negative ones, deep inside
    their own class, are dropped first; with several classes, the largest value of a row is used. For regression,
    :math:`|\alpha|` is compared.

    Parameters
    ----------
    fraction : float
        Share of the columns to drop.

    Examples
    --------
    >>> from lssvm import LSSVC, datasets, kernels, sparsify
    >>> X, y = datasets.load_ripley(return_X_y=True)
    >>> model = LSSVC(kernels.RBF(0.7), C=10.0, steps=[sparsify.InversePrune(0.5)]).fit(X, y)
    >>> len(model.support_)
    125
    """

    def __init__(self, fraction: Share = 0.25) -> None:
        self.fraction = fraction

    def __call__(self, problem: Problem) -> Problem:
        problem = _dense(self, problem)
        a = arrays.to_numpy(problem.solve().coef)
        y = arrays.to_numpy(problem.y)[problem.rows]
        value = np.max(a * y, axis=1) if problem.classification else np.linalg.norm(a, axis=1)
        return _keep(problem, value, self.fraction)


class AdaPinv(_Columns):
    """Ada-Pinv: run Adaline's batch steps on the KKT system, keep the largest ``|alpha|``, solve with all rows.

    Parameters
    ----------
    fraction : float
        Share of the columns to drop.
    learning_rate : float or None
        Step length; None means ``1/|A|^2``, which never diverges.
    max_iter : int
        Number of steps.

    Examples
    --------
    >>> from lssvm import LSSVC, datasets, kernels, sparsify
    >>> X, y = datasets.load_ripley(return_X_y=True)
    >>> model = LSSVC(kernels.RBF(0.7), C=10.0, steps=[sparsify.AdaPinv(0.5)]).fit(X, y)
    >>> len(model.support_)
    125
    """

    def __init__(self, fraction: Share = 0.25, learning_rate: Positive | None = None, max_iter: Count = 1000) -> None:
        self.fraction = fraction
        self.learning_rate = learning_rate
        self.max_iter = max_iter

    def __call__(self, problem: Problem) -> Problem:
        problem = _dense(self, problem)
        x, _ = _descended(self, problem, lambda residual, alive: None)
        return _keep(problem, np.linalg.norm(x[1:], axis=1), self.fraction)


class Echelon(_Columns):
    """LS2-SVM: keep columns that are linearly independent up to a tolerance, solve on them with all rows.

    Parameters
    ----------
    tol : float or None
        The method of the paper: the KKT matrix is reduced to row echelon form from left to right with partial pivoting,
        and a column whose largest remaining entry is at most tol is dropped. With tol below about 1/C no column is
        dropped, and the result depends on the order of the rows.
    n : int or None
        The method that does not depend on the order: the first n columns of a column-pivoted QR factorisation, after
        the bias has been projected out. With both at None, n is the smallest size whose leave-one-out error is within
        5 % of the best, and at most three quarters of the columns.

    Examples
    --------
    >>> from lssvm import LSSVC, datasets, kernels, sparsify
    >>> X, y = datasets.load_ripley(return_X_y=True)
    >>> model = LSSVC(kernels.RBF(0.7), C=10.0, steps=[sparsify.Echelon(n=25)]).fit(X, y)
    >>> len(model.support_)
    25
    """

    def __init__(self, tol: NotNegative | None = None, n: Count | None = None) -> None:
        self.tol = tol
        self.n = n

    def __call__(self, problem: Problem) -> Problem:
        if self.tol is not None and self.n is not None:
            raise ValueError(f"Echelon: give tol={self.tol!r} or n={self.n!r}, not both.")
        problem = _dense(self, problem)
        A, _ = kkt_system(problem)
        rows = problem.rows
        if self.tol is not None:
            columns = _echelon_columns(A, self.tol)
            if not len(columns):
                raise ValueError(f"Echelon: tol={self.tol!r} drops all columns: lower tol.")
            return _reduced(problem, rows[columns])
        columns = A[:, 1:] - A[:, :1] * (A[:, :1].T @ A[:, 1:]) / float(A[:, 0] @ A[:, 0])
        order = rows[scipy.linalg.qr(columns, mode="r", pivoting=True, check_finite=False)[1]]
        if self.n is not None:
            return _reduced(problem, order[: self.n])
        sizes = np.unique(np.geomspace(2, max(2, 3 * len(rows) // 4), 20).astype(int))
        scores = []
        for size in sizes:
            fit = _reduced(problem, order[:size]).solve()
            loo, weights = arrays.to_numpy(fit.loo_residuals)[rows], arrays.to_numpy(problem.weights)[rows]
            scores.append(mean_loss(problem, loo, weights))
        chosen = int(sizes[int(np.argmax(np.array(scores) <= 1.05 * min(scores)))])
        path = Bunch(sizes=sizes, scores=np.array(scores), supports=[order[:size] for size in sizes], chosen=chosen)
        return _reduced(problem, order[:chosen], paths={**problem.paths, type(self).__name__: path})


class Adaline(_Columns):
    """A-LSSVM: run Adaline's batch steps on the KKT system and drop rows with small residuals along the way.

    After every step, the rows and columns of all samples whose residual is below `tol` are removed at once; the bias
    row stays, and at least two rows and one row of every class are kept. All residuals tend to 0, so the result depends
    on `tol`, `learning_rate` and `max_iter` together.

    Parameters
    ----------
    tol : float
        Residual below which a row is dropped, in the units of the targets (+-1 for classes).
    learning_rate : float or None
        Step length; None means ``1/|A|^2``.
    max_iter : int
        Number of steps.
    signed : bool
        Classes only: whether ``y_i r_i`` instead of ``|r_i|`` is compared with `tol`.
    final_solve : bool
        Whether the least-squares solution on the kept columns, with all rows, replaces the last iterate. Otherwise the
        iterate is the model; its leave-one-out values are unknown, and those attributes are NaN.

    Examples
    --------
    >>> from lssvm import LSSVC, datasets, kernels, sparsify
    >>> X, y = datasets.load_ripley(return_X_y=True)
    >>> model = LSSVC(kernels.RBF(0.7), C=10.0, steps=[sparsify.Adaline(tol=0.1, max_iter=500)]).fit(X, y)
    >>> len(model.support_) < 250
    True
    """

    def __init__(
        self,
        tol: NotNegative = 0.02,
        learning_rate: Positive | None = None,
        max_iter: Count = 3000,
        signed: Flag = False,
        final_solve: Flag = True,
    ) -> None:
        self.tol = tol
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.signed = signed
        self.final_solve = final_solve

    def __call__(self, problem: Problem) -> Problem:
        if self.signed and not problem.classification:
            raise ValueError("Adaline: signed=True compares y_i r_i, which is defined only for classes: use False.")
        problem = _dense(self, problem)
        y, labels = arrays.to_numpy(problem.y)[problem.rows], problem.labels[problem.rows]

        def large(r: np.ndarray, alive: np.ndarray) -> np.ndarray:
            size = np.max(np.abs(r), axis=1)
            kept = np.max(r * y[alive], axis=1) >= self.tol if self.signed else size >= self.tol
            if problem.classification:  # every class keeps its row with the largest residual
                for label in np.unique(labels[alive]):
                    own = np.flatnonzero(labels[alive] == label)
                    if not kept[own].any():
                        kept[own[np.argmax(size[own])]] = True
            if kept.sum() < 2:
                kept[np.argsort(size)[-2:]] = True
            return kept

        x, alive = _descended(self, problem, large)
        support = problem.rows[alive]
        if self.final_solve:
            return _reduced(problem, support)
        coefficients = arrays.like(x[1:], problem.X), arrays.like(x[0], problem.X)
        return problem.with_basis(support, coefficients=coefficients)


def _descended(step: AdaPinv | Adaline, problem: Problem, keep: Choice) -> tuple[np.ndarray, np.ndarray]:
    """Return bias and coefficients after Adaline's batch steps, and the rows that they belong to.

    After every step, `keep` gets the residuals and numbers of these rows, and returns a mask of those to keep.
    """
    A, B = kkt_system(problem)
    rate = step.learning_rate
    if rate is None:
        start = np.ones(len(A)) / np.sqrt(len(A))
        largest = np.abs(eigsh(A, k=1, which="LM", v0=start, return_eigenvectors=False, tol=1e-6))
        rate = 1.0 / float(largest[0]) ** 2
    alive = np.arange(len(A) - 1)
    x, residual = np.zeros_like(B), B
    for _ in range(step.max_iter):
        with np.errstate(over="ignore", invalid="ignore"):
            x += rate * (A @ residual)
            residual = B - A @ x
        if not np.isfinite(residual).all():
            given = f"{type(step).__name__}: learning_rate={step.learning_rate!r}"
            raise ValueError(f"{given} diverges: lower it, or leave it at None.")
        kept = keep(residual[1:], alive)
        if kept is not None and not kept.all():
            stay = np.append(True, kept)
            A, B, x, alive = A[np.ix_(stay, stay)], B[stay], x[stay], alive[kept]
            residual = B - A @ x
    return x, alive


def kkt_system(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return [[0, 1'], [1, K + V^-1/C]] and [0; y] of the rows with positive weight."""
    rows = problem.rows
    n = len(rows)
    A = np.ones((n + 1, n + 1))
    A[0, 0] = 0.0
    A[1:, 1:] = kernel_rows(problem.kernel, problem, rows, rows)
    weights, y = arrays.to_numpy(problem.weights)[rows], arrays.to_numpy(problem.y)[rows]
    A.flat[n + 2 :: n + 2] += 1.0 / (float(problem.C or 1.0) * weights)
    return A, np.vstack([np.zeros((1, y.shape[1])), y])


def _echelon_columns(A: np.ndarray, tol: float) -> np.ndarray:
    """Return the columns with a pivot above tol in Gaussian elimination, in order, without the bias (always kept)."""
    M = A.copy()
    row, kept = 0, []
    for column in range(M.shape[1]):
        pivot = row + int(np.argmax(np.abs(M[row:, column])))
        if abs(M[pivot, column]) <= tol and column > 0:
            continue
        M[[row, pivot]] = M[[pivot, row]]
        factors = M[row + 1 :, column] / M[row, column]
        M[row + 1 :, column:] -= factors[:, None] * M[row, column:]
        row += 1
        if column > 0:
            kept.append(column - 1)
        if row == len(M):
            break
    return np.array(kept, dtype=np.intp)


def _dense(step: Step, problem: Problem) -> Problem:
    """Return the problem with all hyper-parameters chosen; its basis must be all rows, from which the step chooses."""
    problem = tuned(problem)
    if not problem.is_dual or problem.reduced:
        remedy = "put it before other sparsifiers in steps"
        raise ValueError(f"{type(step).__name__} chooses among the columns of all rows: {remedy}.")
    return problem


def _keep(problem: Problem, value: np.ndarray, fraction: float) -> Problem:
    """Return the reduced problem on the rows with the largest values."""
    count = max(2, len(value) - int(fraction * len(value)))
    return _reduced(problem, problem.rows[np.argsort(-value, kind="stable")[:count]])


def _reduced(problem: Problem, support: np.ndarray, **changes: Any) -> Problem:
    # with all columns, the solution is that of the whole system
    return problem.with_basis(support, reduced=len(support) < len(problem.rows), **changes)
