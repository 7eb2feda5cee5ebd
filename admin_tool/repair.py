"""`jbodlab storage repair`: copies damaged replicas again from their leaders.

`jbodlab storage verify --output json` says which. The directories must be on this machine; their
broker may run, see `repair_online`, or not, see `repair_offline`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from jbodlab.cli.output import Output
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.storage.directory.directory_lock import DirectoryLock
from jbodlab.vocabulary.errors import FormatError

if TYPE_CHECKING:
    from admin_tool.log_dir_actions.findings import Found
    from jbodlab.cli.results import Repaired
    from jbodlab.storage.directory.filesystem import Disk

STDIN = "-"


async def run(options: Namespace, output: Output) -> int:
    """Copy damaged replicas again from their leaders; returns the exit code."""
    from admin_tool.log_dir_actions.findings import read
    from admin_tool.log_dir_actions.repair_offline import connected_to_cluster_of, repair_offline
    from admin_tool.log_dir_actions.repair_online import repair_online
    from jbodlab.storage.directory.posix_filesystem import PosixFileSystem

    name: str = options.findings
    fs = PosixFileSystem()
    found = read(fs, _content(name))
    # Before the question, and again by whoever repairs.
    async with connected_to_cluster_of(fs, options, [path for path, _ in found]):
        pass
    if found:
        output.confirm(_question(found), yes=options.yes)
    with ExitStack() as locks:
        stopped: Found = []
        running: Found = []
        for path, replicas in found:
            (stopped if _lock(fs, locks, path) else running).append((path, replicas))
        results = await repair_offline(fs, options, stopped) if stopped else []
        results += await repair_online(fs, options, running) if running else []
    shown: list[Repaired] = [
        {"folder": str(one.folder), "repaired": one.refusal is None, "refusal": one.refusal}
        for one in results
    ]
    output.result(shown, "\n".join(one.text for one in results) or "nothing is damaged")
    return 1 if any(one.refusal for one in results) else 0


def _content(name: str) -> bytes:
    if name == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise AdminError(f"cannot read {name}: {error.strerror}") from error


def _question(found: Found) -> str:
    count = sum(len(replicas) for _, replicas in found)
    return (
        f"replace the damaged records of {count} replica{'' if count == 1 else 's'} in "
        f"{', '.join(str(path) for path, _ in found)} by those of their leaders?"
    )


def _lock(disk: Disk, locks: ExitStack, path: Path) -> bool:
    """Keep a broker from starting on a directory meanwhile; returns False if one runs on it."""
    try:
        lock = DirectoryLock(disk, path)
    except FormatError:
        return False
    except OSError as error:
        raise AdminError(f"{path} cannot be locked: {error.strerror}") from error
    locks.callback(lock.release)
    return True
