"""A controller whose disk fails to sync: what is not durable is not taken for durable."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from fault_injection.preload import CallClass, Control, Rule
from jbodlab.controller_api import requests
from tests.builders import brokers
from tests.controller.process import DEADLINE_S, Process

pytestmark = pytest.mark.process


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    with Process(tmp_path, metadata_max_idle_interval_ms="0") as it:
        yield it


def test_a_tail_whose_sync_failed_is_written_anew_at_the_next_start(
    process: Process, tmp_path: Path
) -> None:
    control = Control.create(tmp_path / "rules")
    process.environment = control.environment()
    process.start()
    process.heartbeat(1, process.register(1, "A1"))
    folder = process.metadata_dir / "__cluster_metadata-0"
    segment = folder / f"{0:020d}.log"
    before = segment.stat()
    control.impose(Rule(directory=folder, calls=CallClass.SYNC, errno=errno.EIO))

    topic = requests.NewTopic(name="foo", assignments=((0, brokers(1)),))
    with pytest.raises(grpc.RpcError):
        process.ask("CreateTopics", requests.CreateTopicsRequest(topics=(topic,)))

    assert process.process is not None
    assert process.process.wait(DEADLINE_S) == 1
    process.process = None
    assert f"[Errno {errno.EIO}]" in process.stderr().splitlines()[-1]
    # It can be read, as the system does not say that it will never write it. A disk that goes on
    # failing ends the start as well.
    assert segment.stat().st_size > before.st_size
    assert f"[Errno {errno.EIO}]" in process.refused()[-1]
    assert segment.stat().st_ino == before.st_ino

    control.clear()
    process.start()
    assert segment.stat().st_ino != before.st_ino
    process.stop(signal.SIGTERM)
    assert "foo" in process.image().topics.by_name
