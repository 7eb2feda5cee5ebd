"""A running active controller on a real directory, without its gRPC server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

from controller.active_controller import ActiveController
from controller.log_thread import LogThread
from controller.metadata_dir import open_metadata_dir
from controller.metadata_stream import MetadataStream
from controller.server import initial_state
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import Offset
from tests.controller.formatted import config_of


class Shell:
    """Log, thread, stream and controller, wired as the server does it."""

    def __init__(self, directory: Path, **settings: str) -> None:
        config, outside = config_of(directory, **settings), system_environment()
        self.opened = open_metadata_dir(config, UUID(int=1))
        self.log: MetadataLog = self.opened.log
        self.thread = LogThread(outside.threads)
        self.stream = MetadataStream(self.log, self.thread, Offset(self.log.end_offset))
        self.controller = ActiveController(
            log=self.log,
            log_thread=self.thread,
            state=initial_state(config, self.opened, outside.monotonic_ms()),
            epoch=self.opened.epoch,
            listener=self.stream,
            now_ms=outside.monotonic_ms,
            wall_ms=outside.wall_ms,
        )
        self.running = asyncio.create_task(self.controller.run())


@asynccontextmanager
async def shell(directory: Path, **settings: str) -> AsyncIterator[Shell]:
    result = Shell(directory, **settings)
    try:
        async with asyncio.timeout(60):
            yield result
    finally:
        result.running.cancel()
        with suppress(asyncio.CancelledError, LogDirError):
            await result.running
        with suppress(OSError):
            await result.thread.run(result.log.close)
        result.thread.stop()
        result.opened.lock.close()
