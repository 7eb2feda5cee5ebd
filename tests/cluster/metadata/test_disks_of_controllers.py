"""Each fault of a disk on the active controller, on a standby, on two of three.

Whatever happens, what was acknowledged is there afterwards, at each of the three, and all of them
hear each other again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from lab.cluster import wait_for
from lab.testing.clusters import Cluster, Controller
from tests.cluster.lab_cluster import admin_of
from tests.cluster.mixed_quorum import MetadataDir

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

DEADLINE_S = 60.0
ASK_S = 2.0
WITHOUT_MAJORITY_S = 3.0
"""How long changes are tried that nobody can acknowledge."""
PLACES = ("active", "standby", "two")
NEW, SHORT, LONG = (
    {"full": {}, "emptied": {}, "replaced": {}},
    {"eio": {}, "deleted": {}},
    {"hang": {"calls": "sync"}, "slow": {"calls": "sync", "delay": "2s"}},
)
KINDS: dict[str, dict[str, Any]] = {**NEW, **SHORT, **LONG}
CASES = [
    pytest.param(kind, place, marks=() if kind in NEW else pytest.mark.soak)
    for kind, place in itertools.product(KINDS, PLACES)
]


class Quorum:
    """A cluster of three controllers, and the topics whose creation was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.acknowledged: list[str] = []
        self._numbers = itertools.count()

    def change(self) -> bool:
        """Create a topic; returns whether that is acknowledged."""
        name = f"topic-{next(self._numbers)}"
        wanted = [NewTopic(name, num_partitions=1, replication_factor=1)]
        asked = admin_of(self.cluster.inner).create_topics(wanted, request_timeout=ASK_S)
        with suppress(KafkaException):
            asked[name].result()
            self.acknowledged.append(name)
            return True
        return False

    def wait_change(self) -> None:
        wait_for("a change that is acknowledged", self.change, DEADLINE_S)

    def victims(self, place: str) -> list[Controller]:
        active = self.cluster.active_controller
        standbys = [each for each in self.cluster.controllers if each.id != active.id]
        return {"active": [active], "standby": standbys[:1], "two": [active, standbys[0]]}[place]

    def wait_whole(self) -> None:
        """Wait until every controller runs, is heard, and has all that was acknowledged."""
        cluster = self.cluster
        cluster.heal()

        def is_whole() -> bool:
            for each in cluster.controllers:
                each.bring_back(None)
            return all(each.log_dir.state == "online" for each in cluster.controllers)

        wait_for("three controllers that are heard", is_whole, DEADLINE_S)
        self.wait_change()
        for node in cluster.inner.controllers:
            wait_for(
                f"all that was acknowledged at {node}",
                lambda node=node: not self._lacks(MetadataDir(node)),  # type: ignore[misc]
                DEADLINE_S,
            )

    def _lacks(self, directory: MetadataDir) -> set[str]:
        return set(self.acknowledged) - set(directory.image().topics.by_name)


@pytest.fixture(scope="module")
def shared() -> Iterator[Quorum]:
    with Cluster(brokers=1, disks=1, controllers=3, calls=True) as cluster:
        yield Quorum(cluster)


@pytest.fixture
def quorum(shared: Quorum) -> Iterator[Quorum]:
    yield shared
    shared.cluster.heal()


@pytest.mark.parametrize(("kind", "place"), CASES)
def test_nothing_that_was_acknowledged_is_lost_by_a_fault_of_disks(
    quorum: Quorum, kind: str, place: str
) -> None:
    quorum.wait_change()
    with ExitStack() as faults:
        for each in quorum.victims(place):
            faults.enter_context(each.log_dir.fails(kind, **KINDS[kind]))
        if place == "two":
            end = time.monotonic() + WITHOUT_MAJORITY_S
            while time.monotonic() < end:
                quorum.change()
        else:
            for _ in range(3):
                quorum.wait_change()
    quorum.wait_whole()


def test_a_voter_with_a_new_disk_votes_when_it_has_caught_up(quorum: Quorum) -> None:
    active, standby = quorum.victims("two")
    quorum.wait_change()
    before = standby.output.read_text()

    with standby.log_dir.fails("emptied"):
        quorum.wait_change()
        wait_for(
            "a vote that counts again",
            lambda: "gives votes and counts" in standby.output.read_text()[len(before) :],
            DEADLINE_S,
        )
        # It is needed for a majority now.
        active.kill()
        quorum.wait_change()
    quorum.wait_whole()
