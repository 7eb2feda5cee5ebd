"""What the handlers need from the rest of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from broker.logdirs.revival import Revived
from broker.replication.exchange import (
    AppendEntry,
    AppendResult,
    EpochAnswer,
    EpochQuery,
    FetchEntry,
    FetchParams,
    FetchResult,
    LogDirDescription,
    OffsetAnswer,
    OffsetQuery,
    SessionFetched,
    SessionRequest,
)
from jbodlab.ids import BrokerId
from jbodlab.requests import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)


class Replicas(Protocol):
    """The replicas of this broker; lists of results are in the order of what was asked."""

    def append(
        self, entries: Sequence[AppendEntry], acks: int, timeout_ms: int
    ) -> asyncio.Future[list[AppendResult]]:
        """Append; offsets are given out before this returns, so calls keep their order."""

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

    def epoch_end_offsets(self, entries: Sequence[EpochQuery]) -> list[EpochAnswer]:
        """Say where leader epochs end."""

    def describe_log_dirs(
        self, topics: Mapping[str, set[int]] | None
    ) -> asyncio.Future[list[LogDirDescription]]:
        """Describe every configured directory, with all replicas or those asked for."""


class Revival(Protocol):
    """Brings log directories back."""

    async def revive(self, path: str) -> Revived:
        """Bring one back online; raises KafkaError with the reason if it stays offline."""


class Controller(Protocol):
    """Calls to the active controller; all raise ControllerUnavailableError."""

    async def create_topics(
        self, request: CreateTopicsRequest, timeout_s: float
    ) -> CreateTopicsResponse:
        """Create topics."""

    async def delete_topics(
        self, request: DeleteTopicsRequest, timeout_s: float
    ) -> DeleteTopicsResponse:
        """Delete topics."""

    async def create_partitions(
        self, request: CreatePartitionsRequest, timeout_s: float
    ) -> CreatePartitionsResponse:
        """Add partitions."""

    async def elect_leaders(
        self, request: ElectLeadersRequest, timeout_s: float
    ) -> ElectLeadersResponse:
        """Elect leaders."""

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, timeout_s: float
    ) -> AllocateProducerIdsResponse:
        """Reserve a block of producer ids."""
