"""A server that speaks S3, as a process of its own: moto, whatever else the environment holds.

It is not installed beside the product, whose libraries it would hold back to older versions, but
fetched once into a folder of its own, as Apache Kafka's jars are.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from lab.machine.waiting import wait_for
from tests.kafka.jars import once, run

VERSION = "5.2.5"
CACHE = Path(tempfile.gettempdir()) / f"jbodlab-s3-{os.getuid()}"
FETCH_DEADLINE_S = 300
START_DEADLINE_S = 60
BUCKET = "logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server with one bucket."""

    variables: Mapping[str, str]
    """Of the environment of its clients: where it is, and who asks."""
    files: fs.S3FileSystem

    @property
    def hadoop_settings(self) -> dict[str, str]:
        """Settings of a Spark session whose file system for `s3a://` is to find it."""
        own = {
            "endpoint": self.variables["AWS_ENDPOINT_URL"],
            "endpoint.region": self.variables["AWS_REGION"],
            "access.key": self.variables["AWS_ACCESS_KEY_ID"],
            "secret.key": self.variables["AWS_SECRET_ACCESS_KEY"],
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in own.items()}


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Run a server until the end of the block.

    Args:
        folder: Gets what it prints.

    Raises:
        NoKafkaError: it cannot be fetched.
    """
    libraries = once(CACHE, f"moto-{VERSION}", _fetch)
    port = free_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    with (folder / "s3.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            env={**os.environ, "PYTHONPATH": str(libraries)},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        try:
            page = f"{variables['AWS_ENDPOINT_URL']}/moto-api/"
            wait_for("S3", lambda: answer(page, server), START_DEADLINE_S)
            files = fs.S3FileSystem(
                endpoint_override=variables["AWS_ENDPOINT_URL"],
                region="us-east-1",
                access_key="test",
                secret_key="test",
                allow_bucket_creation=True,
            )
            files.create_dir(BUCKET)
            yield S3Server(variables=variables, files=files)
        finally:
            server.kill()
            server.wait()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answer(url: str, *servers: subprocess.Popen[bytes]) -> bytes:
    """Return what servers that run answer; nothing while they do not."""
    assert all(server.poll() is None for server in servers), f"a server of {url} has ended"
    with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answered:
        return bytes(answered.read())
    return b""


def _fetch(folder: Path) -> None:
    run(
        "moto cannot be fetched",
        *(sys.executable, "-m", "pip", "install", "-q", "--target", str(folder)),
        *(f"moto[s3]=={VERSION}", "flask", "flask-cors"),
        deadline_s=FETCH_DEADLINE_S,
    )
