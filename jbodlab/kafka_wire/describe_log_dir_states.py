"""DescribeLogDirStates: what DescribeLogDirs has no place for, such as directory ids.

An API of this project beside Kafka's, under a key far above Kafka's own. Version 0, flexible:

    request   (nothing)
    response  throttle_time_ms    int32
              error_code          int16
              log_dirs            array, one for each of `log.dirs`, in their order
                  path            compact string
                  directory_id    uuid                       zero: never known
                  state           compact string             ONLINE, OFFLINE, INITIAL or RECOVERING
                  conditions      array of compact strings   FULL, SLOW; empty: all is well
                  cause           compact nullable string    why it is offline

The classes are made as those of the library kio, so that the same codecs read and write them.
"""

import datetime
import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from jbodlab.kafka_wire.kio_import import EntityType, ErrorCode

API_KEY = 10_001


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirStatesRequest:
    """Asks for all directories."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = API_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirStateEntry:
    """One directory."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = API_KEY
    path: str = field(metadata={"kafka_type": "string"})
    directory_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    state: str = field(metadata={"kafka_type": "string"})
    conditions: tuple[str, ...] = field(metadata={"kafka_type": "string"})
    cause: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirStatesResponse:
    """One entry for each configured directory."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = API_KEY
    throttle_time: datetime.timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    log_dirs: tuple[LogDirStateEntry, ...]
