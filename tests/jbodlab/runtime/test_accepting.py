"""Connections are accepted while there is room, and those that come meanwhile are kept."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any

import pytest

from jbodlab.runtime import accepting
from jbodlab.runtime.accepting import Acceptor


class Stage:
    def __init__(self) -> None:
        self.room = 1_000
        self.made: list[asyncio.BaseTransport] = []
        self.acceptor = Acceptor(self.protocol, lambda: self.room - len(self.made))

    def protocol(self) -> asyncio.Protocol:
        stage = self

        class Kept(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                stage.made.append(transport)

        return Kept()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.made) < count:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.005)

    def close(self) -> None:
        self.acceptor.close()
        for each in self.made:
            each.close()


async def test_no_more_are_accepted_than_there_is_room_for_and_none_is_lost() -> None:
    stage = Stage()
    stage.room = 40
    port = await stage.acceptor.start("127.0.0.1", 0)
    clients = await asyncio.gather(
        *(asyncio.open_connection("127.0.0.1", port) for _ in range(100))
    )
    await stage.until(40)
    await asyncio.sleep(0.2)
    assert len(stage.made) == 40
    assert stage.acceptor.is_waiting

    stage.room = 100

    await stage.until(100)
    for _, writer in clients:
        writer.close()
    stage.close()


async def test_a_system_without_descriptors_is_asked_again_and_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    stage = Stage()
    port = await stage.acceptor.start("127.0.0.1", 0)
    failing = True
    accept = accepting.socket.socket.accept

    def maybe(self: Any) -> Any:
        if failing:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(self)

    monkeypatch.setattr(accepting.socket.socket, "accept", maybe)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(0.3)
    assert not stage.made

    failing = False

    await stage.until(1)
    assert len(caplog.records) == 1
    assert "Too many open files" in caplog.text
    writer.close()
    stage.close()
