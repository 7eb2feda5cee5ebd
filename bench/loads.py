"""`python -m bench.loads`: what very many entries cost the broker that takes them over.

A million transactional ids of one coordinator, offsets of a million groups, or the ids of 100,000
producers in one partition are written into the logs of the replicas while no broker runs, as asking
for each of them would be what is measured. Then a broker that has loaded nothing of them leads.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import NewTopic
from msgspec import Struct
from msgspec.structs import replace

from bench.bystander import Bystander
from bench.measure import MAKE, fresh, resident_mb
from broker.transactions.transaction import TransactionState, created, to_record
from jbodlab.group_records.keys import OffsetCommitKey
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.records import encode as encode_offset
from jbodlab.group_records.values import OffsetCommitValue
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.storage.directory import names
from jbodlab.transaction_records.records import encode as encode_transaction
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tests.cluster.harness import Cluster, made
from tests.kafka.servers import KafkaServers
from tests.kafka.tools import KafkaTools
from tests.simulation.clients import message

PER_BATCH = 1_000
OTHERS, PRODUCED, CONSUMED = "others", "produced", "consumed"
LOADED_S, SETTLE_S, ASK_EVERY_S = 600.0, 10.0, 0.005
SETTINGS = {
    **{f"{kind}.num.partitions": "1" for kind in ("transaction.state.log", "offsets.topic")},
    **{f"{kind}.replication.factor": "3" for kind in ("transaction.state.log", "offsets.topic")},
    "transaction.state.log.min.isr": "2",
}


class Loaded(Struct, frozen=True, kw_only=True):
    """Entries that a broker has taken over.

    Attributes:
        started_s: Until all brokers that had these logs were in sync again.
        loaded_s: From the request that another broker shall lead until that answers about an entry.
        longest_ms: Longest time that this broker took for somebody else's request meanwhile.
        busy_ms: Most processor time of its event loop in the course of one of them.
        resident_mb: Resident memory of it that has been added when all is loaded.
    """

    started_s: float
    loaded_s: float
    longest_ms: float
    busy_ms: float
    resident_mb: float

    @property
    def text(self) -> str:
        """All of it in one line."""
        return (
            f"started in {self.started_s:.1f} s, loaded in {self.loaded_s:.2f} s; a request waits "
            f"{self.longest_ms:.0f} ms at most, of that the loop works {self.busy_ms:.0f} ms; "
            f"{self.resident_mb:+.0f} MB"
        )


class Subject(NamedTuple):
    """A kind of entries: where they lie, their log, and a question about one of them."""

    topic: str
    log: Callable[[int], Iterator[bytes]]
    key: ApiKey
    version: int
    ask: Callable[[int], Any]
    error: Callable[[Any], int]
    promised: int


def _batches(count: int, record: Callable[[int], tuple[bytes, bytes | None]]) -> Iterator[bytes]:
    now_ms = int(time.time() * 1000)
    for first in range(0, count, PER_BATCH):
        some = [record(number) for number in range(first, min(count, first + PER_BATCH))]
        yield build_batch(some, base_offset=first, leader_epoch=0, timestamp_ms=now_ms)


def _ids(count: int) -> Iterator[bytes]:
    now_ms = int(time.time() * 1000)

    def record(number: int) -> tuple[bytes, bytes | None]:
        begun = created(number, 60_000, now_ms)
        ended = replace(begun, state=TransactionState.COMPLETE_COMMIT, started_ms=now_ms)
        return encode_transaction(to_record(_id(number), ended, 2))

    return _batches(count, record)


def _offsets(count: int) -> Iterator[bytes]:
    now_ms = int(time.time() * 1000)

    def record(number: int) -> tuple[bytes, bytes | None]:
        key = OffsetCommitKey(group=_id(number), topic=CONSUMED, partition=0)
        value = OffsetCommitValue(offset=number, metadata="", commit_timestamp=now_ms)
        return encode_offset(GroupRecord(key, value))

    return _batches(count, record)


def _producers(count: int) -> Iterator[bytes]:
    now_ms = int(time.time() * 1000)
    for number in range(count):
        yield build_batch(
            [(None, b"x")],
            base_offset=number,
            leader_epoch=0,
            timestamp_ms=now_ms,
            producer_id=number,
            producer_epoch=0,
            base_sequence=0,
        )


def _id(number: int) -> str:
    return f"application-{number:07}"


SUBJECTS = {
    "ids": Subject(
        TRANSACTION_STATE_TOPIC,
        _ids,
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        lambda count: message(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[_id(count - 1)]),
        lambda answer: int(answer.transaction_states[0].error_code),
        1_000_000,
    ),
    "offsets": Subject(
        GROUP_METADATA_TOPIC,
        _offsets,
        ApiKey.OFFSET_FETCH,
        5,
        lambda count: message(
            ApiKey.OFFSET_FETCH,
            5,
            group_id=_id(count - 1),
            topics=[{"name": CONSUMED, "partition_indexes": [0]}],
        ),
        lambda answer: int(answer.error_code),
        1_000_000,
    ),
    "producers": Subject(
        PRODUCED,
        _producers,
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        lambda _: message(
            ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": PRODUCED, "partition_indexes": [0]}]
        ),
        lambda answer: int(answer.topics[0].partitions[0].error_code),
        100_000,
    ),
}


def load(make: MAKE, name: str, count: int = 0) -> Loaded:
    """Let a broker take over so many entries of a kind; 0: as many as are promised."""
    subject = SUBJECTS[name]
    count = count or subject.promised
    with fresh(partial(make, settings=SETTINGS)) as cluster:
        cluster.start()
        _make_topics(cluster)
        folders = [
            broker.log_dir_of(subject.topic, 0).path / f"{subject.topic}-0"
            for broker in cluster.brokers
        ]
        for broker in cluster.brokers:
            broker.stop()
        data = b"".join(subject.log(count))
        for folder in folders:
            _replace_log(folder, data)
        begun = time.monotonic()
        for broker in cluster.brokers:
            broker.start()
        cluster.wait_served(deadline_s=LOADED_S)
        cluster.wait_isr(subject.topic, LOADED_S)
        return _taken_over(cluster, subject, count, time.monotonic() - begun)


def _make_topics(cluster: Cluster) -> None:
    """Create the topics of entries; those of coordinators are made by the first question."""
    cluster.create_topic(PRODUCED, 1, 3)
    for key_type, topic in enumerate((GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)):
        asyncio.run(_coordinated(cluster, key_type))
        cluster.wait_isr(topic)
    cluster.wait_isr(PRODUCED)


async def _coordinated(cluster: Cluster, key_type: int) -> None:
    connection = await _connection(cluster.brokers[0].port)
    asked = message(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=["first"])
    async with asyncio.timeout(LOADED_S):
        while True:
            answer = await connection.call(ApiKey.FIND_COORDINATOR, 4, asked, LOADED_S)
            if answer.coordinators[0].error_code == ErrorCode.NONE:
                break
            await asyncio.sleep(ASK_EVERY_S)
    connection.close()


def _replace_log(folder: Path, data: bytes) -> None:
    """Let a replica whose broker does not run have a log, with nothing that tells of another."""
    (folder / names.log_file(0)).write_bytes(data)
    kept = (names.log_file(0), names.PARTITION_METADATA_FILE)
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()
    for name in (names.CLEAN_SHUTDOWN_FILE, names.RECOVERY_POINT_FILE):
        (folder.parent / name).unlink(missing_ok=True)


def _taken_over(cluster: Cluster, subject: Subject, count: int, started_s: float) -> Loaded:
    """Let the preferred leader lead, which has loaded nothing since it started."""
    preferred = cluster.partitions(subject.topic)[0].replicas[0]
    broker = cluster.broker(preferred)
    wanted = NewTopic(OTHERS, 1, replica_assignment=[[preferred]])
    cluster.admin().create_topics([wanted])[OTHERS].result(30)
    cluster.wait_isr(OTHERS)
    broker.stop()
    asyncio.run(_answered(cluster.leader(subject.topic, 0).port, subject, count))
    broker.start()
    cluster.wait_served(deadline_s=LOADED_S)
    cluster.wait_isr(subject.topic, LOADED_S)
    time.sleep(SETTLE_S)
    before_mb = resident_mb(cluster)[preferred]
    with Bystander(broker.port, broker.pid, OTHERS) as others:
        others.waits()
        begun = time.monotonic()
        place = TopicPartition(subject.topic, 0)
        cluster.admin().elect_leaders(ElectionType.PREFERRED, [place])
        asyncio.run(_answered(broker.port, subject, count))
        loaded_s = time.monotonic() - begun
        # Work that a load leaves behind is done at its end.
        time.sleep(1.0)
        waits = others.waits()
    time.sleep(SETTLE_S)
    return Loaded(
        started_s=started_s,
        loaded_s=loaded_s,
        longest_ms=waits.longest_ms,
        busy_ms=waits.busy_ms,
        resident_mb=resident_mb(cluster)[preferred] - before_mb,
    )


async def _answered(port: int, subject: Subject, count: int) -> None:
    """Wait until a broker answers about the last entry."""
    asked = subject.ask(count)
    connection = await _connection(port)
    async with asyncio.timeout(LOADED_S):
        while True:
            answer = await connection.call(subject.key, subject.version, asked, LOADED_S)
            if subject.error(answer) == ErrorCode.NONE:
                break
            await asyncio.sleep(ASK_EVERY_S)
    connection.close()


async def _connection(port: int) -> KafkaConnection:
    return await KafkaConnection.open("127.0.0.1", port, client_id="asks", timeout_s=10.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Load what is named."""
    parser = argparse.ArgumentParser(prog="python -m bench.loads", description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(SUBJECTS))
    parser.add_argument("--count", type=int, default=0, help="entries; as promised by default")
    parser.add_argument("--kafka", type=Path, help="Apache Kafka beside it, jars in this folder")
    options = parser.parse_args(arguments)
    makers: dict[str, MAKE] = {"jbodlab": made}
    if options.kafka is not None:
        makers["kafka"] = partial(made, servers=KafkaServers(KafkaTools(cache=options.kafka)))
    for name in options.subjects or SUBJECTS:
        for whose, make in makers.items():
            found = load(make, name, options.count)
            print(f"{name}, {whose}: {found.text}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
