"""Which tables a table is made of, told by the texts of the files; and a picture of that."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from analytics.tables.catalog import BY_NAME
from analytics.tables.sql_files import sql_files

LOG = "log"
BROKER_LOGS = "broker logs"
ORIGINS = (LOG, BROKER_LOGS)
"""Sources of every table: a metadata log, and brokers' own logs."""

_WIDTH, _HEIGHT, _GAP, _MARGIN = 150, 22, 70, 10


@cache
def made_of(name: str) -> tuple[str, ...]:
    """Return the tables that a table or step reads, itself or by its steps, and ORIGINS."""
    files = sql_files()
    if name not in files:
        return (BROKER_LOGS if name == "given_broker_log_lines" else LOG,)
    found: set[str] = set()
    for each in files[name].needs:
        found.update({each} if each in BY_NAME else made_of(each))
    return tuple(sorted(found))


def nearest() -> Mapping[str, tuple[str, ...]]:
    """Return for each table those that it is made of, without those that they are made of."""
    above: dict[str, set[str]] = {}
    found = {}
    for name in BY_NAME:
        own = made_of(name)
        beyond = {one for each in own for one in above.get(each, ())}
        found[name] = tuple(each for each in own if each not in beyond)
        above[name] = beyond | set(own)
    return found


def picture() -> str:
    """Return the lineage of all tables as SVG, each column made of those to its left."""
    edges = nearest()
    depths = dict.fromkeys(ORIGINS, 0)
    for name, parents in edges.items():
        depths[name] = 1 + max(depths[each] for each in parents)
    places: dict[str, tuple[int, int]] = {}
    for depth in range(max(depths.values()) + 1):
        column = sorted(name for name in depths if depths[name] == depth)
        if depth > 1:  # beside what they are made of
            column.sort(
                key=lambda name: sum(places[each][1] for each in edges[name]) / len(edges[name])
            )
        for row, name in enumerate(column):
            places[name] = depth, row
    rows = 2 + max(row for _, row in places.values())
    places[BROKER_LOGS] = 0, rows - 1
    width = (depth + 1) * (_WIDTH + _GAP) - _GAP + 2 * _MARGIN
    height = rows * (_HEIGHT + _MARGIN) + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif" font-size="12">',
        "<title>Which tables a table is made of</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for name, parents in edges.items():
        lines += (_edge(_corner(places[each]), _corner(places[name])) for each in parents)
    lines += (_box(name, _corner(place)) for name, place in places.items())
    return "\n".join([*lines, "</svg>"]) + "\n"


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    depth, row = place
    return _MARGIN + depth * (_WIDTH + _GAP), _MARGIN + row * (_HEIGHT + _MARGIN)


def _edge(begin: tuple[int, int], end: tuple[int, int]) -> str:
    x, y = begin[0] + _WIDTH, begin[1] + _HEIGHT // 2
    to_x, to_y = end[0], end[1] + _HEIGHT // 2
    bend = f"C{x + _GAP // 2} {y} {to_x - _GAP // 2} {to_y}"
    return f'<path d="M{x} {y}{bend} {to_x} {to_y}" fill="none" stroke="#90a4ae"/>'


def _box(name: str, corner: tuple[int, int]) -> str:
    x, y = corner
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="#eceff1" '
        f'stroke="#607d8b"/><text x="{x + 6}" y="{y + 15}">{name}</text>'
    )
