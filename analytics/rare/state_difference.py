"""How two states of one thing differ, in words: what a row of the problems says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from uuid import UUID

from jbodlab.vocabulary import kafka_uuid

NOT_THERE = "not there"
_TAGS = "unknown_tags"


def disagreement(what: str, replayed: object, in_snapshot: object) -> str:
    """Return a sentence about a state that log and snapshot tell differently."""
    if replayed is None or in_snapshot is None:
        log, snapshot = (NOT_THERE if each is None else "there" for each in (replayed, in_snapshot))
        return f"{what} is {log}, in the snapshot {snapshot}"
    found = [
        f"{name} {value_text(mine)}, in the snapshot {value_text(other)}"
        for name in _compared(replayed)
        if (mine := getattr(replayed, name)) != (other := getattr(in_snapshot, name))
    ]
    return f"{what} has {'; '.join(found)}"


def value_text(value: object) -> str:
    """Return a value as logs and tools write it: ids in Kafka's text form."""
    match value:
        case UUID():
            return kafka_uuid.to_text(value)
        case tuple():
            return f"[{', '.join(map(value_text, value))}]"
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case _ if _compared(value):
            shown = ((name, getattr(value, name)) for name in _compared(value))
            held = [f"{name}={value_text(own)}" for name, own in shown if own or name != _TAGS]
            return f"({' '.join(held)})"
        case _:
            return str(value)


def _compared(state: object) -> Sequence[str]:
    """Return the names of the fields that make two states differ; empty for another value."""
    if is_dataclass(state):
        return [each.name for each in fields(state) if each.compare]
    return getattr(state, "__struct_fields__", ())
