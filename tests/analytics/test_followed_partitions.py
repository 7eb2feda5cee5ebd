"""Steps of partitions: the state that each record leads to, and what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analytics.rare.followed_partitions import SCHEMA, partition_steps
from tests.analytics.small_logs import START, Row, at, schema_of
from tests.analytics.stories import given_row, told

CASES = Path(__file__).with_name("followed_partitions.txt").read_text("utf-8").split("\n=== ")[1:]
WHOLE = (
    "leader=1 leader_epoch=4 partition_epoch=7 leader_recovery_state=0 replicas=[1,2] isr=[1,2] "
    "removing_replicas=[] adding_replicas=[] directories=[a,b] eligible_leader_replicas=[] "
    "last_known_elr=[]"
)
RECORD = "cluster=c topic=orders topic_id=t1 partition=0 version=2 record_type=X end=1000"


def record(text: str) -> Row:
    place, *words = text.replace("compared", "is_compared=true").replace("whole", WHOLE).split()
    offsets = ("replay_position", "valid_from_offset", "batch_base_offset", "batch_last_offset")
    said: Row = dict.fromkeys((*offsets, "offset"), int(place))
    said |= {"valid_from_time": at(int(place)), "is_compared": False, "is_odd": False}
    for word in (*RECORD.split(), *words):
        name, _, value = word.partition("=")
        said |= given_row([name], schema_of("partition_records"), value, START)
    return said


def steps(*records: Row) -> list[dict[str, Any]]:
    found = partition_steps(pa.Table.from_pylist(list(records), schema_of("partition_records")))
    assert found.schema.names == SCHEMA.names
    return list(found.to_pylist())


@pytest.mark.parametrize("case", CASES, ids=[case.partition("\n")[0] for case in CASES])
def test_records_lead_to_the_steps_of_their_case(case: str) -> None:
    _, *lines = case.strip().splitlines()
    at_steps = next(at for at, line in enumerate(lines) if line.startswith("steps:"))
    columns = lines[at_steps].removeprefix("steps:").split()

    found = steps(*map(record, lines[:at_steps]))

    assert told(found, columns) == lines[at_steps + 1 :]


@pytest.mark.parametrize(
    "other",
    [
        "leader=2",
        "leader_epoch=5",
        "partition_epoch=8",
        "isr=[2,1]",
        "directories=[a,c]",
        "eligible_leader_replicas=[2]",
    ],
)
def test_a_snapshot_that_tells_another_state_is_odd(other: str) -> None:
    first, told = record("1 whole"), record(f"2 whole {other} compared")

    assert [one["is_odd"] for one in steps(first, told)] == [False, True]
