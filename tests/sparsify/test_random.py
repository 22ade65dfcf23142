"""Points given, drawn at random, by randomly pivoted Cholesky and by k-means."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare
from sklearn.base import clone
from sparsify_cases import GIVEN, POINTS, ROWS, make, within

from lssvm import LSSVR, kernels
from lssvm.problem import Problem
from lssvm.sparsify import Given, KMeans, Random, RandomlyPivoted


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


@pytest.mark.slow
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
    with within(60):
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
