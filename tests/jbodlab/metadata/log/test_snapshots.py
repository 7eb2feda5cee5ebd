"""Snapshot and bootstrap files."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.snapshots import (
    MAX_RECORDS_PER_BATCH,
    Snapshot,
    is_complete,
    latest_snapshot,
    parse_name,
    prune,
    read_bootstrap,
    read_latest,
    read_snapshot,
    read_timestamp_ms,
    snapshot_name,
    take_latest,
    write_bootstrap,
)
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import CorruptRecordError
from tests.snapshot_files import write_snapshot

LEVEL = VersionedRecord(FeatureLevelRecord(name="metadata.version", feature_level=17), 0)


def configs(count: int, value: str = "v") -> list[VersionedRecord]:
    return [VersionedRecord(ConfigRecord(name=str(n), value=value), 0) for n in range(count)]


def test_snapshot_is_named_after_its_end_and_epoch(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path, [LEVEL], 12345, 7, 1000, created_ms=2000)

    assert path == tmp_path / "00000000000000012345-0000000007.checkpoint"
    assert read_snapshot(path) == Snapshot(
        end_offset=12345, epoch=7, timestamp_ms=1000, records=(LEVEL,)
    )
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    header, data, footer = read_batches(path.read_bytes())
    assert [batch.base_offset for batch in (header, data, footer)] == [0, 1, 2]
    assert {batch.epoch for batch in (header, data, footer)} == {7}
    assert {batch.timestamp_ms for batch in (header, data, footer)} == {2000}


def test_empty_state_has_only_header_and_footer(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path, [], 1, 1, 0)

    assert read_snapshot(path).records == ()
    assert len(list(read_batches(path.read_bytes()))) == 2


def test_data_batches_have_at_most_1024_records(tmp_path: Path) -> None:
    records = configs(2 * MAX_RECORDS_PER_BATCH + 1)

    path = write_snapshot(tmp_path, records, 1, 1, 0)

    sizes = [len(batch.records) for batch in read_batches(path.read_bytes())]
    assert sizes == [1, 1024, 1024, 1, 1]
    assert read_snapshot(path).records == tuple(records)


def test_data_batches_have_at_most_8_mib(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path, configs(600, "x" * 30_000), 1, 1, 0)

    batches = list(read_batches(path.read_bytes()))

    assert max(batch.size for batch in batches) <= 8 * 1024 * 1024
    assert len(batches) == 5


def test_incomplete_or_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path, [LEVEL], 5, 1, 0)
    data = path.read_bytes()
    batches = list(read_batches(data))
    without_footer = data[: -batches[-1].size]
    without_header = data[batches[0].size :]
    damaged = bytearray(data)
    damaged[batches[0].size + 70] ^= 1
    path.unlink()

    for content in (b"", data[:-1], data + b"x", without_footer, without_header, bytes(damaged)):
        path.write_bytes(content)
        with pytest.raises(CorruptRecordError) as caught:
            read_snapshot(path)
        assert caught.value.path == path


def test_newest_snapshot_that_is_whole_counts(tmp_path: Path) -> None:
    assert latest_snapshot(tmp_path) is None
    assert read_latest(tmp_path) is None
    write_snapshot(tmp_path, [LEVEL], 9, 1, 0)
    newest = write_snapshot(tmp_path, [], 100, 2, 0)
    (tmp_path / "00000000000000000200-0000000003.checkpoint.part").write_bytes(b"x")
    (tmp_path / "00000000000000000300-0000000003.checkpoint.deleted").write_bytes(b"x")
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"x")

    assert latest_snapshot(tmp_path) == newest
    found = read_latest(tmp_path)
    assert found is not None
    assert found.end_offset == 100

    newest.unlink()
    newest.write_bytes(b"damaged")
    found = read_latest(tmp_path)
    assert found is not None
    assert (found.end_offset, found.records) == (9, (LEVEL,))


def test_damaged_snapshots_are_put_out_of_the_way(tmp_path: Path) -> None:
    old = write_snapshot(tmp_path, [LEVEL], 9, 1, 0)
    newer = write_snapshot(tmp_path, [], 100, 2, 0)
    newest = write_snapshot(tmp_path, [], 200, 2, 0)
    for path in (newer, newest):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-1])

    found = take_latest(PosixFileSystem(), tmp_path)

    assert found is not None
    assert found.end_offset == 9
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        old.name,
        f"{newer.name}.damaged",
        f"{newest.name}.damaged",
    ]
    assert latest_snapshot(tmp_path) == old


def test_whole_and_damaged_are_told_apart_without_reading_records(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path, [LEVEL], 5, 1, 77)
    data = path.read_bytes()
    assert is_complete(PosixFileSystem(), path)
    assert read_timestamp_ms(PosixFileSystem(), path) == 77
    path.chmod(0o644)

    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        try:
            read_snapshot(path)
        except CorruptRecordError:
            assert not is_complete(PosixFileSystem(), path)
        else:
            assert is_complete(PosixFileSystem(), path)
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert not is_complete(PosixFileSystem(), path)
    path.write_bytes(b"x" * 200)
    assert read_timestamp_ms(PosixFileSystem(), path) is None


def test_old_snapshots_and_leftovers_are_pruned(tmp_path: Path) -> None:
    paths = [write_snapshot(tmp_path, [LEVEL], end, 1, 0) for end in (1, 2, 3)]
    for name in ("00000000000000000009-0000000003-123.checkpoint.part", "x.checkpoint.deleted"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "00000000000000000000.log").write_bytes(b"")

    assert prune(PosixFileSystem(), tmp_path, keep=2) == paths[:1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000000000000000000.log",
        paths[1].name,
        paths[2].name,
    ]


def test_names() -> None:
    assert parse_name(snapshot_name(3, 4)) == (3, 4)
    for name in ("bootstrap.checkpoint", "3-4.checkpoint", snapshot_name(3, 4) + ".part"):
        with pytest.raises(ValueError, match="not the one of a snapshot"):
            parse_name(name)


def test_bootstrap_file_has_time_0_and_epoch_0(tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.checkpoint"
    group = VersionedRecord(FeatureLevelRecord(name="group.version", feature_level=1), 0)

    write_bootstrap(path, [LEVEL, group], created_ms=5)

    assert read_bootstrap(path) == [LEVEL, group]
    header, data, _ = read_batches(path.read_bytes())
    assert (data.base_offset, data.epoch) == (1, 0)
    assert "last_contained_log_timestamp=0" in repr(header.records[0][1])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptRecordError):
        read_bootstrap(path)
