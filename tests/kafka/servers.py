"""The same cluster made of Apache Kafka's released jars, to be compared with and measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jbodlab.cli.lab_state import NodeState
from lab.errors import LabError
from tests.kafka.tools import SHORT_LIVED, STORAGE, KafkaTools

HEAP = "512m"

__all__ = ["SHORT_LIVED", "KafkaServers"]


class KafkaServers:
    """Releases that nodes of Apache Kafka run; each process has a heap of 512 MB."""

    def __init__(self, tools: KafkaTools, java_options: Sequence[str] = ()) -> None:
        """Take what the nodes run.

        Args:
            tools: Has the jars, and formats the directories.
            java_options: For the nodes: `SHORT_LIVED` where nothing is measured.
        """
        self._tools = tools
        self._options = [f"-Xms{HEAP}", f"-Xmx{HEAP}", *java_options]

    def command(self, node: NodeState) -> list[str]:
        """Return the command that runs a node."""
        class_path = f"{self._tools.jars}/*"
        return ["java", *self._options, "-cp", class_path, "kafka.Kafka", node.properties_file]

    def format(
        self, node: NodeState, cluster_id: str, directories: Sequence[Path], security: object
    ) -> None:
        """Format the directories of a node that are not formatted yet, with Kafka's own tool."""
        del directories, security  # It finds them by itself, and the clusters here are open.
        arguments = ["format", "--ignore-formatted", "-t", cluster_id, "-c", node.properties_file]
        done = self._tools.run(STORAGE, *arguments)
        if done.code:
            raise LabError(f"{node.role} {node.node_id} could not be formatted: {done.err}")
