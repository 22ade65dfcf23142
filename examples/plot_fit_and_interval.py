"""A curve with its interval

133 measurements of head acceleration in simulated motorcycle crashes. The kernel, its width and C are chosen by exact
leave-one-out. The band is the 90 % jackknife+ interval, from the same factorisation. Its width is nearly constant, so
it is too wide before 15 ms, where the noise is small.
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
