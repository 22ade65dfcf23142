"""What is told of a fit while it runs: the line of ``verbose=1``, and scikit-learn's callbacks (1.9 and later)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from .. import progress
from ..rules import check_parameters

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Adds nothing."""

    def _with_callbacks(method: Any) -> Any:
        return method


Method = TypeVar("Method", bound=Callable[..., Any])

TASKS = 100  # number of subtasks into which a fit is divided for callbacks


def with_callbacks(method: Method) -> Method:
    """Decorate a method that fits, so that callbacks are torn down at its end; the type is that of the method."""
    return _with_callbacks(method)


@contextmanager
def followed(model: Any, **data: Any) -> Iterator[None]:
    """Check the parameters; show the progress of a fit if the model is verbose, and report it to its callbacks.

    The hooks of the callbacks get `data`.
    """
    check_parameters(model)
    listeners: list[progress.Listener] = []
    with ExitStack() as stack:
        if model.verbose and sys.stderr is not None:
            listeners.append(stack.enter_context(progress.Line(f"fitting {type(model).__name__}")))
        task = None
        if "_skl_callbacks" in vars(model):
            task = model._init_callback_context(max_subtasks=TASKS)
            task.call_on_fit_task_begin(estimator=model, **data)
            listeners.append(_subtasks(model, task))
        if listeners:
            stack.enter_context(progress.listening(lambda share: [listener(share) for listener in listeners]))
        yield
    if task is not None:
        task.call_on_fit_task_end(estimator=model, reconstruction_attributes={}, **data)


def _subtasks(model: Any, task: Any) -> progress.Listener:
    """A listener that begins and ends one subtask per `TASKS`-th of the work."""
    done = 0

    def advance(share: float) -> None:
        nonlocal done
        for _ in range(done, int(TASKS * share)):
            part = task.subcontext(task_name="percent")
            part.call_on_fit_task_begin(estimator=model)
            part.call_on_fit_task_end(estimator=model)
            done += 1

    return advance
