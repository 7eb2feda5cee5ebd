"""Topics with anything rare in their story: record by record, with the definition itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import numpy as np

from analytics.rare.key_history import Event, Moment, Sync, advance
from analytics.rare.states import (
    ENDS,
    INT_LISTS,
    NUMBERS,
    STILL,
    TYPES,
    States,
    Topic,
    Topics,
)
from analytics.rare.topic_records import Change, PartitionState, TopicFold
from analytics.read.arrays import Column
from analytics.read.lists import intern, of_id_lists, of_lists
from analytics.read.partition_events import NO_TIME, PartitionEvents
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, PartitionRecord
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch

_TYPE_NAMES = {record.API_KEY: record.NAME for record in (PartitionRecord, PartitionChangeRecord)}


def follow_topic(
    fold: TopicFold, before: States, events: Iterable[Event], syncs: Sequence[Sync], topics: Topics
) -> States:
    """Follow the partitions of one topic.

    Args:
        fold: The topic as it was; it gets the partitions, and has the problems afterwards.
        before: Their states.
        events: The topic's own records and those of its partitions, in order.
        syncs: Snapshots that are met.
        topics: The topics that have a number.

    Returns:
        The states, those before included, by partition and moment.
    """
    known = list(registrations(before))
    fold.begin(fold.name, fold.created, known)
    starts = {index: state.since for index, state in known}
    advance(fold, events, syncs)
    fold.finish()
    topic_id = kafka_uuid.parse(fold.topic_id).bytes
    order = sorted(range(len(fold.changes)), key=lambda i: (fold.changes[i].partition, i))
    return _states([fold.changes[i] for i in order], starts, topic_id, topics)


def partition_events(events: PartitionEvents, rows: Column, topic_id: str) -> list[Event]:
    """Return some events as objects."""
    found = []
    for row in rows.tolist():
        value = events.data[events.starts[row] : events.ends[row]].tobytes()
        time = int(events.time[row])
        found.append(
            Event(
                key=topic_id,
                replay_offset=int(events.replay_offset[row]),
                snapshot=bool(events.snapshot[row]),
                offset=int(events.offset[row]),
                time=None if time == NO_TIME else time,
                batch_base_offset=int(events.base[row]),
                batch_last_offset=int(events.last[row]),
                file=events.files[events.file[row]],
                type=_type_name(value),
                value=value,
            )
        )
    return found


def _type_name(value: bytes) -> str:
    # The frame: its version, then the type, each an unsigned varint.
    if value[1] < 0x80:
        return _TYPE_NAMES.get(value[1], "")
    return _TYPE_NAMES.get(value[1] & 0x7F | value[2] << 7, "")


def registrations(states: States) -> Iterator[tuple[int, PartitionState]]:
    """Yield the partition and the state of each row, as objects."""
    rows = np.arange(len(states))
    lists = {
        name: [tuple(map(BrokerId, one)) for one in states.list_of(name, rows).to_lists()]
        for name in INT_LISTS
    }
    directories = [
        tuple(DirectoryId(UUID(bytes=bytes(one))) for one in ids)
        for ids in states.list_of("directories", rows).to_lists()
    ]
    columns = {name: states[name].tolist() for name in NUMBERS}
    for row in range(len(states)):
        one = {name: column[row] for name, column in columns.items()}
        state = PartitionRegistration(
            replicas=lists["replicas"][row],
            directories=directories[row],
            isr=lists["isr"][row],
            removing_replicas=lists["removing_replicas"][row],
            adding_replicas=lists["adding_replicas"][row],
            leader=BrokerId(one["leader"]),
            leader_recovery_state=one["leader_recovery_state"],
            leader_epoch=LeaderEpoch(one["leader_epoch"]),
            partition_epoch=PartitionEpoch(one["partition_epoch"]),
            elr=lists["elr"][row],
            last_known_elr=lists["last_known_elr"][row],
        )
        time = None if one["from_time"] == NO_TIME else one["from_time"]
        since = Moment(one["from_offset"], time, TYPES[one["from_type"]], one["base"], one["last"])
        yield one["partition"], PartitionState(state, since)


def _states(
    changes: Sequence[Change], starts: dict[int, Moment], topic_id: bytes, topics: Topics
) -> States:
    rows = []
    for change in changes:
        state, since, until = change.state, change.since, change.until
        rows.append(
            (
                topics.number(Topic(change.topic, topic_id)),
                change.partition,
                state.leader,
                state.leader_epoch,
                state.partition_epoch,
                state.leader_recovery_state,
                since.offset,
                _time(since.time),
                TYPES.index(since.record_type),
                since.batch_base_offset,
                since.batch_last_offset,
                STILL if until is None else until.offset,
                STILL if until is None else _time(until.time),
                ENDS.index(change.ended),
                starts.get(change.partition) is since,
            )
        )
    numbers = {
        name: np.array(values, dtype=kind)
        for (name, kind), values in zip(
            NUMBERS.items(), zip(*rows, strict=True) if rows else [()] * len(NUMBERS), strict=True
        )
    }
    registrations = [change.state for change in changes]
    lists = {
        name: intern(of_lists([getattr(state, name) for state in registrations]))
        for name in INT_LISTS
    }
    lists["directories"] = intern(
        of_id_lists([[one.bytes for one in state.directories] for state in registrations])
    )
    return States(numbers, lists)


def _time(time: int | None) -> int:
    return NO_TIME if time is None else time
