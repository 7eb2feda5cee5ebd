"""`log.dir.placement=bytes`: new replicas go where there is room, and not all to the emptiest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.commands import called, dir_states
from tests.cluster.configs import BROKER, alter, client
from tests.cluster.harness import Cluster, partitions_in, wait_for
from tests.cluster.scenes import Scene, Stages
from tests.cluster.scraper import Scraper
from tests.cluster.small_disks import fillable, scene_on_small_disks

pytestmark = pytest.mark.cluster

MIB = 1 << 20


@contextmanager
def placing(stages: Stages) -> Iterator[tuple[Scene, list[Path]]]:
    """A scene in which broker 1 places by free bytes, and its directories: the last is emptiest."""
    with scene_on_small_disks(stages) as scene:
        cluster = scene.cluster
        paths = cluster.broker(1).paths
        settings = {"log_dir_placement": "bytes", "log_segment_bytes": str(MIB)}
        alter(client(cluster), BROKER, "1", **settings)
        for path in paths[:2]:
            fillable(cluster, path).fill(20 * MIB)
        scrape = Scraper(cluster)
        wait_for(
            "the broker knowing what is free",
            lambda: all(
                scrape(1)[f'jbodlab_log_dir_usable_bytes{{logDirectory="{path}"}}'] < 24 * MIB
                for path in paths[:2]
            ),
        )
        yield scene, paths
        alter(client(cluster), BROKER, "1", **dict.fromkeys(settings))


def placed(cluster: Cluster, topic: str, count: int) -> list[int]:
    """Number of replicas in each directory, when all are there."""

    def counts() -> list[int]:
        return [len(partitions_in(path, topic)) for path in cluster.broker(1).paths]

    wait_for("all replicas", lambda: sum(counts()) == count)
    return counts()


def test_the_emptiest_directory_comes_first(stages: Stages) -> None:
    with placing(stages) as (scene, _):
        topic = scene.topic_at([[1]])
        assert placed(scene.cluster, topic, 1) == [0, 0, 1]


def test_thirty_at_once_are_spread_by_what_is_free(stages: Stages) -> None:
    with placing(stages) as (scene, _):
        topic = scene.topic_at([[1]] * 30)
        first, second, emptiest = placed(scene.cluster, topic, 30)
        # About 20, 20 and 64 MiB are free.
        assert 15 <= emptiest <= 24
        assert min(first, second) >= 3
        assert abs(first - second) <= 1


def test_what_is_full_or_cordoned_gets_nothing(stages: Stages) -> None:
    with placing(stages) as (scene, (first, second, emptiest)):
        cluster = scene.cluster
        fillable(cluster, first).fill(100 << 10)
        called(cluster, "dirs", "cordon", f"broker-1:{emptiest}")

        def shown() -> list[str]:
            return sorted(state for state in dir_states(cluster).values() if state != "ONLINE")

        wait_for("both states", lambda: shown() == ["CORDONED", "FULL"])
        topic = scene.topic_at([[1]] * 6)
        assert placed(cluster, topic, 6) == [0, 6, 0]
        assert partitions_in(second, topic) == set(range(6))
        called(cluster, "dirs", "uncordon", f"broker-1:{emptiest}")
