"""jbodlab groups: which there are, how far they are, and setting or deleting their offsets.

Reset and delete leave groups with members alone: their offsets would be lost, or they would commit
over the new ones.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from admin_tool.arguments import add_partition
from admin_tool.client import (
    ANSWER_TIMEOUT_S,
    TIMEOUT,
    answer,
    answers,
    checked,
    connected,
    partitions_of,
    reason,
)
from admin_tool.errors import unknown
from admin_tool.offsets import A_TIME, list_offsets, read_time
from jbodlab.cli.command import servers_command
from jbodlab.cli.output import Output, counted, rows_text, table
from jbodlab.cli.parser import Parser, UsageError
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.vocabulary.ids import TopicPartition

_COLUMNS = ("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "MEMBER", "HOST")
_SHIFT = re.compile(r"[+-]\d+")

Offsets = Mapping[TopicPartition, int]
Target = tuple[str, int]
"""`earliest` or `latest` and 0, or `offset`, `shift` or `time` and their number."""


class UnknownGroupError(AdminError):
    """A group that does not exist."""


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


def _list(options: Namespace, output: Output) -> int:
    with connected("AdminClient", options) as (client, _):
        found, failures = listed(client)
    output.rows(found, "no groups")
    for failure in failures:
        output.note(f"groups may be missing: {failure}")
    return int(bool(failures))


def _describe(options: Namespace, output: Output) -> int:
    shown = []
    names = list(dict.fromkeys(options.groups))
    with connected("AdminClient", options) as (client, _):
        for group in _described(client, names).values():
            try:
                if isinstance(group, AdminError):
                    raise group
                shown.append(_value(client, group, _committed(options, group.group_id)))
            except AdminError as error:
                output.note(str(error))
    output.result(shown, "\n\n".join(map(_text, shown)))
    return int(len(shown) < len(names))


def _reset(options: Namespace, output: Output) -> int:
    target = read_target(options.to)
    with connected("AdminClient", options) as (client, topics):
        numbers = partitions_of(topics, options.topic, options.partition)
        wanted = [TopicPartition(options.topic, one) for one in numbers]
        is_there = _check_empty(options.group, _described(client, [options.group])[options.group])
        old = _committed(options, options.group) if is_there else {}
        starts, ends = (_offsets(client, wanted, when) for when in ("earliest", "latest"))
        found = _offsets(client, wanted, target[1]) if target[0] == "time" else ends
        new = planned(target, old, starts, ends, found)
        if not new:
            raise AdminError(f"group {options.group!r} has no committed offset to shift")
        rows = [
            {**one._asdict(), "old_offset": old.get(one), "new_offset": offset}
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
            _commit(client, options.group, new)
    output.result(rows, "")
    return 0


def _delete(options: Namespace, output: Output) -> int:
    names = list(dict.fromkeys(options.groups))
    code = 0
    with connected("AdminClient", options) as (client, _):
        for name, group in _described(client, names).items():
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


def listed(client: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the groups in order of their names, and why some of them may be missing."""
    found = answer("list groups", lambda: client.list_consumer_groups(**TIMEOUT))
    groups = [
        {"group": one.group_id, "type": _words(one.type), "state": _words(one.state)}
        for one in found.valid
    ]
    return sorted(groups, key=lambda one: one["group"]), sorted(set(map(reason, found.errors)))


def _described(client: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the library's descriptions of groups, or an `AdminError` instead."""
    found = answers(lambda some: client.describe_consumer_groups(some, **TIMEOUT), names)
    for name, group in found.items():
        is_error = isinstance(group, Exception)
        # Brokers with an older version of the request answer that an unknown group is dead.
        state = group.args[0].name() if is_error else group.state.name
        if state in ("GROUP_ID_NOT_FOUND", "DEAD"):
            known = [one["group"] for one in listed(client)[0]]
            found[name] = UnknownGroupError(str(unknown("group", name, known)))
        elif is_error:
            found[name] = AdminError(f"cannot describe group {name!r}: {reason(group)}")
    return found


def _check_empty(name: str, group: Any) -> bool:
    """Insist that a described group has no members; returns whether it exists."""
    if isinstance(group, UnknownGroupError):
        return False
    if isinstance(group, AdminError):
        raise group
    if group.members:
        members = counted(len(group.members), "member")
        raise AdminError(f"group {name!r} has {members} ({_words(group.state)}): stop them first")
    return True


def _committed(options: Namespace, group: str) -> Offsets:
    """Return the committed offsets of a group.

    A consumer asks: librdkafka 2.16 ends the process where an administrator asks a coordinator
    that loads.
    """
    import confluent_kafka

    with connected("Consumer", options, {"group.id": group}) as (consumer, topics):
        places = [
            confluent_kafka.TopicPartition(topic, partition)
            for topic, partitions in topics.items()
            for partition in partitions
        ]

        def ask() -> Future[Any]:
            future: Future[Any] = Future()
            try:
                future.set_result(consumer.committed(places, ANSWER_TIMEOUT_S))
            except confluent_kafka.KafkaException as error:
                future.set_exception(error)
            return future

        found = answer(f"get the offsets of group {group!r}", ask)
    return {
        TopicPartition(one.topic, one.partition): one.offset for one in found if one.offset >= 0
    }


def _offsets(client: Any, wanted: list[TopicPartition], when: str | int) -> Offsets:
    found = list_offsets(client, wanted, when)
    return {one: checked(f"cannot get the offset of {one}", found[one]).offset for one in wanted}


def _commit(client: Any, group: str, offsets: Offsets) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    places = [TopicPartition(*one, offset) for one, offset in offsets.items()]
    asked = [ConsumerGroupTopicPartitions(group, places)]
    found = answer(
        f"set the offsets of group {group!r}",
        lambda: client.alter_consumer_group_offsets(asked, **TIMEOUT)[group],
    )
    for one in found.topic_partitions:
        if one.error is not None:
            where = f"{one.topic}-{one.partition}"
            raise AdminError(f"cannot set the offset of {where}: {one.error.str()}")


def _value(client: Any, group: Any, offsets: Offsets) -> dict[str, Any]:
    """Return a group as JSON has it; `docs/commands.md` names the fields."""
    owners = {one: member.member_id for member in group.members for one in _assigned(member)}
    rows = []
    places = sorted(owners.keys() | offsets.keys())
    for one, found in list_offsets(client, places, "latest").items():
        offset = offsets.get(one)
        end = None if isinstance(found, Exception) else found.offset
        lag = None if offset is None or end is None else end - offset
        progress = {"offset": offset, "end_offset": end, "lag": lag, "member": owners.get(one)}
        rows.append({**one._asdict(), **progress})
    members = [
        {
            "member": one.member_id,
            "instance": one.group_instance_id,
            "client": one.client_id,
            "host": one.host,
            "partitions": [each._asdict() for each in _assigned(one)],
        }
        for one in group.members
    ]
    return {
        "group": group.group_id,
        # confluent-kafka 2.6 does not have it.
        "type": _words(getattr(group, "type", None)),
        "state": _words(group.state),
        "assignor": group.partition_assignor or None,
        "coordinator": group.coordinator.id,
        "members": members,
        "offsets": rows,
    }


def _text(value: dict[str, Any]) -> str:
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
    rows = [(*row.values(), hosts.get(row["member"])) for row in value["offsets"]]
    return "\n".join([*lines, *([table(_COLUMNS, rows)] if rows else [])])


def _assigned(member: Any) -> list[TopicPartition]:
    found = member.assignment.topic_partitions
    return sorted(TopicPartition(one.topic, one.partition) for one in found)


def _words(value: Any) -> str | None:
    """Return the name of a state or type in small letters; None where the library has none."""
    return None if value is None else str(value.name).lower().replace("_", " ")


_RESET_EXAMPLES = (
    "groups reset readers --topic orders --to earliest --dry-run",
    "groups reset readers --topic orders --partition 0 --to -100 --yes",
)
_DESCRIBE_EXAMPLES = ("groups describe readers --output json",)
_RESET_HELP = "set the offsets of a group without members"
_DELETE_HELP = "delete groups without members, and their offsets"
VERBS = {
    "list": servers_command(
        "list groups and their states", _list, examples=("groups list",), reads=True
    ),
    "describe": servers_command(
        "show members, offsets and lag of groups", _describe, _names, _DESCRIBE_EXAMPLES, reads=True
    ),
    "reset": servers_command(
        _RESET_HELP, _reset, _reset_arguments, _RESET_EXAMPLES, reads=True, asks=True
    ),
    "delete": servers_command(_DELETE_HELP, _delete, _names, ("groups delete readers",), asks=True),
}
