"""Work that runs for ever on open log directories: checkpoints, retention, probe, condition."""

from broker.disk.upkeep.checkpoints import CONTENTS, CheckpointWriter
from broker.disk.upkeep.condition_monitor import ConditionMonitor, ConditionSettings
from broker.disk.upkeep.cordon import Cordon, check_paths
from broker.disk.upkeep.metrics import directory_metrics
from broker.disk.upkeep.periodic import PeriodicTasks
from broker.disk.upkeep.probe import LogDirProbe, watch_steps
from broker.disk.upkeep.retention import DirectoryRemover, RetentionTask

__all__ = [
    "CONTENTS",
    "CheckpointWriter",
    "ConditionMonitor",
    "ConditionSettings",
    "Cordon",
    "DirectoryRemover",
    "LogDirProbe",
    "PeriodicTasks",
    "RetentionTask",
    "check_paths",
    "directory_metrics",
    "watch_steps",
]
