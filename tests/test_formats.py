"""Texts that are numbers, dates and booleans: what they mean, which way of reading fits a column, what a model gets."""

import datetime
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from lssvm import LSSVR, diagnose, export, kernels, load, save, sparsify
from lssvm.tables.formats import CYCLES, YEAR, Evidence, Format, cycles_of, readings

pd = pytest.importorskip("pandas")

N = 90
RNG = np.random.default_rng(0)
CENTS = RNG.integers(-500_000_000, 500_000_000, N)
DAYS = np.datetime64("2019-03-01") + RNG.permutation(800)[:N]
Y = np.sin(CENTS / 1e8) + RNG.normal(0, 0.1, N)
GIVEN = {"kernel": kernels.RBF(1.5), "C": 10.0}


def format_of(texts, rows=None):
    rows = len(texts) if rows is None else rows
    return Evidence().add((text, row) for row, text in enumerate(texts)).settle(rows, len(set(texts)))


def marked(cents, thousands, decimal):
    """An amount in cents as people write it."""
    text = f"{abs(cents) // 100:,}".replace(",", thousands)
    return f"{text}{decimal}{abs(cents) % 100:02}"


MONEY = {
    "plain": lambda c: f"{'-' * (c < 0)}{marked(c, '', '.')}",
    "dollars": lambda c: f"{'-' * (c < 0)}${marked(c, ',', '.')}",
    "sign inside": lambda c: f"$ {'-' * (c < 0)}{marked(c, ',', '.')}",
    "parentheses": lambda c: f"(${marked(c, ',', '.')})" if c < 0 else f"${marked(c, ',', '.')}",
    "euros": lambda c: f"{'-' * (c < 0)}{marked(c, '.', ',')} EUR",
    "glued": lambda c: f"{chr(0x2212) * (c < 0)}{marked(c, '.', ',')}€",
    "French": lambda c: f"{'-' * (c < 0)}{marked(c, chr(0x202F), ',')} €",
    "Swiss": lambda c: f"{'-' * (c < 0)}CHF {marked(c, chr(0x2019), '.')}",
    "unit": lambda c: f"{'-' * (c < 0)}{marked(c, '', '.')} kg",
    "percent": lambda c: f"{'-' * (c < 0)}{marked(c, '', ',')}%",
    "area": lambda c: f"{'-' * (c < 0)}{marked(c, '', ',')}m2",
}


@pytest.mark.parametrize("name", MONEY)
def test_amounts_are_read_as_they_were_written(name):
    texts = [MONEY[name](cents) for cents in CENTS.tolist()]
    found, fault, _ = format_of(texts)
    assert not fault
    assert_array_equal([found.read(text) for text in texts], CENTS / 100)
    model = LSSVR(**GIVEN).fit(pd.DataFrame({"amount": texts}), Y)
    assert_array_equal(model.loo_residuals_, LSSVR(**GIVEN).fit(CENTS[:, None] / 100, Y).loo_residuals_)


NO_READING = "1.2.3 1,23,456 12-14 1_000 192.168.1.1 3/4 A1 5x3 (5 5) $ - 0.13.2020 31/02/2020 2020-13-01 24:10 12:60"


@pytest.mark.parametrize(
    "text",
    [*NO_READING.split(), "--5", "(-5)", "-$-5", "1e999", "inf", "2020-01-01T10", "1.234.56", "", "1 2", "1:00 ZM"],
)
def test_other_texts_have_no_reading(text):
    assert readings(text) == {}


def test_dates_are_those_of_the_standard_library():
    """Against strftime, in every order, with times of day, halves of days and offsets."""
    draw = np.random.default_rng(1)
    spelled = {
        "%Y-%m-%d": "ymd",
        "%Y/%m/%d %H:%M": "ymd",
        "%Y-%m-%dT%H:%M:%S.%fZ": "ymd",
        "%d.%m.%Y": "dmy",
        "%d/%m/%Y %H:%M:%S": "dmy",
        "%m/%d/%Y %I:%M %p": "mdy",
        "%m-%d-%y": "mdy",
    }
    for form, style in spelled.items():
        times = [datetime.datetime(1970, 1, 1) + datetime.timedelta(minutes=int(m)) for m in draw.integers(0, 3e7, 60)]
        texts = [time.strftime(form) for time in times]
        found, fault, _ = format_of(texts)
        assert (found, fault) == (Format(style), "")
        exact = [datetime.datetime.strptime(text, form) - datetime.datetime(1970, 1, 1) for text in texts]
        days = [delta / datetime.timedelta(days=1) for delta in exact]
        assert_allclose((np.array([found.read(text) for text in texts]) - 1970) * YEAR, days, atol=1e-7)
    local, utc = (Format("ymd").read(text) for text in ("2020-06-01 01:30+05:30", "2020-05-31 20:00"))
    assert local == pytest.approx(utc, abs=1e-12)
    assert [round(Format("dmy").read(f"02/01/{year}"), 2) for year in ("00", "68", "69", "99")] == [
        2000,
        2068,
        1969,
        1999,
    ]
    assert (Format("clock").read("18:00") - 1970) * YEAR == pytest.approx(0.75)
    assert np.isnan(Format("clock").read("2020-06-01"))  # a time of day has no date


# One format for all cells ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1,234", "12,5"], Format(",")),  # a comma before one digit is a decimal comma
        (["1,234", "12.5"], Format(".")),
        (["1.234", "2.5"], Format(".")),
        (["1.234", "2,5"], Format(",")),
        (["1,234", "1,234,567"], Format(".")),
        (["$123", "$1,234", "$567,890"], Format(".", "$")),  # a comma before three digits is a mark of thousands
        (["1.234", "5.678"], Format(".")),  # a point alone is a decimal point
        (["1.234", "5678"], Format(".")),
        (["1.234 kg", "0.5 kg", "2 kg"], Format(".", "kg")),
        (["01/02/2020", "13/02/2020"], Format("dmy")),
        (["01/02/2020", "02/13/2020"], Format("mdy")),
        (["01.02.2020", "03.04.2020"], Format("dmy")),  # dates with dots begin with the day
        (["yes", "No", "Y"], Format("words")),
        (["yes", "no", "yes"], None),
        (["t", "n", "f"], None),  # not words of one pair
        (["On", "off", "OFF"], Format("words")),
        (["$5", "(3)", "7"], Format(".", "$")),  # a currency may be left out, other units not
        (["12:30", "9:05"], Format("clock")),
        (["2020-01", "2021-12"], Format("ymd")),
        (["NA", "5%", ""], Format(".", "%")),
        (["1;2", "3;4"], None),
        (["007", "123"], None),  # codes
        (["7", "8"], None),  # few whole numbers, as astype(str) makes of codes
        (["1a", "2b", "3c", "4d"], None),
        (["yes", "no", "NA"], None),  # NA is a value of text
        (["red", "12"], None),
    ],
)
def test_the_format_of_a_column(texts, expected):
    assert format_of(texts) == (expected, "", False)
    assert format_of(texts[::-1]) == (expected, "", False)


MIXED = [f"{k % 28 + 1}/1/{2000 + k // 28}" for k in range(13, 100)]


@pytest.mark.parametrize(
    ("texts", "more", "fault"),
    [
        (["1234", "1,234", "5,678"], [], "contains '1,234' in row 1, which may have a decimal comma"),
        (["567 €", "1.234 €", "12.500 €"], [], "contains '1.234 €' in row 1, which may have a decimal point"),
        (["1.234", "1,234"], [], "contains '1.234' in row 0, which may have a decimal point or a mark of thousands"),
        (["01/02/2020", "3/4/2020"], [], "contains '01/02/2020' in row 0, which may have the day or the month first"),
        (["13/1/2021", "1/13/2021"], MIXED, "contains dates (day, month, year) and '1/13/2021' in row 1"),
        (["1.5", "about 5"], [f"{k}.25" for k in range(99)], "contains numbers and 'about 5' in row 1"),
        (["1 kg", "5 lb"], [f"{k}.2 kg" for k in range(99)], "different units, '1 kg' in row 0 and '5 lb' in row 1"),
        (["1%", "5"], [f"{k}.25%" for k in range(99)], "different units, '1%' in row 0 and '5' in row 1"),
    ],
)
def test_what_cannot_be_decided_is_refused(texts, more, fault):
    """The message names column, row, cell and remedy; a category that keeps all values is reported, not refused."""
    texts = texts + more
    whole = rf"^X: column 'x' .*{re.escape(fault)}.*\(counting from 0\): .*, or name it in categorical_features"
    with pytest.raises(ValueError, match=whole):
        LSSVR(**GIVEN).fit(pd.DataFrame({"x": texts}), np.arange(len(texts)))
    as_category = LSSVR(**GIVEN, categorical_features=["x"])
    if more:
        frame = pd.DataFrame({"x": 5 * texts[:15]})
        with pytest.warns(UserWarning, match=f"{re.escape(fault)}.*treated as a category"):
            model = LSSVR(**GIVEN).fit(frame, np.arange(75))
        assert_array_equal(model.predict(frame), as_category.fit(frame, np.arange(75)).predict(frame))


# Times ----------------------------------------------------------------------------------------------------------------
def days_of(times):
    return (times - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")


def tables_of(times, zone=None):
    """The same column of times as every kind of table."""
    series = pd.Series(times) if zone is None else pd.Series(times).dt.tz_localize("UTC").dt.tz_convert(zone)
    yield pd.DataFrame({"t": series})
    yield pd.DataFrame({"t": series.astype(object)})
    yield pd.DataFrame({"t": series.map(lambda time: time.isoformat())})
    pa = pytest.importorskip("pyarrow")
    arrow = pa.table({"t": pa.array(series)})
    yield from (arrow, pd.DataFrame({"t": series.astype(pd.ArrowDtype(arrow.schema.field("t").type))}))
    yield pytest.importorskip("polars").from_arrow(arrow)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # of polars 2 for scikit-learn 1.6
def test_times_of_all_kinds_of_tables_are_the_same(zone):
    times = np.datetime64("2018-01-01T00:00:00") + np.random.default_rng(2).integers(0, 400 * 24, N) * 3600
    frames = list(tables_of(times, zone))
    model = LSSVR(**GIVEN).fit(frames[0], Y)
    assert model.columns_ == {"t": "dates, with time of year, weekday, hour" + f" of {zone}" * (zone is not None)}
    for frame in frames:
        assert_allclose(model.predict(frame), model.predict(frames[0]), rtol=1e-9)
        other = LSSVR(**GIVEN).fit(frame, Y)
        if other.fitted_.layout.columns.columns[0].zone != (zone or ""):  # objects and texts have only an offset
            assert zone is not None
            continue
        assert_allclose(other.loo_residuals_, model.loo_residuals_, rtol=1e-7, atol=1e-9)


def test_a_time_is_elapsed_time_and_cycles_with_their_own_widths():
    """Against explicit columns: the year, then sine and cosine of the time of year and of the weekday."""
    days = days_of(DAYS)
    waves = [f(2 * np.pi * days / CYCLES[name]) for name in ("time of year", "weekday") for f in (np.sin, np.cos)]
    explicit = np.column_stack([1970 + days / YEAR, *waves, CENTS])
    frame = pd.DataFrame({"t": DAYS, "x": CENTS})
    model = LSSVR(kernels.Matern([0.9, 1e8]), C=3.0).fit(frame, Y)
    expected = LSSVR(kernels.Matern([0.9, 0.9, 0.9, 0.9, 0.9, 1e8]), C=3.0).fit(explicit, Y)
    assert_allclose(model.loo_residuals_, expected.loo_residuals_, rtol=1e-7, atol=1e-9)
    assert_array_equal(model.fitted_.layout.groups, [0, 1, 1, 2, 2, 3])


def test_the_season_of_the_next_year_is_predicted():
    days = np.arange("2019-01-01", "2022-01-01", 3, dtype="datetime64[D]")
    season = np.sin(2 * np.pi * days_of(days) / YEAR)
    y, past = season + 0.1 * RNG.normal(size=len(days)), days < np.datetime64("2021-01-01")
    errors = {}
    for name, frame in {"dates": pd.DataFrame({"t": days}), "numbers": pd.DataFrame({"t": days_of(days)})}.items():
        model = LSSVR(kernels.Matern(ard=True)).fit(frame[past], y[past])
        errors[name] = np.sqrt(np.mean((model.predict(frame[~past]) - season[~past]) ** 2))
    assert errors["dates"] < 0.15 < 0.5 < errors["numbers"]


@pytest.mark.parametrize(
    ("times", "cycles"),
    [
        (np.arange("2020-01-01", "2020-12-01", dtype="datetime64[D]"), ["weekday"]),
        (np.arange("2020-01-01", "2022-01-01", dtype="datetime64[D]"), ["time of year", "weekday"]),
        (np.arange("2020-01", "2024-01", dtype="datetime64[M]"), ["time of year"]),
        (np.arange("2000", "2020", dtype="datetime64[Y]"), []),
        (np.arange("2020-01-01", "2023-01-01", 7, dtype="datetime64[D]"), ["time of year"]),
        (np.arange("2020-01-01", "2020-01-06", dtype="datetime64[h]"), ["hour"]),
        (np.arange("2020-01-01", "2020-02-01", dtype="datetime64[h]"), ["weekday", "hour"]),
        (np.arange("2020-01-01", "2020-01-06", 12, dtype="datetime64[h]"), []),  # two phases
        (np.repeat(np.datetime64("2020-01-01", "D"), 5), []),
        (np.array(["2020-01-01"], "datetime64[D]"), []),
    ],
)
def test_cycles_that_can_be_seen(times, cycles):
    years = 1970 + days_of(times) / YEAR
    assert list(cycles_of(years)) == cycles
    assert cycles_of(np.random.default_rng(0).permutation(np.repeat(years, 3))) == cycles_of(years)


def test_a_missing_time_has_the_median_and_no_phase():
    frame = pd.DataFrame({"t": pd.Series(DAYS).where(np.arange(N) % 9 > 0), "x": CENTS / 1e8})
    model = LSSVR(**GIVEN).fit(frame, Y)
    years = 1970 + days_of(DAYS) / YEAR
    missing = np.arange(N) % 9 == 0
    waves = [
        f(2 * np.pi * days_of(DAYS) / CYCLES[c]) * ~missing
        for c in ("time of year", "weekday")
        for f in (np.sin, np.cos)
    ]
    filled = np.where(missing, np.median(years[~missing]), years)
    explicit = np.column_stack([filled, np.std(years[~missing]) * missing, *waves, CENTS / 1e8])
    assert_allclose(model.loo_residuals_, LSSVR(**GIVEN).fit(explicit, Y).loo_residuals_, rtol=1e-6, atol=1e-8)


# Models of such columns -----------------------------------------------------------------------------------------------
FRAME = pd.DataFrame(
    {
        "price": [f"${cents / 100:,.2f}" for cents in CENTS],
        "share": [f"{k % 40},5 %" for k in range(N)],
        "member": [("no", "Yes", "yes")[k % 3] for k in range(N)],  # in one spelling they would be a category
        "day": pd.Series(DAYS).dt.strftime("%d/%m/%Y"),
        "city": [["Bern", "Oslo"][k % 2] for k in range(N)],
    }
)
WORDS = {
    "price": "numbers with the unit '$'",
    "share": "numbers with a decimal comma with the unit '%'",
    "member": "booleans in words",
    "day": "dates (day, month, year), with time of year, weekday",
    "city": "category (2 values)",
}


def test_what_was_understood_is_kept(tmp_path):
    model = LSSVR(**GIVEN).fit(FRAME, Y)
    assert model.columns_ == WORDS
    save(model, tmp_path / "m.lssvm")
    loaded = load(tmp_path / "m.lssvm")
    assert loaded.columns_ == WORDS
    new = FRAME.assign(price=CENTS / 100, day=DAYS, member=np.arange(N) % 3 > 0)  # as another program has read them
    for other in (FRAME, new):
        assert_allclose(loaded.predict(other), model.predict(FRAME), rtol=1e-9)
    with pytest.raises(NotFittedError):
        LSSVR().columns_  # noqa: B018
    assert LSSVR(**GIVEN).fit(CENTS[:, None], Y).columns_ == {0: "numbers"}


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("price", "5 lb", r"numbers with the unit '\$'"),
        ("price", "dear", "numbers"),
        ("share", "5 kg", "numbers with a decimal comma with the unit '%'"),
        ("member", "perhaps", "booleans in words"),
        ("day", "02/13/2020", r"dates \(day, month, year\)"),
        ("day", "soon", "dates"),
    ],
)
def test_a_cell_that_does_not_fit_is_named(name, cell, words):
    model = LSSVR(**GIVEN).fit(FRAME, Y)
    bad = FRAME.copy()
    bad.loc[7, name] = cell
    message = rf"^X: column '{name}' contains '{cell}' in row 7 \(counting from 0\), .*{words}.*correct the cell"
    with pytest.raises(ValueError, match=message):
        model.predict(bad)
    bad.loc[7, name] = "NA"
    assert np.isfinite(model.predict(bad)).all()


def test_dates_where_fit_had_none_and_the_reverse():
    model = LSSVR(**GIVEN).fit(FRAME, Y)
    with pytest.raises(ValueError, match=r"column 'day' contains '7.5' in row 0"):
        model.predict(FRAME.assign(day=7.5))
    with pytest.raises(TypeError, match=r"column 'price' contains datetime64.* values, whose numeric values depend"):
        model.predict(FRAME.assign(price=DAYS))


def test_chunks_are_read_as_the_whole():
    steps = [sparsify.Random(20, random_state=0)]
    whole = LSSVR(**GIVEN, steps=steps).fit(FRAME, Y)
    parts = [(FRAME[start : start + 30], Y[start : start + 30]) for start in (0, 30, 60)]
    chunked = LSSVR(**GIVEN, steps=steps).fit_chunks(parts)
    assert chunked.columns_ == WORDS
    assert_allclose(chunked.predict(FRAME), whole.predict(FRAME), rtol=1e-6)
    bad = FRAME[60:].assign(price="much")
    with pytest.raises(ValueError, match=r"^chunks: chunk 2: X: column 'price' contains 'much' in row 0"):
        LSSVR(**GIVEN, steps=steps).fit_chunks([*parts[:2], (bad, Y[60:])])


def test_texts_of_dask_are_understood():
    """From the first partition; in `predict`, the example that Dask makes up has other texts."""
    dd = pytest.importorskip("dask.dataframe")
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        whole = dd.from_pandas(FRAME.assign(y=Y), npartitions=3)
        X = whole[list(FRAME)]
        model = LSSVR(**GIVEN, steps=[sparsify.Random(20, random_state=0)]).fit(X, whole["y"])
        assert model.columns_ == WORDS
        assert_array_equal(model.predict(X).compute(), model.predict(FRAME))


def test_prices_as_categories_are_not_ignored():
    frame = FRAME.astype({"price": "category"})
    with pytest.raises(ValueError, match=r"column 'price' has numbers or dates as categories, such as .*nearly"):
        LSSVR(**GIVEN).fit(frame, Y)
    text = FRAME.assign(note=[f"note {k}" for k in range(N)])
    with pytest.warns(UserWarning, match="column 'note' is ignored"):
        assert LSSVR(**GIVEN).fit(text, Y).columns_["note"] == "ignored: every row differs"


def test_exports_take_the_numbers_and_refuse_dates():
    model = LSSVR(**GIVEN).fit(FRAME.drop(columns="day"), Y)
    module = {}
    exec(export.to_python(model), module)
    cells = [CENTS[4] / 100, 4.5, 1.0, "Bern"]
    assert module["predict"](cells) == pytest.approx(model.predict(FRAME.drop(columns="day"))[4], rel=1e-9)
    with pytest.raises(TypeError, match="Column 'day' contains dates, which cannot be exported: convert it to numbers"):
        export.to_python(LSSVR(**GIVEN).fit(FRAME, Y))


def test_effects_and_importance_of_a_time():
    frame = pd.DataFrame({"t": pd.Series(DAYS).where(np.arange(N) % 9 > 0), "x": CENTS})
    trend = days_of(DAYS) / 365
    model = LSSVR(kernels.RBF(ard=True)).fit(frame, trend)
    (effect,) = diagnose.effects(model, columns=["t"])
    assert_allclose(np.diff(effect.effect) / np.diff(effect.grid), 1.0, atol=0.3)
    assert diagnose.importance(model).names[0] == "t"


def test_hours_are_those_of_the_time_zone():
    """Sine and cosine of local hours across summer time, whatever the zone of the rows to predict."""
    times = pd.Series(pd.date_range("2021-03-20", periods=20 * 24, freq="h", tz="Europe/Berlin"))
    y = np.cos(2 * np.pi * times.dt.hour / 24)
    model = LSSVR(**GIVEN).fit(pd.DataFrame({"t": times}), y)
    assert model.columns_ == {"t": "dates, with weekday, hour of Europe/Berlin"}
    (column,) = model.fitted_.layout.columns.columns
    encoded = model.fitted_.layout.columns.encode([column.read(times)])
    hours = times.dt.hour + times.dt.minute / 60
    assert_allclose(encoded[:, 3:], np.column_stack([f(2 * np.pi * hours / 24) for f in (np.sin, np.cos)]), atol=1e-7)
    for zone in ("UTC", "Asia/Tokyo"):
        assert_array_equal(
            model.predict(pd.DataFrame({"t": times.dt.tz_convert(zone)})), model.predict(pd.DataFrame({"t": times}))
        )


def test_texts_in_which_case_and_blanks_differ_can_be_merged(tmp_path):
    spelled = np.array(["DE", "de ", " De", "FR", "fr"])[np.arange(N) % 5]
    codes = np.where(np.arange(N) % 5 < 3, "de", "fr")
    model = LSSVR(**GIVEN, merge_text=True).fit(pd.DataFrame({"country": spelled}), Y)
    whole = LSSVR(**GIVEN).fit(pd.DataFrame({"country": codes}), Y)
    assert_array_equal(model.loo_residuals_, whole.loo_residuals_)
    assert model.columns_ == {"country": "category (2 values)"}
    save(model, tmp_path / "m.lssvm")
    new = pd.DataFrame({"country": ["FR ", "De"]})
    assert_array_equal(load(tmp_path / "m.lssvm").predict(new), whole.predict(pd.DataFrame({"country": ["fr", "de"]})))
    with pytest.raises(TypeError, match="'country' has merge_text=True, which cannot be exported: convert its texts"):
        export.to_python(model)


def test_numbers_among_texts_with_a_decimal_comma():
    texts = [f"{x:.2f}".replace(".", ",") for x in np.linspace(0.1, 9.9, N)]
    model = LSSVR(**GIVEN).fit(pd.DataFrame({"x": texts}), Y)
    mixed = pd.DataFrame({"x": np.array([2.125, "3,5", 4], dtype=object)})
    assert_allclose(model.predict(mixed), model.predict(pd.DataFrame({"x": ["2,125", "3,5", "4"]})), rtol=1e-12)
