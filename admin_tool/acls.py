"""jbodlab acls: who may do what: list, add and remove access control entries."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from jbodlab.cli.output import Output, rows_text
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin.acls import create_acls, delete_acls, describe_acls
from jbodlab.security import acl

if TYPE_CHECKING:
    from jbodlab.cli.results import AclEntry

KINDS = {
    "topic": acl.ResourceType.TOPIC,
    "group": acl.ResourceType.GROUP,
    "transactional-id": acl.ResourceType.TRANSACTIONAL_ID,
}


def _word(code: IntEnum) -> str:
    return code.name.lower().replace("_", "-")


def operation(text: str) -> acl.AclOperation:
    """Return an operation, as an argument's type.

    Raises:
        ArgumentTypeError: there is none of this name.
    """
    known = {_word(each): each for each in acl.AclOperation}
    if text.lower() not in known:
        raise ArgumentTypeError(f"expected one of {', '.join(known)}, got {text!r}")
    return known[text.lower()]


async def list_all(options: Namespace, output: Output) -> int:
    """List access control entries, or those that count for a resource; returns the exit code."""
    async with connected(options) as client:
        found = await describe_acls(client, _wanted(options, acl.MATCH))
    output.rows(_rows(found), "no access control entries")
    return 0


async def add(options: Namespace, output: Output) -> int:
    """Allow or deny operations to a principal; returns the exit code."""
    named = _named(options)
    if named is None:
        raise UsageError("missing --topic, --group, --transactional-id or --cluster-itself")
    pattern = acl.PatternType.PREFIXED if options.prefixed else acl.PatternType.LITERAL
    permission = acl.Permission.DENY if options.deny else acl.Permission.ALLOW
    who = (options.principal, options.host)
    entries = [
        acl.AccessControlEntry(*named, pattern, *who, operation, permission)
        for operation in dict.fromkeys(options.operations)
    ]
    async with connected(options) as client:
        await create_acls(client, entries)
    output.line(rows_text(_rows(entries)))
    return 0


async def remove(options: Namespace, output: Output) -> int:
    """Remove access control entries; returns the exit code."""
    wanted = _wanted(options, acl.ANY)
    if wanted.resource_name is None and wanted.principal is None:
        raise UsageError("missing a resource or --principal")
    async with connected(options) as client:
        found = await describe_acls(client, wanted)
        output.line(rows_text(_rows(found)) or "no access control entries")
        if found:
            output.confirm("remove these entries?", yes=options.yes)
        await delete_acls(client, wanted)
    output.line(f"removed {len(found)}")
    return 0


def _named(options: Namespace) -> tuple[acl.ResourceType, str] | None:
    """Return the resource of a command line; None without one."""
    found = [
        (kind, name)
        for word, kind in KINDS.items()
        if (name := getattr(options, word.replace("-", "_"))) is not None
    ]
    if options.cluster_itself:
        found.append((acl.ResourceType.CLUSTER, acl.CLUSTER_NAME))
    if len(found) > 1:
        raise UsageError("expected one resource")
    return found[0] if found else None


def _wanted(options: Namespace, pattern: int) -> acl.AclFilter:
    """Return a filter; without --prefixed the pattern of a resource is `pattern`."""
    kind, name = _named(options) or (acl.ANY, None)
    pattern = acl.PatternType.PREFIXED if options.prefixed else pattern
    return acl.AclFilter(kind, name, pattern, options.principal, None, acl.ANY, acl.ANY)


def _rows(entries: Iterable[acl.AccessControlEntry]) -> list[AclEntry]:
    return [
        {
            "principal": each.principal,
            "permission": _word(acl.Permission(each.permission_type)),
            "operation": _word(acl.AclOperation(each.operation)),
            "resource": _word(acl.ResourceType(each.resource_type)),
            "name": each.resource_name,
            "pattern": _word(acl.PatternType(each.pattern_type)),
            "host": each.host,
        }
        for each in entries
    ]
