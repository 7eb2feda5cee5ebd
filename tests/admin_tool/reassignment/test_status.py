from __future__ import annotations

import pytest

from admin_tool.reassignment.status import Status, partition_status, replica_status
from admin_tool.reassignment.throttles import partition_moves, throttled_replicas
from jbodlab.kafka_admin.log_dirs import Replica, ReplicaDirs
from jbodlab.kafka_admin.reassignments import Reassignment
from jbodlab.vocabulary.ids import TopicPartition

FOO_0, FOO_1, FOO_2, BAR_0 = (
    TopicPartition("foo", 0),
    TopicPartition("foo", 1),
    TopicPartition("foo", 2),
    TopicPartition("bar", 0),
)
ADDING = Reassignment(replicas=(0, 1, 3), adding=(3,), removing=())


def test_partitions_are_done_moving_or_elsewhere() -> None:
    wanted = {FOO_2: (0, 1, 2), FOO_0: (0, 1), FOO_1: (1, 3), BAR_0: (1,)}
    found = partition_status(
        wanted, {FOO_1: ADDING}, {FOO_0: (0, 1), FOO_1: (0, 1, 3), FOO_2: (0, 1)}
    )
    assert [(one.partition, one.state, one.text, one.is_over) for one in found] == [
        (BAR_0, "elsewhere", "not moving: expected replicas 1, got none", True),
        (FOO_0, "done", "done", True),
        (FOO_1, "moving", "moving", False),
        (FOO_2, "elsewhere", "not moving: expected replicas 0,1,2, got 0,1", True),
    ]


@pytest.mark.parametrize(
    ("where", "state", "text", "is_over"),
    [
        (ReplicaDirs("/t", None), "done", "done, in /t", True),
        (ReplicaDirs("/c", "/t"), "moving", "moving to /t", False),
        (ReplicaDirs("/c", "/o"), "elsewhere", "moving to /o, expected /t", False),
        (ReplicaDirs("/c", None), "elsewhere", "not moving: in /c, expected /t", True),
        (ReplicaDirs(None, None), "offline", "in no online log directory", False),
    ],
)
def test_replicas_are_done_moving_elsewhere_or_offline(
    where: ReplicaDirs, state: str, text: str, is_over: bool
) -> None:
    replica = Replica(1, "foo", 0)
    assert replica_status({replica: "/t"}, {replica: where}) == [
        Status(FOO_0, 1, state, text, is_over)
    ]


def test_replicas_are_sorted_by_broker_first() -> None:
    wanted = [Replica(2, "a", 0), Replica(1, "b", 0), Replica(1, "a", 9)]
    found = replica_status(
        dict.fromkeys(wanted, "/t"), dict.fromkeys(wanted, ReplicaDirs("/t", None))
    )
    assert [str(one.partition) for one in found] == ["a-9", "b-0", "a-0"]


def test_sources_are_throttled_as_leaders_and_only_new_ones_as_followers() -> None:
    moves = partition_moves({}, {FOO_1: (2, 3), FOO_0: (1, 2)}, {FOO_0: (1, 2), FOO_1: (1, 2)})
    assert throttled_replicas(moves) == {
        "foo": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:1,1:2",
            "follower.replication.throttled.replicas": "1:3",
        }
    }


def test_what_is_under_way_is_throttled_too_and_keeps_its_sources() -> None:
    moves = partition_moves({FOO_0: ADDING, BAR_0: ADDING}, {FOO_0: (4, 5)}, {FOO_0: (0, 1, 3)})
    assert moves[FOO_0].sources == {0, 1}
    assert moves[FOO_0].targets == {4, 5}
    assert moves[BAR_0].targets == {3}
    assert set(throttled_replicas(moves)) == {"foo", "bar"}
