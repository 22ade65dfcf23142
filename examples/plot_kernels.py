"""What a kernel assumes

The same 60 rows with six kernels. Widths and C are chosen by leave-one-out; the titles give the root mean square
leave-one-out error. Inside the data the models differ little, except for the polynomial, which is too stiff. Outside
they differ a lot: RBF and the smooth Matern kernel diverge, the rough Matern kernel stays constant, and the spline
continues in a straight line. No kernel knows what happens there.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVR, kernels

draw = np.random.RandomState(1)
x = np.sort(draw.uniform(0, 10, 60))
y = 0.3 * x + np.abs(np.sin(x)) + draw.normal(0, 0.12, 60)
grid = np.linspace(-2, 12, 400)

choices = {
    "RBF()": kernels.RBF(),
    "Matern(nu=0.5)": kernels.Matern(nu=0.5),
    "Matern(nu=2.5)": kernels.Matern(nu=2.5),
    "Polynomial(3)": kernels.Polynomial(3),
    "Spline(12)": kernels.Spline(12),
    "Linear() + RBF()": kernels.Linear() + kernels.RBF(),
}
figure, axes = pyplot.subplots(2, 3, figsize=(10.0, 5.2), sharex=True, sharey=True, layout="constrained")
for ax, (name, kernel) in zip(axes.flat, choices.items(), strict=True):
    model = LSSVR(kernel).fit(x[:, None], y)
    error = np.sqrt(np.mean(model.loo_residuals_**2))
    ax.plot(x, y, ".", color="#777777", markersize=4)
    ax.plot(grid, model.predict(grid[:, None]), color="#1f5fa8", linewidth=1.8)
    ax.set_title(f"{name}: {error:.3f}", fontsize=10)
    ax.grid(alpha=0.2)
    ax.spines[["top", "right"]].set_visible(False)
axes[0, 0].set_ylim(-0.5, 5.5)
figure.supxlabel("x", fontsize=10)
figure.supylabel("y", fontsize=10)

if __name__ == "__main__":
    pyplot.show()
