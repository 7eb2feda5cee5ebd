"""Records that clients of two libraries send come back to them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer

from lab.cluster import wait_for

DEADLINE_S = 20.0


def all_read(config: dict[str, Any], topic: str, values: list[bytes]) -> None:
    """Read a topic of one partition from its beginning, by librdkafka: it holds these values."""
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []

    def has_all() -> bool:
        found.extend(each.value() for each in consumer.consume(500, 0.5) if not each.error())
        return len(found) >= len(values)

    wait_for("all records to be read", has_all, DEADLINE_S)
    consumer.close()
    assert found == values


def sent_and_received(config: dict[str, Any], topic: str) -> None:
    """Let librdkafka send 100 records and read them."""
    producer = Producer(config)
    values = [b"%d" % index * 1000 for index in range(100)]
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    all_read(config, topic, values)


def by_kafka_python(config: dict[str, Any], topic: str) -> None:
    """Let kafka-python send a record and read it."""
    producer = KafkaProducer(**config)
    producer.send(topic, b"value").get(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=10_000, **config
    )
    assert next(consumer).value == b"value"
    consumer.close()


def fails(config: dict[str, Any], words: str) -> None:
    """Wait until librdkafka has an error with these words."""
    errors: list[KafkaError] = []
    client = Producer({**config, "error_cb": errors.append})
    wait_for(
        f"an error: {words}",
        lambda: client.poll(0.1) is not None and any(words in str(each) for each in errors),
        DEADLINE_S,
    )
