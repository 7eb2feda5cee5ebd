"""Control records against the batches that Kafka's serialisers wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.metadata.records.control_records import (
    CONTROL_TYPES,
    ControlRecord,
    EndTransactionMarker,
    KRaftVersionFeature,
    KRaftVersionRecord,
    KRaftVoter,
    KRaftVoterEndpoint,
    KRaftVotersRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    decode_control,
    decode_end_transaction,
    encode_control,
)
from jbodlab.metadata.records.json_text import to_json
from jbodlab.record_batch.record_batch import CONTROL, build_batch, iterate_records, read_header
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import DecodeError

GOLDEN = Path(__file__).parents[3] / "golden" / "metadata_batches.txt"
LINES = [line for line in GOLDEN.read_text().splitlines() if line and line[0] != "#"]
BATCHES = {name: bytes.fromhex(text) for name, text in (line.split(":") for line in LINES)}
DIRECTORY = kafka_uuid.parse("b4d9ExdORgaQq38CyHwWTA")

RECORDS: dict[str, ControlRecord] = {
    "leader_change": LeaderChangeMessage(
        leader_id=1, voters=(Voter(voter_id=1),), granting_voters=(Voter(voter_id=1),)
    ),
    "snapshot_header": SnapshotHeaderRecord(),
    "snapshot_footer": SnapshotFooterRecord(),
    "kraft_version": KRaftVersionRecord(k_raft_version=1),
    "kraft_voters": KRaftVotersRecord(
        voters=(
            KRaftVoter(
                voter_id=1,
                voter_directory_id=DIRECTORY,
                endpoints=(KRaftVoterEndpoint(name="CONTROLLER", host="localhost", port=9093),),
                k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
            ),
        )
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_kafkas_control_batch_both_ways(name: str) -> None:
    data = BATCHES[name]
    header = read_header(data)

    (record,) = iterate_records(data)
    built = build_batch(
        [encode_control(RECORDS[name])],
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        timestamp_ms=header.base_timestamp,
        attributes=CONTROL,
    )

    assert header.is_control
    assert decode_control(record.key, record.value) == RECORDS[name]
    assert built == data


def test_leader_change_of_version_1_names_directories() -> None:
    record = LeaderChangeMessage(
        version=1, leader_id=1, voters=(Voter(voter_id=1, voter_directory_id=DIRECTORY),)
    )

    assert decode_control(*encode_control(record)) == record


def test_json_names_begin_in_lower_case() -> None:
    assert to_json(RECORDS["kraft_version"], 0) == {"version": 0, "kRaftVersion": 1}
    assert to_json(RECORDS["leader_change"], 0) == {
        "version": 0,
        "leaderId": 1,
        "voters": [{"voterId": 1}],
        "grantingVoters": [{"voterId": 1}],
    }


@pytest.mark.parametrize("number", [0, 1, 7])
def test_types_that_the_metadata_log_never_has_are_refused(number: int) -> None:
    assert number not in CONTROL_TYPES
    with pytest.raises(DecodeError, match=f"type {number}"):
        decode_control(bytes([0, 0, 0, number]), b"\x00\x00\x00")


@pytest.mark.parametrize(("number", "name"), [(0, "ABORT"), (1, "COMMIT")])
def test_end_of_a_transaction_is_read_where_topics_have_it(number: int, name: str) -> None:
    key = bytes([0, 0, 0, number])

    marker = decode_end_transaction(key, bytes.fromhex("0000 00000007"))
    later = decode_end_transaction(key, bytes.fromhex("0001 00000008 0102"))

    assert marker == EndTransactionMarker(name=name, version=0, coordinator_epoch=7)
    assert later == EndTransactionMarker(name=name, version=1, coordinator_epoch=8)


@pytest.mark.parametrize(
    ("key", "value"),
    [("00000002", "000000000007"), ("00000000", None), ("00000000", "00"), ("00000000", "ff" * 6)],
)
def test_malformed_end_of_a_transaction_is_refused(key: str, value: str | None) -> None:
    with pytest.raises(DecodeError):
        decode_end_transaction(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, "000000"),
        ("0000", "000000"),
        ("ffff0004", "000000"),
        ("00000004", None),
        ("00000004", ""),
        ("00000004", "0000"),
        ("00000004", "00000000"),
    ],
)
def test_malformed_control_records_are_refused(key: str | None, value: str | None) -> None:
    with pytest.raises(DecodeError):
        decode_control(
            None if key is None else bytes.fromhex(key),
            None if value is None else bytes.fromhex(value),
        )
