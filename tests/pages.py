"""Reading a report: tags, text and tables of an HTML page."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Reader(HTMLParser):
    """Tags in order, text by section and table cells; unbalanced tags are an error."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.rows, self.text = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)
            if {"td", "th"} & set(self.open):
                self.rows[-1][-1] += data


def cells(reader, first):
    """The row of a table that starts with this cell."""
    return next(row for row in reader.rows if row and row[0] == first)


def section(page, name):
    """The source of a section."""
    return re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL).group()
