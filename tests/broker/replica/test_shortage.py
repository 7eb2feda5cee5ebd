"""A process without descriptors or memory in the middle of what logs want done."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.disk.calls.shortage import ShortageError
from broker.replica.log import directory_writer
from broker.replica.log.directory_writer import DirectoryWriter
from jbodlab.storage.directory.posix_filesystem import PosixAppendFile, PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.disks import make_log_dir
from tests.broker.logs import no_checkpoints
from tests.broker.replica import box as cramped
from tests.broker.replica.box import Box
from tests.broker.replicas import until
from tests.waiting import set_forward, turns

SHORTAGES: list[Callable[[], BaseException]] = [
    lambda: OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    lambda: OSError(errno.ENFILE, os.strerror(errno.ENFILE)),
    lambda: OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    MemoryError,
]
TRY_AGAIN_S = 0.02


class ShortDisk(PosixFileSystem):
    """Opens no file while there is a shortage.

    Attributes:
        left: How many calls it still refuses; None for all.
        shortage: Makes what they raise.
        below: Only what is below a folder is refused; None for everything.
    """

    def __init__(self) -> None:
        self.left: int | None = 0
        self.shortage: Callable[[], BaseException] = MemoryError
        self.below: Path | None = None
        self.refused = 0

    def _open(self, path: Path) -> None:
        if self.left == 0 or (self.below is not None and not path.is_relative_to(self.below)):
            return
        if self.left is not None:
            self.left -= 1
        self.refused += 1
        raise self.shortage()

    def open_append(self, path: Path) -> PosixAppendFile:
        self._open(path)
        return super().open_append(path)

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        self._open(path)
        super().write_bytes(path, data, sync=sync)

    def fsync_file(self, path: Path) -> None:
        self._open(path)
        super().fsync_file(path)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_writer, "FULL_RETRY_S", TRY_AGAIN_S)


async def boxes(tmp_path: Path, disk: ShortDisk) -> tuple[Box, Box]:
    log_dir = make_log_dir(tmp_path / "d1", 1, disk)
    writer = DirectoryWriter(log_dir, no_checkpoints)
    first, other = [
        Box(disk, log_dir, await Box.new_log(log_dir, writer, number))  # type: ignore[arg-type]
        for number in (0, 1)
    ]
    return first, other


@pytest.mark.parametrize("shortage", SHORTAGES)
async def test_a_change_without_descriptors_waits_and_no_log_is_offline(
    tmp_path: Path, shortage: Callable[[], BaseException]
) -> None:
    disk = ShortDisk()
    short, other = await boxes(tmp_path, disk)
    disk.shortage, disk.left, disk.below = shortage, None, short.log.files.directory
    short.append(6)
    other.append(6)
    await other.log.written()
    await until(lambda: short.log.is_blocked)

    assert not other.log.is_blocked
    assert not short.failures
    assert not short.log_dir.space.disk.is_full
    disk.left = 0
    while short.log.is_blocked:
        set_forward(TRY_AGAIN_S)
        await short.log.barrier()
        await turns()
    await short.check()
    await other.check()
    short.log_dir.stop()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_files_that_are_kept_open_are_closed_for_another_one(
    tmp_path: Path, number: int
) -> None:
    disk = ShortDisk()
    short, other = await boxes(tmp_path, disk)
    for box in (short, other):
        box.append(2)
        await box.log.written()
    disk.shortage, disk.left = (lambda: OSError(number, os.strerror(number))), 1
    short.append(6)
    await short.log.written()

    assert disk.refused == 1
    assert not short.log.is_blocked
    await short.check()
    await other.check()
    short.log_dir.stop()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("shortage", SHORTAGES)
async def test_a_sync_without_descriptors_is_made_later_and_confirms_nothing_before(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shortage: Callable[[], BaseException],
    count: int,
) -> None:
    """Nor is what the same call has written, and not synced, written again."""
    monkeypatch.setattr(cramped, "CONFIG", LogConfig(flush_messages=1, retention_ms=-1))

    disk = ShortDisk()
    short, _ = await boxes(tmp_path, disk)
    short.append(1)
    await short.log.written()
    disk.shortage, disk.left = shortage, None
    short.append(count)
    await until(lambda: short.log.is_blocked)
    assert (short.log.written_end, short.log.state.recovery_point) == (2, 2)

    disk.left = 0
    while short.log.is_blocked:
        set_forward(TRY_AGAIN_S)
        await short.log.barrier()
        await turns()
    end = 2 + 2 * count
    assert (short.log.written_end, short.log.state.recovery_point) == (end, end)
    (file,) = short.log.files.directory.glob("*.log")
    assert file.stat().st_size == short.log.state.segments.size_bytes
    assert not short.failures
    await short.check()
    short.log_dir.stop()


@pytest.mark.parametrize("shortage", SHORTAGES)
async def test_a_call_without_descriptors_fails_so_that_clients_repeat_it(
    tmp_path: Path, shortage: Callable[[], BaseException]
) -> None:
    log_dir = make_log_dir(tmp_path / "d1", 1)

    def fail() -> None:
        raise shortage()

    with pytest.raises(ShortageError) as raised:
        await log_dir.run(fail)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log_dir.is_online
    log_dir.stop()
