"""How directories come back in a rehearsal."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.picture.places import Place
from lab.cluster import questions, revival
from lab.rehearsal.target_cluster import TargetCluster
from tests.lab.pictures import log_dir_told

pytestmark = pytest.mark.unit

FIRST, SECOND = Place(1, 1), Place(1, 2)


class Broker:
    """A broker both of whose directories are offline until they are brought back."""

    is_running = True
    state = None

    def __init__(self) -> None:
        self.offline = {"/d1", "/d2"}
        self.revived: list[list[str]] = []

    def log_dir(self, number: int) -> Any:
        return SimpleNamespace(path=Path(f"/d{number}"))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()

    async def ask(_state: object, _timeout_s: float) -> list[DescribedLogDir]:
        return [
            log_dir_told(
                path=path, error="KAFKA_STORAGE_ERROR" if path in made.offline else "", sizes={}
            )
            for path in ("/d1", "/d2")
        ]

    def revive(cluster: Any, _broker: Broker, paths: list[str]) -> dict[str, str]:
        made.revived.append(paths)
        made.offline -= set(paths) if cluster.engine.revives else {"/d1", "/d2"}
        return {}

    monkeypatch.setattr(questions, "ask_log_dirs", ask)
    monkeypatch.setattr(revival, "revive", revive)
    return made


def target(broker: Broker, *, revives: bool, may_start: bool = True) -> TargetCluster:
    engine = SimpleNamespace(revives=revives)
    cluster: Any = SimpleNamespace(broker=lambda _number: broker, engine=engine)
    return TargetCluster(
        cluster=cluster,
        may_start=may_start,
        outlives_us=False,
        revives=revives,
        metadata_logs=(),
    )


def test_a_restart_of_kafkas_broker_brings_all_of_its_directories_back(broker: Broker) -> None:
    kafka = target(broker, revives=False)

    assert kafka.revive(FIRST) == "broker-1/dir-1 is back: broker-1 was restarted"
    assert kafka.revive(SECOND) == ""
    assert broker.revived == [["/d1"]]


def test_each_directory_of_our_own_broker_is_revived(broker: Broker) -> None:
    ours = target(broker, revives=True)

    assert ours.revive(FIRST) == "broker-1/dir-1 is revived"
    assert ours.revive(SECOND) == "broker-1/dir-2 is revived"
    assert ours.revive(SECOND) == ""
    assert broker.revived == [["/d1"], ["/d2"]]


def test_a_broker_of_kafka_that_others_run_is_not_restarted(broker: Broker) -> None:
    assert target(broker, revives=False, may_start=False).revive(FIRST) == ""
    assert broker.revived == []
