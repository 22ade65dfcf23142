"""Fitted models, as several commands need them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .roles import Roles


def own_spelling(model: Any, y: Any) -> Any:
    """Labels in the spelling of the model: programs write boolean values differently."""
    import numpy as np

    own = {str(label).lower(): label for label in getattr(model, "classes_", ())}
    if y.dtype.kind != "U" or not own.keys() <= {"true", "false"}:
        return y
    return np.array([own.get(text.lower(), text) for text in y.tolist()])


def load_model(path: str) -> tuple[Any, Roles]:
    """A model that was fitted to a table, and the roles of its columns."""
    from ..persist import load
    from .roles import Roles

    model = load(path)
    if "columns" in getattr(model, "table_", {}):
        raise ValueError(
            f"{path!r} was written by lssvm fit of version 0.1, which encoded the columns in another way: fit it again."
        )
    if not hasattr(model, "feature_names_in_"):
        raise ValueError(
            f"{path!r} was fitted in Python to an array, which has no column names: use it from Python (lssvm.load), "
            "or fit it to a frame or with lssvm fit."
        )
    if not hasattr(model, "classes_") and not model.fitted_.layout.single:
        raise ValueError(
            f"{path!r} predicts several targets: use it from Python (lssvm.load), or fit one model for each."
        )
    return model, Roles.of(model)


def model_facts(model: Any) -> dict[str, Any]:
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
    if model.fitted_.is_stack:
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
