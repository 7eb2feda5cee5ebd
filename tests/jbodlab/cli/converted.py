"""The nouns whose modules have what the program needs of them."""

from __future__ import annotations

from jbodlab.cli.program import nouns

WAITING = {
    *("topics", "dirs", "reassign", "records", "groups", "configs", "offsets", "completion"),
}
CONVERTED = [name for name in nouns() if name not in WAITING]
