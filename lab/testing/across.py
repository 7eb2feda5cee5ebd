"""Clusters that all processes of one test run share, as those of pytest-xdist.

The first process that needs a cluster starts `jbodlab serve`; all of them are its clients. Each
holds the writing end of a named pipe that the server reads: it ends with the last of them, however
that ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import uuid
from pathlib import Path

from lab.cluster.spec import DEFAULTS, SETTINGS, ClusterSpec, words_of
from lab.errors import LabError
from lab.machine import programs
from lab.machine.waiting import wait_for
from lab.testing import clusters
from lab.testing.served import ServedCluster

START_DEADLINE_S = 180.0
ADDRESS, ERRORS = "address.json", "errors"


class SharedServers:
    """The servers of a test run.

    Args:
        folder: A folder that its processes have in common, and others have not.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[Path, int] = {}
        """Descriptors of the pipes."""

    def get(self, need: ClusterSpec) -> ServedCluster:
        """Return the cluster for a need, started if there is none.

        Raises:
            LabError: it cannot be started.
        """
        words = _words(need)
        folder = self._folder / hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return self._joined(folder) or self._started(folder, words)

    def close(self) -> None:
        """Let go of all of them; those that nobody else holds end."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def _joined(self, folder: Path) -> ServedCluster | None:
        """Return the cluster whose server answers; None where none does."""
        try:
            told = json.loads((folder / ADDRESS).read_text("utf-8"))
            self._hold(folder / told["name"])
            cluster = ServedCluster(told["url"], told["token"])
            cluster.call("GET", "/health")
        except (OSError, ValueError, LabError):
            return None
        return cluster

    def _hold(self, pipe: Path) -> None:
        if pipe not in self._held:
            # A pipe that is open for reading too waits for no other end.
            self._held[pipe] = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)

    def _started(self, folder: Path, words: list[str]) -> ServedCluster:
        name = f"pytest-{uuid.uuid4().hex[:16]}"
        pipe = folder / name
        os.mkfifo(pipe, 0o600)
        self._hold(pipe)
        command = programs.tool("serve", "--output", "json", "--cluster", name)
        command += ["--until-input-ends", *words]
        # The shell ends at once, and the server belongs to no process of the test run.
        shell = ["/bin/sh", "-c", '{ "$@" <"$0"; rm -f "$0"; } &', str(pipe)]
        with (folder / ADDRESS).open("wb") as output, (folder / ERRORS).open("wb") as errors:
            subprocess.run(
                [*shell, *command], stdout=output, stderr=errors, start_new_session=True, check=True
            )

        def joined() -> ServedCluster | None:
            if not pipe.exists():
                said = (folder / ERRORS).read_text("utf-8", "replace").strip()
                raise LabError(f"the shared cluster cannot be started: {said}")
            return self._joined(folder)

        return wait_for("the shared cluster", joined, START_DEADLINE_S)


def _words(need: ClusterSpec) -> list[str]:
    wanted = {name: getattr(need, name) for name in SETTINGS}
    changed = {name: value for name, value in wanted.items() if value != DEFAULTS[name]}
    return words_of({**changed, "config": {**clusters.SETTINGS, **need.config}})
