"""The library stays small: lines of code, files, and the functions of lssvm that a default fit calls."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import lssvm
from lssvm import LSSVC, LSSVR

ROOT = Path(__file__).parents[1]
SOURCE = Path(lssvm.__file__).parent
MOST_LINES, MOST_FILES, LONGEST_FILE = 16_740, 110, 450
MOST_FUNCTIONS, MOST_LEVELS = 220, 22


@pytest.fixture(scope="module")
def texts():
    return {str(file.relative_to(SOURCE)): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}


@pytest.mark.slow
def test_the_source_stays_small(texts):
    """Without comments, docstrings and blank lines; version 0.2.0 had 19,612 code lines in 164 files."""
    code_lines = runpy.run_path(str(ROOT / ".ci" / "code_lines.py"))["code_lines"]
    assert sum(map(code_lines, texts.values())) <= MOST_LINES
    assert len(texts) <= MOST_FILES


def test_no_file_is_long(texts):
    lengths = {name: len(text.splitlines()) for name, text in texts.items()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def functions_called(function):
    """The named functions of lssvm that a call runs, and the largest number of them that wait for each other."""
    called, deepest, level = set(), 0, 0

    def trace(frame, event, argument):
        nonlocal deepest, level
        code = frame.f_code
        if not code.co_filename.startswith(str(SOURCE)) or code.co_name.startswith("<"):  # also comprehensions, lambdas
            return
        if event == "call":
            level += 1
            deepest = max(deepest, level)
            called.add((code.co_filename, code.co_qualname))
        elif event == "return":
            level -= 1

    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        function()
    finally:
        sys.setprofile(before)
    return called, deepest


@pytest.mark.slow
@pytest.mark.parametrize("model", [LSSVR(), LSSVC()], ids=["LSSVR", "LSSVC"])
def test_a_default_fit_can_be_followed(model):
    """Version 0.2.0: 322 functions and 28 levels for LSSVR, 310 and 26 for LSSVC."""
    draw = np.random.RandomState(0)
    X = draw.uniform(-1, 1, (200, 4))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + draw.normal(0, 0.1, 200)
    y = y if isinstance(model, LSSVR) else y > 0
    model.fit(X[:20], y[:20])  # the first fit of a process also looks up rules and libraries
    called, levels = functions_called(lambda: model.fit(X, y))
    assert len(called) <= MOST_FUNCTIONS
    assert levels <= MOST_LEVELS
