"""Where the basis points lie

Twelve basis points for Ripley's two classes, chosen in six ways with the same kernel and C. `Random` follows the
density; `RandomlyPivoted` and `FeatureVectors` spread out; the centres of `KMeans` are not rows of the data; `Prune`
uses the labels; and the points of `Learned` move along the gradient of the leave-one-out error. The titles give the
error on 1000 new rows.
"""

from matplotlib import pyplot

from lssvm import LSSVC, datasets, kernels, sparsify

X, y = datasets.load_ripley(return_X_y=True)
X_test, y_test = datasets.load_ripley(subset="test", return_X_y=True)

ways = {
    "Random(12)": sparsify.Random(12, random_state=0),
    "RandomlyPivoted(12)": sparsify.RandomlyPivoted(12, random_state=0),
    "FeatureVectors(12)": sparsify.FeatureVectors(12),
    "KMeans(12)": sparsify.KMeans(12, random_state=0),
    'Prune(12, rows="keep")': sparsify.Prune(12, rows="keep"),
    "Learned(12)": sparsify.Learned(12, random_state=0),
}
figure, axes = pyplot.subplots(2, 3, figsize=(10.0, 6.0), sharex=True, sharey=True, layout="constrained")
for ax, (name, step) in zip(axes.flat, ways.items(), strict=True):
    model = LSSVC(kernels.RBF(0.7), C=10.0, steps=[step]).fit(X, y)
    ax.scatter(*X.T, c=y, cmap="coolwarm", s=7, alpha=0.5, linewidths=0)
    ax.scatter(*model.support_vectors_.T, s=55, facecolors="none", edgecolors="black", linewidths=1.4)
    ax.set_title(f"{name}: {1 - model.score(X_test, y_test):.1%}", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
figure.supxlabel("x", fontsize=10)
figure.supylabel("z", fontsize=10)

if __name__ == "__main__":
    pyplot.show()
