"""Clients of a history: producers, consumers, and what an operator asks for.

They speak the real protocol through `jbodlab.client`, and keep accounts of what they were told. An
operation whose answer did not come may have been carried out or not.
"""

from __future__ import annotations

import asyncio
import functools
import zlib
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any, get_args, get_origin, get_type_hints

from jbodlab.client import KafkaConnection
from jbodlab.errors import DecodeError, JbodlabError
from jbodlab.ids import TopicPartition
from jbodlab.protocol.api_table import request_class
from jbodlab.protocol.record_batch import build_batch, iterate_headers, iterate_records
from tests.simulation.plan import ProducerPlan
from tests.simulation.taps import in_sync_have
from tests.simulation.world import World

FAILURES = (OSError, JbodlabError)
NONE, OUT_OF_RANGE, NO_LEADER, NOT_LEADER, TOPIC_EXISTS, DUPLICATE = 0, 1, 5, 6, 36, 46
RETRIABLE = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 56, 74, 75, 76, 87, 100})
"""Error codes after which a client tries again, with newer metadata."""
METADATA = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
FETCH = {"max_wait": timedelta(milliseconds=10), "min_bytes": 1, "max_bytes": 1 << 20}
"""What is always the same of a Metadata and a Fetch request."""
REQUEST_S = 4.0
BROKER = 4
PREFERRED, UNCLEAN = 0, 1
WAIT = timedelta(seconds=3)
STUBBORN_ATTEMPTS = 6
RECOVERY_S = 2.5
"""For an election, and for clients to hear of it."""


def check_recovery(world: World, partition: TopicPartition, waited_s: float) -> None:
    """L7: a single failure is overcome within the time that the timeouts give."""
    if world.options.is_calm and waited_s > RECOVERY_S + world.explained_s:
        sentence = f"it took {waited_s:.1f} s until a record was acknowledged"
        world.report("L7", partition, sentence)


class Client:
    """Connections of one client, and what it knows of leaders."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.options.seed}:{name}")
        self.leaders: dict[TopicPartition, int] = {}
        self.is_running = True
        self._connections: dict[int, KafkaConnection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def ask(
        self,
        broker: int,
        key: int,
        version: int,
        /,
        *,
        timeout_s: float = REQUEST_S,
        within_s: float | None = None,
        **fields: Any,
    ) -> Any:
        """Ask one broker; None where there is no answer, or none within so many seconds."""
        request = message(key, version, **fields)
        was_settled = False
        try:
            async with asyncio.timeout(within_s):
                connection = await self._connected(broker)
                was_settled = self.world.is_settled
                return await connection.call(key, version, request, timeout_s)
        except DecodeError as error:
            self.world.report("S16", f"node-{broker}", f"answer to API {key}: {error}")
        except TimeoutError:
            if was_settled and self.world.is_settled and within_s is None:
                self.world.report("L5", f"node-{broker}", f"no answer to API {key}")
        except FAILURES:
            pass
        return None

    async def _connected(self, broker: int) -> KafkaConnection:
        found = self._connections.get(broker)
        if found is None or not found.is_open:
            port = self.world.nodes[broker].port
            found = await KafkaConnection.open(
                "127.0.0.1", port, client_id=self.name, timeout_s=REQUEST_S
            )
            self._connections[broker] = found
        return found

    async def ask_any(self, key: int, version: int, /, **fields: Any) -> Any:
        """Ask brokers one after the other until one answers; None if none does."""
        brokers = [node.id for node in self.world.brokers]
        self.random.shuffle(brokers)
        for broker in brokers:
            if (answer := await self.ask(broker, key, version, **fields)) is not None:
                return answer
        return None

    async def ask_leader(
        self, partition: TopicPartition, key: int, version: int, /, **fields: Any
    ) -> Any:
        """Ask who is said to lead a partition; who does not answer is not asked again."""
        if self.leaders.get(partition, -1) < 0:
            await self.refresh()
        leader = self.leaders.get(partition, -1)
        answer = None if leader < 0 else await self.ask(leader, key, version, **fields)
        if answer is None:
            self.leaders.pop(partition, None)
        return answer

    async def refresh(self, broker: int | None = None) -> Any:
        """Ask a broker, or any, who leads what; returns its answer, or None."""
        if broker is None:
            broker = self.random.choice(self.world.brokers).id
        response = await self.ask(broker, 3, 12, topics=None, **METADATA)
        for topic in () if response is None else response.topics:
            for each in () if topic.is_internal else topic.partitions:
                self.leaders[TopicPartition(topic.name, each.partition_index)] = each.leader_id
        return response


def value_of(producer: str, number: int, size: int) -> bytes:
    """Return a record's value: who sent it, which one it is, filling, and a checksum."""
    head = f"{producer}:{number}:".encode()
    body = head + b"x" * max(0, size - len(head) - 9)
    return body + b":%08x" % zlib.crc32(body)


def is_whole(value: bytes) -> bool:
    body, _, checksum = value.rpartition(b":")
    return checksum == b"%08x" % zlib.crc32(body)


class Producer(Client):
    """Writes to one topic, or to one partition of it only, one batch at a time."""

    def __init__(
        self, world: World, plan: ProducerPlan, name: str, only: TopicPartition | None = None
    ) -> None:
        super().__init__(world, name)
        self._only = only
        self._plan = plan
        self._id = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        number = 0
        while self.is_running and number < self._plan.records:
            await asyncio.sleep(self.random.random() * self._plan.pause_ms / 1000)
            partitions = self._partitions()
            if not partitions:
                await self.refresh()
                await asyncio.sleep(0.1)
                continue
            values = [
                value_of(self.name, number + k, self._plan.value_bytes)
                for k in range(self.random.choice((1, 1, 1, 3)))
            ]
            number += len(values)
            await self._send(self.random.choice(partitions), values)
        self.close()

    def _partitions(self) -> list[TopicPartition]:
        found = sorted(each for each in self.leaders if each.topic == self._plan.topic)
        return [each for each in found if self._only in (None, each)]

    async def _send(self, partition: TopicPartition, values: list[bytes]) -> None:
        """Send one batch until its fate is known, or nobody would wait longer."""
        is_idempotent = self._plan.is_idempotent and self._plan.acks == -1
        if is_idempotent and self._id[0] < 0 and not await self._get_id():
            return
        sequence = self._sequences.get(partition, 0) if is_idempotent else -1
        for value in values:
            self.world.accounts.sent[value] = (partition, self._plan.acks)
            if is_idempotent:
                self.world.accounts.once.add(value)
        batch = build_batch(
            [(None, value) for value in values],
            timestamp_ms=1_700_000_000_000 + int(self.world.now_s() * 1000),
            producer_id=self._id[0] if is_idempotent else -1,
            producer_epoch=self._id[1] if is_idempotent else -1,
            base_sequence=sequence,
        )
        begun_s = self.world.now_s()
        for attempt in range(40):
            code, offset = await self._attempt(partition, batch)
            if code in (NONE, DUPLICATE):
                if is_idempotent:
                    self._sequences[partition] = sequence + len(values)
                self._acknowledged(partition, values, offset if code == NONE else -1)
                check_recovery(self.world, partition, self.world.now_s() - begun_s)
                return
            if code is not None and code not in RETRIABLE:
                self.world.seen[f"produce error {code}"] += 1
                break
            if self._plan.acks == 0 or not self.is_running:
                break
            await asyncio.sleep(min(0.05 * 2**attempt, 0.5) * (0.5 + self.random.random()))
            if not self._plan.is_stubborn or attempt % STUBBORN_ATTEMPTS == STUBBORN_ATTEMPTS - 1:
                await self.refresh()
        # Its fate is unknown; another one under the next sequence could never be told apart.
        self._id = (-1, -1)

    async def _attempt(self, partition: TopicPartition, batch: bytes) -> tuple[int | None, int]:
        data = [{"index": partition.partition, "records": batch}]
        fields = {"transactional_id": None, "acks": self._plan.acks, "timeout": WAIT}
        # Without acks there is no answer to wait for.
        fields["within_s"] = None if self._plan.acks else 0.05
        topic = {"name": partition.topic, "partition_data": data}
        response = await self.ask_leader(partition, 0, 9, topic_data=[topic], **fields)
        if response is None:
            return None, -1
        answer = response.responses[0].partition_responses[0]
        if int(answer.error_code) in (NO_LEADER, NOT_LEADER) and not self._plan.is_stubborn:
            self.leaders.pop(partition, None)
        return int(answer.error_code), answer.base_offset

    def _acknowledged(self, partition: TopicPartition, values: list[bytes], offset: int) -> None:
        self.world.seen["acknowledged"] += len(values)
        for index, value in enumerate(values):
            self.world.accounts.acknowledged[value] = offset + index if offset >= 0 else None
        if self._plan.acks == -1 and offset >= 0:
            in_sync_have(self.world, partition, offset + len(values))

    async def _get_id(self) -> bool:
        fields = {"transactional_id": None, "transaction_timeout": timedelta(seconds=60)}
        response = await self.ask_any(22, 4, **fields)
        if response is None or int(response.error_code) != NONE:
            await asyncio.sleep(0.2)
            return False
        self._id = (response.producer_id, response.producer_epoch)
        self._sequences.clear()
        return True


class Consumer(Client):
    """Reads all partitions from their beginnings, each from its leader."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._offsets: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Read on and on."""
        while self.is_running:
            await self.refresh()
            for partition in sorted(self.leaders):
                if self.is_running:
                    await self.read_some(partition)
            await asyncio.sleep(0.1 + self.random.random() * 0.4)
        self.close()

    async def read_some(self, partition: TopicPartition) -> bool:
        """Read from one partition once; returns whether that was all that there is."""
        offset = self._offsets.get(partition, 0)
        wanted = {"partition": partition.partition, "fetch_offset": offset}
        wanted["partition_max_bytes"] = FETCH["max_bytes"]
        fields = {"topics": [{"topic": partition.topic, "partitions": [wanted]}], **FETCH}
        response = await self.ask_leader(partition, 1, 12, forgotten_topics_data=[], **fields)
        if response is None:
            return False
        answer = response.responses[0].partitions[0]
        code = int(answer.error_code)
        if code == OUT_OF_RANGE:
            self._out_of_range(partition, answer)
        elif code != NONE:
            self.leaders.pop(partition, None)
        if code != NONE:
            return False
        for found, value in values_in(bytes(answer.records or b"")):
            if found >= offset:
                self._take(partition, found, value, answer.high_watermark)
        return self._offsets.get(partition, 0) >= answer.high_watermark

    def _out_of_range(self, partition: TopicPartition, answer: Any) -> None:
        if answer.high_watermark >= 0 and not self.world.is_void(partition):
            self.world.report(
                "S15",
                partition,
                f"{self.name} has read up to {self._offsets.get(partition, 0)}, now the log is "
                f"from {answer.log_start_offset} to {answer.high_watermark}",
            )
        self._offsets[partition] = 0

    def _take(self, partition: TopicPartition, offset: int, value: bytes, watermark: int) -> None:
        report = functools.partial(self.world.report, "S15", partition)
        if not is_whole(value):
            report(f"the record at {offset} is damaged: {value!r:.60}")
        if offset >= watermark:
            report(f"record {offset} is shown above {watermark}")
        if not self.world.is_void(partition):
            known = self.world.accounts.read.setdefault(partition, {}).setdefault(offset, value)
            if known != value:
                report(f"at {offset} was {known!r:.40} and now is {value!r:.40}")
        self._offsets[partition] = offset + 1
        self.world.seen["consumed"] += 1


def values_in(data: bytes) -> list[tuple[int, bytes]]:
    """Return offset and value of each record in batches."""
    return [
        (header.base_offset + index, record.value or b"")
        for position, header in iterate_headers(data)
        for index, record in enumerate(iterate_records(data, position, header))
    ]


class Admin(Client):
    """What an operator asks for; each notes and returns an error code, None without an answer."""

    async def create_topic(
        self, name: str, partitions: int, factor: int, settings: dict[str, str]
    ) -> int | None:
        topic = {"name": name, "num_partitions": partitions, "replication_factor": factor}
        configs = [{"name": key, "value": value} for key, value in settings.items()]
        topics = [topic | {"configs": configs, "assignments": []}]
        return await self._ask(19, 7, "topics", timeout=WAIT, topics=topics)

    async def delete_topic(self, name: str) -> int | None:
        topics = [{"name": name, "topic_id": None}]
        return await self._ask(20, 6, "responses", topics=topics, timeout=WAIT)

    async def grow_topic(self, name: str, count: int) -> int | None:
        topics = [{"name": name, "count": count, "assignments": None}]
        return await self._ask(37, 3, "results", topics=topics, timeout=WAIT, validate_only=False)

    async def move(self, broker: int, path: str, partition: TopicPartition) -> int | None:
        topic = {"name": partition.topic, "partitions": [partition.partition]}
        dirs = [{"path": path, "topics": [topic]}]
        return await self._ask(34, 2, "results", "partitions", broker=broker, dirs=dirs)

    async def reassign(
        self, partition: TopicPartition, replicas: Sequence[int] | None
    ) -> int | None:
        """Give a partition to other brokers; None cancels that."""
        wanted = None if replicas is None else list(replicas)
        inner = [{"partition_index": partition.partition, "replicas": wanted}]
        topics = [{"name": partition.topic, "partitions": inner}]
        return await self._ask(45, 0, "responses", "partitions", timeout=WAIT, topics=topics)

    async def elect(self, partition: TopicPartition, kind: int = PREFERRED) -> int | None:
        topics = [{"topic": partition.topic, "partitions": [partition.partition]}]
        fields = {"election_type": kind, "topic_partitions": topics, "timeout": WAIT}
        return await self._ask(43, 2, **fields)

    async def configure(self, kind: int, name: str, key: str, value: str | None) -> int | None:
        """Set, or with None take back, a config of a topic (2) or of a broker (4)."""
        config = {"name": key, "config_operation": int(value is None), "value": value}
        resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
        fields = {"resources": [resource], "validate_only": False}
        broker = int(name) if kind == BROKER else None
        return await self._ask(44, 1, "responses", broker=broker, **fields)

    async def upgrade(self, level: int) -> int | None:
        update = {"feature": "metadata.version", "max_version_level": level}
        return await self._ask(57, 1, timeout=WAIT, feature_updates=[update])

    async def revive(self, broker: int, path: str) -> int | None:
        return await self._ask(10_000, 0, broker=broker, path=path)

    async def _ask(
        self, key: int, version: int, *results: str, broker: int | None = None, **fields: Any
    ) -> int | None:
        """Ask one broker, or any; returns the error code of the first result on a way to it."""
        if broker is None:
            found = await self.ask_any(key, version, **fields)
        else:
            found = await self.ask(broker, key, version, **fields)
        for name in results:
            # Where the whole request was refused, there are none.
            found = next(iter(getattr(found, name, ())), found)
        code = None if found is None else int(found.error_code)
        asked = {name: value for name, value in fields.items() if value is not WAIT}
        self.world.note(f"{_request_class(key, version).__name__} {broker or ''} {asked}: {code}")
        return code


def message(key: int, version: int, /, **fields: Any) -> Any:
    """Return a request, from its fields by name; lists of dicts are its inner messages."""
    return _built(_request_class(key, version), fields)


def _built(kind: Any, fields: dict[str, Any]) -> Any:
    items = _item_classes(kind)
    for name, found in fields.items():
        if isinstance(found, list):
            made = (_built(items[name], each) if isinstance(each, dict) else each for each in found)
            fields = fields | {name: tuple(made)}
    return kind(**fields)


@functools.cache
def _item_classes(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind).items()
    choices = [(name, each) for name, hint in hints for each in (hint, *get_args(hint))]
    return {name: get_args(each)[0] for name, each in choices if get_origin(each) is tuple}


_request_class = functools.cache(request_class)
