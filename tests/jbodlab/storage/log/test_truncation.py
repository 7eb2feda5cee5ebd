from __future__ import annotations

import pytest

from jbodlab.record_batch.record_batch import read_header
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

EPOCHS = (0, 0, 0, 0, 1, 1, 1, 2, 2)
"""Leader epoch of each batch; a batch has two records."""


@pytest.fixture
def box(make_log):
    """Nine batches of two records in several segments."""
    made = make_log(segment_bytes=400, index_interval_bytes=100)
    for number, epoch in enumerate(EPOCHS):
        made.append(2, epoch=epoch, timestamp=1000 + number, producer=(7, 0, 2 * number))
    assert made.log.segment_base_offsets == (0, 6, 12)
    return made


@pytest.mark.parametrize("count", range(1, 9))
def test_after_truncation_everything_is_as_it_was_then(box, count):
    assert box.log.truncate_to(2 * count)

    log = box.log
    assert log.log_end_offset == 2 * count
    assert box.content() == b"".join(box.batches[:count])
    assert log.largest_timestamp == 1000 + count - 1
    assert log.producers.entry(7).last_sequence == 2 * count - 1
    assert log.epochs.entries == ((0, 0), (1, 8), (2, 14))[: EPOCHS[count - 1] + 1]
    assert log.size_bytes == sum(map(len, box.batches[:count]))
    again = box.reopen(clean=False)
    assert again.log_end_offset == 2 * count
    assert again.epochs.entries == log.epochs.entries


def test_a_truncated_log_is_appended_to(box):
    box.log.read(10, 1000)
    box.log.truncate_to(10)
    del box.batches[5:]

    box.append(4, epoch=5, producer=(7, 0, 10))
    box.append(4, epoch=5, producer=(7, 0, 14))

    assert box.content() == b"".join(box.batches)
    assert box.log.epochs.entries == ((0, 0), (1, 8), (5, 10))
    assert (box.directory / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 8\n5 10\n"
    box.reopen(clean=False)
    assert box.content() == b"".join(box.batches)


def test_a_repeated_batch_is_accepted_again_once_it_was_truncated(box):
    header = read_header(box.batches[6])
    assert box.log.producers.check(header) is not None

    box.log.truncate_to(12)

    assert box.log.producers.check(header) is None


def test_truncation_within_a_batch_drops_the_whole_batch(box):
    box.log.truncate_to(9)

    assert box.log.log_end_offset == 8
    assert box.content() == b"".join(box.batches[:4])


def test_truncation_at_or_behind_the_end_cuts_only_epochs(box):
    box.log.assign_epoch(9, 18)

    assert not box.log.truncate_to(18)

    assert box.log.log_end_offset == 18
    assert box.log.epochs.latest_epoch == 2
    assert not box.log.truncate_to(99)


def test_files_of_dropped_segments_and_later_snapshots_are_gone(box):
    box.log.truncate_to(4)

    assert box.names() == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]


def test_recovery_point_and_log_start_are_not_behind_the_end(box):
    box.log.flush()
    box.log.advance_start_to(11)

    box.log.truncate_to(10)

    assert box.log.recovery_point == 10
    assert box.log.log_start_offset == 10


def test_truncation_below_the_first_segment_begins_anew_there(make_log):
    box = make_log()
    box.log.truncate_fully_to(100)
    box.append(2, epoch=4)

    assert box.log.truncate_to(50)

    assert (box.log.log_start_offset, box.log.log_end_offset) == (50, 50)
    assert box.log.epochs.entries == ()


def test_truncating_fully_drops_everything(box):
    box.log.truncate_fully_to(1000)

    log = box.log
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
    assert (log.size_bytes, log.segment_base_offsets) == (0, (1000,))
    assert log.producers.entry(7) is None
    assert log.epochs.entries == ()
    assert (box.directory / "leader-epoch-checkpoint").read_text() == "0\n0\n"
    box.batches.clear()
    box.append(3, epoch=6)
    assert box.content() == box.batches[0]
    log = box.reopen(clean=False)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1003)


def test_the_log_start_only_moves_forward_and_not_behind_the_end(box):
    assert box.log.advance_start_to(9)
    assert not box.log.advance_start_to(3)

    assert box.log.log_start_offset == 9
    assert box.log.epochs.entries == ((1, 9), (2, 14))
    with pytest.raises(KafkaError) as raised:
        box.log.advance_start_to(19)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_finds_its_way_after_batches_were_replaced_by_others(make_log):
    box = make_log()
    for _ in range(3):
        box.append()
    box.log.read(0, 1)
    box.log.truncate_to(1)

    replacing = box.append(3)

    assert box.log.read(2, 1) == replacing
    assert box.log.read(3, 1) == replacing


@pytest.mark.parametrize("segment_bytes", [1 << 20, 300])
def test_a_cut_before_a_new_producer_epoch_brings_the_one_before_back(make_log, segment_bytes):
    box = make_log(segment_bytes=segment_bytes)
    for sequence in range(3):
        box.append(producer=(7, 0, sequence))
    before = box.log.producers.copy()
    box.append(producer=(7, 1, 0))
    box.append(producer=(7, 1, 1))

    box.log.truncate_to(3)

    assert box.log.producers == before
