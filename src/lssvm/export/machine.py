"""What is to be written of a fitted model, whatever the target: kernel, points, coefficients, scaling, classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from .. import __version__, arrays
from ..diagnose import check_fitted
from ..estimators import LSSVC, LSSVR
from ..kernels import RBF, Additive, Kernel, Linear, Matern, Polynomial, Product, Spline, Sum, spline_factors
from ..tables import Column, Plan

Affine = tuple[np.ndarray, np.ndarray, np.ndarray]  # centre, scale and offset of the columns
SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)


@dataclass(frozen=True)
class Machine:
    """f(x) = sum_j coef_j k((x - centre) scale + offset, point_j) + intercept, and what makes classes of it."""

    kernel: Kernel
    points: np.ndarray  # (n, d)
    coef: np.ndarray  # (n, k)
    intercept: np.ndarray  # (k,)
    affine: Affine | None
    classes: list[Any] | None  # of one type: str, int, float or bool
    slopes: np.ndarray | None  # of the probabilities along the decision values
    inputs: list[str]  # names of the columns, where they are known
    single: bool  # a prediction is a number and no list
    columns: tuple[Column, ...] | None  # of the table, where the model knows them

    @property
    def refuses(self) -> bool:
        """True where a row of the table may lack a value that is not filled in."""
        return self.columns is not None and any(column.fill is None for column in self.columns)

    @property
    def title(self) -> str:
        kind = "regression" if self.classes is None else "classification"
        return f"Least-squares support vector {kind}, exported by lssvm {__version__}"

    @property
    def size(self) -> str:
        n, d = self.points.shape
        return f"{n} support vectors, {d} inputs, {self.coef.shape[1]} outputs"


def read_machine(model: Any) -> Machine:
    """What is to be written of a fitted LSSVR, LSSVC, or of a Pipeline that scales columns before one."""
    scalers: list[Any] = []
    names = getattr(model, "feature_names_in_", None)
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        scalers = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        model = model.steps[-1][1]
    check_fitted(model)
    if not isinstance(model, (LSSVR, LSSVC)):
        raise TypeError(
            f"export takes a fitted LSSVR or LSSVC, alone or last in a Pipeline, got {type(model).__name__}."
        )
    coef = arrays.to_numpy(model.dual_coef_).reshape(len(model.dual_coef_), -1)
    used = np.any(coef != 0.0, axis=1)
    used[0] |= not used.any()  # a constant has no support vectors, but an array of none is no C
    _check_kernel(model.kernel_)
    classifies = isinstance(model, LSSVC)
    columns = _table_columns(model)
    if columns is not None:
        names = [column.name for column in columns]
    slopes = model._calibration() if classifies else None
    return Machine(
        kernel=model.kernel_,
        points=arrays.to_numpy(model.support_vectors_)[used],
        coef=coef[used],
        intercept=np.atleast_1d(arrays.to_numpy(model.intercept_) if np.ndim(model.intercept_) else model.intercept_),
        affine=_affine(scalers, int(model.n_features_in_)) if scalers else None,
        classes=_labels(model.classes_) if classifies else None,
        slopes=None if slopes is None else arrays.to_numpy(slopes),
        inputs=[] if names is None else [str(name) for name in names],
        single=model.dual_coef_.ndim == 1,
        columns=columns,
    )


def _table_columns(model: Any) -> tuple[Column, ...] | None:
    """The columns of the table that a model of the command line was fitted to."""
    table = getattr(model, "table_", None)
    if not isinstance(table, dict) or "columns" not in table:
        return None
    plan = Plan.from_dict(table)
    if len(plan.names) != model.n_features_in_:
        raise ValueError(f"table_ has {len(plan.names)} encoded columns, the model {model.n_features_in_}.")
    return plan.columns


def _check_kernel(kernel: Kernel) -> None:
    """Raise TypeError for a kernel, or a part of it, whose formula is not known."""
    if type(kernel) not in (RBF, Matern, Linear, Polynomial, Spline, Additive, Sum, Product):
        raise TypeError(
            f"{kernel!r} cannot be exported: use RBF, Matern, Linear, Polynomial, Spline, Additive, or sums and "
            "products of these. Values of a precomputed kernel, or of a function of yours, are not known elsewhere."
        )
    for part in kernel.parts:
        _check_kernel(part)


def _affine(scalers: list[Any], d: int) -> Affine:
    """Centre, scale and offset of all scalers together, (x - centre) scale + offset.

    The first centre stays apart, so that columns far from 0 lose no digits.
    """
    centre, scale, offset = np.zeros(d), np.ones(d), np.zeros(d)
    for number, scaler in enumerate(scalers):
        if type(scaler) not in SCALERS or getattr(scaler, "clip", False):
            raise TypeError(
                f"{scaler!r} cannot be exported: of a Pipeline, StandardScaler, MinMaxScaler, MaxAbsScaler and "
                "RobustScaler (without clip) are written into the model. Apply other steps beforehand, and export "
                "the last one."
            )
        if isinstance(scaler, MinMaxScaler):
            scale, offset = scale * scaler.scale_, offset * scaler.scale_ + scaler.min_
            continue
        own = getattr(scaler, "mean_" if getattr(scaler, "with_mean", False) else "center_", None)
        own = np.zeros(d) if own is None else own
        factor = np.ones(d) if scaler.scale_ is None else 1.0 / scaler.scale_
        if number == 0:
            centre, scale = own, factor
        else:
            scale, offset = scale * factor, (offset - own) * factor
    return centre, scale, offset


def _labels(classes: np.ndarray) -> list[Any]:
    """The classes as plain values of one type."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
    if len({type(label) for label in labels}) != 1 or not isinstance(labels[0], (str, int, float)):
        raise TypeError(f"classes {labels!r} cannot be exported: use text or numbers, all of one type.")
    return labels


def component_places(kernel: Additive) -> list[list[int]] | None:
    """Places, among the columns that the kernel looks at, of each component kept; None: every column is one."""
    if kernel.groups is None and kernel.active is None:
        return None
    if kernel.groups is None:
        return [[int(place)] for place in dict.fromkeys(kernel.active)]
    groups = [[int(place) for place in np.atleast_1d(group)] for group in kernel.groups]
    return groups if kernel.active is None else [groups[number] for number in dict.fromkeys(kernel.active)]


def spline_tables(kernel: Spline, d: int) -> dict[str, np.ndarray]:
    """Of every column: where the knots start, what they span, their places in it, and the factors of the features."""
    knots = kernel._by_column(d).T
    spans = knots[:, -1] - knots[:, 0]
    spans = np.where(spans > 0, spans, 1.0)
    places = (knots - knots[:, :1]) / spans[:, None]
    factors = np.zeros((d, knots.shape[1], knots.shape[1]))  # columns with fewer features have zeros
    for own, column in zip(factors, places, strict=True):
        values = spline_factors(column)
        own[:, : values.shape[1]] = values
    return {"starts": knots[:, 0], "spans": spans, "knots": places, "factors": factors}
