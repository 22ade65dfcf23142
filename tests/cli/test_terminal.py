"""Help, signals, pipes, terminals and escape sequences, many in processes of their own."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from cli_cases import AGE, CITY, PRICE, PROGRAM, RNG, ROWS, lines


def test_version(run):
    assert run("--version").stdout.strip() == f"lssvm, version {version('lssvm')}"
    module = subprocess.run([sys.executable, "-m", "lssvm", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout == run("--version").stdout


def test_unknown_command_is_a_usage_error(run):
    assert run("nonsense").exit_code == 2


def test_help_imports_nothing_heavy():
    script = (
        "import sys\n"
        "from lssvm.cli import main\n"
        "for command in sorted(main.commands):\n"
        "    main([command, '--help'], standalone_mode=False)\n"
        "print(sorted({'numpy', 'scipy', 'sklearn', 'matplotlib', 'pyarrow'} & sys.modules.keys()))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "--output" in result.stdout
    assert result.stdout.splitlines()[-1] == "[]"


# Escape sequences -----------------------------------------------------------------------------------------------------
STEERING = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e"  # a title, a colour, a clear screen (C1), a reversed direction


@pytest.fixture
def steering(folder):
    """A table whose names, categories and labels would steer a terminal."""
    rows = [
        (str(age), f"{city}{STEERING}", f"{age > 50}{STEERING}") for age, city, _ in zip(AGE, CITY, PRICE, strict=True)
    ]
    names = [f"{name}{STEERING}" for name in ("age", "city", "old")]
    (folder / f"rows{STEERING}.csv").write_text(lines(rows, names), encoding="utf-8")
    return f"rows{STEERING}.csv", names


@pytest.mark.skipif(os.name != "posix", reason="names of files")
def test_text_of_the_data_does_not_steer_the_terminal(run, folder, steering):
    data, (age, city, old) = steering
    model, page = f"m{STEERING}.lssvm", f"r{STEERING}.html"
    rome = f"rome{STEERING}.csv"
    (folder / rome).write_text(f'{age},{city}\n40,"Rome{STEERING}\nfake: line"\n', encoding="utf-8")
    (folder / "gaps.csv").write_text(f"{age},{city},{old}\n,,yes\n1,,no\n", encoding="utf-8")
    commands = [
        ("fit", data, "-y", old, "-o", model, "--report", page),
        ("fit", data, "-y", "nothing", "-o", model),
        ("fit", rome, "-y", old, "-o", model),
        ("fit", "gaps.csv", "-y", old, "-o", f"gaps{model}"),
        ("fit", f"no{STEERING}", "-y", old, "-o", model),
        ("fit", data, "-y", old, "-o", f"no{STEERING}/m.lssvm"),
        ("inspect", model),
        ("predict", model, rome, "-o", "p.csv"),
        ("predict", model, "people.csv"),
        ("report", model, rome),
        ("export", model, "--to", "python", "-o", "m.py"),
    ]
    for command in commands:
        result = run(*command)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", result.output), command
        assert "Traceback" not in result.output
        assert not any(line.startswith("fake") for line in result.output.splitlines())
        assert "\\u001b" in result.output or "\\x1b" in result.output  # spelled out
    assert (folder / page).exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="terminals")
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["csv", "json"])
def test_predictions_are_escaped_on_a_terminal_only(run, folder, steering, options):
    import pty

    data, names = steering
    assert run("fit", data, "-y", names[2], "-o", "m.lssvm").exit_code == 0
    piped = run("predict", "m.lssvm", data, *options).stdout
    if not options:
        assert {line for line in piped.splitlines()[1:]} == {f"{own}{STEERING}" for own in (True, False)}
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "predict", "m.lssvm", data, *options], stdout=writer, stderr=subprocess.DEVNULL
    )
    os.close(writer)
    shown = b""
    with contextlib.suppress(OSError):  # a terminal whose other end is closed
        while part := os.read(reader, 65536):
            shown += part
    os.close(reader)
    assert process.wait(60) == 0
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown.decode().replace("\r\n", "\n"))
    assert shown.count(b"\\u202e") == 60
    if options:
        values = [json.loads(line) for line in shown.decode().splitlines()]
        assert values == [json.loads(line) for line in piped.splitlines()]


@pytest.mark.parametrize(
    ("labels", "formulas"),
    [
        (("=1+1", "ok"), {"=1+1"}),
        (("@SUM(A1)", "+cmd|x!A0"), {"@SUM(A1)", "+cmd|x!A0"}),
        (("-2+3", "-2"), {"-2+3"}),
        (("+1", "-1"), set()),
        (("+1", "-1.5", "x"), set()),  # texts that are numbers
        (("+", "-"), set()),
        (("a=b", "c-d"), set()),
    ],
)
def test_class_names_that_are_formulas_are_escaped(run, folder, labels, formulas):
    rows = [(str(age), labels[age % len(labels)]) for age in AGE]
    (folder / "c.csv").write_text(lines(rows, ("age", "class")))
    assert run("fit", "c.csv", "-y", "class", "-o", "c.lssvm").exit_code == 0
    objects = run("predict", "c.lssvm", "c.csv", "--json").stdout.splitlines()
    predicted = [str(json.loads(line)["prediction"]) for line in objects]
    result = run("predict", "c.lssvm", "c.csv")
    assert result.stdout.splitlines()[1:] == [f"'{label}" if label in formulas else label for label in predicted]
    assert ("--raw" in result.stderr) == bool(formulas)
    raw = run("predict", "c.lssvm", "c.csv", "--raw")
    assert raw.stdout.splitlines()[1:] == predicted
    assert "--raw" not in raw.stderr


# Processes ------------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_closed_pipe_leaves_no_traceback(folder, fitted):
    (folder / "many.csv").write_text(lines(ROWS * 500), encoding="utf-8")
    process = subprocess.Popen(
        [*PROGRAM, "predict", fitted, "many.csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "prediction\n"
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 1
    assert "Traceback" not in errors
    assert "Exception" not in errors


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="shell")
@pytest.mark.parametrize(
    ("arguments", "code", "errors"),
    [
        ("predict MODEL people.csv >&-", 1, "Error: standard output is closed: give -o FILE.\n"),
        ("inspect MODEL >&-", 1, "Error: standard output is closed: redirect it to a file.\n"),
        ("predict MODEL people.csv > p.csv 2>&-", 0, ""),
        ("predict MODEL nothing.csv 2>&-", 1, ""),
    ],
)
def test_closed_streams_leave_no_traceback(folder, fitted, arguments, code, errors):
    command = shlex.join(PROGRAM) + " " + arguments.replace("MODEL", shlex.quote(str(fitted)))
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == code
    assert result.stderr.startswith(errors)
    assert result.stderr.count("\n") == (errors != "")
    assert result.stdout == ""  # errors do not go there either
    if code == 0:
        assert len((folder / "p.csv").read_text().splitlines()) == 61


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("wait", [0.0, 0.3, 0.9])
def test_interrupt_leaves_the_previous_model_and_no_traceback(folder, wait):
    rows = RNG.normal(size=(2000, 6)).round(4).astype(str)
    (folder / "wide.csv").write_text(lines(rows, tuple("abcdef")))
    (folder / "m.lssvm").write_bytes(b"the model before")
    command = [*PROGRAM, "fit", "wide.csv", "-y", "f", "-o", "m.lssvm", "--report", "r.html"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell's background jobs ignore
    )
    said = process.stderr.readline()  # the fit is about to start
    assert said.startswith("task: regression")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(wait)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == "Aborted!"
    assert output == ""
    assert (folder / "m.lssvm").read_bytes() == b"the model before"
    assert sorted(path.name for path in folder.iterdir()) == ["m.lssvm", "people.csv", "wide.csv"]


def test_interrupt_of_an_import_leaves_no_traceback():
    script = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from lssvm.__main__ import run\n"
        "run()\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")
    script = "import sys; sys.modules.pop('typing', None); import lssvm.__main__; print('typing' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"  # what is imported before `run` is not protected
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"lssvm": "lssvm.__main__:run"}


def on_terminal(terminal, *arguments, chunks=False):
    """Standard output and standard error of a command, perhaps through chunks; the latter a terminal or a pipe."""
    import pty

    script = (
        "from lssvm import cli, progress; progress.QUIET = progress.INTERVAL = 0.0; cli.models.PIECE = 7; "
        f"cli.fitting.MEMORY_SHARE *= {not chunks}; cli.main()"
    )
    reader, writer = pty.openpty() if terminal else os.pipe()
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer, text=True)
    os.close(writer)
    shown = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:  # a terminal whose other end is closed
            break
        if not part:
            break
        shown += part
    os.close(reader)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output, shown


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="terminals")
@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(folder, terminal):
    output, shown = on_terminal(terminal, "fit", "people.csv", "-y", "price", "-o", "m.lssvm", chunks=True)
    assert "leave-one-out RMSE" in output
    assert b"task: regression" in shown
    assert (b"\r" in shown) == terminal
    assert (b"reading: 60 rows" in shown) == terminal
    assert (b"fitting 60 rows, 2 columns  [" in shown) == terminal
    steps = shares(shown)
    assert steps == sorted(steps)
    assert len(steps) > 10 * terminal - 1
    assert steps[-1:] == [100] * terminal
    _, shown = on_terminal(terminal, "predict", "m.lssvm", "people.csv", "-o", "predictions.csv")
    counts = [int(count) for count in re.findall(rb"predicting: (\d+) rows", shown)]
    assert counts == ([*range(7, 60, 7), 60] if terminal else [])
    _, shown = on_terminal(terminal, "report", "m.lssvm")
    assert shown.startswith(b"\r") == terminal


def shares(shown):
    """The percentages of a bar."""
    return list(dict.fromkeys(int(share) for share in re.findall(rb"(\d+)%", shown)))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="terminals")
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["", "json"])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_fit_in_memory_shows_how_far_it_is(folder, terminal, options):
    output, shown = on_terminal(terminal, "fit", "people.csv", "-y", "price", "-o", "m.lssvm", *options)
    assert "Matern" in output or "RBF" in output
    if not terminal or options:
        assert b"\r" not in shown.replace(b"\r\n", b"\n")
        return
    assert b"fitting 60 rows, 2 columns  [" in shown
    steps = shares(shown)
    assert steps == sorted(steps)
    assert len(steps) > 10
    assert steps[0] < 10
    assert steps[-1] == 100
    assert shown.count(b"100%") == 1  # not before the end


@pytest.mark.slow
def test_predictions_to_a_terminal_have_no_bar_among_them(folder, fitted):
    output, shown = on_terminal(True, "predict", str(fitted), "people.csv")
    assert len(output.splitlines()) == 61
    assert b"predicting" not in shown
