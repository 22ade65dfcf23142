"""The page: its sections in order, and the frame around them."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from .. import __version__
from ..arrays import ArrayLike
from ..diagnose import check_fitted
from ..estimators import LSSVC, LSSVR
from ..files import written
from ..persist.schema import TABLE, check
from ..progress import counted
from .columns import data_section, effects_section, importance_section
from .facts import Facts
from .markup import escaped
from .quality import intervals_section, other_rows_section, quality_section, residuals_section
from .technical import technical_section
from .verdict import verdict_section

FRAME, STYLE, SCRIPT = (Path(__file__).with_name(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))

TASKS = {"squared": "regression", "poisson": "count (Poisson loss)", "gamma": "positive target (gamma loss)"}


def to_html(
    model: LSSVR | LSSVC,
    path: str | os.PathLike[str] | None = None,
    *,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    title: str | None = None,
    about: dict[str, Any] | None = None,
) -> str:
    """Write an HTML report on a fitted model, which begins with a verdict in plain words.

    The verdict compares the leave-one-out error with that of a linear model and of a constant. The report then shows
    which columns matter and how (`diagnose.importance`, `diagnose.effects`), how well rows are predicted, what is odd
    about the data and, at the end, kernel, C, members and checks.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted, or loaded from a file.
    path : path or None
        File to write; if None, the page is only returned.
    X, y : arrays or None
        Other rows and their targets; they add a section on how well they are predicted.
    title : str or None
        Heading; if None, it contains the name of the target.
    about : dict or None
        Additional information about the fit: ``target``, ``source``, ``model`` (names), ``warnings`` (list of str),
        ``seconds`` (dict of numbers), ``row`` (number of the first row in the source), ``dropped`` (indices of rows of
        the source that were not used). If None, the model's ``table_`` is used, which the command line writes.

    Returns
    -------
    str
        The page, at most about 1 MB in UTF-8.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels, report
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> page = report.to_html(LSSVR(kernels.RBF(13.1), C=1.0).fit(X, y))
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    check_fitted(model)
    if (X is None) != (y is None):
        raise ValueError("to_html: give both X and y of the other rows, or neither.")
    about = getattr(model, "table_", {}) if about is None else about
    check(about, TABLE, "about", {})
    facts = Facts(model, about)
    sections = [
        ("verdict", "Verdict", verdict_section(facts)),
        ("other", "Other rows", "" if X is None else other_rows_section(facts, X, y)),
        ("importance", "Which columns matter most", importance_section(facts)),
        ("effects", "How the prediction depends on the columns", effects_section(facts)),
        ("quality", "Predictions of new rows", quality_section(facts)),
        ("intervals", "Prediction sets" if facts.classes else "Prediction intervals", intervals_section(facts)),
        ("residuals", "Rows with the largest errors", residuals_section(facts)),
        ("data", "Data", data_section(facts)),
        ("technical", "Technical details", technical_section(facts)),
        ("use", "How to use this model", _usage_section(facts)),
    ]
    heading = title or f"Model of {facts.target}"
    page = _page(heading, facts, [section for section in sections if section[2]])
    if path is not None:
        with written(path) as file:
            file.write(page.encode())
    return page


def _usage_section(facts: Facts) -> str:
    name = str(facts.about.get("model") or "model.lssvm")
    start = "import lssvm\n" + ("" if facts.about.get("model") else f"lssvm.save(model, {name!r})\n")
    names = ", ".join(facts.names[:6]) + (", ..." if len(facts.names) > 6 else "")
    columns = f"{counted(len(facts.names), 'column')}: {names}".replace("\n", " ")
    more = "predict_proba(X)\nmodel.predict_set" if facts.classes else "predict_interval"
    python = f"{start}model = lssvm.load({name!r})\nmodel.predict(X)  # {columns}\nmodel.{more}(X, coverage=0.9)"
    predict = f"lssvm predict {name} new_rows.csv\n" if hasattr(facts.model, "feature_names_in_") else ""
    parts = {"In Python": python, "In a shell": f"{predict}lssvm inspect {name}"}
    blocks = [f"<h3>{where}</h3><pre tabindex=0><code>{escaped(text)}</code></pre>" for where, text in parts.items()]
    return "".join(blocks)


def _hash(text: str) -> str:
    """Return the hash by which the content security policy of the page allows only its own style and script."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _page(heading: str, facts: Facts, sections: Sequence[tuple[str, str, str]]) -> str:
    """Return the sections (id, heading, content) with a header, navigation and footer."""
    links = body = ""
    for name, title, content in sections:
        links += f'<li><a href="#{name}">{escaped(title)}</a></li>'
        top = f'<h2 id="{name}-title">{escaped(title)}</h2>'
        body += f'<section id="{name}" aria-labelledby="{name}-title">{top}\n{content}</section>\n'
    task = f"classification, {len(facts.classes)} classes" if facts.classes else TASKS[facts.model.loss]
    source = f", {escaped(facts.about['source'])}" if facts.about.get("source") else ""
    words = {"heading": escaped(heading), "task": task, "source": source, "links": links, "sections": body}
    words |= {"version": escaped(__version__), "style": STYLE, "script": SCRIPT}
    return Template(FRAME).substitute(words, style_hash=_hash(STYLE), script_hash=_hash(SCRIPT))
