"""A night: its parts, which have rounds; their results; and the round that is next.

A part is a row of `parts.tsv`. Its rounds are numbered, or are words that its command names. A
command may have in braces: the round's `item`, its `seed`, the `first` and `last` of its seeds
where it has several, how many `jobs` there may be, the folder in which what is `kept` from round to
round lies, and the folder that is kept if this round is a `failure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

PARTS = Path(__file__).with_name("parts.tsv")
HEAD = """# Endurance

Results of the tests that run long. `make night` does all of it, or as much as its budget of hours
has room for; it can be ended at any time, and the same command goes on. The parts are the rows of
`tests/night/parts.tsv`. A round that failed leaves a folder in `build/night` with its log, its seed
and the command that repeats it. *Skipped* is what the machine lacked something for.
"""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a night.

    Attributes:
        share: Of the hours, in percent; what some parts do not need others get.
        minutes: After which a round is ended, and counts as one that failed.
        items: The subjects of its rounds: numbers from 1, or words.
        each: The size of a round, with a number before it where it has several seeds.
        command: Variables and their values, then the program.
    """

    name: str
    share: float
    minutes: float
    items: tuple[str, ...]
    each: str
    command: str

    @property
    def size(self) -> int:
        """How many seeds a round has."""
        first = self.each.partition(" ")[0]
        return int(first) if first.isdigit() else 1


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a round; `outcome` is one of `OUTCOMES`, and `said` its last line."""

    part: str
    item: str
    seconds: float
    outcome: str
    said: str


OUTCOMES = FINE, FAILED, SKIPPED = "fine", "failed", "skipped"


class Night(msgspec.Struct, kw_only=True):
    """All rounds so far of one commit on one machine.

    Attributes:
        seed: Before the first that its rounds use.
        date: Of its begin.
    """

    commit: str
    machine: str
    date: str
    seed: int
    rounds: list[Round] = []


def read_parts(text: str) -> list[Part]:
    """Read the rows of `parts.tsv`, below their head."""
    parts = []
    for line in text.splitlines()[1:]:
        name, share, minutes, rounds, each, command = line.split("\t")
        items = map(str, range(1, int(rounds) + 1)) if rounds.isdigit() else rounds.split()
        parts.append(
            Part(
                name=name,
                share=float(share),
                minutes=float(minutes),
                items=tuple(items),
                each=each,
                command=command,
            )
        )
    return parts


def choose(parts: Sequence[Part], night: Night) -> tuple[Part, str] | None:
    """Return the next round: of the part that has had least of its share; None if all is done."""
    done = {(each.part, each.item) for each in night.rounds}
    spent = {part.name: 0.0 for part in parts}
    for each in night.rounds:
        spent[each.part] = spent.get(each.part, 0.0) + each.seconds
    left = [part for part in parts if any((part.name, item) not in done for item in part.items)]
    if not left:
        return None
    part = min(left, key=lambda each: spent[each.name] / each.share)
    return part, next(item for item in part.items if (part.name, item) not in done)


def command_of(part: Part, item: str, night: Night, jobs: int, kept: Path, failure: Path) -> str:
    """Return the command of a round; its seeds are those that no other round of its part has."""
    seed = night.seed + part.items.index(item) * part.size
    last = seed + part.size - 1
    return part.command.format(
        item=item, seed=seed, first=seed, last=last, jobs=jobs, kept=kept, failure=failure
    )


def line_of(part: Part, night: Night) -> str:
    """Return the one line of a part."""
    rounds = [each for each in night.rounds if each.part == part.name]
    counts = [f"{sum(each.outcome == name for each in rounds)} {name}" for name in OUTCOMES]
    hours = sum(each.seconds for each in rounds) / 3600
    said = rounds[-1].said if rounds else ""
    done = f"{len(rounds)} of {len(part.items)} rounds ({part.each})"
    return f"{part.name:20s} {done:42s} {', '.join(counts)}; {hours:.2f} h; {said}"


def page(nights: Sequence[Night], parts: Sequence[Part]) -> str:
    """Return `docs/endurance.md`: nights, the newest first, with a row for each part that began."""
    text = [HEAD]
    # Of nights of one day the last one was the later one.
    newest = list(reversed(nights))
    newest.sort(key=lambda each: each.date, reverse=True)
    for night in newest:
        text.append(f"\n## {night.date}, commit {night.commit}\n")
        text.append(f"{night.machine}; seeds from {night.seed}.\n")
        text.append("| part | rounds | fine | failed | skipped | hours | the last one said |")
        text.append("|---|---|---|---|---|---|---|")
        for part in parts:
            rounds = [each for each in night.rounds if each.part == part.name]
            if not rounds:
                continue
            counts = [sum(each.outcome == name for each in rounds) for name in OUTCOMES]
            hours = sum(each.seconds for each in rounds) / 3600
            said = rounds[-1].said.replace("|", "/")
            done = f"{len(rounds)} of {len(part.items)}, {part.each}"
            cells = [part.name, done, *map(str, counts), f"{hours:.2f}", said]
            text.append(f"| {' | '.join(cells)} |")
        begun = {each.part for each in night.rounds}
        others = sum(part.name not in begun for part in parts)
        text += [f"\nOf the parts {others} have not begun."] if others else []
        failed = [each for each in night.rounds if each.outcome == FAILED]
        text += [f"\nFailed: {each.part}, {each.item}: {each.said}" for each in failed]
    return "\n".join(text) + "\n"
