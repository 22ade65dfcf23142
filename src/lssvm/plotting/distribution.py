"""Displays of the predictive distribution: histogram of its values, coverage of intervals by region."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..diagnose import check_fitted, coverage_by_region, feature_names, pit
from ._display import Display, one_output

__all__ = ["PitDisplay", "RegionCoverageDisplay"]


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

    bars_: Any
    band_: Any

    def __init__(self, *, values: Any, n_bins: int = 10, name: str = "") -> None:
        self.values = values
        self.n_bins = n_bins
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        n_bins: int = 10,
        output: int = 0,
        ax: Any = None,
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
        check_fitted(estimator, "estimator")
        values = one_output(pit(estimator, X, y), output)
        return cls(values=values, n_bins=n_bins, name="leave-one-out" if X is None else "new data").plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax, n = self.ax_, len(self.values)
        counts, edges = np.histogram(self.values, bins=self.n_bins, range=(0.0, 1.0))
        style = {"color": self._next_colour(), "alpha": 0.6, "edgecolor": "white", "label": self.name}
        density = counts * self.n_bins / n
        self.bars_ = ax.bar(edges[:-1], density, 1.0 / self.n_bins, align="edge", **{**style, **kwargs})
        half = 1.96 * np.sqrt((self.n_bins - 1) / n)
        self.band_ = ax.axhspan(max(1.0 - half, 0.0), 1.0 + half, color="#777777", alpha=0.15, lw=0)
        ax.axhline(1.0, color="#777777", lw=1, ls="--")
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

    line_: Any
    nominal_: Any

    def __init__(
        self,
        *,
        low_edge: Any,
        high_edge: Any,
        observed: Any,
        low: Any,
        high: Any,
        width: Any,
        count: Any,
        coverage: float = 0.9,
        of: str = "prediction",
        name: str = "",
    ) -> None:
        self.low_edge = low_edge
        self.high_edge = high_edge
        self.observed = observed
        self.low = low
        self.high = high
        self.width = width
        self.count = count
        self.coverage = coverage
        self.of = of
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        column: int | None = None,
        coverage: float = 0.9,
        n_bins: int = 5,
        output: int = 0,
        ax: Any = None,
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
        check_fitted(estimator, "estimator")
        found = coverage_by_region(estimator, X, y, column=column, coverage=coverage, n_bins=n_bins, output=output)
        of = "prediction" if column is None else feature_names(estimator)[column]
        name = "leave-one-out" if X is None else "new data"
        return cls(**found, coverage=coverage, of=of, name=name).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax = self.ax_
        middle = (np.asarray(self.low_edge) + np.asarray(self.high_edge)) / 2
        self.line_ = self._curve(middle, self.observed, self.name, {"linestyle": "", **kwargs})
        colour = self.line_.get_color()
        ax.vlines(middle, self.low, self.high, color=colour, lw=1, alpha=0.6)
        ax.hlines(self.observed, self.low_edge, self.high_edge, color=colour, lw=1, alpha=0.6)
        self.nominal_ = ax.axhline(self.coverage, color="#777777", lw=1, ls="--")
        ax.set_ylim(max(0.0, min(np.min(self.low), self.coverage) - 0.05), 1.02)
        self._finish(self.of, f"coverage of {100 * self.coverage:g} % intervals", "Coverage by region")
