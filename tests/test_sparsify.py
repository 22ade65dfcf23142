"""Sparsifiers: one contract for every name in `sparsify.__all__`, then each method against its definition."""

import itertools
import signal
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.utils import Bunch

from lssvm import LSSVC, LSSVR, datasets, kernels, robust, sparsify
from lssvm.problem import Problem
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
    pruning,
)
from lssvm.sparsify.bases import learned
from lssvm.tune import LeaveOneOut

pytestmark = pytest.mark.filterwarnings("ignore:Components. no input is kept")  # true of some of these sets

ROWS = 64
SIZE = 12
POINTS = np.random.default_rng(9).uniform(-2, 2, (SIZE, 2))
GIVEN = {"kernel": kernels.RBF(sigma=1.3), "C": 10.0}

# A new sparsifier is one line here.
STEPS = {
    "AdaPinv": [AdaPinv()],
    "Adaline": [Adaline(tol=0.05)],
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
CASES = [(name, position) for name in sparsify.__all__ for position in range(len(STEPS.get(name, [None])))]
TASKS = ("numbers", "two classes", "three classes")


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}{case[1]}")
def step(request, monkeypatch):
    name, position = request.param
    if name == "Components":  # which keeps the basis and chooses inputs, of an additive machine
        monkeypatch.setitem(GIVEN, "kernel", kernels.Additive(kernels.RBF(sigma=1.3)))
    assert name in STEPS, f"sparsify.{name} has no instance in STEPS: add a line"
    assert type(STEPS[name][position]) is getattr(sparsify, name)
    return clone(STEPS[name][position])


def make(task, rows=ROWS, seed=0):
    """A model with kernel and C given, inputs and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, 2))
    if task == "numbers":
        y = np.sin(3 * X[:, 0]) + X[:, 0] * np.cos(2 * X[:, 1]) + 0.1 * rng.standard_normal(rows)
        return LSSVR(**GIVEN), X, y
    classes = {"two classes": 2, "three classes": 3, "four classes": 4, "five classes": 5}[task]
    codes = np.arange(rows) % classes
    angle = 2 * np.pi * codes / classes
    return LSSVC(**GIVEN), 0.5 * X + np.column_stack([np.cos(angle), np.sin(angle)]), np.array(list("abcde"))[codes]


def coded(model, y):
    """What the machine fits, rows x outputs."""
    if isinstance(model, LSSVR):
        return columns(y)
    if len(model.classes_) == 2:
        return np.where(y == model.classes_[1], 1.0, -1.0)[:, None]
    return np.where(y[:, None] == model.classes_[None, :], 1.0, -1.0)


def columns(values):
    return values if values.ndim == 2 else values[:, None]


def raw(model, X):
    return columns(model.predict(X) if isinstance(model, LSSVR) else model.decision_function(X))


@contextmanager
def within(seconds):
    """Fail, and do not hang, when the block takes longer."""

    def stop(*_):
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def kkt_columns(K, support, y, weights, ridge):
    """The chosen columns of the KKT system, then the bias column, rows scaled by their weights; right-hand side."""
    A = np.column_stack([K[:, support], np.ones(len(K))])
    A[support, np.arange(len(support))] += ridge / weights[support]
    A = np.vstack([A, np.append(np.ones(len(support)), 0.0)])
    scale = np.append(np.sqrt(weights), 1.0)[:, None]
    return scale * A, scale * np.vstack([y, np.zeros((1, y.shape[1]))])


def reduced_left_out(K, support, y, weights, ridge, blocks=None, K_new=None):
    """y_B - f_(B)(x_B), the equations of every block deleted; the ridge term is no part of f."""
    A, right = kkt_columns(K, support, y, weights, ridge)
    residuals, predictions = np.full(y.shape, np.nan), []
    for block in [[i] for i in range(len(y))] if blocks is None else blocks:
        x = np.linalg.lstsq(np.delete(A, block, axis=0), np.delete(right, block, axis=0), rcond=None)[0]
        residuals[block] = y[block] - K[np.ix_(block, support)] @ x[:-1] - x[-1]
        if K_new is not None:
            predictions.append(K_new @ x[:-1] + x[-1])
    return residuals if K_new is None else (residuals, np.stack(predictions, axis=1))


def assert_sound(model, X, y, *, reduced=False, smaller=True):
    """A valid, smaller basis; predictions and left-out residuals are those of the machine by its definition."""
    basis, support = model.support_vectors_, model.support_
    smaller = smaller and not any(isinstance(step, Components) for step in model.steps)
    assert 1 <= len(basis) == len(model.dual_coef_)
    assert len(basis) < len(X) if smaller else len(basis) <= len(X)
    if support is None:
        assert basis.shape[1] == X.shape[1]
        assert len(np.unique(basis, axis=0)) == len(basis)
    else:
        assert np.issubdtype(support.dtype, np.integer)
        assert np.all(np.diff(support) > 0)
        assert support[0] >= 0
        assert support[-1] < len(X)
        assert_array_equal(basis, X[support])
    t, weights, ridge = coded(model, y), model.weights_, 1.0 / model.C_
    assert weights.min() >= 0
    K, size = model.kernel_(X, basis), np.abs(t).max()
    if reduced:
        square = model.kernel_(X, X)
        solution = np.linalg.lstsq(*kkt_columns(square, support, t, weights, ridge), rcond=None)[0]
        expected = reduced_left_out(square, support, t, weights, ridge)
        assert_allclose(raw(model, X), K @ solution[:-1] + solution[-1], rtol=1e-7, atol=1e-8 * size)
    else:
        again = LSSVR(model.kernel_, model.C_, steps=[Given(basis)]).fit(X, t, weights)
        expected = reference.left_out(K, model.kernel_(basis, basis), t, weights, ridge)
        assert_allclose(raw(model, X), columns(again.predict(X)), rtol=1e-7, atol=1e-8 * size)
    assert_allclose(columns(model.loo_residuals_), expected, rtol=1e-6, atol=1e-7 * size)
    assert model.press_ == pytest.approx(weights @ np.sum(expected**2, axis=1), rel=1e-6)


def may_keep_all(step):
    """Pruning whose first step costs too much stops there; where copies disagree, Adaline has no small residual."""
    return isinstance(step, Adaline) or (isinstance(step, Prune) and step.n is None)


# The contract ---------------------------------------------------------------------------------------------------------
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
    kernel = kernels.Additive(kernels.Matern()) if isinstance(step, Components) else None
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
        with pytest.raises(ValueError, match="Prune needs a basis of rows"):
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
    with within(5):
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
    with within(5):
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
    with within(5):
        model.set_params(steps=[clone(step).set_params(n=50)]).fit(X, y)
    reduced = isinstance(step, KKT_COLUMNS) and len(model.support_vectors_) < 20
    assert_sound(model, X, y, reduced=reduced, smaller=False)


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", True, np.array([2]), float("nan")])
def test_a_size_that_is_none(step, n):
    model, X, y = make("numbers", rows=20)
    for name in {"n", "candidates", "pool", "max_iter"} & set(step.get_params()):
        with pytest.raises(ValueError, match=rf"{type(step).__name__}: {name} must be an integer of at least 1"):
            clone(model).set_params(steps=[clone(step).set_params(**{name: n})]).fit(X, y)


@pytest.mark.parametrize("value", [-0.1, 1.0, "x", float("nan")])
def test_a_share_that_is_none(step, value):
    model, X, y = make("numbers", rows=20)
    shares = {"fraction", "tolerance", "validation", "error"} | ({"tol"} if isinstance(step, FeatureVectors) else set())
    for name in shares & set(step.get_params()):
        with pytest.raises(ValueError, match=rf"{type(step).__name__}: {name} must be (a number from 0|a share of)"):
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


@pytest.mark.parametrize("task", ["two classes", "three classes", "four classes", "five classes"])
@pytest.mark.parametrize("options", [{"rows": "drop"}, {"rows": "keep"}, {"rows": "drop", "score": "kfold"}])
@pytest.mark.parametrize("n", [1, 4, 7])
def test_every_class_survives_pruning(task, options, n):
    """Where n is smaller than the number of classes, one vector of each is left."""
    model, X, y = make(task)
    with within(5):
        model.set_params(steps=[Prune(n, fraction=0.2, **options)]).fit(X, y)
    assert set(y[model.support_]) == set(y)
    assert len(model.support_) == max(n, len(set(y)))


@pytest.mark.parametrize("task", ["two classes", "three classes", "four classes"])
@pytest.mark.parametrize("rows", ["drop", "keep"])
def test_pruning_without_a_size_ends(task, rows):
    model, X, y = make(task)
    X = 10.0 * X
    with within(5):
        model.set_params(kernel=kernels.Linear(), steps=[Prune(rows=rows, tolerance=0.99, fraction=0.3)]).fit(X, y)
    assert set(y[model.support_]) == set(y)


@pytest.mark.parametrize("rows", ["drop", "keep"])
def test_a_rare_class_survives_the_draw_of_validation_rows(rows):
    model, X, y = make("two classes")
    y = y.copy()
    y[[3, 40]] = "rare"
    for seed in range(8):
        step = Prune(10, rows=rows, score="validation", validation=0.4, fraction=0.3, random_state=seed)
        with within(5):
            model.set_params(steps=[step]).fit(X, y)
        assert set(y[model.support_]) == set(y)


# Given ----------------------------------------------------------------------------------------------------------------
def test_given_rows_are_those_rows_once():
    model, X, y = make("numbers")
    model.set_params(steps=[Given([9, 3, 3, 40])]).fit(X, y)
    assert_array_equal(model.support_, [3, 9, 40])


def test_given_points_may_be_a_frame():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    model, X, y = make("numbers")
    expected = clone(model).set_params(steps=[Given(POINTS)]).fit(X, y).predict(X)
    for points in (pandas.DataFrame(POINTS), polars.DataFrame(POINTS), POINTS.tolist()):
        assert_allclose(clone(model).set_params(steps=[Given(points)]).fit(X, y).predict(X), expected)
    for numbers in (pandas.Series([3, 9, 40]), polars.Series([3, 9, 40]), (3, 9, 40)):
        assert_array_equal(clone(model).set_params(steps=[Given(numbers)]).fit(X, y).support_, [3, 9, 40])


@pytest.mark.parametrize(
    "points", [[], 3, [0.5, 1.0], [[1.0, 2.0, 3.0]], [[np.nan, 1.0]], [ROWS], [-1], [[[1.0, 2.0]]], [True, False], None]
)
def test_given_points_that_are_none(points):
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match="Given"):
        model.set_params(steps=[Given(points)]).fit(X, y)


# Feature vectors ------------------------------------------------------------------------------------------------------
def reconstruction(K, support):
    """J(S) = mean_i k_Si' K_SS^-1 k_Si / k_ii, by its definition; rows with k_ii = 0 count as reconstructed."""
    k, diagonal = K[support], K.diagonal()
    part = np.einsum("si,si->i", k, np.linalg.pinv(K[np.ix_(support, support)], rcond=1e-13, hermitian=True) @ k)
    return np.mean(np.where(diagonal > 0, part / np.where(diagonal > 0, diagonal, 1.0), 1.0))


@pytest.mark.parametrize(
    "kernel", [kernels.RBF(1.0), kernels.Matern(1.5), kernels.Polynomial(3), kernels.Linear()], ids=repr
)
def test_the_exact_choice_is_the_best_of_all(kernel):
    X = np.random.default_rng(0).uniform(-2, 2, (14, 3))
    X[12], X[13] = X[4], 0.0
    K = kernel(X, X)
    y = np.arange(14.0)
    path = LSSVR(kernel, 1.0, steps=[FeatureVectors(6, tol=1e-9)]).fit(X, y).path_
    assert path.chosen == len(path.support) == (3 if isinstance(kernel, kernels.Linear) else 6)
    assert_array_equal(path.sizes, np.arange(1, path.chosen + 1))
    for size in path.sizes:
        before, chosen = path.support[: size - 1], path.support[:size]
        distinct = [j for j in range(14) if not any(np.array_equal(X[j], X[i]) for i in before) and K[j, j] > 0]
        best = max(reconstruction(K, np.append(before, j).astype(int)) for j in distinct)
        assert reconstruction(K, chosen) == pytest.approx(best, abs=1e-10)
        assert path.errors[size - 1] == pytest.approx(1.0 - best, abs=1e-10)
    assert len(np.unique(X[path.support], axis=0)) == path.chosen


@pytest.mark.parametrize("tol", [0.0, 1e-16, 1e-6])
@pytest.mark.parametrize("candidates", [None, 59])
def test_no_row_and_no_copy_is_taken_twice(candidates, tol):
    """Not even where the tolerance would allow it, and n asks for more than there are."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(-2, 2, (9, 2)), 6, axis=0)
    step = FeatureVectors(54, tol=tol, candidates=candidates, random_state=0)
    model = LSSVR(kernels.RBF(1.0), 1.0, steps=[step]).fit(X, rng.standard_normal(54))
    assert len(np.unique(X[model.support_], axis=0)) == len(model.support_) == 9


@pytest.mark.parametrize("candidates", [None, 59])
def test_the_pivot_tolerance_is_that_of_the_next_vector(candidates):
    """At the end no row left has a reconstruction error above tol; every vector taken had one."""
    _, X, y = make("numbers", rows=150)
    kernel = kernels.Polynomial(4)
    K = kernel(X, X)
    step = FeatureVectors(tol=1e-3, candidates=candidates, random_state=0)
    support = LSSVR(kernel, 1.0, steps=[step]).fit(X, y).path_.support

    def errors(chosen):
        k = K[chosen]
        return 1.0 - np.einsum("si,si->i", k, np.linalg.solve(K[np.ix_(chosen, chosen)], k)) / K.diagonal()

    for size in range(1, len(support)):
        assert errors(support[:size])[support[size]] > 1e-3
    left = errors(support) > 1e-3 * (1 + 1e-6)
    assert not left.any() if candidates is None else left.mean() < 0.1


def test_motorcycle_needs_fifteen_vectors():
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(kernels.RBF(13.1), 1 / 1.2055e-3, steps=[FeatureVectors(tol=1e-6)]).fit(X, y)
    assert len(model.support_) == 15


@pytest.mark.parametrize("candidates", [None, 20])
@pytest.mark.parametrize("limit", [0.3, 0.05, 0.0])
def test_stops_at_a_reconstruction_error(limit, candidates):
    _, X, y = make("numbers")
    step = FeatureVectors(tol=1e-4, error=limit, candidates=candidates, random_state=0)
    model = LSSVR(kernels.RBF(1.0), 1.0, steps=[step]).fit(X, y)
    K = model.kernel_(X, X)
    errors = model.path_.errors
    assert_allclose(
        errors, [1 - reconstruction(K, model.path_.support[:size]) for size in model.path_.sizes], atol=1e-9
    )
    assert np.all(errors[:-1] > limit)
    assert errors[-1] <= limit or limit == 0.0
    assert_array_equal(np.sort(model.path_.support), model.support_)


def test_with_enough_candidates_the_drawn_choice_is_the_exact_one():
    """2000 draws among 40 rows miss one with a probability of 1e-20."""
    _, X, y = make("numbers", rows=40)
    drawn, exact = (
        LSSVR(**GIVEN, steps=[FeatureVectors(10, candidates=candidates, random_state=0)]).fit(X, y).path_
        for candidates in (2000, None)
    )
    assert_array_equal(drawn.support, exact.support)
    assert_allclose(drawn.errors, exact.errors, rtol=1e-9)


def test_drawn_candidates_come_close_to_the_exact_choice():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    kernel = kernels.RBF(2.0)
    K = kernel(X, X)
    y = X[:, 0]
    exact = 1.0 - reconstruction(K, LSSVR(kernel, 1.0, steps=[FeatureVectors(40)]).fit(X, y).support_)
    random = 1.0 - reconstruction(K, LSSVR(kernel, 1.0, steps=[Random(40, random_state=0)]).fit(X, y).support_)
    for seed in range(3):
        model = LSSVR(kernel, 1.0, steps=[FeatureVectors(40, candidates=59, random_state=seed)]).fit(X, y)
        error = 1.0 - reconstruction(K, model.support_)
        assert len(model.support_) == 40
        assert np.all(np.diff(model.path_.errors) < 0)
        assert model.path_.errors[-1] == pytest.approx(error, rel=0.2)  # on a sample of 500 rows
        assert exact - 1e-12 <= error < 1.4 * exact
        assert error < 0.85 * random


def test_drawn_candidates_need_no_square_matrix():
    """8000 rows, no size given: what is held grows with the vectors taken, not with the square of the rows."""
    X = np.random.default_rng(0).standard_normal((8000, 2))
    problem = Problem(kernels.RBF(2.0), X, X[:, :1], np.ones(8000), C=1.0)
    tracemalloc.start()
    support = FeatureVectors(tol=1e-2, candidates=59, random_state=0)(problem).support
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(support) < 200
    assert peak < 100e6  # 8000 x 8000 are 512 MB


# Randomly pivoted Cholesky --------------------------------------------------------------------------------------------
def deflate(K, pivot):
    return K - np.outer(K[:, pivot], K[pivot]) / K[pivot, pivot]


def law_of_sets(K, n):
    """Probability of every set of n pivots under one-at-a-time sampling in proportion to the residual diagonal."""
    law = dict.fromkeys(itertools.combinations(range(len(K)), n), 0.0)
    for order in itertools.permutations(range(len(K)), n):
        residual, probability = K, 1.0
        for pivot in order:
            left = np.maximum(residual.diagonal(), 0.0)
            probability *= left[pivot] / left.sum()
            residual = deflate(residual, pivot)
        law[tuple(sorted(order))] += probability
    return law


def test_the_sampler_has_the_law_of_one_at_a_time():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (6, 2))
    X[1] = X[0] + 0.1  # near copies: to be drawn together is rare
    kernel = kernels.Polynomial(3)
    problem = Problem(kernel, X, X[:, :1], np.ones(6), C=1.0)
    law = law_of_sets(kernel(X, X), 3)
    assert sum(law.values()) == pytest.approx(1.0)
    draws = 2000
    generator = np.random.RandomState(0)
    counts = dict.fromkeys(law, 0)
    for _ in range(draws):
        counts[tuple(int(row) for row in RandomlyPivoted(3, random_state=generator)(problem).support)] += 1
    # sets too rare for the test are taken together
    common = [key for key in law if draws * law[key] > 8]
    observed, expected = ([table[key] for key in common] for table in (counts, law))
    observed = [*observed, draws - sum(observed)]
    expected = np.array([*expected, 1.0 - sum(expected)]) * draws
    assert chisquare(observed, expected).pvalue > 1e-3
    # the test has power: sampling by the first diagonal alone, without replacement, is far off
    first = kernel(X, X).diagonal()
    naive = dict.fromkeys(law, 0.0)
    for order in itertools.permutations(range(6), 3):
        left, probability = first.sum(), 1.0
        for pivot in order:
            probability *= first[pivot] / left
            left -= first[pivot]
        naive[tuple(sorted(order))] += probability
    wrong = [naive[key] for key in common]
    assert chisquare(observed, np.array([*wrong, 1.0 - sum(wrong)]) * draws).pvalue < 1e-12


def residual_trace(K, support):
    k = K[support]
    return np.trace(K) - np.einsum("si,si->", k, np.linalg.pinv(K[np.ix_(support, support)], hermitian=True) @ k)


def test_the_randomly_pivoted_residual_is_near_the_best_of_its_rank():
    """E tr(K - K_S) <= (1 + eps) best_r for n >= r/eps + r log(best_0/(eps best_r)) (Chen et al. 2025); rare groups."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((285, 2)), 8 + 0.5 * rng.standard_normal((15, 2))])
    kernel = kernels.Matern(3.0)
    K = kernel(X, X)
    problem = Problem(kernel, X, X[:, :1], np.ones(300), C=1.0)
    tails = np.cumsum(np.linalg.eigvalsh(K))[::-1]  # tails[r] is the trace beyond the best rank r
    r, n = 8, 40
    assert n >= r + r * np.log(tails[0] / tails[r])  # eps = 1
    pivoted, random = (
        np.mean([residual_trace(K, step(n, random_state=seed)(problem).support) for seed in range(20)])
        for step in (RandomlyPivoted, Random)
    )
    assert tails[n] <= pivoted <= 2.0 * tails[r]
    assert pivoted < 0.8 * random


@pytest.mark.parametrize("n", [10, 60, 200])
def test_pivots_are_distinct_and_stop_at_the_rank(n):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    problem = Problem(kernels.Polynomial(2), X, X[:, :1], np.ones(200), C=1.0)
    with within(5):
        support = RandomlyPivoted(n, random_state=0)(problem).support
    assert len(np.unique(support)) == len(support) == min(n, 10)  # monomials of degree up to 2 in 3 variables
    assert residual_trace(problem.kernel(X, X), support) < 1e-8 * n or n < 10


# k-means --------------------------------------------------------------------------------------------------------------
def test_centres_are_those_of_clear_groups_in_any_units():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    codes = rng.integers(0, 4, 400)
    X = centres[codes] + 0.1 * rng.standard_normal((400, 2))
    y = X[:, 0]
    model = LSSVR(**GIVEN, steps=[KMeans(4, random_state=0)]).fit(X, y)
    assert model.support_ is None
    found = model.support_vectors_[np.lexsort(model.support_vectors_.T.round())]
    means = np.array([X[codes == code].mean(axis=0) for code in range(4)])
    assert_allclose(found, means[np.lexsort(means.T.round())], atol=0.03)
    units = np.array([1e-6, 1e4])
    scaled = LSSVR(kernels.RBF(units), 10.0, steps=[KMeans(4, random_state=0)]).fit(X * units, y)
    assert_allclose(scaled.support_vectors_ / units, model.support_vectors_, rtol=1e-8, atol=1e-8)


def test_few_distinct_rows_are_their_own_centres():
    X = np.repeat(np.array([[0.1, 1.0], [2.0, -3.0], [4.0, 0.7]]), 10, axis=0)
    model = LSSVR(**GIVEN, steps=[KMeans(5, random_state=0)]).fit(X, np.arange(30.0))
    assert_allclose(model.support_vectors_, np.unique(X, axis=0), rtol=1e-15)


# Forward selection ----------------------------------------------------------------------------------------------------
def objective(K, support, y, weights, ridge):
    """min of ridge beta'K beta + sum v e^2."""
    coef, intercept = reference.machine(K[:, support], K[np.ix_(support, support)], y, weights, ridge)
    e = y - K[:, support] @ coef - intercept
    return ridge * np.sum(coef * (K[np.ix_(support, support)] @ coef)) + np.sum(weights[:, None] * e**2)


@pytest.mark.parametrize("weighted", [False, True])
def test_forward_takes_the_largest_drop_of_the_objective(weighted):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (25, 2))
    y = np.column_stack([np.sin(3 * X[:, 0]), X[:, 0] * X[:, 1]]) + 0.1 * rng.standard_normal((25, 2))
    weights = rng.uniform(0.2, 3.0, 25) if weighted else np.ones(25)
    kernel, C = kernels.RBF(1.0), 5.0
    K = kernel(X, X)
    path = LSSVR(kernel, C, steps=[Forward(12, random_state=0)]).fit(X, y, weights).path_
    assert len(path.sizes) >= 6
    for size in path.sizes:
        before, chosen = path.support[: size - 1], path.support[:size]
        values = [objective(K, np.append(before, j), y, weights, 1 / C) for j in range(25) if j not in before]
        assert objective(K, chosen, y, weights, 1 / C) == pytest.approx(min(values), rel=1e-9)
        assert np.sort(values)[1] > min(values) * (1 + 1e-7)  # the choice is a clear one
        loo = reference.left_out(K[:, chosen], K[np.ix_(chosen, chosen)], y, weights, 1 / C)
        assert path.scores[size - 1] == pytest.approx(weights @ np.sum(loo**2, axis=1) / weights.sum(), rel=1e-7)


def test_forward_keeps_the_size_of_the_smallest_left_out_error():
    model, X, y = make("numbers")
    model.set_params(C=1e4, steps=[Forward(60, random_state=0)]).fit(X, y)
    path = model.path_
    assert path.chosen == len(model.support_) == 1 + np.argmin(path.scores) < 60
    assert_array_equal(np.sort(path.support[: path.chosen]), model.support_)
    assert model.press_ / ROWS == pytest.approx(path.scores.min(), rel=1e-6)


def test_forward_takes_candidates_from_its_pool_alone():
    model, X, y = make("numbers")
    model.set_params(steps=[Forward(10, pool=15, random_state=0)]).fit(X, y)
    wide = clone(model).set_params(steps=[Forward(15, pool=15, random_state=0)]).fit(X, y)
    assert_array_equal(wide.path_.support[:10], model.path_.support[:10])
    with within(5):
        tiny = clone(model).set_params(steps=[Forward(10, pool=1, random_state=0)]).fit(X, y)
    assert len(tiny.path_.sizes) <= 10


def test_forward_finds_a_planted_function():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4))
    kernel = kernels.RBF(2.0)
    planted = rng.choice(2000, 15, replace=False)
    f = kernel(X, X[planted]) @ rng.uniform(-3, 3, 15)
    train, test = np.arange(1200), np.arange(1200, 2000)
    y = f + 0.05 * rng.standard_normal(2000)
    errors = {}
    for step in (Random, Forward):
        model = LSSVR(kernel, 1e3, steps=[step(30, random_state=0)]).fit(X[train], y[train])
        errors[step] = np.sqrt(np.mean((model.predict(X[test]) - f[test]) ** 2))
    assert errors[Forward] < 0.5 * errors[Random]


# Pruning: rows="drop" -------------------------------------------------------------------------------------------------
def algorithm_2(K, y, C, sizes, weigh=None, risk=False):
    """Suykens' Algorithm 2 by hand: the supports and the error over all rows at every size."""
    alive, supports, scores = np.arange(len(y)), [], []
    for size in sizes:
        ridge = len(alive) / (C * len(y)) if risk else 1 / C
        inner, weights = K[np.ix_(alive, alive)], np.ones(len(alive))
        alpha, b = reference.kkt(inner, y[alive], weights, ridge)
        if weigh is not None:
            weights = weigh(y[alive] - inner @ alpha - b)
            alpha, b = reference.kkt(inner, y[alive], weights, ridge)
        residuals = y - K[:, alive] @ alpha - b  # of new points, and of those alive after a refit without each
        residuals[alive] = reference.left_out(inner, inner, y[alive], weights, ridge)
        loss = np.abs(residuals) if weigh is not None else residuals**2
        supports.append(alive)
        scores.append(np.mean(np.sum(loss, axis=1)))
        order = np.argsort(np.linalg.norm(alpha, axis=1), kind="stable")
        alive = np.sort(alive[order[max(1, int(0.05 * size)) :]])
    return supports, scores


@pytest.mark.parametrize(
    ("weigh", "risk", "outputs"),
    [(None, False, 1), (None, False, 2), (None, True, 1), (robust.Hampel(), False, 1), (robust.Huber(), True, 2)],
)
def test_dropping_rows_is_algorithm_2(weigh, risk, outputs):
    model, X, y = make("numbers", rows=45)
    y = np.column_stack([y, X[:, 0] * X[:, 1]])[:, :outputs]
    model.set_params(robust=weigh, steps=[Prune(20, mean_risk=risk)]).fit(X, y)
    path = model.path_
    assert_array_equal(path.sizes, [45, 43, 41, 39, *range(38, 19, -1)])  # max(1, floor(0.05 n)) go at every step
    supports, scores = algorithm_2(model.kernel(X, X), y, model.C, path.sizes, weigh, risk)
    for ours, theirs in zip(path.supports, supports, strict=True):
        assert_array_equal(ours, theirs)
    assert_allclose(path.scores, scores, rtol=1e-7)
    assert path.chosen == 20
    assert_array_equal(model.support_, supports[-1])
    assert pytest.approx(10.0 * 45 / 20 if risk else 10.0) == model.C_
    dropped = np.setdiff1d(np.arange(45), model.support_)
    assert_array_equal(model.weights_[dropped], 0.0)
    assert np.all(model.weights_[model.support_] > 0)


@pytest.mark.parametrize("score", ["loo", "validation"])
@pytest.mark.parametrize("C", [1.0, 1e5])
@pytest.mark.parametrize("task", TASKS)
def test_dropping_rows_by_updates_is_refitting(task, C, score, monkeypatch):
    """Weights, rows of weight 0, several outputs; 90 rows to 12 and so more than one factorisation."""
    model, X, y = make(task, rows=90)
    weights = np.random.default_rng(2).uniform(0.3, 3.0, 90)
    weights[::13] = 0.0
    model.set_params(C=C, steps=[Prune(12, score=score, random_state=0)])
    updated = clone(model).fit(X, y, weights).path_
    monkeypatch.setattr(Prune, "_drop_rows", lambda self, *parts: self._refit(*parts, parts[0]))
    refitted = clone(model).fit(X, y, weights).path_
    for ours, theirs in zip(updated.supports, refitted.supports, strict=True):
        assert_array_equal(ours, theirs)
    assert_allclose(updated.scores, refitted.scores, rtol=1e-8)


def test_keeping_many_rows_is_the_improved_machine():
    """From all rows by eliminations, to less than a quarter of them: scores at some sizes equal refits."""
    X, y = datasets.make_sinc(400, random_state=0)
    X = np.column_stack([X, np.random.default_rng(0).uniform(-2, 2, (400, 3))])
    kernel = kernels.Matern(1.0)
    path = LSSVR(kernel, C=100.0, steps=[Prune(90, rows="keep")]).fit(X, y).path_
    for place in range(0, len(path.sizes), 4):
        loo = Problem(kernel, X, y[:, None], np.ones(400), C=100.0, support=path.supports[place]).solve().loo_residuals
        assert path.scores[place] == pytest.approx(np.mean(loo**2), rel=1e-8)


@pytest.mark.parametrize("everything", [True, False])
def test_a_path_that_loses_digits_begins_anew(everything, monkeypatch):
    """Hardly any ridge: what is left of an inverse is small beside what it began with, and a machine is solved anew."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (120, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(120)
    weights = rng.uniform(0.3, 3.0, 120)
    support = None if everything else np.arange(0, 120, 2)
    problem = Problem(kernels.Matern(1.0, nu=2.5), X, y[:, None], weights, C=1e5, support=support)
    begun = []
    inverse = pruning._inverse_of
    monkeypatch.setattr(pruning, "_inverse_of", lambda *given: (begun.append(given), inverse(*given))[1])
    path = Prune(5, rows="keep")(problem).paths["Prune"]
    assert len(begun) > 1
    for kept, score in zip(path.supports, path.scores, strict=True):
        loo = problem.with_basis(kept).solve().loo_residuals[:, 0]
        assert score == pytest.approx(weights @ loo**2 / weights.sum(), rel=1e-7)


@pytest.mark.parametrize("score", ["loo", "kfold", "validation"])
def test_one_row_is_no_machine_to_leave_rows_out_of(score):
    """Without its last row nothing is left to fix the bias: two rows stay, or the step says what is wrong with n."""
    model, X, y = make("numbers", rows=20)
    model.set_params(steps=[Prune(1, score=score, random_state=0)])
    error = ""
    try:
        model.fit(X, y)
    except ValueError as caught:
        error = str(caught)
    assert error or len(model.support_) == 2
    assert not error or "Prune" in error


def test_mean_risk_changes_nothing_where_the_rows_stay():
    model, X, y = make("numbers")
    paths = [
        clone(model).set_params(steps=[Prune(20, rows="keep", mean_risk=risk, score=score, random_state=0)]).fit(X, y)
        for risk in (False, True)
        for score in ("loo", "kfold")
    ]
    assert all(path.C_ == 10.0 for path in paths)
    assert_array_equal(paths[0].path_.scores, paths[2].path_.scores)
    assert_array_equal(paths[1].path_.scores, paths[3].path_.scores)


# Pruning: rows="keep" -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_keeping_rows_is_the_improved_machine(task, weighted):
    """A full-rank kernel: supports and scores of the whole path from l to 1 equal the loop of refits."""
    model, X, y = make(task, rows=50)
    kernel = kernels.Matern(1.5)
    weights = np.random.default_rng(1).uniform(0.3, 3.0, 50) if weighted else np.ones(50)
    with within(5):
        model.set_params(kernel=kernel, steps=[Prune(3, rows="keep")]).fit(X, y, weights)
    path, K, t = model.path_, kernel(X, X), coded(model, y)
    assert path.sizes[-1] == path.chosen == 3
    alive = np.arange(50)
    for size, support, score in zip(path.sizes, path.supports, path.scores, strict=True):
        assert_array_equal(support, alive)
        assert size == len(alive)
        problem = Problem(kernel, X, t, weights, C=10.0, points=X[alive])
        loo = problem.solve().loo_residuals
        assert score == pytest.approx(weights @ np.sum(loo**2, axis=1) / weights.sum(), rel=1e-8)
        coef, _ = reference.machine(K[:, alive], K[np.ix_(alive, alive)], t, weights, 0.1)
        order = np.argsort(np.linalg.norm(coef, axis=1), kind="stable")
        if task != "numbers":
            labels = np.unique(y, return_inverse=True)[1][alive]
            largest = [order[labels[order] == label][-1] for label in range(len(model.classes_))]
            order = order[~np.isin(order, largest)]
        alive = np.delete(alive, order[: min(max(1, int(0.05 * size)), size - 3)])
    for size in (50, 20, 3):
        support = path.supports[list(path.sizes).index(size)]
        loo = reference.left_out(K[:, support], K[np.ix_(support, support)], t, weights, 0.1)
        score = weights @ np.sum(loo**2, axis=1) / weights.sum()
        assert path.scores[list(path.sizes).index(size)] == pytest.approx(score, rel=1e-8)


def test_the_path_of_an_ill_conditioned_machine():
    """Motorcycle, sigma 13.1: 94 distinct times, a numerical rank of about 20."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    kernel, C = kernels.RBF(13.1), 1 / 1.2055e-3
    path = LSSVR(kernel, C, steps=[Prune(1, rows="keep")]).fit(X, y).path_
    assert path.sizes[0] == 133
    assert path.sizes[-1] == 1
    for support, score in zip(path.supports, path.scores, strict=True):
        refit = Problem(kernel, X, y[:, None], np.ones(133), C=C, points=X[support]).solve()
        assert score == pytest.approx(np.mean(refit.loo_residuals**2), rel=1e-6)
    for size in (133, 61, 5):  # in between the condition of K_SS is above 1e16, and the digits depend on the route
        support = path.supports[list(path.sizes).index(size)]
        loo = reference.left_out(kernel(X, X[support]), kernel(X[support], X[support]), y[:, None], np.ones(133), 1 / C)
        assert path.scores[list(path.sizes).index(size)] == pytest.approx(np.mean(loo**2), rel=1e-6)


@pytest.mark.parametrize("sigma", [10.6, 10.7, 10.8])
@pytest.mark.parametrize("score", ["loo", "kfold"])
def test_a_singular_basis_is_pruned_by_coefficients_of_least_norm(score, sigma):
    """Motorcycle, 133 vectors of a numerical rank of 20: all but 9 are free, however the path is scored.

    The coefficients of such a basis are not unique to working precision. Those on the pivots of a Cholesky factor, 0
    elsewhere, drop vectors in the order of the pivots: the error at 9 vectors is then 1.7 times that of all.
    """
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(kernels.RBF(sigma), C=44.0)
    dense = np.mean(clone(model).fit(X, y).loo_residuals_ ** 2)
    path = clone(model).set_params(steps=[Prune(9, rows="keep", score=score, random_state=0)]).fit(X, y).path_
    for size, factor in ((20, 1.02), (12, 1.08), (9, 1.12)):
        support = path.supports[list(path.sizes).index(size)]
        pruned = clone(model).set_params(steps=[Given(support)]).fit(X, y)
        assert np.mean(pruned.loo_residuals_**2) < factor**2 * dense, size


@pytest.mark.filterwarnings("ignore:Rounding errors")  # for C = 2.4e9
@pytest.mark.parametrize(("sigma", "C"), [(13.1, 1 / 1.2055e-3), (10.69, 44.0), (22.5, 2.4e9)])
def test_what_predicts_is_the_machine_that_was_fitted(sigma, C):
    """f(x_i) = y_i - e_i with e_i = LOO_i (1 - h_i), for bases whose kernel matrix is singular to working precision."""
    X, y = datasets.load_motorcycle(return_X_y=True)
    path = LSSVR(kernels.RBF(sigma), C, steps=[Prune(5, rows="keep")]).fit(X, y).path_
    for support in path.supports[20::2]:
        model = LSSVR(kernels.RBF(sigma), C, steps=[Given(support)]).fit(X, y)
        fitted = y - model.loo_residuals_ * (1.0 - model.leverage_)
        tolerance = (5e-4 if C > 1e9 else 1e-4) * y.std()
        assert_allclose(model.predict(X), fitted, rtol=0, atol=tolerance, err_msg=f"{len(support)} vectors")


def test_robust_weights_stay_along_the_path_and_are_renewed_at_its_end():
    model, X, y = make("numbers")
    model.set_params(robust="hampel", steps=[Prune(20, rows="keep")]).fit(X, y)
    dense = LSSVR(**GIVEN, robust="hampel").fit(X, y)
    for support, score in list(zip(model.path_.supports, model.path_.scores, strict=True))[::4]:
        fixed = LSSVR(**GIVEN, steps=[Given(X[support])]).fit(X, y, dense.weights_)
        assert score == pytest.approx(np.mean(np.abs(fixed.loo_residuals_)), rel=1e-7)
    renewed = LSSVR(**GIVEN, robust="hampel", steps=[Given(model.support_)]).fit(X, y)
    assert_allclose(model.weights_, renewed.weights_, rtol=1e-7)
    assert_allclose(model.predict(X), renewed.predict(X), rtol=1e-7)


# Pruning: scores, sizes, tuning ---------------------------------------------------------------------------------------
def folds_of(rows, seed):
    return np.array_split(np.random.RandomState(seed).permutation(rows), 10)


@pytest.mark.parametrize("rows", ["drop", "keep"])
@pytest.mark.parametrize("task", TASKS)
def test_a_validation_score_is_that_of_rows_held_out(rows, task):
    model, X, y = make(task)
    step = Prune(8, rows=rows, score="validation", validation=0.25, fraction=0.2, random_state=3)
    model.set_params(steps=[step]).fit(X, y)
    path, K, t = model.path_, model.kernel(X, X), coded(model, y)
    held_out = np.setdiff1d(np.arange(ROWS), path.supports[0])
    assert len(held_out) == ROWS // 4
    for support, score in zip(path.supports, path.scores, strict=True):
        weights = np.ones(ROWS)
        weights[held_out] = 0.0
        if rows == "drop":
            weights[:] = 0.0
            weights[support] = 1.0
        coef, b = reference.machine(K[:, support], K[np.ix_(support, support)], t, weights, 0.1)
        errors = (t - K[:, support] @ coef - b)[held_out]
        assert score == pytest.approx(np.mean(np.sum(errors**2, axis=1)), rel=1e-7)
    if rows == "keep":  # the rows held out come back at the end
        assert_array_equal(model.weights_, 1.0)


@pytest.mark.parametrize("rows", ["drop", "keep"])
@pytest.mark.parametrize("weigh", [None, "hampel"])
def test_a_kfold_score_is_that_of_refits_without_each_fold(rows, weigh):
    model, X, y = make("numbers")
    step = Prune(10, rows=rows, score="kfold", fraction=0.2, random_state=3)
    model.set_params(robust=weigh, steps=[step]).fit(X, y)
    path, K, t = model.path_, model.kernel(X, X), y[:, None]
    for support, score in zip(path.supports, path.scores, strict=True):
        weights = np.ones(ROWS)
        if rows == "drop":
            weights[np.setdiff1d(np.arange(ROWS), support)] = 0.0
        if weigh:
            problem = Problem(model.kernel, X, t, weights, C=10.0, points=X[support], robust=robust.Hampel())
            weights = problem.solve().weights
        blocks = folds_of(np.arange(ROWS), 3)
        errors = reference.left_out(K[:, support], K[np.ix_(support, support)], t, weights, 0.1, blocks=blocks)
        assert score == pytest.approx(np.mean(np.abs(errors) if weigh else errors**2), rel=1e-6)


@pytest.mark.parametrize("rows", ["drop", "keep"])
def test_ten_folds_of_ten_rows_are_leave_one_out(rows):
    model, X, y = make("numbers", rows=10)
    paths = [
        clone(model).set_params(steps=[Prune(3, rows=rows, score=score, random_state=0)]).fit(X, y).path_
        for score in ("loo", "kfold")
    ]
    assert_allclose(paths[1].scores, paths[0].scores, rtol=1e-7)


@pytest.mark.parametrize("rows", ["drop", "keep"])
@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.5])
def test_without_a_size_the_smallest_good_one_is_kept(rows, tolerance):
    model, X, y = make("numbers")
    y[::17] -= 4.0
    model.set_params(steps=[Prune(rows=rows, tolerance=tolerance)]).fit(X, y)
    path = model.path_
    full = clone(model).set_params(steps=[Prune(2, rows=rows)]).fit(X, y).path_
    assert_array_equal(path.sizes, full.sizes[: len(path.sizes)])
    assert_allclose(path.scores, full.scores[: len(path.sizes)], rtol=1e-9)
    good = [
        size
        for size, score in zip(path.sizes, path.scores, strict=True)
        if score <= (1 + tolerance) * path.scores.min()
    ]
    assert path.chosen == min(good) == len(model.support_)
    assert path.sizes[-1] < path.chosen  # it went on until the score fell
    assert_array_equal(model.support_, path.supports[list(path.sizes).index(path.chosen)])


def score_at(model, support, X, y, kernel, C, rows):
    """Mean squared left-out residual of one machine over all rows, dropped rows as new points."""
    weights = np.ones(len(y))
    if rows == "drop":
        weights[np.setdiff1d(np.arange(len(y)), support)] = 0.0
    return np.mean(LSSVR(kernel, C, steps=[Given(X[support])]).fit(X, y, weights).loo_residuals_ ** 2)


@pytest.mark.parametrize("rows", ["drop", "keep"])
def test_tuning_again_stays_near_and_never_loses(rows):
    """At every step C and the width move by a factor of 5 at most, and the score is no worse than without moving."""
    model, X, y = make("numbers", rows=40)
    kernel, C = kernels.RBF(np.array([0.6, 5.0])), 300.0
    moved = False
    supports = None
    for steps_taken, size in enumerate((40, 28, 20, 14)):
        step = Prune(size, rows=rows, fraction=0.3, retune=True)
        fit = clone(model).set_params(kernel=kernels.RBF(np.array([0.6, 5.0])), C=300.0, steps=[step]).fit(X, y)
        path = fit.path_
        assert path.sizes[-1] == size
        assert len(path.sizes) == steps_taken + 1
        assert supports is None or all(map(np.array_equal, supports, path.supports))
        supports = path.supports
        before = score_at(model, path.supports[-1], X, y, kernel, C, rows)
        after = score_at(model, path.supports[-1], X, y, fit.kernel_, fit.C_, rows)
        assert path.scores[-1] == pytest.approx(after, rel=1e-6)
        assert path.scores[-1] <= before * (1 + 1e-9)
        assert 0.2 * (1 - 1e-9) <= fit.C_ / C <= 5 * (1 + 1e-9)
        factor = fit.kernel_.sigma / kernel.sigma
        assert_allclose(factor, factor[0], rtol=1e-12)  # one factor for all widths
        assert 0.2 * (1 - 1e-9) <= factor[0] <= 5 * (1 + 1e-9)
        moved = moved or (abs(np.log(fit.C_ / C)) > 0.1 and abs(np.log(factor[0])) > 0.1)
        kernel, C = fit.kernel_, fit.C_
    assert moved


def test_a_tuner_after_pruning_tunes_again():
    """design.md, section 3: `[LeaveOneOut(), Prune(20)]` tunes the dense one first, a second tuner re-tunes."""
    _, X, y = make("numbers")
    steps = [LeaveOneOut(), Prune(8, rows="keep")]
    once, again = (LSSVR(steps=plan).fit(X, y) for plan in (steps, [*steps, LeaveOneOut()]))
    assert_array_equal(again.support_, once.support_)
    assert again.press_ < once.press_


# Columns of the KKT system --------------------------------------------------------------------------------------------
def classifier_form(model, X, y):
    """A06, eq. (4): A = [0 y'; y H], H = (yy') o K + I/gamma, B = [0; 1]; X = [b; alpha]."""
    t = np.where(y == np.unique(y)[1], 1.0, -1.0)
    H = np.outer(t, t) * model.kernel(X, X) + np.eye(len(t)) / model.C
    return np.block([[np.zeros((1, 1)), t[None, :]], [t[:, None], H]]), np.append(0.0, np.ones(len(t))), t


def literal_reduced(A, B, t, support):
    """b and coefficients alpha o y of the least-squares solution on the bias column and the chosen ones."""
    solution = np.linalg.lstsq(A[:, np.append(0, 1 + support)], B, rcond=None)[0]
    return solution[0], solution[1:] * t[support]


def assert_reduced(model, X, y, support):
    A, B, t = classifier_form(model, X, y)
    assert_array_equal(model.support_, np.sort(support))
    b, coef = literal_reduced(A, B, t, np.sort(support))
    assert_allclose(model.dual_coef_, coef, rtol=1e-7, atol=1e-9)
    assert model.intercept_ == pytest.approx(b, rel=1e-7)


WHOLE = {
    "InversePrune": InversePrune(0.0),
    "AdaPinv": AdaPinv(0.0),
    "Echelon-n": Echelon(n=ROWS),
    "Echelon-tol": Echelon(tol=1e-8),
    "Adaline": Adaline(tol=0.0),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", WHOLE)
def test_all_columns_are_the_dense_machine(name, task):
    model, X, y = make(task)
    dense = clone(model).fit(X, y)
    model.set_params(steps=[clone(WHOLE[name])]).fit(X, y)
    assert_array_equal(model.support_, np.arange(ROWS))
    assert_allclose(model.dual_coef_, dense.dual_coef_, rtol=1e-8, atol=1e-9)
    assert_allclose(raw(model, X), raw(dense, X), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", WHOLE)
def test_all_columns_have_the_leave_one_out_of_the_dense_machine(name):
    """Deleting an equation of the square system leaves a line of solutions, and 0/0 by the reduced formula."""
    model, X, y = make("numbers")
    dense = clone(model).fit(X, y)
    model.set_params(steps=[clone(WHOLE[name])]).fit(X, y)
    assert_allclose(model.loo_residuals_, dense.loo_residuals_, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("task", TASKS)
def test_reduced_machines_leave_out_blocks_and_predict_without_each_row(task):
    model, X, y = make(task)
    model.set_params(steps=[InversePrune(0.4)]).fit(X, y)
    t, weights = coded(model, y), np.random.default_rng(1).uniform(0.3, 3.0, ROWS)
    problem = Problem(model.kernel, X, t, weights, C=10.0, support=model.support_, reduced=True)
    factor = problem.factorise()
    folds = np.array_split(np.random.default_rng(2).permutation(ROWS), 6)
    K, new = model.kernel(X, X), np.random.default_rng(3).uniform(-2, 2, (4, 2))
    expected = reduced_left_out(K, model.support_, t, weights, 0.1, blocks=folds)
    assert_allclose(factor.block_residuals(folds, 10.0), expected, rtol=1e-6, atol=1e-7)
    loo, predictions = reduced_left_out(K, model.support_, t, weights, 0.1, K_new=model.kernel(new, X[model.support_]))
    fit = factor.fit(10.0)
    assert_allclose(fit.loo_residuals, loo, rtol=1e-6, atol=1e-7)
    assert_allclose(factor.left_out_predictions(new, fit), predictions, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5])
def test_inverse_prune_keeps_the_largest_signed_support_values(fraction):
    model, X, y = make("two classes")
    A, B, _ = classifier_form(model, X, y)
    alpha = np.linalg.solve(A, B)[1:]
    support = np.argsort(-alpha)[: ROWS - int(fraction * ROWS)]
    assert alpha.min() < 0  # signed and absolute readings differ
    assert set(support) != set(np.argsort(-np.abs(alpha))[: len(support)])
    assert_reduced(model.set_params(steps=[InversePrune(fraction)]).fit(X, y), X, y, support)


def test_inverse_prune_of_several_classes_counts_the_largest_value_of_a_row():
    model, X, y = make("three classes")
    dense = clone(model).fit(X, y)
    value = np.max(dense.dual_coef_ * coded(dense, y), axis=1)
    model.set_params(steps=[InversePrune(0.5)]).fit(X, y)
    assert_array_equal(model.support_, np.sort(np.argsort(-value)[: ROWS // 2]))


@pytest.mark.parametrize("task", TASKS)
def test_ada_pinv_run_to_its_end_selects_by_the_exact_values(task):
    model, X, y = make(task)
    model.set_params(kernel=kernels.Matern(0.5, nu=0.5), C=2.0)  # a well-conditioned system
    alpha = np.linalg.norm(columns(clone(model).fit(X, y).dual_coef_), axis=1)
    model.set_params(steps=[AdaPinv(0.5, max_iter=20000)]).fit(X, y)
    assert_array_equal(model.support_, np.sort(np.argsort(-alpha)[: ROWS // 2]))


def test_ada_pinv_stopped_early_selects_by_the_iterate():
    model, X, y = make("two classes")
    A, B, _ = classifier_form(model, X, y)
    x = np.zeros(len(A))
    for _ in range(7):
        x = x + 1e-3 * A.T @ (B - A @ x)
    support = np.argsort(-np.abs(x[1:]))[: ROWS // 2]
    exact = np.argsort(-np.abs(np.linalg.solve(A, B)[1:]))[: ROWS // 2]
    assert set(support) != set(exact)
    model.set_params(steps=[AdaPinv(0.5, learning_rate=1e-3, max_iter=7)]).fit(X, y)
    assert_reduced(model, X, y, support)


@pytest.mark.parametrize("n", [1, 5, 20, 50])
@pytest.mark.parametrize("task", ["numbers", "two classes"])
def test_echelon_with_a_count_does_not_depend_on_the_order_of_the_rows(task, n):
    model, X, y = make(task)
    order = np.random.default_rng(5).permutation(ROWS)
    plain = clone(model).set_params(steps=[Echelon(n=n)]).fit(X, y)
    shuffled = clone(model).set_params(steps=[Echelon(n=n)]).fit(X[order], y[order])
    assert_array_equal(np.sort(order[shuffled.support_]), plain.support_)
    assert_allclose(raw(shuffled, X), raw(plain, X), rtol=1e-7, atol=1e-8)


def test_echelon_with_a_count_takes_the_column_furthest_from_those_before():
    model, X, y = make("two classes")
    A, _, _ = classifier_form(model, X, y)
    taken = [0]  # the bias column is forced in
    for n in range(1, 9):
        Q = np.linalg.qr(A[:, taken])[0]
        left = np.linalg.norm(A - Q @ (Q.T @ A), axis=0)
        taken.append(int(np.argmax(left)))
        support = clone(model).set_params(steps=[Echelon(n=n)]).fit(X, y).support_
        assert_array_equal(support, np.sort(np.array(taken[1:]) - 1))


def literal_echelon(A, tol):
    """Reduced row echelon form, left to right, partial pivoting: columns with a pivot above tol, the bias forced in."""
    M, row, pivots = A.copy(), 0, []
    for column in range(M.shape[1]):
        if row == len(M):
            break
        best = row + int(np.argmax(np.abs(M[row:, column])))
        if column > 0 and np.abs(M[best, column]) <= tol:
            M[row:, column] = 0.0
            continue
        M[[row, best]] = M[[best, row]]
        M[row] /= M[row, column]
        for other in range(len(M)):
            if other != row:
                M[other] -= M[other, column] * M[row]
        pivots.append(column)
        row += 1
    return np.array(pivots[1:]) - 1


@pytest.mark.parametrize("share", [0.9, 1.05, 1.5, 3.0])
def test_echelon_with_a_tolerance_is_the_row_echelon_form(share):
    """Nothing goes below 1/C, where every column keeps its own ridge; not far above it many do."""
    model, X, y = make("two classes")
    model.set_params(steps=[Echelon(tol=share / model.C)]).fit(X, y)
    A, _, _ = classifier_form(model, X, y)
    support = literal_echelon(A, share / model.C)
    assert_array_equal(model.support_, support)
    if share < 1:
        assert len(support) == ROWS
    elif share > 1.2:
        assert len(support) < 0.9 * ROWS
    assert_reduced(model, X, y, support)


def test_echelon_takes_a_tolerance_or_a_count():
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match=r"Echelon: give tol=0.1 or n=5, not both"):
        clone(model).set_params(steps=[Echelon(tol=0.1, n=5)]).fit(X, y)
    with pytest.raises(ValueError, match=r"Echelon: tol must not be negative"):
        clone(model).set_params(steps=[Echelon(tol=-0.1)]).fit(X, y)
    with pytest.raises(ValueError, match=r"lower tol"):
        clone(model).set_params(steps=[Echelon(tol=1e3)]).fit(X, y)


@pytest.mark.parametrize("copies", [False, True])
def test_echelon_without_either_takes_the_smallest_good_size(copies):
    """All columns, where they are compared, are the dense machine: theirs is its error."""
    model, X, y = make("numbers", rows=60)
    if copies:
        X = X[np.arange(60) % 9]
    dense = clone(model).fit(X, y).press_ / 60
    path = model.set_params(steps=[Echelon()]).fit(X, y).path_
    assert path.sizes[0] == 2
    assert path.sizes[-1] >= 30
    assert path.chosen == path.sizes[np.flatnonzero(path.scores <= 1.05 * path.scores.min())[0]] == len(model.support_)
    K = model.kernel(X, X)
    for size, support, score in zip(path.sizes, path.supports, path.scores, strict=True):
        assert len(support) == size
        if size < 60:
            loo = reduced_left_out(K, np.sort(support), y[:, None], np.ones(60), 0.1)
            assert score == pytest.approx(np.mean(loo**2), rel=1e-5)
        else:
            assert score == pytest.approx(dense, rel=1e-6)


# A-LSSVM --------------------------------------------------------------------------------------------------------------
def literal_adaline(A, B, t, tol, rate, iterations, signed):
    """A06, section 3.1, on the classifier's system: update, residual, remove; two rows and both classes stay."""
    alive, x = np.arange(len(A)), np.zeros(len(A))
    for _ in range(iterations):
        inner = A[np.ix_(alive, alive)]
        x = x + rate * inner.T @ (B[alive] - inner @ x)
        r = (B[alive] - inner @ x)[1:]
        gone = (r if signed else np.abs(r)) < tol
        for label in (-1.0, 1.0):
            own = np.flatnonzero(t[alive[1:] - 1] == label)
            if gone[own].all():
                gone[own[np.argmax(np.abs(r[own]))]] = False
        stay = np.append(True, ~gone)
        alive, x = alive[stay], x[stay]
    return alive[1:] - 1, x


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("tol", [0.02, 0.2])
def test_adaline_is_the_loop_of_the_paper(tol, signed):
    model, X, y = make("two classes")
    A, B, t = classifier_form(model, X, y)
    rate = 1.5 / np.linalg.norm(A, 2) ** 2
    support, x = literal_adaline(A, B, t, tol, rate, 500, signed)
    assert 2 < len(support) < ROWS
    if tol < 0.1:  # the readings differ: the signed one drops what is fitted too well, too
        assert len(support) != len(literal_adaline(A, B, t, tol, rate, 500, not signed)[0])
    step = Adaline(tol=tol, learning_rate=rate, max_iter=500, signed=signed)
    assert_reduced(clone(model).set_params(steps=[step]).fit(X, y), X, y, support)
    raw_step = clone(step).set_params(final_solve=False)
    model.set_params(steps=[raw_step]).fit(X, y)
    assert_array_equal(model.support_, support)
    assert_allclose(model.dual_coef_, x[1:] * t[support], rtol=1e-8, atol=1e-12)
    assert model.intercept_ == pytest.approx(x[0], rel=1e-8)


def test_the_learning_rate_left_at_none_is_the_safe_one():
    """After one step from 0 the bias is rate * sum(y): 1/|A|^2."""
    model, X, y = make("numbers")
    model.set_params(steps=[Adaline(tol=0.0, max_iter=1, final_solve=False)]).fit(X, y)
    A = np.ones((ROWS + 1, ROWS + 1))
    A[0, 0] = 0.0
    A[1:, 1:] = model.kernel(X, X) + 0.1 * np.eye(ROWS)
    assert model.intercept_ / y.sum() == pytest.approx(np.linalg.norm(A, 2) ** -2, rel=1e-4)


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("task", [*TASKS, "four classes", "five classes"])
def test_adaline_with_a_huge_tolerance_keeps_two_rows_and_every_class(task, final):
    model, X, y = make(task)
    model.set_params(steps=[Adaline(tol=1e6, max_iter=100, final_solve=final)]).fit(X, y)
    if task == "numbers":
        assert len(model.support_) == 2
    else:
        assert set(y[model.support_]) == set(y)
        assert len(model.support_) == len(set(y))
    assert np.isfinite(raw(model, X)).all()


@pytest.mark.parametrize("task", TASKS)
def test_adaline_without_a_final_solve_predicts_but_knows_no_leave_one_out(task):
    model, X, y = make(task)
    model.set_params(steps=[Adaline(tol=0.05, final_solve=False)]).fit(X, y)
    assert np.isnan(model.loo_residuals_).all()
    assert np.isnan(model.leverage_).all()
    assert np.isfinite(raw(model, X)).all()
    if task != "numbers":
        probability = model.predict_proba(X)
        assert np.isfinite(probability).all()
        assert_allclose(probability.sum(axis=1), 1.0)
        assert_array_equal(model.classes_[np.argmax(probability, axis=1)], model.predict(X))


def test_adaline_of_numbers_is_not_signed():
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match="Adaline: signed=True"):
        model.set_params(steps=[Adaline(signed=True)]).fit(X, y)


@pytest.mark.parametrize("step", [Adaline(tol=-1.0), Adaline(tol=float("nan"))])
def test_adaline_needs_a_tolerance(step):
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match="Adaline: tol must not be negative"):
        model.set_params(steps=[step]).fit(X, y)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("kind", [Adaline, AdaPinv])
def test_a_learning_rate_must_be_positive(kind, rate):
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match=f"{kind.__name__}: learning_rate must be positive"):
        model.set_params(steps=[kind(learning_rate=rate)]).fit(X, y)


@pytest.mark.parametrize("kind", [Adaline, AdaPinv])
def test_a_learning_rate_that_diverges_is_an_error(kind):
    """Above 2/|A|^2 the steps grow without bound: the step says so instead of selecting by noise."""
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match="learning_rate"):
        model.set_params(steps=[kind(learning_rate=1.0)]).fit(X, y)


@pytest.mark.parametrize("options", [{"rows": "both"}, {"score": "aic"}])
def test_options_of_pruning(options):
    model, X, y = make("numbers")
    with pytest.raises(ValueError, match=f"Prune: {next(iter(options))} must be one of"):
        model.set_params(steps=[Prune(5, **options)]).fit(X, y)


def test_learned_points_predict_better_than_where_they_started():
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-2.0, 2.0, (600, 2)), rng.uniform(-2.0, 2.0, (400, 2))
    f = lambda X: np.sin(3.0 * X[:, 0]) * X[:, 1]  # noqa: E731
    y = f(X) + 0.1 * rng.standard_normal(600)
    start = LSSVR(steps=[RandomlyPivoted(10, random_state=0)]).fit(X, y)
    learned = LSSVR(steps=[Learned(10, random_state=0)]).fit(X, y)
    assert learned.support_ is None
    assert learned.support_vectors_.shape == (10, 2)
    path = learned.path_
    assert path.scores[path.chosen] == path.scores.min() < 0.5 * path.scores[0]
    error = [np.mean((model.predict(new) - f(new)) ** 2) for model in (start, learned)]
    assert error[1] < 0.5 * error[0]


def test_learned_keeps_what_is_given():
    X, y = datasets.load_motorcycle(return_X_y=True)
    model = LSSVR(kernels.RBF(8.0), C=3.0, steps=[Learned(6, steps=20, random_state=0)]).fit(X, y)
    assert (model.kernel_.sigma, model.C_) == (8.0, 3.0)
    assert not np.isin(model.support_vectors_, X).all()


def test_learned_points_take_the_kernel_that_suits_them():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    y = np.abs(X[:, 0] + 0.3 * X[:, 1]) + 0.01 * rng.standard_normal(300)
    families = [kernels.RBF(), kernels.Matern()]
    both = LSSVR(kernels.Choice(families), steps=[sparsify.Learned(12, steps=40, random_state=0)]).fit(X, y)
    alone = [LSSVR(k, steps=[sparsify.Learned(12, steps=40, random_state=0)]).fit(X, y) for k in families]
    first = [model.path_.scores[:16].min() for model in alone]
    winner = alone[int(np.argmin(first))]
    assert type(both.kernel_) is type(winner.kernel_)
    assert_allclose(both.path_.scores, winner.path_.scores, rtol=1e-6)


@pytest.mark.parametrize(("gap", "winner"), [(0.5, 1), (0.02, 0)])
def test_kernels_of_learned_points_are_parted_by_more_than_chance(gap, winner):
    """The second predicts the rows held out better by `gap`, the first has the better start on many more rows."""
    rng = np.random.default_rng(0)
    losses, noise = rng.chisquare(1, 200), 0.5 * rng.standard_normal(200)
    place = lambda losses, left_out: Bunch(score=losses.mean(), losses=losses, left_out=left_out)  # noqa: E731
    first, second = losses + noise - noise.mean(), losses - gap
    trails = [[place(first + 1.0, 1.0), place(first, 0.5)], [place(second + 1.0, 1.1), place(second, 0.4)]]
    assert learned._winner(trails) == winner
    assert learned._winner(trails[::-1]) == 1 - winner


@pytest.mark.filterwarnings("ignore:C = ")
def test_nothing_to_learn_keeps_the_start():
    X = np.random.default_rng(0).standard_normal((60, 2))
    model = LSSVR(kernels.RBF(1.0), C=1.0, steps=[Learned(10, random_state=0)]).fit(X, np.zeros(60))
    assert_allclose(model.predict(X), 0.0, atol=1e-12)
    assert model.path_.chosen == 0


def test_pruning_scores_of_rank_deficient_bases_are_those_of_refits():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 2))[rng.integers(80, size=200)]
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    problem = Problem(kernels.RBF(0.2), X, y[:, None], rng.uniform(0.1, 2.0, 200), C=1.0)
    path = Prune(3, rows="keep", fraction=0.1)(problem).paths["Prune"]
    for support, score in zip(path.supports, path.scores, strict=True):
        fit = problem.with_basis(support).solve()
        expected = problem.weights @ fit.loo_residuals[:, 0] ** 2 / problem.weights.sum()
        assert_allclose(score, expected, rtol=1e-6)
