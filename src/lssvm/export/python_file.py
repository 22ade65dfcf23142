"""Export to a Python file without dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..coding import SURE, TINY
from ..estimators import LSSVC, LSSVR
from .model import ModelContent, read_model
from .source_text import Templates, kernel_functions

__all__ = ["to_python"]


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
    templates = Templates("model.py.in", sure=SURE, tiny=TINY)
    formulas = (member.kernel for member in content.members)
    functions, kernels = kernel_functions(formulas, Templates("kernels.py.in", prefix=""), _assignment)
    columns = [
        (column.name, column.place, column.known, column.unknown, column.missing, column.scaling)
        for column in content.inputs
    ]
    text = templates.fill(
        "file",
        title=content.title,
        size=content.size,
        constants="\n".join(_constants(content)),
        functions=functions,
        columns=_lines(columns),
        count=content.columns,
        members=_members(content, kernels, templates),
        methods=_methods(content, templates),
    )
    return f"{text}\n"


def _constants(content: ModelContent) -> list[str]:
    """The names of the inputs, the classes and the support vectors."""
    found = [f"INPUTS = [{', '.join(map(ascii, content.names))}]"] if content.names else []
    if content.classes is not None:
        found.append(f"CLASSES = [{', '.join(map(ascii, content.classes))}]")
    found.append("# support vectors")
    for number, points in enumerate(content.tables):
        found += [f"POINTS{number} = [", _lines(points.tolist()), "]"]
    return found


def _members(content: ModelContent, kernels: Sequence[str], templates: Templates) -> str:
    """The coefficients of the members, the list of the members, and the functions that this calls."""
    coefficients, lines = [], []
    for number, (member, kernel) in enumerate(zip(content.members, kernels, strict=True)):
        coefficients += [f"COEFFICIENTS{number} = [", _lines(member.coef.tolist()), "]"]
        line = f"{member.weight!r}, {kernel}, POINTS{member.table}, COEFFICIENTS{number}, {member.intercept.tolist()!r}"
        if content.classes is not None:
            line += f", {'couple' if member.coupled else 'calibrate'}, {member.slopes!r}"
        lines.append(f"    ({line}),")
    members = templates.fill(
        "members",
        coefficients="\n".join(coefficients),
        what="the models that are averaged" if len(lines) > 1 else "the model",
        more="" if content.classes is None else ", probabilities of its outputs, their slopes",
        members="\n".join(lines),
    )
    return "\n\n\n".join([*map(templates.fill, content.calibrations), members])


def _methods(content: ModelContent, templates: Templates) -> str:
    """The functions named after the methods of the model."""
    f = "f[0]" if content.single else "f"
    if content.classes is None:
        return templates.fill("regression", outputs=content.decisions, f=f)
    decision = templates.fill("decision_of_outputs", f=f)
    if content.mixes:
        f = "2.0 * p[1] - 1.0" if content.single else "[2.0 * value - 1.0 for value in p]"
        decision = templates.fill("decision_of_probabilities", f=f)
    choice = "CLASSES[int(f > 0)]" if content.single else "CLASSES[f.index(max(f))]"
    return templates.fill("classification", decision=decision, choice=choice)


def _assignment(name: str, values: np.ndarray) -> str:
    return f"{name} = {values.tolist()!r}"


def _lines(values: Sequence[Any]) -> str:
    """The values of a list, each on a line of its own."""
    return "\n".join(f"    {value!a}," for value in values)
