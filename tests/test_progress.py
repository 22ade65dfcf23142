"""How far a fit is: shares that only grow, of what is known to be left; nothing is counted where nobody listens."""

import copy
import io
import re
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lssvm import LSSVC, LSSVR, arrays, kernels, load, problem, progress, save, tune

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2100, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=len(X))
LABELS = np.digitize(Y, [-0.5, 0.5])
TWO = kernels.Stack([kernels.RBF(), kernels.Matern()])
FITS = {  # a model, and a fit of its rows
    "stack": (LSSVR(), lambda model, X, y: model.fit(X, y)),
    "kernel": (LSSVR(kernels.RBF(1.0), C=10.0), lambda model, X, y: model.fit(X, y)),
    "steps": (LSSVR(kernels.RBF(), steps=[tune.KFold(3)]), lambda model, X, y: model.fit(X, y)),
    "classes": (LSSVC(), lambda model, X, y: model.fit(X, y)),
    "pairs": (LSSVC(coding="one-vs-one", loss="logistic"), lambda model, X, y: model.fit(X, y)),
    "stack of classifiers": (LSSVC(TWO), lambda model, X, y: model.fit(X, y)),
    "chunks": (LSSVR(), lambda model, X, y: model.fit_chunks([(X[::2], y[::2]), (X[1::2], y[1::2])])),
    "stack of chunks": (LSSVR(TWO), lambda model, X, y: model.fit_chunks([(X, y), (X[:9], y[:9])])),
    "robust chunks": (LSSVR(robust="huber"), lambda model, X, y: model.fit_chunks([(X, y)] * 3)),
    "partial": (LSSVR(), lambda model, X, y: model.partial_fit(X, y)),
    "stack of partial fits": (LSSVR(TWO), lambda model, X, y: model.partial_fit(X, y)),
    "partial, classes": (LSSVC(), lambda model, X, y: model.partial_fit(X, y)),
}


SLOW = {"chunks", "classes", "pairs", "partial", "robust chunks", "stack of classifiers", "steps"}


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in FITS])
def case(request):
    """An unfitted model, a function that fits it, and targets."""
    model, fit = FITS[request.param]
    return clone(model), fit, LABELS if isinstance(model, LSSVC) else Y


def test_what_a_part_does_not_need_is_no_longer_expected():
    shares = []
    with progress.listening(shares.append):
        first, second = progress.expect(lambda: 10.0), progress.expect(lambda: 30.0)
        with first:
            progress.did(lambda: 4.0)
        with second:
            progress.did(lambda: 10.0)
            progress.did(lambda: 25.0)  # more than was expected
    assert shares == pytest.approx([4 / 40, 4 / 34, 14 / 34, 1.0, 1.0])


def test_nothing_is_counted_where_nobody_listens():
    def never():
        raise AssertionError

    with progress.listening(lambda share: None):
        pass
    with progress.expect(never):
        progress.did(never)


def listened(model, X, y):
    """A fitted model and the shares that it told."""
    shares = []
    with progress.listening(shares.append):
        model.fit(X, y)
    return model, np.array(shares)


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (LSSVR, 120),
        (LSSVC, 120),
        (lambda: LSSVR(robust="huber"), 120),
        (lambda: LSSVR(kernels.RBF()), 400),  # searched with a part of the rows as basis first
        pytest.param(lambda: LSSVR(kernels.RBF()), 2100, marks=pytest.mark.slow),  # on a basis
    ],
    ids=["numbers", "classes", "robust", "stages", "basis"],
)
def test_shares_of_a_fit_grow_to_one(make, rows):
    y = np.digitize(Y, [-0.5, 0.5])[:rows] if make is LSSVC else Y[:rows]
    model, shares = listened(make(), X[:rows], y)
    assert (np.diff(shares) >= -1e-12).all()
    assert shares[0] < 0.05
    assert shares[-1] == 1.0
    assert (shares == 1.0).sum() <= 3  # the end of the last part, not the search
    assert np.max(np.diff(shares)) < 0.5
    if rows < 200:
        assert_array_equal(model.loo_residuals_, make().fit(X[:rows], y).loo_residuals_)


def test_rows_that_pass_by_in_blocks_are_told(monkeypatch):
    """A machine that does not fit in memory: two passes over the rows, block by block."""
    monkeypatch.setattr(arrays, "memory", lambda array, free=False: None if free else 16 * len(X) * 500 - 1)
    blocks = lambda rows, *_, **__: (slice(start, start + 300) for start in range(0, rows, 300))  # noqa: E731
    monkeypatch.setattr(arrays, "row_blocks", blocks)
    machine = problem.Problem(kernels.RBF(1.0), X, Y[:, None], np.ones(len(X)), C=1.0).with_basis(np.arange(500))
    told = []
    with progress.listening(told.append), progress.expect(lambda: 2 * progress.work(len(X), 500)):
        assert not machine.fits_memory
        machine.solve()
    assert len(told) >= 14
    assert told == sorted(told)
    assert 0.5 < told[-2] <= 1.0


def test_every_kind_of_fit_grows_to_one(case):
    model, fit, y = case
    shares = []
    with progress.listening(shares.append):
        fit(model, X[:90], y[:90])
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    if model.C is None:  # else there is a single step
        assert shares[0] < 0.2
        assert len(set(shares)) > 10


def test_parts_announced_late_do_not_turn_back():
    shares = []
    with progress.listening(shares.append):
        for number in range(2):
            with progress.equal_part(number, 2), progress.expect(lambda: 4.0):
                progress.did(lambda: 1.0)
                with progress.expect(lambda: 60.0):
                    progress.did(lambda: 1.0)
    assert shares == sorted(shares)
    assert {0.125, 0.5, 0.625, 1.0} <= set(shares)


# The line of verbose=1 ------------------------------------------------------------------------------------------------
class Terminal(io.StringIO):
    def isatty(self):
        return True


class Notebook(io.StringIO):
    __module__ = "ipykernel.iostream"


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def percents(text):
    return [int(percent) for percent in re.findall(r"(\d+)%", text)]


@pytest.mark.parametrize("stream", [Terminal, Notebook])
def test_a_line_is_updated_in_place_ten_times_a_second(stream, clock, monkeypatch):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream()))
    with progress.Line("fitting") as line:
        for step in range(1001):  # five seconds
            clock[0] = step / 200
            line(step / 1000)
    shown = progress.sys.stderr.getvalue()
    assert percents(shown) == sorted(percents(shown))
    assert 40 <= len(percents(shown)) <= 46
    assert percents(shown)[0] == 10  # after half a second
    assert percents(shown)[-1] == 100
    assert shown.count("100%") == shown.count("\n") == 1
    assert shown.endswith("\n")
    clocks = np.array(re.findall(r"(\d+)%  0:00:0(\d), about 0:00:0(\d) left", shown), dtype=float)
    assert len(clocks) == len(percents(shown)) - 1
    assert np.max(np.abs(clocks[:, 1:] - 0.05 * np.stack([clocks[:, 0], 100 - clocks[:, 0]], axis=1))) < 0.6
    widths = [len(part) for part in shown[:-1].split("\r")[1:]]
    assert all(after >= len(before.rstrip()) for after, before in zip(widths[1:], shown.split("\r")[1:-1], strict=True))


def test_a_file_gets_a_few_lines(clock, monkeypatch):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=io.StringIO()))
    with progress.Line("fitting") as line:
        for step in range(1001):
            clock[0] = float(step)
            line(step / 1000)
    shown = progress.sys.stderr.getvalue()
    assert "\r" not in shown
    assert percents(shown) == [25, 50, 75, 100]
    assert shown.count("\n") == 4


def test_nothing_is_shown_of_half_a_second(clock, monkeypatch):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=Terminal()))
    with progress.Line("fitting") as line:
        for step in range(50):
            clock[0] = step / 101
            line(step / 50)
    assert progress.sys.stderr.getvalue() == ""


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that shows every update."""
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=Terminal()))
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    return progress.sys.stderr


def test_verbose_fits_show_one_line(case, terminal):
    model, fit, y = case
    fit(model, X[:90], y[:90])
    assert terminal.getvalue() == ""
    expected = model.predict(X[:20])
    model = clone(model).set_params(verbose=1)
    fit(model, X[:90], y[:90])
    assert_array_equal(model.predict(X[:20]), expected)
    shown = terminal.getvalue()
    assert shown.startswith(f"\rfitting {type(model).__name__}  [")
    assert percents(shown) == sorted(percents(shown))
    assert percents(shown)[-1] == 100
    assert shown.count("100%") == shown.count("\n") == 1
    assert shown.endswith("\n")


def test_verbose_reaches_dask(terminal):
    da = pytest.importorskip("dask.array")
    rows, y = da.from_array(X[:300], chunks=(100, 3)), da.from_array(Y[:300], chunks=100)
    LSSVR(verbose=1).fit(rows, y)
    assert len(set(percents(terminal.getvalue()))) > 5


@pytest.mark.parametrize("verbose", [True, np.True_, 2, np.int64(1)])
def test_verbose_is_a_number_or_a_truth_value(verbose, terminal, tmp_path):
    model = LSSVR(kernels.RBF(1.0), C=1.0, verbose=verbose).fit(X[:20], Y[:20])
    assert "100%" in terminal.getvalue()
    save(model, tmp_path / "model.lssvm")
    assert load(tmp_path / "model.lssvm").verbose == verbose


@pytest.mark.parametrize("verbose", ["yes", None, -1, 0.5])
@pytest.mark.parametrize("name", ["stack", "chunks", "partial"])
def test_other_values_of_verbose_are_refused(verbose, name):
    model, fit = FITS[name]
    with pytest.raises(
        ValueError, match=re.escape(f"verbose must be 0 (silent) or 1 (shows progress), got {verbose!r}")
    ):
        fit(clone(model).set_params(verbose=verbose), X[:20], Y[:20])


def test_verbose_without_standard_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert LSSVR(kernels.RBF(1.0), C=1.0, verbose=1).fit(X[:20], Y[:20]).C_ == 1.0


class Broken(Terminal):
    """A terminal that is gone: a closed file, or the end of a pipe that nobody reads."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def isatty(self):
        if self.error is ValueError:
            raise self.error
        return True

    def write(self, text):
        raise self.error


@pytest.mark.parametrize("error", [ValueError, OSError, BrokenPipeError])
def test_a_line_that_cannot_be_written_does_not_end_the_fit(error, monkeypatch):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=Broken(error)))
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    assert LSSVR(kernels.RBF(1.0), verbose=1).fit(X[:20], Y[:20]).C_ > 0


# Interrupts -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("place", ["kernel", "report", "rows"])
@pytest.mark.parametrize(
    "name",
    [
        *("kernel", "partial, classes"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                "chunks",
                "classes",
                "partial",
                "stack",
                "stack of chunks",
                "stack of classifiers",
                "stack of partial fits",
            )
        ),
    ],
)
def test_an_interrupt_leaves_the_model_as_it_was(name, place, in_pieces, terminal, monkeypatch):
    """At the first, 5th, 20th, ... kernel matrix, report of progress or check of rows, of a first and a later fit."""
    model, fit = FITS[name]
    y = LABELS if isinstance(model, LSSVC) else Y
    calls, stop = [0], [np.inf]

    def counted(function):
        def call(*arguments, **options):
            calls[0] += 1
            if calls[0] >= stop[0]:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return call

    owner, name = {
        "kernel": (kernels.stationary._Stationary, "_write"),
        "report": (progress._Work, "report"),
        "rows": (type(model), "_validated"),
    }[place]
    monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    fitted, count = fit(clone(model), X[:60], y[:60]), threading.active_count()
    expected = fitted.predict(X[60:90])
    for before in (clone(model).set_params(verbose=1), fitted.set_params(verbose=1)):
        calls[0] = 0
        fit(copy.deepcopy(before), X[:50], y[:50])
        total = calls[0]
        assert total >= 1
        for number in {1, 5, 20, total // 2, total} & set(range(1, total + 1)):
            terminal.seek(0)
            terminal.truncate()
            now = copy.copy(before)
            calls[0], stop[0] = 0, number
            try:
                with pytest.raises(KeyboardInterrupt):
                    fit(now, X[:50], y[:50])
            finally:
                stop[0] = np.inf
            assert {name: id(value) for name, value in vars(now).items()} == {
                name: id(value) for name, value in vars(before).items()
            }
            assert threading.active_count() == count
            assert re.fullmatch(r"(\r[^\r\n]*)+\n", terminal.getvalue())
            assert "100%" not in terminal.getvalue()
            assert progress._work.get() is None
            if before is fitted:
                assert_array_equal(now.predict(X[60:90]), expected)
            else:
                with pytest.raises(NotFittedError):
                    now.predict(X)


# Callbacks of scikit-learn --------------------------------------------------------------------------------------------
class Recorder:
    """An auto-propagated callback that records the tasks that begin and end."""

    max_propagation_depth = None

    def __init__(self):
        self.calls, self.open, self.percents, self.scores = [], 0, 0, []

    def setup(self, estimator, context):
        self.open += 1

    def teardown(self, estimator, context):
        self.open -= 1

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(("begin", context.estimator_name, context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.calls.append(("end", context.estimator_name, context.task_name))
        if fitted_estimator is not None and X is not None and context.estimator_name == "LSSVR":
            self.scores.append(fitted_estimator.score(X, y))


has_callbacks = hasattr(LSSVR, "set_callbacks")
needs_callbacks = pytest.mark.skipif(not has_callbacks, reason="callbacks need scikit-learn 1.9")


def test_callbacks_depend_on_scikit_learn():
    import sklearn

    assert has_callbacks == ([int(part) for part in sklearn.__version__.split(".")[:2]] >= [1, 9])


@needs_callbacks
def test_callbacks_hear_of_every_percent(case):
    model, fit, y = case
    recorder = Recorder()
    fit(model.set_callbacks(recorder), X[:90], y[:90])
    own = type(model).__name__
    percent = [("begin", own, "percent"), ("end", own, "percent")]
    assert recorder.calls == [("begin", own, "fit"), *(100 * percent), ("end", own, "fit")]
    assert recorder.open == 0
    assert not [name for name in vars(model) if "callback" in name and name != "_skl_callbacks"]
    assert all("callback" not in name for one in getattr(model, "members_", []) for name in vars(one))
    assert_array_equal(model.predict(X[:20]), fit(clone(model).set_callbacks(), X[:90], y[:90]).predict(X[:20]))


@needs_callbacks
def test_callbacks_get_the_fitted_model_at_the_end():
    recorder = Recorder()
    model = LSSVR().set_callbacks(recorder).fit(X[:60], Y[:60])
    assert recorder.scores == [model.score(X[:60], Y[:60])]


@needs_callbacks
def test_callbacks_reach_models_in_meta_estimators():
    recorder = Recorder()
    make_pipeline(StandardScaler(), LSSVR(kernels.RBF(), C=1.0)).set_callbacks(recorder).fit(X[:60], Y[:60])
    assert recorder.calls.count(("end", "LSSVR", "percent")) == 100
    recorder = Recorder()
    search = GridSearchCV(LSSVR(kernels.RBF()), {"C": [1.0, 10.0]}, cv=2).set_callbacks(recorder)
    search.fit(X[:60], Y[:60])
    assert recorder.calls.count(("end", "LSSVR", "percent")) == 500  # four fits and the refit
    assert recorder.open == 0


@needs_callbacks
def test_an_interrupted_callback_leaves_the_model_as_it_was():
    class Stopping(Recorder):
        def on_fit_task_end(self, estimator, context):
            self.calls.append(context)
            if len(self.calls) > 50:
                raise KeyboardInterrupt

    model = LSSVR().fit(X[:60], Y[:60])
    expected = model.predict(X)
    recorder = Stopping()
    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(recorder).fit(X[:50], Y[:50])
    assert recorder.open == 0
    assert_array_equal(model.predict(X), expected)
    assert "_callback_fit_ctx" not in vars(model)
