"""Three classes at once

Fisher's iris data by petal length and width. Each class is fitted against the rest, all from one factorisation. The
largest decision value wins, and the probabilities are calibrated on leave-one-out decision values.
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
ax.set_title(f"Iris: {(model.loo_predictions_ != y).sum()} of {len(y)} flowers misclassified (leave-one-out)")

if __name__ == "__main__":
    pyplot.show()
