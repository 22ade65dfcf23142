"""Export to source code: a C99 header, or a Python file without dependencies, from the files in `templates/`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..coding import SURE, TINY
from ..estimators import LSSVC, LSSVR
from .model import Formula, ModelContent, read_model

__all__ = ["to_c", "to_python"]


Declare = Callable[[str, np.ndarray], str]


class SourceCode:
    """A model in one language, by the sections of a file in `templates/`, which `words` are substituted in.

    A section starts with its name in brackets, which may be followed by a note, and contains words such as ``$name``.
    If its name ends with ``_one``, it replaces another section for models with a single decision value. `declare`
    writes an array with a name.
    """

    def __init__(self, language: str, content: ModelContent, declare: Declare, **words: Any) -> None:
        self.content, self.declare = content, declare
        self.words = {"title": content.title, "outputs": content.decisions, "sure": SURE, "tiny": TINY, **words}
        text = (files(__package__) / "templates" / f"model.{language}.in").read_text(encoding="utf-8")
        parts = re.split(r"^\[(\w+)\].*\n", text, flags=re.MULTILINE)[1:]
        pairs = zip(parts[::2], parts[1::2], strict=True)
        self.sections = {name: Template(section.rstrip("\n")) for name, section in pairs}

    def fill(self, section: str, **words: Any) -> str:
        one = f"{section}_one"
        name = one if self.content.single and one in self.sections else section
        return self.sections[name].substitute(self.words, **words)

    def file(self, **words: Any) -> str:
        """Return the text of the file."""
        points = (self.declare(f"{self.words['prefix']}points{k}", own) for k, own in enumerate(self.content.tables))
        functions, kernels = self._kernels()
        members = [self._words(number, kernel) for number, kernel in enumerate(kernels)]
        words |= {"points": "\n".join(points), "functions": functions, "methods": self._methods(members)}
        text = self.fill("file", members="\n\n".join(self.fill("member", **own) for own in members), **words)
        return f"{text}\n"

    def _words(self, number: int, kernel: str) -> dict[str, Any]:
        """Return the words in the sections about a member."""
        member = self.content.members[number]
        tables = {"coefficients": member.coef, "intercept": member.intercept}
        tables |= {} if member.scale is None else {"scale": member.scale}
        arrays = (self.declare(f"{self.words['prefix']}{name}{number}", table) for name, table in tables.items())
        return {
            **{"number": number, "kernel": kernel, "table": member.table, "arrays": "\n".join(arrays)},
            **{"n": len(member.coef), "k": member.coef.shape[1], "weight": repr(float(member.weight))},
            **{"function": member.calibration, "slopes": ", ".join(map(repr, member.slopes))},
            "numbers": 0 if member.scale is None else member.scale.shape[1],
        }

    def _kernels(self) -> tuple[str, list[str]]:
        """Kernels as functions: the text of all of them, and the names of those of the members.

        A kernel becomes one function per part. Each takes two rows and the columns to use, so that an additive kernel
        can call its part once for the columns of each component.
        """
        lines: list[str] = []
        kinds: list[str] = []

        def write(formula: Formula) -> str:
            words = {f"part{number}": write(part) for number, part in enumerate(formula.parts)}
            name = f"{self.words['prefix']}kernel{len(kinds)}"
            kinds.append(formula.kind)
            words |= {table: f"{name}_{table}" for table in formula.tables}
            body = self.fill(formula.kind, **words, **formula.constants)
            tables = (self.declare(words[table], values) for table, values in formula.tables.items())
            lines.extend(["", *tables, self.fill("function", name=name, body=body)])
            return name

        names = [write(member.kernel) for member in self.content.members]
        if "Spline" in kinds:
            lines[:0] = ["", self.fill("spline")]
        return "\n".join(lines), names

    def _methods(self, members: Sequence[dict[str, Any]]) -> str:
        """Return the functions named after the methods of the model."""
        content = self.content
        if content.classes is None:
            scaled = [member.scale is not None for member in content.members]
            pairs = zip(scaled, members, strict=True)
            plain = "average_exponentials" if content.log_link else "average_outputs"
            lines = [self.fill("average_means" if way else plain, **own) for way, own in pairs]
            lines += [self.fill("bounds", **members[-1])] if scaled[-1] else []
            means = self.fill("means", **members[-1]) + "\n\n\n" if scaled[-1] else ""
            return self.fill("regression", means=means, average="\n".join(lines))
        words = {"average": "\n".join(self.fill("average_probabilities", **own) for own in members)}
        words["calibrations"] = "\n\n".join(self.fill(name) for name in sorted({own["function"] for own in members}))
        words["decision"] = self.fill("decision_of_probabilities" if content.mixes else "decision_of_outputs")
        most = max(own["k"] for own in members)
        return self.fill("classification", **words, most=most, choose=self.fill("choose"))


# C --------------------------------------------------------------------------------------------------------------------
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
    words: dict[str, Any] = {"name": name, "prefix": f"{name}_", "guard": f"{name.upper()}_H", "width": content.width}
    words["length"] = content.columns if content.is_matrix else content.width  # a row of numbers, or of NAME_encode
    words |= {"classes": len(content.classes or []), "columns": ", ".join(map(str, range(content.width)))}
    source = SourceCode("h", content, c_array, place="o + 1" if content.single else "o", **words)
    declared = [c_array(f"{name}_input_names", content.names)] if content.is_matrix and content.names else []
    if content.classes is not None:
        labels = content.classes if isinstance(content.classes[0], str) else np.array(content.classes) + 0
        declared.append(c_array(f"{name}_classes", labels, "long long"))
    declarations = "".join(f"\n{line}" for line in declared)
    return source.file(declarations=declarations, encode=_c_encode(content, name, source))


def _c_encode(content: ModelContent, name: str, source: SourceCode) -> str:
    """Return the function that encodes a row: numbers and, unless the table is a matrix of numbers, texts."""
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
            arrays.append(c_array(values, column.values if column.is_text else column.numbers))
            arrays.append(c_array(f"{own}_rows", column.rows))
            found = f"{name}_find_{kind}s({cell}, {values}, {len(column.values)})"
            work.append(f"    memcpy(x + {place}, {own}_rows[{found}], sizeof {own}_rows[0]);")
        else:  # a number, scaled, and the indicator of a missing cell, if there is one
            value = cell
            if column.scaling is not None:
                centre, scale, offset = column.scaling
                value = f"({cell} - ({centre!r})) * {scale!r} + {offset!r}"
            value = f"asinh(({value} - ({column.origin!r})) / {column.unit!r})" if column.unit else value
            texts = [value, "0.0"][: column.width]
            if column.missing is not None:
                pairs = zip(column.missing, texts, strict=True)
                texts = [f"{name}_is_nan(&{cell}) ? {missing!r} : {text}" for missing, text in pairs]
            work += [f"    x[{place + c}] = {text};" for c, text in enumerate(texts)]
        place += column.width
    if not content.is_matrix:
        for kind, own_names in names.items():
            arrays.append(f"enum {{ {name}_{kind}s = {len(own_names)} }};")
            arrays.append(c_array(f"{name}_{kind}_names", own_names))
    function = source.fill("encode_matrix" if content.is_matrix else "encode_table", work="\n".join(work))
    return "\n".join([*arrays, "", function])


def c_array(name: str, values: np.ndarray | Sequence[Any], integer: str = "int") -> str:
    """Return an array of numbers or texts; each row of a matrix has a line of its own.

    C has no empty arrays, so that of no texts contains a null pointer.
    """
    table = values if isinstance(values, np.ndarray) else np.array(values or [0], dtype=object)
    kind = {"i": integer, "O": "char *const"}.get(table.dtype.kind, "double")
    rows = [_braces(row) for row in table.tolist()]
    body = ",".join(f"\n    {row}" for row in rows) if table.ndim > 1 else ", ".join(rows)
    return f"static const {kind} {name}{''.join(f'[{size}]' for size in table.shape)} = {{{body}}};"


def _braces(value: Any) -> str:
    if isinstance(value, list):
        return f"{{{', '.join(map(_braces, value))}}}"
    return c_string(value) if isinstance(value, str) else repr(value)


def c_string(text: str) -> str:
    """A C string literal in UTF-8; all but plain characters are octal escapes (no trigraphs, no end of comment)."""
    plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-.,:;+=()<>[]"
    return '"' + "".join(chr(b) if chr(b) in plain else f"\\{b:03o}" for b in text.encode()) + '"'


# Python ---------------------------------------------------------------------------------------------------------------
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
    columns = []
    for own in content.inputs:
        rows = dict(zip(own.values, own.rows.tolist(), strict=False))
        # the encoded columns of values that are not known; of a number, those that follow it
        others = own.rows[-2].tolist() if own.values else [0.0] * (own.width - 1)
        columns.append((own.name, own.place, rows, others, own.missing, own.scaling, own.origin, own.unit))
    declared = [f"INPUTS = [{', '.join(map(ascii, content.names))}]"] if content.names else []
    declared += [] if content.classes is None else [f"CLASSES = [{', '.join(map(ascii, content.classes))}]"]
    source = SourceCode("py", content, _python_list, prefix="", first="[0]" if content.single else "")
    return source.file(declarations="\n".join(declared), columns=_lines(columns), count=content.columns)


def _python_list(name: str, values: np.ndarray) -> str:
    """Return an array as nested lists; each row of a matrix has a line of its own."""
    return f"{name} = [\n{_lines(values.tolist())}\n]" if values.ndim > 1 else f"{name} = {values.tolist()!r}"


def _lines(values: Sequence[Any]) -> str:
    """Return the values of a list, each on a line of its own."""
    return "\n".join(f"    {value!a}," for value in values)
