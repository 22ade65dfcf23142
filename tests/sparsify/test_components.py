"""Components: fusion, eq. (28), and structure detection as a step."""

import numpy as np
import pytest
from convex_cases import cvxpy, data
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso

from lssvm import LSSVC, LSSVR, datasets, sparsify
from lssvm.kernels import RBF, Additive, Linear, Polynomial, Spline
from lssvm.sparsify import Components, Substrate
from lssvm.sparsify.max_variation import Structure, component_blocks


# Eq. (28): fusion -----------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "seed"), [(Spline(3), s) for s in range(3)] + [(RBF(w), 0) for w in (0.2, 1.0, 10.0)]
)
def test_fusion_is_never_above_a_fine_grid(kernel, seed):
    X, y = datasets.make_additive(50, 5, random_state=seed)
    rows = np.arange(0, 50, 3)
    kernel = Additive(kernel.placed(X))
    model = LSSVR(kernel, C=1.0, steps=[Components(validation=rows, refit=False)]).fit(X, y)
    error = np.mean((y[rows] - model.predict(X[rows])) ** 2)
    train = np.setdiff1d(np.arange(50), rows)
    inside = np.isin(np.arange(50), train)
    blocks = component_blocks(kernel, X, X[train], inside)
    programme = Structure(blocks, y[train], np.ones(len(train)))
    errors = []
    for rho in np.geomspace(1e-3, 1, 150) * programme.largest_rho:
        z, _ = programme.solve(rho).at(rho)
        errors.append(np.mean((y[rows] - np.hstack(blocks.other) @ z - programme.intercept(z)) ** 2))
    assert model.path_.scores.min() <= min(errors) * (1 + 1e-9)
    assert model.path_.rho[0] == pytest.approx(programme.largest_rho)
    assert model.path_.rho[-1] == pytest.approx(1e-5 * programme.largest_rho)
    if blocks.basis is None:  # otherwise rounding in alpha moves the predictions a little
        assert error <= min(errors) * (1 + 1e-9)
    assert error == pytest.approx(model.path_.scores.min(), rel=1e-6 if blocks.basis is None else 1e-4)
    assert model.support_ is not None
    assert not np.isin(model.support_, rows).any()


def test_fusion_of_several_outputs_merges_their_pieces():
    """One rho for both, though their components appear at different ones."""
    X, y = datasets.make_additive(30, 4, random_state=0)
    Y = np.column_stack([y, 0.1 * np.sin(5 * X[:, 1])])
    rows, train = np.arange(0, 30, 4), np.setdiff1d(np.arange(30), np.arange(0, 30, 4))
    kernel = Additive(RBF(0.7))
    model = LSSVR(kernel, C=1.0, steps=[Components(validation=rows, refit=False)]).fit(X, Y)
    blocks = component_blocks(kernel, X, X[train], np.isin(np.arange(30), train))
    programmes = [Structure(blocks, targets, np.ones(len(train))) for targets in Y[train].T]
    top = max(programme.largest_rho for programme in programmes)
    assert min(programme.largest_rho for programme in programmes) < 0.5 * top
    for rho in np.append(np.geomspace(1e-4, 1, 30) * top, model.path_.chosen):
        z = [programme.solve(rho).at(rho)[0] for programme in programmes]
        f = [np.hstack(blocks.other) @ v + p.intercept(v) for p, v in zip(programmes, z, strict=True)]
        error = np.mean(np.sum((Y[rows] - np.column_stack(f)) ** 2, axis=1))
        assert model.path_.scores.min() <= error * (1 + 1e-9)
    assert model.path_.scores.min() == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("kernel", [RBF(1.0), Spline(3)])
@pytest.mark.parametrize("size", [0.0, 1e-8])
def test_fusion_of_an_output_that_is_all_but_constant(kernel, size):
    """Its components appear, if at all, below the rho at which the path of the others ends."""
    X, y = datasets.make_additive(30, 4, random_state=0)
    step = Components(validation=np.arange(0, 30, 4), refit=False)
    alone = LSSVR(Additive(kernel), C=1.0, steps=[step]).fit(X, y)
    both = LSSVR(Additive(kernel), C=1.0, steps=[step]).fit(X, np.column_stack([y, 3.0 + size * X[:, 1]]))
    assert both.path_.chosen == pytest.approx(alone.path_.chosen, rel=1e-9)
    assert_allclose(both.predict(X)[:, 0], alone.predict(X), rtol=1e-7)
    assert_allclose(both.predict(X)[:, 1], 3.0, atol=2 * size + 1e-12)
    with pytest.warns(UserWarning, match="no input is kept"):
        constant = LSSVR(Additive(kernel), C=1.0, steps=[step]).fit(X, np.full(30, 3.0))
    assert_allclose(constant.predict(X), 3.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_printed_29_does_not_solve_28():
    """(29) is smaller than the optimum of (28) where complementary slackness, (27ef), does not hold."""
    X, y = datasets.make_additive(25, 8, random_state=0)
    y = y - y.mean()
    train, rows = np.arange(20), np.arange(20, 25)
    kernel = RBF(0.7)
    parts = [kernel(X[train][:, [c]]) for c in range(8)]
    other = sum(kernel(X[rows][:, [c]], X[train][:, [c]]) for c in range(8))
    whole = sum(parts)

    def of_25(rho):
        """The validation error of the training optimum, which is the value of (29) there, and that optimum's."""
        alpha, t = cvxpy.Variable(20), cvxpy.Variable(8)
        loss = 0.5 * cvxpy.sum_squares(whole @ alpha - y[train]) + rho * cvxpy.sum(t)
        bounds = [cvxpy.abs(part @ alpha) <= t[number] for number, part in enumerate(parts)]
        cvxpy.Problem(cvxpy.Minimize(loss), bounds).solve(solver="CLARABEL")
        return np.sum((other @ alpha.value - y[rows]) ** 2), loss.value

    def of_29(rho):
        """The smallest value of (29) for one rho, its slackness terms there, and the loss of (25) there."""
        alpha, t = cvxpy.Variable(20), cvxpy.Variable(8)
        lower, upper = ([cvxpy.Variable(20, nonneg=True) for _ in parts] for _ in range(2))
        pull = sum(part @ (minus - plus) for part, minus, plus in zip(parts, lower, upper, strict=True))
        conditions = [whole.T @ whole @ alpha - whole.T @ y[train] == pull]  # (27a), corrected
        conditions += [cvxpy.sum(a + b) == rho for a, b in zip(lower, upper, strict=True)]  # (27b), by component
        conditions += [cvxpy.abs(part @ alpha) <= t[number] for number, part in enumerate(parts)]
        slackness = rho * cvxpy.sum(t) + cvxpy.sum_squares(whole @ alpha) - y[train] @ whole @ alpha
        value = cvxpy.sum_squares(other @ alpha - y[rows]) + slackness
        cvxpy.Problem(cvxpy.Minimize(value), conditions).solve(solver="CLARABEL")
        loss = 0.5 * np.sum((whole @ alpha.value - y[train]) ** 2) + rho * t.value.sum()
        return value.value, slackness.value, loss

    grid = np.geomspace(0.1, 50, 20)
    exact = min(of_25(rho)[0] for rho in grid)  # (28)
    printed = [of_29(rho) for rho in grid]
    best = int(np.argmin([value for value, _, _ in printed]))
    value, slackness, loss = printed[best]
    assert value < 0.9 * exact
    assert slackness > 0.1 * exact
    assert loss > 1.001 * of_25(grid[best])[1]  # not the training optimum any more


def test_equal_columns_share_a_component():
    X, y = datasets.make_additive(60, 4, random_state=0)
    kernel = Spline(3).placed(X)
    one = LSSVR(Additive(kernel), C=1.0, steps=[Components(rho=8.0, refit=False)]).fit(X, y)
    twice = np.column_stack([X, X[:, 0]])
    kernel = Spline(3).placed(twice)
    two = LSSVR(Additive(kernel), C=1.0, steps=[Components(rho=8.0, refit=False)]).fit(twice, y)
    assert_allclose(two.predict(twice), one.predict(X), rtol=1e-8)
    assert_allclose(two.path_.max_variation[0][[0, 4]], one.path_.max_variation[0][0] / 2)


def test_wide_kernels_keep_their_predictions():
    """Coefficients in directions that the rounded kernel cannot bear would move them by orders of magnitude."""
    X, y = datasets.make_additive(60, 6, random_state=0)
    model = LSSVR(Additive(RBF(14.0)), C=1.0, steps=[Components(refit=False, random_state=0)]).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_targets_of_any_unit(unit):
    X, y = datasets.make_additive(60, 6, random_state=0)
    step = Components(validation=None)
    model = LSSVR(Additive(Spline(3)), C=10.0, steps=[step]).fit(X, y)
    scaled = LSSVR(Additive(Spline(3)), C=10.0, steps=[step]).fit(X, unit * y)
    assert_array_equal(scaled.active_, model.active_)
    assert_allclose(scaled.predict(X), unit * model.predict(X), rtol=1e-6)


def test_nothing_kept_is_a_constant_and_told():
    X, y = data(40)
    with pytest.warns(UserWarning, match=r"no input is kept.*rho=1000000\.0 is too large"):
        model = LSSVR(Additive(Spline(3)), C=1.0, steps=[Components(1e6)]).fit(X, y)
    assert_allclose(model.predict(X), y.mean())
    assert model.components(X).shape == (40, 2)
    noise = np.random.default_rng(1).standard_normal(40)
    with pytest.warns(UserWarning, match="no input is kept.*Give rho, or validation=None"):
        LSSVR(Additive(Spline(3)), C=1.0, steps=[Components(random_state=0)]).fit(X, noise)
    for refit in (True, False):
        for inputs, targets in ((np.ones((40, 2)), y), (X, np.ones(40))):
            model = LSSVR(Additive(Spline(3)), C=1.0, steps=[Components(refit=refit, validation=np.arange(8))])
            with pytest.warns(UserWarning, match="no input is kept"):
                model.fit(inputs, targets)
            assert np.ptp(model.predict(inputs)) == 0.0


def test_linear_components_in_any_units():
    """Columns of any size, more than half as many as rows: still the LASSO, with components that can be 0."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 25))
    X[:, 3], X[:, 4] = rng.integers(1950, 2020, 40), rng.uniform(0, 5e4, 40)
    y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.01 * (X[:, 3] - 2000) + 0.1 * rng.standard_normal(40)
    model = LSSVR(Additive(Linear()), C=1.0, steps=[Components(2.0, refit=False)]).fit(X, y)
    size = np.abs(X).max(axis=0)
    lasso = Lasso(alpha=2.0 / 40, tol=1e-13, max_iter=1_000_000).fit(X / size, y)
    assert 0 < len(model.active_) < 25
    assert_array_equal(model.active_, np.flatnonzero(lasso.coef_))
    assert_allclose(model.path_.max_variation[0], np.abs(lasso.coef_), atol=1e-6)


def test_columns_too_different_in_size_are_told():
    X, _ = datasets.make_additive(60, 4, random_state=0)
    X[:, 2] = 1e4 * X[:, 2] + 1e4
    X[:, 3] = 1.0
    with pytest.warns(UserWarning, match=r"kernel values of components \[0, 1\] are below 1e-07.*centre and scale"):
        component_blocks(Additive(Polynomial(2)), X, X, np.ones(60, dtype=bool))


def test_few_rows_are_told():
    X, y = data(4)
    with pytest.raises(ValueError, match="validation=5 folds need at least as many rows, but only 4"):
        LSSVR(RBF(1.0), C=1.0, steps=[Substrate(validation=5)]).fit(X, y)
    with pytest.raises(ValueError, match="1 of 2 rows for the path"):
        LSSVR(Additive(Linear()), C=1.0, steps=[Components()]).fit(X[:2], y[:2])


# Structure detection as a step ----------------------------------------------------------------------------------------
def selection(draws, step=None):
    exact = complete = 0
    ratios = []
    for seed in range(draws):
        X, y = datasets.make_additive(100, 25, random_state=seed)
        new, clean = datasets.make_additive(1000, 25, noise=0.0, random_state=1000 + seed)
        kernel = Additive(Spline())
        model = LSSVR(kernel, steps=[step or Components(random_state=seed)]).fit(X, y)
        exact += model.active_.tolist() == [0, 1, 2, 3]
        complete += {0, 1, 2, 3} <= set(model.active_)
        all_inputs = LSSVR(kernel, steps=()).fit(X, y)
        errors = [np.mean((m.predict(new) - clean) ** 2) for m in (model, all_inputs)]
        ratios.append(errors[0] / errors[1])
    return exact, complete, np.median(ratios)


@pytest.mark.slow
def test_the_four_inputs_of_eq_31_are_found():
    exact, complete, ratio = selection(2, Components(validation=None))
    assert complete == 2
    assert exact >= 1
    assert ratio < 0.5


@pytest.mark.slow
def test_the_four_inputs_of_eq_31_are_found_in_most_draws():
    exact, complete, ratio = selection(8)
    assert exact >= 5
    assert complete >= 7
    assert ratio < 0.5


def test_the_refitted_machine_is_the_ordinary_one_on_the_inputs_kept():
    X, y = datasets.make_additive(60, 8, random_state=2)
    model = LSSVR(Additive(Spline(3)), C=20.0, steps=[Components(rho=15.0)]).fit(X, y)
    assert 0 < len(model.active_) < 8
    only = Additive(Spline(3).placed(X).columns(model.active_))
    plain = LSSVR(only, C=20.0, steps=()).fit(X[:, model.active_], y)
    assert_allclose(model.predict(X), plain.predict(X[:, model.active_]), rtol=1e-9)
    assert_allclose(model.loo_residuals_, plain.loo_residuals_, rtol=1e-8)
    changed = X.copy()
    changed[:, np.setdiff1d(np.arange(8), model.active_)] = 1e6
    assert_array_equal(model.predict(changed), model.predict(X))  # dropped columns are not looked at
    assert_array_equal(model.path_.kept[0], model.active_)


def test_what_was_left_open_is_chosen_for_the_inputs_kept():
    X, y = datasets.make_additive(60, 6, random_state=0)
    model = LSSVR(Additive(RBF()), steps=[Components(rho=20.0)]).fit(X, y)
    again = LSSVR(Additive(RBF(), active=model.active_), steps=()).fit(X, y)
    assert pytest.approx(again.C_) == model.C_
    assert_allclose(model.predict(X), again.predict(X))
    tuned = LSSVR(Additive(RBF(ard=True)), steps=[Components(rho=20.0), sparsify.Random(30, random_state=0)]).fit(X, y)
    assert_array_equal(tuned.kernel_.active, tuned.active_)


def test_groups_are_kept_or_left_together():
    X, y = datasets.make_additive(80, 6, random_state=0)
    groups = [[0, 1], [2], [3], [4, 5]]
    kernel = Additive(Spline(3).placed(X), groups)
    expected = sum(Spline(3).placed(X).columns(group)(X[:, group]) for group in groups)
    assert_allclose(kernel(X), expected)
    model = LSSVR(kernel, steps=[Components(validation=None)]).fit(X, y)
    assert model.active_.tolist() == [0, 1, 2]
    assert model.components(X).shape == (80, 4)


def test_classes_and_several_outputs():
    X, y = datasets.make_additive(90, 5, random_state=0)
    labels = np.digitize(y, np.quantile(y, [0.33, 0.66]))
    model = LSSVC(Additive(Spline(3)), C=10.0, steps=[Components(random_state=0)]).fit(X, labels)
    assert 4 not in model.active_
    assert model.score(X, labels) > 0.7
    assert model.components(X).shape == (90, 5, 3)
    rest = model.decision_function(X) - model.components(X).sum(axis=1)
    assert np.ptp(rest, axis=0).max() < 1e-9
    both = LSSVR(Additive(Spline(3)), C=10.0, steps=[Components(rho=8.0, refit=False)]).fit(
        X, np.column_stack([y, X[:, 4]])
    )
    for output, targets in enumerate((y, X[:, 4])):
        one = LSSVR(Additive(Spline(3)), C=10.0, steps=[Components(rho=8.0, refit=False)]).fit(X, targets)
        assert_allclose(both.predict(X)[:, output], one.predict(X), atol=1e-9)


def test_components_refuse_what_makes_no_sense():
    X, y = data(30)
    for kernel in (RBF(1.0), Linear() + RBF(1.0)):
        with pytest.raises(ValueError, match=r"additive model.*kernels\.Additive\(kernels\.Spline\(\)\)"):
            LSSVR(kernel, C=1.0, steps=[Components()]).fit(X, y)
    additive = LSSVR(Additive(Linear()), C=1.0)
    for value in (-1.0, np.inf, "x", True, np.nan):
        with pytest.raises(ValueError, match="Components: rho must be a finite"):
            additive.set_params(steps=[Components(value)]).fit(X, y)
        with pytest.raises(ValueError, match="Substrate: zeta must be a finite"):
            additive.set_params(steps=[Substrate(value)]).fit(X, y)
    with pytest.raises(ValueError, match="rho=0 keeps every input"):
        additive.set_params(steps=[Components(0)]).fit(X, y)
    with pytest.raises(ValueError, match="validation=None needs refitted models"):
        additive.set_params(steps=[Components(validation=None, refit=False)]).fit(X, y)
    for value in (0, 1.0, True, "x", []):
        with pytest.raises(ValueError, match=r"Components: validation must be a share .* or None with refit=True"):
            additive.set_params(steps=[Components(validation=value)]).fit(X, y)
        with pytest.raises(
            ValueError, match=r"Substrate: validation must be a share .* number of folds \(at least 2\)"
        ):
            additive.set_params(steps=[Substrate(validation=value)]).fit(X, y)
    with pytest.raises(ValueError, match="validation contains rows 0 to 30, but X has rows 0 to 29"):
        additive.set_params(steps=[Substrate(validation=[0, 30])]).fit(X, y)
    with pytest.raises(ValueError, match="validation contains 30 of the 30 rows"):
        additive.set_params(steps=[Substrate(validation=np.arange(30))]).fit(X, y)
