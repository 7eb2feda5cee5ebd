"""A record whose type is not known: kept as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jbodlab.metadata.records.schema import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord(Record):
    """The bytes of a record of an unknown type; a replay must stop at it."""

    NAME: ClassVar[str] = "UNKNOWN"

    api_key: int
    version: int
    body: bytes
