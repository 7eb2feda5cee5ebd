"""A damaged metadata log: a torn tail is cut, anything else is refused or fetched again."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jbodlab.metadata.log import clean_close
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.storage.directory.filesystem import Buffer
from jbodlab.storage.directory.posix_filesystem import PosixAppendFile, PosixFileSystem
from jbodlab.vocabulary.errors import CorruptRecordError
from tests.metadata_batches import data_batch

BATCHES = 9
PER_SEGMENT = 3
FILES = [f"{number:020d}.log" for number in range(0, 2 * BATCHES, 2 * PER_SEGMENT)]

# Byte of a batch to what it is part of.
FIELDS = {
    "base offset": 7,
    "base offset, high": 1,
    "length": 11,
    "length, huge": 8,
    "leader epoch": 12,
    "magic": 16,
    "crc": 17,
    "attributes": 22,
    "last offset delta": 26,
    "timestamp": 30,
    "producer id": 43,
    "records count": 60,
    "body": 64,
    "last byte": -1,
}


def batch(base_offset: int, *, epoch: int = 1) -> bytes:
    # Bytes of a value that look like part of a header must not deceive the search for one.
    records = [
        VersionedRecord(ConfigRecord(name=name, value="\u00ff" * 9 + "x"), 0) for name in "ab"
    ]
    return data_batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=1000)


SIZE = len(batch(0))


def offsets(log: MetadataLog) -> list[int]:
    found: list[int] = []
    offset = log.start_offset
    while data := log.read(offset):
        found += [each.base_offset for each in read_batches(data)]
        offset = found[-1] + 2
    return found


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments of three batches."""
    directory = tmp_path_factory.mktemp("original")
    log = MetadataLog.open(directory, segment_bytes=PER_SEGMENT * SIZE)
    for number in range(BATCHES):
        log.append(batch(2 * number, epoch=number // 4 + 1))
    log.close()
    assert sorted(path.name for path in log.directory.glob("*.log")) == FILES
    return log.directory


@pytest.fixture
def directory(original: Path, tmp_path: Path) -> Path:
    """Return the folder of a log that may be damaged."""
    return Path(shutil.copytree(original, tmp_path / original.name))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x01
    path.write_bytes(data)


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.log*")}


def byte_of(number: int, byte: int) -> tuple[str, int]:
    """Return file and position of one byte of a batch; negative bytes count from its end."""
    start = number % PER_SEGMENT * SIZE
    return FILES[number // PER_SEGMENT], start + (byte if byte >= 0 else SIZE + byte)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("number", range(BATCHES - 1))
def test_a_damaged_batch_that_others_follow_is_refused(
    directory: Path, number: int, field: str
) -> None:
    name, position = byte_of(number, FIELDS[field])
    flip(directory / name, position)
    before = content(directory)

    with pytest.raises(CorruptRecordError) as refused:
        MetadataLog.open(directory.parent, epoch_max=3)

    start = number % PER_SEGMENT * SIZE
    assert refused.value.path == directory / name
    assert refused.value.position == start
    assert "follows at position" in str(refused.value) or "continues with" in str(refused.value)
    assert content(directory) == before


@pytest.mark.parametrize("field", FIELDS)
def test_a_damaged_last_batch_is_cut_and_kept_aside(
    directory: Path, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, position = byte_of(BATCHES - 1, FIELDS[field])
    flip(directory / name, position)
    start = (PER_SEGMENT - 1) * SIZE
    whole = (directory / name).read_bytes()

    with caplog.at_level(logging.WARNING):
        log = MetadataLog.open(directory.parent, epoch_max=3)

    assert offsets(log) == list(range(0, 2 * BATCHES - 2, 2))
    log.close()
    assert (directory / name).read_bytes() == whole[:start]
    assert (directory / f"{name}.{start}.damaged").read_bytes() == whole[start:]
    (line,) = caplog.records
    assert line.set_aside == str(directory / f"{name}.{start}.damaged")  # type: ignore[attr-defined]
    assert line.reason  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "tail",
    [
        b"\x00",
        bytes(500),
        bytes(3 * SIZE),
        b"garbage" * 20,
        batch(2 * BATCHES, epoch=3)[:-1],
        batch(2 * BATCHES, epoch=3)[:40],
        # As on a disk that lost power: the size of the file was written, its bytes were not.
        batch(2 * BATCHES, epoch=3)[:70] + bytes(SIZE - 70),
        # Bytes that an earlier file has left there.
        batch(4),
    ],
    ids=["one", "zeros", "long zeros", "garbage", "cut", "header cut", "half written", "old"],
)
def test_a_tail_that_nothing_valid_follows_is_cut_and_kept_aside(
    directory: Path, tail: bytes
) -> None:
    last = directory / FILES[-1]
    whole = last.read_bytes()
    last.write_bytes(whole + tail)

    log = MetadataLog.open(directory.parent, epoch_max=3)

    assert offsets(log) == list(range(0, 2 * BATCHES, 2))
    log.append(batch(2 * BATCHES, epoch=3))
    log.close()
    assert last.read_bytes() == whole + batch(2 * BATCHES, epoch=3)
    assert (directory / f"{last.name}.{len(whole)}.damaged").read_bytes() == tail


def test_what_is_kept_aside_is_never_overwritten(directory: Path) -> None:
    last = directory / FILES[-1]
    for tail in (b"one", b"two"):
        with last.open("ab") as file:
            file.write(tail)
        MetadataLog.open(directory.parent).close()

    kept = {path.name: path.read_bytes() for path in directory.glob("*.damaged*")}
    name = f"{FILES[-1]}.{PER_SEGMENT * SIZE}.damaged"
    assert kept == {name: b"one", f"{name}.2": b"two"}


def test_an_epoch_that_is_too_high_is_seen_where_it_falls_again(directory: Path) -> None:
    name, position = byte_of(BATCHES - 2, 15)
    flip(directory / name, position)

    # Epoch 2 instead of 3: nothing tells, and nothing depends on it.
    MetadataLog.open(directory.parent, epoch_max=3).close()

    name, position = byte_of(1, 15)
    data = bytearray((directory / name).read_bytes())
    data[position] = 3
    (directory / name).write_bytes(data)
    with pytest.raises(CorruptRecordError, match="has leader epoch 1 after one of epoch 3"):
        MetadataLog.open(directory.parent, epoch_max=3)


def _lose_file(directory: Path) -> None:
    (directory / FILES[1]).unlink()


def _lose_end_of_closed_file(directory: Path) -> None:
    path = directory / FILES[0]
    path.write_bytes(path.read_bytes()[:-SIZE])


def _lose_batches(directory: Path) -> None:
    path = directory / FILES[2]
    data = path.read_bytes()
    path.write_bytes(data[:SIZE] + data[2 * SIZE :] + batch(2 * BATCHES, epoch=3))


def _zero_in_the_middle(directory: Path) -> None:
    path = directory / FILES[2]
    data = path.read_bytes()
    path.write_bytes(bytes(2 * SIZE) + data[2 * SIZE :])


def _garbage_behind_a_closed_file(directory: Path) -> None:
    with (directory / FILES[0]).open("ab") as file:
        file.write(b"garbage" * 20)


@pytest.mark.parametrize("others", [FILES[:-1], []], ids=["others are there", "all are gone"])
def test_a_missing_last_file_is_noticed_by_what_lies_beside_it(
    directory: Path, others: Sequence[str]
) -> None:
    """An index has entries only where records were; it goes first when a segment is removed."""
    missing = directory / FILES[-1]
    missing.with_suffix(".index").write_bytes(bytes(8))
    for name in FILES:
        if name not in others:
            (directory / name).unlink()
    before = content(directory)

    with pytest.raises(
        CorruptRecordError, match=f"{missing.name} is damaged.*the segment is missing"
    ):
        MetadataLog.open(directory.parent)
    assert content(directory) == before

    copy = MetadataLog.open(directory.parent, is_copy=True)
    assert offsets(copy) == list(range(0, 2 * PER_SEGMENT * len(others), 2))
    copy.close()


def test_an_index_without_a_file_is_nothing_below_the_end_or_without_entries(
    directory: Path,
) -> None:
    """Kafka removes them in another order: at the beginning of a log, where snapshots reach."""
    (directory / f"{1:020d}.index").write_bytes(bytes(8))
    (directory / f"{2 * BATCHES:020d}.timeindex").write_bytes(b"")

    log = MetadataLog.open(directory.parent)

    assert offsets(log) == list(range(0, 2 * BATCHES, 2))
    log.close()


@pytest.mark.parametrize(
    ("damage", "name", "position"),
    [
        (_lose_file, FILES[0], PER_SEGMENT * SIZE),
        (_lose_end_of_closed_file, FILES[0], (PER_SEGMENT - 1) * SIZE),
        (_lose_batches, FILES[2], SIZE),
        (_zero_in_the_middle, FILES[2], 0),
        (_garbage_behind_a_closed_file, FILES[0], PER_SEGMENT * SIZE),
    ],
)
def test_a_hole_is_refused(
    directory: Path, damage: Callable[[Path], None], name: str, position: int
) -> None:
    damage(directory)
    before = content(directory)

    with pytest.raises(CorruptRecordError) as refused:
        MetadataLog.open(directory.parent)

    assert (refused.value.path, refused.value.position) == (directory / name, position)
    assert content(directory) == before


def test_a_valid_batch_far_behind_the_damage_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jbodlab.storage.log.segment_reader.SEARCH_BLOCK_BYTES", 2 * SIZE)
    for shift in (0, 1, 60, 61, SIZE - 1):
        home = tmp_path / str(shift)
        log = MetadataLog.open(home)
        log.append(batch(0))
        log.close()
        path = log.directory / FILES[0]
        path.write_bytes(batch(0) + bytes(7 * SIZE + shift) + batch(2))

        with pytest.raises(CorruptRecordError, match=f"position {8 * SIZE + shift}"):
            MetadataLog.open(home)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("number", [0, 3, 4, 7, 8])
def test_a_copy_is_cut_at_the_damage(
    directory: Path, number: int, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, position = byte_of(number, FIELDS[field])
    flip(directory / name, position)

    with caplog.at_level(logging.WARNING):
        log = MetadataLog.open(directory.parent, is_copy=True, epoch_max=3)

    assert offsets(log) == list(range(0, 2 * number, 2))
    log.append(batch(2 * number, epoch=3))
    log.close()
    again = MetadataLog.open(directory.parent)
    assert offsets(again) == list(range(0, 2 * number + 2, 2))
    again.close()
    expected = logging.ERROR if number < BATCHES - 1 else logging.WARNING
    assert [line.levelno for line in caplog.records] == [expected]


def test_a_copy_with_a_missing_file_is_cut_there(directory: Path) -> None:
    _lose_file(directory)

    log = MetadataLog.open(directory.parent, is_copy=True)

    assert offsets(log) == [0, 2, 4]
    log.close()
    assert sorted(path.name for path in directory.glob("*.log*")) == FILES[:1]


class Disk:
    """Bytes of each file that would be left after a power failure.

    After a sync that failed the system takes the bytes for written: they can be read, and no later
    sync writes them, unless they are written once more.
    """

    def __init__(self) -> None:
        self.durable: dict[int, bytes] = {}
        self.believed: dict[int, bytes] = {}
        self.fails = False

    def sync(self, inode: int, content: bytes) -> None:
        fresh = content[len(self.believed.get(inode, b"")) :]
        self.believed[inode] = content
        if self.fails:
            raise OSError(5, "Input/output error")
        self.durable[inode] = self.durable.get(inode, b"") + fresh


class WeakFile(PosixAppendFile):
    __slots__ = ("_disk", "_inode")

    def __init__(self, path: Path, disk: Disk) -> None:
        super().__init__(path)
        self._disk = disk
        self._inode = path.stat().st_ino
        if not self.size():
            # A new file; it may have the number of one that was removed.
            disk.durable[self._inode] = disk.believed[self._inode] = b""

    def fsync(self) -> None:
        self._disk.sync(self._inode, self.pread(self.size(), 0))


class WeakFileSystem(PosixFileSystem):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def open_append(self, path: Path) -> WeakFile:
        return WeakFile(path, self._disk)


def test_a_tail_whose_sync_failed_is_written_again_before_it_is_believed(tmp_path: Path) -> None:
    disk = Disk()
    fs = WeakFileSystem(disk)
    log = MetadataLog.open(tmp_path, fs=fs)
    log.append(batch(0))
    log.flush()
    log.append(batch(2))
    disk.fails = True
    with pytest.raises(OSError, match="Input/output error"):
        log.flush()
    # A disk that goes on failing ends the start as well.
    with pytest.raises(OSError, match="Input/output error"):
        MetadataLog.open(tmp_path, fs=fs)
    disk.fails = False

    again = MetadataLog.open(tmp_path, fs=fs)

    assert offsets(again) == [0, 2]
    again.append(batch(4))
    again.flush()
    path = again.directory / FILES[0]
    left = disk.durable[path.stat().st_ino]
    assert left == path.read_bytes() == batch(0) + batch(2) + batch(4)
    assert [each.name for each in again.directory.iterdir() if "tmp" in each.name] == []


class CountingFile(PosixAppendFile):
    __slots__ = ("_counts", "_name")

    def __init__(self, path: Path, counts: list[str]) -> None:
        super().__init__(path)
        self._name = path.name
        self._counts = counts

    def writev(self, buffers: Sequence[Buffer]) -> int:
        self._counts.append(self._name)
        return super().writev(buffers)


class CountingFileSystem(PosixFileSystem):
    def __init__(self) -> None:
        self.writes: list[str] = []

    def open_append(self, path: Path) -> CountingFile:
        return CountingFile(path, self.writes)


def rewritten(directory: Path, *, is_copy: bool = False) -> list[str]:
    """Open a log, and return which files of segments were written."""
    fs = CountingFileSystem()
    MetadataLog.open(directory.parent, fs=fs, is_copy=is_copy).close()
    return [name for name in fs.writes if ".log" in name]


@pytest.mark.parametrize(("is_copy", "written"), [(False, [f"{FILES[2]}.tmp"]), (True, [])])
def test_only_the_last_segment_of_the_controllers_log_is_written_again(
    directory: Path, is_copy: bool, written: list[str]
) -> None:
    (directory / clean_close.FILE).unlink()

    assert rewritten(directory, is_copy=is_copy) == written


def test_a_log_that_was_closed_in_order_is_not_written_again(directory: Path) -> None:
    assert rewritten(directory) == []
    # That start has taken the mark away, and its own stop has written another one.
    assert rewritten(directory) == []


def test_the_mark_of_a_clean_close_counts_for_one_start_only(directory: Path) -> None:
    MetadataLog.open(directory.parent)

    assert not (directory / clean_close.FILE).exists()
    assert rewritten(directory) == [f"{FILES[2]}.tmp"]


@pytest.mark.parametrize(
    "mark",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"version":1,"baseOffset":12,"size":0}',
        b'{"version":0,"baseOffset":12,"size":1}',
    ],
)
def test_a_mark_of_another_end_counts_for_nothing(directory: Path, mark: bytes) -> None:
    (directory / clean_close.FILE).write_bytes(mark)

    assert rewritten(directory) == [f"{FILES[2]}.tmp"]


def test_a_log_whose_sync_has_failed_is_not_marked_as_closed_in_order(tmp_path: Path) -> None:
    disk = Disk()
    log = MetadataLog.open(tmp_path, fs=WeakFileSystem(disk))
    log.append(batch(0))
    disk.fails = True
    with pytest.raises(OSError, match="Input/output error"):
        log.flush()
    disk.fails = False

    log.close()

    assert not (log.directory / clean_close.FILE).exists()


def test_a_disk_that_refuses_the_mark_fails_no_stop(directory: Path) -> None:
    log = MetadataLog.open(directory.parent)
    (directory / clean_close.FILE).mkdir()

    log.close()
