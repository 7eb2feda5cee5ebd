"""jbod-consumer-groups --describe."""

from __future__ import annotations

import sys
from collections.abc import Callable

from admin_tool.errors import RequestError
from admin_tool.group_actions.description import (
    member_table,
    offset_rows,
    offset_table,
    remark,
    state_table,
)
from admin_tool.group_actions.selection import groups_of
from admin_tool.options import Parsed, timeout_ms
from admin_tool.requests import offsets
from admin_tool.requests.connection import Connection, connected
from admin_tool.requests.group_offsets import Committed, fetch_offsets
from admin_tool.requests.groups import GroupDescription, describe_groups
from admin_tool.requests.offsets import PartitionOffset, list_offsets
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition

Show = Callable[[GroupDescription], list[str]]


def run(options: Parsed) -> int:
    """Describe groups; returns the exit code: 1 if one of them cannot be described."""
    code = 0
    with connected(options) as connection:
        wait_ms = timeout_ms(options)
        found = describe_groups(connection, groups_of(connection, options), wait_ms)
        groups = {name: one for name, one in found.items() if isinstance(one, GroupDescription)}
        show = _view(connection, options, groups)
        for name, group in found.items():
            try:
                if isinstance(group, RequestError):
                    raise group
                _print(group, show(group))
            except RequestError as error:
                code = 1
                print(f"\nError: {failure(name, error)}", flush=True)
    return code


def failure(group_id: str, error: RequestError) -> str:
    """Return why a group cannot be described."""
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return f"Consumer group '{group_id}' does not exist."
    return f"Consumer group '{group_id}': {error}"


def _view(connection: Connection, options: Parsed, groups: dict[str, GroupDescription]) -> Show:
    verbose = options.has("verbose")
    if options.has("members"):
        return lambda group: member_table(group, verbose=verbose) if group.members else []
    if options.has("state"):
        addresses = {one.id: f"{one.host}:{one.port}" for one in connection.brokers()}
        return lambda group: state_table(
            group, addresses.get(group.coordinator, "?"), verbose=verbose
        )
    wait_ms = timeout_ms(options)
    committed = fetch_offsets(connection, groups, wait_ms)
    ends = _ends(connection, groups, committed, wait_ms)

    def show(group: GroupDescription) -> list[str]:
        its_own = committed[group.group_id]
        if isinstance(its_own, RequestError):
            raise its_own
        rows = offset_rows(group, its_own, ends)
        return offset_table(group.group_id, rows, verbose=verbose) if rows else []

    return show


def _ends(
    connection: Connection,
    groups: dict[str, GroupDescription],
    committed: dict[str, Committed | RequestError],
    wait_ms: int,
) -> dict[TopicPartition, int]:
    """Return the ends of all partitions in which one of the groups has something to do."""
    wanted: set[TopicPartition] = set()
    for group in groups.values():
        its_own = committed[group.group_id]
        wanted.update({} if isinstance(its_own, RequestError) else its_own)
        wanted.update(*(member.assignment for member in group.members))
    found = list_offsets(connection, dict.fromkeys(wanted, offsets.LATEST), wait_ms)
    return {key: one.offset for key, one in found.items() if isinstance(one, PartitionOffset)}


def _print(group: GroupDescription, table: list[str]) -> None:
    said = remark(group)
    if said is not None:
        print(f"\n{said}", file=sys.stderr, flush=True)
    if table:
        print("\n" + "\n".join(table), flush=True)
