"""The stage of a broker's tests: its replicas are real, everybody else is what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from broker.replica.leading.leader_state import LeaderState
from broker.replica.log.partition_log import PartitionLog
from broker.replica.partition.partition import Partition
from broker.replica.waiting.append_entries import AppendResult
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicPartition
from tests.broker.replicas import (
    DEADLINE_S,
    ME,
    TOPIC,
    Host,
    Metadata,
    batch,
    broker,
    config,
    directory_id,
    feature,
    partition_record,
    topic,
)

ONE, TWO, THREE = ME, BrokerId(2), BrokerId(3)
D2, D3 = directory_id(20), directory_id(30)
"""The directories in which brokers 2 and 3 have their replicas; they have a second one each."""


def tp(index: int) -> TopicPartition:
    return TopicPartition(TOPIC, index)


class Stage:
    """Broker 1 with real directories; brokers 2 and 3, and the controller, are told by the test.

    `async with` stops it. Needs of the tests of one subject are in a subclass.
    """

    def __init__(self, root: Path, **arguments: Any) -> None:
        """`arguments`: those of `Host`."""
        self.host = Host(root, **arguments)
        self.metadata = Metadata(self.host.manager.roles)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        await self.host.stop()

    def apply(self, *records: Record) -> None:
        self.metadata.apply(*records)

    def describe(
        self,
        replicas: Sequence[int] = (1,),
        *others: Record,
        isr: Sequence[int] | None = None,
        leader: int | None = None,
        partitions: int = 1,
        directory: DirectoryId | None = None,
        **configs: str,
    ) -> None:
        """Let the metadata name the brokers and the topic, whose logs come later.

        `directory`: that of broker 1; else partition n is in its directory n, counted round.
        """
        self.apply(
            feature(),
            broker(1, *self.host.directories),
            broker(2, D2, directory_id(21)),
            broker(3, D3, directory_id(31)),
            *(config(name.replace("_", "."), value) for name, value in configs.items()),
            topic(),
            *(
                partition_record(
                    replicas,
                    [
                        self.place(each, index) if each != 1 or directory is None else directory
                        for each in replicas
                    ],
                    isr=isr,
                    leader=leader,
                    index=index,
                )
                for index in range(partitions)
            ),
            *others,
        )

    def place(self, broker_id: int, index: int = 0) -> DirectoryId:
        """The directory in which a broker has its replica of a partition."""
        own = self.host.directories
        return own[index % len(own)] if broker_id == 1 else directory_id(10 * broker_id)

    async def begin(self, *replicas: int, **described: Any) -> Partition:
        """Describe the topic, and return its first partition when all logs are there."""
        self.describe(replicas or (1,), **described)
        for index in range(described.get("partitions", 1)):
            await self.host.online(tp(index))
        return self.partition

    def partition_at(self, index: int) -> Partition:
        found = self.host.registry.partition(tp(index))
        assert found is not None
        return found

    @property
    def partition(self) -> Partition:
        return self.partition_at(0)

    def log_at(self, index: int) -> PartitionLog:
        found = self.partition_at(index).log
        assert found is not None
        return found

    @property
    def log(self) -> PartitionLog:
        return self.log_at(0)

    @property
    def leading(self) -> LeaderState:
        """Offsets that the leader of partition 0 knows."""
        state = self.partition.leader
        assert state is not None
        return state

    @property
    def end(self) -> int:
        return self.log.end_offset

    def fail(self, number: int = 0) -> None:
        """Let a directory fail."""
        self.host.log_dirs.fail(self.host.dirs[number], "test")

    def fetched(self, follower: BrokerId, offset: int) -> None:
        """A follower asks from an offset: it has all below."""
        self.partition.in_sync.follower_fetched(follower, offset, 7)

    async def written(self) -> None:
        """Let all that was appended reach the disk, and those who wait for that hear of it."""
        await self.host.online()
        await asyncio.wait_for(self.log.written(), DEADLINE_S)
        await asyncio.sleep(0)

    async def waiting(self) -> asyncio.Future[list[AppendResult]]:
        """A produce request that waits for followers."""
        future = self.host.produce(batch())
        await self.written()
        assert not future.done()
        return future


async def appended(sent: asyncio.Future[list[AppendResult]]) -> AppendResult:
    """The answer to a produce request of one batch, when it comes."""
    (result,) = await asyncio.wait_for(sent, DEADLINE_S)
    return result


async def code(sent: asyncio.Future[list[AppendResult]]) -> ErrorCode:
    return (await appended(sent)).error_code
