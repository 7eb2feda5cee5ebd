"""All tables in this process, without Java: the log as rows of Arrow, and DuckDB over them.

`records` and `snapshot_records` are written while the log is read. Input of the other tables stays
in memory where the log is small; of a large log it goes through files. Clusters are taken together,
as many as are not large: one plan answers for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.ask.broker_logs import LogLine
from analytics.engines.duck import DuckEngine
from analytics.engines.log_views import LINES, LOG_ROWS, log_rows, log_views
from analytics.job.engine import RunOptions, together
from analytics.job.output import OutputDir
from analytics.read.arrow_rows import problem_rows
from analytics.read.layout import Layout, Split
from analytics.read.log_copies import LogCopy
from analytics.read.log_facts import log_facts
from analytics.read.named_logs import Archive, layout_of, unpack_archive
from analytics.read.split_rows import COLUMNS, read_split
from analytics.store.part_files import PartWriters
from analytics.store.store import Store
from analytics.tables import catalog as t
from analytics.tables.table import CLUSTER, Table

IN_MEMORY_BYTES = 64 << 20
"""Of the logs that are taken together; one that is larger goes through files."""
UNPACKED = "inputs"
"""Folder of the scratch folder that archives are unpacked to."""

READERS = 2
"""Splits that are read side by side: NumPy and Arrow mostly work beside Python's lock."""

_HELD_BYTES = 64 << 20
"""Rows of records that are held back to be put in order."""
_OF_RECORDS = (t.RECORDS, t.SNAPSHOT_RECORDS)


class LocalTables:
    """Writes the tables of clusters, and knows nothing afterwards."""

    name = "this process"

    def unpack(self, archives: Sequence[Archive], scratch: str) -> list[tuple[str | None, LogCopy]]:
        """Unpack archives; returns the copies in them, with the labels that were given."""
        return [
            copy
            for number, archive in enumerate(archives)
            for copy in unpack_archive(archive, scratch, f"{UNPACKED}/{number}")
        ]

    def write(
        self, clusters: Mapping[str, Sequence[LogCopy]], output: OutputDir, options: RunOptions
    ) -> None:
        """Write every table of every cluster into the scratch folder of the output."""
        layouts = {name: layout_of(tuple(copies)) for name, copies in clusters.items()}
        sizes = {name: layout.size_bytes for name, layout in layouts.items()}
        for names in together(sizes, IN_MEMORY_BYTES):
            write_tables({name: layouts[name] for name in names}, output, options)
        output.fill(clusters)

    def close(self) -> None:
        """Hear that no more work comes."""


def write_tables(layouts: Mapping[str, Layout], output: OutputDir, options: RunOptions) -> None:
    """Write the tables of some clusters, all of them by one plan."""
    size = sum(layout.size_bytes for layout in layouts.values())
    with ExitStack() as opened:
        folder = None
        if size > IN_MEMORY_BYTES:
            folder = Path(opened.enter_context(TemporaryDirectory(prefix="jbod-replay-")))
        rows = _LogRows(folder)
        for name, layout in layouts.items():
            _read(layout, name, output.scratch_store, rows)
        views = log_views(log_facts(layouts.items()), options.assumed)
        views["log_rows"] = rows.source()
        views["given_broker_log_lines"] = _lines(list(layouts), options.broker_logs)
        engine = opened.enter_context(DuckEngine(views))
        names = [table.name for table in t.TABLES if table not in _OF_RECORDS]
        engine.make_all(names, partial(_write, output))


class _LogRows:
    """The rows of logs that tables are made of: in memory, or as files in a folder."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.rows = [LOG_ROWS.empty_table()]
        self.files: list[str] = []

    def add(self, rows: pa.Table) -> None:
        if self.folder is None:
            self.rows.append(rows)
            return
        path = str(self.folder / f"{len(self.files):06d}.parquet")
        pq.write_table(rows, path, compression="lz4")
        self.files.append(path)

    def source(self) -> Any:
        """Return what an engine takes as a view."""
        return self.files or pa.concat_tables(self.rows)


def _read(layout: Layout, name: str, store: Store, rows: _LogRows) -> None:
    """Read a log: write the tables of its records, and keep what the others are made of."""
    splits = [replace(split, cluster=name) for split in layout.splits]
    problems = log_rows(problem_rows(layout, name, COLUMNS))
    rows.add(pa.Table.from_batches([problems], LOG_ROWS))
    writers = partial(PartWriters, store, name)
    with ThreadPoolExecutor(READERS, thread_name_prefix="reader") as readers:
        for kept in readers.map(partial(_read_split, writers), count(), splits):
            rows.add(kept)


def _read_split(writers_of: Callable[[str], PartWriters], number: int, split: Split) -> pa.Table:
    """Write the records of a split; returns what the other tables are made of."""
    table = t.RECORDS if split.snapshot is None else t.SNAPSHOT_RECORDS
    with writers_of(f"{number:05d}") as writers:
        records = _Records(table, writers)
        kept = []
        for batch in read_split(split, COLUMNS):
            records.add(batch)
            kept.append(log_rows(batch))
        records.flush()
    return pa.Table.from_batches(kept, LOG_ROWS)


class _Records:
    """Rows of a table of records, held back until they can be put in order.

    A row that is not read by columns comes at the end of a split, out of its place.
    """

    def __init__(self, table: Table, writers: PartWriters) -> None:
        self.table = table
        self.writers = writers
        self.held: list[pa.Table] = []
        self.held_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch."""
        rows = _record_rows(batch)
        self.held.append(rows)
        self.held_bytes += rows.nbytes
        if self.held_bytes >= _HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if not self.held:
            return
        rows = pa.concat_tables(self.held)
        offsets = np.asarray(rows.column("offset"))
        if (offsets[1:] < offsets[:-1]).any():
            rows = rows.take(pa.array(np.argsort(offsets, kind="stable")))
        self.writers.write(self.table, rows)
        self.held, self.held_bytes = [], 0


def _record_rows(batch: pa.RecordBatch) -> pa.Table:
    """Return the rows of a table of records; a problem is none of its rows."""
    problem = batch.column("problem")
    if problem.null_count < len(batch):
        batch = batch.filter(pc.is_null(problem))
    payload, value = batch.column("payload"), batch.column("value")
    columns = {name: batch.column(name) for name in batch.schema.names}
    nothing = pa.nulls(len(batch), value.type)
    columns["raw"] = (
        nothing if not payload.null_count else pc.if_else(pc.is_null(payload), value, nothing)
    )
    return pa.table({column.name: columns[column.name] for column in t.RECORDS.columns})


def _lines(clusters: Sequence[str], lines: Sequence[LogLine]) -> pa.Table:
    rows = [{CLUSTER: cluster, **asdict(line)} for cluster in clusters for line in lines]
    return pa.Table.from_pylist(rows, LINES)


def _write(output: OutputDir, name: str, rows: pa.Table) -> None:
    """Write the rows of a table, which are ordered by cluster."""
    table = t.BY_NAME[name]
    own, begin = rows.drop_columns([CLUSTER]), 0
    for cluster, size in map(dict.values, pc.value_counts(rows.column(CLUSTER)).to_pylist()):
        output.put(cluster, table, own.slice(begin, size))
        begin += size
