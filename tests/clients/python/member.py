"""A producer, or a consumer in a group, as the library does it unless told otherwise."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import secured


def say(event: str, **what: object) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


def say_written(value: bytes, error: object) -> None:
    if error is None:
        say("acknowledged", value=value.decode())
    else:
        say("error", message=str(error))


def say_record(partition: int, offset: int, value: bytes) -> None:
    say("record", partition=partition, offset=offset, value=value.decode())


def numbers(leave: threading.Event, rate: int) -> Iterator[list[bytes]]:
    """The numbers that are due, again and again."""
    begin, sent = time.monotonic(), 0
    while not leave.is_set():
        due = int((time.monotonic() - begin) * rate)
        yield [b"%d" % number for number in range(sent, due)]
        sent = due


def librdkafka_produces(leave: threading.Event, bootstrap: str, topic: str, rate: int) -> None:
    from confluent_kafka import Producer

    def told(error: object, message: Any) -> None:
        say_written(message.value(), error)

    producer = Producer({"bootstrap.servers": bootstrap, **secured.librdkafka()})
    for due in numbers(leave, rate):
        for value in due:
            producer.produce(topic, value, on_delivery=told)
        producer.poll(0.002)
    producer.flush(20)


def librdkafka_consumes(leave: threading.Event, bootstrap: str, topic: str, group: str) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **secured.librdkafka(),
        }
    )
    consumer.subscribe([topic])
    while not leave.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error():
            say("error", message=str(message.error()))
        elif message is not None:
            say_record(message.partition(), message.offset(), message.value())
    consumer.close()


def kafka_python_produces(leave: threading.Event, bootstrap: str, topic: str, rate: int) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), **secured.kafka_python())
    for due in numbers(leave, rate):
        for value in due:
            sent = producer.send(topic, value)
            sent.add_callback(lambda _, value=value: say_written(value, None))
            sent.add_errback(lambda error: say("error", message=repr(error)))
        time.sleep(0.002)
    producer.flush(20)
    producer.close()


def kafka_python_consumes(leave: threading.Event, bootstrap: str, topic: str, group: str) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        **secured.kafka_python(),
    )
    # kafka-python 3.0.12 leads a group with no partition where it joins before its metadata come,
    # joins again, and takes no notice of what it is given then if a poll ends meanwhile.
    while not leave.is_set() and not consumer.partitions_for_topic(topic):
        leave.wait(0.01)
    while not leave.is_set():
        for records in consumer.poll(timeout_ms=100).values():
            for record in records:
                say_record(record.partition, record.offset, record.value)
    consumer.close()


def aiokafka_produces(leave: threading.Event, bootstrap: str, topic: str, rate: int) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        # By default it is content with the leader, whose disk dies.
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", **secured.aiokafka())
        await producer.start()
        sending = set()
        for due in numbers(leave, rate):
            for value in due:
                sent = await producer.send(topic, value)
                sending.add(sent)
                sent.add_done_callback(sending.discard)
                sent.add_done_callback(
                    lambda sent, value=value: say_written(value, sent.exception())
                )
            await asyncio.sleep(0.002)
        await asyncio.gather(*sending, return_exceptions=True)
        await producer.stop()

    asyncio.run(run())


def aiokafka_consumes(leave: threading.Event, bootstrap: str, topic: str, group: str) -> None:
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            **secured.aiokafka(),
        )
        await consumer.start()
        while not leave.is_set():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    say_record(record.partition, record.offset, record.value)
        # `stop` commits, too, but looks for no coordinator: where it still has that of the dead
        # disk, it never ends (aiokafka 0.14).
        await consumer.commit()
        await consumer.stop()

    asyncio.run(run())


def librdkafka_creates(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, **secured.librdkafka()})
    for future in admin.create_topics([NewTopic(topic, 3, 3)]).values():
        future.result(20)


def kafka_python_creates(bootstrap: str, topic: str) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","), **secured.kafka_python())
    admin.create_topics([NewTopic(topic, 3, 3)])
    admin.close()


def aiokafka_creates(bootstrap: str, topic: str) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **secured.aiokafka())
        await admin.start()
        await admin.create_topics([NewTopic(topic, 3, 3)])
        await admin.close()

    asyncio.run(run())


CREATES: dict[str, Callable[[str, str], None]] = {
    "librdkafka": librdkafka_creates,
    "kafka-python": kafka_python_creates,
    "aiokafka": aiokafka_creates,
}
PRODUCES: dict[str, Callable[[threading.Event, str, str, int], None]] = {
    "librdkafka": librdkafka_produces,
    "kafka-python": kafka_python_produces,
    "aiokafka": aiokafka_produces,
}
CONSUMES: dict[str, Callable[[threading.Event, str, str, str], None]] = {
    "librdkafka": librdkafka_consumes,
    "kafka-python": kafka_python_consumes,
    "aiokafka": aiokafka_consumes,
}


def main() -> None:
    library, bootstrap, topic, group, mode = sys.argv[1:]
    leave = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "leave":
                break
        leave.set()

    threading.Thread(target=listen, daemon=True).start()
    if mode == "create":
        CREATES[library](bootstrap, topic)
    elif mode == "produce":
        PRODUCES[library](leave, bootstrap, topic, int(group))
    else:
        CONSUMES[library](leave, bootstrap, topic, group)


if __name__ == "__main__":
    main()
