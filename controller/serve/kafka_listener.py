"""The listener at which a controller speaks the Kafka protocol with other controllers."""

from __future__ import annotations

from functools import partial

from controller.serve.known_controllers import KnownControllers, RightsOfControllers
from controller.serve.raft_apis import QuorumParts
from controller.serve.tool_apis import APIS
from jbodlab.runtime.environment import Environment
from jbodlab.security.node_names import NodeNames
from jbodlab.server.bounds import Bounds
from jbodlab.server.dispatch import Dispatcher
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.listener import Listener
from jbodlab.server.listener_tls import ListenerTls
from jbodlab.server.open_connections import ConnectionLimits
from jbodlab.server.request_counts import RequestCounts
from jbodlab.server.rights import Rights
from jbodlab.server.served import served
from jbodlab.vocabulary.endpoint import Endpoint

CONNECTIONS_MAX = 64
REQUEST_BYTES_MAX = 16 << 20


class KafkaListener:
    """The listener and what stands behind it.

    Args:
        endpoint: Where to listen.
        parts: Of the controller.
        rights: Of those who ask.
        names: Those of controllers.
        tls: How connections are encrypted; None where they are not.
        environment: Clock and threads.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        parts: QuorumParts,
        *,
        rights: Rights,
        names: NodeNames,
        tls: ListenerTls | None,
        environment: Environment,
    ) -> None:
        rights = RightsOfControllers(rights, names)
        self.counts = RequestCounts(environment.monotonic_s)
        self._thread = HelperThread(environment.threads, "requests of controllers")
        self._bounds = Bounds(
            environment,
            ConnectionLimits(total=CONNECTIONS_MAX),
            max_request_bytes=REQUEST_BYTES_MAX,
        )
        dispatcher = Dispatcher(
            served(
                APIS,
                parts,
                rights=rights,
                counts=self.counts,
                filters=[partial(KnownControllers, names, rights)],
            ),
            self._thread,
            environment.monotonic_s,
        )
        self._listener = Listener(
            endpoint.name, endpoint.host, endpoint.port, dispatcher, self._bounds, tls=tls
        )

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be bound.
        """
        self._bounds.start()
        await self._listener.start()

    async def stop(self) -> None:
        """Close all connections."""
        await self._listener.close()
        self._bounds.stop()
        self._thread.close()
