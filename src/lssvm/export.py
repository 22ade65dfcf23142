"""Fitted machines for other places: an ONNX graph, a C99 header, a Python file that needs no package.

All three compute in float64 what `predict`, `decision_function` and `predict_proba` compute, to about 1e-10 (or to the
rounding of large coefficients, which is that of `predict`, too). Distances are sums of squared differences everywhere:
no digits are lost near the support vectors. A model of the command line takes the columns of its table as they are:
categories, missing values and what fills them in are written into it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from . import __version__, _xp
from .estimators import LSSVC, LSSVR
from .kernels import (
    RBF,
    Additive,
    Kernel,
    Linear,
    Matern,
    Polynomial,
    Product,
    Spline,
    Sum,
    spline_factors,
    spline_kernel,
)
from .tables import MISSING, Column, Plan, spellings

__all__ = ["to_c", "to_onnx", "to_python"]

OPSET = 18
OUTPUTS = ("prediction", "label", "decision_function", "probabilities", "complete")
Affine = tuple[np.ndarray, np.ndarray, np.ndarray]
SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)


@dataclass(frozen=True)
class _Machine:
    """f(x) = sum_j coef_j k((x - centre) scale + offset, point_j) + intercept, and what makes classes of it."""

    kernel: Kernel
    points: np.ndarray  # (n, d)
    coef: np.ndarray  # (n, k)
    intercept: np.ndarray  # (k,)
    affine: Affine | None  # centre, scale and offset of the columns
    classes: list[Any] | None  # of one type: str, int, float or bool
    slopes: np.ndarray | None
    inputs: list[str]  # names of the columns, where they are known
    single: bool  # a prediction is a number and no list
    columns: tuple[Column, ...] | None = None  # of the table, where the model knows them

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


def _machine(model: Any) -> _Machine:
    """What is to be written of a fitted LSSVR, LSSVC, or of a Pipeline that scales columns before one."""
    scalers: list[Any] = []
    names = getattr(model, "feature_names_in_", None)
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        scalers = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        model = model.steps[-1][1]
    if not isinstance(model, (LSSVR, LSSVC)):
        raise TypeError(
            f"export takes a fitted LSSVR or LSSVC, alone or last in a Pipeline, got {type(model).__name__}: "
            "of a search, give best_estimator_."
        )
    check_is_fitted(model)
    coef = _xp.to_numpy(model.dual_coef_).reshape(len(model.dual_coef_), -1)
    used = np.any(coef != 0.0, axis=1)
    used[0] |= not used.any()  # a constant has no support vectors, but an array of none is no C
    d = int(model.n_features_in_)
    _check_kernel(model.kernel_)
    classifies = isinstance(model, LSSVC)
    columns = _table_columns(model)
    if columns is not None:
        names = [column.name for column in columns]
    slopes = getattr(model, "_slopes_", None) if classifies else None
    return _Machine(
        model.kernel_,
        _xp.to_numpy(model.support_vectors_)[used],
        coef[used],
        np.atleast_1d(_xp.to_numpy(model.intercept_) if np.ndim(model.intercept_) else model.intercept_),
        _affine(scalers, d) if scalers else None,
        _labels(model.classes_) if classifies else None,
        None if slopes is None else _xp.to_numpy(slopes),
        [] if names is None else [str(name) for name in names],
        model.dual_coef_.ndim == 1,
        columns,
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
    labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
    if len({type(label) for label in labels}) != 1 or not isinstance(labels[0], (str, int, float)):
        raise TypeError(f"classes {labels!r} cannot be exported: use text or numbers, all of one type.")
    return labels


def _groups(kernel: Additive) -> list[list[int]] | None:
    """Places, among the columns that the kernel looks at, of each component kept; None: every column is one."""
    if kernel.groups is None and kernel.active is None:
        return None
    if kernel.groups is None:
        return [[int(place)] for place in dict.fromkeys(kernel.active)]
    groups = [[int(place) for place in np.atleast_1d(group)] for group in kernel.groups]
    return groups if kernel.active is None else [groups[number] for number in dict.fromkeys(kernel.active)]


# ONNX -----------------------------------------------------------------------------------------------------------------
def to_onnx(model: Any) -> Any:
    """The machine as an ONNX graph of core operators, in float64 (opset 18); needs ``pip install lssvm[onnx]``.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted; also a Pipeline that only scales columns before it.

    Returns
    -------
    onnx.ModelProto
        Input ``X`` (rows, columns). Outputs: ``prediction`` (rows, outputs) of a regression; ``label`` (rows,),
        ``decision_function`` (rows, 1 or classes) and ``probabilities`` (rows, classes) of a classification.
        Save it with ``onnx.save(graph, path)``.
        A model of the command line has one input (rows, 1) a column of its table instead: numbers, NaN where they are
        missing, and texts. Where missing values are not filled in, there is an output ``complete`` (rows,), and a row
        that is not gets NaN, and the label "" or the smallest integer.
    """
    machine = _machine(model)
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise ImportError("to_onnx needs the package onnx: pip install 'lssvm[onnx]'.") from None
    graph = _Graph()
    X = _onnx_table(graph, machine)
    if machine.affine is not None:
        for operator, values in zip(("Sub", "Mul", "Add"), machine.affine, strict=True):
            X = graph.add(operator, X, graph.constant(values[None, :]))
    d = machine.points.shape[1]
    K = _Columns(graph, X, machine.points).kernel(machine.kernel, range(d))
    f = graph.add("MatMul", K, graph.constant(machine.coef))
    f = graph.add("Add", f, graph.constant(machine.intercept[None, :]))
    if graph.complete:
        graph.output("complete", graph.add("Squeeze", graph.complete, graph.constant(np.array([1]))))
    nothing = np.array(np.nan)
    if machine.classes is None:
        graph.output("prediction", graph.where_complete(f, nothing))
        return graph.build(machine)
    text = isinstance(machine.classes[0], str)
    labels = graph.constant(machine.classes if text else np.array(machine.classes))
    label = graph.add("Gather", labels, _winner(graph, machine, f))
    graph.output("label", graph.where_complete(label, [""] if text else np.array(np.iinfo(np.int64).min), flat=True))
    graph.output("decision_function", graph.where_complete(f, nothing))
    if machine.slopes is not None:
        graph.output("probabilities", graph.where_complete(_onnx_probabilities(graph, machine, f), nothing))
    return graph.build(machine)


def _onnx_table(graph: _Graph, machine: _Machine) -> str:
    """The encoded columns of the graph's inputs, (rows, columns)."""
    if machine.columns is None:
        return graph.input("X", 11, machine.points.shape[1])
    parts = []
    unknown, absent = -1, -2
    for column in machine.columns:
        name = graph.input(column.name, 11 if column.categories is None else 8, 1)
        if column.categories is None:
            missing = graph.add("IsNaN", name)
            parts.append(graph.add("Where", missing, graph.constant(np.array(column.fill or 0.0)), name))
        else:
            codes = dict.fromkeys(MISSING, absent) | spellings(column.categories)
            options: dict[str, Any] = {"keys_strings": list(codes), "values_int64s": list(codes.values())}
            options["default_int64"] = unknown
            code = graph.add("LabelEncoder", name, domain="ai.onnx.ml", **options)
            missing = graph.add("Equal", code, graph.constant(np.array(absent)))
            numbers = graph.constant(np.arange(len(column.categories))[None, :])
            parts.append(graph.add("Cast", graph.add("Equal", code, numbers), to=11))
        if column.fill is None:
            there = graph.add("Not", missing)
            graph.complete = graph.add("And", graph.complete, there) if graph.complete else there
    return str(graph.add("Concat", *parts, axis=1))


class _Graph:
    """Nodes, constants, inputs and outputs of an ONNX graph."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[str] = []
        self.complete = ""  # (rows, 1): which rows lack nothing, where they may

    def input(self, name: str, kind: int, columns: int) -> str:
        """The name of a new input; one that the graph uses itself gets a tail."""
        from onnx import helper

        if name.startswith("lssvm:"):
            name += "_input"
        while name in OUTPUTS or name in [own.name for own in self.inputs]:
            name += "_input"
        self.inputs.append(helper.make_tensor_value_info(name, kind, [None, columns]))
        return name

    def where_complete(self, value: str, nothing: Any, flat: bool = False) -> str:
        """The value of rows that are complete, else nothing."""
        if not self.complete:
            return value
        complete = self.add("Squeeze", self.complete, self.constant(np.array([1]))) if flat else self.complete
        return str(self.add("Where", complete, value, self.constant(nothing)))

    def add(self, operator: str, *inputs: str, outputs: int = 0, **attributes: Any) -> Any:
        """The name of a new node's result, or those of several."""
        from onnx import helper

        names = [f"lssvm:{operator.lower()}_{len(self.nodes)}_{number}" for number in range(max(outputs, 1))]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names if outputs else names[0]

    def constant(self, values: Any) -> str:
        from onnx import helper, numpy_helper

        name = f"lssvm:constant_{len(self.constants)}"
        if isinstance(values, list):  # text
            tensor = helper.make_tensor(name, 8, [len(values)], [text.encode() for text in values])
        else:
            tensor = numpy_helper.from_array(np.ascontiguousarray(values), name)
        self.constants.append(tensor)
        return name

    def output(self, name: str, value: str) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(name)

    def build(self, machine: _Machine) -> Any:
        import onnx
        from onnx import TensorProto, helper

        k = machine.coef.shape[1]
        label = TensorProto.DOUBLE
        if machine.classes is not None:
            types = {
                str: TensorProto.STRING,
                bool: TensorProto.BOOL,
                int: TensorProto.INT64,
                float: TensorProto.DOUBLE,
            }
            label = types[type(machine.classes[0])]
        kinds = {
            "prediction": (TensorProto.DOUBLE, [None, k]),
            "label": (label, [None]),
            "decision_function": (TensorProto.DOUBLE, [None, k]),
            "probabilities": (TensorProto.DOUBLE, [None, len(machine.classes or [])]),
            "complete": (TensorProto.BOOL, [None]),
        }
        graph = helper.make_graph(
            self.nodes,
            "lssvm",
            self.inputs,
            [helper.make_tensor_value_info(name, *kinds[name]) for name in self.outputs],
            self.constants,
            doc_string=f"{machine.title}: {machine.size}. {machine.kernel!r}",
        )
        opset = [helper.make_opsetid("", OPSET)]
        if any(node.domain for node in self.nodes):
            opset.append(helper.make_opsetid("ai.onnx.ml", 2))
        proto = helper.make_model(graph, opset_imports=opset, producer_name="lssvm", producer_version=__version__)
        proto.ir_version = 8  # that of opset 18: older runtimes read it
        onnx.checker.check_model(proto, full_check=True)
        return proto


class _Columns:
    """Kernel matrices of the graph's rows with the support vectors, over some of the columns."""

    def __init__(self, graph: _Graph, X: str, points: np.ndarray) -> None:
        self.graph, self.X, self.points = graph, X, points
        self.split: list[str] = []

    def column(self, c: int) -> str:
        """Column c of the rows, (rows, 1)."""
        if not self.split:
            d = self.points.shape[1]
            self.split = self.graph.add("Split", self.X, outputs=d, axis=1, num_outputs=d)
        return self.split[c]

    def kernel(self, kernel: Any, columns: Sequence[int]) -> str:
        graph = self.graph
        if isinstance(kernel, (Sum, Product)):
            parts = [self.kernel(part, columns) for part in kernel.parts]
            return graph.add("Add" if isinstance(kernel, Sum) else "Mul", *parts)
        if isinstance(kernel, Additive):
            places = _groups(kernel)
            groups = [[c] for c in columns] if places is None else [[columns[p] for p in group] for group in places]
            return self._sum([self.kernel(kernel.kernel, group) for group in groups] or [self._zeros()])
        if isinstance(kernel, Spline):
            return self._sum([self._spline(kernel, c) for c in columns])
        if isinstance(kernel, (RBF, Matern)):
            return self._stationary(kernel, columns)
        products = self._products(columns)
        if isinstance(kernel, Linear):
            return products
        shifted = graph.add("Add", products, graph.constant(np.array(float(kernel.coef0))))
        return graph.add("Pow", shifted, graph.constant(np.array(float(kernel.degree))))

    def _sum(self, terms: list[str]) -> str:
        total = terms[0]
        for term in terms[1:]:
            total = self.graph.add("Add", total, term)
        return total

    def _zeros(self) -> str:
        return self.graph.add("Mul", self.column(0), self.graph.constant(np.zeros((1, len(self.points)))))

    def _products(self, columns: Sequence[int]) -> str:
        if columns == range(self.points.shape[1]):
            return self.graph.add("MatMul", self.X, self.graph.constant(self.points.T))
        return self._sum(
            [self.graph.add("Mul", self.column(c), self.graph.constant(self.points[None, :, c])) for c in columns]
        )

    def _spline(self, kernel: Spline, c: int) -> str:
        """The features of a column (`Spline.features`), times those of the support vectors."""
        graph = self.graph
        table = _spline_tables(kernel, self.points.shape[1])
        shifted = graph.add("Sub", self.column(c), graph.constant(table["starts"][c]))
        u = graph.add("Div", shifted, graph.constant(table["spans"][c]))
        v, factors = table["knots"][c][None, :], table["factors"][c]
        zero, one = graph.constant(np.array(0.0)), graph.constant(np.array(1.0))

        def scaled(value: str, factor: float) -> str:
            return graph.add("Mul", value, graph.constant(np.array(factor)))

        def plus(value: str, constant: Any) -> str:
            return graph.add("Add", value, graph.constant(np.asarray(constant, dtype=float)))

        a = graph.add("Clip", u, zero, one)
        quartic = graph.add("Mul", graph.add("Mul", a, a), plus(graph.add("Mul", a, plus(a, -4.0)), 6.0))
        beyond = graph.add("Max", plus(u, -1.0), zero)
        mean = graph.add("Add", scaled(quartic, 1 / 24), scaled(beyond, 1 / 6))
        product, total = graph.add("Mul", u, graph.constant(v)), plus(u, v)
        low = graph.add("Clip", graph.add("Min", u, graph.constant(v)), zero, one)
        inner = graph.add("Mul", low, graph.add("Sub", scaled(total, 0.5), scaled(low, 1 / 3)))
        K = graph.add("Mul", low, graph.add("Sub", product, inner))
        K = graph.add("Add", graph.add("Sub", K, mean), graph.add("Sub", product, scaled(total, 0.5)))
        K = plus(K, 0.3 - v * v * (6.0 - 4.0 * v + v * v) / 24.0)  # knots lie in [0, 1]
        features = spline_kernel((self.points[:, c] - table["starts"][c]) / table["spans"][c], v[0]) @ factors
        return graph.add("MatMul", graph.add("MatMul", K, graph.constant(factors)), graph.constant(features.T))

    def _stationary(self, kernel: RBF | Matern, columns: Sequence[int]) -> str:
        """Squared distances column by column: exact near the support vectors, and no rows x points x columns tensor."""
        graph, terms = self.graph, []
        widths = kernel._widths(self.points.shape[1])
        for c in columns:
            difference = graph.add("Sub", self.column(c), graph.constant(self.points[None, :, c]))
            scaled = graph.add("Div", difference, graph.constant(np.array(widths[c])))
            terms.append(graph.add("Mul", scaled, scaled))
        D = self._sum(terms)
        if isinstance(kernel, RBF):
            return graph.add("Exp", graph.add("Neg", D))
        r = graph.add("Sqrt", graph.add("Mul", D, graph.constant(np.array(2.0 * kernel.nu))))
        decay = graph.add("Exp", graph.add("Neg", r))
        if kernel.nu == 0.5:
            return decay
        factor = graph.add("Add", r, graph.constant(np.array(1.0)))
        if kernel.nu == 2.5:
            third = graph.add("Div", graph.add("Mul", r, r), graph.constant(np.array(3.0)))
            factor = graph.add("Add", factor, third)
        return graph.add("Mul", decay, factor)


def _winner(graph: _Graph, machine: _Machine, f: str) -> str:
    if machine.coef.shape[1] > 1:
        return graph.add("ArgMax", f, axis=1, keepdims=0)
    positive = graph.add("Greater", f, graph.constant(np.array(0.0)))
    flat = graph.add("Squeeze", positive, graph.constant(np.array([1])))
    return graph.add("Cast", flat, to=7)  # int64


def _onnx_probabilities(graph: _Graph, machine: _Machine, f: str) -> str:
    assert machine.slopes is not None
    slopes = [graph.constant(np.array(float(slope))) for slope in machine.slopes]
    if machine.coef.shape[1] > 1:
        return graph.add("Softmax", graph.add("Mul", f, slopes[0]), axis=1)
    positive = graph.add("Greater", f, graph.constant(np.array(0.0)))
    logit = graph.add("Mul", f, graph.add("Where", positive, slopes[1], slopes[0]))
    zero = graph.add("Mul", logit, graph.constant(np.array(0.0)))
    return graph.add("Softmax", graph.add("Concat", zero, logit, axis=1), axis=1)


# C and Python ---------------------------------------------------------------------------------------------------------
# A kernel becomes one function for each of its parts, of two rows and of the columns that count: an additive kernel
# then calls its part for the columns of one component after the other. Words in capitals are replaced: by tables and
# constants of the kernel, and by its parts.
C_BODIES = {
    "RBF": """    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        const double r = (x[columns[i]] - z[columns[i]]) / WIDTHS[columns[i]];
        sum += r * r;
    }
    return exp(-sum);""",
    "Matern": """    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        const double r = (x[columns[i]] - z[columns[i]]) / WIDTHS[columns[i]];
        sum += r * r;
    }
    const double r = sqrt(TWICE_NU * sum);
    return FACTOR * exp(-r);""",
    "Linear": """    double sum = 0.0;
    for (int i = 0; i < count; i++)
        sum += x[columns[i]] * z[columns[i]];
    return sum;""",
    "Polynomial": """    double sum = COEF0;
    for (int i = 0; i < count; i++)
        sum += x[columns[i]] * z[columns[i]];
    return pow(sum, DEGREE);""",
    "Spline": """    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        const int c = columns[i];
        double a[SIZE], b[SIZE];
        for (int j = 0; j < SIZE; j++) {
            a[j] = SPLINE((x[c] - STARTS[c]) / SPANS[c], KNOTS[c][j]);
            b[j] = SPLINE((z[c] - STARTS[c]) / SPANS[c], KNOTS[c][j]);
        }
        for (int r = 0; r < SIZE; r++) {
            double p = 0.0, q = 0.0;
            for (int j = 0; j < SIZE; j++) {
                p += a[j] * FACTORS[c][j][r];
                q += b[j] * FACTORS[c][j][r];
            }
            sum += p * q;
        }
    }
    return sum;""",
    "Additive": """    double sum = 0.0;
    for (int i = 0; i < count; i++)
        sum += PART0(x, z, columns + i, 1);
    return sum;""",
    "Groups": """    double sum = 0.0;
    (void)count;
    for (int g = 0; g < SIZE; g++) {
        int picked[LONGEST] = {0}, size = 0;
        for (; size < LONGEST && GROUPS[g][size] >= 0; size++)
            picked[size] = columns[GROUPS[g][size]];
        sum += PART0(x, z, picked, size);
    }
    return sum;""",
    "Nothing": """    (void)x, (void)z, (void)columns, (void)count;
    return 0.0;""",
    "Sum": "    return PART0(x, z, columns, count) + PART1(x, z, columns, count);",
    "Product": "    return PART0(x, z, columns, count) * PART1(x, z, columns, count);",
}
PYTHON_BODIES = {
    "RBF": "    return math.exp(-sum(((x[c] - z[c]) / WIDTHS[c]) ** 2 for c in columns))",
    "Matern": """    r = math.sqrt(TWICE_NU * sum(((x[c] - z[c]) / WIDTHS[c]) ** 2 for c in columns))
    return FACTOR * math.exp(-r)""",
    "Linear": "    return sum(x[c] * z[c] for c in columns)",
    "Polynomial": "    return (COEF0 + sum(x[c] * z[c] for c in columns)) ** DEGREE",
    "Spline": """    total = 0.0
    for c in columns:
        a = [SPLINE((x[c] - STARTS[c]) / SPANS[c], knot) for knot in KNOTS[c]]
        b = [SPLINE((z[c] - STARTS[c]) / SPANS[c], knot) for knot in KNOTS[c]]
        for factor in zip(*FACTORS[c]):
            total += sum(p * q for p, q in zip(a, factor)) * sum(p * q for p, q in zip(b, factor))
    return total""",
    "Additive": "    return sum(PART0(x, z, [c]) for c in columns)",
    "Groups": "    return sum(PART0(x, z, [columns[place] for place in group if place >= 0]) for group in GROUPS)",
    "Nothing": "    return 0.0",
    "Sum": "    return PART0(x, z, columns) + PART1(x, z, columns)",
    "Product": "    return PART0(x, z, columns) * PART1(x, z, columns)",
}
# The kernel of a cubic spline between two places in units of the knots' span (kernels.Spline).
C_SPLINE = """static inline double NAMEspline_mean(double u)
{
    const double a = u < 0.0 ? 0.0 : u > 1.0 ? 1.0 : u;
    return a * a * (6.0 - 4.0 * a + a * a) / 24.0 + (u > 1.0 ? (u - 1.0) / 6.0 : 0.0);
}

static inline double NAMEspline(double u, double v)
{
    const double low = u < v ? u : v;
    const double a = low < 0.0 ? 0.0 : low > 1.0 ? 1.0 : low;
    const double integral = a * (u * v - a * ((u + v) / 2.0 - a / 3.0));
    return integral - NAMEspline_mean(u) - NAMEspline_mean(v) + 0.05 + u * v - 0.5 * (u + v) + 0.25;
}"""
PYTHON_SPLINE = """def spline_mean(u):
    a = min(max(u, 0.0), 1.0)
    return a * a * (6.0 - 4.0 * a + a * a) / 24.0 + max(u - 1.0, 0.0) / 6.0


def spline(u, v):
    a = min(max(min(u, v), 0.0), 1.0)
    integral = a * (u * v - a * ((u + v) / 2.0 - a / 3.0))
    return integral - spline_mean(u) - spline_mean(v) + 0.05 + u * v - 0.5 * (u + v) + 0.25"""
MATERN_FACTORS = {0.5: "1.0", 1.5: "(1.0 + r)", 2.5: "(1.0 + r + r * r / 3.0)"}
_Function = tuple[str, dict[str, np.ndarray], str]  # name, tables and body


def _kernel_functions(kernel: Any, d: int, bodies: dict[str, str], prefix: str) -> list[_Function]:
    """The functions of a kernel, parts first."""
    functions: list[_Function] = []

    def write(kernel: Any) -> str:
        parts = [write(part) for part in kernel.parts]
        name = f"{prefix}kernel{len(functions)}"
        kind, tables, words = _described(kernel, d)
        words |= {"SPLINE": f"{prefix}spline", **{table.upper(): f"{name}_{table}" for table in tables}}
        words |= {f"PART{number}": part for number, part in enumerate(parts)}
        body = re.sub(r"\b[A-Z][A-Z_0-9]+\b", lambda word: words[word[0]], bodies[kind])
        functions.append((name, tables, body))
        return name

    write(kernel)
    return functions


def _described(kernel: Any, d: int) -> tuple[str, dict[str, np.ndarray], dict[str, str]]:
    """What body a kernel has, its tables, and its constants."""
    kind = type(kernel).__name__
    if isinstance(kernel, RBF):
        return kind, {"widths": kernel._widths(d)}, {}
    if isinstance(kernel, Matern):
        words = {"TWICE_NU": repr(2.0 * kernel.nu), "FACTOR": MATERN_FACTORS[kernel.nu]}
        return kind, {"widths": kernel._widths(d)}, words
    if isinstance(kernel, Polynomial):
        return kind, {}, {"COEF0": repr(float(kernel.coef0)), "DEGREE": str(int(kernel.degree))}
    if isinstance(kernel, Spline):
        tables = _spline_tables(kernel, d)
        return kind, tables, {"SIZE": str(tables["knots"].shape[1])}
    if isinstance(kernel, Additive):
        groups = _groups(kernel)
        if groups is None:
            return kind, {}, {}
        if not groups:
            return "Nothing", {}, {}
        longest = max(map(len, groups))
        padded = np.array([[*group, *[-1] * (longest - len(group))] for group in groups])  # -1 ends a group
        return "Groups", {"groups": padded}, {"SIZE": str(len(groups)), "LONGEST": str(longest)}
    return kind, {}, {}


def _spline_tables(kernel: Spline, d: int) -> dict[str, np.ndarray]:
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


def _splines(functions: list[_Function]) -> bool:
    return any("factors" in tables for _, tables, _ in functions)


def to_c(model: Any, name: str = "lssvm") -> str:
    """The machine as a C99 header that needs only <math.h>.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted; also a Pipeline that only scales columns before it.
    name : str
        What all names in the header begin with.

    Returns
    -------
    str
        The header. For regression ``NAME_predict(x, f)`` writes the outputs f of one row x. For classification
        ``NAME_predict(x)`` is the number of the class in ``NAME_classes``, ``NAME_decision_function(x, f)`` writes
        the decision values and ``NAME_predict_proba(x, p)`` one probability a class. Of a model of the command line
        ``NAME_encode(numbers, texts, x)`` makes x of a row of the table: its numbers, NaN where they are missing, in
        the order of ``NAME_number_names``, and its texts in that of ``NAME_text_names``. It returns 0 where a value is
        missing that is not filled in: such a row has no prediction.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, export, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.FeatureVectors(9)]).fit(X, y)
    >>> "motorcycle_predict" in export.to_c(model, name="motorcycle")
    True
    """
    machine = _machine(model)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r} is no name in C: use letters, digits and _.")
    (n, d), k = machine.points.shape, machine.coef.shape[1]
    guard = f"{name.upper()}_H"
    functions = _kernel_functions(machine.kernel, d, C_BODIES, f"{name}_")
    text = [
        f"/* {machine.title}. C99, needs only <math.h>{'' if machine.columns is None else ' and <string.h>'}.",
        f" * {machine.size}. {' '.join(repr(machine.kernel).split())}",
        " */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <math.h>",
        *([] if machine.columns is None else ["#include <string.h>"]),
        "",
        f"enum {{ {name}_inputs = {d}, {name}_outputs = {k} }};",
    ]
    if machine.columns is not None:
        text += _c_encode(machine.columns, name)
    elif machine.inputs:
        text.append(_c_array(f"const char *const {name}_input_names[{d}]", map(_c_string, machine.inputs)))
    if machine.classes is not None:
        kind, values = _c_labels(machine.classes)
        text.append(_c_array(f"{kind}{name}_classes[{len(values)}]", values))
    text += [
        "",
        _c_array(f"const double {name}_points[{n}][{d}]", (_c_row(point) for point in machine.points)),
        _c_array(f"const double {name}_coefficients[{n}][{k}]", (_c_row(row) for row in machine.coef)),
        _c_array(f"const double {name}_intercept[{k}]", map(_number, machine.intercept)),
        _c_table(f"{name}_columns", np.arange(d)),
    ]
    if _splines(functions):
        text += ["", C_SPLINE.replace("NAME", f"{name}_")]
    for function, tables, body in functions:
        text.append("")
        text += [_c_table(f"{function}_{table}", values) for table, values in tables.items()]
        text += [
            f"static inline double {function}(const double *x, const double *z, const int *columns, int count)",
            "{",
            body,
            "}",
        ]
    text += ["", *_c_decision(machine, name, functions[-1][0])]
    if machine.classes is not None:
        text += ["", *_c_predict(name, k)]
        if machine.slopes is not None:
            text += ["", *_c_probabilities(machine, name)]
    return "\n".join([*text, "", f"#endif /* {guard} */", ""])


def _c_encode(columns: Sequence[Column], name: str) -> list[str]:
    """The function that makes inputs of a row of a table."""
    numbers = [column for column in columns if column.categories is None]
    texts = [column for column in columns if column.categories is not None]
    arrays, work = [], []
    for kind, own in (("number", numbers), ("text", texts)):
        names = [_c_string(column.name) for column in own] or ["0"]  # an array of none is no C
        arrays.append(f"enum {{ {name}_{kind}s = {len(own)} }};")
        arrays.append(_c_array(f"const char *const {name}_{kind}_names[{len(names)}]", names))
    arrays.append(_c_array(f"const char *const {name}_missing[{len(MISSING)}]", map(_c_string, MISSING)))
    place = 0
    for column in columns:
        if column.categories is None:
            value, fill = f"numbers[{numbers.index(column)}]", _number(column.fill or 0.0)
            work.append(f"    x[{place}] = isnan({value}) ? {fill} : {value};")
            missing = f"isnan({value})"
        else:
            number, known = texts.index(column), spellings(column.categories)
            value, count = f"texts[{number}]", len(known)
            arrays.append(_c_array(f"const char *const {name}_categories{number}[{count}]", map(_c_string, known)))
            arrays.append(_c_table(f"{name}_places{number}", place + np.array([*known.values()])))
            work += [
                f"    for (int c = 0; c < {len(column.categories)}; c++)",
                f"        x[{place} + c] = 0.0;",
                f"    for (int c = 0; c < {count}; c++)",
                f"        if ({value} && !strcmp({value}, {name}_categories{number}[c]))",
                f"            x[{name}_places{number}[c]] = 1.0;",
            ]
            missing = f"{name}_is_missing({value})"
        if column.fill is None:
            work.append(f"    complete &= !{missing};")
        place += len(column.encoded)
    return [
        *arrays,
        "",
        f"static inline int {name}_is_missing(const char *text)",
        "{",
        "    if (!text)",
        "        return 1;",
        f"    for (int i = 0; i < {len(MISSING)}; i++)",
        f"        if (!strcmp(text, {name}_missing[i]))",
        "            return 1;",
        "    return 0;",
        "}",
        "",
        f"/* The inputs x of a row of the table: its numbers (NaN: missing) in the order of {name}_number_names, its",
        f" * texts (UTF-8, no blanks around; NULL: missing) in that of {name}_text_names. A text that is no category",
        " * is none of them. Returns 0 where a value is missing that is not filled in: there is no prediction then. */",
        f"static inline int {name}_encode(const double *numbers, const char *const *texts, double x[{place}])",
        "{",
        "    int complete = 1;",
        "    (void)numbers, (void)texts;",
        *work,
        "    return complete;",
        "}",
    ]


def _c_decision(machine: _Machine, name: str, kernel: str) -> list[str]:
    (n, d), k = machine.points.shape, machine.coef.shape[1]
    scaled, lines = "x", []
    if machine.affine is not None:
        scaled = "scaled"
        lines = [
            f"    {_c_array(f'const double {part}[{d}]', map(_number, values))}"
            for part, values in zip(("centre", "scale", "offset"), machine.affine, strict=True)
        ]
        lines += [
            f"    double scaled[{d}];",
            f"    for (int c = 0; c < {d}; c++)",
            "        scaled[c] = (x[c] - centre[c]) * scale[c] + offset[c];",
        ]
    function, what = ("predict", "outputs") if machine.classes is None else ("decision_function", "decision values")
    return [
        f"/* The {what} of one row x. */",
        f"static inline void {name}_{function}(const double x[{d}], double f[{k}])",
        "{",
        *lines,
        f"    for (int o = 0; o < {k}; o++)",
        f"        f[o] = {name}_intercept[o];",
        f"    for (int j = 0; j < {n}; j++) {{",
        f"        const double value = {kernel}({scaled}, {name}_points[j], {name}_columns, {d});",
        f"        for (int o = 0; o < {k}; o++)",
        f"            f[o] += {name}_coefficients[j][o] * value;",
        "    }",
        "}",
    ]


def _c_predict(name: str, k: int) -> list[str]:
    choose = ["    return f[0] > 0.0;"]
    if k > 1:
        choose = [
            "    int best = 0;",
            f"    for (int o = 1; o < {k}; o++)",
            "        if (f[o] > f[best])",
            "            best = o;",
            "    return best;",
        ]
    return [
        f"/* The number of the class of one row x in {name}_classes. */",
        f"static inline int {name}_predict(const double x[{name}_inputs])",
        "{",
        f"    double f[{k}];",
        f"    {name}_decision_function(x, f);",
        *choose,
        "}",
    ]


def _c_probabilities(machine: _Machine, name: str) -> list[str]:
    assert machine.slopes is not None
    k = machine.coef.shape[1]
    slopes = [_number(slope) for slope in machine.slopes]
    if k == 1:
        body = [
            f"    const double z = f[0] * (f[0] > 0.0 ? {slopes[-1]} : {slopes[0]});",
            "    p[0] = 1.0 / (1.0 + exp(z));",
            "    p[1] = 1.0 / (1.0 + exp(-z));",
        ]
    else:
        body = [
            "    double largest = f[0], sum = 0.0;",
            f"    for (int o = 1; o < {k}; o++)",
            "        largest = f[o] > largest ? f[o] : largest;",
            f"    for (int o = 0; o < {k}; o++)",
            f"        sum += p[o] = exp({slopes[0]} * (f[o] - largest));",
            f"    for (int o = 0; o < {k}; o++)",
            "        p[o] /= sum;",
        ]
    return [
        f"/* The probability of each class for one row x, in the order of {name}_classes. */",
        f"static inline void {name}_predict_proba(const double x[{name}_inputs], double p[{max(k, 2)}])",
        "{",
        f"    double f[{k}];",
        f"    {name}_decision_function(x, f);",
        *body,
        "}",
    ]


def _c_array(declaration: str, values: Any) -> str:
    return f"static {declaration} = {{{', '.join(values)}}};".replace(", \n", ",\n")


def _c_table(name: str, values: np.ndarray) -> str:
    """A table of any number of dimensions."""

    def braces(part: np.ndarray) -> str:
        if part.ndim == 0:
            return repr(part.item())
        return f"{{{', '.join(map(braces, part))}}}"

    kind = "int" if values.dtype.kind == "i" else "double"
    return f"static const {kind} {name}{''.join(f'[{size}]' for size in values.shape)} = {braces(values)};"


def _c_row(values: np.ndarray) -> str:
    return f"\n    {{{', '.join(map(_number, values))}}}"


def _number(value: Any) -> str:
    return repr(float(value))


def _c_labels(labels: list[Any]) -> tuple[str, list[str]]:
    if isinstance(labels[0], str):
        return "const char *const ", [_c_string(label) for label in labels]
    if isinstance(labels[0], float):
        return "const double ", [_number(label) for label in labels]
    return "const long long ", [str(int(label)) for label in labels]


def _c_string(text: str) -> str:
    """A C string: bytes of UTF-8, all but plain ones as octal numbers (no trigraphs, no end of comment)."""
    plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-.,:;+=()<>[]"
    return '"' + "".join(chr(b) if chr(b) in plain else f"\\{b:03o}" for b in text.encode()) + '"'


def to_python(model: Any) -> str:
    """The machine as a Python file that imports only math.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted; also a Pipeline that only scales columns before it.

    Returns
    -------
    str
        The file: ``predict(x)`` for one row x (a list of numbers), for classification also ``decision_function(x)``
        and ``predict_proba(x)``. Results have the shape that one row of the model's results has. Of a model of the
        command line x is a row of its table, a dict by column or a list in the order of ``INPUTS``, of numbers or
        texts (``csv.DictReader`` will do); a row without a value that is not filled in gets None.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, export, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.FeatureVectors(9)]).fit(X, y)
    >>> module = {}
    >>> exec(export.to_python(model), module)
    >>> bool(abs(module["predict"]([15.0]) - model.predict([[15.0]])[0]) < 1e-9)
    True
    """
    machine = _machine(model)
    (_, d), k = machine.points.shape, machine.coef.shape[1]
    functions = _kernel_functions(machine.kernel, d, PYTHON_BODIES, "")
    text = [f'"""{machine.title}: {machine.size}."""', "", "import math", ""]
    if machine.inputs:
        text.append(f"INPUTS = [{', '.join(map(ascii, machine.inputs))}]")
    if machine.classes is not None:
        text.append(f"CLASSES = [{', '.join(map(ascii, machine.classes))}]")
    text += [
        f"INTERCEPT = {machine.intercept.tolist()!r}",
        "# support vectors and their coefficients",
        "POINTS = [",
        *(f"    ({z.tolist()!r}, {a.tolist()!r})," for z, a in zip(machine.points, machine.coef, strict=True)),
        "]",
    ]
    if _splines(functions):
        text += ["", "", PYTHON_SPLINE]
    for function, tables, body in functions:
        text += ["", *(f"{function}_{table} = {values.tolist()!r}" for table, values in tables.items())]
        text += ["", "", f"def {function}(x, z, columns):", body]
    if machine.columns is not None:
        text += _python_encode(machine.columns)
    text += ["", "", "def outputs(x):"]
    if machine.columns is not None:
        text += ["    x = encode(x)", "    if x is None:", "        return None"]
    if machine.affine is not None:
        for part, values in zip(("centre", "scale", "offset"), machine.affine, strict=True):
            text.append(f"    {part} = {values.tolist()!r}")
        text.append("    x = [(value - c) * s + o for value, c, s, o in zip(x, centre, scale, offset)]")
    text += [
        f"    k = [({functions[-1][0]}(x, z, range({d})), a) for z, a in POINTS]",
        f"    return [INTERCEPT[o] + sum(value * a[o] for value, a in k) for o in range({k})]",
        *_python_methods(machine),
    ]
    return "\n".join([*text, ""])


def _python_encode(columns: Sequence[Column]) -> list[str]:
    """The function that makes inputs of a row of a table."""
    table = [(c.name, None if c.categories is None else spellings(c.categories), c.fill) for c in columns]
    return [
        "",
        "",
        "# name, places of the categories, and what fills in a missing value; None: numbers, and nothing",
        "COLUMNS = [",
        *(f"    ({name!a}, {places!a}, {fill!r})," for name, places, fill in table),
        "]",
        f"MISSING = {list(MISSING)!a}",
        "",
        "",
        "def is_missing(value):",
        "    if isinstance(value, str):",
        "        return value.strip() in MISSING",
        "    return value is None or value != value",
        "",
        "",
        "def as_category(value):",
        "    if isinstance(value, str):",
        "        return value.strip()",
        '    if type(value).__name__ in ("bool", "bool_"):  # of NumPy, too',
        '        return "true" if value else "false"',
        "    return str(int(value)) if value == int(value) else repr(float(value))",
        "",
        "",
        "def encode(row):",
        '    """The inputs of a row of the table; None where a value is missing that is not filled in."""',
        "    x = []",
        "    for number, (name, places, fill) in enumerate(COLUMNS):",
        '        value = row[name] if hasattr(row, "keys") else row[number]',
        "        missing = is_missing(value)",
        "        if missing and fill is None:",
        "            return None",
        "        if places is None:",
        "            x.append(fill if missing else float(value))",
        "        else:",
        "            own = None if missing else places.get(as_category(value))",
        "            x += [float(own == place) for place in range(1 + max(places.values()))]",
        "    return x",
    ]


def _python_methods(machine: _Machine) -> list[str]:
    single = machine.single
    value = ["    f = outputs(x)", "    return f and f[0]"] if single else ["    return outputs(x)"]
    nothing = ["    if f is None:", "        return None"] if machine.refuses else []
    if single and not nothing:
        value = ["    return outputs(x)[0]"]
    if machine.classes is None:
        return ["", "", "def predict(x):", *value]
    choice = "CLASSES[int(f > 0)]" if single else "CLASSES[f.index(max(f))]"
    text = ["", "", "def decision_function(x):", *value]
    text += ["", "", "def predict(x):", "    f = decision_function(x)", *nothing, f"    return {choice}"]
    if machine.slopes is None:
        return text
    slopes = machine.slopes.tolist()
    text += ["", "", "def predict_proba(x):", "    f = decision_function(x)", *nothing]
    if single:
        text += [f"    z = [0.0, f * ({slopes[-1]!r} if f > 0 else {slopes[0]!r})]"]
    else:
        text += [f"    z = [{slopes[0]!r} * value for value in f]"]
    return [
        *text,
        "    p = [math.exp(value - max(z)) for value in z]",
        "    return [value / sum(p) for value in p]",
    ]
