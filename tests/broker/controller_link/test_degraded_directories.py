from __future__ import annotations

import pytest

from broker.controller_link.broker_life_events import (
    DirectoriesDegraded,
    DirectoryFailed,
    Event,
    HeartbeatAnswered,
    HeartbeatRefused,
    Instruction,
    ReadyToUnfence,
    Registered,
    SendHeartbeat,
    Started,
    Tick,
)
from broker.controller_link.broker_life_rules import BrokerLifeRules, BrokerLifeSettings
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch
from tests.broker.disks import directory_id

D1, D2 = directory_id(1), directory_id(2)
FULL = DirectoriesDegraded(degraded=(D1,), full=(D1,))
SLOW_TOO = DirectoriesDegraded(degraded=(D1, D2), full=(D1,), tolerated=(D2,))
NOTHING = DirectoriesDegraded()
ANSWER = HeartbeatAnswered(is_caught_up=True, is_fenced=False)


class RunningBroker:
    """A broker whose last heartbeat was answered just now."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.core = BrokerLifeRules(
            BrokerLifeSettings(), leads_in=lambda _: False, random=lambda: 0.5
        )
        for event in (Started(), Registered(BrokerEpoch(17)), ReadyToUnfence(), ANSWER, ANSWER):
            self.handle(event)

    def handle(self, event: Event) -> list[Instruction]:
        return self.core.handle(event, self.now_ms)

    def after(self, delay_ms: int) -> list[Instruction]:
        self.now_ms += delay_ms
        return self.handle(Tick())


def heartbeat(degraded: DirectoriesDegraded, *offline: object) -> SendHeartbeat:
    return SendHeartbeat(
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=tuple(offline),  # type: ignore[arg-type]
        degraded=degraded,
    )


@pytest.fixture
def broker() -> RunningBroker:
    return RunningBroker()


def test_a_change_is_told_at_once_and_in_every_later_heartbeat(broker: RunningBroker) -> None:
    assert broker.handle(FULL) == [heartbeat(FULL)]
    assert broker.handle(ANSWER) == []
    assert broker.after(2_000) == [heartbeat(FULL)]


def test_the_last_word_replaces_what_was_said_before(broker: RunningBroker) -> None:
    broker.handle(SLOW_TOO)
    broker.handle(ANSWER)

    assert broker.handle(NOTHING) == [heartbeat(NOTHING)]


def test_a_change_while_a_heartbeat_is_on_its_way_goes_right_after_it() -> None:
    broker = RunningBroker()
    broker.handle(FULL)

    assert broker.handle(SLOW_TOO) == []
    assert broker.handle(ANSWER) == [heartbeat(SLOW_TOO)]


def test_no_change_is_no_reason_for_a_heartbeat(broker: RunningBroker) -> None:
    broker.handle(FULL)
    broker.handle(ANSWER)

    assert broker.handle(FULL) == []


def test_of_a_directory_that_failed_only_the_failure_is_told(broker: RunningBroker) -> None:
    broker.handle(SLOW_TOO)
    broker.handle(ANSWER)

    only_slow = DirectoriesDegraded(degraded=(D2,), tolerated=(D2,))
    assert broker.handle(DirectoryFailed(D1)) == [heartbeat(only_slow, D1)]
    broker.handle(ANSWER)
    assert broker.handle(only_slow) == [], "the controller knows"


def test_what_was_said_before_the_controller_forgot_the_broker_is_said_again() -> None:
    broker = RunningBroker()
    broker.handle(FULL)
    broker.handle(HeartbeatRefused(ErrorCode.STALE_BROKER_EPOCH))
    broker.after(1_000)

    assert broker.handle(Registered(BrokerEpoch(18))) == [heartbeat(FULL)]
