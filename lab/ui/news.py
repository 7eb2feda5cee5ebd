"""The events that the page lists, out of those that an observer sees, and of the fault journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from fault_injection.journal import Fault
from fault_injection.mechanism import Broken
from jbodlab.vocabulary.ids import TopicPartition
from lab.watch.events import Event

MS = 1_000_000
IN_THE_LOG = ("leader", "isr")
"""Kinds of events that the metadata log has more exactly than the metadata of clients."""


class Item(Struct, frozen=True, kw_only=True):
    """One line; `at_ms` is the wall clock's time."""

    at_ms: int
    source: str
    kind: str
    text: str


@dataclass(slots=True)
class News:
    """Tells news from what was so before.

    Attributes:
        has_log: Whether the controller's log is read.
    """

    has_log: bool
    _known: set[tuple[str, TopicPartition | None]] = field(default_factory=set)
    _faults: dict[int, str] = field(default_factory=dict)
    _is_first: bool = True

    def of_cluster(
        self, events: Iterable[Event], monotonic_ns: int, wall_ns: int
    ) -> Iterator[Item]:
        """Yield lines for events, the two clocks being read at the same moment."""
        for event in sorted(events, key=lambda one: one.t_ns):
            if event.source == "metric" and event.kind in IN_THE_LOG:
                key = (event.kind, event.partition)
                is_new = key in self._known
                self._known.add(key)
                if self.has_log or not is_new:
                    continue
            at_ms = (wall_ns - (monotonic_ns - event.t_ns)) // MS
            yield Item(at_ms=at_ms, source=event.source, kind=event.kind, text=event.text)

    def of_faults(self, faults: Mapping[int, tuple[Fault, str]], wall_ns: int) -> Iterator[Item]:
        """Yield lines for what changed in the journal.

        Args:
            faults: All faults of the cluster, healed ones too, with the place of each.
            wall_ns: The wall clock.
        """
        for number, (fault, where) in faults.items():
            before, self._faults[number] = self._faults.get(number), fault.state
            if before == fault.state or (self._is_first and not fault.is_open):
                continue
            text = f"fault {number}: {fault.kind} on {where} by {fault.mechanism} is {fault.state}"
            if fault.broken and (clients := Broken.of_json(fault.broken).clients):
                text += f"; clients meanwhile: {clients}"
            yield Item(at_ms=wall_ns // MS, source="fault", kind=fault.state, text=text)
        self._is_first = False
