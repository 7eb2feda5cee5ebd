"""When a snapshot is written, and that nobody has to wait for it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshot_writer import SnapshotWriter
from jbodlab.metadata.log.snapshots import MAX_RECORDS_PER_BATCH, snapshot_paths
from jbodlab.metadata.log.snapshotter import Snapshotter, SnapshotTrigger
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory.posix_filesystem import PosixAppendFile, PosixFileSystem
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import LeaderEpoch, Offset, TopicId
from tests.waiting import turns

T = TypeVar("T")
DAY_MS = 86_400_000


def image(end_offset: int, topics: int = 1) -> MetadataImage:
    delta = MetadataDelta(EMPTY)
    for number in range(topics):
        topic_id = TopicId(UUID(int=(number + 1) << 70))
        delta.replay(TopicRecord(name=f"t{number}", topic_id=topic_id), number)
    return delta.apply(Offset(end_offset - 1), LeaderEpoch(2), 1_000)


class FailingFileSystem(PosixFileSystem):
    """A disk on which nothing can be opened while `error` is set."""

    error = 0

    def open_append(self, path: Path) -> PosixAppendFile:
        if self.error:
            raise OSError(self.error, os.strerror(self.error), str(path))
        return super().open_append(path)


class Node:
    """A snapshotter whose thread is this one; `gate` holds its calls up."""

    def __init__(self, directory: Path, *, appended: int = 0, **settings: int) -> None:
        self.directory = directory
        self.fs = FailingFileSystem()
        self.image: MetadataImage | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.calls: list[str] = []
        self.cleaned = 0
        self.clean_error: Exception | None = None
        self.asked = 0
        self.snapshots = Snapshotter(
            settings=MetadataLogSettings(**{"snapshot_interval_ms": DAY_MS, **settings}),
            fs=self.fs,
            directory=directory,
            image=self._image,
            run=self._run,
            clean=self._clean,
            monotonic_s=system_environment().monotonic_s,
            wall_ms=system_environment().wall_ms,
            appended_bytes=appended,
        )
        self.running = asyncio.create_task(self.snapshots.run())

    def _image(self) -> MetadataImage | None:
        self.asked += 1
        return self.image

    async def _run(self, function: Callable[[], T], /) -> T:
        await self.gate.wait()
        self.calls.append(f"{function.__name__}")
        return function()

    async def _clean(self) -> None:
        if self.clean_error is not None:
            raise self.clean_error
        self.cleaned += 1

    @property
    def names(self) -> list[str]:
        return [path.name for path in reversed(snapshot_paths(self.directory))]

    def files(self) -> list[Path]:
        return list(self.directory.iterdir())

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            assert not self.running.done(), self.running.exception()
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running


def test_a_snapshot_is_due_by_bytes_or_by_time_with_changes() -> None:
    settings = MetadataLogSettings(bytes_between_snapshots=100, snapshot_interval_ms=50)
    trigger = SnapshotTrigger(settings, appended_bytes=0, now_ms=1_000)

    assert trigger.due_ms(5_000) is None
    trigger.appended(1)
    assert trigger.due_ms(1_001) == 1_050
    trigger.appended(99)
    assert trigger.due_ms(1_001) == 1_001
    trigger.begun(1_002)
    assert trigger.due_ms(9_000) is None
    trigger.appended(1)
    assert trigger.due_ms(9_000) == 1_052


def test_an_interval_of_0_is_none() -> None:
    settings = MetadataLogSettings(bytes_between_snapshots=100, snapshot_interval_ms=0)
    trigger = SnapshotTrigger(settings, appended_bytes=99, now_ms=0)

    assert trigger.due_ms(DAY_MS) is None
    trigger.appended(1)
    assert trigger.due_ms(DAY_MS) == DAY_MS


async def test_a_snapshot_is_written_when_enough_was_appended(tmp_path: Path) -> None:
    node = Node(tmp_path, bytes_between_snapshots=100, appended=40)
    node.image = image(7)
    node.snapshots.appended(59)
    await turns()
    assert node.names == []

    node.snapshots.appended(1)

    await node.until(lambda: node.cleaned == 1)
    assert node.names == ["00000000000000000007-0000000002.checkpoint"]
    assert node.calls == ["write_piece", "write_piece", "finish"]
    assert node.snapshots.latest_bytes == (tmp_path / node.names[0]).stat().st_size
    assert node.snapshots.latest_age_ms is not None
    await node.stop()


async def test_a_snapshot_is_written_after_the_interval_only_if_anything_was_appended(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path, snapshot_interval_ms=30)
    node.image = image(7)
    await turns()
    assert node.asked == 0

    node.snapshots.appended(1)
    await node.until(lambda: node.cleaned == 1)
    await turns()
    assert node.cleaned == 1

    node.image = image(8)
    node.snapshots.appended(1)
    await node.until(lambda: node.cleaned == 2)
    assert [name[18:20] for name in node.names] == ["07", "08"]
    await node.stop()


async def test_no_snapshot_is_written_inside_a_transaction(tmp_path: Path) -> None:
    node = Node(tmp_path, bytes_between_snapshots=1)
    node.snapshots.appended(50)
    await node.until(lambda: node.asked == 1)
    node.snapshots.appended(50)
    await node.until(lambda: node.asked == 2)
    await turns()
    assert (node.asked, node.names) == (2, [])

    node.image = image(9)
    node.snapshots.appended(50)

    await node.until(lambda: node.cleaned == 1)
    assert [name[18:20] for name in node.names] == ["09"]
    await node.stop()


async def test_others_get_their_turn_between_the_pieces(tmp_path: Path) -> None:
    node = Node(tmp_path, bytes_between_snapshots=1)
    node.image = image(9, topics=4 * MAX_RECORDS_PER_BATCH)
    node.snapshots.appended(1)
    turns = 0
    while not node.cleaned:
        await asyncio.sleep(0)
        turns += 1
    assert node.calls == ["write_piece"] * 5 + ["finish"]
    assert turns > len(node.calls)
    await node.stop()


async def test_what_is_appended_meanwhile_counts_for_the_next_snapshot(tmp_path: Path) -> None:
    node = Node(tmp_path, bytes_between_snapshots=100)
    node.gate.clear()
    node.image = image(9)
    node.snapshots.appended(100)
    await node.until(lambda: node.asked == 1)
    node.snapshots.appended(100)
    node.image = image(10)
    node.gate.set()

    await node.until(lambda: node.cleaned == 2)

    assert [name[18:20] for name in node.names] == ["09", "10"]
    await node.stop()


async def test_a_snapshot_of_a_log_that_loses_its_end_is_given_up(tmp_path: Path) -> None:
    node = Node(tmp_path, bytes_between_snapshots=1)
    node.gate.clear()
    node.image = image(9)
    node.snapshots.appended(1)
    await node.until(lambda: node.asked == 1)

    node.snapshots.discard()
    node.gate.set()

    await node.until(lambda: node.calls[-1:] == ["abandon"])
    assert node.cleaned == 0
    await node.stop()
    assert node.files() == []


async def test_a_fault_of_the_process_is_no_fault_of_the_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(tmp_path, bytes_between_snapshots=1)
    node.image = image(9)
    node.fs.error = errno.EMFILE
    node.snapshots.appended(1)
    await node.until(lambda: "metadata snapshot: [Errno 24]" in caplog.text)
    node.fs.error = 0
    node.clean_error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "cleaning")
    node.snapshots.appended(1)
    await node.until(lambda: "metadata snapshot: cleaning" in caplog.text)
    node.clean_error = None

    node.snapshots.appended(1)

    await node.until(lambda: node.cleaned == 1)
    assert len(node.names) == 1
    await node.stop()


async def test_an_unexpected_error_leaves_nothing_behind_and_the_next_snapshot_is_another_chance(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = SnapshotWriter.finish

    def broken(writer: SnapshotWriter) -> Path:
        raise ZeroDivisionError

    node = Node(tmp_path, bytes_between_snapshots=1)
    node.image = image(9)
    monkeypatch.setattr(SnapshotWriter, "finish", broken)
    node.snapshots.appended(1)
    await node.until(lambda: "ZeroDivisionError" in caplog.text)
    assert node.files() == []
    monkeypatch.setattr(SnapshotWriter, "finish", finish)
    node.clean_error = ZeroDivisionError()
    node.snapshots.appended(1)
    await node.until(lambda: caplog.text.count("cannot write a metadata snapshot") == 2)
    node.clean_error = None

    node.snapshots.appended(1)

    await node.until(lambda: node.cleaned == 1)
    await node.stop()


async def test_an_error_of_the_disk_ends_it(tmp_path: Path) -> None:
    node = Node(tmp_path, bytes_between_snapshots=1)
    node.image = image(9)
    node.fs.error = errno.EIO
    node.snapshots.appended(1)
    with pytest.raises(OSError, match="Input/output error"):
        await node.running
