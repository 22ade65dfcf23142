"""The contents of a fitted model that every export target writes: kernel, points, coefficients, scaling, classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from .. import __version__, arrays
from ..diagnose import check_fitted, probability_slopes
from ..estimators import LSSVC, LSSVR
from ..kernels import RBF, Additive, Kernel, Linear, Matern, Polynomial, Product, Spline, Sum, spline_factors
from ..tables import Column, Plan

Affine = tuple[np.ndarray, np.ndarray, np.ndarray]  # centre, scale and offset of each column
SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)


@dataclass(frozen=True)
class ModelContent:
    """f(x) = sum_j coef_j k((x - centre) scale + offset, point_j) + intercept, and how f becomes classes."""

    kernel: Kernel
    points: np.ndarray  # (n, d)
    coef: np.ndarray  # (n, k)
    intercept: np.ndarray  # (k,)
    affine: Affine | None
    classes: list[Any] | None  # of one type: str, int, float or bool
    slopes: np.ndarray | None  # from decision values to probabilities
    inputs: list[str]  # names of the columns, if known
    single: bool  # a prediction is a number, not a list
    columns: tuple[Column, ...] | None  # of the table, if the model stores them
    coupled: bool = False  # the outputs are those of pairs of classes, which `coding.couple` turns into probabilities

    @property
    def refuses(self) -> bool:
        """True if a row of the table can lack a value that is not filled in."""
        return self.columns is not None and any(column.fill is None for column in self.columns)

    @property
    def decisions(self) -> int:
        """Number of decision values (or predictions) of a row."""
        return len(self.classes or ()) if self.coupled else self.coef.shape[1]

    @property
    def title(self) -> str:
        kind = "regression" if self.classes is None else "classification"
        return f"Least-squares support vector {kind}, exported by lssvm {__version__}"

    @property
    def size(self) -> str:
        n, d = self.points.shape
        return f"{n} support vectors, {d} inputs, {self.decisions} outputs"


def read_model(model: Any) -> ModelContent:
    """Read a fitted LSSVR or LSSVC, or a Pipeline that only scales columns before one."""
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
    used[0] |= not used.any()  # a constant has no support vectors, but C has no empty arrays
    _check_kernel(model.kernel_)
    classifies = isinstance(model, LSSVC)
    columns = _table_columns(model)
    if columns is not None:
        names = [column.name for column in columns]
    slopes = probability_slopes(model) if classifies else None
    return ModelContent(
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
        coupled=getattr(model, "coding_", "") == "one-vs-one",
    )


def _table_columns(model: Any) -> tuple[Column, ...] | None:
    """The columns of the table, if the model was fitted by the command line."""
    table = getattr(model, "table_", None)
    if not isinstance(table, dict) or "columns" not in table:
        return None
    plan = Plan.from_dict(table)
    if len(plan.names) != model.n_features_in_:
        raise ValueError(f"table_ has {len(plan.names)} encoded columns, but the model has {model.n_features_in_}.")
    return plan.columns


def _check_kernel(kernel: Kernel) -> None:
    """Raise TypeError if the formula of the kernel, or of a part of it, is unknown."""
    if type(kernel) not in (RBF, Matern, Linear, Polynomial, Spline, Additive, Sum, Product):
        raise TypeError(
            f"{kernel!r} cannot be exported: use RBF, Matern, Linear, Polynomial, Spline, Additive, or sums and "
            "products of these. A precomputed kernel or a user-defined function cannot be evaluated outside Python."
        )
    for part in kernel.parts:
        _check_kernel(part)


def _affine(scalers: list[Any], d: int) -> Affine:
    """Centre, scale and offset of all scalers combined: (x - centre) scale + offset.

    The first centre is kept separate, so that columns far from 0 lose no digits.
    """
    centre, scale, offset = np.zeros(d), np.ones(d), np.zeros(d)
    for number, scaler in enumerate(scalers):
        if type(scaler) not in SCALERS or getattr(scaler, "clip", False):
            raise TypeError(
                f"{scaler!r} cannot be exported: a Pipeline may contain StandardScaler, MinMaxScaler, MaxAbsScaler and "
                "RobustScaler (without clip) before the model. Apply other steps beforehand and export only the model."
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
        raise TypeError(f"classes {labels!r} cannot be exported: use text or numbers, all of the same type.")
    return labels


def component_places(kernel: Additive) -> list[list[int]] | None:
    """Positions, among the kernel's columns, of each component kept; None if every column is one component."""
    if kernel.groups is None and kernel.active is None:
        return None
    if kernel.groups is None:
        return [[int(place)] for place in dict.fromkeys(kernel.active)]
    groups = [[int(place) for place in np.atleast_1d(group)] for group in kernel.groups]
    return groups if kernel.active is None else [groups[number] for number in dict.fromkeys(kernel.active)]


def column_widths(kernel: RBF | Matern, d: int) -> np.ndarray:
    """One width per column."""
    return np.broadcast_to(np.asarray(arrays.to_numpy(kernel.sigma), dtype=float), (d,)).copy()


def spline_tables(kernel: Spline, d: int) -> dict[str, np.ndarray]:
    """For each column: the first knot, the span of the knots, their positions in it, the factors of the features."""
    knots = np.sort(np.asarray(arrays.to_numpy(kernel.knots), dtype=float), axis=0)
    knots = np.broadcast_to(knots[:, None] if knots.ndim == 1 else knots, (len(knots), d)).T
    spans = knots[:, -1] - knots[:, 0]
    spans = np.where(spans > 0, spans, 1.0)
    places = (knots - knots[:, :1]) / spans[:, None]
    factors = np.zeros((d, knots.shape[1], knots.shape[1]))  # columns with fewer features have zeros
    for own, column in zip(factors, places, strict=True):
        values = spline_factors(column)
        own[:, : values.shape[1]] = values
    return {"starts": knots[:, 0], "spans": spans, "knots": places, "factors": factors}
