from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.record_batch.record_batch import CONTROL, TRANSACTIONAL, build_batch, read_header
from jbodlab.storage.log.producer_state import Duplicate, ProducerState
from jbodlab.storage.log.transactions import COMMIT, Marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import CorruptRecordError, KafkaError

PATH = Path("s")
MAX = 2**31 - 1


def header(sequence, count=1, *, epoch=0, producer_id=7, offset=0, timestamp=1000, attributes=0):
    return read_header(
        build_batch(
            [(None, b"v")] * count,
            base_offset=offset,
            timestamp_ms=timestamp,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            attributes=attributes,
        )
    )


def state_after(*headers):
    state = ProducerState()
    for each in headers:
        state.update(each)
    return state


def refusal(state, batch):
    with pytest.raises(KafkaError) as raised:
        state.check(batch)
    return raised.value.code


def test_a_repeated_batch_is_found_with_its_offsets_and_timestamp():
    state = state_after(
        header(0, 2, offset=10, timestamp=500), header(2, 3, offset=12, timestamp=600)
    )

    assert state.check(header(0, 2)) == Duplicate(base_offset=10, last_offset=11, timestamp=500)
    assert state.check(header(2, 3)) == Duplicate(base_offset=12, last_offset=14, timestamp=600)


def test_only_exactly_the_same_sequences_are_a_repetition():
    state = state_after(header(0, 2, offset=10))

    assert refusal(state, header(0, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(state, header(1, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_five_batches_are_remembered():
    state = state_after(*(header(number, offset=number) for number in range(6)))

    assert state.check(header(1)) is not None
    assert refusal(state, header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_five_batches_are_remembered_over_a_restart():
    state = state_after(*(header(number, offset=number) for number in range(6)))

    read = ProducerState.decode(PATH, state.encode(with_earlier=True))

    assert read == state
    for number in range(1, 6):
        assert read.check(header(number)) == Duplicate(
            base_offset=number, last_offset=number, timestamp=1000
        )
    assert refusal(read, header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_next_sequence_is_accepted_and_a_gap_is_not():
    state = state_after(header(0, 3))

    assert state.check(header(3)) is None
    assert refusal(state, header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero():
    state = state_after(header(MAX, offset=5))
    assert state.check(header(0)) is None

    state = state_after(header(MAX - 1, 4, offset=5))
    assert state.check(header(2)) is None
    assert state.check(header(MAX - 1, 4)) == Duplicate(
        base_offset=5, last_offset=8, timestamp=1000
    )


def test_an_older_epoch_is_refused():
    state = state_after(header(0, epoch=3))

    assert refusal(state, header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(state, header(0, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_at_zero_and_forgets_the_old_batches():
    state = state_after(header(0, epoch=3), header(1, epoch=3))

    assert refusal(state, header(2, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(0, epoch=4)) is None
    state.update(header(0, epoch=4, offset=9))
    entry = state.entry(7)
    assert entry is not None
    assert (entry.epoch, len(entry.batches)) == (4, 1)


def test_going_back_behind_a_new_epoch_or_a_marker_needs_the_log():
    state = state_after(header(0, offset=0), header(1, offset=1))
    assert state.can_go_back_to(0)
    # Sequences from before the epoch are forgotten, though the sequence begins at zero.
    state.update(header(0, epoch=1, offset=2))
    state.update(header(1, epoch=1, offset=3))
    assert state.can_go_back_to(3)
    assert not state.can_go_back_to(2)
    # A marker of a new epoch leaves no batch, and may stand behind the offset.
    state = state_after(
        header(0, offset=0, attributes=TRANSACTIONAL),
        header(-1, epoch=1, offset=1, attributes=CONTROL | TRANSACTIONAL),
    )
    assert not state.can_go_back_to(1)


def test_an_unknown_producer_may_start_anywhere():
    assert ProducerState().check(header(1234)) is None


def test_batches_without_a_producer_are_not_looked_at():
    state = state_after(header(-1, producer_id=-1, epoch=-1))

    assert len(state) == 0
    assert state.check(header(-1, producer_id=-1, epoch=-1)) is None


def test_an_open_transaction_is_kept_and_ended_by_its_marker():
    state = state_after(header(0, offset=20, attributes=TRANSACTIONAL))
    state.update(header(1, offset=21, attributes=TRANSACTIONAL))
    entry = state.entry(7)
    assert entry is not None
    assert entry.transaction_start == 20

    state.update(header(-1, offset=22, attributes=TRANSACTIONAL | CONTROL))
    entry = state.entry(7)
    assert entry is not None
    assert entry.transaction_start == -1
    assert state.check(header(2)) is None


def test_with_transaction_version_2_an_unknown_producer_begins_at_zero():
    assert ProducerState().check(header(0), begins_at_zero=True) is None
    with pytest.raises(KafkaError) as caught:
        ProducerState().check(header(1), begins_at_zero=True)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_of_no_transaction_is_refused_while_one_of_its_producer_is_open():
    state = state_after(header(0, attributes=TRANSACTIONAL))

    assert refusal(state, header(1)) is ErrorCode.INVALID_TXN_STATE
    assert state.check(header(1, attributes=TRANSACTIONAL)) is None
    end(state, epoch=0, offset=1)
    assert state.check(header(1)) is None


def end(state, *, epoch, offset, coordinator_epoch=3):
    batch = header(-1, epoch=epoch, offset=offset, attributes=CONTROL | TRANSACTIONAL)
    state.update(batch, Marker(COMMIT, coordinator_epoch))


def test_sequences_begin_anew_after_a_marker_that_bumped_the_epoch():
    state = state_after(header(0, 5, attributes=TRANSACTIONAL))
    end(state, epoch=1, offset=5)

    assert state.check(header(0, epoch=1, attributes=TRANSACTIONAL)) is None
    late = header(5, attributes=TRANSACTIONAL)
    assert refusal(state, late) is ErrorCode.INVALID_PRODUCER_EPOCH
    gap = header(1, epoch=1, attributes=TRANSACTIONAL)
    assert refusal(state, gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_go_on_after_a_marker_of_the_same_epoch():
    state = state_after(header(0, 5, attributes=TRANSACTIONAL))
    end(state, epoch=0, offset=5)

    assert state.check(header(5, attributes=TRANSACTIONAL)) is None
    again = header(0, attributes=TRANSACTIONAL)
    assert refusal(state, again) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_open_transaction_is_one_of_its_epoch():
    state = state_after(header(0, epoch=2, offset=7, attributes=TRANSACTIONAL))

    assert state.open_since(7, 2) == 7
    assert state.open_since(7, 3) == -1
    assert state.open_since(8, 0) == -1
    with pytest.raises(KafkaError) as caught:
        state.open_since(7, 1)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


FENCED, OLD_EPOCH = ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "bumps_epoch", "is_open", "expected"),
    [
        # Transaction version 1: the same epoch, also when nothing is open.
        (4, 3, False, True, True),
        (4, 3, False, False, True),
        (5, 3, False, True, True),
        (3, 3, False, True, OLD_EPOCH),
        # Transaction version 2: each marker bumps the epoch.
        (5, 3, True, True, True),
        (4, 3, True, True, OLD_EPOCH),
        (3, 3, True, True, OLD_EPOCH),
        (4, 3, True, False, False),
        (5, 3, True, False, True),
        # A coordinator that was deposed; the same one may come again.
        (5, 2, False, True, FENCED),
        (5, 2, True, True, FENCED),
        (4, 2, True, False, FENCED),
        (5, 4, False, True, True),
    ],
)
def test_which_markers_are_appended(epoch, coordinator_epoch, bumps_epoch, is_open, expected):
    state = ProducerState()
    end(state, epoch=4, offset=0, coordinator_epoch=3)
    if is_open:
        state.update(header(0, epoch=4, offset=1, attributes=TRANSACTIONAL))
    found = None
    try:
        found = state.needs_marker(7, epoch, coordinator_epoch, bumps_epoch=bumps_epoch)
    except KafkaError as error:
        found = error.code
    assert found is expected


def test_a_marker_of_an_unknown_producer_is_appended():
    assert ProducerState().needs_marker(7, 0, 0, bumps_epoch=True)


def test_a_marker_counts_for_the_expiry_of_its_producer():
    state = state_after(header(0, attributes=TRANSACTIONAL))
    assert state.expire(1_000, 100) == 0
    end(state, epoch=0, offset=1)
    assert state.expire(2_000, 100) == 0, "it is silent since the marker"
    assert state.expire(2_100, 100) == 1


def test_silent_producers_expire_unless_their_transaction_is_open():
    state = state_after(
        header(0, producer_id=1), header(0, producer_id=3, attributes=TRANSACTIONAL)
    )
    assert state.expire(1000, 6000) == 0
    state.update(header(0, producer_id=2))
    assert state.expire(2000, 6000) == 0

    assert state.expire(6999, 6000) == 0
    assert state.expire(7000, 6000) == 1
    assert state.entry(1) is None
    assert state.entry(2) is not None
    assert state.entry(3) is not None


def test_a_producer_that_writes_is_not_silent():
    state = state_after(header(0))
    state.expire(1000, 6000)
    state.update(header(1))

    assert state.expire(7000, 6000) == 0
    assert state.check(header(1)) is not None
    assert state.expire(13_000, 6000) == 1


DAY = 86_400_000


@pytest.mark.parametrize("record_age_ms", [2 * DAY, 0, -1000 * DAY])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_producer_is_as_old_as_its_last_append_whatever_time_its_records_have(
    record_age_ms, restarts
):
    appended = 5000 * DAY
    state = state_after(header(0, timestamp=appended - record_age_ms))
    for minutes in range(10, 24 * 60, 10):
        state.expire(appended + minutes * 60_000, DAY)
        if restarts:
            state = ProducerState.decode(PATH, state.encode(with_earlier=True))

    assert state.check(header(0)) is not None
    # The look behind the append came ten minutes later.
    assert state.expire(appended + DAY + 600_000, DAY) == 1
    assert len(state) == 0


def test_a_producer_of_a_snapshot_that_does_not_say_since_when_is_silent_from_the_start_on():
    state = ProducerState.decode(PATH, state_after(header(0, timestamp=1000)).encode())

    assert state.expire(10 * DAY, DAY) == 0
    assert state.expire(11 * DAY, DAY) == 1


def test_a_clock_that_was_set_back_keeps_no_producer():
    state = state_after(header(0))
    state.expire(100 * DAY, DAY)
    state.expire(1 * DAY, DAY)

    assert state.expire(2 * DAY, DAY) == 1


def test_snapshot_has_kafkas_layout():
    state = state_after(header(0, 2, offset=10), header(2, 3, offset=12, timestamp=1700))

    data = state.encode()

    assert (
        data.hex()
        == (
            "0001"  # version
            + data[2:6].hex()
            + "00000001"  # entries
            + "0000000000000007"  # producer id
            + "0000"  # epoch
            + "00000004"  # last sequence
            + "000000000000000e"  # last offset
            + "00000002"  # offset delta
            + "00000000000006a4"  # timestamp
            + "ffffffff"  # coordinator epoch
            + "ffffffffffffffff"  # no open transaction
        )
    )
    assert ProducerState().encode().hex() == "000148674bc700000000"


def test_what_kafka_reads_of_a_snapshot_has_only_the_last_batch():
    state = state_after(header(0, 2, offset=10), header(2, 3, offset=12))

    read = ProducerState.decode(PATH, state.encode())

    assert read.check(header(2, 3)) == Duplicate(base_offset=12, last_offset=14, timestamp=1000)
    assert refusal(read, header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert read.check(header(5)) is None
    assert ProducerState.decode(PATH, read.encode()) == read


def test_a_truncated_or_changed_snapshot_is_damaged():
    data = state_after(header(0)).encode()

    for size in range(len(data)):
        with pytest.raises(CorruptRecordError):
            ProducerState.decode(PATH, data[:size])
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x40
        with pytest.raises(CorruptRecordError):
            ProducerState.decode(PATH, bytes(changed))


def test_a_copy_is_independent():
    state = state_after(header(0))
    other = state.copy()

    other.update(header(1))

    assert state != other
    assert state.check(header(1)) is None
