"""The property files of `config/`, used as they are given: formatted, started, written to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from jbodlab.vocabulary import kafka_uuid, properties
from lab.cluster import wait_for
from lab.machine.ports import HeldPorts

pytestmark = pytest.mark.cluster

CONFIG = Path(__file__).resolve().parents[2] / "config"
FILES = ("controller", "broker-1", "broker-2", "broker-3")
FOLDER = "/tmp/jbodlab-data/"


def elsewhere(folder: Path, held: HeldPorts) -> dict[str, Path]:
    """Write the files with other ports and another folder: somebody may use those of the files."""
    texts = {name: (CONFIG / f"{name}.properties").read_text() for name in FILES}
    ports = [9193, 9092, 9093, 9094, 9404, 9405, 9406, 9407]
    written = {}
    for name, text in texts.items():
        moved = text.replace(FOLDER, f"{folder}/")
        for old, new in zip(ports, held.numbers, strict=True):
            moved = moved.replace(f"localhost:{old}", f"localhost:{new}")
            moved = moved.replace(f"metrics.port={old}", f"metrics.port={new}")
        written[name] = folder / f"{name}.properties"
        written[name].write_text(moved)
    return written


@contextmanager
def running(module: str, file: Path, held: HeldPorts) -> Iterator[subprocess.Popen[bytes]]:
    with file.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, "-c", str(file)],
            cwd=CONFIG.parent,
            stdout=log,
            stderr=log,
            pass_fds=held.descriptors,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_no_folder_or_port_of_the_files_is_given_twice() -> None:
    found = [properties.parse((CONFIG / f"{name}.properties").read_text()) for name in FILES]

    dirs = [path for one in found for path in one["log.dirs"].split(",")]
    assert len(dirs) == len(set(dirs)) == 7
    assert all(path.startswith(FOLDER) for path in dirs)
    for key in ("listeners", "jbodlab.metrics.port", "node.id"):
        assert len({one[key] for one in found}) == len(FILES)


def test_a_cluster_starts_from_the_files_as_they_are(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, Producer

    held = HeldPorts.hold(8)
    files = elsewhere(tmp_path, held)
    cluster_id = kafka_uuid.to_text(kafka_uuid.random_uuid(os.urandom))
    with ExitStack() as stack:
        stack.callback(held.close)
        for name, file in files.items():
            done = subprocess.run(
                [sys.executable, "-m", "storage_tool", "format", "-t", cluster_id, "-c", str(file)],
                cwd=CONFIG.parent,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (name, done.stdout, done.stderr)
            module = "controller" if name == "controller" else "broker"
            stack.enter_context(running(module, file, held))
        bootstrap = f"localhost:{held.numbers[1]}"
        settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        producer = Producer({**settings, "acks": "all", "message.timeout.ms": 60_000})
        acknowledged: list[object] = []
        producer.produce("t", b"hello", on_delivery=lambda error, _: acknowledged.append(error))
        wait_for("an acknowledgement", lambda: (producer.poll(0.1), acknowledged)[1], 90)
        assert acknowledged == [None]
        consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        try:
            message = wait_for("the record", lambda: consumer.poll(0.1), 60)
            assert message.value() == b"hello"
        finally:
            consumer.close()
