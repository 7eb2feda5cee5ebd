from __future__ import annotations

import pytest

from controller.decide.partitions.elections import (
    balance_preferred_leaders,
    elect_leaders,
    elect_unclean_leaders,
)
from controller.limits import ELECTIONS_PER_RUN_MAX
from jbodlab.controller_api.requests import ElectLeadersRequest, ElectLeadersResponse
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId
from tests.builders import PureController, brokers


def cluster() -> PureController:
    controller = PureController()
    controller.add_broker(1, "A1")
    controller.add_broker(2, "B1")
    return controller


def elect(controller: PureController, kind: int, *pairs: tuple[str, int]) -> ElectLeadersResponse:
    request = ElectLeadersRequest(election_type=kind, topic_partitions=pairs or None)
    return controller.ask(elect_leaders, request)


def moved_to_two(controller: PureController, *names: str) -> None:
    """Let broker 2 lead partitions that broker 1 should lead."""
    for name in names:
        controller.create(name, (1, 2))
    controller.heartbeat(1, want_fence=True)
    controller.heartbeat(1)
    for name in names:
        controller.alter_isr(2, name, (1, 2))


@pytest.mark.parametrize("kind", [2, -1])
def test_unknown_election_type(kind: int) -> None:
    assert elect(cluster(), kind).error_code == ErrorCode.INVALID_REQUEST


def test_preferred_election() -> None:
    controller = cluster()
    moved_to_two(controller, "foo")
    controller.create("good", (1, 2))

    answer = elect(controller, 0, ("foo", 0), ("good", 0), ("foo", 5), ("nope", 0), ("foo", 0))

    assert [(each.topic, each.partition, each.error_code) for each in answer.results] == [
        ("foo", 0, ErrorCode.NONE),
        ("good", 0, ErrorCode.ELECTION_NOT_NEEDED),
        ("foo", 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        # Named twice: elected once.
        ("foo", 0, ErrorCode.ELECTION_NOT_NEEDED),
    ]
    assert [each.error_message for each in answer.results[2:4]] == [
        "No such partition as foo-5",
        "No such topic as nope",
    ]
    assert controller.partition("foo").leader == 1
    assert len(controller.records) == 1


def test_all_partitions_leave_those_out_that_are_led_already() -> None:
    controller = cluster()
    moved_to_two(controller, "foo")
    controller.create("good", (1, 2))

    answer = elect(controller, 0)

    assert [(each.topic, each.error_code) for each in answer.results] == [("foo", ErrorCode.NONE)]
    assert answer.settled_topics == ("good",)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_nobody_to_elect(kind: int, code: ErrorCode) -> None:
    controller = cluster()
    controller.create("foo", (1,))
    controller.heartbeat(1, want_fence=True)

    assert [each.error_code for each in elect(controller, kind, ("foo", 0)).results] == [code]


def test_an_explicit_unclean_election_does_not_ask_the_topic() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.alter_isr(1, "foo", (1,))
    controller.heartbeat(1, want_fence=True)

    answer = elect(controller, 1, ("foo", 0))

    assert answer.results[0].error_code == ErrorCode.NONE
    assert controller.partition("foo").isr == brokers(2)
    assert controller.partition("foo").leader_recovery_state == 1
    recovered = controller.alter_isr(2, "foo", (2,))
    assert recovered.results[0].leader_recovery_state == 0


def test_balancing_gives_leadership_back() -> None:
    controller = cluster()
    moved_to_two(controller, "foo", "bar")

    assert controller.run(balance_preferred_leaders) is False
    assert controller.partition("foo").leader == controller.partition("bar").leader == 1
    assert controller.run(balance_preferred_leaders) is False
    assert controller.records == ()


def test_one_run_of_balancing_is_limited() -> None:
    controller = cluster()
    controller.create("big", *[(1, 2)] * (ELECTIONS_PER_RUN_MAX + 5))
    controller.create("lead", (2, 1))
    controller.heartbeat(1, want_fence=True)
    controller.heartbeat(1)
    partitions = controller.state.image.topics.by_name["big"].partitions
    for index in partitions:
        controller.alter_isr(2, "big", (1, 2), partition=index)

    runs = [(controller.run(balance_preferred_leaders), len(controller.records)) for _ in range(3)]

    assert runs == [(True, ELECTIONS_PER_RUN_MAX), (False, 5), (False, 0)]


def test_the_unclean_check_sees_settings_that_came_after_the_failure() -> None:
    controller = cluster()
    for name in ("loose", "strict"):
        controller.create(name, (1, 2))
        controller.alter_isr(1, name, (1,))
    controller.heartbeat(1, want_fence=True)
    assert controller.partition("loose").leader == -1
    controller.replay(
        ConfigRecord(
            resource_type=2,
            resource_name="loose",
            name="unclean.leader.election.enable",
            value="true",
        )
    )

    assert controller.run(elect_unclean_leaders) is False

    assert controller.partition("loose").leader == 2
    assert controller.partition("strict").leader == -1


@pytest.mark.parametrize(
    ("resource", "static", "expected"),
    [
        (None, {}, False),
        (None, {"unclean.leader.election.enable": "true"}, True),
        ((4, ""), {}, True),
        ((4, "100"), {}, True),
        ((4, "1"), {}, False),
        ((2, "foo"), {"unclean.leader.election.enable": "false"}, True),
    ],
)
def test_where_unclean_election_is_looked_up(
    resource: tuple[int, str] | None, static: dict[str, str], expected: bool
) -> None:
    controller = PureController(static_configs=static)
    if resource is not None:
        controller.replay(
            ConfigRecord(
                resource_type=resource[0],
                resource_name=resource[1],
                name="unclean.leader.election.enable",
                value="TRUE",
            )
        )

    assert controller.state.unclean_election_enabled("foo") is expected
    assert BrokerId(100) == controller.state.settings.node_id


def test_an_unclean_election_is_not_needed_where_somebody_leads() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.heartbeat(1, want_fence=True)

    answer = elect(controller, 1, ("foo", 0), ("foo", 5), ("none", 0))

    assert [each.error_code for each in answer.results] == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_an_unclean_election_needs_a_live_replica_in_an_online_directory() -> None:
    controller = PureController()
    controller.add_broker(1, "A1,A2")
    controller.add_broker(2, "B1,B2")
    controller.create("foo", (1, 2))
    controller.assign(1, foo="A1")
    controller.assign(2, foo="B1")
    controller.alter_isr(1, "foo", (1,))
    controller.heartbeat(1, offline_log_dirs="A1")
    controller.heartbeat(2, offline_log_dirs="B1")

    answer = elect(controller, 1, ("foo", 0))

    assert answer.results[0].error_code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert controller.records == ()


def test_an_empty_list_of_elections_is_answered() -> None:
    controller = cluster()

    request = ElectLeadersRequest(election_type=0, topic_partitions=())
    answer = controller.ask(elect_leaders, request)

    assert (answer.error_code, answer.results) == (ErrorCode.NONE, ())
    assert controller.records == ()
