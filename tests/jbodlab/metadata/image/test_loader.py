"""Batches into images: transactions, gaps, batches seen before, snapshots."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from jbodlab.metadata.records.control_records import ControlRecord, LeaderChangeMessage
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.errors import ReplayError

BEGIN = BeginTransactionRecord(name="Bootstrap records")
END = EndTransactionRecord()
ABORT = AbortTransactionRecord()


@dataclass(frozen=True)
class Batch:
    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    records: tuple[tuple[int, VersionedRecord | ControlRecord], ...]


def batch(base_offset: int, *records: Record | ControlRecord) -> Batch:
    items = tuple(
        (offset, VersionedRecord(record, 0) if isinstance(record, Record) else record)
        for offset, record in enumerate(records, base_offset)
    )
    return Batch(base_offset, base_offset + len(records) - 1, 3, 1000 + base_offset, items)


def feature(name: str, level: int = 1) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=level)


def levels(loader: MetadataLoader) -> dict[str, int]:
    return dict(loader.image.features.levels)


def test_batch_is_published_with_its_offset_epoch_and_time() -> None:
    loader = MetadataLoader()

    delta = loader.load(batch(0, feature("a"), feature("b")))

    assert delta is not None
    assert delta.image is EMPTY
    assert levels(loader) == {"a": 1, "b": 1}
    assert (loader.image.offset, loader.image.epoch, loader.image.timestamp_ms) == (1, 3, 1000)
    assert loader.next_offset == 2


def test_batch_that_changes_nothing_moves_only_the_offset() -> None:
    loader = MetadataLoader()

    assert loader.load(batch(0, LeaderChangeMessage(leader_id=1))) is None
    assert loader.load(batch(1, NoOpRecord())) is None
    assert loader.image.offset == 1
    assert loader.image.topics is EMPTY.topics


def test_nothing_of_a_transaction_is_seen_before_its_end() -> None:
    loader = MetadataLoader()
    before = loader.load(batch(0, feature("a"), BEGIN, feature("b")))

    assert before is not None
    assert levels(loader) == {"a": 1}
    assert loader.image.offset == 0
    assert loader.transaction_is_open
    assert loader.load(batch(3, feature("c"))) is None
    assert (loader.image.offset, loader.next_offset) == (0, 4)

    delta = loader.load(batch(4, END, feature("d")))

    assert delta is not None
    assert delta.changed_features
    assert levels(loader) == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert loader.image.offset == 5
    assert not loader.transaction_is_open


def test_aborted_transaction_never_happened() -> None:
    loader = MetadataLoader()
    loader.load(batch(0, BEGIN, feature("a")))

    assert loader.load(batch(2, ABORT)) is None
    assert levels(loader) == {}
    assert loader.image.offset == 2
    assert loader.load(batch(3, BEGIN, feature("b"), END)) is not None
    assert levels(loader) == {"b": 1}


def test_transaction_at_the_start_leaves_the_empty_image() -> None:
    loader = MetadataLoader()

    loader.load(batch(0, BEGIN))

    assert loader.image == EMPTY
    assert loader.next_offset == 1


@pytest.mark.parametrize("records", [(END,), (ABORT,), (BEGIN, BEGIN), (BEGIN, END, END)])
def test_transaction_markers_out_of_place_are_refused(records: tuple[Record, ...]) -> None:
    loader = MetadataLoader()

    with pytest.raises(ReplayError):
        loader.load(batch(0, *records))
    assert loader.next_offset == 0
    assert not loader.transaction_is_open


def test_failed_batch_changes_nothing() -> None:
    loader = MetadataLoader()
    loader.load(batch(0, BEGIN, feature("a")))

    with pytest.raises(ReplayError):
        loader.load(batch(2, feature("b"), BEGIN))
    loader.load(batch(2, END))

    assert levels(loader) == {"a": 1}


def test_gap_is_refused_and_known_batches_are_skipped() -> None:
    loader = MetadataLoader()
    loader.load(batch(0, feature("a")))

    with pytest.raises(ReplayError, match="a batch at offset 1, got 2"):
        loader.load(batch(2, feature("b")))
    assert loader.load(batch(0, feature("a", 7))) is None
    assert levels(loader) == {"a": 1}


def test_records_of_a_batch_below_the_snapshot_are_skipped() -> None:
    loader = MetadataLoader()
    loader.load_snapshot([VersionedRecord(feature("a", 5), 0)], 1, 2, 900)

    loader.load(batch(0, feature("a", 1), feature("b")))

    assert levels(loader) == {"a": 5, "b": 1}


def test_snapshot_replaces_the_state_and_an_open_transaction() -> None:
    loader = MetadataLoader()
    loader.load(batch(0, feature("a"), BEGIN, feature("b")))

    delta = loader.load_snapshot([VersionedRecord(feature("c"), 0)], 50, 4, 9000)

    assert delta.changed_features
    assert levels(loader) == {"c": 1}
    assert (loader.image.offset, loader.image.epoch, loader.image.timestamp_ms) == (49, 4, 9000)
    assert loader.next_offset == 50
    assert not loader.transaction_is_open
