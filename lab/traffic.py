"""A producer and a group of consumers on an unmodified client library, each on its own thread.

The producer is idempotent and waits for all in-sync replicas; nothing else is changed from the
library's defaults. The consumers share the partitions, and commit what they were given.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lab.errors import LabError
from lab.verdict import Ack, Consumed

KEYS_PER_PARTITION = 4
VALUE_BYTES = 100
FLUSH_TIMEOUT_S = 30.0
FLUSH_STEP_S = 0.2
CREATE_TIMEOUT_S = 15.0
DELETE_TIMEOUT_S = 10.0
_QUIET = {"log_level": 0}


def create_topic(
    bootstrap: str, topic: str, *, partitions: int, replication_factor: int, min_isr: int
) -> None:
    """Create a topic.

    Raises:
        LabError: the cluster refused, or did not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    new = NewTopic(
        topic,
        num_partitions=partitions,
        replication_factor=replication_factor,
        config={"min.insync.replicas": str(min_isr)},
    )
    try:
        admin.create_topics([new], request_timeout=CREATE_TIMEOUT_S)[topic].result(CREATE_TIMEOUT_S)
    except (confluent_kafka.KafkaException, TimeoutError) as error:
        raise LabError(f"topic {topic} could not be created: {error}") from error


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic, if it is there.

    Raises:
        LabError: the cluster refused, or did not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    try:
        admin.delete_topics([topic], request_timeout=DELETE_TIMEOUT_S)[topic].result(
            DELETE_TIMEOUT_S
        )
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() != confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise LabError(f"topic {topic} could not be deleted: {error}") from error
    except TimeoutError as error:
        raise LabError(f"topic {topic} could not be deleted: no answer") from error


class Producer(threading.Thread):
    """Sends messages at an even rate until it is told to stop, then waits for the last ones."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate_per_s: int) -> None:
        super().__init__(name="producer", daemon=True)
        self.acks: list[Ack] = []
        """Acknowledged messages in the order of their acknowledgement; it only ever grows."""
        self.failures: list[str] = []
        """Why messages were given up, one text each."""
        self.unanswered = 0
        """Messages without any answer when the last wait was over."""
        self._topic = topic
        self._partitions = partitions
        self._interval_s = 1 / rate_per_s
        self._stopping = threading.Event()
        self._aborting = threading.Event()
        self._sequences: dict[str, int] = defaultdict(int)
        self._client = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                **_QUIET,
            }
        )

    def stop(self) -> None:
        """Send no more, and wait for what was sent."""
        self._stopping.set()

    def abort(self) -> None:
        """Send no more and wait for nothing."""
        self._aborting.set()
        self._stopping.set()

    def run(self) -> None:
        """Send at the times that the rate gives; a pause of the cluster delays no sending."""
        due = time.monotonic()
        number = 0
        while not self._stopping.is_set():
            self._send(number)
            number += 1
            due += self._interval_s
            while (left := due - time.monotonic()) > 0 and not self._stopping.is_set():
                self._client.poll(left)
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        while (unanswered := self._client.flush(FLUSH_STEP_S)) and not self._aborting.is_set():
            if time.monotonic() > deadline:
                break
        self.unanswered = unanswered

    def _send(self, number: int) -> None:
        partition = number % self._partitions
        key = f"{partition}-{number // self._partitions % KEYS_PER_PARTITION}"
        sequence = self._sequences[key]
        self._sequences[key] += 1

        def delivered(error: Any, message: Any) -> None:
            at_ns = time.monotonic_ns()
            if error is not None:
                self.failures.append(str(error))
                return
            self.acks.append(
                Ack(
                    key=key,
                    sequence=sequence,
                    partition=message.partition(),
                    offset=message.offset(),
                    at_ns=at_ns,
                )
            )

        value = f"{sequence} ".ljust(VALUE_BYTES, ".").encode()
        while True:
            try:
                self._client.produce(
                    self._topic, value, key=key, partition=partition, on_delivery=delivered
                )
            except BufferError:
                self._client.poll(0.1)
            else:
                return


class Member(threading.Thread):
    """One consumer of a group; commits what it was given, after each batch."""

    def __init__(self, number: int, group: ConsumerGroup, bootstrap: str, topic: str) -> None:
        super().__init__(name=f"consumer-{number}", daemon=True)
        self.assigned_ns: list[int] = []
        """When it was given partitions to read, on the monotonic clock."""
        self._group = group
        self._client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{topic}-group",
                "client.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **_QUIET,
            }
        )
        self._client.subscribe([topic], on_assign=self._assigned)

    def run(self) -> None:
        """Read until the group has read all, or is stopped."""
        while not self._group.is_done():
            batch = [m for m in self._client.consume(500, timeout=0.1) if m.error() is None]
            self._group.take(batch)
            if batch:
                self._client.commit(asynchronous=True)
        self._client.close()

    def _assigned(self, _client: object, _partitions: object) -> None:
        # The first who leaves when all is read hands its partitions to the others.
        if not self._group.is_done():
            self.assigned_ns.append(time.monotonic_ns())


class ConsumerGroup:
    """Consumers that share a topic, and read it from the beginning up to given offsets."""

    def __init__(self, bootstrap: str, topic: str, members: int) -> None:
        self.messages: list[Consumed] = []
        """What its members were given, those messages included that they were given again."""
        self._positions: dict[int, int] = defaultdict(int)
        self._last_progress_s = time.monotonic()
        self._ends: dict[int, int] | None = None
        self._give_up_after_s = 0.0
        self._stopping = threading.Event()
        self._members = [Member(number, self, bootstrap, topic) for number in range(1, members + 1)]

    def start(self) -> None:
        """Let all of them join."""
        for member in self._members:
            member.start()

    def finish(self, ends: dict[int, int], give_up_after_s: float) -> None:
        """Stop when every partition was read up to its end, or when nothing comes any more.

        Args:
            ends: First offset of each partition that need not be read.
            give_up_after_s: Time without any new message after which the rest counts as lost.
        """
        self._give_up_after_s = give_up_after_s
        self._last_progress_s = time.monotonic()
        self._ends = ends

    def stop(self) -> None:
        """Stop at once."""
        self._stopping.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until all of them have ended."""
        for member in self._members:
            member.join(timeout)

    def rebalances(self, *, after_ns: int) -> int:
        """Return how often partitions were given out anew after a time."""
        return max(
            sum(at_ns > after_ns for at_ns in member.assigned_ns) for member in self._members
        )

    def take(self, batch: list[Any]) -> None:
        """Note what a member was given; called on its thread."""
        for message in batch:
            found = _consumed(message)
            self.messages.append(found)
            self._positions[found.partition] = max(
                found.offset + 1, self._positions[found.partition]
            )
            self._last_progress_s = time.monotonic()

    def is_done(self) -> bool:
        """Return whether nothing more is to be read."""
        if self._stopping.is_set():
            return True
        if self._ends is None:
            return False
        if all(self._positions[partition] >= end for partition, end in self._ends.items()):
            return True
        return time.monotonic() - self._last_progress_s > self._give_up_after_s


def _consumed(message: Any) -> Consumed:
    return Consumed(
        key=message.key().decode(),
        sequence=int(message.value().split(b" ", 1)[0]),
        partition=message.partition(),
        offset=message.offset(),
        at_ns=time.monotonic_ns(),
    )
