"""Which tests share a cluster, and when one is thrown away."""

from __future__ import annotations

import pytest

from lab.cluster import ClusterSpec, NotInTimeError
from lab.cluster.spec import of_mark
from lab.testing.clusters import Cluster
from lab.testing.shared import SharedClusters


def need(**wanted: object) -> ClusterSpec:
    return of_mark(wanted, {})


class Fake(Cluster):
    """Notes what is done to it."""

    def __init__(self, need: ClusterSpec, log: list[str]) -> None:
        self.need = need
        self._log = log
        self.settles = True
        self.changed = False
        log.append(f"start {need.brokers}")

    def heal(self, timeout: float = 0) -> None:
        self._log.append(f"heal {self.need.brokers}")
        if not self.settles:
            raise NotInTimeError("not settled")

    def forget_topics(self) -> None:
        self._log.append(f"forget {self.need.brokers}")

    @property
    def has_changed(self) -> bool:
        return self.changed

    def close(self) -> None:
        self._log.append(f"close {self.need.brokers}")


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def clusters(log: list[str]) -> SharedClusters:
    return SharedClusters(lambda need: Fake(need, log))


def test_equal_needs_share_a_cluster(clusters: SharedClusters, log: list[str]) -> None:
    first = clusters.get(need(brokers=1, config={"a": 1, "b": 2}))
    second = clusters.get(need(brokers=1, config={"b": "2", "a": "1"}))

    assert first is second
    assert log == ["start 1"]


def test_above_two_the_one_that_was_unused_for_longest_ends(
    clusters: SharedClusters, log: list[str]
) -> None:
    for brokers in (1, 2, 1, 3):
        clusters.get(need(brokers=brokers))

    assert log == ["start 1", "start 2", "close 2", "start 3"]


def test_a_cluster_is_healed_for_the_next_test(clusters: SharedClusters, log: list[str]) -> None:
    one = need(brokers=1)
    clusters.get(one)

    clusters.give_back(one)

    assert log == ["start 1", "heal 1", "forget 1"]


def test_a_cluster_whose_settings_were_changed_is_replaced(
    clusters: SharedClusters, log: list[str]
) -> None:
    one = need(brokers=1)
    found = clusters.get(one)
    assert isinstance(found, Fake)
    found.changed = True

    clusters.give_back(one)

    assert log == ["start 1", "heal 1", "forget 1", "close 1"]


def test_a_cluster_that_does_not_settle_is_replaced(
    clusters: SharedClusters, log: list[str]
) -> None:
    one = need(brokers=1)
    found = clusters.get(one)
    assert isinstance(found, Fake)
    found.settles = False

    clusters.give_back(one)
    clusters.get(one)

    assert log == ["start 1", "heal 1", "close 1", "start 1"]


def test_all_end_with_the_session(clusters: SharedClusters, log: list[str]) -> None:
    clusters.get(need(brokers=1))
    clusters.own(need(brokers=2))

    clusters.close()

    assert sorted(log[2:]) == ["close 1", "close 2"]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"brokers": 0}, "expected brokers from 1 to 20, got 0"),
        ({"disks": "two"}, "expected disks from 1 to 64, got 'two'"),
    ],
)
def test_a_need_that_nobody_can_meet_is_refused(wanted: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        need(**wanted)  # type: ignore[arg-type]
