#!/usr/bin/env python3
"""Print the code lines of each package of src/lssvm, without comments, docstrings and blank lines.

python .ci/code_lines.py [MOST]    exits with 1 if there are more than MOST in all
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "lssvm"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """The number of lines with code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def main() -> None:
    lines: Counter[str] = Counter()
    files = sorted(SOURCE.rglob("*.py"))
    for file in files:
        lines[file.relative_to(SOURCE).parts[0]] += code_lines(file.read_text(encoding="utf-8"))
    for name, count in lines.most_common():
        print(f"{count:6,}  {name}")
    print(f"{lines.total():6,}  in {len(files)} files")
    if len(sys.argv) > 1:
        sys.exit(lines.total() > int(sys.argv[1]))


if __name__ == "__main__":
    main()
