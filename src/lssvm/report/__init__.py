"""One HTML file about a fitted model, with nothing to fetch: charts are inline SVG, style and script are hashed.

`page` puts the sections together; each section is a function of the `Facts` in a module of its own or of a few alike.
"""

from .page import to_html

__all__ = ["to_html"]
