"""jbodlab groups list and describe, and what reset and delete ask about a group first."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from admin_tool.arguments import counted
from admin_tool.client import TIMEOUT, answers, connected, reason
from admin_tool.errors import AdminError, unknown
from admin_tool.offsets import list_offsets
from jbodlab.cli.output import Output, table
from jbodlab.ids import TopicPartition

_COLUMNS = ("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "MEMBER", "HOST")


class UnknownGroupError(AdminError):
    """A group that does not exist."""


def list_all(options: Namespace, output: Output) -> int:
    """Show all groups; returns the exit code: 1 if some may be missing."""
    with connected("AdminClient", options) as (client, _):
        found, failures = listed(client)
    rows = [tuple(one.values()) for one in found]
    output.result(found, table(("GROUP", "TYPE", "STATE"), rows) if rows else "no groups")
    for failure in failures:
        output.note(f"groups may be missing: {failure}")
    return int(bool(failures))


def describe(options: Namespace, output: Output) -> int:
    """Show groups; returns the exit code: 1 if one of them cannot be shown."""
    shown = []
    names = list(dict.fromkeys(options.groups))
    with connected("AdminClient", options) as (client, _):
        for group in described(client, names).values():
            try:
                if isinstance(group, AdminError):
                    raise group
                shown.append(_value(client, group))
            except AdminError as error:
                output.note(str(error))
    output.result(shown, "\n\n".join(map(_text, shown)))
    return int(len(shown) < len(names))


def described(client: Any, names: Sequence[str]) -> dict[str, Any]:
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


def committed(client: Any, group: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group that has just been described.

    librdkafka 2.16 ends the process where the coordinator refuses this request while it loads; a
    description is only refused then, and asked for again.

    Raises:
        AdminError: its coordinator does not answer.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = [ConsumerGroupTopicPartitions(group)]
    found = answers(lambda _: client.list_consumer_group_offsets(asked, **TIMEOUT), [group])[group]
    if isinstance(found, Exception):
        raise AdminError(f"cannot get the offsets of group {group!r}: {reason(found)}")
    return {
        TopicPartition(one.topic, one.partition): one.offset
        for one in found.topic_partitions
        if one.offset >= 0
    }


def words(value: Any) -> str | None:
    """Return the name of a state or type in small letters; None where the library has none."""
    return None if value is None else str(value.name).lower().replace("_", " ")


def listed(client: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the groups in order of their names, and why some of them may be missing."""
    (found,) = answers(lambda _: {"all": client.list_consumer_groups(**TIMEOUT)}, ["all"]).values()
    if isinstance(found, Exception):
        raise found
    groups = [
        {"group": one.group_id, "type": words(one.type), "state": words(one.state)}
        for one in found.valid
    ]
    return sorted(groups, key=lambda one: one["group"]), sorted(set(map(reason, found.errors)))


def _value(client: Any, group: Any) -> dict[str, Any]:
    """Return a group as JSON has it, with its offsets; `docs/commands.md` names the fields."""
    offsets = committed(client, group.group_id)
    owners = {one: member.member_id for member in group.members for one in _assigned(member)}
    wanted = sorted(owners.keys() | offsets.keys())
    rows = []
    for one, answer in list_offsets(client, wanted, "latest").items():
        offset = offsets.get(one)
        end = None if isinstance(answer, Exception) else answer.offset
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
        "type": words(getattr(group, "type", None)),
        "state": words(group.state),
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
