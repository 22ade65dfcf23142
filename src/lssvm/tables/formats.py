"""How texts spell numbers and times, and which way of reading fits all cells of a column.

`readings` is the one table of formats: what a text means in each style. `Evidence` collects which styles can read the
texts of a column and chooses one for all of them, its `Format`, which is kept with the fitted model.

The styles "." and "," are the decimal marks of numbers, which may have a currency or a unit, marks of thousands, and a
minus or parentheses. "ymd", "dmy" and "mdy" are dates, by the order of day, month and year, perhaps with a time of day;
"clock" is a time of day alone, and "words" are booleans. Times are years: 2020.5 is the middle of 2020.
"""

from __future__ import annotations

import datetime
import math
import re
import zoneinfo
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ..rules import Rule, one_of
from .cells import ABSENT, FEW_ODD, FEWEST_ROWS, MISSING, is_missing, listed, number_of

STYLES = {
    ".": "numbers",
    ",": "numbers with a decimal comma",
    "words": "booleans in words",
    "ymd": "dates",
    "dmy": "dates (day, month, year)",
    "mdy": "dates (month, day, year)",
    "clock": "times of day",
}
WORDS = dict.fromkeys(("yes", "true", "y", "t", "on"), 1.0) | dict.fromkeys(("no", "false", "n", "f", "off"), 0.0)
YEAR = 365.2425  # This is the length of a year in days.
MICROSECONDS = 86400e6 * YEAR
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MOST_CODES = 100  # Whole numbers as text are a category up to this many different ones.
IDENTIFIER = 0.9  # With more distinct values per row than this, a category is taken for an identifier.
CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|HKD|SGD|SEK|NOK|DKK|PLN|CZK|HUF|RON|TRY|RUB|BRL|MXN|ZAR|KRW"
CURRENCY = re.compile(f"[A-Z]{{0,3}}[$€£¥₹₽₩₺₪₫฿₴]|{CODES}")
NUMBER = re.compile(
    rf"(?P<open>\()?\s*(?P<minus>[-+]?)\s*(?P<before>{CURRENCY.pattern})?\s*(?P<sign>[-+]?)\s*"
    r"(?P<digits>[.,]?\d(?:[\d.,'\s]*\d)?[.,]?)\s*"
    r"(?P<after>[^\d\s.,:/()'+-][^\d()]{0,14}?(?:(?<=m)[23])?)?\s*(?P<close>\))?"
)
MARKS = re.compile(r"[.,'\s]")  # These are marks of thousands.
DATE = re.compile(
    r"(?:(?P<year>\d{4})(?:(?P<by>[-/.])(?P<month>\d{1,2})(?P=by)(?P<day>\d{1,2})|-(?P<only>\d{2}))"
    r"|(?P<first>\d{1,2})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}|\d{2}))?"
    r"(?P<clock>(?:^|T|\s+)(?P<hours>\d{1,2}):(?P<minutes>\d{2})(?::(?P<seconds>\d{2}(?:[.,]\d+)?))?"
    r"\s*(?P<half>[AaPp][Mm])?\s*(?P<zone>Z|UTC|[-+]\d{2}(?::?\d{2})?)?)?"
)
# of numbers: codes with leading zeros, four digits or more without a mark of thousands, whole numbers
FORMS = {"code": re.compile(r"0\d+"), "long": re.compile(r"\D*\d{4,}\D*"), "whole": re.compile(r"[-+]?\d+")}
FORMS |= {pair: re.compile(pair, re.IGNORECASE) for pair in ("y|yes|n|no", "t|true|f|false", "on|off")}
Example = tuple[str, int]  # a text and the number of its row


def readings(text: str) -> dict[str, tuple[float, str]]:
    """Return the values of a text in all styles that can read it, with their units."""
    text = text.replace("\u2212", "-").replace("\u2019", "'")  # typographic minus and apostrophe
    if text.casefold() in WORDS:
        return {"words": (WORDS[text.casefold()], "")}
    found = {style: (number_of(text, style), "") for style in ".,"}
    number = NUMBER.fullmatch(text)
    signs = "" if number is None else f"{number['open'] or ''}{number['minus']}{number['sign']}"
    if number is not None and signs.startswith("(") == bool(number["close"]) and len(signs) <= 1:
        unit = " ".join(part.strip() for part in (number["before"], number["after"]) if part)
        factor = -1.0 if signs in ("(", "-") else 1.0
        unread = [style for style, (value, _) in found.items() if math.isnan(value)]
        found |= {style: (factor * _magnitude(number["digits"], style), unit) for style in unread}
    found = {style: reading for style, reading in found.items() if math.isfinite(reading[0])}
    date = None if found or not text else DATE.fullmatch(text)
    years = {} if date is None else {style: _year(date, parts) for style, parts in _orders(date).items()}
    return found | {style: (year, "") for style, year in years.items() if not math.isnan(year)}


def _magnitude(digits: str, decimal: str) -> float:
    """Return the value of digits in which marks may separate groups of three (thousands); NaN for other groups."""
    whole, _, rest = digits.partition(decimal)
    first, *others = MARKS.split(whole)
    marked = 0 < len(first) <= 3 and first[0] != "0" and all(len(part) == 3 for part in others)
    if (others and (not marked or len(set(MARKS.findall(whole))) > 1)) or not (rest.isdecimal() or not rest):
        return math.nan
    return float(f"{''.join([first, *others])}.{rest}") if first or rest else math.nan


def _orders(date: re.Match[str]) -> dict[str, tuple[int, int, int]]:
    """Return the year, month and day of a date in each order; dates with dots begin with the day."""
    if date["year"]:
        return {"ymd": (int(date["year"]), int(date["month"] or date["only"]), int(date["day"] or 1))}
    if not date["last"]:
        return {"clock": (1970, 1, 1)}
    first, second, year = int(date["first"]), int(date["second"]), int(date["last"])
    year += 0 if len(date["last"]) == 4 else 2000 if year < 69 else 1900  # as in POSIX
    found = {"dmy": (year, second, first), "mdy": (year, first, second)}
    return {"dmy": found["dmy"]} if date["mark"] == "." else found


def _year(date: re.Match[str], parts: tuple[int, int, int]) -> float:
    """Return a date as a year; NaN if there is no such date. Times with an offset are those of UTC."""
    hours, zone = int(date["hours"] or 0), (date["zone"] or "Z").replace("UTC", "Z")
    if date["half"]:
        hours = hours % 12 + 12 * (date["half"].lower() == "pm") if 1 <= hours <= 12 else 24
    clock = f"{hours:02}:{date['minutes'] or '00'}:{(date['seconds'] or '00').replace(',', '.')}{zone}"
    try:
        time = datetime.datetime.fromisoformat("{:04}-{:02}-{:02}T".format(*parts) + clock)
    except ValueError:
        return math.nan
    return 1970.0 + (time - EPOCH) // datetime.timedelta(microseconds=1) / MICROSECONDS


@dataclass(frozen=True)
class Format:
    """How the texts of a column are read."""

    style: Annotated[str, one_of(*STYLES)]
    unit: Annotated[str, Rule("text", lambda value: isinstance(value, str))] = ""

    @property
    def kind(self) -> str:
        """The kind of the column."""
        return "number" if self.style in (".", ",", "words") else "time"

    @property
    def words(self) -> str:
        return STYLES[self.style] + f" with the unit {self.unit!r}" * bool(self.unit)

    def read(self, text: str) -> float:
        """Return the value of a text; NaN if it is missing or cannot be read. Dates may also be ISO dates."""
        found = readings(text.strip())
        value, unit = found.get(self.style, found.get("ymd" if self.style in ("dmy", "mdy") else "", (math.nan, "")))
        return value if unit == self.unit or (not unit and CURRENCY.fullmatch(self.unit)) else math.nan


def is_absent(text: str) -> bool:
    """Return whether a text among numbers or times stands for a missing cell."""
    return text.strip() in MISSING or text.strip() in ABSENT


@dataclass
class Evidence:
    """Which styles can read the texts of a column, added batch by batch.

    The texts are grouped by the styles that can read them, by their units, and by their form: one of FORMS, "doubtful"
    (1,234 and 01/02/2020, whose values depend on the style), "point" (1.234), "absent" (NA) or "". Of each group, their
    number and the first text with its row are kept.
    """

    groups: dict[tuple[frozenset[str], str, str], tuple[int, Example]] = field(default_factory=dict)

    def add(self, texts: Iterable[tuple[str, int]]) -> Evidence:
        """Add distinct texts with the numbers of their rows."""
        for cell, row in texts:
            text = cell.strip()
            if text in MISSING:
                continue
            found = readings(text)
            forms = (name for name, pattern in FORMS.items() if pattern.fullmatch(text))
            form = "absent" if text in ABSENT else next(forms, "") if found else ""
            if len({value for value, _ in found.values()}) > 1:
                form = "doubtful" if "." not in found or "," in text else "point"
            key = frozenset(found), max((unit for _, unit in found.values()), default=""), form
            count, example = self.groups.get(key, (0, (text, row)))
            self.groups[key] = count + 1, example
        return self

    def settle(self, rows: int, distinct: float) -> tuple[Format | None, str, bool]:
        """Return the format of a column, what is wrong with its texts, and whether a category would merge values.

        Without a format, the column is a category of text. This is the case for codes, which begin with 0, and for few
        different whole numbers, such as `astype(str)` makes of codes. As a category, other numbers would lose their
        meaning.
        """
        groups = {key: group for key, group in self.groups.items() if key[2] != "absent"}
        reads = {style: sum(n for (styles, *_), (n, _) in groups.items() if style in styles) for style in STYLES}
        best, total = max(STYLES, key=lambda style: reads[style]), sum(n for n, _ in groups.values())
        own = {key: example for key, (_, example) in groups.items() if best in key[0]}
        others = [example for key, (_, example) in groups.items() if best not in key[0]]
        forms: set[str] = {form for *_, form in own}
        units = {unit: example for (_, unit, _), example in reversed(own.items())}  # with their first texts
        is_lost = distinct > MOST_CODES or (rows >= FEWEST_ROWS and distinct > IDENTIFIER * rows)
        readable = sum(n for (styles, *_), (n, _) in groups.items() if styles)
        is_text = readable < max((1.0 - FEW_ODD) * total, 1) or len(units) > max(3, FEW_ODD * total)
        are_whole = forms <= {"whole", "long"} and units.keys() <= {""} and not is_lost
        # Booleans are a category, unless one pair of words is spelled in several ways.
        is_category = distinct <= 2 or len(forms) > 1 or len(groups) < len(self.groups)
        are_values = is_category if best == "words" else are_whole and best == "."
        if is_text or "code" in forms or (are_values and not others):
            return None, "", False
        form = "doubtful" if best == "dmy" or "long" in forms else "point"  # the form that the other cells leave open
        doubtful = [example for key, example in own.items() if key[2] == form]
        is_tied = any(reads[style] == reads[best] for style in STYLES if style != best)
        if doubtful and is_tied and (best == "dmy" or len(forms) > 1):
            mark = f"a decimal {'point' if form == 'point' else 'comma'} or a mark of thousands"
            what = "the day or the month first" if best == "dmy" else mark
            return None, f"contains {_shown(doubtful[0])}, which may have {what}", True
        if others:
            return None, f"contains {STYLES[best]} and {_shown(others[0])}", is_lost
        unit = max(units)
        if len(units) > 2 or (len(units) == 2 and not ("" in units and CURRENCY.fullmatch(unit))):
            first, second, *_ = sorted(units.values(), key=lambda example: example[1])
            return None, f"contains numbers with different units, {_shown(first)} and {_shown(second)}", is_lost
        return Format(best, unit), "", False


def _shown(example: Example) -> str:
    return f"{example[0]!r} in row {example[1]}"


def years_of(cells: Any) -> np.ndarray:
    """Return a column of dates as years, NaN for missing ones; times with a time zone are those of UTC."""
    if str(getattr(cells, "dtype", "")).endswith(("object", "[pyarrow]")):
        cells = [None if is_missing(cell) else cell for cell in listed(cells)]
        cells = [c.astimezone(datetime.UTC).replace(tzinfo=None) if getattr(c, "tzinfo", None) else c for c in cells]
    values = np.asarray(cells, dtype="datetime64[us]")
    return np.where(np.isnat(values), math.nan, 1970.0 + values.astype(np.int64) / MICROSECONDS)


def zone_of(cells: Any) -> str:
    """Return the name of the time zone of a column; empty for UTC and for times without a zone."""
    kind = cells.dtype if hasattr(cells, "dtype") else cells.type
    kind = getattr(kind, "pyarrow_dtype", kind)  # of pandas
    name = str(getattr(kind, "tz", None) or getattr(kind, "time_zone", None) or "")
    try:
        return name if name and zoneinfo.ZoneInfo(name) else ""
    except (ValueError, zoneinfo.ZoneInfoNotFoundError):  # an offset such as +02:00
        return ""


def local(years: np.ndarray, zone: str) -> np.ndarray:
    """Convert times in UTC to the local time of a time zone."""
    if not zone:
        return years
    hours, places = np.unique(np.floor((years - 1970.0) * 24.0 * YEAR + 1e-6), return_inverse=True)
    own = zoneinfo.ZoneInfo(zone)  # whose offset is the same within an hour
    times = [EPOCH + datetime.timedelta(hours=hour) for hour in np.nan_to_num(hours).tolist()]
    offsets = [own.utcoffset(time.astimezone(own)) or datetime.timedelta() for time in times]
    return years + np.array([offset.total_seconds() for offset in offsets])[places] / (86400.0 * YEAR)


# Periodic inputs ------------------------------------------------------------------------------------------------------
CYCLES = {"time of year": YEAR, "weekday": 7.0, "hour": 1.0}  # These are the periods in days.


def cycles_of(years: np.ndarray) -> tuple[str, ...]:
    """Return the cycles that can be seen in some times: they span more than a period and show at least three phases.

    Two times must be closer than half a period: the weekday of the first of each month means nothing.
    """
    days = np.unique(years) * YEAR
    closest = np.min(np.diff(days), initial=math.inf)
    fine = [cycle for cycle, period in CYCLES.items() if closest <= 0.5 * period < period < np.ptp(days)]
    return tuple(cycle for cycle in fine if len(np.unique(np.round(days / CYCLES[cycle], 3) % 1.0)) >= 3)


def waves(years: np.ndarray, cycle: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the sine and the cosine of the phase of a cycle."""
    phase = 2.0 * math.pi * ((years - 1970.0) * YEAR / CYCLES[cycle] % 1.0)
    return np.sin(phase), np.cos(phase)
