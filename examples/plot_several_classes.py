"""Three classes at once

Fisher's iris data by petal length and width. Leave-one-out chooses whether the classes are fitted one against the rest
or one against one. The probabilities are calibrated on leave-one-out decision values, and the most probable class wins.
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
