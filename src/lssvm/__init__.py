"""lssvm: least-squares support vector machines, exact, robust, sparse, tuned by leave-one-out."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import Any

    from . import datasets, diagnose, export, kernels, plotting, report, robust, sparsify, tune
    from .estimators import LSSVC, LSSVR
    from .persist import load, save

__version__ = "0.2.0"

__all__ = [
    "LSSVC",
    "LSSVR",
    "__version__",
    "datasets",
    "diagnose",
    "export",
    "kernels",
    "load",
    "plotting",
    "report",
    "robust",
    "save",
    "sparsify",
    "tune",
]

_CLASSES = {"LSSVC": ".estimators", "LSSVR": ".estimators", "load": ".persist", "save": ".persist"}


def __getattr__(name: str) -> Any:
    """Import on first use: `lssvm --help` needs neither NumPy nor scikit-learn."""
    if name in _CLASSES:
        return getattr(import_module(_CLASSES[name], __name__), name)
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
