"""`jbodlab reassign` moves partitions of this cluster; that of Kafka: `kafka_tools.txt`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.commands import call, called, dir_states, value
from tests.cluster.harness import Cluster, Load, wait_for
from tests.cluster.invariants import check
from tests.cluster.moving import fill, other_dir
from tests.cluster.scenes import Scene

pytestmark = pytest.mark.cluster

TOPIC = "moved"


def written(cluster: Cluster, *partitions: dict[str, object]) -> str:
    """A file that says where partitions shall be."""
    path = cluster.root / "plan.json"
    named = [{"topic": TOPIC, **one} for one in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": named}))
    return str(path)


def states(cluster: Cluster, file: str) -> dict[str, str]:
    """Verify a reassignment: the states of partitions, and of replicas that have a directory."""
    done = call(cluster, "reassign", "verify", file, "--output", "json")
    found: dict[str, str] = {}
    for one in json.loads(done.out):
        broker = "" if one["broker"] is None else f"-{one['broker']}"
        found[f"{one['topic']}-{one['partition']}{broker}"] = str(one["state"])
    assert done.code == (0 if set(found.values()) == {"done"} else 1)
    return found


def wait_done(cluster: Cluster, file: str) -> None:
    """Wait for the end of a reassignment.

    The controller knows of it before the broker that is asked where the replicas are.
    """
    wait_for("the end of it", lambda: set(states(cluster, file).values()) == {"done"}, 60)


def test_replicas_go_to_directories_of_other_brokers(scene: Scene, cluster: Cluster) -> None:
    scene.create(TOPIC, 2, 1)
    home = cluster.leaders(TOPIC)
    target = {index: next(b for b in (1, 2, 3) if b != home[index]) for index in home}
    with Load(cluster.bootstrap, TOPIC) as load:
        for k in (0, 1):
            wished = {index: str(cluster.broker(target[index]).paths[k]) for index in home}
            file = written(
                cluster,
                *(
                    {"partition": index, "replicas": [target[index]], "log_dirs": [wished[index]]}
                    for index in home
                ),
            )
            called(cluster, "reassign", "execute", file, "--yes")
            wait_done(cluster, file)

            for index, path in wished.items():
                assert str(cluster.broker(target[index]).log_dir_of(TOPIC, index).path) == path
    check(cluster, load)


def test_what_is_generated_is_executed(scene: Scene, cluster: Cluster) -> None:
    scene.create(TOPIC, 3, 2)
    proposal = cluster.root / "proposal.json"
    proposal.write_text(called(cluster, "reassign", "generate", TOPIC, "--brokers", "1,3"))
    wanted = {
        one["partition"]: tuple(one["replicas"])
        for one in json.loads(proposal.read_text())["partitions"]
    }
    assert {broker for brokers in wanted.values() for broker in brokers} == {1, 3}
    called(cluster, "reassign", "execute", proposal, "--yes")
    wait_done(cluster, str(proposal))
    found = cluster.image().topics.by_name[TOPIC].partitions
    assert {index: state.replicas for index, state in found.items()} == wanted
    check(cluster)


def test_what_is_under_way_is_cancelled(scene: Scene, cluster: Cluster) -> None:
    """A reassignment, and a move between the directories of one broker with it."""
    scene.create(TOPIC, 2, 2)
    fill(cluster, TOPIC, 8, 2)
    first, second = (cluster.image().topics.by_name[TOPIC].partitions[n].replicas for n in (0, 1))
    (other,) = {1, 2, 3} - set(first)
    target = other_dir(cluster, second[0], TOPIC, 1)
    file = written(
        cluster,
        {"partition": 0, "replicas": [first[1], other]},
        {"partition": 1, "replicas": list(second), "log_dirs": [str(target), "any"]},
    )
    slow = ("--throttle", 200_000, "--dirs-throttle", 80_000)

    called(cluster, "reassign", "execute", file, "--yes", *slow)

    moved = f"{TOPIC}-1-{second[0]}"
    under_way = {f"{TOPIC}-0": "moving", f"{TOPIC}-1": "done", moved: "moving"}
    assert states(cluster, file) == under_way
    called(cluster, "reassign", "cancel", file, "--yes")
    assert value(cluster, "reassign", "list") == []
    assert states(cluster, file)[moved] == "elsewhere"
    # The wished order stays; only what was to come is gone.
    assert cluster.image().topics.by_name[TOPIC].partitions[0].replicas == first[::-1]
    check(cluster)


def throttles(cluster: Cluster) -> set[str]:
    (topic,) = value(cluster, "topics", "describe", TOPIC)
    return {key for key in topic["configs"] if "throttled" in key}


def test_a_reassignment_says_what_it_replaced_and_its_throttles_go_with_it(
    scene: Scene, cluster: Cluster
) -> None:
    scene.create(TOPIC, 1, 2)
    before = cluster.image().topics.by_name[TOPIC].partitions[0].replicas
    (other,) = {1, 2, 3} - set(before)
    file = written(cluster, {"partition": 0, "replicas": [before[1], other]})
    fill(cluster, TOPIC, 8)

    asked = call(cluster, "reassign", "execute", file)
    assert (asked.code, asked.out) == (1, "")
    assert asked.err == "jbodlab: reassign moved-0? Confirm with --yes\n"
    done = call(cluster, "reassign", "execute", file, "--yes", "--throttle", 200_000)

    assert done.code == 0
    assert done.err.endswith("started the reassignment of 1 partition\n")
    (one,) = json.loads(done.out)["partitions"]
    paths = [str(cluster.broker(each).log_dir_of(TOPIC, 0).path) for each in before]
    assert one == {"topic": TOPIC, "partition": 0, "replicas": list(before), "log_dirs": paths}
    assert throttles(cluster)
    assert called(cluster, "reassign", "list").splitlines()[1].split() == [
        *("moved-0", f"{before[1]},{other},{before[0]}", str(other), str(before[0]))
    ]
    again = call(cluster, "reassign", "execute", file, "--yes")
    assert again.code == 1
    assert "--additional starts this reassignment beside them" in again.err
    # A higher limit for the one that is under way.
    called(cluster, "reassign", "execute", file, "--yes", "--additional", "--throttle", 10**9)
    wait_for("the end", lambda: call(cluster, "reassign", "verify", file).code == 0, 60)
    assert throttles(cluster) == set()
    check(cluster)


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ({"topic": "nope", "replicas": [1]}, "unknown topic 'nope'"),
        ({"topic": TOPIC, "partition": 77, "replicas": [1]}, "partition moved-77 does not exist"),
        (
            {"topic": TOPIC, "replicas": [1, 9]},
            "broker 9 is not a live broker of the cluster, which has 1, 2, 3",
        ),
    ],
)
def test_a_partition_or_broker_that_does_not_exist_is_refused_before_anything_begins(
    scene: Scene, cluster: Cluster, partition: dict[str, object], message: str
) -> None:
    scene.create(TOPIC, 1, 1)
    file = written(cluster, {"partition": 0, **partition})
    assert call(cluster, "reassign", "execute", file, "--yes") == (1, "", f"jbodlab: {message}\n")
    assert value(cluster, "reassign", "list") == []


def test_nothing_begins_where_a_directory_cannot_take_its_replica(
    scene: Scene, cluster: Cluster
) -> None:
    scene.create(TOPIC, 1, 1)
    (broker,) = cluster.isr(TOPIC)[0]
    source = cluster.broker(broker).log_dir_of(TOPIC, 0).path
    other = 1 + broker % 3
    paths = cluster.broker(other).paths

    def refused(path: Path | str) -> str:
        file = written(
            cluster,
            {"partition": 0, "replicas": [broker, other], "log_dirs": ["any", str(path)]},
        )
        done = call(cluster, "reassign", "execute", file, "--yes", "--throttle", 1000)
        assert (done.code, done.out) == (1, "")
        return done.err

    called(cluster, "dirs", "cordon", f"broker-{other}/1")
    scene.faults.make("chmod000", paths[1])
    wait_for("both states", lambda: {"CORDONED", "OFFLINE"} <= set(dir_states(cluster).values()))
    head = f"jbodlab: cannot move {TOPIC}-0-{other}: "
    assert refused("/nowhere") == (
        f"{head}/nowhere is not a log directory of broker {other}, which has "
        f"{', '.join(map(str, paths))}\n"
    )
    assert refused(source).startswith(f"{head}{source} is not a log directory of broker {other}")
    assert refused(paths[0]) == f"{head}{paths[0]} of broker {other} is cordoned\n"
    assert refused(paths[1]) == f"{head}{paths[1]} of broker {other} is offline\n"
    assert set(cluster.isr(TOPIC)[0]) == {broker}
    assert value(cluster, "reassign", "list") == []
    called(cluster, "dirs", "uncordon", f"broker-{other}/1")
