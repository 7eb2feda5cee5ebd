"""The gRPC service: translate, submit, translate back.

A request that cannot be translated is refused with INVALID_ARGUMENT. The error of a whole operation
is returned in the response: at its top if it has an error code there, otherwise in each element.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message
from msgspec.structs import replace

from controller.decide.brokers.brokers import heartbeat, late_heartbeat
from controller.decide.brokers.registration import register_broker, unregister_broker
from controller.decide.partitions.added_partitions import create_partitions
from controller.decide.partitions.directories import assign_replicas_to_dirs
from controller.decide.partitions.elections import elect_leaders
from controller.decide.partitions.isr import alter_partition
from controller.decide.partitions.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from controller.decide.partitions.topics import create_topics, delete_topics
from controller.decide.settings.client_quotas import alter_client_quotas
from controller.decide.settings.configs import alter_configs, incremental_alter_configs
from controller.decide.settings.feature_updates import update_features
from controller.decide.settings.producer_ids import allocate_producer_ids
from controller.decide.state import ControllerResult, ControllerState, IdSource, Randomness
from controller.lead.active_controller import ActiveController, Decision
from controller.lead.leadership import Term
from controller.limits import STREAMS_MAX
from controller.quorum.description import describe_quorum
from jbodlab.controller_api import requests
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.controller_api.transport import Refusal, RpcRefusedError
from jbodlab.vocabulary.errors import DecodeError, KafkaError

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class ControllerService:
    """The methods of `jbodlab.controller_api.Controller`.

    Args:
        term: Returns the present term, whose active controller runs the operations and whose stream
            has the committed metadata; raises `NotLeaderError`, a refusal, while there is none.
        heartbeat_interval_ms: Half of it is the longest that a heartbeat may wait in the queue.
        randomness: Where placement begins.
        new_id: Draws topic ids.
    """

    def __init__(
        self,
        *,
        term: Callable[[], Term],
        heartbeat_interval_ms: int,
        randomness: Randomness,
        new_id: IdSource,
    ) -> None:
        self._term = term
        self._heartbeat_deadline_ms = heartbeat_interval_ms // 2
        self._randomness = randomness
        self._new_id = new_id
        self._streams = 0

    @property
    def _controller(self) -> ActiveController:
        return self._term().controller

    async def BrokerRegistration(  # noqa: N802 - named as in the proto file
        self, message: Message
    ) -> Any:
        """A broker process announces itself."""
        return await self._run(
            message, register_broker, _top_level(requests.BrokerRegistrationResponse)
        )

    async def BrokerHeartbeat(  # noqa: N802
        self, message: Message
    ) -> Any:
        """A broker gives a sign of life."""
        return await self._run(
            message,
            heartbeat,
            _top_level(requests.BrokerHeartbeatResponse),
            late=late_heartbeat,
        )

    async def UnregisterBroker(  # noqa: N802
        self, message: Message
    ) -> Any:
        """An operator removes a broker."""
        return await self._run(
            message, unregister_broker, _top_level(requests.UnregisterBrokerResponse)
        )

    async def AssignReplicasToDirs(  # noqa: N802
        self, message: Message
    ) -> Any:
        """A broker says which directories hold its replicas."""
        return await self._run(
            message,
            assign_replicas_to_dirs,
            _top_level(requests.AssignReplicasToDirsResponse),
        )

    async def AlterPartition(  # noqa: N802
        self, message: Message
    ) -> Any:
        """A leader proposes ISR changes."""
        return await self._run(
            message, alter_partition, _top_level(requests.AlterPartitionResponse)
        )

    async def CreateTopics(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Topics are created."""
        decide = partial(create_topics, randomness=self._randomness, new_id=self._new_id)
        return await self._run(message, decide, _failed_creation)

    async def DeleteTopics(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Topics are deleted."""
        return await self._run(message, delete_topics, _failed_deletion)

    async def CreatePartitions(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Topics grow."""
        decide = partial(create_partitions, randomness=self._randomness)
        return await self._run(message, decide, _failed_growth)

    async def ElectLeaders(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Leaders are elected as an operator asks."""
        return await self._run(
            message,
            elect_leaders,
            _top_level(requests.ElectLeadersResponse),
        )

    async def AlterPartitionReassignments(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Partitions get other brokers."""
        return await self._run(
            message,
            alter_partition_reassignments,
            _top_level(requests.AlterPartitionReassignmentsResponse),
        )

    async def ListPartitionReassignments(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Which partitions are getting other brokers, as far as it is committed."""
        request: requests.ListPartitionReassignmentsRequest = _translated(message)
        image = self._controller.committed_image
        return to_proto(list_partition_reassignments(request, image))

    async def AllocateProducerIds(  # noqa: N802
        self, message: Message
    ) -> Any:
        """A broker gets a block of producer ids."""
        return await self._run(
            message,
            allocate_producer_ids,
            _top_level(requests.AllocateProducerIdsResponse),
        )

    async def IncrementalAlterConfigs(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Some configs are changed."""
        return await self._run(message, incremental_alter_configs, _failed_configs)

    async def AlterConfigs(  # noqa: N802
        self, message: Message
    ) -> Any:
        """All configs of some resources are replaced."""
        return await self._run(message, alter_configs, _failed_configs)

    async def AlterClientQuotas(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Quotas of clients are set and removed."""
        return await self._run(message, alter_client_quotas, _failed_quotas)

    async def UpdateFeatures(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Finalized levels of features are raised or lowered."""
        return await self._run(
            message, update_features, _top_level(requests.UpdateFeaturesResponse)
        )

    async def DescribeQuorum(  # noqa: N802
        self, message: Message
    ) -> Any:
        """Who leads, how far the log is committed, and how far it has reached."""
        controller = self._controller
        return to_proto(
            describe_quorum(
                replace(controller.state, image=controller.committed_image),
                controller.epoch,
                controller.committed_end_offset,
                controller.now_ms(),
                controller.wall_ms(),
            )
        )

    async def MetadataStream(  # noqa: N802
        self, message: Message
    ) -> AsyncIterator[Message]:
        """Committed batches from an offset on."""
        request: requests.MetadataStreamRequest = _translated(message)
        cluster_id = self._controller.state.settings.cluster_id
        if request.cluster_id != cluster_id:
            raise RpcRefusedError(
                Refusal.FAILED_PRECONDITION,
                f"INCONSISTENT_CLUSTER_ID: expected {cluster_id}, but got {request.cluster_id}",
            )
        if self._streams >= STREAMS_MAX:
            raise RpcRefusedError(
                Refusal.RESOURCE_EXHAUSTED,
                f"the limit of {STREAMS_MAX} open metadata streams is reached",
            )
        self._streams += 1
        try:
            async for response in self._term().stream.subscribe(request):
                yield to_proto(response)
        finally:
            self._streams -= 1

    async def _run(
        self,
        message: Any,
        decide: Callable[[RequestT, ControllerState, int], ControllerResult[ResponseT]],
        failed: Callable[[RequestT, KafkaError], ResponseT],
        *,
        late: Callable[[RequestT, ControllerState, int], ControllerResult[ResponseT]] | None = None,
    ) -> Any:
        request: RequestT = _translated(message)
        late_decision: Decision[ResponseT] | None = None
        deadline_ms = _queue_deadline_ms(request)
        if late is not None:
            late_decision = partial(late, request)
            deadline_ms = self._heartbeat_deadline_ms
        try:
            response = await self._controller.submit(
                partial(decide, request),
                deadline_ms=deadline_ms,
                late=late_decision,
                size_bytes=message.ByteSize(),
            )
        except KafkaError as error:
            response = failed(request, error)
        return to_proto(response)


def _queue_deadline_ms(request: object) -> int | None:
    """Return how long a request may wait for its turn; None for any time.

    A client whose timeout is 0 does not want to wait for the effect of what it asks for. Its
    request is carried out like any other.
    """
    timeout_ms: int = getattr(request, "timeout_ms", 0)
    return timeout_ms if timeout_ms > 0 else None


def _translated(message: Any) -> Any:
    try:
        return from_proto(message)
    except DecodeError as error:
        raise RpcRefusedError(Refusal.INVALID_ARGUMENT, str(error)) from error


def _top_level(response_type: Callable[..., ResponseT]) -> Callable[[Any, KafkaError], ResponseT]:
    """Return how an error becomes a response that has a code of its own."""

    def failed(_: object, error: KafkaError) -> ResponseT:
        return response_type(error_code=error.code, error_message=error.message)

    return failed


def _failed_creation(
    request: requests.CreateTopicsRequest, error: KafkaError
) -> requests.CreateTopicsResponse:
    return requests.CreateTopicsResponse(
        topics=tuple(
            requests.CreatedTopic(
                name=topic.name, error_code=error.code, error_message=error.message
            )
            for topic in request.topics
        )
    )


def _failed_deletion(
    request: requests.DeleteTopicsRequest, error: KafkaError
) -> requests.DeleteTopicsResponse:
    return requests.DeleteTopicsResponse(
        responses=tuple(
            requests.DeletedTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=error.code,
                error_message=error.message,
            )
            for topic in request.topics
        )
    )


def _failed_growth(
    request: requests.CreatePartitionsRequest, error: KafkaError
) -> requests.CreatePartitionsResponse:
    return requests.CreatePartitionsResponse(
        results=tuple(
            requests.CreatePartitionsResult(
                name=topic.name, error_code=error.code, error_message=error.message
            )
            for topic in request.topics
        )
    )


def _failed_quotas(
    request: requests.AlterClientQuotasRequest, error: KafkaError
) -> requests.AlterClientQuotasResponse:
    return requests.AlterClientQuotasResponse(
        entries=tuple(
            requests.AlteredQuota(
                entity=entry.entity, error_code=error.code, error_message=error.message
            )
            for entry in request.entries
        )
    )


def _failed_configs(
    request: requests.AlterConfigsRequest | requests.IncrementalAlterConfigsRequest,
    error: KafkaError,
) -> requests.AlterConfigsResponse:
    return requests.AlterConfigsResponse(
        responses=tuple(
            requests.AlteredResource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=error.code,
                error_message=error.message,
            )
            for resource in request.resources
        )
    )
