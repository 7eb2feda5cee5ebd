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
from jbodlab.metadata.records.frame import VersionedRecord
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
                version = self._version(record)
                self._add(VersionedRecord(record, version), offset, offset, base, self.offset - 1)
            if self._chance(0.08):
                self._snapshot()

    def _chance(self, share: float) -> bool:
        return self.drawn.random.random() < share

    def _version(self, record: Record) -> int:
        elr = [getattr(record, name, ()) for name in ("eligible_leader_replicas", "last_known_elr")]
        # An empty list is written where it means a change.
        is_old = elr == [None, None] and self._chance(self.drawn.oddity)
        return 1 if is_old else record.HIGHEST_VERSION

    def _add(
        self,
        versioned: VersionedRecord,
        replay_offset: int,
        offset: int,
        base: int,
        last: int,
        file: str = SEGMENT,
    ) -> None:
        snapshot = file != SEGMENT
        self.events.append(
            Event(
                key="",
                replay_offset=replay_offset,
                snapshot=snapshot,
                offset=offset,
                time=(replay_offset if snapshot else base) * 1_000_000,
                batch_base_offset=base,
                batch_last_offset=last,
                file=file,
                type=versioned.record.NAME,
                value=frame.encode(*versioned),
            )
        )

    def _snapshot(self) -> None:
        end = self.offset
        if self.syncs and self.syncs[-1].offset == end:
            return
        if self._chance(self.drawn.oddity):
            for record in self.drawn.records(self.image, 0):
                # A restarted node believes the snapshot.
                self.image = replayed(self.image, record, 0)
        name = snapshot_name(end, 1)
        self.syncs.append(Sync(offset=end, time=end * 1_000_000, file=name, is_base=False))
        types = PartitionRecord | TopicRecord | ConfigRecord
        kept = [one for one in image_records(self.image) if isinstance(one.record, types)]
        for position, versioned in enumerate(kept):
            self._add(versioned, end, position, 0, len(kept) - 1, name)

    def events_of_topics(self) -> list[tuple[UUID | None, Event]]:
        """Return the events, each with the id of its topic, or None if it concerns all of them."""
        ids: dict[str, list[UUID]] = {}
        found: list[tuple[UUID | None, Event]] = []
        for event in self.events:
            match event.record:
                case TopicRecord() as record:
                    known = ids.setdefault(record.name, [])
                    if record.topic_id not in known:
                        known.append(record.topic_id)
                    found.append((record.topic_id, event))
                case (
                    RemoveTopicRecord(topic_id=topic_id)
                    | PartitionRecord(topic_id=topic_id)
                    | PartitionChangeRecord(topic_id=topic_id)
                ):
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
    of_topics = log.events_of_topics()
    folds = {}
    for topic_id in {one for one, _ in of_topics if one is not None}:
        own = [event for one, event in of_topics if one in (None, topic_id)]
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
