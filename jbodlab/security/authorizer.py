"""The one decision on what a client may do, made of access control entries only.

    1. Super users may do everything.
    2. The entries of a resource are those of its type whose pattern covers its name: the name
       itself, `*`, or a prefix of it. If there are none, `allow.everyone.if.no.acl.found` decides.
    3. An entry matches by principal (or `User:*`), host (or `*`) and operation. ALL is every
       operation; what is allowed implies other operations (`IMPLIED_BY`), what is denied does not.
    4. A matching DENY denies, whatever else there is; else a matching ALLOW allows; else nothing.

The entries are kept by type and name, so that a decision looks only at those that cover the name.
Hosts are compared as addresses: every spelling of one is equal, beyond Kafka.

Source: `org.apache.kafka.metadata.authorizer.StandardAuthorizerData`, and
`org.apache.kafka.server.authorizer.Authorizer` for `allows_on_any`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from jbodlab.security.acl import (
    EVERYBODY,
    IMPLIED_BY,
    WILDCARD,
    AccessControlEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

DECISIONS_KEPT = 10_000

ANY_NAME = "hardcode"
"""Kafka asks for a resource of this name where it means any resource of a type."""

Entries = list[AccessControlEntry]


class AuthorizerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of rights in a node's property file.

    Attributes:
        super_users: Principals, as `User:alice`, who may do everything.
        allows_without_acls: Whether everybody may do everything to a resource without entries.
    """

    super_users: frozenset[str] = frozenset()
    allows_without_acls: bool = False


class Authorizer:
    """Decides by the entries of one image; never changes.

    Args:
        entries: All of them.
        settings: Of this node.
    """

    def __init__(self, entries: Iterable[AccessControlEntry], settings: AuthorizerSettings) -> None:
        self._settings = settings
        self._types = {kind: _Patterns() for kind in ResourceType}
        for entry in entries:
            self._types[ResourceType(entry.resource_type)].add(
                entry._replace(host=normal_host(entry.host))
            )
        self.allows = lru_cache(DECISIONS_KEPT)(self._allows)
        """(principal, host, operation, kind, name): whether that is allowed; `_allows`."""

    def _allows(
        self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str
    ) -> bool:
        """Decide.

        Args:
            principal: As `User:alice`.
            host: The address of the client.
            operation: The operation; not ALL.
            kind: Of the resource.
            name: The resource's.
        """
        if principal in self._settings.super_users:
            return True
        found = list(self._types[kind].covering(name))
        if not found:
            return self._settings.allows_without_acls
        return _decided(found, principal, normal_host(host), operation)

    def allows_on_any(
        self, principal: str, host: str, operation: AclOperation, kind: ResourceType
    ) -> bool:
        """Return whether something is allowed to at least one resource of a type."""
        if self.allows(principal, host, operation, kind, ANY_NAME):
            return True
        host = normal_host(host)
        allowed: set[tuple[int, str]] = set()
        denied: set[tuple[int, str]] = set()
        for entry in self._types[kind].all():
            # Operations that others imply do not count here.
            if _is_about(entry, principal, host) and entry.operation in (
                operation,
                AclOperation.ALL,
            ):
                patterns = denied if entry.permission_type == Permission.DENY else allowed
                patterns.add((entry.pattern_type, entry.resource_name))
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        return any(pattern == everything or not _covers(denied, *pattern) for pattern in allowed)

    def operations(
        self,
        principal: str,
        host: str,
        supported: Iterable[AclOperation],
        kind: ResourceType,
        name: str,
    ) -> int:
        """Return what is allowed to a resource, as a set of bits `1 << operation` (KIP-430)."""
        return sum(
            1 << each for each in supported if self.allows(principal, host, each, kind, name)
        )


class _Patterns:
    """The entries of one type of resource, by their patterns."""

    def __init__(self) -> None:
        self._literal: dict[str, Entries] = {}
        self._prefixed: dict[int, dict[str, Entries]] = {}

    def add(self, entry: AccessControlEntry) -> None:
        name = entry.resource_name
        if entry.pattern_type == PatternType.PREFIXED:
            of_name = self._prefixed.setdefault(len(name), {})
        else:
            of_name = self._literal
        of_name.setdefault(name, []).append(entry)

    def covering(self, name: str) -> Iterator[AccessControlEntry]:
        """Return the entries of one resource."""
        yield from self._literal.get(name, ())
        if name != WILDCARD:
            yield from self._literal.get(WILDCARD, ())
        for length, by_prefix in self._prefixed.items():
            if length <= len(name):
                yield from by_prefix.get(name[:length], ())

    def all(self) -> Iterator[AccessControlEntry]:
        for of_name in (self._literal, *self._prefixed.values()):
            for entries in of_name.values():
                yield from entries


def _decided(
    entries: Iterable[AccessControlEntry], principal: str, host: str, operation: AclOperation
) -> bool:
    implied_by = IMPLIED_BY.get(operation, frozenset())
    is_allowed = False
    for entry in entries:
        if not _is_about(entry, principal, host):
            continue
        fits = entry.operation in (operation, AclOperation.ALL)
        if entry.permission_type == Permission.DENY:
            if fits:
                return False
        elif fits or entry.operation in implied_by:
            is_allowed = True
    return is_allowed


def _is_about(entry: AccessControlEntry, principal: str, host: str) -> bool:
    return entry.principal in (principal, EVERYBODY) and entry.host in (host, WILDCARD)


def _covers(denied: set[tuple[int, str]], pattern_type: int, name: str) -> bool:
    """Return whether what is denied leaves nothing of an allowed pattern."""
    if pattern_type == PatternType.LITERAL and (pattern_type, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))


@lru_cache(DECISIONS_KEPT)
def normal_host(text: str) -> str:
    """Return the one spelling of an address: no zone, IPv4 where it stands for one."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        # `*`, or a name, which matches no client.
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)
