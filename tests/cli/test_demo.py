"""`lssvm demo`."""

import sys

import numpy as np
import pytest
from cli_cases import read_table

from lssvm import LSSVR, datasets, diagnose


def test_demo_prints_the_fit(run, tmp_path):
    result = run("demo", "--output", tmp_path / "demo.png")
    assert result.exit_code == 0, result.output
    *table, picture = result.stdout.splitlines()
    table = read_table("\n".join(table))
    assert picture == str(tmp_path / "demo.png")
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR().fit(X, y)
    rmse = np.linalg.norm(model.loo_residuals_) / np.sqrt(len(y))
    assert table["rows"] == "133"
    assert table["support vectors"] == str(len(model.support_))
    assert table["members"] == ", ".join(diagnose.member_words(model))
    assert float(table["leave-one-out RMSE"]) == pytest.approx(rmse, rel=1e-3)
    assert float(table["seconds"]) >= 0


@pytest.mark.slow
def test_demo_draws_a_picture(run, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    output = tmp_path / "demo.png"
    result = run("demo", "--output", output)
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == str(output)
    pixels = image.imread(output)[..., :3]
    assert pixels.shape[:2] == (675, 1125)
    drawn = (pixels < 0.99).any(axis=-1)
    assert 0.02 < drawn.mean() < 0.6
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100


def test_demo_without_matplotlib_prints_the_table_and_names_the_extra(run, tmp_path, monkeypatch):
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    output = tmp_path / "demo.png"
    result = run("demo", "--output", output)
    assert result.exit_code == 0
    assert 'pip install "lssvm[plot]"' in result.stderr
    assert "leave-one-out RMSE" in read_table(result.stdout)
    assert not output.exists()


def test_demo_refuses_a_missing_folder_before_it_works(run, tmp_path):
    result = run("demo", "--output", tmp_path / "missing" / "demo.png")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert result.stdout == ""


def test_demo_names_an_unknown_picture_format(run, tmp_path):
    pytest.importorskip("matplotlib")
    result = run("demo", "--output", tmp_path / "demo.nonsense")
    assert result.exit_code == 1
    assert "Format 'nonsense' is not supported (supported formats: " in result.stderr
    assert "leave-one-out RMSE" in read_table(result.stdout)
    assert "Traceback" not in result.output
