"""In which order batches are appended whose checks take different times."""

from __future__ import annotations

import asyncio
import gzip
import random
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.bounds.limits import CHECK_THREADS
from broker.produce import appends, batch_checks
from broker.replica.log.tail_cache import Slice
from broker.replica.partition.partition import Partition
from broker.replica.waiting.append_entries import AppendEntry, AppendResult
from jbodlab.record_batch import record_batch
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import HEADER_SIZE, build_batch
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.replicas import DEADLINE_S, TOPIC_ID, Host, until
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


def drawn(choose: random.Random) -> list[bytes]:
    """Return batches of two producers: new, repeated, out of order, damaged, large, compressed."""
    found: list[bytes] = []
    ends = {5: 0, 6: 0}
    for _ in range(choose.randrange(1, 12)):
        producer_id, count = choose.choice([5, 6]), choose.choice([1, 1, 1, 2, 2_001])
        kind = choose.choice(
            ["new", "new", "new", "again", "gap", "damaged", "compressed", "plain"]
        )
        sequence = ends[producer_id] + (7 if kind == "gap" else 0)
        if kind == "again" and found:
            found.append(choose.choice(found))
        elif kind == "compressed":
            found.append(compressed(ends[5]))
            ends[5] += 1
        elif kind == "plain":
            found.append(build_batch([(b"k", b"v")] * count, timestamp_ms=choose.randrange(9)))
        else:
            found.append(
                build_batch(
                    [(None, b"v")] * count,
                    timestamp_ms=1_000,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=sequence,
                )
            )
            if kind == "damaged":
                found[-1] = found[-1][:-1] + b"?"
            elif kind != "gap":
                ends[producer_id] += count
    return found


@pytest.mark.parametrize("seed", range(20))
async def test_batches_get_the_same_answers_and_offsets_one_by_one_and_in_one_request(
    host: Host, seed: int
) -> None:
    batches = drawn(random.Random(seed))
    one, other = await host.online(), await host.online(OTHER)

    alone = await results(*(host.produce(each) for each in batches))
    entries = [AppendEntry(OTHER, each) for each in batches]
    together = await asyncio.wait_for(host.manager.appends.append(entries, -1, 30_000), DEADLINE_S)

    assert [(each.error_code, each.base_offset) for each in together] == alone
    assert content(one) == content(other)


def content(partition: Partition) -> bytes:
    """Return all bytes of a log."""
    assert partition.log is not None
    found = partition.log.read(0, 1 << 30, partition.log.end_offset, at_least_one=True)
    assert isinstance(found, Slice)
    return b"".join(found.buffers)


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
