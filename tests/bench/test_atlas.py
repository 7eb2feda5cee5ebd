"""The atlas: what is kept, what is run again, and what the pages show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.atlas import __main__ as atlas
from bench.atlas import kept, pages
from bench.atlas.bugs import BUGS, Bug
from lab.cluster.engine import Engine
from lab.plan import plans

OURS, OLD, NEW = "jbodlab", "kafka:3.9.1", "kafka:4.3.1"


def run(engine: str, plan: str = "dead", number: int = 1, **more: Any) -> dict[str, Any]:
    held = {"text": "dead.gap < 2s", "holds": True, "value": 0.5, "measured": "500 ms"}
    return {
        **{"plan": plan, "engine": engine, "number": number, "title": "a disk dies"},
        **{"verdict": "PASS", "reason": "", "objectives": [{**held, "severity": "fail"}]},
        **{"machine": "Linux, 2 cores", "began": "2026-01-02T03:04:05+00:00", "commit": "abc"},
        **{"took_s": 40.0, **more},
    }


def measured(seconds: float) -> list[dict[str, Any]]:
    held = {"text": "dead.gap < 2s", "holds": seconds < 2, "value": seconds}
    return [{**held, "measured": f"{seconds:.0f} s", "severity": "fail"}]


def test_a_run_is_kept_and_read_again(tmp_path: Path) -> None:
    file = kept.file_of(tmp_path, OLD, "dead", 1)
    kept.keep(file, run(OLD))
    assert kept.read(tmp_path) == [run(OLD)]
    assert [path.name for path in file.parent.iterdir()] == ["dead-1.json"]


@pytest.mark.parametrize(
    ("verdict", "is_done"),
    [
        ("PASS", True),
        ("FAIL", True),
        (kept.REFUSED, True),
        ("INCONCLUSIVE", False),
        (kept.NOT_RUN, False),
    ],
)
def test_a_run_that_proves_nothing_is_repeated_and_no_other(
    tmp_path: Path, verdict: str, is_done: bool
) -> None:
    file = kept.file_of(tmp_path, OLD, "dead", 1)
    assert not kept.is_done(file)
    kept.keep(file, run(OLD, verdict=verdict))
    assert kept.is_done(file) is is_done


def test_half_a_file_is_no_run(tmp_path: Path) -> None:
    file = kept.file_of(tmp_path, OLD, "dead", 1)
    file.parent.mkdir()
    file.with_suffix(".new").write_text('{"pla')
    assert kept.read(tmp_path) == []
    assert not kept.is_done(file)


def test_engines_are_ordered_by_release(tmp_path: Path) -> None:
    for engine in ("kafka:4.3.1", "kafka:3.10.0", "kafka:3.9.1", OURS):
        kept.keep(kept.file_of(tmp_path, engine, "dead", 1), run(engine))
    names = [one["engine"] for one in kept.read(tmp_path)]
    assert names == [OURS, "kafka:3.9.1", "kafka:3.10.0", "kafka:4.3.1"]
    head = pages.markdown(kept.read(tmp_path), ()).split("## Verdicts")[1].split("\n")[2]
    assert head == "| Plan | jbodlab | kafka:3.9.1 | kafka:3.10.0 | kafka:4.3.1 |"


def test_a_budget_cuts_repeats_before_plans_and_engines() -> None:
    ordered = list(atlas.order({"a": [OURS, OLD], "b": [OURS, OLD]}, 2))
    assert ordered[:4] == [(OURS, "a", 1), (OLD, "a", 1), (OURS, "b", 1), (OLD, "b", 1)]
    assert {number for _, _, number in ordered[4:]} == {2}


def test_engines_side_by_side_sum_what_was_lost_and_name_the_longest_gap() -> None:
    lost = {"text": "writers.lost == 0", "holds": False, "measured": "2", "severity": "fail"}
    unknown = {**lost, "text": "late.gap < 1s", "value": None}
    runs = [
        run(OLD, number=1, objectives=[*measured(1.0), {**lost, "value": 2}]),
        run(OLD, number=2, objectives=[*measured(30.0), {**lost, "value": 0}, unknown]),
    ]
    text = pages.markdown(runs, ()).split("## Engines side by side")[1]
    assert "| kafka:3.9.1 | 1 | 2 PASS | 2 | 0 | 15.5 s | 30.0 s |" in text


def test_an_inconclusive_run_is_kept_with_its_doubt_and_not_with_a_missed_objective() -> None:
    result = {
        **{"name": "a disk dies", "verdict": kept.INCONCLUSIVE, "missed": ["expected a gap"]},
        **{"doubts": ["writers ended"], "objectives": [], "surroundings": {}},
    }
    assert kept.of_result(result)["reason"] == "writers ended"
    assert kept.of_result({**result, "verdict": "FAIL"})["reason"] == "expected a gap"


def test_a_plan_of_a_bug_also_runs_on_the_releases_that_have_it_and_that_fixed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug = Bug("KAFKA-1", "It forgets.", "3.7.0", "3.8.1 or before", plan="dead")
    monkeypatch.setattr(atlas, "BUGS", (bug,))
    assert atlas.engines_of("dead") == [*atlas.ENGINES, "kafka:3.7.0", "kafka:3.8.1"]
    assert atlas.engines_of("slow") == [*atlas.ENGINES]


def test_several_runs_show_median_and_spread() -> None:
    runs = [
        run(OLD, number=number, verdict="PASS" if seconds < 2 else "FAIL", objectives=own)
        for number, seconds in enumerate((1.0, 30.0, 31.0), start=1)
        for own in (measured(seconds),)
    ]
    text = pages.markdown(runs, ())
    assert "| verdict | 2 FAIL, 1 PASS |" in text
    assert "| dead.gap < 2s | met 1 of 3 (30 s; 1 s to 31 s) |" in text
    assert "| kafka:3.9.1 | 3 | Linux, 2 cores | 2026-01-02 | abc |" in text


def test_the_pages_say_above_the_first_table_how_many_runs_a_cell_is() -> None:
    once = [run(OURS), run(OLD)]
    for made in (pages.markdown, pages.page):
        assert 0 < made(once, ()).find("Each cell is one run") < made(once, ()).find("Lost")
    several = pages.markdown([*once, run(NEW), run(NEW, number=2)], ())
    assert "**Each cell is one run**, except 1 of 3 with 2 runs" in several
    assert several.find("one run") < several.find("| Engine")


def test_what_consumers_waited_is_no_gap_of_producers() -> None:
    (held,) = measured(31.0)
    waits = {**held, "text": "readers.gap < 5s", "value": 99.0}

    assert "| 31.0 s | 31.0 s |" in pages.markdown([run(OLD, objectives=[held, waits])], ())


def test_a_run_that_did_not_begin_is_shown_with_its_reason() -> None:
    none = run(NEW, verdict=kept.NOT_RUN, reason="no Java", objectives=[], title="")
    text = pages.markdown([run(OURS), none], ())
    assert "| dead | PASS | NOT RUN |" in text
    assert "* kafka:4.3.1: NOT RUN: no Java" in text


def test_a_bug_shows_the_verdicts_of_its_plan() -> None:
    bug = Bug("KAFKA-1", "It forgets.", "3.9.1", "4.0.0", plan="dead")
    text = pages.markdown([run(OLD, verdict="FAIL"), run(NEW), run(OURS, "other")], [bug])
    cells = "3.9.1 | 4.0.0 | dead | kafka:3.9.1: FAIL; kafka:4.3.1: PASS | - |"
    assert f"| KAFKA-1 | It forgets. | {cells}" in text


def test_the_page_has_the_same_cells() -> None:
    html = pages.page([run(OURS), run(OLD, verdict="FAIL", objectives=measured(31.0))], ())
    assert "missed (31 s)" in html
    assert "kafka:3.9.1" in html


def test_a_process_that_keeps_no_result_is_a_run_that_did_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(atlas, "_commit", lambda: "abc")
    monkeypatch.setattr(atlas, "_run", lambda command, folder: "no Java")
    found = atlas.rehearsed(OLD, "dead", 1)
    assert (found["verdict"], found["reason"]) == (kept.NOT_RUN, "no Java")


def test_a_refusal_by_which_a_release_fixed_the_bug_of_the_plan_is_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(atlas, "_commit", lambda: "abc")
    monkeypatch.setattr(atlas, "_run", lambda command, folder: "broker 1: too many disks")
    bug = Bug("KAFKA-1", "It forgets.", plan="dead", refusal="too many disks")
    monkeypatch.setattr(atlas, "BUGS", (bug,))
    refused, other = atlas.rehearsed(NEW, "dead", 1), atlas.rehearsed(NEW, "slow", 1)
    assert (refused["verdict"], other["verdict"]) == (kept.REFUSED, kept.NOT_RUN)
    text = pages.markdown([run(OLD, verdict="FAIL"), {**run(NEW), **refused}], [bug])
    assert "kafka:3.9.1: FAIL; kafka:4.3.1: REFUSED" in text
    assert "* kafka:4.3.1: REFUSED: broker 1: too many disks" in text


def test_a_result_is_kept_without_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def result(_: object, folder: Path) -> str:
        held = {**measured(31.0)[0], "more": 1}
        found = {
            **{"name": "a disk dies", "verdict": "FAIL", "missed": ["too late"], "doubts": []},
            **{"objectives": [held], "events": [1] * 1000},
            "surroundings": {"machine": "Linux, 2 cores", "began": "2026-01-02T03:04:05+00:00"},
        }
        (folder / "result.json").write_text(json.dumps(found))
        return ""

    monkeypatch.setattr(atlas, "_commit", lambda: "abc")
    monkeypatch.setattr(atlas, "_run", result)
    found = atlas.rehearsed(OLD, "dead", 2)
    assert (found["verdict"], found["reason"], found["number"]) == ("FAIL", "too late", 2)
    assert found["objectives"] == measured(31.0)
    assert len(json.dumps(found)) < 1000


def test_every_bug_names_a_shipped_plan_or_says_why_none_shows_it() -> None:
    for bug in BUGS:
        assert bug.plan in plans.shipped() if bug.plan else bug.why, bug.number


def test_every_plan_that_is_named_after_a_bug_is_in_the_list() -> None:
    named = {plan for plan in plans.shipped() if plan.startswith("kafka-")}
    assert named == {bug.plan for bug in BUGS if bug.plan.startswith("kafka-")}


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.fixed and not bug.why])
def test_a_bug_without_a_reason_is_seen_in_a_kept_run_and_is_not_seen_where_it_is_fixed(
    bug: Bug,
) -> None:
    releases = {
        Engine.parse(run["engine"]).release: run["verdict"]
        for run in kept.read(kept.FOLDER)
        if run["plan"] == bug.plan
    }
    found_in, fixed_in = (Engine.parse(name).release for name in bug.engines)
    assert releases[found_in] == "FAIL"
    assert fixed_in in releases
    for release, verdict in releases.items():
        if release and numbers(release) >= numbers(fixed_in):
            assert verdict in ("PASS", kept.REFUSED), release
    assert releases.get("", "PASS") == "PASS", "ours"


def numbers(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def test_the_documentation_is_what_the_kept_runs_render() -> None:
    assert atlas.MARKDOWN.read_text("utf-8") == pages.markdown(kept.read(kept.FOLDER), BUGS)


def test_the_kept_runs_are_small() -> None:
    assert sum(file.stat().st_size for file in kept.FOLDER.glob("*/*.json")) < 300_000
