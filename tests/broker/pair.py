"""Two brokers in one process, connected by the real protocol over the loopback interface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from broker.api.handlers import ClientApis
from broker.api.parts import BrokerParts
from broker.metadata.metadata_cache import MetadataCache
from broker.metadata.metadata_publisher import MetadataPublisher
from broker.replica.partition.partition import Partition
from broker.replica.waiting.append_entries import AppendResult
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.schema import Record
from jbodlab.runtime.machine import system_environment
from jbodlab.server.bounds import Bounds
from jbodlab.server.listener import Listener
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId
from tests.broker.logs import read_direct
from tests.broker.replicas import (
    TP,
    Host,
    Metadata,
    broker,
    config,
    feature,
    partition_record,
    topic,
)


class Node:
    """A broker's replicas behind a listener, as its server puts them together."""

    def __init__(
        self,
        root: Path,
        broker_id: int,
        nodes: dict[int, Node],
        fetch_wait_max_ms: int,
        disk: FileSystem | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.host = Host(
            root,
            broker_id=broker_id,
            fetch_wait_max_ms=fetch_wait_max_ms,
            fs=disk,
            address_of=lambda leader: (
                ("127.0.0.1", nodes[leader].listener.port) if leader in nodes else None
            ),
        )
        self.cache = MetadataCache(BrokerId(broker_id), "PLAINTEXT")
        self.publisher = MetadataPublisher(self.cache)
        self.publisher.publish_to(
            internal_listeners=[self.host.manager.roles], listeners_after_clients=[]
        )
        manager = self.host.manager
        self.apis = ClientApis(
            BrokerParts(
                threads=system_environment().threads,
                monotonic_s=system_environment().monotonic_s,
                applied_offset=lambda: self.cache.image.offset,
                new_id=system_environment().new_id,
                broker_id=BrokerId(broker_id),
                cluster_id="test",
                cache=self.cache,
                appends=manager.appends,
                fetches=manager.fetches,
                sessions=manager.sessions,
                offsets=manager.offsets,
                registry=manager.registry,
                move_requests=manager.move_requests,
                delete_records=manager.delete_records,
                describe_log_dirs=manager.describe_log_dirs,
                markers=None,  # type: ignore[arg-type]
                groups=None,  # type: ignore[arg-type]  # no request here needs one
                transactions=None,  # type: ignore[arg-type]
                controller=None,  # type: ignore[arg-type]
                revival=None,  # type: ignore[arg-type]
                broker_epoch=lambda: BrokerEpoch(7),
                configs=None,  # type: ignore[arg-type]
                telemetry=None,  # type: ignore[arg-type]
                traffic=self.host.traffic,
            )
        )
        self.listener = Listener(
            "PLAINTEXT", "127.0.0.1", 0, self.apis.dispatcher, Bounds(system_environment())
        )

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.publisher.metadata_changed(delta, image)

    @property
    def replica(self) -> Partition:
        found = self.host.manager.registry.partition(TP)
        assert found is not None
        return found

    @property
    def end_offset(self) -> int:
        log = self.replica.log
        return -1 if log is None else log.written_end

    def content(self) -> bytes:
        """Return the whole log as it is on the disk; the thread must be idle."""
        log = self.replica.log
        assert log is not None
        return read_direct(log, 0)

    async def stop(self) -> None:
        await self.listener.close()
        await self.host.stop()
        await self.apis.close()


class Pair:
    """Brokers 1 and 2 with one partition on both; broker 1 leads."""

    def __init__(self, root: Path, fetch_wait_max_ms: int, disks: Mapping[int, FileSystem]) -> None:
        self.nodes: dict[int, Node] = {}
        for number in (1, 2):
            self.nodes[number] = Node(
                root, number, self.nodes, fetch_wait_max_ms, disks.get(number)
            )
        self.one, self.two = self.nodes[1], self.nodes[2]
        self.metadata = Metadata(self.one, self.two)

    async def start(self) -> None:
        for node in self.nodes.values():
            await node.listener.start()
        self.metadata.apply(
            feature(),
            broker(1, *self.one.host.directories),
            broker(2, *self.two.host.directories),
            config("min.insync.replicas", "1"),
            topic(),
            partition_record((1, 2), (self.one.host.directory(0), self.two.host.directory(0))),
        )
        await self.one.host.online()
        await self.two.host.online()

    def apply(self, *records: Record) -> None:
        self.metadata.apply(*records)

    async def stop(self) -> None:
        for node in self.nodes.values():
            await node.stop()

    async def produced(self, node: Node, records: bytes, acks: int = -1) -> AppendResult:
        return await node.host.produced(records, acks=acks)


@asynccontextmanager
async def paired(
    tmp_path: Path,
    *,
    fetch_wait_max_ms: int = 500,
    disks: Mapping[int, FileSystem] = MappingProxyType({}),
) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path, fetch_wait_max_ms, disks)
    await pair.start()
    try:
        yield pair
    finally:
        await pair.stop()
