"""Keys and certificates of one controller: of its listeners, and for its connections to others."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator

from controller.config import ControllerConfig
from jbodlab.controller_api.rpc_tls import RpcKeys, RpcServerTls, rpc_keys
from jbodlab.peers.client_security import ClientSecurity, refusal_metrics
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.metrics import Metric
from jbodlab.security import tls_files
from jbodlab.security.tls_context import TlsContext
from jbodlab.server.listener_tls import ListenerTls, handshake_metrics
from jbodlab.server.tls_watch import TlsWatch, certificate_metrics

PEERS = "to controllers"
"""Name of a context that belongs to no listener."""


class ControllerEncryption:
    """Holds what is made of the files, and follows them.

    Args:
        config: The controller's.
        environment: Clock and threads.

    Attributes:
        brokers: Keys of the listener for brokers; None where that is not encrypted.
        listener: TLS of the listener for controllers; None where there is none.
        peers: How other controllers are reached; None for in plain text.
        watch: Looks for new files.

    Raises:
        ConfigError: keys or certificates are of no use.
    """

    def __init__(self, config: ControllerConfig, environment: Environment) -> None:
        def now() -> datetime.datetime:
            return datetime.datetime.fromtimestamp(environment.wall_ms() / 1000, datetime.UTC)

        contexts: list[TlsContext[ssl.SSLContext] | TlsContext[RpcKeys]] = []
        self.brokers: RpcServerTls | None = None
        if config.tls is not None:
            keys = TlsContext(config.listener.name, config.tls, rpc_keys, now)
            contexts.append(keys)
            self.brokers = RpcServerTls(
                keys=lambda: keys.current, principals=config.principals, now=now
            )
        self.listener: ListenerTls | None = None
        self.peers: ClientSecurity | None = None
        tls, listener = config.quorum.tls, config.quorum.listener
        if listener is not None and tls is not None:
            self.listener = ListenerTls(listener.name, tls, now, follows_certificates=True)
            peers = TlsContext(PEERS, tls, tls_files.client_context, now)
            contexts += [self.listener.context, peers]
            self.peers = ClientSecurity(
                tls=lambda: peers.current, random_bytes=environment.random_bytes, now=now
            )
        self.watch = TlsWatch(contexts, environment.threads, config.reload_interval_ms / 1000)

    def metrics(self) -> Iterator[Metric]:
        """Yield how long certificates are valid, and who did not know whom."""
        yield from certificate_metrics(self.watch.contexts)
        yield from handshake_metrics([] if self.listener is None else [self.listener])
        yield from refusal_metrics(self.peers)
