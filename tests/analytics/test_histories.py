"""A random history against the image of its records, and questions to its tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.ask.as_of import read_tables, resolve
from analytics.engines import LOCAL
from analytics.errors import ReplayInputError
from analytics.job.command import answer, replay
from bench.compare_tables import compare
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.vocabulary.ids import TopicId
from tests.analytics.builders import LogBuilder, partition_record, uid
from tests.analytics.commands import replay_command as main
from tests.analytics.image_tables import (
    assert_history_has_no_holes,
    assert_tables_equal_image,
    partitions_of,
    told,
)
from tests.analytics.random_records import RandomHistory
from tests.analytics.shared import read_table
from tests.analytics.small_logs import picked

WIDE_IN = (uid(10), uid(20), uid(30))

Rows = list[dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """One log, replayed in memory and through files."""

    in_memory: Path
    by_files: Path
    half: int
    """Last offset of its first half."""
    half_ms: int
    half_image: MetadataImage
    end: int
    image: MetadataImage


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    root = tmp_path_factory.mktemp("runs")
    log = LogBuilder(root / "meta", segment_bytes=8192)
    history = RandomHistory(log, seed=11)
    wide = [partition_record(uid(77), index, directories=WIDE_IN) for index in range(200)]
    log.append(TopicRecord(name="wide", topic_id=TopicId(uid(77))), *wide)
    half_image = history.run(120, snapshot_every=50)
    half, half_ms = log.log.end_offset - 1, log.now_ms
    image = history.run(120, snapshot_every=50)
    log.close()
    replay(root / "meta", root / "in_memory", LOCAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analytics.job.local_tables.IN_MEMORY_BYTES", 0)
        patch.setattr("analytics.engines.duck.ROWS_AT_ONCE", 100)
        replay(root / "meta", root / "by_files", LOCAL)
    return Runs(
        in_memory=root / "in_memory",
        by_files=root / "by_files",
        half=half,
        half_ms=half_ms,
        half_image=half_image,
        end=log.log.end_offset - 1,
        image=image,
    )


@pytest.mark.parametrize("run", ["in_memory", "by_files"])
def test_replayed_end_state_equals_the_image_after_a_random_history(run: str, runs: Runs) -> None:
    output = getattr(runs, run)
    assert len(runs.image.topics.by_id) > 1
    assert len(runs.image.cluster.brokers) > 1

    assert read_table(output, "problems") == []
    assert_tables_equal_image(output, runs.image)
    assert_history_has_no_holes(output)
    assert [row["offset"] for row in read_table(output, "records")] == list(range(runs.end + 1))


def test_files_give_the_tables_of_memory(runs: Runs) -> None:
    assert compare(runs.in_memory, runs.by_files) == []


def test_as_of_gives_the_state_of_that_moment(runs: Runs) -> None:
    text = answer(runs.by_files, runs.half)

    tables = read_tables(str(runs.by_files), "meta")
    by_time = resolve(tables, datetime.fromtimestamp(runs.half_ms / 1000, UTC))
    output = runs.by_files / "as_of"
    expected = partitions_of(runs.half_image)
    assert told(read_table(output, "partitions"), expected) == told(expected, expected)
    brokers = runs.half_image.cluster.brokers
    assert picked(read_table(output, "brokers"), "broker", "fenced") == [
        (broker, brokers[broker].fenced) for broker in sorted(brokers)
    ]
    assert picked(read_table(output, "topics"), "topic", "partitions") == sorted(
        (topic.name, len(topic.partitions)) for topic in runs.half_image.topics.by_id.values()
    )
    assert f"As of        offset {runs.half} (" in text
    assert by_time == resolve(tables, runs.half)


def test_as_of_the_end_is_what_the_tables_of_now_say(runs: Runs) -> None:
    answer(runs.by_files, runs.end)

    for table in ("brokers", "topics", "partitions"):
        then, now = (
            read_table(folder, table) for folder in (runs.by_files / "as_of", runs.by_files)
        )
        assert told(then, now) == told(now, now)


def leaders_of(image: MetadataImage) -> dict[tuple[TopicId, str, int], str]:
    return {
        (topic.topic_id, topic.name, index): str(state.leader)
        for topic in image.topics.by_id.values()
        for index, state in topic.partitions.items()
    }


def test_a_difference_names_what_differs_and_nothing_else(runs: Runs) -> None:
    same = answer(runs.by_files, runs.half, runs.half)
    assert same.splitlines()[-1] == "Nothing differs."
    assert read_table(runs.by_files, "diff") == []

    text = answer(runs.by_files, runs.half, runs.end)
    rows = read_table(runs.by_files, "diff")
    before, after = (leaders_of(image) for image in (runs.half_image, runs.image))
    leaders = [row for row in rows if (row["kind"], row["field"]) == ("partition", "leader")]
    assert sorted(picked(leaders, "topic", "partition", "before", "after")) == sorted(
        (name, index, before[topic_id, name, index], after[topic_id, name, index])
        for topic_id, name, index in before.keys() & after.keys()
        if before[topic_id, name, index] != after[topic_id, name, index]
    )
    exist = [row for row in rows if (row["kind"], row["field"]) == ("topic", "exists")]
    old, new = (image.topics.by_id for image in (runs.half_image, runs.image))
    assert {row["topic"] for row in exist if row["before"] is None} == {
        new[topic_id].name for topic_id in new.keys() - old.keys()
    }
    assert f"To           offset {runs.end} (" in text


def test_a_moment_outside_the_log_is_refused(runs: Runs) -> None:
    for moment in (runs.end + 1, datetime(2001, 1, 1, tzinfo=UTC)):
        with pytest.raises(ReplayInputError, match="outside of the log"):
            answer(runs.by_files, moment)


def test_a_moment_that_is_none_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--results", str(tmp_path), "--as-of", "yesterday"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("jbodlab: 'yesterday' is neither an offset nor a time")
    assert error.count("\n") == 1


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayInputError, match="holds no tables"):
        answer(tmp_path, 1)
