"""`LSSVR()` and `LSSVC()` as a model of AutoGluon, which is the interface of the TabArena benchmark.

    from benchmarks.tabarena import LSSVMModel
    from tabarena.benchmark.experiment import AGModelBagExperiment

    AGModelBagExperiment("LSSVM_c1_BAG_L1", LSSVMModel, model_hyperparameters={}, num_bag_folds=8)

or, without TabArena, `TabularPredictor(label).fit(frame, hyperparameters={LSSVMModel: {}})`. Hyperparameters are the
arguments of the estimators. Frames are passed as they are, because lssvm reads categories and missing cells. Needs
autogluon.core.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from autogluon.common.features.types import R_BOOL, R_CATEGORY, R_FLOAT, R_INT, S_TEXT_AS_CATEGORY
from autogluon.common.utils.pandas_utils import get_approximate_df_mem_usage
from autogluon.core.constants import BINARY, MULTICLASS, REGRESSION
from autogluon.core.models import AbstractModel
from threadpoolctl import threadpool_limits

from lssvm import LSSVC, LSSVR
from lssvm.estimators.planning import DENSE_ROWS


class LSSVMModel(AbstractModel):
    """Least-squares support vector machine, tuned by exact leave-one-out."""

    ag_key = "LSSVM"
    ag_name = "LSSVM"
    default_resources_physical_cores_only = True

    @classmethod
    def supported_problem_types(cls) -> list[str]:
        return [BINARY, MULTICLASS, REGRESSION]

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        defaults = super()._get_default_auxiliary_params()
        types = {
            "valid_raw_types": [R_BOOL, R_INT, R_FLOAT, R_CATEGORY],
            "ignored_type_group_special": [S_TEXT_AS_CATEGORY],  # almost every row has a value of its own
        }
        return {**defaults, **types}

    def _fit(
        self,
        X: pd.DataFrame,
        y: pd.Series,
        sample_weight: pd.Series | None = None,
        num_cpus: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Rows for validation are not needed, and a time limit is not supported."""
        estimator = LSSVR if self.problem_type == REGRESSION else LSSVC
        self.model = estimator(**self._get_model_params())
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        with threadpool_limits(num_cpus):
            self.model.fit(self.preprocess(X), y.to_numpy(), sample_weight=weights)

    @classmethod
    def _estimate_memory_usage_static(cls, *, X: pd.DataFrame, **kwargs: Any) -> int:
        """In bytes. At most eight matrices of the size of a dense kernel were measured, with 500 to 20,000 rows."""
        return 64 * min(len(X), DENSE_ROWS) ** 2 + 10 * int(get_approximate_df_mem_usage(X).sum())

    def _more_tags(self) -> dict[str, Any]:
        return {"can_refit_full": True}  # no rows for validation are used
