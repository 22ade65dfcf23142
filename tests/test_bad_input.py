"""What cannot work is refused by name, and nothing else than ValueError or TypeError ever comes out."""

import os
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from lssvm import LSSVC, LSSVR, arrays, kernels, robust, sparsify, tune
from lssvm.arrays import threads

N = 12
rng = np.random.default_rng(0)
X = rng.standard_normal((N, 2))
Y = X[:, 0] + 0.1 * rng.standard_normal(N)
LABELS = np.where(np.arange(N) % 2, "yes", "no")
GIVEN = {"kernel": kernels.RBF(sigma=1.0), "C": 1.0}


def spoilt(array, value, place):
    """A copy with one value changed."""
    array = np.array(array, dtype=np.result_type(array, type(value)) if not isinstance(value, str) else object)
    array[place] = value
    return array


def refuse(model, arguments, error, pattern):
    """fit raises, says what the pattern asks for, and the estimator stays unfitted."""
    model = clone(model)
    with pytest.raises(error) as caught:
        model.fit(*arguments)
    assert re.search(pattern, str(caught.value), re.DOTALL), str(caught.value)
    assert vars(model).keys() == model.get_params(deep=False).keys()
    with pytest.raises(NotFittedError):
        model.predict(X)


# Data -----------------------------------------------------------------------------------------------------------------
ONES = np.ones(N)
DATA = {  # X, sample_weight, error, pattern
    "no value in a column": (
        spoilt(X, np.nan, (slice(None), 1)),
        None,
        ValueError,
        r"X: column 1 has no values.*drop",
    ),
    "masked values in X": (np.ma.array(X, mask=X > 1.0), None, ValueError, r"X is a masked array.*fill them in"),
    "infinity in X": (
        spoilt(spoilt(X, -np.inf, (3, 1)), np.nan, (2, 0)),
        None,
        ValueError,
        r"X contains infinity.*It is in column 1, row 3",
    ),
    "one column as a vector": (X[:, 0], None, ValueError, r"Expected 2D array.*reshape\(-1, 1\)"),
    "three dimensions": (X[:, :, None], None, ValueError, r"dim 3"),
    "no column": (X[:, :0], None, ValueError, r"0 feature\(s\).*minimum of 1"),
    "complex X": (X * 1j, None, ValueError, r"Complex data not supported"),
    "sparse X": (scipy.sparse.csr_array(X), None, TypeError, r"Sparse data.*X.*toarray"),
    "text in X": (spoilt(X, "red", (3, 1)), None, ValueError, r"\bX\b.*red"),
    "X of text": (np.full((N, 2), "red"), None, ValueError, r"\bX\b.*red"),
    "integers beyond float in X": (np.full((N, 2), 10**400, dtype=object), None, None, r"\bX\b"),
    "fewer rows than targets": (X[:5], None, ValueError, r"inconsistent numbers of samples.*5.*12"),
    "NaN in weights": (X, spoilt(ONES, np.nan, 3), ValueError, r"sample_weight.*NaN"),
    "infinity in weights": (X, spoilt(ONES, np.inf, 3), ValueError, r"sample_weight.*infinite"),
    "negative weight": (X, spoilt(ONES, -1.5, 3), ValueError, r"[Nn]egative.*sample_weight.*-1\.5.*row 3"),
    "all weights zero": (X, 0 * ONES, ValueError, r"sample_weight.*zero.*at least 2"),
    "one positive weight": (X, np.eye(N)[0], ValueError, r"sample_weight.*zero.*at least 2"),
    "too few weights": (X, ONES[:5], ValueError, r"sample_weight.*\(5,\).*\(12,\)"),
    "weights as a column": (X, ONES[:, None], ValueError, r"sample_weight.*\(12, 1\).*\(12,\)"),
    "text for weights": (X, "balanced", ValueError, r"sample_weight.*'balanced'"),
    "complex weights": (X, ONES * 1j, ValueError, r"sample_weight.*real numbers, got 1j in row 0"),
    "text among weights": (
        X,
        [*ONES[1:], "x"],
        ValueError,
        rf"sample_weight.*got 'x' in row {N - 1}: give one per row",
    ),
    "a list among weights": (X, [*ONES[1:], [1, 2]], ValueError, rf"sample_weight.*got \[1, 2\] in row {N - 1}: give"),
    "a huge integer among weights": (
        X,
        [10**400] * N,
        ValueError,
        r"^sample_weight.{,80}in row 0: give one per row\.$",
    ),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(("model", "y"), [(LSSVR(), Y), (LSSVC(), LABELS)], ids=["LSSVR", "LSSVC"])
def test_bad_data(model, y, name):
    bad_X, weights, error, pattern = DATA[name]
    refuse(model, (bad_X, y, weights), error or (ValueError, TypeError), pattern)


def test_durations_in_a_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X).assign(day=pd.Timedelta("1D"))
    frame.columns = [*map(str, range(X.shape[1])), "day"]
    refuse(LSSVR(), (frame, Y), TypeError, r"column 'day'.*convert")


DAYS = np.datetime64("2020-02-20") + np.arange(N)


def frames_of_days():
    """The same days, alone and beside numbers, as every kind of table."""
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    yield from (DAYS[:, None], (DAYS - DAYS[0])[:, None], DAYS[:, None].astype("datetime64[ns]"))
    yield from ([[day] for day in DAYS], np.array([[day] for day in [*DAYS]], dtype=object))
    for unit in ("s", "ns"):
        days = DAYS.astype(f"datetime64[{unit}]")
        for values in (days, days - days[0], pd.Series(days).dt.tz_localize("UTC")):
            yield from (pd.DataFrame({"t": values}), pd.DataFrame({"x": Y, "t": values}))
    yield pd.DataFrame({"t": pd.Series(DAYS).astype("timestamp[us][pyarrow]")})
    for values in (DAYS, DAYS.astype("datetime64[us]"), (DAYS - DAYS[0]).astype("timedelta64[us]")):
        yield from (pl.DataFrame({"t": values}), pl.DataFrame({"x": Y, "t": values}))
        yield from (pa.table({"t": pa.array(values)}), pa.table({"x": Y, "t": pa.array(values)}))


def test_durations_and_dates_among_numbers_are_refused_at_fit_and_predict():
    pattern = "X.*whose numeric values depend on their unit: convert them"
    fitted = {columns: LSSVR(**GIVEN).fit(X[:, :columns], Y) for columns in (1, 2)}
    for times in frames_of_days():
        types = [
            str(kind).lower() for kind in getattr(times, "dtypes", getattr(getattr(times, "schema", 0), "types", ()))
        ]
        if types and not any("duration" in kind or "timedelta" in kind for kind in types):
            assert "dates" in LSSVR(**GIVEN).fit(times, Y).columns_["t"]
        else:
            refuse(LSSVR(**GIVEN), (times, Y), TypeError, pattern)
            refuse(LSSVC(**GIVEN), (times, LABELS), TypeError, pattern)
            with pytest.raises(TypeError, match=pattern):
                LSSVR(**GIVEN).fit_chunks([(times, Y)])
        with pytest.raises(TypeError, match=pattern):
            fitted[np.shape(times)[1]].predict(times)


def test_targets_and_weights_that_are_times():
    pd = pytest.importorskip("pandas")
    for times in (DAYS, DAYS - DAYS[0], pd.Series(DAYS), pd.DataFrame({"y": Y, "t": DAYS})):
        refuse(LSSVR(**GIVEN), (X, times), TypeError, "^y.*convert them")
    refuse(LSSVR(**GIVEN), (X, Y, DAYS - DAYS[0]), ValueError, "sample_weight.*timedelta")
    labels = np.where(np.arange(N) % 2, DAYS[0], DAYS[1])
    model = LSSVC(**GIVEN).fit(X, labels)  # labels of any type
    assert model.predict(X).dtype == labels.dtype


@pytest.mark.parametrize(("model", "y"), [(LSSVR(), Y), (LSSVC(), LABELS)], ids=["LSSVR", "LSSVC"])
@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows(model, y, rows):
    refuse(model, (X[:rows], y[:rows]), ValueError, rf"{rows} sample\(s\).*minimum of 2")


@pytest.mark.parametrize(
    ("y", "error", "pattern"),
    [
        (spoilt(Y, np.nan, 3), ValueError, r"y contains NaN.*in row 3.*impute"),
        (np.ma.array(Y, mask=Y > 0.5), ValueError, r"y is a masked array.*fill them in"),
        (spoilt(Y, np.inf, 3), ValueError, r"y contains infinity"),
        (None, ValueError, r"requires y"),
        (LABELS, ValueError, r"\by\b.*(LSSVC|numbers|numeric)"),
        (LABELS.astype(object), ValueError, r"\by\b.*(LSSVC|numbers|numeric)"),
        (Y * 1j, ValueError, r"Complex data not supported"),
        (Y[:, None, None], ValueError, r"dim 3"),
        (np.empty((N, 0)), ValueError, r"minimum of 1"),
        (scipy.sparse.csr_array(Y[:, None]), (ValueError, TypeError), r"[Ss]parse"),
        (Y[:-1], ValueError, r"inconsistent numbers of samples"),
    ],
    ids=["NaN", "masked", "inf", "None", "text", "object", "complex", "3d", "no output", "sparse", "short"],
)
def test_bad_targets(y, error, pattern):
    refuse(LSSVR(), (X, y), error, pattern)


@pytest.mark.parametrize(
    ("y", "error", "pattern"),
    [
        (np.full(N, "yes"), ValueError, r"one class.*'yes'.*at least 2"),
        (Y, ValueError, r"[Uu]nknown label type: continuous.*regression"),
        (np.column_stack([LABELS, LABELS]), ValueError, r"y should be a 1d array.*\(12, 2\)"),
        (np.eye(N, 3, dtype=int), ValueError, r"y should be a 1d array.*\(12, 3\)"),
        (spoilt(np.arange(N) % 2, np.nan, 3), ValueError, r"y contains NaN"),
        (np.array(["yes", 1] * (N // 2), dtype=object), (ValueError, TypeError), r"\by\b|label"),
        (np.array(["yes", None] * (N // 2), dtype=object), (ValueError, TypeError), r"\by\b|label"),
        (None, ValueError, r"requires y"),
    ],
    ids=["one class", "continuous", "two columns", "indicator", "NaN", "mixed", "None label", "None"],
)
def test_bad_labels(y, error, pattern):
    refuse(LSSVC(), (X, y), error, pattern)


def labels_with_holes():
    """Two missing labels, the first in row 3, as every kind of array."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    text, numbers = ([*values[:3], None, *values[4:7], None, *values[8:]] for values in (LABELS.tolist(), [0, 1] * 6))
    yield from (pd.Series(text, dtype=dtype) for dtype in ("string", "str", "category", "string[pyarrow]", object))
    yield from (pd.Series(numbers, dtype=dtype) for dtype in ("Int64", "Float64", "boolean", "int64[pyarrow]"))
    yield from (pl.Series(text), pl.Series(text, dtype=pl.Categorical), pl.Series(numbers))
    for hole in (None, np.nan, pd.NA, pd.NaT):
        yield from ([hole if value is None else value for value in values] for values in (text, numbers))
        yield np.array([hole if value is None else value for value in text], dtype=object)
    yield pl.Series([None if value is None else value == "yes" for value in text])
    yield np.array([None if value is None else f"202{value}-01-01" for value in numbers], dtype="datetime64[D]")


@pytest.mark.parametrize("module", [None, "torch"])
def test_missing_labels(module):
    rows = X if module is None else pytest.importorskip(module).asarray(X)
    for labels in labels_with_holes():
        with pytest.raises(ValueError, match=r"y .*2 (rows, first|such values is) in row 3 \(counting from 0\)"):
            LSSVC(**GIVEN).fit(rows, labels)


def test_missing_labels_and_targets_in_chunks():
    for labels in labels_with_holes():
        with pytest.raises(ValueError, match=r"chunk 1: .*y .*2 (rows, first|such values is) in row 3 \(counting"):
            LSSVC(**GIVEN).fit_chunks([(X, LABELS), (X, labels)])
    targets = [*Y[:3], None, *Y[4:]]
    for values in (targets, np.array(targets, dtype=object)):
        refuse(LSSVR(**GIVEN), (X, values), ValueError, r"y is missing in 1 row, first in row 3")


def test_weights_that_leave_one_class():
    refuse(LSSVC(), (X, LABELS, (LABELS == "yes").astype(float)), ValueError, r"sample_weight.*fewer than 2.*'no'")
    refuse(LSSVC(class_weight={"no": 0, "yes": 1}), (X, LABELS), ValueError, r"class_weight.*fewer than 2.*'no'")


def test_a_class_without_weight_is_named():
    labels = np.where(np.arange(N) == 3, "rare", LABELS)
    with pytest.warns(UserWarning, match="class 'rare' has positive weight.*Remove"):
        LSSVC(**GIVEN).fit(X, labels, labels != "rare")
    with pytest.warns(UserWarning, match="class 'rare' has positive weight.*Remove"):
        LSSVC(**GIVEN).fit_chunks([(X, labels, (labels != "rare").astype(float))])


@pytest.mark.parametrize("kind", [bool, int, np.int64])
def test_labels_in_a_column_of_objects(kind):
    labels = np.arange(N) % 2 == 0
    y = pd.Series([kind(label) for label in labels], dtype=object)
    model, expected = (LSSVC(**GIVEN).fit(X, values) for values in (y, y.to_numpy().astype(kind)))
    assert model.classes_.dtype == expected.classes_.dtype
    assert (model.predict(X) == expected.predict(X)).all()
    refuse(LSSVC(**GIVEN), (X, pd.Series([1.5, 2.5] * (N // 2), dtype=object)), ValueError, "label type")


# Arguments of the constructors ----------------------------------------------------------------------------------------
def wrong_shape(A, B):
    return np.ones((2, 2))


def not_finite(A, B):
    return np.full((len(A), len(B)), np.nan)


def complex_valued(A, B):
    return A @ B.T * 1j


ARGUMENTS = [
    *(({"C": C}, ValueError, rf"\bC must be .*got {re.escape(repr(C))}") for C in (0, -1, np.nan, np.inf, "a", [1.0])),
    ({"C": 1e-320}, ValueError, r"\bC\b.*1e-320"),
    ({"kernel": "rbf"}, TypeError, r"kernel='rbf'.*RBF\(\)"),
    ({"kernel": kernels.RBF}, TypeError, r"kernel=RBF is a class.*RBF\(\)"),
    ({"kernel": 3}, TypeError, r"kernel=3"),
    ({"kernel": kernels.RBF(sigma=-1)}, ValueError, r"RBF: sigma.*-1"),
    ({"kernel": kernels.RBF(sigma=0)}, ValueError, r"RBF: sigma.*0"),
    ({"kernel": kernels.RBF(sigma="wide")}, ValueError, r"RBF: sigma.*'wide'"),
    ({"kernel": kernels.RBF(sigma=np.nan)}, ValueError, r"RBF: sigma.*nan"),
    ({"kernel": kernels.RBF(sigma=[1.0, 2.0, 3.0])}, ValueError, r"RBF: sigma.*\(3,\).*2 (columns|values)"),
    ({"kernel": kernels.Matern(sigma=1.0, nu=2)}, ValueError, r"Matern: nu.*got 2"),
    ({"kernel": kernels.Matern(nu=2)}, ValueError, r"Matern: nu.*got 2"),
    ({"kernel": kernels.Polynomial(0)}, ValueError, r"Polynomial: degree.*got 0"),
    ({"kernel": kernels.Polynomial(2.5)}, ValueError, r"Polynomial: degree.*got 2\.5"),
    ({"kernel": kernels.Polynomial(2, coef0=-1)}, ValueError, r"Polynomial: coef0.*got -1"),
    ({"kernel": kernels.Polynomial(2, coef0="a")}, (ValueError, TypeError), r"Polynomial: coef0.*got 'a'"),
    ({"kernel": kernels.Additive("rbf")}, (ValueError, TypeError), r"Additive|kernel='rbf'"),
    ({"kernel": kernels.Additive(kernels.RBF)}, (ValueError, TypeError), r"Additive|kernel=RBF"),
    ({"kernel": kernels.Additive(kernels.Precomputed())}, ValueError, r"Precomputed"),
    ({"kernel": kernels.Precomputed()}, ValueError, r"\(12, 2\).*Precomputed.*square"),
    ({"kernel": kernels.Precomputed() + kernels.Linear()}, ValueError, r"contains Precomputed"),
    ({"kernel": kernels.RBF() + kernels.Precomputed()}, ValueError, r"contains Precomputed"),
    ({"kernel": kernels.RBF() * kernels.Matern(sigma=-1)}, ValueError, r"Matern: sigma.*-1"),
    ({"kernel": wrong_shape}, ValueError, r"kernel function.*\(2, 2\).*\(12, 12\)"),
    ({"kernel": not_finite}, ValueError, r"kernel matrix.*not finite"),
    ({"kernel": complex_valued}, (ValueError, TypeError), r"kernel.*complex"),
    ({"robust": "foo"}, ValueError, r"robust='foo'.*'hampel'"),
    ({"robust": robust.Hampel}, (ValueError, TypeError), r"robust=.*Hampel"),
    ({"robust": 3}, (ValueError, TypeError), r"robust=3.*'hampel'"),
    ({"robust": robust.Hampel(c1=3, c2=2)}, ValueError, r"Hampel: c1.*below c2.*3.*2"),
    ({"robust": robust.Hampel(c1=np.nan)}, ValueError, r"Hampel: c1.*nan"),
    ({"robust": robust.Hampel(scale="std")}, ValueError, r"Hampel: scale.*'iqr'.*'std'"),
    ({"robust": robust.Hampel(iterations=0)}, ValueError, r"Hampel: iterations.*got 0"),
    ({"robust": robust.Huber(c=-1)}, ValueError, r"Huber: c .*got -1"),
    ({"robust": robust.Myriad(delta=0)}, ValueError, r"Myriad: delta.*got 0"),
    ({"steps": sparsify.Random(5)}, TypeError, r"steps.*list.*steps=\[Random\(n=5\)\]"),
    ({"steps": [sparsify.Random]}, TypeError, r"steps holds.*Random"),
    ({"steps": [3]}, TypeError, r"steps holds 3"),
    ({"steps": [kernels.RBF(2.0)]}, TypeError, r"steps holds RBF.*kernel=RBF\(sigma=2.0\)"),
    ({"kernel": kernels.Additive(kernels.RBF(), groups=[[0.5]])}, ValueError, r"Additive: groups.*0\.5"),
    ({"kernel": kernels.RBF(), "steps": [tune.KFold(splitter="a")]}, TypeError, r"KFold: splitter='a'"),
    *(
        (
            {"steps": [step]},
            ValueError,
            rf"{type(step).__name__}: (tol|learning_rate) must be .*(positive|negative).*, got",
        )
        for step in (
            sparsify.Adaline(tol=None),
            sparsify.Adaline(tol=True),
            sparsify.Echelon(tol="a"),
            sparsify.Echelon(tol=-1.0),
            sparsify.AdaPinv(learning_rate="a"),
            sparsify.AdaPinv(learning_rate=0.0),
        )
    ),
    ({"steps": [None]}, TypeError, r"steps holds None"),
    ({"steps": [lambda problem: None]}, TypeError, r"steps holds.*lambda.*returned None.*must return a Problem"),
    ({"steps": [sparsify.Random(5), np.asarray]}, TypeError, r"steps holds.*asarray.*must return a Problem"),
    ({"steps": "random"}, TypeError, r"steps.*'random'"),
    ({"steps": [tune.LeaveOneOut]}, TypeError, r"steps holds.*LeaveOneOut"),
    ({"steps": [sparsify.Random(0)]}, ValueError, r"Random: n .*got 0"),
    ({"steps": [sparsify.Random(2.5)]}, ValueError, r"Random: n .*got 2\.5"),
    ({"steps": [sparsify.Random("ten")]}, ValueError, r"Random: n .*got 'ten'"),
    ({"steps": [sparsify.Random(5, random_state="a")]}, ValueError, r"'a'.*seed|random_state"),
    ({"steps": [sparsify.Given(np.ones((3, 5)))]}, ValueError, r"Given: points.*\(3, 5\).*2 columns"),
    ({"steps": [sparsify.Given(np.ones((3, 2, 2)))]}, ValueError, r"Given: points.*\(3, 2, 2\)"),
    ({"steps": [sparsify.Given([0, -1])]}, ValueError, r"Given: points.*-1.*rows 0 to 11"),
    ({"steps": [sparsify.Given([0, 12])]}, ValueError, r"Given: points.*12.*rows 0 to 11"),
    ({"steps": [sparsify.Given([])]}, ValueError, r"Given: points is empty"),
    ({"steps": [sparsify.Given([0.5, 1.0])]}, ValueError, r"Given: .*points.*float64.*integers"),
    ({"steps": [sparsify.Given([[np.nan, 1.0]])]}, ValueError, r"Given: points.*NaN"),
    ({"steps": [sparsify.Given([["a", "b"]])]}, (ValueError, TypeError), r"Given: points"),
    ({"steps": [sparsify.Given([[1.0, 2.0], [3.0]])]}, (ValueError, TypeError), r"Given: points"),
    ({"steps": [sparsify.Given([[1j, 2.0]])]}, (ValueError, TypeError), r"Given: points"),
    *(({"steps": [sparsify.Given(value)]}, (ValueError, TypeError), r"Given: points") for value in (None, 3, "abc")),
]


@pytest.mark.parametrize(
    ("arguments", "error", "pattern"), ARGUMENTS, ids=[re.sub(r" at 0x\w+|\s+", " ", str(row[0])) for row in ARGUMENTS]
)
def test_bad_arguments(arguments, error, pattern):
    for estimator, y in ((LSSVR, Y), (LSSVC, LABELS)):
        refuse(estimator(**({} if arguments.keys() & {"C", "kernel"} else GIVEN) | arguments), (X, y), error, pattern)


@pytest.mark.parametrize(
    ("class_weight", "pattern"),
    [
        ("heavy", r"class_weight.*'heavy'"),
        (3, r"class_weight.*3"),
        ({"no": -1.0, "yes": 1.0}, r"class_weight.*-1"),
        ({"no": np.nan, "yes": 1.0}, r"class_weight.*nan"),
        ({"nein": 1.0}, r"no.*class_weight"),
        ({"no": "x", "yes": 1.0}, r"class_weight.*'x'"),
    ],
)
def test_bad_class_weight(class_weight, pattern):
    refuse(LSSVC(**GIVEN, class_weight=class_weight), (X, LABELS), (ValueError, TypeError), pattern)


def test_precomputed_kernels_are_checked():
    square = X @ X.T
    machine = LSSVR(kernels.Precomputed(), C=1.0)
    refuse(machine, (rng.standard_normal((N, N)), Y), ValueError, r"symmetric")
    with_points = clone(machine).set_params(steps=[sparsify.Given(square[:3])])
    refuse(with_points, (square, Y), ValueError, r"Given.*(row numbers|Precomputed)")
    with pytest.raises(ValueError, match=r"X has 2 features.*12"):
        machine.fit(square, Y).predict(X)


# After the fit --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("coverage", [0, 1, 90, -0.5, np.nan, "0.9", None, [0.9]])
def test_bad_coverage(coverage):
    with pytest.raises((ValueError, TypeError), match=rf"coverage.*got {re.escape(repr(coverage))}.*0\.9"):
        LSSVR(**GIVEN).fit(X, Y).predict_interval(X, coverage=coverage)


METHODS = [(LSSVR, "predict"), (LSSVR, "predict_interval")] + [
    (LSSVC, name) for name in ("predict", "decision_function", "predict_proba")
]


@pytest.mark.parametrize(("estimator", "method"), METHODS, ids=lambda value: getattr(value, "__name__", value))
def test_bad_rows_to_predict(estimator, method):
    with pytest.raises(NotFittedError, match=f"{estimator.__name__}.*not fitted"):
        getattr(estimator(**GIVEN), method)(X)
    predict = getattr(estimator(**GIVEN).fit(X, LABELS if estimator is LSSVC else Y), method)
    for bad, pattern in (
        (X[:, :1], r"X has 1 features.*expecting 2"),
        (np.column_stack([X, X]), r"X has 4 features.*expecting 2"),
        (X[0], r"Expected 2D array.*reshape"),
        (X[:0], r"0 sample"),
        (spoilt(X, np.inf, (0, 0)), r"X contains infinity"),
    ):
        with pytest.raises(ValueError, match=f"(?s){pattern}"):
            predict(bad)


# Memory ---------------------------------------------------------------------------------------------------------------
@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PHYS_PAGES": 4096, "SC_PAGE_SIZE": 4096}[name])  # 16 MiB


@pytest.mark.parametrize("arguments", [GIVEN, {"kernel": GIVEN["kernel"]}, {}, {**GIVEN, "robust": "hampel"}])
def test_a_dense_machine_too_large_is_refused_before_any_work(arguments, little_memory, monkeypatch):
    def worked(kernel, A, B):
        assert len(A) * len(B) < 300**2, "work was done before the refusal"
        return evaluate(kernel, A, B)

    evaluate = kernels.RBF.evaluate

    monkeypatch.setattr(kernels.RBF, "evaluate", worked)
    many = np.linspace(0, 1, 1800)[:, None]  # 24.7 MiB a matrix
    model = LSSVR(**arguments)
    with pytest.raises(MemoryError, match=r"1800 rows.*GiB.*basis.*chunks"):
        model.fit(many, many[:, 0])
    assert not hasattr(model, "dual_coef_")


def test_a_basis_fits_where_the_dense_machine_does_not(little_memory):
    many = np.linspace(0, 1, 1800)[:, None]
    LSSVR(**GIVEN, steps=[sparsify.Random(20, random_state=0)]).fit(many, many[:, 0])


@pytest.mark.parametrize(
    ("arguments", "matrices", "divided"),
    [
        (GIVEN, 1, 0),
        ({**GIVEN, "robust": "hampel"}, 1, 0),
        ({"kernel": GIVEN["kernel"]}, 2, 0),
        ({"kernel": GIVEN["kernel"]}, 3, 4096),
    ],
)
def test_the_memory_estimate_covers_the_peak(arguments, matrices, divided, monkeypatch):
    """One matrix is counted for a given C, and those of `eigh` for the whole path: the fit must not need more."""
    rows = 900 if matrices == 1 else 600  # `eigh` takes long
    monkeypatch.setattr(arrays.linalg, "DIVIDED", divided)
    assert matrices in (1, arrays.dense_matrices(rows, X, every=True))
    many = np.random.default_rng(0).standard_normal((rows, 3))
    with config_context(working_memory=0.2):
        tracemalloc.start()
        try:
            LSSVR(**arguments).fit(many, many[:, 0])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < (matrices + 0.3 * threads.workers()) * 8 * rows**2  # each thread has tiles of its own


@pytest.fixture(scope="module")
def torch():
    """Imported outside of tests, because that takes longer than they do."""
    return pytest.importorskip("torch")


def test_a_dense_search_counts_what_its_device_needs(torch, monkeypatch):
    """Eigenvectors of tensors take more memory than those of NumPy, which overwrites the matrix."""
    many = np.random.default_rng(0).standard_normal((100, 2))
    monkeypatch.setattr(arrays, "memory", lambda array, free=False: int(3.5 * 8 * 100**2))
    model = LSSVR(GIVEN["kernel"], steps=[]).fit(many, many[:, 0])
    with pytest.raises(MemoryError, match=r"100 rows needs 0\.0 GiB for 4 matrices.*basis.*chunks"):
        model.fit(torch.asarray(many), torch.asarray(many[:, 0]))


def test_a_dense_search_too_large_for_a_gpu_is_refused_before_any_work(torch, monkeypatch):
    monkeypatch.setattr(arrays.namespaces, "on_accelerator", arrays.is_torch)
    monkeypatch.setattr(arrays, "memory", lambda array, free=False: 139 * 2**30)
    monkeypatch.setattr(kernels.Matern, "evaluate", lambda *_: pytest.fail("work was done before the refusal"))
    many = torch.linspace(0, 1, 90_000, dtype=torch.float64)[:, None]
    with pytest.raises(
        MemoryError, match=r"90000 rows needs 181\.0 GiB for 3 matrices.*only 139\.0 GiB.*basis.*chunks"
    ):
        LSSVR(kernels.Matern(ard=True), steps=[]).fit(many, many[:, 0], groups=np.arange(90_000) // 2)


def test_free_memory_of_a_gpu_includes_the_reserve_of_its_allocator(torch, monkeypatch):
    monkeypatch.setattr(arrays.namespaces, "on_accelerator", arrays.is_torch)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    assert arrays.memory(torch.zeros(2), free=True) == 5200
    assert 0 < arrays.memory(X, free=True) <= arrays.memory(X)


# Fuzz -----------------------------------------------------------------------------------------------------------------
SPECIAL = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 5e-324, 1e200, 1e-200, 1e16, -0.0]
NAMES = r"\b(X|y|sample_weight|samples?|features?|kernel|class|classes|RBF|Matern|targets|C)\b"


def draw_inputs(rng):
    """Rows of mixed scales, spoilt in up to two ways."""
    n, d = int(rng.choice([2, 3, 4, 6, 10, 20])), int(rng.choice([1, 1, 2, 3, 6]))
    A = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, d)
    ways = ["special", "constant", "column", "rows", "one row", "no column", "large", "small", "offset", "all equal"]
    for way in rng.choice(ways, rng.integers(0, 3), replace=False):
        c = rng.integers(max(A.shape[1], 1))
        if way == "special" and A.size:
            A[rng.integers(len(A)), c] = rng.choice(SPECIAL)
        elif way == "constant" and A.size:
            A[:, c] = rng.choice([0.0, 1.0, 1e300, -7.5])
        elif way == "column" and A.size:
            A = np.column_stack([A, A[:, c]])
        elif way == "rows":
            A[rng.integers(len(A), size=2)] = A[0]
        elif way == "one row" and rng.integers(3) == 0:
            A = A[:1]
        elif way == "no column" and rng.integers(3) == 0:
            A = A[:, :0]
        elif way == "large":
            with np.errstate(over="ignore"):
                A *= 10.0 ** rng.integers(50, 300)
        elif way == "small":
            A *= 10.0 ** -rng.integers(50, 320)
        elif way == "offset":
            A += 1e12
        elif way == "all equal":
            A[:] = A[0]
    kind = rng.choice(["float"] * 6 + ["float32", "int8", "object", "text", "huge integers"])
    if kind == "float32":
        A = np.clip(A, -1e38, 1e38).astype(np.float32)
    elif kind == "int8":
        A = np.clip(np.nan_to_num(A), -127, 127).astype(np.int8)
    elif kind == "object":
        A = A.astype(object)
    elif kind == "text" and A.size:
        A = A.astype(object)
        A[0, 0] = "text"
    elif kind == "huge integers":
        A = rng.integers(1, 9, A.shape).astype(object) * 10 ** int(rng.choice([5, 18, 30, 120, 400]))
    return A


def draw_targets(rng, n, classes):
    if classes:
        return rng.integers(0, rng.choice([1, 2, 2, 3, 3]), n)
    y = rng.standard_normal(n)
    way = rng.integers(8)
    if way == 0:
        y[rng.integers(n)] = rng.choice(SPECIAL)
    elif way == 1:
        y[:] = 3.0
    elif way == 2:
        with np.errstate(over="ignore"):
            y *= 10.0 ** rng.integers(-300, 300)
    elif way == 3:
        y += 1e12
    return y


def draw_weights(rng, n):
    way = rng.integers(8)
    if way == 0:
        return rng.random(n)
    if way == 1:
        return rng.integers(0, 3, n)
    if way == 2:
        return 10.0 ** rng.integers(-300, 300, n)
    if way == 3:
        return np.where(np.arange(n) == rng.integers(n), rng.choice(SPECIAL), 1.0)
    return None


def fuzz(seed):
    """Fit and use one drawn model on one drawn set; every number that comes out is finite (interval ends: not NaN)."""
    rng = np.random.default_rng(seed)
    A = draw_inputs(rng)
    estimator = LSSVC if rng.integers(2) else LSSVR
    y, weights = draw_targets(rng, len(A), estimator is LSSVC), draw_weights(rng, len(A))
    choices = [
        [None, kernels.RBF(sigma=1.0), kernels.Matern(), kernels.Linear(), kernels.Polynomial(3)],
        [None, None, 1.0, 1e8, 1e-8],
        [None, None, [sparsify.Random(3, random_state=0)]],
        [None, None, "hampel"],
    ]
    kernel, C, steps, weight_function = (options[rng.integers(len(options))] for options in choices)
    model = estimator(kernel, C, steps=steps, robust=weight_function).fit(A, y, weights)
    if estimator is LSSVR:
        assert not np.isnan(model.predict_interval(A)).any(), "an interval end is NaN"
    outputs = {
        "predictions": model.predict(A) if estimator is LSSVR else model.decision_function(A),
        "probabilities": model.predict_proba(A) if estimator is LSSVC else 0.0,
        "coefficients": np.concatenate([np.ravel(member.dual_coef_) for member in getattr(model, "members_", [model])]),
        **{name: getattr(model, name) for name in ("loo_residuals_", "leverage_", "weights_", "press_")},
    }
    for name, values in outputs.items():
        assert np.isfinite(values).all(), f"{name} not finite"


@pytest.mark.filterwarnings("ignore:Rounding errors", "ignore:.*because of rounding errors", "ignore:Intervals with")
@pytest.mark.parametrize("part", [*range(2), *(pytest.param(part, marks=pytest.mark.slow) for part in range(2, 20))])
def test_fuzz(part):
    """400 seeded cases: a finite model, or a ValueError or TypeError that names what is wrong.

    Of all warnings, only those about rounding errors, which C = 1e8 on such inputs deserves, and infinite intervals.
    """
    failures, fitted = [], 0
    for seed in range(20 * part, 20 * part + 20):
        try:
            fuzz(seed)
            fitted += 1
        except (ValueError, TypeError) as error:
            if not re.search(NAMES, str(error)):
                failures.append((seed, f"unclear message: {error}"))
        except Exception as error:  # warnings are errors here, so they arrive as RuntimeWarning
            failures.append((seed, repr(error)))
    assert not failures, "\n".join(f"seed {seed}: {what}" for seed, what in failures)
    assert fitted >= 3


def test_dates_in_any_cell_of_numbers_are_refused():
    day = np.datetime64("2000-01-01")
    rows = [[float(i), 1.0 if i == 0 else day + np.timedelta64(i, "D")] for i in range(5)]
    cells = [day + np.timedelta64(i, "D") if i else 1.0 for i in range(5)]
    frame = pd.DataFrame({"a": np.arange(5.0), "t": pd.Series(cells, dtype=object)})
    for X, where in ((rows, "X contains"), (frame, "X: column 't' contains")):
        with pytest.raises(TypeError, match=f"{where} .*depend on their unit"):
            LSSVR(kernels.RBF(1.0), C=1.0).fit(X, np.arange(5.0))


def test_durations_are_refused_with_a_remedy_that_works():
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    seconds = np.array([1.5, 20.0, 0.25, 7.0, 3.0])
    times = (1e6 * seconds).astype("timedelta64[us]")
    objects = pd.Series(list(times.tolist()), dtype=object)
    for frame in (
        pd.DataFrame({"a": seconds, "t": times}),
        pd.DataFrame({"a": seconds, "t": objects}),
        pl.DataFrame({"a": seconds, "t": times}),
        pa.table({"a": seconds, "t": pa.array(times)}),
    ):
        with pytest.raises(TypeError, match="depend on their unit") as caught:
            LSSVR(kernels.RBF(1.0), C=1.0).fit(frame, seconds)
        remedy = re.search(r"e\.g\. (.*)\.$", str(caught.value))[1]
        assert_allclose(eval(remedy, {"np": np, "t": frame["t"]}).astype(float), seconds)
    hours = pa.table({"t": pa.array([1, 2, 3], pa.int32()).cast(pa.time32("s"))})
    with pytest.raises(TypeError, match="hours since midnight"):
        LSSVR(kernels.RBF(1.0), C=1.0).fit(hours, np.arange(3.0))


def test_lists_in_a_column_next_to_a_category_are_refused():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": LABELS.tolist(), "b": [[1.0, 2.0]] * N})
    refuse(LSSVR(**GIVEN), (frame, Y), ValueError, "column 'b' contains values that are not numeric .lists")


def test_categories_are_refused_by_name_if_they_are_not_asked_for():
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(LABELS)})
    refuse(LSSVR(**GIVEN, categorical_features=None), (frame, Y), ValueError, "column 'b' .*categorical_features")


def test_points_for_an_encoded_table_are_refused():
    steps = [sparsify.Given(X[:3])]
    refuse(LSSVR(**GIVEN, steps=steps), (spoilt(X, np.nan, (0, 0)), Y), ValueError, "encoded as 3 .*row numbers")


def test_too_few_rows_to_train_on_are_refused():
    refuse(LSSVR(kernels.RBF(), steps=[tune.Holdout(0.99)]), (X, Y), ValueError, r"fraction=0\.99 leaves 1 of 12 rows")


def test_weights_in_a_dictionary_are_refused():
    refuse(LSSVC(**GIVEN), (X, LABELS, {"no": 1.0}), ValueError, "sample_weight must be real numbers, got {'no': 1.0}")


@pytest.mark.parametrize("missing", [np.nan, None])
def test_groups_without_a_label_are_refused(missing):
    model = LSSVR(**GIVEN).fit(X, Y)
    groups = np.array([missing if row == 3 else float(row % 4) for row in range(N)])
    with pytest.raises(ValueError, match="groups has no label in row 3"):
        model.predict_interval(X, groups=groups)


def test_missing_labels_are_refused_by_score():
    X = np.arange(12.0).reshape(6, 2)
    model = LSSVC(kernels.RBF(1.0), C=1.0).fit(X, list("ababab"))
    with pytest.raises(ValueError, match=r"y is missing in 1 row, first in row 0"):
        model.score(X, pd.Series([pd.NA, *"babab"], dtype="string"))


def test_kernels_do_not_raise_on_underflow():
    X = np.arange(12.0)[:, None]
    with np.errstate(all="raise"):
        model = LSSVR(kernels.RBF(0.05), C=1.0).fit(X, np.sin(X[:, 0]))
        assert np.isfinite(model.predict(100.0 + X)).all()


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2]])
def test_classifiers_do_not_raise_on_underflow(labels):
    """Probabilities of 0 are no error, whatever the user has asked NumPy to raise."""
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = np.digitize(X[:, 0], [0.0, 0.5][: len(labels) - 1])
    with np.errstate(all="raise"):
        for kernel, C in ((kernels.Linear(), 1.0), (kernels.Matern(0.01), 1e10), (kernels.RBF(1.0), None)):
            model = LSSVC(kernel, C=C).fit(X, y)
            assert_allclose(model.predict_proba(1e3 * X).sum(axis=1), 1.0)


def test_missing_texts_are_refused():
    X = np.arange(12.0).reshape(6, 2)
    y = np.array([*"abab", None, "a"], dtype=np.dtypes.StringDType(na_object=None))
    with pytest.raises(ValueError, match=r"y is missing in 1 row, first in row 4"):
        LSSVC(kernels.RBF(1.0), C=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"y contains values that are not numeric.*LSSVC"):
        LSSVR(kernels.RBF(1.0), C=1.0).fit(X, np.array([*"ababab"], dtype=np.dtypes.StringDType()))


def test_arguments_that_fit_does_not_take_are_refused_by_name():
    for estimator, y in ((LSSVR(**GIVEN), np.arange(N)), (LSSVC(**GIVEN), np.arange(N) % 2)):
        with pytest.raises(TypeError, match=r"fit\(\) got an unexpected keyword argument 'eval_set'"):
            estimator.fit(X, y, eval_set=(X, y))


def test_parameters_of_a_kernel_that_is_not_given_are_refused():
    search = GridSearchCV(LSSVR(), {"kernel__sigma": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"kernel__sigma: kernel is None.*LSSVR\(kernel=kernels\.RBF\(\)\)"):
        search.fit(X, np.arange(N))
    with pytest.raises(ValueError, match=r"robust__c1: robust is 'hampel'.*LSSVC\(robust=robust\.Hampel\(\)\)"):
        LSSVC(robust="hampel").set_params(robust__c1=2.0)
    with pytest.raises(ValueError, match="Invalid parameter 'kernels'"):
        LSSVR().set_params(kernels__sigma=1.0)
    model = clone(LSSVR()).set_params(kernel=kernels.RBF(), kernel__sigma=2.0, C=3.0)
    assert (model.kernel.sigma, model.C) == (2.0, 3.0)
    assert clone(model).set_params(kernel=None).kernel is None


def test_lazy_frames_are_refused_with_a_remedy():
    pl = pytest.importorskip("polars")
    frame, y = pl.DataFrame(X), np.arange(N)
    model = LSSVR(**GIVEN).fit(frame, y)
    for call in (
        lambda: LSSVR(**GIVEN).fit(frame.lazy(), y),
        lambda: LSSVR(**GIVEN).fit_chunks([(frame.lazy(), y)]),
        lambda: LSSVC(**GIVEN).fit(frame.lazy(), y % 2),
        lambda: model.predict(frame.lazy()),
        lambda: model.predict_interval(frame.lazy()),
    ):
        with pytest.raises(TypeError, match=r"X is a LazyFrame.*call \.collect\(\)"):
            call()
    for estimator in (LSSVR(**GIVEN), LSSVC(**GIVEN)):
        with pytest.raises(TypeError, match=r"y is a LazyFrame.*call \.collect\(\)"):
            estimator.fit(X, pl.DataFrame({"y": y}).lazy())


@pytest.mark.filterwarnings("ignore:The number of unique classes")  # of scikit-learn
@pytest.mark.parametrize("how", ["fit", "partial_fit", "fit_chunks"])
@pytest.mark.parametrize("digits", [0, 2])
def test_numbers_are_not_classes(how, digits):
    """Also whole numbers, if they are floats and more than half of the rows have their own."""
    draw = np.random.RandomState(0)
    rows, y = draw.normal(size=(40, 2)), np.round(draw.normal(0, 100, 40), digits)
    model = LSSVC(**GIVEN)
    calls = {
        "fit": lambda: model.fit(rows, y),
        "partial_fit": lambda: model.partial_fit(rows, y),
        "fit_chunks": lambda: model.fit_chunks([(rows[:5], y[:5]), (rows[5:], y[5:])]),
    }
    with pytest.raises(ValueError, match=r"Unknown label type: continuous.*[Uu]se LSSVR for numbers"):
        calls[how]()
    assert len(model.fit(rows, y // 50).classes_) < 20  # few whole numbers may be classes
