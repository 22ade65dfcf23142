"""Settings that have to precede imports, the limit on the time of quick tests, and fixtures of several files."""

import os
import stat
import sys
import threading
import time

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the suite runs in several processes
os.environ.setdefault("OMP_NUM_THREADS", os.environ["OPENBLAS_NUM_THREADS"])  # torch's threads spin while they wait
os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy reads it when it is imported; tests of array API inputs need it

CPU_LIMIT = 2.0  # seconds for a test that is not marked slow
HEAVY = {"dask", "matplotlib", "onnxruntime", "torch"}  # the first test that imports one takes a second for that


# The limit on CPU time ------------------------------------------------------------------------------------------------
def cpu_seconds():
    """CPU time of this process and of its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test that takes too long without being marked slow in continuous integration; report it elsewhere."""
    start, imported = cpu_seconds(), HEAVY & sys.modules.keys()
    result = yield
    spent = cpu_seconds() - start
    if spent > CPU_LIMIT and item.get_closest_marker("slow") is None and HEAVY & sys.modules.keys() == imported:
        if os.environ.get("CI"):
            message = f"took {spent:.1f} s of CPU time; above {CPU_LIMIT:g} s, a test needs @pytest.mark.slow"
            pytest.fail(message, pytrace=False)
        item.user_properties.append(("cpu_seconds", spent))  # reaches the controller of pytest-xdist
    return result


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("passed", []):
        for name, spent in report.user_properties:
            if name == "cpu_seconds":
                terminalreporter.write_line(f"{report.nodeid} took {spent:.1f} s of CPU time; mark it slow")


# Fixtures -------------------------------------------------------------------------------------------------------------
@pytest.fixture
def read_pipe():
    """A function (pipe, write) that returns what comes out of a FIFO while `write` runs."""

    def read(pipe, write):
        content = []
        reader = threading.Thread(target=lambda: content.append(pipe.read_bytes()), daemon=True)
        reader.start()
        write()
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        reader.join(timeout=10)
        return content[0]

    return read


@pytest.fixture
def in_pieces(monkeypatch):
    """Three threads share everything, in blocks of order 16."""
    from lssvm.arrays import linalg, threads

    for name, value in {"LEAF": 8, "TRIANGLE": 8, "BLOCK": 16, "NARROW": 4}.items():
        monkeypatch.setattr(linalg, name, value)
    monkeypatch.setattr(threads, "SMALL_PIECE", 1)
    monkeypatch.setattr(threads, "workers", lambda: 3)
