"""Folders of replicas on one disk: created, and renamed when they no longer belong there.

All functions run on the thread of the directory.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from broker.disk.directory import LogDir
from jbodlab.storage.directory import names
from jbodlab.storage.log import loaded_log
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicId, TopicPartition


class Creation:
    """The outcome of a creation: thread and loop may ask at the same time, the first decides."""

    def __init__(self) -> None:
        self._fate: dict[str, bool] = {}

    def finish(self) -> bool:
        """Return whether the log may get its name; on the directory's thread."""
        return self._fate.setdefault("is_finished", True)

    def give_up(self) -> bool:
        """Return whether the log never gets its name, so that another may have it."""
        return not self._fate.setdefault("is_finished", False)


def create_log(
    log_dir: LogDir,
    topic_partition: TopicPartition,
    topic_id: TopicId,
    config: LogConfig,
    begun: Creation,
) -> LoadedLog:
    """Create the files; on the directory's thread.

    They are made under a name that the next start removes. A directory that fails in between, and
    comes back later, then has no second log of a replica that was created elsewhere meanwhile.
    """
    path = log_dir.path / names.partition_dir(topic_partition)
    # The rest of an interrupted creation is taken over. Whatever else is there is not the disk's
    # fault, and must not take the directory offline.
    if log_dir.fs.exists(path) and (
        not log_dir.fs.is_dir(path) or names.with_suffix(log_dir.fs.listdir(path), names.LOG_SUFFIX)
    ):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{path} already exists")
    if log_dir.fs.exists(path):
        log_dir.fs.rename(
            path, log_dir.path / names.delete_dir(topic_partition, log_dir.environment.new_hex())
        )
    folder = names.delete_dir(topic_partition, log_dir.environment.new_hex())
    log: LoadedLog | None = None
    try:
        log = loaded_log.create_log(
            log_dir.fs,
            log_dir.path,
            topic_partition,
            topic_id,
            config,
            log_dir.files,
            folder=folder,
        )
        if not begun.finish():
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"creation of {path} was cancelled")
        log.files.rename_to(names.partition_dir(topic_partition), sync=False)
    except BaseException:
        if log is not None:
            log.files.abandon()
        # There may be no room. Where nothing can be removed either, the next start does it.
        with suppress(OSError):
            log_dir.fs.rmtree(log_dir.path / folder)
        raise
    return log


def withdraw(files: LogFiles, log_dir: LogDir) -> None:
    """Take the name away from a log that was just created; on the directory's thread."""
    name = names.delete_dir(files.topic_partition, log_dir.environment.new_hex())
    files.rename_to(name, sync=False)
    files.abandon()
    # The next start does it, too.
    with suppress(OSError):
        log_dir.fs.rmtree(files.directory)


def promote(files: LogFiles, log_dir: LogDir) -> None:
    """Give a log the name of a current replica, on the directory's thread."""
    target = files.directory.with_name(names.partition_dir(files.topic_partition))
    if files.directory == target:
        return
    # Whatever is there is not the disk's fault, and must not take the directory offline.
    if log_dir.fs.exists(target):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{target} already exists")
    files.rename_to(target.name)


def retire(files: LogFiles, unique_hex: str) -> Path:
    """Rename and close, on the directory's thread; returns the new path."""
    try:
        files.rename_to(names.delete_dir(files.topic_partition, unique_hex))
    finally:
        files.abandon()
    return files.directory


def put_aside(files: LogFiles, unique_hex: str) -> Path:
    """Rename and close, on the directory's thread; returns the new path."""
    try:
        files.rename_to(names.stray_dir(files.topic_partition, unique_hex))
    finally:
        files.abandon()
    return files.directory
