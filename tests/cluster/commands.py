"""Commands of `jbodlab`, called in this process."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.harness import Cluster
from tests.command_lines import Done, run


def call(cluster: Cluster, *words: object) -> Done:
    """Run a command about a cluster."""
    return run([*map(str, words), "--bootstrap-server", cluster.bootstrap])


def called(cluster: Cluster, *words: object) -> str:
    """Run a command that has to succeed; returns its result."""
    done = call(cluster, *words)
    assert done.code == 0, done
    return done.out


def value(cluster: Cluster, *words: object) -> Any:
    """Return the result of a command as JSON."""
    return json.loads(called(cluster, *words, "--output", "json"))


def dir_states(cluster: Cluster) -> dict[str, str]:
    """Return the states of all directories by their paths."""
    found = value(cluster, "dirs", "list")["directories"]
    return {one["path"]: one["state"] for one in found}
