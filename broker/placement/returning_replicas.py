"""Replicas of a revived directory: which log each gets, and which are recreated.

A log that is found becomes its replica's log at once, and the replica begins as a follower. Missing
logs are recreated, as at a start, but only after the metadata shows that the controller knows the
directory: if a disk was replaced, the controller first processes the loss of the old one. As at a
start, this waits while another directory is offline or no directory accepts replicas.

There is one copy of each replica. If another one was created elsewhere while the directory was
offline, the returning one is put aside. There are two exceptions. An empty replica that was created
as the last in its ISR, and must not lead, is replaced by the log that it stands for. The copy of a
move that returns with fewer records than the replica that it was made from is put aside, too. If
the copy is gone or cannot be identified, the replica continues with the old copy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from broker.disk.directory import FoundLog, LogDir
from broker.disk.life import LoadedReplica
from broker.placement.former_replicas import FormerReplicas, promote
from broker.placement.replica_placement import ReplicaPlacement
from broker.placement.reported_directory import was_made_anew
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from broker.replica.replica_state import DataLoss, ReplicaState
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.vocabulary.ids import TopicPartition

logger = logging.getLogger(__name__)


class ReturningReplicas:
    """Takes revived directories in.

    Args:
        replicas: All replicas.
        placement: Their logs.
        formers: Former replicas, which moves have left.
        open_replica: Opens the log that was found for a replica, or creates one.
        take_offline: Takes a partition's replica offline, for a reason, with its log's directory.
        take_future: Takes a future replica in, for its move to go on.
    """

    def __init__(
        self,
        replicas: ReplicaRegistry,
        placement: ReplicaPlacement,
        formers: FormerReplicas,
        *,
        open_replica: Callable[[Partition], None],
        take_offline: Callable[[Partition, str, Path], None],
        take_future: Callable[[LoadedLog, LogDir], None],
    ) -> None:
        self._replicas = replicas
        self._placement = placement
        self._formers = formers
        self._open = open_replica
        self._take_offline = take_offline
        self._take_future = take_future
        # Directories that are back, until the metadata shows them in our registration.
        self._returned: dict[LogDir, None] = {}
        # Replicas that directories did not bring back, with their states since: one that is in
        # another state now is no longer missing, or is lost once more, in its own way.
        self._missing: dict[Partition, ReplicaState] = {}

    def unsettled(self, log_dir: LogDir) -> str:
        """Return why the replicas of a failed directory may not come back yet; empty if they may.

        A replica comes back with what its disk kept, which may be less than it had confirmed. As
        long as the controller has not taken it out of leadership and ISR, as a consequence of the
        failure, it could be taken for complete, or go on to lead in the same epoch.
        """
        registration = self._replicas.image.cluster.brokers.get(self._replicas.broker_id)
        if registration is not None and log_dir.directory_id in registration.directories:
            return "the directory id is still registered"
        for partition in self._replicas.partitions():
            if is_missing_from(log_dir, partition) and is_counted_on(partition):
                return f"this broker is still in the ISR of {partition.topic_partition}"
        return ""

    def topic_partitions_in_use(self) -> frozenset[TopicPartition]:
        """Return the replicas of which no other copy may come back."""
        return frozenset(
            partition.topic_partition
            for partition in self._replicas.partitions()
            if not (partition.is_without_log or waits_for_its_own_log(partition))
        )

    async def load_formers(self, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        """Have ready what moves have left elsewhere, where it goes further than what was found.

        Args:
            log_dir: The directory that comes back.
            logs: Logs that were found in it.
        """
        await self._formers.load(logs)
        found = {log.topic_partition for log, _ in logs}
        for partition in list(self._replicas.partitions()):
            if is_missing_from(log_dir, partition) and partition.topic_partition not in found:
                await self._formers.load_alone(partition)

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        """Give the logs of a revived directory to the replicas that miss them."""
        self._placement.forget(former)
        for log, high_watermark in logs:
            try:
                if log.files.is_future:
                    self._take_future(log, log_dir)
                else:
                    self._bring_back(log, log_dir, high_watermark)
            except Exception:
                logger.exception("cannot bring back %s", log.topic_partition)
        for partition in list(self._replicas.partitions()):
            if is_missing_from(log_dir, partition):
                alone = self._formers.take_alone(partition.topic_partition)
                if alone is not None:
                    self._reopen(partition, alone, may_lack=True)
        self._returned[log_dir] = None

    def registration_changed(self) -> None:
        """Make anew what revived directories did not bring back, if the controller knows them."""
        registration = self._replicas.image.cluster.brokers.get(self._replicas.broker_id)
        known = () if registration is None else registration.directories
        for log_dir in tuple(self._returned):
            if log_dir.is_online and log_dir.directory_id not in known:
                continue
            del self._returned[log_dir]
            # One that has failed again says nothing of what it would have brought back.
            if log_dir.is_online:
                for partition in self._replicas.partitions():
                    if is_missing_from(log_dir, partition):
                        self._missing[partition] = partition.state
        self.make_missing()

    def make_missing(self) -> None:
        """Make anew what is missing and may be made; the rest waits for the next occasion."""
        for partition, state in tuple(self._missing.items()):
            if partition.state is not state or self._make_anew(partition):
                del self._missing[partition]

    def _bring_back(self, log: LoadedLog, log_dir: LogDir, high_watermark: int) -> None:
        """Give a log to its replica, or put it aside."""
        partition = self._replicas.partition(log.topic_partition)
        if partition is not None and partition.topic_id == log.files.topic_id:
            if log.files.is_moved and self._copy_may_return(partition, log_dir):
                self._formers.keep_found(log, log_dir)
                return
            if waits_for_its_own_log(partition):
                self._give_up_empty_last_in_sync(partition, log_dir)
            if is_missing_from(log_dir, partition):
                assert not is_counted_on(partition)
                copy_is_gone = log.files.is_moved
                best = self._best(log, log_dir, high_watermark)
                self._reopen(partition, best, may_lack=copy_is_gone)
                return
        self._placement.put_aside(log.topic_partition, log.files, log_dir)

    def _reopen(self, partition: Partition, found: LoadedReplica, *, may_lack: bool) -> None:
        """Let a replica go on with a log.

        Args:
            partition: The replica, which has none.
            found: The log.
            may_lack: Whether it may lack records that the ISR vouches for, as the copy of a move
                had them.
        """
        found.log.state.configure(partition.settings.log)
        self._placement.add_loaded(found.log, found.log_dir, found.high_watermark)
        partition.reopen()
        assigned = partition.registration.directory(self._replicas.broker_id)
        if may_lack or was_made_anew(found.log.state, assigned):
            partition.note_made_anew()
        self._open(partition)

    def _best(self, log: LoadedLog, log_dir: LogDir, high_watermark: int) -> LoadedReplica:
        """Return a log that was found, or what it was moved from if that goes further."""
        former = self._formers.take(log, high_watermark)
        if former is not None:
            self._placement.put_aside(log.topic_partition, log.files, log_dir)
            return former
        if log.files.is_moved:
            promote(log.files, log_dir)
        return LoadedReplica(
            log=log, log_dir=log_dir, high_watermark=high_watermark, is_future=False
        )

    def _copy_may_return(self, partition: Partition, log_dir: LogDir) -> bool:
        """Return whether the copy that took the place of a former replica may still come back."""
        if partition.held_in not in (None, log_dir.path):
            return True
        any_offline = self._placement.log_dirs.any_offline
        return partition.is_without_log and any_offline and partition.is_last_in_sync

    def _give_up_empty_last_in_sync(self, partition: Partition, found_in: LogDir) -> None:
        """Remove the empty log of a replica whose own log was found after all."""
        log = partition.log
        assert log is not None
        self._take_offline(partition, "its own log was found", found_in.path)
        self._placement.delete(partition.topic_partition, log)

    def _make_anew(self, partition: Partition) -> bool:
        """Have the log of a replica created; returns False if it may not be yet."""
        assigned = partition.registration.directory(self._replicas.broker_id)
        if not self._placement.may_create(partition.topic_partition, partition.topic_id, assigned):
            return False
        partition.reopen()
        partition.note_made_anew()
        self._open(partition)
        return True


def is_missing_from(log_dir: LogDir, partition: Partition) -> bool:
    """Return whether a replica has no log, and may have had it in a directory."""
    return partition.is_without_log and partition.held_in in (None, log_dir.path)


def is_counted_on(partition: Partition) -> bool:
    """Return whether the metadata has this replica lead, or in sync with others."""
    registration = partition.registration
    if registration.leader == partition.broker_id:
        return True
    return partition.broker_id in registration.isr and not partition.is_last_in_sync


def waits_for_its_own_log(partition: Partition) -> bool:
    """Return whether a replica has an empty log in place of one that may be found."""
    return partition.is_online and partition.data_loss is DataLoss.REPORTED
