"""What jbod-consumer-groups --describe shows of one group, as rows; no cluster is asked here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from admin_tool.group_actions.table import MISSING, Column, lines
from admin_tool.requests.group_offsets import Committed
from admin_tool.requests.groups import EMPTY, STABLE, GroupDescription, GroupMember
from jbodlab.ids import TopicPartition

ASSIGNMENT_WIDTH, COORDINATOR_WIDTH, INSTANCE_WIDTH = 20, 25, 17


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """A partition that a group has an offset of, or that a member has; or a member without any."""

    partition: TopicPartition | None
    offset: int | None = None
    leader_epoch: int | None = None
    end_offset: int | None = None
    member: GroupMember | None = None

    @property
    def lag(self) -> int | None:
        """Records behind the end; None where offset or end is unknown."""
        if self.offset is None or self.end_offset is None:
            return None
        return self.end_offset - self.offset


def offset_rows(
    group: GroupDescription, committed: Committed, ends: Mapping[TopicPartition, int]
) -> list[OffsetRow]:
    """Return the partitions of members, those with most first, and those that nobody has.

    Args:
        group: The group.
        committed: Its offsets.
        ends: Ends of the partitions, those left out that are unknown.
    """

    def row(partition: TopicPartition, member: GroupMember | None) -> OffsetRow:
        known = committed.get(partition)
        return OffsetRow(
            partition=partition,
            offset=None if known is None else known.offset,
            leader_epoch=None if known is None else known.leader_epoch,
            end_offset=ends.get(partition),
            member=member,
        )

    found: list[OffsetRow] = []
    assigned: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda one: -len(one.assignment)):
        assigned.update(member.assignment)
        found += [row(one, member) for one in sorted(member.assignment)]
        if not member.assignment:
            found.append(OffsetRow(partition=None, member=member))
    return found + [row(one, None) for one in sorted(set(committed) - assigned)]


def offset_table(group_id: str, rows: Iterable[OffsetRow], *, verbose: bool) -> list[str]:
    """Return the table of the offsets of a group."""
    columns = [
        Column(title="GROUP", grows=True),
        Column(title="TOPIC", grows=True),
        Column(title="PARTITION", width=10),
        *([Column(title="LEADER-EPOCH")] if verbose else []),
        *(Column(title=title) for title in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")),
        Column(title="CONSUMER-ID", grows=True),
        Column(title="HOST", grows=True),
        Column(title="CLIENT-ID"),
    ]
    cells = [
        [
            group_id,
            None if row.partition is None else row.partition.topic,
            None if row.partition is None else row.partition.partition,
            *([row.leader_epoch] if verbose else []),
            *(row.offset, row.end_offset, row.lag),
            *(
                [None, None, None]
                if row.member is None
                else [row.member.member_id, row.member.host, row.member.client_id]
            ),
        ]
        for row in rows
    ]
    return lines(columns, cells)


def member_table(group: GroupDescription, *, verbose: bool) -> list[str]:
    """Return the table of the members; instance ids, and who speaks which protocol, if told."""
    shown: list[tuple[Column, Callable[[GroupMember], object]]] = [
        (Column(title="GROUP", grows=True), lambda _: group.group_id),
        (Column(title="CONSUMER-ID", grows=True), lambda one: one.member_id),
    ]
    if any(one.instance_id for one in group.members):
        shown.append(
            (
                Column(title="GROUP-INSTANCE-ID", width=INSTANCE_WIDTH, grows=True),
                lambda one: one.instance_id or "",
            )
        )
    shown += [
        (Column(title="HOST", grows=True), lambda one: one.host),
        (Column(title="CLIENT-ID", grows=True), lambda one: one.client_id),
        (Column(title="#PARTITIONS"), lambda one: len(one.assignment)),
    ]
    if verbose:
        shown += [
            (Column(title="CURRENT-EPOCH"), lambda one: one.epoch),
            (
                Column(title="CURRENT-ASSIGNMENT", width=ASSIGNMENT_WIDTH, grows=True),
                lambda one: assignment_text(one.assignment),
            ),
            (
                Column(title="TARGET-EPOCH"),
                lambda one: None if one.target is None else group.target_epoch,
            ),
            (
                Column(title="TARGET-ASSIGNMENT", width=ASSIGNMENT_WIDTH, grows=True),
                lambda one: assignment_text(one.target or ()),
            ),
        ]
        if any(one.is_upgraded is False for one in group.members):
            shown.append((Column(title="UPGRADED"), lambda one: _bool_text(one.is_upgraded)))
    return lines(
        [column for column, _ in shown],
        [[read(member) for _, read in shown] for member in group.members],
    )


def state_table(group: GroupDescription, address: str, *, verbose: bool) -> list[str]:
    """Return the table of a group's state; `address` is its coordinator's."""
    columns = [
        Column(title="GROUP", grows=True),
        Column(title="COORDINATOR (ID)", width=COORDINATOR_WIDTH, grows=True),
        Column(title="ASSIGNMENT-STRATEGY", width=20),
        Column(title="STATE", width=20),
        *(
            [Column(title="GROUP-EPOCH"), Column(title="TARGET-ASSIGNMENT-EPOCH", width=25)]
            if verbose
            else []
        ),
        Column(title="#MEMBERS"),
    ]
    row = [
        group.group_id,
        f"{address}  ({group.coordinator})",
        group.assignor or None,
        group.state,
        *([group.epoch, group.target_epoch] if verbose else []),
        len(group.members),
    ]
    return lines(columns, [row])


def remark(group: GroupDescription) -> str | None:
    """Return what has to be said of a group that does not consume just now."""
    if group.state == EMPTY:
        return f"Consumer group '{group.group_id}' has no active members."
    if group.state != STABLE:
        return f"Warning: Consumer group '{group.group_id}' is rebalancing."
    return None


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as `topic:0,1;other:2`."""
    by_topic: dict[str, list[str]] = defaultdict(list)
    for one in sorted(partitions):
        by_topic[one.topic].append(str(one.partition))
    return ";".join(f"{topic}:{','.join(found)}" for topic, found in by_topic.items()) or MISSING


def _bool_text(value: bool | None) -> str:
    return MISSING if value is None else str(value).lower()
