"""Tables as people have them: generated ones and CSV files, as they are, against gradient boosting.

    python -m benchmarks.raw_tables [--data FOLDER] [--sets NAME ...] [--splits 0 1 2] [--rows N] [--jobs N]

The generated tables have N rows (shops 2 N, fraud 4 N). FOLDER/tables, or else FOLDER, holds CSV files; their target is
the column "class", or the last one, and text, and up to 20 different whole numbers, are classes. In every split, a
fifth of the rows is held out at random, of every class alike, and generated tables are drawn anew. lssvm has its
defaults and the columns as they are; boosting is HistGradientBoosting with categorical_features="from_dtype", where
text is a category or, of more than 255 different cells, their number in order; "by hand", money, percentages and dates
became numbers first. Errors are RMSE over the standard deviation of the training targets, error rates, log losses, 1 -
average precision of one of two classes with less than a tenth of the rows, and the Poisson deviance of models with that
loss. 0.01 is added to error rates and precisions before they are divided. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.stats import gmean
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import average_precision_score, log_loss, mean_poisson_deviance
from sklearn.model_selection import train_test_split

from lssvm import LSSVC, LSSVR

from .records import ZERO, fitted, quietly
from .tuning import table

OWN, BOOSTING, BY_HAND = "lssvm", "boosting", "boosting, columns by hand"
Table = tuple[dict[str, Any], np.ndarray, dict[str, Any]]  # columns, target, and what takes their place by hand


def read(file: Path) -> tuple[pd.DataFrame, np.ndarray, bool]:
    """The columns, the target and whether it is a class."""
    frame = pd.read_csv(file, keep_default_na=False, na_values=[""])
    target = "class" if "class" in frame else frame.columns[-1]
    y = (frame := frame.dropna(subset=[target]))[target].to_numpy()
    return frame.drop(columns=target), y, y.dtype.kind not in "f" + "iu" * (len(np.unique(y)) > 20)


def shop(draw: np.random.RandomState, n: int) -> Table:
    """Revenue from prices and discounts that are text."""
    price, discount = np.exp(draw.uniform(np.log(5), np.log(3000), n)).round(2), draw.randint(0, 13, n) * 5
    stock, colour = draw.randint(0, 50, n), draw.choice(["red", "blue", "green"], n)
    y = price * (1 - discount / 100) + 2.0 * stock + 30.0 * (colour == "red") + 20.0 * draw.normal(size=n)
    text = {"price": [f"${cell:,.2f}" for cell in price], "discount": [f"{cell}%" for cell in discount]}
    return text | {"stock": stock, "colour": colour}, y, {"price": price, "discount": discount}


def demand(draw: np.random.RandomState, n: int) -> Table:
    """Sales of successive days with a trend, a yearly and a weekly course."""
    dates = pd.date_range("2019-01-01", periods=n)
    weekday, year_day = dates.day_of_week.to_numpy(), dates.day_of_year.to_numpy()
    price, promotion = draw.uniform(8, 12, n), draw.choice(["yes", "no"], n, p=[0.2, 0.8])
    season, week = 2.0 * np.pi * year_day / 365.25, np.array([0, -5, -4, 0, 8, 25, 18])
    y = 100 + 0.02 * np.arange(n) + 20 * np.sin(season) + 8 * np.cos(2 * season) + week[weekday]
    y += -6.0 * (price - 10) + 15.0 * (promotion == "yes") + 5.0 * draw.normal(size=n)
    columns = {"date": dates.strftime("%Y-%m-%d"), "price": price, "promotion": promotion}
    return columns, y, {"date": np.arange(n), "day of year": year_day, "weekday": weekday}


def prices(draw: np.random.RandomState, n: int) -> Table:
    """Lognormal prices with relative noise."""
    area, age, place = draw.uniform(20, 250, n), draw.uniform(0, 100, n), draw.randint(0, 4, n)
    rooms = np.clip(np.round(area / 30 + draw.normal(size=n)), 1, 8)
    logarithm = 11 + 0.9 * np.log(area / 100) - 0.6 * np.sin(age / 25) + np.array([0.8, 0.3, -0.2, -0.7])[place]
    y = np.exp(logarithm + 0.05 * rooms + 0.3 * draw.normal(size=n))
    return {"area": area, "age": age, "rooms": rooms, "place": np.array([*"abcd"])[place]}, y, {}


def inputs(draw: np.random.RandomState, n: int) -> Table:
    """A smooth function of the logarithms of lognormal inputs."""
    z = 1.5 * draw.normal(size=(4, n))
    y = np.sin(z[0]) + 0.5 * np.tanh(z[1]) + 0.3 * z[2] * np.cos(0.7 * z[0]) + 0.15 * draw.normal(size=n)
    return {f"x{number}": column for number, column in enumerate(np.exp(z))}, y, {}


def counts(draw: np.random.RandomState, n: int) -> Table:
    """Counts with small means."""
    load, speed, noise = draw.uniform(-2, 2, (3, n))
    season = draw.choice(["spring", "summer", "autumn", "winter"], n)
    y = draw.poisson(np.exp(-0.3 + np.sin(1.5 * load) + 0.4 * speed + 0.6 * (season == "summer")))
    return {"load": load, "speed": speed, "noise": noise, "season": season}, y, {}


def fraud(draw: np.random.RandomState, n: int) -> Table:
    """One row of 100 is a fraud: high amounts at night or from one country, mostly in young accounts."""
    amount, hour, age = draw.normal(size=4 * n), draw.uniform(0, 24, 4 * n), draw.uniform(0, 10, 4 * n)
    country = draw.choice(["DE", "FR", "IT", "US"], 4 * n, p=[0.5, 0.3, 0.15, 0.05])
    night = np.maximum(np.cos(2 * np.pi * (hour - 3) / 24), 0)
    logit = 2.0 * night * amount + 1.5 * (country == "US") * amount - 0.3 * age + 1.5 * draw.normal(size=4 * n)
    y = np.where(logit > np.quantile(logit, 0.99), "fraud", "valid")
    return {"amount": np.exp(4 + amount), "hour": hour, "country": country, "age of account": age}, y, {}


def shops(draw: np.random.RandomState, n: int) -> Table:
    """A category of 300 shops, each with its own level."""
    number, size, income = draw.randint(0, 300, 2 * n), draw.uniform(-1, 1, 2 * n), draw.uniform(-1, 1, 2 * n)
    y = 1.5 * draw.normal(size=300)[number] + np.sin(3 * size) + income + draw.normal(size=2 * n)
    return {"shop": [f"S{cell:03}" for cell in number], "size": size, "income": income}, y, {}


def steps(draw: np.random.RandomState, n: int) -> Table:
    """Steps along the axes."""
    x = draw.uniform(-1, 1, (4, n))
    y = 2.0 * (x[0] > 0.2) + (x[1] > -0.3) * (x[2] > 0) + 0.3 * draw.normal(size=n)
    return {f"x{number}": column for number, column in enumerate(x)}, y, {}


GENERATED = {make.__name__: make for make in (shop, demand, prices, inputs, counts, fraud, shops, steps)}


def prepared(X: pd.DataFrame) -> pd.DataFrame:
    """Columns for boosting."""
    text = X.select_dtypes(["object", "string"]).astype("category")
    many = [name for name in text if len(text[name].cat.categories) > 255]
    return X.assign(**{**text, **{name: text[name].cat.codes.replace(-1, np.nan) for name in many}})


def record(source: Callable[..., Table] | Path, split: int, rows: int) -> tuple[str, dict[str, dict[str, float]]]:
    """The size of a table, and by measure and model the errors of a split and the CPU seconds of the fit."""
    columns, y, by_hand = ({}, None, {}) if isinstance(source, Path) else source(np.random.RandomState(split), rows)
    X, y, classes = read(source) if isinstance(source, Path) else (pd.DataFrame(columns), y, y.dtype.kind == "U")
    own, boosting = (LSSVC, HistGradientBoostingClassifier) if classes else (LSSVR, HistGradientBoostingRegressor)
    given: dict[str, Any] = {"categorical_features": "from_dtype", "random_state": 0}
    models = [(OWN, own(), X), (BOOSTING, boosting(**given), prepared(X))]
    if by_hand:
        models.append((BY_HAND, boosting(**given), prepared(X.assign(**by_hand))))
    if source is counts and "loss" in own().get_params():
        models += [(OWN, own(loss="poisson"), X), (BOOSTING, boosting(loss="poisson", **given), prepared(X))]
    alike = y if classes and np.unique(y, return_counts=True)[1].min() > 1 else None
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=split, stratify=alike)
    errors: dict[str, dict[str, float]] = {}
    for name, model, frame in models:
        with quietly():
            taken = fitted(lambda model=model: model, frame.iloc[train], y[train])[1]
            scored = scores(model, frame.iloc[test], y[test], y[train]) | {"CPU seconds": taken}
        for measure, error in scored.items():
            errors.setdefault(measure, {}).setdefault(name, float(error))  # seconds are those of the defaults
    return f"{X.shape[0]} x {X.shape[1]}", errors


def scores(model: Any, X: pd.DataFrame, y: np.ndarray, train: np.ndarray) -> dict[str, float]:
    """The errors by measure; `train` holds the targets of the fit."""
    if not hasattr(model, "classes_"):
        predicted = np.asarray(model.predict(X))
        if model.get_params().get("loss") == "poisson":
            return {"Poisson deviance": mean_poisson_deviance(y, predicted)}
        return {"RMSE / std": np.sqrt(np.mean((predicted - y) ** 2)) / np.std(train)}
    probability, (classes, sizes) = model.predict_proba(X), np.unique(train, return_counts=True)
    found = {"error rate": np.mean(classes[np.argmax(probability, axis=1)] != y)}
    found["log loss"] = log_loss(y, probability, labels=classes)
    if len(classes) == 2 and sizes.min() < 0.1 * len(train):
        rare = np.argmin(sizes)
        found["1 - average precision"] = 1.0 - average_precision_score(y == classes[rare], probability[:, rare])
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder of CSV files; without it, only the generated tables")
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="all, unless given")
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=1500, help="N, 1500 unless given")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    options = parser.parse_args(arguments)
    folder = options.data / "tables" if options.data and (options.data / "tables").is_dir() else options.data
    sources = GENERATED | {file.stem: file for file in (sorted(folder.glob("*.csv")) if folder else ())}
    if absent := [name for name in options.sets if name not in sources]:
        parser.error(f"there is no table {absent[0]!r}: choose from {', '.join(sources)}")
    runs = [(name, split) for name in options.sets or sources for split in options.splits]
    results = Parallel(options.jobs)(delayed(record)(sources[name], split, options.rows) for name, split in runs)
    lines, ratios = [], {"generated tables": [], "CSV files": []}
    for name in dict.fromkeys(name for name, _ in runs):
        own = [result for run, result in zip(runs, results, strict=True) if run[0] == name]
        means = pd.concat([pd.DataFrame(found) for _, found in own]).groupby(level=0).mean()  # models x measures
        taken = [f"{means['CPU seconds'][model]:.1f}" for model in (OWN, BOOSTING)]
        for measure in means.columns.drop("CPU seconds"):
            errors = means[measure].reindex([OWN, BOOSTING, BY_HAND])
            add = ZERO if measure in ("error rate", "1 - average precision") else 0.0
            ratio = (errors[OWN] + add) / (errors[BOOSTING] + add)
            shown = ["" if np.isnan(error) else f"{error:.3f}" for error in errors]
            lines.append([name, own[0][0], measure, *shown, f"{ratio:.2f}", *taken])
            if measure in ("RMSE / std", "error rate"):
                ratios["generated tables" if name in GENERATED else "CSV files"].append(ratio)
    table(["set", "rows x columns", "measure", OWN, BOOSTING, BY_HAND, "ratio", "CPU seconds", "boosting's"], lines)
    print("RMSE or error rate + 0.01 over boosting's, geometric mean of", end=" ")
    print(*(f"{len(values)} {kind}: {gmean(values):.3f}" for kind, values in ratios.items() if values), sep=", ")


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # lssvm's own threads obey it, too
    main()
