"""A quick start, without packages that other packages import but that the commands hardly use.

To import them takes as long as everything else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Later(ModuleType):
    """Stands for a module until one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


class QuickStart(MetaPathFinder, Loader):
    """Imports some modules later, and pandas never: scikit-learn and pyarrow work without it."""

    def __init__(self) -> None:
        self.later = {"asyncio", "numpy.f2py", "numpy.testing", "scipy.stats"}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("the command line does not use pandas", name=name)
        if name not in self.later:
            return None
        self.later.remove(name)  # the second time, the module itself is imported
        return ModuleSpec(name, self)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = Later


def start_quickly() -> None:
    """Change how this process imports modules."""
    sys.meta_path.insert(0, QuickStart())
