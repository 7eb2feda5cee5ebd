"""The next round of a night, and the page of its results."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from tests.night.rounds import PARTS, Night, Part, Round, choose, command_of, page, read_parts

TEXT = """part\tshare\tminutes\trounds\teach\tcommand
long\t80\t30\t3\t200 histories\tA=1 python -m long --seeds {first}..{last} --kept {kept}
words\t20\t5\tdisks clients\tfolder\tpython -m words {item} {seed}
"""


def night(*rounds: tuple[str, str, float]) -> Night:
    made = Night(commit="abc", machine="two cores", date="2026-01-02", seed=5_000)
    for part, item, seconds in rounds:
        made.rounds.append(
            Round(part=part, item=item, seconds=seconds, outcome="fine", said="3 passed")
        )
    return made


def chosen(*rounds: tuple[str, str, float]) -> tuple[str, str] | None:
    found = choose(read_parts(TEXT), night(*rounds))
    return None if found is None else (found[0].name, found[1])


def test_the_part_that_has_had_least_of_its_share_is_next() -> None:
    assert chosen() == ("long", "1")
    assert chosen(("long", "1", 10)) == ("words", "disks")
    assert chosen(("long", "1", 10), ("words", "disks", 5)) == ("long", "2")


def test_a_night_goes_on_with_the_rounds_that_are_left_and_ends_with_the_last() -> None:
    done = [("long", "1", 1.0), ("long", "2", 1.0), ("words", "disks", 90.0)]

    assert chosen(*done) == ("long", "3")
    assert chosen(*done, ("long", "3", 1.0)) == ("words", "clients")
    assert chosen(*done, ("long", "3", 1.0), ("words", "clients", 1.0)) is None


def test_no_two_rounds_of_a_part_have_the_same_seeds() -> None:
    long, words = read_parts(TEXT)

    def command(part: Part, item: str) -> str:
        return command_of(part, item, night(), 2, Path("kept"), Path("failure"))

    assert command(long, "1") == "A=1 python -m long --seeds 5000..5199 --kept kept"
    assert command(long, "3") == "A=1 python -m long --seeds 5400..5599 --kept kept"
    assert command(words, "clients") == "python -m words clients 5001"


def test_the_page_has_a_row_for_each_part_that_began_and_the_newest_night_first() -> None:
    newer = night(("long", "1", 7_200))
    newer.date = "2026-01-03"
    newer.rounds.append(
        Round(part="words", item="disks", seconds=36, outcome="failed", said="1 failed | 2 passed")
    )
    later = replace(newer, commit="later", rounds=[])
    text = page([night(), newer, later], read_parts(TEXT))

    assert text.index("later") < text.index("2026-01-03, commit " + newer.commit)
    assert text.index("2026-01-03") < text.index("2026-01-02")
    assert "| long | 1 of 3, 200 histories | 1 | 0 | 0 | 2.00 | 3 passed |" in text
    assert "| words | 1 of 2, folder | 0 | 1 | 0 | 0.01 | 1 failed / 2 passed |" in text
    assert "Of the parts 2 have not begun." in text
    assert "Failed: words, disks: 1 failed | 2 passed" in text


def test_every_part_has_a_share_and_its_command_can_be_written() -> None:
    parts = read_parts(PARTS.read_text())

    assert sum(part.share for part in parts) == 100
    assert len({part.name for part in parts}) == len(parts)
    for part in parts:
        said = command_of(part, part.items[-1], night(), 2, Path("kept"), Path("failure"))
        assert "python -m " in said
        assert "{" not in said
