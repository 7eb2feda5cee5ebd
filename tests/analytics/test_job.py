from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyarrow.dataset import dataset

from analytics.engines import LOCAL
from analytics.errors import ReplayInputError
from analytics.job.clusters import ReplayResult
from analytics.job.command import answer, replay
from analytics.page.report_page import FILE_NAME
from analytics.store.lock import LOCK
from analytics.tables.catalog import TABLES
from analytics.tables.table import STRING
from jbodlab.metadata.records.config_records import BeginTransactionRecord, NoOpRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from lab.machine.processes import in_session
from lab.machine.waiting import wait_for
from tests.analytics.builders import (
    LogBuilder,
    log_of_one_record,
    partition_record,
    register,
    uid,
)
from tests.analytics.commands import ROOT
from tests.analytics.commands import replay_command as main
from tests.analytics.image_tables import assert_tables_equal_image
from tests.analytics.random_records import RandomHistory
from tests.analytics.shared import FIXTURES, Replayed, contents, read_table
from tests.analytics.small_logs import picked

Rows = list[dict[str, object]]

pytestmark = pytest.mark.process
DEADLINE_S = 60


def test_a_log_that_begins_at_a_snapshot_gives_the_same_end_state(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "meta", segment_bytes=2048)
    history = RandomHistory(log, seed=3)
    base = history.run(100)
    log.snapshot()
    start = log.log.end_offset
    image = history.run(60)
    log.log.delete_segments_below(start)
    log.append(BeginTransactionRecord(), TopicRecord(name="never", topic_id=uid(99)))
    log.close()
    assert log.log.start_offset > 0

    replay(tmp_path / "meta", tmp_path / "out", LOCAL)

    assert read_table(tmp_path / "out", "problems") == []
    assert_tables_equal_image(tmp_path / "out", image)
    first = read_table(tmp_path / "out", "partition_history")
    assert {row["valid_from_offset"] for row in first if row["record_type"] == "SNAPSHOT"} == {
        start
    }
    assert read_table(tmp_path / "out", "snapshot_records") != []
    (row,) = read_table(tmp_path / "out", "logs")
    assert (row["replay_from"], row["end_offset"]) == (start, log.log.end_offset)
    with pytest.raises(ReplayInputError, match="is outside of the log, "):
        answer(tmp_path / "out", start - 2)
    answer(tmp_path / "out", start - 1)
    brokers = read_table(tmp_path / "out" / "as_of", "brokers")
    assert [row["broker"] for row in brokers] == sorted(base.cluster.brokers)


@pytest.mark.parametrize("kept", ["nothing", "beginning"])
def test_snapshots_behind_the_end_of_the_log_are_one_gap_and_disagree_with_nothing(
    tmp_path: Path, kept: str
) -> None:
    log = LogBuilder(tmp_path / "meta", segment_bytes=2048)
    history = RandomHistory(log, seed=3)
    history.run(60)
    first = log.snapshot()
    history.run(40)
    log.snapshot()
    image = history.run(40)
    log.snapshot()
    log.close()
    for number, path in enumerate(sorted(first.parent.glob("*.log"))):
        if kept == "nothing" or number:
            path.unlink()

    replay(tmp_path / "meta", tmp_path / "out", LOCAL)

    problems = read_table(tmp_path / "out", "problems")
    assert [row["kind"] for row in problems] == ["gap"], problems
    assert_tables_equal_image(tmp_path / "out", image)


@pytest.fixture(params=["disks", "admin"])
def kafka(request: pytest.FixtureRequest) -> Replayed:
    """Each of the two logs, from the controller's directory."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Replayed)
    return found


def test_a_log_of_apache_kafka_replays_to_what_its_own_tools_print(kafka: Replayed) -> None:
    assert read_table(kafka.output, "problems") == []
    printed = (kafka.folder / "topics.txt").read_text()
    line = re.compile(
        r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S+)\tIsr: (\S+)\t"
    )
    expected = sorted(
        (topic, int(partition), int(leader), replicas, sorted(isr.split(",")))
        for topic, partition, leader, replicas, isr in line.findall(printed)
    )
    columns = ("topic", "partition", "leader", "replicas", "isr")
    assert [
        (*place, ",".join(map(str, replicas)), sorted(map(str, isr)))  # type: ignore[call-overload]
        for *place, replicas, isr in picked(read_table(kafka.output, "partitions"), *columns)
    ] == expected
    topic = re.compile(r"^Topic: (\S+)\tTopicId: (\S+)\tPartitionCount: (\d+)\tRepl\S+ (\d+)", re.M)
    columns = ("topic", "topic_id", "partitions", "replication_factor")
    assert picked(read_table(kafka.output, "topics"), *columns) == sorted(
        (name, topic_id, int(count), int(factor))
        for name, topic_id, count, factor in topic.findall(printed)
    )


def test_replicas_are_in_the_directories_where_kafka_found_them(kafka: Replayed) -> None:
    paths = {
        row["directory"]: (row["broker"], row["path"])
        for row in json.loads((kafka.folder / "directories.json").read_text())
    }
    found = json.loads((kafka.folder / "logdirs.json").read_text())["brokers"]
    expected = {
        ((broker["broker"], log_dir["logDir"]), replica["partition"])
        for broker in found
        for log_dir in broker["logDirs"]
        for replica in log_dir["partitions"]
    }

    replayed = {
        (paths[directory], f"{row['topic']}-{row['partition']}")
        for row in read_table(kafka.output, "partitions")
        for directory in row["directories"]  # type: ignore[attr-defined]
    }

    assert read_table(kafka.output, "problems") == []
    offline = {
        paths[row["directory"]]  # type: ignore[index]
        for row in read_table(kafka.output, "log_dirs")
        if row["state"] == "offline" and row["valid_to_offset"] is None
    }
    assert {entry for entry in replayed if entry[0] not in offline} == expected


def test_the_outage_of_a_killed_broker_is_put_down_to_it(disks: Replayed) -> None:
    outages = read_table(disks.output, "outages")

    leaderless = [row for row in outages if row["kind"] == "leaderless"]
    columns = ("topic", "partition", "from_offset", "to_offset")
    assert picked(leaderless, *columns) == [("clicks", 5, 256, 280)]
    assert set(picked(outages, "cause", "broker", "directory")) == {("broker", 3, None)}


class Twice(NamedTuple):
    """A log of one record, replayed; and again into the same folder, with more and with damage."""

    output: Path
    first: ReplayResult
    first_schemas: dict[str, pa.Schema]
    first_records: Rows
    second: ReplayResult
    time_ms: int


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    root = tmp_path_factory.mktemp("twice")
    log = LogBuilder(root / "meta")
    log.append(NoOpRecord())
    time_ms = log.now_ms
    output = root / "out"
    (output / "mine").mkdir(parents=True)
    (output / "notes.txt").write_text("keep")
    (output / ".jbod-replay-999999999").mkdir()
    first = replay(root / "meta", output, LOCAL)
    schemas = {
        name: dataset(path, partitioning="hive").schema for name, path in first.tables.items()
    }
    records = read_table(output, "records")
    log.append(register(1, [uid(1)]))
    damaged_at = len(log.log.read(0))
    log.append(TopicRecord(name="lost", topic_id=uid(2)))
    log.append(partition_record(uid(2)))
    log.append(TopicRecord(name="kept", topic_id=uid(3)), partition_record(uid(3)))
    log.close()
    (path,) = log.segments
    data = bytearray(path.read_bytes())
    data[damaged_at + 70] ^= 1
    path.write_bytes(data + b"\x00\x01torn")
    return Twice(output, first, schemas, records, replay(root / "meta", output, LOCAL), time_ms)


def test_a_second_run_replaces_tables_and_what_a_killed_one_left_and_nothing_else(
    twice: Twice,
) -> None:
    output = twice.output

    for result in (twice.first, twice.second):
        assert list(result.tables) == [table.name for table in TABLES]
    assert sorted(path.name for path in output.iterdir()) == sorted(
        [LOCK, "mine", "notes.txt", "_state", FILE_NAME, *(table.name for table in TABLES)]
    )
    assert len(read_table(output, "records")) > len(twice.first_records) == 1
    assert "1 active, log directories 1 online and 0 offline" in twice.second.report


def test_a_damaged_log_gives_problems_and_what_can_be_read(twice: Twice) -> None:
    found = picked(read_table(twice.output, "problems"), "kind", "offset")

    assert sorted(found, key=str) == [("crc", 2), ("replay", 3), ("torn_tail", 6)]
    assert [row["offset"] for row in read_table(twice.output, "records")] == [0, 1, 3, 4, 5]
    assert [row["topic"] for row in read_table(twice.output, "partitions")] == ["kept"]


def test_every_table_exists_with_its_columns_also_when_empty(twice: Twice) -> None:
    for table in TABLES:
        schema = twice.first_schemas[table.name]
        assert schema.remove_metadata().equals(table.schema.append(pa.field("cluster", STRING)))
    assert "Problems     none" in twice.first.report
    (row,) = twice.first_records
    assert row["timestamp"] == datetime.fromtimestamp(twice.time_ms / 1000, UTC)


@pytest.mark.parametrize(
    ("given", "results", "said"),
    [
        ("ROOT/missing", "ROOT/new", "jbodlab: input ROOT/missing does not exist"),
        ("nowhere://host:9/log", "ROOT/new", "input nowhere://host:9/log cannot be read: "),
        ("ROOT/meta", "ROOT/file", "jbodlab: output ROOT/file is not writable"),
        ("ROOT/meta", "ROOT/file/below", "jbodlab: output ROOT/file/below is not writable"),
        ("ROOT/meta", "ROOT/out", "records/precious.txt does not belong to a table"),
        ("ROOT/meta", "ROOT/meta/__cluster_metadata-0/out", "lies inside the metadata log"),
    ],
    ids=["no input", "no file system", "a file", "below a file", "no table", "in the log"],
)
def test_bad_input_or_output_is_one_line_and_exit_code_1_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, results: str, said: str
) -> None:
    log_of_one_record(tmp_path / "meta")
    (tmp_path / "file").write_text("")
    precious = tmp_path / "out" / "records" / "precious.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("keep")
    before = contents(tmp_path)
    given, results, said = (text.replace("ROOT", str(tmp_path)) for text in (given, results, said))

    assert main(["--input", given, "--results", results]) == 1

    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("jbodlab: ")
    assert error.count("\n") == 1
    after = contents(tmp_path)
    assert all(after[path] == before[path] for path in before if path.is_file())
    assert not (tmp_path / "new").exists()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("user_id", "java_home", "said"),
    [
        (os.getuid(), "/nowhere", "jbodlab: JAVA_HOME /nowhere holds no bin/java"),
        (2_000_000_011, None, "user id 2000000011 has no name"),
    ],
    ids=["no Java", "a user without a name"],
)
def test_where_spark_cannot_start_there_is_one_line_and_exit_code_1(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    user_id: int,
    java_home: str | None,
    said: str,
) -> None:
    log_of_one_record(tmp_path / "meta")
    monkeypatch.setattr(os, "getuid", lambda: user_id)
    if java_home is not None:
        monkeypatch.setenv("JAVA_HOME", java_home)

    assert main(["--input", str(tmp_path / "meta"), "--results", str(tmp_path / "out")]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_the_command_runs_from_any_directory(disks: Replayed) -> None:
    """That it ran with neither the sources nor Spark in its environment, the fixture has seen."""
    assert disks.printed.startswith("Log          362 records, offsets 0 to 361, 154 no-ops")
    assert str(disks.output / "outages") in disks.printed
    assert sorted(path.name for path in disks.output.parent.iterdir()) == ["out"]


@pytest.mark.spark
def test_ctrl_c_leaves_no_process_even_while_the_jvm_starts(tmp_path: Path) -> None:
    source = str(FIXTURES / "4.3.1-disks" / "controller")
    with (tmp_path / "output").open("w") as output:
        child = subprocess.Popen(
            [
                *(sys.executable, "-m", "analytics.job"),
                *("--input", source, "--results", tmp_path / "out"),
            ],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            wait_for("a JVM", lambda: "java" in programs_of_session(child.pid), DEADLINE_S)
            os.killpg(child.pid, signal.SIGINT)
            assert child.wait(DEADLINE_S) == 130
            wait_for("their end", lambda: not programs_of_session(child.pid), DEADLINE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def programs_of_session(session: int) -> list[str]:
    """Return the programs that run in a session, by the name of their file."""
    found = []
    for process in in_session(session):
        with suppress(OSError):
            found.append(Path(f"/proc/{process.pid}/exe").readlink().name)
    return found


@pytest.mark.parametrize(
    "arguments", [["--input", "x"], ["--input"], ["--inpu", "x", "--results", "y"]]
)
def test_wrong_arguments_end_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("jbodlab replay: ")
