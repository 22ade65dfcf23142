"""L1 substrates (Pelckmans, Suykens & De Moor 2005, section 2).

An LS-SVM substrate is the LS-SVM for a given vector c (their eq. 10): (Omega + I) alpha + 1 b = y - c, 1'alpha = 0.
This is the ordinary model with C = 1 and targets y - c: ``LSSVR(kernel, C=1.0, steps=()).fit(X, y - c)``. The step in
this module leaves c free and chooses few coefficients alpha (eq. 16); `Components` chooses few inputs (eq. 25).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any

import numpy as np
import scipy.linalg
from scipy.linalg import qr_delete, qr_insert
from sklearn.utils import Bunch, check_random_state

from .. import arrays
from ..problem import Problem
from ..progress import counted
from ..rules import Flag, NotNegative, Seed, integer
from .common import VALIDATION, ValidatedStep, best_on_path, divided, prepared, with_solution
from .parametric import first_zero

# A path ends at a multiple of the first zeta: the first of these, or the next one if the best zeta is the last.
PATH_ENDS = 1e-3, 1e-4, 1e-5, 1e-6


HeldOut = Annotated[Any, VALIDATION | integer("a number of folds (at least 2)", 2)]


class Substrate(ValidatedStep):
    r"""Sparse LS-SVM substrate: coefficients with an L1 penalty (Pelckmans et al. 2005, eq. 16), from the exact path.

    .. math::

        \min_{\alpha, b} \; \sum_i v_i \, (y_i - f(x_i))^2 + \zeta \, |\alpha|_1
        \quad \text{with} \quad f(x) = \sum_j \alpha_j k(x, x_j) + b, \quad \sum_j \alpha_j = 0

    C has no effect. After a step that chose a basis, :math:`\alpha` are the coefficients of that basis, and the loss
    contains all rows: ``[Given(rows), Substrate(zeta)]`` is eq. (23), with ``zeta=0`` eq. (22).

    Parameters
    ----------
    zeta : float or None
        Weight of the penalty. None: chosen along the path.
    validation : float, integer or array of row numbers
        The rows that choose zeta: a share of the rows, drawn at random, or given row numbers; these rows are not used
        in the fit. Their mean squared error is a parabola between breakpoints, and its minimum is found exactly. An
        integer k >= 2 means k folds and the one-standard-error rule: the largest zeta whose error is within one
        standard error of the best; the model is then fitted on all rows.
    refit : bool
        Whether the ordinary penalised model on the chosen basis, with all rows, replaces the substrate. The
        leave-one-out values of the substrate itself are not known: those attributes are NaN.
    random_state : int, RandomState or None
        Seed for the validation rows or the folds.

    Notes
    -----
    ``path_`` holds ``zeta`` (the breakpoints, decreasing), ``coef`` (breakpoints x basis points), ``intercept``,
    ``supports`` (row numbers at every breakpoint; positions in the basis if it consists of points), ``scores`` (the
    validation error at every breakpoint) and ``chosen``, a zeta; with several outputs, ``outputs`` is a list of such
    records, with a path and a zeta for each output. The path ends at a thousandth of the zeta at which the first
    coefficients appear (further on if the best zeta is the last one), or at the given zeta. Of identical inputs, only
    one has a non-zero coefficient.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(6.0), steps=[sparsify.Substrate(random_state=0)]).fit(X, y)
    >>> len(model.support_) < 20, bool(abs(model.dual_coef_.sum()) < 1e-6)
    (True, True)
    """

    def __init__(
        self, zeta: NotNegative | None = None, validation: HeldOut = 0.2, refit: Flag = False, random_state: Seed = None
    ) -> None:
        self.zeta = zeta
        self.validation = validation
        self.refit = refit
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        folds = int(self.validation) if isinstance(self.validation, Integral) else 0
        if self.zeta is None and folds > len(problem.rows):
            present = f"only {counted(len(problem.rows), 'row has', 'rows have')} positive weight"
            raise ValueError(f"Substrate: validation={folds} folds need at least as many rows, but {present}.")
        problem, weights = prepared(problem, self.refit)
        rows, held_out, support, points = divided(self, problem, self.zeta is None and not folds)
        K = arrays.to_numpy(problem.kernel.evaluate(problem.X, points))
        y = arrays.to_numpy(problem.y)
        coef, intercept, records = np.zeros((K.shape[1], y.shape[1])), np.zeros(y.shape[1]), []
        for output, targets in enumerate(y.T):
            data = K[rows], targets[rows], weights[rows]
            if self.zeta is not None:
                path, zeta, scores = self._down_to_zeta(*data), float(self.zeta), None
            elif folds:
                path, zeta, scores = self._by_folds(*data, folds)
            else:
                path, zeta, scores = _by_validation(Homotopy(*data), K[held_out], targets[held_out], weights[held_out])
            coef[:, output], intercept[output] = path.at(zeta)
            supports = [np.flatnonzero(row) for row in path.coef]
            if support is not None:
                supports = [support[places] for places in supports]
            records.append(Bunch(**vars(path), supports=supports, scores=scores, chosen=zeta))
        record = records[0] if len(records) == 1 else Bunch(outputs=records, chosen=[r.chosen for r in records])
        kept = np.flatnonzero(np.any(coef != 0.0, axis=1))
        kept = kept if len(kept) else np.array([0])  # all coefficients are 0: keep one basis point
        basis: dict[str, Any] = {"paths": {**problem.paths, type(self).__name__: record}}
        basis |= {"points": arrays.take(points, kept)} if support is None else {"support": support[kept]}
        if self.refit:
            return problem.with_basis(**basis)
        return with_solution(problem, coef[kept], intercept, weights, **basis)

    def _down_to_zeta(self, K: np.ndarray, y: np.ndarray, weights: np.ndarray) -> L1Path:
        """Return the path down to the given zeta; warn if the columns are too close to linear dependence for it."""
        zeta = float(self.zeta or 0.0)
        if zeta == 0.0:
            return least_squares(K, y, weights)
        path = Homotopy(K, y, weights).to(zeta)
        a, b = path.at(zeta)
        c = (K - weights @ K / weights.sum()).T @ (weights * (y - K @ a - b))
        # mu is in [c - zeta/2, c + zeta/2], at the lower end where a > 0 and at the upper end where a < 0
        largest = max(np.max(c - zeta / 2), np.max((c + zeta / 2)[a < 0.0], initial=-np.inf))
        smallest = min(np.min(c + zeta / 2), np.min((c - zeta / 2)[a > 0.0], initial=np.inf))
        if largest - smallest > 0.01 * zeta:
            what = f"zeta={self.zeta!r} is too small for this kernel, whose columns are almost linearly dependent"
            why = f"the optimality conditions hold only to {(largest - smallest) / zeta:.1g} of zeta/2"
            arrays.warn(f"Substrate: {what}: {why}. Use a larger zeta or a narrower kernel.")
        return path

    def _by_folds(self, K: np.ndarray, y: np.ndarray, weights: np.ndarray, folds: int) -> Choice:
        """Return the path of all rows, zeta by the one-standard-error rule at its breakpoints, and the errors there."""
        homotopy = Homotopy(K, y, weights)
        path = homotopy.to(PATH_ENDS[0] * 2 * homotopy.lam)
        errors = np.empty((folds, len(path.zeta)))
        order = check_random_state(self.random_state).permutation(len(y))
        for part, error in zip(np.array_split(order, folds), errors, strict=True):
            rest = np.setdiff1d(order, part)
            zeta = weights[rest].sum() / weights.sum() * path.zeta  # the errors are sums over fewer rows
            fold = Homotopy(K[rest], y[rest], weights[rest]).to(zeta[-1])
            error[:] = np.average(fold.residuals(K[part], y[part], zeta) ** 2, axis=1, weights=weights[part])
        mean, deviation = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(folds)
        best = int(np.argmin(mean))
        return path, float(path.zeta[int(np.argmax(mean <= mean[best] + deviation[best]))]), mean


def _by_validation(homotopy: Homotopy, K: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Choice:
    """Return the path, the zeta with the smallest error of the validation rows, and their errors at the breakpoints."""
    start = 2 * homotopy.lam
    for share in PATH_ENDS:
        path = homotopy.to(share * start)
        scores, place, _ = best_on_path(path.residuals(K, y, path.zeta), weights / weights.sum())
        if place < len(scores) - 1:
            break
    return path, float(np.interp(place, np.arange(len(scores)), path.zeta)), scores


# The path -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class L1Path:
    """All minimisers of sum_i v_i (y_i - k_i'a - b)^2 + zeta |a|_1 with 1'a = 0, affine between the breakpoints.

    zeta decreases from the value at which a = 0; coef is (breakpoints, n), intercept (breakpoints,).
    """

    zeta: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray

    def at(self, zeta: Any) -> tuple[np.ndarray, Any]:
        """Return coefficients and intercept for one or more zetas; beyond the last breakpoint, those of the last."""
        place = np.interp(-zeta, -self.zeta, np.arange(len(self.zeta)))
        first, share = place.astype(int), place % 1.0
        last = np.minimum(first + 1, len(self.zeta) - 1)
        coef = (1.0 - share[..., None]) * self.coef[first] + share[..., None] * self.coef[last]
        return coef, (1.0 - share) * self.intercept[first] + share * self.intercept[last]

    def residuals(self, K: np.ndarray, y: np.ndarray, zeta: np.ndarray) -> np.ndarray:
        """Return the residuals of rows with the kernel columns K for every zeta (zetas x rows)."""
        coef, intercept = self.at(zeta)
        return y - coef @ K.T - intercept[:, None]


Choice = tuple[L1Path, float, np.ndarray]  # a path, the zeta chosen on it, and the errors at its breakpoints


class Homotopy:
    """The path of eq. (16), followed from zeta_max downwards; one index enters or leaves at every breakpoint.

    With b eliminated (columns and targets centred, rows scaled by the square roots of their weights) and lam = zeta/2:
    on the support, K_S'(t - K_S a) = lam s + mu 1 and 1'a = 0; off it, |K_j'(t - K a) - mu| <= lam. A row of constants
    appended to the columns changes nothing, because 1'a = 0, and makes their QR factorisation that of the whole system.
    Of identical columns only the first is used.
    """

    def __init__(self, K: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        self.n_columns = K.shape[1]
        self.distinct = np.sort(np.unique(K.T, axis=0, return_index=True)[1])
        K = K[:, self.distinct]
        scale = np.sqrt(weights)
        centre = weights @ K / weights.sum()
        self.means = centre, float(weights @ y / weights.sum())
        self.K, self.t = scale[:, None] * (K - centre), scale * (y - self.means[1])
        self.q = self.K.T @ self.t
        self.size = float(np.max(np.abs(self.q), initial=0.0))
        norm = float(np.sqrt(np.max(np.sum(self.K * self.K, axis=0), initial=0.0))) or 1.0
        self.K = np.asfortranarray(np.vstack([self.K, np.full(K.shape[1], norm)]))
        self.t = np.append(self.t, 0.0)
        self.support: list[int] = []
        self.signs: list[float] = []
        # columns that depend on the support: they stay at the bound while it does not change
        self.out: set[int] = set()
        self.lam = float(np.ptp(self.q)) / 2
        self.zetas, self.coefs = [2 * self.lam], [np.zeros(self.n_columns)]

    def _piece(self) -> tuple[np.ndarray, ...]:
        """Return a_S and mu and the correlations of all columns, each as (constant, slope) in lam."""
        ends = np.column_stack([np.array(self.signs), np.ones(len(self.signs))])
        slope, g = arrays.solve_lower(self.R.T, ends).T
        inner = np.column_stack([self.Q.T @ self.t, -slope])
        mu = g @ inner / (g @ g)
        inner -= np.outer(g, mu)
        a = arrays.solve_lower(self.R.T, inner, transpose=True)
        target = np.column_stack([self.t, np.zeros(len(self.t))])
        return a, mu, self.K.T @ (target - self.Q @ inner)

    def to(self, last: float) -> L1Path:
        """Return the path down to zeta = last, from where it ended before."""
        end = max(last / 2, 1e-13 * self.size)
        if not self.support and self.lam > end:
            self.support, self.signs = [int(np.argmax(self.q)), int(np.argmin(self.q))], [1.0, -1.0]
            self.Q, self.R = scipy.linalg.qr(self.K[:, self.support], mode="economic", check_finite=False)
        standing = 0  # number of consecutive steps of length 0
        while self.lam > end and standing <= 10 + 2 * len(self.distinct):
            before = self.lam
            self._step(end)
            standing = standing + 1 if self.lam == before else 0
        zeta, coef = np.array(self.zetas), np.array(self.coefs)
        kept = np.append(np.diff(zeta) < 0, True)  # of steps of length 0, only the last
        intercept = self.means[1] - coef[kept][:, self.distinct] @ self.means[0]
        return L1Path(zeta[kept], coef[kept], intercept)

    def _step(self, end: float) -> None:
        """Move to the next breakpoint."""
        a, mu, c = self._piece()
        lam, sign = self.lam, np.array(self.signs)
        leave, leaving = first_zero(sign * (a @ [1.0, lam]), sign * a[:, 1])
        free = np.ones(len(c), dtype=bool)
        free[self.support] = free[list(self.out)] = False
        correlations = np.concatenate([c - mu, mu - c])
        fall = np.where(np.tile(free, 2), 1.0 - correlations[:, 1], 0.0)
        enter, entering = first_zero(lam - correlations @ [1.0, lam], fall)
        length = min(leave, enter)
        self.lam = max(lam - length, end)
        coef = np.zeros(self.n_columns)
        # coefficients of the wrong sign, where columns enter and leave, are rounding errors
        coef[self.distinct[self.support]] = sign * np.maximum(sign * (a @ [1.0, self.lam]), 0.0)
        self.zetas.append(2 * self.lam)
        self.coefs.append(coef)
        if length > lam - end:
            return
        if leave == length:
            coef[self.distinct[self.support[leaving]]] = 0.0
            self.Q, self.R = qr_delete(self.Q, self.R, leaving, which="col", check_finite=False)
            del self.support[leaving], self.signs[leaving]
            self.out.clear()
            return
        side, j = divmod(entering, len(c))
        try:
            self.Q, self.R = qr_insert(
                self.Q, self.R, self.K[:, j], len(self.support), which="col", rcond=1e-9, check_finite=False
            )
        except np.linalg.LinAlgError:  # it depends linearly on the support
            self.out.add(j)
        else:
            self.support.append(j)
            self.signs.append(1.0 - 2.0 * side)


def least_squares(K: np.ndarray, y: np.ndarray, weights: np.ndarray) -> L1Path:
    """Return the least-squares coefficients of least norm with 1'a = 0: zeta = 0 (eq. 22)."""
    centre, mean = weights @ K / weights.sum(), float(weights @ y / weights.sum())
    inner = (K - centre) - np.mean(K - centre, axis=1, keepdims=True)  # 1'a = 0
    scale = np.sqrt(weights)
    a = np.linalg.lstsq(scale[:, None] * inner, scale * (y - mean), rcond=1e-13)[0]
    a = a - a.mean()
    return L1Path(np.array([0.0]), a[None, :], np.array([mean - centre @ a]))
