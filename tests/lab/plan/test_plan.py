"""Words of a plan about disks, and the faults that they make."""

from __future__ import annotations

import pytest

from lab.cluster import ClusterSpec
from lab.plan.plan import Plan
from lab.plan.reader import read

PLAN = """\
rehearsal: 1
name: disks
hypothesis: none
cluster: {brokers: 1, CLUSTER}
topics: {orders: {partitions: 1, replicas: 1}}
load: [{name: writers, topic: orders, rate: 50/s}]
timeline:
  - {at: 0s, do: eio, where: broker-1/dir-1, as: first, for: 1s}
  - {at: 2s, do: cut, where: broker-1, as: second, for: 1s}
  - {at: 4s, do: eio, where: broker-1/dir-2, as: third, for: 1s, mechanism: preload}
objectives: [writers.lost == 0]
"""


def plan(cluster: str) -> Plan:
    return read(PLAN.replace("CLUSTER", cluster), "p.yaml")


def mechanisms(found: Plan) -> dict[str, object]:
    for entry in found.faults:
        assert entry.spec is not None
        assert entry.spec.mechanism == entry.given.get("mechanism", "")
    return {entry.name: entry.given.get("mechanism", "") for entry in found.faults}


def test_who_wants_faults_by_fuse_gets_such_disks() -> None:
    found = plan("mechanism: fuse, disks: {each: 2}")

    assert isinstance(found.cluster, ClusterSpec)
    assert (found.cluster.disk_kind, found.cluster.mechanism) == ("fuse", "fuse")


@pytest.mark.parametrize("kind", ["fuse", "loop"])
def test_disks_make_the_faults_they_can_unless_an_entry_says_otherwise(kind: str) -> None:
    found = plan(f"mechanism: {kind}, disks: {{each: 2, kind: {kind}}}")

    assert mechanisms(found) == {"first": kind, "second": "", "third": "preload"}


def test_disks_alone_leave_the_choice_to_the_machine() -> None:
    found = plan("disks: {each: 2, kind: fuse}")

    assert mechanisms(found) == {"first": "", "second": "", "third": "preload"}
