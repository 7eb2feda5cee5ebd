"""What the nodes of a cluster run: our controller and brokers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jbodlab.errors import FormatError
from jbodlab.lab_state import NodeState
from lab.cluster import programs
from lab.errors import LabError


class OwnServers:
    """Our controller and brokers, formatted in this process."""

    def command(self, node: NodeState) -> list[str]:
        """Return the command that runs a node."""
        return [*programs.command(node.role), "-c", node.properties_file]

    def format(self, node: NodeState, cluster_id: str, directories: Sequence[Path]) -> None:
        """Format directories, each without `meta.properties`."""
        from jbodlab.metadata_log.formatting import format_directories
        from jbodlab.records.metadata_version import LATEST

        try:
            format_directories(
                directories, cluster_id=cluster_id, node_id=node.node_id, level=LATEST
            )
        except FormatError as error:
            raise LabError(f"{node.role} {node.node_id} could not be formatted: {error}") from error
