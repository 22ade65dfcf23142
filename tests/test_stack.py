"""Stacks of models against refits of all members, against quadratic programming and against single models."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils import Bunch

from lssvm import LSSVC, LSSVR, diagnose, kernels, load, save, sparsify
from lssvm.estimators import planning
from lssvm.kernels import RBF, Additive, Linear, Matern, Spline, Stack
from lssvm.problem import Problem
from lssvm.sparsify import bases
from lssvm.tune import leave_one_out
from lssvm.tune.leave_one_out import PULL, average_weights, mixture_weights
from lssvm.tune.search import first_stage

GIVEN = [RBF(1.5), Matern(3.0, nu=0.5), Linear()]


def numbers(rows=60, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(rows)


# Weights --------------------------------------------------------------------------------------------------------------
def residuals_of(members, rows, seed, tails=False):
    rng = np.random.default_rng(seed)
    shared = rng.standard_t(1.5, rows) if tails else rng.standard_normal(rows)
    return (shared + 0.5 * rng.standard_normal((members, rows)) * np.arange(1, members + 1)[:, None])[:, :, None]


@pytest.mark.parametrize("members", [1, 2, 5, 8])
@pytest.mark.parametrize("tails", [False, True])
def test_weights_minimise_their_objective(members, tails, monkeypatch):
    residuals, v = residuals_of(members, 200, members, tails), np.random.default_rng(1).uniform(0.2, 2.0, 200)
    usual = average_weights(residuals, v)
    monkeypatch.setattr(leave_one_out, "SMALLEST", 0.0)
    found = average_weights(residuals, v)
    assert (found >= 0).all()
    assert_allclose(found.sum(), 1.0)
    # the weights are a fixed point of reweighted squares: compare with a general solver at their Huber factors
    R = residuals[:, :, 0] / np.sqrt(np.min(np.average(residuals[:, :, 0] ** 2, axis=1, weights=v)))
    size = np.abs(found @ R)
    scale = 1.4826 * np.median(size)
    pull = PULL / 200 * (1.4826 * np.median(np.abs(R), axis=1)) ** 2
    Q = (R * (v / v.sum() * np.minimum(1.0, 2.5 * scale / size))) @ R.T + np.diag(pull)
    best = minimize(
        lambda w: w @ Q @ w,
        np.full(members, 1 / members),
        jac=lambda w: 2 * Q @ w,
        bounds=[(0, 1)] * members,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    assert_allclose(found, best.x, atol=2e-3)
    large = np.where(found < min(0.1, 0.5 / members), 0.0, found)
    assert_allclose(usual, large / large.sum())


def test_weights_do_not_depend_on_units_and_copies_of_rows_equal_weights():
    residuals, v = residuals_of(4, 9000, 0), np.random.default_rng(1).integers(1, 4, 9000)
    found = average_weights(residuals, v.astype(float))
    assert_allclose(average_weights(1e-9 * residuals, 5.0 * v), found, rtol=1e-6)
    assert_allclose(average_weights(np.repeat(residuals, v, axis=1), np.ones(v.sum())), found, atol=0.03)


def test_one_outlier_does_not_move_the_weights():
    residuals = residuals_of(3, 100, 0)
    before = average_weights(residuals, np.ones(100))
    residuals[:, 7] += 1000.0  # of the target
    assert_allclose(average_weights(residuals, np.ones(100)), before, atol=0.05)


def test_an_exact_member_takes_all_weight_and_equal_members_share_it():
    residuals = residuals_of(3, 100, 0)
    residuals[1] = 0.0
    assert_allclose(average_weights(residuals, np.ones(100))[1], 1.0, atol=1e-6)
    assert_allclose(average_weights(np.zeros((4, 10, 1)), np.ones(10)), 0.25)


@pytest.mark.parametrize("members", [1, 2, 6])
def test_mixture_weights_maximise_the_likelihood(members):
    rng = np.random.default_rng(members)
    own, v = rng.uniform(0.01, 1.0, (members, 300)), rng.uniform(0.0, 2.0, 300)
    own[-1] = rng.uniform(0.5, 1.0, 300)
    found = mixture_weights(own, v)
    assert_allclose(found.sum(), 1.0)
    # conditions of optimality: sum_i v_i p_ki / p_i is sum_i v_i for members in use and at most that for the others
    ratio = (own / (found @ own)) @ v / v.sum()
    assert_allclose(ratio[found > 0], 1.0, atol=0.02)
    assert (ratio[found == 0] <= 1.03).all()


def test_many_equal_members_keep_their_weights():
    residuals = np.tile(residuals_of(1, 100, 0), (120, 1, 1))
    assert_allclose(average_weights(residuals, np.ones(100)), 1 / 120)
    assert_allclose(mixture_weights(np.full((120, 100), 0.7), np.ones(100)), 1 / 120)


# Regression -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("steps", [(), (sparsify.Random(12, random_state=0),)])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_equals_refits_of_all_members(steps, weighted):
    X, y = numbers()
    v = np.random.default_rng(1).uniform(0.2, 2.0, len(y)) if weighted else np.ones(len(y))
    model = LSSVR(Stack(GIVEN), C=5.0, steps=steps).fit(X, y, v)
    points = [sparsify.Given(member.support_vectors_) for member in model.members_]
    for i in (0, 17, 59):
        rest = np.delete(np.arange(len(y)), i)
        refits = [
            LSSVR(member.kernel_, C=5.0, steps=[basis] if steps else ()).fit(
                X[rest], y[rest], None if v is None else v[rest]
            )
            for member, basis in zip(model.members_, points, strict=True)
        ]
        expected = sum(w * refit.predict(X[[i]])[0] for w, refit in zip(model.stack_weights_, refits, strict=True))
        assert_allclose(model.loo_predictions_[i], expected, rtol=1e-9)
    assert_allclose(model.loo_residuals_, y - model.loo_predictions_, atol=1e-12)
    assert_allclose(model.press_, v @ model.loo_residuals_**2)
    assert_allclose(model.path_.loo, np.average(model.loo_residuals_**2, weights=v))


def test_predictions_leverages_and_intercept_are_averages():
    X, y = numbers()
    model = LSSVR(Stack(GIVEN), C=5.0).fit(X, y)
    w, members = model.stack_weights_, model.members_
    assert (w > 0).all()
    assert_allclose(w.sum(), 1.0)
    assert_allclose(model.predict(X), w @ [member.predict(X) for member in members])
    step = 1e-3
    moved = LSSVR(Stack(GIVEN), C=5.0).fit(X, y + step * np.eye(len(y))[3])
    slopes = [(a.predict(X)[3] - b.predict(X)[3]) / step for a, b in zip(moved.members_, members, strict=True)]
    assert_allclose(model.leverage_[3], w @ slopes, rtol=1e-6)
    assert_allclose(model.intercept_, w @ [member.intercept_ for member in members])


@pytest.mark.parametrize("kernel", [RBF(), Matern(ard=True), Linear(), Additive(Spline(4))])
def test_a_stack_of_one_is_that_model(kernel):
    X, y = numbers()
    stack, single = LSSVR(Stack([kernel])).fit(X, y), LSSVR(kernel).fit(X, y)
    assert_array_equal(stack.predict(X), single.predict(X))
    assert_array_equal(stack.loo_residuals_, single.loo_residuals_)
    assert_array_equal(stack.dual_coef_, single.dual_coef_)
    assert stack.C_ == single.C_
    assert_array_equal(stack.stack_weights_, [1.0])
    assert_array_equal(stack.members_[0].predict(X), single.predict(X))


def test_members_are_the_models_of_their_kernels():
    """Their searches start from each other, so they may end elsewhere, but not at larger errors."""
    X, y = numbers()
    first, most = (LSSVR(Stack([RBF(), *others])).fit(X, y) for others in ([Matern()], [RBF(ard=True), Linear()]))
    assert_array_equal(first.members_[0].predict(X), LSSVR(RBF()).fit(X, y).predict(X))
    for member in (*first.members_, *most.members_):
        single = LSSVR(member.kernel).fit(X, y)
        assert_allclose(member.press_, single.press_, rtol=0.05)


def test_members_of_weight_zero_are_dropped_and_recorded():
    X, y = numbers(500, noise=0.01)
    model = LSSVR(Stack([RBF(1.5), RBF(1e-3)]), C=100.0).fit(X, y)
    assert len(model.members_) == 1
    assert model.kernel_.sigma == 1.5
    assert [member.weight for member in model.path_.members] == [1.0, 0.0]
    X, y = numbers(500, noise=0.3)
    model = LSSVR(Stack([RBF(1.5), Matern(3.0, nu=2.5), RBF(1e-3)]), C=10.0).fit(X, y)
    assert [member.weight > 0 for member in model.path_.members] == [True, True, False]
    assert len(model.members_) == len(model.kernel_.kernels) == 2


def test_several_outputs_share_the_weights():
    X, y = numbers()
    Y = np.column_stack([y, 1e3 * X[:, 2]])
    model = LSSVR(Stack(GIVEN), C=5.0).fit(X, Y)
    assert model.loo_residuals_.shape == Y.shape
    assert_allclose(model.predict(X), np.tensordot(model.stack_weights_, [m.predict(X) for m in model.members_], 1))
    assert_allclose(model.press_, np.sum(model.loo_residuals_**2))


def test_components_of_additive_members_are_averages():
    X, y = numbers()
    model = LSSVR(Stack([Additive(RBF(1.0)), Additive(Spline(4))]), C=5.0).fit(X, y)
    parts = model.components(X)
    assert parts.shape == X.shape
    rest = model.predict(X) - parts.sum(axis=1)
    assert_allclose(rest, rest[0])
    with pytest.raises(AttributeError, match="components"):
        LSSVR(Stack(GIVEN), C=5.0).fit(X, y).components(X)


def test_attributes_without_a_single_value_point_to_the_members():
    X, y = numbers()
    model = LSSVR(Stack(GIVEN), C=5.0).fit(X, y)
    for name in ("C_", "dual_coef_", "support_vectors_"):
        with pytest.raises(AttributeError, match=f"{name} has no single value .* members_"):
            getattr(model, name)
    with pytest.raises(ValueError, match="members_"):
        diagnose.c_path(model)


# Chunks ---------------------------------------------------------------------------------------------------------------
def test_chunks_give_the_stack_of_the_members_fitted_on_chunks():
    X, y = numbers(400)
    model = LSSVR(Stack(GIVEN), C=5.0).fit_chunks((X, y))
    for member in model.members_:
        single = LSSVR(member.kernel, C=5.0).fit_chunks((X, y))
        assert_array_equal(member.predict(X), single.predict(X))
    assert_allclose(model.predict(X), model.stack_weights_ @ [m.predict(X) for m in model.members_])
    assert_allclose(model.press_, np.sum(model.loo_residuals_**2))
    few = LSSVR(Stack(GIVEN), C=5.0).fit_chunks((X, y), leave_one_out="none")
    assert_allclose(few.stack_weights_, model.stack_weights_, rtol=1e-4)
    assert_allclose(diagnose.loo_values(few).residuals[:, 0].std(), model.loo_residuals_.std(), rtol=0.02)


def test_rows_are_added_to_every_member_and_the_weights_stay():
    X, y = numbers(300)
    model = LSSVR(Stack(GIVEN), C=5.0, steps=[sparsify.Random(40, random_state=0)])
    model.partial_fit(X[:200], y[:200])
    weights = model.stack_weights_
    old = model.members_
    model.partial_fit(X[200:], y[200:])
    assert_array_equal(model.stack_weights_, weights)
    for member, before in zip(model.members_, old, strict=True):
        whole = LSSVR(member.kernel_, C=5.0, steps=[sparsify.Given(member.support_vectors_)]).fit(X, y)
        assert_allclose(member.predict(X), whole.predict(X), atol=1e-6)
        assert np.any(member.predict(X) != before.predict(X))
    after = LSSVR(Stack(GIVEN), C=5.0, steps=[sparsify.Random(40, random_state=0)]).fit(X[:200], y[:200])
    assert_allclose(after.partial_fit(X[200:], y[200:]).predict(X), model.predict(X), atol=0.05)


def test_dask_gives_lazy_leave_one_out_values():
    da = pytest.importorskip("dask.array")
    X, y = numbers(300)
    model = LSSVR(Stack(GIVEN), C=5.0).fit(da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100))
    loo = model.loo_residuals_.compute()
    assert_allclose(loo, model.stack_weights_ @ [m.loo_residuals_.compute() for m in model.members_])
    assert_allclose(model.press_, np.sum(loo**2))
    assert_allclose(model.predict(da.from_array(X)).compute(), model.predict(X))


# Classes --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"loss": "logistic", "coding": "one-vs-one"}, {"loss": "squared_hinge"}])
@pytest.mark.parametrize("labels", [2, 3])
def test_probabilities_of_classes_are_averages(options, labels):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < labels], y[y < labels]
    X = X + np.random.default_rng(0).normal(0, 0.5, X.shape)
    model = LSSVC(Stack(GIVEN), C=1.0, **options).fit(X, y)
    p = model.predict_proba(X)
    assert_allclose(p, np.tensordot(model.stack_weights_, [m.predict_proba(X) for m in model.members_], 1))
    assert_allclose(p.sum(axis=1), 1.0)
    assert_array_equal(model.predict(X), model.classes_[np.argmax(p, axis=1)])
    decision = model.decision_function(X)
    assert_allclose(decision, 2 * p[:, 1] - 1 if labels == 2 else 2 * p - 1)
    loo, codes = diagnose.loo_probabilities(model)
    assert_allclose(model.path_.loo, -np.mean(np.log(loo[np.arange(len(codes)), codes])))
    assert_array_equal(model.loo_predictions_, model.classes_[np.argmax(loo, axis=1)])
    expected = np.tensordot(model.stack_weights_, [diagnose.loo_probabilities(m)[0] for m in model.members_], 1)
    assert_allclose(loo, expected, atol=1e-12)


# Around the estimators ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("estimator", [LSSVR, LSSVC])
@pytest.mark.parametrize("count", [1, 3])
def test_files_give_the_same_stack(tmp_path, estimator, count):
    X, y = numbers()
    y = y if estimator is LSSVR else np.digitize(y, [-0.5, 0.5])
    model = estimator(Stack(GIVEN[:count]), C=5.0).fit(X, y)
    save(model, tmp_path / "stack.lssvm")
    again = load(tmp_path / "stack.lssvm")
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again.stack_weights_, model.stack_weights_)
    assert_array_equal(again.loo_residuals_, model.loo_residuals_)
    assert set(vars(again)) == set(vars(model))
    if estimator is LSSVC:
        assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    rest, target = numbers(20, seed=1)
    if estimator is LSSVR:
        assert_array_equal(again.partial_fit(rest, target).predict(X), model.partial_fit(rest, target).predict(X))


def test_mistakes_are_explained():
    X, y = numbers()
    for kernel, message in (
        (Stack([]), "at least one kernel"),
        (Stack(RBF()), "at least one kernel"),
        (Stack([RBF(), Stack([RBF()])]), "contains a Stack"),
        (RBF() + Stack([RBF()]), "contains a Stack"),
        (Stack([RBF, Linear()]), "is a class"),
        (Stack([kernels.Precomputed()]), "Precomputed"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            LSSVR(kernel).fit(X, y)
    with pytest.raises(ValueError, match="leave-one-out residuals, which are not known"):
        LSSVR(Stack(GIVEN), C=1.0, steps=[sparsify.Adaline(final_solve=False)]).fit(X, y)
    model = LSSVR(Stack(GIVEN), C=5.0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="no values, only missing cells"):
        model.fit(np.full_like(X, np.nan), y)
    assert_array_equal(model.predict(X), before)
    assert clone(model).kernel.kernels[0].sigma == 1.5


def test_the_default_has_as_many_members_as_the_time_allows(monkeypatch):
    X, y = numbers()
    given = LSSVR(Stack([RBF(), Linear(), kernels.Matern()]))
    all_members, own = (len(model.fit(X, y).path_.members) for model in (LSSVR(), given))
    assert all_members > 2
    for share, count in ((0.5, 2), (2.5, 2), (100.0, all_members)):
        monkeypatch.setattr(planning, "MOST_WORK", share * len(y) ** 3)
        assert len(LSSVR().fit(X, y).path_.get("members", [None])) == count
        assert len(given.fit(X, y).path_.members) == own


@pytest.mark.slow
def test_the_default_has_one_member_if_that_leaves_nothing_to_explain(monkeypatch):
    monkeypatch.setattr(bases, "SIZE", 300)  # saves time
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (2200, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.003 * rng.standard_normal(2200)
    model = LSSVR().fit(X, y)
    assert np.mean(model.loo_residuals_**2) < planning.EXPLAINED * y.var()
    assert len(model.members_) == 1
    problem = Problem(kernels.RBF(1.0), X, y[:, None], np.ones(2200), C=1e4).with_basis(np.arange(300))
    assert len(planning.with_bases([problem] * 3, None, is_default=True)) == 1
    monkeypatch.setattr(planning, "EXPLAINED", 0.0)
    assert len(planning.with_bases([problem] * 3, None, is_default=True)) > 1


def test_members_of_finite_rank_are_fitted_on_points_that_span_their_functions():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (200, 3)) * [1.0, 0.5, 5.0] + 1.0
    X[:, 1] = X[:, 1].round()  # few distinct values: some knots are equal
    for kernel, function, points in ((Spline(), np.abs(X[:, 0] - 1.0), 18), (Linear(), X.sum(axis=1), 3)):
        y = function + rng.standard_normal(200)
        member = LSSVR(Stack([RBF(), kernel]), C=5.0).fit(X, y).members_[-1]
        assert member.support_vectors_.shape == (points, 3)
        dense = LSSVR(member.kernel_, member.C_, steps=[]).fit(X, y)
        assert_allclose(member.predict(X), dense.predict(X), rtol=1e-9)
        assert_allclose(member.loo_residuals_, dense.loo_residuals_, rtol=1e-8, atol=1e-10)


def test_members_that_are_far_behind_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (400, 2))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(400)
    model = LSSVR(Stack([RBF(), Linear(), Matern()])).fit(X, y)
    assert [type(member.kernel) for member in model.path_.members] == [RBF, Matern]
    alone = LSSVR(Linear()).fit(X, y)
    assert alone.press_ > 4.0 * model.members_[0].press_
    stacked = LSSVR(Stack([RBF(), Matern()])).fit(X, y)
    assert_allclose(model.predict(X), stacked.predict(X), rtol=1e-9)


def test_members_without_weight_after_the_first_stage_are_left_out(monkeypatch):
    monkeypatch.setattr(leave_one_out, "average_weights", lambda *stage: np.array([1.0, 0.0, 1.0]))
    model = LSSVR(Stack([RBF(), Matern(), Matern(nu=0.5)])).fit(*numbers(200))
    assert [getattr(member.kernel, "nu", None) for member in model.path_.members] == [None, 0.5]


def test_weights_of_members_come_from_the_leave_one_out_residuals_of_the_first_stage():
    X, y = numbers(400)
    problem = Problem(Matern(), X, y[:, None], np.ones(400))
    found = first_stage(problem, "gradient", Bunch(evaluations=0, plan=[]))
    part, candidate = found.criterion.problem, found.candidate
    assert part.basis_size == 150
    refit = LSSVR(candidate.kernel, candidate.C, steps=[sparsify.Given(part.support)]).fit(part.X, part.y[:, 0])
    assert_allclose(found.criterion.residuals(candidate)[:, 0], refit.loo_residuals_, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_members_with_bases_of_their_own_need_not_share_a_last_stage():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (1010, 2))
    y = np.abs(np.sin(5.0 * X[:, 0])) + np.abs(X[:, 1]) + 0.3 * rng.standard_normal(1010)
    steps = [sparsify.RandomlyPivoted(1010, random_state=0)]  # the smooth kernel needs half of the points
    model = LSSVR(Stack([RBF(), Matern(nu=0.5)]), robust="huber", steps=steps).fit(X, y)
    assert len(model.members_[0].support_) < len(model.members_[1].support_) == 1010


def test_the_edge_of_the_range_of_C_is_reported_for_members_that_are_kept():
    X = np.linspace(0.0, 1.0, 60)[:, None]
    y = np.sin(6.0 * X[:, 0]) + 0.01 * np.random.default_rng(0).standard_normal(60)
    narrow = RBF(0.02)  # rows hardly predict each other, so that C does not matter
    with pytest.warns(UserWarning, match="edge of the range"):
        LSSVR(Stack([narrow, RBF(0.01)])).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LSSVR(Stack([narrow, Matern(1.0)])).fit(X, y)
        LSSVR(Stack([RBF(), Matern(ard=True)]), C=1e9).fit(X, y)  # given, not searched
    assert [member.weight for member in model.path_.members] == [0.0, 1.0]
