"""The table of what becomes of a transaction when a directory dies, as plans of histories.

In each history one directory dies for good while a transaction is in one state: that of its
coordinator, or one with its records. The last row has no other replica of the records.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from tests.simulation.command import print_outcomes
from tests.simulation.plan import Event, Options, Plan, TopicPlan, TransactionPlan

STATES = {
    "begun": "Empty is committed",
    "partitions-being-added": "Ongoing is written",
    "ongoing": "Ongoing is committed",
    "end-being-written": "PrepareCommit is written",
    "prepared": "PrepareCommit is committed",
    "abort-prepared": "PrepareAbort is committed",
    "marker-appended": "a marker is appended",
    "partly-marked": "some markers are written",
    "completion-being-written": "CompleteCommit is written",
    "completed": "CompleteCommit is committed",
}
"""The moment at which a transaction gets into each state."""
WHOSE = ("coordinator", "data")
KINDS = ("eio", "hang", "full")
VERSIONS = (1, 2)
FIRST_SEED = 4_000
CHAOS_MS = 6_000
"""In which much is left after the 2 s in which a call that hangs is noticed."""


class Cell(NamedTuple):
    """One history: in which state whose directory dies, how, and which version clients speak."""

    state: str
    whose: str
    kind: str
    version: int

    @property
    def name(self) -> str:
        """The name of its test."""
        return f"{self.state}-{self.whose}-{self.kind}-version-{self.version}"


CELLS = [
    Cell(state, whose, kind, VERSIONS[number % 2])
    for number, state in enumerate(STATES)
    for whose in WHOSE
    for kind in KINDS
]
ALONE = [Cell("prepared", "data", kind, 1) for kind in KINDS]
"""Those without another replica of the records."""
HISTORIES = [*CELLS, *ALONE]
"""The seed of each is its number behind `FIRST_SEED`."""


def plan_of(number: int) -> Plan:
    """Return the history of that number."""
    cell = HISTORIES[number]
    replicas = 3 if number < len(CELLS) else 1
    topic = TopicPlan(name="t0", partitions=2, replication_factor=replicas, min_insync=1)
    producer = TransactionPlan(
        name="x0",
        topics=("t0",),
        transactions=60,
        # A producer that stands still for longer than that has no other transaction for a while.
        timeout_ms=1_000,
        pause_ms=20,
        is_new=cell.version == max(VERSIONS),
    )
    death = Event(
        at_ms=0,
        after=STATES[cell.state],
        fault=f"{cell.kind}_of_{cell.whose}",
        choice=0,
        length_ms=10 * CHAOS_MS,
    )
    options = Options(
        seed=FIRST_SEED + number,
        directories=3,
        chaos_ms=CHAOS_MS,
        topics=(topic,),
        consumers=0,
        transactions=(producer,),
    )
    return Plan(options=options, events=(death,))


if __name__ == "__main__":
    print_outcomes(plan_of(int(number)) for number in sys.argv[1:])
