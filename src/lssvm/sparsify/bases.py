"""Bases chosen before fitting."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from scipy.linalg.blas import dger
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils import Bunch, check_random_state

from .. import arrays, conjugate, progress
from ..kernels import Choice, Kernel
from ..problem import Problem, Step, column_spread
from ..progress import work
from ..tune import LeaveOneOut, best_C, most_for_C, tuned, tuned_each, warn_at_edge, with_best_C, with_every_class

__all__ = ["FeatureVectors", "Forward", "Given", "KMeans", "Learned", "Random", "RandomlyPivoted"]

SIZES = (500, 1000, 2000, 4000)  # `Random` without a size: tried with the first, then the second,
GAINS = (0.03, 0.05, 0.1)  # which has to lower the root mean square left-out residual by so much for it, or the others,
MOST_WORK = (2e11, 2e11, 1e12)  # as long as rows * n^2 is then no larger
SAMPLE_ROWS = 5000  # rows on which that is measured
RACE = 16  # scores of `Learned` by which one kernel of a choice is taken
SURE = 2.0  # standard errors by which a kernel has to be better on the rows held out
PATIENCE = 20  # moves of `Learned` without a gain on the rows held out


class Given(Step):
    """The basis that the user names.

    Parameters
    ----------
    points : array
        Row numbers of the training data (one-dimensional, integers), or the points themselves (n_points, n_features).

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Given([0, 20, 40, 60, 80])]).fit(X, y)
    >>> model.support_
    array([ 0, 20, 40, 60, 80])
    """

    def __init__(self, points: Any) -> None:
        self.points = points

    def __call__(self, problem: Problem) -> Problem:
        n_rows, n_features = problem.X.shape
        values = as_points(self.points)
        if values.ndim == 1:
            if not np.issubdtype(values.dtype, np.integer):
                raise ValueError(
                    f"Given: a one-dimensional points holds row numbers, got {values.dtype}: give integers, or points "
                    f"of shape (n, {n_features})."
                )
            if values.min() < 0 or values.max() >= n_rows:
                raise ValueError(
                    f"Given: points holds row {values.min()} to {values.max()}, but X has rows 0 to {n_rows - 1}."
                )
            return problem.with_basis(np.unique(values))
        if problem.kernel.is_precomputed:
            raise ValueError("Given: with kernels.Precomputed points must hold row numbers, a list of integers.")
        if values.ndim != 2 or values.shape[1] != n_features:
            raise ValueError(f"Given: points has shape {values.shape}, but X has {n_features} columns.")
        if not np.isfinite(values).all():
            raise ValueError("Given: points holds NaN or infinite values: remove or impute them.")
        return problem.with_basis(points=arrays.like(values.astype(float), problem.X))

    @property
    def by_row(self) -> str:
        return "points" if np.ndim(self.points) == 1 else ""


def as_points(points: Any) -> np.ndarray:
    """A NumPy array of row numbers or points, or a ValueError that says what was wrong."""
    try:
        values = np.asarray(arrays.to_numpy(points))
    except ValueError:
        raise ValueError(
            "Given: points must be row numbers or a table of numbers, got rows of unequal length."
        ) from None
    if values.ndim == 0 or values.dtype.kind not in "biuf":
        raise ValueError(f"Given: points must be row numbers or a table of real numbers, got {points!r}.")
    if values.shape[0] == 0:
        raise ValueError("Given: points is empty: give at least one row number or point.")
    return values


class Random(Step):
    """A basis of n rows drawn without replacement.

    Parameters
    ----------
    n : int or None
        Size of the basis; all rows when there are no more. None measures it: what else was left at None is chosen with
        500 points on a sample of 5000 rows, then 1000 points are tried there. They are taken where they lower the root
        mean square left-out residual by 3 %, 2000 points where they lower it by 5 %, as long as rows * n^2 is then at
        most 2e11, and up to 4000 points where they lower it by 10 %, up to 1e12; kernel and C are chosen again.
    random_state : int, RandomState or None
        Seed of the draw.

    Notes
    -----
    With n=None ``path_`` is that of `tune.LeaveOneOut` with ``sizes``, ``scores`` (mean squared left-out residual of
    the sample, in units of the largest deviation from the mean) and ``chosen``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Random(15, random_state=0)]).fit(X, y)
    >>> model.support_vectors_.shape
    (15, 1)
    """

    def __init__(self, n: int | None = None, random_state: Any = None) -> None:
        self.n = n
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        if self.n is not None:
            check_size(self, self.n)
        drawn = check_random_state(self.random_state).permutation(problem.rows)
        return self._measured(problem, drawn) if self.n is None else problem.with_basis(drawn[: self.n])

    def _measured(self, problem: Problem, drawn: np.ndarray) -> Problem:
        """As many of the rows drawn as pay, with kernel and C as chosen on the way."""
        sample = with_every_class(problem, drawn, SAMPLE_ROWS)
        last = progress.expect(lambda: most_for_C(problem.with_basis(drawn[: SIZES[0]])))
        sizes = progress.expect(lambda: sum(work(len(sample), n, every=True) for n in SIZES[:2]))
        basis = lambda n: np.searchsorted(sample, drawn[:n])  # noqa: E731
        known = tuned(problem.subset(sample).with_basis(basis(SIZES[0])), on_all_rows=False)
        measured = known.replace(C=problem.C)
        if known.robust is not None:
            measured = measured.replace(weights=known.solve().weights, robust=None)
        tried = [min(SIZES[0], len(drawn))]
        if size_that_pays(1.0, len(drawn)) > tried[0]:
            tried.append(SIZES[1])
        with sizes:
            scores = [best_C(measured.with_basis(basis(n)))[1] for n in tried]
        gain = 1.0 - (scores[-1] / scores[0]) ** 0.5 if scores[0] > 0 else 0.0
        size = size_that_pays(gain, len(drawn))
        chosen = problem.with_basis(drawn[:size])
        if size == tried[0]:
            paths = {**problem.paths, **known.paths}
            chosen = chosen.replace(kernel=known.kernel, robust=known.robust, paths=paths)
        else:  # what suits a small basis is too smooth for a larger one
            chosen = tuned(chosen)
        record = Bunch(**{**Bunch(plan=[], evaluations=0), **chosen.paths.get(LeaveOneOut.__name__, {})})
        record.plan = [f"{size} basis points by the left-out residuals of {len(sample)} rows", *record.plan]
        record.update(sizes=np.array(tried), scores=np.array(scores), chosen=size)
        if chosen.C is None:
            record.plan.pop()  # C of the sample
            with last:
                chosen = with_best_C(chosen.replace(C=known.C), record)
            warn_at_edge(chosen)
        paths = {**chosen.paths, LeaveOneOut.__name__: record}
        return chosen.replace(paths=paths, asked=problem.asked or (problem.kernel, problem.C))


def size_that_pays(gain: float, rows: int) -> int:
    """The size of a basis drawn of so many rows, where the second size lowers the left-out residual by such a share."""
    level = sum(gain >= least for least in GAINS)
    most = MOST_WORK[level - 1] if level else 0.0
    return max([min(SIZES[0], rows), *(n for n in SIZES[1 : level + 1] if n <= rows and rows * n * n <= most)])


class FeatureVectors(Step):
    """Feature vector selection (Baudat & Anouar; Cawley & Talbot 2004, section 2.4).

    Greedily takes the row that lowers the mean reconstruction error of all rows in feature space the most,
    ``1 - mean_i k_Si' K_SS^-1 k_Si / k_ii``. The kernel must be known to measure it: a width left at None is chosen
    provisionally on a sample of rows, and again by what follows.

    Parameters
    ----------
    n : int or None
        Size at which to stop.
    tol : float
        A row whose own error ``k_jj - k_Sj' K_SS^-1 k_Sj`` is at most ``tol * k_jj`` is not taken: copies never are.
    candidates : int or None
        None compares all rows (exact; memory and work grow with the square of their number). A number draws that
        many candidates at every step, 59 being within the best 5 % with probability 0.95, and measures the error
        on a sample of at most 2000 rows.
    error : float or None
        Mean reconstruction error at which to stop.
    random_state : int, RandomState or None
        Seed of the draws.

    Notes
    -----
    ``path_`` holds ``sizes``, ``errors`` (the mean reconstruction error at each size), ``support`` in the order of
    choice, and ``chosen``.

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
        n: int | None = None,
        tol: float = 1e-6,
        candidates: int | None = None,
        error: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n = n
        self.tol = tol
        self.candidates = candidates
        self.error = error
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        if self.n is not None:
            check_size(self, self.n)
        if self.candidates is not None:
            check_size(self, self.candidates, "candidates")
        check_share(self, self.tol, "tol")
        if self.error is not None:
            check_share(self, self.error, "error")
        kernel = provisional(problem).kernel
        choose = self._exact if self.candidates is None else self._stochastic
        support, errors = choose(kernel, problem)
        check_found(self, support)
        path = Bunch(sizes=np.arange(1, len(support) + 1), errors=errors, support=support, chosen=len(support))
        return problem.with_basis(support, paths={**problem.paths, type(self).__name__: path})

    def _limit(self, n_rows: int) -> int:
        return n_rows if self.n is None else min(self.n, n_rows)

    def _enough(self, errors: list[float]) -> bool:
        return self.error is not None and bool(errors) and errors[-1] <= self.error

    def _exact(self, kernel: Kernel, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """By deflation: E = K - K_XS K_SS^-1 K_SX, gain_j = sum_i (E_ij^2/k_ii)/E_jj, then E -= E_j E_j'/E_jj."""
        rows = problem.rows
        E = kernel_rows(kernel, problem, rows, rows)
        diagonal = E.diagonal().copy()
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        support: list[int] = []
        errors: list[float] = []
        while len(support) < self._limit(len(rows)) and not self._enough(errors):
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

    def _stochastic(self, kernel: Kernel, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """The same gain for a few drawn candidates, its mean taken over a sample of rows.

        The candidates of eight steps are drawn and deflated together, by two products; those of each step are then
        deflated by what was chosen in the steps before it. Rows of F and E belong to candidates, rows of `factor` to
        vectors chosen.
        """
        draw = check_random_state(self.random_state)
        rows = problem.rows
        limit = self._limit(len(rows))
        size = min(len(rows), max(500, min(2 * limit, 2000)))
        sample = np.sort(draw.choice(rows, size, replace=False))
        diagonal = kernel_diagonal(kernel, problem)
        own = diagonal[sample]
        inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
        left = np.ones(size) * (own > 0)  # share of each sampled row still to be reconstructed
        lower, factor = np.empty((0, 0)), np.empty((0, size))
        used = np.zeros(len(diagonal), dtype=bool)
        support: list[int] = []
        errors: list[float] = []
        misses = 0
        while len(support) < limit and not self._enough(errors) and misses < 20:
            m = len(support)
            steps = [rows[np.unique(draw.randint(len(rows), size=self.candidates))] for _ in range(min(8, limit - m))]
            drawn = np.concatenate(steps)
            chosen = np.array(support, dtype=np.intp)
            F = np.zeros((len(drawn), m + len(steps)))
            F[:, :m] = arrays.whiten_rows(kernel_rows(kernel, problem, drawn, chosen), lower)
            E, between = kernel_rows(kernel, problem, drawn, sample), kernel_rows(kernel, problem, drawn, drawn)
            if m:
                E = arrays.add_product(E, -F[:, :m], factor)
            pivots = diagonal[drawn] - np.einsum("ij,ij->i", F, F)
            taken: list[int] = []
            columns = np.empty((len(steps), size))
            for step in np.split(np.arange(len(drawn)), np.cumsum([len(step) for step in steps])[:-1]):
                floor = max(self.tol, 10.0 * (len(support) + 1) * arrays.EPS)
                allowed = (pivots[step] > floor * diagonal[drawn[step]]) & ~used[drawn[step]]
                misses = 0 if allowed.any() else misses + 1
                if not allowed.any() or self._enough(errors):
                    continue
                k = len(taken)
                deflated = E[step] - F[step, m : m + k] @ columns[:k]
                gain = np.divide(deflated**2 @ inverse, pivots[step], out=np.full(len(step), -np.inf), where=allowed)
                winner = int(np.argmax(gain))
                best = int(step[winner])
                root = np.sqrt(pivots[best])
                columns[k] = deflated[winner] / root
                F[:, m + k] = (between[:, best] - F[:, : m + k] @ F[best, : m + k]) / root
                pivots = pivots - F[:, m + k] ** 2
                left -= columns[k] ** 2 * inverse
                taken.append(best)
                used[drawn[best]] = True
                support.append(int(drawn[best]))
                errors.append(float(np.mean(np.maximum(left, 0.0))))
            if taken:
                k = len(taken)
                before, lower = lower, np.zeros((m + k, m + k))
                lower[:m, :m], lower[m:, :m] = before, F[taken, :m]
                lower[m:, m:] = np.tril(F[taken, m : m + k])
                factor = np.vstack([factor, columns[:k]])
        return np.array(support, dtype=np.intp), np.array(errors)


class RandomlyPivoted(Step):
    """Randomly pivoted Cholesky: rows drawn in proportion to how badly the rows so far reconstruct them.

    The accelerated form (Epperly, Tropp & Webber 2024): blocks of proposals, thinned by rejection, so that the draws
    have the law of one-at-a-time sampling and the work is matrix products. Close to the best basis of its size for
    the kernel matrix; the targets are not looked at.

    Parameters
    ----------
    n : int
        Size of the basis; fewer where the rows are reconstructed to working precision before.
    random_state : int, RandomState or None
        Seed of the draws.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.RandomlyPivoted(15, random_state=0)]).fit(X, y)
    >>> model.support_vectors_.shape
    (15, 1)
    """

    def __init__(self, n: int, random_state: Any = None) -> None:
        self.n = n
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        check_size(self, self.n)
        chosen = randomly_pivoted(provisional(problem), self.n, check_random_state(self.random_state))
        check_found(self, chosen)
        return problem.with_basis(chosen)


def randomly_pivoted(problem: Problem, n: int, draw: np.random.RandomState) -> np.ndarray:
    """At most n rows of the problem, whose kernel is known, by randomly pivoted Cholesky."""
    kernel, rows = problem.kernel, problem.rows

    def block(picked: np.ndarray, columns: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
        return kernel_rows(kernel, problem, rows[picked], rows if columns is None else rows[columns], out=out)

    diagonal = kernel_diagonal(kernel, problem)[rows]
    floor = len(rows) * arrays.EPS * float(diagonal.sum())
    return rows[conjugate.randomly_pivoted(block, diagonal, n, floor, draw)[0]]


class KMeans(Step):
    """Centres of (mini-batch) k-means on the columns in units of their spread: basis points that are not rows.

    Parameters
    ----------
    n : int
        Number of centres; the distinct rows themselves where there are no more.
    random_state : int, RandomState or None
        Seed of the starts.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.KMeans(15, random_state=0)]).fit(X, y)
    >>> model.support_vectors_.shape
    (15, 1)
    >>> model.support_ is None  # centres are no rows
    True
    """

    def __init__(self, n: int, random_state: Any = None) -> None:
        self.n = n
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        check_size(self, self.n)
        if problem.kernel.is_precomputed:
            raise ValueError("KMeans needs the columns, which kernels.Precomputed does not have: use Random, for one.")
        rows = problem.rows
        spread = column_spread(problem)
        X = arrays.to_numpy(arrays.take(problem.X, rows)) / spread
        distinct = np.unique(X, axis=0)
        if len(distinct) > self.n:
            weights = arrays.to_numpy(problem.weights)[rows]
            means = MiniBatchKMeans(self.n, random_state=self.random_state, n_init=1, batch_size=4096)
            distinct = np.unique(means.fit(X, sample_weight=weights).cluster_centers_, axis=0)
        return problem.with_basis(points=arrays.like(distinct * spread, problem.X))


class Forward(Step):
    """Supervised greedy selection: orthogonal least squares on a pool of candidates, leave-one-out as the stop rule.

    At every step the candidate that lowers the penalised training error the most joins the basis. C and a width left
    at None are chosen provisionally on a sample of rows, and again by what follows.

    Parameters
    ----------
    n : int
        Largest size of the basis. The size with the smallest leave-one-out error is kept.
    pool : int
        Number of drawn candidates.
    random_state : int, RandomState or None
        Seed of the pool, and of the sample of at most 5 * pool rows on which the candidates are compared.

    Notes
    -----
    ``path_`` holds ``sizes``, ``scores`` (mean squared left-out residual), ``support`` in the order of choice, and
    ``chosen``.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Forward(30, random_state=0)]).fit(X, y)
    >>> model.path_.chosen <= 30
    True
    """

    def __init__(self, n: int, pool: int = 1000, random_state: Any = None) -> None:
        self.n = n
        self.pool = pool
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        check_size(self, self.n)
        check_size(self, self.pool, "pool")
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
        """Places in the pool in the order of choice, and the leave-one-out error after each.

        The columns U of all candidates are kept deflated by the whitened columns chosen so far. With Q the
        orthonormal columns of [A; sqrt(lam) I], candidate j of scaled column a_j = U_j/sqrt(E_jj) lowers the error by
        (a_j'r)^2/(|a_j|^2 - |Q'a_j|^2 + lam), r the residuals.
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
            # deflate all candidates by the new column; what depends on them follows from one product
            products = U @ np.column_stack([column, q, r])
            along, onto_q, g = products[:, 0], products[:, 1], G[:, m]
            projected[:m] -= np.outer(share, g)
            projected[m] = onto_q - (q @ column) * g
            norms = norms - 2.0 * g * along + g**2 * (column @ column)
            pivots = pivots - g**2
            correlation = products[:, 2:] - np.outer(g, column @ r)
            U = dger(-1.0, column, g, a=U.T, overwrite_a=1).T
        return np.array(taken, dtype=np.intp), np.array(scores)


class Learned(Step):
    """Basis points that move along the gradient of log PRESS, from rows chosen by `RandomlyPivoted`.

    Points, and with them the widths and C where those were left at None, follow Adam on the exact gradient of the
    leave-one-out error of a sample of rows. Of several kernels (`kernels.Choice`) each takes 15 moves, then one goes
    on: the best on the rows held out, where it is by two standard errors, else that of the best start by
    leave-one-out. What predicts the rows held out best is kept, the start included, and then fitted on all rows.

    Parameters
    ----------
    n : int
        Number of points; fewer where fewer rows reconstruct the others.
    steps : int
        Largest number of moves; 20 moves without a gain on the rows held out end it too.
    random_state : int, RandomState or None
        Seed of the start, the sample and the rows held out.

    Notes
    -----
    A tenth of the rows is held out. The sample has at most max(2000, 5 n) of the others, all of them where the arrays
    live on another device. ``path_`` holds ``scores`` (mean squared residual of the rows held out, the start first)
    and ``chosen`` (the number of moves kept).

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.Learned(8, random_state=0)]).fit(X, y)
    >>> model.support_vectors_.shape
    (8, 1)
    """

    def __init__(self, n: int, steps: int = 150, random_state: Any = None) -> None:
        self.n = n
        self.steps = steps
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        check_size(self, self.n)
        check_size(self, self.steps, "steps")
        if problem.kernel.is_precomputed:
            raise ValueError("Learned moves points, which kernels.Precomputed does not have: use Random, for one.")
        draw = check_random_state(self.random_state)
        order, seed = draw.permutation(problem.rows), draw.randint(2**31)
        candidates = np.sort(order[: max(5000, 10 * self.n)])
        kernels = problem.kernel.kernels if isinstance(problem.kernel, Choice) else [problem.kernel]
        descents = []
        for kernel, known in zip(kernels, tuned_each(problem.with_basis(order[: self.n], asked=None)), strict=True):
            if known.robust is not None:  # the weights of the machine that starts
                known = known.replace(weights=known.solve().weights, robust=None)
            rows = randomly_pivoted(known.with_basis().subset(candidates), self.n, np.random.RandomState(seed))
            check_found(self, rows)
            descents.append(self._descend(known.with_basis(candidates[rows]), kernel, problem.C, order))
        # what suits rows may not suit points that move: each kernel of a choice takes a few steps
        first = min(RACE, self.steps + 1) if len(kernels) > 1 else 1
        trails = [list(islice(descent, first)) for descent in descents]
        winner = _winner(trails)
        trail = trails[winner]
        for place in islice(descents[winner], self.steps + 1 - first):
            trail.append(place)
            if len(trail) - 1 - int(np.argmin([place.score for place in trail])) >= PATIENCE:
                break
        scores = np.array([place.score for place in trail])
        best = int(np.argmin(scores))
        paths = {**problem.paths, type(self).__name__: Bunch(scores=scores, chosen=best)}
        learned = problem.with_basis(points=trail[best].points, kernel=trail[best].kernel, paths=paths)
        if learned.C is None:
            learned = with_best_C(learned, Bunch(plan=[]))
            warn_at_edge(learned)
        return learned.replace(asked=problem.asked or (problem.kernel, problem.C))

    def _descend(self, known: Problem, asked: Kernel, C: float | None, order: np.ndarray) -> Iterator[Bunch]:
        """Losses of the rows held out and their mean, leave-one-out error, kernel and points after every move."""
        held, rest = np.sort(order[: -(-len(order) // 10)]), order[-(-len(order) // 10) :]
        sample = np.sort(rest[: max(2000, 5 * self.n)] if arrays.is_numpy(known.X) else rest)
        points = known.kernel.basis_points(known.X, np.asarray(known.support)) + 0.0
        if len(sample) < 3:  # too few to leave one out: nothing moves
            yield Bunch(score=0.0, losses=np.zeros(1), left_out=0.0, kernel=known.kernel, points=points)
            return
        inputs, targets, weights = (arrays.take(a, held) for a in (known.X, known.y, known.weights))
        spread = column_spread(known)
        leaves = known.kernel.leaves
        logs = np.array([np.log(arrays.to_numpy(leaf.sigma)) * np.ones(len(spread)) for leaf in leaves])
        logs = logs.reshape(len(leaves), len(spread))
        matters = np.any(logs < np.log(1e5 * spread), axis=0) | (len(leaves) == 0)  # columns that are not left out
        free = known.paths["LeaveOneOut"].free if asked.is_free else [False] * len(leaves)
        scale = arrays.like(spread * matters, known.X)
        machine = known.subset(sample)
        log_C = np.array([np.log(known.C or 1.0)])
        in_points, in_widths, in_C = Adam(), Adam(), Adam()
        while True:
            kernel = known.kernel.with_widths(list(np.exp(logs))) if any(free) else known.kernel
            factor = machine.with_basis(points=points, kernel=kernel, C=float(np.exp(log_C[0]))).factorise(quick=True)
            solution = factor.system.solution(1.0 / factor.C, careful=False)
            residuals = targets - factor.columns(inputs) @ solution.coef - solution.intercept[None, :]
            losses = _weighted_squares(residuals, weights)
            left_out = _weighted_squares(solution.loo_residuals, arrays.take(machine.weights, factor.rows))
            yield Bunch(
                score=float(losses.mean()), losses=losses, left_out=left_out.mean(), kernel=kernel, points=points
            )
            if not factor.has_point_gradient:
                return
            try:
                _, widths, slope, moves = factor.criterion_and_points()
            except arrays.NumericalError:  # nothing is left to lower
                return
            points = points - scale * in_points.step(moves * scale)
            widths = arrays.to_numpy(widths) * matters * np.array(free, dtype=float)[:, None]
            common = np.array([[not leaf.ard] for leaf in leaves], dtype=bool).reshape(-1, 1)
            logs = logs - in_widths.step(np.where(common, widths.sum(axis=1, keepdims=True), widths))
            if C is None:
                log_C = log_C - in_C.step(np.array([slope]))


def _winner(trails: list[list[Bunch]]) -> int:
    """The trail with the lowest score; of those that chance may tell apart from it, that of the best start.

    The start has a left-out residual for every row of the sample, many more than are held out.
    """
    lowest = [min(trail, key=lambda place: place.score) for trail in trails]
    best = min(lowest, key=lambda place: place.score)
    close = []
    for number, place in enumerate(lowest):
        difference = place.losses - best.losses
        if difference.mean() <= SURE * difference.std() / np.sqrt(len(difference)):
            close.append(number)
    return min(close, key=lambda number: trails[number][0].left_out)


def _weighted_squares(residuals: Any, weights: Any) -> np.ndarray:
    """The squares of every row, summed over the outputs, times its weight in units of the mean weight."""
    values, weights = arrays.to_numpy(residuals), arrays.to_numpy(weights)
    return np.asarray((values * values).sum(axis=1) * weights / weights.mean())


class Adam:
    """Step sizes of Kingma & Ba (2015), for arrays of any kind."""

    def __init__(self, rate: float = 0.05) -> None:
        self.rate = rate
        self.count = 0
        self.mean: Any = 0.0
        self.square: Any = 0.0

    def step(self, gradient: Any) -> Any:
        """The distance to go against the gradient."""
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient * gradient
        root = (self.square / (1.0 - 0.999**self.count)) ** 0.5
        return self.rate * self.mean / ((1.0 - 0.9**self.count) * (root + 1e-12))


# Shared by selectors --------------------------------------------------------------------------------------------------
def provisional(problem: Problem, *, supervised: bool = False) -> Problem:
    """The problem with a kernel (and C, when `supervised`) to select by: what is None is tuned on at most 500 rows."""
    if not problem.kernel.is_free and (problem.C is not None or not supervised):
        return problem
    rows = problem.rows
    sample = np.random.RandomState(0).permutation(rows)[:500]
    known = tuned(problem.with_basis().subset(np.sort(sample)))
    return problem.replace(kernel=known.kernel, C=known.C)


def kernel_rows(
    kernel: Kernel, problem: Problem, rows: np.ndarray, columns: np.ndarray, out: np.ndarray | None = None
) -> np.ndarray:
    """Kernel values between rows of the problem, written into `out` if given."""
    inputs, points = arrays.take(problem.X, rows), kernel.basis_points(problem.X, columns)
    if out is None:
        return arrays.to_numpy(kernel.evaluate(inputs, points))
    if arrays.is_numpy(inputs):
        return kernel.fill(out, inputs, points)
    out[...] = arrays.to_numpy(kernel.evaluate(inputs, points))
    return out


def kernel_diagonal(kernel: Kernel, problem: Problem) -> np.ndarray:
    """k(x, x) of all rows of the problem."""
    return arrays.to_numpy(kernel.diagonal(problem.X))


def check_found(step: Step, support: np.ndarray) -> None:
    """Raise ValueError when nothing could be chosen."""
    if not len(support):
        raise ValueError(f"{type(step).__name__}: the kernel is 0 on all rows, so that no basis vector can be chosen.")


def check_size(step: Step, n: Any, name: str = "n") -> None:
    """Raise ValueError unless n is an integer of at least 1."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
        raise ValueError(f"{type(step).__name__}: {name} must be an integer of at least 1, got {n!r}.")


def check_share(step: Step, value: Any, name: str) -> None:
    """Raise ValueError unless the value lies in [0, 1)."""
    if not isinstance(value, (int, float, np.number)) or not 0 <= value < 1:
        raise ValueError(f"{type(step).__name__}: {name} must be a number from 0 to below 1, got {value!r}.")
