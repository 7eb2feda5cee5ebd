"""What the handlers need from the rest of the broker."""

from __future__ import annotations

from typing import Protocol

from broker.disk.life.revival import Revived
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
