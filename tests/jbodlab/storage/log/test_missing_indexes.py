"""Indexes that somebody removed, emptied or cut while no process had the log open."""

from __future__ import annotations

import logging

import pytest

from jbodlab.storage.directory import names
from jbodlab.storage.log.producer_state import ProducerState, told_aborted
from tests.jbodlab.storage.log.transactional import (
    ABORTED,
    COMMIT,
    STORY,
    append,
    check,
    data,
    marker,
    plain,
)

AGAIN = "of which the indexes were not all there"


def stopped(make_log, segment_bytes=200, story=STORY, **config):
    """A log of some segments, closed in order."""
    box = make_log(segment_bytes=segment_bytes, **config)
    append(box, story)
    box.log.close(clean=True)
    return box


def opened(box, caplog, *, clean=True, story=STORY):
    """Open it; returns the lines of the log that tell of segments that were read again."""
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        box.reopen(clean=clean, recovery_point=len(story))
    return [each.message for each in caplog.records if AGAIN in each.message]


def content(box):
    return {
        path.name: path.read_bytes()
        for path in sorted(box.directory.iterdir())
        if path.suffix in names.INDEX_SUFFIXES
    }


def remove(box, *suffixes):
    for suffix in suffixes:
        for path in box.directory.glob(f"*{suffix}"):
            path.unlink()


@pytest.mark.parametrize("segment_bytes", [1 << 20, 300, 200])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "suffixes",
    [
        (".index", ".timeindex", ".txnindex"),
        (".index", ".timeindex", ".txnindex", ".snapshot"),
        (".index", ".txnindex"),
        (".timeindex", ".txnindex"),
        (".txnindex",),
        (".txnindex", ".snapshot"),
        (".index",),
    ],
    ids="".join,
)
def test_segments_without_their_indexes_are_read_again_and_said_so_once(
    make_log, caplog, suffixes, clean, segment_bytes
):
    box = stopped(make_log, segment_bytes)
    before = content(box)
    remove(box, *suffixes)

    lines = opened(box, caplog, clean=clean)

    check(box, len(STORY))
    segments = len(list(box.directory.glob("*.log")))
    assert len(lines) == (1 if clean or segments > 1 else 0)
    box.log.close(clean=True)
    assert content(box) == before
    assert opened(box, caplog) == []
    check(box, len(STORY))


RISING = tuple(data(each, 7, each, timestamp_ms=1000 + each) for each in range(9))


@pytest.mark.parametrize("segment_bytes", [1 << 20, 300, 200])
@pytest.mark.parametrize("suffix", names.INDEX_SUFFIXES)
@pytest.mark.parametrize("story", [STORY, RISING], ids=["transactions", "rising timestamps"])
def test_an_emptied_index_is_made_anew(make_log, caplog, suffix, segment_bytes, story):
    box = stopped(make_log, segment_bytes, story, index_interval_bytes=1)
    before = content(box)
    for path in box.directory.glob(f"*{suffix}"):
        path.write_bytes(b"")

    opened(box, caplog, story=story)

    if story is STORY:
        check(box, len(STORY))
    box.log.close(clean=True)
    after = content(box)
    # An offset index may be empty: a reader begins at the beginning.
    if suffix != ".index":
        assert {name: after[name] for name in before} == before


def test_an_index_that_lost_an_entry_is_made_anew(make_log, caplog):
    box = stopped(make_log, 1 << 20)
    (path,) = box.directory.glob("*.txnindex")
    path.write_bytes(path.read_bytes()[:34])

    assert len(opened(box, caplog)) == 1

    check(box, len(STORY))


@pytest.mark.parametrize("segment_bytes", [1 << 20, 300])
def test_an_index_is_trusted_only_beside_the_snapshot_behind_its_segment(
    make_log, caplog, segment_bytes
):
    box = stopped(make_log, segment_bytes)
    before = content(box)
    path = max(box.directory.glob("*.txnindex"), key=lambda each: each.stat().st_size)
    path.write_bytes(path.read_bytes()[:34])
    remove(box, ".snapshot")

    assert len(opened(box, caplog)) == 1

    check(box, len(STORY))
    box.log.close(clean=True)
    assert content(box) == before
    assert opened(box, caplog) == []


def test_nothing_is_read_again_where_all_is_there(make_log, caplog):
    committed = (
        *(data(0, 7, 0), marker(1, 7, COMMIT), data(2, 7, 1), data(3, 8, 0), marker(4, 7, COMMIT)),
        *(plain(offset) for offset in range(5, 9)),
    )
    box = stopped(make_log, story=committed)
    for _ in range(2):
        assert opened(box, caplog, story=committed) == []
        box.log.close(clean=True)


def test_nothing_is_read_again_after_many_stops_in_order(make_log, caplog):
    box = make_log(segment_bytes=1 << 20)
    for each in RISING:
        append(box, (each,))
        box.log.close(clean=True)
        assert opened(box, caplog, story=RISING) == []


def of_kafka(box):
    """Let snapshots end with the entries that Kafka writes."""
    for path in box.directory.glob("*.snapshot"):
        path.write_bytes(ProducerState.decode(path, path.read_bytes()).encode())


def test_segments_of_kafka_without_an_index_are_read_once_if_there_may_be_transactions(
    make_log, caplog
):
    box = stopped(make_log)
    remove(box, ".txnindex")
    of_kafka(box)

    assert len(opened(box, caplog)) == 1
    check(box, len(STORY))
    box.log.close(clean=True)
    assert opened(box, caplog) == []


def test_segments_of_kafka_without_transactions_are_not_read(make_log, caplog):
    story = tuple(plain(offset) for offset in range(9))
    box = stopped(make_log, story=story)
    of_kafka(box)

    assert opened(box, caplog, story=story) == []


def test_indexes_that_kafka_wrote_are_trusted(make_log, caplog):
    box = stopped(make_log, 1 << 20)
    of_kafka(box)

    assert opened(box, caplog) == []
    check(box, len(STORY))


def test_a_snapshot_names_the_index_of_the_segment_before_it(make_log):
    box = stopped(make_log, 300)

    told = {
        names.parse_offset(path.name): told_aborted(path, path.read_bytes()).aborted_count
        for path in box.directory.glob("*.snapshot")
    }

    bases = sorted(names.parse_offset(path.name) for path in box.directory.glob("*.log"))
    ends = [*bases[1:], len(STORY)]
    assert told == {
        end: sum(base <= entry.last_offset < end for entry in ABORTED)
        for base, end in zip(bases, ends, strict=True)
    }
