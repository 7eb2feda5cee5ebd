"""Replicas that a start makes of the copies of a replica that an interrupted move left."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

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


def current(
    directory: DirectoryId, end: int = 10, epochs: tuple[tuple[int, int], ...] = ((0, 0),)
) -> FoundCopy:
    return FoundCopy(
        directory_id=directory, is_future=False, epochs=epochs, start_offset=0, end_offset=end
    )


def future(
    directory: DirectoryId, end: int = 10, epochs: tuple[tuple[int, int], ...] = ((0, 0),)
) -> FoundCopy:
    return FoundCopy(
        directory_id=directory, is_future=True, epochs=epochs, start_offset=0, end_offset=end
    )


def fates(*copies: FoundCopy, assigned: DirectoryId, may_return: bool = False) -> list[Fate]:
    return list(decide(copies, assigned, may_return=may_return))


def test_a_replica_is_used_wherever_it_lies() -> None:
    assert fates(current(ONE), assigned=TWO) == [Fate.USE]


def test_a_complete_copy_that_the_metadata_want_is_promoted() -> None:
    assert fates(current(ONE), future(TWO), assigned=TWO) == [Fate.RETIRE, Fate.PROMOTE]


def test_a_copy_that_lacks_records_is_not_promoted_whatever_the_metadata_want() -> None:
    assert fates(current(ONE, 10), future(TWO, 9), assigned=TWO) == [Fate.USE, Fate.RESUME]
    other_epoch = future(TWO, 20, ((0, 0), (2, 5)))
    assert fates(current(ONE, 10), other_epoch, assigned=TWO) == [Fate.USE, Fate.RESUME]


def test_an_epoch_without_records_does_not_make_a_copy_incomplete() -> None:
    assert fates(current(ONE, 10, ((0, 0), (1, 10))), future(TWO, 10), assigned=TWO) == [
        Fate.RETIRE,
        Fate.PROMOTE,
    ]


def test_a_move_goes_on_when_the_metadata_want_the_log() -> None:
    assert fates(current(ONE), future(TWO), assigned=ONE) == [Fate.USE, Fate.RESUME]


def test_a_copy_alone_becomes_the_replica_where_it_is_wanted() -> None:
    assert fates(future(TWO), assigned=TWO) == [Fate.PROMOTE]
    assert fates(future(TWO), assigned=ONE) == [Fate.RESUME]


def test_a_copy_alone_waits_if_the_only_complete_log_may_come_back() -> None:
    assert fates(future(TWO), assigned=TWO, may_return=True) == [Fate.RESUME]


def test_what_a_move_has_left_waits_for_its_copy_also_beside_the_copy_of_the_next_move() -> None:
    former = replace(current(ONE, 10), is_moved=True)
    for others in ([], [future(TWO, 12)]):
        found = fates(former, *others, assigned=TWO, may_return=True)
        assert found == [Fate.PUT_ASIDE, *[Fate.RESUME] * len(others)]
    assert fates(former, assigned=TWO) == [Fate.USE]


def test_of_two_replicas_the_one_that_goes_further_is_used() -> None:
    assert fates(current(ONE, 10), current(TWO, 12), assigned=ONE) == [Fate.RETIRE, Fate.USE]
    newer = current(ONE, 5, ((0, 0), (3, 4)))
    assert fates(newer, current(TWO, 12), assigned=TWO) == [Fate.USE, Fate.PUT_ASIDE]


def test_of_two_equal_replicas_the_one_that_the_metadata_want_is_used() -> None:
    assert fates(current(ONE), current(TWO), assigned=TWO) == [Fate.RETIRE, Fate.USE]
    assert fates(current(ONE), current(TWO), assigned=ONE) == [Fate.USE, Fate.RETIRE]


def test_a_replica_with_records_of_its_own_is_kept() -> None:
    made_anew = current(TWO, 3, ((7, 0),))
    assert fates(current(ONE, 100), made_anew, assigned=TWO) == [Fate.PUT_ASIDE, Fate.USE]


def test_of_two_copies_one_goes_on() -> None:
    assert fates(current(ONE, 20), future(TWO, 5), future(THREE, 7), assigned=ONE) == [
        Fate.USE,
        Fate.RETIRE,
        Fate.RESUME,
    ]


def test_there_is_never_more_than_one_replica() -> None:
    kinds = [current(ONE, 5), current(TWO, 6), future(ONE, 5), future(TWO, 6), future(THREE, 6)]
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
