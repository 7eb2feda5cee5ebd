"""Kafka's own tools, and ours, move replicas between directories while a producer writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.harness import (
    Cluster,
    Load,
    assert_nothing_lost,
    read_all,
    run_tool,
    wait_for,
)
from tests.cluster.invariants import settle
from tests.cluster.moving import described, fill
from tests.cluster.scenes import Scene
from tests.cluster.test_reassign_tools import (
    TOPIC,
    Tool,
    cluster,
    run_ours,
    scene,
    tool,
    verified,
    written,
)
from tests.kafka.tools import LOG_DIRS, KafkaTools

pytestmark = pytest.mark.cluster

__all__ = ["cluster", "scene", "tool"]


@pytest.fixture
def describe(request: pytest.FixtureRequest, cluster: Cluster, tool: Tool) -> Tool:
    """kafka-log-dirs, of the same origin as `tool`."""

    def run(*arguments: str) -> str:
        options = ("--bootstrap-server", cluster.bootstrap, "--describe", *arguments)
        if "kafkas" in request.node.callspec.id:
            tools: KafkaTools = request.getfixturevalue("kafka_tools")
            code, out, err = tools.run(LOG_DIRS, *options)
        else:
            code, out, err = run_ours("jbod-log-dirs", *options)
        assert code == 0, out + err
        return out

    return run


def shown(describe: Callable[..., str], broker: int) -> dict[bool, str]:
    """Where the tool sees the replica: by whether it is the future one."""
    told = json.loads(
        describe("--broker-list", str(broker), "--topic-list", TOPIC).splitlines()[-1]
    )
    return {
        replica["isFuture"]: log_dir["logDir"]
        for each in told["brokers"]
        for log_dir in each["logDirs"]
        for replica in log_dir["partitions"]
    }


def test_a_move_is_executed_verified_and_cancelled(
    scene: Scene, cluster: Cluster, tool: Tool, describe: Tool
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
        plan = ("--reassignment-json-file", file)
        started = (
            f"Successfully started moving log directory to {target} for replica {TOPIC}-0 with "
            f"broker {broker} "
        )

        # Four mebibytes take the best part of a minute.
        said = tool("--execute", *plan, "--replica-alter-log-dirs-throttle", "80000")
        assert "The replica-alter-dir throttle limit was set to 80000 B/s" in said
        assert started in said
        said = tool("--verify", *plan)
        assert f"Reassignment of partition {TOPIC}-0 is completed." in said
        assert f"Reassignment of replica {replica} is still in progress." in said
        assert "Clearing" not in said
        assert shown(describe, broker) == {False: str(source), True: str(target)}

        said = tool("--cancel", *plan)
        assert f"Successfully started moving log directory to {source}" in said
        assert "Clearing broker-level throttles on brokers 1,2,3" in said
        assert shown(describe, broker) == {False: str(source)}
        said = tool("--verify", *plan)
        assert (
            f"Partition {TOPIC}-0 on broker {broker} is not being moved from log dir {source} to "
            f"{target}."
        ) in said

        assert started in tool("--execute", *plan)
        said = verified(tool, file)
        assert f"Reassignment of replica {replica} completed successfully." in said
        assert shown(describe, broker) == {False: str(target)}
        settle(cluster)
        assert [each.path for each in described(cluster, broker, TOPIC, 0)] == [target]
    assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 1))


def test_nothing_begins_where_a_directory_cannot_take_its_replica(
    scene: Scene, cluster: Cluster, tool: Tool, request: pytest.FixtureRequest
) -> None:
    if "kafkas" in request.node.callspec.id:
        pytest.skip("Kafka's tool starts the reassignment first")
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
        return tool("--execute", "--reassignment-json-file", file, "--throttle", "1000", code=1)

    def cordon(word: str) -> None:
        run_tool(
            "jbod-log-dirs",
            *(word, "--bootstrap-server", cluster.bootstrap),
            *("--broker", str(other), "--dir", str(paths[0])),
        )

    cordon("cordon")
    scene.faults.make("chmod000", paths[1])
    wait_for("both states", lambda: {"CORDONED", "OFFLINE"} <= set(states(cluster)))
    head = f"Error: Failed to alter dir for {TOPIC}-0-{other}: "
    assert refused("/nowhere") == (
        f"{head}/nowhere is no log directory of broker {other}, which has "
        f"{', '.join(map(str, paths))}\n"
    )
    assert refused(source).startswith(f"{head}{source} is no log directory of broker {other}")
    assert refused(paths[0]) == f"{head}{paths[0]} of broker {other} is cordoned\n"
    assert refused(paths[1]) == f"{head}{paths[1]} of broker {other} is offline\n"
    assert set(cluster.isr(TOPIC)[0]) == {broker}
    assert tool("--list").strip() == "No partition reassignments found."
    cordon("uncordon")


def states(cluster: Cluster) -> list[str]:
    """The words of the table of directories."""
    return run_tool(
        "jbod-log-dirs", "--bootstrap-server", cluster.bootstrap, "--describe", "--table"
    ).stdout.split()
