"""Several outputs at little extra cost

Two noisy coordinates of a curve as functions of one parameter. `y` has two columns, which share the kernels, C and the
weights of the models; the second column costs only one more right-hand side per model.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR

draw = np.random.RandomState(0)
t = draw.uniform(0, 2 * np.pi, 200)
curve = np.column_stack([np.sin(3 * t), np.sin(4 * t)])
observed = curve + draw.normal(0, 0.12, curve.shape)
model = LSSVR().fit(t[:, None], observed)

figure, ax = pyplot.subplots(figsize=(5.2, 4.6), layout="constrained")
grid = np.linspace(0, 2 * np.pi, 600)
fitted = model.predict(grid[:, None])
ax.plot(*observed.T, ".", color="#777777", markersize=4, label="rows")
ax.plot(np.sin(3 * grid), np.sin(4 * grid), color="#333333", linestyle="--", linewidth=1, label="without noise")
ax.plot(*fitted.T, color="#1f5fa8", linewidth=1.8, label="LSSVR().predict, two columns")
ax.set(
    xlabel="first output", ylabel="second output", title="A Lissajous curve from 200 noisy points", ylim=(-1.4, 1.75)
)
ax.legend(loc="upper center", ncols=3, fontsize=8, framealpha=0.85, edgecolor="none")
ax.grid(alpha=0.2)
ax.spines[["top", "right"]].set_visible(False)

if __name__ == "__main__":
    pyplot.show()
