"""A cluster that commands start and stop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from jbodlab.cli import lab_state
from tests import printed
from tests.cluster.lab_cluster import Cluster

REPOSITORY = Path(__file__).resolve().parents[2]


class Staying:
    """A cluster of two brokers with two directories each, by its commands alone."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.environment = {
            **os.environ,
            "JBODLAB_STATE_DIR": str(state_dir),
            "PYTHONPATH": str(REPOSITORY),
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "jbodlab", *words],
            env=self.environment,
            cwd=self.state_dir,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if "json" in words and done.stdout:
            verb = words[1:2] if words[0] == "controllers" else ()
            printed.check(" ".join((words[0], *verb)), done.stdout)
        return done

    def told(self, *words: str) -> Any:
        """Run a command that must succeed; returns its JSON."""
        done = self.run(*words, "--output", "json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def topics(self) -> set[str]:
        """Return the topics, once deleted ones have left the metadata."""
        done = self.run("status", "--output", "json")
        return {one["topic"] for one in json.loads(done.stdout)["partitions"]}

    @property
    def cluster(self) -> Cluster:
        file = lab_state.cluster_file(self.state_dir, "default")
        return Cluster(lab_state.from_json(file.read_text("utf-8")), outlives_us=True)

    def topics_made(self) -> int:
        """Count what the log has of topics that `run` makes for itself."""
        logs = self.state_dir.rglob("__cluster_metadata-0/*.log")
        return sum(path.read_bytes().count(b"jbodlab-run-") for path in logs)

    @property
    def journal(self) -> Path:
        return lab_state.journal_file(self.state_dir)
