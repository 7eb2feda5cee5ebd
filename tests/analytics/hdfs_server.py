"""HDFS as one process: Hadoop's own mini cluster, with a name node and a data node.

One jar comes from Maven, once; the others are those that PySpark brings.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from lab.machine.waiting import wait_for
from tests.kafka.jars import once, require, run

JARS = Path(pyspark.__file__).parent / "jars"
CACHE = Path(tempfile.gettempdir()) / f"jbodlab-hdfs-{os.getuid()}"
PROGRAM = Path(__file__).with_name("MiniHdfs.java")
FETCH_DEADLINE_S = 600
START_DEADLINE_S = 300


@contextmanager
def hdfs_server(folder: Path) -> Iterator[str]:
    """Run HDFS until the end of the block; gives the URI of its root.

    Args:
        folder: For its data, and what it prints.

    Raises:
        NoKafkaError: it cannot be fetched.
    """
    jars = f"{_jar()}:{JARS}/*"
    options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-cp", jars)
    printed = folder / "hdfs.out"
    with printed.open("wb") as out, (folder / "hdfs.log").open("wb") as log:
        server = subprocess.Popen(
            ["java", *options, str(PROGRAM), str(folder / "data")],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=log,
        )

        def address() -> re.Match[str] | None:
            assert server.poll() is None, "HDFS has ended"
            return re.search(r"^serving http://(\S+)\n", printed.read_text(), re.MULTILINE)

        try:
            yield f"webhdfs://{wait_for('HDFS', address, START_DEADLINE_S)[1]}"
        finally:
            server.kill()
            server.communicate()


def _jar() -> Path:
    (known,) = JARS.glob("hadoop-client-api-*.jar")
    version = known.stem.removeprefix("hadoop-client-api-")
    name = f"hadoop-client-minicluster-{version}"

    def fetch(folder: Path) -> None:
        for program in ("java", "javac", "mvn"):
            require(program)
        run(
            f"Maven cannot fetch Hadoop's mini cluster {version}",
            *("mvn", "-q", "-B", "dependency:copy"),
            f"-Dartifact=org.apache.hadoop:hadoop-client-minicluster:{version}",
            f"-DoutputDirectory={folder}",
            deadline_s=FETCH_DEADLINE_S,
        )

    return once(CACHE, name, fetch) / f"{name}.jar"
