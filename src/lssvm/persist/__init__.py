"""Model files: `save` and `load`.

`values` converts the values of a model to JSON and arrays and back; `schema` checks what a file contains, by rules that
follow from types; `format1` translates files of older versions.

A ``.lssvm`` file is a safetensors file: a JSON header, followed by the arrays. The metadata in the header contain the
model as JSON (class names, parameters, fitted values, references to the arrays), the format version and the SHA-256 of
the file. Everything that is read is checked before it is returned. The digest detects damage; it is not a signature.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
from dataclasses import replace
from typing import Any

import numpy as np

from .. import __version__, arrays, files
from ..estimators import LSSVC, LSSVR
from ..estimators.base import publish
from ..estimators.fitted import FittedModel
from .format1 import from_format1
from .schema import check_model
from .values import CODES, DTYPES, Reader, Writer

__all__ = ["load", "save"]

FORMAT = 2
START = b'{"__metadata__":{"sha256":"'  # Every header starts like this, so that the digest has a fixed position.
NO_DIGEST = b"0" * 64
SPARE_MEMORY = 9 * 10**7  # Loading may take this many bytes in addition to ten times the size of the file.
FITTED = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*_")  # The names of fitted attributes have this form.
# Invalid files raise these errors.
ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
PUBLIC = {  # These attributes follow from the record of the fit.
    *("C_", "active_", "classes_", "coding_", "dual_coef_", "feature_names_in_", "fitted_", "intercept_", "kernel_"),
    *("leverage_", "loo_predictions_", "loo_residuals_", "loss_", "max_variation_", "members_", "n_features_in_"),
    *("path_", "stack_weights_", "support_", "support_vectors_", "weights_"),
}


def save(model: LSSVR | LSSVC, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, completely or not at all.

    The file appears under its name only once it is complete and on disk, so that a crash leaves the previous file
    intact. The mode and owner of an existing file are kept. A file is overwritten in place only if it has several hard
    links or if no new file can be created in its folder. A device or FIFO is written to directly.

    Parameters
    ----------
    model : LSSVR or LSSVC
        Fitted by `fit`, `fit_chunks` or `partial_fit`. User-defined kernels and steps are rejected, because a file
        contains values, not code. Attributes whose names end in ``_`` are saved if they are plain values or arrays,
        except lazy Dask arrays.
    path : path
        Conventionally with the extension ``.lssvm``.

    Raises
    ------
    TypeError, ValueError
        The model contains values that cannot be saved, or that `load` would reject.

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
    from ..diagnose import check_fitted

    check_fitted(model)
    if type(model) not in (LSSVR, LSSVC):
        raise TypeError(f"save expects a fitted LSSVR or LSSVC, got {type(model).__name__}: save the model itself.")
    writer = Writer()
    added = {name: value for name, value in vars(model).items() if FITTED.fullmatch(name) and name not in PUBLIC}
    own = {name: writer.value(value, name) for name, value in added.items() if not arrays.is_dask(value)}
    tree = {"model": writer.value(model, ""), "fitted": writer.value(model.fitted_, ""), "own": own}
    metadata = {"sha256": NO_DIGEST.decode(), "lssvm_format": str(FORMAT), "lssvm_version": __version__}
    metadata["model"] = json.dumps(tree, allow_nan=False, separators=(",", ":"))
    header: dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for name, array in writer.arrays.items():
        end = offset + array.nbytes
        header[name] = {"dtype": CODES[array.dtype], "shape": array.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays start at a multiple of 8
    try:
        _read(metadata["model"], Reader(writer.arrays, _allowance(text, 8 + len(text) + offset)))
    except ERRORS as error:
        raise ValueError(f"The model cannot be saved, because it could not be loaded again: {error}") from None
    length, stored = struct.pack("<Q", len(text)), [array.data for array in writer.arrays.values() if array.size]
    text = START + _digest(length, text, *stored) + text[len(START) + 64 :]
    with files.written(path) as file:
        file.writelines([length, text, *stored])


def load(path: str | os.PathLike[str]) -> LSSVR | LSSVC:
    """Read a model written by `save`: its predictions are bitwise identical and it has the same fitted attributes.

    Parameters
    ----------
    path : path

    Returns
    -------
    LSSVR or LSSVC

    Raises
    ------
    ValueError
        The file is not a model file, is damaged, or was written by a later version. Every value is checked, and
        loading takes at most ten times the size of the file plus 100 MB of memory.

    Examples
    --------
    >>> import tempfile, lssvm
    >>> X, y = lssvm.datasets.load_motorcycle(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lssvm.save(lssvm.LSSVR(lssvm.kernels.RBF(13.1), C=1.0).fit(X, y), f"{folder}/motorcycle.lssvm")
    ...     lssvm.load(f"{folder}/motorcycle.lssvm")
    LSSVR(C=1.0, kernel=RBF(sigma=13.1))
    """
    path, place = os.fspath(path), 8 + len(START)
    with open(path, "rb") as file:
        start = file.read(place)
        if start[8:] != START:
            raise ValueError(f"{path!r} is not a model file: give one written by lssvm.save or lssvm fit.")
        content = start + file.read()
    length = struct.unpack("<Q", start[:8])[0]
    if length > len(content) - 8:
        raise ValueError(f"{path!r} ends too early: copy it again, or save the model again.")
    if _digest(content[:place], NO_DIGEST, memoryview(content)[place + 64 :]) != content[place : place + 64]:
        raise ValueError(f"{path!r} is damaged (its SHA-256 does not match): copy it again, or save the model again.")
    try:
        text = content[8 : 8 + length]
        allowance = _allowance(text, len(content))
        if allowance < 0 or not text.isascii():
            raise ValueError("its text is not ASCII, or would take too much memory")
        header = json.loads(text)
        del text
        metadata = header.pop("__metadata__")
        written = int(metadata["lssvm_format"])
        if 1 <= written <= FORMAT:
            reader = Reader(_arrays(header, memoryview(content)[8 + length :]), allowance)
            with np.errstate(over="ignore", invalid="ignore"):  # infinite leave-one-out residuals
                return publish(*_read(metadata["model"], reader, written), refined=True)
    except ERRORS as error:
        raise ValueError(f"{path!r} contains no valid model: {error}") from None
    found = f"{path!r} has format {written}, written by lssvm {metadata.get('lssvm_version')}"
    raise ValueError(f"{found}; this version of lssvm ({__version__}) reads formats up to {FORMAT}: upgrade lssvm.")


def _digest(*parts: Any) -> bytes:
    """Return the SHA-256 of the file in hexadecimal digits; in the header, zeros take its place."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest().encode()


def _allowance(text: bytes, size: int) -> int:
    """Return the number of bytes that references and labels may take, given the JSON text and the size of the file.

    Loading takes at most ten times the size of the file plus `SPARE_MEMORY`: four times for the file, its text and its
    arrays, plus the objects in the text, whose sizes are bounded by the number of characters that they need.
    """
    characters = 4 if b"\\u" in text else 1
    brackets = text.count(b"[") + text.count(b"{")
    objects = characters * len(text) + 40 * text.count(b",") + 32 * text.count(b'"') + 128 * brackets
    return 6 * size + SPARE_MEMORY - objects


def _arrays(header: dict[str, Any], data: memoryview) -> dict[str, np.ndarray]:
    """Return the arrays listed in the header, which must fill the data without gaps or overlaps."""
    found, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape, (start, stop) = np.dtype(DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        if start != end or stop > len(data) or stop - start != dtype.itemsize * math.prod(shape):
            raise ValueError(f"the array {name!r} does not fill its part of the file.")
        found[name] = np.frombuffer(data[start:stop], dtype=dtype).reshape(shape).copy()
        if dtype == np.bool_ and found[name].view(np.uint8).max(initial=0) > 1:
            raise ValueError(f"the array {name!r} contains boolean values other than 0 and 1.")
        end = stop
    if end != len(data):
        raise ValueError("the arrays do not fill the file.")
    return found


def _read(text: str, reader: Reader, written: int = FORMAT) -> tuple[Any, FittedModel]:
    """Return the model described by a JSON text of any format, not fitted yet, and what it has learned, checked."""
    tree = reader.read(text)
    model, fitted, own = from_format1(tree) if written == 1 else (tree["model"], tree["fitted"], tree["own"])
    # all members have the same layout
    fitted = replace(fitted, members=tuple(replace(member, layout=fitted.layout) for member in fitted.members))
    own = {name: value for name, value in own.items() if name not in PUBLIC}
    for name in own:
        if not FITTED.fullmatch(name) or hasattr(type(model), name):
            raise ValueError(f"{name!r} is not a name of a fitted attribute.")
    check_model(model, fitted, own)
    vars(model).update(own)
    return model, fitted
