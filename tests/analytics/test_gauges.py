"""Numbers over time are those that the states of partitions give, counted one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from tests.analytics.small_logs import Row, Rows, at, holds, tables_of
from tests.analytics.stories import batches

BATCHES = batches("""
register 1 1a 1b; register 2 2a 2b; register 3 3a 3b; topic orders; config min.insync.replicas=2; \
partition 0 directories=1a,2a,3a; partition 1 replicas=1,2 directories=1a,2a; \
partition 2 replicas=3 leader=3 directories=3a
0 directories=1b,2a,3a
1 isr=2 leader=2; broker 1 log_dirs=1b
0 isr=2,3 leader=2; broker 1 fenced=1
2 leader=-1; broker 3 fenced=1
1 leader=-1; 1 leader=2
broker 3 fenced=-1; 2 leader=3
broker 1 fenced=-1; 0 isr=1,2,3
0 leader=1; register 1 1a 1b epoch=1
remove orders
""")

NAMES = ("partition_history", "outages", "leadership", "log_dirs", "broker_sessions")
NAMES += ("replica_placement", "gauges", "record_rates")

Key = tuple[str, object, object]


def held(rows: Sequence[Row], moment: datetime) -> list[Row]:
    return [row for row in rows if holds(row, moment, "time")]


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
