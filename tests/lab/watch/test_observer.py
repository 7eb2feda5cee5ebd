"""The thread that watches a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.kafka_admin.errors import NoAnswerError
from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.picture.cluster_picture import PartitionPicture
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from lab.cluster import ClusterSpec, layout, questions, wait_for
from lab.cluster.questions import ClusterView
from lab.machine.processes import own_user
from lab.watch import observer as watching
from lab.watch.observer import Observer


class Connection:
    def close(self) -> None:
        pass


class Asked:
    """The response that the only broker answers; None: nothing, in time."""

    def __init__(self) -> None:
        self.view: ClusterView | None = ClusterView(broker_ids=frozenset({1}), partitions={})
        self.log_dirs: list[DescribedLogDir] | None = []
        self.times = 0

    async def connect(self, *_: object) -> Connection:
        return Connection()

    async def cluster_view(self, *_: object) -> ClusterView:
        if self.view is None:
            raise NoAnswerError("no answer from broker 1 within 2 s")
        return self.view

    async def ask_view(self, *_: object) -> ClusterView | None:
        return self.view

    async def ask_log_dirs(self, *_: object, **__: object) -> list[DescribedLogDir]:
        self.times += 1
        if self.log_dirs is None:
            raise NoAnswerError("no answer from broker 1 within 2 s")
        return self.log_dirs


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(questions, "connect", asked.connect)
    monkeypatch.setattr(questions, "cluster_view", asked.cluster_view)
    monkeypatch.setattr(questions, "ask_cluster_view", asked.ask_view)
    monkeypatch.setattr(questions, "log_dirs", asked.ask_log_dirs)
    return asked


def observer(folder: Path, **options: Any) -> Observer:
    state = layout.plan("x", folder, "id", own_user(), (1, 2), ClusterSpec(brokers=1, disks=1))
    log_file = Path(state.brokers[0].log_file)
    log_file.parent.mkdir()
    log_file.touch()
    return Observer(state.brokers, {}, (), None, period_s=0.01, **options)


def kinds(seen: Observer) -> list[str]:
    return [event.kind for event in seen.events if event.kind in ("silent", "untold", "answers")]


def told(seen: Observer) -> object:
    """The states that the broker says of its directories; None if it owes that."""
    return seen.picture.brokers[0].log_dirs


def test_one_that_never_began_is_stopped_like_any_other(tmp_path: Path) -> None:
    never = observer(tmp_path)

    never.stop()

    assert not never.is_alive()


def test_an_application_is_coordinated_where_the_id_of_its_first_thread_is(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ["app-other-1", "other-1", "app-4711-2", "app-4711-1"]
    log = [TopicPartition(TRANSACTION_STATE_TOPIC, index) for index in range(50)]
    found = PartitionPicture(leader=1, replicas=(1,), isr=(1,), offline=())
    asked.view = ClusterView(broker_ids=frozenset({1}), partitions=dict.fromkeys(log, found))

    async def known(*_: object) -> list[str]:
        return ids

    async def nothing(*_: object) -> list[object]:
        return []

    async def no_offsets(*_: object) -> dict[object, object]:
        return {}

    monkeypatch.setattr(questions, "transactional_ids", known)
    monkeypatch.setattr(questions, "open_transactions", nothing)
    monkeypatch.setattr(questions, "offsets", no_offsets)
    seen = observer(tmp_path, applications={"words": "app-4711"})
    seen.begin()
    try:
        coordinators = wait_for("a coordinator", lambda: seen.picture.coordinators)
    finally:
        seen.stop()

    assert coordinators == {"words": log[coordinator_partition("app-4711-1", 50)]}


def test_a_broker_is_silent_only_if_it_answers_nothing(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with a slow disk takes seconds to tell of its directories, and serves meanwhile."""
    monkeypatch.setattr(watching, "UNTOLD_AFTER", 1_000_000)
    seen = observer(tmp_path)
    seen.begin()
    try:
        wait_for("an answer", lambda: told(seen) == [])
        asked.log_dirs = None
        before = asked.times
        wait_for("more questions", lambda: asked.times > before + 3)
        assert (kinds(seen), told(seen)) == ([], [])

        asked.view = None
        wait_for("silence", lambda: kinds(seen) == ["silent"])
        assert told(seen) is None
        assert seen.picture.brokers[0].before == []
    finally:
        seen.stop()


def test_what_a_serving_broker_does_not_tell_for_long_is_not_known(
    tmp_path: Path, asked: Asked
) -> None:
    seen = observer(tmp_path)
    seen.begin()
    try:
        wait_for("an answer", lambda: told(seen) == [])
        asked.log_dirs = None
        wait_for("no news for long", lambda: kinds(seen) == ["untold"])
        assert (told(seen), seen.picture.brokers[0].serves) == (None, True)

        asked.log_dirs = []
        wait_for("an answer again", lambda: kinds(seen) == ["untold", "answers"])
        assert (told(seen), seen.picture.brokers[0].serves) == ([], False)
    finally:
        seen.stop()
