from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from analytics.ask.partition import lost_replicas
from analytics.rare.broker_registration import BrokerFold
from analytics.rare.key_history import Event, Row, Sync, advance
from analytics.rare.min_insync import AssumedMinIsr, min_isr_in_force
from analytics.rare.topic_records import Change, TopicFold
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId
from tests.analytics.builders import partition_record, register, uid

TOPIC = uid(1)
D1, D2, D3 = uid(11), uid(12), uid(13)


def text(value: UUID) -> str:
    return kafka_uuid.to_text(value)


def event(key: str, offset: int, record: Record, *, snapshot_at: int | None = None) -> Event:
    return Event(
        key=key,
        replay_offset=offset if snapshot_at is None else snapshot_at,
        snapshot=snapshot_at is not None,
        offset=offset,
        time=offset * 1000,
        batch_base_offset=offset,
        batch_last_offset=offset,
        file="file",
        type=record.NAME,
        value=frame.encode(record, record.HIGHEST_VERSION),
    )


def folded(events: Sequence[Event], *syncs: int, base: int | None = None) -> list[Row]:
    met = tuple(
        Sync(offset=offset, time=offset * 1000, file="snapshot", is_base=offset == base)
        for offset in syncs
    )
    history: list[Row] = []
    topic, broker = TopicFold(text(TOPIC)), BrokerFold(1)
    for fold, prefix in ((topic, "t/"), (broker, "b/")):
        own = [event for event in events if event.key.startswith(prefix)]
        if own:
            advance(fold, own, met)  # type: ignore[arg-type]
            fold.finish()  # type: ignore[attr-defined]
            history += fold.history.rows  # type: ignore[attr-defined]
    return [*history, *map(row_of, topic.changes)]


def row_of(change: Change) -> Row:
    state, since, until = change.state, change.since, change.until
    columns: Row = {
        "topic": change.topic,
        "partition": change.partition,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "isr": state.isr,
        "eligible_leader_replicas": state.elr,
        "record_type": since.record_type,
        "valid_from_offset": since.offset,
        "valid_to_offset": None if until is None else until.offset,
        "ended": change.ended,
    }
    return {"kind": "partition", "partition": columns}


def columns(rows: list[Row], kind: str, *names: str) -> list[tuple[object, ...]]:
    found = [row[kind] for row in rows if row["kind"] == kind]
    return [tuple(row[name] for name in names) for row in found if isinstance(row, dict)]


def topic_events(*records: Record) -> list[Event]:
    return [event(f"t/{text(TOPIC)}/0", offset, record) for offset, record in enumerate(records)]


def broker_events(*records: Record) -> list[Event]:
    return [event("b/1", offset, record) for offset, record in enumerate(records)]


def change(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TopicId(TOPIC), **fields)  # type: ignore[arg-type]


def registration_change(**fields: object) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=BrokerId(1),
        broker_epoch=BrokerEpoch(0),
        **fields,  # type: ignore[arg-type]
    )


CREATED = (TopicRecord(name="orders", topic_id=TopicId(TOPIC)), partition_record(TOPIC))


def test_each_change_of_a_partition_ends_a_state_and_begins_the_next() -> None:
    rows = folded(topic_events(*CREATED, change(isr=(1, 2), leader=2)))

    assert columns(
        rows,
        "partition",
        "topic",
        "leader",
        "leader_epoch",
        "partition_epoch",
        "isr",
        "valid_from_offset",
        "valid_to_offset",
    ) == [
        ("orders", 1, 0, 0, (1, 2, 3), 1, 2),
        ("orders", 2, 1, 1, (1, 2), 2, None),
    ]


def test_a_deleted_topic_ends_its_partitions() -> None:
    rows = folded(topic_events(*CREATED, RemoveTopicRecord(topic_id=TopicId(TOPIC))))

    assert columns(rows, "partition", "valid_from_offset", "valid_to_offset") == [(1, 2)]
    assert columns(rows, "topic", "valid_from_offset", "valid_to_offset") == [(0, 2)]


def test_clear_elr_changes_only_partitions_that_have_one() -> None:
    clear = ClearElrRecord(topic_name="orders")
    rows = folded(topic_events(*CREATED, clear, change(eligible_leader_replicas=(3,)), clear))

    assert columns(
        rows, "partition", "valid_from_offset", "eligible_leader_replicas", "partition_epoch"
    ) == [(1, (), 0), (3, (3,), 1), (4, (), 2)]


def test_a_change_of_something_unknown_is_a_problem() -> None:
    rows = folded(topic_events(TopicRecord(name="orders", topic_id=TopicId(TOPIC)), change()))

    assert columns(rows, "problem", "kind", "offset") == [("replay", 1)]


def test_the_removal_of_an_unknown_topic_is_a_problem() -> None:
    rows = folded(topic_events(RemoveTopicRecord(topic_id=TopicId(TOPIC))))

    assert columns(rows, "problem", "kind", "offset") == [("replay", 0)]


def test_a_setting_of_the_name_that_the_topic_no_longer_has_is_not_its_own() -> None:
    config = ConfigRecord(
        resource_type=2, resource_name="other", name="min.insync.replicas", value="2"
    )

    assert columns(folded(topic_events(*CREATED, config)), "min_isr", "min_insync_replicas") == [
        (1,)
    ]


def test_min_insync_replicas_follows_topic_and_cluster() -> None:
    def config(kind: int, name: str, value: str | None) -> ConfigRecord:
        return ConfigRecord(
            resource_type=kind, resource_name=name, name="min.insync.replicas", value=value
        )

    rows = folded(
        topic_events(
            config(4, "", "3"),
            *CREATED,
            config(2, "orders", "2"),
            config(4, "", "1"),
            config(2, "orders", None),
        )
    )

    assert columns(
        rows, "min_isr", "min_insync_replicas", "valid_from_offset", "valid_to_offset"
    ) == [(3, 1, 3), (2, 3, 5), (1, 5, None)]


@pytest.mark.parametrize(
    ("topic", "cluster", "found"),
    [
        ("3", "2", (3, "topic")),
        ("x", "2", (2, "cluster")),
        (None, None, (1, "assumed")),
    ],
)
def test_a_value_that_is_no_number_counts_as_not_set(
    topic: str | None, cluster: str | None, found: tuple[int, str]
) -> None:
    assert min_isr_in_force(topic, cluster, AssumedMinIsr()) == found


def test_a_directory_that_fails_and_comes_back_has_three_intervals() -> None:
    rows = folded(
        broker_events(
            register(1, [D1, D2]),
            registration_change(log_dirs=(DirectoryId(D1),)),
            registration_change(fenced=1),
            register(1, [D1, D2], epoch=3),
        )
    )

    names = ("directory", "state", "valid_from_offset", "valid_to_offset", "ended_by")
    assert sorted(columns(rows, "log_dir", *names), key=str) == sorted(
        [
            (text(D1), "online", 0, None, None),
            (text(D2), "online", 0, 1, "failed"),
            (text(D2), "offline", 1, 3, "registered"),
            (text(D2), "online", 3, None, None),
        ],
        key=str,
    )


def test_a_directory_missing_at_a_registration_is_absent() -> None:
    rows = folded(broker_events(register(1, [D1, D2]), register(1, [D1, D3], epoch=1)))

    assert ("online", 0, 1, "absent") in columns(
        rows, "log_dir", "state", "valid_from_offset", "valid_to_offset", "ended_by"
    )


def test_an_unregistered_broker_ends_its_directories() -> None:
    rows = folded(
        broker_events(
            register(1, [D1]),
            UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(0)),
        )
    )

    assert columns(rows, "log_dir", "valid_to_offset", "ended_by") == [(1, "unregistered")]
    assert columns(rows, "broker", "valid_to_offset") == [(1,)]


def test_a_second_fencing_is_no_change() -> None:
    fence = FenceBrokerRecord(id=BrokerId(1), epoch=BrokerEpoch(0))
    rows = folded(broker_events(register(1, [D1]), fence, fence))

    assert columns(rows, "broker", "fenced", "valid_from_offset") == [(False, 0), (True, 1)]


def test_a_record_of_another_epoch_is_a_problem() -> None:
    stale = FenceBrokerRecord(id=BrokerId(1), epoch=BrokerEpoch(7))

    assert columns(folded(broker_events(register(1, [D1]), stale)), "problem", "kind") == [
        ("replay",)
    ]


def test_an_agreeing_snapshot_leaves_no_trace() -> None:
    key = f"t/{text(TOPIC)}/0"
    log = topic_events(*CREATED)
    of_snapshot = [event(key, n, record, snapshot_at=2) for n, record in enumerate(CREATED)]

    assert folded([*log, *of_snapshot], 2) == folded(log)


def test_a_disagreeing_snapshot_is_a_problem_and_is_taken_over() -> None:
    key = f"t/{text(TOPIC)}/0"
    of_snapshot = [
        event(key, 0, CREATED[0], snapshot_at=2),
        event(key, 1, partition_record(TOPIC, leader=3), snapshot_at=2),
    ]

    rows = folded([*topic_events(*CREATED), *of_snapshot, event(key, 2, change(isr=(3,)))], 2)

    assert columns(rows, "problem", "kind", "offset", "file") == [("disagreement", 2, "snapshot")]
    assert columns(rows, "partition", "leader", "isr", "record_type", "valid_from_offset") == [
        (1, (1, 2, 3), "PARTITION_RECORD", 1),
        (3, (1, 2, 3), "SNAPSHOT", 2),
        (3, (3,), "PARTITION_CHANGE_RECORD", 2),
    ]


def test_what_a_snapshot_does_not_hold_has_ended() -> None:
    rows = folded([*topic_events(*CREATED), *broker_events(register(1, [D1]))], 2)

    assert columns(rows, "problem", "kind") == [("disagreement",), ("disagreement",)]
    assert columns(rows, "partition", "valid_to_offset") == [(2,)]
    assert columns(rows, "broker", "valid_to_offset") == [(2,)]


def test_the_snapshot_that_a_replay_starts_from_has_nothing_to_disagree_with() -> None:
    key = f"t/{text(TOPIC)}/0"
    of_snapshot = [event(key, n, record, snapshot_at=50) for n, record in enumerate(CREATED)]

    rows = folded([*of_snapshot, event(key, 50, change(leader=2))], 50, base=50)

    assert columns(rows, "problem", "kind") == []
    assert columns(
        rows, "partition", "leader", "record_type", "valid_from_offset", "valid_to_offset"
    ) == [(1, "SNAPSHOT", 50, 50), (2, "PARTITION_CHANGE_RECORD", 50, None)]


def state(isr: Sequence[int], leader: int = 1) -> PartitionRegistration:
    return PartitionRegistration.from_record(partition_record(TOPIC, isr=isr, leader=leader))


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (state((1, 2, 3)), state((1, 3)), (2,)),
        (state((1, 2)), state((1, 2, 3)), ()),
        (state((1,)), state((), leader=-1), (1,)),
        (state((1,)), state((1,), leader=-1), (1,)),
        (state((1,), leader=-1), state((1,), leader=-1), ()),
    ],
)
def test_lost_replicas_left_the_isr_or_the_leadership(
    before: PartitionRegistration, after: PartitionRegistration, lost: tuple[int, ...]
) -> None:
    assert lost_replicas(before, after) == lost
