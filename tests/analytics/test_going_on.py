"""A run that goes on from the one before, and questions to tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.ask.as_of import read_tables, resolve
from analytics.bytes.layout import read_layout
from analytics.errors import ReplayInputError
from analytics.fold.broker_facts import LOSS_WINDOW_MS
from analytics.fold.min_insync import AssumedMinIsr
from analytics.job.command import answer, replay
from analytics.job.former_run import BYTES_PER_BUCKET, load_former, remaining_splits
from analytics.store.store import Store
from analytics.tables.catalog import TABLES
from jbodlab import kafka_uuid
from jbodlab.ids import TopicId
from jbodlab.image.metadata_image import MetadataImage
from jbodlab.records.config_records import NoOpRecord
from jbodlab.records.topic_records import TopicRecord
from tests.analytics.builders import LogBuilder, RandomHistory, partition_record, uid
from tests.analytics.commands import replay_command as main
from tests.analytics.image_tables import assert_history_has_no_holes, assert_tables_equal_image

pytestmark = pytest.mark.spark

WIDE_IN = (uid(10), uid(20), uid(30))

Rows = list[dict[str, object]]
ReadTable = Callable[[Path, str], Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """One log, replayed in two steps, and at once in many buckets."""

    log: Path
    in_steps: Path
    at_once: Path
    half: int
    """Last offset of the first step."""
    half_ms: int
    half_image: MetadataImage
    end: int
    image: MetadataImage
    new_files: frozenset[str]
    """Files of partition_history that the second step has added."""


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    root = tmp_path_factory.mktemp("runs")
    log = LogBuilder(root / "meta", segment_bytes=8192)
    history = RandomHistory(log, seed=11)
    wide = [partition_record(uid(77), index, directories=WIDE_IN) for index in range(200)]
    log.append(TopicRecord(name="wide", topic_id=TopicId(uid(77))), *wide)
    half_image = history.run(120, snapshot_every=50)
    be_quiet(log)
    half, half_ms = log.log.end_offset - 1, log.now_ms
    replay(root / "meta", root / "in_steps", spark)
    before = names(root / "in_steps")
    image = history.run(120, snapshot_every=50)
    be_quiet(log)
    log.close()
    replay(root / "meta", root / "in_steps", spark)
    with pytest.MonkeyPatch.context() as patch:
        # Many buckets: the wide topic lies in several of them.
        patch.setattr("analytics.job.run.BYTES_PER_BUCKET", 4000)
        replay(root / "meta", root / "at_once", spark)
    return Runs(
        log=root / "meta",
        in_steps=root / "in_steps",
        at_once=root / "at_once",
        half=half,
        half_ms=half_ms,
        half_image=half_image,
        end=log.log.end_offset - 1,
        image=image,
        new_files=names(root / "in_steps") - before,
    )


def be_quiet(log: LogBuilder) -> None:
    """Let time go by until nothing that comes explains what has been."""
    end_ms = log.now_ms + LOSS_WINDOW_MS
    while log.now_ms <= end_ms:
        log.append(NoOpRecord())


def names(output: Path) -> frozenset[str]:
    return frozenset(
        path.name for path in (output / "partition_history" / "cluster=meta").iterdir()
    )


def as_text(rows: Rows) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.parametrize("run", ["in_steps", "at_once"])
def test_replayed_end_state_equals_the_image_after_a_random_history(
    run: str, runs: Runs, read_table: ReadTable
) -> None:
    output = getattr(runs, run)
    assert len(runs.image.topics.by_id) > 1
    assert len(runs.image.cluster.brokers) > 1

    assert read_table(output, "problems") == []
    assert_tables_equal_image(output, runs.image, read_table)
    assert_history_has_no_holes(output, read_table)
    assert [row["offset"] for row in read_table(output, "records")] == list(range(runs.end + 1))


@pytest.mark.parametrize("table", [table.name for table in TABLES])
def test_two_runs_over_a_growing_log_give_the_tables_of_one(
    table: str, runs: Runs, read_table: ReadTable
) -> None:
    assert as_text(read_table(runs.in_steps, table)) == as_text(read_table(runs.at_once, table))


def test_the_second_run_read_only_what_was_new(runs: Runs) -> None:
    ended = {name for name in runs.new_files if "-still-" not in name}

    assert ended
    assert all(name.startswith(f"part-{runs.half + 1:012d}") for name in ended)


def test_a_run_goes_on_only_if_nothing_before_has_changed(runs: Runs) -> None:
    layout = read_layout(runs.log / "__cluster_metadata-0")
    former = load_former(Store(str(runs.at_once)), "meta", layout)
    assert former is not None
    assert remaining_splits(layout, former) == ()
    last = runs.log / "__cluster_metadata-0" / former.last.file
    data = last.read_bytes()

    changed = bytearray(data)
    changed[former.last.position + 17] ^= 1  # its CRC
    last.write_bytes(changed)
    try:
        assert load_former(Store(str(runs.at_once)), "meta", layout) is None
    finally:
        last.write_bytes(data)
    assert load_former(Store(str(runs.at_once)), "meta", layout) == former
    grown = replace(layout, size_bytes=layout.size_bytes + 5 * BYTES_PER_BUCKET * former.buckets)
    assert load_former(Store(str(runs.at_once)), "meta", grown) is None
    assert load_former(Store(str(runs.log)), "meta", layout) is None


def test_a_run_that_assumes_something_else_reads_everything(runs: Runs) -> None:
    layout = read_layout(runs.log / "__cluster_metadata-0")

    assert (
        load_former(Store(str(runs.at_once)), "meta", layout, AssumedMinIsr(2, "an option")) is None
    )


def partitions_of(image: MetadataImage) -> Rows:
    return [
        {
            "topic": topic.name,
            "partition": index,
            "leader": state.leader,
            "isr": list(state.isr),
            "directories": [kafka_uuid.to_text(one) for one in state.directories],
        }
        for topic in image.topics.by_id.values()
        for index, state in topic.partitions.items()
    ]


def test_as_of_gives_the_state_of_that_moment(
    runs: Runs, spark: SparkSession, read_table: ReadTable
) -> None:
    text = answer(runs.at_once, runs.half)

    tables = read_tables(str(runs.at_once), "meta")
    by_time = resolve(tables, datetime.fromtimestamp(runs.half_ms / 1000, UTC))
    output = runs.at_once / "as_of"
    expected = partitions_of(runs.half_image)
    found = read_table(output, "partitions")
    assert as_text([{name: row[name] for name in expected[0]} for row in found]) == as_text(
        expected
    )
    brokers = runs.half_image.cluster.brokers
    assert [(row["broker"], row["fenced"]) for row in read_table(output, "brokers")] == [
        (broker, brokers[broker].fenced) for broker in sorted(brokers)
    ]
    topics = read_table(output, "topics")
    assert [(row["topic"], row["partitions"]) for row in topics] == sorted(
        (topic.name, len(topic.partitions)) for topic in runs.half_image.topics.by_id.values()
    )
    assert f"As of        offset {runs.half} (" in text
    assert by_time == resolve(tables, runs.half)


def test_as_of_the_end_is_what_the_tables_of_now_say(
    runs: Runs, spark: SparkSession, read_table: ReadTable
) -> None:
    answer(runs.at_once, runs.end)

    for table in ("brokers", "topics", "partitions"):
        found = read_table(runs.at_once / "as_of", table)
        assert as_text(found) == as_text(read_table(runs.at_once, table))


def test_a_difference_names_what_differs_and_nothing_else(
    runs: Runs, spark: SparkSession, read_table: ReadTable
) -> None:
    same = answer(runs.at_once, runs.half, runs.half)
    assert same.splitlines()[-1] == "Nothing differs."
    assert read_table(runs.at_once, "diff") == []

    text = answer(runs.at_once, runs.half, runs.end)
    rows = read_table(runs.at_once, "diff")
    of = {
        (topic.topic_id, index): state
        for topic in runs.half_image.topics.by_id.values()
        for index, state in topic.partitions.items()
    }
    expected = {
        (topic.name, index, str(of[topic.topic_id, index].leader), str(state.leader))
        for topic in runs.image.topics.by_id.values()
        for index, state in topic.partitions.items()
        if (topic.topic_id, index) in of and of[topic.topic_id, index].leader != state.leader
    }
    assert {
        (row["topic"], row["partition"], row["before"], row["after"])
        for row in rows
        if row["kind"] == "partition" and row["field"] == "leader"
    } == expected
    came = {
        row["topic"]
        for row in rows
        if row["kind"] == "topic" and row["field"] == "exists" and row["before"] is None
    }
    assert came == {
        topic.name
        for topic_id, topic in runs.image.topics.by_id.items()
        if topic_id not in runs.half_image.topics.by_id
    }
    assert f"To           offset {runs.end} (" in text


def test_a_moment_outside_the_log_is_refused(runs: Runs, spark: SparkSession) -> None:
    with pytest.raises(ReplayInputError, match="outside of the log"):
        answer(runs.at_once, runs.end + 1)
    with pytest.raises(ReplayInputError, match="outside of the log"):
        answer(runs.at_once, datetime(2001, 1, 1, tzinfo=UTC))


def test_a_moment_that_is_none_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--results", str(tmp_path), "--as-of", "yesterday"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("jbodlab: 'yesterday' is neither an offset nor a time")
    assert error.count("\n") == 1


def test_a_folder_without_tables_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ReplayInputError, match="holds no tables"):
        answer(tmp_path, 1)
