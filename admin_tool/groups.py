"""jbodlab groups: which there are, how far they are, and setting or deleting their offsets.

Reset and delete leave groups with members alone: their offsets would be lost, or they would commit
over the new ones.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from admin_tool.errors import unknown
from admin_tool.offsets import A_TIME, partitions_of, read_time
from jbodlab.cli.output import Output, counted, place, rows_text, table
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin.errors import AdminError, RequestError
from jbodlab.kafka_admin.groups import (
    Group,
    commit_offsets,
    committed_offsets,
    delete_group,
    describe_group,
    list_groups,
)
from jbodlab.kafka_admin.offsets import EARLIEST, LATEST, Offset, list_offsets
from jbodlab.kafka_admin.topics import list_topics
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.cli.results import (
        DescribedGroup,
        GroupMember,
        GroupOffset,
        ListedGroup,
        ResetOffset,
    )
    from jbodlab.kafka_admin.client import AdminClient

_COLUMNS = ("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "MEMBER", "HOST")
_SHIFT = re.compile(r"[+-]\d+")

Offsets = Mapping[TopicPartition, int]
Target = tuple[str, int]
"""`earliest` or `latest` and 0, or `offset`, `shift` or `time` and their number."""


async def list_all(options: Namespace, output: Output) -> int:
    """List groups and their states; returns the exit code."""
    async with connected(options) as client:
        found, failures = await list_groups(client)
    rows: list[ListedGroup] = [
        {"group": one.group, "type": one.type, "state": one.state} for one in found
    ]
    output.rows(rows, "no groups")
    for failure in failures:
        output.note(f"groups may be missing: {failure}")
    return int(bool(failures))


async def describe(options: Namespace, output: Output) -> int:
    """Show members, offsets and lag of groups; returns the exit code."""
    shown: list[DescribedGroup] = []
    names = list(dict.fromkeys(options.groups))
    async with connected(options) as client:
        for name in names:
            try:
                group = await _described(client, name)
                shown.append(await _value(client, group, await _committed(client, name)))
            except AdminError as error:
                output.note(str(error))
    output.result(shown, "\n\n".join(map(_text, shown)))
    return int(len(shown) < len(names))


async def reset(options: Namespace, output: Output) -> int:
    """Set the offsets of a group without members; returns the exit code."""
    target = read_target(options.to)
    async with connected(options) as client:
        counts = {one.name: one.partitions for one in await list_topics(client)}
        numbers = partitions_of(counts, options.topic, options.partition)
        wanted = [TopicPartition(options.topic, one) for one in numbers]
        is_there = await _is_empty(client, options.group)
        old = await _committed(client, options.group) if is_there else {}
        starts, ends = [await _offsets(client, wanted, when) for when in (EARLIEST, LATEST)]
        found = await _offsets(client, wanted, target[1]) if target[0] == "time" else ends
        new = planned(target, old, starts, ends, found)
        if not new:
            raise AdminError(f"group {options.group!r} has no committed offset to shift")
        rows: list[ResetOffset] = [
            {**place(one), "old_offset": old.get(one), "new_offset": offset}
            for one, offset in new.items()
        ]
        if not output.is_json:
            output.line(rows_text(rows))
        if options.dry_run:
            output.note("dry run: nothing was changed")
        else:
            what = "set" if is_there else "it does not exist: create it with"
            question = f"group {options.group}: {what} {counted(len(rows), 'offset')}?"
            output.confirm(question, yes=options.yes)
            try:
                await commit_offsets(client, options.group, new)
            except RequestError as error:
                what = f"cannot set the offsets of group {options.group!r}"
                raise AdminError(f"{what}: {error}") from error
    output.result(rows, "")
    return 0


async def delete(options: Namespace, output: Output) -> int:
    """Delete groups without members, and their offsets; returns the exit code."""
    names = list(dict.fromkeys(options.groups))
    code = 0
    async with connected(options) as client:
        for name in names:
            if not await _is_empty(client, name):
                raise await _unknown(client, name)
        output.confirm(f"delete group {', '.join(names)}?", yes=options.yes)
        for name in names:
            try:
                await delete_group(client, name)
            except AdminError as error:
                code = 1
                output.note(f"cannot delete group {name!r}: {error}")
            else:
                output.line(f"deleted group {name}")
    return code


def read_target(text: str) -> Target:
    """Read the value of `--to`.

    Raises:
        UsageError: it says nothing that an offset can be set to.
    """
    if text in ("earliest", "latest"):
        return text, 0
    if _SHIFT.fullmatch(text):
        return "shift", int(text)
    if text.isascii() and text.isdecimal():
        return "offset", int(text)
    time_ms = read_time(text)
    if time_ms is None:
        expected = f"earliest, latest, an offset, +N, -N or {A_TIME}"
        raise UsageError(f"--to: expected {expected}, got {text!r}")
    return "time", time_ms


def planned(
    target: Target, old: Offsets, starts: Offsets, ends: Offsets, found: Offsets
) -> dict[TopicPartition, int]:
    """Return the new offsets; one outside the log becomes the nearest inside.

    Args:
        target: Where the offsets go; a shift leaves out what has no committed offset.
        old: Committed offsets.
        starts: Offsets of the first records.
        ends: Offsets behind the last records.
        found: For a time, the offset of the first record since then, -1 where there is none.
    """
    kind, number = target
    goals: Offsets = {
        "earliest": starts,
        "latest": ends,
        "offset": dict.fromkeys(ends, number),
        "shift": {one: old[one] + number for one in ends if one in old},
        "time": {one: ends[one] if offset < 0 else offset for one, offset in found.items()},
    }[kind]
    return {one: min(max(offset, starts[one]), ends[one]) for one, offset in goals.items()}


async def _found(client: AdminClient, name: str) -> Group | None:
    """Return a group; None where it does not exist."""
    try:
        return await describe_group(client, name)
    except AdminError as error:
        raise AdminError(f"cannot describe group {name!r}: {error}") from error


async def _described(client: AdminClient, name: str) -> Group:
    """Return a group that has to exist."""
    found = await _found(client, name)
    if found is None:
        raise await _unknown(client, name)
    return found


async def _unknown(client: AdminClient, name: str) -> AdminError:
    return unknown("group", name, [one.group for one in (await list_groups(client))[0]])


async def _is_empty(client: AdminClient, name: str) -> bool:
    """Insist that a group has no members; returns whether it exists."""
    group = await _found(client, name)
    if group is not None and group.members:
        members = counted(len(group.members), "member")
        raise AdminError(f"group {name!r} has {members} ({group.state}): stop them first")
    return group is not None


async def _committed(client: AdminClient, name: str) -> Offsets:
    try:
        return await committed_offsets(client, name)
    except AdminError as error:
        raise AdminError(f"cannot get the offsets of group {name!r}: {error}") from error


async def _offsets(client: AdminClient, wanted: list[TopicPartition], when: int) -> Offsets:
    found = {}
    for one, answer in (await list_offsets(client, wanted, when)).items():
        if isinstance(answer, AdminError):
            raise AdminError(f"cannot get the offset of {one}: {answer}")
        found[one] = answer.offset
    return found


async def _value(client: AdminClient, group: Group, offsets: Offsets) -> DescribedGroup:
    owners = {one: member.member_id for member in group.members for one in member.partitions}
    rows: list[GroupOffset] = []
    places = sorted(owners.keys() | offsets.keys())
    for one, found in (await list_offsets(client, places, LATEST)).items():
        offset = offsets.get(one)
        end = found.offset if isinstance(found, Offset) else None
        lag = None if offset is None or end is None else end - offset
        owner = owners.get(one)
        rows.append(
            {**place(one), "offset": offset, "end_offset": end, "lag": lag, "member": owner}
        )
    members: list[GroupMember] = [
        {
            "member": one.member_id,
            "instance": one.instance,
            "client": one.client_id,
            "host": one.host,
            "partitions": [place(each) for each in one.partitions],
        }
        for one in group.members
    ]
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": members,
        "offsets": rows,
    }


def _text(value: DescribedGroup) -> str:
    """Return the value of a group as a person reads it."""
    members = value["members"]
    lines = [
        f"group {value['group']}: {value['state']}, {counted(len(members), 'member')}, "
        f"coordinator broker {value['coordinator']}"
    ]
    lines += [
        f"member {one['member']} at {one['host']} has no partitions"
        for one in members
        if not one["partitions"]
    ]
    hosts = {one["member"]: one["host"] for one in members}
    rows = [(*row.values(), hosts.get(row["member"] or "")) for row in value["offsets"]]
    return "\n".join([*lines, *([table(_COLUMNS, rows)] if rows else [])])
