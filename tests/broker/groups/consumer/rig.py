"""Members of consumer groups, and of classic groups that become one, on a `Bench`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.coordination.core import Ticket
from broker.groups.consumer.group import ConsumerGroup, CurrentAssignment
from broker.groups.consumer.replay import group_of
from broker.groups.decision import GroupDecision
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
from jbodlab.group_records.records import GroupRecord
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicIdPartition
from tests.broker.groups.bench import Bench, FakeTopics, subscription

GROUP = "g"
REBALANCE_MS = 30_000


class Rig(Bench):
    """A bench without waits before a rebalance; answers with an error are its code."""

    def __init__(self, topics: FakeTopics | None = None, **settings: Any) -> None:
        self.last = GroupDecision()
        defaults = {"consumer_assignment_interval_ms": 0, "initial_rebalance_delay_ms": 0}
        values = GroupSettings(**{**defaults, **settings})
        super().__init__(values, topics or FakeTopics(t=12))

    @property
    def records(self) -> list[GroupRecord]:
        """Records in the log."""
        return [record for record, _ in self.log]

    def answer(self, request: Request) -> Any:
        """Return the answer, or the code of an error."""
        response = super().answer(request)
        return response.code if isinstance(response, KafkaError) else response

    def carry_out(
        self, decision: GroupDecision, ticket: Ticket | None = None, *, at_once: bool = False
    ) -> None:
        """Do what a decision says, and keep it as the last one."""
        super().carry_out(decision, ticket, at_once=at_once)
        self.last = decision

    def load(self, records: Iterable[GroupRecord] | None = None) -> None:
        """Go on as the next leader, which has the log, or these records."""
        log = self.records if records is None else [*records]
        configs, tickets = self.configs, self.next_ticket
        ended = [(record, offset) for offset, record in enumerate(log, 1)]
        Bench.__init__(
            self, self.settings, self.topics, ended, self.now_ms, replicates=self.replicates
        )
        self.configs, self.next_ticket = configs, tickets

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
        return self.answer(
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
        return self.answer(classic_join(member_id, **fields))

    def classic_sync(self, member_id: str, generation: int, **fields: Any) -> Any:
        return self.answer(
            SyncGroup(
                group_id=GROUP,
                member_id=member_id,
                generation_id=generation,
                **{"protocol_type": "consumer", "protocol_name": "range", **fields},
            )
        )

    def classic_beat(self, member_id: str, generation: int, **fields: Any) -> Any:
        beat = Heartbeat(group_id=GROUP, member_id=member_id, generation_id=generation, **fields)
        response = self.answer(beat)
        return getattr(response, "error_code", response)


def named(partitions: Iterable[TopicIdPartition]) -> tuple[OwnedPartitions, ...]:
    return tuple(OwnedPartitions(each.topic_id, (each.partition,)) for each in sorted(partitions))


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
