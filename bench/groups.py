"""Consumer groups: how long a dying directory keeps one waiting, and what crowds of members cost.

The members of crowds speak the protocol over connections of their own, all in this process: a
library for each of a thousand members would be what is measured. The group whose directories die
is one of librdkafka.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import confluent_kafka
from confluent_kafka.admin import NewTopic

from bench.measure import MAKE, failed, fresh, healed, longest_s, percentile, resident_mb
from broker.coordination.log_reduction import LogReduction
from jbodlab.group_records.keys import OffsetCommitKey
from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.group_records.records import GroupRecord, decode, encode
from jbodlab.group_records.values import OffsetCommitValue
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from tests.cluster.harness import Cluster, Load, wait_for
from tests.simulation.clients import message

TOPIC = "consumed"
PARTITIONS = 6
CONSUMERS = 3
RATE = 600
"""Records a second: each partition has one every 10 ms."""
COMMIT_S = 0.1
QUIET_S = 3.0
GOES_ON_S = 90.0
HEARTBEAT_S = 0.5
SESSION = timedelta(seconds=45)
JOIN_GROUPS, JOIN_MEMBERS = 100, 10
LARGE_GROUP = 100
COMMITTERS, COMMIT_RUN_S = 50, 10.0
MANY_GROUPS, KEYS_AT_ONCE = 10_000, 500
LOADED = 1_000_000
SETTLE_S = 10.0
DEADLINE_S = 120.0
COORDINATOR, PARTITION, BOTH = "coordinator", "partition", "both"
RETRIED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGap:
    """Cost of one broken directory, or two, for a group.

    Attributes:
        broken: Whose directory: its coordinator's, that of a partition that it consumes, or both.
        consumed_s: Longest time without a record in one of its partitions.
        committed_s: Longest time in which a member had no commit acknowledged.
        quiet_consumed_s, quiet_committed_s: The same before the fault.
        rebalances: How often partitions were assigned anew.
    """

    broken: str
    consumed_s: float
    committed_s: float
    quiet_consumed_s: float
    quiet_committed_s: float
    rebalances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowds:
    """Cost of many members and groups.

    Attributes:
        joined_s: Until `JOIN_GROUPS` groups had all their members in one generation.
        rebalanced_s: Until one more member of a large group was in a generation with all others,
            who ask every `HEARTBEAT_S`.
        commits_per_s: Of `COMMITTERS` members of a group, each committing one offset at a time.
        commit_p99_ms: Of these.
        groups_kb: Resident memory of all brokers for each group that has one committed offset.
    """

    joined_s: float
    rebalanced_s: float
    commits_per_s: float
    commit_p99_ms: float
    groups_kb: float


def group_gaps(make: MAKE, runs: int) -> Iterator[GroupGap]:
    """Break directories under a consuming group, so often for each kind; each as it ends."""
    with fresh(make) as cluster:
        cluster.start()
        settings = {"min.insync.replicas": "2"}
        wanted = NewTopic(TOPIC, PARTITIONS, len(cluster.broker_ids), config=settings)
        cluster.admin().create_topics([wanted])[TOPIC].result(30)
        cluster.wait_isr(TOPIC)
        for number, broken in enumerate((COORDINATOR, PARTITION, BOTH) * runs):
            yield _gap(cluster, f"group {number}", broken)


def _gap(cluster: Cluster, group: str, broken: str) -> GroupGap:
    with ExitStack() as stack:
        load = stack.enter_context(Load(cluster.bootstrap, TOPIC, rate=RATE))
        members = [_Consuming(cluster.bootstrap, group) for _ in range(CONSUMERS)]
        for member in members:
            stack.callback(member.stop)
        _wait_all(members, time.monotonic())
        cluster.wait_isr(GROUP_METADATA_TOPIC)
        quiet_since = time.monotonic()
        time.sleep(QUIET_S)
        rebalances = sum(member.assignments for member in members)
        since = time.monotonic()
        index = coordinator_partition(group, len(cluster.partitions(GROUP_METADATA_TOPIC)))
        named = {COORDINATOR: (GROUP_METADATA_TOPIC, index), PARTITION: (TOPIC, 0)}
        faults = failed(cluster, [named[each] for each in named if broken in (each, BOTH)])
        time.sleep(QUIET_S)
        _wait_all(members, time.monotonic())
        until = time.monotonic()
        load.stop()
    found = GroupGap(
        broken=broken,
        consumed_s=_longest_of_partitions(members, since, until),
        quiet_consumed_s=_longest_of_partitions(members, quiet_since, since),
        committed_s=max(longest_s(m.committed, since, until) for m in members),
        quiet_committed_s=max(longest_s(m.committed, quiet_since, since) for m in members),
        rebalances=sum(member.assignments for member in members) - rebalances,
    )
    healed(cluster, faults, TOPIC, GROUP_METADATA_TOPIC)
    return found


class _Consuming:
    """A member that consumes and commits, on a thread."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "partition.assignment.strategy": "cooperative-sticky",
                "log_level": 0,
            }
        )
        self.seen: dict[int, list[float]] = defaultdict(list)
        self.committed: list[float] = []
        self.assignments = 0
        self._consumer.subscribe([TOPIC], on_assign=self._assigned)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="consumes")
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def goes_on(self, moment: float) -> bool:
        """Whether it has consumed and committed after a moment."""
        last = max((times[-1] for times in self.seen.values() if times), default=0.0)
        return last > moment and bool(self.committed) and self.committed[-1] > moment

    def _assigned(self, _: object, partitions: Sequence[object]) -> None:
        self.assignments += bool(partitions)

    def _run(self) -> None:
        commit_at = 0.0
        while not self._stop.is_set():
            for record in self._consumer.consume(500, 0.02):
                partition = record.partition()
                if record.error() is None and partition is not None:
                    self.seen[partition].append(time.monotonic())
            if time.monotonic() < commit_at:
                continue
            commit_at = time.monotonic() + COMMIT_S
            try:
                done = self._consumer.commit(asynchronous=False)
            except confluent_kafka.KafkaException:
                # There was nothing to commit, or it is tried again.
                continue
            if done and all(each.error is None for each in done):
                self.committed.append(time.monotonic())


def _wait_all(members: Sequence[_Consuming], moment: float) -> None:
    wait_for("all members go on", lambda: all(m.goes_on(moment) for m in members), GOES_ON_S)
    reached = {partition for member in members for partition in member.seen}
    assert reached == set(range(PARTITIONS)), reached


def _longest_of_partitions(members: Sequence[_Consuming], since: float, until: float) -> float:
    """The longest time without a record of one partition, whoever has it."""
    times: dict[int, list[float]] = defaultdict(list)
    for member in members:
        for partition, each in member.seen.items():
            times[partition] += each
    return max(longest_s(sorted(each), since, until) for each in times.values())


def crowds(make: MAKE) -> Crowds:
    """Measure many members and groups on a fresh cluster."""
    with fresh(make) as cluster:
        cluster.start()
        wanted = NewTopic(TOPIC, PARTITIONS, len(cluster.broker_ids))
        cluster.admin().create_topics([wanted])[TOPIC].result(30)
        return asyncio.run(_crowds(cluster))


async def _crowds(cluster: Cluster) -> Crowds:
    ports = {broker: cluster.broker(broker).port for broker in cluster.broker_ids}
    async with AsyncExitStack() as stack:
        finder = _Finder(ports)
        stack.push_async_callback(finder.close)
        # The topic of commits is made by the first question.
        await finder.coordinators(["first"])
        joined_s = await _joined(finder)
        large = [await _member(stack, finder, "large") for _ in range(LARGE_GROUP)]
        await _until_together(large)
        begun = time.monotonic()
        late = await _member(stack, finder, "large")
        await _until_together([*large, late])
        rebalanced_s = time.monotonic() - begun
        rate, p99_ms = await _commits(stack, finder)
    async with AsyncExitStack() as stack:
        finder = _Finder(ports)
        stack.push_async_callback(finder.close)
        groups_kb = await _many_groups(finder, cluster)
    return Crowds(
        joined_s=joined_s,
        rebalanced_s=rebalanced_s,
        commits_per_s=rate,
        commit_p99_ms=p99_ms,
        groups_kb=groups_kb,
    )


async def _joined(finder: _Finder) -> float:
    async with AsyncExitStack() as stack:
        names = [f"joined-{number}" for number in range(JOIN_GROUPS)]
        await finder.coordinators(names)
        begun = time.monotonic()
        groups = [
            [await _member(stack, finder, name) for _ in range(JOIN_MEMBERS)] for name in names
        ]
        await asyncio.gather(*map(_until_together, groups))
        return time.monotonic() - begun


async def _commits(stack: AsyncExitStack, finder: _Finder) -> tuple[float, float]:
    members = [await _member(stack, finder, "committing") for _ in range(COMMITTERS)]
    await _until_together(members)
    end = time.monotonic() + COMMIT_RUN_S
    took: list[float] = []

    async def commit_on(member: _Member) -> None:
        for offset in itertools.count():
            begun = time.monotonic()
            if begun >= end:
                return
            await member.commit(offset)
            took.append(time.monotonic() - begun)

    await asyncio.gather(*map(commit_on, members))
    return len(took) / COMMIT_RUN_S, percentile(took, 0.99) * 1e3


async def _many_groups(finder: _Finder, cluster: Cluster) -> float:
    def brokers_mb() -> float:
        resident = resident_mb(cluster)
        return sum(resident[broker] for broker in cluster.broker_ids)

    await asyncio.sleep(SETTLE_S)
    before = brokers_mb()
    names = [f"idle-{number}" for number in range(MANY_GROUPS)]
    for start in range(0, MANY_GROUPS, KEYS_AT_ONCE):
        some = names[start : start + KEYS_AT_ONCE]
        for name, broker in (await finder.coordinators(some)).items():
            code = await _committed(await finder.connection(broker), name, "", -1, 0)
            assert code == ErrorCode.NONE, code
    await asyncio.sleep(SETTLE_S)
    return (brokers_mb() - before) * 1e3 / MANY_GROUPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """Cost of a million commits for a coordinator that begins.

    Attributes:
        per_batch: Commits in each batch: as many as came at the same time.
        seconds: Processor time, of reading and of making state of what is left of them.
    """

    per_batch: int
    seconds: float


def loading() -> Iterator[Loading]:
    """Reduce and decode a million commits to ten thousand keys, as `broker.coordinator` does."""
    commits = [
        encode(
            GroupRecord(
                OffsetCommitKey(group=f"group-{key // 10:05}", topic=TOPIC, partition=key % 10),
                OffsetCommitValue(offset=key, metadata="", commit_timestamp=1),
            )
        )
        for key in range(MANY_GROUPS)
    ]
    for per_batch in (1, 10):
        data, batch_bytes = _log_of(commits, per_batch)
        piece = (1 << 20) // batch_bytes * batch_bytes
        begun, offset = time.process_time(), 0
        reduction = LogReduction(LOADED)
        for position in range(0, len(data), piece):
            offset = reduction.take(data[position : position + piece], offset)
        for raw in reduction.records():
            decode(raw.key, raw.value)
        assert reduction.record_count == LOADED
        yield Loading(per_batch=per_batch, seconds=time.process_time() - begun)


def _log_of(commits: Sequence[tuple[bytes, bytes | None]], per_batch: int) -> tuple[bytes, int]:
    """Return a log with the commits again and again, in batches of one size."""
    data = bytearray()
    batch = b""
    for base_offset in range(0, LOADED, per_batch):
        some = [commits[(base_offset + number) % len(commits)] for number in range(per_batch)]
        batch = build_batch(some, timestamp_ms=1)
        data += base_offset.to_bytes(8, "big") + batch[8:]
    return bytes(data), len(batch)


class _Finder:
    """Knows who coordinates which group, and has a connection to each broker."""

    def __init__(self, ports: dict[int, int]) -> None:
        self._ports = ports
        self._connections: dict[int, KafkaConnection] = {}

    async def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def open(self, broker: int) -> KafkaConnection:
        """Return a connection that is the caller's own."""
        port = self._ports[broker]
        return await KafkaConnection.open("127.0.0.1", port, client_id="crowd", timeout_s=10.0)

    async def connection(self, broker: int) -> KafkaConnection:
        """Return the connection to a broker that everybody shares."""
        if broker not in self._connections:
            self._connections[broker] = await self.open(broker)
        return self._connections[broker]

    async def coordinators(self, groups: Sequence[str]) -> dict[str, int]:
        """Return the coordinator of each group, once all have one."""
        connection = await self.connection(min(self._ports))
        asked = message(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=tuple(groups))

        async def found() -> dict[str, int] | None:
            answer = await connection.call(ApiKey.FIND_COORDINATOR, 4, asked)
            if any(each.error_code for each in answer.coordinators):
                return None
            return {each.key: int(each.node_id) for each in answer.coordinators}

        return await _until(found)


@dataclass(eq=False)
class _Member:
    """A member of a classic group, over a connection of its own."""

    group: str
    connection: KafkaConnection
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    others: Sequence[str] = ()
    """The members of its generation, where it leads."""

    async def run(self) -> None:
        """Join, and join again whenever the group rebalances."""
        while True:
            generation = await self._join()
            if generation is not None and await self._sync(generation):
                await self._stay()

    async def commit(self, offset: int) -> None:
        code = await _committed(
            self.connection, self.group, self.member_id, self.generation, offset
        )
        assert code == ErrorCode.NONE, code

    async def _join(self) -> int | None:
        answer = await self._asked(
            ApiKey.JOIN_GROUP,
            4,
            session_timeout=SESSION,
            rebalance_timeout=SESSION,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        self.member_id = answer.member_id or self.member_id
        if answer.error_code:
            return None
        self.leads = answer.leader == self.member_id
        self.others = [each.member_id for each in answer.members]
        return int(answer.generation_id)

    async def _sync(self, generation: int) -> bool:
        """Get the assignment; only who has it is in the generation."""
        given = [{"member_id": each, "assignment": b""} for each in self.others]
        answer = await self._asked(
            ApiKey.SYNC_GROUP, 2, generation_id=generation, assignments=given
        )
        if not answer.error_code:
            self.generation = generation
        return not answer.error_code

    async def _stay(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            answer = await self._asked(ApiKey.HEARTBEAT, 2, generation_id=self.generation)
            if answer.error_code:
                self.generation = -1
                return

    async def _asked(self, key: ApiKey, version: int, **fields: Any) -> Any:
        asked = message(key, version, group_id=self.group, member_id=self.member_id, **fields)
        return await self.connection.call(key, version, asked, DEADLINE_S)


async def _member(stack: AsyncExitStack, finder: _Finder, group: str) -> _Member:
    """Begin a member, which ends with the stack."""
    coordinator = (await finder.coordinators([group]))[group]
    connection = await finder.open(coordinator)
    stack.callback(connection.close)
    member = _Member(group, connection)
    task = asyncio.create_task(member.run(), name=f"member of {group}")
    stack.push_async_callback(_ended, task)
    return member


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _until_together(members: Sequence[_Member]) -> None:
    """Wait until all have the assignment of one generation."""

    async def are_together() -> bool:
        leaders = [each for each in members if each.leads]
        return (
            len({each.generation for each in members}) == 1
            and members[0].generation > 0
            and len(leaders) == 1
            and len(leaders[0].others) == len(members)
        )

    await _until(are_together)


async def _committed(
    connection: KafkaConnection, group: str, member_id: str, generation: int, offset: int
) -> int:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    asked = message(
        ApiKey.OFFSET_COMMIT,
        6,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[{"name": TOPIC, "partitions": [partition]}],
    )

    async def answered() -> int | None:
        answer = await connection.call(ApiKey.OFFSET_COMMIT, 6, asked)
        code = int(answer.topics[0].partitions[0].error_code)
        return None if code in RETRIED else code

    found = await _until(answered)
    return int(found)


async def _until(found: Callable[[], Awaitable[Any]]) -> Any:
    """Ask until there is an answer that is not None or False."""
    async with asyncio.timeout(DEADLINE_S):
        while (answer := await found()) is None or answer is False:  # noqa: ASYNC110 - others' events
            await asyncio.sleep(0.02)
        return answer
