"""Connections that calls borrow, and one that is kept; the other end says which of them it sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.peers import peer_pool
from jbodlab.peers.client import KafkaConnection
from jbodlab.peers.peer_pool import Address, PeerConnection, PeerPool
from tests.waiting import turns

DEADLINE_S = 10.0


class Node:
    """Accepts connections."""

    def __init__(self) -> None:
        self.accepted: list[asyncio.StreamWriter] = []
        self.address: Address = ("", 0)

    @classmethod
    @asynccontextmanager
    async def serving(cls) -> AsyncIterator[Node]:
        node = cls()
        server = await asyncio.start_server(node._serve, "127.0.0.1", 0)
        node.address = server.sockets[0].getsockname()[:2]
        try:
            yield node
        finally:
            server.close()
            for writer in node.accepted:
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.append(writer)
        await reader.read()


@pytest.fixture
def pool(runner: asyncio.Runner) -> Iterator[PeerPool]:
    pool = PeerPool("us", DEADLINE_S)
    yield pool
    runner.get_loop().call_soon(pool.close)


@pytest.fixture
def node(runner: asyncio.Runner) -> Iterator[Node]:
    serving = Node.serving()
    yield runner.run(serving.__aenter__())
    runner.run(serving.__aexit__(None, None, None))


async def borrow(pool: PeerPool, node: Node) -> KafkaConnection:
    async with pool.borrowed(node.address) as connection:
        return connection


async def test_a_connection_is_used_again_but_by_one_call_at_a_time(
    pool: PeerPool, node: Node
) -> None:
    async with (
        pool.borrowed(node.address) as first,
        pool.borrowed(node.address) as second,
    ):
        assert first is not second

    assert {await borrow(pool, node), await borrow(pool, node)} <= {first, second}


@pytest.mark.parametrize("how", ["error of a call", "closed by the node", "another node", "idle"])
async def test_a_connection_is_not_used_again_after(
    pool: PeerPool, node: Node, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "error of a call":
        with pytest.raises(ValueError, match="not foreseen"):
            async with pool.borrowed(node.address) as first:
                raise ValueError("not foreseen")
        assert not first.is_open
    elif how == "idle":
        monkeypatch.setattr(peer_pool, "PEER_IDLE_S", 0.0)
        first = await borrow(pool, node)
        while first.is_open:  # noqa: ASYNC110 - a timer of the pool
            await asyncio.sleep(0.001)
    else:
        first = await borrow(pool, node)
    if how == "closed by the node":
        node.accepted[0].close()
        while first.is_open:  # noqa: ASYNC110 - the socket
            await asyncio.sleep(0.001)
    if how == "another node":
        async with Node.serving() as other:
            assert await borrow(pool, other) is not first
            assert len(other.accepted) == 1
        return

    assert await borrow(pool, node) is not first


async def test_a_kept_connection_is_opened_anew_after_a_failure_and_says_so_before(
    pool: PeerPool, node: Node
) -> None:
    opened: list[int] = []
    where: list[Address | None] = [None]
    peer = PeerConnection(
        pool,
        "broker 2",
        address=lambda: where[0],
        timeout_s=DEADLINE_S,
        on_opened=lambda: opened.append(len(node.accepted)),
    )

    async def call() -> Any:
        return await peer.call(ApiKey.API_VERSIONS, 0, request_class(ApiKey.API_VERSIONS, 0)())

    with pytest.raises(ConnectionError, match="the address of broker 2 is unknown"):
        await peer.open()
    assert opened == []
    where[0] = node.address
    with pytest.raises(ConnectionError, match="the connection to broker 2 was closed"):
        await call()

    await peer.open()
    await peer.open()
    waiting = asyncio.create_task(call())
    await turns()
    assert opened == [0]
    assert peer.is_there
    while not node.accepted:  # noqa: ASYNC110 - the socket
        await asyncio.sleep(0.001)
    node.accepted[0].close()
    with pytest.raises(ConnectionError):
        await waiting
    await peer.open()

    assert opened == [0, 1]
    peer.close()
    assert not peer.is_there
