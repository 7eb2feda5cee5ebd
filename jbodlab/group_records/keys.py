"""Keys of the records of `__consumer_offsets`: int16 record type, then the fields, never flexible.

Fields and their names are those of Kafka's schemas `OffsetCommitKey`, `GroupMetadataKey`,
`ConsumerGroupMetadataKey` and so on; the number of a type is the schema's `apiKey`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, get_args

from jbodlab.kafka_wire.kinds import Int32
from jbodlab.kafka_wire.schema import NEVER_FLEXIBLE, Struct, field


class GroupKey(Struct, first_flexible_version=NEVER_FLEXIBLE):
    """Base of the keys."""

    RECORD_TYPE: ClassVar[int] = -1


class KeyOfClassicGroup(GroupKey):
    """Base of the keys that have the group under its old name."""

    group: str = field("id of the group")

    @property
    def group_id(self) -> str:
        """Id of the group."""
        return self.group


class KeyOfOffset(KeyOfClassicGroup):
    """Base of the keys of committed offsets."""

    topic: str = field("name of the topic")
    partition: Int32 = field("number of the partition in its topic")


class KeyOfGroup(GroupKey):
    """Base of the keys of groups of KIP-848."""

    group_id: str = field("id of the group")


class KeyOfMember(KeyOfGroup):
    """Base of the keys of their members."""

    member_id: str = field("id of the member")


class LegacyOffsetCommitKey(KeyOfOffset, record_type=0):
    """An offset that a broker of long ago committed; read, never written."""


class OffsetCommitKey(KeyOfOffset, record_type=1):
    """An offset that a group committed."""


class GroupMetadataKey(KeyOfClassicGroup, record_type=2):
    """A classic group."""


class ConsumerGroupMetadataKey(KeyOfGroup, record_type=3):
    """A group of KIP-848: its epoch."""


class ConsumerGroupPartitionMetadataKey(KeyOfGroup, record_type=4):
    """Metadata of the topics that a group subscribed to; only brokers up to 4.0 write it."""


class ConsumerGroupMemberMetadataKey(KeyOfMember, record_type=5):
    """Description of a member of a group of KIP-848 by itself."""


class ConsumerGroupTargetAssignmentMetadataKey(KeyOfGroup, record_type=6):
    """The epoch of a group's target assignment."""


class ConsumerGroupTargetAssignmentMemberKey(KeyOfMember, record_type=7):
    """Partitions that a member shall have."""


class ConsumerGroupCurrentMemberAssignmentKey(KeyOfMember, record_type=8):
    """Partitions that a member has."""


class ConsumerGroupRegularExpressionKey(KeyOfGroup, record_type=16):
    """A regular expression that some member of the group subscribed to."""

    regular_expression: str = field("the expression, in the syntax of RE2")


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
    {cls.RECORD_TYPE: cls for cls in get_args(AnyKey)}
)
"""Types 9 to 15, and those above 16, are of share and streams groups."""
