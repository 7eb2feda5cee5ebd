"""The same store on HDFS, over HTTP: Hadoop's own name node and data node, and a whole replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.engines import LOCAL
from analytics.job.command import replay
from analytics.store.log_files import open_files
from analytics.store.store import Store
from tests.analytics.commits import (
    assert_does_what_a_replay_needs,
    assert_found_by_a_pattern,
    assert_old_or_new,
)
from tests.analytics.hdfs_server import NoHdfsError, hdfs_server
from tests.analytics.shared import FIXTURES

pytestmark = [pytest.mark.process, pytest.mark.soak]


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
    hdfs: str, step: int
) -> None:
    assert assert_old_or_new(f"{hdfs}/killed-{step}", "move", step)


def test_logs_are_found_by_a_pattern_on_hdfs(hdfs: str) -> None:
    folder = assert_found_by_a_pattern(f"{hdfs}/in")

    assert open_files(folder).read("00000000000000000000.log", 1, 3) == b"234"


def test_a_replay_on_hdfs_gives_the_tables_of_a_local_one(hdfs: str, tmp_path: Path) -> None:
    source = FIXTURES / "3.9.2-admin" / "controller"
    put(hdfs, source, "logs/admin")

    first = replay(f"{hdfs}/logs/*", f"{hdfs}/tables", LOCAL)
    local = replay(source, tmp_path / "tables", LOCAL)
    again = replay(f"{hdfs}/logs/*", f"{hdfs}/tables", LOCAL)

    assert first.report == again.report
    assert again.clusters[next(iter(again.clusters))].figures is None
    assert first.report.replace(f"{hdfs}/logs/admin", "LOG") == local.report.replace(
        str(source), "LOG"
    )
    assert {name: len(Store(f"{hdfs}/tables/{name}").files_in()) for name in first.tables} == {
        name: len(Store(path).files_in()) for name, path in local.tables.items()
    }
