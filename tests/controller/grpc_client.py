"""A client that knows only the generated stubs, and the real controller behind a real port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import grpc
import grpc.aio

from controller.server import ControllerServer
from jbodlab.image.loader import MetadataLoader
from jbodlab.image.partition_registration import PartitionRegistration
from jbodlab.metadata_log.batches import read_batches
from jbodlab.records.config_records import NoOpRecord
from jbodlab.rpc import controller_pb2 as pb
from jbodlab.rpc.controller_pb2_grpc import ControllerStub
from tests.builders import CLUSTER_ID, directory
from tests.controller.formatted import config_of, format_dir, free_port

DEADLINE_S = 60.0
PATIENCE_S = 10.0
ALL_CAUGHT_UP = 1 << 40


def ids(names: str) -> list[bytes]:
    """Return the wire form of directory names with commas between them."""
    return [directory(name).bytes for name in names.replace(",", " ").split()]


class Client:
    """Calls with protobuf messages, and what the controller wrote because of them."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        # The first attempt comes before the controller listens.
        soon = [(f"grpc.{name}_reconnect_backoff_ms", 20) for name in ("initial", "min", "max")]
        self.channel = grpc.aio.insecure_channel(self.address, options=soon)
        self.stub: Any = ControllerStub(self.channel)
        self.epochs: dict[int, int] = {}
        self.topics: dict[str, bytes] = {}
        self._loader = MetadataLoader()

    async def wait_ready(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.stub.DescribeQuorum(pb.DescribeQuorumRequest(), wait_for_ready=True)

    def registration(self, broker: int, dirs: str, **fields: Any) -> pb.BrokerRegistrationRequest:
        """Return a registration that is right, of a new process each time."""
        request = pb.BrokerRegistrationRequest
        defaults: dict[str, Any] = {
            "broker_id": broker,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": uuid4().bytes,
            "listeners": [request.Listener(name="PLAINTEXT", host="localhost", port=9092)],
            "features": [
                request.Feature(
                    name="metadata.version", min_supported_version=7, max_supported_version=30
                )
            ],
            "log_dirs": ids(dirs),
        }
        return request(**{**defaults, **fields})

    async def register(self, broker: int, dirs: str, **fields: Any) -> Any:
        answer = await self.stub.BrokerRegistration(self.registration(broker, dirs, **fields))
        if answer.error_code == 0:
            self.epochs[broker] = answer.broker_epoch
        return answer

    async def beat(self, broker: int, *, offline: str = "", **fields: Any) -> Any:
        """Send a heartbeat of a broker that has read everything, with its present epoch."""
        defaults: dict[str, Any] = {
            "broker_id": broker,
            "broker_epoch": self.epochs.get(broker, -1),
            "current_metadata_offset": ALL_CAUGHT_UP,
            "offline_log_dirs": ids(offline),
        }
        return await self.stub.BrokerHeartbeat(pb.BrokerHeartbeatRequest(**{**defaults, **fields}))

    async def add(self, broker: int, dirs: str) -> int:
        """Register and unfence a broker; returns its epoch."""
        assert (await self.register(broker, dirs)).error_code == 0
        answer = await self.beat(broker)
        assert (answer.error_code, answer.is_fenced) == (0, False)
        return self.epochs[broker]

    async def create(
        self, name: str, *replicas: Sequence[int], configs: dict[str, str] | None = None
    ) -> Any:
        """Create a topic by hand; returns the answer for it."""
        request = pb.CreateTopicsRequest
        topic = request.Topic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                request.Assignment(partition_index=index, broker_ids=each)
                for index, each in enumerate(replicas)
            ],
            configs=[request.Config(name=key, value=text) for key, text in (configs or {}).items()],
        )
        answer = await self.stub.CreateTopics(request(topics=[topic], timeout_ms=10_000))
        if answer.topics[0].error_code == 0:
            self.topics[name] = answer.topics[0].topic_id
        return answer.topics[0]

    async def assign(self, broker: int, *held: tuple[str, int, str], **fields: Any) -> list[int]:
        """Assign `(topic, partition, directory)`; returns the codes, the top-level one first."""
        request = pb.AssignReplicasToDirsRequest
        message = request(
            **{
                "broker_id": broker,
                "broker_epoch": self.epochs.get(broker, -1),
                "directories": [
                    request.Directory(
                        id=directory(name).bytes,
                        topics=[
                            request.Topic(
                                topic_id=self.topics.get(topic, bytes(15) + b"\xff"),
                                partitions=[request.Partition(partition_index=index)],
                            )
                        ],
                    )
                    for topic, index, name in held
                ],
                **fields,
            }
        )
        answer = await self.stub.AssignReplicasToDirs(message)
        return [answer.error_code] + [
            each.error_code
            for found in answer.directories
            for topic in found.topics
            for each in topic.partitions
        ]

    async def alter(self, broker: int, topic: str, isr: Sequence[int], **fields: Any) -> Any:
        """Propose an ISR for partition 0 with its present epochs; returns the partition's answer.

        With an error at the top the whole answer is returned.
        """
        request = pb.AlterPartitionRequest
        known = await self.partition(topic) if topic in self.topics else None
        top = {name: fields.pop(name) for name in ("broker_epoch",) if name in fields}
        topic_id = fields.pop("topic_id", self.topics.get(topic, bytes(16)))
        members = fields.pop(
            "new_isr_with_epochs", [request.IsrMember(broker_id=each) for each in isr]
        )
        partition = request.Partition(
            **{
                "partition_index": 0,
                "leader_epoch": known.leader_epoch if known else 0,
                "partition_epoch": known.partition_epoch if known else 0,
                "new_isr_with_epochs": members,
                **fields,
            }
        )
        answer = await self.stub.AlterPartition(
            request(
                broker_id=broker,
                broker_epoch=top.get("broker_epoch", self.epochs.get(broker, -1)),
                topics=[request.Topic(topic_id=topic_id, partitions=[partition])],
            )
        )
        return answer.topics[0].partitions[0] if answer.error_code == 0 else answer

    async def elect(self, kind: int, *partitions: tuple[str, int]) -> Any:
        """Ask for elections of these partitions, or of all."""
        request = pb.ElectLeadersRequest
        return await self.stub.ElectLeaders(
            request(
                election_type=kind,
                topic_partitions=[
                    request.Topic(topic=topic, partitions=[index]) for topic, index in partitions
                ],
                all_partitions=not partitions,
            )
        )

    async def written(self) -> list[Any]:
        """Return the records since the last call, by the metadata stream."""
        quorum = await self.stub.DescribeQuorum(pb.DescribeQuorumRequest())
        found: list[Any] = []
        if self._loader.next_offset >= quorum.high_watermark:
            return found
        request = pb.MetadataStreamRequest(
            broker_id=99,
            cluster_id=CLUSTER_ID,
            fetch_offset=self._loader.next_offset,
            last_fetched_epoch=self._loader.image.epoch,
        )
        stream = self.stub.MetadataStream(request)
        async with asyncio.timeout(PATIENCE_S):
            async for message in stream:
                for batch in read_batches(message.records):
                    self._loader.load(batch)
                    found += [item.record for _, item in batch.data_records]
                if self._loader.next_offset >= quorum.high_watermark:
                    break
        stream.cancel()
        return [record for record in found if not isinstance(record, NoOpRecord)]

    async def partition(self, topic: str, index: int = 0) -> PartitionRegistration:
        """Return the state of a partition as a broker would see it."""
        await self.written()
        return self._loader.image.topics.by_name[topic].partitions[index]

    async def broker(self, broker: int) -> Any:
        """Return a registration as a broker would see it; None if there is none."""
        await self.written()
        return self._loader.image.cluster.brokers.get(broker)  # type: ignore[call-overload]


def served(
    tmp_path: Path,
    body: Callable[[Client], Awaitable[None]],
    *,
    level: int = 30,
    **settings: str,
) -> None:
    """Run a conversation with a controller in this process, without NoOps."""

    async def conversation() -> None:
        port = free_port()
        metadata_dir = tmp_path / "metadata"
        if not metadata_dir.exists():
            format_dir(metadata_dir, level=level)
        settings.setdefault("metadata_max_idle_interval_ms", "0")
        stop = asyncio.Event()
        server = ControllerServer(config_of(metadata_dir, port, **settings))
        running = asyncio.create_task(server.run(stop))
        client = Client(port)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await client.wait_ready()
                await client.written()
                await body(client)
        finally:
            await client.channel.close()
            stop.set()
            await running

    # Nobody is left who could wait for an answer.
    with mock.patch("controller.server.STOP_GRACE_S", 0.01):
        asyncio.run(conversation())
