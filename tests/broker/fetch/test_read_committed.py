"""Readers of committed records: how far they see, and what they are told to skip."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.fetch.fetch_requests import FetchResult, OffsetQuery
from broker.produce.record_deletion import RecordDeletion
from broker.replica.log.partition_log import PartitionLog
from jbodlab.config.topic_keys import SEGMENT_BYTES
from jbodlab.record_batch.record_batch import iterate_headers, read_header
from jbodlab.storage.log.transactions import read_marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId
from tests.broker.fetch.requests import fetch_entry, fetch_params
from tests.broker.replicas import TP
from tests.broker.stage import Stage
from tests.jbodlab.storage.log.transactional import ABORT, COMMIT, data, marker, plain

STORY = (
    plain(0),
    data(1, 7, 0),
    data(2, 8, 0),
    marker(3, 7, ABORT),
    plain(4),
    marker(5, 8, COMMIT),
    data(6, 9, 0),
    plain(7),
)


class Reading(Stage):
    """One partition, whose readers ask for committed records."""

    async def append(self, *batches: bytes) -> None:
        """Append as a coordinator will, or a leader written by Kafka did."""
        for batch in batches:
            header = read_header(batch)
            found = read_marker(batch, 0, header) if header.is_control else None
            self.log.append_as_follower(
                batch, [header], {} if found is None else {header.base_offset: found}
            )
        await self.written()

    async def fetch(self, offset: int, *, read_committed: bool = True) -> FetchResult:
        params = fetch_params(min_bytes=0, read_committed=read_committed)
        entry = fetch_entry(offset, topic_id=None)
        (result,) = await self.host.manager.fetches.fetch(params, [entry])
        return result

    async def fetch_twice(self, offset: int) -> list[FetchResult]:
        """Fetch the partition as if it were two."""
        params = fetch_params(min_bytes=0, max_bytes=4 << 20, read_committed=True)
        entry = fetch_entry(offset, topic_id=None)
        return await self.host.manager.fetches.fetch(params, [entry, entry])

    async def marked(self, timestamp: int, isolation: int) -> tuple[int, int]:
        (found,) = await self.host.manager.offsets.list_offsets(
            [OffsetQuery(topic_partition=TP, timestamp=timestamp)], BrokerId(-1), isolation
        )
        assert found.error_code is ErrorCode.NONE
        return found.timestamp, found.offset

    async def latest(self, isolation: int) -> int:
        return (await self.marked(-1, isolation))[1]


@pytest.fixture
async def reading(tmp_path: Path) -> AsyncIterator[Reading]:
    async with Reading(tmp_path, dir_count=1) as reading:
        await reading.begin(**{SEGMENT_BYTES: "250"})
        yield reading


def offsets(result: FetchResult) -> list[int]:
    return [header.base_offset for _, header in iterate_headers(b"".join(result.records))]


async def test_records_of_open_transactions_are_not_seen_and_aborted_ones_are_named(
    reading: Reading,
) -> None:
    await reading.append(*STORY[:4])
    result = await reading.fetch(0)
    # The transaction of 8 is open from offset 2 on.
    assert result.last_stable_offset == 2
    assert offsets(result) == [0, 1]
    assert result.aborted_transactions == [(7, 1)]
    assert result.high_watermark == 4
    assert await reading.latest(1) == 2
    assert await reading.latest(0) == 4

    await reading.append(*STORY[4:])
    seen = []
    offset = 0
    while found := await reading.fetch(offset):
        if not found.records_size:
            break
        seen += offsets(found)
        offset = seen[-1] + 1
    assert seen == [0, 1, 2, 3, 4, 5]
    assert found.last_stable_offset == 6
    assert await reading.latest(1) == 6


async def test_readers_of_everything_are_told_nothing_of_transactions(reading: Reading) -> None:
    await reading.append(*STORY)
    result = await reading.fetch(6, read_committed=False)
    assert offsets(result)[0] == 6
    assert result.aborted_transactions is None


async def test_a_log_without_transactions_names_none(reading: Reading) -> None:
    await reading.append(plain(0), plain(1))
    result = await reading.fetch(0)
    assert result.aborted_transactions == ()
    assert result.last_stable_offset == 2


async def test_records_whose_aborted_transactions_cannot_be_found_are_not_given_out(
    reading: Reading, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> list[tuple[int, int]]:
        raise RuntimeError("fault of this program")

    await reading.append(*STORY)
    monkeypatch.setattr(PartitionLog, "aborted_between", broken)
    for result in await reading.fetch_twice(0):
        assert result.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert not result.records_size
    assert "cannot read a log" in caplog.text


async def test_the_largest_timestamp_is_looked_for_below_what_a_reader_sees(
    reading: Reading,
) -> None:
    await reading.append(plain(0), data(1, 7, 0, timestamp_ms=5000))
    assert await reading.marked(-3, 0) == (5000, 1)
    # The transaction of 7 is open; nothing above its first offset is seen.
    assert await reading.marked(-3, 1) == (1000, 0)

    await reading.append(marker(2, 7, COMMIT))
    assert await reading.marked(-3, 1) == (5000, 1)


async def test_the_largest_timestamp_is_one_of_what_was_not_deleted(reading: Reading) -> None:
    for offset, timestamp in enumerate((1000, 9000, 2000, 3000)):
        await reading.append(data(offset, -1, -1, timestamp_ms=timestamp))
    (deleted,) = await reading.host.manager.delete_records(
        [RecordDeletion(topic_partition=TP, offset=2)], 10_000
    )
    assert deleted.error_code is ErrorCode.NONE

    assert await reading.marked(-3, 0) == (3000, 3)


@pytest.mark.parametrize("isolation", [0, 1])
async def test_a_time_in_an_open_transaction_is_found_by_who_sees_it_only(
    reading: Reading, isolation: int
) -> None:
    await reading.append(plain(0), data(1, 7, 0, timestamp_ms=5000))
    found = (5000, 1) if isolation == 0 else (-1, -1)
    assert await reading.marked(4000, isolation) == found
    assert await reading.marked(500, isolation) == (1000, 0)


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
async def test_a_marker_of_the_leader_says_how_the_transaction_ended(
    reading: Reading, kind: int
) -> None:
    log = reading.log
    for batch in (plain(0), data(0, 7, 0), marker(0, 7, kind)):
        log.append_as_leader(batch, read_header(batch), 0)
    await log.written()

    result = await reading.fetch(0)

    assert result.last_stable_offset == 3
    assert result.aborted_transactions == ([(7, 1)] if kind == ABORT else ())
    entry = log.producers.entry(7)
    assert entry is not None
    assert entry.coordinator_epoch == 3
