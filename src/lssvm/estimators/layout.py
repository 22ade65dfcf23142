"""The form of the data of a fit, checked rows of that form, and results for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from .. import arrays
from ..arrays import Array
from ..coding import class_codes
from ..kernels import Additive, pick_columns
from ..problem import class_numbers
from ..rules import Count, values
from ..tables import Columns

OVERFLOW = "Predictions overflow: scale your features, both for fit and for predict."


def same_kind(values: Any, reference: Array) -> Any:
    """Return NumPy values as an array of the kind and on the device of `reference`; None stays None."""
    if values is None or isinstance(reference, np.ndarray) or values.dtype.kind not in "biuf":
        return values
    return arrays.namespace(reference).asarray(values, device=arrays.device(reference))


def winning_class(decision: Array, classes: np.ndarray) -> Array:
    """Return the class of each row with the largest decision value."""
    return same_kind(classes[class_numbers(decision)], decision)


def unfitted(model: Any, **changed: Any) -> Any:
    """Return a model with the same parameters, apart from those that are given, and without callbacks."""
    return type(model)(**{**model.get_params(deep=False), **changed})


@dataclass(frozen=True)
class Layout:
    """What a fit has learned about the form of its data, with which later rows must agree."""

    n_features: Count  # of the table
    names: Annotated[np.ndarray, values("table", kinds="OUT", finite=False)] | None = None  # of these columns
    columns: Columns | None = None  # how they are encoded; None: numbers as they are
    single: bool = True  # y has one dimension or, for classes, there are two of them
    outputs: Count = 1  # columns of the coded targets
    classes: Annotated[np.ndarray, values("classes", kinds="biufOUT", finite=False)] | None = None
    class_factors: Annotated[np.ndarray, values("classes", low=0.0)] | None = None  # weights; None in files of 0.1

    @classmethod
    def of(cls, seen: Any, columns: Columns | None, y: Any) -> Layout:
        """Return the layout of a fit without classes, from what scikit-learn has `seen` in X."""
        single = np.ndim(y) < 2
        names = getattr(seen, "feature_names_in_", None)
        return cls(seen.n_features_in_, names, columns, single, 1 if single else np.shape(y)[1])

    @property
    def attributes(self) -> dict[str, Any]:
        """The public attributes of a fitted model."""
        named = {"n_features_in_": self.n_features, "feature_names_in_": self.names, "classes_": self.classes}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def encoder(self) -> Columns | None:
        """How the columns of a table are encoded; None if the inputs of the model are numbers as they are."""
        return None if self.columns is None or self.columns.are_plain else self.columns

    @property
    def sources(self) -> np.ndarray:
        """The number of the column of the table behind every encoded column."""
        return np.arange(self.n_features) if self.columns is None else self.columns.sources

    @property
    def groups(self) -> np.ndarray | None:
        """The numbers of the inputs of the encoded columns; None if every column is an input."""
        return None if self.encoder is None else self.encoder.groups

    def squeezed(self, values: Any) -> Any:
        """Return values (rows, outputs) in the form in which y was given."""
        return values[:, 0] if self.single else values

    def shaped(self, values: np.ndarray, X: Array) -> Array:
        """Return values (rows, ..., outputs) as predictions for X; they are NaN only where these overflow."""
        if np.isnan(values).any():
            raise ValueError(OVERFLOW)
        values = same_kind(values, X)
        return values[..., 0] if self.single else values

    def class_weights(self, targets: Array) -> np.ndarray:
        """Return the class weight of each row, from its coded targets."""
        if self.classes is None or self.class_factors is None:
            return np.ones(targets.shape[0])
        return self.class_factors[class_numbers(targets)]

    def sample_weights(self, targets: Array, weights: Array) -> Array:
        """Return the sample weights as given, from their products with the class weights."""
        factors = self.class_weights(targets)
        return same_kind(arrays.to_numpy(weights) / np.where(factors > 0, factors, 1.0), weights)


@dataclass(frozen=True)
class Table:
    """Checked rows: encoded inputs, coded targets (rows, outputs), and sample weights times class weights."""

    layout: Layout
    X: Array
    targets: Array
    weights: Array
    groups: Any = None  # the labels of rows that are left out together, as given

    @classmethod
    def of(cls, layout: Layout, X: Array, y: Array, weights: Array) -> Table:
        """Return the table of targets (rows, outputs), or of labels, from the sample weights."""
        if layout.classes is not None:
            remedy = "pass all classes to the first partial_fit as classes=[...]"
            y = same_kind(coded(class_codes(y, layout.classes, remedy), layout), X)
            weights = weights * layout.class_weights(y)
        return cls(layout, X, y, same_kind(weights, X))


def coded(codes: np.ndarray, layout: Layout) -> np.ndarray:
    """Return the coded targets of class numbers: -1 and +1, one column per class or a single one for two classes."""
    labels = np.array([1]) if layout.single else np.arange(layout.outputs)
    return np.where(codes[:, None] == labels[None, :], 1.0, -1.0)


@dataclass(frozen=True)
class LooValues:
    """Leave-one-out values of the training rows.

    Attributes
    ----------
    actual, predicted : array (rows, outputs)
        Targets, and predictions of each row by the model without it; classes are coded -1 and +1.
    residuals : array (rows, outputs)
        Leave-one-out residuals y_i - f_(i)(x_i).
    given : array (rows,)
        Sample weights as given, which weight the rows in `scores`.
    weights : array (rows,)
        Weights in the fit, including robust and class weights.
    robust : array (rows,)
        Robust weights alone.
    leverage : array (rows,)
    total : int
        Number of training rows.
    sampled : bool
        True if the rows are only a sample of the training rows, in no particular order.
    """

    actual: np.ndarray
    residuals: np.ndarray
    given: np.ndarray
    weights: np.ndarray
    robust: np.ndarray
    leverage: np.ndarray
    total: int
    sampled: bool = False

    @property
    def predicted(self) -> np.ndarray:
        return self.actual - self.residuals

    @property
    def codes(self) -> np.ndarray:
        """The class of each row, as a number."""
        return class_numbers(self.actual)


def of_decision(decision: Any) -> Any:
    """Return class probabilities p from decision values 2 p - 1, of which two classes have one column."""
    p = 0.5 * (decision + 1.0)
    return arrays.namespace(p).concat([1.0 - p, p], axis=1) if p.shape[1] == 1 else p


def raw_components(kernel: Additive, points: Any, coef: Any, X: Any) -> np.ndarray:
    """Return the components before centring: rows x components x outputs."""
    out = np.zeros((X.shape[0], len(kernel.components(X.shape[1])), coef.shape[1]))
    for number, (group, part) in kernel.kept(X.shape[1]).items():
        out[:, number] = arrays.to_numpy(part.dot(pick_columns(X, group), pick_columns(points, group), coef))
    return out
