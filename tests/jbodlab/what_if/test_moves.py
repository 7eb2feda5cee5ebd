from __future__ import annotations

import json
from dataclasses import replace

from admin_tool.reassignment.json_form import parse_plan
from jbodlab.what_if.cluster import TopicRules
from jbodlab.what_if.losses import losses
from jbodlab.what_if.moves import moves, reassignment
from tests.jbodlab.what_if.clusters import a, b, cluster, partition, with_directories


def test_a_single_replica_gets_a_second_one_in_another_rack() -> None:
    model = cluster([partition(0, a(1))], racks=("r", "r", "s"))

    (move,), after = moves(model)

    assert move.partition.replicas == (1, 3)
    assert move.size_bytes == 100
    assert losses(after).directories[a(1)].last_copies == 0


def test_an_offline_replica_is_replaced_on_another_broker() -> None:
    model = cluster([partition(0, a(1), a(2), isr=(1,), alive=(True, False))])

    (move,), after = moves(model)

    assert move.partition.replicas == (1, 3)
    assert move.why == "it replaces a replica that is offline"
    assert losses(after).directories[a(1)].last_copies == 0


def test_the_worst_pair_takes_less_and_the_smallest_partition_leaves_it_first() -> None:
    some = [partition(n, a(1), a(2), sizes=(1000 - n,) * 2) for n in range(6)]
    model = cluster(some)

    planned, after = moves(model)

    assert losses(model).pairs[a(1), a(2)].last_copies == 6
    assert max(one.last_copies for one in losses(after).pairs.values()) == 1
    assert planned[0].partition.index == 5
    sizes = [move.size_bytes for move in planned]
    assert sizes == sorted(sizes)
    assert all(len(move.changed) == 1 for move in planned)


def test_a_rack_that_has_all_replicas_of_a_partition_gives_one_away() -> None:
    model = cluster([partition(0, a(1), a(2))], racks=("r", "r", "s"))

    (move,), after = moves(model)

    assert move.partition.replicas == (1, 3)
    assert losses(after).racks["r"].last_copies == 0


def test_nothing_goes_where_no_room_is_or_nothing_may_come() -> None:
    model = cluster([partition(0, a(1))])
    full = [replace(one, usable_bytes=50) for one in model.directories]
    cordoned = [replace(one, takes=False) for one in model.directories]

    assert moves(with_directories(model, full))[0] == []
    assert moves(with_directories(model, cordoned))[0] == []


def test_what_is_being_reassigned_stays_as_it_is() -> None:
    assert moves(cluster([partition(0, a(1), adding=(2,))]))[0] == []


def test_a_broker_with_an_offline_directory_moves_nothing_within_itself() -> None:
    some = [partition(n, a(1), a(2)) for n in range(6)]
    model = cluster(some, brokers=2)
    directories = [*model.directories]
    directories.append(replace(directories[a(1)], path="/c", is_online=False))

    planned, _ = moves(with_directories(model, directories))

    assert planned
    assert all(move.partition.directories[0] == a(1) for move in planned)


def test_the_file_is_one_that_the_tools_accept() -> None:
    model = cluster(
        [partition(0, a(1)), partition(1, a(1), a(2)), partition(2, a(1), a(2))],
        rules=TopicRules(min_isr=2),
    )
    planned, _ = moves(model)

    plan = parse_plan(json.dumps(reassignment(model, planned)))

    added = plan.partitions[0]
    assert (added.topic, added.replicas[0]) == ("t", 1)
    assert added.log_dirs is not None
    assert added.log_dirs[0] == "any"
    assert added.log_dirs[1] in ("/a", "/b")


def test_nothing_is_moved_where_no_loss_takes_anything() -> None:
    spread = [partition(0, a(1), a(2), a(3)), partition(1, b(1), b(2), b(3))]
    assert moves(cluster(spread))[0] == []
