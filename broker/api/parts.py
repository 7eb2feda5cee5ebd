"""The parts that a broker's handlers are made of."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import msgspec

from broker.api.services.coordinators import GroupCoordinators, TransactionCoordinators
from broker.api.services.produce_forwarder import ProduceForwarder
from broker.clients.client_quotas import ClientQuotas
from broker.clients.traffic import Traffic
from broker.controller_link.channel import ControllerChannel
from broker.disk.directory import LogDir
from broker.disk.life import LogDirRevival
from broker.fetch.fetch_requests import LogDirDescription
from broker.fetch.fetch_sessions import FetchSessions
from broker.fetch.fetching import FetchService
from broker.fetch.offset_queries import OffsetQueries
from broker.metadata.dynamic_config import DynamicConfig
from broker.metadata.metadata_cache import MetadataCache
from broker.moves.move_requests import RequestedMoves
from broker.produce.appends import AppendService
from broker.produce.marker_appends import MarkerAppends
from broker.produce.record_deletion import DeletedRecords, RecordDeletion
from broker.replica.registry import ReplicaRegistry
from broker.telemetry.clients import TelemetryClients
from jbodlab.controller_api.requests import NewTopic
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.server.answer import Handler
from jbodlab.server.api import Api
from jbodlab.server.resources import Resources
from jbodlab.server.rights import AllRights, Rights
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId
from jbodlab.vocabulary.threads import Threads

if TYPE_CHECKING:
    from broker.api.services.next_coordinator import NextCoordinator
    from broker.api.services.producer_ids import ProducerIds
    from broker.api.services.topic_creator import TopicCreator


class BrokerParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a broker."""

    broker_id: BrokerId
    cluster_id: str
    cache: MetadataCache
    appends: AppendService
    fetches: FetchService
    sessions: FetchSessions
    offsets: OffsetQueries
    registry: ReplicaRegistry
    """The replicas of this broker."""
    delete_records: Callable[
        [Sequence[RecordDeletion], int], Coroutine[Any, Any, list[DeletedRecords]]
    ]
    """(deletions, timeout in ms): lets logs begin later, and waits for those of all replicas."""
    describe_log_dirs: Callable[
        [Mapping[str, set[int]] | None], Coroutine[Any, Any, list[LogDirDescription]]
    ]
    """Describes every directory, with the partitions of these topics; None for all."""
    move_requests: RequestedMoves
    groups: GroupCoordinators
    transactions: TransactionCoordinators
    markers: MarkerAppends
    """Ends transactions in the partitions that are led here."""
    controller: ControllerChannel
    revival: LogDirRevival
    broker_epoch: Callable[[], BrokerEpoch]
    """Epoch of the current registration."""
    threads: Threads
    monotonic_s: Callable[[], float]
    """Clock that goes on while a callback runs."""
    applied_offset: Callable[[], int]
    """Last offset of the metadata log that is applied, batches without a change included."""
    new_id: Callable[[], UUID]
    """Draws ids of topics."""
    kraft_version: Callable[[], int] = lambda: 0
    """The finalized level of kraft.version."""
    configs: DynamicConfig
    """The settings of this broker."""
    traffic: Traffic
    """Counts of requests."""
    telemetry: TelemetryClients
    """The clients that push metrics."""
    rights: Rights = AllRights()
    """Rights of clients."""
    follower_names: Callable[[int], str] | None = None
    """Tells the user of a broker by its id, for requests of followers; None where any may be it."""
    peers: ClientSecurity | None = None
    """How other brokers are reached."""
    is_settled: Callable[[], bool] = lambda: True
    """Whether the controller knows what follows from changed settings."""
    described_partitions_max: int = 2000
    """Most partitions in one response to DescribeTopicPartitions."""
    auto_create_topics: bool = True
    """Whether a client's Metadata request may create topics."""
    log_dirs: Callable[[], Sequence[LogDir]] = tuple
    """The directories of `log.dirs`, offline ones included."""
    internal_topic: Callable[[str], NewTopic | None] = lambda _name: None
    """How a topic of the brokers' own is to be created."""


class ApiParts(BrokerParts, frozen=True, kw_only=True):
    """These, and what several handlers share."""

    quotas: ClientQuotas
    produce_forwarder: ProduceForwarder
    topic_creator: TopicCreator
    producer_ids: ProducerIds
    next_coordinator: NextCoordinator


class ApiHandler:
    """A handler that is made of the parts of a broker."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts


Handlers = TypeVar("Handlers", bound=Callable[[ApiParts], Handler])
Around = Callable[[Handler], Handler]


def serves(
    key: ApiKey,
    versions: tuple[int, int],
    resources: Resources,
    *,
    around: Callable[[ApiParts], Around] | None = None,
    **limits: Any,
) -> Callable[[Handlers], Handlers]:
    """Return what declares the API that a class of handlers answers; `table` finds it.

    Args:
        key: The API.
        versions: First and last version that ApiVersions names.
        resources: Resources that a request touches.
        around: Makes what is around a handler, and is the handler of the API.
        limits: Further fields of `Api`.
    """

    def declared(handlers: Handlers) -> Handlers:
        def wrapped(parts: ApiParts) -> Handler:
            handler = handlers(parts)
            return handler if around is None else around(parts)(handler)

        api = Api(key=key, versions=versions, resources=resources, handler=wrapped, **limits)
        handlers.api = api  # type: ignore[attr-defined]
        return handlers

    return declared
