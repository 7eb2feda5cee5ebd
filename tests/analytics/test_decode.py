from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analytics.read.layout import Split, read_layout
from analytics.read.plain_rows import SourceRow
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.secrets import REDACTED, SECRETS
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.record_batch.record_batch import build_batch
from tests.analytics.builders import LogBuilder, partition_record, register, uid, versioned
from tests.analytics.shared import FIXTURES
from tests.analytics.source_rows import decode_split
from tests.metadata_batches import data_batch

DUMPED = re.compile(r"^\| offset: (\d+) CreateTime: (\d+) .*?(?:payload: (.*))?$")


def decode(data: bytes) -> list[SourceRow]:
    return list(decode_split(data, Split(file="x.log", start=0, end=len(data), snapshot=None)))


@pytest.mark.parametrize("cluster", ["4.3.1-disks", "3.9.2-admin"])
def test_every_record_is_the_one_that_kafkas_dump_tool_prints(cluster: str) -> None:
    layout = read_layout(FIXTURES / cluster / "controller" / "__cluster_metadata-0")

    for split in layout.splits:
        data = (Path(split.source) / split.file).read_bytes()
        rows = list(decode_split(data[split.start : split.end], split))
        dump = (FIXTURES / cluster / f"dump-{split.file}.txt").read_text()
        printed = [match for line in dump.splitlines() if (match := DUMPED.match(line))]
        for row, match in zip(rows, printed, strict=True):
            assert row.problem is None
            assert row.offset == int(match[1])
            assert row.timestamp == int(match[2]) * 1000
            if match[3] is None:
                assert row.control
            else:
                payload = json.loads(match[3])
                if payload["type"] == UserScramCredentialRecord.NAME:
                    # A table has nothing of what Kafka's tool shows of users.
                    payload["data"] |= dict.fromkeys(SECRETS[UserScramCredentialRecord], REDACTED)
                assert json.loads(row.payload or "") == payload


def test_a_record_names_what_it_is_about(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.append(register(7, [uid(1)]))
    log.append(TopicRecord(name="orders", topic_id=uid(2)), partition_record(uid(2), 3))
    log.close()
    data = (log.directory / "00000000000000000000.log").read_bytes()

    rows = decode(data)

    assert [(row.topic, row.partition, row.broker) for row in rows] == [
        (None, None, 7),
        ("orders", None, None),
        (None, 3, None),
    ]
    assert rows[1].topic_id == rows[2].topic_id is not None


def test_a_wrong_crc_costs_its_batch_and_no_other() -> None:
    no_op = versioned(NoOpRecord())
    first, second, third = (
        data_batch([no_op], base_offset=n, epoch=1, timestamp_ms=0) for n in range(3)
    )

    rows = decode(first + second[:-1] + b"\x7f" + third)

    assert [(row.offset, row.problem) for row in rows] == [(0, None), (1, "crc"), (2, None)]
    assert rows[1].position == len(first)


# The last one has a byte behind all that its version knows.
@pytest.mark.parametrize("value", [None, b"", b"\x02\x14\x00\x00", b"\x01\x14\x00\x00\x00"])
def test_a_value_that_cannot_be_decoded_keeps_its_row(value: bytes | None) -> None:
    rows = decode(build_batch([(None, value)], base_offset=4, timestamp_ms=0))

    assert [(row.offset, row.type, row.problem) for row in rows] == [
        (4, None, None),
        (4, None, "undecodable"),
    ]


def test_a_time_that_no_timestamp_can_hold_is_null() -> None:
    value = b"\x01\x14\x00\x00"

    rows = decode(build_batch([(None, value)], base_offset=4, timestamp_ms=2**62))

    assert [(row.type, row.timestamp) for row in rows] == [("NO_OP_RECORD", None)]
