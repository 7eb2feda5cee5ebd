"""A controller process with its port and its files, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import grpc

from jbodlab.controller_api import messages as pb
from jbodlab.controller_api import requests
from jbodlab.controller_api.grpc_transport import ControllerStub
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.snapshots import read_latest
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, Offset
from lab.machine.ports import HeldPorts
from tests.builders import PureController, directories
from tests.controller.formatted import format_dir, properties_of

ROOT = Path(__file__).parents[2]
DEADLINE_S = 20.0


class Process:
    """A controller process, and calls to it; it ends, and its port is free, with the context."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self._held = HeldPorts.hold(1)
        (self.port,) = self._held.numbers
        self.reached_at = "127.0.0.1"
        self.metadata_dir = format_dir(home / "metadata")
        self.config = home / "controller.properties"
        self.settings = settings
        self.configure()
        self.process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}
        """Variables that its processes have beyond those of the tests."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(DEADLINE_S)
        self._held.close()

    def configure(self, **settings: str) -> None:
        values = properties_of(self.metadata_dir, self.port, **{**self.settings, **settings})
        self.config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))

    def popen(self) -> subprocess.Popen[bytes]:
        with (self.home / "stderr").open("wb") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", "controller", "-c", str(self.config)],
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, **self.environment},
            )

    def start(self) -> None:
        self.process = self.popen()
        deadline = time.monotonic() + DEADLINE_S
        while True:
            assert self.process.poll() is None, self.stderr()
            assert time.monotonic() < deadline
            try:
                self.call("DescribeQuorum", pb.DescribeQuorumRequest())
            except grpc.RpcError:
                time.sleep(0.02)
            else:
                return

    def refused(self) -> list[str]:
        """Start where it cannot start; returns the lines it wrote."""
        process = self.popen()
        assert process.wait(DEADLINE_S) == 1
        return self.stderr().splitlines()

    def stop(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(DEADLINE_S)
        self.process = None
        return code

    def stderr(self) -> str:
        return (self.home / "stderr").read_text()

    def call(self, method: str, message: Any) -> Any:
        with grpc.insecure_channel(f"{self.reached_at}:{self.port}") as channel:
            return from_proto(getattr(ControllerStub(channel), method)(message, timeout=5))

    def ask(self, method: str, request: object) -> Any:
        return self.call(method, to_proto(request))

    def register(self, broker: int, dirs: str) -> BrokerEpoch:
        request = PureController().registration(broker, dirs)
        answer = self.ask("BrokerRegistration", request)
        assert answer.error_code == ErrorCode.NONE, answer
        epoch: BrokerEpoch = answer.broker_epoch
        return epoch

    def heartbeat(self, broker: int, epoch: BrokerEpoch, offline: str = "") -> Any:
        request = requests.BrokerHeartbeatRequest(
            broker_id=BrokerId(broker),
            broker_epoch=epoch,
            current_metadata_offset=Offset(1 << 40),
            offline_log_dirs=directories(offline),
        )
        answer = self.ask("BrokerHeartbeat", request)
        assert answer.error_code == ErrorCode.NONE, answer
        return answer

    def image(self) -> MetadataImage:
        """Return the state of the stopped process's newest snapshot and of the log behind it."""
        log = MetadataLog.open(self.metadata_dir)
        loader = MetadataLoader()
        snapshot = read_latest(log.directory)
        if snapshot is not None:
            loader.load_snapshot(
                snapshot.records, snapshot.end_offset, snapshot.epoch, snapshot.timestamp_ms
            )
        while data := log.read(loader.next_offset):
            for batch in read_batches(data):
                loader.load(batch)
        log.close()
        return loader.image

    def log(self) -> tuple[list[Any], MetadataImage]:
        """Return all data records of the stopped process's log, and the state they make."""
        log = MetadataLog.open(self.metadata_dir)
        records, loader = [], MetadataLoader()
        while data := log.read(loader.next_offset):
            for batch in read_batches(data):
                loader.load(batch)
                records += [item.record for _, item in batch.data_records]
        log.close()
        return records, loader.image
