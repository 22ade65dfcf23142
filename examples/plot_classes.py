"""Two classes with all vectors, and with twelve

Ripley's two classes in the plane. Darker regions are more certain; the lines are at the probabilities 0.1, 0.5 and 0.9.
Left: the dense model with 250 support vectors. Right: twelve support vectors, pruned by `Prune(12, rows="keep")`, which
keeps all rows in the loss. The titles give the error on 1000 new rows.
"""

from matplotlib import pyplot

from lssvm import LSSVC, datasets, sparsify
from lssvm.plotting import FitDisplay

X, y = datasets.load_ripley(return_X_y=True)
X_test, y_test = datasets.load_ripley(subset="test", return_X_y=True)

figure, axes = pyplot.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
for ax, steps in zip(axes, [None, [sparsify.Prune(12, rows="keep")]], strict=True):
    model = LSSVC(steps=steps).fit(X, y)
    FitDisplay.from_estimator(model, ax=ax)
    size, error = len(model.support_vectors_), 1 - model.score(X_test, y_test)
    ax.set(title=f"{size} support vectors, {error:.1%} errors", xlabel="x", ylabel="z")

if __name__ == "__main__":
    pyplot.show()
