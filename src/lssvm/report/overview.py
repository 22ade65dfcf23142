"""The short sections: key figures, timings, usage."""

from __future__ import annotations

from .. import __version__, diagnose
from .facts import Facts
from .markup import escaped, html_table, rounded


def figures_section(facts: Facts) -> str:
    model, tiles = facts.model, []
    if facts.scores is not None and facts.classes:
        tiles += [
            ("leave-one-out error rate", f"{facts.scores['error_rate']:.2%}"),
            ("log loss", rounded(facts.scores["log_loss"])),
        ]
    elif facts.scores is not None:
        tiles += [
            ("leave-one-out RMSE", rounded(facts.scores["rmse"])),
            ("leave-one-out R²", rounded(facts.scores["r2"])),
        ]
    if facts.rows is not None:
        tiles.append(("rows", f"{facts.rows}"))
    tiles += [
        ("columns", f"{model.n_features_in_}"),
        ("support vectors", f"{len(diagnose.basis_points(model))}"),
    ]
    if facts.is_stack:
        tiles.append(("models in the stack", f"{len(facts.members)}"))
    else:
        tiles += [("C", rounded(model.C_)), ("kernel", type(model.kernel_).__name__)]
    return '<dl class="tiles">' + "".join(f"<div><dt>{a}</dt><dd>{escaped(b)}</dd></div>" for a, b in tiles) + "</dl>"


def timings_section(facts: Facts) -> str:
    seconds = facts.about.get("seconds")
    if not seconds:
        return ""
    return html_table(("task", "seconds"), [(str(name), f"{value:.2f}") for name, value in seconds.items()])


def usage_section(facts: Facts) -> str:
    name = str(facts.about.get("model") or "model.lssvm")
    save = "" if facts.about.get("model") else f"lssvm.save(model, {name!r})\n"
    python = f"import lssvm\n{save}model = lssvm.load({name!r})\nmodel.predict(X)  # {_columns_words(facts)}"
    python += "\nmodel.predict_proba(X)\nmodel.predict_set(X, coverage=0.9)" if facts.classes else ""
    python += "" if facts.classes else "\nmodel.predict_interval(X, coverage=0.9)"
    shell = f"lssvm inspect {name}"
    if facts.about.get("columns"):
        shell = f"lssvm predict {name} new_rows.csv\n" + shell
    return (
        f"<h3>In Python</h3><pre tabindex=0><code>{escaped(python)}</code></pre>"
        f"<h3>In a shell</h3><pre tabindex=0><code>{escaped(shell)}</code></pre>"
        f"<p>Written by lssvm {escaped(__version__)}.</p>"
    )


def _columns_words(facts: Facts) -> str:
    names = ", ".join(facts.names[:6]) + (", ..." if len(facts.names) > 6 else "")
    return f"{len(facts.names)} column(s): {names}".replace("\n", " ")
