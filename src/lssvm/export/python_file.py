"""Export to a Python file without dependencies."""

from __future__ import annotations

from collections.abc import Sequence

from sklearn.pipeline import Pipeline

from ..coding import SURE, TINY
from ..estimators import LSSVC, LSSVR
from ..tables import MISSING, Column, spellings
from .kernel_functions import kernel_functions, uses_splines
from .model import ModelContent, read_model

__all__ = ["to_python"]

# Bodies of the kernel functions, by type of kernel: see `kernel_functions`
BODIES = {
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
# The cubic spline kernel of two positions, in units of the knots' span (`kernels.Spline`)
SPLINE = """def spline_mean(u):
    a = min(max(u, 0.0), 1.0)
    return a * a * (6.0 - 4.0 * a + a * a) / 24.0 + max(u - 1.0, 0.0) / 6.0


def spline(u, v):
    a = min(max(min(u, v), 0.0), 1.0)
    integral = a * (u * v - a * ((u + v) / 2.0 - a / 3.0))
    return integral - spline_mean(u) - spline_mean(v) + 0.05 + u * v - 0.5 * (u + v) + 0.25"""

# The probabilities of the classes from the outputs of their pairs (`coding.couple`), by Gauss-Jordan elimination
COUPLE = """def couple(f):
    k = len(CLASSES)
    q = [[TINY * (a == b) for b in range(k)] + [1.0] for a in range(k)]
    values = iter(f)
    for a in range(k):
        for b in range(a + 1, k):
            z = min(max(SLOPE * next(values), -50.0), 50.0)
            later = min(max(1.0 / (1.0 + math.exp(-z)), SURE), 1.0 - SURE)
            q[a][b] = q[b][a] = -later * (1.0 - later)
            q[a][a] += later**2
            q[b][b] += (1.0 - later) ** 2
    for a in range(k):
        q[a] = [value / q[a][a] for value in q[a]]
        for b in range(k):
            if b != a:
                factor = q[b][a]
                q[b] = [own - factor * value for own, value in zip(q[b], q[a])]
    p = [max(row[k], TINY) for row in q]
    return [value / sum(p) for value in p]"""


def to_python(model: LSSVR | LSSVC | Pipeline) -> str:
    """Export a model to a Python file that imports only `math`.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted; or a Pipeline that only scales columns before it.

    Returns
    -------
    str
        The source code. It defines ``predict(x)`` for one row x (a list of numbers) and, for classification, also
        ``decision_function(x)`` and ``predict_proba(x)``. A result has the shape of one row of the model's results.
        For a model fitted by the command line, x is a row of its table: a dict keyed by column, such as a row of
        ``csv.DictReader``, or a list in the order of ``INPUTS``, of numbers or texts. If a value is missing and is not
        filled in, the result is None. As in the model, NaN or infinite values, too few or too many values, and results
        that overflow raise ValueError.

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
    content = read_model(model)
    functions = kernel_functions(content.kernel, content.points.shape[1], BODIES, "")
    text = [f'"""{content.title}: {content.size}."""', "", "import math", ""]
    if content.inputs:
        text.append(f"INPUTS = [{', '.join(map(ascii, content.inputs))}]")
    if content.classes is not None:
        text.append(f"CLASSES = [{', '.join(map(ascii, content.classes))}]")
    text += [
        f"INTERCEPT = {content.intercept.tolist()!r}",
        "# support vectors and their coefficients",
        "POINTS = [",
        *(f"    ({z.tolist()!r}, {a.tolist()!r})," for z, a in zip(content.points, content.coef, strict=True)),
        "]",
    ]
    if uses_splines(functions):
        text += ["", "", SPLINE]
    for function, tables, body in functions:
        text += ["", *(f"{function}_{table} = {values.tolist()!r}" for table, values in tables.items())]
        text += ["", "", f"def {function}(x, z, columns):", body]
    if content.columns is not None:
        text += _encode(content.columns)
    else:
        text += _checked(content)
    text += [*_outputs(content, functions[-1][0]), *_methods(content)]
    return "\n".join([*text, ""])


def _encode(columns: Sequence[Column]) -> list[str]:
    """The function that turns a row of the table into inputs."""
    table = [(c.name, None if c.categories is None else spellings(c.categories), c.fill) for c in columns]
    return [
        "",
        "",
        "# name, positions of the categories (None: a number), and the value that replaces a missing one (None: none)",
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
        '    if type(value).__name__ in ("bool", "bool_"):  # also of NumPy',
        '        return "true" if value else "false"',
        "    whole = isinstance(value, int) or math.isfinite(value) and value == int(value)",
        "    return str(int(value)) if whole else repr(float(value))",
        "",
        "",
        "def as_number(name, value):",
        "    try:",
        "        number = float(value)",
        "    except ValueError:",
        "        number = math.nan",
        "    except OverflowError:  # an integer larger than any float",
        "        value = number = math.inf",
        "    if not math.isfinite(number):",
        '        raise ValueError(f"Column {name!r} holds {value!r}: give a finite number, or None if it is missing.")',
        "    return number",
        "",
        "",
        "def encode(row):",
        '    """The inputs of a row of the table; None if a value is missing and is not filled in."""',
        '    if not hasattr(row, "keys") and len(row) != len(COLUMNS):',
        '        raise ValueError(f"The row has {len(row)} values, but the model takes {len(COLUMNS)}: {INPUTS}.")',
        '    if hasattr(row, "keys") and None in row.keys():  # how csv.DictReader returns surplus cells',
        '        raise ValueError(f"The row has more values than the header: {row[None]!r}.")',
        "    x = []",
        "    for number, (name, places, fill) in enumerate(COLUMNS):",
        '        value = row[name] if hasattr(row, "keys") else row[number]',
        "        missing = is_missing(value)",
        "        if missing and fill is None:",
        "            return None",
        "        if places is None:",
        "            x.append(fill if missing else as_number(name, value))",
        "        else:",
        "            own = None if missing else places.get(as_category(value))",
        "            x += [float(own == place) for place in range(1 + max(places.values()))]",
        "    return x",
    ]


def _checked(content: ModelContent) -> list[str]:
    """The function that rejects the rows that the model rejects."""
    d = content.points.shape[1]
    name = "INPUTS[c]" if content.inputs else "c"
    return [
        "",
        "",
        "def checked(x):",
        f"    if len(x) != {d}:",
        f'        raise ValueError(f"The row has {{len(x)}} values, but the model takes {d}.")',
        "    for c, value in enumerate(x):",
        "        try:",
        "            finite = math.isfinite(value)",
        "        except OverflowError:  # an integer larger than any float",
        "            finite, value = False, math.inf",
        "        if not finite:",
        f'            raise ValueError(f"Column {{{name}!r}} is {{value}}: give a finite number.")',
        "    return [float(value) for value in x]",
    ]


def _outputs(content: ModelContent, kernel: str) -> list[str]:
    """The function that computes all outputs."""
    d, k = content.points.shape[1], content.coef.shape[1]
    text = ["", "", "def outputs(x):"]
    if content.columns is None:
        text += ["    x = checked(x)"]
    else:
        text += ["    x = encode(x)", "    if x is None:", "        return None"]
    if content.affine is not None:
        for part, values in zip(("centre", "scale", "offset"), content.affine, strict=True):
            text.append(f"    {part} = {values.tolist()!r}")
        text.append("    x = [(value - c) * s + o for value, c, s, o in zip(x, centre, scale, offset)]")
    return [
        *text,
        "    try:",
        f"        k = [({kernel}(x, z, range({d})), a) for z, a in POINTS]",
        "    except OverflowError:  # raised by powers; products become infinite",
        "        k = [(math.inf, a) for _, a in POINTS]",
        f"    f = [INTERCEPT[o] + sum(value * a[o] for value, a in k) for o in range({k})]",
        "    if not all(map(math.isfinite, f)):",
        '        raise ValueError("The result overflows: the values of the row are too large for the model.")',
        "    return f",
    ]


def _methods(content: ModelContent) -> list[str]:
    """The functions named after the methods of the model."""
    if content.coupled:
        return _coupled_methods(content)
    single = content.single
    value = ["    f = outputs(x)", "    return f and f[0]"] if single else ["    return outputs(x)"]
    nothing = ["    if f is None:", "        return None"] if content.refuses else []
    if single and not nothing:
        value = ["    return outputs(x)[0]"]
    if content.classes is None:
        return ["", "", "def predict(x):", *value]
    choice = "CLASSES[int(f > 0)]" if single else "CLASSES[f.index(max(f))]"
    text = ["", "", "def decision_function(x):", *value]
    text += ["", "", "def predict(x):", "    f = decision_function(x)", *nothing, f"    return {choice}"]
    if content.slopes is None:
        return text
    slopes = content.slopes.tolist()
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


def _coupled_methods(content: ModelContent) -> list[str]:
    """The functions of a model of pairs of classes."""
    assert content.slopes is not None
    constants = {"SLOPE": float(content.slopes[0]), "SURE": SURE, "TINY": TINY}
    couple = COUPLE
    for name, value in constants.items():
        couple = couple.replace(name, repr(value))
    p = ["    p = predict_proba(x)", *(["    if p is None:", "        return None"] if content.refuses else [])]
    nothing = ["    if f is None:", "        return None"] if content.refuses else []
    return [
        "",
        "",
        couple,
        *("", "", "def predict_proba(x):", "    f = outputs(x)", *nothing, "    return couple(f)"),
        *("", "", "def decision_function(x):", *p, "    return [2.0 * value - 1.0 for value in p]"),
        *("", "", "def predict(x):", *p, "    return CLASSES[p.index(max(p))]"),
    ]
