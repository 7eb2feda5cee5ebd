"""The distribution of groups of tests over workers, of which one may die."""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


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
