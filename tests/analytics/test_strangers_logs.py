"""Logs that nobody here has written: other releases, other vendors, files mangled in transport."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pytest

from analytics.ask.offline_log import OfflineLog
from analytics.errors import ReplayInputError
from analytics.read.layout import Layout, read_layout
from analytics.read.split_rows import COLUMNS
from jbodlab.metadata.log.batches import control_batch
from jbodlab.metadata.log.snapshots import snapshot_name
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import FeatureLevelRecord, NoOpRecord
from jbodlab.metadata.records.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    KRaftVotersRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
)
from jbodlab.metadata.records.topic_records import PartitionRecord, TopicRecord
from jbodlab.record_batch.record_batch import CONTROL, build_batch
from jbodlab.vocabulary.ids import TopicId
from tests.analytics.builders import partition_record, uid, versioned
from tests.analytics.small_logs import answered
from tests.analytics.source_rows import agreed_rows
from tests.jbodlab.raft.world import voter
from tests.metadata_batches import data_batch

SEGMENT = "00000000000000000000.log"
NEWER = frame.encode(partition_record(uid(1)), PartitionRecord.HIGHEST_VERSION) + b"\x07"
"""A PartitionRecord with a field behind those of the known versions."""


def batch(base_offset: int, *values: bytes, attributes: int = 0, key: bytes | None = None) -> bytes:
    return build_batch(
        [(key, value) for value in values],
        base_offset=base_offset,
        timestamp_ms=1000,
        leader_epoch=1,
        attributes=attributes,
    )


def control(base_offset: int, *records: ControlRecord) -> bytes:
    return control_batch(*records, base_offset=base_offset, epoch=1, timestamp_ms=1000)


def no_ops(base_offset: int, count: int = 1) -> bytes:
    return data_batch(
        [versioned(NoOpRecord())] * count, base_offset=base_offset, epoch=1, timestamp_ms=1000
    )


def layout_of(folder: Path, data: bytes, name: str = SEGMENT) -> Layout:
    (folder / name).write_bytes(data)
    return read_layout(folder)


def voters(*ids: int) -> KRaftVotersRecord:
    return KRaftVotersRecord(version=0, voters=tuple(map(voter, ids)))


def leader_change(*ids: int) -> LeaderChangeMessage:
    members = tuple(Voter(voter_id=number, voter_directory_id=uid(number)) for number in ids)
    return LeaderChangeMessage(
        version=1, leader_id=ids[0], voters=members, granting_voters=members[:2]
    )


HEADER = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=900)
FOOTER = SnapshotFooterRecord(version=0)


def test_the_log_and_the_snapshot_of_a_quorum_of_three_have_no_problem(tmp_path: Path) -> None:
    version = KRaftVersionRecord(version=0, k_raft_version=1)
    snapshot = control(0, HEADER, version, voters(1, 2, 3)) + no_ops(3) + control(4, FOOTER)
    (tmp_path / snapshot_name(4, 1)).write_bytes(snapshot)

    begin = control(0, leader_change(3, 1, 2), version, voters(1, 2, 3))
    layout = layout_of(tmp_path, begin + no_ops(3) + control(4, voters(2, 3)))

    rows = agreed_rows(layout)
    assert [row.type for row in rows if not row.snapshot] == [
        *("LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS", "NO_OP_RECORD", "KRAFT_VOTERS")
    ]
    assert all(row.problem is None and row.payload for row in rows)
    assert [one.timestamp_ms for one in layout.snapshots] == [900]


@pytest.mark.parametrize(
    ("level", "partition_version"),
    [(7, 0), (14, 0), (17, 1), (19, 1), (23, 2), (30, 2), (99, 2)],
    ids=["3.3", "3.5", "3.7", "3.8", "4.0", "now", "later"],
)
def test_logs_of_other_releases_are_read(
    tmp_path: Path, level: int, partition_version: int
) -> None:
    values = [
        frame.encode(FeatureLevelRecord(name="metadata.version", feature_level=level), 0),
        frame.encode(TopicRecord(name="orders", topic_id=TopicId(uid(1))), 0),
        frame.encode(partition_record(uid(1)), partition_version),
    ]

    rows = agreed_rows(layout_of(tmp_path, batch(0, *values)))

    assert [(row.type, row.version, row.problem) for row in rows] == [
        ("FEATURE_LEVEL_RECORD", 0, None),
        ("TOPIC_RECORD", 0, None),
        ("PARTITION_RECORD", partition_version, None),
    ]


@pytest.mark.parametrize(
    ("value", "key", "type_id", "version"),
    [
        (b"\x01\x63\x02\x07", None, 99, 2),
        (b"\x01\xac\x02\x00", None, 300, 0),
        (NEWER[:2] + b"\x09" + NEWER[3:], None, PartitionRecord.API_KEY, 9),
        (b"\x00\x03\xff", b"\x00\x00\x00\x2a", 42, 3),
        (b"\x00\x05\xff", b"\x00\x00\x00\x06", KRaftVotersRecord.CONTROL_TYPE, 5),
    ],
    ids=["type", "large-type", "version", "control-type", "control-version"],
)
def test_a_record_that_nobody_knows_is_a_row_of_its_table_and_ends_nothing(
    tmp_path: Path, value: bytes, key: bytes | None, type_id: int, version: int
) -> None:
    attributes = 0 if key is None else CONTROL
    data = no_ops(0) + batch(1, value, key=key, attributes=attributes) + no_ops(2)

    rows = agreed_rows(layout_of(tmp_path, data))

    assert [row.offset for row in rows] == [0, 1, 2]
    assert all(row.problem is None for row in rows)
    names = COLUMNS.names
    given = [{name: getattr(row, name) for name in row._fields if name in names} for row in rows]
    found = answered("unknown_records", log_rows=[{**row, "timestamp": None} for row in given])
    assert found == [
        {
            "offset": 1,
            "timestamp": None,
            "batch_base_offset": 1,
            "file": SEGMENT,
            "position": len(no_ops(0)),
            "control": key is not None,
            "type_id": type_id,
            "version": version,
            "value": value,
        }
    ]


def test_a_snapshot_with_a_control_record_that_nobody_knows_is_whole(tmp_path: Path) -> None:
    unknown = batch(1, b"\x00\x00", key=b"\x00\x00\x00\x2a", attributes=CONTROL)

    data = control(0, HEADER) + unknown + control(2, FOOTER)
    layout = layout_of(tmp_path, data, snapshot_name(4, 1))

    assert [one.end_offset for one in layout.snapshots] == [4]
    found = [row.type for row in agreed_rows(layout) if row.snapshot]
    assert found == ["SNAPSHOT_HEADER", "UNKNOWN(42)", "SNAPSHOT_FOOTER"]


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0f\n"
LOG = b"".join(no_ops(number * 10, 10) for number in range(20))
"""With bytes 0A in it, as each of its batches has ten records."""


@pytest.mark.parametrize(
    ("mangled", "says"),
    [
        (POINTER, "git-lfs pointer"),
        (gzip.compress(LOG, mtime=0), "compressed with gzip"),
        (LOG.replace(b"\n", b"\r\n"), "line feeds (0A) became 0D 0A"),
        (base64.encodebytes(LOG), "the bytes are text"),
        (LOG.decode(errors="replace").encode(), "became EF BF BD"),
    ],
    ids=["lfs", "gzip", "crlf", "text", "utf-8"],
)
def test_a_file_that_was_mangled_in_transport_says_so_by_its_offset(
    tmp_path: Path, mangled: bytes, says: str
) -> None:
    problems = [row for row in agreed_rows(layout_of(tmp_path, mangled)) if row.problem]

    told = next(row for row in problems if says in (row.message or ""))
    assert (told.file, told.position) == (SEGMENT, 0)
    assert f"({SEGMENT}, offset 0)" in (told.message or "")
    assert "\n" not in (told.message or "")


def test_a_log_without_any_record_says_why(tmp_path: Path) -> None:
    layout_of(tmp_path, POINTER)

    with pytest.raises(ReplayInputError, match=r"holds no records: .* git-lfs pointer"):
        OfflineLog(tmp_path)


def test_a_snapshot_that_was_mangled_in_transport_says_so(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, POINTER, snapshot_name(4, 1))

    (cut,) = [problem for problem in layout.problems if problem.kind == "torn_tail"]
    assert cut.message.startswith("the snapshot is cut short: the file is a git-lfs pointer")
