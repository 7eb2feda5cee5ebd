"""A consumer that follows a topic while things happen to it, and keeps accounts of what it saw."""

from __future__ import annotations

import threading
from collections import defaultdict

from confluent_kafka import Consumer, KafkaError, TopicPartition


class FollowingReader:
    """Reads all partitions of a topic by assignment, on a thread of its own.

    Attributes:
        seen: Offset and value of what was read, by partition, in the order of its arrival.
        errors: Errors that the client could not get over.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.seen: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "following",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FollowingReader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def assert_saw_everything_once(self, acknowledged: dict[int, tuple[int, int]]) -> None:
        """Offsets came without a gap and without one twice, each with the acknowledged record."""
        assert self.errors == []
        for partition, records in self.seen.items():
            offsets = [offset for offset, _ in records]
            assert offsets == list(range(len(offsets))), f"gap or repetition in {partition}"
        at = {place: number for number, place in acknowledged.items()}
        wrong = [
            (partition, offset, value)
            for partition, records in self.seen.items()
            for offset, value in records
            if at.get((partition, offset), int(value)) != int(value)
        ]
        assert not wrong, wrong[:5]

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.seen[message.partition()].append((message.offset(), message.value()))
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                self.errors.append(str(error))
        self._consumer.close()
