"""Creations of replicas that wait for one directory's thread.

A topic may bring thousands of replicas at once. Replicas that wait for the same directory are
created by few calls, each with many replicas and one sync for all their names. Appends of clients
run between these calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from broker.bounds.limits import CREATIONS_PER_CALL
from broker.disk.calls import NoSpaceError, ShortageError, fsync_or_fail
from broker.disk.directory import LogDir
from broker.placement import replica_folders
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.vocabulary.errors import JbodlabError

Create = Callable[[], LoadedLog]


class CreationQueue:
    """The replicas to be created in one directory; on the event loop."""

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir
        self._waiting: list[tuple[Create, asyncio.Future[LoadedLog]]] = []
        self._is_running = False

    def create(self, create: Create) -> asyncio.Future[LoadedLog]:
        """Create a log on the directory's thread.

        Returns:
            A future with the log, or what `create` raised; it is done when the name of the log is
            on the disk.
        """
        created: asyncio.Future[LoadedLog] = asyncio.get_running_loop().create_future()
        self._waiting.append((create, created))
        if not self._is_running:
            self._is_running = True
            asyncio.get_running_loop().call_soon(self._send)
        return created

    def _send(self) -> None:
        taken = self._waiting[:CREATIONS_PER_CALL]
        del self._waiting[:CREATIONS_PER_CALL]
        creates = [create for create, _ in taken]
        done = self._log_dir.run(partial(_create_all, self._log_dir, creates))
        done.add_done_callback(partial(self._done, [created for _, created in taken]))

    def _done(
        self,
        waiting: Sequence[asyncio.Future[LoadedLog]],
        done: asyncio.Future[list[LoadedLog | JbodlabError]],
    ) -> None:
        self._is_running = bool(self._waiting)
        if self._waiting:
            self._send()
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        for number, created in enumerate(waiting):
            found = error or done.result()[number]
            if created.done():
                # Nobody waits for it any more; the next start finds it.
                if isinstance(found, LoadedLog):
                    self._log_dir.clean_up(found.files.abandon)
            elif isinstance(found, BaseException):
                if isinstance(found, NoSpaceError):
                    self._log_dir.no_space(found.cause)
                created.set_exception(found)
            else:
                created.set_result(found)


def _create_all(log_dir: LogDir, creates: Sequence[Create]) -> list[LoadedLog | JbodlabError]:
    """Create logs on the directory's thread, and sync their names with one call."""
    created: list[LoadedLog | JbodlabError] = []
    for create in creates:
        try:
            created.append(create())
        except JbodlabError as error:
            # One that cannot be created does not keep the others from it.
            created.append(error)
        except (OSError, MemoryError) as error:
            found = disk_errors.as_os_error(error)
            if disk_errors.is_no_space(found):
                created.append(NoSpaceError(disk_errors.describe(found)))
            elif disk_errors.is_shortage(found):
                created.append(ShortageError(disk_errors.describe(found)))
            else:
                raise
    try:
        fsync_or_fail(partial(log_dir.fs.fsync_dir, log_dir.path))
    except (OSError, MemoryError) as error:
        if not disk_errors.is_shortage(error):
            raise
        # Nobody may rely on names that are not synced: they are made anew.
        for each in created:
            if isinstance(each, LoadedLog):
                replica_folders.withdraw(each.files, log_dir)
        cause = disk_errors.describe(disk_errors.as_os_error(error))
        return [ShortageError(cause) if isinstance(each, LoadedLog) else each for each in created]
    return created
