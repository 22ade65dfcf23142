"""Why coding and loss matter

Top: three ordered classes along one input, with a linear kernel and squared loss. One against the rest, the middle
class has the others on both sides: its decision value is flat, and it hardly ever wins. One against one, each pair has
a border between its two classes. Bottom: two classes, one of which also has rows far from the border. The squared loss
penalises rows that are correct by too much, so that the far rows pull the border, where f = 0, into their class; the
other losses hardly see them. The titles and the legend give the errors on 9000 new rows.
"""

import numpy as np
from matplotlib import pyplot

from lssvm import LSSVC, kernels

LOSSES = {"squared": "squared", "squared_hinge": "squared hinge", "logistic": "logistic"}


def ordered(rows, seed):
    """Three classes, side by side along a noisy input."""
    draw = np.random.RandomState(seed)
    y = np.arange(rows) % 3
    return (2 * y - 2 + draw.uniform(-1, 1, rows) + draw.normal(0, 0.25, rows))[:, None], y


def far(rows, seed):
    """Two classes; every third row of the second one is far from the border."""
    draw = np.random.RandomState(seed)
    x, y = draw.normal(0, 0.6, rows), np.arange(rows) % 2
    return (x + 2 * y + 6 * (np.arange(rows) % 6 == 5))[:, None], y


def error(model, X, y):
    return 1 - model.score(X, y)


figure, axes = pyplot.subplots(2, 2, figsize=(9.6, 7.0), layout="constrained")
X, y = ordered(150, 0)
X_test, y_test = ordered(9000, 1)
x = np.linspace(-3, 3, 301)
for ax, coding in zip(axes[0], ["one-vs-rest", "one-vs-one"], strict=True):
    model = LSSVC(kernels.Linear(), C=1.0, coding=coding, loss="squared").fit(X, y)
    for c, name in enumerate(["low", "middle", "high"]):
        ax.plot(x, model.decision_function(x[:, None])[:, c], color=f"C{c}", label=name)
        ax.plot(X[y == c, 0], np.full((y == c).sum(), -1.6), "|", color=f"C{c}")
    ax.set(title=f"{coding}: {error(model, X_test, y_test):.1%} errors", xlabel="x", ylabel="decision value")
    ax.legend()

ax = axes[1, 0]
margin = np.linspace(-1.5, 4, 200)
curves = (1 - margin) ** 2 / 2, np.maximum(0, 1 - margin) ** 2 / 2, np.log1p(np.exp(-margin))
for curve, (name, style) in zip(curves, zip(LOSSES.values(), ["-", "--", ":"], strict=True), strict=True):
    ax.plot(margin, curve, style, color="k", label=name)
ax.set(title="What a row costs", xlabel="margin t f(x)", ylabel="loss")
ax.legend()

ax = axes[1, 1]
X, y = far(150, 0)
X_test, y_test = far(9000, 1)
x = np.linspace(-2, 10, 301)
for (loss, name), style in zip(LOSSES.items(), ["-", "--", ":"], strict=True):
    model = LSSVC(kernels.Linear(), C=1.0, loss=loss).fit(X, y)
    label = f"{name}: {error(model, X_test, y_test):.1%} errors"
    ax.plot(x, model.decision_function(x[:, None]), style, color="k", label=label)
for c in range(2):
    ax.plot(X[y == c, 0], np.full((y == c).sum(), -2.6), "|", color=f"C{2 * c}")
ax.axhline(0, color="0.8", zorder=0)
ax.set(title="A class with rows far from the border", xlabel="x", ylabel="f(x)", ylim=(-3, 4))
ax.legend(loc="lower right", bbox_to_anchor=(1.0, 0.1))

if __name__ == "__main__":
    pyplot.show()
