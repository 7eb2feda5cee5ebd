"""Numbers over time are those that the states of partitions give, counted one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary.ids import DirectoryId, TopicId
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.small_logs import (
    TOPIC,
    Row,
    Rows,
    at,
    broker_change,
    change,
    config,
    tables_of,
)

DIRECTORIES = {broker: (uid(broker * 10), uid(broker * 10 + 1)) for broker in (1, 2, 3)}
FIRST = [DIRECTORIES[broker][0] for broker in (1, 2, 3)]
MOVED = [DIRECTORIES[1][1], *FIRST[1:]]

BATCHES: list[list[Record]] = [
    [
        *(register(broker, DIRECTORIES[broker]) for broker in (1, 2, 3)),
        TopicRecord(name="orders", topic_id=TopicId(TOPIC)),
        config("min.insync.replicas", "2"),
        partition_record(TOPIC, 0, directories=FIRST),
        partition_record(TOPIC, 1, replicas=(1, 2), directories=FIRST[:2]),
        partition_record(TOPIC, 2, replicas=(3,), leader=3, directories=FIRST[2:]),
    ],
    [change(0, directories=tuple(map(DirectoryId, MOVED)))],
    [
        change(1, isr=(2,), leader=2),
        broker_change(1, log_dirs=(DirectoryId(DIRECTORIES[1][1]),)),
    ],
    [change(0, isr=(2, 3), leader=2), broker_change(1, fenced=1)],
    [change(2, leader=-1), broker_change(3, fenced=1)],
    [change(1, leader=-1), change(1, leader=2)],
    [broker_change(3, fenced=-1), change(2, leader=3)],
    [broker_change(1, fenced=-1), change(0, isr=(1, 2, 3))],
    [change(0, leader=1), register(1, DIRECTORIES[1], epoch=1)],
    [RemoveTopicRecord(topic_id=TopicId(TOPIC))],
]

NAMES = ("partition_history", "outages", "leadership", "log_dirs", "broker_sessions")
NAMES += ("replica_placement", "gauges", "record_rates")

Key = tuple[str, object, object]


def held(rows: Sequence[Row], moment: datetime) -> list[Row]:
    return [
        row
        for row in rows
        if row["valid_from_time"] <= moment  # type: ignore[operator]
        and (row["valid_to_time"] is None or moment < row["valid_to_time"])  # type: ignore[operator]
    ]


def counted(rows: Rows, moment: datetime) -> Counter[Key]:
    """Count what the tables of states say of a moment."""
    found: Counter[Key] = Counter()

    def add(what: str, broker: object = None, directory: object = None) -> None:
        found[what, broker, directory] += 1

    for row in held(rows["partition_history"], moment):
        replicas, leader = list(row["replicas"]), row["leader"]  # type: ignore[call-overload]
        add("partitions")
        if len(row["isr"]) < len(replicas):  # type: ignore[arg-type]
            add("under_replicated")
        if leader not in (-1, replicas[0]):
            add("not_preferred")
    for row in rows["outages"]:
        if row["from_time"] <= moment and (row["to_time"] is None or moment < row["to_time"]):  # type: ignore[operator]
            add(str(row["kind"]))
    leaders = {row["partition"]: row["leader"] for row in held(rows["leadership"], moment)}
    offline = {
        (row["broker"], row["directory"])
        for row in held(rows["log_dirs"], moment)
        if row["state"] == "offline"
    }
    down = {
        row["broker"] for row in held(rows["broker_sessions"], moment) if row["state"] != "unfenced"
    }
    for row in held(rows["replica_placement"], moment):
        place = row["broker"], row["directory"]
        add("replicas", *place)
        if leaders[row["partition"]] == row["broker"]:
            add("leaders", *place)
        if place in offline or row["broker"] in down:
            add("offline_replicas")
    for _ in offline:
        add("offline_directories")
    for _ in down:
        add("failed_brokers")
    return found


def said(gauges: Sequence[Row], moment: datetime, column: str) -> Counter[Key]:
    """Return the last row of each number up to a moment."""
    found: Counter[Key] = Counter()
    for row in sorted(gauges, key=lambda row: str(row["from_time"])):
        if row["from_time"] <= moment:  # type: ignore[operator]
            found[str(row["what"]), row["broker"], row["directory"]] = int(str(row[column]))
    return +found


def test_numbers_of_buckets_add_up_for_directories_and_brokers() -> None:
    rows = tables_of(NAMES, BATCHES)
    found = rows["gauges"]

    def is_of_broker(row: Row) -> bool:
        return row["broker"] is not None and row["directory"] is None

    of_brokers = [row for row in found if is_of_broker(row)]
    others = [row for row in found if not is_of_broker(row)]
    for second in range(len(BATCHES) + 1):
        moment = at(second) + timedelta(milliseconds=500)
        expected = counted(rows, moment)
        assert said(others, moment, "at_end") == expected, second
        per_broker: Counter[Key] = Counter()
        for (what, broker, _), count in expected.items():
            if broker is not None:
                per_broker[what, broker, None] += count
        assert said(of_brokers, moment, "at_end") == per_broker, second

    rates = rows["record_rates"]
    assert sum(row["records"] for row in rates) == sum(map(len, BATCHES))
    assert {row["stretch_ms"] for row in rates} == {50}
