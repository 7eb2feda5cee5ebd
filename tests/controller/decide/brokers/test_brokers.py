"""Rules that the text scenario `heartbeats.txt` does not show."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from controller.decide.brokers.brokers import heartbeat, late_heartbeat
from controller.decide.heartbeats import Heartbeats
from jbodlab.metadata.records.cluster_records import FenceBrokerRecord, UnfenceBrokerRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId
from tests.builders import SESSION_TIMEOUT_MS, PureController

ONE, TWO = BrokerId(1), BrokerId(2)


def two_brokers(level: int = 30) -> PureController:
    controller = PureController(level=level)
    controller.add_broker(1, "A1,A2")
    controller.add_broker(2, "B1,B2")
    return controller


def test_a_heartbeat_before_registration_is_stale() -> None:
    answer = PureController().heartbeat(1)

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert (answer.is_caught_up, answer.is_fenced, answer.should_shut_down) == (False, True, False)


@pytest.mark.parametrize("epoch", [-1, 0, 77, 1 << 60])
def test_a_heartbeat_of_another_epoch_is_stale_and_no_sign_of_life(epoch: int) -> None:
    controller = two_brokers()
    before = controller.state.heartbeats
    controller.advance(1)

    answer = controller.heartbeat(1, broker_epoch=BrokerEpoch(epoch))

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert answer.error_message == (
        f"Expected broker epoch {controller.epoch(1)}, but got broker epoch {epoch}"
    )
    assert controller.state.heartbeats == before


def test_below_the_level_of_registration_changes_older_records_are_written() -> None:
    controller = PureController(level=5)
    controller.register(1, "")
    epoch = controller.epoch(1)

    controller.heartbeat(1)
    unfencing = controller.written()
    controller.heartbeat(1, want_fence=True)

    assert unfencing == [UnfenceBrokerRecord(id=ONE, epoch=epoch)]
    assert controller.written() == [FenceBrokerRecord(id=ONE, epoch=epoch)]


def test_a_heartbeat_that_waited_too_long_counts_as_contact_and_does_nothing_else() -> None:
    controller = two_brokers()
    controller.advance(5_000)

    answer = controller.ask(late_heartbeat, controller.sign_of_life(1, want_fence=True))

    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert controller.records == ()
    assert controller.state.heartbeats.contacts[ONE].last_contact_ms == controller.now_ms
    stranger = controller.ask(late_heartbeat, controller.sign_of_life(3))
    assert stranger.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert BrokerId(3) not in controller.state.heartbeats.contacts


def test_failed_directories_are_ignored_below_their_level() -> None:
    controller = PureController(level=16)
    controller.register(1, "A1")
    controller.heartbeat(1)

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.records == ()


def test_an_unknown_offline_directory_is_logged_once_and_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller = two_brokers()

    with caplog.at_level(logging.WARNING):
        controller.heartbeat(1, offline_log_dirs="A1,X9")
        controller.heartbeat(1, offline_log_dirs="A1,X9")

    assert [record.message for record in caplog.records] == [
        "a broker reports a directory offline that it has not registered"
    ]


def test_a_heartbeat_decides_without_changing_anything() -> None:
    controller = two_brokers()
    state = controller.state

    result = heartbeat(controller.sign_of_life(1, want_fence=True), state, controller.now_ms + 5)

    assert len(result.records) == 1
    assert state.heartbeats.contacts[ONE].last_contact_ms == controller.now_ms
    assert not state.image.cluster.brokers[ONE].fenced


def test_a_directory_that_failed_before_this_controller_began_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller = PureController()
    controller.add_broker(1, "A1,A2")
    controller.heartbeat(1, offline_log_dirs="A1")
    known = controller.state.image.cluster.brokers
    controller.state = replace(
        controller.state,
        heartbeats=Heartbeats.at_activation(known, SESSION_TIMEOUT_MS, controller.now_ms),
    )

    with caplog.at_level(logging.INFO, "controller.decide.brokers.brokers"):
        for _ in range(2):
            controller.heartbeat(1, offline_log_dirs="A1")

    assert [(record.levelname, record.message) for record in caplog.records] == [
        (
            "INFO",
            "a broker reports a directory that was already offline when this controller started",
        )
    ]
    with caplog.at_level(logging.INFO, "controller.decide.brokers.brokers"):
        controller.heartbeat(1, offline_log_dirs="A1,X1")
    assert caplog.records[-1].levelname == "WARNING"


def test_a_new_process_is_told_of_directories_that_it_has_not_registered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller = PureController()
    controller.register(1, "A2")

    controller.heartbeat(1, offline_log_dirs="A1")

    assert [record.levelname for record in caplog.records] == ["WARNING"]
