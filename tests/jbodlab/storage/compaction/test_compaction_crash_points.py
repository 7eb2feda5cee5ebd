"""A process that dies at any step of a round of compaction leaves a log that tells the same.

At the chosen step the disk does half of a write, or nothing of any other call, and refuses all that
comes later. A loss of power takes, besides, the renames since the last sync of their directory.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from jbodlab.storage.compaction.compaction import dirty_range
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from tests.jbodlab.storage.compaction.cleaning import CompactedLog
from tests.jbodlab.storage.log.dying import DeadError, DyingFileSystem

STEPS = 90
STEPS_PER_TEST = 15


class PowerlessFileSystem(DyingFileSystem):
    """A disk whose names, other than its bytes, are lost with the power unless they were synced."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.unsynced: list[tuple[Path, Path]] = []

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        super().rename(source, target, sync=sync)
        self.unsynced.append((source, target))

    def fsync_dir(self, path: Path) -> None:
        super().fsync_dir(path)
        self.unsynced.clear()

    def lose(self, count: int) -> None:
        """Undo the last renames that were not synced."""
        for source, target in reversed(self.unsynced[len(self.unsynced) - count :]):
            target.replace(source)


def filled(folder: Path, fs: PosixFileSystem) -> CompactedLog:
    """Return a log of three groups, of the first of which two segments become one, and the like."""
    log = CompactedLog(folder, segment_bytes=600, index_interval_bytes=100)
    log.append((b"gone", b"aborted"), producer=2, transactional=True)
    log.append((b"a", b"1"), (b"b", b"1"), producer=7)
    for number in range(12):
        log.append((b"a", b"%d" % number * 9), (b"k%d" % number, b"x" * 30))
        if number % 3 == 2:
            log.roll()
    log.abort(2)
    log.append((b"k0", None))
    log.roll()
    log.append((b"end", b"1"))
    log.log.flush()
    log.log.files.fs = fs
    log.log.files.abandon()
    return log


@pytest.fixture(autouse=True)
def _nothing_is_synced(monkeypatch):
    """The power of this machine stays on."""
    monkeypatch.setattr(
        "jbodlab.storage.directory.posix_filesystem._fsync", lambda path, flags: None
    )


@pytest.mark.parametrize("rest", range(STEPS_PER_TEST))
def test_compact_crash_points(tmp_path, rest):
    """I16."""
    for step in range(1 + rest, STEPS + 1, STEPS_PER_TEST):
        for lost in (0, 2, 100):
            folder = tmp_path / f"{step} {lost}"
            folder.mkdir()
            fs = PowerlessFileSystem(10**9)
            log = filled(folder, fs)
            before, end = log.table(), log.end
            producers = log.log.state.producers.entries
            fs.steps_left = step
            with contextlib.suppress(DeadError):
                log.clean(10_000)
            fs.lose(min(lost, len(fs.unsynced)))

            log.reopen(clean=False)

            assert log.table() == before, step
            assert log.end == end
            assert log.log.state.producers.entries == producers
            assert b"aborted" not in {value for _, _, value in log.committed()}
            assert log.names(".damaged") == log.names(".cleaned") == log.names(".swap") == []
            log.clean(30_000)
            assert log.table() == before
            assert dirty_range(log.log.state, log.end, 1).cleanable_bytes == 0
            log.log.abandon()
            if lost >= len(fs.unsynced):
                break


def test_a_round_has_fewer_steps_than_are_tried(tmp_path):
    fs = PowerlessFileSystem(10**9)
    log = filled(tmp_path, fs)
    fs.steps_left = 10**9

    log.clean(10_000)

    assert 60 < 10**9 - fs.steps_left < STEPS
    log.log.abandon()


def test_segments_between_the_cleaned_ones_go_when_a_swap_is_completed(tmp_path):
    """Also where their index of aborted transactions and their snapshot are."""
    log = filled(tmp_path, PosixFileSystem())
    log.use(segment_bytes=10_000)
    table = log.table()
    fs = PowerlessFileSystem(10**9)
    log.log.files.fs = fs
    renamed = 0

    def rename(source: Path, target: Path, *, sync: bool = True) -> None:
        nonlocal renamed
        renamed += target.name.endswith(".deleted")
        if renamed:
            raise DeadError
        source.replace(target)

    fs.rename = rename
    with contextlib.suppress(DeadError):
        log.clean(10_000)

    assert log.names(".txnindex.swap")
    assert len(log.names(".log")) > 4
    log.reopen(clean=False)
    assert log.names(".swap") == []
    assert len(log.names(".log")) == 2
    assert len(log.names(".snapshot")) <= 3
    assert log.table() == table
    assert log.aborted()
