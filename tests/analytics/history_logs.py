"""Random histories of topics for tests, with everything in them that a log should not hold."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from uuid import UUID

from analytics.rare.key_history import Event, Sync, advance
from analytics.rare.topic_records import Change, TopicFold
from analytics.read.layout import Layout, read_layout
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.log.snapshots import snapshot_name
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary import kafka_uuid
from tests.analytics.builders import LEVEL
from tests.analytics.image_tables import state_row
from tests.analytics.random_records import RandomRecords, replayed
from tests.snapshot_files import image_records, write_snapshot

SEGMENT = "00000000000000000000.log"
PARTITION_RECORDS = (PartitionRecord, PartitionChangeRecord)


@dataclass
class RandomTopics:
    """Events of some topics, and the image that the records give."""

    drawn: RandomRecords
    events: list[Event] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    image: MetadataImage = field(default_factory=lambda: _AT_HIGHEST_LEVEL)
    images: dict[int, MetadataImage] = field(default_factory=dict)
    """After each offset."""
    offset: int = 0

    def run(self, batches: int) -> None:
        """Go on by so many batches, and by snapshots."""
        for _ in range(batches):
            base = self.offset
            batch = list(self.drawn.batch(self.image, base))
            self.offset += len(batch)
            for offset, (record, self.image) in enumerate(batch, base):
                self.images[offset] = self.image
                self.events.append(self._event(record, offset, base))
            if self._chance(0.08):
                self._snapshot()

    def _chance(self, share: float) -> bool:
        return self.drawn.random.random() < share

    def _event(self, record: Record, offset: int, base: int) -> Event:
        version = record.HIGHEST_VERSION
        if isinstance(record, PARTITION_RECORDS) and self._chance(self.drawn.oddity):
            # An empty list is written where it means a change.
            elrs = (record.eligible_leader_replicas, record.last_known_elr)
            version = 1 if elrs == (None, None) else version
        return Event(
            key="",
            replay_offset=offset,
            snapshot=False,
            offset=offset,
            time=base * 1_000_000,
            batch_base_offset=base,
            batch_last_offset=self.offset - 1,
            file=SEGMENT,
            type=record.NAME,
            value=frame.encode(record, version),
        )

    def _snapshot(self) -> None:
        if self.syncs and self.syncs[-1].offset == self.offset:
            return
        if self._chance(self.drawn.oddity):
            for record in self.drawn.records(self.image, 0):
                # A restarted node believes the snapshot.
                self.image = replayed(self.image, record, 0)
        time, name = self.offset * 1_000_000, snapshot_name(self.offset, 1)
        self.syncs.append(Sync(offset=self.offset, time=time, file=name, is_base=False))
        kept = [
            versioned
            for versioned in image_records(self.image)
            if isinstance(versioned.record, PartitionRecord | TopicRecord | ConfigRecord)
        ]
        for position, (record, version) in enumerate(kept):
            self.events.append(
                Event(
                    key="",
                    replay_offset=self.offset,
                    snapshot=True,
                    offset=position,
                    time=time,
                    batch_base_offset=0,
                    batch_last_offset=len(kept) - 1,
                    file=name,
                    type=record.NAME,
                    value=frame.encode(record, version),
                )
            )

    def topic_events(self) -> list[tuple[UUID | None, Event]]:
        """Records that concern topics as a whole, with the id of the topic, or for all of them."""
        ids: dict[str, list[UUID]] = {}
        found: list[tuple[UUID | None, Event]] = []
        for event in self.events:
            match event.record:
                case TopicRecord() as record:
                    known = ids.setdefault(record.name, [])
                    if record.topic_id not in known:
                        known.append(record.topic_id)
                    found.append((record.topic_id, event))
                case RemoveTopicRecord(topic_id=topic_id):
                    found.append((topic_id, event))
                case ClearElrRecord(topic_name=name):
                    found += ((one, event) for one in (ids.get(name, ()) if name else (None,)))
                case ConfigRecord(resource_type=2, resource_name=name):
                    found += ((one, event) for one in ids.get(name, ()))
                case ConfigRecord(resource_name=""):
                    found.append((None, event))
        return found


_AT_HIGHEST_LEVEL = replayed(
    EMPTY, FeatureLevelRecord(name="metadata.version", feature_level=LEVEL), 0
)


def random_topics(seed: int, oddity: float, batches: int) -> RandomTopics:
    """Return events of so many batches."""
    log = RandomTopics(RandomRecords(random.Random(seed), oddity))
    log.run(batches)
    return log


def write(log: RandomTopics, folder: Path) -> Layout:
    """Write the log and its snapshots, and return what planning knows of it."""
    data = b""
    of_log = (event for event in log.events if not event.snapshot)
    for base, batch in groupby(of_log, key=attrgetter("batch_base_offset")):
        values: list[tuple[bytes | None, bytes | None]] = [(None, event.value) for event in batch]
        data += build_batch(values, base_offset=base, leader_epoch=1, timestamp_ms=base * 1000)
    (folder / SEGMENT).write_bytes(data)
    for sync in log.syncs:
        own = [event for event in log.events if event.file == sync.file]
        records = [frame.decode(event.value) for event in own]
        write_snapshot(folder, records, sync.offset, 1, sync.offset * 1000)
    return read_layout(folder)


def by_single_records(log: RandomTopics) -> dict[UUID, TopicFold]:
    """Fold every topic record by record."""
    of_topics = log.topic_events()
    of_partitions: list[tuple[UUID | None, Event]] = [
        (event.record.topic_id, event)  # type: ignore[attr-defined]
        for event in log.events
        if isinstance(event.record, PARTITION_RECORDS)
    ]
    folds = {}
    for topic_id in {one for one, _ in (*of_topics, *of_partitions) if one is not None}:
        own = [event for one, event in of_topics if one in (None, topic_id)]
        own += [event for one, event in of_partitions if one == topic_id]
        own.sort(key=lambda event: (event.replay_offset, not event.snapshot))
        fold = TopicFold(kafka_uuid.to_text(topic_id))
        advance(fold, own, log.syncs)
        fold.finish()
        folds[topic_id] = fold
    return folds


Row = dict[str, object]


def rows_of_changes(topic_id: UUID, changes: Sequence[Change]) -> list[Row]:
    """Return states as rows of the history of partitions."""
    return [
        {
            "topic": change.topic,
            "topic_id": kafka_uuid.to_text(topic_id),
            "partition": change.partition,
            **state_row(change.state),
            "record_type": change.since.record_type,
            "batch_base_offset": change.since.batch_base_offset,
            "valid_from_offset": change.since.offset,
            "valid_to_offset": None if change.until is None else change.until.offset,
        }
        for change in changes
    ]
