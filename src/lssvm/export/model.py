"""The contents of a fitted model that every export target writes: inputs, members, points, scaling, classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from .. import __version__, arrays
from ..diagnose import check_fitted
from ..estimators import LSSVC, LSSVR
from ..estimators.fitted import FittedModel
from ..kernels import RBF, Additive, Kernel, Linear, Matern, Polynomial, Product, Spline, Sum, spline_factors
from ..progress import counted
from ..tables import Column, Columns
from ..targets import TargetScale, TransformedTargets

Scaling = tuple[float, float, float]  # centre, scale and offset: (x - centre) scale + offset
MATERN = {0.5: (0.0, 0.0), 1.5: (1.0, 0.0), 2.5: (1.0, 1 / 3)}  # (1 + a r + b r^2) exp(-r) for each nu
SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)


@dataclass(frozen=True)
class Input:
    """A column of the table, and the encoded columns that its cells become.

    Categories and ranks are looked up in `values`. A number x is scaled, then asinh((x - origin)/unit) replaces it if
    there is a unit. It is followed by 0 if there is an indicator of missing cells.
    """

    name: str | int
    place: int  # among the columns of the table
    values: tuple[Any, ...]  # of categories and ranks: text or numbers
    rows: np.ndarray  # encoded: the values and an unknown one, if there are values; a missing cell (NaN: refused)
    origin: float = 0.0
    unit: float = 0.0
    scaling: Scaling | None = None

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return int(self.rows.shape[1])

    @property
    def missing(self) -> list[float] | None:
        """The encoded columns of a missing cell; None if it is refused."""
        return None if np.isnan(self.rows[-1, 0]) else list(self.rows[-1].tolist())

    @property
    def is_text(self) -> bool:
        return bool(self.values) and isinstance(self.values[0], str)

    @property
    def numbers(self) -> np.ndarray:
        """The values that are looked up, if they are numbers."""
        lost = next((value for value in self.values if value != float(value)), None)
        if lost is not None:
            remedy = "use export.to_python, or convert the column to text before fit"
            raise TypeError(f"Column {self.name!r} has the value {lost}, which is not exact in float64: {remedy}.")
        return np.array(self.values, dtype=np.float64)


@dataclass(frozen=True)
class Formula:
    """A kernel, or a part of one, with the arrays and numbers in its formula.

    The kinds are the classes of kernels, except for `Additive` with chosen components: these are "Groups" of columns
    (each row of the table `groups` ends with -1 as often as needed), or "Nothing" if there are none.
    """

    kind: str
    text: str  # the kernel in Python
    parts: tuple[Formula, ...] = ()
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """f(x) = sum_j coef_j k(x, point_j) + intercept, and how f becomes the probabilities of classes."""

    kernel: Formula
    table: int  # number of its points in `ModelContent.tables`
    coef: np.ndarray  # (n, k)
    intercept: np.ndarray  # (k,)
    weight: float  # in the average over the members
    slopes: list[float]  # from the outputs f to probabilities; none for regression
    calibration: str  # the function that turns f into probabilities: "calibrate", or "couple" for pairs of classes
    scale: np.ndarray | None = None  # from outputs to means (k, 7 + quantiles): the numbers of a `TargetScale`


@dataclass(frozen=True)
class ModelContent:
    """The members of a model (a model that is not a stack has one), and what comes before and after them.

    The columns are scaled and encoded. Regression averages the outputs of the members. Classification averages their
    probabilities p, and the decision values are 2 p - 1; only those of a single model that separates each class from
    the rest are its outputs.
    """

    members: tuple[Member, ...]
    tables: tuple[np.ndarray, ...]  # support vectors (n, d); members with the same ones share a table
    classes: list[Any] | None  # of one type: str, int, float or bool
    inputs: tuple[Input, ...]  # without the columns that the model ignores
    columns: int  # of the table, with those that the model ignores
    names: list[str]  # of these columns, if known
    single: bool  # a prediction or decision value is a number, not a list
    decisions: int  # number of decision values (or predictions) of a row
    mixes: bool  # the decision values are 2 p - 1
    log_link: bool  # regression averages the exponentials of the outputs

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(column.width for column in self.inputs)

    @property
    def is_matrix(self) -> bool:
        """Whether the inputs are the columns of a matrix of numbers."""
        return len(self.inputs) == self.columns and not any(column.values for column in self.inputs)

    @property
    def title(self) -> str:
        """What the export contains, and the kernels of the members with their weights."""
        kind = "regression" if self.classes is None else "classification"
        points = counted(sum(map(len, self.tables)), "basis point")
        size = f"{points}, {counted(len(self.inputs), 'input')}, {counted(self.decisions, 'output')}"
        kernels = self.members[0].kernel.text
        if len(self.members) > 1:
            size = f"{len(self.members)} models, {size}"
            kernels = " + ".join(f"{member.weight:.3g} {member.kernel.text}" for member in self.members)
        text = f"Least-squares support vector {kind}, exported by lssvm {__version__}: {size}. {kernels}"
        return " ".join(text.split())


def read_model(model: Any) -> ModelContent:
    """Read a fitted LSSVR or LSSVC, or a Pipeline that only scales columns before one."""
    scalers: list[Any] = []
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        scalers = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        model = model.steps[-1][1]
    check_fitted(model)
    if not isinstance(model, (LSSVR, LSSVC)):
        raise TypeError(f"export takes a fitted LSSVR or LSSVC, perhaps in a Pipeline, got {type(model).__name__}.")
    fitted = model.fitted_ if isinstance(model, LSSVR) else model.fitted_.completed()
    layout, columns = fitted.layout, fitted.layout.n_features
    inputs = _inputs(layout.columns, columns, names)
    if scalers and (len(inputs) < columns or any(column.values for column in inputs)):
        remedy = "fit the model to the columns as they are, without scalers"
        raise TypeError(f"A Pipeline before a model with categories cannot be exported: {remedy}.")
    if scalers:
        inputs = tuple(replace(own, scaling=way) for own, way in zip(inputs, _scaling(scalers, columns), strict=True))
    members, tables = _members(fitted, sum(column.width for column in inputs))
    classes = None if layout.classes is None else _labels(layout.classes)
    mixes = layout.classes is not None and (fitted.is_stack or fitted.by_pairs)
    form: dict[str, Any] = {"columns": columns, "names": names, "single": layout.single, "decisions": layout.outputs}
    form["log_link"] = fitted.fit.log_link
    return ModelContent(members, tables, classes=classes, inputs=inputs, mixes=mixes, **form)


def _inputs(columns: Columns | None, count: int, names: list[str]) -> tuple[Input, ...]:
    """Return the inputs; a model without `columns` takes numbers and has no values for missing cells."""
    if columns is None:
        columns = Columns(tuple(Column(number, median=np.nan) for number in range(count)))
    found = []
    for place, column in enumerate(columns.columns):
        if column.kind == "ignored":
            continue
        if column.kind == "time":
            remedy = "convert it to numbers before fit, e.g. days and the hour, or predict in Python"
            raise TypeError(f"Column {column.name!r} contains dates, which cannot be exported: {remedy}.")
        if column.merged:
            remedy = "convert its texts to one spelling before fit instead"
            raise TypeError(f"Column {column.name!r} has merge_text=True, which cannot be exported: {remedy}.")
        cells: list[Any] = [None]
        if column.kind != "number":
            kind = str if isinstance(column.values[0], str) else int
            unknown = next(value for value in map(kind, range(len(column.values) + 1)) if value not in column.values)
            cells = [*column.values, None if column.kind == "ranks" else unknown, None]  # an unknown rank is missing
        rows = np.zeros((len(cells), column.width))
        column.encode(np.full(1, np.nan) if column.kind == "number" else column.read(cells), rows)
        name = names[place] if names else column.name
        found.append(Input(name, place, column.values, rows, column.origin, column.unit))
    return tuple(found)


def _members(fitted: FittedModel, width: int) -> tuple[tuple[Member, ...], tuple[np.ndarray, ...]]:
    """Return the members, and their support vectors without those that do not count."""
    tables: list[np.ndarray] = []
    found = []
    for member, weight in zip(fitted.members, fitted.shares, strict=True):
        points, coef, intercept = map(arrays.to_numpy, (member.fit.points, member.fit.coef, member.fit.intercept))
        used = np.any(coef != 0.0, axis=1)
        used[0] |= not used.any()  # a constant has no support vectors, but C has no empty arrays
        points = points[used]
        place = next((place for place, own in enumerate(tables) if np.array_equal(own, points)), len(tables))
        tables[place : place + 1] = [points]
        slopes = [] if member.slopes is None else arrays.to_numpy(member.slopes).tolist()
        formula, calibration = _formula(member.fit.kernel, width), "couple" if member.by_pairs else "calibrate"
        scale = None if member.target is None else _scale(member.target)
        found.append(Member(formula, place, coef[used], intercept, weight, slopes, calibration, scale))
    return tuple(found), tuple(tables)


def _scale(scale: TargetScale) -> np.ndarray:
    """Return the numbers of a scale of the targets; TypeError for a transformer."""
    if isinstance(scale, TransformedTargets):
        raise TypeError("A model with a transformer of the targets cannot be exported: use target='log' or 'power'.")
    ends = scale.low, scale.high, scale.quantiles
    numbers: Any = (scale.exponents, scale.origin, scale.unit, scale.centre, scale.spread, *ends)
    return np.vstack(numbers).T


def _formula(kernel: Kernel, d: int) -> Formula:
    """Return the formula of a kernel of d columns; TypeError if that of the kernel, or of a part of it, is unknown."""
    if type(kernel) not in (RBF, Matern, Linear, Polynomial, Spline, Additive, Sum, Product):
        remedy = "use RBF, Matern, Linear, Polynomial, Spline, Additive, or sums and products of these"
        why = "A precomputed kernel or a user-defined function cannot be evaluated outside Python"
        raise TypeError(f"{kernel!r} cannot be exported: {remedy}. {why}.")
    kind = type(kernel).__name__
    tables: dict[str, np.ndarray] = {}
    constants: dict[str, Any] = {}
    if isinstance(kernel, (RBF, Matern, Linear)):
        widths = (1.0 if kernel.scale is None else kernel.scale) if isinstance(kernel, Linear) else kernel.sigma
        widths = np.asarray(arrays.to_numpy(widths), dtype=float)
        widths = np.minimum(widths, np.finfo(float).max)  # of dropped columns: source code has no literal for infinity
        tables = {"widths": np.broadcast_to(widths, (d,)).copy()}
    if isinstance(kernel, Matern):
        constants = dict(zip("ab", MATERN[kernel.nu], strict=True)) | {"twice_nu": 2.0 * kernel.nu}
    elif isinstance(kernel, Polynomial):
        constants = {"coef0": float(kernel.coef0), "degree": int(kernel.degree)}
    elif isinstance(kernel, Spline):
        tables = _spline_tables(kernel, d)
        constants = {"size": tables["knots"].shape[1]}
    elif isinstance(kernel, Additive) and not (kernel.groups is None and kernel.active is None):
        groups = [group for group, _ in kernel.kept(d).values()]  # positions among the kernel's columns
        longest = max(map(len, groups), default=0)
        kind = "Groups" if groups else "Nothing"
        if groups:
            tables = {"groups": np.array([[*group, *[-1] * (longest - len(group))] for group in groups])}
        constants = {"size": len(groups), "longest": longest}
    return Formula(kind, repr(kernel), tuple(_formula(part, d) for part in kernel.parts), tables, constants)


def _scaling(scalers: list[Any], d: int) -> list[Scaling]:
    """The scaling of each column by all scalers. The first centre is separate: columns far from 0 lose no digits."""
    centre, scale, offset = np.zeros(d), np.ones(d), np.zeros(d)
    for number, scaler in enumerate(scalers):
        if type(scaler) not in SCALERS or getattr(scaler, "clip", False):
            allowed = "StandardScaler, MinMaxScaler, MaxAbsScaler and RobustScaler (without clip) before the model"
            remedy = "Apply other steps beforehand and export only the model"
            raise TypeError(f"{scaler!r} cannot be exported: a Pipeline may contain {allowed}. {remedy}.")
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
    return list(zip(centre.tolist(), scale.tolist(), offset.tolist(), strict=True))


def _labels(classes: np.ndarray) -> list[Any]:
    """Return the classes as plain values of one type."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
    if len({type(label) for label in labels}) != 1 or not isinstance(labels[0], (str, int, float)):
        raise TypeError(f"classes {labels!r} cannot be exported: use text or numbers, all of the same type.")
    return labels


def _spline_tables(kernel: Spline, d: int) -> dict[str, np.ndarray]:
    """For each column: the first knot, the span of the knots, their positions in it, the factors of the features."""
    knots = np.sort(np.asarray(arrays.to_numpy(kernel.knots), dtype=float), axis=0)
    knots = np.broadcast_to(knots[:, None] if knots.ndim == 1 else knots, (len(knots), d)).T
    spans = knots[:, -1] - knots[:, 0]
    spans = np.where(spans > 0, spans, 1.0)
    places = (knots - knots[:, :1]) / spans[:, None]
    return {"starts": knots[:, 0], "spans": spans, "knots": places, "factors": spline_factors(places)}
