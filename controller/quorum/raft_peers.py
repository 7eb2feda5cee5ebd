"""Requests to the other nodes of the quorum, over the Kafka protocol.

The core asks a node again; here each request is tried once. A connection that is refused says that
the process of that node is gone, while one that times out, or a node that refuses the certificate,
says nothing of the kind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from controller.quorum.raft_wire import request_message, response_of
from jbodlab.peers.client import PeerRefusedError
from jbodlab.peers.peer_pool import Address, PeerPool
from jbodlab.raft.events import Event, LeaderSuspected, RequestFailed, ResponseReceived
from jbodlab.raft.instructions import BootstrapServer, SendRequest
from jbodlab.raft.messages import FetchRequest, FetchSnapshotRequest, Request
from jbodlab.server.told_lately import ToldLately
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, KafkaError

logger = logging.getLogger(__name__)


class RaftPeers:
    """The way from a node to the others; see `controller.quorum.driver.Peers`.

    Args:
        pool: Opens connections.
        cluster_id: Id of the cluster, as each request says.
        listener_name: Name of the listeners at which controllers reach each other.
        bootstrap_servers: Addresses of nodes that may know the leader, without that of this one.
        timeout_ms: Longest wait for an answer.
    """

    def __init__(
        self,
        pool: PeerPool,
        *,
        cluster_id: str,
        listener_name: str,
        bootstrap_servers: Sequence[Address],
        timeout_ms: int,
    ) -> None:
        self._pool = pool
        self._cluster_id = cluster_id
        self._listener_name = listener_name
        self._bootstrap_servers = bootstrap_servers
        self._timeout_s = timeout_ms / 1000
        self._calls: set[asyncio.Task[None]] = set()
        self._told = ToldLately()

    def send(self, instruction: SendRequest, pass_on: Callable[[Event], None]) -> None:
        """Ask a node; the event of its answer, or of the failure, is passed on."""
        call = asyncio.get_running_loop().create_task(
            self._call(instruction, pass_on), name="request to a controller"
        )
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    def close(self) -> None:
        """Ask nobody any more."""
        for call in self._calls:
            call.cancel()
        self._pool.close()

    async def _call(self, instruction: SendRequest, pass_on: Callable[[Event], None]) -> None:
        request_id, request = instruction.request_id, instruction.request
        address = self._address(instruction)
        try:
            if address is None:
                raise ConnectionError("its address is unknown")
            answer = await self._ask(address, request)
            response = response_of(request, answer, self._listener_name)
        except PeerRefusedError as error:
            if self._tell(address, "refused"):
                logger.warning(
                    "a controller and this one do not know each other: %s",
                    error,
                    extra={"address": address},
                )
            pass_on(RequestFailed(request_id, ErrorCode.NETWORK_EXCEPTION))
        except ConnectionRefusedError:
            # Only the leader is asked for records by its own id.
            is_leader = isinstance(request, FetchRequest | FetchSnapshotRequest)
            if is_leader and not isinstance(instruction.destination, BootstrapServer):
                pass_on(LeaderSuspected())
            pass_on(RequestFailed(request_id, ErrorCode.BROKER_NOT_AVAILABLE))
        except KafkaError as error:
            asked = type(request).__name__
            if self._tell(address, asked, error.code):
                logger.info(
                    "a controller refuses a request",
                    extra={"address": address, "request": asked, "error": error.code.name},
                )
            pass_on(RequestFailed(request_id, error.code))
        except DecodeError as error:
            logger.warning(
                "cannot read the answer of a controller: %s", error, extra={"address": address}
            )
            pass_on(RequestFailed(request_id, ErrorCode.UNKNOWN_SERVER_ERROR))
        except (OSError, TimeoutError):
            pass_on(RequestFailed(request_id, ErrorCode.BROKER_NOT_AVAILABLE))
        else:
            pass_on(ResponseReceived(request_id, response))

    async def _ask(self, address: Address, request: Request) -> Any:
        """Return the response of a node.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, the node has no version of the request.
            OSError, TimeoutError, DecodeError: as `PeerPool.call`.
        """
        async with asyncio.timeout(self._timeout_s), self._pool.borrowed(address) as connection:
            served = await connection.versions(self._timeout_s)
            message = request_message(request, self._cluster_id, served)
            if message is not None:
                return await connection.call(*message, self._timeout_s)
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

    def _tell(self, *line: Hashable) -> bool:
        return self._told.tell(line, asyncio.get_running_loop().time())

    def _address(self, instruction: SendRequest) -> Address | None:
        if isinstance(instruction.destination, BootstrapServer):
            return self._bootstrap_servers[instruction.destination.place]
        for each in instruction.endpoints:
            if each.name == self._listener_name:
                return each.host, each.port
        return None
