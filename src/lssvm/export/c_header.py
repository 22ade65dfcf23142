"""Export to a C99 header."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..coding import SURE, TINY
from ..estimators import LSSVC, LSSVR
from .c_table import encode_function
from .c_templates import (
    BODIES,
    CALIBRATE,
    CALIBRATE_ONE,
    COUPLE,
    FINITE,
    SPLINE,
    c_array,
    c_nested,
    c_number,
    c_row,
    c_string,
)
from .kernel_functions import Function, kernel_functions, uses_splines
from .model import Member, ModelContent, read_model

__all__ = ["to_c"]


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
        the decision values and ``NAME_predict_proba(x, p)`` one probability per class. NaN is a missing cell. If a
        value of x is infinite, or if the outputs overflow, they write NaN and the class is -1: check it before using it
        as an index. This also holds under ``-ffast-math``. For a model with categories, ``NAME_encode(numbers, texts,
        x)`` computes x from a row of the table: its numbers (NaN if missing) in the order of ``NAME_number_names``, its
        texts (UTF-8; NULL or empty if missing) in the order of ``NAME_text_names``. It returns 0 if a number is
        infinite; such a row has no prediction.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, export, kernels, sparsify
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(kernels.RBF(13.1), C=830.0, steps=[sparsify.FeatureVectors(9)]).fit(X, y)
    >>> "motorcycle_predict" in export.to_c(model, name="motorcycle")
    True
    """
    content = read_model(model)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r} is not a valid C identifier: use letters, digits and _.")
    d, guard = content.width, f"{name.upper()}_H"
    functions, kernels = kernel_functions((member.kernel for member in content.members), d, BODIES, f"{name}_")
    text = [
        f"/* {content.title}. C99, requires only the standard library.",
        f" * {content.size}. {' '.join(content.kernels.split())}",
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
        f"enum {{ {name}_inputs = {_length(content)}, {name}_outputs = {content.decisions} }};",
    ]
    if content.is_matrix and content.names:
        text.append(c_array(f"const char *const {name}_input_names[{content.columns}]", map(c_string, content.names)))
    if content.classes is not None:
        kind, values = _labels(content.classes)
        text.append(c_array(f"{kind}{name}_classes[{len(values)}]", values))
    text += ["", *encode_function(content, name), ""]
    for place, points in enumerate(content.tables):
        text.append(c_array(f"const double {name}_points{place}[{len(points)}][{d}]", map(c_row, points)))
    text += [c_nested(f"{name}_columns", np.arange(d)), *_kernels(functions, name)]
    for place, (member, kernel) in enumerate(zip(content.members, kernels, strict=True)):
        text += ["", *_member(member, place, name, kernel, d)]
    text += ["", *(_regression(content, name) if content.classes is None else _classification(content, name))]
    return "\n".join([*text, "", f"#endif /* {guard} */", ""])


def _kernels(functions: list[Function], name: str) -> list[str]:
    """The functions of the kernels, each preceded by its tables."""
    text = ["", SPLINE.replace("NAME", f"{name}_")] if uses_splines(functions) else []
    for function, tables, body in functions:
        text += [
            "",
            *(c_nested(f"{function}_{table}", values) for table, values in tables.items()),
            f"static inline double {function}(const double *x, const double *z, const int *columns, int count)",
            "{",
            body,
            "}",
        ]
    return text


def _member(member: Member, place: int, name: str, kernel: str, d: int) -> list[str]:
    """The coefficients of a member and the function that computes its outputs."""
    n, k = member.coef.shape
    return [
        c_array(f"const double {name}_coefficients{place}[{n}][{k}]", map(c_row, member.coef)),
        c_array(f"const double {name}_intercept{place}[{k}]", map(c_number, member.intercept)),
        f"static inline void {name}_member{place}(const double x[{d}], double f[{k}])",
        "{",
        f"    for (int o = 0; o < {k}; o++)",
        f"        f[o] = {name}_intercept{place}[o];",
        f"    for (int j = 0; j < {n}; j++) {{",
        f"        const double value = {kernel}(x, {name}_points{member.table}[j], {name}_columns, {d});",
        f"        for (int o = 0; o < {k}; o++)",
        f"            f[o] += {name}_coefficients{place}[j][o] * value;",
        "    }",
        "}",
    ]


def _length(content: ModelContent) -> int:
    """The length of x: a row of numbers, or what NAME_encode has computed."""
    return content.columns if content.is_matrix else content.width


def _prepared(content: ModelContent, name: str, values: str, count: int) -> tuple[list[str], str]:
    """The first lines of a function that computes values of a row x, and the name of the inputs of the members."""
    lines = [f"    if (!{name}_all_finite(x, {content.width})) {{"]
    if content.is_matrix:
        lines = [f"    double inputs[{content.width}];", f"    if (!{name}_encode(x, inputs)) {{"]
    lines += [f"        {name}_set_nan({values}, {count});", "        return;", "    }"]
    return lines, "inputs" if content.is_matrix else "x"


def _regression(content: ModelContent, name: str) -> list[str]:
    """The function that averages the outputs of the members."""
    k = content.decisions
    prepared, x = _prepared(content, name, "f", k)
    lines = [f"    double part[{k}];", f"    for (int o = 0; o < {k}; o++)", "        f[o] = 0.0;"]
    for place, member in enumerate(content.members):
        lines += [
            f"    {name}_member{place}({x}, part);",
            f"    for (int o = 0; o < {k}; o++)",
            f"        f[o] += {c_number(member.weight)} * part[o];",
        ]
    return [
        "/* The outputs of one row x; NaN if x is not finite or if they overflow. */",
        f"static inline void {name}_predict(const double x[{_length(content)}], double f[{k}])",
        "{",
        *prepared,
        *lines,
        f"    if (!{name}_all_finite(f, {k}))",
        f"        {name}_set_nan(f, {k});",
        "}",
    ]


def _classification(content: ModelContent, name: str) -> list[str]:
    """The functions that compute probabilities, decision values and the class."""
    assert content.classes is not None
    coupled = {member.coupled for member in content.members}
    templates = [CALIBRATE_ONE if content.single else CALIBRATE] * (False in coupled) + [COUPLE] * (True in coupled)
    words = {"NAME": f"{name}_", "SIZE": len(content.classes), "SURE": SURE, "TINY": TINY}
    text = []
    for template in templates:
        for word, value in words.items():
            template = template.replace(word, str(value))
        text += [template, ""]
    return [*text, *_probabilities(content, name), "", *_decision(content, name), "", *_predict(content, name)]


def _probabilities(content: ModelContent, name: str) -> list[str]:
    """The function that averages the probabilities of the members."""
    assert content.classes is not None
    classes = len(content.classes)
    prepared, x = _prepared(content, name, "p", classes)
    most = max(member.coef.shape[1] for member in content.members)
    lines = [
        f"    double f[{most}], part[{classes}];",
        f"    for (int c = 0; c < {classes}; c++)",
        "        p[c] = 0.0;",
    ]
    for place, member in enumerate(content.members):
        function = "couple" if member.coupled else "calibrate"
        slopes = member.slopes if content.single else member.slopes[:1]
        lines += [
            f"    {name}_member{place}({x}, f);",
            f"    if (!{name}_all_finite(f, {member.coef.shape[1]})) {{",
            f"        {name}_set_nan(p, {classes});",
            "        return;",
            "    }",
            f"    {name}_{function}(f, {', '.join(map(c_number, slopes))}, part);",
            f"    for (int c = 0; c < {classes}; c++)",
            f"        p[c] += {c_number(member.weight)} * part[c];",
        ]
    return [
        f"/* The probability of each class for one row x, in the order of {name}_classes; NaN if x is not finite",
        " * or if the decision values overflow. */",
        f"static inline void {name}_predict_proba(const double x[{_length(content)}], double p[{classes}])",
        "{",
        *prepared,
        *lines,
        "}",
    ]


def _decision(content: ModelContent, name: str) -> list[str]:
    """The function that computes the decision values."""
    assert content.classes is not None
    k = content.decisions
    prepared, x = _prepared(content, name, "f", k)
    lines = [*prepared, f"    {name}_member0({x}, f);", f"    if (!{name}_all_finite(f, {k}))"]
    lines += [f"        {name}_set_nan(f, {k});"]
    if content.mixes:
        classes = len(content.classes)
        lines = [
            f"    double p[{classes}];",
            f"    {name}_predict_proba(x, p);",
            f"    if (!{name}_all_finite(p, {classes})) {{",
            f"        {name}_set_nan(f, {k});",
            "        return;",
            "    }",
            f"    for (int o = 0; o < {k}; o++)",
            f"        f[o] = 2.0 * p[o{' + 1' if content.single else ''}] - 1.0;",
        ]
    what = ", 2 p - 1 of the probabilities p" if content.mixes else ""
    return [
        f"/* The decision values of one row x{what}; NaN if x is not finite or if they overflow. */",
        f"static inline void {name}_decision_function(const double x[{_length(content)}], double f[{k}])",
        "{",
        *lines,
        "}",
    ]


def _predict(content: ModelContent, name: str) -> list[str]:
    """The function that returns the class."""
    k = content.decisions
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
        f"static inline int {name}_predict(const double x[{_length(content)}])",
        "{",
        f"    double f[{k}];",
        f"    {name}_decision_function(x, f);",
        f"    if (!{name}_all_finite(f, {k}))",
        "        return -1;",
        *choose,
        "}",
    ]


def _labels(labels: list[Any]) -> tuple[str, list[str]]:
    """The C type of the class labels, and their values."""
    if isinstance(labels[0], str):
        return "const char *const ", [c_string(label) for label in labels]
    if isinstance(labels[0], float):
        return "const double ", [c_number(label) for label in labels]
    return "const long long ", [str(int(label)) for label in labels]
