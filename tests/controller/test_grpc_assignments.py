"""Which directories hold the replicas, as any gRPC client may report it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.rpc import controller_pb2 as pb
from tests.builders import brokers, directories, directory
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


def test_each_assignment_has_its_code_in_the_shape_of_the_request(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        await it.add(3, "C1")
        await it.create("alone", [3])
        request = Assign(
            broker_id=1,
            broker_epoch=it.epochs[1],
            directories=[
                Assign.Directory(
                    id=directory("A2").bytes,
                    topics=[
                        Assign.Topic(
                            topic_id=it.topics["foo"],
                            partitions=[
                                Assign.Partition(partition_index=index) for index in (0, 7, -1)
                            ],
                        ),
                        Assign.Topic(
                            topic_id=UNKNOWN_ID, partitions=[Assign.Partition(partition_index=0)]
                        ),
                        Assign.Topic(
                            topic_id=it.topics["alone"],
                            partitions=[Assign.Partition(partition_index=0)],
                        ),
                    ],
                ),
            ],
        )
        answer = await it.stub.AssignReplicasToDirs(request)

        (found,) = answer.directories
        assert found.id == directory("A2").bytes
        assert [
            (topic.topic_id, [(each.partition_index, each.error_code) for each in topic.partitions])
            for topic in found.topics
        ] == [
            (it.topics["foo"], [(0, 0), (7, 3), (-1, 3)]),
            (UNKNOWN_ID, [(0, 100)]),
            (it.topics["alone"], [(0, 6)]),
        ]
        assert (await it.partition("foo")).directories == directories("A2,B1")

    served(tmp_path, body)


def test_assignments_of_a_stale_broker_and_empty_ones(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        assert await it.assign(1, ("foo", 0, "A2"), broker_epoch=it.epochs[2]) == [77]
        assert await it.assign(1, ("foo", 0, "A2"), broker_epoch=None) == [77]
        assert await it.assign(9, ("foo", 0, "A2")) == [77]
        assert await it.assign(1) == [0]
        assert await it.written() == []

    served(tmp_path, body)


def test_a_fenced_broker_may_assign(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        await it.beat(1, want_fence=True)
        assert await it.assign(1, ("foo", 0, "A2")) == [0, 0]
        assert (await it.partition("foo")).directories == directories("A2,B1")

    served(tmp_path, body)


@pytest.mark.parametrize("name", ["LOST", "X1", "B1"])
def test_a_replica_in_a_directory_that_is_not_the_brokers_leaves_isr_and_leadership(
    tmp_path: Path, name: str
) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        assert await it.assign(1, ("foo", 0, name)) == [0, 0]
        first, second = await it.written()

        assert (first.directories, first.leader) == (directories(f"{name},B1"), -2)
        assert (second.directories, second.isr, second.leader) == (None, brokers(2), 2)
        # It is in no directory that is online, so it cannot join.
        assert (await it.alter(2, "foo", [2, 1])).error_code == 107
        assert await it.assign(1, ("foo", 0, "A1")) == [0, 0]
        assert (await it.alter(2, "foo", [2, 1])).error_code == 0

    served(tmp_path, body)


def test_the_assignment_that_heals_a_leaderless_partition_elects_its_leader(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.add(1, "A1,A2")
        await it.create("bar", [1])
        await it.assign(1, ("bar", 0, "LOST"))
        assert (await it.partition("bar")).leader == -1
        await it.assign(1, ("bar", 0, "A2"))
        assert (await it.partition("bar")).leader == 1

    served(tmp_path, body)


def test_of_one_replica_named_twice_the_last_assignment_counts(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        assert await it.assign(1, ("foo", 0, "A2"), ("foo", 0, "LOST"), ("foo", 0, "A1")) == [
            0,
            0,
            0,
            0,
        ]
        foo = await it.partition("foo")
        assert (foo.directories, foo.leader, foo.isr) == (directories("A1,B1"), 1, (1, 2))

    served(tmp_path, body)


@pytest.mark.parametrize("name", ["UNASSIGNED", "MIGRATING"])
def test_reserved_directories_that_count_as_online_change_nothing_else(
    tmp_path: Path, name: str
) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        assert await it.assign(1, ("foo", 0, name)) == [0, 0]
        (change,) = await it.written()
        assert (change.isr, change.leader) == (None, -2)

    served(tmp_path, body)


def test_thousands_of_assignments_in_one_request(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.add(1, "A1,A2")
        await it.create("many", *([[1]] * 5_000))
        codes = await it.assign(1, *(("many", index, "A2") for index in range(5_000)))

        assert codes == [0] * 5_001
        assert {(await it.partition("many", n)).directories for n in (0, 4_999)} == {
            directories("A2")
        }

    served(tmp_path, body)
