"""A fault shows by whatever is otherwise than before it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fault_injection import kinds
from jbodlab.picture.cluster_picture import BrokerPicture, ClusterPicture, PartitionPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition
from lab import opened
from lab.cluster import Cluster, ClusterSpec, layout
from lab.cluster.questions import ClusterView
from lab.machine import processes
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles
from lab.watch import detecting
from lab.watch.detecting import Detecting
from lab.watch.events import Event
from tests.lab.pictures import log_dir_told

DEADLINE_S = 20.0


class Watching:
    """An observer of broker 1, whose directory 2 is SLOW before the fault."""

    def __init__(self, path: Path) -> None:
        self.view = ClusterView(broker_ids=frozenset({1}), partitions={})
        self.events: list[Event] = []
        self._path = path
        self.answers(conditions=("SLOW",))

    def answers(self, error: str = "", conditions: tuple[str, ...] = (), cause: str = "") -> None:
        view = log_dir_told(
            path=str(self._path), error=error, sizes={}, conditions=conditions, cause=cause
        )
        self._log_dirs = [view]

    def has(self, partitions: dict[TopicPartition, PartitionPicture]) -> None:
        self.view = ClusterView(broker_ids=frozenset({1, 2}), partitions=partitions)

    @property
    def picture(self) -> ClusterPicture:
        paths = {str(self._path): 2}
        one = BrokerPicture(
            broker_id=1, address="", folder=Path(), paths=paths, log_dirs=self._log_dirs
        )
        listed, partitions = self.view.broker_ids, self.view.partitions
        return ClusterPicture(brokers=[one], listed=listed, partitions=partitions)

    @property
    def samples(self) -> list[Any]:
        return [SimpleNamespace(t_ns=time.monotonic_ns())]

    def begin(self) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("JBODLAB_STATE_DIR", str(tmp_path / "state"))
    files = StateFiles.open()
    files.write(
        layout.plan(
            "x",
            tmp_path / "x",
            "id",
            processes.own_user(),
            range(1, 3),
            ClusterSpec(brokers=1, disks=2),
        )
    )
    return opened.opened(files, "x", Interrupts())


@pytest.fixture
def seen(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Watching:
    path = cluster.broker(1).log_dir(2).path
    path.mkdir(parents=True)
    found = Watching(path)
    monkeypatch.setattr(detecting, "Observer", lambda *_values, **_words: found)
    return found


def test_a_directory_that_was_slow_before_is_detected_when_it_is_offline(
    cluster: Cluster, seen: Watching
) -> None:
    target = cluster.broker(1).log_dir(2).target()
    since_ns = time.monotonic_ns()

    def found(*, is_last: bool = False) -> str:
        shown = watch._found(kinds.spec("eio", {}), since_ns, is_last=is_last)
        return "" if shown is None else shown[0]

    with Detecting(cluster, target) as watch:
        assert found() == ""
        assert found(is_last=True) == "the directory is online but SLOW"
        event = Event(t_ns=since_ns, source="broker", kind="offline", place=Place(1, 2), text="")
        seen.events.append(event)
        # The log is read before the broker is asked again.
        assert found() == ""
        seen.answers("KAFKA_STORAGE_ERROR", ("SLOW",), "EIO")
        assert found() == "the directory is OFFLINE SLOW (EIO)"


def partition(leader: int, isr: tuple[int, ...]) -> PartitionPicture:
    return PartitionPicture(leader=leader, replicas=(1, 2), isr=isr, offline=())


def test_only_partitions_that_can_find_another_leader_are_waited_for(
    cluster: Cluster, seen: Watching
) -> None:
    names = [TopicPartition("orders", number) for number in range(4)]
    both, alone, dead = partition(1, (1, 2)), partition(1, (1,)), partition(-1, (2,))
    seen.has(dict(zip(names, (both, both, alone, dead), strict=True)))
    end = time.monotonic() + DEADLINE_S

    with Detecting(cluster, cluster.broker(1).log_dir(2).target()) as watch:
        # The first has another leader, the second none so far, the third never finds one.
        moved, waits, lost = partition(2, (2,)), partition(-1, (1, 2)), partition(-1, (1,))
        seen.has(dict(zip(names, (moved, waits, lost, dead), strict=True)))
        assert watch._moved(time.monotonic()) == 3
        threading.Timer(
            0.2, seen.has, [dict(zip(names, (moved, moved, lost, dead), strict=True))]
        ).start()
        assert watch._moved(end) == 3

    assert time.monotonic() < end
