"""python -m examples.tutorial_picture: run the tutorial as far as its picture, and save that picture for the page."""

import contextlib
import doctest
import re
import tempfile
from pathlib import Path

import matplotlib
from PIL import Image

DOCS = Path(__file__).parent.parent / "docs"

if __name__ == "__main__":
    matplotlib.use("Agg")
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8").partition("<!-- drawn by")[0]
    names = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for language, body in re.findall(r"^```(python|pycon)\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
            exec(body if language == "python" else doctest.script_from_examples(body), names)
        picture = Image.open("effects.png").convert("RGB").quantize(128, dither=Image.Dither.NONE)
        picture.save(DOCS / "images" / "tutorial_effects.png", optimize=True)
