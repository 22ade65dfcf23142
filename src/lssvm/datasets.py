"""Small data sets and generators from the LS-SVM literature."""

from importlib.resources import files
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

from .rules import Count, NotNegative, Seed, check_arguments, integer, one_of

__all__ = ["load_motorcycle", "load_ripley", "load_tictactoe", "make_additive", "make_sinc"]

XY = tuple[NDArray[Any], NDArray[Any]]


def load_motorcycle(*, return_X_y: bool = False) -> Bunch | XY:
    """Return head acceleration (g) against time (ms) in simulated motorcycle crashes.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or tuple of (X, y)
        The Bunch has `data` (133, 1), `target` (133,), `feature_names`, `target_names` (the name of
        the target column) and `DESCR` (description, source and licence).

    Examples
    --------
    >>> from lssvm.datasets import load_motorcycle
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> X.shape, float(y.min()), float(y.max())
    ((133, 1), -134.0, 75.0)
    """
    return _load("motorcycle.csv", "motorcycle.txt", return_X_y)


def load_ripley(*, subset: Annotated[str, one_of("train", "test")] = "train", return_X_y: bool = False) -> Bunch | XY:
    """Return Ripley's two classes in the plane, labelled -1 and +1.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        The 250 rows for training or the 1000 rows for testing.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or tuple of (X, y)
        The Bunch has `data` (rows, 2), `target` (rows,), `feature_names`, `target_names` (the name
        of the target column) and `DESCR` (description, source and licence).

    Examples
    --------
    >>> from lssvm.datasets import load_ripley
    >>> X, y = load_ripley(return_X_y=True)
    >>> X_test, y_test = load_ripley(subset="test", return_X_y=True)
    >>> X.shape, X_test.shape
    ((250, 2), (1000, 2))
    """
    check_arguments(load_ripley, {"subset": subset})
    return _load(f"ripley_{subset}.csv", "ripley.txt", return_X_y, np.int64)


def load_tictactoe(*, return_X_y: bool = False) -> Bunch | XY:
    """Return all 958 final boards of tic-tac-toe with x moving first; the target is whether x has won.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or tuple of (X, y)
        The Bunch has `data` (958, 9) of +1 (x), -1 (o) and 0 (blank), `target` (958,) of -1 and +1,
        `feature_names`, `target_names` (the name of the target column) and `DESCR`.

    Examples
    --------
    >>> from lssvm.datasets import load_tictactoe
    >>> X, y = load_tictactoe(return_X_y=True)
    >>> X.shape, int((y == 1).sum())
    ((958, 9), 626)
    """
    return _load("tictactoe.csv", "tictactoe.txt", return_X_y, np.int64)


def make_sinc(
    n_samples: Count = 300,
    *,
    noise: NotNegative = 0.1,
    distribution: Annotated[str, one_of("gaussian", "t4")] = "gaussian",
    outliers: Annotated[int, integer("an integer from 0", 0)] = 0,
    outlier_size: NotNegative = 2.0,
    random_state: Seed = None,
) -> XY:
    """Return noisy samples of sinc(x) = sin(pi x) / (pi x), x uniform on [-5, 5].

    The robust regression problem of Suykens et al. (2002), section 5: either Gaussian noise with a
    few large outliers (``outliers=3``) or heavy-tailed noise (``distribution="t4"``). The paper
    specifies neither the range of x nor the size of noise and outliers; these are our choice.

    Parameters
    ----------
    n_samples : int, default=300
        Number of rows.
    noise : float, default=0.1
        Factor of the standard noise; for Gaussian noise, its standard deviation.
    distribution : {"gaussian", "t4"}, default="gaussian"
        The noise: normal, or Student's t with 4 degrees of freedom.
    outliers : int, default=0
        Number of rows, drawn at random, that are shifted by plus or minus `outlier_size`.
    outlier_size : float, default=2.0
        Size of the shift of the outliers.
    random_state : int, RandomState or None, default=None
        Seed of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
    y : ndarray of shape (n_samples,)

    References
    ----------
    J. A. K. Suykens, J. De Brabanter, L. Lukas and J. Vandewalle (2002), Weighted least squares
    support vector machines: robustness and sparse approximation, Neurocomputing 48, 85-105.

    Examples
    --------
    >>> from lssvm.datasets import make_sinc
    >>> X, y = make_sinc(300, outliers=3, random_state=0)
    >>> X.shape, y.shape
    ((300, 1), (300,))
    """
    check_arguments(make_sinc, locals())
    if outliers > n_samples:
        raise ValueError(f"outliers={outliers} is more than n_samples={n_samples}; use fewer outliers.")
    rng = check_random_state(random_state)
    x = rng.uniform(-5.0, 5.0, n_samples)
    error = rng.standard_normal(n_samples) if distribution == "gaussian" else rng.standard_t(4, n_samples)
    y = np.sinc(x) + noise * error
    rows = rng.choice(n_samples, outliers, replace=False)
    y[rows] += outlier_size * rng.choice([-1.0, 1.0], outliers)
    return x[:, np.newaxis], y


def make_additive(
    n_samples: Count = 100,
    n_features: Annotated[int, integer("an integer from 4", 4)] = 25,
    *,
    noise: NotNegative = 1.0,
    random_state: Seed = None,
) -> XY:
    """Return Vapnik's additive function of four inputs, with further irrelevant inputs.

    Pelckmans et al. (2005), eq. (31), with inputs uniform on [0, 1]::

        y = 10 sin(x1) + 20 (x2 - 0.5)^2 + 10 x3 + 5 x4 + noise * N(0, 1)

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows.
    n_features : int, default=25
        Number of inputs, at least 4; all after the fourth are irrelevant.
    noise : float, default=1.0
        Standard deviation of the Gaussian noise.
    random_state : int, RandomState or None, default=None
        Seed of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)

    References
    ----------
    K. Pelckmans, J. A. K. Suykens and B. De Moor (2005), Building sparse representations and
    structure determination on LS-SVM substrates, Neurocomputing 64, 137-159.

    Examples
    --------
    >>> from lssvm.datasets import make_additive
    >>> X, y = make_additive(random_state=0)
    >>> X.shape, y.shape
    ((100, 25), (100,))
    """
    check_arguments(make_additive, locals())
    rng = check_random_state(random_state)
    X = rng.uniform(size=(n_samples, n_features))
    f = 10 * np.sin(X[:, 0]) + 20 * (X[:, 1] - 0.5) ** 2 + 10 * X[:, 2] + 5 * X[:, 3]
    return X, f + noise * rng.standard_normal(n_samples)


def _text(file: str) -> str:
    return (files("lssvm") / "data" / file).read_text(encoding="utf-8")


def _load(file: str, descr: str, return_X_y: bool, kind: type = np.float64) -> Bunch | XY:
    """Return (X, y) of a file with a header, or a Bunch that also has its names and the description in another file."""
    header, *lines = _text(file).splitlines()
    table = np.loadtxt(lines, delimiter=",")
    X: NDArray[Any] = table[:, :-1].copy()
    y: NDArray[Any] = table[:, -1].astype(kind)
    if return_X_y:
        return X, y
    *names, target = header.split(",")
    return Bunch(data=X, target=y, feature_names=names, target_names=[target], DESCR=_text(descr))
