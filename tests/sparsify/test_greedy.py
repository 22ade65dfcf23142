"""Feature vectors and forward selection against their definitions."""

import tracemalloc

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sparsify_cases import GIVEN, ROWS, make, within

from lssvm import LSSVR, datasets, kernels
from lssvm.problem import Problem
from lssvm.sparsify import FeatureVectors, Forward, Random


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
    with within(60):
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
