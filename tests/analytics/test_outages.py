from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics.fold import Event, Row, fold
from analytics.outages import outages
from analytics.replay import HISTORY, make_fold, of_kind
from jbodlab import kafka_uuid
from jbodlab.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId
from jbodlab.records import frame
from jbodlab.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.records.config_records import ConfigRecord
from jbodlab.records.schema import Record
from jbodlab.records.topic_records import PartitionChangeRecord, RemoveTopicRecord, TopicRecord
from tests.analytics.builders import partition_record, register, uid

pytestmark = pytest.mark.spark

TOPIC = uid(1)
DIRECTORIES = {broker: (uid(broker * 10), uid(broker * 10 + 1)) for broker in (1, 2, 3)}
FIRST = [DIRECTORIES[broker][0] for broker in (1, 2, 3)]

Batches = Sequence[Sequence[Record]]


def history(spark: SparkSession, batches: Batches) -> DataFrame:
    """Fold batches of records, one second and one batch after the other."""
    events = []
    offset = 0
    for number, batch in enumerate(batches):
        for index, record in enumerate(batch):
            events.append(event(record, offset + index, offset, offset + len(batch) - 1, number))
        offset += len(batch)
    events.sort()
    rows: list[Row] = list(fold(events, (), make_fold))
    return spark.createDataFrame([shaped(row) for row in rows], HISTORY)


def event(record: Record, offset: int, base: int, last: int, seconds: int) -> Event:
    broker = getattr(record, "broker_id", None)
    key = f"t/{kafka_uuid.to_text(TOPIC)}/0" if broker is None else f"b/{broker}"
    value = frame.encode(record, record.HIGHEST_VERSION)
    time = seconds * 1_000_000
    return Event(key, offset, False, offset, time, base, last, "file", record.NAME, value)


def shaped(row: Row) -> Row:
    """Give a row the Python values that a DataFrame is made of."""
    kind = str(row["kind"])
    columns = row[kind]
    assert isinstance(columns, dict)
    for name in ("valid_from_time", "valid_to_time"):
        if columns.get(name) is not None:
            columns[name] = moment(columns[name])
    return row


def moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def found(spark: SparkSession, *batches: Sequence[Record]) -> list[tuple[object, ...]]:
    folded = history(spark, [CLUSTER, *batches])
    table = outages(
        of_kind(folded, "partition"), of_kind(folded, "min_isr"), of_kind(folded, "broker")
    )
    rows = table.orderBy("from_offset", "kind").collect()
    names = ("kind", "from_offset", "to_offset", "duration_ms", "cause", "broker", "directory")
    return [tuple(row[name] for name in names) for row in rows]


def change(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TopicId(TOPIC), **fields)  # type: ignore[arg-type]


def broker_change(broker: int, **fields: object) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=BrokerId(broker),
        broker_epoch=BrokerEpoch(0),
        **fields,  # type: ignore[arg-type]
    )


def min_isr(value: str) -> ConfigRecord:
    return ConfigRecord(
        resource_type=2, resource_name="orders", name="min.insync.replicas", value=value
    )


# Offsets 0 to 2: the brokers; 3: the topic; 4: min.insync.replicas 2; 5: the partition.
CLUSTER = [
    *(register(broker, DIRECTORIES[broker]) for broker in (1, 2, 3)),
    TopicRecord(name="orders", topic_id=TopicId(TOPIC)),
    min_isr("2"),
    partition_record(TOPIC, directories=FIRST),
]


def test_a_healthy_partition_has_no_outage(spark: SparkSession) -> None:
    assert found(spark, [change(isr=(1, 2))], [change(isr=(1, 2, 3))]) == []


def test_an_outage_lasts_over_changes_that_do_not_end_it(spark: SparkSession) -> None:
    assert found(
        spark,
        [change(isr=(1,)), broker_change(2, fenced=1), broker_change(3, fenced=1)],  # 6 to 8
        [change(leader=1)],  # 9
        [change(isr=(1, 3))],  # 10
    ) == [("under_min_isr", 6, 10, 2000, "broker", 2, None)]


def test_a_failed_directory_is_the_cause(spark: SparkSession) -> None:
    remaining = (DirectoryId(DIRECTORIES[2][1]),)

    assert found(
        spark,
        [change(isr=(1, 2))],  # 6
        [change(isr=(1,)), broker_change(2, log_dirs=remaining)],  # 7
    ) == [("under_min_isr", 7, None, None, "directory", 2, kafka_uuid.to_text(DIRECTORIES[2][0]))]


def test_a_leaderless_partition_lost_its_leader_although_it_stays_in_the_isr(
    spark: SparkSession,
) -> None:
    assert found(
        spark,
        [min_isr("1")],  # 6
        [change(isr=(1,))],  # 7
        [change(leader=-1), broker_change(1, fenced=1)],  # 8, 9
        [change(leader=1), broker_change(1, fenced=-1)],  # 10
    ) == [("leaderless", 8, 10, 1000, "broker", 1, None)]


def test_a_raised_requirement_is_the_controllers_doing(spark: SparkSession) -> None:
    assert found(
        spark,
        [change(isr=(1, 2))],  # 6
        [min_isr("3")],  # 7
        [min_isr("2")],  # 8
    ) == [("under_min_isr", 7, 8, 1000, "controller", None, None)]


def test_more_than_there_are_replicas_is_never_required(spark: SparkSession) -> None:
    assert found(spark, [min_isr("9")], [change(isr=(1, 2))]) == [
        ("under_min_isr", 7, None, None, "unknown", 3, None)
    ]


def test_a_replica_that_fell_behind_has_an_unknown_cause(spark: SparkSession) -> None:
    assert found(spark, [change(isr=(1, 2))], [change(isr=(1,))]) == [
        ("under_min_isr", 7, None, None, "unknown", 2, None)
    ]


def test_what_begins_and_ends_in_one_batch_is_no_outage(spark: SparkSession) -> None:
    assert found(spark, [change(isr=(1,)), change(isr=(1, 2, 3))]) == []


def test_a_deleted_topic_ends_its_outages(spark: SparkSession) -> None:
    assert found(spark, [change(isr=(1,))], [RemoveTopicRecord(topic_id=TopicId(TOPIC))]) == [
        ("under_min_isr", 6, 7, 1000, "unknown", 2, None)
    ]
