"""Errors of a process that has no free file descriptor or memory; the disk is not at fault."""

from __future__ import annotations

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


class ShortageError(KafkaError):
    """The process lacked descriptors or memory for a call; the same call may succeed later.

    Clients of every version repeat a request that gets this error code.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"the broker is out of file descriptors or memory: {cause}",
        )
        self.cause = cause
