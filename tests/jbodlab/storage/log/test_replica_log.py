from __future__ import annotations

import errno
from random import Random
from uuid import UUID

import pytest

from jbodlab.record_batch.record_batch import build_batch, iterate_headers, read_header
from jbodlab.storage.directory.posix_filesystem import PosixAppendFile, PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_search import newest_record
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import CorruptRecordError, KafkaError
from jbodlab.vocabulary.ids import TopicPartition
from tests.jbodlab.storage.compaction.batches import batch_of, record
from tests.jbodlab.storage.log.direct_log import DirectLog

UID = "0123456789abcdef0123456789abcdef"
UUID_1 = UUID("00000000-0000-4000-8000-000000000001")


def test_a_new_log_has_kafkas_files(make_log):
    box = make_log()

    assert box.directory.name == "orders-3"
    assert box.names() == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "partition.metadata",
    ]
    assert (box.log.log_start_offset, box.log.log_end_offset, box.log.recovery_point) == (0, 0, 0)
    assert (box.log.size_bytes, box.log.segment_count, box.log.largest_timestamp) == (0, 1, -1)
    assert box.log.read(0, 100) == b""


def test_a_log_is_not_created_over_another(make_log):
    box = make_log()

    with pytest.raises(FileExistsError):
        DirectLog.create(
            box.fs, box.directory.parent, box.log.topic_partition, box.log.topic_id, box.config
        )


def test_an_interrupted_creation_can_be_repeated(tmp_path):
    (tmp_path / "orders-3").mkdir()
    (tmp_path / "orders-3" / "partition.metadata").touch()

    log = DirectLog.create(
        PosixFileSystem(), tmp_path, TopicPartition("orders", 3), UUID_1, LogConfig()
    )

    assert log.topic_id == UUID_1
    log.abandon()


def test_appended_bytes_are_read_back_as_they_are(make_log):
    box = make_log()
    first = box.append(2)
    second = box.append(3)

    assert box.log.log_end_offset == 5
    assert box.log.read(0, 1000) == first + second
    assert box.log.read(1, 1000) == first + second
    assert box.log.read(2, 1000) == second
    assert box.log.read(4, 1000) == second
    assert box.log.read(5, 1000) == b""
    assert (box.directory / "00000000000000000000.log").read_bytes() == first + second
    assert box.log.size_bytes == len(first + second)


def test_an_append_must_join_on(make_log):
    box = make_log()
    box.append(3)
    batch = build_batch([(None, b"v")], base_offset=2, leader_epoch=0, timestamp_ms=1)

    with pytest.raises(AssertionError):
        box.log.append([batch], [read_header(batch)])


def test_an_append_may_leave_a_gap_as_compaction_does(make_log):
    box = make_log(segment_bytes=300)
    first = box.append(2)
    batch = build_batch([(None, b"v")], base_offset=9, leader_epoch=0, timestamp_ms=1)
    far = build_batch([(None, b"v")], base_offset=2**31 + 9, leader_epoch=0, timestamp_ms=1)

    box.log.append([batch, far], [read_header(batch), read_header(far)])

    assert box.log.log_end_offset == 2**31 + 10
    assert box.log.segment_base_offsets == (0, 9, 2**31 + 9)
    assert [box.log.read(offset, 1) for offset in (0, 2, 8, 9, 10)] == [first, *[batch] * 3, far]
    box.config = LogConfig(segment_bytes=300, cleanup_policy="compact")
    assert box.reopen(clean=False).log_end_offset == 2**31 + 10
    assert [box.log.read(offset, 1) for offset in (0, 2, 8, 9, 10)] == [first, *[batch] * 3, far]


def test_a_read_is_bounded_by_bytes_but_gives_the_first_batch_whole(make_log):
    box = make_log()
    batches = [box.append() for _ in range(4)]
    size = len(batches[0])

    assert box.log.read(0, 2 * size) == batches[0] + batches[1]
    assert box.log.read(0, 3 * size - 1) == batches[0] + batches[1]
    assert box.log.read(1, 1) == batches[1]
    assert box.log.read(1, 0) == batches[1]
    assert box.log.read(1, size - 1, at_least_one=False) == b""
    assert box.log.read(1, size, at_least_one=False) == batches[1]


def test_a_read_ends_below_the_maximum_offset(make_log):
    box = make_log()
    batches = [box.append(2) for _ in range(3)]

    assert box.log.read(0, 9999, 6) == b"".join(batches)
    assert box.log.read(0, 9999, 4) == batches[0] + batches[1]
    assert box.log.read(0, 9999, 3) == batches[0]
    assert box.log.read(0, 9999, 1) == b""
    assert box.log.read(2, 9999, 2) == b""
    assert box.log.read(2, 9999, 3) == b""
    assert box.log.read(3, 9999, 4) == batches[1]


@pytest.mark.parametrize("offset", [1, 7])
def test_a_read_outside_the_log_is_refused(make_log, offset):
    box = make_log()
    box.append(6)
    box.log.advance_start_to(2)

    with pytest.raises(KafkaError) as raised:
        box.log.read(offset, 100)

    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_every_offset_is_found_with_indexes_and_segments(make_log):
    box = make_log(segment_bytes=3000, index_interval_bytes=200)
    for number in range(120):
        box.append(1 + number % 3, value_size=number % 50)
    starts = {}
    for batch in box.batches:
        header = read_header(batch)
        for offset in range(header.base_offset, header.next_offset):
            starts[offset] = batch

    assert box.log.segment_count > 3
    for fresh in (False, True):
        if fresh:
            box.reopen(clean=False)
        for offset in reversed(range(box.log.log_end_offset)):
            assert box.log.read(offset, 1) == starts[offset]
        assert box.content() == b"".join(box.batches)


def test_a_large_batch_behind_many_small_ones_is_read(make_log):
    box = make_log()
    for _ in range(20):
        box.append()
    large = box.append(1, value_size=50_000)
    small = box.append()

    assert box.log.read(20, 100) == large
    assert box.log.read(20, len(large) + 10) == large
    assert box.log.read(21, 100) == small
    box.reopen(clean=False)
    assert box.log.read(20, 100) == large
    assert box.log.read(21, 100) == small


def test_a_follower_appends_many_batches_at_once(make_log, tmp_path):
    box = make_log()
    for epoch in (0, 0, 2):
        box.append(2, epoch=epoch)
    data = box.content()
    (tmp_path / "other").mkdir()
    copy = DirectLog.create(
        box.fs, tmp_path / "other", box.log.topic_partition, UUID_1, LogConfig()
    )

    copy.append([data], [header for _, header in iterate_headers(data)])

    assert copy.read(0, 1 << 20) == data
    assert copy.epochs.entries == box.log.epochs.entries == ((0, 0), (2, 4))
    copy.abandon()


def test_batches_of_one_append_are_spread_over_segments(make_log, tmp_path):
    box = make_log()
    for _ in range(10):
        box.append()
    data = box.content()
    size = len(box.batches[0])
    (tmp_path / "other").mkdir()
    config = LogConfig(segment_bytes=3 * size)
    copy = DirectLog.create(box.fs, tmp_path / "other", box.log.topic_partition, UUID_1, config)

    copy.append(
        [data[:100], memoryview(data)[100:]], [header for _, header in iterate_headers(data)]
    )

    assert copy.segment_base_offsets == (0, 3, 6, 9)
    assert copy.log_end_offset == 10
    assert [copy.read(offset, 1) for offset in range(10)] == box.batches
    copy.abandon()


def test_a_segment_is_rolled_when_the_next_batch_does_not_fit(make_log):
    box = make_log(segment_bytes=300)
    while box.log.segment_count < 3:
        box.append()

    sizes = [path.stat().st_size for path in sorted(box.directory.glob("*.log"))]
    assert max(sizes) <= 300
    assert sizes[0] + len(box.batches[0]) > 300
    assert box.log.segment_base_offsets == (0, 3, 6)
    assert box.names() == sorted(
        [
            f"{base:020d}{suffix}"
            for base in (0, 3, 6)
            for suffix in (".index", ".log", ".timeindex")
        ]
        + [f"{base:020d}.snapshot" for base in (3, 6)]
        + ["leader-epoch-checkpoint", "partition.metadata"]
    )


def test_a_segment_is_rolled_by_the_age_of_its_first_batch(make_log):
    box = make_log(segment_ms=1000)
    box.append(timestamp=5000)
    box.append(timestamp=6000)
    assert box.log.segment_count == 1
    box.append(timestamp=6001)
    assert box.log.segment_base_offsets == (0, 2)

    box.reopen(clean=False)
    box.append(timestamp=7002)
    assert box.log.segment_base_offsets == (0, 2, 3)


def test_a_segment_is_rolled_when_its_index_is_full(make_log):
    box = make_log(index_interval_bytes=0, segment_index_bytes=24)
    while box.log.segment_count == 1:
        box.append(timestamp=1000 + box.log.log_end_offset)

    assert (box.directory / "00000000000000000000.index").stat().st_size <= 24
    assert (box.directory / "00000000000000000000.timeindex").stat().st_size <= 24


def test_index_entries_name_the_last_offset_and_the_position_of_a_batch(make_log):
    box = make_log(index_interval_bytes=150)
    sizes = [len(box.append(2, timestamp=1000 + number)) for number in range(5)]
    box.log.close(clean=True)

    index = (box.directory / "00000000000000000000.index").read_bytes()
    times = (box.directory / "00000000000000000000.timeindex").read_bytes()
    assert 75 < sizes[0] < 150
    assert index.hex() == f"{5:08x}{2 * sizes[0]:08x}" + f"{9:08x}{4 * sizes[0]:08x}"
    assert times.hex() == f"{1002:016x}{5:08x}" + f"{1004:016x}{9:08x}"


class FullDiskFile(PosixAppendFile):
    """A file on a disk that, once full, takes only a part of a write."""

    full = False

    def writev(self, buffers):
        if FullDiskFile.full:
            super().writev([b"".join(buffers)[:20]])
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().writev(buffers)


def test_an_index_entry_is_made_after_more_than_the_interval(make_log):
    size = len(build_batch([(None, b"v" * 20)], timestamp_ms=0))
    box = make_log(index_interval_bytes=size)
    for _ in range(4):
        box.append()
    box.log.close(clean=True)

    index = (box.directory / "00000000000000000000.index").read_bytes()
    assert index.hex() == f"{2:08x}{2 * size:08x}"


def test_a_failed_append_leaves_no_trace(make_log, monkeypatch):
    monkeypatch.setattr(PosixFileSystem, "open_append", lambda _fs, path: FullDiskFile(path))
    box = make_log()
    first = box.append()

    monkeypatch.setattr(FullDiskFile, "full", True)
    with pytest.raises(OSError, match="No space"):
        box.append(producer=(7, 0, 0))
    monkeypatch.setattr(FullDiskFile, "full", False)

    # The state ran ahead of the disk and is wrong now: whoever owns the log opens it anew.
    assert box.log.log_end_offset == 2
    assert (box.directory / "00000000000000000000.log").read_bytes() == first
    box.reopen(clean=False)
    assert box.log.producers.entry(7) is None
    second = box.append()
    assert box.log.read(0, 1000) == first + second


def test_damaged_bytes_are_not_served(make_log):
    box = make_log()
    box.append()
    box.append()
    path = box.directory / "00000000000000000000.log"
    size = len(box.batches[0])
    with path.open("r+b") as file:
        file.seek(size + 8)
        file.write(bytes(4))

    with pytest.raises(CorruptRecordError, match="no batch begins"):
        box.log.read(1, 100)


def test_flush_moves_the_recovery_point_to_the_end(make_log):
    box = make_log(segment_bytes=300)
    for _ in range(7):
        box.append()
    assert box.log.recovery_point == 0
    assert box.log.needs_flush

    assert box.log.flush() == 7

    assert box.log.recovery_point == 7
    assert not box.log.needs_flush


def test_an_append_flushes_after_so_many_messages(make_log):
    box = make_log(flush_messages=3)

    box.append(2)
    assert box.log.recovery_point == 0
    box.append(1)
    assert box.log.recovery_point == 3


def test_leader_epochs_are_on_the_disk_before_the_batch(make_log):
    box = make_log()
    box.append(epoch=3)
    box.append(epoch=3)
    box.append(epoch=5)

    path = box.directory / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n2\n3 0\n5 2\n"
    box.log.assign_epoch(6, 3)
    assert path.read_text() == "0\n3\n3 0\n5 2\n6 3\n"


def test_timestamps_are_found_in_the_order_of_offsets(make_log):
    box = make_log(segment_bytes=500, index_interval_bytes=100)
    for timestamp in (100, 300, 200, 400, 400, 150, 600, 500):
        box.append(2, timestamp=timestamp)
    assert box.log.segment_count > 1

    for fresh in (False, True):
        if fresh:
            box.reopen(clean=False)
        assert box.log.offset_for_timestamp(0) == (100, 0)
        assert box.log.offset_for_timestamp(101) == (300, 2)
        assert box.log.offset_for_timestamp(301) == (400, 6)
        assert box.log.offset_for_timestamp(401) == (600, 12)
        assert box.log.offset_for_timestamp(601) is None
        assert box.log.offset_of_largest_timestamp() == (600, 12)
        assert box.log.largest_timestamp == 600
    box.log.advance_start_to(7)
    assert box.log.offset_for_timestamp(0) == (400, 7)


def append_timed(box, *timestamps, codec=0):
    """Append one batch whose records have these timestamps."""
    records = (record(delta, time, b"k", b"v") for delta, time in enumerate(timestamps))
    data = bytearray(
        batch_of(
            *records,
            codec=codec,
            base_timestamp=0,
            max_timestamp=max(timestamps),
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
        )
    )
    data[:8] = box.log.log_end_offset.to_bytes(8, "big")
    box.log.append([data], [read_header(data)])


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
@pytest.mark.parametrize(
    "batches", [((1000,), (9000,), (2000,), (3000,)), ((1000, 9000, 2000, 3000),)]
)
def test_the_newest_record_is_one_that_can_be_read(make_log, batches, segment_bytes, codec):
    box = make_log(segment_bytes=segment_bytes)
    for each in batches:
        append_timed(box, *each, codec=codec)
    assert box.log.offset_of_largest_timestamp() == (9000, 1)

    box.log.advance_start_to(2)

    for fresh in (False, True):
        if fresh:
            box.reopen(clean=False, log_start_offset=2)
        assert box.log.offset_of_largest_timestamp() == (3000, 3)
        assert box.log.offset_of_largest_timestamp(end=3) == (2000, 2)
        assert box.log.offset_of_largest_timestamp(end=2) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_record_of_any_range_is_found(make_log, seed):
    chance = Random(seed)
    box = make_log(segment_bytes=chance.choice((300, 900)), index_interval_bytes=100)
    times: list[int] = []
    for _ in range(25):
        batch = [chance.randrange(60) for _ in range(chance.randint(1, 4))]
        append_timed(box, *batch, codec=chance.randrange(2))
        times += batch
    if seed % 2:
        box.reopen(clean=False)

    for _ in range(60):
        start, end = sorted(chance.sample(range(len(times) + 1), 2))
        ranges = box.log.state.segments.ranges_by_newest(start, end)
        expected = max(range(start, end), key=lambda offset: (times[offset], -offset))
        found = newest_record(box.log.files, ranges, start, end)
        assert found == (times[expected], expected)


def test_an_empty_log_has_no_timestamps(make_log):
    box = make_log()

    assert box.log.offset_for_timestamp(0) is None
    assert box.log.offset_of_largest_timestamp() is None


def test_renamed_logs_go_on_working(make_log, tmp_path):
    box = make_log(segment_bytes=300)
    box.append(producer=(7, 0, 0))

    box.log.rename_to_delete(UID)
    assert box.directory.name == f"orders-3.{UID}-delete"
    box.log.rename_to_current()

    for number in range(1, 7):
        box.append(producer=(7, 0, number))
    assert box.log.segment_count == 3
    assert box.content() == b"".join(box.batches)
    assert [path.name for path in tmp_path.iterdir()] == ["orders-3"]
    box.log.rename_to_delete()
    assert len(box.directory.name) == len(f"orders-3.{UID}-delete")


def test_a_future_log_becomes_the_current_one(tmp_path):
    log = DirectLog.create(
        PosixFileSystem(),
        tmp_path,
        TopicPartition("orders", 3),
        UUID_1,
        LogConfig(),
        log_start_offset=17,
        future_hex=UID,
    )

    assert log.is_future
    assert log.directory.name == f"orders-3.{UID}-future"
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (17, 17, 17)
    log.rename_to_current()
    assert not log.is_future
    assert [path.name for path in tmp_path.iterdir()] == ["orders-3"]
    log.abandon()


def test_a_clean_stop_forgets_no_batch_of_a_producer(make_log):
    box = make_log()
    for sequence in range(6):
        box.append(producer=(7, 0, sequence))
    known = box.log.producers.entry(7).batches
    assert len(known) == 5
    box.log.close(clean=True)

    log = DirectLog.load(box.fs, box.directory, box.config, clean=True, recovery_point=6)

    assert log.producers.entry(7).batches == known
    log.abandon()


def test_a_closed_or_abandoned_log_can_be_abandoned_again(make_log):
    box = make_log()
    box.append()
    box.log.close(clean=True)

    box.log.abandon()
    box.log.abandon()
