"""python -m examples [NAME ...]: run the scripts plot_NAME.py, save their figures and write the gallery page."""

import argparse
import ast
import io
import runpy
import time
from pathlib import Path

import matplotlib
from PIL import Image

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PICTURES = DOCS / "images" / "gallery"
ORDER = [  # the most useful to a newcomer first
    "fit_and_interval",
    "robust",
    "two_inputs",
    "classes",
    "several_classes",
    "coding_and_loss",
    "kernels",
    "c_path",
    "width_surface",
    "leave_one_out",
    "coverage",
    "reliability",
    "explain",
    "widths",
    "several_outputs",
    "sparsity_path",
    "basis_points",
    "learned_points",
    "substrate_path",
    "maximal_variation",
    "components",
    "partial_fit",
]
INTRODUCTION = """# Gallery

<!-- written by python -m examples -->

`python -m examples` draws all figures and writes this page; `python examples/plot_NAME.py` shows one of them. The
scripts need only `pip install "lssvm[plot]" pandas`.
"""


def script(name: str) -> Path:
    return HERE / f"plot_{name}.py"


def label(name: str) -> str:
    """What links to a section of the page."""
    return name.replace("_", "-")


def about(name: str) -> tuple[str, str]:
    """Title and text of a script, from its docstring."""
    documentation = ast.get_docstring(ast.parse(script(name).read_text(encoding="utf-8")))
    title, _, text = str(documentation).partition("\n")
    return title.rstrip("."), text.strip()


def page() -> str:
    """The gallery in Markdown: a grid of pictures, then a section for each."""
    titles = {name: about(name)[0] for name in ORDER}
    grid = [
        f"- [![{title}](images/gallery/{name}.png)](#{label(name)})\n\n  [{title}](#{label(name)})"
        for name, title in titles.items()
    ]
    sections = [
        f"({label(name)})=\n\n## {titles[name]}\n\n{about(name)[1]}\n\n"
        f"![{titles[name]}](images/gallery/{name}.png)\n\n"
        f"<details><summary>examples/plot_{name}.py</summary>\n\n"
        f"```{{literalinclude}} ../examples/plot_{name}.py\n:language: python\n```\n\n</details>\n"
        for name in ORDER
    ]
    return "\n".join([INTRODUCTION, "::::{container} gallery", *grid, "::::\n", *sections])


def draw(name: str, folder: Path) -> None:
    """Run a script and save the figure that it leaves."""
    from matplotlib import pyplot

    figure = runpy.run_path(str(script(name)))["figure"]
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    pyplot.close("all")
    picture = Image.open(buffer).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    picture.save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m examples", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ORDER))
    names = parser.parse_args().names or ORDER
    matplotlib.use("Agg")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in names:
        start = time.process_time()
        draw(name, PICTURES)
        print(f"{name:<20} {time.process_time() - start:5.1f} s CPU")
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")
