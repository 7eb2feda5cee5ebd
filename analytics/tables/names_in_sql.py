"""The names of the tables that a query reads."""

from __future__ import annotations

import re
from functools import cache

_READ = re.compile(r"(?<!DISTINCT )\b(?:FROM|JOIN)\s+([a-z_]+)\b(?!\()")
_DEFINED = re.compile(r"(?:\bWITH|,)\s+([a-z_]+) AS \(")


@cache
def names_in(sql: str) -> tuple[str, ...]:
    """Return the names of the tables that a query reads, in the order of their first use.

    Keywords are in capitals and names are not; each table follows its own FROM or JOIN.
    DuckDB's parser says the same in two milliseconds, and a report asks sixty queries.
    """
    defined = set(_DEFINED.findall(sql))
    return tuple(dict.fromkeys(name for name in _READ.findall(sql) if name not in defined))
