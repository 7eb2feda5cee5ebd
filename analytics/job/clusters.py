"""A replay of any number of clusters into one output directory.

What has not changed since the run before stays where it is; of the others each is replayed by
itself (`job.run`), a few at a time. All of them are put in their places at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession

from analytics.ask.broker_logs import LogLine
from analytics.bytes.layout import Layout
from analytics.bytes.log_copies import LogCopy
from analytics.bytes.named_logs import Archive, Inputs, Stamp
from analytics.fold.min_insync import AssumedMinIsr
from analytics.job.former_run import FormerRun, load_former, load_inputs, save_inputs
from analytics.job.inputs import clusters_of, read_layouts, unpack_archives
from analytics.job.output import REPORTS, OutputDir
from analytics.job.progress import Progress
from analytics.job.run import run
from analytics.job.session import prepare
from analytics.page.report_figures import Asked, Figures
from analytics.page.report_page import FILE_NAME, report_page
from analytics.page.report_text import ranking_text, text_of
from analytics.page.start_page import ClusterSummary, ranked, start_page, summary_of
from analytics.store.store import AT_ONCE
from analytics.tables.catalog import LOGS

CLUSTERS_AT_ONCE_MAX = 8
"""Each keeps a thread of the driver; while one plans, others compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterResult:
    """The report of one cluster, as text, and the path of its page."""

    report: str
    page: str
    figures: Figures | None
    """What the report is made of; None if nothing was read and it is that of the run before."""
    summary: ClusterSummary

    @property
    def is_new(self) -> bool:
        """Whether anything was read."""
        return self.figures is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a replay leaves: the folder of each table, and the reports."""

    tables: dict[str, str]
    clusters: dict[str, ClusterResult]
    ran_on: str
    """Spark's master, and how many tasks ran at once there."""
    start: str | None = None
    """Path of the start page, where there are several clusters."""

    @property
    def report(self) -> str:
        """The reports of all clusters, one behind the other; first, which of them is worst."""
        if len(self.clusters) == 1:
            return next(iter(self.clusters.values())).report
        ranking = ranking_text({name: self.clusters[name].summary.facts for name in self.ranking})
        parts = [f"Cluster      {name}\n{one.report}" for name, one in self.clusters.items()]
        return "\n".join([ranking, *parts])

    @property
    def ranking(self) -> list[str]:
        """The names of the clusters, the worst first."""
        return ranked({name: one.summary for name, one in self.clusters.items()})

    @property
    def pages(self) -> list[str]:
        """Paths of the pages, that to start from first."""
        start = [] if self.start is None else [self.start]
        return start + [one.page for one in self.clusters.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What a user asks of a replay besides the logs."""

    assumed: AssumedMinIsr | None = None
    """`min.insync.replicas` where the log does not say."""
    broker_logs: Sequence[LogLine] = ()
    """What brokers wrote of their directories."""
    full: bool = False
    """Whether everything is read, also where only what is new would do."""
    asked: Asked = field(default_factory=Asked)
    """What the reports are asked for."""
    with_figures: bool = False
    """Whether the figures are needed also of clusters that have not changed."""


def replay_clusters(
    spark: SparkSession, inputs: Inputs, output: OutputDir, options: ReplayOptions
) -> ReplayResult:
    """Replay every cluster that inputs hold.

    Args:
        spark: The session.
        inputs: What was found.
        output: Where the tables go; prepared.
        options: What is asked for.

    Raises:
        ReplayInputError: an archive cannot be read, or two logs would get one label.
    """
    with Progress(spark) as progress:
        one = _Replay(spark, inputs, output, options, progress)
        return one.run()


class _Replay:
    """The state of one replay of clusters."""

    def __init__(
        self,
        spark: SparkSession,
        inputs: Inputs,
        output: OutputDir,
        options: ReplayOptions,
        progress: Progress,
    ) -> None:
        self.spark = spark
        self.inputs = inputs
        self.output = output
        self.options = options
        self.progress = progress
        names = output.clusters()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(partial(load_inputs, output.store), names))
        self.known = {name: one for name, one in zip(names, found, strict=True) if one is not None}

    def run(self) -> ReplayResult:
        self.progress.stage("looking at the logs")
        clusters = self._clusters()
        pages = _pages(clusters)
        changed = {
            name: copies
            for name, copies in clusters.items()
            if not self._is_known(name, copies, pages[name])
        }
        layouts = read_layouts(self.spark, changed)
        at_once = min(len(changed), CLUSTERS_AT_ONCE_MAX) or 1
        done: dict[str, ClusterResult] = {}
        with ThreadPoolExecutor(at_once) as pool:
            jobs = {
                name: pool.submit(
                    self._replay, name, copies, layouts[name], pages[name], alone=at_once == 1
                )
                for name, copies in changed.items()
            }
            for name, job in jobs.items():
                done[name] = job.result()
        for name in clusters:
            if name not in changed:
                known = self.known[name]
                page = f"{self.output.path}/{pages[name]}"
                done[name] = ClusterResult(
                    report=known["report"], page=page, figures=None, summary=known["summary"]
                )
        start = self._write_start(done, pages) if len(clusters) > 1 else None
        self.progress.stage("putting tables in their places")
        tables = self.output.put_in_place(clusters)
        context = self.spark.sparkContext
        return ReplayResult(
            tables=tables,
            clusters={name: done[name] for name in clusters},
            ran_on=f"{context.master}, {context.defaultParallelism} tasks at once",
            start=start,
        )

    def _write_start(self, done: Mapping[str, ClusterResult], pages: Mapping[str, str]) -> str:
        summaries = {name: one.summary for name, one in done.items()}
        return self.output.write_page(start_page(summaries, pages))

    def _clusters(self) -> Mapping[str, Sequence[LogCopy]]:
        """Return the copies of each cluster; those of clusters that changed are unpacked."""
        archives, found = list(self.inputs.archives), list(self.inputs.found)
        remembered: dict[tuple[str | None, Stamp], list[LogCopy]] = {}
        for known in self.known.values():
            for copy in known["copies"]:
                remembered.setdefault((copy.archive, copy.stamp), []).append(copy)
        packed: list[Archive] = []
        fresh: list[Archive] = []
        for one in archives:
            is_known = (one.place.source, one.stamp) in remembered
            (packed if is_known else fresh).append(one)
        found += unpack_archives(self.spark, fresh, self._scratch())
        for one in packed:
            copies = remembered[one.place.source, one.stamp]
            found += [(one.place.label, replace(copy, folder="")) for copy in copies]
        clusters = clusters_of(found)
        pages = _pages(clusters)
        needed = {
            copy.archive
            for name, copies in clusters.items()
            if not self._is_known(name, copies, pages[name])
            for copy in copies
            if not copy.folder
        }
        if not needed:
            return clusters
        again = [one for one in packed if one.place.source in needed]
        left = [one for one in found if one[1].folder or one[1].archive not in needed]
        unpacked = unpack_archives(self.spark, again, f"{self._scratch()}/again")
        return clusters_of([*left, *unpacked])

    def _scratch(self) -> str:
        store = self.output.scratch_store
        return str(store.local or store.source)

    def _asked(self, page: str) -> dict[str, object]:
        """Return what changes tables and reports besides the logs: options, columns, the page."""
        assumed = self.options.assumed or AssumedMinIsr()
        columns = "".join(f"{table.name} {table.schema}\n" for table in self.output.tables)
        return {
            "min_insync_replicas": [assumed.value, assumed.source],
            "columns": hashlib.sha256(columns.encode()).hexdigest(),
            "objective": self.options.asked.objective,
            "paths": dict(self.options.asked.paths),
            "page": page,
        }

    def _is_known(self, name: str, copies: Sequence[LogCopy], page: str) -> bool:
        """Return whether the run before this one has left all that this one would."""
        known = self.known.get(name)
        store = self.output.store
        return (
            known is not None
            and not self.options.full
            and not self.options.with_figures
            and not self.options.broker_logs
            and known["asked"] == self._asked(page)
            and _seen(known["copies"]) == _seen(copies)
            and store.is_folder(LOGS.folder(name))
            and store.exists(page)
        )

    def _replay(
        self, name: str, copies: Sequence[LogCopy], layout: Layout, page: str, *, alone: bool
    ) -> ClusterResult:
        output = self.output.cluster(name)
        former: FormerRun | None = None
        if not self.options.full and layout.stays:
            former = load_former(output.store, name, layout, self.options.assumed)
        with _session(self.spark, layout.size_bytes, alone=alone) as spark:
            found = run(
                spark,
                layout,
                output,
                self.progress,
                former,
                self.options.assumed,
                self.options.broker_logs,
                self.options.asked,
            )
        text, summary = text_of(found.figures), summary_of(found.figures)
        start = None if page == FILE_NAME else f"../{FILE_NAME}"
        path = self.output.write_page(report_page(found.figures, found.source, name, start), page)
        if not self.options.broker_logs:
            save_inputs(output.scratch_store, name, copies, self._asked(page), text, summary)
        return ClusterResult(report=text, page=path, figures=found.figures, summary=summary)


@contextmanager
def _session(spark: SparkSession, size_bytes: int, *, alone: bool) -> Iterator[SparkSession]:
    """Give a session whose settings nobody else changes."""
    own = spark if alone else spark.newSession()
    prepare(own, size_bytes)
    yield own


def _pages(clusters: Collection[str]) -> dict[str, str]:
    """Return the name of the page of each cluster."""
    is_one = len(clusters) == 1
    return {name: FILE_NAME if is_one else f"{REPORTS}/{name}.html" for name in clusters}


def _seen(copies: Sequence[LogCopy]) -> list[tuple[str, Stamp]]:
    return sorted((copy.source, copy.stamp) for copy in copies)
