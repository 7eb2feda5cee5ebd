"""The same cluster made of Apache Kafka's released jars, to be measured in the same run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.cluster.harness import CONTROLLER_ID, Cluster, as_server_user

HEAP = "512m"

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>bench</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
<version>{version}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId>
<version>1.7.36</version></dependency></dependencies></project>
"""


def fetch_jars(folder: Path, version: str = "4.3.1") -> None:
    """Fetch the released jars with Maven, once.

    Raises:
        subprocess.CalledProcessError: Maven cannot get them.
    """
    if any(folder.glob("kafka_2.13-*.jar")):
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(POM.format(version=version))
    subprocess.run(
        [
            *("mvn", "-q", "-B", "-f", str(folder / "pom.xml")),
            *("dependency:copy-dependencies", f"-DoutputDirectory={folder}"),
        ],
        check=True,
        timeout=600,
    )


class KafkaCluster(Cluster):
    """One controller and some brokers of Apache Kafka; each process has a heap of 512 MB."""

    def __init__(self, root: Path, jars: Path, **options: Any) -> None:
        self._jars = jars
        super().__init__(root, **options)

    def _java(self, *arguments: str) -> list[str]:
        heap = [f"-Xms{HEAP}", f"-Xmx{HEAP}"]
        return as_server_user(["java", *heap, "-cp", f"{self._jars}/*", *arguments])

    def _tool(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        assert name == "jbod-storage"
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", *arguments),
            check=True,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=120,
        )
        done.stdout = done.stdout.strip().rpartition("\n")[2]
        return done

    def start_node(self, node: int) -> None:
        """Start one process; its output goes beside its settings."""
        assert node == CONTROLLER_ID or node in self.brokers
        with (self.home(node) / "out.log").open("ab") as out:
            self.processes[node] = subprocess.Popen(
                self._java("kafka.Kafka", str(self.properties(node))),
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd="/",
            )
