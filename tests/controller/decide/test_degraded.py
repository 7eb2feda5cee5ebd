"""Rules of full and slow directories that `degraded_directories.txt` does not show."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from controller.decide.brokers.brokers import fence_stale_broker, late_heartbeat
from controller.decide.heartbeats import Heartbeats
from controller.decide.partitions.initial_partitions import usable_brokers
from controller.decide.partitions.placement import place
from jbodlab.controller_api.requests import BrokerHeartbeatResponse
from jbodlab.metadata.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from tests.builders import SESSION_TIMEOUT_MS, PureController, brokers, directories, named_uuid

ONE, TWO, THREE = brokers(1, 2, 3)


def beat(
    controller: PureController,
    broker: int,
    *,
    slow: str = "",
    full: str = "",
    tolerated: str = "",
    **fields: Any,
) -> BrokerHeartbeatResponse:
    """Send a heartbeat with degraded directories."""
    return controller.heartbeat(
        broker,
        degraded_log_dirs=directories(f"{slow},{full}"),
        full_log_dirs=directories(full),
        tolerated_log_dirs=directories(tolerated),
        **fields,
    )


def cluster(level: int = 30) -> PureController:
    """Three brokers; foo and bar are led by 1, where foo lies in A1 and bar in A2."""
    controller = PureController(level=level)
    for broker, dirs in ((1, "A1,A2"), (2, "B1,B2"), (3, "C1,C2")):
        controller.add_broker(broker, dirs)
    for name, number in (("foo", 1), ("bar", 2)):
        controller.create(name, (1, 2, 3))
        for broker, letter in ((1, "A"), (2, "B"), (3, "C")):
            controller.assign(broker, **{name: f"{letter}{number}"})
    return controller


def change(name: str, **fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        partition_id=0,
        topic_id=named_uuid(name),  # type: ignore[arg-type]
        **fields,
    )


def test_brokers_whose_directories_are_all_full_come_last_in_placement() -> None:
    controller = cluster()
    beat(controller, 1, full="A1,A2")
    beat(controller, 2, full="B1")

    places = place(usable_brokers(controller.state), 20, 2, controller.random)
    assert {broker for replicas in places for broker in replicas} == {2, 3}
    beat(controller, 2, full="B1,B2")
    beat(controller, 3, full="C1,C2")
    places = place(usable_brokers(controller.state), 20, 1, controller.random)

    assert {broker for replicas in places for broker in replicas} == {1, 2, 3}


def test_a_heartbeat_without_the_list_clears_it() -> None:
    controller = cluster()
    beat(controller, 1, slow="A1", full="A2")
    assert controller.state.degraded.is_full(ONE, *directories("A2"))

    controller.heartbeat(1)

    assert controller.state.degraded.by_broker == {}


def test_a_late_heartbeat_leaves_it_as_it_is() -> None:
    controller = cluster()
    beat(controller, 1, slow="A1")
    before = controller.state.degraded

    controller.ask(late_heartbeat, controller.sign_of_life(1))

    assert controller.state.degraded == before


@pytest.mark.parametrize("how", ["fenced", "timeout", "new process", "failover", "unregistered"])
def test_it_dies_with_the_session(how: str) -> None:
    controller = cluster()
    beat(controller, 1, slow="A1", full="A2")
    if how == "fenced":
        beat(controller, 1, slow="A1", full="A2", want_fence=True)
    elif how == "timeout":
        controller.advance(SESSION_TIMEOUT_MS + 1)
        assert controller.run(fence_stale_broker) == 1
    elif how == "new process":
        controller.advance(SESSION_TIMEOUT_MS + 1)
        assert controller.register(1, "A1,A2").error_code == ErrorCode.NONE
    elif how == "unregistered":
        controller.state = replace(
            controller.state, heartbeats=controller.state.heartbeats.without(ONE)
        )
    else:
        known = controller.state.image.cluster.brokers
        controller.state = replace(
            controller.state, heartbeats=Heartbeats.at_activation(known, 9_000, 5)
        )

    assert controller.state.degraded.by_broker == {}


def test_a_new_controller_moves_no_leader_before_it_knows_where_disks_are_full() -> None:
    controller = cluster()
    known = controller.state.image.cluster.brokers
    controller.state = replace(
        controller.state,
        heartbeats=Heartbeats.at_activation(known, 9_000, controller.now_ms, interval_ms=2_000),
    )

    beat(controller, 1, full="A1")
    assert controller.written() == []
    beat(controller, 2)
    beat(controller, 3)
    beat(controller, 1, full="A1")

    assert controller.written() == [change("foo", isr=brokers(2, 3), leader=TWO)]


def test_an_offline_directory_is_not_degraded_besides() -> None:
    controller = cluster()

    beat(controller, 1, full="A1", offline_log_dirs="A1")

    assert controller.written() == [
        change("foo", isr=brokers(2, 3), leader=TWO),
        BrokerRegistrationChangeRecord(
            broker_id=ONE, broker_epoch=controller.epoch(1), log_dirs=directories("A2")
        ),
    ]
    assert controller.state.degraded.by_broker == {}


def test_ids_that_are_not_the_brokers_mean_nothing() -> None:
    controller = cluster()

    beat(controller, 1, slow="B1,X1,UNASSIGNED,LOST,MIGRATING", full="C1", tolerated="A1")

    assert controller.written() == []
    assert controller.state.degraded.by_broker == {}


def test_directories_are_never_degraded_below_their_level() -> None:
    controller = cluster(level=16)

    beat(controller, 1, slow="A1,MIGRATING", full="A2")

    assert controller.written() == []
    assert controller.state.degraded.by_broker == {}


def test_thousands_of_leaders_move_in_one_heartbeat() -> None:
    controller = PureController()
    for broker, name in ((1, "A1"), (2, "B1")):
        controller.add_broker(broker, name)
    for number in range(3):
        controller.create(f"t{number}", *([(1, 2)] * 3_000))

    beat(controller, 1, full="A1")

    assert len(controller.written()) == 9_000
    assert {controller.partition(f"t{n}", i).leader for n in range(3) for i in range(3_000)} == {2}


def test_a_change_is_an_event_in_the_log_and_a_repetition_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller = cluster()
    with caplog.at_level(logging.INFO, "controller.decide.brokers.relief"):
        for _ in range(2):
            beat(controller, 1, slow="A1")
        controller.heartbeat(1)

    said = [record for record in caplog.records if "degraded" in record.message]
    assert [record.__dict__["partitions_changed"] for record in said] == [1, 0]
    assert said[1].__dict__["degraded"] == "none"


def test_a_heartbeat_decides_without_changing_anything() -> None:
    controller = cluster()
    before = controller.state
    request = replace(controller.sign_of_life(1), degraded_log_dirs=directories("A1"))

    from controller.decide.brokers.brokers import heartbeat

    result = partial(heartbeat, request)(before, controller.now_ms)

    assert len(result.records) == 1
    assert before.degraded.by_broker == {}
