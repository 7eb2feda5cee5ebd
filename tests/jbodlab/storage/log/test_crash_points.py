"""A process that dies at any single step of its work leaves files that open again.

The disk in between counts what changes it. At the chosen step it does half of a write, or nothing
of any other call, and from then on refuses everything, as the disk of a dead process.
"""

from __future__ import annotations

import contextlib
from uuid import UUID

import pytest

from jbodlab.record_batch.record_batch import build_batch, read_header
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.ids import TopicPartition
from tests.builders import batch_at
from tests.jbodlab.storage.log.direct_log import DirectLog
from tests.jbodlab.storage.log.dying import DeadError, DyingFileSystem

TOPIC_ID = UUID("00000000-0000-4000-8000-00000000002a")
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100, retention_ms=-1)
CHANGING = (
    "open_append",
    "mkdir",
    "rename",
    "unlink",
    "write_bytes",
    "write_atomically",
    "fsync_file",
    "fsync_dir",
    "rmtree",
)


def _guarded(name):
    real = getattr(PosixFileSystem, name)

    def call(self, *args, **kwargs):
        dies = self.dies_now()
        if dies and name in ("write_bytes", "write_atomically"):
            # In place this leaves half a file, beside its place half a temporary file.
            path, data = args
            end = ".tmp" if name == "write_atomically" else ""
            path.with_name(path.name + end).write_bytes(data[: len(data) // 2])
        self.check()
        if name.startswith("fsync"):
            return None
        return real(self, *args, **kwargs)

    return call


for _name in CHANGING[1:]:
    setattr(DyingFileSystem, _name, _guarded(_name))


class Work:
    """Operations that were tried, and the contents that the log may have afterwards."""

    def __init__(self):
        self.log = None
        self.acknowledged = []
        self.allowed = [[]]

    def append(self, epoch):
        offset = self.log.log_end_offset
        batch = batch_at(offset, epoch=epoch)
        self.allowed = [self.acknowledged, [*self.acknowledged, batch]]
        self.log.append([batch[:16], batch[16:]], [read_header(batch)])
        self.acknowledged = [*self.acknowledged, batch]
        self.allowed = [self.acknowledged]

    def truncate(self, count):
        before = self.acknowledged
        # Segments are dropped one by one, so every state in between may be found.
        self.allowed = [before[:n] for n in range(count, len(before) + 1)]
        self.log.truncate_to(2 * count)
        self.acknowledged = before[:count]
        self.allowed = [self.acknowledged]

    def run(self, fs, log_dir):
        self.log = DirectLog.create(fs, log_dir, TopicPartition("orders", 3), TOPIC_ID, CONFIG)
        for number in range(8):
            self.append(epoch=number // 3)
        self.log.flush()
        self.truncate(4)
        for number in range(4, 9):
            self.append(epoch=number)
        self.log.close(clean=True)


def log_of(log_dir):
    return DirectLog.load(PosixFileSystem(), log_dir / "orders-3", CONFIG)


def content(log):
    found = b""
    while data := log.read(2 * len(found) // BATCH_SIZE, 1 << 20):
        found += data
    return found


BATCH_SIZE = len(build_batch([(None, b"v" * 20)] * 2, timestamp_ms=0))


@pytest.mark.parametrize("tens", range(20))
def test_a_death_at_any_step_leaves_what_was_acknowledged(tmp_path, tens):
    for step in range(10 * tens + 1, 10 * tens + 11):
        log_dir = tmp_path / str(step)
        log_dir.mkdir()
        fs = DyingFileSystem(step)
        work = Work()
        with contextlib.suppress(DeadError):
            work.run(fs, log_dir)
        if work.log is not None:
            work.log.abandon()
        if not (log_dir / "orders-3").exists():
            continue

        log = log_of(log_dir)

        assert content(log) in [b"".join(batches) for batches in work.allowed]
        count = log.log_end_offset // 2
        entry = log.producers.entry(7)
        assert (entry.last_sequence if entry else -1) == 2 * count - 1
        offset = log.log_end_offset
        batch = build_batch(
            [(None, b"v" * 20)] * 2, base_offset=offset, leader_epoch=99, timestamp_ms=9
        )
        log.append([batch], [read_header(batch)])
        assert log.read(offset, 1) == batch
        log.abandon()


def test_the_work_has_fewer_steps_than_are_tried(tmp_path):
    fs = DyingFileSystem(10**9)

    Work().run(fs, tmp_path)

    assert 50 < 10**9 - fs.steps_left < 200
