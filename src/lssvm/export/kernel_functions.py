"""Kernels as functions in the source text of a C header or a Python file.

A kernel becomes one function per part. Each takes two rows and the columns to use, so that an additive kernel can call
its part once for the columns of each component. The function bodies belong to the target, one per type of kernel;
words in capitals in them are replaced by the tables and constants of the kernel and by the names of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..kernels import RBF, Additive, Matern, Polynomial, Spline
from .model import column_widths, component_places, spline_tables

MATERN_FACTORS = {0.5: "1.0", 1.5: "(1.0 + r)", 2.5: "(1.0 + r + r * r / 3.0)"}
Function = tuple[str, dict[str, np.ndarray], str]  # name, tables and body


def kernel_functions(
    kernels: Iterable[Any], d: int, bodies: dict[str, str], prefix: str
) -> tuple[list[Function], list[str]]:
    """The functions of some kernels, each with its parts first, and the names of those of the kernels themselves."""
    functions: list[Function] = []

    def write(kernel: Any) -> str:
        parts = [write(part) for part in kernel.parts]
        name = f"{prefix}kernel{len(functions)}"
        kind, tables, words = _described(kernel, d)
        words |= {"SPLINE": f"{prefix}spline", **{table.upper(): f"{name}_{table}" for table in tables}}
        words |= {f"PART{number}": part for number, part in enumerate(parts)}
        body = re.sub(r"\b[A-Z][A-Z_0-9]+\b", lambda word: words[word[0]], bodies[kind])
        functions.append((name, tables, body))
        return name

    return functions, [write(kernel) for kernel in kernels]


def _described(kernel: Any, d: int) -> tuple[str, dict[str, np.ndarray], dict[str, str]]:
    """The key of a kernel's body, its tables and its constants."""
    kind = type(kernel).__name__
    if isinstance(kernel, RBF):
        return kind, {"widths": column_widths(kernel, d)}, {}
    if isinstance(kernel, Matern):
        words = {"TWICE_NU": repr(2.0 * kernel.nu), "FACTOR": MATERN_FACTORS[kernel.nu]}
        return kind, {"widths": column_widths(kernel, d)}, words
    if isinstance(kernel, Polynomial):
        return kind, {}, {"COEF0": repr(float(kernel.coef0)), "DEGREE": str(int(kernel.degree))}
    if isinstance(kernel, Spline):
        tables = spline_tables(kernel, d)
        return kind, tables, {"SIZE": str(tables["knots"].shape[1])}
    if isinstance(kernel, Additive):
        groups = component_places(kernel)
        if groups is None:
            return kind, {}, {}
        if not groups:
            return "Nothing", {}, {}
        longest = max(map(len, groups))
        padded = np.array([[*group, *[-1] * (longest - len(group))] for group in groups])  # -1 ends a group
        return "Groups", {"groups": padded}, {"SIZE": str(len(groups)), "LONGEST": str(longest)}
    return kind, {}, {}


def uses_splines(functions: list[Function]) -> bool:
    """Whether any of them calls the spline function of the target."""
    return any("factors" in tables for _, tables, _ in functions)
