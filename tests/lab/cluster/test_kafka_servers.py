"""How nodes of Apache Kafka are described, formatted and started, release by release."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jbodlab.cli.lab_state import ClusterState
from jbodlab.vocabulary import properties
from lab.cluster import ClusterSpec, kafka_servers, layout
from lab.cluster.engine import Engine
from lab.cluster.kafka_servers import KafkaServers, directory_of_voter
from lab.cluster.spec import spec_of
from lab.errors import LabError
from lab.machine import class_archive, kafka_jars
from lab.machine.kafka_jars import reason_in
from lab.machine.processes import ServerUser

pytestmark = pytest.mark.unit

MAPPING, WRITING = "-XX:SharedArchiveFile=a", "-XX:ArchiveClassesAtExit=a"
CLUSTER_ID = "UbD51K15T6amYKCveO_6Iw"


def planned(
    engine: str, *, brokers: int = 3, controllers: int = 1, is_combined: bool = False
) -> ClusterState:
    count = brokers if is_combined else controllers
    return layout.plan(
        "test",
        Path("/nowhere"),
        CLUSTER_ID,
        ServerUser(uid=1500, gid=1500),
        range(9001, 9001 + count + brokers),
        ClusterSpec(
            brokers=brokers,
            disks=2,
            controllers=controllers,
            combined=is_combined,
            engine=Engine.parse(engine),
        ),
    )


def settings(state: ClusterState, number: int) -> dict[str, str]:
    return dict(properties.parse(layout.property_file(state, state.nodes[number])))


def servers(
    state: ClusterState, monkeypatch: pytest.MonkeyPatch, jvm_options: str = ""
) -> KafkaServers:
    monkeypatch.setattr(kafka_servers, "require", lambda _program: None)
    monkeypatch.setattr(kafka_servers, "_jars", lambda _engine: [Path("/jars/kafka.jar")])
    monkeypatch.setattr(class_archive, "options", lambda _jars: [MAPPING])
    monkeypatch.setattr(class_archive, "write", lambda _jars, run: run([WRITING]))
    return KafkaServers(
        spec_of(state).runs,
        brokers=len(state.brokers),
        controllers=state.controllers,
        jvm_options=jvm_options,
    )


def formatted(state: ClusterState, number: int, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    commands: list[tuple[str, ...]] = []

    def run(_failure: str, *command: str, deadline_s: float) -> None:
        del deadline_s
        commands.append(command)

    made = servers(state, monkeypatch)
    monkeypatch.setattr(kafka_servers, "run", run)
    made.format(state.nodes[number], CLUSTER_ID, [])
    *before, command = commands
    assert [WRITING in one for one in before] == [True] * (number == 0)
    assert MAPPING in command
    return command[command.index("format") :]


@pytest.mark.parametrize("release", ["3.7.2", "3.8.1", "3.9.2"])
def test_releases_before_4_0_name_their_voters_in_the_property_file(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = planned(f"kafka:{release}", controllers=3)
    voters = "100@127.0.0.1:9001,101@127.0.0.1:9002,102@127.0.0.1:9003"
    for number in range(len(state.nodes)):
        found = settings(state, number)
        assert found["controller.quorum.voters"] == voters
        assert "controller.quorum.bootstrap.servers" not in found
    assert formatted(state, 0, monkeypatch)[-2:] == ("-c", state.nodes[0].properties_file)


@pytest.mark.parametrize("release", ["4.0.0", "4.1.1", "4.2.1", "4.3.1"])
def test_releases_from_4_0_on_name_their_voters_when_formatted(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = planned(f"kafka:{release}")
    assert settings(state, 1)["controller.quorum.bootstrap.servers"] == "127.0.0.1:9001"
    assert "controller.quorum.voters" not in settings(state, 0)
    assert formatted(state, 0, monkeypatch)[-1] == "--standalone"
    assert formatted(state, 1, monkeypatch)[-1] == "--no-initial-controllers"


def test_several_controllers_are_formatted_with_the_same_voters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = planned("kafka:4.3.1", controllers=3)
    arguments = [formatted(state, number, monkeypatch)[-2:] for number in range(3)]
    assert len(set(arguments)) == 1
    option, voters = arguments[0]
    assert option == "--initial-controllers"
    assert [voter.rsplit(":", 1)[0] for voter in voters.split(",")] == [
        "100@127.0.0.1:9001",
        "101@127.0.0.1:9002",
        "102@127.0.0.1:9003",
    ]
    assert len({directory_of_voter(CLUSTER_ID, one.node_id) for one in state.controllers}) == 3


def test_no_feature_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in ("kafka:3.7.2", "kafka:4.3.1"):
        arguments = formatted(planned(engine), 0, monkeypatch)
        assert not {"--feature", "--release-version", "-r", "-f"} & set(arguments)


def test_combined_nodes_have_both_roles_and_a_port_for_each() -> None:
    state = planned("kafka:4.3.1", is_combined=True)
    assert [node.node_id for node in state.nodes] == [1, 2, 3]
    assert state.controllers == state.brokers
    found = settings(state, 1)
    assert found["process.roles"] == "broker,controller"
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:9005,CONTROLLER://127.0.0.1:9002"
    assert found["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9005"
    assert found["controller.quorum.bootstrap.servers"].split(",")[1] == "127.0.0.1:9002"


def test_settings_of_the_user_come_last() -> None:
    state = planned("kafka:3.9.1")
    text = layout.property_file(state, state.nodes[1], {"min.insync.replicas": "1"})
    assert dict(properties.parse(text))["min.insync.replicas"] == "1"


def test_heaps_of_a_small_cluster_are_larger_than_those_of_a_large_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, large = planned("kafka:4.3.1"), planned("kafka:4.3.1", brokers=6)
    assert "-Xmx384m" in servers(small, monkeypatch).command(small.nodes[1])
    assert MAPPING in servers(small, monkeypatch).command(small.nodes[1])
    assert "-Xmx192m" in servers(small, monkeypatch).command(small.nodes[0])
    assert "-Xmx256m" in servers(large, monkeypatch).command(large.nodes[1])


def test_options_of_the_user_come_after_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    state = planned("kafka:4.3.1")
    command = servers(state, monkeypatch, "-Xmx1g '-Dkey=two words'").command(state.nodes[1])
    assert command.index("-Xmx384m") < command.index("-Xmx1g") < command.index("kafka.Kafka")
    assert "-Dkey=two words" in command


def test_a_collector_of_the_user_replaces_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    state = planned("kafka:4.3.1")
    ours = servers(state, monkeypatch).command(state.nodes[1])
    assert "-XX:+UseSerialGC" in ours
    for option in ("-XX:+UseG1GC", "-XX:+UseZGC", "-XX:+UseParallelGC"):
        command = servers(state, monkeypatch, option).command(state.nodes[1])
        assert "-XX:+UseSerialGC" not in command
        assert option in command


def test_options_with_an_open_quote_are_refused() -> None:
    with pytest.raises(LabError, match=r"JVM options .*quot"):
        KafkaServers(Engine.parse("kafka:4.3.1"), jvm_options="-Dkey='open")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "[ERROR] Failed to execute goal on project jars: Could not resolve: Could not find "
            "artifact org.apache.kafka:kafka_2.13:jar:3.9.99 in central -> [Help 1]\n[ERROR] \n",
            "Could not find artifact org.apache.kafka:kafka_2.13:jar:3.9.99",
        ),
        (
            "\x1b[1;31m[ERROR]\x1b[m Plugin x: Could not transfer artifact x:pom:1 from/to central "
            "(https://repo): transfer failed: Unknown host repo -> [Help 1]\n",
            "Could not transfer artifact x:pom:1 from/to central (https://repo): transfer failed: "
            "Unknown host repo",
        ),
        (
            'Exception in thread "main" a.ConfigException: Invalid value x\n\tat a.b(C.java:1)\n',
            "a.ConfigException: Invalid value x",
        ),
        ("one\ntwo\n", "two"),
        ("", "it says nothing"),
    ],
)
def test_the_reason_of_a_failure_is_one_line(output: str, reason: str) -> None:
    assert reason_in(output) == reason


def test_a_program_that_takes_too_long_is_named_without_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(command: tuple[str, ...], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(LabError, match=r"^it failed: it took longer than 5 s$"):
        kafka_jars.run("it failed", "java", "with", "many", "words", deadline_s=5.0)
