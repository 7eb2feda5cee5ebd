"""Bases of the records of the metadata log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jbodlab.kafka_wire.schema import Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Struct):
    """Base of what stands in the data batches of the metadata log."""

    API_KEY: ClassVar[int] = -1
    NAME: ClassVar[str] = ""
    HIGHEST_VERSION: ClassVar[int] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord(Record):
    """The bytes of a record of an unknown type; a replay must stop at it."""

    NAME: ClassVar[str] = "UNKNOWN"

    api_key: int
    version: int
    body: bytes
