"""Behaviour of commands and faults on Apache Kafka's brokers: its one declaration, `on_kafka.tsv`.

Commands that refuse or differ say so with these sentences; `docs/your-kafka.md` shows them all. A
paragraph of the file begins with what its rows are about: by command, or by command and verb where
verbs differ, and by kind of fault.
"""

from __future__ import annotations

import enum
import pkgutil
from collections.abc import Mapping
from typing import NamedTuple


class How(enum.Enum):
    """How far a command or a fault works on Apache Kafka's brokers."""

    WORKS = "works"
    DIFFERS = "works differently"
    REFUSED = "refused"


class OnKafka(NamedTuple):
    """The behaviour of a command or a fault there.

    Attributes:
        text: The difference, or why it is refused; empty where it works as on our own brokers.
    """

    how: How
    text: str = ""


def _read() -> dict[str, Mapping[str, OnKafka]]:
    data = pkgutil.get_data(__package__, "on_kafka.tsv")
    assert data is not None
    found: dict[str, Mapping[str, OnKafka]] = {}
    for paragraph in data.decode().strip().split("\n\n"):
        title, *lines = paragraph.split("\n")
        rows = (line.split("\t") for line in lines)
        found[title] = {name: OnKafka(How(how), *text) for name, how, *text in rows}
    return found


COMMANDS, FAULTS = _read().values()
