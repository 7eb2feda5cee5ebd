from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.disk.directory.lifecycle import LogDirState
from broker.disk.life import clean_shutdown
from broker.disk.life.startup import OpenedLogDirs, open_log_dirs
from broker.disk.upkeep.probe import probe
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.directory_id import LOST
from jbodlab.vocabulary.errors import ConfigError, FormatError, LogDirError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId
from tests.broker.disks import FaultPlan, directory_id, fails
from tests.waiting import run_adjustable

CLUSTER = "41QSStLtR3qOekbX4ZlbHA"
FS = PosixFileSystem()
REPOSITORY = Path(__file__).parents[3]


def format_dir(
    path: Path, number: int | DirectoryId | None, *, node_id: int = 8, cluster: str = CLUSTER
) -> Path:
    path.mkdir()
    meta = MetaProperties(
        cluster_id=cluster,
        node_id=node_id,
        directory_id=directory_id(number) if isinstance(number, int) else number,
    )
    meta_properties.write(FS, path, meta)
    return path


def format_all(tmp_path: Path, count: int = 3, *, node_id: int = 8) -> list[Path]:
    format_dir(tmp_path / "metadata", 99, node_id=node_id)
    return [format_dir(tmp_path / f"d{n}", n, node_id=node_id) for n in range(1, count + 1)]


def open_all(
    tmp_path: Path, paths: list[Path], metadata: Path | None = None, **options: Any
) -> OpenedLogDirs:
    return run_adjustable(opening(paths, metadata or tmp_path / "metadata", **options))


def disk_of(path: Path, disk: FileSystem) -> Environment:
    """The machine whose directory at this path is on this disk."""
    return replace(system_environment(), fs_of=lambda each: disk if each == path else FS)


async def opening(
    paths: list[Path], metadata: Path, *, node_id: int = 8, **options: Any
) -> OpenedLogDirs:
    return await open_log_dirs(
        node_id=BrokerId(node_id),
        log_dirs=paths,
        metadata_log_dir=metadata,
        on_fatal=lambda _reason: None,
        **options,
    )


async def test_formatted_directories_open_with_their_ids(tmp_path: Path) -> None:
    opened = await opening(format_all(tmp_path), tmp_path / "metadata")

    assert opened.cluster_id == CLUSTER
    assert opened.log_dirs.online_ids() == tuple(directory_id(n) for n in (1, 2, 3))
    assert {each.state for each in opened.log_dirs.all} == {LogDirState.INITIAL}
    assert opened.log_dirs.metadata_dir.path == tmp_path / "metadata"
    assert (tmp_path / "d2" / ".lock").exists()
    await opened.release_locks(5)
    assert not (tmp_path / "d2" / ".lock").exists()
    assert not (tmp_path / "metadata" / ".lock").exists()


def test_the_metadata_directory_may_be_one_of_the_log_dirs(tmp_path: Path) -> None:
    paths = format_all(tmp_path)
    opened = open_all(tmp_path, paths, paths[0])
    assert opened.log_dirs.metadata_dir is opened.log_dirs.all[0]
    assert len(opened.log_dirs.watched) == 3


def snapshot(path: Path) -> list[tuple[str, bytes]]:
    return [(each.name, each.read_bytes()) for each in sorted(path.iterdir())]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_disk_that_is_not_mounted_starts_offline_and_nothing_is_made_there(
    tmp_path: Path, is_there: bool
) -> None:
    paths = format_all(tmp_path)
    shutil.rmtree(paths[1])
    if is_there:
        paths[1].mkdir()

    opened = open_all(tmp_path, paths)

    assert [each.is_online for each in opened.log_dirs.all] == [True, False, True]
    cause = opened.log_dirs.all[1].cause
    assert cause is not None
    assert "No `meta.properties` found" in cause
    assert "mounted" in cause
    assert paths[1].exists() is is_there
    assert not is_there or snapshot(paths[1]) == []


def test_a_directory_with_a_torn_or_zeroed_meta_properties_starts_offline(tmp_path: Path) -> None:
    paths = format_all(tmp_path)
    file = paths[1] / "meta.properties"
    whole = file.read_bytes()
    torn = [whole[:size] for size in range(len(whole) - 1)]
    zeroed = [bytes(len(whole)), whole[:40] + bytes(len(whole) - 40), bytes(4096)]
    for content in (*torn, *zeroed):
        file.write_bytes(content)

        opened = open_all(tmp_path, paths)

        assert [each.is_online for each in opened.log_dirs.all] == [True, False, True], content
        assert opened.log_dirs.all[1].directory_id is None
        assert opened.log_dirs.all[1].cause
        assert snapshot(paths[1]) == [("meta.properties", content)]
        for lock in opened.locks.values():
            lock.release()


@pytest.mark.parametrize("last", ["cluster.id", "node.id", "version"])
def test_a_directory_with_a_torn_meta_properties_of_kafkas_starts_offline(
    tmp_path: Path, last: str
) -> None:
    """Java writes the lines in an order of its own; in Kafka 3.9 the cluster comes last."""
    paths = format_all(tmp_path, node_id=812)
    file = paths[1] / "meta.properties"
    lines = sorted(file.read_text().splitlines(), key=lambda line: line.startswith(last))
    whole = "\n".join(lines) + "\n"
    for size in range(len(whole) - 1):
        file.write_text(whole[:size])

        opened = open_all(tmp_path, paths, node_id=812)

        assert [each.is_online for each in opened.log_dirs.all] == [True, False, True], whole[:size]
        assert snapshot(paths[1]) == [("meta.properties", whole[:size].encode())]
        for lock in opened.locks.values():
            lock.release()


def test_a_meta_properties_whose_last_line_has_no_end_is_whole_if_its_ids_are(
    tmp_path: Path,
) -> None:
    paths = format_all(tmp_path)
    for path in paths[:2]:
        file = path / "meta.properties"
        file.write_text(file.read_text().rstrip("\n"))

    opened = open_all(tmp_path, paths)

    assert [each.is_online for each in opened.log_dirs.all] == [True, True, True]


SPOILED = [None, b"", bytes(200), b"#\ncluster.id=41QSSt", b"version=7\n"]


@pytest.mark.parametrize("content", SPOILED)
def test_a_start_without_any_usable_directory_ends(tmp_path: Path, content: bytes | None) -> None:
    paths = format_all(tmp_path)
    for path in paths:
        _spoil(path, content)
    with pytest.raises(FormatError, match="none of the specified log dirs"):
        open_all(tmp_path, paths)


@pytest.mark.parametrize("content", SPOILED)
def test_a_start_without_the_metadata_directory_ends(tmp_path: Path, content: bytes | None) -> None:
    paths = format_all(tmp_path)
    _spoil(tmp_path / "metadata", content)
    with pytest.raises(FormatError, match=r"/metadata"):
        open_all(tmp_path, paths)


def _spoil(path: Path, content: bytes | None) -> None:
    if content is None:
        (path / "meta.properties").unlink()
    else:
        (path / "meta.properties").write_bytes(content)


def _replace_by_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: (path / "meta.properties").write_text("version=7\n"),
        lambda path: (path / "meta.properties").write_text("version=1\nnode.id=8\n"),
        lambda path: (path / "meta.properties").write_text("version=x\n"),
        _replace_by_a_file,
        lambda path: (path / ".lock").mkdir(),
    ],
)
def test_a_directory_that_cannot_be_used_starts_offline(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    paths = format_all(tmp_path)
    spoil(paths[1])

    opened = open_all(tmp_path, paths)

    assert [each.is_online for each in opened.log_dirs.all] == [True, False, True]
    assert opened.log_dirs.any_offline


@pytest.mark.parametrize(
    ("fourth", "message"),
    [
        (lambda path: format_dir(path, 4, cluster="other"), "Invalid cluster.id in"),
        (lambda path: format_dir(path, 4, node_id=9), "Stored node id 9 doesn't match"),
        (lambda path: format_dir(path, 1), "Duplicate directory ID"),
        (lambda path: format_dir(path, LOST), r"Invalid resrved directory ID .* found in .*d4"),
        (lambda path: f"{path.with_name('d1')}/", "Duplicate log directory found"),
        (lambda path: f"{path.with_name('d1')}/../d1", "Duplicate log directory found"),
        (lambda path: f"{path.with_name('d1')}/.", "Duplicate log directory found"),
        (lambda path: path.symlink_to(path.with_name("d1")), "Duplicate log directory found"),
    ],
)
def test_a_directory_that_is_not_one_of_this_broker_alone_is_fatal(
    tmp_path: Path, fourth: Callable[[Path], Any], message: str
) -> None:
    paths = format_all(tmp_path)
    path = tmp_path / "d4"
    with pytest.raises((FormatError, ConfigError), match=message):
        open_all(tmp_path, [*paths, Path(fourth(path) or path)])


def test_a_directory_without_an_id_gets_one_that_stays(tmp_path: Path) -> None:
    paths = [*format_all(tmp_path), format_dir(tmp_path / "d4", None)]

    opened = open_all(tmp_path, paths)

    found = meta_properties.read(FS, tmp_path / "d4").directory_id
    assert found is not None
    assert opened.log_dirs.all[3].directory_id == found


@pytest.mark.process
def test_a_directory_in_use_by_another_process_is_fatal(tmp_path: Path) -> None:
    paths = format_all(tmp_path)
    script = (
        "import sys; from pathlib import Path\n"
        "from jbodlab.storage.directory.directory_lock import DirectoryLock\n"
        "from jbodlab.storage.directory.posix_filesystem import PosixFileSystem\n"
        "lock = DirectoryLock(PosixFileSystem(), Path(sys.argv[1]))\n"
        "print('locked', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(paths[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"

        with pytest.raises(FormatError, match=r"Failed to acquire lock on file .lock in .*d2"):
            open_all(tmp_path, paths)
        other.kill()
    open_all(tmp_path, paths)


def test_a_directory_that_does_not_answer_starts_offline_and_the_others_serve(
    tmp_path: Path,
) -> None:
    paths = format_all(tmp_path)
    resume = threading.Event()
    disk = FaultPlan({"*": lambda _: resume.wait(20)})

    opened = open_all(
        tmp_path,
        paths,
        environment=disk_of(paths[1], disk),
        deadline_s=0.2,
    )

    assert [each.is_online for each in opened.log_dirs.all] == [True, False, True]
    assert "no answer within 0.2 s" in (opened.log_dirs.all[1].cause or "")
    resume.set()


@pytest.mark.parametrize("kind", ["EIO", "EACCES", "ENOTDIR"])
def test_a_directory_whose_meta_properties_cannot_be_read_starts_offline(
    tmp_path: Path, kind: str
) -> None:
    paths = format_all(tmp_path)
    disk = FaultPlan({"*": fails(getattr(errno, kind))})

    opened = open_all(
        tmp_path,
        paths,
        environment=disk_of(paths[1], disk),
    )

    assert opened.log_dirs.online_ids() == (directory_id(1), directory_id(3))
    assert opened.previous_broker_epoch == -1


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_disk_that_was_replaced_while_the_start_waited_for_it_starts_offline(
    tmp_path: Path, is_torn: bool
) -> None:
    paths = format_all(tmp_path)

    def replaced(path: Path) -> None:
        shutil.rmtree(path)
        format_dir(path, 7)
        if is_torn:
            (path / "meta.properties").write_text("version=1")

    disk = FaultPlan({"identity": replaced})

    opened = open_all(
        tmp_path,
        paths,
        environment=disk_of(paths[1], disk),
    )

    assert opened.log_dirs.online_ids() == (directory_id(1), directory_id(3))
    assert "another directory was mounted or created at this path" in (
        opened.log_dirs.all[1].cause or ""
    )


def test_a_new_directory_id_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    paths = [*format_all(tmp_path), format_dir(tmp_path / "d4", None)]

    disk = FaultPlan({"write_atomically": fails(errno.EROFS)})

    with pytest.raises(FormatError, match=r"Failed to write meta.properties of .*d4"):
        open_all(
            tmp_path,
            paths,
            environment=disk_of(paths[3], disk),
        )


async def test_a_replaced_directory_is_not_taken_for_the_one_of_the_start(tmp_path: Path) -> None:
    paths = format_all(tmp_path)
    opened = await opening(paths, tmp_path / "metadata")
    # A file system gives the inode of something removed to what is made next.
    shutil.rmtree(paths[0])
    paths[0].mkdir()

    first = opened.log_dirs.all[0]
    with pytest.raises(LogDirError):
        await first.run(lambda: probe(first.fs, first.path, first.identity))


def test_the_broker_epoch_of_the_last_clean_shutdown_counts_if_all_directories_agree(
    tmp_path: Path,
) -> None:
    paths = format_all(tmp_path)
    assert open_all(tmp_path, paths).previous_broker_epoch == -1
    for path in paths:
        clean_shutdown.write(FS, path, BrokerEpoch(17))
    assert json.loads((paths[0] / ".kafka_cleanshutdown").read_text()) == {
        "version": 0,
        "brokerEpoch": 17,
    }
    assert open_all(tmp_path, paths).previous_broker_epoch == 17

    clean_shutdown.write(FS, paths[1], BrokerEpoch(18))
    assert open_all(tmp_path, paths).previous_broker_epoch == -1
    (paths[1] / ".kafka_cleanshutdown").write_bytes(b"")
    assert open_all(tmp_path, paths).previous_broker_epoch == -1


def test_file_of_a_clean_shutdown_does_not_come_back_without_power(tmp_path: Path) -> None:
    left: list[list[str]] = []

    class Syncing(PosixFileSystem):
        def fsync_dir(self, path: Path) -> None:
            left.append(self.listdir(path))

    clean_shutdown.write(FS, tmp_path, BrokerEpoch(7))

    assert clean_shutdown.take(Syncing(), tmp_path)
    assert left == [[]]
