"""What compaction shows of itself, per directory.

Source: `LogCleaner`, `LogCleanerManager` of Apache Kafka, which has most of these for all of its
threads together.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.compaction.log_cleaner import LogCleaner
from broker.disk.log_dirs import LogDirs
from jbodlab.metrics import Metric, gauges

MANAGER = "kafka_log_LogCleanerManager"
CLEANER = "kafka_log_LogCleaner"
LOG_DIRECTORY = "logDirectory"


def cleaner_metrics(cleaner: LogCleaner, log_dirs: LogDirs, now_ms: int) -> Iterator[Metric]:
    """Return the metrics of all directories."""
    uncleanable, uncleanable_bytes, dirtiest, paused, failing = {}, {}, {}, {}, {}
    for log_dir in log_dirs.online():
        found = cleaner.cleanable(log_dir)
        marked = [each for each in found if each.log.cleaning.is_uncleanable]
        path = str(log_dir.path)
        uncleanable[path] = len(marked)
        uncleanable_bytes[path] = sum(each.dirty.cleanable_bytes for each in marked)
        paused[path] = sum(each.log.cleaning.is_paused for each in found)
        failing[path] = sum(each.log.cleaning.failures > 0 for each in found)
        dirtiest[path] = int(100 * max((each.dirty.ratio for each in found), default=0))
    stats = {str(path): each for path, each in cleaner.stats.items()}
    looked = {path: each.looked_ms for path, each in stats.items() if each.looked_ms is not None}
    last = {path: each.last for path, each in stats.items() if each.last is not None}
    for name, meaning, values in (
        (f"{MANAGER}_uncleanable_partitions_count", "logs that cannot be compacted", uncleanable),
        (f"{MANAGER}_uncleanable_bytes", "bytes of these that are dirty", uncleanable_bytes),
        (f"{MANAGER}_max_dirty_percent", "dirty part of the dirtiest log", dirtiest),
        (
            f"{MANAGER}_time_since_last_run_ms",
            "time since the cleaner of a directory looked for something to do",
            {path: max(0, now_ms - at) for path, at in looked.items()},
        ),
        (
            f"{CLEANER}_cleaner_recopy_percent",
            "part of the bytes read that the last round kept",
            {path: each.recopy_percent for path, each in last.items()},
        ),
        (
            f"{CLEANER}_max_clean_time_secs",
            "time that the last round took",
            {path: each.seconds for path, each in last.items()},
        ),
        (
            f"{CLEANER}_max_buffer_utilization_percent",
            "part of the memory for keys that the last round filled",
            {path: 100 * each.utilization for path, each in last.items()},
        ),
        (
            "jbodlab_log_cleaner_paused_partitions",
            "logs that are not compacted as long as they are moved",
            paused,
        ),
        (
            "jbodlab_log_cleaner_failing_partitions",
            "logs whose last round of compaction failed",
            failing,
        ),
        (
            "jbodlab_log_cleaner_last_round_age_ms",
            "time since a log of a directory was compacted",
            {path: max(0, now_ms - each.ended_ms) for path, each in last.items()},
        ),
    ):
        yield gauges(name, meaning, LOG_DIRECTORY, values)
    yield Metric(
        "jbodlab_log_cleaner_rounds_total",
        "counter",
        "rounds of compaction that came to their end",
        [("", {LOG_DIRECTORY: path}, each.rounds) for path, each in stats.items()],
    )
    yield Metric(
        "jbodlab_log_cleaner_failures_total",
        "counter",
        "rounds of compaction that failed",
        [("", {LOG_DIRECTORY: path}, each.failures) for path, each in stats.items()],
    )
