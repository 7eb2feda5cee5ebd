"""Who led a partition from when to when, and why that changed."""

from __future__ import annotations

import numpy as np

from analytics.rare import broker_facts
from analytics.rare.broker_facts import BrokerFacts
from analytics.rare.intervals import Intervals, moments, place_in, run_ends
from analytics.rare.replicas import directories_of
from analytics.rare.states import FROM_SNAPSHOT, States, partition_keys
from analytics.read.arrays import Bools, Column, Longs
from analytics.read.arrow_columns import NOTHING
from analytics.read.lists import Ragged, members
from jbodlab.metadata.records.topic_records import RECOVERING
from jbodlab.vocabulary.ids import NO_LEADER

CAUSES = (
    "created",
    "directory",
    "broker",
    "controlled_shutdown",
    "unregistered",
    "reassignment",
    "preferred",
    "unclean",
    "recovered",
    "snapshot",
    "unknown",
)
_CODE = {cause: code for code, cause in enumerate(CAUSES)}
_OF_LOSS = np.zeros(5, dtype=np.uint8)
_OF_LOSS[broker_facts.DIRECTORY] = _CODE["directory"]
_OF_LOSS[broker_facts.CONTROLLED_SHUTDOWN] = _CODE["controlled_shutdown"]
_OF_LOSS[broker_facts.FENCED] = _CODE["broker"]
_OF_LOSS[broker_facts.UNREGISTERED] = _CODE["unregistered"]
_OF_LOSS[broker_facts.UNKNOWN] = _CODE["unknown"]
_NAMES_BROKER = tuple(
    _CODE[cause] for cause in ("directory", "broker", "controlled_shutdown", "unregistered")
)


def leadership(
    states: States, before: Intervals | None, facts: BrokerFacts, ranks: Longs
) -> Intervals:
    """Return the intervals of leaders.

    Args:
        states: In order; those that are `old` lie in the intervals before.
        before: The intervals that were open before these states; None if there are none.
        facts: What became of brokers.
        ranks: Order of the topics.
    """
    first = states.first
    leader = states["leader"]
    changed = first.copy()
    changed[1:] |= leader[1:] != leader[:-1]
    starts = np.nonzero(changed)[0]
    ends = run_ends(starts, len(states))
    columns = moments(states, starts)
    columns |= {
        "leader": leader[starts],
        "leader_epoch": states["leader_epoch"][starts],
        "to_offset": states["to_offset"][ends],
        "to_time": states["to_time"][ends],
    }
    columns |= _causes(states, starts, first[starts], facts)
    if before is not None and len(before):
        old = states["old"][starts]
        wanted = partition_keys(columns["topic"][old], columns["partition"][old], ranks)
        keys = partition_keys(before["topic"], before["partition"], ranks)
        order = np.argsort(keys)
        places = order[place_in(keys[order], wanted)]
        for name, column in columns.items():
            if name not in ("to_offset", "to_time"):
                column[old] = before[name][places]
    return Intervals(columns)


def _causes(states: States, rows: Longs, is_first: Bools, facts: BrokerFacts) -> dict[str, Column]:
    size = len(rows)
    cause = np.full(size, _CODE["unknown"], dtype=np.uint8)
    previous = np.full(size, NOTHING, dtype=np.int64)
    broker = np.full(size, NOTHING, dtype=np.int64)
    directory = np.zeros((size, 16), dtype=np.uint8)
    from_snapshot = states["from_type"][rows] == FROM_SNAPSHOT
    later = np.nonzero(~is_first)[0]
    now, above = rows[later], rows[later] - 1
    previous[later] = states["leader"][above]
    found, lost_directory = _why_changed(states, now, above, facts)
    cause[later] = found
    cause[is_first] = _CODE["created"]
    cause[from_snapshot] = _CODE["snapshot"]
    named = np.isin(cause, _NAMES_BROKER)
    broker[named] = previous[named]
    by_directory = cause == _CODE["directory"]
    directory[later] = lost_directory
    directory[~by_directory] = 0
    return {
        "cause": cause,
        "previous_leader": previous,
        "broker": broker,
        "directory": directory,
    }


def _why_changed(
    states: States, now: Longs, above: Longs, facts: BrokerFacts
) -> tuple[Column, Column]:
    """Return the cause of each change, and the directory that the former leader's replica was in.

    What was lost comes first: an election out of the ISR because a directory failed is put down to
    the directory.
    """
    leader, former = states["leader"][now], states["leader"][above]
    directory, _ = directories_of(states, above, former)
    gone = ~_contains(states.list_of("replicas", now), former)
    leaves = _contains(states.list_of("removing_replicas", now), former) | _contains(
        states.list_of("removing_replicas", above), former
    )
    # A leader that stays in sync was only replaced, whatever becomes of it soon after.
    dropped = (leader == NO_LEADER) | ~_contains(states.list_of("isr", now), former)
    may_follow = dropped & ~gone & ~leaves & (former != NO_LEADER)
    last, time = states["last"][now], states["from_time"][now]
    cause = _OF_LOSS[facts.losses(former, directory, last, time, may_follow)]
    cause[gone | (leaves & (cause == _CODE["unknown"]))] = _CODE["reassignment"]

    was_none = former == NO_LEADER
    clean = _contains(states.list_of("isr", above), leader) | _contains(
        states.list_of("elr", above), leader
    )
    recovering = states["leader_recovery_state"][now] == RECOVERING
    unclean = (leader != NO_LEADER) & (~clean | recovering)
    cause[was_none] = np.where(unclean[was_none], _CODE["unclean"], _CODE["recovered"])
    open_question = cause == _CODE["unknown"]
    preferred = leader == _first_elements(states.list_of("replicas", now))
    moving = (states.list_lengths("adding_replicas")[now] > 0) | (
        states.list_lengths("removing_replicas")[now] > 0
    )
    # A leader that was in no ISR before may have joined together with its election, when a
    # reassignment ends.
    cause[open_question & unclean] = _CODE["unclean"]
    cause[open_question & ~unclean & moving & ~preferred] = _CODE["reassignment"]
    cause[open_question & ~unclean & preferred] = _CODE["preferred"]
    return cause, directory


def _contains(lists: Ragged, wanted: Column) -> Bools:
    size = len(wanted)
    single = Ragged(np.arange(size + 1, dtype=np.int64), wanted.astype(np.int32))
    return members(single, lists)


def _first_elements(lists: Ragged) -> Column:
    """Return the first element of each list; of an empty one, what no broker is."""
    filled = np.append(lists.values, np.int32(-2))
    places = np.where(lists.lengths > 0, lists.offsets[:-1], len(lists.values))
    return filled[places]
