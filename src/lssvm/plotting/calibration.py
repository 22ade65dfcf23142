"""Displays of calibration: reliability of probabilities, predictive distribution, coverage of intervals by region."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import arrays, diagnose
from ..arrays import ArrayLike
from ._display import MARKERS, REFERENCE, Axes, Display, Model, one_output


class ReliabilityDisplay(Display):
    """Predicted probability against the observed frequency in bins of equal count, with 95 % intervals.

    For two classes, the probability is that of the second class; for more, that of the predicted class.

    Parameters
    ----------
    predicted, observed : arrays (n_bins,)
    count : array (n_bins,)
        Number of rows in each bin.
    low, high : arrays (n_bins,)
        Ends of the interval of each observed frequency.
    name : str
        Label of the curve.
    of : str
        The event whose probability is drawn.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    line_, diagonal_
        The artists.

    Examples
    --------
    >>> from lssvm import LSSVC, datasets
    >>> from lssvm.plotting import ReliabilityDisplay
    >>> X, y = datasets.load_ripley(return_X_y=True)
    >>> display = ReliabilityDisplay.from_estimator(LSSVC().fit(X, y))  # doctest: +SKIP
    """

    predicted: np.ndarray
    observed: np.ndarray
    count: np.ndarray
    low: np.ndarray
    high: np.ndarray
    name: str = ""
    of: str = "the class"

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        n_bins: int = 10,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the probabilities of new data, or the leave-one-out probabilities of the training data.

        Parameters
        ----------
        estimator : LSSVC
            Fitted.
        X, y : arrays or None
            New rows and their classes; None means leave-one-out on the training rows.
        n_bins : int
            Number of bins of equal count.
        ax : matplotlib axes or None
            If None, a new figure is created.
        name : str or None
            Label of the curve; None means the log loss.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ReliabilityDisplay
        """
        if (X is None) != (y is None):
            raise ValueError("ReliabilityDisplay: give both X and y, or neither for leave-one-out.")
        if X is None or y is None:
            diagnose.check_fitted(estimator, "estimator")
            given = diagnose.loo_values(estimator).given
            probability, codes = (array[given > 0] for array in diagnose.loo_probabilities(estimator))
            weights = given[given > 0]
        else:  # of any classifier, such as a pipeline
            check_is_fitted(estimator)
            probability, codes = arrays.to_numpy(estimator.predict_proba(X)), diagnose.class_codes(estimator, y)
            weights = np.ones(len(codes))
        loss = diagnose.class_scores(probability, codes, weights)["log_loss"]
        label = f"{_origin(X)}: log loss {loss:.3f}" if name is None else name
        of = f"class {estimator.classes_[1]}" if probability.shape[1] == 2 else "the predicted class"
        return cls(**diagnose.reliability(probability, codes, n_bins, weights), name=label, of=of).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax = self.ax_
        self.line_ = self._curve(self.predicted, self.observed, self.name, kwargs, **MARKERS)
        ax.vlines(self.predicted, self.low, self.high, color=self.line_.get_color(), lw=1, alpha=0.6)
        self.diagonal_ = ax.axline((0.0, 0.0), slope=1, ls="--", **REFERENCE)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        self._finish(f"predicted probability of {self.of}", "observed frequency", "Reliability of the probabilities")


class PitDisplay(Display):
    """Histogram of the predictive distribution function at actual targets (probability integral transform).

    It is flat for a calibrated model, high at both ends if the distribution is too narrow, and high in the middle if it
    is too wide. The band contains the bars of a calibrated model with a probability of about 95 % each.

    Parameters
    ----------
    values : array (rows,)
        Values between 0 and 1.
    n_bins : int
        Number of bars.
    name : str
        Label of the bars.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    bars_, band_
        The artists.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import PitDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> display = PitDisplay.from_estimator(LSSVR().fit(X, y))  # doctest: +SKIP
    """

    values: np.ndarray
    n_bins: int = 10
    name: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        n_bins: int = 10,
        output: int = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the values of new data, or the leave-one-out values of the training data.

        Parameters
        ----------
        estimator : LSSVR
            Fitted.
        X, y : arrays or None
            New rows and their targets; None means leave-one-out on the training rows.
        n_bins : int
            Number of bars.
        output : int
            For models with several outputs.
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.bar`.

        Returns
        -------
        display : PitDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        values = one_output(diagnose.pit(estimator, X, y), output)
        return cls(values=values, n_bins=n_bins, name=_origin(X)).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax, n = self.ax_, len(self.values)
        counts, edges = np.histogram(self.values, bins=self.n_bins, range=(0.0, 1.0))
        style = {"color": self._next_colour(), "alpha": 0.6, "edgecolor": "white", "label": self.name, **kwargs}
        self.bars_ = ax.bar(edges[:-1], counts * self.n_bins / n, 1.0 / self.n_bins, align="edge", **style)
        half = 1.96 * np.sqrt((self.n_bins - 1) / n)
        self.band_ = ax.axhspan(max(1.0 - half, 0.0), 1.0 + half, color="#777777", alpha=0.15, lw=0)
        ax.axhline(1.0, ls="--", **REFERENCE)
        ax.set_xlim(0.0, 1.0)
        self._finish("predictive distribution function at the target", "density", "Calibration of the distribution")


class RegionCoverageDisplay(Display):
    """Observed coverage of prediction intervals in regions with equally many rows, with 95 % intervals.

    Parameters
    ----------
    low_edge, high_edge : arrays (n_bins,)
        Ends of the regions.
    observed, low, high : arrays (n_bins,)
        Observed coverage and the ends of its interval.
    width : array (n_bins,)
        Mean width of the prediction intervals.
    count : array (n_bins,)
        Number of rows.
    coverage : float
        Nominal coverage.
    of : str
        The quantity that defines the regions.
    name : str
        Label of the points.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    line_, nominal_
        The artists.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets
    >>> from lssvm.plotting import RegionCoverageDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> display = RegionCoverageDisplay.from_estimator(LSSVR().fit(X, y), column=0)  # doctest: +SKIP
    """

    low_edge: np.ndarray
    high_edge: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    width: np.ndarray
    count: np.ndarray
    coverage: float = 0.9
    of: str = "prediction"
    name: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        column: int | None = None,
        coverage: float = 0.9,
        n_bins: int = 5,
        output: int = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the coverage of new data, or the leave-one-out coverage of the training data.

        Parameters
        ----------
        estimator : LSSVR
            Fitted.
        X, y : arrays or None
            New rows and their targets; None means leave-one-out on the training rows.
        column : int or None
            The column whose values define the regions; None means the predicted value.
        coverage : float
            Nominal coverage.
        n_bins : int
            Largest number of regions.
        output : int
            For models with several outputs.
        ax : matplotlib axes or None
            If None, a new figure is created.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : RegionCoverageDisplay
        """
        diagnose.check_fitted(estimator, "estimator")
        options: dict[str, Any] = {"column": column, "coverage": coverage, "n_bins": n_bins, "output": output}
        found = diagnose.coverage_by_region(estimator, X, y, **options)
        of = "prediction" if column is None else diagnose.feature_names(estimator)[column]
        return cls(**found, coverage=coverage, of=of, name=_origin(X)).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax = self.ax_
        middle = (self.low_edge + self.high_edge) / 2
        self.line_ = self._curve(middle, self.observed, self.name, {"linestyle": "", **kwargs}, **MARKERS)
        colour = self.line_.get_color()
        ax.vlines(middle, self.low, self.high, color=colour, lw=1, alpha=0.6)
        ax.hlines(self.observed, self.low_edge, self.high_edge, color=colour, lw=1, alpha=0.6)
        self.nominal_ = ax.axhline(self.coverage, ls="--", **REFERENCE)
        ax.set_ylim(max(0.0, min(np.min(self.low), self.coverage) - 0.05), 1.02)
        self._finish(self.of, f"coverage of {100 * self.coverage:g} % intervals", "Coverage by region")


def _origin(X: Any) -> str:
    return "leave-one-out" if X is None else "new data"
