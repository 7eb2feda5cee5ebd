"""Calls on the threads of a directory: queues, the fence, and what their errors mean."""

from broker.disk.calls.executor import DirectoryExecutor, run_aside
from broker.disk.calls.fence import Fence, fenced_disk
from broker.disk.calls.no_space import FullError, NoSpaceError, WaitsForRoomError, fsync_or_fail
from broker.disk.calls.replica_files import ReplicaLostError, guarded_disk, missing_folders
from broker.disk.calls.shortage import ShortageError

__all__ = [
    "DirectoryExecutor",
    "Fence",
    "FullError",
    "NoSpaceError",
    "ReplicaLostError",
    "ShortageError",
    "WaitsForRoomError",
    "fenced_disk",
    "fsync_or_fail",
    "guarded_disk",
    "missing_folders",
    "run_aside",
]
