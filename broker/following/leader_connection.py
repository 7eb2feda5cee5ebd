"""The connection of a lane to its leader.

A session belongs to the connection: after a lost connection nobody knows what was lost with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from broker.following import fetch_messages
from broker.limits import LEADER_CONNECT_TIMEOUT_S
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.vocabulary.ids import BrokerId, TopicPartition

Address = tuple[str, int]


class FetcherSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's `replica.fetch.*` and `replica.socket.timeout.ms`."""

    broker_id: BrokerId
    wait_max_ms: int = 500
    min_bytes: int = 1
    partition_max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    backoff_ms: int = 1_000
    socket_timeout_ms: int = 30_000


class LeaderConnection:
    """Asks one leader; opened with the first question, and anew after a failure.

    Args:
        leader: Id of the leader.
        settings: Sizes and times.
        address_of: Returns where a leader is reached by brokers; None while that is not known.
        on_opened: Called when a new connection is opened, with whatever was asked before forgotten.
    """

    def __init__(
        self,
        leader: BrokerId,
        settings: FetcherSettings,
        *,
        address_of: Callable[[BrokerId], Address | None],
        on_opened: Callable[[], None],
    ) -> None:
        self._leader = leader
        self._settings = settings
        self._address_of = address_of
        self._on_opened = on_opened
        self._connection: KafkaConnection | None = None

    @property
    def is_there(self) -> bool:
        """Whether there is a connection, alive or not."""
        return self._connection is not None

    async def open(self) -> None:
        """Connect, unless there is an open connection.

        Raises:
            OSError: the leader is not reached, or its address is not known.
            TimeoutError: it does not answer.
        """
        if self._connection is not None and self._connection.is_open:
            return
        address = self._address_of(self._leader)
        if address is None:
            raise ConnectionError(f"the address of broker {self._leader} is unknown")
        self._on_opened()
        self._connection = await KafkaConnection.open(
            *address,
            client_id=f"follower-{self._settings.broker_id}",
            timeout_s=min(LEADER_CONNECT_TIMEOUT_S, self._settings.socket_timeout_ms / 1000),
        )

    def close(self) -> None:
        """Give the connection up, so that the leader forgets what was asked for."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def fetch(self, request: Any) -> Any:
        """Send a Fetch and return its response.

        Raises:
            OSError, TimeoutError: the connection failed, or was given up since it was opened.
        """
        if self._connection is None:
            raise ConnectionError(f"the connection to broker {self._leader} was closed")
        return await self._connection.call(
            ApiKey.FETCH,
            fetch_messages.FETCH_VERSION,
            request,
            timeout_s=self._settings.socket_timeout_ms / 1000,
        )

    async def nudge(self) -> None:
        """Ask something small behind a fetch that waits, so that this is answered."""
        if self._connection is not None:
            await self._connection.call_raw(ApiKey.API_VERSIONS, 0, ())

    async def ask_offset(self, topic_partition: TopicPartition, epoch: int, timestamp: int) -> int:
        """Ask for an end of the leader's log: -1 the latest, -2 the earliest offset.

        Raises:
            KafkaError: the leader refused.
            OSError, TimeoutError: the connection failed.
        """
        await self.open()
        assert self._connection is not None
        request = fetch_messages.list_offsets_request(
            topic_partition,
            broker_id=self._settings.broker_id,
            leader_epoch=epoch,
            timestamp=timestamp,
        )
        response = await self._connection.call(
            ApiKey.LIST_OFFSETS,
            fetch_messages.LIST_OFFSETS_VERSION,
            request,
            timeout_s=self._settings.socket_timeout_ms / 1000,
        )
        return fetch_messages.listed_offset(response)
