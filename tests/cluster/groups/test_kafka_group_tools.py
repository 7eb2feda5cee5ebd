"""Apache Kafka's own tools for groups and records on this cluster, where Maven can fetch them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.group_members import Members
from tests.cluster.group_stage import committed, state_of
from tests.cluster.harness import wait_for
from tests.cluster.scenes import Scene, Stage, some
from tests.kafka.tools import (
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    GROUPS,
    REPLICA_VERIFICATION,
    VERIFIABLE_CONSUMER,
    VERIFIABLE_PRODUCER,
    KafkaTools,
)

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

PROTOCOLS = ("classic", "consumer")
PER_PARTITION = 20


@pytest.fixture
def scene(group_stage: Stage) -> Iterator[Scene]:
    with group_stage.scene() as scene:
        yield scene


Tool = Callable[..., list[str]]


@pytest.fixture
def tool(scene: Scene, kafka_tools: KafkaTools) -> Tool:
    """Runs a tool that has to succeed; returns the lines that it printed."""

    def run(name: str, *arguments: object, text: str = "") -> list[str]:
        at = ("--bootstrap-server", scene.cluster.bootstrap)
        done = kafka_tools.run(name, *at, *arguments, text=text)
        assert done.code == 0, done.out + done.err
        return [line.rstrip() for line in done.lines if line.strip()]

    return run


def offsets_of(scene: Scene, group: str, topic: str) -> list[int]:
    """The committed offsets of a topic's partitions, those that there are."""
    found = committed(scene.cluster, group, topic)
    return [found[index] for index in sorted(found) if found[index] >= 0]


def table(lines: list[str]) -> list[dict[str, str]]:
    """The rows of what the tool for groups prints, by the names of their columns."""
    head, *rows = (line.split() for line in lines if not line.startswith("Warn: "))
    return [dict(zip(head, row, strict=False)) for row in rows]


def test_lines_are_written_and_read_in_a_group_from_where_it_stopped(
    scene: Scene, tool: Tool
) -> None:
    topic = scene.topic(1, records=0).topic
    lines = "".join(f"k{number}:v{number}\n" for number in range(8))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tool(CONSOLE_PRODUCER, "--topic", topic, *keyed, text=lines)

    def consumed(*arguments: str) -> list[str]:
        return tool(CONSOLE_CONSUMER, "--topic", topic, *arguments)

    in_group = ("--group", "console", "--from-beginning", "--max-messages")
    assert consumed(*in_group, "5") == [f"v{number}" for number in range(5)]
    # Its second protocol goes on where the first one stopped.
    newer = ("--command-property", "group.protocol=consumer")
    assert consumed(*in_group, "3", *newer) == ["v5", "v6", "v7"]
    assert committed(scene.cluster, "console", topic) == {0: 8}

    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    part = ("--partition", "0", "--offset", "6", "--max-messages", "2", *shown)
    assert consumed(*part) == ["Offset:6\tk6\tv6", "Offset:7\tk7\tv7"]
    # Nothing more comes: it ends with its time, and with exit code 0.
    assert consumed(*in_group, "1", "--timeout-ms", "1000") == []


@pytest.mark.parametrize("protocol", some(PROTOCOLS, "consumer"))
def test_verifiable_clients_verify_each_other(
    scene: Scene, kafka_tools: KafkaTools, protocol: str
) -> None:
    topic = scene.topic(3, records=0).topic
    group = f"verified-{protocol}"
    at = ("--bootstrap-server", scene.cluster.bootstrap, "--topic", topic)

    def events(name: str, *arguments: str) -> list[dict[str, object]]:
        # The producer leaves work to the end of its process.
        run = kafka_tools.run_alone if name == VERIFIABLE_PRODUCER else kafka_tools.run
        done = run(name, *at, "--max-messages", "600", *arguments)
        assert done.code == 0, done
        return [json.loads(line) for line in done.lines if line.startswith("{")]

    produced = events(VERIFIABLE_PRODUCER, "--acks", "-1")
    acknowledged = {
        (event["partition"], event["offset"])
        for event in produced
        if event["name"] == "producer_send_success"
    }
    options = ("--group-protocol", protocol, "--group-id", group, "--reset-policy", "earliest")
    consumed = events(VERIFIABLE_CONSUMER, *options, "--verbose")
    read = {
        (event["partition"], event["offset"])
        for event in consumed
        if event["name"] == "record_data"
    }
    assert len(acknowledged) == 600
    assert read == acknowledged
    done = [event for event in consumed if event["name"] == "offsets_committed"]
    assert done
    assert all(event["success"] for event in done)
    assert sum(offsets_of(scene, group, topic)) == 600


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_groups_are_listed_and_described_with_every_option(
    scene: Scene, tool: Tool, protocol: str
) -> None:
    ledger = scene.topic(2, records=2 * PER_PARTITION)
    group = f"described-{protocol}"

    def described(*options: str) -> list[dict[str, str]]:
        return table(tool(GROUPS, "--describe", "--group", group, *options))

    with Members() as members:
        client = "librdkafka" if protocol == "classic" else "librdkafka-848"
        member = members.join(client, scene.cluster.bootstrap, ledger.topic, group)
        wait_for("its partitions", lambda: member.poll() is None or len(member.assigned()) == 2)
        wait_for(
            "all consumed and committed",
            lambda: (
                member.poll() is not None
                and member.commit() is None
                and sum(offsets_of(scene, group, ledger.topic)) == 2 * PER_PARTITION
            ),
        )
        listed = tool(GROUPS, "--list", "--state", "--type")
        assert [group, protocol.capitalize(), "Stable"] in [line.split() for line in listed]
        for which in (("--type", protocol), ("--state", "Stable")):
            assert group in [line.split()[0] for line in tool(GROUPS, "--list", *which)]
        (other,) = set(PROTOCOLS) - {protocol}
        for which in (("--type", other), ("--state", "Empty")):
            assert group not in [line.split()[0] for line in tool(GROUPS, "--list", *which)]

        for options in ((), ("--offsets",), ("--offsets", "--verbose"), ("--timeout", "9000")):
            rows = described(*options)
            assert {row["PARTITION"] for row in rows} == {"0", "1"}, rows
            assert {row["TOPIC"] for row in rows} == {ledger.topic}
            assert {row["LAG"] for row in rows} == {"0"}
            assert sum(int(row["CURRENT-OFFSET"]) for row in rows) == 2 * PER_PARTITION
            assert len({row["CONSUMER-ID"] for row in rows}) == 1
        (row,) = described("--members")
        assert row["#PARTITIONS"] == "2"
        assert row["CLIENT-ID"] == "rdkafka"
        (verbose,) = described("--members", "--verbose")
        assert verbose["CONSUMER-ID"] == row["CONSUMER-ID"]
        assert any(f"{ledger.topic}:0,1" in value for value in verbose.values()), verbose
        for options in (("--state",), ("--state", "--verbose")):
            said = tool(GROUPS, "--describe", "--group", group, *options)[-1]
            assert "Stable" in said
            assert said.split()[-1] == "1"
        assert any(group in line for line in tool(GROUPS, "--describe", "--all-groups", "--state"))
    wait_for("an empty group", lambda: state_of(scene.cluster, group) == "EMPTY")
    assert {row["CONSUMER-ID"] for row in described()} == {"-"}


def test_offsets_and_groups_are_deleted_where_nobody_uses_them(
    scene: Scene, tool: Tool, kafka_tools: KafkaTools
) -> None:
    first, second = scene.topic(2, records=10).topic, scene.topic(1, records=10).topic
    group = "deleted"
    for topic in (first, second):
        words = ("--group", group, "--topic", topic, "--to-latest", "--execute")
        tool(GROUPS, "--reset-offsets", *words)

    def refused(*arguments: str) -> str:
        at = ("--bootstrap-server", scene.cluster.bootstrap)
        done = kafka_tools.run(GROUPS, *at, "--group", group, *arguments)
        return done.out + done.err

    with Members() as members:
        member = members.join("librdkafka", scene.cluster.bootstrap, first, group)
        wait_for("its partitions", lambda: member.poll() is None or len(member.assigned()) == 2)
        assert "NonEmpty" in refused("--delete").replace("not empty", "NonEmpty")
        assert "GroupSubscribedToTopic" in refused("--delete-offsets", "--topic", first).replace(
            "actively subscribed", "GroupSubscribedToTopic"
        )
        reset = ("--reset-offsets", "--topic", first, "--to-earliest", "--execute")
        assert "inactive" in refused(*reset)
        # A topic that no member subscribes to is nobody's.
        tool(GROUPS, "--delete-offsets", "--group", group, "--topic", second)
        assert committed(scene.cluster, group, second) == {0: -1001}
    wait_for("an empty group", lambda: state_of(scene.cluster, group) == "EMPTY")
    assert sum(committed(scene.cluster, group, first).values()) == 10

    tool(GROUPS, "--delete-offsets", "--group", group, "--topic", f"{first}:0")
    assert committed(scene.cluster, group, first)[0] == -1001
    assert committed(scene.cluster, group, first)[1] > 0
    assert any("was successful" in line for line in tool(GROUPS, "--delete", "--group", group))
    assert group not in tool(GROUPS, "--list")
    assert "GroupIdNotFound" in refused("--delete")


def test_replicas_are_verified_to_be_the_same(scene: Scene, kafka_tools: KafkaTools) -> None:
    ledger = scene.topic(3, records=300)
    options = ("--broker-list", scene.cluster.bootstrap, "--topics-include", ledger.topic)
    said = kafka_tools.run_until(
        "max lag is 0", REPLICA_VERIFICATION, *options, "--report-interval-ms", "500"
    )
    assert "verification process is started" in said
    assert "differ" not in said
