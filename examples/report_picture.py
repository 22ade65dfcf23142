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

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        load_diabetes(as_frame=True, scaled=False).frame.to_csv(Path(folder, "diabetes.csv"), index=False)
        command = ["fit", "diabetes.csv", "-y", "target", "-o", "diabetes.lssvm", "--report", "diabetes.html"]
        subprocess.run([sys.executable, "-c", "from lssvm.cli import main; main()", *command], cwd=folder, check=True)
        browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser += [f"--user-data-dir={folder}/chromium", "--hide-scrollbars", "--window-size=1140,1450"]
        subprocess.run(
            [*browser, f"--screenshot={PICTURE}", f"file://{folder}/diabetes.html"],
            check=True,
            stderr=subprocess.DEVNULL,
        )
    picture = Image.open(PICTURE).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(PICTURE, optimize=True)
