"""The map of what histories have met."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.simulation.coverage import Coverage


def history(*faults: str, **rules: int) -> Counter[str]:
    return Counter({**{f"event {each}": 2 for each in faults}, "swapped": 1}) + Counter(
        {f"rule {name}": times for name, times in rules.items()}
    )


def test_faults_of_one_history_have_met() -> None:
    coverage = Coverage()
    coverage.add(history("move", "eio", "kill"))
    coverage.add(history("eio"))

    assert coverage.faults == {"eio": 2, "kill": 1, "move": 1}
    assert coverage.pairs == {"eio kill": 1, "eio move": 1, "kill move": 1}
    assert coverage.lines(["move", "eio", "twin"])[:2] == [
        "map of 2 histories: 1 of 3 pairs of faults met",
        "       2 eio; never with twin",
    ]


def test_every_other_history_is_steered_at_faults_that_met_least() -> None:
    coverage = Coverage()
    coverage.add(history("move", "eio", "kill"))

    drawn = ["eio", "kill", "move", "twin"]
    found = {coverage.rarest(seed, drawn) for seed in range(40)}
    assert found == {(), ("eio", "twin"), ("kill", "twin"), ("move", "twin")}
    assert all(coverage.rarest(seed, drawn) == () for seed in range(0, 40, 2))


def test_a_rule_that_no_checker_looked_at_is_told() -> None:
    coverage = Coverage()
    coverage.add(Counter({"rule S1: one leader": 7, "rule S20: fences": 0}))

    assert coverage.lines([])[-2:] == ["1 of 2 rules were looked at", "  never: S20: fences"]


def test_a_map_is_read_as_it_was_written(tmp_path: Path) -> None:
    coverage = Coverage()
    coverage.add(history("move", "eio", S1=3))
    coverage.write(tmp_path / "kept" / "map.json")

    assert Coverage.read(tmp_path / "kept" / "map.json") == coverage
    assert Coverage.read(tmp_path / "none.json") == Coverage()
