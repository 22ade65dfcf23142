"""The part of a C99 header that turns the columns of a table into inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tables import MISSING, Column, spellings
from .c_templates import IS_NAN, c_array, c_nested, c_number, c_string


def encode_function(columns: Sequence[Column], name: str) -> list[str]:
    """The function that turns a row of the table into inputs."""
    numbers = [column for column in columns if column.categories is None]
    texts = [column for column in columns if column.categories is not None]
    arrays, work = [], []
    for kind, own in (("number", numbers), ("text", texts)):
        names = [c_string(column.name) for column in own] or ["0"]  # C has no empty arrays
        arrays.append(f"enum {{ {name}_{kind}s = {len(own)} }};")
        arrays.append(c_array(f"const char *const {name}_{kind}_names[{len(names)}]", names))
    arrays.append(c_array(f"const char *const {name}_missing[{len(MISSING)}]", map(c_string, MISSING)))
    place, refuses = 0, False
    for column in columns:
        if column.categories is None:
            value, fill = f"numbers[{numbers.index(column)}]", c_number(column.fill or 0.0)
            missing = f"{name}_is_nan(&{value})"
            work.append(f"    x[{place}] = {missing} ? {fill} : {value};")
        else:
            number, known = texts.index(column), spellings(column.categories)
            value, count = f"texts[{number}]", len(known)
            arrays.append(c_array(f"const char *const {name}_categories{number}[{count}]", map(c_string, known)))
            arrays.append(c_nested(f"{name}_places{number}", place + np.array([*known.values()])))
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
