from __future__ import annotations

from collections.abc import Sequence

from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import DirectoryId, TopicId
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.small_logs import TOPIC, broker_change, change, config, picked, rows_of

DIRECTORIES = {broker: (uid(broker * 10), uid(broker * 10 + 1)) for broker in (1, 2, 3)}
FIRST = [DIRECTORIES[broker][0] for broker in (1, 2, 3)]


def found(*batches: Sequence[Record]) -> list[tuple[object, ...]]:
    names = ("kind", "from_offset", "to_offset", "duration_ms", "cause", "broker", "directory")
    return picked(rows_of("outages", [CLUSTER, *batches]), *names)


# Offsets 0 to 2: the brokers; 3: the topic; 4: min.insync.replicas 2; 5: the partition.
CLUSTER = [
    *(register(broker, DIRECTORIES[broker]) for broker in (1, 2, 3)),
    TopicRecord(name="orders", topic_id=TopicId(TOPIC)),
    config("min.insync.replicas", "2"),
    partition_record(TOPIC, directories=FIRST),
]


def test_a_healthy_partition_has_no_outage() -> None:
    assert found([change(isr=(1, 2))], [change(isr=(1, 2, 3))]) == []


def test_an_outage_lasts_over_changes_that_do_not_end_it() -> None:
    assert found(
        [change(isr=(1,)), broker_change(2, fenced=1), broker_change(3, fenced=1)],  # 6 to 8
        [change(leader=1)],  # 9
        [change(isr=(1, 3))],  # 10
    ) == [("under_min_isr", 6, 10, 2000, "broker", 2, None)]


def test_a_failed_directory_is_the_cause() -> None:
    remaining = (DirectoryId(DIRECTORIES[2][1]),)

    assert found(
        [change(isr=(1, 2))],  # 6
        [change(isr=(1,)), broker_change(2, log_dirs=remaining)],  # 7
    ) == [("under_min_isr", 7, None, None, "directory", 2, kafka_uuid.to_text(DIRECTORIES[2][0]))]


def test_a_leaderless_partition_lost_its_leader_although_it_stays_in_the_isr() -> None:
    assert found(
        [config("min.insync.replicas", "1")],  # 6
        [change(isr=(1,))],  # 7
        [change(leader=-1), broker_change(1, fenced=1)],  # 8, 9
        [change(leader=1), broker_change(1, fenced=-1)],  # 10
    ) == [("leaderless", 8, 10, 1000, "broker", 1, None)]


def test_a_raised_requirement_is_the_controllers_doing() -> None:
    assert found(
        [change(isr=(1, 2))],  # 6
        [config("min.insync.replicas", "3")],  # 7
        [config("min.insync.replicas", "2")],  # 8
    ) == [("under_min_isr", 7, 8, 1000, "controller", None, None)]


def test_more_than_there_are_replicas_is_never_required() -> None:
    assert found([config("min.insync.replicas", "9")], [change(isr=(1, 2))]) == [
        ("under_min_isr", 7, None, None, "unknown", 3, None)
    ]


def test_a_replica_that_fell_behind_has_an_unknown_cause() -> None:
    assert found([change(isr=(1, 2))], [change(isr=(1,))]) == [
        ("under_min_isr", 7, None, None, "unknown", 2, None)
    ]


def test_what_begins_and_ends_in_one_batch_is_no_outage() -> None:
    assert found([change(isr=(1,)), change(isr=(1, 2, 3))]) == []


def test_a_deleted_topic_ends_its_outages() -> None:
    assert found([change(isr=(1,))], [RemoveTopicRecord(topic_id=TopicId(TOPIC))]) == [
        ("under_min_isr", 6, 7, 1000, "unknown", 2, None)
    ]


def test_a_replica_that_fell_behind_before_its_broker_was_fenced_was_lost_by_that() -> None:
    def when(quiet_s: int) -> list[tuple[object, ...]]:
        quiet = [[NoOpRecord()] for _ in range(quiet_s - 1)]
        return found([change(isr=(1,))], *quiet, [broker_change(2, fenced=1)])

    assert when(30) == [("under_min_isr", 6, None, None, "broker", 2, None)]
    assert when(31) == [("under_min_isr", 6, None, None, "unknown", 2, None)]


def test_what_a_failure_did_in_the_batches_before_its_record_is_put_down_to_it() -> None:
    # A controller fills one batch with changes, and another one with the rest and the record.
    remaining = (DirectoryId(DIRECTORIES[1][1]),)

    assert found(
        [change(isr=(1, 2))],  # 6
        [change(leader=-1, isr=(2,))],  # 7
        [broker_change(1, log_dirs=remaining)],  # 8
    ) == [
        ("leaderless", 7, None, None, "directory", 1, kafka_uuid.to_text(DIRECTORIES[1][0])),
        ("under_min_isr", 7, None, None, "directory", 1, kafka_uuid.to_text(DIRECTORIES[1][0])),
    ]
