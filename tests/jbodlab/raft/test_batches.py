"""The records of the quorum in snapshots and in fetched batches, against a file of Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.log.batches import control_batch, read_batches
from jbodlab.metadata.log.snapshot_writer import SnapshotWriter
from jbodlab.metadata.log.snapshots import decode_snapshot, snapshot_bytes
from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    KRaftVoter,
    KRaftVoterEndpoint,
    KRaftVotersRecord,
    LeaderChangeMessage,
    SnapshotHeaderRecord,
    encode_control,
)
from jbodlab.raft.batches import fetched_batches, quorum_of, quorum_records
from jbodlab.raft.voters import VoterSet
from jbodlab.record_batch.record_batch import CONTROL, build_batch
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import DecodeError

# 0-0.checkpoint by Kafka 4.3.1: kafka-storage format --initial-controllers
# 3@localhost:9093:b4d9ExdORgaQq38CyHwWTA,4@other:19093:3Db5QLSqSZieL3rJBUUegA
KAFKAS = bytes.fromhex(
    "0000000000000000000000ca000000000272ae3805002000000002000001a228f76b61000001a228f76b"
    "61ffffffffffffffffffffffffffff000000032a0000000800000003160000000001a228f769ae00001e"
    "00000208000000050a000000010000e2010000040800000006cc0100000300000004dc36f940b4aa4998"
    "9e2f7ac905451e80020b434f4e54524f4c4c4552066f746865724a9500000000010000000000036f877d"
    "13174e460690ab7f02c87c164c020b434f4e54524f4c4c45520a6c6f63616c686f737423850000000001"
    "0000000000000000000000030000003f0000000002b1fe00cf002000000000000001a228f76bc1000001"
    "a228f76bc1ffffffffffffffffffffffffffff000000011a00000008000000040600000000"
)
CREATED_MS = 0x1A228F76BC1
WRITTEN_MS = 0x1A228F769AE


def voter(node: int, host: str, port: int, directory: str) -> KRaftVoter:
    return KRaftVoter(
        voter_id=node,
        voter_directory_id=kafka_uuid.parse(directory),
        endpoints=(KRaftVoterEndpoint(name="CONTROLLER", host=host, port=port),),
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=0, max_supported_version=1
        ),
    )


VOTERS = VoterSet.of(
    [
        voter(4, "other", 19093, "3Db5QLSqSZieL3rJBUUegA"),
        voter(3, "localhost", 9093, "b4d9ExdORgaQq38CyHwWTA"),
    ]
)


def test_the_first_voters_of_kafkas_format_tool_are_read() -> None:
    assert quorum_of(KAFKAS) == (VOTERS, 1)
    assert VOTERS.ids == (3, 4)
    assert decode_snapshot(KAFKAS)[1] == ()


def test_the_first_voters_are_written_as_kafkas_format_tool_does() -> None:
    # Kafka writes its voters in the order of a hash map, and gives the batches times of their own.
    header = next(read_batches(KAFKAS)).records[0][1]
    assert isinstance(header, SnapshotHeaderRecord)
    written = snapshot_bytes(
        (),
        epoch=0,
        timestamp_ms=header.last_contained_log_timestamp,
        created_ms=CREATED_MS,
        quorum=quorum_records(VOTERS, 1),
    )

    assert len(written) == len(KAFKAS)
    ours, kafkas = list(read_batches(written)), list(read_batches(KAFKAS))
    assert [[type(record) for _, record in batch.records] for batch in ours] == [
        [type(record) for _, record in batch.records] for batch in kafkas
    ]
    assert [batch.base_offset for batch in ours] == [batch.base_offset for batch in kafkas]
    assert quorum_of(written) == (VOTERS, 1)


def test_a_snapshot_of_level_0_has_no_voters() -> None:
    written = snapshot_bytes(
        (), epoch=3, timestamp_ms=1, created_ms=2, quorum=quorum_records(VOTERS, 0)
    )

    assert quorum_of(written) == (None, None)


def test_a_snapshot_of_an_image_has_the_voters_behind_its_header(tmp_path: Path) -> None:
    writer = SnapshotWriter(
        PosixFileSystem(),
        tmp_path,
        EMPTY,
        created_ms=5,
        quorum=quorum_records(VOTERS, 1),
    )
    while writer.write_piece():
        pass

    content = writer.finish().read_bytes()

    assert quorum_of(content) == (VOTERS, 1)
    offset = 0
    for batch in read_batches(content):
        assert batch.base_offset == offset
        offset = batch.last_offset + 1


@pytest.mark.parametrize("content", [b"", KAFKAS[:50], b"\0" * 200])
def test_what_is_no_snapshot_has_no_voters(content: bytes) -> None:
    with pytest.raises(DecodeError):
        quorum_of(content)


def log() -> bytes:
    change = (LeaderChangeMessage(leader_id=3), *quorum_records(VOTERS, 1))
    return control_batch(*change, base_offset=7, epoch=4, timestamp_ms=1) + build_batch(
        [(None, b"data"), (None, b"more")], base_offset=10, leader_epoch=4, timestamp_ms=2
    )


def test_batches_that_were_fetched_have_their_offsets_epochs_and_control_records() -> None:
    (first, second), is_damaged = fetched_batches(log())

    assert not is_damaged
    assert (first.base_offset, first.end_offset, first.epoch) == (7, 10, 4)
    assert first.controls == (
        (7, LeaderChangeMessage(leader_id=3)),
        (8, KRaftVersionRecord(k_raft_version=1)),
        (9, KRaftVotersRecord(voters=VOTERS.voters)),
    )
    assert (second.base_offset, second.end_offset, second.controls) == (10, 12, ())
    assert first.data + second.data == log()


def test_an_incomplete_last_batch_is_left_out() -> None:
    batches, is_damaged = fetched_batches(log()[:-3])

    assert ([batch.base_offset for batch in batches], is_damaged) == ([7], False)


@pytest.mark.parametrize("which", [0, 1])
def test_nothing_is_taken_behind_damage(which: int) -> None:
    data = bytearray(log())
    data[-1 if which else 70] ^= 0x40

    batches, is_damaged = fetched_batches(bytes(data))

    assert is_damaged
    assert len(batches) == which
    assert fetched_batches(b"\xff" * 100) == ((), True)


def test_a_control_record_of_an_unknown_type_is_passed_over() -> None:
    later = build_batch(
        [(b"\0\0\0\x63", b"later"), encode_control(LeaderChangeMessage(leader_id=3))],
        base_offset=7,
        leader_epoch=4,
        timestamp_ms=1,
        attributes=CONTROL,
    )

    (batch,), is_damaged = fetched_batches(later)

    assert not is_damaged
    assert batch.controls == ((8, LeaderChangeMessage(leader_id=3)),)
    assert [each.records for each in read_batches(later)] == [batch.controls]
