"""Files of a store, and a commit that is interrupted anywhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from analytics.errors import ReplayInputError
from analytics.job.command import answer
from analytics.job.output import OutputDir
from analytics.store.part_files import PartWriters, empty_file
from analytics.store.store import Store, is_inside
from analytics.tables.catalog import PARTITIONS, TOPICS
from tests.analytics.commits import (
    TABLES,
    assert_does_what_a_replay_needs,
    assert_old_or_new,
    content,
    kill_commit,
    killed_at,
    written,
)


@pytest.fixture(params=["local", "uri"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A folder of this machine, by its path, and as any other file system is reached."""
    if request.param == "local":
        return Store(str(tmp_path / "out"))
    monkeypatch.setattr("analytics.store.store.local_path", lambda source: None)
    return Store((tmp_path / "out").as_uri())


def test_a_store_does_what_a_replay_needs_of_folders(store: Store) -> None:
    assert_does_what_a_replay_needs(store)
    assert store.uri("x").startswith("file:///")
    assert store.uri("x").endswith("/out/x")


def test_what_is_written_has_a_name_of_its_own(store: Store) -> None:
    rows = pa.Table.from_pylist([{"topic": "orders", "partition": 0}], PARTITIONS.schema)
    with PartWriters(store, "one", "00003") as writers:
        writers.write(PARTITIONS, rows)
    empty_file(store, TOPICS, "one")

    (written,) = store.names("partitions/cluster=one")
    assert written.startswith("part-00003-")
    assert len(store.names("topics/cluster=one")) == 1


def test_an_output_inside_of_the_log_is_told_by_path_and_by_uri(tmp_path: Path) -> None:
    log = tmp_path / "log"

    assert is_inside(str(log / "out"), str(log))
    assert is_inside((log / "out").as_uri(), str(log))
    assert is_inside("s3a://bucket/log/out", "s3a://bucket/log/")
    assert not is_inside("s3a://bucket/logs", "s3a://bucket/log")
    assert not is_inside(str(tmp_path / "logs"), str(log))


def test_a_uri_of_no_file_system_is_one_line() -> None:
    with pytest.raises(ReplayInputError, match="output nowhere://x is not writable") as refused:
        OutputDir("nowhere://x", TABLES)
    assert "\n" not in str(refused.value)


def test_a_name_node_that_is_not_there_is_one_line() -> None:
    with pytest.raises(ReplayInputError, match=r"output webhdfs://.* is not writable") as refused:
        OutputDir("webhdfs://127.0.0.1:1/x", TABLES).prepare(())
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("uri", ["webhdfs:///x", "webhdfs://host:none/x"])
def test_a_uri_without_name_node_is_one_line(uri: str) -> None:
    with pytest.raises(ReplayInputError, match=r"output webhdfs:.* is not writable") as refused:
        OutputDir(uri, TABLES)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("step", range(1, 11))
def test_a_run_that_is_killed_leaves_the_old_tables_or_the_new_ones(
    tmp_path: Path, step: int
) -> None:
    # One move commits, two more for each table and for the state.
    assert assert_old_or_new(tmp_path / "out", "move", step) == (step <= 9)


def test_tables_of_two_runs_are_not_asked(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    written(folder, "old").put_in_place(["one"])
    assert kill_commit(written(folder, "new"), "move", killed_at(4, Store.move))

    with pytest.raises(ReplayInputError, match="tables of two runs"):
        answer(folder, 0)


@pytest.mark.parametrize("name", ["topics/_delta_log/0.json", "topics/metadata/v1.json"])
def test_files_of_another_program_beside_a_table_are_refused_and_stay(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "out"
    written(folder, "old").put_in_place(["one"])
    foreign = folder / name
    foreign.parent.mkdir()
    foreign.write_text("{}")
    (folder / "_iceberg").mkdir()

    with pytest.raises(ReplayInputError, match=f"{name} does not belong to .* another output"):
        OutputDir(str(folder), TABLES).prepare(())

    assert foreign.read_text() == "{}"
    foreign.unlink()
    written(folder, "new").put_in_place(["one"])
    assert (folder / "_iceberg").is_dir()


def test_a_second_run_into_one_output_is_refused_while_the_first_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    written(folder, "old").put_in_place(["one"])
    first = written(folder, "new")
    refused: list[str] = []
    move = Store.move

    def amid(store: Store, name: str, target: str) -> None:
        """Let a second run begin after each move of the first one."""
        move(store, name, target)
        with pytest.raises(ReplayInputError) as error:
            OutputDir(str(folder), TABLES).prepare(())
        refused.append(str(error.value))

    with monkeypatch.context() as patch:
        patch.setattr(Store, "move", amid)
        first.put_in_place(["one"])

    assert len(refused) == 9
    holder = f"process {os.getpid()} of "
    assert all(f"{folder} is in use by another replay ({holder}" in text for text in refused)
    assert content(folder) == {b"new"}
    written(folder, "third").put_in_place(["one"])
    assert content(folder) == {b"third"}


def test_two_runs_of_one_process_have_scratch_folders_of_their_own(tmp_path: Path) -> None:
    one, other = (OutputDir(str(tmp_path), TABLES) for _ in range(2))

    assert one.scratch != other.scratch


def test_of_clusters_that_are_no_input_any_more_nothing_stays(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    written(folder, "old").put_in_place(["one"])
    (folder / "topics" / "part-0.parquet").write_text("of a release without clusters")
    shutil.copytree(folder / "topics" / "cluster=one", folder / "topics" / "cluster=two")

    written(folder, "new").put_in_place(["one"])

    assert [path.name for path in (folder / "topics").iterdir()] == ["cluster=one"]
