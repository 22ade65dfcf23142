"""Tables as they are: categories, ranks and missing cells, against explicit columns and between kinds of frames."""

import re
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from lssvm import LSSVC, LSSVR, diagnose, export, kernels, load, save, sparsify
from lssvm.problem import Problem
from lssvm.tables.encoding import HEIGHT, Column, Columns
from lssvm.tune.criteria import LooError, LooLogLoss
from lssvm.tune.widths import Candidate, WidthSearch

N = 120
rng = np.random.default_rng(0)
CITY = rng.choice(["Bern", "Oslo", "Rome", "Wien"], N)
X1, X2 = rng.standard_normal((2, N))
Y = np.sin(2 * X1) + np.where(CITY == "Rome", 1.5, 0.0) - np.where(CITY == "Oslo", X2, 0.0) + 0.1 * rng.normal(size=N)
LABELS = np.where(Y > 0, "up", "down")
FRAME = pd.DataFrame({"a": X1, "city": CITY, "b": X2})
ONE_HOT = np.column_stack([X1, *(HEIGHT * (city == CITY) for city in np.unique(CITY)), X2])
GROUPS = np.array([0, 1, 1, 1, 1, 2])
KEYS = [f"row {k}" for k in range(N)]


def holed(frame=FRAME):
    """The frame with missing cells in a number and in the category."""
    frame = frame.copy()
    frame.loc[::9, "a"] = np.nan
    frame.loc[::7, "city"] = None
    return frame


# Categories equal one-hot columns with one width ----------------------------------------------------------------------
@pytest.mark.parametrize("kernel", [kernels.RBF, kernels.Matern])
def test_a_category_has_distance_one(kernel):
    widths = [0.8, 1.7, 2.5]
    model = LSSVR(kernel(widths), C=3.0).fit(FRAME, Y)
    explicit = LSSVR(kernel(np.array(widths)[GROUPS]), C=3.0).fit(ONE_HOT, Y)
    assert_allclose(model.predict(FRAME), explicit.predict(ONE_HOT), rtol=1e-10)
    assert_allclose(model.loo_residuals_, explicit.loo_residuals_, rtol=1e-10)
    square = ((X1[:, None] - X1) / 0.8) ** 2 + ((X2[:, None] - X2) / 2.5) ** 2 + (CITY[:, None] != CITY) / 1.7**2
    scale = -np.sqrt(3 * square)
    K = np.exp(-square) if kernel is kernels.RBF else (1 - scale) * np.exp(scale)
    direct = LSSVR(kernels.Precomputed(), C=3.0).fit(K, Y)
    assert_allclose(model.loo_residuals_, direct.loo_residuals_, rtol=1e-10)


@pytest.mark.parametrize("names", [["Paris"], ["Bern", "Oslo", "Rome", "Wien"]])
def test_unknown_and_missing_values_have_distance_one(names):
    cells = pd.DataFrame({"city": [*names, *names]})
    columns = Columns.of(cells, "from_dtype")
    columns = columns.fitted(columns.read(cells))
    rows = columns.encode(columns.read(pd.DataFrame({"city": [*names, "Kiel", None]})))
    square = ((rows[:, None] - rows) ** 2).sum(axis=2)
    assert_allclose(square[-1, :-2], 1.0)  # a missing cell, where fit saw none
    assert_allclose(square[:-1, :-1], 1.0 - np.eye(len(names) + 1), atol=1e-15)


def test_a_missing_category_is_a_value():
    frame = holed()
    named = frame.fillna({"city": "missing"})
    given = {"kernel": kernels.RBF(1.3), "C": 2.0}
    expected = LSSVR(**given).fit(named, Y).predict(named)
    assert_allclose(LSSVR(**given).fit(frame, Y).predict(frame), expected, rtol=1e-10)


def test_a_missing_number_is_the_median_and_an_indicator():
    frame = holed()[["a", "b"]]
    missing = frame["a"].isna().to_numpy()
    spread = frame["a"].std(ddof=0)
    explicit = np.column_stack([frame["a"].fillna(frame["a"].median()), spread * missing, X2])
    given = LSSVR(kernels.Matern([0.7, 1.1]), C=2.0).fit(frame, Y)
    expected = LSSVR(kernels.Matern([0.7, 0.7, 1.1]), C=2.0).fit(explicit, Y)
    assert_allclose(given.loo_residuals_, expected.loo_residuals_, rtol=1e-10)
    new = pd.DataFrame({"a": [np.nan], "b": [np.nan]})  # b has no indicator
    middle = [[frame["a"].median(), spread, frame["b"].median()]]
    assert_allclose(given.predict(new), expected.predict(middle), rtol=1e-10)


def test_the_medians_of_many_columns_are_computed_together():
    """One call per column takes seconds with tens of thousands of columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 500))
    X[3, 5] = np.nan
    calls, usual = [], np.median
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "median", lambda *cells, **options: calls.append(1) or usual(*cells, **options))
        found = Columns(tuple(map(Column, range(500)))).fitted(list(X.T))
    assert len(calls) == 2  # also that of the column with a missing cell
    assert_array_equal([column.median for column in found.columns], np.nanmedian(X, axis=0))
    assert [column.height > 0 for column in found.columns] == [number == 5 for number in range(500)]


def test_ordered_categories_are_ranks():
    rng = np.random.default_rng(1)
    sizes = ["small", "medium", "large", "huge"]  # no row is huge
    ranks = rng.integers(0, 3, N)
    frame = FRAME[["a"]].assign(size=pd.Categorical.from_codes(ranks, sizes, ordered=True))
    given = {"kernel": kernels.RBF([0.7, 1.5]), "C": 2.0}
    expected = LSSVR(**given).fit(np.column_stack([X1, ranks]), Y)
    model = LSSVR(**given).fit(frame, Y)
    assert_array_equal(model.predict(frame), expected.predict(np.column_stack([X1, ranks])))
    new = pd.DataFrame({"a": [0.0], "size": pd.Categorical(["huge"], sizes, ordered=True)})
    assert_array_equal(model.predict(new), expected.predict([[0.0, 3.0]]))
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    for table in (arrow, arrow.to_batches()[0]):
        assert_array_equal(LSSVR(**given).fit(table, Y).predict(table), model.predict(frame))


def test_the_columns_of_a_record_batch_have_names():
    batch = pytest.importorskip("pyarrow").RecordBatch.from_pandas(FRAME[["a"]].assign(b=Y))
    model = LSSVR(kernels.RBF(1.0), 1.0).fit(batch, Y)
    chunks = LSSVR(kernels.RBF(1.0), 1.0, steps=[sparsify.Random(5, random_state=0)]).fit_chunks([(batch, Y)])
    for fitted in (model, chunks):
        assert fitted.feature_names_in_.tolist() == ["a", "b"]
        with pytest.raises(ValueError, match="feature names"):
            fitted.predict(batch.select(["b", "a"]))


# The search for widths ------------------------------------------------------------------------------------------------
def problem(kernel, **options):
    return Problem(kernel, ONE_HOT, Y[:, None], np.ones(N), asked=(kernel, None), groups=GROUPS, **options)


@pytest.mark.parametrize(
    "kernel", [kernels.RBF(ard=True), kernels.Matern(ard=True) + kernels.RBF(), kernels.Additive(kernels.RBF(ard=True))]
)
def test_the_gradient_of_the_search_is_that_of_tied_widths(kernel):
    rng = np.random.default_rng(1)
    parts = problem(kernel)
    start = Candidate(kernel.with_width(2.0, parts.spreads.values), 3.0)
    search = WidthSearch(LooError(parts, parts.spreads.values, Bunch(evaluations=0)), kernel, start, many=True)
    point = rng.uniform(-0.5, 0.5, search.count + 1)
    assert search.count == 3 + (len(kernel.leaves) - 1)  # the second leaf has a common width
    gradient = search.objective(point)[1]
    difference = check_grad(lambda x: search.objective(x)[0], lambda x: search.objective(x)[1], point)
    assert difference < 1e-5 * np.linalg.norm(gradient)


def test_the_gradient_of_the_search_of_classes_is_that_of_tied_widths():
    rng = np.random.default_rng(1)
    codes = np.sort(rng.integers(0, 3, N))
    coded = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    kernel = kernels.RBF(np.array([1.0, 2.0, 3.0])[GROUPS], ard=True)
    classes = Problem(kernel, ONE_HOT, coded, np.ones(N), classification=True, groups=GROUPS)
    criterion = LooLogLoss(classes, np.ones(6))
    start = Candidate(kernel, 3.0, "one-vs-rest", "squared")
    search = WidthSearch(criterion, kernels.RBF(ard=True), start, many=True)
    start = rng.uniform(-0.3, 0.3, 4)
    gradient = search.objective(start)[1]
    assert len(gradient) == 4
    difference = check_grad(lambda x: search.objective(x)[0], lambda x: search.objective(x)[1], start)
    assert difference < 1e-3 * np.linalg.norm(gradient)  # the slope is found to three digits


@pytest.mark.parametrize(("estimator", "y"), [(LSSVR, Y), (LSSVC, LABELS)])
def test_chosen_widths_are_tied(estimator, y):
    model = estimator(kernels.RBF(ard=True)).fit(holed(), y)
    widths = model.kernel_.sigma
    assert_array_equal(widths[[0, 2, 2, 2, 2]], widths[[1, 3, 4, 5, 6]])
    assert model.n_features_in_ == 3
    assert_array_equal(model.feature_names_in_, ["a", "city", "b"])


def test_the_spread_of_a_group_is_half_the_mean_squared_distance():
    square = np.mean(((ONE_HOT[:, None, 1:5] - ONE_HOT[None, :, 1:5]) ** 2).sum(axis=2))
    assert_allclose(problem(kernels.RBF()).spreads.values[1:5], np.sqrt(square / 2))


def test_columns_are_dropped_together():
    rng = np.random.default_rng(1)
    noise = rng.choice(["x", "y", "z"], N)
    frame = pd.DataFrame({"a": X1, "noise": noise, "hole": np.where(rng.random(N) < 0.2, np.nan, X2)})
    model = LSSVR(kernels.RBF(ard=True)).fit(frame, np.sin(3 * X1) + 0.1 * rng.normal(size=N))
    assert_array_equal(np.isinf(model.kernel_.sigma), [False, True, True, True, True, True])


def test_learned_points_keep_widths_tied():
    model = LSSVR(kernels.RBF(ard=True), steps=[sparsify.Learned(10, random_state=0)]).fit(FRAME, Y)
    assert len(set(model.kernel_.sigma[1:5])) == 1


def test_additive_models_have_one_component_per_column():
    frame = holed()
    model = LSSVR(kernels.Additive(kernels.RBF())).fit(frame, Y)
    parts = model.components(frame)
    assert parts.shape == (N, 3)
    assert len(np.unique(parts[:, 1].round(9))) == 5  # four cities, and missing cells
    gap = model.predict(frame) - parts.sum(axis=1)
    assert_allclose(gap, gap[0])
    joined = LSSVR(kernels.Additive(kernels.RBF(), groups=[[0, 2], [1]])).fit(frame, Y)
    assert joined.kernel_.groups == [[0, 1, 7], [2, 3, 4, 5, 6]]
    assert diagnose.columns_used(model).all()


# Kinds of tables ------------------------------------------------------------------------------------------------------
def kinds_of_frames():
    """The same table with missing cells in every kind of frame and array."""
    frame = holed()
    yield frame
    yield frame.astype({"city": "category"})
    yield frame.astype({"city": "string", "a": "Float64"})
    yield frame.astype({"city": object})
    yield frame.astype({"city": pd.CategoricalDtype([*"xyz", *np.unique(CITY)])})  # values without rows
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    cells = {name: [None if pd.isna(cell) else cell for cell in frame[name]] for name in frame}
    if hasattr(StandardScaler().fit(pl.DataFrame({"a": [1.0, 2.0]})), "feature_names_in_"):  # not 1.6 with polars 2
        yield pl.DataFrame(cells)
        yield pl.DataFrame(cells).with_columns(pl.col("city").cast(pl.Categorical))
        yield pl.DataFrame(cells).with_columns(pl.col("city").cast(pl.Enum(np.unique(CITY).tolist())))
    yield pa.table(cells)
    yield pa.table({**cells, "city": pa.array(cells["city"]).dictionary_encode()})


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "y"), [(LSSVR, Y), (LSSVC, LABELS)])
def test_all_kinds_of_frames_give_the_same_model(estimator, y):
    array = holed().to_numpy(dtype=object)
    model = estimator(categorical_features=[1]).fit(array, y)
    expected = model.predict(array)
    for asked in ([False, True, False], np.array([1])):
        assert_array_equal(estimator(categorical_features=asked).fit(array, y).predict(array), expected)
    for frame in kinds_of_frames():
        other = estimator().fit(frame, y)
        assert_array_equal(other.predict(frame), expected)
        assert_array_equal(other.predict(holed()), expected)
    named = estimator(categorical_features=["city"]).fit(holed(), y)
    assert_array_equal(named.predict(holed()), expected)


@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("estimator", "y"), [(LSSVR, Y), (LSSVC, LABELS)])
def test_frames_of_numbers_equal_arrays(estimator, y, missing):
    """Bit for bit: predictions and leave-one-out values."""
    frame = FRAME[["a", "b"]].assign(c=X1 > 0, d=(10 * X2).astype(int))
    frame.loc[::7, "a"] = np.nan if missing else 0.0
    array = frame.to_numpy(dtype=float)
    expected = estimator().fit(array, y)
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    cells = {name: [None if pd.isna(cell) else cell for cell in frame[name].tolist()] for name in frame}
    kinds = [frame, frame.astype({"a": "Float64", "c": "boolean", "d": "Int64"}), frame.astype({"d": object})]
    for other in (*kinds, pl.DataFrame(cells), pa.table(cells)):
        model = estimator().fit(other, y)
        assert_array_equal(model.predict(other), expected.predict(array))
        assert_array_equal(model.loo_residuals_, expected.loo_residuals_)


def test_numbers_can_be_categories():
    rng = np.random.default_rng(1)
    digits = rng.integers(0, 3, N)
    frame = FRAME[["a"]].assign(digit=digits)
    text = FRAME[["a"]].assign(digit=digits.astype(str))
    model = LSSVR(categorical_features=["digit"]).fit(frame, Y)
    assert_array_equal(model.predict(frame), LSSVR().fit(text, Y).predict(text))
    assert_array_equal(model.predict(frame.astype(float)), model.predict(frame))


def test_tensors_with_missing_cells():
    torch = pytest.importorskip("torch")
    array = holed()[["a", "b"]].to_numpy().copy()
    tensor = torch.as_tensor(array)
    model = LSSVR(kernels.RBF(1.0), C=1.0)
    expected = clone(model).fit(array, Y).predict(array)
    assert_allclose(clone(model).fit(tensor, torch.as_tensor(Y)).predict(tensor).numpy(), expected, rtol=1e-10)


def test_rows_of_weight_zero_do_not_count():
    frame = pd.concat([holed(), pd.DataFrame({"a": [99.0], "city": ["Kiel"], "b": [np.nan]})], ignore_index=True)
    weights = np.append(np.ones(N), 0.0)
    model = LSSVR(kernels.RBF(), C=1.0).fit(frame, np.append(Y, 7.0), weights)
    expected = LSSVR(kernels.RBF(), C=1.0).fit(holed(), Y)
    assert_array_equal(model.predict(holed()), expected.predict(holed()))


# Chunks, files --------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_chunks_of_frames_equal_a_fit():
    frame, points = holed(), [2, 30, 41, 77]
    whole = LSSVR(kernels.RBF(1.0), C=5.0).fit(frame, Y)
    basis = sparsify.Given(whole.support_vectors_[points])
    model = LSSVR(kernels.RBF(1.0), C=5.0, steps=[basis])
    expected = LSSVR(kernels.RBF(1.0), C=5.0, steps=[sparsify.Given(points)]).fit(frame, Y)
    parts = [(frame[:50], Y[:50]), (frame[50:], Y[50:])]
    pa, dd = pytest.importorskip("pyarrow"), pytest.importorskip("dask.dataframe")
    table = pa.Table.from_pandas(frame.assign(y=Y), preserve_index=False)
    lazy, targets = dd.from_pandas(frame, npartitions=3), dd.from_pandas(pd.Series(Y), npartitions=3)
    for found in (
        clone(model).fit_chunks(parts),
        clone(model).fit_chunks((frame, Y)),
        clone(model).fit_chunks(table, target="y"),
        clone(model).fit(lazy, targets),
        clone(model).partial_fit(frame, Y),
    ):
        assert_allclose(found.predict(frame), expected.predict(frame), rtol=1e-8)
        assert_allclose(found.predict(lazy).compute(), expected.predict(frame), rtol=1e-8)


def test_chunks_that_change_are_noticed():
    passes = []

    def chunks():
        passes.append(1)
        yield FRAME.assign(b=X2 if len(passes) % 2 else X2[::-1]), Y

    with pytest.raises(ValueError, match="not the same as in the first pass"):
        LSSVR(kernels.RBF(1.0), C=1.0).fit_chunks(chunks)


def test_chunks_of_bad_frames():
    model = LSSVR(kernels.RBF(1.0), C=1.0, steps=[sparsify.Random(10, random_state=0)]).fit_chunks((FRAME, Y))
    expected = model.predict(FRAME)
    for frame, pattern in (
        (FRAME.assign(city=1.0), r"column 'city' contains text and numbers, e.g. \[1.0, '\w+'\]"),
        (FRAME.assign(b="x"), r"chunk 1: X: column 'b' contains values that are not numeric"),
        (FRAME[["city", "a", "b"]], "chunk 1: The feature names should match"),
        (FRAME.set_axis(["a", "city", "a"], axis=1), r"chunk 1: X has several columns with the name 'a'"),
    ):
        with pytest.raises(ValueError, match=pattern):
            model.fit_chunks([(FRAME, Y), (frame, Y)])
        assert_array_equal(model.predict(FRAME), expected)  # nothing is lost
    with pytest.raises(ValueError, match=r"^X has several columns with the name 'a'"):
        model.fit_chunks((FRAME.set_axis(["a", "city", "a"], axis=1), Y))
    with pytest.raises(ValueError, match="column 'b' has no values"):
        model.fit_chunks((FRAME.assign(b=np.nan), Y))
    with pytest.raises(ValueError, match="column 'city' contained text in fit, but now contains numbers"):
        clone(model).partial_fit(FRAME, Y).partial_fit(FRAME.assign(city=1.0), Y)


def test_chunks_of_classes():
    """Unknown and missing values, by a model file and by Dask."""
    dd = pytest.importorskip("dask.dataframe")
    frame, given = holed(), {"kernel": kernels.RBF(1.0), "C": 5.0, "loss": "squared", "coding": "one-vs-rest"}
    expected = LSSVC(**given, steps=[sparsify.Given([2, 30, 41, 77])]).fit(frame, LABELS)
    basis = sparsify.Given(expected.support_vectors_)
    model = LSSVC(**given, steps=[basis]).fit_chunks([(frame[:70], LABELS[:70]), (frame[70:], LABELS[70:])])
    rows = new_rows().drop(columns="size")
    assert_allclose(model.decision_function(rows), expected.decision_function(rows), rtol=1e-8)
    assert_array_equal(model.predict(dd.from_pandas(rows, npartitions=2)).compute(), expected.predict(rows))


def new_rows():
    """Rows with unknown and missing values, and with values of all cities."""
    frame = pd.concat([holed()[:20], pd.DataFrame({"a": [0.1], "city": ["Kiel"], "b": [np.nan]})], ignore_index=True)
    return frame.assign(size=pd.Categorical(["s", "l", None] * 7, ["s", "m", "l"], ordered=True))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # of polars 2 for scikit-learn 1.6
@pytest.mark.parametrize(
    ("model", "y"),
    [
        pytest.param(LSSVR(), Y, marks=pytest.mark.slow),
        (LSSVC(), LABELS),
        (LSSVR(kernels.Additive(kernels.RBF(ard=True))), Y),
        (LSSVR(kernels.RBF(), categorical_features=["city", "size"]), Y),
    ],
)
def test_files(model, y, tmp_path):
    rng = np.random.default_rng(1)
    frame = holed().assign(size=pd.Categorical(rng.choice(["s", "m", "l"], N), ["s", "m", "l"], ordered=True))
    model = clone(model).fit(frame, y)
    save(model, tmp_path / "model.lssvm")
    same = load(tmp_path / "model.lssvm")
    assert_array_equal(same.predict(new_rows()), model.predict(new_rows()))
    assert_array_equal(same.feature_names_in_, model.feature_names_in_)
    if isinstance(model, LSSVR):
        assert_array_equal(same.predict_interval(new_rows()), model.predict_interval(new_rows()))
    else:
        assert_array_equal(same.predict_proba(new_rows()), model.predict_proba(new_rows()))
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for rows in (polars.from_pandas(new_rows()), arrow.Table.from_pandas(new_rows(), preserve_index=False)):
        assert_array_equal(same.predict(rows), model.predict(new_rows()))


@pytest.mark.parametrize(("model", "y"), [(LSSVR(), Y), (LSSVC(), LABELS), (LSSVR(kernels.Additive(kernels.RBF())), Y)])
@pytest.mark.filterwarnings("ignore:X. column 'key' is ignored:UserWarning")
@pytest.mark.filterwarnings("ignore:X. column 'size' contains .*, which is none of its ordered:UserWarning")
def test_export(model, y):
    frame = holed().assign(size=pd.Categorical([*"smllm"] * (N // 5), ["s", "m", "l"], ordered=True))
    model = clone(model).set_params(categorical_features="from_dtype").fit(frame.assign(key=KEYS), y)
    module = {}
    exec(export.to_python(model), module)
    rows = new_rows().assign(key="new")
    cells = rows.astype(object).to_dict("records")
    found = [module["predict"](row) for row in cells]
    assert found[:3] == [module["predict"](list(row.values())) for row in cells[:3]]
    if isinstance(model, LSSVR):
        assert_allclose(found, model.predict(rows), rtol=1e-9)
    else:
        assert_array_equal(found, model.predict(rows))
        assert_allclose([module["predict_proba"](row) for row in cells], model.predict_proba(rows), rtol=1e-9)
    with pytest.raises(ValueError, match="Column 'city' is 3: give a text"):
        module["predict"]({**cells[0], "city": 3})
    with pytest.raises(ValueError, match="Column 'b' is inf"):
        module["predict"]({**cells[0], "b": np.inf})
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(export.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {"a": rows[["a"]], "city": rows[["city"]].fillna(""), "b": rows[["b"]]}
    feed["size"] = rows[["size"]].astype(object).fillna("")
    (found,) = session.run([session.get_outputs()[0].name], {name: cells.to_numpy() for name, cells in feed.items()})
    if isinstance(model, LSSVR):
        assert_allclose(found[:, 0], model.predict(rows), rtol=1e-9)
    else:
        assert_array_equal(found, model.predict(rows))


# Values of many kinds -------------------------------------------------------------------------------------------------
def test_rare_values_are_pooled(monkeypatch):
    monkeypatch.setattr("lssvm.tables.encoding.MOST_VALUES", 100)
    rng = np.random.default_rng(1)
    cells = np.array([f"v{k:03}" for k in np.minimum(np.arange(2000) // 4, rng.integers(0, 500, 2000))])
    values, counts = np.unique(cells, return_counts=True)
    frame = pd.DataFrame({"v": cells})
    columns = Columns.of(frame, "from_dtype")
    with pytest.warns(UserWarning, match=f"column 'v' has {len(values)} distinct values. All but the 100 most"):
        columns = columns.fitted(columns.read(frame))
    (column,) = columns.columns
    assert column.width == 101
    assert min(counts[np.isin(values, column.values)]) >= max(counts[~np.isin(values, column.values)])
    rows = columns.encode(columns.read(frame))
    rare = ~np.isin(cells, column.values)
    assert_array_equal(rows[rare], np.broadcast_to(HEIGHT * np.eye(101)[100], (rare.sum(), 101)))
    unknown = columns.encode(columns.read(pd.DataFrame({"v": ["new"]})))
    assert_array_equal(unknown[0], rows[rare][0])


def test_identifiers_are_ignored():
    frame = FRAME.assign(key=KEYS)
    with pytest.warns(UserWarning, match="column 'key' is ignored"):
        model = LSSVR().fit(frame, Y)
    assert_array_equal(model.predict(frame), LSSVR().fit(FRAME, Y).predict(FRAME))
    assert model.n_features_in_ == 4
    with pytest.raises(ValueError, match="no columns left"), pytest.warns(UserWarning, match="ignored"):
        LSSVR().fit(frame[["key"]], Y)


@pytest.mark.slow
def test_many_categories():
    """10^5 values: twice each, and as identifiers."""
    x = np.linspace(0, 1, 200_000)
    frame = pd.DataFrame({"v": np.repeat([f"v{k}" for k in range(100_000)], 2), "x": x})
    model = LSSVR(kernels.RBF(1.0), C=1.0, steps=[sparsify.Random(20, random_state=0)])
    start = time.process_time()
    with pytest.warns(UserWarning, match="has 100000 distinct values"):
        assert clone(model).fit(frame, x).support_vectors_.shape == (20, 502)
    with pytest.warns(UserWarning, match="ignored.*: 100000 of its 100000 values are distinct"):
        assert clone(model).fit(frame[::2], x[::2]).support_vectors_.shape == (20, 1)
    assert time.process_time() - start < 30.0  # 1.3 s


@pytest.mark.slow
def test_the_memory_of_chunks_with_many_categories_does_not_grow_with_the_rows():
    x = np.linspace(0, 1, 40_000)
    frame = pd.DataFrame({"v": [f"v{k % 1000}" for k in range(40_000)], "x": x})
    model = LSSVR(kernels.RBF(1.0), C=1.0, steps=[sparsify.Random(20, random_state=0)])
    peaks = []
    for n in (20_000, 40_000):
        parts = [(frame[k : k + 1000], x[k : k + 1000]) for k in range(0, n, 1000)]
        tracemalloc.start()
        with pytest.warns(UserWarning, match=r"'v' has 9\d\d distinct values"):
            clone(model).fit_chunks(parts, leave_one_out="press")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.05 * peaks[0]
    assert peaks[1] < 40_000 * 502 * 8  # all encoded rows


# Bad input ------------------------------------------------------------------------------------------------------------
BAD = {
    "no values": (FRAME.assign(city=None), {}, ValueError, r"column 'city' has no values.*drop it"),
    "no numbers": (FRAME.assign(b=np.nan), {}, ValueError, r"column 'b' has no values.*drop it"),
    "mixed types": (
        FRAME.assign(city=[*CITY[1:], 7]),
        {},
        ValueError,
        r"column 'city' contains text and numbers, e.g. \[7, '\w+'\].*astype\(str\)",
    ),
    "tuples": (FRAME.assign(city=[("a",)] * (N - 1) + ["b"]), {}, TypeError, r"column 'city'.*type tuple.*astype"),
    "the same name twice": (
        FRAME.set_axis(["a", "city", "a"], axis=1),
        {},
        ValueError,
        r"several columns.*'a'.*rename",
    ),
    "lists": (FRAME.assign(city=[[1, 2]] * N), {}, ValueError, r"column 'city' contains values that are not numeric"),
    "complex numbers": (FRAME.assign(b=X2 + 1j), {}, ValueError, r"column 'b' contains complex numbers"),
    "no rows": (FRAME[:0], {}, ValueError, r"0 sample\(s\).*minimum of 2"),
    "no columns": (FRAME[[]], {}, ValueError, r"0 feature\(s\).*minimum of 1"),
    "infinity": (FRAME.assign(b=[np.inf, *X2[1:]]), {}, ValueError, r"^X: column 'b' contains infinity.*row 0"),
    "durations": (FRAME.assign(b=pd.Timedelta("1h")), {}, TypeError, r"column 'b'.*convert them to numbers"),
    "text without categories": (
        FRAME,
        {"categorical_features": None},
        ValueError,
        r"column 'city'.*categorical_features",
    ),
    "text beside chosen categories": (
        FRAME.assign(c=CITY),
        {"categorical_features": ["c"]},
        ValueError,
        r"^X: column 'city' contains values that are not numeric.*categorical_features",
    ),
    "an unknown word": (FRAME, {"categorical_features": "all"}, ValueError, r"categorical_features must be.*'all'"),
    "an unknown name": (FRAME, {"categorical_features": ["town"]}, ValueError, r"categorical_features must be.*'town'"),
    "an unknown number": (FRAME, {"categorical_features": [3]}, ValueError, r"categorical_features must be.*\[3\]"),
    "a short mask": (FRAME, {"categorical_features": [True]}, ValueError, r"mask of 3 values.*\[True\]"),
    "too many widths": (
        FRAME,
        {"kernel": kernels.RBF([1.0, 2.0]), "C": 1.0},
        ValueError,
        r"sigma has 2 values.*3 columns",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables(name):
    frame, arguments, error, pattern = BAD[name]
    for estimator, y in ((LSSVR, Y), (LSSVC, LABELS)):
        model = estimator(**arguments)
        with pytest.raises(error) as caught:
            model.fit(frame, y[: len(frame)])
        assert re.search(pattern, str(caught.value), re.DOTALL), str(caught.value)
        with pytest.raises(NotFittedError):
            model.predict(FRAME)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_bad_tables_to_predict():
    model = LSSVR(kernels.RBF(1.0), C=1.0).fit(FRAME, Y)
    expected = model.predict(FRAME)
    for frame, pattern in (
        (FRAME.assign(city=1.0), r"^X: column 'city' contained text in fit, but now contains numbers \(1.0\)"),
        (FRAME.assign(b="x"), r"^X: column 'b' contained numbers in fit.*'x'\): give the same columns as in fit"),
        (FRAME[["city", "a", "b"]], r"feature names should match"),
        (FRAME[["a", "city"]], r"feature names should match|has 2 features"),
        (FRAME.to_numpy()[:, :2], r"X has 2 features.*expecting 3"),
        (FRAME.assign(b=np.inf), r"^X: column 'b' contains infinity"),
        (FRAME.assign(city=[*CITY[1:], 7]), r"column 'city' contains text and numbers, e.g. \[7, '\w+'\]"),
        (FRAME.set_axis(["a", "city", "a"], axis=1), r"several columns with the name 'a'"),
        (FRAME[:0], r"0 sample\(s\).*minimum of 1"),
    ):
        with pytest.raises(ValueError, match=pattern):
            model.predict(frame)
    added = LSSVR(kernels.RBF(1.0), C=1.0).partial_fit(FRAME, Y)
    with pytest.raises(ValueError, match=r"^X: column 'b' contained numbers in fit.*'x'"):
        added.partial_fit(FRAME.assign(b="x"), Y)
    with pytest.raises(ValueError, match="column 'city'"):
        model.fit(FRAME.assign(city=None), Y)
    with pytest.raises(ValueError, match=r"^y contains values that are not numeric.*'hot'"):
        model.fit(FRAME, ["hot", *map(str, Y[1:])])  # not the city, which is a category
    assert_array_equal(model.predict(FRAME), expected)  # nothing is lost
    numbers = LSSVR(kernels.RBF(1.0), C=1.0).fit(FRAME[["a", "b"]], Y)
    with pytest.raises(ValueError, match=rf"column 'b' contained numbers in fit.*'{CITY[0]}'\): give the same columns"):
        numbers.predict(FRAME.assign(b=CITY)[["a", "b"]])


@pytest.mark.parametrize("codes", [["001", "020"], ["1.0", "20.0"], ["1", "20"]])
def test_numbers_match_codes_however_these_are_written(codes):
    """Codes are text if a file is read as text, and lose their zeros if a program reads them as numbers."""
    frame = pd.DataFrame({"code": np.array(codes)[np.arange(N) % 2], "a": np.linspace(0, 1, N)})
    model = LSSVR(kernels.RBF(1.0), C=10.0).fit(frame, np.arange(N) % 2 + frame["a"])
    numbers = frame.assign(code=frame["code"].astype(float))
    assert_array_equal(model.predict(numbers), model.predict(frame))
    assert_array_equal(model.predict(numbers.astype({"code": int})), model.predict(frame))


def test_values_that_are_no_level_of_an_ordered_category():
    """Numbers instead of text are refused; an unknown level has no rank, and becomes a missing cell with a warning."""
    size = pd.Categorical([*"smllm"] * (N // 5), ["s", "m", "l"], ordered=True)
    frame = pd.DataFrame({"size": size, "a": np.linspace(0, 1, N)})
    model = LSSVR(kernels.RBF(1.0), C=10.0).fit(frame, size.codes + frame["a"])
    with pytest.raises(ValueError, match=r"'size' contained text in fit, but now contains numbers \(0\)"):
        model.predict(frame.assign(size=size.codes))
    with pytest.warns(UserWarning, match="'size' contains 'xl', which is none of its ordered categories"):
        found = model.predict(frame.assign(size="xl"))
    assert_array_equal(found, model.predict(frame.assign(size=pd.Categorical([None] * N, ["s"], ordered=True))))


def test_codes_may_be_numbers_or_text_to_predict():
    """A CSV file has no types: codes are text in it, and numbers in a frame that another program has read."""
    codes = np.unique(CITY, return_inverse=True)[1] + 1
    model = LSSVR(kernels.RBF(1.0), C=1.0).fit(FRAME.assign(city=codes.astype(str)), Y)
    expected = model.predict(FRAME.assign(city=codes.astype(str)))
    for numbers in (codes, codes.astype(float), pd.array(codes, dtype="Int64")):
        assert_array_equal(model.predict(FRAME.assign(city=numbers)), expected)
    unknown = model.predict(FRAME.assign(city="77"))
    assert_array_equal(model.predict(FRAME.assign(city=77)), unknown)
    missing = pd.array([None, *codes[1:]], dtype="Int64")
    assert_array_equal(model.predict(FRAME.assign(city=missing))[1:], expected[1:])
