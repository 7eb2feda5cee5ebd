"""The channel to the controller: one method per Kafka API, values in, values out.

No protobuf type gets past this module. Every call has a deadline.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from jbodlab.controller_api import requests
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.controller_api.transport import RpcTransport


class ControllerChannel:
    """Calls to the active controller; made and used on a running event loop.

    Every method raises `ControllerUnavailableError` where no answer came within the deadline, and
    `DecodeError` where the answer makes no sense. Error codes inside an answer are the caller's.

    Args:
        transport: The way to the controller; closed with the channel.
    """

    def __init__(self, transport: RpcTransport) -> None:
        self._transport = transport

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""
        await self._transport.close()

    async def broker_registration(
        self, request: requests.BrokerRegistrationRequest, timeout_s: float
    ) -> requests.BrokerRegistrationResponse:
        """Announce this broker process."""
        response: requests.BrokerRegistrationResponse = await self._call(
            "BrokerRegistration", request, timeout_s
        )
        return response

    async def broker_heartbeat(
        self, request: requests.BrokerHeartbeatRequest, timeout_s: float
    ) -> requests.BrokerHeartbeatResponse:
        """Give a sign of life."""
        response: requests.BrokerHeartbeatResponse = await self._call(
            "BrokerHeartbeat", request, timeout_s
        )
        return response

    async def unregister_broker(
        self, request: requests.UnregisterBrokerRequest, timeout_s: float
    ) -> requests.UnregisterBrokerResponse:
        """Remove a broker from the cluster."""
        response: requests.UnregisterBrokerResponse = await self._call(
            "UnregisterBroker", request, timeout_s
        )
        return response

    async def assign_replicas_to_dirs(
        self, request: requests.AssignReplicasToDirsRequest, timeout_s: float
    ) -> requests.AssignReplicasToDirsResponse:
        """Say which directories hold replicas of this broker."""
        response: requests.AssignReplicasToDirsResponse = await self._call(
            "AssignReplicasToDirs", request, timeout_s
        )
        return response

    async def alter_partition(
        self, request: requests.AlterPartitionRequest, timeout_s: float
    ) -> requests.AlterPartitionResponse:
        """Propose ISR changes of partitions that this broker leads."""
        response: requests.AlterPartitionResponse = await self._call(
            "AlterPartition", request, timeout_s
        )
        return response

    async def create_topics(
        self, request: requests.CreateTopicsRequest, timeout_s: float
    ) -> requests.CreateTopicsResponse:
        """Create topics."""
        response: requests.CreateTopicsResponse = await self._call(
            "CreateTopics", request, timeout_s
        )
        return response

    async def delete_topics(
        self, request: requests.DeleteTopicsRequest, timeout_s: float
    ) -> requests.DeleteTopicsResponse:
        """Delete topics."""
        response: requests.DeleteTopicsResponse = await self._call(
            "DeleteTopics", request, timeout_s
        )
        return response

    async def create_partitions(
        self, request: requests.CreatePartitionsRequest, timeout_s: float
    ) -> requests.CreatePartitionsResponse:
        """Add partitions to topics."""
        response: requests.CreatePartitionsResponse = await self._call(
            "CreatePartitions", request, timeout_s
        )
        return response

    async def elect_leaders(
        self, request: requests.ElectLeadersRequest, timeout_s: float
    ) -> requests.ElectLeadersResponse:
        """Elect leaders of partitions."""
        response: requests.ElectLeadersResponse = await self._call(
            "ElectLeaders", request, timeout_s
        )
        return response

    async def alter_partition_reassignments(
        self, request: requests.AlterPartitionReassignmentsRequest, timeout_s: float
    ) -> requests.AlterPartitionReassignmentsResponse:
        """Give partitions to other brokers, or cancel that."""
        response: requests.AlterPartitionReassignmentsResponse = await self._call(
            "AlterPartitionReassignments", request, timeout_s
        )
        return response

    async def list_partition_reassignments(
        self, request: requests.ListPartitionReassignmentsRequest, timeout_s: float
    ) -> requests.ListPartitionReassignmentsResponse:
        """Ask for the reassignments under way."""
        response: requests.ListPartitionReassignmentsResponse = await self._call(
            "ListPartitionReassignments", request, timeout_s
        )
        return response

    async def incremental_alter_configs(
        self, request: requests.IncrementalAlterConfigsRequest, timeout_s: float
    ) -> requests.AlterConfigsResponse:
        """Change some configs."""
        response: requests.AlterConfigsResponse = await self._call(
            "IncrementalAlterConfigs", request, timeout_s
        )
        return response

    async def alter_configs(
        self, request: requests.AlterConfigsRequest, timeout_s: float
    ) -> requests.AlterConfigsResponse:
        """Replace all configs of some resources."""
        response: requests.AlterConfigsResponse = await self._call(
            "AlterConfigs", request, timeout_s
        )
        return response

    async def allocate_producer_ids(
        self, request: requests.AllocateProducerIdsRequest, timeout_s: float
    ) -> requests.AllocateProducerIdsResponse:
        """Get a block of producer ids."""
        response: requests.AllocateProducerIdsResponse = await self._call(
            "AllocateProducerIds", request, timeout_s
        )
        return response

    async def alter_client_quotas(
        self, request: requests.AlterClientQuotasRequest, timeout_s: float
    ) -> requests.AlterClientQuotasResponse:
        """Set and remove quotas of clients."""
        response: requests.AlterClientQuotasResponse = await self._call(
            "AlterClientQuotas", request, timeout_s
        )
        return response

    async def update_features(
        self, request: requests.UpdateFeaturesRequest, timeout_s: float
    ) -> requests.UpdateFeaturesResponse:
        """Raise or lower finalized levels of features."""
        response: requests.UpdateFeaturesResponse = await self._call(
            "UpdateFeatures", request, timeout_s
        )
        return response

    async def describe_quorum(
        self, request: requests.DescribeQuorumRequest, timeout_s: float
    ) -> requests.DescribeQuorumResponse:
        """Ask who leads the metadata log, and how far it has reached."""
        response: requests.DescribeQuorumResponse = await self._call(
            "DescribeQuorum", request, timeout_s
        )
        return response

    async def metadata_stream(
        self, request: requests.MetadataStreamRequest
    ) -> AsyncGenerator[requests.MetadataStreamResponse, None]:
        """Yield committed metadata from an offset on, for as long as the controller lives.

        Only the reader can say how long silence may last, so this is the one call without a
        deadline. Close the iterator (`contextlib.aclosing`) to end the stream.
        """
        stream = self._transport.stream("MetadataStream", to_proto(request))
        async with contextlib.aclosing(stream):
            async for message in stream:
                response: requests.MetadataStreamResponse = from_proto(message)
                yield response

    async def _call(self, method: str, request: object, timeout_s: float) -> Any:
        return from_proto(await self._transport.unary(method, to_proto(request), timeout_s))
