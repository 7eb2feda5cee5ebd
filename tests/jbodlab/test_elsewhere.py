"""A controller and a broker run where their `Environment` says, and nowhere else.

Their directories are at a path that does not exist. The disk that they are handed knows what is
meant, and the calls of the broker go straight to the controller's service, so whatever took another
way would find nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker import config as broker_config
from broker.server import BrokerServer
from controller.server import ControllerServer
from jbodlab.controller_api import requests
from jbodlab.controller_api.translate import to_proto
from jbodlab.controller_api.transport import RpcService
from jbodlab.metadata.log.formatting import format_directories
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import ControllerUnavailableError
from tests.broker.disks import eventually
from tests.builders import CLUSTER_ID
from tests.controller.formatted import config_of

NOWHERE = Path("/nowhere")
DEADLINE_S = 30.0


class Elsewhere:
    """A disk that holds under another path what is asked for below `NOWHERE`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._real = PosixFileSystem()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._real, name)

        def call(*arguments: Any, **options: Any) -> Any:
            return function(*map(self._at, arguments), **options)

        return call

    def _at(self, argument: object) -> object:
        if isinstance(argument, Path) and argument.is_relative_to(NOWHERE):
            return self._root / argument.relative_to(NOWHERE)
        return argument


class Wire:
    """Both ends of the calls between one controller and its brokers, without a network."""

    def __init__(self) -> None:
        self.addresses = ["here"]
        self.service: RpcService
        self.is_open = False
        self.calls: set[str] = set()

    def bind(self, service: RpcService) -> None:
        self.service = service

    async def start(self) -> None:
        self.is_open = True

    async def stop(self, grace_s: float | None) -> None:
        self.is_open = False

    async def unary(self, method: str, message: Any, timeout_s: float) -> Any:
        self.calls.add(method)
        if not self.is_open:
            raise ControllerUnavailableError(f"{method}: closed")
        async with asyncio.timeout(timeout_s):
            return await self.service.unary(method, message)

    async def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        self.calls.add(method)
        if not self.is_open:
            raise ControllerUnavailableError(f"{method}: closed")
        async with aclosing(self.service.stream(method, message)) as responses:
            async for response in responses:
                yield response

    async def close(self) -> None:
        pass


@asynccontextmanager
async def running(run: Callable[[asyncio.Event], Awaitable[None]]) -> AsyncIterator[None]:
    """Have a server run; its errors are the test's."""
    stop = asyncio.Event()
    task = asyncio.ensure_future(run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


def format_for(environment: Environment, node_id: int, *names: str) -> list[Path]:
    paths = [NOWHERE / name for name in names]
    format_directories(
        paths, cluster_id=CLUSTER_ID, node_id=node_id, level=30, environment=environment
    )
    return paths


async def test_a_controller_and_a_broker_find_everything_through_their_outside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire()
    environment = replace(
        system_environment(),
        fs_of=lambda _path: Elsewhere(tmp_path),
        connect_rpc=lambda _address, _keys: wire,
        rpc_server=lambda _listener, _tls: wire,
    )
    (metadata,) = format_for(environment, 100, "controller")
    log_dirs = format_for(environment, 1, "d1", "d2")
    found, _ = broker_config.from_properties(
        {
            "process.roles": "broker",
            "node.id": "1",
            "controller.quorum.voters": "100@localhost:9100",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
            "log.dirs": ",".join(map(str, log_dirs)),
        }
    )

    serves = asyncio.Event()
    controller = ControllerServer(config_of(metadata), environment)
    broker = BrokerServer(found, environment, before_serving=serves.set)
    async with asyncio.timeout(DEADLINE_S), running(controller.run):
        await eventually(lambda: wire.is_open)
        async with running(broker.run):
            await serves.wait()
            topic = requests.NewTopic(name="orders", num_partitions=2, replication_factor=1)
            request = requests.CreateTopicsRequest(topics=(topic,), timeout_ms=5_000)
            await wire.unary("CreateTopics", to_proto(request), 5.0)
            await eventually(lambda: len(list(tmp_path.glob("d?/orders-?"))) == 2)

    assert not NOWHERE.exists()  # noqa: ASYNC240
    assert {"BrokerRegistration", "BrokerHeartbeat", "MetadataStream"} <= wire.calls
    assert (tmp_path / "d1" / "__cluster_metadata-0").is_dir()
    assert not [line for line in caplog.records if line.levelname == "ERROR"]
