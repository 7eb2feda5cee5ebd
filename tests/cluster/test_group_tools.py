"""The tools for groups, records, offsets and settings, on a cluster of our own processes."""

from __future__ import annotations

import subprocess

import pytest

from tests.cluster.harness import Cluster, script, wait_for
from tests.cluster.scenes import SETTINGS, Stage, Stages

pytestmark = pytest.mark.cluster


def tool(
    cluster: Cluster, name: str, *arguments: str, text: str = ""
) -> tuple[int, list[str], list[str]]:
    """Run a tool as a user does: its exit code, and the lines of both outputs."""
    done = subprocess.run(
        [*script(name), "--bootstrap-server", cluster.bootstrap, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


@pytest.fixture
def group_stage(stages: Stages) -> Stage:
    """The brokers of the other scenes with groups."""
    return stages.of(
        settings={
            **SETTINGS,
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.heartbeat.interval.ms": "500",
            "group.consumer.min.heartbeat.interval.ms": "500",
            "offsets.topic.num.partitions": "10",
        }
    )


def test_records_are_written_read_in_a_group_and_read_again(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        cluster = scene.cluster
        scene.create("told", 1, 3)

        def groups(*arguments: str) -> tuple[int, list[str]]:
            return tool(cluster, "jbod-consumer-groups", *arguments)[:2]

        def consumed(*arguments: str) -> list[str]:
            code, out, err = tool(cluster, "jbod-console-consumer", "--topic", "told", *arguments)
            assert (code, err[-1]) == (0, f"Processed a total of {len(out)} messages"), err
            return out

        lines = "".join(f"k{number}\tv{number}\n" for number in range(6))
        produce = ["--topic", "told", "--property", "parse.key=true"]
        assert tool(cluster, "jbod-console-producer", *produce, text=lines) == (0, [], [])
        code, _, err = tool(cluster, "jbod-console-producer", *produce, text="no key\n")
        assert (code, err) == (1, ["Error: No key separator found on line number 1: 'no key'"])
        assert tool(cluster, "jbod-get-offsets", "--topic", "told") == (0, ["told:0:6"], [])

        shown = ["--property", "print.key=true", "--property", "print.offset=true"]
        part = ["--partition", "0", "--offset", "4", "--max-messages", "2", *shown]
        assert consumed(*part) == ["Offset:4\tk4\tv4", "Offset:5\tk5\tv5"]
        in_group = ["--group", "readers", "--from-beginning"]
        assert consumed(*in_group, "--max-messages", "4") == ["v0", "v1", "v2", "v3"]
        assert consumed(*in_group, "--max-messages", "2") == ["v4", "v5"]

        assert "readers" in groups("--list")[1]
        describe = ["--describe", "--group", "readers"]
        code, out = groups(*describe)
        assert [line.split()[:6] for line in out[-1:]] == [["readers", "told", "0", "6", "6", "0"]]
        reset = ["--reset-offsets", "--group", "readers", "--topic", "told", "--to-offset", "5"]
        assert groups(*reset)[0] == 0
        assert groups(*describe)[1] == out
        assert groups(*reset, "--execute")[1][-1].split() == ["readers", "told", "0", "5"]
        assert consumed(*in_group, "--max-messages", "1") == ["v5"]

        code, out = groups("--delete-offsets", "--group", "readers", "--topic", "told")
        assert (code, out[-1].split()) == (0, ["told", "0", "Successful"])
        code, out = groups("--delete", "--group", "gone")
        assert (code, out[1]) == (1, "Error: Deletion of some consumer groups failed:")


def test_settings_are_changed_and_shown(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        cluster = scene.cluster
        scene.create("set", 1, 3)

        def configs(*arguments: str) -> tuple[int, list[str], list[str]]:
            return tool(cluster, "jbod-configs", *arguments)

        code, out, _ = configs("--alter", "--topic", "set", "--add-config", "retention.ms=70000")
        assert (code, out) == (0, ["Completed updating config for topic set."])
        head = "Dynamic configs for topic set are:"
        line = "  retention.ms=70000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
        wait_for(
            "the setting",
            lambda: (
                (found := configs("--describe", "--topic", "set")[1])[0] == head
                and len(found) == 2
                and found[1].startswith(line)
            ),
        )
        client = ["--entity-type", "clients", "--entity-name", "c"]
        assert configs("--alter", *client, "--add-config", "producer_byte_rate=5")[0] == 0
        quota = "Quota configs for client-id 'c' are producer_byte_rate=5.0"
        wait_for("the quota", lambda: configs("--describe", *client)[1] == [quota])
        assert configs("--alter", *client, "--delete-config", "producer_byte_rate")[0] == 0
        code, out, err = configs("--alter", "--topic", "set", "--add-config", "nope=1")
        assert (code, out, len(err)) == (1, [], 1)
