"""Where tables are written: each as a whole, beside what else lies in the output directory.

Everything is written into a folder of its own below `.jbod-replay-<process id>` first, by tasks
(`store.part_files`) or, for small tables, by Spark's own writer. What counts is one manifest,
written last: it names what has to be put in its place. A run that is killed before leaves the old
tables; one that is killed behind it leaves the rest of the work to the next run. So nobody who runs
a replay gets a mixture of two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

from pyspark.sql import DataFrame, Row, SparkSession

from analytics.errors import ReplayInputError
from analytics.job.former_run import STATE
from analytics.page.report_page import FILE_NAME, MARK, MARK_WITHIN_BYTES
from analytics.store.part_files import PartFiles, empty_file
from analytics.store.store import Store, is_inside
from analytics.tables.frames import conform, read_parquet
from analytics.tables.table import Table

WRITERS = 4
"""Tables that are written at the same time; each is a few small Spark jobs."""

BYTES_PER_FILE = 64 << 20

MANIFEST = "_replay_manifest.json"
"""In the output while what it names is put in its place."""

_OURS = (".parquet", ".crc")
_SUCCESS = "_SUCCESS"
_SCRATCH = ".jbod-replay-"


class OutputDir:
    """The output directory of one run.

    Args:
        path: The directory, a path or a URI.
        tables: The tables that the run writes.

    Raises:
        ReplayInputError: a URI names no file system that can be reached.
    """

    def __init__(self, path: str, tables: Iterable[Table]) -> None:
        self.tables = tuple(tables)
        self.gone: list[str] = []
        """What is removed when the tables are put in their places."""
        try:
            self.store = Store(path)
            self.path = str(self.store.local or self.store.source)
            self.scratch = f"{_SCRATCH}{os.getpid()}"
            self.scratch_store = Store(f"{self.store.source}/{self.scratch}")
        except (OSError, ValueError) as error:
            raise ReplayInputError(f"output {path} is not writable: {_reason(error)}") from error

    def parts(self, since: int = 0) -> PartFiles:
        """Return where tasks write files.

        Args:
            since: First offset that the run reads.
        """
        store = self.scratch_store
        return PartFiles(folder=str(store.local or store.source), since=since)

    def prepare(self, input_dir: str | None) -> None:
        """Check that tables can be written, before anything expensive is done.

        Args:
            input_dir: The metadata log directory, which nothing may be written into; None if none
                is read.

        Raises:
            ReplayInputError: the directory cannot be written, lies in the log, or holds something
                else in the place of a table.
        """
        if input_dir is not None and is_inside(self.store.source, input_dir):
            raise ReplayInputError(f"output {self.path} lies inside the metadata log {input_dir}")
        try:
            finish_former(self.store)
            for table in self.tables:
                self._refuse_foreign(table.name)
            self._refuse_foreign_page()
            self.store.make_folder()
            self._remove_left_overs()
            self.store.make_folder(self.scratch)
        except OSError as error:
            text = f"output {self.path} is not writable: {_reason(error)}"
            raise ReplayInputError(text) from error

    def write(self, frames: Mapping[Table, DataFrame], size_bytes: int) -> None:
        """Write tables with Spark's own writer.

        Args:
            frames: The tables; columns that a table does not have are left out.
            size_bytes: Size of the log, by which the large tables are cut into files.
        """
        files = 1 + size_bytes // BYTES_PER_FILE
        with ThreadPoolExecutor(WRITERS) as pool:
            jobs = [
                pool.submit(self._write_table, table, frame, files)
                for table, frame in frames.items()
            ]
            for job in jobs:
                job.result()

    def accept(
        self,
        tables: Iterable[Table],
        files: Iterable[Row],
        former: Mapping[str, Iterable[str]] = MappingProxyType({}),
    ) -> None:
        """Take the files that tasks have written, and no others.

        Args:
            tables: The tables that tasks write; each exists afterwards.
            files: Rows of `scan.FILE`.
            former: Files of the run before this one that go on to belong to tables.
        """
        wanted: dict[str, set[str]] = {table.name: set() for table in tables}
        for table, names in former.items():
            self.scratch_store.make_folder(table)
            for name in names:
                self.store.copy(f"{table}/{name}", f"{self.scratch}/{table}/{name}")
            wanted[table] |= set(names)
        for row in files:
            wanted[row["table"]].add(row["name"])
        for known in tables:
            for name in self.scratch_store.names(known.name):
                if name not in wanted[known.name]:
                    self.scratch_store.remove(f"{known.name}/{name}")
            if not wanted[known.name]:
                empty_file(self.scratch_store, known)

    def state_uri(self, name: str) -> str:
        """Return where this run leaves something for the next."""
        return self.scratch_store.uri(f"{STATE}/{name}")

    def former_state_uri(self, name: str) -> str:
        """Return where the run before this one has left something."""
        return self.store.uri(f"{STATE}/{name}")

    def forget_state(self) -> None:
        """Leave nothing for the next run; what an earlier one left does not fit these tables."""
        self.scratch_store.remove(STATE)
        self.gone = [STATE]

    def written(self, table: Table, spark: SparkSession) -> DataFrame:
        """Return a table that this run has written and not yet put in its place."""
        return read_parquet(spark, table, self.scratch_store.uri(table.name))

    def write_page(self, page: str) -> str:
        """Write the report's page; returns where it will be."""
        self.scratch_store.write(FILE_NAME, page.encode())
        return f"{self.path}/{FILE_NAME}"

    def put_in_place(self) -> dict[str, str]:
        """Put everything that was written in its place; returns the folder of each table."""
        names = [name for name in self.scratch_store.names() if not name.startswith(".")]
        manifest = json.dumps({"scratch": self.scratch, "names": names, "gone": self.gone})
        self.scratch_store.write(f".{MANIFEST}", manifest.encode())
        self.store.move(f"{self.scratch}/.{MANIFEST}", MANIFEST)
        finish_former(self.store)
        return {table.name: f"{self.path}/{table.name}" for table in self.tables}

    def clean_up(self) -> None:
        """Remove what a run leaves besides its tables."""
        if not self.store.exists(MANIFEST):
            self.store.remove(self.scratch)

    def _write_table(self, table: Table, frame: DataFrame, files: int) -> None:
        conformed = conform(frame, table)
        # Cutting a large table by ranges would compute it twice; each file is in order by itself.
        cut = conformed.coalesce(1) if files == 1 else conformed
        ordered = cut.sortWithinPartitions(*table.order)
        ordered.write.parquet(self.scratch_store.uri(table.name))

    def _remove_left_overs(self) -> None:
        """Remove what runs left that were killed: their process is gone."""
        for name in self.store.names():
            owner = name.removeprefix(_SCRATCH)
            if name.startswith(_SCRATCH) and owner.isdecimal() and not self._is_running(int(owner)):
                self.store.remove(name)

    def _is_running(self, process_id: int) -> bool:
        # Of a process on another machine nothing is known; its folder stays until it is removed.
        return self.store.local is None or _is_running(process_id)

    def _refuse_foreign(self, name: str) -> None:
        """Refuse to replace a folder that holds anything but a table."""
        if not self.store.exists(name):
            return
        if not self.store.is_folder(name) or any(
            not file.endswith(_OURS) and file != _SUCCESS for file in self.store.names(name)
        ):
            raise ReplayInputError(
                f"{self.path}/{name} is in the way: it is no table of an earlier replay"
            )

    def _refuse_foreign_page(self) -> None:
        """Refuse to replace a file that no replay has written."""
        if self.store.exists(FILE_NAME) and (
            self.store.is_folder(FILE_NAME)
            or MARK.encode() not in self.store.read(FILE_NAME, MARK_WITHIN_BYTES)
        ):
            raise ReplayInputError(
                f"{self.path}/{FILE_NAME} is in the way: it is no page of an earlier replay"
            )


def finish_former(store: Store) -> None:
    """Put in its place what a run has committed; nothing happens if there is nothing left to do.

    Doing it again does no harm: what is no longer in the scratch folder is in its place.
    """
    if not store.exists(MANIFEST):
        return
    found = json.loads(store.read(MANIFEST))
    scratch = found["scratch"]
    for name in found["names"]:
        new = f"{scratch}/{name}"
        if not store.exists(new):
            continue
        if store.exists(name):
            store.remove(f"{new}.old")
            store.move(name, f"{new}.old")
        store.move(new, name)
    for name in found["gone"]:
        store.remove(name)
    store.remove(MANIFEST)
    store.remove(scratch)


def write_beside(folder: str, frames: Mapping[Table, DataFrame]) -> None:
    """Write tables into a folder, replacing those that are there.

    Raises:
        ReplayInputError: something else is in the way, or the folder cannot be written.
    """
    output = OutputDir(folder, frames)
    output.prepare(None)
    try:
        output.write(frames, 0)
        output.put_in_place()
    finally:
        output.clean_up()


def _reason(error: Exception) -> object:
    return error.strerror if isinstance(error, OSError) and error.strerror else error


def _is_running(process_id: int) -> bool:
    if process_id == os.getpid():
        return False  # its number came round, or an earlier run of this process
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
