"""The plans that are shipped are right, and each says what it rehearses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_injection.kinds import KINDS
from jbodlab.vocabulary.expressions import parse
from lab.cluster import ClusterSpec
from lab.cluster.engine import OWN
from lab.machine.folders import make_folder, remove_folder
from lab.machine.interrupts import Interrupts
from lab.plan.plan import After, At
from lab.plan.plans import shipped
from lab.plan.reader import read
from lab.rehearsal.target_cluster import prepared

PLANS = shipped()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the servers' user may enter."""
    found = make_folder()
    yield found
    remove_folder(found)


@pytest.mark.parametrize("name", PLANS)
def test_a_shipped_plan_is_right_and_says_what_it_is_about(name: str) -> None:
    plan = read(PLANS[name], name)

    assert plan.hypothesis
    assert plan.source
    assert plan.timeline
    assert plan.objectives


@pytest.mark.parametrize("name", PLANS)
def test_objectives_read_as_they_are_written(name: str) -> None:
    for objective in read(PLANS[name], name).objectives:
        units = {each.metric: each.wanted.unit for each in objective.that.comparisons}

        assert parse(str(objective.that), units.__getitem__) == objective.that


def test_the_plans_of_the_kips_and_of_dying_disks_are_there() -> None:
    families = [name.split("-")[0] for name in PLANS]

    assert families.count("kip112") == 4
    assert families.count("kip113") == 3
    assert families.count("kip858") == 2
    assert {
        "slow-disk",
        "full-disk",
        "hanging-disk",
        "two-disks-in-one-instant",
        "disk-and-broker",
        "flapping-disk",
        "power-loss-of-a-broker",
        "broker-cut-off",
        "transactions-coordinator-disk-dies",
        "transactions-data-disk-dies",
        "streams-exactly-once",
    } <= set(PLANS)


@pytest.mark.process
@pytest.mark.parametrize("name", PLANS)
def test_what_a_shipped_plan_needs_is_there_before_anything_starts(name: str, folder: Path) -> None:
    plan = read(PLANS[name], name)
    assert isinstance(plan.cluster, ClusterSpec)
    if plan.cluster.disk_kind == "loop" and os.geteuid() != 0:
        pytest.skip("only root may mount")

    with prepared(plan, folder / "cluster", Interrupts(), OWN) as cluster:
        assert len(cluster.brokers) == plan.cluster.brokers
        assert not any(node.is_running for node in cluster.nodes.values())

    assert not (folder / "cluster").exists()


def test_an_entry_that_is_repeated_becomes_many_with_numbers() -> None:
    timeline = read(PLANS["flapping-disk"], "x").timeline

    assert [entry.name for entry in timeline] == ["flap#1", "flap#2", "flap#3", "flap#4"]
    assert timeline[0].instant == At(seconds=2)
    assert timeline[3].instant == After(name="flap#1", moment="injected", plus_s=24)


def test_a_plan_knows_its_faults_from_its_actions() -> None:
    plan = read(PLANS["kip113-move-and-disk-dies"], "x")

    assert [entry.do for entry in plan.faults] == ["eio"]
    assert "move" not in KINDS
