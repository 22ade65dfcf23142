#!/usr/bin/env python3
"""Print the n-th fenced bash block of README.md: 1 tries the package, 2 tests it."""

import re
import sys
from pathlib import Path

text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
blocks = re.findall(r"^```bash[ ]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
number = int(sys.argv[1])
if number > len(blocks):
    sys.exit(f"README.md has {len(blocks)} fenced bash blocks; number {number} is missing")
print(blocks[number - 1].strip())
