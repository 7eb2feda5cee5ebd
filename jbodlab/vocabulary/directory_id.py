"""Reserved directory ids, and when a replica's directory counts as online.

The numbers are those of Kafka's code. The text of KIP-858 lists them in another order; a log that
followed the text would not be readable as Kafka's.

Source: `org.apache.kafka.common.DirectoryId`, KIP-858.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import DirectoryId

MIGRATING = DirectoryId(UUID(int=0))
"""Hosted somewhere on the broker, directory not known; also the wire default."""

UNASSIGNED = DirectoryId(UUID(int=1))
"""No directory chosen yet: a new replica on a broker with several directories."""

LOST = DirectoryId(UUID(int=2))
"""In some offline directory that cannot be named."""

RESERVED_BELOW = 100


def is_reserved(directory: DirectoryId) -> bool:
    """Return whether an id may never name a real directory.

    High 64 bits zero and low 64 bits below 100; the comparison is signed, so every id with a
    negative low half is reserved as well.
    """
    high, low = kafka_uuid.order_key(directory)
    return high == 0 and low < RESERVED_BELOW


def is_online(directory: DirectoryId, registered: Collection[DirectoryId]) -> bool:
    """Return whether a replica in this directory is usable, as controller and clients see it.

    Args:
        directory: The replica's directory as the metadata has it.
        registered: The broker's online directories; empty when it registered before directories
            were supported, and then every directory counts as online.
    """
    if directory in (MIGRATING, UNASSIGNED):
        return True
    if directory == LOST:
        return False
    return not registered or directory in registered


def random_directory_id(random_bytes: Callable[[int], bytes]) -> DirectoryId:
    """Draw an id for a real directory; a reserved one is never returned."""
    while True:
        directory = DirectoryId(kafka_uuid.random_uuid(random_bytes))
        if not is_reserved(directory):
            return directory
