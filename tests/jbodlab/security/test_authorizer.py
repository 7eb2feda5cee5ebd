from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbodlab.security.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from jbodlab.security.authorizer import Authorizer, AuthorizerSettings, normal_host

ALICE, BOB, HOST = "User:alice", "User:bob", "10.0.0.1"
TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


def entry(
    operation: AclOperation,
    name: str = "t1",
    *,
    principal: str = ALICE,
    host: str = "*",
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    kind: ResourceType = TOPIC,
) -> AccessControlEntry:
    return AccessControlEntry(kind, name, pattern, principal, host, operation, permission)


def deny(operation: AclOperation, name: str = "t1", **given: object) -> AccessControlEntry:
    return entry(operation, name, permission=Permission.DENY, **given)  # type: ignore[arg-type]


def may(
    entries: list[AccessControlEntry],
    operation: AclOperation,
    name: str = "t1",
    principal: str = ALICE,
    host: str = HOST,
    *,
    super_users: frozenset[str] = frozenset(),
    allows_without_acls: bool = False,
) -> bool:
    settings = AuthorizerSettings(super_users=super_users, allows_without_acls=allows_without_acls)
    return Authorizer(entries, settings).allows(principal, host, operation, TOPIC, name)


def test_a01_no_acl() -> None:
    assert not may([], READ)
    assert may([], READ, allows_without_acls=True)
    assert not may([entry(READ, principal=BOB)], READ, allows_without_acls=True)


def test_a02_deny_wins() -> None:
    entries = [deny(READ, "*"), entry(READ)]

    for order in permutations(entries):
        assert not may(list(order), READ)
    assert may(entries, READ, super_users=frozenset({ALICE}))


def test_a03_patterns() -> None:
    prefix, literal = entry(READ, "t", pattern=PatternType.PREFIXED), entry(READ, "t1")

    assert [may([prefix], READ, name) for name in ("t", "t1", "t12", "T1")] == [
        True,
        True,
        True,
        False,
    ]
    assert [may([literal], READ, name) for name in ("t", "t1", "t12", "T1")] == [
        False,
        True,
        False,
        False,
    ]
    assert may([entry(READ, "*")], READ, "anything")


def test_a04_implied() -> None:
    supported = tuple(each for each in AclOperation if each is not AclOperation.ALL)
    readers = Authorizer([entry(READ)], AuthorizerSettings())

    assert readers.operations(ALICE, HOST, supported, TOPIC, "t1") == 264
    assert may([entry(READ), deny(DESCRIBE)], READ)
    assert not may([entry(READ), deny(DESCRIBE)], DESCRIBE)
    assert not may([deny(READ), entry(AclOperation.ALL)], READ)
    assert may([deny(READ), entry(AclOperation.ALL)], DESCRIBE)
    assert may([entry(AclOperation.ALTER_CONFIGS)], AclOperation.DESCRIBE_CONFIGS)


@pytest.mark.parametrize(
    ("host", "address", "is_it"),
    [
        ("*", "10.9.8.7", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("fe80::1", "fe80::1%eth0", True),
        ("10.0.0.0/8", "10.0.0.1", False),
    ],
)
def test_hosts_are_compared_as_addresses(host: str, address: str, is_it: bool) -> None:
    assert may([entry(READ, host=host)], READ, host=address) is is_it


def test_an_entry_of_another_type_says_nothing() -> None:
    assert not may([entry(READ, kind=ResourceType.GROUP)], READ)


@pytest.mark.parametrize(
    ("entries", "is_allowed"),
    [
        ([], False),
        ([entry(WRITE, "x")], True),
        ([entry(READ, "x")], False),
        ([entry(WRITE, "x"), deny(WRITE, "*")], False),
        ([entry(WRITE, "x"), deny(WRITE, "x")], False),
        ([entry(WRITE, "xy"), deny(WRITE, "x", pattern=PatternType.PREFIXED)], False),
        ([entry(WRITE, "x"), deny(WRITE, "xy", pattern=PatternType.PREFIXED)], True),
        ([entry(WRITE, "x", pattern=PatternType.PREFIXED), deny(WRITE, "x")], True),
        ([entry(WRITE, "*"), deny(WRITE, "x")], True),
        ([entry(WRITE, "x", principal=BOB)], False),
    ],
)
def test_a_right_on_any_topic_is_one_that_no_denial_covers(
    entries: list[AccessControlEntry], is_allowed: bool
) -> None:
    settings = AuthorizerSettings()

    assert Authorizer(entries, settings).allows_on_any(ALICE, HOST, WRITE, TOPIC) is is_allowed


ENTRIES = st.builds(
    entry,
    st.sampled_from([AclOperation.ALL, READ, WRITE, DESCRIBE]),
    st.sampled_from(["*", "t", "t1", "t12", CLUSTER_NAME]),
    principal=st.sampled_from([ALICE, BOB, "User:*"]),
    host=st.sampled_from(["*", HOST, "10.0.0.2"]),
    permission=st.sampled_from(Permission),
    pattern=st.sampled_from(PatternType),
)


@given(st.lists(ENTRIES), ENTRIES, st.sampled_from([READ, WRITE, DESCRIBE]), st.booleans())
def test_a_denial_more_never_allows_more(
    entries: list[AccessControlEntry],
    more: AccessControlEntry,
    operation: AclOperation,
    without_acls: bool,
) -> None:
    denial = more._replace(permission_type=Permission.DENY)

    before = may(entries, operation, allows_without_acls=without_acls)

    assert before or not may([*entries, denial], operation, allows_without_acls=without_acls)


@given(st.lists(ENTRIES, min_size=1), st.sampled_from([READ, WRITE, DESCRIBE]))
def test_the_order_of_entries_says_nothing(
    entries: list[AccessControlEntry], operation: AclOperation
) -> None:
    assert may(entries, operation) == may(entries[::-1], operation)


def test_a_host_has_one_spelling() -> None:
    assert normal_host("0:0:0:0:0:0:0:1") == normal_host("::1") == "::1"
    assert normal_host("nowhere") == "nowhere"
