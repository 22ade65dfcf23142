"""Displays of sparse models: the error against the size of the basis, and the sorted support values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import is_classifier

from .. import arrays
from .._words import counted
from ..diagnose import check_fitted, check_single, fitted_problem
from ..estimators import LSSVC, LSSVR
from ..sparsify import Forward
from ._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SparsityPathDisplay", "SupportSpectrumDisplay"]

# How the sizes of a path were scored, for axis labels, by the `score` of the step
SCORED_BY = {"loo": "leave-one-out", "kfold": "10-fold", "validation": "validation"}


class SparsityPathDisplay(Display):
    """Error against the size of the basis along the path of a sparsifier; the chosen size is marked.

    Parameters
    ----------
    sizes : array (n_sizes,)
        Numbers of basis vectors.
    errors : array (n_sizes,)
        The error at each size.
    chosen : int
        The size of the model's basis.
    error_name : str
        Label of the axis.
    name : str
        Label of the curve.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    line_, chosen_
        The curve and the mark of the chosen size.

    See Also
    --------
    SupportSpectrumDisplay : The coefficients that pruning is based on.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, sparsify
    >>> from lssvm.plotting import SparsityPathDisplay
    >>> X, y = datasets.load_motorcycle(return_X_y=True)
    >>> model = LSSVR(steps=[sparsify.Prune(rows="keep")]).fit(X, y)
    >>> display = SparsityPathDisplay.from_estimator(model)  # doctest: +SKIP
    """

    line_: Any
    chosen_: Any

    def __init__(
        self, *, sizes: np.ndarray, errors: np.ndarray, chosen: int, error_name: str = "error", name: str = ""
    ) -> None:
        self.sizes = sizes
        self.errors = errors
        self.chosen = chosen
        self.error_name = error_name
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: LSSVR | LSSVC, *, ax: Axes | None = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the ``path_`` of a fitted model.

        Leave-one-out errors are drawn as root mean squares in the units of the targets (-1 and +1 for classes). With
        robust weights they are drawn as mean absolute values, which is what the path then records, except that of
        `sparsify.Forward`, which always squares. The path of `sparsify.FeatureVectors` is the mean reconstruction error
        in feature space, as a fraction of 1.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted with one of the steps FeatureVectors, Forward, Prune, Echelon.
        ax : matplotlib axes or None
            If None, a new figure is created.
        name : str or None
            Label of the curve; None means the name of the step.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : SparsityPathDisplay
        """
        check_fitted(estimator, "estimator")
        check_single(estimator, "The path over basis sizes")
        path = getattr(estimator, "path_", None)
        if path is None or "sizes" not in path or not ("scores" in path or "errors" in path):
            raise ValueError(
                f"{type(estimator).__name__} has no path over basis sizes: fit it with one of the steps "
                "sparsify.FeatureVectors(...), Forward(...), Prune(...), Echelon(), which record one."
            )
        made_by, step = _path_step(estimator, path)
        if "errors" in path:
            errors, error_name = np.array(path.errors), "mean reconstruction error (fraction of 1)"
        else:
            errors, error_name = _errors(estimator, step, np.asarray(path.scores))
        display = cls(
            sizes=np.array(path.sizes),
            errors=errors,
            chosen=int(path.chosen),
            error_name=error_name,
            name=made_by if name is None else name,
        )
        return display.plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax = self.ax_
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        order = np.argsort(self.sizes)
        sizes, errors = np.asarray(self.sizes)[order], np.asarray(self.errors)[order]
        at = errors[np.searchsorted(sizes, self.chosen)]
        self.line_ = self._curve(sizes, errors, f"{self.name}: {counted(self.chosen, 'vector')}".lstrip(": "), kwargs)
        self.chosen_ = self._ring_on_line(self.chosen, at, self.line_.get_color())
        ax.set_xscale("log")
        if errors.max() > 10 * errors.min() > 0:
            ax.set_yscale("log")
        axis = ax.xaxis
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
        axis.set_minor_formatter(NullFormatter())
        self._finish("basis vectors", self.error_name, "Error against basis size")


class SupportSpectrumDisplay(Display):
    """The support values ``|alpha|``, sorted from the largest down (Suykens et al. 2002, fig. 11).

    Parameters
    ----------
    support_values : array (n,)
        Magnitudes of the coefficients, largest first.
    order : array (n,) or None
        Their indices in ``dual_coef_``.
    name : str
        Label of the curve.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    line_
        The curve.

    See Also
    --------
    SparsityPathDisplay : The error after dropping the smallest ones.

    Examples
    --------
    >>> from lssvm import LSSVR, datasets, kernels
    >>> from lssvm.plotting import SupportSpectrumDisplay
    >>> X, y = datasets.make_sinc(300, outliers=3, random_state=0)
    >>> display = SupportSpectrumDisplay.from_estimator(LSSVR(kernels.RBF()).fit(X, y))  # doctest: +SKIP
    """

    line_: Any

    def __init__(self, *, support_values: np.ndarray, order: np.ndarray | None = None, name: str = "") -> None:
        self.support_values = support_values
        self.order = order
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: LSSVR | LSSVC, *, ax: Axes | None = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the sorted magnitudes of ``dual_coef_``; with several outputs, the norms of its rows.

        Parameters
        ----------
        estimator : LSSVR or LSSVC
            Fitted.
        ax : matplotlib axes or None
            If None, a new figure is created.
        name : str or None
            Label of the curve; None means the number of support vectors.
        **kwargs
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : SupportSpectrumDisplay
        """
        check_fitted(estimator, "estimator")
        check_single(estimator, "The spectrum of support values")
        coef = arrays.to_numpy(estimator.dual_coef_)
        size = np.abs(coef) if coef.ndim == 1 else np.linalg.norm(coef, axis=1)
        order = np.argsort(-size, kind="stable")
        label = counted(len(size), "support vector") if name is None else name
        return cls(support_values=size[order], order=order, name=label).plot(ax, **kwargs)

    def _draw(self, kwargs: dict[str, Any]) -> None:
        ax = self.ax_
        values = np.asarray(self.support_values)
        ranks = np.arange(1, len(values) + 1)
        self.line_ = self._curve(ranks, values, self.name, kwargs, markers=len(values) <= 30)
        self.line_.sticky_edges.y.append(0.0)
        ax.update_datalim([(0.0, 0.0)])  # the axes start at 0
        ax.autoscale_view()
        self._finish("rank", r"support value $|\alpha|$", "Sorted support values")


def _path_step(estimator: LSSVR | LSSVC, path: Any) -> tuple[str, Any]:
    """The name of the step that recorded the path, and the step itself."""
    problem = fitted_problem(estimator)
    recorded = {} if problem is None else problem.paths
    name = next((key for key, value in recorded.items() if value is path), "")
    steps = [step for step in estimator.steps or () if type(step).__name__ == name]
    return name, steps[-1] if steps else None


def _errors(estimator: LSSVR | LSSVC, step: Any, scores: np.ndarray) -> tuple[np.ndarray, str]:
    """The recorded scores in the units of the targets, and the label of their axis."""
    kind = SCORED_BY.get(getattr(step, "score", "loo"), "leave-one-out")
    unit = "targets -1, +1" if is_classifier(estimator) else "units of y"
    if estimator.robust is not None and not isinstance(step, Forward):  # Forward always squares
        return np.array(scores), f"mean absolute {kind} error ({unit})"
    return np.sqrt(scores), f"root mean square {kind} error ({unit})"
