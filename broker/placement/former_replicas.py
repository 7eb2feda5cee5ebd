"""The old copy of a moved replica, kept as `.moved*-stray` until the new copy is on the disk.

A move swaps to the new copy before that is synced. If the target disk then fails and returns with
fewer records, the replica continues with the old copy, as it would after a start; see
`found_replicas`. As long as the new copy may return, the old one is not used: records appended
since the move are in the new copy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from broker.disk.directory import FoundLog, LogDir, LogWithState
from broker.disk.life import LoadedReplica, sync_if_due
from broker.placement import replica_folders
from broker.placement.found_replicas import FoundCopy, facts_of
from broker.placement.replica_placement import ReplicaPlacement
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.log_loader import load_log
from jbodlab.vocabulary.errors import JbodlabError, LogDirError
from jbodlab.vocabulary.ids import TopicPartition

T = TypeVar("T")

logger = logging.getLogger(__name__)


class FormerReplica(NamedTuple):
    """The replica that a move has left in its source.

    Attributes:
        files: Its files; closed.
        facts: Its facts when the copy took its place.
        recovery_point: Below it everything was known to be on the disk then.
    """

    files: LogFiles
    log_dir: LogDir
    facts: FoundCopy
    recovery_point: int

    @classmethod
    def of(cls, log: LogWithState, log_dir: LogDir) -> FormerReplica:
        """Return what a log will be when a copy has taken its place."""
        return cls(log.files, log_dir, facts_of(log, log_dir), log.state.recovery_point)


class FormerReplicas:
    """The former replicas of all moves of a broker; on the event loop."""

    def __init__(self, placement: ReplicaPlacement) -> None:
        self._placement = placement
        # In the order of the moves.
        self._kept: dict[TopicPartition, list[FormerReplica]] = {}
        # Those that go further than what was found in a directory that is being revived.
        self._loaded: dict[TopicPartition, tuple[FormerReplica, LoadedLog]] = {}

    def keep(self, topic_partition: TopicPartition, former: FormerReplica) -> None:
        """Keep one until `retire`."""
        self._kept.setdefault(topic_partition, []).append(former)

    def keep_found(self, log: LoadedLog, log_dir: LogDir) -> None:
        """Keep one that was found while the directory of its copy may come back."""
        self.keep(log.topic_partition, FormerReplica.of(log, log_dir))
        log_dir.replica_count -= 1
        log_dir.clean_up(log.files.abandon)

    def log_dir_failed(self, log_dir: LogDir) -> None:
        """Take notice that a directory failed, with the former replicas in it."""
        for topic_partition, kept in list(self._kept.items()):
            self._keep_only(topic_partition, [each for each in kept if each.log_dir is not log_dir])
        for topic_partition, (former, _) in list(self._loaded.items()):
            if former.log_dir is log_dir:
                self._drop_loaded(topic_partition)

    def retire(
        self, topic_partition: TopicPartition, log: PartitionLog, former: FormerReplica
    ) -> None:
        """Have one removed that is not needed any more, and those before it."""
        kept = self._kept.get(topic_partition, [])
        if former not in kept:
            return
        while kept:
            files, log_dir, *_ = first = kept.pop(0)
            self._placement.retire(topic_partition, files, log, log_dir, is_counted=False)
            if first is former:
                break
        self._keep_only(topic_partition, kept)

    async def load(self, found: Sequence[FoundLog]) -> None:
        """Have those ready for `take` that go further than logs that were found.

        Nothing is renamed yet: should the directory of those logs fail again, all is as before.
        """
        for log, _ in found:
            kept = self._kept.get(log.topic_partition)
            if kept is not None and _is_better(kept[-1], log):
                await self._load(kept[-1], log.config)

    async def load_alone(self, partition: Partition) -> None:
        """Have one ready for `take_alone` where the copy is not in its directory any more."""
        kept = self._kept.get(partition.topic_partition)
        if kept is not None and kept[-1].files.topic_id == partition.topic_id:
            await self._load(kept[-1], partition.settings.log)

    async def _load(self, former: FormerReplica, config: LogConfig) -> None:
        topic_partition = former.files.topic_partition
        self._drop_loaded(topic_partition)
        try:
            loaded = await former.log_dir.run(partial(_load, former, config))
        except JbodlabError as error:
            logger.warning("cannot load %s: %s", former.files.directory, error)
            return
        self._loaded[topic_partition] = former, loaded
        if not former.log_dir.is_online:
            # It failed as the answer was on its way, so that `log_dir_failed` came too early.
            self._drop_loaded(topic_partition)

    def take(self, found: LoadedLog, high_watermark: int) -> LoadedReplica | None:
        """Return the log that its replica is to go on with in place of one that was found."""
        if found.topic_partition not in self._loaded:
            return None
        former, log = self._loaded[found.topic_partition]
        if not _is_better(former, found):
            self._drop_loaded(found.topic_partition)
            return None
        logger.warning(
            "%s ends at offset %d; %s continues with its copy from before the move, which ends at "
            "offset %d",
            found.files.directory,
            found.state.end_offset,
            found.topic_partition,
            log.state.end_offset,
        )
        return self._take(found.topic_partition, high_watermark)

    def take_alone(self, topic_partition: TopicPartition) -> LoadedReplica | None:
        """Return the log that a replica is to go on with whose copy is gone."""
        if topic_partition not in self._loaded:
            return None
        former, log = self._loaded[topic_partition]
        logger.warning(
            "the moved copy of %s is gone; the replica continues with its copy from before the "
            "move, "
            "%s, which ends at offset %d",
            topic_partition,
            former.files.directory,
            log.state.end_offset,
        )
        return self._take(topic_partition, 0)

    def _take(self, topic_partition: TopicPartition, high_watermark: int) -> LoadedReplica:
        former, log = self._loaded.pop(topic_partition)
        log_dir = former.log_dir
        kept = self._kept.get(topic_partition, [])
        self._keep_only(topic_partition, [each for each in kept if each is not former])
        log_dir.replica_count += 1
        promote(log.files, log_dir)
        return LoadedReplica(
            log=log,
            log_dir=log_dir,
            high_watermark=log.state.bounded(high_watermark),
            is_future=False,
        )

    def _drop_loaded(self, topic_partition: TopicPartition) -> None:
        former, log = self._loaded.pop(topic_partition, (None, None))
        if former is not None and log is not None:
            former.log_dir.clean_up(log.files.abandon)

    def _keep_only(self, topic_partition: TopicPartition, kept: list[FormerReplica]) -> None:
        if kept:
            self._kept[topic_partition] = kept
        else:
            self._kept.pop(topic_partition, None)


def _is_better(former: FormerReplica, found: LoadedLog) -> bool:
    """Return whether a former replica has records that a log of the same topic has lost."""
    if found.files.is_future or former.files.topic_id != found.files.topic_id:
        return False
    facts = facts_of(found, former.log_dir)
    return former.facts.reach > facts.reach and not facts.contains(former.facts)


def _load(former: FormerReplica, config: LogConfig) -> LoadedLog:
    """Open what was closed when the copy took its place; on the directory's thread."""
    log_dir = former.log_dir
    log = load_log(
        log_dir.fs,
        former.files.directory,
        former.files.topic_partition,
        config,
        log_dir.files,
        clean=False,
        recovery_point=former.recovery_point,
        log_start_offset=former.facts.start_offset,
    )
    sync_if_due(log_dir.fs, log)
    return log


def promote(files: LogFiles, log_dir: LogDir) -> None:
    """Give what a move has left the name of a current replica again."""
    renamed = log_dir.run(partial(replica_folders.promote, files, log_dir))
    renamed.add_done_callback(drop_error)


def drop_error(future: asyncio.Future[T]) -> None:
    """A directory that failed has told everybody already."""
    error = None if future.cancelled() else future.exception()
    if error is not None and not isinstance(error, LogDirError):
        logger.warning("cannot rename a replica: %s", error)
