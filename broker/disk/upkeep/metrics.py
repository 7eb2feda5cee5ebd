"""The metrics of log directories.

Source: `LogManager` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.disk.condition import is_hung
from broker.disk.directory import LogDirs, LogDirState
from broker.disk.upkeep.condition_monitor import ConditionMonitor
from jbodlab.runtime.metrics import Metric, by_label, histograms, rows, values

LOG_DIRECTORY = "logDirectory"


def directory_metrics(log_dirs: LogDirs, conditions: ConditionMonitor) -> Iterator[Metric]:
    """Yield the metrics of all directories.

    Args:
        log_dirs: The directories of the broker.
        conditions: Which of them are full or slow.
    """
    dirs = {str(log_dir.path): log_dir for log_dir in log_dirs.all}
    yield from values(
        {
            "kafka_log_LogManager_OfflineLogDirectoryCount": sum(
                not log_dir.is_online for log_dir in log_dirs.all
            )
        }
    )
    yield from rows(
        by_label(LOG_DIRECTORY, dirs),
        {
            "kafka_log_LogManager_LogDirectoryOffline": lambda d: not d.is_online,
            "jbodlab_log_dir_replicas": lambda d: d.replica_count,
            "jbodlab_log_dir_revivals_total": lambda d: d.revivals,
            "jbodlab_log_dir_full": lambda d: d.condition.is_full,
            "jbodlab_log_dir_slow": lambda d: d.condition.is_slow,
            "jbodlab_log_dir_hung": lambda d: is_hung(d.cause),
            "jbodlab_log_dir_condition_changes_total": lambda d: conditions.changes[d.path],
            "jbodlab_log_dir_refused_appends_total": lambda d: d.space.refused_count,
        },
    )
    yield from rows(
        [
            ({LOG_DIRECTORY: path, "state": state.name}, log_dir.state is state)
            for path, log_dir in dirs.items()
            for state in LogDirState
        ],
        {"jbodlab_log_dir_state": float},
    )
    yield from rows(
        by_label(
            LOG_DIRECTORY,
            {
                path: (disk.total_bytes, disk.usable_bytes, disk.reserved_bytes)
                for path, log_dir in dirs.items()
                for disk in (log_dir.space.disk,)
                if disk.total_bytes is not None and disk.usable_bytes is not None
            },
        ),
        {
            "jbodlab_log_dir_total_bytes": lambda sizes: sizes[0],
            "jbodlab_log_dir_usable_bytes": lambda sizes: sizes[1],
            "jbodlab_log_dir_reserved_bytes": lambda sizes: sizes[2],
        },
    )
    yield from rows(
        [
            ({LOG_DIRECTORY: path, "work": work}, median_ms)
            for path, log_dir in dirs.items()
            for work, median_ms in conditions.latencies_ms(log_dir).items()
        ],
        {"jbodlab_log_dir_latency_seconds": lambda median_ms: median_ms / 1000},
    )
    yield from _queue_metrics(log_dirs)


def _queue_metrics(log_dirs: LogDirs) -> Iterator[Metric]:
    queues = [
        (str(log_dir.path), name, queue)
        for log_dir in log_dirs.watched
        for name, queue in log_dir.queues.items()
    ]
    yield histograms(
        "jbodlab_log_dir_call_seconds",
        [({LOG_DIRECTORY: path, "call": name}, queue.latency) for path, name, queue in queues],
    )
    yield from rows(
        [({LOG_DIRECTORY: path, "queue": name}, queue) for path, name, queue in queues],
        {"jbodlab_log_dir_queue_length": lambda queue: queue.queue_length},
    )
    yield histograms(
        "jbodlab_log_dir_queue_seconds",
        [({LOG_DIRECTORY: path, "queue": name}, queue.wait) for path, name, queue in queues],
    )
