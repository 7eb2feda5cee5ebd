"""The replay of one cluster: the stages, and which table comes from where.

1. `scan` reads the log once; its rows are kept on disk, for several things are made of them.
2. Brokers, settings, epochs and counts: few rows, folded by key.
3. `history_stage` follows the partitions, with what became of the brokers at hand.
4. The other tables are made of these by Spark, the derived ones of the tables as written.
5. The report asks the tables.

Everything lies in the scratch folder then; `job.clusters` puts it in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.ask.broker_logs import FailureAt, LogLine, joined
from analytics.bytes.layout import Layout
from analytics.derive.bucket_rows import NEEDED, files_by_bucket
from analytics.derive.cluster import derive_cluster
from analytics.fold.min_insync import AssumedMinIsr
from analytics.fold.transactions import Dropped
from analytics.job.cluster_stage import cluster_history, epoch_rows
from analytics.job.derive_stage import BucketFiles
from analytics.job.derived_tables import OF_TASKS, derive_by_tasks
from analytics.job.fold_input import (
    Overview,
    effective_rows,
    history_input,
    overview,
    states_of_cluster,
    sync_points,
)
from analytics.job.fold_stage import IS_OTHER, PARTITION_TABLES, FollowPlan, follow_buckets, tell
from analytics.job.former_run import (
    BYTES_PER_BUCKET,
    GOES_ON_WITH,
    OPEN,
    SMALL,
    FormerRun,
    read_last_batch,
    remaining_splits,
    save_former,
)
from analytics.job.kind_files import Source
from analytics.job.output import BYTES_PER_FILE, ClusterOutput
from analytics.job.progress import Progress
from analytics.job.row_kinds import of_kind
from analytics.job.scan_stage import SCANNED, ScanPlan, scan
from analytics.job.session import few_rows
from analytics.page.report_figures import Asked, Figures, ask_figures
from analytics.store.part_files import WrittenFile
from analytics.store.stored_tables import StoredTables
from analytics.store.table_files import read_files, write_files
from analytics.tables import catalog as t
from analytics.tables.derived import BUCKET_SUMS
from analytics.tables.frames import by_driver, few_rows_here, is_by_driver, run_sql
from analytics.tables.spark_schema import spark_schema
from analytics.tables.table import Table

RECORD_TABLES = (t.RECORDS, t.SNAPSHOT_RECORDS)
OF_CLUSTER: Mapping[Table, Source] = {
    t.BROKERS: Source("broker", still_only=True),
    t.BROKER_HISTORY: Source("broker", still_only=False),
    t.LOG_DIRS: Source("log_dir", still_only=False),
    t.BROKER_SESSIONS: Source("broker_session", still_only=False),
    t.CONFIGS: Source("config", still_only=False),
    t.FEATURES: Source("feature", still_only=False),
}
OF_TOPICS: Mapping[Table, Source] = {t.TOPIC_HISTORY: Source("topic", still_only=False)}
LARGE_TABLES = (*RECORD_TABLES, *PARTITION_TABLES)
"""Tables that the tasks write which read the log, and which follow the partitions."""

PROBLEM = "problem"
KEPT = SCANNED.append(pa.field(PROBLEM, pa.struct(t.PROBLEMS.schema)))
"""What is kept for the next run: rows of the scan, and problems of partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRun:
    """What the replay of one cluster leaves besides its tables."""

    figures: Figures
    source: str
    """Where its log was read."""


def run(
    spark: SparkSession,
    layout: Layout,
    output: ClusterOutput,
    progress: Progress,
    former: FormerRun | None = None,
    assumed: AssumedMinIsr | None = None,
    broker_logs: Sequence[LogLine] = (),
    asked: Asked | None = None,
) -> ClusterRun:
    """Replay the log of a cluster into tables, and ask them.

    Args:
        spark: The session.
        layout: The log.
        output: Where the tables go; prepared.
        progress: Hears of the stages.
        former: The run to go on from; None to read everything.
        assumed: `min.insync.replicas` where the log does not say.
        broker_logs: What brokers wrote of their directories.
        asked: What the report is asked for besides.
    """
    one = _Run(spark, layout, output, progress, former, assumed or AssumedMinIsr())
    one.broker_logs, one.asked = broker_logs, asked or Asked()
    return one.run()


class _Run:
    """The state of one run."""

    def __init__(
        self,
        spark: SparkSession,
        layout: Layout,
        output: ClusterOutput,
        progress: Progress,
        former: FormerRun | None,
        assumed: AssumedMinIsr,
    ) -> None:
        self.spark = spark
        self.layout = layout
        self.output = output
        self.progress = progress
        self.former = former
        self.assumed = assumed
        self.broker_logs: Sequence[LogLine] = ()
        self.asked = Asked()
        self.since = 0 if former is None else former.next_offset
        wanted = max(1, -(-layout.size_bytes // BYTES_PER_BUCKET))
        self.buckets = wanted if former is None else former.buckets
        self.kept: list[DataFrame] = []
        self.ended: dict[str, dict[str, str]] = {}
        """For each table, its files that do not change any more, and where their rows are from."""
        self.ends: list[tuple[int, str, int]] = []
        """Last offset, file and position of the last batch of each split."""

    def run(self) -> ClusterRun:
        try:
            with few_rows(self.spark, self.layout.size_bytes):
                return self._run()
        finally:
            for frame in self.kept:
                frame.unpersist()

    def _run(self) -> ClusterRun:
        output = self.output
        self._write_base()
        self.progress.stage("deriving tables")
        self._write_derived(output.tables(BUCKET_SUMS))
        self.progress.stage("report")
        figures = ask_figures(output.tables(), self.asked)
        output.remove_others()
        return ClusterRun(figures=figures, source=self.layout.source)

    def _write_base(self) -> None:
        """Write the tables that are no others' consequences."""
        layout, output, spark = self.layout, self.output, self.spark
        self.progress.stage("reading the log")
        known = self._keep(scan(spark, self._scan_plan()))
        kept = None if self.former is None else self._former_rows()
        if kept is not None:
            known = known.unionByName(kept.drop(PROBLEM))
        seen = overview(known, layout)
        self.ends = [(row["last_offset"], row["file"], row["position"]) for row in seen.ends]
        others, are_few = few_rows_here(known.where("kind <> 'block'"), seen.others)
        with by_driver(spark, are_few):
            rows = effective_rows(others, layout, seen.dropped, self._keep)
        rows, _ = few_rows_here(rows, seen.others)
        self.progress.stage("following brokers")
        syncs = sync_points(layout)
        with by_driver(spark, are_few):
            folded = self._keep(cluster_history(rows, syncs))
        brokers, controllers = states_of_cluster(folded)
        output.put(t.RECORD_COUNTS, seen.counts)
        output.put(t.CONTROLLER_EPOCHS, epoch_rows(seen.counts, controllers))
        output.put(t.LOGS, [self._log()])
        self.progress.stage("following partitions")
        follow_plan = FollowPlan(
            syncs=syncs,
            # What lies before the snapshot that the replay starts from has no known begin.
            dropped=(Dropped(0, layout.replay_from), *seen.dropped),
            brokers=brokers,
            parts=output.parts(self.since),
            assumed_min_isr=self.assumed,
            since=self.since,
            former=None if self.former is None else output.former_state_uri(OPEN),
            keep_open=output.state_uri(OPEN),
        )
        events = history_input(known, rows, seen, self.buckets, layout)
        followed = self._keep(follow_buckets(events, self.buckets, follow_plan))
        told = tell(followed)
        self._accept((*seen.files, *told.files))
        self.progress.stage("writing tables")
        of_topics, are_few_topics = few_rows_here(followed.where(IS_OTHER), told.others)
        with by_driver(spark, are_few and are_few_topics):
            of_partitions = of_topics.where("kind = 'partition_problem'")
            of_partitions = of_partitions.selectExpr(
                f"'{PROBLEM}' AS kind", f"partition_problem AS {PROBLEM}"
            )
            if kept is not None:
                of_partitions = of_partitions.unionByName(
                    kept.where(f"kind = '{PROBLEM}'").select("kind", PROBLEM)
                )
            problems = of_partitions.select(f"{PROBLEM}.*").unionByName(of_kind(folded, "problem"))
            problems = problems.unionByName(of_kind(of_topics, "problem"))
            frames = {
                t.PROBLEMS: self._problems(others, seen, problems),
                t.TOPICS: topics(of_topics, output.written(t.PARTITIONS, spark)),
            }
            mixed = {folded: OF_CLUSTER, of_topics: OF_TOPICS}
            files = output.to_write(frames, layout.size_bytes, mixed).collect()
            output.accept((*frames, *OF_CLUSTER, *OF_TOPICS), files)
            latest = (row["latest_time"] for row in seen.counts)
            end_us = max((time for time in latest if time is not None), default=None)
            # Records yet to come may be the cause of something that has ended.
            until_us = told.undecided_us
            is_open = end_us is not None and until_us is not None and until_us >= end_us
            is_open |= any(end == layout.end_offset for _, end in seen.dropped)
            self._leave_state(others, of_partitions, is_open=is_open)

    def _write_derived(self, made: StoredTables) -> None:
        output = self.output
        by_bucket = files_by_bucket(output.accepted, output.name, NEEDED)
        files = BucketFiles(files=by_bucket, parts=output.parts())
        output.accept(OF_TASKS, derive_by_tasks(self.spark, made, files))
        for table, rows in derive_cluster(made):
            output.put(table, rows)
        output.put(t.BROKER_LOG_LINES, self._log_lines(made))

    def _log_lines(self, made: StoredTables) -> list[dict[str, object]]:
        """Return what brokers wrote, with the failures that it tells of."""
        failures: list[FailureAt] = []
        if self.broker_logs:
            columns = ("broker", "directory", "detected_offset", "detected_time")
            found = made.rows(t.DIRECTORY_FAILURES, columns).to_pylist()
            failures = [FailureAt(**row) for row in found]
        return joined(self.broker_logs, failures)

    def _scan_plan(self) -> ScanPlan:
        splits = self.layout.splits
        if self.former is not None:
            splits = remaining_splits(self.layout, self.former)
        return ScanPlan(splits=splits, buckets=self.buckets, parts=self.output.parts(self.since))

    def _former_rows(self) -> DataFrame:
        """Return what the run before this one has kept, rows of `KEPT`."""
        assert self.former is not None
        last = self.former.last
        snapshots = [snapshot.name for snapshot in self.layout.snapshots]
        row = F.col("row")
        # Behind the last batch there was nothing but what is read again now.
        behind = (row["file"] > last.file) | (
            (row["file"] == last.file) & (row["position"] >= last.end)
        )
        read_again = row["problem"].isNotNull() & ~row["snapshot"] & behind
        gone = row["snapshot"] & ~row["file"].isin(snapshots)
        kept = read_files(self.spark, self.output.store, self.output.state(SMALL), KEPT)
        return kept.where(~F.coalesce(read_again, F.lit(False)) & ~F.coalesce(gone, F.lit(False)))

    def _accept(self, files: Sequence[WrittenFile]) -> None:
        """Take the files of this run, and those of the former that still count."""
        self.ended = {table.name: {} for table in LARGE_TABLES}
        if self.former is not None:
            snapshots = {snapshot.name for snapshot in self.layout.snapshots}
            for table, names in self.former.files.items():
                self.ended[table] = {
                    name: log_file
                    for name, log_file in names.items()
                    if table != t.SNAPSHOT_RECORDS.name or log_file in snapshots
                }
        self.output.accept(LARGE_TABLES, files, self.ended)
        for row in files:
            if not row["still"]:
                self.ended[row["table"]][row["name"]] = row["log_file"] or ""

    def _leave_state(self, known: DataFrame, of_partitions: DataFrame, *, is_open: bool) -> None:
        """Leave what the next run needs, if it can go on from here."""
        layout, output = self.layout, self.output
        kinds = output.values(t.PROBLEMS, "kind")
        last = self.former.last if self.former is not None else None
        if self.ends:
            _, file, position = max(self.ends)
            last = read_last_batch(layout.source, file, position)
        if last is None or is_open or not kinds <= GOES_ON_WITH or not layout.stays:
            output.forget_state()
            return
        kept = known.where("kind IN ('row', 'wide', 'count')")
        kept = kept.unionByName(of_partitions, allowMissingColumns=True)
        files = 1 + layout.size_bytes // BYTES_PER_FILE
        write_files(kept, output.scratch_store, output.state(SMALL), KEPT, files)
        save_former(
            output.scratch_store,
            output.name,
            FormerRun(
                source=layout.source,
                assumed_min_isr=self.assumed.value,
                start_offset=layout.start_offset,
                replay_from=layout.replay_from,
                last=last,
                buckets=self.buckets,
                snapshots=tuple(snapshot.name for snapshot in layout.snapshots),
                disagreed="disagreement" in kinds,
                files=self.ended,
            ),
        )

    def _keep(self, frame: DataFrame) -> DataFrame:
        if is_by_driver(self.spark):
            return frame  # which has its rows already
        kept = frame.persist(StorageLevel.DISK_ONLY)
        self.kept.append(kept)
        return kept

    def _log(self) -> dict[str, object]:
        """Return the row of the log, and of what is assumed of it."""
        layout = self.layout
        base = [sync for sync in sync_points(layout) if sync.is_base]
        return {
            "source": layout.source,
            "start_offset": layout.start_offset,
            "replay_from": layout.replay_from,
            "replay_from_time": base[0].time if base else None,
            "end_offset": layout.end_offset,
            "size_bytes": layout.size_bytes,
            "snapshots": len(layout.snapshots),
            "min_insync_replicas": self.assumed.value,
            "min_insync_replicas_from": self.assumed.source,
        }

    def _problems(self, known: DataFrame, seen: Overview, of_folds: DataFrame) -> DataFrame:
        columns = t.PROBLEMS.schema.names
        read = known.where("kind = 'row' AND row.problem IS NOT NULL").select("row.*")
        read = read.selectExpr("file", "position", "offset", "problem AS kind", "message")
        # A snapshot behind the end of the log tells another moment than the state that was reached:
        # that records are missing is said once.
        compared = f"kind <> 'disagreement' OR offset <= {self.layout.log_end_offset}"
        found = read.unionByName(of_folds.where(compared))
        more = (*self.layout.problems, *seen.problems)
        if not more:
            return found
        values = [tuple(getattr(problem, name) for name in columns) for problem in more]
        return found.unionByName(
            self.spark.createDataFrame(values, spark_schema(t.PROBLEMS.schema))
        )


_TOPICS = """
    SELECT topic.*, coalesce(counts.partitions, 0) AS partitions, counts.replication_factor,
      min_isr.min_insync_replicas, min_isr.min_insync_replicas_from
    FROM (
      SELECT max(topic) FILTER (WHERE topic.valid_to_offset IS NULL) AS topic,
        max(min_isr) FILTER (WHERE min_isr.valid_to_offset IS NULL) AS min_isr
      FROM {topics} GROUP BY coalesce(topic.topic_id, min_isr.topic_id)
    ) LEFT JOIN (
      SELECT topic_id, count(*) AS partitions,
        max(CASE WHEN partition = 0 THEN size(replicas) END) AS replication_factor
      FROM {partitions} GROUP BY topic_id
    ) AS counts ON topic.topic_id = counts.topic_id WHERE topic IS NOT NULL
"""


def topics(followed: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return the topics that still exist."""
    known = followed.where("kind IN ('topic', 'min_isr')").select("topic", "min_isr")
    return run_sql(_TOPICS, {"topics": known, "partitions": partitions})
