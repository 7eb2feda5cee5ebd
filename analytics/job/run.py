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

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.ask.broker_logs import FailureAt, LogLine, joined
from analytics.ask.offline_log import from_microseconds
from analytics.bytes.layout import Layout
from analytics.derive.bucket_rows import NEEDED, files_by_bucket
from analytics.fold.min_insync import AssumedMinIsr
from analytics.fold.transactions import Dropped
from analytics.job.cluster_stage import cluster_history, counted, epoch_rows
from analytics.job.derive_stage import BY_TASKS, BucketFiles
from analytics.job.derived_frames import derive_tables
from analytics.job.fold_input import (
    Overview,
    effective_rows,
    history_input,
    overview,
    states_of_cluster,
    sync_points,
)
from analytics.job.fold_stage import PARTITION_TABLES, FollowPlan, follow_buckets
from analytics.job.former_run import (
    BYTES_PER_BUCKET,
    GOES_ON_WITH,
    OPEN,
    PROBLEMS,
    SMALL,
    FormerRun,
    read_last_batch,
    remaining_splits,
    save_former,
)
from analytics.job.kind_files import Source, write_kinds
from analytics.job.output import BYTES_PER_FILE, ClusterOutput
from analytics.job.progress import Progress
from analytics.job.row_kinds import of_kind
from analytics.job.scan_stage import SCANNED, ScanPlan, scan
from analytics.job.session import few_rows
from analytics.page.report_figures import Asked, Figures, ask_figures
from analytics.store.table_files import StoredTables, read_files, write_files
from analytics.tables import catalog as t
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
DIRECT_TABLES = (*RECORD_TABLES, *PARTITION_TABLES, *OF_CLUSTER, *OF_TOPICS)
"""Tables that tasks write by themselves."""


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
        output, spark = self.output, self.spark
        self._write_base()
        self.progress.stage("deriving tables")
        self._write_derived(output.tables(spark))
        self.progress.stage("report")
        figures = ask_figures(output.tables(spark), self.asked)
        output.remove_others()
        return ClusterRun(figures=figures, source=self.layout.source)

    def _write_base(self) -> None:
        """Write the tables that are no others' consequences."""
        layout, output, spark = self.layout, self.output, self.spark
        self.progress.stage("reading the log")
        scanned = self._keep(scan(spark, self._scan_plan()))
        known = scanned if self.former is None else scanned.unionByName(self._former_rows())
        seen = overview(known, layout)
        rows = effective_rows(known, layout, seen.dropped)
        self.progress.stage("following brokers")
        syncs = sync_points(layout)
        folded = self._keep(cluster_history(rows, syncs))
        counts = counted(of_kind(known, "count"))
        brokers, controllers = states_of_cluster(folded)
        output.put(t.RECORD_COUNTS, counts)
        output.put(t.CONTROLLER_EPOCHS, epoch_rows(counts, controllers))
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
        of_partitions = self._problems_of_partitions(followed)
        problems = of_kind(followed, "problem").unionByName(of_partitions)
        problems = problems.unionByName(of_kind(folded, "problem"))
        undecided_us = self._accept(scanned, folded, followed)
        self.progress.stage("writing tables")
        partitions = output.written(t.PARTITIONS, spark)
        frames = {
            t.PROBLEMS: self._problems(known, seen, problems),
            t.TOPICS: topics(followed, partitions),
        }
        output.write(frames, layout.size_bytes)
        end_us = max((row["latest_time"] for row in counts if row["latest_time"]), default=None)
        # Records yet to come may be the cause of something that has ended.
        is_open = end_us is not None and undecided_us is not None and undecided_us >= end_us
        is_open |= any(end == layout.end_offset for _, end in seen.dropped)
        self._leave_state(known, of_partitions, is_open=is_open)

    def _write_derived(self, made: StoredTables) -> None:
        output, parts = self.output, self.output.parts()
        by_bucket = files_by_bucket(output.accepted, output.name, NEEDED)
        files = BucketFiles(files=by_bucket, parts=parts)
        derived = derive_tables(self.spark, made, files)
        of_buckets = self._keep(derived.of_buckets)
        output.accept(BY_TASKS, [*_files(of_buckets), *_files(derived.of_failures)])
        output.write(derived.frames, self.layout.size_bytes)
        output.put(t.BROKER_LOG_LINES, self._log_lines())

    def _log_lines(self) -> list[dict[str, object]]:
        """Return what brokers wrote, with the failures that it tells of."""
        failures: list[FailureAt] = []
        if self.broker_logs:
            columns = ("broker", "directory", "detected_offset")
            time = F.unix_micros("detected_time").alias("us")
            known = self.output.written(t.DIRECTORY_FAILURES, self.spark).select(*columns, time)
            failures = [
                FailureAt(
                    **{name: row[name] for name in columns},
                    detected_time=None if row["us"] is None else from_microseconds(row["us"]),
                )
                for row in known.collect()
            ]
        return joined(self.broker_logs, failures)

    def _scan_plan(self) -> ScanPlan:
        splits = self.layout.splits
        if self.former is not None:
            splits = remaining_splits(self.layout, self.former)
        return ScanPlan(splits=splits, buckets=self.buckets, parts=self.output.parts(self.since))

    def _former_rows(self) -> DataFrame:
        """Return the few rows that the run before this one has kept."""
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
        kept = read_files(self.spark, self.output.store, self.output.state(SMALL), SCANNED)
        return kept.where(~F.coalesce(read_again, F.lit(False)) & ~F.coalesce(gone, F.lit(False)))

    def _problems_of_partitions(self, followed: DataFrame) -> DataFrame:
        schema = t.PROBLEMS.schema
        found = of_kind(followed, "partition_problem").select(*schema.names)
        if self.former is None:
            return found
        store, folder = self.output.store, self.output.state(PROBLEMS)
        return read_files(self.spark, store, folder, schema).unionByName(found)

    def _accept(self, scanned: DataFrame, folded: DataFrame, followed: DataFrame) -> int | None:
        """Take the files of this run, and those of the former that still count.

        Returns:
            Until when causes are not known for sure, microseconds since 1970; None if they are.
        """
        read = scanned.where(F.col("kind").isin("file", "end")).select("file", "end")
        of_buckets = followed.where(F.col("kind").isin("file", "undecided"))
        of_buckets = of_buckets.select("file", "undecided_us")
        told = read.unionByName(of_buckets, allowMissingColumns=True).collect()
        files = [row["file"] for row in told if row["file"] is not None]
        parts = self.output.parts(self.since)
        tasks = 1 + self.layout.size_bytes // BYTES_PER_FILE
        rows = _of_kinds(folded, OF_CLUSTER).unionByName(
            _of_kinds(followed, OF_TOPICS), allowMissingColumns=True
        )
        files += write_kinds(rows, {**OF_CLUSTER, **OF_TOPICS}, parts, tasks=tasks).collect()
        self.ended = {table.name: {} for table in DIRECT_TABLES}
        if self.former is not None:
            snapshots = {snapshot.name for snapshot in self.layout.snapshots}
            for table, names in self.former.files.items():
                self.ended[table] = {
                    name: log_file
                    for name, log_file in names.items()
                    if table != t.SNAPSHOT_RECORDS.name or log_file in snapshots
                }
        self.output.accept(DIRECT_TABLES, files, self.ended)
        for row in files:
            if not row["still"]:
                self.ended[row["table"]][row["name"]] = row["log_file"] or ""
        for row in (row["end"] for row in told if row["end"] is not None):
            self.ends.append((row["last_offset"], row["file"], row["position"]))
        return max(
            (row["undecided_us"] for row in told if row["undecided_us"] is not None),
            default=None,
        )

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
        kept = known.where(F.col("kind").isin("row", "wide", "count"))
        files = 1 + layout.size_bytes // BYTES_PER_FILE
        write_files(kept, output.scratch_store, output.state(SMALL), SCANNED, files)
        problems = t.PROBLEMS.schema
        write_files(of_partitions, output.scratch_store, output.state(PROBLEMS), problems, 1)
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
        read = (
            known.where((F.col("kind") == "row") & F.col("row.problem").isNotNull())
            .select("row.*")
            .select("file", "position", "offset", F.col("problem").alias("kind"), "message")
        )
        found = read.unionByName(of_folds.select(*columns))
        more = (*self.layout.problems, *seen.problems)
        if not more:
            return found
        values = [tuple(getattr(problem, name) for name in columns) for problem in more]
        return found.unionByName(
            self.spark.createDataFrame(values, spark_schema(t.PROBLEMS.schema))
        )


def topics(followed: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return the topics that still exist."""
    still = F.col("valid_to_offset").isNull()
    counts = partitions.groupBy("topic_id").agg(
        F.count("*").alias("partitions"),
        F.max(F.when(F.col("partition") == 0, F.size("replicas"))).alias("replication_factor"),
    )
    min_isr = (
        of_kind(followed, "min_isr")
        .where(still)
        .select("topic_id", "min_insync_replicas", "min_insync_replicas_from")
    )
    return (
        of_kind(followed, "topic")
        .where(still)
        .join(counts, "topic_id", "left")
        .join(min_isr, "topic_id", "left")
        .withColumn("partitions", F.coalesce("partitions", F.lit(0)))
    )


def _of_kinds(rows: DataFrame, tables: Mapping[Table, Source]) -> DataFrame:
    """Return the rows of the kinds that tables are of."""
    kinds = dict.fromkeys(source.kind for source in tables.values())
    return rows.where(F.col("kind").isin(*kinds)).select("kind", *kinds)


def _files(rows: DataFrame) -> list[Row]:
    return list(of_kind(rows, "file").collect())
