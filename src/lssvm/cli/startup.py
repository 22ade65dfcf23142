"""A quick start of the commands: without it, `lssvm predict` takes twice the CPU time (2.8 s instead of 1.4 s)."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LATER = {"numpy.f2py", "numpy.testing", "scipy.stats"}  # scikit-learn imports them, but the commands hardly use them


class Later(ModuleType):
    """Stands for a module until one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


class QuickStart(MetaPathFinder, Loader):
    """Imports some modules later, and pandas never: scikit-learn and pyarrow import it if they can."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("the command line does not use pandas", name=name)
        if name not in LATER:
            return None
        LATER.remove(name)  # the second time, the module itself is imported
        return ModuleSpec(name, self)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = Later
