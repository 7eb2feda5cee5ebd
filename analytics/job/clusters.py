"""A replay of any number of clusters into one output directory.

A cluster that has not changed since the run before keeps its tables where they are; an engine makes
the tables of all others at once, and each gets its report: every figure is asked once for many
clusters. All of them are put in their places at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from analytics.job.engine import Engine, RunOptions, together
from analytics.job.known_inputs import load_inputs, save_inputs
from analytics.job.output import REPORTS, OutputDir
from analytics.job.progress import Progress
from analytics.page.report_figures import Figures, ask_figures
from analytics.page.report_page import FILE_NAME, report_page
from analytics.page.report_text import ranking_text, text_of
from analytics.page.start_page import ClusterSummary, ranked, start_page, summary_of
from analytics.read.log_copies import LogCopy, labelled
from analytics.read.merged_layout import SEVERAL
from analytics.read.named_logs import Archive, Inputs, Stamp
from analytics.store.store import AT_ONCE
from analytics.store.stored_tables import StoredTables
from analytics.tables.catalog import LOGS
from analytics.tables.sql_files import sql_files

ASKED_BYTES = 16 << 20
"""Of the logs of clusters that are asked together: this process holds the rows of their reports."""

LOCAL_IS_SOONER_BYTES = 64 << 20
"""Up to this size, a million records, it was measured; the more cores there are, the less it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions(RunOptions):
    """Options of a user for a replay of clusters besides the logs."""

    objective: float | None = None
    """Share of time, 0 to 1, in which partitions should be available."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Where log directories lie, by their ids."""
    full: bool = False
    """Whether unchanged clusters are read again."""
    with_figures: bool = False
    """Whether the figures are needed, also of clusters that have not changed."""
    catalog: str | None = None
    """Catalog and namespace, of the Spark session, that tables are saved in, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterResult:
    """The report of one cluster, as text, and the path of its page."""

    report: str
    page: str
    summary: ClusterSummary
    figures: Figures | None = None
    """Figures of the report, where options ask for them."""
    is_new: bool = True
    """Whether this run made the report; else that of the run before still holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """Result of a replay: the folder of each table, and the reports."""

    tables: dict[str, str]
    clusters: dict[str, ClusterResult]
    ran_on: str
    """The engine that did the work."""
    start: str | None = None
    """Path of the start page, where there are several clusters."""
    size_bytes: int = 0
    """Of the logs that it was given."""

    @property
    def engine(self) -> str:
        """The engine, and whether the local one would have finished sooner."""
        is_on_one_machine = self.ran_on.startswith("Spark ") and ", local" in self.ran_on
        if is_on_one_machine and self.size_bytes <= LOCAL_IS_SOONER_BYTES:
            return f"{self.ran_on}; --engine local would have finished sooner"
        return self.ran_on

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


def replay_clusters(
    engine: Engine, inputs: Inputs, output: OutputDir, options: ReplayOptions
) -> ReplayResult:
    """Replay every cluster that inputs hold.

    Raises:
        ReplayInputError: an archive cannot be read, or two logs would get one label.
    """
    with Progress() as progress:
        return _Replay(engine, inputs, output, options, progress).run()


class _Replay:
    """The state of one replay of clusters."""

    def __init__(
        self,
        engine: Engine,
        inputs: Inputs,
        output: OutputDir,
        options: ReplayOptions,
        progress: Progress,
    ) -> None:
        self.engine = engine
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
        if changed:
            self.progress.stage("making tables")
            self.engine.write(changed, self.output, self.options)
        self.engine.close()
        self.progress.stage("report")
        done: dict[str, ClusterResult] = {}
        sizes = {name: sum(copy.size_bytes for copy in copies) for name, copies in changed.items()}
        for names in together(sizes, ASKED_BYTES):
            done |= self._reports({name: changed[name] for name in names}, pages)
        for name in clusters:
            if name not in changed:
                known = self.known[name]
                page = f"{self.output.path}/{pages[name]}"
                done[name] = ClusterResult(
                    report=known["report"], page=page, summary=known["summary"], is_new=False
                )
        start = None
        if len(clusters) > 1:
            summaries = {name: one.summary for name, one in done.items()}
            start = self.output.write_page(start_page(summaries, pages))
        self.progress.stage("putting tables in their places")
        tables = self.output.put_in_place(clusters)
        return ReplayResult(
            tables=tables,
            clusters={name: done[name] for name in clusters},
            ran_on=self.engine.name,
            size_bytes=self.inputs.size_bytes,
            start=start,
        )

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
        found += self.engine.unpack(fresh, self._scratch())
        for one in packed:
            copies = remembered[one.place.source, one.stamp]
            found += [(one.place.label, replace(copy, folder="")) for copy in copies]
        clusters = labelled(found)
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
        unpacked = self.engine.unpack(again, f"{self._scratch()}/again")
        return labelled([*left, *unpacked])

    def _scratch(self) -> str:
        store = self.output.scratch_store
        return str(store.local or store.source)

    @cached_property
    def _asked(self) -> dict[str, object]:
        """Options and texts that change tables and reports, besides the logs and the page."""
        assumed = self.options.assumed
        texts = "".join(f"{one.name} {one.table} {one.sql}\n" for one in sql_files().values())
        return {
            "min_insync_replicas": [assumed.value, assumed.source],
            "broker_logs": hashlib.sha256(repr(self.options.broker_logs).encode()).hexdigest(),
            "tables": hashlib.sha256(texts.encode()).hexdigest(),
            "objective": self.options.objective,
            "paths": dict(self.options.paths),
        }

    def _is_known(self, name: str, copies: Sequence[LogCopy], page: str) -> bool:
        """Return whether the run before this one has left all that this one would."""
        known = self.known.get(name)
        store = self.output.store
        return (
            known is not None
            and not self.options.full
            and not self.options.with_figures
            and known["asked"] == self._asked | {"page": page}
            and _seen(known["copies"]) == _seen(copies)
            and store.is_folder(LOGS.folder(name))
            and store.exists(page)
        )

    def _reports(
        self, clusters: Mapping[str, Sequence[LogCopy]], pages: Mapping[str, str]
    ) -> dict[str, ClusterResult]:
        """Write the reports of some clusters."""
        options, written = self.options, StoredTables(self.output.scratch_store, clusters)
        figures = ask_figures(written, clusters, options.objective, options.paths)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(
                lambda name: self._report(name, clusters[name], pages[name], figures[name]),
                clusters,
            )
            return dict(zip(clusters, found, strict=True))

    def _report(
        self, name: str, copies: Sequence[LogCopy], page: str, figures: Figures
    ) -> ClusterResult:
        text, summary = text_of(figures), summary_of(figures)
        start = None if page == FILE_NAME else f"../{FILE_NAME}"
        source = SEVERAL.join(copy.source for copy in copies)
        path = self.output.write_page(report_page(figures, source, name, start), page)
        scratch = self.output.scratch_store
        save_inputs(scratch, name, copies, self._asked | {"page": page}, text, summary)
        kept = figures if self.options.with_figures else None
        return ClusterResult(report=text, page=path, figures=kept, summary=summary)


def _pages(clusters: Collection[str]) -> dict[str, str]:
    """Return the name of the page of each cluster."""
    is_one = len(clusters) == 1
    return {name: FILE_NAME if is_one else f"{REPORTS}/{name}.html" for name in clusters}


def _seen(copies: Sequence[LogCopy]) -> list[tuple[str, Stamp]]:
    return sorted((copy.source, copy.stamp) for copy in copies)
