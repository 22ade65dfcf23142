"""Values of a fitted model that several sections need, computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from .. import diagnose
from ..arrays import NumericalError

LARGEST_PATH = 3000  # The path of C is computed for dense models of at most this many rows.
LARGEST_COLUMNS = 5e7  # For other models, rows times basis points may be at most this.
SHOWN = ("X: column ", "missing ")  # Notes on ignored columns, pooled values and missing cells start like this.
MOST_SOLUTIONS = 1500  # Importance is computed for at most this product of columns and members.
ALL_ROWS = 60  # Up to this product of columns and members, importance uses 1000 rows.


class Facts:
    """Values that several sections need, computed once; None if unknown."""

    def __init__(self, model: Any, about: dict[str, Any]) -> None:
        self.model, self.about = model, about
        self.classes = list(map(str, model.classes_)) if is_classifier(model) else []
        self.target = str(about.get("target") or ("class" if self.classes else "y"))
        self.unit = "targets -1, +1" if self.classes else f"units of {self.target}"
        self.kind = "wrong" if self.classes else "squared" if model.robust is None else "absolute"  # of losses
        self.names = diagnose.feature_names(model)
        self.used = diagnose.columns_used(model)
        self.is_stack = model.fitted_.is_stack
        self.members = diagnose.members(model)  # with their weights; the model itself unless it is a stack
        first = self.members[0][0]
        count = np.size(first.intercept_)
        self.outputs = [self.target] if count == 1 else [f"{self.target} {output}" for output in range(count)]
        self.problems = [member.fitted_.problem for member, _ in self.members]
        parts = zip(self.members, self.problems, strict=True)  # after `fit_chunks`, members do not keep their rows
        self.chunked = any(own is None and member.fitted_.is_least_squares for (member, _), own in parts)
        self.kept = _known(diagnose.kept_rows, first, "The data")
        self.groups = None if self.kept is None else self.kept.problem.row_groups  # left out together
        self.loo: Any = _known(diagnose.honest_values, model)
        self.is_honest = self.loo is not None and self.loo is not model.fitted_.loo_values  # they include the search
        self.rows: Any = None if self.loo is None else self.loo.total
        self.sampled = self.loo is not None and self.loo.sampled  # the row numbers are then unknown
        self.probability: Any = _known(diagnose.loo_probabilities, model) if self.classes else None
        self.rare: Any = _known(diagnose.rare_class, model) if self.classes else None
        dropped = np.asarray(about.get("dropped", ()), dtype=int)  # rows of the source that were not used
        self.numbers = np.setdiff1d(np.arange((self.rows or 0) + len(dropped)), dropped) + int(about.get("row", 0))
        solutions = model.n_features_in_ * len(self.members)  # every column is one solution per member
        rows = int(1000 * min(1.0, ALL_ROWS / solutions) ** (1 / 3))
        self.importance: Any = _known(diagnose.importance, model, rows) if solutions <= MOST_SOLUTIONS else None
        small = all(problem is not None and _is_small(problem) for problem in self.problems)
        self.c_path = _known(diagnose.c_path, model) if small else None
        has_coverage = not self.classes and (small or self.chunked)  # a chunked model has a sample
        self.coverage = _known(diagnose.interval_coverage, model) if has_coverage else None

    def notes(self, about_columns: bool) -> list[str]:
        """Return notes of the reading program and warnings of the fit, less those that the data section shows."""
        notes = [note for note in map(str, self.about.get("warnings", ())) if not note.startswith(SHOWN)]
        return [note for note in notes if note.startswith("column") == about_columns]

    def which(self, outputs: Iterable[int]) -> dict[str, list[str]]:
        """Return the column of a table that names the outputs, if there are several."""
        return {"target": [self.outputs[output] for output in outputs]} if len(self.outputs) > 1 else {}


def _known(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a diagnostic; None if it does not apply."""
    try:
        return function(*arguments)
    except (diagnose.NotKnown, NumericalError):
        return None


def _is_small(problem: Any) -> bool:
    rows = len(problem.rows)
    return rows <= LARGEST_PATH if problem.is_dual else rows * problem.basis_size <= LARGEST_COLUMNS
