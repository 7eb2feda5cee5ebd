"""The way to a cluster: kafka-python's client, with waits that end and errors in one line."""

from __future__ import annotations

import logging
import socket
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from admin_tool.client_config import ClientConfig, client_config
from admin_tool.errors import AdminError, NoAnswerError, UnsupportedRequestError
from admin_tool.waiting import note_wait
from jbodlab.cli.command_line import read_properties
from jbodlab.peers.client_properties import KERBEROS, ClientProperties
from jbodlab.vocabulary.errors import DecodeError

CONNECT_TIMEOUT_S = 3.0
"""For one address of the bootstrap list."""
BOOTSTRAP_TIMEOUT_MS = 10_000
RECONNECT_DEADLINE_S = 10.0
"""How long a broker that the cluster lists may refuse connections, or lose them."""
RETRY_PAUSE_S = 0.1


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A live broker, as Metadata lists it."""

    id: int
    host: str
    port: int
    rack: str | None


class Connection:
    """Connections to the brokers of one cluster.

    What every broker can answer goes to the broker that was reached first, so that another one that
    hangs keeps nobody waiting.
    """

    def __init__(self, net: Any, manager: Any, config: ClientConfig, home: tuple[str, int]) -> None:
        self._net = net
        self._manager = manager
        self.config = config
        self._home_address = home
        self._home: int | None = None
        self._home = self._find_home()

    def call(self, request: Any, broker: int | None = None) -> Any:
        """Send one of kafka-python's requests and return its response.

        Args:
            request: The request; its version is chosen here.
            broker: Who has to answer; None for any.

        Raises:
            UnsupportedRequestError: the broker does not serve it.
            NoAnswerError: no answer; lost connections are tried again for a while.
            AdminError: another failure.
        """
        node = self._home if broker is None else broker
        with note_wait(f"waiting for {_named(node)}"):
            return self._call(request, node)

    def _call(self, request: Any, node: int | None) -> Any:
        from kafka import errors  # type: ignore[import-untyped]

        deadline = time.monotonic() + RECONNECT_DEADLINE_S
        reason = "it does not answer"
        while True:
            try:
                return self._manager.run(self._manager.send, request, node)
            except errors.IncompatibleBrokerVersion as error:
                name = request.name.removesuffix("Request")
                raise UnsupportedRequestError(
                    f"{_named(node)} does not support the request {name}"
                ) from error
            except errors.UnknownBrokerIdError as error:
                raise NoAnswerError(f"broker {node} is not a live broker of the cluster") from error
            except errors.KafkaTimeoutError as error:
                seconds = self.config.request_timeout_ms / 1000
                raise NoAnswerError(
                    f"no answer from {_named(node)} within {seconds:g} s"
                ) from error
            except (errors.KafkaConnectionError, errors.NodeNotReadyError) as error:
                # The other error only says that the library waits before it tries again.
                if isinstance(error, errors.KafkaConnectionError):
                    reason = _reason(error)
                if time.monotonic() > deadline:
                    raise NoAnswerError(f"no connection to {_named(node)}: {reason}") from error
                time.sleep(RETRY_PAUSE_S)
            except errors.KafkaError as error:
                raise AdminError(f"{_named(node)}: {_reason(error)}") from error

    def brokers(self) -> tuple[Broker, ...]:
        """Return the live brokers, in the order of their ids."""
        found = (
            Broker(id=one.node_id, host=one.host, port=one.port, rack=one.rack)
            for one in self._metadata().brokers
        )
        return tuple(sorted(found, key=lambda broker: broker.id))

    def selected(self, wanted: Collection[int]) -> tuple[Broker, ...]:
        """Return these live brokers, all where none is named, in the order of their ids.

        Raises:
            AdminError: one of them does not exist.
        """
        return tuple(map(self.broker, sorted(wanted))) if wanted else self.brokers()

    def broker(self, broker: int) -> Broker:
        """Return a live broker.

        Raises:
            AdminError: there is no such broker.
        """
        brokers = self.brokers()
        for one in brokers:
            if one.id == broker:
                return one
        alive = ", ".join(str(one.id) for one in brokers)
        raise AdminError(f"broker {broker} is not a live broker of the cluster, which has {alive}")

    def cluster_id(self) -> str | None:
        """Return the id of the cluster; None where its brokers do not say it."""
        found: str | None = self._metadata().cluster_id
        return found

    def close(self) -> None:
        """Close all connections."""
        _close(self._net, self._manager)

    def _metadata(self) -> Any:
        from kafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]

        return self.call(MetadataRequest(topics=[], allow_auto_topic_creation=False))

    def _find_home(self) -> int | None:
        for one in self._manager.cluster.brokers():
            if (one.host, one.port) == self._home_address:
                return int(one.node_id)
        return None


@contextmanager
def connected(options: Namespace) -> Iterator[Connection]:
    """Connect to the cluster of a command line.

    Args:
        options: With `bootstrap_server` and `command_config`.

    Raises:
        AdminError: no broker answers.
        ConfigError: the client's properties are wrong.
        FormatError: the file with them cannot be read.
    """
    path = options.command_config
    config = client_config({} if path is None else read_properties(Path(path)))
    for key in config.unknown:
        print(f"{path}: unknown property {key} has no effect", file=sys.stderr)
    addresses = bootstrap_servers(options.bootstrap_server)
    timeout_ms = BOOTSTRAP_TIMEOUT_MS // len(addresses)
    connection = first_of(addresses, lambda host, port: _open(host, port, config, timeout_ms))
    try:
        yield connection
    finally:
        connection.close()


def bootstrap_servers(text: str) -> list[tuple[str, int]]:
    """Return the addresses of a bootstrap list, such as `host:9092,[::1]:9093`.

    Raises:
        AdminError: one has no port, or the list is empty.
    """
    found = []
    for part in filter(None, map(str.strip, text.split(","))):
        host, separator, port = part.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (separator and host and port.isascii() and port.isdecimal() and int(port) < 65536):
            raise AdminError(f"expected an address HOST:PORT, got {part!r}")
        found.append((host, int(port)))
    if not found:
        raise AdminError(f"expected an address HOST:PORT, got {text!r}")
    return found


def reach(host: str, port: int) -> None:
    """Insist that somebody takes connections: libraries try again and again, without a reason.

    Raises:
        AdminError: nobody does.
    """
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise AdminError(f"cannot connect to {host}:{port}: {reason}") from error


def reach_as(client: ClientProperties, host: str, port: int) -> None:
    """Insist that a client gets in: libraries try again and again where they are refused.

    Raises:
        AdminError: it does not; the text names the property that decides.
    """
    if client.protocol == "PLAINTEXT" or client.mechanism == KERBEROS:
        reach(host, port)
    else:
        be_served(client, host, port)


def be_served(client: ClientProperties, host: str, port: int) -> None:
    """Insist that a client is answered, as the own client asks.

    Raises:
        NoAnswerError: it is not in time.
        AdminError: it is refused; the text names the property that decides.
    """
    import asyncio

    from jbodlab.peers import admin_requests

    try:
        asyncio.run(admin_requests.be_served(host, port, CONNECT_TIMEOUT_S, client.security))
    except TimeoutError as error:
        raise NoAnswerError(f"cannot connect to {host}:{port}: no answer") from error
    except (ConnectionError, DecodeError) as error:
        raise AdminError(str(error)) from error


def first_of(addresses: list[tuple[str, int]], connect: Callable[[str, int], T]) -> T:
    """Return what connects to the first address that answers.

    Raises:
        AdminError: none does, with the reason of each.
    """
    failures = []
    for host, port in addresses:
        try:
            return connect(host, port)
        except AdminError as error:
            failures.append(str(error))
    raise AdminError("; ".join(dict.fromkeys(failures)))


def _open(host: str, port: int, config: ClientConfig, timeout_ms: int) -> Connection:
    reach_as(config.client, host, port)
    from kafka import errors
    from kafka.net.manager import KafkaConnectionManager  # type: ignore[import-untyped]
    from kafka.net.selector import NetworkSelector  # type: ignore[import-untyped]

    # Its warnings say again what becomes our one line.
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        with ExitStack() as undo:
            settings = {"bootstrap_servers": [address], **config.settings}
            net = NetworkSelector(**settings)
            manager = KafkaConnectionManager(net, **settings)
            undo.callback(_close, net, manager)
            # It works in a thread of its own, so that Ctrl-C reaches this one at once.
            net.start()
            with note_wait(f"waiting for {host}:{port}"):
                manager.bootstrap(timeout_ms)
            undo.pop_all()
    except errors.KafkaTimeoutError as error:
        with suppress(NoAnswerError):
            be_served(config.client, host, port)
        raise AdminError(
            f"no Kafka broker answers at {host}:{port} within {timeout_ms / 1000:g} s"
        ) from error
    except errors.IncompatibleBrokerVersion as error:
        raise AdminError(f"{host}:{port} is not a Kafka broker") from error
    except errors.KafkaError as error:
        raise AdminError(f"cannot connect to {host}:{port}: {_reason(error)}") from error
    except (OSError, ValueError, ImportError, AssertionError) as error:
        # Certificates that cannot be read, mechanisms without their library.
        raise AdminError(f"cannot connect to {host}:{port}: {error}") from error
    return Connection(net, manager, config, (host, port))


def _close(net: Any, manager: Any) -> None:
    manager.close()
    net.close()


def _named(node: object) -> str:
    return "the cluster" if node is None else f"broker {node}"


def _reason(error: Exception) -> str:
    return str(error.args[0]) if error.args else type(error).__name__
