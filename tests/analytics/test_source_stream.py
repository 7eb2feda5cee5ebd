"""A stream gives every record once, whatever happens to the files while it follows them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from analytics.errors import ReplayInputError
from analytics.read.batch_headers import chain
from analytics.read.plain_rows import SourceRow
from analytics.read.split_rows import COLUMNS
from analytics.source.data_source import KraftMetadataSource
from analytics.source.stream import KraftMetadataStream, Place
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from tests.analytics.builders import LogBuilder, uid
from tests.analytics.source_rows import from_arrow

DEADLINE_S = 90


A, B = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBA"
ONE_SEGMENT = 1 << 30


class Following:
    """A stream without Spark: what the engine calls, in its order."""

    def __init__(self, directory: Path, **options: str) -> None:
        source = KraftMetadataSource({"path": str(directory)} | options)
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

    def offsets(self) -> list[int]:
        """Return the offsets of all records, of which none has a problem."""
        rows = self.rows()
        assert problems(rows) == []
        return offsets(rows)


def followed(log: LogBuilder) -> Following:
    """Return a stream that has read all that is there."""
    stream = Following(log.directory)
    assert stream.offsets() == list(range(log.log.end_offset))
    return stream


def problems(rows: list[SourceRow]) -> list[tuple[str, int | None]]:
    return [(row.problem, row.offset) for row in rows if row.problem is not None]


def offsets(rows: list[SourceRow]) -> list[int]:
    return sorted(row.offset or 0 for row in rows if row.problem is None)


def grow(log: LogBuilder, batches: int) -> None:
    for _ in range(batches):
        log.append(TopicRecord(name="t", topic_id=uid(1)), NoOpRecord())


@pytest.fixture
def log(request: pytest.FixtureRequest, tmp_path: Path) -> LogBuilder:
    """Five batches of two records, in several segments or as many bytes as a test says."""
    log = LogBuilder(tmp_path, segment_bytes=getattr(request, "param", 400))
    grow(log, 5)
    return log


in_one_segment = pytest.mark.parametrize("log", [ONE_SEGMENT], indirect=True)
in_any_segments = pytest.mark.parametrize("log", [400, ONE_SEGMENT], indirect=True)


def test_what_is_there_comes_first_and_what_is_appended_later(log: LogBuilder) -> None:
    stream = followed(log)

    assert stream.rows() == []
    grow(log, 1)
    assert stream.offsets() == [10, 11]
    grow(log, 20)
    assert len(log.segments) > 5
    assert stream.offsets() == list(range(12, 52))


@pytest.mark.parametrize("max_bytes", [1, 150, 1000])
def test_micro_batches_are_bounded_and_lose_nothing(log: LogBuilder, max_bytes: int) -> None:
    grow(log, 20)
    stream = Following(log.directory, splitBytes="200")

    assert sorted(row.offset or 0 for row in stream.rows(max_bytes)) == list(range(50))


def test_a_torn_tail_is_waited_for(log: LogBuilder) -> None:
    stream = followed(log)
    whole = log.segments[-1].read_bytes()
    grow(log, 1)
    path = log.segments[-1]
    grown = path.read_bytes()
    begin = len(whole) if grown.startswith(whole) else 0
    for size in range(begin, len(grown)):
        path.write_bytes(grown[:size])
        assert stream.rows() == []
    path.write_bytes(grown)

    assert stream.offsets() == [10, 11]


def test_a_tail_that_stays_torn_is_a_problem_once_the_next_segment_begins(log: LogBuilder) -> None:
    stream = Following(log.directory)
    last = log.segments[-1]
    last.write_bytes(last.read_bytes()[:-3])
    assert problems(stream.rows()) == []

    (log.directory / f"{10:020}.log").write_bytes(b"")

    assert "torn_tail" in dict(problems(stream.rows()))


@pytest.mark.parametrize("max_bytes", [None, 150])
def test_a_segment_that_cannot_be_read_is_a_problem_and_keeps_nothing_back(
    log: LogBuilder, max_bytes: int | None
) -> None:
    grow(log, 10)
    _, second, third, *_ = log.segments
    begin, end = int(second.stem), int(third.stem)
    second.unlink()
    second.symlink_to("nowhere")

    rows = Following(log.directory).rows(max_bytes)

    told = {(row.problem, row.file, row.offset) for row in rows}
    assert ("unreadable", second.name, None) in told
    assert "gap" in {kind for kind, _, _ in told}
    assert offsets(rows) == [offset for offset in range(30) if not begin <= offset < end]
    assert begin > 0


def test_retention_that_was_faster_is_a_gap(log: LogBuilder) -> None:
    stream = followed(log)
    grow(log, 10)
    for path in log.segments[:-2]:
        path.unlink()

    rows = stream.rows()

    assert problems(rows) == [("gap", 10)]
    assert offsets(rows) == list(range(int(log.segments[0].stem), 30))


@in_one_segment
def test_a_log_that_is_cut_back_is_a_problem_and_goes_on(log: LogBuilder) -> None:
    stream = followed(log)
    (path,) = log.segments
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 5])

    assert [(row.offset, row.problem) for row in stream.rows()] == [(4, "order")]
    path.write_bytes(data)
    assert stream.offsets() == list(range(4, 10))


def set_epoch(path: Path, batch: int, epoch: int, attributes: int = 0) -> None:
    """Write another epoch into a batch, which its checksum does not cover; and attributes."""
    data = bytearray(path.read_bytes())
    positions, _ = chain(bytes(data), 0, len(data))
    begin = int(positions[batch])
    data[begin + 12 : begin + 16] = epoch.to_bytes(4, "big")
    data[begin + 22] |= attributes
    path.write_bytes(data)


@in_one_segment
@pytest.mark.parametrize(
    ("epoch", "message"),
    [(0, "epoch 0 behind epoch 1"), (2, "without a change of the leader")],
)
def test_epochs_are_compared_across_micro_batches(
    log: LogBuilder, epoch: int, message: str
) -> None:
    stream = followed(log)
    grow(log, 2)
    set_epoch(log.segments[0], 5, epoch)

    rows = stream.rows()

    assert ("epoch", 10) in problems(rows)
    assert any(message in str(row.message) for row in rows)


def test_epochs_are_compared_from_one_segment_to_the_next(log: LogBuilder) -> None:
    set_epoch(log.segments[1], 0, 0)

    assert "epoch" in dict(problems(Following(log.directory).rows()))


@in_one_segment
def test_a_raised_epoch_of_a_last_batch_is_noticed_by_the_next(log: LogBuilder) -> None:
    stream = followed(log)
    grow(log, 1)
    set_epoch(log.segments[0], -1, 7, attributes=0x20)  # a control batch, as LEADER_CHANGE is
    stream.rows()
    grow(log, 1)
    rows = stream.rows()

    assert ("epoch", "epoch 1 behind epoch 7") in {(row.problem, row.message) for row in rows}


@in_one_segment
def test_damage_in_the_middle_is_a_problem_and_does_not_stop_the_stream(log: LogBuilder) -> None:
    (path,) = log.segments
    data = bytearray(path.read_bytes())
    data[2 * len(data) // 5 + 16] = 9  # no magic
    path.write_bytes(data)

    rows = Following(log.directory).rows()

    assert offsets(rows) == [0, 1, 2, 3, 6, 7, 8, 9]
    assert problems(rows) != []


@in_one_segment
def test_every_damaged_byte_is_noticed_by_a_stream(log: LogBuilder) -> None:
    (path,) = log.segments
    data = path.read_bytes()
    whole = {row.offset: row for row in Following(log.directory).rows()}
    # Bytes that look like a torn tail may still be completed, until batches follow it.
    for position in range(len(data) // 2):
        damaged = bytearray(data)
        damaged[position] ^= 0x41
        path.write_bytes(damaged)
        rows = Following(log.directory).rows()
        records = [row for row in rows if row.problem is None]
        assert len(records) < len(rows), position
        assert all(row._replace(epoch=1) == whole[row.offset] for row in records), position


def identify(log: LogBuilder, cluster_id: str | None) -> None:
    """Say whose log it is, in the place where Kafka does."""
    file = log.root / "meta.properties"
    if cluster_id is None:
        file.unlink(missing_ok=True)
    else:
        file.write_text(f"version=1\ncluster.id={cluster_id}\nnode.id=1\n")


def formatted_anew(log: LogBuilder, cluster_id: str | None, batches: int) -> LogBuilder:
    """Put another log in the place of one, with later times and so with other bytes."""
    log.close()
    shutil.rmtree(log.directory)
    identify(log, cluster_id)
    new = LogBuilder(log.root, segment_bytes=log.segment_bytes, now_ms=log.now_ms + 1_000_000)
    grow(new, batches)
    return new


@contextmanager
def refused(*said: str) -> Iterator[None]:
    """Expect one line that says some things."""
    with pytest.raises(ReplayInputError) as caught:
        yield
    text = str(caught.value)
    assert [each for each in said if each not in text] == []
    assert "\n" not in text


@in_any_segments
@pytest.mark.parametrize("batches", [1, 5, 20])
@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (A, B, (f"cluster {A}", f"cluster {B}")),
        (A, None, (f"cluster {A}", "a cluster without meta.properties")),
        (None, A, (f"cluster {A}", "a cluster without meta.properties")),
    ],
)
def test_another_log_is_an_error_that_names_both_clusters(
    log: LogBuilder, batches: int, before: str | None, after: str | None, named: tuple[str, str]
) -> None:
    identify(log, before)
    stream = followed(log)
    place = stream.place
    formatted_anew(log, after, batches)

    with refused(*named, str(log.directory)):
        stream.rows()

    assert stream.place == place


def test_a_micro_batch_that_is_planned_again_is_of_the_cluster_that_it_was_of(
    log: LogBuilder,
) -> None:
    identify(log, A)
    stream = Following(log.directory)
    end = stream.stream.latestOffset(stream.place, ReadAllAvailable())
    tasks = stream.stream.partitions(stream.place, end)
    formatted_anew(log, B, 20)

    with refused(f"cluster {A}", f"cluster {B}"):
        stream.stream.partitions(stream.place, end)
    with refused(f"cluster {A}", f"cluster {B}"):
        list(stream.stream.read(tasks[0]))


@in_any_segments
@pytest.mark.parametrize("cluster_id", [A, None])
@pytest.mark.parametrize("batches", [1, 5, 20])
def test_a_log_that_was_written_anew_is_a_problem_and_read_from_its_begin(
    log: LogBuilder, cluster_id: str | None, batches: int
) -> None:
    identify(log, cluster_id)
    stream = followed(log)
    new = formatted_anew(log, cluster_id, batches)

    rows = stream.rows()

    assert problems(rows) == [("order", 0)]
    assert offsets(rows) == list(range(2 * batches))
    grow(new, 5)
    assert stream.offsets() == list(range(2 * batches, 2 * batches + 10))


@in_one_segment
@pytest.mark.parametrize("cluster_id", [A, None])
def test_a_tail_that_was_cut_off_and_written_again_is_a_problem(
    log: LogBuilder, cluster_id: str | None
) -> None:
    identify(log, cluster_id)
    stream = followed(log)
    (path,) = log.segments
    kept = path.read_bytes()[: path.stat().st_size * 4 // 5]
    other = LogBuilder(log.root / "other", now_ms=log.now_ms + 1_000_000)
    grow(other, 7)
    path.write_bytes(kept + other.segments[0].read_bytes()[len(kept) :])

    rows = stream.rows()

    assert problems(rows) == [("order", 0)]
    assert offsets(rows) == list(range(14))


def test_the_segments_behind_a_cut_are_gone_and_the_log_goes_on(log: LogBuilder) -> None:
    stream = followed(log)
    _, *others = log.segments
    for path in others:
        path.unlink()

    rows = stream.rows()

    assert problems(rows) == [("order", 0)]
    assert offsets(rows) == list(range(int(others[0].stem)))


@pytest.mark.parametrize(("before", "after"), [(A, None), (None, A)])
def test_the_same_log_goes_on_when_its_cluster_id_comes_or_goes(
    log: LogBuilder, before: str | None, after: str | None
) -> None:
    identify(log, before)
    stream = followed(log)
    identify(log, after)
    grow(log, 1)
    assert stream.offsets() == [10, 11]
    identify(log, B)

    with refused(f"cluster {A}", f"cluster {B}"):
        stream.rows()


def test_of_several_directories_the_one_with_another_cluster_is_named(tmp_path: Path) -> None:
    logs = [LogBuilder(tmp_path / name) for name in ("a", "b")]
    for log, cluster_id in zip(logs, (A, B), strict=True):
        identify(log, cluster_id)
        grow(log, 3)
    stream = Following(tmp_path)
    assert stream.offsets() == sorted([*range(6), *range(6)])
    formatted_anew(logs[1], A, 9)

    with refused(f"{logs[1].directory} holds the log of cluster {A}"):
        stream.rows()


def test_a_directory_that_is_named_later_is_read_from_its_first_segment(log: LogBuilder) -> None:
    identify(log, A)
    other = LogBuilder(log.root / "other", segment_bytes=400)
    grow(other, 10)
    assert len(other.segments) > 2
    both = Following(log.root, path=f"{log.directory},{other.directory}")
    both.place = followed(log).place

    assert both.offsets() == list(range(20))


def test_an_offset_that_does_not_name_the_cluster_is_refused(log: LogBuilder) -> None:
    stream = Following(log.directory).stream
    place = {"file": log.segments[0].name, "position": 0, "offset": 0, "epoch": 1}
    old: Any = {str(log.directory): place}

    with refused("start the query with a new checkpointLocation"):
        stream.latestOffset(old, ReadAllAvailable())
    with refused("start the query with a new checkpointLocation"):
        stream.partitions(old, old)


@pytest.mark.parametrize("unreadable", [False, True])
def test_an_epoch_that_began_in_a_gap_is_no_problem_of_its_own(
    log: LogBuilder, unreadable: bool
) -> None:
    stream = followed(log)
    log.new_leader()
    grow(log, 10)
    for path in log.segments[2 if unreadable else 0 : -1]:
        path.unlink()
        if unreadable:
            path.symlink_to("nowhere")

    rows = stream.rows()

    assert set(dict(problems(rows))) == ({"gap", "unreadable"} if unreadable else {"gap"})
    assert offsets(rows)[-1] == 30


def test_available_now_ends_at_what_was_there(log: LogBuilder) -> None:
    stream = Following(log.directory)
    stream.stream.prepareForTriggerAvailableNow()
    grow(log, 3)

    assert stream.offsets() == list(range(10))


@pytest.fixture
def query(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> DataStreamWriter:
    """A query of Spark that follows the log; a restart goes on where it was."""
    rows = spark.readStream.format("kraft-metadata").load(str(log.directory))
    return rows.select("offset", "type", "problem").writeStream.options(
        checkpointLocation=str(tmp_path / "checkpoint"), path=str(tmp_path / "out")
    )


def run_over_what_is_there(query: DataStreamWriter) -> None:
    started = query.format("parquet").trigger(availableNow=True).start()
    assert started.awaitTermination(DEADLINE_S)


@pytest.mark.spark
def test_spark_follows_a_log_over_a_restart(
    spark: SparkSession, log: LogBuilder, tmp_path: Path, query: DataStreamWriter
) -> None:
    run_over_what_is_there(query)
    grow(log, 7)
    run_over_what_is_there(query)

    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.offset for row in rows) == list(range(24))
    assert {row.problem for row in rows} == {None}


@pytest.mark.spark
def test_spark_stops_a_query_whose_directory_holds_another_clusters_log(
    spark: SparkSession, log: LogBuilder, tmp_path: Path, query: DataStreamWriter
) -> None:
    identify(log, A)
    run_over_what_is_there(query)
    formatted_anew(log, B, 20)

    with pytest.raises(StreamingQueryException, match=f"cluster {B}.*cluster {A}"):
        run_over_what_is_there(query)

    assert spark.read.parquet(str(tmp_path / "out")).count() == 10


@pytest.mark.spark
def test_spark_follows_a_log_that_grows(
    spark: SparkSession, log: LogBuilder, query: DataStreamWriter
) -> None:
    running = (
        query.format("memory")
        .queryName("followed")
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        for expected in (10, 20, 30):
            deadline = time.monotonic() + DEADLINE_S
            while spark.table("followed").count() < expected:
                assert time.monotonic() < deadline
                assert running.exception() is None
                time.sleep(0.1)
            grow(log, 5)
    finally:
        running.stop()
    found = [row.offset for row in spark.table("followed").collect()]
    assert sorted(found) == list(range(len(found)))


def test_the_columns_of_a_stream_are_those_of_a_batch(log: LogBuilder) -> None:
    assert Following(log.directory).stream.plan.schema == COLUMNS
