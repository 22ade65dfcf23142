"""The part of a C99 header that turns a row of the table into the inputs of the members."""

from __future__ import annotations

import numpy as np

from .c_templates import FIND, c_array, c_nested, c_number, c_string
from .model import ModelContent


def encode_function(content: ModelContent, name: str) -> list[str]:
    """The function that encodes a row: numbers and, unless the table is a matrix of numbers, texts."""
    arrays, work, place = [], [], 0
    counts = {"numbers": 0, "texts": 0}
    for column in content.inputs:
        kind = "texts" if column.is_text else "numbers"
        number = counts[kind]
        cell = f"{kind}[{number}]"
        counts[kind] += 1
        width = column.rows.shape[1]
        if column.values:
            own, size = f"{name}_{kind}{number}", len(column.values)
            values = map(c_string, column.values) if column.is_text else map(c_number, column.numbers)
            arrays.append(
                c_array(f"const {'char *const' if column.is_text else 'double'} {own}_values[{size}]", values)
            )
            arrays.append(c_nested(f"{own}_rows", column.rows))
            found = f"{name}_find_{kind}({cell if column.is_text else '&' + cell}, {own}_values, {size})"
            work.append(f"    memcpy(x + {place}, {own}_rows[{found}], sizeof {own}_rows[0]);")
        else:
            value, missing = cell, column.rows[0]
            if content.affine is not None:
                centre, scale, offset = (c_number(values[column.place]) for values in content.affine)
                value = f"({cell} - ({centre})) * {scale} + {offset}"
            filled = [value, "0.0"][:width]
            if not np.isnan(missing[0]):
                filled = [f"{name}_is_nan(&{cell}) ? {c_number(m)} : {f}" for m, f in zip(missing, filled, strict=True)]
            work += [f"    x[{place + c}] = {line};" for c, line in enumerate(filled)]
        place += width
    parameters = f"const double *numbers, double x[{place}]"
    comment = ["/* Compute the inputs x of the model from a row of numbers; 0 if one is not finite. */"]
    if not content.is_matrix:
        parameters = f"const double *numbers, const char *const *texts, double x[{place}]"
        arrays += [*_names(content, name), "", FIND.replace("NAME", f"{name}_")]
        work.insert(0, "    (void)numbers, (void)texts;")
        comment = [
            "/* Compute x from a row of the table: its numbers (NaN: missing) in the order of",
            f" * {name}_number_names, its texts (UTF-8; NULL or empty: missing) in the order of {name}_text_names.",
            " * Returns 0 if a number is infinite; the row then has no prediction. */",
        ]
    return [
        *arrays,
        "",
        *comment,
        f"static inline int {name}_encode({parameters})",
        "{",
        *work,
        f"    return {name}_all_finite(x, {place});",
        "}",
    ]


def _names(content: ModelContent, name: str) -> list[str]:
    """The names of the columns of numbers and of texts."""
    text = []
    for kind in ("number", "text"):
        own = [c_string(str(column.name)) for column in content.inputs if column.is_text == (kind == "text")]
        text.append(f"enum {{ {name}_{kind}s = {len(own)} }};")
        text.append(c_array(f"const char *const {name}_{kind}_names[{max(len(own), 1)}]", own or ["0"]))  # never empty
    return text
