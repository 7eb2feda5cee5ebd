"""A stream gives every record once, whatever happens to the files while it follows them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from analytics.bytes.batch_headers import chain
from analytics.decode.plain_rows import SourceRow
from analytics.source.data_source import KraftMetadataSource
from analytics.source.stream import KraftMetadataStream, Place
from jbodlab.records.config_records import NoOpRecord
from jbodlab.records.topic_records import TopicRecord
from tests.analytics.builders import LogBuilder, uid
from tests.analytics.source_rows import SCHEMA, from_arrow

DEADLINE_S = 90


class Following:
    """A stream without Spark: what the engine calls, in its order."""

    def __init__(self, directory: Path, **options: str) -> None:
        source = KraftMetadataSource({"path": str(directory), **options})
        self.stream: KraftMetadataStream = source.streamReader(source.schema())
        self.place: dict[str, Place] = self.stream.initialOffset()

    def rows(self, max_bytes: int | None = None) -> list[SourceRow]:
        """Return the rows of all micro-batches until nothing is left."""
        limit = ReadAllAvailable() if max_bytes is None else ReadMaxBytes(max_bytes)
        found: list[SourceRow] = []
        while (end := self.stream.latestOffset(self.place, limit)) != self.place:
            for partition in self.stream.partitions(self.place, end):
                found += from_arrow(self.stream.read(partition))
            self.place = end
        return found

    def offsets(self) -> list[int | None]:
        return sorted(row.offset or 0 for row in self.rows() if row.problem is None)


def grow(log: LogBuilder, batches: int) -> None:
    for _ in range(batches):
        log.append(TopicRecord(name="t", topic_id=uid(1)), NoOpRecord())


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    log = LogBuilder(tmp_path, segment_bytes=400)
    grow(log, 5)
    return log


def segments(log: LogBuilder) -> list[Path]:
    return sorted(log.directory.glob("*.log"))


def test_what_is_there_comes_first_and_what_is_appended_later(log: LogBuilder) -> None:
    stream = Following(log.directory)

    assert stream.offsets() == list(range(10))
    assert stream.rows() == []
    grow(log, 1)
    assert stream.offsets() == [10, 11]
    grow(log, 20)
    assert len(segments(log)) > 5
    assert stream.offsets() == list(range(12, 52))


@pytest.mark.parametrize("max_bytes", [1, 150, 1000])
def test_micro_batches_are_bounded_and_lose_nothing(log: LogBuilder, max_bytes: int) -> None:
    grow(log, 20)
    stream = Following(log.directory, splitBytes="200")

    assert sorted(row.offset or 0 for row in stream.rows(max_bytes)) == list(range(50))


def test_a_torn_tail_is_waited_for(log: LogBuilder) -> None:
    stream = Following(log.directory)
    stream.rows()
    path = segments(log)[-1]
    whole = path.read_bytes()
    grow(log, 1)
    path = segments(log)[-1]
    grown = path.read_bytes()
    begin = len(whole) if grown.startswith(whole) else 0
    for size in range(begin, len(grown)):
        path.write_bytes(grown[:size])
        assert stream.rows() == []
    path.write_bytes(grown)

    assert stream.offsets() == [10, 11]


def test_a_tail_that_stays_torn_is_a_problem_once_the_next_segment_begins(log: LogBuilder) -> None:
    stream = Following(log.directory)
    last = segments(log)[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[:-3])
    before = stream.rows()
    assert {row.problem for row in before} == {None}

    following = log.directory / f"{10:020}.log"
    grow(log, 1)
    if not following.exists():
        following.write_bytes(whole[:0])
    rows = stream.rows()

    assert "torn_tail" in {row.problem for row in rows}


@pytest.mark.parametrize("max_bytes", [None, 150])
def test_a_segment_that_cannot_be_read_is_a_problem_and_keeps_nothing_back(
    log: LogBuilder, max_bytes: int | None
) -> None:
    grow(log, 10)
    first, second, *_ = segments(log)
    begin, end = (int(path.stem) for path in segments(log)[1:3])
    second.unlink()
    second.symlink_to("nowhere")

    rows = Following(log.directory).rows(max_bytes)

    problems = [(row.problem, row.file, row.offset) for row in rows if row.problem is not None]
    assert ("unreadable", second.name, None) in problems
    assert "gap" in {kind for kind, _, _ in problems}
    found = sorted(row.offset or 0 for row in rows if row.problem is None)
    assert found == [offset for offset in range(30) if not begin <= offset < end]
    assert begin > 0
    assert first.exists()


def test_retention_that_was_faster_is_a_gap(log: LogBuilder) -> None:
    stream = Following(log.directory)
    assert stream.offsets() == list(range(10))
    grow(log, 10)
    for path in segments(log)[:-2]:
        path.unlink()

    rows = stream.rows()

    first = int(segments(log)[0].stem)
    assert [(row.offset, row.problem) for row in rows if row.problem] == [(10, "gap")]
    assert sorted(row.offset or 0 for row in rows if row.problem is None) == list(range(first, 30))


def test_a_log_that_is_cut_back_is_a_problem_and_goes_on(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    grow(log, 5)
    stream = Following(log.directory)
    assert stream.offsets() == list(range(10))
    path = segments(log)[0]
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 5])

    assert [(row.offset, row.problem) for row in stream.rows()] == [(4, "order")]
    path.write_bytes(data)
    assert stream.offsets() == list(range(4, 10))


def set_epoch(path: Path, batch: int, epoch: int) -> None:
    """Write another epoch into a batch; its checksum does not cover it."""
    data = bytearray(path.read_bytes())
    positions, _ = chain(bytes(data), 0, len(data))
    begin = int(positions[batch])
    data[begin + 12 : begin + 16] = epoch.to_bytes(4, "big")
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("epoch", "message"),
    [(0, "epoch 0 behind epoch 1"), (2, "without a change of the leader")],
)
def test_epochs_are_compared_across_micro_batches(tmp_path: Path, epoch: int, message: str) -> None:
    log = LogBuilder(tmp_path)
    grow(log, 3)
    stream = Following(log.directory)
    assert {row.problem for row in stream.rows()} == {None}
    grow(log, 2)
    set_epoch(segments(log)[0], 3, epoch)

    rows = stream.rows()

    problems = [(row.problem, row.offset) for row in rows if row.problem is not None]
    assert ("epoch", 6) in problems
    assert any(message in str(row.message) for row in rows)


def test_epochs_are_compared_from_one_segment_to_the_next(log: LogBuilder) -> None:
    grow(log, 5)
    assert len(segments(log)) > 2
    set_epoch(segments(log)[1], 0, 0)

    assert "epoch" in {row.problem for row in Following(log.directory).rows()}


def test_a_raised_epoch_of_a_last_batch_is_noticed_by_the_next(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    grow(log, 2)
    stream = Following(log.directory)
    stream.rows()
    grow(log, 1)
    path = segments(log)[0]
    data = bytearray(path.read_bytes())
    positions, _ = chain(bytes(data), 0, len(data))
    last = int(positions[-1])
    data[last + 12 : last + 16] = (7).to_bytes(4, "big")
    data[last + 22] |= 0x20  # a control batch, as LEADER_CHANGE is
    path.write_bytes(data)
    stream.rows()
    grow(log, 1)
    rows = stream.rows()

    assert ("epoch", "epoch 1 behind epoch 7") in {(row.problem, row.message) for row in rows}


def test_damage_in_the_middle_is_a_problem_and_does_not_stop_the_stream(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    grow(log, 5)
    stream = Following(log.directory)
    path = segments(log)[0]
    data = bytearray(path.read_bytes())
    size = len(data) // 5
    data[2 * size + 16] = 9  # no magic
    path.write_bytes(data)

    rows = stream.rows()

    assert sorted(row.offset or 0 for row in rows if row.problem is None) == [
        0,
        1,
        2,
        3,
        6,
        7,
        8,
        9,
    ]
    assert {row.problem for row in rows} - {None} != set()


def test_every_damaged_byte_is_noticed_by_a_stream(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    grow(log, 4)
    path = segments(log)[0]
    data = path.read_bytes()
    whole = {row.offset: row for row in Following(log.directory).rows()}
    followed_by_two = len(data) // 2
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x41
        path.write_bytes(damaged)
        stream = Following(log.directory)
        rows = stream.rows()
        records = [row for row in rows if row.problem is None]
        # What looks like a torn tail may still be completed, until batches follow it.
        if position < followed_by_two:
            assert len(records) < len(rows), position
            assert all(row._replace(epoch=1) == whole[row.offset] for row in records), position


def test_available_now_ends_at_what_was_there(log: LogBuilder) -> None:
    stream = Following(log.directory)
    stream.stream.prepareForTriggerAvailableNow()
    grow(log, 3)

    assert stream.offsets() == list(range(10))


@pytest.mark.spark
def test_spark_follows_a_log_over_a_restart(
    spark: SparkSession, log: LogBuilder, tmp_path: Path
) -> None:
    def run() -> None:
        query = (
            spark.readStream.format("kraft-metadata")
            .load(str(log.directory))
            .select("offset", "type", "problem")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(DEADLINE_S)

    run()
    grow(log, 7)
    run()

    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.offset for row in rows) == list(range(24))
    assert {row.problem for row in rows} == {None}


@pytest.mark.spark
def test_spark_follows_a_log_that_grows(
    spark: SparkSession, log: LogBuilder, tmp_path: Path
) -> None:
    query = (
        spark.readStream.format("kraft-metadata")
        .load(str(log.directory))
        .writeStream.format("memory")
        .queryName("followed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        expected = 10
        for _ in range(3):
            deadline = time.monotonic() + DEADLINE_S
            while spark.table("followed").count() < expected:
                assert time.monotonic() < deadline
                assert query.exception() is None
                time.sleep(0.1)
            grow(log, 5)
            expected += 10
    finally:
        query.stop()
    offsets = [row.offset for row in spark.table("followed").collect()]
    assert sorted(offsets) == list(range(len(offsets)))


def test_the_columns_of_a_stream_are_those_of_a_batch(log: LogBuilder) -> None:
    assert Following(log.directory).stream.plan.schema == SCHEMA
