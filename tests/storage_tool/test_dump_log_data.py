"""Logs of ordinary topics, whole and damaged."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from jbodlab.record_batch.record_batch import CONTROL, HEADER_SIZE, LOG_APPEND_TIME, build_batch
from tests.storage_tool.dumping import (
    LOG,
    TIME_MS,
    compressed,
    dump,
    payloads,
    values,
    with_crc,
    write,
)

DELETE_HORIZON = 0x40


def test_without_further_options_only_batches_are_printed(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        build_batch(
            [(b"k", b"v")] * 3,
            leader_epoch=4,
            timestamp_ms=TIME_MS,
            producer_id=7,
            producer_epoch=2,
            base_sequence=2**31 - 2,
        ),
    )

    assert dump(path) == (
        0,
        f"Dumping {path}\nLog starting offset: 0\n"
        "baseOffset: 0 lastOffset: 2 count: 3 baseSequence: 2147483646 lastSequence: 0 "
        "producerId: 7 producerEpoch: 2 partitionLeaderEpoch: 4 isTransactional: false "
        "isControl: false deleteHorizonMs: OptionalLong.empty position: 0 "
        f"CreateTime: {TIME_MS} size: 88 magic: 2 compresscodec: none crc: 3323850587 "
        "isvalid: true\n",
        "",
    )


def test_deep_iteration_adds_records_and_print_data_log_their_data(tmp_path: Path) -> None:
    records = [(b"k", b"v"), (None, b"w"), (b"", None), (None, None)]
    path = write(
        tmp_path, build_batch(records, timestamp_ms=TIME_MS, producer_id=7, base_sequence=5)
    )
    starts = [
        f"| offset: {offset} CreateTime: {TIME_MS} keySize: {key} valueSize: {value} "
        f"sequence: {5 + offset} headerKeys: []"
        for offset, (key, value) in enumerate([(1, 1), (-1, 1), (0, -1), (-1, -1)])
    ]
    ends = [" key: k payload: v", " payload: w", " key: ", ""]

    assert dump("--deep-iteration", path).lines[3:] == starts
    assert dump("--print-data-log", path).lines[3:] == [
        start + end for start, end in zip(starts, ends, strict=True)
    ]
    assert dump("--print-data-log", "--skip-record-metadata", path).lines[3:] == [
        "| key: k payload: v",
        "| payload: w",
        "| key: ",
        "",
    ]


@pytest.mark.parametrize(("codec", "name"), [(1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")])
def test_compressed_batches_are_opened(tmp_path: Path, codec: int, name: str) -> None:
    path = write(tmp_path, compressed(values(b"one", b"two"), codec))

    done = dump("--print-data-log", path)

    assert payloads(done.lines) == ["one", "two"]
    assert f" compresscodec: {name} " in done.lines[2]
    assert done.lines[2].endswith(" isvalid: true")


def test_timestamps_set_by_the_broker_and_a_delete_horizon_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, values(b"x", attributes=LOG_APPEND_TIME | DELETE_HORIZON))

    done = dump("--print-data-log", path)

    assert f"deleteHorizonMs: OptionalLong[{TIME_MS}] position: 0 LogAppendTime: " in done.lines[2]
    assert done.lines[3].startswith(f"| offset: 0 LogAppendTime: {TIME_MS} keySize: -1 ")


def test_header_keys_stand_between_commas(tmp_path: Path) -> None:
    record = bytes.fromhex("00 00 00 01 02 78 04 02 61 01 02 62 00")
    body = bytes([len(record) * 2]) + record
    path = write(tmp_path, with_crc(_of_size(values(b"x")[:HEADER_SIZE] + body)))

    assert "headerKeys: [a,b] payload: x" in dump("--print-data-log", path).lines[3]


@pytest.mark.parametrize(
    ("decoder", "value", "payload"),
    [
        ("kafka.serializer.StringDecoder", "ä".encode(), "ä"),
        ("org.apache.kafka.tools.api.IntegerDecoder", struct.pack(">i", -5), "-5"),
        ("org.apache.kafka.tools.api.LongDecoder", struct.pack(">q", 2**40), "1099511627776"),
    ],
)
def test_decoders_that_are_built_in(
    tmp_path: Path, decoder: str, value: bytes, payload: str
) -> None:
    path = write(tmp_path, values(value))

    done = dump("--value-decoder-class", decoder, path)

    assert payloads(done.lines) == [payload]


def test_other_decoders_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, values(b"x"))

    done = dump("--key-decoder-class", "com.example.Avro", path)

    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "jbodlab: unsupported decoder com.example.Avro, expected one of IntegerDecoder, "
        "LongDecoder, StringDecoder\n"
    )


def test_value_of_the_wrong_size_does_not_end_the_dump(tmp_path: Path) -> None:
    path = write(tmp_path, values(b"abc", struct.pack(">i", 5)))

    done = dump("--value-decoder-class", "IntegerDecoder", path)

    assert payloads(done.lines) == [
        "Error at 0, skipping. expected a number of 4 bytes, got 3 bytes",
        "5",
    ]
    assert done.code == 1


def test_json_has_text_where_there_is_text_and_bytes_where_not(tmp_path: Path) -> None:
    path = write(tmp_path, build_batch([(b"k", b"\xff"), (None, None)], timestamp_ms=TIME_MS))

    first, second = dump("--print-data-log", "--output=json", path).of_kind("record")

    assert (first["key"], first["payload"], first["payloadBytes"]) == ("k", "\ufffd", "/w==")
    assert "keyBytes" not in first
    assert (second["key"], second["payload"]) == (None, None)


def test_gap_between_offsets_is_told_and_no_damage(tmp_path: Path) -> None:
    path = write(tmp_path, values(b"x"), values(b"y", base_offset=5), values(b"z", base_offset=6))

    text = dump("--deep-iteration", path)
    as_json = dump("--deep-iteration", "--output=json", path)

    assert text.err == f"Non-consecutive offsets in {path}\n  0 is followed by 5\n"
    (problem,) = as_json.of_kind("problem")
    assert (problem["problem"], problem["first"], problem["second"]) == (
        "nonConsecutiveOffsets",
        0,
        5,
    )
    assert (text.code, as_json.code) == (0, 0)
    assert not dump(path).err


def test_offset_beyond_64_bits_is_told_like_any_other(tmp_path: Path) -> None:
    path = write(tmp_path, values(b"x"), values(b"y", b"z", base_offset=2**63 - 1))

    done = dump("--deep-iteration", path)

    assert done.err.splitlines()[1:] == [f"  0 is followed by {2**63 - 1}"]


def test_wrong_crc_is_told_and_records_are_printed(tmp_path: Path) -> None:
    batch = bytearray(values(b"x"))
    batch[-2] = ord("y")
    path = write(tmp_path, bytes(batch))

    done = dump("--print-data-log", path)

    assert done.lines[2].endswith(" isvalid: false")
    assert payloads(done.lines) == ["y"]
    assert (done.code, done.err) == (0, "")


def test_torn_tail_and_garbage_are_counted(tmp_path: Path) -> None:
    whole = values(b"x")
    torn = write(tmp_path / "torn", whole, values(b"y", base_offset=1)[:-1])
    garbage = write(tmp_path / "garbage", whole, b"\x7f" * 40)

    for path, count in ((torn, len(whole) - 1), (garbage, 40)):
        done = dump(path)
        assert done.lines[-1] == f"Found {count} invalid bytes at the end of {LOG}"
        assert (len(done.lines), done.code, done.err) == (4, 0, "")
        (problem,) = dump("--output=json", path).of_kind("problem")
        assert (problem["problem"], problem["bytes"]) == ("invalidBytesAtEnd", count)


def test_zeros_behind_the_last_batch_end_the_file_but_not_the_dump(tmp_path: Path) -> None:
    first = write(tmp_path / "1", values(b"x"), bytes(100))
    second = write(tmp_path / "2", values(b"y"))

    done = dump("--print-data-log", first, second)

    assert payloads(done.lines) == ["x", "y"]
    assert done.code == 1
    assert done.err == (
        f"{first}: invalid batch size 0 at position 69; cannot read the last 100 bytes\n"
    )


def test_damaged_records_of_a_batch_do_not_hide_the_next_batch(tmp_path: Path) -> None:
    broken = bytearray(values(b"aa", b"bb"))
    broken[HEADER_SIZE] = 0x7F
    path = write(tmp_path, bytes(broken), values(b"x", base_offset=2))

    done = dump("--print-data-log", path)

    assert payloads(done.lines) == ["x"]
    assert done.code == 1
    assert f"{path}: batch at position 0, offset 0: record of " in done.err


def test_damaged_compression_is_told(tmp_path: Path) -> None:
    batch = bytearray(compressed(values(b"x" * 100), 4))
    batch[HEADER_SIZE + 4 :] = bytes(len(batch) - HEADER_SIZE - 4)
    unknown = bytearray(values(b"x"))
    unknown[22] |= 7
    path = write(tmp_path, bytes(batch), bytes(unknown), values(b"y"))

    done = dump("--print-data-log", path)

    assert payloads(done.lines) == ["y"]
    assert "damaged zstd data" in done.err
    assert "unknown compression codec 7" in done.err
    assert " compresscodec: 7 " in done.out


def test_bytes_can_be_limited(tmp_path: Path) -> None:
    batch = values(b"x")
    path = write(tmp_path, batch, batch, batch)

    done = dump("--max-bytes", 2 * len(batch) + 5, path)

    assert len(done.lines) == 4
    assert "invalid bytes" not in done.out


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_of_an_old_format_is_refused_and_the_next_one_printed(
    tmp_path: Path, magic: int
) -> None:
    rest = struct.pack(">bbqii", magic, 0, TIME_MS, -1, 1) + b"x"
    old = struct.pack(">qiI", 8, len(rest) + 4, zlib.crc32(rest)) + rest
    path = write(tmp_path, old, values(b"y", base_offset=9))

    done = dump("--print-data-log", path)

    assert (done.code, payloads(done.lines)) == (1, ["y"])
    assert done.err == (
        f"{path}: batch at position 0 has magic {magic}: formats before magic 2 are not supported\n"
    )


def test_payloads_are_written_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, values("zwei\nZeilen €😀".encode(), b"\xc3("))

    done = dump("--print-data-log", "--skip-record-metadata", path)

    assert done.out.endswith("| payload: zwei\nZeilen €😀\n| payload: \ufffd(\n")


def test_control_batch_of_a_topic_shows_its_markers(tmp_path: Path) -> None:
    marker = build_batch(
        [(bytes([0, 0, 0, 1]), bytes.fromhex("0000 00000003"))],
        timestamp_ms=TIME_MS,
        attributes=CONTROL | 0x10,
        producer_id=5,
        producer_epoch=1,
    )

    done = dump("--print-data-log", write(tmp_path, marker))

    assert " isTransactional: true isControl: true " in done.lines[2]
    assert done.lines[3].endswith(" endTxnMarker: COMMIT coordinatorEpoch: 3")


def _of_size(batch: bytes) -> bytes:
    return batch[:8] + struct.pack(">i", len(batch) - 12) + batch[12:]
