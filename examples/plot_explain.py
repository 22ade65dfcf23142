"""What the model has learned from each column

Rents of 400 flats, in a table with a category and missing cells. Left: how much the leave-one-out error grows without
each column; the number of the flat has nothing to do with its rent. Right: the effects of the four most important
columns on the predicted rent, each with the other columns as they are in the rows.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot

from lssvm import LSSVR, diagnose
from lssvm.plotting import EffectsDisplay, ImportanceDisplay

draw = np.random.RandomState(0)
flats = pd.DataFrame({"size": draw.gamma(8, 9, 400), "year": draw.randint(1900, 2025, 400)})
flats["city"] = draw.choice(["Bern", "Lille", "Oslo", "Rome"], 400, p=[0.2, 0.3, 0.2, 0.3])
flats["distance"] = draw.exponential(4, 400)
flats["number"] = draw.randint(1, 60, 400)
level = flats["city"].map({"Bern": 16, "Lille": 9, "Oslo": 18, "Rome": 12})
age = 40 * np.abs(flats["year"] - 1960) / 60
rent = level * flats["size"] ** 0.9 * np.exp(-flats["distance"] / 20) + 4 * age + draw.normal(0, 60, 400)
flats.loc[draw.choice(400, 60, replace=False), "distance"] = np.nan  # not known
model = LSSVR().fit(flats, rent)

figure = pyplot.figure(figsize=(10.4, 4.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1.0, 1.3])
ImportanceDisplay.from_estimator(model, ax=left.subplots())
axes = right.subplots(2, 2, sharey=True).ravel()
EffectsDisplay.from_estimator(model, flats, diagnose.importance(model).columns[:4], axes=axes)
right.supylabel("effect on the predicted rent", fontsize="medium")

if __name__ == "__main__":
    pyplot.show()
