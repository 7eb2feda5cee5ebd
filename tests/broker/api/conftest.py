"""A broker's API on a real listener: real metadata cache, replicas and controller that record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import uvloop

from broker.api.handlers import ClientApis
from broker.api.parts import BrokerParts
from broker.api.services.produce_forwarder import ProduceForwarder
from broker.clients.traffic import Traffic
from broker.disk.life.revival import Revived
from broker.fetch.fetch_requests import (
    EpochAnswer,
    EpochQuery,
    FetchEntry,
    FetchParams,
    FetchResult,
    LogDirDescription,
    OffsetAnswer,
    OffsetQuery,
)
from broker.metadata.dynamic_config import DynamicConfig
from broker.metadata.metadata_cache import MetadataCache
from broker.produce.marker_appends import TransactionMarker
from broker.produce.record_deletion import DeletedRecords, RecordDeletion
from broker.produce.transaction_admission import Part
from broker.replica.waiting.append_entries import AppendEntry, AppendResult, BatchTransaction
from broker.telemetry.clients import TelemetryClients
from jbodlab.config.node_config import read_values
from jbodlab.controller_api import requests
from jbodlab.controller_api.requests import NewTopic
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.image.security_image import SecurityImage
from jbodlab.metadata.image.settings_image import ConfigsImage, FeaturesImage
from jbodlab.metadata.image.topics_image import TopicImage, TopicsImage
from jbodlab.metadata.records.cluster_records import BrokerEndpoint
from jbodlab.metadata.records.security_records import AccessControlEntryRecord
from jbodlab.peers.client import KafkaConnection
from jbodlab.runtime.machine import system_environment
from jbodlab.security.acl import AccessControlEntry
from jbodlab.server.bounds import Bounds
from jbodlab.server.listener import Listener
from jbodlab.server.rights import AllRights, Rights
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, KafkaError
from jbodlab.vocabulary.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)

DEADLINE_S = 10.0
CLUSTER_ID = "JGpFIlgLQVmmBZ4FPbLkkg"
LISTENER = "CLIENTS"
US = BrokerId(1)
DRAWN_ID = UUID(int=77)
ONLINE, FAILED = DirectoryId(UUID(int=1000)), DirectoryId(UUID(int=2000))


def done(value: Any) -> asyncio.Future[Any]:
    future = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future


class RecordingReplicas:
    """Answers what the test put into `results`, keyed by method; remembers the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.results: dict[str, Any] = {}

    def append(
        self,
        entries: Sequence[AppendEntry],
        acks: int,
        timeout_ms: int,
        transaction: BatchTransaction | None = None,
    ) -> asyncio.Future[list[AppendResult]]:
        named = () if transaction is None else (transaction,)
        return self._answer("append", entries, acks, timeout_ms, *named)

    def write_markers(
        self, markers: Sequence[TransactionMarker]
    ) -> asyncio.Future[list[AppendResult]]:
        return self._answer("write_markers", markers)

    def admitted(self, partition: Any, part: Part) -> asyncio.Future[None]:
        return self._answer("admitted", part)

    @property
    def admission(self) -> RecordingReplicas:
        return self

    def fetch(
        self, params: FetchParams, entries: Sequence[FetchEntry]
    ) -> asyncio.Future[list[FetchResult]]:
        return self._answer("fetch", params, entries)

    def list_offsets(
        self, entries: Sequence[OffsetQuery], replica_id: BrokerId, isolation: int
    ) -> asyncio.Future[list[OffsetAnswer]]:
        return self._answer("list_offsets", entries, replica_id, isolation)

    def epoch_end_offset(self, query: EpochQuery) -> EpochAnswer:
        self.calls.append(("epoch_end_offset", query))
        answer: EpochAnswer = self.results["epoch_end_offset"]
        return answer

    def delete_records(
        self, deletions: Sequence[RecordDeletion], timeout_ms: int
    ) -> asyncio.Future[list[DeletedRecords]]:
        return self._answer("delete_records", deletions, timeout_ms)

    def usable_log(self, topic_partition: TopicPartition) -> Any:
        found = self.results["producers"].get(topic_partition)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return SimpleNamespace(producers=SimpleNamespace(entries=found))

    def describe_log_dirs(
        self, topics: Mapping[str, set[int]] | None
    ) -> asyncio.Future[list[LogDirDescription]]:
        return self._answer("describe_log_dirs", topics)

    def _answer(self, method: str, *arguments: Any) -> asyncio.Future[Any]:
        self.calls.append((method, *arguments))
        result = self.results[method]
        if isinstance(result, Exception):
            raise result
        return result if isinstance(result, asyncio.Future) else done(result)


class RecordingController:
    """Answers by the name of the method what the test put into `results`."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.results: dict[str, Any] = {}
        self.next_producer_id = 5000
        self.available = True
        self.unanswered = 0
        """How many more calls find nobody, although `available`."""
        self.lost = 0
        """How many more answers are lost."""

    async def call(self, request: requests.Request[Any], timeout_s: float) -> Any:
        if isinstance(request, requests.AllocateProducerIdsRequest):
            start, self.next_producer_id = self.next_producer_id, self.next_producer_id + 1000
            self.results["AllocateProducerIds"] = requests.AllocateProducerIdsResponse(
                producer_id_start=start, producer_id_len=1000
            )
        # None is left where the request has waited for long: the channel would give up at once.
        assert timeout_s >= 0
        self.calls.append(request)
        if not self.available or self.unanswered:
            self.unanswered = max(0, self.unanswered - 1)
            raise ControllerUnavailableError("no controller", is_outcome_unknown=False)
        if self.lost:
            self.lost -= 1
            raise ControllerUnavailableError("the connection is lost")
        return self.results[request.method()]


class RecordingCoordinators:
    """Answers by the kind of the request what the test put into `results`; remembers the calls.

    A `KafkaError` there is raised at once, one in `later` comes with the future. Of many groups
    those in `elsewhere` are coordinated by another broker.
    """

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.results: dict[type, Any] = {}
        self.later: dict[type, KafkaError] = {}
        self.elsewhere: set[str] = set()
        self.offline: set[int] = set()

    def submit(self, group_id: str, request: Any) -> asyncio.Future[Any]:
        self.calls.append(request)
        if group_id in self.elsewhere:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if type(request) in self.later:
            future = asyncio.get_running_loop().create_future()
            future.set_exception(self.later[type(request)])
            return future
        result = self.results[type(request)]
        if isinstance(result, KafkaError):
            raise result
        return done(result(request) if callable(result) else result)

    def replica_of(self, group_id: str) -> Any:
        if group_id in self.elsewhere:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return SimpleNamespace(topic_partition=TopicPartition("__consumer_offsets", 0))

    def submit_each(
        self, group_ids: Iterable[str], request_for: Callable[[tuple[str, ...]], Any]
    ) -> asyncio.Future[Any]:
        here = tuple(group_id for group_id in group_ids if group_id not in self.elsewhere)
        away = tuple(group_id for group_id in group_ids if group_id in self.elsewhere)
        each: list[Any] = [(away, KafkaError(ErrorCode.NOT_COORDINATOR))] if away else []
        if here:
            request = request_for(here)
            self.calls.append(request)
            each.append((here, self.results[type(request)](request)))
        return done(each)

    def submit_to_all(self, request: Any) -> asyncio.Future[list[Any]]:
        self.calls.append(request)
        result = self.results[type(request)]
        if isinstance(result, KafkaError):
            raise result
        return done(result)

    def is_offline(self, partition: int) -> bool:
        return partition in self.offline


class RecordingRevival:
    """Answers with `revived`, or raises `error`."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.revived = Revived(directory_id=ONLINE, replicas=3)
        self.error: Exception | None = None

    async def revive(self, path: str) -> Revived:
        self.paths.append(path)
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.revived


@dataclass
class Cluster:
    """Parts that the tests of one listener work with."""

    cache: MetadataCache = field(default_factory=lambda: MetadataCache(US, LISTENER))
    empty_batches: int = 0
    """Batches behind the image that change nothing."""
    replicas: RecordingReplicas = field(default_factory=RecordingReplicas)
    controller: RecordingController = field(default_factory=RecordingController)
    groups: RecordingCoordinators = field(default_factory=RecordingCoordinators)
    transactions: RecordingCoordinators = field(default_factory=RecordingCoordinators)
    revival: RecordingRevival = field(default_factory=RecordingRevival)
    traffic: Traffic = field(default_factory=lambda: Traffic(time.monotonic))
    port: int = 0
    kraft_version: int = 0
    produce_forwarder: ProduceForwarder | None = None
    """Follows the metadata while this is served."""

    def publish_brokers(
        self,
        *broker_ids: int,
        fenced: Sequence[int] = (),
        on_this_machine: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Register brokers at host-N:909N, some at a port here; those in `fenced` are not live."""
        brokers = {
            BrokerId(n): BrokerRegistration(
                broker_id=BrokerId(n),
                epoch=BrokerEpoch(n),
                incarnation_id=UUID(int=n),
                endpoints=(
                    BrokerEndpoint(
                        name=LISTENER,
                        host="127.0.0.1" if n in on_this_machine else f"host-{n}",
                        port=on_this_machine.get(n, 9090 + n),
                    ),
                    BrokerEndpoint(name="INSIDE", host=f"inside-{n}", port=19090 + n),
                ),
                rack=f"rack-{n}" if n == 2 else None,
                fenced=n in fenced,
                directories=(ONLINE,),
            )
            for n in broker_ids
        }
        image = self.cache.image
        self._publish(replace(image, cluster=ClusterImage(brokers=brokers)))

    def publish_levels(self, **levels: int) -> None:
        """Finalize features; an underscore stands for each dot in a name."""
        named = {name.replace("_", "."): level for name, level in levels.items()}
        self._publish(replace(self.cache.image, features=FeaturesImage(levels=named)))

    def publish_group_configs(self, group_id: str, **configs: str) -> None:
        """Configure a group; an underscore stands for each dot in a name."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        resources = {**self.cache.image.configs.resources, (32, group_id): named}
        self._publish(replace(self.cache.image, configs=ConfigsImage(resources=resources)))

    def publish_topic(
        self, name: str, *partitions: PartitionRegistration, topic_id: UUID | None = None
    ) -> UUID:
        """Create a topic; without partitions given it has one, led by this broker."""
        topic_id = topic_id or UUID(bytes=name.encode()[:16].ljust(16, b"\0"))
        topic = TopicImage(
            name=name,
            topic_id=TopicId(topic_id),
            partitions=dict(enumerate(partitions or (self.partition(1),))),
        )
        topics = self.cache.image.topics
        self._publish(
            replace(
                self.cache.image,
                topics=TopicsImage(
                    by_id={**topics.by_id, topic.topic_id: topic},
                    by_name={**topics.by_name, name: topic},
                ),
            )
        )
        return topic_id

    @property
    def next_offset(self) -> Offset:
        """Of what the controller decides next; `advance` lets the metadata reach it."""
        return Offset(self.cache.image.offset + 1)

    def advance(self) -> None:
        """Apply a record of the metadata that changes nothing else."""
        self._publish(self.cache.image)

    def publish_acls(self, *entries: AccessControlEntry) -> None:
        """Set all access control entries."""
        acls = {
            UUID(int=n): AccessControlEntryRecord(id=UUID(int=n), **entry._asdict())
            for n, entry in enumerate(entries)
        }
        self._publish(replace(self.cache.image, security=SecurityImage(acls=acls)))

    def delete_topic(self, name: str) -> None:
        topics = self.cache.image.topics
        left = {n: topic for n, topic in topics.by_name.items() if n != name}
        self._publish(
            replace(
                self.cache.image,
                topics=TopicsImage(by_id={t.topic_id: t for t in left.values()}, by_name=left),
            )
        )

    def partition(
        self,
        leader: int,
        replicas: Sequence[int] = (1,),
        *,
        isr: Sequence[int] | None = None,
        leader_epoch: int = 3,
        failed: Sequence[int] = (),
    ) -> PartitionRegistration:
        """A partition; replicas in `failed` are in a directory that is offline."""
        return PartitionRegistration(
            replicas=tuple(map(BrokerId, replicas)),
            directories=tuple(FAILED if n in failed else ONLINE for n in replicas),
            isr=tuple(map(BrokerId, replicas if isr is None else isr)),
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(leader_epoch),
            partition_epoch=PartitionEpoch(0),
        )

    def _publish(self, image: MetadataImage) -> None:
        old, new = self.cache.image, replace(image, offset=Offset(self.cache.image.offset + 1))
        self.cache.publish(new)
        if self.produce_forwarder is not None:
            self.produce_forwarder.metadata_changed(MetadataDelta(old), new)

    async def connect(self) -> KafkaConnection:
        return await KafkaConnection.open(
            "127.0.0.1", self.port, client_id="test", timeout_s=DEADLINE_S
        )


def client_apis(
    cluster: Cluster,
    *,
    auto_create_topics: bool,
    rights: Rights | None = None,
    follower_names: Callable[[int], str] | None = None,
) -> ClientApis:
    replicas: Any = cluster.replicas
    return ClientApis(
        BrokerParts(
            threads=system_environment().threads,
            monotonic_s=system_environment().monotonic_s,
            applied_offset=lambda: cluster.cache.image.offset + cluster.empty_batches,
            new_id=lambda: DRAWN_ID,
            kraft_version=lambda: cluster.kraft_version,
            broker_id=US,
            cluster_id=CLUSTER_ID,
            cache=cluster.cache,
            appends=replicas,
            fetches=replicas,
            sessions=replicas,
            offsets=replicas,
            registry=replicas,
            move_requests=replicas,
            delete_records=replicas.delete_records,
            describe_log_dirs=replicas.describe_log_dirs,
            groups=cluster.groups,
            transactions=cluster.transactions,
            markers=replicas,
            internal_topic=lambda name: NewTopic(name=name, num_partitions=50),
            controller=cluster.controller,
            revival=cluster.revival,
            broker_epoch=lambda: BrokerEpoch(77),
            configs=DynamicConfig(US, read_values({})[0], ["/disk-1", "/disk-2"]),
            auto_create_topics=auto_create_topics,
            telemetry=TelemetryClients(dict, 1 << 20, lambda: 0, lambda: UUID(int=7)),
            traffic=cluster.traffic,
            rights=rights or AllRights(),
            follower_names=follower_names,
        )
    )


@asynccontextmanager
async def serving(
    cluster: Cluster, *, auto_create_topics: bool, rights: Rights | None = None
) -> AsyncIterator[Cluster]:
    apis = client_apis(cluster, auto_create_topics=auto_create_topics, rights=rights)
    listener = Listener(LISTENER, "127.0.0.1", 0, apis.dispatcher, Bounds(system_environment()))
    await listener.start()
    cluster.port, cluster.produce_forwarder = listener.port, apis.produce_forwarder
    try:
        yield cluster
    finally:
        await listener.close()
        await apis.close()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The loop that servers have."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as made:
        yield made


@pytest.fixture
def cluster() -> Cluster:
    """A cluster of three brokers, of which 3 is fenced."""
    cluster = Cluster()
    cluster.publish_brokers(1, 2, 3, fenced=[3])
    return cluster


@pytest.fixture
async def client(cluster: Cluster, options: dict[str, bool]) -> AsyncIterator[KafkaConnection]:
    """A client of the cluster, which is served."""
    async with serving(cluster, **{"auto_create_topics": True, **options}):
        connection = await cluster.connect()
        try:
            yield connection
        finally:
            connection.close()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks left behind: {left}"


def result_error(result: Any) -> ErrorCode:
    return ErrorCode(result.error_code)
