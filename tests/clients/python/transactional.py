"""Commits the record `kept` and aborts the record `dropped`, each in a transaction of its own.

Called with bootstrap servers, topic, transactional id and library.
"""

from __future__ import annotations

import asyncio
import sys

BOOTSTRAP, TOPIC, NAME, LIBRARY = sys.argv[1:]


def librdkafka() -> None:
    """Transactions of confluent-kafka."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": NAME, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(TOPIC, b"dropped")
    producer.flush()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(TOPIC, b"kept")
    producer.commit_transaction()


def kafka_python() -> None:
    """Transactions of kafka-python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP.split(","), transactional_id=NAME)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(TOPIC, b"dropped").get(30)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(TOPIC, b"kept")
    producer.commit_transaction()
    producer.close()


async def aiokafka() -> None:
    """Transactions of aiokafka."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=NAME)
    try:
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(TOPIC, b"dropped")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"kept")
    finally:
        await producer.stop()


if LIBRARY == "librdkafka":
    librdkafka()
elif LIBRARY == "kafka-python":
    kafka_python()
else:
    asyncio.run(aiokafka())
