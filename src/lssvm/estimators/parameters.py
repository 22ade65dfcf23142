"""The types of the constructors' arguments of both estimators, with their rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np

from ..arrays import Array, ArrayLike
from ..coding import CODINGS
from ..kernels import Kernel, as_kernel
from ..losses import LOSSES
from ..problem import Problem, Step
from ..robust import WeightFunction, as_weight_function
from ..rules import List, Rule, number, one_of, shown

MOST_STEPS = 100  # of a fit


def are_steps(steps: Any) -> bool:
    """True for a list of steps that is not too long; TypeError if it is not a list of steps."""
    if isinstance(steps, (str, Step, type)) or not isinstance(steps, Sequence):
        example = repr(steps) if isinstance(steps, Step) else "lssvm.sparsify.Random(100)"
        raise TypeError(f"steps must be a list of steps or None, got {shown(steps)}: write steps=[{example}].")
    for step in steps:
        if isinstance(step, Kernel):
            raise TypeError(f"steps holds {step!r}, which is a kernel: write kernel={step!r}.")
        if isinstance(step, type) or not callable(step):
            raise TypeError(f"steps holds {shown(step)}, which is not a step: see lssvm.sparsify and lssvm.tune.")
    return len(steps) <= MOST_STEPS


def are_weights(value: Any) -> bool:
    """Whether this is a dict of weights whose products with sample weights are finite."""
    real: Any = Real
    return isinstance(value, Mapping) and all(isinstance(w, real) and 0 <= w < 1e100 for w in value.values())


KernelFunction = Annotated[Kernel | Callable[[Array, Array], Array], Rule("a kernel", as_kernel, objects=True)]
Steps = Annotated[
    Sequence[Callable[[Problem], Problem]], Rule(f"a list of at most {MOST_STEPS} steps", are_steps, objects=True)
]
Weighting = Annotated[str | WeightFunction, Rule("a weight function", as_weight_function, objects=True)]
GivenC = Annotated[
    float | None,
    number("a positive, finite number (1e-150 to 1e150)", 1e-150, 1e150)
    | Rule("None (chosen by leave-one-out)", lambda value: value is None),
]
ColumnNames = Annotated[ArrayLike | str, one_of("from_dtype") | List.__metadata__[0]]
ClassWeights = Annotated[
    Mapping[Any, float] | str, one_of("balanced") | Rule("a dict of finite, non-negative weights", are_weights)
]
Verbosity = Annotated[
    int, Rule("0 (silent) or 1 (shows progress)", lambda value: isinstance(value, (Integral, np.bool_)) and value >= 0)
]
Coding = Annotated[str, one_of("auto", *CODINGS)]
LossName = Annotated[str, one_of("auto", *LOSSES)]
