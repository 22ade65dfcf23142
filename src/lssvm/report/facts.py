"""What several sections need to know of a fitted model, computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from .. import diagnose
from ..arrays import NumericalError

LARGEST_PATH = 3000  # rows of a dense machine, beyond which its path of C is not computed again
LARGEST_COLUMNS = 5e7  # rows times basis points likewise


class Facts:
    """What several sections need, computed once; what is not known is None."""

    def __init__(self, model: Any, about: dict[str, Any]) -> None:
        self.model = model
        self.about = about
        self.classes = [_plain(label) for label in model.classes_] if is_classifier(model) else None
        self.target = str(about.get("target") or ("class" if self.classes else "y"))
        self.names = diagnose.feature_names(model)
        self.problem = getattr(model, "_problem_", None)
        self.left_out: Any = _known(diagnose.loo_values, model)
        self.sampled = self.left_out is not None and self.left_out.sampled  # then numbers of rows are not known
        total = (self.rows or 0) + len(about.get("dropped", ()))
        self._numbers = np.setdiff1d(np.arange(total), np.asarray(about.get("dropped", ()), dtype=int))
        self._numbers += int(about.get("row", 0))
        self.scores = _known(diagnose.scores, model)
        self.probability: Any = _known(diagnose.loo_probabilities, model) if self.classes else None
        self.inverse_widths = _known(diagnose.inverse_widths, model)
        self.small = self.problem is not None and _is_small(self.problem)
        self.c_path = _known(diagnose.c_path, model) if self.small else None
        self.coverage = None
        if not self.classes and (self.small or self.problem is None):  # of chunks, a sample is left out
            self.coverage = _known(diagnose.coverage_path, model)

    def number(self, row: int) -> int:
        """The number that a training row has in its source: rows that were dropped count, too."""
        return int(self._numbers[row]) if row < len(self._numbers) else row

    @property
    def rows(self) -> int | None:
        """Number of training rows, where known."""
        return None if self.left_out is None else self.left_out.total

    @property
    def unit(self) -> str:
        return "targets -1, +1" if self.classes else f"units of {self.target}"


def _known(function: Any, model: Any) -> Any:
    """What a diagnosis returns, None where it does not apply."""
    try:
        return function(model)
    except (diagnose.NotKnown, NumericalError):
        return None


def _is_small(problem: Any) -> bool:
    rows = len(problem.rows)
    return rows <= LARGEST_PATH if problem.is_dual else rows * problem.basis_size <= LARGEST_COLUMNS


def _plain(label: Any) -> str:
    return str(label.item() if isinstance(label, np.generic) else label)
