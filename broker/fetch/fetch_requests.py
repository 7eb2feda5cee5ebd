"""Questions of handlers to the log, and its answers: plain values, no messages.

The handlers translate Kafka's messages to these values and back: fetches and their sessions,
offsets, ends of leader epochs, descriptions of log directories.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from broker.replica.waiting import LeaderHint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, TopicId, TopicIdPartition, TopicPartition

CONSUMER_ID = -1
"""In place of a broker's id: a consumer. A lower one is a tool that looks into any replica."""

READ_COMMITTED = 1
"""Isolation level of readers that want records of decided transactions only."""


class FetchParams(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a fetch as a whole.

    `replica_id` is the id of the following broker, -1 for a consumer, less for a tool that looks
    into a log; `replica_epoch` is that broker's epoch, -1 where unknown. Sizes are in bytes.
    """

    replica_id: BrokerId
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    """Whether only records of decided transactions are wanted, and the aborted ones named."""
    any_replica: bool = False
    """Whether a follower may answer as well."""
    rack: str | None = None
    """Where a consumer is, if it wants to be told of a replica that is closer (KIP-392)."""

    @property
    def is_consumer(self) -> bool:
        """Whether no more may be seen than is committed."""
        return self.replica_id == CONSUMER_ID

    @property
    def is_follower(self) -> bool:
        """Whether a broker asks."""
        return self.replica_id >= 0

    @property
    def takes_records(self) -> bool:
        """Whether there is room for any; a follower without says what it knows, and no more."""
        return self.max_bytes > 0 or self.replica_id < 0


class FetchEntry(msgspec.Struct, frozen=True, kw_only=True):
    """From where on one partition is wanted; epochs are -1 where the request has none."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    high_watermark: int = -1
    """As the follower knows it; -1 where it does not say (KIP-1166)."""


class DivergingEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """The follower's log left the leader's: the largest common epoch and where it ends here."""

    epoch: int
    end_offset: int


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whole batches from the one that contains the wanted offset; offsets are -1 on an error."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """Producer id and first offset of each aborted one in the records; None unless asked for."""
    log_start_offset: int = -1
    records: Sequence[bytes | memoryview] = ()
    records_size: int = 0
    """Bytes in `records` together."""
    diverging_epoch: DivergingEpoch | None = None
    leader_hint: LeaderHint | None = None
    preferred_read_replica: int = -1
    """The replica that the consumer should rather ask; -1 for this one."""


class SessionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which fetch session a request goes on with; epoch 0 begins a new one in its place."""

    session_id: int
    epoch: int
    forgotten: Sequence[TopicIdPartition] = ()
    """Partitions that the session shall no longer contain."""


class SessionFetched(msgspec.Struct, frozen=True, kw_only=True):
    """A fetch session's answer: of any of its partitions, those with news."""

    session_id: int
    results: Sequence[FetchResult]


class OffsetQuery(msgspec.Struct, frozen=True, kw_only=True):
    """ListOffsets: -1 latest, -2 earliest, -3 largest timestamp, -4 local, -5 and -6 tiered."""

    topic_partition: TopicPartition
    timestamp: int
    current_leader_epoch: int = -1


class OffsetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The offset found, or -1."""

    topic_partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class EpochQuery(msgspec.Struct, frozen=True, kw_only=True):
    """OffsetForLeaderEpoch: where does this epoch end?"""

    topic_partition: TopicPartition
    leader_epoch: int
    current_leader_epoch: int = -1


class EpochAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The largest epoch not above the one asked for, and its end offset; -1 and -1 unknown."""

    topic_partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    leader_epoch: int = -1
    end_offset: int = -1


class ReplicaDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One replica in a directory, as DescribeLogDirs shows it."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool = False


class LogDirDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One configured directory; sizes are -1 where unknown."""

    path: str
    error_code: ErrorCode = ErrorCode.NONE
    replicas: tuple[ReplicaDescription, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False
