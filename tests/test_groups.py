"""Groups of rows: what `fit` leaves out together, against refits without each group."""

import warnings

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lssvm
from lssvm import LSSVC, LSSVR, diagnose, kernels, robust, sparsify, tune
from lssvm.estimators import planning
from lssvm.intervals.jackknife import order_statistic
from lssvm.problem import Problem, held_out_rows
from lssvm.report.verdict import Predictions, constant_predictions
from lssvm.tune.leave_one_out import residuals_of_folds

N = 60
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]) + 0.1 * DRAW.normal(size=N), X[:, 1] ** 2])
GROUPS = np.array(["g", "a", "f", "b", "e", "c", "d"])[DRAW.integers(0, 7, N)]  # of unequal sizes
WEIGHTS = DRAW.uniform(0.5, 2.0, N)
BASIS = X[:20] + 0.0
NEW = DRAW.normal(size=(9, 2))
KERNEL = kernels.RBF(1.3)


def refitted(model, y, weights=None, method="predict"):
    """Predictions of every row, in the form of `method`, by a model that is fitted without its group."""
    found = None
    for name in np.unique(GROUPS):
        out = name == GROUPS
        model.fit(X[~out], y[~out], sample_weight=None if weights is None else weights[~out])
        part = getattr(model, method)(X[out])
        found = np.empty((N, *part.shape[1:]), part.dtype) if found is None else found
        found[out] = part
    return found


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize("C", [5.0, 1e8])
@pytest.mark.parametrize("basis", ["rows", "points", "wide"])
def test_residuals_are_those_of_refits(basis, C, weights):
    points = {"rows": None, "points": BASIS, "wide": np.vstack([X, NEW])}[basis]
    model = LSSVR(KERNEL, C=C, steps=() if points is None else [sparsify.Given(points)])
    expected = Y - refitted(model, Y, weights)
    model.fit(X, Y, sample_weight=weights, groups=GROUPS)
    tolerance = 1e-9 if C < 1e3 else 1e-6  # refits lose digits as well
    assert_allclose(model.loo_residuals_, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
    assert_allclose(model.loo_predictions_, Y - model.loo_residuals_)
    v = np.ones(N) if weights is None else weights
    assert_allclose(model.press_, np.sum(v @ model.loo_residuals_**2))


def test_fast_and_careful_residuals_agree():
    """The search solves all groups of one size together; the fit refactorises where digits are lost."""
    problem = Problem(KERNEL, X, Y, WEIGHTS, C=50.0, row_groups=np.unique(GROUPS, return_inverse=True)[1])
    for part in (problem, problem.with_basis(points=BASIS)):
        for every in (False, True):
            system = part.factorise(every=every).system
            careful = system.solution(0.02).loo_residuals
            assert_allclose(system.solution(0.02, careful=False).loo_residuals, careful, rtol=1e-8, atol=1e-10)
            if every:
                path = np.concatenate([block for _, block in system.loo_path([0.02, 0.2])])
                assert_allclose(path[:, 0], careful, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("basis", [None, BASIS, np.vstack([X, NEW])], ids=["rows", "points", "wide"])
def test_gradient_of_the_criterion(basis, classes):
    y = np.where(Y.mean(axis=0) < Y, 1.0, -1.0) if classes else Y
    problem = Problem(
        KERNEL, X, y, WEIGHTS, classification=classes, row_groups=np.unique(GROUPS, return_inverse=True)[1]
    )
    problem = problem if basis is None else problem.with_basis(points=basis)

    def criterion(logs):
        factor = problem.replace(kernel=kernels.RBF(np.exp(logs[:2])), C=float(np.exp(logs[2]))).factorise()
        return factor.criterion(classes=classes)

    at = np.log([1.3, 0.8, 7.0])
    _, in_widths, in_C = criterion(at)
    moves = 1e-5 * np.eye(3)
    slopes = [(criterion(at + move)[0] - criterion(at - move)[0]) / 2e-5 for move in moves]
    assert_allclose([*in_widths[0], in_C], slopes, rtol=1e-5, atol=1e-7)


def test_groups_of_single_rows_are_leave_one_out():
    sparse = LSSVR(kernels.Matern(), steps=[sparsify.Random(15, random_state=0)])
    for model in (LSSVR(kernels.RBF(), robust="huber"), sparse):
        alone = model.fit(X, Y[:, 0]).predict(NEW), model.loo_residuals_, model.predict_interval(NEW)
        model.fit(X, Y[:, 0], groups=np.arange(N))
        found = model.predict(NEW), model.loo_residuals_, model.predict_interval(NEW)
        for own, other in zip(found, alone, strict=True):
            assert_allclose(own, other, rtol=1e-5, atol=1e-5)


def test_c_minimises_the_error_of_groups():
    model = LSSVR(KERNEL).fit(X, Y, groups=GROUPS)
    units = Y.std(axis=0)  # outputs count alike
    errors = []
    for factor in (0.8, 1.0, 1.25):
        loo = LSSVR(KERNEL, C=factor * model.C_).fit(X, Y, groups=GROUPS).loo_residuals_
        errors.append(np.sum((loo / units) ** 2))
    assert np.argmin(errors) == 1
    assert_allclose(model.path_.loo, np.mean(np.sum(model.loo_residuals_**2, axis=1)))


def test_widths_minimise_the_error_of_groups():
    """A column that identifies the group predicts other rows of the group, but not other groups."""
    draw = np.random.default_rng(1)
    groups = np.repeat(np.arange(20), 8)
    inputs = np.column_stack([draw.normal(size=20)[groups], draw.uniform(-2, 2, 160)])
    y = np.sin(inputs[:, 1]) + draw.normal(size=20)[groups] + 0.1 * draw.normal(size=160)
    alone = LSSVR(kernels.RBF(ard=True)).fit(inputs, y)
    model = LSSVR(kernels.RBF(ard=True)).fit(inputs, y, groups=groups)
    assert model.kernel_.sigma[0] > 3.0 * alone.kernel_.sigma[0]
    again = LSSVR(alone.kernel_, C=alone.C_).fit(inputs, y, groups=groups)
    assert model.press_ < 0.7 * again.press_
    problem = model.fitted_.problem
    assert np.array_equal(problem.subset(np.array([3, 1, 80])).row_groups, problem.row_groups[[3, 1, 80]])


def test_scales_of_inputs_are_judged_by_groups(monkeypatch):
    def judge(problem, X):
        assert np.array_equal(problem.row_groups, np.unique(GROUPS, return_inverse=True)[1])
        raise InterruptedError  # the search itself is not of interest

    monkeypatch.setattr(planning, "is_better_scaled", judge)
    with pytest.raises(InterruptedError):
        LSSVR().fit(np.exp(2.0 * X), Y[:, 0], groups=GROUPS)


def test_a_stack_and_its_weights():
    """The weights depend on leave-group-out residuals, of which those of the stack are the average."""
    model = LSSVR().fit(X, Y[:, 0], groups=GROUPS)
    parts = [own.loo_residuals_ for own in model.members_]
    assert_allclose(model.loo_residuals_, model.stack_weights_ @ parts)
    first = model.members_[0]
    fixed = LSSVR(first.kernel_, C=first.C_)
    assert_allclose(parts[0], Y[:, 0] - refitted(fixed, Y[:, 0]), rtol=1e-7, atol=1e-8)


def test_rows_without_weight_are_predicted_without_their_group():
    weights = np.where(np.arange(N) % 6 == 1, 0.0, WEIGHTS)
    expected = Y - refitted(LSSVR(KERNEL, C=5.0), Y, weights)
    inside = weights > 0
    model = LSSVR(KERNEL, C=5.0).fit(X, Y, sample_weight=weights, groups=GROUPS)
    assert_allclose(model.loo_residuals_[inside], expected[inside], rtol=1e-9, atol=1e-11)
    # rows that a step gives no weight belong to their groups; rows that never had any belong to none
    numbers = np.unique(GROUPS, return_inverse=True)[1]
    fit = Problem(KERNEL, X, Y, weights, C=5.0, row_groups=numbers).solve()
    assert_allclose(fit.loo_residuals, expected, rtol=1e-9, atol=1e-11)
    missing = np.where(inside, GROUPS.astype(object), None)
    again = LSSVR(KERNEL, C=5.0).fit(X, Y, sample_weight=weights, groups=missing)
    assert_allclose(again.loo_residuals_, model.loo_residuals_)


def test_models_on_columns_of_the_kkt_system():
    steps = [sparsify.InversePrune(0.5)]
    model = LSSVC(KERNEL, C=5.0, steps=steps).fit(X, Y[:, 0] > 0, groups=GROUPS)
    problem = model.fitted_.problem
    for name in np.unique(GROUPS):
        out = np.flatnonzero(name == GROUPS)
        found = problem.factorise().block_residuals([out], model.C_)
        assert_allclose(model.loo_residuals_[out], found[out, 0], rtol=1e-9, atol=1e-11)


# Classes --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [2, 3])
def test_decision_values_and_probabilities_of_classes(count):
    y = np.digitize(Y[:, 0], [0.0] if count == 2 else [-0.4, 0.4])
    model = LSSVC(KERNEL, C=5.0, loss="squared", coding="one-vs-rest")
    expected = refitted(model, y, WEIGHTS, "decision_function")
    model.fit(X, y, sample_weight=WEIGHTS, groups=GROUPS)
    coded = np.where(y == 1, 1.0, -1.0) if count == 2 else np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    assert_allclose(coded - model.loo_residuals_, expected, rtol=1e-9, atol=1e-9)
    winners = expected > 0 if count == 2 else np.argmax(expected, axis=1)
    assert np.array_equal(model.loo_predictions_, winners)
    assert model.predict_set(NEW).any(axis=1).all()


def test_calibration_uses_groups_also_with_copies():
    """Whole weights count copies of a row; leave-one-out leaves out one copy, leave-group-out all of them."""
    y = (Y[:, 0] > 0).astype(int)
    model = LSSVC(KERNEL, C=5.0)
    copies = np.where(np.arange(N) % 2, 1.0, 2.0)
    weighted = model.fit(X, y, sample_weight=copies, groups=GROUPS).predict_proba(NEW)
    rows = np.repeat(np.arange(N), copies.astype(int))
    repeated = model.fit(X[rows], y[rows], groups=GROUPS[rows]).predict_proba(NEW)
    assert_allclose(weighted, repeated, rtol=1e-6)
    assert not np.allclose(weighted, model.fit(X, y, sample_weight=copies).predict_proba(NEW), rtol=1e-3)


def test_classifiers_choose_least_squares_with_groups():
    y = Y[:, 0] > 0
    model = LSSVC().fit(X, y, groups=GROUPS)
    assert (model.loss_, model.coding_) == ("squared", "one-vs-rest")
    assert model.path_.loo > 0
    with pytest.raises(ValueError, match=r"groups are left out for the squared loss only.*loss='squared'"):
        LSSVC(loss="logistic").fit(X, y, groups=GROUPS)


# Intervals ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("basis", [(), [sparsify.Given(BASIS)]], ids=["rows", "points"])
def test_intervals_are_those_of_models_without_groups(basis):
    model = LSSVR(KERNEL, C=5.0, steps=basis)
    predictions, y = np.empty((9, N)), Y[:, 0]
    residuals = y - refitted(model, y)
    for name in np.unique(GROUPS):
        out = name == GROUPS
        predictions[:, out] = model.fit(X[~out], y[~out]).predict(NEW)[:, None]
    model.fit(X, y, groups=GROUPS)
    found = model.predict_interval(NEW, 0.8, "jackknife+")
    low = order_statistic(predictions - np.abs(residuals), 12)  # of 61
    assert_allclose(found[:, 0], low, rtol=1e-8, atol=1e-9)
    alone = LSSVR(KERNEL, C=5.0, steps=basis).fit(X, y)
    assert_allclose(found, alone.predict_interval(NEW, 0.8, "jackknife+", groups=GROUPS), rtol=1e-9)
    with pytest.raises(ValueError, match=r"method='full' leaves out single rows.*'auto'"):
        model.predict_interval(NEW, method="full")
    with pytest.raises(ValueError, match=r"coverage_path leaves out pairs of rows.*coverage_by_group"):
        diagnose.coverage_path(model)


def test_searches_that_are_repeated_leave_out_whole_groups():
    """Searches are repeated without three folds for errors and intervals, and without five for weights of stacks."""
    draw = np.random.default_rng(3)
    inputs = draw.normal(size=(40, 9))
    groups = np.arange(40) // 4
    y = inputs[:, 0] + 0.1 * draw.normal(size=40)
    model = LSSVR(kernels.RBF(ard=True)).fit(inputs, y, groups=groups)
    for count in (3, 5, 40):
        parts = model.fitted_.problem.parts(count)
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(40))
        assert len(parts) == min(count, 10)
        assert all(len(np.intersect1d(groups[part], groups[np.setdiff1d(np.arange(40), part)])) == 0 for part in parts)
    assert np.isfinite(model.predict_interval(inputs[:3], 0.5)).all()
    known = model.fitted_.problem.replace(kernel=KERNEL, C=5.0, asked=(KERNEL, 5.0), fitted=None)
    expected = known.factorise().block_residuals(known.parts(5), 5.0)
    assert_allclose(
        residuals_of_folds([known, known], known.parts(5), stacked=True)[1], expected, rtol=1e-8, atol=1e-10
    )


def test_searches_are_repeated_with_two_groups_only():
    """Without one of them, a single group is left, whose rows are left out one by one."""
    draw = np.random.RandomState(2)
    inputs, groups = draw.uniform(-1, 1, (40, 3)), np.arange(40) // 20
    y = inputs[:, 0] + draw.normal(0, 0.3, 40)
    model = LSSVR(kernels.RBF(ard=True)).fit(inputs, y, groups=groups)
    assert np.isfinite(diagnose.scores(model)["rmse"])
    assert np.isfinite(model.predict_interval(inputs[:3], 0.5)).all()


def test_the_size_of_the_noise_is_that_without_groups():
    model = LSSVR(KERNEL, C=5.0).fit(X, Y[:, 0], groups=GROUPS)
    model.predict_interval(NEW, method="adaptive")
    noise = model.fitted_.scale[1].model
    numbers = [np.flatnonzero(name == GROUPS) for name in np.unique(GROUPS)]
    expected = noise.factor.system.block_residuals(numbers, 1.0 / noise.fit.C)
    assert_allclose(noise.residuals, expected, rtol=1e-8, atol=1e-10)


def test_coverage_by_group():
    noisy = X[:, 0] > 0
    y = Y[:, 0] + np.where(noisy, 1.0, 0.05) * np.random.default_rng(2).normal(size=N)
    model = LSSVR(KERNEL, C=5.0).fit(X, y)
    region = np.where(noisy, "noisy", "quiet")
    found = diagnose.coverage_by_group(model, groups=region)
    assert list(found.group) == ["noisy", "quiet"]
    assert np.array_equal(found.count, [noisy.sum(), N - noisy.sum()])
    whole = diagnose.interval_coverage(model, [0.9])
    assert_allclose(found.count @ found.observed / N, whole.observed[0, 0])
    assert np.all((found.low <= found.observed) & (found.observed <= found.high))
    other = diagnose.coverage_by_group(model, NEW, NEW[:, 0], groups=NEW[:, 1] > 0)
    ends = model.predict_interval(NEW)
    inside = (ends[:, 0] <= NEW[:, 0]) & (NEW[:, 0] <= ends[:, 1])
    assert_allclose(other.observed, [inside[NEW[:, 1] <= 0].mean(), inside[NEW[:, 1] > 0].mean()])
    with pytest.raises(ValueError, match="coverage_by_group: give groups, one label per row"):
        diagnose.coverage_by_group(model)
    own = diagnose.coverage_by_group(LSSVR(KERNEL, C=5.0).fit(X, y, groups=GROUPS))
    assert np.array_equal(own.count, np.unique(GROUPS, return_counts=True)[1])


# Other parts of the library -------------------------------------------------------------------------------------------
def test_metadata_routing():
    y = Y[:, 0]
    with sklearn.config_context(enable_metadata_routing=True):
        cv = GroupKFold(3)
        plain = cross_val_score(LSSVR(KERNEL), X, y, params={"groups": GROUPS}, cv=cv)
        expected = []
        for train, test in cv.split(X, y, GROUPS):
            expected.append(LSSVR(KERNEL).fit(X[train], y[train], groups=GROUPS[train]).score(X[test], y[test]))
        assert_allclose(plain, expected)
        pipeline = make_pipeline(StandardScaler(), LSSVR(KERNEL, C=5.0))
        assert np.isfinite(cross_val_score(pipeline, X, y, params={"groups": GROUPS}, cv=cv)).all()
        search = GridSearchCV(LSSVR(C=5.0), {"kernel": [KERNEL, kernels.Linear()]}, cv=cv).fit(X, y, groups=GROUPS)
        chosen = search.best_estimator_
        assert_allclose(chosen.loo_residuals_, chosen.fit(X, y, groups=GROUPS).loo_residuals_)
        ignoring = LSSVR(KERNEL).set_fit_request(groups=False)
        assert not np.array_equal(cross_val_score(ignoring, X, y, params={"groups": GROUPS}, cv=cv), plain)
    scaled = make_pipeline(StandardScaler(), LSSVR(KERNEL, C=5.0)).fit(X, y, lssvr__groups=GROUPS)
    assert scaled[-1].fitted_.problem.row_groups is not None


def test_files_keep_the_groups(tmp_path):
    for model, y in ((LSSVR(KERNEL), Y[:, 0]), (LSSVC(KERNEL), Y[:, 0] > 0)):
        model.fit(X, y, groups=GROUPS)
        lssvm.save(model, tmp_path / "m.lssvm")
        loaded = lssvm.load(tmp_path / "m.lssvm")
        assert_allclose(loaded.loo_residuals_, model.loo_residuals_, rtol=0, atol=0)
        if y.dtype == float:
            assert_allclose(loaded.predict_interval(NEW), model.predict_interval(NEW), rtol=1e-12)
            assert np.array_equal(diagnose.coverage_by_group(loaded).count, diagnose.coverage_by_group(model).count)


@pytest.mark.parametrize("step", [tune.KFold(3), tune.Holdout(0.3)])
def test_steps_hold_out_whole_groups(step):
    numbers = np.unique(GROUPS, return_inverse=True)[1]
    problem = Problem(KERNEL, X, Y, np.ones(N), row_groups=numbers)
    for part in step._parts(problem):
        assert not set(GROUPS[part]) & set(np.delete(GROUPS, part))
    assert len(np.unique(numbers[held_out_rows(problem, 0.5, 0)])) in (3, 4)
    assert LSSVR(KERNEL, steps=[step]).fit(X, Y, groups=GROUPS).C_ > 0


@pytest.mark.parametrize("step", [sparsify.Prune(10), sparsify.Prune(10, rows="drop"), sparsify.Learned(8)])
def test_sparse_models(step):
    model = LSSVR(KERNEL, C=5.0, steps=[step]).fit(X, Y[:, 0], groups=GROUPS)
    problem = model.fitted_.problem
    numbers = [np.flatnonzero(name == GROUPS) for name in np.unique(GROUPS)]
    expected = problem.replace(row_groups=None).factorise().block_residuals(numbers, model.C_)
    assert_allclose(model.loo_residuals_, expected[:, 0], rtol=1e-8, atol=1e-10)
    if getattr(step, "rows", "") == "keep":  # sizes are compared by groups
        assert_allclose(model.path_.scores[-1], np.mean(model.loo_residuals_**2))


def test_learned_points_are_judged_by_other_groups(monkeypatch):
    seen, descend = [], sparsify.Learned._descend

    def spy(self, known, requested, C, held, rest):
        seen.append((held, rest))
        return descend(self, known, requested, C, held, rest)

    monkeypatch.setattr(sparsify.Learned, "_descend", spy)
    LSSVR(KERNEL, C=5.0, steps=[sparsify.Learned(8, steps=2, random_state=0)]).fit(X, Y[:, 0], groups=GROUPS)
    ((held, rest),) = seen
    assert_array_equal(np.sort(np.concatenate([held, rest])), np.arange(N))
    assert not set(GROUPS[held]) & set(GROUPS[rest])


def test_robust_weights():
    y = Y[:, 0] + 5.0 * (np.arange(N) == 7)
    model = LSSVR(KERNEL, C=5.0, robust=robust.Hampel()).fit(X, y, groups=GROUPS)
    expected = y - refitted(LSSVR(KERNEL, C=5.0), y, model.weights_)
    assert_allclose(model.loo_residuals_, expected, rtol=1e-8, atol=1e-9)


def test_torch():
    torch = pytest.importorskip("torch")
    for steps in ((), [sparsify.Given(BASIS)]):
        steps = [sparsify.Given(torch.tensor(BASIS))] if steps else ()
        plain = LSSVR(KERNEL, C=5.0, steps=[sparsify.Given(BASIS)] if steps else ()).fit(X, Y, groups=GROUPS)
        model = LSSVR(KERNEL, C=5.0, steps=steps).fit(torch.tensor(X), torch.tensor(Y), groups=GROUPS)
        assert_allclose(model.loo_residuals_.numpy(), plain.loo_residuals_, rtol=1e-9, atol=1e-11)
    model = LSSVR(kernels.RBF()).fit(torch.tensor(X), torch.tensor(Y[:, 0]), groups=torch.arange(N) // 6)
    assert_allclose(model.C_, LSSVR(kernels.RBF()).fit(X, Y[:, 0], groups=np.arange(N) // 6).C_, rtol=1e-3)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (GROUPS[:5], r"groups=.*give one label per training row \(60 rows\)"),
        (np.zeros(N), "groups holds only one distinct label"),
        (np.where(np.arange(N) == 3, np.nan, 1.0 * (np.arange(N) % 4)), "groups has no label in row 3"),
        ("patient", "groups='patient': give one label per training row"),
        (np.array([1, "a"] * (N // 2), dtype=object), "groups has labels of different types .*'int'.*: convert them"),
    ],
)
def test_labels_that_are_refused(groups, message):
    with pytest.raises((TypeError, ValueError), match=message):
        LSSVR(KERNEL, C=5.0).fit(X, Y, groups=groups)


def test_fits_that_cannot_leave_out_groups():
    dask = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"groups need rows in memory.*fit on an array"):
        LSSVR(KERNEL, C=5.0).fit(dask.from_array(X), dask.from_array(Y), groups=GROUPS)


def test_rows_cannot_be_added():
    model = LSSVR(KERNEL, C=5.0).fit(X, Y, groups=GROUPS)
    before = model.predict(NEW)
    with pytest.raises(ValueError, match="partial_fit cannot add rows to a model that was fitted with groups"):
        model.partial_fit(X, Y)
    assert np.array_equal(model.predict(NEW), before)


def test_a_step_that_leaves_one_group():
    groups = np.arange(N) == 0
    with pytest.raises(ValueError, match=r"groups: all of \d+ rows are of one group: use smaller groups"):
        LSSVR(KERNEL, C=5.0, steps=[sparsify.Prune(5, rows="drop")]).fit(X, Y[:, 0], groups=groups)


@pytest.mark.parametrize("robust", [None, "huber"])
def test_the_constant_of_the_report(robust):
    """The model is compared with the mean or median of the other groups."""
    own = Predictions("own", "absolute" if robust else "squared", Y, Y, WEIGHTS, np.arange(N), np.ones((N, 1)))
    found = constant_predictions(own, GROUPS).predicted
    rest = GROUPS[0] != GROUPS
    expected = np.median(Y[rest], axis=0) if robust else WEIGHTS[rest] @ Y[rest] / WEIGHTS[rest].sum()
    assert_allclose(found[0], expected)


@pytest.mark.slow
def test_the_report_names_groups():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, y in ((LSSVR(KERNEL), Y[:, 0]), (LSSVC(KERNEL), Y[:, 0] > 0)):
            page = lssvm.report.to_html(model.fit(X, y, groups=GROUPS))
            assert "fitted without its group" in page
            assert "leaves out the whole group of each row" in page
