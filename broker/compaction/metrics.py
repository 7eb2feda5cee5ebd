"""The metrics of compaction, for each directory.

Source: `LogCleaner`, `LogCleanerManager` of Apache Kafka, which has most of these for all threads
together.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.compaction.log_cleaner import LogCleaner
from broker.disk.directory.log_dirs import LogDirs
from jbodlab.runtime.metrics import Metric, gauges

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
        (
            f"{MANAGER}_uncleanable_bytes",
            "dirty bytes of logs that cannot be compacted",
            uncleanable_bytes,
        ),
        (f"{MANAGER}_max_dirty_percent", "dirty ratio of the dirtiest log", dirtiest),
        (
            f"{MANAGER}_time_since_last_run_ms",
            "time since the cleaner of a directory last looked for work",
            {path: max(0, now_ms - at) for path, at in looked.items()},
        ),
        (
            f"{CLEANER}_cleaner_recopy_percent",
            "share of the bytes read that the last compaction round kept",
            {path: each.recopy_percent for path, each in last.items()},
        ),
        (
            f"{CLEANER}_max_clean_time_secs",
            "duration of the last compaction round",
            {path: each.seconds for path, each in last.items()},
        ),
        (
            f"{CLEANER}_max_buffer_utilization_percent",
            "share of the memory for keys that the last compaction round used",
            {path: 100 * each.utilization for path, each in last.items()},
        ),
        (
            "jbodlab_log_cleaner_paused_partitions",
            "logs that are not compacted because they are being moved",
            paused,
        ),
        (
            "jbodlab_log_cleaner_failing_partitions",
            "logs whose last compaction round failed",
            failing,
        ),
        (
            "jbodlab_log_cleaner_last_round_age_ms",
            "time since the last compaction of a log in a directory",
            {path: max(0, now_ms - each.ended_ms) for path, each in last.items()},
        ),
    ):
        yield gauges(name, meaning, LOG_DIRECTORY, values)
    yield Metric(
        "jbodlab_log_cleaner_rounds_total",
        "counter",
        "compaction rounds that finished",
        [("", {LOG_DIRECTORY: path}, each.rounds) for path, each in stats.items()],
    )
    yield Metric(
        "jbodlab_log_cleaner_failures_total",
        "counter",
        "compaction rounds that failed",
        [("", {LOG_DIRECTORY: path}, each.failures) for path, each in stats.items()],
    )
