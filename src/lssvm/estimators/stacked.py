"""Stacked models: one fitted model per kernel, and what follows from their weighted average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .. import arrays
from ..kernels import Kernel, Stack
from .validation import same_kind

NO_SINGLE_VALUE = ("C_", "coding_", "dual_coef_", "loss_", "support_vectors_")  # attributes that members have


def unfitted(model: Any, **changed: Any) -> Any:
    """A model with the same parameters, apart from those that are given, and without callbacks."""
    return type(model)(**{**model.get_params(deep=False), **changed})


def new_members(model: Any, kernels: Sequence[Kernel]) -> list[Any]:
    """Unfitted copies of a model, one per kernel."""
    return [unfitted(model, kernel=kernel) for kernel in kernels]


def stack_attributes(model: Any, members: Sequence[Any], weights: np.ndarray | None = None) -> dict[str, Any]:
    """The attributes of a stack of fitted members, with the given weights or those that leave-one-out chooses.

    A stack of one member has all attributes of that member: it is the same model.
    """
    weights, losses, loss = model._weigh(members, weights)
    kept = [(member, float(w)) for member, w in zip(members, weights, strict=True) if w > 0]
    like = members[0].dual_coef_
    attributes = {
        "members_": [member for member, _ in kept],
        "stack_weights_": same_kind(np.array([w for _, w in kept]), like),
    }
    path = Bunch(loo=loss, **_path(members, weights, losses))
    if len(kept) == 1:
        single = {name: value for name, value in vars(kept[0][0]).items() if name.endswith("_")}
        if len(members) > 1:
            single["path_"] = Bunch(**{**(single["path_"] or {}), "members": path.members})
        return {**single, **attributes}
    support = [arrays.to_numpy(member.support_) for member, _ in kept if member.support_ is not None]
    together = np.unique(np.concatenate(support)) if len(support) == len(kept) else None
    return {
        **attributes,
        "kernel_": Stack([member.kernel_ for member, _ in kept]),
        "support_": None if together is None else same_kind(together, like),
        "path_": path,
        "_sample_weight_": getattr(members[0], "_sample_weight_", None),
        **model._stack_loo_attributes(kept),
    }


def average(kept: Sequence[tuple[Any, float]], value: Callable[[Any], Any]) -> Any:
    """The weighted average of a value of the members."""
    total: Any = 0.0
    for member, weight in kept:
        total = total + weight * value(member)
    return total


def _path(members: Sequence[Any], weights: np.ndarray, losses: np.ndarray) -> dict[str, Any]:
    """The record of a stack: its members, including those of weight 0, and the searches behind them."""
    records = [Bunch() if member.path_ is None else member.path_ for member in members]
    values = zip(members, losses.tolist(), weights.tolist(), strict=True)
    return {
        "members": [Bunch(kernel=m.kernel_, C=m.C_, loo=loo, weight=weight) for m, loo, weight in values],
        "evaluations": sum(record.get("evaluations", 0) for record in records),
        "plan": [
            f"{type(member.kernel_).__name__}: {line}"
            for member, record in zip(members, records, strict=True)
            for line in record.get("plan", [])
        ],
    }
