"""Two brokers: this one, to which clients come back, and the leader, each on a real listener."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.data.produce import ProduceApi
from broker.api.services.produce_forwarder import ProduceForwarder
from broker.clients.client_quotas import ClientQuotas
from broker.clients.traffic import TopicCount
from broker.metadata.metadata_cache import MetadataCache
from broker.produce import forwarded_appends
from broker.replica.waiting.append_entries import (
    AppendEntry,
    AppendResult,
    BatchTransaction,
    LeaderHint,
)
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.headers import RequestHeader
from jbodlab.peers.client import KafkaConnection
from jbodlab.record_batch.record_batch import TRANSACTIONAL
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.passed_on import client_id_for
from jbodlab.server.rights import Client
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from tests.broker.api.calls import batch, metadata, produce_to
from tests.broker.api.conftest import LISTENER, US, Cluster, serving
from tests.waiting import called, turns

OK, TIMED_OUT, NOT_LEADER = 0, 7, 6
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
OTHER, THIRD = BrokerId(2), BrokerId(3)
INTERNAL = "__consumer_offsets"
NAMED = {"transactional_id": "t"}
FORWARDED = client_id_for(Client("User:alice", "10.0.0.1"))


def refused(*partitions: TopicPartition) -> list[AppendResult]:
    return [AppendResult(each, ErrorCode.NOT_LEADER_OR_FOLLOWER) for each in partitions]


def appended(*partitions: TopicPartition, offset: int = 7) -> list[AppendResult]:
    return [AppendResult(each, base_offset=offset) for each in partitions]


def leads(cluster: Cluster, *leaders: int, topic: str = "t") -> None:
    """Publish who leads the partitions of a topic."""
    cluster.publish_topic(topic, *(cluster.partition(leader, (1, 2, 3)) for leader in leaders))


class Pair:
    """This broker, a client of it, and the leader of all partitions of `t` but number 1."""

    def __init__(self, us: Cluster, client: KafkaConnection, leader: Cluster) -> None:
        self.us = us
        self.client = client
        self.leader = leader
        self.knows_the_port_of_the_leader()
        leads(us, OTHER, 1, THIRD)
        us.replicas.results["append"] = refused(T0)
        leader.replicas.results["append"] = appended(T0)

    def knows_the_port_of_the_leader(self) -> None:
        here = {2: self.leader.port, 3: self.leader.port}
        self.us.publish_brokers(1, 2, 3, on_this_machine=here)

    async def ask(
        self, *batches: tuple[TopicPartition, bytes], by: KafkaConnection | None = None, **more: Any
    ) -> Any:
        """Produce, an empty batch to T0 where none is given; returns the answer for each batch."""
        request = produce_to(*(batches or [(T0, batch())]), **more)
        client = by or self.client
        response = await client.call(ApiKey.PRODUCE, more.get("version", 12), request)
        return [each for topic in response.responses for each in topic.partition_responses]

    async def codes(self, *batches: Any, **more: Any) -> list[int]:
        return [int(each.error_code) for each in await self.ask(*batches, **more)]

    def hold(self, cluster: Cluster | None = None) -> asyncio.Future[Any]:
        """Let the leader, or another one, answer what it is to append by this future."""
        held = asyncio.get_running_loop().create_future()
        (cluster or self.leader).replicas.results["append"] = held
        return held


@pytest.fixture
async def pair(cluster: Cluster, client: KafkaConnection) -> AsyncIterator[Pair]:
    async with serving(Cluster(), auto_create_topics=False) as leader:
        yield Pair(cluster, client, leader)


async def test_who_is_resending_gets_the_answer_of_the_leader(pair: Pair) -> None:
    (told,) = await pair.ask()
    assert (told.error_code, told.current_leader.leader_id) == (NOT_LEADER, OTHER)
    assert not pair.leader.replicas.calls, "nobody is passed on who was not told"
    pair.leader.replicas.results["append"] = [
        AppendResult(T0, base_offset=41, log_append_time_ms=1_234_567, log_start_offset=5)
    ]

    (answer,) = await pair.ask()

    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (OK, 41, 5)
    assert answer.log_append_time.timestamp() == 1_234.567
    assert pair.leader.replicas.calls == [("append", [AppendEntry(T0, batch())], -1, 1_500)]
    assert len(pair.us.replicas.calls) == 1
    assert await pair.codes((T0, batch(b"next"))) == [OK], "it is told no second time"


@pytest.mark.parametrize("code", [19, 45, 10, 87])
async def test_an_error_of_the_leader_is_told_with_its_message(pair: Pair, code: int) -> None:
    await pair.ask()
    pair.leader.replicas.results["append"] = [
        AppendResult(T0, ErrorCode(code), error_message="of the leader")
    ]

    (answer,) = await pair.ask(version=8)

    assert (answer.error_code, answer.error_message) == (code, "of the leader")
    assert answer.base_offset == -1


@pytest.mark.parametrize(("acks", "passed"), [(-1, -1), (1, 1), (0, 1)])
async def test_acks_and_timeout_go_along(pair: Pair, acks: int, passed: int) -> None:
    await pair.ask()
    request = produce_to((T0, batch()), acks=acks, timeout_ms=321)
    with suppress(TimeoutError):
        # Without acks nothing is answered.
        await pair.client.call(ApiKey.PRODUCE, 12, request, timeout_s=10 if acks else 0.2)
    await called(pair.leader.replicas.calls)

    assert pair.leader.replicas.calls == [("append", [AppendEntry(T0, batch())], passed, 321)]


async def test_what_was_under_way_when_the_first_was_refused_is_refused_too(pair: Pair) -> None:
    held = pair.hold(pair.us)
    under_way = [
        asyncio.create_task(pair.codes((T0, batch(b"%d" % number)))) for number in range(2)
    ]
    await called(pair.us.replicas.calls)
    held.set_result(refused(T0))
    assert await asyncio.gather(*under_way) == [[NOT_LEADER]] * 2
    pair.us.replicas.results["append"] = refused(T0)
    assert await pair.codes((T0, batch(b"1"))) == [NOT_LEADER], "not before the first"

    for value in (b"0", b"1"):
        assert await pair.codes((T0, batch(value))) == [OK]
    entries = [entry.records for _, (entry,), *_ in pair.leader.replicas.calls]
    assert entries == [batch(b"0"), batch(b"1")]


async def test_nothing_of_a_connection_starts_before_what_is_forwarded_is_answered(
    pair: Pair,
) -> None:
    await pair.ask()
    held = pair.hold()
    both = [asyncio.create_task(pair.codes()) for _ in range(2)]
    await called(pair.leader.replicas.calls)
    await asyncio.sleep(0.05)
    assert len(pair.leader.replicas.calls) == 1

    held.set_result(appended(T0))

    assert await asyncio.gather(*both) == [[OK]] * 2
    assert len(pair.leader.replicas.calls) == 2


async def test_a_client_is_resending_over_any_of_its_connections(pair: Pair) -> None:
    other = await pair.us.connect()
    assert await pair.codes((T0, batch(b"1"))) == [NOT_LEADER]
    assert await pair.codes((T0, batch(b"1")), by=other) == [OK]
    assert await pair.codes((T0, batch(b"2")), by=other) == [OK]
    assert await pair.codes((T0, batch(b"3"))) == [NOT_LEADER], "it may be under way"
    assert await pair.codes((T0, batch(b"3"))) == [OK]
    other.close()


async def test_partitions_of_one_request_go_each_to_its_leader(pair: Pair) -> None:
    wanted = [(T1, batch(b"1")), (T2, batch(b"2")), (T0, batch(b"0")), (T1, batch(b"3"))]
    pair.us.replicas.results["append"] = [
        *appended(T1), *refused(T2, T0), *appended(T1, offset=8),
    ]  # fmt: skip
    assert await pair.codes(*wanted) == [OK, NOT_LEADER, NOT_LEADER, OK]
    pair.us.replicas.results["append"] = [*appended(T1, offset=9), *appended(T1, offset=10)]

    answers = await pair.ask(*wanted)

    assert [(each.index, each.base_offset) for each in answers] == [
        (1, 9), (2, 7), (0, 7), (1, 10),
    ]  # fmt: skip
    here = pair.us.replicas.calls[1][1]
    assert here == [AppendEntry(T1, batch(b"1")), AppendEntry(T1, batch(b"3"))]
    passed = [entry for call in pair.leader.replicas.calls for entry in call[1]]
    assert sorted(passed, key=repr) == [AppendEntry(T0, batch(b"0")), AppendEntry(T2, batch(b"2"))]


async def test_a_leader_that_is_none_any_more_is_believed_and_the_client_is_told(
    pair: Pair,
) -> None:
    await pair.ask((T0, batch(b"1")))
    pair.leader.publish_brokers(1, 2, 3)
    hint = LeaderHint(leader=THIRD, leader_epoch=LeaderEpoch(8))
    (result,) = refused(T0)
    pair.leader.replicas.results["append"] = [AppendResult(T0, result.error_code, leader_hint=hint)]
    (told,) = await pair.ask((T0, batch(b"1")))
    assert (told.error_code, told.current_leader.leader_id) == (NOT_LEADER, THIRD)
    pair.leader.replicas.results["append"] = appended(T0)

    # Else the second would overtake the first.
    assert await pair.codes((T0, batch(b"2"))) == [NOT_LEADER]
    assert await pair.codes((T0, batch(b"1"))) == [OK]


async def test_a_leader_that_is_not_reached_is_named_again(pair: Pair) -> None:
    pair.us.publish_brokers(1, 2, on_this_machine={2: 1})
    await pair.ask()

    (told,) = await pair.ask()

    assert (told.error_code, told.current_leader.leader_id) == (NOT_LEADER, OTHER)
    assert pair.us.traffic.total[TopicCount.FAILED_PRODUCE_REQUESTS] == 2


@pytest.mark.parametrize(("timeout_ms", "max_s"), [(1_000, 30.0), (2**31 - 1, 1.0)])
async def test_a_leader_that_does_not_answer_in_time_is_waited_for_no_longer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, timeout_ms: int, max_s: float
) -> None:
    monkeypatch.setattr(forwarded_appends, "ANSWER_SLACK_S", 0.0)
    monkeypatch.setattr(forwarded_appends, "ANSWER_MAX_S", max_s)

    await pair.ask()
    assert await pair.codes() == [OK], "there is a connection"
    never = pair.hold()

    assert await pair.codes(timeout_ms=timeout_ms) == [TIMED_OUT]

    assert await _cancelled(never)


async def test_a_leader_that_lets_nobody_connect_is_waited_for_no_longer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_never(*_: Any, **__: Any) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(forwarded_appends, "ANSWER_MAX_S", 0.05)

    await pair.ask()
    monkeypatch.setattr(KafkaConnection, "open", open_never)

    assert await pair.codes() == [NOT_LEADER], "nothing was sent"


async def test_what_has_come_of_a_batch_is_open_when_the_connection_breaks(pair: Pair) -> None:
    await pair.ask((T0, batch(b"1")))
    never = pair.hold()
    asked = asyncio.create_task(pair.codes((T0, batch(b"1"))))
    await called(pair.leader.replicas.calls)
    never.cancel()
    assert await asked == [TIMED_OUT]
    pair.leader.replicas.results["append"] = appended(T0)

    # Else the second would overtake the first.
    assert await pair.codes((T0, batch(b"2"))) == [NOT_LEADER]
    assert await pair.codes((T0, batch(b"1"))) == [OK]
    assert await pair.codes((T0, batch(b"2"))) == [OK]


@pytest.mark.parametrize("leader_id", [THIRD, -1, None])
async def test_a_leader_that_stands_is_waited_for_no_longer_when_it_is_none_any_more(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, leader_id: int | None
) -> None:
    monkeypatch.setattr(forwarded_appends, "ANSWER_SLACK_S", 0.0)

    await pair.ask()
    pair.hold()
    asked = asyncio.create_task(pair.codes(timeout_ms=20_000))
    await called(pair.leader.replicas.calls)
    pair.us.publish_topic("another")
    await turns()
    assert not asked.done(), "it still leads"

    if leader_id is None:
        pair.us.delete_topic("t")
    else:
        leads(pair.us, leader_id)

    assert await asyncio.wait_for(asked, 10) == [TIMED_OUT]


async def test_a_leader_that_is_none_any_more_has_time_to_say_so(pair: Pair) -> None:
    await pair.ask()
    held = pair.hold()
    asked = asyncio.create_task(pair.codes())
    await called(pair.leader.replicas.calls)

    leads(pair.us, THIRD)
    await turns()
    held.set_result(appended(T0))

    assert await asked == [OK]


async def test_a_leader_that_has_lost_some_partitions_is_waited_for_as_before(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarded_appends, "ANSWER_SLACK_S", 0.0)

    leads(pair.us, OTHER, 1, OTHER)
    both = [(T0, batch(b"0")), (T2, batch(b"2"))]
    pair.us.replicas.results["append"] = refused(T0, T2)
    await pair.ask(*both)
    held = pair.hold()
    asked = asyncio.create_task(pair.codes(*both))
    await called(pair.leader.replicas.calls)

    leads(pair.us, THIRD, 1, OTHER)
    await asyncio.sleep(0.05)
    held.set_result([*refused(T0), *appended(T2)])

    assert await asked == [NOT_LEADER, OK]


async def test_what_is_cancelled_at_once_reaches_no_leader(pair: Pair) -> None:
    us = pair.us
    pair.leader.replicas.results["append"] = asyncio.get_running_loop().create_future()
    quotas = ClientQuotas(lambda: us.cache.image.quotas)
    forwarder = ProduceForwarder(us.cache, US, time.monotonic, us.traffic, quotas)
    parts: Any = SimpleNamespace(
        appends=us.replicas,
        cache=us.cache,
        broker_id=US,
        traffic=us.traffic,
        quotas=quotas,
        produce_forwarder=forwarder,
    )
    handler = forwarder.around(ProduceApi(parts))
    header = RequestHeader(ApiKey.PRODUCE, 12, 1, "a", 0)
    context = RequestContext(header, Session(listener_name=LISTENER, peer="10.0.0.1:1"))
    refusal = handler.answer(produce_to((T0, batch())), context)
    assert isinstance(refusal, Later)
    refusal.finish(refused(T0))
    us.replicas.results["append"] = []
    forwarding = handler.answer(produce_to((T0, batch())), context)
    assert isinstance(forwarding, Later)
    assert not forwarding.overlaps

    forwarding.future.cancel()
    await turns()

    assert not [task for task in asyncio.all_tasks() if task.get_name() == "forward"]
    assert not pair.leader.replicas.calls


async def test_who_goes_away_is_given_up_with_the_leader_as_well(pair: Pair) -> None:
    other = await pair.us.connect()
    await pair.ask(by=other)
    never = pair.hold()
    asked = asyncio.create_task(pair.codes(by=other))
    await called(pair.leader.replicas.calls)

    other.close()

    assert await _cancelled(never)
    with suppress(ConnectionError):
        await asked


async def test_a_request_of_a_broker_is_not_passed_on_again(pair: Pair) -> None:
    port = pair.us.port
    passing = await KafkaConnection.open("127.0.0.1", port, client_id=FORWARDED, timeout_s=10)

    for _ in range(3):
        assert await pair.codes(by=passing) == [NOT_LEADER]

    passing.close()
    assert not pair.leader.replicas.calls


async def test_of_too_many_requests_some_are_refused(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarded_appends, "FORWARDED_MAX", 1)

    other = await pair.us.connect()
    for connection, value in ((pair.client, b"1"), (other, b"2")):
        await pair.ask((T0, batch(value)), by=connection)
    held = pair.hold()
    first = asyncio.create_task(pair.codes((T0, batch(b"1"))))
    await called(pair.leader.replicas.calls)

    assert await pair.codes((T0, batch(b"2")), by=other) == [NOT_LEADER]

    held.set_result(appended(T0))
    assert await first == [OK]
    assert await pair.codes((T0, batch(b"2")), by=other) == [OK]
    other.close()


@pytest.mark.parametrize("is_busy", [True, False])
async def test_nothing_overtakes_a_batch_that_came_back_and_could_not_be_passed_on(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    await pair.ask((T0, batch(b"1")))
    assert await pair.codes((T0, batch(b"1"))) == [OK]
    held = pair.hold(pair.us)
    pair.us.replicas.calls.clear()
    with monkeypatch.context() as patch:
        if is_busy:
            patch.setattr(forwarded_appends, "FORWARDED_MAX", 0)
        else:
            pair.us.publish_brokers(1, 3)
        second = asyncio.create_task(pair.codes((T0, batch(b"2"))))
        await called(pair.us.replicas.calls)
    pair.us.replicas.calls.clear()
    pair.knows_the_port_of_the_leader()

    third = asyncio.create_task(pair.codes((T0, batch(b"3"))))
    await called(pair.us.replicas.calls)
    held.set_result(refused(T0))

    assert await asyncio.gather(second, third) == [[NOT_LEADER]] * 2
    pair.us.replicas.results["append"] = refused(T0)
    assert await pair.codes((T0, batch(b"3"))) == [NOT_LEADER], "not before the second"
    assert await pair.codes((T0, batch(b"2"))) == [OK]


async def test_a_request_to_several_leaders_counts_once_for_each(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarded_appends, "FORWARDED_MAX", 1)

    leads(pair.us, OTHER, OTHER, THIRD)
    wanted = [(each, batch(b"%d" % each.partition)) for each in (T0, T2, T1)]
    pair.us.replicas.results["append"] = refused(T0, T2, T1)
    await pair.ask(*wanted)
    pair.us.replicas.results["append"] = refused(T2)
    pair.leader.replicas.results["append"] = appended(T0, T1)

    assert await pair.codes(*wanted) == [OK, NOT_LEADER, OK]

    assert len(pair.leader.replicas.calls) == 1


async def test_who_is_led_here_again_is_appended_here(pair: Pair) -> None:
    await pair.ask()
    leads(pair.us, 1)
    pair.us.replicas.results["append"] = appended(T0)

    assert await pair.codes() == [OK]

    leads(pair.us, OTHER)
    pair.us.replicas.results["append"] = refused(T0)
    assert await pair.codes() == [NOT_LEADER], "it is told anew"
    assert not pair.leader.replicas.calls


@pytest.mark.parametrize("leader_id", [-1, 4])
async def test_without_a_leader_that_lives_nothing_is_forwarded(pair: Pair, leader_id: int) -> None:
    leads(pair.us, leader_id)
    for _ in range(3):
        assert await pair.codes() == [NOT_LEADER]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (12, {"adds_partitions": True, "knows_abortable": True}),
        (11, {"adds_partitions": False, "knows_abortable": True}),
        (10, {"adds_partitions": False, "knows_abortable": False}),
    ],
)
async def test_batches_of_transactions_mean_at_the_leader_what_they_meant_here(
    pair: Pair, version: int, expected: dict[str, bool]
) -> None:
    of_transaction = batch(attributes=TRANSACTIONAL)
    await pair.ask((T0, of_transaction), version=version, **NAMED)

    assert await pair.codes((T0, of_transaction), version=version, **NAMED) == [0]

    (call,) = pair.leader.replicas.calls
    assert call[-1] == BatchTransaction(transactional_id="t", **expected)


async def test_the_brokers_own_topics_are_not_passed_on(pair: Pair) -> None:
    own = TopicPartition(INTERNAL, 0)
    leads(pair.us, OTHER, topic=INTERNAL)
    pair.us.replicas.results["append"] = refused(own)
    admin = await KafkaConnection.open(
        "127.0.0.1", pair.us.port, client_id="__admin_client", timeout_s=10
    )

    for _ in range(2):
        assert await pair.codes((own, batch()), by=admin) == [ErrorCode.INVALID_TOPIC_EXCEPTION]

    admin.close()
    assert not pair.leader.replicas.calls


async def test_the_leader_counts_the_traffic_and_the_broker_of_the_client_its_quota(
    pair: Pair,
) -> None:
    limits = {frozenset({("client-id", None)}): {"producer_byte_rate": 1e5}}
    for cluster in (pair.us, pair.leader):
        image = cluster.cache.image
        cluster.cache.publish(replace(image, quotas=limits, offset=Offset(image.offset + 1)))
    large = batch(b"x" * 90_000)
    await pair.ask((T0, large))

    request = produce_to((T0, large))
    response = await pair.client.call(ApiKey.PRODUCE, 12, request)

    assert response.throttle_time > datetime.timedelta(milliseconds=500)
    topic, *_ = pair.leader.traffic.topics()
    assert topic[1][TopicCount.BYTES_IN] == len(large)
    assert pair.us.traffic.total[TopicCount.BYTES_IN] == 0
    assert pair.us.traffic.total[TopicCount.TOTAL_PRODUCE_REQUESTS] == 1
    passing = await KafkaConnection.open(
        "127.0.0.1", pair.leader.port, client_id=FORWARDED, timeout_s=10
    )
    for _ in range(3):
        response = await passing.call(ApiKey.PRODUCE, 12, request)
        assert not response.throttle_time
    passing.close()


async def test_a_client_that_calls_itself_like_a_broker_keeps_its_quotas() -> None:
    limits = {
        frozenset({("client-id", None)}): {"producer_byte_rate": 1e3, "request_percentage": 1e-6}
    }

    async def throttled(listener_of_brokers: str) -> list[bool]:
        async with serving(
            Cluster(cache=MetadataCache(US, listener_of_brokers)), auto_create_topics=False
        ) as cluster:
            leads(cluster, 1)
            cluster.replicas.results["append"] = appended(T0)
            image = cluster.cache.image
            cluster.cache.publish(replace(image, quotas=limits, offset=Offset(image.offset + 1)))
            found = []
            for key, request in (
                (ApiKey.PRODUCE, produce_to((T0, batch(b"x" * 9_000)))),
                (ApiKey.METADATA, metadata(12, "t")),
            ):
                client = await KafkaConnection.open(
                    "127.0.0.1",
                    cluster.port,
                    client_id=FORWARDED,
                    timeout_s=10,
                )
                response = await client.call(key, 12, request)
                found.append(response.throttle_time > datetime.timedelta(0))
                if not found[-1]:
                    await client.call(key, 12, request, timeout_s=5)
                client.close()
            return found

    assert await throttled(LISTENER) == [False, True], "brokers produce only"
    assert await throttled("INSIDE") == [True, True]


async def test_where_nobody_was_sent_away_nobody_is_looked_at(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.api.services.produce_forwarder.Sender", None)

    pair.us.replicas.results["append"] = appended(T1)
    assert await pair.codes((T1, batch())) == [OK]


async def _cancelled(future: asyncio.Future[Any]) -> bool:
    await asyncio.wait([future], timeout=10)
    return future.cancelled()
