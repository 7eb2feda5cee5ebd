"""State of a shard, as its decisions see it; only `GroupCore` changes it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any

import msgspec

from broker.groups.settings import GroupSettings
from broker.groups.tables import Row, Table, Tables
from broker.groups.topics import Topics


class GroupKind(Enum):
    """The protocol of a group; the values are the types that clients are told."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"


class GroupState(msgspec.Struct, kw_only=True):
    """Tables, what stands beside them, and what decisions may ask.

    Attributes:
        new_id: Makes a text that is in no other member id.
        soft: State that has no record, by the keys of `SoftChange`.
    """

    settings: GroupSettings
    topics: Topics
    new_id: Callable[[], str]
    tables: Tables = msgspec.field(default_factory=Tables)
    soft: dict[tuple[Hashable, ...], Any] = msgspec.field(default_factory=dict)

    @property
    def written(self) -> Table:
        """The table for decisions: all that is written."""
        return self.tables.written

    @property
    def committed(self) -> Table:
        """The table for readers: all that is committed."""
        return self.tables.committed


def kind_of(table: Table, group_id: str) -> GroupKind | None:
    """Return the protocol of a group; None if there is no such group.

    A group that has offsets alone is a classic one without a protocol type: a simple group.
    """
    if table.get(Row.EPOCH, group_id) is not None or table.rows(Row.MEMBER, group_id):
        return GroupKind.CONSUMER
    if table.get(Row.CLASSIC, group_id) is not None:
        return GroupKind.CLASSIC
    if table.rows(Row.OFFSET, group_id) or table.rows(Row.PENDING, group_id):
        return GroupKind.CLASSIC
    return None
