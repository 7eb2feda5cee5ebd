"""Clients of a history: producers, consumers, and what an operator asks for.

They speak the real protocol through `jbodlab.peers.client`, and keep accounts of what they were
told. An operation whose answer did not come may have been carried out or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from jbodlab.kafka_wire.api_table import request_class
from jbodlab.kafka_wire.message import made
from jbodlab.peers.client import KafkaConnection
from jbodlab.record_batch.record_batch import (
    BatchHeader,
    build_batch,
    iterate_headers,
    iterate_records,
)
from jbodlab.storage.log.transactions import Marker, read_marker
from jbodlab.vocabulary.errors import DecodeError, JbodlabError
from jbodlab.vocabulary.ids import TopicPartition
from tests.simulation.network import PORT_BASE
from tests.simulation.plan import ProducerPlan
from tests.simulation.taps import in_sync_have
from tests.simulation.world import World

FAILURES = (OSError, JbodlabError)
NONE, OUT_OF_RANGE, NO_LEADER, NOT_LEADER, TOPIC_EXISTS = 0, 1, 5, 6, 36
OUT_OF_ORDER, DUPLICATE = 45, 46
RETRIABLE = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 56, 74, 75, 76, 87, 100})
"""Error codes after which a client tries again, with newer metadata."""
METADATA = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
FETCH = {"max_wait": timedelta(milliseconds=10), "min_bytes": 1, "max_bytes": 1 << 20}
"""Fields that are always the same in a Metadata and a Fetch request."""
REQUEST_S = 4.0
BROKER = 4
PREFERRED, UNCLEAN = 0, 1
UPGRADE, SAFE_DOWNGRADE = 1, 2
RESULTS = ("topics", "responses", "results", "partitions")
"""Names of what an operator's answer has its error codes in, from the outside in."""
WAIT = timedelta(seconds=3)
STUBBORN_ATTEMPTS = 6
GAP_SHARE = 0.02
"""Of what is sent by those who number their batches: behind it they leave one out."""
RECOVERY_S = 2.5
"""For an election, and for clients to hear of it."""


def check_recovery(world: World, partition: TopicPartition, waited_s: float) -> None:
    """L7: a single failure is overcome within the time that the timeouts give."""
    if world.options.is_calm and waited_s > RECOVERY_S + world.explained_s:
        world.report("L7", partition, f"a record was acknowledged after {waited_s:.1f} s")


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

    async def ask(
        self, broker: int, key: int, version: int, /, timeout_s: float = REQUEST_S, **fields: Any
    ) -> Any:
        """Ask one broker; None where there is no answer."""
        request = message(key, version, **fields)
        was_settled = False
        try:
            connection = await self._connected(broker)
            was_settled = self.world.is_settled
            return await connection.call(key, version, request, timeout_s)
        except DecodeError as error:
            self.world.report("S16", f"node-{broker}", f"answer to API {key}: {error}")
        except TimeoutError:
            if was_settled and self.world.is_settled:
                self.world.report("L5", f"node-{broker}", f"no answer to API {key}")
        except FAILURES:
            pass
        return None

    async def _connected(self, broker: int) -> KafkaConnection:
        found = self._connections.get(broker)
        if found is None or not found.is_open:
            found = await KafkaConnection.open(
                "127.0.0.1", PORT_BASE + broker, client_id=self.name, timeout_s=REQUEST_S
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


class Stored(NamedTuple):
    """A batch as it is on a disk, or comes from one; a marker has no values."""

    header: BatchHeader
    values: tuple[bytes, ...]
    marker: Marker | None = None


@functools.cache
def stored_in(data: bytes) -> list[Stored]:
    """Return the batches in a piece of a log."""
    found = []
    for position, header in iterate_headers(data):
        values, marker = (), None
        try:
            if header.is_control:
                marker = read_marker(data, position, header)
            else:
                values = tuple(r.value or b"" for r in iterate_records(data, position, header))
        except DecodeError:
            values = (b"damaged",)
        found.append(Stored(header, values, marker))
    return found


class Batch(NamedTuple):
    """Values that go to one partition together, and their bytes."""

    partition: TopicPartition
    values: list[bytes]
    data: bytes


class Producer(Client):
    """Writes to one topic, or to one partition of it only.

    An idempotent one may send some batches for each partition, one soon after the other, before it
    hears of the first; they go over one connection, which keeps their order.
    """

    def __init__(
        self, world: World, plan: ProducerPlan, name: str, only: TopicPartition | None = None
    ) -> None:
        super().__init__(world, name)
        self._only = only
        self._plan = plan
        self._is_idempotent = plan.is_idempotent and plan.acks == -1
        self._id = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._number = 0

    async def run(self) -> None:
        while self.is_running and self._number < self._plan.records:
            await asyncio.sleep(self.random.random() * self._plan.pause_ms / 1000)
            partitions = self._partitions()
            if not partitions:
                await self.refresh()
                await asyncio.sleep(0.1)
                continue
            count = min(len(partitions), self.random.choice((1, 1, 2, 4)))
            some = self.random.sample(partitions, count)
            if not self._is_idempotent or self._id[0] >= 0 or await self._get_id():
                await self._send([batch for each in some for batch in self._batches(each)])
                if self._id[0] >= 0 and self.random.random() < GAP_SHARE:
                    await self._leave_gap(some[0])
        self.close()

    def _partitions(self) -> list[TopicPartition]:
        its = (each for each in self.leaders if each.topic == self._plan.topic)
        return sorted(its) if self._only is None else [each for each in its if each == self._only]

    def _batches(self, partition: TopicPartition) -> Iterator[Batch]:
        # Of a producer that a leader does not know any batch may be the first.
        has_begun = self._is_idempotent and self._sequences.get(partition, 0)
        for _ in range(self.random.choice((1, 1, 3)) if has_begun else 1):
            values: list[bytes] = []
            for _ in range(self.random.choice((1, 1, 1, 3))):
                values.append(value_of(self.name, self._number, self._plan.value_bytes))
                self._number += 1
            self.world.sent.update(dict.fromkeys(values, (partition, self._plan.acks)))
            sequence = self._sequences.get(partition, 0)
            if self._is_idempotent:
                self._sequences[partition] = sequence + len(values)
                self.world.once.update(values)
            yield Batch(partition, values, self._data(values, sequence))

    async def _leave_gap(self, partition: TopicPartition) -> None:
        """S6: a batch behind one that is missing is not taken."""
        sequence = self._sequences[partition] + 1
        data = self._data([value_of(f"{self.name}-gap", sequence, 0)], sequence)
        batch = Batch(partition, [], data)
        code, _ = (await self._attempt(self.leaders.get(partition, -1), [batch]))[0]
        if code == NONE and not self.world.is_void(partition):
            self.world.report("S6", partition, f"{self.name} leaves one out, the next is taken")

    def _data(self, values: list[bytes], sequence: int) -> bytes:
        records = [(None, value) for value in values]
        timestamp_ms = 1_700_000_000_000 + int(self.world.now_s() * 1000)
        ids = {"producer_id": self._id[0], "producer_epoch": self._id[1], "base_sequence": sequence}
        return build_batch(records, timestamp_ms=timestamp_ms, **ids if self._is_idempotent else {})

    async def _send(self, left: list[Batch]) -> None:
        """Send batches until the fate of all is known, or nobody would wait longer."""
        begun_s = self.world.now_s()
        for attempt in range(40):
            left = await self._round(left, begun_s)
            if not left or self._plan.acks == 0 or not self.is_running:
                break
            await asyncio.sleep(min(0.05 * 2**attempt, 0.5) * (0.5 + self.random.random()))
            if not self._plan.is_stubborn or attempt % STUBBORN_ATTEMPTS == STUBBORN_ATTEMPTS - 1:
                await self.refresh()
        if left:
            # Their fate is unknown; another one under the next sequence could never be told apart.
            self._id = (-1, -1)

    async def _round(self, batches: list[Batch], begun_s: float) -> list[Batch]:
        """Send each batch once, in order; returns those whose fate is still open.

        The first ones of all partitions with a leader share a request, then the second ones.
        """
        if any(self.leaders.get(batch.partition, -1) < 0 for batch in batches):
            await self.refresh()
        requests: dict[tuple[int, int], list[Batch]] = defaultdict(list)
        places: Counter[TopicPartition] = Counter()
        for batch in batches:
            places[batch.partition] += 1
            requests[places[batch.partition], self.leaders.get(batch.partition, -1)].append(batch)
        reached: set[int] = set()
        for leader in sorted({leader for _, leader in requests if leader >= 0}):
            with contextlib.suppress(*FAILURES, TimeoutError):
                await self._connected(leader)
                reached.add(leader)
        attempts = [
            self._attempt(leader if leader in reached else -1, some)
            for (_, leader), some in requests.items()
        ]
        sent = chain.from_iterable(requests.values())
        answers = chain.from_iterable(await asyncio.gather(*attempts))
        left: list[Batch] = []
        for batch, (code, offset) in zip(sent, answers, strict=True):
            if code in (NONE, DUPLICATE):
                self._acknowledged(batch, offset if code == NONE else -1)
                check_recovery(self.world, batch.partition, self.world.now_s() - begun_s)
                continue
            is_behind = any(each.partition == batch.partition for each in left)
            left.append(batch)
            if code in (NO_LEADER, NOT_LEADER) and not self._plan.is_stubborn:
                self.leaders.pop(batch.partition, None)
            elif code == OUT_OF_ORDER and not is_behind:
                self._forgotten(batch.partition)
            elif code not in RETRIABLE and code is not None and not is_behind:
                self.world.seen[f"produce error {code}"] += 1
                self._id = (-1, -1)
                return []
        return left

    async def _attempt(self, leader: int, some: list[Batch]) -> list[tuple[int | None, int]]:
        """Send one request; returns error code and offset of each batch."""
        fields = {"transactional_id": None, "acks": self._plan.acks, "timeout": WAIT}
        data = [{"index": each.partition.partition, "records": each.data} for each in some]
        topics = [{"name": self._plan.topic, "partition_data": data}]
        response = None
        # Without acks there is no answer to wait for.
        patience = asyncio.timeout(None if self._plan.acks else 0.05)
        if leader >= 0:
            with contextlib.suppress(TimeoutError):
                async with patience:
                    response = await self.ask(leader, 0, 9, topic_data=topics, **fields)
        if response is None:
            for each in some:
                self.leaders.pop(each.partition, None)
            return [(None, -1)] * len(some)
        answers = response.responses[0].partition_responses
        return [(int(each.error_code), each.base_offset) for each in answers]

    def _forgotten(self, partition: TopicPartition) -> None:
        """S6: whoever sends the next batch, or one again, is known to every leader."""
        if not self.world.is_void(partition):
            self.world.report("S6", partition, f"{self.name} is out of order, for its leader")

    def _acknowledged(self, batch: Batch, offset: int) -> None:
        self.world.seen["acknowledged"] += len(batch.values)
        for index, value in enumerate(batch.values):
            self.world.acknowledged[value] = offset + index if offset >= 0 else None
        if self._plan.acks == -1 and offset >= 0 and not self.world.is_void(batch.partition):
            in_sync_have(self.world, batch.partition, offset + len(batch.values))

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

    isolation_level = 0

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
        fields["isolation_level"] = self.isolation_level
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
        end = self._end(answer)
        for header, values, _ in self._shown(stored_in(bytes(answer.records or b"")), answer):
            for found, value in enumerate(values, header.base_offset):
                if found >= offset:
                    self._take(partition, found, value, end)
            if not values:
                behind = max(offset, header.next_offset)
                self._offsets[partition] = max(self._offsets.get(partition, 0), behind)
        return self._offsets.get(partition, 0) >= end

    def _shown(self, batches: list[Stored], _answer: Any) -> Iterator[Stored]:
        """Yield the batches that this reader is shown."""
        yield from batches

    def _end(self, answer: Any) -> int:
        """Return up to where an answer may go."""
        return int(answer.high_watermark)

    def _out_of_range(self, partition: TopicPartition, answer: Any) -> None:
        offset, start = self._offsets.get(partition, 0), self.world.trimmed[partition]
        end = answer.high_watermark
        if end >= 0 and offset >= start and not self.world.is_void(partition):
            there = f"now there is {answer.log_start_offset} to {end}"
            self.world.report("S15", partition, f"{self.name} has read up to {offset}, {there}")
        self._offsets[partition] = start if offset < start else 0

    def _take(self, partition: TopicPartition, offset: int, value: bytes, end: int) -> None:
        report = functools.partial(self.world.report, "S15", partition)
        if not is_whole(value):
            report(f"the record at {offset} is damaged: {value!r:.60}")
        if offset >= end:
            report(f"record {offset} is shown above {end}")
        if not self.world.is_void(partition):
            known = self.world.read[partition].setdefault(offset, value)
            if known != value:
                report(f"at {offset} was {known!r:.40} and now is {value!r:.40}")
        self._offsets[partition] = offset + 1
        self.world.seen["consumed"] += 1


class Admin(Client):
    """Requests of an operator; each notes and returns an error code, None without an answer."""

    async def create_topic(
        self, name: str, partitions: int, factor: int, settings: dict[str, str]
    ) -> int | None:
        topic = {"name": name, "num_partitions": partitions, "replication_factor": factor}
        configs = [{"name": key, "value": value} for key, value in settings.items()]
        topics = [topic | {"configs": configs, "assignments": []}]
        return await self._ask(19, 7, timeout=WAIT, topics=topics)

    async def delete_topic(self, name: str) -> int | None:
        return await self._ask(20, 6, topics=[{"name": name, "topic_id": None}], timeout=WAIT)

    async def grow_topic(self, name: str, count: int) -> int | None:
        topics = [{"name": name, "count": count, "assignments": None}]
        return await self._ask(37, 3, topics=topics, timeout=WAIT, validate_only=False)

    async def move(self, broker: int, path: Path, partition: TopicPartition) -> int | None:
        topic = {"name": partition.topic, "partitions": [partition.partition]}
        return await self._ask(34, 2, broker, dirs=[{"path": str(path), "topics": [topic]}])

    async def reassign(self, partition: TopicPartition, to: list[int] | None) -> int | None:
        """Give a partition to other brokers; None cancels that."""
        inner = [{"partition_index": partition.partition, "replicas": to}]
        topics = [{"name": partition.topic, "partitions": inner}]
        self.world.retargeted[partition] += 1
        code = await self._ask(45, 0, timeout=WAIT, topics=topics)
        if code is not None:
            self.world.retargeted[partition] -= 1
        return code

    async def elect(self, partition: TopicPartition, kind: int = PREFERRED) -> int | None:
        topics = [{"topic": partition.topic, "partitions": [partition.partition]}]
        return await self._ask(43, 2, election_type=kind, topic_partitions=topics, timeout=WAIT)

    async def configure(self, kind: int, name: str, key: str, value: str | None) -> int | None:
        """Set, or with None take back, a config of a topic (2) or of a broker (4)."""
        config = {"name": key, "config_operation": int(value is None), "value": value}
        resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
        broker = int(name) if kind == BROKER else 0
        return await self._ask(44, 1, broker, resources=[resource], validate_only=False)

    async def set_level(self, feature: str, level: int, *, is_lower: bool = False) -> int | None:
        """Raise the level of a feature, or lower it."""
        kind = SAFE_DOWNGRADE if is_lower else UPGRADE
        update = {"feature": feature, "max_version_level": level, "upgrade_type": kind}
        return await self._ask(57, 1, timeout=WAIT, feature_updates=[update])

    async def delete_records(self, broker: int, partition: TopicPartition, to: int) -> int | None:
        """Let the log of a partition begin at an offset; its leader is asked."""
        inner = [{"partition_index": partition.partition, "offset": to}]
        topics = [{"name": partition.topic, "partitions": inner}]
        return await self._ask(21, 2, broker, topics=topics, timeout=WAIT)

    async def revive(self, broker: int, path: Path) -> int | None:
        return await self._ask(10_000, 0, broker, path=str(path))

    async def _ask(self, key: int, version: int, broker: int = 0, **fields: Any) -> int | None:
        """Ask one broker, or any; returns the error code of the first result."""
        asks = functools.partial(self.ask, broker) if broker else self.ask_any
        found = await asks(key, version, **fields)
        for name in RESULTS:
            # Where the whole request was refused, there are none.
            found = next(iter(getattr(found, name, ())), found)
        code = None if found is None else int(found.error_code)
        self.world.note(f"{message(key, version, **fields)} to {broker or 'any'}: {code}")
        return code


def message(key: int, version: int, /, **fields: Any) -> Any:
    """Return a request, from its fields by name; lists of dicts are its inner messages."""
    return made(_request_class(key, version), fields)


_request_class = functools.cache(request_class)
