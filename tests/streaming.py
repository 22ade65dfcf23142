"""A stream that saves its model after every chunk and never ends: `python streaming.py PATH LSSVR|LSSVC DONE`."""

import sys

import numpy as np

from lssvm import LSSVC, LSSVR, kernels, load, save, sparsify

ROWS = 40


def chunk(kind, number):
    """Rows and targets of one chunk, always the same."""
    X = np.random.default_rng(number).uniform(-2, 2, (ROWS, 3))
    return X, np.sin(2 * X[:, 0]) if kind == "LSSVR" else np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")


def start(kind):
    """The model before its first chunk."""
    steps = [sparsify.Given(np.random.default_rng(99).uniform(-2, 2, (15, 3)))]
    return (LSSVR if kind == "LSSVR" else LSSVC)(kernels.RBF(sigma=1.0), C=2.0, steps=steps)


def main(path, kind, done):
    model = load(path) if done else start(kind)
    for number in range(done, 10**6):
        save(model.partial_fit(*chunk(kind, number)), path)
        print(number + 1, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
