"""The way to a cluster: requests in versions that brokers serve, with waits that end.

A question that every broker can answer goes to the broker that was reached first, so that another
one that hangs delays nothing. Brokers forward to the controller the requests that it decides.
"""

from __future__ import annotations

import asyncio
import os
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from jbodlab.kafka_admin.errors import (
    PASSING,
    AdminError,
    NoAnswerError,
    UnsupportedRequestError,
)
from jbodlab.kafka_admin.properties import AdminProperties
from jbodlab.kafka_wire import message
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.kafka_wire.api_table import OWN_MESSAGES
from jbodlab.kafka_wire.schema import EncodeError
from jbodlab.peers.client import KafkaConnection, PeerRefusedError
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import Address, PeerPool
from jbodlab.vocabulary.errors import DecodeError

CONNECT_TIMEOUT_S = 3.0
"""For one address."""
BOOTSTRAP_TIMEOUT_S = 10.0
"""For the first answers of all addresses of a bootstrap list."""
RETRY_PAUSE_S = 0.1

_BROKERS_ALONE: message.Fields = {"topics": (), "allow_auto_topic_creation": False}
_ERRNO = re.compile(r"\[Errno (\d+)\]")

T = TypeVar("T")
Note = Callable[[str], AbstractContextManager[object]]
"""Says what is waited for, where the body takes long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A live broker, as Metadata lists it."""

    id: int
    host: str
    port: int
    rack: str | None


class AdminClient:
    """Sends requests to the brokers of one cluster; `opened` makes it."""

    def __init__(
        self, pool: PeerPool, home: Address, metadata: Any, properties: AdminProperties, note: Note
    ) -> None:
        self._pool = pool
        self._home_address = home
        self._addresses = _addresses(metadata)
        named = [node for node, address in self._addresses.items() if address == home]
        self._home = named[0] if named else None
        self._note = note
        self.properties = properties

    async def call(
        self,
        api_key: ApiKey,
        values: message.Fields,
        broker: int | None = None,
        *,
        newest: int | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Send a request, and return the entity of its response.

        Args:
            api_key: Which API.
            values: Fields of the request by their names; the version is one that has all of them.
            broker: The broker that has to answer; None for any.
            newest: The newest version that may be sent.
            timeout_s: Longest wait for the answer; None for `request.timeout.ms`.

        Raises:
            UnsupportedRequestError: the broker serves no version that has these fields.
            NoAnswerError: no answer; lost connections are tried again for a while.
            AdminError: another failure.
        """
        node = self._home if broker is None else broker
        with self._note(f"waiting for {_named(node)}"):
            return await self._call(
                api_key,
                values,
                node,
                newest,
                timeout_s or self.properties.request_timeout_ms / 1000,
            )

    async def _call(
        self,
        api_key: ApiKey,
        values: message.Fields,
        node: int | None,
        newest: int | None,
        timeout_s: float,
    ) -> Any:
        name = api_key.name.title().replace("_", "")
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + self.properties.patience_s
        while True:
            is_reached, made = False, None
            address = await self._address(node)
            try:
                async with self._pool.borrowed(address) as connection:
                    is_reached = True
                    made = await _made(connection, api_key, values, newest, timeout_s)
                    if made is not None:
                        return await connection.call(api_key, *made, timeout_s)
            except PeerRefusedError as error:
                raise AdminError(f"{_named(node)}: {error}") from error
            except TimeoutError as error:
                if is_reached:
                    raise NoAnswerError(
                        f"no answer from {_named(node)} within {timeout_s:g} s"
                    ) from error
                reason = "it does not answer"
            except OSError as error:
                reason = reason_of(error)
            except DecodeError as error:
                raise AdminError(f"{_named(node)}: {error}") from error
            except (EncodeError, struct.error) as error:
                raise AdminError(f"a value is too large for the request {name}: {error}") from error
            else:
                raise UnsupportedRequestError(f"{_named(node)} does not support the request {name}")
            if is_reached and api_key in OWN_MESSAGES:
                # So a broker of Apache Kafka ends a connection over which it is asked this.
                raise UnsupportedRequestError(
                    f"{_named(node)} does not know the request {name}, or went away"
                )
            if now_s() > deadline_s:
                raise NoAnswerError(f"no connection to {_named(node)}: {reason}")
            await asyncio.sleep(RETRY_PAUSE_S)
            if node != self._home:
                # It may have come back elsewhere.
                await self._metadata()

    async def ask(self, question: Callable[[], Awaitable[Any]]) -> Any:
        """Ask again, for a while, as long as nobody is there who can answer.

        Args:
            question: Asks; its answer has an `error_code`, which may still be one.
        """
        now_s = asyncio.get_running_loop().time
        end_s = now_s() + self.properties.patience_s
        while True:
            answer = await question()
            if int(answer.error_code) not in PASSING or now_s() > end_s:
                return answer
            await asyncio.sleep(RETRY_PAUSE_S)

    async def at_coordinator(
        self,
        key_type: int,
        key: str,
        question: Callable[[int], Awaitable[Any]],
        answer_of: Callable[[Any], Any],
    ) -> tuple[int, Any]:
        """Ask the coordinator of a group (0) or a transactional id (1), as `ask`.

        Args:
            key_type: Which of both.
            key: Its name.
            question: Asks a broker.
            answer_of: Returns the part of its response that has an `error_code`.

        Returns:
            The broker, and the answer, which may be that there is none.
        """
        broker = -1

        async def ask() -> Any:
            nonlocal broker
            values = {"key_type": key_type, "key": key}
            found = await self.call(ApiKey.FIND_COORDINATOR, values)
            if int(found.error_code):
                return found
            broker = int(found.node_id)
            return answer_of(await question(broker))

        answer = await self.ask(ask)
        return broker, answer

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    async def brokers(self) -> tuple[Broker, ...]:
        """Return the live brokers, in the order of their ids."""
        found = (
            Broker(id=int(one.node_id), host=one.host, port=int(one.port), rack=one.rack)
            for one in (await self._metadata()).brokers
        )
        return tuple(sorted(found, key=lambda broker: broker.id))

    async def selected(self, wanted: Collection[int]) -> tuple[Broker, ...]:
        """Return these live brokers, all where none is named, in the order of their ids.

        Raises:
            AdminError: one of them does not exist.
        """
        if not wanted:
            return await self.brokers()
        return tuple([await self.broker(one) for one in sorted(wanted)])

    async def broker(self, broker: int) -> Broker:
        """Return a live broker.

        Raises:
            AdminError: the cluster has no live broker of this id.
        """
        brokers = await self.brokers()
        for one in brokers:
            if one.id == broker:
                return one
        alive = ", ".join(str(one.id) for one in brokers)
        raise AdminError(f"broker {broker} is not a live broker of the cluster, which has {alive}")

    async def cluster_id(self) -> str | None:
        """Return the id of the cluster; None where its brokers do not say it."""
        found: str | None = (await self._metadata()).cluster_id
        return found

    async def _metadata(self) -> Any:
        found = await self.call(ApiKey.METADATA, _BROKERS_ALONE)
        self._addresses |= _addresses(found)
        return found

    async def _address(self, node: int | None) -> Address:
        if node is None or node == self._home:
            return self._home_address
        if node not in self._addresses:
            await self._metadata()
        if node not in self._addresses:
            raise NoAnswerError(f"broker {node} is not a live broker of the cluster")
        return self._addresses[node]


def _addresses(metadata: Any) -> dict[int, Address]:
    return {int(one.node_id): (one.host, int(one.port)) for one in metadata.brokers}


@asynccontextmanager
async def opened(
    servers: Sequence[Address], properties: AdminProperties, note: Note = lambda _: nullcontext()
) -> AsyncIterator[AdminClient]:
    """Connect to the first of some addresses that answers; closes all connections at the end.

    Args:
        servers: The addresses.
        properties: How the cluster is reached.
        note: Says what is waited for.

    Raises:
        AdminError: none answers, with the reason of each.
        ConfigError: the properties are wrong.
    """
    client = await connect(servers, properties, note)
    try:
        yield client
    finally:
        client.close()


async def connect(
    servers: Sequence[Address], properties: AdminProperties, note: Note = lambda _: nullcontext()
) -> AdminClient:
    """Connect as `opened`; the caller closes the client."""
    patience_s = properties.request_timeout_ms / 1000
    pool = PeerPool(properties.client_id, min(CONNECT_TIMEOUT_S, patience_s), properties.security)
    timeout_s = min(BOOTSTRAP_TIMEOUT_S / len(servers), patience_s)

    async def ask(address: Address) -> tuple[Address, Any]:
        with note(f"waiting for {address[0]}:{address[1]}"):
            return address, await _reach(pool, address, timeout_s)

    try:
        return AdminClient(pool, *await _first_of(servers, ask), properties, note)
    except BaseException:
        pool.close()
        raise


async def be_served(servers: Sequence[Address], security: ClientSecurity | None) -> None:
    """Insist that one of some addresses answers such a client; raises as `opened`."""
    pool = PeerPool(AdminProperties.client_id, CONNECT_TIMEOUT_S, security)
    try:
        await _first_of(servers, lambda address: _reach(pool, address, CONNECT_TIMEOUT_S))
    finally:
        pool.close()


async def be_there(servers: Sequence[Address]) -> None:
    """Insist that one of some addresses takes connections; raises as `opened`."""
    pool = PeerPool(AdminProperties.client_id, CONNECT_TIMEOUT_S)

    async def connect(address: Address) -> None:
        try:
            (await pool.open(address)).close()
        except (OSError, TimeoutError) as error:
            raise _not_connected(address, error) from error

    await _first_of(servers, connect)


async def _first_of(servers: Sequence[Address], attempt: Callable[[Address], Awaitable[T]]) -> T:
    """Return the first result of an attempt that succeeds.

    Raises:
        AdminError: it does with none, with the reason of each.
    """
    failures = []
    for address in servers:
        try:
            return await attempt(address)
        except AdminError as error:
            failures.append(error)
    kind = NoAnswerError if all(isinstance(one, NoAnswerError) for one in failures) else AdminError
    raise kind("; ".join(dict.fromkeys(map(str, failures))))


async def _reach(pool: PeerPool, address: Address, timeout_s: float) -> Any:
    """Ask a broker what anybody may ask, and return the brokers.

    Raises:
        NoAnswerError: none does in time.
        AdminError: the client is refused; the text names the property that decides.
    """
    where, is_reached = f"{address[0]}:{address[1]}", False
    try:
        async with pool.borrowed(address) as connection:
            is_reached = True
            # A listener that wants a login answers the first question, and not the second one.
            versions = await connection.versions(timeout_s)
            served = versions.get(ApiKey.METADATA, range(0))
            made = message.request(ApiKey.METADATA, served, _BROKERS_ALONE)
            if made is None:
                raise DecodeError("it serves no version of Metadata that is known here")
            return await connection.call(ApiKey.METADATA, *made, timeout_s)
    except (OSError, TimeoutError, DecodeError) as error:
        if not is_reached:
            raise _not_connected(address, error) from error
        if isinstance(error, TimeoutError):
            text = f"no Kafka broker answers at {where} within {timeout_s:g} s"
            raise NoAnswerError(text) from error
        text = reason_of(error)
        hint = "" if "(see " in text else " (see security.protocol)"
        raise AdminError(f"{where} does not serve such a client: {text}{hint}") from error


async def _made(
    connection: KafkaConnection,
    api_key: ApiKey,
    values: message.Fields,
    newest: int | None,
    timeout_s: float,
) -> tuple[int, Any] | None:
    """Return version and request; None where the broker serves none that would do."""
    versions = await connection.versions(timeout_s)
    # Our own APIs are told to nobody.
    served = versions.get(api_key, range(int(api_key in OWN_MESSAGES)))
    if newest is not None:
        served = range(served.start, min(served.stop, newest + 1))
    return message.request(api_key, served, values)


def _not_connected(address: Address, error: Exception) -> AdminError:
    if isinstance(error, TimeoutError):
        return NoAnswerError(f"cannot connect to {address[0]}:{address[1]}: no answer")
    text = reason_of(error)
    is_said = text.startswith("cannot ")
    return AdminError(text if is_said else f"cannot connect to {address[0]}:{address[1]}: {text}")


def reason_of(error: Exception) -> str:
    """Return why a connection failed; of several addresses of a name, the last one's reason."""
    text = str(error)
    numbers = _ERRNO.findall(text)
    if not numbers:
        return text if getattr(error, "strerror", None) is None else str(error.strerror)  # type: ignore[attr-defined]
    head = f"{text.partition(': ')[0]}: " if text.startswith("cannot ") else ""
    return head + os.strerror(int(numbers[-1]))


def bootstrap_servers(text: str) -> list[Address]:
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


def _named(node: int | None) -> str:
    return "the cluster" if node is None else f"broker {node}"
