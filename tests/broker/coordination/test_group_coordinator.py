"""Coordinators over real logs: what is answered when, and how their life hangs on the replica's."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.assemblies.coordinators import GroupCoordinatorService
from broker.compaction.log_cleaner import LogCleaner
from broker.compaction.settings import CleanerSettings
from broker.coordination import loading
from broker.coordination.shard import RELOAD_S, ShardContext, ShardState
from broker.disk.directory.log_dir import LogDir
from broker.groups import requests, responses
from broker.groups.consumer.assignors.question import Question
from broker.groups.consumer.assignors.uniform import assign_uniformly
from broker.groups.consumer.group import Target
from broker.groups.group_core import APPEND_ERRORS, GroupCore
from broker.groups.settings import GroupSettings
from broker.metadata.metadata_cache import MetadataCache
from broker.replica.log.partition_log import PartitionLog
from broker.replica.log.tail_cache import Slice
from jbodlab.config.topic_keys import SEGMENT_BYTES
from jbodlab.group_records import records
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TopicId, TopicPartition
from tests.broker.compaction.here import Here
from tests.broker.coordination import led_topic
from tests.broker.coordination.led_topic import D2, LedTopic, code
from tests.broker.replicas import (
    DEADLINE_S,
    TOPIC_ID,
    Host,
    change,
    config,
    partition_record,
    topic,
    until,
)
from tests.builders import named_uuid
from tests.waiting import set_forward, turns

TP = TopicPartition(GROUP_METADATA_TOPIC, 0)
ORDERS = TopicId(named_uuid("orders"))
GROUP, SIMPLE = "g", "s"
"""One with members, and one with offsets alone."""


class Cluster(LedTopic[GroupCoordinatorService]):
    """The offsets topic, and a topic whose offsets are committed."""

    def __init__(self, root: Path, settings: GroupSettings) -> None:
        numbers = iter(range(1000))

        def new_service(
            host: Host, cache: MetadataCache, wall_ms: Callable[[], int]
        ) -> GroupCoordinatorService:
            context = ShardContext(
                new_core=lambda: GroupCore(
                    settings, cache, lambda: f"id-{next(numbers)}", lambda _group: {}
                ),
                codec=records,
                append_errors=APPEND_ERRORS,
                wall_ms=wall_ms,
                commit_timeout_ms=lambda: settings.offsets_commit_timeout_ms,
                threads=system_environment().threads,
            )
            return GroupCoordinatorService(GROUP_METADATA_TOPIC, host.registry, cache, context)

        super().__init__(root, GROUP_METADATA_TOPIC, new_service)
        self.publisher.publish_to(
            internal_listeners=[self.host.manager.roles], listeners_after_clients=[self.coordinator]
        )

    async def start(self, *others: Record, **fields: Any) -> None:
        orders = partition_record((2,), (D2,), topic_id=ORDERS)
        await super().start(topic("orders", ORDERS), orders, *others, **fields)

    def ask(self, request: Any) -> asyncio.Future[Any]:
        return self.submit(request.group_id, request)

    async def answered(self, request: Any) -> Any:
        """The answer to a request, replicated if it was written."""
        future = self.ask(request)
        await self.replicate()
        return await asyncio.wait_for(future, DEADLINE_S)

    async def offset(self, *, require_stable: bool = False) -> int:
        fetched = await asyncio.wait_for(self.ask(fetch(require_stable)), DEADLINE_S)
        return int(fetched.topics[0].partitions[0].committed_offset)

    async def joined(self, client: str = "a") -> str:
        """A member whose JoinGroup is parked; returns its id."""
        refused = await self.answered(join(client))
        assert refused.error_code is ErrorCode.MEMBER_ID_REQUIRED
        return str(refused.member_id)


def commit(offset: int = 5) -> requests.OffsetCommit:
    partition = requests.CommitPartition(0, offset)
    return requests.OffsetCommit(
        group_id=SIMPLE, topics=(requests.CommitTopic("orders", (partition,), ORDERS),)
    )


def fetch(require_stable: bool = False) -> requests.OffsetFetch:
    return requests.OffsetFetch(
        group_id=SIMPLE,
        topics=(requests.NamedPartitions("orders", (0,)),),
        require_stable=require_stable,
    )


def join(client: str, member_id: str = "", metadata: bytes = b"m") -> requests.JoinGroup:
    return requests.JoinGroup(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocols=(requests.JoinProtocol("range", metadata),),
        client_id=client,
    )


def sync(
    member_id: str, generation: int, *assignments: requests.SyncedAssignment
) -> requests.SyncGroup:
    return requests.SyncGroup(
        group_id=GROUP,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )


def heartbeat(member_id: str, generation: int) -> requests.Heartbeat:
    return requests.Heartbeat(group_id=GROUP, generation_id=generation, member_id=member_id)


async def stable(cluster: Cluster) -> str:
    """A group of one member in generation 1; returns its id."""
    member = await cluster.joined()
    parked = cluster.ask(join("a", member))
    set_forward(5)
    joined = await asyncio.wait_for(parked, DEADLINE_S)
    assert joined.generation_id == 1
    assignment = requests.SyncedAssignment(member, b"mine")
    assert (await cluster.answered(sync(member, 1, assignment))).assignment == b"mine"
    return member


@pytest.fixture
async def cluster(tmp_path: Path, options: dict[str, Any]) -> AsyncIterator[Cluster]:
    isr = options.pop("isr", (1, 2))
    values = GroupSettings(**{"initial_rebalance_delay_ms": 0, **options})
    async with led_topic.leading(Cluster(tmp_path, values), isr) as cluster:
        yield cluster


# A state that its log contradicts


@pytest.mark.parametrize("step", ["apply", "timer", "committed_up_to"])
async def test_a_coordinator_whose_step_fails_is_loaded_anew_from_its_log(
    cluster: Cluster, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stable(cluster)
    before = GroupCore.__dict__[step]
    failures = []

    def fail_once(core: GroupCore, *args: Any) -> Any:
        if not failures:
            failures.append(args)
            raise RuntimeError("not foreseen")
        return before(core, *args)

    monkeypatch.setattr(GroupCore, step, fail_once)
    waiting = cluster.ask(commit(5))
    if step == "timer":
        await cluster.replicate()
        set_forward(11)
    elif step == "committed_up_to":
        await cluster.replicate()
    await until(lambda: bool(failures))
    assert cluster.state is ShardState.LOADING
    await turns()
    assert code(waiting) is (ErrorCode.NONE if step == "timer" else ErrorCode.NOT_COORDINATOR)
    assert code(cluster.ask(fetch())) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    set_forward(RELOAD_S)
    await cluster.active()

    await cluster.replicate()
    assert await cluster.offset() == 5


async def test_a_coordinator_that_goes_on_failing_is_loaded_after_longer_and_longer_pauses(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(core: GroupCore, *args: Any) -> Any:
        if cluster.state is not ShardState.LOADING:
            raise RuntimeError("not foreseen")

    monkeypatch.setattr(GroupCore, "committed_up_to", fail)
    cluster.ask(commit(5)).add_done_callback(lambda future: future.exception())
    await cluster.replicate()
    for pause_s in (RELOAD_S, 2 * RELOAD_S, 4 * RELOAD_S):
        assert cluster.state is ShardState.LOADING
        set_forward(pause_s)
        await turns()
    monkeypatch.undo()
    set_forward(8 * RELOAD_S)
    await cluster.active()

    await cluster.replicate()
    assert await cluster.offset() == 5


async def test_a_request_that_cannot_be_decided_leaves_the_coordinator_as_it_is(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(core: GroupCore, *args: Any) -> Any:
        raise RuntimeError("not foreseen")

    with monkeypatch.context() as patched:
        patched.setattr(GroupCore, "decide", fail)
        assert code(cluster.ask(commit(5))) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert cluster.state is ShardState.ACTIVE
    assert (await cluster.answered(commit(6))) is not None


# Writing and reading


async def test_commit_is_answered_when_the_follower_has_it_and_read_from_then_on(
    cluster: Cluster,
) -> None:
    first = cluster.ask(commit(5))
    assert not first.done()
    assert await cluster.offset() == -1
    stable_read = cluster.ask(fetch(require_stable=True))
    await turns()
    assert not stable_read.done()

    await cluster.replicate()

    committed = await first
    assert committed.topics[0].partitions[0].error_code is ErrorCode.NONE
    assert (await stable_read).topics[0].partitions[0].committed_offset == 5
    assert await cluster.offset() == 5


@pytest.mark.stage(isr=(1,))
async def test_commit_below_the_minimal_isr_is_refused_and_leaves_no_trace(
    cluster: Cluster,
) -> None:
    assert code(cluster.ask(commit())) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.end == 0
    assert await cluster.offset() == -1


async def test_commit_that_is_not_replicated_in_time_is_unknown_and_may_still_become_true(
    cluster: Cluster,
) -> None:
    futures = [cluster.ask(commit(5)), cluster.ask(fetch(require_stable=True))]
    set_forward(4.9)
    await turns()
    assert not any(future.done() for future in futures)

    set_forward(0.2)
    await turns()

    assert [code(each) for each in futures] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert await cluster.offset() == -1
    # A request that comes later has as much time of its own.
    later = cluster.ask(fetch(require_stable=True))
    set_forward(4.9)
    await turns()
    assert not later.done()
    set_forward(0.2)
    await turns()
    assert code(later) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await cluster.replicate()
    assert await cluster.offset() == 5


async def test_what_is_too_large_for_the_log_fails_alone(cluster: Cluster) -> None:
    member = await stable(cluster)
    rejoin = await cluster.answered(join("a", member, b"other"))
    assert rejoin.generation_id == 2
    other = cluster.ask(commit(1))

    big = requests.SyncedAssignment(member, bytes(2 << 20))
    refused = cluster.ask(sync(member, 2, big))
    await turns()

    assert code(refused) is ErrorCode.UNKNOWN_SERVER_ERROR
    await cluster.replicate()
    assert code(other) is ErrorCode.NONE


# Life


@pytest.mark.parametrize("how", ["other leader", "higher epoch", "directory", "deleted"])
@pytest.mark.stage(initial_rebalance_delay_ms=3_000)
async def test_everybody_is_sent_away_in_the_turn_in_which_the_leadership_ends(
    cluster: Cluster, how: str
) -> None:
    members = [await cluster.joined(client) for client in "abcde"]
    waiting = [cluster.ask(join("x", member)) for member in members]
    waiting += [cluster.ask(commit()), cluster.ask(fetch(require_stable=True))]
    await turns()
    assert not any(future.done() for future in waiting)

    match how:
        case "other leader":
            cluster.metadata.apply(change(leader=2))
        case "higher epoch":
            cluster.metadata.apply(change(leader=1))
        case "directory":
            cluster.fail_directory()
        case "deleted":
            cluster.metadata.apply(RemoveTopicRecord(topic_id=TOPIC_ID))

    assert [code(future) for future in waiting] == [ErrorCode.NOT_COORDINATOR] * 7
    later = cluster.ask(commit())
    assert code(later) is (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if how == "higher epoch"
        else ErrorCode.NOT_COORDINATOR
    )
    assert cluster.coordinator.waiting_count == 0
    assert cluster.coordinator.is_offline(0) is (how in ("directory", "deleted"))


async def test_next_leadership_goes_on_from_the_log(cluster: Cluster) -> None:
    member = await stable(cluster)
    await cluster.answered(commit(5))
    await cluster.answered(commit(7))
    cluster.metadata.apply(change(leader=2))
    assert cluster.state is None
    cluster.metadata.apply(change(leader=1))
    assert code(cluster.ask(fetch())) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await cluster.active()

    assert await cluster.offset() == 7
    beat = await asyncio.wait_for(cluster.ask(heartbeat(member, 1)), DEADLINE_S)
    assert beat.error_code is ErrorCode.NONE
    # The session of a member that is not heard of ends.
    set_forward(11)
    await turns()
    await cluster.replicate()
    gone = cluster.ask(heartbeat(member, 1))
    await turns()
    assert code(gone) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("require_stable", [False, True])
async def test_fetch_waits_until_what_a_new_leader_has_above_the_high_watermark_is_committed(
    cluster: Cluster, require_stable: bool
) -> None:
    await cluster.answered(commit(5))
    lost = cluster.ask(commit(9))
    cluster.metadata.apply(change(leader=1))
    assert code(lost) is ErrorCode.NOT_COORDINATOR
    await cluster.active()

    waits = cluster.ask(fetch(require_stable))
    await turns()
    assert not waits.done()
    await cluster.replicate()
    assert (await waits).topics[0].partitions[0].committed_offset == 9


async def test_load_damaged_is_no_empty_list_of_groups(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.answered(commit(5))
    assert cluster.partition.log is not None
    (segment,) = cluster.partition.log.files.directory.glob("*.log")
    data = bytearray(segment.read_bytes())
    data[80] ^= 1
    segment.write_bytes(data)
    cluster.partition.log.tail.clear()

    cluster.metadata.apply(change(leader=1))
    await until(lambda: cluster.state is ShardState.FAILED)

    assert code(cluster.ask(fetch())) is ErrorCode.NOT_COORDINATOR
    assert ": record batch at offset 0 has a wrong CRC" in caplog.text


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Stops every load behind its first piece until it is set; the directory's thread goes on."""
    gate, read = asyncio.Event(), PartitionLog.read

    def slow(log: PartitionLog, offset: int, *arguments: Any, **options: Any) -> Any:
        async def later() -> bytes:
            if offset > log.start_offset:
                await gate.wait()
            found = read(log, offset, *arguments, **options)
            return b"".join(found.buffers) if isinstance(found, Slice) else await found

        return later()

    monkeypatch.setattr(PartitionLog, "read", slow)
    monkeypatch.setattr(loading, "LOADED_BYTES_AT_ONCE", 500)
    return gate


async def with_commits(cluster: Cluster) -> None:
    """A log of several segments, and of several pieces each."""
    cluster.metadata.apply(
        config("cleanup.policy", "compact", GROUP_METADATA_TOPIC),
        config("min.cleanable.dirty.ratio", "0.01", GROUP_METADATA_TOPIC),
        config(SEGMENT_BYTES, "1000", GROUP_METADATA_TOPIC),
    )
    for offset in range(60):
        await cluster.answered(commit(offset))
    assert cluster.partition.log is not None
    assert len(cluster.partition.log.state.segments.closed) > 3


async def test_coordinator_dies_loading(cluster: Cluster, gate: asyncio.Event) -> None:
    await with_commits(cluster)
    cluster.metadata.apply(change(leader=1))
    for request in (commit(), fetch(), join("a"), sync("m", 1), heartbeat("m", 1)):
        assert code(cluster.ask(request)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    cluster.fail_directory()

    for request in (commit(), fetch(), join("a"), sync("m", 1), heartbeat("m", 1)):
        assert code(cluster.ask(request)) is ErrorCode.NOT_COORDINATOR
    assert cluster.coordinator.is_offline(0)
    gate.set()
    await turns()
    assert cluster.state is None


async def test_compact_under_load_of_shard(cluster: Cluster, gate: asyncio.Event) -> None:
    await with_commits(cluster)
    log = cluster.partition.log
    assert log is not None
    before = sum(each.size for each in log.state.segments.closed)
    cluster.metadata.apply(change(leader=1))
    await turns()
    assert cluster.state is ShardState.LOADING
    host = cluster.host

    async def write_checkpoint(_log_dir: LogDir) -> None:
        pass

    cleaner = LogCleaner(
        host.log_dirs,
        host.manager,
        write_checkpoint,
        environment=replace(system_environment(), compactor=Here),
        settings=CleanerSettings(backoff_ms=5),
    )
    cleaner.start()
    try:
        await until(lambda: log.state.disk.cleaned_to == log.state.active.base_offset)
    finally:
        await cleaner.stop()
    assert sum(each.size for each in log.state.segments.closed) < before / 10
    assert cluster.state is ShardState.LOADING
    gate.set()
    await cluster.active()

    assert await cluster.offset() == 59
    await cluster.answered(commit(60))
    assert await cluster.offset() == 60


async def test_requests_wait_while_the_replica_changes_its_directory_and_nobody_hears_of_it(
    cluster: Cluster,
) -> None:
    member = await stable(cluster)
    end = cluster.end
    await cluster.replicate()
    cluster.partition.hold()

    futures = [cluster.ask(commit(5)), cluster.ask(heartbeat(member, 1))]
    cluster.ask(commit(6)).cancel()
    await turns()
    assert not any(future.done() for future in futures)
    assert cluster.end == end
    cluster.partition.release()
    await cluster.replicate()

    await turns()
    assert [code(future) for future in futures] == [ErrorCode.NONE] * 2
    assert await cluster.offset() == 5


@pytest.mark.stage(initial_rebalance_delay_ms=3_000)
async def test_member_whose_client_hung_up_while_it_joined_is_forgotten(cluster: Cluster) -> None:
    member = await cluster.joined()
    parked = cluster.ask(join("a", member))
    await turns()
    assert not parked.done()

    parked.cancel()
    await turns()

    assert cluster.coordinator.waiting_count == 0
    again = await cluster.answered(join("a", member))
    assert again.error_code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_offsets_of_a_deleted_topic_are_gone_also_when_the_coordinator_was_away(
    cluster: Cluster,
) -> None:
    again = TopicId(named_uuid("orders again"))
    await cluster.answered(commit(5))
    recreated: list[Record] = [
        RemoveTopicRecord(topic_id=ORDERS),
        topic("orders", again),
        partition_record((2,), (D2,), topic_id=again),
    ]
    cluster.metadata.apply(change(leader=2))
    cluster.metadata.apply(*recreated)
    cluster.metadata.apply(change(leader=1))
    await cluster.active()
    await turns()
    await cluster.replicate()
    assert await cluster.offset(require_stable=True) == -1


# Long tasks


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Every group is large, and no target is computed until this is set."""
    goes_on = threading.Event()

    def assign(question: Question) -> Mapping[str, Target]:
        assert goes_on.wait(DEADLINE_S)
        return assign_uniformly(question)

    monkeypatch.setattr("broker.groups.consumer.target.LARGE_FROM", 1)
    monkeypatch.setattr("broker.groups.consumer.target.ASSIGNORS", {"uniform": assign})
    yield goes_on
    goes_on.set()


def consumer_join(member_id: str) -> requests.ConsumerGroupHeartbeat:
    return requests.ConsumerGroupHeartbeat(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        subscribed_topic_names=("orders",),
        rebalance_timeout_ms=60_000,
        topic_partitions=(),
    )


async def target_in_work(cluster: Cluster, computing: threading.Event) -> None:
    """A group of two members; the target for both is being computed."""
    computing.set()
    await cluster.answered(consumer_join("a"))
    computing.clear()
    await cluster.answered(consumer_join("b"))


@pytest.mark.stage(consumer_assignment_interval_ms=0)
async def test_nobody_waits_while_a_target_is_computed(
    cluster: Cluster, computing: threading.Event
) -> None:
    await target_in_work(cluster, computing)
    committed = await cluster.answered(commit(5))
    assert committed.topics[0].partitions[0].error_code is ErrorCode.NONE
    before = cluster.end

    computing.set()

    await until(lambda: cluster.end > before)


@pytest.mark.stage(consumer_assignment_interval_ms=0)
async def test_what_is_computed_when_the_leadership_ends_is_thrown_away(
    cluster: Cluster, computing: threading.Event
) -> None:
    await target_in_work(cluster, computing)
    before = cluster.end

    cluster.metadata.apply(change(leader=2))
    cluster.metadata.apply(change(leader=1))
    await cluster.active()
    computing.set()
    await turns()

    assert cluster.end == before


# Many groups


async def test_client_that_leaves_at_once_leaves_no_unread_error_behind(cluster: Cluster) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    cluster.metadata.apply(change(leader=2))

    cluster.coordinator.submit_each(
        [GROUP], lambda groups: requests.DescribeGroups(groups=groups)
    ).cancel()
    await turns()
    gc.collect()

    assert reported == []


async def test_groups_are_asked_for_where_they_are(cluster: Cluster) -> None:
    await stable(cluster)

    def describe(groups: tuple[str, ...]) -> requests.Request:
        return requests.DescribeGroups(groups=groups)

    ((groups, described),) = await cluster.coordinator.submit_each([GROUP, "h"], describe)
    assert groups == (GROUP, "h")
    assert [group.group_state for group in described.groups] == ["Stable", "Dead"]
    (listed,) = await cluster.coordinator.submit_to_all(requests.ListGroups())
    assert [*filter(None, listed)] == [
        responses.ListedGroup(GROUP, "consumer", "Stable", "Classic")
    ]

    cluster.metadata.apply(change(leader=1))
    with pytest.raises(KafkaError) as refused:
        cluster.coordinator.submit_to_all(requests.ListGroups())
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.metadata.apply(change(leader=2))
    ((_, error),) = await cluster.coordinator.submit_each([GROUP], describe)
    assert error.code is ErrorCode.NOT_COORDINATOR
    assert await cluster.coordinator.submit_to_all(requests.ListGroups()) == []
