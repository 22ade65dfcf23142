"""Steps that solve a convex programme: L1 substrates and structure detection (Pelckmans, Suykens & De Moor 2005).

An LS-SVM substrate is the machine of a given vector c (their eq. 10): (Omega + I) alpha + 1 b = y - c, 1'alpha = 0.
That is the ordinary machine with C = 1 and the targets y - c, so that it needs nothing new:
``LSSVR(kernel, C=1.0, steps=()).fit(X, y - c)``. The steps here let c be free and choose alpha instead: with few
terms (`Substrate`, eq. 16) or with few inputs (`Components`, eq. 25).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .. import arrays
from ..kernels import Additive, Kernel
from ..problem import Problem, Step
from ..tune import best_C, tuned
from .programmes import (
    Blocks,
    Homotopy,
    L1Path,
    Piece,
    component_blocks,
    l1_path,
    l1_violation,
    least_squares,
    structure_programme,
)

__all__ = ["Components", "Substrate"]

PATH_ENDS = 1e-3, 1e-4, 1e-5, 1e-6  # shares of the first zeta at which a path ends, the next where the last is best
LAST_RHO = 1e-3  # share of the first rho at which the grid ends
LAST_PIECE = 1e-5  # share of the first rho at which the whole path ends
GRID = 30  # values of rho
FEWER = 0.1  # share of the best validation error that fewer inputs may cost
SMALL = 1e-2  # share of the largest maximal variation at which a component that cannot be 0 counts as 0


# The steps ------------------------------------------------------------------------------------------------------------
class _Validated(Step):
    """A path whose end is chosen on validation rows, and refitted or not."""

    validation: Any
    refit: bool

    @property
    def own_machine(self) -> bool:
        return not self.refit

    @property
    def by_row(self) -> str:
        return "validation" if np.ndim(self.validation) == 1 else ""


class Substrate(_Validated):
    """A sparse LS-SVM substrate: coefficients with an L1 penalty (Pelckmans et al. 2005, eq. 16), by its exact path.

    Minimises ``sum_i v_i (y_i - f(x_i))^2 + zeta |alpha|_1`` subject to ``1'alpha = 0``, with
    ``f(x) = sum_j alpha_j k(x, x_j) + b``. C has no part in it. After a step that chose the basis, alpha belongs to
    that basis and the errors of all rows count: ``[Given(rows), Substrate(zeta)]`` is eq. (23), with ``zeta=0``
    eq. (22).

    Parameters
    ----------
    zeta : float or None
        Weight of the penalty. None: chosen along the path.
    validation : float, integer or array of row numbers
        What chooses zeta. A share of the rows is drawn, or rows are given, which take no part in the fit: their mean
        squared error is a parabola between breakpoints, and its smallest value is found exactly. An integer k of at
        least 2 takes k folds and the one-standard-error rule: the largest zeta whose error is within one standard error
        of the best; the machine is then that of all rows.
    refit : bool
        Whether the ordinary penalised machine on the chosen basis, all rows, takes the place of the substrate. The
        substrate's own leave-one-out is not known: those attributes hold NaN.
    random_state : int, RandomState or None
        Seed of the validation rows or of the folds.

    Notes
    -----
    ``path_`` holds ``zeta`` (the breakpoints, falling), ``coef`` (breakpoints x basis points), ``intercept``,
    ``supports`` (row numbers at every breakpoint; places in the basis where it holds points), ``scores`` (the
    validation error at every breakpoint) and ``chosen``, a zeta; with several outputs, ``outputs`` is a list of these,
    a path and a zeta each. The path ends at a thousandth of the zeta at which the first coefficients appear, later
    where the best zeta is the last, or at the zeta that was given. Of identical inputs one has the coefficient.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(6.0), steps=[sparsify.Substrate(random_state=0)]).fit(X, y)
    >>> len(model.support_) < 20, bool(abs(model.dual_coef_.sum()) < 1e-6)
    (True, True)
    """

    def __init__(
        self, zeta: float | None = None, validation: Any = 0.2, refit: bool = False, random_state: Any = None
    ) -> None:
        self.zeta = zeta
        self.validation = validation
        self.refit = refit
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        check_weight(self, self.zeta, "zeta")
        folds = check_validation(self, folds=True)
        if self.zeta is None and folds > len(problem.rows):
            raise ValueError(f"Substrate: validation={folds} folds need as many rows, {len(problem.rows)} count.")
        problem, weights = _prepared(problem, self.refit)
        held_out = np.empty(0, dtype=np.intp)
        if self.zeta is None and not folds:
            held_out = held_out_rows(self, problem)
        rows, support, points = _training(problem, held_out)
        K = arrays.to_numpy(problem.kernel.evaluate(problem.X, points))
        y = arrays.to_numpy(problem.y)
        coef, intercept, records = np.zeros((K.shape[1], y.shape[1])), np.zeros(y.shape[1]), []
        for output in range(y.shape[1]):
            scores = None
            if self.zeta is not None:
                zeta, data = float(self.zeta), (K[rows], y[rows, output], weights[rows])
                path = least_squares(*data) if zeta == 0 else l1_path(*data, zeta)
                self._check_precision(*data, path)
            elif folds:
                path, zeta, scores = self._by_folds(K[rows], y[rows, output], weights[rows], folds)
            else:
                path, zeta, scores = _by_validation(K, y[:, output], weights, rows, held_out)
            coef[:, output], intercept[output] = path.at(zeta)
            records.append(_record(path, scores, zeta, support))
        record = records[0] if len(records) == 1 else Bunch(outputs=records, chosen=[r.chosen for r in records])
        kept = np.flatnonzero(np.any(coef != 0.0, axis=1))
        kept = kept if len(kept) else np.array([0])  # nothing helps: one basis point, with the coefficient 0
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
        """Warn where the columns are too dependent for a zeta so small."""
        zeta = float(self.zeta or 0.0)
        violation = l1_violation(K, y, weights, zeta, *path.at(zeta)) if zeta > 0 else 0.0
        if violation > 0.01:
            warnings.warn(
                f"Substrate: zeta={self.zeta!r} is too small for this kernel, whose columns depend on each other: the "
                f"optimality conditions hold to {violation:.1g} of zeta/2. Give a larger zeta, or a narrower kernel.",
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
            share = weights[rest].sum() / weights.sum()  # the errors are summed over fewer rows
            fold = l1_path(K[rest], y[rest], weights[rest], share * path.zeta[-1])
            for place, zeta in enumerate(path.zeta):
                a, b = fold.at(share * zeta)
                error[place] = np.average((y[part] - K[part] @ a - b) ** 2, weights=weights[part])
        mean, deviation = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(folds)
        best = int(np.argmin(mean))
        return path, float(path.zeta[int(np.argmax(mean <= mean[best] + deviation[best]))]), mean


class Components(_Validated):
    """Structure detection: keep the inputs of an additive machine that matter (Pelckmans et al. 2005, eq. 14, 25).

    Minimises ``1/2 sum_i v_i (y_i - f(x_i))^2 + rho sum_l t_l`` with ``f = sum_l f^l + b``, ``f^l = Omega^l alpha``,
    ``1'alpha = 0`` and ``t_l = max_i |f^l(x_i)|``, the maximal variation of component l. Needs `kernels.Additive`. For
    linear components this is the LASSO with the weights ``max_i |x_il|``.

    Parameters
    ----------
    rho : float or None
        Weight of the maximal variations, as in eq. (25). None: chosen along the path.
    validation : float, array of row numbers, or None
        What chooses rho. A share of the rows is drawn, or rows are given, which take no part in the path. None, with
        ``refit=True``: leave-one-out of the machines on the inputs kept, all rows on the path.
    refit : bool
        True: rho is the one whose kept inputs give the ordinary additive machine with the smallest validation error,
        and that machine, on all rows, is the result; a C or width left at None is chosen for it. Fewer inputs win
        where their error is within a tenth of the best. False: rho minimises the validation error of the penalised
        machine itself, which is the result (eq. 28); its leave-one-out is not known.
    random_state : int, RandomState or None
        Seed of the validation rows.

    Notes
    -----
    All components share one alpha, so that they can be exactly 0 only where their ranks add up to less than the number
    of rows on the path: `kernels.Spline`, `kernels.Polynomial` or `kernels.Linear` components. Otherwise
    (`kernels.RBF`) an input counts as kept where its maximal variation is above a hundredth of the largest one.

    ``path_`` holds ``rho`` (falling), ``max_variation`` (rho x components), ``kept`` (the components kept at each rho),
    ``scores`` (validation error, or leave-one-out error) and ``chosen``, a rho. The solution is affine in rho between
    breakpoints. With ``refit=True`` 30 values of rho, down to a thousandth of the first at which an input enters, are
    followed by all pieces on both sides of the best one. With ``refit=False`` all pieces are followed, down to 1e-5 of
    the first rho: the error is a parabola on each, and the smallest of their vertices is the global minimum on that
    range; where components share alpha and cannot be 0, the pieces are thousands.

    Solutions satisfy the optimality conditions to 1e-10, breakpoints included: each row's excess over its bound as a
    share of the targets' root mean square, multipliers and their sums as shares of rho, and the stationarity of alpha
    as a share of what it is at alpha = 0. Directions of alpha in which all components together are below 1e-10 of their
    size are left out: the coefficients that they need are beyond double precision. Finite-rank and narrow components
    have none; for wide ones (`kernels.RBF` of the width of the inputs' range or more) this is part of the model,
    because the minimum without the cut is lower. docs/additive.md, "How exact it is", has the details. Where no input
    is kept, the prediction is constant, and a warning says so.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.make_additive(200, 8, random_state=0)  # the first four inputs matter
    >>> model = LSSVR(kernels.Additive(kernels.Spline()), steps=[sparsify.Components(random_state=0)]).fit(X, y)
    >>> model.active_
    array([0, 1, 2, 3])
    """

    def __init__(
        self, rho: float | None = None, validation: Any = 0.2, refit: bool = True, random_state: Any = None
    ) -> None:
        self.rho = rho
        self.validation = validation
        self.refit = refit
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        check_weight(self, self.rho, "rho")
        if self.rho == 0:
            raise ValueError("Components: rho=0 keeps every input: give a positive rho, or leave the step out.")
        if self.validation is None and not self.refit and self.rho is None:
            raise ValueError("Components: validation=None is leave-one-out of refitted machines: say refit=True.")
        if self.validation is not None:
            check_validation(self)
        if not isinstance(problem.kernel, Additive):
            raise ValueError(
                f"Components chooses among the inputs of an additive machine, the kernel is {problem.kernel!r}: "
                "write kernel=kernels.Additive(kernels.Spline())."
            )
        given = problem
        problem, weights = _prepared(problem, self.refit)
        held_out = np.empty(0, dtype=np.intp)
        if self.rho is None and self.validation is not None:
            held_out = held_out_rows(self, problem)
        rows, support, points = _training(problem, held_out)
        if len(rows) < 2:
            raise ValueError(
                f"Components: {len(rows)} of {len(problem.rows)} rows is left for the path: give more rows, or rho."
            )
        X, y = arrays.to_numpy(problem.X), arrays.to_numpy(problem.y)
        inside = np.zeros(len(X), dtype=bool)
        inside[rows] = True
        shown = np.concatenate([rows, held_out])
        blocks = component_blocks(problem.kernel, X[shown], arrays.to_numpy(points), inside[shown])
        search = _Search(blocks, y[rows], weights[rows], y[held_out], weights[held_out])
        numbers = np.array(list(problem.kernel.kept(X.shape[1])))
        if self.rho is not None:
            chosen, pieces = 0, search.solve(float(self.rho))
        elif self.refit:
            chosen = search.by_refit(_Refits(given, problem, weights, held_out, numbers))
        else:
            chosen, pieces = search.by_validation()
        record = search.record(chosen, numbers)
        kept = search.kept[chosen] if self.refit else np.flatnonzero(search.t[chosen] > 0)
        if not len(kept):
            largest = max(structure.largest_rho for structure in search.structures)
            warnings.warn(
                "Components: no input is kept, the prediction is constant: "
                + (
                    f"rho={self.rho!r} is too large, the first input enters at {largest:.3g}."
                    if self.rho is not None
                    else "no set of inputs does better on the rows that choose. Give rho, or validation=None."
                ),
                stacklevel=arrays.user_level(),
            )
        paths = {**problem.paths, type(self).__name__: record}
        if self.refit:
            kernel, C = given.asked or (given.kernel, given.C)
            kernel = _restricted(kernel, numbers[kept])
            return given.replace(
                kernel=_restricted(given.kernel, numbers[kept]) if given.is_known else kernel,
                C=given.C if given.is_known else C,
                asked=None if given.asked is None else (kernel, C),
                paths=paths,
            )
        z, intercept = search.coefficients(search.rho[chosen], pieces)
        coef = np.column_stack([blocks.alpha(column) for column in z.T])
        f = np.hstack(blocks.Q) @ z
        lost = np.abs(arrays.to_numpy(problem.kernel.evaluate(problem.X, points))[rows] @ coef - f).max(initial=0.0)
        if lost > 0.01 * np.abs(f).max(initial=0.0):
            warnings.warn(
                f"Components: rounding moves the predictions by up to {lost:.2g}: centre and scale your features.",
                stacklevel=arrays.user_level(),
            )
        coefficients = arrays.like(coef, problem.X), arrays.like(intercept, problem.X)
        basis: dict[str, Any] = {"support": support} if support is not None else {"points": points}
        return problem.with_basis(
            **basis,
            kernel=_restricted(problem.kernel, numbers[kept]),
            coefficients=coefficients,
            weights=arrays.like(weights, problem.weights),
            robust=None,
            paths=paths,
        )


class _Refits:
    """Scores of the ordinary machines on the components kept, each once."""

    def __init__(
        self, given: Problem, problem: Problem, weights: np.ndarray, held_out: np.ndarray, numbers: np.ndarray
    ) -> None:
        training = weights.copy()
        training[held_out] = 0.0
        self.problem = problem.replace(weights=arrays.like(training, problem.weights), robust=None, reduced=False)
        if given.C is None:
            self.problem = self.problem.replace(C=None)  # each machine has its own
        self.weights, self.held_out, self.numbers = weights, held_out, numbers
        self.scores: dict[tuple[int, ...], float] = {}

    def __call__(self, kept: np.ndarray) -> float:
        """The mean squared error of the validation rows, or of all rows, each left out."""
        key = tuple(int(number) for number in kept)
        if key not in self.scores:
            machine = self.problem.replace(kernel=_restricted(self.problem.kernel, self.numbers[kept]))
            fit = machine.replace(C=best_C(machine)[0]).solve()
            rows = self.held_out if len(self.held_out) else machine.rows
            residuals = arrays.to_numpy(fit.residuals if len(self.held_out) else fit.loo_residuals)[rows]
            self.scores[key] = float(np.average(np.sum(residuals**2, axis=1), weights=self.weights[rows]))
        return self.scores[key]


class _Search:
    """The path of eq. (25) in rho, all outputs together, and the choice on it."""

    def __init__(
        self, blocks: Blocks, y: np.ndarray, weights: np.ndarray, y_other: np.ndarray, weights_other: np.ndarray
    ) -> None:
        self.blocks = blocks
        self.structures = [structure_programme(blocks, column, weights) for column in y.T]
        self.y_other, self.weights_other = y_other, weights_other
        self.other = np.hstack(blocks.other)
        self.rho: list[float] = []
        self.t: list[np.ndarray] = []
        self.scores: list[float] = []

    def solve(self, rho: float) -> list[Piece]:
        """The solutions of all outputs for one rho, recorded."""
        pieces = [structure.solve(rho) for structure in self.structures]
        self._add(rho, pieces)
        return pieces

    def _add(self, rho: float, pieces: list[Piece]) -> None:
        self.rho.append(rho)
        self.t.append(self.blocks.each(np.max([piece.at(rho)[1] for piece in pieces], axis=0)))

    def coefficients(self, rho: float, pieces: list[Piece]) -> tuple[np.ndarray, np.ndarray]:
        """z and b of all outputs."""
        z = np.column_stack([piece.at(rho)[0] for piece in pieces])
        return z, np.array([s.intercept(column) for s, column in zip(self.structures, z.T, strict=True)])

    @property
    def kept(self) -> list[np.ndarray]:
        """The components kept at each rho."""
        least = SMALL if self.blocks.basis is not None else 0.0
        return [np.flatnonzero(t > least * t.max(initial=0.0)) for t in self.t]

    def _grid(self) -> np.ndarray:
        start = max(structure.largest_rho for structure in self.structures)
        return np.geomspace(start, LAST_RHO * start, GRID) if start > 0 else np.array([1.0])

    # Choices
    def by_validation(self) -> tuple[int, list[Piece]]:
        """The place of the rho with the smallest validation error on the exact pieces (eq. 28), and its pieces."""
        start = self._grid()[0]
        best = self.solve(start)
        high = self._residuals(start, best)
        least = self._error(high)
        self.scores.append(least)
        for pieces, lower, upper in self._pieces(start, LAST_PIECE * start):
            low = self._residuals(lower, pieces)
            for share in {self._vertex(low, high), 0.0}:  # the smallest error of the piece, and its end
                error = self._error(low + share * (high - low))
                if share == 0.0 or error < least:
                    self._add(lower + share * (upper - lower), pieces)
                    self.scores.append(error)
                if error < least:
                    best, least = pieces, error
            high = low  # where the next piece begins
        return int(np.argmin(self.scores)), best

    def by_refit(self, refits: _Refits) -> int:
        """The place of the rho whose kept components give the best ordinary machine."""
        for rho in self._grid():
            self.solve(rho)
        best = int(np.argmin([refits(kept) for kept in self.kept]))
        rho = np.array(self.rho)
        for pieces, low, high in self._pieces(rho[max(best - 1, 0)], rho[min(best + 1, len(rho) - 1)]):
            self._add(np.sqrt(low * high), pieces)
        self.scores = [refits(kept) for kept in self.kept]
        scores, sizes = np.array(self.scores), np.array([len(kept) for kept in self.kept])
        allowed = scores <= (1.0 + FEWER) * scores.min()
        fewest = np.flatnonzero(allowed & (sizes == sizes[allowed].min()))
        return int(fewest[np.argmin(scores[fewest])])

    def _pieces(self, high: float, low: float) -> Iterator[tuple[list[Piece], float, float]]:
        """The affine pieces of all outputs between two rho, from the larger to the smaller."""
        if high <= low:
            return
        paths = [structure.pieces(high, low) for structure in self.structures]
        now = [next(path) for path in paths]
        upper = high
        while upper > low:
            lower = max(end for _, end, _ in now)
            yield [piece for piece, _, _ in now], min(lower, upper), upper
            for place, path in enumerate(paths):
                while now[place][1] >= lower and now[place][1] > low:
                    now[place] = next(path)
            upper = min(lower, *(start for _, _, start in now))

    def _residuals(self, rho: float, pieces: list[Piece]) -> np.ndarray:
        """Of the rows that only choose."""
        z, b = self.coefficients(rho, pieces)
        return self.y_other - self.other @ z - b

    def _error(self, residuals: np.ndarray) -> float:
        """Their mean square."""
        return float(np.average(np.sum(residuals**2, axis=1), weights=self.weights_other))

    def _vertex(self, low: np.ndarray, high: np.ndarray) -> float:
        """The share of the way between two residuals at which their mean square, a parabola, is smallest."""
        v, step = self.weights_other[:, None], high - low
        square = float(np.sum(v * step * step))
        return float(np.clip(-np.sum(v * low * step) / square, 0.0, 1.0)) if square > 0 else 0.0

    def record(self, chosen: int, numbers: np.ndarray) -> Bunch:
        """What `path_` holds, rho falling."""
        order = np.argsort(-np.array(self.rho), kind="stable")
        kept = self.kept
        return Bunch(
            rho=np.array(self.rho)[order],
            max_variation=np.array(self.t)[order],
            kept=[numbers[kept[place]] for place in order],
            scores=np.array(self.scores)[order] if self.scores else None,
            chosen=self.rho[chosen],
        )


def _restricted(kernel: Kernel, active: np.ndarray) -> Additive:
    """The additive kernel on some of its components."""
    assert isinstance(kernel, Additive)
    return Additive(kernel.kernel, kernel.groups, active=np.asarray(active))


# What both steps share ------------------------------------------------------------------------------------------------
def check_weight(step: Step, value: Any, name: str) -> None:
    """Raise ValueError unless a penalty is None or a finite number, not negative."""
    if value is None:
        return
    if isinstance(value, bool) or not (isinstance(value, (int, float, np.number)) and 0 <= value < np.inf):
        raise ValueError(
            f"{type(step).__name__}: {name} must be a finite number that is not negative, or None, got {value!r}."
        )


def check_validation(step: Any, folds: bool = False) -> int:
    """The number of folds asked for, else 0; ValueError for what is no share, no row numbers and no number of folds."""
    value = step.validation
    if np.ndim(value) == 1 and len(value) and np.issubdtype(np.asarray(value).dtype, np.integer):
        return 0
    if folds and isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 2:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < 1:
        others = "a number of folds of at least 2" if folds else "None with refit=True"
        raise ValueError(
            f"{type(step).__name__}: validation must be a share of the rows above 0 and below 1, row numbers, or "
            f"{others}, got {value!r}."
        )
    return 0


def held_out_rows(step: Any, problem: Problem) -> np.ndarray:
    """The validation rows: those given, or a share of all, of every class, which keeps a row at least."""
    rows = problem.rows
    if np.ndim(step.validation) == 1:
        given = np.unique(np.asarray(step.validation))
        if given.min() < 0 or given.max() >= problem.X.shape[0]:
            raise ValueError(
                f"{type(step).__name__}: validation holds row {given.min()} to {given.max()}, but X has rows 0 to "
                f"{problem.X.shape[0] - 1}."
            )
        given = np.intersect1d(given, rows)
        if not 0 < len(given) < len(rows) - 1:
            raise ValueError(
                f"{type(step).__name__}: validation holds {len(given)} of the {len(rows)} rows that count."
            )
        return given
    groups = [rows]
    if problem.classification:
        labels = problem.labels[rows]
        groups = [rows[labels == label] for label in np.unique(labels)]
    draw = check_random_state(step.random_state)
    drawn = [draw.permutation(group)[: min(round(step.validation * len(group)), len(group) - 1)] for group in groups]
    held_out = np.concatenate(drawn)
    return np.sort(held_out if len(held_out) else draw.permutation(max(groups, key=len))[:1])


def _prepared(problem: Problem, refit: bool) -> tuple[Problem, np.ndarray]:
    """The problem with its kernel known, and the weights of the rows, robust ones included.

    C has no part in the programmes: where a machine is fitted afterwards, it is chosen then.
    """
    problem = problem.replace(coefficients=None)
    if problem.kernel.is_free or problem.robust is not None:
        problem = tuned(problem)
    elif problem.C is None and not refit:
        problem = problem.replace(C=1.0)  # that of eq. (10)
    if problem.robust is None:
        return problem, arrays.to_numpy(problem.weights)
    return problem, arrays.to_numpy(problem.replace(reduced=False).solve().weights)


def _training(problem: Problem, held_out: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, Any]:
    """The rows that train; the basis without the validation rows, as row numbers (or None) and as points."""
    rows = np.setdiff1d(problem.rows, held_out)
    if problem.points is not None:
        return rows, None, problem.points
    support = rows if problem.support is None else np.setdiff1d(problem.support, held_out)
    support = support if len(support) else np.asarray(problem.support)
    return rows, support, problem.kernel.basis_points(problem.X, support)


def _record(path: L1Path, scores: np.ndarray | None, zeta: float, support: np.ndarray | None) -> Bunch:
    supports = [np.flatnonzero(row) for row in path.coef]
    return Bunch(
        zeta=path.zeta,
        coef=path.coef,
        intercept=path.intercept,
        supports=supports if support is None else [support[places] for places in supports],
        scores=scores,
        chosen=zeta,
    )


def _by_validation(
    K: np.ndarray, y: np.ndarray, weights: np.ndarray, rows: np.ndarray, held_out: np.ndarray
) -> tuple[L1Path, float, np.ndarray]:
    """The path of the training rows, the zeta with the smallest validation error, and the errors at the breakpoints."""
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
