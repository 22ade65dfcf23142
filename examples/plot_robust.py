"""Outliers lose their weight

A noisy sinc in which 15 of 300 targets are shifted by 2. The plain model follows them. The weighted one (Suykens et al.
2002) solves, weights every row by its residual in units of a robust scale, and solves again: the outliers end up with
the smallest weight, 1e-4. Right: its leave-one-out residuals, shaded by weight; the largest are labelled with their
row numbers.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR, datasets
from lssvm.plotting import ResidualsDisplay

X, y = datasets.make_sinc(300, outliers=15, random_state=0)
plain = LSSVR().fit(X, y)
weighted = LSSVR(robust="hampel").fit(X, y)

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
x = np.linspace(-5, 5, 400)
left.plot(X, y, ".", color="#999999", markersize=4, label="rows")
left.plot(x, np.sinc(x), color="#333333", linestyle="--", linewidth=1.2, label="sinc(x)")
left.plot(x, plain.predict(x[:, None]), color="#b3541e", linewidth=1.8, label="LSSVR()")
left.plot(x, weighted.predict(x[:, None]), color="#1f5fa8", linewidth=1.8, label='LSSVR(robust="hampel")')
left.set(xlabel="x", ylabel="y", title="Noisy sinc with 15 outliers")
left.legend(loc="lower left", fontsize=8, framealpha=0.85, edgecolor="none")
left.grid(alpha=0.2)
left.spines[["top", "right"]].set_visible(False)
ResidualsDisplay.from_estimator(weighted, ax=right)

if __name__ == "__main__":
    pyplot.show()
