"""Model files: `save` and `load`.

A ``.lssvm`` file is a safetensors file: a JSON header, then the arrays. The header's metadata hold the model as JSON
(class names, parameters, fitted values, references to the arrays), the format's number and the SHA-256 of the file.
Nothing in a file is executed: a class is looked up by name among those below, gets the values of the file as its
fields, and what was read is checked before it is returned. The digest finds damage; it is no signature.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
import struct
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from . import __version__, _files, arrays, kernels, robust, sparsify, tune
from ._schema import check_model
from .diagnose import check_fitted
from .estimators import LSSVC, LSSVR
from .kernels import Kernel
from .problem import Fit, Problem, Whitening
from .robust import WeightFunction
from .stream import LooSample, Sample, Stream
from .system import Moments

__all__ = ["load", "save"]

FORMAT = 1
START = b'{"__metadata__":{"sha256":"'  # every header begins so: the digest has a fixed place
NO_DIGEST = b"0" * 64
LARGEST_HEADER = 2**30
DEEPEST = 40  # values within values
SPARE_MEMORY = 9 * 10**7  # bytes that loading may take beside ten times the size of the file
RANDOM_STATE_BYTES = 2**20  # they count as so many: few are needed, and each takes a long time to make
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}
FITTED = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*_")  # names of learned values
ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # of unsound files
ABSTRACT = (Kernel, kernels.Function, WeightFunction)


def _registry() -> dict[str, type]:
    """Every class that a file may name."""
    classes: dict[str, type] = {"Bunch": Bunch, "RandomState": np.random.RandomState}
    for record in (Problem, Fit, Stream, Sample, Whitening, Moments):
        classes[record.__name__] = record
    classes["LeftOutSample"] = LooSample  # the name of the class in version 0.1.0
    for module in (kernels, robust, sparsify, tune):
        for name in module.__all__:
            item = getattr(module, name)
            if isinstance(item, type) and issubclass(item, BaseEstimator) and item not in ABSTRACT:
                classes[f"{module.__name__.rpartition('.')[2]}.{name}"] = item
    return classes


CLASSES = _registry()
NAMES = {item: name for name, item in CLASSES.items()}
MODELS: dict[str, type] = {"LSSVR": LSSVR, "LSSVC": LSSVC}


def save(model: LSSVR | LSSVC, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whole or not at all.

    The file appears under its name only when it is complete and on the disk, so that a crash leaves the previous file,
    whose mode and owner are kept. Only a file with several names (hard links), or in a folder that takes no new file,
    is overwritten in place. A device or FIFO is written to directly.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted by `fit`, `fit_chunks` or `partial_fit`. A kernel or step that is a function of the user is refused:
        a file holds values, no code. Attributes whose name ends in ``_`` are kept, if they are plain values or arrays;
        lazy Dask arrays are not.
    path : path
        By convention it ends in ``.lssvm``.

    Raises
    ------
    TypeError, ValueError
        The model holds what a file cannot hold, or what `load` would refuse.

    Examples
    --------
    >>> import tempfile, lssvm
    >>> X, y = lssvm.datasets.load_motorcycle(return_X_y=True)
    >>> model = lssvm.LSSVR(lssvm.kernels.RBF(13.1), C=1.0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lssvm.save(model, f"{folder}/motorcycle.lssvm")
    ...     same = lssvm.load(f"{folder}/motorcycle.lssvm")
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """
    check_fitted(model)
    if MODELS.get(type(model).__name__) is not type(model):
        raise TypeError(f"save takes a fitted LSSVR or LSSVC, got {type(model).__name__}: save the model itself.")
    parts = _pack(model)
    with _files.written(path) as file:
        for part in parts:
            file.write(part)


def load(path: str | os.PathLike[str]) -> LSSVR | LSSVC:
    """Read a model that `save` wrote: it predicts bitwise the same, and has the fitted attributes of the original.

    Parameters
    ----------
    path : path

    Returns
    -------
    LSSVR or LSSVC

    Raises
    ------
    ValueError
        The file is no model, is damaged, or is of a later version. Every value is checked, and loading takes at most
        ten times the size of the file and 100 MB of memory.

    Examples
    --------
    >>> import tempfile, lssvm
    >>> X, y = lssvm.datasets.load_motorcycle(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lssvm.save(lssvm.LSSVR(lssvm.kernels.RBF(13.1), C=1.0).fit(X, y), f"{folder}/motorcycle.lssvm")
    ...     lssvm.load(f"{folder}/motorcycle.lssvm")
    LSSVR(C=1.0, kernel=RBF(sigma=13.1))
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8 + len(START))
        if len(start) < 8 + len(START) or start[8:] != START:
            raise ValueError(f"{os.fspath(path)!r} is no model file: give one that lssvm.save or lssvm fit wrote.")
        length = struct.unpack("<Q", start[:8])[0]
        if length > min(LARGEST_HEADER, size - 8):
            raise ValueError(f"{os.fspath(path)!r} ends too early: copy it again, or save the model again.")
        content = start + file.read()
    return _unpack(content, length, os.fspath(path))


# The file -------------------------------------------------------------------------------------------------------------
def _pack(model: Any) -> list[Any]:
    """The parts of the file, in order: length and header, then one array after the other."""
    writer = _Writer()
    tree = {
        "class": type(model).__name__,
        "parameters": {name: writer.value(value, name) for name, value in model.get_params(deep=False).items()},
        "fitted": {
            name: writer.value(value, name)
            for name, value in vars(model).items()
            if FITTED.fullmatch(name) and not arrays.is_dask(value)
        },
    }
    metadata = {
        "sha256": NO_DIGEST.decode(),
        "lssvm_format": str(FORMAT),
        "lssvm_version": __version__,
        "model": json.dumps(tree, allow_nan=False, separators=(",", ":")),
    }
    header: dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for name, array in writer.arrays.items():
        end = offset + array.nbytes
        header[name] = {"dtype": CODES[array.dtype], "shape": array.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of 8
    allowance = _allowance(text, 8 + len(text) + offset)
    _model(tree, _Reader(writer.arrays, allowance), "The model cannot be saved, as it could not be loaded again")
    parts: list[Any] = [
        struct.pack("<Q", len(text)),
        text,
        *(array.data for array in writer.arrays.values() if array.size),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    parts[1] = START + digest.hexdigest().encode() + text[len(START) + 64 :]
    return parts


def _unpack(content: bytes, length: int, path: str) -> Any:
    """The model of a file's content."""
    place = 8 + len(START)
    digest = hashlib.sha256(content[:place])
    digest.update(NO_DIGEST)
    digest.update(memoryview(content)[place + 64 :])
    if digest.hexdigest().encode() != content[place : place + 64]:
        raise ValueError(f"{path!r} is damaged (its SHA-256 does not agree): copy it again, or save the model again.")
    try:
        text = content[8 : 8 + length]
        allowance = _allowance(text, len(content))
        if allowance < 0 or not text.isascii():
            raise ValueError("its text is not ASCII, or would take too much memory")
        header = json.loads(text)
        del text
        metadata = header.pop("__metadata__")
        written = int(metadata["lssvm_format"])
    except (LookupError, RecursionError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path!r} is no model file of lssvm ({error}).") from None
    if written != FORMAT:
        raise ValueError(
            f"{path!r} has format {written}, written by lssvm {metadata.get('lssvm_version')}; this version of lssvm "
            f"({__version__}) reads format {FORMAT}: upgrade lssvm."
        )
    try:
        arrays = _arrays(header, memoryview(content)[8 + length :])
        tree = json.loads(metadata["model"])
    except ERRORS as error:
        raise ValueError(f"{path!r} holds no sound model: {error}") from None
    return _model(tree, _Reader(arrays, allowance), f"{path!r} holds no sound model")


def _allowance(text: bytes, size: int) -> int:
    """Bytes that references and labels may take in a file of some size, which its JSON text and its arrays leave.

    Loading takes at most ten times the size and `SPARE_MEMORY`: four times for the file, its text and its arrays, and
    the objects of the text, whose sizes are bounded by the characters that they need.
    """
    characters = 4 if b"\\u" in text else 1
    brackets = text.count(b"[") + text.count(b"{")
    objects = characters * len(text) + 40 * text.count(b",") + 32 * text.count(b'"') + 128 * brackets
    return 6 * size + SPARE_MEMORY - objects


def _label_bytes(labels: list[Any], count: int) -> int:
    """What an array of so many labels takes at most."""
    longest = max((len(label) for label in labels if isinstance(label, str)), default=0)
    return (16 + 4 * longest) * (count + len(labels))


def _arrays(header: dict[str, Any], data: memoryview) -> dict[str, np.ndarray]:
    """The arrays of the header's entries, which must fill the data without gap or overlap."""
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if set(entry) != {"dtype", "shape", "data_offsets"} or len(entry["data_offsets"]) != 2:
            raise ValueError(f"the array {name!r} is not described as it should be.")
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), entry["shape"]
        whole = [*shape, *entry["data_offsets"]]
        if len(shape) > 8 or not all(type(number) is int and 0 <= number <= 2**48 for number in whole):
            raise ValueError(f"the array {name!r} has shape {shape!r} and offsets {entry['data_offsets']!r}.")
        start, stop = entry["data_offsets"]
        if start != end or stop > len(data) or stop - start != dtype.itemsize * math.prod(shape):
            raise ValueError(f"the array {name!r} does not fill its place in the file.")
        if dtype == np.bool_ and np.frombuffer(data[start:stop], dtype=np.uint8).max(initial=0) > 1:
            raise ValueError(f"the array {name!r} holds truth values other than 0 and 1.")
        arrays[name] = np.frombuffer(data[start:stop], dtype=dtype).reshape(shape).copy()
        end = stop
    if end != len(data):
        raise ValueError("the arrays do not fill the file.")
    return arrays


# Values to JSON and back ----------------------------------------------------------------------------------------------
class _Writer:
    """Turns values into JSON and gathers the arrays that they hold, each content once."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._known: dict[Any, str] = {}

    def value(self, value: Any, place: str) -> Any:
        """The JSON of a value; `place` names it in messages and is the name of an array."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if type(value) in NAMES:
            fields = {name: self.value(part, f"{place}.{name}") for name, part in _fields(value).items()}
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
            raise TypeError(
                f"{place}={value!r} is a function or class of yours, which a model file does not hold: files hold "
                "values, no code. Use what lssvm.kernels, lssvm.sparsify, lssvm.tune and lssvm.robust offer."
            )
        raise TypeError(f"{place} holds a {type(value).__name__}, which a model file cannot hold: {value!r}.")

    def _items(self, values: Any, place: str) -> list[Any]:
        return [self.value(value, f"{place}[{number}]") for number, value in enumerate(values)]

    def _array(self, array: np.ndarray, place: str) -> dict[str, Any]:
        if array.dtype.kind in "UOT":
            return self._labels(array, place)
        if array.dtype.newbyteorder("<") not in CODES:
            remedy = "use text as labels" if place == "classes_" else "use float64"
            raise TypeError(f"{place} is an array of {array.dtype}, which a model file cannot hold: {remedy}.")
        # Matrix products of rows and of columns may differ in the last bit: the order in memory is kept.
        by_columns = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
        stored = np.ascontiguousarray((array.T if by_columns else array).astype(array.dtype.newbyteorder("<")))
        stored = stored.reshape((array.T if by_columns else array).shape)  # ascontiguousarray makes 0-d arrays 1-d
        key = (stored.dtype, stored.shape, hashlib.sha256(stored.data).digest())
        name = self._known.setdefault(key, place)
        self.arrays[name] = stored
        return {"array": name, "by_columns": True} if by_columns else {"array": name}

    def _labels(self, array: np.ndarray, place: str) -> dict[str, Any]:
        """Text, or labels of other kinds in an object array: the distinct ones, and their numbers."""
        places: dict[Any, int] = {}
        values = [value.item() if isinstance(value, np.generic) else value for value in array.ravel().tolist()]
        for value in values:
            if not isinstance(value, (str, int, float, type(None))):
                raise TypeError(f"{place} holds a {type(value).__name__}, which a model file cannot hold: {value!r}.")
        codes = [places.setdefault((type(value), value), len(places)) for value in values]
        return {
            "labels": [self.value(value, place) for _, value in places],
            "codes": self._array(np.array(codes, dtype=np.int32).reshape(array.shape), place),
            "dtype": array.dtype.kind,
        }


def _fields(value: Any) -> dict[str, Any]:
    """What a registered object is made of."""
    if isinstance(value, np.random.RandomState):
        state: Any = value.get_state(legacy=True)
        return dict(zip(("name", "key", "position", "has_gauss", "gauss"), state, strict=True))
    if isinstance(value, Bunch):
        return dict(value)
    if isinstance(value, BaseEstimator):
        return value.get_params(deep=False)
    fields = (field.name for field in dataclasses.fields(value) if field.metadata.get("in_files", True))
    return {name: getattr(value, name) for name in fields}


class _Reader:
    """The way back from JSON to values."""

    def __init__(self, arrays: dict[str, np.ndarray], allowance: int) -> None:
        self.arrays = arrays
        self.left = allowance

    def spend(self, size: int) -> None:
        """Count bytes that the same part of a file may ask for again and again."""
        self.left -= size
        if self.left < 0:
            raise ValueError("its labels and references would take too much memory: shorten them, or keep arrays.")

    def value(self, tree: Any, depth: int = 0) -> Any:
        """The value of some JSON."""
        if depth > DEEPEST:
            raise ValueError(f"values are nested more than {DEEPEST} deep.")
        if isinstance(tree, float) and not math.isfinite(tree):
            raise ValueError(f"a number is {tree!r}.")
        if isinstance(tree, list):
            return [self.value(item, depth + 1) for item in tree]
        if not isinstance(tree, dict):
            return tree
        keys = set(tree)
        if keys == {"class", "fields"}:
            fields = {str(name): self.value(item, depth + 1) for name, item in tree["fields"].items()}
            cls = CLASSES[tree["class"]]
            self.spend(RANDOM_STATE_BYTES * (cls is np.random.RandomState))
            return _build(cls, fields)
        if keys == {"float"} and tree["float"] in ("nan", "inf", "-inf"):
            return float(tree["float"])
        if keys == {"tuple"}:
            return tuple(self._list(tree["tuple"], depth))
        if keys == {"dict"}:
            return dict(self._list(pair, depth) for pair in tree["dict"])
        if keys in ({"array"}, {"array", "by_columns"}):
            array = self.arrays[tree["array"]]
            self.spend(array.nbytes)
            return array.T if tree.get("by_columns") is True else array
        if keys == {"labels", "codes", "dtype"}:
            return self._labels(self._list(tree["labels"], depth), self.value(tree["codes"], depth + 1), tree["dtype"])
        raise ValueError(f"a value is described by {sorted(map(str, keys))}, which this version does not know.")

    def _list(self, tree: Any, depth: int) -> list[Any]:
        if not isinstance(tree, list):
            raise ValueError(f"a list is a {type(tree).__name__}.")
        return [self.value(item, depth + 1) for item in tree]

    def _labels(self, labels: list[Any], codes: Any, kind: str) -> np.ndarray:
        if not (isinstance(codes, np.ndarray) and codes.dtype == np.int32):
            raise ValueError("labels have no numbers.")
        if any(not isinstance(label, (str, int, float, type(None))) for label in labels):
            raise ValueError("a label is neither text nor number.")
        if codes.size and not (codes.min() >= 0 and codes.max() < len(labels)):
            raise ValueError("a label's number is out of range.")
        self.spend(_label_bytes(labels, codes.size))
        if kind == "O":
            distinct = np.empty(len(labels), dtype=object)
            distinct[:] = labels
        elif kind in ("U", "T") and all(isinstance(label, str) for label in labels):
            distinct = np.array(labels, dtype="U" if kind == "U" else np.dtypes.StringDType())
        else:
            raise ValueError(f"labels have the type {kind!r}.")
        return distinct[codes]


def _build(cls: type, fields: dict[str, Any]) -> Any:
    """An object of a registered class; constructors only keep what they are given."""
    if cls is Bunch:
        return Bunch(**fields)
    if cls is np.random.RandomState:
        return _random_state(**fields)
    return cls(**fields)


def _random_state(name: str, key: np.ndarray, position: int, has_gauss: int, gauss: float) -> np.random.RandomState:
    numbers = type(position) is int and 0 <= position <= 624 and has_gauss in (0, 1) and math.isfinite(gauss)
    if name != "MT19937" or not numbers or key.shape != (624,) or key.dtype != np.uint32:
        raise ValueError("the state of a random_state is not one.")
    state = np.random.RandomState()
    state.set_state((name, key, position, has_gauss, float(gauss)))
    return state


# What was read makes a model ------------------------------------------------------------------------------------------
def _model(tree: Any, reader: _Reader, problem: str) -> Any:
    """The model of a JSON tree, checked; `problem` begins the message of the ValueError where there is none."""
    try:
        if set(tree) != {"class", "parameters", "fitted"}:
            raise ValueError("the model is not described as it should be.")
        cls: Any = MODELS[tree["class"]]
        model = cls(**{name: reader.value(item) for name, item in tree["parameters"].items()})
        for name, item in tree["fitted"].items():
            if not FITTED.fullmatch(name) or hasattr(cls, name):
                raise ValueError(f"{name!r} is no name of a learned value.")
            vars(model)[name] = reader.value(item)
        check_model(model)
    except ERRORS as error:
        raise ValueError(f"{problem}: {error}") from None
    return model
