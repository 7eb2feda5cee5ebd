"""A reader of the controller's log sees what was written, whoever replaced what."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from lab.cluster.controllers_log import ControllersLog
from tests.metadata_batches import data_batch
from tests.snapshot_files import write_snapshot


def topic(name: str) -> VersionedRecord:
    return VersionedRecord(TopicRecord(name=name, topic_id=UUID(int=len(name) + 100)), 0)


def batch(base_offset: int, *records: VersionedRecord) -> bytes:
    return data_batch(list(records), base_offset=base_offset, epoch=1, timestamp_ms=1000)


def names(log: ControllersLog) -> set[str]:
    return set(log.image().topics.by_name)


def segment(folder: Path, base_offset: int) -> Path:
    return folder / f"{base_offset:020d}.log"


def test_what_was_appended_since_the_last_look_is_read(tmp_path: Path) -> None:
    log = ControllersLog(tmp_path)
    file = segment(tmp_path, 0)
    file.write_bytes(batch(0, topic("a")))
    assert names(log) == {"a"}
    with file.open("ab") as opened:
        opened.write(batch(1, topic("bb")))
    segment(tmp_path, 2).write_bytes(batch(2, topic("ccc")))
    assert names(log) == {"a", "bb", "ccc"}


def test_batch_that_is_being_written_counts_when_it_is_whole(tmp_path: Path) -> None:
    log = ControllersLog(tmp_path)
    file, second = segment(tmp_path, 0), batch(1, topic("bb"))
    file.write_bytes(batch(0, topic("a")) + second[:-1])
    assert names(log) == {"a"}
    with file.open("ab") as opened:
        opened.write(second[-1:])
    assert names(log) == {"a", "bb"}


def test_log_of_another_disk_is_read_anew(tmp_path: Path) -> None:
    log = ControllersLog(tmp_path)
    segment(tmp_path, 0).write_bytes(batch(0, topic("a")) + batch(1, topic("bb")))
    assert names(log) == {"a", "bb"}
    other = tmp_path / "other"
    other.write_bytes(batch(0, topic("ccc")))
    other.rename(segment(tmp_path, 0))
    assert names(log) == {"ccc"}


def test_segments_that_a_snapshot_replaced_are_read_from_it(tmp_path: Path) -> None:
    log = ControllersLog(tmp_path)
    segment(tmp_path, 0).write_bytes(batch(0, topic("a")))
    assert names(log) == {"a"}
    write_snapshot(tmp_path, [topic("a"), topic("bb")], end_offset=5, epoch=1, timestamp_ms=1000)
    segment(tmp_path, 0).unlink()
    segment(tmp_path, 5).write_bytes(batch(5, VersionedRecord(NoOpRecord(), 0), topic("ccc")))
    assert names(log) == {"a", "bb", "ccc"}
