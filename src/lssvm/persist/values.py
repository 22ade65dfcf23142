"""Values of a model as JSON and arrays, and back.

Nothing in a file is executed: a class is looked up by name in `CLASSES` and receives the values of the file as fields.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from typing import Any, get_args, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from .. import arrays, kernels, robust, sparsify, tune
from ..estimators import LSSVC, LSSVR
from ..estimators.fitted import FittedModel
from ..kernels import Kernel
from ..robust import WeightFunction
from ..stream.sums import LooSample

RANDOM_STATE_BYTES = 2**20  # Each random state is charged this much memory: few are needed, and each is slow to create.
DTYPES = {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}
DTYPES.update({f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)}, BOOL="|b1")
CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}
LABEL = (str, int, float, type(None))  # Labels have these types.
REMOVED: dict[type, tuple[str, ...]] = {sparsify.Prune: ("mean_risk", "validation")}  # they are in files of 0.1.0
ABSTRACT = (Kernel, kernels.Function, WeightFunction)


def _records(hint: Any) -> set[Any]:
    """Return the records in a type, and those in their fields."""
    if not dataclasses.is_dataclass(hint):
        return set().union(*map(_records, get_args(hint)))
    hints = get_type_hints(hint)
    return {hint}.union(*(_records(hints[field.name]) for field in _stored(hint)))


def _stored(record: Any) -> list[Any]:
    """Return the fields of a record that files contain."""
    return [field for field in dataclasses.fields(record) if not field.metadata.get("cached")]


def _registry() -> dict[str, type]:
    """Return all classes that a file may refer to."""
    own = (LSSVR, LSSVC, Bunch, np.random.RandomState)
    classes: dict[str, type] = {cls.__name__: cls for cls in (*own, *_records(FittedModel))}
    for module in (kernels, robust, sparsify, tune):
        for name in module.__all__:
            item = getattr(module, name)
            if isinstance(item, type) and issubclass(item, BaseEstimator) and item not in ABSTRACT:
                classes[f"{module.__name__.rpartition('.')[2]}.{name}"] = item
    return classes


CLASSES = _registry()
NAMES = {item: name for name, item in CLASSES.items()}
CLASSES["LeftOutSample"] = LooSample  # its name in files of format 1


class Writer:
    """Converts values to JSON and collects the arrays in them, storing equal arrays once."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._known: dict[Any, str] = {}

    def value(self, value: Any, place: str) -> Any:
        """Return the JSON of a value; `place` is its name in messages, and the name of an array."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(float(value))}
        if isinstance(value, LABEL):
            return value
        if type(value) in NAMES:
            fields = {name: self.value(part, f"{place}.{name}".lstrip(".")) for name, part in _fields(value).items()}
            return {"class": NAMES[type(value)], "fields": fields}
        if isinstance(value, list):
            return self._items(value, place)
        if isinstance(value, tuple):
            return {"tuple": self._items(value, place)}
        if isinstance(value, dict):
            return {"dict": [self._items(pair, f"{place}[{pair[0]!r}]") for pair in value.items()]}
        if hasattr(value, "shape") and hasattr(value, "__array__"):
            return self._array(np.asarray(arrays.to_numpy(value)), place)
        if callable(value) or isinstance(value, kernels.Function):
            what = f"{place}={value!r} is a user-defined function or class, which cannot be saved"
            remedy = "Use classes of lssvm.kernels, lssvm.sparsify, lssvm.tune and lssvm.robust"
            raise TypeError(f"{what}: files contain values, not code. {remedy}.")
        raise TypeError(f"{place} contains a {type(value).__name__}, which cannot be saved: {value!r}.")

    def _items(self, values: Any, place: str) -> list[Any]:
        return [self.value(value, f"{place}[{number}]") for number, value in enumerate(values)]

    def _array(self, array: np.ndarray, place: str) -> dict[str, Any]:
        if array.dtype.kind in "UOT":
            return self._labels(array, place)
        if array.dtype.newbyteorder("<") not in CODES:
            remedy = "use text as labels" if place.endswith("classes") else "use float64"
            raise TypeError(f"{place} is an array of {array.dtype}, which cannot be saved: {remedy}.")
        # Matrix products depend on the memory order in the last bit, so the order is kept.
        by_columns = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
        stored = (array.T if by_columns else array).astype(array.dtype.newbyteorder("<"), order="C")
        key = (stored.dtype, stored.shape, hashlib.sha256(stored.data).digest())
        name = self._known.setdefault(key, place)
        self.arrays[name] = stored
        return {"array": name, "by_columns": True} if by_columns else {"array": name}

    def _labels(self, array: np.ndarray, place: str) -> dict[str, Any]:
        """Return text, or other labels in an object array: the distinct labels, and their indices."""
        places: dict[Any, int] = {}
        values = [value.item() if isinstance(value, np.generic) else value for value in array.ravel().tolist()]
        for value in values:
            if not isinstance(value, LABEL):
                raise TypeError(f"{place} contains a {type(value).__name__}, which cannot be saved: {value!r}.")
        codes = [places.setdefault((type(value), value), len(places)) for value in values]
        return {
            "labels": [self.value(value, place) for _, value in places],
            "codes": self._array(np.array(codes, dtype=np.int32).reshape(array.shape), place),
            "dtype": array.dtype.kind,
        }


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object of a registered class."""
    if isinstance(value, np.random.RandomState):
        state: Any = value.get_state(legacy=True)
        return dict(zip(("name", "key", "position", "has_gauss", "gauss"), state, strict=True))
    if isinstance(value, Bunch):
        return dict(value)
    if isinstance(value, BaseEstimator):
        return value.get_params(deep=False)
    return {field.name: getattr(value, field.name) for field in _stored(value)}


class Reader:
    """Converts JSON back to values."""

    def __init__(self, arrays: dict[str, np.ndarray], allowance: int) -> None:
        self.arrays = arrays
        self.left = allowance

    def read(self, text: str) -> Any:
        """Return the values in a JSON text."""
        return json.loads(text, object_hook=self._value)

    def _value(self, tree: dict[str, Any]) -> Any:
        """Return the value of a JSON object, whose parts are values already."""
        keys = set(tree)
        if keys == {"class", "fields"}:
            cls, fields = CLASSES[tree["class"]], tree["fields"]
            if cls is np.random.RandomState:
                self._spend(RANDOM_STATE_BYTES)
                return _random_state(**fields)
            # constructors only store their arguments
            return cls(**{name: value for name, value in fields.items() if name not in REMOVED.get(cls, ())})
        for kind in (float, tuple, dict):
            if keys == {kind.__name__}:
                return kind(tree[kind.__name__])
        if keys in ({"array"}, {"array", "by_columns"}):
            array = self.arrays[tree["array"]]
            self._spend(array.nbytes)
            return array.T if tree.get("by_columns") else array
        return self._labels(**tree) if keys == {"labels", "codes", "dtype"} else tree

    def _spend(self, size: int) -> None:
        """Charge memory that the same part of a file may request repeatedly."""
        self.left -= size
        if self.left < 0:
            raise ValueError("its labels and references would take too much memory: shorten them, or use arrays.")

    def _labels(self, labels: Any, codes: Any, dtype: str) -> np.ndarray:
        if not (isinstance(labels, list) and isinstance(codes, np.ndarray) and codes.dtype == np.int32):
            raise ValueError("labels have no indices.")
        if not all(isinstance(label, LABEL if dtype == "O" else str) for label in labels):
            raise ValueError("a label is neither text nor a number.")
        longest = max((len(label) for label in labels if isinstance(label, str)), default=0)
        self._spend((16 + 4 * longest) * (codes.size + len(labels)))  # an upper bound
        kind: Any = {"O": object, "U": "U"}.get(dtype) or np.dtypes.StringDType()
        return np.array(labels, dtype=kind)[codes]


def _random_state(name: str, key: np.ndarray, position: int, has_gauss: int, gauss: float) -> np.random.RandomState:
    if key.shape != (624,) or not 0 <= position <= 624 or not math.isfinite(gauss):
        raise ValueError("the state of a random_state is invalid.")
    state = np.random.RandomState()
    state.set_state((name, key, position, has_gauss, float(gauss)))
    return state
