"""What joined and left the replicas in sync, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analytics.rare import broker_facts
from analytics.rare.broker_facts import BrokerFacts
from analytics.rare.replicas import directories_of
from analytics.rare.states import FROM_SNAPSHOT, States
from analytics.read.arrays import Column, Longs
from analytics.read.arrow_columns import NOTHING
from analytics.read.lists import Interned, Ragged, combinations, kept, members
from jbodlab.vocabulary.ids import NO_LEADER

CHANGES = ("shrink", "expand", "replace")
SHRINK, EXPAND, REPLACE = range(3)

CAUSES = (
    "directory",
    "broker",
    "controlled_shutdown",
    "reassignment",
    "follower",
    "elected",
    "unknown",
)
_CODE = {cause: code for code, cause in enumerate(CAUSES)}
_NOT_LOST = len(CAUSES)
_OF_LOSS = np.zeros(5, dtype=np.uint8)
_OF_LOSS[broker_facts.DIRECTORY] = _CODE["directory"]
_OF_LOSS[broker_facts.CONTROLLED_SHUTDOWN] = _CODE["controlled_shutdown"]
_OF_LOSS[broker_facts.FENCED] = _OF_LOSS[broker_facts.UNREGISTERED] = _CODE["broker"]
_OF_LOSS[broker_facts.UNKNOWN] = _NOT_LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChanges:
    """Rows of changes; `row` are the states that they led to, the state before is above."""

    row: Longs
    change: Column
    isr: Interned
    previous_isr: Interned
    joined: Interned
    left: Interned
    cause: Column
    broker: Longs
    directory: Column


def isr_changes(states: States, facts: BrokerFacts) -> IsrChanges:
    """Return the changes of the replicas in sync; another order of the same ones is none.

    Args:
        states: In order.
        facts: What became of brokers.
    """
    isr = states.codes("isr")
    other = ~states.first
    other[1:] &= isr[1:] != isr[:-1]
    rows = np.nonzero(other)[0]
    steps = combinations(isr[rows - 1], isr[rows])
    distinct = states.distinct("isr")
    pick = rows[steps.rows]
    before, after = distinct.take(isr[pick - 1]), distinct.take(isr[pick])
    joined = kept(after, ~members(after, before))
    left = kept(before, ~members(before, after))
    change = np.full(len(pick), REPLACE, dtype=np.uint8)
    change[joined.lengths == 0] = SHRINK
    change[left.lengths == 0] = EXPAND
    same = (joined.lengths == 0) & (left.lengths == 0)
    if same.any():
        rows = rows[~same[steps.codes]]
        codes = steps.codes[~same[steps.codes]]
    else:
        codes = steps.codes
    cause, broker, directory = _causes(states, rows, Interned(codes, left), joined, facts)
    return IsrChanges(
        row=rows,
        change=change[codes],
        isr=Interned(isr[rows], distinct),
        previous_isr=Interned(isr[rows - 1], distinct),
        joined=Interned(codes, joined),
        left=Interned(codes, left),
        cause=cause,
        broker=broker,
        directory=directory,
    )


def _causes(
    states: States, rows: Longs, left: Interned, joined: Ragged, facts: BrokerFacts
) -> tuple[Column, Longs, Column]:
    size = len(rows)
    cause = np.full(size, _NOT_LOST, dtype=np.uint8)
    broker = np.full(size, NOTHING, dtype=np.int64)
    directory = np.zeros((size, 16), dtype=np.uint8)
    counts = left.distinct.lengths[left.codes]
    owner = np.repeat(np.arange(size), counts)
    gone = left.distinct.take(left.codes).values
    if len(gone):
        above = rows[owner] - 1
        ids, _ = directories_of(states, above, gone)
        loss = _OF_LOSS[
            facts.losses(gone, ids, states["last"][rows[owner]], states["from_time"][rows[owner]])
        ]
        # Of several, the first in the order of causes counts, then the lowest broker.
        best = np.lexsort((gone, loss, owner))
        best = best[np.unique(owner[best], return_index=True)[1]]
        lost = best[loss[best] != _NOT_LOST]
        cause[owner[lost]] = loss[lost]
        broker[owner[lost]] = gone[lost]
        by_directory = lost[loss[lost] == _CODE["directory"]]
        directory[owner[by_directory]] = ids[by_directory]
    cause = _without_loss(states, rows, left, joined, cause)
    named = cause <= _CODE["controlled_shutdown"]
    broker[~named] = NOTHING
    directory[cause != _CODE["directory"]] = 0
    return cause, broker, directory


def _without_loss(
    states: States, rows: Longs, left: Interned, joined: Ragged, cause: Column
) -> Column:
    """Fill in the causes of changes in which no broker or directory was lost."""
    above = rows - 1
    found = combinations(
        left.codes, states.codes("replicas")[rows], states.codes("adding_replicas")[above]
    )
    pick = found.rows
    replicas = states.list_of("replicas", rows[pick])
    adding = states.list_of("adding_replicas", above[pick])
    gone = left.distinct.take(left.codes[pick])
    new = joined.take(left.codes[pick])
    removed = _any(gone, ~members(gone, replicas))
    added = _any(new, members(new, adding))
    moved = (removed | added)[found.codes]
    leader, former = states["leader"][rows], states["leader"][above]
    taken_over = states["from_type"][rows] == FROM_SNAPSHOT
    result = cause.copy()
    nothing_lost = cause == _NOT_LOST
    # A leader where there was none, out of the ELR or at all costs, is in sync with itself.
    elected = (former == NO_LEADER) & (leader != NO_LEADER)
    by_leader = np.where(elected, _CODE["elected"], _CODE["unknown"])
    result[nothing_lost] = np.where(leader == former, _CODE["follower"], by_leader)[nothing_lost]
    result[moved] = _CODE["reassignment"]
    result[taken_over] = _CODE["unknown"]
    return result


def _any(lists: Ragged, marked: Column) -> Column:
    """Return which lists have a marked element."""
    running = np.zeros(len(marked) + 1, dtype=np.int64)
    np.cumsum(marked, out=running[1:])
    found: Column = running[lists.offsets[1:]] > running[lists.offsets[:-1]]
    return found
