"""Learned points."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils import Bunch

from lssvm import LSSVR, datasets, kernels, sparsify
from lssvm.sparsify import Learned, RandomlyPivoted, bases


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert both.path_.scores.min() < 1.1 * winner.path_.scores.min()  # the kernels of a choice start from each other


@pytest.mark.parametrize(("gap", "winner"), [(0.5, 1), (0.02, 0)])
def test_kernels_of_learned_points_are_parted_by_more_than_chance(gap, winner):
    """The second predicts the rows held out better by `gap`, the first has the better end on many more rows."""
    rng = np.random.default_rng(0)
    losses, noise = rng.chisquare(1, 200), 0.5 * rng.standard_normal(200)
    place = lambda losses, loo: Bunch(score=losses.mean(), losses=losses, loo=loo)  # noqa: E731
    first, second = losses + noise - noise.mean(), losses - gap
    trails = [[place(first + 1.0, 1.1), place(first, 0.4)], [place(second + 1.0, 1.0), place(second, 0.5)]]
    assert bases._winner(trails) == winner
    assert bases._winner(trails[::-1]) == 1 - winner


@pytest.mark.filterwarnings("ignore:C = ")
def test_nothing_to_learn_keeps_the_start():
    X = np.random.default_rng(0).standard_normal((60, 2))
    model = LSSVR(kernels.RBF(1.0), C=1.0, steps=[Learned(10, random_state=0)]).fit(X, np.zeros(60))
    assert_allclose(model.predict(X), 0.0, atol=1e-12)
    assert model.path_.chosen == 0
