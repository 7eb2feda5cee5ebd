"""Faults of one instant are made on the cluster as it was before the first of them."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from jbodlab.vocabulary.ids import TopicPartition
from lab.rehearsal.facts import FaultFacts
from lab.rehearsal.injecting import Active, Injector
from lab.rehearsal.observer import Observer
from lab.rehearsal.reader import read
from lab.rehearsal.target_cluster import TargetCluster
from lab.rehearsal.targets import Picture, Place

P0 = TopicPartition("orders", 0)
PLAN = """
rehearsal: 1
name: two at once
topics: {orders: {partitions: 1, replicas: 3}}
load: [{topic: orders}]
timeline:
  - {at: 2s, do: eio, where: leader-of orders/0, as: one}
  - {at: 2s, do: eio, where: follower-of orders/0, as: other}
"""


@dataclass
class Failing:
    """A cluster whose leader moves as soon as a directory of it fails; as its observer too."""

    failed: list[str] = field(default_factory=list)

    @property
    def picture(self) -> Picture:
        replicas = (3, 1, 2)
        held = {Place(broker, 1): {P0: 1} for broker in replicas}
        for place in self.failed:
            held = {each: what for each, what in held.items() if str(each) != place}
        leader = next(broker for broker in replicas if Place(broker, 1) in held)
        return Picture(leaders={P0: leader}, replicas={P0: replicas}, contents=held)

    def bytes_of(self, _partitions: object) -> int:
        return 0

    def broker(self, number: int) -> Any:
        def fails(_kind: str, **_words: object) -> Any:
            self.failed.append(f"broker-{number}/dir-1")
            return SimpleNamespace(mechanism="preload", injected_ns=time.monotonic_ns())

        return SimpleNamespace(log_dir=lambda _directory: SimpleNamespace(fails=fails))


def test_a_follower_is_sought_where_the_leader_was_before_its_disk_died() -> None:
    cluster = Failing()
    target = SimpleNamespace(cluster=cluster, outlives_us=False)
    injector = Injector(
        cast("TargetCluster", target),
        cast("Observer", cluster),
        random.Random(0),
        lambda *_values, **_words: None,
        lambda _why: None,
    )
    entries = read(PLAN, "plan.yaml").timeline
    faults = [Active(entry, FaultFacts(name=entry.name, kind=entry.do)) for entry in entries]

    injector.inject(faults)

    assert [active.facts.problem for active in faults] == ["", ""]
    assert cluster.failed == ["broker-3/dir-1", "broker-1/dir-1"]
