"""Members of consumer groups, each an unmodified client: all of them are driven in one way."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Protocol

import confluent_kafka

from lab.machine.waiting import wait_for

POLL_S = 0.2
REJOIN_S = 5.0

# Its log is printed with a test that fails.
logging.getLogger("kafka.coordinator").setLevel(logging.INFO)
SESSION_TIMEOUT_MS = 45_000
"""Longer than anything here may take: who goes on before that did not wait for it."""

Position = tuple[int, int]
"""Partition and offset."""


class Member(Protocol):
    """One consumer that subscribes to a topic."""

    def poll(self) -> list[Position]:
        """Take what there is by now."""

    def assigned(self) -> set[int]:
        """Return the partitions that it has."""

    def commit(self) -> None:
        """Commit what was polled, and wait for it."""

    def close(self) -> None:
        """Leave the group."""


class Librdkafka:
    """confluent-kafka, with either protocol."""

    def __init__(self, bootstrap: str, topic: str, group: str, protocol: str = "classic") -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = SESSION_TIMEOUT_MS
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.subscribe([topic])
        self._polled: dict[int, int] = {}
        self._topic = topic

    def poll(self) -> list[Position]:
        found = [
            (message.partition(), message.offset())
            for message in self._consumer.consume(500, POLL_S)
            # A call that went wrong is tried again inside.
            if message.error() is None
        ]
        for partition, offset in found:
            self._polled[partition] = offset + 1
        return found

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self.commit_polled()

    def commit_polled(self) -> dict[int, int]:
        """Commit; returns what is committed by that, raises KafkaException."""
        owned = self.assigned()
        offsets = [
            confluent_kafka.TopicPartition(self._topic, partition, offset)
            for partition, offset in self._polled.items()
            if partition in owned
        ]
        self._polled.clear()
        if not offsets:
            return {}
        done = self._consumer.commit(offsets=offsets, asynchronous=False)
        assert done is not None
        for each in done:
            if each.error is not None:
                raise confluent_kafka.KafkaException(each.error)
        return {each.partition: each.offset for each in done}

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    """kafka-python."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from kafka import KafkaConsumer

        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        self._consumer.subscribe([topic])
        # In this order: kafka-python 3.0.12 counts the partitions of what it is subscribed to when
        # metadata come. A leader that has counted none joins again when it has; if a poll ends
        # meanwhile the consumer takes no notice of what it is given then, and is stuck for good.
        wait_for(f"{topic} is known", lambda: self._consumer.partitions_for_topic(topic))
        self._polled: dict[Any, Any] = {}

    def poll(self, poll_s: float = POLL_S) -> list[Position]:
        found = self._consumer.poll(timeout_ms=int(poll_s * 1000))
        for partition, records in found.items():
            # A partition that it is assigned anew, it begins anew where nothing is committed.
            self._polled[partition] = max(records[-1].offset + 1, self._polled.get(partition, 0))
        return [(record.partition, record.offset) for each in found.values() for record in each]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        wait_for("a commit between rebalances", self._is_committed)

    def _is_committed(self) -> bool:
        from kafka.errors import RebalanceInProgressError
        from kafka.structs import OffsetAndMetadata

        offsets = {
            partition: OffsetAndMetadata(offset, "", -1)
            for partition, offset in self._polled.items()
            if partition in self._consumer.assignment()
        }
        try:
            self._consumer.commit(offsets)
        except RebalanceInProgressError:
            # A poll that ends while it joins may forget what it is given then (see above), and on a
            # busy machine a short one does so again and again.
            self.poll(REJOIN_S)
            return False
        return True

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class Aiokafka:
    """aiokafka, on a loop of its own, in a thread, as its heartbeats need one that runs."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer: Any = self._run(self._start(bootstrap, topic, group))

    async def _start(self, bootstrap: str, topic: str, group: str) -> Any:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        await consumer.start()
        return consumer

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def poll(self) -> list[Position]:
        found = self._run(self._consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        return [(record.partition, record.offset) for each in found.values() for record in each]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


NewMember = Callable[[str, str, str], Member]
"""(bootstrap servers, topic, group) -> a member that has just begun to join."""

CLIENTS: dict[str, NewMember] = {
    "librdkafka": Librdkafka,
    "librdkafka-848": lambda *where: Librdkafka(*where, protocol="consumer"),
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


class Members:
    """Members of a scene, who have all left when it ends, whatever happened.

    One that is forgotten goes on in the background of every later test: its threads draw random
    numbers, and its sockets are found unclosed.
    """

    def __init__(self) -> None:
        self._closing = ExitStack()
        self._there: dict[int, ExitStack] = {}

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def join(self, client: str, bootstrap: str, topic: str, group: str) -> Member:
        """Return a member that has just begun to join."""
        member = CLIENTS[client](bootstrap, topic, group)
        self._there[id(member)] = self._closing.enter_context(ExitStack())
        self._there[id(member)].callback(member.close)
        return member

    def work(self, bootstrap: str, topic: str, group: str, protocol: str) -> Working:
        """Return a member that consumes and commits by itself."""
        working = Working(Librdkafka(bootstrap, topic, group, protocol))
        self._closing.callback(working.stop)
        return working

    def leave(self, member: Member) -> None:
        """Let a member leave its group."""
        self._there.pop(id(member)).close()


class Working:
    """A member that consumes and commits on a thread, and keeps accounts of both."""

    def __init__(self, member: Librdkafka) -> None:
        self.seen: defaultdict[int, set[int]] = defaultdict(set)
        """Offsets by partition."""
        self.committed: dict[int, int] = {}
        """The largest offset of which a commit was acknowledged, by partition."""
        self.errors: list[str] = []
        """Of commits that were not."""
        self._member = member
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and leave the group."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _work(self) -> None:
        while not self._stop.is_set():
            for partition, offset in self._member.poll():
                self.seen[partition].add(offset)
            try:
                for partition, offset in self._member.commit_polled().items():
                    self.committed[partition] = max(offset, self.committed.get(partition, 0))
            except confluent_kafka.KafkaException as error:
                # Unknown or refused: it is consumed again by who gets the partition next.
                self.errors.append(str(error))
        self._member.close()


def seen_by(members: Iterable[Working]) -> dict[int, set[int]]:
    """Return all offsets that members consumed, by partition."""
    seen: defaultdict[int, set[int]] = defaultdict(set)
    for member in members:
        for partition, offsets in list(member.seen.items()):
            seen[partition] |= set(offsets)
    return seen
