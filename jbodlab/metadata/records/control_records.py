"""Records of control batches: leader changes, and the frame of a snapshot.

The key of such a record is int16 version 0 and int16 type; the value is the body alone, without
the envelope of data records, and begins with its own version.

Source: `org.apache.kafka.common.record.ControlRecordType`, KIP-595, KIP-630, KIP-853.
"""

# wire() returns a dataclasses.field, so no value is shared between records.
# ruff: noqa: RUF009

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar
from uuid import UUID

from jbodlab.kafka_wire.codec import decode_body, encode_body
from jbodlab.kafka_wire.kinds import (
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID_KIND,
    array,
    struct_of,
)
from jbodlab.kafka_wire.schema import Struct, wire
from jbodlab.vocabulary.errors import DecodeError

_KEY = struct.Struct(">hh")
_END_TRANSACTION = struct.Struct(">hi")

END_TRANSACTION_TYPES: Mapping[int, str] = MappingProxyType({0: "ABORT", 1: "COMMIT"})
"""Control types that end a producer's transaction; topics have them, the metadata log never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord(Struct):
    """Base of what stands in the control batches of the metadata log."""

    CONTROL_TYPE: ClassVar[int] = -1
    NAME: ClassVar[str] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter(Struct):
    """One member of the controller quorum."""

    voter_id: int = wire(INT32)
    voter_directory_id: UUID = wire(UUID_KIND, since=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChangeMessage(ControlRecord):
    """First record of every leader epoch."""

    CONTROL_TYPE: ClassVar[int] = 2
    NAME: ClassVar[str] = "LEADER_CHANGE"

    version: int = wire(INT16)
    leader_id: int = wire(INT32)
    voters: tuple[Voter, ...] = wire(array(struct_of(Voter)))
    granting_voters: tuple[Voter, ...] = wire(array(struct_of(Voter)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeaderRecord(ControlRecord):
    """First record of a snapshot; the time is 0 in bootstrap files."""

    CONTROL_TYPE: ClassVar[int] = 3
    NAME: ClassVar[str] = "SNAPSHOT_HEADER"

    version: int = wire(INT16)
    last_contained_log_timestamp: int = wire(INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFooterRecord(ControlRecord):
    """Last record of a snapshot; a file without it is incomplete."""

    CONTROL_TYPE: ClassVar[int] = 4
    NAME: ClassVar[str] = "SNAPSHOT_FOOTER"

    version: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionRecord(ControlRecord):
    """Level of the feature kraft.version."""

    CONTROL_TYPE: ClassVar[int] = 5
    NAME: ClassVar[str] = "KRAFT_VERSION"

    version: int = wire(INT16)
    k_raft_version: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVoterEndpoint(Struct):
    """One address of a voter."""

    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionFeature(Struct):
    """Levels of kraft.version that a voter supports."""

    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVoter(Struct):
    """One voter with everything needed to reach it."""

    voter_id: int = wire(INT32)
    voter_directory_id: UUID = wire(UUID_KIND)
    endpoints: tuple[KRaftVoterEndpoint, ...] = wire(array(struct_of(KRaftVoterEndpoint)))
    k_raft_version_feature: KRaftVersionFeature = wire(struct_of(KRaftVersionFeature))


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVotersRecord(ControlRecord):
    """The whole voter set, with kraft.version 1."""

    CONTROL_TYPE: ClassVar[int] = 6
    NAME: ClassVar[str] = "KRAFT_VOTERS"

    version: int = wire(INT16)
    voters: tuple[KRaftVoter, ...] = wire(array(struct_of(KRaftVoter)))


CONTROL_TYPES: Mapping[int, type[ControlRecord]] = MappingProxyType(
    {
        cls.CONTROL_TYPE: cls
        for cls in (
            LeaderChangeMessage,
            SnapshotHeaderRecord,
            SnapshotFooterRecord,
            KRaftVersionRecord,
            KRaftVotersRecord,
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """The end of a producer's transaction in a partition."""

    name: str
    version: int
    coordinator_epoch: int


def encode_control(record: ControlRecord) -> tuple[bytes, bytes]:
    """Return key and value of a control record."""
    return _KEY.pack(0, record.CONTROL_TYPE), encode_body(record, body_version(record))


def control_type(key: bytes | None) -> int:
    """Return the type that the key of a control record names.

    Raises:
        DecodeError: the key is null, too short, or of a negative version.
    """
    if key is None or len(key) < _KEY.size:
        raise DecodeError(f"control record with key {key!r}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise DecodeError(f"unsupported control record key version {version}")
    return int(number)


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Return the control record that key and value hold.

    Raises:
        DecodeError: null or malformed key or value, bytes left over, or a type other than 2-6;
            the metadata log has no others.
    """
    number = control_type(key)
    cls = CONTROL_TYPES.get(number)
    if cls is None:
        raise DecodeError(f"unexpected control record of type {number} in the metadata log")
    if not value:
        raise DecodeError(f"{cls.NAME} has no value")
    version = 1 if cls is LeaderChangeMessage and value[:2] == b"\x00\x01" else 0
    record, end = decode_body(cls, version, value)
    if end != len(value):
        raise DecodeError(f"{len(value) - end} unexpected bytes after {cls.NAME}")
    return record


def decode_end_transaction(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """Return the marker that key and value hold.

    Value: int16 version, int32 epoch of the transaction coordinator, perhaps more in later
    versions. Source: `org.apache.kafka.common.record.EndTransactionMarker`.

    Raises:
        DecodeError: the type is another one, or the value is too short or of a negative version.
    """
    number = control_type(key)
    name = END_TRANSACTION_TYPES.get(number)
    if name is None:
        raise DecodeError(f"control record of type {number} is not a transaction marker")
    if value is None or len(value) < _END_TRANSACTION.size:
        raise DecodeError(f"{name} marker with value {value!r}")
    version, epoch = _END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise DecodeError(f"{name} marker with version {version}")
    return EndTransactionMarker(name=name, version=version, coordinator_epoch=epoch)


def body_version(record: ControlRecord) -> int:
    """Return the schema version of a body; only LeaderChange has a version 1."""
    return 1 if isinstance(record, LeaderChangeMessage) and record.version == 1 else 0
