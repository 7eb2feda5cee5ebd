from __future__ import annotations

import os
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from controller.metadata_dir import open_metadata_dir
from jbodlab.metadata.log.batches import MetadataBatch, read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.quorum_state import QuorumState, read_quorum_state
from jbodlab.metadata.records.cluster_records import RegisterControllerRecord
from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from jbodlab.metadata.records.control_records import LeaderChangeMessage, Voter
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.storage.directory.directory_lock import DirectoryLock
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import CorruptRecordError, FormatError
from tests.builders import CLUSTER_ID, named_uuid
from tests.controller.formatted import NODE_ID, config_of, format_dir
from tests.controller.shell import led
from tests.metadata_batches import data_batch
from tests.snapshot_files import image_records, write_snapshot


def batches(log: MetadataLog) -> list[MetadataBatch]:
    found: list[MetadataBatch] = []
    while data := log.read(found[-1].last_offset + 1 if found else log.start_offset):
        found += read_batches(data)
    return found


def records(batch: MetadataBatch) -> list[Record]:
    return [item.record for _, item in batch.data_records]


def test_first_records_of_a_fresh_log(tmp_path: Path) -> None:
    with led(format_dir(tmp_path / "m")) as result:
        change, bootstrap, registration = batches(result.log)
        assert result.controller.epoch == 1

    assert result.opened.cluster_id == CLUSTER_ID
    assert change.is_control
    assert change.records == (
        (
            0,
            LeaderChangeMessage(
                leader_id=NODE_ID,
                voters=(Voter(voter_id=NODE_ID),),
                granting_voters=(Voter(voter_id=NODE_ID),),
            ),
        ),
    )
    assert records(bootstrap) == [
        BeginTransactionRecord(name="Bootstrap records"),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        EndTransactionRecord(),
    ]
    (registered,) = records(registration)
    assert isinstance(registered, RegisterControllerRecord)
    assert registered.incarnation_id == UUID(int=1)
    assert {batch.epoch for batch in (change, bootstrap, registration)} == {1}
    assert result.image.offset == 4
    assert result.image.features.metadata_version == 30


def test_each_start_begins_a_new_leader_epoch_and_keeps_the_state(tmp_path: Path) -> None:
    directory = format_dir(tmp_path / "m", level=22)
    with led(directory) as first:
        pass

    with led(directory) as second:
        added = batches(second.log)[3:]
        assert second.controller.epoch == 2

    assert [batch.is_control for batch in added] == [True, False]
    assert second.image.features == first.image.features
    assert read_quorum_state(directory / "__cluster_metadata-0") == QuorumState(
        leader_id=NODE_ID, leader_epoch=2, voters=(NODE_ID,)
    )


def test_without_quorum_state_the_epoch_still_rises(directory: Path) -> None:
    with led(directory):
        pass
    (directory / "__cluster_metadata-0" / "quorum-state").unlink()

    with led(directory) as second:
        assert second.controller.epoch == 2


def test_without_bootstrap_the_latest_level_is_used(tmp_path: Path) -> None:
    with led(format_dir(tmp_path / "m", level=None)) as result:
        assert result.image.features.metadata_version == 30


def test_a_bootstrap_that_a_crash_cut_short_is_aborted_and_written_again(directory: Path) -> None:
    log = MetadataLog.open(directory)
    begin = [
        VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0),
        VersionedRecord(FeatureLevelRecord(name="metadata.version", feature_level=30), 0),
    ]
    log.append(data_batch(begin, base_offset=0, epoch=1, timestamp_ms=0))
    log.close()

    with led(directory) as result:
        written = records(batches(result.log)[2])

    assert written == [
        AbortTransactionRecord(reason="Controller failover"),
        BeginTransactionRecord(name="Bootstrap records"),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        EndTransactionRecord(),
    ]
    assert result.image.features.metadata_version == 30


def test_the_newest_snapshot_is_loaded_before_the_log(directory: Path) -> None:
    with led(directory) as first:
        topic = TopicRecord(name="foo", topic_id=named_uuid("foo"))  # type: ignore[arg-type]
        state = [*image_records(first.image), VersionedRecord(topic, 0)]
        write_snapshot(first.log.directory, state, 500, 7, 0)

    with led(directory) as second:
        assert "foo" in second.image.topics.by_name
        assert second.log.start_offset == 500
        assert second.controller.epoch == 8


def test_an_unformatted_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"No `meta.properties` found in .*/m"):
        open_metadata_dir(config_of(tmp_path / "m"))


def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    directory = format_dir(tmp_path / "m", node_id=7)

    with pytest.raises(FormatError, match="Stored node id 7 doesn't match previous node id 100"):
        open_metadata_dir(config_of(directory))


def test_a_malformed_file_is_refused(directory: Path) -> None:
    (directory / "meta.properties").write_text("version=9\n")

    with pytest.raises(FormatError, match="version number 9"):
        open_metadata_dir(config_of(directory))


@pytest.mark.process
def test_the_lock_is_held_against_other_processes(tmp_path: Path) -> None:
    # Locks of this kind are per process, so the second one must be another.
    lock = DirectoryLock(PosixFileSystem(), tmp_path)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            DirectoryLock(PosixFileSystem(), tmp_path)
        except FormatError:
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    lock.close()

    assert os.waitstatus_to_exitcode(status) == 0


FIXTURES = Path(__file__).parents[1] / "fixtures" / "kafka-metadata-logs"


@pytest.mark.parametrize("has_log", [True, False], ids=["used", "formatted"])
def test_a_directory_with_kafkas_default_features_is_taken(tmp_path: Path, has_log: bool) -> None:
    directory = format_dir(tmp_path / "m", level=None)
    kafkas = FIXTURES / "4.3.1-disks" / "controller"
    shutil.copy(kafkas / "bootstrap.checkpoint", directory)
    if has_log:
        shutil.copytree(kafkas / "__cluster_metadata-0", directory / "__cluster_metadata-0")

    with led(directory) as result:
        levels = {
            "metadata.version": 30,
            "group.version": 1,
            "transaction.version": 2,
            "eligible.leader.replicas.version": 1,
            "share.version": 1,
            "streams.version": 1,
        }
        assert dict(result.image.features.levels) == levels
        assert bool(result.image.topics.by_id) is has_log
        topics = result.image.topics

    with led(directory) as again:
        assert again.image.topics == topics
        assert dict(again.image.features.levels) == levels


def test_a_damaged_bootstrap_file_matters_only_to_an_empty_log(directory: Path) -> None:
    path = directory / "bootstrap.checkpoint"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with (
        pytest.raises(CorruptRecordError, match=r"bootstrap\.checkpoint is damaged"),
        led(directory),
    ):
        pass
    path.write_bytes(whole)
    with led(directory):
        pass

    path.write_bytes(whole[:-1])

    with led(directory) as again:
        assert again.image.features.metadata_version == 30


def test_a_log_that_ends_before_its_snapshot_is_said_to_have_lost_something(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with led(directory) as first:
        assert "later records are lost" not in caplog.text
        write_snapshot(first.log.directory, image_records(first.image), 500, 7, 0)

    with led(directory) as second:
        assert second.log.start_offset == 500
    (line,) = (each for each in caplog.records if each.levelname == "ERROR")
    assert "later records are lost" in line.message
