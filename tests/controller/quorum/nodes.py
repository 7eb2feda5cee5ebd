"""Nodes of a quorum in one process: real files and threads, and a network that the test cuts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from controller.quorum.driver import Served
from controller.quorum.log_thread import LogThread
from controller.quorum.raft_files import RaftFiles, election_state
from controller.quorum.raft_log import QuorumNodeSettings, RaftLog
from controller.quorum.replicated_log import Committed, NewBatch
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.quorum_state import read_quorum_state
from jbodlab.metadata.log.snapshots import Snapshot
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVoter,
    KRaftVoterEndpoint,
)
from jbodlab.raft.batches import fetched_batches
from jbodlab.raft.events import Event, LeaderSuspected, RequestFailed, ResponseReceived
from jbodlab.raft.instructions import BootstrapServer, SendRequest
from jbodlab.raft.messages import (
    FetchSnapshotAnswer,
    FetchSnapshotResponse,
    PlainResponse,
    QuorumFetchAnswer,
    QuorumFetchResponse,
    QuorumResponse,
    Request,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VersionsRequest,
    VersionsResponse,
    VoterChangeAnswer,
)
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, VERSIONS, ReplicaKey, VoterSet
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, Offset

T = TypeVar("T")

NO_OP = frame.encode(NoOpRecord(), 0)
TIMING = RaftSettings(
    election_timeout_ms=100,
    fetch_timeout_ms=200,
    election_backoff_max_ms=100,
    request_timeout_ms=200,
    retry_backoff_ms=5,
    fetch_wait_ms=50,
    suspect_ms=5,
    suspect_stagger_ms=10,
)
DEADLINE_S = 20


def directory_of(node_id: int) -> DirectoryId:
    return DirectoryId(UUID(int=100 + node_id))


def voters(*ids: int, are_known: bool = False) -> VoterSet:
    return VoterSet.of(
        KRaftVoter(
            voter_id=each,
            voter_directory_id=directory_of(each) if are_known else UNKNOWN_DIRECTORY,
            endpoints=(KRaftVoterEndpoint(name="CONTROLLER", host="host", port=each),),
            k_raft_version_feature=KRaftVersionFeature(
                min_supported_version=0, max_supported_version=int(are_known)
            ),
        )
        for each in ids
    )


def response(request: Request, served: Served) -> QuorumResponse | PlainResponse:
    """An answer after its way over the wire."""
    answer = served.answer
    common = {
        "error": answer.error,
        "epoch": answer.epoch,
        "leader_id": answer.leader_id,
        "leader_endpoints": answer.leader_endpoints,
    }
    match answer:
        case QuorumFetchAnswer():
            batches, is_damaged = fetched_batches(served.data)
            return QuorumFetchResponse(
                high_watermark=answer.high_watermark,
                diverging=answer.diverging,
                snapshot=answer.snapshot,
                batches=batches,
                is_damaged=is_damaged,
                **common,
            )
        case FetchSnapshotAnswer():
            read = answer.read
            return FetchSnapshotResponse(
                snapshot=None if read is None else read[0],
                size=served.size,
                position=0 if read is None else read[1],
                data=served.data,
                **common,
            )
        case VoterChangeAnswer() if isinstance(request, UpdateVoterRequest):
            return UpdateVoterResponse(**common)
        case VoterChangeAnswer():
            return PlainResponse(error=answer.error)
        case _:
            return answer


class Node:
    """One node; a `RoleListener` and a `CommitListener`."""

    def __init__(self, network: Network, node_id: int) -> None:
        self.network, self.id = network, BrokerId(node_id)
        self.directory = network.home / str(node_id)
        self.told: list[tuple[Offset, bytes]] = []
        self.roles: list[tuple[str, int]] = []
        self.snapshots: list[Snapshot] = []
        self.is_leader = False
        self.is_cut = False
        self.running: asyncio.Task[None] | None = None
        self.log: RaftLog
        self.files: MetadataLog
        self.thread: LogThread

    # The log tells it.

    def on_leader(self, epoch: LeaderEpoch) -> None:
        self.roles.append(("leader", epoch))
        self.is_leader = True

    def on_controls(self, end_offset: Offset) -> None:
        pass

    def on_elected(self, epoch: LeaderEpoch) -> None:
        pass

    def on_follower(self, epoch: LeaderEpoch, leader: BrokerId | None) -> None:
        self.roles.append(("follower", epoch))
        self.is_leader = False

    def committed(self, committed: Committed) -> None:
        self.told += committed.batches

    # Its life.

    def start(self) -> None:
        environment = system_environment()
        self.told.clear()
        self.files = MetadataLog.open(self.directory)
        self.thread = LogThread(environment.threads)
        stored = read_quorum_state(self.files.directory)
        self.log = RaftLog(
            settings=QuorumNodeSettings(
                me=ReplicaKey(self.id, directory_of(self.id)),
                endpoints=(KRaftVoterEndpoint(name="CONTROLLER", host="host", port=self.id),),
                voters=self.network.voters,
                bootstrap_servers=len(self.network.nodes) - 1,
                stored=election_state(stored),
                timing=TIMING,
            ),
            files=RaftFiles(self.files),
            log_thread=self.thread,
            peers=self,
            high_watermark=Offset(self.files.start_offset),
            on_snapshot=self.snapshots.append,
            now_ms=environment.monotonic_ms,
            wall_ms=lambda: 1,
            random=environment.random.random,
        )
        self.log.add_listener(self)
        self.running = asyncio.create_task(self.log.run(self))

    async def kill(self) -> None:
        if self.running is None:
            return
        self.is_leader = False
        running, self.running = self.running, None
        running.cancel()
        with suppress(asyncio.CancelledError, LogDirError):
            await running
        await self.thread.run(lambda: self.files._files.abandon())
        self.thread.stop()

    @property
    def is_reached(self) -> bool:
        return self.running is not None and not self.running.done() and not self.is_cut

    # Its peers.

    def send(self, instruction: SendRequest, pass_on: Callable[[Event], None]) -> None:
        asyncio.get_running_loop().create_task(self._send(instruction, pass_on))

    async def _send(self, instruction: SendRequest, pass_on: Callable[[Event], None]) -> None:
        target = instruction.destination
        others = [each for each in self.network.nodes.values() if each is not self]
        node = (
            others[target.place]
            if isinstance(target, BootstrapServer)
            else self.network.nodes[target]
        )
        await asyncio.sleep(0)
        if not self.is_cut and node.running is None:
            pass_on(LeaderSuspected())
        if not (self.is_reached and node.is_reached and node.log._driver.has_begun):
            pass_on(RequestFailed(instruction.request_id, ErrorCode.BROKER_NOT_AVAILABLE))
            return
        if isinstance(instruction.request, VersionsRequest):
            pass_on(ResponseReceived(instruction.request_id, VersionsResponse(versions=VERSIONS)))
            return
        served = await node.log.ask(instruction.request)
        if self.is_reached and node.is_reached:
            pass_on(ResponseReceived(instruction.request_id, response(instruction.request, served)))

    def close(self) -> None:
        pass

    # A test asks it.

    def append(
        self, count: int = 1, *, epoch: int | None = None, base: int | None = None
    ) -> asyncio.Future[Committed]:
        core = self.log.core
        batch = NewBatch(
            base_offset=core.end_offset if base is None else Offset(base),
            records=[(None, NO_OP)] * count,
            timestamp_ms=1,
        )
        return self.log.append(LeaderEpoch(core.state.epoch if epoch is None else epoch), [batch])


class Network:
    """All nodes of a quorum."""

    def __init__(self, home: Path, *ids: int, observers: Iterable[int] = ()) -> None:
        self.home = home
        self.voters = voters(*ids)
        self.nodes = {each: Node(self, each) for each in (*ids, *observers)}

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    async def leader(self, *, but: Node | None = None) -> Node:
        """Wait for the node that leads now."""
        return await self.until(
            lambda: next(
                (n for n in self.nodes.values() if n.is_leader and n is not but and n.is_reached),
                None,
            )
        )

    async def until(self, condition: Callable[[], T | None]) -> T:
        async with asyncio.timeout(DEADLINE_S):
            while not (found := condition()):
                for node in self.nodes.values():
                    if node.running is not None and node.running.done():
                        node.running.result()
                await asyncio.sleep(0.002)
            return found


@asynccontextmanager
async def quorum(home: Path, *ids: int, observers: Iterable[int] = ()) -> AsyncIterator[Network]:
    network = Network(home, *(ids or (1, 2, 3)), observers=observers)
    network.start()
    try:
        yield network
    finally:
        for node in network.nodes.values():
            await node.kill()
