"""The documents are true: all snippets of README.md and docs run and show what they give; examples draw the gallery.

A snippet is a fenced block. ``python`` is executed; ``pycon`` also has to print what the page shows, up to a unit of
the last digit or two per cent; ``console`` has to print the words that the page shows, with any numbers; ``c`` is
written to main.c. Blocks of a page share their names. A comment above a block can say ``<!-- needs: NAME -->``, with a
package or a program, or ``<!-- not run: reason -->``.
"""

import doctest
import math
import pkgutil
import re
import shlex
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

import lssvm
from lssvm import LSSVC, LSSVR, diagnose, export, kernels, plotting, report, robust, sparsify, tune
from lssvm.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
MODULES = ["lssvm", *(module.name for module in pkgutil.walk_packages(lssvm.__path__, "lssvm."))]
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


def blocks(page):
    """(remark, language, text, line) of every fenced block."""
    text = page.read_text(encoding="utf-8")
    pattern = r"(?:^<!-- (needs|not run): ([^\n]*?) -->\n)?^```(\w*)[^\n]*\n(.*?)^```[ ]*$"
    for match in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        remark, what, language, body = match.groups()
        yield (remark, what), language, body, text.count("\n", 0, match.start(4))


def is_near(got, shown):
    """Whether a number is what the page shows, up to a unit of its last digit or two per cent."""
    digits = len(shown.partition(".")[2]) if "e" not in shown else 0
    return math.isclose(float(got), float(shown), rel_tol=0.02, abs_tol=1.001 * 10.0**-digits)


class Near(doctest.OutputChecker):
    """Equal words, near numbers."""

    def check_output(self, want, got, optionflags):
        words = [" ".join(NUMBER.sub("#", text).replace("[ ", "[").split()) for text in (want, got)]
        pairs = zip(NUMBER.findall(got), NUMBER.findall(want), strict=False)
        return words[0] == words[1] and all(is_near(*pair) for pair in pairs)


def printed(command):
    """What a command prints. lssvm and python run in this process, because they take a second to start."""
    source, _, last = command.rpartition(" | ")
    last, _, file = last.partition(" > ")
    name, *words = shlex.split(last)
    if name not in ("lssvm", "python"):
        return subprocess.run(["bash", "-c", f"{command} 2>&1"], stdout=subprocess.PIPE, text=True).stdout
    if name == "python":
        exec(words[1], {})
        return ""
    given = subprocess.run(["bash", "-c", source], stdout=subprocess.PIPE, check=True).stdout
    result = CliRunner().invoke(main, words, prog_name="lssvm", input=given)
    if file:
        Path(file).write_bytes(result.stdout_bytes)
    return result.stderr if file else result.output


def run_console(commands):
    """Run the lines after "$" and compare the words of what they print."""
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", commands, re.MULTILINE):
        got = printed(command)
        words = [re.sub(r"\s+", " ", NUMBER.sub("#", text)).strip() for text in (shown, got)]
        assert words[0] == words[1], got


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_snippets_run_and_show_what_they_give(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # a page may write a module and import it
    names = {"__name__": page.stem}
    for (remark, what), language, body, line in blocks(page):
        if remark == "not run" or (remark == "needs" and not installed(what)):
            continue
        if language == "python":
            exec(compile("\n" * line + body, str(page), "exec"), names)
        elif language == "pycon":
            runner = doctest.DocTestRunner(Near(), verbose=False)
            example = doctest.DocTestParser().get_doctest(body, names, page.name, str(page), line)
            runner.run(example, clear_globs=False)
            names = example.globs
            assert runner.failures == 0
        elif language == "console":
            pytest.importorskip("pyarrow")
            run_console(body)
        elif language == "c":
            Path("main.c").write_text(body, encoding="utf-8")


def installed(name):
    """Whether a package or a program is there."""
    try:
        import_module(name)
    except ImportError:
        return shutil.which(name) is not None
    return True


def test_a_wrong_figure_or_word_is_seen():
    checker = Near()
    assert checker.check_output("rmse 23.04\n", "rmse 23.05\n", 0)
    assert not checker.check_output("rmse 23.04\n", "rmse 24.04\n", 0)
    assert not checker.check_output("rmse 23.04\n", "mae 23.04\n", 0)
    assert not checker.check_output("9 vectors\n", "11 vectors\n", 0)
    assert not checker.check_output("", "something\n", 0)


SLOW = "lssvm.tune.held_out"


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == SLOW)) for name in MODULES])
def test_docstring_examples(name):
    assert doctest.testmod(import_module(name)).failed == 0


def test_public_classes_and_functions_have_examples():
    finder = doctest.DocTestFinder(recurse=False)
    public = [LSSVR, LSSVC, report.to_html, lssvm.save, lssvm.load, export.to_c, export.to_python, diagnose.scores]
    public += [getattr(module, name) for module in (sparsify, tune, plotting) for name in module.__all__]
    classes = [getattr(module, name) for module in (kernels, robust) for name in module.__all__]
    public += [item for item in classes if is_complete(item)]
    for item in public:
        assert any(test.examples for test in finder.find(item)), item


@pytest.mark.parametrize("estimator", [LSSVR, LSSVC])
def test_the_reference_lists_every_method_of_an_estimator(estimator):
    text = (ROOT / "docs/api/estimators.md").read_text(encoding="utf-8")
    listed = re.search(rf"lssvm.{estimator.__name__}\n +:members: (.*)\n", text)[1].split(", ")
    own = {
        name
        for kind in estimator.__mro__
        if kind.__module__.startswith("lssvm")
        for name, value in vars(kind).items()
        if (callable(value) or "AvailableIf" in type(value).__name__) and not name.startswith(("_", "set_"))
    }
    assert set(listed) == own


def is_complete(item):
    """Neither a base class nor a function."""
    return isinstance(item, type) and item not in (kernels.Kernel, robust.WeightFunction)


# README and gallery ---------------------------------------------------------------------------------------------------
def test_readme_starts_with_two_commands_of_one_line():
    """What .ci/run and a newcomer paste: try it, test it."""
    try_it, test_it = [body for _, language, body, _ in blocks(ROOT / "README.md") if language == "bash"][:2]
    for block in (try_it, test_it):
        assert len(block.splitlines()) == 1
    assert "lssvm demo" in try_it
    assert "pytest" in test_it


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name}: {target}"


FENCE = re.compile(r"\s*(`{3,}|~{3,}|:{3,})")
ITEM = re.compile(r"\s*([-+*]|\d+[.)])\s")
STARTS = re.compile(r" {0,3}(([-+*]|1[.)]|#{1,6})\s|>|(=+|-+|\+{3,})\s*$)")  # a list, a heading, a quotation, a break


def lost(text):
    """(line, reason) of what is not shown as it is written: comments, rows with surplus cells, and so on."""
    fence, opened, above, cells, in_list = "", 0, "", 0, False
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence or mark:
            opened = opened if fence else number
            fence = mark[1] if not fence else "" if line.strip() == fence else fence
            above, cells = "", 0
            continue
        if line.lstrip().startswith("%"):
            yield number, "a comment of MyST"
        if "<!--" in re.sub(r"(`+).*?\1", "", line) and not re.fullmatch(r"<!-- [^>]* -->", line):
            yield number, "a comment that swallows text"
        found = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        if found and cells not in (0, found):
            yield number, "a row with another number of cells than the header"
        is_paragraph = above and not in_list and not above.startswith(("#", "|", "<"))
        if is_paragraph and STARTS.match(line):
            yield number, "a line of a paragraph that starts something else"
        in_list = bool(line) and (in_list or bool(ITEM.match(line)))
        above, cells = line, found
    if fence:
        yield opened, "a block of code that is not closed"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_show_all_their_text(page):
    assert list(lost(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a loss (27\n%) and more", 2),
        ("| a | b |\n|---|---|\n| 1 | 2 | 3 |", 3),
        ("| a |\n|---|\n| `x|y` |", 3),
        ("text <!-- a remark", 1),
        ("<!-- a remark --> text", 1),
        ("a difference of 2\n- 1 and", 2),
        ("text\n---\nmore", 2),
        ("text\n```python\n% no comment\n", 2),
    ],
)
def test_text_that_is_not_shown_is_found(text, line):
    assert [number for number, _ in lost(text)] == [line]


def test_every_example_is_in_the_gallery_and_the_page_is_current():
    pytest.importorskip("matplotlib")
    gallery = import_module("examples.__main__")
    scripts = sorted(path.stem.removeprefix("plot_") for path in (ROOT / "examples").glob("plot_*.py"))
    assert sorted(gallery.ORDER) == scripts
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == gallery.page()
    for name in scripts:
        assert (gallery.PICTURES / f"{name}.png").stat().st_size < 100_000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Rounding errors")  # plot_kernels is close to the limit
@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "examples").glob("plot_*.py")))
def test_examples_draw(name, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    gallery = import_module("examples.__main__")
    short = name.removeprefix("plot_")
    gallery.draw(short, tmp_path)
    assert (tmp_path / f"{short}.png").stat().st_size > 5000
