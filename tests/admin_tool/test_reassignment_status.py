from __future__ import annotations

from admin_tool.reassignment.listing import listed
from admin_tool.reassignment.status import partition_status, replica_status
from admin_tool.reassignment.throttles import partition_moves, throttled_replicas
from admin_tool.requests.configs import Change, Operation
from admin_tool.requests.log_dirs import Replica, ReplicaDirs
from admin_tool.requests.reassignments import Reassignment
from jbodlab.ids import TopicPartition

FOO_0, FOO_1, FOO_2, BAR_0 = (
    TopicPartition("foo", 0),
    TopicPartition("foo", 1),
    TopicPartition("foo", 2),
    TopicPartition("bar", 0),
)
ADDING = Reassignment(replicas=(0, 1, 3), adding=(3,), removing=())


def test_partitions_are_completed_in_progress_or_otherwise() -> None:
    wanted = {FOO_2: (0, 1, 2), FOO_0: (0, 1), FOO_1: (1, 3), BAR_0: (1,)}
    status = partition_status(
        wanted, {FOO_1: ADDING}, {FOO_0: (0, 1), FOO_1: (0, 1, 3), FOO_2: (0, 1)}
    )
    assert status.lines == (
        "There is no active reassignment of partition bar-0, but replica set is  rather than 1.",
        "Reassignment of partition foo-0 is completed.",
        "Reassignment of partition foo-1 is still in progress.",
        "There is no active reassignment of partition foo-2, but replica set is 0,1 rather than "
        "0,1,2.",
    )
    assert not status.is_done


def test_any_reassignment_of_the_cluster_keeps_the_throttles() -> None:
    assert not partition_status({FOO_0: (1,)}, {BAR_0: ADDING}, {FOO_0: (1,)}).is_done
    assert partition_status({FOO_0: (1,)}, {}, {FOO_0: (2,)}).is_done


def test_replicas_are_where_they_should_be_or_not() -> None:
    replicas = [Replica(1, "foo", index) for index in range(6)]
    found = {
        replicas[0]: ReplicaDirs("/t", None),
        replicas[1]: ReplicaDirs("/c", "/t"),
        replicas[2]: ReplicaDirs("/c", "/o"),
        replicas[3]: ReplicaDirs("/c", None),
        replicas[4]: ReplicaDirs(None, None),
    }
    lines = (
        "Reassignment of replica foo-0-1 completed successfully.",
        "Reassignment of replica foo-1-1 is still in progress.",
        "Partition foo-2 on broker 1 is being moved to log dir /o instead of /t.",
        "Partition foo-3 on broker 1 is not being moved from log dir /c to /t.",
        "Partition foo-4 is not found in any live log dir on broker 1. There is likely an offline "
        "log directory on the broker.",
        "Partition foo-5 cannot be found in any live log directory on broker 1.",
    )
    done = [True, False, False, True, False, False]

    assert replica_status(dict.fromkeys(replicas, "/t"), found).lines == lines
    for replica, line, is_done in zip(replicas, lines, done, strict=True):
        status = replica_status({replica: "/t"}, found)
        assert (status.lines, status.is_done) == ((line,), is_done)


def test_replicas_are_sorted_by_broker_first() -> None:
    wanted = [Replica(2, "a", 0), Replica(1, "b", 0), Replica(1, "a", 9)]
    status = replica_status(dict.fromkeys(wanted, "/t"), {})
    assert [line.split()[1] for line in status.lines] == ["a-9", "b-0", "a-0"]
    assert replica_status({}, {}).lines == ()


def test_the_list_leaves_out_what_is_empty() -> None:
    assert listed({}) == "No partition reassignments found."
    both = Reassignment(replicas=(0, 1, 2, 3), adding=(3,), removing=(0,))
    assert listed({FOO_1: ADDING, BAR_0: both}) == (
        "Current partition reassignments:\n"
        "bar-0: replicas: 0,1,2,3. adding: 3. removing: 0.\n"
        "foo-1: replicas: 0,1,3. adding: 3."
    )


def test_sources_are_throttled_as_leaders_and_only_new_ones_as_followers() -> None:
    moves = partition_moves({}, {FOO_1: (2, 3), FOO_0: (1, 2)}, {FOO_0: (1, 2), FOO_1: (1, 2)})
    assert throttled_replicas(moves) == {
        "foo": [
            Change(
                name="leader.replication.throttled.replicas",
                operation=Operation.SET,
                value="0:1,0:2,1:1,1:2",
            ),
            Change(
                name="follower.replication.throttled.replicas",
                operation=Operation.SET,
                value="1:3",
            ),
        ]
    }


def test_what_is_under_way_is_throttled_too_and_keeps_its_sources() -> None:
    moves = partition_moves({FOO_0: ADDING, BAR_0: ADDING}, {FOO_0: (4, 5)}, {FOO_0: (0, 1, 3)})
    assert moves[FOO_0].sources == {0, 1}
    assert moves[FOO_0].targets == {4, 5}
    assert moves[BAR_0].targets == {3}
    assert set(throttled_replicas(moves)) == {"foo", "bar"}
