"""Work left to do after healing, and how directories come back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from lab.cluster import log_dir_states
from lab.cluster.engine import OWN, Engine
from lab.commands import breaking
from tests.lab.pictures import log_dir_told

pytestmark = pytest.mark.unit

KAFKA = Engine.parse("kafka:4.3.1")
PATHS = [Path("/d1"), Path("/d2"), Path("/d3")]


class Broker:
    """A broker whose directories come back as those of its engine do.

    Attributes:
        broken: Directories that fail again at once.
        done: Actions on it.
    """

    is_running = True

    def __init__(self, number: int, *offline: str, broken: frozenset[str] = frozenset()) -> None:
        self.id = number
        self.paths = PATHS
        self.broken = broken
        self.done: list[str] = []
        self._offline = set(offline)

    def stop(self) -> None:
        self.done.append("stop")

    def start(self) -> None:
        self.done.append("start")
        self._offline = set(self.broken)

    def states(self) -> list[DescribedLogDir]:
        return [
            log_dir_told(path=str(path), error="", sizes={}, state="OFFLINE", cause="broken")
            if str(path) in self._offline
            else log_dir_told(path=str(path), error="", sizes={})
            for path in self.paths
        ]

    def revive(self, path: str) -> str:
        self.done.append(f"revive {path}")
        return "broken" if path in self.broken else ""


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_states, "states", lambda one, are_ours: one.states())
    monkeypatch.setattr(log_dir_states, "revive", lambda one, path: one.revive(path))


def afterwards(
    engine: Engine, *brokers: Broker, reviving: bool = True
) -> tuple[list[str], list[str], list[str]]:
    """Work to be done, what came back, and the problems."""
    cluster: Any = SimpleNamespace(
        engine=engine,
        brokers=brokers,
        nodes=dict(enumerate(brokers)),
        wait_served=lambda *_: None,
    )
    problems: list[str] = []
    to_do, came_back = breaking.afterwards("x", cluster, problems, reviving=reviving)
    return to_do, came_back, problems


def test_a_broker_of_kafka_is_restarted_once_for_all_its_directories() -> None:
    first, second, third = Broker(1, "/d1", "/d3"), Broker(2), Broker(3, "/d2")

    assert afterwards(KAFKA, first, second, third) == (
        [],
        ["broker-1/1", "broker-1/3", "broker-3/2"],
        [],
    )
    assert first.done == third.done == ["stop", "start"]
    assert not second.done


def test_a_directory_that_fails_again_is_named_and_the_others_are_back() -> None:
    broker = Broker(1, "/d1", "/d2", broken=frozenset({"/d2"}))
    problem = "broker-1/2 does not come back: broken"

    assert afterwards(KAFKA, broker) == ([], ["broker-1/1"], [problem])
    assert broker.done == ["stop", "start"]


def test_each_directory_of_our_own_brokers_comes_back_while_they_run() -> None:
    broker = Broker(1, "/d1", "/d2", broken=frozenset({"/d2"}))
    problem = "broker-1/2 does not come back: broken"

    assert afterwards(OWN, broker) == ([], ["broker-1/1"], [problem])
    assert broker.done == ["revive /d1", "revive /d2"]


def test_what_is_not_brought_back_is_to_be_done() -> None:
    broker = Broker(1, "/d1", "/d2")

    to_do, came_back, problems = afterwards(KAFKA, broker, reviving=False)

    assert [line.partition(" (")[0] for line in to_do] == [
        "broker-1/1 is still offline",
        "broker-1/2 is still offline",
    ]
    assert (came_back, problems, broker.done) == ([], [], [])
