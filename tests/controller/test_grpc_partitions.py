"""ISR changes and elections, as any gRPC client sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jbodlab.records.topic_records import PartitionChangeRecord
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


def test_first_matching_error_of_an_isr_change(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        await it.add(3, "C1")
        await it.written()
        known = await it.partition("foo")
        leader_epoch, partition_epoch = known.leader_epoch, known.partition_epoch
        assert (await it.alter(1, "foo", [1], broker_epoch=3)).error_code == 77
        assert (await it.alter(9, "foo", [1])).error_code == 77
        # Each request also has what the ones after it are refused for.
        wrong: list[tuple[int, list[int], dict[str, Any], int]] = [
            (3, [9], {"topic_id": UNKNOWN_ID, "partition_index": 4}, 100),
            (3, [9], {"topic_id": bytes(16)}, 100),
            (3, [9], {"partition_index": 4, "leader_epoch": 99}, 3),
            (3, [9], {"leader_epoch": leader_epoch + 1, "partition_epoch": -1}, 41),
            (3, [9], {"partition_epoch": partition_epoch + 1, "leader_epoch": -1}, 41),
            (3, [9], {"leader_epoch": leader_epoch - 1, "partition_epoch": -1}, 74),
            (3, [9], {"partition_epoch": partition_epoch - 1}, 42),
            (1, [9], {"partition_epoch": partition_epoch - 1}, 95),
            (1, [1, 1], {}, 42),
            (1, [1, -1], {}, 42),
            (1, [1, 3], {}, 42),
            (1, [2], {}, 42),
            (1, [], {}, 42),
            (1, [1, 2], {"leader_recovery_state": 1}, 42),
            (1, [1], {"leader_recovery_state": 1}, 42),
            (1, [1], {"leader_recovery_state": 7}, 42),
            (1, [1], {"leader_recovery_state": -3}, 42),
        ]
        for broker, isr, fields, code in wrong:
            answer = await it.alter(broker, "foo", isr, **fields)
            assert answer.error_code == code, (broker, isr, fields)
            assert (answer.leader_id, list(answer.isr), answer.partition_epoch) == (0, [], 0)
        assert await it.written() == []

    served(tmp_path, body)


@pytest.mark.parametrize("how", ["fenced", "leaving", "unregistered", "epoch", "directory"])
def test_a_member_that_may_not_be_in_an_isr_is_ineligible(tmp_path: Path, how: str) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        await it.alter(1, "foo", [1])
        epoch = it.epochs[2]
        if how == "fenced":
            await it.beat(2, want_fence=True)
        elif how == "leaving":
            await it.create("other", [2])
            await it.beat(2, want_shut_down=True)
        elif how == "unregistered":
            await it.stub.UnregisterBroker(pb.UnregisterBrokerRequest(broker_id=2))
        elif how == "epoch":
            epoch -= 1
        else:
            await it.beat(2, offline="B1")
        members = [
            Alter.IsrMember(broker_id=1, broker_epoch=it.epochs[1]),
            Alter.IsrMember(broker_id=2, broker_epoch=epoch),
        ]
        assert (await it.alter(1, "foo", [], new_isr_with_epochs=members)).error_code == 107

    served(tmp_path, body)


def test_an_accepted_isr_change_answers_with_the_state(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        before = await it.partition("foo")
        shrunk = await it.alter(1, "foo", [1])
        unchanged = await it.alter(1, "foo", [1])
        members = [Alter.IsrMember(broker_id=each, broker_epoch=it.epochs[each]) for each in (1, 2)]
        grown = await it.alter(1, "foo", [], new_isr_with_epochs=members)

        assert (shrunk.error_code, shrunk.leader_id, list(shrunk.isr)) == (0, 1, [1])
        assert shrunk.partition_epoch == before.partition_epoch + 1
        assert shrunk.leader_epoch == before.leader_epoch
        assert (unchanged.error_code, unchanged.partition_epoch) == (0, shrunk.partition_epoch)
        assert (grown.error_code, list(grown.isr)) == (0, [1, 2])
        assert grown.partition_epoch == shrunk.partition_epoch + 1

    served(tmp_path, body)


def test_an_empty_isr_request_is_answered(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        answer = await it.stub.AlterPartition(Alter(broker_id=1, broker_epoch=it.epochs[1]))
        assert (answer.error_code, list(answer.topics)) == (0, [])

    served(tmp_path, body)


# Elections


def test_elections_answer_by_partition(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        await it.create("bar", [1])
        unknown_type = await it.elect(2, ("foo", 0))
        negative_type = await it.elect(-1, ("foo", 0))
        answers = {
            kind: await it.elect(kind, ("foo", 0), ("foo", 5), ("none", 0)) for kind in (0, 1)
        }
        assert (unknown_type.error_code, negative_type.error_code) == (42, 42)
        for answer in answers.values():
            codes = [
                (each.error_code, each.error_message)
                for topic in answer.replica_election_results
                for each in topic.partition_result
            ]
            assert [code for code, _ in codes] == [84, 3, 3]
            assert codes[1][1] == "No such partition as foo-5"
            assert codes[2][1] == "No such topic as none"
        await it.beat(1, want_fence=True)
        preferred = await it.elect(0, ("foo", 0), ("bar", 0))
        unclean = await it.elect(1, ("foo", 0), ("bar", 0))

        def codes_of(answer: Any) -> list[int]:
            return [
                topic.partition_result[0].error_code for topic in answer.replica_election_results
            ]

        assert codes_of(preferred) == [80, 80]
        assert codes_of(unclean) == [84, 83]

    served(tmp_path, body)


def test_elections_everywhere_leave_settled_partitions_out_but_list_their_topics(
    tmp_path: Path,
) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        await it.create("bar", [2])
        await it.beat(1, want_fence=True)
        await it.beat(1)
        await it.alter(2, "foo", [2, 1])
        answer = await it.elect(0)

        found = {
            topic.topic: [(each.partition_id, each.error_code) for each in topic.partition_result]
            for topic in answer.replica_election_results
        }
        assert found == {"foo": [(0, 0)], "bar": []}
        assert (await it.partition("foo")).leader == 1

    served(tmp_path, body)


def test_an_unclean_election_needs_a_live_replica_in_an_online_directory(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        await it.alter(1, "foo", [1])
        await it.beat(1, offline="A1")
        await it.beat(2, offline="B1")
        refused = await it.elect(1, ("foo", 0))
        await it.register(2, "B1,B2")
        assert refused.replica_election_results[0].partition_result[0].error_code == 83

    served(tmp_path, body)


def test_an_unclean_leader_recovers_alone(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await pair(it)
        await it.alter(1, "foo", [1])
        await it.beat(1, offline="A1")
        await it.written()
        await it.elect(1, ("foo", 0))
        (change,) = await it.written()

        assert isinstance(change, PartitionChangeRecord)
        assert (change.isr, change.leader, change.leader_recovery_state) == ((2,), 2, 1)
        recovered = await it.alter(2, "foo", [2])
        assert (recovered.error_code, recovered.leader_recovery_state) == (0, 0)

    served(tmp_path, body)
