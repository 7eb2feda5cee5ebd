"""Fields without a CRC: the JSON form tells where it cannot be right, the text is Kafka's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jbodlab.metadata.log.batches import control_batch
from jbodlab.metadata.records.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from tests.storage_tool.dumping import TIME_MS, dump, leader_change, registration, write

JSON = ("--cluster-metadata-decoder", "--output=json")
LOG = [leader_change(), registration(30, base_offset=1), registration(30, base_offset=2)]
SNAPSHOT = [
    control_batch(SnapshotHeaderRecord(), base_offset=0, epoch=1, timestamp_ms=TIME_MS),
    registration(30, base_offset=1),
    control_batch(SnapshotFooterRecord(), base_offset=2, epoch=1, timestamp_ms=TIME_MS),
]
EPOCH, MAGIC = range(12, 16), 16


def problems(path: Path) -> list[str]:
    lines = map(json.loads, dump(*JSON, path).lines)
    return [line["message"] for line in lines if line["kind"] == "problem"]


@pytest.mark.parametrize(
    ("batches", "name"),
    [(LOG, f"{0:020d}.log"), (SNAPSHOT, f"{3:020d}-{1:010d}.checkpoint")],
)
@pytest.mark.parametrize("flipped", [0x01, 0x80])
def test_every_change_of_an_epoch_or_a_magic_is_told_in_json(
    tmp_path: Path, batches: list[bytes], name: str, flipped: int
) -> None:
    assert problems(write(tmp_path, *batches, name=name)) == []
    for index in range(len(batches)):
        for position in (*EPOCH, MAGIC):
            damaged = bytearray(batches[index])
            damaged[position] ^= flipped
            path = write(
                tmp_path, *batches[:index], bytes(damaged), *batches[index + 1 :], name=name
            )
            done = dump(*JSON, path)
            assert problems(path) or done.err, (index, position)


def test_epochs_that_rise_are_no_problem_where_a_leader_begins(tmp_path: Path) -> None:
    later = control_batch(SnapshotFooterRecord(), base_offset=3, epoch=4, timestamp_ms=TIME_MS)

    assert problems(write(tmp_path, *LOG, later)) == []


def test_epochs_of_other_logs_are_not_judged(tmp_path: Path) -> None:
    risen = bytearray(LOG[2])
    risen[15] = 9
    path = write(tmp_path, LOG[0], LOG[1], bytes(risen))

    assert '"problem"' not in dump("--print-data-log", "--output=json", path).out
    assert problems(path) == ["epoch 9 follows epoch 1 without a leader change"]
