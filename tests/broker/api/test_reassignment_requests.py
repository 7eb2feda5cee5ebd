from __future__ import annotations

import asyncio
import datetime
from importlib import import_module
from typing import Any

import pytest

from jbodlab.controller_api import requests
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, Offset
from tests.waiting import called, turns

ALTER, LIST = 45, 46


def alter(version: int = 1, timeout_ms: int = 5000, **fields: Any) -> Any:
    """Give foo-0 to brokers 2 and 3, and cancel foo-1."""
    kio = import_module(f"kio.schema.alter_partition_reassignments.v{version}.request")
    return kio.AlterPartitionReassignmentsRequest(
        timeout=datetime.timedelta(milliseconds=timeout_ms),
        topics=(
            kio.ReassignableTopic(
                name="foo",
                partitions=(
                    kio.ReassignablePartition(partition_index=0, replicas=(2, 3)),
                    kio.ReassignablePartition(partition_index=1, replicas=None),
                ),
            ),
        ),
        **fields,
    )


def answered(*codes: ErrorCode, offset: int = -1) -> requests.AlterPartitionReassignmentsResponse:
    return requests.AlterPartitionReassignmentsResponse(
        results=tuple(
            requests.ReassignmentResult(
                topic="foo",
                partition=index,
                error_code=code,
                error_message="" if code == ErrorCode.NONE else "why not",
            )
            for index, code in enumerate(codes)
        ),
        metadata_offset=Offset(offset),
    )


@pytest.mark.parametrize("version", [0, 1])
async def test_wishes_go_to_the_controller_and_its_words_come_back(
    cluster: Any, client: Any, version: int
) -> None:
    cluster.controller.results["AlterPartitionReassignments"] = answered(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    )

    response = await client.call(ALTER, version, alter(version))

    (sent,) = cluster.controller.calls
    assert sent == requests.AlterPartitionReassignmentsRequest(
        partitions=(
            requests.PartitionToReassign(
                topic="foo", partition=0, replicas=(BrokerId(2), BrokerId(3))
            ),
            requests.PartitionToReassign(topic="foo", partition=1, replicas=None),
        ),
        timeout_ms=5000,
    )
    assert (int(response.error_code), response.error_message) == (0, None)
    (topic,) = response.responses
    assert [
        (each.partition_index, int(each.error_code), each.error_message)
        for each in topic.partitions
    ] == [(0, 39, "why not"), (1, 85, "why not")]


async def test_the_factor_may_be_held(cluster: Any, client: Any) -> None:
    cluster.controller.results["AlterPartitionReassignments"] = answered()

    request = alter(allow_replication_factor_change=False)
    response = await client.call(ALTER, 1, request)

    assert cluster.controller.calls[0].allow_replication_factor_change is False
    assert response.allow_replication_factor_change is False


async def test_the_answer_waits_until_this_broker_knows_what_was_decided(
    cluster: Any, client: Any
) -> None:
    cluster.controller.results["AlterPartitionReassignments"] = answered(
        ErrorCode.NONE, ErrorCode.NONE, offset=cluster.next_offset
    )

    answer = asyncio.ensure_future(client.call(ALTER, 1, alter()))
    await called(cluster.controller.calls)
    await turns()
    assert not answer.done()
    cluster.advance()

    response = await asyncio.wait_for(answer, 5)
    assert [int(each.error_code) for each in response.responses[0].partitions] == [0, 0]


async def test_nothing_is_waited_for_with_timeout_zero_or_without_a_change(
    cluster: Any, client: Any
) -> None:
    codes = ErrorCode.NONE, ErrorCode.NONE
    cluster.controller.results["AlterPartitionReassignments"] = answered(*codes)
    await asyncio.wait_for(client.call(ALTER, 1, alter()), 5)

    cluster.controller.results["AlterPartitionReassignments"] = answered(
        *codes, offset=cluster.next_offset
    )
    await asyncio.wait_for(client.call(ALTER, 1, alter(timeout_ms=0)), 5)


async def test_a_controller_that_is_away_fails_the_whole_request(cluster: Any, client: Any) -> None:
    cluster.controller.available = False

    response = await client.call(ALTER, 1, alter(timeout_ms=300))
    assert int(response.error_code) == ErrorCode.NOT_CONTROLLER
    codes = [each.error_code for topic in response.responses for each in topic.partitions]
    assert codes
    assert set(codes) == {ErrorCode.NOT_CONTROLLER}

    kio = import_module("kio.schema.list_partition_reassignments.v0.request")
    request = kio.ListPartitionReassignmentsRequest(
        timeout=datetime.timedelta(milliseconds=300), topics=None
    )
    assert int((await client.call(LIST, 0, request)).error_code) == ErrorCode.NOT_CONTROLLER


async def test_what_is_under_way_is_listed_by_topic(cluster: Any, client: Any) -> None:
    def under_way(topic: str, partition: int) -> requests.OngoingReassignment:
        return requests.OngoingReassignment(
            topic=topic,
            partition=partition,
            replicas=(BrokerId(3), BrokerId(1)),
            adding_replicas=(BrokerId(3),),
            removing_replicas=(BrokerId(1),),
        )

    cluster.controller.results["ListPartitionReassignments"] = (
        requests.ListPartitionReassignmentsResponse(
            reassignments=(under_way("foo", 0), under_way("foo", 4), under_way("bar", 1))
        )
    )
    kio = import_module("kio.schema.list_partition_reassignments.v0.request")
    named = kio.ListPartitionReassignmentsTopics(name="foo", partition_indexes=(0, 4))
    timeout = datetime.timedelta(seconds=5)

    for topics in (None, (named,)):
        request = kio.ListPartitionReassignmentsRequest(timeout=timeout, topics=topics)
        response = await client.call(LIST, 0, request)

    assert [call.topic_partitions for call in cluster.controller.calls] == [
        None,
        (("foo", 0), ("foo", 4)),
    ]
    assert [
        (topic.name, [each.partition_index for each in topic.partitions])
        for topic in response.topics
    ] == [("foo", [0, 4]), ("bar", [1])]
    first = response.topics[0].partitions[0]
    assert (first.replicas, first.adding_replicas, first.removing_replicas) == ((3, 1), (3,), (1,))
