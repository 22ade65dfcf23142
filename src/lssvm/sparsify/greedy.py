"""Greedy selection: basis points chosen one after the other."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dger
from sklearn.utils import Bunch, check_random_state

from .. import arrays
from ..kernels import Kernel
from ..problem import Problem, Step
from ..rules import Count, Seed, Share
from .common import check_found, kernel_rows, provisional


class FeatureVectors(Step):
    r"""Feature vector selection (Baudat & Anouar; Cawley & Talbot 2004, section 2.4).

    Each step adds to the chosen rows S the row that most reduces the mean reconstruction error of all l rows in feature
    space,

    .. math:: 1 - \frac{1}{l} \sum_i k_{Si}^\top K_{SS}^{-1} k_{Si} / k_{ii}

    As the error depends on the kernel, a width left at None is chosen provisionally on a sample of rows; the final
    width is chosen after the selection.

    Parameters
    ----------
    n : int or None
        Size at which to stop.
    tol : float
        A row whose own error :math:`k_{jj} - k_{Sj}^\top K_{SS}^{-1} k_{Sj}` is at most ``tol`` times :math:`k_{jj}` is
        never chosen; this excludes duplicates.
    candidates : int or None
        None compares all rows, which is exact, but needs memory and time proportional to the square of their number.
        An integer draws that many candidates in every step (the best of 59 is among the best 5 % with probability
        0.95) and measures the error on a sample of at most 2000 rows.
    error : float or None
        Mean reconstruction error at which to stop.
    random_state : int, RandomState or None
        Seed for the random draws.

    Notes
    -----
    ``path_`` holds ``sizes``, ``errors`` (the mean reconstruction error at each size), ``support`` (in the order of
    selection) and ``chosen``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.FeatureVectors(15)]).fit(X, y)
    >>> model.support_vectors_.shape
    (15, 1)
    >>> bool(model.path_.errors[-1] < 1e-4)  # of the reconstruction in feature space
    True
    """

    def __init__(
        self,
        n: Count | None = None,
        tol: Share = 1e-6,
        candidates: Count | None = None,
        error: Share | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n = n
        self.tol = tol
        self.candidates = candidates
        self.error = error
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        kernel = provisional(problem).kernel
        limit = len(problem.rows) if self.n is None else min(self.n, len(problem.rows))
        choose = self._exact if self.candidates is None else self._stochastic
        support, errors = choose(kernel, problem, limit, -1.0 if self.error is None else self.error)
        check_found(self, support)
        path = Bunch(sizes=np.arange(1, len(support) + 1), errors=errors, support=support, chosen=len(support))
        return problem.with_basis(support, paths={**problem.paths, type(self).__name__: path})

    def _exact(self, kernel: Kernel, problem: Problem, limit: int, error: float) -> tuple[np.ndarray, np.ndarray]:
        """Choose by deflation: E = K - K_XS K_SS^-1 K_SX, gain_j = sum_i (E_ij^2/k_ii)/E_jj, E -= E_j E_j'/E_jj."""
        rows = problem.rows
        E = kernel_rows(kernel, problem, rows, rows)
        diagonal = E.diagonal().copy()
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        support: list[int] = []
        errors: list[float] = []
        while len(support) < limit and (errors or [np.inf])[-1] > error:
            pivots = E.diagonal()
            allowed = pivots > max(self.tol, 10.0 * len(rows) * arrays.EPS) * diagonal
            if not allowed.any():
                break
            gain = np.einsum("ij,ij,i->j", E, E, inverse)
            gain = np.divide(gain, pivots, out=np.full_like(gain, -np.inf), where=allowed)
            best = int(np.argmax(gain))
            column = E[:, best] / np.sqrt(pivots[best])
            E -= column[:, None] * column[None, :]
            support.append(best)
            errors.append(float(np.mean(np.maximum(E.diagonal(), 0.0) * inverse)))
        return rows[support], np.array(errors)

    def _stochastic(self, kernel: Kernel, problem: Problem, limit: int, error: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the same gain for a few random candidates of each step, averaged over a sample of rows.

        Their errors follow from a Cholesky factor (`lower`) of the chosen rows, and from its columns for the sample.
        """
        draw, rows = check_random_state(self.random_state), problem.rows
        sample = np.sort(draw.choice(rows, min(len(rows), max(500, min(2 * limit, 2000))), replace=False))
        diagonal = arrays.to_numpy(kernel.diagonal(problem.X))
        own = diagonal[sample]
        inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
        left = np.ones(len(sample)) * (own > 0)  # share of each sampled row still to be reconstructed
        lower, columns = np.zeros((64, 64)), np.empty((64, len(sample)))
        support: list[int] = []
        errors: list[float] = []
        misses = 0
        while len(support) < limit and (errors or [np.inf])[-1] > error and misses < 20:
            m = len(support)
            if m == len(lower):
                lower, columns = np.pad(lower, (0, m)), np.pad(columns, ((0, m), (0, 0)))
            drawn = rows[np.unique(draw.randint(len(rows), size=self.candidates))]
            F = kernel_rows(kernel, problem, drawn, np.array(support, dtype=np.intp))
            F = arrays.whiten_rows(F, lower[:m, :m])
            pivots = diagonal[drawn] - np.einsum("ij,ij->i", F, F)
            allowed = (pivots > max(self.tol, 10.0 * (m + 1) * arrays.EPS) * diagonal[drawn]) & ~np.isin(drawn, support)
            misses = 0 if allowed.any() else misses + 1
            if not allowed.any():
                continue
            E = arrays.add_product(kernel_rows(kernel, problem, drawn, sample), -F, columns[:m])
            best = int(np.argmax(np.divide(E**2 @ inverse, pivots, out=np.full(len(E), -np.inf), where=allowed)))
            root = np.sqrt(pivots[best])
            lower[m, :m], lower[m, m], columns[m] = F[best], root, E[best] / root
            left -= columns[m] ** 2 * inverse
            support.append(int(drawn[best]))
            errors.append(float(np.mean(np.maximum(left, 0.0))))
        return np.array(support, dtype=np.intp), np.array(errors)


class Forward(Step):
    """Supervised greedy selection: orthogonal least squares on a pool of candidates, stopped by leave-one-out.

    Each step adds the candidate that reduces the penalised training error the most. C and widths left at None are
    chosen provisionally on a sample of rows; the final values are chosen after the selection.

    Parameters
    ----------
    n : int
        Largest size of the basis. The size with the smallest leave-one-out error is kept.
    pool : int
        Number of candidates, drawn at random.
    random_state : int, RandomState or None
        Seed for the pool, and for the sample of at most 5 * pool rows on which the candidates are compared.

    Notes
    -----
    ``path_`` holds ``sizes``, ``scores`` (mean squared leave-one-out residual), ``support`` (in the order of selection)
    and ``chosen``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Forward(30, random_state=0)]).fit(X, y)
    >>> model.path_.chosen <= 30
    True
    """

    def __init__(self, n: Count, pool: Count = 1000, random_state: Seed = None) -> None:
        self.n = n
        self.pool = pool
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        draw = check_random_state(self.random_state)
        known = provisional(problem, supervised=True)
        rows = problem.rows
        pool = np.sort(draw.choice(rows, min(max(self.pool, self.n), len(rows)), replace=False))
        sample = np.sort(draw.choice(rows, min(5 * self.pool, len(rows)), replace=False))
        support, scores = self._select(known, sample, pool)
        check_found(self, support)
        size = int(np.argmin(scores)) + 1
        path = Bunch(sizes=np.arange(1, len(scores) + 1), scores=scores, support=pool[support], chosen=size)
        return problem.with_basis(pool[support[:size]], paths={**problem.paths, type(self).__name__: path})

    def _select(self, problem: Problem, sample: np.ndarray, pool: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions in the pool in the order of selection, and the leave-one-out error after each.

        The columns U of all candidates are kept deflated by the whitened columns chosen so far. With Q the orthonormal
        columns of [A; sqrt(lam) I] and residuals r, candidate j with the scaled column a_j = U_j/sqrt(E_jj) reduces the
        error by (a_j'r)^2/(|a_j|^2 - |Q'a_j|^2 + lam).
        """
        weights = arrays.to_numpy(problem.weights)[sample]
        y, w, lam = arrays.to_numpy(problem.y)[sample], np.sqrt(weights), 1.0 / float(problem.C or 1.0)
        centre = w / np.linalg.norm(w)
        U = kernel_rows(problem.kernel, problem, pool, sample) * w[None, :]  # candidates are rows
        U -= np.outer(U @ centre, centre)
        E = kernel_rows(problem.kernel, problem, pool, pool)
        diagonal = E.diagonal().copy()
        pivots, norms = diagonal.copy(), np.einsum("ij,ij->i", U, U)
        t = w[:, None] * (y - weights @ y / weights.sum())
        r, h = t.copy(), centre**2
        correlation = U @ r
        limit = min(self.n, len(pool))
        Q, projected, G = np.empty((len(sample), limit)), np.empty((limit, len(pool))), np.empty((len(pool), limit))
        taken: list[int] = []
        scores: list[float] = []
        patience = max(10, limit // 5)
        while len(taken) < limit and len(scores) - int(np.argmin(scores or [0.0])) <= patience:
            m = len(taken)
            allowed = pivots > 1e-10 * diagonal
            allowed[taken] = False
            if not allowed.any():
                break
            rest = np.maximum(norms - np.einsum("ij,ij->j", projected[:m], projected[:m]), 0.0)
            below = rest + lam * np.where(allowed, pivots, 1.0)
            best = int(np.argmax(np.where(allowed, np.sum(correlation**2, axis=1) / below, -np.inf)))
            taken.append(best)
            root = np.sqrt(pivots[best])
            G[:, m] = (E[:, best] - G[:, :m] @ G[best, :m]) / root
            column, share = U[best] / root, projected[:m, best] / root
            length = np.sqrt(max(column @ column - share @ share, 0.0) + lam)
            Q[:, m] = q = (column - Q[:, :m] @ share) / length
            r -= np.outer(q, q @ t)
            h = h + q * q
            scores.append(float(np.sum((r / np.maximum(1.0 - h, 1e-12)[:, None]) ** 2) / weights.sum()))
            # deflate all candidates by the new column; one product updates all quantities that depend on them
            products = U @ np.column_stack([column, q, r])
            along, onto_q, g = products[:, 0], products[:, 1], G[:, m]
            projected[:m] -= np.outer(share, g)
            projected[m] = onto_q - (q @ column) * g
            norms = norms - 2.0 * g * along + g**2 * (column @ column)
            pivots = pivots - g**2
            correlation = products[:, 2:] - np.outer(g, column @ r)
            U = dger(-1.0, column, g, a=U.T, overwrite_a=1).T
        return np.array(taken, dtype=np.intp), np.array(scores)
