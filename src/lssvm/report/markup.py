"""Text, numbers and tables as HTML. All text from the data goes through `escaped`."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def escaped(value: Any) -> str:
    """Any value as escaped text; control characters, direction overrides and lone surrogates are replaced."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(value)), quote=True)


def shortened(value: str, length: int = 26) -> str:
    """A text of at most this length; of a longer one both ends, where similar names differ."""
    tail = length // 3
    return value if len(value) <= length else f"{value[: length - 1 - tail]}…{value[len(value) - tail :]}"


def rounded(value: float) -> str:
    """A number with four significant digits; large numbers as integers."""
    if math.isnan(value):
        return "not defined"
    value = float(value) + 0.0  # not -0
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def html_table(columns: Mapping[str, Iterable[Any]], *, header: bool = True, of_rows: bool = False) -> str:
    """A table of columns of text, integers and other numbers; the first column heads its lines.

    A table of rows of the data can be sorted, and links lead to its lines by the numbers of the rows.
    """
    lines = [[_cell(value) for value in line] for line in zip(*columns.values(), strict=True)]
    if not lines:
        return ""
    button = '<button type="button" class="sort">{}</button>' if of_rows else "{}"
    head = "".join(f'<th scope="col">{button.format(escaped(name))}</th>' for name in columns)
    body = ""
    for first, *others in lines:
        anchor = f' id="row-{escaped(first)}"' if of_rows else ""
        cells = "".join(f"<td{_number_class(value)}>{escaped(value)}</td>" for value in others)
        body += f'<tr{anchor}><th scope="row"{_number_class(first)}>{escaped(first)}</th>{cells}</tr>'
    top = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f'<div class="scroll" tabindex="0"><table>{top}<tbody>{body}</tbody></table></div>'


def formatted(values: Iterable[float], style: str) -> list[str]:
    """Numbers in a given style for a column of a table, which otherwise has four significant digits."""
    return [format(value, style) for value in values]


def _cell(value: Any) -> str:
    return str(value) if isinstance(value, (str, Integral)) else rounded(value)


def _number_class(value: str) -> str:
    """The class attribute of a cell that contains a number: its digits have one width."""
    return ' class="n"' if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?( ?%)?( points)?", value) else ""


def listed(lines: Sequence[str], style: str = "") -> str:
    """A list; nothing if there are no lines."""
    kind = f' class="{style}"' if style else ""
    return f"<ul{kind}>" + "".join(f"<li>{escaped(line)}</li>" for line in lines) + "</ul>" if lines else ""


def bar_table(
    header: tuple[str, str], rows: Sequence[tuple[str, float, str]], ends: tuple[float, float] | None = None
) -> str:
    """A table of names, notes and bars from 0 (to the left if negative); names of any length fit on the page."""
    values = [value for _, value, _ in rows] if ends is None else ends
    low, high = min(0.0, *values), max(0.0, *values)
    unit = 100.0 / ((high - low) or 1.0)
    body = []
    for name, value, note in rows:
        start, length = unit * (min(value, 0.0) - low), unit * abs(value)
        bar = f'<rect class="bar" x="{start:.2f}" width="{length:.2f}" height="10"/>'
        body.append(
            f'<tr><th scope="row">{escaped(name)}</th><td class="n">{escaped(note)}</td><td class="bars">'
            f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{bar}</svg></td></tr>'
        )
    head = f'<th scope="col">{escaped(header[0])}</th><th scope="col" class="n">{escaped(header[1])}</th>'
    return f'<table class="wide"><thead><tr>{head}<td></td></tr></thead><tbody>{"".join(body)}</tbody></table>'
