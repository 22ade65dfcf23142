"""How the documentation is built: python -m sphinx -W --keep-going docs docs/_build/html"""

import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

import lssvm

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "lssvm"
author = "The lssvm developers"
project_copyright = f"2026, {author}"
release = version = lssvm.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "lssvm_api",
]
exclude_patterns = ["_build", "_ext"]
root_doc = "index"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "py:obj"  # `name` in a docstring links to its entry, if there is one
smartquotes_action = "D"  # dashes, not quotes: "hampel" is a string

# The few names that these pages use are in docs/inventories as well: a build needs no network.
intersphinx_mapping = {
    name: (url, (None, f"inventories/{name}.txt"))
    for name, url in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "scipy": "https://docs.scipy.org/doc/scipy/",
        "sklearn": "https://scikit-learn.org/stable/",
        "pandas": "https://pandas.pydata.org/docs/",
    }.items()
}
intersphinx_timeout = 5

html_theme = "furo"
html_title = f"lssvm {release}"
html_static_path = ["_static"]
html_css_files = ["lssvm.css"]
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_exclude = ".linenos, .gp, .go"  # prompts and output are not copied
copybutton_copy_empty_lines = False


# MathML, which every browser draws by itself: MathJax would be fetched from the net -----------------------------------
def _inline(translator: object, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _display(translator: object, node: nodes.math_block) -> None:
    tex = node.astext().strip()
    if "\\\\" in tex and "\\begin" not in tex:
        tex = f"\\begin{{aligned}}{tex}\\end{{aligned}}"
    translator.body.append(f'<div class="math">{tex2mathml(tex, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))


html_math_renderer = "mathml"
