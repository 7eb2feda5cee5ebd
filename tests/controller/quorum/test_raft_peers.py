"""The way to other controllers, which may be of older releases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from controller.quorum.driver import Served
from controller.quorum.raft_peers import RaftPeers
from controller.serve.raft_apis import API_VERSIONS, QUORUM_APIS, QuorumParts
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.records.control_records import KRaftVoterEndpoint
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.raft.events import Event, RequestFailed, ResponseReceived
from jbodlab.raft.instructions import SendRequest
from jbodlab.raft.messages import Request, VoteResponse
from jbodlab.runtime.machine import system_environment
from jbodlab.server.answer import RequestContext
from jbodlab.server.api import Api
from jbodlab.server.bounds import Bounds
from jbodlab.server.dispatch import Dispatcher
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.listener import Listener
from jbodlab.server.request_counts import RequestCounts
from jbodlab.server.resources import nothing
from jbodlab.server.rights import AllRights
from jbodlab.server.served import served
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch
from tests.controller.quorum.test_raft_wire import CLUSTER, VOTE

DEADLINE_S = 10
ANSWER = VoteResponse(epoch=LeaderEpoch(7), leader_id=None, is_granted=True)


class OldController:
    """A controller that knows no pre-vote."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        environment = system_environment()
        self.counts = RequestCounts(environment.monotonic_s)
        self._thread = HelperThread(environment.threads, "requests")
        self._bounds = Bounds(environment)
        vote = next(each for each in QUORUM_APIS if each.key is ApiKey.VOTE)
        apis = [replace(vote, versions=(0, 1)), self._versions_api()]
        log: Any = SimpleNamespace(ask=self._ask)
        nobody: Any = None
        made = served(
            apis,
            QuorumParts(CLUSTER, log, nobody, nobody, nobody),
            rights=AllRights(),
            counts=self.counts,
        )
        dispatcher = Dispatcher(made, self._thread, environment.monotonic_s)
        self.listener = Listener("CONTROLLER", "127.0.0.1", 0, dispatcher, self._bounds)

    def _ask(self, request: Request) -> asyncio.Future[Served]:
        self.asked.append(request)
        future: asyncio.Future[Served] = asyncio.get_running_loop().create_future()
        future.set_result(Served(ANSWER))
        return future

    def _versions_api(self) -> Api[QuorumParts]:
        of_vote = API_VERSIONS.ApiVersion(api_key=ApiKey.VOTE, min_version=0, max_version=1)

        class Versions(FailsBySchema):
            def answer(self, request: Any, context: RequestContext) -> Any:
                return API_VERSIONS.response(api_keys=(of_vote,))

        return Api(
            key=ApiKey.API_VERSIONS,
            versions=(0, 4),
            resources=nothing,
            handler=lambda _: Versions(),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RaftPeers]:
        await self.listener.start()
        peers = RaftPeers(
            PeerPool("raft-client-1", DEADLINE_S),
            cluster_id=CLUSTER,
            listener_name="CONTROLLER",
            bootstrap_servers=(),
            timeout_ms=DEADLINE_S * 1000,
        )
        try:
            yield peers
        finally:
            peers.close()
            await self.listener.close()
            self._thread.close()

    async def event(self, peers: RaftPeers, request: Request) -> Event:
        """Send a request to this controller; return the event that it ends with."""
        told: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        here = KRaftVoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=self.listener.port)
        peers.send(SendRequest(1, BrokerId(2), (here,), request), told.set_result)
        return await asyncio.wait_for(told, DEADLINE_S)


async def test_versions_are_asked_once_per_connection_and_an_old_voter_gets_no_pre_vote() -> None:
    old = OldController()
    async with old.running() as peers:
        for _ in range(2):
            pre_vote = await old.event(peers, VOTE)
            vote = await old.event(peers, replace(VOTE, is_pre_vote=False))

            assert pre_vote == RequestFailed(1, ErrorCode.UNSUPPORTED_VERSION)
            assert vote == ResponseReceived(1, ANSWER)
    assert old.asked == 2 * [replace(VOTE, is_pre_vote=False)]
    assert old.counts.requests[ApiKey.API_VERSIONS] == 1
