"""The last section: how to use the model."""

from __future__ import annotations

from .._words import counted
from .facts import Facts
from .markup import escaped


def usage_section(facts: Facts) -> str:
    name = str(facts.about.get("model") or "model.lssvm")
    save = "" if facts.about.get("model") else f"lssvm.save(model, {name!r})\n"
    python = f"import lssvm\n{save}model = lssvm.load({name!r})\nmodel.predict(X)  # {_columns_words(facts)}"
    python += "\nmodel.predict_proba(X)\nmodel.predict_set(X, coverage=0.9)" if facts.classes else ""
    python += "" if facts.classes else "\nmodel.predict_interval(X, coverage=0.9)"
    shell = f"lssvm inspect {name}"
    if hasattr(facts.model, "feature_names_in_"):
        shell = f"lssvm predict {name} new_rows.csv\n" + shell
    return (
        f"<h3>In Python</h3><pre tabindex=0><code>{escaped(python)}</code></pre>"
        f"<h3>In a shell</h3><pre tabindex=0><code>{escaped(shell)}</code></pre>"
    )


def _columns_words(facts: Facts) -> str:
    names = ", ".join(facts.names[:6]) + (", ..." if len(facts.names) > 6 else "")
    return f"{counted(len(facts.names), 'column')}: {names}".replace("\n", " ")
