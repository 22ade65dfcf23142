"""Data sets: contents against published facts, generators against their formulas."""

import doctest
import hashlib
from importlib.resources import files

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from lssvm import datasets

LOADERS = {
    "motorcycle": datasets.load_motorcycle,
    "ripley": datasets.load_ripley,
    "tictactoe": datasets.load_tictactoe,
}
GENERATORS = {"sinc": datasets.make_sinc, "additive": datasets.make_additive}


@pytest.mark.parametrize(
    ("file", "digest"),
    [
        ("motorcycle.csv", "fd0bf0038ec6adf64929f63576961bcdbb41db9e17e97f4be9d938b567f7de91"),
        ("ripley_train.csv", "ed8dcf99ce71e788df06fec2cb0f7964ebdacf5d77d89e0f5d6de576001a42db"),
        ("ripley_test.csv", "cdccc0bdf3622493c1e7fe75c323940d0f8e7e942d5109986761546d0f002106"),
        ("tictactoe.csv", "987567b4ea1b1f0842b760708aaea5c50f7231f1a6100c51305d3256abd002d9"),
    ],
)
def test_shipped_files_are_the_verified_ones(file, digest):
    content = (files("lssvm") / "data" / file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest


@pytest.mark.parametrize("name", LOADERS)
def test_bunch_and_pair_agree(name):
    bunch = LOADERS[name]()
    X, y = LOADERS[name](return_X_y=True)
    assert_array_equal(bunch.data, X)
    assert_array_equal(bunch.target, y)
    assert X.shape == (len(y), len(bunch.feature_names))
    assert len(bunch.target_names) == 1
    assert "licence" in bunch.DESCR
    X[:] = 0  # a caller's change does not reach the next caller
    assert_array_equal(LOADERS[name]().data, bunch.data)


def test_motorcycle():
    X, y = datasets.load_motorcycle(return_X_y=True)
    assert X.shape == (133, 1)
    assert len(np.unique(X)) == 94
    assert (y.min(), y.max()) == (-134, 75)
    assert round(y.mean(), 4) == -25.5459


@pytest.mark.parametrize(("subset", "per_class"), [("train", 125), ("test", 500)])
def test_ripley(subset, per_class):
    X, y = datasets.load_ripley(subset=subset, return_X_y=True)
    assert X.shape == (2 * per_class, 2)
    labels, counts = np.unique(y, return_counts=True)
    assert_array_equal(labels, [-1, 1])
    assert_array_equal(counts, per_class)


def test_tictactoe_counts():
    X, y = datasets.load_tictactoe(return_X_y=True)
    assert X.shape == (958, 9)
    assert len(np.unique(X, axis=0)) == 958
    assert_array_equal(np.unique(X), [-1, 0, 1])
    assert ((y == 1).sum(), (y == -1).sum()) == (626, 332)
    drawn = (X != 0).all(axis=1) & ~_has_line(X, 1) & ~_has_line(X, -1)
    assert drawn.sum() == 16
    assert_array_equal(y == 1, _has_line(X, 1))


def _has_line(X, player):
    """By sums over the 3 x 3 board rather than by a list of lines."""
    board = X.reshape(-1, 3, 3)
    diagonals = np.stack([board.trace(axis1=1, axis2=2), board[:, ::-1].trace(axis1=1, axis2=2)], 1)
    sums = np.hstack([board.sum(axis=1), board.sum(axis=2), diagonals])
    return (sums == 3 * player).any(axis=1)


@pytest.mark.parametrize("distribution", ["gaussian", "t4"])
def test_sinc_without_noise_is_the_formula(distribution):
    X, y = datasets.make_sinc(50, noise=0, distribution=distribution, random_state=0)
    assert X.shape == (50, 1)
    assert np.abs(X).max() <= 5
    assert_allclose(y, np.sin(np.pi * X[:, 0]) / (np.pi * X[:, 0]), rtol=1e-12, atol=1e-15)


@pytest.mark.slow
def test_sinc_noise_has_the_named_distribution():
    laws = {"gaussian": stats.norm(0, 0.3), "t4": stats.t(4, 0, 0.3), "t5": stats.t(5, 0, 0.3)}
    for distribution in ("gaussian", "t4"):
        X, y = datasets.make_sinc(200_000, noise=0.3, distribution=distribution, random_state=0)
        error = y - np.sinc(X[:, 0])
        fits = [name for name, law in laws.items() if stats.kstest(error, law.cdf).pvalue > 1e-3]
        assert fits == [distribution]


def test_sinc_outliers_shift_as_many_rows_as_asked():
    X, y = datasets.make_sinc(200, noise=0, outliers=150, outlier_size=4.0, random_state=1)
    shift = y - np.sinc(X[:, 0])
    assert_allclose(np.abs(shift[shift != 0]), np.full(150, 4.0), rtol=1e-12)
    assert {-1, 1} <= set(np.sign(shift))


def test_additive_is_equation_31():
    X, y = datasets.make_additive(40, 6, noise=0, random_state=0)
    assert X.shape == (40, 6)
    assert X.min() >= 0
    assert X.max() <= 1
    for row, value in zip(X.tolist(), y, strict=True):
        x1, x2, x3, x4, *_ = row
        assert value == pytest.approx(10 * np.sin(x1) + 5 * (2 * x2 - 1) ** 2 + 10 * x3 + 5 * x4, rel=1e-13)


def test_additive_noise_has_the_named_deviation():
    X, clean = datasets.make_additive(20_000, noise=0, random_state=0)
    same_X, y = datasets.make_additive(20_000, noise=2.0, random_state=0)
    assert_array_equal(X, same_X)
    assert stats.kstest(y - clean, stats.norm(0, 2.0).cdf).pvalue > 0.01


@pytest.mark.parametrize("name", GENERATORS)
def test_seed_fixes_the_draw(name):
    make = GENERATORS[name]
    (X, y), (X_again, y_again) = make(30, random_state=3), make(30, random_state=3)
    assert_array_equal(X, X_again)
    assert_array_equal(y, y_again)
    assert not np.array_equal(X, make(30, random_state=4)[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.load_ripley(subset="all"), "load_ripley: subset must be 'train' or 'test', got 'all'"),
        (lambda: datasets.make_sinc(0), "make_sinc: n_samples must be a positive integer, got 0"),
        (lambda: datasets.make_sinc(2.5), r"n_samples must be a positive integer, got 2\.5"),
        (lambda: datasets.make_sinc(noise=-1), "noise must be a finite, non-negative number, got -1"),
        (lambda: datasets.make_sinc(noise="t4"), "noise must be a finite, non-negative number, got 't4'"),
        (lambda: datasets.make_sinc(distribution="cauchy"), "distribution must be 'gaussian' or 't4', got 'cauchy'"),
        (lambda: datasets.make_sinc(5, outliers=6), r"outliers=6.*n_samples=5"),
        (lambda: datasets.make_sinc(outlier_size=np.inf), "outlier_size must be a finite, .* got inf"),
        (lambda: datasets.make_sinc(random_state=-1), "random_state must be an integer from 0 .* got -1"),
        (lambda: datasets.make_additive(n_features=3), "n_features must be an integer from 4, got 3"),
        (lambda: datasets.make_additive(noise=np.nan), "noise must be a finite, non-negative number, got nan"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_docstring_examples():
    results = doctest.testmod(datasets)
    assert results.attempted > 0
    assert results.failed == 0
