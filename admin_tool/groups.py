"""jbodlab groups: which there are, how far they are, and setting or deleting their offsets.

Reset and delete leave groups with members alone: their offsets would be lost, or they would commit
over the new ones.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from admin_tool import group_view
from admin_tool.arguments import counted
from admin_tool.client import TIMEOUT, add_partition, answers, connected, partitions_of, reason
from admin_tool.errors import AdminError
from admin_tool.group_view import UnknownGroupError, committed, described, words
from admin_tool.offsets import A_TIME, list_offsets, read_time
from jbodlab.cli.command import About, Command
from jbodlab.cli.output import Output, table
from jbodlab.cli.parser import Parser, UsageError
from jbodlab.ids import TopicPartition

_SHIFT = re.compile(r"[+-]\d+")
_KEYS = ("topic", "partition", "old_offset", "new_offset")

Offsets = Mapping[TopicPartition, int]
Target = tuple[str, int]
"""`earliest` or `latest` and 0, or `offset`, `shift` or `time` and their number."""


def _names(parser: Parser) -> None:
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="the groups")


def _reset_arguments(parser: Parser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the group")
    parser.add_argument("--topic", required=True, help="the topic")
    add_partition(parser)
    text = (
        "earliest, latest, an offset, so many records on or back such as +100 or -100, or the "
        f"first record since {A_TIME}"
    )
    parser.add_argument("--to", metavar="WHERE", required=True, help=text)
    parser.add_argument("--dry-run", action="store_true", help="only show the new offsets")


def reset(options: Namespace, output: Output) -> int:
    """Set the offsets of a group; returns the exit code."""
    target = read_target(options.to)
    with connected("AdminClient", options) as (client, topics):
        numbers = partitions_of(topics, options.topic, options.partition)
        wanted = [TopicPartition(options.topic, one) for one in numbers]
        is_there = _check_empty(options.group, described(client, [options.group])[options.group])
        old = committed(client, options.group) if is_there else {}
        starts, ends = (_offsets(client, wanted, when) for when in ("earliest", "latest"))
        found = _offsets(client, wanted, target[1]) if target[0] == "time" else ends
        new = planned(target, old, starts, ends, found)
        if not new:
            raise AdminError(f"group {options.group!r} has no committed offset to shift")
        rows = [(*one, old.get(one), offset) for one, offset in new.items()]
        text = table([key.upper().replace("_", " ") for key in _KEYS], rows)
        if options.dry_run:
            output.note("dry run: nothing was changed")
        else:
            if not options.yes:
                output.note(text)
            what = "set" if is_there else "it does not exist: create it with"
            question = f"group {options.group}: {what} {counted(len(rows), 'offset')}?"
            output.confirm(question, yes=options.yes)
            _commit(client, options.group, new)
    output.result([dict(zip(_KEYS, row, strict=True)) for row in rows], text)
    return 0


def delete(options: Namespace, output: Output) -> int:
    """Delete groups; returns the exit code: 1 if one of them is still there."""
    names = list(dict.fromkeys(options.groups))
    code = 0
    with connected("AdminClient", options) as (client, _):
        for name, group in described(client, names).items():
            if not _check_empty(name, group):
                raise group
        output.confirm(f"delete group {', '.join(names)}?", yes=options.yes)
        found = answers(lambda some: client.delete_consumer_groups(some, **TIMEOUT), names)
        for name, error in found.items():
            if isinstance(error, Exception):
                code = 1
                output.note(f"cannot delete group {name!r}: {reason(error)}")
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


def _check_empty(name: str, group: Any) -> bool:
    """Insist that a described group has no members; returns whether it exists."""
    if isinstance(group, UnknownGroupError):
        return False
    if isinstance(group, AdminError):
        raise group
    if group.members:
        members = counted(len(group.members), "member")
        raise AdminError(f"group {name!r} has {members} ({words(group.state)}): stop them first")
    return True


def _offsets(client: Any, wanted: list[TopicPartition], when: str | int) -> Offsets:
    found = list_offsets(client, wanted, when)
    for one, answer in found.items():
        if isinstance(answer, Exception):
            raise AdminError(f"cannot get the offset of {one}: {reason(answer)}")
    return {one: found[one].offset for one in wanted}


def _commit(client: Any, group: str, offsets: Offsets) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    places = [TopicPartition(*one, offset) for one, offset in offsets.items()]
    asked = [ConsumerGroupTopicPartitions(group, places)]
    found = answers(lambda _: client.alter_consumer_group_offsets(asked, **TIMEOUT), [group])[group]
    if isinstance(found, Exception):
        raise AdminError(f"cannot set the offsets of group {group!r}: {reason(found)}")
    for one in found.topic_partitions:
        if one.error is not None:
            where = f"{one.topic}-{one.partition}"
            raise AdminError(f"cannot set the offset of {where}: {one.error.str()}")


VERBS = {
    "list": Command(
        help="list groups and their states",
        run=group_view.list_all,
        examples=("groups list",),
        about=About.SERVERS,
        reads=True,
    ),
    "describe": Command(
        help="show members, offsets and lag of groups",
        run=group_view.describe,
        arguments=_names,
        examples=("groups describe readers --output json",),
        about=About.SERVERS,
        reads=True,
    ),
    "reset": Command(
        help="set the offsets of a group without members",
        run=reset,
        arguments=_reset_arguments,
        examples=(
            "groups reset readers --topic orders --to earliest --dry-run",
            "groups reset readers --topic orders --partition 0 --to -100 --yes",
        ),
        about=About.SERVERS,
        reads=True,
        asks=True,
    ),
    "delete": Command(
        help="delete groups without members, and their offsets",
        run=delete,
        arguments=_names,
        examples=("groups delete readers",),
        about=About.SERVERS,
        asks=True,
    ),
}
