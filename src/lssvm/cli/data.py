"""Rows of a table and models of `lssvm fit`, shared by several commands."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .reading import Source
    from .roles import Plan


def encoded(batch: Any, source: Source, scheme: Plan, row: int) -> tuple[Any, Any, Any]:
    """The complete rows of a batch: inputs, targets, and a mask of these rows."""
    import pyarrow

    X, complete = scheme.encode(batch, source, row + source.first_row, Counter())
    y, there = scheme.targets(batch, source, row + source.first_row)
    kept = complete & there
    return (X if kept.all() else X.filter(pyarrow.array(kept))), y[kept], kept


def rows_of(source: Source, scheme: Plan) -> tuple[Any, Any, list[int]]:
    """All complete rows at once, and the indices of the others."""
    import numpy as np
    import pyarrow

    tables, targets, dropped, row = [], [], [], 0
    for batch in source.batches():
        X, y, kept = encoded(batch, source, scheme, row)
        tables.append(X)
        targets.append(y)
        dropped += [row + int(place) for place in np.flatnonzero(~kept)]
        row += batch.num_rows
    y = np.concatenate(targets)
    if len(y) < 2:
        raise ValueError(
            f"{source.name}: {len(y)} complete row(s), at least 2 are required: add rows, or fit with --missing fill."
        )
    return pyarrow.concat_tables(tables), y, dropped


def own_spelling(model: Any, y: Any) -> Any:
    """Labels in the spelling of the model: boolean values may differ in case."""
    import numpy as np

    from .summary import spellings

    if y.dtype.kind != "U":
        return y
    known = {text: str(model.classes_[place]) for text, place in spellings(model.classes_.tolist()).items()}
    return np.array([known.get(text, text) for text in y.tolist()])


def load_model(path: str) -> tuple[Any, Plan]:
    """A model that `lssvm fit` wrote, and its columns."""
    from ..persist import load
    from .roles import Plan

    model = load(path)
    if not isinstance(getattr(model, "table_", None), dict):
        raise ValueError(
            f"{path!r} was saved from Python and does not store the columns of a table: use it from Python "
            "(lssvm.load), or fit it with lssvm fit."
        )
    return model, Plan.from_dict(model.table_)


def summary(model: Any) -> dict[str, Any]:
    """The key properties of a fitted model."""
    from .. import diagnose

    table = getattr(model, "table_", {})
    result: dict[str, Any] = {"model": type(model).__name__}
    result |= {name: table[name] for name in ("task", "target", "source") if name in table}
    if hasattr(model, "classes_"):
        result["classes"] = [str(label) for label in model.classes_]
    with suppress(ValueError):  # a model without leave-one-out values
        result["rows"] = diagnose.loo_values(model).total
    result["columns"] = int(model.n_features_in_)
    result["support vectors"] = len(diagnose.basis_points(model))
    result["kernel"] = type(model.kernel_).__name__
    if diagnose.is_stack(model):
        result["members"] = diagnose.member_words(model)
    else:
        result["C"] = float(model.C_)
        result |= {name[:-1]: getattr(model, name) for name in ("coding_", "loss_") if hasattr(model, name)}
    used = diagnose.columns_used(model)
    if not used.all():
        columns = zip(diagnose.feature_names(model), used, strict=True)
        result["dropped columns"] = [name for name, is_used in columns if not is_used]
    try:
        scores = diagnose.scores(model)
    except ValueError:
        return result
    names = {"rmse": "RMSE", "mae": "MAE", "r2": "R2", "error_rate": "error rate", "log_loss": "log loss"}
    names |= {"brier": "Brier score", "crps": "CRPS"}
    return result | {f"leave-one-out {names.get(name, name)}": value for name, value in scores.items()}
