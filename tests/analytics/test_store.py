"""Files of a store, and a commit that is interrupted anywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from analytics.engines import LOCAL
from analytics.errors import ReplayInputError
from analytics.job.command import answer, replay
from analytics.job.output import OutputDir
from analytics.read.log_copies import find_copies
from analytics.store.log_files import open_files
from analytics.store.part_files import PartWriters, fill
from analytics.store.patterns import expand
from analytics.store.store import Store, is_inside
from analytics.tables.catalog import PARTITIONS, TOPICS
from tests.analytics.commits import (
    TABLES,
    Killed,
    begin_another,
    content,
    kill_commit,
    killed_at,
    written,
)
from tests.analytics.hdfs_server import hdfs_server
from tests.analytics.s3_server import BUCKET
from tests.analytics.shared import FIXTURES
from tests.kafka.jars import NoKafkaError

S3 = pytest.param("s3", marks=pytest.mark.process)
HDFS = pytest.param("hdfs", marks=[pytest.mark.process, pytest.mark.soak])
METADATA = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of HDFS, over HTTP: Hadoop's own name node and data node."""
    try:
        with hdfs_server(tmp_path_factory.mktemp("hdfs")) as uri:
            yield uri
    except NoKafkaError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["local", "uri", S3, HDFS])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder: of this machine, of it as any other file system is reached, on S3, on HDFS."""
    match request.param:
        case "uri":
            monkeypatch.setattr("analytics.store.store.local_path", lambda source: None)
            return tmp_path.as_uri()
        case "s3":
            for name, value in request.getfixturevalue("s3").variables.items():
                monkeypatch.setenv(name, value)
            return f"s3a://{BUCKET}/{tmp_path.name}"
        case "hdfs":
            return f"{request.getfixturevalue('hdfs')}/{tmp_path.name}"
    return str(tmp_path)


def on(*stores: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("root", stores, indirect=True)


def test_a_store_does_what_a_replay_needs_of_folders(root: str) -> None:
    store = Store(f"{root}/ops")
    assert (store.exists(), store.names(), store.is_folder("a")) == (False, [], False)
    store.make_folder("a/b")
    store.write("a/b/one", b"12345")
    store.write("a/two", b"12345")
    assert (store.read("a/two"), store.read("a/two", 2)) == (b"12345", b"12")
    store.move("a", "c")
    assert (store.names(), store.names("c"), store.names("c/b")) == (["c"], ["b", "two"], ["one"])
    store.remove("c")
    store.remove("c")
    assert not store.exists("c")
    assert store.files_in() == []
    assert store.uri("x").endswith("/ops/x")
    assert "://" in store.uri("x")


# One move commits, two more for each table and for the state; S3 copies in place of it.
@pytest.mark.parametrize(
    ("root", "method", "step"),
    [
        *(("local", "move", step) for step in range(1, 11)),
        *(pytest.param("s3", "_copy", step, marks=S3.marks) for step in (1, 2, 4)),
        *(pytest.param("hdfs", "move", step, marks=HDFS.marks) for step in (1, 2, 4)),
    ],
    indirect=["root"],
)
def test_a_run_that_is_killed_leaves_the_old_tables_or_the_new_ones(
    root: str, method: str, step: int
) -> None:
    folder = f"{root}/out"
    written(folder, "old").put_in_place(["one"])

    do = killed_at(step, getattr(Store, method))
    was_killed = kill_commit(written(folder, "new"), method, do)
    begin_another(folder)

    assert content(folder) == {b"new" if step > 1 else b"old"}
    assert was_killed == (step <= 9)


@on(S3)
@pytest.mark.parametrize("step", range(1, 5))
def test_a_run_that_is_killed_while_s3_removes_leaves_whole_tables(root: str, step: int) -> None:
    written(root, "old").put_in_place(["one"])
    output = written(root, "new")
    parts = [f"{table.folder('one')}/part-2.parquet" for table in TABLES]
    for part in parts:
        output.scratch_store.write(part, b"2")
    calls = count(1)
    remove = Store.remove

    def half(store: Store, name: str) -> None:
        """Remove one file of those that there are."""
        if next(calls) < step:
            remove(store, name)
            return
        for one in store.files_in(name)[:1]:
            remove(store, one.name)
        raise Killed

    assert kill_commit(output, "remove", half)
    begin_another(root)

    assert content(root) == {b"new", b"2"}
    assert all(Store(root).exists(part) for part in parts)


@on("local", S3)
def test_one_run_at_a_time_writes_into_a_folder(root: str) -> None:
    first, second = (OutputDir(f"{root}/out", [TOPICS]) for _ in range(2))
    first.prepare(())
    with pytest.raises(ReplayInputError, match=r"is in use by another replay \(process "):
        second.prepare(())
    first.put_in_place(["one"])
    second.prepare(())
    second.clean_up()
    names = Store(f"{root}/out").names()
    assert not [name for name in names if name.startswith(".jbod-replay-")]


@on("local", S3, HDFS)
def test_logs_of_clusters_are_found_by_a_pattern_and_read(root: str) -> None:
    for name in ("eu", "us"):
        store = Store(f"{root}/{name}/kraft")
        store.make_folder(METADATA)
        store.write(f"{METADATA}/00000000000000000000.log", b"12345")
        store.write("meta.properties", f"cluster.id=id-{name}\n".encode())

    found = expand(f"{root}/*/kraft")

    assert found == tuple(f"{root}/{name}/kraft" for name in ("eu", "us"))
    copies = [copy for place in found for copy in find_copies(place)]
    assert [(copy.cluster_id, copy.size_bytes) for copy in copies] == [("id-eu", 5), ("id-us", 5)]
    assert copies[0].folder == f"{root}/eu/kraft/{METADATA}"
    assert open_files(copies[0].folder).read("00000000000000000000.log", 1, 3) == b"234"


@on(HDFS)
def test_a_file_on_hdfs_says_when_it_was_written(root: str) -> None:
    store = Store(root)
    store.write("one", b"1")
    store.write("two", b"2")

    (one, two) = store.files_in()

    assert 10**18 < one.changed_ns <= two.changed_ns
    assert store.file("one") == one


@on(HDFS)
def test_what_hdfs_does_not_rename_is_an_error(root: str) -> None:
    store = Store(root)
    store.write("one", b"1")

    with pytest.raises(OSError, match="none"):
        store.move("none", "two")


@on(HDFS)
def test_a_replay_on_hdfs_gives_the_tables_of_a_local_one(root: str, tmp_path: Path) -> None:
    source = FIXTURES / "3.9.2-admin" / "controller"
    logs = Store(f"{root}/logs/admin")
    for path in filter(Path.is_file, sorted(source.rglob("*"))):
        name = path.relative_to(source)
        logs.make_folder(str(name.parent))
        logs.write(str(name), path.read_bytes())

    first = replay(f"{root}/logs/*", f"{root}/tables", LOCAL)
    local = replay(source, tmp_path / "tables", LOCAL)
    again = replay(f"{root}/logs/*", f"{root}/tables", LOCAL)

    assert first.report == again.report
    assert not again.clusters[next(iter(again.clusters))].is_new
    assert first.report.replace(f"{root}/logs/admin", "LOG") == local.report.replace(
        str(source), "LOG"
    )
    assert {name: len(Store(f"{root}/tables/{name}").files_in()) for name in first.tables} == {
        name: len(Store(path).files_in()) for name, path in local.tables.items()
    }


@on("local", "uri")
def test_what_is_written_has_a_name_of_its_own(root: str) -> None:
    store = Store(root)
    rows = pa.Table.from_pylist([{"topic": "orders", "partition": 0}], PARTITIONS.schema)
    with PartWriters(store, "one", "00003") as writers:
        writers.write(PARTITIONS, rows)
    fill(store, TOPICS, ["one"])

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


@pytest.mark.parametrize(
    "uri",
    ["nowhere://x", "webhdfs://127.0.0.1:1/x", "webhdfs:///x", "webhdfs://host:none/x"],
    ids=["no file system", "nobody there", "no name node", "no port"],
)
def test_a_uri_that_nobody_answers_is_one_line(uri: str) -> None:
    with pytest.raises(ReplayInputError, match=r"output \w+:.* is not writable") as refused:
        OutputDir(uri, TABLES).prepare(())
    assert "\n" not in str(refused.value)


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
