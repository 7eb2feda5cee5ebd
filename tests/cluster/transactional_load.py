"""Transactional producers that keep a journal, and what a reader of committed records finds."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import pairwise

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

COUNT = 9
"""Records of a transaction."""
ABORTED_EVERY = 5
CALL_S = 30.0
TIMEOUT_MS = 10_000
"""Of a transaction."""


class Outcome(Enum):
    """What the client was told of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Nobody said how it ended."""


class TransactionalLoad:
    """Producers that write transactions over all partitions of a topic, one after the other.

    Attributes:
        journal: Outcome of each transaction, by producer and number.
        commits: When commits were answered, in s of the monotonic clock.
        fatal: What ended a producer.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        producers: int = 4,
        timeout_ms: int = 10_000,
    ) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self.journal: dict[tuple[int, int], Outcome] = {}
        self.commits: list[float] = []
        self.errors: list[str] = []
        self.fatal: list[str] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(each,), name=f"producer-{each}", daemon=True)
            for each in range(producers)
        ]

    @contextmanager
    def running(self) -> Iterator[TransactionalLoad]:
        """Produce until the end of the block."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(60)

    def committed(self) -> set[str]:
        """The values of all transactions whose commit was answered."""
        return {
            f"{number}:{transaction}:{index}"
            for (number, transaction), outcome in list(self.journal.items())
            if outcome is Outcome.COMMITTED
            for index in range(COUNT)
        }

    @property
    def longest_gap_s(self) -> float:
        """The longest time without an answered commit."""
        times = sorted(self.commits)
        return max((b - a for a, b in pairwise(times)), default=0.0)

    def _run(self, number: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"{self._topic}-{number}",
                "transaction.timeout.ms": TIMEOUT_MS,
                "log_level": 0,
                "linger.ms": 1,
            }
        )
        try:
            producer.init_transactions(CALL_S)
            transaction = 0
            while not self._stop.is_set():
                self._transaction(producer, number, transaction)
                transaction += 1
        except KafkaException as error:
            self.fatal.append(f"producer {number}: {error}")

    def _transaction(self, producer: Producer, number: int, transaction: int) -> None:
        key = number, transaction
        self.journal[key] = Outcome.UNKNOWN
        producer.begin_transaction()
        for index in range(COUNT):
            producer.produce(
                self._topic,
                b"%d:%d:%d" % (number, transaction, index),
                partition=(transaction + index) % self._partitions,
            )
        if transaction % ABORTED_EVERY == ABORTED_EVERY - 1:
            producer.abort_transaction(CALL_S)
            self.journal[key] = Outcome.ABORTED
            return
        while True:
            try:
                producer.commit_transaction(CALL_S)
                self.journal[key] = Outcome.COMMITTED
                self.commits.append(time.monotonic())
                return
            except KafkaException as failed:
                error = failed.args[0]
                self.errors.append(f"producer {number}: {error}")
                if error.txn_requires_abort():
                    producer.abort_transaction(CALL_S)
                    self.journal[key] = Outcome.ABORTED
                    return
                if self._stop.is_set() or not error.retriable():
                    raise


def committed_records(
    bootstrap: str, topic: str, partitions: int, timeout_s: float = 30.0
) -> dict[tuple[int, ...], list[int]]:
    """Return the last of the numbers in each record that a reader finds, by those before it.

    It reads up to the high watermarks of now, so an open transaction fails it.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "log_level": 0,
        }
    )
    values: list[str] = []
    ends = high_watermarks(bootstrap, topic, partitions)
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    end_s = time.monotonic() + timeout_s
    try:
        while True:
            messages = consumer.consume(1000, timeout=0.2)
            values += [each.value().decode() for each in messages if each.error() is None]
            places = consumer.position([TopicPartition(topic, each) for each in range(partitions)])
            behind = {
                each.partition: (each.offset, ends[each.partition])
                for each in places
                if each.offset < ends[each.partition]
            }
            if not behind:
                return by_transaction(values)
            assert time.monotonic() < end_s, f"not read to the end: {behind}"
    finally:
        consumer.close()


def by_transaction(values: Iterable[str]) -> dict[tuple[int, ...], list[int]]:
    """Return the last of the numbers in each value, by those before it."""
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for value in values:
        *where, index = map(int, value.split(":"))
        found[tuple(where)].append(index)
    return found


def high_watermarks(bootstrap: str, topic: str, partitions: int) -> Sequence[int]:
    """Return where each partition ends."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", "log_level": 0})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30)[1]
            for each in range(partitions)
        ]
    finally:
        consumer.close()


def check(load: TransactionalLoad, found: dict[tuple[int, ...], list[int]]) -> None:
    """Check that each transaction is there whole, or not at all, as its producer was told."""
    whole = list(range(COUNT))
    torn = {key: each for key, each in found.items() if sorted(each) != whole}
    assert not torn, f"transactions seen in part, or twice: {torn}"
    for key, outcome in load.journal.items():
        if outcome is Outcome.COMMITTED:
            assert key in found, f"transaction {key} was committed, and is not there"
        elif outcome is Outcome.ABORTED:
            assert key not in found, f"transaction {key} was aborted, and is there"
    assert found.keys() <= load.journal.keys()
