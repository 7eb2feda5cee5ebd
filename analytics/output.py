"""Where tables are written: each as a whole, beside what else lies in the output directory.

Everything is written into a folder of its own below `.jbod-replay-<process id>` first and put in
its place at the end, so that nobody reads half a table and a failed run leaves the old ones. On a
file system of this machine tasks write the large tables by themselves (`analytics.part_files`); on
another one, and for small tables, Spark's own writer does it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.errors import ReplayInputError
from analytics.file_system import FileSystem, HadoopFiles, LocalFiles
from analytics.former_run import STATE, link_files
from analytics.log_files import local_path
from analytics.page.report_page import FILE_NAME, MARK, MARK_WITHIN_BYTES
from analytics.part_files import PartFiles, empty_file
from analytics.tables import Table, conform

WRITERS = 4
"""Tables that are written at the same time; each is a few small Spark jobs."""

BYTES_PER_FILE = 64 << 20

_OURS = (".parquet", ".crc")
_SUCCESS = "_SUCCESS"
_SCRATCH = ".jbod-replay-"


class OutputDir:
    """The output directory of one run.

    Args:
        path: The directory, on this machine or as a path of a Hadoop file system.
        tables: The tables that the run writes.
        direct: Whether tasks may write files by themselves.
    """

    def __init__(self, path: str, tables: Iterable[Table], *, direct: bool = True) -> None:
        self.path = path.rstrip("/") or path
        self.tables = tuple(tables)
        self.local = local_path(path)
        self.direct = direct and self.local is not None
        self.files: FileSystem = LocalFiles()
        if self.local is not None:
            self.path = str(self.local)
        self.scratch = f"{self.path}/{_SCRATCH}{os.getpid()}"

    def parts(self, since: int = 0) -> PartFiles | None:
        """Return where tasks write files by themselves; None if they may not.

        Args:
            since: First offset that the run reads.
        """
        if not self.direct:
            return None
        return PartFiles(folder=str(Path(self.scratch).absolute()), since=since)

    def prepare(self, input_dir: str | None, spark: SparkSession | None = None) -> None:
        """Check that tables can be written, before anything expensive is done.

        Args:
            input_dir: The metadata log directory, which nothing may be written into; None if none
                is read.
            spark: Session; needed for an output that is not on this machine.

        Raises:
            ReplayInputError: the directory cannot be written, lies in the log, or holds something
                else in the place of a table.
        """
        if self.local is None:
            assert spark is not None
            self.files = HadoopFiles(spark, self.path)
        if input_dir is not None:
            self._refuse_inside(input_dir)
        for table in self.tables:
            self._refuse_foreign(f"{self.path}/{table.name}")
        self._refuse_foreign_page(f"{self.path}/{FILE_NAME}")
        try:
            self.files.make_folder(self.path)
            self._remove_left_overs()
            self.files.make_folder(self.scratch)
        except OSError as error:
            reason = error.strerror or error
            raise ReplayInputError(f"output {self.path} is not writable: {reason}") from error

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
            link_files(names, Path(self.path) / table, Path(self.scratch) / table)
            wanted[table] |= set(names)
        for row in files:
            wanted[row["table"]].add(row["name"])
        for known in tables:
            folder = f"{self.scratch}/{known.name}"
            for name in self.files.names(folder):
                if name not in wanted[known.name]:
                    self.files.remove(f"{folder}/{name}")
            if not wanted[known.name]:
                empty_file(Path(folder), to_arrow_schema(known.schema, timezone="UTC"))

    @property
    def state(self) -> Path:
        """Folder of what this run leaves for the next; only where tasks write by themselves."""
        return Path(self.scratch).absolute() / STATE

    @property
    def former_state(self) -> Path:
        """Folder of what the run before this one has left."""
        return Path(self.path).absolute() / STATE

    def written(self, table: Table, spark: SparkSession) -> DataFrame:
        """Return a table that this run has written and not yet put in its place."""
        return spark.read.schema(table.schema).parquet(self._url(f"{self.scratch}/{table.name}"))

    def write_page(self, page: str) -> str:
        """Write the report's page; returns where it will be."""
        self.files.write(f"{self.scratch}/{FILE_NAME}", page.encode())
        return f"{self.path}/{FILE_NAME}"

    def put_in_place(self) -> dict[str, str]:
        """Put everything that was written in its place; returns the folder of each table."""
        for name in self.files.names(self.scratch):
            if name.startswith("."):
                continue
            target = f"{self.path}/{name}"
            if self.files.exists(target):
                self.files.rename(target, f"{self.scratch}/{name}.old")
            self.files.rename(f"{self.scratch}/{name}", target)
        return {table.name: f"{self.path}/{table.name}" for table in self.tables}

    def clean_up(self) -> None:
        """Remove what a run leaves besides its tables."""
        self.files.remove(self.scratch)

    def _write_table(self, table: Table, frame: DataFrame, files: int) -> None:
        conformed = conform(frame, table)
        # Cutting a large table by ranges would compute it twice; each file is in order by itself.
        cut = conformed.coalesce(1) if files == 1 else conformed
        ordered = cut.sortWithinPartitions(*table.order)
        ordered.write.parquet(self._url(f"{self.scratch}/{table.name}"))

    def _url(self, path: str) -> str:
        return path if self.local is None else Path(path).absolute().as_uri()

    def _remove_left_overs(self) -> None:
        """Remove what runs left that were killed: their process is gone."""
        for name in self.files.names(self.path):
            owner = name.removeprefix(_SCRATCH)
            if name.startswith(_SCRATCH) and owner.isdecimal() and not self._is_running(int(owner)):
                self.files.remove(f"{self.path}/{name}")

    def _is_running(self, process_id: int) -> bool:
        # Of a process on another machine nothing is known; its folder stays until it is removed.
        return self.local is None or _is_running(process_id)

    def _refuse_inside(self, input_dir: str) -> None:
        source = local_path(input_dir)
        if self.local is None or source is None:
            target, log = self.path, input_dir.rstrip("/")
            inside = target == log or target.startswith(f"{log}/")
        else:
            resolved, source = self.local.resolve(), source.resolve()
            inside = resolved == source or source in resolved.parents
        if inside:
            raise ReplayInputError(f"output {self.path} lies inside the metadata log {input_dir}")

    def _refuse_foreign(self, target: str) -> None:
        """Refuse to replace a folder that holds anything but a table."""
        if not self.files.exists(target):
            return
        if not self.files.is_folder(target) or any(
            not name.endswith(_OURS) and name != _SUCCESS for name in self.files.names(target)
        ):
            raise ReplayInputError(f"{target} is in the way: it is no table of an earlier replay")

    def _refuse_foreign_page(self, target: str) -> None:
        """Refuse to replace a file that no replay has written."""
        if self.files.exists(target) and (
            self.files.is_folder(target)
            or MARK.encode() not in self.files.begin_of(target, MARK_WITHIN_BYTES)
        ):
            raise ReplayInputError(f"{target} is in the way: it is no page of an earlier replay")


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
