"""What a cell means: numbers, truth values, missing cells, text."""

import inspect
import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lssvm.tables import cells
from lssvm.tables.cells import number_of, numbers_of, readable, texts_of

pyarrow = pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        ("7", ".", 7.0),
        ("-.5", ".", -0.5),
        ("2.", ".", 2.0),
        ("+1e3", ".", 1000.0),
        ("1,5", ",", 1.5),
        ("7", ",", 7.0),
        ("1e999", ".", math.inf),
        ("-inf", ".", -math.inf),
        ("1,5", ".", math.nan),
        ("1.5", ",", math.nan),  # a point would be a mark of thousands
        ("1.040,5", ",", math.nan),
        ("1_000", ".", math.nan),
        ("12 kg", ".", math.nan),
        ("NaN", ".", math.nan),
        ("", ".", math.nan),
    ],
)
def test_one_rule_says_what_is_a_number(text, decimal, value):
    """For a text, for a column of numbers only, and for a column of all kinds of cells."""
    assert_array_equal(number_of(text, decimal), value)
    for others in ([], ["x"]):
        values, odd = numbers_of(pyarrow.array([*others, text, "3"]), decimal)
        assert_array_equal(values, [*(math.nan for _ in others), value, 3.0])
        is_odd = not math.isfinite(value) and text not in cells.MISSING
        assert odd == [*range(len(others)), *([len(others)] if is_odd else [])]


def test_the_rule_needs_nothing_but_math():
    """So that an exported file can contain its source."""
    space = {"math": math}
    exec(f"from __future__ import annotations\n{inspect.getsource(number_of)}", space)
    assert space["number_of"]("1,5", ",") == 1.5


def test_missing_cells_and_truth_values_of_a_column():
    column = pyarrow.array(["1", None, "", "?", "nan", "n/a", "True", "false", "yes"])
    values, odd = numbers_of(column)
    assert_array_equal(values, [1, *[np.nan] * 5, 1, 0, np.nan])
    assert odd == [8]
    assert texts_of(column).to_pylist() == ["1", None, None, None, None, "n/a", "True", "false", "yes"]
    assert texts_of(column, known=("?",)).to_pylist()[3] == "?"
    assert numbers_of(pyarrow.array([1.0, np.nan, np.inf, None]))[1] == [2]
    assert texts_of(pyarrow.array([1.0, np.nan, 2.5])).to_pylist() == ["1", None, "2.5"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pyarrow.array([" a", "b ", None]), ["a", "b", None]),
        (pyarrow.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pyarrow.array([True, None, False]), ["true", None, "false"]),
        (pyarrow.array([1, None, 3], pyarrow.int8()), [1.0, None, 3.0]),
        (pyarrow.array(["1.5", "2"]).cast(pyarrow.decimal128(5, 2)), [1.5, 2.0]),
    ],
)
def test_columns_of_files_are_numbers_or_texts(column, expected):
    assert readable(column).to_pylist() == expected


def test_columns_of_other_types_are_not_readable():
    assert readable(pyarrow.array([[1], [2]])) is None


def test_a_further_kind_of_cell_is_one_reader(monkeypatch):
    def percentage(text, decimal):
        return number_of(text[:-1], decimal) / 100 if text.endswith("%") else math.nan

    column = pyarrow.array(["12%", "7", "x", ""])
    assert numbers_of(column)[1] == [0, 2]
    monkeypatch.setattr(cells, "READERS", (*cells.READERS, percentage))
    values, odd = numbers_of(column)
    assert_array_equal(values, [0.12, 7.0, np.nan, np.nan])
    assert odd == [2]
