"""Source text from the files in `templates/`, and kernels as functions in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from .model import Formula


class Templates:
    """The sections of a file in `templates/`; `words` are substituted in all of them.

    A section starts with its name in brackets, which may be followed by a note, and contains words such as ``$name``.
    """

    def __init__(self, file: str, **words: Any) -> None:
        text = (files(__package__) / "templates" / file).read_text(encoding="utf-8")
        names_and_sections = re.split(r"^\[(\w+)\].*\n", text, flags=re.MULTILINE)[1:]
        pairs = zip(names_and_sections[::2], names_and_sections[1::2], strict=True)
        self.sections = {name: Template(section.rstrip("\n")) for name, section in pairs}
        self.words = words

    def fill(self, section: str, **words: Any) -> str:
        return self.sections[section].substitute(self.words, **words)


def kernel_functions(
    formulas: Iterable[Formula], templates: Templates, declare: Callable[[str, np.ndarray], str]
) -> tuple[str, list[str]]:
    """Kernels as functions: the text of all of them, and the names of those of `formulas`.

    A kernel becomes one function per part. Each takes two rows and the columns to use, so that an additive kernel can
    call its part once for the columns of each component. `declare` writes a table of numbers.
    """
    lines: list[str] = []
    kinds: list[str] = []

    def write(formula: Formula) -> str:
        words = {f"part{number}": write(part) for number, part in enumerate(formula.parts)}
        name = f"{templates.words['prefix']}kernel{len(kinds)}"
        kinds.append(formula.kind)
        words |= {table: f"{name}_{table}" for table in formula.tables}
        body = templates.fill(formula.kind, **words, **formula.constants)
        tables = (declare(words[table], values) for table, values in formula.tables.items())
        lines.extend(["", *tables, templates.fill("function", name=name, body=body)])
        return name

    names = [write(formula) for formula in formulas]
    if "Spline" in kinds:
        lines[:0] = ["", templates.fill("spline")]
    return "\n".join(lines), names
