"""torch and array-api-strict arrays: computed where they live, equal to NumPy, of the same kind."""

from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from lssvm import LSSVC, LSSVR, arrays, kernels, sparsify, system, tune
from lssvm.problem import Problem

KINDS = ["torch", "array_api_strict"]


@pytest.fixture(params=KINDS)
def xp(request):
    pytest.importorskip(request.param)
    return import_module(request.param)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, 1.0, (300, 3))
    y = np.column_stack([np.sin(X).sum(axis=1), X[:, 0] * X[:, 1]]) + 0.1 * rng.standard_normal((300, 2))
    return X, y, rng.integers(0, 3, 300).astype(float)


def of_kind(array, xp):
    return type(array).__module__.partition(".")[0] == xp.__name__.partition(".")[0]


REGRESSORS = {
    "dense": {"steps": []},
    "one output": {"steps": []},
    "basis": {"steps": [sparsify.Random(40, random_state=0)]},
    "points": {"steps": [sparsify.KMeans(30, random_state=0)]},
    "pivoted": {"steps": [sparsify.RandomlyPivoted(40, random_state=0)]},
    "greedy": {"steps": [sparsify.FeatureVectors(20)]},
    "pruned": {"steps": [sparsify.Prune(250, rows="keep")]},
    "robust": {"steps": [sparsify.Random(40, random_state=0)], "robust": "hampel"},
    "additive": {"kernel": kernels.Additive(kernels.Matern(3.0)), "steps": [sparsify.Random(20, random_state=0)]},
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regression_equals_numpy(rows, xp, name):
    X, y, weight = rows
    y = y[:, 0] if name == "one output" else y
    model = LSSVR(**{"kernel": kernels.RBF(2.0), "C": 10.0, **REGRESSORS[name]})
    expected = clone(model).fit(X, y, weight)
    model.fit(*map(xp.asarray, (X, y, weight)))
    method = "auto" if name == "dense" else "jackknife+"  # which searches for the scale of the noise
    got = {"predict": model.predict(xp.asarray(X)), "interval": model.predict_interval(xp.asarray(X[:9]), 0.9, method)}
    wanted = {"predict": expected.predict(X), "interval": expected.predict_interval(X[:9], 0.9, method)}
    for attribute in ("dual_coef_", "support_vectors_", "loo_residuals_", "leverage_", "weights_", "loo_predictions_"):
        got[attribute], wanted[attribute] = getattr(model, attribute), getattr(expected, attribute)
    for key, value in got.items():
        assert of_kind(value, xp), key
        assert_allclose(arrays.to_numpy(value), wanted[key], rtol=1e-7, atol=1e-8, err_msg=key)
    assert_allclose(arrays.to_numpy(got["predict"]), wanted["predict"], rtol=1e-9)
    assert_allclose(model.score(*map(xp.asarray, (X, y))), expected.score(X, y), rtol=1e-9)
    assert_allclose(model.press_, expected.press_, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("robust", [None, "logistic"])
def test_classes_equal_numpy(rows, xp, n_classes, robust):
    X, y, weight = rows
    labels = (np.argsort(np.argsort(y[:, 0])) * n_classes) // len(y) + 5
    options = {"class_weight": "balanced", "robust": robust, "steps": [sparsify.Random(40, random_state=0)]}
    model = LSSVC(kernels.RBF(2.0), C=1.0, **options)
    expected = clone(model).fit(X, labels, weight)
    model.fit(*map(xp.asarray, (X, labels, weight)))
    predicted = model.predict(xp.asarray(X))
    assert of_kind(predicted, xp)
    assert np.array_equal(arrays.to_numpy(predicted), expected.predict(X))
    for method in ("decision_function", "predict_proba"):
        value = getattr(model, method)(xp.asarray(X))
        assert of_kind(value, xp)
        assert_allclose(arrays.to_numpy(value), getattr(expected, method)(X), rtol=1e-9, atol=1e-12)
    assert model.score(xp.asarray(X), xp.asarray(labels)) == expected.score(X, labels)
    names = np.array(["a", "b", "c"])
    model.fit(xp.asarray(X), names[labels - 5], weight)  # labels that no tensor holds
    assert np.array_equal(model.predict(xp.asarray(X)), names[expected.predict(X) - 5])


def test_chunks_and_partial_fit_equal_numpy(rows, xp):
    X, y, weight = rows
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])])
    whole = clone(model).fit(X, y, weight)
    expected, intervals = whole.predict(X), whole.predict_interval(X, method="jackknife+")
    chunks = [tuple(xp.asarray(a[i : i + 70]) for a in rows) for i in range(0, 300, 70)]
    chunked, parts = clone(model).fit_chunks(chunks), clone(model)
    for chunk in chunks:
        parts.partial_fit(*chunk)
    whole = clone(model).fit_chunks(tuple(map(xp.asarray, rows)), leave_one_out="press")
    for machine in (chunked, parts, whole):
        assert of_kind(machine.dual_coef_, xp)
        assert_allclose(arrays.to_numpy(machine.predict(xp.asarray(X))), expected, rtol=1e-9)
        found = machine.predict_interval(xp.asarray(X), method="jackknife+")
        assert of_kind(found, xp)
        assert_allclose(arrays.to_numpy(found), intervals, rtol=1e-8)
    assert of_kind(chunked.loo_residuals_, xp)
    assert_allclose(whole.press_, chunked.press_, rtol=1e-12)


@pytest.mark.slow
def test_nothing_given(torch):
    """What is chosen on tensors is as good as what is chosen on NumPy arrays: the searches differ in rounding."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    there, here = LSSVR().fit(torch.tensor(X), torch.tensor(y)), LSSVR().fit(X, y)
    assert_allclose(there.press_, here.press_, rtol=1e-2)
    labels = (y > 0).astype(int)
    there, here = LSSVC().fit(torch.tensor(X), torch.tensor(labels)), LSSVC().fit(X, labels)
    assert_allclose(there.press_, here.press_, rtol=1e-2)


SEARCHES = {
    "dense": [],
    "basis": [sparsify.Random(20, random_state=0)],
    "parts": [tune.KFold(3)],
    "parts with a basis": [sparsify.Random(20, random_state=0), tune.KFold(3)],
    "rows held out": [tune.Holdout()],
    "pruned": [sparsify.Prune(40, rows="keep")],
}


@pytest.mark.parametrize("name", SEARCHES)
def test_C_is_searched_on_every_kind(rows, xp, name):
    """C=None searches many ridges at once, which no test with a given C does."""
    X, y = rows[0][:60], rows[1][:60, 0]
    model = LSSVR(kernels.RBF(2.0), steps=SEARCHES[name])
    expected = clone(model).fit(X, y)
    model.fit(xp.asarray(X), xp.asarray(y))
    assert of_kind(model.dual_coef_, xp)
    assert type(model.C_) is float
    assert_allclose(model.press_, expected.press_, rtol=1e-2)
    classifier = LSSVC(kernels.RBF(2.0), steps=SEARCHES[name]).fit(
        xp.asarray(X), xp.asarray((y > np.median(y)).astype(int))
    )
    assert of_kind(classifier.predict_proba(xp.asarray(X)), xp)


def test_other_kinds_are_converted(rows, torch):
    X, y, weight = rows
    model = LSSVR(kernels.RBF(2.0), C=10.0)
    expected = clone(model).fit(X, y, weight)
    on_tensor = clone(model).fit(torch.tensor(X), y, weight)  # y and weights follow X
    assert isinstance(on_tensor.dual_coef_, torch.Tensor)
    assert isinstance(on_tensor.predict(X), np.ndarray)
    assert_allclose(on_tensor.predict(X), expected.predict(X), rtol=1e-9)
    assert_allclose(expected.predict(torch.tensor(X)).numpy(), expected.predict(X), rtol=1e-9)
    assert_allclose(clone(model).fit(X, torch.tensor(y), torch.tensor(weight)).predict(X), expected.predict(X))
    grad = torch.tensor(X, requires_grad=True)
    assert not on_tensor.fit(grad, y).predict(grad).requires_grad
    single = on_tensor.fit(torch.tensor(X, dtype=torch.float32), y)
    assert single.dual_coef_.dtype == torch.float64


def test_tensors_that_are_none_of_ours(rows, torch):
    X, y, _ = rows
    with pytest.raises(TypeError, match=r"Sparse data was passed for X.*to_dense\(\)"):
        LSSVR().fit(torch.tensor(X).to_sparse(), torch.tensor(y))
    spoilt = torch.tensor(y)
    spoilt[3] = torch.nan
    with pytest.raises(ValueError, match=r"Input y contains NaN.*row 3"):
        LSSVR().fit(torch.tensor(X), spoilt)
    with pytest.raises(ValueError, match="dim 3"):
        LSSVR().fit(torch.tensor(X), torch.zeros((len(X), 1, 1)))


def test_precomputed(rows, torch):
    X, y, _ = rows
    K = kernels.RBF(2.0)(X)
    model = LSSVR(kernels.Precomputed(), C=10.0, steps=[sparsify.Given(np.arange(0, 300, 7))])
    expected = clone(model).fit(K, y)
    model.fit(torch.tensor(K), torch.tensor(y))
    assert_allclose(model.predict(torch.tensor(K[:9])).numpy(), expected.predict(K[:9]), rtol=1e-9)
    columns = torch.tensor(K[:9, ::7].copy())
    assert_allclose(model.predict(columns).numpy(), expected.predict(K[:9]), rtol=1e-9)


def test_mistakes(rows, xp):
    X, y, _ = rows
    model = LSSVR(kernels.RBF(2.0), C=10.0)
    holes = X.copy()
    holes[3, 1] = np.inf
    for bad, message in (
        ((xp.asarray(X[:, 0]), y), "2D"),
        ((xp.asarray(holes), y), "infinity"),
        ((xp.asarray(X[:1]), y[:1]), "sample"),
        ((xp.asarray(X), xp.asarray(y[:-1])), "inconsistent numbers of samples"),
        ((xp.asarray(X), None), "None"),
        ((xp.asarray(X + 0j), y), "Complex"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(*bad)
    model.fit(xp.asarray(X), xp.asarray(y))
    with pytest.raises(ValueError, match="features"):
        model.predict(xp.asarray(X[:, :2]))


# Triangles by parts: what accelerators need -------------------------------------------------------------------------
def test_triangles_by_parts(torch):
    """1100 columns are three parts; a graded factor, of condition 1e10 when squared."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((50, 1100))
    L = np.geomspace(1.0, 1e-5, 1100)[:, None] * np.linalg.cholesky(A.T @ A / 50 + np.eye(1100))
    there = arrays.whiten_rows(torch.tensor(A), torch.tensor(L)).numpy()
    assert_allclose(there @ L.T, A, atol=1e-10)
    back = arrays.unwhiten_rows(torch.tensor(A), torch.tensor(L)).numpy()
    assert_allclose(back @ L, A, atol=1e-10)
    inverse = arrays.invert_lower(torch.tensor(L)).numpy()
    assert np.array_equal(inverse, np.tril(inverse))
    assert_allclose(inverse @ L, np.eye(1100), atol=1e-12 * np.abs(inverse).max())
    G = arrays.gram(torch.tensor(A)).numpy()
    assert np.array_equal(G, G.T)
    assert_allclose(G, A.T @ A, atol=1e-12)


def test_a_basis_of_several_parts(torch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 12))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = LSSVR(kernels.RBF(4.0), C=1.0, steps=[sparsify.Given(X[:600])])
    expected = clone(model).fit(X, y)
    model.fit(torch.tensor(X), torch.tensor(y))
    assert_allclose(model.loo_residuals_.numpy(), expected.loo_residuals_, rtol=1e-9, atol=1e-11)


def test_one_product_of_both_factors_only_where_digits_allow(torch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    y, ones = np.sin(X[:, :1]), np.ones(400)
    for width, single in ((0.5, True), (5.0, False)):
        from lssvm.problem import Problem, whiten

        kernel = kernels.RBF(width)
        whitening = whiten(kernel, X[:40], kernel(X[:40]))
        summed = system.solve_in_passes(lambda R, w=whitening: w.sums(w.steps(R), X, y, ones), 1.0)
        steps = whitening.steps(summed.R, summed.condition)
        assert (len(steps) == 1) is single
        fit = Problem(kernel, X, y, ones, C=1.0, points=X[:40]).solve()
        loo = whitening.row_results(summed, steps, X, y, ones)[2]
        assert_allclose(loo, fit.loo_residuals, rtol=1e-7, atol=1e-10)


def test_a_quick_look_at_points_that_depend_on_each_other(rows, torch):
    """No pivots there: the criterion and its gradient are those of the independent points to five digits."""
    X, y, _ = rows
    points = np.concatenate([X[:40], X[:10], X[:10] + 1e-9])
    for sigma in (2.0, 50.0):  # copies; a kernel of low rank
        known = {"kernel": kernels.RBF(np.full(3, sigma)), "C": 100.0, "points": points}
        wanted, *slopes = Problem(X=X, y=y, weights=np.ones(300), **known).factorise().criterion(classes=False)
        known["points"] = torch.asarray(points)
        machine = Problem(X=torch.asarray(X), y=torch.asarray(y), weights=torch.ones(300, dtype=torch.float64), **known)
        factor = machine.factorise(quick=True)
        assert factor.whitening.rank == 60 > machine.factorise().whitening.rank
        value, *quick = factor.criterion(classes=False)
        assert value == pytest.approx(wanted, abs=1e-5)
        for expected, got in zip(slopes, quick, strict=True):
            assert_allclose(got, expected, atol=1e-4)
