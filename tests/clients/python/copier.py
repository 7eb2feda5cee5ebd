"""Copies a topic in transactions that have the consumed offsets in them; see `copiers`."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import threading
from collections.abc import Callable, Sequence

LIBRARY, BOOTSTRAP, SOURCE, TARGET, NAME = sys.argv[1:]
PARTITIONS = 4
TIMEOUT_MS = 60_000
"""Of a transaction; aiokafka ends when a coordinator has aborted one that was slow."""
CALL_S = 30.0
BATCH = 20

Record = tuple[int, int, bytes]
"""Partition, offset and value of what was consumed."""


class Journal:
    """Tells of each transaction before it begins, and how it ended."""

    def __init__(self) -> None:
        self.leaves = threading.Event()
        self._numbers = itertools.count()
        self._number = -1
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "leave":
                break
        self.leaves.set()

    @property
    def to_be_aborted(self) -> bool:
        """Whether the transaction is one of those that are aborted without need."""
        return self._number % 5 == 4

    def begins(self, records: Sequence[Record]) -> list[tuple[int, bytes]]:
        """Tell of a transaction; partitions and values of its records."""
        self._number = next(self._numbers)
        values = [value.decode() for _, _, value in records]
        self._say("began", values=values)
        return [(int(each) % PARTITIONS, f"{self._number}:{each}".encode()) for each in values]

    def ended(self, how: str) -> None:
        """Tell how it ended."""
        self._say(how)

    def failed(self, error: Exception) -> None:
        """Tell what went wrong with it."""
        self._say("error", message=repr(error))

    def _say(self, event: str, **what: object) -> None:
        print(json.dumps({"event": event, "transaction": self._number, **what}), flush=True)


def ends(records: Sequence[Record]) -> dict[int, int]:
    """Where to go on after them, by partition."""
    return {partition: offset + 1 for partition, offset, _ in records}


def firsts(records: Sequence[Record]) -> dict[int, int]:
    """Where to read them again, by partition."""
    return {partition: offset for partition, offset, _ in reversed(records)}


def librdkafka(journal: Journal) -> None:
    """Transactions of confluent-kafka."""
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    def until_done(end: Callable[[float], object]) -> None:
        while True:
            try:
                end(CALL_S)
                return
            except KafkaException as error:
                journal.failed(error)
                if not error.args[0].retriable():
                    raise

    consumer = Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": NAME,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "transactional.id": NAME,
            "transaction.timeout.ms": TIMEOUT_MS,
        }
    )
    until_done(producer.init_transactions)
    consumer.subscribe([SOURCE])
    while not journal.leaves.is_set():
        messages = [each for each in consumer.consume(BATCH, timeout=0.1) if not each.error()]
        records = [(each.partition(), each.offset(), each.value()) for each in messages]
        if not records:
            continue
        committed = False
        copies = journal.begins(records)
        producer.begin_transaction()
        try:
            for partition, value in copies:
                producer.produce(TARGET, value, partition=partition)
            producer.send_offsets_to_transaction(
                [TopicPartition(SOURCE, *each) for each in ends(records).items()],
                consumer.consumer_group_metadata(),
                CALL_S,
            )
            if not journal.to_be_aborted:
                until_done(producer.commit_transaction)
                committed = True
        except KafkaException as error:
            journal.failed(error)
            if not error.args[0].txn_requires_abort():
                raise
        if committed:
            journal.ended("committed")
            continue
        until_done(producer.abort_transaction)
        journal.ended("aborted")
        for partition, offset in firsts(records).items():
            consumer.seek(TopicPartition(SOURCE, partition, offset))
    consumer.close()


def kafka_python(journal: Journal) -> None:
    """Transactions of kafka-python."""
    from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.errors import KafkaError, ProducerFencedError

    consumer = KafkaConsumer(
        bootstrap_servers=BOOTSTRAP.split(","),
        group_id=NAME,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=BATCH,
    )
    producer = KafkaProducer(
        bootstrap_servers=BOOTSTRAP.split(","),
        transactional_id=NAME,
        transaction_timeout_ms=TIMEOUT_MS,
    )
    producer.init_transactions()
    consumer.subscribe([SOURCE])
    while not journal.leaves.is_set():
        polled = itertools.chain.from_iterable(consumer.poll(timeout_ms=100).values())
        records = [(each.partition, each.offset, each.value) for each in polled]
        if not records:
            continue
        committed = False
        copies = journal.begins(records)
        producer.begin_transaction()
        try:
            for partition, value in copies:
                producer.send(TARGET, value, partition=partition)
            offsets = {
                TopicPartition(SOURCE, partition): OffsetAndMetadata(end, "", -1)
                for partition, end in ends(records).items()
            }
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if not journal.to_be_aborted:
                producer.commit_transaction()
                committed = True
        except ProducerFencedError:
            raise
        except KafkaError as error:
            journal.failed(error)
        if committed:
            journal.ended("committed")
            continue
        producer.abort_transaction()
        journal.ended("aborted")
        for partition, offset in firsts(records).items():
            consumer.seek(TopicPartition(SOURCE, partition), offset)
    producer.close()
    consumer.close()


async def aiokafka(journal: Journal) -> None:
    """Transactions of aiokafka."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.errors import KafkaError, ProducerFenced

    consumer = AIOKafkaConsumer(
        SOURCE,
        bootstrap_servers=BOOTSTRAP,
        group_id=NAME,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=BOOTSTRAP,
        transactional_id=NAME,
        transaction_timeout_ms=TIMEOUT_MS,
    )
    await producer.start()
    await consumer.start()
    while not journal.leaves.is_set():
        polled = await consumer.getmany(timeout_ms=100, max_records=BATCH)
        records = [
            (each.partition, each.offset, each.value)
            for each in itertools.chain.from_iterable(polled.values())
        ]
        if not records:
            continue
        committed = False
        copies = journal.begins(records)
        await producer.begin_transaction()
        try:
            for partition, value in copies:
                await producer.send(TARGET, value, partition=partition)
            offsets = {TopicPartition(SOURCE, each): end for each, end in ends(records).items()}
            await producer.send_offsets_to_transaction(offsets, NAME)
            if not journal.to_be_aborted:
                await producer.commit_transaction()
                committed = True
        except ProducerFenced:
            raise
        except KafkaError as error:
            journal.failed(error)
        if committed:
            journal.ended("committed")
            continue
        await producer.abort_transaction()
        journal.ended("aborted")
        for partition, offset in firsts(records).items():
            consumer.seek(TopicPartition(SOURCE, partition), offset)
    await producer.stop()
    await consumer.stop()


if LIBRARY == "librdkafka":
    librdkafka(Journal())
elif LIBRARY == "kafka-python":
    kafka_python(Journal())
else:
    asyncio.run(aiokafka(Journal()))
