"""Records of control batches: leader changes, and the frame of a snapshot.

The key of such a record is int16 version 0 and int16 type; the value is the body alone, without
the envelope of data records, and begins with its own version.

Source: `org.apache.kafka.common.record.ControlRecordType`, KIP-595, KIP-630, KIP-853.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar
from uuid import UUID

from jbodlab.kafka_wire.codec import decode_body, encode_body
from jbodlab.kafka_wire.kinds import Int16, Int32, Int64, UInt16
from jbodlab.kafka_wire.schema import Struct, field
from jbodlab.vocabulary.errors import DecodeError

_KEY = struct.Struct(">hh")
_END_TRANSACTION = struct.Struct(">hi")

END_TRANSACTION_TYPES: Mapping[int, str] = MappingProxyType({0: "ABORT", 1: "COMMIT"})
"""Control types that end a producer's transaction; topics have them, the metadata log never."""


class ControlRecord(Struct):
    """Base of the records in control batches of the metadata log."""

    CONTROL_TYPE: ClassVar[int] = -1
    NAME: ClassVar[str] = ""


class Voter(Struct):
    """One member of the controller quorum."""

    voter_id: Int32 = field("node id of the voter")
    voter_directory_id: UUID = field("id of the directory with its metadata log; KIP-853", since=1)


class LeaderChangeMessage(ControlRecord, control_type=2, name="LEADER_CHANGE"):
    """First record of every leader epoch."""

    version: Int16 = field("version of this message")
    leader_id: Int32 = field("node id of the leader")
    voters: tuple[Voter, ...] = field("voters of the quorum")
    granting_voters: tuple[Voter, ...] = field("voters that the leader was elected by")


class SnapshotHeaderRecord(ControlRecord, control_type=3, name="SNAPSHOT_HEADER"):
    """First record of a snapshot; the time is 0 in bootstrap files."""

    version: Int16 = field("version of this message")
    last_contained_log_timestamp: Int64 = field(
        "time of the last batch, ms since 1970; 0 in bootstrap files"
    )


class SnapshotFooterRecord(ControlRecord, control_type=4, name="SNAPSHOT_FOOTER"):
    """Last record of a snapshot; a file without it is incomplete."""

    version: Int16 = field("version of this message")


class KRaftVersionRecord(ControlRecord, control_type=5, name="KRAFT_VERSION"):
    """Level of the feature kraft.version."""

    version: Int16 = field("version of this message")
    k_raft_version: Int16 = field("level of kraft.version")


class KRaftVoterEndpoint(Struct):
    """One address of a voter."""

    name: str = field("name of the listener")
    host: str = field("host name of the listener")
    port: UInt16 = field("port of the listener")


class KRaftVersionFeature(Struct):
    """Levels of kraft.version that a voter supports."""

    min_supported_version: Int16 = field("lowest level that the voter supports")
    max_supported_version: Int16 = field("highest level that the voter supports")


class KRaftVoter(Struct):
    """One voter with everything needed to reach it."""

    voter_id: Int32 = field("node id of the voter")
    voter_directory_id: UUID = field("id of the directory with its metadata log")
    endpoints: tuple[KRaftVoterEndpoint, ...] = field(
        "listeners that other voters and observers reach it at"
    )
    k_raft_version_feature: KRaftVersionFeature = field("levels of kraft.version that it supports")


class KRaftVotersRecord(ControlRecord, control_type=6, name="KRAFT_VOTERS"):
    """The whole voter set, with kraft.version 1."""

    version: Int16 = field("version of this message")
    voters: tuple[KRaftVoter, ...] = field("all voters")


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


def decode_known_control(key: bytes | None, value: bytes | None) -> ControlRecord | None:
    """Return the control record that key and value hold; None for one of a later release of Kafka.

    Raises:
        DecodeError: as for `decode_control`, but for an unknown type.
    """
    number = control_type(key)
    if number not in CONTROL_TYPES and number not in END_TRANSACTION_TYPES:
        return None
    return decode_control(key, value)


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
