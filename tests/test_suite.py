"""The suite itself: a test that takes long has to be marked slow."""

from pathlib import Path

import pytest

TESTS = """
import subprocess, sys, time
import pytest

BUSY = "import time\\nwhile time.process_time() < 0.1: pass"

def test_quick():
    time.sleep(0.1)

def test_own():
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass

def test_child():
    subprocess.run([sys.executable, "-c", BUSY], check=True)

@pytest.mark.slow
def test_marked():
    test_own()
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """A run of TESTS under the hooks of conftest.py, with a limit that they reach sooner."""
    conftest = (Path(__file__).parent / "conftest.py").read_text(encoding="utf-8")
    assert "CPU_LIMIT = 2.0" in conftest
    pytester.makeconftest(conftest.replace("CPU_LIMIT = 2.0", "CPU_LIMIT = 0.05"))
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makepyfile(TESTS)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*options, ci):
        with monkeypatch.context() as patch:  # not beyond the run: the hooks look at CI when this test ends, too
            patch.setenv("CI", ci)
            return pytester.runpytest_inprocess("--assert=plain", *options)

    return run


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "1")], ids=["one-process", "xdist"])
def test_a_long_test_that_is_not_marked_slow_fails_in_continuous_integration(run, options):
    result = run(*options, ci="true")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["took 0.? s of CPU time; above 0.05 s, a test needs @pytest.mark.slow"])
    result.stdout.fnmatch_lines_random(["FAILED *::test_own *", "FAILED *::test_child *"])


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "1")], ids=["one-process", "xdist"])
def test_elsewhere_it_is_reported(run, options):
    result = run(*options, ci="")
    result.assert_outcomes(passed=4)
    lines = [line.split("::")[1].split()[0] for line in result.outlines if line.endswith("; mark it slow")]
    assert lines == ["test_own", "test_child"]
