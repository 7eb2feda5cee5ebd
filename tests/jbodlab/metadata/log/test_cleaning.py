"""Files that are removed from a metadata log, and those that never are."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshots import parse_name, snapshot_paths
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.frame import VersionedRecord
from tests.metadata_batches import data_batch
from tests.snapshot_files import write_snapshot

RECORD = VersionedRecord(ConfigRecord(name="n", value="x" * 400), 0)
NOW_MS = 1_000_000


def batch(offset: int) -> bytes:
    return data_batch([RECORD], base_offset=offset, epoch=1, timestamp_ms=NOW_MS)


SIZE = len(batch(0))


@pytest.fixture
def log(tmp_path: Path) -> MetadataLog:
    """Ten batches, two in each segment."""
    made = MetadataLog.open(tmp_path, segment_bytes=2 * SIZE)
    for offset in range(10):
        made.append(batch(offset))
    return made


def snapshot(log: MetadataLog, end_offset: int, timestamp_ms: int = NOW_MS) -> Path:
    return write_snapshot(log.directory, [], end_offset, 1, timestamp_ms)


def kept(log: MetadataLog) -> list[int]:
    return [parse_name(path.name)[0] for path in reversed(snapshot_paths(log.directory))]


def keeping(retention_bytes: int = -1, retention_ms: int = -1) -> MetadataLogSettings:
    return MetadataLogSettings(retention_bytes=retention_bytes, retention_ms=retention_ms)


def test_nothing_goes_without_a_snapshot(log: MetadataLog) -> None:
    assert log.clean(keeping(retention_bytes=0, retention_ms=0), NOW_MS + 1) == 0
    assert log.start_offset == 0


def test_nothing_goes_below_the_limits(log: MetadataLog) -> None:
    snapshot(log, 4)
    snapshot(log, 8)

    removed = log.clean(keeping(retention_bytes=10_000, retention_ms=1_000), NOW_MS + 1_000)

    assert removed == 0
    assert (log.start_offset, kept(log)) == (0, [4, 8])


def test_negative_limits_are_none(log: MetadataLog) -> None:
    snapshot(log, 8)

    assert log.clean(keeping(), NOW_MS * 1_000) == 0


def test_the_oldest_goes_first_and_only_as_much_as_needed(log: MetadataLog) -> None:
    small = snapshot(log, 4).stat().st_size
    snapshot(log, 8)

    # Six batches fit beside the snapshots, so the log below the oldest one goes.
    assert log.clean(keeping(6 * SIZE + 2 * small), NOW_MS) == 4 * SIZE
    assert (log.start_offset, kept(log)) == (4, [4, 8])

    # One byte less: now that snapshot goes too, with the log up to the next one.
    assert log.clean(keeping(6 * SIZE + 2 * small - 1), NOW_MS) == 4 * SIZE + small
    assert (log.start_offset, kept(log)) == (8, [8])


def test_the_newest_snapshot_and_the_log_behind_it_stay_whatever_the_limits(
    log: MetadataLog,
) -> None:
    for end_offset in (3, 5, 7):
        snapshot(log, end_offset)

    log.clean(keeping(retention_bytes=0, retention_ms=0), NOW_MS + 5)

    # The segment that the snapshot ends in is whole.
    assert (log.start_offset, log.end_offset, kept(log)) == (6, 10, [7])


def test_snapshots_go_with_age(log: MetadataLog) -> None:
    snapshot(log, 2, NOW_MS - 1_000)
    snapshot(log, 6, NOW_MS - 500)
    snapshot(log, 8, NOW_MS - 400)

    log.clean(keeping(retention_ms=700), NOW_MS)

    assert (log.start_offset, kept(log)) == (6, [6, 8])


def test_a_damaged_newest_snapshot_removes_nothing(
    log: MetadataLog, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot(log, 4)
    newest = snapshot(log, 8)
    content = newest.read_bytes()
    newest.unlink()
    newest.write_bytes(content[:-1])

    assert log.clean(keeping(retention_bytes=0), NOW_MS) == 0
    assert (log.start_offset, kept(log)) == (0, [4, 8])
    assert "newest metadata snapshot is damaged" in caplog.text


def test_what_is_left_can_be_opened(log: MetadataLog, tmp_path: Path) -> None:
    snapshot(log, 7)
    log.clean(keeping(retention_bytes=0), NOW_MS)
    log.close()

    again = MetadataLog.open(tmp_path)

    assert (again.start_offset, again.end_offset, again.last_epoch) == (6, 10, 1)
    again.close()


def test_segments_are_small_enough_for_the_retention() -> None:
    gigabyte = 1 << 30
    assert keeping(-1).effective_segment_bytes == gigabyte
    assert keeping(100 << 20).effective_segment_bytes == 25 << 20
    assert keeping(0).effective_segment_bytes == 64 * 1024
    assert MetadataLogSettings(segment_bytes=10).effective_segment_bytes == 10
