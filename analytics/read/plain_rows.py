"""Bytes of whole batches -> rows, with the one definition of batch and record.

A record becomes a row, and so does everything that is no record: the row of a problem has its kind
in `problem` and no type. A value that cannot be decoded gives both, so that no offset is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from analytics.read.batch_walk import Problem
from analytics.read.layout import Split
from jbodlab.metadata.records import control_records, frame
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import TOPIC_RESOURCE, ConfigRecord, ProducerIdsRecord
from jbodlab.metadata.records.json_text import data_text
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import RawRecord, Record
from jbodlab.metadata.records.secrets import redacted_text
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.record_batch.record_batch import BatchHeader, BatchRecord, iterate_records
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import TopicId

MAX_LONG = 2**63 - 1

_LEADER_CHANGE = control_records.LeaderChangeMessage.CONTROL_TYPE
"""The only control record that has a version 1."""

MIN_TIMESTAMP_MS = -62_135_596_800_000
MAX_TIMESTAMP_MS = 253_402_300_799_999
"""The years 1 to 9999, which Spark's timestamps can hold."""


class SourceRow(NamedTuple):
    """One row of the data source; times are microseconds since 1970."""

    file: str | None = None
    position: int | None = None
    snapshot: bool = False
    offset: int | None = None
    timestamp: int | None = None
    epoch: int | None = None
    batch_base_offset: int | None = None
    batch_last_offset: int | None = None
    replay_offset: int | None = None
    replay_time: int | None = None
    control: bool | None = None
    type: str | None = None
    version: int | None = None
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    broker: int | None = None
    payload: str | None = None
    value: bytes | None = None
    problem: str | None = None
    message: str | None = None
    source: str | None = None
    """Directory that the file lies in."""
    cluster: str | None = None
    """Label of the cluster."""

    @property
    def replay_position(self) -> int | None:
        """Order of the replay: a snapshot comes behind what it holds, before what follows."""
        if self.replay_offset is None:
            return None
        return 2 * self.replay_offset + (not self.snapshot)


class Keys(NamedTuple):
    """Keys of a record, as far as it names them."""

    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    broker: int | None = None


def problem_row(
    problem: Problem, source: str | None = None, cluster: str | None = None
) -> SourceRow:
    """Return the row of a problem that was found without decoding anything."""
    return _EMPTY._replace(
        source=source,
        cluster=cluster,
        file=problem.file,
        position=problem.position,
        offset=problem.offset,
        problem=problem.kind,
        message=problem.message,
    )


def keys_of(record: Record) -> Keys:
    """Return topic, partition and broker that a record names."""
    match record:
        case PartitionRecord() | PartitionChangeRecord():
            return Keys(topic_id=_text(record.topic_id), partition=record.partition_id)
        case TopicRecord():
            return Keys(topic=record.name, topic_id=_text(record.topic_id))
        case RemoveTopicRecord():
            return Keys(topic_id=_text(record.topic_id))
        case ClearElrRecord():
            return Keys(topic=record.topic_name)
        case ConfigRecord():
            is_topic = record.resource_type == TOPIC_RESOURCE
            return Keys(topic=record.resource_name if is_topic else None)
        case (
            RegisterBrokerRecord()
            | BrokerRegistrationChangeRecord()
            | UnregisterBrokerRecord()
            | ProducerIdsRecord()
        ):
            return Keys(broker=record.broker_id)
        case FenceBrokerRecord() | UnfenceBrokerRecord():
            return Keys(broker=record.id)
        case _:
            return _NO_KEYS


def decode_batch(
    data: bytes, position: int, header: BatchHeader, split: Split
) -> Iterator[SourceRow]:
    """Yield the rows of one batch whose CRC is right."""
    try:
        records = list(iterate_records(data, position, header))
        if any(not 0 <= record.offset <= MAX_LONG for record in records):
            raise DecodeError(f"batch at offset {header.base_offset} has impossible offsets")
    except DecodeError as error:
        yield problem_at(split, position, header.base_offset, "undecodable", str(error))
        return
    for record in records:
        yield from decode_record(record, position, header, split)


def decode_record(
    record: BatchRecord, position: int, header: BatchHeader, split: Split
) -> Iterator[SourceRow]:
    """Yield the row of one record, and that of a problem if it cannot be decoded.

    A record of a type or version that nobody knows has no payload, and its type is `UNKNOWN(n)`.
    """
    snapshot = split.snapshot
    own_time = microseconds(record.timestamp)
    row = _EMPTY._replace(
        file=split.file,
        position=split.start + position,
        snapshot=snapshot is not None,
        offset=record.offset,
        timestamp=own_time,
        epoch=header.partition_leader_epoch,
        batch_base_offset=header.base_offset,
        batch_last_offset=header.last_offset,
        replay_offset=record.offset if snapshot is None else snapshot.end_offset,
        replay_time=own_time if snapshot is None else microseconds(snapshot.timestamp_ms),
        control=header.is_control,
        value=record.value,
        source=split.source,
        cluster=split.cluster,
    )
    try:
        decoded = (_control_row if header.is_control else _data_row)(row, record)
    except DecodeError as error:
        yield row
        yield problem_at(split, position, record.offset, "undecodable", str(error))
        return
    yield decoded


def crc_problem(split: Split, position: int, base_offset: int) -> SourceRow:
    """Return the row of a batch whose CRC is wrong."""
    text = f"CRC of the batch at offset {base_offset} is wrong"
    return problem_at(split, position, base_offset, "crc", text)


def _data_row(row: SourceRow, record: BatchRecord) -> SourceRow:
    try:
        versioned = frame.decode(record.value)
    except DecodeError:
        api_key, version = frame.type_and_version(record.value or b"")
        if version <= RECORD_TYPES[api_key].HIGHEST_VERSION:
            raise
        return row._replace(type=unknown_type(api_key), version=version)
    if isinstance(versioned.record, RawRecord):
        return row._replace(
            type=unknown_type(versioned.record.api_key), version=versioned.record.version
        )
    topic, topic_id, partition, broker = keys_of(versioned.record)
    return row._replace(
        type=versioned.record.NAME,
        version=versioned.version,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        broker=broker,
        payload=redacted_text(versioned),
    )


def _control_row(row: SourceRow, record: BatchRecord) -> SourceRow:
    try:
        control = control_records.decode_control(record.key, record.value)
    except DecodeError:
        number = control_records.control_type(record.key)
        version = int.from_bytes((record.value or b"")[:2], "big", signed=True)
        if number in control_records.CONTROL_TYPES and version <= (number == _LEADER_CHANGE):
            raise
        return row._replace(type=unknown_type(number), version=version)
    version = control_records.body_version(control)
    return row._replace(type=control.NAME, version=version, payload=data_text(control, version))


def unknown_type(number: int) -> str:
    """Return the type of a record whose type, or whose version, is not known."""
    return f"UNKNOWN({number})"


def problem_at(
    split: Split, position: int, offset: int | None, kind: str, message: str
) -> SourceRow:
    """Return the row of a problem at a position of a split's bytes."""
    return _EMPTY._replace(
        source=split.source,
        cluster=split.cluster,
        file=split.file,
        position=split.start + position,
        snapshot=split.snapshot is not None,
        offset=offset,
        problem=kind,
        message=message,
    )


def _text(topic_id: TopicId) -> str:
    return kafka_uuid.to_text(topic_id)


def microseconds(timestamp_ms: int) -> int | None:
    """Return microseconds since 1970 as Spark's timestamps count, None if these cannot hold it."""
    if MIN_TIMESTAMP_MS <= timestamp_ms <= MAX_TIMESTAMP_MS:
        return timestamp_ms * 1000
    return None


_NO_KEYS = Keys()
_EMPTY = SourceRow()
