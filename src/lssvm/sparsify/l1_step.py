"""L1 substrates (Pelckmans, Suykens & De Moor 2005, section 2).

An LS-SVM substrate is the LS-SVM for a given vector c (their eq. 10): (Omega + I) alpha + 1 b = y - c, 1'alpha = 0.
This is the ordinary model with C = 1 and targets y - c, so no new code is needed:
``LSSVR(kernel, C=1.0, steps=()).fit(X, y - c)``. The step here leaves c free and chooses few coefficients alpha
(eq. 16); `Components` chooses few inputs (eq. 25).
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Annotated, Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .. import arrays
from .._words import counted
from ..problem import Problem
from ..rules import Flag, NotNegative, Seed, integer
from .common import VALIDATION, ValidatedStep, prepared, training, validation_rows
from .l1_path import Homotopy, L1Path, l1_violation, least_squares

PATH_ENDS = 1e-3, 1e-4, 1e-5, 1e-6  # a path ends at these multiples of the first zeta; the next if the last is best


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
            raise ValueError(
                f"Substrate: validation={folds} folds need at least as many rows, but only "
                f"{counted(len(problem.rows), 'row has', 'rows have')} positive weight."
            )
        problem, weights = prepared(problem, self.refit)
        held_out = np.empty(0, dtype=np.intp)
        if self.zeta is None and not folds:
            held_out = validation_rows(self, problem)
        rows, support, points = training(problem, held_out)
        K = arrays.to_numpy(problem.kernel.evaluate(problem.X, points))
        y = arrays.to_numpy(problem.y)
        coef, intercept, records = np.zeros((K.shape[1], y.shape[1])), np.zeros(y.shape[1]), []
        for output in range(y.shape[1]):
            scores = None
            if self.zeta is not None:
                zeta, data = float(self.zeta), (K[rows], y[rows, output], weights[rows])
                path = least_squares(*data) if zeta == 0 else Homotopy(*data).to(zeta)
                self._check_precision(*data, path)
            elif folds:
                path, zeta, scores = self._by_folds(K[rows], y[rows, output], weights[rows], folds)
            else:
                path, zeta, scores = _by_validation(K, y[:, output], weights, rows, held_out)
            coef[:, output], intercept[output] = path.at(zeta)
            supports = [np.flatnonzero(row) for row in path.coef]
            if support is not None:
                supports = [support[places] for places in supports]
            records.append(Bunch(**vars(path), supports=supports, scores=scores, chosen=zeta))
        record = records[0] if len(records) == 1 else Bunch(outputs=records, chosen=[r.chosen for r in records])
        kept = np.flatnonzero(np.any(coef != 0.0, axis=1))
        kept = kept if len(kept) else np.array([0])  # all coefficients are 0: keep one basis point
        basis: dict[str, Any] = (
            {"support": support[kept]} if support is not None else {"points": arrays.take(points, kept)}
        )
        paths = {**problem.paths, type(self).__name__: record}
        if self.refit:
            return problem.with_basis(**basis, paths=paths)
        coefficients = arrays.like(coef[kept], problem.X), arrays.like(intercept, problem.X)
        return problem.with_basis(
            **basis, paths=paths, coefficients=coefficients, weights=arrays.like(weights, problem.weights), robust=None
        )

    def _check_precision(self, K: np.ndarray, y: np.ndarray, weights: np.ndarray, path: L1Path) -> None:
        """Warn if the columns are too close to linear dependence for such a small zeta."""
        zeta = float(self.zeta or 0.0)
        violation = l1_violation(K, y, weights, zeta, *path.at(zeta)) if zeta > 0 else 0.0
        if violation > 0.01:
            warnings.warn(
                f"Substrate: zeta={self.zeta!r} is too small for this kernel, whose columns are almost linearly "
                f"dependent: the optimality conditions hold only to {violation:.1g} of zeta/2. Use a larger zeta or a "
                "narrower kernel.",
                stacklevel=arrays.user_level(),
            )

    def _by_folds(
        self, K: np.ndarray, y: np.ndarray, weights: np.ndarray, folds: int
    ) -> tuple[L1Path, float, np.ndarray]:
        """The path of all rows, and zeta by the one-standard-error rule at its breakpoints."""
        homotopy = Homotopy(K, y, weights)
        path = homotopy.to(PATH_ENDS[0] * 2 * homotopy.lam)
        parts = np.array_split(check_random_state(self.random_state).permutation(len(y)), folds)
        errors = np.empty((folds, len(path.zeta)))
        for part, error in zip(parts, errors, strict=True):
            rest = np.setdiff1d(np.arange(len(y)), part)
            share = weights[rest].sum() / weights.sum()  # the errors are sums over fewer rows
            fold = Homotopy(K[rest], y[rest], weights[rest]).to(share * path.zeta[-1])
            for place, zeta in enumerate(path.zeta):
                a, b = fold.at(share * zeta)
                error[place] = np.average((y[part] - K[part] @ a - b) ** 2, weights=weights[part])
        mean, deviation = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(folds)
        best = int(np.argmin(mean))
        return path, float(path.zeta[int(np.argmax(mean <= mean[best] + deviation[best]))]), mean


def _by_validation(
    K: np.ndarray, y: np.ndarray, weights: np.ndarray, rows: np.ndarray, held_out: np.ndarray
) -> tuple[L1Path, float, np.ndarray]:
    """The path of the training rows, the zeta with the smallest validation error, and all errors at breakpoints."""
    homotopy = Homotopy(K[rows], y[rows], weights[rows])
    start = 2 * homotopy.lam
    v = weights[held_out]
    for share in PATH_ENDS:
        path = homotopy.to(share * start)
        errors = y[held_out] - path.coef @ K[held_out].T - path.intercept[:, None]
        scores = errors**2 @ v / v.sum()
        step = np.diff(errors, axis=0)
        square = step**2 @ v
        inner = -(errors[:-1] * step) @ v
        part = np.clip(np.divide(inner, square, out=np.zeros_like(inner), where=square > 0), 0.0, 1.0)
        between = ((errors[:-1] + part[:, None] * step) ** 2) @ v / v.sum()
        best = int(np.argmin(between)) if len(between) else -1
        if best < 0 or between[best] >= scores[0]:
            return path, float(path.zeta[0]), scores
        if best < len(between) - 1 or part[best] < 1.0:
            break
    return path, float(path.zeta[best] + part[best] * np.diff(path.zeta)[best]), scores
