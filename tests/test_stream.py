"""Chunks: sums that add give the machine of all rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from lssvm import LSSVC, LSSVR, kernels, sparsify, system


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, 1.0, (600, 3))
    y = np.column_stack([np.sin(X).sum(axis=1), X[:, 0] * X[:, 1]]) + 0.1 * rng.standard_normal((600, 2))
    return X, y, rng.integers(0, 3, 600).astype(float), rng.normal(5.0, 1.0, (50, 3))


def split(*arrays, size=170):
    return [tuple(a[i : i + size] for a in arrays) for i in range(0, len(arrays[0]), size)]


@pytest.mark.parametrize("robust", [None, "hampel"])
@pytest.mark.parametrize("C", [1.0, 1e6])
def test_chunks_equal_whole(rows, C, robust):
    X, y, weight, new = rows
    model = LSSVR(kernels.RBF(2.0), C=C, steps=[sparsify.Given(X[:40])], robust=robust)
    whole, chunked = clone(model).fit(X, y, weight), clone(model).fit_chunks(split(X, y, weight))
    assert_allclose(chunked.predict(new), whole.predict(new), rtol=1e-9)
    assert_allclose(chunked.loo_residuals_, whole.loo_residuals_, rtol=1e-7, atol=1e-10)
    assert_allclose(chunked.leverage_, whole.leverage_, rtol=1e-8, atol=1e-14)
    assert_allclose(chunked.weights_, whole.weights_, rtol=1e-6)
    assert_allclose(chunked.press_, whole.press_, rtol=1e-9)


def test_partial_fit_equals_whole_in_any_order_of_chunks(rows):
    X, y, weight, new = rows
    model = LSSVR(kernels.Matern(3.0), C=10.0, steps=[sparsify.Given(X[:40])])
    whole = clone(model).fit(X, y, weight)
    for chunks in (split(X, y, weight), split(X, y, weight, size=550)[::-1]):
        parts = clone(model)
        for chunk in chunks:
            parts.partial_fit(*chunk)
        assert_allclose(parts.predict(new), whole.predict(new), rtol=1e-9)


def test_partial_fit_goes_on_from_fit(rows):
    X, y, weight, new = rows
    model = LSSVR(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:40])])
    grown = clone(model).fit(X[:300], y[:300], weight[:300]).partial_fit(X[300:], y[300:], weight[300:])
    assert_allclose(grown.predict(new), clone(model).fit(X, y, weight).predict(new), rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(rows, n_classes):
    X, y, _, new = rows
    labels = np.array(["low", "mid", "top"])[:n_classes][(np.argsort(np.argsort(y[:, 0])) * n_classes) // len(y)]
    model = LSSVC(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:40])])
    whole = clone(model).fit(X, labels)
    order = np.argsort(labels, kind="stable")  # the first chunk holds one class only
    chunked = clone(model).fit_chunks(lambda: iter(split(X[order], labels[order])))
    assert_allclose(chunked.decision_function(new), whole.decision_function(new), rtol=1e-8, atol=1e-10)
    assert_allclose(chunked.predict_proba(new), whole.predict_proba(new), rtol=1e-6)
    parts = clone(model)
    for chunk in split(X[order], labels[order]):
        parts.partial_fit(*chunk, classes=labels)
    assert_allclose(parts.decision_function(new), whole.decision_function(new), rtol=1e-8, atol=1e-10)


def test_moments_add(rows):
    X, y, weight, _ = rows
    whole = system.moments(X.copy(), y, weight)
    first, second = (
        system.moments(X[:200].copy(), y[:200], weight[:200]),
        system.moments(X[200:].copy(), y[200:], weight[200:]),
    )
    for name in ("weight", "phi", "targets", "scatter", "cross"):
        assert_allclose(getattr(first + second, name), getattr(whole, name), rtol=1e-12)
    assert_allclose(whole.scatter, weight.sum() * np.cov(X.T, aweights=weight, bias=True), rtol=1e-12)


def test_chunks_of_nothing_chosen(rows):
    X, y, _, new = rows
    model = LSSVR().fit_chunks(split(X, y))
    assert model.support_vectors_.shape == (500, 3)
    assert np.sqrt(np.mean(model.loo_residuals_**2)) < 0.2
    assert model.predict(new).shape == (50, 2)


def test_mistakes(rows):
    X, y, _, _ = rows
    with pytest.raises(TypeError, match="read only once"):
        LSSVR().fit_chunks(iter([(X, y)]))
    with pytest.raises(ValueError, match="empty"):
        LSSVR().fit_chunks([])
    with pytest.raises(ValueError, match="wrap it in a tuple"):
        LSSVR().fit_chunks([X])
    with pytest.raises(AttributeError, match="partial_fit"):
        LSSVR(robust="hampel").partial_fit(X, y)
    with pytest.raises(ValueError, match="not among the classes"):
        LSSVC(kernels.RBF(2.0), C=1.0).partial_fit(X, y[:, 0] > 0).partial_fit(X, np.full(600, 7))
    with pytest.raises(ValueError, match="training rows"):
        LSSVR(kernels.RBF(2.0), C=1.0).partial_fit(X, y).predict_interval(X)
    with pytest.warns(UserWarning, match="condition"):
        LSSVR(kernels.RBF(10.0), C=1e12, steps=[sparsify.Given(X[:100])]).partial_fit(X, y)
