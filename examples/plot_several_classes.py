"""Three classes at once

Fisher's iris by petal length and width. One column a class against the rest, all from one factorisation; the largest
decision value wins, and the probabilities are calibrated on left-out decision values.
"""

from matplotlib import pyplot
from sklearn.datasets import load_iris

from lssvm import LSSVC
from lssvm.plotting import FitDisplay

iris = load_iris(as_frame=True)
X = iris.data[["petal length (cm)", "petal width (cm)"]]
y = iris.target_names[iris.target]
model = LSSVC().fit(X, y)

figure, ax = pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")
FitDisplay.from_estimator(model, ax=ax)
ax.set_title(f"Iris: {(model.loo_predictions_ != y).sum()} of {len(y)} left-out flowers misclassified")

if __name__ == "__main__":
    pyplot.show()
