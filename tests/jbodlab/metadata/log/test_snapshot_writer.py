"""Snapshots written piece by piece: complete under their name, nothing at all before."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.snapshot_writer import SnapshotWriter
from jbodlab.metadata.log.snapshots import (
    MAX_RECORDS_PER_BATCH,
    read_latest,
    snapshot_bytes,
    snapshot_paths,
)
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.ids import LeaderEpoch, Offset, TopicId
from tests.metadata_batches import data_batch
from tests.snapshot_files import image_records

LEVEL = VersionedRecord(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)


def topics(count: int) -> list[VersionedRecord]:
    return [
        VersionedRecord(TopicRecord(name=f"t{n}", topic_id=TopicId(UUID(int=(n + 1) << 70))), 0)
        for n in range(count)
    ]


def image_of(records: list[VersionedRecord]) -> MetadataImage:
    delta = MetadataDelta(EMPTY)
    for offset, (record, _) in enumerate(records):
        delta.replay(record, offset)
    return delta.apply(Offset(len(records) - 1), LeaderEpoch(3), 1_000)


def writer_of(directory: Path, image: MetadataImage) -> SnapshotWriter:
    return SnapshotWriter(PosixFileSystem(), directory, image, created_ms=2_000)


def test_pieces_make_the_same_file_as_one_write(tmp_path: Path) -> None:
    image = image_of([LEVEL, *topics(2 * MAX_RECORDS_PER_BATCH)])
    writer = writer_of(tmp_path, image)

    pieces = 1
    while writer.write_piece():
        assert snapshot_paths(tmp_path) == []
        pieces += 1
    path = writer.finish()

    assert pieces == 4
    assert path == tmp_path / "00000000000000002049-0000000003.checkpoint"
    assert path.read_bytes() == snapshot_bytes(
        image_records(image), epoch=3, timestamp_ms=1_000, created_ms=2_000
    )
    assert writer.size_bytes == path.stat().st_size
    assert not stat.S_IMODE(path.stat().st_mode) & 0o222
    assert list(tmp_path.iterdir()) == [path]


def test_a_snapshot_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, image_of([LEVEL]))
    writer.abandon()
    writer = writer_of(tmp_path, image_of([LEVEL]))
    writer.write_piece()

    writer.abandon()

    assert list(tmp_path.iterdir()) == []


def test_a_kill_at_any_moment_leaves_a_state_that_loads(tmp_path: Path) -> None:
    records = [LEVEL, *topics(2 * MAX_RECORDS_PER_BATCH)]
    home = tmp_path / "node"
    log = MetadataLog.open(home)
    log.append(data_batch(records, base_offset=0, epoch=3, timestamp_ms=1_000))
    log.flush()
    writer = writer_of(log.directory, image_of(records))
    copies = 0

    def killed(step: Callable[[], object]) -> object:
        nonlocal copies
        result = step()
        shutil.copytree(home, tmp_path / f"copy-{copies}")
        copies += 1
        return result

    while killed(writer.write_piece):
        pass
    killed(writer.finish)
    log.close()

    assert copies == 5
    for number in range(copies):
        again = MetadataLog.open(tmp_path / f"copy-{number}")
        names = [path.name for path in again.directory.iterdir()]
        assert not any(name.endswith(".part") for name in names)
        loader = MetadataLoader()
        snapshot = read_latest(again.directory)
        assert (snapshot is not None) == (number == copies - 1)
        if snapshot is not None:
            loader.load_snapshot(
                snapshot.records, snapshot.end_offset, snapshot.epoch, snapshot.timestamp_ms
            )
        while data := again.read(loader.next_offset):
            for batch in read_batches(data):
                loader.load(batch)
        again.close()
        assert image_records(loader.image) == image_records(image_of(records))
        assert (loader.image.offset, loader.image.epoch) == (len(records) - 1, 3)


def test_a_part_of_a_killed_writer_is_written_over(tmp_path: Path) -> None:
    image = image_of([LEVEL])
    (tmp_path / "00000000000000000001-0000000003.checkpoint.part").write_bytes(b"x" * 10_000)
    writer = writer_of(tmp_path, image)

    while writer.write_piece():
        pass

    assert writer.finish().stat().st_size == writer.size_bytes < 1_000
