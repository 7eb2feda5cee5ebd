"""Answers about a cluster of somebody else, of which nothing but its picture is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jbodlab.cli.lab_state import NodeState
from jbodlab.picture.cluster_picture import ClusterPicture, PartitionPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition
from lab.api import values
from lab.api.actions import Actions
from lab.api.problems import RequestError
from lab.cluster import layout
from tests.lab.pictures import pictured

T0 = TopicPartition("t", 0)
WHOLE = pictured({T0: (1, 2)}, {Place(1, 1): {}, Place(1, 2): {T0: 20}, Place(2, 1): {T0: 10}})
STATE = layout.foreign(
    "h:1",
    [
        NodeState(role="broker", node_id=one, host="h", port=one, metadata_log_dir="/nowhere")
        for one in (1, 2)
    ],
)


def asked(picture: ClusterPicture = WHOLE) -> Actions:
    return Actions(lambda: STATE, lambda: picture)


def test_a_partition_tells_where_each_of_its_replicas_is() -> None:
    found = asked().get_partition("t", 0)

    assert found.state == "in sync"
    told = [(one.broker, one.directory, one.bytes, one.leads) for one in found.replicas]
    assert told == [(1, "broker-1/2", 20, True), (2, "broker-2/1", 10, False)]


def test_a_partition_tells_who_is_eligible() -> None:
    lost = PartitionPicture(leader=-1, replicas=(1, 2), isr=(), elr=(2,))

    found = asked(replace(WHOLE, partitions={T0: lost})).get_partition("t", 0)

    assert found.state == "no leader"
    assert [one.eligible for one in found.replicas] == [False, True]


def test_health_names_what_is_wrong() -> None:
    lost = PartitionPicture(leader=-1, replicas=(1, 2), isr=())

    assert asked().get_health() == values.Health(status="ok", problems=[])
    found = asked(replace(WHOLE, partitions={T0: lost}, listed=frozenset({1}))).get_health()
    assert found.status == "degraded"
    assert found.problems == ["broker 2 is fenced", "1 partitions have no leader"]


@pytest.mark.parametrize(
    ("ask", "status"),
    [
        (lambda one: one.get_partition("t", 9), 404),
        (lambda one: one.get_topic("other"), 404),
        (lambda one: one.get_broker(9), 404),
        (lambda one: one.get_directory(1, 9), 404),
        (lambda one: one.heal(), 409),
        (lambda one: one.create_fault(values.NewFault(kind="eio", where="broker-1/1")), 409),
        (
            lambda one: one.create_fault(
                values.NewFault(kind="kill", where="broker-1", errno="EIO")
            ),
            409,
        ),
        (lambda one: one.wait(isr="t"), 409),
    ],
)
def test_what_is_not_there_or_cannot_be_done_is_refused(ask, status: int) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RequestError) as refused:
        ask(asked())

    assert refused.value.status == status
