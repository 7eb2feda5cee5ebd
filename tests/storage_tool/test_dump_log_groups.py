"""jbodlab storage dump --offsets-decoder, on records that Kafka's own classes have written."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from jbodlab.record_batch.record_batch import build_batch
from tests.kafka.tools import DUMP_LOG, KafkaTools
from tests.storage_tool.dumping import TIME_MS, Dumped, dump, write

GOLDEN = Path(__file__).parents[1] / "golden" / "group_records_4.3.1.tsv"
LINES = [line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
DECODER = "--offsets-decoder"

Record = tuple[bytes | None, bytes | None]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def group_key(group: str = "g") -> bytes:
    return struct.pack(">h", 2) + text(group)


def group_value(protocol_type: str, subscription: bytes, assignment: bytes) -> bytes:
    """A GroupMetadataValue of version 3 with one member."""
    return b"".join(
        [
            *(struct.pack(">h", 3), text(protocol_type), struct.pack(">i", 7)),
            *(text("range"), text("m"), struct.pack(">qi", TIME_MS, 1)),
            *(text("m"), text("i"), text("c"), text("/h"), struct.pack(">ii", 300, 200)),
            *(struct.pack(">i", len(subscription)), subscription),
            *(struct.pack(">i", len(assignment)), assignment),
        ]
    )


PARTITIONS = struct.pack(">i", 1) + text("t") + struct.pack(">iii", 2, 0, 5)
SUBSCRIPTION = [
    struct.pack(">h", version)
    + struct.pack(">i", 2)
    + text("t")
    + text("u")
    + struct.pack(">i", -1)
    + (PARTITIONS if version >= 1 else b"")
    + (struct.pack(">i", 4) if version >= 2 else b"")
    + (text("rack") if version >= 3 else b"")
    for version in range(4)
]
ASSIGNMENT = struct.pack(">h", 0) + PARTITIONS + struct.pack(">i", 3) + b"\x00\x01\xff"


def golden() -> list[Record]:
    return [
        (bytes.fromhex(key), None if value == "null" else bytes.fromhex(value))
        for key, value, *_ in LINES
    ]


def groups() -> list[Record]:
    """Groups of consumers, of others, and of consumers that send something else."""
    return [
        *((group_key(), group_value("consumer", one, ASSIGNMENT)) for one in SUBSCRIPTION),
        (group_key(), group_value("connect", SUBSCRIPTION[3], ASSIGNMENT)),
        (group_key(), group_value("consumer", b"", b"\x00\x00\x7f")),
        (group_key(), group_value("consumer", b"\x00\x09\x00", b"\x00")),
    ]


def undecodable() -> list[Record]:
    """Types that nobody knows here, and damage."""
    return [
        (struct.pack(">h", 99) + text("g"), b"\0\0"),
        (group_key(), struct.pack(">h", 9)),
        (group_key()[:-1], None),
    ]


def log(folder: Path, records: list[Record]) -> Path:
    return write(folder, build_batch(records, timestamp_ms=TIME_MS))


def dumped(path: Path, *options: str) -> Dumped:
    return dump(DECODER, *options, path)


def test_every_record_is_a_key_and_a_payload(tmp_path: Path) -> None:
    found = dumped(log(tmp_path, golden()), "--skip-record-metadata")

    assert (found.code, found.err) == (0, "")
    lines = [line for line in found.lines if line.startswith("| ")]
    assert len(lines) == len(LINES)
    for line, (key, value, *_) in zip(lines, LINES, strict=True):
        shown_key, _, payload = line.removeprefix("| key: ").partition(" payload: ")
        assert json.loads(shown_key)["type"] == str(int(key[:4], 16))
        if value == "null":
            assert payload == "<DELETE>"
        else:
            assert json.loads(payload)["version"] == str(int(value[:4], 16))


@pytest.mark.parametrize("version", range(4))
def test_what_members_of_consumer_groups_sent_is_read(tmp_path: Path, version: int) -> None:
    record = (group_key(), group_value("consumer", SUBSCRIPTION[version], ASSIGNMENT))

    (shown,) = dumped(log(tmp_path, [record]), "--output=json").of_kind("record")

    partitions = [{"topic": "t", "partitions": [0, 5]}]
    expected = {"topics": ["t", "u"], "userData": None, "ownedPartitions": partitions}
    expected |= {"generationId": 4, "rackId": "rack"}
    payload = shown["payload"]
    assert isinstance(payload, dict)
    (member,) = payload["data"]["members"]
    assert member["subscription"] == dict(list(expected.items())[: version + 2])
    assert member["assignment"] == {"assignedPartitions": partitions, "userData": "AAH/"}


def test_what_others_sent_stays_as_it_is(tmp_path: Path) -> None:
    found = dumped(log(tmp_path, groups()[4:]), "--output=json")

    payloads = [one["payload"] for one in found.of_kind("record")]
    members = [one["data"]["members"][0] for one in payloads]  # type: ignore[index]
    assert [type(one["subscription"]) for one in members] == [str] * 3
    assert [one["assignment"] for one in members][1:] == ["AAB/", "AA=="]


def test_unknown_types_are_no_damage_and_damage_is(tmp_path: Path) -> None:
    path = log(tmp_path, undecodable())

    found = dumped(path, "--skip-record-metadata")
    as_json = dumped(path, "--output=json")

    assert found.lines[-3] == "| key: Unknown record type 99 at offset 0, skipping."
    assert [line.startswith("| key: Error at offset ") for line in found.lines[-2:]] == [True] * 2
    assert (found.code, found.err) == (1, f"{path}: cannot decode 2 records\n")
    assert [one["offset"] for one in as_json.of_kind("problem") if "offset" in one] == [1, 2]
    assert as_json.of_kind("record")[0]["keyBytes"] == "AGMAAWc="


@pytest.mark.kafka
@pytest.mark.parametrize("options", [(), ("--skip-record-metadata",)])
def test_lines_are_those_of_kafkas_tool(
    kafka_tools: KafkaTools, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = log(tmp_path, [*golden(), *groups(), *undecodable()[:1]])

    expected = kafka_tools.run(DUMP_LOG, DECODER, *options, "--files", path)

    assert dumped(path, *options).lines == expected.lines
