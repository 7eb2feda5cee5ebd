"""Keys of the records of `__consumer_offsets`: int16 record type, then the fields, never flexible.

Fields and their names are those of Kafka's schemas `OffsetCommitKey`, `GroupMetadataKey`,
`ConsumerGroupMetadataKey` and so on; the number of a type is the schema's `apiKey`.
"""

# wire() returns a dataclasses.field, so no value is shared between records.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from jbodlab.kafka_wire.kinds import INT32, STRING
from jbodlab.kafka_wire.schema import NEVER_FLEXIBLE, Struct, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey(Struct):
    """Base of the keys."""

    FIRST_FLEXIBLE_VERSION: ClassVar[int] = NEVER_FLEXIBLE
    RECORD_TYPE: ClassVar[int] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyOffsetCommitKey(GroupKey):
    """An offset that a broker of long ago committed; read, never written."""

    RECORD_TYPE: ClassVar[int] = 0

    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)

    @property
    def group_id(self) -> str:
        """Id of the group."""
        return self.group


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey(GroupKey):
    """An offset that a group committed."""

    RECORD_TYPE: ClassVar[int] = 1

    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)

    @property
    def group_id(self) -> str:
        """Id of the group."""
        return self.group


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey(GroupKey):
    """A classic group."""

    RECORD_TYPE: ClassVar[int] = 2

    group: str = wire(STRING)

    @property
    def group_id(self) -> str:
        """Id of the group."""
        return self.group


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataKey(GroupKey):
    """A group of KIP-848: its epoch."""

    RECORD_TYPE: ClassVar[int] = 3

    group_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataKey(GroupKey):
    """Metadata of the topics that a group subscribed to; only brokers up to 4.0 write it."""

    RECORD_TYPE: ClassVar[int] = 4

    group_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataKey(GroupKey):
    """What a member of a group of KIP-848 says about itself."""

    RECORD_TYPE: ClassVar[int] = 5

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataKey(GroupKey):
    """The epoch of a group's target assignment."""

    RECORD_TYPE: ClassVar[int] = 6

    group_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberKey(GroupKey):
    """What a member shall have."""

    RECORD_TYPE: ClassVar[int] = 7

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentKey(GroupKey):
    """What a member has."""

    RECORD_TYPE: ClassVar[int] = 8

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionKey(GroupKey):
    """A regular expression that some member of the group subscribed to."""

    RECORD_TYPE: ClassVar[int] = 16

    group_id: str = wire(STRING)
    regular_expression: str = wire(STRING)


AnyOffsetKey = OffsetCommitKey | LegacyOffsetCommitKey
ConsumerGroupKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
AnyKey = AnyOffsetKey | GroupMetadataKey | ConsumerGroupKey

KEY_TYPES: Mapping[int, type[AnyKey]] = MappingProxyType(
    {
        cls.RECORD_TYPE: cls
        for cls in (
            LegacyOffsetCommitKey,
            OffsetCommitKey,
            GroupMetadataKey,
            ConsumerGroupMetadataKey,
            ConsumerGroupPartitionMetadataKey,
            ConsumerGroupMemberMetadataKey,
            ConsumerGroupTargetAssignmentMetadataKey,
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupRegularExpressionKey,
        )
    }
)
"""Types 9 to 15, and those above 16, are of share and streams groups."""
