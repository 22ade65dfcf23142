"""Export to a Python file without dependencies."""

from __future__ import annotations

from collections.abc import Sequence

from sklearn.pipeline import Pipeline

from ..coding import SURE, TINY
from ..columns import HEIGHT, Columns
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
COUPLE = """def couple(f, slopes):
    k = len(CLASSES)
    q = [[TINY * (a == b) for b in range(k)] + [1.0] for a in range(k)]
    values = iter(f)
    for a in range(k):
        for b in range(a + 1, k):
            z = min(max(slopes[0] * next(values), -50.0), 50.0)
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

# The probabilities of the classes from decision values, one or one per class (`coding.probabilities`)
CALIBRATE = """def calibrate(f, slopes):
    z = [slopes[0] * value for value in f]
    if len(f) == 1:
        z = [0.0, f[0] * slopes[-1] if f[0] > 0 else f[0] * slopes[0]]
    p = [math.exp(value - max(z)) for value in z]
    return [value / sum(p) for value in p]"""

OUTPUTS = """def outputs(x, kernel, points, coefficients, intercept):
    try:
        k = [kernel(x, z, range(len(x))) for z in points]
    except OverflowError:  # raised by powers; products become infinite
        k = [math.inf] * len(points)
    f = [b + sum(value * a[o] for value, a in zip(k, coefficients)) for o, b in enumerate(intercept)]
    if not all(map(math.isfinite, f)):
        raise ValueError("The result overflows: the values of the row are too large for the model.")
    return f"""


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
        ``decision_function(x)`` and ``predict_proba(x)``. A result has the shape of one row of the model's results. For
        a model fitted by the command line, x is a row of its table: a dict keyed by column, such as a row of
        ``csv.DictReader``, or a list in the order of ``INPUTS``, of numbers or texts. If a value is missing and is not
        filled in, the result is None. For a model with categories or missing cells, x is a list of the same values as
        in a row of the training frame, or a dict keyed by column; None and NaN are missing cells. Infinite
        values, too few or too many values, and results that overflow raise ValueError, as in the model; so does NaN if
        the training rows had no missing cells.

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
    functions, kernels = kernel_functions((member.kernel for member in content.members), content.width, BODIES, "")
    text = [f'"""{content.title}: {content.size}."""', "", "import math", ""]
    if content.inputs:
        text.append(f"INPUTS = [{', '.join(map(ascii, content.inputs))}]")
    if content.classes is not None:
        text.append(f"CLASSES = [{', '.join(map(ascii, content.classes))}]")
    text.append("# support vectors")
    for number, points in enumerate(content.tables):
        text += [f"POINTS{number} = [", *(f"    {point.tolist()!r}," for point in points), "]"]
    if uses_splines(functions):
        text += ["", "", SPLINE]
    for function, tables, body in functions:
        text += ["", *(f"{function}_{table} = {values.tolist()!r}" for table, values in tables.items())]
        text += ["", "", f"def {function}(x, z, columns):", body]
    text += ["", "", OUTPUTS]
    if content.columns is not None:
        text += _encode(content.columns)
    elif content.encoder is not None:
        text += _encode_cells(content.encoder)
    else:
        text += _checked(content)
    text += [*_members(content, kernels), *_inputs(content), *_methods(content)]
    return "\n".join([*text, ""])


def _members(content: ModelContent, kernels: Sequence[str]) -> list[str]:
    """The coefficients of the members and the list of the members."""
    text, coupled = ["", ""], [member.coupled for member in content.members]
    if content.classes is not None:
        couple = COUPLE.replace("SURE", repr(SURE)).replace("TINY", repr(TINY))
        text += [*([CALIBRATE, "", ""] if not all(coupled) else []), *([couple, "", ""] if any(coupled) else [])]
    lines = []
    for number, (member, kernel) in enumerate(zip(content.members, kernels, strict=True)):
        text += [f"COEFFICIENTS{number} = [", *(f"    {row.tolist()!r}," for row in member.coef), "]"]
        line = f"{member.weight!r}, {kernel}, POINTS{member.table}, COEFFICIENTS{number}, {member.intercept.tolist()!r}"
        if content.classes is not None:
            line += f", {'couple' if member.coupled else 'calibrate'}, {member.slopes!r}"
        lines.append(f"    ({line}),")
    what = "the models that are averaged" if len(lines) > 1 else "the model"
    more = "" if content.classes is None else ", probabilities of its outputs, their slopes"
    return [
        *text,
        f"# {what}: weight, kernel, support vectors, coefficients, intercept{more}",
        "MEMBERS = [",
        *lines,
        "]",
    ]


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


# The inputs of a row of a frame (`columns.Column.encode`)
ENCODE = """def encode(row):
    if not hasattr(row, "keys") and len(row) != len(COLUMNS):
        raise ValueError(f"The row has {len(row)} values, but the model takes {len(COLUMNS)}.")
    x = []
    for number, (name, kind, values, median, height, missing, pooled) in enumerate(COLUMNS):
        value = row[name] if hasattr(row, "keys") else row[number]
        value = None if value != value else value
        if kind == "category":
            if value is not None and isinstance(value, str) != isinstance(values[0], str):
                raise ValueError(f"Column {name!r} holds {value!r}, but held values such as {values[0]!r} in fit.")
            width = len(values) + missing + pooled
            place = width - 1 if pooled else width
            if value in values:
                place = values.index(value)
            elif value is None and missing:
                place = len(values)
            other = 0.0 if place < width else (1.0 - math.sqrt(1.0 + width)) / (math.sqrt(2.0) * width)
            x += [HEIGHT if own == place else other for own in range(width)]
        elif kind != "ignored":
            if kind == "ranks":
                value = values.index(value) if value in values else None
            if value is not None and not math.isfinite(float(value)):
                raise ValueError(f"Column {name!r} is {value}: give a finite number.")
            x.append(median if value is None else float(value))
            x += [height * (value is None)] if height else []
    return x"""


def _encode_cells(columns: Columns) -> list[str]:
    """The function that turns a row of a frame into inputs."""
    return [
        "",
        "",
        "# name, kind, values, median, height of the indicator, whether missing cells and rare values have a column",
        "COLUMNS = [",
        *(
            f"    ({c.name!a}, {c.kind!r}, {list(c.values)!a}, {c.median!r}, {c.height!r}, {c.missing}, {c.pooled}),"
            for c in columns.columns
        ),
        "]",
        "",
        "",
        ENCODE.replace("HEIGHT", repr(HEIGHT)),
    ]


def _checked(content: ModelContent) -> list[str]:
    """The function that rejects the rows that the model rejects."""
    d = content.width
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


def _inputs(content: ModelContent) -> list[str]:
    """The function that computes the inputs of the members."""
    text = ["", "", "def inputs(x):"]
    if content.encoder is not None:
        text += ["    x = encode(x)"]
    elif content.columns is None:
        text += ["    x = checked(x)"]
    else:
        text += ["    x = encode(x)", *_nothing(content, "x")]
    if content.affine is not None:
        for part, values in zip(("centre", "scale", "offset"), content.affine, strict=True):
            text.append(f"    {part} = {values.tolist()!r}")
        text.append("    x = [(value - c) * s + o for value, c, s, o in zip(x, centre, scale, offset)]")
    return [*text, "    return x"]


def _nothing(content: ModelContent, value: str) -> list[str]:
    """Lines that return None for a row that has no prediction."""
    return [f"    if {value} is None:", "        return None"] if content.refuses else []


def _methods(content: ModelContent) -> list[str]:
    """The functions named after the methods of the model."""
    start = ["    x = inputs(x)", *_nothing(content, "x")]
    if content.classes is None:
        k = content.decisions
        average = [
            "    parts = [(weight, outputs(x, *member)) for weight, *member in MEMBERS]",
            f"    f = [sum(weight * part[o] for weight, part in parts) for o in range({k})]",
        ]
        return ["", "", "def predict(x):", *start, *average, f"    return {'f[0]' if content.single else 'f'}"]
    choice = "CLASSES[int(f > 0)]" if content.single else "CLASSES[f.index(max(f))]"
    decision = [*start, "    f = outputs(x, *MEMBERS[0][1:5])", f"    return {'f[0]' if content.single else 'f'}"]
    if content.mixes:
        value = "2.0 * p[1] - 1.0" if content.single else "[2.0 * value - 1.0 for value in p]"
        decision = ["    p = predict_proba(x)", *_nothing(content, "p"), f"    return {value}"]
    return [
        *("", "", "def predict_proba(x):", *start),
        "    parts = [",
        "        (weight, probabilities(outputs(x, *member), slopes))",
        "        for weight, *member, probabilities, slopes in MEMBERS",
        "    ]",
        "    return [sum(weight * p[c] for weight, p in parts) for c in range(len(CLASSES))]",
        *("", "", "def decision_function(x):", *decision),
        *("", "", "def predict(x):", "    f = decision_function(x)", *_nothing(content, "f"), f"    return {choice}"),
    ]
