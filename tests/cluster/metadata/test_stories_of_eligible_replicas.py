"""Eligible leader replicas: the same stories on brokers of Apache Kafka and on these.

Leader, ISR, ELR and last known ELR are compared after each step, and every record that the
controller wrote because of it, by the metadata log and by Kafka's own tool.

`JBODLAB_REWRITE_SCENARIOS=1` writes what happens in place of what is expected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster.engine import OWN, Engine
from lab.machine.folders import make_folder, remove_folder
from tests.cluster.eligible_replicas import Player, Story, read_stories, rewrite_story
from tests.cluster.engines import NEW, jars
from tests.cluster.harness import Cluster, running
from tests.kafka.tools import KafkaTools

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

STORIES = read_stories()
QUICK = "Killed, the first one back first"
SETTINGS = {"auto.leader.rebalance.enable": "false"}
"""Preferred elections come at any time."""


@pytest.fixture(scope="module")
def cluster_folder() -> Iterator[Path]:
    folder = make_folder()
    yield folder
    remove_folder(folder)


@pytest.fixture(scope="module")
def ours(cluster_folder: Path) -> Iterator[Cluster]:
    with _cluster(cluster_folder / "ours", OWN) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafkas(cluster_folder: Path) -> Iterator[Cluster]:
    jars(NEW)
    with _cluster(cluster_folder / "kafkas", Engine.parse(f"kafka:{NEW}")) as cluster:
        yield cluster


def _cluster(root: Path, engine: Engine):  # type: ignore[no-untyped-def]
    return running(root, brokers=3, dirs=2, engine=engine, settings=SETTINGS)


def test_a_story_without_any_tool(ours: Cluster) -> None:
    (story,) = (each for each in STORIES if each.title == QUICK)
    _check(Player(ours, story, None), story, is_kafka=False)


@pytest.mark.soak
@pytest.mark.parametrize("story", STORIES, ids=str)
def test_a_story_as_this_controller_decides_it(
    ours: Cluster, kafka_tools: KafkaTools, story: Story
) -> None:
    _check(Player(ours, story, kafka_tools), story, is_kafka=False)


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.parametrize("story", STORIES, ids=str)
def test_a_story_as_kafka_decides_it(
    kafkas: Cluster, kafka_tools: KafkaTools, story: Story
) -> None:
    _check(Player(kafkas, story, kafka_tools), story, is_kafka=True)


def _check(player: Player, story: Story, *, is_kafka: bool) -> None:
    """Play a story to its end, and say all that is otherwise than expected."""
    rewrites = os.environ.get("JBODLAB_REWRITE_SCENARIOS") == "1"
    differences, played = [], []
    try:
        for number, (step, written) in enumerate(player.play(), 1):
            expected = step.expected(is_kafka=is_kafka)
            played.append(written)
            for subject in sorted(expected.keys() | written.keys()):
                wanted, found = expected.get(subject), written.get(subject)
                if wanted != found:
                    where = f"step {number}, {step.command}, {subject}"
                    differences.append(f"{where}:\n  expected {wanted}\n  written  {found}")
    finally:
        if rewrites:
            rewrite_story(story.title, played, is_kafka=is_kafka)
    assert rewrites or not differences, "\n".join(differences)
