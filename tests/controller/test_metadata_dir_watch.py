from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from controller.metadata_dir_watch import MetadataDirSpace, watch_metadata_dir
from controller.quorum.log_thread import LogThread
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import LogDirError

T = TypeVar("T")

DEADLINE_S = 10.0


class CountingThread(LogThread):
    """A thread that counts what it is asked for."""

    calls = 0

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        self.calls += 1
        return super().run(function)


def watch(
    tmp_path: Path, break_it: Callable[[Path, LogThread], None], *, deadline_s: float = 5.0
) -> None:
    """Watch a directory that is broken after a while; returns at the error."""

    async def body() -> None:
        directory = tmp_path / "metadata"
        log_folder = directory / "__cluster_metadata-0"
        log_folder.mkdir(parents=True)
        log_thread = CountingThread(system_environment().threads)
        watching = asyncio.create_task(
            watch_metadata_dir(
                PosixFileSystem(),
                directory,
                log_folder,
                log_thread,
                MetadataDirSpace(directory, 0),
                interval_ms=5,
                deadline_s=deadline_s,
            )
        )
        try:
            async with asyncio.timeout(DEADLINE_S):
                while log_thread.calls < 3 and not watching.done():  # noqa: ASYNC110 - a thread counts
                    await asyncio.sleep(0.001)
            assert not watching.done()
            break_it(directory, log_thread)
            await asyncio.wait_for(watching, DEADLINE_S)
        finally:
            watching.cancel()
            log_thread.stop()

    asyncio.run(body())


def test_removed_metadata_directory_is_found(tmp_path: Path) -> None:
    with pytest.raises(LogDirError, match=r"metadata went offline"):
        watch(tmp_path, lambda directory, _: directory.rename(directory.with_name("aside")))


def test_removed_folder_of_the_log_is_found(tmp_path: Path) -> None:
    with pytest.raises(LogDirError, match=r"__cluster_metadata-0"):
        watch(tmp_path, lambda directory, _: shutil.rmtree(directory / "__cluster_metadata-0"))


def test_replaced_metadata_directory_is_found(tmp_path: Path) -> None:
    def replace(directory: Path, _: LogThread) -> None:
        # Kept aside: a new folder might be given the inode of one that is gone.
        directory.rename(directory.with_name("aside"))
        (directory / "__cluster_metadata-0").mkdir(parents=True)

    with pytest.raises(LogDirError, match=r"at this path|No such file"):
        watch(tmp_path, replace)


def test_metadata_disk_that_hangs_is_found(tmp_path: Path) -> None:
    resume = threading.Event()

    def hang(_: Path, log_thread: LogThread) -> None:
        log_thread.run(lambda: resume.wait(20))

    with pytest.raises(LogDirError, match=r"no answer within 0.1 s"):
        watch(tmp_path, hang, deadline_s=0.1)
    resume.set()


def test_healthy_metadata_directory_is_left_clean(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        asyncio.run(_healthy(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


async def _healthy(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    log_thread = LogThread(system_environment().threads)
    try:
        log_folder, fs, space = tmp_path / "log", PosixFileSystem(), MetadataDirSpace(tmp_path, 0)
        watching = watch_metadata_dir(fs, tmp_path, log_folder, log_thread, space, interval_ms=5)
        await asyncio.wait_for(watching, 0.2)
    finally:
        (metric,) = space.metrics()
        assert metric.name == "jbodlab_metadata_dir_usable_bytes"
        await log_thread.run(lambda: None)
        log_thread.stop()


@pytest.mark.parametrize(
    ("retention_bytes", "total_bytes", "usable", "warnings"),
    [
        (-1, 1_000, (100, 99, 98), 1),
        (-1, 1_000, (99, 100, 99), 2),
        (400, 1_000, (800, 799), 1),
        (400, 100_000, (10_000,), 0),
    ],
)
def test_low_space_of_the_metadata_directory_is_warned_of_once(
    retention_bytes: int,
    total_bytes: int,
    usable: tuple[int, ...],
    warnings: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    space = MetadataDirSpace(Path("/metadata"), retention_bytes)
    assert list(space.metrics()) == []

    for usable_bytes in usable:
        space.looked(total_bytes, usable_bytes)

    assert [text.count("/metadata") for text in caplog.messages] == [1] * warnings
    assert space.usable_bytes == usable[-1]
