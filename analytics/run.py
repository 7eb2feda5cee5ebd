"""One run of a replay: the stages, and which table comes from where.

1. `scan` reads the log once; its rows are kept on disk, for several things are made of them.
2. Brokers, settings, epochs and counts: few rows, folded by key.
3. `history_stage` follows the partitions, with what became of the brokers at hand.
4. The other tables are made of these by Spark, the derived ones of the tables as written.
5. Everything is put in its place when all of it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics import tables as t
from analytics.cluster_facts import cluster_frames, cluster_history
from analytics.derived import derive_tables
from analytics.derived.bucket_rows import NEEDED, files_by_bucket
from analytics.derived.bucket_stage import BY_TASKS, BucketFiles
from analytics.figures import ask_figures
from analytics.former_run import (
    BYTES_PER_BUCKET,
    GOES_ON_WITH,
    OPEN,
    PROBLEMS,
    SMALL,
    FormerRun,
    read_last_batch,
    remaining_splits,
    remove_folder,
    save_former,
)
from analytics.history_stage import PARTITION_TABLES, FollowPlan, follow_buckets
from analytics.kind_files import Source, write_kinds
from analytics.kinds import of_kind
from analytics.layout import Layout
from analytics.output import BYTES_PER_FILE, OutputDir
from analytics.page.report_page import report_page
from analytics.progress import Progress
from analytics.replay import (
    Overview,
    broker_states,
    effective_rows,
    history_input,
    overview,
    sync_points,
)
from analytics.reports import text_of
from analytics.scan import SCANNED, ScanPlan, scan
from analytics.session import few_rows
from analytics.table import Table
from analytics.transactions import Dropped

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
"""Tables that tasks write by themselves where they may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a replay leaves: the folder of each table, and the report as text and as a page."""

    tables: dict[str, str]
    report: str
    page: str
    """Path of the page."""


def run(
    spark: SparkSession, layout: Layout, output: OutputDir, former: FormerRun | None = None
) -> ReplayResult:
    """Replay a log into tables.

    Args:
        spark: The session.
        layout: The log.
        output: Where the tables go; prepared.
        former: The run to go on from; None to read everything.
    """
    with Progress(spark) as progress:
        return _Run(spark, layout, output, progress, former).run()


class _Run:
    """The state of one run."""

    def __init__(
        self,
        spark: SparkSession,
        layout: Layout,
        output: OutputDir,
        progress: Progress,
        former: FormerRun | None,
    ) -> None:
        self.spark = spark
        self.layout = layout
        self.output = output
        self.progress = progress
        self.former = former
        self.since = 0 if former is None else former.next_offset
        wanted = max(1, -(-layout.size_bytes // BYTES_PER_BUCKET))
        self.buckets = wanted if former is None else former.buckets
        self.kept: list[DataFrame] = []
        self.ended: dict[str, dict[str, str]] = {}
        """For each table, its files that do not change any more, and where their rows are from."""
        self.ends: list[tuple[int, str, int]] = []
        """Last offset, file and position of the last batch of each split."""

    def run(self) -> ReplayResult:
        try:
            return self._run()
        finally:
            for frame in self.kept:
                frame.unpersist()

    def _run(self) -> ReplayResult:
        layout, output, spark = self.layout, self.output, self.spark
        with few_rows(spark):
            frames = self._write_base()
        self.progress.stage("deriving tables")
        made = {table.name: output.written(table, spark) for table in (*frames, *DIRECT_TABLES)}
        self._write_derived(made)
        self.progress.stage("report")
        written = {table.name: output.written(table, spark) for table in output.tables}
        figures = ask_figures(written)
        page = output.write_page(report_page(figures, layout.source))
        return ReplayResult(tables=output.put_in_place(), report=text_of(figures), page=page)

    def _write_base(self) -> tuple[Table, ...]:
        """Write the tables that are no others' consequences; return those that Spark wrote."""
        layout, output, spark = self.layout, self.output, self.spark
        self.progress.stage("reading the log")
        scanned = self._keep(scan(spark, self._scan_plan()))
        known = scanned if self.former is None else scanned.unionByName(self._former_rows())
        seen = overview(known, layout)
        rows = effective_rows(known, layout, seen.dropped)
        self.progress.stage("following brokers")
        syncs = sync_points(layout)
        folded = self._keep(cluster_history(rows, syncs))
        frames = cluster_frames(folded, of_kind(known, "count"))
        self.progress.stage("following partitions")
        follow_plan = FollowPlan(
            syncs=syncs,
            # What lies before the snapshot that the replay starts from has no known begin.
            dropped=(Dropped(0, layout.replay_from), *seen.dropped),
            brokers=broker_states(of_kind(folded, "broker")),
            parts=output.parts(self.since),
            since=self.since,
            former=None if self.former is None else str(output.former_state / OPEN),
            keep_open=str(output.state / OPEN) if output.direct else None,
        )
        events = history_input(known, rows, seen, self.buckets, layout)
        followed = self._keep(follow_buckets(events, self.buckets, follow_plan))
        of_partitions = self._problems_of_partitions(followed)
        problems = of_kind(followed, "problem").unionByName(of_partitions)
        problems = problems.unionByName(of_kind(folded, "problem"))
        frames[t.PROBLEMS] = self._problems(known, seen, problems)
        if output.direct:
            self._accept(scanned, folded, followed)
            frames = {table: frame for table, frame in frames.items() if table not in OF_CLUSTER}
            partitions = output.written(t.PARTITIONS, spark)
        else:
            frames |= self._through_spark(followed)
            frames[t.TOPIC_HISTORY] = of_kind(followed, "topic")
            frames[t.BROKER_HISTORY] = of_kind(folded, "broker")
            partitions = frames[t.PARTITIONS]
        frames[t.TOPICS] = topics(followed, partitions)
        self.progress.stage("writing tables")
        output.write(frames, layout.size_bytes)
        if output.direct:
            self._leave_state(known, seen, of_partitions)
        return tuple(frames)

    def _write_derived(self, made: Mapping[str, DataFrame]) -> None:
        output = self.output
        parts = output.parts()
        files = None
        if parts is not None:
            files = BucketFiles(files=files_by_bucket(parts.folder, NEEDED), parts=parts)
        derived = derive_tables(made, files)
        of_buckets = self._keep(derived.of_buckets)
        if files is not None:
            output.accept(BY_TASKS, [*_files(of_buckets), *_files(derived.of_failures)])
        if files is None:
            output.write(derived.frames, self.layout.size_bytes)
            return
        with few_rows(self.spark):
            output.write(derived.frames, self.layout.size_bytes)

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
        return (
            self.spark.read.schema(SCANNED)
            .parquet(_uri(self.output.former_state / SMALL))
            .where(~F.coalesce(read_again, F.lit(False)) & ~F.coalesce(gone, F.lit(False)))
        )

    def _problems_of_partitions(self, followed: DataFrame) -> DataFrame:
        columns = t.PROBLEMS.schema.names
        found = of_kind(followed, "partition_problem").select(*columns)
        if self.former is None:
            return found
        known = self.spark.read.schema(t.PROBLEMS.schema).parquet(
            _uri(self.output.former_state / PROBLEMS)
        )
        return known.unionByName(found)

    def _accept(self, scanned: DataFrame, folded: DataFrame, followed: DataFrame) -> None:
        """Take the files of this run, and those of the former that still count."""
        files = [*_files(scanned), *_files(followed)]
        parts = self.output.parts(self.since)
        assert parts is not None
        tasks = 1 + self.layout.size_bytes // BYTES_PER_FILE
        for rows, tables in ((folded, OF_CLUSTER), (followed, OF_TOPICS)):
            files += write_kinds(rows, tables, parts, tasks=tasks).collect()
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
        for row in of_kind(scanned, "end").collect():
            self.ends.append((row["last_offset"], row["file"], row["position"]))

    def _leave_state(self, known: DataFrame, seen: Overview, of_partitions: DataFrame) -> None:
        """Leave what the next run needs, if it can go on from here."""
        layout, folder = self.layout, self.output.state
        problems = self.output.written(t.PROBLEMS, self.spark).select("kind").distinct().collect()
        kinds = {row["kind"] for row in problems}
        last = self.former.last if self.former is not None else None
        if self.ends:
            _, file, position = max(self.ends)
            last = read_last_batch(layout.source, file, position)
        is_open = any(end == layout.end_offset for _, end in seen.dropped)
        if last is None or is_open or not kinds <= GOES_ON_WITH:
            remove_folder(folder)
            return
        kept = known.where(F.col("kind").isin("row", "wide", "count"))
        kept.coalesce(1 + layout.size_bytes // BYTES_PER_FILE).write.parquet(_uri(folder / SMALL))
        of_partitions.coalesce(1).write.parquet(_uri(folder / PROBLEMS))
        save_former(
            folder,
            FormerRun(
                source=layout.source,
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

    def _through_spark(self, followed: DataFrame) -> dict[Table, DataFrame]:
        """Return the tables that tasks would write by themselves."""
        source = (
            self.spark.read.format("kraft-metadata")
            .load(self.layout.source)
            .where(F.col("problem").isNull())
            .withColumn("raw", F.when(F.col("payload").isNull(), F.col("value")))
        )
        return {
            t.RECORDS: source.where(~F.col("snapshot")),
            t.SNAPSHOT_RECORDS: source.where("snapshot"),
            **{table: of_kind(followed, table.name) for table in PARTITION_TABLES},
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
        return found.unionByName(self.spark.createDataFrame(values, t.PROBLEMS.schema))


def topics(followed: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return the topics that still exist."""
    still = F.col("valid_to_offset").isNull()
    counts = partitions.groupBy("topic_id").agg(
        F.count("*").alias("partitions"),
        F.max(F.when(F.col("partition") == 0, F.size("replicas"))).alias("replication_factor"),
    )
    min_isr = of_kind(followed, "min_isr").where(still).select("topic_id", "min_insync_replicas")
    return (
        of_kind(followed, "topic")
        .where(still)
        .join(counts, "topic_id", "left")
        .join(min_isr, "topic_id", "left")
        .withColumn("partitions", F.coalesce("partitions", F.lit(0)))
    )


def _uri(path: Path) -> str:
    return path.as_uri()


def _files(rows: DataFrame) -> list[Row]:
    return list(of_kind(rows, "file").collect())
