"""Fixtures for the command line: a runner, a folder with a table, a fitted model."""

import pytest
from cli_cases import lines
from click.testing import CliRunner

from lssvm.cli import main


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(lines(), encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A model file of the people's prices."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "people.csv").write_text(lines(), encoding="utf-8")
    path = folder / "people.lssvm"
    result = CliRunner().invoke(main, ["fit", str(folder / "people.csv"), "-y", "price", "-o", str(path)])
    assert result.exit_code == 0, result.output
    return path
