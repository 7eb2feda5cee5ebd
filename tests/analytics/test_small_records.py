"""Records about everything but partitions, and the buckets that get them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from analytics.job.bucket_stage import topic_events
from analytics.job.local_runner import LocalRunner
from analytics.job.scan_stage import ScanPlan, homes, scan_split
from analytics.job.small_records import SmallRecords, all_others, effective_rows, overview
from analytics.rare.transactions import Dropped
from analytics.read.layout import read_layout
from analytics.store.part_files import PartFiles
from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
)
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import ClearElrRecord, RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary import kafka_uuid
from tests.analytics.builders import LogBuilder, partition_record, uid

BUCKETS = 4

Heard = dict[int, list[tuple[int, str | None, bool]]]
"""For each bucket the records that it gets: offset, topic id, whether it is the first bucket."""


def topic(number: int, name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=uid(number))  # type: ignore[arg-type]


def removed(number: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=uid(number))  # type: ignore[arg-type]


def min_isr(topic: str) -> ConfigRecord:
    kind = 2 if topic else 4
    return ConfigRecord(
        resource_type=kind, resource_name=topic, name="min.insync.replicas", value="2"
    )


def read(root: Path, *records: Record) -> tuple[SmallRecords, dict[str, int], tuple[Dropped, ...]]:
    """Write records into a log, one batch each, and read it as a replay does."""
    log = LogBuilder(root / "log")
    for record in records:
        log.append(record)
    log.close()
    layout = read_layout(log.directory)
    plan = ScanPlan(buckets=BUCKETS, parts=PartFiles(folder=str(root / "out"), cluster="one"))
    scanned = LocalRunner().map(partial(scan_split, plan), list(enumerate(layout.splits))).answers
    others = all_others(scanned)
    seen = overview(scanned, others, layout)
    small = SmallRecords(effective_rows(others, layout.replay_from, seen.dropped))
    return small, dict(seen.wide), seen.dropped


def heard(small: SmallRecords, wide: dict[str, int]) -> Heard:
    rows = small.topic_rows(wide, BUCKETS).to_pylist()
    assert {(row["first"], row["file_name"]) for row in rows} <= {(-1, None)}
    return {
        row["bucket"]: [
            (one.event.offset, text(one.topic_id), one.is_first)
            for one in topic_events(row["blob"])
        ]
        for row in rows
    }


def text(topic_id: bytes | None) -> str | None:
    return None if topic_id is None else kafka_uuid.to_text(UUID(bytes=topic_id))


def home(number: int) -> int:
    own = np.frombuffer(uid(number).bytes, dtype=np.uint8).reshape(1, 16)
    return int(homes(own)[0] % BUCKETS)


def test_a_topic_is_known_in_every_bucket_that_has_partitions_of_it(tmp_path: Path) -> None:
    partitions = [partition_record(uid(1), index) for index in (0, 130)]
    small, wide, _ = read(tmp_path, topic(1, "wide"), *partitions, removed(1))

    found = heard(small, wide)

    own = kafka_uuid.to_text(uid(1))
    assert wide == {own: 3}
    assert found == {
        (home(1) + slot) % BUCKETS: [(0, own, slot == 0), (3, own, slot == 0)] for slot in range(3)
    }


def test_a_record_that_names_a_topic_reaches_the_ids_that_had_the_name_before(
    tmp_path: Path,
) -> None:
    small, wide, _ = read(
        tmp_path,
        topic(1, "orders"),
        ClearElrRecord(topic_name="orders"),
        removed(1),
        topic(2, "orders"),
        min_isr("orders"),
    )

    found = [one for own in heard(small, wide).values() for one in own]

    first, second = (kafka_uuid.to_text(uid(number)) for number in (1, 2))
    of_first, of_second = ((0, 1, 2, 4), (3, 4))
    assert sorted(found) == sorted(
        [(at, first, True) for at in of_first] + [(at, second, True) for at in of_second]
    )


@pytest.mark.parametrize("record", [ClearElrRecord(topic_name=""), min_isr("")])
def test_a_record_about_all_topics_reaches_every_bucket(tmp_path: Path, record: Record) -> None:
    small, wide, _ = read(tmp_path, record)

    assert heard(small, wide) == {bucket: [(0, None, False)] for bucket in range(BUCKETS)}


def test_settings_of_a_topic_end_with_it(tmp_path: Path) -> None:
    topics = topic(1, "orders"), topic(2, "clicks")
    small, _, _ = read(tmp_path, *topics, min_isr("orders"), removed(2), removed(1))

    (setting,) = small.history(())["config"]

    assert (setting["resource_name"], setting["value"]) == ("orders", "2")  # type: ignore[index]
    assert setting["valid_to_offset"] == 4  # type: ignore[index]


def test_what_was_aborted_has_no_effect(tmp_path: Path) -> None:
    small, wide, dropped = read(
        tmp_path,
        BeginTransactionRecord(name="x"),
        topic(1, "never"),
        AbortTransactionRecord(reason="y"),
        topic(2, "kept"),
    )

    assert dropped == (Dropped(0, 2),)
    assert heard(small, wide) == {home(2): [(3, kafka_uuid.to_text(uid(2)), True)]}


def test_a_log_without_records_gives_nothing() -> None:
    small = SmallRecords(all_others([]))

    assert small.history(()) == {}
    assert isinstance(rows := small.topic_rows({}, BUCKETS), pa.Table)
    assert rows.num_rows == 0
