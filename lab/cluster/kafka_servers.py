"""The same cluster made of Apache Kafka's released jars, to be compared with."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from jbodlab.lab_state import NodeState
from lab.cluster.kafka_jars import RELEASE, fetched
from lab.errors import LabError

HEAP = "512m"
FORMAT_DEADLINE_S = 60.0
STORAGE = "kafka.tools.StorageTool"
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Options of Java processes that live for seconds: they compile quickly, not well."""


class KafkaServers:
    """What nodes of Apache Kafka run; each process has a heap of 512 MB.

    Attributes:
        jars: The folder of the release's jars.
        release: Which release.
    """

    def __init__(self, release: str = RELEASE) -> None:
        """Fetch what is needed.

        Raises:
            NoKafkaError: that is impossible here, with the reason.
        """
        self.release = release
        self.jars = fetched(release)

    def command(self, node: NodeState) -> list[str]:
        """Return the command that runs a node."""
        return [*self._java(f"-Xms{HEAP}", f"-Xmx{HEAP}"), "kafka.Kafka", node.properties_file]

    def format(self, node: NodeState, cluster_id: str, directories: Sequence[Path]) -> None:
        """Format the directories of a node that are not formatted yet, with Kafka's own tool."""
        del directories  # It finds them by itself.
        arguments = ["format", "--ignore-formatted", "-t", cluster_id, "-c", node.properties_file]
        command = [*self._java(*SHORT_LIVED), STORAGE, *arguments]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FORMAT_DEADLINE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f"{node.role} {node.node_id} could not be formatted: {error}") from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-300:]
            raise LabError(f"{node.role} {node.node_id} could not be formatted: {said}")

    def _java(self, *options: str) -> list[str]:
        return ["java", *options, "-cp", f"{self.jars}/*"]
