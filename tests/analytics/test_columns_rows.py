"""The rows of the data source by columns are those of the plain decoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.read.arrow_rows import ALL, Selection, decode_batches
from analytics.read.batch_headers import chain, headers
from analytics.read.layout import SnapshotFile, Split, read_layout
from analytics.read.payloads import has_payload
from analytics.read.plain_rows import SourceRow
from analytics.read.split_rows import COLUMNS
from jbodlab.kafka_wire.schema import EncodeError
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from jbodlab.record_batch.record_batch import CONTROL, build_batch
from tests.analytics.builders import partition_record, uid
from tests.analytics.examples import examples
from tests.analytics.random_records import random_log
from tests.analytics.shared import FIXTURES
from tests.analytics.source_rows import (
    VERSIONS,
    agreed_rows,
    decode_split,
    from_arrow,
    in_order,
    records_of,
)

TIMESTAMPS = st.just(1_700_000_000_000) | st.sampled_from([-1, 2**62, 253_402_300_800_000])


def by_columns(
    raw: bytes, split: Split, *, with_payload: bool = True, selection: Selection = ALL
) -> list[SourceRow]:
    positions, _ = chain(raw, 0, len(raw))
    batches = headers(np.frombuffer(raw, dtype=np.uint8), positions)
    return from_arrow(
        decode_batches(raw, batches, split, COLUMNS, with_payload=with_payload, selection=selection)
    )


def split_of(raw: bytes, snapshot: SnapshotFile | None = None) -> Split:
    return Split(
        file="x.log", start=40, end=40 + len(raw), snapshot=snapshot, source="here", cluster="c"
    )


def agree(raw: bytes, snapshot: SnapshotFile | None = None) -> list[SourceRow]:
    split = split_of(raw, snapshot)
    rows = by_columns(raw, split)
    assert in_order(rows) == in_order(decode_split(raw, split))
    return rows


def batch_of(records: Sequence[Record], version: int) -> bytes:
    values = [(None, frame.encode(record, version)) for record in records]
    return build_batch(values, timestamp_ms=0)


@st.composite
def values(draw: st.DrawFn, types: Sequence[tuple[type[Record], int]]) -> bytes | None:
    cls, version = draw(st.sampled_from(types))
    try:
        value = frame.encode(draw(records_of(cls, version)), version)
    except EncodeError:
        value = b""
    edits = ["none"] * 4 + ["cut", "byte", "version", "more", "tags", "null"]
    edit = draw(st.sampled_from(edits))
    if edit == "more":
        return value + draw(st.binary(max_size=3))
    if edit == "tags":
        return value[:-1] + draw(st.binary(max_size=12))
    if edit == "cut":
        return value[: draw(st.integers(0, len(value)))]
    if edit == "byte" and value:
        at = draw(st.integers(0, len(value) - 1))
        return value[:at] + bytes([draw(st.integers(0, 255))]) + value[at + 1 :]
    if edit == "version" and len(value) > 2:
        return value[:2] + bytes([draw(st.integers(0, 127))]) + value[3:]
    return None if edit == "null" else value


@examples(50, 300, data=st.data())
def test_every_row_is_the_one_of_the_plain_decoder(data: st.DataObject) -> None:
    raw = b""
    offset = 0
    for _ in range(data.draw(st.integers(1, 3))):
        some = st.lists(values(VERSIONS), min_size=1, max_size=6)
        records = [(None, value) for value in data.draw(some)]
        raw += build_batch(
            records,
            base_offset=offset,
            leader_epoch=2,
            timestamp_ms=data.draw(TIMESTAMPS),
            attributes=data.draw(st.sampled_from([0, 0, 0, CONTROL])),
        )
        offset += len(records)
    is_snapshot = data.draw(st.booleans())
    agree(raw, SnapshotFile(name="x", end_offset=99, timestamp_ms=5) if is_snapshot else None)


@pytest.mark.parametrize(
    ("cls", "version"), VERSIONS, ids=[f"{cls.NAME}-{version}" for cls, version in VERSIONS]
)
@pytest.mark.parametrize("count", [6, pytest.param(40, marks=pytest.mark.soak)])
def test_rows_of_each_type_are_those_of_the_plain_decoder(
    cls: type[Record], version: int, count: int
) -> None:
    @settings(max_examples=count)
    @given(st.lists(values([(cls, version)]), max_size=8))
    def holds(found: list[bytes | None]) -> None:
        found.append(frame.encode(cls(), version))
        agree(build_batch([(None, value) for value in found], timestamp_ms=0))

    holds()


def test_payloads_of_nearly_all_types_are_made_by_columns() -> None:
    left = {cls.NAME for cls, version in VERSIONS if not has_payload(cls, version)}
    assert left == {
        "REGISTER_BROKER_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "CLIENT_QUOTA_RECORD",
        "DELEGATION_TOKEN_RECORD",
        "USER_SCRAM_CREDENTIAL_RECORD",
    }


@pytest.mark.parametrize(
    "text", ["plain", 'quo"te', "back\\slash", "tab\t", "\x01", "é", "日本", ""]
)
def test_texts_are_escaped_as_in_json(text: str) -> None:
    records = [
        TopicRecord(name=text, topic_id=uid(1)),
        ClearElrRecord(topic_name=text),
        ConfigRecord(resource_type=2, resource_name=text, name="x", value=text),
        ConfigRecord(resource_type=4, resource_name="1", name=text, value=None),
        TopicRecord(name="other", topic_id=uid(2)),
    ]

    rows = agree(batch_of(records, 0))

    assert [row.topic for row in rows] == [text, text, text, None, "other"]


@pytest.mark.parametrize("numbers", [(0, 1), (-1, 253), (-2, 254), (-3,), (2**31 - 1, 5), ()])
def test_numbers_of_any_size(numbers: tuple[int, ...]) -> None:
    records = [
        PartitionChangeRecord(partition_id=2**31 - 1, isr=numbers, leader=7, replicas=(1,)),  # type: ignore[arg-type]
        PartitionChangeRecord(partition_id=0, isr=(), replicas=numbers),  # type: ignore[arg-type]
        PartitionChangeRecord(partition_id=-2, isr=None),
        PartitionRecord(replicas=numbers, leader=numbers[0] if numbers else -1),  # type: ignore[arg-type]
    ]

    agree(batch_of(records, 2))


def test_ids_that_differ_in_one_half_only_stay_apart() -> None:
    records = [partition_record(uid(n)) for n in range(1, 9)]  # equal second halves
    rows = agree(batch_of(records, 2))

    assert len({row.topic_id for row in rows}) == 8


@pytest.mark.parametrize("cluster", ["4.3.1-disks", "3.9.2-admin"])
def test_logs_of_kafka_agree(cluster: str) -> None:
    layout = read_layout(FIXTURES / cluster / "controller" / "__cluster_metadata-0")

    assert agreed_rows(layout)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_histories_agree(tmp_path: Path, seed: int) -> None:
    log = random_log(tmp_path, seed, 300, snapshot_every=100)
    layout = read_layout(log.directory, split_bytes=3000)

    assert not layout.problems
    assert {row.problem for row in agreed_rows(layout)} == {None}


def test_without_payloads_only_these_are_missing(tmp_path: Path) -> None:
    log = random_log(tmp_path, seed=3, steps=60)
    raw = (log.directory / "00000000000000000000.log").read_bytes()
    split = split_of(raw)

    with_payload, without = by_columns(raw, split), by_columns(raw, split, with_payload=False)

    assert in_order(row._replace(payload=None) for row in with_payload) == in_order(without)


@settings(max_examples=40)
@given(
    bounds=st.tuples(st.integers(-5, 130), st.integers(-5, 130)),
    what=st.sampled_from(["offset", "replay_offset", "time_ms", "replay_time_ms"]),
    types=st.none() | st.sets(st.sampled_from([c.NAME for c in RECORD_TYPES.values()])),
    is_snapshot=st.booleans(),
)
def test_a_selection_leaves_what_it_names(
    bounds: tuple[int, int], what: str, types: set[str] | None, is_snapshot: bool
) -> None:
    values = [(None, frame.encode(cls(), 0)) for cls in RECORD_TYPES.values() for _ in range(2)]
    raw = b"".join(
        build_batch([value], base_offset=n, timestamp_ms=n) for n, value in enumerate(values)
    )
    snapshot = SnapshotFile(name="x", end_offset=60, timestamp_ms=70) if is_snapshot else None
    selection = Selection(
        **{what: bounds},  # type: ignore[arg-type]
        types=None if types is None else frozenset(types),
    )
    column = {"time_ms": "timestamp", "replay_time_ms": "replay_time"}.get(what, what)
    scale = 1000 if what.endswith("_ms") else 1

    rows = by_columns(raw, split_of(raw, snapshot), selection=selection)

    expected = [
        row
        for row in by_columns(raw, split_of(raw, snapshot))
        if bounds[0] <= getattr(row, column) // scale < bounds[1]
        and (types is None or row.type in types)
    ]
    assert in_order(rows) == in_order(expected)
