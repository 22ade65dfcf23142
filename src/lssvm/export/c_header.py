"""Export to a C99 header.

The templates and the code that fills them in stay in one long file: the C text is easier to check as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..coding import SURE, TINY
from ..estimators import LSSVC, LSSVR
from ..tables import MISSING, Column, spellings
from .kernel_functions import Function, kernel_functions, uses_splines
from .model import ModelContent, read_model

__all__ = ["to_c"]

# Bodies of the kernel functions, by type of kernel: see `kernel_functions`
BODIES = {
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
# NaN and infinity are detected by their bits, because compilers remove isnan() under -ffast-math
FINITE = """#if DBL_MANT_DIG != 53
#error "This header requires a 64-bit double (avr-gcc: -mdouble=64)."
#endif

static inline uint64_t NAMEmagnitude_bits(const double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    return bits & UINT64_C(0x7fffffffffffffff);
}

static inline int NAMEall_finite(const double *values, int count)
{
    for (int i = 0; i < count; i++)
        if (NAMEmagnitude_bits(values + i) >= UINT64_C(0x7ff0000000000000))
            return 0;
    return 1;
}

static inline void NAMEset_nan(double *values, int count)
{
    const uint64_t bits = UINT64_C(0x7ff8000000000000);
    for (int i = 0; i < count; i++)
        memcpy(values + i, &bits, sizeof bits);
}"""
IS_NAN = """static inline int NAMEis_nan(const double *value)
{
    return NAMEmagnitude_bits(value) > UINT64_C(0x7ff0000000000000);
}"""
# The cubic spline kernel of two positions, in units of the knots' span (`kernels.Spline`)
SPLINE = """static inline double NAMEspline_mean(double u)
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

# The probabilities of the classes from the outputs of their pairs (`coding.couple`), by Gauss-Jordan elimination
COUPLE = """static inline void NAMEcouple(const double f[PAIRS], double p[SIZE])
{
    double q[SIZE][SIZE + 1], sum = 0.0;
    for (int a = 0; a < SIZE; a++) {
        for (int b = 0; b < SIZE; b++)
            q[a][b] = 0.0;
        q[a][a] = TINY;
        q[a][SIZE] = 1.0;
    }
    for (int a = 0, pair = 0; a < SIZE; a++)
        for (int b = a + 1; b < SIZE; b++, pair++) {
            double z = SLOPE * f[pair];
            z = z < -50.0 ? -50.0 : z > 50.0 ? 50.0 : z;
            double later = 1.0 / (1.0 + exp(-z));
            later = later < SURE ? SURE : later > 1.0 - SURE ? 1.0 - SURE : later;
            q[a][b] = q[b][a] = -later * (1.0 - later);
            q[a][a] += later * later;
            q[b][b] += (1.0 - later) * (1.0 - later);
        }
    for (int a = 0; a < SIZE; a++) {
        for (int c = a + 1; c <= SIZE; c++)
            q[a][c] /= q[a][a];
        for (int b = 0; b < SIZE; b++)
            for (int c = a + 1; b != a && c <= SIZE; c++)
                q[b][c] -= q[b][a] * q[a][c];
    }
    for (int a = 0; a < SIZE; a++)
        sum += p[a] = q[a][SIZE] > TINY ? q[a][SIZE] : TINY;
    for (int a = 0; a < SIZE; a++)
        p[a] /= sum;
}"""


def to_c(model: LSSVR | LSSVC | Pipeline, name: str = "lssvm") -> str:
    """Export a model to a C99 header that requires only the standard library.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted; or a Pipeline that only scales columns before it.
    name : str
        Prefix of all names in the header.

    Returns
    -------
    str
        The header. For regression, ``NAME_predict(x, f)`` writes the outputs f of one row x. For classification,
        ``NAME_predict(x)`` returns the index of the class in ``NAME_classes``, ``NAME_decision_function(x, f)`` writes
        the decision values and ``NAME_predict_proba(x, p)`` one probability per class. If a value of x is NaN or
        infinite, or if the outputs overflow, they write NaN and the class is -1: check it before using it as an index.
        This also holds under ``-ffast-math``. For a model fitted by the command line,
        ``NAME_encode(numbers, texts, x)`` computes x from a row of the table: its numbers (NaN if missing) in the order
        of ``NAME_number_names`` and its texts in the order of ``NAME_text_names``. It returns 0 if a value is missing
        and is not filled in; such a row has no prediction.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, export, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.FeatureVectors(9)]).fit(X, y)
    >>> "motorcycle_predict" in export.to_c(model, name="motorcycle")
    True
    """
    content = read_model(model)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r} is not a valid C identifier: use letters, digits and _.")
    (n, d), k = content.points.shape, content.coef.shape[1]
    guard = f"{name.upper()}_H"
    functions = kernel_functions(content.kernel, d, BODIES, f"{name}_")
    text = [
        f"/* {content.title}. C99, requires only the standard library.",
        f" * {content.size}. {' '.join(repr(content.kernel).split())}",
        " */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <float.h>",
        "#include <math.h>",
        "#include <stdint.h>",
        "#include <string.h>",
        "",
        FINITE.replace("NAME", f"{name}_"),
        "",
        f"enum {{ {name}_inputs = {d}, {name}_outputs = {content.decisions} }};",
    ]
    if content.columns is not None:
        text += _encode(content.columns, name)
    elif content.inputs:
        text.append(_array(f"const char *const {name}_input_names[{d}]", map(c_string, content.inputs)))
    if content.classes is not None:
        kind, values = _labels(content.classes)
        text.append(_array(f"{kind}{name}_classes[{len(values)}]", values))
    text += [
        "",
        _array(f"const double {name}_points[{n}][{d}]", (_row(point) for point in content.points)),
        _array(f"const double {name}_coefficients[{n}][{k}]", (_row(row) for row in content.coef)),
        _array(f"const double {name}_intercept[{k}]", map(_number, content.intercept)),
        _nested_array(f"{name}_columns", np.arange(d)),
    ]
    text += [*_kernel(functions, name), "", *_decision(content, name, functions[-1][0])]
    if content.coupled:
        text += ["", *_coupled(content, name)]
    elif content.classes is not None:
        text += ["", *_predict(name, k)]
        if content.slopes is not None:
            text += ["", *_probabilities(content, name)]
    return "\n".join([*text, "", f"#endif /* {guard} */", ""])


def _kernel(functions: list[Function], name: str) -> list[str]:
    """The functions of the kernel, each preceded by its tables."""
    text = ["", SPLINE.replace("NAME", f"{name}_")] if uses_splines(functions) else []
    for function, tables, body in functions:
        text += [
            "",
            *(_nested_array(f"{function}_{table}", values) for table, values in tables.items()),
            f"static inline double {function}(const double *x, const double *z, const int *columns, int count)",
            "{",
            body,
            "}",
        ]
    return text


def _encode(columns: Sequence[Column], name: str) -> list[str]:
    """The function that turns a row of the table into inputs."""
    numbers = [column for column in columns if column.categories is None]
    texts = [column for column in columns if column.categories is not None]
    arrays, work = [], []
    for kind, own in (("number", numbers), ("text", texts)):
        names = [c_string(column.name) for column in own] or ["0"]  # C has no empty arrays
        arrays.append(f"enum {{ {name}_{kind}s = {len(own)} }};")
        arrays.append(_array(f"const char *const {name}_{kind}_names[{len(names)}]", names))
    arrays.append(_array(f"const char *const {name}_missing[{len(MISSING)}]", map(c_string, MISSING)))
    place, refuses = 0, False
    for column in columns:
        if column.categories is None:
            value, fill = f"numbers[{numbers.index(column)}]", _number(column.fill or 0.0)
            missing = f"{name}_is_nan(&{value})"
            work.append(f"    x[{place}] = {missing} ? {fill} : {value};")
        else:
            number, known = texts.index(column), spellings(column.categories)
            value, count = f"texts[{number}]", len(known)
            arrays.append(_array(f"const char *const {name}_categories{number}[{count}]", map(c_string, known)))
            arrays.append(_nested_array(f"{name}_places{number}", place + np.array([*known.values()])))
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
            refuses = True
        place += len(column.encoded)
    return [
        *arrays,
        "",
        *([IS_NAN.replace("NAME", f"{name}_"), ""] if numbers else []),
        *_is_missing(name),
        "",
        "/* Compute the inputs x from a row of the table: its numbers (NaN: missing) in the order of",
        f" * {name}_number_names, its texts (UTF-8, stripped of blanks; NULL: missing) in the order of",
        f" * {name}_text_names. An unknown text belongs to no category. Returns 0 and sets x to NaN if a value is",
        " * missing and is not filled in; the row then has no prediction. */",
        f"static inline int {name}_encode(const double *numbers, const char *const *texts, double x[{place}])",
        "{",
        "    int complete = 1;",
        "    (void)numbers, (void)texts;",
        *work,
        *(["    if (!complete)", f"        {name}_set_nan(x, {place});"] if refuses else []),
        "    return complete;",
        "}",
    ]


def _is_missing(name: str) -> list[str]:
    """The function that recognises missing texts."""
    return [
        f"static inline int {name}_is_missing(const char *text)",
        "{",
        "    if (!text)",
        "        return 1;",
        f"    for (int i = 0; i < {len(MISSING)}; i++)",
        f"        if (!strcmp(text, {name}_missing[i]))",
        "            return 1;",
        "    return 0;",
        "}",
    ]


def _decision(content: ModelContent, name: str, kernel: str) -> list[str]:
    """The function that computes all outputs."""
    (n, d), k = content.points.shape, content.coef.shape[1]
    scaled, lines = "x", []
    if content.affine is not None:
        scaled = "scaled"
        lines = [
            f"    {_array(f'const double {part}[{d}]', map(_number, values))}"
            for part, values in zip(("centre", "scale", "offset"), content.affine, strict=True)
        ]
        lines += [
            f"    double scaled[{d}];",
            f"    for (int c = 0; c < {d}; c++)",
            "        scaled[c] = (x[c] - centre[c]) * scale[c] + offset[c];",
        ]
    function, what = ("predict", "outputs") if content.classes is None else ("decision_function", "decision values")
    if content.coupled:
        function, what = "pair_values", "decision values of the pairs of classes"
    return [
        f"/* The {what} of one row x; NaN if x is not finite or if they overflow. */",
        f"static inline void {name}_{function}(const double x[{d}], double f[{k}])",
        "{",
        *lines,
        f"    if (!{name}_all_finite(x, {d})) {{",
        f"        {name}_set_nan(f, {k});",
        "        return;",
        "    }",
        f"    for (int o = 0; o < {k}; o++)",
        f"        f[o] = {name}_intercept[o];",
        f"    for (int j = 0; j < {n}; j++) {{",
        f"        const double value = {kernel}({scaled}, {name}_points[j], {name}_columns, {d});",
        f"        for (int o = 0; o < {k}; o++)",
        f"            f[o] += {name}_coefficients[j][o] * value;",
        "    }",
        f"    if (!{name}_all_finite(f, {k}))",
        f"        {name}_set_nan(f, {k});",
        "}",
    ]


def _predict(name: str, k: int, values: str = "decision_function") -> list[str]:
    """The function that returns the class, from the results of another function."""
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
        f"/* The index of the class of one row x in {name}_classes; -1 if the decision values are NaN. */",
        f"static inline int {name}_predict(const double x[{name}_inputs])",
        "{",
        f"    double f[{k}];",
        f"    {name}_{values}(x, f);",
        f"    if (!{name}_all_finite(f, {k}))",
        "        return -1;",
        *choose,
        "}",
    ]


def _coupled(content: ModelContent, name: str) -> list[str]:
    """The functions of a model of pairs of classes: probabilities, decision values and the class."""
    assert content.slopes is not None
    k, pairs = content.decisions, content.coef.shape[1]
    couple = COUPLE
    constants = {"PAIRS": pairs, "SIZE": k, "SLOPE": float(content.slopes[0]), "SURE": SURE, "TINY": TINY}
    for word, value in {**constants, "NAME": f"{name}_"}.items():
        couple = couple.replace(word, str(value))
    return [
        couple,
        "",
        *_probability_function(name, k, pairs, "pair_values", [f"    {name}_couple(f, p);"]),
        "",
        "/* The decision values of one row x, 2 p - 1 of the probabilities p; NaN if x is not finite or if they",
        " * overflow. */",
        f"static inline void {name}_decision_function(const double x[{name}_inputs], double f[{k}])",
        "{",
        f"    {name}_predict_proba(x, f);",
        f"    if (!{name}_all_finite(f, {k}))",
        "        return;",
        f"    for (int o = 0; o < {k}; o++)",
        "        f[o] = 2.0 * f[o] - 1.0;",
        "}",
        "",
        *_predict(name, k, "predict_proba"),
    ]


def _probabilities(content: ModelContent, name: str) -> list[str]:
    """The function that computes the class probabilities, calibrated by the model's slopes."""
    assert content.slopes is not None
    k = content.coef.shape[1]
    slopes = [_number(slope) for slope in content.slopes]
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
    return _probability_function(name, max(k, 2), k, "decision_function", body)


def _probability_function(name: str, classes: int, outputs: int, values: str, body: list[str]) -> list[str]:
    """The function that computes the probabilities p from the outputs f that another function computes."""
    return [
        f"/* The probability of each class for one row x, in the order of {name}_classes; NaN if the decision",
        " * values are NaN. */",
        f"static inline void {name}_predict_proba(const double x[{name}_inputs], double p[{classes}])",
        "{",
        f"    double f[{outputs}];",
        f"    {name}_{values}(x, f);",
        f"    if (!{name}_all_finite(f, {outputs})) {{",
        f"        {name}_set_nan(p, {classes});",
        "        return;",
        "    }",
        *body,
        "}",
    ]


def _array(declaration: str, values: Any) -> str:
    return f"static {declaration} = {{{', '.join(values)}}};".replace(", \n", ",\n")


def _nested_array(name: str, values: np.ndarray) -> str:
    """An array with any number of dimensions."""

    def braces(part: np.ndarray) -> str:
        if part.ndim == 0:
            return repr(part.item())
        return f"{{{', '.join(map(braces, part))}}}"

    kind = "int" if values.dtype.kind == "i" else "double"
    return f"static const {kind} {name}{''.join(f'[{size}]' for size in values.shape)} = {braces(values)};"


def _row(values: np.ndarray) -> str:
    return f"\n    {{{', '.join(map(_number, values))}}}"


def _number(value: Any) -> str:
    return repr(float(value))


def _labels(labels: list[Any]) -> tuple[str, list[str]]:
    """The C type of the class labels, and their values."""
    if isinstance(labels[0], str):
        return "const char *const ", [c_string(label) for label in labels]
    if isinstance(labels[0], float):
        return "const double ", [_number(label) for label in labels]
    return "const long long ", [str(int(label)) for label in labels]


def c_string(text: str) -> str:
    """A C string literal in UTF-8; all but plain characters are octal escapes (no trigraphs, no end of comment)."""
    plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-.,:;+=()<>[]"
    return '"' + "".join(chr(b) if chr(b) in plain else f"\\{b:03o}" for b in text.encode()) + '"'
