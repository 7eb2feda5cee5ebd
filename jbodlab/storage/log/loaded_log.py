"""A log and its files, created here or found by `log_loader`."""

from __future__ import annotations

import errno
from pathlib import Path
from uuid import UUID

import msgspec

from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.partition_metadata import write_topic_id
from jbodlab.storage.log.directory_files import DirectoryFiles
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.log_state import LogState
from jbodlab.vocabulary.ids import TopicPartition


class LoadedLog(msgspec.Struct, frozen=True):
    """A log whose files are open, for its new owner."""

    state: LogState
    files: LogFiles

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose log it is."""
        return self.files.topic_partition

    @property
    def start_offset(self) -> int:
        """Offset of the first record."""
        return self.state.start_offset

    @property
    def config(self) -> LogConfig:
        """The settings in force."""
        return self.state.config


def create_log(
    fs: FileSystem,
    log_dir: Path,
    topic_partition: TopicPartition,
    topic_id: UUID,
    config: LogConfig,
    shared: DirectoryFiles,
    *,
    log_start_offset: int = 0,
    future_hex: str | None = None,
    folder: str | None = None,
) -> LoadedLog:
    """Make the directory and the files of a new log; none of it is synced.

    Args:
        fs: The disk.
        log_dir: The log directory.
        topic_partition: The partition.
        topic_id: Written to `partition.metadata`.
        config: Settings of the log.
        shared: Open files and indexes of the log directory.
        log_start_offset: Offset of the first record it may hold.
        future_hex: 32 hexadecimal digits for a future replica, None for a current one.
        folder: Another name to begin with, until it is renamed.

    Raises:
        FileExistsError: there is a log in the partition's directory already.
        ValueError: the name of a future replica would be too long.
    """
    name = names.partition_dir(topic_partition)
    if future_hex is not None:
        name = names.future_dir(topic_partition, future_hex)
    directory = log_dir / (folder or name)
    # A creation that was interrupted may have left the directory, but no segment.
    if fs.exists(directory) and names.with_suffix(fs.listdir(directory), names.LOG_SUFFIX):
        raise FileExistsError(errno.EEXIST, "the directory already contains a log", str(directory))
    fs.mkdir(directory, exist_ok=True)
    write_topic_id(fs, directory / names.PARTITION_METADATA_FILE, topic_id, sync=False)
    files = LogFiles(fs, directory, topic_partition, topic_id, shared, config.index_interval_bytes)
    state, instructions = LogState.empty(config, log_start_offset)
    files.carry_out(instructions)
    return LoadedLog(state, files)
