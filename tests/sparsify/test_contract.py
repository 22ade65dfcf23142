"""Sparsifiers: one contract for every name in `sparsify.__all__`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sparsify_cases import GIVEN, POINTS, ROWS, SIZE, TASKS, assert_sound, make, within

from lssvm import LSSVR, kernels, sparsify
from lssvm.sparsify import (
    Adaline,
    AdaPinv,
    Components,
    Echelon,
    FeatureVectors,
    Forward,
    Given,
    InversePrune,
    KMeans,
    Learned,
    Prune,
    Random,
    RandomlyPivoted,
    Substrate,
)
from lssvm.tune import LeaveOneOut

pytestmark = pytest.mark.filterwarnings("ignore:Components. no input is kept")  # true of some of these sets

# A new sparsifier is one line here.
STEPS = {
    "AdaPinv": [AdaPinv()],
    "Adaline": [Adaline(tol=0.05, max_iter=500)],
    "Components": [Components(rho=0.5), Components(random_state=0)],
    "Echelon": [Echelon(n=SIZE), Echelon()],
    "FeatureVectors": [FeatureVectors(SIZE), FeatureVectors(SIZE, candidates=9, random_state=0)],
    "Forward": [Forward(SIZE, random_state=0)],
    "Given": [Given(np.arange(5, 17)), Given(POINTS)],
    "InversePrune": [InversePrune()],
    "KMeans": [KMeans(SIZE, random_state=0)],
    "Learned": [Learned(12, steps=5, random_state=0)],
    "Prune": [
        Prune(SIZE),
        Prune(SIZE, rows="keep"),
        Prune(rows="keep", score="kfold", fraction=0.2, random_state=0),
        Prune(score="validation", fraction=0.3, retune=True, random_state=0),
    ],
    "Random": [Random(SIZE, random_state=0)],
    "RandomlyPivoted": [RandomlyPivoted(SIZE, random_state=0)],
    "Substrate": [Substrate(zeta=0.3, refit=True), Substrate(refit=True, random_state=0)],
}
KKT_COLUMNS = (InversePrune, AdaPinv, Echelon, Adaline)
CASES = [  # one of each sparsifier is quick enough
    pytest.param((name, position), id=f"{name}{position}", marks=[pytest.mark.slow] * (position > 0))
    for name in sparsify.__all__
    for position in range(len(STEPS.get(name, [None])))
]


@pytest.fixture(params=CASES)
def step(request, monkeypatch):
    name, position = request.param
    if name == "Components":  # which keeps the basis and chooses inputs, of an additive machine
        monkeypatch.setitem(GIVEN, "kernel", kernels.Additive(kernels.RBF(sigma=1.3)))
    assert name in STEPS, f"sparsify.{name} has no instance in STEPS: add a line"
    assert type(STEPS[name][position]) is getattr(sparsify, name)
    return clone(STEPS[name][position])


def may_keep_all(step):
    """Pruning whose first step costs too much stops there; where copies disagree, Adaline has no small residual."""
    return isinstance(step, Adaline) or (isinstance(step, Prune) and step.n is None)


@pytest.mark.parametrize("task", TASKS)
def test_a_valid_smaller_basis_with_exact_leave_one_out(step, task):
    model, X, y = make(task)
    model.set_params(steps=[step]).fit(X, y)
    assert_sound(model, X, y, reduced=isinstance(step, KKT_COLUMNS))
    if getattr(step, "n", None) is not None:
        assert len(model.support_vectors_) <= SIZE
    if getattr(step, "rows", "keep") == "keep" and not (isinstance(step, Adaline) and task == "numbers"):
        assert model.score(X, y) > 0.6  # Algorithm 2 and A-LSSVM keep the rows that fit worst
    if task != "numbers":
        assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("task", ["numbers", "three classes"])
def test_composes_with_robust_weights(step, task):
    model, X, y = make(task)
    if task == "numbers":
        y[::17] += 6.0
    model.set_params(steps=[step], robust="hampel").fit(X, y)
    assert_sound(model, X, y, reduced=isinstance(step, KKT_COLUMNS))
    if task == "numbers" and not isinstance(step, Prune):  # whose dropped rows have weight 0
        assert model.weights_[::17].max() < 0.1


def test_is_the_same_for_a_seed_and_keeps_its_parameters(step):
    model, X, y = make("three classes")
    before = repr(step), set(vars(step))
    one, two = (clone(model).set_params(steps=[s]).fit(X, y) for s in (step, clone(step)))
    assert (repr(step), set(vars(step))) == before
    assert repr(clone(step)) == repr(step)
    for name in ("support_vectors_", "dual_coef_", "intercept_", "loo_residuals_", "weights_"):
        assert_array_equal(getattr(one, name), getattr(two, name))
    assert_array_equal(one.decision_function(X), two.decision_function(X))
    if "random_state" in step.get_params():
        other = clone(step).set_params(random_state=np.random.RandomState(0))
        if step.random_state == 0:
            assert_array_equal(clone(model).set_params(steps=[other]).fit(X, y).support_vectors_, one.support_vectors_)


def test_composes_with_a_tuner(step):
    model, X, y = make("numbers")
    kernel = kernels.Additive(kernels.Matern()) if isinstance(step, Components) else kernels.RBF()
    model.set_params(kernel=kernel, C=None, steps=[step, LeaveOneOut()]).fit(X, y)
    assert all(np.all(leaf.sigma > 0) for leaf in model.kernel_.leaves)
    assert model.C_ > 0
    assert_sound(model, X, y, reduced=isinstance(step, KKT_COLUMNS), smaller=not may_keep_all(step))


def test_composes_with_a_sparsifier_before_it(step):
    model, X, y = make("numbers")
    model.set_params(steps=[Random(60, random_state=1), step])
    if isinstance(step, KKT_COLUMNS):
        with pytest.raises(ValueError, match=rf"{type(step).__name__}.*before other sparsifiers"):
            model.fit(X, y)
        return
    model.fit(X, y)
    assert_sound(model, X, y)
    if isinstance(step, Prune):
        drawn = LSSVR(**GIVEN, steps=[Random(60, random_state=1)]).fit(X, y).support_
        assert np.isin(model.support_, drawn).all()
    points = clone(model).set_params(steps=[Given(POINTS), step])
    if isinstance(step, Prune):
        with pytest.raises(ValueError, match="Prune needs a basis of training rows"):
            points.fit(X, y)
    else:
        assert_sound(points.fit(X, y), X, y)


def test_a_sparsifier_after_it_counts(step):
    model, X, y = make("numbers")
    model.set_params(steps=[step, Random(5, random_state=1)]).fit(X, y)
    assert len(model.support_) == 5
    assert_sound(model, X, y)


@pytest.mark.parametrize("task", ["numbers", "three classes"])
def test_copies_of_rows(step, task):
    """Five distinct rows, fewer than n: a basis of no more than them, or one that shares copies; always sound."""
    model, X, y = make(task)
    distinct = np.array([0, 1, 2, 4, 5])
    X = X[distinct[np.arange(ROWS) % 5]]
    with within(60):
        model.set_params(steps=[step]).fit(X, y)
    if isinstance(step, (FeatureVectors, RandomlyPivoted, KMeans, Forward)):
        assert len(model.support_vectors_) <= 5
        assert len(np.unique(model.support_vectors_, axis=0)) == len(model.support_vectors_)
    reduced = isinstance(step, KKT_COLUMNS) and len(model.support_vectors_) < ROWS
    assert_sound(model, X, y, reduced=reduced, smaller=not may_keep_all(step))


def with_constants(X):
    return np.column_stack([X[:, 0], np.full(len(X), 7.0), X[:, 1], np.zeros(len(X))])


def test_constant_columns(step):
    model, X, y = make("numbers")
    plain = clone(model).set_params(steps=[step]).fit(X, y)
    if isinstance(step, Given) and step.points.ndim == 2:
        step = Given(with_constants(step.points))
    model.set_params(steps=[step]).fit(with_constants(X), y)
    assert_allclose(model.predict(with_constants(X)), plain.predict(X), rtol=1e-6, atol=1e-7)
    assert_sound(model, with_constants(X), y, reduced=isinstance(step, KKT_COLUMNS))


@pytest.mark.parametrize("name", ["FeatureVectors", "KMeans", "Prune", "InversePrune"])
def test_constant_columns_where_the_width_is_chosen(name):
    """In units of each column's spread: that of a constant column must not be 0."""
    _, X, y = make("numbers")
    model = LSSVR(steps=[clone(STEPS[name][0])]).fit(with_constants(X), y)
    assert np.all(model.kernel_.sigma > 0)
    assert_sound(model, with_constants(X), y, reduced=name == "InversePrune")


def test_all_columns_constant(step):
    model, _, y = make("numbers")
    X = np.full((ROWS, 2), 3.0)
    with within(60):
        model.set_params(steps=[step]).fit(X, y)
    assert_allclose(model.predict(X), model.predict(X[:1])[0])
    assert y.min() < model.predict(X[:1])[0] < y.max()


@pytest.mark.parametrize("kernel", [kernels.Linear(), kernels.Polynomial(2, coef0=0.0)])
def test_a_kernel_that_is_zero(step, kernel):
    """Inputs of zeros: the machine is the mean of the rows that count, or the step says that the kernel is zero."""
    X, y = np.zeros((20, 2)), np.random.default_rng(0).standard_normal(20)
    given = Given(np.arange(3)) if isinstance(step, Given) else step
    kernel = kernels.Additive(kernel) if isinstance(step, Components) else kernel
    model, error = LSSVR(kernel, C=1.0, steps=[given]), ""
    try:
        model.fit(X, y)
    except ValueError as caught:
        error = str(caught)
    if error:
        assert type(step).__name__ in error
        assert "kernel" in error
        return
    assert_allclose(model.predict(X), model.intercept_, atol=1e-12)
    if not isinstance(step, KKT_COLUMNS):
        assert model.intercept_ == pytest.approx(np.average(y, weights=model.weights_))


def test_more_than_there_is(step):
    """n beyond the number of rows takes what there is."""
    model, X, y = make("numbers", rows=20)
    if "n" not in step.get_params():
        pytest.skip("takes no n")
    with within(60):
        model.set_params(steps=[clone(step).set_params(n=50)]).fit(X, y)
    reduced = isinstance(step, KKT_COLUMNS) and len(model.support_vectors_) < 20
    assert_sound(model, X, y, reduced=reduced, smaller=False)


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", True, np.array([2]), float("nan")])
def test_a_size_that_is_none(step, n):
    model, X, y = make("numbers", rows=20)
    for name in {"n", "candidates", "pool", "max_iter"} & set(step.get_params()):
        with pytest.raises(ValueError, match=rf"{type(step).__name__}: {name} must be a positive integer"):
            clone(model).set_params(steps=[clone(step).set_params(**{name: n})]).fit(X, y)


@pytest.mark.parametrize("value", [-0.1, 1.0, "x", float("nan")])
def test_a_share_that_is_none(step, value):
    model, X, y = make("numbers", rows=20)
    shares = {"fraction", "tolerance", "validation", "error"} | ({"tol"} if isinstance(step, FeatureVectors) else set())
    for name in shares & set(step.get_params()):
        with pytest.raises(
            ValueError, match=rf"{type(step).__name__}: {name} must be (a number in \[0, 1\)|a share of)"
        ):
            clone(model).set_params(steps=[clone(step).set_params(**{name: value})]).fit(X, y)


def assert_removed(model, step):
    """The machine with some weights at 0 is that without those rows, whatever their inputs."""
    _, X, y = make("numbers")
    weights = np.random.default_rng(1).uniform(0.5, 2.0, ROWS)
    weights[[3, 30, 31, 60]] = 0.0
    kept = weights > 0
    X[~kept] *= 30.0
    other = step
    if isinstance(step, Given) and step.points.ndim == 1:
        step, other = Given(np.flatnonzero(kept)[step.points]), Given(step.points)
    removed = clone(model).set_params(steps=[other]).fit(X[kept], y[kept], weights[kept])
    model.set_params(steps=[step]).fit(X, y, weights)
    assert_allclose(model.support_vectors_, removed.support_vectors_, rtol=1e-12)
    assert_allclose(model.predict(X[kept]), removed.predict(X[kept]), rtol=1e-7, atol=1e-8)
    assert_array_equal(model.weights_[~kept], 0.0)


def test_a_weight_of_zero_removes_the_row(step):
    assert_removed(LSSVR(**GIVEN), step)


@pytest.mark.parametrize("name", ["FeatureVectors", "KMeans", "Prune", "InversePrune"])
def test_a_weight_of_zero_removes_the_row_where_the_width_is_chosen(name):
    assert_removed(LSSVR(), clone(STEPS[name][0]))


def test_a_precomputed_kernel_gives_the_same_machine(step):
    model, X, y = make("numbers")
    model.set_params(steps=[step])
    K = model.kernel(X, X)
    given = clone(model).set_params(kernel=kernels.Precomputed())
    if isinstance(step, (KMeans, Learned, Components)) or (isinstance(step, Given) and step.points.ndim == 2):
        with pytest.raises(ValueError, match=r"Precomputed|columns"):
            given.fit(K, y)
        return
    if getattr(step, "retune", False):
        pytest.skip("a matrix has no width to tune")
    assert_array_equal(given.fit(K, y).support_, model.fit(X, y).support_)
    assert_allclose(given.predict(K), model.predict(X), rtol=1e-8, atol=1e-9)


def test_several_outputs(step):
    model, X, y = make("numbers")
    y = np.column_stack([y, X[:, 0] * X[:, 1], np.cos(X[:, 0])])
    model.set_params(steps=[step]).fit(X, y)
    assert_sound(model, X, y, reduced=isinstance(step, KKT_COLUMNS))
