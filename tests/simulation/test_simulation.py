"""Histories of the whole cluster: a seed is always the same one, and none of them ends badly."""

from __future__ import annotations

import functools
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.simulation import faults, kept_plans
from tests.simulation.command import outcomes_of, run_module
from tests.simulation.kept_plans import KEPT
from tests.simulation.loop import SimLoop, Stuck
from tests.simulation.mutants import PATCHES, found_at, hunt, named_in
from tests.simulation.plan import FEATURES, RESTARTS, draw, read_plan

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SEEDS, TWICE = "1..48", "1..4"
"""`make night` runs others; of these every rule of the map is looked at by some."""

pytestmark = [pytest.mark.process, pytest.mark.timeout(1_800)]
IN_ONE_PROCESS = pytest.mark.xdist_group("first seeds")


@functools.cache
def histories() -> subprocess.CompletedProcess[str]:
    return run_module("tests.simulation", "--seeds", SEEDS, "--traces")


def traces_of(ran: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in ran.stdout.splitlines() if line.startswith("trace ")]


@IN_ONE_PROCESS
def test_no_history_of_the_first_seeds_ends_with_a_violation() -> None:
    ran = histories()

    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]


@IN_ONE_PROCESS
def test_the_first_seeds_have_histories_in_which_each_rule_is_looked_at() -> None:
    said = histories().stdout.splitlines()

    assert [line for line in said if line.startswith("  never: ")] == []
    assert any(line.endswith(" rules were looked at") for line in said)


@IN_ONE_PROCESS
def test_a_seed_is_the_same_history_in_another_process() -> None:
    # Other addresses of objects and of the stack, another place in the environment.
    ran = run_module("tests.simulation", "--seeds", TWICE, "--traces", FILLING="x" * 5_000)
    other = traces_of(ran)

    assert other == traces_of(histories())[: len(other)]
    assert other


def test_a_history_that_ended_in_the_middle_leaves_nothing_to_the_next() -> None:
    with closing(SimLoop("one")) as ended:
        ended.call_soon(ended.stop)
        ended.call_soon(ended.stop)
        ended.ending = Stuck("it ends at its first step")
        with pytest.raises(Stuck):
            ended.run_forever()

    with closing(SimLoop("another")) as following:
        following.call_soon(following.stop)
        following.run_forever()

        assert following.steps == 1


@pytest.mark.xdist_group("kept plans")
@pytest.mark.parametrize("plan", KEPT, ids=lambda plan: plan.stem)
def test_a_history_that_found_a_bug_ends_well(plan: Path) -> None:
    assert outcomes_of(kept_plans.__name__)[KEPT.index(plan)]["violation"] is None


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    for seed in range(50):
        plan = draw(seed, faults.WEIGHTS)
        (tmp_path / "plan.json").write_text(plan.to_text())

        assert read_plan(tmp_path / "plan.json") == plan
        assert draw(seed, faults.WEIGHTS) == plan


def test_restarts_at_the_end_are_drawn_unless_one_controller_is_asked_for() -> None:
    drawn = [draw(seed, faults.WEIGHTS).options for seed in range(60)]
    asked = [draw(seed, faults.WEIGHTS, controllers=1).options for seed in range(60)]

    assert {each.restarts for each in drawn if each.controllers == 1} == {*RESTARTS}
    assert {each.restarts for each in asked} == {RESTARTS[0]}


def test_each_mutant_changes_the_tree_as_it_is() -> None:
    for patch in sorted(PATCHES.glob("*.patch")):
        subprocess.run(["git", "apply", "--check", str(patch)], cwd=ROOT, check=True)

        assert named_in(patch, "Found by:"), patch.name


REACHABLE = (
    *(1, 2, 3, 5, 6, 7, 8, 9, *range(10, 19), *range(20, 27), 28, 29, 30, 31, 32, 35),
    *(*range(40, 52), 53, 54, *range(60, 67), 68, 69, 70, 71, 72, 73, 82, 84),
)
"""Numbers of the known bugs that can happen in a simulated cluster."""


def test_every_known_bug_that_can_happen_is_shown_by_something() -> None:
    rows = [line.split("|")[1:-1] for line in (HERE / "zoo.md").read_text().splitlines()]
    rows = [[cell.split() for cell in row] for row in rows if row and row[0].startswith(" B")]
    known = {patch.name[:2] for patch in PATCHES.glob("*.patch")} | {*faults.FAULTS}

    bugs = sorted(int(bug[1:]) for row in rows for bug in row[0])
    assert bugs == sorted(REACHABLE)
    assert [each for row in rows for each in row[2] if each not in known] == []
    for bugs_of_row, _, shown_by, checkers in rows:
        may_find = [
            named_in(next(PATCHES.glob(f"{n}-*")), "Found by:") for n in shown_by if n.isdigit()
        ]
        assert all({*checkers} & {*each} for each in may_find), bugs_of_row


def test_each_mutant_has_a_place_where_it_is_found() -> None:
    patches = {patch.stem: patch for patch in PATCHES.glob("*.patch")}

    assert sorted(found_at()) == sorted(patches)
    for name, where in found_at().items():
        plan, test = HERE / "plans" / where, ROOT / where.partition("::")[0]
        assert where.isdigit() or (plan.exists() and where.endswith(".json")) or test.is_file()
        assert {*named_in(patches[name], "Steered at:")} <= {*faults.FAULTS, *FEATURES}, name


@pytest.mark.parametrize("name", ["06-", "T2-"])
def test_a_bug_that_is_put_back_is_found_where_the_table_says(name: str) -> None:
    patch = next(PATCHES.glob(f"{name}*.patch"))
    where, said = hunt(patch, found_at()[patch.stem])

    assert where, said


def test_a_history_is_steered_at_what_it_is_to_have() -> None:
    for seed in range(30):
        steered = draw(seed, faults.WEIGHTS, steered_at=["move", "twin", "replicas", "directories"])
        options = steered.options

        happens = [event.fault for event in steered.events]
        assert {*happens} & {"move", "twin"}
        assert len(happens) == 1 or {"move", "twin"} <= {*happens}
        assert options.directories > 1
        assert any(topic.replication_factor > 1 for topic in options.topics)
    assert draw(3, faults.WEIGHTS, steered_at=["calm", "eio"]).events[0].fault == "eio"
