"""Causes that stand in a later batch than what they did."""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.metadata.records.cluster_records import UnregisterBrokerRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.vocabulary.ids import TopicId
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.small_logs import TOPIC, broker_change, change, tables_of

DIRECTORIES = {broker: (uid(broker * 10), uid(broker * 10 + 1)) for broker in (1, 2, 3)}
FIRST = [DIRECTORIES[broker][0] for broker in (1, 2, 3)]
CLUSTER: list[Record] = [
    *(register(broker, DIRECTORIES[broker]) for broker in (1, 2, 3)),
    TopicRecord(name="orders", topic_id=TopicId(TOPIC)),
    partition_record(TOPIC, 0, directories=FIRST),
]


def causes(*batches: Sequence[Record]) -> tuple[list[object], list[object]]:
    """Return the causes of changes of the leader, and of the ISR."""
    rows = tables_of(["leadership", "isr_changes"], [CLUSTER, *batches])
    leaders = [row["cause"] for row in rows["leadership"] if row["cause"] != "created"]
    return leaders, [row["cause"] for row in rows["isr_changes"]]


def test_a_leader_that_left_the_isr_was_lost_by_what_follows() -> None:
    gone = change(isr=(2, 3), leader=2)

    assert causes([gone], [broker_change(1, fenced=1)]) == (["broker"], ["broker"])
    assert causes([gone], [broker_change(1, in_controlled_shutdown=1)]) == (
        ["controlled_shutdown"],
        ["controlled_shutdown"],
    )
    unregistered = UnregisterBrokerRecord(broker_id=1, broker_epoch=0)  # type: ignore[arg-type]
    assert causes([gone], [unregistered]) == (["unregistered"], ["broker"])


def test_a_leader_that_stays_in_sync_was_only_replaced() -> None:
    moved = change(leader=2)
    back = change(leader=1)

    assert causes([moved], [back], [broker_change(2, fenced=1)]) == (["unknown", "preferred"], [])


def test_what_another_broker_suffers_explains_nothing() -> None:
    assert causes([change(isr=(1, 2))], [broker_change(2, fenced=1)]) == ([], ["follower"])


def test_who_is_elected_where_nobody_led_is_in_sync_by_that() -> None:
    # As with ELR: the last replica in sync leaves the ISR, too.
    lost = change(isr=(), leader=-1, eligible_leader_replicas=(1,))
    back = change(isr=(1,), leader=1, eligible_leader_replicas=())

    leaders, replicas = causes([change(isr=(1,))], [lost, broker_change(1, fenced=1)], [back])
    assert leaders == ["broker", "recovered"]
    assert replicas == ["follower", "broker", "elected"]
