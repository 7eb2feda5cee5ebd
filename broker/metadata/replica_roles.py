"""Takes each replica to where the metadata and its directory have it: made, turned, ended.

A metadata delta is applied in the order deletions, leaders, followers, settings, brokers. Each
partition is handled for itself: one that cannot be does not keep the others from it.

Source: `kafka.server.ReplicaManager`, KIP-858.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from broker.disk.calls import NoSpaceError
from broker.disk.directory import LogDir, LogDirs
from broker.following.fetcher import FetcherManager
from broker.moves.moves import RunningMoves
from broker.placement.directory_reports import DirectoryReports
from broker.placement.replica_placement import ReplicaPlacement
from broker.placement.returning_replicas import ReturningReplicas
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition, SettingsOfTopics
from broker.replica.registry import ReplicaRegistry
from broker.replica.replica_state import Absent, Creating, Deleted
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.config_records import BROKER_RESOURCE, TOPIC_RESOURCE
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.vocabulary.directory_id import is_reserved
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import TopicId, TopicPartition

logger = logging.getLogger(__name__)

NewPartition = Callable[[TopicPartition, TopicId, PartitionRegistration], Partition]


class ReplicaRoles:
    """The roles that metadata and directories give to the replicas of this broker.

    Args:
        registry: The replicas.
        new_partition: Makes a replica that the metadata has just given to this broker.
        topics: Settings of topics.
        log_dirs: The directories; `log_dir_failed` must be called when one fails.
        placement: The logs in them.
        fetchers: Fetch for followers.
        moves: Between directories.
        assigner: Reports directories to the controller.
    """

    def __init__(
        self,
        registry: ReplicaRegistry,
        *,
        new_partition: NewPartition,
        topics: SettingsOfTopics,
        log_dirs: LogDirs,
        placement: ReplicaPlacement,
        fetchers: FetcherManager,
        moves: RunningMoves,
        assigner: DirectoryReports,
    ) -> None:
        self._registry = registry
        self._new_partition = new_partition
        self._topics = topics
        self._log_dirs = log_dirs
        self._placement = placement
        self._fetchers = fetchers
        self._moves = moves
        self._assigner = assigner
        self._broker_id = registry.broker_id
        self._is_leaving = False
        self.returning = ReturningReplicas(
            registry,
            placement,
            moves.formers,
            open_replica=partial(self._guard, self._open),
            take_offline=self._take_offline,
            take_future=self._take_future,
        )

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Bring the replicas to what a new image says."""
        self._registry.image = image
        for topic_id, topic in delta.deleted_topics.items():
            for index in topic.partitions:
                self._guard(self._stop, TopicPartition(topic.name, index), topic_id)
        leaders, followers = [], []
        for key, registration in delta.changed_partitions.items():
            topic_partition = TopicPartition(image.topics.by_id[key.topic_id].name, key.partition)
            if self._broker_id not in registration.replicas:
                self._guard(self._stop, topic_partition, key.topic_id, registration)
            elif registration.leader == self._broker_id:
                leaders.append((topic_partition, key.topic_id, registration))
            else:
                followers.append((topic_partition, key.topic_id, registration))
        for change in (*leaders, *followers):
            self._guard(self._apply, *change)
        self._apply_settings(delta)
        if delta.changed_brokers:
            for partition in self._registry.partitions():
                if partition.leader is not None:
                    partition.in_sync.set_joinable(self._registry.joinable(partition))
        if self._broker_id in delta.changed_brokers:
            self.returning.registration_changed()

    def begin_shutdown(self) -> None:
        """Follow no more where this broker is not in sync, as it is about to leave.

        Else it would ask to join the ISRs that the controller takes it out of, and its leaders
        would wait for it. Source: `ReplicaManager.applyLocalFollowersDelta`.
        """
        self._is_leaving = True
        for partition in self._registry.partitions():
            if self._has_left(partition):
                self._fetchers.unfollow(partition.topic_partition)

    def log_dir_failed(self, log_dir: LogDir, error: LogDirError) -> None:
        """Take all replicas in a directory offline; touches none of its files."""
        failed = 0
        for partition in list(self._registry.partitions()):
            log = partition.log
            if log is not None and log.log_dir is log_dir:
                failed += 1
                self._guard(self._take_offline, partition, str(error))
                log_dir.clean_up(log.files.abandon)
        self._moves.log_dir_failed(log_dir)
        logger.warning(
            "%d replicas in log directory %s (%s) went offline",
            failed,
            log_dir.path,
            log_dir.id_text,
            extra=log_dir.log_fields(),
        )

    def log_dir_condition_changed(self, log_dir: LogDir) -> None:
        """Let followers stop where a directory is full; with room again they and others go on."""
        self._fetchers.log_dir_condition_changed(log_dir)
        self._moves.log_dir_condition_changed(log_dir)
        if not log_dir.condition.is_full:
            for partition in list(self._registry.partitions()):
                if partition.log is not None and partition.log.log_dir is log_dir:
                    self._guard(partition.waiters.call_back)
            self.directories_opened()

    def directories_opened(self) -> None:
        """Create the replicas that no directory took: one has room again, or is uncordoned."""
        for partition in list(self._registry.partitions()):
            if isinstance(partition.state, Absent):
                # There may have been no directory with room for it.
                self._guard(self._open, partition)
        self.returning.make_missing()

    # Inside

    def _apply(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        registration: PartitionRegistration,
    ) -> None:
        partition = self._registry.partition(topic_partition)
        if partition is not None and partition.topic_id != topic_id:
            # A new topic of the same name. A log in an offline directory stays there.
            self._stop(topic_partition, partition.topic_id)
            partition = None
        if partition is None:
            partition = self._new_partition(topic_partition, topic_id, registration)
            self._registry.add(partition)
            self._open(partition)
            return
        turned = partition.apply(registration)
        if isinstance(partition.state, Absent):
            self._open(partition)
        if partition.is_online:
            self._role_taken(partition, turned=turned)

    def _open(self, partition: Partition) -> None:
        found = self._placement.find(partition.topic_partition, partition.topic_id)
        if found is not None:
            partition.set_log(*found)
            if self._placement.was_copy(partition.topic_partition):
                # It may lack records that the ISR vouches for.
                partition.note_made_anew()
            self._role_taken(partition, turned=True)
            self._moves.replica_opened(partition)
            return
        assigned = partition.registration.directory(self._broker_id)
        task = self._placement.create(
            partition.topic_partition, partition.topic_id, partition.settings.log, assigned
        )
        if task is None:
            if not isinstance(partition.state, Absent):
                logger.warning(
                    "%s has no log: an offline directory may contain it, or no directory "
                    "accepts replicas",
                    partition.topic_partition,
                )
            partition.no_log()
            is_replaced = not is_reserved(assigned) and self._log_dirs.by_id(assigned) is None
            if self._log_dirs.any_offline or is_replaced:
                # A log that is made when a directory accepts it lacks what was in the former one.
                partition.note_made_anew()
            return
        partition.creation_begun()
        task.add_done_callback(partial(self._created, partition))

    def _created(self, partition: Partition, task: asyncio.Task[PartitionLog | None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, NoSpaceError) and isinstance(partition.state, Creating):
            # It is made as soon as a directory has room; see `log_dir_condition_changed`.
            partition.no_log()
            return
        log = None if error is not None else task.result()
        if error is not None:
            logger.error("creation of %s failed", partition.topic_partition, exc_info=error)
        if log is None:
            self._take_offline(partition, f"no directory for {partition.topic_partition}")
        elif isinstance(partition.state, Deleted):
            self._placement.delete(partition.topic_partition, log)
        elif not log.log_dir.is_online:
            # It failed when the log was just there; nobody knew yet that it held this replica.
            log.log_dir.clean_up(log.files.abandon)
            self._take_offline(partition, str(log.log_dir.error()), log.log_dir.path)
        else:
            partition.set_log(log, 0)
            self._role_taken(partition, turned=True)
            self._moves.replica_opened(partition)

    def _role_taken(self, partition: Partition, *, turned: bool) -> None:
        """Do what belongs to the role: fetch or not, know who may join, report the directory."""
        assert partition.log is not None
        if partition.leader is not None:
            self._fetchers.unfollow(partition.topic_partition)
            partition.in_sync.set_joinable(self._registry.joinable(partition))
        elif self._has_left(partition):
            self._fetchers.unfollow(partition.topic_partition)
        elif turned and not partition.is_held:
            self._fetchers.follow(partition)
        actual = partition.log.log_dir.directory_id
        assigned = partition.registration.directory(self._broker_id)
        if (
            actual is not None
            and actual != assigned
            and self._registry.image.features.metadata_version >= JBOD_LEVEL
        ):
            self._assigner.assign(partition.topic_id, partition.topic_partition.partition, actual)

    def _has_left(self, partition: Partition) -> bool:
        """Whether a follower of a broker that shuts down has nothing more to do."""
        registration = partition.registration
        return self._is_leaving and self._broker_id not in registration.isr

    def _stop(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        moved: PartitionRegistration | None = None,
    ) -> None:
        partition = self._registry.partition(topic_partition)
        if partition is None or partition.topic_id != topic_id:
            return
        self._registry.remove(topic_partition)
        self._fetchers.unfollow(topic_partition)
        log = partition.delete(moved)
        self._moves.cancel(topic_partition)
        if log is not None:
            self._placement.delete(topic_partition, log)

    def _take_offline(
        self, partition: Partition, message: str, held_in: Path | None = None
    ) -> None:
        self._fetchers.unfollow(partition.topic_partition)
        partition.go_offline(message, held_in)
        self._moves.replica_offline(partition.topic_partition)

    def _take_future(self, log: LoadedLog, log_dir: LogDir) -> None:
        """Take in a future replica that was found on a disk."""
        partition = self._registry.partition(log.topic_partition)
        if partition is None or partition.topic_id != log.files.topic_id:
            self._placement.put_aside(log.topic_partition, log.files, log_dir)
            return
        self._moves.add_found(log, log_dir)
        if partition.is_online:
            self._moves.replica_opened(partition)

    def log_failed(self, partition: Partition, error: BaseException) -> None:
        """A write failed; the directory's own failure has told everybody already."""
        self._fetchers.unfollow(partition.topic_partition)
        self._moves.replica_offline(partition.topic_partition)
        if not isinstance(error, LogDirError):
            logger.error(
                "the log of %s failed; the replica is offline: %s",
                partition.topic_partition,
                error,
                extra={
                    "topic": partition.topic_partition.topic,
                    "partition": partition.topic_partition.partition,
                },
            )

    def _apply_settings(self, delta: MetadataDelta) -> None:
        changed = {name for kind, name in delta.changed_configs if kind == TOPIC_RESOURCE}
        of_us = {(BROKER_RESOURCE, ""), (BROKER_RESOURCE, str(self._broker_id))}
        everywhere = not of_us.isdisjoint(delta.changed_configs)
        if not changed and not everywhere:
            return
        for partition in self._registry.partitions():
            name = partition.topic_partition.topic
            if everywhere or name in changed:
                partition.settings = self._topics.of_topic(self._registry.image.configs.topic(name))
                if partition.log is not None:
                    partition.log.config = partition.settings.log
                partition.advance_high_watermark()

    def _guard(self, function: Callable[..., None], *arguments: object) -> None:
        """Do something for one partition; what goes wrong there is logged and stays there."""
        try:
            function(*arguments)
        except Exception:
            logger.exception("%s failed for %s", function.__name__, arguments[0])
