"""python -m examples.report_picture: fit the diabetes data as the page on the command line does, draw its report.

Needs chromium, besides the package and ``pip install "lssvm[files]"``.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_diabetes

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "report.png"


def photograph(page: Path, picture: Path, height: int) -> None:
    """Save the top of an HTML page as a small PNG file."""
    browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    browser += [f"--user-data-dir={page.parent}/chromium", "--hide-scrollbars", f"--window-size=1140,{height}"]
    subprocess.run([*browser, f"--screenshot={picture}", page.as_uri()], check=True, stderr=subprocess.DEVNULL)
    Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        load_diabetes(as_frame=True, scaled=False).frame.to_csv(Path(folder, "diabetes.csv"), index=False)
        command = ["fit", "diabetes.csv", "-y", "target", "-o", "diabetes.lssvm", "--report", "diabetes.html"]
        subprocess.run([sys.executable, "-c", "from lssvm.cli import main; main()", *command], cwd=folder, check=True)
        photograph(Path(folder, "diabetes.html"), PICTURE, 1450)
