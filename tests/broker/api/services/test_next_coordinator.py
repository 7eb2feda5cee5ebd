"""Two brokers: this one, where a coordinator was, and the one that has it now."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest

from broker.transactions.requests import AddPartitions, EndTransaction, InitProducerId
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.server.passed_on import client_id_for
from jbodlab.server.rights import Client
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from jbodlab.vocabulary.producer import Producer
from tests.broker.api.conftest import DEADLINE_S, Cluster, serving
from tests.waiting import called

NAME = "orders"
FORWARDED = client_id_for(Client("User:alice", "10.0.0.1"))


def away() -> KafkaError:
    """Return an error of its own each time: one that was raised holds on to who raised it."""
    return KafkaError(ErrorCode.NOT_COORDINATOR)


def leads(cluster: Cluster, leader: int) -> None:
    """Publish who leads the one partition of the coordinators."""
    cluster.publish_topic(TRANSACTION_STATE_TOPIC, cluster.partition(leader, (1, 2)))


def knows(cluster: Cluster, *, port: int) -> None:
    """Publish two brokers, number 2 at a port of this machine, and the topics."""
    cluster.publish_brokers(1, 2, on_this_machine={2: port})
    for topic in ("t", "__consumer_offsets"):
        cluster.publish_topic(topic)
    leads(cluster, 2)


@pytest.fixture
def us(cluster: Cluster) -> Cluster:
    for request in (AddPartitions, EndTransaction, InitProducerId):
        cluster.transactions.results[request] = away()
    return cluster


@pytest.fixture
async def other(us: Cluster, client: KafkaConnection) -> AsyncIterator[Cluster]:
    """The coordinator now, as far as this broker knows; it takes itself for broker 1."""
    async with serving(Cluster(), auto_create_topics=False) as other:
        knows(us, port=other.port)
        knows(other, port=us.port)
        leads(other, 1)
        yield other


def end_txn(version: int = 5) -> Any:
    kio = import_module(f"kio.schema.end_txn.v{version}.request")
    return kio.EndTxnRequest(transactional_id=NAME, producer_id=7, producer_epoch=3, committed=True)


async def test_the_end_of_a_transaction_is_answered_by_the_next_coordinator(
    us: Cluster, client: KafkaConnection, other: Cluster
) -> None:
    other.transactions.results[EndTransaction] = Producer(7, 4)

    response = await client.call(ApiKey.END_TXN, 5, end_txn())

    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 7, 4)
    assert us.transactions.calls == other.transactions.calls


async def test_the_next_coordinator_says_what_has_become_of_a_transaction(
    us: Cluster, client: KafkaConnection, other: Cluster
) -> None:
    """Records of the coordinator here may have been replicated: then a commit is under way."""
    other.transactions.results[EndTransaction] = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    response = await client.call(ApiKey.END_TXN, 5, end_txn())

    assert int(response.error_code) == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("version", [0, 3])
async def test_partitions_are_added_by_the_next_coordinator(
    us: Cluster, client: KafkaConnection, other: Cluster, version: int
) -> None:
    kio = import_module(f"kio.schema.add_partitions_to_txn.v{version}.request")
    other.transactions.results[AddPartitions] = {TopicPartition("t", 0): ErrorCode.NONE}
    request = kio.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=NAME,
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=(kio.AddPartitionsToTxnTopic(name="t", partitions=(0,)),),
    )

    response = await client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)

    (topic,) = response.results_by_topic_v3_and_below
    assert [int(each.partition_error_code) for each in topic.results_by_partition] == [0]
    assert other.transactions.calls[-1].partitions == (TopicPartition("t", 0),)


async def test_offsets_are_added_by_the_next_coordinator(
    us: Cluster, client: KafkaConnection, other: Cluster
) -> None:
    kio = import_module("kio.schema.add_offsets_to_txn.v3.request")
    other.transactions.results[AddPartitions] = None
    request = kio.AddOffsetsToTxnRequest(
        transactional_id=NAME, producer_id=7, producer_epoch=3, group_id="g"
    )

    response = await client.call(ApiKey.ADD_OFFSETS_TO_TXN, 3, request)

    assert int(response.error_code) == 0
    assert len(other.transactions.calls) == 1


async def test_a_producer_begins_at_the_next_coordinator(
    us: Cluster, client: KafkaConnection, other: Cluster
) -> None:
    kio = import_module("kio.schema.init_producer_id.v4.request")
    other.transactions.results[InitProducerId] = Producer(7, 1)
    request = kio.InitProducerIdRequest(
        transactional_id=NAME,
        transaction_timeout=datetime.timedelta(seconds=10),
        producer_id=-1,
        producer_epoch=-1,
    )

    response = await client.call(ApiKey.INIT_PRODUCER_ID, 4, request)

    assert (int(response.error_code), response.producer_id, response.producer_epoch) == (0, 7, 1)


async def test_a_request_waits_for_the_election_and_for_the_load(
    us: Cluster, client: KafkaConnection, other: Cluster
) -> None:
    """The replica here is offline: until the metadata say so, this broker seems to lead."""
    leads(us, 1)
    us.transactions.offline = {0}
    loading = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    other.transactions.results[EndTransaction] = loading
    call = asyncio.ensure_future(client.call(ApiKey.END_TXN, 5, end_txn()))
    await called(us.transactions.calls)
    assert not other.transactions.calls

    leads(us, 2)
    await called(other.transactions.calls)
    other.transactions.results[EndTransaction] = Producer(7, 4)

    assert int((await call).error_code) == 0


async def test_a_request_is_not_sent_to_and_fro(
    us: Cluster, client: KafkaConnection, other: Cluster
) -> None:
    """The other broker has not heard yet that it leads, and names this one."""
    leads(other, 2)
    other.transactions.results[EndTransaction] = away()

    call = asyncio.ensure_future(client.call(ApiKey.END_TXN, 5, end_txn()))
    await called(other.transactions.calls)
    other.transactions.results[EndTransaction] = Producer(7, 4)

    assert int((await call).error_code) == 0
    assert len(us.transactions.calls) == 1


@pytest.mark.parametrize("leader", [1, 3, -1])
async def test_a_request_does_not_wait_where_no_other_broker_is_to_lead(
    us: Cluster, client: KafkaConnection, other: Cluster, leader: int
) -> None:
    """This one does, and cannot read its log; one that does not live does; nobody does."""
    leads(us, leader)

    async with asyncio.timeout(1):
        response = await client.call(ApiKey.END_TXN, 5, end_txn())

    assert int(response.error_code) == ErrorCode.NOT_COORDINATOR
    assert not other.transactions.calls


async def test_a_request_is_refused_when_no_coordinator_answers_in_time(
    us: Cluster, client: KafkaConnection, other: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.api.services.next_coordinator.NEXT_COORDINATOR_MAX_S", 0.1)
    other.transactions.results[EndTransaction] = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    response = await client.call(ApiKey.END_TXN, 5, end_txn())

    assert int(response.error_code) == ErrorCode.NOT_COORDINATOR


async def test_errors_of_the_coordinator_here_are_not_forwarded(
    us: Cluster, client: KafkaConnection, other: Cluster
) -> None:
    us.transactions.results[EndTransaction] = KafkaError(ErrorCode.PRODUCER_FENCED)

    response = await client.call(ApiKey.END_TXN, 5, end_txn())

    assert int(response.error_code) == ErrorCode.PRODUCER_FENCED
    assert not other.transactions.calls


async def test_what_another_broker_forwards_is_refused_at_once(us: Cluster, other: Cluster) -> None:
    broker = await KafkaConnection.open(
        "127.0.0.1", us.port, client_id=FORWARDED, timeout_s=DEADLINE_S
    )

    response = await broker.call(ApiKey.END_TXN, 5, end_txn())

    broker.close()
    assert int(response.error_code) == ErrorCode.NOT_COORDINATOR
    assert not other.transactions.calls
