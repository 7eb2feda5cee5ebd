"""Replicas that a start makes of the copies of a replica that an interrupted move left."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.disk.directory.log_dir import LogDir
from broker.disk.life.loading import LoadedReplica
from broker.placement.found_replicas import Fate, FoundCopy, decide, settle
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.storage.directory.names import moved_dir
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.vocabulary.ids import DirectoryId, TopicId
from tests.broker.disks import directory_id, make_log_dirs
from tests.broker.logs import TOPIC_ID, append, make_log
from tests.broker.replicas import ME, Metadata, broker, feature, partition_record, topic

ONE, TWO, THREE = directory_id(1), directory_id(2), directory_id(3)
HEX = "0" * 32


NUMBERED = {"1": ONE, "2": TWO, "3": THREE}


def copy_of(text: str) -> FoundCopy:
    """Return a copy: its directory, `f` if it is a future one, `m` if a move has left it, its end.

    Behind `@` are the epochs with their first offsets; epoch 0 from 0 on by default.
    """
    place, _, epochs = text.partition("@")
    where, _, end = place.partition(":")
    entries = [tuple(map(int, each.split("/"))) for each in epochs.split(",") if each]
    return FoundCopy(
        directory_id=NUMBERED[where[0]],
        is_future="f" in where,
        is_moved="m" in where,
        epochs=tuple((epoch, start) for epoch, start in entries or [(0, 0)]),
        start_offset=0,
        end_offset=int(end or 10),
    )


def fates(*copies: FoundCopy, assigned: DirectoryId, may_return: bool = False) -> list[Fate]:
    return list(decide(copies, assigned, may_return=may_return))


@pytest.mark.parametrize(
    ("rule", "found", "assigned", "expected"),
    [
        ("a replica is used wherever it lies", "1", "2", "USE"),
        ("a complete copy that the metadata want is promoted", "1 2f", "2", "RETIRE PROMOTE"),
        ("a copy that lacks records is not promoted", "1 2f:9", "2", "USE RESUME"),
        ("a copy of another epoch is not promoted", "1 2f:20@0/0,2/5", "2", "USE RESUME"),
        ("an epoch without records is no lack", "1@0/0,1/10 2f", "2", "RETIRE PROMOTE"),
        ("a move goes on when the metadata want the log", "1 2f", "1", "USE RESUME"),
        ("a copy alone becomes the replica where it is wanted", "2f", "2", "PROMOTE"),
        ("a copy alone goes on where it is not wanted", "2f", "1", "RESUME"),
        ("a copy alone waits if the only log may come back", "2f", "2 may return", "RESUME"),
        ("what a move has left waits for its copy", "1m", "2 may return", "PUT_ASIDE"),
        ("so it does beside the copy of the next move", "1m 2f:12", "2 may return",
         "PUT_ASIDE RESUME"),
        ("what a move has left is used where no copy comes back", "1m", "2", "USE"),
        ("of two replicas the one that goes further is used", "1 2:12", "1", "RETIRE USE"),
        ("a newer epoch goes further", "1:5@0/0,3/4 2:12", "2", "USE PUT_ASIDE"),
        ("of two equal replicas the wanted one is used", "1 2", "2", "RETIRE USE"),
        ("of two equal replicas the wanted one is used", "1 2", "1", "USE RETIRE"),
        ("a replica with records of its own is kept", "1:100 2:3@7/0", "2", "PUT_ASIDE USE"),
        ("of two copies one goes on", "1:20 2f:5 3f:7", "1", "USE RETIRE RESUME"),
    ],
)  # fmt: skip
def test_fates_of_what_is_found(rule: str, found: str, assigned: str, expected: str) -> None:
    copies = [copy_of(each) for each in found.split()]
    wanted, _, may_return = assigned.partition(" ")

    decided = fates(*copies, assigned=NUMBERED[wanted], may_return=bool(may_return))

    assert " ".join(fate.name for fate in decided) == expected, rule


def test_there_is_never_more_than_one_replica() -> None:
    kinds = [copy_of(each) for each in ("1:5", "2:6", "1f:5", "2f:6", "3f:6")]
    for assigned in (ONE, TWO, THREE):
        for mask in range(1, 1 << len(kinds)):
            chosen = [kind for bit, kind in enumerate(kinds) if mask >> bit & 1]
            for may_return in (False, True):
                found = fates(*chosen, assigned=assigned, may_return=may_return)
                live = [fate for fate in found if fate in (Fate.USE, Fate.PROMOTE)]
                assert len(live) <= 1
                assert len(live) == 1 or all(copy.is_future for copy in chosen)
                assert sum(fate is Fate.RESUME for fate in found) <= 1


def image(assigned: DirectoryId, topic_id: UUID = TOPIC_ID) -> MetadataImage:
    metadata = Metadata()
    metadata.apply(
        feature(),
        broker(1, ONE, TWO),
        topic(topic_id=TopicId(topic_id)),
        partition_record((1,), (assigned,), topic_id=TopicId(topic_id)),
    )
    return metadata.image


def loaded(log_dir: LogDir, *, is_future: bool, count: int = 1) -> LoadedReplica:
    log = make_log(log_dir.path, 0, future_hex=HEX if is_future else None)
    append(log, count=count)
    log_dir.replica_count += 1
    return LoadedReplica(log=log, log_dir=log_dir, high_watermark=1, is_future=is_future)


def swapped(source: LogDir, target: LogDir) -> tuple[LoadedReplica, LoadedReplica]:
    """Return what a swap leaves until its copy is on the disk, and the copy, which goes further."""
    former, copy = loaded(source, is_future=False), loaded(target, is_future=False, count=2)
    former.log.files.rename_to(moved_dir(former.log.topic_partition, HEX))
    return former, copy


def names(log_dir: LogDir) -> list[str]:
    return sorted(path.name.replace(HEX, "HEX") for path in log_dir.path.iterdir())


async def test_promotion_renames_the_copy_and_removes_the_log(tmp_path: Path) -> None:
    one, two = make_log_dirs(tmp_path, 2).all
    logs = [loaded(one, is_future=False), loaded(two, is_future=True)]

    found = await settle(logs, image(TWO), ME, any_offline=False)

    assert [each.log_dir for each in found.replicas] == [two]
    assert not found.futures
    assert not found.copies
    assert names(two) == ["orders-0"]
    assert [name.endswith("-delete") for name in names(one)] == [True]
    assert (one.replica_count, two.replica_count) == (0, 1)


async def test_a_copy_is_on_its_disk_before_the_others_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B45, where the process ended between a swap and the sync of the copy."""
    one, two = make_log_dirs(tmp_path, 2).all
    former, copy = swapped(one, two)
    at_the_sync: list[str] = []
    synced = LogFiles.sync

    def sync(files: LogFiles, *args: Any, **options: Any) -> None:
        at_the_sync.extend((files.directory.parent.name, *names(one)))
        synced(files, *args, **options)

    monkeypatch.setattr(LogFiles, "sync", sync)

    await settle([former, copy], image(TWO), ME, any_offline=False)

    assert at_the_sync == ["d2", "orders-0.movedHEX-stray"]
    assert copy.log.state.recovery_point == 2
    assert [name.endswith("-delete") for name in names(one)] == [True]


async def test_the_others_stay_where_the_directory_of_the_copy_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dirs = make_log_dirs(tmp_path, 2)
    one, two = log_dirs.all
    former, copy = swapped(one, two)

    def sync(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "it does not sync")

    monkeypatch.setattr(LogFiles, "sync", sync)

    found = await settle([former, copy], image(TWO), ME, any_offline=False)

    assert not found.replicas
    assert names(one) == ["orders-0.movedHEX-stray"]
    assert not two.is_online


@pytest.mark.parametrize("is_future", [True, False])
async def test_a_copy_alone_is_noted_as_one_that_may_lack_records(
    tmp_path: Path, is_future: bool
) -> None:
    _, two = make_log_dirs(tmp_path, 2).all
    copy = loaded(two, is_future=is_future)
    if not is_future:
        # Files that a move has left, as the directory of its copy is gone.
        copy.log.files.rename_to(moved_dir(copy.log.topic_partition, HEX))

    found = await settle([copy], image(TWO), ME, any_offline=False)

    assert found.copies == {copy.log.topic_partition}
    assert names(two) == ["orders-0"]


async def test_a_copy_alone_of_the_last_in_sync_waits_while_a_directory_is_offline(
    tmp_path: Path,
) -> None:
    _, two = make_log_dirs(tmp_path, 2).all
    copy = loaded(two, is_future=True)

    found = await settle([copy], image(TWO), ME, any_offline=True)

    assert found.waiting == {copy.log.topic_partition}
    assert names(two) == ["orders-0.HEX-future"]
