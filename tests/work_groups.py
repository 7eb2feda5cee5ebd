"""The distribution of groups of tests over workers, of which one may die."""

from __future__ import annotations

import subprocess
from pathlib import Path

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

END_DEADLINE_S = 5.0


class GroupScheduling(LoadGroupScheduling):
    """Each group runs in one worker; what a dead worker has not run goes to the others.

    xdist hands out again all groups of a dead worker. A worker that gets a group without a test
    left to run reports nothing any more, is given nothing more, and the run never ends. It also
    hands out again the test at which the worker died, which may kill the next one.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a worker; returns the test at which it died, None where it had none left."""
        groups = self.assigned_work[node]
        died_at = None
        for tests in groups.values():
            left = [name for name, is_complete in tests.items() if not is_complete]
            if left and died_at is None:
                died_at = left[0]
                tests[died_at] = True
        self.assigned_work[node] = {
            name: tests for name, tests in groups.items() if not all(tests.values())
        }
        super().remove_node(node)
        return died_at


def how_ended(node: WorkerController) -> str:
    """Return the exit code of a worker and the free memory, or that its process still runs."""
    # The code is kept by execnet, which has no public way to it.
    process = getattr(getattr(node.gateway, "_io", None), "popen", None)
    if not isinstance(process, subprocess.Popen):
        return "exit code unknown"
    try:
        code = str(process.wait(END_DEADLINE_S))
    except subprocess.TimeoutExpired:
        return f"process {process.pid} still runs, its connection was closed"
    memory = Path("/proc/meminfo").read_text().splitlines()[2]
    return f"exit code {code}, {memory}"
