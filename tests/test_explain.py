"""Importance, effects and Shapley values of columns, against refits, direct loops and sums over all subsets."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reference import left_out
from sklearn.base import clone
from sklearn.feature_selection import RFE, SelectFromModel
from stacking import stack_of

import lssvm
from lssvm import LSSVC, LSSVR, diagnose, kernels, sparsify
from lssvm.diagnose import contributions
from lssvm.estimators.validation import encoded_rows

DRAW = np.random.RandomState(0)
X = DRAW.normal(1.0, 1.0, (60, 4))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + DRAW.normal(0, 0.1, 60)
BOTH = np.column_stack([y, X[:, 3] + y**2])
WEIGHTS = DRAW.uniform(0.5, 2.0, 60)
LABELS = np.digitize(y, [0.0, 1.5])
SIGMA = np.array([1.0, 2.0, 3.0, 5.0])


def with_constant(table, column):
    changed = table.copy()
    changed[:, column] = np.median(X[:, column])
    return changed


def by_column(found):
    """The errors of `importance` in the order of the columns."""
    errors = np.empty(len(found.columns))
    errors[found.columns] = found.errors
    return errors


def frame(rows=60):
    """Numbers with missing cells, a category with missing cells, ranks, an identifier; and the targets."""
    draw = np.random.RandomState(1)
    colour = draw.choice(["red", "green", "blue"], rows)
    table = pd.DataFrame({"size": draw.normal(size=rows), "weight": draw.normal(size=rows)})
    targets = (colour == "red") + np.sin(table["size"]) + table["weight"] * table["size"] + draw.normal(0, 0.1, rows)
    table["colour"] = pd.Series(colour).where(draw.uniform(size=rows) > 0.1)
    table.loc[::9, "weight"] = np.nan
    levels = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
    table["level"] = pd.Series(draw.choice(levels.categories, rows)).astype(levels)
    table["key"] = [f"row {number}" for number in range(rows)]
    return table, targets.to_numpy()


# Importance ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kernel", "basis"),
    [
        (kernels.RBF(SIGMA), "rows"),
        (kernels.RBF(SIGMA), "fewer"),
        (kernels.Matern(SIGMA), "points"),
        (kernels.Linear(), "fewer"),
        (kernels.Polynomial(2), "points"),
        (kernels.Additive(kernels.Spline(4)), "rows"),
        (kernels.Additive(kernels.Spline(4)), "fewer"),
        (kernels.RBF(2.0) + kernels.Linear(), "points"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_importance_equals_refits_without_each_row(kernel, basis):
    points, steps = {
        "rows": (X, ()),
        "fewer": (X[::3], [sparsify.Given(np.arange(0, 60, 3))]),
        "points": (X[::3] + 0.05, [sparsify.Given(X[::3] + 0.05)]),
    }[basis]
    model = LSSVR(kernel, C=20.0, steps=steps).fit(X, BOTH, WEIGHTS)
    found = diagnose.importance(model)
    for column, error in enumerate(by_column(found)):
        rows, basis_points = with_constant(X, column), with_constant(points, column)
        K_rows, K_basis = model.kernel_(rows, basis_points), model.kernel_(basis_points)
        residuals = left_out(K_rows, K_basis, BOTH, WEIGHTS, 1 / 20.0)
        assert error == pytest.approx(math.sqrt(np.average(np.mean(residuals**2, axis=1), weights=WEIGHTS)), rel=1e-7)
    assert found.full == pytest.approx(diagnose.scores(model)["rmse"], rel=1e-12)
    np.testing.assert_array_equal(found.increase, found.errors - found.full)
    assert (np.diff(found.increase) <= 0).all()
    assert found.names == [f"column {column}" for column in found.columns]
    assert (found.measure, found.rows, found.sampled) == ("RMSE", 60, False)


@pytest.mark.parametrize("kernel", [kernels.RBF, kernels.Matern])
def test_importance_is_the_error_of_the_model_without_the_column(kernel):
    errors = by_column(diagnose.importance(LSSVR(kernel(SIGMA), C=5.0).fit(X, y)))
    for column, error in enumerate(errors):
        others = np.arange(4) != column
        refit = LSSVR(kernel(SIGMA[others]), C=5.0).fit(X[:, others], y)
        assert error == pytest.approx(diagnose.scores(refit)["rmse"], rel=1e-9)


@pytest.mark.parametrize("labels", [LABELS, LABELS > 0], ids=["three", "two"])
@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "squared", "class_weight": "balanced"},
        {"loss": "logistic"},
        {"loss": "logistic", "steps": [sparsify.Random(30, random_state=0)]},
        {"loss": "squared_hinge", "coding": "one-vs-one"},
    ],
    ids=lambda settings: " ".join(map(str, settings)),
)
def test_importance_for_classes_is_the_log_loss_of_refits(labels, settings):
    copies = 1.0 + (np.arange(60) % 3)
    model = LSSVC(kernels.RBF(SIGMA), C=3.0, **settings).fit(X, labels, copies)
    found = diagnose.importance(model)
    kept = model.support_ if "steps" in settings else np.arange(60)  # a basis: only its rows are kept
    refit = clone(model).set_params(steps=())
    for column, error in enumerate(by_column(found)):
        scores = diagnose.scores(refit.fit(with_constant(X, column)[kept], labels[kept], copies[kept]))
        assert error == pytest.approx(scores["log_loss"], rel=1e-8)
    assert found.measure == "log loss"
    assert found.sampled == ("steps" in settings)


def test_importance_of_a_stack_keeps_its_weights():
    both, shares = (kernels.RBF(2.0), kernels.Linear()), (0.3, 0.7)
    stack = stack_of([LSSVR(kernel, C=5.0).fit(X, y) for kernel in both], shares)
    for column, error in enumerate(by_column(diagnose.importance(stack))):
        refits = [LSSVR(kernel, C=5.0).fit(with_constant(X, column), y) for kernel in both]
        residuals = np.average([refit.loo_residuals_ for refit in refits], axis=0, weights=shares)
        assert error == pytest.approx(math.sqrt(np.mean(residuals**2)), rel=1e-9)


def test_importance_of_a_stack_of_classifiers_averages_probabilities():
    both, shares = [{"loss": "squared"}, {"loss": "logistic", "coding": "one-vs-one"}], (0.4, 0.6)
    stack = stack_of([LSSVC(kernels.RBF(2.0), C=5.0, **loss).fit(X, LABELS) for loss in both], shares)
    for column, error in enumerate(by_column(diagnose.importance(stack))):
        refits = [LSSVC(kernels.RBF(2.0), C=5.0, **loss).fit(with_constant(X, column), LABELS) for loss in both]
        p = np.average([diagnose.loo_probabilities(refit)[0] for refit in refits], axis=0, weights=shares)
        assert error == pytest.approx(-np.mean(np.log(p[np.arange(60), LABELS])), rel=1e-8)


@pytest.mark.filterwarnings("ignore:X. column 'key' is ignored:UserWarning")
def test_a_category_and_its_missing_cells_are_one_column():
    table, targets = frame()
    widths = dict(zip(table.columns, [1.0, 2.0, 0.7, 3.0, 1.0], strict=True))
    found = diagnose.importance(LSSVR(kernels.RBF(list(widths.values())), C=20.0).fit(table, targets))
    assert sorted(found.names) == sorted(table.columns)
    for name, error in zip(found.names, found.errors, strict=True):
        sigma = [width for other, width in widths.items() if other != name]
        refit = LSSVR(kernels.RBF(sigma), C=20.0).fit(table.drop(columns=name), targets)
        assert error == pytest.approx(diagnose.scores(refit)["rmse"], rel=1e-9)
    assert found.increase[found.names.index("key")] == 0.0


def test_columns_that_are_not_used_have_no_importance():
    model = LSSVR(kernels.RBF([1.0, math.inf, 2.0, 3.0]), C=5.0).fit(X, y)
    found = diagnose.importance(model)
    assert found.increase[found.names.index("column 1")] == 0.0
    assert np.count_nonzero(found.increase) == 3


@pytest.mark.parametrize("steps", [(), [sparsify.Random(40, random_state=0)]], ids=["dense", "basis"])
def test_importance_of_many_rows_is_that_of_evenly_thinned_rows(steps):
    model = LSSVR(kernels.RBF(2.0), C=5.0, steps=steps).fit(X, y, WEIGHTS)
    found = diagnose.importance(model, rows=30)
    part = np.linspace(0, 59, 30).astype(int)
    expected = diagnose.importance(LSSVR(kernels.RBF(2.0), C=5.0).fit(X[part], y[part], WEIGHTS[part]))
    np.testing.assert_allclose(by_column(found), by_column(expected), rtol=1e-9)
    assert (found.rows, found.sampled) == (30, True)
    assert not expected.sampled


def test_thinned_rows_keep_the_proportions_of_the_classes():
    labels = np.arange(60) % 20 == 0
    model = LSSVC(kernels.RBF(2.0), C=5.0).fit(X, labels)
    found = diagnose.importance(model, rows=20)
    order = np.argsort(labels, kind="stable")
    part = np.sort(order[np.linspace(0, 59, 20).astype(int)])
    assert labels[part].sum() == 1
    expected = diagnose.importance(LSSVC(kernels.RBF(2.0), C=5.0).fit(X[part], labels[part]))
    np.testing.assert_allclose(by_column(found), by_column(expected), rtol=1e-9)


def test_robust_weights_are_kept():
    model = LSSVR(kernels.RBF(2.0), C=5.0, robust="hampel").fit(X, y + 5 * (np.arange(60) == 7))
    errors = by_column(diagnose.importance(model))
    for column, error in enumerate(errors):
        refit = LSSVR(kernels.RBF(2.0), C=5.0).fit(
            with_constant(X, column), y + 5 * (np.arange(60) == 7), model.weights_
        )
        assert error == pytest.approx(math.sqrt(np.mean(refit.loo_residuals_**2)), rel=1e-9)


@pytest.mark.parametrize("how", ["fit_chunks", "partial_fit"])
def test_importance_after_chunks_comes_from_the_sample(how):
    model = LSSVR(kernels.RBF(2.0), C=5.0, steps=[sparsify.Given(X[::2])])
    if how == "fit_chunks":
        model.fit_chunks([(X[:25], y[:25]), (X[25:], y[25:])])
    else:
        model.partial_fit(X[:25], y[:25]).partial_fit(X[25:], y[25:])
    whole = LSSVR(kernels.RBF(2.0), C=5.0, steps=[sparsify.Given(X[::2])]).fit(X, y)
    np.testing.assert_allclose(by_column(diagnose.importance(model)), by_column(diagnose.importance(whole)), rtol=1e-7)


@pytest.mark.parametrize(
    "model",
    [
        LSSVR(kernels.RBF(2.0), C=5.0),
        LSSVR(kernels.Stack([kernels.RBF(2.0), kernels.Linear()]), C=5.0),
        LSSVC(kernels.RBF(2.0), C=5.0, loss="logistic"),
    ],
)
def test_explanations_survive_files(model, tmp_path):
    table, targets = frame()
    table = table.drop(columns="key")
    model = clone(model).fit(table, targets > 0.5 if isinstance(model, LSSVC) else targets)
    lssvm.save(model, tmp_path / "model")
    loaded = lssvm.load(tmp_path / "model")
    np.testing.assert_array_equal(diagnose.importance(loaded).errors, diagnose.importance(model).errors)
    for one, other in zip(diagnose.effects(loaded), diagnose.effects(model, table), strict=True):
        np.testing.assert_allclose(one.effect, other.effect, atol=1e-12)
        assert (one.name, one.kind, list(one.grid)) == (other.name, other.kind, list(other.grid))
        np.testing.assert_array_equal(one.counts, other.counts)


def test_model_files_of_older_versions_are_explained():
    """They know neither loss nor coding, which are those of least squares, one class against the rest."""
    for name in ("regression", "outputs", "two-classes", "three-classes", "chunks"):
        model = lssvm.load(Path(__file__).parent / "golden" / f"format1-{name}.lssvm")
        expected = diagnose.scores(model)["log_loss" if isinstance(model, LSSVC) else "rmse"]
        # probabilities are calibrated anew, with other targets than those of these versions
        assert diagnose.importance(model).full == pytest.approx(
            expected, rel=0.01 if isinstance(model, LSSVC) else 1e-6
        )
        assert len(diagnose.effects(model)) == model.n_features_in_


def test_models_without_columns_or_rows_are_refused():
    with pytest.raises(ValueError, match="a precomputed kernel has no columns"):
        diagnose.importance(LSSVR(kernels.Precomputed(), C=1.0).fit(X @ X.T, y))
    substrate = LSSVR(kernels.RBF(2.0), C=1.0, steps=[sparsify.Substrate(random_state=0)]).fit(X, y)
    with pytest.raises(ValueError, match="a step has set the coefficients"):
        diagnose.importance(substrate)
    far = LSSVC(kernels.RBF(2.0), C=1.0, loss="logistic", steps=[sparsify.Given(X[::5] + 0.1)]).fit(X, y > 0)
    with pytest.raises(ValueError, match="choose its basis among the rows"):
        diagnose.importance(far)
    with pytest.raises(ValueError, match=r"Or give X\."):
        diagnose.effects(far)
    assert len(diagnose.effects(far, X)) == 4
    with pytest.raises(ValueError, match="rows must be at least 2, got 1"):
        diagnose.importance(substrate, rows=1)
    with pytest.raises(TypeError, match="must be a fitted LSSVR or LSSVC"):
        diagnose.importance(None)


# Quick importance and interactions ------------------------------------------------------------------------------------
def test_feature_importances_of_an_additive_model_are_those_of_its_components():
    model = LSSVR(kernels.Additive(kernels.RBF(1.0)), C=20.0).fit(X, y)
    medians = model.components(np.median(X, axis=0)[None, :])
    sizes = np.mean((model.components(X) - medians) ** 2, axis=0)
    np.testing.assert_allclose(model.feature_importances_, sizes / sizes.sum(), rtol=1e-9)


def test_scikit_learn_selects_columns():
    table = np.column_stack([X, DRAW.normal(size=(60, 3))])
    chosen = RFE(LSSVR(kernels.RBF(3.0), C=10.0), n_features_to_select=3).fit(table, y)
    np.testing.assert_array_equal(chosen.get_support(), [True, True, True, False, False, False, False])
    mask = SelectFromModel(LSSVC(kernels.RBF(3.0), C=10.0)).fit(table, y > 0).get_support()
    assert mask[0]
    assert not mask[3:].any()
    assert not hasattr(LSSVR(kernels.Precomputed(), C=1.0).fit(X @ X.T, y), "feature_importances_")
    assert not hasattr(LSSVR(), "feature_importances_")


def test_interactions_are_differences_of_differences():
    """f = 2 x0 x1 + x2, exactly: only one pair interacts, with the product of its distances from the medians."""
    model = LSSVR(kernels.Polynomial(2), C=1e8).fit(X, 2 * X[:, 0] * X[:, 1] + X[:, 2])
    found, centred = diagnose.interactions(model), X - np.median(X, axis=0)
    assert found.names[0] == ("column 0", "column 1")
    assert found.pairs[0].tolist() == [0, 1]
    assert found.strength[0] == pytest.approx(np.sqrt(np.mean((2 * centred[:, 0] * centred[:, 1]) ** 2)), rel=1e-5)
    assert (found.strength[1:] < 1e-5 * found.strength[0]).all()
    classes = LSSVC(kernels.RBF(2.0), C=5.0).fit(X, LABELS)
    assert (diagnose.interactions(classes, columns=3).strength > 0.0).sum() == 3


# Effects ------------------------------------------------------------------------------------------------------------
def responses(model, table):
    """What effects are computed of, through the public methods."""
    if isinstance(model, LSSVR):
        return model.predict(table)
    p = model.predict_proba(table)
    return p[:, 1] if p.shape[1] == 2 else p


def slow_number(model, table, name, intervals):
    """Accumulated local effects of a column of numbers by their definition, interval by interval."""
    table = table[table[name].notna()]
    x = table[name].to_numpy()
    grid = np.unique(np.sort(x)[np.maximum(np.ceil(np.linspace(0, 1, intervals + 1) * len(x)).astype(int) - 1, 0)])
    effect, counts = [0.0], []
    for low, high in itertools.pairwise(grid):
        part = table[(x > low) & (x <= high) | (x == low) & (low == grid[0])]
        step = responses(model, part.assign(**{name: high})) - responses(model, part.assign(**{name: low}))
        effect.append(effect[-1] + step.mean(axis=0))
        counts.append(len(part))
    effect = np.array([np.zeros_like(effect[-1]), *effect[1:]])
    middle = 0.5 * (effect[1:] + effect[:-1])
    return grid, effect - np.average(middle, axis=0, weights=counts), counts


MODELS = {
    "regression": (LSSVR(kernels.Matern(2.0), C=20.0), lambda y: y),
    "outputs": (LSSVR(kernels.RBF(2.0), C=20.0), lambda y: np.column_stack([y, y**2])),
    "stack": (LSSVR(kernels.Stack([kernels.RBF(2.0), kernels.Linear()]), C=20.0), lambda y: y),
    "two classes": (LSSVC(kernels.RBF(2.0), C=20.0, loss="logistic"), lambda y: y > 0.5),
    "three classes": (LSSVC(kernels.RBF(2.0), C=20.0, coding="one-vs-one"), lambda y: np.digitize(y, [0, 1])),
}


@pytest.mark.filterwarnings("ignore:X. column 'key' is ignored:UserWarning")
@pytest.mark.parametrize("kind", MODELS)
def test_effects_equal_their_definition(kind):
    table, targets = frame()
    model, coded = MODELS[kind]
    model = clone(model).fit(table, coded(targets))
    found = {part.name: part for part in diagnose.effects(model, table, intervals=7)}
    assert list(found) == ["size", "weight", "colour", "level"]
    for name in ("size", "weight"):
        grid, effect, counts = slow_number(model, table, name, 7)
        np.testing.assert_array_equal(found[name].grid, grid)
        np.testing.assert_array_equal(found[name].counts, counts)
        np.testing.assert_allclose(found[name].effect, effect, atol=1e-12)
    colours = ["blue", "green", "red", None]
    means = np.array([responses(model, table.assign(colour=colour)).mean(axis=0) for colour in colours])
    counts = [(table["colour"] == colour).sum() if colour else table["colour"].isna().sum() for colour in colours]
    assert found["colour"].grid == colours
    np.testing.assert_array_equal(found["colour"].counts, counts)
    np.testing.assert_allclose(found["colour"].effect, means - np.average(means, axis=0, weights=counts), atol=1e-12)
    np.testing.assert_allclose(np.tensordot(counts, found["colour"].effect, axes=1), 0.0, atol=1e-10)


def test_effects_of_ranks_step_from_level_to_level():
    table, targets = frame()
    table = table.drop(columns="key")
    model = LSSVR(kernels.RBF(2.0), C=20.0).fit(table, targets)
    (found,) = diagnose.effects(model, table, ["level"])
    assert list(found.grid) == ["low", "middle", "high"]

    def level(part, value):
        return model.predict(part.assign(level=pd.Series([value] * len(part), part.index, table.level.dtype)))

    lower, upper = table[table.level != "high"], table[table.level == "high"]
    steps = [
        np.mean(level(lower, "middle") - level(lower, "low")),
        np.mean(level(upper, "high") - level(upper, "middle")),
    ]
    np.testing.assert_allclose(np.diff(found.effect), steps, atol=1e-12)
    np.testing.assert_array_equal(found.counts, [len(lower), len(upper)])


def test_the_effect_in_an_additive_model_is_its_component():
    model = LSSVR(kernels.Additive(kernels.RBF(1.0)), C=20.0).fit(X, BOTH)
    rounding = np.finfo(float).eps * len(X) * np.abs(model.dual_coef_).sum()
    for found in diagnose.effects(model, X):
        rows = np.repeat(X[:1], len(found.grid), axis=0)
        rows[:, found.column] = found.grid
        component = model.components(rows)[:, found.column]
        difference = found.effect - component
        np.testing.assert_allclose(difference, np.repeat(difference[:1], len(rows), axis=0), atol=rounding)


def test_effects_without_rows_are_those_of_the_training_rows():
    model = LSSVR(kernels.RBF(2.0), C=20.0).fit(X, y, np.arange(60) % 2)
    for one, other in zip(diagnose.effects(model), diagnose.effects(model, X[1::2]), strict=True):
        np.testing.assert_array_equal(one.effect, other.effect)
        assert one.counts.sum() == 30


def test_effects_use_at_most_so_many_rows():
    model = LSSVR(kernels.RBF(2.0), C=20.0).fit(X, y)
    part = X[np.linspace(0, 59, 25).astype(int)]
    for one, other in zip(diagnose.effects(model, X, rows=25), diagnose.effects(model, part), strict=True):
        np.testing.assert_array_equal(one.effect, other.effect)


def test_effects_of_constant_pooled_and_unknown_values(monkeypatch):
    monkeypatch.setattr("lssvm.tables.encoding.MOST_VALUES", 100)
    draw = np.random.RandomState(0)
    names = [f"v{number}" for number in draw.geometric(0.02, 400)]
    table = pd.DataFrame({"name": names, "one": 1.0})
    with pytest.warns(UserWarning, match="most frequent"):
        model = LSSVR(kernels.RBF(1.0), C=1.0).fit(table, draw.normal(size=400))
    name, one = diagnose.effects(model, table)
    assert name.grid[-1] == "other values"
    assert name.counts.sum() == 400
    np.testing.assert_array_equal(one.effect, [0.0, 0.0])
    table, targets = frame()
    model = LSSVR(kernels.RBF(1.0), C=1.0).fit(table[["colour", "weight"]], targets)
    new = pd.DataFrame({"colour": ["red", "pink"], "weight": [math.nan, math.nan]})
    assert diagnose.effects(model, new, ["colour"])[0].counts == [1]
    with pytest.raises(ValueError, match="column 'weight' has no values that were seen in fit"):
        diagnose.effects(model, new)


def test_wrong_columns_of_effects_are_refused():
    table, targets = frame()
    with pytest.warns(UserWarning, match="'key' is ignored"):
        model = LSSVR(kernels.RBF(2.0), C=20.0).fit(table, targets)
    for columns, words in [
        (["price"], "columns contains 'price', which is not a column"),
        ([5], "0 to 4"),
        (["key"], "ignores as an identifier"),
        ("colour", r"got 'colour': write \['colour'\]"),
    ]:
        with pytest.raises(ValueError, match=words):
            diagnose.effects(model, table, columns)
    with pytest.raises(ValueError, match="intervals must be at least 1, got 0"):
        diagnose.effects(model, table, intervals=0)
    with pytest.raises(ValueError, match="a precomputed kernel has no columns"):
        diagnose.effects(LSSVR(kernels.Precomputed(), C=1.0).fit(X @ X.T, y))


# Shapley values -----------------------------------------------------------------------------------------------------
def over_all_subsets(value, n_columns):
    """Shapley values by their definition: `value(S)` of a tuple of columns, over all 2^d of them."""
    values = {S: value(S) for size in range(n_columns + 1) for S in itertools.combinations(range(n_columns), size)}
    found = []
    for column in range(n_columns):
        others = [c for c in range(n_columns) if c != column]
        total = 0.0
        for size in range(n_columns):
            share = 1.0 / (n_columns * math.comb(n_columns - 1, size))
            for S in itertools.combinations(others, size):
                total = total + share * (values[tuple(sorted((*S, column)))] - values[S])
        found.append(total)
    return np.stack(found, axis=1), values[()]


def dropped(sigma, kept, sources):
    """The widths with those of other columns at infinity, so that their factors are 1."""
    return np.where(np.isin(sources, kept), np.broadcast_to(sigma, len(sources)), np.inf)


def centred(value, new, rows, n_columns):
    """The Shapley values of the game value(X, S), less their means over the training rows."""
    of_new, of_rows = (over_all_subsets(lambda S, X=X: value(X, S), n_columns)[0] for X in (new, rows))
    return of_new - of_rows.mean(axis=0)


@pytest.mark.parametrize("sigma", [2.0, np.array([1.0, 2.0, 0.5, 3.0, 1.5, 4.0, 0.8])], ids=["one", "each"])
@pytest.mark.parametrize("n_columns", [2, 3, 7])
def test_shapley_values_of_product_kernels_equal_sums_over_all_subsets(sigma, n_columns):
    draw = np.random.RandomState(n_columns)
    rows, new = draw.normal(size=(40, n_columns)), draw.normal(size=(9, n_columns))
    sigma = sigma if np.ndim(sigma) == 0 else sigma[:n_columns]
    steps = [sparsify.Given(rows[::2])]  # the coefficients of a basis do not sum to 0
    model = LSSVR(kernels.RBF(sigma), C=10.0, steps=steps).fit(
        rows, np.column_stack([rows[:, 0], rows.sum(axis=1) ** 2])
    )

    def value(X, S):
        kernel = kernels.RBF(dropped(sigma, S, np.arange(n_columns)))
        return kernel(X, model.support_vectors_) @ model.dual_coef_

    found = diagnose.shapley(model, new)
    rounding = 1e-12 * np.abs(model.dual_coef_).sum()
    np.testing.assert_allclose(found.contributions, centred(value, new, rows, n_columns), atol=rounding)
    np.testing.assert_allclose(found.base, model.predict(rows).mean(axis=0), rtol=1e-12)
    assert (found.error == 0.0).all()


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_shapley_values_of_matern_kernels_equal_sums_over_all_subsets(nu):
    model = LSSVR(kernels.Matern(SIGMA, nu), C=10.0).fit(X, y)

    def value(inputs, S):
        kernel = kernels.Matern(dropped(SIGMA, S, np.arange(4)), nu)
        return (kernel(inputs, X) @ model.dual_coef_)[:, None]

    new = np.vstack([DRAW.normal(size=(9, 4)), X[:3]])  # also at the points, where the kernel has its kink
    accuracy = 1e-6 * np.abs(model.dual_coef_).sum()
    found = diagnose.shapley(model, new).contributions[:, :, None]
    np.testing.assert_allclose(found, centred(value, new, X, 4), atol=accuracy)


def test_shapley_values_of_a_table_have_one_factor_per_column():
    table, targets = frame()
    table = table.drop(columns="key")
    model = LSSVR(kernels.RBF([1.0, 2.0, 0.7, 3.0]), C=20.0).fit(table, targets)
    encoded, sources = encoded_rows(model, table), model.fitted_.layout.sources

    def value(X, S):
        kernel = kernels.RBF(dropped(model.kernel_.sigma, S, sources))
        return kernel(X, model.support_vectors_) @ model.dual_coef_

    found = diagnose.shapley(model, table)
    np.testing.assert_allclose(found.contributions, centred(value, encoded, encoded, 4), atol=1e-10)
    assert found.names == list(table.columns)


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.RBF(2.0),
        kernels.RBF([1.0, 2.0, np.inf, 3.0]),
        kernels.RBF([np.inf] * 4),
        kernels.Linear(),
        kernels.Spline(4),
        kernels.Additive(kernels.Matern(2.0)),
        kernels.Additive(kernels.RBF(SIGMA), groups=[[0, 1, 3], [2], [3, 2]]),
        kernels.Additive(kernels.Linear() + kernels.RBF(SIGMA), active=[0, 2]),
        kernels.RBF(SIGMA) + kernels.Linear() + kernels.RBF([1.0, np.inf, np.inf, np.inf]),
        kernels.Matern([np.inf, 1.0, np.inf, np.inf]),
        kernels.Stack([kernels.RBF(1.0), kernels.Linear(), kernels.Spline(3)]),
    ],
    ids=repr,
)
def test_contributions_and_base_add_up_to_the_prediction(kernel, monkeypatch):
    monkeypatch.setattr(contributions, "_share_out", lambda found, gap: found)  # of the rounding errors
    model = LSSVR(kernel, C=10.0).fit(X, BOTH)
    new = DRAW.normal(size=(20, 4))
    found = diagnose.shapley(model, new)
    np.testing.assert_allclose(found.base + found.contributions.sum(axis=1), model.predict(new), atol=1e-10)
    np.testing.assert_allclose(found.base, model.predict(X).mean(axis=0), atol=1e-10)
    unused = ~diagnose.columns_used(model)
    np.testing.assert_allclose(found.contributions[:, unused], 0.0, atol=1e-12)


def test_columns_that_play_the_same_part_contribute_the_same():
    rows = np.column_stack([X[:, :2], X[:, 0]])
    model = LSSVR(kernels.RBF([2.0, 1.0, 2.0]), C=10.0).fit(rows, y)
    found = diagnose.shapley(model, rows)
    rounding = np.finfo(float).eps * len(rows) * np.abs(model.dual_coef_).sum()
    np.testing.assert_allclose(found.contributions[:, 0], found.contributions[:, 2], atol=rounding)


def test_contributions_of_additive_models_are_their_components():
    model = LSSVR(kernels.Additive(kernels.RBF(1.0)), C=20.0).fit(X, y)
    np.testing.assert_allclose(diagnose.shapley(model, X).contributions, model.components(X), atol=1e-11)
    linear = LSSVR(kernels.Linear(), C=20.0).fit(X, y)
    slopes = linear.support_vectors_.T @ linear.dual_coef_
    found = diagnose.shapley(linear, X)
    np.testing.assert_allclose(found.contributions, slopes * (X - X.mean(axis=0)), atol=1e-11)


@pytest.mark.parametrize("labels", [LABELS, LABELS > 0], ids=["three", "two"])
def test_contributions_to_decision_values(labels):
    model = LSSVC(kernels.RBF(2.0), C=5.0, loss="logistic", coding="one-vs-rest").fit(X, labels)
    found = diagnose.shapley(model, X)
    np.testing.assert_allclose(found.base + found.contributions.sum(axis=1), model.decision_function(X), atol=1e-10)
    assert (found.error == 0.0).all()


def test_contributions_add_up_although_coefficients_are_large():
    """A wide kernel and a large C: predictions of about 1 are sums of terms of about 1e8."""
    model = LSSVR(kernels.RBF(50.0), C=1e10).fit(X, y)
    assert np.abs(model.dual_coef_).max() > 1e7
    found = diagnose.shapley(model, X)
    scale = np.abs(found.contributions).sum(axis=1).max() + abs(found.base)
    np.testing.assert_allclose(found.base + found.contributions.sum(axis=1), model.predict(X), atol=1e-14 * scale)


def test_many_columns_lose_no_digits():
    """Columns that are constant in the data change nothing: 60 factors give the contributions of 3."""
    rows = np.ones((60, 60))
    rows[:, ::20] = X[:, :3]
    few = diagnose.shapley(LSSVR(kernels.RBF(1.5), C=1e3).fit(X[:, :3], y), X[:, :3])
    many = diagnose.shapley(LSSVR(kernels.RBF(1.5), C=1e3).fit(rows, y), rows)
    np.testing.assert_allclose(many.contributions[:, ::20], few.contributions, atol=1e-10)
    np.testing.assert_array_equal(np.delete(many.contributions, [0, 20, 40], axis=1), 0.0)


@pytest.mark.parametrize("model", [LSSVR(kernels.Polynomial(3)), LSSVR(kernels.RBF(2.0), target="log")], ids=repr)
def test_estimated_shapley_values_average_over_the_training_rows(model):
    """With two columns, an order and its reverse are all orders, so that only rounding errors are left."""
    model = model.set_params(C=5.0).fit(X[:, :2], np.exp(y))
    new = DRAW.normal(size=(7, 2))

    def value(S):
        mixed = [np.where(np.isin([0, 1], S), row, X[:, :2]) for row in new]
        return np.array([[model.predict(rows).mean()] for rows in mixed])

    found = diagnose.shapley(model, new, permutations=120)
    np.testing.assert_allclose(found.contributions, over_all_subsets(value, 2)[0][:, :, 0], atol=1e-10)
    assert found.base == pytest.approx(model.predict(X[:, :2]).mean(), rel=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        LSSVR(kernels.RBF(2.0), C=5.0, loss="poisson"),
        LSSVC(kernels.RBF(2.0), C=5.0, coding="one-vs-one"),
        LSSVC(kernels.Stack([kernels.RBF(2.0), kernels.Linear()]), C=5.0),
    ],
    ids=["poisson", "pairs", "stack"],
)
def test_estimated_shapley_values_add_up_and_lie_within_their_errors(model):
    model.fit(X, LABELS)
    few, many = (diagnose.shapley(model, X[:4], permutations=count) for count in (40, 240))
    response = model.predict_proba if isinstance(model, LSSVC) else model.predict
    np.testing.assert_allclose(few.base + few.contributions.sum(axis=1), response(X[:4]), atol=1e-9)
    distance = (few.contributions - many.contributions) / np.hypot(few.error, many.error)
    assert (few.error > 0.0).all()
    assert 0.5 < np.sqrt(np.mean(distance**2)) < 1.5


def test_shapley_values_need_columns_and_several_orders():
    with pytest.raises(ValueError, match="a precomputed kernel has no columns"):
        diagnose.shapley(LSSVR(kernels.Precomputed(), C=1.0).fit(X @ X.T, y), X @ X.T)
    with pytest.raises(ValueError, match="permutations must be at least 4, got 1"):
        diagnose.shapley(LSSVR(kernels.RBF(1.0), C=1.0).fit(X, y), X, permutations=1)
