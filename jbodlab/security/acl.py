"""Access control entries: who may do what to which resources, from where.

Source: `org.apache.kafka.common.resource`, `org.apache.kafka.common.acl`, KIP-290.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

CLUSTER_NAME = "kafka-cluster"
"""The one name of the resource type CLUSTER."""

WILDCARD = "*"
"""As the name of a resource all of its type, as a host every host."""

NAME_MAX, PRINCIPAL_MAX, HOST_MAX = 249, 1_024, 64
"""Most characters of an entry's texts; beyond Kafka."""

ENTRIES_MAX = 10_000
"""Most entries of a cluster; beyond Kafka."""

USER = "User"
"""The type of principals."""

ANONYMOUS = "ANONYMOUS"
"""The user of a client that has neither logged in nor shown a certificate."""

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
    """Operations on resources, under Kafka's names and codes."""

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
    """Effect of an entry on those that it matches."""

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


class AclFilter(NamedTuple):
    """Conditions for entries; None, and the code ANY, is anything.

    Attributes:
        pattern_type: MATCH is every pattern that covers `resource_name`.
    """

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @property
    def is_known(self) -> bool:
        """Whether every code of the filter means something."""
        return (
            _is_code(ResourceType, self.resource_type, ANY)
            and _is_code(PatternType, self.pattern_type, ANY, MATCH)
            and _is_code(AclOperation, self.operation, ANY)
            and _is_code(Permission, self.permission_type, ANY)
        )

    def matches(self, entry: AccessControlEntry) -> bool:
        """Return whether an entry is wanted."""
        return (
            self.resource_type in (ANY, entry.resource_type)
            and self.pattern_type in (ANY, MATCH, entry.pattern_type)
            and self._names(entry)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (ANY, entry.operation)
            and self.permission_type in (ANY, entry.permission_type)
        )

    def _names(self, entry: AccessControlEntry) -> bool:
        name = self.resource_name
        if name is None or name == entry.resource_name:
            return True
        if self.pattern_type != MATCH:
            return False
        if entry.pattern_type == PatternType.PREFIXED:
            return name.startswith(entry.resource_name)
        return entry.resource_name == WILDCARD


def _is_code(kind: type[IntEnum], code: int, *others: int) -> bool:
    return code in others or code in kind._value2member_map_


def doubts(entry: AccessControlEntry) -> Iterator[str]:
    """Yield what is wrong with an entry that a client wants to be written."""
    codes = (
        (ResourceType, "resourceType", entry.resource_type),
        (PatternType, "patternType", entry.pattern_type),
        (AclOperation, "operation", entry.operation),
        (Permission, "permissionType", entry.permission_type),
    )
    for kind, word, code in codes:
        if not _is_code(kind, code):
            yield f"Invalid {word} {code}"
    if not entry.resource_name:
        yield "Resource name should not be empty"
    if entry.resource_type == ResourceType.CLUSTER and entry.resource_name != CLUSTER_NAME:
        yield f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if ":" not in entry.principal:
        yield f"Could not parse principal from `{entry.principal}`: expected type:name"
    if not entry.host:
        yield "Host should not be empty"
    for word, text, limit in (
        ("resource name", entry.resource_name, NAME_MAX),
        ("principal", entry.principal, PRINCIPAL_MAX),
        ("host", entry.host, HOST_MAX),
    ):
        if len(text) > limit:
            yield f"a {word} of {len(text)} characters, expected at most {limit}"
