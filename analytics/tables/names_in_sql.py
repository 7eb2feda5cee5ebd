"""Names of tables as they stand in a question: in braces."""

from __future__ import annotations

import string


def names_in(sql: str) -> tuple[str, ...]:
    """Return the names in braces, in the order of their first use."""
    fields = (field for _, field, _, _ in string.Formatter().parse(sql) if field)
    return tuple(dict.fromkeys(fields))
