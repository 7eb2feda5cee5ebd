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
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from tests.kafka.jars import once

VERSION = "5.2.5"
CACHE = Path(tempfile.gettempdir()) / f"jbodlab-s3-{os.getuid()}"
FETCH_DEADLINE_S = 300
START_DEADLINE_S = 60


class NoServerError(Exception):
    """The server cannot be had on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server with one bucket."""

    bucket: str
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
        NoServerError: it cannot be fetched.
    """
    libraries = once(CACHE, f"moto-{VERSION}", _fetch)
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with (folder / "s3.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            env={**os.environ, "PYTHONPATH": str(libraries)},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        try:
            _wait(server, endpoint)
            files = fs.S3FileSystem(
                endpoint_override=endpoint,
                region="us-east-1",
                access_key="test",
                secret_key="test",
                allow_bucket_creation=True,
            )
            files.create_dir("logs")
            variables = {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
            }
            yield S3Server(bucket="logs", variables=variables, files=files)
        finally:
            server.kill()
            server.wait()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _fetch(folder: Path) -> None:
    wanted = [f"moto[s3]=={VERSION}", "flask", "flask-cors"]
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *wanted]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoServerError(f"moto cannot be fetched: {error}") from error
    if done.returncode:
        raise NoServerError(f"moto cannot be fetched: {done.stderr.strip()[-500:]}")


def _wait(server: subprocess.Popen[bytes], endpoint: str) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while True:
        assert server.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server did not start"
        try:
            with urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
