"""LSSVR and LSSVC: the fitted attributes of the contract, real refits, and the habits of scikit-learn."""

import os
import pickle
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import compute_class_weight
from sklearn.utils.fixes import parse_version

from lssvm import LSSVC, LSSVR, datasets, kernels, robust, sparsify, tune
from lssvm.problem import Problem

N = 24
GIVEN = {"kernel": kernels.RBF(sigma=1.3), "C": 5.0}
LABELS = {
    "int": np.array([3, 7]),
    "str": np.array(["no", "yes"]),
    "object": np.array(["no", "yes"], dtype=object),
    "bool": np.array([False, True]),
    "float": np.array([-1.0, 2.0]),
    "three int": np.array([0, 4, 9]),
    "three str": np.array(["a", "bb", "ccc"]),
}


def make_regression(n=N, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n)
    return X, y if outputs is None else np.column_stack([y * (j + 1) + X[:, 1] ** j for j in range(outputs)])


def make_classes(labels, n=N, seed=1):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % len(labels)
    centres = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.5]])[codes]
    return centres + 0.9 * rng.standard_normal((n, 2)), labels[codes]


def weights_of(n=N, seed=2):
    return np.random.default_rng(seed).uniform(0.2, 3.0, n)


def raw(model, X):
    return model.predict(X) if isinstance(model, LSSVR) else model.decision_function(X)


def same(left, right, X):
    """Both models predict the same bits, intervals or probabilities included."""
    assert_array_equal(raw(left, X), raw(right, X))
    method = "predict_interval" if isinstance(left, LSSVR) else "predict_proba"
    assert_array_equal(getattr(left, method)(X), getattr(right, method)(X))


VARIANTS = {
    "dense": (LSSVR(**GIVEN), make_regression(), None),
    "dense, C and sigma chosen": (LSSVR(kernels.RBF(ard=True)), make_regression(), None),
    "dense, weighted": (LSSVR(**GIVEN), make_regression(), weights_of()),
    "robust": (LSSVR(**GIVEN, robust="huber"), make_regression(), weights_of()),
    "two outputs": (LSSVR(**GIVEN), make_regression(outputs=2), weights_of()),
    "drawn rows": (LSSVR(**GIVEN, steps=[sparsify.Random(7, random_state=0)]), make_regression(), None),
    "drawn rows, chosen": (LSSVR(steps=[sparsify.Random(7, random_state=0)]), make_regression(), weights_of()),
    "given points": (LSSVR(**GIVEN, steps=[sparsify.Given(np.eye(2))]), make_regression(outputs=2), weights_of()),
    "two classes": (LSSVC(**GIVEN), make_classes(LABELS["str"]), None),
    "three classes, weighted": (
        LSSVC(**GIVEN, class_weight="balanced"),
        make_classes(LABELS["three str"]),
        weights_of(),
    ),
    "three classes, drawn rows": (
        LSSVC(**GIVEN, steps=[sparsify.Random(7, random_state=0)]),
        make_classes(LABELS["three int"]),
        None,
    ),
}


@pytest.fixture(
    params=[name if name != "drawn rows, chosen" else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS],
    ids=lambda name: name.replace(", ", "-").replace(" ", "_"),
)
def variant(request):
    model, (X, y), sample_weight = VARIANTS[request.param]
    return clone(model).fit(X, y, sample_weight), X, y, sample_weight


# Fitted attributes ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("outputs", [None, 1, 2])
@pytest.mark.parametrize("steps", [(), [sparsify.Random(7, random_state=0)]])
def test_shapes_of_a_regressor(outputs, steps):
    X, y = make_regression(outputs=outputs)
    model = LSSVR(**GIVEN, steps=steps).fit(X, y)
    n = 7 if steps else N
    tail = () if outputs is None else (outputs,)
    assert model.support_.shape == (n,)
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.dual_coef_.shape == (n, *tail)
    assert model.loo_residuals_.shape == model.loo_predictions_.shape == y.shape
    assert model.weights_.shape == model.leverage_.shape == (N,)
    assert (type(model.intercept_) is float) if outputs is None else (model.intercept_.shape == tail)
    assert type(model.C_) is float
    assert type(model.press_) is float
    assert isinstance(model.kernel_, kernels.RBF)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "classes_")
    assert model.predict(X[:3]).shape == (3, *tail)
    assert model.score(X, y) > 0.5


def test_labels_of_variable_width_are_those_of_objects():
    """NumPy's StringDType, which scikit-learn does not take."""
    X, y = make_classes(LABELS["three str"])
    text, model = y.astype(np.dtypes.StringDType()), LSSVC(**GIVEN)
    expected = clone(model).fit(X, y).predict(X).tolist()
    for fitted in (
        clone(model).fit(X, text),
        clone(model).partial_fit(X, text, classes=np.unique(text)),
        clone(model).fit_chunks([(X, text)]),
    ):
        assert fitted.predict(X).tolist() == expected
        assert fitted.score(X, text) == fitted.score(X, y)


@pytest.mark.parametrize("name", LABELS)
def test_shapes_of_a_classifier(name):
    X, y = make_classes(LABELS[name])
    model = LSSVC(**GIVEN).fit(X, y)
    tail = () if len(LABELS[name]) == 2 else (3,)
    assert_array_equal(model.classes_, LABELS[name])
    assert model.classes_.dtype == y.dtype
    assert model.dual_coef_.shape == model.loo_residuals_.shape == (N, *tail)
    assert (type(model.intercept_) is float) if not tail else (model.intercept_.shape == tail)
    assert model.decision_function(X).shape == (N, *tail)
    assert model.predict_proba(X).shape == (N, len(LABELS[name]))
    for labels in (model.predict(X), model.loo_predictions_):
        assert labels.shape == (N,)
        assert labels.dtype == y.dtype
    assert model.score(X, y) > 0.7
    assert model.weights_.shape == model.leverage_.shape == (N,)


def test_decision_values_and_classes_agree():
    X, y = make_classes(LABELS["str"])
    model = LSSVC(**GIVEN).fit(X, y)
    assert_array_equal(model.predict(X) == "yes", model.decision_function(X) > 0)
    X, y = make_classes(LABELS["three str"])
    model = LSSVC(**GIVEN).fit(X, y)
    assert_array_equal(model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)])


def test_predictions_are_the_kernel_expansion(variant):
    model, X, _, _ = variant
    K = model.kernel_(X, model.support_vectors_)
    assert_allclose(raw(model, X), K @ model.dual_coef_ + model.intercept_, rtol=1e-10, atol=1e-11)


def test_optimality_of_the_dense_machine():
    X, y = make_regression(outputs=2)
    v = weights_of()
    model = LSSVR(**GIVEN).fit(X, y, v)
    assert_allclose(model.dual_coef_.sum(axis=0), 0, atol=1e-11)
    assert_allclose(model.dual_coef_, model.C_ * v[:, None] * (y - model.predict(X)), rtol=1e-9, atol=1e-11)


def test_optimality_of_the_sparse_machine():
    X, y = make_regression()
    v = weights_of()
    model = LSSVR(**GIVEN, steps=[sparsify.Given([0, 5, 9])]).fit(X, y, v)
    error = v * (y - model.predict(X))
    penalty = model.kernel_(model.support_vectors_) @ model.dual_coef_
    assert_allclose(model.C_ * model.kernel_(model.support_vectors_, X) @ error, penalty, rtol=1e-9)
    assert_allclose(error.sum(), 0, atol=1e-11)


def test_leave_one_out_equals_real_refits(variant):
    """Row i weighs 0; C, the kernel, the other weights and the basis, its own vector included, stay."""
    model, X, y, _ = variant
    basis = model.support_vectors_ if model.support_ is None else model.support_
    machine = type(model)(model.kernel_, C=model.C_, steps=[sparsify.Given(basis)])
    left_out = []
    for i in range(N):
        left_out.append(
            raw(clone(machine).fit(X, y, np.where(np.arange(N) == i, 0.0, model.weights_)), X[i : i + 1])[0]
        )
    left_out = np.array(left_out)
    if isinstance(model, LSSVR):
        target = y
        assert_allclose(model.loo_predictions_, left_out, rtol=1e-7, atol=1e-9)
    else:
        columns = model.classes_ if left_out.ndim == 2 else model.classes_[1]
        target = np.where(y[:, None] == columns, 1.0, -1.0) if left_out.ndim == 2 else np.where(y == columns, 1.0, -1.0)
        winner = left_out.argmax(axis=1) if left_out.ndim == 2 else (left_out > 0).astype(int)
        assert_array_equal(model.loo_predictions_, model.classes_[winner])
    assert_allclose(model.loo_residuals_, target - left_out, rtol=1e-7, atol=1e-9)


def test_dense_leave_one_out_equals_removed_rows():
    X, y = make_regression()
    model = LSSVR(**GIVEN).fit(X, y)
    for i in range(N):
        rest = np.arange(N) != i
        alone = LSSVR(**GIVEN).fit(X[rest], y[rest]).predict(X[i : i + 1])[0]
        assert model.loo_predictions_[i] == pytest.approx(alone, rel=1e-8, abs=1e-10)


def test_press_is_the_weighted_sum_of_squares(variant):
    model, _, y, _ = variant
    squares = (model.loo_residuals_**2).reshape(len(y), -1).sum(axis=1)
    assert model.press_ == pytest.approx(np.sum(model.weights_ * squares), rel=1e-12)


def test_leverage_is_the_derivative_of_the_fitted_value():
    X, y = make_regression()
    for steps in ((), [sparsify.Given([0, 5, 9])]):
        model = LSSVR(**GIVEN, steps=steps).fit(X, y, weights_of())
        for i in (0, 11):  # a linear smoother: a difference is the derivative
            moved = clone(model).fit(X, y + (np.arange(N) == i), weights_of())
            change = moved.predict(X)[i] - model.predict(X)[i]
            assert model.leverage_[i] == pytest.approx(change, rel=1e-8)


def test_weights_are_sample_times_robust_weights():
    X, y = make_regression()
    y[3] += 20.0
    v = weights_of()
    assert_array_equal(LSSVR(**GIVEN).fit(X, y).weights_, np.ones(N))
    assert_array_equal(LSSVR(**GIVEN).fit(X, y, v).weights_, v)
    residuals = y - LSSVR(**GIVEN).fit(X, y, v).predict(X)
    weighted = LSSVR(**GIVEN, robust="hampel").fit(X, y, v)
    assert_allclose(weighted.weights_, v * robust.Hampel()(residuals, v), rtol=1e-12)
    assert weighted.weights_[3] == pytest.approx(1e-4 * v[3])


def test_linear_kernel_is_ridge_regression():
    X, y = make_regression()
    model, ridge = LSSVR(kernels.Linear(), C=5.0).fit(X, y, weights_of()), Ridge(alpha=1 / 5).fit(X, y, weights_of())
    assert_allclose(model.predict(X), ridge.predict(X), rtol=1e-8)
    assert model.intercept_ == pytest.approx(ridge.intercept_, rel=1e-8)


def test_classifier_is_the_regressor_on_plus_minus_one():
    X, y = make_classes(LABELS["str"])
    classifier = LSSVC(**GIVEN).fit(X, y, weights_of())
    regressor = LSSVR(**GIVEN).fit(X, np.where(y == "yes", 1.0, -1.0), weights_of())
    for name in ("dual_coef_", "intercept_", "loo_residuals_", "leverage_", "press_"):
        assert_array_equal(getattr(classifier, name), getattr(regressor, name))
    assert_array_equal(classifier.decision_function(X), regressor.predict(X))


def test_every_output_is_a_machine_of_its_own():
    X, y = make_regression(outputs=3)
    model = LSSVR(**GIVEN).fit(X, y)
    X_class, labels = make_classes(LABELS["three str"])
    classifier = LSSVC(**GIVEN).fit(X_class, labels)
    for j in range(3):
        alone = LSSVR(**GIVEN).fit(X, y[:, j])
        assert_allclose(model.predict(X)[:, j], alone.predict(X), rtol=1e-10, atol=1e-11)
        assert_allclose(model.loo_residuals_[:, j], alone.loo_residuals_, rtol=1e-10, atol=1e-11)
        against_rest = LSSVC(**GIVEN).fit(X_class, labels == classifier.classes_[j])
        assert_allclose(
            classifier.decision_function(X_class)[:, j], against_rest.decision_function(X_class), rtol=1e-10, atol=1e-11
        )


@pytest.mark.parametrize("steps", [(), [sparsify.Random(7, random_state=0)]])
def test_shift_and_scale_of_y(steps):
    X, y = make_regression()
    model, moved = LSSVR(**GIVEN, steps=steps).fit(X, y), LSSVR(**GIVEN, steps=steps).fit(X, 1000 - 7 * y)
    assert_allclose(moved.predict(X), 1000 - 7 * model.predict(X), rtol=1e-11)
    assert_allclose(moved.loo_residuals_, -7 * model.loo_residuals_, rtol=1e-9, atol=1e-9)
    chosen, moved = LSSVR(steps=steps).fit(X, y), LSSVR(steps=steps).fit(X, 1000 - 7 * y)
    assert_allclose(moved.predict(X), 1000 - 7 * chosen.predict(X), rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-170, 1e140])
def test_the_chosen_machine_does_not_depend_on_the_unit_of_y(unit):
    X, y = make_regression()
    model, scaled = LSSVR().fit(X, y), LSSVR().fit(X, unit * y)
    assert_allclose(scaled.stack_weights_, model.stack_weights_, atol=1e-4)
    assert_allclose(scaled.predict(X) / unit, model.predict(X), atol=1e-4)


def test_huge_offset_of_y_costs_no_digits():
    X, y = make_regression()
    loo = LSSVR(**GIVEN).fit(X, y).loo_residuals_
    assert_allclose(LSSVR(**GIVEN).fit(X, y + 1e8).loo_residuals_, loo, atol=1e-6)


# Weights --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "model",
    [
        LSSVR(**GIVEN),
        LSSVR(**GIVEN, robust="hampel"),
        LSSVR(**GIVEN, robust=robust.Huber(scale="mad", iterations=2)),
        LSSVR(**GIVEN, steps=[sparsify.Given(np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 0.5]]))]),
        LSSVC(**GIVEN),
        LSSVC(**GIVEN, class_weight="balanced"),
    ],
)
def test_integer_weights_equal_copies(model):
    X, y = make_classes(LABELS["three str"]) if isinstance(model, LSSVC) else make_regression()
    times = np.random.default_rng(0).integers(0, 4, N)
    weighted = clone(model).fit(X, y, times)
    copied = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(raw(weighted, X), raw(copied, X), rtol=1e-9, atol=1e-9)
    if isinstance(model, LSSVC):
        assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("steps", [(), [sparsify.Random(7, random_state=0)]])
@pytest.mark.parametrize("chosen", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_row_of_weight_zero_is_as_good_as_removed(steps, chosen):
    X, y = make_regression()
    X[:4] = [[1e3, -5e3], [40.0, 2.0], [0.0, 0.0], [-1.0, 100.0]]
    y[:4] = [1e6, -1e6, 50, -50]
    v = np.where(np.arange(N) < 4, 0.0, weights_of())
    model = LSSVR(**({} if chosen else GIVEN), steps=steps)
    weighted, removed = clone(model).fit(X, y, v), clone(model).fit(X[4:], y[4:], v[4:])
    assert_allclose(weighted.predict(X), removed.predict(X), rtol=1e-8, atol=1e-9)
    assert_allclose(weighted.loo_residuals_[4:], removed.loo_residuals_, rtol=1e-8, atol=1e-9)
    assert_allclose(weighted.loo_residuals_[:4], y[:4] - removed.predict(X[:4]), rtol=1e-8)
    assert_array_equal(weighted.leverage_[:4], 0)
    assert_allclose(weighted.predict_interval(X), removed.predict_interval(X), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_chosen_machine_does_not_depend_on_the_unit_of_the_weights(factor):
    X, y = make_regression(40)
    model, scaled = LSSVR().fit(X, y), LSSVR().fit(X, y, np.full(40, factor))
    for own, other in zip(scaled.members_, model.members_, strict=True):
        assert own.C_ * factor == pytest.approx(other.C_, rel=1e-3)
    assert_allclose(scaled.predict(X), model.predict(X), atol=1e-4)


@pytest.mark.parametrize("row", [0, 11, N - 1])
@pytest.mark.parametrize("steps", [(), [sparsify.Given(np.eye(2))]])
def test_a_heavy_row_may_stand_anywhere(steps, row):
    """A weight of 1e12 pins one row; the dense machine is compared with the primal one on the same basis."""
    X, y = make_regression()
    v = np.where(np.arange(N) == row, 1e12, 1.0)
    model = LSSVR(**GIVEN, steps=steps).fit(X, y, v)
    order = np.argsort(-v)
    first = LSSVR(**GIVEN, steps=steps or [sparsify.Given(X)]).fit(X[order], y[order], v[order])
    assert model.predict(X[row : row + 1])[0] == pytest.approx(y[row], rel=1e-9)
    assert_allclose(model.predict(X), first.predict(X), rtol=1e-8)
    assert_allclose(model.loo_residuals_[order], first.loo_residuals_, rtol=1e-8)


def test_class_weight_is_a_sample_weight():
    X, y = make_classes(LABELS["three str"])
    y[:5] = "a"
    v = weights_of()
    by_hand = {"a": 0.5, "bb": 2.0, "ccc": 1.0}
    balanced = dict(zip(np.unique(y), compute_class_weight("balanced", classes=np.unique(y), y=y), strict=True))
    for class_weight, factors in ((by_hand, by_hand), ("balanced", balanced)):
        weighted = LSSVC(**GIVEN, class_weight=class_weight).fit(X, y)
        same_thing = LSSVC(**GIVEN).fit(X, y, [factors[label] for label in y])
        assert_allclose(weighted.decision_function(X), same_thing.decision_function(X), rtol=1e-12)
        assert_allclose(weighted.weights_, same_thing.weights_, rtol=1e-12)
    weighted = LSSVC(**GIVEN, class_weight=by_hand).fit(X, y, v)
    assert_allclose(weighted.weights_, v * np.array([by_hand[label] for label in y]), rtol=1e-12)
    weighted = LSSVC(**GIVEN, class_weight="balanced").fit(X, y, v)
    assert_allclose([weighted.weights_[y == label].sum() for label in np.unique(y)], v.sum() / 3, rtol=1e-12)


# What is left at None -------------------------------------------------------------------------------------------------
def test_given_hyper_parameters_are_kept_and_arguments_never_written():
    X, y = make_regression()
    kernel = kernels.Matern(nu=2.5)
    model = LSSVR(kernel, robust="hampel").fit(X, y)
    assert kernel.sigma is None
    assert model.kernel is kernel
    assert (model.C, model.steps, model.robust) == (None, None, "hampel")
    assert model.kernel_.nu == 2.5
    model = LSSVR(kernels.RBF(sigma=[0.7, 3.0])).fit(X, y)
    assert_array_equal(model.kernel_.sigma, [0.7, 3.0])
    assert model.C_ > 0
    model = LSSVR(C=3.5).fit(X, y)
    assert model.C_ == 3.5
    assert model.kernel_.sigma.shape == (2,)
    part_given = LSSVR(kernels.RBF(sigma=0.5) + kernels.Matern(), C=1.0).fit(X, y)
    assert part_given.kernel_.k1.sigma == 0.5
    assert part_given.kernel_.k2.sigma.shape == (2,)


@pytest.mark.parametrize("steps", [(), [sparsify.Random(7, random_state=0)]])
def test_chosen_C_has_the_smallest_press(steps):
    X, y = make_regression()
    v = weights_of()
    kernel = kernels.RBF(sigma=1.3)
    model = LSSVR(kernel, steps=steps).fit(X, y, v)
    others = [LSSVR(kernel, C=C, steps=steps).fit(X, y, v).press_ for C in np.geomspace(1e-3, 1e6, 60)]
    assert model.press_ <= min(others) * (1 + 1e-6)


@pytest.mark.filterwarnings("ignore:Rounding errors")  # C is 1e10 for widths that are too large
def test_chosen_sigma_has_about_the_smallest_press():
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(kernels.RBF()).fit(X, y)
    others = [LSSVR(kernels.RBF(sigma=sigma)).fit(X, y).press_ for sigma in np.geomspace(2.0, 100.0, 25)]
    assert model.press_ <= min(others) * 1.002


@pytest.mark.parametrize("estimator", [LSSVR, LSSVC])
@pytest.mark.parametrize(
    ("kernel", "C", "offset"),
    [(kernels.Polynomial(2), 10.0, 1e6), (kernels.Polynomial(3), 100.0, 3e3), (kernels.RBF(10.0), 1e100, 0.0)],
)
def test_rounding_errors_are_said(estimator, kernel, C, offset):
    X, y = make_regression()
    y = y > np.median(y) if estimator is LSSVC else y
    model = estimator(kernel, C)
    with pytest.warns(UserWarning, match="Rounding errors.*lower C") as caught:
        model.fit(X + offset, y)
    assert caught[0].filename == __file__
    estimator(kernel, 10.0).fit(X, y)  # no warning


@pytest.mark.parametrize("step", [sparsify.Echelon(), sparsify.AdaPinv(0.3), sparsify.FeatureVectors(5)])
@pytest.mark.parametrize("value", [0.0, 1.0, -1e8])
def test_rounding_of_constant_targets_is_not_worth_a_word(step, value):
    X = np.random.default_rng(5).normal(size=(60, 3))
    model = LSSVR(kernels.RBF(2.0), 10.0, steps=[step]).fit(X, np.full(len(X), value))  # no warning
    assert_allclose(model.predict(X), value, rtol=1e-12)


@pytest.mark.parametrize(("C", "offset"), [(1e8, 1e4), (1e3, 1e6), (None, 1e6), (1.0, 1e9)])
def test_a_linear_machine_far_from_0_is_that_about_the_means(C, offset):
    """The bias is free, so that it does not matter where 0 is; the dual machine loses all digits there."""
    X, y = make_regression()
    X = (X + offset) - offset  # what is left of the digits
    near = LSSVR(kernels.Linear(), C, steps=[sparsify.Given(np.eye(2))]).fit(X, y)
    far = LSSVR(kernels.Linear(), C).fit(X + offset, y)  # no warning
    digits = 1e-3 if C is None else 1e-15 * max(offset, 1e6) * np.ptp(y)
    assert_allclose(far.predict(X + offset), near.predict(X), atol=digits)
    assert_allclose(far.loo_residuals_, near.loo_residuals_, atol=digits)
    assert_allclose(far.predict_interval(X + offset), near.predict_interval(X), atol=5 * digits)
    assert far.support_ is None
    assert_allclose(far.support_vectors_, np.eye(2))


def test_a_basis_that_a_step_has_chosen_stays():
    X, y = make_regression()
    model = LSSVR(kernels.Linear(), 1e5, steps=[sparsify.Prune(10)]).fit(X + 100.0, y)
    assert_allclose(model.support_vectors_, X[model.support_] + 100.0)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
def test_a_linear_machine_of_raw_columns_is_ridge_regression(C):
    draw = np.random.default_rng(0)
    X = np.column_stack([draw.integers(1990, 2024, 150), draw.uniform(30, 300, 150), draw.uniform(1e4, 1e6, 150)])
    y = X @ [1e4, 3e3, 0.2] + draw.normal(0, 1e4, 150)
    model = LSSVR(kernels.Linear(), C).fit(X, y)
    assert_allclose(model.predict(X), Ridge(alpha=1 / C, solver="svd").fit(X, y).predict(X), atol=1e-8 * np.ptp(y))


@pytest.mark.parametrize("C", [1e7, 1e9])
def test_a_polynomial_machine_far_from_0_keeps_some_digits(C):
    """It goes over to a basis of independent rows: the dual one is off by more than the spread of the targets."""
    X, y = make_regression()
    X = X[:, :1] + 50.0
    with pytest.warns(UserWarning, match="Rounding errors.*off by about [1-9]e-0[2-5]"):
        model = LSSVR(kernels.Polynomial(2), C).fit(X, y)
    assert len(model.support_) == 3
    scaled = np.column_stack([np.sqrt(2.0) * X, X * X])  # (1 + x z)^2 - 1
    expected = Ridge(alpha=1 / C, solver="svd").fit(scaled, y).predict(scaled)
    assert_allclose(model.predict(X), expected, atol=1e-3 * np.ptp(y))


@pytest.mark.parametrize("kernel", [kernels.RBF(), kernels.Matern(), kernels.Additive(kernels.RBF())])
def test_chosen_sigma_follows_the_units_of_the_columns(kernel):
    X, y = make_regression()
    sigma = lambda model: getattr(model.kernel_, "kernel", model.kernel_).sigma  # noqa: E731
    model = LSSVR(kernel).fit(X, y)
    moved = LSSVR(kernel).fit(X * [1000.0, 1.0] + [0.0, 77.0], y)
    assert sigma(model).shape == (2,)
    assert_allclose(sigma(moved), sigma(model) * [1000.0, 1.0], rtol=1e-4)
    assert_allclose(moved.predict(X * [1000.0, 1.0] + [0.0, 77.0]), model.predict(X), atol=1e-5)


def test_empty_steps_still_choose_what_is_none():
    X, y = make_regression()
    for steps in ([], (), [tune.LeaveOneOut()]):
        same(LSSVR(kernels.RBF(), steps=steps).fit(X, y), LSSVR(kernels.RBF()).fit(X, y), X)


def test_chosen_values_given_back_make_the_same_machine(variant):
    model, X, y, sample_weight = variant
    again = clone(model).set_params(kernel=model.kernel_, C=model.C_).fit(X, y, sample_weight)
    assert_allclose(raw(again, X), raw(model, X), rtol=1e-9, atol=1e-10)


# Bases ----------------------------------------------------------------------------------------------------------------
def test_basis_of_rows_or_of_points():
    X, y = make_regression()
    drawn = LSSVR(**GIVEN, steps=[sparsify.Random(20, random_state=0)]).fit(X, y)
    assert len(np.unique(drawn.support_)) == 20
    rows = LSSVR(**GIVEN, steps=[sparsify.Given(drawn.support_)]).fit(X, y)
    points = LSSVR(**GIVEN, steps=[sparsify.Given(X[drawn.support_])]).fit(X, y)
    assert points.support_ is None
    assert_array_equal(points.support_vectors_, X[drawn.support_])
    assert_array_equal(rows.support_, drawn.support_)
    for model in (rows, points):
        same(model, drawn, X)


def test_basis_of_all_rows_is_the_dense_machine():
    X, y = make_regression()
    v = weights_of()
    dense = LSSVR(**GIVEN).fit(X, y, v)
    for basis in (np.arange(N)[::-1], X):
        model = LSSVR(**GIVEN, steps=[sparsify.Given(basis)]).fit(X, y, v)
        assert_allclose(model.predict(X), dense.predict(X), rtol=1e-9)
        assert_allclose(model.loo_residuals_, dense.loo_residuals_, rtol=1e-7, atol=1e-9)
    assert_array_equal(LSSVR(**GIVEN, steps=[sparsify.Random(99)]).fit(X, y).support_, np.arange(N))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-120, 1e150])
def test_default_models_in_any_unit(unit):
    """A stack of kernels with widths and of a linear kernel, whose values are as large as the squares of the inputs."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (60, 2))
    y = X[:, 0] + 0.3 * rng.standard_normal(60)
    plain, model = LSSVR().fit(X, y), LSSVR().fit(unit * X, y)
    assert any(isinstance(member.kernel_, kernels.Linear) for member in plain.members_)
    assert_allclose(model.predict(unit * X), plain.predict(X), rtol=0, atol=1e-5)


def test_copies_in_the_basis_change_nothing():
    X, y = make_regression()
    points = X[[0, 5, 9]]
    once = LSSVR(**GIVEN, steps=[sparsify.Given(points)]).fit(X, y)
    twice = LSSVR(**GIVEN, steps=[sparsify.Given(np.vstack([points, points]))]).fit(X, y)
    assert_allclose(twice.predict(X), once.predict(X), rtol=1e-9)
    assert_allclose(twice.loo_residuals_, once.loo_residuals_, rtol=1e-9)


@pytest.mark.parametrize(("rows", "basis"), [(2000, 2000), (2001, 500)])
def test_the_plan_by_size(rows, basis):
    X = np.linspace(-5, 5, rows)[:, None]
    model = LSSVR(kernels.RBF(sigma=1.0), C=10.0).fit(X, np.sinc(X[:, 0]))
    assert len(np.unique(model.support_)) == basis
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert_allclose(model.predict(X), np.sinc(X[:, 0]), atol=0.01)


# Awkward data ---------------------------------------------------------------------------------------------------------
def test_a_constant_column_changes_nothing():
    X, y = make_regression()
    wide = np.column_stack([X, np.full(N, 1e6)])
    model, widened = LSSVR(**GIVEN).fit(X, y), LSSVR(**GIVEN).fit(wide, y)
    rounding = np.finfo(float).eps * N * np.abs(model.dual_coef_).sum()
    assert_allclose(widened.predict(wide), model.predict(X), rtol=1e-12, atol=rounding)
    model, widened = LSSVR().fit(X, y), LSSVR().fit(wide, y)
    assert widened.press_ == pytest.approx(model.press_, rel=1e-9)
    wide[:, -1] = X[:, 0]  # nothing is known about the effect of other values
    assert_allclose(widened.predict(wide), model.predict(X), rtol=1e-9, atol=1e-9)


def test_binary_columns_with_many_copies_are_weighted_group_means():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 2))
    y = X @ [1.0, -2.0] + rng.standard_normal(60)
    cells, member, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    means = np.bincount(member.reshape(-1), weights=y) / counts  # NumPy 2.0 gives the shape (60, 1)
    copies, grouped = LSSVR(**GIVEN).fit(X, y), LSSVR(**GIVEN).fit(cells, means, counts)
    assert_allclose(copies.predict(cells), grouped.predict(cells), rtol=1e-10)
    assert np.isfinite(LSSVR().fit(X, y).predict(X)).all()
    assert np.isfinite(LSSVC().fit(X, y > 0).predict_proba(X)).all()


def test_constant_targets_and_one_distinct_row():
    X, _ = make_regression()
    assert_allclose(LSSVR().fit(X, np.full(N, 7.0)).predict(X), 7.0, rtol=1e-12)
    model = LSSVR().fit(np.ones((4, 2)), [0.0, 1.0, 2.0, 3.0])
    assert_allclose(model.predict([[1.0, 1.0]]), 1.5)
    assert_allclose(model.loo_residuals_, 4 / 3 * (np.arange(4) - 1.5))


def test_two_rows_leave_each_other_out():
    for sigma, C in ((0.1, 1e-3), (1.0, 1.0), (10.0, 1e3)):
        model = LSSVR(kernels.RBF(sigma=sigma), C=C).fit([[0.0], [1.0]], [5.0, 2.0])
        assert_allclose(model.loo_residuals_, [3.0, -3.0], rtol=1e-8)


# scikit-learn ---------------------------------------------------------------------------------------------------------
def test_clone_and_repr():
    model = LSSVC(kernels.RBF(sigma=2.0), C=3.0, steps=[sparsify.Random(5)], robust="huber", class_weight="balanced")
    copy = clone(model.fit(*make_classes(LABELS["str"])))
    assert repr(copy) == repr(model)
    assert not hasattr(copy, "dual_coef_")
    assert copy.kernel is not model.kernel
    assert repr(LSSVR(kernels.RBF(sigma=2.0))) == "LSSVR(kernel=RBF(sigma=2.0))"


def test_pickle_keeps_every_bit(variant):
    model, X, _, _ = variant
    same(pickle.loads(pickle.dumps(model)), model, X)


@pytest.mark.parametrize("model", [LSSVR(kernels.RBF(sigma=1.0)), LSSVC()])
def test_html_repr_names_the_class_without_a_link_to_scikit_learn(model):
    html = model._repr_html_()
    assert type(model).__name__ in html
    assert 'href="https://scikit-learn.org' not in html


def test_grid_search_over_kernel_parameters():
    X, y = make_regression(60)
    grid = {"kernel__sigma": [0.01, 1.0, 100.0], "C": [1e-3, 10.0]}
    search = GridSearchCV(LSSVR(kernels.RBF()), grid, cv=4).fit(X, y)
    assert search.best_params_ == {"kernel__sigma": 1.0, "C": 10.0}
    assert search.best_estimator_.kernel_.sigma == 1.0
    for parameters, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        by_hand = LSSVR(kernels.RBF(sigma=parameters["kernel__sigma"]), C=parameters["C"])
        assert score == pytest.approx(cross_val_score(by_hand, X, y, cv=4).mean(), rel=1e-12)


@pytest.mark.parametrize("C", [2.0, None])
def test_precomputed_kernel_in_cross_validation(C):
    X, y = make_regression(40)
    kernel = kernels.RBF(sigma=1.3)
    explicit = cross_val_score(LSSVR(kernel, C=C), X, y, cv=4)
    assert_allclose(cross_val_score(LSSVR(kernels.Precomputed(), C=C), kernel(X), y, cv=4), explicit, rtol=1e-6)
    X, y = make_classes(LABELS["three str"], 40)
    explicit = cross_val_score(LSSVC(kernel, C=C), X, y, cv=4)
    found = cross_val_score(LSSVC(kernels.Precomputed(), C=C), kernel(X), y, cv=4)
    # halves of the rows, from which C is searched, are drawn by the values of X, or of y
    assert_allclose(found, explicit, rtol=1e-6, atol=0.0 if C else 0.11)


@pytest.mark.parametrize("C", [2.0, None])
@pytest.mark.parametrize("sample_weight", [None, weights_of() - weights_of().min()])
def test_precomputed_kernel_with_a_basis(C, sample_weight):
    X, y = make_regression()
    kernel, rows, new = kernels.RBF(sigma=1.3), [2, 3, 11, 20], make_regression(5, seed=9)[0]
    steps = [sparsify.Given(rows)]
    explicit = LSSVR(kernel, C=C, steps=steps).fit(X, y, sample_weight)
    model = LSSVR(kernels.Precomputed(), C=C, steps=steps).fit(kernel(X), y, sample_weight)
    assert_array_equal(model.support_, rows)
    assert_allclose(model.loo_residuals_, explicit.loo_residuals_, rtol=1e-6, atol=1e-8)
    for K in (kernel(new, X), kernel(new, X[rows])):  # rows x training rows, or rows x basis
        assert_allclose(model.predict(K), explicit.predict(new), rtol=1e-6)
        assert_allclose(model.predict(K.tolist()), explicit.predict(new), rtol=1e-6)
        assert_allclose(model.predict_interval(K), explicit.predict_interval(new), rtol=1e-6)


def test_precomputed_kernel_without_the_rows_of_weight_zero():
    X, y = make_regression()
    v = np.where(np.arange(N) % 3 == 0, 0.0, 1.0)
    kernel, new = kernels.RBF(sigma=1.3), make_regression(5, seed=9)[0]
    explicit, model = LSSVR(kernel, C=2.0).fit(X, y, v), LSSVR(kernels.Precomputed(), C=2.0).fit(kernel(X), y, v)
    for K in (kernel(new, X), kernel(new, X[v > 0])):
        assert_allclose(model.predict(K), explicit.predict(new), rtol=1e-9)
    assert_allclose(model.predict_interval(kernel(new, X)), explicit.predict_interval(new), rtol=1e-9)


def test_callable_kernel_equals_the_class():
    X, y = make_regression()
    by_hand = LSSVR(lambda A, B: np.exp(-((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2) / 1.3**2), C=5.0).fit(X, y)
    assert_allclose(by_hand.predict(X), LSSVR(**GIVEN).fit(X, y).predict(X), rtol=1e-9)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(library):
    frames = pytest.importorskip(library)
    X, y = make_regression()
    _, labels = make_classes(LABELS["three str"])
    frame = frames.DataFrame({"width": X[:, 0], "height": X[:, 1]})
    if parse_version(sklearn.__version__) < parse_version("1.9") and not hasattr(frame, "__dataframe__"):
        pytest.skip("scikit-learn before 1.9 does not read the column names of polars 2")
    model, plain = LSSVR(**GIVEN).fit(frame, frames.Series(y), frames.Series(weights_of())), LSSVR(**GIVEN)
    plain.fit(X, y, weights_of())
    assert_array_equal(model.feature_names_in_, ["width", "height"])
    assert_array_equal(model.predict(frame), plain.predict(X))
    assert_array_equal(model.predict_interval(frame), plain.predict_interval(X))
    both = LSSVR(**GIVEN).fit(frame, frames.DataFrame({"a": y, "b": 2 * y}))
    assert_allclose(both.predict(frame), np.column_stack([plain_y := LSSVR(**GIVEN).fit(X, y).predict(X), 2 * plain_y]))
    classifier = LSSVC(**GIVEN).fit(frame, frames.Series(labels))
    assert_array_equal(classifier.predict(frame), LSSVC(**GIVEN).fit(X, labels).predict(X))
    for method in (model.predict, model.predict_interval, classifier.predict_proba):
        with pytest.raises(ValueError, match="same order"):
            method(frame[["height", "width"]])
        with pytest.raises(ValueError, match=r"(?s)depth.*height"):
            method(frames.DataFrame({"width": X[:, 0], "depth": X[:, 1]}))
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")


def test_refit_replaces_everything():
    X, y = make_regression(outputs=2)
    model = LSSVR(**GIVEN, robust="hampel", steps=[sparsify.Given(np.eye(2))]).fit(X, y, weights_of())
    model.set_params(robust=None, steps=None).fit(X[:9, :1], y[:9, 0])
    fresh = LSSVR(**GIVEN).fit(X[:9, :1], y[:9, 0])
    assert vars(model).keys() == vars(fresh).keys()
    for name in (name for name in vars(fresh) if name.endswith("_") and not name.startswith("_")):
        assert np.array_equal(getattr(model, name), getattr(fresh, name)) or name in ("kernel_", "fitted_"), name
    same(model, fresh, X[:, :1])


# The model owns what it needs -----------------------------------------------------------------------------------------
def test_fit_and_predict_leave_their_arguments_alone(variant):
    model, X, y, sample_weight = variant
    arrays = [array for array in (X, y, sample_weight) if array is not None]
    before = [array.copy() for array in arrays]
    clone(model).fit(X, y, sample_weight).score(X, y)
    for array, copy in zip(arrays, before, strict=True):
        assert_array_equal(array, copy)


@pytest.mark.parametrize("steps", [(), [sparsify.Random(7, random_state=0)]])
def test_later_changes_of_the_data_do_not_reach_the_model(steps):
    X, y = make_regression()
    v, new = weights_of(), X.copy()
    model = LSSVR(**GIVEN, steps=steps).fit(X, y, v)
    prediction, interval = model.predict(new), model.predict_interval(new)
    X[:], y[:], v[:] = 0.0, 0.0, 1.0
    assert_array_equal(model.predict(new), prediction)
    assert_array_equal(model.predict_interval(new), interval)


def test_later_changes_of_given_points_do_not_reach_the_model():
    X, y = make_regression()
    points = X[:5].copy()
    model = LSSVR(**GIVEN, steps=[sparsify.Given(points)]).fit(X, y)
    prediction = model.predict(X)
    points[:] = 0.0
    assert_array_equal(model.predict(X), prediction)


def test_later_changes_of_the_kernel_do_not_reach_the_model():
    X, y = make_regression()
    model = LSSVR(kernels.RBF(sigma=1.3), C=5.0).fit(X, y)
    prediction = model.predict(X)
    model.set_params(kernel__sigma=9.0)
    assert model.kernel_.sigma == 1.3
    assert_array_equal(model.predict(X), prediction)


# Repeatability --------------------------------------------------------------------------------------------------------
def test_fits_are_deterministic_to_the_bit(variant):
    model, X, y, sample_weight = variant
    again = clone(model).fit(X, y, sample_weight)
    same(again, model, X)
    for name in ("dual_coef_", "loo_residuals_", "leverage_", "weights_", "C_", "press_"):
        assert_array_equal(getattr(again, name), getattr(model, name))


@pytest.mark.parametrize(
    "model",
    [LSSVR(**GIVEN), LSSVR(**GIVEN, robust="hampel"), LSSVR(**GIVEN, steps=[sparsify.Given(np.eye(2))]), LSSVR()],
)
def test_order_of_rows_does_not_matter(model):
    X, y = make_regression()
    v, order = weights_of(), np.random.default_rng(5).permutation(N)
    plain, shuffled = clone(model).fit(X, y, v), clone(model).fit(X[order], y[order], v[order])
    tolerance = 1e-9 if model.C else 1e-5  # a search for C stops near its minimum, not at it
    assert_allclose(shuffled.predict(X), plain.predict(X), rtol=tolerance, atol=tolerance)
    assert_allclose(shuffled.loo_residuals_, plain.loo_residuals_[order], rtol=tolerance, atol=tolerance)


def test_small_working_memory_changes_nothing(variant):
    model, X, y, sample_weight = variant
    with config_context(working_memory=1e-3):  # blocks of a few rows
        small = clone(model).fit(X, y, sample_weight)
        prediction = raw(small, X)
    tolerance = 1e-8 if model.C_ < 1e6 else 1e-5  # a chosen machine may be near interpolation
    assert_allclose(prediction, raw(model, X), rtol=tolerance, atol=tolerance)
    assert_allclose(small.loo_residuals_, model.loo_residuals_, rtol=10 * tolerance, atol=10 * tolerance)


def test_rows_are_predicted_one_by_one_as_together(variant):
    model, X, _, _ = variant
    assert_allclose(np.concatenate([raw(model, x[None, :]) for x in X]), raw(model, X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_narrow_types_are_computed_in_double_precision(dtype):
    X, y = make_regression()
    X = (10 * X).astype(dtype)
    model = LSSVR(kernels.RBF(sigma=13.0), C=5.0).fit(X, y.astype(np.float32))
    assert model.predict(X).dtype == np.float64
    same(model, clone(model).fit(X.astype(float), y.astype(np.float32).astype(float)), X)


@pytest.mark.slow
def test_four_threads_equal_one():
    """24 fits and 40 predictions in four threads, each the same bits as alone."""
    new = make_regression(50, seed=99)[0]
    variants = [VARIANTS[name] for name in ("dense", "robust", "drawn rows", "three classes, weighted")]
    fit = lambda job: clone(variants[job % 4][0]).fit(*variants[job % 4][1], variants[job % 4][2])  # noqa: E731
    serial = [fit(job) for job in range(24)]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(fit, range(24)))
        predictions = list(pool.map(lambda job: raw(serial[job % 4], new), range(40)))
    for left, right in zip(threaded, serial, strict=True):
        same(left, right, new)
    for job, prediction in enumerate(predictions):
        assert_array_equal(prediction, raw(serial[job % 4], new))


@pytest.mark.slow
def test_a_forked_child_can_fit():
    script = """if True:
        import os, warnings
        import numpy as np
        from lssvm import LSSVR, kernels
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads
        X = np.random.default_rng(0).standard_normal((600, 3))
        fit = lambda: LSSVR(kernels.RBF(sigma=1.0), C=1.0).fit(X, X[:, 0]).predict(X)
        expected = fit()
        child = os.fork()
        if not child:
            os._exit(0 if np.array_equal(fit(), expected) else 1)
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this platform")
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0


# An interrupted fit ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
@pytest.mark.parametrize("estimator", [LSSVR, LSSVC])
def test_an_interrupted_fit_leaves_the_previous_model_or_none(estimator, error, monkeypatch):
    X, y = make_classes(LABELS["three int"])
    model, unfitted = estimator(**GIVEN).fit(X, y), estimator(**GIVEN)
    before, prediction = dict(vars(model)), model.predict(X)

    def interrupted(self, **options):
        raise error("stop")

    monkeypatch.setattr(Problem, "solve", interrupted)
    for machine in (model, unfitted):
        with pytest.raises(error, match="stop"):
            machine.fit(X[:, :1], y)
    assert {name: id(value) for name, value in vars(model).items()} == {
        name: id(value) for name, value in before.items()
    }
    assert_array_equal(model.predict(X), prediction)
    with pytest.raises(NotFittedError):
        unfitted.predict(X)
    assert vars(unfitted).keys() == estimator().get_params(deep=False).keys()


@pytest.mark.slow
def test_signals_at_any_time_leave_a_whole_model():
    """50 interrupts at random times of a fit: the old model or the new one, bit for bit, never a mixture."""
    script = """if True:
        import signal, time
        import numpy as np
        from lssvm import LSSVR
        rng = np.random.default_rng(0)
        X = rng.standard_normal((60, 2))
        data = [(X[:, :1], X[:, 0]), (X, X[:, 1] ** 2)]
        expected = [LSSVR(C=1.0).fit(*pair).predict(pair[0]) for pair in data]
        start = time.perf_counter()
        LSSVR(C=1.0).fit(*data[1])
        seconds = time.perf_counter() - start
        armed = []
        def stop(*_):
            if armed:
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, stop)
        interrupted = 0
        for _ in range(50):
            model = LSSVR(C=1.0).fit(*data[0])
            try:
                armed.append(1)
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, seconds))
                model.fit(*data[1])
                armed.clear()
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                armed.clear()
                signal.setitimer(signal.ITIMER_REAL, 0)
            which = model.n_features_in_ - 1
            assert np.array_equal(model.predict(data[which][0]), expected[which])
        assert interrupted >= 10, interrupted
    """
    if sys.platform == "win32":
        pytest.skip("no interval timer on this platform")
    result = subprocess.run([sys.executable, "-c", script], timeout=120, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.filterwarnings("ignore:Rounding errors")
@pytest.mark.parametrize("kernel", [lambda A, B: A @ B.T, kernels.Linear() + kernels.RBF(50.0)])
def test_kernels_far_from_zero_get_a_basis_of_independent_rows(kernel):
    """Whether or not the rank of the kernel is known to be finite."""
    rng = np.random.RandomState(0)
    X = 1e4 + rng.standard_normal((100, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.01 * rng.standard_normal(100)
    assert np.max(np.abs(LSSVR(kernel, C=1e4).fit(X, y).predict(X) - y)) < 0.1


# Far cells ------------------------------------------------------------------------------------------------------------
FAR_KERNELS = [
    kernels.RBF(2.0),
    *(kernels.Matern(2.0, nu) for nu in (0.5, 1.5, 2.5)),
    kernels.RBF(2.0) + kernels.Linear(),
]


def with_far_cells(X, cell):
    """Copies of X with one far cell, and with several far rows."""
    one, several = X.copy(), X.copy()
    one[3, -1] = cell
    several[[2, 5], 0] = cell
    several[6] = -cell
    return [(one, [3]), (several, [2, 5, 6])]


def check_rows_alone(predict, X, tolerance, cells=(1e3, 999999999.0, 1e12, 1e300)):
    """The predictions of a batch with far rows are those of every row alone, and of a batch without far cells."""
    clean = predict(X)
    for cell in cells:
        for rows, far in with_far_cells(X, cell):
            found, near = predict(rows), np.delete(np.arange(len(X)), far)
            assert np.isfinite(found).all()
            assert_allclose(found[near], clean[near], rtol=0, atol=tolerance)
            alone = np.concatenate([predict(rows[i : i + 1]) for i in range(len(rows))])
            scale = np.maximum(1.0, np.abs(alone))  # a linear part is as large as the cell
            assert_allclose(found / scale, alone / scale, rtol=0, atol=tolerance)


def rounding_of(model):
    """A bound on the rounding errors of sums over the support vectors, for kernel values up to 1."""
    total = sum(
        weight * np.abs(member.dual_coef_).sum()
        for member, weight in zip(model.members_, model.stack_weights_, strict=True)
    )
    return 8 * np.finfo(float).eps * total


@pytest.mark.parametrize("columns", [1, 4, 5, 40])  # from 5 on, distances come from products
@pytest.mark.parametrize("kernel", FAR_KERNELS, ids=range(len(FAR_KERNELS)))
def test_a_row_is_predicted_as_if_it_were_alone(kernel, columns):
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((60, columns)), rng.standard_normal((8, columns))
    model = LSSVR(kernel, C=10.0).fit(X, np.sin(X.sum(axis=1)))
    check_rows_alone(model.predict, new, 1e-9)
    sparse = LSSVR(kernel, C=10.0, steps=[sparsify.Random(20, random_state=0)]).fit(X, np.sin(X.sum(axis=1)))
    check_rows_alone(sparse.predict, new, 1e-9)


def test_tensors_are_predicted_as_if_each_row_were_alone():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for columns in (3, 6):
        X, new = rng.standard_normal((60, columns)), rng.standard_normal((8, columns))
        for kernel in (kernels.RBF(2.0), kernels.Matern(2.0)):
            model = LSSVR(kernel, C=10.0).fit(torch.asarray(X), torch.asarray(np.sin(X.sum(axis=1))))
            predict = lambda rows, model=model: model.predict(torch.asarray(rows)).numpy()  # noqa: E731
            check_rows_alone(predict, new, 1e-9, cells=[999999999.0, 1e300])


def test_defaults_predict_a_row_as_if_it_were_alone():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((60, 6)), rng.standard_normal((8, 6))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(60)
    model = LSSVR().fit(X, y)
    tolerance = 1e-9 + rounding_of(model)
    assert tolerance < 1e-6
    for method in (model.predict, model.predict_interval, lambda rows: model.predict_quantiles(rows, [0.1, 0.5])):
        check_rows_alone(method, new, tolerance, cells=[999999999.0, 1e300])
    classifier = LSSVC().fit(X, np.digitize(y, [-0.7, 0.7]))
    check_rows_alone(classifier.predict_proba, new, 1e-9)


def friedman(rows, columns, cell=None):
    X, y = make_friedman1(rows + 400, columns, noise=0.5, random_state=0)
    if cell is not None:
        X[0, 1] = cell
    return X[:rows], y[:rows], X[rows:], y[rows:]


def loss_by_a_far_cell(model, columns, cell, rows=300):
    """Test score of a fit without the first row, minus that of a fit in which one of its cells is far."""
    X, y, new, truth = friedman(rows, columns, cell)
    if isinstance(model, LSSVC):
        y, truth = y > 14.5, truth > 14.5
    return clone(model).fit(X[1:], y[1:]).score(new, truth) - model.fit(X, y).score(new, truth)


@pytest.mark.parametrize("kernel", [kernels.RBF(sigma=2.0), kernels.Matern(sigma=3.0)])
@pytest.mark.parametrize("columns", [6, 12])
@pytest.mark.parametrize("cell", [1e7, 1e8, 1e12, 1e300])
def test_a_far_training_cell_leaves_the_other_rows_as_they_are(kernel, columns, cell):
    model = LSSVR(kernel, C=100.0)
    assert abs(loss_by_a_far_cell(model, columns, cell)) < 0.001
    assert model.leverage_[0] > 0.9  # nothing else explains this row
    classifier = LSSVC(kernel, C=100.0)
    assert abs(loss_by_a_far_cell(classifier, columns, cell)) <= 0.01


@pytest.mark.parametrize("cell", [1e8, 1e300])
def test_a_far_training_cell_hardly_changes_the_defaults(cell):
    assert loss_by_a_far_cell(LSSVR(), 6, cell, rows=100) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("cell", [1e7, 1e8, 1e12, 1e300])
def test_a_far_training_cell_hardly_changes_the_defaults_on_more_rows(cell):
    assert loss_by_a_far_cell(LSSVR(), 6, cell) < 0.02
    assert loss_by_a_far_cell(LSSVR(), 12, cell) < 0.02
    assert loss_by_a_far_cell(LSSVC(), 6, cell) < 0.05  # also without a far cell, the search may choose other losses


# Very many columns ----------------------------------------------------------------------------------------------------
def test_a_linear_model_of_very_many_columns_needs_no_point_per_column():
    """Points that span all linear functions would be a matrix of columns x columns."""
    X = np.random.default_rng(0).standard_normal((20, 3000))
    tracemalloc.start()
    LSSVR(kernels.Stack([kernels.RBF(50.0), kernels.Linear()]), C=1.0).fit(X, X[:, 0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 3000**2 / 4


STATUS = Path("/proc/self/status")
WIDE = """
import time
import numpy as np
from lssvm import LSSVC, LSSVR
rng = np.random.default_rng(0)
X, y = rng.standard_normal((1060, 20_000)), rng.standard_normal(1060)
X[:, :200] += y[:, None]
start = time.process_time()
if "{model}" == "LSSVR":
    error = np.std(y[60:] - LSSVR().fit(X[:60], y[:60]).predict(X[60:])) / y.std()
else:
    error = 1.0 - LSSVC().fit(X[:60], y[:60] > 0).score(X[60:], y[60:] > 0)
with open("/proc/self/status") as status:  # ru_maxrss includes the memory of the parent
    (peak,) = (int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(error, time.process_time() - start, peak / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize(("model", "largest"), [("LSSVR", 0.5), ("LSSVC", 0.2)])
def test_very_many_columns(model, largest):
    """A minute and 2 GiB suffice for 60 rows and 20,000 columns, of which 200 matter."""
    result = subprocess.run(
        [sys.executable, "-c", WIDE.format(model=model)], capture_output=True, text=True, check=True, timeout=600
    )
    error, seconds, memory = map(float, result.stdout.split())
    assert error < largest
    assert seconds < 400.0
    assert memory < 2.0
