"""Sections of the report against independent routes: the verdict, the columns, classes, the data."""

import html
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from pages import Reader, cells, section
from sklearn.metrics import average_precision_score

from lssvm import LSSVC, LSSVR, datasets, diagnose, kernels, load, report, save
from lssvm.report import verdict
from lssvm.report.columns import importance_section
from lssvm.report.facts import Facts
from lssvm.report.verdict import constant_predictions, linear_predictions, model_predictions

X, y = datasets.load_motorcycle(return_X_y=True)
RIPLEY, LABELS = datasets.load_ripley(return_X_y=True)
THREE = np.where(RIPLEY[:, 0] > 0.3, 2, LABELS)


def numbers_in(text):
    return [float(number) for number in re.findall(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?", text)]


def others(rows, values):
    """Each row with all others."""
    return [(row, np.delete(values, row, axis=0)) for row in rows]


# The verdict --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("robust", [None, "hampel"])
@pytest.mark.parametrize("n", [40, 41])
def test_constants_are_those_of_the_other_rows(robust, n):
    model = LSSVR(kernels.RBF(13.1), C=50.0, robust=robust).fit(X[:n], np.round(y[:n]))
    found = constant_predictions(model_predictions(Facts(model, {})))
    middle = np.mean if robust is None else np.median
    np.testing.assert_allclose(found.predicted[:, 0], [middle(rest) for _, rest in others(range(n), np.round(y[:n]))])


def test_weighted_means_of_the_other_rows():
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = LSSVR(kernels.RBF(13.1), C=50.0).fit(X, y, sample_weight=weights)
    found = constant_predictions(model_predictions(Facts(model, {})))
    mean = [np.average(rest, weights=np.delete(weights, row)) for row, rest in others(range(len(y)), y)]
    np.testing.assert_allclose(found.predicted[:, 0], mean)


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_linear_model_is_left_out_exactly(outputs):
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(50, 3)) * [1.0, 50.0, 0.01]  # enough for a search of C alone
    targets = np.sin(inputs @ np.ones((3, outputs))) + inputs[:, :1]
    model = LSSVR(kernels.RBF(1.0), C=5.0).fit(inputs, targets[:, 0] if outputs == 1 else targets)
    found = linear_predictions(Facts(model, {}))
    scaled = inputs / inputs.std(axis=0)
    C = LSSVR(kernels.Linear()).fit(scaled, targets).C_
    for row, rest in others(range(50), scaled):
        refit = LSSVR(kernels.Linear(), C=C).fit(rest, np.delete(targets, row, axis=0))
        np.testing.assert_allclose(found.predicted[row], refit.predict(scaled[row : row + 1])[0], rtol=1e-8, atol=1e-8)


def test_the_errors_of_the_page_are_those_of_the_three_models():
    model = LSSVR(kernels.RBF(13.1), C=50.0).fit(X, y)
    page = report.to_html(model, about={"target": "acceleration"})
    reader = Reader(section(page, "verdict"))
    mean = (y.sum() - y) / (len(y) - 1)
    linear = LSSVR(kernels.Linear()).fit(X / X.std(axis=0), y)
    errors = [np.sqrt(np.mean(e**2)) for e in (model.loo_residuals_, linear.loo_residuals_, y - mean)]
    for name, error in zip(("this model", "linear model", "always the average"), errors, strict=True):
        assert float(cells(reader, name)[1]) == pytest.approx(error, rel=1e-3)
    assert "The model predicts acceleration well." in page
    own, straight, constant = errors
    assert (
        f"off by {own:.4g}: {1 - own / constant:.0%} less than always predicting the average ({constant:.4g})" in page
    )
    assert f"and {1 - own / straight:.0%} less than a linear model ({straight:.4g})." in page
    longest = max(float(width) for width in re.findall(r'class="bar" x="0.00" width="([\d.]+)"', page)[:3])
    assert longest == 100.0


def test_errors_of_classes_are_shares():
    for labels in (LABELS, THREE):
        model = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(RIPLEY, labels)
        reader = Reader(section(report.to_html(model), "verdict"))
        assert cells(reader, "this model")[1] == f"{np.mean(model.loo_predictions_ != labels):.1%}"
        shares = np.unique(labels, return_counts=True)[1] / len(labels)
        assert cells(reader, "always the most frequent class")[1] == f"{1 - shares.max():.1%}"
        scaled = LSSVC(kernels.Linear()).fit(RIPLEY / RIPLEY.std(axis=0), labels)
        wrong = np.argmax(diagnose.loo_probabilities(scaled)[0], axis=1) != np.searchsorted(scaled.classes_, labels)
        assert cells(reader, "linear model")[1] == f"{np.mean(wrong):.1%}"


def targets_of(kind, inputs, draw):
    noise = draw.normal(size=len(inputs))
    return {
        "line": inputs[:, 0] + 0.1 * noise,
        "few": inputs[:, 0] + 0.7 * noise,
        "wave": np.sin(3 * inputs[:, 0]) + 0.1 * noise,
        "noise": noise,
        "constant": noise,
        "little": 0.2 * inputs[:, 0] + noise,
    }[kind]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("line", ["predicts y very well", "A linear model is about as good"]),
        ("wave", ["predicts y very well", "than a linear model ("]),
        pytest.param(
            "little",
            ["These columns predict y only weakly", "A linear model is about as good"],
            marks=pytest.mark.slow,
        ),
        ("few", ["There are too few rows to tell whether these columns predict y"]),
        ("noise", ["These columns do not predict y", "more than always predicting the average"]),
        ("constant", ["These columns do not predict y", "no less than always predicting the average"]),
    ],
)
def test_the_words_of_the_verdict(kind, words):
    draw = np.random.default_rng(0)
    inputs = draw.uniform(-2, 2, ({"little": 1500, "few": 5}.get(kind, 150), 1))
    C = {"noise": 1e6, "constant": 1e-6}.get(kind, 10.0)
    model = LSSVR(kernels.RBF(1.0 if kind == "wave" else 10.0), C=C).fit(inputs, targets_of(kind, inputs, draw))
    found = section(report.to_html(model), "verdict")
    for part in words:
        assert part in found


def test_a_better_linear_model_is_reported():
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(200, 3))
    model = LSSVR(kernels.RBF(0.3), C=1e3).fit(inputs, inputs @ np.ones(3) + 0.1 * draw.normal(size=200))
    assert "A linear model is better (0.1" in section(report.to_html(model), "verdict")


def test_probabilities_of_a_rare_class_count():
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(600, 1))
    labels = np.where(draw.uniform(size=600) < 0.45 * (inputs[:, 0] > 0.2), "rare", "usual")
    found = section(report.to_html(LSSVC(kernels.RBF(1.0), C=1.0).fit(inputs, labels)), "verdict")
    assert "It rarely names another class, but its probabilities are informative." in found
    assert "do not predict" not in found


def page_with_a_rare_class(n=400, sample_weight=None):
    """A class with one row of 25, on both sides of the others, which a linear model cannot find."""
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(n, 2))
    labels = np.where((np.abs(inputs[:, 0]) > 1.7) & (draw.uniform(size=n) < 0.6), "<rare>", "usual")
    model = LSSVC(kernels.RBF(1.0), C=1.0).fit(inputs, labels, sample_weight)
    return inputs, labels == "<rare>", model, report.to_html(model)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_rare_class_is_judged_by_its_average_precision(weighted):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 400) if weighted else None
    inputs, own, model, page = page_with_a_rare_class(400, weights)
    assert 0.02 < np.mean(own) < 0.1
    found = section(page, "verdict")
    linear = LSSVC(kernels.Linear()).fit(inputs / inputs.std(axis=0), own, weights)
    scores = [diagnose.loo_probabilities(model)[0][:, 0], diagnose.loo_probabilities(linear)[0][:, 1], np.zeros(400)]
    mine, straight, constant = (average_precision_score(own, p, sample_weight=weights) for p in scores)
    assert f"average precision matters more: {mine:.2f}, and {constant:.2f} for a constant." in found
    assert f"A linear model is worse ({straight:.2f})." in found
    assert "about as good" not in found
    for own_value, value in zip((mine, straight, constant), re.findall(r'class="n">([01]\.\d\d)<', found), strict=True):
        assert f"{own_value:.2f}" == value
    rare = diagnose.rare_class(model)
    best = rare.recall[rare.best], rare.precision[rare.best]
    words = "at least {:.2g}, it is found in {:.0%} of its rows, and {:.0%} of the rows named are right."
    assert words.format(rare.threshold[rare.best], *best) in found
    assert "“&lt;rare&gt;” has only" in found
    assert f"has only {own.sum()} rows, so its figures are rough, and too good if they tuned the model." in found


def test_thresholds_for_a_rare_class_are_listed():
    _, own, model, page = page_with_a_rare_class()
    source = section(page, "quality")
    assert "Decision threshold for “&lt;rare&gt;”" in source
    assert "<rare>" not in page
    p = diagnose.loo_probabilities(model)[0][:, 0]
    for k, threshold in ((1, 0.5), (3, 0.25), (9, 0.1), (19, 0.05), (99, 0.01)):
        named = p >= threshold
        expected = [str(k), f"{threshold:.2g}", f"{named.mean():.1%}", f"{own[named].sum() / own.sum():.1%}"]
        assert [*expected, f"{own[named].mean():.1%}"] in Reader(source).rows
    covered = diagnose.set_coverage(model).by_class[:, 0]
    rows = Reader(section(page, "intervals")).rows
    assert [row[2] for row in rows[1:]] == [f"{share:.1%}" for share in covered]


def test_the_sample_of_the_linear_model_may_lack_the_rare_class(monkeypatch):
    inputs, rare, model, _ = page_with_a_rare_class(200)
    monkeypatch.setattr(verdict, "LINEAR_ROWS", 20)
    sample = np.random.default_rng(0).choice(200, 20, replace=False)
    rare[sample] = False
    for labels in (np.where(rare, "rare", "usual"), np.where(rare, "rare", np.where(inputs[:, 1] > 0, "up", "down"))):
        found = section(report.to_html(model.fit(inputs, labels)), "verdict")
        assert "average precision matters more" in found
        assert "A linear model is" not in found
        assert found.count("linear model</th>") == len(np.unique(labels)) - 2  # only among the error rates


def test_verdicts_without_comparisons():
    same = report.to_html(LSSVR(kernels.RBF(1.0), C=1.0).fit(X, np.ones(len(X))))
    assert "All rows have the same y." in same
    linear = section(report.to_html(LSSVR(kernels.Linear(), C=1.0).fit(X, y)), "verdict")
    assert "linear model" not in linear
    matrix = section(report.to_html(LSSVR(kernels.Precomputed(), C=1.0).fit(kernels.RBF(13.1)(X), y)), "verdict")
    assert "linear model" not in matrix


def test_an_output_that_is_constant_has_no_part_in_the_verdict():
    model = LSSVR(kernels.RBF(13.1), C=50.0)
    alone = section(report.to_html(model.fit(X, y)), "verdict")
    page = section(report.to_html(model.fit(X, np.column_stack([y, np.ones(len(y))]))), "verdict")
    headline = re.search(r'class="verdict">[^<]*', alone).group()
    assert headline in page
    assert max(float(error) for error in cells(Reader(page), "y 1")[1:]) < 1e-8


def test_many_rows_are_compared_on_a_sample(monkeypatch):
    monkeypatch.setattr(verdict, "LINEAR_ROWS", 60)
    model = LSSVR(kernels.RBF(13.1), C=50.0).fit(X, y)
    found = linear_predictions(Facts(model, {}))
    assert len(found.weights) == 60
    np.testing.assert_allclose(found.actual[:, 0], y[found.rows])
    assert "The linear model is fitted to 60 of the rows." in report.to_html(model)


# The columns ----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def frame():
    """A table with categories, missing cells and columns without use."""
    draw = np.random.default_rng(1)
    n = 150
    table = pd.DataFrame(
        {
            "number": np.delete(np.arange(n + 5) + 1001, [3, 9, 27, 81, 99]),
            "size of the lot in square metres": draw.normal(size=n),
        }
    )
    table["kind"] = draw.choice(["flat", "house", "<b>villa</b>"], n)
    table["level"] = pd.Categorical(draw.choice(["low", "high"], n), ["low", "high"], ordered=True)
    table["gaps"] = np.where(draw.uniform(size=n) < 0.1, np.nan, draw.normal(size=n))
    table["none"] = np.where(draw.uniform(size=n) < 0.2, None, draw.choice(["a", "b"], n))
    table["constant"] = 3.0
    table["twin"] = table["kind"].map({"flat": "z", "house": "x", "<b>villa</b>": "y"})  # sorted in another order
    table["id"] = [f"id-{k}" for k in range(n)]
    table["many"] = [f"v{min(k, 109)}" for k in draw.permutation(n)]
    worth = table["size of the lot in square metres"] + 2.0 * (table["kind"] == "house") + (table["level"] == "high")
    return table, np.minimum(worth + 0.1 * draw.normal(size=n), 3.0)


@pytest.fixture(scope="module")
def of_frame(frame):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lssvm.tables.encoding.MOST_VALUES", 100)
        with pytest.warns(UserWarning, match="ignored|values"):
            return LSSVR(kernels.RBF(sigma=3.0), C=10.0).fit(*frame)


@pytest.fixture(scope="module", params=["fitted", "loaded"])
def page_of_frame(request, of_frame, tmp_path_factory):
    model = of_frame
    if request.param == "loaded":
        path = tmp_path_factory.mktemp("models") / "m.lssvm"
        save(model, path)
        model = load(path)
    return report.to_html(model, about={"target": "worth"})


def test_the_ranking_is_that_of_importance(of_frame, page_of_frame):
    found = diagnose.importance(of_frame)
    used = [k for k, name in enumerate(found.names) if name != "id"]
    increase = found.increase[used]
    source = section(page_of_frame, "importance")
    rows = Reader(source).rows[1:]
    assert [row[0] for row in rows] == [found.names[k] for k in used]
    shares = [float(row[1].rstrip("%")) / 100 for row in rows]
    np.testing.assert_allclose(shares, increase / found.full, atol=5.1e-4)
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="10"', source)]
    np.testing.assert_allclose(widths, np.abs(increase) / np.ptp([0.0, *increase]) * 100, atol=0.01)
    starts = [float(x) for x in re.findall(r'class="bar" x="([\d.]+)"', source)]
    zero = -100 * min(0.0, *increase) / np.ptp([0.0, *increase])
    np.testing.assert_allclose(starts, zero - np.where(increase < 0, widths, 0.0), atol=0.02)
    assert "1 of 10 columns is not used." in source


def test_the_effects_are_those_of_the_most_important_columns(of_frame, page_of_frame):
    source = section(page_of_frame, "effects")
    ranking = diagnose.importance(of_frame)
    shown = ranking.columns[ranking.increase > 0][:6]
    effects = {one.name: one for one in diagnose.effects(of_frame, columns=shown)}
    first, second = diagnose.interactions(of_frame).names[0]
    assert f"strongest for {html.escape(first)} and {html.escape(second)} (" in source
    titles = re.findall(r'<h3>([^<]*)</h3>|class="title"[^>]*>([^<]*)<', source)
    assert [name or title for name, title in titles] == [one.name for one in effects.values()]
    reader = Reader(source)
    for value, effect in zip(effects["kind"].grid, effects["kind"].effect, strict=True):
        assert float(cells(reader, value)[1]) == pytest.approx(effect, rel=5e-3)
    assert [row[0] for row in reader.rows if row[0] in ("low", "high")] == ["low", "high"]  # in their order
    curve = re.search(r'square metres</text>.*?class="line c0" d="M([^"]*)"', source, re.DOTALL)[1]
    drawn = np.array([[float(v) for v in place.split()] for place in curve.split(" L")])
    one = effects["size of the lot in square metres"]
    np.testing.assert_allclose(np.corrcoef(drawn[:, 0], one.grid.astype(float))[0, 1], 1.0, atol=1e-4)
    np.testing.assert_allclose(np.corrcoef(drawn[:, 1], one.effect)[0, 1], -1.0, atol=1e-4)  # pixels count downwards


def test_effects_of_an_additive_model_are_its_components():
    rows = np.column_stack([X, np.cos(X), np.ones(len(X))])
    model = LSSVR(kernels.Additive(kernels.RBF(sigma=[10.0, 1.0, 1.0])), C=5.0).fit(rows, y + 20.0 * rows[:, 1])
    curves = re.findall(r'class="line c0" d="M([^"]*)"', section(report.to_html(model), "effects"))
    assert len(curves) == 2  # the constant column has no effect
    grid = np.unique(np.quantile(X, np.linspace(0, 1, 21), method="inverted_cdf"))
    component = kernels.RBF(sigma=10.0)(grid[:, None], rows[:, :1]) @ model.dual_coef_
    drawn = np.array([[float(v) for v in place.split()] for place in curves[0].split(" L")])
    assert np.corrcoef(drawn[:, 1], component)[0, 1] < -1 + 1e-4


def test_effects_on_several_classes_name_the_classes(frame):
    table, worth = frame[0][["kind", "gaps"]], frame[1]
    labels = np.select([table["kind"] == "house", worth > 0.3], ["h", "l"], "m")
    model = LSSVC(kernels.RBF(sigma=2.0), C=5.0).fit(table, labels)
    reader = Reader(section(report.to_html(model), "effects"))
    kind = diagnose.effects(model, columns=["kind"])[0]
    for value, effect in zip(kind.grid, kind.effect, strict=True):
        best, worst = np.argmax(effect), np.argmin(effect)
        favoured, disfavoured = cells(reader, value)[1:]
        assert favoured.split()[0] == model.classes_[best]
        assert disfavoured.split()[0] == model.classes_[worst]
        np.testing.assert_allclose(
            [float(words.split()[1]) for words in (favoured, disfavoured)], 100 * effect[[best, worst]], rtol=5e-3
        )


# Classes --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["two", "three"])
def test_areas_are_shares_of_pairs(labels):
    model = LSSVC(kernels.RBF(sigma=0.5), C=5.0).fit(RIPLEY, labels)
    source = section(report.to_html(model), "quality")
    reader, probability = Reader(source), diagnose.loo_probabilities(model)[0]
    classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    for label in classes:
        score = probability[:, list(model.classes_).index(label)]
        inside, outside = score[labels == label][:, None], score[labels != label][None, :]
        area = np.mean((inside > outside) + 0.5 * (inside == outside))
        row = next(row for row in reader.rows if row[:2] == [str(label), str(np.sum(labels == label))])
        assert row[2] == f"{area:.3f}"
        assert row[3] == f"{average_precision_score(labels == label, score):.3f}"
    assert source.count('class="line c0"') == 3  # ROC, precision and recall, reliability
    assert source.count('class="line c1"') == (2 if len(classes) > 1 else 0)


# The data -------------------------------------------------------------------------------------------------------------
def test_what_is_odd_about_the_columns_is_listed(frame, page_of_frame):
    table = frame[0]
    source = section(page_of_frame, "data")
    reader = Reader(source)
    missing = int(table.isna().to_numpy().sum())
    assert "150 rows and 10 columns (4 numeric, 1 ordered, 4 categorical, 1 ignored)." in source
    assert f"{missing} of 1500 cells ({missing / 1500:.1%}) are missing." in source
    for name in ("gaps", "none"):
        count = int(table[name].isna().sum())
        assert cells(reader, name)[1] == f"{count} missing ({count / 150:.1%})"
    assert "numbers the rows" in cells(reader, "number")[1]
    assert "the same value in all rows" in cells(reader, "constant")[1]
    assert cells(reader, "twin")[1] == "the same as kind"
    assert "identifier" in cells(reader, "id")[1]
    kept = table["many"].value_counts()
    kept = sorted(kept.index, key=lambda value: (-kept[value], value))[:100]
    assert f"rare values in {np.sum(~table['many'].isin(kept))} rows" in cells(reader, "many")[1]
    assert [row[0] for row in reader.rows[1:]] == ["number", "constant", "twin", "id", "many", "none", "gaps"]


def test_a_target_that_is_cut_off_is_reported(frame, page_of_frame):
    count = int(np.sum(frame[1] == 3.0))
    assert count >= 5
    words = f"{count} rows ({count / 150:.1%}) have the largest worth, 3. If it was cut off there, predictions near it"
    assert f"{words} are too low." in section(page_of_frame, "data")
    low = report.to_html(LSSVR(kernels.RBF(13.1), C=50.0).fit(X, np.maximum(y, -50.0)))
    assert "have the smallest y, -50. If it was cut off there, predictions near it are too high." in low


def test_ordinary_tables_have_nothing_odd():
    for targets in (y, np.round(y / 10)):  # many rows share a value, but not an extreme one
        source = section(report.to_html(LSSVR(kernels.RBF(13.1), C=50.0).fit(X, targets)), "data")
        assert source.endswith("133 rows and 1 column (1 numeric). No cells are missing.</p></section>")
    counts = np.random.default_rng(0).poisson(1.0, 133)  # the smallest is frequent, and so is its neighbour
    assert "cut off" not in report.to_html(LSSVR(kernels.RBF(13.1), C=0.1).fit(X, counts))


def test_integers_that_repeat_or_have_gaps_do_not_number_the_rows(frame):
    table, worth = frame
    for values in (np.arange(150) // 2, 2 * np.arange(150), np.arange(150) + 0.5):
        model = LSSVR(kernels.RBF(sigma=3.0), C=10.0).fit(table[["level"]].assign(number=values), worth)
        assert "numbers the rows" not in report.to_html(model)
    model.fit(table[["number"]], worth)
    assert "numbers the rows" in report.to_html(model)


def test_notes_are_shown_once_and_where_they_belong():
    model = LSSVR(kernels.RBF(13.1), C=50.0).fit(X, y)
    notes = ["column 'x' looks odd", "missing cells: 'x' 3", "X: column 'id' is ignored", "C is large"]
    page = report.to_html(model, about={"warnings": notes, "dropped": [3]})
    assert "<li>column &#x27;x&#x27; looks odd</li>" in section(page, "data")
    assert "1 other row could not be used." in section(page, "data")
    assert "<li>C is large</li>" in section(page, "technical")
    assert "missing cells: " not in page
    assert "id&#x27; is ignored" not in page
    assert [page.count(word) for word in ("looks odd", "C is large")] == [1, 1]


def test_one_row_is_singular():
    """A class with one row, and a row far from all others."""
    draw = np.random.default_rng(0)
    inputs = np.vstack([draw.uniform(-1, 1, (30, 1)), [[90.0]]])
    model = LSSVR(kernels.RBF(0.5), C=1e4).fit(inputs, np.append(draw.normal(size=30), 0.0))
    assert "<li>1 row alone determines the function nearby" in report.to_html(model)
    labels = np.where(np.arange(31) == 3, "rare", np.where(inputs[:, 0] > 0, "a", "b"))
    page = report.to_html(LSSVC(kernels.RBF(0.5), C=1.0, loss="squared", coding="one-vs-rest").fit(inputs, labels))
    assert "has only 1 row, so its figures are rough" in page
    assert not re.search(r"\b1 (rows|columns|points|models|classes)\b|\(s\)", page)


def test_changes_that_round_to_zero_have_no_sign():
    found = SimpleNamespace(columns=[0, 1], names=["a", "b"], increase=np.array([3e-5, -4e-4]), full=1.0)
    found.measure, found.rows, found.sampled = "RMSE", 9, False
    page = importance_section(SimpleNamespace(importance=found, used=[True, True]))
    assert re.findall(r">([-+]?[\d.]+%)<", page) == ["0.0%", "0.0%"]
    found.increase = np.array([0.026, -0.0041])
    page = importance_section(SimpleNamespace(importance=found, used=[True, True]))
    assert re.findall(r">([-+]?[\d.]+%)<", page) == ["+2.6%", "-0.4%"]


# Intervals ------------------------------------------------------------------------------------------------------------
def test_intervals_are_those_of_predict_interval():
    """With few rows per width, `predict_interval` repeats the search, and its intervals are much wider."""
    draw = np.random.default_rng(1)
    table = draw.normal(size=(60, 4))
    model = LSSVR(kernels.RBF(ard=True))
    model.fit(table, np.sin(2 * table[:, 0]) * table[:, 1] + table[:, 2] + draw.normal(0, 0.3, 60))
    rows = [row for row in Reader(section(report.to_html(model), "intervals")).rows if row[0].endswith("%")]
    widths = [np.mean(np.diff(model.predict_interval(table, coverage))) for coverage in (0.5, 0.8, 0.9, 0.95)]
    np.testing.assert_allclose([float(row[-1]) for row in rows], widths, rtol=1e-3)
    assert widths[2] > 1.2 * diagnose.coverage_path(model, (0.9,)).width[0]
    regions = diagnose.coverage_by_region(model, n_bins=1)
    assert regions.width[0] == pytest.approx(widths[2], rel=0.1)
