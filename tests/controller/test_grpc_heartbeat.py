"""Heartbeats, failed and degraded directories, controlled shutdown, for any gRPC client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from jbodlab.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.records.topic_records import PartitionChangeRecord
from jbodlab.rpc import controller_pb2 as pb
from tests.builders import brokers, directories
from tests.controller.grpc_client import Client, ids, served


async def three(it: Client) -> None:
    """Three brokers; foo is on all of them, bar on 1 only."""
    await it.add(1, "A1,A2")
    await it.add(2, "B1,B2")
    await it.add(3, "C1,C2")
    await it.create("foo", [1, 2, 3])
    await it.create("bar", [1])
    assert await it.assign(1, ("foo", 0, "A1"), ("bar", 0, "A1")) == [0, 0, 0]
    assert await it.assign(2, ("foo", 0, "B1")) == [0, 0]
    assert await it.assign(3, ("foo", 0, "C1")) == [0, 0]
    await it.written()


def test_a_heartbeat_of_nobody_or_of_another_epoch_is_stale(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        unknown = await it.beat(1)
        await it.add(1, "A1")
        await it.written()
        for fields in ({"broker_epoch": 0}, {"broker_epoch": 1 << 60}, {"broker_id": -1}):
            answer = await it.beat(1, **fields)
            assert (answer.error_code, answer.is_fenced, answer.is_caught_up) == (77, True, False)
        unset = await it.stub.BrokerHeartbeat(pb.BrokerHeartbeatRequest(broker_id=1))

        assert (unknown.error_code, unknown.is_fenced) == (77, True)
        assert unset.error_code == 77
        assert await it.written() == []

    served(tmp_path, body)


def test_next_states_follow_flags_and_offset(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.register(1, "A1")
        behind = await it.beat(1, current_metadata_offset=-1)
        fenced = await it.beat(1, want_fence=True)
        unfenced = await it.beat(1)
        again = await it.beat(1, want_fence=True)
        await it.written()
        farewell = await it.beat(1, want_shut_down=True)
        repeated = await it.beat(1, want_shut_down=True)

        assert (behind.is_caught_up, behind.is_fenced) == (False, True)
        assert (fenced.is_caught_up, fenced.is_fenced) == (True, True)
        assert (unfenced.is_caught_up, unfenced.is_fenced) == (True, False)
        assert again.is_fenced
        for answer in (farewell, repeated):
            assert (answer.is_fenced, answer.should_shut_down) == (True, True)
        # It is fenced already, so nothing is written.
        assert await it.written() == []

    served(tmp_path, body)


def test_fencing_writes_partitions_first_and_unfencing_last(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await three(it)
        await it.beat(1, want_fence=True)
        *changes, fence = await it.written()
        await it.beat(1)
        unfence, elected = await it.written()

        assert {(change.isr, change.leader) for change in changes} == {
            ((2, 3), 2),
            (None, -1),
        }
        assert (fence.fenced, unfence.fenced) == (1, -1)
        assert (elected.isr, elected.leader) == (None, 1)

    served(tmp_path, body)


def test_a_failed_directory_is_news_once(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await three(it)
        answer = await it.beat(1, offline="A1")
        changes = await it.written()
        await it.beat(1, offline="A1,A1,X1,B1")

        assert not answer.is_fenced
        assert isinstance(changes[-1], BrokerRegistrationChangeRecord)
        assert changes[-1].log_dirs == directories("A2")
        assert all(isinstance(change, PartitionChangeRecord) for change in changes[:-1])
        foo, bar = await it.partition("foo"), await it.partition("bar")
        assert (foo.leader, foo.isr) == (2, (2, 3))
        assert (bar.leader, bar.isr) == (-1, (1,))
        assert foo.directories == directories("A1,B1,C1")
        assert await it.written() == []
        # Another broker's directory is not taken away.
        assert (await it.broker(2)).directories == directories("B1,B2")

    served(tmp_path, body)


def test_two_directories_in_two_orders_and_one_registration_change(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.add(1, "A1,A2,A3")
        await it.add(2, "B1")
        await it.create("foo", [1, 2], [1, 2])
        await it.assign(1, ("foo", 0, "A1"), ("foo", 1, "A2"))
        await it.written()
        await it.beat(1, offline="A2,A1")

        changes = await it.written()
        assert [type(change) for change in changes] == [
            PartitionChangeRecord,
            PartitionChangeRecord,
            BrokerRegistrationChangeRecord,
        ]
        assert changes[-1].log_dirs == directories("A3")

    served(tmp_path, body)


def test_a_fenced_broker_reports_failures_too(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await it.register(1, "A1,A2")
        await it.written()
        answer = await it.beat(1, current_metadata_offset=-1, offline="A1")

        assert answer.is_fenced
        (change,) = await it.written()
        assert change.log_dirs == directories("A2")

    served(tmp_path, body)


def test_without_any_directory_a_broker_is_fenced_and_stays_so(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await three(it)
        answer = await it.beat(1, offline="A1,A2")
        *_, fence = await it.written()
        again = await it.beat(1, offline="A1,A2")

        assert (answer.is_fenced, again.is_fenced) == (True, True)
        assert (fence.fenced, fence.log_dirs) == (1, ())
        assert await it.written() == []
        assert (await it.broker(1)).directories == directories("A1,A2")

    served(tmp_path, body)


def test_a_directory_comes_back_with_a_registration_of_the_same_process(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        incarnation = bytes(15) + b"\x09"
        await it.register(1, "A1,A2", incarnation_id=incarnation)
        await it.beat(1)
        await it.create("bar", [1])
        await it.assign(1, ("bar", 0, "A1"))
        await it.beat(1, offline="A1")
        assert (await it.partition("bar")).leader == -1
        await it.register(1, "A1,A2", incarnation_id=incarnation)

        assert (await it.partition("bar")).leader == 1
        # The heartbeat does not name it any more.
        await it.beat(1)
        assert await it.written() == []

    served(tmp_path, body)


def test_requests_that_arrive_in_the_wrong_order_do_no_harm(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await three(it)
        # A heartbeat from before the failure arrives after the one that told of it.
        await it.beat(1, offline="A1")
        await it.written()
        await it.beat(1)
        assert await it.written() == []
        assert (await it.broker(1)).directories == directories("A2")
        # A broker in controlled shutdown does not come back by a heartbeat without the flag.
        await it.beat(2, want_shut_down=True)
        await it.beat(2)
        assert (await it.broker(2)).in_controlled_shutdown
        assert (await it.partition("foo")).leader == 3
        assert (await it.alter(3, "foo", [3, 2])).error_code == 107

    served(tmp_path, body)


def test_controlled_shutdown_waits_for_the_slowest_of_the_others(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await three(it)
        first = await it.beat(1, want_shut_down=True)
        entered, *changes = await it.written()
        offset = (await it.stub.DescribeQuorum(pb.DescribeQuorumRequest())).high_watermark - 1
        await it.beat(2, current_metadata_offset=offset)
        await it.beat(3, current_metadata_offset=offset - 1)
        waiting = await it.beat(1, want_shut_down=True)
        await it.beat(3, current_metadata_offset=offset)
        done = await it.beat(1, want_shut_down=True)

        assert (first.is_fenced, first.should_shut_down) == (False, False)
        assert entered.in_controlled_shutdown == 1
        assert {(change.isr, change.leader) for change in changes} == {((2, 3), 2), (None, -1)}
        assert not waiting.should_shut_down
        assert (done.is_fenced, done.should_shut_down) == (True, True)

    served(tmp_path, body)


def test_nothing_is_placed_on_a_broker_that_leaves(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await three(it)
        await it.beat(1, want_shut_down=True)
        request = pb.CreateTopicsRequest
        answer = await it.stub.CreateTopics(
            request(
                topics=[
                    request.Topic(name="new", num_partitions=6, replication_factor=2),
                    request.Topic(name="more", num_partitions=1, replication_factor=3),
                ]
            )
        )

        assert [topic.error_code for topic in answer.topics] == [0, 38]
        assert "only 2 broker(s) are registered" in answer.topics[1].error_message
        placed = [await it.partition("new", index) for index in range(6)]
        assert {broker for each in placed for broker in each.replicas} == {2, 3}

    served(tmp_path, body)


@pytest.mark.parametrize(
    "field",
    ["offline_log_dirs", "degraded_log_dirs", "full_log_dirs", "tolerated_log_dirs"],
)
def test_a_directory_id_of_a_wrong_length_is_refused(tmp_path: Path, field: str) -> None:
    async def body(it: Client) -> None:
        await it.add(1, "A1")
        await it.written()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await it.beat(1, **{field: [*ids("A1"), b"short"]})

        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert field in (refused.value.details() or "")
        assert await it.written() == []

    served(tmp_path, body)


def test_a_huge_list_of_failed_directories_is_taken(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await three(it)
        many = [number.to_bytes(8, "big") + bytes(8) for number in range(1, 100_001)]
        answer = await it.beat(1, offline_log_dirs=many + ids("A1"))

        assert (answer.error_code, answer.is_fenced) == (0, False)
        assert (await it.broker(1)).directories == directories("A2")

    served(tmp_path, body)


def test_leaders_leave_degraded_directories_and_full_ones_leave_the_isr(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await three(it)
        await it.beat(1, degraded_log_dirs=ids("A1"), tolerated_log_dirs=ids("A1"))
        assert await it.written() == []
        await it.beat(1, degraded_log_dirs=ids("A1"))
        (moved,) = await it.written()
        await it.beat(2, degraded_log_dirs=ids("B1"), full_log_dirs=ids("B1"))
        (paused,) = await it.written()
        refused = await it.alter(3, "foo", [3, 1, 2])
        await it.beat(2)
        accepted = await it.alter(3, "foo", [3, 1, 2])

        assert (moved.isr, moved.leader) == (None, 2)
        # Not back to the first replica, which is slow.
        assert (paused.isr, paused.leader) == (brokers(1, 3), 3)
        assert (refused.error_code, accepted.error_code) == (107, 0)
        # The only replica stays what it is.
        assert (await it.partition("bar")).leader == 1

    served(tmp_path, body)


def test_all_brokers_talk_at_once(tmp_path: Path) -> None:
    async def body(it: Client) -> None:
        await three(it)
        answers = await asyncio.gather(
            *(it.beat(broker, offline=name) for broker, name in ((1, "A1"), (2, "B1"), (3, "C1")))
        )

        assert not any(answer.is_fenced for answer in answers)
        foo = await it.partition("foo")
        # The last one stays in the ISR and does not lead.
        assert (foo.leader, len(foo.isr)) == (-1, 1)

    served(tmp_path, body)
