"""Fate of the copies of replicas that a start finds, beside or in place of their logs.

A move between directories may have ended at any of its steps, with the process or with a disk. The
copies are told apart by three facts of each copy: where the metadata wants the replica, how far the
copy goes, and whether its folder has the name of a current or of a future replica:

    one current replica                            it is used, wherever it lies
    two of them, one perhaps under the name that   the one that goes further, of equal ones the
      a swap gives it: the process ended around      one that the metadata want; the other is
      the swap                                       removed if nothing is in it but what is in the
                                                     first, else kept under another name
    only what a swap has left under that name,
      and its copy may come back                   it waits for the copy; see `former_replicas`
    a current and a future one,
      the metadata want the future one, and it     the future one becomes the replica
        has all that the current one has
      else                                         the move goes on
    only a future one,
      the metadata want it                         it becomes the replica, unless the log that it
                                                     was copied from may come back and is needed
      else                                         it waits for its replica, and the move goes on

How far a copy goes is its last leader epoch and then its end.

Source: KIP-858, "Replica management"; `kafka.log.LogManager.recoverAbandonedFutureLogs`. Apache
Kafka promotes a future replica also where it lacks records, and does not start with two current
ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial

import msgspec

from broker.disk.directory import LogDir, LogWithState
from broker.disk.life import LoadedReplica
from broker.placement import replica_folders
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.storage.directory import names
from jbodlab.storage.log.leader_epochs import LeaderEpochs
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.errors import KafkaError, LogDirError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicId, TopicPartition

logger = logging.getLogger(__name__)


class Fate(Enum):
    """Decision about one copy."""

    USE = auto()
    """It is the replica."""
    PROMOTE = auto()
    """It was a future replica, and is the replica from now on."""
    RESUME = auto()
    """It is a future replica, whose move goes on."""
    RETIRE = auto()
    """It is removed."""
    PUT_ASIDE = auto()
    """It is kept under another name, for people to look at."""


IN_PLACE = (Fate.USE, Fate.PROMOTE)
"""Of the copy that is the replica."""


class FoundCopy(msgspec.Struct, frozen=True, kw_only=True):
    """One copy of a replica."""

    directory_id: DirectoryId | None
    is_future: bool
    is_moved: bool = False
    """Whether a move has left it in its source until the copy is on the target's disk."""
    epochs: tuple[tuple[int, int], ...]
    start_offset: int
    end_offset: int

    @property
    def reach(self) -> tuple[int, int]:
        """How far it goes."""
        return (self.epochs[-1][0] if self.epochs else -1), self.end_offset

    def contains(self, other: FoundCopy) -> bool:
        """Return whether it has all records of another copy, as far as leader epochs tell."""
        start = max(self.start_offset, other.start_offset)
        mine, theirs = LeaderEpochs(self.epochs), LeaderEpochs(other.epochs)
        mine.truncate_from(start)
        theirs.truncate_from(start)
        common = mine.common_end(theirs, min(self.end_offset, other.end_offset))
        return common == other.end_offset


class FoundLogs(msgspec.Struct, frozen=True, kw_only=True):
    """The logs and former replicas to use, of all that was found.

    Attributes:
        replicas: The logs of replicas.
        copies: Those of them that were nothing but future replicas.
        futures: The future replicas whose moves go on.
        formers: Former replicas of moves whose copies are in directories that are offline; closed.
    """

    replicas: Sequence[LoadedReplica]
    copies: frozenset[TopicPartition]
    futures: Sequence[LoadedReplica]
    formers: Sequence[LoadedReplica] = ()

    @property
    def waiting(self) -> frozenset[TopicPartition]:
        """The partitions that have a future replica only."""
        complete = {each.log.topic_partition for each in self.replicas}
        return frozenset(each.log.topic_partition for each in self.futures) - complete


def decide(
    copies: Sequence[FoundCopy], assigned: DirectoryId, *, may_return: bool
) -> Sequence[Fate]:
    """Decide what becomes of all copies of one replica.

    Args:
        copies: The copies that were found; not empty.
        assigned: The directory that the metadata want.
        may_return: Whether another log of it may lie in a directory that is offline, and no other
            broker has its records.

    Returns:
        The fate of each; at most one of them is the replica, and one the future replica.
    """

    def rank(index: int) -> tuple[tuple[int, int], bool, bool]:
        copy = copies[index]
        return copy.reach, copy.directory_id == assigned, not copy.is_moved

    numbers = range(len(copies))
    fates = [Fate.RETIRE] * len(copies)
    logs = [n for n in numbers if not copies[n].is_future]
    current = max(logs, key=rank, default=None)
    future = max(
        (n for n in numbers if copies[n].is_future),
        key=lambda n: (copies[n].directory_id == assigned, copies[n].reach),
        default=None,
    )
    if may_return and all(copies[n].is_moved for n in logs):
        # Records appended since the move are in the directory that may come back.
        current = None
        for n in logs:
            fates[n] = Fate.PUT_ASIDE
    if current is not None:
        fates[current] = Fate.USE
        for n in numbers:
            if not copies[n].is_future and not copies[current].contains(copies[n]):
                # Not what an interrupted swap leaves.
                fates[n] = Fate.PUT_ASIDE
    if future is None:
        return fates
    is_assigned = copies[future].directory_id == assigned
    if current is None:
        fates[future] = Fate.PROMOTE if is_assigned and not may_return else Fate.RESUME
    elif is_assigned and copies[future].contains(copies[current]):
        fates[future], fates[current] = Fate.PROMOTE, Fate.RETIRE
    elif copies[future].directory_id != copies[current].directory_id:
        fates[future] = Fate.RESUME
    return fates


async def settle(
    found: Sequence[LoadedReplica], image: MetadataImage, broker_id: BrokerId, *, any_offline: bool
) -> FoundLogs:
    """Decide about everything that was found, and do it; each file on its directory's thread."""
    by_partition: dict[TopicPartition, list[LoadedReplica]] = {}
    for each in found:
        by_partition.setdefault(each.log.topic_partition, []).append(each)
    replicas: list[LoadedReplica] = []
    futures: list[LoadedReplica] = []
    formers: list[LoadedReplica] = []
    copies: set[TopicPartition] = set()
    for topic_partition, logs in by_partition.items():
        if len(logs) == 1 and not logs[0].is_future and not logs[0].log.files.is_moved:
            replicas.append(logs[0])
            continue
        state = _state(logs[0].log, image)
        assigned = UNASSIGNED if state is None else state.directory(broker_id)
        may_return = any_offline and state is not None and state.isr == (broker_id,)
        fates = decide(
            [facts_of(each.log, each.log_dir) for each in logs], assigned, may_return=may_return
        )
        has_current = any(not each.is_future and not each.log.files.is_moved for each in logs)
        has_failed, has_none = False, not {*fates} & {*IN_PLACE}
        # A log that takes a place comes before one that leaves it: a crash between loses nothing.
        for each, fate in sorted(zip(logs, fates, strict=True), key=lambda pair: pair[1].value):
            logger.info("found %s, decision: %s", each.log.files.directory, fate.name)
            is_replica, is_moved = fate in IN_PLACE, each.log.files.is_moved
            if fate is Fate.RETIRE and has_failed:
                continue  # It is better than none, and the next start decides anew.
            if not await _carry_out(each, fate):
                has_failed |= is_replica
                if has_none and is_moved:
                    formers.append(each)
                continue
            if fate is Fate.RESUME:
                futures.append(each)
            elif is_replica:
                replicas.append(each)
                if (each.is_future or is_moved) and not has_current:
                    copies.add(topic_partition)
    return FoundLogs(replicas=replicas, copies=frozenset(copies), futures=futures, formers=formers)


async def _carry_out(found: LoadedReplica, fate: Fate) -> bool:
    """Rename what has to be; returns whether it is there to be used."""
    steps: dict[Fate, Callable[[LogFiles, LogDir], None]] = {
        Fate.USE: replica_folders.promote,
        Fate.PROMOTE: replica_folders.promote,
        Fate.RETIRE: _retire,
        Fate.PUT_ASIDE: _put_aside,
    }
    step = steps.get(fate)
    if step is None:
        return True
    if fate not in IN_PLACE:
        found.log_dir.replica_count -= 1
    try:
        await found.log_dir.run(partial(step, found.log.files, found.log_dir))
        if fate in IN_PLACE:
            # A move may have ended before its copy was on the disk, and the others are removed.
            request = found.log.state.sync_request(with_active=True)
            await found.log_dir.run(partial(found.log.files.sync, found.log_dir.fs, request))
            found.log.state.synced(request)
    except (LogDirError, KafkaError) as error:
        logger.warning("leaving %s unchanged: %s", found.log.files.directory, error)
        return False
    return fate in IN_PLACE


def _retire(files: LogFiles, log_dir: LogDir) -> None:
    try:
        files.rename_to(names.delete_dir(files.topic_partition, log_dir.environment.new_hex()))
    finally:
        files.abandon()


def _put_aside(files: LogFiles, log_dir: LogDir) -> None:
    try:
        if not files.is_moved:
            files.rename_to(names.stray_dir(files.topic_partition, log_dir.environment.new_hex()))
    finally:
        files.abandon()


def facts_of(log: LogWithState, log_dir: LogDir) -> FoundCopy:
    """Return what is to be known of a log in a directory."""
    return FoundCopy(
        directory_id=log_dir.directory_id,
        is_future=log.files.is_future,
        is_moved=log.files.is_moved,
        epochs=log.state.epochs.entries,
        start_offset=log.start_offset,
        end_offset=log.state.end_offset,
    )


def _state(log: LoadedLog, image: MetadataImage) -> PartitionRegistration | None:
    topic_id = log.files.topic_id
    if topic_id is None:
        return None
    return image.topics.partition(TopicId(topic_id), log.topic_partition.partition)
