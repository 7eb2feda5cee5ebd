"""Faults of one instant are made on the cluster as it was before the first of them."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from fault_injection.mechanism import Broken, Clients
from jbodlab.picture.cluster_picture import ClusterPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition
from lab.plan.reader import read
from lab.rehearsal.facts import FaultFacts
from lab.rehearsal.injecting import Active, Injector
from lab.rehearsal.target_cluster import TargetCluster
from lab.watch.observer import Observer
from tests.lab.pictures import pictured

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
    def picture(self) -> ClusterPicture:
        places = [Place(broker, 1) for broker in (3, 1, 2)]
        held = [place for place in places if str(place) not in self.failed]
        # The broker that is first leads.
        replicas = sorted(places, key=lambda place: place not in held)
        return pictured(
            {P0: tuple(place.broker for place in replicas)}, {place: {P0: 1} for place in held}
        )

    @property
    def nodes(self) -> dict[int, Any]:
        return {number: self._node(number) for number in (1, 2, 3)}

    def _node(self, number: int) -> Any:
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


USERS = """
rehearsal: 1
name: a user is gone
cluster: {security: sasl_ssl}
topics: {orders: {partitions: 1, replicas: 3}}
load: [{topic: orders}]
timeline:
  - {at: 2s, do: user-removed, where: cluster, principal: bob, as: gone}
"""


class Gone:
    """A fault that refuses more and more logins."""

    mechanism = "administrator"

    def __init__(self) -> None:
        self.injected_ns = time.monotonic_ns()
        self.refused = 0

    @property
    def broken(self) -> Broken:
        clients = Clients(stayed=4, closed=1, logins_failed=self.refused)
        return Broken(what="logins", count=self.refused, clients=clients)

    def heal(self) -> None:
        pass


def test_what_becomes_of_clients_is_told_when_the_first_is_refused_and_when_it_is_over() -> None:
    observer, gone, said = Failing(), Gone(), list[str]()

    def fails(kind: str, **words: object) -> Gone:
        assert (kind, words) == ("user-removed", {"principal": "bob"})
        return gone

    target = SimpleNamespace(cluster=SimpleNamespace(fails=fails), outlives_us=False)
    injector = Injector(
        cast("TargetCluster", target),
        cast("Observer", observer),
        random.Random(0),
        lambda _source, _kind, text, **_words: said.append(text),
        lambda _why: None,
    )
    (entry,) = read(USERS, "plan.yaml").timeline
    active = Active(entry, FaultFacts(name=entry.name, kind=entry.do))

    injector.inject([active])
    injector.count(active)
    for gone.refused in (3, 7):
        injector.count(active)
    injector.heal(active)

    assert active.facts.touched == (P0,)
    assert active.facts.clients == Clients(stayed=4, closed=1, logins_failed=7)
    assert said[1:] == [
        "gone: the first client is refused",
        "clients meanwhile: 4 connections stayed, 1 closed, 7 logins failed",
        "gone reverted",
    ]


def test_the_active_controller_is_the_one_that_is_active_in_the_moment() -> None:
    failed: list[str] = []

    def fails(kind: str, **_words: object) -> Any:
        failed.append(kind)
        return SimpleNamespace(mechanism="preload", injected_ns=time.monotonic_ns())

    node = SimpleNamespace(
        id=101,
        state=SimpleNamespace(role="controller"),
        fails=fails,
        log_dir=lambda number: SimpleNamespace(fails=lambda kind: fails(f"{kind} {number}")),
    )
    cluster = SimpleNamespace(active_controller=lambda: node, nodes={101: node})
    injector = Injector(
        cast("TargetCluster", SimpleNamespace(cluster=cluster, outlives_us=False)),
        cast("Observer", Failing()),
        random.Random(0),
        lambda *_values, **_words: None,
        lambda _why: None,
    )
    entries = [
        "  - {at: 2s, do: kill, where: active controller, as: one}\n",
        "  - {at: 2s, do: eio, where: active controller, as: other}\n",
    ]
    timeline = read(PLAN[: PLAN.index("  - {")] + "".join(entries), "plan.yaml").timeline
    faults = [Active(entry, FaultFacts(name=entry.name, kind=entry.do)) for entry in timeline]

    injector.inject(faults)

    assert [str(active.facts.places[0]) for active in faults] == [
        "controller-101",
        "controller-101/dir-1",
    ]
    assert failed == ["kill", "eio 1"]
    assert all(active.facts.touched == (P0,) for active in faults)
