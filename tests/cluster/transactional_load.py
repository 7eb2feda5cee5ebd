"""Transactional producers that keep a journal, and what a reader of committed records finds."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import pairwise

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

COUNT = 9
"""Records of a transaction."""
ABORTED_EVERY = 5
CALL_S = 30.0
JOIN_S = 90.0


class Outcome(Enum):
    """The result that the client was told of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Nobody said how it ended."""


class TransactionalLoad:
    """Producers that write transactions over all partitions of a topic, one after the other.

    Attributes:
        journal: Outcome of each transaction, by producer and number.
        commits: When commits were answered, in s of the monotonic clock.
        commits_of: The same for each producer.
        errors: Errors of calls that were repeated, or after which a transaction was aborted.
        fatal: The error that ended a producer.

    Args:
        bootstrap: Address of the cluster.
        topic: Where the records go.
        partitions: How many partitions it has.
        producers: How many there are, with the settings of librdkafka.
        pause_s: Rest after each transaction.
        timeout_ms: Of a transaction; librdkafka's own.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        producers: int = 4,
        pause_s: float = 0.0,
        timeout_ms: int = 60_000,
    ) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._pause_s, self._timeout_ms = pause_s, timeout_ms
        self.journal: dict[tuple[int, int], Outcome] = {}
        self.commits: list[float] = []
        self.commits_of: dict[int, list[float]] = defaultdict(list)
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
                thread.join(JOIN_S)
        assert not any(thread.is_alive() for thread in self._threads), "a producer does not end"

    def committed(self) -> set[str]:
        """Return the values of all transactions whose commit was answered."""
        return {
            f"{number}:{transaction}:{index}"
            for (number, transaction), outcome in list(self.journal.items())
            if outcome is Outcome.COMMITTED
            for index in range(COUNT)
        }

    def longest_gap_s(self, since_s: float, until_s: float) -> float:
        """Return the longest time without an answered commit of any producer."""
        times = [since_s, *(each for each in self.commits if since_s < each < until_s), until_s]
        return max(b - a for a, b in pairwise(sorted(times)))

    def _run(self, number: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"{self._topic}-{number}",
                "transaction.timeout.ms": self._timeout_ms,
                "log_level": 0,
            }
        )
        try:
            producer.init_transactions(CALL_S)
            transaction = 0
            while not self._stop.is_set():
                self._transaction(producer, number, transaction)
                transaction += 1
                self._stop.wait(self._pause_s)
        except KafkaException as error:
            self.fatal.append(f"producer {number}: {error}")

    def _transaction(self, producer: Producer, number: int, transaction: int) -> None:
        key = number, transaction
        self.journal[key] = Outcome.UNKNOWN
        producer.begin_transaction()
        try:
            for index in range(COUNT):
                producer.produce(
                    self._topic,
                    b"%d:%d:%d" % (number, transaction, index),
                    partition=(transaction + index) % self._partitions,
                )
            if transaction % ABORTED_EVERY == ABORTED_EVERY - 1:
                # Records that are not sent yet would be dropped, and no transaction be begun.
                producer.flush(CALL_S)
            else:
                self._until_answered(producer.commit_transaction)
                self.journal[key] = Outcome.COMMITTED
                self.commits.append(time.monotonic())
                self.commits_of[number].append(self.commits[-1])
                return
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            self.errors.append(f"producer {number}: {failed.args[0]}")
        self._until_answered(producer.abort_transaction)
        self.journal[key] = Outcome.ABORTED

    def _until_answered(self, end: Callable[[float], None]) -> None:
        """End a transaction; what can be repeated is, as librdkafka demands."""
        while True:
            try:
                end(CALL_S)
                return
            except KafkaException as failed:
                self.errors.append(str(failed.args[0]))
                if self._stop.is_set() or not failed.args[0].retriable():
                    raise


Records = dict[tuple[int, int], tuple[int, ...]]
"""The numbers in each record, by its partition and offset: the last is its index."""


def committed_consumer(bootstrap: str, topic: str, partitions: int) -> Consumer:
    """A reader of committed records, from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    return consumer


def take(consumer: Consumer, found: Records) -> None:
    """Put what a reader has into `found`; nothing comes twice."""
    for message in consumer.consume(1000, timeout=0.2):
        error = message.error()
        if error is None:
            place = message.partition(), message.offset()
            assert place not in found, f"read twice: {place}"
            found[place] = tuple(map(int, message.value().split(b":")))
        else:
            assert error.retriable() or error.code() == KafkaError._TRANSPORT, error


def committed_records(
    bootstrap: str, topic: str, partitions: int, timeout_s: float = 30.0
) -> Records:
    """Return all records that a reader of committed ones finds.

    It reads up to the high watermarks of now, so an open transaction fails it.
    """
    found: Records = {}
    ends = high_watermarks(bootstrap, topic, partitions)
    consumer = committed_consumer(bootstrap, topic, partitions)
    end_s = time.monotonic() + timeout_s
    try:
        while True:
            take(consumer, found)
            places = consumer.position([TopicPartition(topic, each) for each in range(partitions)])
            behind = {
                each.partition: (each.offset, ends[each.partition])
                for each in places
                if each.offset < ends[each.partition]
            }
            if not behind:
                return found
            assert time.monotonic() < end_s, f"not read to the end: {behind}"
    finally:
        consumer.close()


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


def by_transaction(found: Records) -> dict[tuple[int, ...], list[int]]:
    """Return the indexes of the records of each transaction, in their order."""
    indexes: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for *transaction, index in found.values():
        indexes[tuple(transaction)].append(index)
    return {key: sorted(each) for key, each in indexes.items()}


def check(load: TransactionalLoad, found: Records) -> None:
    """Check that each transaction is there whole, or not at all, as its producer was told."""
    transactions = by_transaction(found)
    whole = list(range(COUNT))
    torn = {key: each for key, each in transactions.items() if each != whole}
    assert not torn, f"transactions seen in part, or twice: {torn}"
    for key, outcome in load.journal.items():
        if outcome is Outcome.COMMITTED:
            assert key in transactions, f"transaction {key} was committed, and is not there"
        elif outcome is Outcome.ABORTED:
            assert key not in transactions, f"transaction {key} was aborted, and is there"
    assert transactions.keys() <= load.journal.keys()
