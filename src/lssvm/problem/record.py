"""The data of a problem and what follows from them without solving it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..arrays import Array, cached_property
from ..kernels import Kernel
from ..robust import WeightFunction
from ..rules import Penalty, indices, row_weights, values
from .fit import Fit
from .scaling import spreads_of
from .shuffling import order_by_content

KEPT = {  # what cached values depend on
    "rows": {"weights"},
    "rows_by_content": {"weights", "X", "y"},
    "spreads": {"weights", "X", "groups"},
}
Coefficients = tuple[Annotated[Array, values("vectors", "outputs")], Annotated[Array, values("outputs")]]


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
    coefficients : (coef, intercept) or None
        Given coefficients, which are not solved for; leverages and leave-one-out residuals are then unknown (NaN).
    fitted : Fit or None
        The solution, if a step has computed it; it is discarded when anything but `asked` and `paths` is changed.
    asked : (kernel, C) or None
        Kernel and C as the user gave them, None where tuning is to choose; `kernel` and `C` hold the chosen values.
    paths : dict
        Records of the steps so far, by the name of the step.
    groups : integer array (d,) or None
        The number of the input that each column encodes, e.g. one value of a category; columns of the same input share
        one width. None: every column is an input.
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
    coefficients: Coefficients | None = None
    fitted: Fit | None = None
    asked: tuple[Kernel, float | None] | None = None
    paths: dict[str, Bunch] = field(default_factory=dict)
    groups: Annotated[np.ndarray, values("features", kinds="iu")] | None = None

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        if not changes.keys() <= {"asked", "paths"}:
            changes.setdefault("fitted", None)
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
    def spreads(self) -> tuple[np.ndarray, np.ndarray]:
        """The spread of every column, and which columns are constant."""
        return spreads_of(arrays.to_numpy(arrays.take(self.X, self.rows)), self.groups)

    @cached_property
    def log_scatter(self) -> float:
        """log of the weighted sum of squares of the targets about their mean, which counts as 1 if it is 0."""
        y, weights = (arrays.to_numpy(a)[self.rows] for a in (self.y, self.weights))
        deviation = y - weights @ y / weights.sum()
        largest = float(weights.max())
        return math.log(float(np.sum((weights / largest) @ deviation**2)) or 1.0) + math.log(largest)

    @property
    def is_dual(self) -> bool:
        """True if the basis consists of the rows, so that the dual system applies."""
        return self.points is None and (
            self.support is None or np.array_equal(np.sort(np.asarray(self.support)), self.rows)
        )

    @property
    def is_known(self) -> bool:
        """True if C and all widths are given or already chosen."""
        return self.C is not None and not self.kernel.is_free

    @property
    def labels(self) -> np.ndarray:
        """The class of every row, as a number."""
        return class_numbers(self.y)

    @cached_property
    def inputs(self) -> np.ndarray:
        """The number of the input that each column encodes."""
        return np.arange(self.X.shape[1]) if self.groups is None else self.groups

    @property
    def basis_size(self) -> int:
        """Number of basis points."""
        if self.points is not None:
            return int(self.points.shape[0])
        return len(self.rows) if self.support is None else len(self.support)

    def subset(self, rows: np.ndarray) -> Self:
        """The same problem on fewer rows; a basis smaller than the rows stays as it is."""
        X, y, weights = (arrays.take(a, rows) for a in (self.X, self.y, self.weights))
        points, support = self.points, None
        if self.kernel.is_precomputed:
            X = arrays.take(X.T, rows).T
            if not self.is_dual:
                inside = np.isin(np.asarray(self.support), rows)
                if not inside.all():
                    raise ValueError("The basis of a precomputed kernel must be among the rows of the subset.")
                support = np.searchsorted(rows, np.asarray(self.support))
        elif points is None and not self.is_dual:
            points = self.kernel.basis_points(self.X, np.asarray(self.support))
        return self.replace(X=X, y=y, weights=weights, support=support, points=points)

    def with_basis(self, support: np.ndarray | None = None, points: Array | None = None, **changes: Any) -> Self:
        """The penalised problem on another basis: rows by number (sorted), or points."""
        rows = None if support is None else np.sort(np.asarray(support))
        if rows is not None and not len(rows):
            raise ValueError("The basis is empty: the kernel is 0 on all rows, or a tolerance is too large.")
        plain = {"support": rows, "points": points, "reduced": False, "coefficients": None}
        return self.replace(**{**plain, **changes})

    def among(self, support: np.ndarray | None, points: Array, others: Array | None = None) -> Array:
        """The kernel matrix of the basis, and below it the kernel columns of other rows."""
        inputs = points if support is None else arrays.take(self.X, support)
        if others is not None:
            inputs = arrays.namespace(inputs).concat([inputs, others], axis=0)
        return self.kernel.evaluate(inputs, points)

    def positive_rows(self) -> tuple[np.ndarray, Array, Array, Array]:
        """Numbers, inputs, targets and weights of the rows with positive weight."""
        rows = self.rows
        whole = len(rows) == self.X.shape[0]
        X, y, weights = (a if whole else arrays.take(a, rows) for a in (self.X, self.y, self.weights))
        return rows, X, y, weights

    @property
    def fits_memory(self) -> bool:
        """False if the columns of a smaller basis need more than half of the memory: rows are then read in blocks."""
        available = arrays.memory(self.X)
        return self.is_dual or self.reduced or available is None or 16 * len(self.rows) * self.basis_size <= available


def class_numbers(coded: Array) -> np.ndarray:
    """The class number of every row from its coded targets, or from its decision values."""
    values = arrays.to_numpy(coded)
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else np.argmax(values, axis=1)


def column_spread(problem: ProblemRecord) -> np.ndarray:
    """Standard deviation of every column over the rows with positive weight; 1 for constant columns.

    If a few extreme cells dominate it, such as 9999 for a missing value, the standard deviation of a normal
    distribution with the same quartiles is used instead or, if these are equal, that of the cells after
    clipping a thousandth of them at each end, at least one. Columns of the same group have the same spread: the root of
    their total variance, which is half the mean squared distance between two rows, as for a single column.
    """
    return problem.spreads[0]


def constant_columns(problem: ProblemRecord) -> np.ndarray:
    """Which columns do not vary over the rows with positive weight, nor any other column of their group."""
    return problem.spreads[1]


def varying_inputs(problem: ProblemRecord) -> int:
    """The number of inputs with a column that varies, at least 1: constant columns must not change a fit."""
    return max(1, len(np.unique(problem.inputs[~constant_columns(problem)])))
