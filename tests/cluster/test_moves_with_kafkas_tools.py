"""Kafka's own tools, and ours, move replicas between directories while a producer writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.commands import call, called, dir_states, value
from tests.cluster.harness import Cluster, Load, assert_nothing_lost, read_all, wait_for
from tests.cluster.invariants import settle
from tests.cluster.moving import described, fill
from tests.cluster.reassign_tools import ReassignTool
from tests.cluster.scenes import Scene
from tests.cluster.test_reassign_tools import TOPIC, cluster, scene, tool, wait_done, written

pytestmark = pytest.mark.cluster

__all__ = ["cluster", "scene", "tool"]


def test_a_move_is_executed_verified_and_cancelled(
    scene: Scene, cluster: Cluster, tool: ReassignTool
) -> None:
    scene.create(TOPIC, 1, 3)
    fill(cluster, TOPIC, 4)
    with Load(cluster.bootstrap, TOPIC, rate=500) as load:
        broker = cluster.leaders(TOPIC)[0]
        source = cluster.broker(broker).log_dir_of(TOPIC, 0).path
        target = next(path for path in cluster.broker(broker).paths if path != source)
        others = [each for each in cluster.broker_ids if each != broker]
        file = written(
            cluster,
            {
                "partition": 0,
                "replicas": [broker, *others],
                "log_dirs": [str(target), "any", "any"],
            },
        )
        replica = f"{TOPIC}-0-{broker}"

        # Four mebibytes take the best part of a minute.
        tool.execute(file, dirs_throttle=80_000)
        assert tool.states(file) == {f"{TOPIC}-0": "done", replica: "moving"}
        assert tool.places(TOPIC, broker) == {False: str(source), True: str(target)}

        tool.cancel(file)
        assert tool.places(TOPIC, broker) == {False: str(source)}
        assert tool.states(file) == {f"{TOPIC}-0": "done", replica: "elsewhere"}

        tool.execute(file)
        wait_done(tool, file)
        assert tool.places(TOPIC, broker) == {False: str(target)}
        settle(cluster)
        assert [each.path for each in described(cluster, broker, TOPIC, 0)] == [target]
    assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 1))


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
