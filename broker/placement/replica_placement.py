"""Where the logs of this broker's replicas are: found at start, created, deleted.

A log that exists is used wherever it lies. One that does not is created in the directory that
`broker.placement.reconcile` allows, on that directory's thread; a directory that fails at that is
replaced by the next best. One that may lie in an offline directory is not created again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path

from broker.bounds.limits import SHORTAGE_RETRY_S, WISHES_MAX
from broker.disk.calls import NoSpaceError, ReplicaLostError, ShortageError
from broker.disk.condition import FILES_BYTES
from broker.disk.directory import LogDir, LogDirs, LogInUse
from broker.disk.life import ReplicaOf
from broker.placement import replica_folders
from broker.placement.choice import SpreadByBytes, candidates
from broker.placement.creation_queue import CreationQueue
from broker.placement.reconcile import Action, ReplicaFacts, reconcile
from broker.replica.log import DirectoryWriter, PartitionLog, TailCacheBudget, WriteCheckpoints
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.runtime.supervised import end_tasks
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.errors import JbodlabError, LogDirError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicId, TopicIdPartition, TopicPartition

logger = logging.getLogger(__name__)


class ReplicaPlacement:
    """Finds, creates and deletes logs.

    Args:
        log_dirs: The directories.
        remove_later: Called with a folder that was renamed to `-delete`, and a delay in ms.
        write_checkpoints: See `DirectoryWriter`.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        remove_later: Callable[[LogDir, Path, int], None],
        write_checkpoints: WriteCheckpoints,
    ) -> None:
        self.log_dirs = log_dirs
        # Whether new replicas are spread by free bytes; else each goes where the fewest are.
        self._by_bytes = False
        self._spread = SpreadByBytes()
        self._remove_later = remove_later
        self._write_checkpoints = write_checkpoints
        self._writers: dict[LogDir, DirectoryWriter] = {}
        self._budget = TailCacheBudget()
        self._loaded: dict[TopicPartition, tuple[PartitionLog, int]] = {}
        # Logs that have left, until neither a folder nor a checkpoint has their name.
        self._being_deleted: dict[TopicPartition, asyncio.Task[None]] = {}
        self._tasks: dict[asyncio.Task[PartitionLog | None], None] = {}
        self._creating: dict[TopicPartition, asyncio.Task[PartitionLog | None]] = {}
        self._creations: dict[LogDir, CreationQueue] = {}
        # Directories that were asked for before there was a replica; lost with the process.
        self._requested_dirs: OrderedDict[TopicPartition, Path] = OrderedDict()
        # Replicas whose logs were the copies of a move, which may lack records.
        self._promoted_futures: set[TopicPartition] = set()
        self._only_future_found: frozenset[TopicPartition] = frozenset()
        # Replicas that an earlier process of this broker may have created, reported or not.
        self._maybe_created_before_restart: set[TopicIdPartition] = set()
        # Replicas whose logs were found in directories that have failed since.
        self._in_failed_dir: dict[TopicPartition, tuple[TopicId, LogDir]] = {}

    def spread_by_bytes(self, by_bytes: bool) -> None:
        """Spread new replicas by free bytes; else each goes where the fewest are."""
        self._by_bytes = by_bytes

    def note_earlier(self, image: MetadataImage, broker_id: BrokerId) -> None:
        """Take note of what an earlier process of this broker knew, from its copy of the metadata.

        It may have created a replica and died before the controller heard in which directory. If a
        directory is dead now, the replica may be in there although it counts as UNASSIGNED. So may
        the only replica of a partition, although it was assigned to where it was being moved: the
        copy may have been lost with the power. Where there are others, they have its records.
        """
        self._maybe_created_before_restart = {
            TopicIdPartition(topic_id, index)
            for topic_id, topic in image.topics.by_id.items()
            for index, state in topic.partitions.items()
            if broker_id in state.replicas
            and (state.directory(broker_id) == UNASSIGNED or not state.others_may_have_more())
        }

    def open(self, log: LoadedLog, log_dir: LogDir) -> PartitionLog:
        """Return the owner of a log that was loaded or created."""
        return PartitionLog(log, self.writer(log_dir), self._budget)

    def add_loaded(self, log: LoadedLog, log_dir: LogDir, high_watermark: int) -> None:
        """Take in a log that was found at start or in a revived directory, for its replica."""
        self._loaded[log.topic_partition] = (self.open(log, log_dir), high_watermark)

    def note_copies(
        self, copies: frozenset[TopicPartition], waiting: frozenset[TopicPartition]
    ) -> None:
        """Take note of the replicas of which nothing but the copy of a move was found.

        Args:
            copies: Those whose copy is the replica now.
            waiting: Those whose log may be in an offline directory; it is not made anew before
                that is back.
        """
        self._promoted_futures = set(copies)
        self._only_future_found = waiting

    def was_copy(self, topic_partition: TopicPartition) -> bool:
        """Return, once, whether a replica's log was found as nothing but the copy of a move."""
        if topic_partition in self._promoted_futures:
            self._promoted_futures.discard(topic_partition)
            return True
        return False

    def unused_in(self, log_dir: LogDir) -> Iterator[LogInUse]:
        """Return the logs found at start in a directory that no replica has taken."""
        for log, high_watermark in self._loaded.values():
            if log.log_dir is log_dir:
                yield LogInUse(log, high_watermark)

    def find(
        self, topic_partition: TopicPartition, topic_id: TopicId
    ) -> tuple[PartitionLog, int] | None:
        """Return the log that was found for a replica at start, and its high watermark."""
        found = self._loaded.pop(topic_partition, None)
        if found is None:
            return None
        log, high_watermark = found
        if not log.log_dir.is_online:
            if log.files.topic_id is not None:
                self._in_failed_dir[topic_partition] = (TopicId(log.files.topic_id), log.log_dir)
            return None
        if log.files.topic_id != topic_id:
            # The topic was replaced by another of its name since the logs were loaded.
            self.put_aside(topic_partition, log.files, log.log_dir)
            return None
        # Where it is made anew after its directory was replaced, it is in no other.
        self._maybe_created_before_restart.discard(
            TopicIdPartition(topic_id, topic_partition.partition)
        )
        return log, high_watermark

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        assigned: DirectoryId,
    ) -> asyncio.Task[PartitionLog | None] | None:
        """Start to create the log of a replica; None if it must not be created.

        The task returns None if every directory that came into question failed, and raises
        NoSpaceError if one of them is full.
        """
        if not self.may_create(topic_partition, topic_id, assigned):
            return None
        targets = self._targets(topic_partition, assigned)
        self._requested_dirs.pop(topic_partition, None)
        # Counted now, so that the next replica of the same delta goes elsewhere.
        self._count(targets)
        targets[0].replica_count += 1
        targets[0].space.charge(FILES_BYTES)
        task = asyncio.get_running_loop().create_task(
            self._create(
                topic_partition, topic_id, config, targets, self._creating.get(topic_partition)
            ),
            name=f"create {topic_partition}",
        )
        self._tasks[task] = None
        self._creating[topic_partition] = task
        task.add_done_callback(partial(self._creation_ended, topic_partition))
        return task

    def _creation_ended(
        self, topic_partition: TopicPartition, task: asyncio.Task[PartitionLog | None]
    ) -> None:
        self._tasks.pop(task, None)
        if self._creating.get(topic_partition) is task:
            del self._creating[topic_partition]

    def wish(self, topic_partition: TopicPartition, path: Path) -> None:
        """Remember the directory in which a replica is to be created; the oldest gives way."""
        self._requested_dirs[topic_partition] = path
        self._requested_dirs.move_to_end(topic_partition)
        if len(self._requested_dirs) > WISHES_MAX:
            self._requested_dirs.popitem(last=False)

    def may_create(
        self, topic_partition: TopicPartition, topic_id: TopicId, assigned: DirectoryId
    ) -> bool:
        """Return whether a replica without a log may get a new one."""
        if topic_partition in self._in_failed_dir:
            unreachable_id, _ = self._in_failed_dir[topic_partition]
            if unreachable_id == topic_id:
                return False
        if topic_partition in self._only_future_found and self.log_dirs.any_offline:
            return False
        if (
            self.log_dirs.any_offline
            and TopicIdPartition(topic_id, topic_partition.partition)
            in self._maybe_created_before_restart
        ):
            return False
        return bool(self._targets(topic_partition, assigned))

    def forget(self, former: LogDir) -> None:
        """Drop what is known of a directory that failed, as it is back as another `LogDir`."""
        self._writers.pop(former, None)
        self._creations.pop(former, None)
        self._in_failed_dir = {
            topic_partition: known
            for topic_partition, known in self._in_failed_dir.items()
            if known[1] is not former
        }
        for topic_partition, (log, _) in list(self._loaded.items()):
            if log.log_dir is former:
                del self._loaded[topic_partition]
                former.clean_up(log.files.abandon)

    def delete(self, topic_partition: TopicPartition, log: PartitionLog) -> None:
        """Rename the directory of a log to `-delete`; its files are removed some time later."""
        log.log_dir.replica_count -= 1
        log.cleaning.abort()
        renamed = self._retire(topic_partition, log.files, log.log_dir, log)
        self._leaves(topic_partition, log.log_dir, renamed)

    def retire(
        self,
        topic_partition: TopicPartition,
        files: LogFiles,
        log: PartitionLog,
        log_dir: LogDir,
        *,
        is_counted: bool = True,
    ) -> None:
        """Have a copy removed that its replica does not use: a former one, or a future one.

        Args:
            topic_partition: Of the replica.
            files: Of the copy.
            log: With the settings that say when.
            log_dir: Where the copy lies.
            is_counted: Whether it counts among the replicas of its directory.
        """
        log_dir.replica_count -= is_counted
        self._retire(topic_partition, files, log_dir, log)

    def _retire(
        self, topic_partition: TopicPartition, files: LogFiles, log_dir: LogDir, log: PartitionLog
    ) -> asyncio.Future[Path]:
        retire = partial(replica_folders.retire, files, log_dir.environment.new_hex())
        renamed = self.writer(log_dir).run_until_room(retire)
        delay_ms = log.config.file_delete_delay_ms
        renamed.add_done_callback(partial(self._retired, topic_partition, delay_ms, log_dir))
        return renamed

    def put_aside(self, topic_partition: TopicPartition, files: LogFiles, log_dir: LogDir) -> None:
        """Rename the directory of a log that has no place here any more; it is kept."""
        logger.warning(
            "%s no longer belongs in this directory; keeping it as a stray", files.directory
        )
        log_dir.replica_count -= 1
        put_aside = partial(replica_folders.put_aside, files, log_dir.environment.new_hex())
        renamed = self.writer(log_dir).run_until_room(put_aside)
        self._leaves(topic_partition, log_dir, renamed)
        renamed.add_done_callback(partial(_put_aside_done, topic_partition))

    def put_strays_aside(self, replica_of: ReplicaOf) -> None:
        """Put the logs aside that were loaded for replicas which have left this broker since."""
        for topic_partition, (log, _) in list(self._loaded.items()):
            wanted = replica_of(log.files.topic_id, topic_partition.partition)
            if log.log_dir.is_online and wanted != topic_partition:
                del self._loaded[topic_partition]
                self.put_aside(topic_partition, log.files, log.log_dir)

    def _leaves(
        self, topic_partition: TopicPartition, log_dir: LogDir, renamed: asyncio.Future[Path]
    ) -> None:
        left = asyncio.get_running_loop().create_task(
            self._left(log_dir, renamed), name=f"{topic_partition} leaves {log_dir.path}"
        )
        self._being_deleted[topic_partition] = left
        left.add_done_callback(partial(self._has_left, topic_partition))

    async def _left(self, log_dir: LogDir, renamed: asyncio.Future[Path]) -> None:
        """Return when what a checkpoint says can only be meant for the next log of that name."""
        await asyncio.wait([renamed])
        with contextlib.suppress(JbodlabError):
            await self._write_checkpoints(log_dir)

    def _has_left(self, topic_partition: TopicPartition, left: asyncio.Task[None]) -> None:
        if self._being_deleted.get(topic_partition) is left:
            del self._being_deleted[topic_partition]

    def writer(self, log_dir: LogDir) -> DirectoryWriter:
        """Return the queue of appends of a directory."""
        writer = self._writers.get(log_dir)
        if writer is None:
            writer = self._writers[log_dir] = DirectoryWriter(log_dir, self._write_checkpoints)
        return writer

    async def close(self) -> None:
        """Stop creating."""
        await end_tasks((*self._tasks, *self._being_deleted.values()))
        for writer in self._writers.values():
            writer.stop()

    def _targets(
        self, topic_partition: TopicPartition, assigned: DirectoryId
    ) -> tuple[LogDir, ...]:
        online = {d.directory_id: d for d in self.log_dirs.online() if d.directory_id is not None}
        if not online:
            return ()
        facts = ReplicaFacts(assigned=assigned, any_offline=self.log_dirs.any_offline)
        match reconcile(facts, online.keys()):
            case Action.CREATE:
                target = assigned
            case Action.CREATE_ANYWHERE:
                target = UNASSIGNED
            case _:
                return ()
        cordoned = {directory for directory, log_dir in online.items() if log_dir.is_cordoned}
        full = {directory for directory, log_dir in online.items() if log_dir.condition.is_full}
        wished = self._requested_dirs.get(topic_partition)
        preferred = next((i for i, d in online.items() if d.path == wished and i not in full), None)
        return tuple(
            online[directory]
            for directory in candidates(
                self._loads(online, cordoned | full),
                target=target,
                preferred=preferred,
                full=full,
                cordoned=cordoned,
            )
            # Where all are full an empty replica still is better than none: it takes its place
            # when there is room again. But the reserve is not only for such.
            if directory not in full or online[directory].space.disk.takes_files()
        )

    def _loads(
        self, online: Mapping[DirectoryId, LogDir], avoided: Set[DirectoryId]
    ) -> Mapping[DirectoryId, float]:
        """Return how much reason there is against each directory."""
        counts = {directory: log_dir.replica_count for directory, log_dir in online.items()}
        if not self._by_bytes:
            return counts
        free = _free_bytes([log_dir for key, log_dir in online.items() if key not in avoided])
        return {**counts, **self._spread.loads(free)}

    def _count(self, targets: Sequence[LogDir]) -> None:
        """Take notice that the first of these gets a replica."""
        chosen = targets[0].directory_id
        if self._by_bytes and chosen is not None:
            self._spread.placed(chosen, _free_bytes(targets)[chosen])

    async def _create(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        targets: Sequence[LogDir],
        earlier: asyncio.Task[PartitionLog | None] | None,
    ) -> PartitionLog | None:
        """Create the log of a replica in the first directory that can."""
        if earlier is not None:
            # It belongs to a topic of the same name that is deleted as soon as it was created.
            await asyncio.wait([earlier])
        leaving = self._being_deleted.get(topic_partition)
        if leaving is not None:
            # An earlier topic of the same name still has the name of the directory.
            await asyncio.wait([leaving])
        no_space: NoSpaceError | None = None
        for number, log_dir in enumerate(targets):
            if number:
                log_dir.replica_count += 1
                log_dir.space.charge(FILES_BYTES)
            queue = self._creations.get(log_dir)
            if queue is None:
                queue = self._creations[log_dir] = CreationQueue(log_dir)
            try:
                while True:
                    begun = replica_folders.Creation()
                    create = partial(
                        replica_folders.create_log,
                        log_dir,
                        topic_partition,
                        topic_id,
                        config,
                        begun,
                    )
                    try:
                        log = await queue.create(create)
                        break
                    except ShortageError as error:
                        logger.warning("creation of %s is waiting: %s", topic_partition, error)
                        await asyncio.sleep(SHORTAGE_RETRY_S)
            except NoSpaceError as error:
                logger.warning("cannot create %s in %s: %s", topic_partition, log_dir.path, error)
                log_dir.replica_count -= 1
                no_space = error
            except LogDirError as error:
                logger.warning("cannot create %s: %s", topic_partition, error)
                if not begun.give_up():
                    # It may be there when the directory comes back, so it must not be elsewhere.
                    return None
            except BaseException:
                log_dir.replica_count -= 1
                raise
            else:
                return self.open(log, log_dir)
            finally:
                log_dir.space.settle(FILES_BYTES)
        if no_space is not None:
            raise no_space
        return None

    def _retired(
        self,
        topic_partition: TopicPartition,
        delay_ms: int,
        log_dir: LogDir,
        future: asyncio.Future[Path],
    ) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, LogDirError):
            logger.warning("cannot delete %s: %s", topic_partition, error)
        elif isinstance(error, ReplicaLostError):
            logger.warning("%s was already deleted: %s", topic_partition, error)
        elif error is not None:
            logger.error("deletion of %s failed", topic_partition, exc_info=error)
        elif not future.cancelled():
            self._remove_later(log_dir, future.result(), delay_ms)


def _put_aside_done(topic_partition: TopicPartition, future: asyncio.Future[Path]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None:
        logger.warning("cannot mark %s as stray: %s", topic_partition, error)


def _free_bytes(log_dirs: Sequence[LogDir]) -> dict[DirectoryId, int]:
    """Return the room in front of the reserve; directories on one disk share it."""
    free = {}
    for log_dir in log_dirs:
        disk = log_dir.space.disk
        sharing = sum(each.space.disk is disk for each in log_dirs)
        if log_dir.directory_id is not None:
            room = (disk.usable_bytes or 0) - disk.reserved_bytes
            free[log_dir.directory_id] = max(room, 0) // sharing
    return free
