"""jbod-reassign-partitions --list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admin_tool.options import Parsed
from admin_tool.requests.connection import connected
from admin_tool.requests.reassignments import Reassignment, list_reassignments
from jbodlab.ids import TopicPartition


def run(options: Parsed) -> int:
    """List the reassignments under way; returns the exit code."""
    with connected(options) as connection:
        print(listed(list_reassignments(connection)))
    return 0


def listed(ongoing: Mapping[TopicPartition, Reassignment]) -> str:
    """Return the lines of the list."""
    if not ongoing:
        return "No partition reassignments found."
    lines = ["Current partition reassignments:"]
    for one, state in sorted(ongoing.items()):
        parts = [f"replicas: {_joined(state.replicas)}."]
        if state.adding:
            parts.append(f"adding: {_joined(state.adding)}.")
        if state.removing:
            parts.append(f"removing: {_joined(state.removing)}.")
        lines.append(f"{one}: {' '.join(parts)}")
    return "\n".join(lines)


def _joined(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
