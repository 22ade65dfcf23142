"""The report: its numbers are the model's, nothing is fetched, hostile names stay text; in a browser where one is."""

import re
import shutil
import threading
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from pages import Reader, cells, section
from sklearn.datasets import load_iris, load_wine
from sklearn.pipeline import make_pipeline
from stacking import stack_of

from lssvm import LSSVC, LSSVR, datasets, diagnose, kernels, load, report, save, sparsify, tune
from lssvm.arrays import spread_of
from lssvm.estimators import chunks
from lssvm.report.markup import Chart, shortened, ticks

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&amp;\u202e$\\"
X, y = datasets.load_motorcycle(return_X_y=True)
RIPLEY, LABELS = datasets.load_ripley(return_X_y=True)
GIVEN = {"kernel": kernels.RBF(sigma=13.1), "C": 50.0}


def hostile_model():
    """Hostile names of columns, categories and classes."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(RIPLEY[::3], columns=[HOSTILE, "b" * 300])
    labels = np.where(LABELS[::3] > 0, HOSTILE, "plain")
    table["category"] = np.where(RIPLEY[::3, 1] > 0.5, HOSTILE, "c" * 200)
    model = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(table, labels)
    about = {"target": HOSTILE, "source": HOSTILE, "model": HOSTILE, "warnings": [HOSTILE], "seconds": {HOSTILE: 1.0}}
    return model, about


ROWS = np.column_stack([X, np.cos(X)])
THREE = np.where(RIPLEY[:, 0] > 0.3, 2, LABELS)
BOTH = [kernels.Matern(sigma=9.0), kernels.RBF(sigma=13.1), kernels.Linear()]
ADDITIVE = [kernels.Additive(kernels.RBF(sigma=[10.0, 1.0])), kernels.Additive(kernels.Matern(sigma=5.0))]
GIVEN_CLASSES = {"kernel": kernels.RBF(sigma=0.5), "C": 5.0}


def stack_of_classifiers(labels):
    kinds = [{"coding": "one-vs-one", "loss": "logistic"}, {"coding": "one-vs-rest", "loss": "squared"}]
    return stack_of([LSSVC(**GIVEN_CLASSES, **kind).fit(RIPLEY, labels) for kind in kinds], [0.4, 0.6])


QUICK = {
    "curve": lambda: LSSVR(**GIVEN).fit(X, y),
    "outputs": lambda: LSSVR(**GIVEN).fit(X, np.column_stack([y, y**2])),
    "additive": lambda: LSSVR(ADDITIVE[0], C=5.0).fit(ROWS, y),
    "reduced": lambda: LSSVR(**GIVEN, steps=[sparsify.InversePrune()]).fit(X, y),
    "stream": lambda: LSSVR(**GIVEN).partial_fit(X, y),
    "precomputed": lambda: LSSVR(kernels.Precomputed(), C=1.0).fit(GIVEN["kernel"](X), y),
    "two classes": lambda: LSSVC(**GIVEN_CLASSES).fit(RIPLEY, LABELS),
    "pairs": lambda: LSSVC(**GIVEN_CLASSES, coding="one-vs-one").fit(RIPLEY, THREE),
    "constant": lambda: LSSVR(kernels.RBF(sigma=1.0), C=1.0).fit(X, np.ones(len(y))),
    "stack": lambda: LSSVR(kernels.Stack([*BOTH, kernels.Polynomial(1)])).fit(X, y),
    "stack of outputs": lambda: LSSVR(kernels.Stack(BOTH)).fit(X, np.column_stack([y, y**2])),
    "stack of two classes": lambda: stack_of_classifiers(LABELS),
}
SLOW = {
    "robust": lambda: LSSVR(**GIVEN, robust="hampel").fit(X, y),
    "additive spline": lambda: LSSVR(kernels.Additive(kernels.Spline(5), active=[0]), C=5.0).fit(ROWS, y),
    "pruned": lambda: LSSVR(**GIVEN, steps=[sparsify.Prune(20, rows="keep")]).fit(X, y),
    "three classes": lambda: LSSVC(**GIVEN_CLASSES).fit(RIPLEY, THREE),
    "logistic": lambda: LSSVC(**GIVEN_CLASSES, loss="logistic").fit(RIPLEY, LABELS),
    "additive pairs": lambda: LSSVC(
        kernels.Additive(kernels.RBF(sigma=0.5)), C=5.0, coding="one-vs-one", loss="squared_hinge"
    ).fit(RIPLEY, THREE),
    "chunked classes": lambda: LSSVC(**GIVEN_CLASSES).fit_chunks([(RIPLEY, LABELS)]),
    "stack of chunks": lambda: LSSVR(kernels.Stack(BOTH), C=5.0).fit_chunks([(X[:50], y[:50]), (X[50:], y[50:])]),
    "additive stack": lambda: LSSVR(kernels.Stack(ADDITIVE), C=50.0).fit(ROWS, y),
    "stack of three classes": lambda: stack_of_classifiers(THREE),
}


@cache
def fitted(name):
    return (QUICK | SLOW)[name]()


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_every_kind_of_model_has_a_report(name, tmp_path):
    model, path = fitted(name), tmp_path / "report.html"
    page = report.to_html(model, path)
    assert path.read_text(encoding="utf-8") == page
    assert len(page.encode()) < 1_000_000
    reader = Reader(page)
    assert "nan" not in " ".join(reader.text).lower().split()
    assert not re.search(r'[ "M](nan|inf)', "".join(re.findall(r'(?:d|cx|cy|x|y|width)="[^"]*"', page)))
    assert page.index('id="verdict"') < page.index('id="data"') < page.index('id="technical"') < page.index('id="use"')
    save(model, tmp_path / "model.lssvm")
    assert report.to_html(load(tmp_path / "model.lssvm")) == page


def test_numbers_are_those_of_the_model():
    model = LSSVR(**GIVEN).fit(X, y)
    reader = Reader(report.to_html(model, about={"target": "accel", "seconds": {"fit": 1.234}}))
    rmse = np.sqrt(np.mean(model.loo_residuals_**2))
    assert cells(reader, "accel")[1] == f"{rmse:.4g}"
    assert cells(reader, "seconds: fit") == ["seconds: fit", "1.23"]
    worst = int(np.argmax(np.abs(model.loo_residuals_)))
    row = cells(reader, str(worst))
    assert row[1:4] == [f"{v:.4g}" for v in (y[worst], model.loo_predictions_[worst], model.loo_residuals_[worst])]
    assert row[-1] == f"{model.leverage_[worst]:.3f}"
    assert cells(reader, "kernel")[1] == "RBF(sigma=13.1)"


@pytest.mark.parametrize("name", ["stack", "stack of outputs", "stack of two classes"])
@pytest.mark.parametrize("stored", [False, True], ids=["fitted", "loaded"])
def test_members_of_a_stack_are_listed_with_weights_and_errors(name, stored, tmp_path):
    model = fitted(name)
    assert len(model.members_) > 1
    if stored:
        save(model, tmp_path / "stack.lssvm")
        model = load(tmp_path / "stack.lssvm")
    reader = Reader(report.to_html(model))
    start = next(place for place, row in enumerate(reader.rows) if row[:2] == ["model", "weight"])
    lines = reader.rows[start + 1 : start + 2 + len(model.path_.members)]
    assert lines[-1][0] == "average"
    listed = [line for line in lines[:-1] if line[1] != "0"]
    order = np.argsort(-model.stack_weights_, kind="stable")
    for line, place in zip(listed, order, strict=True):
        member = model.members_[place]
        assert line[0].startswith(type(member.kernel_).__name__)
        assert float(line[1]) == pytest.approx(model.stack_weights_[place], abs=1e-3)
        assert float(line[3]) == pytest.approx(member.C_, rel=1e-3)
        if hasattr(model, "classes_"):
            error = diagnose.scores(member)["log_loss"]
            assert line[4] == f"{member.coding_}, {member.loss_}"
        else:
            residuals = member.loo_residuals_.reshape(len(y), -1)
            error = np.sqrt(np.mean(np.sum(residuals**2, axis=1)))
        assert float(line[2]) == pytest.approx(error, rel=1e-3)
    dropped = [one for one in model.path_.members if one.weight == 0]
    assert len(lines) - 1 - len(listed) == len(dropped)
    assert not any(row and row[0] in ("C", "kernel") for row in reader.rows)  # a stack has none of its own


@pytest.fixture(scope="module")
def tuned():
    """Numbers and classes of 2 columns out of 5, everything chosen."""
    rows = np.random.RandomState(0).uniform(-2, 2, (300, 5))
    values = np.sin(2 * rows[:, 0]) + rows[:, 1] + 0.1 * np.random.RandomState(1).normal(size=300)
    labels = np.where(values > 0, "yes", "no")
    return (
        LSSVR(kernels.Choice([kernels.RBF(ard=True), kernels.Matern(ard=True)])).fit(rows, values),
        LSSVC(loss="squared").fit(rows, labels),
        rows,
        values,
    )


@pytest.mark.slow
def test_what_the_search_recorded_is_shown(tuned):
    for model in tuned[:2]:
        record = model.path_
        reader = Reader(report.to_html(model))
        told = cells(reader, "search by leave-one-out")[1]
        assert told == "; ".join([*record.plan, f"{record.evaluations} models evaluated"])
        assert cells(reader, "C")[1].startswith(f"{model.C_:.4g}, chosen by leave-one-out")


@pytest.mark.slow
def test_dropped_columns_are_named_without_their_widths(tuned):
    for model in tuned[:2]:
        assert (np.asarray(model.kernel_.sigma)[2:] > 1e5).all()
        page = report.to_html(model)
        reader = Reader(page)
        assert cells(reader, "dropped: 3 of 5 columns")[1] == "column 2, column 3, column 4"
        assert cells(reader, "kernel")[1].endswith("(ard=True), with one width per column, in its units")
        assert not re.search(r"e\+0[56]|1184", " ".join(reader.text))
    both = LSSVR(kernels.RBF(sigma=[1.0, 1.0, 1e7, 1e7, 1e7]) + kernels.Linear(), C=1.0).fit(*tuned[2:])
    assert not any("dropped" in row[0] for row in Reader(report.to_html(both)).rows if row)  # all act linearly
    additive = LSSVR(kernels.Additive(kernels.Spline(3), active=[0, 1]), C=1.0).fit(*tuned[2:])
    reader = Reader(report.to_html(additive))
    assert cells(reader, "dropped: 3 of 5 columns")[1] == "column 2, column 3, column 4"
    assert cells(reader, "kernel")[1] == "Additive(active=[0, 1], kernel=Spline())"


@pytest.mark.parametrize(
    ("step", "words"), [(tune.KFold(5), "k-fold cross-validation"), (tune.Holdout(), "the error on held-out rows")]
)
def test_other_searches_are_named(step, words):
    model = LSSVR(kernels.RBF(), steps=[step]).fit(X, y)
    reader = Reader(report.to_html(model))
    assert cells(reader, "C")[1] == f"{model.C_:.4g}, chosen by {words}"
    assert cells(reader, f"search by {words}")[1].endswith(f"RMSE {model.path_.score**0.5:.4g}")
    chunked = Reader(report.to_html(LSSVR(kernels.RBF(13.1)).partial_fit(X, y)))
    assert cells(chunked, "C")[1].endswith("chosen on the first rows")


@pytest.mark.parametrize("classes", [False, True])
def test_tensors_make_the_same_report(classes):
    """Of a model fitted on tensors, and of other rows in tensors."""
    torch = pytest.importorskip("torch")
    model, rows = LSSVR(kernels.RBF(13.1), C=50.0, robust="hampel"), (X, y)
    if classes:
        model, rows = LSSVC(kernels.Additive(kernels.RBF(0.5)), C=5.0), (RIPLEY, LABELS)
    half = [np.ascontiguousarray(a[::2]) for a in rows]
    plain = report.to_html(model.fit(*half), X=rows[0], y=rows[1])
    tensors = [torch.asarray(a) for a in rows]
    page = report.to_html(model.fit(*map(torch.asarray, half)), X=tensors[0], y=tensors[1])
    assert [row[0] for row in Reader(page).rows] == [row[0] for row in Reader(plain).rows]
    for name in ("C", "kernel", "50.0", "error rate", str(len(y))):
        if any(row and row[0] == name for row in Reader(plain).rows):
            assert cells(Reader(page), name) == cells(Reader(plain), name)


@pytest.mark.parametrize("load_data", [load_iris, load_wine])
def test_classifiers_that_were_compared_are_listed(load_data):
    inputs, labels = load_data(return_X_y=True)
    model = LSSVC().fit(inputs, labels)
    reader = Reader(report.to_html(model))
    assert cells(reader, "coding")[1].startswith(model.coding_)
    assert cells(reader, "loss")[1] == model.loss_
    assert "chosen by leave-one-out" in cells(reader, "C")[1]
    words, _, listed = cells(reader, "classifiers compared")[1].partition(": ")
    compared = listed.split("; ")
    assert "smoothed targets" in words  # the log loss of the predictions, below, is a different one
    assert compared[0].startswith(f"{type(model.kernel_).__name__}, {model.coding_}, {model.loss_}: ")
    assert len(compared) == len(model.path_.candidates)
    assert f"{model.path_.evaluations} models evaluated" in cells(reader, "search by leave-one-out")[1]
    assert not any("error against C" in text for text in reader.text)


def test_one_common_width_is_in_spreads_of_the_columns():
    """The kernel has ard=True, and widths that differ by the spreads only."""
    inputs, labels = load_iris(return_X_y=True)
    model = LSSVC().fit(inputs, labels)
    assert (
        "one common width, in units of each column's spread"
        in cells(Reader(report.to_html(model)), "search by leave-one-out")[1]
    )
    ratios = model.kernel_.sigma / spread_of(inputs)
    np.testing.assert_allclose(ratios, ratios[0])


def test_the_basis_of_a_linear_member_is_described():
    """Far from 0 its rows would lose digits, so that unit vectors are its basis."""
    rng = np.random.default_rng(0)
    inputs = 1e5 + rng.standard_normal((60, 4))
    targets = inputs @ [1.0, 2.0, 0.0, 1.0] + 0.1 * rng.standard_normal(60)
    for kernel, words in (
        (
            kernels.Stack([kernels.RBF(), kernels.Linear()]),
            "all 60 rows; for the linear model, the unit vectors of 4 columns",
        ),
        (kernels.Linear(), "the unit vectors of 4 columns"),
        (kernels.RBF(), "all 60 rows"),
    ):
        assert cells(Reader(report.to_html(LSSVR(kernel).fit(inputs, targets))), "basis")[1] == words


def test_a_classifier_with_one_width_per_column_and_few_rows_is_warned_of():
    model = LSSVC(kernels.RBF(sigma=[0.5, 0.6]), loss="logistic").fit(RIPLEY[::8], LABELS[::8])
    assert "were tuned on" not in report.to_html(model)
    model.path_.plan.append("one width per column")  # as a search records it
    assert "The widths of 2 columns were tuned on 32 rows" in report.to_html(model)


def test_confusion_and_wrong_rows_are_those_of_the_model():
    model = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(RIPLEY, LABELS)
    reader = Reader(report.to_html(model))
    for label in (-1, 1):
        counts = [np.sum((label == LABELS) & (model.loo_predictions_ == other)) for other in (-1, 1)]
        assert cells(reader, str(label))[1:3] == [str(count) for count in counts]
    listed = [int(row[0]) for row in reader.rows if len(row) == 5 and row[0].isdigit()]
    assert len(listed) == 10
    assert (model.loo_predictions_[listed] != LABELS[listed]).all()


def test_rows_keep_the_numbers_of_the_file():
    model = LSSVR(**GIVEN).fit(np.delete(X, [0, 50], axis=0), np.delete(y, [0, 50]))
    reader = Reader(report.to_html(model, about={"row": 2, "dropped": [0, 50]}))
    worst = int(np.argmax(np.abs(model.loo_residuals_)))
    place = np.delete(np.arange(len(y)), [0, 50])[worst]
    assert cells(reader, str(place + 2))[1] == f"{y[place]:.4g}"


def test_other_rows_get_a_section():
    model = LSSVR(**GIVEN).fit(X[::2], y[::2])
    reader = Reader(report.to_html(model, X=X[1::2], y=y[1::2]))
    rmse = np.sqrt(np.mean((model.predict(X[1::2]) - y[1::2]) ** 2))
    assert cells(reader, str(len(y[1::2])))[1] == f"{rmse:.4g}"
    with pytest.raises(ValueError, match="both X and y"):
        report.to_html(model, X=X)


@pytest.mark.parametrize(
    ("model", "warning"),
    [
        (
            lambda: LSSVR(**GIVEN, robust="hampel").fit(X, np.where(np.arange(len(y)) == 9, 1e4, y)),
            "taken for outliers",
        ),
        (lambda: LSSVC(kernels.RBF(sigma=0.5), C=5.0, robust="huber").fit(RIPLEY, LABELS), "are so many labels wrong"),
        (lambda: LSSVR(**GIVEN).fit(X, np.where(np.arange(len(y)) == 9, 1e4, y)), "times the usual error"),
        (lambda: LSSVR(kernels.RBF(ard=True)).fit(np.column_stack([X, np.cos(9 * X)])[::4], y[::4]), "the search"),
        (lambda: LSSVR(**GIVEN).fit(X[:10], y[:10]), "There are only 10 rows"),
        (
            lambda: LSSVR(**GIVEN, steps=[sparsify.Adaline(final_solve=False)]).fit(X, y),
            "no leave-one-out values",
        ),
        (lambda: LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(RIPLEY, np.arange(250) < 5), "has only 5 rows"),
    ],
)
def test_cautions_come_with_the_verdict(model, warning):
    assert warning in section(report.to_html(model()), "verdict").replace("&#x27;", "'")


@pytest.mark.parametrize(
    ("settings", "warning"),
    [({"kernel": kernels.RBF(13.1), "C": 1e-6}, "would have"), ({"kernel": kernels.RBF(1e-3), "C": 1e6}, "above 0.99")],
)
def test_doubts_about_the_settings_come_with_the_technical_details(settings, warning):
    page = report.to_html(LSSVR(**settings).fit(X, y))
    assert warning in section(page, "technical")
    assert warning not in section(page, "verdict")


def test_a_sample_of_many_rows_has_no_row_numbers(monkeypatch):
    """What is known of the sample is shown, and that it is one; numbers of rows are not known."""
    monkeypatch.setattr(chunks, "SAMPLE_ROWS", 60)
    numbers = LSSVR(**GIVEN).fit_chunks([(X, y)], leave_one_out="press")
    classes = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit_chunks([(RIPLEY, LABELS)], leave_one_out="press")
    for model, total in ((numbers, len(y)), (classes, 250)):
        page = report.to_html(model)
        assert f"These figures come from a random sample of 60 of the {total} rows." in page
        assert f"<p>{total} rows and " in page
        assert "This section describes the 60 rows that the model keeps." in page
        assert 'id="row-' not in page
        assert "The first row of the data" not in page
    assert "How many of 60 rows lie inside" in report.to_html(numbers)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.1, 1.0, 30.0, 4e4, 3e6, 5e9])
@pytest.mark.parametrize("offset", [0.0, -0.5, 7.0, 1e5])
def test_numbers_along_an_axis_tell_its_ticks_apart(size, offset):
    found = ticks(offset * size, (offset + 1) * size, 5)
    values = [value for value, _ in found]
    steps = np.diff(values)
    np.testing.assert_allclose(steps, steps[0])
    np.testing.assert_allclose([float(shown) for _, shown in found], values, rtol=0, atol=1e-3 * steps[0])
    chart = Chart("title", "x", "y")
    chart.line(np.array([0.0, 1.0]), np.array([offset * size, (offset + 1) * size]))
    page = Reader(chart.svg())
    assert chart.left - 6 - 7 * max(len(shown) for _, shown in found) > 20  # beside the axis' name, which ends at 18
    assert len(page.tags) > 5


def test_hostile_names_stay_text():
    model, about = hostile_model()
    page = report.to_html(model, title=HOSTILE, about=about)
    reader = Reader(page)
    assert reader.tags.count("script") == 1
    assert "img" not in reader.tags
    assert not any(name.startswith("on") for _, attributes in reader.attributes for name in attributes)
    assert "\u202e" not in page
    assert HOSTILE.replace("\u202e", "\ufffd") in "".join(reader.text)
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?(?!#|x onerror)[a-z/]""", page.replace("&lt;img src=x", ""))
    unpaired = report.to_html(model, title="half \ud800 of a pair\0")
    assert "half \ufffd of a pair\ufffd" in unpaired
    unpaired.encode()


def test_other_objects_are_refused():
    from sklearn.linear_model import Ridge

    with pytest.raises(TypeError, match="got Ridge"):
        report.to_html(Ridge().fit(X, y))
    for other, message in (
        (None, "model must be a fitted LSSVR or LSSVC, got None"),
        (LSSVR, "model=LSSVR is a class"),
        (make_pipeline(LSSVR(kernels.RBF(1.0), C=1.0)).fit(X, y), r"model is a Pipeline: .*pipeline\[-1\]"),
    ):
        with pytest.raises(TypeError, match=message):
            report.to_html(other)


@pytest.mark.parametrize(
    "about", [[], {"seconds": [1]}, {"warnings": "no"}, {"row": "2"}, {"dropped": [-1]}, {"dropped": 3}]
)
def test_information_about_a_fit_is_checked(about):
    model = LSSVR(**GIVEN).fit(X[:20], y[:20])
    model.table_ = about
    with pytest.raises((TypeError, ValueError), match="about"):
        report.to_html(model)


@pytest.mark.slow
def test_a_cloud_of_many_points_is_thinned_and_keeps_its_extremes():
    inputs, targets = datasets.make_sinc(8000, random_state=0)
    targets[4567] = 50.0
    model = LSSVR(kernels.RBF(sigma=3.0), C=10.0, steps=[sparsify.Given(inputs[:20])]).fit(inputs, targets)
    page = report.to_html(model)
    assert "points drawn" in page
    assert len(page.encode()) < 300_000
    assert 'href="#row-4567"' in page


def test_a_thinned_cloud_is_even_but_for_the_largest_residuals():
    rng = np.random.default_rng(0)
    x, e = rng.uniform(0.0, 100.0, 9000), rng.normal(size=9000)
    chart = Chart("", "", "")
    chart.cloud(x, e, e)
    page = chart.svg()
    places = np.array([*map(str.split, re.search(r'class="dots" d="M([^"]*)h0"', page)[1].split("h0M"))], dtype=float)
    assert f">{len(places)} of 9000 points drawn: an even sample and the 1000 largest residuals<" in page
    assert abs(np.mean(places[:, 0] > np.median(places[:, 0])) - 0.5) < 0.01
    across = np.interp(x, [x.min(), x.max()], [places[:, 0].min(), places[:, 0].max()])
    for share in (0.25, 0.5, 0.75):  # as many to the left as of all rows
        assert np.mean(places[:, 0] < np.quantile(across, share)) == pytest.approx(share, abs=0.04)
    down = np.interp(e, [e.min(), e.max()], [places[:, 1].max(), places[:, 1].min()])
    low, high = down[np.argsort(np.abs(e))[:-1000]].min(), down[np.argsort(np.abs(e))[:-1000]].max()
    assert np.sum((places[:, 1] < low) | (places[:, 1] > high)) == pytest.approx(1000, abs=10)


def test_long_names_are_cut_in_the_middle():
    names = [shortened(f"note=line one, line two, number {number}", 26) for number in range(3)]
    assert len(set(names)) == 3
    assert {len(name) for name in names} == {26}
    assert shortened("a" * 26, 26) == "a" * 26


# In a browser ---------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    programs = shutil.which("chromium"), shutil.which("chromedriver")
    if None in programs:
        pytest.skip("needs chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for flag in (
        *("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"),
        *("disable-component-update", "disable-sync", "disable-dev-shm-usage", "window-size=1200,1000"),
        f"user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder and its address; requests are recorded."""
    folder, asked = tmp_path_factory.mktemp("site"), []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def show(browser, site, page):
    """Open a page over HTTP; the requests that it made and the messages on the console."""
    folder, address, asked = site
    (folder / "report.html").write_text(page, encoding="utf-8")
    asked.clear()
    browser.get_log("browser")
    browser.get(f"{address}/report.html")
    browser.execute_async_script("setTimeout(arguments[0], 200)")
    return [path for path in asked if path != "/favicon.ico"], [
        entry["message"] for entry in browser.get_log("browser") if "favicon.ico" not in entry["message"]
    ]


def test_browser_fetches_nothing_and_logs_nothing(browser, site):
    model, about = hostile_model()
    requests, messages = show(browser, site, report.to_html(model, title=HOSTILE, about=about))
    assert requests == ["/report.html"]
    assert messages == []
    assert browser.title == HOSTILE.replace("\u202e", "\ufffd")
    assert browser.execute_script("return document.querySelectorAll('img, iframe, object').length") == 0
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_browser_refuses_what_a_page_must_not_do(browser, site):
    """The policy itself: were there a hole in the escaping, still nothing would be fetched or run."""
    show(browser, site, report.to_html(LSSVR(**GIVEN).fit(X, y)))
    browser.execute_async_script("""
        const done = arguments[0], script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.body.append(script);
        const image = new Image();
        image.src = "/image.png";
        document.body.append(image);
        fetch("/data.json").catch(() => 0);
        setTimeout(done, 300);""")
    assert [path for path in site[2] if path != "/favicon.ico"] == ["/report.html"]
    assert browser.execute_script("return window.ran") is None
    refused = " ".join(entry["message"] for entry in browser.get_log("browser"))
    for word in ("inline script", "/image.png", "/data.json"):
        assert word in refused


def test_browser_shows_every_point_and_follows_the_links(browser, site):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    model = LSSVR(**GIVEN).fit(X, y)
    show(browser, site, report.to_html(model))
    cloud = browser.find_element(By.CSS_SELECTOR, "#quality path.dots")
    assert cloud.get_attribute("d").count("h0") == len(y)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#quality svg a")) == 10
    assert len(browser.find_elements(By.CSS_SELECTOR, "#residuals tbody tr")) == 10
    worst = int(np.argmax(np.abs(model.loo_residuals_)))
    link = browser.find_element(By.CSS_SELECTOR, f'a[href="#row-{worst}"]')
    browser.execute_script("arguments[0].focus()", link)
    browser.switch_to.active_element.send_keys(Keys.ENTER)  # by keyboard alone
    assert browser.current_url.endswith(f"#row-{worst}")
    row = browser.find_element(By.CSS_SELECTOR, "tr:target")
    assert row.text.startswith(f"{worst} ")


def test_browser_keyboard_reaches_all_and_sorts(browser, site):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    show(browser, site, report.to_html(LSSVR(**GIVEN).fit(X, y)))
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the verdict"
    browser.switch_to.active_element.send_keys(Keys.TAB)
    toggle = browser.switch_to.active_element
    assert toggle.text == "Colours: system"

    def paper():
        return browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    toggle.send_keys(Keys.ENTER)
    light = paper()
    toggle.send_keys(Keys.SPACE)
    assert (light, paper()) == ("rgb(255, 255, 255)", "rgb(20, 25, 31)")
    assert toggle.text == "Colours: dark"
    button = next(b for b in browser.find_elements(By.CSS_SELECTOR, ".sort") if b.text == "residual")
    browser.execute_script("arguments[0].focus()", button)
    for order in ("descending", "ascending"):
        browser.switch_to.active_element.send_keys(Keys.ENTER)
        column = browser.find_elements(By.CSS_SELECTOR, "#residuals tbody td:nth-child(4)")
        values = [float(cell.text) for cell in column]
        assert values == sorted(values, reverse=order == "descending")
        assert button.find_element(By.XPATH, "..").get_attribute("aria-sort") == order


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_text_has_contrast(browser, site, scheme):
    """WCAG 2: 4.5 to 1 for every text on its background, in both colour schemes."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    try:
        show(browser, site, report.to_html(LSSVR(**GIVEN, robust="hampel").fit(X, y)))
        pairs = browser.execute_script("""
            const names = "p, li, nav a, th, td, dt, dd, code, h1, h2, button, svg text";
            const shown = [...document.querySelectorAll(names)];
            const back = node => { const c = getComputedStyle(node).backgroundColor;
                return c === "rgba(0, 0, 0, 0)" && node.parentElement ? back(node.parentElement) : c; };
            return shown.map(node => { const s = getComputedStyle(node);
                return [node.closest("svg") ? s.fill : s.color, back(node)].join("|"); });""")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(pairs) > 100

    def luminance(colour):
        parts = np.array([int(v) for v in re.findall(r"\d+", colour)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    for pair in set(pairs):
        light, dark = sorted((luminance(colour) for colour in pair.split("|")), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, pair


@pytest.mark.parametrize("width", [1280, 390])
def test_browser_shows_whole_labels(browser, site, width):
    """No text leaves its chart, and tables of bars and the page fit the screen."""
    pandas = pytest.importorskip("pandas")
    draw = np.random.default_rng(0)
    table = pandas.DataFrame({"the size of the lot in square feet, measured": draw.normal(size=120) * 1e6})
    table["neighbourhood"] = draw.choice([f"an extraordinarily long name of a place, {k}" for k in range(5)], 120)
    values = 1e7 * table["neighbourhood"].str.endswith(("1", "3")) + table.iloc[:, 0]
    models = [
        LSSVR(kernels.RBF(ard=True)).fit(table, values),
        LSSVC(kernels.RBF(1.0), C=5.0).fit(table, table["neighbourhood"]),
    ]
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        for model in models:
            show(browser, site, report.to_html(model, about={"target": "the price that was paid in the end"}))
            clipped = browser.execute_script("""
                return [...document.querySelectorAll("svg text")].filter(text => {
                    const own = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
                    return own.left < all.left || own.right > all.right || own.top < all.top || own.bottom > all.bottom;
                }).map(text => text.textContent)""")
            assert clipped == []
            fits = (
                "return [...document.querySelectorAll('.wide')].map(t => t.offsetWidth <= t.parentElement.clientWidth)"
            )
            assert all(browser.execute_script(fits))
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_browser_narrow_screens_and_paper(browser, site):
    metrics = {"width": 360, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        show(browser, site, report.to_html(LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(RIPLEY, LABELS)))
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert browser.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
        model, about = hostile_model()  # with names of 300 letters
        show(browser, site, report.to_html(model, about=about))
        pieces = "return [...document.querySelectorAll('pre')].map(p => p.scrollWidth <= p.clientWidth + 1)"
        assert all(browser.execute_script(pieces))  # paper cannot be scrolled
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_errors_of_a_diagnosis_are_not_taken_for_absence(monkeypatch):
    model = LSSVR(kernels.RBF(1.0), C=1.0).fit(np.arange(12.0)[:, None], np.arange(12.0) % 3)

    def broken(model):
        raise ValueError("operands could not be broadcast together")

    monkeypatch.setattr("lssvm.diagnose.honest_values", broken)
    with pytest.raises(ValueError, match="broadcast"):
        report.to_html(model)


def test_the_report_shows_the_coverage_of_sets_and_regions():
    classes = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(RIPLEY, LABELS)
    found, page = diagnose.set_coverage(classes), report.to_html(classes)
    assert "Prediction sets</h2>" in page
    for observed, size in zip(found.observed, found.size, strict=True):
        assert f">{observed:.1%}</td>" in page
        assert f">{size:.2f}</td>" in page
    numbers = LSSVR(kernels.RBF(13.1), C=830.0).fit(*datasets.load_motorcycle(return_X_y=True))
    page = report.to_html(numbers)
    for observed in diagnose.coverage_by_region(numbers).observed:
        assert f">{observed:.1%}</td>" in page
