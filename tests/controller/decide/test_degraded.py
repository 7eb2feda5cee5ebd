"""Directories that are full or slow: soft state that makes elections choose better."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from controller.decide.brokers.brokers import fence_stale_broker, late_heartbeat
from controller.decide.heartbeats import Heartbeats
from controller.decide.partitions.elections import balance_preferred_leaders, elect_leaders
from controller.decide.partitions.initial_partitions import usable_brokers
from controller.decide.partitions.placement import place
from jbodlab.controller_api.requests import BrokerHeartbeatResponse, ElectLeadersRequest
from jbodlab.metadata.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId
from tests.builders import (
    SESSION_TIMEOUT_MS,
    PureController,
    brokers,
    directories,
    named_uuid,
)

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


def test_leaders_leave_a_slow_directory_at_once_and_stay_in_the_isr() -> None:
    controller = cluster()

    answer = beat(controller, 1, slow="A1")

    assert not answer.is_fenced
    assert controller.written() == [change("foo", leader=TWO)]
    assert controller.partition("foo").isr == brokers(1, 2, 3)
    assert controller.partition("bar").leader == 1


def test_a_repeated_heartbeat_writes_nothing() -> None:
    controller = cluster()
    beat(controller, 1, slow="A1", full="A2")

    beat(controller, 1, slow="A1", full="A2")

    assert controller.written() == []


def test_leaders_of_a_tolerated_directory_stay_but_nobody_new_comes() -> None:
    controller = cluster()

    beat(controller, 1, slow="A1", tolerated="A1")
    assert controller.written() == []
    beat(controller, 2, slow="B1", tolerated="B1")
    controller.heartbeat(1, want_fence=True)

    assert controller.partition("foo").leader == 3
    assert controller.partition("bar").leader == 2


def test_a_replica_in_a_full_directory_leaves_isr_and_leadership() -> None:
    controller = cluster()

    beat(controller, 1, full="A1")
    assert controller.written() == [change("foo", isr=brokers(2, 3), leader=TWO)]
    beat(controller, 3, full="C1,C2")

    assert controller.written() == [
        change("foo", isr=brokers(2)),
        change("bar", isr=brokers(1, 2)),
    ]


def test_the_last_member_stays_in_the_isr_however_full_its_directory() -> None:
    controller = cluster()
    controller.alter_isr(1, "foo", (1,))

    beat(controller, 1, full="A1")

    assert controller.written() == []
    assert (controller.partition("foo").leader, controller.partition("foo").isr) == (1, (1,))


def test_where_every_directory_is_full_nobody_leaves_the_isr() -> None:
    # Nothing is written there, so nobody falls behind.
    controller = cluster()
    beat(controller, 3, full="C1")
    beat(controller, 2, full="B1")
    controller.replay(change("foo", isr=brokers(2, 3), leader=TWO))

    beat(controller, 2, full="B1")
    assert controller.written() == []
    beat(controller, 2)

    beat(controller, 3, full="C1")
    assert controller.written() == [change("foo", isr=brokers(2))]


def test_of_two_full_replicas_one_stays() -> None:
    controller = cluster()
    controller.create("pair", (1, 2))
    controller.assign(1, pair="A1")
    controller.assign(2, pair="B1")

    beat(controller, 2, full="B1")
    assert controller.partition("pair").isr == brokers(1)
    beat(controller, 1, full="A1")

    assert controller.partition("pair").isr == brokers(1)
    assert controller.partition("pair").leader == 1


def test_a_full_leader_hands_over_to_a_slow_one_if_nobody_is_better() -> None:
    controller = cluster()
    controller.alter_isr(1, "foo", (1, 2))
    beat(controller, 2, slow="B1")

    beat(controller, 1, full="A1")

    assert controller.written() == [change("foo", isr=brokers(2), leader=TWO)]


def test_a_leader_in_a_full_directory_that_is_tolerated_stays_in_the_isr() -> None:
    controller = cluster()

    beat(controller, 1, full="A1", tolerated="A1")

    assert controller.written() == []


def test_a_slow_leader_has_nowhere_better_to_go() -> None:
    controller = cluster()
    beat(controller, 2, slow="B1")
    beat(controller, 3, slow="C1")

    beat(controller, 1, slow="A1")

    assert controller.written() == []
    assert controller.partition("foo").leader == 1


def test_a_degraded_replica_is_better_than_none() -> None:
    controller = cluster()
    controller.alter_isr(1, "foo", (1, 2))
    beat(controller, 2, slow="B1")

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.partition("foo").leader == 2


def test_elections_pass_over_degraded_replicas_and_else_keep_the_order() -> None:
    controller = cluster()
    beat(controller, 2, slow="B1")

    controller.heartbeat(1, offline_log_dirs="A1,A2", want_fence=True)

    assert controller.partition("foo").leader == 3
    assert controller.partition("bar").leader == 2


def test_a_clean_election_of_a_slow_replica_goes_before_an_unclean_one() -> None:
    controller = cluster()
    controller.create("risky", (1, 2, 3), configs=(("unclean.leader.election.enable", "true"),))
    for broker, name in ((1, "A1"), (2, "B1"), (3, "C1")):
        controller.assign(broker, risky=name)
    controller.alter_isr(1, "risky", (1, 2))
    beat(controller, 2, slow="B1")

    controller.heartbeat(1, want_fence=True)
    assert (controller.partition("risky").leader, controller.partition("risky").isr) == (2, (2,))
    controller.alter_isr(2, "risky", (2,))
    controller.register(1, "A1,A2")
    beat(controller, 1, slow="A1")
    controller.heartbeat(2, want_fence=True)

    # Of those outside of the ISR, the one whose directory is well.
    assert controller.partition("risky").leader == 3


@pytest.mark.parametrize("kind", ["operator", "balancing"])
def test_preferred_elections_do_not_move_leaders_into_a_degraded_directory(kind: str) -> None:
    controller = cluster()
    beat(controller, 1, slow="A1", tolerated="A1")
    controller.heartbeat(1, want_fence=True)
    beat(controller, 1, slow="A1", tolerated="A1")
    for name in ("foo", "bar"):
        leader = controller.partition(name).leader
        controller.alter_isr(leader, name, (1, 2, 3))

    if kind == "operator":
        request = ElectLeadersRequest(election_type=0, topic_partitions=None)
        answer = controller.ask(elect_leaders, request)
        assert [each.error_code for each in answer.results] == [
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ErrorCode.NONE,
        ]
    else:
        controller.run(balance_preferred_leaders)

    assert controller.partition("foo").leader == 2
    assert controller.partition("bar").leader == 1


def test_a_preferred_election_takes_a_degraded_replica_where_nobody_else_can_lead() -> None:
    controller = cluster()
    controller.alter_isr(1, "foo", (1,))
    controller.heartbeat(1, want_fence=True)
    assert controller.partition("foo").leader == -1

    beat(controller, 1, slow="A1")

    assert controller.partition("foo").leader == 1


def test_unfencing_knows_of_the_directories_that_its_own_heartbeat_calls_degraded() -> None:
    controller = cluster()
    controller.alter_isr(1, "foo", (1, 2))
    # Nobody leads, and both could if 1 were there.
    controller.replay(change("foo", leader=BrokerId(-1)))
    controller.heartbeat(1, want_fence=True)
    controller.replay(change("foo", isr=brokers(1, 2), leader=BrokerId(-1)))

    beat(controller, 1, slow="A1")

    assert [type(record) for record in controller.written()] == [
        BrokerRegistrationChangeRecord,
        PartitionChangeRecord,
    ]
    assert controller.partition("foo").leader == 2


def test_relief_is_judged_by_what_the_unfencing_has_elected() -> None:
    controller = cluster()
    controller.heartbeat(1, want_fence=True)
    controller.replay(change("foo", isr=brokers(1, 2), leader=BrokerId(-1)))
    epoch = controller.partition("foo").leader_epoch

    beat(controller, 1, full="A1")

    assert controller.written()[1:] == [
        change("foo", leader=TWO),
        change("foo", isr=brokers(2)),
    ]
    assert controller.partition("foo").leader_epoch == epoch + 1


def test_an_isr_member_to_hand_over_to_may_turn_up_later() -> None:
    controller = cluster()
    controller.alter_isr(1, "foo", (1,))
    beat(controller, 1, full="A1")

    # Such a leader hands over as soon as somebody has caught up.
    answer = controller.alter_isr(1, "foo", (1, 3))
    assert answer.results[0].error_code == ErrorCode.NEW_LEADER_ELECTED
    assert controller.partition("foo").leader == 3
    beat(controller, 1, full="A1")

    assert controller.partition("foo").isr == brokers(3)


def test_a_directory_that_recovers_relieves_another_one_at_the_next_heartbeat() -> None:
    controller = cluster()
    beat(controller, 2, slow="B1")
    beat(controller, 3, slow="C1")
    beat(controller, 1, slow="A1")
    controller.heartbeat(3)

    beat(controller, 1, slow="A1")

    assert controller.written() == [change("foo", leader=THREE)]


def test_a_replica_in_a_full_directory_cannot_join_the_isr_but_may_stay_in_it() -> None:
    controller = cluster()
    beat(controller, 3, full="C1")
    joining = controller.alter_isr(1, "foo", (1, 2, 3))
    beat(controller, 3)
    again = controller.alter_isr(1, "foo", (1, 2, 3))
    beat(controller, 3, slow="C1")
    staying = controller.alter_isr(1, "foo", (1, 3))

    assert joining.results[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    assert again.results[0].error_code == ErrorCode.NONE
    assert staying.results[0].error_code == ErrorCode.NONE


def test_the_last_member_may_go_on_proposing_itself_though_its_directory_is_full() -> None:
    controller = cluster()
    controller.alter_isr(1, "foo", (1,))
    beat(controller, 1, full="A1")

    answer = controller.alter_isr(1, "foo", (1, 2))

    assert answer.results[0].error_code == ErrorCode.NEW_LEADER_ELECTED


def test_new_partitions_are_led_from_directories_that_are_well() -> None:
    controller = PureController()
    for broker, name in ((1, "A1"), (2, "B1"), (3, "C1")):
        controller.add_broker(broker, name)
    beat(controller, 1, slow="A1")
    beat(controller, 2, full="B1")

    controller.create("foo", (1, 2, 3))
    controller.create("alone", (2,))

    assert controller.partition("foo").isr == brokers(1, 3)
    assert controller.partition("foo").leader == 3
    assert (controller.partition("alone").leader, controller.partition("alone").isr) == (2, (2,))


def test_a_replica_not_assigned_yet_counts_as_degraded_when_all_directories_are() -> None:
    controller = cluster()
    controller.create("new", (1, 2))

    beat(controller, 1, slow="A1")
    assert controller.partition("new").leader == 1
    beat(controller, 1, slow="A1,A2")

    assert controller.partition("new").leader == 2


def test_an_assignment_into_a_slow_directory_gives_leadership_away() -> None:
    controller = cluster()
    beat(controller, 1, slow="A2")

    controller.assign(1, foo="A2")

    assert controller.partition("foo").leader == 2


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


def test_one_heartbeat_changes_each_partition_once() -> None:
    controller = cluster()
    epochs = {name: controller.partition(name).partition_epoch for name in ("foo", "bar")}

    beat(controller, 1, offline_log_dirs="A1", full="A2")

    for name, epoch in epochs.items():
        assert controller.partition(name).isr == brokers(2, 3)
        assert controller.partition(name).leader == 2
        assert controller.partition(name).partition_epoch == epoch + 1


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


def test_a_broker_on_its_way_out_is_not_handed_anything() -> None:
    controller = cluster()
    beat(controller, 2, want_shut_down=True, slow="B1")

    beat(controller, 1, slow="A1")

    assert controller.partition("foo").leader == 3


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
