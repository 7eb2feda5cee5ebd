"""Open and ended transactions of a log, and the index of the aborted ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.record_batch.record_batch import read_header
from jbodlab.storage.log.transactions import (
    Marker,
    build_marker,
    decode_aborted,
    encode_aborted,
    read_marker,
)
from jbodlab.vocabulary.errors import CorruptRecordError
from tests.jbodlab.storage.log.transactional import (
    ABORT,
    ABORTED,
    COMMIT,
    STORY,
    all_aborted,
    append,
    check,
    data,
    marker,
)

OFFSET_AND_EPOCH = 16
"""Bytes of a batch that the log stamps."""


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_marker_is_built_as_kafka_writes_it(kind: int) -> None:
    built = build_marker(7, 0, Marker(kind, 3), timestamp_ms=1000)

    assert built[OFFSET_AND_EPOCH:] == marker(0, 7, kind)[OFFSET_AND_EPOCH:]
    assert read_marker(built, 0, read_header(built)) == Marker(kind, 3)


@pytest.mark.parametrize("segment_bytes", [1 << 20, 300, 200])
def test_the_index_names_the_aborted_transactions_and_survives_a_kill(make_log, segment_bytes):
    box = make_log(segment_bytes=segment_bytes)
    append(box, STORY)
    check(box, len(STORY))

    for clean in (False, True):
        if clean:
            box.log.close(clean=True)
        box.reopen(clean=clean)
        check(box, len(STORY))
    for path in box.directory.glob("*.txnindex"):
        path.unlink()
    box.reopen(clean=False)
    check(box, len(STORY))


@pytest.mark.parametrize("segment_bytes", [1 << 20, 300, 200])
@pytest.mark.parametrize("count", range(1, len(STORY)))
def test_a_truncated_log_has_the_transactions_of_then(make_log, segment_bytes, count):
    box = make_log(segment_bytes=segment_bytes)
    append(box, STORY)

    box.log.truncate_to(count)

    check(box, count)
    append(box, STORY[count:])
    check(box, len(STORY))
    box.reopen(clean=False)
    check(box, len(STORY))


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rolled", [True, False])
def test_a_transaction_whose_marker_is_cut_after_a_restart_is_open_again(
    make_log, kind, clean, rolled
):
    box = make_log()
    append(box, (data(0, 7, 0, count=3),))
    if rolled:
        box.log.roll()
    append(box, (marker(3, 7, kind),))
    assert box.log.last_stable_offset(4) == 4
    box.reopen(clean=clean)

    box.log.truncate_to(3)

    assert box.log.last_stable_offset(3) == 0
    assert all_aborted(box) == []


def test_a_marker_that_the_high_watermark_has_passed_is_cut_as_any_other(make_log):
    box = make_log()
    append(box, (data(0, 7, 0, count=3), marker(3, 7, COMMIT)))
    assert box.log.last_stable_offset(4) == 4

    box.log.truncate_to(3)

    assert box.log.last_stable_offset(3) == 0


def test_the_last_stable_offset_waits_for_open_transactions_and_for_replicated_markers(make_log):
    box = make_log()
    state = box.log.state
    append(box, STORY[:4])
    assert [state.last_stable_offset(hw) for hw in (0, 1, 4)] == [0, 1, 1]
    append(box, STORY[4:5])
    # The marker of 7 is not replicated below 5; 8 is open from 2 on.
    assert state.last_stable_offset(4) == 1
    assert state.last_stable_offset(5) == 2
    append(box, STORY[5:7])
    assert state.last_stable_offset(6) == 2
    assert state.last_stable_offset(7) == 7


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize(
    "content",
    [b"\x00", bytes(33), bytes(34), bytes(68), b"\xff" * 34],
    ids=["one byte", "torn", "zeros", "more zeros", "ones"],
)
@pytest.mark.parametrize("segment_bytes", [1 << 20, 300, 200])
def test_a_damaged_index_is_made_anew_from_the_log_also_after_a_clean_stop(
    make_log, segment_bytes, content, number
):
    box = make_log(segment_bytes=segment_bytes)
    append(box, STORY)
    box.log.close(clean=True)
    before = {path: path.read_bytes() for path in sorted(box.directory.glob("*.txnindex"))}
    list(before)[number].write_bytes(content)

    box.reopen(clean=True, recovery_point=len(STORY))

    check(box, len(STORY))
    assert {path: path.read_bytes() for path in sorted(box.directory.glob("*.txnindex"))} == before


@pytest.mark.parametrize("entries", [None, (), ABORTED])
def test_an_index_that_is_changed_in_an_open_log_is_refused(make_log, entries):
    box = make_log(segment_bytes=200)
    append(box, STORY)
    path = sorted(box.directory.glob("*.txnindex"))[0]
    if entries is None:
        path.unlink()
    else:
        path.write_bytes(encode_aborted(entries))

    with pytest.raises(CorruptRecordError, match="entries instead of 1"):
        all_aborted(box)
    # Records that would come back to life are not cut loose either.
    with pytest.raises(CorruptRecordError, match="entries instead of 1"):
        box.log.truncate_to(ABORTED[0].last_offset + 1)

    box.reopen(clean=False)
    check(box, len(STORY))


def test_a_damaged_index_costs_nothing_of_the_segments_before_and_behind_it(make_log):
    box = make_log(segment_bytes=200)
    append(box, STORY)
    box.log.close(clean=True)
    content = {path: path.read_bytes() for path in box.directory.glob("*.log")}
    sorted(box.directory.glob("*.txnindex"))[-1].write_bytes(b"torn")

    box.reopen(clean=True, recovery_point=len(STORY))

    assert {path: path.read_bytes() for path in box.directory.glob("*.log")} == content
    assert not list(box.directory.glob("*.damaged"))


def test_an_index_is_synced_with_the_marker_that_it_is_about(make_log):
    box = make_log()
    append(box, STORY[:4])
    assert box.log.state.sync_request(with_active=True).indexed == ()
    box.log.flush()
    append(box, STORY[4:5])

    request = box.log.state.sync_request(with_active=True)

    assert request.indexed == (0,)
    assert request.names
    box.log.state.synced(request)
    # Recovery does not read the segment any more.
    box.log.roll()
    assert not box.log.needs_flush


def test_entries_have_kafkas_layout():
    encoded = encode_aborted(ABORTED[:1])

    assert encoded.hex() == "0000" + "".join(f"{n:016x}" for n in (7, 1, 4, 2))
    assert decode_aborted(Path("t"), encode_aborted(ABORTED)) == list(ABORTED)
    with pytest.raises(CorruptRecordError, match="does not end with an entry"):
        decode_aborted(Path("t"), encoded[:-1])
    with pytest.raises(CorruptRecordError, match="not ascending"):
        decode_aborted(Path("t"), encoded + encoded)
    # A marker is never the first batch of what it ends; so zeros are no entry either.
    with pytest.raises(CorruptRecordError, match="not ascending"):
        decode_aborted(Path("t"), bytes(34))


def test_only_transactions_with_records_in_the_range_are_named(make_log):
    box = make_log(segment_bytes=200)
    append(box, STORY)

    assert all_aborted(box, 0, 1) == []
    assert all_aborted(box, 0, 2) == [ABORTED[0]]
    assert all_aborted(box, 4, 8) == [ABORTED[0]]
    assert all_aborted(box, 5, 8) == []
    assert all_aborted(box, 5, 9) == [ABORTED[1]]
