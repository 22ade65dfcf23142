"""Export to an ONNX graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from .. import __version__, arrays
from ..coding import SURE, TINY, pairs_of
from ..estimators import LSSVC, LSSVR
from ..kernels import spline_kernel
from .model import Formula, Input, Member, ModelContent, read_model

if TYPE_CHECKING:
    import onnx

__all__ = ["to_onnx"]

OPSET = 18
INT64, STRING, BOOL, DOUBLE = 7, 8, 9, 11  # the values in onnx.TensorProto, which is imported lazily
OUTPUTS = ("prediction", "label", "decision_function", "probabilities")


def to_onnx(model: LSSVR | LSSVC | Pipeline) -> onnx.ModelProto:
    """Export a model to an ONNX graph of core operators in float64 (opset 18); requires ``pip install lssvm[onnx]``.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted; or a Pipeline that only scales columns before it.

    Returns
    -------
    onnx.ModelProto
        Input: ``X`` (rows, columns), where NaN is a missing cell. A model with categories has one input (rows, 1) per
        column that it uses instead, named after the column: numbers, with NaN for missing cells, and texts, empty if
        missing, which the operator LabelEncoder of ai.onnx.ml looks up.
        Outputs: for regression ``prediction`` (rows, outputs); for classification ``label`` (rows,),
        ``decision_function`` (rows, 1 or classes) and ``probabilities`` (rows, classes).
        Save it with ``onnx.save(graph, path)``.
        A graph cannot raise errors: a row with an infinite value, or whose outputs overflow, gets NaN and, depending on
        the type of the classes, the label "", the smallest integer, NaN or False.
    """
    content = read_model(model)
    graph = _Graph()
    X = _encoded(graph, content)
    parts = []
    for member in content.members:
        K = _kernel(member.kernel, X, content.tables[member.table], range(content.width))
        f = K @ member.coef + member.intercept[None, :]
        parts.append(f.exp() if content.log_link else f)
    weights = [member.weight for member in content.members]
    known, k = _known(graph, [X, *parts]), content.decisions
    if content.classes is None:
        pairs, scale = zip(content.members, parts, strict=True), content.members[-1].scale
        f = _average([part if own.scale is None else _means(part, own.scale) for own, part in pairs], weights)
        f = f if scale is None else _bounded(f, scale)
        graph.output("prediction", graph.add("Where", known, f, np.nan), DOUBLE, [k])
        return graph.build(content)
    mixed = [_probabilities(content, member, f) for member, f in zip(content.members, parts, strict=True)]
    p = _average(mixed, weights)
    f = parts[0]
    if content.mixes:
        f = (graph.add("Gather", p, np.array([1]), axis=1) if content.single else p) * 2.0 - 1.0
    kind = type(content.classes[0])
    label = graph.add("Gather", content.classes if kind is str else np.array(content.classes), _winner(content, f))
    flat = graph.add("Squeeze", known, np.array([1]))
    if kind is bool:  # runtimes have no Where for booleans
        label = graph.add("And", flat, label)
    else:
        no_label: Any = {str: [""], int: np.array(np.iinfo(np.int64).min), float: np.nan}[kind]
        label = graph.add("Where", flat, label, no_label)
    graph.output("label", label, {str: STRING, bool: BOOL, int: INT64, float: DOUBLE}[kind], [])
    graph.output("decision_function", graph.add("Where", known, f, np.nan), DOUBLE, [k])
    graph.output("probabilities", graph.add("Where", known, p, np.nan), DOUBLE, [len(content.classes)])
    return graph.build(content)


def _operator(name: str) -> Callable[..., _Value]:
    """Return a method that adds a node to the graph."""
    return lambda value, *others: value.graph.add(name, value, *others)


class _Value:
    """A result in a graph; arithmetic adds nodes. The other operand may be a number or an array."""

    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, graph: _Graph, name: str) -> None:
        self.graph, self.name = graph, name

    __add__, __sub__, __mul__ = _operator("Add"), _operator("Sub"), _operator("Mul")
    __truediv__, __matmul__, __neg__, exp = _operator("Div"), _operator("MatMul"), _operator("Neg"), _operator("Exp")

    def __rsub__(self, other: Any) -> _Value:
        return self.graph.add("Sub", other, self)

    def clip(self, low: float, high: float) -> _Value:
        return self.graph.add("Clip", self, low, high)

    def columns(self, count: int) -> list[_Value]:
        """Return the columns of a matrix, (rows, 1) each."""
        names = self.graph.node("Split", [self.name], count, axis=1, num_outputs=count)
        return [_Value(self.graph, name) for name in names]


class _Graph:
    """Nodes, constants, inputs and outputs of an ONNX graph.

    Equal nodes and constants are stored once: the members of a stack share support vectors and differences.
    """

    def __init__(self) -> None:
        self.helper = arrays.required("onnx.helper", "onnx", "to_onnx")
        self.known: dict[Any, Any] = {}  # the names of the results of nodes and of constants
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, kind: int, columns: int) -> _Value:
        """Return a new input; a name that the graph itself uses gets a suffix."""
        if name.startswith("lssvm:"):
            name += "_input"
        while name in OUTPUTS or name in [own.name for own in self.inputs]:
            name += "_input"
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, [None, columns]))
        return _Value(self, name)

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> _Value:
        """Return the result of a new node, from values, numbers, arrays or lists of texts."""
        names = [own.name if isinstance(own, _Value) else self.constant(own) for own in inputs]
        return _Value(self, self.node(operator, names, 1, **attributes)[0])

    def node(self, operator: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Return the names of the results of a new node."""
        key = (operator, *inputs, outputs, repr(attributes))
        if key not in self.known:
            self.known[key] = [f"lssvm:{operator.lower()}_{len(self.nodes)}_{number}" for number in range(outputs)]
            self.nodes.append(self.helper.make_node(operator, inputs, self.known[key], **attributes))
        return list(self.known[key])

    def constant(self, values: Any) -> str:
        """Return the name of a new constant: a number, an array, or a list of texts."""
        from onnx import numpy_helper

        if not isinstance(values, list):
            values = np.asarray(values)
        key = str(values) if isinstance(values, list) else (values.shape, values.dtype.str, values.tobytes())
        if key in self.known:
            return str(self.known[key])
        name = self.known[key] = f"lssvm:constant_{len(self.constants)}"
        if isinstance(values, list):
            tensor = self.helper.make_tensor(name, STRING, [len(values)], [text.encode() for text in values])
        else:
            tensor = numpy_helper.from_array(np.ascontiguousarray(values), name)
        self.constants.append(tensor)
        return name

    def output(self, name: str, value: _Value, kind: int, columns: Sequence[int]) -> None:
        """Add an output (rows, columns) to the graph."""
        self.nodes.append(self.helper.make_node("Identity", [value.name], [name]))
        self.outputs.append(self.helper.make_tensor_value_info(name, kind, [None, *columns]))

    def build(self, content: ModelContent) -> Any:
        """Return the model, checked."""
        import onnx

        helper, text = self.helper, content.title
        graph = helper.make_graph(self.nodes, "lssvm", self.inputs, self.outputs, self.constants, doc_string=text)
        opset = [helper.make_opsetid("", OPSET)]
        if any(node.domain for node in self.nodes):
            opset.append(helper.make_opsetid("ai.onnx.ml", 2))
        proto = helper.make_model(graph, opset_imports=opset, producer_name="lssvm", producer_version=__version__)
        proto.ir_version = 8  # the version of opset 18, which older runtimes can read
        onnx.checker.check_model(proto, full_check=True)
        return proto


def _encoded(graph: _Graph, content: ModelContent) -> _Value:
    """Return the encoded rows, (rows, encoded columns)."""
    if content.is_matrix:
        X = graph.input("X", DOUBLE, content.columns)
        if content.inputs[0].scaling is not None:
            centre, scale, offset = np.array([[column.scaling] for column in content.inputs]).T
            X = (X - centre) * scale + offset
        cells = X.columns(content.columns)
    else:
        kinds = [STRING if column.is_text else DOUBLE for column in content.inputs]
        cells = [graph.input(str(own.name), kind, 1) for own, kind in zip(content.inputs, kinds, strict=True)]
    parts = []
    for column, cell in zip(content.inputs, cells, strict=True):
        if column.values:
            parts.append(graph.add("Gather", column.rows, graph.add("Squeeze", _code(column, cell), np.array([1]))))
        else:
            number = _asinh((cell - column.origin) / column.unit) if column.unit else cell
            parts.append(graph.add("Where", graph.add("IsNaN", cell), column.rows, number * np.eye(1, column.width)))
    return graph.add("Concat", *parts, axis=1)


def _asinh(x: _Value) -> _Value:
    """asinh(x) by logarithms: onnxruntime has no Asinh in float64."""
    size = x.graph.add("Abs", x)
    return x.graph.add("Sign", x) * x.graph.add("Log", size + x.graph.add("Sqrt", size * size + 1.0))


def _code(column: Input, cell: _Value) -> _Value:
    """Return the row of a cell in `Input.rows`, (rows, 1)."""
    graph = cell.graph
    unknown, missing = len(column.values), len(column.values) + 1
    if column.is_text:
        codes = {"": missing} | {value: code for code, value in enumerate(column.values)}
        options: dict[str, Any] = {"keys_strings": list(codes), "values_int64s": list(codes.values())}
        return graph.add("LabelEncoder", cell, domain="ai.onnx.ml", default_int64=unknown, **options)
    equal = graph.add("Equal", cell, column.numbers[None, :])
    code = graph.add("Where", equal, np.arange(unknown)[None, :], np.array(unknown))
    code = graph.add("ReduceMin", code, np.array([1]), keepdims=1)
    return graph.add("Where", graph.add("IsNaN", cell), np.array(missing), code)


def _known(graph: _Graph, parts: Sequence[_Value]) -> _Value:
    """Which rows have a prediction, (rows, 1): those with finite inputs and outputs."""
    values = graph.add("Concat", *parts, axis=1)
    total = graph.add("ReduceSum", values - values, np.array([1]), keepdims=1)  # NaN if a value is NaN or infinite
    return graph.add("Not", graph.add("IsNaN", total))


def _sum(terms: Sequence[_Value]) -> _Value:
    first, *others = terms
    return sum(others, start=first)


def _average(parts: Sequence[_Value], weights: Sequence[float]) -> _Value:
    return _sum([part * weight for part, weight in zip(parts, weights, strict=True)])


def _bounded(y: _Value, scale: np.ndarray) -> _Value:
    return y.graph.add("Min", y.graph.add("Max", y, scale[:, 5]), scale[:, 6])


def _means(f: _Value, scale: np.ndarray) -> _Value:
    """Return the means of targets for outputs (rows, outputs) on another scale (`TargetScale.mean`)."""
    graph, (a, origin, unit, centre, spread, *_) = f.graph, scale.T
    z = (graph.add("Unsqueeze", f, np.array([1])) + scale.T[None, 7:]) * spread + centre
    logarithm = graph.add("Log", graph.add("Max", z * a + 1.0, TINY)) / np.where(a == 0.0, 1.0, a)
    y = graph.add("Min", graph.add("Where", a == 0.0, z, logarithm), 700.0).exp() * unit + origin
    return graph.add("ReduceSum", _bounded(y, scale), np.array([1]), keepdims=0) / float(scale.shape[1] - 7)


def _kernel(kernel: Formula, X: _Value, points: np.ndarray, columns: Sequence[int]) -> _Value:
    """The matrix of a kernel between the rows and the support vectors, (rows, support vectors), over some columns."""
    if kernel.kind in ("Sum", "Product"):
        first, second = (_kernel(part, X, points, columns) for part in kernel.parts)
        return first + second if kernel.kind == "Sum" else first * second

    def cells(c: int) -> _Value:
        return X.columns(points.shape[1])[c]

    if kernel.kind == "Nothing":
        return cells(0) * np.zeros((1, len(points)))
    if kernel.kind in ("Additive", "Groups"):
        groups = [[place] for place in range(len(columns))]
        if kernel.kind == "Groups":
            groups = [[place for place in group if place >= 0] for group in kernel.tables["groups"]]
        chosen = ([columns[place] for place in group] for group in groups)
        return _sum([_kernel(kernel.parts[0], X, points, group) for group in chosen])
    if kernel.kind == "Spline":
        return _sum([_spline(kernel, cells(c), points[:, c], c) for c in columns])
    if kernel.kind in ("RBF", "Matern"):
        # column by column: exact near the support vectors, with no tensor of three dimensions
        scaled = ((cells(c) - points[None, :, c]) / kernel.tables["widths"][c] for c in columns)
        D = _sum([value * value for value in scaled])
        if kernel.kind == "RBF":
            return (-D).exp()
        r = X.graph.add("Sqrt", X.graph.add("Min", D, 1e300) * kernel.constants["twice_nu"])  # infinity times 0 is NaN
        return (-r).exp() * (r * kernel.constants["a"] + r * r * kernel.constants["b"] + 1.0)
    chosen = np.bincount(columns, minlength=points.shape[1]) * points
    if kernel.kind == "Linear":
        return X @ (chosen / kernel.tables["widths"] / kernel.tables["widths"]).T
    products = X @ chosen.T
    return X.graph.add("Pow", products + kernel.constants["coef0"], float(kernel.constants["degree"]))


def _spline(kernel: Formula, cell: _Value, points: np.ndarray, c: int) -> _Value:
    """Return the products of the features of a column (`Spline.features`) with those of the support vectors."""
    start, span, knots, factors = (kernel.tables[name][c] for name in ("starts", "spans", "knots", "factors"))
    u, v = (cell - start) / span, knots[None, :]
    a = u.clip(0.0, 1.0)
    mean = a * a * (a * (a + -4.0) + 6.0) * (1 / 24) + cell.graph.add("Max", u + -1.0, 0.0) * (1 / 6)
    product, total = u * v, u + v
    low = cell.graph.add("Min", u, v).clip(0.0, 1.0)
    K = low * (product - low * (total * 0.5 - low * (1 / 3)))
    K = K - mean + (product - total * 0.5)
    K = K + (0.3 - v * v * (6.0 - 4.0 * v + v * v) / 24.0)  # knots lie in [0, 1]
    features = spline_kernel((points[None, :] - start) / span, v)[0] @ factors
    return K @ factors @ features.T


def _winner(content: ModelContent, f: _Value) -> _Value:
    """Return the index of the class, from the decision values."""
    if not content.single:
        return f.graph.add("ArgMax", f, axis=1, keepdims=0)
    flat = f.graph.add("Squeeze", f.graph.add("Greater", f, 0.0), np.array([1]))
    return f.graph.add("Cast", flat, to=INT64)


def _probabilities(content: ModelContent, member: Member, f: _Value) -> _Value:
    """Return the class probabilities of a member, calibrated by its slopes."""
    graph = f.graph
    if member.calibration == "couple":
        return _coupled(content.decisions, f * member.slopes[0])
    if not content.single:
        return graph.add("Softmax", f * member.slopes[0], axis=1)
    negative, positive = member.slopes
    logit = f * graph.add("Where", graph.add("Greater", f, 0.0), positive, negative)
    return graph.add("Softmax", graph.add("Concat", logit * 0.0, logit, axis=1), axis=1)


def _coupled(k: int, f: _Value) -> _Value:
    """The probabilities of the classes from the outputs of their pairs (`coding.couple`), by Gauss-Jordan elimination.

    All rows are eliminated at once: Q and the right-hand side 1 are a tensor (rows, k, k + 1).
    """
    graph = f.graph
    pairs = pairs_of(k)
    both, first, second = np.zeros((3, len(pairs), k, k + 1))
    for pair, (a, b) in enumerate(pairs):
        both[pair, a, b] = both[pair, b, a] = -1.0
        first[pair, a, a] = second[pair, b, b] = 1.0
    start = np.hstack([TINY * np.eye(k), np.ones((k, 1))])
    later = graph.add("Sigmoid", f.clip(-50.0, 50.0)).clip(SURE, 1.0 - SURE)
    earlier = 1.0 - later
    flat = [places.reshape(len(pairs), -1) for places in (both, first, second)]
    Q = later * earlier @ flat[0] + start.reshape(1, -1) + later * later @ flat[1] + earlier * earlier @ flat[2]
    Q = graph.add("Reshape", Q, np.array([0, k, k + 1]))  # 0: as many rows as there are
    for a in range(k):
        place, own = np.array([a]), np.eye(k)[a][None, :, None]
        row = graph.add("Gather", Q, place, axis=1)
        row = row / graph.add("Gather", row, place, axis=2)
        factors = own - graph.add("Gather", Q, place, axis=2) * (1.0 - own)
        Q = Q * (1.0 - own) + factors * row
    p = graph.add("Gather", Q, np.array([k]), axis=2)
    p = graph.add("Max", graph.add("Squeeze", p, np.array([2])), TINY)
    return p / graph.add("ReduceSum", p, np.array([1]), keepdims=1)
