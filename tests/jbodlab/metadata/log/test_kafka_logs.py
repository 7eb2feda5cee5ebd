"""Logs and snapshots that Apache Kafka wrote: every byte is understood, and the replay agrees."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from jbodlab.metadata.image.image_writer import losses
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.quorum_state import QuorumState, read_quorum_state
from jbodlab.metadata.log.snapshots import (
    decode_snapshot,
    latest_snapshot,
    read_bootstrap,
    read_snapshot,
    snapshot_bytes,
)
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.control_records import (
    LeaderChangeMessage,
    body_version,
    decode_control,
    encode_control,
)
from jbodlab.metadata.records.frame import payload_text
from jbodlab.metadata.records.json_text import json_text, to_json
from jbodlab.record_batch.record_batch import crc_is_valid, iterate_headers, iterate_records
from tests.snapshot_files import image_records

FIXTURES = Path(__file__).parents[3] / "fixtures" / "kafka-metadata-logs"
CLUSTERS = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
FILES = sorted(
    str(path.relative_to(FIXTURES))
    for pattern in ("*.log", "*.checkpoint")
    for path in FIXTURES.rglob(pattern)
)
DUMPED = [
    name
    for name in FILES
    if "controller/__cluster" in name
    and (FIXTURES / name.split("/")[0] / f"dump-{Path(name).name}.txt").exists()
]
CONTROL_LINE = re.compile(r"headerKeys: \[\] (?!payload)(\w+):? (\{.*\}|\w+\(\d\))$")


def test_fixtures_are_there() -> None:
    assert CLUSTERS == ["3.9.2-admin", "4.3.1-disks"]
    assert len(FILES) == 11
    assert len(DUMPED) == 4


@pytest.mark.parametrize("name", FILES)
def test_every_record_is_decoded_and_encoded_to_the_same_bytes(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    end = 0

    for position, header in iterate_headers(data):
        end = position + header.size
        assert crc_is_valid(data, position, header)
        for record in iterate_records(data, position, header):
            if header.is_control:
                control = decode_control(record.key, record.value)
                assert encode_control(control) == (record.key, record.value)
            else:
                assert frame.encode(*frame.decode(record.value)) == record.value

    assert end == len(data)
    assert sum(batch.size for batch in read_batches(data)) == len(data)


@pytest.mark.parametrize("name", DUMPED)
def test_json_is_what_kafkas_dump_tool_prints(name: str) -> None:
    dump = (FIXTURES / name.split("/")[0] / f"dump-{Path(name).name}.txt").read_text()
    data_lines = [
        line.partition(" payload: ")[2] for line in dump.splitlines() if " payload: " in line
    ]
    control_lines = [match[2] for line in dump.splitlines() if (match := CONTROL_LINE.search(line))]

    found_data, found_control = [], []
    for batch in read_batches((FIXTURES / name).read_bytes()):
        found_data += [payload_text(versioned) for _, versioned in batch.data_records]
        for _, control in batch.records if batch.is_control else ():
            assert not isinstance(control, frame.VersionedRecord)
            found_control.append(json_text(to_json(control, body_version(control))))

    assert found_data == data_lines
    assert len(found_control) == len(control_lines)
    for found, printed in zip(found_control, control_lines, strict=True):
        # The release 3.9 prints only the type of a leader change.
        assert printed in (found, "LEADER_CHANGE(2)")


@pytest.mark.parametrize(
    "name", [name for name in FILES if "/__cluster" in name and ".check" in name]
)
def test_folding_the_log_gives_kafkas_snapshot(name: str) -> None:
    path = FIXTURES / name
    snapshot = read_snapshot(path)
    from_snapshot = MetadataLoader()
    from_snapshot.load_snapshot(
        snapshot.records, snapshot.end_offset, snapshot.epoch, snapshot.timestamp_ms
    )

    loader = MetadataLoader()
    for batch in read_batches(path.with_name("00000000000000000000.log").read_bytes()):
        if batch.base_offset >= snapshot.end_offset:
            break
        loader.load(batch)

    assert loader.image == from_snapshot.image
    assert loader.image.offset == snapshot.end_offset - 1


@pytest.mark.parametrize(
    "name", [name for name in FILES if "/__cluster" in name and ".check" in name]
)
def test_log_behind_a_snapshot_leads_to_the_same_image(name: str) -> None:
    path = FIXTURES / name
    log = path.with_name("00000000000000000000.log").read_bytes()
    snapshot = read_snapshot(path)
    whole, resumed = MetadataLoader(), MetadataLoader()
    resumed.load_snapshot(
        snapshot.records, snapshot.end_offset, snapshot.epoch, snapshot.timestamp_ms
    )

    for batch in read_batches(log):
        whole.load(batch)
        resumed.load(batch)

    assert resumed.image == whole.image


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_image_of_a_kafka_cluster_survives_a_snapshot_of_our_own(cluster: str) -> None:
    loader = MetadataLoader()
    directory = FIXTURES / cluster / "controller" / "__cluster_metadata-0"
    for batch in read_batches((directory / "00000000000000000000.log").read_bytes()):
        loader.load(batch)
    image = loader.image
    data = snapshot_bytes(
        image_records(image), epoch=image.epoch, timestamp_ms=image.timestamp_ms, created_ms=1
    )

    header, records = decode_snapshot(data)
    again = MetadataLoader()
    again.load_snapshot(records, image.offset + 1, image.epoch, header.last_contained_log_timestamp)

    assert again.image == image
    assert losses(image) == ()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_kafkas_directory_is_opened_and_continued(cluster: str, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / cluster / "controller", tmp_path, dirs_exist_ok=True)
    directory = tmp_path / "__cluster_metadata-0"
    before = (directory / "00000000000000000000.log").read_bytes()
    epochs = (directory / "leader-epoch-checkpoint").read_bytes()
    topic_id = (directory / "partition.metadata").read_bytes()

    log = MetadataLog.open(tmp_path)
    batches = list(read_batches(log.read(0)))
    log.close()

    assert batches[-1].last_offset + 1 == log.end_offset
    assert (directory / "00000000000000000000.log").read_bytes() == before
    assert (directory / "leader-epoch-checkpoint").read_bytes() == epochs
    assert (directory / "partition.metadata").read_bytes() == topic_id
    first = batches[0].records[0][1]
    assert isinstance(first, LeaderChangeMessage)
    state = read_quorum_state(directory)
    assert state == QuorumState(leader_id=100, leader_epoch=batches[-1].epoch, voters=(100,))
    assert latest_snapshot(directory) is not None


@pytest.mark.parametrize(("cluster", "features"), [("3.9.2-admin", 1), ("4.3.1-disks", 6)])
def test_kafkas_bootstrap_file_is_read(cluster: str, features: int) -> None:
    records = read_bootstrap(FIXTURES / cluster / "controller" / "bootstrap.checkpoint")

    assert len(records) == features
    assert records[0].record.NAME == "FEATURE_LEVEL_RECORD"
