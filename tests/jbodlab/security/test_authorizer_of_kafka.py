"""Every decision is the one that Apache Kafka's StandardAuthorizer makes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from jbodlab.security.acl import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from jbodlab.security.authorizer import ANY_NAME, Authorizer, AuthorizerSettings
from tests.kafka.tools import KafkaTools

pytestmark = pytest.mark.kafka

SETS = 10_000
ASKED = 6

NAMES = ["t", "t1", "t12", "T1", "x", "xy", ANY_NAME, "kafka-cluster"]
PREFIXES = ["t", "t1", "x", "h", "k"]
USERS = ["User:alice", "User:bob", "User:carol"]
HOSTS = ["10.0.0.1", "10.0.0.2"]
KINDS = [ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER]
ASKABLE = [each for each in AclOperation if each is not AclOperation.ALL]
OFTEN = [AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL]


def an_entry(random: Random) -> AccessControlEntry:
    pattern = random.choice(list(PatternType))
    names = PREFIXES if pattern is PatternType.PREFIXED else ["*", *NAMES]
    return AccessControlEntry(
        resource_type=random.choice(KINDS),
        resource_name=random.choice(names),
        pattern_type=pattern,
        principal=random.choice([*USERS[:2], "User:*"]),
        host=random.choice(["*", *HOSTS]),
        operation=random.choice([*OFTEN, *AclOperation]),
        permission_type=random.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    )


def sets(random: Random) -> Iterator[tuple[list[str], str]]:
    """Yield the lines for Java, and our answers, of a set of entries."""
    for _ in range(SETS):
        settings = AuthorizerSettings(
            super_users=frozenset(random.sample(USERS, random.choice([0, 0, 0, 1]))),
            allows_without_acls=random.random() < 0.3,
        )
        entries = {an_entry(random) for _ in range(random.randrange(9))}
        authorizer = Authorizer(entries, settings)
        allows = str(settings.allows_without_acls).lower()
        lines = [f"SET\t{';'.join(settings.super_users)}\t{allows}"]
        lines += ["\t".join(["ACL", *(str(part) for part in each)]) for each in entries]
        answers = ""
        for number in range(ASKED):
            who, host = random.choice(USERS), random.choice(HOSTS)
            operation, kind = random.choice([*OFTEN[:3], *ASKABLE]), random.choice(KINDS)
            if number == 0:
                lines.append(f"ANY\t{who}\t{host}\t{int(operation)}\t{int(kind)}")
                is_allowed = authorizer.allows_on_any(who, host, operation, kind)
            else:
                name = random.choice(NAMES)
                lines.append(f"ONE\t{who}\t{host}\t{int(operation)}\t{int(kind)}\t{name}")
                is_allowed = authorizer.allows(who, host, operation, kind, name)
            answers += "01"[is_allowed]
        yield lines, answers


def test_every_decision_is_kafkas(kafka_tools: KafkaTools) -> None:
    made = list(sets(Random(40)))

    done = kafka_tools.run_alone(
        "AuthorizerCalls", text="".join(f"{line}\n" for lines, _ in made for line in lines)
    )

    assert done.code == 0, done.err[-2_000:]
    theirs = done.out.split()[-1]
    assert len(theirs) == SETS * ASKED
    assert {"0", "1"} <= set(theirs)
    for number, (lines, ours) in enumerate(made):
        begin = number * ASKED
        assert ours == theirs[begin : begin + ASKED], lines
