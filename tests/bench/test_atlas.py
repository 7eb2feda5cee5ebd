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
        **{"took_s": 40.0, "series": "2026-01-02", "load": 0.5, **more},
    }


def measured(seconds: float) -> list[dict[str, Any]]:
    held = {"text": "dead.gap < 2s", "holds": seconds < 2, "value": seconds}
    return [{**held, "measured": f"{seconds:.0f} s", "severity": "fail"}]


def test_a_run_is_kept_and_read_again(tmp_path: Path) -> None:
    kept.keep(tmp_path, run(OLD))
    assert kept.read(tmp_path) == [run(OLD)]
    file = kept.file_of(tmp_path, OLD, "dead", 1)
    assert [path.name for path in file.parent.iterdir()] == ["dead-1.json"]


def test_the_first_run_of_a_series_takes_the_place_of_all_former_ones_of_its_cell(
    tmp_path: Path,
) -> None:
    for number in (1, 2):
        for plan in ("dead", "dead-slowly"):
            kept.keep(tmp_path, run(OLD, plan, number))
    new = run(OLD, "dead", series="2026-02-03")

    kept.keep(tmp_path, new)

    others = [run(OLD, "dead-slowly", number) for number in (1, 2)]
    assert kept.read(tmp_path) == [new, *others]


@pytest.mark.parametrize(
    ("verdict", "is_repeated"),
    [
        ("PASS", False),
        ("FAIL", False),
        (kept.REFUSED, False),
        # To repeat until it proves something would choose among the runs of a spread.
        ("INCONCLUSIVE", False),
        (kept.NOT_RUN, True),
    ],
)
def test_a_run_without_a_result_is_repeated_and_no_other(verdict: str, is_repeated: bool) -> None:
    asked = [(OURS, "dead", 1), (OLD, "dead", 1), (OLD, "slow", 1)]
    former = [run(OLD, verdict=verdict)]

    series, left = atlas.left(former, asked)

    assert series == former[0]["series"]
    assert left == [one for one in asked if one != (OLD, "dead", 1) or is_repeated]


def test_a_series_that_is_whole_is_followed_by_another() -> None:
    asked = [(OURS, "dead", 1), (OURS, "dead", 2)]
    former = [run(OURS), run(OURS, number=2, verdict=kept.NOT_RUN)]

    series, left = atlas.left(former, asked)

    assert series > former[0]["series"]
    assert left == asked


def test_runs_of_a_former_series_are_left_in_the_last_one() -> None:
    asked = [(OURS, "dead", 1), (OLD, "dead", 1)]
    former = [run(OURS, series="2025-01-01"), run(OLD)]

    assert atlas.left(former, asked) == (run(OLD)["series"], [(OURS, "dead", 1)])


def test_the_time_that_is_left_is_that_of_former_runs() -> None:
    former = [run(OURS, took_s=10.0), run(OLD, took_s=90.0), run(OLD, "slow", took_s=20.0)]

    assert atlas.expected_s(former, [(OURS, "dead", 2)]) == 10.0
    assert atlas.expected_s(former, [(NEW, "dead", 1)]) == 50.0
    assert atlas.expected_s(former, [(OURS, "unknown", 1)] * 2) == 40.0


def test_half_a_file_is_no_run(tmp_path: Path) -> None:
    file = kept.file_of(tmp_path, OLD, "dead", 1)
    file.parent.mkdir()
    file.with_suffix(".new").write_text('{"pla')
    assert kept.read(tmp_path) == []


def test_engines_are_ordered_by_release(tmp_path: Path) -> None:
    for engine in ("kafka:4.3.1", "kafka:3.10.0", "kafka:3.9.1", OURS):
        kept.keep(tmp_path, run(engine))
    names = [one["engine"] for one in kept.read(tmp_path)]
    assert names == [OURS, "kafka:3.9.1", "kafka:3.10.0", "kafka:4.3.1"]
    head = pages.markdown(kept.read(tmp_path), ()).split("## Verdicts")[1].split("\n")[2]
    assert head == "| Plan | jbodlab | kafka:3.9.1 | kafka:3.10.0 | kafka:4.3.1 |"


def test_a_budget_cuts_repeats_before_plans_and_engines() -> None:
    ordered = list(atlas.order({"a": [OURS, OLD], "b": [OURS, OLD]}, 2))
    assert ordered[:4] == [(OURS, "a", 1), (OLD, "a", 1), (OURS, "b", 1), (OLD, "b", 1)]
    assert {number for _, _, number in ordered[4:]} == {2}


def test_plans_of_known_bugs_come_last_in_a_round() -> None:
    ordered = atlas.order({"kafka-16234": [OLD], "slow-disk": [OLD]}, 1)
    assert [plan for _, plan, _ in ordered] == ["slow-disk", "kafka-16234"]


def test_engines_side_by_side_sum_what_was_lost_with_its_least_and_greatest() -> None:
    lost = {"text": "writers.lost == 0", "holds": False, "measured": "2", "severity": "fail"}
    unknown = {**lost, "text": "late.gap < 1s", "value": None}
    runs = [
        run(OLD, number=1, objectives=[*measured(1.0), {**lost, "value": 2}]),
        run(OLD, number=2, objectives=[*measured(30.0), {**lost, "value": 0}, unknown]),
    ]
    text = pages.markdown(runs, ()).split("## Engines side by side")[1]
    assert (
        "| kafka:3.9.1 | 1 | 2 PASS | 2 (0 to 2) | 0 (0 to 0) | 15.5 s (1.0 s to 30.0 s) |" in text
    )


def test_a_gap_without_an_end_is_the_greatest_one() -> None:
    (held,) = measured(3.0)
    text = pages.markdown([run(OLD, objectives=[held, {**held, "value": -1}, held])], ())
    assert "| 3.0 s (3.0 s to never) |" in text


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
    assert "| verdict | mixed (2 FAIL, 1 PASS) |" in text
    assert "| dead | mixed (2 FAIL, 1 PASS) |" in text
    assert "| dead.gap < 2s | met 1 of 3 (30 s; 1 s to 31 s) |" in text
    assert "| kafka:3.9.1 | 3 | Linux, 2 cores | 0.5 (0.5 to 0.5) | 2026-01-02 | abc |" in text


def test_a_verdict_stands_where_all_runs_agree() -> None:
    text = pages.markdown([run(OLD, number=number) for number in (1, 2, 3)], ())
    assert "| dead | PASS |" in text
    assert "| verdict | PASS |" in text


def test_the_pages_say_above_the_first_table_how_many_runs_a_cell_is() -> None:
    once = [run(OURS), run(OLD)]
    for made in (pages.markdown, pages.page):
        assert 0 < made(once, ()).find("Each cell is one run") < made(once, ()).find("Lost")
    thrice = [run(OURS, number=number) for number in (1, 2, 3)]
    assert "**Each cell is 3 runs.** Several runs show the median" in pages.markdown(thrice, ())
    several = pages.markdown([*thrice, run(NEW), run(OLD)], ())
    assert "**Of 3 cells 1 are 3 runs, 2 are one run.**" in several
    assert several.find("one run") < several.find("| Engine")


def test_what_consumers_waited_is_no_gap_of_producers() -> None:
    (held,) = measured(31.0)
    waits = {**held, "text": "readers.gap < 5s", "value": 99.0}

    assert "| 31.0 s (31.0 s to 31.0 s) |" in pages.markdown(
        [run(OLD, objectives=[held, waits])], ()
    )


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
    releases: dict[str, set[str]] = {}
    for run in kept.read(kept.FOLDER):
        if run["plan"] == bug.plan:
            releases.setdefault(Engine.parse(run["engine"]).release, set()).add(run["verdict"])
    found_in, fixed_in = (Engine.parse(name).release for name in bug.engines)
    assert "FAIL" in releases[found_in]
    assert fixed_in in releases
    for release, verdicts in releases.items():
        if not release or numbers(release) >= numbers(fixed_in):
            assert "FAIL" not in verdicts, release or "ours"


def numbers(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def test_the_documentation_is_what_the_kept_runs_render() -> None:
    assert atlas.MARKDOWN.read_text("utf-8") == pages.markdown(kept.read(kept.FOLDER), BUGS)


def test_the_kept_runs_are_small() -> None:
    assert all(file.stat().st_size < 3000 for file in kept.FOLDER.glob("*/*.json"))
