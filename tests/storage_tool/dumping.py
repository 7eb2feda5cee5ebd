"""Files to dump, and the dump tool run in this process."""

from __future__ import annotations

import io
import json
import struct
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode

from jbodlab.cli.program import main
from jbodlab.metadata.log.batches import control_batch
from jbodlab.metadata.records.cluster_records import BrokerFeature, RegisterControllerRecord
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.control_records import LeaderChangeMessage, Voter
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import CRC_OFFSET, CRC_START, HEADER_SIZE, build_batch
from tests.metadata_batches import data_batch

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kafka-metadata-logs"
LOG = "00000000000000000000.log"
TIME_MS = 1_700_000_000_000


class Dumped(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.split("\n")[:-1]

    @property
    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines]

    def of_kind(self, kind: str) -> list[dict[str, object]]:
        return [one for one in self.objects if one["kind"] == kind]


def dump(*arguments: object) -> Dumped:
    """Run `jbodlab storage dump`."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["storage", "dump", *map(str, arguments)])
        sys.stdout.flush()
    raw = out.buffer
    assert isinstance(raw, io.BytesIO)
    return Dumped(code, raw.getvalue().decode(errors="surrogateescape"), err.getvalue())


def write(directory: Path, *batches: bytes, name: str = LOG) -> Path:
    """Write batches into a file; returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_bytes(b"".join(batches))
    return path


def leader_change(base_offset: int = 0) -> bytes:
    """Return the first batch of a leader epoch."""
    voters = (Voter(voter_id=1),)
    record = LeaderChangeMessage(leader_id=1, voters=voters, granting_voters=voters)
    return control_batch(record, base_offset=base_offset, epoch=1, timestamp_ms=TIME_MS)


def no_ops(count: int = 1, base_offset: int = 0) -> bytes:
    """Return one batch of records without fields."""
    records = [VersionedRecord(NoOpRecord(), 0)] * count
    return data_batch(records, base_offset=base_offset, epoch=1, timestamp_ms=TIME_MS)


def registration(max_supported_version: int, base_offset: int = 0) -> bytes:
    """Return one batch in which a controller of some release registers."""
    feature = BrokerFeature(
        name="metadata.version",
        min_supported_version=1,
        max_supported_version=max_supported_version,
    )
    record = VersionedRecord(RegisterControllerRecord(controller_id=1, features=(feature,)), 0)
    return data_batch([record], base_offset=base_offset, epoch=1, timestamp_ms=TIME_MS)


def values(*data: bytes | None, base_offset: int = 0, attributes: int = 0) -> bytes:
    """Return one batch with these values and without keys."""
    return build_batch(
        [(None, value) for value in data],
        base_offset=base_offset,
        leader_epoch=1,
        timestamp_ms=TIME_MS,
        attributes=attributes,
    )


def compressed(batch: bytes, codec: int) -> bytes:
    """Return a batch with its records compressed: 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    encode = {1: gzip_encode, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode}[codec]
    body = bytes(encode(batch[HEADER_SIZE:]))
    changed = bytearray(batch[:HEADER_SIZE] + body)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    (attributes,) = struct.unpack_from(">h", changed, 21)
    struct.pack_into(">h", changed, 21, attributes | codec)
    return with_crc(changed)


def with_crc(batch: bytes | bytearray) -> bytes:
    """Return a batch with the CRC of its bytes."""
    changed = bytearray(batch)
    struct.pack_into(">I", changed, CRC_OFFSET, crc32c(changed[CRC_START:]))
    return bytes(changed)


def offset_index(*entries: tuple[int, int]) -> bytes:
    """Return an offset index of relative offsets and positions."""
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_index(*entries: tuple[int, int]) -> bytes:
    """Return a time index of timestamps and relative offsets."""
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def payloads(lines: Sequence[str]) -> list[str]:
    """Return what stands behind `payload:`."""
    return [line.partition(" payload: ")[2] for line in lines if " payload: " in line]
