"""Metadata logs and snapshots as Kafka's dump tool prints them."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from jbodlab.metadata.log.batches import control_batch
from jbodlab.metadata.records.config_records import (
    BROKER_RESOURCE,
    BeginTransactionRecord,
    ConfigRecord,
)
from jbodlab.metadata.records.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.record_batch.record_batch import CONTROL, build_batch
from tests.metadata_batches import data_batch
from tests.storage_tool.dumping import (
    FIXTURES,
    LOG,
    TIME_MS,
    dump,
    leader_change,
    no_ops,
    payloads,
    values,
    write,
)

DECODER = "--cluster-metadata-decoder"
DUMPS = sorted(FIXTURES.glob("*/dump-*.txt"))
UNKNOWN_TYPE = bytes.fromhex("017f03 0102")


@pytest.mark.parametrize("expected", DUMPS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_log_of_a_real_kafka_gives_the_lines_of_its_own_tool(
    expected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(expected.parent)
    name = expected.name.removeprefix("dump-").removesuffix(".txt")

    done = dump(DECODER, "--show-secrets", f"controller/__cluster_metadata-0/{name}")

    # Releases before 4.1 print no body of a leader change.
    printed = expected.read_text(encoding="utf-8")
    body = "LeaderChange: .*" if "LEADER_CHANGE(2)" in printed else "$^"
    out = re.sub(body, "controlType: LEADER_CHANGE(2)", done.out)
    assert (done.code, out, done.err) == (0, printed, "")


def test_there_is_a_dump_for_each_kind_of_fixture() -> None:
    assert len(DUMPS) == 4


@pytest.mark.parametrize(
    "path",
    sorted(FIXTURES.glob("*/*/**/*.log")) + sorted(FIXTURES.glob("*/*/**/*.checkpoint")),
    ids=lambda path: f"{path.parents[1].name}-{path.name}",
)
def test_json_has_the_payloads_of_the_text(path: Path) -> None:
    text = dump(DECODER, path)
    as_json = dump(DECODER, "--output=json", path)

    assert (as_json.code, as_json.err) == (0, "")
    records = as_json.of_kind("record")
    assert [one["payload"] for one in records if "payload" in one] == [
        json.loads(line) for line in payloads(text.lines)
    ]
    assert len(as_json.of_kind("batch")) == sum(
        line.startswith("baseOffset") for line in text.lines
    )
    assert len(records) == sum(line.startswith("| offset: ") for line in text.lines)


@pytest.mark.parametrize("options", [(), ("--output", "json")])
def test_o01_secrets_are_shown_to_who_asks_for_them_only(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    records = [
        UserScramCredentialRecord(
            name="alice",
            mechanism=1,
            salt=b"salt of alice",
            stored_key=b"stored key",
            server_key=b"server key",
            iterations=4096,
        ),
        ConfigRecord(
            resource_type=BROKER_RESOURCE,
            resource_name="1",
            name="listener.name.client.ssl.keystore.password",
            value="pass-word",
        ),
        ConfigRecord(
            resource_type=BROKER_RESOURCE, resource_name="", name="max.connections", value="7"
        ),
    ]
    batch = [VersionedRecord(record, 0) for record in records]
    path = write(tmp_path, data_batch(batch, base_offset=0, epoch=0, timestamp_ms=0))
    secrets = [base64.b64encode(each).decode() for each in (b"salt of alice", b"stored key")]

    hidden = dump(DECODER, *options, path).out
    shown = dump(DECODER, "--show-secrets", *options, path).out

    assert not any(secret in hidden for secret in [*secrets, "pass-word"])
    assert hidden.count('"(redacted)"') == 4
    assert all(secret in shown for secret in [*secrets, "pass-word"])
    assert hidden.count('"value":"7"') == shown.count('"value":"7"') == 1


def test_bootstrap_snapshot_and_snapshot_are_named(tmp_path: Path) -> None:
    header = control_batch(SnapshotHeaderRecord(), base_offset=0, epoch=0, timestamp_ms=5)
    footer = control_batch(SnapshotFooterRecord(), base_offset=1, epoch=0, timestamp_ms=5)
    bootstrap = write(tmp_path, header, footer, name="bootstrap.checkpoint")
    snapshot = write(tmp_path, header, footer, name=f"{248:020d}-{3:010d}.checkpoint")

    done = dump(DECODER, bootstrap, snapshot)

    assert done.code == 0
    assert [line for line in done.lines if not line.startswith(("baseOffset", "| "))] == [
        f"Dumping {bootstrap}",
        "KRaft bootstrap snapshot",
        f"Dumping {snapshot}",
        "Snapshot end offset: 248, epoch: 3",
    ]
    assert done.out.count(' SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}') == 2
    assert done.out.count(' SnapshotFooter {"version":0}') == 2


def test_without_record_metadata_only_payloads_are_left(tmp_path: Path) -> None:
    path = write(tmp_path, leader_change(), no_ops(2, base_offset=1))
    options = (DECODER, "--skip-record-metadata", path)
    payload = 'payload: {"type":"NO_OP_RECORD","version":0,"data":{}}'

    lines = [line for line in dump(*options).lines if not line.startswith("baseOffset")]

    assert lines[2:] == ["", f"| {payload}", f"| {payload}"]


def test_control_records_of_every_type_are_printed(tmp_path: Path) -> None:
    directory_voter = LeaderChangeMessage(version=1, leader_id=1, voters=(Voter(voter_id=1),))
    path = write(
        tmp_path,
        control_batch(directory_voter, base_offset=0, epoch=1, timestamp_ms=TIME_MS),
        control_batch(
            KRaftVersionRecord(k_raft_version=1), base_offset=1, epoch=1, timestamp_ms=TIME_MS
        ),
        build_batch(
            [
                (bytes([0, 0, 0, 0]), bytes.fromhex("0000 00000007")),
                (bytes([0, 0, 0, 1]), bytes.fromhex("0000 00000008")),
                (bytes([0, 0, 0, 9]), b"abc"),
            ],
            base_offset=2,
            timestamp_ms=TIME_MS,
            attributes=CONTROL,
        ),
    )

    text = dump("--deep-iteration", path)
    as_json = dump("--deep-iteration", "--output=json", path)

    ends = [line.partition("headerKeys: []")[2] for line in text.lines if line[0] == "|"]
    assert ends == [
        ' LeaderChange: {"version":1,"leaderId":1,"voters":[{"voterId":1,'
        '"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}],"grantingVoters":[]}',
        ' KRaftVersion {"version":0,"kRaftVersion":1}',
        " endTxnMarker: ABORT coordinatorEpoch: 7",
        " endTxnMarker: COMMIT coordinatorEpoch: 8",
        " controlType: UNKNOWN(9)",
    ]
    assert [one["control"] for one in as_json.of_kind("record")][1:] == [
        {"type": "KRAFT_VERSION", "number": 5, "data": {"version": 0, "kRaftVersion": 1}},
        {"type": "ABORT", "number": 0, "data": {"version": 0, "coordinatorEpoch": 7}},
        {"type": "COMMIT", "number": 1, "data": {"version": 0, "coordinatorEpoch": 8}},
        {"type": "UNKNOWN", "number": 9, "data": None, "value": "YWJj"},
    ]
    assert (text.code, as_json.code) == (0, 0)


def test_record_that_cannot_be_decoded_does_not_end_the_dump(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        values(b"\x01\x14\x00\x00", UNKNOWN_TYPE, None, b"\x01\x14\x00\x00\xff"),
        no_ops(base_offset=4),
    )

    done = dump(DECODER, path)

    no_op = '{"type":"NO_OP_RECORD","version":0,"data":{}}'
    assert payloads(done.lines) == [
        no_op,
        "Error at 1, skipping. unknown record type 127, version 3, 2 bytes: 0102",
        "Error at 2, skipping. metadata record has no value",
        "Error at 3, skipping. 1 unexpected bytes after NO_OP_RECORD v0",
        no_op,
    ]
    assert done.code == 1
    assert done.err == f"{path}: cannot decode 3 records\n"


def test_json_keeps_what_has_no_form(tmp_path: Path) -> None:
    begin = VersionedRecord(BeginTransactionRecord(name="a", unknown_tags=((9, b"\x01\x02"),)), 0)
    path = write(
        tmp_path,
        values(UNKNOWN_TYPE, b"\x01"),
        data_batch([begin], base_offset=2, epoch=1, timestamp_ms=TIME_MS),
    )

    done = dump(DECODER, "--output=json", path)

    raw, cut, tagged = done.of_kind("record")
    assert raw["payload"] == {"type": "UNKNOWN", "apiKey": 127, "version": 3, "body": "AQI="}
    assert (cut["payload"], cut["payloadBytes"]) == (None, "AQ==")
    assert tagged["payload"] == {
        "type": "BEGIN_TRANSACTION_RECORD",
        "version": 0,
        "data": {"name": "a", "unknownTaggedFields": [{"tag": 9, "data": "AQI="}]},
    }
    problems = [(one["problem"], one.get("offset")) for one in done.of_kind("problem")]
    assert problems == [("undecodedRecord", 0), ("undecodedRecord", 1), ("unreadable", None)]
    assert done.code == 1


def test_version_above_the_highest_is_printed_with_the_fields_of_the_highest(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, values(bytes.fromhex("01010500000008000000000000000500")))

    assert payloads(dump(DECODER, path).lines) == [
        '{"type":"UNREGISTER_BROKER_RECORD","version":5,"data":{"brokerId":8,"brokerEpoch":5}}'
    ]


def test_malformed_control_record_is_told_and_passed(tmp_path: Path) -> None:
    broken = build_batch(
        [(bytes([0, 0, 0, 2]), b"\x00\x00"), (bytes([0, 0, 0, 4]), b"\x00\x00\x00")],
        timestamp_ms=TIME_MS,
        attributes=CONTROL,
    )
    path = write(tmp_path, broken, no_ops(base_offset=2))

    done = dump(DECODER, path)

    records = [line for line in done.lines if line.startswith("| offset")]
    assert records[0].endswith("headerKeys: []")
    assert records[1].endswith(' SnapshotFooter {"version":0}')
    assert len(records) == 3
    assert done.code == 1
    assert f"{path}: control record at offset 0: " in done.err


def test_segment_that_begins_later_has_no_gap_before_it(tmp_path: Path) -> None:
    path = write(tmp_path, no_ops(2, base_offset=100), name=f"{100:020d}.log")

    done = dump(DECODER, path)

    assert done.lines[1] == "Log starting offset: 100"
    assert (done.code, done.err) == (0, "")
    assert LOG not in done.out
