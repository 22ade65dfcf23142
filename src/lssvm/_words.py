"""Counts in messages."""


def counted(count: int, singular: str, plural: str = "") -> str:
    """A number and a noun, with or without a verb: "1 row", "2 rows"; "1 row is", "2 rows are"."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
