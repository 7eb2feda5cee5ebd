"""Bytes to kio entities: kio's native decoder, and ours for what kio does not read.

The protocol allows a new tagged field without a new version, and a reader has to skip it; kio
raises `KeyError` there. A transaction that has not begun has the start time -1, which kio
refuses. The generated decoder gives the same values, some times slower, and is asked only then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from jbodlab.kafka_wire.codec import decoder
from jbodlab.kafka_wire.kio_import import OutOfBoundValue, SerialError, entity_reader
from jbodlab.kafka_wire.layout import EntityClass
from jbodlab.kafka_wire.message_bounds import ANY_NUMBER, bounds_check
from jbodlab.vocabulary.errors import DecodeError

EntityReader = Callable[[bytes | memoryview, int], tuple[Any, int]]
"""(message, position) -> (entity, position after it); raises DecodeError and nothing else."""

CAUGHT = (SerialError, ValueError, struct.error, IndexError, OverflowError, TypeError)
"""Errors of kio's decoder and of ours for bytes that do not follow the schema."""


def reader(entity_class: EntityClass, max_items: int = ANY_NUMBER) -> EntityReader:
    """Return the reader of a kio entity class.

    The reader wants bytes or a read-only memoryview, and does not mind bytes after the entity. It
    refuses one whose arrays have more than `max_items` items together before it decodes it.
    """
    native = entity_reader(entity_class)
    check = bounds_check(entity_class, max_items)

    def read(data: bytes | memoryview, position: int) -> tuple[Any, int]:
        check(data, position)
        try:
            try:
                entity, size = native(data, position)
            except (KeyError, OutOfBoundValue):
                return decoder(entity_class)(bytes(data), position)
        except CAUGHT as error:
            raise DecodeError(f"cannot decode {entity_class.__name__}: {error}") from error
        return entity, position + size

    return read
