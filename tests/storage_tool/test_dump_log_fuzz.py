"""Damaged files: always a defined result, never a traceback, and nothing whole is lost."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, TopicRecord
from jbodlab.record_batch.record_batch import build_batch, iterate_headers
from tests.metadata_batches import data_batch
from tests.storage_tool.dumping import (
    TIME_MS,
    compressed,
    dump,
    leader_change,
    offset_index,
    payloads,
    registration,
    time_index,
    values,
    write,
)

RECORDS = [
    VersionedRecord(TopicRecord(name="foo"), 0),
    VersionedRecord(PartitionChangeRecord(isr=(), directories=()), 1),
]
METADATA = [
    leader_change(),
    registration(30, base_offset=1),
    data_batch(RECORDS, base_offset=2, epoch=1, timestamp_ms=TIME_MS),
    data_batch(RECORDS[:1], base_offset=4, epoch=2, timestamp_ms=TIME_MS),
]
SEED = 20_261_121

LINE = re.compile(
    r"Dumping .*|Log starting offset: 0|baseOffset: .* isvalid: (true|false)|offset: .*|"
    r"\| offset: .*|Found \d+ invalid bytes at the end of .*|timestamp: .*|producerId: .*"
)
COMPLAINT = re.compile(r"\S+\.\w+: .+|Non-consecutive offsets in .*|  -?\d+ is followed by -?\d+")


def check(path: Path, content: bytes, *options: str) -> list[str]:
    """Dump content and look at every line; returns the lines."""
    path.write_bytes(content)
    done = dump(*options, path)
    for line in done.lines:
        assert LINE.fullmatch(line), line
    for line in done.err.splitlines():
        assert COMPLAINT.fullmatch(line), line
    assert done.code == any(line.startswith(f"{path}: ") for line in done.err.splitlines())
    as_json = dump("--output=json", *options, path)
    assert as_json.code == done.code
    assert all("kind" in one for one in as_json.objects)
    return done.lines


def test_every_truncation_of_a_metadata_log(tmp_path: Path) -> None:
    whole = b"".join(METADATA)
    path = write(tmp_path, whole)
    full = check(path, whole, "--cluster-metadata-decoder")
    ends = [position + header.size for position, header in iterate_headers(whole)]

    for size in range(len(whole)):
        lines = check(path, whole[:size], "--cluster-metadata-decoder")
        kept = sum(end <= size for end in ends)
        records = (0, 1, 2, 4)[kept]
        shown = 2 + kept + records
        assert lines[:shown] == full[:shown]
        rest = size - max([0, *(end for end in ends if end <= size)])
        assert lines[shown:] == (
            [f"Found {rest} invalid bytes at the end of {path.name}"] if rest else []
        )


def test_every_single_byte_change_of_a_metadata_log(tmp_path: Path) -> None:
    whole = b"".join(METADATA)
    path = write(tmp_path, whole)
    full = check(path, whole, "--cluster-metadata-decoder")
    chosen = random.Random(SEED)
    starts = [position for position, _ in iterate_headers(whole)]

    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= chosen.randrange(1, 256)
        lines = check(path, bytes(changed), "--cluster-metadata-decoder")
        # Batches before the damaged one are as they were.
        before = sum(start <= position for start in starts) - 1
        shown = 2 + before + (0, 1, 2, 4)[before]
        assert lines[:shown] == full[:shown]
        # A change behind the magic is seen by the CRC, and the batches that follow are still read.
        at = position - starts[before]
        if at >= 17:
            assert lines[shown].endswith(" isvalid: false")
            assert payloads(lines[-1:]) == payloads(full[-1:]) or before == len(starts) - 1


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_every_single_byte_change_of_a_compressed_batch(tmp_path: Path, codec: int) -> None:
    batch = values(b"one" * 5, b"two" * 5)
    whole = compressed(batch, codec) if codec else batch
    path = write(tmp_path, whole)
    chosen = random.Random(SEED)

    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= chosen.randrange(1, 256)
        check(path, bytes(changed), "--print-data-log")


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex", "snapshot"])
def test_every_truncation_and_change_of_the_other_files(tmp_path: Path, suffix: str) -> None:
    batches = [
        build_batch([(None, b"x")] * 2, base_offset=2 * n, timestamp_ms=TIME_MS) for n in range(3)
    ]
    write(tmp_path, *batches)
    size = len(batches[0])
    whole = {
        "index": offset_index((3, size), (5, 2 * size)),
        "timeindex": time_index((TIME_MS - 1, 1), (TIME_MS, 3)),
        "txnindex": bytes(34) * 2,
        "snapshot": bytes.fromhex("0001 8f2d2f3a 00000001") + bytes(46),
    }[suffix]
    path = write(tmp_path, whole, name=f"{0:020d}.{suffix}")
    chosen = random.Random(SEED)

    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= chosen.randrange(1, 256)
        for content in (whole[:position], bytes(changed)):
            path.write_bytes(content)
            for option in ("--deep-iteration", "--index-sanity-check", "--output=json"):
                done = dump(option, path)
                assert done.code in (0, 1)
                assert "Traceback" not in done.err
