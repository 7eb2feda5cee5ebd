"""Rules that the text scenario `isr_and_elections.txt` does not show."""

from __future__ import annotations

import pytest

from controller.decide.partitions.elections import balance_preferred_leaders, elect_leaders
from controller.limits import ELECTIONS_PER_RUN_MAX
from jbodlab.controller_api.requests import ElectLeadersRequest, ElectLeadersResponse
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId
from tests.builders import PureController


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


def test_all_partitions_leave_those_out_that_are_led_already() -> None:
    controller = cluster()
    moved_to_two(controller, "foo")
    controller.create("good", (1, 2))

    answer = elect(controller, 0)

    assert [(each.topic, each.error_code) for each in answer.results] == [("foo", ErrorCode.NONE)]
    assert answer.settled_topics == ("good",)


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


def test_an_empty_list_of_elections_is_answered() -> None:
    controller = cluster()

    request = ElectLeadersRequest(election_type=0, topic_partitions=())
    answer = controller.ask(elect_leaders, request)

    assert (answer.error_code, answer.results) == (ErrorCode.NONE, ())
    assert controller.records == ()
