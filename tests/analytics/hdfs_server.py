"""HDFS as one process: Hadoop's own mini cluster, with a name node and a data node.

One jar comes from Maven, once; the others are those that PySpark brings.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.kafka.jars import NoKafkaError, once
from tests.kafka.jars import require as require_program
from tests.kafka.jars import run as run_program

JARS = Path(pyspark.__file__).parent / "jars"
CACHE = Path(tempfile.gettempdir()) / f"jbodlab-hdfs-{os.getuid()}"
PROGRAM = Path(__file__).with_name("MiniHdfs.java")
FETCH_DEADLINE_S = 600
START_DEADLINE_S = 300
_SERVING = re.compile(rb"^serving http://(\S+)$", re.MULTILINE)


class NoHdfsError(Exception):
    """HDFS cannot be had on this machine."""


@contextmanager
def hdfs_server(folder: Path) -> Iterator[str]:
    """Run HDFS until the end of the block; gives the URI of its root.

    Args:
        folder: For its data, and what it prints.

    Raises:
        NoHdfsError: it cannot be fetched.
    """
    jars = f"{_jar()}:{JARS}/*"
    options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-cp", jars)
    with (folder / "hdfs.log").open("wb") as log:
        server = subprocess.Popen(
            ["java", *options, str(PROGRAM), str(folder / "data")],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            yield f"webhdfs://{_address(server)}"
        finally:
            server.kill()
            server.communicate()


def _jar() -> Path:
    (known,) = JARS.glob("hadoop-client-api-*.jar")
    version = known.stem.removeprefix("hadoop-client-api-")
    name = f"hadoop-client-minicluster-{version}"

    def fetch(folder: Path) -> None:
        for program in ("java", "javac", "mvn"):
            require_program(program)
        run_program(
            f"Maven cannot fetch Hadoop's mini cluster {version}",
            *("mvn", "-q", "-B", "dependency:copy"),
            f"-Dartifact=org.apache.hadoop:hadoop-client-minicluster:{version}",
            f"-DoutputDirectory={folder}",
            deadline_s=FETCH_DEADLINE_S,
        )

    try:
        return once(CACHE, name, fetch) / f"{name}.jar"
    except NoKafkaError as error:
        raise NoHdfsError(str(error)) from error


def _address(server: subprocess.Popen[bytes]) -> str:
    """Return host and port that it serves at, once it does."""
    assert server.stdout is not None
    deadline = time.monotonic() + START_DEADLINE_S
    printed = b""
    while (found := _SERVING.search(printed)) is None:
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([server.stdout], [], [], left)
        assert ready, "HDFS did not start"
        more = os.read(server.stdout.fileno(), 1 << 16)
        assert more, "HDFS ended"
        printed += more
    return found[1].decode()
