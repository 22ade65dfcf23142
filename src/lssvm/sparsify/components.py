"""Structure detection in additive models (Pelckmans et al. 2005, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..kernels import Additive, Kernel
from ..problem import Problem
from ..rules import Flag, NotNegative, Rule, Seed
from ..tune.choose_C import best_C
from .common import VALIDATION, ValidatedStep, best_on_path, divided, prepared, with_solution
from .max_variation import Blocks, Piece, Structure, component_blocks

LAST_RHO = 1e-3  # The grid ends at this multiple of the first rho.
LAST_PIECE = 1e-5  # The whole path ends at this multiple of the first rho.
GRID = 30  # This many values of rho are a factor of 1.27 apart; pieces about the best are followed exactly.
# Relative increase of the validation error that is accepted for fewer inputs. On 24 draws of `datasets.make_additive`,
# 0.05 to 0.3 find exactly the relevant inputs, and 0 adds others in 3 draws; on 19 real sets, 0.1 keeps 3.7 inputs
# instead of 5.9 (with 0), and the test error is 1.8 % larger.
FEWER = 0.1
SMALL = 1e-2  # Components that cannot be 0 are dropped below this share of the largest maximal variation.


HeldOut = Annotated[Any, VALIDATION | Rule("None with refit=True", lambda value: value is None)]


class Components(ValidatedStep):
    r"""Structure detection: keep the relevant inputs of an additive model (Pelckmans et al. 2005, eq. 14, 25).

    The maximal variations :math:`t_c` of the components :math:`f^c` are penalised:

    .. math::

        \min_{\alpha, b} \; \frac{1}{2} \sum_i v_i \, (y_i - f(x_i))^2 + \rho \sum_c t_c
        \quad \text{with} \quad f = \sum_c f^c + b, \quad f^c(x) = \sum_j \alpha_j k_c(x, x_j), \quad
        \sum_j \alpha_j = 0, \quad t_c = \max_i |f^c(x_i)|

    This step needs `kernels.Additive` and ``pip install lssvm[components]``. For linear components, it is the LASSO
    with the weights :math:`\max_i |x_{ic}|`.

    Parameters
    ----------
    rho : float or None
        Weight of the maximal variations, as in eq. (25). None: chosen along the path.
    validation : float, array of row numbers, or None
        The rows that choose rho: a share of the rows, drawn at random, or given row numbers; these rows are not used to
        compute the path. None, with ``refit=True``: the path uses all rows, and rho is chosen by leave-one-out of the
        models on the kept inputs.
    refit : bool
        True: rho is chosen so that the ordinary additive model on the kept inputs has the smallest validation error;
        fewer inputs are preferred if their error is at most 10 % above the best. The result is that model, fitted on
        all rows; C and widths left at None are chosen for it. False: rho minimises the validation error of the
        penalised model, which is the result (eq. 28); its leave-one-out values are not known.
    random_state : int, RandomState or None
        Seed for the validation rows.

    Notes
    -----
    All components share one alpha, so that they can be exactly 0 only if their ranks add up to less than the number of
    rows on the path: `kernels.Spline`, `kernels.Polynomial` or `kernels.Linear` components. Otherwise (`kernels.RBF`)
    an input is kept if its maximal variation is above a hundredth of the largest one.

    ``path_`` holds ``rho`` (decreasing), ``max_variation`` (rho x components), ``kept`` (the components kept at each
    rho), ``scores`` (validation error, or leave-one-out error) and ``chosen``, a rho. The solution is affine in rho
    between breakpoints. With ``refit=True`` the path is evaluated at 30 values of rho, down to a thousandth of the rho
    at which the first input enters, and then on all pieces on both sides of the best one. With ``refit=False`` all
    pieces are followed, down to 1e-5 of the first rho: the error is a parabola on each piece, and the smallest of their
    vertices is the global minimum over that range. If components share alpha and cannot be 0, there are thousands of
    pieces.

    Solutions satisfy the optimality conditions to 1e-10, including at breakpoints: the excess of each row over its
    bound relative to the root mean square of the targets, the multipliers and their sums relative to rho, and the
    stationarity of alpha relative to its value at alpha = 0. Directions of alpha in which all components together are
    below 1e-10 of their size are omitted: the coefficients that they need are beyond double precision. Components of
    finite rank and narrow components have no such directions; for wide ones (`kernels.RBF` with a width of at least the
    range of the inputs) this is part of the model, because the minimum without the cut is lower. See docs/additive.md,
    "How exact it is", for details. If no input is kept, the prediction is constant, and a warning is issued.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, sparsify
    >>> X, y = datasets.make_additive(200, 8, random_state=0)  # the first four inputs matter
    >>> model = LSSVR(kernels.Additive(kernels.Spline()), steps=[sparsify.Components(random_state=0)]).fit(X, y)
    >>> model.active_
    array([0, 1, 2, 3])
    """

    def __init__(
        self, rho: NotNegative | None = None, validation: HeldOut = 0.2, refit: Flag = True, random_state: Seed = None
    ) -> None:
        self.rho = rho
        self.validation = validation
        self.refit = refit
        self.random_state = random_state

    def __call__(self, problem: Problem) -> Problem:
        if self.rho == 0:
            raise ValueError("Components: rho=0 keeps every input: give a positive rho, or remove the step.")
        if self.validation is None and not self.refit and self.rho is None:
            raise ValueError("Components: validation=None needs refitted models for leave-one-out: set refit=True.")
        if not isinstance(problem.kernel, Additive):
            what = "Components chooses among the inputs of an additive model, but the kernel is"
            raise ValueError(f"{what} {problem.kernel!r}: use kernel=kernels.Additive(kernels.Spline()).")
        arrays.required("piqp", "components", "Components")  # before anything takes long
        given = problem
        problem, weights = prepared(problem, self.refit)
        rows, held_out, support, points = divided(self, problem, self.rho is None and self.validation is not None)
        if len(rows) < 2:
            left = f"{len(rows)} of {len(problem.rows)} rows"
            raise ValueError(f"Components: validation leaves {left} for the path: give more rows, or rho.")
        X, y = arrays.to_numpy(problem.X), arrays.to_numpy(problem.y)
        shown = np.concatenate([rows, held_out])
        inside = np.arange(len(shown)) < len(rows)
        blocks = component_blocks(problem.kernel, X[shown], arrays.to_numpy(points), inside)
        search = _Search(blocks, y, weights, rows, held_out)
        numbers = np.array(list(problem.kernel.kept(X.shape[1])))
        if self.rho is not None:
            chosen, pieces = 0, search.solve(float(self.rho))
        elif self.refit:
            chosen = search.by_refit(_refit_score(given, problem, weights, held_out, numbers))
        else:
            chosen, pieces = search.by_validation()
        record = search.record(chosen, numbers)
        kept = search.kept[chosen] if self.refit else np.flatnonzero(search.t[chosen] > 0)
        if not len(kept):
            why = "no set of inputs has a smaller validation error. Give rho, or validation=None"
            if self.rho is not None:
                why = f"rho={self.rho!r} is too large, the first input enters at {search.largest_rho:.3g}"
            message = f"Components: no input is kept, so the prediction is constant: {why}."
            arrays.warn(message)
        paths, active = {**problem.paths, type(self).__name__: record}, numbers[kept]
        if self.refit:
            asked = given.asked and (_restricted(given.asked[0], active), given.asked[1])
            return given.replace(kernel=_restricted(given.kernel, active), asked=asked, paths=paths)
        z, intercept = search.coefficients(search.rho[chosen], pieces)
        coef = np.column_stack([blocks.alpha(column) for column in z.T])
        f = np.hstack(blocks.Q) @ z
        lost = np.abs(arrays.to_numpy(problem.kernel.evaluate(problem.X, points))[rows] @ coef - f).max(initial=0.0)
        if lost > 0.01 * np.abs(f).max(initial=0.0):
            message = f"Components: rounding errors change predictions by up to {lost:.2g}: "
            arrays.warn(f"{message}centre and scale your features.")
        basis = {"points": points} if support is None else {"support": support}
        kernel = _restricted(problem.kernel, active)
        return with_solution(problem, coef, intercept, weights, **basis, kernel=kernel, paths=paths)


def _refit_score(
    given: Problem, problem: Problem, weights: np.ndarray, held_out: np.ndarray, numbers: np.ndarray
) -> Callable[[np.ndarray], float]:
    """Return the score of the ordinary model on a set of kept components, computed once for each set.

    It is the mean squared error on the validation rows, or the mean squared leave-one-out residual of all rows.
    """
    training = weights.copy()
    training[held_out] = 0.0
    C = None if given.C is None else problem.C  # each model has its own C
    problem = problem.replace(weights=arrays.like(training, problem.weights), robust=None, reduced=False, C=C)
    rows = held_out if len(held_out) else problem.rows

    @cache
    def score(kept: tuple[int, ...]) -> float:
        smaller = problem.replace(kernel=_restricted(problem.kernel, numbers[list(kept)]))
        fit = smaller.replace(C=best_C(smaller)[0]).solve()
        residuals = arrays.to_numpy(fit.residuals if len(held_out) else fit.loo_residuals)[rows]
        return float(np.average(np.sum(residuals**2, axis=1), weights=weights[rows]))

    return lambda kept: score(tuple(kept))


class _Search:
    """The path of eq. (25) in rho for all outputs together, and the choice of a point on it."""

    def __init__(self, blocks: Blocks, y: np.ndarray, weights: np.ndarray, rows: np.ndarray, rest: np.ndarray) -> None:
        self.blocks = blocks
        self.structures = [Structure(blocks, column, weights[rows]) for column in y[rows].T]
        self.y_other, self.weights_other = y[rest], weights[rest]
        self.other = np.hstack(blocks.other)
        self.rho: list[float] = []
        self.t: list[np.ndarray] = []
        self.scores: list[float] = []

    def solve(self, rho: float) -> list[Piece]:
        """Compute and record the solutions of all outputs for one rho."""
        pieces = [structure.solve(rho) for structure in self.structures]
        self._add(rho, pieces)
        return pieces

    def _add(self, rho: float, pieces: list[Piece]) -> None:
        self.rho.append(rho)
        self.t.append(self.blocks.each(np.max([piece.at(rho)[1] for piece in pieces], axis=0)))

    def coefficients(self, rho: float, pieces: list[Piece]) -> tuple[np.ndarray, np.ndarray]:
        """Return z and b of all outputs."""
        z = np.column_stack([piece.at(rho)[0] for piece in pieces])
        return z, np.array([s.intercept(column) for s, column in zip(self.structures, z.T, strict=True)])

    @property
    def kept(self) -> list[np.ndarray]:
        """The components kept at each rho."""
        least = SMALL if self.blocks.basis is not None else 0.0
        return [np.flatnonzero(t > least * t.max(initial=0.0)) for t in self.t]

    @property
    def largest_rho(self) -> float:
        """The rho at which the first input enters."""
        return max(structure.largest_rho for structure in self.structures)

    # Choices
    def by_validation(self) -> tuple[int, list[Piece]]:
        """Return the index of the rho with the smallest validation error on the exact pieces (eq. 28), and these."""
        start = self.largest_rho or 1.0
        found = [self.solve(start)]
        for pieces, lower, _ in self._pieces(start, LAST_PIECE * start):
            self._add(lower, pieces)
            found.append(pieces)
        solutions = [self.coefficients(rho, pieces) for rho, pieces in zip(self.rho, found, strict=True)]
        residuals = np.array([(self.y_other - self.other @ z - b).ravel() for z, b in solutions])
        weights = np.repeat(self.weights_other / self.weights_other.sum(), self.y_other.shape[1])
        scores, place, least = best_on_path(residuals, weights)
        self.scores = scores.tolist()
        if place % 1.0:  # within a piece
            found.append(found[int(place) + 1])
            self._add(float(np.interp(place, np.arange(len(self.rho)), self.rho)), found[-1])
            self.scores.append(least)
        chosen = int(np.argmin(self.scores))
        return chosen, found[chosen]

    def by_refit(self, score: Callable[[np.ndarray], float]) -> int:
        """Return the index of the rho whose kept components give the best ordinary model."""
        start = self.largest_rho
        for rho in np.geomspace(start, LAST_RHO * start, GRID) if start > 0 else [1.0]:
            self.solve(rho)
        best = int(np.argmin([score(kept) for kept in self.kept]))
        rho = np.array(self.rho)
        for pieces, low, high in self._pieces(rho[max(best - 1, 0)], rho[min(best + 1, len(rho) - 1)]):
            self._add(np.sqrt(low * high), pieces)
        self.scores = [score(kept) for kept in self.kept]
        scores, sizes = np.array(self.scores), np.array([len(kept) for kept in self.kept])
        allowed = scores <= (1.0 + FEWER) * scores.min()
        fewest = np.flatnonzero(allowed & (sizes == sizes[allowed].min()))
        return int(fewest[np.argmin(scores[fewest])])

    def _pieces(self, high: float, low: float) -> Iterator[tuple[list[Piece], float, float]]:
        """Yield the affine pieces of all outputs between two values of rho, from the larger to the smaller one."""
        if high <= low:
            return
        paths = [structure.pieces(high, low) for structure in self.structures]
        now = [next(path) for path in paths]
        while high > low:
            end = max(lower for _, lower, _ in now)
            yield [piece for piece, _, _ in now], end, high
            if end > low:
                now = [last if last[1] < end else next(path) for last, path in zip(now, paths, strict=True)]
            high = end

    def record(self, chosen: int, numbers: np.ndarray) -> Bunch:
        """Return the contents of `path_`, by decreasing rho."""
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
    """Return the additive kernel on some of its components."""
    assert isinstance(kernel, Additive)
    return Additive(kernel.kernel, kernel.groups, active=np.asarray(active))
