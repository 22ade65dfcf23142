"""A surface over two inputs

Left: the prediction. Right: the width of its 90 % interval. Inside the data the width is nearly constant. Outside it
grows only a little, although the prediction in the corners is far from the function: intervals do not account for
extrapolation.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR

draw = np.random.RandomState(0)
X = draw.uniform(-2, 2, (120, 2))
y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + draw.normal(0, 0.1, 120)
model = LSSVR().fit(X, y)

side = np.linspace(-2.4, 2.4, 60)
grid = np.column_stack([values.ravel() for values in np.meshgrid(side, side)])
low, high = model.predict_interval(grid, coverage=0.9).T

figure, axes = pyplot.subplots(1, 2, figsize=(10.0, 4.2), sharey=True, layout="constrained")
drawn = {"prediction of sin(2x) cos(z)": model.predict(grid), "width of the 90 % interval": high - low}
for ax, (title, values) in zip(axes, drawn.items(), strict=True):
    contours = ax.contourf(side, side, values.reshape(60, 60), levels=15, cmap="viridis")
    figure.colorbar(contours, ax=ax)
    ax.plot(*X.T, ".", color="white", markersize=3)
    ax.set(title=title, xlabel="x")
axes[0].set_ylabel("z")

if __name__ == "__main__":
    pyplot.show()
