"""What the handlers need from the rest of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from broker.disk.life.revival import Revived
from broker.replica.client_requests import (
    AppendEntry,
    AppendResult,
    DeletedRecords,
    EpochAnswer,
    EpochQuery,
    FetchEntry,
    FetchParams,
    FetchResult,
    LogDirDescription,
    OffsetAnswer,
    OffsetQuery,
    RecordDeletion,
    SessionFetched,
    SessionRequest,
)
from jbodlab.storage.log.producer_state import ProducerEntry
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, TopicPartition


class Replicas(Protocol):
    """The replicas of this broker; lists of results are in the order of what was asked."""

    def append(
        self, entries: Sequence[AppendEntry], acks: int, timeout_ms: int
    ) -> asyncio.Future[list[AppendResult]]:
        """Append; each batch behind all that came for its partition before."""

    def fetch(
        self, params: FetchParams, entries: Sequence[FetchEntry]
    ) -> asyncio.Future[list[FetchResult]]:
        """Read, waiting for data as long as the parameters allow."""

    def fetch_in_session(
        self, params: FetchParams, session: SessionRequest, entries: Sequence[FetchEntry]
    ) -> asyncio.Future[SessionFetched]:
        """Read for a follower that names only what changed; raises KafkaError."""

    def hurry_session(self, session_id: int) -> None:
        """Let the waiting fetch of a session be answered now."""

    def list_offsets(
        self, entries: Sequence[OffsetQuery], replica_id: BrokerId, isolation: int
    ) -> asyncio.Future[list[OffsetAnswer]]:
        """Look offsets up by time."""

    def epoch_end_offset(self, query: EpochQuery) -> EpochAnswer:
        """Say where a leader epoch ends."""

    def delete_records(
        self, deletions: Sequence[RecordDeletion], timeout_ms: int
    ) -> asyncio.Future[list[DeletedRecords]]:
        """Let logs begin later, and wait until those of all replicas do."""

    def producers(self, topic_partition: TopicPartition) -> Sequence[tuple[int, ProducerEntry]]:
        """Return the producers of a replica by their ids; raises KafkaError if there is none."""

    def describe_log_dirs(
        self, topics: Mapping[str, set[int]] | None
    ) -> asyncio.Future[list[LogDirDescription]]:
        """Describe every configured directory, with all replicas or those asked for."""

    def alter_log_dir(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        """Begin, redirect or cancel the move of a replica between directories."""


class Revival(Protocol):
    """Brings log directories back."""

    async def revive(self, path: str) -> Revived:
        """Bring one back online; raises KafkaError with the reason if it stays offline."""
