"""The metadata log, read from the files of several controllers."""

from __future__ import annotations

from pathlib import Path

from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.frame import VersionedRecord
from lab.machine.growing import GrowingLog
from tests.metadata_batches import data_batch


def batch(offset: int, epoch: int, count: int = 1) -> bytes:
    records = [VersionedRecord(NoOpRecord(), 0)] * count
    return data_batch(records, base_offset=offset, epoch=epoch, timestamp_ms=epoch)


def log_file(home: Path, number: int) -> Path:
    file = home / str(number) / "__cluster_metadata-0" / f"{0:020}.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


async def offsets(log: GrowingLog) -> list[tuple[int, int]]:
    return [(each.base_offset, each.epoch) for each in await log.read()]


async def test_a_batch_counts_when_most_controllers_have_it(tmp_path: Path) -> None:
    files = [log_file(tmp_path, number) for number in range(3)]
    log = GrowingLog(tmp_path / str(number) for number in range(3))
    files[0].write_bytes(batch(0, 1) + batch(1, 1))
    files[1].write_bytes(batch(0, 1))
    assert await offsets(log) == [(0, 1)]
    assert await offsets(log) == []
    # The first one is gone, and has not what the others agree on.
    for file in files[1:]:
        file.write_bytes(batch(0, 1) + batch(1, 2, count=3))
    assert await offsets(log) == [(1, 2)]


async def test_a_log_whose_end_is_cut_is_read_on(tmp_path: Path) -> None:
    file = log_file(tmp_path, 0)
    log = GrowingLog([tmp_path / "0", tmp_path / "gone", tmp_path / "0"])
    file.write_bytes(batch(0, 1) + batch(1, 1))
    assert await offsets(log) == [(0, 1), (1, 1)]
    # It is longer than before, and no batch begins where the old one ended.
    file.write_bytes(batch(0, 1) + batch(1, 2, count=2) + batch(3, 2))
    found = await offsets(log) + await offsets(log)
    assert found == [(3, 2)]


async def test_the_only_controller_is_read_as_it_writes(tmp_path: Path) -> None:
    file = log_file(tmp_path, 0)
    log = GrowingLog([tmp_path / "0"])
    file.write_bytes(batch(0, 1) + batch(1, 1)[:20])
    assert await offsets(log) == [(0, 1)]
    file.write_bytes(batch(0, 1) + batch(1, 1))
    assert await offsets(log) == [(1, 1)]
