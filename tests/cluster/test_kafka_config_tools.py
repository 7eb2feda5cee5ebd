"""Apache Kafka's own tools for configs on this cluster, where Maven can fetch them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from jbodlab.vocabulary.ids import BrokerId
from tests.cluster.harness import directory_id, wait_for
from tests.cluster.scenes import Scene, Stage
from tests.kafka.tools import CONFIGS, TOPICS, KafkaTools

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

Tool = Callable[..., tuple[int, str]]


@pytest.fixture
def scene(stage: Stage) -> Iterator[Scene]:
    with stage.scene() as scene:
        yield scene


@pytest.fixture
def tool(scene: Scene, kafka_tools: KafkaTools) -> Tool:
    def run(name: str, *arguments: str) -> tuple[int, str]:
        done = kafka_tools.run(name, "--bootstrap-server", scene.cluster.bootstrap, *arguments)
        return done.code, done.out + done.err

    return run


def wait_shown(tool: Tool, *arguments: str, shown: Sequence[str], gone: Sequence[str] = ()) -> None:
    """Wait until a tool shows what it should: any broker may answer it, also one that has not heard
    yet of what another one passed on.
    """
    found: list[str] = []

    def is_right() -> bool:
        code, out = tool(*arguments)
        assert code == 0, out
        found[:] = [out]
        return all(each in out for each in shown) and not any(each in out for each in gone)

    wait_for(f"{shown} and not {gone}", is_right, last_seen=lambda: found)


def test_topic_configs_are_changed_and_shown(scene: Scene, tool: Tool) -> None:
    scene.create("shown", 2, 2, retention_ms="70000")
    entity = ("--entity-type", "topics", "--entity-name", "shown")
    changes = "max.message.bytes=5000,leader.replication.throttled.replicas=[0:1,1:2]"
    code, out = tool(
        CONFIGS,
        *(*entity, "--alter", "--add-config", changes, "--delete-config", "retention.ms"),
    )
    assert (code, out.strip()) == (0, "Completed updating config for topic shown.")
    changed = "max.message.bytes=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
    throttled = "leader.replication.throttled.replicas=0:1,1:2 "
    describe = (CONFIGS, *entity, "--describe")
    wait_shown(tool, *describe, shown=(changed, throttled), gone=("retention.ms=",))
    describe = (TOPICS, "--describe", "--topic", "shown")
    wait_shown(tool, *describe, shown=("PartitionCount: 2", "max.message.bytes=5000"))
    code, out = tool(CONFIGS, *entity, "--alter", "--add-config", "nope=1")
    assert code == 1
    assert "Unknown topic config name: nope" in out


def test_directories_are_cordoned_and_brokers_configured(scene: Scene, tool: Tool) -> None:
    cluster = scene.cluster
    closed = cluster.broker(1).paths[0]
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    default = ("--entity-type", "brokers", "--entity-default")
    add = ("--alter", "--add-config")
    code, out = tool(CONFIGS, *entity, *add, f"cordoned.log.dirs={closed}")
    assert (code, out.strip()) == (0, "Completed updating config for broker 1.")
    registered = cluster.image().cluster.brokers[BrokerId(1)]
    assert registered.cordoned_directories == (directory_id(closed),)
    code, out = tool(CONFIGS, *default, *add, "log.retention.ms=99999999")
    assert code == 0
    described = (CONFIGS, "--entity-type", "brokers", "--describe")
    cordoned = f"cordoned.log.dirs={closed} sensitive=false"
    retained = "synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=99999999}"
    wait_shown(tool, *described, shown=(cordoned, retained))
    code, out = tool(CONFIGS, *entity, "--alter", "--delete-config", "cordoned.log.dirs")
    assert code == 0
    assert cluster.image().cluster.brokers[BrokerId(1)].cordoned_directories == ()
    code, out = tool(CONFIGS, *entity, *add, "node.id=7")
    assert code == 1
    assert "Cannot update these configs dynamically: node.id" in out
    code, out = tool(CONFIGS, *default, "--alter", "--delete-config", "log.retention.ms")
    assert code == 0
    wait_shown(tool, *described, shown=(), gone=("log.retention.ms=99999999",))


def test_quotas_of_clients_are_kept_told_and_removed(scene: Scene, tool: Tool) -> None:
    def alter(*arguments: str) -> None:
        code, out = tool(CONFIGS, "--alter", *arguments)
        assert (code, "Completed updating" in out) == (0, True), out

    def remove(*arguments: str) -> None:
        # The tool looks first what there is, at any broker, and that may not have heard of it yet.
        def is_removed() -> bool:
            code, out = tool(CONFIGS, "--alter", *arguments)
            assert code == 0 or "Invalid config(s)" in out, out
            return code == 0

        wait_for(f"removal of {arguments}", is_removed)

    def described(*kinds: str) -> list[str]:
        which = [word for kind in kinds for word in ("--entity-type", kind)]
        code, out = tool(CONFIGS, "--describe", *which)
        assert code == 0, out
        return sorted(line for line in out.splitlines() if line)

    def wait_described(kinds: tuple[str, ...], wanted: list[str]) -> None:
        # The broker that is asked may hear of a change later than the one that passed it on.
        wait_for(
            f"quotas of {kinds} as wanted",
            lambda: described(*kinds) == wanted,
            last_seen=lambda: (wanted, described(*kinds)),
        )

    client = ("--entity-type", "clients", "--entity-name", "c1")
    quotas = "consumer_byte_rate=5000000,request_percentage=200"
    alter("--client-defaults", "--add-config", "producer_byte_rate=100000000")
    alter(*client, "--add-config", quotas)
    user = ("--entity-type", "users", "--entity-name", "u1")
    default_client = ("--entity-type", "clients", "--entity-default")
    alter(*user, *default_client, "--add-config", "consumer_byte_rate=5000001")
    # As Apache Kafka 4.3.1 prints them.
    default = "Quota configs for the default client-id are producer_byte_rate=1.0E8"
    of_c1 = "Quota configs for client-id 'c1' are"
    both = sorted((default, f"{of_c1} consumer_byte_rate=5000000.0, request_percentage=200.0"))
    wait_described(("clients",), both)
    of_u1 = "Quota configs for user-principal 'u1', the default client-id are "
    wait_described(("users", "clients"), [f"{of_u1}consumer_byte_rate=5000001.0"])

    scene.bounce_controller(kill=True)
    remove(*client, "--delete-config", "consumer_byte_rate")
    wait_described(("clients",), sorted((default, f"{of_c1} request_percentage=200.0")))

    code, out = tool(CONFIGS, "--alter", *client, "--add-config", "connection_creation_rate=5")
    assert code == 1
    assert "connection_creation_rate" in out
    address = ("--entity-type", "ips", "--entity-name", "10.9.8.7")
    alter(*address, "--add-config", "connection_creation_rate=20")
    alter("--ip-defaults", "--add-config", "connection_creation_rate=30000")
    wait_described(
        ("ips",),
        [
            "Quota configs for ip '10.9.8.7' are connection_creation_rate=20.0",
            "Quota configs for the default ip are connection_creation_rate=30000.0",
        ],
    )
    remove(*address, "--delete-config", "connection_creation_rate")
    remove("--ip-defaults", "--delete-config", "connection_creation_rate")
    wait_described(("ips",), [])

    remove(*client, "--delete-config", "request_percentage")
    remove("--client-defaults", "--delete-config", "producer_byte_rate")
    remove(*user, *default_client, "--delete-config", "consumer_byte_rate")
    wait_described(("clients",), [])
    wait_described(("users", "clients"), [])


def test_who_creates_too_many_topics_is_refused_until_its_quota_allows_it(
    scene: Scene, tool: Tool, tmp_path: Path
) -> None:
    client = ("--entity-type", "clients", "--entity-name", "eager")
    code, out = tool(CONFIGS, "--alter", *client, "--add-config", "controller_mutation_rate=1")
    assert code == 0, out
    properties = tmp_path / "eager.properties"
    properties.write_text("client.id=eager\n")

    def create(name: str, partitions: int) -> tuple[int, str]:
        wanted = ("--topic", name, "--partitions", partitions, "--replication-factor", 1)
        return tool(TOPICS, "--create", "--command-config", properties, *wanted)

    code, out = create("eager-1", 60)
    assert code == 0, out
    code, out = create("eager-2", 1)
    assert code == 1
    assert "controller_mutation_rate" in out or "throttl" in out.lower(), out
    assert "eager-2" not in scene.cluster.image().topics.by_name
    code, out = tool(CONFIGS, "--alter", *client, "--delete-config", "controller_mutation_rate")
    assert code == 0, out
    code, out = create("eager-2", 1)
    assert code == 0, out
    scene.delete("eager-1", "eager-2")
