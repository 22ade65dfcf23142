"""Export to an ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from .. import __version__
from ..coding import SURE, TINY, pairs_of
from ..estimators import LSSVC, LSSVR
from ..kernels import RBF, Additive, Linear, Matern, Product, Spline, Sum, spline_kernel
from .model import Input, Member, ModelContent, column_widths, component_places, read_model, spline_tables

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
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise ImportError("to_onnx requires the package onnx: pip install 'lssvm[onnx]'.") from None
    graph = _Graph()
    X = _encoded(graph, content)
    parts = [_outputs(graph, X, content.tables[member.table], member) for member in content.members]
    weights = [member.weight for member in content.members]
    known = _known(graph, X, parts)
    nothing = graph.constant(np.array(np.nan))
    if content.classes is None:
        graph.output("prediction", graph.add("Where", known, graph.average(parts, weights), nothing))
        return graph.build(content)
    mixed = [_probabilities(graph, content, member, f) for member, f in zip(content.members, parts, strict=True)]
    p = graph.average(mixed, weights)
    f = _twice_less_one(graph, content, p) if content.mixes else parts[0]
    text = isinstance(content.classes[0], str)
    labels = graph.constant(content.classes if text else np.array(content.classes))
    label = graph.add("Gather", labels, _winner(graph, content, f))
    flat = graph.add("Squeeze", known, graph.constant(np.array([1])))
    if isinstance(content.classes[0], bool):  # runtimes have no Where for booleans
        graph.output("label", graph.add("And", flat, label))
    else:
        no_label = {str: [""], int: np.array(np.iinfo(np.int64).min), float: np.array(np.nan)}
        none = graph.constant(no_label[type(content.classes[0])])
        graph.output("label", graph.add("Where", flat, label, none))
    graph.output("decision_function", graph.add("Where", known, f, nothing))
    graph.output("probabilities", graph.add("Where", known, p, nothing))
    return graph.build(content)


def _outputs(graph: _Graph, X: str, points: np.ndarray, member: Member) -> str:
    """The outputs of a member, (rows, outputs)."""
    K = _KernelMatrices(graph, X, points).kernel(member.kernel, range(points.shape[1]))
    f = graph.add("MatMul", K, graph.constant(member.coef))
    return str(graph.add("Add", f, graph.constant(member.intercept[None, :])))


def _twice_less_one(graph: _Graph, content: ModelContent, p: str) -> str:
    """The decision values 2 p - 1, for two classes only of the second."""
    if content.single:
        p = graph.add("Gather", p, graph.constant(np.array([1])), axis=1)
    return str(graph.add("Sub", graph.add("Mul", p, graph.constant(np.array(2.0))), graph.constant(np.array(1.0))))


def _known(graph: _Graph, X: str, outputs: Sequence[str]) -> str:
    """Which rows have a prediction, (rows, 1): those with finite inputs and outputs."""
    values = graph.add("Concat", X, *outputs, axis=1)
    zeros = graph.add("Sub", values, values)  # NaN if a value is NaN or infinite
    total = graph.add("ReduceSum", zeros, graph.constant(np.array([1])), keepdims=1)
    return str(graph.add("Not", graph.add("IsNaN", total)))


def _encoded(graph: _Graph, content: ModelContent) -> str:
    """The encoded rows, (rows, encoded columns)."""
    if content.is_matrix:
        X = graph.input("X", DOUBLE, content.columns)
        if content.affine is not None:
            for operator, values in zip(("Sub", "Mul", "Add"), content.affine, strict=True):
                X = graph.add(operator, X, graph.constant(values[None, :]))
        cells = graph.split(X, content.columns)
    else:
        kinds = [STRING if column.is_text else DOUBLE for column in content.inputs]
        cells = [graph.input(str(own.name), kind, 1) for own, kind in zip(content.inputs, kinds, strict=True)]
    parts = []
    for column, cell in zip(content.inputs, cells, strict=True):
        rows = graph.constant(column.rows)
        if column.values:
            code = graph.add("Squeeze", _code(graph, column, cell), graph.constant(np.array([1])))
            parts.append(graph.add("Gather", rows, code))
            continue
        number = graph.constant(np.eye(1, column.rows.shape[1]))
        parts.append(graph.add("Where", graph.add("IsNaN", cell), rows, graph.add("Mul", cell, number)))
    return str(graph.add("Concat", *parts, axis=1))


def _code(graph: _Graph, column: Input, cell: str) -> str:
    """The row of a cell in `Input.rows`, (rows, 1)."""
    unknown, missing = len(column.values), len(column.values) + 1
    if column.is_text:
        codes = {"": missing} | {value: code for code, value in enumerate(column.values)}
        options: dict[str, Any] = {"keys_strings": list(codes), "values_int64s": list(codes.values())}
        return str(graph.add("LabelEncoder", cell, domain="ai.onnx.ml", default_int64=unknown, **options))
    places = graph.constant(np.arange(unknown)[None, :])
    equal = graph.add("Equal", cell, graph.constant(column.numbers[None, :]))
    code = graph.add("Where", equal, places, graph.constant(np.array(unknown)))
    code = graph.add("ReduceMin", code, graph.constant(np.array([1])), keepdims=1)
    return str(graph.add("Where", graph.add("IsNaN", cell), graph.constant(np.array(missing)), code))


class _Graph:
    """Nodes, constants, inputs and outputs of an ONNX graph.

    Equal nodes and constants are stored once: the members of a stack share support vectors and differences.
    """

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}  # the names of the results of nodes and of constants
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[str] = []

    def input(self, name: str, kind: int, columns: int) -> str:
        """The name of a new input; a name that the graph itself uses gets a suffix."""
        from onnx import helper

        if name.startswith("lssvm:"):
            name += "_input"
        while name in OUTPUTS or name in [own.name for own in self.inputs]:
            name += "_input"
        self.inputs.append(helper.make_tensor_value_info(name, kind, [None, columns]))
        return name

    def add(self, operator: str, *inputs: str, outputs: int = 0, **attributes: Any) -> Any:
        """The name of the result of a new node, or the names of several results."""
        from onnx import helper

        key = (operator, inputs, outputs, repr(attributes))
        if key not in self.known:
            names = [f"lssvm:{operator.lower()}_{len(self.nodes)}_{number}" for number in range(max(outputs, 1))]
            self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
            self.known[key] = names if outputs else names[0]
        return self.known[key]

    def split(self, X: str, columns: int) -> Any:
        """The names of the columns of a matrix, (rows, 1) each."""
        return self.add("Split", X, outputs=columns, axis=1, num_outputs=columns)

    def average(self, parts: Sequence[str], weights: Sequence[float]) -> str:
        """The name of a weighted sum."""
        terms = [self.add("Mul", part, self.constant(np.array(w))) for part, w in zip(parts, weights, strict=True)]
        return self.sum(terms)

    def sum(self, terms: Sequence[str]) -> str:
        """The name of a sum."""
        total = terms[0]
        for term in terms[1:]:
            total = self.add("Add", total, term)
        return total

    def constant(self, values: Any) -> str:
        """The name of a new constant: an array, or a list of texts."""
        from onnx import helper, numpy_helper

        key = str(values) if isinstance(values, list) else (values.shape, values.dtype.str, values.tobytes())
        if key in self.known:
            return str(self.known[key])
        name = self.known[key] = f"lssvm:constant_{len(self.constants)}"
        if isinstance(values, list):
            tensor = helper.make_tensor(name, STRING, [len(values)], [text.encode() for text in values])
        else:
            tensor = numpy_helper.from_array(np.ascontiguousarray(values), name)
        self.constants.append(tensor)
        return name

    def output(self, name: str, value: str) -> None:
        """Add an output to the graph."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(name)

    def build(self, content: ModelContent) -> Any:
        """The model, checked."""
        import onnx
        from onnx import helper

        k = content.decisions
        classes = content.classes or []
        types = {str: STRING, bool: BOOL, int: INT64, float: DOUBLE}
        kinds = {
            "prediction": (DOUBLE, [None, k]),
            "label": (types[type(classes[0])] if classes else DOUBLE, [None]),
            "decision_function": (DOUBLE, [None, k]),
            "probabilities": (DOUBLE, [None, len(classes)]),
        }
        graph = helper.make_graph(
            self.nodes,
            "lssvm",
            self.inputs,
            [helper.make_tensor_value_info(name, *kinds[name]) for name in self.outputs],
            self.constants,
            doc_string=f"{content.title}: {content.size}. {content.kernels}",
        )
        opset = [helper.make_opsetid("", OPSET)]
        if any(node.domain for node in self.nodes):
            opset.append(helper.make_opsetid("ai.onnx.ml", 2))
        proto = helper.make_model(graph, opset_imports=opset, producer_name="lssvm", producer_version=__version__)
        proto.ir_version = 8  # the version of opset 18, which older runtimes can read
        onnx.checker.check_model(proto, full_check=True)
        return proto


class _KernelMatrices:
    """Kernel matrices between the input rows and the support vectors, over some of the columns."""

    def __init__(self, graph: _Graph, X: str, points: np.ndarray) -> None:
        self.graph, self.X, self.points = graph, X, points

    def column(self, c: int) -> str:
        """Column c of the rows, (rows, 1)."""
        return str(self.graph.split(self.X, self.points.shape[1])[c])

    def kernel(self, kernel: Any, columns: Sequence[int]) -> str:
        """The matrix of a kernel, (rows, support vectors)."""
        graph = self.graph
        if isinstance(kernel, (Sum, Product)):
            parts = [self.kernel(part, columns) for part in kernel.parts]
            return graph.add("Add" if isinstance(kernel, Sum) else "Mul", *parts)
        if isinstance(kernel, Additive):
            places = component_places(kernel)
            groups = [[c] for c in columns] if places is None else [[columns[p] for p in group] for group in places]
            return self.graph.sum([self.kernel(kernel.kernel, group) for group in groups] or [self._zeros()])
        if isinstance(kernel, Spline):
            return self.graph.sum([self._spline(kernel, c) for c in columns])
        if isinstance(kernel, (RBF, Matern)):
            return self._stationary(kernel, columns)
        products = self._products(columns)
        if isinstance(kernel, Linear):
            return products
        shifted = graph.add("Add", products, graph.constant(np.array(float(kernel.coef0))))
        return graph.add("Pow", shifted, graph.constant(np.array(float(kernel.degree))))

    def _zeros(self) -> str:
        return self.graph.add("Mul", self.column(0), self.graph.constant(np.zeros((1, len(self.points)))))

    def _products(self, columns: Sequence[int]) -> str:
        if columns == range(self.points.shape[1]):
            return self.graph.add("MatMul", self.X, self.graph.constant(self.points.T))
        return self.graph.sum(
            [self.graph.add("Mul", self.column(c), self.graph.constant(self.points[None, :, c])) for c in columns]
        )

    def _spline(self, kernel: Spline, c: int) -> str:
        """The products of the features of a column (`Spline.features`) with those of the support vectors."""
        graph = self.graph
        table = spline_tables(kernel, self.points.shape[1])
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
        features = spline_kernel((self.points[None, :, c] - table["starts"][c]) / table["spans"][c], v)[0] @ factors
        return graph.add("MatMul", graph.add("MatMul", K, graph.constant(factors)), graph.constant(features.T))

    def _stationary(self, kernel: RBF | Matern, columns: Sequence[int]) -> str:
        """Squared distances, column by column: exact near the support vectors, with no tensor of three dimensions."""
        graph, terms = self.graph, []
        widths = column_widths(kernel, self.points.shape[1])
        for c in columns:
            difference = graph.add("Sub", self.column(c), graph.constant(self.points[None, :, c]))
            scaled = graph.add("Div", difference, graph.constant(np.array(widths[c])))
            terms.append(graph.add("Mul", scaled, scaled))
        D = self.graph.sum(terms)
        if isinstance(kernel, RBF):
            return graph.add("Exp", graph.add("Neg", D))
        D = graph.add("Min", D, graph.constant(np.array(1e300)))  # infinity times 0 is not 0
        r = graph.add("Sqrt", graph.add("Mul", D, graph.constant(np.array(2.0 * kernel.nu))))
        decay = graph.add("Exp", graph.add("Neg", r))
        if kernel.nu == 0.5:
            return decay
        factor = graph.add("Add", r, graph.constant(np.array(1.0)))
        if kernel.nu == 2.5:
            third = graph.add("Div", graph.add("Mul", r, r), graph.constant(np.array(3.0)))
            factor = graph.add("Add", factor, third)
        return graph.add("Mul", decay, factor)


def _winner(graph: _Graph, content: ModelContent, f: str) -> str:
    """The index of the class, from the decision values."""
    if not content.single:
        return graph.add("ArgMax", f, axis=1, keepdims=0)
    positive = graph.add("Greater", f, graph.constant(np.array(0.0)))
    flat = graph.add("Squeeze", positive, graph.constant(np.array([1])))
    return graph.add("Cast", flat, to=INT64)


def _probabilities(graph: _Graph, content: ModelContent, member: Member, f: str) -> str:
    """The class probabilities of a member, calibrated by its slopes."""
    if member.coupled:
        return _coupled(graph, content.decisions, member.slopes[0], f)
    slopes = [graph.constant(np.array(slope)) for slope in member.slopes]
    if not content.single:
        return str(graph.add("Softmax", graph.add("Mul", f, slopes[0]), axis=1))
    positive = graph.add("Greater", f, graph.constant(np.array(0.0)))
    logit = graph.add("Mul", f, graph.add("Where", positive, slopes[1], slopes[0]))
    zero = graph.add("Mul", logit, graph.constant(np.array(0.0)))
    return str(graph.add("Softmax", graph.add("Concat", zero, logit, axis=1), axis=1))


def _coupled(graph: _Graph, k: int, slope: float, f: str) -> str:
    """The probabilities of the classes from the outputs of their pairs (`coding.couple`), by Gauss-Jordan elimination.

    All rows are eliminated at once: Q and the right-hand side 1 are a tensor (rows, k, k + 1).
    """

    def number(value: float) -> str:
        return graph.constant(np.array(value))

    pairs = pairs_of(k)
    both, first, second = np.zeros((3, len(pairs), k, k + 1))
    for pair, (a, b) in enumerate(pairs):
        both[pair, a, b] = both[pair, b, a] = -1.0
        first[pair, a, a] = second[pair, b, b] = 1.0
    start = np.hstack([TINY * np.eye(k), np.ones((k, 1))])
    z = graph.add("Clip", graph.add("Mul", f, number(slope)), number(-50.0), number(50.0))
    later = graph.add("Div", number(1.0), graph.add("Add", graph.add("Exp", graph.add("Neg", z)), number(1.0)))
    later = graph.add("Clip", later, number(SURE), number(1.0 - SURE))
    earlier = graph.add("Sub", number(1.0), later)
    terms = ((later, earlier, both), (later, later, first), (earlier, earlier, second))
    Q = graph.constant(start.reshape(1, -1))
    for left, right, places in terms:
        product = graph.add("MatMul", graph.add("Mul", left, right), graph.constant(places.reshape(len(pairs), -1)))
        Q = graph.add("Add", Q, product)
    Q = graph.add("Reshape", Q, graph.constant(np.array([0, k, k + 1])))  # 0: as many rows as there are
    for a in range(k):
        place, own = graph.constant(np.array([a])), np.eye(k)[a][None, :, None]
        row = graph.add("Gather", Q, place, axis=1)
        row = graph.add("Div", row, graph.add("Gather", row, place, axis=2))
        others = graph.constant(1.0 - own)
        factors = graph.add("Mul", graph.add("Gather", Q, place, axis=2), others)
        factors = graph.add("Sub", graph.constant(own), factors)
        Q = graph.add("Add", graph.add("Mul", Q, others), graph.add("Mul", factors, row))
    p = graph.add("Gather", Q, graph.constant(np.array([k])), axis=2)
    p = graph.add("Max", graph.add("Squeeze", p, graph.constant(np.array([2]))), number(TINY))
    return graph.add("Div", p, graph.add("ReduceSum", p, graph.constant(np.array([1])), keepdims=1))
