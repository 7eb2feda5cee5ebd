"""A shard with a log, a clock and clients that are lists: carries decisions out as the shell does.

After each step it checks what holds at all times (the written table is what a
replay of the log gives; parked requests have one ticket each and are not answered yet).
"""

from __future__ import annotations

import copy
import struct
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from itertools import count
from typing import Any

from broker.coordination.core import Ticket, Work
from broker.groups.decision import GroupDecision
from broker.groups.group_core import GroupCore
from broker.groups.replay import changes_of
from broker.groups.requests import (
    CommitPartition,
    CommitTopic,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    Request,
    SyncedAssignment,
    SyncGroup,
)
from broker.groups.settings import GroupSettings
from broker.groups.tables import Table, Tables
from jbodlab.group_records import records
from jbodlab.group_records.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    decode,
    encode,
)
from jbodlab.group_records.records import GroupRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicId
from jbodlab.vocabulary.kafka_uuid import ZERO_UUID
from tests.builders import named_uuid

START_MS = 1_000_000
SETTINGS = GroupSettings()


class FakeTopics:
    """Topics that a test makes and takes away."""

    def __init__(self, **counts: int) -> None:
        self.version = 0
        self.names_version = 0
        self._created: set[str] = set()
        self._topics: dict[str, tuple[TopicId, list[frozenset[str]]]] = {}
        for name, partitions in counts.items():
            self.create(name, partitions)

    def create(self, name: str, count: int, racks: Iterable[Iterable[str]] = ()) -> None:
        """Create a topic, or anew; its first id is made of its name."""
        self.version += 1
        self.names_version = self.version
        of_partitions = [frozenset(each) for each in racks] or [frozenset[str]()] * count
        text = f"{name} {self.version}" if name in self._created else name
        self._created.add(name)
        self._topics[name] = (TopicId(named_uuid(text)), of_partitions)

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


class Bench:
    """One shard in one term of its leader.

    Attributes:
        log: Records with the end offset of their batch.
        high_watermark: Follows the log unless `replicates` is false.
        refusal: The error of the log for the next batches; None takes them.
        answers: The answer to each ticket.
    """

    def __init__(
        self,
        settings: GroupSettings = SETTINGS,
        topics: FakeTopics | None = None,
        log: list[tuple[GroupRecord, int]] | None = None,
        now_ms: int = START_MS,
        *,
        replicates: bool = True,
    ) -> None:
        self.settings = settings
        self.topics = topics or FakeTopics(t=4, u=4)
        ids = count(1)
        self.configs: dict[str, Mapping[str, str]] = {}
        self.shard = GroupCore(
            settings,
            self.topics,
            lambda: f"{now_ms}-{next(ids)}",
            lambda group: self.configs.get(group, {}),
        )
        self.now_ms = now_ms
        self.log: list[tuple[GroupRecord, int]] = []
        self.high_watermark = 0
        self.replicates = replicates
        self.refusal: KafkaError | None = None
        self.answers: dict[Ticket, Any] = {}
        self.timers: dict[tuple[Hashable, ...], int] = {}
        self.works: list[Work] = []
        self.next_ticket = 1
        self._waiting: deque[tuple[int, GroupDecision]] = deque()
        self._replay = Tables()
        self._replayed = 0
        for offset, (record, end_offset) in enumerate(log or ()):
            self.shard.replay(record, offset, end_offset)
            self.log.append((record, end_offset))
        if replicates:
            self.replicate()
        self.carry_out(self.shard.loaded(now_ms))

    def ask(self, request: Request) -> Ticket:
        """Send a request; its answer is in `answers` now, or later."""
        ticket = Ticket(self.next_ticket)
        self.next_ticket += 1
        self.carry_out(self.shard.decide(request, ticket, self.now_ms), ticket)
        return ticket

    def answer(self, request: Request) -> Any:
        """Send a request that is answered at once."""
        return self.answers[self.ask(request)]

    def carry_out(
        self, decision: GroupDecision, ticket: Ticket | None = None, *, at_once: bool = False
    ) -> None:
        """Do what a decision says; with `at_once` its answers wait for no batch but its own."""
        if decision.at_once:
            assert not decision.records
            assert decision.event is None
            self._send(decision)
            return
        if decision.records and self.refusal is not None:
            for each, _ in decision.answers:
                if each == ticket:
                    self.answers[each] = self.refusal
            if decision.event is not None:
                self.carry_out(self.shard.refused(decision.event, self.refusal, self.now_ms))
            return
        base_offset = len(self.log)
        end_offset = base_offset + len(decision.records)
        for record in decision.records:
            assert records.decode(*records.encode(record)) == record
            self.log.append((record, end_offset))
        self.shard.apply(decision, base_offset)
        for key, at_ms in decision.timers:
            if at_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = at_ms
        if decision.work is not None:
            self.works.append(decision.work)
        if at_once and not decision.records:
            self._done(decision)
            return
        self._waiting.append((end_offset, decision))
        self.check()
        if self.replicates:
            self.replicate()

    def replicate(self) -> None:
        """Let the high watermark reach the end of the log."""
        self.high_watermark = len(self.log)
        self.shard.committed_up_to(self.high_watermark)
        while self._waiting and self._waiting[0][0] <= self.high_watermark:
            self._done(self._waiting.popleft()[1])

    def commit_in_time_failed(self, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        """Let the time be over in which what waits should have been committed."""
        late, self._waiting = self._waiting, deque()
        for _, decision in late:
            for ticket, _ in decision.answers:
                self.answers[ticket] = KafkaError(error)
        for _, decision in late:
            if decision.event is not None:
                refused = self.shard.refused(decision.event, KafkaError(error), self.now_ms)
                self.carry_out(refused, at_once=True)

    def work(self) -> None:
        """Do all that is to be computed beside the event loop."""
        works, self.works = self.works, []
        for event, run in works:
            self.carry_out(self.shard.worked(event, run(), self.now_ms))

    def advance(self, delay_ms: int) -> None:
        """Let time pass; timers fire in order."""
        end_ms = self.now_ms + delay_ms
        while self.timers:
            key = min(self.timers, key=lambda each: (self.timers[each], repr(each)))
            if self.timers[key] > end_ms:
                break
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.carry_out(self.shard.timer(key, self.now_ms))
        self.now_ms = end_ms

    def hang_up(self, ticket: Ticket) -> None:
        """Close the connection on which a request is parked."""
        self.carry_out(self.shard.connection_closed(ticket, self.now_ms))

    def fail_over(self, *, keeps: str = "written") -> Bench:
        """Return the next leader's bench, with all that was written, or only what is committed."""
        log = self.log if keeps == "written" else self.log[: self.high_watermark]
        return Bench(self.settings, self.topics, log, self.now_ms)

    def waiting(self) -> set[Ticket]:
        """Return the tickets whose answers wait for the high watermark."""
        return {each for _, decision in self._waiting for each, _ in decision.answers}

    def check(self) -> None:
        """Check what holds at all times."""
        for record, end_offset in self.log[self._replayed :]:
            changes = changes_of(record, self._replayed, self._replay.written)
            self._replay.write(end_offset, changes)
            self._replayed += 1
        assert self.shard.tables.written == self._replay.written
        parked = self.shard.parked()
        assert len(set(parked)) == len(parked)
        assert not set(parked) & (self.answers.keys() | self.waiting())

    def _done(self, decision: GroupDecision) -> None:
        self._send(decision)
        if decision.event is not None:
            self.carry_out(self.shard.committed(decision.event, self.now_ms))

    def _send(self, decision: GroupDecision) -> None:
        for ticket, response in decision.answers:
            assert ticket not in self.answers
            self.answers[ticket] = response


def table_of(log: list[tuple[int, GroupRecord]]) -> Table:
    """Return what a log says, record by record."""
    tables = Tables()
    for offset, record in log:
        tables.write(offset + 1, changes_of(record, offset, tables.written))
    return tables.written


def compacted(log: list[tuple[int, GroupRecord]], below: int) -> list[tuple[int, GroupRecord]]:
    """Return what is left of a log whose records below an offset were compacted."""
    newest = {record.key: offset for offset, record in log if offset < below}
    return [
        (offset, record)
        for offset, record in log
        if offset >= below or newest[record.key] == offset
    ]


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


def assignment(*numbers: int) -> bytes:
    """Return partitions of topic `t` as the leader of a classic group assigns them."""
    given = TopicPartitions(topic="t", partitions=numbers)
    return encode(ConsumerProtocolAssignment(assigned_partitions=(given,)), 3)


def assigned(data: bytes) -> tuple[int, ...]:
    """Return the partitions of topic `t` in an assignment."""
    partitions = decode(ConsumerProtocolAssignment, data)[0].assigned_partitions if data else ()
    return tuple(number for each in partitions if each.topic == "t" for number in each.partitions)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


RANGE = (JoinProtocol("range", subscription("t", version=0)),)


def join(member_id: str = "", *, group: str = "g", **fields: Any) -> JoinGroup:
    """Return a join of a consumer."""
    values: dict[str, Any] = {
        "version": 9,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocols": RANGE,
        "client_id": "c",
        "client_host": "/127.0.0.1",
    }
    return JoinGroup(group_id=group, member_id=member_id, **values | fields)


def sync(
    member_id: str, generation: int, group: str = "g", *, version: int = 3, **given: bytes
) -> SyncGroup:
    """Return a request for an assignment; `given` is by the member ids' names in the test."""
    return SyncGroup(
        version=version,
        group_id=group,
        member_id=member_id,
        generation_id=generation,
        assignments=tuple(SyncedAssignment(*each) for each in given.items()),
    )


def lead(member_id: str, generation: int, given: Mapping[str, bytes], **fields: Any) -> SyncGroup:
    """Return the leader's request for an assignment."""
    return SyncGroup(
        version=fields.pop("version", 3),
        group_id="g",
        member_id=member_id,
        generation_id=generation,
        assignments=tuple(SyncedAssignment(*each) for each in given.items()),
        **fields,
    )


def beat(member_id: str, generation: int, instance: str | None = None) -> Heartbeat:
    """Return a heartbeat."""
    return Heartbeat(
        group_id="g", member_id=member_id, generation_id=generation, group_instance_id=instance
    )


def leave(*members: str, version: int = 5, **fields: Any) -> LeaveGroup:
    """Return a request to leave."""
    leaving = tuple(LeavingMember(each, **fields) for each in members)
    return LeaveGroup(version=version, group_id="g", members=leaving)


def commit(
    offset: int, *, topic: str = "t", partition: int = 0, group: str = "g", **fields: Any
) -> OffsetCommit:
    """Return a commit of one offset."""
    metadata = fields.pop("metadata", "")
    topic_id = fields.pop("topic_id", TopicId(named_uuid(topic)))
    partitions = (CommitPartition(partition, offset, 3, metadata),)
    return OffsetCommit(
        group_id=group, topics=(CommitTopic(topic, partitions, topic_id),), **fields
    )


def fetched(bench: Bench, group: str = "g", **fields: Any) -> dict[tuple[str, int], int]:
    """Return all offsets of a group that a client is told."""
    response = bench.answer(OffsetFetch(group_id=group, **fields))
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in response.topics
        for partition in topic.partitions
    }


def joined(bench: Bench, *names: str, group: str = "g", **fields: Any) -> list[str]:
    """Let members join an empty group, and return their ids when the generation has begun."""
    tickets = [bench.ask(join(group=group, version=3, client_id=name, **fields)) for name in names]
    while any(ticket not in bench.answers for ticket in tickets):
        bench.advance(bench.settings.initial_rebalance_delay_ms or 1)
    return [bench.answers[ticket].member_id for ticket in tickets]


def stable(bench: Bench, *names: str, group: str = "g", **fields: Any) -> list[str]:
    """Let members join and get their assignments, which are their names."""
    members = joined(bench, *names, group=group, **fields)
    generation = 1
    given = tuple(
        SyncedAssignment(member, name.encode()) for member, name in zip(members, names, strict=True)
    )
    request = sync(members[0], generation, group)
    for member in members[1:]:
        bench.ask(sync(member, generation, group))
    bench.ask(
        SyncGroup(
            version=3,
            group_id=group,
            generation_id=request.generation_id,
            member_id=members[0],
            assignments=given,
        )
    )
    return members


def zero_topic() -> TopicId:
    """Return the id of a topic that has none."""
    return TopicId(ZERO_UUID)
