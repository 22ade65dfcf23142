"""Chunks: sums that add give the machine of all rows."""

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import PredefinedSplit

from lssvm import LSSVC, LSSVR, arrays, kernels, sparsify, system, tune
from lssvm.estimators import chunks as chunk_fits
from lssvm.stream import sources as stream_rows
from lssvm.stream import sums as stream_sums
from lssvm.stream.sources import fingerprint


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, 1.0, (600, 3))
    y = np.column_stack([np.sin(X).sum(axis=1), X[:, 0] * X[:, 1]]) + 0.1 * rng.standard_normal((600, 2))
    return X, y, rng.integers(0, 3, 600).astype(float), rng.normal(5.0, 1.0, (50, 3))


def split(*arrays, size=170):
    return [tuple(a[i : i + size] for a in arrays) for i in range(0, len(arrays[0]), size)]


@pytest.mark.parametrize(
    "step", [sparsify.Substrate(0.1), sparsify.InversePrune(0.5), sparsify.Adaline(20, final_solve=False)]
)
def test_machines_of_their_own_have_no_sums(rows, step):
    """A machine of chunks would be another one than `fit` finds."""
    X, y, _, _ = rows
    model = LSSVR(kernels.RBF(2.0), C=1.0, steps=[step])
    with pytest.raises(ValueError, match=r"sums over chunks cannot reproduce: use fit"):
        model.fit_chunks([(X[:80], y[:80, 0])])
    model.fit(X[:80], y[:80, 0])
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as error:
        model.partial_fit(X[80:], y[80:, 0])
    assert re.search(rf"partial_fit does not support {type(step).__name__}.*use fit", str(error.value.__cause__))


@pytest.mark.filterwarnings("ignore:Rounding errors")
def test_a_row_that_stands_alone_is_said_to_have_few_digits(monkeypatch):
    """Its leverage is 1 to rounding: `fit` finds its left-out residual, as a refit does, sums cannot."""
    x = np.append(np.linspace(0.0, 3.0, 40), 9.0)[:, None]
    y, weight = np.append(np.sin(x[:-1, 0]), 5.0), np.append(np.ones(40), 1e8)
    model = LSSVR(kernels.RBF(1.0), C=1e8, steps=[sparsify.Given(x[::5])])
    without = clone(model).fit(x[:-1], y[:-1])
    assert_allclose(clone(model).fit(x, y, weight).loo_residuals_[-1], 5.0 - without.predict(x[-1:])[0], rtol=1e-6)
    said = r"a leverage of 1 - \de-\d+: few digits of its leave-one-out residual"
    with pytest.warns(UserWarning, match=said):
        clone(model).fit_chunks(split(x, y, weight))
    monkeypatch.setattr(arrays, "memory", lambda array, free=False: 1000)
    with pytest.warns(UserWarning, match=said):
        clone(model).fit(x, y, weight)


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


def test_other_sizes_of_chunks_differ_in_rounding_alone(rows):
    X, y, weight, new = rows
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])])
    first, second = (clone(model).fit_chunks(split(X, y, weight, size=size)) for size in (170, 37))
    assert_allclose(second.predict(new), first.predict(new), rtol=1e-10)
    assert_allclose(second.loo_residuals_, first.loo_residuals_, rtol=1e-9, atol=1e-10)


def test_partial_fit_goes_on_from_fit(rows):
    X, y, weight, new = rows
    model = LSSVR(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:40])])
    grown = clone(model).fit(X[:300], y[:300], weight[:300]).partial_fit(X[300:], y[300:], weight[300:])
    assert_allclose(grown.predict(new), clone(model).fit(X, y, weight).predict(new), rtol=1e-9)


@pytest.mark.parametrize("leave_one_out", ["rows", "none"])
@pytest.mark.parametrize("C", [1.0, 1e5])
def test_partial_fit_goes_on_from_fit_chunks(rows, C, leave_one_out):
    X, y, weight, new = rows
    points = X[[*range(40), 3, 3, 7]]  # copies share their coefficient
    model = LSSVR(kernels.RBF(2.0), C=C, steps=[sparsify.Given(points)])
    grown = clone(model).fit_chunks(split(X[:300], y[:300], weight[:300], size=70), leave_one_out=leave_one_out)
    grown.partial_fit(X[300:], y[300:], weight[300:])
    whole = clone(model).fit(X, y, weight)
    assert_allclose(grown.predict(new), whole.predict(new), rtol=1e-9, atol=1e-11 * np.max(np.abs(y)))
    assert_allclose(
        grown.predict_interval(new, method="jackknife+"), whole.predict_interval(new, method="jackknife+"), rtol=1e-7
    )


def test_partial_fit_after_fit_chunks_keeps_a_uniform_sample():
    number = np.arange(18_000.0)  # of which every third row counts
    y, weight = np.sin(number / 3000.0), np.where(number % 3 == 0, 2.0, 0.0)
    model = LSSVR(kernels.RBF(3000.0), C=1.0, steps=[sparsify.Given(number[::2000, None])])
    model.fit_chunks([(number[:15_300, None], y[:15_300], weight[:15_300])])  # 5100 that count, 5000 of them kept
    model.partial_fit(number[15_300:, None], y[15_300:], weight[15_300:])
    kept = model.fitted_.members[0].stream.sample.arrays[0][:, 0]
    assert len(np.unique(kept)) == 5000
    assert not (kept % 3).any()
    assert abs(np.mean(kept >= 15_300) - 0.15) < 0.01


def test_partial_fit_of_classes_goes_on_from_fit_chunks(rows):
    X, y, _, new = rows
    labels = np.where(y[:, 0] > np.median(y[:, 0]), "up", "down")
    model = LSSVC(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:40])])
    grown = clone(model).fit_chunks(split(X[:300], labels[:300])).partial_fit(X[300:], labels[300:])
    whole = clone(model).fit(X, labels)
    assert_allclose(grown.decision_function(new), whole.decision_function(new), rtol=1e-9)


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


def sums(X, y, weight, blocks=(slice(None),)):
    parts = ((X[block].copy(), y[block], weight[block]) for block in blocks)
    return system.moments_of(parts, X.shape[1], y.shape[1], X)


def test_moments_add(rows):
    X, y, weight, _ = rows
    whole, first, second = (
        sums(X, y, weight),
        sums(X[:200], y[:200], weight[:200]),
        sums(X[200:], y[200:], weight[200:]),
    )
    blocks = sums(X, y, weight, [slice(0, 50), slice(50, 51), slice(51, None)])
    for name in ("weight", "phi", "targets", "scatter", "cross"):
        assert_allclose(getattr(blocks, name), getattr(whole, name), rtol=1e-11)
    for name in ("weight", "phi", "targets", "scatter", "cross"):
        assert_allclose(getattr(first + second, name), getattr(whole, name), rtol=1e-12)
    assert_allclose(whole.scatter, weight.sum() * np.cov(X.T, aweights=weight, bias=True), rtol=1e-12)


@pytest.mark.slow
def test_chunks_of_nothing_chosen(rows):
    X, y, _, new = rows
    model = LSSVR().fit_chunks(split(X, y))
    assert model.support_vectors_.shape == (500, 3)
    assert np.sqrt(np.mean(model.loo_residuals_**2)) < 0.2
    assert model.predict(new).shape == (50, 2)


# Sources --------------------------------------------------------------------------------------------------------------
def source_of(kind, X, y, weight, folder):
    """The same chunks of 170 rows in every disguise, with the names of columns where there are any."""
    if kind == "list":
        return split(X, y, weight), {}
    if kind == "function":
        return (lambda: iter(split(X, y, weight))), {}
    if kind == "generator":

        def chunks():
            yield from split(X, y, weight)

        return chunks, {}
    if kind == "arrays":
        return (X, y, weight), {}
    if kind == "frames":
        pd = pytest.importorskip("pandas")
        return (pd.DataFrame(X), pd.DataFrame(y), pd.Series(weight)), {}
    if kind == "memory maps":
        names = [folder / f"{i}.npy" for i in range(3)]
        for name, array in zip(names, (X, y, weight), strict=True):
            np.save(name, array)
        return tuple(np.load(name, mmap_mode="r") for name in names), {}
    pa = pytest.importorskip("pyarrow")
    from pyarrow import dataset, parquet

    columns = {"a": X[:, 0], "weight": weight, "b": X[:, 1], "c": X[:, 2], "u": y[:, 0], "v": y[:, 1]}
    table = pa.table(columns)
    parquet.write_table(table, folder / "rows.parquet")
    names = {"target": ["u", "v"], "weight": "weight"}
    if kind == "path":
        return str(folder / "rows.parquet"), names
    if kind == "folder":
        return folder, names
    return {"dataset": dataset.dataset(folder / "rows.parquet"), "table": table}[kind], {
        "columns": ["a", "b", "c"],
        **names,
    }


KINDS = ["list", "function", "generator", "arrays", "frames", "memory maps", "path", "folder", "dataset", "table"]


@pytest.mark.parametrize("kind", KINDS)
def test_sources_give_the_same_bits(rows, kind, tmp_path, monkeypatch):
    X, y, weight, new = rows
    monkeypatch.setattr(stream_rows, "CHUNK_BYTES", 170 * 8 * 3)
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])])
    expected = clone(model).fit_chunks(split(X, y, weight))
    source, names = source_of(kind, X, y, weight, tmp_path)
    model.fit_chunks(source, **names)
    if kind == "frames":  # columns lie in memory one after the other, and products add in another order
        assert_allclose(model.predict(new), expected.predict(new), rtol=1e-9)
        return
    assert np.array_equal(model.dual_coef_, expected.dual_coef_)
    assert np.array_equal(model.loo_residuals_, expected.loo_residuals_)
    if names:
        assert list(model.feature_names_in_) == ["a", "b", "c"]
    else:
        assert np.array_equal(model.predict(new), expected.predict(new))


def test_labels_from_a_file(rows, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y, _, _ = rows
    labels = np.where(y[:, 0] > np.median(y[:, 0]), "yes", "no")
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "label": labels})
    parquet.write_table(table, tmp_path / "rows.parquet")
    model = LSSVC(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:40, :2])])
    chunked = clone(model).fit_chunks(tmp_path / "rows.parquet", target="label")
    whole = model.fit(X[:, :2], labels)
    assert list(chunked.classes_) == ["no", "yes"]
    assert_allclose(chunked.dual_coef_, whole.dual_coef_, rtol=1e-7)


# What is kept ---------------------------------------------------------------------------------------------------------
def test_leave_one_out_as_asked(rows):
    X, y, weight, _ = rows
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])])
    whole = clone(model).fit(X, y, weight)
    press = clone(model).fit_chunks(split(X, y, weight), leave_one_out="press")
    none = clone(model).fit_chunks(split(X, y, weight), leave_one_out="none")
    assert_allclose(press.press_, whole.press_, rtol=1e-9)
    assert_allclose(none.dual_coef_, press.dual_coef_, rtol=1e-9)
    assert not any(hasattr(m, "loo_residuals_") or hasattr(m, "leverage_") for m in (press, none))
    assert not hasattr(none, "press_")


@pytest.mark.parametrize(
    ("sigma", "spread", "plain"),
    [(0.5, 1.0, [True, True]), (1.5, 1.0, [True, True]), (5.0, 3.0, [False, False]), (6.0, 1.0, [])],
)
def test_sums_of_plain_columns_where_the_basis_allows_them(rows, sigma, spread, plain, monkeypatch):
    """Without leave-one-out the rows are not whitened, unless the points or the sums are too ill-conditioned.

    Points more spread than the rows promise sums of a better condition than theirs.
    """
    X, y, weight, new = rows
    taken, refined = [], system.refined
    monkeypatch.setattr(system, "refined", lambda *parts: taken.append(refined(*parts)) or taken[-1])
    points = 5.0 + spread * (X[:60] - 5.0)
    C = 1e3 if spread == 1.0 else 1e6
    model = LSSVR(kernels.RBF(sigma), C=C, steps=[sparsify.Given(points)], robust="hampel")
    chunked = clone(model).fit_chunks(split(X, y, weight), leave_one_out="none")
    assert [found is not None for found in taken] == plain
    whole = model.fit(X, y, weight)
    assert_allclose(chunked.predict(new), whole.predict(new), rtol=1e-9, atol=1e-9)
    assert_allclose(
        chunked.predict_interval(new, method="jackknife+"), whole.predict_interval(new, method="jackknife+"), rtol=1e-6
    )


def test_many_rows_keep_press_alone(rows, monkeypatch):
    X, y, _, _ = rows
    monkeypatch.setattr(chunk_fits, "KEPT_ROWS", 599)
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])])
    assert not hasattr(clone(model).fit_chunks(split(X, y)), "loo_residuals_")
    monkeypatch.setattr(chunk_fits, "KEPT_ROWS", 600)
    assert clone(model).fit_chunks(split(X, y)).loo_residuals_.shape == (600, 2)


@pytest.mark.parametrize("leave_one_out", ["press", "none"])
def test_probabilities_from_the_sample(rows, leave_one_out):
    """All 600 rows are in the sample, so that it calibrates as the rows do."""
    X, y, weight, new = rows
    labels = (y[:, 0] > np.median(y[:, 0])).astype(int)
    model = LSSVC(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:40])], class_weight="balanced", robust="hampel")
    whole = clone(model).fit(X, labels, weight)
    chunked = clone(model).fit_chunks(split(X, labels, weight), leave_one_out=leave_one_out)
    assert_allclose(chunked.predict_proba(new), whole.predict_proba(new), rtol=1e-6)
    assert model.class_weight == "balanced"


def test_empty_chunks_and_chunks_of_no_weight(rows):
    X, y, _, new = rows
    weight = np.repeat([1.0, 0.0, 2.0], 200)
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])])
    whole = clone(model).fit(X, y, weight)
    chunks = [*split(X, y, weight, size=200), (X[:0], y[:0], weight[:0])]
    chunked = clone(model).fit_chunks(chunks)
    assert_allclose(chunked.predict(new), whole.predict(new), rtol=1e-9)
    assert_allclose(chunked.loo_residuals_, whole.loo_residuals_, rtol=1e-7, atol=1e-10)


def test_a_sample_is_uniform_and_adds_in_any_order():
    values = np.arange(3000.0)
    parts = [stream_rows.sample_rows(50, i, values[i * 300 : (i + 1) * 300]) for i in range(10)]
    total = sum(parts[1:], parts[0])
    other = parts[7] + (parts[2] + sum((parts[i] for i in (9, 0, 1, 3, 4, 5, 6)), parts[8]))
    assert len(np.unique(total.arrays[0])) == 50
    assert np.array_equal(other.arrays[0], total.arrays[0])
    first, second = values[:500], values[500:]
    means = [
        np.mean((stream_rows.sample_rows(40, 2 * i, first) + stream_rows.sample_rows(40, 2 * i + 1, second)).arrays[0])
        for i in range(200)
    ]
    assert abs(np.mean(means) - 1499.5) < 4 * 866.0 / np.sqrt(40 * 200)
    assert 0.8 < np.std(means) / (866.0 / np.sqrt(40)) < 1.2


def test_planned_on_the_sample_in_one_pass(rows):
    """Selector and tuner see the sample; the chunks are read three times in all, once more for the first of them."""
    X, y, _, _ = rows
    reads = []

    def chunks():
        reads.append(0)
        for chunk in split(X, y[:, 0]):
            reads[-1] += 1
            yield chunk

    model = LSSVR(kernels.RBF(), C=10.0, steps=[sparsify.RandomlyPivoted(50, random_state=0)]).fit_chunks(chunks)
    assert reads == [1, 4, 4, 4]
    assert model.support_vectors_.shape == (50, 3)


# Intervals ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("leave_one_out", ["rows", "press", "none"])
@pytest.mark.parametrize("robust", [None, "hampel"])
def test_intervals_of_chunks_equal_those_of_the_whole(rows, robust, leave_one_out):
    """All 600 rows are in the sample."""
    X, y, weight, new = rows
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])], robust=robust)
    whole = clone(model).fit(X, y, weight)
    chunked = clone(model).fit_chunks(split(X, y, weight), leave_one_out=leave_one_out)
    for method in ("jackknife+", "jackknife-minmax"):
        expected = whole.predict_interval(new, 0.8, method)
        assert_allclose(chunked.predict_interval(new, 0.8, method), expected, rtol=1e-8)


@pytest.mark.parametrize("begin", ["partial_fit", "fit"])
def test_intervals_of_a_stream_equal_those_of_the_whole(rows, begin):
    X, y, weight, new = rows
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])])
    parts = getattr(clone(model), begin)(X[:300], y[:300], weight[:300])
    parts.partial_fit(X[300:400], y[300:400], weight[300:400]).partial_fit(X[400:], y[400:], weight[400:])
    expected = clone(model).fit(X, y, weight).predict_interval(new, method="jackknife+")
    assert_allclose(parts.predict_interval(new, method="jackknife+"), expected, rtol=1e-8)


@pytest.mark.parametrize("how", ["fit_chunks", "partial_fit"])
def test_intervals_from_a_sample_equal_real_refits(rows, how, monkeypatch):
    """Each row of the sample is left out of the machine of all 600 rows; ranks are those of the sample's size."""
    X, y, weight, new = rows
    y = y[:, 0]
    monkeypatch.setattr(stream_sums, "SAMPLE_ROWS", 40)
    monkeypatch.setattr(chunk_fits, "SAMPLE_ROWS", 40)
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])])
    found = clone(model)
    if how == "fit_chunks":
        found.fit_chunks(split(X, y, weight))
    else:
        for chunk in split(X, y, weight):
            found.partial_fit(*chunk)
    sample = found.fitted_.members[0].loo_sample
    assert sample.total == 600
    chosen = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in sample.X]
    assert len(set(chosen)) == len(chosen)
    assert len(chosen) == 40
    assert (weight[chosen] > 0).all()
    assert 0 < np.mean(np.array(chosen) < 170) < 1  # from several chunks
    lower, upper = [], []
    for i in chosen:
        without = clone(model).fit(X, y, np.where(np.arange(600) == i, 0.0, weight))
        size = abs(y[i] - without.predict(X[i : i + 1])[0])
        lower.append(without.predict(new) - size)
        upper.append(without.predict(new) + size)
    m = len(chosen)
    low, high = math.floor(0.2 * (m + 1)), math.ceil(0.8 * (m + 1))
    expected = np.column_stack([np.sort(lower, axis=0)[low - 1], np.sort(upper, axis=0)[high - 1]])
    assert_allclose(found.predict_interval(new, 0.8), expected, rtol=1e-8)


# Rows that do not fit -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("robust", [None, "hampel"])
def test_fit_in_blocks_equals_fit(rows, robust, monkeypatch):
    X, y, weight, new = rows
    model = LSSVR(kernels.RBF(2.0), C=100.0, steps=[sparsify.Random(60, random_state=0)], robust=robust)
    whole = clone(model).fit(X, y, weight)
    monkeypatch.setattr(arrays, "memory", lambda array, free=False: None if free else 16 * 60 * 300)
    blocks = clone(model).fit(X, y, weight)
    assert_allclose(blocks.predict(new), whole.predict(new), rtol=1e-9)
    assert_allclose(blocks.loo_residuals_, whole.loo_residuals_, rtol=1e-7, atol=1e-10)
    assert_allclose(blocks.leverage_, whole.leverage_, rtol=1e-8, atol=1e-14)
    assert np.array_equal(blocks.support_, whole.support_)
    with pytest.raises(MemoryError, match="basis"):
        blocks.predict_interval(new)
    tuned = LSSVR(kernels.RBF(2.0), steps=[sparsify.Random(60, random_state=0)]).fit(X, y[:, 0])
    assert tuned.press_ / 600 < 0.05


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows():
    script = """
import sys
import numpy as np
from lssvm import LSSVR, kernels, sparsify

points = np.random.default_rng(1).standard_normal((100, 10))

def chunks():
    for i in range(int(sys.argv[1])):
        X = np.random.default_rng(i).standard_normal((20_000, 10))
        yield X, X[:, 0] + np.sin(X[:, 1])

LSSVR(kernels.RBF(5.0), C=1.0, steps=[sparsify.Given(points)]).fit_chunks(chunks, leave_one_out="press")
lines = open("/proc/self/status").read().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak is read from /proc")
    peaks = [
        int(subprocess.run([sys.executable, "-c", script, n], check=True, capture_output=True, text=True).stdout)
        for n in ("10", "20")
    ]
    assert peaks[1] < 1.05 * peaks[0]


def test_tuples_of_chunks_and_of_frames(rows):
    X, y, _, new = rows
    model = LSSVR(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:40])])
    whole = clone(model).fit(X, y).predict(new)
    assert_allclose(clone(model).fit_chunks(((X[:200], y[:200]), (X[200:], y[200:]))).predict(new), whole, rtol=1e-9)
    pl = pytest.importorskip("polars")
    framed = clone(model).fit_chunks((pl.DataFrame(X), pl.DataFrame(y)))
    assert_allclose(framed.predict(pl.DataFrame(new)), whole, rtol=1e-9)


def test_mistakes(rows):
    X, y, _, _ = rows
    growing = []
    with pytest.raises(ValueError, match=r"the number of rows was 600 and is now 1200.* the same rows"):
        LSSVR(kernels.RBF(1.0), C=1.0).fit_chunks(
            lambda: iter([(X, y)] * (growing.append(1) or max(1, len(growing) - 1)))
        )
    with pytest.raises(ValueError, match=r"labels of several types \(False, 'down'\): use one type"):
        LSSVC().fit_chunks([(X, y[:, 0] > 0), (X, np.where(y[:, 0] > 0, "up", "down"))])
    with pytest.raises(TypeError, match="read only once"):
        LSSVR().fit_chunks(iter([(X, y)]))
    with pytest.raises(ValueError, match="empty"):
        LSSVR().fit_chunks([])
    with pytest.raises(ValueError, match="yield a tuple"):
        LSSVR().fit_chunks([X])
    with pytest.raises(ValueError, match="got 4 parts"):
        LSSVR().fit_chunks([(X, y, y, y)])
    with pytest.raises(TypeError, match="chunks=3: give a list"):
        LSSVR().fit_chunks(3)
    with pytest.raises(ValueError, match=r"y has shape \(600, 2\) in chunk 1.*the same outputs"):
        LSSVR().fit_chunks([(X, y[:, 0]), (X, y)])
    with pytest.raises(ValueError, match="in the second pass"):
        LSSVR().fit_chunks(iter([iter([(X, y)]), iter([])]).__next__)
    by_row = [
        sparsify.Given([0, 1]),
        sparsify.Substrate(validation=[0, 1]),
        sparsify.Components(validation=[0, 1]),
        tune.KFold(groups=np.arange(600) // 2),
        tune.KFold(splitter=PredefinedSplit(np.arange(600) % 5)),
    ]
    for step in by_row:
        with pytest.raises(ValueError, match=rf"{type(step).__name__}: \w+ refers to row numbers"):
            LSSVR(steps=[step]).fit_chunks([(X, y)])
    with pytest.raises(ValueError, match=r"chunk 1: Input y contains NaN.*row 3"):
        LSSVR().fit_chunks([(X, y), (X, np.where(np.arange(600)[:, None] == 3, np.nan, y))])
    with pytest.raises(ValueError, match=r"leave_one_out must be .* got 'all'"):
        LSSVR().fit_chunks([(X, y)], leave_one_out="all")
    with pytest.raises(ValueError, match="same number"):
        LSSVR().fit_chunks((X, y[:-1]))
    with pytest.raises(ValueError, match="chunks is neither"):
        LSSVR().fit_chunks([(X, y)], target="y")
    with pytest.raises(ValueError, match="at least 2 are required"):
        LSSVR().fit_chunks([(X[:5], y[:5], np.zeros(5)), (X[:1], y[:1])])
    with pytest.raises(ValueError, match="at least 2 are needed"):
        LSSVC().fit_chunks([(X[:5], np.zeros(5)), (X[:5], np.ones(5), np.zeros(5))])
    refused = (
        (LSSVR(robust="hampel"), "robust='hampel'.*use fit or fit_chunks"),
        (LSSVR(kernels.Precomputed()), "Precomputed: give a kernel of the columns"),
        (LSSVC(class_weight="balanced"), "class_weight='balanced'.*give a dict"),  # of all rows, not of a chunk
    )
    for unsuited, reason in refused:
        with pytest.raises(AttributeError, match="partial_fit") as error:
            unsuited.partial_fit(X, y)
        assert re.search(reason, str(error.value.__cause__))
    known = LSSVC(kernels.RBF(2.0), C=1.0).partial_fit(X, y[:, 0] > 5, classes=[False, True])
    with pytest.raises(ValueError, match=r"classes=\[0, 1, 2\] differs from the classes of the first call"):
        known.partial_fit(X, y[:, 0] > 5, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not among the classes"):
        LSSVC(kernels.RBF(2.0), C=1.0).partial_fit(X, y[:, 0] > 0).partial_fit(X, np.full(600, 7))
    model = LSSVR(kernels.RBF(2.0), C=1.0)
    for fitted in (clone(model).partial_fit(X, y), clone(model).fit_chunks([(X, y)])):
        with pytest.raises(ValueError, match="only a sample"):
            fitted.predict_interval(X, method="cv+")
    with pytest.warns(UserWarning, match="condition"):
        LSSVR(kernels.RBF(10.0), C=1e12, steps=[sparsify.Given(X[:100])]).partial_fit(X, y)


@pytest.mark.parametrize("changed", ["X", "y", "weight", "order", "later pass"])
@pytest.mark.parametrize("leave_one_out", ["auto", "none"])
def test_chunks_that_change_between_passes_are_refused(rows, changed, leave_one_out):
    """The sixth digit of one value, or two rows exchanged, in the second of three chunks."""
    X, y, weight = rows[0], rows[1], rows[2] + 1.0
    passes = []

    def chunks():
        passes.append(1)  # 1: the first chunk alone, 2: the scan, 3: the sums, 4: gradients or leave-one-out
        for number in range(3):
            part = [array[200 * number : 200 * (number + 1)].copy() for array in (X, y[:, 0], weight)]
            if number == 1 and len(passes) > (3 if changed == "later pass" else 2):
                array = part[{"y": 1, "weight": 2}.get(changed, 0)]
                if changed == "order":
                    part = [array[[0, 2, 1, *range(3, 200)]] for array in part]
                else:
                    array.reshape(-1)[7] += 1e-4
            yield tuple(part)

    model = LSSVR(kernels.RBF(1.0), C=1.0, steps=[sparsify.Given(X[:20])])
    with pytest.raises(ValueError, match=r"not the same as in the first pass: .*fix the seed"):
        model.fit_chunks(chunks, leave_one_out=leave_one_out)
    assert not hasattr(model, "dual_coef_")


def test_labels_that_change_between_passes_are_refused(rows):
    X, labels = rows[0], rows[2]
    draw = np.random.default_rng(0)
    for kind in (labels, labels.astype(str), labels.astype(str).astype(object), np.where(labels > 0, 1.0, -1.0)):
        model = LSSVC(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:20])])
        with pytest.raises(ValueError, match="not the same as in the first pass: y has changed"):
            model.fit_chunks(lambda kind=kind: [(X, draw.permutation(kind))])


@pytest.mark.parametrize("kind", ["numbers", "labels"])
@pytest.mark.parametrize("leave_one_out", ["rows", "none"])
def test_the_same_rows_in_other_chunks_are_accepted(rows, kind, leave_one_out):
    """A reader may cut its rows anew, and read a value of float32 in another way."""
    X, y, weight = rows[0], rows[1][:, 0], rows[2] + 1.0
    y = y if kind == "numbers" else np.where(y > 0, "high", "low")
    passes = []

    def chunks():
        passes.append(1)
        size = 150 + 37 * len(passes)
        again = X.astype(np.float32) if len(passes) == 3 else np.nextafter(X, np.inf)
        for start in range(0, len(X), size):
            cut = slice(start, start + size)
            yield again[cut], y[cut], weight[cut]

    model = (LSSVR if kind == "numbers" else LSSVC)(kernels.RBF(1.0), C=1.0, steps=[sparsify.Given(X[:20])])
    expected = clone(model).fit_chunks([(X, y, weight)], leave_one_out=leave_one_out)
    model.fit_chunks(chunks, leave_one_out=leave_one_out)
    assert len(passes) > 3
    assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-5, atol=1e-7)


def test_the_fingerprint_of_many_rows_is_the_sum_over_the_rows_one_by_one():
    X = np.random.default_rng(0).standard_normal((3000, 2))
    turns = [row * stream_rows.TURN % stream_rows.CIRCLE / stream_rows.CIRCLE for row in range(3000)]
    phases = np.exp(2j * np.pi * np.array(turns))
    expected = [phases @ X[:, 0], phases @ X[:, 1], phases @ X.sum(axis=1), phases.sum()]
    assert_allclose(fingerprint(X, X.sum(axis=1), None).waves, expected, atol=1e-10)


def test_the_fingerprint_of_rows_is_the_same_for_every_kind_of_array_and_every_cut(rows):
    torch = pytest.importorskip("torch")
    X, y, weight, _ = rows
    expected = fingerprint(X, y, weight)
    tensors = fingerprint(*map(torch.tensor, (X, y, weight)))
    pieces = [fingerprint(X[a:b], y[a:b], weight[a:b]) for a, b in ((0, 7), (7, 7), (7, 500), (500, 600))]
    others = (
        tensors,
        fingerprint(np.asfortranarray(X), y.tolist(), weight),
        (pieces[0] + pieces[1]) + pieces[2] + pieces[3],
    )
    for other in others:
        assert expected.difference(other) == ""
        assert_allclose(other.waves, expected.waves, atol=1e-12 * np.sqrt(np.max(expected.squares)))
    assert expected.difference(fingerprint(X[::-1], y, weight)) == "column 0 of X has changed"
    assert expected.difference(fingerprint(X, y, None)) == "sample_weight has changed"
    assert "was 600 and is now 599" in expected.difference(fingerprint(X[1:], y[1:], weight[1:]))


def test_mistakes_in_files(rows, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, _, _, _ = rows
    name = str(tmp_path / "rows.parquet")
    parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), name)
    with pytest.raises(ValueError, match="name the column or columns to predict"):
        LSSVR().fit_chunks(name)
    with pytest.raises(ValueError, match="no column 'c'"):
        LSSVR().fit_chunks(name, target="c")
    with pytest.raises(ValueError, match=r"columns=\['a', 'b'\] lists 'b' twice"):
        LSSVR().fit_chunks(name, columns=["a", "b"], target="b")
    parquet.write_table(pa.table({"a": X[:, 0], "kind": ["red"] * len(X), "b": X[:, 1]}), name)
    with pytest.raises(ValueError, match="column 'kind' contains values that are not numeric"):
        LSSVR(categorical_features=None).fit_chunks(name, target="b")


def test_rows_of_no_weight_are_not_sampled():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (6000, 1))
    y, weights = np.sinc(X[:, 0]) + 0.1 * rng.standard_normal(6000), np.zeros(6000)
    weights[:25] = 1.0
    chunks = [(X[:3000], y[:3000], weights[:3000]), (X[3000:], y[3000:], weights[3000:])]
    model = LSSVR(kernels.RBF(1.0), C=1.0, steps=[sparsify.Given(X[:10])])
    expected = model.fit(X, y, sample_weight=weights).predict_interval(X[:4])
    assert np.isfinite(expected).all()
    assert_allclose(model.fit_chunks(chunks).predict_interval(X[:4]), expected, rtol=1e-8)


@pytest.mark.parametrize("change", [lambda X: -X, lambda X: X[:, ::-1], lambda X: np.roll(X, 1, axis=1)])
def test_signs_and_the_order_of_columns_count_in_a_checksum(change):
    """What augmentation of images does to the rows of a chunk."""
    X = np.random.default_rng(0).standard_normal((100, 4))
    passes = []

    def chunks():
        passes.append(1)
        rows = change(X) if len(passes) % 2 else X
        yield from ((rows[i : i + 50], X[i : i + 50, 0]) for i in (0, 50))

    with pytest.raises(ValueError, match="not the same as in the first pass"):
        LSSVR(kernels.RBF(1.0), C=1.0).fit_chunks(chunks)


@pytest.mark.parametrize("step", [sparsify.Random(20, random_state=0), sparsify.RandomlyPivoted(20, random_state=0)])
def test_chunks_have_the_basis_of_fit(step):
    """Up to 5000 rows, steps see the same rows in the same order, however they are divided into chunks."""
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((200, 3)), (np.arange(200) % 7 > 0) * 1.0
    y = np.sin(X[:, 0])
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=[step])
    whole = model.fit(X, y, weight)
    points, predicted = whole.support_vectors_, whole.predict(X)
    for ends in ([200], [90, 200], [10, 20, 30, 200]):
        chunks = [(X[a:b], y[a:b], weight[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
        found = model.fit_chunks(chunks)
        assert_array_equal(found.support_vectors_, points)
        assert_allclose(found.predict(X), predicted, rtol=1e-6)
