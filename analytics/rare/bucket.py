"""All that is followed of one bucket of partitions, step by step.

A step takes the next events in the order of replay. What has ended by then is returned; what still
holds is carried to the next step. So the size of a step bounds the memory, however much there is of
one partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.rare.broker_facts import BrokerFacts
from analytics.rare.intervals import Intervals
from analytics.rare.isr_changes import IsrChanges, isr_changes
from analytics.rare.key_history import Event, History, Moment, Row, Sync, advance
from analytics.rare.leadership import leadership
from analytics.rare.min_insync import AssumedMinIsr
from analytics.rare.partition_steps import Lives, Meeting, follow
from analytics.rare.placement import placement
from analytics.rare.rare_topics import follow_topic, partition_events
from analytics.rare.shortages import MinIsr, shortages
from analytics.rare.states import (
    STILL,
    States,
    Topic,
    Topics,
    joined,
    no_states,
    ordered,
)
from analytics.rare.topic_records import TopicFold
from analytics.read.arrays import Column, Longs, groups
from analytics.read.partition_events import NO_TIME, PartitionEvents
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.vocabulary import kafka_uuid

_FOR_EVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEvent:
    """A record that concerns one topic as a whole, or all of them."""

    topic_id: bytes | None
    """None: all topics."""
    is_first: bool
    """Whether this is the bucket that emits what the topic has once."""
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """What a step has found.

    Attributes:
        states: States in order; those that still hold are for `isr_changes` only.
        isr: Changes of the ISR, by rows of these states.
        leadership: Intervals that have ended.
        placement: Intervals that have ended.
        shortages: Intervals that have ended.
        rows: Rows of topics and problems.
    """

    states: States
    isr: IsrChanges | None
    leadership: Intervals
    placement: Intervals
    shortages: Intervals
    rows: list[Row]


@dataclass(slots=True)
class Open:
    """What still holds."""

    states: States = field(default_factory=no_states)
    leadership: Intervals | None = None
    placement: Intervals | None = None
    shortages: Intervals | None = None


class BucketFold:
    """The state of one bucket.

    Args:
        facts: What became of brokers.
        assumed: `min.insync.replicas` where the log does not say.
    """

    def __init__(self, facts: BrokerFacts, assumed: AssumedMinIsr | None = None) -> None:
        self.facts = facts
        self.assumed = assumed
        self.since = 0
        """First offset that the next step is about."""
        self.open = Open()
        self.topics = Topics()
        self.folds: dict[bytes, TopicFold] = {}
        self.cluster: list[Event] = []
        """What was said to all topics so far."""
        self.met: list[Sync] = []
        """The snapshots met so far."""

    def step(
        self, events: PartitionEvents, topic_events: Sequence[TopicEvent], syncs: Sequence[Sync]
    ) -> Produced:
        """Take the next events.

        Args:
            events: Of partitions, in any order, none before those of the step before.
            topic_events: Of topics, of the same stretch.
            syncs: Snapshots that end in this stretch.
        """
        rows: list[Row] = []
        stories = self._advance_topics(topic_events, syncs)
        ids, codes = _distinct_ids(events.topic_id)
        number_of = {topic_id: self._number(topic_id) for topic_id in ids}
        topic = np.array([number_of[one] for one in ids], dtype=np.int32)[codes]
        ranks = self.topics.ranks()
        meetings = [Meeting(offset=s.offset, time=_time(s.time), is_base=s.is_base) for s in syncs]
        states, rare = follow(
            self.open.states, events, topic, self._lives(stories), meetings, ranks
        )
        if rare[topic].any() or rare[self.open.states["topic"]].any():
            states = self._with_rare(states, events, topic, rare, stories, syncs, rows)
            ranks = self.topics.ranks()
        found = self._derive(states, ranks)
        for fold in self.folds.values():
            rows += fold.history.rows
            fold.history = History()
        return Produced(
            states=found.states,
            isr=found.isr,
            leadership=found.leadership,
            placement=found.placement,
            shortages=found.shortages,
            rows=rows,
        )

    def finish(self) -> list[Row]:
        """Return the rows of topics that still exist; `open` has the rest."""
        rows: list[Row] = []
        for fold in self.folds.values():
            fold.history = History()
            fold.finish()
            rows += fold.history.rows
        return rows

    def _derive(self, states: States, ranks: Column) -> Produced:
        held = self.open
        found = Produced(
            states=states,
            isr=isr_changes(states, self.facts) if len(states) else None,
            leadership=leadership(states, held.leadership, self.facts, ranks),
            placement=placement(states, held.placement, ranks),
            shortages=shortages(
                states, self._min_isr(), self.since, held.shortages, self.facts, ranks
            ),
            rows=[],
        )
        still = states["to_offset"] == STILL
        self.open = Open(
            states=states.take(still).compacted(),
            leadership=found.leadership.take(found.leadership.is_open),
            placement=found.placement.take(found.placement.is_open),
            shortages=found.shortages.take(found.shortages.is_open),
        )
        return Produced(
            states=states,
            isr=found.isr,
            leadership=found.leadership.take(~found.leadership.is_open),
            placement=found.placement.take(~found.placement.is_open),
            shortages=found.shortages.take(~found.shortages.is_open),
            rows=[],
        )

    def _advance_topics(
        self, topic_events: Sequence[TopicEvent], syncs: Sequence[Sync]
    ) -> dict[bytes, _Story]:
        """Replay what concerns topics as a whole; return the stories of those concerned."""
        own: dict[bytes, list[Event]] = {}
        cluster: list[Event] = []
        new: set[bytes] = set()
        for one in topic_events:
            if one.topic_id is None:
                cluster.append(one.event)
                continue
            own.setdefault(one.topic_id, []).append(one.event)
            if one.topic_id not in self.folds:
                text = kafka_uuid.to_text(UUID(bytes=one.topic_id))
                self.folds[one.topic_id] = TopicFold(
                    text, is_first=one.is_first, assumed=self.assumed
                )
                new.add(one.topic_id)
        cluster.sort(key=_position)
        stories: dict[bytes, _Story] = {}
        concerned = self.folds if syncs or cluster else own
        for topic_id in concerned:
            fold = self.folds[topic_id]
            events = own.get(topic_id, [])
            # A new topic hears what was said to all before it was there.
            is_new = topic_id in new
            said = [*self.cluster, *cluster] if is_new else cluster
            merged = sorted([*said, *events], key=_position) if said else events
            stories[topic_id] = _Story(fold.name, fold.created, [*cluster, *events])
            advance(fold, merged, [*self.met, *syncs] if is_new else syncs)
        self.cluster += cluster
        self.met += syncs
        return stories

    def _number(self, topic_id: bytes) -> int:
        fold = self.folds.get(topic_id)
        name = fold.lives[-1].name if fold is not None and fold.lives else ""
        return self.topics.number(Topic(name, topic_id))

    def _lives(self, stories: dict[bytes, _Story]) -> Lives:
        size = len(self.topics.all)
        begin = np.full(size, _FOR_EVER, dtype=np.int64)
        end = np.full(size, _FOR_EVER, dtype=np.int64)
        removed_offset = np.full(size, STILL, dtype=np.int64)
        removed_time = np.full(size, STILL, dtype=np.int64)
        simple = np.zeros(size, dtype=np.bool_)
        clears: list[tuple[int, int]] = []
        for number, topic in enumerate(self.topics.all):
            fold = self.folds.get(topic.topic_id)
            if fold is None or len(fold.lives) != 1 or fold.lives[0].by_snapshot:
                continue
            life = fold.lives[0]
            if life.name != topic.name:
                continue
            simple[number] = True
            begin[number] = life.begin
            if life.end is not None and life.removed is not None:
                end[number] = life.end
                removed_offset[number] = life.removed.offset
                removed_time[number] = _time(life.removed.time)
            clears += ((number, position) for position in fold.clears)
            fold.clears.clear()
        return Lives(
            begin=begin,
            end=end,
            removed_offset=removed_offset,
            removed_time=removed_time,
            simple=simple,
            clears=clears,
        )

    def _min_isr(self) -> dict[int, list[MinIsr]]:
        values: dict[int, list[MinIsr]] = {}
        for number, topic in enumerate(self.topics.all):
            fold = self.folds.get(topic.topic_id)
            if fold is not None:
                values[number] = [
                    MinIsr(value, since.offset, _time(since.time))
                    for value, since in fold.min_isr_values
                ]
        return values

    def _with_rare(
        self,
        states: States,
        events: PartitionEvents,
        topic: Column,
        rare: Column,
        stories: dict[bytes, _Story],
        syncs: Sequence[Sync],
        rows: list[Row],
    ) -> States:
        """Follow rare topics record by record, and put their states among the others."""
        parts = [states]
        before = self.open.states
        met = np.unique(np.concatenate([topic, before["topic"]]))
        ids = list(dict.fromkeys(self.topics.all[n].topic_id for n in met[rare[met]]))
        places = {topic_id: place for place, topic_id in enumerate(ids)}
        place_of = np.array([places.get(one.topic_id, -1) for one in self.topics.all])
        of_event, of_state = (_by_place(place_of[one]) for one in (topic, before["topic"]))
        nothing = np.zeros(0, dtype=np.int64)
        for place, topic_id in enumerate(ids):
            own_events = of_event.get(place, nothing)
            own_states = of_state.get(place, nothing)
            if not len(own_events) and not len(own_states):
                continue
            fold = TopicFold(kafka_uuid.to_text(UUID(bytes=topic_id)), is_first=False)
            story, known = stories.get(topic_id), self.folds.get(topic_id)
            if story is not None:
                fold.begin(story.name, story.created, ())
            elif known is not None:
                fold.begin(known.name, known.created, ())
            of_topic = [] if story is None else story.events
            merged = sorted(
                [
                    *(event for event in of_topic if event.type != ConfigRecord.NAME),
                    *partition_events(events, own_events, fold.topic_id),
                ],
                key=_position,
            )
            parts.append(follow_topic(fold, before.take(own_states), merged, syncs, self.topics))
            rows += (
                {"kind": "partition_problem", "partition_problem": row["problem"]}
                for row in fold.history.rows
            )
        return ordered(joined(parts), self.topics)


@dataclass(frozen=True, slots=True)
class _Story:
    """A topic as it was before a step, and what concerned it then."""

    name: str | None
    created: Moment | None
    events: list[Event]


def _distinct_ids(values: Column) -> tuple[list[bytes], Column]:
    encoded = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
    ).dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices)


def _by_place(places: Longs) -> dict[int, Longs]:
    """Return the rows of each place."""
    return {int(places[rows[0]]): rows for rows in groups(places)}


def _position(event: Event) -> int:
    return event.position


def _time(time: int | None) -> int:
    return NO_TIME if time is None else time
