"""Export to a Python file without dependencies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sklearn.pipeline import Pipeline

from ..coding import SURE, TINY
from ..estimators import LSSVC, LSSVR
from .kernel_functions import kernel_functions, uses_splines
from .model import ModelContent, read_model

__all__ = ["to_python"]

# Bodies of the kernel functions, by type of kernel: see `kernel_functions`
BODIES = {
    "RBF": "    return math.exp(-sum(r * r for r in ((x[c] - z[c]) / WIDTHS[c] for c in columns)))",
    "Matern": """    D = sum(r * r for r in ((x[c] - z[c]) / WIDTHS[c] for c in columns))
    r = math.sqrt(TWICE_NU * min(D, 1e300))
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

# The inputs of the members (`columns.Column.encode`)
ENCODE = """TRUTH = {"true": 1.0, "false": 0.0}


def is_missing(cell, values, texts):
    if isinstance(cell, str):
        word = cell.strip().lower()
        return cell not in values and (word in ("", "?", "nan") or not texts and word in ("na", "n/a", "none", "null"))
    try:
        return cell is None or bool(cell != cell)
    except TypeError:  # NA of pandas
        return True


def as_number(name, cell):
    try:
        number = float(TRUTH.get(cell.strip().lower(), cell) if isinstance(cell, str) else cell)
    except (TypeError, ValueError):
        number = math.nan
    except OverflowError:  # an integer larger than any float
        cell = number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"Column {name!r} is {cell!r}: give a finite number.")
    return number


def encode(row):
    keyed = hasattr(row, "keys")
    if not keyed and len(row) != COUNT:
        raise ValueError(f"The row has {len(row)} values, but the model takes COUNT.")
    if keyed and None in row.keys():  # how csv.DictReader returns surplus cells
        raise ValueError(f"The row has more values than the header: {row[None]!r}.")
    x = []
    for name, place, values, others, missing, scaling in COLUMNS:
        cell = row[name] if keyed else row[place]
        texts = any(isinstance(value, str) for value in values)
        if missing is not None and is_missing(cell, values, texts):
            x += missing
        elif texts:
            if not isinstance(cell, str):
                raise ValueError(f"Column {name!r} is {cell!r}: give a text, as in fit.")
            x += values.get(cell, values.get(cell.strip(), others))
        else:
            number = as_number(name, cell)
            if values:
                x += values.get(number if isinstance(cell, str) else cell, others)
                continue
            if scaling is not None:
                number = (number - scaling[0]) * scaling[1] + scaling[2]
            x += [number, *others]
    return x"""
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
        The source code. It defines ``predict(x)`` for one row x and, for classification, also ``decision_function(x)``
        and ``predict_proba(x)``. A result has the shape of one row of the model's results. A row is a list of the
        values of a row of the training table, or a dict keyed by column. None and NaN are missing cells. Rows may come
        from ``csv.DictReader``: numbers and booleans may be texts, and empty texts, "?" and "NaN" are missing cells,
        too, unless they were values in fit. Infinite values, too few or too many values, a number in place of a text,
        and results that overflow raise ValueError, as in the model.

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
    if content.names:
        text.append(f"INPUTS = [{', '.join(map(ascii, content.names))}]")
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
    text += [*_encode(content), *_members(content, kernels), *_methods(content)]
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


def _encode(content: ModelContent) -> list[str]:
    """The function that turns a row of the table into the inputs of the members."""
    lines = []
    for column in content.inputs:
        missing = None if math.isnan(column.rows[-1, 0]) else column.rows[-1].tolist()
        cells = dict(zip(column.values, column.rows.tolist(), strict=False))
        unknown = column.rows[-2].tolist() if cells else [0.0] * (column.rows.shape[1] - 1)
        scaling = None if content.affine is None else tuple(float(values[column.place]) for values in content.affine)
        lines.append(f"    ({column.name!a}, {column.place}, {cells!a}, {unknown!r}, {missing!r}, {scaling!r}),")
    return [
        "",
        "",
        "# name, place; inputs for the values of a category, for other values (after a number: what follows it), for a",
        "# missing cell; centre, scale and offset of a number",
        "COLUMNS = [",
        *lines,
        "]",
        "",
        "",
        ENCODE.replace("COUNT", str(content.columns)),
    ]


def _methods(content: ModelContent) -> list[str]:
    """The functions named after the methods of the model."""
    start = ["    x = encode(x)"]
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
        decision = ["    p = predict_proba(x)", f"    return {value}"]
    return [
        *("", "", "def predict_proba(x):", *start),
        "    parts = [",
        "        (weight, probabilities(outputs(x, *member), slopes))",
        "        for weight, *member, probabilities, slopes in MEMBERS",
        "    ]",
        "    return [sum(weight * p[c] for weight, p in parts) for c in range(len(CLASSES))]",
        *("", "", "def decision_function(x):", *decision),
        *("", "", "def predict(x):", "    f = decision_function(x)", f"    return {choice}"),
    ]
