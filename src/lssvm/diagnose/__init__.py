"""Diagnostics of fitted models: leave-one-out values, the path of C, widths of columns, coverage of intervals.

All results are read from the fit or follow from one factorisation; nothing is refitted row by row. The displays, the
report and the command line draw and print the results of these functions.
"""

from typing import Any

from .. import arrays
from .access import NotKnown as NotKnown
from .access import are_unit_vectors as are_unit_vectors
from .access import basis_points as basis_points
from .access import check_fitted as check_fitted
from .access import check_single as check_single
from .access import columns_used, feature_names, inverse_widths
from .access import component_deviations as component_deviations
from .access import kept_components as kept_components
from .access import kept_rows as kept_rows
from .access import kernel_words as kernel_words
from .access import member_words as member_words
from .access import members as members
from .access import order_facts as order_facts
from .access import scale_words as scale_words
from .calibration import coverage_by_group, coverage_by_region, coverage_path, pit, reliability, set_coverage
from .calibration import interval_coverage as interval_coverage
from .contributions import shapley
from .contributions import shapley_of_encoded as shapley_of_encoded
from .explanations import effects, importance, interactions
from .loo import (
    LooValues,
    beats_constant,
    c_path,
    class_codes,
    class_scores,
    honest_values,
    loo_probabilities,
    loo_values,
    number_scores,
    rare_class,
    scores,
    width_surface,
)
from .loo import relative_log_loss as relative_log_loss

__all__ = [
    "LooValues",
    "beats_constant",
    "c_path",
    "class_codes",
    "class_scores",
    "columns_used",
    "coverage_by_group",
    "coverage_by_region",
    "coverage_path",
    "effects",
    "feature_names",
    "honest_values",
    "importance",
    "interactions",
    "inverse_widths",
    "loo_probabilities",
    "loo_values",
    "number_scores",
    "pit",
    "rare_class",
    "reliability",
    "scores",
    "set_coverage",
    "shapley",
    "width_surface",
]

RENAMED = {"left_out": "loo_values", "left_out_probabilities": "loo_probabilities", "LeftOut": "LooValues"}


def __getattr__(name: str) -> Any:
    """Return an object by its name in version 0.1.0, with a warning: these names are deprecated since 0.2."""
    if name not in RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = f"diagnose.{RENAMED[name]}"
    arrays.warn(f"diagnose.{name} is now {new}; the old name will be removed in 0.4.", FutureWarning)
    return globals()[RENAMED[name]]
