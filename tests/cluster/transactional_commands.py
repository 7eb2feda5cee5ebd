"""Output of the commands about transactions."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.harness import Cluster
from tests.command_lines import CommandLines


def told(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    """Output of `jbodlab transactions`."""
    line = f"transactions {arguments[0]} --output json"
    done = CommandLines(cluster.bootstrap).run(line, *arguments[1:])
    assert done.code == 0, done
    found: list[dict[str, Any]] = json.loads(done.out)
    return found
