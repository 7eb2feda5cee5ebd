"""Cordoned directories in registrations and heartbeats."""

from __future__ import annotations

from broker.controller_link.broker_life_events import (
    DirectoriesCordoned,
    Event,
    HeartbeatAnswered,
    Instruction,
    ReadyToUnfence,
    Registered,
    SendHeartbeat,
    Started,
    Tick,
)
from broker.controller_link.broker_life_rules import BrokerLifeRules, BrokerLifeSettings
from jbodlab.vocabulary.ids import BrokerEpoch
from tests.broker.disks import directory_id

ANSWER = HeartbeatAnswered(is_caught_up=True, is_fenced=False)
D1 = directory_id(1)


class Broker:
    def __init__(self) -> None:
        self.now_ms = 1_000
        self.core = BrokerLifeRules(
            BrokerLifeSettings(), leads_in=lambda _: False, random=lambda: 0.5
        )

    def handle(self, *events: Event) -> list[Instruction]:
        said: list[Instruction] = []
        for event in events:
            said = self.core.handle(event, self.now_ms)
        return said

    def told(self, *events: Event) -> object:
        (heartbeat,) = self.handle(*events)
        assert isinstance(heartbeat, SendHeartbeat)
        return heartbeat.cordoned


def test_nothing_is_said_of_them_before_they_are_known_and_then_always() -> None:
    broker = Broker()
    said = broker.handle(Started(), Registered(BrokerEpoch(1)))
    assert [each.cordoned for each in said if isinstance(each, SendHeartbeat)] == [None]
    assert broker.core.cordoned is None
    broker.handle(ANSWER)
    assert broker.told(DirectoriesCordoned(())) == ()
    assert broker.core.cordoned == ()
    broker.handle(ANSWER)
    broker.now_ms += 2_000
    assert broker.told(Tick()) == ()


def test_a_change_is_told_at_once_and_the_same_again_is_not() -> None:
    broker = Broker()
    broker.handle(
        Started(), Registered(BrokerEpoch(1)), ANSWER, DirectoriesCordoned(()), ReadyToUnfence()
    )
    broker.handle(ANSWER)
    broker.handle(ANSWER)
    assert broker.told(DirectoriesCordoned((D1,))) == (D1,)
    broker.handle(ANSWER)
    assert broker.handle(DirectoriesCordoned((D1,))) == []
    broker.now_ms += 2_000
    assert broker.told(Tick()) == (D1,)


def test_what_changes_while_a_heartbeat_is_under_way_is_told_right_after_it() -> None:
    broker = Broker()
    broker.handle(
        Started(), Registered(BrokerEpoch(1)), ANSWER, DirectoriesCordoned(()), ReadyToUnfence()
    )
    broker.handle(ANSWER)
    broker.handle(ANSWER)
    broker.handle(DirectoriesCordoned((D1,)))
    assert broker.handle(DirectoriesCordoned(())) == []
    assert broker.told(ANSWER) == ()
