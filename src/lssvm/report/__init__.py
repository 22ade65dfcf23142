"""An HTML report on a fitted model in one file without external resources: charts are inline SVG.

`page` assembles the sections; each section is a function of the `Facts`, in a module of its own or with related ones.
"""

from .page import to_html

__all__ = ["to_html"]
