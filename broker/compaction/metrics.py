"""The metrics of compaction, for each directory.

Source: `LogCleaner`, `LogCleanerManager` of Apache Kafka, which has most of these for all threads
together.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.compaction.log_cleaner import LogCleaner
from broker.disk.directory import LogDirs
from jbodlab.runtime.metrics import Metric, by_label, rows

MANAGER = "kafka_log_LogCleanerManager"
CLEANER = "kafka_log_LogCleaner"
LOG_DIRECTORY = "logDirectory"


def cleaner_metrics(cleaner: LogCleaner, log_dirs: LogDirs, now_ms: int) -> Iterator[Metric]:
    """Yield the metrics of all directories.

    Args:
        cleaner: Compacts the logs.
        log_dirs: The directories of the broker.
        now_ms: Milliseconds since 1970.
    """
    online = {str(each.path): cleaner.cleanable(each) for each in log_dirs.online()}
    yield from rows(
        by_label(LOG_DIRECTORY, online),
        {
            f"{MANAGER}_uncleanable_partitions_count": lambda found: sum(
                each.log.cleaning.is_uncleanable for each in found
            ),
            f"{MANAGER}_uncleanable_bytes": lambda found: sum(
                each.dirty.cleanable_bytes for each in found if each.log.cleaning.is_uncleanable
            ),
            f"{MANAGER}_max_dirty_percent": lambda found: int(
                100 * max((each.dirty.ratio for each in found), default=0)
            ),
            "jbodlab_log_cleaner_paused_partitions": lambda found: sum(
                each.log.cleaning.is_paused for each in found
            ),
            "jbodlab_log_cleaner_failing_partitions": lambda found: sum(
                each.log.cleaning.failures > 0 for each in found
            ),
        },
    )
    stats = {str(path): each for path, each in cleaner.stats.items()}
    looked = {path: each.looked_ms for path, each in stats.items() if each.looked_ms is not None}
    yield from rows(
        by_label(LOG_DIRECTORY, looked),
        {f"{MANAGER}_time_since_last_run_ms": lambda looked_ms: max(0, now_ms - looked_ms)},
    )
    last = {path: each.last for path, each in stats.items() if each.last is not None}
    yield from rows(
        by_label(LOG_DIRECTORY, last),
        {
            f"{CLEANER}_cleaner_recopy_percent": lambda each: each.recopy_percent,
            f"{CLEANER}_max_clean_time_secs": lambda each: each.seconds,
            f"{CLEANER}_max_buffer_utilization_percent": lambda each: 100 * each.utilization,
            "jbodlab_log_cleaner_last_round_age_ms": lambda each: max(0, now_ms - each.ended_ms),
        },
    )
    yield from rows(
        by_label(LOG_DIRECTORY, stats),
        {
            "jbodlab_log_cleaner_rounds_total": lambda each: each.rounds,
            "jbodlab_log_cleaner_failures_total": lambda each: each.failures,
        },
    )
