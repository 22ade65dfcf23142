"""Dask: the same bits as the same chunks in one process, whoever adds them and whoever dies."""

import math
import os
import signal
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lssvm import LSSVC, LSSVR, arrays, cluster, diagnose, kernels, load, problem, save, sparsify, system
from lssvm.cluster import DaskChunks
from lssvm.stream.sources import Chunks

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")
from distributed import Client, LocalCluster  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # distributed has its own


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, 1.0, (900, 3))
    y = np.column_stack([np.sin(X).sum(axis=1), X[:, 0] * X[:, 1]]) + 0.1 * rng.standard_normal((900, 2))
    return X, y, rng.integers(0, 3, 900).astype(float)


def regressor(X, **options):
    return LSSVR(kernels.RBF(2.0), C=10.0, steps=[sparsify.Given(X[:40])], **options)


def split(*arrays, size=100):
    return [tuple(a[i : i + size] for a in arrays) for i in range(0, len(arrays[0]), size)]


def collections(*arrays, size=100):
    return [da.from_array(a, chunks=(size, *a.shape[1:])) for a in arrays]


class Tree:
    """A sum that remembers who was added to whom."""

    def __init__(self, name):
        self.name = name

    def __add__(self, other):
        return Tree((self.name, other.name))


@pytest.mark.parametrize("n", [*range(1, 23), 63, 64, 65])
def test_the_tree_has_one_shape(n):
    X = np.zeros((n, 1))
    in_order = Chunks(lambda: iter(split(X, X[:, 0], size=1))).reduce(lambda number, *chunk: Tree(number))
    with dask.config.set(scheduler="synchronous"):
        tasks = DaskChunks(*collections(X, X[:, 0], size=1)).reduce(lambda number, *chunk: Tree(number))
    assert tasks.name == in_order.name
    assert str(in_order.name).count(",") == n - 1


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("robust", [None, "hampel"])
def test_arrays_equal_whole_and_chunks(rows, scheduler, robust):
    X, y, weight = rows
    model = regressor(X, robust=robust)
    whole = clone(model).fit(X, y, weight)
    chunked = clone(model).fit_chunks(split(X, y, weight))
    with dask.config.set(scheduler=scheduler):
        lazy = clone(model).fit(*collections(X, y, weight))
        predictions = lazy.predict(da.from_array(X, chunks=(250, 2)))
    assert isinstance(predictions, da.Array)
    assert predictions.shape == (900, 2)
    assert_allclose(predictions.compute(), whole.predict(X), rtol=1e-9)
    assert np.array_equal(lazy.dual_coef_, chunked.dual_coef_)
    assert lazy.press_ == chunked.press_
    assert_allclose(lazy.press_, whole.press_, rtol=1e-9)
    for name in ("weights_", "leverage_", "loo_residuals_", "loo_predictions_"):
        found = getattr(lazy, name)
        assert isinstance(found, da.Array)
        assert found.shape == getattr(whole, name).shape
        with dask.config.set(scheduler=scheduler):
            assert_allclose(found.compute(), getattr(whole, name), rtol=1e-6, atol=1e-9, err_msg=name)
            assert np.array_equal(found.compute(), getattr(chunked, name))
    with dask.config.set(scheduler=scheduler):
        intervals = lazy.predict_interval(da.from_array(X, chunks=(250, 2)), 0.8, "jackknife+")
    assert isinstance(intervals, da.Array)
    assert_allclose(intervals.compute(), whole.predict_interval(X, 0.8, "jackknife+"), rtol=1e-8)


def test_blocks_that_a_filter_has_emptied(rows):
    X, y, _ = rows
    labels = np.where(y[:, 0] > 0, "up", "down")
    kept = np.arange(900) >= 400  # nothing of the first block
    with dask.config.set(scheduler="synchronous"):
        lazy_X, lazy_y, lazy_labels, mask = (da.from_array(a, chunks=(250, *a.shape[1:])) for a in (X, y, labels, kept))
        model = regressor(X).fit(lazy_X[mask], lazy_y[mask])
        whole = regressor(X).fit(X[kept], y[kept])
        assert_allclose(model.predict(lazy_X[mask]).compute(), whole.predict(X[kept]), rtol=1e-9)
        assert model.predict_interval(lazy_X[mask]).compute().shape == (500, 2, 2)
        classes = LSSVC(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:40])]).fit(lazy_X[mask], lazy_labels[mask])
        assert classes.predict(lazy_X[mask]).compute().shape == (500,)
        assert classes.predict_proba(lazy_X[mask]).compute().shape == (500, 2)


def test_a_far_row_changes_no_other_row(rows):
    X, y, _ = rows
    X = np.column_stack([X, X[:, :2] ** 2])
    model = LSSVR(kernels.RBF(4.0), C=10.0, steps=[sparsify.Given(X[:40])]).fit(X[:300], y[:300, 0])
    far = X[300:600].copy()
    far[[7, 150], 1] = 999999999.0, 1e300
    (lazy,) = collections(far)
    alone = np.concatenate([model.predict(far[i : i + 1]) for i in range(len(far))])
    assert_allclose(model.predict(lazy).compute(scheduler="synchronous"), alone, rtol=1e-9)
    others = np.delete(np.arange(300), [7, 150])
    assert_allclose(alone[others], model.predict(X[300:600])[others], rtol=1e-9)


def test_components_are_lazy_and_partial_fit_takes_rows_in_memory(rows):
    X, y, _ = rows
    lazy = da.from_array(X, chunks=(250, 3))
    model = LSSVR(kernels.Additive(kernels.RBF(1.0)), C=1.0, steps=[sparsify.Given(X[:40])]).fit(X, y)
    with dask.config.set(scheduler="synchronous"):
        found = model.components(lazy)
        assert isinstance(found, da.Array)
        assert_allclose(found.compute(), model.components(X), rtol=1e-9, atol=1e-9)  # of large coefficients
        with pytest.raises(TypeError, match="partial_fit takes rows in memory"):
            model.partial_fit(lazy, da.from_array(y, chunks=(250, 2)))


def test_classes_and_frames(rows):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, weight = rows
    labels = np.array(["low", "mid", "top"])[(np.argsort(np.argsort(y[:, 0])) * 3) // 900]
    frame = pd.DataFrame(X, columns=["one", "two", "three"]).assign(label=labels, weight=weight)
    model = LSSVC(kernels.RBF(2.0), C=1.0, steps=[sparsify.Given(X[:40])], class_weight="balanced")
    inputs = ["one", "two", "three"]
    whole = clone(model).fit(frame[inputs], labels, weight)
    with dask.config.set(scheduler="synchronous"):
        table = dd.from_pandas(frame, npartitions=4)
        lazy = clone(model).fit(table[inputs], table["label"], table["weight"])
        assert list(lazy.feature_names_in_) == inputs
        assert list(lazy.classes_) == ["low", "mid", "top"]
        decision, labels_ = lazy.decision_function(table[inputs]), lazy.predict(table[inputs])
        assert isinstance(labels_, da.Array)
        assert_allclose(decision.compute(), whole.decision_function(frame[inputs]), rtol=1e-9, atol=1e-12)
        assert np.array_equal(labels_.compute(), whole.predict(frame[inputs]))
        assert_allclose(lazy.predict_proba(table[inputs]).compute(), whole.predict_proba(frame[inputs]), rtol=1e-6)
        assert lazy.score(table[inputs], table["label"]) == whole.score(frame[inputs], labels)
        assert_allclose(lazy.loo_residuals_.compute(), whole.loo_residuals_, rtol=1e-7, atol=1e-9)
        assert np.array_equal(lazy.loo_predictions_.compute(), whole.loo_predictions_)
        two = clone(model).fit(table[inputs], table["label"] == "low")
        assert_allclose(two.loo_residuals_.compute(), clone(model).fit(frame[inputs], labels == "low").loo_residuals_)


@pytest.mark.slow
def test_what_travels_does_not_hold_the_rows(rows, tmp_path, monkeypatch):
    """Lazy arrays have the training rows in their graph: they go neither into a file nor to the workers."""
    X, y, weight = rows
    arrived = []

    def call(model, *arguments):
        arrived.append(model)
        return _call(model, *arguments)

    _call = cluster._call
    monkeypatch.setattr(cluster, "_call", call)
    with dask.config.set(scheduler="synchronous"):
        model = regressor(X).fit(*collections(X, y, weight))
        save(model, tmp_path / "m.lssvm")
        read = load(tmp_path / "m.lssvm")
        assert not hasattr(read, "loo_residuals_")
        assert np.array_equal(read.predict_interval(X), model.predict_interval(X))
        expected = model.predict(X)
        arrived.clear()
        found = model.predict(da.from_array(X, chunks=(450, 3)))
        del arrived[:1]  # the example
        assert_allclose(found.compute(), expected, rtol=1e-9)
    assert len(arrived) == 2
    assert not any(arrays.is_dask(value) for sent in arrived for value in vars(sent).values())
    assert isinstance(model.loo_residuals_, da.Array)
    assert diagnose.loo_values(model).sampled


def test_nothing_given_and_empty_partitions(rows):
    X, y, _ = rows
    with dask.config.set(scheduler="synchronous"):
        table = da.from_array(np.column_stack([X, y[:, 0]]), chunks=(150, 4))
        table = table[table[:, 0] > 4.0]  # unknown lengths
        model = LSSVR(steps=[sparsify.Random(60, random_state=0)]).fit(table[:, :3], table[:, 3])
        kept = X[:, 0] > 4.0
        assert model.press_ / kept.sum() < 0.05
        assert model.predict(table[:, :3]).compute().shape == (kept.sum(),)
        head = da.from_array(X, chunks=(150, 3))
        empty = da.concatenate([head, head[:0]])
        again = regressor(X).fit(empty, da.from_array(y, chunks=(150, 2)).rechunk((empty.chunks[0], 2)))
        assert_allclose(again.predict(X), regressor(X).fit(X, y).predict(X), rtol=1e-9)


def test_mistakes(rows):
    X, y, weight = rows
    dX, dy, _ = collections(X, y, weight)
    with pytest.raises(TypeError, match="y is a ndarray"):
        LSSVR().fit(dX, y)
    with pytest.raises(ValueError, match="inconsistent"):
        LSSVR().fit(dX, dy[:-1])
    with pytest.raises(ValueError, match="row numbers"):
        LSSVR(steps=[sparsify.Given([0, 1])]).fit(dX, dy)
    with pytest.raises(NotFittedError):
        LSSVR().predict(dX)
    model = LSSVR(kernels.RBF(2.0), C=1.0).fit(X, y)
    for wrong, columns in ((dX[:, :2], 2), (dX[:, 0], 0)):
        with pytest.raises(ValueError, match=f"X has {columns} features.*3"):
            model.predict(wrong)


def drawn_anew(block):
    return np.random.default_rng().normal(size=block.shape)


def test_blocks_that_change_between_passes_are_refused(rows):
    X, y, weight = rows
    dX, dy, dv = collections(X, y, weight, size=300)
    for changed in ((dX.map_blocks(drawn_anew), dy), (dX, dy.map_blocks(drawn_anew, dtype=float), dv)):
        with pytest.raises(ValueError, match=r"not the same as in the first pass.*persist\(\)"):
            regressor(X).fit(*changed)
    drawn = da.random.default_rng(0).normal(size=(900, 3), chunks=(300, 3))  # its graph holds the seeds
    assert np.isfinite(regressor(X).fit(drawn, dy).press_)


# Dense models ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def iterative(monkeypatch):
    """Dense models of so few rows are solved by conjugate gradients, and their kernel matrix has many tiles."""
    for name in ("ITERATIVE_ROWS", "FACTORISED_ROWS"):
        monkeypatch.setattr(problem.problem, name, 50)
    monkeypatch.setattr(cluster, "TILE", 128)


@pytest.mark.parametrize("stored", [True, False])
def test_products_of_conjugate_gradients(rows, stored, iterative, monkeypatch):
    X, y, weight = (part[:400] for part in rows)
    whole = LSSVR(kernels.RBF(2.0), C=10.0, steps=()).fit(X, y, weight)
    coef, whole = whole.dual_coef_, whole.leave_one_out()
    tiles = []

    def tile(*arguments):
        tiles.append(arguments[3:])
        return _tile(*arguments)

    _tile = cluster._tile
    monkeypatch.setattr(cluster, "_tile", tile)
    monkeypatch.setattr(cluster, "_worker_memory", lambda: math.inf if stored else 0.0)
    with dask.config.set(scheduler="synchronous"):
        lazy = LSSVR(kernels.RBF(2.0), C=10.0, steps=()).fit(*collections(X, y, weight))
    assert_allclose(lazy.dual_coef_, coef, rtol=0, atol=1e-9 * np.abs(coef).max())
    assert_allclose(lazy.loo_residuals_, whole.loo_residuals_, rtol=1e-6, atol=1e-9)
    count = math.ceil(np.count_nonzero(weight) / 128)
    if stored:
        assert sorted(tiles) == [(number,) for number in range(count)]
    else:
        assert len(tiles) % count == 0
        assert len(tiles) > 10 * count


def test_one_fit_of_all_rows_after_a_search(rows, iterative):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, _ = (part[:120] for part in rows)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y[:, 0], up=y[:, 0] > y[:, 0].mean())
    with dask.config.set(scheduler="synchronous"):
        table = dd.from_pandas(frame, npartitions=3)
        model = LSSVR(kernels.RBF(2.0), steps=[]).fit(table[["a", "b", "c"]], table["y"])
        classes = LSSVC(kernels.RBF(2.0), C=1.0, steps=[]).fit(table[["a", "b", "c"]], table["up"])
    whole = LSSVR(kernels.RBF(2.0), steps=[]).fit(frame[["a", "b", "c"]], frame["y"])
    assert_allclose(model.C_, whole.C_, rtol=1e-6)
    assert len(model.support_) == len(classes.support_) == 120
    assert system.iterative.distributed.get() is None


# A cluster of processes -----------------------------------------------------------------------------------------------
def doomed(block, folder, reading, block_info=None):
    """Chunk 3 takes its worker with it the first time that it is read for the n-th pass."""
    number = block_info[0]["chunk-location"][0]
    if number == 3:
        name = folder / "reads"
        reads = int(name.read_text()) + 1 if name.exists() else 1
        name.write_text(str(reads))
        if reads == reading:
            os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.slow
@pytest.mark.parametrize("reading", [1, 2, 3])  # the scan, the sums, leave-one-out
def test_a_killed_worker_changes_nothing(rows, tmp_path, reading):
    X, y, weight = rows
    expected = regressor(X).fit_chunks(split(X, y, weight))
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers, Client(workers) as client:
        dX, dy, dweight = collections(X, y, weight)
        dX = dX.map_blocks(doomed, tmp_path, reading, dtype=float, meta=np.empty((0, 3)))
        model = regressor(X).fit(dX, dy, dweight)
        assert client is not None
    assert int((tmp_path / "reads").read_text()) == 4  # three passes, one of them twice
    assert np.array_equal(model.dual_coef_, expected.dual_coef_)
    assert model.press_ == expected.press_


@pytest.mark.slow
@pytest.mark.parametrize("stored", [True, False])
def test_a_worker_that_is_killed_between_products_changes_nothing(rows, stored, iterative, monkeypatch):
    """Its tiles are computed again by the other one: the result has the same bits."""
    X, y, weight = (part[:400] for part in rows)
    model = LSSVR(kernels.RBF(2.0), C=10.0, steps=())
    monkeypatch.setattr(cluster, "_worker_memory", lambda: math.inf if stored else 0.0)
    compute, calls, whole = cluster._compute, [], clone(model).fit(X, y, weight)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers, Client(workers) as client:
        expected = clone(model).fit(*collections(X, y, weight))

        def computed(node):
            calls.append(node)
            if len(calls) == 5:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            return compute(node)

        monkeypatch.setattr(cluster, "_compute", computed)
        found = clone(model).fit(*collections(X, y, weight))
    assert len(calls) > 5
    assert np.array_equal(found.dual_coef_, expected.dual_coef_)
    assert np.array_equal(found.loo_residuals_, expected.loo_residuals_)
    assert_allclose(found.dual_coef_, whole.dual_coef_, rtol=0, atol=1e-9 * np.abs(whole.dual_coef_).max())


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bits(rows):
    X, y, weight = rows
    expected = regressor(X, robust="hampel").fit_chunks(split(X, y, weight), leave_one_out="press")
    intervals = expected.predict_interval(X[:20])
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as workers, Client(workers) as client:
        for count in (1, 2, 4):
            workers.scale(count)
            client.wait_for_workers(count)
            model = regressor(X, robust="hampel").fit(*collections(X, y, weight))
            assert len(client.nthreads()) == count
            assert np.array_equal(model.dual_coef_, expected.dual_coef_)
            assert model.press_ == expected.press_
            assert np.array_equal(model.predict_interval(X[:20]), intervals)


def greedy(block):
    """More memory than a worker may have."""
    hold = np.ones(2**26)  # 512 MiB
    time.sleep(2.0)  # long enough for its nanny to see it
    return block + 0.0 * hold[0]


@pytest.mark.slow
def test_a_worker_out_of_memory_ends_with_the_remedy(rows):
    """Its nanny kills it, and Dask gives the chunk to another before it gives up; by default to three."""
    X, y, _ = rows
    limit = {"memory_limit": "400MiB", "dashboard_address": None, "silence_logs": 50}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(n_workers=1, threads_per_worker=1, **limit) as workers,
        Client(workers) as client,
    ):
        dX, dy = collections(X, y, size=300)
        dX = dX.map_blocks(greedy, dtype=float, meta=np.empty((0, 3)))
        with pytest.raises(RuntimeError, match=r"(?s)out of memory: use smaller chunks.*memory_limit.*Dask reports"):
            regressor(X).fit(dX, dy)
        assert client is not None


@pytest.mark.slow
def test_paused_workers_end_with_the_remedy(rows, monkeypatch):
    """Workers between the two limits of Dask start nothing, and Dask would wait for ever."""
    X, y, _ = rows
    monkeypatch.setattr(cluster, "NO_WORKERS", 2.0)
    limits = {"distributed.worker.memory.pause": 1e-6, "distributed.worker.memory.terminate": False}
    with (
        dask.config.set(limits),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as workers,
        Client(workers) as client,
    ):
        assert client is not None
        with pytest.raises(RuntimeError, match=r"All Dask workers \(2\) were paused"):
            regressor(X).fit(*collections(X, y))


@pytest.mark.slow
def test_no_worker_left(rows, monkeypatch):
    X, y, _ = rows
    monkeypatch.setattr(cluster, "NO_WORKERS", 2.0)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as workers, Client(workers) as client:
        workers.scale(0)
        while client.scheduler_info()["workers"]:
            time.sleep(0.1)
        start = time.monotonic()
        with pytest.raises(RuntimeError, match="No Dask worker"):
            regressor(X).fit(*collections(X, y))
        assert time.monotonic() - start < 60
