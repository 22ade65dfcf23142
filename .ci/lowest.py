#!/usr/bin/env python3
"""Print constraints for pip that pin what users install to the lowest versions that pyproject.toml declares.

    pip install ".[test]" --constraint <(python3 .ci/lowest.py)

Tools that only the developers need (the extras bench, test, docs and dev) stay at their newest versions.
"""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
requirements = list(project["dependencies"])
for extra in extras.keys() - {"all", "bench", "test", "docs", "dev"}:
    requirements += extras[extra]
for requirement in sorted(requirements):
    # A constraint takes no extras: "dask[array]>=2025.1" becomes "dask==2025.1".
    name, lowest = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)", requirement).groups()
    print(f"{name}=={lowest}")
