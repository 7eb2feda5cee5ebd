"""ReviveLogDir: brings a repaired log directory of a running broker back online.

An API of this project beside Kafka's, under a key far above Kafka's own. Version 0, flexible:

    request   path                compact string    as in `log.dirs`
    response  throttle_time_ms    int32
              error_code          int16
              error_message       compact nullable string
              directory_id        uuid              of the directory that is online now; zero: none
              replicas            int32             that came back with it

The classes are made as those of the library kio, so that the same codecs read and write them.
"""

import datetime
import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from jbodlab.kafka_wire.kio_import import EntityType, ErrorCode

API_KEY = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviveLogDirRequest:
    """Names the directory by its path."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = API_KEY
    path: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviveLogDirResponse:
    """Says whether the directory is online, or why it stays offline."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[int] = API_KEY
    throttle_time: datetime.timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    directory_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    replicas: int = field(metadata={"kafka_type": "int32"})
