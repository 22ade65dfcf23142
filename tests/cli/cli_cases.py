"""A table of people's prices, its file formats and the program, for the tests of the command line."""

import re
import sys

import numpy as np


def read_table(text):
    """The printed table as a dict, once its values are seen to start in one column."""
    rows = [re.fullmatch(r"(\S.*?)\s{2,}(\S.*)", line) for line in text.splitlines()]
    assert len({row.start(2) for row in rows}) == 1
    return dict(row.groups() for row in rows)


RNG = np.random.RandomState(0)
AGE = RNG.randint(18, 80, 60)
CITY = RNG.choice(["Köln", "Oslo", "Paris"], 60)
PRICE = np.round(2.0 * AGE + 30.0 * (CITY == "Oslo") + RNG.normal(0, 5, 60), 2)
ROWS = [(str(age), str(city), f"{price:.2f}") for age, city, price in zip(AGE, CITY, PRICE, strict=True)]
NAMES = ("age", "city", "price")


def lines(rows=ROWS, names=NAMES, delimiter=","):
    return "".join(delimiter.join(row) + "\n" for row in ([names] if names else []) + list(rows))


def people(age=AGE, city=CITY):
    """The inputs as a frame."""
    import pyarrow

    return pyarrow.table({"age": np.asarray(age, dtype=float), "city": pyarrow.array(list(city), pyarrow.string())})


def write_parquet(path):
    from pyarrow import parquet, table

    parquet.write_table(table({"age": AGE, "city": CITY, "price": PRICE}), path)


def rounding(model):
    """Bound on the rounding of a prediction: a sum of products with kernels of at most one over the support vectors."""
    from lssvm import diagnose

    eps = np.finfo(float).eps
    return sum(w * eps * len(part.dual_coef_) * np.abs(part.dual_coef_).sum() for part, w in diagnose.members(model))


def planned(text, folder, target="y", **options):
    from lssvm.cli.reading import open_table
    from lssvm.cli.roles import plan

    (folder / "table.csv").write_text(text, encoding="utf-8")
    return plan(open_table("table.csv"), target, **options)


PROGRAM = [sys.executable, "-c", "from lssvm.cli import main; main()"]
