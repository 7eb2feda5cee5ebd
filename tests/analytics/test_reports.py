from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from analytics.reports import Tables, directory_failures, report_text
from analytics.tables import TABLES, Table

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def frame(spark: SparkSession, table: Table, rows: list[dict[str, object]]) -> DataFrame:
    names = [column.name for column in table.columns]
    return spark.createDataFrame([tuple(row.get(n) for n in names) for row in rows], table.schema)


def tables(spark: SparkSession, **rows: list[dict[str, object]]) -> Tables:
    return {table.name: frame(spark, table, rows.get(table.name, [])) for table in TABLES}


def state(
    partition: int, leader: int, offsets: tuple[int, int | None], seconds: float
) -> dict[str, object]:
    return {
        "topic": "orders",
        "topic_id": "T",
        "partition": partition,
        "leader": leader,
        "replicas": [1, 2],
        "isr": [1, 2],
        "directories": ["D1", "D2"],
        "valid_from_offset": offsets[0],
        "valid_from_time": at(seconds),
        "valid_to_offset": offsets[1],
    }


FAILED: dict[str, object] = {
    "broker": 1,
    "directory": "D1",
    "state": "offline",
    "valid_from_offset": 22,
    "valid_from_time": at(10),
    "batch_base_offset": 20,
}


def test_a_failure_counts_what_the_directory_held_and_who_took_over(spark: SparkSession) -> None:
    found = directory_failures(
        tables(
            spark,
            log_dirs=[FAILED],
            partition_history=[
                state(0, 1, (3, 20), 1),
                state(0, 2, (20, None), 10),
                state(1, 1, (4, 21), 1),
                state(1, -1, (21, 30), 10),
                state(1, 2, (30, None), 10.25),
                state(2, 2, (5, None), 1),
                state(3, 1, (6, 10), 1),
            ],
        )
    ).collect()

    assert [
        (row["replicas"], row["leaders"], row["new_leaders"], row["last_new_leader_ms"])
        for row in found
    ] == [(3, 2, 2, 250)]


def test_a_directory_that_held_nothing_is_listed_all_the_same(spark: SparkSession) -> None:
    found = directory_failures(tables(spark, log_dirs=[FAILED])).collect()

    assert [(row["replicas"], row["leaders"], row["new_leaders"]) for row in found] == [(0, 0, 0)]


def test_the_text_says_what_the_tables_say(spark: SparkSession) -> None:
    text = report_text(
        tables(
            spark,
            records=[
                {"offset": 0, "timestamp": at(0), "epoch": 1, "type": "LEADER_CHANGE"},
                {"offset": 1, "timestamp": at(1), "epoch": 1, "type": "NO_OP_RECORD"},
            ],
            brokers=[
                {"broker": 1, "broker_epoch": 5, "fenced": False, "in_controlled_shutdown": False},
                {"broker": 2, "broker_epoch": 7, "fenced": True, "in_controlled_shutdown": False},
            ],
            log_dirs=[FAILED],
            partitions=[state(0, -1, (3, None), 1)],
            outages=[
                {
                    "topic_id": "T",
                    "partition": 0,
                    "kind": "leaderless",
                    "from_time": at(3),
                    "cause": "directory",
                    "broker": 1,
                    "directory": "D1",
                }
            ],
            problems=[{"kind": "gap", "message": "offsets 4 to 5 are missing"}],
        )
    )

    assert text == (
        "Log          2 records, offsets 0 to 1, 1 no-ops, 1 epoch\n"
        "             2026-01-01 00:00:00.000 to 2026-01-01 00:00:01.000 UTC\n"
        "Topics       1 with 1 partition; now 1 without leader, 0 under-replicated\n"
        "Brokers      1 active, log directories 0 online 1 offline, 1 replica, 0 leaders, epoch 5\n"
        "             2 fenced, log directories 0 online 0 offline, 1 replica, 0 leaders, epoch 7\n"
        "Directories  2026-01-01 00:00:10.000 broker 1 D1 went offline and still is: "
        "0 replicas, 0 leaders\n"
        "Outages      2026-01-01 00:00:03.000 leaderless by directory on broker 1 D1: "
        "1 partition, 1 outage, 1 still open\n"
        "Problems     1 gap: offsets 4 to 5 are missing\n"
    )


def test_an_empty_cluster_has_a_report(spark: SparkSession) -> None:
    assert report_text(tables(spark)) == (
        "Log          no records\n"
        "Topics       0 with 0 partitions; now 0 without leader, 0 under-replicated\n"
        "Brokers      none registered\n"
        "Directories  none went offline\n"
        "Outages      none\n"
        "Problems     none\n"
    )
