"""The metadata log on disk: what is appended is read, and what a kill leaves is cut."""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbodlab.metadata.log import clean_close
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.records.config_records import ConfigRecord, NoOpRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.storage.directory.filesystem import Buffer
from jbodlab.storage.directory.posix_filesystem import PosixAppendFile, PosixFileSystem
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import CorruptRecordError, KafkaError
from tests.metadata_batches import data_batch
from tests.snapshot_files import write_snapshot

NO_OP = VersionedRecord(NoOpRecord(), 0)
LOG = "00000000000000000000.log"


def batch(base_offset: int, *, count: int = 1, epoch: int = 1, time_ms: int = 1000) -> bytes:
    return data_batch([NO_OP] * count, base_offset=base_offset, epoch=epoch, timestamp_ms=time_ms)


def large_batch(base_offset: int, size: int) -> bytes:
    record = VersionedRecord(ConfigRecord(name="n", value="x" * size), 0)
    return data_batch([record], base_offset=base_offset, epoch=1, timestamp_ms=1000)


def offsets(data: bytes) -> list[int]:
    return [found.base_offset for found in read_batches(data)]


def files(log: MetadataLog) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(log.directory.iterdir())}


def test_new_log_has_kafkas_files(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)

    assert log.directory == tmp_path / "__cluster_metadata-0"
    assert files(log).keys() == {
        LOG,
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    assert (log.directory / "partition.metadata").read_bytes() == (
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    )
    assert (log.directory / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, -1)
    assert log.read(0) == b""
    log.close()


def test_another_log_shows_by_the_batch_before_an_offset_wherever_its_batches_begin(
    tmp_path: Path,
) -> None:
    log = MetadataLog.open(tmp_path)
    data = batch(0, count=2), batch(2, count=3)
    log.append(b"".join(data))
    first, second = (next(iter(read_batches(each))).crc for each in data)

    assert [log.crc_before(offset) for offset in (2, 5)] == [first, second]
    assert log.crc_before(3) == second, "a log that ends there has another batch"
    assert [log.crc_before(offset) for offset in (0, 6)] == [None, None]
    log.close()


def test_unflushed_batches_can_be_read(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    data = batch(0) + batch(1, count=3) + batch(4)

    log.append(data)

    assert log.end_offset == 5
    assert log.read(0) == data
    assert offsets(log.read(2)) == [1, 4]
    assert log.read(5) == b""
    log.close()


def test_read_returns_whole_batches_and_at_least_one(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0) + batch(1) + large_batch(2, 5000) + batch(3))
    size = len(batch(0))

    assert offsets(log.read(0, max_bytes=2 * size)) == [0, 1]
    assert offsets(log.read(0, max_bytes=2 * size + 100)) == [0, 1]
    assert offsets(log.read(0, max_bytes=1)) == [0]
    assert offsets(log.read(2, max_bytes=1)) == [2]
    log.close()


def test_offsets_outside_the_log_are_refused(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.reset_to(10)
    log.append(batch(10))

    for offset in (9, 12):
        with pytest.raises(KafkaError) as caught:
            log.read(offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    log.close()


def test_every_offset_is_found_also_after_opening_again(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path, segment_bytes=8_000)
    end = 0
    while end < 900:
        count = end % 4 + 1
        log.append(batch(end, count=count, time_ms=1000 + end))
        end += count
    log.close()
    before = files(log)
    del before[clean_close.FILE]

    again = MetadataLog.open(tmp_path, segment_bytes=8_000)

    assert files(again) == before
    assert len([name for name in before if name.endswith(".log")]) > 2
    for offset in range(end):
        first = next(read_batches(again.read(offset, 1)))
        assert first.base_offset <= offset <= first.last_offset
    again.close()


def test_append_must_continue_the_log(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0))

    for data in (batch(0), batch(2), batch(1)[:-1], batch(1) + batch(3), b""):
        with pytest.raises(AssertionError):
            log.append(data)
    assert log.end_offset == 1
    log.close()


class CountingFile(PosixAppendFile):
    __slots__ = ("calls", "path")

    def __init__(self, path: Path, calls: list[str]) -> None:
        super().__init__(path)
        self.path = path
        self.calls = calls

    def writev(self, buffers: Sequence[Buffer]) -> int:
        self.calls.append(f"write {self.path.suffix}")
        return super().writev(buffers)

    def fsync(self) -> None:
        self.calls.append(f"fsync {self.path.suffix}")
        super().fsync()


class CountingFileSystem(PosixFileSystem):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def open_append(self, path: Path) -> CountingFile:
        return CountingFile(path, self.calls)


def test_append_is_one_write_and_flush_one_sync(tmp_path: Path) -> None:
    fs = CountingFileSystem()
    log = MetadataLog.open(tmp_path, fs=fs)
    fs.calls.clear()

    log.append(batch(0) + batch(1) + batch(2))
    log.flush()

    assert fs.calls == ["write .log", "fsync .log"]
    log.close()


def test_rolled_segment_is_synced_before_the_next_begins(tmp_path: Path) -> None:
    fs = CountingFileSystem()
    log = MetadataLog.open(tmp_path, fs=fs, segment_bytes=100)
    log.append(batch(0))
    fs.calls.clear()

    log.append(batch(1))

    assert fs.calls[0] == "fsync .log"
    assert fs.calls[-1] == "write .log"
    assert files(log).keys() >= {LOG, "00000000000000000001.log"}
    log.close()


def test_index_entries_are_kafkas(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    size = len(batch(0, count=2))
    for number in range(130):
        log.append(batch(number * 2, count=2, time_ms=5000 + number))
    log.close()
    per_entry = 4096 // size + 1
    entries = range(per_entry, 130, per_entry)

    index = (log.directory / "00000000000000000000.index").read_bytes()
    time_index = (log.directory / "00000000000000000000.timeindex").read_bytes()

    assert list(struct.iter_unpack(">ii", index)) == [
        (number * 2 + 1, number * size) for number in entries
    ]
    assert list(struct.iter_unpack(">qi", time_index)) == [
        (5000 + number, number * 2 + 1) for number in (*entries, 129)
    ]


def test_missing_or_wrong_index_files_are_built_anew(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    for number in range(300):
        log.append(batch(number))
    log.close()
    index = log.directory / "00000000000000000000.index"
    time_index = log.directory / "00000000000000000000.timeindex"
    content = index.read_bytes(), time_index.read_bytes()
    assert content[0]
    index.unlink()
    time_index.write_bytes(bytes(10_485_756))

    MetadataLog.open(tmp_path).close()

    assert (index.read_bytes(), time_index.read_bytes()) == content


@pytest.mark.parametrize("tail", [b"\x00", bytes(500), b"garbage" * 20, batch(3)[:-1], batch(9)])
def test_torn_tail_is_cut(tmp_path: Path, tail: bytes, caplog: pytest.LogCaptureFixture) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0) + batch(1) + batch(2))
    log.close()
    path = log.directory / LOG
    whole = path.read_bytes()
    path.write_bytes(whole + tail)

    with caplog.at_level(logging.WARNING):
        again = MetadataLog.open(tmp_path)

    assert again.end_offset == 3
    assert path.read_bytes() == whole
    assert "truncating a metadata segment after its last valid batch" in caplog.text
    again.append(batch(3))
    assert offsets(again.read(0)) == [0, 1, 2, 3]
    again.close()


@settings(max_examples=40)
@given(st.integers(0, 400))
def test_any_kill_leaves_a_prefix(tmp_path_factory: pytest.TempPathFactory, size: int) -> None:
    tmp_path = tmp_path_factory.mktemp("log")
    log = MetadataLog.open(tmp_path)
    data = batch(0) + batch(1, count=2) + batch(3)
    log.append(data)
    log.close()
    path = log.directory / LOG
    path.write_bytes(data[:size])
    expected = offsets(data[:size])

    again = MetadataLog.open(tmp_path)

    assert offsets(again.read(0)) == expected
    assert again.size_bytes == path.stat().st_size
    again.close()


def test_leader_epochs_are_recorded(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0, count=5, epoch=1))
    log.append(batch(5, epoch=3) + batch(6, epoch=3) + batch(7, epoch=4))

    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n3\n1 0\n3 5\n4 7\n"
    assert log.last_epoch == 4
    assert [log.epoch_end_offset(epoch) for epoch in (1, 2, 3, 4, 5)] == [5, 5, 7, 8, -1]
    log.close()
    (log.directory / "leader-epoch-checkpoint").write_text("0\n1\n9 0\n")
    again = MetadataLog.open(tmp_path)
    assert again.epoch_end_offset(1) == 5
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n3\n1 0\n3 5\n4 7\n"
    again.close()


def test_an_epoch_begins_before_its_first_record_and_ends_the_one_before(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0, count=5, epoch=1))

    log.begin_epoch(3)

    assert log.last_epoch == 3
    assert [log.epoch_end_offset(epoch) for epoch in (1, 2, 3)] == [5, 5, 5]
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n3 5\n"
    log.append(batch(5, epoch=3))
    assert [log.epoch_end_offset(epoch) for epoch in (1, 3)] == [5, 6]
    log.truncate_to(5)
    assert (log.last_epoch, log.epoch_end_offset(1)) == (1, 5)
    log.begin_epoch(4)
    log.close()
    again = MetadataLog.open(tmp_path)
    # Nobody has a record of it.
    assert again.last_epoch == 1
    again.close()


def test_what_is_synced_is_known_and_no_more(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path, segment_bytes=2 * len(batch(0)))
    assert log.synced_offset == 0
    for number in range(5):
        log.append(batch(number))
    # The closed segments were synced before the next ones began.
    assert log.synced_offset == 0
    log.flush()
    assert log.synced_offset == 5
    log.append(batch(5))
    assert log.synced_offset == 5
    log.truncate_to(3)
    assert log.synced_offset == 3
    log.append(batch(3))
    log.close()
    again = MetadataLog.open(tmp_path, segment_bytes=2 * len(batch(0)))
    assert again.synced_offset == again.end_offset == 4
    again.close()


def test_damaged_leader_epochs_are_built_anew(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0, epoch=2))
    log.close()
    (log.directory / "leader-epoch-checkpoint").write_text("nonsense")

    again = MetadataLog.open(tmp_path)

    assert again.last_epoch == 2
    again.close()


def test_log_goes_on_behind_a_received_snapshot(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path, segment_bytes=100)
    for number in range(4):
        log.append(batch(number))

    log.reset_to(50, epoch=3)

    assert (log.start_offset, log.end_offset, log.last_epoch) == (50, 50, 3)
    assert {name for name in files(log) if name.endswith(".log")} == {"00000000000000000050.log"}
    log.append(batch(50, epoch=4))
    log.close()
    again = MetadataLog.open(tmp_path)
    assert (again.start_offset, again.end_offset, again.last_epoch) == (50, 51, 4)
    again.close()


def test_empty_log_behind_a_snapshot_keeps_its_epoch(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    write_snapshot(log.directory, [], 50, 3, 0)
    log.reset_to(50, epoch=3)
    log.close()

    again = MetadataLog.open(tmp_path)

    assert (again.end_offset, again.last_epoch) == (50, 3)
    again.close()


def test_snapshot_that_reaches_further_than_the_log_wins(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0))
    log.close()
    write_snapshot(log.directory, [], 9, 2, 0)

    again = MetadataLog.open(tmp_path)

    assert (again.start_offset, again.end_offset, again.last_epoch) == (9, 9, 2)
    again.close()
    write_snapshot(log.directory, [], 5, 2, 0)
    third = MetadataLog.open(tmp_path)
    assert third.end_offset == 9
    third.close()


def test_segments_below_a_snapshot_are_removed(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path, segment_bytes=2 * len(batch(0)))
    for number in range(7):
        log.append(batch(number, epoch=number + 1))

    log.delete_segments_below(5)

    assert (log.start_offset, log.end_offset) == (4, 7)
    assert log.epoch_end_offset(5) == 5
    log.delete_segments_below(100)
    assert (log.start_offset, log.end_offset) == (6, 7)
    log.close()
    again = MetadataLog.open(tmp_path)
    assert (again.start_offset, again.last_epoch) == (6, 7)
    again.close()


def test_error_of_the_disk_goes_through(tmp_path: Path) -> None:
    class BrokenFile(PosixAppendFile):
        def writev(self, buffers: Sequence[Buffer]) -> int:
            raise OSError(5, "Input/output error")

    class BrokenFileSystem(PosixFileSystem):
        def open_append(self, path: Path) -> PosixAppendFile:
            return BrokenFile(path)

    log = MetadataLog.open(tmp_path, fs=BrokenFileSystem())

    with pytest.raises(OSError, match="Input/output error"):
        log.append(batch(0))
    log.close()


def test_segment_ends_with_the_age_of_its_first_batch(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path, segment_ms=100)
    log.append(batch(0, time_ms=1_000))
    log.append(batch(1, time_ms=1_100))
    log.append(batch(2, time_ms=1_101))
    log.close()

    again = MetadataLog.open(tmp_path, segment_ms=100)
    again.append(batch(3, time_ms=1_201))
    again.append(batch(4, time_ms=1_202))
    again.close()

    segments = [name for name in files(again) if name.endswith(".log")]
    assert segments == [f"{offset:020d}.log" for offset in (0, 2, 4)]


def test_damaged_snapshot_does_not_end_a_log_that_is_whole(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0))
    log.close()
    path = write_snapshot(log.directory, [], 9, 2, 0)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])

    again = MetadataLog.open(tmp_path)

    assert (again.start_offset, again.end_offset) == (0, 1)
    again.close()


def test_what_a_killed_writer_of_a_snapshot_left_is_removed(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.close()
    left = log.directory / "00000000000000000009-0000000002.checkpoint.part"
    left.write_bytes(b"x")
    left.chmod(0o444)

    MetadataLog.open(tmp_path).close()

    assert not left.exists()


def test_truncation_over_segments_drops_records_and_epochs(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path, segment_bytes=2 * len(batch(0)))
    for number in range(7):
        log.append(batch(number, epoch=number // 2 + 1))

    log.truncate_to(3)

    assert (log.end_offset, log.last_epoch) == (3, 2)
    assert offsets(log.read(2)) == [2]
    assert log.epoch_end_offset(2) == 3
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 2\n"
    assert [name for name in files(log) if ".log" in name] == [LOG, "00000000000000000002.log"]
    log.append(batch(3, epoch=9))
    log.truncate_to(4)
    log.close()
    again = MetadataLog.open(tmp_path)
    assert (again.end_offset, again.last_epoch) == (4, 9)
    again.close()


def test_truncation_leaves_whole_batches(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0) + batch(1, count=4))

    log.truncate_to(3)

    assert (log.end_offset, offsets(log.read(0))) == (1, [0])
    log.truncate_to(0)
    assert (log.end_offset, log.last_epoch, log.size_bytes) == (0, -1, 0)
    log.close()


def test_truncation_is_durable_and_leaves_no_file_of_what_is_gone(tmp_path: Path) -> None:
    fs = CountingFileSystem()
    log = MetadataLog.open(tmp_path, fs=fs, segment_bytes=2 * len(batch(0)))
    for number in range(7):
        log.append(batch(number))
    fs.calls.clear()

    log.truncate_to(3)

    assert fs.calls[-1] == "fsync .log"
    assert not [name for name in files(log) if "deleted" in name]
    log.close()


def test_no_file_of_producers_lies_beside_the_segments(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path, segment_bytes=2 * len(batch(0)))
    for number in range(7):
        log.append(batch(number))
    log.close()
    MetadataLog.open(tmp_path).close()

    assert not list(log.directory.glob("*.snapshot"))


@pytest.mark.parametrize("content", [b"", b"version: 0\n", b"garbage", b"version: 0\ntopic_id: x"])
def test_a_topic_id_that_a_loss_of_power_took_is_written_again(
    tmp_path: Path, content: bytes
) -> None:
    log = MetadataLog.open(tmp_path)
    log.append(batch(0))
    log.close()
    path = log.directory / "partition.metadata"
    right = path.read_bytes()
    path.write_bytes(content)

    again = MetadataLog.open(tmp_path)

    assert (again.end_offset, path.read_bytes()) == (1, right)
    again.close()


def test_epochs_of_a_file_that_the_batches_contradict_are_dropped(tmp_path: Path) -> None:
    """Also those that the file puts before the first batch."""
    log = MetadataLog.open(tmp_path, segment_bytes=2 * len(batch(0)))
    for number in range(7):
        log.append(batch(number, epoch=2))
    log.delete_segments_below(4)
    log.close()
    (log.directory / "leader-epoch-checkpoint").write_text("0\n2\n2 1\n9 3\n")

    again = MetadataLog.open(tmp_path)

    assert (again.start_offset, again.last_epoch) == (4, 2)
    again.append(batch(7, epoch=3))
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n2 4\n3 7\n"
    again.close()


def test_segments_of_one_large_append_are_synced_one_after_the_other(tmp_path: Path) -> None:
    fs = CountingFileSystem()
    log = MetadataLog.open(tmp_path, fs=fs, segment_bytes=2 * len(batch(0)))
    fs.calls.clear()

    log.append(b"".join(batch(number) for number in range(5)))

    assert fs.calls == ["write .log", "fsync .log"] * 2 + ["write .log"]
    log.close()


def test_a_missing_last_file_is_noticed_after_a_kill(tmp_path: Path) -> None:
    """The index files show that it had records, from the first sync on."""
    log = MetadataLog.open(tmp_path, segment_bytes=2 * len(batch(0)))
    for number in range(3):
        log.append(batch(number))
    log.flush()
    (log.directory / "00000000000000000002.log").unlink()

    with pytest.raises(CorruptRecordError, match="the segment is missing"):
        MetadataLog.open(tmp_path)
