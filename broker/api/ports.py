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
from jbodlab.controller_api.requests import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
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

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, timeout_s: float
    ) -> AlterPartitionReassignmentsResponse:
        """Give partitions to other brokers, or cancel that."""

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, timeout_s: float
    ) -> ListPartitionReassignmentsResponse:
        """Ask for the reassignments under way."""

    async def alter_client_quotas(
        self, request: AlterClientQuotasRequest, timeout_s: float
    ) -> AlterClientQuotasResponse:
        """Set and remove quotas of clients."""

    async def update_features(
        self, request: UpdateFeaturesRequest, timeout_s: float
    ) -> UpdateFeaturesResponse:
        """Raise or lower finalized levels of features."""

    async def unregister_broker(
        self, request: UnregisterBrokerRequest, timeout_s: float
    ) -> UnregisterBrokerResponse:
        """Remove a broker from the cluster."""

    async def describe_quorum(
        self, request: DescribeQuorumRequest, timeout_s: float
    ) -> DescribeQuorumResponse:
        """Ask who leads the metadata log, and how far it has reached."""

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, timeout_s: float
    ) -> AlterConfigsResponse:
        """Change some configs."""

    async def alter_configs(
        self, request: AlterConfigsRequest, timeout_s: float
    ) -> AlterConfigsResponse:
        """Replace all configs of some resources."""

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, timeout_s: float
    ) -> AllocateProducerIdsResponse:
        """Reserve a block of producer ids."""
