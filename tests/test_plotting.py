"""Displays: what they store is the model's, what they draw is what they store."""

import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stacking import stack_of

from lssvm import LSSVC, LSSVR, datasets, diagnose, kernels, plotting, sparsify
from lssvm.plotting import (
    ComponentsDisplay,
    CPathDisplay,
    EffectsDisplay,
    FitDisplay,
    ImportanceDisplay,
    LeaveOneOutDisplay,
    MaximalVariationDisplay,
    PitDisplay,
    RegionCoverageDisplay,
    ReliabilityDisplay,
    ResidualsDisplay,
    ShapleyDisplay,
    SparsityPathDisplay,
    SupportSpectrumDisplay,
    WidthsDisplay,
    WidthSurfaceDisplay,
)

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
        assert display.ax_.get_ylabel() == "mean reconstruction error (fraction of 1)"
    else:
        np.testing.assert_allclose(display.errors**2, path.scores, rtol=1e-12)
        assert display.ax_.get_ylabel() == "root mean square leave-one-out error (units of y)"
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
    assert label(sparsify.Prune(100), LSSVC, labels) == "root mean square leave-one-out error (targets -1, +1)"
    assert label(sparsify.Prune(100), robust="hampel") == "mean absolute leave-one-out error (units of y)"


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
    for model in (given, LSSVR(kernels.RBF()), LSSVR(**GIVEN, steps=[sparsify.Random(20, random_state=0)])):
        with pytest.raises(ValueError, match=r"no path over basis sizes.*FeatureVectors.*Forward.*Prune.*Echelon"):
            SparsityPathDisplay.from_estimator(model.fit(X, y))


def test_other_models_are_refused():
    from sklearn.linear_model import Ridge

    model = Ridge().fit(X, y)
    for display in (SparsityPathDisplay, SupportSpectrumDisplay):
        with pytest.raises(TypeError, match="estimator must be a fitted LSSVR or LSSVC, got Ridge"):
            display.from_estimator(model)


@pytest.mark.parametrize("display", [SparsityPathDisplay, SupportSpectrumDisplay])
def test_without_matplotlib_the_extra_is_named(display, monkeypatch):
    model = fitted(sparsify.Prune(100))
    for module in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "lssvm\[plot\]"'):
        display.from_estimator(model)


# The fit, its leave-one-out values and the tuning ---------------------------------------------------------------------
def test_fit_over_one_input_draws_prediction_interval_rows_and_support_vectors():
    model = fitted(sparsify.Random(20, random_state=0))
    display = FitDisplay.from_estimator(model, coverage=0.8, grid_resolution=50)
    grid = display.grid[0][:, None]
    np.testing.assert_allclose(display.response, model.predict(grid))
    np.testing.assert_allclose(display.interval, model.predict_interval(grid, 0.8))
    (curve,) = display.surface_
    np.testing.assert_array_equal(curve.get_ydata(), display.response)
    np.testing.assert_array_equal(display.points_.get_xydata(), np.column_stack([X, y]))
    np.testing.assert_array_equal(display.support_.get_xdata(), model.support_vectors_[:, 0])
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["prediction", "80 % interval", "data", "20 support vectors"]


def test_fit_over_two_inputs_draws_contours():
    columns = np.column_stack([X[:, 0], np.cos(X[:, 0])])
    model = LSSVR(kernels.RBF(sigma=10.0), C=10.0, steps=[sparsify.Random(20, random_state=0)]).fit(columns, y)
    display = FitDisplay.from_estimator(model, grid_resolution=12)
    across, up = display.grid
    assert display.response.shape == (12, 12)
    assert display.response[3, 7] == pytest.approx(model.predict([[across[7], up[3]]])[0])
    np.testing.assert_allclose(display.interval[3, 7], model.predict_interval([[across[7], up[3]]])[0])
    np.testing.assert_array_equal(display.points_.get_offsets(), columns)
    np.testing.assert_array_equal(display.support_.get_xydata(), model.support_vectors_)
    display.figure_.canvas.draw()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fit_of_classes_draws_regions_and_probabilities(n_classes):
    inputs, labels = (a[::3] for a in datasets.load_ripley(return_X_y=True))
    labels = labels if n_classes == 2 else np.where(inputs[:, 0] > 0.3, 2, labels)
    model = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(inputs, labels)
    display = FitDisplay.from_estimator(model, grid_resolution=9)
    across, up = display.grid
    expected = model.predict_proba([[across[2], up[6]]])[0]
    np.testing.assert_allclose(display.response[6, 2], expected[1] if n_classes == 2 else expected)
    assert [len(part.get_offsets()) for part in display.points_] == [np.sum(labels == c) for c in model.classes_]
    assert "rows drawn are support vectors" in display.ax_.get_legend().get_texts()[-1].get_text()
    display.figure_.canvas.draw()
    line = FitDisplay.from_estimator(LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(inputs[:, 1:], labels))
    assert len(line.surface_) == (1 if n_classes == 2 else 3)
    line.figure_.canvas.draw()


@pytest.mark.parametrize(("n_classes", "loss"), [(2, "squared"), (2, "logistic"), (3, "squared_hinge")])
def test_displays_of_every_coding_and_loss(n_classes, loss):
    inputs, labels = (a[::3] for a in datasets.load_ripley(return_X_y=True))
    labels = labels if n_classes == 2 else np.where(inputs[:, 0] > 0.3, 2, labels)
    coding = "one-vs-one" if n_classes == 3 else "auto"
    model = LSSVC(kernels.RBF(sigma=0.5), C=5.0, loss=loss, coding=coding).fit(inputs, labels)
    assert model.coding_ == ("one-vs-one" if n_classes == 3 else "one-vs-rest")
    display = FitDisplay.from_estimator(model, grid_resolution=9)
    assert [len(part.get_offsets()) for part in display.points_] == [np.sum(labels == c) for c in model.classes_]
    expected = model.predict_proba([[display.grid[0][2], display.grid[1][6]]])[0]
    np.testing.assert_allclose(display.response[6, 2], expected[1] if n_classes == 2 else expected)
    display.figure_.canvas.draw()
    for kind in (ReliabilityDisplay, ResidualsDisplay, SupportSpectrumDisplay, WidthsDisplay):
        kind.from_estimator(model).figure_.canvas.draw()
    if model.fitted_.problem is None:
        for kind in (CPathDisplay, WidthSurfaceDisplay):
            with pytest.raises(ValueError, match="is defined for loss='squared', coding='one-vs-rest'"):
                kind.from_estimator(model)


def test_fit_of_pairs_draws_the_rows_of_its_basis():
    inputs, labels = datasets.load_ripley(return_X_y=True)
    labels = np.where(inputs[:, 0] > 0.3, 2, labels)
    steps = [sparsify.Random(20, random_state=0)]
    model = LSSVC(kernels.RBF(sigma=0.5), C=5.0, loss="logistic", coding="one-vs-one", steps=steps).fit(inputs, labels)
    display = FitDisplay.from_estimator(model, grid_resolution=9)
    np.testing.assert_array_equal(display.X, inputs[model.support_])
    np.testing.assert_array_equal(model.classes_[display.y], labels[model.support_])
    with pytest.raises(ValueError, match="choose its basis among the rows"):
        FitDisplay.from_estimator(model.set_params(steps=[sparsify.Given(inputs[:9] + 0.01)]).fit(inputs, labels))


def test_components_of_a_loss_without_deviations_have_no_band():
    inputs, labels = (a[::3] for a in datasets.load_ripley(return_X_y=True))
    model = LSSVC(kernels.Additive(kernels.RBF(sigma=0.5)), C=5.0, loss="logistic").fit(inputs, labels)
    display = ComponentsDisplay.from_estimator(model, inputs)
    assert display.deviations == [None, None]


def stack(*names, targets=y, rows=X, weights=(0.3, 0.7)):
    """A stack of members with these kernels."""
    model = LSSVR if targets.dtype == float else LSSVC
    return stack_of([model(kernel, C=5.0).fit(rows, targets) for kernel in names], weights)


def test_fit_of_a_stack():
    model = stack(kernels.RBF(sigma=9.0), kernels.Matern(sigma=20.0))
    display = FitDisplay.from_estimator(model, coverage=0.8)
    mine, other = model.members_
    grid = display.grid[0][:, None]
    np.testing.assert_allclose(display.response, 0.3 * mine.predict(grid) + 0.7 * other.predict(grid), rtol=1e-12)
    np.testing.assert_allclose(display.interval, model.predict_interval(grid, 0.8), rtol=1e-12)
    np.testing.assert_array_equal(display.X, X)
    np.testing.assert_array_equal(display.y, y)
    assert len(display.support_vectors) == len(X)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_fit_of_a_stack_of_classifiers(loss):
    rows, labels = datasets.load_ripley(return_X_y=True)
    members = [LSSVC(kernels.RBF(sigma=0.5), C=5.0, loss=kind).fit(rows, labels) for kind in (loss, "logistic")]
    model = stack_of(members, [0.4, 0.6])
    display = FitDisplay.from_estimator(model, grid_resolution=9)
    inputs = np.column_stack([axis.reshape(-1) for axis in np.meshgrid(*display.grid)])
    np.testing.assert_allclose(display.response.reshape(-1), model.predict_proba(inputs)[:, 1], rtol=1e-12)
    np.testing.assert_array_equal(display.X, rows)
    reliable = ReliabilityDisplay.from_estimator(model)
    p = 0.4 * diagnose.loo_probabilities(members[0])[0] + 0.6 * diagnose.loo_probabilities(members[1])[0]
    expected = diagnose.reliability(p, (labels > 0).astype(int))
    np.testing.assert_allclose(reliable.predicted, expected.predicted, rtol=1e-12)


def test_leave_one_out_and_widths_of_a_stack():
    model = stack(kernels.RBF(sigma=9.0), kernels.Matern(sigma=20.0))
    expected = sum(w * member.loo_predictions_ for member, w in zip(model.members_, (0.3, 0.7), strict=True))
    np.testing.assert_allclose(LeaveOneOutDisplay.from_estimator(model).predicted, expected, rtol=1e-12)
    np.testing.assert_allclose(ResidualsDisplay.from_estimator(model).residuals, y - expected, rtol=1e-9)
    np.testing.assert_allclose(WidthsDisplay.from_estimator(model).inverse_widths, X.std(axis=0) / 9.0)
    np.testing.assert_array_equal(PitDisplay.from_estimator(model).values, diagnose.pit(model))
    regions = diagnose.coverage_by_region(model)
    np.testing.assert_array_equal(RegionCoverageDisplay.from_estimator(model).observed, regions.observed)


def test_components_of_a_stack():
    rows, targets = datasets.make_additive(80, random_state=0)
    kernel = kernels.Additive(kernels.RBF(sigma=1.0), active=[0, 3])
    model = stack(kernels.Additive(kernels.Spline(4), active=[0]), kernel, rows=rows, targets=targets)
    display = ComponentsDisplay.from_estimator(model, rows)
    assert display.names == ["x1", "x4"]
    assert display.deviations == [None, None]
    inputs = np.zeros((200, rows.shape[1]))
    inputs[:, 3] = display.inputs[1]
    np.testing.assert_allclose(display.values[1], 0.7 * model.members_[1].components(inputs)[:, 3], atol=1e-12)


@pytest.mark.parametrize(
    "name", ["CPathDisplay", "WidthSurfaceDisplay", "SupportSpectrumDisplay", "SparsityPathDisplay"]
)
def test_displays_of_one_model_point_to_the_members_of_a_stack(name):
    model = stack(kernels.RBF(sigma=9.0), kernels.Matern(sigma=20.0))
    with pytest.raises(ValueError, match=r"not for a stack: give a member, e\.g\. model\.members_\[0\]"):
        getattr(plotting, name).from_estimator(model)
    with pytest.raises(ValueError, match="not for a stack"):
        MaximalVariationDisplay.from_estimator(model)


def test_fit_with_column_names_does_not_warn():
    pandas = pytest.importorskip("pandas")
    display = FitDisplay.from_estimator(LSSVR(**GIVEN).fit(pandas.DataFrame({"time": X[:, 0]}), y))
    assert display.ax_.get_xlabel() == "time"


def test_fit_of_chunks_draws_the_rows_that_the_model_keeps():
    display = FitDisplay.from_estimator(LSSVR(**GIVEN).partial_fit(X, y))
    drawn, given = (np.column_stack([a, b]) for a, b in ((display.X, display.y), (X, y)))
    np.testing.assert_array_equal(drawn[np.lexsort(drawn.T)], given[np.lexsort(given.T)])


def test_fit_of_other_models_is_refused():
    with pytest.raises(ValueError, match="models of 1 or 2 inputs, not of 3"):
        FitDisplay.from_estimator(LSSVR(kernels.Linear(), C=1.0).fit(np.column_stack([X, X**2, X**3]), y))
    with pytest.raises(ValueError, match=r"output=1 is out of range: the model has 1 output"):
        FitDisplay.from_estimator(LSSVR(**GIVEN).fit(X, y), output=1)


def test_loo_predictions_against_actual_values():
    model = LSSVR(**GIVEN).fit(X, np.column_stack([y, y**2]))
    display = LeaveOneOutDisplay.from_estimator(model, output=1)
    np.testing.assert_allclose(display.predicted, model.loo_predictions_[:, 1])
    np.testing.assert_allclose(display.actual, y**2)
    np.testing.assert_allclose(display.points_.get_offsets(), np.column_stack([display.predicted, display.actual]))
    rmse = np.sqrt(np.mean(model.loo_residuals_[:, 1] ** 2))
    assert display.ax_.get_legend().get_texts()[0].get_text().startswith(f"RMSE {rmse:.4g}, R2 0.")
    with pytest.raises(ValueError, match="ConfusionMatrixDisplay"):
        LeaveOneOutDisplay.from_estimator(fitted(sparsify.Prune(100), LSSVC, y > -20))


def test_residuals_carry_robust_weights_and_row_numbers():
    inputs, targets = datasets.make_sinc(60, outliers=2, random_state=0)
    model = LSSVR(kernels.RBF(sigma=3.0), C=10.0, robust="hampel").fit(inputs, targets)
    display = ResidualsDisplay.from_estimator(model, n_labels=2)
    np.testing.assert_allclose(display.residuals, model.loo_residuals_)
    np.testing.assert_allclose(display.points_.get_array(), model.weights_)
    largest = np.argsort(-np.abs(model.loo_residuals_))[:2]
    assert [label.get_text() for label in display.labels_] == [f"row {i}" for i in largest]
    assert len(display.figure_.axes) == 2  # the scale of the weights
    weighted = LSSVR(kernels.RBF(sigma=3.0), C=10.0).fit(inputs, targets, np.linspace(1, 2, 60))
    plain = ResidualsDisplay.from_estimator(weighted, color="black")
    np.testing.assert_array_equal(plain.weights, np.ones(60))  # the user's weights are not robust ones
    assert len(plain.figure_.axes) == 1


def test_path_of_C_is_marked_at_the_models_own():
    model = LSSVR(**GIVEN).fit(X, y)
    display = CPathDisplay.from_estimator(model, decades=3)
    ((C,), (error,)) = display.chosen_.get_data()
    assert C == model.C_
    assert error == pytest.approx(np.sqrt(np.mean(model.loo_residuals_**2)), rel=1e-6)
    assert display.ax_.get_xscale() == "log"
    assert display.C[0] == pytest.approx(model.C_ / 1e3)


@pytest.mark.parametrize("steps", [None, [sparsify.Given(X[::9])]])
def test_surface_of_widths_holds_loo_errors_of_refits(steps):
    model = LSSVR(kernels.RBF(8.0) + kernels.Matern(20.0), C=100.0, steps=steps, robust="huber").fit(X, y)
    display = WidthSurfaceDisplay.from_estimator(model)
    assert display.errors.shape == (len(display.factors), len(display.C))
    assert (display.factors[10], display.C[16]) == pytest.approx((1.0, 100.0))
    ((C,), (factor,)) = display.chosen_.get_data()
    assert (C, factor) == (100.0, 1.0)
    for row, column in ((10, 16), (3, 20), (17, 7)):
        factor = float(display.factors[row])
        kernel = kernels.RBF(8.0 * factor) + kernels.Matern(20.0 * factor)
        refit = LSSVR(kernel, C=float(display.C[column]), steps=steps).fit(X, y, model.weights_)
        error = np.sqrt(model.weights_ @ refit.loo_residuals_**2 / model.weights_.sum())
        assert display.errors[row, column] == pytest.approx(error, rel=1e-6)
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"
    display.figure_.canvas.draw()


def test_surface_of_widths_needs_widths_and_rows():
    with pytest.raises(ValueError, match=r"Linear\(\) has no widths"):
        WidthSurfaceDisplay.from_estimator(LSSVR(kernels.Linear(), C=1.0).fit(X, y))
    with pytest.raises(ValueError, match="needs the training rows"):
        WidthSurfaceDisplay.from_estimator(LSSVR(**GIVEN).partial_fit(X, y))
    with pytest.raises(ValueError, match=r"surface.*for one C only"):
        WidthSurfaceDisplay.from_estimator(LSSVR(**GIVEN, steps=[sparsify.InversePrune(0.5)]).fit(X, y))


def test_widths_are_sorted_bars():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a $b": X[:, 0], "off": X[:, 0] ** 2, "wide": -X[:, 0]})
    model = LSSVR(kernels.RBF(sigma=[20.0, np.inf, 100.0]), C=10.0).fit(table, y)
    display = WidthsDisplay.from_estimator(model)
    spread = np.std(X[:, 0])
    np.testing.assert_allclose([bar.get_width() for bar in display.bars_], [spread / 20, spread / 100, 0.0])
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == [r"a \$b", "wide", "off"]
    assert "dropped" in [text.get_text() for text in display.ax_.texts]
    assert "(1 of 3 columns)" in WidthsDisplay.from_estimator(model, max_columns=1).ax_.get_title()
    display.figure_.canvas.draw()


def test_columns_that_tuning_dropped_are_marked():
    rows = np.random.RandomState(0).uniform(-2, 2, (120, 4))
    model = LSSVR(kernels.RBF(ard=True)).fit(rows, np.sin(2 * rows[:, 1]) + 0.1 * np.cos(50 * rows[:, 3]))
    display = WidthsDisplay.from_estimator(model)
    assert (display.inverse_widths > 0).tolist() == [False, True, False, False]
    assert [text.get_text() for text in display.ax_.texts] == ["dropped"] * 3
    kernel = kernels.Additive(kernels.RBF(sigma=1.0), groups=[[0], [3, 1], [2]], active=[1])
    display = WidthsDisplay.from_estimator(LSSVR(kernel, C=1.0).fit(rows, rows[:, 1]))
    assert (display.inverse_widths > 0).tolist() == [False, True, False, True]
    both = LSSVR(kernels.RBF(sigma=[1.0, 1.0, 1.0, 1e9]) + kernels.Linear(), C=1.0).fit(rows, rows[:, 1])
    assert not WidthsDisplay.from_estimator(both).ax_.texts  # it has a part, a linear one


def table_of_prices(rows=80):
    """A table with numbers, a category, ranks and missing cells, and targets."""
    pandas = pytest.importorskip("pandas")
    draw = np.random.RandomState(0)
    level = pandas.CategoricalDtype(["low", "high"], ordered=True)
    table = pandas.DataFrame({"area $m^2$": draw.uniform(20, 90, rows), "level": draw.choice(["low", "high"], rows)})
    table["town"] = [f"town {draw.zipf(1.3) % 30}" for _ in range(rows)]
    table.loc[::11, "town"] = None
    targets = table["area $m^2$"] + 20 * (table["town"] == "town 1") + 5 * (table["level"] == "low")
    return table.astype({"level": level}), targets.to_numpy()


def test_importance_is_drawn_as_sorted_bars():
    table, targets = table_of_prices()
    model = LSSVR(kernels.RBF(sigma=[50.0, 2.0, 1.0]), C=10.0).fit(table, targets)
    display = ImportanceDisplay.from_estimator(model)
    found = diagnose.importance(model)
    np.testing.assert_array_equal([bar.get_width() for bar in display.bars_], found.increase)
    shown = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert shown == [name.replace("$", r"\$") for name in found.names]
    assert f"leave-one-out RMSE without the column\n({found.full:.3g} with" in display.ax_.get_xlabel()
    display.figure_.canvas.draw()
    few = ImportanceDisplay.from_estimator(model, max_columns=2, color="red")
    assert len(few.bars_) == 2
    assert "(2 of 3 columns)" in few.ax_.get_title()


def test_contributions_to_one_prediction_are_drawn_by_size():
    table, targets = table_of_prices()
    model = LSSVR(kernels.RBF(sigma=[50.0, 2.0, 1.0]), C=10.0).fit(table, targets)
    display = ShapleyDisplay.from_estimator(model, table[:1])
    found = diagnose.shapley(model, table[:1]).contributions[0]
    order = np.argsort(-np.abs(found), kind="stable")
    np.testing.assert_array_equal([bar.get_width() for bar in display.bars_], found[order])
    first = table.iloc[0]
    cells = [rf"area \$m^2\$ = {first.iloc[0]:.4g}", f"level = {first['level']}", f"town = {first['town']}"]
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == [cells[c] for c in order]
    assert f"prediction {model.predict(table[:1])[0]:.4g}" in display.ax_.get_xlabel()
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match="X has 2 rows"):
        ShapleyDisplay.from_estimator(model, table[:2])
    counts = LSSVR(kernels.RBF(sigma=[50.0, 2.0, 1.0]), C=10.0, loss="poisson").fit(table, np.rint(targets))
    estimated = ShapleyDisplay.from_estimator(counts, table[:1])
    assert len(estimated.ax_.collections) == 1  # the standard errors


def test_effects_are_drawn_over_numbers_ranks_and_values():
    table, targets = table_of_prices()
    model = LSSVR(kernels.RBF(sigma=[50.0, 2.0, 1.0]), C=10.0).fit(table, targets)
    display = EffectsDisplay.from_estimator(model, table)
    found = {part.name: part for part in diagnose.effects(model, table)}
    order = diagnose.importance(model).names
    assert [part.name for part in display.effects] == order
    panels = dict(zip(order, display.axes_, strict=True))
    line = panels["area $m^2$"].lines[0]
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([found[order[0]].grid, found[order[0]].effect]))
    assert panels["area $m^2$"].get_xlabel() == r"area \$m^2\$"
    town, places = found["town"], np.sort(np.argsort(-found["town"].counts, kind="stable")[:12])
    np.testing.assert_array_equal(panels["town"].lines[0].get_ydata(), town.effect[places])
    shown = [text.get_text() for text in panels["town"].get_xticklabels()]
    assert shown == ["missing" if town.grid[place] is None else town.grid[place] for place in places]
    assert "missing" in shown
    assert [text.get_text() for text in panels["level"].get_xticklabels()] == ["low", "high"]
    display.figure_.canvas.draw()
    one = EffectsDisplay.from_estimator(model, table, ["level"], axes=[pyplot.subplots()[1]])
    assert len(one.axes_) == 1


def test_effects_on_several_outputs_and_classes_are_named():
    table, targets = table_of_prices()
    kernel = kernels.RBF(sigma=[50.0, 2.0, 1.0])
    both = EffectsDisplay.from_estimator(LSSVR(kernel, C=10.0).fit(table, np.column_stack([targets, -targets])))
    assert both.outputs == ["output 1", "output 2"]
    two = EffectsDisplay.from_estimator(LSSVC(kernel, C=10.0).fit(table, targets > 60))
    assert two.figure_.get_supylabel() == "effect on the probability of class True"
    labels = np.array(list("abcdefgh"))[np.arange(80) % 8]
    many = EffectsDisplay.from_estimator(LSSVC(kernel, C=10.0).fit(table, labels))
    sizes = np.max([np.abs(part.effect).max(axis=0) for part in many.effects], axis=0)
    largest = np.sort(np.argsort(-sizes)[:6])
    assert [text.get_text() for text in many.figure_.legends[0].get_texts()] == list(
        np.array(list("abcdefgh"))[largest]
    )
    np.testing.assert_array_equal(many.axes_[0].lines[2].get_ydata(), many.effects[0].effect[:, largest[2]])
    many.figure_.canvas.draw()
    many.plot(np.array(pyplot.subplots(1, 3)[1]))
    assert len(many.axes_[0].get_legend().get_texts()) == 6


@pytest.mark.slow
def test_displays_of_models_fitted_on_tensors(additive):
    """What is drawn is NumPy's, and that of the same model fitted on arrays."""
    torch = pytest.importorskip("torch")
    apart = X + 0.01 * np.arange(len(X))[:, None]  # copies of a row would be pruned in any order
    sparse = {**GIVEN, "C": 20.0, "steps": [sparsify.Prune(20, rows="drop")]}
    ripley, labels = datasets.load_ripley(return_X_y=True)
    classes = LSSVC(kernels.RBF(sigma=0.5), C=5.0)
    model, rows, targets = additive
    cases = [
        *(
            (LSSVR(**sparse), apart, y, display, ())
            for display in (
                SparsityPathDisplay,
                SupportSpectrumDisplay,
                FitDisplay,
                LeaveOneOutDisplay,
                ResidualsDisplay,
                CPathDisplay,
                WidthsDisplay,
                ImportanceDisplay,
                EffectsDisplay,
            )
        ),
        (classes, ripley, labels, FitDisplay, ()),
        (classes, ripley, labels, ImportanceDisplay, ()),
        (classes, ripley, labels, EffectsDisplay, (ripley,)),
        (classes, ripley, labels, ReliabilityDisplay, (ripley, labels)),
        (model, rows, targets, MaximalVariationDisplay, ()),
        (model, rows, targets, ComponentsDisplay, (rows,)),
    ]
    for estimator, inputs, outputs, display, more in cases:
        estimator = clone(estimator)
        plain = display.from_estimator(estimator.fit(inputs, outputs), *more)
        tensors = [torch.asarray(a) for a in (inputs, outputs)]
        drawn = display.from_estimator(estimator.fit(*tensors), *map(torch.asarray, more))
        for name, value in vars(plain).items():
            other = getattr(drawn, name)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                assert isinstance(other, np.ndarray), (display, name)
                np.testing.assert_allclose(other, value, rtol=1e-5, atol=1e-7, err_msg=f"{display.__name__}.{name}")
        drawn.figure_.canvas.draw()
        pyplot.close("all")


def test_reliability_of_loo_and_of_new_rows():
    train, test = datasets.load_ripley(), datasets.load_ripley(subset="test")
    model = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(train.data, train.target)
    display = ReliabilityDisplay.from_estimator(model, test.data, test.target, n_bins=4)
    p = np.sort(model.predict_proba(test.data)[:, 1])
    np.testing.assert_allclose(display.predicted, p.reshape(4, -1).mean(axis=1))
    np.testing.assert_array_equal(display.line_.get_xdata(), display.predicted)
    loo = ReliabilityDisplay.from_estimator(model, ax=display.ax_)
    assert loo.count.sum() == len(train.data)
    labels = [text.get_text().split(":")[0] for text in display.ax_.get_legend().get_texts()]
    assert labels == ["new data", "leave-one-out"]
    with pytest.raises(ValueError, match="both X and y"):
        ReliabilityDisplay.from_estimator(model, test.data)


# Additive models ------------------------------------------------------------------------------------------------------
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
    for name in ("linewidth", "lw"):
        again = display.plot(pyplot.subplots()[1], **{name: 3})
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


@pytest.mark.parametrize(
    ("coding", "loss", "outputs"),
    [
        ("one-vs-rest", "squared", ["a", "b", "c"]),
        ("one-vs-rest", "logistic", ["a", "b", "c"]),
        ("one-vs-one", "squared_hinge", ["b, not a", "c, not a", "c, not b"]),
    ],
)
def test_components_of_several_classes_share_the_panels(coding, loss, outputs):
    rows = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    labels = np.array(["a", "b", "c"])[np.digitize(rows[:, 0] + rows[:, 1] ** 2, [0.0, 0.6])]
    model = LSSVC(kernels.Additive(kernels.RBF(1.0)), C=5.0, coding=coding, loss=loss).fit(rows, labels)
    display = ComponentsDisplay.from_estimator(model, rows)
    assert [text.get_text() for text in display.figure_.legends[0].get_texts()] == display.outputs == outputs
    for number, (ax, grid) in enumerate(zip(display.axes_, display.inputs, strict=True)):
        at = np.tile(rows[0], (len(grid), 1))
        at[:, number] = grid
        for output, line in enumerate(ax.lines[:3]):
            np.testing.assert_allclose(line.get_ydata(), model.components(at)[:, number, output])
        assert len(ax.collections) == (3 if (coding, loss) == ("one-vs-rest", "squared") else 0)


def test_components_of_a_frame(additive):
    """No warning, which would be an error here; names from the frame; columns in another order are refused."""
    pd = pytest.importorskip("pandas")
    model, rows, targets = additive
    frame = pd.DataFrame(rows, columns=[f"input {c}" for c in range(rows.shape[1])])
    named = clone(model).fit(frame, targets)
    display, plain = ComponentsDisplay.from_estimator(named, frame), ComponentsDisplay.from_estimator(model, rows)
    assert display.names == [f"input {c}" for c in model.active_]
    for mine, theirs in zip(display.values, plain.values, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ValueError, match="feature names should match"):
        ComponentsDisplay.from_estimator(named, frame[frame.columns[::-1]])


def test_additive_displays_refuse_other_models(additive):
    plain = LSSVR(**GIVEN, steps=()).fit(X, y)
    with pytest.raises(ValueError, match="no path of maximal variations"):
        MaximalVariationDisplay.from_estimator(plain)
    with pytest.raises(ValueError, match=r"not additive: use kernels\.Additive"):
        ComponentsDisplay.from_estimator(plain, X)
    with pytest.raises(NotFittedError):
        ComponentsDisplay.from_estimator(LSSVR(), X)


def test_many_curves_differ_in_colour_or_dashes():
    display = MaximalVariationDisplay(
        rho=np.geomspace(0.1, 1.0, 5),
        max_variation=np.ones((5, 14)),
        chosen=0.5,
        kept=np.arange(13),
        names=[f"x{number}" for number in range(14)],
    ).plot()
    styles = {(line.get_color(), line.get_linestyle()) for line in display.lines_[:13]}
    assert len(styles) == 13


@pytest.mark.parametrize("name", sorted(set(plotting.__all__) - {"ComponentsDisplay", "ShapleyDisplay"}))
def test_an_unfitted_model_is_said_to_be_one(name):
    with pytest.raises(NotFittedError):
        getattr(plotting, name).from_estimator(LSSVR())


@pytest.mark.parametrize("name", sorted(plotting.__all__))
def test_what_is_not_a_model_is_refused_by_name(name):
    draw, rows = (
        getattr(plotting, name).from_estimator,
        ([X] if name in ("ComponentsDisplay", "ShapleyDisplay") else []),
    )
    for other, message in (
        (None, "estimator must be a fitted LSSVR or LSSVC, got None"),
        (LSSVR, r"estimator=LSSVR is a class: give a fitted instance"),
        (make_pipeline(StandardScaler(), LSSVR(**GIVEN)).fit(X, y), r"estimator is a Pipeline: .*pipeline\[-1\]"),
    ):
        with pytest.raises(TypeError, match=message):
            draw(other, *rows)
