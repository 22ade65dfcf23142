"""Jackknife+ intervals against real refits; probabilities against what they promise."""

import math
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.stats import binom
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import log_loss

from lssvm import LSSVC, LSSVR, datasets, diagnose, kernels, load, save, sparsify
from lssvm.estimators import weighing
from lssvm.intervals.classes import calibrate
from lssvm.intervals.jackknife import Jackknife
from lssvm.problem import order_by_content

pytestmark = [  # noise, and few rows
    pytest.mark.filterwarnings("ignore:By leave-one-out, the model explains"),
    pytest.mark.filterwarnings("ignore:Intervals with coverage"),
]

GIVEN = {"kernel": kernels.RBF(sigma=1.3), "C": 5.0}
NEW = np.random.default_rng(9).uniform(-3, 3, (7, 2))


def make_regression(n, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n)
    return X, y if outputs is None else np.column_stack([y, X[:, 1] ** 2 - y])


def make_classes(n, classes, spread, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    centres = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.5]])
    return centres[y] + spread * rng.standard_normal((n, 2)), y


def refits(model, X, y, new, folds=None, known=None):
    """Predictions of new rows without each row, or its fold, and the sizes of its residuals, or those `known`.

    The other rows keep weight, C, kernel and basis.
    """
    basis = model.support_vectors_ if model.support_ is None else model.support_
    rows = np.flatnonzero(model.weights_)
    folds = np.arange(len(y)) if folds is None else folds
    predictions, sizes = [], []
    for fold in np.unique(folds[rows]):
        inside = rows[folds[rows] == fold]
        weights = np.where(folds == fold, 0.0, model.weights_)
        if model.fitted_.problem.reduced:
            left_out = model.fitted_.problem.replace(weights=weights).factorise().fit().predict
            left_out = (lambda f: lambda Z: f(Z)[:, 0] if y.ndim == 1 else f(Z))(left_out)
        else:
            left_out = LSSVR(model.kernel_, C=model.C_, steps=[sparsify.Given(basis)]).fit(X, y, weights).predict
        for i in inside:
            sizes.append(np.abs(y[i] - left_out(X[i : i + 1])[0]) if known is None else known[i])
            predictions.append(left_out(new))
    return np.array(predictions), np.array(sizes)[:, None]


def intervals_by_refits(predictions, sizes, coverage, method="jackknife+"):
    """The definitions of Barber et al. (2021)."""
    l = len(sizes)  # noqa: E741
    low_rank = math.floor(round((1 - coverage) * (l + 1), 9))
    high_rank = math.ceil(round(coverage * (l + 1), 9))
    if method == "jackknife-minmax":
        reach = np.sort(sizes, axis=0)[high_rank - 1] if high_rank <= l else np.inf
        return np.stack([predictions.min(axis=0) - reach, predictions.max(axis=0) + reach], axis=1)
    lower, upper = np.sort(predictions - sizes, axis=0), np.sort(predictions + sizes, axis=0)
    ends = [lower[low_rank - 1] if low_rank >= 1 else np.full_like(lower[0], -np.inf)]
    ends.append(upper[high_rank - 1] if high_rank <= l else np.full_like(upper[0], np.inf))
    return np.stack(ends, axis=1)


# Intervals ------------------------------------------------------------------------------------------------------------
WEIGHTS = np.random.default_rng(2).uniform(0.2, 3.0, 19)
ZEROS = np.where(np.arange(19) % 5 == 0, 0.0, WEIGHTS)


FOLDS = np.random.default_rng(4).integers(0, 5, 19)
MODELS = {
    "dense": (LSSVR(**GIVEN), None),
    "weighted": (LSSVR(**GIVEN), WEIGHTS),
    "zeros": (LSSVR(**GIVEN), ZEROS),
    "robust": (LSSVR(**GIVEN, robust="huber"), WEIGHTS),
    "basis": (LSSVR(**GIVEN, steps=[sparsify.Random(6, random_state=0)]), None),
    "basis-zeros": (LSSVR(**GIVEN, steps=[sparsify.Random(6, random_state=0)]), ZEROS),
    "points-weighted": (LSSVR(**GIVEN, steps=[sparsify.Given(NEW[:4])]), WEIGHTS),
    "wide": (LSSVR(**GIVEN, steps=[sparsify.Given(np.linspace(-2, 2, 60).reshape(30, 2))]), WEIGHTS),
    "reduced": (LSSVR(**GIVEN, steps=[sparsify.InversePrune(0.6)]), None),
    "chosen": (LSSVR(kernels.Choice([kernels.RBF(1.3), kernels.Matern(2.0)])), None),
    "linear-weighted": (LSSVR(kernels.Linear()), WEIGHTS),
}


@pytest.mark.filterwarnings("ignore:By leave-one-out")  # the targets have little to do with the inputs
@pytest.mark.parametrize(("name", "outputs"), [*((name, 2) for name in MODELS), ("dense", None), ("reduced", None)])
def test_intervals_equal_real_refits(name, outputs):
    X, y = make_regression(19, outputs)
    model, sample_weight = MODELS[name]
    model = clone(model).fit(X, y, sample_weight)
    tolerance = 1e-7 if model.C_ < 1e6 else 1e-4  # what is chosen may be near interpolation: eps * l * C
    rows, folds = refits(model, X, y, NEW), refits(model, X, y, NEW, FOLDS)
    for method, parts in (("jackknife+", rows), ("jackknife-minmax", rows), ("cv+", folds)):
        for coverage in (0.5, 0.7, 0.9, 0.949):
            interval = model.predict_interval(NEW, coverage=coverage, method=method, folds=FOLDS)
            assert interval.shape == ((7, 2) if outputs is None else (7, 2, outputs))
            assert_allclose(interval, intervals_by_refits(*parts, coverage, method), rtol=tolerance, atol=1e-8)


@pytest.mark.filterwarnings("ignore:By leave-one-out")
@pytest.mark.parametrize("name", ["zeros", "basis", "reduced", "linear-weighted"])
def test_as_many_folds_as_rows_are_the_jackknife(name):
    X, y = make_regression(19)
    model, sample_weight = MODELS[name]
    model = clone(model).fit(X, y, sample_weight)
    rows = np.count_nonzero(model.weights_)
    tolerance = 1e-8 if model.C_ < 1e6 else 1e-4
    assert_allclose(model.predict_interval(NEW, method="cv+", folds=rows), model.predict_interval(NEW), rtol=tolerance)


def test_blocks_of_new_rows_do_not_matter():
    """With little working memory the new rows go one by one."""
    X, y = make_regression(80, outputs=2)
    model = LSSVR(**GIVEN).fit(X, y)
    for method in ("jackknife+", "jackknife-minmax", "cv+"):
        whole = model.predict_interval(NEW, method=method)
        with config_context(working_memory=1e-6):
            assert_allclose(model.predict_interval(NEW, method=method), whole, rtol=1e-12, atol=1e-12)


def test_no_matrix_of_all_rows_and_all_new_rows():
    X, y = make_regression(2000)
    new = np.random.default_rng(1).uniform(-2, 2, (4000, 2))
    model = LSSVR(**GIVEN, steps=[sparsify.Random(30, random_state=0)]).fit(X, y)
    for method in ("jackknife+", "jackknife-minmax", "cv+"):
        tracemalloc.start()
        model.predict_interval(new, method=method)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.5 * 8 * len(X) * len(new)


def test_mistakes():
    X, y = make_regression(19)
    model = LSSVR(**GIVEN).fit(X, y)
    with pytest.raises(ValueError, match=r"method must be one of .*cv\+.*got 'bootstrap'"):
        model.predict_interval(NEW, method="bootstrap")
    for folds in (1, 20, "a", [1, 2]):
        with pytest.raises(ValueError, match="folds="):
            model.predict_interval(NEW, method="cv+", folds=folds)
    with pytest.raises(ValueError, match="only one distinct label"):
        model.predict_interval(NEW, method="cv+", folds=np.zeros(19))
    for step in (sparsify.Adaline(final_solve=False), sparsify.Substrate(0.1)):
        unknown = LSSVR(**GIVEN, steps=[step]).fit(X, y)
        with pytest.raises(ValueError, match=rf"not known after \[{type(step).__name__}.*refit=True"):
            unknown.predict_interval(NEW)


@pytest.mark.parametrize(
    ("rows", "coverage", "finite"),
    [
        (9, 0.9, True),  # a(l+1) = 1: the smallest and the largest; 1 - 0.9 is not 0.1 in floating point
        (8, 0.9, False),
        (19, 0.95, True),
        (18, 0.95, False),
        (99, 0.99, True),
        (98, 0.99, False),
        (2, 2 / 3, True),
        (2, 0.67, False),
    ],
)
def test_ranks_are_exact_where_they_are_whole_numbers(rows, coverage, finite):
    X, y = make_regression(rows)
    interval = LSSVR(**GIVEN).fit(X, y).predict_interval(NEW, coverage=coverage)
    if finite:
        assert np.isfinite(interval).all()
        assert (interval[:, 0] < interval[:, 1]).all()
    else:
        assert_array_equal(interval, np.broadcast_to([-np.inf, np.inf], (7, 2)))
        for method in ("auto", "full"):
            with pytest.warns(UserWarning, match=f"with {rows} rows: at least {rows + 1} are needed"):
                LSSVR(**GIVEN).fit(X, y).predict_interval(NEW, coverage, method)


def test_weights_of_zero_do_not_count_as_rows():
    X, y = make_regression(12)
    model = LSSVR(**GIVEN)
    assert np.isfinite(model.fit(X, y, np.arange(12) >= 3).predict_interval(NEW, coverage=0.9)).all()
    assert np.isinf(model.fit(X, y, np.arange(12) >= 4).predict_interval(NEW, coverage=0.9)).all()


@pytest.mark.parametrize("steps", [None, [sparsify.Random(6, random_state=0)]])
def test_intervals_grow_with_coverage_and_follow_y(steps):
    X, y = make_regression(60)
    model = LSSVR(**GIVEN, steps=steps).fit(X, y)
    narrow, default, wide = (model.predict_interval(NEW, coverage=c) for c in (0.5, 0.9, 0.95))
    assert (wide[:, 0] <= default[:, 0]).all()
    assert (default[:, 0] < narrow[:, 0]).all()
    assert (narrow[:, 1] < default[:, 1]).all()
    assert (default[:, 1] <= wide[:, 1]).all()
    assert_array_equal(model.predict_interval(NEW), default)
    moved = LSSVR(**GIVEN, steps=steps).fit(X, 100 + 3 * y).predict_interval(NEW)
    assert_allclose(moved, 100 + 3 * default, rtol=1e-10)
    mirrored = LSSVR(**GIVEN, steps=steps).fit(X, -y).predict_interval(NEW)
    assert_allclose(mirrored, -default[:, ::-1], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [None, [sparsify.Random(10, random_state=0)]])
@pytest.mark.parametrize(
    ("method", "highest"),
    [("jackknife+", 0.85), ("cv+", 0.87), ("jackknife-minmax", 0.97)],
    ids=lambda value: str(value),
)
def test_empirical_coverage(steps, method, highest):
    """One new row a draw, so that the hits are independent. Promised: 0.6, about 0.6, 0.8; given: at least 0.8."""
    hits = 0
    for seed in range(300):
        X, y = make_regression(41, seed=seed)
        model = LSSVR(**GIVEN, steps=steps).fit(X[1:], y[1:])
        low, high = model.predict_interval(X[:1], coverage=0.8, method=method)[0]
        hits += low <= y[0] <= high
    assert binom.ppf(1e-4, 300, 0.8) <= hits <= binom.ppf(1 - 1e-4, 300, highest)


# Probabilities --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_probabilities_are_probabilities_of_the_predicted_class(classes, spread):
    X, y = make_classes(60, classes, spread)
    model = LSSVC(**GIVEN).fit(X, np.array(["a", "b", "c"])[y])
    new = np.random.default_rng(1).uniform(-4, 4, (500, 2))
    P = model.predict_proba(new)
    assert P.shape == (500, classes)
    assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
    assert P.min() > 0
    assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(new))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_the_predicted_class_is_the_most_probable_even_in_pure_noise(classes, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((30, 2)), rng.integers(0, classes, 30)
    model = LSSVC(kernels.RBF(sigma=1.0), C=1.0).fit(X, y)
    new = rng.standard_normal((100, 2))
    assert_array_equal(model.classes_[model.predict_proba(new).argmax(axis=1)], model.predict(new))


def test_two_classes_rise_with_the_decision_value():
    X, y = make_classes(80, 2, 1.0)
    model = LSSVC(**GIVEN).fit(X, y)
    new = np.random.default_rng(1).uniform(-4, 4, (400, 2))
    f, P = model.decision_function(new), model.predict_proba(new)[:, 1]
    order = np.argsort(f)
    assert (np.diff(P[order]) >= 0).all()
    assert (np.diff(P[order])[np.diff(f[order]) > 1e-9] > 0).all()
    assert_array_equal(P > 0.5, f > 0)


def test_labels_swapped_swap_the_columns():
    X, y = make_classes(60, 2, 1.0)
    P, Q = LSSVC(**GIVEN).fit(X, y).predict_proba(NEW), LSSVC(**GIVEN).fit(X, 1 - y).predict_proba(NEW)
    assert_allclose(Q, P[:, ::-1], rtol=1e-8)
    X, y = make_classes(60, 3, 1.0)
    P, Q = LSSVC(**GIVEN).fit(X, y).predict_proba(NEW), LSSVC(**GIVEN).fit(X, 2 - y).predict_proba(NEW)
    assert_allclose(Q, P[:, ::-1], rtol=1e-8)


def test_calibration_beats_the_raw_decision_values():
    X, y = datasets.load_ripley(return_X_y=True)
    X_test, y_test = datasets.load_ripley(subset="test", return_X_y=True)
    for C in (1.0, 1e4):
        model = LSSVC(kernels.RBF(sigma=0.4), C=C).fit(X, y)
        raw = np.clip((model.decision_function(X_test) + 1) / 2, 1e-3, 1 - 1e-3)
        calibrated = model.predict_proba(X_test)
        assert log_loss(y_test, calibrated) < log_loss(y_test, raw)
        for side in (0, 1):  # the mean probability of the rows called so is about their share
            called = calibrated.argmax(axis=1) == side
            assert calibrated[called, 1].mean() == pytest.approx((y_test[called] == 1).mean(), abs=0.06)


def test_calibration_uses_left_out_decision_values():
    """An interpolating machine is always right on its own rows; only left-out values show how often it errs."""
    X, y = make_classes(200, 2, 2.0)
    model = LSSVC(kernels.RBF(sigma=0.3), C=1e6).fit(X, y)
    assert (model.predict(X) == y).all()
    assert model.predict_proba(X).max(axis=1).mean() < 0.85


@pytest.mark.parametrize("classes", [2, 3])
def test_slopes_maximise_the_smoothed_likelihood(classes):
    """Targets (n_k + 1/2)/(n_k + 1) on left-out decision values, maximised by a general optimiser."""
    X, y = make_classes(60, classes, 1.0)
    model = LSSVC(**GIVEN).fit(X, y)
    coded = np.where(y[:, None] == (np.arange(3) if classes == 3 else [1]), 1.0, -1.0)
    f = coded - model.loo_residuals_.reshape(60, -1)
    sure = (np.bincount(y)[y] + 0.5) / (np.bincount(y)[y] + 1)
    target = np.where(y[:, None] == np.arange(classes), sure[:, None], (1 - sure[:, None]) / (classes - 1))

    def probabilities(parameters, values):
        if classes == 3:
            logits = parameters[0] * values
        else:
            side = np.where(values[:, 0] > 0, parameters[1], parameters[0])
            logits = np.column_stack([np.zeros(len(values)), side * values[:, 0]])
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    loss = lambda parameters: -np.sum(target * np.log(probabilities(parameters, f)))  # noqa: E731
    best = minimize(
        loss, np.ones(1 if classes == 3 else 2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    decision = model.decision_function(NEW).reshape(len(NEW), -1)
    assert_allclose(model.predict_proba(NEW), probabilities(best.x, decision), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("steps", [None, [sparsify.Given(NEW)]])
def test_integer_weights_are_copies_for_probabilities(classes, steps):
    X, y = make_classes(40, classes, 1.0)
    times = np.random.default_rng(0).integers(0, 4, 40)
    model = LSSVC(**GIVEN, steps=steps)
    weighted = clone(model).fit(X, y, times).predict_proba(NEW)
    copied = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times)).predict_proba(NEW)
    assert_allclose(weighted, copied, rtol=1e-7)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_row_without_weight_does_not_calibrate(classes):
    """Also if decision values say nothing about the classes, so that the slopes have their smallest value."""
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(60, 2)), draw.integers(0, classes, 60)
    used = np.arange(60) % 4 > 0
    X[~used] *= 30.0
    for sigma in (1.0, 5.0):
        model = LSSVC(kernels.RBF(sigma), C=10.0)
        weighted, removed = clone(model).fit(X, y, used), clone(model).fit(X[used], y[used])
        decision, aims = draw.normal(size=(60, 1 if classes == 2 else 3)), used.astype(float)
        decision[~used] *= 100.0
        codes = np.argmin(decision, axis=1) if classes > 2 else (decision[:, 0] < 0).astype(int)
        assert_allclose(calibrate(decision, codes, aims), calibrate(decision[used], codes[used], aims[used]), rtol=1e-9)
        assert_allclose(weighted.predict_proba(NEW), removed.predict_proba(NEW), rtol=1e-9)
        assert_array_equal(weighted.predict_set(NEW), removed.predict_set(NEW))


@pytest.mark.parametrize("classes", [2, 3])
def test_separable_classes_stay_finite_and_unsure_enough(classes):
    X, y = make_classes(30, classes, 0.01)
    model = LSSVC(kernels.RBF(sigma=1.0), C=1e8).fit(X, y)
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    assert_array_equal(P.argmax(axis=1), y)
    assert 0.8 < P.max() < 1.0
    far = model.predict_proba(1e3 * NEW)
    assert np.isfinite(far).all()


def test_more_data_makes_a_separable_machine_surer():
    largest = []
    for n in (10, 100, 400):
        X, y = make_classes(n, 2, 0.01)
        largest.append(LSSVC(kernels.RBF(sigma=1.0), C=10.0).fit(X, y).predict_proba(X).max())
    assert largest[0] < largest[1] < largest[2] < 1


def test_a_class_without_weight_is_never_predicted():
    X, y = make_classes(60, 3, 1.0)
    with pytest.warns(UserWarning, match="No row of the class 1 has positive weight"):
        model = LSSVC(**GIVEN).fit(X, y, (y != 1).astype(float))
    assert_array_equal(model.classes_, [0, 1, 2])
    new = np.random.default_rng(1).uniform(-4, 4, (200, 2))
    assert 1 not in model.predict(new)
    assert model.predict_proba(new)[:, 1].max() < 0.5


# Many widths and few rows ---------------------------------------------------------------------------------------------
ARD = kernels.RBF(ard=True)
SEARCHED = {
    "rbf": (LSSVR(ARD), None),
    "choice": (LSSVR(kernels.Choice([ARD, kernels.Matern(ard=True)])), None),
    "robust": (LSSVR(ARD, robust="huber"), None),
    "zeros": (LSSVR(ARD), np.where(np.arange(40) % 8 == 0, 0.0, 1.0 + np.arange(40) % 3)),
    "points": (LSSVR(ARD, steps=[sparsify.Given(np.random.default_rng(3).standard_normal((30, 8)))]), None),
    "C": (LSSVR(ARD, C=1e5), None),
}


def make_product(n, d=8, seed=0):
    """Two of the columns matter, by their product: a common width sees little of it."""
    draw = np.random.RandomState(seed)
    X = draw.normal(size=(n, d))
    return X, X[:, 0] + 2 * X[:, 0] * X[:, 1] + 0.3 * draw.normal(size=n)


def sizes_by_searches(model, X, y, sample_weight, folds):
    """Absolute residuals of folds, from machines that are fitted from the start, search included, without them."""
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    sizes = np.full(y.shape, np.nan)
    for fold in np.unique(folds[weights > 0]):
        out = (folds == fold) & (weights > 0)
        others = (folds != fold) & (weights > 0)
        sizes[out] = np.abs(y[out] - clone(model).fit(X[others], y[others], weights[others]).predict(X[out]))
    return sizes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:C = .* is at the edge")
@pytest.mark.filterwarnings("ignore:By leave-one-out")
@pytest.mark.parametrize(("name", "outputs"), [*((name, None) for name in SEARCHED), ("rbf", 2)])
def test_sizes_of_residuals_are_those_of_folds_left_out_of_the_search(name, outputs):
    X, y = make_product(40)
    y = y if outputs is None else np.column_stack([y, X[:, 1] - y])
    new, folds = make_product(6, seed=1)[0], np.arange(40) % 3
    unfitted, sample_weight = SEARCHED[name]
    model = clone(unfitted).fit(X, y, sample_weight)
    interval = model.predict_interval(new, 0.8, "cv+", folds=folds)
    sizes = sizes_by_searches(unfitted, X, y, sample_weight, folds)
    assert_allclose(
        interval, intervals_by_refits(*refits(model, X, y, new, folds, sizes), 0.8, "cv+"), rtol=1e-5, atol=1e-7
    )
    fixed = intervals_by_refits(*refits(model, X, y, new, folds), 0.8, "cv+")
    assert np.abs(interval - fixed).max() > 0.01


@pytest.mark.slow
def test_residuals_of_drawn_folds_are_leave_one_out_with_the_effect_of_the_search():
    X, y = make_product(40)
    new = make_product(6, seed=1)[0]
    model = LSSVR(ARD).fit(X, y)
    residuals = np.empty(40)
    for part in np.array_split(order_by_content(X, y[:, None]), 3):
        others = np.setdiff1d(np.arange(40), part)
        fixed = LSSVR(model.kernel_, model.C_).fit(X[others], y[others]).predict(X[part])
        again = LSSVR(ARD).fit(X[others], y[others]).predict(X[part])
        residuals[part] = model.loo_residuals_[part] + np.sqrt(2 / 3) * (fixed - again)
    assert_allclose(diagnose.honest_values(model).residuals[:, 0], residuals, rtol=1e-5, atol=1e-7)
    assert diagnose.scores(model)["rmse"] == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=1e-5)
    for method in ("jackknife+", "jackknife-minmax"):
        expected = intervals_by_refits(*refits(model, X, y, new, known=np.abs(residuals)), 0.9, method)
        assert_allclose(model.predict_interval(new, method=method), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_a_search_without_folds_is_made_once(monkeypatch, tmp_path):
    X, y = make_product(60)
    model, folds = LSSVR(ARD).fit(X, y), np.arange(60) % 2
    calls = []
    once = weighing.searched_again
    monkeypatch.setattr(weighing, "searched_again", lambda *a, **k: calls.append(1) or once(*a, **k))
    first = model.predict_interval(X, method="cv+", folds=folds)
    assert len(calls) == 1
    assert_array_equal(model.predict_interval(X, method="cv+", folds=folds.astype(str)), first)
    diagnose.scores(model)
    assert len(calls) == 2  # folds of its own, for errors
    default = model.predict_interval(X)
    save(model, tmp_path / "model.lssvm")
    loaded = load(tmp_path / "model.lssvm")
    assert_array_equal(loaded.predict_interval(X, method="cv+", folds=folds), first)
    assert_array_equal(loaded.predict_interval(X), default)  # and intervals
    assert len(calls) == 2
    model.predict_interval(X[:1], method="cv+", folds=1 - folds[::-1] * (np.arange(60) > 3))
    assert len(calls) == 3  # other folds
    model.fit(X[::-1], y[::-1])
    assert_allclose(model.predict_interval(X, method="cv+", folds=folds[::-1]), first, rtol=1e-3)
    assert len(calls) == 4  # another fit
    wide = datasets.make_sinc(60, random_state=0)
    LSSVR().fit(*wide).predict_interval(wide[0])  # one column,
    LSSVR(kernels.RBF()).fit(X, y).predict_interval(X)  # a common width
    diagnose.scores(LSSVR(model.kernel_, model.C_).fit(X, y))  # and given ones are not searched again
    assert len(calls) == 4


@pytest.mark.slow
def test_errors_of_noise_and_of_wide_tables_include_the_search():
    """The searches of a wide table are those that weighed the members, so that nothing is repeated after the fit."""
    draw = np.random.default_rng(1)
    explained, errors = [], []
    for _ in range(3):
        X, y = draw.standard_normal((26, 5)), draw.standard_normal(26)
        explained.append(diagnose.scores(LSSVR().fit(X, y))["r2"])
    for _ in range(3):
        X = draw.standard_normal((60, 20))
        model = LSSVR().fit(X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * draw.standard_normal(60))
        assert all(member.honest is not None for member in model.fitted_.members)
        errors.append([np.std(model.loo_residuals_), np.std(diagnose.honest_values(model).residuals)])
    assert max(explained) < 0.3
    assert (np.array(errors)[:, 0] < np.array(errors)[:, 1]).all()


@pytest.mark.slow
def test_coverage_of_many_widths_chosen_by_few_rows():
    fixed, searched = [], []
    for seed in range(4):
        X, y = make_product(1050, 10, seed)
        X, new, y, y_new = X[:50], X[50:], y[:50], y[50:]
        model = LSSVR(ARD).fit(X, y)
        same = LSSVR(model.kernel_, model.C_).fit(X, y)  # its kernel is given: no search
        for machine, shares in ((same, fixed), (model, searched)):
            low, high = machine.predict_interval(new).T
            shares.append(np.mean((low <= y_new) & (y_new <= high)))
    assert np.mean(fixed) < 0.82 < np.mean(searched) < 0.99


@pytest.mark.filterwarnings("ignore:C = .* is at the edge")
def test_what_cannot_be_searched_again_is_told():
    X, y = make_product(40)
    with pytest.warns(UserWarning, match=r"parameters \(widths and C\) were chosen by.*40 rows.*too narrow") as caught:
        LSSVR(ARD, steps=[sparsify.InversePrune(0.3)]).fit(X, y).predict_interval(X)
    assert caught[-1].filename == __file__
    with pytest.raises(ValueError, match=r"folds.*fewer than 2 rows are left"):
        LSSVR(ARD).fit(X, y).predict_interval(X, method="cv+", folds=np.arange(40) == 0)


@pytest.mark.parametrize("active", [0.0, 1.0])
@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.9, 0.99, 0.999, 1 - 1e-6])
def test_the_rows_needed_for_finite_intervals_are_the_fewest(active, coverage):
    scale = type("Scale", (), {"active": np.array([active])})
    found = Jackknife(None, np.zeros((5, 1)), scale)

    def is_finite(n):
        return math.ceil(round(coverage * (n + 1) + float(found._more(n, coverage).max()), 9)) <= n

    n = found.rows_needed(coverage)
    assert is_finite(n)
    assert n == 1 or not is_finite(n - 1)
