"""A broker is asked about a transaction, or does not answer; the other broker is a socket."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from broker.produce.add_partitions_to_txn import AddPartitionsToTxnManager
from broker.produce.transaction_admission import Part, PartQuestion
from broker.replica.leading import Guard
from broker.replica.leading.transaction_guards import TransactionGuards
from broker.replica.waiting.append_entries import BatchTransaction
from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.kafka_wire.api_table import ApiKey, response_class
from jbodlab.runtime.machine import system_environment
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.api import Api
from jbodlab.server.bounds import Bounds
from jbodlab.server.dispatch import Dispatcher
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.listener import Listener
from jbodlab.server.resources import nothing
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from tests.broker.api.conftest import LISTENER, US, Cluster
from tests.waiting import turns

VERSION = 5
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OK, ABORTABLE = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE
NAMES = {coordinator_partition(name, 2): name for name in ("a", "b", "c", "d")}
OURS, THEIRS = NAMES[0], NAMES[1]
"""Transactional ids whose coordinators are here, and on broker 2."""


def part(name: str, partition: TopicPartition = T0, *, epoch: int = 0, adds: bool = True) -> Part:
    return Part(partition, 7, epoch, BatchTransaction(transactional_id=name, adds_partitions=adds))


class Other:
    """Answers AddPartitionsToTxn as the test says."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.error = OK
        self.held: asyncio.Future[Any] | None = None

    def answer(self, request: Any, context: RequestContext) -> Any:
        self.asked.append(request)
        if self.held is not None:
            return Later(self.held)
        module = import_module(response_class(ApiKey.ADD_PARTITIONS_TO_TXN, VERSION).__module__)
        return module.AddPartitionsToTxnResponse(
            throttle_time=datetime.timedelta(0),
            error_code=self.error,
            results_by_transaction=tuple(
                module.AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=tuple(
                        module.AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=tuple(
                                module.AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=self.codes.get(
                                        TopicPartition(topic.name, index), OK
                                    ),
                                )
                                for index in topic.partitions
                            ),
                        )
                        for topic in each.topics
                    ),
                )
                for each in request.transactions
            ),
        )

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Any:
        raise AssertionError(error)


class Own:
    """The coordinator here."""

    def __init__(self) -> None:
        self.asked: list[list[Part]] = []
        self.answers: Mapping[TopicPartition, ErrorCode] | KafkaError = {}
        self.raises: KafkaError | None = None

    def __call__(self, parts: Sequence[Part]) -> asyncio.Future[Any]:
        if self.raises is not None:
            raise self.raises
        self.asked.append(list(parts))
        future = asyncio.get_running_loop().create_future()
        if isinstance(self.answers, KafkaError):
            future.set_exception(self.answers)
        else:
            future.set_result(self.answers)
        return future


class Setup:
    def __init__(self, port: int, other: Other) -> None:
        self.cluster, self.other, self.own = Cluster(), other, Own()
        self.cluster.publish_brokers(1, 2, on_this_machine={2: port})
        self.lead(1, 2)
        self.asking = AddPartitionsToTxnManager(self.cluster.cache, US, self.own)

    def lead(self, *leaders: int) -> None:
        partitions = [self.cluster.partition(leader, (1, 2)) for leader in leaders]
        self.cluster.publish_topic(TRANSACTION_STATE_TOPIC, *partitions)

    def question(self, part: Part) -> PartQuestion:
        leading: Any = SimpleNamespace(guards=TransactionGuards())
        return PartQuestion(leading, part, Guard(producer_epoch=part.producer_epoch))

    async def ask(self, *parts: Part) -> list[ErrorCode]:
        """Return the first answers."""
        asked = [self.asking.calls.answer(self.question(each), within_s=0) for each in parts]
        return await asyncio.wait_for(asyncio.gather(*asked), 10)


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    environment = system_environment()
    other = Other()
    api = Api[None](
        key=ApiKey.ADD_PARTITIONS_TO_TXN,
        versions=(0, VERSION),
        resources=nothing,
        handler=lambda _: other,
    )
    thread = HelperThread(environment.threads, "large-requests")
    dispatcher = Dispatcher([(api, other)], thread, environment.monotonic_s)
    listener = Listener(LISTENER, "127.0.0.1", 0, dispatcher, Bounds(environment))
    await listener.start()
    made = Setup(listener.port, other)
    yield made
    await made.asking.close()
    await listener.close()
    thread.close()


async def test_questions_of_one_turn_go_out_together_and_each_gets_its_answer(setup: Setup) -> None:
    setup.other.codes = {T1: ABORTABLE}

    found = await setup.ask(
        part(THEIRS), part(THEIRS, T1), part(THEIRS, T0, epoch=1), part(THEIRS, T0, adds=False)
    )

    assert found == [OK, ABORTABLE, OK, OK]
    (request,) = setup.other.asked
    assert [
        (each.producer_epoch, each.verify_only, each.topics[0].partitions)
        for each in request.transactions
    ] == [(0, False, (0, 1)), (1, False, (0,)), (0, True, (0,))]


async def test_the_coordinator_here_is_asked_without_a_network(setup: Setup) -> None:
    setup.own.answers = {T0: OK, T1: ABORTABLE}

    assert await setup.ask(part(OURS), part(OURS, T1)) == [OK, ABORTABLE]

    assert setup.own.asked == [[part(OURS), part(OURS, T1)]]
    assert not setup.other.asked
    fenced = KafkaError(ErrorCode.PRODUCER_FENCED)
    setup.own.answers = fenced
    assert await setup.ask(part(OURS)) == [ErrorCode.PRODUCER_FENCED]
    setup.own.raises = KafkaError(ErrorCode.NOT_COORDINATOR)
    assert await setup.ask(part(OURS)) == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize("leaders", [(1, -1), (1, 3), ()])
async def test_without_a_leader_that_lives_nobody_is_asked(
    setup: Setup, leaders: tuple[int, ...]
) -> None:
    if leaders:
        setup.lead(*leaders)
    else:
        setup.cluster.delete_topic(TRANSACTION_STATE_TOPIC)

    assert await setup.ask(part(THEIRS)) == [ErrorCode.NETWORK_EXCEPTION]
    assert not setup.other.asked


async def test_a_broker_that_refuses_the_request_is_tried_again_later(setup: Setup) -> None:
    setup.other.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    assert await setup.ask(part(THEIRS)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


async def test_a_broker_that_cannot_be_reached_is_a_network_error(setup: Setup) -> None:
    setup.cluster.publish_brokers(1, 2, on_this_machine={2: 1})

    assert await setup.ask(part(THEIRS)) == [ErrorCode.NETWORK_EXCEPTION]


async def asked(setup: Setup, within_s: float = 0) -> asyncio.Task[ErrorCode]:
    """Return the answer of a coordinator that hangs."""
    setup.other.held = asyncio.get_running_loop().create_future()
    question = setup.question(part(THEIRS))
    answer = asyncio.create_task(setup.asking.calls.answer(question, within_s))
    async with asyncio.timeout(10):
        while not setup.other.asked:  # noqa: ASYNC110 - a list wakes nobody
            await asyncio.sleep(0.001)
    return answer


async def test_a_coordinator_that_hangs_is_waited_for_until_another_one_leads(setup: Setup) -> None:
    answer = await asked(setup)
    setup.own.answers = {T0: ABORTABLE}
    setup.lead(1, 2)
    await turns()
    assert not answer.done()

    setup.lead(1, 1)

    assert await asyncio.wait_for(answer, 10) is ABORTABLE
    assert len(setup.own.asked) == 1


async def test_a_coordinator_that_hangs_is_not_waited_for_long(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.produce.add_partitions_to_txn.TRANSACTION_ASK_MAX_S", 0.05)

    assert await asyncio.wait_for(await asked(setup), 10) is ErrorCode.NETWORK_EXCEPTION


async def test_the_coordinator_is_asked_as_soon_as_there_is_one(setup: Setup) -> None:
    setup.lead(1, -1)
    question = setup.question(part(THEIRS))
    answer = asyncio.create_task(setup.asking.calls.answer(question, 5.0))
    await turns()
    assert not setup.other.asked

    setup.lead(1, 2)

    assert await asyncio.wait_for(answer, 10) is OK


async def test_the_end_leaves_nobody_waiting(setup: Setup) -> None:
    answer = await asked(setup, 100.0)

    await setup.asking.close()
    await turns()

    assert answer.result() is ErrorCode.NETWORK_EXCEPTION


async def test_who_waits_no_longer_hinders_nobody(setup: Setup) -> None:
    answer = asyncio.create_task(setup.ask(part(THEIRS)))
    await asyncio.sleep(0)
    answer.cancel()

    assert await setup.ask(part(THEIRS)) == [OK]
