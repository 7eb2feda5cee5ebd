"""The committed state of a node: the same by batches and by the images of an active controller."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.lead.committed_state import CommittedState
from controller.quorum.replicated_log import Committed
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.records.config_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import LATEST
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.vocabulary.errors import FormatError
from jbodlab.vocabulary.ids import LeaderEpoch, Offset, TopicId
from tests.metadata_batches import data_batch

Round = tuple[list[tuple[Offset, bytes]], MetadataImage]


def topic(number: int) -> VersionedRecord:
    record = TopicRecord(name=f"t{number}", topic_id=TopicId(UUID(int=number + 1)))
    return VersionedRecord(record, 0)


def rounds_of(plan: list[list[list[int]]]) -> list[Round]:
    """Return the rounds of an active controller, each with the image after it.

    Args:
        plan: Rounds, of operations, of batches with so many topics; an operation of several batches
            is a metadata transaction.
    """
    rounds: list[Round] = []
    image = MetadataLoader().image
    offset = number = 0
    for operations in plan:
        batches: list[tuple[Offset, bytes]] = []
        for operation in operations:
            parts = []
            for count in operation:
                parts.append([topic(number + each) for each in range(count)])
                number += count
            if len(parts) > 1:
                parts[0].insert(0, VersionedRecord(BeginTransactionRecord(name="x"), 0))
                parts[-1].append(VersionedRecord(EndTransactionRecord(), 0))
            for records in parts:
                records.append(VersionedRecord(NoOpRecord(), 0))
                data = data_batch(records, base_offset=offset, epoch=1, timestamp_ms=1000)
                batches.append((Offset(offset), data))
                delta = MetadataDelta(image)
                for place, (record, _) in enumerate(records):
                    delta.replay(record, offset + place)
                offset += len(records)
                image = delta.apply(offset - 1, LeaderEpoch(1), 1000)
        rounds.append((batches, image))
    return rounds


def end_of(data: bytes) -> Offset:
    *_, last = read_batches(data)
    return Offset(last.last_offset + 1)


plans = st.lists(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=3),
    min_size=1,
    max_size=5,
)


@given(plans, st.lists(st.integers(1, 4), min_size=20, max_size=20), st.integers(0, 5))
def test_batches_and_the_images_of_an_active_controller_lead_to_the_same_state(
    plan: list[list[list[int]]], commits: list[int], resigned_after: int
) -> None:
    """Whatever is committed at once, also within a round; and behind a resignation."""
    leader, follower = CommittedState(MetadataLoader()), CommittedState(MetadataLoader())
    loader = MetadataLoader()
    batches = []
    for number, (of_round, image) in enumerate(rounds_of(plan)):
        batches += of_round
        if number < resigned_after:
            leader.expect(image)
    if resigned_after < len(plan):
        leader.drop_pending()
    for count in commits:
        part, batches = batches[:count], batches[count:]
        if not part:
            break
        committed = Committed(part, end_of(part[-1][1]))
        leader.committed(committed)
        follower.committed(committed)
        for _, data in part:
            for batch in read_batches(data):
                loader.load(batch)

        assert follower.image == loader.image
        assert leader.end_offset == follower.end_offset == loader.next_offset
        assert leader.transaction_is_open == follower.transaction_is_open
        assert leader.image == follower.image


def test_what_an_active_controller_has_replayed_is_not_replayed_again() -> None:
    state = CommittedState(MetadataLoader())
    (first, image), (second, later) = rounds_of([[[2]], [[1]]])
    state.expect(image)
    state.expect(later)

    state.committed(Committed(first, Offset(image.offset + 1)))
    assert state.image is image
    state.committed(Committed(second, Offset(later.offset + 1)))
    assert state.image is later


def features(level: int) -> bytes:
    """A batch that finalizes a level of metadata.version."""
    record = FeatureLevelRecord(name="metadata.version", feature_level=level)
    return data_batch([VersionedRecord(record, 0)], base_offset=0, epoch=1, timestamp_ms=1000)


def test_a_standby_ends_at_a_finalized_level_that_it_does_not_support() -> None:
    known, unknown = features(LATEST), features(LATEST + 1)

    CommittedState(MetadataLoader()).committed(Committed([(Offset(0), known)], Offset(1)))
    with pytest.raises(FormatError, match=f"finalized level {LATEST + 1} of feature metadata"):
        CommittedState(MetadataLoader()).committed(Committed([(Offset(0), unknown)], Offset(1)))


def test_a_controller_does_not_start_at_a_finalized_level_that_it_does_not_support() -> None:
    loader = MetadataLoader()
    for batch in read_batches(features(LATEST + 1)):
        loader.load(batch)

    with pytest.raises(FormatError, match=f"only levels [0-9]+ to {LATEST}"):
        CommittedState(loader)
