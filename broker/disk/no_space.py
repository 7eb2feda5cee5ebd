"""A disk that took no more, whatever it had said of its room."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError
from jbodlab.ids import TopicPartition
from jbodlab.log import disk_errors

T = TypeVar("T")


class NoSpaceError(KafkaError):
    """The disk refused: it is full, a quota is used up, or there are no inodes left.

    Nothing is wrong with what lies there; the directory is FULL from then on, and online.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"no space left on the disk: {cause}")
        self.cause = cause


class FullError(KafkaError):
    """A directory that is FULL takes no records now."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, text)


class WaitsForRoomError(KafkaError):
    """Something has to wait for changes of a log that themselves wait for room on the disk."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"changes of {topic_partition} are still waiting for disk space",
        )


def all_or_lost(function: Callable[[], T]) -> T:
    """Do on a directory's thread what must not break off; a disk that is full then has failed.

    For syncs: what the disk had no room for is gone from memory, too, and nothing can try it again.
    """
    try:
        return function()
    except OSError as error:
        if disk_errors.is_no_space(error):
            raise OSError(errno.EIO, str(error)) from error
        raise
