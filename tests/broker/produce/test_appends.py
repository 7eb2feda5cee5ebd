"""In which order batches are appended whose checks take different times."""

from __future__ import annotations

import asyncio
import gzip
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.bounds.limits import CHECK_THREADS
from broker.produce import appends, batch_checks
from broker.replica.waiting.append_entries import AppendResult
from jbodlab.record_batch import record_batch
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import HEADER_SIZE, build_batch
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.replicas import (
    DEADLINE_S,
    TOPIC_ID,
    Host,
    until,
)
from tests.broker.stage import Stage, tp

OTHER = tp(1)


def plain(sequence: int, count: int = 1) -> bytes:
    return build_batch(
        [(None, b"v")] * count,
        timestamp_ms=1_000,
        producer_id=5,
        producer_epoch=0,
        base_sequence=sequence,
    )


def compressed(sequence: int, body: bytes | None = None) -> bytes:
    """Return a batch of one record, compressed with gzip, or of a given body."""
    data = plain(sequence)
    body = gzip.compress(data[HEADER_SIZE:]) if body is None else body
    head = bytearray(data[:HEADER_SIZE])
    head[8:12] = struct.pack(">i", HEADER_SIZE - 12 + len(body))
    head[21:23] = b"\0\1"
    made = bytes(head) + body
    crc = crc32c(made[record_batch.CRC_START :])
    return made[:17] + struct.pack(">I", crc) + made[21:]


class Gate(threading.Event):
    """Lets no compressed batch be checked before it is set; counts those that stand before it."""

    reached = 0


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    opened = Gate()
    real = batch_checks.check_body

    def check_body(records, header, limits, now_ms):  # type: ignore[no-untyped-def]
        if header.compression:
            opened.reached += 1
            assert opened.wait(DEADLINE_S)
        return real(records, header, limits, now_ms)

    monkeypatch.setattr(appends, "check_body", check_body)
    return opened


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with Stage(tmp_path) as stage:
        await stage.begin(partitions=2)
        yield stage.host


async def results(*futures: asyncio.Future[list[AppendResult]]) -> list[tuple[ErrorCode, int]]:
    answers = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)
    return [(each.error_code, each.base_offset) for (each,) in answers]


async def test_batches_behind_one_whose_check_takes_long_keep_their_order(
    host: Host, gate: Gate
) -> None:
    futures = [
        host.produce(plain(0)),
        host.produce(compressed(1)),
        host.produce(plain(2)),
        host.produce(plain(3, count=3_000)),
        host.produce(compressed(3_003)),
    ]
    # Another partition does not wait.
    assert await results(host.produce(plain(0), topic_partition=OTHER)) == [(0, 0)]
    assert await results(futures[0]) == [(0, 0)]
    assert not any(future.done() for future in futures[1:])

    gate.set()

    assert await results(*futures[1:]) == [(0, 1), (0, 2), (0, 3), (0, 3_003)]
    # The line is gone: what comes now is appended at once.
    partition = await host.online()
    future = host.produce(plain(3_004))
    assert partition.log.end_offset == 3_005
    assert await results(future) == [(0, 3_004)]


async def test_batch_that_turns_out_bad_is_refused_and_those_behind_it_go_on(
    host: Host, gate: Gate
) -> None:
    futures = [
        host.produce(compressed(0)),
        host.produce(compressed(9, body=b"rubbish")),
        host.produce(plain(1)),
    ]
    gate.set()

    assert await results(*futures) == [(0, 0), (ErrorCode.INVALID_RECORD, -1), (0, 1)]


async def test_batches_keep_their_order_when_their_log_is_held_after_the_check(
    host: Host, gate: Gate
) -> None:
    partition = await host.online()
    futures = [host.produce(compressed(0)), host.produce(plain(1))]
    partition.hold()
    gate.set()
    done = host.produce(plain(0), topic_partition=OTHER)
    assert await results(done) == [(0, 0)]
    await until(lambda: not host.manager.appends._lines)
    futures.append(host.produce(plain(2)))
    assert not any(future.done() for future in futures)

    partition.release()

    assert await results(*futures) == [(0, 0), (0, 1), (0, 2)]


async def test_replica_that_is_gone_after_the_check_refuses(host: Host, gate: Gate) -> None:
    future = host.produce(compressed(0))
    partition = await host.online()
    partition.go_offline("the disk died")
    gate.set()

    assert await results(future) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]


async def test_what_is_still_to_be_checked_at_the_end_is_refused(host: Host, gate: Gate) -> None:
    futures = [host.produce(compressed(number)) for number in range(CHECK_THREADS + 1)]
    await until(lambda: gate.reached == CHECK_THREADS)
    host.manager.appends.close()
    gate.set()

    answers = await results(*futures)

    assert answers[:-1] == [(0, number) for number in range(CHECK_THREADS)]
    assert answers[-1] == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_header_is_judged_at_once_and_by_a_leader_only(host: Host) -> None:
    damaged = bytearray(compressed(0))
    damaged[-1] ^= 1
    refused = host.produce(bytes(damaged))
    assert refused.done()
    assert await results(refused) == [(ErrorCode.CORRUPT_MESSAGE, -1)]
    missing = host.produce(bytes(damaged), topic_partition=TopicPartition(str(TOPIC_ID), 0))
    assert (await results(missing))[0][0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
