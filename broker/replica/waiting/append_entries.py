"""Batches that clients want appended, and the results: plain values, no messages.

The handlers translate Kafka's messages to these values and back.
"""

from __future__ import annotations

import msgspec

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, TopicPartition


class LeaderHint(msgspec.Struct, frozen=True, kw_only=True):
    """The leader now, for clients that were sent away (KIP-951)."""

    leader: BrokerId
    leader_epoch: LeaderEpoch


class BatchTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction that the batches of a request belong to.

    Attributes:
        adds_partitions: Whether the broker adds partitions to it (transaction version 2); else the
            client has done so before.
        knows_abortable: Whether the client knows TRANSACTION_ABORTABLE.
    """

    transactional_id: str
    adds_partitions: bool = False
    knows_abortable: bool = False


class AppendEntry(msgspec.Struct, frozen=True):
    """Record batches that a client wants appended to one partition."""

    topic_partition: TopicPartition
    records: bytes | memoryview | None


class AppendResult(msgspec.Struct, frozen=True):
    """The offset of the first record, or an error; -1 where there is none."""

    topic_partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    leader_hint: LeaderHint | None = None
