"""Members of groups that a schedule drives, and what holds of their group."""

from __future__ import annotations

from collections import Counter
from random import Random

from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.replay import group_of
from broker.groups.consumer.responses import ConsumerGroupHeartbeatResponse
from broker.groups.state import GroupKind, kind_of
from jbodlab.group_records.keys import AnyKey
from jbodlab.group_records.records import GroupRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicIdPartition
from tests.broker.groups.consumer.rig import GROUP, Rig

LOST = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    # It was removed, and the group is one of classic members now.
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Client:
    """A member that works on its partitions until it has confirmed that it does not."""

    def __init__(self, member_id: str, instance_id: str | None, topics: tuple[str, ...]) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = topics
        self.epoch = 0
        self.owned: frozenset[TopicIdPartition] = frozenset()
        """Partitions that it works on."""
        self.told: frozenset[TopicIdPartition] = frozenset()
        """The assignment that it was told last; it stops and begins work later."""
        self.is_full = True

    def beat(self, rig: Rig, random: Random) -> None:
        fields = {"instance_id": self.instance_id}
        if self.epoch == 0:
            answer = rig.join(self.member_id, *self.topics, **fields)
        elif self.is_full:
            answer = rig.beat(
                self.member_id,
                self.epoch,
                self.owned,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=self.topics,
                **fields,
            )
        else:
            owned = self.owned if random.random() < 0.5 else None
            answer = rig.beat(self.member_id, self.epoch, owned, **fields)
        if random.random() < 0.15:
            self.is_full = True  # The answer is lost.
        elif isinstance(answer, ConsumerGroupHeartbeatResponse):
            assert answer.member_epoch >= self.epoch
            self.epoch, self.is_full = answer.member_epoch, False
            if answer.assignment is not None:
                self.told = answer.assignment
        elif answer in LOST:
            self.epoch, self.owned, self.told = 0, frozenset(), frozenset()
        else:
            assert answer == ErrorCode.UNRELEASED_INSTANCE_ID, answer

    def apply(self) -> None:
        """Stop what it was told to give up, begin what is new.

        A partition that a member was given and did not yet begin is taken back without a
        confirmation. If the answer that does so is lost, a member that begins it meanwhile is
        fenced by its next heartbeat, here and in Kafka; this one waits.
        """
        self.owned = self.owned & self.told if self.is_full else self.told


def check_group(rig: Rig, epochs: dict[str, int]) -> None:
    """I4: nobody holds what another holds, and epochs do not go back."""
    if kind_of(rig.shard.tables.written, GROUP) is not GroupKind.CONSUMER:
        epochs.clear()
        return
    group = rig.group()
    held = Counter(p for current in group.current.values() for p in current.held())
    assert not held or max(held.values()) == 1
    assert group.holders == {
        p: member_id for member_id, current in group.current.items() for p in current.held()
    }
    for member_id, current in group.current.items():
        assert current.epoch <= group.assignment_epoch <= group.epoch
        if current.epoch > 0:
            assert current.epoch >= epochs.get(member_id, 0)
            epochs[member_id] = current.epoch
    assert group.targets.keys() >= group.members.keys() - {
        member_id for member_id, c in group.current.items() if c.epoch < group.epoch
    }


def check_replay(rig: Rig, random: Random) -> None:
    """I8, I9: the log says the same, also without records that later ones replace."""
    live = group_of(rig.shard.tables.written, GROUP)
    known = rig.shard._consumer._index.get(GROUP)  # type: ignore[attr-defined]
    assert known == live
    for log in (rig.records, compacted(rig.records, random)):
        other = Rig(rig.topics)
        for offset, record in enumerate(log):
            other.shard.replay(record, offset, offset + 1)
        assert same(group_of(other.shard.tables.written, GROUP), live)


def same(one: ConsumerGroup | None, other: ConsumerGroup | None) -> bool:
    return one == other


def compacted(log: list[GroupRecord], random: Random) -> list[GroupRecord]:
    """Drop records below a point that a later record of the key replaces, tombstones as well."""
    point = random.randrange(len(log) + 1)
    newest: dict[AnyKey, int] = {record.key: offset for offset, record in enumerate(log[:point])}
    kept = [
        record
        for offset, record in enumerate(log[:point])
        if newest[record.key] == offset and (record.value is not None or random.random() < 0.5)
    ]
    return kept + log[point:]
