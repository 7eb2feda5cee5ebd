"""Bases of the records of the metadata log."""

import re
from typing import ClassVar

from jbodlab.kafka_wire.schema import Struct


class Record(Struct):
    """Base of the records in data batches of the metadata log."""

    API_KEY: ClassVar[int] = -1
    NAME: ClassVar[str] = ""
    """Name in the output of Kafka's dump tool: PARTITION_RECORD of PartitionRecord."""
    HIGHEST_VERSION: ClassVar[int] = 0

    def __init_subclass__(cls, **constants: int | str) -> None:
        """Name the record."""
        if "NAME" not in vars(cls):
            cls.NAME = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()


class RawRecord(Record, name="UNKNOWN"):
    """The bytes of a record of an unknown type; a replay must stop at it."""

    api_key: int = -1
    version: int = 0
    body: bytes = b""
