"""The timeline of a plan: when what happens, after what, how often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fault_injection.kinds import kind_named
from jbodlab.durations import duration_s, duration_text
from lab.rehearsal.document import Fields, Item, whole
from lab.rehearsal.known import Known
from lab.rehearsal.plan import LAST, MOMENTS, After, At, Entry, Instant, When
from lab.rehearsal.read_deeds import Deeds, is_kind, known_deed
from lab.rehearsal.read_load import positive
from lab.rehearsal.vocabulary import OF_FAULT

REPEATS_MAX = 100


class Timeline:
    """Reads it, entry by entry.

    Args:
        lines: The entries; their names are known from now on, since others may come after them.
        known: What the plan has named.
    """

    def __init__(self, lines: Sequence[Item], known: Known) -> None:
        self._lines = lines
        self._known = known
        self._deeds = Deeds(known)
        for line in lines:
            self._announce(line)

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, repeated ones so many times."""
        found = [(line, self._entries(line)) for line in self._lines]
        self._check_order(found)
        return tuple(entry for _, entries in found for entry in entries)

    def moment(self, value: Any) -> After:
        """Return a moment of an entry, such as `first.healed`.

        Raises:
            ValueError: there is none such.
        """
        name, _, moment = str(value).rpartition(".")
        if moment not in MOMENTS:
            moments = ", ".join(MOMENTS)
            raise ValueError(f"expected NAME.MOMENT with a moment of {moments}, got {value!r}")
        if name != LAST and name not in self._known.entries:
            there = ", ".join([*self._known.entries, LAST])
            raise ValueError(f"unknown entry {name!r} (entries of the timeline: {there})")
        return After(name=name, moment=moment)

    def _announce(self, item: Item) -> None:
        """Take notice of an entry's name before any is read."""
        if isinstance(item.value, dict):
            entries = self._known.entries
            do = item.value.get("do")
            named = item.value.get("as")
            says = named or do
            name = "" if says is None else str(says.value)
            if named is None and name in entries:
                name = f"{name}-{len(entries) + 1}"
            self._known.own(item, name, OF_FAULT if do and is_kind(do.value) else {})
            entries.append(name)

    def _entries(self, item: Item) -> list[Entry]:
        fields = Fields(item)
        if not isinstance(item.value, dict):
            return []
        number = int(item.path.removeprefix("timeline[").removesuffix("]"))
        do = fields.read("do", known_deed, "", needed=True)
        fields.get("as")
        instant = self._instant(fields)
        repeat = self._repeat(fields)
        fault, names = is_kind(do), self._known.entries
        told = self._deeds.fault if fault else self._deeds.action
        entry = Entry(
            name=names[number] if number < len(names) else do,
            do=kind_named(do).name if fault else do,
            instant=instant,
            **(told(fields, do) if do else {}),
        )
        if do:
            fields.done()
        if repeat is None:
            return [entry]
        times, every_s = repeat
        if entry.is_fault and entry.length_s is not None and every_s < entry.length_s:
            item.wrong(
                f"every {duration_text(every_s)} is sooner than {duration_text(entry.length_s)}, "
                "when the fault is reverted"
            )
        return self._repeated(entry, times, every_s)

    def _repeated(self, entry: Entry, times: int, every_s: float) -> list[Entry]:
        """Return the entry so many times, as `NAME#1` and so on, the later ones after the first."""
        first = f"{entry.name}#1"
        owners = self._known.owners
        for number in range(1, times + 1):
            owners[f"{entry.name}#{number}"] = owners[entry.name]
        return [
            replace(
                entry,
                name=f"{entry.name}#{number}",
                instant=entry.instant
                if number == 1
                else After(name=first, moment="injected", plus_s=every_s * (number - 1)),
            )
            for number in range(1, times + 1)
        ]

    def _check_order(self, found: Sequence[tuple[Item, list[Entry]]]) -> None:
        """Refuse what never comes: healing without an end, entries that wait for each other."""
        firsts = {entries[0].name.partition("#")[0]: entries[0] for _, entries in found if entries}
        above: list[str] = []
        for item, entries in found:
            for entry in entries[:1]:
                instant, name = entry.instant, entry.name.partition("#")[0]
                if isinstance(instant, After):
                    after = item.value["after"]
                    told = firsts.get(instant.name)
                    is_endless = told is not None and told.is_fault and told.length_s is None
                    if instant.name == LAST and not above:
                        after.wrong("there is no entry above this one")
                    elif instant.moment == "healed" and is_endless and told.do != "restart":  # type: ignore[union-attr]
                        after.wrong(f"{instant.name!r} lasts until the end: it has no 'for'")
                    elif instant.name in (name, *above) and _comes_after(
                        name, instant.name, firsts
                    ):
                        # Of those that wait for each other the last one is told.
                        after.wrong(f"{instant.name!r} itself comes after {name!r}")
                above.append(name)

    def _instant(self, fields: Fields) -> Instant:
        given = [key for key in ("at", "after", "when") if key in fields]
        if len(given) != 1:
            which = " and ".join(map(repr, given)) if given else "none"
            fields.item.wrong(f"expected one of 'at', 'after', 'when', got {which}")
        for key, partner in (("plus", "after"), ("within", "when")):
            if key in fields and partner not in fields:
                fields.item.wrong(f"{key!r} goes with {partner!r} only")
        plus = fields.read("plus", duration_s, 0.0)
        within = fields.read("within", positive, 30.0)
        after = fields.read("after", self.moment, None)
        when = fields.get("when")
        at = fields.read("at", duration_s, 0.0)
        if after is not None:
            return After(name=after.name, moment=after.moment, plus_s=plus)
        expression = self._known.expression(when, live=True) if when is not None else None
        if expression is not None:
            return When(expression=expression, within_s=within)
        return At(seconds=at)

    def _repeat(self, fields: Fields) -> tuple[int, float] | None:
        item = fields.get("repeat")
        if item is None:
            return None
        inner = Fields(item)
        times = inner.read("times", whole(2, REPEATS_MAX), 2, needed=True)
        # What is wrong here already is not compared with the length of the entry as well.
        every_s = inner.read("every", positive, math.inf, needed=True)
        inner.done()
        return times, every_s


def _comes_after(name: str, other: str, firsts: dict[str, Entry]) -> bool:
    """Return whether an entry, or the one that it comes after, and so on, comes after another."""
    seen: set[str] = set()
    while other not in seen:
        if other == name:
            return True
        seen.add(other)
        entry = firsts.get(other)
        if entry is None or not isinstance(entry.instant, After):
            return False
        other = entry.instant.name
    return False
