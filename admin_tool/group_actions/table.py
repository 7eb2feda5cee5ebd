"""Tables as Kafka's group tool prints them: each row on a line of its own, below an empty one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; `grows` makes it as wide as its widest value."""

    title: str
    width: int = 15
    grows: bool = False


def lines(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the head and the rows; the last column is as wide as each of its values."""
    texts = [[MISSING if value is None else str(value) for value in row] for row in rows]
    widths = [
        max([column.width, *(len(row[index]) for row in texts)]) if column.grows else column.width
        for index, column in enumerate(columns)
    ]
    widths[-1] = 0
    head = [column.title for column in columns]
    return [
        " ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *texts)
    ]
