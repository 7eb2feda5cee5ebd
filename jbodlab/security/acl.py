"""Access control entries: who may do what to which resources, from where.

Source: `org.apache.kafka.common.resource`, `org.apache.kafka.common.acl`, KIP-290.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

CLUSTER_NAME = "kafka-cluster"
"""The one name of the resource type CLUSTER."""

WILDCARD = "*"
"""As the name of a resource all of its type, as a host every host."""

USER = "User"
"""The type of principals."""

EVERYBODY = f"{USER}:{WILDCARD}"


class ResourceType(IntEnum):
    """Kinds of resources, under Kafka's names and codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an entry covers names of resources."""

    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What can be done to resources, under Kafka's names and codes."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """What an entry says of whom it matches."""

    DENY = 2
    ALLOW = 3


UNKNOWN, ANY, MATCH = 0, 1, 2
"""Codes that filters have besides; MATCH is a pattern type: what covers the name."""

IMPLIED_BY = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
"""Operations that whoever may do one of others may do as well."""


class AccessControlEntry(NamedTuple):
    """One entry, in the fields of its record; two with equal fields are the same entry."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


def entry_of(record: Any) -> AccessControlEntry:
    """Return the entry in a record, or in another value with the same fields."""
    return AccessControlEntry(*(getattr(record, name) for name in AccessControlEntry._fields))
