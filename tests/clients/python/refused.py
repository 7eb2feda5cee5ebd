"""Asks for what may not be served, as an application does that knows nothing of that.

Called with bootstrap servers, topic, feature and library.
"""

from __future__ import annotations

import asyncio
import sys

BOOTSTRAP, TOPIC, FEATURE, LIBRARY = sys.argv[1:]
NAME = "not-served"


def librdkafka() -> None:
    """Transactions and share groups of confluent-kafka."""
    from confluent_kafka import KafkaException, Producer, ShareConsumer

    config = {"bootstrap.servers": BOOTSTRAP, "log_level": 0}
    if FEATURE == "transactions":
        Producer({**config, "transactional.id": NAME}).init_transactions()
        return
    consumer = ShareConsumer({**config, "group.id": NAME})
    consumer.subscribe([TOPIC])
    while True:
        for message in consumer.poll(0.2) or ():
            if message.error() is not None:
                raise KafkaException(message.error())


def kafka_python() -> None:
    """Transactions of kafka-python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=NAME)
    producer.init_transactions()


async def aiokafka() -> None:
    """Transactions of aiokafka."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=NAME)
    try:
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"not served")
    finally:
        await producer.stop()


if LIBRARY == "librdkafka":
    librdkafka()
elif LIBRARY == "kafka-python":
    kafka_python()
else:
    asyncio.run(aiokafka())
