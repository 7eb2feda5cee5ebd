"""When a partition had no leader, or fewer replicas in sync than required, and why.

A state is held against the `min.insync.replicas` in force, never more than the partition has
replicas; neighbouring states with the same shortage are one outage; what begins and ends inside one
batch was never visible and is none. The cause is the worst loss among the replicas that the first
step took away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from analytics.rare import broker_facts
from analytics.rare.broker_facts import BrokerFacts
from analytics.rare.intervals import Intervals, place_in, run_ends
from analytics.rare.replicas import directories_of
from analytics.rare.states import STILL, States, partition_keys
from analytics.read.arrays import Bools, Column, Longs, offsets_of, spread
from analytics.read.arrow_columns import NOTHING
from analytics.read.lists import Ragged, kept, members
from jbodlab.vocabulary.ids import NO_LEADER

KINDS = ("leaderless", "under_min_isr")
LEADERLESS, UNDER_MIN_ISR = range(2)
CAUSES = ("directory", "broker", "unknown", "controller")
_DIRECTORY, _BROKER, _UNKNOWN, _CONTROLLER = range(4)
_OF_LOSS = np.full(5, _BROKER, dtype=np.uint8)
_OF_LOSS[broker_facts.DIRECTORY] = _DIRECTORY
_OF_LOSS[broker_facts.UNKNOWN] = _UNKNOWN


class MinIsr(NamedTuple):
    """A value of `min.insync.replicas`, and since when it is in force."""

    value: int
    offset: int
    time: int


def shortages(
    states: States,
    min_isr: Mapping[int, Sequence[MinIsr]],
    since: int,
    before: Intervals | None,
    facts: BrokerFacts,
    ranks: Longs,
) -> Intervals:
    """Return the outages, those that go on included.

    Args:
        states: In order; those that are `old` lie in the outages before.
        min_isr: For each topic number, the values in the order of offsets.
        since: First offset that these states are about.
        before: The outages that were open before; None if there are none.
        facts: What became of brokers.
        ranks: Order of the topics.
    """
    pieces = _pieces(states, min_isr, since)
    found = [
        _of_kind(states, pieces, kind, short, before, facts, ranks)
        for kind, short in (
            (LEADERLESS, states["leader"][pieces.row] == NO_LEADER),
            (UNDER_MIN_ISR, _is_under(states, pieces)),
        )
    ]
    return Intervals(
        {name: np.concatenate([part[name] for part in found]) for name in found[0].columns}
    )


class _Pieces(NamedTuple):
    """States, cut where the required number changes."""

    row: Longs
    from_offset: Longs
    from_time: Longs
    to_offset: Longs
    to_time: Longs
    required: Longs
    is_cut: Bools
    """Pieces that begin inside their state."""


def _pieces(states: States, min_isr: Mapping[int, Sequence[MinIsr]], since: int) -> _Pieces:
    size = len(states)
    begin, end = states["from_offset"], states.end
    topics, first_rows = np.unique(states["topic"], return_index=True)
    # Rows of a topic stand together.
    order = np.argsort(first_rows)
    topics, first_rows = topics[order], first_rows[order]
    last_rows = run_ends(first_rows, size) + 1
    required = np.zeros(size, dtype=np.int64)
    cut_rows: list[Column] = []
    cuts: list[Column] = []
    for topic, low, high in zip(
        topics.tolist(), first_rows.tolist(), last_rows.tolist(), strict=True
    ):
        values = min_isr.get(topic)
        if not values:
            continue
        if len(values) == 1:
            required[low:high] = values[0].value
            continue
        offsets = np.array([value.offset for value in values], dtype=np.int64)
        numbers = np.array([value.value for value in values], dtype=np.int64)
        # What begins before is an old state, with the value of the time before this step.
        at = np.maximum(begin[low:high], since - 1)
        place = np.searchsorted(offsets, at, side="right") - 1
        required[low:high] = numbers[np.maximum(place, 0)]
        first = np.searchsorted(offsets, at, side="right")
        behind = np.searchsorted(offsets, end[low:high], side="left")
        counts = np.maximum(behind - first, 0)
        cut_rows.append(np.repeat(np.arange(low, high), counts))
        moments = np.array([value.time for value in values], dtype=np.int64)
        cuts.append(np.stack([offsets, moments, numbers])[:, spread(first, counts)])
    if not cuts:
        return _Pieces(
            np.arange(size),
            begin,
            states["from_time"],
            states["to_offset"],
            states["to_time"],
            required,
            np.zeros(size, dtype=np.bool_),
        )
    row = np.concatenate([np.arange(size), *cut_rows])
    more = np.concatenate(cuts, axis=1)
    from_offset = np.concatenate([begin, more[0]]).astype(np.int64)
    is_cut = np.arange(len(row)) >= size
    order = np.lexsort((from_offset, is_cut, row))
    row, from_offset, is_cut = row[order], from_offset[order], is_cut[order]
    from_time = np.concatenate([states["from_time"], more[1]]).astype(np.int64)[order]
    required = np.concatenate([required, more[2]]).astype(np.int64)[order]
    to_offset, to_time = states["to_offset"][row], states["to_time"][row]
    followed = np.nonzero(row[1:] == row[:-1])[0]
    to_offset[followed], to_time[followed] = from_offset[followed + 1], from_time[followed + 1]
    return _Pieces(row, from_offset, from_time, to_offset, to_time, required, is_cut)


def _is_under(states: States, pieces: _Pieces) -> Bools:
    in_sync = states.list_lengths("isr")[pieces.row]
    replicas = states.list_lengths("replicas")[pieces.row]
    under: Bools = in_sync < np.minimum(pieces.required, replicas)
    return under


def _of_kind(
    states: States,
    pieces: _Pieces,
    kind: int,
    short: Bools,
    before: Intervals | None,
    facts: BrokerFacts,
    ranks: Longs,
) -> Intervals:
    is_first = states.first[pieces.row] & ~pieces.is_cut
    starts_here = short.copy()
    starts_here[1:] &= is_first[1:] | ~short[:-1]
    ends_here = short.copy()
    ends_here[:-1] &= is_first[1:] | ~short[1:]
    starts, ends = np.nonzero(starts_here)[0], np.nonzero(ends_here)[0]
    to_offset = pieces.to_offset[ends]
    row = pieces.row[starts]
    old = states["old"][row] & ~pieces.is_cut[starts]
    seen = old | (to_offset == STILL) | (to_offset > states["last"][row])
    starts, ends, row, old = starts[seen], ends[seen], row[seen], old[seen]
    columns: dict[str, Column] = {
        "topic": states["topic"][row],
        "partition": states["partition"][row],
        "kind": np.full(len(row), kind, dtype=np.uint8),
        "from_offset": pieces.from_offset[starts],
        "from_time": pieces.from_time[starts],
        "to_offset": pieces.to_offset[ends],
        "to_time": pieces.to_time[ends],
    }
    columns |= _causes(states, row, pieces.is_cut[starts], facts)
    if old.any():
        assert before is not None
        same = before.take(before["kind"] == kind)
        keys = partition_keys(same["topic"], same["partition"], ranks)
        order = np.argsort(keys)
        wanted = partition_keys(columns["topic"][old], columns["partition"][old], ranks)
        places = order[place_in(keys[order], wanted)]
        for name in columns:
            if name not in ("to_offset", "to_time"):
                columns[name][old] = same[name][places]
    return Intervals(columns)


def _causes(states: States, row: Longs, is_cut: Bools, facts: BrokerFacts) -> dict[str, Column]:
    size = len(row)
    cause = np.full(size, _CONTROLLER, dtype=np.uint8)
    broker = np.full(size, NOTHING, dtype=np.int64)
    directory = np.zeros((size, 16), dtype=np.uint8)
    lost = _lost(states, row)
    counts = np.where(is_cut, 0, lost.lengths)
    owner = np.repeat(np.arange(size), counts)
    gone = lost.values[np.repeat(~is_cut, lost.lengths)]
    if len(gone):
        # Of a replica that is gone from the list, no directory is known.
        ids, _ = directories_of(states, row[owner], gone)
        loss = _OF_LOSS[
            facts.losses(gone, ids, states["last"][row[owner]], states["from_time"][row[owner]])
        ]
        best = np.lexsort((gone, loss, owner))
        best = best[np.unique(owner[best], return_index=True)[1]]
        cause[owner[best]] = loss[best]
        broker[owner[best]] = gone[best]
        by_directory = best[loss[best] == _DIRECTORY]
        directory[owner[by_directory]] = ids[by_directory]
    return {"cause": cause, "broker": broker, "directory": directory}


def _lost(states: States, row: Longs) -> Ragged:
    """Return the replicas that the step to each state took away.

    `topic_records.lost_replicas` says it of one.
    """
    first = states.first[row]
    above = np.maximum(row - 1, 0)
    replicas, isr = states.list_of("replicas", row), states.list_of("isr", row)
    before = states.list_of("isr", above)
    were = _choose(first, replicas, before)
    lost = kept(were, ~members(were, isr) & members(were, replicas))
    led_before = np.where(first, True, states["leader"][above] != NO_LEADER)
    leader_gone = (states["leader"][row] == NO_LEADER) & led_before
    former = Ragged(
        np.arange(len(row) + 1, dtype=np.int64), states["leader"][above].astype(np.int32)
    )
    also = _choose(first, isr, former)
    also = kept(also, np.repeat(leader_gone, also.lengths) & ~members(also, lost))
    return _appended(lost, also)


def _choose(which: Bools, one: Ragged, other: Ragged) -> Ragged:
    """Return for each row the list of the one, or of the other."""
    both = Ragged(
        np.concatenate([one.offsets, other.offsets[1:] + one.offsets[-1]]),
        np.concatenate([one.values, other.values]),
    )
    rows = np.arange(len(which))
    return both.take(np.where(which, rows, rows + len(which)))


def _appended(one: Ragged, other: Ragged) -> Ragged:
    """Return for each row the elements of both lists."""
    owner = np.concatenate(
        [
            np.repeat(np.arange(len(one.offsets) - 1), one.lengths),
            np.repeat(np.arange(len(other.offsets) - 1), other.lengths),
        ]
    )
    values = np.concatenate([one.values, other.values])
    order = np.argsort(owner, kind="stable")
    return Ragged(offsets_of(one.lengths + other.lengths), values[order])
