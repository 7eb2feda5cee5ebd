"""Line by line against the dump tool in Kafka's released jars, where Maven can fetch them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jbodlab.metadata.log.batches import control_batch
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import UnregisterControllerRecord
from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    KRaftVoter,
    KRaftVoterEndpoint,
    KRaftVotersRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.record_batch.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    build_batch,
    read_header,
)
from jbodlab.storage.log.producer_state import ProducerState
from tests.jbodlab.metadata.records.every_record import every_record
from tests.kafka.tools import DUMP_LOG, KafkaTools
from tests.storage_tool.dumping import (
    TIME_MS,
    Dumped,
    compressed,
    dump,
    leader_change,
    no_ops,
    offset_index,
    registration,
    time_index,
    values,
    write,
)

pytestmark = pytest.mark.kafka

Kafka = Callable[..., Dumped]
DECODER = "--cluster-metadata-decoder"
SINCE_4_4 = (UnregisterControllerRecord,)
DAMAGED_TEXT = re.compile(r"(Error at \d+, skipping\.).*")


@pytest.fixture
def kafka(kafka_tools: KafkaTools) -> Kafka:
    """Runs Kafka's tool."""
    return lambda *arguments: Dumped(*kafka_tools.run(DUMP_LOG, *arguments))


def ours(*arguments: object) -> Dumped:
    *options, _, listed = arguments
    return dump(*options, *str(listed).split(","))


def files(paths: Sequence[Path]) -> tuple[str, str]:
    return "--files", ",".join(map(str, paths))


def metadata_log() -> bytes:
    """Return every record of every version that 4.3.1 knows, a batch for each."""
    batches = [leader_change()]
    for record, version in every_record():
        if isinstance(record, SINCE_4_4):
            continue
        batches.append(values(frame.encode(record, version), base_offset=len(batches)))
    return b"".join(batches)


def snapshot() -> bytes:
    """Return a snapshot of a quorum that can change."""
    voter = KRaftVoter(
        voter_id=1,
        endpoints=(KRaftVoterEndpoint(name="CONTROLLER", host="h", port=9093),),
        k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
    )
    head = [
        SnapshotHeaderRecord(last_contained_log_timestamp=5),
        KRaftVersionRecord(k_raft_version=1),
        KRaftVotersRecord(voters=(voter, KRaftVoter())),
    ]
    return b"".join(
        [
            control_batch(*head, base_offset=0, epoch=3, timestamp_ms=TIME_MS),
            registration(30, base_offset=3),
            control_batch(SnapshotFooterRecord(), base_offset=4, epoch=3, timestamp_ms=TIME_MS),
        ]
    )


def topic_log() -> list[bytes]:
    """Return batches of every kind that brokers keep."""
    texts = [f"value {number} ä€😀 ".encode() * 9 for number in range(4)]
    marker = [(bytes([0, 0, 0, kind]), struct.pack(">hi", 0, 7)) for kind in (0, 1, 9)]
    producer = {"producer_id": 7, "producer_epoch": 2}
    return [
        values(*texts),
        *(compressed(values(*texts, base_offset=4 * codec), codec) for codec in range(1, 5)),
        build_batch(
            [(b"k", b"v"), (b"", None), (None, b"\xc3("), (b"\xff", b"\xe2\x82"), (None, None)],
            base_offset=20,
            timestamp_ms=TIME_MS,
            base_sequence=2**31 - 2,
            **producer,
        ),
        build_batch(
            [(None, b"x")],
            base_offset=25,
            timestamp_ms=TIME_MS + 5,
            attributes=TRANSACTIONAL | LOG_APPEND_TIME,
            base_sequence=3,
            **producer,
        ),
        build_batch(
            marker,
            base_offset=26,
            timestamp_ms=TIME_MS + 6,
            attributes=TRANSACTIONAL | CONTROL,
            **producer,
        ),
        # A compacted log: records are missing in and between batches.
        values(b"y", base_offset=40, attributes=0x40),
    ]


@pytest.mark.parametrize(
    "options", [(DECODER,), (DECODER, "--skip-record-metadata"), ("--deep-iteration",), ()]
)
def test_every_record_of_the_metadata_log(
    kafka: Kafka, tmp_path: Path, options: tuple[str, ...]
) -> None:
    paths = [
        write(tmp_path, metadata_log()),
        write(tmp_path, snapshot(), name=f"{77:020d}-{3:010d}.checkpoint"),
        write(tmp_path, snapshot(), name="bootstrap.checkpoint"),
    ]

    shown = ("--show-secrets",) if DECODER in options else ()
    found = ours(*options, *shown, *files(paths))

    assert found == kafka(*options, *files(paths))
    # Every type is there.
    if options == (DECODER,):
        for cls in RECORD_TYPES.values():
            assert (f'"type":"{cls.NAME}"' in found.out) == (cls not in SINCE_4_4)


@pytest.mark.parametrize(
    "options",
    [("--print-data-log",), ("--print-data-log", "--skip-record-metadata"), ("--max-bytes", "900")],
)
def test_every_kind_of_batch(kafka: Kafka, tmp_path: Path, options: tuple[str, ...]) -> None:
    path = write(tmp_path, *topic_log())

    assert ours(*options, *files([path])) == kafka(*options, *files([path]))


def test_numbers_as_keys_and_values(kafka: Kafka, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        build_batch([(struct.pack(">q", -5), struct.pack(">i", 2**30))], timestamp_ms=TIME_MS),
    )
    options = [
        *("--key-decoder-class", "org.apache.kafka.tools.api.LongDecoder"),
        *("--value-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder"),
        *files([path]),
    ]

    assert ours(*options) == kafka(*options)


@pytest.mark.parametrize("options", [(), ("--verify-index-only",), ("--index-sanity-check",)])
def test_indexes_and_producer_snapshots(
    kafka: Kafka, tmp_path: Path, options: tuple[str, ...]
) -> None:
    batches = topic_log()[:6]
    state = ProducerState()
    for batch in topic_log()[5:7]:
        state.update(read_header(batch))
    places = [len(b"".join(batches[:number])) for number in range(6)]
    good, wrong, empty = tmp_path / "good", tmp_path / "wrong", tmp_path / "empty"
    for directory in (good, wrong, empty):
        write(directory, *batches)
    index, times = f"{0:020d}.index", f"{0:020d}.timeindex"
    paths = [
        write(good, offset_index((7, places[1]), (24, places[5])) + bytes(80), name=index),
        write(good, time_index((TIME_MS, 7)), name=times),
        write(good, struct.pack(">hqqqq", 0, 1, 2, 3, 4) * 2, name=f"{0:020d}.txnindex"),
        write(good, state.encode(), name=f"{24:020d}.snapshot"),
        write(wrong, offset_index((6, places[1]), (8, places[2])), name=index),
        write(wrong, time_index((TIME_MS, 7), (TIME_MS + 1, 11), (TIME_MS + 2, 90)), name=times),
        write(empty, b"", name=index),
        write(empty, b"", name=times),
        write(empty, ProducerState().encode(), name=f"{24:020d}.snapshot"),
    ]

    for path in paths:
        assert ours(*options, *files([path])) == kafka(*options, *files([path])), path


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda log: log[:-3], 0),
        (lambda log: log + b"\x7f" * 40, 0),
        (lambda log: log + b"\x01" * 16, 0),
        (lambda log: log[:-2] + b"z\0", 0),
        (lambda log: log[:61] + b"\xff" + log[62:], 1),
        (lambda log: log + bytes(100), 1),
        (lambda log: b"", 0),
    ],
    ids=["torn", "garbage", "few", "crc", "record", "zeros", "empty"],
)
def test_damaged_logs(kafka: Kafka, tmp_path: Path, damage, code: int) -> None:  # type: ignore[no-untyped-def]
    log = b"".join([no_ops(3), values(b"abc", base_offset=3), values(b"x", base_offset=4)])
    path = write(tmp_path, damage(log))

    found = ours("--print-data-log", *files([path]))
    expected = kafka("--print-data-log", *files([path]))

    assert (found.code, expected.code) == (code, code)
    if code:
        # Where Kafka's tool dies, this one goes on.
        assert found.lines[: len(expected.lines)] == expected.lines
        assert found.err.startswith(f"{path}: ")
    else:
        assert found == expected


def test_records_that_cannot_be_decoded(kafka: Kafka, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        values(
            *map(
                bytes.fromhex,
                [
                    *("00140000", "02140000", "0114000000", "01", "0180808080800000", "017f0300"),
                    *("01140900", "01010500000008000000000000000500", "010102 00000008", ""),
                    "010500 00000000 00000000000000000000000000000001 01 00 05 ff 00000009",
                    "010501 00000000 00000000000000000000000000000001"
                    "02 01 04 00000009 00 05 02 00000009",
                    "011101 00000008 0000000000000005 01 02 01 01",
                    "011700 01 00 03 02 61 00",
                ],
            ),
            None,
        ),
    )

    found = ours(DECODER, *files([path]))
    expected = kafka(DECODER, *files([path]))

    assert DAMAGED_TEXT.sub(r"\1", found.out) == DAMAGED_TEXT.sub(r"\1", expected.out)
    assert found.out.count("skipping.") == 12
    assert found.err == f"{path}: cannot decode 12 records\n"
