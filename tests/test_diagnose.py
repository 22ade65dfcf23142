"""What a model knows about itself, against refits, scikit-learn's metrics and plain counts."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import calibration_curve
from sklearn.exceptions import NotFittedError
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    log_loss,
    mean_absolute_error,
    precision_score,
    r2_score,
    recall_score,
    root_mean_squared_error,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from stacking import stack_of

from lssvm import LSSVC, LSSVR, datasets, diagnose, kernels, sparsify
from lssvm.cli.models import model_facts

KERNEL = kernels.RBF(sigma=13.0)
X, y = (a[::4] for a in datasets.load_motorcycle(return_X_y=True))
WEIGHTS = np.random.RandomState(0).uniform(0.5, 2.0, len(y))
RIPLEY, LABELS = (a[::5] for a in datasets.load_ripley(return_X_y=True))


@pytest.mark.parametrize("basis", ["rows", "fewer", "two outputs"])
def test_coverage_equals_intervals_of_refits_without_the_row(basis):
    points = X[::3] if basis == "fewer" else X
    targets = np.column_stack([y, y**2 / 50]) if basis == "two outputs" else y
    steps = [sparsify.Given(points)] if basis == "fewer" else ()
    model = LSSVR(KERNEL, C=50.0, steps=steps).fit(X, targets, WEIGHTS)
    found = diagnose.coverage_path(model, (0.6, 0.9))
    for level, coverage in enumerate((0.6, 0.9)):
        inside, width = [], []
        for i in range(len(y)):
            others = np.arange(len(y)) != i
            refit = LSSVR(KERNEL, C=50.0, steps=[sparsify.Given(points)])
            refit.fit(X[others], targets[others], WEIGHTS[others])
            low, high = refit.predict_interval(X[i : i + 1], coverage, "jackknife+")[0]
            inside.append((low <= targets[i]) & (targets[i] <= high))
            width.append(high - low)
        np.testing.assert_allclose(found.observed[level], np.mean(inside, axis=0))
        np.testing.assert_allclose(found.width[level], np.mean(width, axis=0), rtol=1e-7)
    np.testing.assert_array_equal(found.rows, np.arange(len(y)))


@pytest.mark.slow
def test_coverage_of_a_stack_equals_refits_without_pairs_of_rows():
    """f without rows i and j is the average of the members without them; the weights of the members are held fixed."""
    rows, targets, shares = X[::2], y[::2], (0.3, 0.7)
    both = (KERNEL, kernels.Linear())
    stack = stack_of([LSSVR(kernel, C=50.0).fit(rows, targets) for kernel in both], shares)
    found = diagnose.coverage_path(stack, (0.8,))
    n = len(rows)
    low, high = np.empty((n, n - 1)), np.empty((n, n - 1))
    for i in range(n):
        for place, j in enumerate(np.delete(np.arange(n), i)):
            others = np.delete(np.arange(n), [i, j])
            fits = [LSSVR(kernel, C=50.0, steps=[sparsify.Given(rows)]) for kernel in both]
            f = [fit.fit(rows[others], targets[others]).predict(rows[[i, j]]) for fit in fits]
            own, other = np.average(f, axis=0, weights=shares)
            size = abs(targets[j] - other)
            low[i, place], high[i, place] = own - size, own + size
    low, high = np.sort(low)[:, int(0.2 * n) - 1], np.sort(high)[:, math.ceil(0.8 * n) - 1]
    assert found.observed[0] == np.mean((low <= targets) & (targets <= high))
    assert found.width[0] == pytest.approx(np.mean(high - low), rel=1e-7)


def test_what_belongs_to_one_member_of_a_stack_points_to_the_members():
    stack = stack_of([LSSVR(kernel, C=50.0).fit(X, y) for kernel in (KERNEL, kernels.Linear())], [0.5, 0.5])
    for function in (diagnose.c_path, diagnose.width_surface):
        with pytest.raises(ValueError, match=r"not for a stack: give a member, e\.g\. model\.members_\[0\]"):
            function(stack)
    np.testing.assert_array_equal(diagnose.basis_points(stack), X)


def test_points_of_members_are_counted_once():
    few = [LSSVR(KERNEL, C=50.0, steps=[sparsify.Given(X[start : start + 9])]).fit(X, y) for start in (0, 4)]
    points = diagnose.basis_points(stack_of(few, [0.5, 0.5]))
    np.testing.assert_array_equal(points, np.unique(X[:13], axis=0))


def test_unit_vectors_of_a_linear_member_are_not_counted():
    table = np.column_stack([X, X**2])
    dense = LSSVR(KERNEL, C=50.0).fit(table, y)
    linear = LSSVR(kernels.Linear(), C=1.0, steps=[sparsify.Given(np.eye(2))]).fit(table, y)
    stack = stack_of([dense, linear], [0.5, 0.5])
    np.testing.assert_array_equal(diagnose.basis_points(stack), table)
    assert model_facts(stack)["support vectors"] == len(table)
    np.testing.assert_array_equal(diagnose.basis_points(linear), np.eye(2))


def test_components_of_a_stack():
    draw = np.random.RandomState(0)
    inputs = draw.uniform(-1, 1, (60, 3))
    targets = np.sin(3 * inputs[:, 0]) + inputs[:, 1] + 0.1 * draw.normal(size=60)
    smooth, rough = (
        kernels.Additive(kernels.Spline(5), active=[0, 1]),
        kernels.Additive(kernels.RBF(1.0), active=[2, 1]),
    )
    stack = stack_of([LSSVR(kernel, C=5.0).fit(inputs, targets) for kernel in (smooth, rough)], [0.4, 0.6])
    assert diagnose.kept_components(stack) == {0: [0], 1: [1], 2: [2]}
    rest = stack.predict(inputs) - stack.components(inputs).sum(axis=1)
    np.testing.assert_allclose(rest, rest[0], rtol=1e-10)
    labels = targets > 0
    classes = stack_of([LSSVC(kernel, C=5.0).fit(inputs, labels) for kernel in (smooth, rough)], [0.4, 0.6])
    with pytest.raises(AttributeError) as refused:
        classes.components(inputs)
    assert "are not sums of components" in str(refused.value.__cause__)
    joint = LSSVR(kernels.Additive(kernels.RBF(1.0), groups=[[0, 1], [2]]), C=5.0).fit(inputs, targets)
    with pytest.raises(AttributeError) as refused:
        stack_of([stack.members_[0], joint], [0.4, 0.6]).components(inputs)
    assert "components of different columns" in str(refused.value.__cause__)


def test_coverage_of_a_sample_of_rows_and_of_too_few_rows():
    model = LSSVR(KERNEL, C=50.0).fit(X, y)
    found = diagnose.coverage_path(model, (0.9, 0.99), rows=10)
    assert len(found.rows) == 10
    assert found.observed[1] == 1.0
    assert found.width[1] == np.inf  # 34 rows cannot cover 99 %


def test_path_of_C_is_that_of_refits():
    model = LSSVR(KERNEL, C=50.0).fit(X, y, WEIGHTS)
    values, errors = diagnose.c_path(model, decades=2.0, n_values=5)
    np.testing.assert_allclose(values, 50.0 * np.logspace(-2, 2, 5))
    for C, error in zip(values, errors, strict=True):
        refit = LSSVR(KERNEL, C=C).fit(X, y, WEIGHTS)
        assert error == pytest.approx(np.sqrt(refit.press_ / WEIGHTS.sum()), rel=1e-8)


def test_path_of_C_of_several_outputs_is_the_rmse_of_scores():
    model = LSSVR(KERNEL, C=50.0).fit(X, np.column_stack([y, y**2 / 50]))
    _, errors = diagnose.c_path(model, n_values=3)
    assert errors[1] == pytest.approx(diagnose.scores(model)["rmse"], rel=1e-8)


def test_path_of_C_of_classes_is_what_chooses_it():
    model = LSSVC(KERNEL, loss="squared").fit(X, y > np.median(y))
    _, losses = diagnose.c_path(model, decades=1.0, n_values=21)
    assert np.argmin(losses) == 10
    assert losses[10] == pytest.approx(model.path_.loo, rel=1e-8)


def test_path_of_C_keeps_robust_weights():
    model = LSSVR(KERNEL, C=50.0, robust="hampel").fit(X, y)
    _, errors = diagnose.c_path(model, n_values=3)
    assert errors[1] == pytest.approx(np.sqrt(model.press_ / model.weights_.sum()), rel=1e-8)


def test_scores_are_those_of_scikit_learn():
    model = LSSVR(KERNEL, C=50.0).fit(X, y)
    scores = diagnose.scores(model)
    assert scores["rmse"] == pytest.approx(root_mean_squared_error(y, model.loo_predictions_))
    assert scores["mae"] == pytest.approx(mean_absolute_error(y, model.loo_predictions_))
    assert scores["r2"] == pytest.approx(r2_score(y, model.loo_predictions_))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_left_out_probabilities_and_their_scores(n_classes):
    labels = LABELS if n_classes == 2 else np.where(RIPLEY[:, 0] > 0.3, "far", np.where(LABELS > 0, "up", "down"))
    model = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(RIPLEY, labels)
    probability, codes = diagnose.loo_probabilities(model)
    np.testing.assert_array_equal(model.classes_[codes], labels)
    np.testing.assert_array_equal(model.classes_[np.argmax(probability, axis=1)], model.loo_predictions_)
    scores = diagnose.scores(model)
    assert scores["error_rate"] == np.mean(model.loo_predictions_ != labels)
    assert scores["log_loss"] == pytest.approx(log_loss(labels, probability))
    brier = np.mean(np.sum((probability - (labels[:, None] == model.classes_)) ** 2, axis=1))
    assert scores["brier"] == pytest.approx(brier)


def test_left_out_values_of_chunks_are_those_of_the_whole():
    basis = [sparsify.Given(RIPLEY[:15])]
    for estimator, targets in ((LSSVC, LABELS), (LSSVR, RIPLEY[:, 0] + LABELS)):
        whole = estimator(kernels.RBF(sigma=0.5), C=5.0, steps=basis).fit(RIPLEY, targets)
        halves = estimator(kernels.RBF(sigma=0.5), C=5.0, steps=basis)
        halves.fit_chunks([(RIPLEY[:20], targets[:20]), (RIPLEY[20:], targets[20:])])
        expected, found = diagnose.loo_values(whole), diagnose.loo_values(halves)
        np.testing.assert_allclose(found.actual, expected.actual)
        np.testing.assert_allclose(found.predicted, expected.predicted, atol=1e-8)


@pytest.mark.parametrize("robust", [None, "hampel"])
def test_a_sample_tells_what_the_rows_tell(robust):
    """All rows are in the sample: scores and coverage are those of the whole, in another order of the rows."""
    weight = np.arange(len(y)) % 3.0
    model = LSSVR(KERNEL, C=1.0, steps=[sparsify.Given(X[:40])], robust=robust)
    whole = clone(model).fit(X, y, weight)
    models = [clone(model).fit_chunks([(X, y, weight)], leave_one_out="press")]
    if robust is None:
        models.append(clone(model).partial_fit(X[:20], y[:20], weight[:20]).partial_fit(X[20:], y[20:], weight[20:]))
    expected, counts = diagnose.loo_values(whole), weight > 0
    for sampled in models:
        found = diagnose.loo_values(sampled)
        assert found.sampled
        assert found.total == len(y)
        order, other = np.argsort(expected.predicted[counts, 0]), np.argsort(found.predicted[:, 0])
        for name in ("actual", "predicted", "weights", "robust", "leverage"):
            mine, theirs = getattr(found, name)[other], getattr(expected, name)[counts][order]
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-8, err_msg=name)
        every, some = diagnose.coverage_path(whole), diagnose.coverage_path(sampled)
        np.testing.assert_allclose(some.observed, every.observed)
        np.testing.assert_allclose(some.width, every.width, rtol=1e-7)


def test_reliability_is_the_calibration_curve_of_scikit_learn():
    rng = np.random.RandomState(0)
    p = rng.uniform(size=200)
    codes = (rng.uniform(size=200) < p).astype(int)
    found = diagnose.reliability(np.column_stack([1 - p, p]), codes, n_bins=5)
    observed, predicted = calibration_curve(codes, p, n_bins=5, strategy="quantile")
    np.testing.assert_allclose(found.predicted, predicted)
    np.testing.assert_allclose(found.observed, observed)
    assert found.count.tolist() == [40] * 5
    assert np.all((found.low < found.observed) & (found.observed < found.high))


def test_reliability_of_many_classes_is_that_of_the_named_class():
    probability = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8], [0.5, 0.4, 0.1]])
    found = diagnose.reliability(probability, np.array([0, 1, 0, 1]), n_bins=2)
    np.testing.assert_allclose(found.predicted, [0.55, 0.75])
    np.testing.assert_allclose(found.observed, [0.5, 0.5])


def test_inverse_widths_are_spread_over_widths():
    columns = np.column_stack([X[:, 0], 10 * X[:, 0] ** 2])
    model = LSSVR(kernels.RBF(sigma=[5.0, np.inf]), C=1.0).fit(columns, y)
    np.testing.assert_allclose(diagnose.inverse_widths(model), [np.std(X[:, 0]) / 5.0, 0.0])
    with pytest.raises(ValueError, match="has no widths"):
        diagnose.inverse_widths(LSSVR(kernels.Linear(), C=1.0).fit(X, y))


def test_a_very_wide_kernel_leaves_no_column_out():
    """Widths of thousands of spreads with a C that makes up for them give a linear function of the columns."""
    draw = np.random.default_rng(1)
    inputs = draw.normal(size=(90, 3))
    model = LSSVR(kernels.RBF(2e4 * inputs.std(axis=0)), C=1e12).fit(inputs, 2.0 * inputs[:, 2])
    assert diagnose.columns_used(model)[2]
    moved = inputs + np.eye(3)[2]
    np.testing.assert_allclose(model.predict(moved) - model.predict(inputs), 2.0, rtol=1e-2)


@pytest.mark.parametrize(
    "function",
    [
        diagnose.beats_constant,
        diagnose.c_path,
        lambda model: diagnose.class_codes(model, y),
        diagnose.columns_used,
        diagnose.coverage_path,
        diagnose.feature_names,
        diagnose.inverse_widths,
        diagnose.loo_values,
        diagnose.loo_probabilities,
        diagnose.scores,
        diagnose.width_surface,
    ],
)
def test_what_is_not_a_model_is_refused_by_name(function):
    for other, message in (
        (None, "model must be a fitted LSSVR or LSSVC, got None"),
        (3, "got int"),
        (LSSVC, "model=LSSVC is a class: give a fitted instance"),
        (make_pipeline(LSSVR(KERNEL, C=1.0)).fit(X, y), r"model is a Pipeline: .*pipeline\[-1\]"),
        (GridSearchCV(LSSVR(KERNEL), {"C": [1.0]}, cv=2).fit(X, y), "got GridSearchCV: .*best_estimator_"),
    ):
        with pytest.raises(TypeError, match=message):
            function(other)
    with pytest.raises(NotFittedError):
        function(LSSVR())


def test_what_is_not_known_is_said():
    with pytest.raises(NotFittedError):
        diagnose.loo_values(LSSVR())
    with pytest.raises(ValueError, match="no leave-one-out values"):
        diagnose.loo_values(LSSVR(KERNEL, C=1.0, steps=[sparsify.Adaline(final_solve=False)]).fit(X, y))
    with pytest.raises(ValueError, match="needs the training rows"):
        diagnose.c_path(LSSVR(KERNEL, C=1.0).partial_fit(X, y))
    with pytest.raises(ValueError, match="has no classes"):
        diagnose.loo_probabilities(LSSVR(KERNEL, C=1.0).fit(X, y))
    with pytest.raises(ValueError, match="one C only"):
        diagnose.c_path(LSSVR(KERNEL, C=1.0, steps=[sparsify.InversePrune()]).fit(X, y))
    classifier = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(RIPLEY, LABELS)
    with pytest.raises(ValueError, match="predict_proba"):
        diagnose.coverage_path(classifier)
    with pytest.raises(ValueError, match="not among the classes"):
        diagnose.class_codes(classifier, [3])


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "logistic"])
@pytest.mark.parametrize("coding", ["one-vs-one", "one-vs-rest"])
def test_every_coding_and_loss_is_diagnosed(coding, loss):
    labels = np.where(RIPLEY[:, 0] > 0.3, 2, LABELS)
    model = LSSVC(kernels.RBF(sigma=0.5), C=5.0, loss=loss, coding=coding).fit(RIPLEY, labels)
    rows = diagnose.loo_values(model)
    np.testing.assert_array_equal(rows.actual, np.where(labels[:, None] == model.classes_, 1.0, -1.0))
    np.testing.assert_allclose(rows.residuals, model.loo_residuals_, atol=1e-12)
    np.testing.assert_array_equal(rows.robust, 1.0)
    probability, codes = diagnose.loo_probabilities(model)
    np.testing.assert_array_equal(model.classes_[codes], labels)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probability.argmax(axis=1)], model.loo_predictions_)
    scores = diagnose.scores(model)
    assert scores["log_loss"] == pytest.approx(log_loss(labels, probability))
    if coding == "one-vs-one":
        np.testing.assert_allclose(probability, (rows.predicted + 1) / 2)
        searched = LSSVC(kernels.RBF(sigma=0.5), loss=loss, coding=coding).fit(RIPLEY, labels)
        assert diagnose.scores(searched)["log_loss"] == pytest.approx(searched.path_.loo, rel=1e-6)
    assert diagnose.beats_constant(model)
    assert diagnose.inverse_widths(model).shape == (2,)
    assert diagnose.columns_used(model).all()
    if (coding, loss) == ("one-vs-rest", "squared"):
        assert len(diagnose.c_path(model)[0]) == 41
        return
    for function in (diagnose.c_path, diagnose.width_surface):
        with pytest.raises(diagnose.NotKnown, match="is defined for loss='squared', coding='one-vs-rest'"):
            function(model)


@pytest.mark.parametrize("way", ["fit", "fit_chunks", "partial_fit"])
def test_scores_weigh_rows_by_sample_weights_as_given(way):
    given = np.where(np.arange(len(y)) % 3 == 0, 0.0, WEIGHTS)
    model = LSSVR(KERNEL, C=50.0, steps=[sparsify.Given(X[::3])], robust=None if way == "partial_fit" else "hampel")
    getattr(model, way)(*([[(X, y, given)]] if way == "fit_chunks" else [X, y, given]))
    rows = diagnose.loo_values(model)
    score = diagnose.scores(model)
    w = rows.given
    assert w.sum() == pytest.approx(given.sum())
    assert score["rmse"] == pytest.approx(root_mean_squared_error(rows.actual, rows.predicted, sample_weight=w))
    assert score["mae"] == pytest.approx(mean_absolute_error(rows.actual, rows.predicted, sample_weight=w))
    assert score["r2"] == pytest.approx(r2_score(rows.actual, rows.predicted, sample_weight=w))
    np.testing.assert_allclose(rows.weights, w * rows.robust)
    without = clone(model).fit(X[given > 0], y[given > 0], given[given > 0])
    assert score == pytest.approx(diagnose.scores(without), rel=1e-7)


@pytest.mark.parametrize("way", ["fit", "fit_chunks", "partial_fit"])
def test_scores_of_classes_weigh_rows_but_not_classes(way):
    draw = np.random.RandomState(1)
    given = draw.uniform(0.0, 2.0, len(LABELS)) * (draw.uniform(size=len(LABELS)) > 0.3)
    model = LSSVC(kernels.RBF(0.5), C=5.0, steps=[sparsify.Given(RIPLEY[::4])], class_weight={-1: 1.0, 1: 4.0})
    getattr(model, way)(*([[(RIPLEY, LABELS, given)]] if way == "fit_chunks" else [RIPLEY, LABELS, given]))
    probability, codes = diagnose.loo_probabilities(model)
    score, w = diagnose.scores(model), diagnose.loo_values(model).given
    assert w.sum() == pytest.approx(given.sum())
    assert score["log_loss"] == pytest.approx(log_loss(codes, probability, sample_weight=w))
    wrong = probability.argmax(axis=1) != codes
    assert score["error_rate"] == pytest.approx(w[wrong].sum() / w.sum())
    always = w[codes == 0].sum() / w.sum()
    chance = log_loss(codes, np.tile([always, 1 - always], (len(codes), 1)), sample_weight=w)
    assert diagnose.relative_log_loss(model) == pytest.approx(score["log_loss"] / chance)
    informative = score["error_rate"] < min(always, 1 - always) or score["log_loss"] < 0.9 * chance
    assert diagnose.beats_constant(model) == informative


def rare_rows(n=400):
    """Labels of which one in 20 is rare, and at most a third where it is most frequent."""
    draw = np.random.RandomState(0)
    inputs = draw.normal(size=(n, 2))
    chance = 0.4 / (1.0 + np.exp(4.0 - 4.0 * inputs[:, 0] * inputs[:, 1]))
    return inputs, np.where(draw.uniform(size=n) < chance, "rare", "usual"), draw.uniform(0.5, 2.0, n)


def test_a_rare_class_is_judged_at_several_thresholds():
    inputs, labels, given = rare_rows()
    given[::7] = 0.0
    model = LSSVC(kernels.RBF(1.0), C=1.0).fit(inputs, labels, given)
    found, p = diagnose.rare_class(model), diagnose.loo_probabilities(model)[0][:, 0]
    own, weighted = labels == "rare", {"sample_weight": given}
    assert (found.code, found.share) == (0, pytest.approx(given[own].sum() / given.sum()))
    assert found.average_precision == pytest.approx(average_precision_score(own, p, **weighted))
    f1 = []
    for level, threshold in enumerate(found.threshold):
        named = p >= threshold
        recall, precision = recall_score(own, named, **weighted), precision_score(own, named, **weighted)
        assert found.recall[level] == pytest.approx(recall)
        assert found.precision[level] == pytest.approx(precision)
        assert found.named[level] == pytest.approx(np.average(named, weights=given))
        f1.append(f1_score(own, named, **weighted))
    assert f1[found.best] == max(f1)
    assert found.best > 0
    facts = model_facts(model)
    assert facts["rare class"] == "rare"
    assert facts["decision threshold"] == found.threshold[found.best]
    assert facts["leave-one-out recall"] == found.recall[found.best]


def test_the_best_threshold_has_the_least_cost():
    """Of right probabilities, 1/(1 + k) has the least expected cost of k per missed row and 1 per false alarm."""
    p = np.random.RandomState(0).uniform(size=20_000) ** 3
    for k, threshold in zip((1, 3, 9, 19, 99), diagnose.rare_class(rare_model()).threshold, strict=True):
        costs = [np.mean(np.where(p >= t, 1 - p, k * p)) for t in (threshold / 1.2, threshold, threshold * 1.2)]
        assert costs[1] == min(costs)


def rare_model():
    inputs, labels, _ = rare_rows()
    return LSSVC(kernels.RBF(1.0), C=1.0).fit(inputs, labels)


def test_classes_that_are_not_rare():
    assert diagnose.rare_class(LSSVC(kernels.RBF(0.5), C=5.0).fit(RIPLEY, LABELS)) is None
    many = np.arange(len(RIPLEY)) % 12  # none has a tenth of the rows, but all are of the same size
    model = LSSVC(kernels.RBF(0.5), C=5.0).fit(RIPLEY, many)
    assert diagnose.rare_class(model) is None
    assert not diagnose.beats_constant(model)


def test_informative_probabilities_beat_a_constant_that_is_right_as_often():
    inputs, labels, _ = rare_rows()
    model = LSSVC(kernels.RBF(1.0), C=0.1).fit(inputs, labels)
    assert diagnose.scores(model)["error_rate"] >= np.mean(labels == "rare")
    assert diagnose.beats_constant(model)


def test_rows_that_pruning_dropped_count_in_the_scores():
    model = LSSVR(KERNEL, C=50.0, steps=[sparsify.Prune(10, rows="drop")]).fit(X, y, WEIGHTS)
    assert (model.weights_ == 0).sum() == len(y) - 10
    expected = np.sqrt(np.average(model.loo_residuals_**2, weights=WEIGHTS))
    assert diagnose.scores(model)["rmse"] == pytest.approx(expected)


def test_reliability_of_weighted_rows_is_that_of_copies():
    draw = np.random.RandomState(0)
    p = np.sort(draw.uniform(size=40))
    codes, copies = (draw.uniform(size=40) < p).astype(int), np.repeat([1, 3], 20)
    weighted = diagnose.reliability(np.column_stack([1 - p, p]), codes, 2, copies)
    for bin, rows in enumerate((slice(0, 20), slice(20, 40))):
        one = diagnose.reliability(np.column_stack([1 - p, p])[rows], codes[rows], 1)
        for name in ("predicted", "observed", "low", "high"):
            assert weighted[name][bin] == pytest.approx(one[name][0])
    mixed = diagnose.reliability(np.column_stack([1 - p, p]), codes, 1, copies)
    assert mixed.observed[0] == pytest.approx(np.average(codes, weights=copies))


@pytest.mark.parametrize(("old", "new"), diagnose.RENAMED.items())
def test_names_of_the_first_version_still_work_and_warn(old, new):
    with pytest.warns(FutureWarning, match=new):
        assert getattr(diagnose, old) is getattr(diagnose, new)
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = diagnose.other
