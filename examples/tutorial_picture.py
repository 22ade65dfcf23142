"""python -m examples.tutorial_picture: run the tutorial as far as its report, and save the pictures of the page.

Needs chromium, besides ``pip install "lssvm[plot]" pandas``.
"""

import contextlib
import doctest
import re
import tempfile
from pathlib import Path

import matplotlib
from PIL import Image

from .report_picture import photograph

DOCS = Path(__file__).parent.parent / "docs"

if __name__ == "__main__":
    matplotlib.use("Agg")
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8").partition("![The report")[0]
    names = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for language, body in re.findall(r"^```(python|pycon)\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
            exec(body if language == "python" else doctest.script_from_examples(body), names)
        effects = Image.open("effects.png").convert("RGB").quantize(128, dither=Image.Dither.NONE)
        effects.save(DOCS / "images" / "tutorial_effects.png", optimize=True)
        photograph(Path(folder, "rents.html"), DOCS / "images" / "tutorial_report.png", 1270)
