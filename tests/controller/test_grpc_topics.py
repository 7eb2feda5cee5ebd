"""Topics come, grow and go, and producer ids are handed out, for any gRPC client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from jbodlab.rpc import controller_pb2 as pb
from tests.controller.grpc_client import Client, served

UNKNOWN_ID = bytes(15) + b"\xff"
Assign = pb.AssignReplicasToDirsRequest
Alter = pb.AlterPartitionRequest
Create = pb.CreateTopicsRequest
Delete = pb.DeleteTopicsRequest
Grow = pb.CreatePartitionsRequest


async def pair(it: Client) -> None:
    """Two brokers; foo is on both and lies in A1 and B1."""
    await it.add(1, "A1,A2")
    await it.add(2, "B1,B2")
    await it.create("foo", [1, 2])
    assert await it.assign(1, ("foo", 0, "A1")) == [0, 0]
    assert await it.assign(2, ("foo", 0, "B1")) == [0, 0]
    await it.written()


def test_topics_that_cannot_be_have_their_codes_and_the_others_are_made(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)

        def placed(name: str, count: int = 1, factor: int = 1) -> Create.Topic:
            return Create.Topic(name=name, num_partitions=count, replication_factor=factor)

        def by_hand(name: str, *replicas: list[int], first: int = 0, **fields: int) -> Create.Topic:
            return Create.Topic(
                **{"name": name, "num_partitions": -1, "replication_factor": -1, **fields},
                assignments=[
                    Create.Assignment(partition_index=index, broker_ids=each)
                    for index, each in enumerate(replicas, start=first)
                ],
            )

        twice = Create.Topic(
            name="twice",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[Create.Assignment(partition_index=0, broker_ids=[1])] * 2,
        )
        topics = [
            (placed("good", -1, -1), 0),
            (placed("__cluster_metadata"), 42),
            (placed(""), 17),
            (placed("a/b"), 17),
            (placed("x" * 250), 17),
            (placed("foo"), 36),
            (placed("one.two"), 0),
            (placed("one_two"), 17),
            (placed("zero", 0), 37),
            (placed("negative", -2), 37),
            (placed("nothing", 1, 0), 38),
            (placed("minus", 1, -5), 38),
            (placed("wide", 1, 3), 38),
            (by_hand("mixed", [1], num_partitions=1), 42),
            (by_hand("factor", [1], replication_factor=1), 42),
            (twice, 39),
            (by_hand("empty", []), 39),
            (by_hand("repeated", [1, 1]), 39),
            (by_hand("stranger", [9]), 39),
            (by_hand("negative-id", [-1]), 39),
            (by_hand("uneven", [1], [1, 2]), 39),
            (by_hand("gap", [1], first=1), 39),
            (by_hand("below", [1], first=-1), 39),
            (
                Create.Topic(
                    name="null",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[Create.Config(name="retention.ms")],
                ),
                40,
            ),
            (by_hand("hand", [2, 1], [1, 2]), 0),
        ]
        answer = await it.stub.CreateTopics(Create(topics=[topic for topic, _ in topics]))

        found = {each.name: each.error_code for each in answer.topics}
        assert found == {topic.name: code for topic, code in topics}
        assert (await it.partition("hand", 0)).isr == (2, 1)
        assert (await it.partition("hand", 1)).isr == (1, 2)

    served(tmp_path, body)


def test_all_replicas_fenced_makes_no_partition(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.add(1, "A1")
        await it.register(2, "B1")
        assert (await it.create("foo", [2])).error_code == 39
        assert (await it.create("bar", [2, 1])).error_code == 0
        bar = await it.partition("bar")
        assert (bar.leader, bar.isr, bar.replicas) == (1, (1,), (2, 1))
        await it.beat(1, want_fence=True)
        answer = await it.stub.CreateTopics(
            Create(topics=[Create.Topic(name="x", num_partitions=1, replication_factor=1)])
        )
        assert answer.topics[0].error_code == 38
        assert answer.topics[0].error_message == (
            "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
        )

    served(tmp_path, body)


def test_validating_writes_nothing(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        topic = Create.Topic(name="maybe", num_partitions=2, replication_factor=2)
        answer = await it.stub.CreateTopics(Create(topics=[topic], validate_only=True))
        grown = await it.stub.CreatePartitions(
            Grow(topics=[Grow.Topic(name="foo", count=2)], validate_only=True)
        )

        assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (0, 2)
        assert len(answer.topics[0].topic_id) == 16
        assert grown.results[0].error_code == 0
        assert await it.written() == []

    served(tmp_path, body)


def test_what_no_batch_can_hold_is_refused_for_every_element(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        topics = [
            Create.Topic(name=f"t{n}", num_partitions=6_000, replication_factor=1) for n in (1, 2)
        ]
        created = await it.stub.CreateTopics(Create(topics=topics))
        grown = await it.stub.CreatePartitions(
            Grow(topics=[Grow.Topic(name="foo", count=2_000_000_000)])
        )

        text = "Unable to perform excessively large batch operation"
        assert [(each.error_code, each.error_message) for each in created.topics] == [
            (44, text),
            (44, text),
        ]
        assert (grown.results[0].error_code, grown.results[0].error_message) == (44, text)
        assert await it.written() == []

    served(tmp_path, body)


def test_growth_and_its_errors(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        rows = [
            (Grow.Topic(name="none", count=2), 3),
            (Grow.Topic(name="foo", count=1), 37),
            (Grow.Topic(name="foo", count=0), 37),
            (Grow.Topic(name="foo", count=-1), 37),
            (Grow.Topic(name="foo", count=3, assignments=[Grow.Assignment(broker_ids=[1, 2])]), 39),
            (Grow.Topic(name="foo", count=2, assignments=[Grow.Assignment(broker_ids=[1])]), 39),
            (Grow.Topic(name="foo", count=2, assignments=[Grow.Assignment(broker_ids=[])]), 39),
            (Grow.Topic(name="foo", count=2, assignments=[Grow.Assignment(broker_ids=[2, 2])]), 39),
            (Grow.Topic(name="foo", count=2, assignments=[Grow.Assignment(broker_ids=[2, 1])]), 0),
        ]
        for topic, code in rows:
            answer = await it.stub.CreatePartitions(Grow(topics=[topic]))
            assert answer.results[0].error_code == code, topic
        twice = await it.stub.CreatePartitions(Grow(topics=[Grow.Topic(name="foo", count=9)] * 2))
        assert {each.error_code for each in twice.results} == {42}
        grown = await it.partition("foo", 1)
        assert (grown.replicas, grown.leader) == ((2, 1), 2)

    served(tmp_path, body)


def test_deletion_and_its_errors(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        await it.create("bar", [1])
        foo, bar = it.topics["foo"], it.topics["bar"]
        answer = await it.stub.DeleteTopics(
            Delete(
                topics=[
                    Delete.Topic(),
                    Delete.Topic(name="foo", topic_id=foo),
                    Delete.Topic(name="none"),
                    Delete.Topic(topic_id=UNKNOWN_ID),
                    Delete.Topic(name="bar"),
                    Delete.Topic(topic_id=bar),
                    Delete.Topic(topic_id=foo),
                ]
            )
        )
        again = await it.stub.DeleteTopics(Delete(topics=[Delete.Topic(name="foo")]))

        assert [each.error_code for each in answer.responses] == [42, 42, 3, 100, 42, 42, 0]
        assert again.responses[0].error_code == 3
        # What is reported of a topic that is gone is answered so.
        assert await it.assign(1, ("foo", 0, "A2")) == [0, 100]
        # The name is free for a topic with another id.
        assert (await it.create("foo", [2])).error_code == 0
        assert it.topics["foo"] != foo

    served(tmp_path, body)


def test_lists_without_elements_are_answered(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        assert list((await it.stub.CreateTopics(Create())).topics) == []
        assert list((await it.stub.DeleteTopics(Delete())).responses) == []
        assert list((await it.stub.CreatePartitions(Grow())).results) == []
        elected = await it.stub.ElectLeaders(pb.ElectLeadersRequest())
        assert (elected.error_code, list(elected.replica_election_results)) == (0, [])
        assert await it.written() == []

    served(tmp_path, body)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            "AssignReplicasToDirs",
            Assign(directories=[Assign.Directory(id=b"x" * 15)]),
        ),
        (
            "AssignReplicasToDirs",
            Assign(directories=[Assign.Directory(id=bytes(16), topics=[Assign.Topic()])]),
        ),
        ("AlterPartition", Alter(topics=[Alter.Topic(topic_id=b"y" * 17)])),
        ("DeleteTopics", Delete(topics=[Delete.Topic(topic_id=b"z")])),
    ],
    ids=["directory", "topic of an assignment", "topic of an isr", "topic to delete"],
)
def test_ids_of_a_wrong_length_are_refused(tmp_path: Path, method: str, message: Any) -> None:
    async def body(it: Client) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await getattr(it.stub, method)(message)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    served(tmp_path, body)


def test_producer_ids_are_handed_out_once_and_to_known_brokers(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        request = pb.AllocateProducerIdsRequest
        one = await it.stub.AllocateProducerIds(request(broker_id=1, broker_epoch=it.epochs[1]))
        two = await it.stub.AllocateProducerIds(request(broker_id=2, broker_epoch=it.epochs[2]))
        stale = await it.stub.AllocateProducerIds(request(broker_id=2))

        assert (one.producer_id_start, one.producer_id_len) == (0, 1000)
        assert (two.producer_id_start, stale.error_code) == (1000, 77)

    served(tmp_path, body)


def test_a_request_that_has_waited_longer_than_its_sender_is_refused(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        topic = Create.Topic(name="late", num_partitions=1, replication_factor=1)
        created = await it.stub.CreateTopics(Create(topics=[topic], timeout_ms=-1))
        deleted = await it.stub.DeleteTopics(
            Delete(topics=[Delete.Topic(name="foo")], timeout_ms=-1)
        )
        elected = await it.stub.ElectLeaders(
            pb.ElectLeadersRequest(all_partitions=True, timeout_ms=-1)
        )

        assert created.topics[0].error_code == 7
        assert deleted.responses[0].error_code == 7
        assert elected.error_code == 7
        assert await it.written() == []

    served(tmp_path, body)
