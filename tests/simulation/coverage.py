"""A map of what histories have met: rules that checkers looked at, pairs of faults in one history.

The map is kept in a file from run to run. While it is, every other history is steered at two faults
that have met least, so that a night fills what chance leaves out.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from random import Random

import msgspec

EVENT, RULE = "event ", "rule "
"""Beginnings of the names of faults and of rules among what a history has seen."""
NAMED_MAX = 8
"""Of the faults that one has never met."""


class Coverage(msgspec.Struct):
    """A map of what was met.

    Attributes:
        histories: How many were added.
        rules: In how many histories a checker looked at something, by its rule; 0 for none yet.
        faults: In how many histories a fault happened.
        pairs: In how many histories two faults happened, by their names in order.
    """

    histories: int = 0
    rules: dict[str, int] = {}
    faults: dict[str, int] = {}
    pairs: dict[str, int] = {}

    @classmethod
    def read(cls, path: Path) -> Coverage:
        """Read what `write` has written; an empty map where there is none."""
        return msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else cls()

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))

    def add(self, seen: Counter[str]) -> None:
        """Add what one history has seen."""
        self.histories += 1
        for name, count in seen.items():
            if name.startswith(RULE):
                rule = name.removeprefix(RULE)
                self.rules[rule] = self.rules.get(rule, 0) + (count > 0)
        happened = sorted(each.removeprefix(EVENT) for each in seen if each.startswith(EVENT))
        for name in happened:
            self.faults[name] = self.faults.get(name, 0) + 1
        for both in itertools.combinations(happened, 2):
            self.pairs[" ".join(both)] = self.pairs.get(" ".join(both), 0) + 1

    def rarest(self, seed: int, drawn: Collection[str]) -> tuple[str, ...]:
        """Return what a history is steered at: two faults that met least; nothing for even seeds.

        Args:
            drawn: The faults that histories can draw.
        """
        if seed % 2 == 0:
            return ()
        pairs = list(itertools.combinations(sorted(drawn), 2))
        fewest = min(self.pairs.get(" ".join(each), 0) for each in pairs)
        least = [each for each in pairs if self.pairs.get(" ".join(each), 0) == fewest]
        return Random(f"{seed}:rarest").choice(least)

    def lines(self, drawn: Collection[str]) -> list[str]:
        """Return the map for people: each fault with those it never met, then rules never met."""
        unmet: dict[str, list[str]] = {name: [] for name in sorted(drawn)}
        for one, other in itertools.combinations(sorted(drawn), 2):
            if f"{one} {other}" not in self.pairs:
                unmet[one].append(other)
                unmet[other].append(one)
        count = len(drawn) * (len(drawn) - 1) // 2
        met = count - sum(map(len, unmet.values())) // 2
        lines = [f"map of {self.histories} histories: {met} of {count} pairs of faults met"]
        for name, others in unmet.items():
            few = ", ".join(others) if len(others) <= NAMED_MAX else f"{len(others)} others"
            never = f"; never with {few}" if others else ""
            lines.append(f"  {self.faults.get(name, 0):6d} {name}{never}")
        looked = sum(map(bool, self.rules.values()))
        lines.append(f"{looked} of {len(self.rules)} rules were looked at")
        lines += [f"  never: {rule}" for rule, times in sorted(self.rules.items()) if not times]
        return lines
