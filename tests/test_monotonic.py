"""Order constraints: a reference programme, equality-constrained refits, dense lines, refusals, files and intervals."""

import numpy as np
import pytest

from lssvm import LSSVC, LSSVR, kernels, load, save, sparsify

KERNEL, C = kernels.Matern(0.6, nu=2.5), 20.0


@pytest.fixture(scope="module")
def data():
    draw = np.random.RandomState(0)
    X = draw.uniform(0, 1, (40, 2))
    return X, 2 * X[:, 0] + 0.5 * np.sin(8 * X[:, 0]) - X[:, 1] + draw.normal(0, 0.3, 40)


@pytest.fixture(scope="module")
def model(data):
    return LSSVR(KERNEL, C, monotonic_cst=[1, -1]).fit(*data)


def largest_fall(model, X, signs, places=60):
    """The largest change the wrong way along lines through rows and through other points of their range."""
    more = np.random.RandomState(1).uniform(X.min(axis=0), X.max(axis=0), (100, X.shape[1]))
    lines, worst = np.vstack([X, more]) if X.shape[1] > 1 else X[:1], 0.0
    for column in np.flatnonzero(signs):
        points = np.repeat(lines, places, axis=0)
        points[:, column] = np.tile(np.linspace(X[:, column].min(), X[:, column].max(), places), len(lines))
        f = signs[column] * model.predict(points).reshape(len(lines), places)
        worst = max(worst, float(np.max(np.maximum.accumulate(f, axis=1) - f)))
    return worst


def ties_of(model):
    return model.fitted_.members[0].problem.ties


def constrained(X, y, lower, upper):
    """Coefficients and bias of the programme with f(lower) = f(upper), from its KKT system in whitened coordinates."""
    values, vectors = np.linalg.eigh(KERNEL(X))
    root = vectors * np.sqrt(values)  # K = root root', beta = root'^-1 theta
    to_theta = (vectors / np.sqrt(values)).T
    columns = np.column_stack([root, np.ones(len(X))])
    G = np.column_stack([(KERNEL(upper, X) - KERNEL(lower, X)) @ to_theta.T, np.zeros(len(lower))])
    G /= np.linalg.norm(G, axis=1)[:, None]
    return columns, G, np.diag(np.append(np.ones(len(X)), 0.0)), y


def refit(columns, G, penalty, y, rows):
    A = penalty + C * columns[rows].T @ columns[rows]
    system = np.block([[A, G.T], [G, np.zeros((len(G), len(G)))]])
    right = np.append(C * columns[rows].T @ y[rows], np.zeros(len(G)))
    return np.linalg.solve(system, right)[: len(A)]


def test_it_is_the_minimum_of_a_reference_programme(data, model):
    """cvxpy with the same pairs of points, as inequalities."""
    cvxpy = pytest.importorskip("cvxpy")
    X, y = data
    columns, G, _, _ = constrained(X, y, *ties_of(model))
    theta = cvxpy.Variable(columns.shape[1])
    loss = 0.5 * cvxpy.sum_squares(theta[:-1]) + 0.5 * C * cvxpy.sum_squares(columns @ theta - y)
    options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
    cvxpy.Problem(cvxpy.Minimize(loss), [G @ theta >= 0]).solve(solver="CLARABEL", **options)
    assert len(G) > 3
    np.testing.assert_allclose(model.predict(X), columns @ theta.value, atol=1e-6 * np.std(y))


@pytest.mark.parametrize("kernel", [kernels.RBF(0.25), kernels.Matern(0.5), kernels.Spline()], ids=repr)
def test_its_objective_is_that_of_a_programme_on_a_dense_grid(kernel):
    """With other constraint points: the objective is the same, and f does not fall between the points."""
    cvxpy = pytest.importorskip("cvxpy")
    draw = np.random.RandomState(2)
    X = np.sort(draw.uniform(0, 1, (40, 1)), axis=0)
    y = np.sin(5 * X[:, 0]) + draw.normal(0, 0.2, 40)
    model = LSSVR(kernel, C, monotonic_cst=[1]).fit(X, y)
    kernel = model.kernel_
    values, vectors = np.linalg.eigh(kernel(X))
    kept = values > 1e-10 * values[-1]
    inverse = vectors[:, kept] / np.sqrt(values[kept])
    columns, grid = kernel(X) @ inverse, np.union1d(np.linspace(X[0, 0], X[-1, 0], 1000), X[:, 0])[:, None]
    G = np.diff(kernel(grid, X) @ inverse, axis=0)
    theta, b = cvxpy.Variable(columns.shape[1]), cvxpy.Variable()
    loss = 0.5 * cvxpy.sum_squares(theta) + 0.5 * C * cvxpy.sum_squares(columns @ theta + b - y)
    cvxpy.Problem(cvxpy.Minimize(loss), [1000.0 * G @ theta >= 0]).solve(solver="CLARABEL")
    f, beta = model.predict(X), model.dual_coef_
    objective = 0.5 * beta @ kernel(X) @ beta + 0.5 * C * np.sum((y - f) ** 2)
    np.testing.assert_allclose(objective, loss.value, rtol=2e-5)
    assert largest_fall(model, X, [1], places=5001) < 1e-6 * np.std(y)


def test_leave_one_out_equals_refits_with_the_ties(data, model):
    """Refits without each row, by the same solver to 1e-9; by a KKT system in less accurate coordinates to 1e-7."""
    X, y = data
    parts, every = constrained(X, y, *ties_of(model)), np.arange(len(y))
    np.testing.assert_allclose(model.predict(X), parts[0] @ refit(*parts, every), atol=1e-7)
    refits = [y[i] - parts[0][i] @ refit(*parts, np.delete(every, i)) for i in every]
    np.testing.assert_allclose(model.loo_residuals_, refits, atol=1e-7)
    problem = model.fitted_.members[0].problem.replace(points=X)
    others = [problem.replace(weights=np.where(every == i, 0.0, 1.0)).solve() for i in every]
    np.testing.assert_allclose(model.loo_residuals_, [fit.residuals[i, 0] for i, fit in enumerate(others)], atol=1e-9)


def test_groups_are_left_out_with_the_ties(data):
    X, y = data
    groups = np.arange(len(y)) // 4
    model = LSSVR(KERNEL, C, monotonic_cst=[1, -1]).fit(X, y, groups=groups)
    parts = constrained(X, y, *ties_of(model))
    without = refit(*parts, np.flatnonzero(groups != 3))
    np.testing.assert_allclose(model.loo_residuals_[groups == 3], (y - parts[0] @ without)[groups == 3], atol=1e-7)


def test_predictions_do_not_fall_between_constraint_points(data, model):
    X, y = data
    assert largest_fall(LSSVR(KERNEL, C).fit(X, y), X, [1, -1]) > 0.1 * np.std(y)
    assert largest_fall(model, X, [1, -1]) <= 1e-6 * np.std(y)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"steps": [sparsify.Random(15, random_state=0)]},
        {"robust": "hampel"},
        {"target": "power"},
        {"kernel": kernels.Additive(kernels.RBF(0.4))},
        {"kernel": kernels.Polynomial(3) + kernels.RBF(0.5)},
        {"kernel": lambda X, Z: np.exp(-np.abs(X[:, None] - Z).sum(axis=2))},
    ],
    ids=["basis", "robust", "power", "additive", "sum", "callable"],
)
def test_it_holds_for_all_kernels_bases_weights_and_scales(data, options):
    X, y = data
    model = LSSVR(**{"kernel": KERNEL, "C": C, **options}, monotonic_cst=[1, 0]).fit(X, y)
    assert ties_of(model) is not None
    assert largest_fall(model, X, [1, 0]) <= 1e-6 * np.std(y)
    interval = model.predict_interval(X, 0.8)
    assert (interval[:, 0] < interval[:, 1]).all()


@pytest.mark.slow
def test_the_default_stack_is_monotonic(data):
    X, y = data
    model = LSSVR(monotonic_cst=[1, -1]).fit(X, y)
    assert len(model.members_) > 1
    assert largest_fall(model, X, [1, -1]) <= 1e-6 * np.std(y)
    assert np.isfinite(model.predict_interval(X)).all()


def test_nothing_changes_without_an_active_constraint(data):
    X, y = data
    plain = LSSVR(KERNEL, C).fit(X, y)
    several = np.column_stack([y, -y])
    assert LSSVR(KERNEL, C, monotonic_cst={}).fit(X, several).predict(X).shape == several.shape
    np.testing.assert_array_equal(LSSVR(KERNEL, C, monotonic_cst=[0, 0]).fit(X, y).dual_coef_, plain.dual_coef_)
    rising = 3.0 * X[:, 0] + 0.01 * y
    same = LSSVR(KERNEL, C, monotonic_cst=[1, 0]).fit(X, rising)
    assert ties_of(same) is None
    np.testing.assert_array_equal(same.predict(X), LSSVR(KERNEL, C).fit(X, rising).predict(X))


def test_a_constraint_against_the_data_gives_a_constant():
    """The minimum over non-decreasing functions of one column is constant if the targets fall."""
    x = np.linspace(0, 1, 30)
    model = LSSVR(kernels.RBF(0.2), C, monotonic_cst=[1]).fit(x[:, None], -x)
    np.testing.assert_allclose(model.predict(x[:, None]), -0.5, atol=1e-8)


def test_columns_by_name_and_missing_cells(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X, columns=["a", "b"])
    frame.loc[::7, "a"] = np.nan
    model = LSSVR(KERNEL, C, monotonic_cst={"a": 1}).fit(frame, y)
    places = np.linspace(frame["a"].min(), frame["a"].max(), 200)
    f = np.stack([model.predict(pandas.DataFrame({"a": places, "b": b})) for b in X[:, 1]])
    assert np.max(np.maximum.accumulate(f, axis=1) - f) <= 1e-6 * np.std(y)


def test_the_report_and_inspect_name_the_constraints(model, tmp_path):
    from lssvm.cli.models import model_facts
    from lssvm.report import to_html

    words = "increasing in column 0, decreasing in column 1"
    assert model_facts(model)["constraints"] == words
    to_html(model, tmp_path / "report.html")
    assert words in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_files_keep_the_active_set(data, model, tmp_path):
    X, _ = data
    save(model, tmp_path / "model.lssvm")
    same = load(tmp_path / "model.lssvm")
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    np.testing.assert_array_equal(same.predict_interval(X), model.predict_interval(X))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"monotonic_cst": [1]}, "1 values, but the 2 columns"),
        ({"monotonic_cst": {"c": 1}}, "names 'c'"),
        ({"monotonic_cst": [2, 0]}, "monotonic_cst must be a dict"),
        ({"monotonic_cst": [1, 0], "loss": "gamma"}, "loss='gamma'"),
        ({"monotonic_cst": [1, 0], "categorical_features": [0]}, "a category"),
        ({"monotonic_cst": [1, 0], "steps": [sparsify.InversePrune()]}, "columns of the KKT system"),
    ],
)
def test_what_it_does_not_support_is_refused(data, options, match):
    X, y = data
    with pytest.raises(ValueError, match=match):
        LSSVR(KERNEL, C, **options).fit(np.round(X, 1), np.exp(y))


def test_other_fits_are_refused(data):
    X, y = data
    model = LSSVR(kernels.RBF(0.5), C, monotonic_cst=[1, 0])
    assert not hasattr(model, "partial_fit")
    with pytest.raises(ValueError, match="fits on chunks"):
        model.fit_chunks([(X, y)])
    with pytest.raises(ValueError, match="2 targets"):
        model.fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="precomputed"):
        LSSVR(kernels.Precomputed(), C, monotonic_cst=[1] * len(X)).fit(kernels.RBF(0.5)(X), y)
    assert "monotonic_cst" not in LSSVC().get_params()
