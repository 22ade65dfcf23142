"""Calibrated probabilities

The observed frequency of a class against its predicted probability, in bins of equal count with 95 % intervals. Left:
leave-one-out predictions for the 250 training rows. Right: 1000 new rows. The slopes of the probabilities are fitted
on leave-one-out decision values, so no rows are held back.
"""

from matplotlib import pyplot

from lssvm import LSSVC, datasets
from lssvm.plotting import ReliabilityDisplay

X, y = datasets.load_ripley(return_X_y=True)
X_test, y_test = datasets.load_ripley(subset="test", return_X_y=True)
model = LSSVC().fit(X, y)

figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
ReliabilityDisplay.from_estimator(model, ax=left, n_bins=6)
left.set_title("Training rows, leave-one-out")
ReliabilityDisplay.from_estimator(model, X_test, y_test, ax=right)
right.set_title("New rows")

if __name__ == "__main__":
    pyplot.show()
