"""Clients with rights: unchanged libraries, Kafka's own tool of entries, and our commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab.cluster import wait_for
from lab.cluster.security import client_files
from lab.testing.clusters import Cluster
from tests.command_lines import Done, run
from tests.kafka.tools import KafkaTools

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("closed-clusters")]

DEADLINE_S = 20.0
ACLS = "org.apache.kafka.tools.AclCommand"
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED
OF_MALLORY = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    "User:mallory",
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@contextmanager
def allowed(closed: Cluster, *rights: tuple[AclOperation, ResourceType, str]) -> Iterator[None]:
    """Give rights to mallory, who has none."""
    admin = AdminClient(closed.client_config("librdkafka", "admin"))
    of_name, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    bindings = [
        AclBinding(kind, name, of_name, "User:mallory", "*", operation, allow)
        for operation, kind, name in rights
    ]
    for result in admin.create_acls(bindings).values():
        result.result(DEADLINE_S)
    yield
    for deleted in admin.delete_acls([OF_MALLORY]).values():
        assert len(deleted.result(DEADLINE_S)) == len(rights)


def sent(closed: Cluster, topic: str) -> int:
    """The code with which a record of mallory is answered; 0 where it is appended."""
    codes: list[int] = []
    config = closed.client_config("librdkafka", "mallory")
    producer = Producer({**config, "message.timeout.ms": "10000", "log_level": 0})
    producer.produce(
        topic,
        b"value",
        on_delivery=lambda error, _: codes.append(0 if error is None else error.code()),
    )
    producer.flush(DEADLINE_S)
    (code,) = codes
    return code


def consumed(closed: Cluster, topic: str, group: str) -> Any:
    """The first record that mallory consumes, or the code of the error that refuses the group."""
    config = {"group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({**closed.client_config("librdkafka", "mallory"), **config})
    consumer.subscribe([topic])
    found: list[Any] = []

    def has_come() -> bool:
        message = consumer.poll(0.5)
        if message is not None:
            found.append(message.error().code() if message.error() else message.value())
        return bool(found)

    wait_for("a record or an error", has_come, DEADLINE_S)
    consumer.close()
    return found[0]


def test_a_client_does_what_it_is_allowed_and_nothing_else(closed: Cluster) -> None:
    mine, theirs = closed.new_topic(), closed.new_topic()
    assert sent(closed, mine) == DENIED

    with allowed(
        closed,
        (AclOperation.WRITE, ResourceType.TOPIC, mine),
        (AclOperation.READ, ResourceType.TOPIC, mine),
        (AclOperation.READ, ResourceType.GROUP, "readers"),
    ):
        assert sent(closed, mine) == 0
        assert sent(closed, theirs) == DENIED
        mallory = AdminClient(closed.client_config("librdkafka", "mallory"))
        assert set(mallory.list_topics(timeout=DEADLINE_S).topics) == {mine}
        assert consumed(closed, mine, "readers") == b"value"
        assert consumed(closed, mine, "others") == KafkaError.GROUP_AUTHORIZATION_FAILED

    assert sent(closed, mine) == DENIED


@pytest.mark.kafka
def test_kafka_acls_adds_lists_and_removes(closed: Cluster, kafka_tools: KafkaTools) -> None:
    def tool(*arguments: str, user: str = "admin", code: int = 0) -> str:
        file = client_files(closed.inner.state, user)["java"]
        there = ("--bootstrap-server", closed.bootstrap, "--command-config", file)
        done = kafka_tools.run(ACLS, *there, *arguments)
        assert done.code == code, done.out + done.err
        return done.out

    closed.new_topic(name="tools-1")
    topic = ("--topic", "tools", "--resource-pattern-type", "prefixed")
    tool("--add", "--allow-principal", "User:mallory", "--producer", *topic)
    denied = ("--deny-principal", "User:mallory", "--deny-host", "10.0.0.1", "--operation", "All")
    tool("--add", *denied, *topic)

    listed = tool("--list", "--topic", "tools-1", "--resource-pattern-type", "match")

    for words in (
        "ResourcePattern(resourceType=TOPIC, name=tools, patternType=PREFIXED)",
        "(principal=User:mallory, host=*, operation=WRITE, permissionType=ALLOW)",
        "(principal=User:mallory, host=*, operation=DESCRIBE, permissionType=ALLOW)",
        "(principal=User:mallory, host=*, operation=CREATE, permissionType=ALLOW)",
        "(principal=User:mallory, host=10.0.0.1, operation=ALL, permissionType=DENY)",
    ):
        assert words in listed
    assert sent(closed, "tools-1") == 0
    tool("--remove", "--force", *topic)
    assert "name=tools," not in tool("--list", "--topic", "tools-1")
    assert "Cluster authorization failed" in tool("--list", user="mallory", code=1)


def test_our_own_commands_add_list_and_remove(closed: Cluster) -> None:
    file = client_files(closed.inner.state, "admin")["java"]
    there = ("--bootstrap-server", closed.bootstrap, "--command-config", file)

    def here(line: str, text: str = "") -> Done:
        return run([*line.split(), *there], text)

    def rows(line: str) -> list[dict[str, str]]:
        done = here(f"{line} --output json")
        assert done.code == 0, done.err
        found: list[dict[str, str]] = json.loads(done.out)
        return found

    closed.new_topic(name="own-1")
    before = rows("acls list --topic own-1")
    assert here("acls add User:mallory read write --topic own --prefixed").code == 0
    assert here("acls add User:mallory all --deny --topic own-1 --host 10.0.0.1").code == 0
    found = [each for each in rows("acls list --topic own-1") if each not in before]
    assert {(each["permission"], each["operation"], each["pattern"]) for each in found} == {
        ("allow", "read", "prefixed"),
        ("allow", "write", "prefixed"),
        ("deny", "all", "literal"),
    }
    assert sent(closed, "own-1") == 0
    assert here("acls remove --topic own --prefixed --yes").out.endswith("removed 2\n")
    assert [each["operation"] for each in rows("acls list --principal User:mallory")] == ["all"]
    assert here("acls remove --principal User:mallory --yes").code == 0

    done = here("acls add alice read --topic own")
    assert (done.code, "Could not parse principal" in done.err) == (1, True)
    assert here("acls add User:mallory read").code == 2
    assert here("acls remove").code == 2

    others = rows("users list")
    assert here("users add dora", text="dora-secret\r\n").code == 0
    assert [each for each in rows("users list") if each not in others] == [
        {"user": "dora", "mechanism": "SCRAM-SHA-512", "iterations": 4096}
    ]
    assert here("users remove dora --yes").code == 0
    assert rows("users list") == others
    assert here("users remove dora --yes").code == 1
    assert here("users add dora", text="").code == 1
