"""The replay of one cluster, an ordinary program over a runner.

1. `scan_stage`: each split of the log is read once, into blocks of events and small rows.
2. The driver folds the records about everything but partitions (`small_records`), and so knows
   every failure.
3. `bucket_stage`: each bucket of partitions is followed, from its blocks to all of its tables.
4. What concerns several buckets is summed up, by DuckDB on the driver; the report asks the tables.

All tables are in the scratch folder then; `job.clusters` puts them in their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.ask.broker_logs import FailureAt, joined
from analytics.derive.bucket import BUCKET_TABLES, FACTS
from analytics.derive.cluster import ClusterSql
from analytics.derive.log_end import log_end
from analytics.job.bucket_stage import Followed, FollowPlan, follow_bucket
from analytics.job.engine import RunOptions
from analytics.job.output import ClusterOutput
from analytics.job.runner import Mapped, Runner
from analytics.job.scan_stage import Scanned, ScanPlan, scan_split
from analytics.job.small_records import (
    Overview,
    SmallRecords,
    all_others,
    broker_states,
    by_kind,
    effective_rows,
    overview,
    sync_points,
)
from analytics.rare.cluster_keys import EpochPart, controller_epochs
from analytics.rare.key_history import Row
from analytics.rare.transactions import Dropped
from analytics.read.layout import Layout
from analytics.store.questions import Questions
from analytics.store.stored_tables import StoredTables
from analytics.tables import catalog as t
from analytics.tables.derived import BROKER_LOG_LINES, DIRECTORY_FAILURES
from analytics.tables.table import Table

BYTES_PER_BUCKET = 32 << 20
"""Of the log; a bucket of partitions is the work of one task."""

OF_CLUSTER: Mapping[Table, str] = {
    t.BROKER_HISTORY: "broker",
    t.LOG_DIRS: "log_dir",
    t.BROKER_SESSIONS: "broker_session",
    t.CONFIGS: "config",
    t.FEATURES: "feature",
    t.ACLS: "acl",
    t.SCRAM_USERS: "scram_user",
}
"""Tables of brokers, settings, features and rights, and the kind of their rows."""


def run(runner: Runner, layout: Layout, output: ClusterOutput, options: RunOptions) -> None:
    """Replay the log of a cluster into tables.

    Args:
        runner: Does the work.
        layout: The log.
        output: Where the tables go; prepared.
        options: Of the user.
    """
    _Run(runner, layout, output, options).write_tables()
    output.remove_others()


class _Run:
    """The state of one run."""

    def __init__(
        self,
        runner: Runner,
        layout: Layout,
        output: ClusterOutput,
        options: RunOptions,
    ) -> None:
        self.runner = runner
        self.layout = layout
        self.output = output
        self.options = options
        self.buckets = max(1, -(-layout.size_bytes // BYTES_PER_BUCKET))
        self.syncs = sync_points(layout)

    def write_tables(self) -> None:
        """Write all tables, each stage those that it gives."""
        tables = self.output.tables(BUCKET_TABLES)
        with ExitStack() as opened:
            with closing(self._scan()) as scanned:
                files = [file for one in scanned.answers for file in one.files]
                self.output.accept((t.RECORDS, t.SNAPSHOT_RECORDS), files)
                others = all_others(scanned.answers)
                seen = overview(scanned.answers, others, self.layout)
                small = SmallRecords(effective_rows(others, self.layout.replay_from, seen.dropped))
                history = small.history(self.syncs)
                self._write_cluster(seen, history)
                more = small.topic_rows(seen.wide, self.buckets)
                end = log_end(tables)
                sql = opened.enter_context(ClusterSql(tables, end))
                plan = FollowPlan(
                    syncs=self.syncs,
                    # What lies before the snapshot that the replay starts from has no known begin.
                    dropped=(Dropped(0, self.layout.replay_from), *seen.dropped),
                    replay_from=self.layout.replay_from,
                    brokers=broker_states(history.get("broker", ())),
                    parts=self.output.parts(),
                    assumed_min_isr=self.options.assumed,
                    failures=sql.known_failures(),
                    end=end,
                )
                work = partial(follow_bucket, plan)
                followed = self.runner.shuffle(scanned, more, self.buckets, work)
            files = [file for one in followed for file in one.files]
            self.output.accept((*FACTS, *BUCKET_TABLES), files)
            self._write_topics(seen, others, history, followed, sql)
            for table, rows in sql.derive():
                self.output.put(table, rows)
        self.output.put(BROKER_LOG_LINES, self._log_lines(tables))

    def _scan(self) -> Mapped[Scanned]:
        plan = ScanPlan(buckets=self.buckets, parts=self.output.parts())
        return self.runner.map(partial(scan_split, plan), list(enumerate(self.layout.splits)))

    def _write_cluster(self, seen: Overview, history: Mapping[str, Sequence[Row]]) -> None:
        """Write the tables of brokers, settings, features, controllers and record counts."""
        output = self.output
        for table, kind in OF_CLUSTER.items():
            output.put(table, history.get(kind, ()))
        output.put(t.BROKERS, list(_still(history.get("broker", ()))))
        controllers: dict[Any, Any] = {
            row["epoch"]: row["controller"] for row in history.get("controller_epoch", ())
        }
        parts = [
            EpochPart(row["epoch"], row["first_offset"], row["first_time"], row["records"])
            for row in seen.counts
        ]
        output.put(t.RECORD_COUNTS, seen.counts)
        output.put(t.CONTROLLER_EPOCHS, controller_epochs(parts, controllers))
        output.put(t.LOGS, [self._log()])

    def _write_topics(
        self,
        seen: Overview,
        others: pa.Table,
        history: Mapping[str, Sequence[Row]],
        followed: Sequence[Followed],
        sql: Questions,
    ) -> None:
        found = by_kind(row for one in followed for row in one.rows)
        self.output.put(t.TOPIC_HISTORY, found.get("topic", ()))
        self.output.put(t.TOPICS, topics(found, sql))
        read = others.filter(pc.is_valid(others.column("problem")))
        columns = ("file", "position", "offset", "problem", "message")
        problems = read.select(columns).rename_columns(t.PROBLEMS.schema.names).to_pylist()
        for rows in (history.get("problem", ()), *map(found.get, ("problem", "partition_problem"))):
            problems += filter(self._is_compared, rows or ())
        for problem in (*self.layout.problems, *seen.problems):
            problems.append({name: getattr(problem, name) for name in t.PROBLEMS.schema.names})
        self.output.put(t.PROBLEMS, problems)

    def _is_compared(self, problem: Mapping[str, Any]) -> bool:
        # A snapshot behind the end of the log tells another moment than the state that was reached:
        # that records are missing is said once.
        is_behind = problem["offset"] > self.layout.log_end_offset
        return problem["kind"] != "disagreement" or not is_behind

    def _log_lines(self, tables: StoredTables) -> list[dict[str, object]]:
        """Return what brokers wrote, with the failures that it tells of."""
        failures: list[FailureAt] = []
        if self.options.broker_logs:
            columns = ("broker", "directory", "detected_offset", "detected_time")
            found = tables.rows(DIRECTORY_FAILURES, columns).to_pylist()
            failures = [FailureAt(**row) for row in found]
        return joined(self.options.broker_logs, failures)

    def _log(self) -> dict[str, object]:
        """Return the row of the log, and of what is assumed of it."""
        layout = self.layout
        base = [sync for sync in self.syncs if sync.is_base]
        return {
            "source": layout.source,
            "start_offset": layout.start_offset,
            "replay_from": layout.replay_from,
            "replay_from_time": base[0].time if base else None,
            "end_offset": layout.end_offset,
            "size_bytes": layout.size_bytes,
            "snapshots": len(layout.snapshots),
            "min_insync_replicas": self.options.assumed.value,
            "min_insync_replicas_from": self.options.assumed.source,
        }


_COUNTS = """
    SELECT topic_id, count(*) AS partitions,
      max(len(replicas)) FILTER (WHERE partition = 0) AS replication_factor
    FROM partitions GROUP BY topic_id
"""


def topics(found: Mapping[str, Sequence[Row]], sql: Questions) -> list[Row]:
    """Return the topics that still exist.

    Args:
        found: Rows of the kinds `topic` and `min_isr`.
        sql: Knows the partitions.
    """
    counts = {row["topic_id"]: row for row in sql.named_rows(_COUNTS)}
    min_isr = {row["topic_id"]: row for row in _still(found.get("min_isr", ()))}
    none: Row = {"partitions": 0}
    names = ("min_insync_replicas", "min_insync_replicas_from")
    return [
        row
        | counts.get(row["topic_id"], none)
        | {name: min_isr.get(row["topic_id"], {}).get(name) for name in names}
        for row in _still(found.get("topic", ()))
    ]


def _still(rows: Sequence[Row]) -> Iterator[Row]:
    """Return what has not ended."""
    return (row for row in rows if row["valid_to_offset"] is None)
