"""Model files: `save` and `load`.

A ``.lssvm`` file is a safetensors file: a JSON header, then the arrays. The header's metadata hold the model as JSON
(class names, parameters, fitted values, references to the arrays), the format's number and the SHA-256 of the file.
Nothing in a file is executed: a class is looked up by name among those below, gets the values of the file as its
fields, and what was read is checked before it is returned. The digest finds damage; it is no signature.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import re
import secrets
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from . import __version__, _xp, kernels, robust, sparsify, tune
from .estimators import LSSVC, LSSVR
from .kernels import Kernel
from .problem import Fit, Problem, Whitening
from .robust import WeightFunction
from .stream import LeftOutSample, Sample, Stream
from .system import Moments

__all__ = ["load", "save"]

FORMAT = 1
START = b'{"__metadata__":{"sha256":"'  # every header begins so: the digest has a fixed place
NO_DIGEST = b"0" * 64
LARGEST_HEADER = 2**30
DEEPEST = 40  # values within values
WIDEST_TEXT = 2**28  # bytes of an array of labels
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
ABSTRACT = (Kernel, kernels.Function, WeightFunction)


def _registry() -> dict[str, type]:
    """Every class that a file may name."""
    classes: dict[str, type] = {"Bunch": Bunch, "RandomState": np.random.RandomState}
    for record in (Problem, Fit, Stream, LeftOutSample, Sample, Whitening, Moments):
        classes[record.__name__] = record
    for module in (kernels, robust, sparsify, tune):
        for name in module.__all__:
            item = getattr(module, name)
            if isinstance(item, type) and issubclass(item, BaseEstimator) and item not in ABSTRACT:
                classes[f"{module.__name__.rpartition('.')[2]}.{name}"] = item
    return classes


CLASSES = _registry()
NAMES = {item: name for name, item in CLASSES.items()}
MODELS: dict[str, type] = {"LSSVR": LSSVR, "LSSVC": LSSVC}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whole or not at all.

    The file appears under its name only when it is complete and on the disk, so that a crash leaves the previous file.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted by `fit`, `fit_chunks` or `partial_fit`. A kernel or step that is a function of the user is refused:
        a file holds values, no code. Attributes whose name ends in ``_`` are kept, if they are plain values or arrays;
        lazy Dask arrays are not.
    path : path
        By convention it ends in ``.lssvm``.

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
    if MODELS.get(type(model).__name__) is not type(model):
        raise TypeError(f"save takes a fitted LSSVR or LSSVC, got {type(model).__name__}: save the machine itself.")
    check_is_fitted(model)
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {str(target.parent)!r} to save {target.name!r} in: make it first.")
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder: name a file in it.")
    _replace(target, _pack(model))


def load(path: str | os.PathLike[str]) -> Any:
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
        The file is no model, is damaged, or is of a later version.

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
            if FITTED.fullmatch(name) and not _xp.is_dask(value)
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


def _replace(path: Path, parts: list[Any]) -> None:
    """Write a file beside `path`, bring it to the disk, and give it the name."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name == "posix":  # the new name, too, has to reach the disk
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _unpack(content: bytes, length: int, path: str) -> Any:
    """The model of a file's content."""
    place = 8 + len(START)
    digest = hashlib.sha256(content[:place])
    digest.update(NO_DIGEST)
    digest.update(memoryview(content)[place + 64 :])
    if digest.hexdigest().encode() != content[place : place + 64]:
        raise ValueError(f"{path!r} is damaged (its SHA-256 does not agree): copy it again, or save the model again.")
    try:
        header = json.loads(content[8 : 8 + length].decode())
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
        return _model(json.loads(metadata["model"]), _Reader(arrays))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path!r} holds no sound model: {error}") from None


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
            return self._array(np.asarray(_xp.to_numpy(value)), place)
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
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    fields.pop("rounding", None)  # of a Fit, 0 in a fitted model
    return fields


class _Reader:
    """The way back from JSON to values."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays

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
            return _build(CLASSES[tree["class"]], fields)
        if keys == {"float"} and tree["float"] in ("nan", "inf", "-inf"):
            return float(tree["float"])
        if keys == {"tuple"}:
            return tuple(self._list(tree["tuple"], depth))
        if keys == {"dict"}:
            return dict(self._list(pair, depth) for pair in tree["dict"])
        if keys in ({"array"}, {"array", "by_columns"}):
            array = self.arrays[tree["array"]]
            return array.T if tree.get("by_columns") is True else array
        if keys == {"labels", "codes", "dtype"}:
            return self._labels(self._list(tree["labels"], depth), self.value(tree["codes"], depth + 1), tree["dtype"])
        raise ValueError(f"a value is described by {sorted(map(str, keys))}, which this version does not know.")

    def _list(self, tree: Any, depth: int) -> list[Any]:
        if not isinstance(tree, list):
            raise ValueError(f"a list is a {type(tree).__name__}.")
        return [self.value(item, depth + 1) for item in tree]

    @staticmethod
    def _labels(labels: list[Any], codes: Any, kind: str) -> np.ndarray:
        if not (isinstance(codes, np.ndarray) and codes.dtype == np.int32):
            raise ValueError("labels have no numbers.")
        if any(not isinstance(label, (str, int, float, type(None))) for label in labels):
            raise ValueError("a label is neither text nor number.")
        if codes.size and not (codes.min() >= 0 and codes.max() < len(labels)):
            raise ValueError("a label's number is out of range.")
        if kind == "O":
            distinct = np.empty(len(labels), dtype=object)
            distinct[:] = labels
        elif kind in ("U", "T") and all(isinstance(label, str) for label in labels):
            if 4 * max(map(len, labels), default=0) * max(codes.size, len(labels)) > WIDEST_TEXT:
                raise ValueError("the labels are too long.")
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
def _model(tree: Any, reader: _Reader) -> Any:
    if set(tree) != {"class", "parameters", "fitted"}:
        raise ValueError("the model is not described as it should be.")
    cls: Any = MODELS[tree["class"]]
    model = cls(**{name: reader.value(item) for name, item in tree["parameters"].items()})
    for name, item in tree["fitted"].items():
        if not FITTED.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a learned value.")
        vars(model)[name] = reader.value(item)
    _check_model(model)
    return model


def _check_model(model: Any) -> None:
    """Types, shapes and ranges of all that predicts, that intervals use and that goes on learning."""
    features, kernel = model.n_features_in_, model.kernel_
    _demand(type(features) is int and features >= 1, "n_features_in_")
    single = model._single_output_
    _demand(type(single) is bool, "_single_output_")
    n = _size(model.support_vectors_)
    outputs = 1 if single else _size(model.intercept_)
    _check_kernel(kernel, features, "kernel_")
    _check_points(model.support_vectors_, kernel, features, "support_vectors_")
    _check_array(model.dual_coef_, (n,) if single else (n, outputs), "dual_coef_")
    if single:
        _demand(type(model.intercept_) is float and math.isfinite(model.intercept_), "intercept_")
    else:
        _check_array(model.intercept_, (outputs,), "intercept_")
    _check_C(model.C_, "C_")
    if model.support_ is not None or kernel.is_precomputed:
        _check_rows(model.support_, n, 2**48, "support_")
    if isinstance(model, LSSVC):
        classes = model.classes_
        _demand(isinstance(classes, np.ndarray) and classes.ndim == 1 and len(classes) >= 2, "classes_")
        _demand(outputs == (1 if len(classes) == 2 else len(classes)), "classes_")
        if "_slopes_" in vars(model):
            _check_array(model._slopes_, (2 if single else 1,), "_slopes_")
    _check_left_out(model, outputs)
    if hasattr(model, "_component_means_"):
        _demand(isinstance(kernel, kernels.Additive), "kernel_")
        components = len(kernel.components(features))
        _check_array(model._component_means_, (components, outputs), "_component_means_")
        _check_array(model.max_variation_, (components, outputs)[: 1 if outputs == 1 else 2], "max_variation_")
        _check_rows(model.active_, len(kernel.kept(features)), components, "active_")
    if hasattr(model, "_problem_"):
        _check_problem(model._problem_, features, outputs)
        if "_fit_" in vars(model):
            _check_fit(model._fit_, model._problem_)
        else:
            _check_array(model.weights_, (_size(model._problem_.X),), "weights_")
            if isinstance(model, LSSVC):
                factors = model._class_factors_
                numbers = isinstance(factors, list) and all(type(f) is float and math.isfinite(f) for f in factors)
                _demand(numbers and len(factors) == len(model.classes_), "_class_factors_")
        if "_searched_" in vars(model):
            _check_searched(model._searched_, _size(model._problem_.X), outputs)
    if hasattr(model, "_stream_"):
        _check_stream(model._stream_, features, outputs)
    if hasattr(model, "_sample_"):
        _check_sample(model._sample_, features, outputs)


def _check_left_out(model: Any, outputs: int) -> None:
    if hasattr(model, "weights_"):
        rows = _size(model.weights_)
        _check_array(model.weights_, (rows,), "weights_")
        if getattr(model, "_sample_weight_", None) is not None:
            _check_array(model._sample_weight_, (rows,), "_sample_weight_")
            _demand(bool((model._sample_weight_ >= 0).all()), "_sample_weight_")
        if "_problem_" in vars(model) and "_fit_" not in vars(model):
            return  # leave-one-out was not asked for yet
        _check_array(model.leverage_, (rows,), "leverage_", finite=False)
        shape = (rows,) if model._single_output_ else (rows, outputs)
        _check_array(model.loo_residuals_, shape, "loo_residuals_", finite=False)
        _demand(isinstance(model.press_, float), "press_")


def _check_problem(problem: Any, features: int, outputs: int) -> None:
    _demand(isinstance(problem, Problem), "_problem_")
    rows = _size(problem.X)
    _check_kernel(problem.kernel, features, "_problem_.kernel")
    _check_array(problem.X, (rows, features), "_problem_.X")
    _check_array(problem.y, (rows, outputs), "_problem_.y")
    _check_array(problem.weights, (rows,), "_problem_.weights")
    _demand(bool((problem.weights >= 0).all()), "_problem_.weights")
    _check_C(problem.C, "_problem_.C")
    if problem.support is not None:
        _check_rows(problem.support, _size(problem.support), rows, "_problem_.support")
    if problem.points is not None:
        _check_points(problem.points, problem.kernel, features, "_problem_.points")
    _demand(problem.robust is None or isinstance(problem.robust, WeightFunction), "_problem_.robust")
    _demand(isinstance(problem.reduced, bool) and isinstance(problem.classification, bool), "_problem_")
    _demand(isinstance(problem.paths, dict), "_problem_.paths")
    _demand(problem.fitted is None, "_problem_.fitted")
    if problem.coefficients is not None:
        coef, intercept = problem.coefficients
        _check_array(coef, (problem.basis_size, outputs), "_problem_.coefficients")
        _check_array(intercept, (outputs,), "_problem_.coefficients")


def _check_fit(fit: Any, problem: Problem) -> None:
    _demand(isinstance(fit, Fit), "_fit_")
    rows, features = problem.X.shape
    outputs, n = problem.y.shape[1], _size(fit.points)
    _check_kernel(fit.kernel, features, "_fit_.kernel")
    _check_C(fit.C, "_fit_.C")
    _check_points(fit.points, fit.kernel, features, "_fit_.points")
    _check_array(fit.weights, (rows,), "_fit_.weights")
    _check_array(fit.coef, (n, outputs), "_fit_.coef")
    _check_array(fit.intercept, (outputs,), "_fit_.intercept")
    _check_array(fit.residuals, (rows, outputs), "_fit_.residuals")
    _check_array(fit.leverage, (rows,), "_fit_.leverage", finite=False)
    _check_array(fit.loo_residuals, (rows, outputs), "_fit_.loo_residuals", finite=False)
    if fit.support is not None:
        _check_rows(fit.support, n, rows, "_fit_.support")


def _check_searched(searched: Any, rows: int, outputs: int) -> None:
    _demand(isinstance(searched, tuple) and len(searched) == 2, "_searched_")
    labels, size = searched
    _demand(isinstance(labels, np.ndarray) and labels.dtype.kind == "i" and labels.shape == (rows,), "_searched_")
    _check_array(size, (rows, outputs), "_searched_", finite=False)  # NaN: in no fold


def _check_stream(stream: Any, features: int, outputs: int) -> None:
    _demand(isinstance(stream, Stream), "_stream_")
    moments = stream.moments
    n, rank = _size(stream.points), _check_whitening(stream.whitening, features, "_stream_.whitening")
    _check_points(stream.points, stream.whitening.kernel, features, "_stream_.points")
    _check_C(stream.C, "_stream_.C")
    _demand(n == (rank if stream.whitening.factor is None else _size(stream.whitening.factor)), "_stream_.points")
    _demand(isinstance(moments, Moments), "_stream_.moments")
    _demand(type(moments.weight) is float and 0 <= moments.weight < math.inf, "_stream_.moments.weight")
    _check_array(moments.phi, (rank,), "_stream_.moments.phi")
    _check_array(moments.targets, (outputs,), "_stream_.moments.targets")
    _check_array(moments.scatter, (rank, rank), "_stream_.moments.scatter")
    _check_array(moments.cross, (rank, outputs), "_stream_.moments.cross")
    for name in ("rows", "chunks"):
        _demand(type(getattr(stream, name)) is int and 0 <= getattr(stream, name) < 2**48, f"_stream_.{name}")
    if stream.sample is not None:
        sample = stream.sample
        _demand(isinstance(sample, Sample) and type(sample.size) is int and sample.size >= 1, "_stream_.sample")
        rows = _size(sample.keys)
        _check_array(sample.keys, (rows,), "_stream_.sample.keys")
        _demand(isinstance(sample.arrays, tuple) and len(sample.arrays) == 3, "_stream_.sample.arrays")
        for array, shape in zip(sample.arrays, ((rows, features), (rows, outputs), (rows,)), strict=True):
            _check_array(array, shape, "_stream_.sample.arrays")
        _demand(rows <= stream.rows and bool((sample.arrays[2] >= 0).all()), "_stream_.sample")


def _check_whitening(whitening: Any, features: int, name: str) -> int:
    """Returns the number of its columns."""
    _demand(isinstance(whitening, Whitening), name)
    rank = _size(whitening.points)
    _check_kernel(whitening.kernel, features, f"{name}.kernel")
    _check_points(whitening.points, whitening.kernel, features, f"{name}.points")
    _check_array(whitening.lower, (rank, rank), f"{name}.lower")
    if whitening.factor is None:
        _demand(whitening.owner is None, f"{name}.owner")
    else:
        n = _size(whitening.factor)
        _check_array(whitening.factor, (n, rank), f"{name}.factor")
        _check_rows(whitening.owner, n, rank, f"{name}.owner", smallest=-1)
    return rank


def _check_sample(sample: Any, features: int, outputs: int) -> None:
    _demand(isinstance(sample, LeftOutSample), "_sample_")
    rank, rows = _check_whitening(sample.whitening, features, "_sample_.whitening"), _size(sample.X)
    _demand(isinstance(sample.steps, tuple) and len(sample.steps) <= 2, "_sample_.steps")
    for step in sample.steps:
        _check_array(step, (rank, rank), "_sample_.steps")
    _check_array(sample.centre, (rank,), "_sample_.centre")
    _demand(type(sample.weight) is float and 0 < sample.weight < math.inf, "_sample_.weight")
    _demand(type(sample.total) is int and rows <= sample.total, "_sample_.total")
    _check_array(sample.X, (rows, features), "_sample_.X")
    for name in ("sample_weights", "weights"):
        _check_array(getattr(sample, name), (rows,), f"_sample_.{name}")
        _demand(bool((getattr(sample, name) > 0).all()), f"_sample_.{name}")
    _check_array(sample.leverage, (rows,), "_sample_.leverage", finite=False)
    for name in ("targets", "residuals", "loo_residuals"):
        _check_array(getattr(sample, name), (rows, outputs), f"_sample_.{name}", finite=False)


def _check_kernel(kernel: Any, features: int, name: str) -> None:
    _demand(isinstance(kernel, Kernel) and all(isinstance(part, Kernel) for part in _inside(kernel)), name)
    _demand(not any(isinstance(part, kernels.Choice) for part in _inside(kernel)) and not kernel.is_free, name)
    kernel.check(features)


def _inside(kernel: Any) -> Iterator[Any]:
    """A kernel and all kernels inside it."""
    yield kernel
    if isinstance(kernel, Kernel):
        for part in kernel.parts:
            yield from _inside(part)


def _check_points(points: Any, kernel: Kernel, features: int, name: str) -> None:
    _check_array(points, (_size(points), 1 if kernel.is_precomputed else features), name)
    if kernel.is_precomputed:
        whole = points == np.floor(points)
        _demand(bool((whole & (points >= 0) & (points < features)).all()), name)


def _check_rows(rows: Any, size: int, limit: int, name: str, smallest: int = 0) -> None:
    _demand(isinstance(rows, np.ndarray) and rows.dtype.kind in "iu" and rows.shape == (size,), name)
    _demand(not size or (int(rows.min()) >= smallest and int(rows.max()) < limit), name)


def _check_C(C: Any, name: str) -> None:
    _demand(type(C) is float and 0 < C < math.inf, name)


def _check_array(array: Any, shape: tuple[int, ...], name: str, *, finite: bool = True) -> None:
    _demand(isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape, name)
    _demand(not finite or bool(np.isfinite(array).all()), name)


def _size(array: Any) -> int:
    return len(array) if isinstance(array, np.ndarray) and array.ndim else 0


def _demand(true: bool, name: str) -> None:
    if not true:
        raise ValueError(f"{name} is not what it should be.")
