"""A curve with its interval

133 measurements of head acceleration in simulated motorcycle crashes. `LSSVR()` averages several models; their kernels,
widths, C and weights are chosen by exact leave-one-out. The band is the 90 % interval. It follows the noise, which is
small before 15 ms, because the leave-one-out residuals show that the noise varies.
"""

from matplotlib import pyplot

from lssvm import LSSVR, datasets
from lssvm.plotting import FitDisplay

X, y = datasets.load_motorcycle(return_X_y=True)
model = LSSVR().fit(X, y)

figure, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
FitDisplay.from_estimator(model, ax=ax)
ax.set(xlabel="time after impact (ms)", ylabel="head acceleration (g)", title="Motorcycle crashes")

if __name__ == "__main__":
    pyplot.show()
