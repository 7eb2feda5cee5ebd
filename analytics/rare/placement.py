"""In which directory each replica was from when to when."""

from __future__ import annotations

import numpy as np

from analytics.rare.intervals import MOMENT, Intervals, moments, run_ends
from analytics.rare.states import (
    ENDS_DELETED,
    ENDS_SNAPSHOT,
    FROM_SNAPSHOT,
    States,
    partition_keys,
)
from analytics.read.arrays import Bools, Column, Longs, spread
from analytics.read.lists import combinations

ENDS = ("still", "moved", "replica_removed", "topic_deleted", "snapshot")
_STILL, _MOVED, _REMOVED, _DELETED, _SNAPSHOT = range(len(ENDS))


def placement(states: States, before: Intervals | None, ranks: Longs) -> Intervals:
    """Return the intervals of replicas in directories.

    Args:
        states: In order; those that are `old` lie in the intervals before.
        before: The intervals that were open before these states; None if there are none.
        ranks: Order of the topics.
    """
    first = states.first
    changed = first.copy()
    for name in ("replicas", "directories"):
        codes = states.codes(name)
        changed[1:] |= codes[1:] != codes[:-1]
    rows = np.nonzero(changed)[0]
    life = np.cumsum(first) - 1
    last_row = run_ends(np.nonzero(first)[0], len(states))

    entries = _entries(states, rows)
    turn, broker, directory = entries["turn"], entries["broker"], entries["directory"]
    owner = life[rows[turn]]
    order = np.lexsort((turn, broker, owner))
    turn, broker, directory, owner = turn[order], broker[order], directory[order], owner[order]
    goes_on = (
        (owner[1:] == owner[:-1])
        & (broker[1:] == broker[:-1])
        & (directory[1:] == directory[:-1])
        & (turn[1:] == turn[:-1] + 1)
    )
    starts = np.nonzero(np.append(True, ~goes_on)[: len(turn)])[0]
    ends = run_ends(starts, len(turn))

    begin = rows[turn[starts]]
    columns = moments(states, begin)
    columns |= {"broker": broker[starts], "directory": entries["ids"][directory[starts]]}
    columns |= _ends(states, rows, turn, owner, broker, ends, last_row)
    if before is not None and len(before):
        _take_over(columns, states["old"][begin], before, ranks)
    return Intervals(columns)


def _entries(states: States, rows: Longs) -> dict[str, Column]:
    """Return broker and directory of each replica of some rows; `turn` counts the rows."""
    replicas, directories = states.distinct("replicas"), states.distinct("directories")
    of_rows, of_ids = states.codes("replicas")[rows], states.codes("directories")[rows]
    counts = replicas.lengths[of_rows]
    turn = np.repeat(np.arange(len(rows)), counts)
    broker = replicas.values[spread(replicas.offsets[of_rows], counts)]
    # Every distinct id gets a number, the same wherever it stands.
    halves = np.ascontiguousarray(directories.values).view(np.int32).reshape(-1, 4)
    numbered = combinations(*halves.T)
    numbers = numbered.codes[spread(directories.offsets[of_ids], counts)]
    # A broker that is listed twice counts once.
    _, single = np.unique(turn << 32 | (broker.astype(np.int64) & 0xFFFFFFFF), return_index=True)
    if len(single) < len(turn):
        turn, broker, numbers = turn[single], broker[single], numbers[single]
    ids = directories.values[numbered.rows]
    return {"turn": turn, "broker": broker, "directory": numbers, "ids": ids}


def _ends(
    states: States,
    rows: Longs,
    turn: Longs,
    owner: Longs,
    broker: Column,
    ends: Longs,
    last_row: Longs,
) -> dict[str, Column]:
    """Return when and how intervals end: by the next row of the partition, or with its life."""
    final_turn = np.ones(len(rows), dtype=np.bool_)
    life = np.cumsum(states.first) - 1
    life_of_turn = life[rows]
    final_turn[:-1] = life_of_turn[1:] != life_of_turn[:-1]
    to_end = final_turn[turn[ends]]
    next_row = rows[np.minimum(turn[ends] + 1, len(rows) - 1)]
    last = last_row[owner[ends]]
    to_offset = np.where(to_end, states["to_offset"][last], states["from_offset"][next_row])
    to_time = np.where(to_end, states["to_time"][last], states["from_time"][next_row])
    after = np.minimum(ends + 1, max(len(turn) - 1, 0))
    followed = (
        (ends + 1 < len(turn))
        & (owner[after] == owner[ends])
        & (broker[after] == broker[ends])
        & (turn[after] == turn[ends] + 1)
    )
    ended = np.where(followed, _MOVED, _REMOVED)
    ended[states["from_type"][next_row] == FROM_SNAPSHOT] = _SNAPSHOT
    how = states["ended"][last]
    at_end = np.where(
        how == ENDS_DELETED, _DELETED, np.where(how == ENDS_SNAPSHOT, _SNAPSHOT, _STILL)
    )
    ended = np.where(to_end, at_end, ended)
    return {"to_offset": to_offset, "to_time": to_time, "ended": ended.astype(np.uint8)}


def _take_over(columns: dict[str, Column], old: Bools, before: Intervals, ranks: Longs) -> None:
    """Give the replicas of old states the moment at which they came to where they are."""
    mine = np.nonzero(old)[0]
    keys = partition_keys(columns["topic"][mine], columns["partition"][mine], ranks)
    mine = mine[np.lexsort((columns["broker"][mine], keys))]
    theirs = np.lexsort(
        (before["broker"], partition_keys(before["topic"], before["partition"], ranks))
    )
    assert len(mine) == len(theirs)
    assert (columns["broker"][mine] == before["broker"][theirs]).all()
    for name in MOMENT:
        columns[name][mine] = before[name][theirs]
