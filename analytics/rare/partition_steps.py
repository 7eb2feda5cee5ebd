"""One step of following partitions: states so far and the next events give the states after them.

Sorted by partition and order of replay, a field's value in a row is the one of the last row at or
above it that has the field: a PartitionRecord has all, a PartitionChangeRecord those that it
changes. Counting rows gives the partition epoch, counting named leaders the leader epoch; that is
what `PartitionRegistration.from_record` and `merge` say, and a property test holds both equal.

Only topics are followed here whose story is simple: created once, removed at most once, every
partition created before it is changed, lists of directories as long as those of replicas, every
snapshot in agreement, and no ELR that a ClearElr would empty. `follow` names the others, for which
the caller asks the fold of single records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analytics.rare.event_columns import EventColumns, read_events
from analytics.rare.states import (
    ENDS_CHANGED,
    ENDS_DELETED,
    ENDS_STILL,
    FROM_CHANGE,
    FROM_PARTITION,
    FROM_SNAPSHOT,
    INT_LISTS,
    LISTS,
    STILL,
    States,
    partition_keys,
)
from analytics.read.arrays import Bools, Column, Longs, groups
from analytics.read.lists import Interned
from analytics.read.partition_events import PartitionEvents
from jbodlab.vocabulary import directory_id as directory_ids

_MIGRATING = directory_ids.MIGRATING.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """When topics existed, one row per topic number; positions are those of replay.

    Attributes:
        begin: Position of the creation.
        end: Position of the removal; a very large one if there is none.
        removed_offset: Offset of the removal, STILL if there is none.
        removed_time: Its time.
        simple: Whether the topic was created once, and removed at most once.
        clears: Numbers of topics whose ELRs are emptied, each with the position of that.
    """

    begin: Longs
    end: Longs
    removed_offset: Longs
    removed_time: Longs
    simple: Bools
    clears: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """A snapshot that the replay meets.

    Attributes:
        offset: Its end offset.
        time: Time of the last record in it, microseconds since 1970.
        is_base: Whether the replay starts from it.
    """

    offset: int
    time: int
    is_base: bool


def follow(
    before: States,
    events: PartitionEvents,
    topic: Column,
    lives: Lives,
    meetings: Sequence[Meeting],
    ranks: Longs,
) -> tuple[States, Bools]:
    """Follow the partitions of simple topics for one step.

    Args:
        before: States that hold before the events, in order.
        events: The events, in any order.
        topic: Number of the topic of each event.
        lives: When the topics existed, up to the end of the step.
        meetings: Snapshots that are met in this step, by offset.
        ranks: Order of the topics.

    Returns:
        The states of the simple topics, those before it included, in order; and for each topic
        number whether the topic is left to the fold of single records.
    """
    rare = ~lives.simple
    position = events.position
    _mark(rare, topic, (position <= lives.begin[topic]) | (position >= lives.end[topic]))
    rows = _gather(before, events, topic, position, meetings, ranks)
    _mark(rare, rows.topic, rows.columns.plain)

    order = _in_order(rows, rare)
    own = order[~rows.compared[order]]
    unknown = _firsts(rows.key[own]) & ~rows.columns.whole[own]
    if unknown.any():
        rare[rows.topic[own[unknown]]] = True
        order = order[~rare[rows.topic[order]]]
        own = order[~rows.compared[order]]

    states, wrong = _filled(rows, own)
    _mark(rare, states["topic"], wrong)
    states = _closed(states, lives)
    reached = rows.position[own]
    _compare(rows, order, states, reached, meetings, lives, rare)
    _check_clears(states, reached, lives, rare)
    gone = rare[states["topic"]]
    return (states.take(~gone) if gone.any() else states), rare


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """States before and events as rows of one matter."""

    columns: EventColumns
    topic: Column
    partition: Column
    key: Longs
    position: Longs
    compared: Bools
    """Rows of snapshots that are held against the state reached so far."""
    moments: dict[str, Column]
    """What becomes the columns of the moment from which a state holds."""


def _gather(
    before: States,
    events: PartitionEvents,
    topic: Column,
    position: Longs,
    meetings: Sequence[Meeting],
    ranks: Longs,
) -> _Rows:
    carried = len(before)
    own = events.snapshot.copy()
    moments = {
        "from_offset": events.offset,
        "from_time": events.time,
        "base": events.base,
        "last": events.last,
    }
    base = next((meeting for meeting in meetings if meeting.is_base), None)
    if base is not None:
        first = events.snapshot & (events.replay_offset == base.offset)
        own &= ~first
        given = dict.fromkeys(moments, base.offset) | {"from_time": base.time}
        moments = {name: np.where(first, given[name], moments[name]) for name in moments}
    columns = read_events(before, events)
    from_type = np.where(
        events.snapshot,
        FROM_SNAPSHOT,
        np.where(columns.whole[carried:], FROM_PARTITION, FROM_CHANGE),
    ).astype(np.uint8)
    all_topics = np.concatenate([before["topic"], topic]).astype(np.int32, copy=False)
    partition = np.concatenate([before["partition"], events.partition])
    return _Rows(
        columns=columns,
        topic=all_topics,
        partition=partition,
        key=partition_keys(all_topics, partition, ranks),
        # A state that holds stands before everything in this step.
        position=np.concatenate([np.full(carried, -1, dtype=np.int64), position]),
        compared=np.concatenate([np.zeros(carried, dtype=np.bool_), own]),
        moments={
            **{name: np.concatenate([before[name], column]) for name, column in moments.items()},
            "from_type": np.concatenate([before["from_type"], from_type]),
            "old": np.arange(carried + len(events)) < carried,
        },
    )


def _in_order(rows: _Rows, rare: Bools) -> Longs:
    """Return the rows of simple topics by partition and position."""
    in_sequence = len(rows.position) < 2 or bool((np.diff(rows.position) >= 0).all())
    order: Longs = (
        np.argsort(rows.key, kind="stable")
        if in_sequence
        else np.lexsort((rows.position, rows.key))
    )
    return order[~rare[rows.topic[order]]] if rare.any() else order


def _filled(rows: _Rows, own: Longs) -> tuple[States, Bools]:
    """Return the states of sorted rows, not yet ended, and where directories do not fit."""
    columns = rows.columns
    place = np.arange(len(own), dtype=np.int32)
    whole = columns.whole[own]
    start = _last_present(whole, place)
    begin = own[start]
    wholes = int(whole.sum())
    numbers: dict[str, Column] = {"topic": rows.topic[own], "partition": rows.partition[own]}
    for name in ("leader", "leader_recovery_state"):
        source = _last_present(columns.present[name][own], place)
        numbers[name] = columns.numbers[name][own[source]]
    numbers["partition_epoch"] = (
        columns.numbers["partition_epoch"][begin] + (place - start)
    ).astype(np.int32)
    named = np.cumsum(columns.present["leader"][own])
    numbers["leader_epoch"] = (
        columns.numbers["leader_epoch"][begin] + (named - named[start])
    ).astype(np.int32)
    lists = {}
    for name in LISTS:
        present = columns.present[name][own]
        # Most lists are given by whole states only.
        only_whole = int(present.sum()) == wholes
        source = begin if only_whole else own[_last_present(present, place)]
        lists[name] = Interned(columns.list_codes[name][source], columns.distinct[name])
    numbers |= {name: column[own] for name, column in rows.moments.items()}
    numbers["to_offset"] = np.full(len(own), STILL, dtype=np.int64)
    numbers["to_time"] = np.full(len(own), STILL, dtype=np.int64)
    numbers["ended"] = np.full(len(own), ENDS_STILL, dtype=np.uint8)
    touched = columns.present["replicas"][own] | columns.present["directories"][own]
    return _with_directories(States(numbers, lists), touched)


def _with_directories(states: States, touched: Bools) -> tuple[States, Bools]:
    """Give replicas without directories the one that stands for that.

    Where there are directories they must be as many as replicas; all of them being MIGRATING would
    do as well, but is left to the definition.
    """
    directories = states.list_lengths("directories")
    replicas = states.list_lengths("replicas")
    wrong = touched & (directories != 0) & (directories != replicas)
    missing = np.nonzero((directories == 0) & (replicas != 0))[0]
    if not len(missing):
        return states, wrong
    distinct = states.distinct("directories")
    codes = states.codes("directories").copy()
    counts = np.unique(replicas[missing])
    filler = np.frombuffer(_MIGRATING, dtype=np.uint8)
    offsets = [distinct.offsets]
    end = int(distinct.offsets[-1])
    code_of = np.zeros(int(counts.max()) + 1, dtype=np.int32)
    known = _migrating_codes(distinct.lengths, distinct.offsets, distinct.values)
    added = 0
    for count in counts.tolist():
        if count in known:
            code_of[count] = known[count]
            continue
        code_of[count] = len(distinct.offsets) - 1 + added
        added += 1
        end += count
        offsets.append(np.array([end], dtype=np.int64))
    codes[missing] = code_of[replicas[missing]]
    offsets_array = np.concatenate(offsets)
    more = np.tile(filler, (end - int(distinct.offsets[-1]), 1))
    values = np.concatenate([distinct.values, more])
    found = Interned(codes, distinct._replace(offsets=offsets_array, values=values))
    return States(states.numbers, {**states.lists, "directories": found}), wrong


def _migrating_codes(lengths: Longs, offsets: Longs, values: Column) -> dict[int, int]:
    """Return for each length the distinct list of nothing but MIGRATING, if there is one."""
    real = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values.any(axis=1), out=real[1:])
    none_real = (real[offsets[1:]] == real[offsets[:-1]]) & (lengths > 0)
    rows = np.nonzero(none_real)[0]
    return dict(zip(lengths[rows].tolist(), rows.tolist(), strict=True))


def _closed(states: States, lives: Lives) -> States:
    """End each state by the next one of its partition, or with its topic."""
    size = len(states)
    if not size:
        return states
    last = _lasts(states)
    topic = states["topic"]
    to_offset = np.append(states["from_offset"][1:], STILL)
    to_time = np.append(states["from_time"][1:], STILL)
    removed_offset = lives.removed_offset[topic[last]]
    to_offset[last] = removed_offset
    to_time[last] = lives.removed_time[topic[last]]
    ended = np.full(size, ENDS_CHANGED, dtype=np.uint8)
    ended[last] = np.where(removed_offset == STILL, ENDS_STILL, ENDS_DELETED)
    return states.replaced(to_offset=to_offset, to_time=to_time, ended=ended)


def _compare(
    rows: _Rows,
    order: Longs,
    states: States,
    reached: Longs,
    meetings: Sequence[Meeting],
    lives: Lives,
    rare: Bools,
) -> None:
    """Mark the topics that a snapshot tells otherwise."""
    compared = rows.compared[order]
    above = (np.cumsum(~compared) - 1)[compared]
    said = order[compared]
    own = order[~compared]
    topic = rows.topic[said]
    if len(said):
        same = above >= 0
        same[same] = rows.key[own[above[same]]] == rows.key[said[same]]
        again = np.zeros(len(said), dtype=np.bool_)
        again[1:] = (rows.key[said[1:]] == rows.key[said[:-1]]) & (
            rows.position[said[1:]] == rows.position[said[:-1]]
        )
        wrong = ~same | again
        wrong[same] |= _differs(rows.columns, said[same], states, above[same])
        _mark(rare, topic, wrong)
    counts = len(lives.begin)
    for meeting in meetings:
        if meeting.is_base or not len(states):
            continue
        position = meeting.offset * 2
        end = lives.end[states["topic"]]
        next_one = np.append(reached[1:], np.iinfo(np.int64).max)
        next_one[_lasts(states)] = np.iinfo(np.int64).max
        alive = (reached < position) & (np.minimum(next_one, end) > position)
        held = np.bincount(states["topic"][alive], minlength=counts)
        listed = np.bincount(topic[rows.position[said] == position], minlength=counts)
        rare |= held != listed


def _differs(columns: EventColumns, said: Longs, states: States, above: Longs) -> Bools:
    """Return which rows of a snapshot differ from a state, as far as their version can tell."""
    wrong = np.zeros(len(said), dtype=np.bool_)
    for name in ("leader", "leader_epoch", "partition_epoch", "leader_recovery_state"):
        wrong |= columns.numbers[name][said] != states[name][above]
    version = columns.version[said]
    for name in INT_LISTS:
        other = columns.list_codes[name][said] != states.codes(name)[above]
        wrong |= other & (version >= 2) if name in ("elr", "last_known_elr") else other
    other = columns.list_codes["directories"][said] != states.codes("directories")[above]
    # An empty list stands for one MIGRATING per replica: the definition decides about that.
    wrong |= other & (version >= 1)
    return wrong


def _check_clears(states: States, reached: Longs, lives: Lives, rare: Bools) -> None:
    """Mark the topics in which emptying the ELRs changes something."""
    if not lives.clears or not len(states):
        return
    with_elr = (states.list_lengths("elr") > 0) | (states.list_lengths("last_known_elr") > 0)
    if not with_elr.any():
        return
    next_one = np.append(reached[1:], np.iinfo(np.int64).max)
    next_one[_lasts(states)] = np.iinfo(np.int64).max
    rows = np.nonzero(with_elr)[0]
    by_topic: dict[int, list[int]] = {}
    for number, position in lives.clears:
        by_topic.setdefault(number, []).append(position)
    for own in groups(states["topic"][rows]):
        here = rows[own]
        number = int(states["topic"][here[0]])
        cleared = np.sort(np.array(by_topic.get(number, ()), dtype=np.int64))
        begun = np.searchsorted(cleared, reached[here], side="right")
        if (np.searchsorted(cleared, next_one[here], side="left") > begun).any():
            rare[number] = True


def _last_present(present: Bools, place: Column) -> Column:
    """Return for each row the last one at or above it that is present."""
    return np.maximum.accumulate(np.where(present, place, np.int32(0)))


def _lasts(states: States) -> Bools:
    """Return the last row of each partition."""
    topic, partition = states["topic"], states["partition"]
    last = np.ones(len(states), dtype=np.bool_)
    last[:-1] = (topic[1:] != topic[:-1]) | (partition[1:] != partition[:-1])
    return last


def _firsts(key: Longs) -> Bools:
    first = np.ones(len(key), dtype=np.bool_)
    first[1:] = key[1:] != key[:-1]
    return first


def _mark(rare: Bools, topic: Column, rows: Bools) -> None:
    if rows.any():
        rare[topic[rows]] = True
