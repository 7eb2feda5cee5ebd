"""Reads the figures out of a page, as whoever checks one would: by its attributes only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br"}


@dataclass(slots=True)
class ReadCell:
    column: str
    value: str | None
    text: str = ""
    exact: bool = False
    """Whether the value was given apart from the text."""


@dataclass(slots=True)
class ReadFigure:
    tables: list[str]
    query: str
    rows: list[list[ReadCell]] = field(default_factory=list)


class PageReader(HTMLParser):
    """Collects figures, the tags that are seen, and everything that is not well formed."""

    def __init__(self) -> None:
        super().__init__()
        self.figures: list[ReadFigure] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.faults: list[str] = []
        self._open: list[str] = []
        self._cell: ReadCell | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if len(given) != len(attrs):
            self.faults.append(f"{tag} has an attribute twice")
        self.tags.append((tag, given))
        if tag in VOID:
            return
        self._open.append(tag)
        if "data-query" in given or "data-figure" in given:
            tables = (given.get("data-table") or "").split()
            self.figures.append(ReadFigure(tables, given.get("data-query") or ""))
        if "data-row" in given:
            self.figures[-1].rows.append([])
        if "data-column" in given:
            cell = ReadCell(given["data-column"] or "", given.get("data-value"))
            cell.exact = "data-value" in given or "data-null" in given
            self.figures[-1].rows[-1].append(cell)
            self._cell = cell

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else")
        self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.text += data
            if not self._cell.exact:
                self._cell.value = self._cell.text


def read_page(page: str) -> PageReader:
    reader = PageReader()
    reader.feed(page)
    reader.close()
    if reader._open:
        reader.faults.append(f"{reader._open} are never closed")
    return reader


def values(rows: Iterable[Iterable[ReadCell]]) -> list[list[str | None]]:
    return [[cell.value for cell in row] for row in rows]
