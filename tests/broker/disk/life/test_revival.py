from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from broker.disk.directory.lifecycle import LogDirState
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.logs_in_use import FoundLog
from broker.disk.life.loading import load_logs
from broker.disk.life.revival import LoadingRules, LogDirRevival
from broker.disk.life.startup import OpenedLogDirs, open_log_dirs
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.directory_id import LOST
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, TopicPartition
from tests.broker.disks import FaultPlan, directory_id, eventually, failed_ids, fails
from tests.broker.logs import append, make_log, topic_partition
from tests.waiting import turns

CLUSTER = "41QSStLtR3qOekbX4ZlbHA"
FS = PosixFileSystem()


def format_dir(path: Path, number: int | None, *, node_id: int = 8, cluster: str = CLUSTER) -> Path:
    path.mkdir(exist_ok=True)
    known = None if number is None else directory_id(number)
    meta = MetaProperties(cluster_id=cluster, node_id=node_id, directory_id=known)
    meta_properties.write(FS, path, meta)
    return path


class Replicas:
    """Answers of the owner of the replicas."""

    def __init__(self) -> None:
        self.reason = ""
        self.in_use: frozenset[TopicPartition] = frozenset()

    def unsettled(self, log_dir: LogDir) -> str:
        return self.reason

    def topic_partitions_in_use(self) -> frozenset[TopicPartition]:
        return self.in_use

    async def load_formers(self, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        assert all(log.files.topic_id is not None for log, _ in logs)


class Broker:
    """Three directories d1, d2, d3 that serve, and their revival; `fs` is the disk of d2."""

    opened: OpenedLogDirs

    def __init__(self, tmp_path: Path) -> None:
        self.config = LogConfig()
        self.metadata_dir = format_dir(tmp_path / "metadata", 99)
        self.paths = [format_dir(tmp_path / f"d{n}", n) for n in (1, 2, 3)]
        self.fatal: list[str] = []

    async def open(self, fs: FileSystem) -> None:
        self.opened = await open_log_dirs(
            node_id=BrokerId(8),
            log_dirs=self.paths,
            metadata_log_dir=self.metadata_dir,
            on_fatal=self.fatal.append,
            environment=replace(
                system_environment(), fs_of=lambda path: fs if path == self.paths[1] else FS
            ),
        )
        self.log_dirs = self.opened.log_dirs
        self.replicas = Replicas()
        self.strays: set[TopicPartition] = set()
        self.leftovers: list[LogDir] = []
        self.returned: list[tuple[LogDir, LogDir, Sequence[FoundLog]]] = []
        self.revival = LogDirRevival(
            self.opened,
            self.replicas,
            rules=lambda: LoadingRules(
                replica_of=self.replica_of,
                is_ours=lambda _: True,
                log_config_of=lambda _: self.config,
            ),
            schedule_leftovers=self.schedule,
            settled_timeout_s=0.2,
            silent_timeout_s=0.2,
            inspection_timeout_s=2.0,
        )
        self.log_dirs.add_return_listener(self)

    @property
    def second(self) -> LogDir:
        return self.log_dirs.all[1]

    def replica_of(self, _topic_id: UUID | None, partition: int) -> TopicPartition | None:
        found = topic_partition(partition)
        return None if found in self.strays else found

    async def schedule(self, log_dir: LogDir) -> None:
        self.leftovers.append(log_dir)

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        self.returned.append((former, log_dir, logs))

    async def refused(self, path: Path | None = None) -> KafkaError:
        with pytest.raises(KafkaError) as refusal:
            await self.revival.revive(str(path or self.paths[1]))
        return refusal.value


@pytest.fixture
def disk() -> FaultPlan:
    return FaultPlan()


@pytest.fixture
async def broker(tmp_path: Path, disk: FaultPlan) -> AsyncIterator[Broker]:
    made = Broker(tmp_path)
    await made.open(disk)
    await load_logs(made.log_dirs, made.replica_of, lambda _: LogConfig())
    made.revival.start()
    yield made
    await made.revival.stop()
    made.log_dirs.stop()
    assert not made.fatal


def make_full(path: Path, number: int, records: int = 3) -> None:
    log = make_log(path, number)
    append(log, count=records)
    log.close(clean=False)


def content(path: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()
    }


def is_locked(path: Path) -> bool:
    """Whether another process finds the directory locked."""
    program = (
        "import fcntl, sys\n"
        f"file = open({str(path / '.lock')!r}, 'r+')\n"
        "try:\n"
        "    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError:\n"
        "    sys.exit(7)\n"
    )
    return subprocess.run([sys.executable, "-c", program], check=False).returncode == 7


@contextmanager
def locked_by_another(path: Path) -> Iterator[None]:
    program = (
        "import fcntl, sys\n"
        f"file = open({str(path / '.lock')!r}, 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        yield
        other.kill()


@pytest.mark.process
async def test_repaired_directory_is_another_life_in_the_place_of_the_old(
    caplog: pytest.LogCaptureFixture, broker: Broker
) -> None:
    caplog.set_level(logging.INFO)

    for number in (0, 1):
        make_full(broker.paths[1], number)
    old = broker.second
    broker.log_dirs.fail(old, "[Errno 5] Input/output error")
    assert failed_ids(broker.log_dirs) == (directory_id(2),)

    revived = await broker.revival.revive(str(broker.paths[1]))

    assert (revived.directory_id, revived.replicas) == (directory_id(2), 2)
    new = broker.second
    assert new is not old
    assert (old.state, new.state) == (LogDirState.OFFLINE, LogDirState.ONLINE)
    assert (new.path, new.directory_id, new.cause) == (old.path, old.directory_id, None)
    assert (new.revivals, new.replica_count) == (1, 2)
    assert broker.log_dirs.online_ids() == tuple(directory_id(n) for n in (1, 2, 3))
    assert failed_ids(broker.log_dirs) == ()
    assert not broker.log_dirs.any_offline
    ((former, log_dir, logs),) = broker.returned
    assert (former, log_dir) == (old, new)
    assert [log.log.state.end_offset for log in logs] == [3, 3]
    assert broker.leftovers == [new]
    assert await new.run(lambda: threading.current_thread().name)
    (line,) = [each for each in caplog.records if "is back online" in each.message]
    assert line.__dict__["directory_id"] == new.id_text
    assert line.__dict__["log_dir"] == str(new.path)
    assert line.__dict__["cause"] == "[Errno 5] Input/output error"
    assert line.__dict__["replicas"] == 2
    assert is_locked(new.path)

    # It fails again as any other.
    broker.log_dirs.fail(new, "again")
    assert failed_ids(broker.log_dirs) == (directory_id(2),)
    assert (await broker.revival.revive(str(new.path))).replicas == 2
    assert broker.second.revivals == 2


async def test_only_a_configured_directory_that_is_offline_can_be_revived(
    tmp_path: Path, broker: Broker
) -> None:
    for path in (tmp_path / "d4", tmp_path / "metadata"):
        unknown = await broker.refused(path)
        assert unknown.code is ErrorCode.LOG_DIR_NOT_FOUND
        assert f"{broker.paths[0]}" in unknown.message
    online = await broker.refused()
    assert online.code is ErrorCode.INVALID_REQUEST
    assert online.message == f"log directory {broker.paths[1]} is already online"
    assert broker.second.is_online

    broker.log_dirs.fail(broker.second, "gone")
    await broker.revival.stop()
    assert (await broker.refused()).code is ErrorCode.BROKER_NOT_AVAILABLE


async def test_one_of_two_revivals_at_once_wins(broker: Broker) -> None:
    broker.log_dirs.fail(broker.second, "gone")
    first = asyncio.create_task(broker.revival.revive(str(broker.paths[1])))
    await asyncio.sleep(0)

    second = await broker.refused()

    assert second.code is ErrorCode.INVALID_REQUEST
    assert "is already being revived" in second.message
    assert (await first).directory_id == directory_id(2)
    assert len(broker.returned) == 1


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: shutil.rmtree(path), "[Errno 2]"),
        (lambda path: (shutil.rmtree(path), path.write_text("")), "[Errno 20]"),
        (lambda path: (path / "meta.properties").unlink(), "jbod-storage format"),
        (lambda path: (path / "meta.properties").write_text("version=7\n"), "version number 7"),
        (lambda path: format_dir(path, 2, cluster="x" * 22), "Invalid cluster.id"),
        (lambda path: format_dir(path, 2, node_id=9), "Stored node id 9"),
        (lambda path: format_dir(path, 3), "Duplicate directory ID"),
        (lambda path: format_dir(path, 99), "Duplicate directory ID"),
        (
            lambda path: meta_properties.write(
                FS, path, MetaProperties(cluster_id=CLUSTER, node_id=8, directory_id=LOST)
            ),
            "Invalid resrved directory ID",
        ),
        (lambda path: (path / "__cluster_metadata-0").mkdir(), "unexpected metadata location"),
        (
            lambda path: (shutil.rmtree(path), path.symlink_to(path.with_name("d3"))),
            "Duplicate log directory found",
        ),
    ],
)
async def test_what_a_start_would_refuse_stays_offline_as_it_was(
    damage: Callable[[Path], object], reason: str, broker: Broker
) -> None:
    path = broker.paths[1]
    former = broker.second
    broker.log_dirs.fail(former, "gone")
    damage(path)
    before = content(path) if path.is_dir() and not path.is_symlink() else {}

    refused = await broker.refused()

    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused.message.startswith(f"log directory {path} stays offline: ")
    assert reason in refused.message
    assert broker.second is former
    assert former.cause == "gone"
    assert failed_ids(broker.log_dirs) == (directory_id(2),)
    assert not broker.returned
    if path.is_dir() and not path.is_symlink():
        assert content(path) == before


@pytest.mark.process
async def test_replaced_disk_comes_with_its_own_id_and_lock(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broker: Broker
) -> None:
    path = broker.paths[1]
    broker.log_dirs.fail(broker.second, "gone")
    path.rename(tmp_path / "old disk")
    format_dir(path, 7)

    revived = await broker.revival.revive(str(path))

    assert (revived.directory_id, revived.replicas) == (directory_id(7), 0)
    assert broker.log_dirs.online_ids() == tuple(directory_id(n) for n in (1, 3, 7))
    assert failed_ids(broker.log_dirs) == ()
    assert "has a new id" in caplog.text
    assert is_locked(path)
    await eventually(lambda: not is_locked(tmp_path / "old disk"))


async def test_directory_without_an_id_gets_one(broker: Broker) -> None:
    broker.log_dirs.fail(broker.second, "gone")
    format_dir(broker.paths[1], None)

    revived = await broker.revival.revive(str(broker.paths[1]))

    written = meta_properties.read(FS, broker.paths[1]).directory_id
    assert revived.directory_id == written is not None


async def test_disk_that_fails_a_probe_is_not_repaired(broker: Broker, disk: FaultPlan) -> None:
    broker.log_dirs.fail(broker.second, "gone")
    disk.plan["*"] = fails(errno.EROFS)
    refused = await broker.refused()
    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert os.strerror(errno.EROFS) in refused.message
    disk.plan.clear()
    await broker.revival.revive(str(broker.paths[1]))


async def test_disk_that_does_not_answer_is_not_waited_for(broker: Broker, disk: FaultPlan) -> None:
    broker.log_dirs.fail(broker.second, "gone")
    resume = threading.Event()
    disk.plan["*"] = lambda _: resume.wait(20)
    refused = await broker.refused()
    assert "no answer within 2 s" in refused.message
    resume.set()
    await broker.revival.revive(str(broker.paths[1]))


async def test_directory_is_not_revived_under_a_write_that_still_hangs_in_it(
    tmp_path: Path, broker: Broker, disk: FaultPlan
) -> None:
    gate = threading.Event()
    disk.plan["write_bytes"] = lambda path: path.name != "stuck" or gate.wait(20)
    path, former = broker.paths[1], broker.second
    (path / "stuck").write_bytes(b"")
    hanging = former.run(lambda: former.fs.write_bytes(path / "stuck", b"late", sync=False))
    await eventually(lambda: former.is_being_written)
    broker.log_dirs.fail(former, "hung")
    assert hanging.exception() is not None

    refused = await broker.refused()
    assert "a write that began before the failure still hangs" in refused.message
    assert (path / "stuck").read_bytes() == b""

    # The disk is replaced: what hangs in the old one does not matter.
    path.rename(tmp_path / "old disk")
    format_dir(path, 7)
    assert (await broker.revival.revive(str(path))).directory_id == directory_id(7)
    broker.log_dirs.fail(broker.second, "and back")
    shutil.rmtree(path)
    (tmp_path / "old disk").rename(path)
    gate.set()
    await eventually(lambda: not former.is_being_written)
    assert (await broker.revival.revive(str(path))).directory_id == directory_id(2)


async def test_directory_waits_until_the_controller_has_heard_of_its_failure(
    broker: Broker,
) -> None:
    broker.log_dirs.fail(broker.second, "gone")
    broker.replicas.reason = "the directory id is still registered"
    refused = await broker.refused()
    assert refused.code is ErrorCode.REQUEST_TIMED_OUT
    assert "the directory id is still registered" in refused.message
    assert not broker.returned

    task = asyncio.create_task(broker.revival.revive(str(broker.paths[1])))
    await turns()
    broker.replicas.reason = ""
    assert (await task).directory_id == directory_id(2)


@pytest.mark.process
async def test_disk_that_fails_while_its_logs_are_loaded_stays_offline(
    broker: Broker, disk: FaultPlan
) -> None:
    make_full(broker.paths[1], 0)
    former = broker.second
    broker.log_dirs.fail(former, "gone")
    disk.plan["read_bytes"] = fails(errno.EIO, "recovery-point-offset-checkpoint")

    refused = await broker.refused()

    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "Input/output error" in refused.message
    assert broker.second is former
    assert (former.state, former.cause) == (LogDirState.OFFLINE, "gone")
    assert is_locked(former.path)
    disk.plan.clear()
    assert (await broker.revival.revive(str(former.path))).replicas == 1


@pytest.mark.parametrize("flush_messages", [1, 2])
async def test_batches_that_were_synced_each_are_read_from_a_repaired_disk(
    flush_messages: int, broker: Broker, disk: FaultPlan
) -> None:
    forgotten: list[str] = []
    disk.plan["forget_cached"] = lambda path: forgotten.append(path.name)
    make_full(broker.paths[1], 0)
    broker.log_dirs.fail(broker.second, "a sync failed")
    broker.config = LogConfig(flush_messages=flush_messages)

    await broker.revival.revive(str(broker.paths[1]))

    assert forgotten == (["00000000000000000000.log"] if flush_messages == 1 else [])


async def test_strays_and_replicas_that_live_elsewhere_are_put_aside(broker: Broker) -> None:
    path = broker.paths[1]
    for number in range(3):
        make_full(path, number)
    make_log(path, 3, future_hex="a" * 32).close(clean=False)
    (path / f"orders-4.{'b' * 32}-delete").mkdir()
    broker.log_dirs.fail(broker.second, "gone")
    broker.strays = {topic_partition(0)}
    broker.replicas.in_use = frozenset({topic_partition(1)})

    revived = await broker.revival.revive(str(path))

    assert revived.replicas == 1
    ((_, _, logs),) = broker.returned
    # The future one's move may go on.
    assert [log.topic_partition for log, _ in logs] == [topic_partition(2), topic_partition(3)]
    assert [log.files.is_future for log, _ in logs] == [False, True]
    names = sorted(each.name.partition(".")[0] for each in path.glob("*-stray"))
    assert names == ["orders-0", "orders-1"]
    assert list(path.glob("*-future"))
    assert list(path.glob("*-delete"))


@pytest.mark.process
async def test_lock_that_another_process_holds_keeps_a_directory_offline(
    tmp_path: Path, broker: Broker
) -> None:
    path = broker.paths[1]
    broker.log_dirs.fail(broker.second, "gone")
    path.rename(tmp_path / "old disk")
    format_dir(path, 7)
    with locked_by_another(path):
        refused = await broker.refused()
    assert "Failed to acquire lock" in refused.message
    await broker.revival.revive(str(path))


async def test_revival_goes_on_when_nobody_waits_and_ends_with_the_broker(broker: Broker) -> None:
    broker.log_dirs.fail(broker.second, "gone")
    waiting = asyncio.create_task(broker.revival.revive(str(broker.paths[1])))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await eventually(lambda: broker.second.is_online)

    broker.log_dirs.fail(broker.second, "again")
    broker.replicas.reason = "not yet"
    waiting = asyncio.create_task(broker.revival.revive(str(broker.paths[1])))
    await asyncio.sleep(0)
    await broker.revival.stop()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not broker.second.is_online


@pytest.mark.process
async def test_lock_of_the_same_file_is_kept_by_its_first_holder(broker: Broker) -> None:
    """Closing any descriptor of a locked file ends the lock of the whole process."""
    lock = broker.opened.locks[broker.paths[1]]
    broker.log_dirs.fail(broker.second, "gone")
    await broker.revival.revive(str(broker.paths[1]))
    assert broker.opened.locks[broker.paths[1]] is lock
    assert is_locked(broker.paths[1])
