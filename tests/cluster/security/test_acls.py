"""Clients with rights: unchanged libraries, and Kafka's own tool of access control entries."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from lab.cluster import wait_for
from tests.cluster.harness import made
from tests.cluster.lab_cluster import set_property
from tests.cluster.secured import listens_for_logins, served
from tests.command_lines import CommandLines
from tests.kafka.tools import KafkaTools

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("acls")]

DEADLINE_S = 20.0
ACLS = "org.apache.kafka.tools.AclCommand"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = ("root", "alice", "bob")
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Closed:
    """A cluster in which clients may do what entries allow, and root and the brokers everything."""

    def __init__(self, root: Path) -> None:
        self.cluster = made(root, brokers=2, dirs=2, settings={"default.replication.factor": "2"})
        users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
        for node in self.cluster.nodes.values():
            set_property(node, "authorizer.class.name", AUTHORIZER)
            set_property(node, "super.users", "User:ANONYMOUS;User:root")
        self.addresses = listens_for_logins(
            self.cluster,
            **{
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.client.plain.sasl.jaas.config": f"{JAAS} {users};",
            },
        )

    def client(self, user: str, **more: Any) -> dict[str, Any]:
        """Settings of librdkafka."""
        return {
            "bootstrap.servers": ",".join(self.addresses),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
            **more,
        }

    def command_config(self, folder: Path, user: str) -> Path:
        """A file for Kafka's tools."""
        file = folder / f"{user}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={JAAS} username="{user}" password="{user}-secret";\n'
        )
        return file

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self.client("root"))

    def create(self, *names: str) -> None:
        topics = [NewTopic(name, 1, 2) for name in names]
        for result in self.admin.create_topics(topics).values():
            result.result(DEADLINE_S)

    def allow(self, *bindings: AclBinding) -> None:
        for result in self.admin.create_acls(list(bindings)).values():
            result.result(DEADLINE_S)


@pytest.fixture(scope="module")
def closed() -> Iterator[Closed]:
    with served(Closed) as closed:
        yield closed


def binding(
    name: str,
    operation: AclOperation,
    kind: ResourceType = ResourceType.TOPIC,
    user: str = "alice",
) -> AclBinding:
    return AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def every(name: str) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY,
        name,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def sent(config: dict[str, Any], topic: str) -> int:
    """The code with which one record is answered; 0 where it is appended."""
    codes: list[int] = []
    producer = Producer({**config, "message.timeout.ms": "10000"})
    producer.produce(
        topic,
        b"value",
        on_delivery=lambda error, _: codes.append(0 if error is None else error.code()),
    )
    producer.flush(DEADLINE_S)
    (code,) = codes
    return code


def test_a_client_does_what_it_is_allowed_and_nothing_else(closed: Closed) -> None:
    closed.create("mine", "theirs")
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED

    assert sent(closed.client("alice"), "mine") == denied
    closed.allow(
        binding("mine", AclOperation.WRITE),
        binding("mine", AclOperation.READ),
        binding("readers", AclOperation.READ, ResourceType.GROUP),
    )
    assert sent(closed.client("alice"), "mine") == 0
    assert sent(closed.client("alice"), "theirs") == denied
    assert sent(closed.client("bob"), "mine") == denied
    seen = AdminClient(closed.client("alice")).list_topics(timeout=DEADLINE_S).topics
    assert set(seen) == {"mine"}

    consumer = Consumer(
        closed.client("alice", **{"group.id": "readers", "auto.offset.reset": "earliest"})
    )
    consumer.subscribe(["mine"])
    wait_for("the record", lambda: consumer.poll(0.5) is not None, DEADLINE_S)
    consumer.close()

    other = Consumer(closed.client("alice", **{"group.id": "others"}))
    other.subscribe(["mine"])
    codes: list[int] = []

    def is_refused() -> bool:
        message = other.poll(0.5)
        if message is not None and message.error():
            codes.append(message.error().code())
        return KafkaError.GROUP_AUTHORIZATION_FAILED in codes

    wait_for("the group to be refused", is_refused, DEADLINE_S)
    other.close()


def test_a_client_without_rights_changes_nothing(closed: Closed) -> None:
    bob = AdminClient(closed.client("bob"))

    results = (
        *bob.create_topics([NewTopic("bobs", 1, 2)]).values(),
        *bob.create_acls([binding("bobs", AclOperation.ALL, user="bob")]).values(),
    )
    for result, code in zip(
        results,
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        ),
        strict=True,
    ):
        with pytest.raises(KafkaException) as raised:
            result.result(DEADLINE_S)
        assert raised.value.args[0].code() == code
    assert "bobs" not in closed.admin.list_topics(timeout=DEADLINE_S).topics
    assert closed.admin.describe_acls(every("bobs")).result(DEADLINE_S) == []


def test_a09_acl_deleted(closed: Closed) -> None:
    """A producer is refused within a second after the answer, on the same connection."""
    closed.create("ending")
    closed.allow(binding("ending", AclOperation.WRITE))
    codes: list[int] = []
    producer = Producer(closed.client("alice", **{"linger.ms": 0}))

    def send() -> int:
        try:
            producer.produce(
                "ending",
                b"value",
                on_delivery=lambda error, _: codes.append(0 if error is None else error.code()),
            )
        except KafkaException as error:
            # It has heard so already, in the metadata.
            codes.append(error.args[0].code())
        producer.flush(DEADLINE_S)
        return codes[-1]

    wait_for("the right to have come", lambda: send() == 0, DEADLINE_S)
    for result in closed.admin.delete_acls([every("ending")]).values():
        assert len(result.result(DEADLINE_S)) == 1
    answered_s = time.monotonic()
    wait_for("the refusal", lambda: send() != 0, DEADLINE_S)
    assert time.monotonic() - answered_s < 1.0
    assert codes[-1] == KafkaError.TOPIC_AUTHORIZATION_FAILED
    closed.allow(binding("ending", AclOperation.WRITE))
    wait_for("the right to be back", lambda: send() == 0, DEADLINE_S)


@pytest.mark.kafka
def test_kafka_acls_adds_lists_and_removes(
    closed: Closed, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    def run(*arguments: str, user: str = "root", code: int = 0) -> str:
        done = kafka_tools.run(
            ACLS,
            "--bootstrap-server",
            closed.addresses[0],
            "--command-config",
            closed.command_config(tmp_path, user),
            *arguments,
        )
        assert done.code == code, done.out + done.err
        return done.out

    topic = ("--topic", "tools", "--resource-pattern-type", "prefixed")
    run("--add", "--allow-principal", "User:bob", "--producer", *topic)
    run(
        "--add",
        "--deny-principal",
        "User:bob",
        "--deny-host",
        "10.0.0.1",
        "--operation",
        "All",
        *topic,
    )

    listed = run("--list", "--topic", "tools-1", "--resource-pattern-type", "match")

    for words in (
        "ResourcePattern(resourceType=TOPIC, name=tools, patternType=PREFIXED)",
        "(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)",
        "(principal=User:bob, host=*, operation=DESCRIBE, permissionType=ALLOW)",
        "(principal=User:bob, host=*, operation=CREATE, permissionType=ALLOW)",
        "(principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY)",
    ):
        assert words in listed
    assert sent(closed.client("bob"), "tools-1") == 0
    run("--remove", "--force", *topic)
    assert "tools" not in run("--list", "--topic", "tools-1", "--resource-pattern-type", "match")
    assert "Cluster authorization failed" in run("--list", user="bob", code=1)


def test_our_own_commands_add_list_and_remove(closed: Closed) -> None:
    """By the listener of the brokers, whose clients may do everything."""
    here = CommandLines(closed.cluster.bootstrap)

    def rows(line: str) -> list[dict[str, str]]:
        done = here.run(f"{line} --output json")
        assert done.code == 0, done.err
        found: list[dict[str, str]] = json.loads(done.out)
        return found

    closed.create("own-1")
    assert rows("acls list --topic own-1") == []
    assert here.run("acls add User:bob read write --topic own --prefixed").code == 0
    assert here.run("acls add User:bob all --deny --topic own-1 --host 10.0.0.1").code == 0
    found = rows("acls list --topic own-1")
    assert {(each["permission"], each["operation"], each["pattern"]) for each in found} == {
        ("allow", "read", "prefixed"),
        ("allow", "write", "prefixed"),
        ("deny", "all", "literal"),
    }
    assert sent(closed.client("bob"), "own-1") == 0
    assert here.run("acls remove --topic own --prefixed --yes").out.endswith("removed 2\n")
    assert [each["operation"] for each in rows("acls list --principal User:bob")] == ["all"]
    assert here.run("acls remove --principal User:bob --yes").code == 0

    done = here.run("acls add alice read --topic own")
    assert (done.code, "Could not parse principal" in done.err) == (1, True)
    assert here.run("acls add User:bob read").code == 2
    assert here.run("acls remove").code == 2

    assert here.run("users add dora", text="dora-secret\r\n").code == 0
    assert rows("users list") == [
        {"user": "dora", "mechanism": "SCRAM-SHA-512", "iterations": 4096}
    ]
    assert here.run("users remove dora --yes").code == 0
    assert rows("users list") == []
    assert here.run("users remove dora --yes").code == 1
    assert here.run("users add dora", text="").code == 1
