"""API pages that look like the code: sections of docstrings, links between API, guides and gallery.

- Parameters and Attributes become definition lists whose terms are code. Napoleon would make them fields, in which
  `support_` is a reference called "support" and `C_, kernel_` a variable called "kernel" of type "C,".
- Every public object ends with links to the guides and to the examples that use it.
- A name in code style, in a guide or a docstring, links to the API, the first time on each page.
- A public name without an entry in the API reference is a warning.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import lssvm

ROOT = Path(__file__).parents[2]
LOGGER = logging.getLogger(__name__)
MODULES = [name for name in lssvm.__all__ if inspect.ismodule(getattr(lssvm, name))]
METHODS = [
    "predict_distribution",
    "predict_interval",
    "predict_proba",
    "partial_fit",
    "fit_chunks",
    "components",
    "leave_one_out",
]
# The guides of an object: those of its own name, else those of its module.
GUIDES = {
    "LSSVR": "start regression tuning",
    "LSSVC": "start classification tuning",
    "predict_distribution": "intervals",
    "predict_interval": "intervals",
    "predict_proba": "classification intervals",
    "partial_fit": "big_data",
    "fit_chunks": "big_data",
    "components": "additive",
    "leave_one_out": "performance theory",
    "save": "model_files",
    "load": "model_files",
    "kernels": "choosing",
    "Additive": "additive",
    "Spline": "additive",
    "Choice": "tuning",
    "Function": "extending",
    "Kernel": "extending",
    "sparsify": "sparse which_sparsifier",
    "Components": "additive",
    "Substrate": "additive",
    "Learned": "sparse tuning benchmarks",
    "tune": "tuning",
    "robust": "robust",
    "WeightFunction": "extending",
    "columns_used": "regression",
    "inverse_widths": "regression",
    "coverage_path": "intervals",
    "loo_probabilities": "intervals",
    "reliability": "intervals",
    "export": "model_files",
    "report": "command_line",
}
# Examples that use an object under another name; all others are found by name.
EXAMPLES = {
    "c_path": "c-path",
    "width_surface": "width-surface",
    "loo_values": "leave-one-out",
    "coverage_path": "coverage",
    "loo_probabilities": "reliability",
    "reliability": "reliability",
    "columns_used": "widths",
    "inverse_widths": "widths",
    "Hampel": "robust",
}
EXTERNAL = {  # scikit-learn's by their short names
    line.split()[0].rpartition(".")[2]: line.split()[0]
    for line in (ROOT / "docs" / "inventories" / "sklearn.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
}
SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"(?:lssvm\.)?([A-Za-z_][\w.]*)(?:\(.*\))?", re.DOTALL)


@cache
def public() -> dict[str, str]:
    """Full names of all public objects by the names that texts use: RBF, kernels.RBF, fit_chunks."""
    names = {name: f"lssvm.{name}" for name in ("LSSVR", "LSSVC", "save", "load")}
    for module in MODULES:
        for name in importlib.import_module(f"lssvm.{module}").__all__:
            names[f"{module}.{name}"] = f"lssvm.{module}.{name}"
            if name[0].isupper():  # a bare `scores` may be anything
                names.setdefault(name, f"lssvm.{module}.{name}")
    for name in METHODS:
        owner = "LSSVC" if name == "predict_proba" else "LSSVR"
        names[f"{owner}.{name}"] = f"lssvm.{owner}.{name}"
    bare = {name: f"lssvm.LSSVR.{name}" for name in ("predict_interval", "partial_fit", "fit_chunks")}
    return names | bare | {"predict_proba": "lssvm.LSSVC.predict_proba"}


# Docstrings -----------------------------------------------------------------------------------------------------------
def rewrite_sections(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Replace the sections of a docstring, before napoleon sees them."""
    lines[:] = SECTION.sub(lambda match: definitions(*match.groups()), "\n".join(lines) + "\n").split("\n")


def add_links(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Add the links of an object, after napoleon: its last section would take them in."""
    lines += ["", *links(name), ""]


def definitions(title: str, body: str) -> str:
    """A section "Parameters" or "Attributes" as a field that holds a definition list."""
    result = [f":{title}:"]
    for match in re.finditer(r"^(\S[^\n]*)\n((?:[ ]+[^\n]*\n|\n)*)", body, re.MULTILINE):
        names, _, kind = match[1].partition(" : ")
        term = ", ".join(f"``{name.strip()}``" for name in names.split(","))
        result += ["    " + (f"{term} : {linked(kind)}" if kind else term)]
        result += ["    " + line for line in match[2].rstrip().split("\n")] if match[2].strip() else ["        .."]
    return "\n".join(result) + "\n\n"


def linked(kind: str) -> str:
    """The words of a type, classes as references."""
    known = public() | EXTERNAL
    return re.sub(r"\b[A-Z]\w+\b", lambda match: f"`{match[0]}`" if match[0] in known else match[0], kind)


def links(name: str) -> Iterator[str]:
    """Fields that name the guides and the examples that use an object."""
    if name not in public().values() and name.replace("LSSVC", "LSSVR") not in public().values():
        return
    module, _, short = name.removeprefix("lssvm.").rpartition(".")
    guides = GUIDES.get(short, GUIDES.get(module, "")).split()
    examples = [label for label, words in gallery().items() if short in words or EXAMPLES.get(short) == label]
    if guides:
        yield f":Guides: {', '.join(f':doc:`/{guide}`' for guide in guides)}"
    if examples:
        yield f":Gallery: {', '.join(f':ref:`{example}`' for example in examples[:4])}"


@cache
def gallery() -> dict[str, set[str]]:
    """Names that the scripts of the gallery use, by label, in the order of the page."""
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    words = {}
    for label in re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE):
        tree = ast.parse((ROOT / "examples" / f"plot_{label.replace('-', '_')}.py").read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        words[label] = names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return words


# References -----------------------------------------------------------------------------------------------------------
def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Names in code style become references to the API or, with intersphinx, to other packages."""
    known = EXTERNAL | public()
    for reference in doctree.findall(addnodes.pending_xref):
        if reference.get("refdomain") == "py" and reference.get("reftype") == "obj":
            reference["reftarget"] = known.get(reference["reftarget"], reference["reftarget"])
    if app.env.docname.startswith("api"):
        return
    seen = set()
    for literal in list(doctree.findall(nodes.literal)):
        match = CALL.fullmatch(literal.astext())
        word = match[1] if match else ""
        target = known.get(word, word if word.startswith(("sklearn.", "numpy.", "scipy.", "pandas.")) else None)
        if target is None or target in seen or inside_a_link(literal):
            continue
        seen.add(target)
        options = {"refdomain": "py", "reftype": "obj", "refexplicit": True, "refwarn": False}
        reference = addnodes.pending_xref("", reftarget=target, refdoc=app.env.docname, **options)
        literal.replace_self(reference)
        reference += literal


def inside_a_link(node: nodes.Node) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, nodes.reference | nodes.title | addnodes.pending_xref):
            return True
    return False


def check_complete(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of public names that no page documents."""
    documented = env.domains["py"].objects
    for name in sorted(set(public().values()) - set(documented)):
        LOGGER.warning("%s is public, but not in the API reference", name, type="lssvm", subtype="api")


# Directives -----------------------------------------------------------------------------------------------------------
class Summaries(SphinxDirective):
    """A table of public objects, whose names are the content, with the first line of each docstring (reST only)."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        table = [".. list-table::", "   :class: summaries", "   :widths: auto", ""]
        for name in filter(None, self.content):
            full = public()[name]
            module, _, short = full.rpartition(".")
            documentation = inspect.getdoc(getattr(importlib.import_module(module), short)) or ""
            table += [f"   * - :py:obj:`{name} <{full}>`", f"     - {documentation.partition(chr(10))[0]}"]
        return self.parse_text_to_nodes("\n".join(table))


class Source(SphinxDirective):
    """The source of a public object, wherever it is defined: ``{source} lssvm.kernels.Polynomial``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].rpartition(".")
        item = getattr(importlib.import_module(module), name)
        self.env.note_dependency(str(inspect.getsourcefile(item)))
        code = inspect.getsource(item)
        return [nodes.literal_block(code, code, language="python", classes=["source"])]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", rewrite_sections, priority=400)  # napoleon has 500
    app.connect("autodoc-process-docstring", add_links, priority=600)
    app.connect("doctree-read", link_names)
    app.connect("env-check-consistency", check_complete)
    app.add_directive("summaries", Summaries)
    app.add_directive("source", Source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
