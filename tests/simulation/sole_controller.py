"""The metadata log of a controller that is alone, as a function of a seed.

One request after the other is asked of the controller of the simulation; between them it stops, is
killed and loses power. Nothing of that depends on how long a call to a disk takes or how many turns
an answer needs: requests and starts have their own halves of a virtual second, and the wall clock
shows whole seconds. So the log changes with the decisions, their records and the format only.

`python -m tests.simulation.sole_controller --seeds 1..50` prints the hash of each seed's log;
`tests/golden/metadata_logs_of_seeds.txt` has what it printed before the metadata log was built on
that of a replica. Index files and snapshots are not part of the hash.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import multiprocessing
from collections import Counter
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from random import Random
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from broker.controller_link.broker_life import SUPPORTED_FEATURES
from jbodlab.controller_api import requests as r
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log import quorum_state
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.records.metadata_version import LATEST
from jbodlab.runtime.environment import Environment
from jbodlab.storage.directory import names
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, TopicPartition
from tests.simulation.disk import File, Folder
from tests.simulation.loop import PROCESS, Process, SimLoop
from tests.simulation.network import PORT_BASE
from tests.simulation.plan import SESSION, Options
from tests.simulation.rpc import SimRpcTransport
from tests.simulation.world import (
    CONTROLLER,
    WALL_START_MS,
    Node,
    NotesHandler,
    World,
    partitions_of,
)

STEPS = 120
BROKERS = (1, 2, 3, 4)
DIRECTORIES = 2
LEVELS = (LATEST, LATEST, LATEST, 25, 15)
"""Of `metadata.version`, drawn."""
ANSWER_S = 5.0
SETTINGS: dict[str, tuple[int, ...]] = {
    # A session ends between a request and a start.
    SESSION: (8_300,),
    "broker.heartbeat.interval.ms": (1_000,),
    "metadata.max.idle.interval.ms": (0,),
    "metadata.log.segment.ms": (604_800_000, 1_000, 5_000),
    "metadata.log.max.record.bytes.between.snapshots": (20_971_520, 2_000),
}
"""Of the controller, and what each is drawn from."""


class SoleController(World):
    """A world with the controller only."""

    def __init__(self, seed: int) -> None:
        random = Random(f"{seed}:sole")
        options = Options(
            seed=seed,
            brokers=0,
            level=random.choice(LEVELS),
            settings={name: random.choice(choices) for name, choices in SETTINGS.items()},
        )
        super().__init__(SimLoop(f"{seed}", is_fifo=True), options)
        self.random = random
        self.epochs: dict[int, BrokerEpoch] = {}
        """Of the brokers that send heartbeats."""
        self._replayed = MetadataLoader()
        self._read: Counter[str] = Counter()
        """How much of each segment is replayed, in bytes."""

    def _environment(self, node: Node, life: str) -> Environment:
        loop = self.loop
        return replace(
            super()._environment(node, life),
            wall_ms=lambda: WALL_START_MS + int(loop.time()) * 1000,
        )

    @property
    def folder(self) -> Folder:
        """The directory of the metadata log, with what was written to it."""
        folder = self.disks[self.controller.metadata_dir].medium.root.names[names.METADATA_DIR_NAME]
        assert isinstance(folder, Folder)
        return folder

    def files(self) -> dict[str, bytes]:
        """Return the files that make the log, by name."""
        kept = (names.LEADER_EPOCH_FILE, quorum_state.FILE_NAME)
        return {
            name: bytes(file.data)
            for name, file in sorted(self.folder.names.items())
            if isinstance(file, File) and (name.endswith(names.LOG_SUFFIX) or name in kept)
        }

    def replayed(self) -> MetadataImage:
        """Return the state after all that is in the log."""
        for name, data in self.files().items():
            if name.endswith(names.LOG_SUFFIX):
                for batch in read_batches(data[self._read[name] :]):
                    self._replayed.load(batch)
                    self._read[name] += batch.size
        return self._replayed.image

    def trace(self) -> str:
        """Return a hash of names and bytes of the log's files."""
        hashed = blake2b(digest_size=16)
        for name, data in self.files().items():
            hashed.update(f"{name} {len(data)}\n".encode() + data)
        return hashed.hexdigest()

    async def ask(self, request: Any) -> Any:
        """Ask the controller; returns its response."""
        transport = SimRpcTransport(self.rpc, f"127.0.0.1:{PORT_BASE + CONTROLLER}")
        message = await transport.unary(type(request).method(), to_proto(request), ANSWER_S)
        return from_proto(message)

    async def at(self, share: float) -> None:
        """Wait for a moment within a second, in the next one if it is over."""
        now = self.loop.time()
        second = int(now) + (now >= int(now) + share)
        await asyncio.sleep(second + share - now)

    async def start(self) -> None:
        """Start the controller, and wait until it leads."""
        await self.at(0.5)
        self.boot(self.controller)
        await self.at(0.9)
        assert (await self.ask(r.DescribeQuorumRequest())).leader_id == CONTROLLER

    async def run(self) -> None:
        """Do everything that the seed says."""
        self.build()
        disk: Any = self.disks[self.controller.metadata_dir]
        disk._seconds = lambda kind: 0.001 * (kind == "sync")
        await self.start()
        for _ in range(STEPS):
            await self.at(0.0)
            for broker_id in sorted(self.epochs):
                await self.beat(broker_id)
            await self.random.choice(ACTIONS)(self)
        await self.at(0.5)
        self.ask_to_stop(self.controller)
        await self.until_down([self.controller], 5.0)

    async def beat(self, broker_id: int, **others: Any) -> None:
        """Send the heartbeat of a broker that knows everything."""
        image = self.replayed()
        request = r.BrokerHeartbeatRequest(
            broker_id=BrokerId(broker_id),
            broker_epoch=self.epochs[broker_id],
            current_metadata_offset=image.offset,
            **others,
        )
        await self.ask(request)

    def id(self) -> UUID:
        """Draw an id."""
        return UUID(bytes=self.random.randbytes(16), version=4)

    def partition(self) -> tuple[TopicPartition, Any] | None:
        """Draw a partition; None if there are none."""
        found = sorted(partitions_of(self.replayed()))
        return self.random.choice(found) if found else None

    def topic(self) -> str:
        """Draw the name of a topic that there is, or once was, or may be."""
        return f"topic-{self.random.randrange(8)}"


def directories_of(broker_id: int) -> tuple[DirectoryId, ...]:
    """Return the log directories of a broker."""
    return tuple(DirectoryId(UUID(int=broker_id << 32 | n)) for n in range(1, DIRECTORIES + 1))


async def register(world: SoleController) -> None:
    broker_id = world.random.choice(BROKERS)
    known = world.replayed().cluster.brokers.get(BrokerId(broker_id))
    request = r.BrokerRegistrationRequest(
        broker_id=BrokerId(broker_id),
        cluster_id=world.cluster_id,
        incarnation_id=world.id(),
        listeners=(Endpoint(name="PLAINTEXT", host="127.0.0.1", port=PORT_BASE + broker_id),),
        features=SUPPORTED_FEATURES,
        log_dirs=directories_of(broker_id),
        previous_broker_epoch=(
            known.epoch if known is not None and world.random.random() < 0.5 else BrokerEpoch(-1)
        ),
    )
    world.epochs[broker_id] = (await world.ask(request)).broker_epoch


async def leave(world: SoleController) -> None:
    """A broker stops, in order or without a word, or is no longer part of the cluster."""
    if not world.epochs:
        return
    broker_id = world.random.choice(sorted(world.epochs))
    drawn = world.random.random()
    if drawn < 0.5:
        await world.beat(broker_id, want_shut_down=True)
    del world.epochs[broker_id]
    if drawn > 0.9:
        await world.ask(r.UnregisterBrokerRequest(broker_id=BrokerId(broker_id)))


async def lose_directory(world: SoleController) -> None:
    if world.epochs:
        broker_id = world.random.choice(sorted(world.epochs))
        offline = (world.random.choice(directories_of(broker_id)),)
        await world.beat(broker_id, offline_log_dirs=offline)


async def create(world: SoleController) -> None:
    factor = world.random.randint(1, 3)
    topics = tuple(
        r.NewTopic(
            name=world.topic(),
            num_partitions=world.random.randint(1, 4),
            replication_factor=factor,
            configs=(("min.insync.replicas", f"{factor}"),),
        )
        for _ in range(world.random.randint(1, 2))
    )
    await world.ask(r.CreateTopicsRequest(topics=topics))


async def grow(world: SoleController) -> None:
    added = r.PartitionsToAdd(name=world.topic(), count=world.random.randint(2, 6))
    await world.ask(r.CreatePartitionsRequest(topics=(added,)))


async def delete(world: SoleController) -> None:
    await world.ask(r.DeleteTopicsRequest(topics=(r.TopicToDelete(name=world.topic()),)))


async def assign(world: SoleController) -> None:
    if (found := world.partition()) is None:
        return
    partition, state = found
    broker_id = world.random.choice(state.replicas)
    if broker_id in world.epochs:
        assignment = r.DirectoryAssignment(
            topic_id=world.replayed().topics.by_name[partition.topic].topic_id,
            partition=partition.partition,
            directory=world.random.choice(directories_of(broker_id)),
        )
        await world.ask(
            r.AssignReplicasToDirsRequest(
                broker_id=broker_id,
                broker_epoch=world.epochs[broker_id],
                assignments=(assignment,),
            )
        )


async def change_isr(world: SoleController) -> None:
    found = world.partition()
    if found is None or found[1].leader not in world.epochs:
        return
    partition, state = found
    others = [each for each in state.replicas if each != state.leader and each in world.epochs]
    kept = world.random.sample(others, world.random.randint(0, len(others)))
    change = r.IsrChange(
        topic_id=world.replayed().topics.by_name[partition.topic].topic_id,
        partition=partition.partition,
        leader_epoch=state.leader_epoch,
        new_isr=tuple(
            r.IsrMember(broker_id=each, broker_epoch=world.epochs[each])
            for each in (state.leader, *kept)
        ),
        partition_epoch=state.partition_epoch,
    )
    await world.ask(
        r.AlterPartitionRequest(
            broker_id=state.leader, broker_epoch=world.epochs[state.leader], changes=(change,)
        )
    )


async def elect(world: SoleController) -> None:
    await world.ask(
        r.ElectLeadersRequest(election_type=world.random.randint(0, 1), topic_partitions=None)
    )


async def reassign(world: SoleController) -> None:
    if (found := world.partition()) is not None:
        count = world.random.randint(1, 3)
        replicas = tuple(BrokerId(each) for each in world.random.sample(BROKERS, count))
        wanted = r.PartitionToReassign(
            topic=found[0].topic, partition=found[0].partition, replicas=replicas
        )
        await world.ask(r.AlterPartitionReassignmentsRequest(partitions=(wanted,)))


async def configure(world: SoleController) -> None:
    value = f"{world.random.randint(1, 9)}00000"
    change = r.ConfigChange(name="retention.ms", config_operation=0, value=value)
    resource = r.ConfigResource(resource_type=2, resource_name=world.topic(), configs=(change,))
    await world.ask(r.IncrementalAlterConfigsRequest(resources=(resource,)))


async def limit(world: SoleController) -> None:
    user = r.QuotaEntityName(entity_type="user", entity_name=f"u{world.random.randint(1, 3)}")
    is_removed = world.random.random() < 0.3
    change = r.QuotaChange(
        key="producer_byte_rate",
        value=0.0 if is_removed else float(world.random.randint(1, 9)),
        remove=is_removed,
    )
    await world.ask(
        r.AlterClientQuotasRequest(entries=(r.QuotaEntry(entity=(user,), ops=(change,)),))
    )


async def allocate(world: SoleController) -> None:
    if world.epochs:
        broker_id = world.random.choice(sorted(world.epochs))
        await world.ask(
            r.AllocateProducerIdsRequest(
                broker_id=BrokerId(broker_id), broker_epoch=world.epochs[broker_id]
            )
        )


async def wait(world: SoleController) -> None:
    """Time passes, and sessions end."""
    await asyncio.sleep(world.random.randint(2, 10))


async def restart(world: SoleController) -> None:
    """The controller's process ends, and another one starts."""
    node = world.controller
    drawn = world.random.random()
    await world.at(0.5)
    if drawn < 0.4:
        world.ask_to_stop(node)
        await world.until_down([node], 5.0)
    elif drawn < 0.7:
        world.kill(node)
    else:
        world.cut_power(node)
        world.network.dark.discard(node.name)
        await asyncio.sleep(3.0)
    await world.start()


Action = Callable[[SoleController], Awaitable[None]]
ACTIONS: tuple[Action, ...] = (
    *(register,) * 5,
    *(create,) * 4,
    *(change_isr, assign, restart) * 3,
    *(leave, lose_directory, grow, delete, elect, reassign, wait) * 2,
    configure,
    limit,
    allocate,
)


def trace_of(seed: int) -> str:
    """Return the hash of a seed's metadata log.

    Raises:
        Violation: something was found, or the product logged an unexpected error.
    """
    gc.disable()
    world = SoleController(seed)
    root = logging.getLogger()
    root.handlers[:] = [NotesHandler(world)]
    root.setLevel(logging.INFO)
    context_of: Any = PROCESS.set(Process("client-alone"))
    try:
        world.loop.run_until_complete(world.run())
    finally:
        PROCESS.reset(context_of)
        asyncio.events._set_running_loop(None)
        root.handlers[:] = []
    for violation in world.violations:
        raise violation
    return world.trace()


def main() -> None:
    """Print the hash of each seed's log; each history has a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1..50", help="FIRST..LAST")
    first, _, last = parser.parse_args().seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for seed, trace in zip(seeds, pool.imap(trace_of, seeds), strict=True):
            print(seed, trace, flush=True)


if __name__ == "__main__":
    main()
