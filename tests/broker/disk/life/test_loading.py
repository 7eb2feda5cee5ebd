from __future__ import annotations

import errno
import json
import threading
from pathlib import Path
from uuid import UUID

import pytest

from broker.disk.directory.lifecycle import LogDirState
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.life.closing import close_log_dirs
from broker.disk.life.loading import LoadedReplica, load_logs
from jbodlab.storage.directory.checkpoints import read_offsets, write_offsets
from jbodlab.storage.directory.names import moved_dir, parse_partition_dir
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.errors import FormatError
from jbodlab.vocabulary.ids import BrokerEpoch, TopicPartition
from tests.broker.disks import DeadDisk, FaultPlan, directory_id, fails, make_log_dir
from tests.broker.logs import FS, TOPIC_ID, Hosted, append, make_log, topic_partition
from tests.jbodlab.storage.log.direct_log import DirectLog


def make_dirs(tmp_path: Path, count: int = 2) -> LogDirs:
    dirs = []
    for number in range(1, count + 1):
        path = tmp_path / f"d{number}"
        path.mkdir(exist_ok=True)
        dirs.append(LogDir(path, directory_id(number), identity=PosixFileSystem().identity(path)))
    return LogDirs(
        dirs, metadata_dir=make_log_dir(tmp_path / "metadata", 99), on_fatal=lambda _reason: None
    )


def config_of(_topic: str) -> LogConfig:
    return LogConfig()


def all_ours(_topic_id: UUID | None, partition: int) -> TopicPartition | None:
    return topic_partition(partition)


def with_an_id(topic_id: UUID | None, partition: int) -> TopicPartition | None:
    return None if topic_id is None else topic_partition(partition)


def hosted(replicas: list[LoadedReplica]) -> Hosted:
    made = Hosted()
    for replica in replicas:
        made.put(DirectLog(replica.log), replica.high_watermark)
    return made


async def test_what_was_closed_cleanly_is_found_again_in_its_directory(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path)
    assert await load_logs(log_dirs, all_ours, config_of) == []
    replicas = Hosted()
    for number in (1, 2):
        log = make_log(tmp_path / f"d{number}", number)
        append(log, count=5)
        replicas.put(log, 3 + number)

    assert await close_log_dirs(log_dirs, replicas, BrokerEpoch(42), hang_deadline_s=10)

    marker = json.loads((tmp_path / "d1" / ".kafka_cleanshutdown").read_text())
    assert marker == {"version": 0, "brokerEpoch": 42}
    points = read_offsets(FS, tmp_path / "d2" / "recovery-point-offset-checkpoint")
    assert points == {topic_partition(2): 5}
    again = make_dirs(tmp_path)
    found = await load_logs(again, all_ours, config_of)
    assert [
        (each.log.topic_partition, each.log_dir.path.name, each.high_watermark, each.is_future)
        for each in found
    ] == [(topic_partition(1), "d1", 4, False), (topic_partition(2), "d2", 5, False)]
    assert {log_dir.state for log_dir in again.all} == {LogDirState.ONLINE}
    assert [log_dir.replica_count for log_dir in again.all] == [1, 1]
    # The marker is gone before a log is touched: from now on the directory is not clean.
    assert not (tmp_path / "d1" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(("flush_messages", "synced"), [(1, 5), (5, 5), (6, 0)])
async def test_what_a_kill_left_is_synced_where_each_batch_is(
    tmp_path: Path, flush_messages: int, synced: int
) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    log = make_log(tmp_path / "d1", 0)
    append(log, count=5)
    log.close(clean=False)

    found = await load_logs(
        log_dirs, all_ours, lambda _topic: LogConfig(flush_messages=flush_messages)
    )

    assert [each.log.state.recovery_point for each in found] == [synced]
    assert [each.log.state.disk.metadata_unsynced for each in found] == [synced == 0]


async def test_a_high_watermark_beyond_the_log_is_cut(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    log = make_log(tmp_path / "d1", 0)
    append(log, count=2)
    log.close(clean=True)
    write_offsets(FS, tmp_path / "d1" / "replication-offset-checkpoint", {topic_partition(0): 50})

    found = await load_logs(log_dirs, all_ours, config_of)

    assert [each.high_watermark for each in found] == [2]


async def test_a_malformed_checkpoint_only_costs_time(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    make_log(tmp_path / "d1", 0).close(clean=False)
    (tmp_path / "d1" / "recovery-point-offset-checkpoint").write_text("0\n7\n")

    found = await load_logs(log_dirs, all_ours, config_of)

    assert len(found) == 1
    assert log_dirs.all[0].is_online


async def test_a_malformed_line_of_log_starts_makes_no_other_deleted_records_readable(
    tmp_path: Path,
) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    for number in (0, 1):
        log = make_log(tmp_path / "d1", number)
        append(log, count=5)
        log.close(clean=False)
    path = tmp_path / "d1" / "log-start-offset-checkpoint"
    tp = topic_partition(1)
    path.write_text(f"0\n2\n{topic_partition(0).topic} 0 ?\n{tp.topic} {tp.partition} 4\n")

    found = await load_logs(log_dirs, all_ours, config_of)

    starts = {each.log.files.topic_partition: each.log.state.start_offset for each in found}
    assert starts == {topic_partition(0): 0, tp: 4}


async def test_stray_replicas_are_renamed_and_kept(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    for number in (0, 1):
        make_log(tmp_path / "d1", number).close(clean=False)
    asked: list[tuple[UUID | None, int]] = []

    def replica_of(topic_id: UUID | None, partition: int) -> TopicPartition | None:
        asked.append((topic_id, partition))
        return None if partition == 1 else topic_partition(partition)

    found = await load_logs(log_dirs, replica_of, config_of)

    assert [each.log.topic_partition for each in found] == [topic_partition(0)]
    assert asked == [(TOPIC_ID, 0), (TOPIC_ID, 1)]
    names = sorted(path.name for path in (tmp_path / "d1").iterdir() if path.is_dir())
    assert names[0] == "orders-0"
    assert names[1].startswith("orders-1.")
    assert names[1].endswith("-stray")
    assert len(names) == 2


LONG_ID, CUT_ID = UUID(int=0x212), UUID(int=0x209)


@pytest.mark.parametrize(("letters", "partition"), [(211, 0), (212, 0), (213, 3), (209, 1000)])
@pytest.mark.parametrize("content", [None, b"", b"version: 0\n"])
async def test_what_a_move_has_left_is_told_by_its_topic_id_where_its_name_is_cut(
    tmp_path: Path, letters: int, partition: int, content: bytes | None
) -> None:
    """Beside a topic of just that name, whose checkpoints and settings are its own."""
    log_dirs = make_dirs(tmp_path, 1)
    path = tmp_path / "d1"
    long = TopicPartition("t" * letters, partition)
    left = moved_dir(long, "0" * 32)
    cut = parse_partition_dir(left).topic_partition
    assert cut != long
    for named, topic_id, count in ((long, LONG_ID, 5), (cut, CUT_ID, 2)):
        log = DirectLog.create(FS, path, named, topic_id, LogConfig())
        append(log, count=count)
        log.close(clean=False)
    (path / str(long)).rename(path / left)
    if content is not None:
        (path / left / "partition.metadata").write_bytes(content)
    write_offsets(FS, path / "recovery-point-offset-checkpoint", {cut: 2})
    write_offsets(FS, path / "replication-offset-checkpoint", {cut: 1, long: 4})
    replicas = {(LONG_ID, partition): long, (CUT_ID, partition): cut}
    asked: list[str] = []

    def replica_of(topic_id: UUID | None, number: int) -> TopicPartition | None:
        return None if topic_id is None else replicas.get((topic_id, number))

    def asked_config_of(topic: str) -> LogConfig:
        asked.append(topic)
        return LogConfig()

    found = await load_logs(log_dirs, replica_of, asked_config_of)

    facts = {
        each.log.topic_partition: (
            each.log.files.topic_id,
            each.log.state.end_offset,
            each.log.state.recovery_point,
            each.high_watermark,
            each.log.files.is_moved,
        )
        for each in found
    }
    assert facts.pop(cut) == (CUT_ID, 2, 2, 1, False)
    if content is None:
        assert facts == {long: (LONG_ID, 5, 0, 4, True)}
        assert {*asked} == {long.topic, cut.topic}
    else:
        # Nobody can tell whose it is: it is kept, and nobody uses it.
        assert not facts
        (stray,) = path.glob("*-stray")
        assert not parse_partition_dir(stray.name).is_moved
    assert log_dirs.all[0].is_online


async def test_a_current_name_of_another_topic_than_its_id_is_put_aside(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    make_log(tmp_path / "d1", 0).close(clean=False)

    found = await load_logs(log_dirs, lambda *_: TopicPartition("orders2", 0), config_of)

    assert found == []
    assert [each.name.partition(".")[0] for each in (tmp_path / "d1").glob("*-stray")] == [
        "orders-0"
    ]


async def test_foreign_entries_are_left_alone(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    for name in ("lost+found", "__cluster_metadata-0", "remote-log-index-cache", "notes"):
        (tmp_path / "d1" / name).mkdir()
    (tmp_path / "d1" / "readme.txt").write_text("a plain file")

    assert await load_logs(log_dirs, all_ours, config_of) == []

    assert log_dirs.all[0].is_online
    assert (tmp_path / "d1" / "lost+found").is_dir()
    assert (tmp_path / "d1" / "readme.txt").is_file()


@pytest.mark.parametrize(
    "content", [b"", b"version: 0\n", bytes(40), b"version: 0\ntopic_id: ???", b"\xff\xfe garbage"]
)
async def test_damaged_partition_metadata_costs_that_replica_only(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    make_log(tmp_path / "d1", 1).close(clean=False)
    make_log(tmp_path / "d1", 2).close(clean=False)
    (tmp_path / "d1" / "orders-1" / "partition.metadata").write_bytes(content)

    found = await load_logs(log_dirs, with_an_id, config_of)

    assert [each.log.topic_partition for each in found] == [topic_partition(2)]
    assert log_dirs.all[0].is_online
    (stray,) = (tmp_path / "d1").glob("orders-1.*-stray")
    assert (stray / "partition.metadata").read_bytes() == content
    assert any(
        record.levelname == "ERROR" and "orders-1/partition.metadata" in record.message
        for record in caplog.records
    )


async def test_entries_that_only_look_like_replicas_are_left_alone(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    for name in (".Trash-1000", "backup-2024", "orders-5"):
        (tmp_path / "d1" / name).mkdir()
        (tmp_path / "d1" / name / "notes.txt").write_text("not ours")
    make_log(tmp_path / "d1", 6).close(clean=False)
    (tmp_path / "d1" / "orders-6" / "partition.metadata").unlink()

    found = await load_logs(
        log_dirs,
        with_an_id,
        config_of,
        is_ours=lambda partition: partition == topic_partition(5),
    )

    assert found == []
    names = {path.name for path in (tmp_path / "d1").iterdir()}
    assert {".Trash-1000", "backup-2024"} <= names
    # A log without a topic id, and what is in the way of a replica of ours, are put aside.
    assert not {"orders-5", "orders-6"} & names
    assert len([name for name in names if name.endswith("-stray")]) == 2


async def test_a_copy_that_holds_no_log_and_is_nobodys_waits_for_its_removal(
    tmp_path: Path,
) -> None:
    log_dirs = make_dirs(tmp_path, 1)
    copy = tmp_path / "d1" / f"orders-5.{'0' * 32}-future"
    copy.mkdir()
    (copy / "partition.metadata").write_bytes(b"")

    found = await load_logs(
        log_dirs,
        with_an_id,
        config_of,
        is_ours=lambda _partition: False,
    )

    assert found == []
    assert not copy.exists()
    (left,) = (tmp_path / "d1").glob("orders-5.*")
    assert left.name.endswith("-delete")


async def test_a_disk_that_hangs_while_it_is_loaded_goes_offline_and_the_others_serve(
    tmp_path: Path,
) -> None:
    disk = DeadDisk()
    disk.resume = threading.Event()
    log_dirs = LogDirs(
        [make_dirs(tmp_path).all[1], LogDir(tmp_path / "d1", directory_id(1), fs=disk)],
        metadata_dir=make_log_dir(tmp_path / "metadata", 99),
        on_fatal=lambda _reason: None,
    )
    make_log(tmp_path / "d2", 0).close(clean=False)

    found = await load_logs(log_dirs, all_ours, config_of, hang_deadline_s=0.2)

    assert [each.log_dir.path.name for each in found] == ["d2"]
    assert [each.is_online for each in log_dirs.all] == [True, False]
    assert log_dirs.all[1].cause == "HUNG: no answer within 200 ms"
    disk.resume.set()


async def test_a_start_that_ends_early_marks_nothing_as_cleanly_shut_down(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path)
    for number in (1, 2):
        make_log(tmp_path / f"d{number}", 0).close(clean=False)

    def wrong(topic: str) -> LogConfig:
        raise FormatError(topic)

    with pytest.raises(FormatError):
        await load_logs(log_dirs, all_ours, wrong)

    await close_log_dirs(log_dirs, Hosted(), BrokerEpoch(9), hang_deadline_s=10)

    for number in (1, 2):
        assert not (tmp_path / f"d{number}" / ".kafka_cleanshutdown").exists()


async def test_a_directory_that_fails_while_loading_goes_offline_and_the_others_serve(
    tmp_path: Path,
) -> None:
    log_dirs = make_dirs(tmp_path)
    for number in (1, 2):
        make_log(tmp_path / f"d{number}", number).close(clean=False)
    damaged = tmp_path / "d1" / "orders-1" / "partition.metadata"
    damaged.write_text("no topic id here")

    found = await load_logs(log_dirs, all_ours, config_of)

    assert [each.log_dir.path.name for each in found] == ["d2"]
    assert [log_dir.is_online for log_dir in log_dirs.all] == [False, True]


async def test_the_same_replica_in_two_directories_is_found_twice(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path)
    for number in (1, 2):
        make_log(tmp_path / f"d{number}", 0).close(clean=False)

    found = await load_logs(log_dirs, all_ours, config_of)

    assert [each.log_dir.path.name for each in found] == ["d1", "d2"]


async def test_a_current_and_a_future_replica_are_no_duplicates(tmp_path: Path) -> None:
    log_dirs = make_dirs(tmp_path)
    make_log(tmp_path / "d1", 0).close(clean=False)
    make_log(tmp_path / "d2", 0, future_hex="0" * 32).close(clean=False)

    found = await load_logs(log_dirs, all_ours, config_of)

    assert [each.is_future for each in found] == [False, True]


async def test_directories_that_were_not_loaded_or_failed_are_left_as_they_are(
    tmp_path: Path,
) -> None:
    log_dirs = make_dirs(tmp_path)
    (tmp_path / "d1" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')

    assert await close_log_dirs(log_dirs, Hosted(), BrokerEpoch(9), hang_deadline_s=10)

    text = (tmp_path / "d1" / ".kafka_cleanshutdown").read_text()
    assert json.loads(text)["brokerEpoch"] == 5
    assert not (tmp_path / "d2" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("error", [None, errno.ENOSPC])
async def test_what_checkpoints_say_of_logs_that_are_gone_is_forgotten_at_a_start(
    tmp_path: Path, error: int | None
) -> None:
    """Another one of the name may come; a disk without room for that is no worse for it."""
    log_dirs = make_dirs(tmp_path, 1)
    log = make_log(tmp_path / "d1", 1)
    append(log, count=3)
    log.close(clean=False)
    before = {topic_partition(1): 2, topic_partition(2): 5_000}
    path = tmp_path / "d1" / "log-start-offset-checkpoint"
    write_offsets(FS, path, before)
    if error is not None:
        log_dirs.all[0].fs = FaultPlan({"write_atomically": fails(error, "-offset-checkpoint")})  # type: ignore[assignment]

    (found,) = await load_logs(log_dirs, all_ours, config_of)

    assert found.log.state.start_offset == 2
    left = before if error else {topic_partition(1): 2}
    assert read_offsets(FS, path) == left
    assert log_dirs.all[0].is_online
