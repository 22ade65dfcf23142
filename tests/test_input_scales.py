"""Long-tailed inputs on the scale asinh((x - origin)/unit)."""

import math

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from lssvm import LSSVC, LSSVR, diagnose, kernels, load, report, save
from lssvm.cli import main
from lssvm.problem import Problem
from lssvm.tune.input_scales import is_better_scaled, long_tail_scales

DRAW = np.random.RandomState(0)
X = np.exp(1.5 * DRAW.normal(size=(80, 2)))
Y = np.sin(np.log(X[:, 0])) + 0.1 * np.log(X[:, 1]) ** 2 + 0.1 * DRAW.normal(size=80)
NEW = np.vstack([np.exp(1.5 * DRAW.normal(size=(20, 2))), [[0.0, -3.0], [1e4, 1.0]]])


@pytest.fixture(scope="module")
def model():
    return LSSVR().fit(X, Y)


def units(model):
    return np.array([column.unit for column in model.fitted_.layout.columns.columns])


def scaled(model, cells):
    columns = model.fitted_.layout.columns.columns
    return np.column_stack([np.arcsinh((x - c.origin) / c.unit) for x, c in zip(cells.T, columns, strict=True)])


def scales_of(columns):
    return long_tail_scales(Problem(kernels.RBF(), columns, np.zeros((len(columns), 1)), np.ones(len(columns))))


def test_the_model_is_that_of_scaled_columns(model):
    assert (units(model) > 0).all()
    other = LSSVR().fit(scaled(model, X), Y)
    assert not units(other).any()
    assert_allclose(model.predict(NEW), other.predict(scaled(model, NEW)), rtol=1e-9)
    assert_allclose(model.loo_residuals_, other.loo_residuals_, rtol=1e-9, atol=1e-9)


def test_the_error_is_that_of_logarithms(model):
    new = np.exp(np.random.RandomState(1).uniform(-2, 2, (300, 2)))
    truth = np.sin(np.log(new[:, 0])) + 0.1 * np.log(new[:, 1]) ** 2
    raw = LSSVR(kernels.Stack([kernels.RBF(), kernels.Matern()])).fit(X, Y)
    error, of_raw, of_logs = (
        np.sqrt(np.mean((predicted - truth) ** 2))
        for predicted in (model.predict(new), raw.predict(new), LSSVR().fit(np.log(X), Y).predict(np.log(new)))
    )
    assert error < 0.5 * of_raw
    assert error < 1.25 * of_logs


def test_only_long_tails_have_a_unit():
    normal = DRAW.normal(size=200)
    columns = [np.exp(1.5 * normal), normal, normal > 0, np.ones(200), np.sign(normal) * np.exp(2 * np.abs(normal))]
    columns += [np.where(normal > 0, np.exp(2 * normal), 0.0), 5.0 + 0.1 * normal, -np.exp(1.5 * normal)]
    columns = np.column_stack(columns)
    origins, found = scales_of(columns)
    assert (found > 0).tolist() == [True, False, False, False, True, True, False, True]
    ends = columns[:, 0].min(), np.median(columns[:, 4]), 0.0, columns[:, 7].max()
    assert_allclose(origins[found > 0], ends, atol=1e-12)


def test_neither_units_nor_their_zero_matter(model):
    other = LSSVR().fit(1e3 * X + 273.15, Y)
    assert_allclose(units(other), 1e3 * units(model), rtol=1e-9)
    assert_allclose(other.predict(1e3 * NEW + 273.15), model.predict(NEW), rtol=1e-4, atol=1e-4)


def test_long_tails_that_are_right_as_they_are():
    y = X[:, 0] - 2.0 * X[:, 1] + 0.1 * DRAW.normal(size=80)
    assert not units(LSSVR().fit(X, y)).any()


def test_chance_scales_nothing():
    """Targets that are noise: a common width on the scaled columns looks better in about every second draw."""
    found = []
    for seed in range(12):
        draw = np.random.RandomState(seed)
        rows, y = np.exp(1.5 * draw.normal(size=(60, 2))), draw.normal(size=(60, 1))
        problem = Problem(kernels.RBF(), rows, y, np.ones(60))
        found.append(is_better_scaled(problem, np.log(rows)))
    assert sum(found) <= 1


def test_kernels_that_are_given_see_the_numbers_as_they_are():
    model = LSSVR(kernels.RBF()).fit(X, Y)
    assert not units(model).any()


def test_classes():
    rows = np.exp(1.5 * np.random.RandomState(3).normal(size=(300, 2)))
    labels = np.where(np.log(rows[:, 0]) > 0.3 * np.log(rows[:, 1]), "above", "below")
    model = LSSVC().fit(rows, labels)
    assert (units(model) > 0).all()
    other = LSSVC().fit(scaled(model, rows), labels)
    assert_allclose(model.predict_proba(NEW), other.predict_proba(scaled(model, NEW)), atol=1e-9)


def test_missing_cells():
    """They count as the median, and their indicator has the height of the scaled column."""
    holed = np.where(np.arange(80)[:, None] % 9 == [0, 4], math.nan, X)
    model = LSSVR().fit(holed, Y)
    columns = model.fitted_.layout.columns.columns
    for column, cells in zip(columns, holed.T, strict=True):
        present = cells[~np.isnan(cells)]
        assert column.unit > 0
        assert column.median == np.median(present)
        assert_allclose(column.height, np.arcsinh((present - column.origin) / column.unit).std())
    assert np.isfinite(model.predict([[math.nan, 1.0]])).all()


def test_files_and_tensors(model, tmp_path):
    save(model, tmp_path / "m.lssvm")
    assert np.array_equal(load(tmp_path / "m.lssvm").predict(NEW), model.predict(NEW))
    torch = pytest.importorskip("torch")
    other = LSSVR().fit(torch.tensor(X), torch.tensor(Y))
    assert_allclose(other.predict(torch.tensor(NEW)).numpy(), model.predict(NEW), rtol=1e-6)


def test_what_was_understood_is_reported(model):
    (origin, unit), *_ = [(column.origin, column.unit) for column in model.fitted_.layout.columns.columns]
    scale = f"asinh((x - {origin:.3g})/{unit:.3g})"
    assert model.columns_[0] == f"numbers on the scale {scale}"
    page = report.to_html(model)
    assert f"long-tailed: {scale} is used instead of x" in page
    assert page.count("long-tailed: asinh(") == 2


def test_the_command_line_names_the_columns(tmp_path):
    pytest.importorskip("pyarrow")
    table = np.column_stack([X, Y])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="wide,wider,y", comments="")
    result = CliRunner().invoke(main, ["fit", str(tmp_path / "t.csv"), "-y", "y", "-o", str(tmp_path / "m.lssvm")])
    assert "long-tailed, on a scale like a logarithm: 'wide', 'wider'\n" in result.output


@pytest.mark.parametrize("far", [1e8, 1e200, 1e300])
def test_cells_of_very_different_sizes(far):
    cells = DRAW.normal(size=50)
    cells[:3] = far, 1e-200, 0.0
    with np.errstate(all="raise", under="ignore"):
        _, (unit,) = scales_of(cells[:, None])
    assert 0.0 <= unit < 10.0


def test_effects_and_pictures_have_the_numbers_as_they_are(model):
    found = diagnose.effects(model, intervals=5)[0]
    assert_allclose([found.grid[0], found.grid[-1]], [X[:, 0].min(), X[:, 0].max()])
    pytest.importorskip("matplotlib").use("Agg")
    from lssvm.plotting import FitDisplay

    display = FitDisplay.from_estimator(model, grid_resolution=5)
    assert_allclose(display.X, X)
    assert_allclose(display.response[2, 3], model.predict([[display.grid[0][3], display.grid[1][2]]])[0])
