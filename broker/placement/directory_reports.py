"""Keeps the controller informed of where this broker's replicas are.

Looks at replicas whenever the metadata or a directory changed, and at all of them now and then,
because a single log may fail without any such event. The report is decided in
`broker.placement.reported_directory`; saying it until it is accepted is the work of the assignment
sender.

Before a broker may be unfenced the controller must know all of it: as long as a directory is not
known, its failure would leave the leader where nobody can read it (KIP-858).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from broker.bounds.limits import (
    FIRST_REMINDER_S,
    FOLDERS_INTERVAL_MS,
    REMINDER_S,
    REVIEW_INTERVAL_MS,
    SHOWN_MAX,
)
from broker.controller_link.assignment_sender import AssignmentSender
from broker.disk.calls import ReplicaLostError, missing_folders
from broker.disk.directory import FoundLog, LogDir, LogDirs
from broker.disk.upkeep import PeriodicTasks
from broker.placement.reported_directory import (
    Placement,
    Presence,
    directory_to_report,
    was_made_anew,
)
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from broker.replica.replica_state import Absent, Creating, DataLoss, Offline
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.vocabulary.directory_id import MIGRATING, UNASSIGNED
from jbodlab.vocabulary.errors import KafkaError, LogDirError
from jbodlab.vocabulary.ids import DirectoryId, TopicId, TopicIdPartition

logger = logging.getLogger(__name__)


class DirectoryReports(PeriodicTasks):
    """Reports of directories to the controller, and whether it knows all of them.

    Args:
        replicas: All replicas.
        log_dirs: The directories; `log_dir_failed` is to be called after the replicas know.
        sender: Takes the reports.
        is_new: Tells of a partition, at the first change, whether it came after this broker had
            last run, so that there never was a log of it here.
    """

    def __init__(
        self,
        replicas: ReplicaRegistry,
        log_dirs: LogDirs,
        sender: AssignmentSender,
        is_new: Callable[[TopicIdPartition], bool] = lambda _: False,
    ) -> None:
        self._replicas = replicas
        self._broker_id = replicas.broker_id
        self._log_dirs = log_dirs
        self._sender = sender
        self._is_new = is_new
        self._is_first = True
        self._changed = asyncio.Event()
        super().__init__(
            (
                "review of directories",
                REVIEW_INTERVAL_MS,
                REVIEW_INTERVAL_MS,
                self._review_later,
            ),
            (
                "look for lost replicas",
                FOLDERS_INTERVAL_MS,
                FOLDERS_INTERVAL_MS,
                self.find_lost_replicas,
            ),
        )

    def assign(
        self,
        topic_id: TopicId,
        partition: int,
        directory_id: DirectoryId,
        callback: Callable[[], None] | None = None,
    ) -> None:
        """Report a replica that was opened or found elsewhere, unless something speaks against it.

        Args:
            topic_id: Of the partition.
            partition: Its index.
            directory_id: Where the replica is, or is about to be.
            callback: Called when the controller has accepted; with one, the report is the
                announcement of a move and goes out exactly as it is.
        """
        key = TopicIdPartition(topic_id, partition)
        if callback is not None:
            self._sender.assign(topic_id, partition, directory_id, callback)
            return
        found = self._replicas.of_topic_id(key)
        if found is None:
            self._sender.assign(topic_id, partition, directory_id)
        else:
            self._note_empty_last_in_sync(found)
            self._report(key, found)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Look at the replicas that a change concerns; the replicas have followed it already."""
        del image
        if self._is_first:
            self._note_all()
            self._is_first = False
        for key, registration in delta.changed_partitions.items():
            found = self._replicas.of_topic_id(key)
            if found is not None and self._broker_id in registration.replicas:
                self._note_empty_last_in_sync(found)
                self._report(key, found)
        self._changed.set()

    def log_dir_failed(self, log_dir: LogDir, error: LogDirError) -> None:
        """Look at all replicas again; those that were in creation may have failed unreported."""
        del log_dir, error
        self.review()

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        """Look at all replicas again; some are where the controller does not know them."""
        del former, log_dir, logs
        self.review()

    def review(self) -> None:
        """Look at all replicas."""
        for partition in list(self._replicas.partitions()):
            if partition.data_loss is DataLoss.SUSPECTED:
                self._note_empty_last_in_sync(partition)
            log = partition.log
            # Nearly all of them are where they should be; thousands are passed over quickly.
            if (
                log is None
                or partition.data_loss is DataLoss.REPORTED
                or log.log_dir.directory_id != partition.registration.directory(self._broker_id)
            ):
                self._report(partition.key, partition)
        self._changed.set()

    async def all_known(self) -> None:
        """Return when the controller knows the directories of all replicas, as its records show."""
        loop = asyncio.get_running_loop()
        reminder_s = loop.time() + FIRST_REMINDER_S
        while unknown := self._unknown():
            if loop.time() >= reminder_s:
                logger.warning(
                    "the broker stays fenced: the controller does not know the directories of %d "
                    "replicas yet, such as %s",
                    len(unknown),
                    ", ".join(str(each.topic_partition) for each in unknown[:SHOWN_MAX]),
                )
                reminder_s = loop.time() + REMINDER_S
            self._changed.clear()
            try:
                async with asyncio.timeout(0.2):
                    await self._changed.wait()
            except TimeoutError:
                self.review()

    async def find_lost_replicas(self) -> None:
        """Take replicas offline whose folder somebody removed; their directory is healthy."""
        for log_dir in self._log_dirs.online():
            here = [
                (each, each.log)
                for each in self._replicas.partitions()
                if each.log is not None and each.log.log_dir is log_dir and not each.log.failed
            ]
            try:
                lost = await log_dir.run(partial(_lost, log_dir, here))
            except (LogDirError, KafkaError):
                continue
            for partition, log in lost:
                # Meanwhile it may have moved to another directory.
                if partition.log is log and not log.failed and log.log_dir is log_dir:
                    error = ReplicaLostError(log.files.directory)
                    log_dir.replica_count -= 1
                    log_dir.clean_up(log.files.abandon)
                    log.fail()
                    log.on_failed(error)
            if lost:
                self.review()

    async def _review_later(self) -> None:
        self.review()

    def _unknown(self) -> list[Partition]:
        """Return the replicas of which the controller does not know all that it must."""
        if self._replicas.image.features.metadata_version < JBOD_LEVEL:
            return []
        unknown = []
        for partition in self._replicas.partitions():
            if partition.promised is not None:
                continue
            placement = self._placement(partition)
            is_open = placement.presence is Presence.IN_CREATION
            if is_open or directory_to_report(placement) is not None:
                unknown.append(partition)
        return unknown

    def _report(self, key: TopicIdPartition, partition: Partition) -> None:
        if self._replicas.image.features.metadata_version < JBOD_LEVEL:
            return
        if partition.promised is not None:
            # It is about to move, and the controller was told where to: a word of where it still
            # is would take that back.
            return
        wanted = directory_to_report(self._placement(partition))
        if wanted is None:
            return
        pending = self._sender.pending(key)
        if pending is not None and (
            pending.directory_id == wanted or pending.on_accepted is not None
        ):
            return
        self._sender.assign(key.topic_id, key.partition, wanted)

    def _placement(self, partition: Partition) -> Placement:
        assigned = partition.registration.directory(self._broker_id)
        return Placement(
            assigned=assigned,
            presence=_presence(partition),
            actual=self._actual(partition),
            counts_as_online=(
                assigned in (UNASSIGNED, MIGRATING) or self._log_dirs.by_id(assigned) is not None
            ),
            is_empty_last_in_sync=partition.data_loss is DataLoss.REPORTED,
        )

    def _actual(self, partition: Partition) -> DirectoryId | None:
        """Return the directory of a log, or the one that failed with it."""
        if partition.log is not None:
            return partition.log.log_dir.directory_id
        if partition.held_in is None:
            return None
        log_dir = self._log_dirs.by_path(partition.held_in)
        return None if log_dir is None or log_dir.is_online else log_dir.directory_id

    def _was_made_anew(self, partition: Partition) -> bool:
        """Return whether an earlier process reported this log lost, as it was made anew."""
        assigned = partition.registration.directory(self._broker_id)
        return partition.log is not None and was_made_anew(partition.log.state, assigned)

    def _note_all(self) -> None:
        for partition in self._replicas.partitions():
            self._note_empty_last_in_sync(partition)

    def _note_empty_last_in_sync(self, partition: Partition) -> None:
        """Note a replica that is being made anew though the ISR relies on it alone.

        That happens at the start, and when a replaced disk is taken into service. A replica that
        was never assigned a directory never had a log here: it is not made anew. Nor is one that
        this broker hears of for the first time; the controller had taken it for alive. One that an
        earlier process made anew, and told the controller of, is found empty and is LOST there.
        """
        registration, presence = partition.registration, _presence(partition)
        was_reported = False
        if presence is Presence.IN_CREATION:
            is_made_anew = partition.data_loss is DataLoss.SUSPECTED or (
                self._is_first and not self._is_new(partition.key)
            )
        else:
            was_reported = self._is_first and self._was_made_anew(partition)
            is_made_anew = presence is Presence.ONLINE and (
                partition.data_loss is DataLoss.SUSPECTED or was_reported
            )
        is_empty = partition.log is None or not partition.log.state.end_offset
        is_counted_on = partition.is_last_in_sync or (
            was_reported and partition.awaits_another_leader
        )
        if (
            is_made_anew
            and partition.data_loss is not DataLoss.REPORTED
            and is_counted_on
            and registration.others_may_have_more(is_empty=is_empty)
            and registration.partition_epoch > 0
            and registration.directory(self._broker_id) != UNASSIGNED
        ):
            logger.error(
                "the data of %s was lost with its directory, and the metadata counts on it: this "
                "replica will not lead until another one has been elected",
                partition.topic_partition,
            )
            partition.must_not_lead()


def _presence(partition: Partition) -> Presence:
    match partition.state:
        case Offline():
            return Presence.FAILED
        case Creating():
            return Presence.IN_CREATION
        case Absent():
            return Presence.ABSENT
    return Presence.ONLINE


def _lost(
    log_dir: LogDir, here: list[tuple[Partition, PartitionLog]]
) -> list[tuple[Partition, PartitionLog]]:
    """Return the replicas without a folder; on the directory's thread, so no rename is between."""
    gone = missing_folders(log_dir.fs, log_dir.path, [log.files.directory for _, log in here])
    return [each for each in here if each[1].files.directory in gone]
