"""Removes a cluster's folder when the process that made it is gone, however it ended.

The kernel kills the servers of a cluster with the process that started them. Their folder, and
mounts in it, would stay; so a small process waits at the other end of a pipe, which closes with
its writer, and then heals what is broken, ends what still runs, and removes the rest.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

END_DEADLINE_S = 10.0


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start a keeper of a folder."""
    from lab.machine import processes, programs

    environment = programs.environment(folder, processes.own_user())
    # The keeper is nobody that belongs to the cluster, or it would end itself.
    del environment[processes.CLUSTER_VARIABLE]
    return subprocess.Popen(
        [*programs.command("lab.testing.keeper"), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment,
        start_new_session=True,
    )


def end(keeper: subprocess.Popen[bytes]) -> None:
    """Let a keeper go, whose folder is removed."""
    assert keeper.stdin is not None
    keeper.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        keeper.wait(END_DEADLINE_S)
        return
    keeper.kill()
    keeper.wait()


def main() -> int:
    """Wait for the end of the other process, and clean up."""
    folder = Path(sys.argv[1])
    sys.stdin.buffer.read()
    if not folder.exists():
        return 0
    # Only now, as nearly every keeper has nothing to do: the servers start beside it.
    from fault_injection.errors import FaultError
    from lab.cluster.faults import Faults
    from lab.machine import folders

    for journal in folder.glob("*/faults.jsonl"):
        with contextlib.suppress(FaultError):
            Faults(journal).heal_all()
    folders.remove_folder(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
