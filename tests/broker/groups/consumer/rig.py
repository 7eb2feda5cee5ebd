"""A shard whose log, clock and timers are plain values."""

from __future__ import annotations

import copy
import struct
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Any
from uuid import UUID

from broker.coordination.core import Ticket, Work
from broker.groups.consumer.group import ConsumerGroup, CurrentAssignment
from broker.groups.consumer.replay import group_of
from broker.groups.decision import Decision
from broker.groups.group_core import GroupCore
from broker.groups.requests import (
    ConsumerGroupHeartbeat,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    OwnedPartitions,
    Request,
    SyncGroup,
)
from broker.groups.settings import GroupSettings
from jbodlab.group_records.records import GroupRecord, decode, encode
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition

GROUP = "g"
REBALANCE_MS = 30_000


class FakeTopics:
    """Topics that a test makes and takes away."""

    def __init__(self, **counts: int) -> None:
        self.version = 0
        self.names_version = 0
        self._topics: dict[str, tuple[TopicId, list[frozenset[str]]]] = {}
        for name, count in counts.items():
            self.create(name, count)

    def create(self, name: str, count: int, racks: Iterable[Iterable[str]] = ()) -> None:
        self.version += 1
        self.names_version = self.version
        of_partitions = [frozenset(each) for each in racks] or [frozenset[str]()] * count
        self._topics[name] = (TopicId(UUID(int=1000 + self.version)), of_partitions)

    def grow(self, name: str, count: int) -> None:
        self.version += 1
        topic_id, _ = self._topics[name]
        self._topics[name] = (topic_id, [frozenset()] * count)

    def delete(self, name: str) -> None:
        self.version += 1
        self.names_version = self.version
        del self._topics[name]

    def frozen(self) -> FakeTopics:
        return copy.deepcopy(self)

    def names(self) -> list[str]:
        return list(self._topics)

    def topic_id(self, name: str) -> TopicId | None:
        return self._topics[name][0] if name in self._topics else None

    def topic_name(self, topic_id: TopicId) -> str | None:
        return next((name for name, each in self._topics.items() if each[0] == topic_id), None)

    def partition_count(self, name: str) -> int:
        return len(self._topics[name][1]) if name in self._topics else 0

    def racks(self, name: str, partition: int) -> frozenset[str]:
        return self._topics[name][1][partition]


class Rig:
    """Carries decisions out as the shell does.

    What is appended is committed at once, or by `replicate` where `is_replicated` is False.
    """

    def __init__(self, topics: FakeTopics | None = None, **settings: Any) -> None:
        self.topics = topics or FakeTopics(t=12)
        defaults = {"consumer_assignment_interval_ms": 0, "initial_rebalance_delay_ms": 0}
        self.settings = GroupSettings(**{**defaults, **settings})
        self.configs: dict[str, Mapping[str, str]] = {}
        self.now_ms = 1_000_000
        self.log: list[GroupRecord] = []
        self.answers: dict[Ticket, Any] = {}
        self.timers: dict[tuple[Hashable, ...], int] = {}
        self.works: list[Work] = []
        self.refusal: KafkaError | None = None
        self.is_replicated = True
        self.waiting: deque[Decision] = deque()
        """What is written and not committed."""
        self._tickets = 0
        self._ids = 0
        self.last = Decision()
        self.shard = self._new_shard()

    def _new_shard(self) -> GroupCore:
        return GroupCore(
            self.settings,
            self.topics,
            self._new_id,
            lambda group: self.configs.get(group, {}),
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"new-{self._ids}"

    def park(self, request: Request) -> Ticket:
        """Ask, and return the ticket under which the answer comes."""
        self._tickets += 1
        ticket = Ticket(self._tickets)
        self.carry_out(self.shard.decide(request, ticket, self.now_ms))
        return ticket

    def ask(self, request: Request) -> Any:
        """Return the answer, or the code of an error."""
        response = self.answers[self.park(request)]
        return response.code if isinstance(response, KafkaError) else response

    def carry_out(self, decision: Decision) -> None:
        self.last = decision
        if decision.records and self.refusal is not None:
            if decision.event is not None:
                self.carry_out(self.shard.refused(decision.event, self.refusal, self.now_ms))
            return
        for record in decision.records:
            assert decode(*encode(record)) == record
        base = len(self.log)
        self.log += decision.records
        self.shard.apply(decision, base)
        for key, at_ms in decision.timers:
            if at_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = at_ms
        if decision.work is not None:
            self.works.append(decision.work)
        self.waiting.append(decision)
        if self.is_replicated:
            self.replicate()
            self.last = decision

    def replicate(self) -> None:
        """Let all that is written be committed, and what waited for that happen."""
        self.shard.committed_up_to(len(self.log))
        while self.waiting:
            decision = self.waiting.popleft()
            for ticket, response in decision.answers:
                assert ticket not in self.answers
                self.answers[ticket] = response
            if decision.event is not None:
                self.carry_out(self.shard.committed(decision.event, self.now_ms))

    def are_late(self) -> None:
        """Let those hear so who have waited too long; what is written may be committed yet."""
        late, self.waiting = self.waiting, deque()
        for decision in late:
            for ticket, _ in decision.answers:
                self.answers[ticket] = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if decision.event is not None:
                error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                self.carry_out(self.shard.refused(decision.event, error, self.now_ms))

    def work(self) -> None:
        """Do all that is to be computed beside the event loop."""
        works, self.works = self.works, []
        for event, run in works:
            self.carry_out(self.shard.worked(event, run(), self.now_ms))

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass; what is due happens in its order."""
        end_ms = self.now_ms + duration_ms
        while due := [(at_ms, repr(key), key) for key, at_ms in self.timers.items()]:
            at_ms, _, key = min(due)
            if at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, at_ms)
            del self.timers[key]
            self.carry_out(self.shard.timer(key, self.now_ms))
        self.now_ms = end_ms

    def fail_over(self, log: Iterable[GroupRecord] | None = None) -> None:
        """Load another shard from the log; what was parked gets no answer here."""
        self.timers.clear()
        self.waiting.clear()
        self.shard = self._new_shard()
        for offset, record in enumerate(self.log if log is None else log):
            self.shard.replay(record, offset, offset + 1)
        if self.is_replicated:
            self.shard.committed_up_to(len(self.log))
        self.carry_out(self.shard.loaded(self.now_ms))

    def group(self, group_id: str = GROUP) -> ConsumerGroup:
        group = group_of(self.shard.tables.written, group_id)
        assert group is not None
        return group

    def current(self, member_id: str) -> CurrentAssignment:
        return self.group().current_of(member_id)

    def ids(self, *numbers: int, topic: str = "t") -> frozenset[TopicIdPartition]:
        topic_id = self.topics.topic_id(topic)
        assert topic_id is not None
        return frozenset(TopicIdPartition(topic_id, number) for number in numbers)

    # Members of the new protocol

    def beat(
        self,
        member_id: str,
        epoch: int | None = None,
        owned: Iterable[TopicIdPartition] | None = None,
        **fields: Any,
    ) -> Any:
        """Send a heartbeat, by default with the epoch that the member has."""
        return self.ask(
            ConsumerGroupHeartbeat(
                group_id=fields.pop("group_id", GROUP),
                member_id=member_id,
                member_epoch=self.current(member_id).epoch if epoch is None else epoch,
                topic_partitions=None if owned is None else named(owned),
                **{"client_id": "c", "client_host": "/1.2.3.4", **fields},
            )
        )

    def join(self, member_id: str, *topics: str, **fields: Any) -> Any:
        """Join with all that a join needs; by default topic `t`."""
        names = None if "subscribed_topic_regex" in fields and not topics else topics or ("t",)
        return self.beat(
            member_id,
            0,
            (),
            **{
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topic_names": names,
                **fields,
            },
        )

    def settle(self, *member_ids: str) -> None:
        """Let members confirm and be told until nothing changes."""
        for _ in range(20):
            before = len(self.log)
            for member_id in member_ids or tuple(self.group().members):
                self.beat(member_id, owned=self.current(member_id).assigned)
            if len(self.log) == before:
                return
        raise AssertionError("the group does not settle")

    # Members of the classic protocol

    def classic_join(self, member_id: str = "", **fields: Any) -> Any:
        return self.ask(classic_join(member_id, **fields))

    def classic_sync(self, member_id: str, generation: int, **fields: Any) -> Any:
        return self.ask(
            SyncGroup(
                group_id=GROUP,
                member_id=member_id,
                generation_id=generation,
                **{"protocol_type": "consumer", "protocol_name": "range", **fields},
            )
        )

    def classic_beat(self, member_id: str, generation: int, **fields: Any) -> Any:
        beat = Heartbeat(group_id=GROUP, member_id=member_id, generation_id=generation, **fields)
        response = self.ask(beat)
        return getattr(response, "error_code", response)


def named(partitions: Iterable[TopicIdPartition]) -> tuple[OwnedPartitions, ...]:
    return tuple(OwnedPartitions(each.topic_id, (each.partition,)) for each in sorted(partitions))


def subscription(
    *topics: str,
    version: int = 3,
    owned: Mapping[str, Iterable[int]] | None = None,
    user_data: bytes | None = None,
    rack: str | None = None,
) -> bytes:
    """Return metadata of a protocol as clients write them."""
    parts = [struct.pack(">hi", version, len(topics)), *map(_text, topics)]
    parts.append(struct.pack(">i", -1 if user_data is None else len(user_data)))
    parts.append(user_data or b"")
    if version >= 1:
        parts.append(struct.pack(">i", len(owned or {})))
        for topic, each in (owned or {}).items():
            numbers = tuple(each)
            parts += (_text(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    if version >= 2:
        parts.append(struct.pack(">i", 1))
    if version >= 3:
        parts.append(struct.pack(">h", -1) if rack is None else _text(rack))
    return b"".join(parts)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def classic_join(member_id: str = "", **fields: Any) -> JoinGroup:
    """Return a join of a classic member; `owned` and `topics` make its subscription."""
    metadata = fields.pop(
        "metadata",
        None,
    ) or subscription(*fields.pop("topics", ("t",)), owned=fields.pop("owned", None))
    return JoinGroup(
        group_id=GROUP,
        member_id=member_id,
        **{
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocols": (JoinProtocol("range", metadata),),
            "client_id": "c",
            "client_host": "/1.2.3.4",
            **fields,
        },
    )
