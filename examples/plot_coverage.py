"""Do the intervals cover?

The share of 1000 new rows that lie inside the interval, against the requested coverage, over 10 draws of 60 training
rows with fixed kernel and C. Jackknife+ and cv+ are close to the requested coverage; jackknife-minmax is above it, as
its guarantee implies.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR, datasets, kernels

asked = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
X_new, y_new = datasets.make_sinc(1000, random_state=99)

figure, ax = pyplot.subplots(figsize=(5.6, 4.4), layout="constrained")
ax.plot([0.45, 1], [0.45, 1], color="#888888", linewidth=1, linestyle="--", label="as requested")
colours = {"jackknife+": "#1f5fa8", "cv+": "#3d8361", "jackknife-minmax": "#b3541e"}
for method, colour in colours.items():
    inside = np.empty((10, len(asked)))
    for seed in range(10):
        model = LSSVR(kernels.RBF(1.2), C=10.0).fit(*datasets.make_sinc(60, random_state=seed))
        for level, coverage in enumerate(asked):
            low, high = model.predict_interval(X_new, coverage, method=method).T
            inside[seed, level] = np.mean((low <= y_new) & (y_new <= high))
    error = inside.std(axis=0, ddof=1) / np.sqrt(10)
    ax.errorbar(asked, inside.mean(axis=0), error, color=colour, marker="o", markersize=4, label=method)
ax.set(xlabel="requested coverage", ylabel="share of new rows inside", title="Coverage, mean and its standard error")
ax.legend(framealpha=0.85, edgecolor="none")
ax.grid(alpha=0.2)
ax.spines[["top", "right"]].set_visible(False)

if __name__ == "__main__":
    pyplot.show()
