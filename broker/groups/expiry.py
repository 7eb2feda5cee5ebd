"""Offsets that nobody needs any more: they expire (KIP-211), or their topic is gone.

Offsets of a group expire `offsets.retention.minutes` after the group became empty; those of a
simple group, and of topics to which a living group is not subscribed any more, after their commit.
A retention time of the client's own counts from the commit, and takes the place of the broker's.
Groups without members or offsets go, too.

Source: `OffsetMetadataManager.cleanupExpiredOffsets`, `GroupMetadataManager.cleanupGroupMetadata`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from broker.bounds.limits import EXPIRED_AT_ONCE, SCANNED_AT_ONCE
from broker.coordination.core import Timer
from broker.groups.classic.group import CONSUMER, ClassicGroup, ClassicGroupState, subscribed_topics
from broker.groups.classic.groups import ClassicGroups
from broker.groups.consumer.groups import ConsumerGroups
from broker.groups.decision import GroupDecision, SoftChange, TimerRefused
from broker.groups.replay import StoredOffset
from broker.groups.requests import NO_TOPIC_ID
from broker.groups.state import GroupKind, GroupState, kind_of
from broker.groups.tables import Row
from broker.groups.tombstones import group_tombstones, offset_tombstone
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import OffsetCommitValue

OFFSETS_TIMER = "offsets"
_KEY = (OFFSETS_TIMER,)

_ROWS = (Row.OFFSET, Row.PENDING, Row.CLASSIC, Row.EPOCH)
"""Each group that offsets or its own age may end has a row of one of these kinds."""

PAUSE_MS = 5
_REFUSED = TimerRefused(key=_KEY, retry_ms=10_000)


class _Left(NamedTuple):
    """Groups that a look has not come to.

    Attributes:
        row: Kind of the rows by which `groups` were found.
        groups: The rest of a part of the table.
        parts: Its further parts, each by the kind of row and a number.
        deleted: When topics were deleted, by their names, in ms since 1970.
    """

    row: Row
    groups: tuple[str, ...]
    parts: tuple[tuple[Row, int], ...]
    deleted: Mapping[str, int]


class OffsetExpiry:
    """Looks for offsets that may go; changes nothing itself.

    A look takes steps. The groups that are left for the next ones stand beside the tables.
    """

    def __init__(self, state: GroupState, classic: ClassicGroups, consumer: ConsumerGroups) -> None:
        self._state = state
        self._classic = classic
        self._consumer = consumer

    def first_look(self, now_ms: int) -> GroupDecision:
        """Look as soon as the shard is in service: topics may be gone since the last one."""
        return GroupDecision(timers=(Timer(_KEY, now_ms),))

    def look(self, now_ms: int) -> GroupDecision:
        """Take a step: take away what expired, and what belongs to topics that are gone."""
        row, groups, parts, deleted = self._left()
        records: list[GroupRecord] = []
        scanned = done = 0
        while len(records) < EXPIRED_AT_ONCE and scanned < SCANNED_AT_ONCE:
            if done < len(groups):
                scanned += 1
                if not self._is_of_earlier_row(row, groups[done]):
                    records += self._outdated(groups[done], deleted, now_ms)
                    scanned += len(self._state.written.rows(Row.OFFSET, groups[done]))
                done += 1
            elif parts:
                (row, number), parts = parts[0], parts[1:]
                groups, done = self._state.written.groups_of_part(row, number), 0
            else:
                break
        if len(records) > EXPIRED_AT_ONCE:
            # The rest of the last group is for the next step.
            done -= 1
        groups = groups[done:]
        is_left = groups or parts
        interval = self._state.settings.offsets_retention_check_interval_ms
        return GroupDecision(
            records=tuple(records[:EXPIRED_AT_ONCE]),
            soft=(SoftChange(_KEY, _Left(row, groups, parts, deleted) if is_left else None),),
            timers=(Timer(_KEY, now_ms + (PAUSE_MS if is_left else interval)),),
            event=_REFUSED if records else None,
        )

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> GroupDecision:
        """Begin to take away the offsets of topics, also of those that are created again.

        A look that has begun goes on, and comes to what it has visited once more.
        """
        left = self._left()
        parts = tuple(dict.fromkeys((*left.parts, *self._all())))
        deleted = {**left.deleted, **dict.fromkeys(names, now_ms)}
        soft = SoftChange(_KEY, left._replace(parts=parts, deleted=deleted))
        return GroupDecision(soft=(soft,), timers=(Timer(_KEY, now_ms),))

    def _left(self) -> _Left:
        found: _Left | None = self._state.soft.get(_KEY)
        return found or _Left(_ROWS[0], (), self._all(), {})

    def _all(self) -> tuple[tuple[Row, int], ...]:
        written = self._state.written
        return tuple((row, number) for row in _ROWS for number in range(written.parts(row)))

    def _is_of_earlier_row(self, row: Row, group_id: str) -> bool:
        """Return whether the look visits this group for a row of an earlier kind."""
        earlier = _ROWS[: _ROWS.index(row)]
        return any(self._state.written.rows(each, group_id) for each in earlier)

    def _outdated(
        self, group_id: str, deleted: Mapping[str, int], now_ms: int
    ) -> Iterator[GroupRecord]:
        written = self._state.written
        if kind_of(written, group_id) is None:
            return
        expired = set(self._expired(group_id, now_ms))
        partitions = self._partitions(group_id)
        gone = {each for each in partitions if self._is_gone(each[0], partitions[each], deleted)}
        for topic, partition in partitions:
            if (topic, partition) in expired or (topic, partition) in gone:
                yield offset_tombstone(group_id, topic, partition)
        if not partitions.keys() - expired - gone and self._may_go(group_id):
            yield from group_tombstones(written, group_id)

    def _expired(self, group_id: str, now_ms: int) -> Iterator[tuple[str, int]]:
        """Return the partitions of a group whose offsets expired."""
        written = self._state.written
        since: int | None = None
        in_use: frozenset[str] | None = frozenset()
        if kind_of(written, group_id) is GroupKind.CONSUMER:
            in_use = self._consumer.subscribed_topics(group_id)
        else:
            group = self._classic.find(group_id)
            assert group is not None
            since, in_use = _condition(group)
        if in_use is None:
            return
        pending = {rest[:2] for rest in written.rows(Row.PENDING, group_id)}
        retention = self._state.settings.offsets_retention_ms
        stored: StoredOffset
        for (topic, partition), stored in written.rows(Row.OFFSET, group_id).items():
            value = stored.value
            ends = (value.commit_timestamp if since is None else since) + retention
            if value.expire_timestamp != -1:
                ends = value.expire_timestamp
            if ends <= now_ms and topic not in in_use and (topic, partition) not in pending:
                yield topic, partition

    def _is_gone(
        self, topic: str, offsets: Iterable[OffsetCommitValue], deleted: Mapping[str, int]
    ) -> bool:
        """Return whether one of the offsets of a partition is of a topic that is no more."""
        topic_id = self._state.topics.topic_id(topic)
        return topic_id is None or any(
            each.topic_id != topic_id
            if each.topic_id != NO_TOPIC_ID
            else topic in deleted and each.commit_timestamp <= deleted[topic]
            for each in offsets
        )

    def _may_go(self, group_id: str) -> bool:
        if kind_of(self._state.written, group_id) is GroupKind.CONSUMER:
            return self._consumer.is_empty(group_id)
        group = self._classic.find(group_id)
        return group is not None and not group.is_worth_keeping

    def _partitions(self, group_id: str) -> dict[tuple[str, int], list[OffsetCommitValue]]:
        """Return the offsets of each partition that has some, pending ones too."""
        found: dict[tuple[str, int], list[OffsetCommitValue]] = {}
        for row in (Row.OFFSET, Row.PENDING):
            for rest, stored in self._state.written.rows(row, group_id).items():
                found.setdefault((rest[0], rest[1]), []).append(stored.value)
        return found


def _condition(group: ClassicGroup) -> tuple[int | None, frozenset[str] | None]:
    """Return from when the retention counts, and which topics are in use.

    Returns:
        The first is None where it counts from the commit; the second where nothing may expire.
    """
    if group.protocol_type is None:
        return None, frozenset()
    if group.state is ClassicGroupState.EMPTY:
        known = group.state_timestamp != -1
        return (group.state_timestamp if known else None), frozenset()
    if group.protocol_type == CONSUMER and group.state is ClassicGroupState.STABLE:
        return None, subscribed_topics(group)
    return None, None
