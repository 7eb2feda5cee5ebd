"""The same store on HDFS, over HTTP: Hadoop's own name node and data node, and a whole replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.engines import LOCAL
from analytics.job.command import replay
from analytics.job.output import MANIFEST, OutputDir
from analytics.read.log_copies import find_copies
from analytics.store.log_files import open_files
from analytics.store.patterns import expand
from analytics.store.store import Store
from tests.analytics.hdfs_server import NoHdfsError, hdfs_server
from tests.analytics.shared import FIXTURES
from tests.analytics.test_store import (
    TABLES,
    Killed,
    assert_does_what_a_replay_needs,
    ended,
    killed_at,
    written,
)

pytestmark = [pytest.mark.process, pytest.mark.soak]

METADATA = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with hdfs_server(tmp_path_factory.mktemp("hdfs")) as root:
            yield root
    except NoHdfsError as error:
        pytest.skip(str(error))


def put(root: str, source: Path, target: str) -> Store:
    """Copy a folder of this machine into HDFS."""
    store = Store(f"{root}/{target}")
    for path in sorted(source.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(source))
            store.make_folder(str(Path(name).parent))
            store.write(name, path.read_bytes())
    return store


def test_a_store_on_hdfs_does_what_a_replay_needs_of_folders(hdfs: str) -> None:
    assert_does_what_a_replay_needs(Store(f"{hdfs}/ops"))


def test_a_file_on_hdfs_says_when_it_was_written(hdfs: str) -> None:
    store = Store(f"{hdfs}/times")
    store.write("one", b"1")
    store.write("two", b"2")

    (one, two) = store.files_in()

    assert one.changed_ns > 10**18
    assert one.changed_ns <= two.changed_ns
    assert store.file("one") == one


def test_what_hdfs_does_not_rename_is_an_error(hdfs: str) -> None:
    store = Store(f"{hdfs}/renames")
    store.write("one", b"1")

    with pytest.raises(OSError, match="none"):
        store.move("none", "two")


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_run_that_is_killed_on_hdfs_leaves_the_old_tables_or_the_new_ones(
    hdfs: str, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    folder = f"{hdfs}/killed-{step}"
    written(folder, "old").put_in_place(["one"])
    output = written(folder, "new")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "move", killed_at(step))
        with pytest.raises(Killed):
            output.put_in_place(["one"])
    ended(output)

    again = OutputDir(folder, TABLES)
    again.prepare(())
    again.clean_up()

    store = Store(folder)
    found = {store.read(one.name) for table in TABLES for one in store.files_in(table.name)}
    assert found == {b"new" if step > 1 else b"old"}
    assert not store.exists(MANIFEST)


def test_logs_are_found_by_a_pattern_on_hdfs(hdfs: str) -> None:
    for name in ("eu", "us"):
        store = Store(f"{hdfs}/in/{name}/kraft")
        store.make_folder(METADATA)
        store.write(f"{METADATA}/00000000000000000000.log", b"12345")
        store.write("meta.properties", f"cluster.id=id-{name}\n".encode())

    found = expand(f"{hdfs}/in/*/kraft")

    assert found == tuple(f"{hdfs}/in/{name}/kraft" for name in ("eu", "us"))
    copies = [copy for place in found for copy in find_copies(place)]
    assert [(copy.cluster_id, copy.size_bytes) for copy in copies] == [("id-eu", 5), ("id-us", 5)]
    assert open_files(copies[0].folder).read("00000000000000000000.log", 1, 3) == b"234"


def test_a_replay_on_hdfs_gives_the_tables_of_a_local_one(hdfs: str, tmp_path: Path) -> None:
    source = FIXTURES / "3.9.2-admin" / "controller"
    put(hdfs, source, "logs/admin")

    first = replay(f"{hdfs}/logs/*", f"{hdfs}/tables", LOCAL)
    local = replay(source, tmp_path / "tables", LOCAL)
    again = replay(f"{hdfs}/logs/*", f"{hdfs}/tables", LOCAL)

    assert first.report == again.report
    assert not again.clusters[next(iter(again.clusters))].is_new
    assert first.report.replace(f"{hdfs}/logs/admin", "LOG") == local.report.replace(
        str(source), "LOG"
    )
    assert {name: len(Store(f"{hdfs}/tables/{name}").files_in()) for name in first.tables} == {
        name: len(Store(path).files_in()) for name, path in local.tables.items()
    }
