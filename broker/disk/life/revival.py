"""Brings a repaired log directory of a running broker back online.

An operator who has repaired or replaced a disk requests the revival. These are the steps, and what
the caller gets if one of them fails:

    settled    the controller has processed the failure                     else: try again later
    silent     no write of the former life can take effect any more         else: try again later
    inspected  the checks of a start: meta.properties, ids, lock, a probe   else: the reason
    loaded     logs recovered, strays put aside, on a separate thread       else: the reason
    back       replaces the failed directory and notifies all, in one step

Until the last step only this module knows the new life of the directory (see `lifecycle`). If a
step fails, the directory stays offline as before. The rest of the broker serves meanwhile.

*Settled* makes the last step safe. The returning replicas may lack records that their disk
confirmed and lost, so none of them may count as in sync or lead in its old epoch. The controller
ensures both when it processes the failure; see `ReturningReplicas.unsettled`.

*Silent* concerns a thread that hangs. Its fence stops its later steps, but a disk that recovers may
still carry out the hung call. So a directory whose thread hangs in a write cannot be revived as
long as the path leads to the same directory. A replacement can be revived, because the call belongs
to the old disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from broker.bounds.limits import (
    INSPECTION_TIMEOUT_S,
    REVIVAL_LOOK_INTERVAL_S,
    SETTLED_TIMEOUT_S,
    SILENT_TIMEOUT_S,
)
from broker.disk.calls import Fence, fenced_disk, run_aside
from broker.disk.directory import FoundLog, LogDir, LogDirState
from broker.disk.life.inspection import Inspected, inspect
from broker.disk.life.loading import LogConfigOf, ReplicaOf, load_revived
from broker.disk.life.startup import OpenedLogDirs
from jbodlab.runtime.supervised import end_tasks
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.directory.directory_lock import DirectoryLock
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import FormatError, JbodlabError, KafkaError, LogDirError
from jbodlab.vocabulary.ids import DirectoryId, TopicPartition

logger = logging.getLogger(__name__)


class LoadingRules(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata's rules for the logs that may be found; see `loading.load_logs`."""

    replica_of: ReplicaOf
    is_ours: Callable[[TopicPartition], bool]
    log_config_of: LogConfigOf


class RevivedReplicas(Protocol):
    """The owner of the replicas."""

    def unsettled(self, log_dir: LogDir) -> str:
        """Return why the replicas of a failed directory may not come back yet; empty: they may."""

    def topic_partitions_in_use(self) -> frozenset[TopicPartition]:
        """Return the replicas that have a log; another copy of one is not wanted."""

    async def load_formers(self, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        """Have ready what moves have left in other directories of the replicas of a directory."""


class Revived(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that is back online."""

    directory_id: DirectoryId | None
    replicas: int
    """How many came back with it."""


class LogDirRevival:
    """Revives directories of one broker, each at most once at a time.

    Args:
        opened: The directories and their locks.
        replicas: The replicas.
        rules: Returns what the metadata says at this moment.
        schedule_leftovers: Has what was deleted, but not removed, removed later.
    """

    def __init__(
        self,
        opened: OpenedLogDirs,
        replicas: RevivedReplicas,
        *,
        rules: Callable[[], LoadingRules],
        schedule_leftovers: Callable[[LogDir], Awaitable[None]],
        settled_timeout_s: float = SETTLED_TIMEOUT_S,
        silent_timeout_s: float = SILENT_TIMEOUT_S,
        inspection_timeout_s: float = INSPECTION_TIMEOUT_S,
    ) -> None:
        self._opened = opened
        self._log_dirs = opened.log_dirs
        self._replicas = replicas
        self._rules = rules
        self._schedule_leftovers = schedule_leftovers
        self._settled_timeout_s = settled_timeout_s
        self._silent_timeout_s = silent_timeout_s
        self._inspection_timeout_s = inspection_timeout_s
        self._running: dict[LogDir, asyncio.Task[Revived]] = {}
        self._is_open = False

    def start(self) -> None:
        """Take orders from now on; before, the logs of a directory are nobody's yet."""
        self._is_open = True

    async def stop(self) -> None:
        """Take no more orders, and give up what is under way."""
        self._is_open = False
        await end_tasks(self._running.values())

    async def revive(self, path: str) -> Revived:
        """Bring a directory back online; goes on even if the caller does not wait for the end.

        Args:
            path: As in `log.dirs`.

        Raises:
            KafkaError: LOG_DIR_NOT_FOUND, not one of `log.dirs`; INVALID_REQUEST, it is online, or
                being revived already; KAFKA_STORAGE_ERROR, it cannot be used yet; the text says
                why. REQUEST_TIMED_OUT, the controller has not taken notice of its failure.
        """
        log_dir = self._find(path)
        task = asyncio.create_task(self._revive(log_dir), name=f"revive {log_dir.path}")
        self._running[log_dir] = task
        task.add_done_callback(partial(self._ended, log_dir))
        return await asyncio.shield(task)

    def _find(self, path: str) -> LogDir:
        log_dir = self._log_dirs.by_path(path)
        if log_dir is None:
            known = ", ".join(str(each.path) for each in self._log_dirs.all)
            raise KafkaError(
                ErrorCode.LOG_DIR_NOT_FOUND,
                f"broker has no log directory {path} (log.dirs: {known})",
            )
        if not self._is_open:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker is starting or stopping")
        if log_dir.is_online:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"log directory {log_dir.path} is already online"
            )
        if log_dir in self._running:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"log directory {log_dir.path} is already being revived"
            )
        return log_dir

    def _ended(self, log_dir: LogDir, task: asyncio.Task[Revived]) -> None:
        del self._running[log_dir]
        if not task.cancelled() and (error := task.exception()) is not None:
            is_expected = isinstance(error, JbodlabError)
            logger.warning(
                "cannot revive a log directory: %s",
                error,
                extra=log_dir.log_fields(),
                exc_info=None if is_expected else error,
            )

    async def _revive(self, former: LogDir) -> Revived:
        logger.info("reviving log directory %s", former.path, extra=former.log_fields())
        await self._settled(former)
        await self._until(lambda: not former.is_being_written, self._silent_timeout_s)
        found = await self._inspected(former)
        if former.is_being_written and found.identity == former.identity:
            self._give_back(former, found)
            raise _storage_error(former.path, "a write that began before the failure still hangs")
        log_dir = former.next_life(found.directory_id, found.identity)
        lock = self._opened.locks.get(former.path)
        try:
            logs = await self._loaded(log_dir)
            await self._replicas.load_formers(log_dir, logs)
            if log_dir.state is not LogDirState.RECOVERING:
                raise log_dir.error()
            # The metadata may have gone on meanwhile. From here to the end nothing waits.
            self._check_settled(former)
        except BaseException as error:
            if log_dir.is_online:
                log_dir.go_offline("the revival failed")
            log_dir.stop()
            self._give_back(former, found)
            if isinstance(error, LogDirError):
                raise _storage_error(former.path, error.cause) from error
            raise
        if found.lock is not None:
            self._opened.locks[former.path] = found.lock
            if lock is not None:
                run_aside(lock.close, f"unlock {former.path}", former.environment.threads)
        self._back(former, log_dir, logs)
        replicas = sum(not each.log.files.is_future for each in logs)
        await self._schedule_leftovers(log_dir)
        return Revived(directory_id=log_dir.directory_id, replicas=replicas)

    async def _settled(self, former: LogDir) -> None:
        await self._until(lambda: not self._replicas.unsettled(former), self._settled_timeout_s)
        self._check_settled(former)

    def _check_settled(self, former: LogDir) -> None:
        if reason := self._replicas.unsettled(former):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"log directory {former.path} stays offline: the controller has not processed its "
                f"failure yet ({reason}); try again later",
            )

    async def _inspected(self, former: LogDir) -> Inspected:
        """Check the directory as at a start, on a thread that nobody has to wait for."""
        fence = Fence()
        others = [each for each in self._log_dirs.watched if each is not former]
        look = partial(
            inspect,
            fenced_disk(former.disk, fence),
            former.path,
            node_id=self._opened.node_id,
            cluster_id=self._opened.cluster_id,
            metadata_log_dir=self._log_dirs.metadata_dir.path,
            ids={each.path: each.directory_id for each in others},
            identities={
                each.identity: each.path
                for each in others
                if each.is_online and each.identity is not None
            },
            held=self._opened.locks.get(former.path),
            lock_it=partial(DirectoryLock, former.disk, former.path),
            random_bytes=former.environment.random_bytes,
        )
        try:
            async with asyncio.timeout(self._inspection_timeout_s):
                return await run_aside(look, f"inspect {former.path}", former.environment.threads)
        except TimeoutError as error:
            fence.close()
            reason = str(error) or f"no answer within {self._inspection_timeout_s:g} s"
            raise _storage_error(former.path, reason) from error
        except OSError as error:
            raise _storage_error(former.path, disk_errors.describe(error)) from error
        except FormatError as error:
            raise _storage_error(former.path, str(error)) from error

    async def _loaded(self, log_dir: LogDir) -> list[FoundLog]:
        rules = self._rules()
        in_use = self._replicas.topic_partitions_in_use()
        logs = await load_revived(
            self._log_dirs,
            log_dir,
            rules.replica_of,
            rules.log_config_of,
            is_ours=rules.is_ours,
            # One copy of each replica: what was created elsewhere meanwhile is the one.
            in_use=in_use.__contains__,
        )
        logger.info("loaded %d logs", len(logs), extra=log_dir.log_fields())
        return logs

    def _back(self, former: LogDir, log_dir: LogDir, logs: list[FoundLog]) -> None:
        log_dir.replica_count = len(logs)
        if former.directory_id not in (None, log_dir.directory_id):
            logger.warning(
                "log directory %s has a new id %s; replicas that were in %s will be recreated",
                log_dir.path,
                log_dir.id_text,
                former.id_text,
                extra=log_dir.log_fields(),
            )
        self._log_dirs.revive(former, log_dir, logs)
        logger.info(
            "log directory %s (%s) is back online with %d replicas after it failed: %s",
            log_dir.path,
            log_dir.id_text,
            log_dir.replica_count,
            former.cause,
            extra={
                **log_dir.log_fields(),
                "cause": former.cause,
                "replicas": log_dir.replica_count,
            },
        )

    def _give_back(self, former: LogDir, found: Inspected) -> None:
        if found.lock is not None:
            run_aside(found.lock.release, f"unlock {former.path}", former.environment.threads)

    async def _until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Return when a condition holds, or the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while not condition() and loop.time() < end:  # noqa: ASYNC110 - not one event
            await asyncio.sleep(REVIVAL_LOOK_INTERVAL_S)


def _storage_error(path: Path, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {path} stays offline: {reason}"
    )
