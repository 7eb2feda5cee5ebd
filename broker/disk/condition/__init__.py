"""The condition of a directory: full, slow, hung; its space and its response times."""

from broker.disk.condition.condition import (
    HEALTHY,
    DegradedLogDirs,
    DirectoryCondition,
    degraded_log_dirs,
    hung,
    is_hung,
    space_text,
)
from broker.disk.condition.disk_space import FILES_BYTES, DirectorySpace, DiskSpace

__all__ = [
    "FILES_BYTES",
    "HEALTHY",
    "DegradedLogDirs",
    "DirectoryCondition",
    "DirectorySpace",
    "DiskSpace",
    "degraded_log_dirs",
    "hung",
    "is_hung",
    "space_text",
]
