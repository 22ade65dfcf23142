"""The data of a problem and what follows from them without solving it, and the solution.

The random order of the rows depends on neither their given order nor the units and last digits of the columns.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import EPS, Array, NumericalError, cached_property
from ..kernels import Kernel
from ..losses import NUMBER_LOSSES
from ..progress import counted
from ..robust import WeightFunction
from ..rules import Effort, Penalty, indices, one_of, row_weights, values
from ..system import Solution
from ..targets import TargetScale
from .whitening import Whitening, whiten

UNSURE = 1e-8  # A larger relative rounding error of a leave-one-out residual, half of its digits, is reported.
KEPT = {  # Each cached value depends on these fields.
    "rows": {"weights"},
    "rows_by_content": {"weights", "X", "y"},
    "spreads": {"weights", "X", "groups"},
    "folds": {"weights", "row_groups"},
}
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SAME = 1e-9  # Neighbouring values count as equal up to this gap, in units of the quartile range of a column.
ROUNDING = 1e-12  # The same holds for this gap, relative to the values.
BLOCK = 2**20  # This many cells are ranked at a time.


@dataclass(frozen=True)
class Fit:
    """A solved problem. Residuals, leverages and leave-one-out residuals cover all rows of the problem.

    The last two are None after solve(loo=False), and all per-sample results are None after a fit on chunks.
    """

    kernel: Kernel
    C: Penalty
    weights: Annotated[Array, row_weights("rows", optional=True)]
    support: Annotated[np.ndarray, indices("basis", "rows")] | None
    points: Annotated[Array, values("basis", "coordinates")]
    coef: Annotated[Array, values("basis", "outputs")]
    intercept: Annotated[Array, values("outputs")]
    residuals: Annotated[Array, values("rows", "targets", optional=True)]
    leverage: Annotated[Array, values("rows", finite=False, optional=True)]
    loo_residuals: Annotated[Array, values("rows", "targets", finite=False, optional=True)]
    rounding: float = field(default=0.0, metadata={"cached": True})  # see `rounding_error`; 0: not known
    log_link: bool = False  # whether predictions are exp(f)
    loo_error: float = field(default=0.0, metadata={"cached": True})  # relative, of leave-one-out residuals; 0: exact

    def predict(self, X: Array) -> Array:
        """Return the predictions for every row and output."""
        return self.response(self.kernel.dot(X, self.points, self.coef) + self.intercept[None, :])

    def response(self, f: Array) -> Array:
        """Return the predictions that follow from f(x)."""
        return arrays.namespace(f).exp(f) if self.log_link else f


class Spreads(NamedTuple):
    """How much the columns vary over the rows with positive weight."""

    values: np.ndarray
    """Standard deviation of every column; 1 for constant columns.

    If a few extreme cells dominate it, such as 9999 for a missing value, the standard deviation of a normal
    distribution with the same quartiles is used instead or, if these are equal, that of the cells after
    clipping a thousandth of them, at least one, at each end. Columns of the same group have the same spread: the root
    of their total variance, which is half the mean squared distance between two rows, as for a single column.
    """
    constant: np.ndarray
    """Which columns do not vary, nor any other column of their group."""
    varying_inputs: int
    """The number of inputs with a column that varies, at least 1: constant columns must not change a fit."""


Ties = tuple[Annotated[Array, values("ties", "features")], Annotated[Array, values("ties", "features")]]
Coefficients = tuple[Annotated[Array, values("basis", "outputs")], Annotated[Array, values("outputs")]]


@dataclass(frozen=True)
class ProblemRecord:
    """A weighted, regularised least-squares problem over a kernel expansion.

    Parameters
    ----------
    kernel : Kernel
    X : array (l, d)
        Inputs; the kernel matrix itself for `kernels.Precomputed`.
    y : array (l, k)
        Targets, one column per output; -1 and +1 for classes.
    weights : array (l,)
        Non-negative; 0 removes the row from the fit.
    C : float or None
        None: still to be chosen.
    support : integer array or None
        Rows of the basis; None means every row with a positive weight, unless `points` are given.
    points : array (n, d) or None
        Basis points that are not rows.
    robust : WeightFunction or None
        Robust weights, computed from residuals; `solve` multiplies them into `weights`.
    reduced : bool
        Solve unpenalised least squares on the columns of the KKT system that belong to the basis, instead of the
        penalised problem.
    classification : bool
        Whether the targets are coded classes.
    loss : str
        "squared" or, for a single output that is a count or positive, the name of one of `losses.LOG_LINKS`: f is then
        the logarithm of the mean. The losses of classes are not a property of the problem.
    coefficients : (coef, intercept) or None
        Given coefficients, which are not solved for; leverages and leave-one-out residuals are then unknown (NaN).
    fitted : Fit or None
        The solution, if a step has computed it; it is discarded when anything but `asked` and `paths` is changed.
    asked : (kernel, C) or None
        Kernel and C as the user gave them, None where tuning is to choose; `kernel` and `C` hold the chosen values.
    paths : dict
        Records of the steps so far, by the name of the step.
    target : TargetScale or None
        The scale of `y`, if that is not the scale of the targets as given.
    effort : float
        The work of everything that is planned or searched, relative to the usual work.
    groups : integer array (d,) or None
        The number of the input that each column encodes, e.g. one value of a category; columns of the same input share
        one width. None: every column is an input.
    row_groups : integer array (l,) or None
        The number of the group of each row, -1 for none. The rows of a group are left out together, wherever rows are
        left out. None: each row by itself.
    monotonic : integer array (d,) or None
        1 for columns in which f should increase, -1 for those in which it should decrease. `fit_monotonic` sees to it;
        without it, and in every search, only the `ties` count.
    ties : pair of arrays (ties, d), or None
        f is the same at both points of each pair: the active constraints of a monotonic model. They are discarded when
        kernel, X, y or the basis are changed.
    """

    kernel: Kernel
    X: Annotated[Array, values("rows", "features")]
    y: Annotated[Array, values("rows", "outputs")]
    weights: Annotated[Array, row_weights("rows")]
    C: Penalty | None = None
    support: Annotated[np.ndarray, indices("chosen", "rows")] | None = None
    points: Annotated[Array, values("centres", "coordinates")] | None = None
    robust: WeightFunction | None = None
    reduced: bool = False
    classification: bool = False
    loss: Annotated[str, one_of(*NUMBER_LOSSES)] = "squared"
    coefficients: Coefficients | None = None
    fitted: Fit | None = None
    asked: tuple[Kernel, float | None] | None = None
    paths: dict[str, Bunch] = field(default_factory=dict)
    groups: Annotated[np.ndarray, values("features", kinds="iu")] | None = None
    row_groups: Annotated[np.ndarray, indices("rows", "rows", -1)] | None = None
    target: TargetScale | None = None
    effort: Effort = 1.0
    monotonic: Annotated[np.ndarray, values("features", kinds="iu", low=-1, high=1)] | None = None
    ties: Ties | None = None

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        if not changes.keys() <= {"asked", "paths"}:
            changes.setdefault("fitted", None)
        if changes.keys() & {"kernel", "X", "y"}:
            changes.setdefault("ties", None)
        new = dataclasses.replace(self, **changes)
        for name, depends_on in KEPT.items():
            if name in self.__dict__ and not changes.keys() & depends_on:
                new.__dict__[name] = self.__dict__[name]
        return new

    @cached_property
    def rows(self) -> np.ndarray:
        """Numbers of the rows with positive weight."""
        return np.flatnonzero(arrays.to_numpy(self.weights) > 0)

    @cached_property
    def rows_by_content(self) -> np.ndarray:
        """The rows with positive weight in a random order that follows from their values, not from their positions."""
        X = self.X[:, :0] if self.kernel.is_precomputed else self.X
        return np.asarray(self.rows[order_by_content(*(arrays.take(part, self.rows) for part in (X, self.y)))])

    @cached_property
    def folds(self) -> list[np.ndarray] | None:
        """The rows of each group, by their positions among those with positive weight."""
        if self.row_groups is None:
            return None
        names, numbers = np.unique(self.row_groups[self.rows], return_inverse=True)
        if len(names) < 2:
            raise ValueError(f"groups: all of {counted(len(self.rows), 'row')} are of one group: use smaller groups.")
        order = np.argsort(numbers, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)

    def parts(self, count: int) -> list[np.ndarray]:
        """Return the rows with positive weight in at most `count` random parts of similar size, with whole groups."""
        order = self.rows_by_content
        if self.row_groups is None:
            return np.array_split(order, min(count, len(order)))
        _, first, numbers = np.unique(self.row_groups[order], return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(first))[numbers] % count
        return [order[place == part] for part in range(place.max() + 1)]

    @cached_property
    def spreads(self) -> Spreads:
        """How much the columns vary over the rows with positive weight."""
        values = np.sort(arrays.to_numpy(arrays.take(self.X, self.rows)), axis=0)  # sums do not depend on their order
        spread = arrays.spread_of(values)
        constant = spread == 0.0
        if self.groups is not None:
            total = np.zeros(self.groups.max() + 1)
            np.hypot.at(total, self.groups, np.where(constant, 0.0, spread))
            spread = total[self.groups]
            constant = (np.bincount(self.groups, ~constant) == 0)[self.groups]
        spread = np.where(constant, 1.0, spread)
        for found in (spread, constant):
            found.flags.writeable = False  # copies of the problem share them
        return Spreads(spread, constant, max(1, len(np.unique(self.inputs[~constant]))))

    @property
    def is_dual(self) -> bool:
        """True if the basis consists of the rows, so that the dual system applies, unless there are `ties`."""
        are_rows = self.support is None or np.array_equal(np.sort(np.asarray(self.support)), self.rows)
        return self.points is None and are_rows

    @property
    def is_known(self) -> bool:
        """True if C and all widths are given or already chosen."""
        return self.C is not None and not self.kernel.is_free

    @property
    def targets(self) -> np.ndarray:
        """The targets as given."""
        y = arrays.to_numpy(self.y)
        return y if self.target is None else self.target.inverse(y)

    @property
    def labels(self) -> np.ndarray:
        """The class of every row, as a number."""
        return class_numbers(self.y)

    @cached_property
    def inputs(self) -> np.ndarray:
        """The number of the input that each column encodes."""
        return np.arange(self.X.shape[1]) if self.groups is None else self.groups

    @property
    def basis_rows(self) -> np.ndarray | None:
        """Numbers of the rows that are the basis; None if it consists of other points."""
        return None if self.points is not None else self.rows if self.is_dual else self.support

    @property
    def basis_points(self) -> Array:
        """The points of the basis, which are rows unless `points` are given."""
        return self.points if self.basis_rows is None else self.kernel.basis_points(self.X, self.basis_rows)

    @property
    def basis_size(self) -> int:
        """Number of basis points."""
        return int(self.basis_points.shape[0]) if self.basis_rows is None else len(self.basis_rows)

    def subset(self, rows: np.ndarray) -> Self:
        """Return the same problem on fewer rows; a basis smaller than the rows stays as it is."""
        X, y, weights = (arrays.take(a, rows) for a in (self.X, self.y, self.weights))
        points, support, row_groups = self.points, None, None if self.row_groups is None else self.row_groups[rows]
        if self.kernel.is_precomputed:
            X = arrays.take(X.T, rows).T
            if not self.is_dual:
                support = np.flatnonzero(np.isin(rows, np.asarray(self.support)))
                if len(support) < self.basis_size:
                    raise ValueError("The basis of a precomputed kernel must be among the rows of the subset.")
        elif not self.is_dual:
            points = self.basis_points
        return self.replace(X=X, y=y, weights=weights, support=support, points=points, row_groups=row_groups)

    def with_basis(self, support: np.ndarray | None = None, points: Array | None = None, **changes: Any) -> Self:
        """Return the penalised problem on another basis: rows by number (sorted), or points."""
        rows = None if support is None else np.sort(np.asarray(support))
        if rows is not None and not len(rows):
            raise ValueError("The basis is empty: the kernel is 0 on all rows, or a tolerance is too large.")
        plain = {"support": rows, "points": points, "reduced": False, "coefficients": None, "ties": None}
        return self.replace(**{**plain, **changes})

    def whitening(self, *, quick: bool = False) -> Whitening:
        """Return the factor of the kernel matrix of the basis."""
        points = self.basis_points
        inputs = points if self.basis_rows is None else arrays.take(self.X, self.basis_rows)
        found = whiten(self.kernel, points, self.columns(inputs, points), quick=quick)
        return found if self.ties is None else found.tied(*self.ties)

    def binary_inputs(self) -> tuple[Array, Whitening | None]:
        """Return the kernel matrix of all rows or, with a smaller basis, their whitened columns and the whitening."""
        if self.is_dual:
            points = self.kernel.basis_points(self.X, np.arange(self.X.shape[0]))
            return self.columns(self.X, points, symmetric=True), None
        whitening = self.whitening()
        return arrays.whiten_rows(self.columns(self.X, whitening.points), whitening.lower), whitening

    def positive_rows(self) -> tuple[np.ndarray, Array, Array, Array]:
        """Return the numbers, inputs, targets and weights of the rows with positive weight."""
        rows = self.rows
        whole = len(rows) == self.X.shape[0]
        X, y, weights = (a if whole else arrays.take(a, rows) for a in (self.X, self.y, self.weights))
        return rows, X, y, weights

    def columns(self, X: Array, points: Array, *, symmetric: bool = False) -> Array:
        """Return the kernel columns of some points at some rows, after a check that they are finite.

        With `symmetric`, `points` are the basis points of these rows, and only half of the values are computed.
        """
        K = self.kernel.fill(arrays.empty((X.shape[0], points.shape[0]), X), X, points, symmetric=symmetric)
        xp = arrays.namespace(K)
        with np.errstate(over="ignore", invalid="ignore"):
            if not (self.kernel.is_bounded or bool(xp.isfinite(xp.sum(K)))):
                what = f"The kernel matrix of {self.kernel!r} is not finite"
                raise NumericalError(f"{what}: scale your features, or check the kernel.")
        return K

    def fit_of(self, C: float, solution: Solution) -> Fit:
        """Return the fit to all rows from the solution for those with positive weight.

        Residuals of the other rows are those of new points. If none are given, leverages are not known (NaN).
        """
        coef, intercept, residuals, points = solution.coef, solution.intercept, solution.residuals, self.basis_points
        leverage, loo = solution.leverage, solution.loo_residuals
        for part in (coef, intercept) if loo is None else (coef, intercept, loo):
            if not bool(arrays.namespace(part).all(arrays.namespace(part).isfinite(part))):
                raise NumericalError("The solution is not finite: scale features, targets and weights, or lower C.")
        if residuals is None or len(self.rows) < self.X.shape[0]:
            full = self.y - self.kernel.dot(self.X, points, coef) - intercept[None, :]
            if residuals is None:
                residuals, loo = full, float("nan") * full
                leverage = loo[:, 0]
            else:
                residuals = arrays.put(full + 0.0, self.rows, residuals)
                if loo is not None:
                    loo = arrays.put(full, self.rows, loo)
                    leverage = arrays.put(arrays.zeros((full.shape[0],), full), self.rows, leverage)
        return Fit(self.kernel, C, self.weights, self.basis_rows, points, coef, intercept, residuals, leverage, loo)

    @property
    def fits_memory(self) -> bool:
        """False if the columns of a smaller basis need more than half of the memory: rows are then read in blocks."""
        available = arrays.memory(self.X)
        return self.is_dual or self.reduced or available is None or 16 * len(self.rows) * self.basis_size <= available


def class_numbers(coded: Array) -> np.ndarray:
    """Return the class number of every row from its coded targets, or from its decision values."""
    values = arrays.to_numpy(coded)
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else np.argmax(values, axis=1)


def columns_by_input(groups: np.ndarray) -> list[list[int]]:
    """Return the columns of every input, from the number of the input of every column."""
    return [np.flatnonzero(groups == number).tolist() for number in range(groups[-1] + 1)]


def warn_of_leverage(largest: float) -> None:
    """Warn if a leverage near 1 leaves few digits of e/(1 - h), the only formula available to systems from sums."""
    if UNSURE * (1.0 - largest) < EPS:
        what = f"A row has a leverage of 1 - {max(1.0 - largest, 0.0):.0e}"
        remedy = "Lower C or the weight of that row, or use so few rows or basis points that they fit in memory."
        arrays.warn(f"{what}: few digits of its leave-one-out residual are correct. {remedy}")


def order_by_content(X: arrays.Array, y: arrays.Array | None = None) -> np.ndarray:
    """Return a random order of the rows of X, from a hash of the ranks of their cells: shuffling changes no sample.

    Ranks are the same in other units and after rounding; a constant column changes nothing. Rows with equal ranks get
    different places. Which of them comes first is decided by the order of their targets y, not by the values, which may
    have rounding errors.
    """
    values = arrays.to_numpy(X)
    hashes = np.zeros(len(values), dtype=np.uint64)
    for ranks in (2.0 * ranks_of(values)).astype(np.uint64).T:
        if (ranks != ranks[0]).any():
            hashes = _mixed(hashes + ranks)
    place = np.argsort(hashes, kind="stable")
    ordered = hashes[place]
    if np.any(ordered[1:] == ordered[:-1]):
        targets = () if y is None else arrays.to_numpy(y).T[::-1]
        place = np.lexsort((*targets, hashes))
        ordered = hashes[place]
        numbers = np.arange(len(place))
        first = np.maximum.accumulate(np.where(np.append(True, ordered[1:] != ordered[:-1]), numbers, 0))
        hashes[place] = np.where(numbers > first, _mixed(ordered + (numbers - first).astype(np.uint64)), ordered)
        place = place[np.argsort(hashes[place], kind="stable")]
    return place


def ranks_of(X: np.ndarray) -> np.ndarray:
    """Return the ranks of the values in each column, from 0; values equal up to rounding share their mean rank."""
    count, ranks = len(X), np.empty(X.shape, order="F")
    width = max(1, BLOCK // max(1, count))
    first, last, numbers = count // 4, count - 1 - count // 4, np.arange(1, count)
    for start in range(0, X.shape[1], width):
        columns = np.ascontiguousarray(X[:, start : start + width].T)  # one per row
        place = np.argsort(columns, axis=1, kind="stable")
        ordered = np.take_along_axis(columns, place, axis=1).astype(float)
        size, unit = ROUNDING * np.abs(ordered), ordered[:, last] - ordered[:, first]
        equal = unit <= np.maximum(size[:, first], size[:, last])  # most values are equal
        unit = SAME * np.where(equal, ordered[:, -1] - ordered[:, 0], unit)
        least = np.maximum(unit[:, None], np.maximum(size[:, 1:], size[:, :-1]))
        rises, averages = np.diff(ordered, axis=1) > least, np.zeros(columns.shape)
        averages[:, 1:] = np.maximum.accumulate(np.where(rises, numbers, 0), axis=1)  # the first of equal values
        averages[:, -1] += count - 1
        averages[:, :-1] += np.minimum.accumulate(np.where(rises, numbers - 1, count - 1)[:, ::-1], axis=1)[:, ::-1]
        np.put_along_axis(ordered, place, 0.5 * averages, axis=1)
        ranks[:, start : start + width] = ordered.T
    return ranks


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Mix the bits of hashes as the generator of Steele, Lea & Flood (2014) does."""
    hashes = hashes + GOLDEN
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
