"""Segments that a disk has lost at either end of a log, told from those that were deleted."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random

import pytest

from broker.disk.upkeep.checkpoints import log_start_offsets
from jbodlab.record_batch.record_batch import build_batch, read_header
from jbodlab.storage.directory import names
from jbodlab.storage.directory.checkpoints import read_offsets, write_offsets
from jbodlab.storage.log import checkpointed
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.ids import TopicPartition
from tests.jbodlab.storage.conftest import TOPIC_ID, LogBox
from tests.jbodlab.storage.log.direct_log import DirectLog
from tests.simulation.disk import LOSSES, DiskView, Medium, SimDisk
from tests.simulation.loop import SimLoop

TP = TopicPartition("orders", 3)
CONFIG = LogConfig(segment_bytes=100, retention_bytes=250)


def filled(box: LogBox, count: int = 5) -> LogBox:
    """One batch with one record to a segment."""
    for _ in range(count):
        box.append()
    assert box.log.segment_base_offsets == tuple(range(count))
    return box


def lose(box: LogBox, base_offset: int) -> None:
    for path in box.directory.glob(f"{base_offset:020}.*"):
        path.unlink()


@pytest.fixture
def box(make_log) -> LogBox:
    return filled(make_log(segment_bytes=100))


@pytest.mark.parametrize("clean", [False, True])
def test_a_first_segment_above_the_known_start_is_a_loss(box: LogBox, clean: bool) -> None:
    box.log.close(clean=clean)
    lose(box, 0)
    lose(box, 1)

    log = box.reopen(clean=clean, recovery_point=5, log_start_offset=0)

    assert (log.state.lost_from, log.log_start_offset, log.log_end_offset) == (0, 2, 5)
    # Should this process die as well, the next one still knows.
    assert checkpointed.start_offset(log.state) == 0


def test_who_leads_goes_on_with_what_there_is_and_who_copies_begins_where_the_loss_did(
    box: LogBox,
) -> None:
    lose(box, 0)
    leading = box.reopen(clean=False, log_start_offset=0)
    leading.assign_epoch(1)
    assert leading.state.lost_from is None
    assert checkpointed.start_offset(leading.state) == 1

    following = box.reopen(clean=False, log_start_offset=0)
    assert following.state.lost_from == 0
    following.truncate_fully_to(0)
    assert (following.state.lost_from, following.log_end_offset) == (None, 0)


def test_what_was_deleted_is_no_loss(box: LogBox) -> None:
    """By retention, by DeleteRecords, as the leader had; and where nobody knows of any start."""
    box.log.advance_start_to(3)
    # The checkpoint is written, and the segments are not gone yet.
    assert box.reopen(clean=False, log_start_offset=3).state.lost_from is None
    assert box.log.log_start_offset == 3
    box.log.retention(0, 5)
    assert box.log.segment_base_offsets == (3, 4)
    assert box.reopen(clean=False, log_start_offset=3).state.lost_from is None
    # Kafka's own, or one without a checkpoint.
    assert box.reopen(clean=False, log_start_offset=None).state.lost_from is None
    assert box.log.log_start_offset == 3


def test_a_copy_that_a_move_makes_has_lost_nothing(box: LogBox) -> None:
    lose(box, 0)
    box.log.files.rename_to(names.future_dir(TP, "a" * 32))

    assert box.reopen(clean=False, log_start_offset=0).state.lost_from is None


@pytest.mark.parametrize(("gone", "end"), [((4,), 4), ((3, 4), 3), ((0, 1, 2, 3, 4), 0)])
def test_a_log_that_ends_before_its_recovery_point_says_what_is_lost(
    box: LogBox, gone: tuple[int, ...], end: int, caplog: pytest.LogCaptureFixture
) -> None:
    box.log.close(clean=True)
    for base_offset in gone:
        lose(box, base_offset)

    with caplog.at_level(logging.ERROR):
        log = box.reopen(clean=True, recovery_point=5, log_start_offset=0)

    assert log.log_end_offset == end
    (record,) = caplog.records
    assert (
        f"this replica has lost offsets {end} to 4, which were on the disk" in record.getMessage()
    )


def test_a_log_that_holds_nothing_needs_no_start_on_the_disk(make_log) -> None:
    box = make_log(segment_bytes=100)
    assert checkpointed.start_offset(box.log.state) is None
    box.append()
    assert checkpointed.start_offset(box.log.state) == 0
    box.log.truncate_fully_to(7)
    assert checkpointed.start_offset(box.log.state) is None
    box.append()
    box.log.advance_start_to(8)
    # Its first segment begins before that.
    assert checkpointed.start_offset(box.log.state) == 8


def append(log: DirectLog) -> None:
    batch = build_batch([(None, b"v")], base_offset=log.log_end_offset, timestamp_ms=1)
    log.append([batch], [read_header(batch)])


class Host:
    """A log on a simulated disk, whose log start is written before segments go."""

    def __init__(self, loop: SimLoop, seed: int, *, is_shuffled: bool) -> None:
        self.disk = SimDisk(loop, Path("/d"), Medium(1, 1 << 40, is_ordered=False), str(seed))
        self.disk.medium.is_shuffled = is_shuffled
        self.disk.random = Random(seed)
        self.fs = DiskView(self.disk)
        self.path = Path("/d") / names.LOG_START_OFFSET_FILE
        self.log = DirectLog.create(self.fs, Path("/d"), TP, TOPIC_ID, CONFIG)

    def write_start(self) -> None:
        write_offsets(self.fs, self.path, log_start_offsets([(self.log, 0)]))

    def steps(self) -> list[object]:
        """Events, one step after the other; as a broker does it."""
        log = self.log
        grow = [lambda: append(log)] * 3
        return [
            lambda: append(log),
            log.flush,
            self.write_start,
            *grow,
            log.flush,
            *grow,
            lambda: log._do(log.state.retain(0, log.log_end_offset)),
            self.write_start,
            lambda: log._do(log.state.drop_below(log.log_start_offset, 0)),
            *grow,
            lambda: log.delete_expired(1 << 60),
            log.flush,
        ]

    def loaded(self) -> DirectLog | None:
        if not self.fs.exists(Path("/d/orders-3")):
            return None
        start = read_offsets(self.fs, self.path).get(TP) if self.fs.exists(self.path) else None
        return DirectLog.load(self.fs, Path("/d/orders-3"), CONFIG, log_start_offset=start)


@pytest.fixture
def loop():
    loop = SimLoop("1")
    yield loop
    loop.close()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_after_a_loss_of_power_a_log_has_its_first_segment_or_says_that_it_lost_it(
    loop: SimLoop, loss: str, is_shuffled: bool
) -> None:
    found_losses = 0
    count = len(Host(loop, 0, is_shuffled=is_shuffled).steps())
    for seed in range(6):
        for last in range(3, count + 1):
            host = Host(loop, seed, is_shuffled=is_shuffled)
            for step in host.steps()[:last]:
                step()  # type: ignore[operator]
            start = host.log.log_start_offset

            host.disk.lose_power(loss)

            found = host.loaded()
            assert found is not None
            first = found.segment_base_offsets[0]
            known = read_offsets(host.fs, host.path)[TP]
            assert known <= start
            # A record that was synced is below every start that is known: none of it is taken for
            # lost.
            assert found.state.lost_from is None, (seed, last)
            assert first <= known
            found_losses += first > 0
            found.abandon()
    assert found_losses or loss == "none"


def test_the_name_of_a_first_segment_that_a_loss_of_power_took_is_missed(loop: SimLoop) -> None:
    """The disk keeps the name of a later one, as no names were synced yet."""
    found_losses = 0
    for seed in range(40):
        host = Host(loop, seed, is_shuffled=True)
        host.fs.fsync_dir(Path("/d"))
        append(host.log)
        host.write_start()
        append(host.log)
        append(host.log)
        for name in host.fs.listdir(host.log.directory):
            host.fs.fsync_file(host.log.directory / name)

        host.disk.lose_power("any")

        found = host.loaded()
        assert found is not None
        first = found.segment_base_offsets[0]
        assert found.state.lost_from == (0 if first else None)
        found_losses += first > 0
        found.abandon()
    assert found_losses
