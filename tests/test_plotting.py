"""Displays: what they store is the model's, what they draw is what they store."""

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from lssvm import LSSVC, LSSVR, datasets, kernels, sparsify
from lssvm.plotting import ComponentsDisplay, MaximalVariationDisplay, SparsityPathDisplay, SupportSpectrumDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")

GIVEN = {"kernel": kernels.RBF(sigma=13.1), "C": 800.0}
X, y = datasets.load_motorcycle(return_X_y=True)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def fitted(step, estimator=LSSVR, targets=y, **parameters):
    return estimator(**{**GIVEN, **parameters}, steps=[step]).fit(X, targets)


@pytest.mark.parametrize(
    "step",
    [
        sparsify.Prune(rows="keep"),
        sparsify.Prune(20, rows="drop"),
        sparsify.Forward(20, random_state=0),
        sparsify.Echelon(),
        sparsify.FeatureVectors(),
    ],
)
def test_path_holds_and_draws_what_the_model_recorded(step):
    model = fitted(step)
    display = SparsityPathDisplay.from_estimator(model)
    path, name = model.path_, type(step).__name__
    np.testing.assert_array_equal(display.sizes, path.sizes)
    if name == "FeatureVectors":
        np.testing.assert_array_equal(display.errors, path.errors)
        assert display.ax_.get_ylabel() == "mean reconstruction error (share of 1)"
    else:
        np.testing.assert_allclose(display.errors**2, path.scores, rtol=1e-12)
        assert display.ax_.get_ylabel() == "root mean square left-out error (units of y)"
    assert display.chosen == path.chosen == len(model.support_vectors_)
    drawn_sizes, drawn = display.line_.get_data()
    order = np.argsort(path.sizes)
    np.testing.assert_array_equal(drawn_sizes, path.sizes[order])
    np.testing.assert_array_equal(drawn, display.errors[order])
    ((size,), (error,)) = display.chosen_.get_data()
    assert size == path.chosen
    assert error == display.errors[np.flatnonzero(path.sizes == path.chosen)[0]]
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_xlabel() == "basis vectors"
    assert display.ax_.get_title()
    assert display.ax_.get_legend().get_texts()[0].get_text() == f"{name}: {path.chosen} vectors"
    assert display.figure_ is display.ax_.figure


def test_path_is_the_models_leave_one_out():
    model = fitted(sparsify.Prune(12, rows="keep"))
    display = SparsityPathDisplay.from_estimator(model)
    root_mean_square = np.sqrt(np.mean(model.loo_residuals_**2))
    assert display.errors[list(display.sizes).index(12)] == pytest.approx(root_mean_square, rel=1e-6)


def test_path_label_follows_the_score():
    def label(*arguments, **parameters):
        return SparsityPathDisplay.from_estimator(fitted(*arguments, **parameters)).error_name

    labels = y > -20
    assert label(sparsify.Prune(score="kfold", random_state=0)) == "root mean square 10-fold error (units of y)"
    validation = sparsify.Prune(100, score="validation", random_state=0)
    assert label(validation) == "root mean square validation error (units of y)"
    assert label(sparsify.Prune(100), LSSVC, labels) == "root mean square left-out error (targets -1, +1)"
    assert label(sparsify.Prune(100), robust="hampel") == "mean absolute left-out error (units of y)"


def test_robust_path_is_drawn_as_recorded():
    model = fitted(sparsify.Prune(100), robust="hampel")
    np.testing.assert_array_equal(SparsityPathDisplay.from_estimator(model).errors, model.path_.scores)


def test_reconstruction_errors_over_decades_get_a_logarithmic_axis():
    assert SparsityPathDisplay.from_estimator(fitted(sparsify.FeatureVectors())).ax_.get_yscale() == "log"
    assert SparsityPathDisplay.from_estimator(fitted(sparsify.Prune(100))).ax_.get_yscale() == "linear"


@pytest.mark.parametrize("coefficients", ["one output", "several outputs"])
def test_spectrum_holds_and_draws_sorted_magnitudes(coefficients):
    targets = y if coefficients == "one output" else np.column_stack([y, np.cos(y)])
    model = LSSVR(**GIVEN).fit(X, targets)
    display = SupportSpectrumDisplay.from_estimator(model)
    coef = model.dual_coef_.reshape(len(X), -1)
    sizes = np.linalg.norm(coef, axis=1)
    np.testing.assert_allclose(display.support_values, np.sort(sizes)[::-1], rtol=1e-12)
    np.testing.assert_allclose(sizes[display.order], display.support_values, rtol=1e-12)
    ranks, drawn = display.line_.get_data()
    np.testing.assert_array_equal(ranks, np.arange(1, len(X) + 1))
    np.testing.assert_array_equal(drawn, display.support_values)
    assert display.ax_.get_xlabel() == "rank"
    assert "alpha" in display.ax_.get_ylabel()
    assert display.ax_.get_legend().get_texts()[0].get_text() == "133 support vectors"


@pytest.mark.parametrize("display", [SparsityPathDisplay, SupportSpectrumDisplay])
def test_given_axes_title_and_style_are_kept(display):
    figure, ax = pyplot.subplots()
    ax.set_title("mine")
    first = fitted(sparsify.Prune(50))
    drawn = display.from_estimator(first, ax=ax, name="first", lw=3, linestyle="--")
    assert drawn.ax_ is ax
    assert drawn.figure_ is figure
    assert ax.get_title() == "mine"
    assert drawn.line_.get_linewidth() == 3
    assert drawn.line_.get_linestyle() == "--"
    second = display.from_estimator(fitted(sparsify.Prune(20)), ax=ax, name="second")
    assert second.line_.get_color() != drawn.line_.get_color()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [label.split(":")[0] for label in labels] == ["first", "second"]
    again = drawn.plot(color="black")
    assert again is drawn
    assert again.ax_ is not ax
    assert again.line_.get_color() == "black"
    figure.canvas.draw()


def test_displays_can_be_made_from_arrays():
    display = SparsityPathDisplay(sizes=[1, 2, 4], errors=[3.0, 2.0, 1.5], chosen=2).plot()
    assert display.ax_.get_ylabel() == "error"
    assert display.ax_.get_legend().get_texts()[0].get_text() == "2 vectors"
    display = SupportSpectrumDisplay(support_values=[3.0, 1.0]).plot()
    assert display.ax_.get_legend() is None


def test_models_without_a_path_are_refused():
    given = LSSVR(**GIVEN)
    with pytest.raises(NotFittedError):
        SparsityPathDisplay.from_estimator(given)
    with pytest.raises(NotFittedError):
        SupportSpectrumDisplay.from_estimator(given)
    for model in (given, LSSVR(), LSSVR(**GIVEN, steps=[sparsify.Random(20, random_state=0)])):
        with pytest.raises(ValueError, match=r"no path over basis sizes.*FeatureVectors.*Forward.*Prune.*Echelon"):
            SparsityPathDisplay.from_estimator(model.fit(X, y))


def test_other_models_are_refused():
    from sklearn.linear_model import Ridge

    model = Ridge().fit(X, y)
    with pytest.raises(ValueError, match="Ridge has no path"):
        SparsityPathDisplay.from_estimator(model)
    with pytest.raises(ValueError, match="Ridge has no dual_coef_"):
        SupportSpectrumDisplay.from_estimator(model)


@pytest.mark.parametrize("display", [SparsityPathDisplay, SupportSpectrumDisplay])
def test_without_matplotlib_the_extra_is_named(display, monkeypatch):
    model = fitted(sparsify.Prune(100))
    for module in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "lssvm\[plot\]"'):
        display.from_estimator(model)


# Additive machines ----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def additive():
    rows, targets = datasets.make_additive(60, 6, random_state=0)
    rows[:, 3] = np.round(3 * rows[:, 3])
    model = LSSVR(kernels.Additive(kernels.Spline(3)), C=20.0, steps=[sparsify.Components(validation=None)])
    return model.fit(rows, targets), rows, targets


def test_maximal_variations_are_those_of_the_path(additive):
    model, _, _ = additive
    display = MaximalVariationDisplay.from_estimator(model)
    path = model.path_
    np.testing.assert_array_equal(display.rho, path.rho)
    assert len(display.lines_) == 6
    for number, line in enumerate(display.lines_):
        drawn_rho, drawn = line.get_data()
        np.testing.assert_array_equal(drawn_rho, path.rho)
        np.testing.assert_array_equal(drawn, path.max_variation[:, number])
    assert display.chosen_.get_xdata()[0] == path.chosen
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == [f"x{number + 1}" for number in model.active_]
    assert display.ax_.get_xscale() == "log"
    again = display.plot(pyplot.subplots()[1], linewidth=3)
    assert {line.get_linewidth() for line in again.lines_} == {3}


def test_components_are_drawn_with_two_standard_deviations(additive):
    model, rows, targets = additive
    display = ComponentsDisplay.from_estimator(model, rows)
    assert display.names == [f"x{number + 1}" for number in model.active_]
    assert len(display.axes_) == len(model.active_)
    for number, ax, grid, values, deviation in zip(
        model.active_, display.axes_, display.inputs, display.values, display.deviations, strict=True
    ):
        at = np.tile(rows[0], (len(grid), 1))
        at[:, number] = grid
        np.testing.assert_allclose(values, model.components(at)[:, number])
        np.testing.assert_array_equal(ax.lines[0].get_data(), [grid, values])
        band = ax.collections[0].get_paths()[0].vertices
        assert band[:, 1].max() == pytest.approx((values + 2 * deviation).max())
    np.testing.assert_array_equal(display.inputs[list(model.active_).index(3)], [0, 1, 2, 3])  # a category
    penalised = LSSVR(model.kernel, C=20.0, steps=[sparsify.Components(rho=5.0, refit=False)]).fit(rows, targets)
    assert set(ComponentsDisplay.from_estimator(penalised, rows).deviations) == {None}


def test_additive_displays_refuse_other_machines(additive):
    plain = LSSVR(**GIVEN, steps=()).fit(X, y)
    with pytest.raises(ValueError, match="no path of maximal variations"):
        MaximalVariationDisplay.from_estimator(plain)
    with pytest.raises(ValueError, match="no additive machine of one output"):
        ComponentsDisplay.from_estimator(plain, X)
    with pytest.raises(NotFittedError):
        ComponentsDisplay.from_estimator(LSSVR(), X)
