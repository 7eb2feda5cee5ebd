"""No request keeps the loop, or the memory, for itself."""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest

from broker.api.cluster.describe_configs import DescribeConfigsApi
from broker.api.cluster.metadata import MetadataApi, MetadataResponse
from broker.api.data.fetch import ENTRIES_AT_ONCE, FetchApi
from broker.api.data.list_offsets import TOGETHER_MAX, ListOffsetsApi
from broker.api.directories.alter_log_dirs import AlterReplicaLogDirsApi
from broker.api.table import APIS
from broker.client_quotas import ClientQuotas
from broker.dynamic_config import DynamicConfig
from broker.metadata_cache import MetadataCache
from broker.replica.client_requests import FetchEntry, FetchResult, OffsetAnswer, OffsetQuery
from broker.traffic import Traffic
from jbodlab.config.node_config import read_values
from jbodlab.kafka_wire.api_table import ApiKey, load
from jbodlab.kafka_wire.headers import RequestHeader, request_header
from jbodlab.runtime.outside import real
from jbodlab.server import dispatch, turns
from jbodlab.server.answer import InParts, Later, RequestContext
from jbodlab.server.api import MAX_REQUEST_BYTES
from jbodlab.server.dispatch import LARGE_BYTES, Dispatcher
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.request_handler import Pending
from jbodlab.server.session import Session
from jbodlab.server.turns import SlicedWork
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import BrokerId, TopicPartition
from tests.waiting import DEADLINE_S
from tests.waiting import turns as loop_turns

METADATA, VERSION = ApiKey.METADATA, 1
WHO = Session(listener_name="CLIENTS", peer="10.0.0.1:1")
HEADER = RequestHeader(METADATA, VERSION, 1, "tester", 0)


def names(count: int, letters: int = 10) -> memoryview:
    """A Metadata request for so many topics."""
    name = struct.pack(">h", letters) + b"n" * letters
    body = struct.pack(">i", count) + name * count
    return memoryview(request_header(METADATA, VERSION, 1, "tester") + body)


load(METADATA, VERSION, APIS[METADATA].max_items)
SMALL, LARGE = names(1), names(LARGE_BYTES // 12 + 1)


class Scripted:
    """Answers each request with what the test gives next."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def answer(self, request: Any, context: RequestContext) -> Any:
        return self.answers.pop(0)

    def failure(self, request: Any, context: RequestContext, error: Exception) -> Any:
        raise AssertionError(error)


def messages(api: str, version: int) -> Any:
    return import_module(f"kio.schema.{api}.v{version}.request")


def dispatcher(*answers: Any) -> Dispatcher:
    thread = HelperThread(real().threads, "large-requests")
    return Dispatcher(
        [(APIS[key], Scripted(*answers)) for key in (METADATA, ApiKey.PRODUCE)],
        thread,
        real().monotonic_s,
    )


def scripted(served: Dispatcher) -> Scripted:
    _, handler = served.served[METADATA]
    assert isinstance(handler, Scripted)
    return handler


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), DEADLINE_S))


async def answered(found: Any) -> bytes:
    if isinstance(found, Pending):
        await asyncio.wait([found.future], timeout=DEADLINE_S)
        found = found.buffers()
    return b"".join(found)


def response() -> MetadataResponse:
    return MetadataResponse(cluster_id="c")


def in_parts(parts: Iterator[Any]) -> InParts:
    return InParts(parts, lambda _: response())


def test_request_larger_than_any_real_one_is_refused_by_its_start() -> None:
    with pytest.raises(
        DecodeError, match="METADATA version 1 of client 'tester' has 4194305 bytes"
    ):
        dispatcher().admit(SMALL, MAX_REQUEST_BYTES + 1)

    dispatcher().admit(SMALL, MAX_REQUEST_BYTES)


def test_only_produce_may_be_as_large_as_its_records() -> None:
    start = memoryview(request_header(ApiKey.PRODUCE, 7, 1, "tester"))

    dispatcher().admit(start, 100 << 20)


def test_request_with_more_items_than_any_real_one_is_refused_undecoded() -> None:
    async def test() -> None:
        found = dispatcher().handle(names(APIS[METADATA].max_items + 1, 0), WHO)

        with pytest.raises(
            DecodeError, match="METADATA version 1 of client 'tester': 1 items more"
        ):
            await answered(found)

    run(test)


def test_others_are_answered_while_a_request_is_worked_on(monkeypatch: Any) -> None:
    monkeypatch.setattr(turns, "SLICE_S", 0.0)

    async def test(frame: memoryview) -> None:
        other_asked: list[bool] = []

        def parts() -> Iterator[int]:
            while not other_asked:
                yield 1

        def other() -> Iterator[int]:
            other_asked.append(True)
            return iter(())

        served = dispatcher(in_parts(parts()))
        working = served.handle(frame, WHO)
        await loop_turns()
        scripted(served).answers.append(in_parts(other()))

        assert await answered(served.handle(SMALL, WHO))
        assert await answered(working)

    run(lambda: test(SMALL))
    run(lambda: test(LARGE))


def test_large_requests_are_worked_on_one_after_the_other(monkeypatch: Any) -> None:
    monkeypatch.setattr(turns, "SLICE_S", 0.0)

    async def test() -> None:
        log: list[str] = []

        def parts(name: str) -> Iterator[int]:
            for number in range(5):
                log.append(name)
                yield number

        served = dispatcher(in_parts(parts("a")), in_parts(parts("b")))
        both = [served.handle(LARGE, WHO), served.handle(LARGE, WHO)]

        assert [bool(await answered(each)) for each in both] == [True, True]
        assert "".join(log) == "aaaaabbbbb"

    run(test)


def test_turn_is_not_kept_while_a_disk_or_somebody_else_is_waited_for() -> None:
    async def test() -> None:
        future = asyncio.get_running_loop().create_future()
        served = dispatcher(Later(future, lambda _: response()), response())
        first, second = served.handle(LARGE, WHO), served.handle(LARGE, WHO)
        assert isinstance(first, Pending)

        assert await answered(second)
        assert not first.future.done()
        future.set_result(None)
        assert await answered(first)

    run(test)


def test_first_request_of_a_version_waits_for_no_large_request(monkeypatch: Any) -> None:
    async def test() -> None:
        served = dispatcher(response())
        await served._turn.acquire()
        monkeypatch.setattr(dispatch, "loaded", lambda key, version: None)

        assert await answered(served.handle(SMALL, WHO))

    run(test)


def test_client_that_leaves_gives_its_turn_up_and_what_it_waits_for() -> None:
    async def test() -> None:
        future = asyncio.get_running_loop().create_future()
        served = dispatcher(Later(future, lambda _: response()), response())
        first, second = served.handle(LARGE, WHO), served.handle(LARGE, WHO)
        assert isinstance(first, Pending)
        async with asyncio.timeout(DEADLINE_S):
            while len(scripted(served).answers) == 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

        first.future.cancel()

        assert await answered(second)
        assert future.cancelled()

    run(test)


def test_large_answers_are_encoded_off_the_loop() -> None:
    threads: list[int] = []

    class Watched(tuple[Any, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[Any]:
            threads.append(threading.get_ident())
            return super().__iter__()

    async def test() -> None:
        watched = MetadataResponse(cluster_id="c", brokers=Watched())
        served = dispatcher(watched, watched)

        assert await answered(served.handle(SMALL, WHO))
        assert await answered(served.handle(LARGE, WHO))

        assert threads[0] == threading.get_ident()
        assert threads[1] != threading.get_ident()

    run(test)


def test_work_goes_on_where_a_slice_ended(monkeypatch: Any) -> None:
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    answer = InParts(range(2), lambda parts: MetadataResponse(cluster_id=str(parts)))
    work = SlicedWork(answer, real().monotonic_s)

    assert [work.advance(), work.advance(), work.advance()] == [False, False, True]
    assert work.response() == MetadataResponse(cluster_id="[0, 1]")


def test_answer_in_parts_shows_one_state_of_the_cluster(run: Callable[..., None]) -> None:
    async def scenario(cluster: Any, client: Any) -> None:
        for name in "ab":
            cluster.publish_topic(name, cluster.partition(2, (2,)))
        asked = messages("metadata", VERSION).MetadataRequest(topics=None)
        answer = MetadataApi(cluster.cache, "c", None).answer(asked, RequestContext(HEADER, WHO))
        parts = iter(answer.parts)
        first = next(parts)

        cluster.delete_topic("a")
        cluster.delete_topic("b")

        told = [part for part in (first, *parts) if part is not None]
        assert [part[2:5] for part in told] == [b"\0\1a", b"\0\1b"]

    run(scenario)


def test_settings_of_topics_without_their_own_are_described_once(run: Callable[..., None]) -> None:
    async def scenario(cluster: Any, client: Any) -> None:
        cluster.publish_topic("a", cluster.partition(2, (2,)))
        cluster.publish_topic("b", cluster.partition(2, (2,)))
        kio = messages("describe_configs", 4)

        def wanted(name: str, *keys: str) -> Any:
            return kio.DescribeConfigsResource(
                resource_type=2, resource_name=name, configuration_keys=keys or None
            )

        asked = kio.DescribeConfigsRequest(
            resources=(wanted("a"), wanted("b"), wanted("b", "retention.ms")),
            include_synonyms=True,
            include_documentation=False,
        )
        own = DynamicConfig(BrokerId(1), read_values({})[0], [])
        api = DescribeConfigsApi(cluster.cache, BrokerId(1), own)

        first, second, third = api.answer(asked, RequestContext(HEADER, WHO)).parts

        assert first.configs is second.configs
        assert (first.resource_name, second.resource_name) == ("a", "b")
        assert [each.name for each in third.configs] == ["retention.ms"]

    run(scenario)


class Answering:
    """Replicas that answer whatever they are asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def list_offsets(
        self, queries: list[OffsetQuery], replica_id: int, isolation: int
    ) -> list[OffsetAnswer]:
        self.asked.append(len(queries))
        return [
            OffsetAnswer(topic_partition=each.topic_partition, offset=each.topic_partition[1])
            for each in queries
        ]

    def fetch(self, params: Any, entries: list[FetchEntry]) -> asyncio.Future[list[FetchResult]]:
        self.asked.append(len(entries))
        future = asyncio.get_running_loop().create_future()
        future.set_result(
            [FetchResult(topic_partition=each.topic_partition, topic_id=None) for each in entries]
        )
        return future


def test_offsets_of_many_partitions_are_looked_up_little_by_little() -> None:
    async def test() -> None:
        kio = messages("list_offsets", 7)
        count, replicas = 2 * TOGETHER_MAX + 1, Answering()
        partitions = tuple(
            kio.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=None)
            for n in range(count)
        )
        topic = kio.ListOffsetsTopic(name="t", partitions=partitions)
        asked = kio.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic, topic))

        later = ListOffsetsApi(replicas, MetadataCache(BrokerId(1), "CLIENTS")).answer(  # type: ignore[arg-type]
            asked, RequestContext(HEADER, WHO)
        )
        assert isinstance(later, Later)
        found: Any = later.finish(await later.future)

        assert max(replicas.asked) == TOGETHER_MAX
        for answer in found.topics:
            assert [each.offset for each in answer.partitions] == list(range(count))

    run(test)


@pytest.mark.parametrize(
    "count", [1, ENTRIES_AT_ONCE - 1, ENTRIES_AT_ONCE, 2 * ENTRIES_AT_ONCE + 1]
)
def test_fetch_of_many_partitions_is_one_fetch(count: int) -> None:
    async def test() -> None:
        kio = messages("fetch", 12)
        partition = kio.FetchPartition(
            partition=0,
            current_leader_epoch=-1,
            fetch_offset=0,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1,
        )
        asked = kio.FetchRequest(
            max_wait=timedelta(0),
            min_bytes=1,
            max_bytes=1,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            forgotten_topics_data=(),
            rack_id="",
            topics=(kio.FetchTopic(topic="t", partitions=(partition,) * count),),
        )
        replicas = Answering()
        api = FetchApi(
            replicas,  # type: ignore[arg-type]
            replicas,  # type: ignore[arg-type]
            MetadataCache(BrokerId(1), "CLIENTS"),
            BrokerId(1),
            Traffic(real().monotonic_s),
            ClientQuotas(dict),
        )

        later = api.answer(asked, RequestContext(RequestHeader(1, 12, 1, "t", 0), WHO))
        assert isinstance(later, Later)
        await asyncio.wait_for(later.future, DEADLINE_S)

        assert replicas.asked == [count]

    run(test)


class Refusing:
    """Replicas that cannot be moved, but the first."""

    def alter(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        if topic_partition.partition == 0:
            return ErrorCode.NONE
        return ErrorCode.LOG_DIR_NOT_FOUND if path == "/b" else ErrorCode.REPLICA_NOT_AVAILABLE


def test_moves_that_are_refused_take_one_line_of_the_log_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kio = messages("alter_replica_log_dirs", 2)
    dirs = [
        kio.AlterReplicaLogDir(
            path=path, topics=(kio.AlterReplicaLogDirTopic(name="t", partitions=partitions),)
        )
        for path, partitions in (("/a", tuple(range(1_000))), ("/b", (1, 2, 1_000)))
    ]
    asked = kio.AlterReplicaLogDirsRequest(dirs=tuple(dirs))
    api = AlterReplicaLogDirsApi(Refusing())  # type: ignore[arg-type]

    with caplog.at_level(logging.INFO, "broker.api"):
        answer = api.answer(asked, RequestContext(HEADER, WHO))
        (topic,) = answer.finish(list(answer.parts)).results

    codes = Counter(each.error_code for each in topic.partitions)
    assert codes == {
        ErrorCode.NONE: 1,
        ErrorCode.LOG_DIR_NOT_FOUND: 3,
        ErrorCode.REPLICA_NOT_AVAILABLE: 997,
    }
    assert [record.getMessage() for record in caplog.records] == [
        "cannot move t-1 and 2 others: LOG_DIR_NOT_FOUND",
        "cannot move t-3 and 996 others: REPLICA_NOT_AVAILABLE",
    ]


def test_first_request_of_a_version_is_decoded_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "loaded", lambda *_: None)

    async def test() -> None:
        for key, frame in ((METADATA, SMALL), (PRODUCED[0], produced())):
            answer = Later(done([]), lambda _: response()) if key == PRODUCED[0] else response()
            thread = HelperThread(real().threads, "large-requests")
            served = Dispatcher([(APIS[key], Scripted(answer))], thread, real().monotonic_s)
            found = served.handle(frame, WHO)

            assert isinstance(found, Pending)
            assert not found.overlaps
            assert not found.future.done()
            await asyncio.wait([found.future], timeout=DEADLINE_S)

    run(test)


PRODUCED = (ApiKey.PRODUCE, 7)


def produced() -> memoryview:
    """A Produce request without records."""
    body = struct.pack(">hhii", -1, 1, 1_000, 0)
    return memoryview(request_header(*PRODUCED, 1, "tester") + body)


def done(result: Any) -> asyncio.Future[Any]:
    future = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future
