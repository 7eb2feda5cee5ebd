"""One log directory: its state, its threads, its files, its space."""

from broker.disk.directory.lifecycle import LogDirEvent, LogDirState
from broker.disk.directory.log_cleaning import LogCleaning
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.directory.logs_in_use import FoundLog, LogInUse, LogsInUse, LogWithState, OwnedLog

__all__ = [
    "FoundLog",
    "LogCleaning",
    "LogDir",
    "LogDirEvent",
    "LogDirState",
    "LogDirs",
    "LogInUse",
    "LogWithState",
    "LogsInUse",
    "OwnedLog",
]
