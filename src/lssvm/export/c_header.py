"""Export to a C99 header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..coding import SURE, TINY
from ..estimators import LSSVC, LSSVR
from .model import Input, ModelContent, read_model
from .source_text import Templates, kernel_functions

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
    templates = Templates(
        "model.h.in",
        name=name,
        guard=f"{name.upper()}_H",
        width=content.width,
        length=content.columns if content.is_matrix else content.width,  # a row of numbers, or one from NAME_encode
        outputs=content.decisions,
        classes=len(content.classes or []),
        x="inputs" if content.is_matrix else "x",  # the inputs of the members
        sure=SURE,
        tiny=TINY,
    )
    formulas = (member.kernel for member in content.members)
    functions, kernels = kernel_functions(formulas, Templates("kernels.h.in", prefix=f"{name}_"), c_array)
    points = [c_array(f"{name}_points{place}", table) for place, table in enumerate(content.tables)]
    text = templates.fill(
        "file",
        title=content.title,
        size=content.size,
        kernels=" ".join(content.kernels.split()),
        declarations=_declarations(content, name),
        encode=_encode(content, name, templates),
        points="\n".join([*points, c_array(f"{name}_columns", np.arange(content.width))]),
        functions=functions,
        members=_members(content, kernels, name, templates),
        methods=_methods(content, templates),
    )
    return f"{text}\n"


def _declarations(content: ModelContent, name: str) -> str:
    """The names of the inputs of a matrix, and the classes."""
    found = []
    if content.is_matrix and content.names:
        found.append(c_texts(f"{name}_input_names", content.names))
    labels: Any = content.classes
    if labels is not None and isinstance(labels[0], str):
        found.append(c_texts(f"{name}_classes", labels))
    elif labels is not None:
        kind, values = ("double", labels) if isinstance(labels[0], float) else ("long long", map(int, labels))
        found.append(f"static const {kind} {name}_classes[{len(labels)}] = {{{', '.join(map(repr, values))}}};")
    return "".join(f"\n{line}" for line in found)


def _encode(content: ModelContent, name: str, templates: Templates) -> str:
    """The function that encodes a row: numbers and, unless the table is a matrix of numbers, texts."""
    arrays, work, place = [], [], 0
    names: dict[str, list[str]] = {"number": [], "text": []}
    for column in content.inputs:
        kind = "text" if column.is_text else "number"
        number = len(names[kind])
        names[kind].append(str(column.name))
        cell = f"{kind}s[{number}]"
        if column.values:
            own = f"{name}_{kind}s{number}"
            values, cell = f"{own}_values", cell if column.is_text else f"&{cell}"
            arrays.append(c_texts(values, column.values) if column.is_text else c_array(values, column.numbers))
            arrays.append(c_array(f"{own}_rows", column.rows))
            found = f"{name}_find_{kind}s({cell}, {values}, {len(column.values)})"
            work.append(f"    memcpy(x + {place}, {own}_rows[{found}], sizeof {own}_rows[0]);")
        else:
            cells = enumerate(_number_cells(column, cell, name))
            work += [f"    x[{place + c}] = {value};" for c, value in cells]
        place += column.width
    if not content.is_matrix:
        for kind, own_names in names.items():
            arrays.append(f"enum {{ {name}_{kind}s = {len(own_names)} }};")
            arrays.append(c_texts(f"{name}_{kind}_names", own_names))
    function = templates.fill("encode_matrix" if content.is_matrix else "encode_table", work="\n".join(work))
    return "\n".join([*arrays, "", function])


def _number_cells(column: Input, cell: str, name: str) -> list[str]:
    """A number, scaled, and the indicator of a missing cell, if there is one."""
    value = cell
    if column.scaling is not None:
        centre, scale, offset = column.scaling
        value = f"({cell} - ({centre!r})) * {scale!r} + {offset!r}"
    filled = [value, "0.0"][: column.width]
    if column.missing is None:
        return filled
    return [f"{name}_is_nan(&{cell}) ? {m!r} : {f}" for m, f in zip(column.missing, filled, strict=True)]


def _members(content: ModelContent, kernels: Sequence[str], name: str, templates: Templates) -> str:
    """The coefficients of the members and the functions that compute their outputs."""
    found = []
    for number, (member, kernel) in enumerate(zip(content.members, kernels, strict=True)):
        arrays = [
            c_array(f"{name}_coefficients{number}", member.coef),
            c_array(f"{name}_intercept{number}", member.intercept),
        ]
        words = dict(zip("nk", member.coef.shape, strict=True))
        words |= {"number": number, "kernel": kernel, "table": member.table, "arrays": "\n".join(arrays)}
        found.append(templates.fill("member", **words))
    return "\n\n".join(found)


def _methods(content: ModelContent, templates: Templates) -> str:
    """The functions named after the methods of the model."""
    prepare = "prepare_matrix" if content.is_matrix else "prepare_table"
    prepare_f = templates.fill(prepare, values="f", count=content.decisions)
    average = [
        templates.fill(
            "average_outputs" if content.classes is None else "average_probabilities",
            number=number,
            k=member.coef.shape[1],
            function="couple" if member.coupled else "calibrate",
            slopes=", ".join(map(repr, member.slopes)),
            weight=repr(float(member.weight)),
        )
        for number, member in enumerate(content.members)
    ]
    if content.classes is None:
        return templates.fill("regression", prepare=prepare_f, average="\n".join(average))
    used = ["calibrate_one" if content.single and own == "calibrate" else own for own in content.calibrations]
    decision = "decision_of_probabilities" if content.mixes else "decision_of_outputs"
    return templates.fill(
        "classification",
        templates="\n\n".join(templates.fill(section) for section in used),
        prepare=templates.fill(prepare, values="p", count=len(content.classes)),
        most=max(member.coef.shape[1] for member in content.members),
        average="\n".join(average),
        decision=templates.fill(decision, prepare=prepare_f, place="o + 1" if content.single else "o"),
        choose=templates.fill("choose_one" if content.single else "choose"),
    )


def c_array(name: str, values: np.ndarray) -> str:
    """An array with any number of dimensions; each row of a matrix has a line of its own."""
    rows = [_braces(row) for row in values]
    body = ",".join(f"\n    {row}" for row in rows) if values.ndim > 1 else ", ".join(rows)
    kind = "int" if values.dtype.kind == "i" else "double"
    return f"static const {kind} {name}{''.join(f'[{size}]' for size in values.shape)} = {{{body}}};"


def _braces(values: np.ndarray) -> str:
    return f"{{{', '.join(map(_braces, values))}}}" if values.ndim else repr(values.item())


def c_texts(name: str, texts: Sequence[str]) -> str:
    """An array of texts; C has no empty arrays, so that of no texts contains a null pointer."""
    return f"static const char *const {name}[{max(len(texts), 1)}] = {{{', '.join(map(c_string, texts)) or '0'}}};"


def c_string(text: str) -> str:
    """A C string literal in UTF-8; all but plain characters are octal escapes (no trigraphs, no end of comment)."""
    plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-.,:;+=()<>[]"
    return '"' + "".join(chr(b) if chr(b) in plain else f"\\{b:03o}" for b in text.encode()) + '"'
