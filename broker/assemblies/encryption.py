"""Keys and certificates of one broker: of its listeners, and for its connections to others."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable

from broker.config import BrokerConfig
from jbodlab.config.key_table import Values
from jbodlab.controller_api.rpc_tls import RpcKeys, rpc_keys
from jbodlab.peers.client_security import ClientSecurity, client_security
from jbodlab.runtime.environment import Environment
from jbodlab.security import tls_files
from jbodlab.security.tls_context import TlsContext
from jbodlab.server.listener_tls import ListenerTls
from jbodlab.server.tls_watch import TlsWatch
from jbodlab.vocabulary.errors import ConfigError

PEERS, CONTROLLER = "to brokers", "to the controller"
"""Names of contexts that belong to no listener."""


class Encryption:
    """Holds what is made of the files, and follows them.

    Args:
        config: The broker's.
        environment: Clock and threads.

    Attributes:
        listeners: Contexts of the listeners that encrypt, by name.
        peers: How other brokers are reached.
        controller: How the controller is reached; None where that is not encrypted.

    Raises:
        ConfigError: keys or certificates are of no use.
    """

    def __init__(self, config: BrokerConfig, environment: Environment) -> None:
        def now() -> datetime.datetime:
            return datetime.datetime.fromtimestamp(environment.wall_ms() / 1000, datetime.UTC)

        self.listeners = {
            name: ListenerTls(name, settings, now) for name, settings in config.tls.items()
        }
        contexts: list[TlsContext[ssl.SSLContext] | TlsContext[RpcKeys]] = [
            each.context for each in self.listeners.values()
        ]
        peers: TlsContext[ssl.SSLContext] | None = None
        if config.peers.tls is not None:
            peers = TlsContext(PEERS, config.peers.tls, tls_files.client_context, now)
            contexts.append(peers)
        self.peers: ClientSecurity | None = client_security(
            config.peers,
            None if peers is None else lambda: peers.current,
            environment.random_bytes,
        )
        self.controller: TlsContext[RpcKeys] | None = None
        if config.controller_tls is not None:
            self.controller = TlsContext(CONTROLLER, config.controller_tls, rpc_keys, now)
            contexts.append(self.controller)
        self.watch = TlsWatch(
            contexts,
            environment.threads,
            config.values.integer("jbodlab.ssl.reload.interval.ms") / 1000,
        )
        self._config = config
        self._peers = peers

    @property
    def keys(self) -> Callable[[], RpcKeys] | None:
        """Return the keys of the channel to the controller; None where it is plain text."""
        controller = self.controller
        return None if controller is None else lambda: controller.current

    def follower_names(self) -> Callable[[int], str] | None:
        """Return what tells the user of a broker at the listener of the brokers.

        Returns:
            None where brokers share a user, or have none, as this one has not that of its id.
        """
        name_for = self._config.broker_principals.names.of
        return name_for if self._own_user() == name_for(self._config.node_id) else None

    def _own_user(self) -> str | None:
        peers = self._config.peers
        if peers.mechanism:
            return peers.user
        leaf = None if self._peers is None else self._peers.certificate
        if leaf is None:
            return None
        return self._config.broker_principals.rules.name_of(leaf.subject)

    def use_settings(self, values: Values) -> None:
        """Use the stores that are in force; Kafka looks at files only where they are set anew."""
        for name in self.listeners:
            try:
                self.watch.use(name, self._config.listener_tls(values, name))
            except ConfigError as error:
                self.watch.refuse(name, error)
