"""How a log directory opens, loads, comes back and closes."""

from broker.disk.life.closing import close_log_dirs
from broker.disk.life.loading import LoadedReplica, ReplicaOf, load_logs, sync_if_due
from broker.disk.life.revival import LoadingRules, LogDirRevival, RevivedReplicas
from broker.disk.life.startup import OpenedLogDirs, open_log_dirs

__all__ = [
    "LoadedReplica",
    "LoadingRules",
    "LogDirRevival",
    "OpenedLogDirs",
    "ReplicaOf",
    "RevivedReplicas",
    "close_log_dirs",
    "load_logs",
    "open_log_dirs",
    "sync_if_due",
]
