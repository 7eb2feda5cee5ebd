"""Errors of a disk that has no space for a write, whatever it reported before."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from jbodlab.storage.directory import disk_errors
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

T = TypeVar("T")


class NoSpaceError(KafkaError):
    """The disk refused a write: it is full, or a quota or the inodes are used up.

    Existing files are intact; the directory becomes FULL and stays online.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"no space left on the disk: {cause}")
        self.cause = cause


class FullError(KafkaError):
    """The directory is FULL and accepts no records now."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, text)


class WaitsForRoomError(KafkaError):
    """A call has to wait for changes of a log that wait for space on the disk."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"changes of {topic_partition} are still waiting for disk space",
        )


def fsync_or_fail(function: Callable[[], T]) -> T:
    """Run a sync on a directory's thread; if the disk is full, it has failed.

    A sync that fails once cannot be repeated: the page cache drops the pages.
    """
    try:
        return function()
    except OSError as error:
        if disk_errors.is_no_space(error):
            raise OSError(errno.EIO, str(error)) from error
        raise
